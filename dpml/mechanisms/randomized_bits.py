r"""Randomized response: answer a yes/no question truly with probability p, and lie otherwise.

.. math::

    p = \frac{e^\varepsilon}{1 + e^\varepsilon}, \qquad \varepsilon = \log\frac{p}{1-p} .

Theorem. One answer is (epsilon, 0)-differentially private, and no smaller epsilon holds.

Proof. The answer "yes" has probability p if the truth is yes and 1 - p if it is no; "no" the other way round. The
ratio of the two is p/(1-p) or its inverse, and both occur.

Neighbours differ in one person's bit (replace-one); every person's bit is protected on its own, before it leaves
that person (local privacy).

Estimation. If the mean of the true bits is t, the answers have mean (1-p) + (2p-1) t, and 2p - 1 = tanh(epsilon/2).
Solving for t gives an unbiased estimate.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from dpml import arguments

__all__ = [
    "randomized_response",
    "randomized_response_estimate",
    "randomized_response_truth_probability",
]


def randomized_response(bits: ArrayLike, *, epsilon: float, rng: np.random.Generator) -> NDArray[np.int8]:
    """Return each of `bits`, 0/1 or booleans, flipped with probability 1/(1 + e^epsilon), in the same shape.

    Each answer is (epsilon, 0)-differentially private under replace-one of its own bit. The probability of a lie is
    rounded up to a multiple of 2^-53, so it stays above 0 at every epsilon.

    Raises:
        ValueError: if bits holds anything but zeros and ones, epsilon is not in [0, inf) or rng not a Generator.

    Source: S. L. Warner, "Randomized response", JASA 60 (1965); Dwork and Roth, "The algorithmic foundations of
    differential privacy", section 3.2.
    """
    answers = arguments.bits("bits", bits)
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    rng = arguments.generator("rng", rng)
    # rng.random() is uniform on the multiples of 2^-53 in [0, 1), so a lie has exactly the probability `lie`, itself
    # such a multiple: above 0, at most 1/2, and never below the formula's value, since the factor exceeds the error of
    # expit.
    lie = min(0.5, max(1, math.ceil(expit(-epsilon) * (1.0 + 2.0**-50) * 2.0**53)) * 2.0**-53)
    lies = rng.random(answers.shape) < lie
    told: NDArray[np.int8] = (answers ^ lies).astype(np.int8)[()]
    return told


def randomized_response_truth_probability(*, epsilon: float) -> float:
    """Return the probability e^epsilon / (1 + e^epsilon) of a true answer.

    From epsilon = 37 on the nearest float is 1.0; the sampler uses the probability of a lie and still lies.

    Raises:
        ValueError: if epsilon is not in [0, inf).

    Source: Dwork and Roth, "The algorithmic foundations of differential privacy", section 3.2 (epsilon = ln 3).
    """
    return float(expit(arguments.real("epsilon", epsilon, 0.0)))


def randomized_response_estimate(answers: ArrayLike, *, epsilon: float) -> float:
    """Return an unbiased estimate of the mean of the true bits from the randomized `answers` to them.

    It may lie outside [0, 1]: cutting it off there would bias it. Its standard deviation is at most
    1 / (2 sqrt(number of answers) tanh(epsilon/2)), the bits being fixed.

    Raises:
        ValueError: if answers is empty or holds anything but zeros and ones, or epsilon is not in [1e-300, inf):
            at 0 the answers say nothing.

    Source: S. L. Warner, "Randomized response", JASA 60 (1965).
    """
    given = arguments.bits("answers", answers)
    if given.size == 0:
        raise ValueError("answers must be an array of at least 1 element, got none")
    epsilon = arguments.real("epsilon", epsilon, 1e-300)
    share = float(np.mean(given))
    # (share - (1-p)) / (2p-1), written so that nothing cancels at small epsilon
    return 0.5 + (share - 0.5) / math.tanh(epsilon / 2.0)
