r"""Publish what the votes of a run cost, privately: noise in proportion to a smooth bound on the sensitivity.

Let $f(D) = \sum_i h(q_i)$ be a bound on the Rényi divergence of the GNMax queries i at an order, the queries and the
order fixed beforehand, where $q_i$ bounds the probability that the leader loses and h is nondecreasing. It depends on
the votes, and its sensitivity does too: a vote that moves changes f little where all votes are clear.

The bound. A moved vote changes each gap to the leader, in sorted order, by at most 2. So within k moves of D the value
of query i lies between $l_i(k)$ and $u_i(k)$, the values at all gaps + 2k (at most the number of teachers) and at all
gaps - 2k (at least 0). Let

.. math::

    U(D) = \max_{k \ge 0} e^{-\beta k} \sum_i \bigl(u_i(k+1) - l_i(k+1)\bigr) .

Lemma. For neighbours D, D' (one replaced record, which moves one vote in each query) $|f(D) - f(D')| \le U(D)$ and
$U(D) \le e^\beta U(D')$.

Proof. Both values of f lie between the sums of $l_i(1)$ and $u_i(1)$: the term k = 0. What is within k + 1 moves of D
is within k + 2 moves of D', so that the interval of D at k is inside that of D' at k + 1.

Theorem. Let $\beta = \log(1 + \varepsilon/(2 \log(1/\delta)))$ and $\delta \le 1/e$, and let c be a function with
$|c(D) - c(D')| \le \kappa \min(U(D), U(D'))$. Then $c(D) + \frac{2\kappa}{\varepsilon} U(D)\, Z$ with Z from Lap(1) is
$(\varepsilon, \delta)$-differentially private.

Proof. Let s and s' be the two scales. The loss of an output at a distance y from c(D) is at most
$\log(s'/s) + \varepsilon/2 + |y|\,(1/s' - 1/s)$. If $s' \ge s$ this is at most $\beta + \varepsilon/2 \le \varepsilon$.
Otherwise it is at most $\varepsilon/2 + (|y|/s)(e^\beta - 1)$, which exceeds $\varepsilon$ with probability
$e^{-\varepsilon/(2(e^\beta - 1))} = \delta$.

What is published is $c = f + \tau U$, with $\kappa = 1 + \tau(e^\beta - 1)$ since U itself changes, and $\tau$ so large
that the noisy value is below f with probability at most $1 - $ `confidence`. Cited for the idea: Nissim, Raskhodnikova
and Smith (2007); Papernot et al. (2018), appendix B, use Gaussian noise.

h is the bound of `dpml.pate.gaussian_votes` at the next larger q of a fixed grid, and the largest of its values below:
nondecreasing by construction, and still a bound.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments
from dpml.accounting.guarantee import Guarantee
from dpml.pate._counts import histograms
from dpml.pate.gaussian_votes import _behind, _log_upset, _rate, _smaller_bound

Array = NDArray[np.float64]

__all__ = ["PublishedCost", "publish_gnmax_cost"]

_MOST_VOTES = 1_000_000
_GRID = -np.concatenate([np.geomspace(1e6, 1e-3, 4000), [0.0]])  # log q, rising


class PublishedCost(NamedTuple):
    """A bound on the Rényi divergence of the votes that were cast, which may be published.

    `rdp` at order `order` is at least the divergence for these votes with probability `confidence` over the noise of
    the release. `release` is what publishing it costs, to be added to what the labels cost.

    Source: as `publish_gnmax_cost`.
    """

    rdp: float
    order: float
    confidence: float
    release: Guarantee


def publish_gnmax_cost(
    counts: ArrayLike,
    *,
    order: float,
    sigma: float,
    epsilon: float,
    delta: float,
    confidence: float,
    rng: np.random.Generator,
) -> PublishedCost:
    r"""Return a noisy upper bound on what the labels of these votes by `gnmax` cost, (epsilon, delta)-private itself.

    `order` and all other settings are fixed before anyone looks at the votes. Convert `rdp` with
    `dpml.accounting.rdp.conversion_improved` and add `release` by basic composition. Never above the divergence for any
    votes, queries times order/sigma^2. Whether it is worth its price depends on the gaps: the noise is small where
    $e^{-\beta k}$ is, k being half the gaps. With few teachers it rarely is.

    Neighbours: one replaced record, which moves one vote in every query.

    Raises:
        ValueError: if counts is not an array [classes] or [queries, classes] of whole numbers >= 0 with at least two
            classes and at most 1000000 votes in each, order not in (1, inf), sigma not in (0, inf), epsilon not in
            [1e-300, inf), delta not in (0, 1/e], confidence not in [1/2, 1 - delta/2), rng not a Generator, or the
            result exceeds the range of floats; nothing is drawn then.

    Source: the theorem above; K. Nissim, S. Raskhodnikova and A. Smith, "Smooth sensitivity and sampling in private
    data analysis", STOC 2007; Papernot et al., "Scalable private learning with PATE", ICLR 2018, appendix B.
    """
    votes = np.atleast_2d(histograms("counts", counts))
    if votes.sum(axis=1).max(initial=0.0) > _MOST_VOTES:
        raise ValueError(f"counts must hold at most {_MOST_VOTES} votes in each query, got {votes.sum(axis=1).max():g}")
    order = arguments.real("order", order, 1.0, low_open=True)
    sigma = arguments.real("sigma", sigma, 0.0, low_open=True)
    epsilon = arguments.real("epsilon", epsilon, 1e-300)
    delta = arguments.real("delta", delta, 0.0, math.exp(-1.0), low_open=True)
    confidence = arguments.real("confidence", confidence, 0.5, 1.0 - delta / 2.0, high_open=True)
    rng = arguments.generator("rng", rng)
    worst = arguments.finite("sigma", sigma, order / sigma / sigma * len(votes))
    inverse = -math.log(delta)
    growth = epsilon / (2.0 * inverse)  # e^beta - 1
    miss = -math.log(2.0 * (1.0 - confidence))
    shift = miss / (epsilon / 2.0 - miss * growth)
    value, sensitivity = _cost_and_smooth_bound(votes, order, sigma, math.log1p(growth))
    scale = 2.0 * (1.0 + shift * growth) * sensitivity / epsilon
    noisy = value + shift * sensitivity + scale * float(rng.laplace())
    release = Guarantee(epsilon, delta=delta, kind="upper bound", adjacency="replace-one")
    return PublishedCost(min(max(noisy, 0.0), worst), order, confidence, release)


def _cost_and_smooth_bound(votes: Array, order: float, sigma: float, beta: float) -> tuple[float, float]:
    """f(D) and U(D). The votes are checked already."""
    if not len(votes):
        return 0.0, 0.0
    table = _steps(order, sigma)
    behind, times = np.unique(_behind(votes), axis=0, return_counts=True)

    def total(gap: Array) -> float:
        log_q = _log_upset(gap, sigma)
        return float(times @ table[np.searchsorted(_GRID, np.minimum(log_q, 0.0))])

    voters = float(votes.sum(axis=1).max())  # the same for all neighbours, and no gap is larger
    most, best = float(len(votes) * table[-1]), 0.0
    for k in range(math.ceil(voters / 2.0) + 1):  # from there on every histogram is within reach
        weight = math.exp(-beta * k)
        if weight * most <= best:
            break
        moved = 2.0 * (k + 1)
        width = total(np.maximum(behind - moved, 0.0)) - total(np.minimum(behind + moved, voters))
        best = max(best, weight * width)
    return total(behind), best


@cache
def _steps(order: float, sigma: float) -> Array:
    """h on the grid: for each log q the largest bound up to there."""
    bounds = _smaller_bound(_GRID[:, None], np.array([[order]]), _rate(sigma))
    return np.maximum.accumulate(bounds[:, 0])
