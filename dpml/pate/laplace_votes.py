r"""What a noisy argmax with Laplace noise costs: for any votes, and for the votes that were cast.

Independent noise of scale b (in votes) goes on each count, and one record moves one vote. With $\gamma = 1/b$, and the
log-moment $\alpha(\lambda)$ of `dpml.accounting.moments`:

Theorem 1 (any votes). A query is $(2\gamma, 0)$-differentially private, and
$\alpha(\lambda) \le 2\gamma^2 \lambda(\lambda + 1)$.

Lemma (the votes that were cast). Let $t_j$ be the gap of class j to the leader j*, and

.. math::

    q = \sum_{j \ne j^*} \frac{2 + \gamma t_j}{4 e^{\gamma t_j}} .

Then another class than j* wins with probability at most q.

Theorem 2. If $q < 1/(1 + e^{2\gamma})$, then for these votes and every neighbour

.. math::

    \alpha(\lambda) \le \log\Bigl((1-q) \Bigl(\frac{1-q}{1 - e^{2\gamma} q}\Bigr)^{\lambda}
    + q\, e^{2\gamma\lambda}\Bigr) .

Proofs. Theorem 1: the counts have sensitivity 2 in the L1 norm, and an $\varepsilon$-private mechanism has
$\alpha(\lambda) \le \varepsilon^2 \lambda(\lambda + 1)/2$ (Bun and Steinke 2016). Lemma: the formula for two classes
and a union bound. Theorem 2: let Q be the probability that j* loses. Under the neighbour j* loses with probability at
most $e^{2\gamma} Q$, which bounds its ratio of probabilities; every other class has a ratio of at most $e^{2\gamma}$.
This is the bound with Q in the place of q, and it grows with Q where the condition holds (cited: Papernot et al. 2017,
Theorem 3).

Beyond the condition, for $1/(1 + e^{2\gamma}) \le q < e^{-2\gamma}$, the formula still holds and is of no use: it is at
least $2\gamma\lambda$, which bounds the moment of every $(2\gamma, 0)$-private mechanism. From $e^{-2\gamma}$ on it is
undefined.

A number of Theorem 2 depends on the votes, so that it is private information itself, and it bounds the loss of outputs
drawn from *these* votes; the outputs of a neighbour have a bound of their own.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments
from dpml.pate._counts import gaps, histograms

Array = NDArray[np.float64]

__all__ = [
    "laplace_moment",
    "laplace_moment_data_dependent",
    "laplace_vote_epsilon",
    "laplace_vote_scale",
]

_LEAST_SCALE = 4.0 / np.finfo(np.float64).max


def laplace_vote_epsilon(*, scale: float) -> float:
    r"""Return 2/scale, the epsilon of one `noisy_argmax` with delta = 0; `scale` is in votes.

    Neighbours: one record is replaced, which moves one vote; or one is added or removed and its shard does not depend
    on the others. It cannot be improved for all votes: with n voters the loss tends to 2/scale as n grows.

    Raises:
        ValueError: if scale is not in (0, inf), or so small that the result exceeds the range of floats.

    Source: the lecture, slide "PATE, per-query privacy of the teacher ensemble", with the scale of Papernot et al.,
    "Semi-supervised knowledge transfer for deep learning from private training data", ICLR 2017, section 3.1.

    Printed: the argmax of the counts plus $\mathrm{Lap}(0, 1/\varepsilon)$ is $\varepsilon$-differentially private.

    Implemented: with that noise it is $2\varepsilon$-private, since two counts change when one vote moves; noise
    $\mathrm{Lap}(0, 2/\varepsilon)$ gives $\varepsilon$. With two voters, votes (1, 1) and (0, 2) and
    $\mathrm{Lap}(0, 1)$ the first class wins with probabilities $1/2$ and $e^{-2}$: the loss is $2 - \ln 2 = 1.30685$,
    above 1. With votes (1, 99) and (0, 100) it is 1.98020. The printed value holds where neighbours differ by a vote
    added or removed.

    Counterexample: the loss of the first class with the printed noise, for epsilon = 1.

    >>> from dpml.pate import laplace_votes, voting
    >>> laplace_votes.laplace_vote_epsilon(scale=1.0)
    2.0
    >>> for votes in ([[1, 1], [0, 2]], [[1, 99], [0, 100]]):
    ...     d, d_prime = voting.argmax_log_probabilities(votes, scale=1.0)[:, 0]
    ...     print(f"{d - d_prime:.5f}")
    1.30685
    1.98020
    """
    return 2.0 / arguments.real("scale", scale, _LEAST_SCALE)


def laplace_vote_scale(*, epsilon: float) -> float:
    """Return 2/epsilon, the least scale (in votes) with which `noisy_argmax` is (epsilon, 0)-private for all votes.

    Raises:
        ValueError: if epsilon is not in (0, inf), or so small that the result exceeds the range of floats.

    Source: as `laplace_vote_epsilon`.
    """
    return 2.0 / arguments.real("epsilon", epsilon, _LEAST_SCALE)


@np.errstate(under="ignore")
def laplace_moment(lam: ArrayLike, *, scale: float) -> Array:
    r"""Return $2\lambda(\lambda+1)/b^2$, the bound of Theorem 1 on the log-moment of one query, in the shape of `lam`.

    It holds for all votes; neighbours as in `laplace_vote_epsilon`. A smaller and exact bound for (2/b)-private
    mechanisms is `lam` times `dpml.accounting.rdp.randomized_response` at order `lam` + 1. That of the noisy counts is
    2 `lam` times `dpml.accounting.rdp.laplace` there, about half as large; `dpml.pate.student` goes by these counts.

    Raises:
        ValueError: if a lam is not in (0, inf), scale not in (0, inf), or the result exceeds the range of floats.

    Source: Papernot et al., "Semi-supervised knowledge transfer for deep learning from private training data", ICLR
    2017, Theorem 2; Bun and Steinke, "Concentrated differential privacy", TCC 2016, Proposition 1.4.
    """
    lams = arguments.array("lam", lam, low=0.0, low_open=True)
    scale = arguments.real("scale", scale, _LEAST_SCALE)
    return arguments.finite("scale", scale, _any_votes(lams, scale))[()]


def laplace_moment_data_dependent(counts: ArrayLike, *, lam: ArrayLike, scale: float) -> Array:
    """Return the smaller bound of Theorems 1 and 2 on the log-moment of each query, for these votes.

    The shape is that of the queries (none for one histogram) followed by that of `lam`. Where the condition of Theorem
    2 fails, its formula is worse than 2 lam/scale, or undefined, and Theorem 1 alone is used: the result is never NaN.
    Private information: it tells about the votes. Neighbours as in `laplace_vote_epsilon`.

    Raises:
        ValueError: if counts is not an array [classes] or [queries, classes] of whole numbers >= 0 with at least two
            classes, a lam is not in (0, inf), scale not in (0, inf), or the result exceeds the range of floats.

    Source: Papernot et al., "Semi-supervised knowledge transfer for deep learning from private training data", ICLR
    2017, Theorem 3 with Lemma 4.
    """
    votes = histograms("counts", counts)
    lams = arguments.array("lam", lam, low=0.0, low_open=True)
    scale = arguments.real("scale", scale, _LEAST_SCALE)
    log_q = _log_upset(votes, scale)
    values = _log_moments(log_q.reshape(-1, 1), lams.reshape(1, -1), scale)
    return arguments.finite("scale", scale, values).reshape(log_q.shape + lams.shape)[()]


@np.errstate(over="ignore", under="ignore")
def _log_upset(votes: Array, scale: float) -> Array:
    """The logarithm of the Lemma's q, which does not underflow. The votes are checked already."""
    gap = np.sort(gaps(votes), axis=-1)[..., 1:] / scale  # the leader is left out, and of several that tie, one
    gap = np.minimum(gap, 1e300)
    log_terms = np.log((2.0 + gap) / 4.0) - gap
    log_q = np.logaddexp.reduce(log_terms, axis=-1)
    return np.asarray(np.minimum(log_q, math.log1p(-1.0 / votes.shape[-1])), dtype=np.float64)


@np.errstate(over="ignore", under="ignore", divide="ignore")
def _log_moments(log_q: Array, lam: Array, scale: float) -> Array:
    """The smaller of the two bounds; `log_q` and `lam` broadcast."""
    loss = 2.0 / scale
    base = _any_votes(lam, scale)
    holds = log_q < -np.logaddexp(0.0, loss)
    safe = np.where(holds, log_q, -np.logaddexp(0.0, loss) - 1.0)
    stay = (lam + 1.0) * np.log1p(-np.exp(safe)) - lam * np.log1p(-np.exp(safe + loss))
    leave = safe + loss * lam
    return np.where(holds, np.minimum(base, _log_of_sum(stay, leave)), base)


def _any_votes(lam: Array, scale: float) -> Array:
    with np.errstate(over="ignore"):
        return 2.0 * (lam / scale) * ((lam + 1.0) / scale)


def _log_of_sum(stay: Array, leave: Array) -> Array:
    """log(e^stay + e^leave) >= 0, without cancellation where `stay` is near 0 and e^leave small."""
    small = (np.abs(stay) < 0.5) & (leave < 0.0)
    near = np.log1p(np.expm1(np.where(small, stay, 0.0)) + np.exp(np.where(small, leave, -1.0)))
    # A Rényi divergence is never negative: only rounding falls below.
    return np.maximum(0.0, np.where(small, near, np.logaddexp(stay, leave)))
