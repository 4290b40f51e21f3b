"""What the accountants of this room accept, how exact they aim to be, and how they refuse."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from dpml import arguments

SMALLEST_DELTA = 1e-250
"""Below, the tails of the losses cannot be represented in floating point."""

LARGEST_SIGMA = 1e6

ROUNDING = 1e-12
"""Relative rounding of the closed forms."""

TOLERANCE = 1.5e-5
"""How far above the truth a single upper end aims to be, for an epsilon up to 100; so do the calibrations."""

INTERVAL = 1e-4
"""The width that intervals and curves aim at."""


def scale(epsilon: float) -> float:
    """What a tolerance is multiplied by: tolerances are absolute for ordinary epsilon, relative for small and large."""
    return max(min(1.0, 30.0 * epsilon), 0.03, epsilon / 100.0)


def coarse(epsilon: float) -> float:
    """The tolerance of lattices that tell epsilon to some percent: where a calibration looks first."""
    return 0.1 * min(1.0, epsilon) / scale(epsilon)


def agree(lower: float, upper: float, tolerance: float) -> bool:
    """Whether the two ends are finite and as close as a tolerance asks."""
    return math.isfinite(upper) and upper - lower <= tolerance * scale(upper)


def checked_run(q: float, steps: int, delta: float) -> tuple[float, int, float]:
    """Sampling probability, number of steps and delta, in their ranges.

    Raises:
        ValueError: if q is not in [0, 1], steps not an integer in [0, 1e9], or delta neither 0 nor in [1e-250, 1].
    """
    return arguments.probability("q", q), arguments.integer("steps", steps, 0, 10**9), smallest_delta(delta)


def smallest_delta(delta: float) -> float:
    """`delta` if it is 0 or at least the smallest one that the method supports.

    Raises:
        ValueError: if delta is neither 0 nor in [1e-250, 1].
    """
    delta = arguments.probability("delta", delta)
    if 0.0 < delta < SMALLEST_DELTA:
        raise ValueError(f"delta must be 0 or in [{SMALLEST_DELTA:g}, 1], got {delta!r}: no smaller one is supported")
    return delta


@contextmanager
def losses_of(sigma: float) -> Iterator[None]:
    """Refuse a sigma whose losses are too large for floats, by its name."""
    try:
        yield
    except OverflowError as error:
        raise ValueError(f"sigma must be larger for this delta and number of steps, got {sigma!r}: {error}") from None
