r"""Checks of the mechanisms in the exercises of chapter 01: private first, then useful, then exactly as asked.

A Laplace mechanism for the mean of n values in [0, 1] has scale b, and randomized response tells the truth with
probability p, where

.. math::

    b = \frac{1}{n\varepsilon}, \qquad \frac{p}{1-p} = e^\varepsilon .

Neighbours differ in the value of one of n records (replace-one).
"""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr

from dpml import mechanisms
from dpml.classroom import checks
from dpml.classroom.checks import Mistake

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["check_estimate_share", "check_private_mean", "check_randomized_response"]

_SEED = 20_250_117


def _both(first: Callable[[], None], second: Callable[[], None]) -> None:
    """Run two checks; print their lines of success only if both pass."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        first()
        second()
    print(printed.getvalue(), end="")


def check_private_mean(answer: Any) -> None:
    """An epsilon-DP mean of values that may lie outside [0, 1]."""
    epsilon = 0.6
    # The clipped mean of each of the few datasets is computed once: the wrong mechanisms run 200,000 times.
    clipped = functools.cache(lambda data: float(np.clip(np.frombuffer(data), 0.0, 1.0).mean()))
    plain = functools.cache(lambda data: float(np.frombuffer(data).mean()))
    spread = functools.cache(lambda data: float(np.ptp(np.clip(np.frombuffer(data), 0.0, 1.0))))

    def noisy(mean: float, values: Any, rng: np.random.Generator, factor: float = 1.0) -> float:
        return mean + rng.laplace(0.0, factor / (len(values) * epsilon))

    def release(values: Any, rng: np.random.Generator, factor: float = 1.0) -> float:
        return noisy(clipped(values.tobytes()), values, rng, factor)

    def inside(x: float) -> float:
        return min(max(x, 0.0), 1.0)

    # Few records, so that a message can show them all; the noise has the size that they need.
    ordinary = np.array([0.0, 0.3, 0.8, 0.5, 0.9])
    wild = np.array([-3.0, 0.5, 0.5])
    privacy = functools.partial(
        checks.mechanism,
        _asked(answer, epsilon=epsilon),
        name="private_mean",
        reference=release,
        neighbours=[(ordinary, np.array([1.0, *ordinary[1:]])), (wild, np.array([1e6, *wild[1:]]))],
        epsilon=epsilon,
        trials=6000,
        slack=1.5,
        mistakes=[
            Mistake(
                lambda values, rng: noisy(plain(values.tobytes()), values, rng),
                "the values are not clipped. One wild record moves the mean as far as it likes, and no noise of a "
                "fixed size hides that.",
            ),
            Mistake(
                lambda values, rng: noisy(inside(plain(values.tobytes())), values, rng),
                "clipping comes after averaging. One wild record can then drag the whole mean from 0 to 1: clip each "
                "value first.",
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
                "the noise is half of what is needed. A replaced record can move from 0 to 1, not only to the middle.",
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
                "the size of the noise is computed from the records, so it tells about them. It may depend on the "
                "range [0, 1], which is known beforehand, but not on the data.",
            ),
        ],
    )
    exactness = functools.partial(
        checks.properties,
        answer,
        name="private_mean",
        cases=[("it is the mean of the clipped values plus Laplace noise of the scale of item 2", _is_laplace)],
    )
    _both(privacy, exactness)


def _asked(answer: Any, *, epsilon: float) -> Any:
    """The answer as a function of a dataset and rng; what is no function stays as it is, for the check to refuse."""
    if not callable(answer):
        return answer
    return lambda dataset, rng: answer(dataset, epsilon=epsilon, rng=rng)


def _is_laplace(f: Any) -> bool | str:
    """Compare 30,000 releases with the exact distribution (Kolmogorov-Smirnov).

    By the inequality of Dvoretzky, Kiefer and Wolfowitz a right answer is refused with probability below 1e-7.
    Only outcomes inside (0, 1) are compared: whoever cuts the release to [0, 1] afterwards loses no privacy.
    """
    values, epsilon, runs = np.array([-5.0, 0.2, 0.9, 7.0]), 2.0, 30_000
    mean, scale = float(np.clip(values, 0, 1).mean()), 1 / (values.size * epsilon)
    rng = np.random.default_rng(_SEED)
    y = np.sort([float(f(values.copy(), epsilon=epsilon, rng=rng)) for _ in range(runs)])
    middle, allowed = float(np.median(y)), math.sqrt(math.log(2 / 1e-7) / (2 * runs))

    def fits(cdf: Callable[[NDArray[Any]], NDArray[Any]]) -> bool:
        steps = np.arange(1, runs + 1) / runs
        return bool((np.abs(cdf((y - mean) / scale) - steps)[(y > 0) & (y < 1)] <= allowed).all())

    if fits(_laplace_cdf):
        return True
    came = f"{runs} releases for the values {values.tolist()} at ε = {epsilon:g}"
    if abs(middle - mean) > 0.1 * scale:
        return f"{came} have their middle at {middle:.3g}. Clip each value to [0, 1], then average."
    if fits(ndtr) or fits(lambda z: ndtr(z / math.sqrt(2))):
        return (
            f"{came} follow a normal distribution. A known mistake: this is Gaussian noise. Its tails are too thin for "
            "a pure ε: far out, the ratio of the two densities passes every bound."
        )
    factor = float(np.median(np.abs(y - middle))) / (scale * math.log(2))
    if not 0.95 < factor < 1.05:
        return f"{came} have about {factor:.2g} times the noise that is needed. How does the scale depend on n and ε?"
    return f"{came} have noise of the right size, but of another shape."


def _laplace_cdf(z: NDArray[Any]) -> NDArray[Any]:
    tail = np.exp(-np.abs(z)) / 2
    return np.asarray(np.where(z > 0, 1 - tail, tail))


_WRONG_TRUTH: list[tuple[Callable[[float], float], str]] = [
    (
        lambda e: 1 - math.exp(-e),
        "the truth has probability 1 - e^(-ε) here. Write down truth over lie: it must be e^ε.",
    ),
    (
        lambda e: math.exp(e) / (2 + math.exp(e)),
        "the truth has probability e^ε/(2 + e^ε) here, as if there were three answers; there are two.",
    ),
    (
        lambda e: (1 + 1 / (1 + math.exp(-e))) / 2,
        "when it does not answer the truth, your function tosses a fair coin, which is the truth half of the time. So "
        "the truth comes more often than you count on: in that case the opposite must come.",
    ),
    (lambda e: 1 / (1 + math.exp(e)), "it lies with the probability with which it should tell the truth."),
    (
        lambda e: 1 / (1 + math.exp(-e / 2)),
        "this is the right probability for ε/2, so it lies more than it has to. A person gives one answer, and that "
        "may use the whole ε.",
    ),
    (
        lambda e: 1 / (1 + math.exp(-2 * e)),
        "this is the right probability for 2ε: the promise is weaker than the one asked for.",
    ),
    (lambda e: e / (1 + e), "the truth has probability ε/(1 + ε) here: then truth over lie is ε instead of e^ε."),
    (lambda e: 0.5, "truth and lie are equally likely: such answers tell nothing."),
]


def check_randomized_response(answer: Any) -> None:
    """Randomized response: every answer epsilon-DP, each person with a coin of their own, and no lie too many."""
    epsilon = 1.2
    truth = mechanisms.randomized_response_truth_probability(epsilon=epsilon)

    def told(p: float) -> Callable[[Any, np.random.Generator], Any]:
        return lambda bits, rng: np.where(rng.random(bits.shape) < p, bits, 1 - bits)

    privacy = functools.partial(
        checks.mechanism,
        _asked(answer, epsilon=epsilon),
        name="randomized_response",
        reference=told(truth),
        neighbours=[(np.array([0, 1, 0]), np.array([1, 1, 0]))],
        epsilon=epsilon,
        trials=3000,
        mistakes=[
            Mistake(
                lambda bits, rng: bits if rng.random() < truth else 1 - bits,
                "one coin decides for all people together. Two people with equal bits then always answer alike, which "
                "shows who differs: draw one random number for each person.",
            ),
            Mistake(
                lambda bits, rng: np.where(rng.random(bits.shape) < truth, bits, 0),
                "only the ones ever lie. Then an answer 1 proves that the bit is 1, and no ε allows that.",
            ),
            Mistake(
                lambda bits, rng: np.where(rng.random(bits.shape) < truth, bits, 1),
                "only the zeros ever lie. Then an answer 0 proves that the bit is 0, and no ε allows that.",
            ),
            Mistake(lambda bits, rng: bits, "every answer is the truth."),
            *(Mistake(told(p(epsilon)), diagnosis) for p, diagnosis in _WRONG_TRUTH),
        ],
    )
    exactness = functools.partial(
        checks.properties,
        answer,
        name="randomized_response",
        cases=[(f"the truth is as likely as ε = {e:g} allows, and no likelier", _truth_rate(e)) for e in (0.4, 2.5)],
    )
    _both(privacy, exactness)


def _truth_rate(epsilon: float) -> Callable[[Any], Any]:
    """A test of the probability of the truth, from 100,000 people with each bit.

    Six standard deviations: the four tests of the item refuse a right answer with probability below 1e-7.
    """
    n = 100_000
    right = mechanisms.randomized_response_truth_probability(epsilon=epsilon)

    def agree(rates: list[float], p: float) -> bool:
        return all(abs(rate - p) <= 6 * math.sqrt(max(p * (1 - p), 1 / n) / n) for rate in rates)

    def test(f: Any) -> bool | str:
        bits = np.repeat([0, 1], n)
        answers = np.asarray(f(bits.copy(), epsilon=epsilon, rng=np.random.default_rng(_SEED)))
        if answers.shape != bits.shape or not np.isin(answers, (0, 1)).all():
            return f"the answers to {2 * n} bits must be zeros and ones of the same shape."
        rates = [float(np.mean(answers[bits == bit] == bit)) for bit in (0, 1)]
        if agree(rates, right):
            return True
        came = f"the truth came in {rates[0]:.3g} of the zeros and {rates[1]:.3g} of the ones"
        for p, diagnosis in _WRONG_TRUTH:
            if agree(rates, p(epsilon)):
                return f"{came}. A known mistake: {diagnosis}"
        if max(rates) > right:
            return f"{came}. That is too often: the ratio of truth to lie must be at most e^ε."
        return f"{came}. A larger probability is allowed: the ratio of truth to lie may be e^ε."

    return test


def check_estimate_share(answer: Any) -> None:
    """The unbiased estimate of the share of ones from the answers of randomized response."""

    def truth(epsilon: float) -> float:
        return mechanisms.randomized_response_truth_probability(epsilon=epsilon)

    def reference(answers: Any, *, epsilon: float) -> float:
        return mechanisms.randomized_response_estimate(answers, epsilon=epsilon)

    def inputs(rng: np.random.Generator) -> list[dict[str, Any]]:
        few: list[tuple[Any, float]] = [([0, 0, 0], 1.0), ([1, 1, 0, 1], 2.0), ([1, 1], 0.5)]
        many = [(rng.integers(0, 2, size=50), e) for e in (0.3, 1.0, 3.0)]
        return [{"answers": np.asarray(answers), "epsilon": e} for answers, e in (*few, *many)]

    checks.function(
        answer,
        name="estimate_share",
        reference=reference,
        inputs=inputs,
        mistakes=[
            Mistake(
                lambda answers, *, epsilon: np.mean(answers),
                "this is the share of ones among the answers. If nobody holds a 1, how many ones do you expect all the "
                "same?",
            ),
            Mistake(
                lambda answers, *, epsilon: min(max(reference(answers, epsilon=epsilon), 0.0), 1.0),
                "the estimate is cut off at 0 or 1. That looks tidy but moves its expectation; leave it as it comes.",
            ),
            Mistake(
                lambda answers, *, epsilon: np.mean(answers) / (2 * truth(epsilon) - 1),
                "the slope is right, but the ones that come from lying zeros are not subtracted.",
            ),
            Mistake(
                lambda answers, *, epsilon: np.mean(answers) - (1 - truth(epsilon)),
                "the ones that come from lying zeros are subtracted, but the true ones that lied are not made up for: "
                "the answers move less than the bits do.",
            ),
            Mistake(
                lambda answers, *, epsilon: np.mean(answers) / truth(epsilon),
                "this would be right if only the ones lied. The zeros lie too.",
            ),
            Mistake(
                lambda answers, *, epsilon: (np.mean(answers) - (1 - truth(epsilon))) / truth(epsilon),
                "what is divided by must be the distance between the expected answer of a 1 and that of a 0.",
            ),
            Mistake(
                lambda answers, *, epsilon: (np.mean(answers) - truth(epsilon)) / (1 - 2 * truth(epsilon)),
                "this estimates the share of zeros.",
            ),
        ],
        hint="If a share s of the bits are ones, the expected share of ones among the answers is linear in s. Solve.",
    )
