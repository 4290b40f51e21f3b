r"""The sparse vector technique: many questions, and only those answered "above" cost privacy.

Each query f_i has sensitivity 1. AboveThreshold compares noisy answers with one noisy threshold and stops at the first
that reaches it:

.. math::

    \hat T = T + \mathrm{Lap}(b_1), \qquad \text{answer above at the first } i \text{ with }
    f_i(D) + \mathrm{Lap}(b_2) \ge \hat T .

Theorem. With independent noises it is $(1/b_1 + 2/b_2)$-differentially private, however many queries were below,
also when each query is chosen after seeing the bits before it, under the neighbouring relation of the sensitivity.

Proof. Let the first above be number k; the noises of the first k - 1 queries are held fixed, so that
$g(D) = \max_{i<k} (f_i(D) + \nu_i)$ is a number, and it changes by at most 1. The output says $\hat T > g(D)$ and
$f_k(D) + \nu_k \ge \hat T$. Shift $\hat T$ by $g(D') - g(D)$, at most 1, and $\nu_k$ by
$g(D') - g(D) + f_k(D) - f_k(D')$, at most 2: the same output comes from D', and the densities change by the factors
$e^{1/b_1}$ and $e^{2/b_2}$ at most.

`sparse` restarts it, with fresh threshold noise, after each answer above, `cutoff` times in all; `numeric_sparse` adds
a separately noised value to each of these answers; `m_svec` releases exact values of stable functions (their distance
to instability is the query). Their noise is the least that `dpml.pate.sparse_vector.privacy` proves to suffice; the
larger one of the literature is there as well. What they return holds bits and released values only, never an answer of
a query.

Floating point. The Laplace noise of NumPy ends at about 36 times its scale, so each claim holds up to about 1e-16 per
draw; and noisy values have the granularity of doubles (Mironov 2012), which matters to an attacker who sees values,
not bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments
from dpml.pate.sparse_vector import privacy

__all__ = ["above_threshold", "m_svec", "numeric_sparse", "sparse"]


def above_threshold(
    stream: Iterable[float], *, threshold: float, epsilon: float, rng: np.random.Generator
) -> int | None:
    r"""Return the index of the first query whose noisy answer reaches the noisy threshold, or None if none does.

    `stream` holds the true answers of queries of sensitivity 1, a sequence or an iterator: it is read one by one and
    no further than needed, so that a generator may choose its next query after the bits "below" that it has seen. The
    noise is Lap(2/epsilon) on the threshold and Lap(4/epsilon) on each query. epsilon-differentially private under the
    neighbouring relation of the sensitivity.

    Raises:
        ValueError: if stream does not hold finite numbers, threshold is not finite, epsilon is not in [1e-300, 600], or
            rng is not a Generator. An iterator is checked as it is read.

    Source: Dwork and Roth, "The algorithmic foundations of differential privacy", Algorithm 1 and Theorem 3.23; the
    lecture, "Recap: Above Threshold". The lecture's summary of it names the noise of the queries only.
    """
    answers = _checked_stream(stream)
    threshold = arguments.real("threshold", threshold)
    epsilon = arguments.real("epsilon", epsilon, 1e-300, 600.0)
    rng = arguments.generator("rng", rng)
    seen = _compared(answers, threshold, 2.0 / epsilon, 4.0 / epsilon, 1, rng)
    return next((index for index, (_, above) in enumerate(seen) if above), None)


def sparse(
    stream: Iterable[float], *, threshold: float, cutoff: int, epsilon: float, delta: float, rng: np.random.Generator
) -> Iterator[bool]:
    r"""Yield for each query whether it is above the threshold; stop for good after `cutoff` answers "above".

    `stream` as in `above_threshold`. All bits together are (epsilon, delta)-differentially private. The threshold gets
    noise Lap(b), b from `privacy.sparse_scale`, anew after every answer above, and each query Lap(2b).
    The arguments are checked at the call, the noise is drawn as the bits are read.

    Raises:
        ValueError: if stream does not hold finite numbers, threshold is not finite, cutoff is not an integer in
            [1, 1e6] or more than the number of queries where that is known, epsilon is not in [1e-300, 600], delta is
            not in [0, 1), or rng is not a Generator.

    Source: Dwork and Roth, "The algorithmic foundations of differential privacy", Algorithm 2, with the noise that
    optimal composition allows; the lecture, "Sparse Vector Mechanism" (its noise: `sparse_scale_classic`).
    """
    answers = _checked_stream(stream)
    threshold = arguments.real("threshold", threshold)
    cutoff = _cutoff(cutoff, stream)
    scale = privacy.sparse_scale(epsilon=epsilon, delta=delta, cutoff=cutoff)
    rng = arguments.generator("rng", rng)
    return (above for _, above in _compared(answers, threshold, scale, 2.0 * scale, cutoff, rng))


def numeric_sparse(
    stream: Iterable[float], *, threshold: float, cutoff: int, epsilon: float, delta: float, rng: np.random.Generator
) -> Iterator[float | None]:
    r"""Yield for each query None if it is below the threshold, else its value with fresh noise; stop after `cutoff`.

    `stream` and `cutoff` as in `sparse`. With b twice the scale of `sparse`, the threshold gets Lap(b), each query
    Lap(2b), and a released value Lap(b/2): a run costs 2/b for its bits and 2/b for its value, together as much as a
    run of `sparse`. All of it is (epsilon, delta)-differentially private. The noise of a value is independent of the
    noise that decided that it is above.

    Raises:
        ValueError: as `sparse`.

    Source: Dwork and Roth, "The algorithmic foundations of differential privacy", Algorithm 3 (with another split).
    """
    answers = _checked_stream(stream)
    threshold = arguments.real("threshold", threshold)
    cutoff = _cutoff(cutoff, stream)
    scale = 2.0 * privacy.sparse_scale(epsilon=epsilon, delta=delta, cutoff=cutoff)
    rng = arguments.generator("rng", rng)
    seen = _compared(answers, threshold, scale, 2.0 * scale, cutoff, rng)
    return (value + float(rng.laplace(scale=scale / 2.0)) if above else None for value, above in seen)


class Released(NamedTuple):
    """What `m_svec` gives out: for each answered query its exact value or None, and whether the cutoff was reached.

    Source: the lecture, "M_svec: privacy via sparse vector" (output).
    """

    labels: list[Any]
    exhausted: bool


def m_svec(
    labels: Sequence[Any] | NDArray[Any],
    *,
    distances: ArrayLike,
    cutoff: int,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
) -> Released:
    r"""Return the exact value of every query that is stable enough, until `cutoff` queries were not.

    `labels` are f_1(D), ..., f_m(D) for queries that are fixed beforehand (labels of public images by the teachers'
    plurality, say), and `distances` their distances to instability on D, integers >= 0 that change by at most 1 between
    neighbours and are 0 where the value changes (`dpml.pate.stability.distance_to_instability`). With $\lambda$ and T
    from `privacy.m_svec_noise`, a query is released if $d_i + \mathrm{Lap}(2\lambda) \ge \hat T$, where
    $\hat T = T + \mathrm{Lap}(\lambda)$ is drawn anew after each failure. A failed query gives None; after `cutoff`
    failures the mechanism ends.

    (epsilon, delta)-differentially private under the relation of the distances. The values are released without noise;
    what is paid for is which of them were not.

    Raises:
        ValueError: if distances are not integers >= 0, as many as labels, there are none, cutoff is not an integer in
            [1, m], epsilon is not in [1e-300, 600], delta is not in (0, 1), or rng is not a Generator.

    Source: Bassily, Thakkar and Thakurta, "Model-agnostic private learning via stability", 2018, as corrected
    here; the lecture, "M_svec: privacy via sparse vector".
    Printed: a counter q is set but c is used; lambda is multiplied by epsilon; M_stab is called with epsilon = 1/2
        lambda, which reads as lambda/2; M_stab computes a threshold of its own, so that the noisy one is never used;
        the loop runs while c <= Q; the output is the last value; the composition takes log(1/delta), and the delta of
        M_stab is not passed; T is a threshold here and a number of iterations in the paper.
    Implemented: one counter; lambda divided by epsilon; noise Lap(2 lambda) against the noisy threshold; the end after
        failure number Q, since Q + 1 failures cost Q + 1 runs (by advanced composition epsilon 0.729 for 0.511 at
        Q = 1); the list of all values; half of delta for the composition and half for unstable queries that pass.

    Counterexample: one run of failures and two, where one is paid for.

    >>> from dpml.accounting import composition
    >>> from dpml.pate.sparse_vector import privacy
    >>> noise = privacy.m_svec_noise_classic(
    ...     epsilon=1.0, delta=1e-5, cutoff=1, queries=1
    ... )
    >>> one = {"epsilon": 2 / noise.scale, "delta": 0.0, "delta_prime": 5e-6}
    >>> [
    ...     round(composition.advanced(k=runs, **one).epsilon, 3)
    ...     for runs in (1, 2)
    ... ]
    [0.511, 0.729]
    """
    numbers = arguments.whole_numbers("distances", distances, ndim=1, min_size=1, high=math.inf)
    arguments.records("labels", labels, len(numbers))
    cutoff = arguments.integer("cutoff", cutoff, 1, len(numbers))
    noise = privacy.m_svec_noise(epsilon=epsilon, delta=delta, cutoff=cutoff)
    rng = arguments.generator("rng", rng)
    released: list[Any] = []
    left, noisy_threshold = cutoff, noise.threshold + float(rng.laplace(scale=noise.scale))
    for label, distance in zip(labels, numbers, strict=True):
        if left == 0:
            break
        if distance + float(rng.laplace(scale=2.0 * noise.scale)) >= noisy_threshold:
            released.append(label)
        else:
            released.append(None)
            left -= 1
            noisy_threshold = noise.threshold + float(rng.laplace(scale=noise.scale))
    return Released(released, exhausted=left == 0)


def _compared(
    stream: Iterator[float],
    threshold: float,
    threshold_scale: float,
    query_scale: float,
    cutoff: int,
    rng: np.random.Generator,
) -> Iterator[tuple[float, bool]]:
    """Each true answer and its bit, in `cutoff` runs of AboveThreshold, one after another on one stream."""
    for _ in range(cutoff):
        noisy_threshold = threshold + float(rng.laplace(scale=threshold_scale))
        for value in stream:
            above = value + float(rng.laplace(scale=query_scale)) >= noisy_threshold
            yield value, above
            if above:
                break
        else:
            return


def _checked_stream(stream: Any) -> Iterator[float]:
    """The queries one by one; what is there as a whole is checked as a whole, before any noise is drawn."""
    if isinstance(stream, Iterator):
        return (arguments.real("stream", value) for value in stream)
    return iter(arguments.array("stream", stream, ndim=1).tolist())


def _cutoff(cutoff: Any, stream: Any) -> int:
    known = None if isinstance(stream, Iterator) else max(1, len(stream))
    return arguments.integer("cutoff", cutoff, 1, known)
