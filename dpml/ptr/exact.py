r"""Propose-test-release on a Poisson sample: the exact Rényi divergence, with no condition on any parameter.

`dpml.ptr.theorems` finds the two worst pairs (P, Q) of the mechanism: one for each case. On a sample that holds each
record with probability q the outputs are $(1-q)Q + qP$ and Q, and for an integer order a

.. math::

    (a-1)\,D_a\bigl((1-q)Q + qP \,\|\, Q\bigr)
    = \log \sum_{k=0}^{a} \binom ak (1-q)^{a-k} q^k\, \mathbb E_Q\bigl[(P/Q)^k\bigr] .

Theorem. The larger of the two cases is the Rényi divergence of the sampled mechanism: it bounds both directions for all
neighbours and is attained. Proof.

1. Given the sample without the record, the outputs are as above with P and Q those of neighbours; by quasi-convexity
   averaging over that sample does not raise the divergence.
2. $(1-q+qx)^a$ and $(1-q+qx)^{1-a}$ are convex in x, so both directions are f-divergences of P from Q, and at most
   those of a pair that dominates. The pair of each case does (`dpml.ptr.theorems`).
3. Both pairs are symmetric: reflecting the outputs exchanges P and Q. For such pairs the direction above is the larger
   one (Mironov, Talwar and Zhang 2019). Symmetry makes it enough to see this for losses +-l, that is, for randomized
   response; the tests check that inequality.
4. Attained: let f_2 count up to one record in steps of tau and afterwards in steps of 1 (case 2, empty set against one
   record), or in steps of 1 from the start (case 1), and let f_1 count.

The same sum answers what the paper announces without stating it: the divergence of two independent mechanisms on one
sample. Their moments multiply.

For real orders the moments are computed by quadrature. In case 1 they are averages of those of the subsampled Gaussian
mechanism over the two branches.

Neighbours: add/remove.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpml import arguments
from dpml.accounting.rdp_subsampling import poisson_subsampled_lower
from dpml.ptr._checked import Parameters, parameters
from dpml.ptr._moments import REACH, log_case_1, log_case_2
from dpml.ptr.theorems import rdp_case_1, rdp_case_2

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Cases", "exact_cases", "exact_subsampled_rdp", "independent_pair_rdp"]

_SUMMED = 256  # integer orders up to here by the finite sum


class Cases(NamedTuple):
    """A quantity in the two cases: both local sensitivities above tau, or one of them at most tau.

    Source: the PTR paper (Wang et al., NeurIPS 2022), proof of Theorem 4.3, which has the two cases.
    """

    case_1: NDArray[np.float64]
    case_2: NDArray[np.float64]


def exact_subsampled_rdp(
    order: ArrayLike, *, q: float, sigma: float, tau: float, scale: float, delta0: float
) -> NDArray[np.float64]:
    """Return the Rényi divergence of one step of propose-test-release on a Poisson sample, in the shape of `order`.

    The larger of the two cases and of the two directions. Neighbours: add/remove. 0 at q = 0, Theorem 4.3 at q = 1.

    Raises:
        ValueError: as `exact_cases`.

    Source: own derivation, at the head of this module; the sum is that of Zhu and Wang, "Poisson subsampled Rényi
    differential privacy", ICML 2019, applied to each case by itself.
    """
    return np.asarray(np.maximum(*exact_cases(order, q=q, sigma=sigma, tau=tau, scale=scale, delta0=delta0)))[()]


def exact_cases(order: ArrayLike, *, q: float, sigma: float, tau: float, scale: float, delta0: float) -> Cases:
    """Return what `exact_subsampled_rdp` is the maximum of: the divergence in each case, in the shape of `order`.

    Integer orders up to 256 by the finite sum, others by quadrature; the relative error is below 1e-11 either way.

    Raises:
        ValueError: if an order is not in (1, 10^6], or above 10^4 sigma without being an integer, q not in [0, 1],
            sigma not in [0.04, 1e4], tau not in (0, 1], scale not in [0.01, 1e6], delta0 not in (0, 1/2], or the
            result exceeds the range of floats.

    Source: own derivation, at the head of this module.
    """
    a = arguments.array("order", order, low=1.0, low_open=True, high=1e6)
    q = arguments.probability("q", q)
    given = parameters(sigma, tau, scale, delta0, low=0.04, high=1e4)
    if q in (0.0, 1.0):
        return Cases(
            q * rdp_case_1(a, sigma=given.sigma, tau=given.tau, delta0=given.delta0),
            q * rdp_case_2(a, sigma=given.sigma, scale=given.scale),
        )
    flat = a.reshape(-1)
    whole = flat == np.floor(flat)
    summed = whole & ((flat <= _SUMMED) | (flat > REACH * given.sigma))
    if (~whole & (flat > REACH * given.sigma)).any():
        raise ValueError(f"order must be an integer above 10^4 sigma = {REACH * given.sigma:g}, got one that is not")
    first, second = np.empty(flat.shape), np.empty(flat.shape)
    for i in np.flatnonzero(summed):
        first[i], second[i] = _by_sum(int(flat[i]), q, given)
    if not summed.all():
        lam = flat[~summed] - 1.0
        first[~summed] = log_case_1(lam, q, given) / lam
        second[~summed] = log_case_2(lam, q, given) / lam
    if not np.isfinite(first).all():
        raise ValueError(f"tau must keep the result within the range of floats, got {tau!r}")
    return Cases(first.reshape(a.shape)[()], second.reshape(a.shape)[()])


def independent_pair_rdp(
    order: int, *, q: float, rdp: Callable[[int], float], rdp_other: Callable[[int], float]
) -> float:
    """Return the Rényi divergence of two independent mechanisms that both run on the same Poisson sample.

    Exact at integer orders if one pair of neighbours attains both curves at all integer orders 2, ..., order, and
    the laws of each mechanism on it are mirror images (Gaussian, Laplace, randomized response, case 1 or 2 of
    propose-test-release); without the latter it is a lower bound. Neighbours: add/remove. Less than the sum of the
    two divergences on samples of their own would be an error: the sample is shared.

    Raises:
        ValueError: if order is not an integer in [2, 10^6], q not in [0, 1], or rdp or rdp_other not a function that
            returns numbers in [0, inf).

    Source: the PTR paper (Wang et al., NeurIPS 2022), end of section 4.3, which announces such a bound without stating
    it; own derivation, at the head of this module.
    """
    if not callable(rdp_other):
        raise ValueError(f"rdp_other must be a function of an integer order, got {rdp_other!r:.60}")
    if not callable(rdp):
        raise ValueError(f"rdp must be a function of an integer order, got {rdp!r:.60}")

    def both(size: int) -> float:
        return arguments.real("rdp", rdp(size), 0.0) + arguments.real("rdp_other", rdp_other(size), 0.0)

    return poisson_subsampled_lower(order, q=q, rdp=both)


def _by_sum(order: int, q: float, given: Parameters) -> tuple[float, float]:
    sizes = np.arange(2.0, order + 1.0)
    first = rdp_case_1(sizes, sigma=given.sigma, tau=given.tau, delta0=given.delta0)
    second = rdp_case_2(sizes, sigma=given.sigma, scale=given.scale)
    one = poisson_subsampled_lower(order, q=q, rdp=lambda size: float(first[size - 2]))
    return one, poisson_subsampled_lower(order, q=q, rdp=lambda size: float(second[size - 2]))
