r"""Checks of items 1 to 3 of chapter 01: a mean of n values in [0, 1], its sensitivity, and its private release.

.. math::

    \max_{D \sim D'} |\bar x - \bar x'| = \frac 1 n , \qquad b = \frac{1}{n \varepsilon} .

Neighbours differ in the value of one of n records (replace-one); b is the scale of Laplace noise.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr

from dpml import mechanisms
from dpml.classroom import checks
from dpml.classroom.checks import Mistake
from dpml.exercises._mechanisms import asked, both

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["check_mean_noise", "check_mean_sensitivity", "check_private_mean", "check_recover"]

_SEED = 20_250_117


def check_recover(answer: Any) -> None:
    """The value of one person from a mean with and a mean without them."""

    def inputs(rng: np.random.Generator) -> list[dict[str, Any]]:
        cases: list[dict[str, Any]] = [{"mean_all": 5.0, "mean_rest": 3.0, "n": 3}]
        for n, shape in ((2, (2,)), (5, (3, 3)), (100, (28, 28))):
            people = rng.random(size=(n, *shape))  # fractions, so that rounding shows
            cases.append({"mean_all": people.mean(axis=0), "mean_rest": people[1:].mean(axis=0), "n": n})
        return cases

    checks.function(
        answer,
        name="recover",
        reference=lambda mean_all, mean_rest, *, n: n * mean_all - (n - 1) * mean_rest,
        inputs=inputs,
        rel=1e-6,
        abs=1e-6,
        mistakes=[
            Mistake(
                lambda mean_all, mean_rest, *, n: mean_all - mean_rest,
                "this is the plain difference of the two means. A mean is a sum divided by a count: go back to the "
                "two sums, and subtract those.",
            ),
            Mistake(
                lambda mean_all, mean_rest, *, n: n * (mean_all - mean_rest),
                "both means are multiplied by the same count, but they are means over different numbers of people.",
            ),
            Mistake(
                lambda mean_all, mean_rest, *, n: (n - 1) * (mean_all - mean_rest),
                "both means are multiplied by the same count, but they are means over different numbers of people.",
            ),
            Mistake(
                lambda mean_all, mean_rest, *, n: (n - 1) * mean_rest - n * mean_all,
                "the order of the subtraction is reversed: the person is in the first sum and not in the second.",
            ),
            Mistake(
                lambda mean_all, mean_rest, *, n: (n - 1) * mean_all - n * mean_rest,
                "the two counts are exchanged: `mean_all` is over n people, the other mean over one fewer.",
            ),
            Mistake(
                lambda mean_all, mean_rest, *, n: n * mean_all - n - 1 * mean_rest,
                "parentheses are missing: Python multiplies before it subtracts, so `n - 1` must be in parentheses.",
            ),
            Mistake(
                lambda mean_all, mean_rest, *, n: np.round(n * mean_all - (n - 1) * mean_rest),
                "the result is rounded, but values need not be whole numbers.",
            ),
            Mistake(
                lambda mean_all, mean_rest, *, n: (n + 1) * mean_all - n * mean_rest,
                "n counts the people of the first mean, the one who withdrew included.",
            ),
        ],
        hint="Put the returned person back among the others: the mean over all n must come out.",
    )


def check_mean_sensitivity(answer: Any) -> None:
    """How far the mean of n values in [0, 1] moves when one record is replaced."""
    checks.function(
        answer,
        name="mean_sensitivity",
        reference=lambda *, n: 1 / n,
        inputs=[{"n": n} for n in (2, 5, 10, 1000)],
        mistakes=[
            Mistake(lambda *, n: 1.0, "this is the sensitivity of the sum. By how much does the mean move?"),
            Mistake(
                lambda *, n: 2 / n,
                "this counts the replaced record twice. One value between 0 and 1 takes the place of another: how far "
                "apart can these two be?",
            ),
            Mistake(
                lambda *, n: 1 / (n - 1),
                "n - 1 would count the people who stay, but under replace-one the mean is over n records before and "
                "after.",
            ),
            Mistake(
                lambda *, n: 1 / (2 * n),
                "this is the move from the middle to an end. Sensitivity is the largest move between any two values.",
            ),
            Mistake(lambda *, n: n, "a mean over more people moves less when one of them changes, not more."),
        ],
        hint="It must be the largest move of the mean over all pairs of neighbours.",
    )


def check_mean_noise(answer: Any) -> None:
    """The Laplace scale for an epsilon-DP mean of n values in [0, 1]."""
    checks.function(
        answer,
        name="mean_noise",
        reference=lambda *, n, epsilon: mechanisms.laplace_scale(epsilon=epsilon) / n,
        inputs=[{"n": n, "epsilon": e} for n, e in ((2, 0.5), (10, 1.0), (100, 0.1), (1000, 3.0))],
        mistakes=[
            Mistake(
                lambda *, n, epsilon: 1 / epsilon,
                "this is the noise for the sum. One person moves the mean much less than the sum.",
            ),
            Mistake(
                lambda *, n, epsilon: n / epsilon,
                "the noise grows with n here, but one person moves a mean of more people less.",
            ),
            Mistake(
                lambda *, n, epsilon: epsilon / n,
                "the noise grows with ε here, but a smaller ε is a stronger promise and needs more noise.",
            ),
            Mistake(
                lambda *, n, epsilon: 2 / (n * epsilon),
                "this is twice the scale that is needed: the replaced record moves the mean once, not once out and "
                "once in.",
            ),
            Mistake(lambda *, n, epsilon: 1 / n, "this is the sensitivity alone; where does ε come in?"),
            Mistake(
                lambda *, n, epsilon: 1 / ((n - 1) * epsilon),
                "under replace-one the mean is over n records before and after; nobody leaves.",
            ),
            Mistake(
                lambda *, n, epsilon: math.sqrt(2) / (n * epsilon),
                "this is the standard deviation of the noise; asked is the scale b of the Laplace density.",
            ),
        ],
        hint="At every output, the two densities of neighbours may differ by the factor e^ε, and somewhere must.",
    )


def check_private_mean(answer: Any) -> None:
    """An epsilon-DP mean of values that may lie outside [0, 1]."""
    epsilon = 0.6
    # The clipped mean of each of the few datasets is computed once: the wrong mechanisms run 200,000 times.
    clipped = functools.cache(lambda data: float(np.clip(np.frombuffer(data), 0.0, 1.0).mean()))
    plain = functools.cache(lambda data: float(np.frombuffer(data).mean()))
    spread = functools.cache(lambda data: float(np.ptp(np.clip(np.frombuffer(data), 0.0, 1.0))))

    def noisy(mean: float, values: Any, rng: np.random.Generator, factor: float = 1.0) -> float:
        return mean + rng.laplace(0.0, factor / (len(values) * epsilon))

    def one_side(cut: Any, values: Any, rng: np.random.Generator) -> float:
        return noisy(float(cut(values).mean()), values, rng)

    def release(values: Any, rng: np.random.Generator, factor: float = 1.0) -> float:
        return noisy(clipped(values.tobytes()), values, rng, factor)

    def inside(x: float) -> float:
        return min(max(x, 0.0), 1.0)

    # Few records, so that a message can show them all; the noise has the size that they need.
    ordinary = np.array([0.0, 0.3, 0.8, 0.5, 0.9])
    wild = np.array([-3.0, 0.5, 0.5])
    privacy = functools.partial(
        checks.mechanism,
        asked(answer, name="private_mean", data="values", epsilon=epsilon),
        name="private_mean",
        reference=release,
        neighbours=[(ordinary, np.array([1.0, *ordinary[1:]])), (wild, np.array([1e6, *wild[1:]]))],
        epsilon=epsilon,
        trials=6000,
        slack=1.5,
        mistakes=[
            Mistake(
                lambda values, rng: noisy(plain(values.tobytes()), values, rng),
                "the values are not clipped. One wild record moves the mean as far as it likes, and no fixed noise "
                "hides that.",
            ),
            Mistake(
                functools.partial(one_side, lambda values: np.minimum(values, 1.0)),
                "the values are clipped on one side only: those below 0 stay as they are. Clip both sides.",
            ),
            Mistake(
                functools.partial(one_side, lambda values: np.maximum(values, 0.0)),
                "the values are clipped on one side only: those above 1 stay as they are. Clip both sides.",
            ),
            Mistake(
                lambda values, rng: noisy(inside(plain(values.tobytes())), values, rng),
                "clipping comes after averaging. One wild record then drags the mean from 0 to 1: clip each value "
                "first.",
            ),
            Mistake(
                lambda values, rng: inside(noisy(plain(values.tobytes()), values, rng)),
                "only the release is clipped. By then a wild record has moved the mean: clip each value first.",
            ),
            Mistake(
                lambda values, rng: clipped(values.tobytes()),
                "there is no noise at all. Whoever knows all records but one can solve for it, as in item 1.",
            ),
            Mistake(
                lambda values, rng: release(values, rng, 0.5),
                "the noise is half of what is needed: a replaced record can move from 0 to 1.",
            ),
            Mistake(
                lambda values, rng: release(values, rng, epsilon**2),
                "the scale is multiplied by ε where it must be divided: a smaller ε needs more noise.",
            ),
            Mistake(
                lambda values, rng: release(values, rng, epsilon),
                "the scale is the sensitivity alone; ε has no say in it.",
            ),
            Mistake(
                lambda values, rng: release(values, rng, float(len(values))),
                "the noise has the size for the sum, n times too much for the mean.",
            ),
            Mistake(
                lambda values, rng: release(values, rng, 2.0),
                "the noise is twice what is needed: the sensitivity counts the replaced record once.",
            ),
            Mistake(
                lambda values, rng: release(values, rng, spread(values.tobytes())),
                "the size of the noise is computed from the records, and tells about them: use the range [0, 1].",
            ),
            Mistake(
                lambda values, rng: release(values, rng, 0.0) + rng.laplace(1 / (len(values) * epsilon)),
                "the first argument of `rng.laplace` is the location of the noise, not its size: pass `scale=`.",
            ),
            Mistake(
                lambda values, rng: release(values, rng, 0.0) + rng.exponential(1 / (len(values) * epsilon)),
                "this noise only goes up, so an outcome below the mean is impossible. Laplace noise goes both ways.",
            ),
            Mistake(
                lambda values, rng: round(release(values, rng)),
                "the release is rounded. That costs no privacy, but loses the answer: do not round.",
            ),
        ],
    )
    exactness = functools.partial(
        checks.properties,
        answer,
        name="private_mean",
        cases=[("Laplace noise of the scale of item 2 on the mean of the clipped values", _is_laplace)],
    )
    both(privacy, exactness)


def _is_laplace(f: Any) -> bool | str:
    """Compare 30,000 releases with the exact distribution (Kolmogorov-Smirnov).

    By the inequality of Dvoretzky, Kiefer and Wolfowitz a right answer is refused with probability below 1e-7.
    Only outcomes inside (0, 1) are compared: whoever cuts the release to [0, 1] afterwards loses no privacy.
    """
    values, epsilon, runs = np.array([-5.0, 0.2, 0.9, 7.0]), 2.0, 30_000
    mean, scale = float(np.clip(values, 0, 1).mean()), 1 / (values.size * epsilon)
    rng = np.random.default_rng(_SEED)
    y = np.sort([float(np.asarray(f(values.copy(), epsilon=epsilon, rng=rng)).item()) for _ in range(runs)])
    middle, allowed = float(np.median(y)), math.sqrt(math.log(2 / 1e-7) / (2 * runs))

    def fits(cdf: Callable[[NDArray[Any]], NDArray[Any]]) -> bool:
        steps = np.arange(1, runs + 1) / runs
        return bool((np.abs(cdf((y - mean) / scale) - steps)[(y > 0) & (y < 1)] <= allowed).all())

    if fits(_laplace_cdf):
        return True
    came = f"{runs} releases for {values.tolist()} at ε = {epsilon:g}"
    different = np.unique(y).size
    if different < runs / 2:
        return f"{came} have only {different} different values, so they are rounded. Do not round."
    if abs(middle - mean) > 0.1 * scale:
        return f"{came} have their middle at {middle:.3g}. Clip each value to [0, 1], then average."
    if fits(ndtr) or fits(lambda z: ndtr(z / math.sqrt(2))):
        return (
            f"{came} follow a normal distribution: this is Gaussian noise. Its tails are too thin for a pure ε; far "
            "out, the ratio of the densities passes every bound."
        )
    factor = float(np.median(np.abs(y - middle))) / (scale * math.log(2))
    if not 0.95 < factor < 1.05:
        return f"{came} have about {factor:.2g} times the noise that is needed. How does the scale depend on n and ε?"
    return f"{came} have noise of the right size, but of another shape."


def _laplace_cdf(z: NDArray[Any]) -> NDArray[Any]:
    tail = np.exp(-np.abs(z)) / 2
    return np.asarray(np.where(z > 0, 1 - tail, tail))
