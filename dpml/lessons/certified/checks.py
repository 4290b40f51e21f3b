r"""The checks of chapter 13, certified robustness: the two in its text, then the items of its exercises, in order.

About predictions, where neighbours are two images at a distance: the radius from n_k of n noisy votes, and what two
noises cover that alone cover kappa and phi,

.. math::

    r = \sigma\,\Phi^{-1}\bigl(\underline p(n_k, n, \alpha)\bigr), \qquad r = (1/\kappa + 1/\varphi)^{-1}.

The other items: neighbours are two datasets, one example of which is replaced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpml import arguments
from dpml.audit import samples
from dpml.certified import smoothing
from dpml.certified.stobatch import budget, reconstruction
from dpml.classroom import checks, laws
from dpml.classroom.checks import Mistake
from dpml.classroom.laws import Law

Array = NDArray[np.float64]


def check_enough(answer: Any) -> None:
    """How many unanimous votes exclude a probability of one half."""
    checks.number(
        answer,
        expected=smoothing.draws_needed(alpha=0.001),
        name="n",
        rel=1e-9,
        mistakes=[
            Mistake(math.log2(1000), "it is the number at which both are equal. Copies are counted in whole numbers."),
            Mistake(9, "it is one too small: 2^-9 is still above 0.001."),
            Mistake(11, "it is one too large: it would do, but one copy fewer does as well."),
            Mistake(1000, "it is 1/alpha: a probability of 2^-n falls much faster than 1/n."),
            Mistake(math.log(1000), "it takes the natural logarithm: the coin has probability 1/2."),
            Mistake(7, "it takes the natural logarithm: the coin has probability 1/2."),
        ],
        hint="Compare 2^-n with 0.001.",
    )


def check_two(answer: Any) -> None:
    """What two noises together cover."""
    checks.number(
        answer,
        expected=float(budget.sound_size(kappa=3.0, phi=1.5)),
        name="most",
        mistakes=[
            Mistake(4.5, "it is the sum of the sizes. At 4.5 the first noise costs 1.5 ε, the second 3 ε."),
            Mistake(1.5, "it is the smaller size. There the second noise alone has spent ε, and the first costs more."),
            Mistake(3.0, "it is the larger size. There the second noise costs 2 ε."),
            Mistake(2.25, "it is the mean of the sizes. There the second noise alone costs 1.5 ε."),
            Mistake(
                2.0, "it is the harmonic mean of the sizes. There the costs are 2/3 and 4/3 of ε, and they add up."
            ),
        ],
        hint="Solve r/3 + r/1.5 = 1.",
    )


def check_radius(answer: Any) -> None:
    """Cohen's radius from votes, with a lower limit and with abstention."""

    def inputs(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        yield {"count": 97, "draws": 100, "alpha": 0.001, "sigma": 0.5}
        yield {"count": 1000, "draws": 1000, "alpha": 0.01, "sigma": 2.0}
        yield {"count": 53, "draws": 100, "alpha": 0.05, "sigma": 0.5}
        yield {"count": 12, "draws": 100, "alpha": 0.05, "sigma": 0.5}
        yield {"count": 58, "draws": 100, "alpha": 0.05, "sigma": 1.0}  # two-sided, it would abstain
        for _ in range(8):
            draws = int(rng.choice([60, 400, 3000]))
            share = float(rng.uniform(0.7, 0.999))
            yield {"count": round(share * draws), "draws": draws, "alpha": 0.01, "sigma": float(rng.choice([0.25, 1]))}

    def lower(count: int, draws: int, alpha: float) -> float:
        return float(samples.lower_limit(count, trials=draws, alarm=alpha))

    def rule(
        least: Callable[[int, int, float], float] = lower,
        size: Callable[[float, float], float] = lambda p, sigma: sigma * float(ndtri(p)),
        refuses: Callable[[float], bool] = lambda p: p <= 0.5,
        without: Any = 0.0,
    ) -> Callable[..., Any]:
        def wrong(count: int, draws: int, *, alpha: float, sigma: float) -> Any:
            p = least(count, draws, alpha)
            return without if refuses(p) else size(p, sigma)

        return wrong

    checks.function(
        answer,
        reference=smoothing.radius,
        inputs=inputs,
        name="radius",
        mistakes=[
            Mistake(
                rule(lambda count, draws, alpha: min(count / draws, 1 - 1e-12)),
                "it takes the share of the votes for the probability. The next votes may be fewer: use a lower limit.",
            ),
            Mistake(
                rule(lambda count, draws, alpha: lower(count, draws, alpha / 2)),
                "it spends half of alpha on an upper limit that it never uses: the limit is one-sided.",
            ),
            Mistake(
                rule(lambda count, draws, alpha: float(samples.upper_limit(count, trials=draws, alarm=alpha)) - 1e-12),
                "it uses an upper limit: with probability 1 - alpha the truth is below it, and the radius too large.",
            ),
            Mistake(
                rule(lambda count, draws, alpha: lower(count, draws, 1.0 - alpha)),
                "it takes 1 - alpha for the chance of error: alpha is that chance, and 1 - alpha the confidence.",
            ),
            Mistake(
                rule(
                    lambda count, draws, alpha: min(
                        count / draws + float(ndtri(alpha)) * math.sqrt(count / draws * (1 - count / draws) / draws),
                        1 - 1e-12,
                    )
                ),
                "it takes the number of votes for normal: that is only nearly so, and the limit is too high where most "
                "agree.",
            ),
            Mistake(
                rule(refuses=lambda p: False),
                "it returns a negative radius where the limit is below one half: there it must abstain.",
            ),
            Mistake(
                rule(without=None), "it returns None where it must abstain: return 0, a radius that promises nothing."
            ),
            Mistake(
                rule(
                    lambda count, draws, alpha: max(1e-12, count / draws - math.sqrt(math.log(1 / alpha) / 2 / draws))
                ),
                "it uses Hoeffding's bound, which is valid; the exact limit of a number of votes certifies more.",
            ),
            Mistake(
                rule(size=lambda p, sigma: float(ndtri(p))), "sigma is missing: the radius is in units of the pixels."
            ),
            Mistake(
                rule(size=lambda p, sigma: sigma**2 * float(ndtri(p))),
                "sigma is a standard deviation: it need not be squared.",
            ),
            Mistake(
                rule(size=lambda p, sigma: sigma * math.log(p / (1 - p)) / 2),
                "it is the radius for Laplace noise, in l1. Gaussian noise has the normal quantile instead.",
            ),
        ],
        hint="Lower limit on the probability of the label, then sigma times its normal quantile; at most 1/2: 0.",
    )


def _batch(rng: np.random.Generator, *, m: int, d: int, low: float) -> Array:
    """Images of which each pixel is background somewhere."""
    images = np.round(rng.uniform(low, 1.0, size=(m, d)), 2)
    images[rng.integers(0, m, size=d), np.arange(d)] = low
    return images


def check_recover(answer: Any) -> None:
    """All images from noisy ones that share their noise, one of which is known."""

    def inputs(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        for m, d, index in ((2, 1, 0), (3, 4, 2), (6, 5, 0), (5, 9, 3)):
            images = _batch(rng, m=m, d=d, low=-1.0)
            yield {"noisy": images + rng.laplace(scale=20.0, size=d), "known": images[index], "index": index}

    checks.function(
        answer,
        reference=reconstruction.from_known_image,
        inputs=inputs,
        name="recover",
        abs=1e-9,
        mistakes=[
            Mistake(
                lambda noisy, *, known, index: noisy[index] - known, "this is the noise. Now take it off the images."
            ),
            Mistake(
                lambda noisy, *, known, index: noisy + (noisy[index] - known),
                "it adds the noise a second time, with its sign.",
            ),
            Mistake(
                lambda noisy, *, known, index: noisy - noisy[index],
                "these are the differences of the images. The known one tells what to add.",
            ),
            Mistake(lambda noisy, *, known, index: noisy - known, "it takes the known image off. The noise must go."),
            Mistake(
                lambda noisy, *, known, index: noisy - (noisy[0] - known),
                "it compares the known image with row 0: it is the row number `index`.",
            ),
            Mistake(
                lambda noisy, *, known, index: noisy - (noisy[index] - known).mean(),
                "it takes one number off all pixels. Each pixel has a noise of its own.",
            ),
            Mistake(
                lambda noisy, *, known, index: noisy - (noisy - known).mean(axis=0),
                "it averages over all images as if each were the known one.",
            ),
        ],
        hint="The known image tells the noise, and all images have the same.",
    )


def check_recover_all(answer: Any) -> None:
    """All images from noisy ones that share their noise, where each pixel is background somewhere."""

    def inputs(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        for m, d, low in ((2, 1, -1.0), (3, 4, 0.0), (8, 5, -1.0), (5, 9, 0.25)):
            images = _batch(rng, m=m, d=d, low=low)
            yield {"noisy": images + rng.laplace(scale=20.0, size=d), "low": low}

    checks.function(
        answer,
        reference=reconstruction.from_background,
        inputs=inputs,
        name="recover_all",
        abs=1e-9,
        mistakes=[
            Mistake(
                lambda noisy, *, low: noisy - noisy.min(axis=0),
                "the smallest number of a pixel is noise plus `low`: the background must come back as `low`.",
            ),
            Mistake(
                lambda noisy, *, low: noisy - (noisy.min() - low),
                "it takes one minimum over all pixels. Each pixel has a noise of its own.",
            ),
            Mistake(
                lambda noisy, *, low: noisy - (noisy.min(axis=1, keepdims=True) - low),
                "it looks for the minimum within each image. The noise is the same down a column: go over the images.",
            ),
            Mistake(
                lambda noisy, *, low: noisy - (noisy.max(axis=0) - low),
                "it takes the largest number of each pixel. The background is the smallest.",
            ),
            Mistake(
                lambda noisy, *, low: noisy - (noisy.min(axis=0) + low),
                "the noise is the smallest number less `low`, not plus.",
            ),
            Mistake(
                lambda noisy, *, low: noisy - noisy.mean(axis=0),
                "it takes the mean of the images for the noise: the noise does not average out, as all have the same.",
            ),
            Mistake(lambda noisy, *, low: noisy.min(axis=0) - low, "this is the noise. Now take it off the images."),
        ],
        hint="Over the images, the smallest number of a pixel is background plus noise.",
    )


def check_second(answer: Any) -> None:
    """The second singular value of the gradient, corrected by the scatter of the candidate images."""

    def inputs(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        for i, (m, d, width) in enumerate(((4, 3, 2), (6, 5, 3), (7, 4, 4), (9, 6, 2), (5, 8, 5))):
            images, theta = rng.uniform(-1, 1, size=(m, d)), rng.normal(size=(d, width))
            noisy = images + rng.laplace(scale=2.0, size=d)
            gradient = (0.5 - noisy).T @ (noisy @ theta + rng.laplace(scale=2.0, size=width))
            if i:  # a candidate that is not the truth
                images = images.copy()
                images[0] = rng.uniform(-1, 1, size=d)
            yield {"gradient": gradient, "images": images, "theta": theta}

    def scatter(images: Array) -> Array:
        centred = images - images.mean(axis=0)
        return np.asarray(centred.T @ centred)

    def left(
        of: Callable[[Array], Array] = scatter, sign: float = 1.0, which: Callable[[Array], float] = lambda s: s[1]
    ) -> Callable[..., float]:
        """The second of the singular values that are left, or another number of them, with another sum or sign."""

        def wrong(gradient: Array, *, images: Array, theta: Array) -> float:
            matrix = gradient + sign * of(images) @ theta
            return float(which(np.asarray(np.linalg.svd(matrix, compute_uv=False), dtype=np.float64)))

        return wrong

    checks.function(
        answer,
        reference=left(),
        inputs=inputs,
        name="second",
        abs=1e-9,
        mistakes=[
            Mistake(left(lambda x: x.T @ x), "the images are not centred: take their mean off first."),
            Mistake(
                left(lambda x: scatter(x) / len(x)),
                "it adds the covariance. The sum over the images is wanted, m times as large.",
            ),
            Mistake(
                left(lambda x: scatter(x) / (len(x) - 1)),
                "it adds the covariance. The sum over the images is wanted, m - 1 times what np.cov returns.",
            ),
            Mistake(left(sign=-1.0), "the sum is added: the gradient holds it with a minus."),
            Mistake(left(which=lambda s: s[0]), "it is the largest singular value: rank one leaves that one free."),
            Mistake(left(which=lambda s: s[-1]), "it is the smallest singular value. The second largest is asked for."),
            Mistake(left(which=lambda s: s[1] ** 2), "it is a square: an eigenvalue of A^T A, not a singular value."),
            Mistake(left(which=lambda s: s[1] / s[0]), "it is a ratio. The second singular value itself is asked for."),
            Mistake(left(lambda x: 0.0 * scatter(x)), "the candidate images are not used."),
        ],
        hint="The gradient plus the centred sum times theta; of its singular values, largest first, the second.",
    )


def check_replaced(answer: Any) -> None:
    """A replaced example that moves the coefficients of the auto-encoder by more than the lemma allows."""
    d, beta = 3, 2
    allowed = budget.printed_sensitivity(dimension=d, beta=beta)

    def read(value: Any) -> list[Array]:
        if not isinstance(value, tuple | list) or len(value) != 4:
            raise ValueError("give a tuple of four: x, h, x_new, h_new.")
        sizes = {"x": d, "h": beta, "x_new": d, "h_new": beta}
        return [
            arguments.array(name, part, shape=(size,), low=-1.0, high=1.0)
            for (name, size), part in zip(sizes.items(), value, strict=True)
        ]

    def change(value: Any) -> float:
        x, h, x_new, h_new = read(value)
        return float(np.abs(np.outer(0.5 - x, h) - np.outer(0.5 - x_new, h_new)).sum())

    def test(value: Any) -> str | None:
        moved = change(value)
        return None if moved > allowed + 1e-9 else f"the coefficients change by {moved:.4g}, and 12 is allowed."

    ones, twos = np.ones(d), np.ones(beta)
    checks.counterexample(
        answer,
        test=test,
        name="replaced",
        mistakes=[
            Mistake(
                lambda value: change(value) == 0.0,
                "it changes nothing: all coefficients are as before.",
                example=(-ones, twos, -ones, twos),
            ),
            Mistake(
                lambda value: math.isclose(change(value), allowed),
                "it moves them by what the lemma allows, and not more. Where is 1/2 - x larger than at x = 1?",
                example=(-ones, twos, ones, twos),
            ),
            Mistake(
                lambda value: bool((read(value)[0] > 0).all() and (read(value)[2] > 0).all()),
                "it uses bright images only, where 1/2 - x is small. It is largest at one end of the range.",
                example=(ones, twos, ones, -twos),
            ),
            Mistake(
                lambda value: bool((read(value)[1] == read(value)[3]).all()),
                "it leaves the hidden values as they are. They may change their sign.",
                example=(-ones, twos / 2, ones, twos / 2),
            ),
        ],
        shows=lambda value: f"the coefficients change by {change(value):.4g}, and the lemma allows {allowed:g}",
    )


def check_fresh_epsilon(answer: Any) -> None:
    """The epsilon of images with fresh Laplace noise of the printed scale."""

    def inputs(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        yield {"d": 64, "beta": 32, "m": 350, "epsilon_1": 0.1}
        yield {"d": 784, "beta": 196, "m": 2499, "epsilon_1": 0.05}
        for _ in range(5):
            d, beta, m = (int(rng.integers(1, top)) for top in (900, 300, 2000))
            yield {"d": d, "beta": beta, "m": m, "epsilon_1": float(rng.choice([0.02, 0.5, 1.0]))}

    def rule(distance: Callable[[int], float], factor: Callable[[int], float] = lambda m: m) -> Callable[..., float]:
        return lambda *, d, beta, m, epsilon_1: distance(d) * factor(m) * epsilon_1 / (d * (beta + 2))

    checks.function(
        answer,
        reference=lambda *, d, **given: budget.sound_epsilon(**given),
        inputs=inputs,
        name="fresh_epsilon",
        mistakes=[
            Mistake(
                rule(lambda d: 1.0),
                "it is what the paper prints, for images that differ by 1 in all. How far apart can two images be?",
            ),
            Mistake(rule(float), "a pixel runs from -1 to 1: it may change by 2."),
            Mistake(rule(lambda d: 2.0), "all d pixels may change, not only one."),
            Mistake(
                rule(lambda d: 2.0 * math.sqrt(d)),
                "this is the Euclidean distance. Laplace noise needs the sum of the absolute changes.",
            ),
            Mistake(
                rule(lambda d: 2.0 * d, lambda m: m * m),
                "it pays for all m images. One is replaced, and each has noise of its own.",
            ),
            Mistake(rule(lambda d: 2.0 * d, lambda m: 1.0), "m is missing: the noise on an image is divided by m."),
            Mistake(
                rule(lambda d: d * (2.0 * d), lambda m: m),
                "d is counted twice: the change of all pixels together over the scale is what is wanted.",
            ),
            Mistake(
                lambda *, d, beta, m, epsilon_1: d * (beta + 2) / (m * epsilon_1),
                "this is the scale of the noise. Epsilon is the largest change over it.",
            ),
        ],
        hint="The largest l1 distance of two images over the scale of the noise.",
    )


def check_private_labels(answer: Any) -> None:
    """K-ary randomized response: each label by itself, kept with the right probability, else another one."""

    def law_of(keep: Callable[..., float] = budget.rr_keep, others: bool = True) -> Callable[..., list[Law]]:
        """Kept with a probability, else another label, or (not `others`) any label, the same included."""

        def law(labels: Any, *, epsilon: float, classes: int, noise: float = 1.0) -> list[Law]:
            stays = keep(epsilon=epsilon / noise, classes=classes)
            rest = (1 - stays) / (classes - 1 if others else classes)
            more = stays - (rest if others else 0.0)
            return laws.each(labels, lambda label: laws.labels([rest + (k == label) * more for k in range(classes)]))

        return law

    settings = [
        {"labels": np.array([3, 3, 0, 9]), "epsilon": 1.0, "classes": 10},
        {"labels": np.array([2, 0, 1]), "epsilon": 1.5, "classes": 3},
        {"labels": np.array([1, 0]), "epsilon": 0.7, "classes": 2},
        {"labels": np.array([4]), "epsilon": 2.5, "classes": 5},
        {"labels": np.array([0]), "epsilon": 2.5, "classes": 5},
    ]
    checks.law(
        answer,
        law=law_of(),
        settings=settings,
        neighbours=[(3, 4)],
        name="private_labels",
        wrong=[
            Mistake(
                law_of(others=False),
                "a label that is not kept may come back as itself: it must become one of the others.",
            ),
            Mistake(
                law_of(lambda epsilon, classes: 1 / (1 + math.exp(-epsilon))),
                "it keeps a label with e^epsilon / (1 + e^epsilon), as for two classes: too often for more of them.",
            ),
            Mistake(
                law_of(lambda epsilon, classes: math.exp(epsilon) / (math.exp(epsilon) + classes)),
                "it keeps a label with e^epsilon / (e^epsilon + K): there are K - 1 others.",
            ),
            Mistake(
                law_of(lambda epsilon, classes: 1 - math.exp(-epsilon)), "1 - e^-epsilon is not what was asked for."
            ),
            Mistake(lambda labels, **_: [laws.certain(int(label)) for label in labels], "it returns the true labels."),
            Mistake(
                lambda labels, *, classes, **_: [laws.labels(np.full(classes, 1 / classes))] * len(labels),
                "all labels come equally often, whatever the truth: private, and of no use.",
            ),
            Mistake(
                lambda labels, *, classes, **given: law_of()(
                    classes - 1 - np.asarray(labels), classes=classes, **given
                ),
                "it answers for another label than the one that it is given.",
            ),
        ],
    )
