r"""Moments of $1 + u$, $u = q\,(e^w - 1)$, for any law of the log-ratio w under Q, as sums of positive terms.

With $y = \log(1 + u)$ and $\mathbb E[u] = 0$, which holds for every pair of laws, for $\lambda > 0$

.. math::

    \mathbb E[(1+u)^{\lambda+1}] - 1
            &= \mathbb E\bigl[(1+u)(e^{\lambda y} - 1 - \lambda y) + \lambda\,((1+u)y - u)\bigr], \\
    \mathbb E[(1+u)^{-\lambda}] - 1
            &= \mathbb E\bigl[(e^{-\lambda y} - 1 + \lambda y) + \lambda\,(u - y)\bigr] .

Every term is >= 0, so that nothing cancels at any q or lambda, and a moment of 1e-30 keeps all its digits. The law of w
comes as points and logarithms of weights: what a quadrature leaves of it.

Three functions vanish to second order at 0: $e^x - 1 - x$, $u - \log(1 + u)$ and $(1 + u)\log(1 + u) - u$. Near 0 the
first is summed as its Taylor series. The other two use $s = u/(2 + u)$, for which $1 + u = (1 + s)/(1 - s)$ and
$\log(1 + u) = 2s + 2t$ with $t = s^3/3 + s^5/5 + \dots$, hence

.. math::

    u - \log(1 + u) = \frac{2 s^2}{1 - s} - 2t, \qquad
    (1 + u)\log(1 + u) - u = \frac{2 s^2 + 2 (1 + s)\,t}{1 - s} .
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LARGE = 60.0  # from e^60 on, a moment less 1 is the moment
_NEAR = 0.25  # where series replace e^x - 1 - x and, of u, what the logarithm leaves
_SERIES = [1.0 / math.factorial(k) for k in range(12, 1, -1)]  # the first term left out is below 1e-16 of the sum
_LOG_TERMS = 9  # of the logarithm's: at |s| <= 1/7 the first one left out is below 1e-16 of t


class Nodes(NamedTuple):
    """What a moment needs at each point, for any lambda."""

    loss: Array  # y, or -y for negative powers
    base: Array  # the weight, with the factor 1 + u of positive powers
    log_base: Array
    line: float  # the sum of the terms that are linear in lambda


def positive_powers(w: Array, log_weights: Array, q: float) -> Nodes:
    """The nodes of E[(1+u)^(lambda+1)]; w increases, 0 < q < 1."""
    y, u = _log_ratio(w, q)
    with np.errstate(over="ignore", under="ignore"):
        weights, base, near = np.exp(log_weights), np.exp(log_weights + y), np.clip(u, -_NEAR, _NEAR)
        line = np.where(u == near, weights * _entropy_excess(near), base * y - (base - weights))
    return Nodes(y, base, log_weights + y, float(line.sum()))


def negative_powers(w: Array, log_weights: Array, q: float) -> Nodes:
    """The nodes of E[(1+u)^(-lambda)]."""
    y, u = _log_ratio(w, q)
    with np.errstate(over="ignore", under="ignore"):
        weights, base, near = np.exp(log_weights), np.exp(log_weights + y), np.clip(u, -_NEAR, _NEAR)
        line = np.where(u == near, weights * _log_excess(near), (base - weights) - weights * y)
    return Nodes(-y, weights, log_weights, float(line.sum()))


def log_moments(lam: Array, nodes: Nodes) -> Array:
    """The logarithm of the moment at each lam > 0 of a 1-d array."""
    rows = max(1, 1_000_000 // nodes.loss.size)
    with np.errstate(over="ignore", under="ignore"):
        parts = [_sums(lam[i : i + rows], nodes) for i in range(0, lam.size, rows)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def exp_excess(x: Array) -> Array:
    """e^x - 1 - x for x <= 700."""
    return np.where(np.abs(x) <= _NEAR, _exp_series(np.clip(x, -_NEAR, _NEAR)), np.expm1(x) - x)


def _log_ratio(w: Array, q: float) -> tuple[Array, Array]:
    """y, and u, the latter capped where only its size matters."""
    with np.errstate(under="ignore"):
        u = q * np.expm1(np.minimum(w, 700.0))
        y = np.where(w < 690.0, np.log1p(np.maximum(u, -0.5)), math.log(q) + w)
        y = np.where(u < -0.5, np.log((1.0 - q) + q * np.exp(np.minimum(w, 0.0))), y)
    return y, u


def _sums(lam: Array, nodes: Nodes) -> Array:
    t = np.multiply.outer(lam, nodes.loss)
    powers = nodes.log_base + t
    top = powers.max(axis=1)
    large = top > LARGE
    if large.any():
        powers -= np.where(large, top, 0.0)[:, None]
    np.exp(powers, out=powers)
    terms = powers - nodes.base * (1.0 + t)
    close = np.flatnonzero(np.abs(nodes.loss) * float(lam.min()) <= _NEAR)  # losses increase or decrease with x
    if close.size:
        some = slice(close[0], close[-1] + 1)
        part = t[:, some]
        series = nodes.base[some] * _exp_series(np.clip(part, -_NEAR, _NEAR))
        terms[:, some] = np.where(np.abs(part) <= _NEAR, series, terms[:, some])
    total = terms.sum(axis=1) + lam * nodes.line
    if not large.any():
        return np.asarray(np.log1p(total), dtype=np.float64)
    logs = top + np.log(powers.sum(axis=1))
    return np.asarray(np.where(large, logs, np.log1p(np.where(large, 0.0, total))), dtype=np.float64)


def _exp_series(x: Array) -> Array:
    """e^x - 1 - x for |x| <= _NEAR."""
    total = np.full_like(x, _SERIES[0])
    for coefficient in _SERIES[1:]:
        total *= x
        total += coefficient
    total *= x
    total *= x
    return total


@np.errstate(under="ignore")
def _log_excess(u: Array) -> Array:
    """u - log(1 + u) for |u| <= _NEAR."""
    s = u / (2.0 + u)
    return 2.0 * s * s / (1.0 - s) - 2.0 * _cubic(s)


@np.errstate(under="ignore")
def _entropy_excess(u: Array) -> Array:
    """(1 + u) log(1 + u) - u for |u| <= _NEAR."""
    s = u / (2.0 + u)
    return (2.0 * s * s + 2.0 * (1.0 + s) * _cubic(s)) / (1.0 - s)


def _cubic(s: Array) -> Array:
    square = s * s
    total = np.full_like(s, 1.0 / (2 * _LOG_TERMS + 1))
    for k in range(_LOG_TERMS - 1, 0, -1):
        total = total * square + 1.0 / (2 * k + 1)
    return total * square * s
