r"""Many steps of propose-test-release by their exact Rényi curve, and the cheap repair of its weak spot.

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

import numpy as np
from numpy.typing import NDArray

from dpml import arguments
from dpml.accounting import _order_search
from dpml.accounting._subsampled_gaussian import refuse_overflow
from dpml.accounting.guarantee import Guarantee
from dpml.ptr._checked import Parameters, parameters
from dpml.ptr._moments import REACH, log_case_1, log_case_2

__all__ = ["epsilon_by_rdp", "epsilon_by_rdp_branch_in_delta"]


def epsilon_by_rdp(
    *, q: float, sigma: float, tau: float, scale: float, delta0: float, steps: int, delta: float
) -> Guarantee:
    """Return the guarantee of `steps` steps on Poisson samples, by the exact Rényi curve at the best real order.

    An upper bound for add/remove neighbours. `dpml.ptr.distribution.epsilon_bounds` is tighter. 0 if q or steps is 0;
    infinite at delta = 0.

    Raises:
        ValueError: if q or delta is not in [0, 1], sigma not in [0.04, 1e4], tau not in (0, 1], scale not in
            [0.01, 1e6], delta0 not in (0, 1/2], steps not an integer in [0, 2^53], or the result exceeds the range of
            floats.

    Source: own derivation in `dpml.ptr.exact`; Canonne, Kamath and Steinke, "The discrete Gaussian for differential
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


def _best(
    moment: _order_search.Moment, q: float, given: Parameters, steps: int, delta: float, left: float
) -> Guarantee:
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
        guess = _order_search.guess(q, noise, float(steps), -math.log(left))
        with np.errstate(over="ignore"):
            value, lam = _order_search.best(within, float(steps), -math.log(left), guess=min(guess, last / 8.0))
        value, order = refuse_overflow(value, given.sigma), lam + 1.0
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
