r"""PixelDP: a prediction from noisy scores that no small perturbation of the input can change.

A network adds noise to its input x, or to a layer, and gives each class k a score $f_k \in [0, 1]$. Call two *inputs*
neighbours if they differ by a perturbation of norm at most r, the *size*. If the noisy part is
$(\varepsilon, \delta)$-differentially private for these neighbours, then so are the scores, by post-processing, and

.. math::

    E f_k(x) \le e^{\varepsilon}\, E f_k(x') + \delta, \qquad E f_k(x') \le e^{\varepsilon}\, E f_k(x) + \delta .

Lemma. An $(\varepsilon, \delta)$-private output in [0, 1] has such expectations. Proof: $E f = \int_0^1 P(f > t)\,dt$,
and each of these events obeys the definition.

Theorem (Lecuyer et al. 2019, Proposition 1). If for a class k

.. math::

    E f_k(x) > e^{2\varepsilon} \max_{i \ne k} E f_i(x) + (1 + e^{\varepsilon})\,\delta ,

then $E f_k(x') > E f_i(x')$ for every other class i and every x' within the size: the label cannot change.

Proof. $E f_k(x') \ge e^{-\varepsilon}(E f_k(x) - \delta)$ and $E f_i(x') \le e^{\varepsilon} E f_i(x) + \delta$. The
condition says that the first right side is larger than the second.

The norm is that of the sensitivity. Noise on the input with Laplace scale b: $\varepsilon = r/b$ for $\ell_1$
perturbations of size r, and $\ell_\infty$ perturbations of size $\mu$ have $\ell_1$ norm up to $\mu d$. Gaussian noise
of deviation sigma: every pair that `mechanisms.gaussian_delta` allows at $\sigma/r$, for $\ell_2$ perturbations.

The expectations are unknown. `hoeffding_limits` and `clopper_pearson_limits` bound all of them from independent draws,
both sides of all K classes at once, each with $\eta/(2K)$ of the allowed chance of error $\eta$. (One side of a class
would do if the winner were named before the draws; here the same draws name it.)

Nothing here protects training data: the neighbours are inputs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments, mechanisms
from dpml.audit.samples import lower_limit, upper_limit

__all__ = [
    "Leader",
    "Limits",
    "certified_accuracy",
    "certified_size",
    "certified_size_gaussian",
    "clopper_pearson_limits",
    "condition",
    "conventional_accuracy",
    "hoeffding_half_width",
    "hoeffding_limits",
    "largest_epsilon",
    "leader",
]

_DOWN = 1.0 - 2.0**-48  # more than the rounding errors of a few operations: a size is never too large


class Limits(NamedTuple):
    """Confidence limits of the expected scores, arrays of shape [..., K]; all hold at once with the stated chance.

    Source: `hoeffding_limits` and `clopper_pearson_limits`.
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


class Leader(NamedTuple):
    """The class with the greatest lower limit, that limit, and the greatest upper limit among the others.

    Source: the theorem at the head of this module.
    """

    label: NDArray[np.intp]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


def condition(lower: ArrayLike, *, upper: ArrayLike, epsilon: float, delta: float) -> NDArray[np.bool_]:
    r"""Return whether $p > e^{2\varepsilon} u + (1 + e^{\varepsilon})\,\delta$ for p = `lower`, u = `upper`.

    `lower` bounds the expected score of a class from below, `upper` those of all others from above; they broadcast.

    Raises:
        ValueError: if lower or upper is not in [0, 1], epsilon not in [0, inf) or delta not in [0, 1].

    Source: Lecuyer et al. (IEEE S&P 2019), Proposition 1 and equation (4); StoBatch (Phan et al., ICML 2020),
    equation (4).
    """
    p, u = _pair(lower, upper)
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    delta = arguments.probability("delta", delta)
    with np.errstate(divide="ignore", under="ignore"):  # in logarithms, so that nothing overflows
        scores = np.logaddexp(2.0 * epsilon + np.log(u), np.logaddexp(0.0, epsilon) + np.log(delta))
        return np.asarray(np.log(p) > scores)[()]


def largest_epsilon(lower: ArrayLike, *, upper: ArrayLike, delta: float) -> NDArray[np.float64]:
    r"""Return the largest epsilon for which the `condition` holds at delta; 0 where it holds for none.

    With $t = e^{\varepsilon}$ the condition is quadratic, $u t^2 + \delta t < p - \delta$, and its positive root is
    written so that nothing cancels. At delta = 0 it is $\tfrac12 \log(p/u)$. The result is rounded down.

    Raises:
        ValueError: if lower is not in [0, 1], upper not in (0, 1], or delta not in [0, 1].

    Source: the theorem at the head of this module.
    """
    p, u = _pair(lower, upper)
    if (u == 0.0).any():
        raise ValueError("upper must be above 0, as every upper confidence limit is, got an element 0.0")
    delta = arguments.probability("delta", delta)
    with np.errstate(under="ignore", divide="ignore", over="ignore"):
        if delta == 0.0:
            ratio = (p - u) / u
            log_t = 0.5 * np.where(ratio < math.inf, np.log1p(ratio), np.log(p) - np.log(u)) * _DOWN
        else:
            gap = np.maximum(p - delta, 0.0)
            log_t = np.log(2.0 * gap / (delta + np.hypot(delta, 2.0 * np.sqrt(u) * np.sqrt(gap)))) * _DOWN - 2.0**-50
    return np.maximum(log_t, 0.0)[()]


def certified_size(lower: ArrayLike, *, upper: ArrayLike, scale: float) -> NDArray[np.float64]:
    r"""Return the size that Laplace noise certifies: no perturbation of at most this norm changes the label.

    It is $\tfrac{b}{2} \log(p/u)$ for `lower` p of the predicted class and `upper` u of all others, rounded down, in
    their shape; 0 where nothing is certified. `scale` is b over the $\ell_1$ sensitivity.

    Raises:
        ValueError: if lower is not in [0, 1], upper not in (0, 1], scale not in (0, inf), or the size exceeds the
            range of floats.

    Source: Lecuyer et al. (IEEE S&P 2019), Proposition 1 with delta = 0; StoBatch (Phan et al., ICML 2020), section
    3.3.
    """
    scale = arguments.real("scale", scale, 0.0, low_open=True)
    with np.errstate(over="ignore", under="ignore"):
        size = scale * largest_epsilon(lower, upper=upper, delta=0.0) * _DOWN
    return arguments.finite("scale", scale, np.asarray(size), "the size")[()]


def certified_size_gaussian(lower: ArrayLike, *, upper: ArrayLike, sigma: float, delta: float) -> NDArray[np.float64]:
    r"""Return the size that Gaussian noise certifies at this delta: no perturbation of at most this norm changes the
    label.

    The condition allows every epsilon up to `largest_epsilon`; the size is sigma over the deviation that this epsilon
    needs at size 1, found by the search of `dpml.numerics` on its safe side, for every epsilon. In the shape of
    `lower` and `upper`, 0 where nothing is certified. `sigma` is over the $\ell_2$ sensitivity.
    `smoothing.gaussian_radius` is never smaller.

    Raises:
        ValueError: if lower is not in [0, 1], upper not in (0, 1], sigma not in (0, inf), delta not in (0, 1), or the
            size exceeds the range of floats.

    Source: Lecuyer et al. (IEEE S&P 2019), Proposition 1, by Balle and Wang (ICML 2018), Theorem 8.
    """
    sigma = arguments.real("sigma", sigma, 0.0, low_open=True)
    delta = arguments.real("delta", delta, 0.0, 1.0, low_open=True, high_open=True)
    epsilons, where = np.unique(largest_epsilon(lower, upper=upper, delta=delta), return_inverse=True)
    needed = [mechanisms.gaussian_sigma(epsilon=float(e), delta=delta) if e > 0.0 else math.inf for e in epsilons]
    with np.errstate(over="ignore", under="ignore"):
        sizes = sigma / np.asarray(needed) * _DOWN
    found = sizes[where].reshape(np.broadcast_shapes(np.shape(lower), np.shape(upper)))
    return arguments.finite("sigma", sigma, np.asarray(found), "the size")[()]


def hoeffding_half_width(*, draws: int, classes: int, eta: float) -> float:
    r"""Return $\sqrt{\log(2K/\eta) / (2n)}$: with probability at least $1 - \eta$ no mean of n draws is farther off.

    For the scores of all K classes in [0, 1], on both sides at once (union bound).

    Raises:
        ValueError: if draws is not an integer in [1, 2^53], classes not one in [2, 2^53], or eta not in (0, 1).

    Source: W. Hoeffding, "Probability inequalities for sums of bounded random variables", JASA 58 (1963); Lecuyer et
    al. (IEEE S&P 2019), section III-C.
    """
    draws = arguments.integer("draws", draws, 1, 2**53)
    return math.sqrt(_log_share(classes, eta) / (2.0 * draws))


def hoeffding_limits(means: ArrayLike, *, draws: int, eta: float) -> Limits:
    r"""Return limits, by Hoeffding, for the expected scores of K classes from their means over `draws` draws.

    `means` has shape [..., K], in [0, 1]. For each input, all 2K limits hold at once with probability at least
    1 - eta; for many inputs at once divide eta by their number.

    Raises:
        ValueError: if means is not an array in [0, 1] with at least two classes, eta not in (0, 1), or draws too few
            for any certificate: the message says how many are needed.

    Source: as `hoeffding_half_width`.
    """
    values = arguments.array("means", means, low=0.0, high=1.0)
    classes = _classes("means", values)
    half = hoeffding_half_width(draws=draws, classes=classes, eta=eta)
    if half >= 0.5:
        least = math.floor(2.0 * _log_share(classes, eta)) + 1
        raise ValueError(f"draws must be at least {least} for any certificate at eta = {eta!r}, got {draws!r}")
    return Limits(np.maximum(values - half, 0.0), np.minimum(values + half, 1.0))


def clopper_pearson_limits(counts: ArrayLike, *, eta: float) -> Limits:
    r"""Return exact limits for the probability of each of K labels from how often each was drawn.

    `counts` has shape [..., K]; each row sums to the number of draws. Here the score of a draw is 1 for the label that
    the network gives and 0 for the others. For each input, all 2K limits hold at once with probability at least
    1 - eta, for every number of draws.

    Raises:
        ValueError: if counts is not an array of whole numbers with at least two classes and one draw in each row, all
            rows with the same number, or eta not in [1e-200, 1).

    Source: C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits", Biometrika 26 (1934).
    """
    found = arguments.whole_numbers("counts", counts)
    classes = _classes("counts", found)
    eta = arguments.real("eta", eta, 1e-200, 1.0, high_open=True)
    totals = np.unique(found.sum(axis=-1))
    if totals.size != 1 or not 1.0 <= totals[0] <= 2.0**53:
        raise ValueError(f"counts must have rows with one sum, at least 1, got sums {totals.tolist()[:3]!r}")
    draws, alarm = int(totals[0]), eta / 2.0 / classes
    return Limits(lower_limit(found, trials=draws, alarm=alarm), upper_limit(found, trials=draws, alarm=alarm))


def leader(limits: Limits) -> Leader:
    """Return, for each input, the class with the greatest lower limit, and the two numbers that the condition compares.

    Equal limits: the lowest class, for which then nothing is certified.

    Raises:
        ValueError: if limits is no `Limits` of two arrays of one shape [..., K], K >= 2, in [0, 1].

    Source: the theorem at the head of this module.
    """
    if not isinstance(limits, Limits):
        raise ValueError(f"limits must be a Limits, got a {type(limits).__name__}")
    lower = arguments.array("limits.lower", limits.lower, low=0.0, high=1.0)
    _classes("limits.lower", lower)
    upper = arguments.array("limits.upper", limits.upper, shape=lower.shape, low=0.0, high=1.0)
    label = np.argmax(lower, axis=-1)
    ahead = np.take_along_axis(lower, label[..., None], axis=-1)[..., 0]
    others = np.where(np.arange(lower.shape[-1]) == label[..., None], 0.0, upper)
    return Leader(label, ahead, others.max(axis=-1))


def conventional_accuracy(correct: ArrayLike) -> float:
    """Return the share of inputs whose label is right.

    Raises:
        ValueError: if correct is not a non-empty one-dimensional array of zeros and ones.

    Source: StoBatch (Phan et al., ICML 2020), section 4, "conventional acc".
    """
    return float(np.mean(_truths(correct)))


def certified_accuracy(sizes: ArrayLike, *, correct: ArrayLike, size: float) -> float:
    """Return the share of inputs whose label is right and certified for perturbations of this size.

    `sizes` are what was certified, 0 for nothing, in the same norm and unit as `size`. At size 0 those count that have
    any certificate.

    Raises:
        ValueError: if sizes is not an array in [0, inf) of the length of correct, correct not a non-empty
            one-dimensional array of zeros and ones, or size not in [0, inf).

    Source: Lecuyer et al. (IEEE S&P 2019), section IV; StoBatch (Phan et al., ICML 2020), section 4, "certified acc".
    """
    right = _truths(correct)
    certified = arguments.array("sizes", sizes, shape=right.shape, low=0.0)
    size = arguments.real("size", size, 0.0)
    return float(np.mean((right == 1) & (certified >= size) & (certified > 0.0)))


def pair(
    first: str, a: NDArray[np.float64], second: str, b: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return both arrays, whose names are given, if they broadcast.

    Raises:
        ValueError: if they do not.

    Source: definition.
    """
    try:
        np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        raise ValueError(f"{second} must have the shape of {first}, {a.shape}, got {b.shape}") from None
    return a, b


def _pair(lower: ArrayLike, upper: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    p, u = (arguments.array(name, x, low=0.0, high=1.0) for name, x in (("lower", lower), ("upper", upper)))
    return pair("lower", p, "upper", u)


def _log_share(classes: int, eta: float) -> float:
    classes = arguments.integer("classes", classes, 2, 2**53)
    eta = arguments.real("eta", eta, 0.0, 1.0, low_open=True, high_open=True)
    return math.log(2.0 * classes) - math.log(eta)


def _classes(name: str, values: NDArray[np.float64]) -> int:
    if values.ndim == 0 or values.shape[-1] < 2 or values.size == 0:
        raise ValueError(f"{name} must be an array of shape [..., K] with K >= 2 classes, got shape {values.shape}")
    return int(values.shape[-1])


def _truths(correct: ArrayLike) -> NDArray[np.int8]:
    right = arguments.bits("correct", correct)
    if right.ndim != 1 or right.size == 0:
        raise ValueError(f"correct must be a one-dimensional array with at least 1 element, got shape {right.shape}")
    return right
