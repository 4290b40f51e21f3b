"""The parameters of propose-test-release, checked once for all its analyses."""

from __future__ import annotations

from typing import NamedTuple

from dpml import arguments

LEAST = 1e-100
"""Least noise in either branch where a formula divides by its square; the largest sigma is the inverse."""


class Parameters(NamedTuple):
    """sigma, tau, Laplace scale b, delta0, in units of the global sensitivity."""

    sigma: float
    tau: float
    scale: float
    delta0: float

    @property
    def sigma2(self) -> float:
        """The noise when the test passes."""
        return self.sigma * self.tau


def parameters(
    sigma: float, tau: float, scale: float, delta0: float, *, low: float = LEAST, high: float = 1.0 / LEAST
) -> Parameters:
    """The four, in their ranges; sigma in [low, high].

    Raises:
        ValueError: if one is outside.
    """
    return Parameters(
        arguments.real("sigma", sigma, low, high),
        arguments.real("tau", tau, 0.0, 1.0, low_open=True),
        arguments.real("scale", scale, 0.01, 1e6),
        arguments.real("delta0", delta0, 0.0, 0.5, low_open=True),  # beyond, the threshold would be negative
    )


def two_noises(given: Parameters) -> Parameters:
    """The same, where sigma tau must be at least 1e-100 as well.

    Raises:
        ValueError: if it is not.
    """
    if given.sigma2 < LEAST:
        raise ValueError(f"tau must be at least {LEAST:g}/sigma = {LEAST / given.sigma:.3g}, got {given.tau!r}")
    return given
