r"""How many models M_samp trains, and why: enough that no record is in more than twice its share of the parts.

Each of $n_T$ parts holds each record with probability q, so a record is in $q\,n_T$ parts in the mean. M_samp fails if
some record is in more than twice that (the event B), since its proof lets that many votes move. The number of parts in
which a record is, is binomial; a union bound over the n records gives

.. math::

    P(B) \le n\, e^{-2 q^2 n_T} \quad \text{(Hoeffding)}, \qquad
    P(B) \le n\, e^{-(2 \log 2 - 1)\, q\, n_T} \quad \text{(Chernoff)}.

For small q the second is far better: it asks for some 1/q models, the first for 1/q^2. Privacy needs neither, since B
happens for neighbours alike; only utility does.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy.special import betainc

from dpml import arguments
from dpml.pate import _stability_input

__all__ = ["SamplingPlan", "overuse_probability", "sampling_plan", "sampling_plan_chernoff"]


class SamplingPlan(NamedTuple):
    """Each record is in each of `n_models` parts with probability `q`.

    Source: the lecture, slide "Privacy via Subsample and Aggregate", step 1.
    """

    q: float
    n_models: int


def sampling_plan(*, epsilon: float, delta: float, n: int) -> SamplingPlan:
    r"""Return q and the number of models as the lecture means them: $n_T = \lceil \log(n/\delta)/q^2 \rceil$.

    `n` is the number of records and must be public. The count comes from Hoeffding's inequality, which for a small q
    is far from tight; see `sampling_plan_chernoff`. It makes P(B) at most $\delta^2/n$.

    Raises:
        ValueError: if epsilon is not in (0, 32 log(1/delta)], where q is at most 1, delta not in (0, 1), n not an
            integer in [1, 2^53], or the number of models exceeds 2^53.

    Source: the lecture, slide "Privacy via Subsample and Aggregate", step 1.

    Printed: $\gamma \leftarrow \varepsilon/(32 \log(1/\delta))$, $n_T \leftarrow \log(n/\delta)/q^2$, where q is not
    defined and $n_T$ need not be whole.

    Implemented: $q = \gamma$, as the proof needs ($2 \gamma^2 n_T = 2 \log(n/\delta)$), $n_T$ rounded up, and computed
    from a public n. At $\varepsilon = 1$, $\delta = 10^{-5}$ and $n = 10^5$ that is 3,125,267 models.
    """
    epsilon, delta, q = _rate(epsilon, delta)
    n = arguments.integer("n", n, 1, 2**53)
    return _plan(q, (math.log(n) - math.log(delta)) / q**2, epsilon)


def sampling_plan_chernoff(*, epsilon: float, delta: float, n: int) -> SamplingPlan:
    r"""Return q and a number of models that is enough for P(B) at most delta, by the multiplicative Chernoff bound.

    For a binomial count X of mean $\mu$, $P(X \ge 2\mu) \le e^{-(2 \log 2 - 1)\mu}$; with $\mu = q n_T$ and a union
    over n records, $n_T = \lceil \log(n/\delta) / ((2\log 2 - 1)\,q) \rceil$: 1/q and not 1/q^2. Privacy does not
    depend on the count; for the utility theorem check that it is at least 128 log(1/delta).

    Raises:
        ValueError: as `sampling_plan`.

    Source: Mitzenmacher and Upfal, "Probability and computing", Theorem 4.4, in place of the Hoeffding inequality of
    the lecture's slide "Privacy of M_samp".
    """
    epsilon, delta, q = _rate(epsilon, delta)
    n = arguments.integer("n", n, 1, 2**53)
    return _plan(q, (math.log(n) - math.log(delta)) / ((2.0 * math.log(2.0) - 1.0) * q), epsilon)


def overuse_probability(*, n: int, q: float, n_models: int) -> float:
    r"""Return a bound on P(B), the chance that one of n records is in more than 2 q n_models parts.

    The union bound over the records, with the exact binomial tail of each; at most 1.

    Raises:
        ValueError: if n is not an integer >= 1, q not in (0, 1], or n_models an integer in [1/q, 2^53].

    Source: the lecture, slide "Privacy of M_samp", with the tail itself in place of Hoeffding's bound.
    """
    n = arguments.integer("n", n, 1, 2**53)
    q, n_models = _stability_input.sizes(q, n_models)
    most = _stability_input.limit(q, n_models)
    return 0.0 if most >= n_models else min(1.0, n * float(betainc(most + 1, n_models - most, q)))


def _rate(epsilon: float, delta: float) -> tuple[float, float, float]:
    epsilon, delta = _stability_input.budget(epsilon, delta)
    most = -32.0 * math.log(delta)
    if epsilon > most:
        raise ValueError(f"epsilon must be in (0, 32 log(1/delta)] = (0, {most:.6g}], got {epsilon!r}")
    return epsilon, delta, epsilon / most


def _plan(q: float, count: float, epsilon: float) -> SamplingPlan:
    if not count <= 2.0**53:
        raise ValueError(f"epsilon must be so large that at most 2^53 models are needed, got {epsilon!r}")
    return SamplingPlan(q, math.ceil(count))
