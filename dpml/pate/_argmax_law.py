r"""The exact law of the noisy argmax: with which probability does each label win?

Each class j has $c_j$ votes and gets its own Laplace noise of scale b. In units of b let f and F be the density and
the distribution function of the noise. Class j wins with probability

.. math::

    P(j) = \int f\Bigl(x - \frac{c_j}{b}\Bigr) \prod_{i \ne j} F\Bigl(x - \frac{c_i}{b}\Bigr)\, dx .

For two classes with gap t the loser wins with probability $e^{-t/b} \bigl(\frac12 + \frac{t}{4b}\bigr)$.

Computation. Between neighbouring counts the integrand is a product of factors $e^{u}/2$ and $1 - e^{-u}/2$: smooth
and positive, so Gauss-Legendre panels lose nothing by cancellation, and sums are taken of logarithms. Below the least
count the integral is elementary. Above the greatest, $v = e^{-x}$ turns the integrand into a polynomial. An interval
longer than 80 units is integrated by panels over its first and last 40 only; in the middle every second factor is 1 up
to $e^{-40}$, and the integral of what remains is elementary. A probability of 1e-94 is as accurate as one of 0.1, which
`1 - P(winner)` would not be.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_NODES, _LOG_WEIGHTS = (_NODES + 1.0) / 2.0, np.log(_WEIGHTS / 2.0)  # on [0, 1]
_EDGE = 40.0
_LOG_HALF = -math.log(2.0)
_CHUNK = 2_000_000  # numbers in memory at a time


@np.errstate(over="ignore", under="ignore")
def log_law(units: Array) -> Array:
    """Logarithms of the probabilities of each class; the counts `units`, over b, ascend in each row and end with 0.

    In portions, so that memory stays bounded.
    """
    rows, classes = units.shape
    longest = np.minimum(-units[:, 0], 2.0 * _EDGE * (classes - 1)) / _width(classes) + 4.0 * classes
    ends = np.cumsum(longest * _NODES.size * classes)
    parts = np.searchsorted(ends, np.arange(_CHUNK, ends[-1] + _CHUNK, _CHUNK), side="right")
    cuts = np.unique(np.clip([0, *parts, rows], 0, rows))
    return np.concatenate([_portion(units[a:b]) for a, b in itertools.pairwise(cuts)])


def _width(classes: int) -> float:
    """Of a panel: within it no factor of the integrand changes by more than about e^10."""
    return min(1.0, 10.0 / classes)


def _portion(c: Array) -> Array:
    """Logarithms of the probabilities of each class; `c` [rows, classes] ascends in each row and ends with 0."""
    rows, classes = c.shape
    parts = [_below(c), _above(c)]
    row, interval = np.nonzero(np.diff(c, axis=1) > 0.0)
    length = c[row, interval + 1] - c[row, interval]
    long = length > 2.0 * _EDGE
    lengths = np.concatenate([length[~long], np.full(2 * long.sum(), _EDGE)])
    starts = np.concatenate([c[row, interval][~long], c[row, interval][long], c[row, interval + 1][long] - _EDGE])
    owners = np.concatenate([row[~long], row[long], row[long]])
    if owners.size:
        number = np.ceil(lengths / _width(classes)).astype(np.intp)  # what repeat takes, also where that has 32 bits
        size = np.repeat(lengths / number, number)
        index = np.arange(number.sum()) - np.repeat(np.cumsum(number) - number, number)
        owner = np.repeat(owners, number)
        parts.append(_panels(c, owner, np.repeat(starts, number) + size * index, size))
    if long.any():
        inner = _middles(c[row[long]], interval[long], length[long])
        parts.append(_sum_by_row(row[long], inner, rows))
    total = np.logaddexp.reduce(parts)
    return np.asarray(np.minimum(0.0, total), dtype=np.float64)  # rounding may leave 2e-18


def _below(c: Array) -> Array:
    """From minus infinity to the least count: every factor is an exponential, the same for all classes."""
    classes = c.shape[1]
    log_value = (c[:, :1] - c).sum(axis=1, keepdims=True) + classes * _LOG_HALF - math.log(classes)
    return np.asarray(np.broadcast_to(log_value, c.shape), dtype=np.float64)


def _above(c: Array) -> Array:
    """From the greatest count, 0, to infinity: with v = e^-x a polynomial in v on [0, 1]."""
    number = max(1, math.ceil(c.shape[1] / 10.0)) if c.shape[1] > 32 else 1  # 16 nodes integrate degree 31 exactly
    v = ((np.arange(number)[:, None] + _NODES) / number).reshape(-1)
    log_weights = np.tile(_LOG_WEIGHTS, number) - math.log(number)
    factors = np.log1p(-0.5 * np.exp(c)[:, None, :] * v[:, None])  # [rows, nodes, classes]
    terms = factors.sum(axis=2, keepdims=True) - factors + log_weights[:, None]
    return np.asarray(_log_sum(terms) + c + _LOG_HALF, dtype=np.float64)


def _panels(c: Array, owner: NDArray[np.intp], start: Array, size: Array) -> Array:
    """Gauss-Legendre over panels that contain no count in their inside; `owner` is the row of each."""
    u = (start[:, None] + size[:, None] * _NODES)[:, :, None] - c[owner][:, None, :]  # [panels, nodes, classes]
    below = u < 0.0
    log_F = np.where(below, u + _LOG_HALF, np.log1p(-0.5 * np.exp(-np.maximum(u, 0.0))))
    log_f = _LOG_HALF - np.abs(u)
    terms = log_F.sum(axis=2, keepdims=True) - log_F + log_f + (_LOG_WEIGHTS + np.log(size)[:, None])[:, :, None]
    return _sum_by_row(owner, _log_sum(terms), c.shape[0])


def _middles(c: Array, interval: NDArray[np.intp], length: Array) -> Array:
    """The middle of each long interval: exponentials only. One row of `c` for each."""
    classes = c.shape[1]
    ahead = np.arange(classes) > interval[:, None]  # classes whose count is above the interval
    right = np.take_along_axis(c, interval[:, None] + 1, axis=1) - _EDGE
    at_right = (np.where(ahead, right - c + _LOG_HALF, 0.0)).sum(axis=1, keepdims=True)
    log_value = at_right + np.where(ahead, 0.0, c - right + _LOG_HALF)
    slope = ahead.sum(axis=1, keepdims=True) - np.where(ahead, 0.0, 1.0)
    span = (length - 2.0 * _EDGE)[:, None]
    steep = np.maximum(slope, 1.0)
    grown = np.log(-np.expm1(-steep * span)) - np.log(steep)
    return np.asarray(log_value + np.where(slope > 0.0, grown, np.log(span)), dtype=np.float64)


def _log_sum(terms: Array) -> Array:
    """Sum over the nodes (axis 1) of exponentials, as a logarithm."""
    top = terms.max(axis=1, keepdims=True)
    return np.asarray(top[:, 0] + np.log(np.exp(terms - top).sum(axis=1)), dtype=np.float64)


def _sum_by_row(owner: NDArray[np.intp], terms: Array, rows: int) -> Array:
    """Sum the exponentials of the terms of each row, as logarithms; minus infinity for a row that has none."""
    order = np.argsort(owner, kind="stable")
    owner, terms = owner[order], terms[order]
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    top = np.maximum.reduceat(terms, first, axis=0)
    result = np.full((rows, terms.shape[1]), -math.inf)
    shifted = np.exp(terms - np.repeat(top, np.diff(first, append=owner.size), axis=0))
    result[owner[first]] = top + np.log(np.add.reduceat(shifted, first, axis=0))
    return result
