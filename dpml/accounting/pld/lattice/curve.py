r"""Upper ends for many numbers of steps of one mechanism, with lattices shared among those that are close.

Numbers of steps within a factor of `SPREAD` use one tilt, step and pair of lattices: those of the largest. The window
reaches down to where the smallest needs it. The bounds stay rigorous, since `profile` measures every error itself.
"""

from __future__ import annotations

from dpml.accounting.pld.lattice import bracket, discretise
from dpml.accounting.pld.lattice.profile import tilted_profile
from dpml.accounting.pld.pairs import Pair, exchanged

SPREAD = 1.5


def ends_on_lattices(removed: Pair, counts: list[int], delta: float, tolerance: float) -> dict[int, float]:
    """Number of steps -> upper end of epsilon, the larger of the two directions; `counts` increase."""
    ends: dict[int, float] = {}
    while counts:
        group = [count for count in counts if count <= counts[0] * SPREAD]
        counts = counts[len(group) :]
        first = _on_one_lattice(removed, group, delta, tolerance)
        second = _on_one_lattice(exchanged(removed), group, delta, tolerance)
        ends.update({count: max(first[count], second[count]) for count in group})
    return ends


def _on_one_lattice(pair: Pair, counts: list[int], delta: float, tolerance: float) -> dict[int, float]:
    layout = bracket.layout_for([(pair, counts[-1])], delta, 0.0, tolerance)
    if len(counts) > 1:
        least = bracket.layout_for([(pair, counts[0])], delta, 0.0, tolerance)
        window = layout.window
        missing = window.low - least.window.low
        size = window.size
        while size * window.h < window.size * window.h + missing:
            size *= 2
        layout = layout._replace(window=window._replace(low=min(window.low, least.window.low), size=size))
    h = layout.window.h
    place = discretise.offset(pair, h)
    lattice = discretise.worse(pair, h, place, *discretise.index_range(pair, h, place, *layout.ranges[0]))
    ends, guess = {}, layout.guess
    for count in reversed(counts):
        found = tilted_profile([(lattice, count)], layout.window, layout.below, layout.above)
        guess = ends[count] = bracket.certified(found, delta, guess, tolerance)
    return ends
