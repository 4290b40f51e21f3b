r"""Noise on the whole numbers, drawn exactly: the discrete Laplace and the discrete Gaussian mechanism.

.. math::

    P(\text{Lap}_{\mathbb Z}(b) = k) = \frac{e^{1/b} - 1}{e^{1/b} + 1}\, e^{-|k|/b}, \qquad
    P(N_{\mathbb Z}(\sigma^2) = k) = \frac{e^{-k^2/2\sigma^2}}{\sum_j e^{-j^2/2\sigma^2}} .

The answer is a whole number of sensitivity 1, such as a count; it holds for every neighbouring relation for which that
is its sensitivity. A whole number cannot be divided by its sensitivity: if that is s > 1, noise of the scale s b is
(1/b, 0)-private, and noise of deviation s sigma has the Rényi divergence below.

Ordinary noise in floating point does not have the density that its proof assumes (`dpml.mechanisms.floating_point`
shows an output that tells two datasets apart for certain). Here every number is an integer, every probability a ratio
of integers, and the law is the stated one, not nearly, if the random bits are fair and nobody can predict them. NumPy's
generators give fair bits that can be predicted from enough of them.

Theorem. The discrete Laplace mechanism is (1/b, 0)-private, and no smaller epsilon holds with delta = 0. The least
delta of the discrete Gaussian mechanism for one answer of sensitivity 1 is, with $Y \sim N_{\mathbb Z}(\sigma^2)$,

.. math::

    \delta(\varepsilon) = P(Y > \varepsilon\sigma^2 - \tfrac12) - e^\varepsilon\, P(Y > \varepsilon\sigma^2 + \tfrac12),

and its Rényi divergence of order a is at most $a/(2\sigma^2)$, as for the continuous law.

Proof. Laplace: the loss is $(|y - 1| - |y|)/b$, within $\pm 1/b$ and equal to $1/b$ at y = 0. Gaussian: the loss of an
output y, true answers 0 and 1, is $(1 - 2y)/2\sigma^2$; it exceeds epsilon where $y < 1/2 - \varepsilon\sigma^2$. Under
the first law -y is Y, under the second 1 - y is; that gives the two probabilities. The reflection y -> 1 - y exchanges
the laws, so the other direction is the same. For the Rényi divergence complete the square: it is $a/(2\sigma^2)$ plus
the logarithm of a ratio of two sums of $e^{-(j - x)^2/2\sigma^2}$ over the integers j, at x = a and x = 0, divided by
a - 1. By Poisson's formula such a sum is a cosine series in x with positive coefficients, so it is largest at whole x.

How they are drawn (`discrete_laplace`, `discrete_gaussian`): a coin of probability $e^{-r}$, r in [0, 1], needs only
coins of probabilities r, r/2, r/3, ...: the first failure is at an odd place with probability
$1 - r + r^2/2 - \dots = e^{-r}$. Everything else is a rejection with such coins.

Source: C. Canonne, G. Kamath and T. Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments

__all__ = ["discrete_gaussian", "discrete_gaussian_delta", "discrete_laplace", "discrete_laplace_delta"]

_LARGEST = 1e5  # of sigma, for the sums over the integers; of both scales, so that no noise leaves the 64 bits
_SMALLEST = 1e-3


def discrete_laplace(value: ArrayLike, *, scale: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return whole numbers `value` plus independent discrete Laplace noise of scale `scale`, in the shape of `value`.

    (1/scale)-differentially private for answers whose L1 sensitivity, over all entries together, is 1. `scale` is used
    as the exact binary fraction that it is. About 0.1 ms an entry.

    Raises:
        ValueError: if value has other than whole numbers within +-2^52, scale is not in [0.001, 100000] or rng not a
            Generator.

    Source: Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, Algorithm 2.
    """
    answer, scale, rng = _checked(value, "scale", scale, rng)
    noise = [_laplace(Fraction(scale), rng) for _ in range(answer.size)]
    return (answer + np.array(noise, dtype=np.int64).reshape(answer.shape))[()]


def discrete_gaussian(value: ArrayLike, *, sigma: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return whole numbers `value` plus independent discrete Gaussian noise, in the shape of `value`.

    (epsilon, `discrete_gaussian_delta`)-differentially private for one answer of sensitivity 1; for several answers
    whose L2 sensitivity is 1 together, of Rényi divergence at most order / (2 sigma^2). About 0.2 ms an entry.

    Raises:
        ValueError: if value has other than whole numbers within +-2^52, sigma is not in [0.001, 100000] or rng not a
            Generator.

    Source: Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, Algorithm 3.
    """
    answer, sigma, rng = _checked(value, "sigma", sigma, rng)
    variance = Fraction(sigma) ** 2
    reach = Fraction(math.floor(sigma) + 1)
    noise: list[int] = []
    while len(noise) < answer.size:
        proposed = _laplace(reach, rng)
        if _coin_of_exponential((abs(proposed) - variance / reach) ** 2 / (2 * variance), rng):
            noise.append(proposed)
    return (answer + np.array(noise, dtype=np.int64).reshape(answer.shape))[()]


def discrete_laplace_delta(*, scale: float, epsilon: float) -> float:
    r"""Return the least delta of the discrete Laplace mechanism for this epsilon, exactly; 0 from 1/scale on.

    .. math:: \delta(\varepsilon) = \frac{1 - e^{\varepsilon - 1/b}}{1 + e^{-1/b}}, \quad \varepsilon < 1/b .

    Raises:
        ValueError: if scale is not in [0.001, 100000] or epsilon not in [0, inf).

    Source: definition: the loss is 1/b exactly at the outputs y <= 0, and -1/b at all others.
    """
    scale = arguments.real("scale", scale, _SMALLEST, _LARGEST)
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    gap = (Fraction(epsilon) * Fraction(scale) - 1) / Fraction(scale)
    return max(0.0, -math.expm1(min(0.0, max(-1e9, float(gap)))) / (1.0 + math.exp(-1.0 / scale)))


@np.errstate(under="ignore")
def discrete_gaussian_delta(*, sigma: float, epsilon: float) -> float:
    """Return the least delta of the discrete Gaussian mechanism, one answer of sensitivity 1, for this epsilon.

    Relative error about 1e-12; 0 where it is below the smallest float.

    Raises:
        ValueError: if sigma is not in [0.001, 100000] or epsilon not in [0, inf).

    Source: Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, Theorem 7.
    """
    sigma = arguments.real("sigma", sigma, _SMALLEST, _LARGEST)
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    first = epsilon * sigma**2 - 0.5
    if first > 40.0 * sigma + 1.0:
        return 0.0
    k = np.arange(math.floor(first) + 1, math.ceil(max(0.0, first) + 40.0 * sigma) + 2, dtype=np.float64)
    whole = np.arange(1.0, math.ceil(40.0 * sigma) + 2)
    weight = 1.0 + 2.0 * float(np.sum(np.exp(-((whole / sigma) ** 2) / 2.0)))
    gain = -np.expm1(np.minimum(0.0, epsilon - (2.0 * k + 1.0) / (2.0 * sigma**2)))
    return float(np.sum(np.exp(-((k / sigma) ** 2) / 2.0) * gain)) / weight


# ---- drawing, with integers alone ----


def _below(size: int, rng: np.random.Generator) -> int:
    """A uniform integer in [0, size), of any size."""
    if size <= 2**63:
        return int(rng.integers(size))
    bits = (size - 1).bit_length()
    while (drawn := int.from_bytes(rng.bytes(-(-bits // 8)), "big") >> (-bits % 8)) >= size:
        pass
    return drawn


def _coin(probability: Fraction, rng: np.random.Generator) -> bool:
    return _below(probability.denominator, rng) < probability.numerator


def _coin_of_exponential(r: Fraction, rng: np.random.Generator) -> bool:
    """True with probability e^-r, for a rational r >= 0."""
    while r > 1:
        if not _coin_of_exponential(Fraction(1), rng):
            return False
        r -= 1
    place = 1
    while _coin(r / place, rng):
        place += 1
    return place % 2 == 1


def _laplace(scale: Fraction, rng: np.random.Generator) -> int:
    """Discrete Laplace noise of scale t/s: a geometric number of scale t, then every s-th of its values, and a sign."""
    t, s = scale.numerator, scale.denominator
    while True:
        rest = _below(t, rng)
        if not _coin_of_exponential(Fraction(rest, t), rng):
            continue
        turns = 0
        while _coin_of_exponential(Fraction(1), rng):
            turns += 1
        size, negative = (rest + t * turns) // s, bool(rng.integers(2))
        if size or not negative:  # else the value 0 would count twice
            return -size if negative else size


def _checked(
    value: ArrayLike, name: str, scale: float, rng: np.random.Generator
) -> tuple[NDArray[np.int64], float, np.random.Generator]:
    answer = arguments.array("value", value)
    if not (answer == np.round(answer)).all() or (np.abs(answer) > 2.0**52).any():
        raise ValueError(f"value must be whole numbers from -2^52 to 2^52, got {np.array2string(answer, threshold=5)}")
    return answer.astype(np.int64), arguments.real(name, scale, _SMALLEST, _LARGEST), arguments.generator("rng", rng)
