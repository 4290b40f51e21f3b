r"""Rényi differential privacy on a random sample, for any mechanism whose own Rényi curve is known.

Let M have Rényi divergence at most R(l) at every integer order l, for its neighbours in both directions, and let the
order $a \ge 2$ be an integer.

Theorem (Poisson sampling, add/remove; Zhu and Wang 2019). M on a sample that holds each record independently with
probability q has divergence at most

.. math::

    \frac{1}{a-1} \log\Bigl[ (1-q)^{a-1}(1 + (a-1) q) + \binom a2 q^2 (1-q)^{a-2} e^{R(2)}
    + 3 \sum_{l=3}^a \binom al q^l (1-q)^{a-l} e^{(l-1) R(l)} \Bigr] .

Without the factor 3 it is a lower bound, and for the subsampled Gaussian the exact value, if one pair of datasets
attains R at all orders up to a. Proof: let P and Q be the outputs with and without the record x, and add no other
records. On a sample they are $(1-q)Q + qP$ and Q; expand $E_Q[(1 - q + q P/Q)^a]$ by the binomial theorem and use
$E_Q[(P/Q)^l] = e^{(l-1)R(l)}$.

Theorem (without replacement, replace-one; Wang, Balle and Kasiviswanathan 2019). M on a uniformly random set of
m = q n of the n records has divergence at most

.. math::

    \frac{1}{a-1} \log\Bigl[ 1 + q^2 \binom a2 \min\bigl(4 (e^{R(2)} - 1), 2 e^{R(2)}\bigr)
    + 2 \sum_{j=3}^a q^j \binom aj e^{(j-1) R(j)} \Bigr] .

Both are at most R(a) as well, which is returned where it is smaller: on a sample the outputs are mixtures, with the
same weights, of outputs on neighbours and of equal outputs, and the divergence of mixtures is at most the largest one
among the parts. The two theorems are cited, not proved here; the tests compare them with exact values.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln

from dpml import arguments, numerics

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["poisson_subsampled_lower", "poisson_subsampled_upper", "without_replacement_upper"]


def poisson_subsampled_upper(order: int, *, q: float, rdp: Callable[[int], float]) -> float:
    """Return an upper bound on the Rényi divergence of a mechanism on a Poisson sample, at one integer order.

    Neighbours: add/remove, for the mechanism and the result. rdp(l) is called for l = 2, ..., order and must bound the
    mechanism's divergence at order l in both directions. 0 at q = 0, rdp(order) at q = 1.

    Raises:
        ValueError: if order is not an integer in [2, 10^6], q not in [0, 1], or rdp not a function that returns
            numbers in [0, inf).

    Source: Zhu and Wang, "Poisson subsampled Rényi differential privacy", ICML 2019, the bound for general mechanisms.
    """
    order, q, curve = _checked(order, q, rdp)
    factors = np.where(np.arange(2, order + 1) == 2, 1.0, 3.0)
    return min(float(curve[-1]), _expansion(order, q, curve, factors)) if q < 1.0 else float(curve[-1])


def poisson_subsampled_lower(order: int, *, q: float, rdp: Callable[[int], float]) -> float:
    """Return a lower bound on the Rényi divergence of a mechanism on a Poisson sample, at one integer order.

    It holds if one pair of datasets, the empty one and one record x, attains rdp(l) exactly at l = 2, ..., order, as
    for Gaussian noise; the divergence is that of the output with x from the output without. Neighbours: add/remove.

    Raises:
        ValueError: if order is not an integer in [2, 10^6], q not in [0, 1], or rdp not a function that returns
            numbers in [0, inf).

    Source: Zhu and Wang, "Poisson subsampled Rényi differential privacy", ICML 2019, the lower bound; proved above.
    """
    order, q, curve = _checked(order, q, rdp)
    return _expansion(order, q, curve, np.ones(order - 1)) if q < 1.0 else float(curve[-1])


def without_replacement_upper(order: int, *, q: float, rdp: Callable[[int], float]) -> float:
    """Return an upper bound on the Rényi divergence of a mechanism on a random set of q n of the n records.

    Neighbours: replace-one, for the mechanism (on the sample) and the result; for Gaussian noise the sensitivity is
    then that of a replaced record, up to twice that of a removed one. rdp(l) is called for l = 2, ..., order and must
    bound the mechanism's divergence at order l. 0 at q = 0, rdp(order) at q = 1.

    Raises:
        ValueError: if order is not an integer in [2, 10^6], q not in [0, 1], or rdp not a function that returns
            numbers in [0, inf).

    Source: Wang, Balle and Kasiviswanathan, "Subsampled Rényi differential privacy and analytical moments accountant",
    AISTATS 2019, Theorem 9, without its refinement for mechanisms of finite epsilon.
    """
    order, q, curve = _checked(order, q, rdp)
    if q == 0.0:
        return 0.0
    sizes = np.arange(2.0, order + 1.0)
    logs = _log_binomial(order, sizes) + sizes * math.log(q) + math.log(2.0) + (sizes - 1.0) * curve
    with np.errstate(divide="ignore"):
        quadratic = math.log(4.0) + float(numerics.log_expm1(curve[0]))
    logs[0] += min(0.0, quadratic - (math.log(2.0) + curve[0]))
    return min(float(curve[-1]), _log1p_sum(logs) / (order - 1))


def _expansion(order: int, q: float, curve: NDArray[np.float64], factors: NDArray[np.float64]) -> float:
    r"""$\log \bigl(1 + \sum_{l \ge 2} \binom al q^l (1-q)^{a-l} (c_l e^{(l-1)R(l)} - 1)\bigr) / (a - 1)$.

    This is the theorem with $\sum_l \binom al q^l (1-q)^{a-l} = 1$ taken out, so that every term is >= 0.
    """
    if q == 0.0:
        return 0.0
    sizes = np.arange(2.0, order + 1.0)
    logs = _log_binomial(order, sizes) + sizes * math.log(q) + (order - sizes) * math.log1p(-q)
    logs += numerics.log_expm1(np.log(factors) + (sizes - 1.0) * curve)
    return _log1p_sum(logs) / (order - 1)


def _log_binomial(order: int, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(gammaln(order + 1.0) - gammaln(sizes + 1.0) - gammaln(order - sizes + 1.0), dtype=np.float64)


def _log1p_sum(logs: NDArray[np.float64]) -> float:
    """log(1 + sum of exp(logs)) without overflow; `logs` may hold -inf."""
    top = max(0.0, float(logs.max()))
    total = float(np.exp(logs - top).sum())
    return math.log1p(total) if top == 0.0 else top + math.log(math.exp(-top) + total)


def _checked(order: int, q: float, rdp: Callable[[int], float]) -> tuple[int, float, NDArray[np.float64]]:
    order = arguments.integer("order", order, 2, 10**6)
    q = arguments.probability("q", q)
    if not callable(rdp):
        raise ValueError(f"rdp must be a function of an integer order, got {reprlib.repr(rdp)}")
    curve = [arguments.real("rdp", rdp(size), 0.0) for size in range(2, order + 1)]
    return order, q, np.array(curve)
