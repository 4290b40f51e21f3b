r"""Checks of items 3 and 7 of chapter 05: two numbers.

One step changes each parameter by noise of standard deviation

.. math::

    \frac{\eta\,\sigma\,C}{B},

and noise that is added after the learning rate has the multiplier $\sigma/\eta$.
"""

from __future__ import annotations

import math
from typing import Any

from dpml import mechanisms
from dpml.classroom import checks
from dpml.classroom.checks import Mistake

__all__ = ["check_printed_epsilon", "check_update_noise"]


def check_update_noise(answer: Any) -> None:
    """The noise on one parameter in one step, at sigma 1.2, C 0.5, learning rate 0.4 and batches of 250."""
    sigma, clip_norm, rate, batch = 1.2, 0.5, 0.4, 250.0
    checks.number(
        answer,
        expected=rate * sigma * clip_norm / batch,
        name="update_noise",
        mistakes=[
            Mistake(sigma * clip_norm / batch, "the learning rate multiplies the noise as well."),
            Mistake(rate * sigma * clip_norm, "this is the noise of a sum; the sum is divided by the batch size."),
            Mistake(
                rate * sigma / batch,  # and with 2 C in place of C
                "multiply by the clip norm, once: one example moves the sum by C, and σ counts in units of it.",
            ),
            Mistake(rate * sigma, "this is the noise of a sum, and without the clip norm."),
            Mistake(sigma / batch, "learning rate and clip norm are factors as well."),
            Mistake(rate * clip_norm / batch, "σ is a factor as well."),
            Mistake(sigma * clip_norm / batch / rate, "a larger learning rate gives more noise: multiply by it."),
            Mistake(rate * sigma / clip_norm / batch, "a larger clip norm needs more noise: multiply by it."),
            Mistake(rate * sigma * clip_norm**2 / batch, "is the clip norm used twice?"),
            Mistake(rate**2 * sigma * clip_norm / batch, "the learning rate is used twice."),
            Mistake(
                rate * (sigma * clip_norm) ** 2 / batch, "σC is a standard deviation already: it need not be squared."
            ),
            Mistake(rate * sigma * clip_norm * batch, "the sum is divided by the batch size, not multiplied."),
            Mistake((rate * sigma * clip_norm / batch) ** 0.5, "this is the root of a standard deviation."),
            Mistake(
                sigma * clip_norm, "this is the noise on the sum. It still goes through division and learning rate."
            ),
            Mistake(rate * sigma * clip_norm / batch**2, "it is divided by the batch size twice."),
            Mistake(
                rate * sigma * clip_norm / batch**0.5,
                "the noise is drawn once for the batch, not once for each example.",
            ),
            Mistake((rate * sigma * clip_norm / batch) ** 2, "this is the variance."),
            Mistake((sigma * clip_norm / batch) ** 2, "this is a variance, and without the learning rate."),
        ],
        rel=1e-3,
    )


def check_printed_epsilon(answer: Any) -> None:
    """The epsilon of one printed step at sigma 4, delta 1e-5 and learning rate 8, on all data."""
    sigma, rate, delta = 4.0, 8.0, 1e-5
    epsilon = mechanisms.gaussian_epsilon
    checks.number(
        answer,
        expected=epsilon(sigma=sigma / rate, delta=delta),
        name="printed_epsilon",
        mistakes=[
            Mistake(epsilon(sigma=sigma, delta=delta), "this is what σ = 4 promises where the noise is in its place."),
            Mistake(
                epsilon(sigma=sigma * rate, delta=delta),
                "the learning rate makes the step larger, not the noise: divide σ by it.",
            ),
            Mistake(
                epsilon(sigma=sigma / rate**2, delta=delta),
                "the learning rate is used twice.",
            ),
            Mistake(
                rate * epsilon(sigma=sigma, delta=delta),
                "ε does not grow in proportion to the learning rate; the noise multiplier falls in proportion.",
            ),
            Mistake(
                epsilon(sigma=sigma / rate**0.5, delta=delta),
                "the learning rate is a factor of the step, not of its variance.",
            ),
            Mistake(
                epsilon(sigma=sigma / rate / 2, delta=delta),
                "the sensitivity is doubled: neighbours differ by one example, added or removed.",
            ),
            Mistake(
                epsilon(sigma=sigma**2, delta=delta),
                "σ is a standard deviation: it need not be squared, and the learning rate is missing.",
            ),
            Mistake(
                epsilon(sigma=sigma**2 / rate, delta=delta),
                "σ is a standard deviation: it need not be squared.",
            ),
            Mistake(
                epsilon(sigma=sigma**0.5 / rate, delta=delta),
                "σ is a standard deviation already: no root of it.",
            ),
            *(
                Mistake(
                    factor * epsilon(sigma=sigma, delta=delta),
                    "ε does not grow with a power of the learning rate; the noise multiplier falls in proportion.",
                )
                for factor in (rate**2, rate**0.5, 1 / rate)
            ),
            *(
                Mistake(
                    math.sqrt(2 * math.log(1.25 / delta)) / multiplier,
                    "this is the classical formula, which is proved for ε below 1 only, and is not exact.",
                )
                for multiplier in (sigma, sigma / rate)
            ),
            Mistake(sigma / rate, "this is the noise multiplier; asked is its ε."),
        ],
        rel=1e-3,
    )
