"""What the accountants of this room accept, how exact they aim to be, and how they refuse."""

from __future__ import annotations

import math

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
    """What a tolerance is multiplied by: tolerances are absolute for ordinary epsilon, relative for small and large.

    Source: definition.
    """
    return max(min(1.0, 30.0 * epsilon), 0.03, epsilon / 100.0)


def agree(lower: float, upper: float, tolerance: float) -> bool:
    """Whether the two ends are finite and as close as a tolerance asks.

    Source: definition.
    """
    return math.isfinite(upper) and upper - lower <= tolerance * scale(upper)


def smallest_delta(delta: float) -> float:
    """Return delta if it is 0 or at least the smallest one that the method supports.

    Raises:
        ValueError: if delta is neither 0 nor in [1e-250, 1].

    Source: the range of floating point; below, the tails of the losses cannot be represented.
    """
    delta = arguments.probability("delta", delta)
    if 0.0 < delta < SMALLEST_DELTA:
        raise ValueError(
            f"delta must be 0 or in [{SMALLEST_DELTA:g}, 1], got {delta!r}: smaller ones are not supported"
        )
    return delta


def chance_drawn(q: float, steps: int) -> float:
    """1 - (1 - q)^steps: the chance that a record is drawn at all. Nothing is lost at a delta above it.

    Source: definition.
    """
    return -math.expm1(steps * math.log1p(-q)) if q < 1.0 else float(steps > 0)


def out_of_range(sigma: float, error: OverflowError) -> ValueError:
    """The refusal of a sigma whose losses are too large for floats.

    Source: the range of floating point.
    """
    return ValueError(f"sigma must be larger for this delta and number of steps, got {sigma!r}: {error}")
