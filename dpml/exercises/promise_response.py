r"""Checks of items 4 and 5 of chapter 01: randomized response, and the estimate that undoes it on average.

Randomized response tells the truth with probability p, and the estimate of the share s of ones is unbiased, where

.. math::

    \frac{p}{1-p} = e^\varepsilon , \qquad \hat s = \frac{\bar a - (1 - p)}{2p - 1} .

Neighbours differ in the bit of one person (replace-one).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dpml import mechanisms
from dpml.classroom import checks
from dpml.classroom.checks import Mistake, NotYet
from dpml.classroom.runs import quiet
from dpml.exercises._mechanisms import asked, both

__all__ = ["check_estimate_share", "check_randomized_response"]

_SEED = 20_250_117


class _Rates(NamedTuple):
    """How often the answers tell the truth."""

    epsilon: float
    people: int  # in one call
    samples: int  # people with each bit, in all calls together
    zeros: float  # the share of truth among those with bit 0
    ones: float

    def agree(self, *, zeros: float, ones: float) -> bool:
        """Six standard deviations: a right answer is refused with probability below 1e-7, all tests together."""
        n, pairs = self.samples, ((self.zeros, zeros), (self.ones, ones))
        return all(abs(rate - p) <= 6 * math.sqrt(max(p * (1 - p), 1 / n) / n) for rate, p in pairs)

    def gap(self, p: float) -> float:
        return abs(self.zeros - p) + abs(self.ones - p)

    def blind(self) -> bool:
        """Whether a 1 is answered as often under both bits."""
        answered_one = (1 - self.zeros + self.ones) / 2
        return self.agree(zeros=1 - answered_one, ones=answered_one)


_MANY = 100_000  # people with each bit

# The probability of the truth at ε in a group of so many people.
_WRONG_TRUTH: list[tuple[Callable[[float, int], float], str]] = [
    (
        lambda e, people: 1 - math.exp(-e),
        "the truth has probability 1 - e^(-ε) here. Write down truth over lie: it must be e^ε.",
    ),
    (
        lambda e, people: math.exp(e) / (2 + math.exp(e)),
        "the truth has probability e^ε/(2 + e^ε) here, as if there were three answers; there are two.",
    ),
    (
        lambda e, people: 1 - math.exp(-e / 2) / 2,
        "this is what rounded Laplace noise gives: private, but it lies more than it has to.",
    ),
    (
        lambda e, people: (1 + 1 / (1 + math.exp(-e))) / 2,
        "when it does not answer the truth, your function tosses a fair coin, which is the truth half of the time. In "
        "that case the opposite must come.",
    ),
    (lambda e, people: 1 / (1 + math.exp(e)), "it lies with the probability with which it should tell the truth."),
    (
        lambda e, people: 1 / (1 + math.exp(-e / 2)),
        "this is the right probability for ε/2, so it lies more than it has to. One answer may use the whole ε.",
    ),
    (
        lambda e, people: 1 / (1 + math.exp(-2 * e)),
        "this is the right probability for 2ε: the promise is weaker than the one asked for.",
    ),
    (
        lambda e, people: 1 / (1 + math.exp(-e / people)),
        "ε is divided by the number of people. Each gives one answer about one bit, which may use the whole ε.",
    ),
    (lambda e, people: e / (1 + e), "the truth has probability ε/(1 + ε) here: then truth over lie is ε, not e^ε."),
    (lambda e, people: 0.5, "truth and lie are equally likely: such answers tell nothing."),
    (lambda e, people: 1.0, "every answer is the truth (is p above 1?)."),
    (lambda e, people: 0.0, "every answer is a lie, and whoever knows that knows the truth."),
]


def check_randomized_response(answer: Any) -> None:
    """Randomized response: every answer epsilon-DP, each person with a coin of their own, and no lie too many."""
    epsilon = 1.2
    truth = mechanisms.randomized_response_truth_probability(epsilon=epsilon)

    def told(bits: Any, rng: np.random.Generator) -> Any:
        return np.where(rng.random(bits.shape) < truth, bits, 1 - bits)

    mechanism = asked(answer, name="randomized_response", data="bits", epsilon=epsilon)
    if callable(answer):
        _name_known_mistake(answer)
    privacy = functools.partial(
        checks.mechanism,
        mechanism,
        name="randomized_response",
        reference=told,
        neighbours=[(np.array([0, 1, 0]), np.array([1, 1, 0]))],
        epsilon=epsilon,
        trials=3000,
        mistakes=[
            Mistake(
                lambda bits, rng: bits if rng.random() < truth else 1 - bits,
                "one coin decides for all. Two people with equal bits then always answer alike: draw one random number "
                "for each person.",
            ),
        ],
    )
    exactness = functools.partial(
        checks.properties,
        answer,
        name="randomized_response",
        cases=[(f"the truth is as likely as ε = {e:g} allows, and no likelier", _truth_rate(e)) for e in (0.8, 2.5)],
    )
    both(privacy, exactness)


def _measured(f: Any, *, epsilon: float, people: int, calls: int = 1) -> _Rates:
    """Run on groups with as many zeros as ones.

    Raises: ValueError, in words for the student, for answers that are not zeros and ones.
    """
    bits, rng = np.repeat([0, 1], people // 2), np.random.default_rng(_SEED)
    told = np.zeros(bits.shape)
    for _ in range(calls):
        answers = np.asarray(f(bits.copy(), epsilon=epsilon, rng=rng))
        if answers.shape != bits.shape or not np.isin(answers, (0, 1)).all():
            raise ValueError(f"the answers to {people} bits must be zeros and ones of the same shape")
        told += answers == bits
    zeros, ones = (float(told[bits == bit].mean()) / calls for bit in (0, 1))
    return _Rates(epsilon, people, calls * (people // 2), zeros, ones)


def _name_known_mistake(f: Any) -> None:
    """Raise NotYet if the rates of truth are those of one typical mistake, at two ε and in groups of two sizes.

    Close mistakes differ by little at one ε, so all rates must fit, and the nearest mistake is named. Any trouble
    is left for the checks that follow, which report it.
    """
    try:
        with quiet():
            measured = [_measured(f, epsilon=e, people=2 * _MANY) for e in (0.8, 2.5)]
            measured.append(_measured(f, epsilon=2.5, people=2, calls=3000))
    except Exception:  # whatever student code raises
        return
    diagnosis = _known_mistake(measured)
    if diagnosis:
        came = measured[0]
        raise NotYet(
            f"randomized_response tells the truth in {100 * came.zeros:.3g} % of {_MANY:,} zeros and "
            f"{100 * came.ones:.3g} % of {_MANY:,} ones at ε = {came.epsilon:g}. A known mistake: {diagnosis}"
        )


def _known_mistake(measured: list[_Rates]) -> str:
    fits: list[tuple[float, str]] = []
    for truth, diagnosis in _WRONG_TRUTH:
        pairs = [(rates, truth(rates.epsilon, rates.people)) for rates in measured]
        if all(rates.agree(zeros=p, ones=p) for rates, p in pairs):
            fits.append((sum(rates.gap(p) for rates, p in pairs), diagnosis))
    if fits:
        return min(fits)[1]
    if all(rates.blind() for rates in measured):
        return "the answers do not depend on the bits, so they tell nothing about them."
    if all(rates.agree(zeros=1.0, ones=rates.ones) for rates in measured):
        return "only the ones ever lie. Then an answer 1 proves that the bit is 1, and no ε allows that."
    if all(rates.agree(zeros=rates.zeros, ones=1.0) for rates in measured):
        return "only the zeros ever lie. Then an answer 0 proves that the bit is 0, and no ε allows that."
    return ""


def _truth_rate(epsilon: float) -> Callable[[Any], Any]:
    """A test of the probability of the truth, from 100,000 people with each bit."""
    right = mechanisms.randomized_response_truth_probability(epsilon=epsilon)

    def test(f: Any) -> bool | str:
        try:
            rates = _measured(f, epsilon=epsilon, people=2 * _MANY)
        except ValueError as error:
            return f"{error}."
        if rates.agree(zeros=right, ones=right):
            return True
        came = f"the truth came in {100 * rates.zeros:.3g} % of the zeros and {100 * rates.ones:.3g} % of the ones"
        if max(rates.zeros, rates.ones) > right:
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
