r"""Checks of items of chapter 04 that ask for a number, or for the formula that gives it.

For one step with privacy loss L, drawn under the first dataset of the worst pair of neighbours,

.. math::

    \alpha(\lambda) = \log E\,e^{\lambda L}, \qquad
    \varepsilon = \min_\lambda \frac{T\,\alpha(\lambda) + \log(1/\delta)}{\lambda} .
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from dpml import mechanisms
from dpml.accounting import moments
from dpml.classroom import checks
from dpml.classroom.checks import Mistake

__all__ = ["check_alpha_32", "check_epsilon_as_printed", "check_moments_epsilon"]

Q, SIGMA, DELTA = 0.01, 4.0, 1e-5  # the setting of the lecture's figure


def check_alpha_32(answer: Any) -> None:
    """The log-moment at lambda = 32 of one step at q = 0.01, sigma = 4."""
    right = moments.log_moment(32.0, q=Q, sigma=SIGMA)
    checks.number(
        answer,
        name="alpha_32",
        expected=right,
        mistakes=[
            Mistake(
                moments.log_moment(31.0, q=Q, sigma=SIGMA),
                "this is the value at order 32, that is, at lambda = 31. The order is lambda + 1 = 33.",
            ),
            Mistake(
                moments.log_moment_e1(32.0, q=Q, sigma=SIGMA),
                "this is log E1, the record added. The log-moment is the larger of the two directions.",
            ),
            Mistake(right / 32, "this is the Rényi divergence of order 33. The log-moment is lambda times that."),
            Mistake(
                moments.log_moment(31.0, q=Q, sigma=SIGMA) / 31,
                "this is the Rényi divergence of order 32. Both the order and the factor lambda are off.",
            ),
            Mistake(math.exp(right), "this is the moment E2. Its logarithm is asked."),
            Mistake(math.expm1(right), "this is E2 - 1, which is close to the logarithm but not equal to it."),
            Mistake(32 * 33 / (2 * SIGMA**2), "this is the value without sampling: q does not appear in it."),
            Mistake(
                Q**2 * 32 * 33 / ((1 - Q) * SIGMA**2),
                "this is the bound of Abadi et al. for small lambda, about twice the value here.",
            ),
            Mistake(
                Q**2 * 32 * 33 / 2 * math.expm1(1 / SIGMA**2),
                "this is the leading term for small q only: the term k = 2 of the sum.",
            ),
        ],
        hint="It is log E2 for q = 0.01, sigma = 4, lambda = 32, of one step.",
    )


def _alphas(last: int, *, q: float, sigma: float) -> list[float]:
    return [moments.log_moment(float(lam), q=q, sigma=sigma) for lam in range(1, last + 1)]


def check_moments_epsilon(answer: Any) -> None:
    """From the log-moments of one step to epsilon and the best lambda."""

    def best(values: Sequence[float], *, pick: Callable[..., Any] = min) -> tuple[float, int]:
        value, lam = pick((float(value), lam) for lam, value in enumerate(values, start=1))
        return value, int(lam)

    def made(form: Callable[[float, int, int, float], float], *, pick: Callable[..., Any] = min) -> Callable[..., Any]:
        def wrong(log_moments: Sequence[float], *, steps: int, delta: float) -> tuple[float, int]:
            return best([form(a, lam, steps, delta) for lam, a in enumerate(log_moments, start=1)], pick=pick)

        return wrong

    reference = made(lambda a, lam, steps, delta: (steps * a - math.log(delta)) / lam)

    def counted_from_zero(log_moments: Sequence[float], *, steps: int, delta: float) -> tuple[float, int]:
        value, lam = reference(log_moments, steps=steps, delta=delta)
        return value, lam - 1

    def as_order(log_moments: Sequence[float], *, steps: int, delta: float) -> tuple[float, int]:
        value, lam = reference(log_moments, steps=steps, delta=delta)
        return value, lam + 1

    slide = _alphas(32, q=Q, sigma=SIGMA)
    checks.function(
        answer,
        name="moments_epsilon",
        reference=reference,
        inputs=[
            {"log_moments": values, "steps": steps, "delta": delta}
            for values, steps, delta in (
                ([0.5, 2.0, 9.0], 1, math.exp(-2)),
                ([0.1, 0.3, 0.6, 1.0], 3, 1e-3),
                (slide, 10_000, DELTA),
                (slide, 1_000, 1e-6),
                (_alphas(16, q=0.01, sigma=1.0), 1_000, DELTA),
            )
        ],
        mistakes=[
            Mistake(
                made(lambda a, lam, steps, delta: (steps * a - math.log(delta)) / (lam + 1)),
                "you divide by lambda + 1, the order. The tail bound has e^(-lambda epsilon): divide by lambda.",
            ),
            Mistake(
                made(lambda a, lam, steps, delta: (a - math.log(delta)) / lam),
                "the steps are missing: the log-moments of all steps add up.",
            ),
            Mistake(
                made(lambda a, lam, steps, delta: steps * (a - math.log(delta)) / lam),
                "delta is spent once, after all steps, and not in each of them.",
            ),
            Mistake(
                made(lambda a, lam, steps, delta: (steps * a + math.log(delta)) / lam),
                "the sign of log(delta) is wrong: a smaller delta must give a larger epsilon.",
            ),
            Mistake(
                made(lambda a, lam, steps, delta: steps * a - math.log(delta) / lam),
                "the log-moment must be divided by lambda as well.",
            ),
            Mistake(
                made(lambda a, lam, steps, delta: (steps * a - math.log10(delta)) / lam),
                "the logarithm is the natural one.",
            ),
            Mistake(
                made(lambda a, lam, steps, delta: (math.sqrt(steps) * a - math.log(delta)) / lam),
                "log-moments add up over the steps; the root of T comes out by itself when lambda is chosen.",
            ),
            Mistake(
                made(lambda a, lam, steps, delta: (steps * a - math.log(delta)) / lam, pick=max),
                "each lambda proves its epsilon, so the smallest one holds, and you take the largest.",
            ),
            Mistake(
                counted_from_zero,
                "epsilon is right, but lambda is counted from zero: the first log-moment belongs to lambda = 1.",
            ),
            Mistake(as_order, "epsilon is right, but the second value is the order lambda + 1; lambda is asked."),
        ],
        hint="It returns the pair (epsilon, lambda). Solve delta = e^(steps alpha - lambda epsilon) for epsilon.",
    )


def check_epsilon_as_printed(answer: Any) -> None:
    """Epsilon of one full-batch step whose noise is added outside the learning rate: sigma = 4, eta = 10, C = 1."""
    checks.number(
        answer,
        name="epsilon_as_printed",
        expected=mechanisms.gaussian_epsilon(sigma=0.4, delta=DELTA),
        rel=1e-5,
        mistakes=[
            Mistake(
                mechanisms.gaussian_epsilon(sigma=4.0, delta=DELTA),
                "this takes sigma = 4 for the noise multiplier. But the noise is not multiplied by the learning rate, "
                "and the gradient is: by how much can one record move theta?",
            ),
            Mistake(
                mechanisms.gaussian_epsilon(sigma=40.0, delta=DELTA),
                "the learning rate enters in the wrong direction: a larger one lets a record move theta further.",
            ),
            Mistake(mechanisms.gaussian_epsilon(sigma=0.04, delta=DELTA), "the learning rate is divided out twice."),
            Mistake(
                math.sqrt(2 * math.log(1.25 / DELTA)) / 0.4,
                "the noise multiplier is right, but the classic formula is proved for epsilon below one only. "
                "Use the exact one.",
            ),
            Mistake(
                moments.epsilon(q=1.0, sigma=0.4, steps=1, delta=DELTA).epsilon,
                "the noise multiplier is right. The moments give an upper bound; for one Gaussian step the exact "
                "value is known.",
            ),
        ],
        hint="Divide the standard deviation of the noise by the most that one record can move theta.",
    )
