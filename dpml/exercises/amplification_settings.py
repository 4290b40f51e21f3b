"""Checks of items of chapter 03 about the setting: what the theorem covers, and what a step may cost within it."""

from __future__ import annotations

import math
from typing import Any

from dpml import mechanisms
from dpml.accounting import amplification
from dpml.classroom import checks
from dpml.classroom.checks import Mistake

__all__ = ["check_all_sampled", "check_covered", "check_step_epsilon"]


def check_all_sampled(answer: Any) -> None:
    """The probabilities of (|S| = n, yes) under D and D', Poisson sampling."""

    def truth(epsilon: float) -> float:
        return mechanisms.randomized_response_truth_probability(epsilon=epsilon)

    def reference(*, n: int, q: float, epsilon: float) -> tuple[float, float]:
        return q**n * truth(epsilon), q**n * (1 - truth(epsilon))

    def amplified(*, n: int, q: float, epsilon: float) -> tuple[float, float]:
        return amplification.randomized_response_subsampled(epsilon=epsilon, q=q)

    checks.function(
        answer,
        name="all_sampled",
        reference=reference,
        inputs=[
            {"n": n, "q": q, "epsilon": epsilon}
            for n, q, epsilon in ((1, 0.5, 1.0), (3, 0.5, 1.0), (2, 0.25, 0.1), (20, 0.25, 2.0), (5, 1.0, 0.5))
        ],
        abs=0.0,
        mistakes=[
            Mistake(
                amplified,
                "these are the probabilities of the answer yes for samples of any size. The event says more: |S| = n.",
            ),
            Mistake(
                lambda *, n, q, epsilon: tuple(q**n * p for p in amplified(n=n, q=q, epsilon=epsilon)),
                "given that all n records were sampled, x* is in the sample for certain: q^n covers it already.",
            ),
            Mistake(
                lambda *, n, q, epsilon: (q**n * truth(epsilon), (1 - q) * q ** (n - 1) * (1 - truth(epsilon))),
                "D' has n records as well; one of them has another value. All n are sampled with the same probability.",
            ),
            Mistake(
                lambda *, n, q, epsilon: (q ** (n - 1) * truth(epsilon), q ** (n - 1) * (1 - truth(epsilon))),
                "the coin of x* itself is missing: all n records must come into the sample.",
            ),
            Mistake(
                lambda *, n, q, epsilon: (truth(epsilon), 1 - truth(epsilon)),
                "these are the probabilities of yes given that all records are sampled. How probable is that?",
            ),
            Mistake(
                lambda *, n, q, epsilon: reference(n=n, q=q, epsilon=epsilon)[::-1],
                "the two are exchanged: D holds x*, and D' does not.",
            ),
        ],
        hint="It is a product: the probability that all n coins fall right, times that of the answer yes.",
    )


_COVERED = {
    "a": (True, "this is the first setting of the theorem: independent coins, one record more or less."),
    "b": (True, "this is the second setting of the theorem: a fixed size, and one record replaced."),
    "c": (False, "the size of a Poisson sample is random, and M may tell it: think of a sample of all records."),
    "d": (False, "the batches of an epoch depend on each other: a record that has not come yet must still come."),
    "e": (False, "for those who are seen in the sample nothing is random any more: their ratio is e^epsilon."),
    "f": (False, "for the first m people the probability of being in the sample is one."),
    "g": (True, "delta shrinks by the factor q, and epsilon by the same formula as for delta = 0."),
}


def check_covered(answer: Any) -> None:
    """Which settings the theorem covers: a dictionary from letter to True or False."""
    checks.statements(answer, name="covered", expected=_COVERED)


def check_step_epsilon(answer: Any) -> None:
    """The epsilon that a step may have so that its amplified epsilon is the target."""

    def reference(*, target: float, q: float) -> float:
        return math.log1p(math.expm1(target) / q)

    checks.function(
        answer,
        name="step_epsilon",
        reference=reference,
        inputs=[
            {"target": target, "q": q}
            for target, q in ((0.1, 0.01), (1.0, 1.0), (0.5, 0.25), (0.0, 0.1), (0.01, 256 / 60_000), (2.0, 0.001))
        ],
        mistakes=[
            Mistake(
                lambda *, target, q: target / q,
                "this inverts q times epsilon, which holds for small epsilon only. Here it allows too much: the step "
                "would not keep the target.",
            ),
            Mistake(
                lambda *, target, q: amplification.amplify(epsilon=target, q=q),
                "this amplifies the target once more. The step may have a larger epsilon, not a smaller one.",
            ),
            Mistake(
                lambda *, target, q: math.expm1(target) / q,
                "this is e^epsilon - 1 of the step. Solve for epsilon.",
            ),
            Mistake(
                lambda *, target, q: math.log1p(target / q),
                "the target stands in the formula as e^target - 1.",
            ),
            Mistake(
                lambda *, target, q: math.log(math.expm1(target) / q) if target else 0.0,
                "a one is lost: solve e^target = 1 + q(e^epsilon - 1) for e^epsilon first.",
            ),
            Mistake(
                lambda *, target, q: target + math.log(1 / q),
                "this inverts the rule for large epsilon. It is too large when the target is small.",
            ),
            Mistake(
                lambda *, target, q: target,
                "this ignores the sampling: at q below one the step may have more than the target.",
            ),
        ],
        hint="Put your result into the formula of item 1: the target must come out, and at q = 1 they are equal.",
    )
