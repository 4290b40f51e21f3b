r"""How much noise propose-test-release needs, and which plain Gaussian noise costs the same.

.. math::

    \sigma^* = \inf\{\sigma : \varepsilon(q, \sigma, \tau, b, \delta_0, T, \delta) \le \varepsilon_{\text{target}}\}

With tau, b and delta0 fixed, more sigma is more noise in both branches, a post-processing, so epsilon falls. It does
not fall to 0: the test itself costs what T sampled Laplace mechanisms of scale b cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpml import arguments
from dpml.accounting import pld
from dpml.accounting.pld.compose import smallest_delta
from dpml.ptr._worst_pairs import LEAST
from dpml.ptr.distribution import epsilon as tight_epsilon

__all__ = ["matching_gaussian_sigma", "noise_multiplier"]

_MOST = 1e4


def noise_multiplier(
    *, q: float, tau: float, scale: float, delta0: float, steps: int, epsilon: float, delta: float
) -> float:
    """Return a sigma for which `steps` steps on Poisson samples are (epsilon, delta)-private, add/remove.

    Its epsilon, as `dpml.ptr.distribution.epsilon` computes it, is at most the target and within
    1e-3 min(1, epsilon) of it; 0.04, the least sigma that is supported, where that is enough.

    Raises:
        ValueError: if q is not in [0, 1], tau not in (0, 1], scale not in [0.01, 1e6], delta0 not in (0, 1/2], steps
            not an integer in [0, 1e9], epsilon not in [1e-6, 1e4] or delta not in [1e-250, 1]; or if no sigma up to
            1e4 will do, because the test alone costs more or nearly as much.

    Source: definition; the epsilon is that of `dpml.ptr.distribution`.
    """
    epsilon = arguments.real("epsilon", epsilon, 1e-6, 1e4)
    arguments.real("delta", delta, 0.0, 1.0, low_open=True)
    delta = smallest_delta(delta)

    def reached(sigma: float) -> float:
        found = tight_epsilon(q=q, sigma=sigma, tau=tau, scale=scale, delta0=delta0, steps=steps, delta=delta)
        return found.epsilon

    low, high = 0.5, 1.0
    at_low, at_high = math.inf, reached(high)
    if at_high <= epsilon:
        while (at_low := _tried(reached, low)) <= epsilon:
            high, at_high = low, at_low
            if high == LEAST:
                return LEAST
            low = max(low / 2.0, LEAST)
    while at_high > epsilon:
        if high == _MOST:
            raise ValueError(
                f"epsilon must be at least {at_high:g}, what is left at sigma = {_MOST:g}, got {epsilon!r}"
            )
        low, at_low = high, at_high
        high = min(4.0 * high, _MOST)
        at_high = reached(high)
    close = 1e-3 * min(1.0, epsilon)
    count = 0
    while epsilon - at_high > close and high > low * (1.0 + 1e-7):
        count += 1
        share = 0.5
        if at_low < math.inf and count % 3:  # epsilon is nearly a line in 1/sigma
            share = min(max((at_low - epsilon + 0.5 * close) / (at_low - at_high), 0.02), 0.98)
        sigma = 1.0 / (1.0 / low + share * (1.0 / high - 1.0 / low))
        value = reached(sigma)
        if value <= epsilon:
            high, at_high = sigma, value
        else:
            low, at_low = sigma, value
    return high


def matching_gaussian_sigma(
    *, q: float, sigma: float, tau: float, scale: float, delta0: float, steps: int, delta: float
) -> float:
    """Return the noise multiplier of plain DP-SGD with the same epsilon at delta: what the test costs, in noise.

    Smaller than sigma. Add/remove neighbours, Poisson samples, the same q and steps. 0.0 where no noise is needed.

    Raises:
        ValueError: if delta is not in [1e-250, 1]; otherwise as `dpml.ptr.distribution.epsilon`, or as
            `dpml.accounting.pld.noise_multiplier` where epsilon is out of its range.

    Source: definition; the PTR paper (Wang et al., NeurIPS 2022), appendix B.1.3, which compares at sigma 1.1
    against 0.7 as equals; by these distributions 1.1 matches 0.85 there.
    """
    arguments.real("delta", delta, 0.0, 1.0, low_open=True)
    found = tight_epsilon(q=q, sigma=sigma, tau=tau, scale=scale, delta0=delta0, steps=steps, delta=delta)
    if found.epsilon == 0.0:
        return 0.0
    return pld.noise_multiplier(q=q, steps=steps, epsilon=found.epsilon, delta=delta)


def _tried(reached: Callable[[float], float], sigma: float) -> float:
    """Epsilon at a small sigma; infinite where the losses are beyond the range of floats."""
    try:
        return reached(sigma)
    except ValueError as error:
        if not str(error).startswith("sigma must be larger"):
            raise
        return math.inf
