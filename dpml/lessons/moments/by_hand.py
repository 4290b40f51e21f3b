"""The law of a composed privacy loss on a plain grid, for drawing: neither an upper nor a lower bound."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpml.mechanisms import gaussian_loss
from dpml.numerics import log1p_scaled_expm1

Q, DELTA = 0.01, 1e-5  # of the lecture's figure


@cache
def composed_by_hand(steps: int, *, direction: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Losses on a grid and their probabilities after `steps` steps at q = 0.01, sigma = 4, for drawing.

    The record is removed, added, or replaced (+1 becomes -1, samples of fixed size, all other gradients 0). The loss
    of one step is rounded to the nearest grid point and convolved by a Fourier transform. This is neither an upper nor
    a lower bound: bounds are what `dpml.accounting.pld` gives.
    """
    n, reach, sigma = 2**17, 8.0, 4.0
    width = 2 * reach / n
    z = np.linspace(-10 * sigma, 10 * sigma + 1, 100_001)
    middle = (z[:-1] + z[1:]) / 2
    loss = log1p_scaled_expm1(-gaussian_loss(middle, sigma=sigma), q=Q)
    below = ndtr(z / sigma)
    if direction != "add":
        below = (1 - Q) * below + Q * ndtr((z - 1) / sigma)
    if direction == "add":
        loss = -loss
    elif direction == "replace":
        loss = loss - log1p_scaled_expm1(-gaussian_loss(-middle, sigma=sigma), q=Q)
    cells = np.rint(loss / width).astype(int) % n  # a negative loss wraps around
    step = np.bincount(cells, weights=np.diff(below), minlength=n)
    total = np.fft.irfft(np.fft.rfft(step) ** steps, n)
    grid: NDArray[np.float64] = np.asarray((np.arange(n) - n // 2) * width, dtype=np.float64)
    return grid, np.maximum(np.fft.fftshift(total), 0.0)


def delta_by_hand(epsilon: float, *, steps: int, direction: str) -> float:
    grid, mass = composed_by_hand(steps, direction=direction)
    above = grid > epsilon
    return float(np.sum(mass[above] * -np.expm1(epsilon - grid[above])))
