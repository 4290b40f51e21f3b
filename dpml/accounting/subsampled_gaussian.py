r"""Log-moments of the Poisson-subsampled Gaussian mechanism, for any real order.

Let z be N(0, sigma^2), $x = z/\sigma$, $w = x/\sigma - 1/(2\sigma^2)$ the log-ratio of N(1, sigma^2) to
N(0, sigma^2) at z, $u = q(e^w - 1)$ and $y = \log(1 + u)$, the log-ratio of $\mu = (1-q)\mu_0 + q\mu_1$ to
$\mu_0$. Then $E_2 = \mathbb E[(1+u)^{\lambda+1}]$ and $E_1 = \mathbb E[(1+u)^{-\lambda}]$ under N(0, sigma^2), which
`dpml.accounting.quadrature` sums without cancellation.

Quadrature. The trapezoid rule of step h on the whole line has, for an integrand analytic and integrable on
|Im x| <= d, an error of at most $2M/(e^{2\pi d/h} - 1)$, M the integral of its modulus on Im x = +-d. The branch
points of y lie at Im x = +-pi sigma, so d = 0.9 pi sigma is allowed. There the Gaussian grows by $e^{d^2/2}$;
$|1-q+q e^{w+i\theta}|$ is at most its value at theta = 0 and at least that times $\cos(\theta/2)$,
$\theta = d/\sigma$. Positive powers do not grow, and a power $-(\lambda+2)$ grows by at most
$e^{(\lambda+2)\theta^2/4}$. The step makes the exponent -42: a relative error of some hundreds times 6e-19
(the hundreds: $|u|^2$ on the shifted line against the real one). The range leaves out less than 1e-17 of the sum.
What remains is rounding, some 1e-15 relative. The tests hold it to 1e-12 against mpmath and to 1e-13 against twice the
exponent and a wider range.

Two separated peaks. Where the part of $\mu$ from N(0, .) and the part from N(1, .) hardly meet (small sigma), y is
$\log(1-q)$ under the first and $\log q + w$ under the second but for events of relative weight e^-40, hence
$E_2 = (1-q)^{\lambda+1} + q^{\lambda+1} e^{\lambda(\lambda+1)/(2\sigma^2)}$ and $E_1 = (1-q)^{-\lambda}$. The same
holds for E_2 at orders so large that its second term outweighs all the rest by e^40.

Where the integrand lives. Up to slowly varying factors the integrand of $\mathbb E[(1+u)^p]$ is $e^{-x^2/2 + p\,y(x)}$.
The derivative of the exponent is $-x + p\,s(x)/\sigma$, where $s = q e^w/(1 - q + q e^w)$ is the part of the mixture
that comes from N(1, .); s increases from 0 to 1. So there is one peak, or there are two with a valley between: near 0
and near $p/\sigma$. For large orders they lie thousands of deviations apart, and nodes between them would be wasted.
Where u is small the terms are of the order of u^2, whose peak is at $2/\sigma$: it is always kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments, numerics
from dpml.accounting import quadrature
from dpml.accounting.quadrature import LARGE, Nodes

Array = NDArray[np.float64]

Spans = list[tuple[float, float]]  # disjoint intervals

TAIL = 9.5  # standard deviations kept on either side of a peak
_EXPONENT = 42.0  # the quadrature error is about e^-42
_SHARED = 64.0  # orders up to 64 sigma are integrated together, on one set of nodes


def log_moments(lam: Array, q: float, sigma: float, kept: dict[float, Nodes] | None = None) -> Array:
    """log max(E_1, E_2) = log E_2 at each lam > 0 of a 1-d array; 0 <= q <= 1, sigma > 0.

    Infinite where it exceeds the range of floats. `kept` saves nodes from one call to the next.
    """
    if q == 0.0 or lam.size == 0:
        return np.zeros_like(lam)
    with np.errstate(over="ignore", under="ignore"):
        return lam * ((lam + 1.0) / sigma / (2.0 * sigma)) if q == 1.0 else _log_e2(lam, q, sigma, kept)


def _log_e2(lam: Array, q: float, sigma: float, kept: dict[float, Nodes] | None) -> Array:
    kept, apart, largest = {} if kept is None else kept, _separated(lam, q, sigma), float(lam.max())
    if not apart.any() and largest + 1.0 <= _SHARED * sigma:
        return quadrature.log_moments(lam, _shared(largest, q, sigma, kept))
    result = np.empty_like(lam)
    if apart.any():
        result[apart] = _log_two_terms(lam[apart], q, sigma)
    together = ~apart & (lam + 1.0 <= _SHARED * sigma)
    if together.any():
        nodes = _shared(float(lam[together].max()), q, sigma, kept)
        result[together] = quadrature.log_moments(lam[together], nodes)
    far = np.flatnonzero(~apart & ~together)
    rest = far[np.argsort(lam[far])]
    while rest.size:
        count = int(np.searchsorted(lam[rest], 1.25 * lam[rest[0]], side="right"))
        rows, rest = rest[:count], rest[count:]
        where = _spans(float(lam[rows[0]]) + 1.0, q, sigma)
        shared = _merged(where, _spans(float(lam[rows[-1]]) + 1.0, q, sigma)) if count > 1 else where
        if shared is None:  # keep the first alone, and try the others again
            rows, rest, shared = rows[:1], np.concatenate([rows[1:], rest]), where
        result[rows] = quadrature.log_moments(lam[rows], quadrature.positive_powers(*_points(shared, sigma), q))
    return result


def _shared(largest: float, q: float, sigma: float, kept: dict[float, Nodes]) -> Nodes:
    """Nodes for all lambda up to the largest."""
    end = max(2.0, largest + 1.0) / sigma + TAIL
    fit = min((key for key in kept if end <= key <= 4.0 * end), default=end)
    if fit not in kept:
        kept[fit] = quadrature.positive_powers(*_points([(-TAIL, fit)], sigma), q)
    return kept[fit]


def log_e1(lam: float, q: float, sigma: float) -> float:
    """log E_1 at one lam in (0, 10^6]; 0 < q < 1, sigma > 0."""
    if _never_meet(q, sigma):
        return -lam * math.log1p(-q)
    reach, peak = lam * _share(0.0, q, sigma) / sigma, 0.0
    if reach > 0.0:  # the integrand has its only peak in [-reach, 0]
        peak = -numerics.crossing(lambda d: lam * _share(-d, q, sigma) / sigma - d, low=0.0, high=reach, width=1e-6)
    large = -peak * peak / 2.0 - lam * _loss(peak, q, sigma) > LARGE
    end = peak + TAIL if large else max(peak, 2.0 / sigma) + TAIL
    points = _points([(peak - TAIL, end)], sigma, 1.0 + (lam + 2.0) / (2.0 * sigma * sigma))
    return float(quadrature.log_moments(np.array([lam]), quadrature.negative_powers(*points, q))[0])


def known_epsilon(q: float, sigma: float, steps: int, delta: float) -> float | None:
    """The epsilon of the cases that need no accounting, else None.

    Nothing is lost at a delta above the chance that the record is drawn at all; without noise everything is below it.
    """
    if chance_drawn(q, steps) <= delta:
        return 0.0
    return math.inf if sigma == 0.0 or delta == 0.0 else None


def without_accounting(q: float, sigma: float, steps: int, delta: float) -> float | None:
    """The same where there is no noise, no record, no step or no delta: what a bound by moments leaves out."""
    return known_epsilon(q, sigma, steps, delta) if 0.0 in (q, sigma, steps, delta) else None


def chance_drawn(q: float, steps: int) -> float:
    """1 - (1 - q)^steps: the chance that a record is drawn at all, rounded up."""
    if q == 1.0 or steps < 2:
        return q * min(steps, 1)
    return min(1.0, -math.expm1(steps * math.log1p(-q)) * (1.0 + 2.0**-50))


def after_each(
    steps: ArrayLike,
    known: Callable[[int], float | None],
    others: Callable[[list[int]], dict[int, float]],
    *,
    most: float = 1e9,
) -> Array:
    """Epsilon after each number of steps in an array, in its shape: the `known` ones, and all `others` at once.

    What holds after more steps is taken to hold after fewer.

    Raises:
        ValueError: if steps is not an array of whole numbers in [0, most].
    """
    counts = arguments.whole_numbers("steps", steps, high=most)
    at_once = {count: known(count) for count in np.unique(counts).astype(int).tolist()}
    left = [count for count, value in at_once.items() if value is None]
    found = {count: value for count, value in at_once.items() if value is not None} | (others(left) if left else {})
    least = math.inf
    for count in sorted(found, reverse=True):
        least = found[count] = min(least, found[count])
    return np.array([found[int(c)] for c in counts.reshape(-1)], dtype=np.float64).reshape(counts.shape)


# ---- the two terms ----


def _never_meet(q: float, sigma: float) -> bool:
    """Whether both N(0, 1) and N(1/sigma, 1) are 9 deviations from the x at which u = 1 - 2q."""
    return 0.5 / sigma - sigma * abs(_log_odds(q)) >= 9.0


def _separated(lam: Array, q: float, sigma: float) -> NDArray[np.bool_]:
    if _never_meet(q, sigma):
        return np.ones(lam.shape, dtype=np.bool_)
    square, least = sigma * sigma, max(0.0, math.log(2.0) + math.log1p(-q))
    largest = float(lam.max())
    if (largest + 1.0) * (math.log(q) + largest / (2.0 * square) - least) <= LARGE:  # convex, and below 0 at lam = 0
        return np.zeros(lam.shape, dtype=np.bool_)
    order = lam + 1.0
    second, left = order * (math.log(q) + lam / (2.0 * square)), order * least
    gap = (lam + 0.5) / sigma - sigma * _log_odds(q)
    next_term = np.log(order) + _log_odds(q) - lam / square
    apart = (second > left + LARGE) & (next_term < -_EXPONENT)
    return apart & (gap > 0.0) & (gap * gap / 2.0 > _EXPONENT + 0.7 * order)


@np.errstate(under="ignore")
def _log_two_terms(lam: Array, q: float, sigma: float) -> Array:
    exponent = lam * (math.log(q) + (lam + 1.0) / sigma / (2.0 * sigma))
    small = (1.0 - q) * np.expm1(lam * math.log1p(-q)) + q * np.expm1(np.minimum(exponent, LARGE))
    large = np.logaddexp((lam + 1.0) * math.log1p(-q), math.log(q) + exponent)
    return np.where(exponent < LARGE, np.log1p(np.maximum(small, 0.0)), large)


# ---- the trapezoid rule ----


@np.errstate(under="ignore")
def _points(where: Spans, sigma: float, curvature: float = 1.0) -> tuple[Array, Array]:
    """The log-ratios w at equidistant points in disjoint intervals of x, and the logarithms of their weights."""
    d = min(0.9 * math.pi * sigma, math.sqrt(2.0 * _EXPONENT / curvature))
    step = 2.0 * math.pi * d / (_EXPONENT + curvature * d * d / 2.0)
    x = step * np.concatenate([np.arange(math.floor(a / step), math.ceil(b / step) + 1) for a, b in where])
    return (x - 0.5 / sigma) / sigma, math.log(step / math.sqrt(2.0 * math.pi)) - 0.5 * x * x


# ---- peaks ----


def _log_odds(q: float) -> float:
    """log((1-q)/q)."""
    return math.log1p(-q) - math.log(q)


def _share(x: float, q: float, sigma: float) -> float:
    """The part of mu that comes from N(1, .) at x: the derivative of y with respect to w."""
    t = (x - 0.5 / sigma) / sigma - _log_odds(q)
    return 1.0 / (1.0 + math.exp(-t)) if t > -700.0 else 0.0


@np.errstate(under="ignore")
def _loss(x: float, q: float, sigma: float) -> float:
    w = (x - 0.5 / sigma) / sigma
    if w < 690.0 and q < 0.9:
        return math.log1p(q * math.expm1(w))
    return float(np.logaddexp(math.log1p(-q), math.log(q) + w))


def _spans(order: float, q: float, sigma: float) -> Spans:
    """Where the integrand is not negligible, for an order so large that a full range would be long.

    The exponent -x^2/2 + order y has peaks where x = order * share / sigma: one, or two with a valley between.
    """

    def exponent(x: float) -> float:
        return -x * x / 2.0 + order * _loss(x, q, sigma)

    second, end = order / sigma, order / sigma + TAIL
    for _ in range(200):  # an increasing map: from above to its largest fixed point
        last, second = second, order * _share(second, q, sigma) / sigma
        if last - second < 1e-6:
            break
    height = exponent(second)
    # E_2 - 1 is about (q order / sigma)^2, or more
    floor = max(min(0.0, 2.0 * math.log(q * order / sigma)), height) - 50.0
    reach = max(16.0, 2.0 / sigma + TAIL)
    while reach < end and exponent(reach) > floor:
        reach *= 2.0
    if reach >= end or second <= reach or height < floor:
        return [(-TAIL, min(reach, end))]
    gap = second - reach
    half = numerics.crossing(lambda d: exponent(second - d) - floor, low=0.0, high=gap, width=1e-4 * gap)
    return [(-TAIL, reach), (second - half, min(end, second + half + TAIL))]


def _merged(first: Spans, last: Spans) -> Spans | None:
    """Intervals for all orders between the two whose intervals are given; None where sharing would not pay.

    The larger an order, the further right its peaks.
    """
    if [a == -TAIL for a, _ in first] != [a == -TAIL for a, _ in last]:
        return None
    both = [(a[0], max(a[1], b[1])) for a, b in zip(first, last, strict=True)]
    length = sum(b - a for a, b in both)
    return both if length < 4.0 * sum(b - a for a, b in last) else None
