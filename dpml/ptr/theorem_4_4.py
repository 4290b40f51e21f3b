r"""The paper's bound on subsampled propose-test-release, where it may be used, and the black-box bounds beside it.

Theorem (4.4). Let $q' = q / (q + (1-q) e^{-1/b})$ and $L = \log(1 + 1/(q'(a-1)))$. If

.. math::

    q \le \frac{e^{-1/b}}{4 + e^{-1/b}}, \qquad \sigma \ge \sigma_2 = \sigma\tau \ge 4, \qquad
    a \le \tfrac12 \sigma_2^2 L - 2 \log \sigma_2, \qquad
    a \le \frac{\sigma_2^2 L^2/2 - \log 5 - 2 \log \sigma_2}{L + \log(q' a) + 1/(2\sigma_2^2)} ,

then the divergence of order a of one sampled step is at most $\log(\max(B_0, B_1, B_2))/(a-1)$, where, with the Laplace
loss l under Q and $f = 1 - q + q e^l$,

.. math::

    B_0 = 1 + 2 q^2 a (a-1) \Bigl(\frac{1-\delta_0}{\sigma^2} + \frac{\delta_0}{\sigma_2^2}\Bigr), \quad
    B_1 = \mathbb E[f^a] + c\, \mathbb E[q^2 e^{2l} f^{a-2}], \quad
    B_2 = \mathbb E[f^{1-a}] + c\, \mathbb E[q^2 e^{2l} f^{-1-a}], \quad c = \frac{2a(a-1)}{\sigma^2} .

(The paper writes the second expectations as $R_a - 2(1-q) R_{a-1} + (1-q)^2 R_{a-2}$; here nothing cancels.)

Why the conditions: given the noisy margin, what is left is a subsampled Gaussian step whose probability depends on the
margin and is at most q', and for that a bound of Mironov, Talwar and Zhang (2019) is used, which needs noise of at
least 4 and small orders. None of the paper's own experiments has sigma_2 >= 4. Outside the conditions the formula
falls below the truth, so the function refuses. `dpml.ptr.exact` needs no conditions and is never larger.

Neighbours: add/remove.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpml import arguments
from dpml.accounting.rdp_subsampling import poisson_subsampled_upper
from dpml.ptr import _moments
from dpml.ptr._checked import Parameters, parameters
from dpml.ptr.exact import exact_subsampled_rdp
from dpml.ptr.theorems import theorem_4_3

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["black_box_lower", "black_box_upper", "theorem_4_4", "theorem_4_4_formula", "theorem_4_4_last_order"]


def theorem_4_4(
    order: ArrayLike, *, q: float, sigma: float, tau: float, scale: float, delta0: float
) -> NDArray[np.float64]:
    r"""Return the paper's bound on the Rényi divergence of one sampled step, in the shape of `order`.

    Refused outside its conditions, by the name of the argument that breaks the first of them; `exact_subsampled_rdp`
    has no conditions.

    Raises:
        ValueError: if a condition of the theorem fails for one of the orders; otherwise as `theorem_4_4_formula`.

    Source: the PTR paper (Wang et al., NeurIPS 2022), Theorem 4.4, with the conditions of its full version in the
    appendix.

    Printed: in the main text $B_1$ and $B_2$ have $2a(a-1)$ before the bracket. At sigma = 40, tau = 0.1, b = 1,
    q = 0.01 and order 4 that is a bound of 1.696e-3.

    Implemented: $2a(a-1)/\sigma^2$, as in the appendix: 1.736e-4 in the same place, where the exact value is 1.728e-4.
    """
    a, q, given = _checked(order, q, sigma, tau, scale, delta0)
    worst = _problem(float(a.max()), q, given) if a.size else None
    if worst is not None:
        raise ValueError(f"{worst}: Theorem 4.4 holds only there")
    return theorem_4_4_formula(order, q=q, sigma=sigma, tau=tau, scale=scale, delta0=delta0)


def theorem_4_4_formula(
    order: ArrayLike, *, q: float, sigma: float, tau: float, scale: float, delta0: float
) -> NDArray[np.float64]:
    """Return the bare formula of Theorem 4.4 at any order, in the shape of `order`: a formula, not a guarantee.

    For the figures that show where it fails.

    Raises:
        ValueError: if an order is not in (1, 10^6] or exceeds 10^6 scale, q not in [0, 1), sigma not in (0, inf),
            tau not in (0, 1], scale not in [0.01, 1e6] or delta0 not in (0, 1/2].

    Source: the PTR paper (Wang et al., NeurIPS 2022), Theorem 4.4, full version in the appendix, without conditions.
    """
    a, q, given = _checked(order, q, sigma, tau, scale, delta0)
    if q == 0.0 or a.size == 0:
        return np.zeros(a.shape)[()]
    flat = a.reshape(-1)
    lam = flat - 1.0
    law = _moments.laplace_law(1.0 / given.scale, float(flat.max()) + 2.0)
    log_square = 2.0 * (math.log(q) + law.points) + law.log_weights
    log_c = np.log(2.0 * flat * lam) - 2.0 * math.log(given.sigma)
    loss = np.log1p(q * np.expm1(law.points)) if q < 0.5 else np.log((1.0 - q) + q * np.exp(law.points))
    inverse = (1.0 - given.delta0) / given.sigma**2 + given.delta0 / given.sigma2**2
    logs = [np.log1p(2.0 * q * q * flat * lam * inverse)]
    for first, power in (
        (_moments.log_forward(lam, law, q), flat - 2.0),
        (_moments.log_reverse(lam, law, q), -1.0 - flat),
    ):
        second = log_c + _log_sum(power, loss, log_square)
        small = np.maximum(first, second) < 1.0
        near = np.log1p(np.expm1(np.minimum(first, 1.0)) + np.exp(np.minimum(second, 1.0)))
        logs.append(np.where(small, near, np.logaddexp(first, second)))
    return np.asarray(np.max(logs, axis=0) / lam).reshape(a.shape)[()]


def theorem_4_4_last_order(*, q: float, sigma: float, tau: float, scale: float) -> float:
    """Return the largest order at which Theorem 4.4 may be used, rounded down; 1.0 where it may not be used at all.

    All orders above 1 and up to it satisfy the conditions. Infinite at q = 0.

    Raises:
        ValueError: if q is not in [0, 1), sigma not in (0, inf), tau not in (0, 1] or scale not in [0.01, 1e6].

    Source: the PTR paper (Wang et al., NeurIPS 2022), Theorem 4.4, full version in the appendix.
    """
    _, q, given = _checked(2.0, q, sigma, tau, scale, 0.5)
    if q == 0.0:
        return math.inf
    low, high = 1.0 + 2.0**-50, 2.0
    if _problem(low, q, given) is not None:
        return 1.0
    while _problem(high, q, given) is None:
        low, high = high, 2.0 * high
    while low < (middle := (low + high) / 2.0) < high:
        low, high = (middle, high) if _problem(middle, q, given) is None else (low, middle)
    return low


def black_box_upper(order: int, *, q: float, sigma: float, tau: float, scale: float, delta0: float) -> float:
    """Return the bound for any mechanism with the Rényi curve of Theorem 4.3, at an integer order.

    Valid for all parameters; at order 2 it is exact.

    Raises:
        ValueError: if order is not an integer in [2, 10^6] or q not in [0, 1]; otherwise as `theorem_4_3`.

    Source: Zhu and Wang, "Poisson subsampled Rényi differential privacy", ICML 2019, the bound for general mechanisms;
    the PTR paper (Wang et al., NeurIPS 2022), section 4.3, which compares with it.
    """
    order, curve = _curve(order, sigma, tau, scale, delta0)
    return poisson_subsampled_upper(order, q=q, rdp=lambda size: float(curve[size - 2]))


def black_box_lower(order: int, *, q: float, sigma: float, tau: float, scale: float, delta0: float) -> float:
    """Return the lower bound for mechanisms with the Rényi curves of the two cases, at an integer order.

    Taken in each case by itself it is the exact value. The paper puts the larger of the two cases, order by order,
    into the formula, although no one pair of datasets attains both; the result may exceed the truth, by 0.5% at
    q = 0.02048, sigma = 1.1, tau = 2/3, b = 1, delta0 = 1e-8 and order 8.

    Raises:
        ValueError: if order is not an integer in [2, 10^6]; otherwise as `exact_subsampled_rdp`.

    Source: Zhu and Wang, "Poisson subsampled Rényi differential privacy", ICML 2019, the lower bound.
    """
    order = arguments.integer("order", order, 2, 10**6)
    return float(exact_subsampled_rdp(order, q=q, sigma=sigma, tau=tau, scale=scale, delta0=delta0))


def _problem(order: float, q: float, given: Parameters) -> str | None:
    """What breaks the first condition that fails, for orders up to the given one."""
    if q == 0.0:
        return None
    ratio = math.exp(-1.0 / given.scale)
    if q > ratio / (4.0 + ratio):
        return f"q must be at most exp(-1/scale)/(4 + exp(-1/scale)) = {ratio / (4.0 + ratio):g}, got {q!r}"
    s = given.sigma2
    if s < 4.0:
        return f"sigma must be at least 4/tau = {4.0 / given.tau:g}, got {given.sigma!r}"
    largest = q / (q + (1.0 - q) * ratio)
    log = math.log1p(1.0 / (largest * (order - 1.0)))
    limit = 0.5 * s * s * log - 2.0 * math.log(s)
    if order > limit:
        return f"order must be at most sigma2^2 L/2 - 2 log(sigma2) = {limit:g}, got {order!r}"
    top = 0.5 * s * s * log * log - math.log(5.0) - 2.0 * math.log(s)
    limit = top / (log + math.log(largest * order) + 0.5 / (s * s))
    if order > limit:
        return f"order must be at most what the last condition allows, {limit:g}, got {order!r}"
    return None


def _log_sum(powers: NDArray[np.float64], loss: NDArray[np.float64], logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """log of the sum of e^(power loss + log) over the points, for each power; one row at a time to save memory."""
    result = np.empty(powers.shape)
    for i, power in enumerate(powers):
        exponents = power * loss + logs
        top = float(exponents.max())
        result[i] = top + math.log(float(np.exp(exponents - top).sum()))
    return result


def _curve(order: int, sigma: float, tau: float, scale: float, delta0: float) -> tuple[int, NDArray[np.float64]]:
    order = arguments.integer("order", order, 2, 10**6)
    return order, theorem_4_3(np.arange(2.0, order + 1.0), sigma=sigma, tau=tau, scale=scale, delta0=delta0)


def _checked(
    order: ArrayLike, q: float, sigma: float, tau: float, scale: float, delta0: float
) -> tuple[NDArray[np.float64], float, Parameters]:
    a = arguments.array("order", order, low=1.0, low_open=True, high=1e6)
    q = arguments.real("q", q, 0.0, 1.0, high_open=True)
    given = parameters(sigma, tau, scale, delta0)
    if a.size and float(a.max()) > 1e6 * given.scale:
        raise ValueError(f"order must be at most 10^6 scale = {1e6 * given.scale:g}, got {float(a.max())!r}")
    return a, q, given
