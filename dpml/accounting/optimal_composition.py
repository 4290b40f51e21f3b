r"""Optimal composition: the exact privacy of k mechanisms that are known to be (epsilon, delta)-private, and no more.

Theorem. Of all k-fold compositions of $(\varepsilon, \delta)$-private mechanisms none is less private than that of k
randomized responses which, each with probability delta, show the data openly. With
$X \sim \mathrm{Binomial}\bigl(k, e^\varepsilon/(1 + e^\varepsilon)\bigr)$ true answers the loss is
$(2X - k)\,\varepsilon$, so the composition is $(\varepsilon_{tot}, \delta_{tot})$-private exactly if

.. math::

    \delta_{tot} \ge 1 - (1 - \delta)^k (1 - \tilde\delta), \qquad
    \tilde\delta = \sum_{x=0}^{k} P(X = x) \bigl[1 - e^{\varepsilon_{tot} - (2x - k)\varepsilon}\bigr]_+ .

It holds for any one neighbouring relation, also when mechanisms are chosen after seeing the outputs before them.
A particular mechanism may be more private than this; then its own losses have to be composed.

How it is computed. Between two losses $\tilde\delta$ is a constant minus a multiple of $e^{\varepsilon_{tot}}$. Let
$\ell_x = (2x-k)\,\varepsilon$, $D_x$ the value of $\tilde\delta$ at $\varepsilon_{tot} = \ell_x$, and $C_x$ the slope
times $e^{\ell_x}$ just below it. With $P_x = P(X = x)$,

.. math::

    C_x = P_x + e^{-2\varepsilon} C_{x+1}, \qquad D_{x-1} = D_x + (1 - e^{-2\varepsilon})\, C_x, \qquad
    \tilde\delta = D_x + C_x \bigl(1 - e^{\varepsilon_{tot} - \ell_x}\bigr)
    \ \text{ for } \varepsilon_{tot} \in [\ell_{x-1}, \ell_x] .

All terms are positive, so nothing cancels; in logarithms nothing overflows either. Only the x within $20\sqrt k$ of
the mean are visited: the others have a probability below $2 e^{-800}$ (Hoeffding), less than any positive float.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpml import arguments, numerics
from dpml.accounting.guarantee import Guarantee

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["optimal", "optimal_delta"]

_MOST = 10**9
_ROUNDING = 2.0**-52


class _Losses(NamedTuple):
    """The numbers x of true answers near their mean, the losses, and log P(X = x)."""

    x: NDArray[np.float64]
    loss: NDArray[np.float64]
    log_p: NDArray[np.float64]
    error: NDArray[np.float64]  # bound on the rounding error of log P(X = x) and of sums from there on


def optimal(
    *, epsilon: float, delta: float, k: int, total_delta: float, adjacency: str = "as the mechanism's"
) -> Guarantee:
    """Return the smallest epsilon that k (epsilon, delta)-private mechanisms together have at `total_delta`.

    Never above `basic`, `advanced` and `advanced_tanh` at their total delta. Rounded to the safe side. Infinite if
    total_delta < 1 - (1 - delta)^k, the probability that some step fails altogether; 0 at total_delta = 1. The
    neighbouring relation is that of the mechanisms; name it as `adjacency`, and the result carries the name.

    Raises:
        ValueError: if epsilon is not in [0, inf), delta or total_delta not in [0, 1], k not an integer in
            [1, 1000000000], adjacency not in `ADJACENCIES`, or 2 k epsilon exceeds the range of floats.

    Source: Kairouz, Oh and Viswanath, "The composition theorem for differential privacy", ICML 2015, Theorem 3.3,
    between its points by the hockey-stick divergence of the same pair of distributions.
    """
    epsilon, delta, k = _checked(epsilon, delta, k)
    total_delta = arguments.probability("total_delta", total_delta)
    total = _least_epsilon(epsilon, k, _without_failures(delta, k, total_delta))
    return Guarantee(total, delta=total_delta, kind="upper bound", adjacency=adjacency)


def optimal_delta(*, epsilon: float, delta: float, k: int, total_epsilon: float) -> float:
    """Return the smallest delta that k (epsilon, delta)-private mechanisms together have at `total_epsilon`.

    `optimal` solved for the other number, but not rounded to the safe side: its relative error is below 1e-9 for
    k <= 1000000.

    Raises:
        ValueError: if epsilon or total_epsilon is not in [0, inf), delta not in [0, 1], k not an integer in
            [1, 1000000000], or 2 k epsilon exceeds the range of floats.

    Source: Kairouz, Oh and Viswanath, "The composition theorem for differential privacy", ICML 2015, Theorem 3.3,
    between its points by the hockey-stick divergence of the same pair of distributions.
    """
    epsilon, delta, k = _checked(epsilon, delta, k)
    total_epsilon = arguments.real("total_epsilon", total_epsilon, 0.0)
    losses = _losses(epsilon, k)
    above = losses.loss > total_epsilon
    log_terms = losses.log_p[above] + numerics.log1mexp(total_epsilon - losses.loss[above])
    tail = min(1.0, float(np.exp(log_terms).sum()))
    if tail == 1.0 or delta == 1.0:
        return 1.0
    return -math.expm1(k * math.log1p(-delta) + math.log1p(-tail))


def _least_epsilon(epsilon: float, k: int, target: float) -> float:
    """The total epsilon at which k randomized responses need a delta of `target`."""
    if target < 0.0:
        return math.inf
    if epsilon == 0.0 or target == 1.0:
        return 0.0
    if target == 0.0:
        return k * epsilon
    losses = _losses(epsilon, k)
    shrink = -2.0 * epsilon
    # From the largest x down. The exponents are taken relative to the middle, to keep them small.
    relative = 2.0 * epsilon * (losses.x - losses.x[losses.x.size // 2])
    log_c = np.logaddexp.accumulate((losses.log_p - relative)[::-1])[::-1] + relative
    log_d = float(numerics.log1mexp(shrink)) + np.logaddexp.accumulate(log_c[::-1])[::-1]
    log_d = np.append(log_d[1:], -math.inf)  # D_x sums the C above x
    goal = math.log(target) - losses.error
    i = int(np.argmax(log_d <= goal))  # the smallest x at whose loss the target is met
    # For a target above D of the smallest x there is no segment; the total is then below 0 anyway.
    gap = math.exp(min(700.0, goal[i] - log_c[i])) - math.exp(min(700.0, log_d[i] - log_c[i]))
    total = float(losses.loss[i]) + (math.log1p(-gap) if gap < -math.expm1(shrink) else shrink)
    return min(k * epsilon, max(0.0, total + 4.0 * _ROUNDING * abs(total)))


def _checked(epsilon: float, delta: float, k: int) -> tuple[float, float, int]:
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    delta = arguments.probability("delta", delta)
    k = arguments.integer("k", k, 1, _MOST)
    if math.isinf(2.0 * k * epsilon):
        raise ValueError(f"epsilon must keep 2 k epsilon within the range of floats, got {epsilon!r} at k = {k}")
    return epsilon, delta, k


def _without_failures(delta: float, k: int, total_delta: float) -> float:
    """The delta left over if no step fails altogether, rounded down; negative if the failures alone exceed it."""
    if delta == 0.0 or total_delta == 1.0:
        return total_delta
    if delta == 1.0:
        return -1.0
    spent, whole = k * math.log1p(-delta), math.log1p(-total_delta)
    left = -math.expm1(whole - spent)
    error = 4.0 * _ROUNDING * (abs(spent) + abs(whole)) * (1.0 - left)
    return 0.0 if abs(left) <= error else left - error


def _losses(epsilon: float, k: int) -> _Losses:
    p = 1.0 / (1.0 + math.exp(-epsilon))
    mode = min(k, math.floor((k + 1) * p))
    reach = math.ceil(20.0 * math.sqrt(k)) + 2
    x = np.arange(max(0, mode - reach), min(k, mode + reach) + 1, dtype=np.float64)
    # From the ratios of neighbouring probabilities, summed outwards from the largest: no factorial of k, whose
    # logarithm near 1e7 would cost nine digits.
    ratio = np.log((k - x[:-1]) / x[1:]) + epsilon
    at = int(mode - x[0])
    log_p = np.concatenate([-np.cumsum(ratio[:at][::-1])[::-1], [0.0], np.cumsum(ratio[at:])])
    log_p -= math.log(np.exp(log_p).sum())
    error = _ROUNDING * (np.abs(x - mode) + 8.0) * (24.0 + 2.0 * np.abs(log_p))
    return _Losses(x, (2.0 * x - k) * epsilon, log_p, error)
