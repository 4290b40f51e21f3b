r"""What the student costs, whatever the votes: the privacy of everything that the teachers ever tell.

The student sees public inputs and the labels that were released for them, nothing else. By post-processing its
guarantee is that of the labels together, however long it trains and however often it is asked.

k noisy argmaxes with Laplace noise of scale b are k mechanisms that are (2/b, 0)-private each; their best composition
is in `dpml.accounting.composition.optimal`. k GNMax queries are post-processing of one Gaussian mechanism of
sensitivity $\sqrt{2k}$ and standard deviation $\sigma$. Confident GNMax is one of sensitivity

.. math::

    \sqrt{k_\text{asked}/\sigma_1^2 + 2\,k_\text{answered}/\sigma^2}

over noise 1, if both numbers are limits that were fixed beforehand (cited: Smith and Thakurta 2022, since what is
asked next depends on what came out).

Neighbours throughout: one replaced record, which moves one vote in every query. Smaller numbers that hold for the
votes that were cast are in `dpml.pate.student_of_these_votes`.
"""

from __future__ import annotations

import math

from dpml import arguments
from dpml.accounting import composition
from dpml.accounting.guarantee import Guarantee
from dpml.mechanisms import gaussian_epsilon
from dpml.pate.laplace_votes import laplace_vote_epsilon

__all__ = ["confident_student", "gnmax_student", "laplace_student"]

_MOST = 10**9


def laplace_student(*, queries: int, scale: float, delta: float) -> Guarantee:
    r"""Return the guarantee of a student that got `queries` labels by `noisy_argmax`; `scale` is in votes.

    For any votes; neighbours: one replaced record. With delta = 0 it is 2 queries/scale. Never above the lecture's
    moments accountant on Theorem 1 of `dpml.pate.laplace_votes`, nor above advanced composition.

    Raises:
        ValueError: if queries is not an integer in [0, 1000000000], scale not in (0, inf), delta not in [0, 1], or the
            result exceeds the range of floats.

    Source: the lecture, slide "PATE, overall privacy of the student model"; Kairouz, Oh and Viswanath, "The composition
    theorem for differential privacy", ICML 2015, Theorem 3.3.

    Printed: k labels from an $\varepsilon$-private aggregation are $O(\sqrt k\, \varepsilon)$-differentially private by
    advanced composition.

    Implemented: advanced composition needs a slack $\delta > 0$; without it k labels cost $k\,\varepsilon$. With
    $\mathrm{Lap}(0, 10)$, two voters, and votes (1, 1) against (0, 2) in each of 100 queries, the answer "always the
    first class" has loss 10.4690, where $\sqrt{100} \cdot 0.1 = 1$. Here $\varepsilon$ is 2/scale, and the slack is
    `delta`.
    """
    queries = arguments.integer("queries", queries, 0, _MOST)
    epsilon = laplace_vote_epsilon(scale=scale)
    delta = arguments.probability("delta", delta)
    if queries == 0:
        return _label(0.0, delta)
    if math.isinf(2.0 * queries * epsilon):
        raise ValueError(f"scale must keep the result within the range of floats, got {scale!r}")
    return composition.optimal(epsilon=epsilon, delta=0.0, k=queries, total_delta=delta, adjacency="replace-one")


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
    "Fully adaptive composition for Gaussian differential privacy" (2022), Theorem 1.
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
