r"""The privacy of propose-test-release: many steps on Poisson samples, tight, from both sides, without conditions.

`theorem_4_2`, `theorem_4_3` and `theorem_4_4` are those of `dpml.ptr.theorems`, `exact_subsampled_rdp` that of
`dpml.ptr.renyi`; one release alone is in `dpml.ptr.single_release`. All are there to be compared with `epsilon`, which
is the one to quote: by privacy-loss distributions.

In every step the worst neighbours may be in case 1 or in case 2 (`dpml.ptr.theorems`), and an adversary may choose by
what was published before. With $H_1, H_2$ the profiles of the two cases,

.. math::

    H(\varepsilon) = \max(H_1(\varepsilon), H_2(\varepsilon))

is the profile of a pair of laws which dominates both, and T steps are dominated by the T-fold product of that pair
(Zhu, Dong and Wang 2022, Theorem 10). Poisson sampling maps epsilon monotonically, so that it may be applied to the
larger profile. This gives the **upper** end, in both directions: the record is removed, or added.

The **lower** end comes from real runs: T steps that are all in case 2, or all in case 1. In training settings the two
ends agree to about 1e-4, since case 1 has the larger profile only far out.

No condition on q, sigma, tau or an order is needed. Where sigma tau < 0.04, the branch that passes the test counts as
one without noise, which changes no epsilon below 300; and so does one with sigma tau < 0.5 that is met with a
probability below delta / 1000 in all steps together.

Calibration. With tau, b and delta0 fixed, more sigma is more noise in both branches, a post-processing, so epsilon
falls. It does not fall to 0: the test itself costs what T sampled Laplace mechanisms of scale b cost.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments, numerics
from dpml.accounting import pld
from dpml.accounting.guarantee import Bounds, Guarantee
from dpml.accounting.pld import losses, pairs
from dpml.accounting.pld.lattice import bracket
from dpml.accounting.pld.limits import INTERVAL, SMALLEST_DELTA, agree, checked_run, losses_of
from dpml.accounting.pld.losses import Loss
from dpml.accounting.pld.pairs import Pair
from dpml.accounting.subsampled_gaussian import after_each, known_epsilon
from dpml.ptr._checked import Parameters, parameters
from dpml.ptr._worst_pairs import LEAST, upper_pair, worst_pairs
from dpml.ptr.renyi import exact_subsampled_rdp
from dpml.ptr.theorems import theorem_4_2, theorem_4_3, theorem_4_4

__all__ = [
    "epsilon",
    "epsilon_bounds",
    "epsilon_curve",
    "exact_subsampled_rdp",
    "matching_gaussian_sigma",
    "noise_multiplier",
    "privacy_loss",
    "theorem_4_2",
    "theorem_4_3",
    "theorem_4_4",
]

_MOST = 1e4


def privacy_loss(*, sigma: float, tau: float, scale: float, delta0: float) -> Loss:
    """Return a loss that dominates one release, for `dpml.accounting.pld.losses.compose`; `losses.poisson` samples it.

    It is that of the larger profile of the two cases. The lower end of a composition that holds it is one for this
    pair: a real run may lose a little less.

    Raises:
        ValueError: if sigma is not in [0.04, 1e4], tau not in (0, 1], scale not in [0.01, 1e6] or delta0 not in
            (0, 1/2].

    Source: own derivation in `dpml.ptr.single_release`; Zhu, Dong and Wang, "Optimal accounting of differential privacy
    via characteristic function", AISTATS 2022, for the larger of two profiles as a pair.
    """
    return Loss((worst_pairs(parameters(sigma, tau, scale, delta0, low=LEAST, high=1e4))[2],))


def epsilon_bounds(
    *, q: float, sigma: float, tau: float, scale: float, delta0: float, steps: int, delta: float
) -> Bounds:
    """Return the epsilon of `steps` adaptive steps on Poisson samples, from both sides, for add/remove neighbours.

    `sigma` is the noise multiplier where the test fails, `tau` the proposed sensitivity in units of the clipping norm,
    so that sigma tau is the noise where it passes; `scale` is the Laplace scale of the test. The upper end holds for
    every adversary, the lower end is that of a real run. 0 where delta >= 1 - (1 - q)^steps; infinite above at
    delta = 0, and where a branch counts as one without noise, as said at the head of this module, and is met with a
    probability of delta or more: then the true epsilon is above 300.

    Raises:
        ValueError: if q is not in [0, 1], sigma not in [0.04, 1e4], tau not in (0, 1], scale not in [0.01, 1e6], delta0
            not in (0, 1/2], steps not an integer in [0, 1e9] or delta neither 0 nor in [1e-250, 1]; if 0 < q < 1e-9;
            or if sigma is so small that the tail of the loss is beyond the range of floats.

    Source: own derivation, at the head of this module; Zhu, Dong and Wang, "Optimal accounting of differential privacy
    via characteristic function", AISTATS 2022, Theorems 10 and 11.
    """
    q, given, steps, delta = _checked(q, sigma, tau, scale, delta0, steps, delta)
    lower, upper = 0.0, _upper(q, given, steps, delta)
    if upper > 0.0 and delta > 0.0:
        first, second, _ = worst_pairs(given)
        with losses_of(given.sigma):
            lower = bracket.epsilon_interval([(_removed(second, q), steps)], delta, INTERVAL)[0]
            if given.sigma2 >= LEAST and not agree(lower, upper, INTERVAL):
                lower = max(lower, bracket.epsilon_interval([(_removed(first, q), steps)], delta, INTERVAL)[0])
    return Bounds(lower, upper=upper, delta=delta, adjacency="add/remove", sampling="Poisson")


def epsilon(*, q: float, sigma: float, tau: float, scale: float, delta0: float, steps: int, delta: float) -> Guarantee:
    """Return the upper end of `epsilon_bounds` alone: an upper bound, for add/remove neighbours and Poisson samples.

    Raises:
        ValueError: as `epsilon_bounds`.

    Source: as `epsilon_bounds`.
    """
    q, given, steps, delta = _checked(q, sigma, tau, scale, delta0, steps, delta)
    value = _upper(q, given, steps, delta)
    return Guarantee(value, delta=delta, kind="upper bound", adjacency="add/remove", sampling="Poisson")


def epsilon_curve(
    *, q: float, sigma: float, tau: float, scale: float, delta0: float, steps: ArrayLike, delta: float
) -> NDArray[np.float64]:
    """Return upper bounds on epsilon after each number of steps in the array `steps`, in its shape.

    Within about 1e-4 max(1, epsilon / 100) of `epsilon`. Neighbours: add/remove, with Poisson samples.

    Raises:
        ValueError: if steps is not an array of whole numbers in [0, 1e9]; otherwise as `epsilon_bounds`.

    Source: as `epsilon_bounds`.
    """
    q, given, _, delta = _checked(q, sigma, tau, scale, delta0, 0, delta)

    def others(counts: list[int]) -> dict[int, float]:
        removed = _removed(upper_pair(given, max(counts) * q / delta), q)
        with losses_of(given.sigma):
            return bracket.ends_on_lattices(removed, counts, delta, INTERVAL)

    return after_each(steps, lambda count: _known(q, given, count, delta), others)


def noise_multiplier(
    *, q: float, tau: float, scale: float, delta0: float, steps: int, epsilon: float, delta: float
) -> float:
    """Return a sigma for which `steps` steps on Poisson samples are (epsilon, delta)-private, add/remove.

    Its epsilon, as `dpml.ptr.privacy.epsilon` computes it, is at most the target and within
    1e-3 min(1, epsilon) of it; 0.04, the least sigma that is supported, where that is enough.

    Raises:
        ValueError: if q is not in [0, 1], tau not in (0, 1], scale not in [0.01, 1e6], delta0 not in (0, 1/2], steps
            not an integer in [0, 1e9], epsilon not in [1e-6, 1e4] or delta not in [1e-250, 1]; or if no sigma up to
            1e4 will do, because the test alone costs more or nearly as much.

    Source: definition; the epsilon is that of `epsilon`.
    """
    arguments.real("delta", delta, SMALLEST_DELTA, 1.0)
    q, _, steps, delta = _checked(q, LEAST, tau, scale, delta0, steps, delta)
    epsilon = arguments.real("epsilon", epsilon, 1e-6, 1e4)

    def spent(sigma: float) -> float:
        return _upper(q, parameters(sigma, tau, scale, delta0), steps, delta)

    @functools.cache
    def of_tests() -> float:
        """What the answers of the tests cost at least: post-processing of the run, whatever sigma is."""
        test = losses.laplace(scale=scale)
        return losses.compose([(test if q == 1.0 else losses.poisson(test, q=q), steps)], delta=delta).lower

    def excess(sigma: float) -> float:
        try:
            value = spent(sigma)
        except ValueError:  # the losses are beyond the range of floats
            return math.inf
        if value > epsilon and sigma > 1.0 and of_tests() > epsilon:
            raise ValueError(f"epsilon must be at least {of_tests():g}, what the tests alone cost, got {epsilon!r}")
        far = sigma > 1.0 and value > 8.0 * epsilon  # a long way to go: is there an end?
        if value > epsilon and (far or sigma == _MOST) and (left := spent(_MOST)) > epsilon:
            raise ValueError(f"epsilon must be at least {left:g}, what is left at sigma = {_MOST:g}, got {epsilon!r}")
        return value - epsilon

    close = 1e-3 * min(1.0, epsilon)
    return numerics.crossing(excess, low=LEAST, high=_MOST, guess=1.0, close=close, width=1e-7)


def matching_gaussian_sigma(
    *, q: float, sigma: float, tau: float, scale: float, delta0: float, steps: int, delta: float
) -> float:
    """Return the noise multiplier of plain DP-SGD with the same epsilon at delta: what the test costs, in noise.

    Smaller than sigma. Add/remove neighbours, Poisson samples, the same q and steps. 0.0 where no noise is needed.

    Raises:
        ValueError: if delta is not in [1e-250, 1]; otherwise as `dpml.ptr.privacy.epsilon`, or as
            `dpml.accounting.pld.noise_multiplier` where epsilon is out of its range.

    Source: definition; the PTR paper (Wang et al., NeurIPS 2022), appendix B.1.3, which compares at sigma 1.1
    against 0.7 as equals; by these distributions 1.1 matches 0.85 there.
    """
    arguments.real("delta", delta, SMALLEST_DELTA, 1.0)
    found = epsilon(q=q, sigma=sigma, tau=tau, scale=scale, delta0=delta0, steps=steps, delta=delta).epsilon
    return pld.noise_multiplier(q=q, steps=steps, epsilon=found, delta=delta) if found > 0.0 else 0.0


@functools.lru_cache(maxsize=64)  # a page asks for the same account in several cells
def _upper(q: float, given: Parameters, steps: int, delta: float) -> float:
    known = _known(q, given, steps, delta)
    if known is not None:
        return known
    with losses_of(given.sigma):
        return bracket.upper_of_both(_removed(upper_pair(given, steps * q / delta), q), steps, delta)


def _known(q: float, given: Parameters, steps: int, delta: float) -> float | None:
    """Epsilon where it needs no distribution: 0, or infinity."""
    known = known_epsilon(q, given.sigma, steps, delta)
    if known is None and bracket.infinite([(_removed(worst_pairs(given)[2], q), steps)]) * (1.0 + 1e-12) >= delta:
        return math.inf
    return known


def _removed(pair: Pair, q: float) -> Pair:
    return pair if q == 1.0 else pairs.poisson(pair, q)


def _checked(
    q: float, sigma: float, tau: float, scale: float, delta0: float, steps: int, delta: float
) -> tuple[float, Parameters, int, float]:
    q, steps, delta = checked_run(q, steps, delta)
    if q > 0.0:
        arguments.real("q", q, 1e-9, 1.0)
    return q, parameters(sigma, tau, scale, delta0, low=LEAST, high=1e4), steps, delta
