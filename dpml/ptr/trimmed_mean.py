r"""The trimmed mean of numbers in [low, high]: leave out the F smallest and the F largest, average the rest.

Sort the m clipped numbers and put $x_k$ = low for k < 1, high for k > m. With n = m - 2F numbers kept and T their mean,

.. math::

    T(S) = \frac1n \sum_{k=F+1}^{m-F} x_k \ (n \ge 1), \qquad T(S) = \tfrac12(\text{low} + \text{high}) \ \ (n \le 0) .

Adding a record y turns the kept sum into itself plus y, but for y no lower than $x_F$ and no higher than
$x_{m-F+1}$; removing one takes a kept number away. For n >= 1 the largest change is therefore

.. math::

    \mathrm{LS}(S) = \max\Bigl( \frac{\max(T - x_F,\ x_{m-F+1} - T)}{n + 1},\
    \frac{\max(T - x_{F+1},\ x_{m-F} - T)}{n - 1} \Bigr), \qquad \mathrm{GS} = \tfrac12 (\text{high} - \text{low}),

the second part for n >= 2 only; with one number kept, or none, the middle of the range takes the place of a mean.

The safety margin. A fraction $(T - z_F)/(n+1)$ of a changed dataset z grows when $z_F$ falls or any kept number rises.
So the best change of r records adds at low or high only and removes one block, just above the numbers that stay
below: all pairs (added low, removed) are tried, with prefix sums. Numbers reflected at the middle give the other side.
LS at distance r grows with r, so the margin is found by bisection. Add/remove neighbours.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpml import arguments
from dpml.ptr._clipped import clipped, ends

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["trimmed_mean", "trimmed_mean_local_sensitivity", "trimmed_mean_safety_margin", "trimmed_mean_sensitivity"]

MOST = 1000
"""The largest number of trimmed records: the margin takes a time that grows with its cube."""


def trimmed_mean(values: ArrayLike, *, trim: int, low: float, high: float) -> float:
    """Return the mean of the values clipped to [low, high] without the `trim` smallest and the `trim` largest.

    Of at most 2 trim values: the middle of the range.

    Raises:
        ValueError: if values is not a list of finite numbers, trim not an integer in [0, 1000], low is not finite,
            or high not in (low, inf).

    Source: Dwork and Lei, "Differential privacy and robust statistics", STOC 2009; definition.
    """
    x = clipped(values, low, high)[1:-1]
    trim = arguments.integer("trim", trim, 0, MOST)
    if x.size <= 2 * trim:
        return low / 2.0 + high / 2.0
    return float(np.mean(x[trim : x.size - trim] - low)) + low


def trimmed_mean_sensitivity(*, low: float, high: float) -> float:
    """Return the global sensitivity of `trimmed_mean`, at any trim: half the range.

    One number kept beside none, or two beside one, attain it.

    Raises:
        ValueError: if low is not finite or high not in (low, inf).

    Source: the formula at the head of this module: at most the range over n + 1, or half of it beside n = 0.
    """
    low, high = ends(low, high)
    return high / 2.0 - low / 2.0


def trimmed_mean_local_sensitivity(values: ArrayLike, *, trim: int, low: float, high: float) -> float:
    """Return how far one record added to these values or removed from them can move `trimmed_mean`.

    Raises:
        ValueError: if values is not a list of finite numbers, trim not an integer in [0, 1000], low is not finite,
            or high not in (low, inf).

    Source: the formula at the head of this module.
    """
    low, high = ends(low, high)
    x, width, unit = _in_units(clipped(values, low, high)[1:-1] - low, high - low)
    return math.ldexp(_sensitivity_at(x, 0, arguments.integer("trim", trim, 0, MOST), width), unit)


def trimmed_mean_safety_margin(values: ArrayLike, *, tau: float, trim: int, low: float, high: float) -> float:
    """Return how many records must be added or removed until the local sensitivity exceeds tau: a whole number or inf.

    Infinite if tau is at least the global sensitivity, (high - low)/2. For 1000 values it takes a
    second at a margin of 150, and 12 at a margin of 450.

    Raises:
        ValueError: if values is not a list of finite numbers, tau not in (0, inf), trim not an integer in [0, 1000],
            low not finite, or high not in (low, inf).

    Source: the PTR paper (Wang et al., NeurIPS 2022), section 4.1, definition of the margin; the search is described at
    the head of this module.
    """
    tau = arguments.real("tau", tau, 0.0, low_open=True)
    low, high = ends(low, high)
    x = clipped(values, low, high)[1:-1] - low
    trim = arguments.integer("trim", trim, 0, MOST)
    width = high - low
    if tau >= width / 2.0:
        return math.inf
    x, width, unit = _in_units(x, width)
    tau = math.ldexp(tau, -unit)
    enough, short = 0, -1
    while _sensitivity_at(x, enough, trim, width) <= tau:  # ends: after m + 2 trim changes none of the values is left
        enough, short = 2 * enough + 1, enough
    while enough - short > 1:
        middle = (enough + short) // 2
        if _sensitivity_at(x, middle, trim, width) > tau:
            enough = middle
        else:
            short = middle
    return enough


def _in_units(x: NDArray[np.float64], width: float) -> tuple[NDArray[np.float64], float, int]:
    """Both as whole numbers below 2^53, in units of a power of two, and its exponent."""
    unit = math.frexp(width)[1] - 53
    return np.rint(np.ldexp(x, -unit)), math.ldexp(width, -unit), unit


def _sensitivity_at(x: NDArray[np.float64], r: int, trim: int, width: float) -> float:
    """The greatest local sensitivity within r changes of the sorted whole numbers x in [0, width].

    Sums are exact and rounded once, so that the number found for a changed dataset is the same from whichever dataset
    it was reached: otherwise the margin could move by more than 1 between neighbours where a sensitivity equals tau.
    """
    best = 0.0
    for side in (x, width - x[::-1]):
        for below in (trim, trim + 1):  # an addition pulls the mean towards z_F, a removal away from z_(F+1)
            best = max(best, *(_pull(side, r, trim, below, added, width) for added in range(min(r, below) + 1)))
    return best


def _pull(x: NDArray[np.float64], r: int, trim: int, below: int, added: int, width: float) -> float:
    """The greatest downward change where position `below` is the lowest that can be, after `added` lows."""
    stay = below - added
    if stay > x.size:
        return 0.0
    lowest = x[stay - 1] if stay >= 1 else 0.0
    removed, highs = np.meshgrid(np.arange(min(r - added, x.size - stay) + 1), np.arange(r - added + 1))
    kept = x.size + added + highs - removed - 2 * trim
    averaged = kept if below == trim else kept - 1  # numbers above the lowest that enter the mean
    possible = (removed + highs <= r - added) & (averaged >= 0)
    if not possible.any():
        return 0.0
    removed, kept, averaged = removed[possible], kept[possible], averaged[possible]
    halves = np.divmod(np.append(x, width).astype(np.int64), 2**26)
    sums = [np.concatenate(([0], np.cumsum(half[:-1]))) for half in halves]  # whole numbers below 2^63: exact
    first = stay + removed
    last = np.minimum(first + averaged, x.size)
    upper, lower = (s[last] - s[first] + (first + averaged - last) * h[-1] for s, h in zip(sums, halves, strict=True))
    total = upper * 2.0**26 + lower
    # an addition: (T - z_F) / (n + 1); a removal: (T - z_(F+1)) / (n - 1), where T - z_(F+1) has the factor (n - 1)/n
    means = np.where(averaged >= 1, total / np.maximum(averaged, 1), width / 2.0)
    return float(((means - lowest) / (kept + 1 if below == trim else np.maximum(kept, 1))).max())
