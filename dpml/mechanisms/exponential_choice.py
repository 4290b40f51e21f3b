r"""The exponential mechanism: choose option i with a probability that grows with its score.

.. math::

    P(i) = \frac{e^{\varepsilon u_i / 2}}{\sum_j e^{\varepsilon u_j / 2}}

Assumption: between neighbouring datasets every score $u_i$ changes by at most 1.

Theorem. The choice is (epsilon, 0)-differentially private.

Proof. The numerator changes by a factor of at most $e^{\varepsilon/2}$, and so does every term of the
denominator, hence the denominator.

The result holds for every neighbouring relation for which the scores have sensitivity 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments

__all__ = ["exponential", "exponential_probabilities"]


def exponential(scores: ArrayLike, *, epsilon: float, rng: np.random.Generator) -> int:
    """Return the index of the option chosen, (epsilon, 0)-differentially private for scores of sensitivity 1.

    `scores` has one dimension. Adding independent Gumbel noise to each exponent and taking the largest gives the
    probabilities of `exponential_probabilities`, up to the rounding of NumPy's Gumbel noise: it lies in
    [-3.604, 36.737], so an option whose exponent is more than 40.34 below the best is never chosen, where the formula
    gives it a probability below 1e-17.

    Raises:
        ValueError: if scores is not a non-empty one-dimensional array of finite numbers, epsilon is not in
            [0, inf) or rng not a Generator.

    Source: F. McSherry and K. Talwar, "Mechanism design via differential privacy", FOCS 2007; Dwork and Roth,
    "The algorithmic foundations of differential privacy", Theorem 3.10.
    """
    exponents = _exponents(scores, epsilon)
    rng = arguments.generator("rng", rng)
    return int(np.argmax(exponents + rng.gumbel(size=exponents.size)))


def exponential_probabilities(scores: ArrayLike, *, epsilon: float) -> NDArray[np.float64]:
    """Return the probability of each option, in the shape of `scores`; they add up to 1.

    Raises:
        ValueError: if scores is not a non-empty one-dimensional array of finite numbers or epsilon is not in
            [0, inf).

    Source: Dwork and Roth, "The algorithmic foundations of differential privacy", Definition 3.4.
    """
    with np.errstate(under="ignore"):  # hopeless options get 0
        weights = np.exp(_exponents(scores, epsilon))
    probabilities: NDArray[np.float64] = weights / weights.sum()
    return probabilities


def _exponents(scores: ArrayLike, epsilon: float) -> NDArray[np.float64]:
    utilities = arguments.array("scores", scores, ndim=1, min_size=1)
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    with np.errstate(over="ignore", under="ignore"):  # -inf is right for an option that is hopelessly far behind
        exponents: NDArray[np.float64] = epsilon * (utilities / 2.0 - utilities.max() / 2.0)
    return exponents
