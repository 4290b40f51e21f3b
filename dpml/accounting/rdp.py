r"""Rényi differential privacy: curves of single mechanisms, their sum, and the conversion to (epsilon, delta).

The Rényi divergence of order $a > 1$ is

.. math::

    D_a(P \,\|\, Q) = \frac{1}{a-1} \log \mathbb E_Q\bigl[(P/Q)^a\bigr] .

M is (a, R)-Rényi private if $D_a(M(D) \,\|\, M(D')) \le R$ for all neighbours in both directions; $(a-1) R$ is the
lecture's log-moment at $\lambda = a - 1$ (`dpml.accounting.moments`).

Theorem (composition). The R of mechanisms used one after another, each chosen after seeing the outputs before it, add
up at each order.

Theorem (conversion; proved in `dpml.accounting.rdp_conversion`). An (a, R)-Rényi private mechanism is
$(\varepsilon, \delta)$-private with the classic
$\varepsilon = R + \log(1/\delta)/(a-1)$ and with the smaller

.. math::

    \varepsilon = R + \log\Bigl(1 - \frac1a\Bigr) + \frac{\log(1/\delta) - \log a}{a - 1} .

The Gaussian curves hold for the noise multiplier sigma (sensitivity 1) and for whichever neighbours the sensitivity
was computed; all that is subsampled here is add/remove with Poisson sampling, but for `without_replacement_upper`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpml import arguments
from dpml.accounting import _quick_order, orders
from dpml.accounting._positive_terms import exp_excess
from dpml.accounting._subsampled_gaussian import Nodes, log_moments, refuse_overflow, without_noise
from dpml.accounting.guarantee import Guarantee
from dpml.accounting.rdp_conversion import conversion_classic, conversion_improved
from dpml.accounting.rdp_subsampling import (
    poisson_subsampled_lower,
    poisson_subsampled_upper,
    without_replacement_upper,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

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
    "without_replacement_upper",
]

_LARGE = 600.0  # beyond this exponents are not formed


def gaussian(order: ArrayLike, *, sigma: float) -> NDArray[np.float64]:
    """Return order/(2 sigma^2), the Rényi divergence of the Gaussian mechanism, in the shape of `order`.

    Exact; the neighbours are those for which the L2 sensitivity is 1.

    Raises:
        ValueError: if an order is not in (1, inf), sigma not in (0, inf), or the result exceeds the range of floats.

    Source: Mironov, "Rényi differential privacy", CSF 2017, Proposition 7.
    """
    a = _orders(order)
    sigma = arguments.real("sigma", sigma, 0.0, low_open=True)
    with np.errstate(over="ignore"):
        return _finite(a / sigma / (2.0 * sigma), "sigma", sigma)


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
    with np.errstate(over="ignore"):
        c = _finite(np.divide(1.0, scale), "scale", scale)
        up, down = np.minimum(lam * c, _LARGE), np.maximum(-a * c, -1e300)
    first, second = a / (2.0 * a - 1.0), lam / (2.0 * a - 1.0)
    moderate = np.log1p(first * exp_excess(up) + second * exp_excess(down)) / lam
    large = c + np.log(first) / lam  # the other term is below e^-600 of this one
    return np.where(up < _LARGE, moderate, large)[()]


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
    with np.errstate(over="ignore"):
        t = np.minimum(lam * epsilon, _LARGE)
    excess = 2.0 * np.sinh(t / 2.0) ** 2 + math.tanh(epsilon / 2.0) * np.sinh(t)
    large = epsilon - math.log1p(math.exp(-epsilon)) / lam
    return np.where(t < _LARGE, np.log1p(excess) / lam, large)[()]


def subsampled_gaussian(order: ArrayLike, *, q: float, sigma: float) -> NDArray[np.float64]:
    """Return the Rényi divergence of one step of the Poisson-subsampled Gaussian mechanism, in the shape of `order`.

    Any real orders in (1, 10^18]; the larger of the two directions. Neighbours: add/remove. Relative error below 1e-12
    for q >= 1e-200, by quadrature of terms that are all positive (`dpml.accounting._subsampled_gaussian` says why).
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
    return _finite((log_moments(lam, q, sigma) / lam).reshape(a.shape), "sigma", sigma)


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
    value, order = without_noise(q, sigma, steps, delta), None
    if value is None:
        value, lam = _best(q, sigma, float(steps), -math.log(delta))
        value, order = refuse_overflow(value, sigma), lam + 1.0
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
    counts = arguments.array("steps", steps, low=0.0, high=2.0**53)
    if (counts != np.floor(counts)).any():
        raise ValueError("steps must be an array of integers in [0, 2^53], got fractions")
    result = np.zeros(counts.shape)
    if sigma == 0.0 or q == 0.0 or delta == 0.0:
        flat = [without_noise(q, sigma, int(t), delta) for t in counts.reshape(-1)]
        return np.array(flat, dtype=np.float64).reshape(counts.shape)[()]
    some = counts > 0.0
    if some.any():
        slack, used = -math.log(delta), counts[some]
        if used.min() == used.max():
            result[some] = _best(q, sigma, float(used.max()), slack)[0]
            return _finite(result, "sigma", sigma)
        guesses = tuple(orders.guess(q, sigma, float(t), slack) for t in (used.max(), used.min()))
        with np.errstate(over="ignore"):
            result[some] = orders.curve(_moments(q, sigma), used, slack, guesses=(guesses[0], guesses[1]))
    return _finite(result, "sigma", sigma)


def _best(q: float, sigma: float, steps: float, log_inverse_delta: float) -> tuple[float, float]:
    """The least epsilon found and its lambda: by the quick search where it can answer."""
    found = _quick_order.best(q, sigma, steps, log_inverse_delta)
    if found is None:
        start = orders.guess(q, sigma, steps, log_inverse_delta)
        with np.errstate(over="ignore"):
            found = orders.best(_moments(q, sigma), steps, log_inverse_delta, guess=start)
    return found


def _moments(q: float, sigma: float) -> orders.Moment:
    """The log-moments as a function of lambda that keeps its quadrature nodes."""
    kept: dict[float, Nodes] = {}
    return lambda lam: log_moments(lam, q, sigma, kept)


def _orders(order: ArrayLike) -> NDArray[np.float64]:
    return arguments.array("order", order, low=1.0, low_open=True)


def _finite(values: NDArray[np.float64], name: str, argument: float) -> NDArray[np.float64]:
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must keep the result within the range of floats, got {argument!r}")
    return values[()]
