r"""Choice of tilt, window, step and truncation, from a coarse look at the losses. Nothing here needs to be exact.

The tilt minimises the Chernoff bound with its best constant,

.. math::

    \delta(\varepsilon) \le e^{K(\lambda) - \lambda\varepsilon}\, \frac{\lambda^\lambda}{(1+\lambda)^{1+\lambda}},
    \qquad K(\lambda) = \sum_i T_i \log E[e^{\lambda L_i}],

and the step h is such that the error in epsilon, about $T (\lambda + 1) h^2 / 8$ between the two ends of the
discretisation, meets the tolerance. Where no tilt makes delta much more than the rounding of the tilted total mass (a
few rare losses decide, which have no light tail), the transforms are made in longer floats, if the processor has any.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dpml.accounting.pld.lattice.profile import UNIT, Window
from dpml.accounting.pld.limits import INTERVAL, scale
from dpml.accounting.pld.pairs import Array, Pair

LARGEST = 2**20
"""Lattices and windows have more points, up to four times as many, only where the ends would be far apart without; in
longer floats, which take four times as long, a quarter."""

_FAINT = 1e11  # a delta of so many units of rounding of the tilted total mass, or less, may feel it


class CoarseLaw(NamedTuple):
    """A coarse view of a pair: losses with their masses under P, and the tails of P at every edge."""

    losses: Array
    log_masses: Array
    widths: Array  # of the cells that these masses fill; 0 where there are atoms
    edges: Array
    above: Array
    below: Array
    atoms: tuple[float, ...]
    low: float  # where a node will be: a sharp lower end

    def profile(self, epsilon: Array) -> Array:
        """delta at each epsilon, about."""
        at = np.searchsorted(self.losses, epsilon)
        masses = np.exp(self.log_masses)
        p, q = (_sums_above(m)[at] for m in (masses, masses * np.exp(-self.losses)))
        delta: Array = np.maximum(p - np.exp(np.minimum(epsilon, 700.0)) * q, 0.0)
        return delta


class Layout(NamedTuple):
    """What `tilted_profile` needs: a window, and the range of losses of every part."""

    window: Window
    ranges: list[tuple[float, float]]
    guess: float  # epsilon, by the Chernoff bound
    log_bound: float  # log delta at epsilon, by the same bound
    cost: float  # points of the window, or of the largest lattice
    steps: float  # number of losses that are not all but on a node
    largest: bool  # whether no layout has more points
    felt: bool  # whether rounding will be
    error: float  # of an end, by step and rounding, about


def coarse_law(pair: Pair) -> CoarseLaw:
    """Evaluate the pair at its own points."""
    p, q = pair.cells(pair.points)
    above = np.cumsum(p[:0:-1])[::-1]
    below = np.cumsum(p[:-1])
    held = (p[1:-1] > 0.0) & (q[1:-1] > 0.0)
    log_p = np.log(p[1:-1][held])
    low = pair.low if pair.sharp_low else -math.inf
    losses = log_p - np.log(q[1:-1][held])
    order = np.argsort(losses)
    widths = np.diff(pair.points)[held][order] * (not pair.atoms)
    return CoarseLaw(losses[order], log_p[order], widths, pair.points, above, below, pair.atoms, low)


@np.errstate(under="ignore")
def plan_layout(
    laws: list[tuple[CoarseLaw, int]],
    log_delta: float | None,
    epsilon: float | None,
    tolerance: float,
    budget: float,
    slope: float,
    rarity: Callable[..., Rare | None],
    unit: float,
) -> Layout:
    """Layout for the epsilon at delta or the delta at epsilon, whichever is given, or for a pair of both.

    `budget` is the absolute delta that truncation may cost, `slope` that of -log delta in epsilon where it is
    known to be steeper than the tilt, `rarity` says which losses are split off, `unit` is that of rounding.
    """
    steps = float(sum(count for _, count in laws))
    tails = [_tails(seen, budget / steps, 1e-11 / steps) for seen, _ in laws]
    span = max(top - bottom for bottom, top in tails)
    cap = 300.0 / span
    lams = np.geomspace(cap * 1e-9, cap, 140)
    grid = np.concatenate([-lams[::-1], lams, lams[-1] * np.geomspace(1.2, 8.0, 10)])
    log_mgf = np.zeros(len(grid))
    for (seen, count), (_, top) in zip(laws, tails, strict=True):
        held = seen.losses <= top
        half = np.multiply.outer(np.abs(grid), seen.widths[held] / 2.0)
        exponents = np.multiply.outer(grid, seen.losses[held]) + seen.log_masses[held]
        exponents += np.minimum(half * half / 6.0, half)  # about log(sinh(half) / half), what the width of a cell adds
        peak = exponents.max(axis=1)
        log_mgf += count * (peak + np.log(np.exp(exponents - peak[:, None]).sum(axis=1)))
    positive = slice(len(lams), 2 * len(lams))
    k = log_mgf[positive]
    log_best = lams * np.log(lams) - (1.0 + lams) * np.log1p(lams)
    rare, faint = rarity(laws, log_delta, epsilon, unit), math.log(_FAINT * unit)
    if rare:
        best = int(np.argmin((k - rare.log_delta + log_best) / lams))
        value = rare.log_delta + lams * rare.epsilon - k
        guess = rare.epsilon
    elif epsilon is not None:
        best = int(np.argmin(k - lams * epsilon + log_best))
        guess = epsilon
    else:
        assert log_delta is not None, "a plan needs delta or epsilon"
        bound = (k - log_delta + log_best) / lams
        best = int(np.argmin(bound))
        guess = max(float(bound[best]), 0.0)
    relative = scale(guess)
    log_bound = min(0.0, float(k[best] - lams[best] * guess + log_best[best]))
    # what delta is, in units of the tilted total mass: known, or as the Chernoff bound has it, and less for other tilts
    if rare:
        log_bound = min(0.0, rare.log_delta)
    elif log_delta is not None and epsilon is not None:
        value = log_delta + (lams * guess - k)
    else:
        value = log_best[best] - 3.0 + (lams - lams[best]) * guess + k[best] - k
    h, moving = 0.0, steps
    for _ in range(4):
        h = 0.9 * math.sqrt(8.0 * tolerance * relative / (moving * (max(float(lams[best]), slope) + 1.0)))
        moving = sum(count * _moving(seen, float(lams[best]), h) for seen, count in laws)
    log_mgf = log_mgf + moving * (h * grid) ** 2 / 6.0  # what the lattice adds
    fine = np.abs(grid) * h < 0.3  # for steeper tilts it is no image of the law
    share = tolerance * relative * max(float(lams[best]), slope)  # of delta, that rounding may be
    candidates = []
    for chosen in (best, *(best - np.array([1, 2, 3, 5, 8, 13, 21]))):
        split = rare is not None and value[chosen] < faint and chosen > best - 13
        if rare is not None and split:
            noise, narrow = 3.0 * rare.noise, guess
        else:
            noise, narrow = 10.0 * unit * steps * math.exp(min(max(-value[chosen], 0.0), 600.0)), h
        noise /= math.sqrt(min(1.0, lams[chosen] * narrow))
        if chosen < 0 or (chosen != best and noise > 0.3 * share):
            continue
        lam, at = float(lams[chosen]), len(lams) + int(chosen)
        log_alias = max(float(value[chosen]) + math.log(min(1e-3, tolerance * relative * lam / 20.0)), -60.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            ends = (log_mgf - log_mgf[at] - log_alias) / (grid - lam)
        ends[~fine & (np.arange(len(grid)) > at + 1)] = math.inf
        ends[~fine & (np.arange(len(grid)) < at - 1)] = -math.inf
        above, below = at + 1 + int(np.argmin(ends[at + 1 :])), int(np.argmax(ends[:at]))
        high = max(float(ends[above]), guess)
        width = (high - float(ends[below])) * (1.0 if chosen == best or split else 3.0)
        candidates.append((width, lam, below, float(ends[below]), above, high, float(value[chosen]), float(noise)))
    # the best tilt by the bound may stand where the law is about to fall into its far tail: less tilt, smaller window
    _, lam, below, low, above, high, log_value, noise = min(candidates)
    whole = sum(count * (top + 4.0 * h) for (_, count), (_, top) in zip(laws, tails, strict=True))
    high = max(high, whole) if whole < 2.0 * high else high  # room for all sums, never less than the bound asks for
    low = min(low, high - 100.0 * h)
    steep = max(float(lams[best]), slope) + 1.0
    enough = math.sqrt(12.0 * 0.3 * INTERVAL * relative / (moving * steep))  # a step that leaves the interval narrow
    largest = LARGEST / 4 if unit < UNIT else min(max(LARGEST, (high - low) / enough), 4 * LARGEST)
    h = max(h, (high - low) / largest, span / largest)
    size = max(10, math.ceil(math.log2((high - low) / h)))
    gaps = [seen.atoms[-1] - seen.atoms[0] for seen, _ in laws if len(seen.atoms) > 1]
    if gaps:  # atoms belong on the lattice
        h = gaps[0] / math.ceil(gaps[0] / h)
    elif span * 2.0**size < (high - low) * largest:  # use the whole window
        h = (high - low) / 2.0**size
    window = Window(h, low, 2**size, lam, float(grid[below]), float(grid[above]), unit=unit)
    if rare and log_value < faint:
        window = window._replace(common=rare.common, steep=rare.steep)
    cost = max(2.0**size, 2.0 * span / h)
    error = moving * h * h * steep / 12.0 + noise / steep
    return Layout(window, tails, guess, log_bound, cost, moving, cost >= largest, noise > 0.3 * share, error)


class Rare(NamedTuple):
    """Where one rare loss decides: about what epsilon and log delta are, and how to split the losses."""

    epsilon: float
    log_delta: float
    common: float  # losses up to it are common
    steep: float  # a tilt that shows that sums of those are nothing beside delta, also somewhat below epsilon
    noise: float  # the part of delta that rounding may amount to


def all_alike(laws: list[tuple[CoarseLaw, int]], log_delta: float | None, epsilon: float | None, unit: float) -> None:
    """No split, whatever the losses."""


def rare_losses(
    laws: list[tuple[CoarseLaw, int]], log_delta: float | None, epsilon: float | None, unit: float
) -> Rare | None:
    """How to split, None where rounding is far below delta anyway, or common losses add up to epsilon.

    What is not given of epsilon and log delta is taken from one loss alone, which is more than all the others.
    """
    if min(seen.low for seen, _ in laws) < -0.1:
        return None
    largest, steps = max(float(seen.losses[-1]) for seen, _ in laws), sum(count for _, count in laws)
    ways: Array = largest * np.geomspace(1e-8, 1.0, 241) if epsilon is None else np.array([epsilon])
    deltas = np.sum([count * seen.profile(ways) for seen, count in laws], axis=0)
    log_delta = math.log(max(float(deltas[0]), 1e-300)) if log_delta is None else log_delta
    epsilon = float(ways[min(int((deltas > math.exp(log_delta)).sum()), len(ways) - 1)])
    if epsilon <= 0.0 or log_delta > math.log(_FAINT * unit):
        return None
    cuts, tilts = epsilon * np.geomspace(1e-3, 1.0, 31), np.geomspace(2.0, 600.0, 30) / epsilon
    bounds, noise = np.multiply.outer(-0.7 * epsilon * tilts, np.ones(len(cuts))), np.zeros(len(cuts))
    for seen, count in laws:
        at = np.searchsorted(seen.losses, cuts, side="right")
        losses, log_masses = seen.losses[: at[-1]], seen.log_masses[: at[-1]]
        below = np.cumsum(np.exp(np.multiply.outer(tilts, losses) + log_masses), axis=1)
        bounds += count * np.log(np.maximum(np.pad(below, ((0, 0), (1, 0)))[:, at], 1e-300))
        noise += 45.0 * unit * steps * math.exp(-log_delta) * count * _sums_above(np.exp(seen.log_masses))[at]
    fine = np.flatnonzero((bounds.min(axis=0) < log_delta - 30.0) & (noise < 3e-5))
    if not len(fine):
        return None
    cut = int(fine[-1])
    return Rare(epsilon, log_delta, float(cuts[cut]), float(tilts[bounds[:, cut].argmin()]), float(noise[cut]))


def _moving(seen: CoarseLaw, lam: float, h: float) -> float:
    """How much of the tilted law has losses that a lattice of step h moves by as much as h, about.

    Most losses of rarely drawn records are close to their least one, where a node is: they are moved by less.
    """
    exponents = lam * seen.losses + seen.log_masses
    weights = np.exp(exponents - exponents.max())
    return float((weights * np.minimum(1.0, 4.0 / h * (seen.losses - seen.low))).sum() / weights.sum()) + 1e-9


def _sums_above(masses: Array) -> Array:
    return np.append(np.cumsum(masses[::-1])[::-1], 0.0)


def _tails(seen: CoarseLaw, above: float, below: float) -> tuple[float, float]:
    """Losses below and above which P has at most the given masses, on the grid of the look."""
    top = int(np.searchsorted(-seen.above, -above))
    bottom = int(np.searchsorted(seen.below, below, side="right")) - 1
    if top == len(seen.edges):
        raise OverflowError("the tail of a privacy loss is beyond the range of floats")
    return float(seen.edges[max(bottom, 0)]), float(seen.edges[top])
