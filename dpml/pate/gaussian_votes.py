r"""What GNMax and confident GNMax cost: for any votes, and for the votes that were cast.

Gaussian noise of standard deviation $\sigma$ (in votes) goes on each count, and one record moves one vote.

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

from typing import TYPE_CHECKING

import numpy as np

from dpml import arguments
from dpml.pate._counts import histograms
from dpml.pate._vote_moments import confident_divergences, gnmax_divergences, gnmax_log_upset, over

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

__all__ = [
    "confident_rdp",
    "confident_rdp_data_dependent",
    "gnmax_rdp",
    "gnmax_rdp_data_dependent",
    "gnmax_upset_bound",
]


def gnmax_rdp(order: ArrayLike, *, sigma: float) -> Array:
    """Return order/sigma^2, the Rényi divergence of one `gnmax` query, in the shape of `order`; `sigma` is in votes.

    It holds for all votes. Neighbours: one record is replaced, which moves one vote; or one is added or removed and
    its shard does not depend on the others.

    Raises:
        ValueError: if an order is not in (1, inf), sigma not in (0, inf), or the result exceeds the range of floats.

    Source: Papernot et al., "Scalable private learning with PATE", ICLR 2018, Proposition 8.
    """
    orders = arguments.array("order", order, low=1.0, low_open=True)
    sigma = arguments.real("sigma", sigma, 0.0, low_open=True)
    return _finite(over(orders, sigma), "sigma", sigma)


def confident_rdp(order: ArrayLike, *, sigma_threshold: float, sigma: float) -> Array:
    """Return the Rényi divergence of one question to `confident_gnmax` that may be answered, in the shape of `order`.

    It is order (1/(2 sigma_threshold^2) + 1/sigma^2), for all votes. Neighbours as in `gnmax_rdp`.

    Raises:
        ValueError: if an order is not in (1, inf), sigma_threshold or sigma not in (0, inf), or the result exceeds the
            range of floats.

    Source: Papernot et al., "Scalable private learning with PATE", ICLR 2018, section 4.2.
    """
    orders = arguments.array("order", order, low=1.0, low_open=True)
    test = arguments.real("sigma_threshold", sigma_threshold, 0.0, low_open=True)
    sigma = arguments.real("sigma", sigma, 0.0, low_open=True)
    asked = _finite(over(orders, test) / 2.0, "sigma_threshold", test)
    return _finite(asked + _finite(over(orders, sigma), "sigma", sigma), "sigma", sigma)


def gnmax_upset_bound(counts: ArrayLike, *, sigma: float) -> Array:
    """Return the bound q of the Lemma on the probability that the leader loses, one for each query.

    For one histogram a number, for many an array [queries]. At most 1 - 1/classes, since the leader never wins less
    often than another class.

    Raises:
        ValueError: if counts is not an array [classes] or [queries, classes] of whole numbers >= 0 with at least two
            classes, or sigma not in (0, inf).

    Source: Papernot et al., "Scalable private learning with PATE", ICLR 2018, Proposition 7.
    """
    votes = histograms("counts", counts)
    sigma = arguments.real("sigma", sigma, 0.0, low_open=True)
    with np.errstate(under="ignore"):
        return np.exp(gnmax_log_upset(votes, sigma))[()]


def gnmax_rdp_data_dependent(counts: ArrayLike, *, order: ArrayLike, sigma: float) -> Array:
    """Return the smaller bound of Theorems 1 and 2 on the Rényi divergence of each query, for these votes.

    The shape is that of the queries (none for one histogram) followed by that of `order`. Where a condition of Theorem
    2 fails, Theorem 1 alone is used: the result is never NaN. Private information: it tells about the votes.
    Neighbours as in `gnmax_rdp`.

    Raises:
        ValueError: if counts is not an array [classes] or [queries, classes] of whole numbers >= 0 with at least two
            classes, an order is not in (1, inf), sigma not in (0, inf), or the result exceeds the range of floats.

    Source: Papernot et al., "Scalable private learning with PATE", ICLR 2018, Theorem 6 and Proposition 10.
    """
    votes = histograms("counts", counts)
    orders = arguments.array("order", order, low=1.0, low_open=True)
    sigma = arguments.real("sigma", sigma, 0.0, low_open=True)
    values = gnmax_divergences(np.atleast_2d(votes), orders.reshape(1, -1), sigma)
    return _finite(values.reshape(votes.shape[:-1] + orders.shape), "sigma", sigma)


def confident_rdp_data_dependent(
    counts: ArrayLike, *, order: ArrayLike, threshold: float, sigma_threshold: float, sigma: float
) -> Array:
    """Return a bound on the Rényi divergence of each question to `confident_gnmax`, for these votes.

    Shapes and caution as in `gnmax_rdp_data_dependent`; `threshold` is in votes. Whether the question is answered does
    not enter: a question that all but surely stays unanswered, or all but surely gets one answer, costs almost nothing.

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
    values = confident_divergences(np.atleast_2d(votes), orders.reshape(1, -1), threshold, test, sigma)
    return _finite(values.reshape(votes.shape[:-1] + orders.shape), "sigma", sigma)


def _finite(values: Array, name: str, argument: float) -> Array:
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must keep the result within the range of floats, got {argument!r}")
    return values[()]
