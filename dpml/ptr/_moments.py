r"""Moments of 1 + q (e^L - 1) for the losses L that occur in propose-test-release, as sums of positive terms.

The sums are those of `dpml.accounting.quadrature`. Here the law of L under Q is discrete after quadrature: points and
logarithms of weights.

- Laplace noise: masses at both ends and a density between them; Gauss-Legendre rules on pieces so short that
  $(\lambda+1) y$ changes by at most 12.
- Laplace and Gaussian noise: the density of `dpml.ptr._worst_pairs` on the whole line, by the trapezoid rule.
  Up to a shift it is a normal density convolved with a positive measure, so that on the line Im L = d it grows by
  $e^{d^2/(2\mu^2)}$ like the normal one; the branch points of y are at distance pi. The step makes the error some
  hundreds times e^-42, as in `dpml.accounting.subsampled_gaussian`.

Case 1 needs neither: its moments are averages over the two branches of those of the subsampled Gaussian mechanism.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpml.accounting import quadrature, rdp
from dpml.accounting.subsampled_gaussian import log_moments
from dpml.ptr._checked import Parameters
from dpml.ptr._worst_pairs import log_mass

Array = NDArray[np.float64]

_EXPONENT = 42.0
_TAIL = 9.5
_LARGE = 600.0
REACH = 1e4
"""Real orders up to this many sigma are computed by quadrature."""
_LEGENDRE = np.polynomial.legendre.leggauss(16)

Law = tuple[Array, Array]
"""The law of a loss under Q: increasing points, and logarithms of their weights."""


def laplace_law(a: float, order: float) -> Law:
    """Laplace noise of scale 1/a, for moments up to the given size of order."""
    count = math.ceil(2.0 * a * max(1.0, order / 12.0))
    edges = np.linspace(-a, a, count + 1)
    half = a / count
    nodes, weights = _LEGENDRE
    points = ((edges[:-1] + half)[:, None] + half * nodes).ravel()
    logs = math.log(0.25) - a / 2.0 - points / 2.0 + np.tile(np.log(half * weights), count)
    ends = np.array([-a, a]), np.array([math.log(0.5), math.log(0.5) - a])
    return np.concatenate([ends[0][:1], points, ends[0][1:]]), np.concatenate([ends[1][:1], logs, ends[1][1:]])


@np.errstate(under="ignore")
def product_law(a: float, mu: float, order: float) -> Law:
    """Laplace noise of scale 1/a and, independent of it, normal noise of deviation 1/mu."""
    d = min(0.9 * math.pi, mu * math.sqrt(2.0 * _EXPONENT))
    step = 2.0 * math.pi * d / (_EXPONENT + d * d / (2.0 * mu * mu))
    low = -a - mu * mu / 2.0 - _TAIL * mu
    high = a - mu * mu / 2.0 + max(order, 2.0) * mu * mu + _TAIL * mu
    points: Array = np.asarray(step * np.arange(math.floor(low / step), math.ceil(high / step) + 1), dtype=np.float64)
    shift, norm = mu * mu / 2.0, math.log(mu * math.sqrt(2.0 * math.pi))
    far = math.log(0.5) - a - norm - ((points - a + shift) / mu) ** 2 / 2.0
    near = math.log(0.5) - norm - ((points + a + shift) / mu) ** 2 / 2.0
    between = math.log(0.25) - a / 2.0 - mu * mu / 8.0 - points / 2.0 + log_mass(points, a, mu)
    return points, np.asarray(np.logaddexp(np.logaddexp(far, near), between) + math.log(step), dtype=np.float64)


def log_case_1(lam: Array, q: float, given: Parameters) -> Array:
    """Log-moments of case 1 at lam > 0, any reals; 0 < q <= 1. Infinite beyond the range of floats."""
    return mixed_log(log_moments(lam, q, given.sigma), log_moments(lam, q, given.sigma2), given.delta0)


def log_case_2(lam: Array, q: float, given: Parameters) -> Array:
    """Log-moments of case 2 at 0 < lam < 10^4 sigma, any reals; 0 < q <= 1."""
    if q == 1.0:
        both = rdp.laplace(lam + 1.0, scale=given.scale) + rdp.gaussian(lam + 1.0, sigma=given.sigma)
        return np.asarray(lam * both, dtype=np.float64)
    result = np.empty(lam.shape)
    rest = np.argsort(lam)
    while rest.size:  # orders that differ by a factor of at most 4 share their points
        rows = rest[: int(np.searchsorted(lam[rest], 4.0 * lam[rest[0]] + 4.0, side="right"))]
        rest = rest[rows.size :]
        law = product_law(1.0 / given.scale, 1.0 / given.sigma, float(lam[rows[-1]]) + 1.0)
        result[rows] = quadrature.log_moments(lam[rows], quadrature.positive_powers(*law, q))
    return result


@np.errstate(under="ignore")
def mixed_log(usual: Array, rare: Array, weight: float) -> Array:
    """log((1 - weight) e^usual + weight e^rare) for exponents >= 0, without cancellation near 0."""
    small, rare_small = np.minimum(usual, _LARGE), np.minimum(rare, _LARGE)
    near = np.log1p((1.0 - weight) * np.expm1(small) + weight * np.expm1(rare_small))
    far = np.logaddexp(math.log1p(-weight) + usual, math.log(weight) + rare)
    return np.asarray(np.where(np.maximum(usual, rare) < _LARGE, near, far), dtype=np.float64)
