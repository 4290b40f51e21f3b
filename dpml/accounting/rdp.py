r"""Rényi differential privacy: curves of single mechanisms, their sum, and the conversion to (epsilon, delta).

The Rényi divergence of order $a > 1$ is

.. math::

    D_a(P \,\|\, Q) = \frac{1}{a-1} \log \mathbb E_Q\bigl[(P/Q)^a\bigr] .

M is (a, R)-Rényi private if $D_a(M(D) \,\|\, M(D')) \le R$ for all neighbours in both directions; $(a-1) R$ is the
lecture's log-moment at $\lambda = a - 1$ (`dpml.accounting.moments`).

Theorem (composition). The R of mechanisms used one after another, each chosen after seeing the outputs before it, add
up at each order.

Theorem (conversion). An (a, R)-Rényi private mechanism is
$(\varepsilon, \delta)$-private with the classic
$\varepsilon = R + \log(1/\delta)/(a-1)$ and with the smaller

.. math::

    \varepsilon = R + \log\Bigl(1 - \frac1a\Bigr) + \frac{\log(1/\delta) - \log a}{a - 1} .

Proof. Let L be the loss of an output under D. The best event gives
$\delta(\varepsilon) \le \mathbb E[\max(0, 1 - e^{\varepsilon - L})]$. For every real t,
$\max(0, 1 - e^{-t}) \le c\, e^{(a-1)t}$ with $c = (a-1)^{a-1}/a^a$, the maximum of $(1 - e^{-t})\, e^{-(a-1)t}$, which
lies at $e^{-t} = (a-1)/a$. Put t = L - epsilon and use $\mathbb E[e^{(a-1)L}] = e^{(a-1)D_a}$: then
$\delta \le c\, e^{(a-1)(R - \varepsilon)}$. The classic one has 1 in the place of c.

On a random sample, for any mechanism whose own curve is known. Let M have Rényi divergence at most R(l) at every
integer order l, for its neighbours in both directions, and let the order $a \ge 2$ be an integer.

Theorem (Poisson sampling, add/remove; Zhu and Wang 2019). M on a sample that holds each record independently with
probability q has divergence at most

.. math::

    \frac{1}{a-1} \log\Bigl[ (1-q)^{a-1}(1 + (a-1) q) + \binom a2 q^2 (1-q)^{a-2} e^{R(2)}
    + 3 \sum_{l=3}^a \binom al q^l (1-q)^{a-l} e^{(l-1) R(l)} \Bigr] .

Without the factor 3 it is a lower bound, and for the subsampled Gaussian the exact value, if one pair of datasets
attains R at all orders up to a. Proof: let P and Q be the outputs with and without the record x, and add no other
records. On a sample they are $(1-q)Q + qP$ and Q; expand $E_Q[(1 - q + q P/Q)^a]$ by the binomial theorem and use
$E_Q[(P/Q)^l] = e^{(l-1)R(l)}$.

It is at most R(a) as well, which is returned where it is smaller: on a sample the outputs are mixtures, with the
same weights, of outputs on neighbours and of equal outputs, and the divergence of mixtures is at most the largest one
among the parts. The theorem is cited, not proved here; the tests compare it with exact values.

The Gaussian curves hold for the noise multiplier sigma (sensitivity 1) and for whichever neighbours the sensitivity
was computed; all that is subsampled here is add/remove with Poisson sampling.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from dpml import arguments, numerics
from dpml.accounting import orders
from dpml.accounting.guarantee import Guarantee
from dpml.accounting.quadrature import Nodes, exp_excess
from dpml.accounting.subsampled_gaussian import after_each, log_moments, without_accounting

__all__ = [
    "conversion_classic",
    "conversion_improved",
    "epsilon",
    "epsilon_curve",
    "gaussian",
    "laplace",
    "poisson_subsampled_lower",
    "poisson_subsampled_upper",
    "randomized_response",
    "subsampled_gaussian",
]

_LARGE = 600.0  # beyond this exponents are not formed


@np.errstate(over="ignore", under="ignore")
def gaussian(order: ArrayLike, *, sigma: float) -> NDArray[np.float64]:
    """Return order/(2 sigma^2), the Rényi divergence of the Gaussian mechanism, in the shape of `order`.

    Exact; the neighbours are those for which the L2 sensitivity is 1.

    Raises:
        ValueError: if an order is not in (1, inf), sigma not in (0, inf), or the result exceeds the range of floats.

    Source: Mironov, "Rényi differential privacy", CSF 2017, Proposition 7.
    """
    a = _orders(order)
    sigma = arguments.real("sigma", sigma, 0.0, low_open=True)
    return arguments.finite("sigma", sigma, a / sigma / (2.0 * sigma))[()]


@np.errstate(over="ignore", under="ignore")
def laplace(order: ArrayLike, *, scale: float) -> NDArray[np.float64]:
    r"""Return the Rényi divergence of the Laplace mechanism, in the shape of `order`.

    With c = 1/scale it is $\log\bigl(\frac{a}{2a-1} e^{(a-1)c} + \frac{a-1}{2a-1} e^{-ac}\bigr)/(a-1)$. Exact, without
    cancellation for large scales; the neighbours are those for which the L1 sensitivity is 1.

    Raises:
        ValueError: if an order is not in (1, inf), scale not in (0, inf), or 1/scale exceeds the range of floats.

    Source: Mironov, "Rényi differential privacy", CSF 2017, Proposition 6.
    """
    a = _orders(order)
    scale = arguments.real("scale", scale, 0.0, low_open=True)
    lam = a - 1.0
    c = arguments.finite("scale", scale, np.divide(1.0, scale))
    up, down = np.minimum(lam * c, _LARGE), np.maximum(-a * c, -1e300)
    shares = np.minimum(a, 1e300), np.minimum(lam, 1e300)
    first, second = (share / (2.0 * shares[0] - 1.0) for share in shares)
    moderate = np.log1p(first * exp_excess(up) + second * exp_excess(down)) / lam
    large = c + np.log(first) / lam  # the other term is below e^-600 of this one
    return np.where(up < _LARGE, moderate, large)[()]


@np.errstate(over="ignore", under="ignore")
def randomized_response(order: ArrayLike, *, epsilon: float) -> NDArray[np.float64]:
    r"""Return the Rényi divergence of randomized response with privacy parameter epsilon, in the shape of `order`.

    With truth $p = e^\varepsilon/(1 + e^\varepsilon)$ it is
    $\log\bigl(p^a (1-p)^{1-a} + (1-p)^a p^{1-a}\bigr)/(a-1)$. Exact; the neighbours are those whose bit differs. It
    is the largest divergence of all epsilon-private mechanisms.

    Raises:
        ValueError: if an order is not in (1, inf) or epsilon not in [0, inf).

    Source: Mironov, "Rényi differential privacy", CSF 2017, Proposition 5.
    """
    a = _orders(order)
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    lam = a - 1.0
    t = np.minimum(lam * epsilon, _LARGE)
    excess = 2.0 * np.sinh(t / 2.0) ** 2 + math.tanh(epsilon / 2.0) * np.sinh(t)
    large = epsilon - math.log1p(math.exp(-epsilon)) / lam
    return np.where(t < _LARGE, np.log1p(excess) / lam, large)[()]


@np.errstate(under="ignore")
def subsampled_gaussian(order: ArrayLike, *, q: float, sigma: float) -> NDArray[np.float64]:
    """Return the Rényi divergence of one step of the Poisson-subsampled Gaussian mechanism, in the shape of `order`.

    Any real orders in (1, 10^18]; the larger of the two directions. Neighbours: add/remove. Relative error below 1e-12
    for q >= 1e-200, by quadrature of terms that are all positive (`dpml.accounting.subsampled_gaussian` says why).
    0 at q = 0, the Gaussian curve at q = 1.

    Raises:
        ValueError: if an order is not in (1, 10^18], q not in [0, 1], sigma not in (0, inf), or the result exceeds
            the range of floats.

    Source: Mironov, Talwar and Zhang, "Rényi differential privacy of the sampled Gaussian mechanism" (2019), section 3.
    """
    a = arguments.array("order", order, low=1.0, low_open=True, high=1e18)
    q = arguments.probability("q", q)
    sigma = arguments.real("sigma", sigma, 0.0, low_open=True)
    lam = a.reshape(-1) - 1.0
    return arguments.finite("sigma", sigma, (log_moments(lam, q, sigma) / lam).reshape(a.shape))[()]


def epsilon(*, q: float, sigma: float, steps: int, delta: float) -> Guarantee:
    """Return the guarantee of `steps` steps of the Poisson-subsampled Gaussian mechanism, by the best real order.

    Neighbours: add/remove. An upper bound, rounded up; its `order` is the one that gave it. The orders begin
    around a guess, extend in both directions while the best is the first or last, and close in on it until epsilon
    changes by less than 1e-5 of it.

    epsilon is 0 if q or steps is 0. Without noise (sigma = 0) it is 0 where the record is sampled at all with
    probability 1 - (1-q)^steps <= delta, and else infinite. It is infinite at delta = 0.

    Raises:
        ValueError: if q or delta is not in [0, 1], sigma not in [0, inf), steps not an integer in [0, 2^53], or the
            result exceeds the range of floats.

    Source: Mironov, Talwar and Zhang, "Rényi differential privacy of the sampled Gaussian mechanism" (2019), section 3;
    Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, Proposition 12
    of arXiv:2004.00010v4.
    """
    q = arguments.probability("q", q)
    sigma = arguments.real("sigma", sigma, 0.0)
    steps = arguments.integer("steps", steps, 0, 2**53)
    delta = arguments.probability("delta", delta)
    value, order = without_accounting(q, sigma, steps, delta), None
    if value is None:
        slack = -math.log(delta)
        start = min(orders.limits(q, sigma, float(steps), slack))
        value, lam = orders.best(_moments(q, sigma), float(steps), slack, guess=start)
        value, order = arguments.finite("sigma", sigma, value), lam + 1.0
    return Guarantee(value, delta=delta, kind="upper bound", adjacency="add/remove", sampling="Poisson", order=order)


def epsilon_curve(*, q: float, sigma: float, steps: ArrayLike, delta: float) -> NDArray[np.float64]:
    """Return what `epsilon` says for each of many numbers of steps, in the shape of `steps`, within 1e-4 of it.

    Upper bounds under add/remove with Poisson sampling. The moments are computed once for all: a thousand numbers of
    steps take some milliseconds.

    Raises:
        ValueError: if q or delta is not in [0, 1], sigma not in [0, inf), steps not an array of integers in [0, 2^53],
            or a result exceeds the range of floats.

    Source: as `epsilon`.
    """
    q = arguments.probability("q", q)
    sigma = arguments.real("sigma", sigma, 0.0)
    delta = arguments.probability("delta", delta)

    def others(counts: list[int]) -> dict[int, float]:
        slack, used = -math.log(delta), np.array(counts, dtype=np.float64)
        first, last = (min(orders.limits(q, sigma, float(t), slack)) for t in (used[-1], used[0]))
        found = orders.curve(_moments(q, sigma), used, slack, guesses=(first, last))
        return dict(zip(counts, arguments.finite("sigma", sigma, found).tolist(), strict=True))

    return after_each(steps, lambda count: without_accounting(q, sigma, count, delta), others, most=2.0**53)


@np.errstate(over="ignore", under="ignore")
def conversion_classic(order: ArrayLike, *, rdp: ArrayLike, delta: float) -> NDArray[np.float64]:
    """Return epsilon = rdp + log(1/delta)/(order - 1); `order` and `rdp` broadcast. Infinite at delta = 0.

    Raises:
        ValueError: if an order is not in (1, inf), an rdp not in [0, inf), or delta not in [0, 1].

    Source: Mironov, "Rényi differential privacy", CSF 2017, Proposition 3; it is the lecture's tail bound.
    """
    a, r, slack = _conversion(order, rdp, delta)
    return (r + slack / (a - 1.0))[()]


@np.errstate(over="ignore", under="ignore")
def conversion_improved(order: ArrayLike, *, rdp: ArrayLike, delta: float) -> NDArray[np.float64]:
    """Return max(0, rdp + log(1 - 1/order) + (log(1/delta) - log(order))/(order - 1)), as proved above.

    `order` and `rdp` broadcast. The formula may be negative for large orders; (0, delta)-privacy then holds. Never
    above `conversion_classic`. Infinite at delta = 0.

    Raises:
        ValueError: if an order is not in (1, inf), an rdp not in [0, inf), or delta not in [0, 1].

    Source: Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, Proposition
    12 of arXiv:2004.00010v4.
    """
    a, r, slack = _conversion(order, rdp, delta)
    return np.maximum(0.0, r + np.log1p(-1.0 / a) + (slack - np.log(a)) / (a - 1.0))[()]


def poisson_subsampled_upper(order: int, *, q: float, rdp: Callable[[int], float]) -> float:
    """Return an upper bound on the Rényi divergence of a mechanism on a Poisson sample, at one integer order.

    Neighbours: add/remove, for the mechanism and the result. rdp(l) is called for l = 2, ..., order and must bound the
    mechanism's divergence at order l in both directions. 0 at q = 0, rdp(order) at q = 1.

    Raises:
        ValueError: if order is not an integer in [2, 10^6], q not in [0, 1], or rdp not a function that returns
            numbers in [0, inf).

    Source: Zhu and Wang, "Poisson subsampled Rényi differential privacy", ICML 2019, the bound for general mechanisms.
    """
    order, q, curve = _curve_arguments(order, q, rdp)
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
    order, q, curve = _curve_arguments(order, q, rdp)
    return _expansion(order, q, curve, np.ones(order - 1)) if q < 1.0 else float(curve[-1])


def _moments(q: float, sigma: float) -> orders.Moment:
    """The log-moments as a function of lambda that keeps its quadrature nodes."""
    kept: dict[float, Nodes] = {}
    return lambda lam: log_moments(lam, q, sigma, kept)


def _orders(order: ArrayLike) -> NDArray[np.float64]:
    return arguments.array("order", order, low=1.0, low_open=True)


def _conversion(
    order: ArrayLike, rdp: ArrayLike, delta: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    a = arguments.array("order", order, low=1.0, low_open=True)
    r = arguments.array("rdp", rdp, low=0.0)
    try:
        a, r = np.broadcast_arrays(a, r)
    except ValueError:
        raise ValueError(f"rdp must broadcast with order of shape {a.shape}, got an array of shape {r.shape}") from None
    delta = arguments.probability("delta", delta)
    return a, r, -math.log(delta) if delta > 0.0 else math.inf


@np.errstate(under="ignore")
def _expansion(order: int, q: float, curve: NDArray[np.float64], factors: NDArray[np.float64]) -> float:
    r"""$\log \bigl(1 + \sum_{l \ge 2} \binom al q^l (1-q)^{a-l} (c_l e^{(l-1)R(l)} - 1)\bigr) / (a - 1)$.

    This is the theorem with $\sum_l \binom al q^l (1-q)^{a-l} = 1$ taken out, so that every term is >= 0.
    """
    if q == 0.0:
        return 0.0
    sizes = np.arange(2.0, order + 1.0)
    logs = gammaln(order + 1.0) - gammaln(sizes + 1.0) - gammaln(order - sizes + 1.0)
    logs = logs + sizes * math.log(q) + (order - sizes) * math.log1p(-q)
    logs += numerics.log_expm1(np.log(factors) + (sizes - 1.0) * curve)
    top = max(0.0, float(logs.max()))
    total = float(np.exp(logs - top).sum())
    return (math.log1p(total) if top == 0.0 else top + math.log(math.exp(-top) + total)) / (order - 1)


def _curve_arguments(order: int, q: float, rdp: Callable[[int], float]) -> tuple[int, float, NDArray[np.float64]]:
    order = arguments.integer("order", order, 2, 10**6)
    q = arguments.probability("q", q)
    if not callable(rdp):
        raise ValueError(f"rdp must be a function of an integer order, got {reprlib.repr(rdp)}")
    curve = [arguments.real("rdp", rdp(size), 0.0) for size in range(2, order + 1)]
    return order, q, np.array(curve)
