r"""Exact probabilities of what the sparse vector technique puts out, without simulation.

Given the noisy threshold t the noisy queries are independent, so the probability of an outcome in which the queries in
B are below and those in A above is one integral, with F the distribution function of Lap(1):

.. math::

    P = \int \frac{1}{2 b_1} e^{-|t - T|/b_1} \prod_{i \in B} F\Bigl(\frac{t - f_i}{b_2}\Bigr)
        \prod_{i \in A} F\Bigl(\frac{f_i - t}{b_2}\Bigr)\, dt .

The logarithm of each factor is concave in t, hence the integrand has one peak and falls on both sides of it; the
quadrature sits where it is within e^-60 of the peak and has its panel ends at every kink.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments, numerics

__all__ = ["above_threshold_probabilities", "outcome_log_probability"]

_FAR = 1e30  # the largest query: what is added to it must not be lost in overflow
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


@np.errstate(under="ignore")
def outcome_log_probability(
    stream: ArrayLike, *, above: ArrayLike, threshold: float, threshold_scale: float, query_scale: float
) -> float:
    r"""Return the logarithm of the probability that exactly these bits come out, with one noisy threshold.

    `stream` holds the true answers of the queries that were asked, `above` a bit for each. A scale of 0 stands for no
    noise, as in broken variants. -inf where the outcome is impossible. Relative error of the probability about 1e-11,
    also far below the smallest float, plus the spacing of floats at the largest query over the smallest scale.

    Raises:
        ValueError: if stream does not hold numbers in [-1e30, 1e30], above are not as many bits, threshold is not one,
            or a scale is neither 0 nor in [1e-6, 1e9].

    Source: definition of the mechanism; own quadrature.
    """
    values = arguments.array("stream", stream, ndim=1, low=-_FAR, high=_FAR)
    ups = arguments.bits("above", above)
    if ups.shape != values.shape:
        raise ValueError(f"above must have one bit for each of the {len(values)} queries, got shape {ups.shape}")
    threshold = arguments.real("threshold", threshold, -_FAR, _FAR)
    b1, b2 = _scale("threshold_scale", threshold_scale), _scale("query_scale", query_scale)
    if b2 == 0.0:
        return _without_query_noise(values[ups == 0], values[ups == 1], threshold, b1)
    low, low_number = np.unique(values[ups == 0], return_counts=True)
    high, high_number = np.unique(values[ups == 1], return_counts=True)

    def log_integrand(t: NDArray[np.float64]) -> NDArray[np.float64]:
        total = low_number @ _log_cdf((t - low[:, None]) / b2) + high_number @ _log_cdf((high[:, None] - t) / b2)
        return np.asarray(total - (0.0 if b1 == 0.0 else np.abs(t - threshold) / b1 + math.log(2.0 * b1)))

    if b1 == 0.0:
        return float(log_integrand(np.array([threshold]))[0])
    return _log_integral(log_integrand, np.unique([threshold, *low, *high]), b1, b2)


def above_threshold_probabilities(stream: ArrayLike, *, threshold: float, epsilon: float) -> NDArray[np.float64]:
    """Return the exact probabilities that AboveThreshold stops at query 0, 1, ..., and, last, that it never stops.

    Shape: number of queries + 1; they sum to 1. The noise is that of `sparse_vector.above_threshold`.

    Raises:
        ValueError: if stream does not hold numbers in [-1e30, 1e30], threshold is not one, or epsilon is not in
            [1e-8, 2e6].

    Source: Dwork and Roth, "The algorithmic foundations of differential privacy", Algorithm 1; own quadrature.
    """
    values = arguments.array("stream", stream, ndim=1, low=-_FAR, high=_FAR)
    threshold = arguments.real("threshold", threshold, -_FAR, _FAR)
    epsilon = arguments.real("epsilon", epsilon, 1e-8, 2e6)
    scales = {"threshold": threshold, "threshold_scale": 2.0 / epsilon, "query_scale": 4.0 / epsilon}
    bits = np.zeros(len(values), dtype=int)
    result = [
        math.exp(outcome_log_probability(values[: i + 1], above=[0] * i + [1], **scales)) for i in range(len(values))
    ]
    return np.array([*result, math.exp(outcome_log_probability(values, above=bits, **scales))])


def _scale(name: str, value: float) -> float:
    scale = arguments.real(name, value, 0.0, 1e9)
    if 0.0 < scale < 1e-6:
        raise ValueError(f"{name} must be 0 or in [1e-06, 1e+09], got {scale!r}")
    return scale


@np.errstate(under="ignore")
def _log_cdf(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The logarithm of the distribution function of Lap(1)."""
    return np.where(x < 0.0, np.minimum(x, 0.0) - math.log(2.0), np.log1p(-0.5 * np.exp(-np.maximum(x, 0.0))))


def _without_query_noise(
    below: NDArray[np.float64], above: NDArray[np.float64], threshold: float, scale: float
) -> float:
    """The threshold must lie above all of `below` and not above any of `above`."""
    low, high = float(np.max(below, initial=-math.inf)), float(np.min(above, initial=math.inf))
    if scale == 0.0:
        return 0.0 if low < threshold <= high else -math.inf
    if low >= high:
        return -math.inf
    if low > threshold:  # mirror, so that the difference is taken where both values are small
        low, high, threshold = -high, -low, -threshold
    upper, lower = _log_cdf(np.array([high - threshold, low - threshold]) / scale)
    return float(upper + numerics.log1mexp(lower - upper)) if upper > -math.inf else -math.inf


def _log_integral(
    log_integrand: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    kinks: NDArray[np.float64],
    threshold_scale: float,
    query_scale: float,
) -> float:
    """log of the integral of a log-concave function with these kinks, by panels where it is not negligible."""
    # so many queries as fit into memory move the peak by less than 64 of their scales
    reach = 800.0 * threshold_scale + 64.0 * query_scale + float(kinks[-1] - kinks[0])
    far = float(kinks[0]) - reach, float(kinks[-1]) + reach
    at_kinks = log_integrand(kinks)
    low, high, top, peak = *far, float(at_kinks.max()), float(kinks[at_kinks.argmax()])
    for _ in range(12):  # one peak: it is next to the largest of the points
        grid = np.linspace(low, high, 33)
        values = log_integrand(grid)
        best = int(np.argmax(values))
        if values[best] > top:
            top, peak = float(values[best]), float(grid[best])
        low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, 32)])

    def above_the_rest(t: float) -> float:
        return float(log_integrand(np.array([t]))[0]) - top + 60.0

    search = {"low": 0.0, "guess": threshold_scale, "close": 20.0}  # to between e^-60 and e^-80 of the peak
    left = peak - numerics.crossing(lambda t: above_the_rest(peak - t), high=peak - far[0], **search)
    right = peak + numerics.crossing(lambda t: above_the_rest(peak + t), high=far[1] - peak, **search)
    edges = [*np.linspace(left, right, 161), *kinks]
    if query_scale < (right - left) / 80.0:  # steps of the distribution functions, sharper than the panels
        steps = query_scale * np.array([1.0, *np.arange(2.0, 66.0, 2.0)])
        edges += [*(kinks[:, None] + steps).ravel(), *(kinks[:, None] - steps).ravel()]
    ordered = np.unique(edges)
    ordered = ordered[(ordered >= left) & (ordered <= right)]
    half, middles = np.diff(ordered) / 2.0, (ordered[:-1] + ordered[1:]) / 2.0
    points = (middles[:, None] + half[:, None] * _NODES).ravel()
    parts = np.array_split(points, 1 + len(points) * len(kinks) // 1_000_000)
    logs = np.concatenate([log_integrand(part) for part in parts])
    with np.errstate(under="ignore"):
        return top + math.log(float(np.sum(np.exp(logs - top) * (half[:, None] * _WEIGHTS).ravel())))
