r"""Lower bounds from scores of a mechanism that is a Gaussian one, with an unknown amount of noise.

Any test of a black box is one point of its trade-off curve, and $(\varepsilon, \delta)$ at a small delta is decided by
rare outputs, of which samples show few. Who knows the *form* of the curve may carry a point to where nothing was seen.
A mechanism is $\mu$-Gaussian-DP if every test has

.. math:: \Phi^{-1}(1 - \beta) + \Phi^{-1}(1 - \alpha) \le \mu ,

the limit for $N(\mu, 1)$ against $N(0, 1)$; Gaussian noise of multiplier sigma has $\mu = 1/\sigma$ exactly.

Theorem. Let $\bar\alpha$ and $\bar\beta$ be upper confidence limits of the two error rates, each wrong with probability
at most $\eta/2$. With probability at least $1 - \eta$ no $\mu$ below
$\Phi^{-1}(1 - \bar\alpha) + \Phi^{-1}(1 - \bar\beta)$ is true. *If* the mechanism's trade-off curve is that of a
Gaussian with some mu, then its least epsilon at delta is at least that of Gaussian noise $\sigma = 1/\mu$.

Proof. Both limits hold with that probability, and $\Phi^{-1}$ increases. The least epsilon increases with mu.

The assumption is the whole gain, and it is not tested here. For a mechanism of another form the bound on mu still holds
(as a bound on every mu for which the mechanism is mu-Gaussian-DP); the epsilon derived from it does not.

Source: J. Dong, A. Roth and W. Su, "Gaussian differential privacy", JRSS B 84 (2022); M. Nasr et al., "Tight auditing
of differentially private machine learning", USENIX Security 2023.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from dpml import arguments
from dpml.audit.samples import best_test
from dpml.mechanisms import gaussian_epsilon

__all__ = ["GaussianEvidence", "gaussian_lower_bound_from_scores"]


class GaussianEvidence(NamedTuple):
    """With probability `confidence` mu is at least `mu_at_least`, and epsilon at `delta` at least `epsilon_at_least`.

    The second holds for mechanisms whose trade-off curve is that of a Gaussian one. The counts are as in
    `dpml.audit.samples.Evidence`.

    Source: the theorem at the head of this module.
    """

    mu_at_least: float
    epsilon_at_least: float
    delta: float
    confidence: float
    true_positives: int
    positives: int
    false_positives: int
    negatives: int


def gaussian_lower_bound_from_scores(
    scores: ArrayLike,
    *,
    scores_neighbour: ArrayLike,
    delta: float,
    confidence: float,
    rng: np.random.Generator,
) -> GaussianEvidence:
    """Return how large mu and epsilon must be at least, from a score per run: `scores` on D, `scores_neighbour` on D'.

    Threshold and direction are chosen on a random quarter of the runs and used on the others, as in
    `dpml.audit.samples.epsilon_lower_bound_from_scores`; `rng` splits them. Both are 0 where the test does no better
    than a coin. Assumes a Gaussian trade-off curve for epsilon (see the head of this module).

    Raises:
        ValueError: if scores or scores_neighbour is not a one-dimensional array of at least two finite numbers,
            delta is not in (0, 1), confidence not in (0, 1) or rng not a Generator.

    Source: the theorem at the head of this module.
    """
    delta = arguments.real("delta", delta, 0.0, 1.0, low_open=True, high_open=True)

    def mu(beta: Any, alpha: Any) -> Any:
        return np.maximum(0.0, -ndtri(beta) - ndtri(alpha))  # 1 is -inf, which is fine

    least, counts = best_test(scores, scores_neighbour=scores_neighbour, bound=mu, confidence=confidence, rng=rng)
    epsilon = gaussian_epsilon(sigma=1.0 / least, delta=delta) if least > 0.0 else 0.0
    return GaussianEvidence(least, epsilon, delta, float(confidence), *counts)
