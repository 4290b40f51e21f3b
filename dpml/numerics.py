r"""What NumPy and SciPy lack: sums and differences of exponentials that neither overflow nor cancel.

.. math::

    \text{log1mexp}(x) &= \log(1 - e^x), \quad x \le 0 \\
    \text{log\_expm1}(x) &= \log(e^x - 1), \quad x \ge 0 \\
    \text{log1p\_scaled\_expm1}(x, q) &= \log(1 + q (e^x - 1)), \quad 0 \le q \le 1

A probability of :math:`e^{-2000}` is 0 in floating point, but its logarithm is an ordinary number; and
:math:`\log(1 - e^x)` for :math:`x = -10^{-20}` is about -46, while the formula typed as it stands gives
``log(0)``. Arrays broadcast and come back as arrays, scalars as NumPy scalars. In logarithms
:math:`-\infty` is a legal value: it is the logarithm of zero.

`crossing` finds the safe side of a threshold, `bracket` both sides: the search of every calibration and every interval.
"""

from __future__ import annotations

import math
import numbers
import reprlib
import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments

__all__ = ["bracket", "crossing", "log1mexp", "log1p_scaled_expm1", "log_expm1"]

_LOG_HALF = -math.log(2.0)


def _log_values(x: ArrayLike, low: float, high: float, allowed: str) -> NDArray[np.float64]:
    """An array of logarithms in [low, high], where low may be -inf: the logarithm of zero."""
    raw = arguments.as_array(x)
    with np.errstate(over="ignore"):  # a long double beyond the range becomes inf, which is refused
        values = raw.astype(np.float64) if raw.dtype.kind in "fiu" else np.array(math.nan)
    if not ((values >= low) & (values <= high)).all():
        arguments.refuse("x", f"in {allowed}", x)
    return values


@np.errstate(under="ignore")
def log1mexp(x: ArrayLike) -> NDArray[np.float64]:
    r"""Return :math:`\log(1 - e^x)` for x in [-inf, 0]; -inf at x = 0.

    Two branches, since each loses all digits where the other is accurate: ``log(-expm1(x))`` near 0,
    ``log1p(-exp(x))`` far from it. They meet at :math:`-\log 2`.

    Raises:
        ValueError: if x is NaN, above 0 or not numeric.

    Source: M. Mächler, "Accurately computing log(1 - exp(-|a|))", vignette of the R package Rmpfr, 2012.
    """
    v = _log_values(x, -math.inf, 0.0, "[-inf, 0]")
    with np.errstate(divide="ignore"):  # log(0) = -inf is the value at x = 0
        result = np.where(v > _LOG_HALF, np.log(-np.expm1(v)), np.log1p(-np.exp(np.minimum(v, _LOG_HALF))))
    return result[()]


@np.errstate(under="ignore")
def log_expm1(x: ArrayLike) -> NDArray[np.float64]:
    r"""Return :math:`\log(e^x - 1)` for finite x >= 0; -inf at x = 0. Never overflows.

    Raises:
        ValueError: if x is NaN, infinite, below 0 or not numeric.

    Source: as `log1mexp`, since :math:`e^x - 1 = e^x (1 - e^{-x})`.
    """
    v = _log_values(x, 0.0, sys.float_info.max, "[0, inf)")
    small = np.minimum(v, 1.0)  # here log(expm1) is accurate; above, x dominates the correction
    with np.errstate(divide="ignore"):
        result = np.where(v <= 1.0, np.log(np.expm1(small)), v + np.log1p(-np.exp(-np.maximum(v, 1.0))))
    return result[()]


def log1p_scaled_expm1(x: ArrayLike, *, q: ArrayLike) -> NDArray[np.float64]:
    r"""Return :math:`\log(1 + q(e^x - 1))`, the logarithm of the mean of :math:`e^{x B}`, B Bernoulli(q).

    Exactly x where q = 1 and 0 where q = 0. For x > 0 every intermediate value is positive, so nothing
    cancels; beyond the range of :math:`e^x` the square root of it is used twice. For x < 0 the sum
    :math:`(1 - q) + q e^x` replaces :math:`1 + q (e^x - 1)` as soon as the latter is below one half.

    Raises:
        ValueError: if x is not finite or q is not in [0, 1].

    Source: Balle, Barthe and Gaboardi, "Privacy amplification by subsampling", NeurIPS 2018, Theorem 8
    (the amplified epsilon is this function of epsilon).
    """
    if not (hasattr(x, "__len__") or hasattr(q, "__len__")):
        single = _one(arguments.real("x", x), arguments.probability("q", q))
        return np.asarray(single)[()]
    v, p = np.broadcast_arrays(arguments.array("x", x), arguments.array("q", q, low=0.0, high=1.0))
    with np.errstate(over="ignore"):
        return np.asarray(np.vectorize(_one, otypes=[np.float64])(v, p))[()]


def _one(x: float, q: float) -> float:
    """`log1p_scaled_expm1` of two numbers."""
    if q == 0.0 or q == 1.0:
        return q * x
    if x > 709.0:
        half = math.exp(min(x, 1400.0) / 2.0)
        split = q * half * half
        return math.log1p(split) if x <= 1400.0 and split < math.inf else x + math.log(q)
    product = q * math.expm1(x)
    return math.log((1.0 - q) + q * math.exp(x)) if product < -0.5 else math.log1p(product)


def crossing(
    excess: Callable[[float], float],
    *,
    low: float,
    high: float,
    guess: float | None = None,
    close: float = 0.0,
    width: float = 0.0,
) -> float:
    """Return the smallest float found in (low, high] where the decreasing function `excess` is <= 0.

    The result is always on the safe side: ``excess(result) <= 0`` was evaluated, not extrapolated, and
    ``excess`` was > 0 at the float just below (or the result is `low`). Where rounding makes `excess` uneven,
    "smallest" holds up to that unevenness. Both ends must be >= 0.

    Where less is asked for, fewer evaluations do: the search ends at a result at which `excess` is at least ``-close``,
    or at most `width` above a point at which it is > 0. With a `guess`, `excess` is evaluated there first and then in
    growing steps away from it; at `low` and `high` only if those are reached.

    Raises:
        ValueError: if excess(high) > 0 is found, if excess returns NaN or no number, the ends are not 0 <= low < high,
            guess is not in [low, high], or close or width is below 0.

    Source: M. Dowell and P. Jarratt, "A modified regula falsi method", BIT 11 (1971), for the Illinois step.
    """
    return _search(excess, low, high, guess, close, width)[1]


def bracket(
    excess: Callable[[float], float], *, low: float, high: float, guess: float | None = None, width: float = 0.0
) -> tuple[float, float]:
    """Return what `crossing` returns, and before it the largest float found below where `excess` is > 0.

    The two are at most `width` apart, or neighbouring floats; both are `low` where excess(low) <= 0.

    Raises:
        ValueError: as `crossing`.

    Source: as `crossing`.
    """
    return _search(excess, low, high, guess, 0.0, width)


def _search(
    excess: Callable[[float], float], low: float, high: float, guess: float | None, close: float, width: float
) -> tuple[float, float]:
    """Interpolation (Illinois) with a halving every fifth step, geometric while the ends differ in size, so that 1e-200
    is found as quickly as 1. It aims at ``excess = -close / 2``."""
    if not callable(excess):
        raise ValueError(f"excess must be a function of one float, got {reprlib.repr(excess)}")
    low = arguments.real("low", low, 0.0)
    high = arguments.real("high", high, low, low_open=True)
    close, width = arguments.real("close", close, 0.0), arguments.real("width", width, 0.0)
    at = low if guess is None else arguments.real("guess", guess, low, high)
    above = below = math.nan
    first, factor, reach, before = low, 1.01, max(width, high * 2.0**-60), (math.nan, math.nan)
    while math.isnan(above) or math.isnan(below):  # a point on either side
        value = _number(excess, at)
        fall = (before[1] - value) / (at - before[0])  # on the way from the last point
        reached = value / fall if 0.0 < fall < math.inf else 0.0  # how far the crossing is, by the secant
        beyond = at + 1.3 * reached
        before = at, value
        if value > 0.0:
            if at == high:
                raise ValueError(f"excess(high) must be <= 0 at high = {high!r}, got {value!r}")
            low, above = at, value + close / 2.0
            at = high if guess is None else min(max(at * factor + reach, min(beyond, 4.0 * at)), high)
        else:
            high, below = at, value + close / 2.0
            if at == first or value >= -close < 0.0:
                return low, high
            at = max(min(at / factor - reach, max(beyond, at / 4.0)), first)
        factor, reach = min(factor**3, 4.0), 4.0 * reach
    step, last, was_low = 0, low, False
    while high - low > width and math.nextafter(low, high) < high:
        step += 1
        slope = above - below
        guess = low + (high - low) * (above / slope) if 0.0 < slope < math.inf else low
        if abs(guess - last) < max(2.0**-10 * guess, width):  # nearly there: reach just over to the other side
            reach = max(4.0 * math.ulp(guess) + abs(guess - last) * 2.0**-16, 0.4 * width)
            guess += reach if high - guess > guess - low else -reach
        if step % 5 == 0 or not low < guess < high:
            guess = _middle(low, high)
        last, value = guess, _number(excess, guess)
        is_low = value > 0.0
        if is_low:
            low, above = guess, value + close / 2.0
            below /= 2.0 if was_low and step > 1 else 1.0  # an end that stays twice loses half its weight
        else:
            high, below = guess, value + close / 2.0
            if value >= -close < 0.0:
                break
            above /= 1.0 if was_low or step == 1 else 2.0
        was_low = is_low
    return low, high


def _number(excess: Callable[[float], float], x: float) -> float:
    value: object = excess(x)
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or math.isnan(value):
        raise ValueError(f"excess must return numbers, got {reprlib.repr(value)} at {x!r}")
    return float(value)


def _middle(low: float, high: float) -> float:
    if low == 0.0:
        return high * 2.0**-20 or math.nextafter(0.0, 1.0)
    if high > 4.0 * low:
        return math.sqrt(low) * math.sqrt(high)
    return low + (high - low) / 2.0
