r"""The exact law of the noisy argmax: with which probability does each label win?

Each class j has $c_j$ votes and gets its own Laplace noise of scale b. In units of b let f and F be the density and
the distribution function of the noise. Class j wins with probability

.. math::

    P(j) = \int f\Bigl(x - \frac{c_j}{b}\Bigr) \prod_{i \ne j} F\Bigl(x - \frac{c_i}{b}\Bigr)\, dx .

For two classes with gap t the loser wins with probability $e^{-t/b} \bigl(\frac12 + \frac{t}{4b}\bigr)$.

Computation. Between neighbouring counts the integrand is a product of factors $e^{u}/2$ and $1 - e^{-u}/2$: smooth
and positive, so Gauss-Legendre panels lose nothing by cancellation, and sums are taken of logarithms. What bends lies
near the counts: at a distance u from all of them every factor is an exponential up to $e^{-u}$, and the product is
constant or has all its weight at the nearer end. So panels double in width from each count to the middle between it and
the next, and where two counts are more than 80 units apart a single panel has the rest. Below the least count the
integral is elementary. Above the greatest, $v = e^{-x}$ turns the integrand into a polynomial. A probability of 1e-94
is as accurate as one of 0.1, which `1 - P(winner)` would not be.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_NODES, _LOG_WEIGHTS = (_NODES + 1.0) / 2.0, np.log(_WEIGHTS / 2.0)  # on [0, 1]
_EDGE = 40.0
_LOG_HALF = -math.log(2.0)
_CHUNK = 200_000  # numbers in memory at a time: few enough for a cache


@np.errstate(over="ignore", under="ignore")
def log_law(units: Array) -> Array:
    """Logarithms of the probabilities of each class; the counts `units`, over b, ascend in each row and end with 0.

    In portions, so that memory stays bounded.
    """
    rows, classes = units.shape
    some = max(1, _CHUNK // (4 * _NODES.size * classes**2))  # an interval has some four panels
    return np.concatenate([_portion(units[i : i + some]) for i in range(0, rows, some)])


def _edges(c: Array) -> Array:
    """The ends of the panels of each row, rising from the least count to the greatest; many of them coincide."""
    width = min(0.75, 7.5 / c.shape[1])  # within two of them no factor of the integrand changes by more than e^15
    away = width * (2.0 ** np.arange(math.ceil(math.log2(_EDGE / width + 1.0)) + 1) - 1.0)
    half = np.diff(c)[..., None] / 2.0
    near = np.maximum.accumulate(np.where(away <= half, away, 0.0), axis=2)
    between = np.concatenate([c[:, :-1, None] + near, c[:, 1:, None] - near[..., ::-1]], axis=2)
    return between.reshape(len(c), -1)


def _portion(c: Array) -> Array:
    """Logarithms of the probabilities of each class; `c` [rows, classes] ascends in each row and ends with 0."""
    edges = _edges(c)
    owner, panel = np.nonzero(np.diff(edges, axis=1) > 0.0)
    start = edges[owner, panel]
    size = edges[owner, panel + 1] - start
    u = (start[:, None] + size[:, None] * _NODES)[:, :, None] - c[owner][:, None, :]  # [panels, nodes, classes]
    log_F = np.where(u < 0.0, u + _LOG_HALF, np.log1p(-0.5 * np.exp(-np.maximum(u, 0.0))))
    log_f = _LOG_HALF - np.abs(u)
    terms = log_F.sum(axis=2, keepdims=True) - log_F + log_f + (_LOG_WEIGHTS + np.log(size)[:, None])[:, :, None]
    total = np.logaddexp.reduce([_below(c), _above(c), _sum_by_row(owner, _log_sum(terms), len(c))])
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
