r"""The theorems of the propose-test-release paper: 4.2 and 4.3, proved and corrected, and 4.4 where it may be used.

Setting. The answers f_1 and f_2 have global sensitivity 1. The mechanism measures how many records must change until
the local sensitivity of f_2 exceeds $\tau$, adds Laplace noise of scale b, and calls the sum $\hat\Delta$. It publishes
$\hat\Delta$ and

.. math::

    f_1(S) + N(0, \sigma^2) \text{ if } \hat\Delta \le B, \qquad
    f_2(S) + N(0, (\sigma\tau)^2) \text{ if } \hat\Delta > B, \qquad B = b \log\frac{1}{2\delta_0} .

Two cases, for neighbours S and S':

1. Both local sensitivities exceed tau. Both margins are 0, so $\hat\Delta$ has the same law on S and S', and passes the
   threshold with probability delta0. The answer moves by up to 1, under noise sigma or, with probability delta0, only
   sigma tau.
2. One of them is at most tau. Then f_2 moves by at most tau and the margin by at most 1. Given $\hat\Delta$, the
   answer is a Gaussian mechanism of noise multiplier sigma on either side of B. Dividing what is above B by tau is a
   bijection: the worst pair is Lap(1, b) x N(1, sigma^2) against Lap(0, b) x N(0, sigma^2), a Laplace and a Gaussian
   mechanism, independent of each other.

Theorem (4.3). With the Rényi curves of Gaussian and Laplace noise the divergence of order a is at most

.. math::

    \max\Bigl\{ \frac{1}{a-1} \log\bigl[(1-\delta_0) e^{(a-1)\,a/(2\sigma^2)}
    + \delta_0 e^{(a-1)\,a/(2\sigma^2\tau^2)}\bigr],\; R_{\text{Laplace}}(a) + \frac{a}{2\sigma^2} \Bigr\} ,

and each of the two is attained. Proof. In case 1 the branch is independent of the data, so moments are averages over
it. In case 2 moments of independent pairs multiply.

Here the neighbours are those for which both global sensitivities are 1 and the margin moves by at most 1: add/remove
for the margin that counts added and removed records, replace-one for the one that counts replaced records.

On a sample that holds each record with probability q:

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
falls below the truth, so the function refuses. `dpml.ptr.renyi` needs no conditions and is never larger.

The formula of Theorem 4.4 is kept as `theorem_4_4_formula`, and what it would claim for a whole training, whether or
not its conditions hold, as `paper_claim`: to stand beside the numbers of `dpml.ptr.privacy`, which need no conditions.
Neighbours on samples: add/remove.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments, mechanisms
from dpml.accounting import quadrature, rdp
from dpml.accounting.guarantee import Guarantee
from dpml.ptr import _moments
from dpml.ptr._checked import Parameters, parameters, two_noises
from dpml.ptr._moments import mixed_log

__all__ = [
    "Claim",
    "black_box_upper",
    "paper_claim",
    "rdp_case_1",
    "rdp_case_2",
    "theorem_4_2",
    "theorem_4_2_printed",
    "theorem_4_3",
    "theorem_4_4",
    "theorem_4_4_formula",
    "theorem_4_4_last_order",
]


def theorem_4_2(*, sigma: float, scale: float, delta0: float, delta: float) -> Guarantee:
    r"""Return what follows from (epsilon, delta)-composition: epsilon = 1/b + epsilon_Gauss(delta - delta0).

    `delta` is that of the result; delta0 of it pays for case 1, in which the test passes though it should not, and the
    rest goes to the Gaussian mechanism, whose exact epsilon is used. tau does not matter.

    Raises:
        ValueError: if sigma is not in [1e-100, 1e100], scale not in [0.01, 1e6], delta0 not in (0, 1/2] or delta not in
            (delta0, 1].

    Source: the PTR paper (Wang et al., NeurIPS 2022), Theorem 4.2; the Gaussian part is Balle and Wang, "Improving the
    Gaussian mechanism for differential privacy", ICML 2018, Theorem 8.

    Printed: $(e^{1/b} + \sigma\sqrt{2 \log(1.25/\delta)},\ \delta_0 + \delta)$. At sigma = 0.5, b = 1 and
    delta = 1e-5 beside delta0 = 1e-8 that is epsilon = 5.141.

    Implemented: $(1/b + \varepsilon_\sigma(\delta),\ \delta_0 + \delta)$ with the exact Gaussian $\varepsilon_\sigma$.
    In the same place that is epsilon = 10.998; the true delta at the printed 5.141 is 0.051 (tau = 0.5), five thousand
    times what is claimed. The printed Gaussian term grows with sigma, that is, with noise. And e^{1/b} bounds a ratio
    of probabilities, whose logarithm is 1/b. Even with sigma in the denominator the square root holds only for
    epsilon < 1.

    Counterexample: the printed epsilon, the right one, and the true delta at the printed one.

    >>> from dpml.ptr import single_release, theorems
    >>> setting = {"sigma": 0.5, "scale": 1.0, "delta0": 1e-8}
    >>> printed = theorems.theorem_4_2_printed(**setting, delta=1e-5)
    >>> (
    ...     round(printed, 3),
    ...     round(theorems.theorem_4_2(**setting, delta=1e-5).epsilon, 3),
    ... )
    (5.141, 10.998)
    >>> round(
    ...     single_release.single_delta(**setting, tau=0.5, epsilon=printed), 3
    ... )
    0.051
    """
    sigma, scale, delta0, delta = _direct(sigma, scale, delta0, delta)
    epsilon = mechanisms.laplace_epsilon(scale=scale) + mechanisms.gaussian_epsilon(sigma=sigma, delta=delta - delta0)
    return Guarantee(epsilon, delta=delta, kind="upper bound", adjacency="as the mechanism's")


def theorem_4_2_printed(*, sigma: float, scale: float, delta0: float, delta: float) -> float:
    r"""Return $e^{1/b} + \sigma\sqrt{2 \log(1.25/(\delta - \delta_0))}$: a formula, not a guarantee.

    It is what the theorem prints, kept to be refuted: for small sigma it lies far below the truth.

    Raises:
        ValueError: as `theorem_4_2`.

    Source: the PTR paper (Wang et al., NeurIPS 2022), Theorem 4.2, as printed; `theorem_4_2` says what is wrong.
    """
    sigma, scale, delta0, delta = _direct(sigma, scale, delta0, delta)
    return math.exp(1.0 / scale) + sigma * math.sqrt(2.0 * math.log(1.25 / (delta - delta0)))


def theorem_4_3(order: ArrayLike, *, sigma: float, tau: float, scale: float, delta0: float) -> NDArray[np.float64]:
    """Return the Rényi divergence of propose-test-release, in the shape of `order`: the larger of the two cases.

    Attained by some functions f_1, f_2 and datasets at every order, so no smaller number holds in general.

    Raises:
        ValueError: if an order is not in (1, inf), sigma not in [1e-100, 1e100], tau not in (0, 1], sigma tau below
            1e-100, scale not in [0.01, 1e6], delta0 not in (0, 1/2], or the result exceeds the range of floats.

    Source: the PTR paper (Wang et al., NeurIPS 2022), Theorem 4.3; that it is attained: own construction.
    """
    first = rdp_case_1(order, sigma=sigma, tau=tau, delta0=delta0)
    return np.asarray(np.maximum(first, rdp_case_2(order, sigma=sigma, scale=scale)))[()]


def rdp_case_1(order: ArrayLike, *, sigma: float, tau: float, delta0: float) -> NDArray[np.float64]:
    """Return the Rényi divergence where both local sensitivities exceed tau, in the shape of `order`.

    Raises:
        ValueError: if an order is not in (1, inf), sigma not in [1e-100, 1e100], tau not in (0, 1], sigma tau below
            1e-100, delta0 not in (0, 1/2], or the result exceeds the range of floats.

    Source: the PTR paper (Wang et al., NeurIPS 2022), Theorem 4.3, first term.
    """
    sigma, tau, _, delta0 = two_noises(parameters(sigma, tau, 1.0, delta0))
    a = arguments.array("order", order, low=1.0, low_open=True)
    wide = rdp.gaussian(a, sigma=sigma)
    with np.errstate(over="ignore"):
        exponent = (a - 1.0) * (a / sigma / tau / sigma / tau / 2.0)
    arguments.finite("tau", tau, exponent)
    return (mixed_log((a - 1.0) * wide, exponent, delta0) / (a - 1.0))[()]


def rdp_case_2(order: ArrayLike, *, sigma: float, scale: float) -> NDArray[np.float64]:
    """Return the Rényi divergence where one local sensitivity is at most tau, in the shape of `order`.

    Raises:
        ValueError: if an order is not in (1, inf), sigma not in [1e-100, 1e100], scale not in [0.01, 1e6], or the
            result exceeds the range of floats.

    Source: the PTR paper (Wang et al., NeurIPS 2022), Theorem 4.3, second term.
    """
    sigma, _, scale, _ = parameters(sigma, 1.0, scale, 0.5)
    return np.asarray(rdp.laplace(order, scale=scale) + rdp.gaussian(order, sigma=sigma))[()]


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

    Counterexample: the printed bound, which is the formula at sigma = tau = 1, the right one, and the exact value.

    >>> from dpml.ptr import privacy, theorems
    >>> setting = {
    ...     "q": 0.01,
    ...     "sigma": 40.0,
    ...     "tau": 0.1,
    ...     "scale": 1.0,
    ...     "delta0": 1e-8,
    ... }
    >>> unit = setting | {"sigma": 1.0, "tau": 1.0}
    >>> print(f"{float(theorems.theorem_4_4_formula(4, **unit)):.3e}")
    1.696e-03
    >>> for bound in (privacy.theorem_4_4, privacy.exact_subsampled_rdp):
    ...     print(f"{float(bound(4, **setting)):.3e}")
    1.736e-04
    1.728e-04
    """
    a, q, given = _sampled_arguments(order, q, sigma, tau, scale, delta0)
    worst = _problem(float(a.max()), q, given) if a.size else None
    if worst is not None:
        raise ValueError(f"{worst}: Theorem 4.4 holds only there")
    return theorem_4_4_formula(order, q=q, sigma=sigma, tau=tau, scale=scale, delta0=delta0)


@np.errstate(under="ignore")
def theorem_4_4_formula(
    order: ArrayLike, *, q: float, sigma: float, tau: float, scale: float, delta0: float
) -> NDArray[np.float64]:
    """Return the bare formula of Theorem 4.4 at any order, in the shape of `order`: a formula, not a guarantee.

    For the figures that show where it fails.

    Raises:
        ValueError: if an order is not in (1, 10^6], or exceeds 10^6 scale; if q is not in [0, 1), sigma not in
            [1e-100, 1e100], tau not in (0, 1], sigma tau below 1e-100, scale not in [0.01, 1e6] or delta0 not in
            (0, 1/2].

    Source: the PTR paper (Wang et al., NeurIPS 2022), Theorem 4.4, full version in the appendix, without conditions.
    """
    a, q, given = _sampled_arguments(order, q, sigma, tau, scale, delta0)
    if q == 0.0 or a.size == 0:
        return np.zeros(a.shape)[()]
    flat = a.reshape(-1)
    lam = flat - 1.0
    losses, log_weights = law = _moments.laplace_law(1.0 / given.scale, float(flat.max()) + 2.0)
    log_square = 2.0 * (math.log(q) + losses) + log_weights
    log_c = np.log(2.0 * flat * lam) - 2.0 * math.log(given.sigma)
    loss = np.log1p(q * np.expm1(losses)) if q < 0.5 else np.log((1.0 - q) + q * np.exp(losses))
    inverse = (1.0 - given.delta0) / given.sigma**2 + given.delta0 / given.sigma2**2
    logs = [np.log1p(2.0 * q * q * flat * lam * inverse)]
    for first, power in (
        (quadrature.log_moments(lam, quadrature.positive_powers(*law, q)), flat - 2.0),
        (quadrature.log_moments(lam, quadrature.negative_powers(*law, q)), -1.0 - flat),
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
        ValueError: if q is not in [0, 1), sigma not in [1e-100, 1e100], tau not in (0, 1], sigma tau below 1e-100 or
            scale not in [0.01, 1e6].

    Source: the PTR paper (Wang et al., NeurIPS 2022), Theorem 4.4, full version in the appendix.
    """
    _, q, given = _sampled_arguments(2.0, q, sigma, tau, scale, 0.5)
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
    return rdp.poisson_subsampled_upper(order, q=q, rdp=lambda size: float(curve[size - 2]))


class Claim(NamedTuple):
    """What the paper's formula gives for a run: a number, the order that gave it, and the condition that it breaks.

    `broken` is None where Theorem 4.4 may be used at this order; otherwise epsilon is no guarantee.

    Source: the PTR paper (Wang et al., NeurIPS 2022), Theorem 4.4.
    """

    epsilon: float
    order: float
    broken: str | None


def paper_claim(*, q: float, sigma: float, tau: float, scale: float, delta0: float, steps: int, delta: float) -> Claim:
    """Return what Theorem 4.4's formula would claim for `steps` steps, whether or not its conditions hold.

    Integer orders 2 to 200 as in the paper, with the improved conversion. For the trace of an experiment, beside the
    guarantee; never to be quoted where `broken` says something.

    Raises:
        ValueError: if q is not in (0, 1), sigma not in [1e-100, 1e100], tau not in (0, 1], sigma tau below 1e-100,
            scale not in [0.01, 1e6], delta0 not in (0, 1/2], steps not an integer in [1, 2^53] or delta not in (0, 1).

    Source: the PTR paper (Wang et al., NeurIPS 2022), Theorem 4.4; Canonne, Kamath and Steinke 2020.
    """
    steps = arguments.integer("steps", steps, 1, 2**53)
    scale = arguments.real("scale", scale, 0.01, 1e6)
    delta = arguments.real("delta", delta, 0.0, 1.0, low_open=True, high_open=True)
    given = {"q": arguments.real("q", q, 0.0, 1.0, low_open=True, high_open=True), "sigma": sigma, "tau": tau}
    orders = np.arange(2.0, min(200.0, 1e6 * scale) + 1.0)
    curve = theorem_4_4_formula(orders, **given, scale=scale, delta0=delta0)
    epsilons = np.atleast_1d(rdp.conversion_improved(orders, rdp=steps * curve, delta=delta))
    best = int(np.argmin(epsilons))
    try:
        theorem_4_4(float(orders[best]), **given, scale=scale, delta0=delta0)
        broken = None
    except ValueError as error:
        broken = str(error)
    return Claim(float(epsilons[best]), float(orders[best]), broken)


def _direct(sigma: float, scale: float, delta0: float, delta: float) -> tuple[float, float, float, float]:
    sigma, _, scale, delta0 = parameters(sigma, 1.0, scale, delta0)
    return sigma, scale, delta0, arguments.real("delta", delta, delta0, 1.0, low_open=True)


@np.errstate(under="ignore")
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
    log_largest = math.log(largest)
    log = float(np.logaddexp(0.0, -log_largest - math.log(order - 1.0)))
    limit = 0.5 * s * s * log - 2.0 * math.log(s)
    if order > limit:
        return f"order must be at most sigma2^2 L/2 - 2 log(sigma2) = {limit:g}, got {order!r}"
    top = 0.5 * s * s * log * log - math.log(5.0) - 2.0 * math.log(s)
    limit = top / (log + log_largest + math.log(order) + 0.5 / (s * s))
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


def _sampled_arguments(
    order: ArrayLike, q: float, sigma: float, tau: float, scale: float, delta0: float
) -> tuple[NDArray[np.float64], float, Parameters]:
    a = arguments.array("order", order, low=1.0, low_open=True, high=1e6)
    q = arguments.real("q", q, 0.0, 1.0, high_open=True)
    given = two_noises(parameters(sigma, tau, scale, delta0))
    if a.size and float(a.max()) > 1e6 * given.scale:
        raise ValueError(f"order must be at most 10^6 scale = {1e6 * given.scale:g}, got {float(a.max())!r}")
    return a, q, given
