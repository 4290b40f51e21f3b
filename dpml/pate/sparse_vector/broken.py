r"""Variants of the sparse vector technique that are not private, for chapter 08 and the audits. Never use them.

Each function looks like AboveThreshold or Sparse with one thing changed, has been published or printed, and says in
its docstring which two datasets tell its outputs apart. Every query has sensitivity 1; `epsilon` is what the variant
claims. The losses named here are exact (`dpml.pate.sparse_vector.outcomes`), and the tests compute them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from dpml import arguments
from dpml.pate.sparse_vector import _compared

__all__ = [
    "no_query_noise",
    "no_threshold_noise",
    "printed_sparse",
]


def no_threshold_noise(stream: ArrayLike, *, threshold: float, epsilon: float, rng: np.random.Generator) -> list[bool]:
    """Return the bits of AboveThreshold without noise on the threshold. BROKEN: every query costs, not only the last.

    k queries just below the threshold on D and 1 higher on D' that all come out below have a loss of k epsilon/4, for
    any k: 25 at epsilon = 1, k = 100.

    Raises:
        ValueError: if stream does not hold finite numbers, threshold is not finite, epsilon is not in [1e-6,
            1e6] or rng is not a Generator.

    Source: the lecture, "Above Threshold Mechanism", whose summary of the noise leaves the threshold out.
    Printed: the algorithm has Lap(2/epsilon) on the threshold; the bullet that sums it up names only the noise of the
        queries, "Noise added to each query is Lap(0, 4/epsilon)".
    Implemented: as the bullet reads alone; right is the algorithm, `sparse_vector.above_threshold`, with
        Lap(2/epsilon) on the threshold.

    Counterexample: the loss of 100 answers below, at epsilon = 1: each query costs epsilon/4.

    >>> import numpy as np
    >>> from dpml.pate.sparse_vector import broken, outcomes
    >>> ask = {
    ...     "above": [0] * 100,
    ...     "threshold": 0.0,
    ...     "threshold_scale": 0.0,
    ...     "query_scale": 4.0,
    ... }
    >>> d, d_prime = (
    ...     outcomes.outcome_log_probability([x] * 100, **ask)
    ...     for x in (0.0, 1.0)
    ... )
    >>> round(d - d_prime, 9)
    25.0
    >>> asked = {"threshold": 0.0, "epsilon": 1.0}
    >>> rng, said = np.random.default_rng(0), broken.no_threshold_noise
    >>> below = [
    ...     1 - np.mean([said([x], **asked, rng=rng)[0] for _ in range(4000)])
    ...     for x in (0.0, 1.0)
    ... ]
    >>> bool(abs(np.log(below[0] / below[1]) - 0.25) < 0.1)
    True
    """
    values, threshold, epsilon, rng = _checked(stream, threshold, epsilon, rng)
    return [above for _, above in _compared(values, threshold, 0.0, 4.0 / epsilon, 1, rng)]


def no_query_noise(stream: ArrayLike, *, threshold: float, epsilon: float, rng: np.random.Generator) -> list[bool]:
    """Return a bit for every query, comparing exact answers with one noisy threshold. BROKEN: infinite loss.

    Answers (0, 1) on D can come out (below, above); (1, 0) on D' never can.

    Raises:
        ValueError: as `no_threshold_noise`.

    Source: Lyu, Su and Li, "Understanding the sparse vector technique for differential privacy", VLDB 2017,
    Algorithm 5.
    """
    values, threshold, epsilon, rng = _checked(stream, threshold, epsilon, rng)
    noisy = threshold + float(rng.laplace(scale=2.0 / epsilon))
    return [value >= noisy for value in values]


def printed_sparse(
    stream: ArrayLike,
    *,
    threshold: float,
    cutoff: int,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
) -> list[bool]:
    r"""Return the bits of Sparse with its noise as printed, multiplied by epsilon. BROKEN for epsilon < 1.

    Queries get Lap(b), the threshold Lap(b/2), $b = \sqrt{32 Q \ln(1/\delta)}\,\varepsilon$. At epsilon = 0.1, Q = 1,
    delta = 1e-5, one query with the answers 0 and -1 at threshold 0 has delta = 0.127.

    Raises:
        ValueError: as `no_threshold_noise`, or if cutoff is not an integer in [1, 1e6] or delta is not in (0, 1).

    Source: the lecture, "Sparse Vector Mechanism".
    Printed: noise Lap(sqrt(32 Q log(1/delta)) epsilon).
    Implemented: so here; right is `sparse_vector.sparse`, where a smaller epsilon means more noise.

    Counterexample: delta at epsilon = 0.1, where 1e-5 is said, for one query of answer 0 or -1.

    >>> import math
    >>> import numpy as np
    >>> from dpml.pate.sparse_vector import broken, outcomes
    >>> b = math.sqrt(32 * math.log(1e5)) * 0.1
    >>> ask = {
    ...     "above": [1],
    ...     "threshold": 0.0,
    ...     "threshold_scale": b / 2,
    ...     "query_scale": b,
    ... }
    >>> p, q = (
    ...     math.exp(outcomes.outcome_log_probability([x], **ask))
    ...     for x in (0.0, -1.0)
    ... )
    >>> round(p - math.exp(0.1) * q, 6)
    0.127379
    >>> asked = {"threshold": 0.0, "cutoff": 1, "epsilon": 0.1, "delta": 1e-5}
    >>> rng, said = np.random.default_rng(0), broken.printed_sparse
    >>> runs = [
    ...     [said([x], **asked, rng=rng)[0] for _ in range(4000)]
    ...     for x in (0.0, -1.0)
    ... ]
    >>> bool(np.mean(runs[0]) - math.exp(0.1) * np.mean(runs[1]) > 0.05)
    True
    """
    values, threshold, epsilon, rng = _checked(stream, threshold, epsilon, rng)
    cutoff = arguments.integer("cutoff", cutoff, 1, 10**6)
    delta = arguments.real("delta", delta, 0.0, 1.0, low_open=True, high_open=True)
    scale = math.sqrt(-32.0 * cutoff * math.log(delta)) * epsilon
    return [above for _, above in _compared(values, threshold, scale / 2.0, scale, cutoff, rng)]


def _checked(
    stream: ArrayLike, threshold: float, epsilon: float, rng: np.random.Generator
) -> tuple[Iterator[float], float, float, np.random.Generator]:
    return (
        iter(arguments.array("stream", stream, ndim=1).tolist()),
        arguments.real("threshold", threshold),
        arguments.real("epsilon", epsilon, 1e-6, 1e6),
        arguments.generator("rng", rng),
    )
