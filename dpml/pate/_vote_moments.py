"""The bounds of `laplace_votes` and `gaussian_votes` as they are computed: for arguments that are checked already.

Everything is done with logarithms of q, which may be far below the range of floats: e^(2 gamma lambda) may be as far
above it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import log_ndtr

from dpml import numerics
from dpml.pate._counts import gaps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_LEAST_LOG_Q = -1e15  # a larger q is always allowed, and this one costs nothing that a float could show


def laplace_log_upset(votes: Array, scale: float) -> Array:
    """The logarithm of the Lemma's q, which does not underflow. The votes are checked already."""
    with np.errstate(over="ignore"):
        gap = np.sort(gaps(votes), axis=-1)[..., 1:] / scale  # the leader is left out, and of several that tie, one
    gap = np.minimum(gap, 1e300)
    log_terms = np.log((2.0 + gap) / 4.0) - gap
    log_q = np.logaddexp.reduce(log_terms, axis=-1)
    return np.asarray(np.minimum(log_q, math.log1p(-1.0 / votes.shape[-1])), dtype=np.float64)


def laplace_log_moments(log_q: Array, lam: Array, scale: float) -> Array:
    """The smaller of the two bounds; `log_q` and `lam` broadcast."""
    loss = 2.0 / scale
    base = laplace_any_votes(lam, scale)
    holds = log_q < -np.logaddexp(0.0, loss)
    safe = np.where(holds, log_q, -np.logaddexp(0.0, loss) - 1.0)
    with np.errstate(under="ignore", over="ignore", divide="ignore"):
        stay = (lam + 1.0) * np.log1p(-np.exp(safe)) - lam * np.log1p(-np.exp(safe + loss))
        leave = safe + loss * lam
    return np.where(holds, np.minimum(base, log_of_sum(stay, leave)), base)


def log_of_sum(stay: Array, leave: Array) -> Array:
    """log(e^stay + e^leave) >= 0, without cancellation where `stay` is near 0 and e^leave small."""
    small = (np.abs(stay) < 0.5) & (leave < 0.0)
    with np.errstate(under="ignore"):
        near = np.log1p(np.expm1(np.where(small, stay, 0.0)) + np.exp(np.where(small, leave, -1.0)))
        value = np.where(small, near, np.logaddexp(stay, leave))
    return np.maximum(0.0, value)  # a Rényi divergence is never negative: only rounding falls below


def laplace_any_votes(lam: Array, scale: float) -> Array:
    with np.errstate(over="ignore"):
        return 2.0 * (lam / scale) * ((lam + 1.0) / scale)


def gnmax_log_upset(votes: Array, sigma: float) -> Array:
    """The logarithm of the Lemma's q, which does not underflow. The votes are checked already."""
    return gnmax_log_q(np.sort(gaps(votes), axis=-1)[..., 1:], sigma)  # of several leaders that tie, one is left out


def gnmax_log_q(behind: Array, sigma: float) -> Array:
    """The same from the gaps of all classes but the leader."""
    with np.errstate(over="ignore"):
        log_terms = log_ndtr(-np.minimum(behind / math.sqrt(2.0) / sigma, 1e100))
    log_q = np.logaddexp.reduce(log_terms, axis=-1)
    return np.asarray(np.minimum(log_q, -math.log1p(1.0 / behind.shape[-1])), dtype=np.float64)


def gnmax_divergences(votes: Array, order: Array, sigma: float) -> Array:
    """[queries, orders], the smaller of the two bounds."""
    return gnmax_bounds(gnmax_log_upset(votes, sigma)[:, None], order, sigma)


def gnmax_bounds(log_q: Array, order: Array, sigma: float) -> Array:
    """The same from the logarithms of q; both arguments broadcast."""
    return _smaller_bound(log_q, order, over(order, sigma), _squared(sigma))


def confident_divergences(votes: Array, order: Array, threshold: float, test: float, sigma: float) -> Array:
    """[queries, orders]: the test and the vote bounded one by one, or both as one mechanism, whichever is smaller."""
    with np.errstate(over="ignore"):
        margin = np.clip((votes.max(axis=-1) - threshold) / test, -1e100, 1e100)
    log_answer, log_silence = log_ndtr(margin), log_ndtr(-margin)
    log_q = gnmax_log_upset(votes, sigma)
    asked, answered = over(order, test) / 2.0, over(order, sigma)
    first = _smaller_bound(np.minimum(log_answer, log_silence)[:, None], order, asked, 2.0 * _squared(test))
    second = _smaller_bound(log_q[:, None], order, answered, _squared(sigma))
    log_unlikely = np.minimum(log_answer, np.logaddexp(log_silence, log_answer + log_q))
    variance = 1.0 / (0.5 / _squared(test) + 1.0 / _squared(sigma))
    return np.minimum(first + second, _smaller_bound(log_unlikely[:, None], order, asked + answered, variance))


def _smaller_bound(log_q: Array, order: Array, base: Array, variance: float) -> Array:
    """Theorem 2 with divergence order/variance for all votes, and `base`, Theorem 1, where it is smaller or alone."""
    log_q = np.maximum(np.minimum(log_q, 0.0), _LEAST_LOG_Q)
    mu = np.sqrt(-log_q * variance)  # the order mu_2; mu_1 is one more
    loss = mu / variance
    usable = (mu > 1.0) & (-log_q > loss)
    m = np.where(usable, mu, 2.0)
    growing = log_q <= (m - 1.0) * loss - m * (np.log1p(1.0 / m) - np.log1p(-1.0 / m))
    usable &= growing
    lq, e2 = np.where(usable, log_q, -2.0), np.where(usable, loss, 0.0)
    m = np.where(usable, mu, 2.0)
    log_rest = numerics.log1mexp(lq)
    log_a = log_rest - numerics.log1mexp((lq + e2) * (1.0 - 1.0 / m))
    log_b = e2 + np.where(usable, 1.0 / variance, 0.0) - lq / m
    lam = order - 1.0
    with np.errstate(over="ignore"):
        theorem_2 = log_of_sum(log_rest + lam * log_a, lq + lam * log_b) / lam
    return np.where(usable & (order <= mu + 1.0), np.minimum(base, theorem_2), base)


def _squared(sigma: float) -> float:
    return min(max(sigma * sigma, 1e-300), 1e300)


def over(order: Array, sigma: float) -> Array:
    with np.errstate(over="ignore"):
        return order / sigma / sigma
