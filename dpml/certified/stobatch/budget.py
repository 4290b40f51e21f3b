r"""The numbers of StoBatch: sensitivities, noise, privacy budget, certified sizes. As printed, and as they hold.

Data $x \in [-1, 1]^d$ in fixed disjoint batches of m examples, K classes, an encoder with $\beta$ hidden units
$h = \theta_1^T x$ in $[-1, 1]$, a last hidden layer of $|h_\pi|$ units in $[-1, 1]$. The paper sets

.. math::

    \Delta_R = d(\beta + 2), \quad \Delta_{L2} = 2|h_\pi|, \quad \gamma_x = \frac{\Delta_R}{m}, \quad
    \gamma = \frac{2 \Delta_R}{m \lVert\theta_1\rVert_{1,1}}, \quad
    b = \frac{\Delta_R}{m \epsilon_1},

adds Laplace noise of scale b to inputs, 2b to hidden units and $\Delta_{L2}/(m \epsilon_2)$ to the label coefficients,
and claims $\epsilon_1 + \epsilon_1/\gamma_x + \epsilon_1/\gamma + \epsilon_2$ (Theorem 4).

What holds, by the definition of the Laplace mechanism, when **each example gets noise of its own**, for neighbours that
differ in one replaced example: the $\ell_1$ distance of two points of $[-1, 1]^d$ is up to 2d, so that the noisy input
is $(2d/b)$-private,

.. math::

    \frac{2d}{b} = \frac{2 m \epsilon_1}{\beta + 2} .

All that follows (hidden units, adversarial examples, any number of steps) is post-processing and costs nothing more.
With labels by randomized response at $\epsilon_2$ the whole training is $(2d/b + \epsilon_2)$-private, for every T.

When one noise vector is shared by all examples, no epsilon holds: `reconstruction`.

Certified sizes. Let $\epsilon_r = \tfrac12 \log(p/u)$ be what the scores allow (`pixeldp.largest_epsilon`). Input noise
alone certifies $\kappa = b\,\epsilon_r / \Delta_r^x$ units of perturbation, hidden noise alone
$\varphi = 2b\,\epsilon_r/\Delta_r^h$, where $\Delta_r$ is how far one unit moves the layer in $\ell_1$.

Theorem. The product of two scores, each with one of the two noises, is certified for

.. math::

    \Bigl(\frac1\kappa + \frac1\varphi\Bigr)^{-1} = \frac{\kappa \varphi}{\kappa + \varphi} \quad\text{units}.

Proof. A perturbation of r units costs the first score $\epsilon_r r/\kappa$ and the second $\epsilon_r r/\varphi$: more
noise costs *less*. By Theorem 5 of the paper (composition of robustness, which is right) the product may lose the sum,
and the condition allows $\epsilon_r$.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from dpml import arguments
from dpml.accounting.guarantee import Guarantee
from dpml.certified import pixeldp

__all__ = [
    "absolute_size",
    "claimed_epsilon",
    "fresh_scale",
    "gamma",
    "gamma_x",
    "hidden_scale",
    "input_scale",
    "label_scale",
    "label_sensitivity",
    "local_guarantee",
    "printed_hidden_sensitivity",
    "printed_sensitivity",
    "printed_size",
    "randomized_labels",
    "rr_keep",
    "sound_epsilon",
    "sound_hidden_sensitivity",
    "sound_sensitivity",
    "sound_size",
]

_MOST = 2**53  # beyond, a float no longer tells a count from the next


def printed_sensitivity(*, dimension: int, beta: int) -> float:
    r"""Return $\Delta_R = d(\beta + 2)$, the sensitivity that the paper's noise is scaled by.

    `beta` is the number of hidden units. `sound_sensitivity` is what the coefficients have.

    Raises:
        ValueError: if dimension or beta is not an integer in [1, 2^53].

    Source: StoBatch (Phan et al., ICML 2020), Lemma 2.
    """
    dimension, beta = _count("dimension", dimension), _count("beta", beta)
    return float(dimension * (beta + 2))


def sound_sensitivity(*, dimension: int, beta: int, low: float = -1.0) -> float:
    r"""Return the $\ell_1$ sensitivity of the coefficients $(1/2 - x_j) h_l$ for $x \in [\mathrm{low}, 1]^d$.

    $(1 - 2\,\mathrm{low})\, d \beta$, for $\mathrm{low} \le 0$ and one replaced example: no smaller number holds for
    all $\theta_1$. `beta` is the number of hidden units.

    Raises:
        ValueError: if dimension or beta is not an integer in [1, 2^53], or low not in (-inf, 0].

    Source: definition; each coefficient lies in [-(1/2 - low), 1/2 - low], and all of them change sign where a small
    change of x turns h from 1 to -1.

    Printed: $\Delta_R \le d(\beta + 2)$ (Lemma 2), said to hold on $[-1, 1]^d$ as on $[0, 1]^d$. It is that of the
    tuple (h/2 repeated d times, x). At d = 64, beta = 32 that is 2,176.

    Implemented: $3 d \beta$ on $[-1, 1]^d$ and $d \beta$ on $[0, 1]^d$, for the coefficients that Lemma 2 names. At
    d = 64, beta = 32 that is 6,144.

    Counterexample: two inputs near a corner of the cube, and weights that turn every hidden unit between them.

    >>> import numpy as np
    >>> from dpml.certified.stobatch import budget
    >>> theta = np.zeros((64, 32))
    >>> theta[0], theta[1] = 4e12, -4e12
    >>> one, other = -np.ones(64), -np.ones(64)
    >>> one[0], other[1] = one[0] + 1e-12, other[1] + 1e-12
    >>> ends = [
    ...     np.outer(0.5 - x, np.clip(theta.T @ x, -1, 1)) for x in (one, other)
    ... ]
    >>> (
    ...     int(budget.printed_sensitivity(dimension=64, beta=32)),
    ...     int(np.round(abs(ends[0] - ends[1]).sum())),
    ... )
    (2176, 6144)
    """
    dimension, beta = _count("dimension", dimension), _count("beta", beta)
    low = arguments.real("low", low, high=0.0)
    return arguments.finite("low", low, (1.0 - 2.0 * low) * dimension * beta, "the sensitivity")


def label_sensitivity(*, hidden: int) -> float:
    r"""Return $\Delta_{L2} = 2|h_\pi|$, the $\ell_1$ sensitivity of $\sum_i h_{\pi i} y_{ik}$ over all k together.

    `hidden` is the number of units of the last hidden layer, each in [-1, 1].

    Raises:
        ValueError: if hidden is not an integer in [1, 2^53].

    Source: StoBatch (Phan et al., ICML 2020), Lemma 4.
    """
    return 2.0 * _count("hidden", hidden)


def gamma_x(*, dimension: int, beta: int, m: int) -> float:
    r"""Return $\gamma_x = \Delta_R / m$.

    Raises:
        ValueError: if dimension, beta or m is not an integer in [1, 2^53].

    Source: StoBatch (Phan et al., ICML 2020), section 3.1, before Lemma 3.
    """
    return printed_sensitivity(dimension=dimension, beta=beta) / _count("m", m)


def gamma(*, dimension: int, beta: int, m: int, norm: float) -> float:
    r"""Return $\gamma = 2 \Delta_R / (m \lVert\theta_1\rVert_{1,1})$; `norm` is the largest 1-norm of a column.

    It moves with $\theta_1$ during training, so that no budget that contains it is fixed in advance.

    Raises:
        ValueError: if dimension, beta or m is not an integer in [1, 2^53], norm not in (0, inf), or the result exceeds
            the range of floats.

    Source: StoBatch (Phan et al., ICML 2020), section 3.1, before Lemma 3.
    """
    norm = arguments.real("norm", norm, 0.0, low_open=True)
    return _within("norm", norm, 2.0 * gamma_x(dimension=dimension, beta=beta, m=m), norm)


def input_scale(*, dimension: int, beta: int, m: int, epsilon_1: float) -> float:
    r"""Return $b = \Delta_R / (m \epsilon_1)$, the Laplace scale of the noise on each pixel.

    Raises:
        ValueError: if dimension, beta or m is not an integer in [1, 2^53], epsilon_1 not in (0, inf), or the result
            exceeds the range of floats.

    Source: StoBatch (Phan et al., ICML 2020), equation (6) and Algorithm 1, lines 1 and 2.
    """
    epsilon_1 = arguments.real("epsilon_1", epsilon_1, 0.0, low_open=True)
    return _within("epsilon_1", epsilon_1, gamma_x(dimension=dimension, beta=beta, m=m), epsilon_1)


def hidden_scale(*, dimension: int, beta: int, m: int, epsilon_1: float) -> float:
    r"""Return $2b = 2 \Delta_R / (m \epsilon_1)$, the Laplace scale of the noise on each hidden unit.

    Raises:
        ValueError: as `input_scale`.

    Source: StoBatch (Phan et al., ICML 2020), equation (6) and Algorithm 1, line 3.
    """
    scale = 2.0 * input_scale(dimension=dimension, beta=beta, m=m, epsilon_1=epsilon_1)
    return arguments.finite("epsilon_1", epsilon_1, scale, "the scale")


def label_scale(*, hidden: int, m: int, epsilon_2: float) -> float:
    r"""Return $\Delta_{L2} / (m \epsilon_2)$, the Laplace scale of the noise on each label coefficient.

    For all $|h_\pi| \times K$ of them. Algorithm 1 prints $|h_\pi|$ numbers, one for all classes; then the differences
    between classes carry no noise.

    Raises:
        ValueError: if hidden or m is not an integer in [1, 2^53], epsilon_2 not in (0, inf), or the result exceeds the
            range of floats.

    Source: StoBatch (Phan et al., ICML 2020), after Lemma 4.
    """
    epsilon_2 = arguments.real("epsilon_2", epsilon_2, 0.0, low_open=True)
    return _within("epsilon_2", epsilon_2, label_sensitivity(hidden=hidden) / _count("m", m), epsilon_2)


def claimed_epsilon(*, dimension: int, beta: int, m: int, epsilon_1: float, epsilon_2: float, norm: float) -> float:
    r"""Return $\epsilon_1 + \epsilon_1/\gamma_x + \epsilon_1/\gamma + \epsilon_2$, the claim of Theorem 4.

    No guarantee: the noise as printed gives none (`reconstruction`), and fresh noise of this scale `sound_epsilon`.
    `norm` as in `gamma`.

    Raises:
        ValueError: if dimension, beta or m is not an integer in [1, 2^53], epsilon_1 or epsilon_2 not in (0, inf), norm
            not in (0, inf), or the result exceeds the range of floats.

    Source: StoBatch (Phan et al., ICML 2020), Theorem 4 and Algorithm 1, output.
    """
    epsilon_1 = arguments.real("epsilon_1", epsilon_1, 0.0, low_open=True)
    epsilon_2 = arguments.real("epsilon_2", epsilon_2, 0.0, low_open=True)
    input_share = _within("epsilon_1", epsilon_1, epsilon_1, gamma_x(dimension=dimension, beta=beta, m=m))
    hidden_share = _within("norm", norm, epsilon_1, gamma(dimension=dimension, beta=beta, m=m, norm=norm))
    total = epsilon_1 + input_share + hidden_share + epsilon_2
    return arguments.finite("epsilon_1", epsilon_1, total, "the claim")


def sound_epsilon(*, m: int, epsilon_1: float, beta: int) -> float:
    r"""Return $2d/b = 2 m \epsilon_1 / (\beta + 2)$, what *fresh* noise of the printed scale b costs an example.

    The least epsilon with delta = 0, for one replaced example $x \in [-1, 1]^d$ of any dimension, noise independent for
    each example and each pixel. Hidden units and everything after are post-processing.

    Raises:
        ValueError: if m or beta is not an integer in [1, 2^53], epsilon_1 not in (0, inf), or the result exceeds the
            range of floats.

    Source: Dwork and Roth, "The algorithmic foundations of differential privacy", Theorem 3.6.

    Printed: the noisy batch is $(\epsilon_1/\gamma_x)$-private (Lemma 3), which takes two inputs to be at most 1 apart
    in $\ell_1$. At d = 64, beta = 32, m = 350, $\epsilon_1$ = 0.1 that is 0.0161.

    Implemented: $2d\,\epsilon_1/\gamma_x$, since two points of $[-1, 1]^d$ are up to 2d apart, and only where each
    example has noise of its own. At the same values that is 2.0588.

    Counterexample: the printed epsilon, and the loss between two opposite corners of the cube.

    >>> from dpml.certified.stobatch import budget
    >>> size = {"dimension": 64, "beta": 32, "m": 350}
    >>> round(0.1 / budget.gamma_x(**size), 4)
    0.0161
    >>> round(64 * 2 / budget.input_scale(**size, epsilon_1=0.1), 4)
    2.0588
    """
    m, beta = _count("m", m), _count("beta", beta)
    epsilon_1 = arguments.real("epsilon_1", epsilon_1, 0.0, low_open=True)
    return arguments.finite("epsilon_1", epsilon_1, 2.0 * m / (beta + 2) * epsilon_1, "the result")


def fresh_scale(*, epsilon: float, dimension: int) -> float:
    r"""Return $2d/\epsilon$, the Laplace scale for each pixel of $x \in [-1, 1]^d$ that makes x epsilon-private.

    With noise drawn once for each example; replace-one neighbours.

    Raises:
        ValueError: if epsilon is not in (0, inf), dimension not an integer in [1, 2^53], or the result exceeds the
            range of floats.

    Source: Dwork and Roth, "The algorithmic foundations of differential privacy", Theorem 3.6.
    """
    epsilon = arguments.real("epsilon", epsilon, 0.0, low_open=True)
    return _within("epsilon", epsilon, 2.0 * _count("dimension", dimension), epsilon)


def rr_keep(*, epsilon: float, classes: int) -> float:
    r"""Return $e^{\epsilon}/(e^{\epsilon} + K - 1)$, with which probability randomized response keeps a label.

    Each of the other K - 1 labels has the same share of the rest. Epsilon-private for one changed label, and no smaller
    epsilon holds.

    Raises:
        ValueError: if epsilon is not in [0, inf) or classes not an integer in [2, 2^53].

    Source: P. Kairouz, S. Oh and P. Viswanath, "Extremal mechanisms for local differential privacy", JMLR 17 (2016),
    randomized response.
    """
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    classes = arguments.integer("classes", classes, 2, _MOST)
    return float(expit(epsilon - math.log(classes - 1)))


def randomized_labels(
    labels: ArrayLike, *, epsilon: float, classes: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return each label kept with probability `rr_keep`, else one of the others, all alike; in the same shape.

    Each is epsilon-private for replaced labels. The chance of a change is rounded up to a multiple of 2^-53, so that it
    stays above 0 at every epsilon.

    Raises:
        ValueError: if labels is not whole numbers in [0, classes - 1], epsilon not in [0, inf), classes not an integer
            in [2, 2^31] or rng not a Generator.

    Source: as `rr_keep`.
    """
    classes = arguments.integer("classes", classes, 2, 2**31)
    true = arguments.whole_numbers("labels", labels, high=classes - 1.0).astype(np.int64)
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    rng = arguments.generator("rng", rng)
    change = float(expit(math.log(classes - 1) - epsilon)) * (1.0 + 2.0**-50)  # more than the rounding error
    change = min((classes - 1.0) / classes, max(1, math.ceil(change * 2.0**53)) * 2.0**-53)
    changed = rng.random(true.shape) < change
    told = (true + np.where(changed, rng.integers(1, classes, true.shape), 0)) % classes
    return np.asarray(told, dtype=np.int64)


def local_guarantee(*, epsilon_x: float, epsilon_2: float) -> Guarantee:
    """Return what training on inputs with fresh noise and randomized labels promises: the sum, for every T.

    `epsilon_x` is that of the noisy input (`fresh_scale`, or `sound_epsilon`), `epsilon_2` that of the label.
    Neighbours: one replaced example.

    Raises:
        ValueError: if epsilon_x or epsilon_2 is not in [0, inf), or the sum exceeds the range of floats.

    Source: basic composition and post-processing: Dwork and Roth, "The algorithmic foundations of differential
    privacy", Theorem 3.14 and Proposition 2.1.
    """
    epsilon_x = arguments.real("epsilon_x", epsilon_x, 0.0)
    total = epsilon_x + arguments.real("epsilon_2", epsilon_2, 0.0)
    total = arguments.finite("epsilon_2", epsilon_2, total, "the sum")
    return Guarantee(total, delta=0.0, kind="upper bound", adjacency="replace-one")


def printed_hidden_sensitivity(theta: ArrayLike) -> float:
    r"""Return $\Delta_r^h = \beta \lVert\theta_1\rVert_\infty$ with the largest 1-norm of a row of `theta`, [d, beta].

    `sound_hidden_sensitivity` is what an $\ell_\infty$ perturbation can do.

    Raises:
        ValueError: if theta is not a finite array of shape [d, beta] with at least one element, or the result exceeds
            the range of floats.

    Source: StoBatch (Phan et al., ICML 2020), section 3.4.
    """
    weights = np.abs(arguments.array("theta", theta, ndim=2, min_size=1))
    with np.errstate(over="ignore", under="ignore"):
        return arguments.finite("theta", theta, float(weights.shape[1] * weights.sum(axis=1).max()))


def sound_hidden_sensitivity(theta: ArrayLike, *, mu: float) -> float:
    r"""Return $\mu \sum_{jl} |\theta_{jl}|$: no $\ell_\infty$ perturbation of size mu moves $h = \theta^T x$ farther.

    In $\ell_1$; `theta` has shape [d, beta]. It is reached where the signs of theta factor, as for positive weights.

    Raises:
        ValueError: if theta is not a finite array of shape [d, beta] with at least one element, mu not in (0, inf), or
            the result exceeds the range of floats.

    Source: the triangle inequality.

    Printed: $\beta \lVert\theta_1\rVert_\infty$ with the largest 1-norm of a row (section 3.4), without mu. For d = 4,
    beta = 1 and all weights 1, mu = 1 that is 1.

    Implemented: the sum of all $|\theta_{jl}|$, times mu. For the same weights that is 4, and the perturbation of four
    ones moves h by 4.

    Counterexample: four weights of 1: the printed value, and how far the perturbation of four ones moves h.

    >>> import numpy as np
    >>> from dpml.certified.stobatch import budget
    >>> theta = np.ones((4, 1))
    >>> (
    ...     budget.printed_hidden_sensitivity(theta),
    ...     float((theta.T @ np.ones(4))[0]),
    ... )
    (1.0, 4.0)
    """
    weights = np.abs(arguments.array("theta", theta, ndim=2, min_size=1))
    mu = arguments.real("mu", mu, 0.0, low_open=True)
    with np.errstate(over="ignore", under="ignore"):
        return arguments.finite("theta", theta, float(mu * weights.sum()))


def printed_size(*, kappa: ArrayLike, phi: ArrayLike) -> NDArray[np.float64]:
    r"""Return $\kappa + \varphi$, the size that Corollary 1 certifies. It can be broken: `sound_size`.

    In units of the perturbation for which both were computed; the two broadcast.

    Raises:
        ValueError: if kappa or phi is not in [0, inf), or the sum exceeds the range of floats.

    Source: StoBatch (Phan et al., ICML 2020), Corollary 1 and equation (13).
    """
    first, second = _sizes(kappa, phi)
    with np.errstate(over="ignore"):
        return arguments.finite("phi", phi, np.asarray(first + second), "kappa + phi")[()]


def sound_size(*, kappa: ArrayLike, phi: ArrayLike) -> NDArray[np.float64]:
    r"""Return $\kappa\varphi/(\kappa + \varphi)$, the size that the product of two noisy scores is certified for.

    In units of the perturbation for which both were computed; the two broadcast. 0 where one of them is 0.

    Raises:
        ValueError: if kappa or phi is not in [0, inf).

    Source: the theorem at the head of this module, by StoBatch (Phan et al., ICML 2020), Theorem 5.

    Printed: $\kappa + \varphi$ (Corollary 1), from scores said to be $\kappa \epsilon_r$- and
    $\varphi \epsilon_r$-private for one unit. One input pixel, class 1 below a threshold, $P(\text{class 2}) = 0.05$,
    both noises Laplace of scale b: it certifies 5.889 b, but the label changes at 2.303 b.

    Implemented: the harmonic rule, from $\epsilon_r/\kappa$ and $\epsilon_r/\varphi$. In the same example it certifies
    1.472 b.

    Counterexample: in units of b: as printed, where the label changes, and as implemented.

    >>> from dpml.certified import pixeldp, smoothing
    >>> from dpml.certified.stobatch import budget
    >>> kappa = pixeldp.largest_epsilon(0.95**2, upper=0.05**2, delta=0.0)
    >>> sizes = [
    ...     size(kappa=kappa, phi=kappa)
    ...     for size in (budget.printed_size, budget.sound_size)
    ... ]
    >>> changes = smoothing.laplace_radius(0.95, upper=0.05, scale=1.0)
    >>> [round(float(size), 3) for size in (sizes[0], changes, sizes[1])]
    [5.889, 2.303, 1.472]
    """
    first, second = _sizes(kappa, phi)
    small, large = np.minimum(first, second), np.maximum(first, second)
    with np.errstate(under="ignore"):
        return np.asarray(small / (1.0 + small / np.where(large > 0.0, large, 1.0)))[()]


def absolute_size(units: ArrayLike, *, mu: float) -> NDArray[np.float64]:
    r"""Return mu times the units: in the unit of the data, the size of a certificate for perturbations of mu.

    With $\Delta_r^x = \mu d$ and $\Delta_r^h$ for mu as well, kappa, phi and their combinations count perturbations of
    $\ell_\infty$ size mu. So the prediction withstands an attack of size mu exactly if it has at least 1 unit.

    Raises:
        ValueError: if units is not in [0, inf), mu not in (0, inf), or the result exceeds the range of floats.

    Source: StoBatch (Phan et al., ICML 2020), section 3.4, $\Delta_r^x = \mu d$.

    Printed: a prediction counts as robust if the units are larger than the attack size $\mu_a$ (section 4,
    isRobust). At $\mu_a$ = 0.2 and 0.3 units it counts.

    Implemented: mu times the units is compared with $\mu_a$. 0.3 units of mu = 0.2 are a perturbation of 0.06, which is
    below 0.2.

    Counterexample: 0.3 units are more than the attack size 0.2; the perturbation that they stand for is not.

    >>> from dpml.certified.stobatch import budget
    >>> round(float(budget.absolute_size(0.3, mu=0.2)), 9)
    0.06
    """
    values = arguments.array("units", units, low=0.0)
    mu = arguments.real("mu", mu, 0.0, low_open=True)
    with np.errstate(over="ignore", under="ignore"):
        return arguments.finite("mu", mu, np.asarray(values * mu), "the size")[()]


def all_positive(made: Any) -> None:
    """Refuse a value of which a field is not in (0, inf).

    Raises:
        ValueError: if one is not.

    Source: definition.
    """
    for field in fields(made):
        arguments.real(field.name, getattr(made, field.name), 0.0, low_open=True)


def _count(name: str, value: int) -> int:
    return arguments.integer(name, value, 1, _MOST)


def _within(name: str, value: float, top: float, bottom: float) -> float:
    """top / bottom, both positive, where it stays a positive finite number."""
    with np.errstate(over="ignore", under="ignore"):
        result = float(np.float64(top) / bottom)
    if not 0.0 < result < math.inf:
        raise ValueError(f"{name} must keep the result within the range of floats, got {value!r}")
    return result


def _sizes(kappa: ArrayLike, phi: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first, second = arguments.array("kappa", kappa, low=0.0), arguments.array("phi", phi, low=0.0)
    return pixeldp.pair("kappa", first, "phi", second)
