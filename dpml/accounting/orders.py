r"""The best Rényi order, by a search that extends itself.

With log-moment $\alpha(\lambda)$ of one step and $\lambda = $ order $- 1$, T steps are
$(\varepsilon(\lambda), \delta)$-private for every $\lambda > 0$, where

.. math::

    \varepsilon(\lambda) = \frac{T\,\alpha(\lambda) + \log(1/\delta) - \log(1 + \lambda)}{\lambda}
    - \log\bigl(1 + \tfrac{1}{\lambda}\bigr) .

Each value is a valid bound, so that the search decides only how tight the result is, never whether it holds. It
starts with a geometric grid of lambda around a guess; while the best one lies at an end, the grid grows there.
Then it is refined around the best until neighbours agree to 1e-5. A moment costs little beside the call that asks for
it, so that few calls with many lambda each are made.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Moment = Callable[[NDArray[np.float64]], NDArray[np.float64]]

_PER_OCTAVE = 24
_FIRST = np.arange(-28, 13)  # about the guess, which is more often too large
_LEAST, _LARGEST = -40 * _PER_OCTAVE, 58 * _PER_OCTAVE  # where order = 1 + lambda still tells lambda
_AROUND = np.array([-0.1, -0.03, 0.0, 0.03, 0.1])  # new points around a vertex, in widths of the bracket
_INSIDE = np.linspace(0.0, 1.0, 11)  # and in the whole bracket
_CLOSE = 1e-5  # where the search stops; near a smooth minimum it is then within 3e-6 of it
_ROUNDING = 2.0**-40  # of each term: far more than its error, so that the sum is rounded up


def line(
    lam: NDArray[np.float64], alpha: NDArray[np.float64], log_inverse_delta: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Slope and intercept of epsilon(lambda) as a function of T, every term rounded up."""
    slack, gain = (log_inverse_delta - np.log1p(lam)) / lam, np.log1p(1.0 / lam)
    return alpha / lam * (1.0 + _ROUNDING), slack - gain + _ROUNDING * (np.abs(slack) + gain)


@np.errstate(over="ignore", under="ignore")
def best(moment: Moment, steps: float, log_inverse_delta: float, *, guess: float) -> tuple[float, float]:
    """The least epsilon found and its lambda."""

    def evaluate(lam: NDArray[np.float64]) -> NDArray[np.float64]:
        slope, intercept = line(lam, moment(lam), log_inverse_delta)
        return np.maximum(0.0, steps * slope + intercept)

    grid = min(max(round(_PER_OCTAVE * math.log2(guess)), _LEAST + 28), _LARGEST - 28) + _FIRST
    values = evaluate(_from_grid(grid))
    while values[i := int(values.argmin())] > 0.0 and i in {0, grid.size - 1} and _LEAST < grid[i] < _LARGEST:
        more = grid[i] + np.arange(1, 2 * _PER_OCTAVE + 1) * (1 if i else -1)
        grid, values = np.append(grid, more), np.append(values, evaluate(_from_grid(more)))
        order = grid.argsort()
        grid, values = grid[order], values[order]
    lam = _from_grid(grid)
    least, at = float(values[i]), float(lam[i])
    for _ in range(30):
        low, high = max(i - 1, 0), min(i + 1, lam.size - 1)
        if max(values[low], values[high]) <= least * (1.0 + _CLOSE):
            break
        a, b = math.log(lam[low]), math.log(lam[high])
        middle = _vertex(np.log(lam[low : high + 1]).tolist(), values[low : high + 1].tolist()) if low < i < high else a
        points = np.concatenate([a + (b - a) * _INSIDE, np.clip(middle + (b - a) * _AROUND, a, b)])
        lam = rounded(np.exp(np.sort(points)))
        values = evaluate(lam)
        i = int(values.argmin())
        if values[i] < least:
            least, at = float(values[i]), float(lam[i])
    return least, at


def _vertex(x: list[float], y: list[float]) -> float:
    """Where the parabola through three points, the middle one lowest, has its minimum."""
    left, right = (x[1] - x[0]) * (y[1] - y[2]), (x[1] - x[2]) * (y[1] - y[0])
    if not math.isfinite(left - right) or left == right:
        return x[1]
    return x[1] - 0.5 * ((x[1] - x[0]) * left - (x[1] - x[2]) * right) / (left - right)


def limits(q: float, sigma: float, steps: float, log_inverse_delta: float) -> tuple[float, float]:
    """Two numbers of which the smaller is about the best lambda: the best by the moment at small lambda,
    alpha = q^2 (e^(1/sigma^2) - 1) lambda (lambda + 1)/2, and where its second term q^(lambda+1)
    e^(lambda (lambda+1)/(2 sigma^2)) takes over."""
    inverse = max(min(1.0 / sigma / sigma, 1e300), 1e-300) if sigma > 1e-150 else 1e300
    log_unit = 2.0 * math.log(q) + (math.log(math.expm1(inverse)) if inverse < 30.0 else inverse)
    balance = 0.5 * (math.log(2.0 * max(log_inverse_delta, 0.01)) - math.log(steps) - log_unit)
    limit = (
        math.log(2.0 * (-math.log(q) + 1e-3) / inverse + log_inverse_delta / steps / inverse) if q < 1.0 else math.inf
    )
    return math.exp(min(max(balance, -25.0), 40.0)), math.exp(min(max(limit, -25.0), 40.0))


@np.errstate(over="ignore", under="ignore")
def curve(
    moment: Moment, steps: NDArray[np.float64], log_inverse_delta: float, *, guesses: tuple[float, float]
) -> NDArray[np.float64]:
    """The least epsilon found for each of many numbers of steps, all > 0: the lower envelope of lines in T.

    The best lambda falls as the steps grow, so that the range is that of the extreme numbers of steps. The grid is
    refined where epsilon(lambda) has a sharp minimum: just below the order where the moments take off.
    """
    extremes = (float(steps.max()), float(steps.min()))
    ends = [best(moment, t, log_inverse_delta, guess=g)[1] for t, g in zip(extremes, guesses, strict=True)]
    lam = rounded(np.geomspace(min(ends), max(ends), 512)) if ends[0] != ends[1] else np.array(ends[:1])
    alpha = moment(lam)
    last = steps.size - 1
    ranks = np.concatenate([np.linspace(0, last, 48).astype(int), np.geomspace(1, last + 1, 48).astype(int) - 1])
    some = np.sort(steps)[np.unique(ranks)]  # few and many steps alike
    for _ in range(3):
        slope, intercept = line(lam, alpha, log_inverse_delta)
        every = np.multiply.outer(some, slope) + intercept
        least = every.min(axis=1)
        left, middle, right = every[:, :-2], every[:, 1:-1], every[:, 2:]
        rise = np.maximum(left, right) - middle
        sharp = (rise > 1e-4 * middle) & (np.minimum(left, right) >= middle) & (middle < 1.01 * least[:, None])
        used = np.flatnonzero(sharp.any(axis=0))
        used = np.unique(np.concatenate([used, used + 1]))
        if not 0 < used.size <= 128:
            break
        ratio = (lam[used + 1] / lam[used])[:, None] ** (np.arange(1, 8) / 8.0)
        added = rounded((lam[used][:, None] * ratio).ravel())
        lam, alpha = np.concatenate([lam, added]), np.concatenate([alpha, moment(added)])
        order = np.argsort(lam)
        lam, alpha = lam[order], alpha[order]
    slope, intercept = line(lam, alpha, log_inverse_delta)
    every = np.multiply.outer(steps, slope)
    every += intercept
    return np.asarray(np.maximum(0.0, every.min(axis=1)), dtype=np.float64)


def _from_grid(grid: NDArray[np.int64]) -> NDArray[np.float64]:
    return rounded(np.exp2(grid / _PER_OCTAVE))


def rounded(lam: NDArray[np.float64]) -> NDArray[np.float64]:
    """lambda such that order = 1 + lambda is a float: what is reported is the order that was used."""
    return (1.0 + lam) - 1.0
