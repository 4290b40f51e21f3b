r"""Privacy losses of the mechanisms, in both directions, and their composition, from both sides.

For laws P (on D) and Q (on a neighbour D'), the privacy loss is $L = \log(dP/dQ)$ under P, and

.. math::

    \delta(\varepsilon) = \int (dP - e^{\varepsilon} dQ)_+ = E\bigl[(1 - e^{\varepsilon - L})_+\bigr], \qquad
    L_{\text{composed}} = L_1 + \dots + L_k \ \text{ with independent terms.}

So a mechanism is, for accounting, the law of its loss, in each of two directions: P against Q and Q against P. A `Loss`
holds both and never mixes them, since it is the same record that is there, or not, in all k steps.

Poisson sampling with probability q turns P into (1 - q) Q + q P, hence

.. math::

    L_q = \log\bigl(1 + q\,(e^{L} - 1)\bigr) .

The laws here are those of the worst neighbours: what is computed from them holds for all neighbours. For a Gaussian or
Laplace answer of sensitivity 1 these are answers at distance 1; for mechanisms of which only (epsilon, delta) is known,
the pair of Kairouz, Oh and Viswanath.

Composed, at a given delta:

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
from dataclasses import dataclass

import numpy as np

from dpml import arguments
from dpml.accounting.guarantee import ADJACENCIES, SAMPLINGS, Bounds
from dpml.accounting.pld import pairs
from dpml.accounting.pld.lattice import bracket
from dpml.accounting.pld.limits import INTERVAL, smallest_delta
from dpml.accounting.pld.pairs import Pair

__all__ = [
    "Loss",
    "approximate",
    "compose",
    "gaussian",
    "laplace",
    "poisson",
    "randomized_response",
    "without_replacement",
]

_ANY = "as the mechanism's"


@dataclass(frozen=True)
class Loss:
    """The privacy loss of one mechanism: `pairs` of laws, one for each direction, and the labels of the result.

    Made by the functions of this module, spent by `compose`. One pair is enough where both
    directions are alike. Losses made alike are equal.

    Raises:
        ValueError: if pairs is not a tuple of one or two pairs of laws, or a label is unknown.

    Source: Sommer, Meiser and Mohammadi, "Privacy loss classes: the central limit theorem in differential privacy",
    PoPETs 2019; Zhu, Dong and Wang, "Optimal accounting of differential privacy via characteristic function",
    AISTATS 2022, for worst pairs and the two directions.
    """

    pairs: tuple[Pair, ...]
    adjacency: str = "as the mechanism's"
    sampling: str = "none"

    def __post_init__(self) -> None:
        good = isinstance(self.pairs, tuple) and len(self.pairs) in (1, 2)
        if not good or not all(isinstance(pair, Pair) for pair in self.pairs):
            raise ValueError(f"pairs must be a tuple of one or two pairs of laws, got a {type(self.pairs).__name__}")
        arguments.choice("adjacency", self.adjacency, ADJACENCIES)
        arguments.choice("sampling", self.sampling, SAMPLINGS)


def gaussian(*, sigma: float) -> Loss:
    r"""Return the loss of Gaussian noise of standard deviation `sigma` on an answer of L2 sensitivity 1.

    It is normal with mean $1/(2\sigma^2)$ and variance $1/\sigma^2$, in both directions.

    Raises:
        ValueError: if sigma is not in [0.04, 1e6].

    Source: Balle and Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018.
    """
    return Loss((pairs.gaussian(1.0 / arguments.real("sigma", sigma, 0.04, 1e6)),))


def laplace(*, scale: float) -> Loss:
    """Return the loss of Laplace noise of scale `scale` on an answer of sensitivity 1.

    Raises:
        ValueError: if scale is not in [0.01, 1e6].

    Source: Sommer, Meiser and Mohammadi, "Privacy loss classes: the central limit theorem in differential privacy",
    PoPETs 2019, for the loss of Laplace noise.
    """
    return Loss((pairs.laplace(1.0 / arguments.real("scale", scale, 0.01, 1e6)),))


def randomized_response(*, epsilon: float) -> Loss:
    """Return the loss of randomized response of one bit, which is epsilon or -epsilon.

    It is also the worst case of all epsilon-private mechanisms.

    Raises:
        ValueError: if epsilon is not in [1e-6, 100].

    Source: Kairouz, Oh and Viswanath, "The composition theorem for differential privacy", ICML 2015.
    """
    return Loss((pairs.two_answers(arguments.real("epsilon", epsilon, 1e-6, 100.0), 0.0),))


def approximate(*, epsilon: float, delta: float) -> Loss:
    """Return the worst loss of all (epsilon, delta)-private mechanisms: infinite with probability delta.

    Composing it with `compose` is optimal composition, also of mechanisms that differ.

    Raises:
        ValueError: if epsilon is not in [1e-6, 100] or delta not in [0, 1).

    Source: Kairouz, Oh and Viswanath, "The composition theorem for differential privacy", ICML 2015, Theorem 3.3
    and its proof.
    """
    epsilon = arguments.real("epsilon", epsilon, 1e-6, 100.0)
    delta = arguments.real("delta", delta, 0.0, 1.0, high_open=True)
    return Loss((pairs.two_answers(epsilon, delta),))


def poisson(loss: Loss, *, q: float) -> Loss:
    """Return the loss of a mechanism that runs on a Poisson sample: each record is drawn with probability q.

    For add/remove neighbours only. The first direction removes a record, the second adds it.

    Raises:
        ValueError: if loss is not an unsampled `Loss` for add/remove or any neighbours, or q not in [1e-9, 1).

    Source: Zhu, Dong and Wang, "Optimal accounting of differential privacy via characteristic function", AISTATS
    2022, Theorem 11; Balle, Barthe and Gaboardi, "Privacy amplification by subsampling", NeurIPS 2018, Theorem 8.
    """
    pair = _unsampled(loss, "replace-one")
    sampled = pairs.poisson(pair, arguments.real("q", q, 1e-9, 1.0, high_open=True))
    return Loss((sampled, pairs.exchanged(sampled)), "add/remove", "Poisson")


def without_replacement(loss: Loss, *, q: float) -> Loss:
    r"""Return a loss that dominates a mechanism run on a sample of fixed size, a fraction q, replace-one neighbours.

    `loss` is that of the mechanism for neighbours in which one record is *replaced*: Gaussian noise of multiplier
    sigma on a sum of clipped vectors changes by twice the clipping norm there, so pass ``gaussian(sigma=sigma / 2)``.
    Its profile $q\,\delta(\varepsilon)$ at $\log(1 + q(e^\varepsilon - 1))$ is a bound that holds for every such
    mechanism; a particular one may lose less.

    Raises:
        ValueError: if loss is not an unsampled `Loss` for replace-one or any neighbours, or q not in [1e-9, 1).

    Source: Balle, Barthe and Gaboardi, "Privacy amplification by subsampling", NeurIPS 2018, Theorem 9 (the
    profile); Zhu, Dong and Wang, "Optimal accounting of differential privacy via characteristic function", AISTATS
    2022, Proposition 30 (a profile has a pair of laws, which composes).
    """
    pair = _unsampled(loss, "add/remove")
    q = arguments.real("q", q, 1e-9, 1.0, high_open=True)
    return Loss((pairs.without_replacement(pair, q),), "replace-one", "without replacement")


@np.errstate(under="ignore")
def compose(parts: Sequence[tuple[Loss, int]], *, delta: float) -> Bounds:
    """Return the epsilon of a composition at delta, from both sides; `parts` are pairs (loss, number of times).

    The two ends are usually at most 1e-4 max(1, epsilon / 100) apart. Where parts of very different size share one
    lattice, or delta is tiny, they may be wider; the upper end holds all the same, and it is the one to quote.
    Mechanisms with several jumps of the loss that fit on no common lattice (randomized responses of different epsilon,
    say) may leave more, and n parts at least 8e-12 n, for rounding: a billion parts .008. The lower end of a million
    parts or more that each lose about 1 may be 0.0, which refutes nothing. Both ends are 0.0 where that is the answer.
    At delta = 0 the upper end is the sum of the largest losses, or infinity where one has no largest.

    Raises:
        ValueError: if parts is not a non-empty sequence of (Loss, integer >= 0), the losses mix add/remove with
            replace-one, delta is neither 0 nor in [1e-250, 1], or a tail is beyond the range of floats.

    Source: Zhu, Dong and Wang, "Optimal accounting of differential privacy via characteristic function", AISTATS
    2022, Theorem 10 (composition), and Doroshenko et al., "Connect the dots: tighter discrete approximations of
    privacy loss distributions", PoPETs 2022 (the worse pair); own construction of the better pair and of the tilt.
    """
    checked = _checked(parts)
    delta = smallest_delta(delta)
    adjacency, sampling = _labels(list(checked))
    counted = sorted(((loss, count) for loss, count in checked.items() if count > 0), key=repr)
    lower, upper = 0.0, 0.0
    if counted and delta == 0.0:
        lower = upper = max(_largest([(loss.pairs[side], count) for loss, count in counted]) for side in (0, -1))
        lower = 0.0 if math.isinf(upper) else lower * (1.0 - 1e-12)
    elif counted and delta < 1.0:
        for side in (0, -1) if any(len(loss.pairs) > 1 for loss, _ in counted) else (0,):
            directed = [(loss.pairs[side], count) for loss, count in counted]
            try:
                ends = _at_the_top(directed, delta) or bracket.epsilon_interval(directed, delta, INTERVAL)
            except OverflowError as error:
                raise ValueError(f"parts must lose less, or delta be larger, got delta = {delta!r}: {error}") from None
            upper = max(upper, min(ends[1], _largest(directed) * (1.0 + 1e-12)))
            lower = max(lower, min(ends[0], upper))
    return Bounds(lower, upper=upper, delta=delta, adjacency=adjacency, sampling=sampling)


def _unsampled(loss: Loss, excluded: str) -> Pair:
    good = isinstance(loss, Loss) and len(loss.pairs) == 1 and loss.sampling == "none"
    if not good or loss.adjacency == excluded:
        shown = f"one with {loss.sampling} sampling" if isinstance(loss, Loss) else repr(loss)[:60]
        raise ValueError(f"loss must be a Loss without sampling, as gaussian() returns it, got {shown}")
    return loss.pairs[0]


def _largest(parts: bracket.Parts) -> float:
    """The largest sum of the losses."""
    return sum(count * (math.inf if pair.beyond > 0.0 else pair.high) for pair, count in parts)


def _at_the_top(parts: bracket.Parts, delta: float) -> tuple[float, float] | None:
    """Return the two ends where delta is so small that epsilon is the largest sum of losses, or nearly so.

    With P the chance that every loss is within a small distance of its largest value, so that the sum is at least t,
    delta(epsilon) >= P (1 - e^{epsilon - t}). A search for epsilon would have to resolve the law far below delta.
    """
    near, top, log_chance = 2e-5 / sum(count for _, count in parts), _largest(parts), 0.0
    if math.isinf(top):
        return None
    for pair, count in parts:
        above = float(pair.cells(np.array([pair.high - near]))[0][-1])
        if above <= 0.0:
            return None
        log_chance += count * (math.log(above) - 1e-9)
    log_ratio = math.log(delta) - log_chance
    if log_ratio >= math.log(5e-5):
        return None
    return max(0.0, top - 2e-5 + math.log1p(-math.exp(log_ratio)) - 1e-9), top * (1.0 + 1e-12)


def _checked(parts: Sequence[tuple[Loss, int]]) -> dict[Loss, int]:
    """How often each loss occurs."""
    if not isinstance(parts, list | tuple) or not parts:
        raise ValueError(f"parts must be a non-empty list of (loss, count), got {repr(parts)[:60]}")
    checked: dict[Loss, int] = {}
    for part in parts:
        if not (isinstance(part, tuple) and len(part) == 2 and isinstance(part[0], Loss)):
            raise ValueError(f"parts must hold pairs (loss, count), got {repr(part)[:60]}")
        count = arguments.integer("parts must hold counts: a count", part[1], 0, 10**9)
        checked[part[0]] = checked.get(part[0], 0) + count
    return checked


def _labels(losses: list[Loss]) -> tuple[str, str]:
    relations = {loss.adjacency for loss in losses} - {_ANY}
    if len(relations) > 1:
        raise ValueError("parts must share one adjacency, got add/remove beside replace-one")
    schemes = {loss.sampling for loss in losses}
    return (relations.pop() if relations else _ANY), (schemes.pop() if len(schemes) == 1 else "mixed")
