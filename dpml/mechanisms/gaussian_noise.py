r"""The Gaussian mechanism: add noise N(0, sigma^2) to an answer of sensitivity 1. Its exact privacy.

Let D give the true answer 0 and a neighbour D' the answer 1. The privacy loss of an output y is
$\ell(y) = (1 - 2y)/(2\sigma^2)$; under D it is normal with mean $1/(2\sigma^2)$ and variance $1/\sigma^2$.

Theorem (Balle and Wang 2018). The least delta for a given epsilon >= 0 is

.. math::

    \delta(\varepsilon) = \Phi(a) - e^{\varepsilon}\,\Phi(b), \qquad
    a = \frac{1}{2\sigma} - \varepsilon\sigma, \quad b = -\frac{1}{2\sigma} - \varepsilon\sigma.

Proof. The best event is {loss > epsilon} = {y < 1/2 - epsilon sigma^2}, whose probability is $\Phi(a)$ under D and
$\Phi(b)$ under D'. An answer in many dimensions with L2 sensitivity 1 and *independent* noise in each coordinate is no
worse: rotate the first axis into the direction of the change; the other coordinates then have the same law under D and
D'. (One noise for all coordinates would cancel in their differences.)

How it is computed in floating point is told in `dpml.mechanisms._gaussian_delta`.

The result holds for every neighbouring relation for which the sensitivity of the answer is at most 1.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments, numerics
from dpml.mechanisms._gaussian_delta import excess, factor_and_exponent

__all__ = [
    "gaussian",
    "gaussian_delta",
    "gaussian_density",
    "gaussian_epsilon",
    "gaussian_loss",
    "gaussian_sigma",
    "gaussian_sigma_classic",
    "gaussian_sigma_classic_formula",
]


def gaussian(value: ArrayLike, *, sigma: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return `value` plus independent Gaussian noise of standard deviation `sigma`, in the shape of `value`.

    (epsilon, `gaussian_delta`)-differentially private for every epsilon, for an answer `value` whose L2
    sensitivity, over all its entries together, is 1.

    Raises:
        ValueError: if value is not finite, sigma not in (0, inf), rng not a Generator, or the noisy value exceeds the
            range of floats.

    Source: Dwork and Roth, "The algorithmic foundations of differential privacy", section 3.5.3 and Appendix A.
    """
    answer = arguments.array("value", value)
    sigma = arguments.real("sigma", sigma, 0.0, low_open=True)
    rng = arguments.generator("rng", rng)
    with np.errstate(over="ignore"):
        noisy = answer + rng.normal(0.0, sigma, answer.shape)
    return arguments.finite("sigma", sigma, noisy, "value plus noise")[()]


def gaussian_density(y: ArrayLike, *, center: float, sigma: float) -> NDArray[np.float64]:
    """Return the density at y of the mechanism's output when the true answer is `center`, in the shape of y.

    Raises:
        ValueError: if y or center is not finite, or sigma not in (0, inf).

    Source: definition of the normal law.
    """
    points = arguments.array("y", y)
    center = arguments.real("center", center)
    sigma = arguments.real("sigma", sigma, 0.0, low_open=True)
    with np.errstate(over="ignore", under="ignore"):  # far out the density underflows to 0
        return (np.exp(-(((points - center) / sigma) ** 2) / 2.0) / math.sqrt(2.0 * math.pi) / sigma)[()]


@np.errstate(under="ignore")
def gaussian_loss(y: ArrayLike, *, sigma: float) -> NDArray[np.float64]:
    """Return the privacy loss of output y, in the shape of y: D gives the true answer 0, D' gives 1.

    Raises:
        ValueError: if y is not in [-1e100, 1e100] or sigma not in [1e-100, inf): the loss must stay within floats.

    Source: the lecture, slide "Moments Accountant", definition of the privacy loss; Balle and Wang, "Improving
    the Gaussian mechanism for differential privacy", ICML 2018, on the law of the loss.
    """
    points = arguments.array("y", y, low=-1e100, high=1e100)
    sigma = arguments.real("sigma", sigma, 1e-100)
    return ((0.5 - points) / sigma / sigma)[()]


def gaussian_delta(*, sigma: float, epsilon: float) -> float:
    """Return the least delta for which the mechanism is (epsilon, delta)-differentially private. Exact.

    At epsilon = 0 this is the total variation distance. Relative error below 1e-14 down to 1e-300; 0.0 only
    where the true value is below the smallest float.

    Raises:
        ValueError: if sigma is not in (0, inf) or epsilon not in [0, inf).

    Source: Balle and Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018, Theorem 8.
    """
    sigma = arguments.real("sigma", sigma, 0.0, low_open=True)
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    factor, exponent, rest = factor_and_exponent(sigma, epsilon)
    return factor * math.exp(-exponent) * math.exp(-rest)


def gaussian_epsilon(*, sigma: float, delta: float) -> float:
    """Return the least epsilon >= 0 for which the mechanism is (epsilon, delta)-differentially private. Exact.

    The rounding is on the safe side: ``gaussian_delta(sigma=sigma, epsilon=result) <= delta``. The result is
    0.0 where delta is at least the total variation distance, and infinity at delta = 0: the loss of Gaussian
    noise has no upper limit, so no epsilon holds with certainty.

    Raises:
        ValueError: if sigma is not in [1e-150, inf) (below, epsilon would exceed the range of floats) or delta
            not in [0, 1].

    Source: Balle and Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018, Theorem 8.
    """
    sigma = arguments.real("sigma", sigma, 1e-150)
    delta = arguments.probability("delta", delta)
    return math.inf if delta == 0.0 else _least_epsilon(sigma, delta)


@functools.lru_cache(maxsize=256)  # checks and accounts ask for the same value again and again
def _least_epsilon(sigma: float, delta: float) -> float:
    if gaussian_delta(sigma=sigma, epsilon=0.0) <= delta:
        return 0.0
    h, tail = 1.0 / sigma, math.sqrt(-2.0 * math.log(delta))
    # P(loss > h^2/2 + h t) = Phi(-t) <= e^{-t^2/2}: here epsilon is certainly enough
    enough = (h * h / 2.0 + h * tail) * (1.0 + 1e-9) + math.ulp(0.0)
    return numerics.crossing(lambda e: excess(sigma, e, delta), low=0.0, high=enough)


def gaussian_sigma(*, epsilon: float, delta: float) -> float:
    """Return the least sigma that gives (epsilon, delta)-differential privacy. Exact, for every epsilon >= 0.

    The rounding is on the safe side: ``gaussian_delta(sigma=result, epsilon=epsilon) <= delta``.

    Raises:
        ValueError: if epsilon is not in [0, inf) or delta not in [1e-300, 1): with delta = 0 no amount of
            Gaussian noise is enough, and with delta = 1 none is needed.

    Source: Balle and Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018, section 3
    ("analytic Gaussian mechanism").
    """
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    delta = arguments.real("delta", delta, 1e-300, 1.0, high_open=True)
    return _least_sigma(epsilon, delta)


@functools.lru_cache(maxsize=256)  # a mechanism asks for the same noise in every run
def _least_sigma(epsilon: float, delta: float) -> float:
    # certainly enough, since delta(epsilon) <= delta(0) <= 1/(sqrt(2 pi) sigma); and by the tail bound above, for sigma
    enough = 1.0 / (math.sqrt(2.0 * math.pi) * delta)
    if epsilon > 0.0:
        tail = math.sqrt(-2.0 * math.log(delta))
        enough = min(enough, (tail + math.hypot(tail, math.sqrt(2.0) * math.sqrt(epsilon))) / 2.0 / epsilon)
    enough *= 1.0 + 1e-9
    return numerics.crossing(lambda s: excess(s, epsilon, delta), low=0.0, high=enough, guess=enough)


def gaussian_sigma_classic(*, epsilon: float, delta: float) -> float:
    r"""Return sqrt(2 log(1.25/delta)) / epsilon, enough for (epsilon, delta)-privacy when 0 < epsilon < 1.

    An upper bound on the least sigma, which `gaussian_sigma` computes: 1.25 times it at epsilon = 0.999, delta = 1e-6,
    1.58 times at 0.1, 1e-5, and 2.81 times at 0.001, 1e-5. The factor grows without limit as epsilon goes to 0.

    Raises:
        ValueError: if epsilon is not in [1e-300, 1): from 1 on the proof does not hold (use `gaussian_sigma`), and
            below 1e-300 sigma may exceed the range of floats; or if delta is not in (0, 1).

    Source: the PTR paper (Wang et al., NeurIPS 2022), section 4, preliminaries on the Gaussian mechanism; the
    theorem is Dwork and Roth, "The algorithmic foundations of differential privacy", Theorem A.1.

    Printed: $\varepsilon = \sigma \sqrt{2 \log(1.25/\delta)}$, for every $\sigma$. More noise would mean a larger
    $\varepsilon$. At $\sigma = 0.5$ and $\delta = 10^{-5}$ the formula says 2.42, but the true $\varepsilon$ is 9.997.

    Implemented: $\sigma = \sqrt{2 \log(1.25/\delta)} / \varepsilon$, only for $\varepsilon < 1$. Beyond 1 this form
    fails as well: at $\varepsilon = 20$ and $\delta = 10^{-5}$ it gives $\sigma = 0.24224$, whose true $\delta$ is
    $1.5267 \cdot 10^{-3}$, 153 times too large; the least sufficient $\sigma$ is 0.290041. At $\delta = 10^{-5}$ it
    fails from $\varepsilon = 8.42$ on.

    Counterexample: the printed formula and the truth at sigma = 0.5; delta at the other form's sigma for epsilon = 20.

    >>> import math
    >>> from dpml import mechanisms
    >>> printed = 0.5 * math.sqrt(2 * math.log(1.25 / 1e-5))
    >>> (
    ...     round(printed, 2),
    ...     round(mechanisms.gaussian_epsilon(sigma=0.5, delta=1e-5), 3),
    ... )
    (2.42, 9.997)
    >>> sigma = mechanisms.gaussian_sigma_classic_formula(
    ...     epsilon=20, delta=1e-5
    ... )
    >>> (
    ...     round(sigma, 5),
    ...     round(mechanisms.gaussian_delta(sigma=sigma, epsilon=20), 7),
    ... )
    (0.24224, 0.0015267)
    """
    try:
        epsilon = arguments.real("epsilon", epsilon, 1e-300, 1.0, high_open=True)
    except ValueError as refusal:
        raise ValueError(
            f"{refusal}: from 1 on the classic calibration is not proved, and it fails for large epsilon; use "
            "gaussian_sigma, which is exact for every epsilon"
        ) from None
    return gaussian_sigma_classic_formula(epsilon=epsilon, delta=delta)


def gaussian_sigma_classic_formula(*, epsilon: float, delta: float) -> float:
    """Return the bare number sqrt(2 log(1.25/delta)) / epsilon at any epsilon: a formula, not a guarantee.

    For figures that show where the classic calibration breaks. Never calibrate with it: use `gaussian_sigma`.

    Raises:
        ValueError: if epsilon is not in [1e-300, inf) or delta not in (0, 1).

    Source: Dwork and Roth, "The algorithmic foundations of differential privacy", Theorem A.1, without its
    condition epsilon < 1.
    """
    epsilon = arguments.real("epsilon", epsilon, 1e-300)
    delta = arguments.real("delta", delta, 0.0, 1.0, low_open=True, high_open=True)
    return math.sqrt(2.0 * (math.log(1.25) - math.log(delta))) / epsilon
