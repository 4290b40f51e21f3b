r"""What is noisy before StoBatch trains: a policy is a value that draws the noise and says what it promises.

Training sees nothing of the data but what a policy releases, once: noisy examples, labels, one vector of noise for the
hidden layer and one matrix of noise for the labels' coefficients. All T steps are post-processing of that. So the
promise is the policy's, whatever the network, and there are three policies:

| policy | examples | labels | promise |
|---|---|---|---|
| `AsPrinted` | x + $\chi_1/m$, one $\chi_1$ for all of them | true, with one $\chi_3$ for all steps | none |
| `local.Local` | x + fresh noise for each | randomized, once | $(\varepsilon_x + \varepsilon_2, 0)$ |
| `NoNoise` | x | true | none: the yardstick |

Why the first promises nothing. The paper calls the noisy batch private (its Lemma 3). With one noise vector for all
examples the difference of two noisy examples is the difference of the examples, exactly. Let D and D' differ in their
first example. The outputs possible for D fix this difference at one value, those for D' at another one; no output
belongs to both, so that delta is 1 at every epsilon. `dpml.certified.stobatch.reconstruction` turns this into the
images themselves.

Neighbours: datasets of as many examples that differ in one of them (replace-one).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpml import mechanisms
from dpml.accounting.guarantee import Guarantee
from dpml.certified.stobatch import budget

__all__ = ["AsPrinted", "NoNoise", "Released", "Sizes", "no_shared_noise"]


class Sizes(NamedTuple):
    r"""What the printed scales are made of: d, $\beta$, the units $|h_\pi|$ of the last layer, classes, batch size m.

    Source: StoBatch (Phan et al., ICML 2020), sections 3.1 and 3.2.
    """

    dimension: int
    beta: int
    hidden: int
    classes: int
    m: int


class Released(NamedTuple):
    """All that training sees of the data.

    Attributes:
        x: noisy examples, [N, d].
        y: labels, [N].
        latent: noise added to the hidden layer of every example, [beta].
        coefficients: noise added to the coefficients of the labels, [hidden, classes], in a mean over the batch.
        shift: what all noisy examples have in common, [d]: a new input gets it as well.

    Source: StoBatch (Phan et al., ICML 2020), Algorithm 1, lines 1 and 2.
    """

    x: NDArray[np.float64]
    y: NDArray[np.int64]
    latent: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    shift: NDArray[np.float64]


def no_shared_noise(x: NDArray[np.float64], y: NDArray[np.int64], *, sizes: Sizes) -> Released:
    """Return examples and labels as they come, without any noise that they share.

    Source: definition.
    """
    return Released(x, y, np.zeros(sizes.beta), np.zeros((sizes.hidden, sizes.classes)), np.zeros(sizes.dimension))


@dataclass(frozen=True)
class AsPrinted:
    r"""One noise vector for all examples, all steps and all batches: StoBatch as its Algorithm 1 is printed.

    With b of `budget.input_scale`, every example gets the same Lap(b) on its pixels, the hidden layer Lap(2b), the
    coefficients of the labels the noise of `budget.label_scale`. Line 1 prints $|h_\pi|$ numbers for the last, one for
    all classes; here they are $|h_\pi| \times K$, as in the authors' program, the more private reading.

    Raises:
        ValueError: if epsilon_1 or epsilon_2 is not in (0, inf).

    Source: StoBatch (Phan et al., ICML 2020), Algorithm 1, line 1.

    Printed: the noisy batch is $\varepsilon_1/\gamma_x$-private (Lemma 3) and all that is learned from it
    $(\varepsilon_1 + \varepsilon_1/\gamma_x + \varepsilon_1/\gamma + \varepsilon_2)$-private (Theorem 4).

    Implemented: the noise as printed, and no guarantee: `guarantee` returns None, and `says` says why. In a training
    run on 700 digits the images of all batches come back from what training saw.

    Counterexample: three images in this noise, and one of them known.

    >>> import numpy as np
    >>> from dpml.certified.stobatch import noise, reconstruction
    >>> images = np.array([[-1.0, 0.5], [1.0, -1.0], [0.25, 0.0]])
    >>> sizes = noise.Sizes(dimension=2, beta=32, hidden=32, classes=10, m=3)
    >>> printed = noise.AsPrinted(epsilon_1=0.1, epsilon_2=0.1)
    >>> released = printed.release(
    ...     images,
    ...     np.array([0, 1, 2]),
    ...     sizes=sizes,
    ...     rng=np.random.default_rng(0),
    ... )
    >>> found = reconstruction.from_known_image(
    ...     released.x, known=images[0], index=0
    ... )
    >>> np.round(found, 9).tolist() == images.tolist()
    True
    """

    _: KW_ONLY
    epsilon_1: float
    epsilon_2: float
    says = (
        "Not private: one noise vector is shared by all examples, so that the noisy examples give away the "
        "difference of any two exactly, and no epsilon holds at any delta below 1."
    )
    """One sentence on what holds."""

    def __post_init__(self) -> None:
        budget.all_positive(self)

    def release(
        self, x: NDArray[np.float64], y: NDArray[np.int64], *, sizes: Sizes, rng: np.random.Generator
    ) -> Released:
        """Return what training sees, drawn once.

        Source: StoBatch (Phan et al., ICML 2020), Algorithm 1, lines 1 and 2.
        """
        scale = self.scale(sizes)
        shift = mechanisms.laplace(np.zeros(sizes.dimension), scale=scale, rng=rng)
        latent = mechanisms.laplace(np.zeros(sizes.beta), scale=2.0 * scale, rng=rng)
        on_labels = budget.label_scale(hidden=sizes.hidden, m=sizes.m, epsilon_2=self.epsilon_2)
        coefficients = mechanisms.laplace(np.zeros((sizes.hidden, sizes.classes)), scale=on_labels, rng=rng)
        return Released(x + shift, y, latent, coefficients, shift)

    def scale(self, sizes: Sizes) -> float:
        """Return b, the Laplace scale of the noise on a pixel.

        Source: `budget.input_scale`.
        """
        return budget.input_scale(dimension=sizes.dimension, beta=sizes.beta, m=sizes.m, epsilon_1=self.epsilon_1)

    def claimed(self, sizes: Sizes, *, norm: float) -> float:
        """Return the epsilon of Theorem 4; `norm` is the largest 1-norm of a column of theta_1.

        Source: `budget.claimed_epsilon`.
        """
        both = {"epsilon_1": self.epsilon_1, "epsilon_2": self.epsilon_2}
        return budget.claimed_epsilon(dimension=sizes.dimension, beta=sizes.beta, m=sizes.m, norm=norm, **both)

    def guarantee(self) -> Guarantee | None:
        """Return None: nothing is promised.

        Source: the head of this module.
        """
        return None


@dataclass(frozen=True)
class NoNoise:
    """No noise and no privacy: the yardstick.

    Source: definition.
    """

    says = "Not private: trained on the examples as they are."
    """One sentence on what holds."""

    def release(
        self, x: NDArray[np.float64], y: NDArray[np.int64], *, sizes: Sizes, rng: np.random.Generator
    ) -> Released:
        """Return the data as they are.

        Source: definition.
        """
        return no_shared_noise(x, y, sizes=sizes)

    def guarantee(self) -> Guarantee | None:
        """Return None: nothing is promised.

        Source: definition.
        """
        return None
