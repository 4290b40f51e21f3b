r"""Two-sided epsilon and delta of a composition in one direction, refined until the two sides are close.

A plan (`layout`) fixes lattice and tilt; the worse and the better pair (`discretise`) give two profiles (`profile`);
the ends are where these cross delta. Each end returned was evaluated on its safe side. When the two are further apart
than asked for, the step is made smaller: the error falls with its square.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpml.accounting.pld.lattice import discretise, layout
from dpml.accounting.pld.lattice.layout import Layout
from dpml.accounting.pld.lattice.profile import Profile, tilted_profile
from dpml.accounting.pld.limits import SMALLEST_DELTA, scale
from dpml.accounting.pld.pairs import Pair

LARGEST = 2**22
"""Limit of the lattice and of the window; larger ones cost seconds and gigabytes."""

Parts = list[tuple[Pair, int]]
_Build = Callable[..., discretise.Lattice]


def layout_for(
    parts: Parts, delta: float | None, epsilon: float | None, tolerance: float, slope: float = 0.0
) -> Layout:
    """A plan that spends on truncation what the tolerance allows, where that makes the lattice much smaller.

    For the epsilon at delta or the delta at epsilon; with both, the tilt is made for epsilon and delta is its value.
    """
    laws = [(layout.coarse_law(pair), count) for pair, count in parts]
    finite = None if delta is None else max(delta - infinite(parts), SMALLEST_DELTA)
    log_delta = None if finite is None else math.log(finite)
    target = finite if finite is not None else 1e-5
    share = 1e-7
    best = layout.plan_layout(laws, log_delta, epsilon, tolerance, target * share, slope)
    for _ in range(3):
        if finite is None:
            target = max(math.exp(best.log_bound), SMALLEST_DELTA)
        elif best.cost <= 2**18:
            break
        else:
            wanted = min(1e-2, 0.2 * tolerance * max(best.window.lam, slope))
            if wanted < 3.0 * share:
                break
            share = wanted
        best = layout.plan_layout(laws, log_delta, epsilon, tolerance, target * share, slope)
    return best


def infinite(parts: Parts) -> float:
    """The probability that the sum of the losses is infinite; no epsilon certifies at a delta below it."""
    return -math.expm1(sum(count * math.log1p(-pair.beyond) for pair, count in parts))


def largest(parts: Parts) -> float:
    """An upper bound on the finite values of the sum, slightly more than the largest."""
    return sum(count * (pair.high if pair.high < 0.0 else pair.high * (1.0 + 1e-12)) for pair, count in parts)


def profile_of(parts: Parts, plan: Layout, build: _Build) -> Profile:
    """The profile of the composition after each pair was put on the lattice by `build`."""
    h = plan.window.h
    lattices = []
    for (pair, count), ends in zip(parts, plan.ranges, strict=True):
        place = discretise.offset(pair, h)
        start, stop = discretise.index_range(pair, h, place, *ends)
        lattices.append((build(pair, h, place, start, stop), count))
    return tilted_profile(lattices, plan.window, plan.below, plan.above)


def _upper_end(found: Profile, delta: float, guess: float, tolerance: float) -> float:
    """An epsilon at which the profile certifies delta, within tolerance / 50 of the least one."""
    step = tolerance * scale(guess) / 50.0
    high, reach = guess, step
    while (above := _excess(found.upper, high, delta)) > 0.0:
        high, reach = high + reach, 2.0 * reach
        if reach > 1e9:
            raise ValueError(f"delta must be larger for this composition, got {delta!r}: truncation alone exceeds it")
    low = high
    while True:
        low = max(0.0, low + min(1.2 * above / found.window.lam, -step))
        below = _excess(found.upper, low, delta)
        if below > 0.0:
            return _narrow(found.upper, delta, (low, below), (high, above), step)[1]
        high, above = low, below
        if low == 0.0:
            return 0.0


def lower_end(found: Profile, delta: float, upper: float, tolerance: float) -> float:
    """An epsilon that is certainly not enough, within tolerance / 50 of the largest one, or 0."""
    step = tolerance * scale(upper) / 50.0
    above, reach = _excess(found.lower, upper, delta), step
    if above > 0.0:
        return upper
    high = low = upper
    while low > 0.0:
        low, reach = max(0.0, high - reach), 2.0 * reach
        below = _excess(found.lower, low, delta)
        if below > 0.0:
            return _narrow(found.lower, delta, (low, below), (high, above), step)[0]
        high, above = low, below
    return 0.0


def _excess(value: Callable[[float], float], epsilon: float, delta: float) -> float:
    reached = value(epsilon)
    return math.log(reached) - math.log(delta) if reached > 0.0 else -700.0


def _narrow(
    value: Callable[[float], float],
    delta: float,
    low: tuple[float, float],
    high: tuple[float, float],
    step: float,
) -> tuple[float, float]:
    """Narrow (epsilon, excess) > 0 at low and <= 0 at high down to `step`; both ends stay evaluated."""
    count = 0
    while high[0] - low[0] > step:
        count += 1
        share = low[1] / (low[1] - high[1]) if count % 3 else 0.5
        guess = low[0] + (high[0] - low[0]) * share
        near = 0.4 * step if count % 2 else -0.4 * step  # just beyond the crossing, on either side in turn
        guess = min(max(guess + near, low[0] + 0.4 * step), high[0] - 0.4 * step)
        found = _excess(value, guess, delta)
        low, high = ((guess, found), high) if found > 0.0 else (low, (guess, found))
    return low[0], high[0]


def _first(parts: Parts, delta: float, tolerance: float) -> tuple[Layout, float, float | None]:
    """A plan, its upper end, and the epsilon its tilt is made for (None: made for delta by the Chernoff bound).

    Planned anew while the discretisation is felt, or wrap-around and rounding are: where the Chernoff bound is far from
    the truth, the slope of log delta is steeper than the tilt, and the tilt made for epsilon may serve better.
    """
    plan, aim = layout_for(parts, delta, None, tolerance), None
    best, end, least = plan, math.inf, math.inf
    for last in (False, False, False, True):
        found = profile_of(parts, plan, discretise.worse)
        end = min(end, _upper_end(found, delta, plan.guess, tolerance))
        if end == 0.0:
            return plan, end, aim
        slope = max(found.slope(end), plan.window.lam)
        felt = found.noise(end, delta) / slope
        if felt > 2.0 * least:  # the tilt before was better
            aim = None
        else:
            best, least = plan, felt
        allowed = tolerance * scale(end)
        off = found.steps * plan.window.h**2 * (slope + 1.0) / 12.0
        if last or (off <= allowed and felt <= 0.1 * allowed):
            break
        if aim is None and felt > 0.1 * allowed and felt <= least:
            aim = end
        new = layout_for(parts, delta, aim, tolerance, slope)
        if new.window.h > 0.7 * plan.window.h and new.window.lam == plan.window.lam:
            break  # the lattice is as fine as it may be
        plan = new
    return best, end, aim


def epsilon_upper(parts: Parts, delta: float, tolerance: float) -> float:
    """The upper end alone, off the truth by at most about half the tolerance."""
    return _first(parts, delta, tolerance)[1]


def certifies(parts: Parts, delta: float, epsilon: float, tolerance: float) -> bool:
    """Whether a coarse look already certifies (epsilon, delta)."""
    if epsilon >= largest(parts):
        return infinite(parts) * (1.0 + 1e-12) <= delta
    plan = layout_for(parts, None, epsilon, tolerance)
    return profile_of(parts, plan, discretise.worse).upper(epsilon) <= delta


def epsilon_interval(parts: Parts, delta: float, tolerance: float) -> tuple[float, float]:
    """(lower, upper), at most tolerance * `scale` apart unless the lattice would exceed `LARGEST`."""
    if infinite(parts) * (1.0 + 1e-12) >= delta:
        return 0.0, math.inf
    plan, high, aim = _first(parts, delta, tolerance)
    low, asked, slope = 0.0, tolerance, 0.0
    for _ in range(4):
        if high > 0.0:
            low = max(low, lower_end(profile_of(parts, plan, discretise.better), delta, high, tolerance))
        width = (high - low) / (tolerance * scale(high))
        if width <= 1.0 or plan.cost >= LARGEST:
            break
        asked = asked / min(max(2.0 * width, 2.0), 64.0)
        plan = layout_for(parts, delta, aim and high, asked, slope)
        found = profile_of(parts, plan, discretise.worse)
        high, slope = min(high, _upper_end(found, delta, high, tolerance)), found.slope(high)
    return min(low, high), high


def delta_interval(parts: Parts, epsilon: float, tolerance: float) -> tuple[float, float]:
    """(lower, upper) of delta at epsilon."""
    if epsilon >= largest(parts):
        return infinite(parts) * (1.0 - 1e-12), infinite(parts) * (1.0 + 1e-12)
    plan = layout_for(parts, None, epsilon, tolerance)
    for last in (False, False, True):
        found = profile_of(parts, plan, discretise.worse)
        high = min(found.upper(epsilon), 1.0)
        if last or high < SMALLEST_DELTA or found.noise(epsilon, high) <= 1e-4:
            break
        plan = layout_for(parts, high, epsilon, tolerance)
    return min(profile_of(parts, plan, discretise.better).lower(epsilon), high), high
