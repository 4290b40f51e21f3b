r"""Attacks on StoBatch as printed: what its released values give away, exactly.

Algorithm 1 draws $\chi_1, \chi_2, \chi_3$ once. Each example i is released as $\bar x_i = x_i + c$ with one
$c = \chi_1/m$ for all, the hidden units as $\bar h_i = \theta_1^T \bar x_i + e$ with one $e = 2\chi_2/m$.

**Item 1: differences carry no noise.** $\bar x_i - \bar x_j = x_i - x_j$. One known image gives all others
(`from_known_image`). If every pixel is background somewhere, nothing need be known: the smallest value of a pixel over
the examples is background plus c (`from_background`). For two datasets with different differences the released values
lie in two disjoint sets, so no epsilon holds with any $\delta < 1$.

**Item 2: the gradient of the encoder** on a batch, $G = \sum_i (\tfrac12 - \bar x_i) \bar h_i^T$, shows almost as much
when h is not clipped. With $\bar x_i = u_i$, their mean $\bar u$ and the covariance of the m true images,

.. math::

    G + m\,\mathrm{Cov}(X)\,\theta_1 = m\,(\tfrac12 - \bar u)(\theta_1^T \bar u + e)^T ,

a matrix of rank one: the noise hides one rank only. Proof:
$\sum_i u_i u_i^T = m\,\mathrm{Cov}(X) + m\,\bar u \bar u^T$, since the covariance does not see c. So the true data
leave one singular value, other data in general more (`rank_test`). Two limits: with h clipped the identity fails, and a
neighbour with the same covariance is not told apart.

**Item 3: the label coefficients** $\sum_i h_{\pi i}^{(t)} y_i^T + \chi_3/m$ are released at each step with the same
$\chi_3$ while $h_\pi$ changes. Their differences are linear in the labels and carry no noise (`labels_over_steps`).

Shapes: m examples of d numbers, theta of shape [d, beta].
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments

__all__ = [
    "encoder_gradient",
    "from_background",
    "from_known_image",
    "labels_over_steps",
    "rank_test",
    "same_covariance",
]


def from_known_image(noisy: ArrayLike, *, known: ArrayLike, index: int = 0) -> NDArray[np.float64]:
    r"""Return all images of [m, d] noisy ones, from the true image number `index`.

    Exact if one noise vector was added to all of them, up to rounding; it does not matter how large it is, or in which
    batch an image stands.

    Raises:
        ValueError: if noisy is not a finite array of shape [m, d] with at least one element, known not one of shape
            [d], index not an integer in [0, m - 1], or the images exceed the range of floats.

    Source: item 1 at the head of this module.

    Printed: disjoint batches cost no more than one (section 3.2, by parallel composition). That theorem is about
    mechanisms with independent noise.

    Implemented: one image of any batch gives those of every batch, since all of them share one noise vector.

    Counterexample: four disjoint batches, and one image of the third.

    >>> import numpy as np
    >>> from dpml import data
    >>> from dpml.certified.stobatch import reconstruction
    >>> images = data.digits().train_images[:1400].reshape(1400, 64) / 8 - 1
    >>> noisy = images + np.random.default_rng(1).laplace(scale=62.0, size=64)
    >>> found = reconstruction.from_known_image(
    ...     noisy, known=images[800], index=800
    ... )
    >>> bool(abs(found - images).max() < 1e-12)
    True
    """
    rows = arguments.array("noisy", noisy, ndim=2, min_size=1)
    index = arguments.integer("index", index, 0, len(rows) - 1)
    image = arguments.array("known", known, shape=rows.shape[1:])
    with np.errstate(over="ignore"):
        return arguments.finite("noisy", noisy, (rows - rows[index]) + image, "the images")


def from_background(noisy: ArrayLike, *, low: float = -1.0) -> NDArray[np.float64]:
    r"""Return all images of [m, d] noisy ones, taking the least value of each pixel to be `low`, the background.

    Exact, up to rounding, if one noise vector was added to all of them and every pixel is background in some image. The
    images must come from data in [low, inf).

    Raises:
        ValueError: if noisy is not a finite array of shape [m, d] with at least one element, low is not finite, or the
            images exceed the range of floats.

    Source: item 1 at the head of this module.

    Printed: with noise $\chi_1, \chi_2$ drawn once for all examples, the noisy batch and all that is learned from it,
    benign or adversarial, is private at $\epsilon_1/\gamma_x + \epsilon_1$ (Theorems 1 and 2), and the parameters over
    T steps at $\epsilon_1 + \epsilon_1/\gamma_x + \epsilon_1/\gamma + \epsilon_2$ (Theorem 4).

    Implemented: the attack. The noisy batch determines every difference of two images, so that no epsilon holds with
    any delta below 1. Of 350 digits in noise of scale 62 each pixel comes back, nothing being known.

    Counterexample: 350 digits in one noise of scale 62: the largest error of what is read off them.

    >>> import numpy as np
    >>> from dpml import data
    >>> from dpml.certified.stobatch import reconstruction
    >>> images = data.digits().train_images[:350].reshape(350, 64) / 8 - 1
    >>> noisy = images + np.random.default_rng(2).laplace(scale=62.0, size=64)
    >>> (
    ...     bool(abs(noisy - images).max() > 62),
    ...     bool(
    ...         abs(reconstruction.from_background(noisy) - images).max()
    ...         < 1e-12
    ...     ),
    ... )
    (True, True)
    """
    rows = arguments.array("noisy", noisy, ndim=2, min_size=1)
    low = arguments.real("low", low)
    with np.errstate(over="ignore"):
        return arguments.finite("noisy", noisy, (rows - rows.min(axis=0)) + low, "the images")


def encoder_gradient(
    noisy: ArrayLike, *, theta: ArrayLike, hidden_noise: ArrayLike, bound: float = math.inf
) -> NDArray[np.float64]:
    r"""Return $G = \sum_i (\tfrac12 - \bar x_i)(h_i + e)^T$, [d, beta], which a step of Algorithm 1 releases.

    $h_i = \theta^T \bar x_i$ is clipped to [-bound, bound]; infinity leaves it as it is. `hidden_noise` is e, [beta].

    Raises:
        ValueError: if noisy is not a finite array of shape [m, d], theta not one of shape [d, beta], hidden_noise not
            one of shape [beta], bound not in (0, inf], or the gradient exceeds the range of floats.

    Source: StoBatch (Phan et al., ICML 2020), section 3.1, the gradient before Theorem 1.
    """
    rows = arguments.array("noisy", noisy, ndim=2, min_size=1)
    weights = _weights(theta, rows.shape[1])
    offset = arguments.array("hidden_noise", hidden_noise, shape=weights.shape[1:])
    if not (isinstance(bound, float) and bound == math.inf):
        bound = arguments.real("bound", bound, 0.0, low_open=True)
    with np.errstate(over="ignore", invalid="ignore"):
        hidden = np.clip(rows @ weights, -bound, bound) + offset
        return arguments.finite("noisy", noisy, (0.5 - rows).T @ hidden, "the gradient")


def rank_test(gradient: ArrayLike, *, theta: ArrayLike, data: ArrayLike) -> NDArray[np.float64]:
    r"""Return the singular values of $G + m\,\mathrm{Cov}(X)\,\theta$, largest first, for the guess X = `data`.

    If X is the true batch and h was not clipped, all but the first are 0 up to rounding. For another batch the second
    is in general not; but it is where X has the same covariance (`same_covariance`), and with h clipped it is not for
    the true batch either.

    Raises:
        ValueError: if gradient and theta are not finite arrays of one shape [d, beta], data not one of shape [m, d], or
            the matrix exceeds the range of floats.

    Source: item 2 at the head of this module.
    """
    rows = arguments.array("data", data, ndim=2, min_size=1)
    weights = _weights(theta, rows.shape[1])
    released = arguments.array("gradient", gradient, shape=weights.shape)
    centred = rows - rows.mean(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        matrix = arguments.finite("gradient", gradient, released + centred.T @ (centred @ weights), "the matrix")
    return np.asarray(np.linalg.svd(matrix, compute_uv=False))


def same_covariance(data: ArrayLike, *, index: int = 0) -> NDArray[np.float64]:
    r"""Return the neighbour of [m, d] data in which example `index` is $2\,\mathrm{mean}(\text{others}) - x$.

    Mirrored at the mean of the others, it leaves the covariance as it is: `rank_test` does not tell the two apart. It
    may leave the range of the data, as each of the first 350 digits does; then it is no neighbour there.

    Raises:
        ValueError: if data is not a finite array of shape [m, d] with at least two rows, index not an integer in
            [0, m - 1], or the result exceeds the range of floats.

    Source: item 2 at the head of this module; the deviations from the means differ in their sign only, once the means
    are shifted.
    """
    rows = arguments.array("data", data, ndim=2, min_size=1)
    if len(rows) < 2:
        raise ValueError(f"data must hold at least 2 examples, got {len(rows)}")
    index = arguments.integer("index", index, 0, len(rows) - 1)
    other = rows.copy()
    with np.errstate(over="ignore"):
        other[index] = 2.0 * np.delete(rows, index, axis=0).mean(axis=0) - rows[index]
    return arguments.finite("data", data, other, "the neighbour")


def labels_over_steps(released: ArrayLike, *, hidden: ArrayLike) -> NDArray[np.float64]:
    r"""Return the one-hot labels [m, K] of a batch, from its label coefficients at several steps.

    `released` holds $S_t = \sum_i h_i^{(t)} y_i^T + \chi_3/m$ for each step, shape [T, H, K]; `hidden` the units
    $h_i^{(t)}$, shape [T, m, H], which follow from released values. Least squares on $S_t - S_0$, from which $\chi_3$
    has gone: exact up to rounding if it was the same at all steps. The largest entry of a row is the label.

    Raises:
        ValueError: if released is not a finite array of shape [T, H, K], hidden not one of shape [T, m, H], or the
            steps do not determine the labels: (T - 1) H >= m independent equations are needed.

    Source: item 3 at the head of this module.

    Printed: $\epsilon_2$ pays for the label coefficients over all T steps, with $\chi_3$ drawn once (Theorems 3 and 4).

    Implemented: the attack. From T = 1 + m/H steps on the labels of a batch follow from differences, whatever
    $\epsilon_2$ is.

    Counterexample: the labels of 100 digits over 9 steps, in noise of scale 1e6 that is drawn once.

    >>> import numpy as np
    >>> from dpml import data
    >>> from dpml.certified.stobatch import reconstruction
    >>> rng, labels = np.random.default_rng(3), data.digits().train_labels[:100]
    >>> hidden = rng.uniform(-1, 1, size=(9, 100, 16))
    >>> sums = np.einsum(
    ...     "tmh,mk->thk", hidden, np.eye(10)[labels]
    ... ) + rng.laplace(scale=1e6, size=(16, 10))
    >>> found = reconstruction.labels_over_steps(sums, hidden=hidden).argmax(
    ...     axis=1
    ... )
    >>> bool(np.all(found == labels))
    True
    """
    sums = arguments.array("released", released, ndim=3, min_size=1)
    units = arguments.array("hidden", hidden, ndim=3, min_size=1)
    steps, width = sums.shape[:2]
    if units.shape[0] != steps or units.shape[2] != width:
        raise ValueError(f"hidden must be an array of shape ({steps}, m, {width}), got shape {units.shape}")
    examples = units.shape[1]
    least = 1 + math.ceil(examples / width)
    if steps < least:
        raise ValueError(f"released must hold at least {least} steps for {examples} examples, got {steps}")
    equations = (units[1:] - units[0]).transpose(0, 2, 1).reshape(-1, examples)
    found, _, rank, _ = np.linalg.lstsq(equations, (sums[1:] - sums[0]).reshape(-1, sums.shape[2]), rcond=1e-10)
    if rank < examples:
        raise ValueError(f"hidden must give {examples} independent equations over the steps, got {rank}")
    return np.asarray(found)


def _weights(theta: ArrayLike, dimension: int) -> NDArray[np.float64]:
    weights = arguments.array("theta", theta, ndim=2, min_size=1)
    if weights.shape[0] != dimension:
        raise ValueError(f"theta must have {dimension} rows, one for each number of an input, got {weights.shape[0]}")
    return weights
