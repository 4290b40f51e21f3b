r"""The worst pairs of laws of one release, for the privacy-loss distributions; `single_release` says why these.

Symmetric and unsampled: case 1, a public choice of two Gaussian pairs; case 2, a product of Laplace and Gaussian laws;
and the pair of the larger of their profiles.

With $a = 1/b$ and $\mu = 1/\sigma$ the loss of the product of Laplace laws at distance a and normal laws at distance
$\mu$ is the sum of two independent losses. The first has masses $\frac12, \frac12 e^{-a}$ at a and -a and between them
the density $\frac14 e^{(x-a)/2}$; the second is $N(\mu^2/2, \mu^2)$. Hence, under P, the sum is a mixture of two normal
laws and of a part with density

.. math::

    \tfrac14\, e^{x/2 - a/2 - \mu^2/8}\, \bigl[\Phi((x+a)/\mu) - \Phi((x-a)/\mu)\bigr] ,

and under Q the same times $e^{-x}$.

The larger of two profiles. With $x = e^\varepsilon$ let $H_i(x) = \int (dP_i - x\,dQ_i)_+$ for two pairs. The maximum
of the two is convex and decreasing, so it is the profile of a pair again. If the first is larger on
$|\varepsilon| < c$ and the second elsewhere, this pair has the first's masses inside, the second's outside, and at
+-c the mass that is missing. An adversary who may choose one of the two pairs in each step, by what was seen before,
is covered by it. At c rounding leaves H undecided by some units in the last place of the mass of P beyond c; the
composition counts more than that, RELATIVE, in each step.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpml import numerics
from dpml.accounting.pld import pairs
from dpml.accounting.pld.pairs import Array, Pair
from dpml.ptr._checked import Parameters

LEAST = 0.04
"""Least noise whose losses floats can hold; a branch with less counts as a branch without noise."""

_FINE, _COARSE = (np.polynomial.legendre.leggauss(n) for n in (4, 10))
_PIECE = 1.0 / 16.0
"""Longest piece in units of mu: ten nodes leave less than 1e-15 of the integral where it varies as e^(40 x/mu)."""
_SHORT = 1.0 / 512.0
"""Up to here four nodes do."""


def laplace_gaussian(a: float, mu: float) -> Pair:
    """The product of Laplace laws of scale 1 at distance a and normal laws of deviation 1 at distance mu."""
    reach = a + mu * (math.sqrt(1369.0 - 2.0 * a) - mu / 2.0)  # beyond, one of the two masses is below 1e-300
    log_factor = math.log(0.25) - a / 2.0 - mu * mu / 8.0
    share = 0.5 * math.exp(-a)

    @np.errstate(under="ignore")
    def cells(edges: Array) -> tuple[Array, Array]:
        v = np.concatenate([[-np.inf], edges / mu, [np.inf]])
        near, far, half = a / mu, -a / mu, mu / 2.0
        p = 0.5 * pairs.normal_masses(v, near + half) + share * pairs.normal_masses(v, far + half)
        q = share * pairs.normal_masses(v, near - half) + 0.5 * pairs.normal_masses(v, far - half)
        more_p, more_q = _between(edges, a, mu, log_factor, a + mu * (38.0 + mu / 2.0))
        return p + more_p, q + more_q

    return Pair(cells, np.linspace(-reach, reach, 1601))


def _between(edges: Array, a: float, mu: float, log_factor: float, reach: float) -> tuple[Array, Array]:
    """The masses of the part with a density, by quadrature of positive terms on pieces of the cells."""
    inner = np.clip(edges, -reach, reach)
    flat = a - 10.0 * mu  # up to here the bracket is 1 and the density an exponential
    if flat > 0.0:
        away = np.arange(0.0, reach - flat, _PIECE * mu) + flat
        middle = np.linspace(-flat, flat, math.ceil(2.0 * flat / max(_PIECE * mu, 1.0)) + 1)
        grid = np.concatenate([-away, middle, away])
    else:
        grid = np.arange(-reach, reach, _PIECE * mu)
    points = np.union1d(np.clip(grid, -reach, reach), inner)
    first = np.concatenate([[0], np.searchsorted(points, inner)])
    low, width = points[:-1], np.diff(points)
    p, q = np.zeros(len(width)), np.zeros(len(width))
    short = width <= _SHORT * mu
    for chosen, (nodes, weights) in ((short, _FINE), (~short, _COARSE)):
        half = width[chosen] / 2.0
        for node, weight in zip(nodes, weights, strict=True):
            x = low[chosen] + half * (1.0 + node)
            log_density = log_factor + log_mass(x, a, mu)
            p[chosen] += weight * half * np.exp(log_density + x / 2.0)
            q[chosen] += weight * half * np.exp(log_density - x / 2.0)
    return _sums_from(first, p), _sums_from(first, q)


def _sums_from(first: NDArray[np.intp], values: Array) -> Array:
    """The sums of the values from each of these indices up to the next; 0 where there are none."""
    sums: Array = np.add.reduceat(np.append(values, 0.0), first)
    sums[first == np.append(first[1:], len(values))] = 0.0  # there reduceat gives an element
    return sums


def log_mass(centre: Array, half: float, deviation: float) -> Array:
    """log of the mass of N(0, deviation^2) in [centre - half, centre + half]; the mass has a small relative error."""
    m, w, distance = np.abs(centre) / deviation, half / deviation, half - np.abs(centre)
    narrow = (m * w <= 1.0 / 16.0) & (w <= 1.0 / 16.0)
    out = np.empty(m.shape)
    z, w2 = m[narrow] ** 2, w * w
    he6 = ((z - 15.0) * z + 45.0) * z - 15.0
    series = w2 * ((z - 1.0) / 6.0 + w2 * (((z - 6.0) * z + 3.0) / 120.0 + w2 * (he6 / 5040.0)))
    out[narrow] = math.log(w * math.sqrt(2.0 / math.pi)) - 0.5 * z + np.log1p(series)
    with np.errstate(divide="ignore"):
        upper = special.log_ndtr(distance[~narrow] / deviation)
        lower = special.log_ndtr(-w - m[~narrow])
    out[~narrow] = upper + np.log(-np.expm1(lower - upper))
    return out


def public_choice(weight: float, pair: Pair, other: Pair) -> Pair:
    """`other` with probability `weight`, else `pair`, which has no mass beyond; the output says which."""

    @np.errstate(under="ignore")
    def cells(edges: Array) -> tuple[Array, Array]:
        (p, q), (p1, q1) = pair.cells(edges), other.cells(edges)
        return (1.0 - weight) * p + weight * p1, (1.0 - weight) * q + weight * q1

    return Pair(cells, np.union1d(pair.points, other.points), beyond=weight * other.beyond)


def _all_known(edges: Array) -> tuple[Array, Array]:
    """The masses where everything becomes known: P is beyond every loss, and Q below."""
    q = np.zeros(len(edges) + 1)
    q[np.searchsorted(edges, -np.inf, side="right")] = 1.0
    return np.zeros(len(edges) + 1), q


def delta_at(epsilon: float, pair: Pair) -> float:
    """H at e^epsilon: the mass of P less e^epsilon times that of Q above epsilon, and what is beyond."""
    p, q = pair.cells(np.array([epsilon]))
    less = math.exp(epsilon) * float(q[-1]) if epsilon < 700.0 else 0.0  # there Q has nothing that floats can hold
    return max(0.0, float(p[-1]) - less) + pair.beyond


def meeting_point(inner: Pair, outer: Pair) -> float:
    """The epsilon > 0 beyond which `outer` has the larger profile; 0 where it always has.

    They may cross only once. Infinite if `outer` stays below as far as floats can tell.
    """

    def excess(epsilon: float) -> float:
        first, second = delta_at(epsilon, inner), delta_at(epsilon, outer)
        return math.log(max(first, 1e-300)) - math.log(max(second, 1e-300))

    high = max(float(inner.points[-1]), float(outer.points[-1]))
    return numerics.crossing(excess, low=0.0, high=high) if excess(high) <= 0.0 else math.inf


def larger(inner: Pair, outer: Pair) -> Pair:
    """The pair of the larger profile of two symmetric pairs whose profiles cross at most once for epsilon > 0."""
    c = meeting_point(inner, outer)
    if c == 0.0:
        return outer
    if math.isinf(c):
        return inner
    (p_in, q_in), (p_out, q_out) = inner.cells(np.array([c])), outer.cells(np.array([c]))
    more, less = max(0.0, float(p_in[-1] - p_out[-1]) - outer.beyond), max(0.0, float(q_in[-1] - q_out[-1]))

    @np.errstate(under="ignore")
    def cells(edges: Array) -> tuple[Array, Array]:
        merged = np.union1d(edges, [-c, c])
        (p, q), (p1, q1) = inner.cells(merged), outer.cells(merged)
        outside = np.concatenate([merged <= -c, [False]]) | np.concatenate([[False], merged >= c])
        p, q = np.where(outside, p1, p), np.where(outside, q1, q)
        lower, upper = int(np.searchsorted(merged, -c)), int(np.searchsorted(merged, c))
        p[lower], q[lower] = p[lower] + less, q[lower] + more
        p[upper], q[upper] = p[upper] + more, q[upper] + less
        first = np.concatenate([[0], np.searchsorted(merged, edges) + 1])
        return _sums_from(first, p), _sums_from(first, q)

    inside = inner.points[np.abs(inner.points) < c]
    ends = np.array([c * (1.0 - 1e-6), c * (1.0 + 1e-6)])
    points = np.concatenate([outer.points[np.abs(outer.points) > c], inside, ends, -ends])
    return Pair(cells, np.unique(points), beyond=outer.beyond)


@functools.lru_cache(maxsize=16)
def worst_pairs(given: Parameters, least: float = LEAST) -> tuple[Pair, Pair, Pair]:
    """Case 1, case 2, and the larger profile of both.

    With less noise than `least` in the branch that passes the test, with probability delta0 everything becomes known.
    """
    known = Pair(_all_known, np.empty(0), beyond=1.0)
    rare = pairs.gaussian(1.0 / given.sigma2) if given.sigma2 >= least else known
    first = public_choice(given.delta0, pairs.gaussian(1.0 / given.sigma), rare)
    second = laplace_gaussian(1.0 / given.scale, 1.0 / given.sigma)
    return first, second, larger(second, first)


def upper_pair(given: Parameters, weight: float) -> Pair:
    """The larger profile, or a simpler one above it where that changes delta by a negligible share.

    `weight` times delta0 is the chance, as a share of delta, that the branch with little noise is met at all. Where
    that is less than 1e-3 and the noise small, losses of several hundred would need a huge lattice and cost seconds.
    """
    simple = LEAST <= given.sigma2 < 0.5 and weight * given.delta0 < 1e-3
    return worst_pairs(given, math.inf if simple else LEAST)[2]
