r"""Composition: what k mechanisms cost together, and what one promises to a group.

| function | k mechanisms, each (epsilon, delta)-private, are together private with |
|---|---|
| `basic` | epsilons and deltas added up |
| `advanced`, `advanced_tanh` | about sqrt(k) times epsilon, for a slack added to delta |
| `optimal` | the smallest epsilon that is true of all of them |

Theorem (basic composition). If $M_1, \dots, M_k$ are $(\varepsilon_i, \delta_i)$-differentially private, then
releasing all their outputs is

.. math::

    \Bigl(\sum_i \varepsilon_i,\ \sum_i \delta_i\Bigr)\text{-differentially private},

also when each mechanism, with fresh randomness, is chosen after seeing the outputs before it.

Theorem (group privacy). If M is $(\varepsilon, \delta)$-differentially private, then for datasets that are s
neighbouring steps apart it is

.. math::

    \Bigl(s\,\varepsilon,\ \delta\,\frac{e^{s\varepsilon} - 1}{e^{\varepsilon} - 1}\Bigr)\text{-private}.

Proof of the second. Walk from D to D' in s steps. For every event,
$P_0 \le e^\varepsilon P_1 + \delta \le e^{2\varepsilon} P_2 + e^\varepsilon \delta + \delta \le \dots$;
the deltas add up to a geometric series.

All four theorems hold for any one neighbouring relation, the same throughout. The first two are upper bounds for most
mechanisms; basic composition of pure guarantees is exact in the worst case (k independent randomized responses).

Theorem (advanced composition, as the lecture prints it). If $M_1, \dots, M_k$ are $(\varepsilon,
\delta)$-differentially private, then for every $\delta' \in (0, 1)$ releasing all their outputs is $(\varepsilon',
k\delta + \delta')$-private with

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

Theorem (optimal composition). Of all k-fold compositions of $(\varepsilon, \delta)$-private mechanisms none is less
private than that of k randomized responses which, each with probability delta, show the data openly. With $X \sim
\mathrm{Binomial}\bigl(k, e^\varepsilon/(1 + e^\varepsilon)\bigr)$ true answers the loss is $(2X - k)\,\varepsilon$, so
the composition is $(\varepsilon_{tot}, \delta_{tot})$-private exactly if

.. math::

    \delta_{tot} \ge 1 - (1 - \delta)^k (1 - \tilde\delta), \qquad
    \tilde\delta = \sum_{x=0}^{k} P(X = x) \bigl[1 - e^{\varepsilon_{tot} - (2x - k)\varepsilon}\bigr]_+ .

A particular mechanism may be more private than this; then its own losses have to be composed.

How it is computed. Between two losses $\tilde\delta$ is a constant minus a multiple of $e^{\varepsilon_{tot}}$. Let
$\ell_x = (2x-k)\,\varepsilon$, $D_x$ the value of $\tilde\delta$ at $\varepsilon_{tot} = \ell_x$, and $C_x$ the slope
times $e^{\ell_x}$ just below it. With $P_x = P(X = x)$,

.. math::

    C_x = P_x + e^{-2\varepsilon} C_{x+1}, \qquad D_{x-1} = D_x + (1 - e^{-2\varepsilon})\, C_x, \qquad
    \tilde\delta = D_x + C_x \bigl(1 - e^{\varepsilon_{tot} - \ell_x}\bigr)
    \ \text{ for } \varepsilon_{tot} \in [\ell_{x-1}, \ell_x] .

All terms are positive, so nothing cancels; in logarithms nothing overflows either. Only the x within $20\sqrt k$ of
the mean are visited: the others have a probability below $2 e^{-800}$ (Hoeffding), less than any positive float.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpml import arguments, numerics
from dpml.accounting.guarantee import ADJACENCIES, Guarantee

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

_MOST = 10**9
_ROUNDING = 2.0**-52


def basic(*, epsilon: float, delta: float, k: int, adjacency: str = "as the mechanism's") -> Guarantee:
    """Return the guarantee of k mechanisms, each (epsilon, delta)-differentially private, used one after another.

    A delta above 1 is reported as 1: every mechanism is (epsilon, 1)-differentially private. The neighbouring relation
    is that of the mechanisms; name it as `adjacency`, and the result carries the name.

    Raises:
        ValueError: if epsilon is not in [0, inf), delta not in [0, 1], k not an integer in [1, 2^53], adjacency not in
            `ADJACENCIES`, or k epsilon exceeds the range of floats.

    Source: Dwork and Roth, "The algorithmic foundations of differential privacy", Theorem 3.16; for mechanisms
    chosen adaptively, Appendix B.
    """
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    delta = arguments.probability("delta", delta)
    k = arguments.integer("k", k, 1, 2**53)
    arguments.choice("adjacency", adjacency, ADJACENCIES)
    total = arguments.finite("k", k, k * epsilon, "k * epsilon")
    return _labelled(total, min(1.0, k * delta), adjacency)


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
    samplings, epsilons = {part.sampling for part in parts}, [part.epsilon for part in parts]
    try:
        total = math.inf if math.inf in epsilons else math.fsum(epsilons)
    except OverflowError:
        found = f"{len(parts)}, up to {max(epsilons)!r}"
        raise ValueError(f"guarantees must have epsilons that add up to a float, got {found}") from None
    return Guarantee(
        total,
        delta=min(1.0, math.fsum(part.delta for part in parts)),
        kind="approximation" if any(part.kind == "approximation" for part in parts) else "upper bound",
        adjacency=adjacencies[0],
        sampling=samplings.pop() if len(samplings) == 1 else "mixed",
    )


def group_privacy(*, epsilon: float, delta: float, size: int) -> Guarantee:
    """Return what an (epsilon, delta)-private mechanism promises to a group of `size` people together.

    Neighbours are then `size` steps of the mechanism's own relation apart, which the label "group" says. A delta above
    1 is reported as 1.

    Raises:
        ValueError: if epsilon is not in [0, inf), delta not in [0, 1], size not an integer in [1, 2^53], or size times
            epsilon exceeds the range of floats.

    Source: Dwork and Roth, "The algorithmic foundations of differential privacy", Theorem 2.2 for delta = 0;
    S. Vadhan, "The complexity of differential privacy" (2017), on group privacy, has delta' = size e^(size epsilon)
    delta, which the geometric series in the proof above sharpens.
    """
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    delta = arguments.probability("delta", delta)
    size = arguments.integer("size", size, 1, 2**53)
    total = arguments.finite("size", size, size * epsilon, "size * epsilon")
    return _labelled(total, grown(delta, epsilon, total, float(size)), "group")


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

    Counterexample: 100 randomized responses: without delta, and with sqrt(k) epsilon = 1.

    >>> from dpml.accounting import composition
    >>> coins = {"epsilon": 0.1, "delta": 0.0, "k": 100}
    >>> round(composition.optimal(**coins, total_delta=0.0).epsilon, 6)
    10.0
    >>> round(composition.optimal_delta(**coins, total_epsilon=1.0), 6)
    0.125688
    """
    return _advanced(lambda e: math.expm1(e) if e < 709.0 else math.inf, epsilon, delta, k, delta_prime, adjacency)


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
    return _advanced(lambda e: math.tanh(e / 2.0), epsilon, delta, k, delta_prime, adjacency)


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


def optimal(
    *, epsilon: float, delta: float, k: int, total_delta: float, adjacency: str = "as the mechanism's"
) -> Guarantee:
    """Return the smallest epsilon that k (epsilon, delta)-private mechanisms together have at `total_delta`.

    Never above `basic`, `advanced` and `advanced_tanh` at their total delta. Rounded to the safe side. Infinite if
    total_delta < 1 - (1 - delta)^k, the probability that some step fails altogether; 0 at total_delta = 1. The
    neighbouring relation is that of the mechanisms; name it as `adjacency`, and the result carries the name.

    Raises:
        ValueError: if epsilon is not in [0, inf), delta or total_delta not in [0, 1], k not an integer in
            [1, 1000000000], adjacency not in `ADJACENCIES`, or 2 k epsilon exceeds the range of floats.

    Source: Kairouz, Oh and Viswanath, "The composition theorem for differential privacy", ICML 2015, Theorem 3.3,
    between its points by the hockey-stick divergence of the same pair of distributions.
    """
    epsilon, delta, k = _optimal_arguments(epsilon, delta, k)
    total_delta = arguments.probability("total_delta", total_delta)
    return _labelled(_least_epsilon(epsilon, k, _without_failures(delta, k, total_delta)), total_delta, adjacency)


@np.errstate(under="ignore")
def optimal_delta(*, epsilon: float, delta: float, k: int, total_epsilon: float) -> float:
    """Return the smallest delta that k (epsilon, delta)-private mechanisms together have at `total_epsilon`.

    `optimal` solved for the other number, but not rounded to the safe side: its relative error is below 1e-9 for
    k <= 1000000.

    Raises:
        ValueError: if epsilon or total_epsilon is not in [0, inf), delta not in [0, 1], k not an integer in
            [1, 1000000000], or 2 k epsilon exceeds the range of floats.

    Source: Kairouz, Oh and Viswanath, "The composition theorem for differential privacy", ICML 2015, Theorem 3.3,
    between its points by the hockey-stick divergence of the same pair of distributions.
    """
    epsilon, delta, k = _optimal_arguments(epsilon, delta, k)
    total_epsilon = arguments.real("total_epsilon", total_epsilon, 0.0)
    losses = _losses(epsilon, k)
    above = losses.loss > total_epsilon
    log_terms = losses.log_p[above] + numerics.log1mexp(total_epsilon - losses.loss[above])
    tail = min(1.0, float(np.exp(log_terms).sum()))
    if tail == 1.0 or delta == 1.0:
        return 1.0
    return -math.expm1(k * math.log1p(-delta) + math.log1p(-tail))


def grown(delta: float, epsilon: float, total: float, least: float) -> float:
    """Return delta (e^total - 1)/(e^epsilon - 1), at most 1; `least` is the ratio where both epsilons go to 0.

    Raises:
        ValueError: never itself.

    Source: the geometric series in the proof of group privacy.
    """
    if delta == 0.0 or total < 1e-300:  # the ratio below would be that of two subnormal numbers
        return min(1.0, least * delta)
    if total < 700.0 and epsilon < 700.0:
        return min(1.0, delta * (math.expm1(total) / math.expm1(epsilon)))
    log_growth = float(numerics.log_expm1(total)) - float(numerics.log_expm1(epsilon))
    return math.exp(min(0.0, math.log(delta) + log_growth))


def _labelled(epsilon: float, delta: float, adjacency: str) -> Guarantee:
    return Guarantee(epsilon, delta=delta, kind="upper bound", adjacency=adjacency)


def _advanced(
    mean: Callable[[float], float], epsilon: float, delta: float, k: int, delta_prime: float, adjacency: str
) -> Guarantee:
    """Spread and mean of the total loss, where the mean of one loss is at most epsilon times `mean` of epsilon."""
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    delta = arguments.probability("delta", delta)
    k = arguments.integer("k", k, 1, 2**53)
    slack = arguments.real("delta_prime", delta_prime, 0.0, 1.0, low_open=True, high_open=True)
    total = epsilon * (math.sqrt(-2.0 * k * math.log(slack)) + k * mean(epsilon)) if epsilon > 0.0 else 0.0
    return _labelled(arguments.finite("epsilon", epsilon, total), min(1.0, k * delta + slack), adjacency)


class _Losses(NamedTuple):
    """The numbers x of true answers near their mean, the losses, and log P(X = x)."""

    x: NDArray[np.float64]
    loss: NDArray[np.float64]
    log_p: NDArray[np.float64]
    error: NDArray[np.float64]  # bound on the rounding error of log P(X = x) and of sums from there on


@np.errstate(under="ignore")
def _least_epsilon(epsilon: float, k: int, target: float) -> float:
    """The total epsilon at which k randomized responses need a delta of `target`."""
    if target < 0.0:
        return math.inf
    if epsilon == 0.0 or target == 1.0:
        return 0.0
    if target == 0.0:
        return k * epsilon
    losses = _losses(epsilon, k)
    shrink = -2.0 * epsilon
    # From the largest x down. The exponents are taken relative to the middle, to keep them small.
    relative = 2.0 * epsilon * (losses.x - losses.x[losses.x.size // 2])
    log_c = np.logaddexp.accumulate((losses.log_p - relative)[::-1])[::-1] + relative
    log_d = float(numerics.log1mexp(shrink)) + np.logaddexp.accumulate(log_c[::-1])[::-1]
    log_d = np.append(log_d[1:], -math.inf)  # D_x sums the C above x
    goal = math.log(target) - losses.error
    i = int(np.argmax(log_d <= goal))  # the smallest x at whose loss the target is met
    # For a target above D of the smallest x there is no segment; the total is then below 0 anyway.
    gap = math.exp(min(700.0, goal[i] - log_c[i])) - math.exp(min(700.0, log_d[i] - log_c[i]))
    total = float(losses.loss[i]) + (math.log1p(-gap) if gap < -math.expm1(shrink) else shrink)
    return min(k * epsilon, max(0.0, total + 4.0 * _ROUNDING * abs(total)))


def _optimal_arguments(epsilon: float, delta: float, k: int) -> tuple[float, float, int]:
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    delta = arguments.probability("delta", delta)
    k = arguments.integer("k", k, 1, _MOST)
    arguments.finite("epsilon", epsilon, 2.0 * k * epsilon, "2 k epsilon")
    return epsilon, delta, k


def _without_failures(delta: float, k: int, total_delta: float) -> float:
    """The delta left over if no step fails altogether, rounded down; negative if the failures alone exceed it."""
    if delta == 0.0 or total_delta == 1.0:
        return total_delta
    if delta == 1.0:
        return -1.0
    spent, whole = k * math.log1p(-delta), math.log1p(-total_delta)
    if whole - spent > 700.0:  # all fail, as good as surely
        return -1.0
    left = -math.expm1(whole - spent)
    error = 4.0 * _ROUNDING * (abs(spent) + abs(whole)) * (1.0 - left)
    return 0.0 if abs(left) <= error else left - error


@np.errstate(under="ignore")
def _losses(epsilon: float, k: int) -> _Losses:
    p = 1.0 / (1.0 + math.exp(-epsilon))
    mode = min(k, math.floor((k + 1) * p))
    reach = math.ceil(20.0 * math.sqrt(k)) + 2
    x = np.arange(max(0, mode - reach), min(k, mode + reach) + 1, dtype=np.float64)
    # From the ratios of neighbouring probabilities, summed outwards from the largest: no factorial of k, whose
    # logarithm near 1e7 would cost nine digits.
    ratio = np.log((k - x[:-1]) / x[1:]) + epsilon
    at = int(mode - x[0])
    log_p = np.concatenate([-np.cumsum(ratio[:at][::-1])[::-1], [0.0], np.cumsum(ratio[at:])])
    log_p -= math.log(np.exp(log_p).sum())
    error = _ROUNDING * (np.abs(x - mode) + 8.0) * (24.0 + 2.0 * np.abs(log_p))
    return _Losses(x, (2.0 * x - k) * epsilon, log_p, error)
