r"""How close trimmed SGD with propose-test-release comes to the optimum when F gradients are corrupted.

Projected SGD on a convex set that holds the optimum, n examples in every step, learning rate eta. Honest gradients have
length at most R and a mean g with $\langle g, \theta - \theta^* \rangle \ge \alpha \|\theta - \theta^*\|^2$, as for
losses of strong convexity alpha; at most F others are arbitrary, clipped to R. A step adds up the n - F shortest
gradients, or all of them, with noise of deviation at most sigma R in each of p coordinates, and divides by n. With
$D_t = \|\theta_t - \theta^*\|$,

.. math::

    u_{t+1}^2 = u_t^2 - \frac{2 \eta (n - F)\, \alpha}{n}\, u_t^2 + \frac{4 \eta F R}{n}\, u_t
        + \eta^2 R^2 \Bigl(1 + \frac{p\, \sigma^2}{n^2}\Bigr),
    \qquad \mathbb{E} D_t^2 \le u_t^2 .

Proof. Let c <= F be corrupted, and j of them survive the trimming. The sum that is released is the sum of the n - c
honest gradients, less the F - c + j honest ones that were trimmed, plus the j: it differs from the honest sum by at
most (F - c + 2 j) R <= 2 F R (without trimming by c R). So its product with $\theta_t - \theta^*$ has expectation at
least $(n - F)\, \alpha\, D_t^2 - 2 F R D_t$, where trimmed honest gradients count in full: nothing is assumed about
which ones they are. Its length is at most n R. Projection brings no point farther from $\theta^*$, the noise is
independent, and $\mathbb{E} D_t \le (\mathbb{E} D_t^2)^{1/2}$ by Jensen. The right side increases in $u_t$ if
$2 \eta (n - F) \alpha \le n$. The outcome of the test plays no part. QED

The distance does not go to 0: F corrupted examples hold the model away from the optimum, `resting_distance`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpml import arguments

__all__ = ["distance_bound", "least_tau", "resting_distance"]


@np.errstate(under="ignore")
def distance_bound(
    start: float,
    *,
    learning_rate: float,
    convexity: float,
    bound: float,
    batch: int,
    trim: int,
    dimension: int,
    sigma: float,
    steps: int,
) -> NDArray[np.float64]:
    """Return bounds on the root mean squared distance to the optimum after 0, 1, ..., `steps` steps, shape [steps + 1].

    `start` is the distance at first, `convexity` is alpha, `bound` is R, `batch` the number n of examples in a step,
    `trim` is F and also the most that may be corrupted, `dimension` the number of parameters.

    Raises:
        ValueError: if start or sigma is not in [0, 1e6], learning_rate, convexity or bound not in (0, 1e6], batch not
            an integer in [1, 1e9], trim not in [0, (batch - 1) / 2], dimension not in [1, 1e12], or steps not in
            [0, 1e6]; or if learning_rate is above batch / (2 (batch - trim) convexity), beyond which the proof ends.

    Source: ours, in place of the PTR paper (Wang et al., NeurIPS 2022), Theorem 5.2, whose proof takes the gradients
    that survive trimming for unbiased; proved at the head of this module.
    """
    first = arguments.real("start", start, 0.0, 1e6)
    n, trimmed = _sizes(batch, trim)
    alpha = arguments.real("convexity", convexity, 0.0, 1e6, low_open=True)
    length = arguments.real("bound", bound, 0.0, 1e6, low_open=True)
    p = arguments.integer("dimension", dimension, 1, 10**12)
    sigma = arguments.real("sigma", sigma, 0.0, 1e6)
    count = arguments.integer("steps", steps, 0, 10**6)
    rate = arguments.real("learning_rate", learning_rate, 0.0, 1e6, low_open=True)
    if 2.0 * rate * (n - trimmed) * alpha > n:
        raise ValueError(
            f"learning_rate must be in (0, {n / (2.0 * (n - trimmed) * alpha):g}], the range of the bound at this "
            f"convexity, got {rate!r}"
        )
    shrink = 1.0 - 2.0 * rate * (n - trimmed) * alpha / n
    drift = 4.0 * rate * trimmed * length / n
    blur = (rate * length) ** 2 * (1.0 + p * sigma**2 / n**2)
    found = np.empty(count + 1)
    found[0] = first
    for step in range(count):
        found[step + 1] = math.sqrt(shrink * found[step] ** 2 + drift * found[step] + blur)
    return found


def resting_distance(*, convexity: float, bound: float, batch: int, trim: int) -> float:
    """Return the distance 2 F R / ((n - F) alpha) at which the bound rests as the learning rate goes to 0.

    Raises:
        ValueError: if convexity or bound is not in (0, 1e6], batch not an integer in [1, 1e9], trim not in
            [0, (batch - 1) / 2], or the result exceeds the range of floats.

    Source: ours, in place of the PTR paper (Wang et al., NeurIPS 2022), Theorem 5.2.
    """
    n, trimmed = _sizes(batch, trim)
    alpha = arguments.real("convexity", convexity, 0.0, 1e6, low_open=True)
    length = arguments.real("bound", bound, 0.0, 1e6, low_open=True)
    return arguments.finite("convexity", alpha, 2.0 * trimmed * length / ((n - trimmed) * alpha))


def least_tau(*, batch: int, trim: int) -> float:
    """Return the least tau, in units of R, for which the paper's condition on its convergence theorem can hold.

    The condition bounds the variance after a passed test below by (n - F)(n + 1)/n^2 times that after a failed one,
    and more; so tau is at least the root of it. At F = n/4 that is 0.866, while the paper's experiments have 0.5, 0.6
    and 0.667: the theorem says nothing about them. At most 1, which no tau reaches.

    Raises:
        ValueError: if batch is not an integer in [1, 1e9], or trim not in [0, (batch - 1) / 2].

    Source: the PTR paper (Wang et al., NeurIPS 2022), Theorem 5.2, the condition on the noise in its appendix.
    """
    n, trimmed = _sizes(batch, trim)
    return min(1.0, math.sqrt((n - trimmed) * (n + 1.0)) / n)


def _sizes(batch: int, trim: int) -> tuple[int, int]:
    n = arguments.integer("batch", batch, 1, 10**9)
    return n, arguments.integer("trim", trim, 0, (n - 1) // 2)
