r"""Many steps of propose-test-release by privacy-loss distributions: tight, from both sides, without conditions.

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
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpml import arguments
from dpml.accounting.guarantee import Bounds, Guarantee
from dpml.accounting.pld import _bracket, _curve, _pair
from dpml.accounting.pld._pair import Pair
from dpml.accounting.pld.compose import smallest_delta
from dpml.accounting.pld.losses import Loss
from dpml.accounting.pld.sampled_gaussian import TOLERANCE
from dpml.ptr._checked import Parameters, parameters
from dpml.ptr._worst_pairs import LEAST, pairs, upper_pair

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["epsilon", "epsilon_bounds", "epsilon_curve", "privacy_loss"]


def privacy_loss(*, sigma: float, tau: float, scale: float, delta0: float) -> Loss:
    """Return a loss that dominates one release, for `dpml.accounting.pld.compose`; sample it with `losses.poisson`.

    It is that of the larger profile of the two cases. The lower end of a composition that holds it is one for this
    pair: a real run may lose a little less.

    Raises:
        ValueError: if sigma is not in [0.04, 1e4], tau not in (0, 1], scale not in [0.01, 1e6] or delta0 not in
            (0, 1/2].

    Source: own derivation in `dpml.ptr.single_release`; Zhu, Dong and Wang, "Optimal accounting of differential privacy
    via characteristic function", AISTATS 2022, for the larger of two profiles as a pair.
    """
    return Loss((pairs(parameters(sigma, tau, scale, delta0, low=LEAST, high=1e4))[2],))


def epsilon_bounds(
    *, q: float, sigma: float, tau: float, scale: float, delta0: float, steps: int, delta: float
) -> Bounds:
    """Return the epsilon of `steps` adaptive steps on Poisson samples, from both sides, for add/remove neighbours.

    `sigma` is the noise multiplier where the test fails, `tau` the proposed sensitivity in units of the clipping norm,
    so that sigma tau is the noise where it passes; `scale` is the Laplace scale of the test. The upper end holds for
    every adversary, the lower end is that of a real run. 0 where delta >= 1 - (1 - q)^steps; infinite above at
    delta = 0.

    Raises:
        ValueError: if q is not in [0, 1], sigma not in [0.04, 1e4], tau not in (0, 1], scale not in [0.01, 1e6], delta0
            not in (0, 1/2], steps not an integer in [0, 1e9] or delta neither 0 nor in [1e-250, 1]; if 0 < q < 1e-9;
            or if sigma is so small that the tail of the loss is beyond the range of floats.

    Source: own derivation, at the head of this module; Zhu, Dong and Wang, "Optimal accounting of differential privacy
    via characteristic function", AISTATS 2022, Theorems 10 and 11.
    """
    q, given, steps, delta = _checked(q, sigma, tau, scale, delta0, steps, delta)
    upper = _upper(q, given, steps, delta)
    lower = 0.0
    if upper > 0.0 and delta > 0.0:
        first, second, _ = pairs(given)
        try:
            lower = _lower(_removed(second, q), steps, delta)
            if given.sigma2 >= LEAST and upper - lower > 1e-4 * max(1.0, upper / 100.0):
                lower = max(lower, _lower(_removed(first, q), steps, delta))
        except OverflowError as error:
            raise _out_of_range(given.sigma, error) from None
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
    counts = arguments.array("steps", steps, low=0.0, high=1e9)
    if (counts != np.floor(counts)).any():
        raise ValueError("steps must be an array of whole numbers in [0, 1e9], got an element that is not whole")
    q, given, _, delta = _checked(q, sigma, tau, scale, delta0, 0, delta)
    found: dict[int, float] = {}
    left = []
    for count in (int(c) for c in np.unique(counts)):
        easy = _easy(q, given, count, delta)
        if easy is None:
            left.append(count)
        else:
            found[count] = easy
    if left:
        removed = _removed(upper_pair(given, max(left) * q / delta), q)
        try:
            found.update(_curve.upper_ends(removed, _pair.exchanged(removed), left, delta, 1e-4))
        except OverflowError as error:
            raise _out_of_range(given.sigma, error) from None
    return np.array([found[int(c)] for c in counts.reshape(-1)], dtype=np.float64).reshape(counts.shape)


def _upper(q: float, given: Parameters, steps: int, delta: float) -> float:
    easy = _easy(q, given, steps, delta)
    if easy is not None:
        return easy
    removed = _removed(upper_pair(given, steps * q / delta), q)
    try:
        upper = _bracket.epsilon_upper([(removed, steps)], delta, TOLERANCE)
        added = [(_pair.exchanged(removed), steps)]
        if q < 1.0 and not _bracket.holds(added, delta, upper, 1e-3):
            upper = max(upper, _bracket.epsilon_upper(added, delta, TOLERANCE))
    except OverflowError as error:
        raise _out_of_range(given.sigma, error) from None
    return upper


def _easy(q: float, given: Parameters, steps: int, delta: float) -> float | None:
    """Epsilon where it needs no distribution: 0, or infinity."""
    if q == 0.0 or steps == 0 or delta == 1.0 or (q < 1.0 and -math.expm1(steps * math.log1p(-q)) <= delta):
        return 0.0
    if delta == 0.0 or _bracket.infinite([(_removed(pairs(given)[2], q), steps)]) * (1.0 + 1e-12) >= delta:
        return math.inf
    return None


def _lower(pair: Pair, steps: int, delta: float) -> float:
    return _bracket.epsilon_interval([(pair, steps)], delta, 1e-4)[0]


def _removed(pair: Pair, q: float) -> Pair:
    return pair if q == 1.0 else _pair.poisson(pair, q)


def _out_of_range(sigma: float, error: OverflowError) -> ValueError:
    return ValueError(f"sigma must be larger for this delta and number of steps, got {sigma!r}: {error}")


def _checked(
    q: float, sigma: float, tau: float, scale: float, delta0: float, steps: int, delta: float
) -> tuple[float, Parameters, int, float]:
    q = arguments.probability("q", q)
    if q > 0.0:
        arguments.real("q", q, 1e-9, 1.0)
    return (
        q,
        parameters(sigma, tau, scale, delta0, low=LEAST, high=1e4),
        arguments.integer("steps", steps, 0, 10**9),
        smallest_delta(delta),
    )
