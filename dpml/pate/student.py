r"""What the student costs, whatever the votes: the privacy of everything that the teachers ever tell.

The student sees public inputs and the labels that were released for them, nothing else. By post-processing its
guarantee is that of the labels together, however long it trains and however often it is asked.

A noisy argmax with Laplace noise of scale b is post-processing of its noisy counts, and so are k of them together.

Theorem. The privacy loss of the noisy counts of k such queries is, for the worst votes, a sum of 2k independent losses
of the Laplace mechanism with sensitivity 1 and scale b:

.. math::

    \delta(\varepsilon) = E\bigl[(1 - e^{\varepsilon - S})_+\bigr], \qquad S = L_1 + \dots + L_{2k} .

This pair of laws dominates the k labels, also where later questions depend on earlier labels.

Proof. Fix the randomness of the teachers and one query. A replaced record stays in one shard, provided that shards do
not depend on what is in the records; so one teacher may change its vote, say from class i to class j. Then count i
falls by 1, count j rises by 1, and the other noisy counts have one law under both datasets. The noises are independent,
so the loss is the sum of the losses of counts i and j; Laplace noise is symmetric, so up or down makes no difference to
their laws. A vote that stays has loss 0. Hence two Laplace pairs dominate the query, whichever i and j; pairs compose
by products (Zhu, Dong and Wang 2022, Theorem 10).

Each count is a (1/b, 0)-private mechanism, so the optimal composition of 2k of these is a bound as well. That of k
mechanisms that are (2/b, 0)-private, the account label by label, is larger: it lets both counts have their worst loss
at once, always. With many labels and b well above 1 that is a factor of about $\sqrt 2$, and up to 2 where k is so
large that the mean of the loss decides.

k GNMax queries that were fixed beforehand are post-processing of one Gaussian mechanism of sensitivity $\sqrt{2k}$ and
standard deviation $\sigma$; queries chosen after earlier labels cost no more (cited: Dong, Roth and Su 2022). Confident
GNMax is one of sensitivity

.. math::

    \sqrt{k_\text{asked}/\sigma_1^2 + 2\,k_\text{answered}/\sigma^2}

over noise 1, if both numbers are limits that were fixed beforehand (cited: Smith and Thakurta 2022, since what is
asked next depends on what came out).

Neighbours throughout: one replaced record, which moves one vote in every query. Smaller numbers that hold for the
votes that were cast are in `dpml.pate.data_dependent`.
"""

from __future__ import annotations

import math

from dpml import arguments
from dpml.accounting import composition
from dpml.accounting.guarantee import Guarantee
from dpml.accounting.pld import losses
from dpml.mechanisms import gaussian_epsilon
from dpml.pate.laplace_votes import laplace_vote_epsilon

__all__ = ["confident_student", "gnmax_student", "laplace_student"]

_MOST = 10**9
_MOST_LAPLACE = _MOST // 2  # each query is two losses, and the accountants take 10^9
_SCALES, _LEAST_DELTA = (0.01, 1e6), 1e-250  # what `dpml.accounting.pld` takes of Laplace losses
_MOST_DELTA = 0.5  # from here on delta hardly moves with epsilon, and the accountant would search for long


def laplace_student(*, queries: int, scale: float, delta: float) -> Guarantee:
    r"""Return the guarantee of a student that got `queries` labels by `noisy_argmax`; `scale` is in votes.

    For any votes; neighbours: one replaced record. The exact value for the noisy counts, rounded up by the tight
    accountant, and an upper bound for the labels. Never above the optimal composition of 2 queries (1/scale)-private
    mechanisms; that bound alone is used where the accountant does not reach: a scale outside [0.01, 1e6] or a delta
    below 1e-250. A delta above 1/2 gets the accountant's bound for 1/2. With delta = 0 it is 2 queries/scale. Never
    above the lecture's moments accountant on Theorem 1 of `dpml.pate.laplace_votes`, nor above advanced composition.

    Raises:
        ValueError: if queries is not an integer in [0, 500000000], scale not in (0, inf), delta not in [0, 1], or the
            result exceeds the range of floats.

    Source: the lecture, slide "PATE, overall privacy of the student model"; Zhu, Dong and Wang, "Optimal accounting of
    differential privacy via characteristic function", AISTATS 2022, Theorem 10, applied to the two counts of a query;
    Kairouz, Oh and Viswanath, "The composition theorem for differential privacy", ICML 2015, Theorem 3.3.

    Printed: k labels from an $\varepsilon$-private aggregation are $O(\sqrt k\, \varepsilon)$-differentially private by
    advanced composition.

    Implemented: advanced composition needs a slack $\delta > 0$; without it k labels cost $k\,\varepsilon$. With
    $\mathrm{Lap}(0, 10)$, two voters, and votes (1, 1) against (0, 2) in each of 100 queries, the answer "always the
    first class" has loss 10.4690, where $\sqrt{100} \cdot 0.1 = 1$. Here $\varepsilon$ is 2/scale, and the slack is
    `delta`.

    Counterexample: the loss of 100 labels, where sqrt(100) 0.1 = 1 is said.

    >>> from dpml.pate import student, voting
    >>> d, d_prime = voting.argmax_log_probabilities(
    ...     [[1, 1], [0, 2]], scale=10.0
    ... )[:, 0]
    >>> f"{100 * (d - d_prime):.4f}"
    '10.4690'
    >>> student.laplace_student(queries=100, scale=10.0, delta=0.0).epsilon
    20.0
    """
    queries = arguments.integer("queries", queries, 0, _MOST_LAPLACE)
    label_epsilon = laplace_vote_epsilon(scale=scale)
    scale, delta = float(scale), arguments.probability("delta", delta)
    if queries == 0:
        return _label(0.0, delta)
    arguments.finite("scale", scale, 2.0 * queries * label_epsilon)
    counts = 2 * queries
    epsilon = composition.optimal(epsilon=1.0 / scale, delta=0.0, k=counts, total_delta=delta).epsilon
    if _SCALES[0] <= scale <= _SCALES[1] and _LEAST_DELTA <= delta < 1.0:
        tight = losses.compose([(losses.laplace(scale=scale), counts)], delta=min(delta, _MOST_DELTA))
        epsilon = min(epsilon, tight.upper)
    return _label(epsilon, delta)


def gnmax_student(*, queries: int, sigma: float, delta: float) -> Guarantee:
    """Return the guarantee of a student that got `queries` labels by `gnmax`; `sigma` is in votes.

    For any votes; neighbours: one replaced record. Exact for the noisy counts, an upper bound for the labels. Infinite
    at delta = 0.

    Raises:
        ValueError: if queries is not an integer in [0, 1000000000], sigma not in (0, inf), delta not in [0, 1], or the
            result exceeds the range of floats.

    Source: Papernot et al., "Scalable private learning with PATE", ICLR 2018, section 4.1; Balle and Wang, "Improving
    the Gaussian mechanism for differential privacy", ICML 2018, Theorem 8, for the conversion.
    """
    queries = arguments.integer("queries", queries, 0, _MOST)
    sigma = arguments.real("sigma", sigma, 0.0, low_open=True)
    delta = arguments.probability("delta", delta)
    return _gaussian(math.sqrt(2.0 * queries) / sigma, delta, "sigma", sigma)


def confident_student(*, asked: int, answered: int, sigma_threshold: float, sigma: float, delta: float) -> Guarantee:
    """Return the guarantee of a student after at most `asked` questions and `answered` labels by `confident_gnmax`.

    Both numbers are limits fixed before the first question: the aggregator stops as soon as one is reached. What
    happened to be answered is an outcome, and may stand here only where it reached the limit. For any votes;
    neighbours: one replaced record. Infinite at delta = 0.

    Raises:
        ValueError: if asked is not an integer in [0, 1000000000], answered not an integer in [0, asked],
            sigma_threshold or sigma not in (0, inf), delta not in [0, 1], or the result exceeds the range of floats.

    Source: Papernot et al., "Scalable private learning with PATE", ICLR 2018, section 4.2; A. Smith and A. Thakurta,
    "Fully adaptive composition for Gaussian differential privacy", arXiv:2210.17520 (2022).
    """
    asked = arguments.integer("asked", asked, 0, _MOST)
    answered = arguments.integer("answered", answered, 0, asked)
    test = arguments.real("sigma_threshold", sigma_threshold, 0.0, low_open=True)
    sigma = arguments.real("sigma", sigma, 0.0, low_open=True)
    delta = arguments.probability("delta", delta)
    sensitivity = math.hypot(math.sqrt(asked) / test, math.sqrt(2.0 * answered) / sigma)
    return _gaussian(sensitivity, delta, "sigma", min(test, sigma))


def _gaussian(sensitivity: float, delta: float, name: str, argument: float) -> Guarantee:
    if sensitivity == 0.0:
        return _label(0.0, delta)
    if not sensitivity <= 1e150:
        raise ValueError(f"{name} must keep the result within the range of floats, got {argument!r}")
    return _label(gaussian_epsilon(sigma=1.0 / sensitivity, delta=delta), delta)


def _label(epsilon: float, delta: float) -> Guarantee:
    return Guarantee(epsilon, delta=delta, kind="upper bound", adjacency="replace-one")
