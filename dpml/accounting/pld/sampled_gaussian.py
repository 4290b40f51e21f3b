r"""The tight epsilon of DP-SGD: Gaussian noise on Poisson samples, many steps, both directions, from both sides.

One step adds N(0, sigma^2) to a sum of sensitivity 1 over a Poisson sample. For add/remove neighbours its worst pair is

.. math::

    P = (1 - q)\,N(0, \sigma^2) + q\,N(1, \sigma^2), \qquad Q = N(0, \sigma^2),

P against Q when the record is removed, Q against P when it is added; the steps compose as products. Epsilon is the
larger of the two directions. (Removing was worse in every case that we computed; both are computed all the same.)

Closed forms where they exist:

- q = 0 or no steps: 0. And 0 wherever delta >= 1 - (1 - q)^steps, the chance that the record is drawn at all.
- q = 1: one Gaussian mechanism with sigma / sqrt(steps).
- One step: $\delta(\varepsilon) = q\,\delta_\sigma(\varepsilon_0)$ with
  $\varepsilon_0 = \log(1 + (e^\varepsilon - 1)/q)$ and the Gaussian profile $\delta_\sigma$; removing is the worse
  direction. (Adding gives
  $(1 - (1-q) e^\varepsilon)_+\,\delta_\sigma(\varepsilon_1)$ with $e^{-\varepsilon_1} = 1 + (e^{-\varepsilon} - 1)/q$;
  the factor is at most q and $\varepsilon_1 \ge \varepsilon_0$.)

Otherwise both ends come from a contour integral (`dpml.accounting.pld._contour`) where its proved bounds are small
enough, in a millisecond or two, and else from lattices by FFT (`dpml.accounting.pld`). Either counts all its errors.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpml import arguments, mechanisms, numerics
from dpml.accounting.guarantee import Bounds, Guarantee
from dpml.accounting.pld import _bracket, _contour_curve, _contour_ends, _curve, _pair
from dpml.accounting.pld.compose import smallest_delta

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["DeltaBounds", "delta_bounds", "epsilon", "epsilon_bounds", "epsilon_curve"]

ROUNDING = 1e-12
"""Relative rounding of the closed forms."""

TOLERANCE = 1.5e-5
"""How far above the truth `epsilon` aims to be, for an epsilon up to 100; `noise_multiplier` uses the same."""


class DeltaBounds(NamedTuple):
    """A true delta known to lie in [lower, upper] at this epsilon, for add/remove neighbours. Quote `upper`.

    Source: definition; Dwork and Roth, "The algorithmic foundations of differential privacy", Definition 2.4.
    """

    lower: float
    upper: float
    epsilon: float


def epsilon_bounds(*, q: float, sigma: float, steps: int, delta: float) -> Bounds:
    """Return the tight epsilon from both sides, for add/remove neighbours and Poisson sampling.

    The ends are at most 1e-4 max(1, epsilon / 100) apart in the settings of training runs, and 3e-3 epsilon where
    epsilon is below 1/30. Far out (delta below 1e-50 or so, or millions of steps with a tiny q) they may be wider;
    both hold all the same. The upper end is infinite only
    where that is true: delta = 0, or sigma = 0 with delta < 1 - (1 - q)^steps.

    Raises:
        ValueError: if q is not in [0, 1], sigma not in [0, inf), steps not an integer in [0, 1e9] or delta neither 0
            nor in [1e-250, 1]; and, where no closed form holds, if q is not in [1e-12, 1) or sigma not in
            [0.04, 1e6], or so small that the tail of the loss is beyond the range of floats.

    Source: Zhu, Dong and Wang, "Optimal accounting of differential privacy via characteristic function", AISTATS
    2022, Theorems 10 and 11; Doroshenko et al., "Connect the dots", PoPETs 2022; own lower end and error bounds.
    """
    q, sigma, steps, delta = _arguments(q, sigma, steps, delta)
    exact = _closed_form(q, sigma, steps, delta)
    if exact is not None:
        lower = 0.0 if math.isinf(exact) else exact * (1.0 - 3.0 * ROUNDING)
        return Bounds(lower, upper=exact, delta=delta, adjacency="add/remove", sampling="Poisson")
    removed, added = _directions(q, sigma, steps)
    quick = _contour_ends.both_directions(q, sigma, steps, delta, 1e-4)
    if quick is not None:
        return Bounds(quick[0], upper=quick[1], delta=delta, adjacency="add/remove", sampling="Poisson")
    try:
        lower, upper = _bracket.epsilon_interval(removed, delta, 1e-4)
        if not _bracket.holds(added, delta, upper, 1e-3):
            ends = _bracket.epsilon_interval(added, delta, 1e-4)
            lower, upper = max(lower, ends[0]), max(upper, ends[1])
    except OverflowError as error:
        raise _out_of_range(sigma, error) from None
    return Bounds(lower, upper=upper, delta=delta, adjacency="add/remove", sampling="Poisson")


def epsilon(*, q: float, sigma: float, steps: int, delta: float) -> Guarantee:
    """Return a tight upper bound on epsilon, above the truth by at most about 1e-5 max(1, epsilon / 100).

    For add/remove neighbours and Poisson sampling. The kind is "exact" where a closed form holds.

    Raises:
        ValueError: as `epsilon_bounds`.

    Source: as `epsilon_bounds`.
    """
    q, sigma, steps, delta = _arguments(q, sigma, steps, delta)
    exact = _closed_form(q, sigma, steps, delta)
    kind = "upper bound" if exact is None else "exact"
    value = _upper_end(q, sigma, steps, delta, TOLERANCE) if exact is None else exact
    return Guarantee(value, delta=delta, kind=kind, adjacency="add/remove", sampling="Poisson")


def delta_bounds(*, q: float, sigma: float, steps: int, epsilon: float) -> DeltaBounds:
    """Return the tight delta at epsilon from both sides, for add/remove neighbours and Poisson sampling.

    Raises:
        ValueError: if epsilon is not in [0, 1e6]; otherwise as `epsilon_bounds`.

    Source: as `epsilon_bounds`.
    """
    q, sigma, steps, _ = _arguments(q, sigma, steps, 1.0)
    epsilon = arguments.real("epsilon", epsilon, 0.0, 1e6)
    reached = -math.expm1(steps * math.log1p(-q)) if q < 1.0 else float(steps > 0)
    if reached == 0.0 or sigma == 0.0:
        return DeltaBounds(reached * (1.0 - ROUNDING), reached, epsilon)
    if q == 1.0 or steps == 1:
        base = epsilon if q == 1.0 else float(_pair.base_loss(np.array(epsilon), q))
        exact = q * mechanisms.gaussian_delta(sigma=sigma / math.sqrt(steps), epsilon=base)
        spare = 1e-11 * (1.0 + epsilon * epsilon * sigma * sigma)  # rounding of epsilon in the exponent
        return DeltaBounds(exact * max(0.0, 1.0 - spare), min(exact * (1.0 + spare), reached), epsilon)
    parts = _directions(q, sigma, steps)
    quick = _contour_ends.delta_both_directions(q, sigma, steps, epsilon)
    try:
        ends = [quick] if quick else [_bracket.delta_interval(direction, epsilon, 1e-5) for direction in parts]
    except OverflowError as error:
        raise _out_of_range(sigma, error) from None
    upper = min(max(end[1] for end in ends), reached)
    return DeltaBounds(min(max(end[0] for end in ends), upper), upper, epsilon)


def epsilon_curve(*, q: float, sigma: float, steps: ArrayLike, delta: float) -> NDArray[np.float64]:
    """Return upper bounds on epsilon after each number of steps in the array `steps`, in its shape.

    Above the truth by at most about 1e-4 max(1, epsilon / 100). Numbers of steps that are close share the nodes of an
    integral or a lattice, so that a thousand points take some ten milliseconds in ordinary settings. For add/remove
    neighbours and Poisson sampling.

    Raises:
        ValueError: if steps is not an array of whole numbers in [0, 1e9]; otherwise as `epsilon_bounds`.

    Source: as `epsilon_bounds`.
    """
    counts = arguments.array("steps", steps, low=0.0, high=1e9)
    if (counts != np.floor(counts)).any():
        raise ValueError("steps must be an array of whole numbers in [0, 1e9], got an element that is not whole")
    q, sigma, _, delta = _arguments(q, sigma, 0, delta)
    found, left = {}, []
    for count in (int(c) for c in np.unique(counts)):
        exact = _closed_form(q, sigma, count, delta)
        if exact is None:
            left.append(count)
        else:
            found[count] = exact
    if left:
        removed, added = _directions(q, sigma, 1)
        found.update(_contour_curve.curve(q, sigma, left, delta, 1e-4))
        left = [count for count in left if count not in found]
        try:
            found.update(_curve.upper_ends(removed[0][0], added[0][0], left, delta, 1e-4))
        except OverflowError as error:
            raise _out_of_range(sigma, error) from None
    return np.array([found[int(c)] for c in counts.reshape(-1)], dtype=np.float64).reshape(counts.shape)


def _upper_end(q: float, sigma: float, steps: int, delta: float, tolerance: float) -> float:
    """Return the upper end in the cases without a closed form; arguments as `epsilon_bounds`, not checked.

    Raises:
        ValueError: if the tail of the loss is beyond the range of floats.

    Source: as `epsilon_bounds`.
    """
    removed, added = _directions(q, sigma, steps)
    quick = _contour_ends.both_directions(q, sigma, steps, delta, tolerance)
    if quick is not None:
        return quick[1]
    try:
        upper = _bracket.epsilon_upper(removed, delta, tolerance)
        if not _bracket.holds(added, delta, upper, max(1e-3, tolerance)):
            upper = max(upper, _bracket.epsilon_upper(added, delta, tolerance))
    except OverflowError as error:
        raise _out_of_range(sigma, error) from None
    return upper


def _out_of_range(sigma: float, error: OverflowError) -> ValueError:
    """Return the refusal of a sigma whose losses are too large for floats.

    Raises:
        ValueError: never itself; it makes one.

    Source: the range of floating point.
    """
    return ValueError(f"sigma must be larger for this delta and number of steps, got {sigma!r}: {error}")


def _arguments(q: float, sigma: float, steps: int, delta: float) -> tuple[float, float, int, float]:
    return (
        arguments.probability("q", q),
        arguments.real("sigma", sigma, 0.0),
        arguments.integer("steps", steps, 0, 10**9),
        smallest_delta(delta),
    )


def _directions(q: float, sigma: float, steps: int) -> tuple[_bracket.Parts, _bracket.Parts]:
    arguments.real("q", q, 1e-12, 1.0, high_open=True)
    arguments.real("sigma", sigma, 0.04, 1e6)
    removed = _pair.poisson(_pair.gaussian(1.0 / sigma), q)
    return [(removed, steps)], [(_pair.exchanged(removed), steps)]


def _closed_form(q: float, sigma: float, steps: int, delta: float) -> float | None:
    if q == 0.0 or steps == 0 or delta == 1.0 or (q < 1.0 and -math.expm1(steps * math.log1p(-q)) <= delta):
        return 0.0
    if sigma == 0.0 or delta == 0.0:
        return math.inf
    if q == 1.0:
        return mechanisms.gaussian_epsilon(sigma=sigma / math.sqrt(steps), delta=delta) * (1.0 + ROUNDING)
    if steps == 1:
        base = mechanisms.gaussian_epsilon(sigma=sigma, delta=delta / q)
        return float(numerics.log1p_scaled_expm1(base, q=q)) * (1.0 + ROUNDING)
    return None
