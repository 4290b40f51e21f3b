r"""Epsilon and delta of many Poisson-sampled Gaussian steps from the lines of `line`, both directions.

Numbers of steps within a factor of `SPREAD` share one line. Every end was evaluated on its safe side. None where a line
is out of reach, or its two ends stay too far apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpml import mechanisms, numerics
from dpml.accounting import orders
from dpml.accounting.pld.contour import placement, transform
from dpml.accounting.pld.contour.line import Line, line
from dpml.accounting.pld.contour.transform import UNIT, Step
from dpml.accounting.pld.limits import INTERVAL, agree, scale
from dpml.accounting.pld.pairs import Array

ACCURACY = 1e-7
"""How close to delta the two ends of a line are meant to be, relative to delta; each end adds about this over lam."""

_LOG_LEAST = -570.0  # of a delta that floats hold

SHORT = 1e-5
"""The same for a shorter line, whose sum has less rounding."""

COARSE = 1e-2
"""The same where it is enough to know that delta is smaller than asked for."""

SPREAD = 3.0
_OF_MANY = 1e-6  # relative to delta


def both_directions(q: float, sigma: float, steps: int, delta: float, tolerance: float) -> tuple[float, float]:
    """Ends of epsilon for add/remove neighbours, `tolerance` times `scale` apart if possible; else 0 and infinity."""
    begun = start(q, sigma, steps, delta)
    removed = begun and epsilon_ends(begun[0], steps, delta, *begun[1:], tolerance)
    if removed is None:
        return 0.0, math.inf
    low, high, lam = removed
    if line_certifies(Step(q, sigma, -1.0), np.array([float(steps)]), delta, np.array([high]), lam).all():
        return low, high
    added = epsilon_ends(Step(q, sigma, -1.0), steps, delta, high, lam, tolerance)
    return (max(low, added.lower), max(high, added.upper)) if added else (low, math.inf)


def delta_both_directions(q: float, sigma: float, steps: int, epsilon: float) -> tuple[float, float] | None:
    """Lower and upper end of delta at epsilon for add/remove neighbours."""
    removed = delta_ends(Step(q, sigma, 1.0), steps, epsilon)
    if removed is None:
        return None
    low, high, lam = removed
    if high >= 1.0 or line_certifies(Step(q, sigma, -1.0), np.array([float(steps)]), high, np.array([epsilon]), lam)[0]:
        return low, high
    added = delta_ends(Step(q, sigma, -1.0), steps, epsilon)
    return (max(low, added.lower), max(high, added.upper)) if added else None


def delta_ends(step: Step, steps: int, epsilon: float) -> Ends | None:
    """Both ends of delta at epsilon in one direction."""
    at, count, lam, steep = np.array([epsilon]), np.array([float(steps)]), step.sigma, 0.0
    log_delta, low, high = 0.0, -math.inf, 0.0
    for _ in range(5):
        view = placement.centred(step, steps, lam, epsilon=epsilon)
        if view is None:
            break
        lam, log_delta = view[1], min(log_delta, view[2] - 2.0)
        steep, whole, before = max(steep, lam), step._replace(cut=math.inf), step.cut
        if log_delta < _LOG_LEAST - 2.0 and line_certifies(whole, count, math.exp(_LOG_LEAST), at, lam)[0]:
            return Ends(0.0, math.exp(_LOG_LEAST), lam)
        if log_delta > -3.0 and (missing := _missing(whole, steps, epsilon)) < ACCURACY:
            return Ends(1.0 - missing, 1.0, lam)
        step = without_rare(step, steps, log_delta)
        if step.cut < before == math.inf:
            continue
        seen = placement.moments_near(step, lam)
        plan = seen and placement.placement_for(seen, [(steps, epsilon)], log_delta, ACCURACY)
        found = plan and line(step, count, plan, ACCURACY)
        if plan and not found and not hardly_drawn(step, steps):
            found = line(step, count, plan, SHORT, blur_for(1e-4 / steep, steep))
        if not found:
            break
        above, slope = found.log_upper(at)
        low, high, steep = max(low, float(found.log_lower(at)[0])), min(high, float(above[0])), -float(slope[0])
        if high - low <= (10.0 * ACCURACY if isinstance(found.below, float) else 1e-3):
            break
        log_delta = min(log_delta - 2.0, high)
    if high - low > 1e-2:
        return None
    return Ends(math.exp(low) * (1.0 - 1e-14), math.exp(high) * (1.0 + 1e-14), lam)


def _missing(step: Step, steps: int, epsilon: float) -> float:
    """At most so much is delta below 1: with 0 < mu <= 1, min(1, e^(epsilon - S)) <= e^(mu (epsilon - S))."""
    mu = 2.0 ** -np.arange(40.0)
    powers = np.array([step.power(-value) for value in mu])
    at = transform.grid(step, 0.0, 1.0, transform.step_for(step, 0.0, 0.0))
    best = int(np.argmin(steps * transform.grid_moments(at, powers) + mu * epsilon))
    law = step.tilted(float(powers[best]), 0.0)
    spare = steps * law.moment_error + 16.0 * UNIT * (1.0 + steps * abs(law.log_moment) + mu[best] * epsilon)
    return math.exp(min(0.0, steps * law.log_moment + mu[best] * epsilon + spare))


def hardly_drawn(step: Step, steps: int) -> bool:
    """Whether a lattice tells more than a blurred line, and sooner: one draw decides, and roundings are few."""
    return step.q * steps < 0.2 and steps < 150_000


def blur_for(width: float, lam: float) -> float:
    """The blur that costs about half of `width` in epsilon."""
    return math.sqrt(0.5 * width / (lam + 1.0))


def start(q: float, sigma: float, steps: int, delta: float) -> tuple[Step, float, float] | None:
    """The removal of a record, about an epsilon, and the tilt of its Chernoff bound: from the best Rényi order, which
    is one more than the tilt.

    The truth is mostly about two over the tilt below the bound. Where rare large losses keep the order far below the
    one that is good for the others, those that together are nothing beside delta are cut off.
    """
    log_delta = math.log(delta)
    lam, limit = orders.limits(q, sigma, float(steps), -log_delta)
    step = without_rare(Step(q, sigma, 1.0), steps, log_delta)
    lam = lam if step.cut < math.inf else min(lam, limit)
    if log_delta > -0.5 and step.cut == math.inf and sigma > 0.4:  # no tilt is small enough; epsilon as of many steps
        spread = min(q * math.sqrt(steps * math.expm1(1.0 / sigma / sigma)), 1e3)
        return step, mechanisms.gaussian_epsilon(sigma=1.0 / spread, delta=delta), lam
    view = placement.centred(step, steps, lam, log_delta=log_delta)
    return view and (step, max(0.0, view[2] - 2.0 / view[1]), view[1])


def without_rare(step: Step, steps: int, log_delta: float) -> Step:
    """The same step with a cut that loses some 1e-10 of delta, where that makes the line much better."""
    if step.sign < 0.0:
        return step
    lam, limit = orders.limits(step.q, step.sigma, float(steps), -log_delta)
    if lam <= min(2.0 * limit, 50.0 * step.sigma):
        return step
    share = 0.5e-10 * math.exp(log_delta) / steps
    tails = special.ndtri([share, min(0.5, share / step.q)])
    return step._replace(cut=max(4.0, -tails[0], 1.0 / step.sigma - tails[1]))


def certified_ends(found: Line, log_delta: float, guess: Array, close: Array) -> Array:
    """Epsilons at which the line certifies delta, within about `close` of the least ones; inf where it cannot."""
    at = np.maximum(guess, 0.0)
    for _ in range(12):
        value, slope = found.log_upper(at)
        way = (log_delta - np.clip(value, -1e4, 1e4)) / np.minimum(slope, -0.1 * found.lam * min(1.0, -log_delta))
        at, last = np.maximum(0.0, at + way), at
        if (np.abs(at - last) <= 0.1 * close).all():
            break
    reach = 0.25 * close
    for _ in range(14):
        bad = found.log_upper(at)[0] > log_delta
        if not bad.any():
            return at
        at = np.where(bad, at + reach, at)
        reach = 2.0 * reach
    return np.where(bad, math.inf, at)


def safe_search(
    bound: Callable[[Array], Array], log_delta: float, low: float, high: float, width: float
) -> tuple[float, float]:
    """Epsilons at most `width` apart at which the logarithm of a bound of delta is not below log delta, and below it.

    Looked for from `high` downwards, where the bound is at most delta; `low` is taken if the bound is not reached.
    """

    def excess(way: float) -> float:
        at = max(low, high - way)
        return min(max(log_delta - float(bound(np.array([at]))[0]), -700.0), 700.0) if at > low else -1.0

    if low >= high:
        return low, high
    least, most = numerics.bracket(excess, low=0.0, high=high - low, guess=min(0.4 * width, high - low), width=width)
    return max(low, high - most), high - least


class Ends(NamedTuple):
    """Two ends of epsilon or of delta, and the tilt that found them."""

    lower: float
    upper: float
    lam: float


def epsilon_ends(step: Step, steps: int, delta: float, guess: float, lam: float, tolerance: float) -> Ends | None:
    """Both ends of epsilon at delta, less than `tolerance` apart times `scale` where that is within reach, or None.

    With a blur the ends aim at `INTERVAL`.

    `guess` is about an epsilon that holds and `lam` about the tilt of its Chernoff bound. Planned anew while
    epsilon turns out far from the one that the line was made for; where rounding keeps the ends apart, a shorter line
    may bring them closer.
    """
    log_delta = math.log(delta)
    flat = min(1.0, -log_delta)  # near delta = 1 epsilon depends on 1 - delta
    low, high, last, accuracy, blur = 0.0, math.inf, math.inf, ACCURACY * flat, 0.0
    for _ in range(7):
        seen = placement.moments_near(step, lam)
        where = seen and placement.placement_for(seen, [(steps, guess)], log_delta, accuracy)
        found = where and line(step, np.array([float(steps)]), where, accuracy, blur)
        if not (seen and found):
            if blur or not seen or hardly_drawn(step, steps):
                break
            accuracy, tolerance = SHORT * flat, INTERVAL
            blur = blur_for(INTERVAL * scale(guess), lam)
            continue
        close = 0.02 * tolerance * scale(guess)
        high = min(high, float(certified_ends(found, log_delta, np.array([guess]), np.array([close]))[0]))
        if math.isinf(high):
            break
        low = safe_search(found.log_lower, log_delta, min(low, high), high, close)[0]
        wide = high - low > tolerance * scale(high)
        if wide and found.log_upper(np.array([high]))[0][0] <= log_delta:  # too far, where delta is flat or uneven
            high = safe_search(lambda at: found.log_upper(at)[0], log_delta, low, high, close)[1]  # noqa: B023
        if high - low <= tolerance * scale(high):
            break
        if blur:
            wanted = tolerance * scale(high)
            share = math.sqrt(0.5 * wanted / (high - low))  # says little where the tilt was no good, far from the end
            blur = blur_for(wanted, lam) if abs(high - guess) > wanted else blur * max(0.2, min(0.7, share))
        elif high - low > 0.5 * last:
            if accuracy == SHORT * flat:
                break
            accuracy, last = SHORT * flat, math.inf
        else:
            last = high - low
        guess, lam = high, placement.chernoff(seen, steps, high)[0]
    return None if math.isinf(high) else Ends(min(low, high), high, lam)


def line_certifies(step: Step, counts: Array, delta: float, epsilons: Array, lam: float) -> NDArray[np.bool_]:
    """Where (epsilon, delta) is certified after so many steps: by Chernoff's bound or by a line."""
    log_delta, certified = math.log(delta), np.zeros(len(counts), dtype=np.bool_)
    view = placement.centred(step, float(counts[-1]), lam, epsilon=float(epsilons[-1]), log_delta=log_delta)
    if view and view[2] <= log_delta:
        law, lam = step.tilted(step.power(view[1]), 0.0), view[1]
        rounding = counts * law.moment_error + 16.0 * UNIT * (1.0 + counts * abs(law.log_moment) + lam * epsilons)
        constant = float(placement.best_constant(np.array(lam))) * (1.0 - 1e-14)
        certified = counts * law.log_moment - lam * epsilons + constant + rounding <= log_delta
    if view is None or certified.all():
        return certified
    aims, lam = [(float(counts[i]), float(epsilons[i])) for i in (0, -1)], view[1]
    plan = placement.placement_for(view[0], aims, min(view[2] - 2.0, log_delta), COARSE)
    plan = plan and plan._replace(sides=())  # the aliases may only help
    found = plan and (line(step, counts, plan, COARSE) or line(step, counts, plan, COARSE, blur_for(COARSE / lam, lam)))
    return certified | (found.log_upper(epsilons)[0] <= log_delta) if found else certified


def ends_on_lines(q: float, sigma: float, counts: list[int], delta: float, tolerance: float) -> dict[int, float]:
    """Number of steps -> upper end of epsilon, for those of the increasing `counts` where a line gives it.

    At most `tolerance` above the truth, times `scale` of epsilon; that of the last does not depend on the others. A
    line is placed by Chernoff's bound of epsilon after the fewest and the most steps for which it is meant; where that
    is far off, by the two ends themselves.
    """
    begun, last = start(q, sigma, counts[-1], delta), both_directions(q, sigma, counts[-1], delta, tolerance)
    if begun is None or not agree(*last, tolerance):
        return {}
    (removed, _, lam), guess, rest = begun, last[1], counts[:-1]
    ends, tilt = {counts[-1]: guess}, lam
    while rest:
        group = [count for count in rest if count * SPREAD >= rest[-1]]
        rest = rest[: -len(group)]
        steps = np.array(group, dtype=np.float64)
        found, lam = _placed_by_bounds(removed, steps, delta, tolerance, lam)
        if np.isinf(found).any():
            most = epsilon_ends(removed, group[-1], delta, guess, tilt, tolerance)
            fewest = most and epsilon_ends(removed, group[0], delta, most.upper, most.lam, tolerance)
            if most and fewest:
                aims, tilt = [(steps[0], fewest.upper), (steps[-1], most.upper)], fewest.lam
                found = np.minimum(found, _on_one_line(removed, steps, delta, tolerance, aims, tilt))
        for count, end in zip(group, found.tolist(), strict=True):
            if math.isinf(end):
                alone = both_directions(q, sigma, count, delta, tolerance)
                if not agree(*alone, tolerance):
                    return ends  # the fewer the steps, the harder
                end = alone[1]
            ends[count] = end
        guess = ends[group[0]]
    return ends


def _placed_by_bounds(removed: Step, counts: Array, delta: float, tolerance: float, lam: float) -> tuple[Array, float]:
    """Ends, and the tilt of the fewest steps."""
    log_delta = math.log(delta)
    view = placement.centred(removed, float(counts[0]), lam, log_delta=log_delta)
    if view is None:
        return np.full(len(counts), math.inf), lam
    seen, lam, fewest = view
    other, most = placement.enough(seen, counts[-1], log_delta)
    aims = [(float(counts[0]), max(0.0, fewest - 2.0 / lam)), (float(counts[-1]), max(0.0, most - 2.0 / other))]
    return _on_one_line(removed, counts, delta, tolerance, aims, lam), lam


def _on_one_line(
    removed: Step, counts: Array, delta: float, tolerance: float, aims: list[tuple[float, float]], lam: float
) -> Array:
    """Ends, infinite where there is none within the tolerance, from a line for the aims: numbers of steps, epsilons."""
    log_delta, ends = math.log(delta), np.full(len(counts), math.inf)
    seen = placement.moments_near(removed, lam)
    plan = seen and placement.placement_for(seen, aims, log_delta, _OF_MANY)
    if not plan:
        return ends
    way = np.sqrt(counts) - math.sqrt(counts[0])
    guess = aims[0][1] + (aims[1][1] - aims[0][1]) * way / max(float(way[-1]), 1e-300)
    allowed = tolerance * np.array([scale(float(epsilon)) for epsilon in guess])
    for share in (0.0, 1.0, 0.4):  # of the tolerance, for a blur
        blur = blur_for(share * tolerance * scale(aims[0][1]), lam)
        found = line(removed, counts, plan, SHORT if blur else _OF_MANY, blur)
        if found:
            high = certified_ends(found, log_delta, guess, 0.02 * allowed)
            below = np.where(np.isfinite(high), high, 0.0) - allowed
            close = (below <= 0.0) | (found.log_lower(np.maximum(below, 0.0)) > log_delta)
            ends = np.minimum(ends, np.where(close, high, math.inf))
            if np.isfinite(ends).all() or (np.isinf(ends).all() and not blur):
                break
    fine = np.flatnonzero(np.isfinite(ends))
    if len(fine):
        fine = fine[~line_certifies(Step(removed.q, removed.sigma, -1.0), counts[fine], delta, ends[fine], plan.lam)]
        ends[fine] = math.inf
    return ends
