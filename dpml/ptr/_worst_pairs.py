"""The worst pairs of laws of one release, for the privacy-loss distributions; `single_release` says why they are these.

Symmetric and unsampled: case 1, case 2, and the pair of the larger of their profiles.
"""

from __future__ import annotations

import functools

from dpml.accounting.pld import _combined, _pair
from dpml.accounting.pld._pair import Pair
from dpml.ptr._checked import Parameters

LEAST = 0.04
"""Least noise whose losses floats can hold; a branch with less counts as a branch without noise."""


@functools.lru_cache(maxsize=8)
def case_2(sigma: float, scale: float) -> Pair:
    """Independent Laplace and Gaussian noise."""
    return _combined.laplace_gaussian(1.0 / scale, 1.0 / sigma)


@functools.lru_cache(maxsize=8)
def pairs(given: Parameters) -> tuple[Pair, Pair, Pair]:
    """Case 1, case 2, and the larger profile of both."""
    if given.sigma2 < LEAST:
        return opened(given)
    rare = _pair.gaussian(1.0 / given.sigma2)
    first = _combined.public_choice(given.delta0, _pair.gaussian(1.0 / given.sigma), rare)
    second = case_2(given.sigma, given.scale)
    return first, second, _combined.larger(second, first)


@functools.lru_cache(maxsize=8)
def opened(given: Parameters) -> tuple[Pair, Pair, Pair]:
    """The same, for a branch that passes the test without noise: with probability delta0 everything becomes known."""
    first = _combined.sometimes_open(given.delta0, _pair.gaussian(1.0 / given.sigma))
    second = case_2(given.sigma, given.scale)
    return first, second, _combined.larger(second, first)


def upper_pair(given: Parameters, weight: float) -> Pair:
    """The larger profile, or a simpler one above it where that changes delta by a negligible share.

    `weight` times delta0 is the chance, as a share of delta, that the branch with little noise is met at all. Where
    that is less than 1e-3 and the noise small, losses of several hundred would need a huge lattice and cost seconds.
    """
    simple = given.sigma2 < 0.5 and weight * given.delta0 < 1e-3
    return (opened if simple else pairs)(given)[2]
