r"""The best Rényi order, by a search that extends itself.

With log-moment $\alpha(\lambda)$ of one step and $\lambda = $ order $- 1$, T steps are
$(\varepsilon(\lambda), \delta)$-private for every $\lambda > 0$, where

.. math::

    \varepsilon(\lambda) = \frac{T\,\alpha(\lambda) + \log(1/\delta) - \log(1 + \lambda)}{\lambda}
    - \log\bigl(1 + \tfrac{1}{\lambda}\bigr) .

Each value is a valid bound, so that the search decides only how tight the result is, never whether it holds. It
starts with a geometric grid of lambda; while the best one lies at an end, the grid grows there; then it is refined
five times around the best.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Moment = Callable[[NDArray[np.float64]], NDArray[np.float64]]

_PER_OCTAVE = 2
_START = np.arange(-6 * _PER_OCTAVE, 9 * _PER_OCTAVE + 1)  # lambda = 1/64 ... 512
_LEAST, _LARGEST = -40 * _PER_OCTAVE, 58 * _PER_OCTAVE  # where order = 1 + lambda still tells lambda
_ROUNDING = 2.0**-40  # of each term: far more than its error, so that the sum is rounded up


def line(
    lam: NDArray[np.float64], alpha: NDArray[np.float64], log_inverse_delta: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Slope and intercept of epsilon(lambda) as a function of T, every term rounded up."""
    slack, gain = (log_inverse_delta - np.log1p(lam)) / lam, np.log1p(1.0 / lam)
    return alpha / lam * (1.0 + _ROUNDING), slack - gain + _ROUNDING * (np.abs(slack) + gain)


def best(moment: Moment, steps: float, log_inverse_delta: float) -> tuple[float, float]:
    """The least epsilon found and its lambda."""

    def evaluate(lam: NDArray[np.float64]) -> NDArray[np.float64]:
        slope, intercept = line(lam, moment(lam), log_inverse_delta)
        return np.maximum(0.0, steps * slope + intercept)

    grid = _START
    lam = _from_grid(grid)
    values = evaluate(lam)
    i = int(values.argmin())
    while values[i] > 0.0 and i in {0, grid.size - 1} and _LEAST < grid[i] < _LARGEST:
        more = grid[i] + np.arange(1, 8 * _PER_OCTAVE + 1) if i else grid[i] - np.arange(8 * _PER_OCTAVE, 0, -1)
        added = _from_grid(more)
        found = evaluate(added)
        order = 1 if i else -1
        grid = np.concatenate([grid, more][::order])
        lam = np.concatenate([lam, added][::order])
        values = np.concatenate([values, found][::order])
        i = int(values.argmin())
    least, at = float(values[i]), float(lam[i])
    for _ in range(5):
        if least == 0.0:
            break
        lam = _rounded(np.geomspace(lam[max(i - 1, 0)], lam[min(i + 1, lam.size - 1)], 17))
        values = evaluate(lam)
        i = int(values.argmin())
        if values[i] < least:
            least, at = float(values[i]), float(lam[i])
    return least, at


def curve(moment: Moment, steps: NDArray[np.float64], log_inverse_delta: float) -> NDArray[np.float64]:
    """The least epsilon found for each of many numbers of steps, all > 0: the lower envelope of lines in T.

    The best lambda falls as the steps grow, so that the range is that of the extreme numbers of steps. The grid is
    refined where epsilon(lambda) has a sharp minimum: just below the order where the moments take off.
    """
    ends = [best(moment, float(t), log_inverse_delta)[1] for t in (steps.max(), steps.min())]
    lam = _rounded(np.geomspace(min(ends), max(ends), 512)) if ends[0] != ends[1] else np.array(ends[:1])
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
        added = _rounded((lam[used][:, None] * ratio).ravel())
        lam, alpha = np.concatenate([lam, added]), np.concatenate([alpha, moment(added)])
        order = np.argsort(lam)
        lam, alpha = lam[order], alpha[order]
    slope, intercept = line(lam, alpha, log_inverse_delta)
    every = np.multiply.outer(steps, slope)
    every += intercept
    return np.asarray(np.maximum(0.0, every.min(axis=1)), dtype=np.float64)


def _from_grid(grid: NDArray[np.int64]) -> NDArray[np.float64]:
    return _rounded(np.exp2(grid / _PER_OCTAVE))


def _rounded(lam: NDArray[np.float64]) -> NDArray[np.float64]:
    """lambda such that order = 1 + lambda is a float: what is reported is the order that was used."""
    return (1.0 + lam) - 1.0
