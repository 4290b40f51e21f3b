r"""Three functions that vanish to second order at 0, without the cancellation of their plain formulas.

.. math::

    e^x - 1 - x, \qquad u - \log(1 + u), \qquad (1 + u)\log(1 + u) - u .

All are nonnegative. Log-moments of a privacy loss are means of such terms: written this way nothing is subtracted,
and a moment of 1e-30 keeps all its digits.

Near 0 the first is summed as its Taylor series. The other two use $s = u/(2 + u)$, for which
$1 + u = (1 + s)/(1 - s)$ and $\log(1 + u) = 2s + 2t$ with $t = s^3/3 + s^5/5 + \dots$, hence

.. math::

    u - \log(1 + u) = \frac{2 s^2}{1 - s} - 2t, \qquad
    (1 + u)\log(1 + u) - u = \frac{2 s^2 + 2 (1 + s)\,t}{1 - s} .
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEAR = 0.5  # where the series replaces e^x - 1 - x
_SERIES = [1.0 / math.factorial(k) for k in range(15, 1, -1)]  # the first term left out is below 6e-18 of the sum
_LOG_TERMS = 16  # of the logarithm's: at |s| <= 1/3 the first one left out is below 1e-16 of t


def exp_series(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """e^x - 1 - x for |x| <= NEAR."""
    total = np.full_like(x, _SERIES[0])
    for coefficient in _SERIES[1:]:
        total *= x
        total += coefficient
    total *= x
    total *= x
    return total


def exp_excess(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """e^x - 1 - x for x <= 700."""
    return np.where(np.abs(x) <= NEAR, exp_series(np.clip(x, -NEAR, NEAR)), np.expm1(x) - x)


def log_excess(u: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """u - y for -1 < u <= 1, where y = log(1 + u)."""
    s = np.maximum(u, -0.5) / (2.0 + np.maximum(u, -0.5))
    near = 2.0 * s * s / (1.0 - s) - 2.0 * _cubic(s)
    return np.where(u >= -0.5, near, u - y)


def entropy_excess(u: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """(1 + u) y - u for -1 <= u <= 1, where y = log(1 + u)."""
    s = np.maximum(u, -0.5) / (2.0 + np.maximum(u, -0.5))
    near = (2.0 * s * s + 2.0 * (1.0 + s) * _cubic(s)) / (1.0 - s)
    return np.where(u >= -0.5, near, (1.0 + u) * y - u)


def _cubic(s: NDArray[np.float64]) -> NDArray[np.float64]:
    square = s * s
    total = np.full_like(s, 1.0 / (2 * _LOG_TERMS + 1))
    for k in range(_LOG_TERMS - 1, 0, -1):
        total = total * square + 1.0 / (2 * k + 1)
    return total * square * s
