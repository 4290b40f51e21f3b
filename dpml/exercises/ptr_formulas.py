r"""Checks of items of chapter 10 that ask for a formula as a function.

With $f_a(D) = e^{(a-1)D}$, the moments of the pieces of propose-test-release:

.. math::

    f_a(D_{\mathrm{Lap}}) = \tfrac{a}{2a-1} e^{(a-1)/b} + \tfrac{a-1}{2a-1} e^{-a/b}, \qquad
    f_a(D_N) = e^{a(a-1)/(2\sigma^2)} .
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpml.accounting import rdp
from dpml.classroom import checks
from dpml.classroom.checks import Mistake
from dpml.ptr import privacy

__all__ = ["check_laplace_rdp", "check_ptr_rdp", "check_sampled_log_moment"]


def check_laplace_rdp(answer: Any) -> None:
    """The Rényi divergence of Laplace noise."""

    def moment(order: float, *, scale: float) -> float:
        first = order / (2 * order - 1) * math.exp((order - 1) / scale)
        return first + (order - 1) / (2 * order - 1) * math.exp(-order / scale)

    checks.function(
        answer,
        name="laplace_rdp",
        reference=lambda order, *, scale: float(rdp.laplace(order, scale=scale)),
        inputs=[{"order": a, "scale": b} for a in (1.5, 2.0, 5.0, 20.0) for b in (0.5, 1.0, 5.0)],
        mistakes=[
            Mistake(
                lambda order, *, scale: math.log(moment(order, scale=scale)),
                "this is the log-moment. Divide by order - 1.",
            ),
            Mistake(
                lambda order, *, scale: math.log(moment(order, scale=scale)) / order,
                "this divides by the order. The factor is order - 1.",
            ),
            Mistake(
                lambda order, *, scale: 1.0 / scale, "this is the epsilon of delta = 0, the limit of large orders."
            ),
            Mistake(
                lambda order, *, scale: moment(order, scale=scale),
                "this is the moment. Take its logarithm and divide by order - 1.",
            ),
            Mistake(
                lambda order, *, scale: math.log(moment(order, scale=scale)) * (order - 1),
                "the logarithm is multiplied by order - 1. Divide.",
            ),
            Mistake(
                lambda order, *, scale: math.log(moment(order, scale=1 / scale)) / (order - 1),
                "the exponents are multiplied by the scale. A larger scale hides more.",
            ),
            Mistake(
                lambda order, *, scale: math.log(order / (2 * order - 1)) / (order - 1) + 1 / scale,
                "the second of the two terms of the moment is missing.",
            ),
        ],
        hint="It must rise with the order, from the mean loss towards 1/scale.",
    )


def check_ptr_rdp(answer: Any) -> None:
    """Theorem 4.3: the larger of the two cases."""

    def right(order: float, *, sigma: float, tau: float, scale: float, delta0: float) -> float:
        return float(privacy.theorem_4_3(order, sigma=sigma, tau=tau, scale=scale, delta0=delta0))

    def case_1(order: float, *, sigma: float, tau: float, scale: float, delta0: float) -> float:
        return float(privacy.rdp_case_1(order, sigma=sigma, tau=tau, delta0=delta0))

    def case_2(order: float, *, sigma: float, tau: float, scale: float, delta0: float) -> float:
        return float(privacy.rdp_case_2(order, sigma=sigma, scale=scale))

    def unsquared(order: float, *, sigma: float, tau: float, scale: float, delta0: float) -> float:
        often, rarely = (math.exp(order * (order - 1) / (2 * v)) for v in (sigma**2, sigma**2 * tau))
        mixed = math.log((1 - delta0) * often + delta0 * rarely) / (order - 1)
        return max(mixed, case_2(order, sigma=sigma, tau=tau, scale=scale, delta0=delta0))

    def averaged(order: float, *, sigma: float, tau: float, scale: float, delta0: float) -> float:
        mixed = (1 - delta0) * order / (2 * sigma**2) + delta0 * order / (2 * (sigma * tau) ** 2)
        return max(mixed, case_2(order, sigma=sigma, tau=tau, scale=scale, delta0=delta0))

    def added(order: float, *, sigma: float, tau: float, scale: float, delta0: float) -> float:
        given = {"sigma": sigma, "tau": tau, "scale": scale, "delta0": delta0}
        return case_1(order, **given) + case_2(order, **given)

    def smaller(order: float, *, sigma: float, tau: float, scale: float, delta0: float) -> float:
        given = {"sigma": sigma, "tau": tau, "scale": scale, "delta0": delta0}
        return min(case_1(order, **given), case_2(order, **given))

    def exchanged(order: float, *, sigma: float, tau: float, scale: float, delta0: float) -> float:
        often, rarely = (order * (order - 1) / (2 * v) for v in ((sigma * tau) ** 2, sigma**2))
        mixed = float(np.logaddexp(math.log1p(-delta0) + often, math.log(delta0) + rarely)) / (order - 1)
        return max(mixed, case_2(order, sigma=sigma, tau=tau, scale=scale, delta0=delta0))

    def laplace_alone(order: float, *, sigma: float, tau: float, scale: float, delta0: float) -> float:
        return max(
            case_1(order, sigma=sigma, tau=tau, scale=scale, delta0=delta0), float(rdp.laplace(order, scale=scale))
        )

    def less_noise(order: float, *, sigma: float, tau: float, scale: float, delta0: float) -> float:
        given = {"tau": tau, "scale": scale, "delta0": delta0}
        return max(case_1(order, sigma=sigma, **given), case_2(order, sigma=sigma * tau, **given))

    def undivided(order: float, *, sigma: float, tau: float, scale: float, delta0: float) -> float:
        given = {"sigma": sigma, "tau": tau, "scale": scale, "delta0": delta0}
        return max((order - 1) * case_1(order, **given), case_2(order, **given))

    def log_moments(order: float, *, sigma: float, tau: float, scale: float, delta0: float) -> float:
        return (order - 1) * right(order, sigma=sigma, tau=tau, scale=scale, delta0=delta0)

    base = {"sigma": 1.1, "tau": 0.5, "scale": 1.0, "delta0": 1e-8}
    others = [
        {**base, "tau": 0.2},
        {**base, "delta0": 0.1},
        {"sigma": 3.0, "tau": 0.3, "scale": 20.0, "delta0": 0.2},
        {"sigma": 5.0, "tau": 0.9, "scale": 0.5, "delta0": 0.001},  # Laplace noise alone exceeds case 1
    ]
    checks.function(
        answer,
        name="ptr_rdp",
        reference=right,
        inputs=[{"order": a, **given} for given in (base, *others) for a in (1.5, 2.0, 4.0, 7.0)],
        mistakes=[
            Mistake(smaller, "this is the smaller of the two cases. Either may happen: take the larger."),
            Mistake(laplace_alone, "case 2 has no Gaussian part. Margin and answer are both released."),
            Mistake(case_1, "this is case 1 alone: case 2, or the Laplace part of it, is missing."),
            Mistake(added, "the two cases are added. A pair of neighbours is in one of them: take the larger."),
            Mistake(averaged, "case 1 averages the divergences. What is averaged over the public coin is the moment."),
            Mistake(unsquared, "sigma tau is the noise of the passed test, so its square is sigma^2 tau^2."),
            Mistake(exchanged, "delta0 is the probability of the smaller noise, sigma tau. The two are exchanged."),
            Mistake(less_noise, "case 2 has the noise of the failed test, sigma. That of sigma tau is for case 1."),
            Mistake(log_moments, "this is a log-moment. Divide by order - 1."),
            Mistake(undivided, "case 1 is a log-moment. Divide it by order - 1."),
            Mistake(case_2, "this is case 2 alone: case 1, or its rare branch with noise sigma tau, is missing."),
        ],
        hint="It is the larger of case 1, a mixture of two moments, and case 2, a sum of two divergences.",
    )


def check_sampled_log_moment(answer: Any) -> None:
    """The exact log-moment of case 2 on a Poisson sample: a finite sum."""

    def log_sum(order: int, q: float, log_moments: Any, *, choose: bool = True, less: int = 0) -> float:
        terms = [
            (math.log(math.comb(order, k)) if choose else 0.0)
            + (order - k) * math.log1p(-q)
            + k * math.log(q)
            + log_moments(k)
            for k in range(order + 1 - less)
        ]
        return float(np.logaddexp.reduce(terms))

    def right(order: int, *, q: float, sigma: float, scale: float) -> float:
        given = {"q": q, "sigma": sigma, "tau": 0.5, "scale": scale, "delta0": 1e-12}
        return (order - 1) * float(privacy.exact_cases(float(order), **given).case_2)

    def gaussian_only(order: int, *, q: float, sigma: float, scale: float) -> float:
        return (order - 1) * float(rdp.subsampled_gaussian(float(order), q=q, sigma=sigma))

    def divergence(order: int, *, q: float, sigma: float, scale: float) -> float:
        return right(order, q=q, sigma=sigma, scale=scale) / (order - 1)

    def no_binomials(order: int, *, q: float, sigma: float, scale: float) -> float:
        return log_sum(order, q, lambda k: _moment(k, sigma=sigma, scale=scale), choose=False)

    def unsampled(order: int, *, q: float, sigma: float, scale: float) -> float:
        return _moment(order, sigma=sigma, scale=scale)

    def own_samples(order: int, *, q: float, sigma: float, scale: float) -> float:
        return laplace_only(order, q=q, sigma=sigma, scale=scale) + gaussian_only(order, q=q, sigma=sigma, scale=scale)

    def laplace_only(order: int, *, q: float, sigma: float, scale: float) -> float:
        return log_sum(order, q, lambda k: _moment(k, sigma=1e9, scale=scale))

    def exchanged(order: int, *, q: float, sigma: float, scale: float) -> float:
        return log_sum(order, 1 - q, lambda k: _moment(k, sigma=sigma, scale=scale))

    def short(order: int, *, q: float, sigma: float, scale: float) -> float:
        return log_sum(order, q, lambda k: _moment(k, sigma=sigma, scale=scale), less=1)

    def moment(order: int, *, q: float, sigma: float, scale: float) -> float:
        return math.exp(right(order, q=q, sigma=sigma, scale=scale))

    checks.function(
        answer,
        name="sampled_log_moment",
        reference=right,
        inputs=[
            {"order": a, "q": q, "sigma": sigma, "scale": b}
            for a in (2, 3, 8, 20)
            for q, sigma, b in ((0.01, 1.1, 1.0), (0.2, 2.0, 5.0), (0.001, 4.0, 0.5))
        ],
        mistakes=[
            Mistake(divergence, "this is the divergence. The log-moment is order - 1 times that."),
            Mistake(gaussian_only, "the Laplace part is missing: this is the Gaussian answer alone."),
            Mistake(no_binomials, "the binomial coefficients are missing."),
            Mistake(
                unsampled,
                "this is the log-moment without sampling: q makes no difference. Each term has the moment of its k.",
            ),
            Mistake(laplace_only, "the Gaussian part is missing: this is the Laplace answer alone."),
            Mistake(exchanged, "q and 1 - q are exchanged: the record is in k of the order draws."),
            Mistake(short, "the term k = order is missing: range(order) ends before it."),
            Mistake(moment, "this is the moment. Its logarithm is asked."),
            Mistake(
                own_samples, "this adds two mechanisms on samples of their own. Margin and answer share one sample."
            ),
        ],
        rel=1e-6,
        abs=1e-11,
        hint="It is log of a sum of order + 1 terms, each a binomial probability times a moment of the product.",
    )


def _moment(k: int, *, sigma: float, scale: float) -> float:
    """The log-moment log E_Q (P/Q)^k of Laplace and Gaussian noise together."""
    laplace = np.logaddexp(
        math.log(k / (2 * k - 1)) + (k - 1) / scale if k > 0 else -math.inf,
        math.log((k - 1) / (2 * k - 1)) - k / scale if k != 1 else -math.inf,
    )
    return float(laplace) + k * (k - 1) / (2 * sigma**2)
