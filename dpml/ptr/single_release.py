r"""One release of propose-test-release, exactly: delta at an epsilon, and epsilon at a delta.

With $\delta_\sigma$ the Gaussian profile and H the profile of independent Laplace and Gaussian noise, the two cases of
`dpml.ptr.theorems` have the profiles

.. math::

    \text{case 1: } (1 - \delta_0)\,\delta_\sigma(\varepsilon) + \delta_0\,\delta_{\sigma\tau}(\varepsilon), \qquad
    \text{case 2: } H(\varepsilon) ,

and the mechanism is $(\varepsilon, \delta)$-private exactly for delta at least the larger one, since each case is
attained by some functions and datasets.

Theorem. For epsilon > 0 the two profiles cross at most once: case 2 is the larger one below the crossing, case 1 above.
Proof. Let $x = e^\varepsilon$. The second derivative in x of a profile is the density of the loss under Q, over x.
Times $e^{l/2}$ the densities are a normal density of deviation $1/\sigma$ convolved with measures: a point mass at 0
plus a multiple of a normal law in case 1, masses at +-a and a constant between them in case 2. The difference of these
measures has the signs + - + - + (beyond a there is only the normal density, at a the mass; inside, the normal density
rises towards 0 and may come to exceed the constant; at 0 there is the point mass). Convolution with a normal density
adds no sign changes, and two integrations, each from 0 to 0, lose one each: at most two remain. The profiles of both
pairs have the symmetry $H(1/x) = 1 - 1/x + H(x)/x$, so that crossings come at $\pm\varepsilon$.

H is a sum of positive terms, so that no digits are lost where it is small: the Gaussian profiles at
$\varepsilon \mp 1/b$ for the two masses of the Laplace loss, and for the losses x between them the integral of
$1 - e^{\varepsilon - x}$ times the density of `dpml.ptr._worst_pairs`.
"""

from __future__ import annotations

import math

import numpy as np

from dpml import arguments, mechanisms, numerics
from dpml.accounting.guarantee import Guarantee
from dpml.ptr._checked import Parameters, parameters, two_noises
from dpml.ptr._worst_pairs import LEAST, log_mass
from dpml.ptr.renyi import Cases

__all__ = ["delta_cases", "single_delta", "single_epsilon"]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def delta_cases(*, sigma: float, tau: float, scale: float, delta0: float, epsilon: float) -> Cases:
    """Return the exact delta at epsilon in each of the two cases.

    Raises:
        ValueError: if sigma is not in [0.04, 1e4], tau not in (0, 1], scale not in [0.01, 1e6], delta0 not in (0, 1/2]
            or epsilon not in [0, inf).

    Source: own derivation, at the head of this module; Balle and Wang, "Improving the Gaussian mechanism for
    differential privacy", ICML 2018, Theorem 8, for the Gaussian profile.
    """
    given = parameters(sigma, tau, scale, delta0, low=LEAST, high=1e4)
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    first, second = _profiles(given, epsilon)
    return Cases(np.asarray(first)[()], np.asarray(second)[()])


def single_delta(*, sigma: float, tau: float, scale: float, delta0: float, epsilon: float) -> float:
    """Return the least delta for which one release is (epsilon, delta)-private. Exact, to about ten digits.

    Neighbours: those for which the global sensitivities are 1 (see `dpml.ptr.theorems`).

    Raises:
        ValueError: as `delta_cases`.

    Source: as `delta_cases`.
    """
    return float(max(delta_cases(sigma=sigma, tau=tau, scale=scale, delta0=delta0, epsilon=epsilon)))


def single_epsilon(*, sigma: float, tau: float, scale: float, delta0: float, delta: float) -> Guarantee:
    """Return the least epsilon for which one release is (epsilon, delta)-private. Exact, to about ten digits.

    Infinite at delta = 0. Neighbours: as `single_delta`.

    Raises:
        ValueError: if delta is not 0 or in [1e-250, 1], or sigma tau is below 1e-100; otherwise as `delta_cases`.

    Source: as `delta_cases`.
    """
    given = two_noises(parameters(sigma, tau, scale, delta0, low=LEAST, high=1e4))
    delta = arguments.probability("delta", delta)
    if 0.0 < delta < 1e-250:
        raise ValueError(f"delta must be 0 or in [1e-250, 1], got {delta!r}")
    value = math.inf
    if delta > 0.0:
        # case 2 is the Gaussian profile at epsilon - a, at most; case 1 the larger of its two parts
        high = mechanisms.laplace_epsilon(scale=given.scale)
        high += mechanisms.gaussian_epsilon(sigma=given.sigma, delta=delta)
        high += mechanisms.gaussian_epsilon(sigma=given.sigma2, delta=delta)
        value = numerics.crossing(lambda epsilon: max(_profiles(given, epsilon)) - delta, low=0.0, high=high)
    return Guarantee(value, delta=delta, kind="exact", adjacency="as the mechanism's")


def _profiles(given: Parameters, epsilon: float) -> tuple[float, float]:
    """Delta at epsilon in case 1 and in case 2."""
    usual, rare = (_gaussian(noise, epsilon) for noise in (given.sigma, given.sigma2))
    a, mu = 1.0 / given.scale, 1.0 / given.sigma
    ends = 0.5 * _gaussian(given.sigma, epsilon - a) + 0.5 * math.exp(-a) * _gaussian(given.sigma, epsilon + a)
    return (1.0 - given.delta0) * usual + given.delta0 * rare, ends + _between(epsilon, a, mu)


def _gaussian(sigma: float, epsilon: float) -> float:
    """The Gaussian profile, also below 0."""
    if epsilon >= 0.0:
        return mechanisms.gaussian_delta(sigma=sigma, epsilon=epsilon)
    return -math.expm1(epsilon) + math.exp(epsilon) * mechanisms.gaussian_delta(sigma=sigma, epsilon=-epsilon)


@np.errstate(under="ignore")
def _between(epsilon: float, a: float, mu: float) -> float:
    """The integral over x > epsilon of (1 - e^(epsilon - x)) times the density of the loss between its two ends."""
    last = a + mu * (40.0 + mu / 2.0) - epsilon  # beyond, the density is below 1e-300
    if last <= 0.0:
        return 0.0
    flat = max(0.0, a - 10.0 * mu - epsilon)  # up to here an exponential
    above = np.linspace(flat, last, math.ceil(2.0 * (last - flat) / mu) + 1)
    edges = np.concatenate([np.linspace(0.0, flat, math.ceil(flat) + 1)[:-1], above])  # of x - epsilon
    half = np.diff(edges)[:, None] / 2.0
    y = edges[:-1, None] + half * (1.0 + _NODES)
    x = epsilon + y
    logs = math.log(0.25) - a / 2.0 - mu * mu / 8.0 + x / 2.0 + log_mass(x, a, mu)
    return float((half * _WEIGHTS * np.exp(logs) * -np.expm1(-y)).sum())
