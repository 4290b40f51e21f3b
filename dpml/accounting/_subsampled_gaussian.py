r"""Log-moments of the Poisson-subsampled Gaussian mechanism, for any real order.

Let z be N(0, sigma^2), $x = z/\sigma$, $w = x/\sigma - 1/(2\sigma^2)$ the log-ratio of N(1, sigma^2) to
N(0, sigma^2) at z, $u = q(e^w - 1)$ and $y = \log(1 + u)$, the log-ratio of $\mu = (1-q)\mu_0 + q\mu_1$ to
$\mu_0$. Since E u = 0, for $\lambda > 0$

.. math::

    E_2 - 1 = \mathbb E[(1+u)^{\lambda+1}] - 1
            &= \mathbb E\bigl[(1+u)(e^{\lambda y} - 1 - \lambda y) + \lambda\,((1+u)y - u)\bigr], \\
    E_1 - 1 = \mathbb E[(1+u)^{-\lambda}] - 1
            &= \mathbb E\bigl[(e^{-\lambda y} - 1 + \lambda y) + \lambda\,(u - y)\bigr] .

Every term is >= 0, so that nothing cancels at any q, sigma or lambda.

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
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpml.accounting._peaks import LARGE, TAIL, log_odds, loss, merged, share, spans
from dpml.accounting._positive_terms import NEAR, entropy_excess, exp_series, log_excess

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpml.accounting._peaks import Spans

_EXPONENT = 42.0  # the quadrature error is about e^-42
_SHARED = 64.0  # orders up to 64 sigma are integrated together, on one set of nodes


class Nodes(NamedTuple):
    """What the quadrature of E_2 or E_1 needs at each node, for any lambda."""

    loss: NDArray[np.float64]  # y for E_2, -y for E_1
    base: NDArray[np.float64]  # the density with the factor (1+u) of E_2
    log_base: NDArray[np.float64]
    line: float  # the sum of the terms that are linear in lambda
    weight: float


def log_e2(
    lam: NDArray[np.float64], q: float, sigma: float, kept: dict[float, Nodes] | None = None
) -> NDArray[np.float64]:
    """log E_2 at each lam > 0 of a 1-d array; 0 < q < 1, sigma > 0. `kept` saves nodes from one call to the next."""
    result = np.empty_like(lam)
    apart = _separated(lam, q, sigma)
    if apart.any():
        result[apart] = _log_two_terms(lam[apart], q, sigma)
    together = ~apart & (lam + 1.0 <= _SHARED * sigma)
    if together.any():
        kept = {} if kept is None else kept
        end = max(2.0, float(lam[together].max()) + 1.0) / sigma + TAIL
        fit = min((key for key in kept if end <= key <= 4.0 * end), default=end)
        if fit not in kept:
            kept[fit] = nodes_e2(fit, q, sigma)
        result[together] = _integrate(lam[together], kept[fit])
    far = np.flatnonzero(~apart & ~together)
    rest = far[np.argsort(lam[far])]
    while rest.size:
        count = int(np.searchsorted(lam[rest], 1.25 * lam[rest[0]], side="right"))
        rows, rest = rest[:count], rest[count:]
        where = spans(float(lam[rows[0]]) + 1.0, q, sigma)
        shared = merged(where, spans(float(lam[rows[-1]]) + 1.0, q, sigma)) if count > 1 else where
        if shared is None:  # keep the first alone, and try the others again
            rows, rest, shared = rows[:1], np.concatenate([rows[1:], rest]), where
        result[rows] = _integrate(lam[rows], _nodes(1.0, shared, q, sigma))
    return result


def log_e1(lam: float, q: float, sigma: float) -> float:
    """log E_1 at one lam in (0, 10^6]; 0 < q < 1, sigma > 0."""
    if _never_meet(q, sigma):
        return -lam * math.log1p(-q)
    low, high = -lam * share(0.0, q, sigma) / sigma, 0.0  # the integrand has its only peak in here
    for _ in range(100):
        middle = (low + high) / 2.0
        low, high = (middle, high) if middle + lam * share(middle, q, sigma) / sigma < 0.0 else (low, middle)
    large = -low * low / 2.0 - lam * loss(low, q, sigma) > LARGE
    end = low + TAIL if large else max(low, 2.0 / sigma) + TAIL
    curvature = 1.0 + (lam + 2.0) / (2.0 * sigma * sigma)
    return float(_integrate(np.array([lam]), _nodes(-1.0, [(low - TAIL, end)], q, sigma, curvature))[0])


def log_moments(
    lam: NDArray[np.float64], q: float, sigma: float, kept: dict[float, Nodes] | None = None
) -> NDArray[np.float64]:
    """log max(E_1, E_2) = log E_2 at each lam > 0, for 0 <= q <= 1; infinite where it exceeds the range of floats."""
    if q == 0.0:
        return np.zeros_like(lam)
    with np.errstate(over="ignore"):
        if q == 1.0:
            return lam * ((lam + 1.0) / sigma / (2.0 * sigma))
        return log_e2(lam, q, sigma, kept)


def without_noise(q: float, sigma: float, steps: int, delta: float) -> float | None:
    """The epsilon of the cases that need no accounting, else None."""
    if q == 0.0 or steps == 0:
        return 0.0
    if sigma == 0.0:  # the mechanism leaks all if the record is ever drawn
        if delta == 1.0 or (q <= delta if steps == 1 else _rarely_drawn(q, steps, delta)):
            return 0.0
        return math.inf
    return math.inf if delta == 0.0 else None


def _rarely_drawn(q: float, steps: int, delta: float) -> bool:
    """Whether 1 - (1-q)^steps <= delta < 1, with the rounding of both logarithms on the safe side."""
    return q < 1.0 and steps * -math.log1p(-q) * (1.0 + 2.0**-50) <= -math.log1p(-delta)


def refuse_overflow(value: float, sigma: float) -> float:
    """`value` if it is finite.

    Raises:
        ValueError: if it is infinite, which it is only for lack of noise.
    """
    if math.isinf(value):
        raise ValueError(f"sigma must keep the result within the range of floats, got {sigma!r}")
    return value


# ---- the two terms ----


def _never_meet(q: float, sigma: float) -> bool:
    """Whether both N(0, 1) and N(1/sigma, 1) are 9 deviations from the x at which u = 1 - 2q."""
    return 0.5 / sigma - sigma * abs(log_odds(q)) >= 9.0


def _separated(lam: NDArray[np.float64], q: float, sigma: float) -> NDArray[np.bool_]:
    if _never_meet(q, sigma):
        return np.ones(lam.shape, dtype=np.bool_)
    order, square = lam + 1.0, sigma * sigma
    second = order * (math.log(q) + lam / (2.0 * square))
    left = order * max(0.0, math.log(2.0) + math.log1p(-q))
    gap = (lam + 0.5) / sigma - sigma * log_odds(q)
    next_term = np.log(order) + log_odds(q) - lam / square
    apart = (second > left + LARGE) & (next_term < -_EXPONENT)
    return apart & (gap > 0.0) & (gap * gap / 2.0 > _EXPONENT + 0.7 * order)


def _log_two_terms(lam: NDArray[np.float64], q: float, sigma: float) -> NDArray[np.float64]:
    exponent = lam * (math.log(q) + (lam + 1.0) / sigma / (2.0 * sigma))
    small = (1.0 - q) * np.expm1(lam * math.log1p(-q)) + q * np.expm1(np.minimum(exponent, LARGE))
    large = np.logaddexp((lam + 1.0) * math.log1p(-q), math.log(q) + exponent)
    return np.where(exponent < LARGE, np.log1p(np.maximum(small, 0.0)), large)


# ---- the trapezoid rule ----


def nodes_e2(end: float, q: float, sigma: float) -> Nodes:
    """The nodes of E_2 up to x = `end`: what `kept` holds at the key `end`."""
    return _nodes(1.0, [(-TAIL, end)], q, sigma)


def _nodes(sign: float, where: Spans, q: float, sigma: float, curvature: float = 1.0) -> Nodes:
    """The nodes of E_2 (sign 1) or E_1 (sign -1) that lie in disjoint intervals."""
    d = min(0.9 * math.pi * sigma, math.sqrt(2.0 * _EXPONENT / curvature))
    step = 2.0 * math.pi * d / (_EXPONENT + curvature * d * d / 2.0)
    x = step * np.concatenate([np.arange(math.floor(a / step), math.ceil(b / step) + 1) for a, b in where])
    with np.errstate(over="ignore", under="ignore"):
        w = (x - 0.5 / sigma) / sigma
        u = q * np.expm1(np.minimum(w, 700.0))
        y = np.where(w < 690.0, np.log1p(np.maximum(u, -0.5)), math.log(q) + w)
        y = np.where(u < -0.5, np.log((1.0 - q) + q * np.exp(np.minimum(w, 0.0))), y)
        log_0 = -0.5 * x * x
        under_0, under_1 = np.exp(log_0), np.exp(-0.5 * (x - 1.0 / sigma) ** 2)
        shift = q * (under_1 - under_0)  # u times the density, without the overflow of u
        near = np.minimum(u, 1.0)
        if sign > 0.0:
            base, log_base = (1.0 - q) * under_0 + q * under_1, y + log_0
            line = np.where(u <= 1.0, under_0 * entropy_excess(near, y), base * y - shift)
        else:
            base, log_base = under_0, log_0
            line = np.where(u <= 1.0, under_0 * log_excess(near, y), shift - under_0 * y)
    return Nodes(sign * y, base, log_base, float(line.sum()), step / math.sqrt(2.0 * math.pi))


def _integrate(lam: NDArray[np.float64], nodes: Nodes) -> NDArray[np.float64]:
    rows = max(1, 1_000_000 // nodes.loss.size)
    with np.errstate(over="ignore", under="ignore"):
        parts = [_sums(lam[i : i + rows], nodes) for i in range(0, lam.size, rows)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _sums(lam: NDArray[np.float64], nodes: Nodes) -> NDArray[np.float64]:
    t = np.multiply.outer(lam, nodes.loss)
    powers = nodes.log_base + t
    top = powers.max(axis=1)
    large = top > LARGE
    if large.any():
        powers -= np.where(large, top, 0.0)[:, None]
    np.exp(powers, out=powers)
    terms = powers - nodes.base * (1.0 + t)
    close = np.flatnonzero(np.abs(nodes.loss) * float(lam.min()) <= NEAR)  # losses increase or decrease with x
    if close.size:
        some = slice(close[0], close[-1] + 1)
        part = t[:, some]
        series = nodes.base[some] * exp_series(np.clip(part, -NEAR, NEAR))
        terms[:, some] = np.where(np.abs(part) <= NEAR, series, terms[:, some])
    total = nodes.weight * (terms.sum(axis=1) + lam * nodes.line)
    if not large.any():
        return np.asarray(np.log1p(total), dtype=np.float64)
    logs = top + np.log(nodes.weight * powers.sum(axis=1))
    return np.asarray(np.where(large, logs, np.log1p(np.where(large, 0.0, total))), dtype=np.float64)
