r"""Checks of items of chapter 03 about the bound: its formula, its worst case, its inverse.

.. math::

    \varepsilon' = \log\bigl(1 + q\,(e^\varepsilon - 1)\bigr)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpml.accounting import amplification
from dpml.classroom import checks, verdict
from dpml.classroom.checks import Mistake

__all__ = ["check_amplified", "check_useful_q", "check_why", "check_worst_case"]


def check_amplified(answer: Any) -> None:
    """The amplified epsilon."""
    pairs = [(1.0, 0.25), (1.0, 1.0), (0.1, 0.01), (2.0, 0.5), (8.0, 0.01), (3.0, 0.0)]
    checks.function(
        answer,
        name="amplified",
        reference=amplification.amplify,
        inputs=[{"epsilon": epsilon, "q": q} for epsilon, q in pairs],
        mistakes=[
            Mistake(
                amplification.lecture_bound,
                "this is the slide's bound. It is true but loose: test it at q = 1, where nothing is left out.",
            ),
            Mistake(
                amplification.lecture_log_form,
                "this is the log form from the slide's proof. It bounds numerator and denominator one by one; at q = 1 "
                "it gives twice the base epsilon.",
            ),
            Mistake(
                lambda *, epsilon, q: q * epsilon,
                "this is the approximation for small epsilon. It lies below the truth, so it promises too much.",
            ),
            Mistake(
                lambda *, epsilon, q: 4 * q * epsilon,
                "this is the slide's remark for small epsilon. At q = 1 it gives four times the base epsilon.",
            ),
            Mistake(
                lambda *, epsilon, q: math.log1p(q * epsilon),
                "the logarithm is right, but q multiplies the growth of a probability: a factor and not epsilon.",
            ),
            Mistake(
                lambda *, epsilon, q: 1 + q * math.expm1(epsilon),
                "this is the ratio of the two probabilities. Epsilon is its logarithm.",
            ),
            Mistake(
                lambda *, epsilon, q: q * math.expm1(epsilon),
                "this is how much the ratio exceeds one. Epsilon is the logarithm of the whole ratio.",
            ),
            Mistake(
                lambda *, epsilon, q: math.log10(1 + q * math.expm1(epsilon)),
                "this is the logarithm to base 10. Logarithms are natural here.",
            ),
            Mistake(
                lambda *, epsilon, q: math.log(q * math.exp(epsilon)) if q else 0.0,
                "the case in which the record is not sampled is missing: with probability 1 - q the ratio is one.",
            ),
        ],
        hint="It must return epsilon at q = 1, zero at q = 0, and about q times epsilon for small epsilon.",
    )


def check_useful_q(answer: Any) -> None:
    """The q above which the slide's bound is worse than no sampling, at epsilon = 1."""
    checks.number(
        answer,
        name="useful_q",
        expected=amplification.lecture_useful_q(epsilon=1.0),
        rel=3e-4,
        mistakes=[
            Mistake(
                0.25,
                "this takes 4q times epsilon for the bound. That holds for small epsilon only, and epsilon is 1 here.",
            ),
            Mistake(0.213, "this is rounded: give at least four digits."),
            Mistake(0.5, "at this q the log form from the proof equals epsilon. Asked is the final bound."),
            Mistake(
                1 / (2 * math.sinh(1.0)),
                "a factor of 2 is lost: e^epsilon - e^-epsilon is twice the hyperbolic sine, and 2q stands before it.",
            ),
            Mistake(1 / (2 * (math.e - 1)), "the term e^-epsilon is missing, or one stands in its place."),
            Mistake(
                4 * math.sinh(1.0),
                "this is the slide's bound at q = 1. Which q makes the bound as small as epsilon itself?",
            ),
        ],
        hint="At your q the printed bound must equal epsilon = 1: put it in.",
    )


def check_worst_case(answer: Any) -> None:
    """Three probabilities that an epsilon-DP mechanism may have, and that attain the tight bound."""
    cases = [(1.0, 0.25), (0.2, 0.5), (2.0, 0.01), (3.0, 0.9)]

    def values(f: Any, epsilon: float, q: float) -> tuple[float, float, float]:
        a, a_prime, b = (float(value) for value in f(epsilon=epsilon, q=q))
        return a, a_prime, b

    def probabilities(f: Any) -> bool | str:
        for epsilon, q in cases:
            came = verdict.given(f(epsilon=epsilon, q=q))
            if not isinstance(came, (tuple, list, np.ndarray)) or len(came) != 3:
                return f"at epsilon = {epsilon:g}, q = {q:g} it returned {verdict.shown(came)}."
            if not all(0 < value <= 1 for value in values(f, epsilon, q)):
                return (
                    f"at epsilon = {epsilon:g}, q = {q:g} it returned {verdict.shown(came)}. Only ratios matter for "
                    "the bound: divide all three by one number that is large enough."
                )
        return True

    def private(f: Any) -> bool | str:
        for epsilon, q in cases:
            a, a_prime, b = values(f, epsilon, q)
            pairs = [("A", "A'", a, a_prime), ("A", "B", a, b), ("A'", "B", a_prime, b)]
            for one, other, x, y in pairs:
                if abs(math.log(x / y)) > epsilon + 1e-9:
                    corner = abs(math.log(a / b) - epsilon) < 1e-6 and abs(math.log(b / a_prime) - epsilon) < 1e-6
                    return (
                        f"at epsilon = {epsilon:g} your {one}/{other} is e^{math.log(x / y):.3g}. "
                        + ("That is the corner of the quick proof: each half is allowed, not both at once." * corner)
                    ).rstrip()
        return True

    def attains(f: Any) -> bool | str:
        for epsilon, q in cases:
            a, a_prime, b = values(f, epsilon, q)
            loss = math.log((q * a + (1 - q) * b) / (q * a_prime + (1 - q) * b))
            bound = amplification.amplify(epsilon=epsilon, q=q)
            where = f"at epsilon = {epsilon:g}, q = {q:g} "
            if abs(loss + bound) < 1e-9:
                return where + "you maximise p'/p: A and A' are exchanged."
            if loss < 0:
                return where + "the log-ratio is negative: A must be the larger one."
            if loss < bound - 1e-9:
                half = abs(math.log(a / a_prime) - epsilon) < 1e-9 and a_prime < b
                why = (
                    "A is at its limit e^epsilon A', but B is above A'."
                    if half
                    else "A may grow, and A' may fall, until a ratio is e^epsilon."
                )
                return where + f"the log-ratio is {loss / bound:.0%} of the bound. {why}"
        return True

    checks.properties(
        answer,
        name="worst_case",
        cases=[
            ("it returns three probabilities A, A', B, above 0 and at most 1", probabilities),
            ("each two of A, A', B differ by a factor of at most e^epsilon, as epsilon-DP demands", private),
            ("the log-ratio log(p/p') reaches the tight bound", attains),
        ],
    )


def check_why(answer: Any) -> None:
    """Two sentences: why the two worst cases exclude each other."""
    checks.argument(
        answer,
        name="why",
        minimum_words=20,
        must_mention={
            "that A and A' belong to neighbouring samples": ["neighb", "adjacen", "replac", "one record", "differ"],
            "which ratio A/A' the two bounds would need": ["e^", "exp", "twice", "square", "2 eps", "2ε", "double"],
        },
        rubric=[
            "A = e^epsilon B and A' = e^-epsilon B together mean A = e^(2 epsilon) A'.",
            "A and A' are probabilities of the same event on samples that differ in one replaced record.",
            "M is epsilon-DP for such samples, so A is at most e^epsilon A'. For epsilon > 0 at most one of the two "
            "bounds is attained.",
        ],
    )
