"""Upper ends of epsilon for many numbers of steps: those within a factor of `SPREAD` share one line of `line`."""

from __future__ import annotations

import math

import numpy as np

from dpml.accounting.pld.contour import placement
from dpml.accounting.pld.contour.ends import both_directions, certified_ends, line_certifies, start
from dpml.accounting.pld.contour.line import Line, line
from dpml.accounting.pld.contour.placement import Step
from dpml.accounting.pld.limits import agree, scale
from dpml.accounting.pld.pairs import Array

SPREAD = 3.0
_ACCURACY = 1e-6  # relative to delta


def ends_on_lines(q: float, sigma: float, counts: list[int], delta: float, tolerance: float) -> dict[int, float]:
    """Number of steps -> upper end of epsilon, for those of the increasing `counts` where a line gives it.

    At most `tolerance` above the truth, times `scale` of epsilon.
    """
    begun = start(q, sigma, counts[-1], delta)
    ends: dict[int, float] = {}
    if begun is None:
        return ends
    lam, rest = begun[1], counts
    while rest:
        group = [count for count in rest if count * SPREAD >= rest[-1]]
        rest = rest[: -len(group)]
        found, lam = _on_one_line(q, sigma, np.array(group, dtype=np.float64), delta, tolerance, lam)
        for count, end in zip(group, found.tolist(), strict=True):
            if math.isinf(end):
                alone = both_directions(q, sigma, count, delta, tolerance)
                if not agree(*alone, tolerance):
                    return ends  # the fewer the steps, the harder
                end = alone[1]
            ends[count] = end
    return ends


def _on_one_line(
    q: float, sigma: float, counts: Array, delta: float, tolerance: float, lam: float
) -> tuple[Array, float]:
    """Ends, infinite where there is none within the tolerance, and the tilt of the fewest steps."""
    removed, log_delta, nothing = Step(q, sigma, 1.0), math.log(delta), np.full(len(counts), math.inf)
    view = placement.centred(removed, float(counts[0]), lam, log_delta=log_delta)
    if view is None:
        return nothing, lam
    seen, lam, fewest = view
    other, most = placement.enough(seen, counts[-1], log_delta)
    aims = [(float(counts[0]), max(0.0, fewest - 2.0 / lam)), (float(counts[-1]), max(0.0, most - 2.0 / other))]
    plan = placement.placement_for(seen, aims, log_delta, _ACCURACY)
    found = plan and line(removed, counts, plan, _ACCURACY)
    if not found:
        return nothing, lam
    share = np.sqrt(counts) - math.sqrt(counts[0])
    guess = aims[0][1] + (aims[1][1] - aims[0][1]) * share / max(float(share[-1]), 1e-300)
    ends = _tight(found, log_delta, guess, tolerance)
    fine = np.flatnonzero(np.isfinite(ends))
    if len(fine):
        fine = fine[~line_certifies(Step(q, sigma, -1.0), counts[fine], delta, ends[fine], found.lam)]
        ends[fine] = math.inf
    return ends, lam


def _tight(found: Line, log_delta: float, guess: Array, tolerance: float) -> Array:
    allowed = tolerance * np.array([scale(float(epsilon)) for epsilon in guess])
    ends = certified_ends(found, log_delta, guess, 0.02 * allowed)
    below = np.where(np.isfinite(ends), ends, 0.0) - allowed
    close = (below <= 0.0) | (found.log_lower(np.maximum(below, 0.0)) > log_delta)
    return np.where(close, ends, math.inf)
