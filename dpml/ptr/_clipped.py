"""Numbers in a stated range: clipped, sorted, with the two ends of the range as sentinels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpml import arguments

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["clipped", "ends"]


def ends(low: float, high: float) -> tuple[float, float]:
    """The two ends of a range of numbers, checked: finite, low < high, and not too wide for floats."""
    low = arguments.real("low", low)
    high = arguments.real("high", high, low, low_open=True)
    if math.isinf(high - low):
        raise ValueError(f"high must keep high - low within the range of floats, got {high!r}")
    return low, high


def clipped(values: ArrayLike, low: float, high: float) -> NDArray[np.float64]:
    """low, the sorted values clipped to [low, high], high: so that rank k is position k."""
    low, high = ends(low, high)
    x = arguments.array("values", values, ndim=1)
    return np.concatenate(([low], np.sort(np.clip(x, low, high)), [high]))
