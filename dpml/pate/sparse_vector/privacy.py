r"""What the sparse vector technique costs, and the noise that it needs.

One run, until the first answer above, is $(1/b_1 + 2/b_2)$-DP for threshold noise Lap(b_1) and query noise Lap(b_2);
with $b_2 = 2 b_1$ that is $2/b_1$. Q runs compose, by the optimal composition theorem.

`m_svec` has runs of $\varepsilon_0 = 2/\lambda$, which compose with a part $\delta_1$ of delta. The rest pays for
queries whose value differs between the neighbours D and D'. Their distance is 0 on both.

Theorem. Let p be the probability that a query at distance 0 passes, and let Q runs of $\varepsilon_0$ together be
$(\varepsilon', \delta_1)$-DP. Then M_svec is $(\varepsilon', \delta_1 + Q p)$-DP.

Proof. Outputs in which every query that differs failed show the bits of the sparse vector technique on the distances,
and values that D and D' share: so they are $(\varepsilon', \delta_1)$-close. All other outputs need that such a query
passed. In a run, the first of them either fails, which ends the run, or is that accident; its place depends on where
the run began, not on the run's noise, as the queries are fixed beforehand. So it happens with probability at most Q p:

.. math::

    p = P\bigl(\mathrm{Lap}(2\lambda) - \mathrm{Lap}(\lambda) \ge T\bigr)
      = \tfrac{2}{3} e^{-T/(2\lambda)} - \tfrac{1}{6} e^{-T/\lambda} .

(A union over all queries one by one would have to face that a threshold which survived many queries is likely low.)
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

from dpml import arguments, numerics
from dpml.accounting import composition

__all__ = [
    "enough_distance",
    "m_svec_noise",
    "m_svec_noise_classic",
    "sparse_scale",
    "sparse_scale_classic",
    "unstable_pass_probability",
]

_LEAST = 2.0 / 700.0  # a run of epsilon 700: beyond it nothing is private and exponentials overflow


def sparse_scale(*, epsilon: float, delta: float, cutoff: int) -> float:
    """Return the least threshold scale at which `cutoff` runs are (epsilon, delta)-private: optimal composition.

    Raises:
        ValueError: if epsilon is not in [1e-300, 600], delta is not in [0, 1), or cutoff is not an integer in [1, 1e6].

    Source: Kairouz, Oh and Viswanath, "The composition theorem for differential privacy", ICML 2015, Theorem 3.3.
    """
    return _least_scale(*_target(epsilon, delta, cutoff))


@functools.lru_cache(maxsize=1024)  # every run of a mechanism asks for the same scale, and a search for some again
def _least_scale(epsilon: float, delta: float, cutoff: int) -> float:
    def excess(scale: float) -> float:
        return _runs(2.0 / scale, cutoff, delta) - epsilon

    enough = 2.0 * cutoff / epsilon * (1.0 + 1e-12)  # basic composition
    return numerics.crossing(excess, low=_LEAST, high=enough)


def sparse_scale_classic(*, epsilon: float, delta: float, cutoff: int) -> float:
    r"""Return the threshold scale of the literature: $\sqrt{32 Q \ln(1/\delta)}/\varepsilon$, 2Q/epsilon for delta = 0.

    3 to 10 times `sparse_scale` at small delta and epsilon: advanced composition is loose for few runs, and the
    constant 32 leaves a factor of 2 besides.

    Raises:
        ValueError: if epsilon is not in [1e-300, 600], delta is not in [0, 1), cutoff is not an integer in [1, 1e6], or
            if the optimal composition of runs at this scale does not confirm epsilon.

    Source: Dwork and Roth, "The algorithmic foundations of differential privacy", Algorithm 2 and Theorem 3.25.
    Printed: noise Lap(sqrt(32 Q log(1/delta)) epsilon) on the queries (lecture, "Sparse Vector Mechanism").
    Implemented: the root is divided by epsilon; it is the scale of the threshold, and the queries get twice as much. At
        epsilon = 0.1, Q = 1, delta = 1e-5 the printed scale is 1.92 where 191.9 stands in the literature, and one query
        has a delta of 0.127.

    Counterexample: both scales at epsilon = 0.1 and Q = 1.

    >>> import math
    >>> from dpml.pate.sparse_vector import privacy
    >>> round(math.sqrt(32 * math.log(1e5)) * 0.1, 2)
    1.92
    >>> round(
    ...     privacy.sparse_scale_classic(epsilon=0.1, delta=1e-5, cutoff=1), 1
    ... )
    191.9
    """
    epsilon, delta, cutoff = _target(epsilon, delta, cutoff)
    scale = 2.0 * cutoff / epsilon if delta == 0.0 else math.sqrt(-32.0 * cutoff * math.log(delta)) / epsilon
    return _confirmed(scale, epsilon, delta, cutoff)


class Noise(NamedTuple):
    """The scale lambda of the noisy threshold (queries get twice that), and the threshold T itself.

    Source: the lecture, "M_svec: privacy via sparse vector" (step 1).
    """

    scale: float
    threshold: float


def m_svec_noise(*, epsilon: float, delta: float, cutoff: int) -> Noise:
    r"""Return a scale and a threshold at which `m_svec` is (epsilon, delta)-private.

    Half of delta is for the composition, from which the scale $\lambda$ follows as in `sparse_scale`; half for unstable
    queries, which gives $T = 2\lambda \ln\bigl(4Q/(3\delta)\bigr)$. Far less than `m_svec_noise_classic`.

    Raises:
        ValueError: if epsilon is not in [1e-300, 600], delta is not in (0, 1), or cutoff is not an integer in [1, 1e6].

    Source: Bassily, Thakkar and Thakurta, "Model-agnostic private learning via stability", 2018, with the optimal
    composition of Kairouz, Oh and Viswanath 2015 and the count of unstable passes derived above.
    """
    epsilon, delta, cutoff = _target(epsilon, delta, cutoff, delta_open=True)
    scale = sparse_scale(epsilon=epsilon, delta=delta / 2.0, cutoff=cutoff)
    return Noise(scale, 2.0 * scale * (math.log(4.0 * cutoff / 3.0) - math.log(delta)) * (1.0 + 1e-12))


def m_svec_noise_classic(*, epsilon: float, delta: float, cutoff: int, queries: int) -> Noise:
    r"""Return $\lambda = \sqrt{32 Q \ln(2/\delta)}/\varepsilon$ and $T = 2\lambda \ln(2m/\delta)$; m is `queries`.

    Raises:
        ValueError: if epsilon is not in [1e-300, 600], delta is not in (0, 1), cutoff is not an integer in [1, 1e6],
            queries is not an integer in [cutoff, 1e9], or if the theorem above does not confirm epsilon.

    Source: Bassily, Thakkar and Thakurta, "Model-agnostic private learning via stability", 2018; the lecture,
    "M_svec: privacy via sparse vector" (step 1).
    Printed: lambda = sqrt(32 Q log(1/delta)) epsilon.
    Implemented: divided by epsilon, and log(2/delta), since half of delta is for the composition. At epsilon = 0.1,
        Q = 1, delta = 1e-5 that is 197.6 for 1.92; with 1.92 a single query has a delta of 0.042.

    Counterexample: delta at epsilon = 0.1 of one query at distance 45 or 46, with the printed scale.

    >>> import math
    >>> from dpml.pate.sparse_vector import outcomes, privacy
    >>> scale, threshold = math.sqrt(32 * math.log(1e5)) * 0.1, 46.857
    >>> ask = {
    ...     "above": [1],
    ...     "threshold": threshold,
    ...     "threshold_scale": scale,
    ...     "query_scale": 2 * scale,
    ... }
    >>> p, q = (
    ...     math.exp(outcomes.outcome_log_probability([d], **ask))
    ...     for d in (46.0, 45.0)
    ... )
    >>> round(p - math.exp(0.1) * q, 4)
    0.0424
    >>> right = {"epsilon": 0.1, "delta": 1e-5, "cutoff": 1, "queries": 1}
    >>> round(privacy.m_svec_noise_classic(**right).scale, 1)
    197.6
    """
    epsilon, delta, cutoff = _target(epsilon, delta, cutoff, delta_open=True)
    queries = arguments.integer("queries", queries, cutoff, 10**9)
    scale = math.sqrt(32.0 * cutoff * (math.log(2.0) - math.log(delta))) / epsilon
    threshold = 2.0 * scale * (math.log(2.0 * queries) - math.log(delta))
    passes = cutoff * unstable_pass_probability(scale=scale, threshold=threshold)  # at most cutoff delta / (3 queries)
    return Noise(_confirmed(scale, epsilon, delta - passes, cutoff), threshold)


def unstable_pass_probability(*, scale: float, threshold: float) -> float:
    """Return the probability that a query at distance 0 passes in `m_svec`, with noise scale lambda.

    Raises:
        ValueError: if scale is not in (0, inf) or threshold is not in [0, inf).

    Source: the law of a difference of two Laplace variables; derived in the module's docstring.
    """
    scale = arguments.real("scale", scale, 0.0, low_open=True)
    ratio = arguments.real("threshold", threshold, 0.0) / scale
    return 2.0 / 3.0 * math.exp(-ratio / 2.0) - math.exp(-ratio) / 6.0


def enough_distance(*, scale: float, threshold: float, queries: int, beta: float) -> float:
    r"""Return a distance to instability at which all m queries pass in `m_svec`, but for this probability of failure.

    $T + 2\lambda \ln\bigl(2m/(3\beta)\bigr)$, by the tail of one query and a union bound; not below T.

    Raises:
        ValueError: if scale is not in (0, inf), threshold is not in [0, inf), queries is not an integer in [1, 1e9],
            beta is not in (0, 1), or the result exceeds the range of floats.

    Source: the law of a difference of two Laplace variables, as in `unstable_pass_probability`.
    """
    scale = arguments.real("scale", scale, 0.0, low_open=True)
    threshold = arguments.real("threshold", threshold, 0.0)
    queries = arguments.integer("queries", queries, 1, 10**9)
    beta = arguments.real("beta", beta, 0.0, 1.0, low_open=True, high_open=True)
    needed = threshold + 2.0 * scale * max(0.0, math.log(queries / 1.5) - math.log(beta))
    return arguments.finite("scale", scale, needed)


def _runs(epsilon: float, cutoff: int, delta: float) -> float:
    if delta == 0.0:
        return cutoff * epsilon
    return composition.optimal(epsilon=epsilon, delta=0.0, k=cutoff, total_delta=delta).epsilon


def _confirmed(scale: float, epsilon: float, delta: float, cutoff: int) -> float:
    """The scale, if this many runs with it are proved to be (epsilon, delta)-private."""
    proved = _runs(2.0 / scale, cutoff, delta) if scale >= _LEAST else math.inf
    if proved > epsilon * (1.0 + 1e-12):
        reach = f"epsilon must be so small that its noise is proved to suffice (it gives {proved:.6g})"
        raise ValueError(f"{reach}, got {epsilon!r}")
    return scale


def _target(epsilon: Any, delta: Any, cutoff: Any, *, delta_open: bool = False) -> tuple[float, float, int]:
    return (
        arguments.real("epsilon", epsilon, 1e-300, 600.0),
        arguments.real("delta", delta, 0.0, 1.0, low_open=delta_open, high_open=True),
        arguments.integer("cutoff", cutoff, 1, 10**6),
    )
