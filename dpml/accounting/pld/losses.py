r"""Privacy losses of the mechanisms, in both directions, ready to be composed.

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
"""

from __future__ import annotations

from dataclasses import dataclass

from dpml import arguments
from dpml.accounting.guarantee import ADJACENCIES, SAMPLINGS
from dpml.accounting.pld import _pair
from dpml.accounting.pld._pair import Pair

__all__ = [
    "Loss",
    "approximate",
    "gaussian",
    "laplace",
    "poisson",
    "randomized_response",
    "replaced_record",
    "without_replacement",
]


@dataclass(frozen=True)
class Loss:
    """The privacy loss of one mechanism: `pairs` of laws, one for each direction, and the labels of the result.

    Made by the functions of this module, spent by `dpml.accounting.pld.compose`. One pair is enough where both
    directions are alike.

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
    return Loss((_pair.gaussian(1.0 / arguments.real("sigma", sigma, 0.04, 1e6)),))


def laplace(*, scale: float) -> Loss:
    """Return the loss of Laplace noise of scale `scale` on an answer of sensitivity 1.

    Raises:
        ValueError: if scale is not in [0.01, 1e6].

    Source: Sommer, Meiser and Mohammadi, "Privacy loss classes: the central limit theorem in differential privacy",
    PoPETs 2019, for the loss of Laplace noise.
    """
    return Loss((_pair.laplace(1.0 / arguments.real("scale", scale, 0.01, 1e6)),))


def randomized_response(*, epsilon: float) -> Loss:
    """Return the loss of randomized response of one bit, which is epsilon or -epsilon.

    It is also the worst case of all epsilon-private mechanisms.

    Raises:
        ValueError: if epsilon is not in [1e-6, 100].

    Source: Kairouz, Oh and Viswanath, "The composition theorem for differential privacy", ICML 2015.
    """
    return Loss((_pair.two_answers(arguments.real("epsilon", epsilon, 1e-6, 100.0), 0.0),))


def approximate(*, epsilon: float, delta: float) -> Loss:
    """Return the worst loss of all (epsilon, delta)-private mechanisms: infinite with probability delta.

    Composing it with `dpml.accounting.pld.compose` is optimal composition, also of mechanisms that differ.

    Raises:
        ValueError: if epsilon is not in [1e-6, 100] or delta not in [0, 1).

    Source: Kairouz, Oh and Viswanath, "The composition theorem for differential privacy", ICML 2015, Theorem 3.3
    and its proof.
    """
    epsilon = arguments.real("epsilon", epsilon, 1e-6, 100.0)
    delta = arguments.real("delta", delta, 0.0, 1.0, high_open=True)
    return Loss((_pair.two_answers(epsilon, delta),))


def poisson(loss: Loss, *, q: float) -> Loss:
    """Return the loss of a mechanism that runs on a Poisson sample: each record is drawn with probability q.

    For add/remove neighbours only. The first direction removes a record, the second adds it.

    Raises:
        ValueError: if loss is not an unsampled `Loss` for add/remove or any neighbours, or q not in [1e-9, 1).

    Source: Zhu, Dong and Wang, "Optimal accounting of differential privacy via characteristic function", AISTATS
    2022, Theorem 11; Balle, Barthe and Gaboardi, "Privacy amplification by subsampling", NeurIPS 2018, Theorem 8.
    """
    pair = _unsampled(loss, "replace-one")
    sampled = _pair.poisson(pair, arguments.real("q", q, 1e-9, 1.0, high_open=True))
    return Loss((sampled, _pair.exchanged(sampled)), "add/remove", "Poisson")


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
    return Loss((_pair.without_replacement(pair, q),), "replace-one", "without replacement")


def replaced_record(*, sigma: float, q: float) -> Loss:
    """Return the loss of one real case of fixed-size sampling, replace-one: the record counts 1, its replacement -1.

    All other records count 0. What is computed from it is a *lower* bound for the worst case.

    Raises:
        ValueError: if sigma is not in [0.1, 1e6] or q not in [1e-9, 1).

    Source: own construction: the mixtures (1 - q) N(0, sigma^2) + q N(+-1, sigma^2) are the output laws.
    """
    sigma = arguments.real("sigma", sigma, 0.1, 1e6)
    pair = _pair.replaced(1.0 / sigma, arguments.real("q", q, 1e-9, 1.0, high_open=True))
    return Loss((pair,), "replace-one", "without replacement")


def _unsampled(loss: Loss, excluded: str) -> Pair:
    good = isinstance(loss, Loss) and len(loss.pairs) == 1 and loss.sampling == "none"
    if not good or loss.adjacency == excluded:
        shown = f"one with {loss.sampling} sampling" if isinstance(loss, Loss) else repr(loss)[:60]
        raise ValueError(f"loss must be a Loss without sampling, as gaussian() returns it, got {shown}")
    return loss.pairs[0]
