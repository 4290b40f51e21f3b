r"""Propose-test-release: propose a small noise, test in private whether the data allow it, then release.

Let S be a dataset, d(S, S') the number of records to add or remove to get from S to S', and f a function with values
in $\mathbb R^p$. Its global and local sensitivity (l2 norm) and the safety margin of a proposed bound tau are

.. math::

    \mathrm{GS}_f = \sup_S \mathrm{LS}_f(S), \qquad
    \mathrm{LS}_f(S) = \sup_{S' : d(S, S') = 1} \lVert f(S) - f(S') \rVert, \qquad
    \Delta(S) = \min \{ d(S, \tilde S) : \mathrm{LS}_{f_2}(\tilde S) > \tau \} .

Mechanism, for two functions of global sensitivity at most R (`bound`), noise multiplier sigma, test scale b, and the
threshold $B = b \log(1/(2\delta_0))$, which pure Laplace noise exceeds with probability $\delta_0$:

1. propose tau < R;
2. test: $\hat\Delta = \Delta(S) + \mathrm{Lap}(b)$;
3. release $f_2(S) + N(0, \sigma^2\tau^2)$ if $\hat\Delta > B$, else $f_1(S) + N(0, \sigma^2 R^2)$, with noise that is
   independent in each coordinate and of the test's.

Neighbours differ by one record added or removed. What is released, noisy margin included, costs at most the worse of
two cases:

- one of S, S' has local sensitivity at most tau: then $f_2$ moves by at most tau, the margin by at most 1, and the
  output is as private as Laplace noise of scale b on a count, followed by Gaussian noise of multiplier sigma;
- both have local sensitivity above tau: then both margins are 0, the test tells nothing, and only with probability
  $\delta_0$ is $f_2$ released with noise that is too small for it.

The margin moves by at most 1 because $d(S, \tilde S) \le d(S', \tilde S) + 1$ for every dataset $\tilde S$. The noise
that passes must be sigma times tau: the accountants of `dpml.ptr.privacy` assume it, with tau over R. The Laplace noise
of NumPy ends at about 36 times its scale, so that a delta0 below about 1e-16 cannot be had from it.
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments

__all__ = ["Release", "pass_probability", "propose_test_release", "threshold"]


class Release(NamedTuple):
    """What the mechanism makes public, all of it covered by its guarantee.

    `value`: the noisy answer, in the shape of f1. `passed`: whether the test passed. `noisy_margin`: the margin plus
    Laplace noise that was compared with the threshold.

    Source: the PTR paper (Wang et al., NeurIPS 2022), Algorithm 1.
    """

    value: NDArray[np.float64]
    passed: bool
    noisy_margin: float


def threshold(*, scale: float, delta0: float) -> float:
    """Return B = b log(1/(2 delta0)), which Laplace noise of scale b exceeds with probability delta0.

    Zero at delta0 = 1/2. Larger delta0 has no meaning here: the threshold would be negative.

    Raises:
        ValueError: if scale is not in (0, inf), delta0 not in (0, 1/2], or B exceeds the range of floats.

    Source: the PTR paper (Wang et al., NeurIPS 2022), Remark 4.1 (3).
    """
    scale = arguments.real("scale", scale, 0.0, low_open=True)
    delta0 = arguments.real("delta0", delta0, 0.0, 0.5, low_open=True)
    return arguments.finite("scale", scale, -scale * math.log(2.0 * delta0) + 0.0, "scale * log(1 / (2 delta0))")


def pass_probability(margin: float, *, scale: float, delta0: float) -> float:
    r"""Return the probability that the test passes at this safety margin: exact, delta0 at margin 0.

    It is $\delta_0 e^{\Delta/b}$ up to the threshold B, and $1 - e^{-(\Delta - B)/b}/2$ above it.

    Raises:
        ValueError: if margin is not a whole number >= 0 or inf, scale not in (0, inf) or delta0 not in (0, 1/2].

    Source: the PTR paper (Wang et al., NeurIPS 2022), Algorithm 1, line 3; the tail of the Laplace distribution.
    """
    margin = _margin(margin)
    scale = arguments.real("scale", scale, 0.0, low_open=True)
    excess = margin / scale + math.log(2.0 * arguments.real("delta0", delta0, 0.0, 0.5, low_open=True))
    if excess > 0.0:
        return 1.0 - 0.5 * math.exp(-excess)
    return 0.5 * math.exp(excess)


def propose_test_release(
    f1: ArrayLike,
    *,
    f2: ArrayLike,
    margin: float,
    bound: float,
    tau: float,
    sigma: float,
    scale: float,
    delta0: float,
    rng: np.random.Generator,
) -> Release:
    """Return a noisy f2 with noise for tau if the noisy margin exceeds the threshold, else a noisy f1 with noise for R.

    `f1` and `f2` are the values of the two functions at the dataset, arrays of one shape (often f1 = f2); `margin` is
    the safety margin of f2 there, a whole number or inf; `bound` is R, a global sensitivity (l2) of both functions,
    and `tau` < R the proposed bound, all in the unit of the values. The noise has standard deviation sigma * tau or
    sigma * R in each coordinate. Both draws are made whatever the test says. Add/remove neighbours.

    Its privacy is that of `dpml.ptr.privacy` at tau / bound, if margin and bound are what they claim to be.

    Raises:
        ValueError: if f1 or f2 is not finite or their shapes differ, margin not a whole number >= 0 or inf, bound not
            in (0, inf), tau not in (0, bound), sigma or scale not in (0, inf), delta0 not in (0, 1/2], rng not a
            Generator, or sigma tau or the noisy value exceeds the range of floats.

    Source: the PTR paper (Wang et al., NeurIPS 2022), Algorithm 1 and Remark 4.1.
    """
    plain = arguments.array("f1", f1)
    robust = arguments.array("f2", f2)
    if robust.shape != plain.shape:
        raise ValueError(f"f2 must have the shape {plain.shape} of f1, got an array of shape {robust.shape}")
    margin = _margin(margin)
    bound = arguments.real("bound", bound, 0.0, low_open=True)
    tau = arguments.real("tau", tau, 0.0, bound, low_open=True, high_open=True)  # from R on there is nothing to test
    sigma = arguments.real("sigma", sigma, 0.0, low_open=True)
    if sigma * tau < sys.float_info.min:  # in float arithmetic it would be less noise, or none at all
        raise ValueError(f"sigma must keep sigma * tau at least {sys.float_info.min:.3g}, got {sigma!r}")
    limit = threshold(scale=scale, delta0=delta0)
    rng = arguments.generator("rng", rng)
    noisy_margin = margin + float(rng.laplace(0.0, scale))
    noise = rng.normal(0.0, 1.0, plain.shape)  # drawn in either branch: the time taken tells nothing either
    passed = noisy_margin > limit
    deviation = sigma * (tau if passed else bound)
    with np.errstate(over="ignore", invalid="ignore"):
        value = (robust if passed else plain) + deviation * noise
    value = arguments.finite("sigma", sigma, value, "value plus noise")[()]
    return Release(value, passed, noisy_margin)


def _margin(margin: float) -> float:
    """The margin, checked: the distance to something that does not exist is infinite."""
    if isinstance(margin, float) and margin == math.inf:
        return math.inf
    number = arguments.real("margin", margin, 0.0)
    if number != math.floor(number):
        arguments.refuse("margin", "a whole number, or inf", margin)
    return number
