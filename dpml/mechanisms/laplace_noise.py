r"""The Laplace mechanism: add noise with density $\frac{1}{2b} e^{-|z|/b}$ to an answer of sensitivity 1.

Let D give the true answer 0 and a neighbour D' the answer 1: no other pair is farther apart. The privacy loss
of an output y, and the least delta for each epsilon, are

.. math::

    \ell(y) = \log\frac{p_D(y)}{p_{D'}(y)} = \frac{|y - 1| - |y|}{b}, \qquad
    \delta(\varepsilon) = \max\bigl(0,\ 1 - e^{(\varepsilon - 1/b)/2}\bigr).

Theorem. The mechanism is (1/b, 0)-differentially private, and no smaller epsilon holds with delta = 0.

Proof. By the triangle inequality the loss lies between -1/b and 1/b, and it equals 1/b for every y <= 0.
For the delta: the loss exceeds epsilon < 1/b exactly where y < t = (1 - b epsilon)/2, so delta is
P(y < t | D) - e^epsilon P(y < t | D') = 1 - e^{-t/b}/2 - e^epsilon e^{(t-1)/b}/2, and both terms are equal.

The result holds for every neighbouring relation for which the sensitivity of the answer is at most 1. For an
array of answers, each with independent noise, the sensitivity is that of the whole array in the L1 norm.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments

__all__ = [
    "laplace",
    "laplace_delta",
    "laplace_density",
    "laplace_epsilon",
    "laplace_loss",
    "laplace_scale",
]


def laplace(value: ArrayLike, *, scale: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return `value` plus independent Laplace noise of scale `scale`, in the shape of `value`.

    (1/scale)-differentially private for an answer `value` whose L1 sensitivity, over all its entries
    together, is 1.

    Raises:
        ValueError: if value is not finite, scale not in (0, inf), rng not a Generator, or the noisy value exceeds the
            range of floats.

    Source: Dwork and Roth, "The algorithmic foundations of differential privacy", Definition 3.3.
    """
    answer = arguments.array("value", value)
    scale = arguments.real("scale", scale, 0.0, low_open=True)
    rng = arguments.generator("rng", rng)
    with np.errstate(over="ignore"):
        noisy = answer + rng.laplace(0.0, scale, answer.shape)
    return arguments.finite("scale", scale, noisy, "value plus noise")[()]


def laplace_density(y: ArrayLike, *, center: float, scale: float) -> NDArray[np.float64]:
    """Return the density at y of the mechanism's output when the true answer is `center`, in the shape of y.

    Raises:
        ValueError: if y or center is not finite, or scale not in (0, inf).

    Source: Dwork and Roth, "The algorithmic foundations of differential privacy", Definition 3.2.
    """
    points = arguments.array("y", y)
    center = arguments.real("center", center)
    scale = arguments.real("scale", scale, 0.0, low_open=True)
    with np.errstate(over="ignore", under="ignore"):  # far out the density underflows to 0
        return (np.exp(-np.abs(points - center) / scale) / 2.0 / scale)[()]


@np.errstate(under="ignore")
def laplace_loss(y: ArrayLike, *, scale: float) -> NDArray[np.float64]:
    """Return the privacy loss of output y, in the shape of y: D gives the true answer 0, D' gives 1.

    The loss is the log of the density of y under D over that under D'. It lies in [-1/scale, 1/scale].

    Raises:
        ValueError: if y is not finite, scale not in (0, inf), or so small that 1/scale exceeds the range of floats.

    Source: the lecture, slide "Moments Accountant", definition of the privacy loss; the value for Laplace noise
    is in Dwork and Roth, "The algorithmic foundations of differential privacy", proof of Theorem 3.6.
    """
    points = arguments.array("y", y)
    scale = arguments.real("scale", scale, 1.0 / np.finfo(np.float64).max)
    return ((1.0 - 2.0 * np.clip(points, 0.0, 1.0)) / scale)[()]


def laplace_delta(*, scale: float, epsilon: float) -> float:
    """Return the least delta for which the mechanism is (epsilon, delta)-differentially private. Exact.

    Zero as soon as epsilon >= 1/scale. The difference of the two is formed exactly: where the float epsilon is the
    rounding of 1/scale and lies below it, delta is not 0 but up to 6e-17 times epsilon.

    Raises:
        ValueError: if scale is not in (0, inf) or epsilon not in [0, inf).

    Source: Balle, Barthe and Gaboardi, "Privacy amplification by subsampling", NeurIPS 2018, section 3,
    privacy profile of the Laplace mechanism; proved at the head of this module.
    """
    scale = arguments.real("scale", scale, 0.0, low_open=True)
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    (e, e_den), (s, s_den) = epsilon.as_integer_ratio(), scale.as_integer_ratio()
    top = e * s - e_den * s_den  # (epsilon - 1/scale) / 2 = top / bottom
    if top >= 0:
        return 0.0
    try:
        return -math.expm1(top / (2 * e_den * s))
    except OverflowError:  # the quotient of two integers exceeds the range of floats: scale is tiny
        return 1.0


@np.errstate(under="ignore")
def laplace_epsilon(*, scale: float) -> float:
    r"""Return 1/scale, the least epsilon with delta = 0.

    Raises:
        ValueError: if scale is not in (0, inf), or so small that 1/scale exceeds the range of floats.

    Source: the PTR paper (Wang et al., NeurIPS 2022), section 4, preliminaries on the Laplace mechanism.

    Printed: $\varepsilon = e^{1/b}$ for noise-to-sensitivity ratio b. At $b = 1$ that is 2.71828.

    Implemented: $\varepsilon = 1/b$, the logarithm of the printed value, which is the bound on the ratio of
    probabilities. At $b = 1$ that is 1. The printed value is safe to quote but never below 1, however much noise
    is added: at $b = 100$ it says 1.01005 where the truth is 0.01.

    Counterexample: the printed value and the right one, at b = 1 and b = 100.

    >>> import math
    >>> from dpml import mechanisms
    >>> [
    ...     (round(math.exp(1 / b), 5), mechanisms.laplace_epsilon(scale=b))
    ...     for b in (1.0, 100.0)
    ... ]
    [(2.71828, 1.0), (1.01005, 0.01)]
    """
    scale = arguments.real("scale", scale, 1.0 / np.finfo(np.float64).max)
    return 1.0 / scale


@np.errstate(under="ignore")
def laplace_scale(*, epsilon: float) -> float:
    """Return 1/epsilon, the least scale that gives (epsilon, 0)-differential privacy.

    Raises:
        ValueError: if epsilon is not in (0, inf), or so small that 1/epsilon exceeds the range of floats.

    Source: Dwork and Roth, "The algorithmic foundations of differential privacy", Theorem 3.6.
    """
    epsilon = arguments.real("epsilon", epsilon, 1.0 / np.finfo(np.float64).max)
    return 1.0 / epsilon
