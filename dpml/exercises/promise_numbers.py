r"""Checks of items 6 and 9 of chapter 01: the exact Gaussian mechanism, and what counts of an attack prove.

Noise of standard deviation sigma on an answer of sensitivity 1 is (epsilon, delta)-DP if and only if

.. math::

    \delta \ge \Phi\bigl(\tfrac{1}{2\sigma} - \varepsilon\sigma\bigr)
        - e^\varepsilon\, \Phi\bigl(-\tfrac{1}{2\sigma} - \varepsilon\sigma\bigr) .
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtr

from dpml import mechanisms
from dpml.audit import samples
from dpml.classroom import checks
from dpml.classroom.checks import Mistake

__all__ = ["check_delta_of_classic", "check_proved", "check_refuted", "check_sigma"]


def check_sigma(answer: Any) -> None:
    """The exact Gaussian standard deviation for epsilon = 1 and delta = 1e-5."""
    epsilon, delta = 1.0, 1e-5
    sigma = mechanisms.gaussian_sigma(epsilon=epsilon, delta=delta)
    classic = mechanisms.gaussian_sigma_classic_formula(epsilon=epsilon, delta=delta)
    plain = isinstance(answer, float | int | np.floating) and 0.01 <= answer <= 1e6
    its_delta = mechanisms.gaussian_delta(sigma=float(answer) if plain else sigma, epsilon=epsilon)
    really = f"the smallest δ at ε = 1 is {its_delta:.3g}, " if plain else "δ is "
    checks.number(
        answer,
        expected=sigma,
        name="sigma",
        rel=1e-4,
        mistakes=[
            Mistake(
                lambda value: abs(value - sigma) <= 1e-3 * sigma,
                "it is right to three digits only; give at least four.",
            ),
            Mistake(classic, "this is the classic formula: private, but with more noise than needed."),
            Mistake(sigma**2, "this is the variance; asked is the standard deviation."),
            Mistake(2 * sigma, "this is for sensitivity 2; here the sensitivity is 1."),
            Mistake(sigma / 2, "this is for sensitivity 1/2; here the sensitivity is 1."),
            Mistake(
                mechanisms.laplace_scale(epsilon=epsilon),
                "this is the scale of Laplace noise for the same ε, and Gaussian noise needs another size.",
            ),
            Mistake(
                lambda value: 0 < value < sigma,
                f"with this noise {really}more than the 1e-05 that is allowed.",
            ),
            Mistake(
                lambda value: value > sigma,
                f"with this noise {really}less than the 1e-05 that is allowed. That is private, but less is enough.",
            ),
        ],
        hint="A standard deviation is positive.",
    )


def check_delta_of_classic(answer: Any) -> None:
    """The delta at epsilon = 10 of noise from the classic formula for epsilon = 10 and delta = 1e-5."""
    epsilon, delta = 10.0, 1e-5
    classic = mechanisms.gaussian_sigma_classic_formula(epsilon=epsilon, delta=delta)
    checks.number(
        answer,
        expected=mechanisms.gaussian_delta(sigma=classic, epsilon=epsilon),
        name="delta_of_classic",
        rel=1e-3,
        mistakes=[
            Mistake(delta, "this is the δ that the formula claims. Put its σ into the exact condition and see."),
            Mistake(classic, "this is σ; asked is the δ that noise of this σ has at ε = 10."),
            Mistake(
                float(ndtr(1 / (2 * classic) - epsilon * classic)),
                "this is the first term of the exact condition; the second one, with its factor e^ε, is missing.",
            ),
            Mistake(
                mechanisms.gaussian_delta(sigma=classic**2, epsilon=epsilon),
                "the variance σ² is used where the condition has the standard deviation σ.",
            ),
            Mistake(
                mechanisms.gaussian_delta(sigma=classic, epsilon=1.0),
                "this is the δ of the right noise at ε = 1; asked is ε = 10.",
            ),
            Mistake(
                mechanisms.gaussian_delta(sigma=10 * classic, epsilon=1.0),
                "this is the same question at ε = 1, where the formula is on the safe side; asked is ε = 10.",
            ),
            Mistake(
                mechanisms.gaussian_delta(sigma=classic / 2, epsilon=epsilon),
                "this is for sensitivity 2; here the sensitivity is 1.",
            ),
        ],
        hint="Use the noise of the classic formula, and the exact condition at the same ε.",
    )


_COUNTS = {"true_positives": 640, "positives": 1000, "false_positives": 360, "negatives": 1000}


def _proved() -> float:
    return samples.epsilon_lower_bound(**_COUNTS, delta=0.0, confidence=0.95).epsilon_at_least


def check_proved(answer: Any) -> None:
    """The epsilon that 640 hits and 360 false alarms in 1,000 runs each prove at 95 % confidence."""
    hits = samples.clopper_pearson(640, trials=1000, confidence=0.95)
    alarms = samples.clopper_pearson(360, trials=1000, confidence=0.95)
    checks.number(
        getattr(answer, "epsilon_at_least", answer),
        expected=_proved(),
        name="proved",
        rel=2e-3,  # three digits, rounded or cut off
        mistakes=[
            Mistake(
                math.log(640 / 360),
                "this is log(TPR/FPR) of the observed rates. About half of the time such an estimate lies above what "
                "the attack truly achieves, so it proves nothing at 95 %.",
            ),
            Mistake(
                math.log(hits[1] / alarms[0]),
                "this takes the ends of the intervals that favour a large ε. A proof takes the cautious ends.",
            ),
            Mistake(0.5, "this is the vendor's claim, not what the counts prove."),
            Mistake(
                samples.epsilon_lower_bound(**_COUNTS, delta=0.0, confidence=0.99).epsilon_at_least,
                "this is the bound at 99 % confidence; asked is 95 %.",
            ),
            Mistake(
                samples.epsilon_lower_bound(**_COUNTS, delta=0.0, confidence=0.90).epsilon_at_least,
                "this is the bound at 90 % confidence; asked is 95 %.",
            ),
            Mistake(
                samples.epsilon_lower_bound(**_COUNTS, delta=1e-2, confidence=0.95).epsilon_at_least,
                "this is the bound for δ = 0.01; the vendor claims pure ε, δ = 0.",
            ),
            Mistake(
                0.0,
                "zero would mean that the counts prove nothing. 640 against 360 is more than chance: are the true and "
                "the false positives in the right places?",
            ),
            Mistake(lambda value: abs(value - _proved()) <= 5e-3, "it is right to two digits only; give three."),
        ],
        hint="Take the bound of samples.epsilon_lower_bound for these four counts.",
    )


def check_refuted(answer: Any) -> None:
    """Whether those counts refute the claim epsilon = 0.5."""
    checks.choice(
        answer,
        expected=_proved() > 0.5,
        options=[True, False],
        name="refuted",
        mistakes=[
            Mistake(
                True,
                "the observed rates alone suggest more than 0.5, but what is proved at 95 % confidence is less. A "
                "claim is refuted only by a proof above it; more runs may bring one.",
            ),
        ],
    )
