r"""StoBatch made sound, the local way: fresh noise for each example, a random answer for each label, once.

.. math::

    \bar x_i = x_i + \mathrm{Lap}(b)^d, \quad b = \frac{2d}{\varepsilon_x}; \qquad
    P(\bar y_i = y_i) = \frac{e^{\varepsilon_2}}{e^{\varepsilon_2} + K - 1}, \text{ any other label with equal chances.}

Theorem. For examples in $[-1, 1]^d$ and K classes the list of all $(\bar x_i, \bar y_i)$ is
$(\varepsilon_x + \varepsilon_2, 0)$-differentially private under replace-one, and so is everything that is made of it:
auto-encoder, adversarial examples, any number T of steps, batches however they are drawn, many trainers.

Proof. Noise is independent over examples, so only the pair of the replaced example matters. Two points of
$[-1, 1]^d$ are at most 2d apart in the $\ell_1$ norm, and the densities of Laplace noise of scale b at two centres have
a ratio of at most $e^{2d/b} = e^{\varepsilon_x}$. An answer has probability
$e^{\varepsilon_2}/(e^{\varepsilon_2} + K - 1)$ or $1/(e^{\varepsilon_2} + K - 1)$, of ratio $e^{\varepsilon_2}$. The
two are independent given the example, and the ratios multiply. What follows is post-processing.

It keeps what the paper wants: epsilon does not grow with T, and batches may be spread over trainers. The price is the
factor 2d: every pixel is noisy enough to hide a whole image, so that useful accuracy needs an epsilon in the hundreds.
As everywhere in this package, noise is drawn in floating point and from a generator that is not cryptographic.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

from dpml import mechanisms
from dpml.accounting.guarantee import Guarantee
from dpml.certified.stobatch import budget
from dpml.certified.stobatch.noise import Released, Sizes, no_shared_noise

__all__ = ["Local"]


@dataclass(frozen=True)
class Local:
    r"""Fresh Laplace noise of scale $2d/\varepsilon_x$ for each example, and randomized labels at $\varepsilon_2$.

    Raises:
        ValueError: if epsilon_x or epsilon_2 is not in (0, inf).

    Source: the theorem at the head of this module; Dwork and Roth, "The algorithmic foundations of differential
    privacy", Theorem 3.6, for the noise.
    """

    _: KW_ONLY
    epsilon_x: float
    epsilon_2: float

    def __post_init__(self) -> None:
        budget.all_positive(self)

    def release(
        self, x: NDArray[np.float64], y: NDArray[np.int64], *, sizes: Sizes, rng: np.random.Generator
    ) -> Released:
        """Return noisy examples and labels, drawn once.

        Source: the head of this module.
        """
        noisy = mechanisms.laplace(x, scale=self.scale(sizes), rng=rng)
        labels = budget.randomized_labels(y, epsilon=self.epsilon_2, classes=sizes.classes, rng=rng)
        return no_shared_noise(noisy, labels, sizes=sizes)

    def scale(self, sizes: Sizes) -> float:
        """Return b, the Laplace scale of the noise on a pixel.

        Source: `budget.fresh_scale`.
        """
        return budget.fresh_scale(epsilon=self.epsilon_x, dimension=sizes.dimension)

    def guarantee(self) -> Guarantee | None:
        """Return what holds for all that is released, and for all that is made of it.

        Source: the theorem at the head of this module.
        """
        return budget.local_guarantee(epsilon_x=self.epsilon_x, epsilon_2=self.epsilon_2)

    @property
    def says(self) -> str:
        """One sentence on what holds."""
        return str(self.guarantee())
