r"""Lower bounds on epsilon where the privacy loss of every output is known: from runs on D alone.

Let $\ell(Y) = \log p_D(Y)/p_{D'}(Y)$ for an output Y of D. The best event for a claimed epsilon is $\ell >
\varepsilon$, and no test has to be guessed. By definition $\delta(\varepsilon) = E_D[(1 - e^{\varepsilon - \ell})_+]$.

Theorem. Let $\underline p$ be a lower confidence limit of $P_D(\ell \ge t)$, wrong with probability at most $\eta$, for
a t that was fixed before. With probability at least $1 - \eta$ the true epsilon at delta is at least

.. math:: t + \log\bigl(1 - \delta / \underline p\bigr) .

Proof. On $\ell \ge t$ the mean of $(1 - e^{\varepsilon - \ell})_+$ is at least $1 - e^{\varepsilon - t}$, so
$\delta \ge \delta(\varepsilon) \ge \underline p\,(1 - e^{\varepsilon - t})$ for an epsilon that holds at delta. Solve.

At delta = 0 one output of loss t is a proof: epsilon is at least t. This is what an audit can achieve with densities,
and what is lost without them shows in the difference from `dpml.audit.samples`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpml import arguments
from dpml.audit.samples import lower_limit

__all__ = ["LossEvidence", "epsilon_lower_bound_from_losses"]


class LossEvidence(NamedTuple):
    """With probability `confidence` over the runs, the true epsilon at `delta` is at least `epsilon_at_least`.

    `exceeding` of `runs` outputs had a loss of at least `threshold`.

    Source: the theorem at the head of this module.
    """

    epsilon_at_least: float
    delta: float
    confidence: float
    threshold: float
    exceeding: int
    runs: int


@np.errstate(under="ignore")
def epsilon_lower_bound_from_losses(
    losses: ArrayLike, *, delta: float, confidence: float, rng: np.random.Generator
) -> LossEvidence:
    """Return how large epsilon must be at least, from the privacy losses of independent outputs of D against D'.

    The threshold is chosen on a random quarter of them and used on the others; `rng` splits. Never below 0.

    Raises:
        ValueError: if losses is not a one-dimensional array of at least two finite numbers, delta is not in [0, 1],
            confidence not in (0, 1) or rng not a Generator.

    Source: the theorem at the head of this module.
    """
    values = arguments.array("losses", losses, ndim=1, min_size=2)
    delta = arguments.probability("delta", delta)
    confidence = arguments.real("confidence", confidence, 0.0, 1.0, low_open=True, high_open=True)
    rng = arguments.generator("rng", rng)
    alarm = min(1.0 - confidence, 1.0 - 2.0**-53)  # below 1 for the smallest confidence, too
    values = rng.permutation(values)
    some = max(1, values.size // 4)
    first, second = np.sort(values[:some]), values[some:]

    least = lower_limit(np.arange(first.size, 0, -1.0), trials=first.size, alarm=alarm)
    enough = least > delta
    gains = first + np.log1p(-np.minimum(delta / np.where(enough, least, 1.0), 1.0 - 2.0**-53))
    threshold = float(first[int(np.argmax(np.where(enough, gains, -math.inf)))])
    exceeding = int(np.count_nonzero(second >= threshold))
    p = float(lower_limit(exceeding, trials=second.size, alarm=alarm))
    bound = threshold + math.log1p(-delta / p) if p > delta else 0.0
    return LossEvidence(max(0.0, bound), delta, confidence, threshold, exceeding, second.size)
