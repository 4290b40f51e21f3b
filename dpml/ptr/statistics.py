r"""Propose-test-release on numbers: a private median, trimmed mean and interquartile range.

Each statistic f of numbers clipped to a stated range [low, high] comes with four functions: its value, its global
sensitivity, its local sensitivity at a dataset, and its safety margin there for a proposed tau. The mechanism of
`dpml.ptr.propose_test_release` does the rest, with f in both places, $f_1 = f_2 = f$:

.. math::

    \hat f = f(S) + N(0, \sigma^2 \tau^2) \ \text{if}\ \Delta(S) + \mathrm{Lap}(b) > B,
    \quad\text{else}\quad f(S) + N(0, \sigma^2\, \mathrm{GS}_f^2) .

Its privacy is that of `dpml.ptr.privacy` at tau over the global sensitivity. Neighbours: one record added or removed.
The range, tau and trim must be chosen without looking at the data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpml.ptr.interquartile_range import (
    interquartile_range,
    interquartile_range_local_sensitivity,
    interquartile_range_safety_margin,
    interquartile_range_sensitivity,
)
from dpml.ptr.median import median, median_local_sensitivity, median_safety_margin, median_sensitivity
from dpml.ptr.propose_test_release import Release, propose_test_release
from dpml.ptr.trimmed_mean import (
    trimmed_mean,
    trimmed_mean_local_sensitivity,
    trimmed_mean_safety_margin,
    trimmed_mean_sensitivity,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike

__all__ = [
    "interquartile_range",
    "interquartile_range_local_sensitivity",
    "interquartile_range_safety_margin",
    "interquartile_range_sensitivity",
    "median",
    "median_local_sensitivity",
    "median_safety_margin",
    "median_sensitivity",
    "private_interquartile_range",
    "private_median",
    "private_trimmed_mean",
    "trimmed_mean",
    "trimmed_mean_local_sensitivity",
    "trimmed_mean_safety_margin",
    "trimmed_mean_sensitivity",
]


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
        ValueError: if values is not a list of finite numbers, low not finite, high not in (low, inf), tau not in (0,
            (high - low)/2), sigma or scale not in (0, inf), delta0 not in (0, 1/2], or rng not a Generator.

    Source: the PTR paper (Wang et al., NeurIPS 2022), Algorithm 1; Dwork and Lei, "Differential privacy and robust
    statistics", STOC 2009.
    """
    value = median(values, low=low, high=high)
    margin = median_safety_margin(values, tau=tau, low=low, high=high)
    bound = median_sensitivity(low=low, high=high)
    return propose_test_release(
        value, f2=value, margin=margin, bound=bound, tau=tau, sigma=sigma, scale=scale, delta0=delta0, rng=rng
    )


def private_trimmed_mean(
    values: ArrayLike,
    *,
    trim: int,
    low: float,
    high: float,
    tau: float,
    sigma: float,
    scale: float,
    delta0: float,
    rng: np.random.Generator,
) -> Release:
    """Return the trimmed mean by propose-test-release, with noise for tau if the test passes, else for (high - low)/2.

    Add/remove neighbours; the privacy of `dpml.ptr.privacy` at tau over (high - low)/2.

    Raises:
        ValueError: if values is not a list of finite numbers, trim not an integer in [0, 1000], low not finite, high
            not in (low, inf), tau not in (0, (high - low)/2), sigma or scale not in (0, inf), delta0 not in (0,
            1/2], or rng not a Generator.

    Source: the PTR paper (Wang et al., NeurIPS 2022), Algorithm 1; Dwork and Lei, "Differential privacy and robust
    statistics", STOC 2009.
    """
    value = trimmed_mean(values, trim=trim, low=low, high=high)
    margin = trimmed_mean_safety_margin(values, tau=tau, trim=trim, low=low, high=high)
    bound = trimmed_mean_sensitivity(low=low, high=high)
    return propose_test_release(
        value, f2=value, margin=margin, bound=bound, tau=tau, sigma=sigma, scale=scale, delta0=delta0, rng=rng
    )


def private_interquartile_range(
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
    """Return the interquartile range by propose-test-release, with noise for tau if the test passes, else for GS.

    Add/remove neighbours; the privacy of `dpml.ptr.privacy` at tau over high - low.

    Raises:
        ValueError: if values is not a list of finite numbers, low not finite, high not in (low, inf), tau not in (0,
            high - low), sigma or scale not in (0, inf), delta0 not in (0, 1/2], or rng not a Generator.

    Source: the PTR paper (Wang et al., NeurIPS 2022), Algorithm 1; Dwork and Lei, "Differential privacy and robust
    statistics", STOC 2009.
    """
    value = interquartile_range(values, low=low, high=high)
    margin = interquartile_range_safety_margin(values, tau=tau, low=low, high=high)
    bound = interquartile_range_sensitivity(low=low, high=high)
    return propose_test_release(
        value, f2=value, margin=margin, bound=bound, tau=tau, sigma=sigma, scale=scale, delta0=delta0, rng=rng
    )
