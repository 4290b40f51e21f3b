r"""Propose-test-release without sampling: the paper's Theorems 4.2 and 4.3, proved and corrected.

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

The neighbours are those for which both global sensitivities are 1 and the margin moves by at most 1: add/remove for the
margin that counts added and removed records, replace-one for the one that counts replaced records.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpml import arguments, mechanisms
from dpml.accounting import rdp
from dpml.accounting.guarantee import Guarantee
from dpml.ptr._checked import branch, parameters
from dpml.ptr._moments import mixed_log

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["rdp_case_1", "rdp_case_2", "theorem_4_2", "theorem_4_2_printed", "theorem_4_3"]


def theorem_4_2(*, sigma: float, scale: float, delta0: float, delta: float) -> Guarantee:
    r"""Return what follows from (epsilon, delta)-composition: epsilon = 1/b + epsilon_Gauss(delta - delta0).

    `delta` is that of the result; delta0 of it pays for case 1, in which the test passes though it should not, and the
    rest goes to the Gaussian mechanism, whose exact epsilon is used. tau does not matter.

    Raises:
        ValueError: if sigma is not in (0, inf), scale not in [0.01, 1e6], delta0 not in (0, 1/2] or delta not in
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
        ValueError: if an order is not in (1, inf), sigma not in (0, inf), tau not in (0, 1], scale not in [0.01, 1e6],
            delta0 not in (0, 1/2], or the result exceeds the range of floats.

    Source: the PTR paper (Wang et al., NeurIPS 2022), Theorem 4.3; that it is attained: own construction.
    """
    first = rdp_case_1(order, sigma=sigma, tau=tau, delta0=delta0)
    return np.asarray(np.maximum(first, rdp_case_2(order, sigma=sigma, scale=scale)))[()]


def rdp_case_1(order: ArrayLike, *, sigma: float, tau: float, delta0: float) -> NDArray[np.float64]:
    """Return the Rényi divergence where both local sensitivities exceed tau, in the shape of `order`.

    Raises:
        ValueError: if an order is not in (1, inf), sigma not in (0, inf), tau not in (0, 1], delta0 not in (0, 1/2],
            or the result exceeds the range of floats.

    Source: the PTR paper (Wang et al., NeurIPS 2022), Theorem 4.3, first term.
    """
    sigma, tau, _, delta0 = parameters(sigma, tau, 1.0, delta0)
    a = arguments.array("order", order, low=1.0, low_open=True)
    wide = rdp.gaussian(a, sigma=sigma)
    with np.errstate(over="ignore"):
        narrow = a / sigma / tau / sigma / tau / 2.0
        finite = np.isfinite((a - 1.0) * narrow).all()
    if not finite:
        raise ValueError(f"tau must keep the result within the range of floats, got {tau!r}")
    return (mixed_log((a - 1.0) * wide, (a - 1.0) * narrow, delta0) / (a - 1.0))[()]


def rdp_case_2(order: ArrayLike, *, sigma: float, scale: float) -> NDArray[np.float64]:
    """Return the Rényi divergence where one local sensitivity is at most tau, in the shape of `order`.

    Raises:
        ValueError: if an order is not in (1, inf), sigma not in (0, inf), scale not in [0.01, 1e6], or the result
            exceeds the range of floats.

    Source: the PTR paper (Wang et al., NeurIPS 2022), Theorem 4.3, second term.
    """
    sigma, _, scale, _ = parameters(sigma, 1.0, scale, 0.5)
    return np.asarray(rdp.laplace(order, scale=scale) + rdp.gaussian(order, sigma=sigma))[()]


def _direct(sigma: float, scale: float, delta0: float, delta: float) -> tuple[float, float, float, float]:
    sigma, _, scale, _ = parameters(sigma, 1.0, scale, 0.5)
    delta0 = branch("delta0", delta0)
    return sigma, scale, delta0, arguments.real("delta", delta, delta0, 1.0, low_open=True)
