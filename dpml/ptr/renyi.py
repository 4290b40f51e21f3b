r"""Propose-test-release on Poisson samples: the exact Rényi divergence of a step, with no conditions, and many steps.

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

For real orders the moments are computed by quadrature. In case 1 they are averages of those of the subsampled Gaussian
mechanism over the two branches.

T steps on Poisson samples have T times the divergence of one, at each order; the best order gives epsilon, as in
`dpml.accounting.rdp`. Case 1 holds a term $\delta_0 e^{a(a-1)/(2\sigma^2\tau^2)}$, which forbids all but small orders
however small delta0 is.

Theorem (the rare branch moved to delta). Let $\delta' = \delta - T q\,\delta_0 > 0$. If T steps of case 2 alone are
$(\varepsilon, \delta')$-private, then T steps of propose-test-release are $(\varepsilon, \delta)$-private. Proof. In
case 1 change the law of the first dataset, in the branch that passes the test, to the law of the second. It moves
by at most q delta0 in total variation: the branch has probability delta0, and the laws in it are $(1-q)Q + qP$
and Q, or the other way round, at most q apart. What is left is a step of subsampled Gaussian noise sigma, which case 2
dominates. Over T steps the changes add up. (The first dataset is the one whose events are bounded; to change the second
one instead would cost a factor $e^\varepsilon$.)

Neighbours: add/remove.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments
from dpml.accounting import orders
from dpml.accounting.guarantee import Guarantee
from dpml.accounting.rdp import poisson_subsampled_lower
from dpml.ptr._checked import Parameters, parameters
from dpml.ptr._moments import REACH, log_case_1, log_case_2
from dpml.ptr.theorems import rdp_case_1, rdp_case_2

__all__ = [
    "Cases",
    "epsilon_by_rdp",
    "epsilon_by_rdp_branch_in_delta",
    "exact_cases",
    "exact_subsampled_rdp",
]

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

    Integer orders up to 256 by the finite sum, others by quadrature; the relative error of results above 1e-300 is
    below 1e-11, by quadrature at a sigma of thousands below 1e-10.

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
    arguments.finite("tau", tau, first)
    return Cases(first.reshape(a.shape)[()], second.reshape(a.shape)[()])


def epsilon_by_rdp(
    *, q: float, sigma: float, tau: float, scale: float, delta0: float, steps: int, delta: float
) -> Guarantee:
    """Return the guarantee of `steps` steps on Poisson samples, by the exact Rényi curve at the best real order.

    An upper bound for add/remove neighbours. `dpml.ptr.privacy.epsilon_bounds` is tighter. 0 if q or steps is 0;
    infinite at delta = 0.

    Raises:
        ValueError: if q or delta is not in [0, 1], sigma not in [0.04, 1e4], tau not in (0, 1], scale not in
            [0.01, 1e6], delta0 not in (0, 1/2], steps not an integer in [0, 2^53], or the result exceeds the range of
            floats.

    Source: own derivation in `dpml.ptr.renyi`; Canonne, Kamath and Steinke, "The discrete Gaussian for differential
    privacy", NeurIPS 2020, Proposition 12 of arXiv:2004.00010v4, for the conversion.
    """
    q, given, steps, delta = _checked(q, sigma, tau, scale, delta0, steps, delta)

    def moment(lam: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.maximum(log_case_1(lam, q, given), log_case_2(lam, q, given))

    return _best(moment, q, given, steps, delta, delta)


def epsilon_by_rdp_branch_in_delta(
    *, q: float, sigma: float, scale: float, delta0: float, steps: int, delta: float
) -> Guarantee:
    """Return the guarantee of `steps` steps by the Rényi curve of case 2, with steps q delta0 of delta spent on case 1.

    An upper bound for add/remove neighbours; tau does not matter. 0 if q or steps is 0.

    Raises:
        ValueError: if q is not in [0, 1], sigma not in [0.04, 1e4], scale not in [0.01, 1e6], delta0 not in (0, 1/2],
            steps not an integer in [0, 2^53], delta not in [0, 1], or at most steps q delta0, or the result exceeds the
            range of floats.

    Source: own derivation, proved at the head of this module; the PTR paper (Wang et al., NeurIPS 2022), section 4.2,
    does the same for one (epsilon, delta).
    """
    q, given, steps, delta = _checked(q, sigma, 1.0, scale, delta0, steps, delta)
    spent = steps * q * given.delta0 * (1.0 + 1e-12)
    if spent > 0.0 and delta <= spent:
        raise ValueError(f"delta must be above steps q delta0 = {spent:g}, got {delta!r}")
    return _best(lambda lam: log_case_2(lam, q, given), q, given, steps, delta, delta - spent)


def _best(moment: orders.Moment, q: float, given: Parameters, steps: int, delta: float, left: float) -> Guarantee:
    value, order = 0.0, None
    if q > 0.0 and steps > 0 and delta == 0.0:
        value = math.inf
    elif q > 0.0 and steps > 0:
        last = REACH * given.sigma - 1.0

        def within(lam: NDArray[np.float64]) -> NDArray[np.float64]:
            found = np.full(lam.shape, math.inf)
            found[lam < last] = moment(lam[lam < last])
            return found

        noise = 1.0 / math.sqrt(given.sigma**-2 + given.scale**-2)
        guess = min(orders.limits(q, noise, float(steps), -math.log(left)))
        value, lam = orders.best(within, float(steps), -math.log(left), guess=min(guess, last / 8.0))
        value, order = arguments.finite("sigma", given.sigma, value), lam + 1.0
    return Guarantee(value, delta=delta, kind="upper bound", adjacency="add/remove", sampling="Poisson", order=order)


def _checked(
    q: float, sigma: float, tau: float, scale: float, delta0: float, steps: int, delta: float
) -> tuple[float, Parameters, int, float]:
    return (
        arguments.probability("q", q),
        parameters(sigma, tau, scale, delta0, low=0.04, high=1e4),
        arguments.integer("steps", steps, 0, 2**53),
        arguments.probability("delta", delta),
    )


def _by_sum(order: int, q: float, given: Parameters) -> tuple[float, float]:
    sizes = np.arange(2.0, order + 1.0)
    first = rdp_case_1(sizes, sigma=given.sigma, tau=given.tau, delta0=given.delta0)
    second = rdp_case_2(sizes, sigma=given.sigma, scale=given.scale)
    one = poisson_subsampled_lower(order, q=q, rdp=lambda size: float(first[size - 2]))
    return one, poisson_subsampled_lower(order, q=q, rdp=lambda size: float(second[size - 2]))
