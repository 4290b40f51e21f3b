r"""A private median: its sensitivity, and how far the data are from a sensitive one, for propose-test-release.

Sort the m clipped numbers, $x_1 \le \dots \le x_m$, and put $x_k$ = low for k < 1, high for k > m. The median is the
middle one, or the mean of the middle two; of no numbers it is the middle of the range. Adding or removing a record
moves it at most half-way across a gap beside it:

.. math::

    \mathrm{LS}(S) = \tfrac12 \max_{(i, i+1)\ \text{beside the middle}} (x_{i+1} - x_i), \qquad
    \mathrm{GS} = \tfrac12 (\text{high} - \text{low}) .

"Beside the middle": i elements below the gap and m - i above it, with |i - (m - i)| <= 1. To bring a gap from $x_i$
to $x_j$ there, remove the j - i - 1 elements inside it, then add at an end, low or high, whatever the shorter side
lacks. Hence

.. math::

    \Delta(S) = \min_{x_j - x_i > 2\tau} \bigl[ (j - i - 1) + \max(0,\ |i - (m - j + 1)| - 1) \bigr] .

For a fixed i a larger j never costs less, so the first j with a gap wide enough is the best.

The mechanism of `dpml.ptr.propose_test_release` does the rest, with the median in both places, $f_1 = f_2 = f$:

.. math::

    \hat f = f(S) + N(0, \sigma^2 \tau^2) \ \text{if}\ \Delta(S) + \mathrm{Lap}(b) > B,
    \quad\text{else}\quad f(S) + N(0, \sigma^2\, \mathrm{GS}^2) .

Its privacy is that of `dpml.ptr.privacy` at tau over the global sensitivity. Neighbours: one record added or removed.
The range and tau must be chosen without looking at the data.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments
from dpml.ptr.propose_test_release import Release, propose_test_release

__all__ = ["median", "median_local_sensitivity", "median_safety_margin", "median_sensitivity", "private_median"]


@np.errstate(under="ignore")
def median(values: ArrayLike, *, low: float, high: float) -> float:
    """Return the median of the values clipped to [low, high]: of an even number of them, the mean of the middle two.

    Of no values: the middle of the range.

    Raises:
        ValueError: if values is not a list of finite numbers, low is not finite, or high not in [low + 1e-300, inf).

    Source: Dwork and Lei, "Differential privacy and robust statistics", STOC 2009; definition of the median.
    """
    x = _clipped(values, low, high)
    m = x.size - 2
    return float(x[(m + 1) // 2] / 2.0 + x[m // 2 + 1] / 2.0)


def median_sensitivity(*, low: float, high: float) -> float:
    """Return the global sensitivity of `median`: half the range.

    Raises:
        ValueError: if low is not finite or high not in [low + 1e-300, inf).

    Source: Nissim, Raskhodnikova and Smith, "Smooth sensitivity and sampling", STOC 2007, where the middle
    element is taken and the value is the range; proved at the head of this module.
    """
    low, high = _range(low, high)
    return high / 2.0 - low / 2.0


@np.errstate(under="ignore")
def median_local_sensitivity(values: ArrayLike, *, low: float, high: float) -> float:
    """Return how far one record added to these values or removed from them can move `median`.

    Raises:
        ValueError: if values is not a list of finite numbers, low is not finite, or high not in [low + 1e-300, inf).

    Source: Nissim, Raskhodnikova and Smith, "Smooth sensitivity and sampling", STOC 2007; here for add/remove
    neighbours and the mean of the middle two, proved at the head of this module.
    """
    x = _clipped(values, low, high)
    m = x.size - 2
    first, last = m // 2, (m + 1) // 2
    gaps = x[first + 1 : last + 2] / 2.0 - x[first : last + 1] / 2.0
    return float(gaps.max())


@np.errstate(under="ignore")
def median_safety_margin(values: ArrayLike, *, tau: float, low: float, high: float) -> float:
    """Return how many records must be added or removed until the local sensitivity exceeds tau: a whole number or inf.

    Infinite if tau is at least the global sensitivity, (high - low)/2. Takes time m log m.

    Raises:
        ValueError: if values is not a list of finite numbers, tau not in (0, inf), low not finite, or high not in
            (low, inf).

    Source: the PTR paper (Wang et al., NeurIPS 2022), section 4.1, definition of the margin; the formula is proved at
    the head of this module.
    """
    half = (_clipped(values, low, high) / 2.0).tolist()
    tau = arguments.real("tau", tau, 0.0, low_open=True)
    m = len(half) - 2
    best, j = math.inf, 0
    for i in range(m + 1):
        while j <= m + 1 and half[j] - half[i] <= tau:
            j += 1
        if j > m + 1:
            break
        best = min(best, (j - i - 1) + max(0, abs(i - (m - j + 1)) - 1))
    return best


def private_median(
    values: ArrayLike,
    *,
    low: float,
    high: float,
    tau: float,
    sigma: float,
    scale: float,
    delta0: float,
    rng: np.random.Generator,
) -> Release:
    """Return the median by propose-test-release, with noise for tau if the test passes and for (high - low)/2 if not.

    Add/remove neighbours; the privacy of `dpml.ptr.privacy` at tau over (high - low)/2. The answer is not clipped to
    the range: to do so afterwards is free.

    Raises:
        ValueError: if values is not a list of finite numbers, low not finite, high not in [low + 1e-300, inf), tau
            not in (0, (high - low)/2), sigma or scale not in (0, inf), delta0 not in (0, 1/2], or rng not a Generator.

    Source: the PTR paper (Wang et al., NeurIPS 2022), Algorithm 1; Dwork and Lei, "Differential privacy and robust
    statistics", STOC 2009.
    """
    value = median(values, low=low, high=high)
    margin = median_safety_margin(values, tau=tau, low=low, high=high)
    bound = median_sensitivity(low=low, high=high)
    return propose_test_release(
        value, f2=value, margin=margin, bound=bound, tau=tau, sigma=sigma, scale=scale, delta0=delta0, rng=rng
    )


def _range(low: float, high: float) -> tuple[float, float]:
    low = arguments.real("low", low)
    high = arguments.real("high", high, low, low_open=True)
    if high - low < 1e-300:
        raise ValueError(f"high must be at least 1e-300 above low, got {high!r} and {low!r}")
    arguments.finite("high", high, high - low, "high - low")
    return low, high


def _clipped(values: ArrayLike, low: float, high: float) -> NDArray[np.float64]:
    """low, the sorted values clipped to [low, high], high: so that rank k is position k."""
    low, high = _range(low, high)
    return np.concatenate(([low], np.sort(np.clip(arguments.array("values", values, ndim=1), low, high)), [high]))
