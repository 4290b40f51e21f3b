r"""Composition of any mechanisms whose privacy losses are known, from both sides.

.. math::

    \varepsilon(\delta) = \inf\Bigl\{\varepsilon \ge 0 :
    E\bigl[(1 - e^{\varepsilon - S})_+\bigr] \le \delta \text{ in both directions}\Bigr\}, \qquad
    S = \sum_i \sum_{t=1}^{T_i} L_{i,t} .

Theorem (Dong, Roth and Su 2022; Zhu, Dong and Wang 2022). If each mechanism, given all earlier outputs, is dominated by
its pair of laws, their adaptive composition is dominated by the product of the pairs.

The law of S comes from lattice losses by FFT; `dpml.accounting.pld` tells what is counted into the two ends. Every
mechanism keeps the neighbouring relation of its own loss, and all of them must share it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpml import arguments
from dpml.accounting.guarantee import Bounds
from dpml.accounting.pld import _bracket
from dpml.accounting.pld._pair import Pair
from dpml.accounting.pld.losses import Loss

__all__ = ["compose"]

_ANY = "as the mechanism's"


def compose(parts: Sequence[tuple[Loss, int]], *, delta: float) -> Bounds:
    """Return the epsilon of a composition at delta, from both sides; `parts` are pairs (loss, number of times).

    The two ends are usually at most 1e-4 max(1, epsilon / 100) apart. Where parts of very different size share one
    lattice, or delta is tiny, they may be wider; the upper end holds all the same, and it is the one to quote.
    Mechanisms with several jumps of the loss that fit on no common lattice (randomized responses of different
    epsilon, say) may leave more. Both ends are 0.0 where that is the answer. At delta = 0 the upper end is the sum of
    the largest losses, or infinity where one has no largest.

    Raises:
        ValueError: if parts is not a non-empty sequence of (Loss, integer >= 0), the losses mix add/remove with
            replace-one, delta is neither 0 nor in [1e-250, 1], or a tail is beyond the range of floats.

    Source: Zhu, Dong and Wang, "Optimal accounting of differential privacy via characteristic function", AISTATS
    2022, Theorem 10 (composition), and Doroshenko et al., "Connect the dots: tighter discrete approximations of
    privacy loss distributions", PoPETs 2022 (the worse pair); own construction of the better pair and of the tilt.
    """
    checked = _checked(parts)
    delta = smallest_delta(delta)
    adjacency, sampling = _labels([loss for loss, _ in checked])
    counted = [(loss, count) for loss, count in checked if count > 0]
    lower, upper = 0.0, 0.0
    if counted and delta == 0.0:
        lower = upper = max(sum(count * _largest(loss, direction) for loss, count in counted) for direction in (0, -1))
        lower = 0.0 if math.isinf(upper) else lower * (1.0 - 1e-12)
    elif counted and delta < 1.0:
        for direction in sorted({0, len(max(counted, key=lambda part: len(part[0].pairs))[0].pairs) - 1}):
            pairs = [(loss.pairs[min(direction, len(loss.pairs) - 1)], count) for loss, count in counted]
            ends = _at_the_top(pairs, delta) or _bracket.epsilon_interval(pairs, delta, 1e-4)
            top = sum(count * _largest(loss, min(direction, len(loss.pairs) - 1)) for loss, count in counted)
            upper = max(upper, min(ends[1], top * (1.0 + 1e-12)))
            lower = max(lower, min(ends[0], upper))
    return Bounds(lower, upper=upper, delta=delta, adjacency=adjacency, sampling=sampling)


def smallest_delta(delta: float) -> float:
    """Return delta if it is 0 or at least the smallest one that the method supports.

    Raises:
        ValueError: if delta is neither 0 nor in [1e-250, 1].

    Source: the range of floating point; below, the tails of the losses cannot be represented.
    """
    delta = arguments.probability("delta", delta)
    if 0.0 < delta < _bracket.SMALLEST_DELTA:
        smallest = f"[{_bracket.SMALLEST_DELTA:g}, 1]"
        raise ValueError(f"delta must be 0 or in {smallest}, got {delta!r}: smaller ones are not supported")
    return delta


def _largest(loss: Loss, direction: int) -> float:
    pair = loss.pairs[direction]
    return math.inf if pair.beyond > 0.0 else pair.high


def _at_the_top(pairs: list[tuple[Pair, int]], delta: float) -> tuple[float, float] | None:
    """Return the two ends where delta is so small that epsilon is the largest sum of losses, or nearly so.

    With P the chance that every loss is within a small distance of its largest value, so that the sum is at least t,
    delta(epsilon) >= P (1 - e^{epsilon - t}). A search for epsilon would have to resolve the law far below delta.
    """
    total = sum(count for _, count in pairs)
    near = 2e-5 / total
    if any(pair.beyond > 0.0 or math.isinf(pair.high) for pair, _ in pairs):
        return None
    log_chance, top = 0.0, 0.0
    for pair, count in pairs:
        above = float(pair.cells(np.array([pair.high - near]))[0][-1])
        if above <= 0.0:
            return None
        log_chance += count * (math.log(above) - 1e-9)
        top += count * pair.high
    log_ratio = math.log(delta) - log_chance
    if log_ratio >= math.log(5e-5):
        return None
    return max(0.0, top - 2e-5 + math.log1p(-math.exp(log_ratio)) - 1e-9), top * (1.0 + 1e-12)


def _checked(parts: Sequence[tuple[Loss, int]]) -> list[tuple[Loss, int]]:
    if not isinstance(parts, list | tuple) or not parts:
        raise ValueError(f"parts must be a non-empty list of (loss, count), got {repr(parts)[:60]}")
    checked = []
    for part in parts:
        if not (isinstance(part, tuple) and len(part) == 2 and isinstance(part[0], Loss)):
            raise ValueError(f"parts must hold pairs (loss, count), got {repr(part)[:60]}")
        checked.append((part[0], arguments.integer("parts must hold counts: a count", part[1], 0, 10**9)))
    return checked


def _labels(losses: list[Loss]) -> tuple[str, str]:
    relations = {loss.adjacency for loss in losses} - {_ANY}
    if len(relations) > 1:
        raise ValueError("parts must share one adjacency, got add/remove beside replace-one")
    schemes = {loss.sampling for loss in losses}
    return (relations.pop() if relations else _ANY), (schemes.pop() if len(schemes) == 1 else "mixed")
