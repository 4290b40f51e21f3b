r"""Composition: what k mechanisms cost together, and what one promises to a group.

| function | k mechanisms, each (epsilon, delta)-private, are together private with |
|---|---|
| `basic` | epsilons and deltas added up |
| `advanced`, `advanced_tanh` | about sqrt(k) times epsilon, for a slack added to delta |
| `optimal` | the smallest epsilon that is true of all of them |

The first is stated and proved here, the others in the modules `dpml.accounting.advanced_composition` and
`dpml.accounting.optimal_composition`.

Theorem (basic composition). If $M_1, \dots, M_k$ are $(\varepsilon_i, \delta_i)$-differentially private, then
releasing all their outputs is

.. math::

    \Bigl(\sum_i \varepsilon_i,\ \sum_i \delta_i\Bigr)\text{-differentially private},

also when each mechanism is chosen after seeing the outputs before it.

Theorem (group privacy). If M is $(\varepsilon, \delta)$-differentially private, then for datasets that are s
neighbouring steps apart it is

.. math::

    \Bigl(s\,\varepsilon,\ \delta\,\frac{e^{s\varepsilon} - 1}{e^{\varepsilon} - 1}\Bigr)\text{-private}.

Proof of the second. Walk from D to D' in s steps. For every event,
$P_0 \le e^\varepsilon P_1 + \delta \le e^{2\varepsilon} P_2 + e^\varepsilon \delta + \delta \le \dots$;
the deltas add up to a geometric series.

Both hold for any one neighbouring relation, the same throughout. Both are upper bounds for most mechanisms; basic
composition of pure guarantees is exact in the worst case (k independent randomized responses).
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable

from dpml import arguments, numerics
from dpml.accounting.advanced_composition import advanced, advanced_first_k, advanced_tanh
from dpml.accounting.guarantee import ADJACENCIES, Guarantee
from dpml.accounting.optimal_composition import optimal, optimal_delta

__all__ = [
    "advanced",
    "advanced_first_k",
    "advanced_tanh",
    "basic",
    "basic_heterogeneous",
    "group_privacy",
    "optimal",
    "optimal_delta",
]


def basic(*, epsilon: float, delta: float, k: int, adjacency: str = "as the mechanism's") -> Guarantee:
    """Return the guarantee of k mechanisms, each (epsilon, delta)-differentially private, used one after another.

    A delta above 1 is reported as 1: every mechanism is (epsilon, 1)-differentially private. The neighbouring relation
    is that of the mechanisms; name it as `adjacency`, and the result carries the name.

    Raises:
        ValueError: if epsilon is not in [0, inf), delta not in [0, 1], k not an integer >= 1, adjacency not in
            `ADJACENCIES`, or k epsilon exceeds the range of floats.

    Source: Dwork and Roth, "The algorithmic foundations of differential privacy", Theorem 3.16; for mechanisms
    chosen adaptively, Appendix B.
    """
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    delta = arguments.probability("delta", delta)
    k = arguments.integer("k", k, 1)
    arguments.choice("adjacency", adjacency, ADJACENCIES)
    return _labelled(_product("k", k, epsilon), min(1.0, _times(k, delta)), adjacency)


def basic_heterogeneous(guarantees: Iterable[Guarantee]) -> Guarantee:
    """Return the guarantee of several different mechanisms used one after another: their epsilons and deltas add.

    The result is an approximation if one of them is. Its sampling is theirs, or "mixed" where they differ. What holds
    for one added record and what holds for one replaced record do not add up, so all must name the same neighbouring
    relation. For a group, compose first and call `group_privacy` with the sum.

    Raises:
        ValueError: if guarantees is empty, holds anything but `Guarantee`, mixes neighbouring relations, leaves them
            open ("as the mechanism's") in two or more, or holds one for a group; or if the sum of the epsilons
            exceeds the range of floats.

    Source: Dwork and Roth, "The algorithmic foundations of differential privacy", Theorem 3.16; for mechanisms
    chosen adaptively, Appendix B.
    """
    try:
        parts = list(guarantees)
    except TypeError:  # not iterable, or only so by name, as an array without dimensions
        parts = []
    if not parts or not all(isinstance(part, Guarantee) for part in parts):
        raise ValueError(f"guarantees must be one or more Guarantee objects, got {reprlib.repr(guarantees)}")
    adjacencies = sorted({part.adjacency for part in parts})
    if len(adjacencies) > 1:
        raise ValueError(f"guarantees must share one adjacency, got {' and '.join(adjacencies)}")
    if adjacencies == ["as the mechanism's"] and len(parts) > 1:
        raise ValueError(
            'guarantees must name their neighbours, got "as the mechanism\'s", which may be another relation in each: '
            'pass adjacency="add/remove" or adjacency="replace-one" to basic, or to Guarantee itself'
        )
    if adjacencies == ["group"]:
        raise ValueError(
            'guarantees must be those of single steps, got "group", where the sizes of the groups may differ: compose '
            "first, and call group_privacy with the sum"
        )
    samplings = {part.sampling for part in parts}
    approximate = any(part.kind == "approximation" for part in parts)
    try:
        total = math.fsum(part.epsilon for part in parts)
    except OverflowError:
        total = math.inf
    if math.isinf(total) and all(math.isfinite(part.epsilon) for part in parts):
        largest = max(part.epsilon for part in parts)
        raise ValueError(f"guarantees must have epsilons that add up to a float, got {len(parts)}, up to {largest!r}")
    return Guarantee(
        total,
        delta=min(1.0, math.fsum(part.delta for part in parts)),
        kind="approximation" if approximate else "upper bound",
        adjacency=adjacencies[0],
        sampling=samplings.pop() if len(samplings) == 1 else "mixed",
    )


def group_privacy(*, epsilon: float, delta: float, size: int) -> Guarantee:
    """Return what an (epsilon, delta)-private mechanism promises to a group of `size` people together.

    Neighbours are then `size` steps of the mechanism's own relation apart, which the label "group" says. A delta above
    1 is reported as 1.

    Raises:
        ValueError: if epsilon is not in [0, inf), delta not in [0, 1], size not an integer >= 1, or size times
            epsilon exceeds the range of floats.

    Source: Dwork and Roth, "The algorithmic foundations of differential privacy", Theorem 2.2 for delta = 0;
    S. Vadhan, "The complexity of differential privacy" (2017), on group privacy, has delta' = size e^(size epsilon)
    delta, which the geometric series in the proof above sharpens.
    """
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    delta = arguments.probability("delta", delta)
    size = arguments.integer("size", size, 1)
    total = _product("size", size, epsilon)
    if delta == 0.0:
        return _labelled(total, 0.0, "group")
    if total < 1e-300:  # the ratio below would be that of two subnormal numbers
        return _labelled(total, min(1.0, _times(size, delta)), "group")
    if total < 700.0:
        return _labelled(total, min(1.0, delta * (math.expm1(total) / math.expm1(epsilon))), "group")
    log_delta = math.log(delta) + float(numerics.log_expm1(total)) - float(numerics.log_expm1(epsilon))
    return _labelled(total, math.exp(min(0.0, log_delta)), "group")


def _times(count: int, value: float) -> float:
    try:
        return count * value
    except OverflowError:  # an int beyond the range of floats, though the product may be within it
        pass
    from fractions import Fraction  # slow to import, and hardly ever needed

    try:
        return float(count * Fraction(value))
    except OverflowError:
        return math.inf


def _product(name: str, count: int, epsilon: float) -> float:
    total = _times(count, epsilon)
    if math.isinf(total):
        bits = count.bit_length()
        raise ValueError(
            f"{name} must keep {name} * epsilon within the range of floats, got epsilon = {epsilon!r} and "
            f"an integer of {bits} bits"
        )
    return total


def _labelled(epsilon: float, delta: float, adjacency: str) -> Guarantee:
    return Guarantee(epsilon, delta=delta, kind="upper bound", adjacency=adjacency)
