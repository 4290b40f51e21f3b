r"""Advanced composition: why k mechanisms cost about sqrt(k) times one, once a small slack is allowed.

Theorem (as the lecture prints it). If $M_1, \dots, M_k$ are $(\varepsilon, \delta)$-differentially private, then for
every $\delta' \in (0, 1)$ releasing all their outputs is $(\varepsilon', k\delta + \delta')$-private with

.. math::

    \varepsilon' = \varepsilon \sqrt{2k \log(1/\delta')} + k\,\varepsilon\,(e^\varepsilon - 1).

The same holds with the smaller second term

.. math::

    k\,\varepsilon \tanh(\varepsilon/2), \qquad
    \tanh(\varepsilon/2) = \frac{e^\varepsilon - 1}{e^\varepsilon + 1} .

Proof (delta = 0). Let $L_i$ be the privacy loss of step i, given the outputs before it. It lies in
$[-\varepsilon, \varepsilon]$, so basic composition adds up k times the worst case. But its mean is much smaller: with P
and Q the two distributions of the output,

.. math::

    E_P[L_i] = \mathrm{KL}(P \,\|\, Q) \le \varepsilon \tanh(\varepsilon/2),

with equality for randomized response, to which every pair of this epsilon can be reduced. The sum exceeds the sum of
its means by t with probability at most $e^{-t^2/(2 k \varepsilon^2)}$ (Azuma; each step has width
$2\varepsilon$). This is $\delta'$ at $t = \varepsilon \sqrt{2k \log(1/\delta')}$. The printed form bounds the mean by
$\varepsilon\,(e^\varepsilon - 1)$ instead. For delta > 0 every step fails altogether with probability at most delta,
and is epsilon-private otherwise.

Both hold for any one neighbouring relation, also when mechanisms are chosen after seeing the outputs before them.
Neither is the best that can be said: see `optimal`. Students import these functions from
`dpml.accounting.composition`.
"""

from __future__ import annotations

import math

from dpml import arguments
from dpml.accounting.guarantee import Guarantee

__all__ = ["advanced", "advanced_first_k", "advanced_tanh"]


def advanced(
    *, epsilon: float, delta: float, k: int, delta_prime: float, adjacency: str = "as the mechanism's"
) -> Guarantee:
    """Return the guarantee of k (epsilon, delta)-private mechanisms by advanced composition as printed.

    It may be worse than `basic`: always if epsilon >= ln 2, and for small k otherwise (`advanced_first_k`). A delta
    above 1 is reported as 1. The neighbouring relation is that of the mechanisms; name it as `adjacency`, and the
    result carries the name.

    Raises:
        ValueError: if epsilon is not in [0, inf), delta not in [0, 1], k not an integer in [1, 2^53], delta_prime not
            in (0, 1), adjacency not in `ADJACENCIES`, or the result exceeds the range of floats.

    Source: the lecture, slide "Moments Accountant", theorem "Advanced Composition"; Dwork and Roth, "The algorithmic
    foundations of differential privacy", Theorem 3.20.

    Printed: the statement for all delta' >= 0, and the remark that for small epsilon the composition is
    (O(sqrt(k) epsilon), O(k delta))-private. With delta = 0 the remark promises pure privacy, and the slides on PATE
    use it so; but 100 randomized responses of epsilon = 0.1 have a pure epsilon of exactly 10, and at
    sqrt(k) epsilon = 1 they need a delta of 0.125688.

    Implemented: the printed formula, which is right for delta' in (0, 1) and infinite at delta' = 0. The slack stays
    in the result as delta = k delta + delta'. For epsilon >= ln 2 = 0.693 the formula is never below k epsilon; the
    form of `advanced_tanh` repairs this, and is smaller for every epsilon.
    """
    epsilon, delta, k, slack = _checked(epsilon, delta, k, delta_prime)
    mean = math.expm1(epsilon) if epsilon < 709.0 else math.inf
    return _composed(epsilon, delta, k, slack, mean, adjacency)


def advanced_tanh(
    *, epsilon: float, delta: float, k: int, delta_prime: float, adjacency: str = "as the mechanism's"
) -> Guarantee:
    """Return the guarantee of k (epsilon, delta)-private mechanisms with the exact worst-case mean of the loss.

    Below `advanced` at the same delta for every epsilon > 0. Where the slack costs more than it gains it still
    exceeds `basic`: at epsilon = 1, k = 20, delta_prime = 1e-6 it is 32.75, and basic composition gives 20.

    Raises:
        ValueError: as `advanced`.

    Source: Kairouz, Oh and Viswanath, "The composition theorem for differential privacy", ICML 2015, Theorem 3.4,
    last of its three bounds, with k delta + delta' for their smaller 1 - (1 - delta)^k (1 - delta').
    """
    epsilon, delta, k, slack = _checked(epsilon, delta, k, delta_prime)
    return _composed(epsilon, delta, k, slack, math.tanh(epsilon / 2.0), adjacency)


def advanced_first_k(*, epsilon: float, delta_prime: float) -> int | None:
    """Return the smallest k at which `advanced` is below k epsilon, or None if there is none.

    It is the first integer above 2 log(1/delta_prime) / (2 - e^epsilon)^2. None for epsilon >= ln 2, and for
    epsilon = 0, where both are 0.

    Raises:
        ValueError: if epsilon is not in [0, inf) or delta_prime not in (0, 1).

    Source: the lecture, slide "Moments Accountant", theorem "Advanced Composition", solved for k.
    """
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    slack = arguments.real("delta_prime", delta_prime, 0.0, 1.0, low_open=True, high_open=True)
    gain = 1.0 - math.expm1(min(epsilon, 1.0))
    if epsilon == 0.0 or gain <= 0.0:
        return None
    return math.floor(-2.0 * math.log(slack) / gain**2) + 1


def _checked(epsilon: float, delta: float, k: int, delta_prime: float) -> tuple[float, float, int, float]:
    return (
        arguments.real("epsilon", epsilon, 0.0),
        arguments.probability("delta", delta),
        arguments.integer("k", k, 1, 2**53),
        arguments.real("delta_prime", delta_prime, 0.0, 1.0, low_open=True, high_open=True),
    )


def _composed(epsilon: float, delta: float, k: int, slack: float, mean: float, adjacency: str) -> Guarantee:
    """Spread and mean of the total loss, where the mean of one loss is at most epsilon times `mean`."""
    total = epsilon * (math.sqrt(-2.0 * k * math.log(slack)) + k * mean) if epsilon > 0.0 else 0.0
    if math.isinf(total):
        raise ValueError(f"epsilon must be small enough for the result to be a float, got {epsilon!r} at k = {k}")
    return Guarantee(total, delta=min(1.0, k * delta + slack), kind="upper bound", adjacency=adjacency)
