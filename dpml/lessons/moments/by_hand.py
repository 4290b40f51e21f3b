"""The law of a composed privacy loss by a Fourier transform, as chapter 04 shows it and its figures draw it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpml.mechanisms import gaussian_loss
from dpml.numerics import log1p_scaled_expm1

Q, SIGMA, DELTA = 0.01, 4.0, 1e-5  # of the lecture's figure

Array = NDArray[np.float64]
Function = Callable[[Array], Array]


def composed(
    loss: Function, below: Function, *, steps: int, rounding: Any, width: float, n: int
) -> tuple[Array, Array]:
    """Losses on a grid, and their probabilities after all steps.

    `loss` rises or falls with the output z of one step, `below` is the distribution function of z. Every loss
    is rounded to a multiple of width: up (np.ceil), down (np.floor) or to the nearest (np.rint).
    """
    z = np.linspace(-12 * SIGMA, 12 * SIGMA + 1, 200_001)
    values = loss(z)
    ends = values[:-1], values[1:]
    at = {np.floor: np.minimum(*ends), np.ceil: np.maximum(*ends), np.rint: np.add(*ends) / 2}[rounding]
    places = rounding(at / width).astype(int) % n  # a loss below 0 wraps around
    one = np.bincount(places, weights=np.diff(below(z)), minlength=n)
    total = np.fft.irfft(np.fft.rfft(one) ** steps, n)  # a convolution is a product of transforms
    losses: Array = width * np.arange(-n // 2, n // 2, dtype=np.float64)
    return losses, np.fft.fftshift(total)


def delta_of(epsilon: float, losses: Array, mass: Array) -> float:
    """E[(1 - e^(epsilon - L))_+] for a law on a rising grid."""
    first = np.searchsorted(losses, epsilon)
    return float(np.sum(mass[first:] * -np.expm1(epsilon - losses[first:])))


@cache
def lecture_law(steps: int, *, direction: str) -> tuple[Array, Array]:
    """The law at q = 0.01, sigma = 4, for drawing: rounded to the nearest, so neither an upper nor a lower bound.

    The record is removed ("remove") or added ("add").
    """

    def loss(z: Array) -> Array:
        of_the_removed = log1p_scaled_expm1(-gaussian_loss(z, sigma=SIGMA), q=Q)
        return of_the_removed if direction == "remove" else -of_the_removed

    def below(z: Array) -> Array:
        share = Q if direction == "remove" else 0.0
        return np.asarray((1 - share) * ndtr(z / SIGMA) + share * ndtr((z - 1) / SIGMA))

    return composed(loss, below, steps=steps, rounding=np.rint, width=2.0**-13, n=2**17)
