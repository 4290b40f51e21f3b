r"""Upper ends for many numbers of steps of one mechanism, with lattices shared among those that are close.

Numbers of steps within a factor of `SPREAD` use one tilt, step and pair of lattices: those of the largest. The window
reaches down to where the smallest needs it. The bounds stay rigorous, since `_tilted` measures every error itself.
"""

from __future__ import annotations

from dpml.accounting.pld import _bracket, _discretise, _tilted
from dpml.accounting.pld._pair import Pair

SPREAD = 1.5


def upper_ends(removed: Pair, added: Pair, counts: list[int], delta: float, tolerance: float) -> dict[int, float]:
    """Number of steps -> upper end of epsilon, the larger of the two directions; `counts` increase."""
    ends: dict[int, float] = {}
    while counts:
        group = [count for count in counts if count <= counts[0] * SPREAD]
        counts = counts[len(group) :]
        first = _group(removed, group, delta, tolerance)
        second = _group(added, group, delta, tolerance)
        ends.update({count: max(first[count], second[count]) for count in group})
    return ends


def _group(pair: Pair, counts: list[int], delta: float, tolerance: float) -> dict[int, float]:
    plan = _bracket.make_plan([(pair, counts[-1])], delta, 0.0, tolerance)
    if len(counts) > 1:
        least = _bracket.make_plan([(pair, counts[0])], delta, 0.0, tolerance)
        window = plan.window
        missing = window.low - least.window.low
        size = window.size
        while size * window.h < window.size * window.h + missing:
            size *= 2
        plan = plan._replace(window=window._replace(low=min(window.low, least.window.low), size=size))
    h = plan.window.h
    place = _discretise.offset(pair, h)
    lattice = _discretise.worse(pair, h, place, *_discretise.nodes(pair, h, place, *plan.ranges[0]))
    ends, guess = {}, plan.guess
    for count in reversed(counts):
        found = _tilted.profile([(lattice, count)], plan.window, plan.below, plan.above)
        guess = ends[count] = _bracket._upper_end(found, delta, guess, tolerance)
    return ends
