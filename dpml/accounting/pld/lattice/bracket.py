r"""Two-sided epsilon and delta of a composition in one direction, refined until the two sides are close.

A layout fixes lattice and tilt; the worse and the better pair (`discretise`) give two profiles (`profile`); the ends
are where these cross delta. Each end returned was evaluated on its safe side. When the two are further apart than asked
for, the step is made smaller: the error falls with its square.

Numbers of steps within a factor of `SPREAD` use one tilt, step and pair of lattices: those of the largest. The window
reaches down to where the smallest needs it. The bounds stay rigorous, since `profile` measures every error itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from dpml import numerics
from dpml.accounting.pld.lattice import discretise
from dpml.accounting.pld.lattice.layout import Layout, Rare, all_alike, coarse_law, plan_layout, rare_losses
from dpml.accounting.pld.lattice.profile import FINEST, UNIT, Profile, tilted_profile, transformed
from dpml.accounting.pld.limits import SMALLEST_DELTA, TOLERANCE, scale
from dpml.accounting.pld.pairs import Pair, exchanged

SPREAD = 1.5
_FARTHEST = 1e9  # no epsilon is searched beyond

Parts = list[tuple[Pair, int]]
_Build = Callable[..., discretise.Lattice]
_Rarity = Callable[..., Rare | None]


def layout_for(
    parts: Parts,
    delta: float | None,
    epsilon: float | None,
    tolerance: float,
    slope: float = 0.0,
    rarity: _Rarity = rare_losses,
) -> Layout:
    """A layout that spends on truncation what the tolerance allows, where that makes the lattice much smaller.

    For the epsilon at delta or the delta at epsilon; with both, the tilt is made for epsilon and delta is its value.
    """
    laws = [(coarse_law(pair), count) for pair, count in parts]
    finite = None if delta is None else max(delta - infinite(parts), SMALLEST_DELTA)
    log_delta = None if finite is None else math.log(finite)

    def plan(spent: float) -> Layout:
        layout = plan_layout(laws, log_delta, epsilon, tolerance, spent, slope, rarity, UNIT)
        if layout.felt and FINEST < UNIT:
            finer = plan_layout(laws, log_delta, epsilon, tolerance, spent, slope, rarity, FINEST)
            layout = min(layout, finer, key=lambda either: either.error)
        return layout

    best = plan(1e-7 * (finite or 1e-5))
    if finite is None:
        return plan(1e-7 * max(math.exp(best.log_bound), SMALLEST_DELTA))
    share = min(1e-2, 0.2 * tolerance * scale(best.guess) * max(best.window.lam, slope))
    if share > 3e-7 and (best.cost > 2**18 or epsilon is not None):
        best = plan(finite * share)
    return best


def infinite(parts: Parts) -> float:
    """The probability that the sum of the losses is infinite; no epsilon holds at a delta below it."""
    return -math.expm1(sum(count * math.log1p(-pair.beyond) for pair, count in parts))


def largest(parts: Parts) -> float:
    """An upper bound on the finite values of the sum, slightly more than the largest."""
    return sum(count * (pair.high if pair.high < 0.0 else pair.high * (1.0 + 1e-12)) for pair, count in parts)


def profile_of(parts: Parts, layout: Layout, build: _Build) -> Profile:
    """The profile of the composition after each pair was put on the lattice by `build`."""
    h = layout.window.h
    lattices = []
    for (pair, count), ends in zip(parts, layout.ranges, strict=True):
        place = discretise.offset(pair, h)
        start, stop = discretise.index_range(pair, h, place, *ends)
        lattices.append((transformed(build(pair, h, place, start, stop), layout.window), count))
    return tilted_profile(lattices, layout.window)


def certified(found: Profile, delta: float, guess: float, tolerance: float) -> float:
    """An epsilon at which the profile certifies delta, within tolerance / 50 of the least one."""
    step = tolerance * scale(guess) / 50.0
    return _ends(found.upper, delta, guess, step, found.window.lam)[1]


def refuted(found: Profile, delta: float, upper: float, tolerance: float) -> float:
    """An epsilon up to `upper` that is certainly not enough, within tolerance / 50 of the largest one, or 0."""
    if upper == 0.0 or _excess(found.lower, upper, delta) > 0.0:
        return upper
    return _ends(found.lower, delta, upper, tolerance * scale(upper) / 50.0, found.window.lam)[0]


def _ends(value: Callable[[float], float], delta: float, guess: float, width: float, lam: float) -> tuple[float, float]:
    """Epsilons at most `width` apart at which a decreasing bound of delta is above it and not.

    The search begins where the line of slope -lam through (guess, log of the bound) meets log delta.
    """

    def excess(epsilon: float) -> float:
        above = _excess(value, epsilon, delta)
        if epsilon == _FARTHEST and above > 0.0:
            raise OverflowError("what is cut off alone exceeds delta")
        return above

    guess = min(max(0.0, guess + excess(guess) / lam), _FARTHEST)
    return numerics.bracket(excess, low=0.0, high=_FARTHEST, guess=guess, width=width)


def _excess(value: Callable[[float], float], epsilon: float, delta: float) -> float:
    reached = value(epsilon)
    return math.log(reached) - math.log(delta) if reached > 0.0 else -700.0


def _first(parts: Parts, delta: float, tolerance: float) -> tuple[Layout, float]:
    """A layout and its upper end. Planned anew while an error is felt."""
    layout, end = layout_for(parts, delta, None, tolerance), math.inf
    if layout.largest and (look := layout_for(parts, delta, None, 30.0 * tolerance)).cost < layout.cost / 2:
        layout = look
    for _ in range(4):
        found = profile_of(parts, layout, discretise.worse)
        end = min(end, certified(found, delta, layout.guess, tolerance))
        slope = max(found.slope(end), layout.window.lam)
        off, noise = layout.steps * layout.window.h**2 * (slope + 1.0) / 12.0, found.noise(end, delta) / slope
        if end == 0.0 or off + noise <= tolerance * scale(end):
            break
        if layout.largest:
            if noise <= 100.0 * tolerance * scale(end):
                break
            tolerance *= 30.0  # fewer points round less
        layout = layout_for(parts, delta, end, tolerance, slope)
    return layout, end


def epsilon_upper(parts: Parts, delta: float, tolerance: float) -> float:
    """The upper end alone, off the truth by at most about half the tolerance."""
    return _first(parts, delta, tolerance)[1]


def certifies(parts: Parts, delta: float, epsilon: float, tolerance: float) -> bool:
    """Whether a coarse lattice already certifies (epsilon, delta)."""
    if epsilon >= largest(parts):
        return infinite(parts) * (1.0 + 1e-12) <= delta
    layout = layout_for(parts, None, epsilon, tolerance)
    return profile_of(parts, layout, discretise.worse).upper(epsilon) <= delta


def upper_of_both(removed: Pair, steps: int, delta: float, *, below: float = math.inf) -> float:
    """The upper end for both directions, the record removed or added; `below` is one that is known to hold."""
    added = [(exchanged(removed), steps)]
    end = min(below, epsilon_upper([(removed, steps)], delta, TOLERANCE))
    if end < below and not certifies(added, delta, end, 1e-3):
        end = min(below, max(end, epsilon_upper(added, delta, TOLERANCE)))
    return end


def epsilon_interval(parts: Parts, delta: float, tolerance: float, known: float | None = None) -> tuple[float, float]:
    """(lower, upper), at most tolerance * `scale` apart unless that takes too many points.

    An upper end that is `known` is returned as it is.
    """
    if infinite(parts) * (1.0 + 1e-12) >= delta:
        atoms = parts[0][0].atoms if len(parts) == parts[0][1] == 1 and parts[0][0].beyond == delta else ()
        return (atoms[-1] * (1.0 - 1e-11), atoms[-1]) if atoms else (0.0, math.inf)  # all finite losses are covered
    if known is None:
        layout, high = _first(parts, delta, tolerance)
    else:
        layout, high = layout_for(parts, delta, known, tolerance), known
    low, asked = 0.0, tolerance
    for _ in range(4):
        found = profile_of(parts, layout, discretise.better)
        low, slope = max(low, refuted(found, delta, high, tolerance)), max(found.slope(high), layout.window.lam)
        width = (high - low) / (tolerance * scale(high))
        if width <= 1.0 or layout.largest:
            break
        asked = asked / min(max(2.0 * width, 2.0), 64.0)
        layout = layout_for(parts, delta, high, asked, slope)
        if known is None:
            high = min(high, certified(profile_of(parts, layout, discretise.worse), delta, high, tolerance))
    return min(low, high), high


def delta_interval(parts: Parts, epsilon: float, tolerance: float) -> tuple[float, float]:
    """(lower, upper) of delta at epsilon. What losses that are not split leave wide, they may narrow when split."""
    if epsilon >= largest(parts):
        return infinite(parts) * (1.0 - 1e-12), infinite(parts) * (1.0 + 1e-12)
    low, high = 0.0, 1.0
    for rarity in (all_alike, rare_losses):
        lower, upper = _delta_ends(parts, epsilon, tolerance, rarity)
        low, high = max(low, lower), min(high, upper)
        if high < SMALLEST_DELTA or high - low <= 1e-3 * high:
            break
    return min(low, high), high


def _delta_ends(parts: Parts, epsilon: float, tolerance: float, rarity: _Rarity) -> tuple[float, float]:
    """As `delta_interval`, with one way to tell which losses are split off. Planned anew until the ends are close."""
    low, high, known = 0.0, 1.0, None
    for last in (False, False, False, True):
        layout = layout_for(parts, known, epsilon, tolerance, rarity=rarity)
        found = profile_of(parts, layout, discretise.worse)
        known = high = min(high, found.upper(epsilon))
        if high < SMALLEST_DELTA:
            break
        if last or found.noise(epsilon, high) <= 1e-4:
            low = max(low, profile_of(parts, layout, discretise.better).lower(epsilon))
            width = (high - low) / (1e-3 * high)
            if width <= 1.0 or layout.cost >= 2**18:
                break
            tolerance = tolerance / min(max(2.0 * width, 2.0), 64.0)
    return low, high


def ends_on_lattices(removed: Pair, counts: list[int], delta: float, tolerance: float) -> dict[int, float]:
    """Number of steps -> upper end of epsilon, the larger of the two directions; `counts` increase."""
    ends: dict[int, float] = {}
    while counts:
        group = [count for count in counts if count <= counts[0] * SPREAD]
        counts = counts[len(group) :]
        ends |= _on_one_lattice(removed, group, delta, tolerance)
        added, most = exchanged(removed), ends[group[-1]]
        layout = layout_for([(added, group[-1])], None, most, 1e-3)
        unsure = [count for count, found in _profiles(added, group, layout) if found.upper(ends[count]) > delta]
        more = _on_one_lattice(added, unsure[::-1], delta, tolerance) if unsure else {}
        ends |= {count: max(ends[count], end) for count, end in more.items()}
    return ends


def _profiles(pair: Pair, counts: list[int], layout: Layout) -> Iterator[tuple[int, Profile]]:
    """Number of steps and profile, the largest number first, after one transform of the pair on its lattice."""
    h = layout.window.h
    place = discretise.offset(pair, h)
    lattice = discretise.worse(pair, h, place, *discretise.index_range(pair, h, place, *layout.ranges[0]))
    seen = transformed(lattice, layout.window)
    for count in reversed(counts):
        yield count, tilted_profile([(seen, count)], layout.window)


def _on_one_lattice(pair: Pair, counts: list[int], delta: float, tolerance: float) -> dict[int, float]:
    """The end of the largest number does not depend on the others: on its lattice they are found."""
    most = counts[-1]
    layout, guess = _first([(pair, most)], delta, tolerance)
    ends = {most: guess}
    if len(counts) > 1:
        least = layout_for([(pair, counts[0])], delta, 0.0, tolerance)
        window = layout.window
        missing = max(0.0, window.low - least.window.low) / (window.size * window.h)
        size = window.size * 2 ** math.ceil(math.log2(1.0 + missing))
        layout = layout._replace(window=window._replace(low=min(window.low, least.window.low), size=size))
        for count, found in _profiles(pair, counts[:-1], layout):
            guess = ends[count] = certified(found, delta, guess, tolerance)
    return ends
