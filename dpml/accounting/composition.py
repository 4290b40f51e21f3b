r"""Basic composition and group privacy.

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
from dpml.accounting.guarantee import Guarantee

__all__ = ["basic", "basic_heterogeneous", "group_privacy"]


def basic(*, epsilon: float, delta: float, k: int) -> Guarantee:
    """Return the guarantee of k mechanisms, each (epsilon, delta)-differentially private, used one after another.

    A delta above 1 is reported as 1: every mechanism is (epsilon, 1)-differentially private.
    The neighbouring relation is that of the mechanisms.

    Raises:
        ValueError: if epsilon is not in [0, inf), delta not in [0, 1], k not an integer >= 1, or k epsilon exceeds
            the range of floats.

    Source: Dwork and Roth, "The algorithmic foundations of differential privacy", Theorem 3.16; for mechanisms
    chosen adaptively, Appendix B.
    """
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    delta = arguments.probability("delta", delta)
    k = arguments.integer("k", k, 1)
    return _labelled(_product("k", k, epsilon), min(1.0, k * delta) if delta > 0.0 else 0.0)


def basic_heterogeneous(guarantees: Iterable[Guarantee]) -> Guarantee:
    """Return the guarantee of several different mechanisms used one after another: their epsilons and deltas add.

    The result is an approximation if one of them is. Its sampling is theirs, or "mixed" where they differ.

    Raises:
        ValueError: if guarantees is empty, holds anything but `Guarantee`, or mixes neighbouring relations: what
            holds for one added record and what holds for one replaced record do not add up.

    Source: Dwork and Roth, "The algorithmic foundations of differential privacy", Theorem 3.16; for mechanisms
    chosen adaptively, Appendix B.
    """
    parts = list(guarantees) if isinstance(guarantees, Iterable) else []
    if not parts or not all(isinstance(part, Guarantee) for part in parts):
        raise ValueError(f"guarantees must be one or more Guarantee objects, got {reprlib.repr(guarantees)}")
    adjacencies = sorted({part.adjacency for part in parts})
    if len(adjacencies) > 1:
        raise ValueError(f"guarantees must share one adjacency, got {' and '.join(adjacencies)}")
    samplings = {part.sampling for part in parts}
    approximate = any(part.kind == "approximation" for part in parts)
    return Guarantee(
        math.fsum(part.epsilon for part in parts),
        delta=min(1.0, math.fsum(part.delta for part in parts)),
        kind="approximation" if approximate else "upper bound",
        adjacency=adjacencies[0],
        sampling=samplings.pop() if len(samplings) == 1 else "mixed",
    )


def group_privacy(*, epsilon: float, delta: float, size: int) -> Guarantee:
    """Return what an (epsilon, delta)-private mechanism promises to a group of `size` people together.

    Neighbours are then `size` steps of the mechanism's own relation apart. A delta above 1 is reported as 1.

    Raises:
        ValueError: if epsilon is not in [0, inf), delta not in [0, 1], size not an integer >= 1, or size times
            epsilon exceeds the range of floats.

    Source: Dwork and Roth, "The algorithmic foundations of differential privacy", Theorem 2.2 for delta = 0;
    S. Vadhan, "The complexity of differential privacy" (2017), Lemma 2.2, has delta' = size e^(size epsilon) delta,
    which the geometric series in the proof above sharpens.
    """
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    delta = arguments.probability("delta", delta)
    size = arguments.integer("size", size, 1)
    total = _product("size", size, epsilon)
    if delta == 0.0:
        return _labelled(total, 0.0)
    if total < 1e-300:  # the ratio below would be that of two subnormal numbers
        return _labelled(total, min(1.0, size * delta))
    if total < 700.0:
        return _labelled(total, min(1.0, delta * (math.expm1(total) / math.expm1(epsilon))))
    log_delta = math.log(delta) + float(numerics.log_expm1(total)) - float(numerics.log_expm1(epsilon))
    return _labelled(total, math.exp(min(0.0, log_delta)))


def _product(name: str, count: int, epsilon: float) -> float:
    try:
        total = count * epsilon
    except OverflowError:  # an int beyond the range of floats
        total = math.inf
    if math.isinf(total):
        bits = count.bit_length()
        raise ValueError(
            f"{name} must keep {name} * epsilon within the range of floats, got epsilon = {epsilon!r} and "
            f"an integer of {bits} bits"
        )
    return total


def _labelled(epsilon: float, delta: float) -> Guarantee:
    return Guarantee(epsilon, delta=delta, kind="upper bound", adjacency="as the mechanism's")
