r"""The check of the item of chapter 10 that asks for a mechanism: a median by propose-test-release.

.. math::

    \hat\Delta = \Delta + \mathrm{Lap}(b), \qquad
    f + N(0, \sigma^2\tau^2) \text{ if } \hat\Delta > b \log\tfrac{1}{2\delta_0}, \text{ else } f + N(0, \sigma^2/4) .
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from dpml.classroom import checks
from dpml.classroom.checks import Mistake
from dpml.ptr import privacy, statistics
from dpml.ptr.propose_test_release import threshold

__all__ = ["check_release"]

TAU, SIGMA, SCALE, DELTA0, DELTA = 0.0501, 4.0, 2.0, 0.01, 0.02
LIMIT = threshold(scale=SCALE, delta0=DELTA0)


@cache
def _epsilon() -> float:
    return privacy.single_epsilon(sigma=SIGMA, tau=TAU / 0.5, scale=SCALE, delta0=DELTA0, delta=DELTA).epsilon


@cache
def _facts(values: tuple[float, ...]) -> tuple[float, float, float]:
    """Median, margin and local sensitivity, remembered: a check runs the mechanism many times on few datasets."""
    unit = {"low": 0.0, "high": 1.0}
    margin = statistics.median_safety_margin(values, tau=TAU, **unit)
    return statistics.median(values, **unit), margin, statistics.median_local_sensitivity(values, **unit)


def _released(
    values: Any,
    rng: np.random.Generator,
    *,
    noisy: bool = True,
    small: float = SIGMA * TAU,
    large: float = SIGMA * 0.5,
    limit: float | None = None,
) -> float:
    median, margin, _ = _facts(tuple(values))
    seen = margin + (rng.laplace(0.0, SCALE) if noisy else 0.0)
    above = seen > (LIMIT if limit is None else limit)
    return median + float(rng.normal(0.0, small if above else large))


def check_release(answer: Any) -> None:
    """A private median of numbers in [0, 1]: noise for tau if the noisy margin passes, noise for 1/2 if not."""

    def asks(values: Any, rng: np.random.Generator) -> Any:
        median, margin, _ = _facts(tuple(values))
        return answer(median, margin=margin, tau=TAU, sigma=SIGMA, scale=SCALE, delta0=DELTA0, rng=rng)

    zeros, tenths = [0.0] * 12, [0.0] * 10 + [0.1] * 10
    checks.mechanism(
        asks if callable(answer) else answer,
        name="release",
        reference=_released,
        neighbours=[
            ([*zeros, 1.0, 1.0, 1.0, 1.0], [*zeros, 1.0, 1.0, 1.0]),  # margins 7 and 8, on both sides of the threshold
            (tenths, [*tenths, 0.1]),  # the median moves by just less than tau, and the test passes nearly always
            ([0.0] * 5 + [1.0] * 3, [0.0] * 4 + [1.0] * 3),  # margins 1 and 0
            ([0.0] * 4 + [1.0] * 3, [0.0] * 4 + [1.0] * 4),  # both margins 0, and the median moves by 1/2
        ],
        epsilon=_epsilon(),
        delta=DELTA,
        events=[("an answer within 0.3 of 0", lambda value: abs(float(value)) < 0.3)],
        trials=7000,
        mistakes=[
            Mistake(
                lambda values, rng: _released(values, rng, noisy=False),
                "the margin is compared with the threshold without noise, so the branch tells what the margin is.",
            ),
            Mistake(
                lambda values, rng: _released(values, rng, small=TAU),
                "the noise of the passed test has standard deviation tau. It must be sigma times tau.",
            ),
            Mistake(
                lambda values, rng: _released(values, rng, large=SIGMA * TAU),
                "the noise is sigma times tau even if the test fails. Then the median may move by 1/2.",
            ),
            Mistake(
                lambda values, rng: _released(values, rng, small=SIGMA * 0.5),
                "the noise is for the global sensitivity even if the test passes. The test then buys nothing.",
            ),
            Mistake(
                lambda values, rng: _released(values, rng, limit=0.0),
                "the noisy margin is compared with 0. A margin of 0 must pass with probability delta0 only.",
            ),
            Mistake(
                lambda values, rng: _released(values, rng, small=0.0),
                "the median is released without noise if the test passes.",
            ),
            Mistake(
                lambda values, rng: _released(values, rng, small=SIGMA * 0.5, large=SIGMA * TAU),
                "the branches are exchanged: a large margin allows the small noise.",
            ),
        ],
    )
