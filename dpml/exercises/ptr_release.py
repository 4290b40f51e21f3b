r"""The check of the item of chapter 10 that asks for a mechanism: a median by propose-test-release.

.. math::

    \hat\Delta = \Delta + \mathrm{Lap}(b), \qquad
    f + N(0, \sigma^2\tau^2) \text{ if } \hat\Delta > b \log\tfrac{1}{2\delta_0}, \text{ else } f + N(0, \sigma^2/4) .
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, ndtr

from dpml.classroom import checks, runs, verdict
from dpml.classroom.checks import Mistake
from dpml.exercises._mechanisms import both
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
    scale: float = SCALE,
    small: float = SIGMA * TAU,
    large: float = SIGMA * 0.5,
    limit: float | None = None,
) -> float:
    median, margin, _ = _facts(tuple(values))
    seen = margin + (rng.laplace(0.0, scale) if noisy else 0.0)
    above = seen > (LIMIT if limit is None else limit)
    return median + float(rng.normal(0.0, small if above else large))


def _by_local_sensitivity(values: Any, rng: np.random.Generator) -> float:
    median, margin, _ = _facts(tuple(values))
    return median + float(rng.normal(0.0, SIGMA * (0.5 if margin == 0 else TAU)))


def check_release(answer: Any) -> None:
    """A private median of numbers in [0, 1]: noise for tau if the noisy margin passes, noise for 1/2 if not."""
    name = "release"
    names = ("margin", "tau", "sigma", "scale", "delta0", "rng")
    if callable(answer) and verdict.unfit(answer, (0.5,), dict.fromkeys(names)):
        raise verdict.NotYet(
            f"Your {name} is called with the median, and with {', '.join(names[:-1])} and rng by name: keep the "
            "parameter names."
        )

    def asks(values: Any, rng: np.random.Generator) -> Any:
        median, margin, _ = _facts(tuple(values))
        return answer(median, margin=margin, tau=TAU, sigma=SIGMA, scale=SCALE, delta0=DELTA0, rng=rng)

    both(
        lambda: _require_privacy(asks if callable(answer) else answer, name=name),
        lambda: _require_law(answer, name=name),
    )


def _require_privacy(asks: Any, *, name: str) -> None:
    zeros, tenths = [0.0] * 12, [0.0] * 10 + [0.1] * 10
    checks.mechanism(
        asks,
        name=name,
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
                _by_local_sensitivity, "the exact margin chooses the noise, and is not protected by any of its own."
            ),
            Mistake(
                lambda values, rng: _released(values, rng, scale=1.0 / SCALE),
                "the noise of the margin has scale 1/scale. It is Lap(scale).",
            ),
            Mistake(
                lambda values, rng: _released(values, rng, large=0.5),
                "the noise of the failed test is 1/2. It must be sigma times that.",
            ),
            Mistake(
                lambda values, rng: _released(values, rng, small=SIGMA),
                "the noise of the passed test is sigma, without tau.",
            ),
            Mistake(
                lambda values, rng: _released(values, rng, small=(SIGMA * TAU) ** 2, large=(SIGMA * 0.5) ** 2),
                "the noise has the variance for its standard deviation: rng.normal takes the latter.",
            ),
            Mistake(
                lambda values, rng: _released(values, rng, limit=SCALE * math.log(2.0 / DELTA0)),
                "the threshold has log(2/delta0) in the place of log(1/(2 delta0)).",
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


_RUNS = 6000
# The test fails, passes, fails mostly (where the tail of its noise shows), and does both.
_SETTINGS: tuple[dict[str, float], ...] = (
    {"median": 0.3, "margin": 0.0, "tau": 0.02, "sigma": 3.0, "scale": 3.0, "delta0": 1e-4},
    {"median": 0.7, "margin": 90.0, "tau": 0.03, "sigma": 2.0, "scale": 3.0, "delta0": 0.01},
    {"median": 0.4, "margin": 13.0, "tau": 0.002, "sigma": 3.0, "scale": 4.0, "delta0": 0.002},
    {"median": 0.6, "margin": 4.0, "tau": 0.02, "sigma": 2.0, "scale": 1.5, "delta0": 0.03},
)
_Law = Callable[[Any], Any]  # a distribution function


def _laplace(x: Any) -> Any:
    """The distribution function of Lap(1)."""
    tail = 0.5 * np.exp(-np.abs(x))
    return np.where(np.asarray(x) < 0, tail, 1.0 - tail)


def _law(
    given: dict[str, float],
    *,
    center: float | None = None,
    scale: float | None = None,
    limit: float | None = None,
    small: float | None = None,
    large: float | None = None,
    margin_noise: _Law = _laplace,
    noise: _Law = ndtr,
) -> _Law:
    """The distribution function of what is released: two noises, mixed as the noisy margin passes or fails."""
    at = given["median"] if center is None else center
    b = given["scale"] if scale is None else scale
    t = threshold(scale=given["scale"], delta0=given["delta0"]) if limit is None else limit
    p = float(margin_noise((given["margin"] - t) / b))
    low = given["sigma"] * given["tau"] if small is None else small
    high = given["sigma"] * 0.5 if large is None else large
    return lambda x: p * noise((x - at) / low) + (1 - p) * noise((x - at) / high)


def _wrong_laws(given: dict[str, float]) -> dict[str, _Law]:
    sigma, tau, b, delta0 = (given[key] for key in ("sigma", "tau", "scale", "delta0"))
    low, high, log = sigma * tau, sigma * 0.5, math.log(1 / (2 * delta0))
    right = _law(given)
    return {
        "the noise of the margin is Lap(1), not Lap(scale)": _law(given, scale=1.0),
        "the noise of the margin is Lap(1/scale), not Lap(scale)": _law(given, scale=1 / b),
        "the noise of the margin is half as large as asked": _law(given, scale=b / 2),
        "the noise of the margin is twice as large as asked": _law(given, scale=2 * b),
        "the noise of the margin is Gaussian, and its tails do not fit the threshold": _law(given, margin_noise=ndtr),
        "the threshold lacks the factor scale": _law(given, limit=log),
        "the threshold is divided by scale, not multiplied": _law(given, limit=log / b),
        "the threshold has log(1/delta0), without the 2": _law(given, limit=b * math.log(1 / delta0)),
        "the logarithm of the threshold is not the natural one": _law(given, limit=b * log / math.log(10)),
        "the noise of the failed test is sigma. The global sensitivity is 1/2": _law(given, large=sigma),
        "the noise of the failed test is half as large as asked": _law(given, large=high / 2),
        "the noise of the passed test is half as large as asked": _law(given, small=low / 2),
        "the noise of the released median is Laplace, and sigma is for Gaussian noise": _law(given, noise=_laplace),
        "noise is added twice": _law(given, small=math.sqrt(2) * low, large=math.sqrt(2) * high),
        "the root of the standard deviation is taken": _law(given, small=math.sqrt(low), large=math.sqrt(high)),
        "the median itself is missing: they are centred at 0": _law(given, center=0.0),
        "they are cut off at 0 and 1. That costs no privacy, but asked is the noisy median as it is": lambda x: (
            np.where(x < 0, 0.0, np.where(x >= 1, 1.0, right(x)))
        ),
    }


def _require_law(answer: Callable[..., Any], *, name: str) -> None:
    """Compare 6000 outputs in each of four settings with their exact law, on bins.

    A right answer is refused with probability below 1e-8: chi-square with at least 40 expected in each bin.
    """
    rng = np.random.default_rng(20_251_010)
    misfit, degrees, best_fit = 0.0, 0, 0.0
    fits: dict[str, float] = {}
    for given in _SETTINGS:

        def asks(values: dict[str, float], rng: np.random.Generator) -> Any:
            rest = {key: value for key, value in values.items() if key != "median"}
            return answer(values["median"], rng=rng, **rest)

        outputs = runs.draw(asks, given, trials=_RUNS, rng=rng, name=name)
        odd = next((value for value in outputs if not isinstance(value, float)), None)
        if odd is not None:
            raise checks.NotYet(f"{name} returned {verdict.shown(odd, width=30)}; expected is one number.")
        low, high = given["sigma"] * given["tau"], given["sigma"] * 0.5
        sides = np.array([*(low * np.array([0.3, 0.8, 1.5, 3.0])), *(high * np.array([0.3, 0.8, 1.5]))])
        edges = np.unique([*(given["median"] - sides), *(given["median"] + sides), 0.0, 1.0])
        counts = np.bincount(np.searchsorted(edges, outputs), minlength=len(edges) + 1)
        expected = _RUNS * _shares(_law(given), edges)
        for text, law in _wrong_laws(given).items():
            fits[text] = fits.get(text, 0.0) + float(counts @ np.log(_shares(law, edges) + 1e-9))
        best_fit += float(counts @ np.log(np.maximum(counts, 1) / _RUNS))
        rare = expected < 40
        # Rare bins count together; too few even then, they join the likeliest bin.
        together = int(np.argmax(rare)) if expected[rare].sum() >= 40 else int(np.argmax(expected))
        group = np.where(rare, together, np.arange(len(expected)))
        seen, wanted = (np.bincount(group, weights=values) for values in (counts, expected))
        used = wanted > 0
        misfit += float(((seen - wanted)[used] ** 2 / wanted[used]).sum())
        degrees += int(used.sum()) - 1
    if gammaincc(degrees / 2, misfit / 2) > 1e-9:
        return
    best = max(fits, key=lambda text: fits[text])
    known = fits[best] > best_fit - 60.0
    text = (
        best
        if known
        else "they do not follow the law of the asked noises. Compare both, the threshold, and every parameter"
    )
    raise checks.NotYet(f"{name}: {_RUNS} outputs in each of {len(_SETTINGS)} settings were counted; {text}.")


def _shares(law: _Law, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probabilities of the bins between the edges, and of the two outside."""
    inside: NDArray[np.float64] = np.asarray(law(edges), dtype=float)
    return np.maximum(np.diff(np.array([0.0, *inside, 1.0])), 0.0)
