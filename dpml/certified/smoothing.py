r"""Randomized smoothing: the most probable label under Gaussian noise, and how far the input may move.

For a classifier g and noise $Z \sim N(0, \sigma^2 I)$ the smoothed classifier answers with the label that $g(x + Z)$
has most often. Let $p$ be at most the probability of its label, and $u$ at least that of any other label.

Theorem (Cohen, Rosenfeld and Kolter 2019, Theorem 1). No perturbation of $\ell_2$ norm below

.. math::

    R = \frac{\sigma}{2}\bigl(\Phi^{-1}(p) - \Phi^{-1}(u)\bigr)

changes the label. With $u = 1 - p$ it is $\sigma\,\Phi^{-1}(p)$, which needs $p > 1/2$.

Proof. Let A be the event that g answers the label, with probability at least p at x. Among all events of this
probability, the half-space $\{z \le \sigma\Phi^{-1}(p)\}$ along the perturbation has the least probability at $x'$:
the likelihood ratio of the two normal laws is monotone along it (Neyman and Pearson). So at distance r the label has
probability at least $\Phi(\Phi^{-1}(p) - r/\sigma)$, and every other one at most $\Phi(\Phi^{-1}(u) + r/\sigma)$. The
first is larger as long as r < R. Since a half-space is a possible classifier, no larger radius follows from p and u.

Laplace noise of scale b, for $\ell_1$ perturbations. It is $(r/b, 0)$-private at distance r, so that

.. math::

    1 - P_{x'}(A) \le e^{r/b} (1 - p), \qquad P_{x'}(A) \ge e^{-r/b} p, \qquad P_{x'}(B) \le e^{r/b} u .

The last two give $r < \tfrac{b}{2} \log(p/u)$, which is PixelDP; the first and the last give $r < -b \log(1 - p + u)$.
With $u = 1 - p$ that is $-b \log(2(1 - p))$, never less than PixelDP's since $4p(1 - p) \le 1$, and in one dimension a
threshold reaches it.

All radii are rounded down, so that they hold for perturbations of at most this norm. p is a Clopper-Pearson limit from
independent draws: wrong with probability at most `alpha` for each input; for N inputs at once use alpha / N. The label
is guessed on separate draws before (`certify`), so one side of one label is all that is spent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from dpml import arguments
from dpml.audit.samples import upper_limit
from dpml.certified import pixeldp

__all__ = [
    "ABSTAIN",
    "Certificates",
    "certify",
    "draws_needed",
    "gaussian_radius",
    "laplace_radius",
    "radius",
]

ABSTAIN = -1
"""The label of an input for which nothing is certified. No input has it, so it counts as wrong."""

_DOWN = 1.0 - 2.0**-46  # more than the relative error of the quantile function
_AT_ONCE = 2**20  # numbers in the noisy inputs that are in memory at once
_FIRST_DRAWS = 100  # those that guess the label


class Certificates(NamedTuple):
    """What is certified for N inputs: arrays of length N, and what it rests on.

    `labels` holds `ABSTAIN` and `radii` holds 0 where the draws do not show that one label has more than half. Each
    certificate alone is wrong with probability at most `alpha`.

    Source: `certify`.
    """

    labels: NDArray[np.intp]
    radii: NDArray[np.float64]
    counts: NDArray[np.int64]
    draws: int
    alpha: float
    sigma: float


def gaussian_radius(lower: ArrayLike, *, upper: ArrayLike, sigma: float) -> NDArray[np.float64]:
    r"""Return $\tfrac{\sigma}{2}(\Phi^{-1}(p) - \Phi^{-1}(u))$ for p = `lower`, u = `upper`; 0 for p <= u.

    An $\ell_2$ radius, rounded down. `lower` is at most the probability of the label, `upper` at least that of every
    other one; they broadcast. Both may be confidence limits, if they hold at once.

    Raises:
        ValueError: if lower is not in [0, 1), upper not in (0, 1], sigma not in (0, inf), or the radius exceeds the
            range of floats.

    Source: Cohen, Rosenfeld and Kolter, "Certified adversarial robustness via randomized smoothing", ICML 2019,
    Theorem 1, proved at the head of this module.
    """
    p, u = _pair(lower, upper)
    sigma = arguments.real("sigma", sigma, 0.0, low_open=True)
    quantiles = ndtri(np.maximum(p, np.finfo(np.float64).tiny)), ndtri(u)
    half = (quantiles[0] - quantiles[1]) / 2.0
    slack = 2.0**-46 * (np.abs(quantiles[0]) + np.abs(quantiles[1]))  # their difference may cancel
    return _radius(sigma, np.where(p > u, half - slack, 0.0), "sigma")


def laplace_radius(lower: ArrayLike, *, upper: ArrayLike, scale: float) -> NDArray[np.float64]:
    r"""Return the larger of $\tfrac{b}{2} \log(p/u)$ and $-b \log(1 - p + u)$ for p = `lower`, u = `upper`.

    An $\ell_1$ radius, rounded down; 0 for p <= u. `lower` and `upper` as in `gaussian_radius`.

    Raises:
        ValueError: if lower is not in [0, 1), upper not in (0, 1], scale not in (0, inf), or the radius exceeds the
            range of floats.

    Source: J. Teng, G.-H. Lee and Y. Yuan, "l1 adversarial robustness certificates: a randomized smoothing approach",
    2020, Theorem 1, proved at the head of this module.
    """
    p, u = _pair(lower, upper)
    scale = arguments.real("scale", scale, 0.0, low_open=True)
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        ratio = (p - u) / u
        first = 0.5 * np.where(ratio < math.inf, np.log1p(ratio), np.log(np.maximum(p, u)) - np.log(u))
        far = (p >= 0.5) & (u < p / 2.0)  # then 1 - p is exact, while u - p loses the digits of u
        second = -np.where(far, np.log(1.0 - p + u), np.log1p(np.minimum(u - p, 0.0)))
    return _radius(scale, np.where(p > u, np.maximum(first, second), 0.0), "scale")


@np.errstate(under="ignore")
def radius(count: ArrayLike, *, draws: int, alpha: float, sigma: float) -> NDArray[np.float64]:
    r"""Return the certified $\ell_2$ radius when `count` of `draws` noisy inputs got the label; 0 says: abstain.

    It is $\sigma\,\Phi^{-1}(p)$, rounded down, with p the one-sided Clopper-Pearson limit at `alpha`; the label has to
    be fixed before these draws. In the shape of `count`.

    Raises:
        ValueError: if count is not whole numbers in [0, draws], draws not an integer in [1, 2^53], alpha not in
            [1e-250, 1), sigma not in (0, inf), or draws too few for any certificate: the message says how many are
            needed.

    Source: Cohen, Rosenfeld and Kolter (ICML 2019), section 3.2.2, CERTIFY.
    """
    draws = arguments.integer("draws", draws, 1, 2**53)
    sigma = arguments.real("sigma", sigma, 0.0, low_open=True)
    alpha = arguments.real("alpha", alpha, 1e-250, 1.0, high_open=True)
    least = draws_needed(alpha=alpha)
    if draws < least:
        raise ValueError(f"draws must be at least {least} for any certificate at alpha = {alpha!r}, got {draws!r}")
    missed = draws - arguments.whole_numbers("count", count, high=draws)
    failing = np.asarray(upper_limit(missed, trials=draws, alarm=alpha))  # 1 - p, whose small values keep their digits
    standard = -ndtri(np.minimum(failing, 0.5))
    return _radius(sigma, np.where(failing < 0.5, standard, 0.0), "sigma")


def draws_needed(*, alpha: float) -> int:
    r"""Return the least number of draws that can certify a radius above 0.

    If all n draws get the label, the limit is $\alpha^{1/n}$; n is the least for which it exceeds 1/2.

    Raises:
        ValueError: if alpha is not in (0, 1).

    Source: Cohen, Rosenfeld and Kolter (ICML 2019), section 3.2.2; the limit is that of Clopper and Pearson.
    """
    alpha = arguments.real("alpha", alpha, 0.0, 1.0, low_open=True, high_open=True)
    return math.floor(-math.log2(alpha)) + 1


@np.errstate(under="ignore")
def certify(
    predict: Callable[[NDArray[Any]], ArrayLike],
    *,
    x: ArrayLike,
    sigma: float,
    draws: int,
    alpha: float,
    classes: int,
    rng: np.random.Generator,
) -> Certificates:
    r"""Return what smoothing certifies for each of the inputs x, of shape [N, ...].

    `predict` receives a float array of noisy inputs, shape [n, ...], and returns n labels, integers in
    [0, `classes`). 100 draws guess the label, `draws` fresh ones count it. Noise is single precision where x is, for
    speed.

    Raises:
        ValueError: if predict is not a function or returns anything else, x not a finite array with at least one input,
            sigma not in (0, inf) or so large that a noisy input overflows, draws not an integer in [1, 2^53] or too few
            for any certificate (the message says how many are needed), alpha not in [1e-250, 1), classes not one
            in [2, 2^31], or rng not a Generator.

    Source: Cohen, Rosenfeld and Kolter (ICML 2019), section 3.2.2, CERTIFY.
    """
    arguments.function("predict", predict)
    inputs = arguments.array("x", x, min_size=1)
    if inputs.ndim == 0:
        raise ValueError("x must be an array of inputs along the first dimension, got a number")
    if getattr(x, "dtype", None) == np.float32:
        inputs = inputs.astype(np.float32)
        sigma = arguments.real("sigma", sigma, 1e-30, 1e30)
    classes = arguments.integer("classes", classes, 2, 2**31)
    rng = arguments.generator("rng", rng)
    radius(0, draws=draws, alpha=alpha, sigma=sigma)  # refuses what it refuses before anything is drawn
    labels, counts = np.empty(len(inputs), np.intp), np.empty(len(inputs), np.int64)
    for i, one in enumerate(inputs):
        labels[i] = np.argmax(_tally(predict, one, sigma, _FIRST_DRAWS, classes, rng))
        counts[i] = _tally(predict, one, sigma, int(draws), classes, rng)[labels[i]]
    radii = radius(counts, draws=draws, alpha=alpha, sigma=sigma)
    return Certificates(np.where(radii > 0.0, labels, ABSTAIN), radii, counts, int(draws), float(alpha), float(sigma))


def _tally(
    predict: Callable[[NDArray[Any]], ArrayLike],
    one: NDArray[Any],
    sigma: float,
    draws: int,
    classes: int,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """How often each label was given to one input in so many independent draws of the noise."""
    found = np.zeros(classes, np.int64)
    at_once = max(1, _AT_ONCE // max(1, one.size))
    for done in range(0, draws, at_once):
        now = min(at_once, draws - done)
        noise = rng.standard_normal((now, *one.shape), dtype=one.dtype.type)
        with np.errstate(over="ignore"):
            noise *= one.dtype.type(sigma)
            noise += one
        if not np.isfinite(noise).all():
            raise ValueError(f"sigma must keep noisy inputs within the range of {one.dtype}, got {sigma!r}")
        labels = np.asarray(predict(noise))
        if labels.shape != (now,) or labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= classes:
            came = f"type {labels.dtype} and shape {labels.shape}"
            raise ValueError(f"predict must return {now} integers in [0, {classes - 1}], got an array of {came}")
        found += np.bincount(labels, minlength=classes)
    return found


def _pair(lower: ArrayLike, upper: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    p = arguments.array("lower", lower, low=0.0, high=1.0, high_open=True)
    return pixeldp.pair("lower", p, "upper", arguments.array("upper", upper, low=0.0, high=1.0, low_open=True))


def _radius(noise: float, standard: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    """So many deviations or scales of the noise, rounded down."""
    with np.errstate(over="ignore", under="ignore"):
        found = np.maximum(noise * standard * _DOWN, 0.0)
    return arguments.finite(name, noise, np.asarray(found), "the radius")[()]
