r"""What GNMax and confident GNMax cost: for any votes, and for the votes that were cast.

Independent Gaussian noise of standard deviation $\sigma$ (in votes) goes on each count, and one record moves one vote.

Theorem 1 (any votes). The Rényi divergence of order $\alpha$ of a query is at most $\alpha/\sigma^2$; of the test of
the largest count with noise $\sigma_1$ it is at most $\alpha/(2\sigma_1^2)$.

Proof. The Gaussian mechanism has $\alpha s^2/(2\sigma^2)$ for sensitivity s in the L2 norm, here $\sqrt 2$ and 1.

Lemma. With the gap $t_j$ of class j to the leader, the leader loses with probability at most
$q = \sum_{j \ne j^*} \Phi(-t_j/(\sqrt 2 \sigma))$.

Theorem 2 (the votes that were cast). Let one outcome have probability at least $1 - q$, let the divergence of order
$\mu$ be at most $\varepsilon(\mu) = \mu/v$ for all $\mu$, and take $\mu_2 = \sqrt{v \log(1/q)}$, $\mu_1 = \mu_2 + 1$.
If $\alpha \le \mu_1$, $\mu_2 > 1$ and
$q \le e^{(\mu_2 - 1)\varepsilon(\mu_2)} \big/ \bigl(\tfrac{\mu_1}{\mu_1 - 1} \tfrac{\mu_2}{\mu_2 - 1}\bigr)^{\mu_2}$,
then for these votes and every neighbour

.. math::

    D_\alpha \le \frac{1}{\alpha - 1} \log\bigl((1-q) A^{\alpha-1} + q B^{\alpha-1}\bigr), \qquad
    A = \frac{1-q}{1 - (q\,e^{\varepsilon(\mu_2)})^{1 - 1/\mu_2}}, \quad
    B = e^{\varepsilon(\mu_1)} q^{-1/(\mu_1 - 1)} .

Proof, for q the true probability. Let i* be the outcome, p and p' its probabilities under the two datasets. Privacy of
order $\mu_2$ bounds $1 - p'$ by $(q e^{\varepsilon(\mu_2)})^{1 - 1/\mu_2}$, hence $p (p/p')^{\alpha-1}$ by the first
term. Hölder's inequality between the orders 1 and $\mu_1$ bounds the sum over the other outcomes by the second. Under
the condition both together grow with q (cited: Papernot et al. 2018, Theorem 6), so that a bound on the true
probability may take its place.

GNMax has $v = \sigma^2$, the test $v = 2\sigma_1^2$ and two outcomes. Confident GNMax as a whole, with "no answer" as
one more outcome, has $1/v = 1/(2\sigma_1^2) + 1/\sigma^2$; the smaller of this bound and the sum of the two is used.
No bound uses what came out, only the votes.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr

from dpml import arguments, numerics
from dpml.pate._counts import gaps, histograms
from dpml.pate.laplace_votes import _log_of_sum

Array = NDArray[np.float64]

__all__ = ["confident_rdp_data_dependent", "gnmax_rdp_data_dependent"]

_LEAST_LOG_Q = -1e15  # a larger q is always allowed, and this one costs nothing that a float could show


@np.errstate(under="ignore")
def gnmax_rdp_data_dependent(counts: ArrayLike, *, order: ArrayLike, sigma: float) -> Array:
    """Return the smaller bound of Theorems 1 and 2 on the Rényi divergence of each query, for these votes.

    The shape is that of the queries (none for one histogram) followed by that of `order`. Where a condition of Theorem
    2 fails, Theorem 1 alone is used: the result is never NaN. Private information: it tells about the votes.
    Neighbours: one record is replaced, which moves one vote; or one is added or removed and its shard does not depend
    on the others.

    Raises:
        ValueError: if counts is not an array [classes] or [queries, classes] of whole numbers >= 0 with at least two
            classes, an order is not in (1, inf), sigma not in (0, inf), or the result exceeds the range of floats.

    Source: Papernot et al., "Scalable private learning with PATE", ICLR 2018, Theorem 6 and Proposition 10.
    """
    votes = histograms("counts", counts)
    orders = arguments.array("order", order, low=1.0, low_open=True)
    sigma = arguments.real("sigma", sigma, 0.0, low_open=True)
    log_q = _log_upset(_behind(votes), sigma)
    values = _smaller_bound(log_q.reshape(-1, 1), orders.reshape(1, -1), _rate(sigma))
    return arguments.finite("sigma", sigma, values).reshape(log_q.shape + orders.shape)[()]


@np.errstate(over="ignore", under="ignore")
def confident_rdp_data_dependent(
    counts: ArrayLike, *, order: ArrayLike, threshold: float, sigma_threshold: float, sigma: float
) -> Array:
    """Return a bound on the Rényi divergence of each question to `confident_gnmax`, for these votes.

    Shapes and caution as in `gnmax_rdp_data_dependent`; `threshold` is in votes. The test and the vote are bounded one
    by one, or both as one mechanism, whichever is smaller. Whether the question is answered does not enter: a question
    that all but surely stays unanswered, or all but surely gets one answer, costs almost nothing.

    Raises:
        ValueError: if counts is not an array [classes] or [queries, classes] of whole numbers >= 0 with at least two
            classes, an order is not in (1, inf), threshold is not finite, sigma_threshold or sigma not in (0, inf), or
            the result exceeds the range of floats.

    Source: Papernot et al., "Scalable private learning with PATE", ICLR 2018, Theorem 6, applied to the test, to the
    vote, and to both together.
    """
    votes = histograms("counts", counts)
    orders = arguments.array("order", order, low=1.0, low_open=True)
    threshold = arguments.real("threshold", threshold)
    test = arguments.real("sigma_threshold", sigma_threshold, 0.0, low_open=True)
    sigma = arguments.real("sigma", sigma, 0.0, low_open=True)
    margin = np.clip((votes.max(axis=-1) - threshold) / test, -1e100, 1e100)
    log_answer, log_silence = log_ndtr(margin), log_ndtr(-margin)
    log_q = _log_upset(_behind(votes), sigma)
    asked, answered = _rate(test) / 2.0, _rate(sigma)

    def smaller(log_q: Array, slope: float) -> Array:
        return _smaller_bound(log_q.reshape(-1, 1), orders.reshape(1, -1), slope)

    one_by_one = smaller(np.minimum(log_answer, log_silence), asked) + smaller(log_q, answered)
    log_unlikely = np.minimum(log_answer, np.logaddexp(log_silence, log_answer + log_q))
    values = np.minimum(one_by_one, smaller(log_unlikely, asked + answered))
    return arguments.finite("sigma", sigma, values).reshape(votes.shape[:-1] + orders.shape)[()]


def _behind(votes: Array) -> Array:
    """How many votes each class but the leader is behind, rising; of several leaders that tie, one is left out."""
    return np.asarray(np.sort(gaps(votes), axis=-1)[..., 1:], dtype=np.float64)


@np.errstate(over="ignore", under="ignore")
def _log_upset(behind: Array, sigma: float) -> Array:
    """The logarithm of the Lemma's q, which does not underflow, from the gaps of all classes but the leader."""
    log_terms = log_ndtr(-np.minimum(behind / math.sqrt(2.0) / sigma, 1e100))
    log_q = np.logaddexp.reduce(log_terms, axis=-1)
    return np.asarray(np.minimum(log_q, -math.log1p(1.0 / behind.shape[-1])), dtype=np.float64)


@np.errstate(over="ignore", under="ignore")
def _smaller_bound(log_q: Array, order: Array, slope: float) -> Array:
    """Theorem 1 with the divergence `slope` times order, 1/v in Theorem 2, which is taken where it is smaller."""
    log_q = np.maximum(np.minimum(log_q, 0.0), _LEAST_LOG_Q)
    per_order = min(slope, 1e300)
    mu = np.sqrt(-log_q / per_order)  # the order mu_2; mu_1 is one more
    loss = mu * per_order
    usable = (mu > 1.0) & (-log_q > loss)
    m = np.where(usable, mu, 2.0)
    growing = log_q <= (m - 1.0) * loss - m * (np.log1p(1.0 / m) - np.log1p(-1.0 / m))
    usable &= growing
    lq, e2 = np.where(usable, log_q, -2.0), np.where(usable, loss, 0.0)
    m = np.where(usable, mu, 2.0)
    log_rest = numerics.log1mexp(lq)
    log_a = log_rest - numerics.log1mexp((lq + e2) * (1.0 - 1.0 / m))
    log_b = e2 + np.where(usable, per_order, 0.0) - lq / m
    lam = order - 1.0
    theorem_2 = _log_of_sum(log_rest + lam * log_a, lq + lam * log_b) / lam
    base = slope * order
    return np.where(usable & (order <= mu + 1.0), np.minimum(base, theorem_2), base)


def _rate(sigma: float) -> float:
    """The divergence of GNMax over the order, by Theorem 1; not below 1e-300, which is on the safe side."""
    return max(1.0 / sigma / sigma, 1e-300)
