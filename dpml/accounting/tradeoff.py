r"""Privacy as a limit on every test: the picture of false positive and false negative rates.

An attacker sees one output and guesses whether the data were D (positive) or D'. Let alpha be the probability of
guessing D when they were D' (false positive rate, `fpr`) and beta that of guessing D' when they were D (false
negative rate).

Theorem (Kairouz, Oh and Viswanath 2015; one direction at delta = 0: Wasserman and Zhou 2010). M is
$(\varepsilon, \delta)$-differentially private if and only if every test satisfies

.. math::

    \beta \ge \max\bigl(0,\ 1 - \delta - e^\varepsilon \alpha,\ e^{-\varepsilon}(1 - \delta - \alpha)\bigr).

Proof. Let E be the set of outputs on which the test guesses D. Privacy for E gives
$1 - \beta \le e^\varepsilon \alpha + \delta$, privacy for its complement with D and D' exchanged gives
$1 - \alpha \le e^\varepsilon \beta + \delta$. Conversely, every event is the E of some test.

For one known pair of output laws the best test is a likelihood-ratio test (Neyman and Pearson); for Gaussian and
Laplace noise around 0 (D) and 1 (D') it guesses D where the output lies below a threshold, and beta is a closed form:

.. math::

    \beta_{\text{Gauss}} = \Phi\bigl(\Phi^{-1}(1 - \alpha) - 1/\sigma\bigr), \qquad
    \beta_{\text{Lap}} = \begin{cases}
        1 - e^{1/b} \alpha & \alpha \le e^{-1/b}/2 \\
        e^{-1/b}/(4\alpha) & e^{-1/b}/2 \le \alpha \le 1/2 \\
        e^{-1/b}(1 - \alpha) & \alpha \ge 1/2 .
    \end{cases}

The neighbouring relation is that of the mechanism.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from dpml import arguments

__all__ = ["fnr_lower_bound", "gaussian_fnr", "laplace_fnr"]


@np.errstate(under="ignore")
def fnr_lower_bound(fpr: ArrayLike, *, epsilon: float, delta: float) -> NDArray[np.float64]:
    """Return the least false negative rate that (epsilon, delta)-privacy allows at each `fpr`, in its shape.

    Raises:
        ValueError: if fpr or delta is not in [0, 1] or epsilon not in [0, inf).

    Source: P. Kairouz, S. Oh and P. Viswanath, "The composition theorem for differential privacy", ICML 2015, whose
    privacy region has both directions; L. Wasserman and S. Zhou, "A statistical framework for differential privacy",
    JASA 105 (2010), has the limit on every test for delta = 0.
    """
    alpha = arguments.array("fpr", fpr, low=0.0, high=1.0)
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    delta = arguments.probability("delta", delta)
    with np.errstate(divide="ignore"):  # log(0) = -inf is what is meant at fpr = 0
        grown = np.exp(np.minimum(epsilon + np.log(alpha), 1.0))  # beyond 1 the bound is 0 anyway
    grown = alpha * math.exp(epsilon) if epsilon < 700.0 else grown
    steep = 1.0 - delta - grown
    flat = math.exp(-epsilon) * (1.0 - delta - alpha)
    return (np.maximum(0.0, np.maximum(steep, flat)) + 0.0)[()]  # the sum turns -0.0 into 0.0


@np.errstate(under="ignore")
def gaussian_fnr(fpr: ArrayLike, *, sigma: float) -> NDArray[np.float64]:
    """Return the false negative rate of the best test against Gaussian noise at each `fpr`, in its shape. Exact.

    Raises:
        ValueError: if fpr is not in [0, 1] or sigma not in (0, inf).

    Source: J. Dong, A. Roth and W. J. Su, "Gaussian differential privacy", JRSS B 84 (2022), section 2.
    """
    alpha = arguments.array("fpr", fpr, low=0.0, high=1.0)
    sigma = arguments.real("sigma", sigma, 0.0, low_open=True)
    shift = min(1.0 / sigma, 1e300)  # finite, so that at fpr = 0 no infinity is subtracted from another
    beta: NDArray[np.float64] = ndtr(-ndtri(alpha) - shift)[()]
    return beta


@np.errstate(under="ignore")
def laplace_fnr(fpr: ArrayLike, *, scale: float) -> NDArray[np.float64]:
    """Return the false negative rate of the best test against Laplace noise at each `fpr`, in its shape. Exact.

    Raises:
        ValueError: if fpr is not in [0, 1] or scale not in (0, inf).

    Source: J. Dong, A. Roth and W. J. Su, "Gaussian differential privacy", JRSS B 84 (2022), for trade-off
    functions; derived from the two distribution functions.
    """
    alpha = arguments.array("fpr", fpr, low=0.0, high=1.0)
    scale = arguments.real("scale", scale, 0.0, low_open=True)
    root = math.exp(-0.5 / scale)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        # alpha e^{1/b} and its inverse, by roots, since e^{-1/b} may have lost its digits or be 0
        ratio = np.where(alpha > 0.0, (np.sqrt(alpha) / root) ** 2, 0.0)
        middle = (0.5 * root / np.sqrt(alpha)) ** 2
    few = 1.0 - np.minimum(ratio, 0.5)
    return np.where(ratio <= 0.5, few, np.where(alpha <= 0.5, middle, root * root * (1.0 - alpha)))[()]
