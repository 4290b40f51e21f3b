"""The parameters of propose-test-release, checked once for all its analyses."""

from __future__ import annotations

import math
from typing import NamedTuple

from dpml import arguments


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
    sigma: float, tau: float, scale: float, delta0: float, *, low: float = 0.0, high: float = math.inf
) -> Parameters:
    """The four, in their ranges; sigma in [low, high], or (0, inf).

    Raises:
        ValueError: if one is outside.
    """
    return Parameters(
        arguments.real("sigma", sigma, low, high, low_open=low == 0.0),
        arguments.real("tau", tau, 0.0, 1.0, low_open=True),
        arguments.real("scale", scale, 0.01, 1e6),
        arguments.real("delta0", delta0, 0.0, 0.5, low_open=True),  # beyond, the threshold would be negative
    )
