r"""The checks of the exercises of chapter 03, Amplification by subsampling: one name for each question.

items 1 to 4   amplification_bounds      the bound, where it helps, its worst case, why
items 5 to 7   amplification_settings    what the theorem covers, and what a step may cost
item 8         amplification_mechanism   a noisy count on a Poisson sample

A mechanism M that is epsilon-DP runs on a secret random sample that holds each record with probability q: Poisson
sampling under add/remove, or m of n records without replacement (q = m/n) under replace-one.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

import numpy as np

from dpml import mechanisms
from dpml.accounting import amplification
from dpml.classroom import checks, verdict
from dpml.classroom.checks import Mistake

# ---- Checks of items of chapter 03 about the bound: its formula, its worst case, its inverse ----

# .. math::
#
#     \varepsilon' = \log\bigl(1 + q\,(e^\varepsilon - 1)\bigr)


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


# ---- The check of the item of chapter 03 that asks for a mechanism: a noisy count on a Poisson sample ----


def check_subsample_and_release(answer: Any) -> None:
    """A noisy count on a Poisson sample that is epsilon-DP under add/remove, with no more noise than needed."""
    name, epsilon, q = "subsample_and_release", 1.0, 0.1
    scale = 1 / math.log1p(math.expm1(epsilon) / q)

    def sampled(bits: Any, rng: np.random.Generator) -> float:
        return float(np.sum(bits[rng.random(len(bits)) < q]))

    def release(bits: Any, rng: np.random.Generator, *, noise: float = scale) -> float:
        return sampled(bits, rng) + float(rng.laplace(scale=noise))

    def asks(bits: Any, rng: np.random.Generator) -> Any:
        return answer(bits, epsilon=epsilon, q=q, rng=rng)

    # The extra record stands first and last: a sample that prefers some places shows there.
    pairs = [
        (np.array([1] + [0] * 19), np.zeros(19, dtype=int)),
        (np.array([0] * 19 + [1]), np.zeros(19, dtype=int)),
    ]
    with redirect_stdout(io.StringIO()) as success:
        checks.mechanism(
            asks if callable(answer) else answer,
            name=name,
            reference=release,
            neighbours=pairs,
            epsilon=epsilon,
            trials=4000,
            slack=1.5,
            mistakes=[
                Mistake(sampled, "the count of the sample is released without noise. Sampling alone hides no one."),
                Mistake(
                    lambda bits, rng: np.sum(bits) + rng.laplace(scale=scale),
                    "all records are counted, with noise that is enough for a random sample only.",
                ),
                Mistake(
                    lambda bits, rng: np.sum(bits[: max(1, round(q * len(bits)))]) + rng.laplace(scale=scale),
                    "the first records are always taken. For those people q is one, and nothing is amplified.",
                ),
                Mistake(
                    lambda bits, rng: release(bits, rng, noise=q / epsilon),
                    "the noise is for a step with epsilon/q. That rule is for small epsilon only and allows too much.",
                ),
                Mistake(
                    lambda bits, rng: release(bits, rng, noise=1 / math.log1p(math.expm1(epsilon) / q**2)),
                    "q is used twice: the epsilon of the step is amplified once, not two times.",
                ),
                Mistake(
                    lambda bits, rng: release(bits, rng, noise=q * scale),
                    "the noise is multiplied by q on top of the larger epsilon of the step: q is used twice.",
                ),
                Mistake(
                    lambda bits, rng: sampled(bits, rng) / q + rng.laplace(scale=scale),
                    "the count is scaled up before the noise is added. One record then moves it by 1/q, but the noise "
                    "is for a move of 1.",
                ),
                Mistake(
                    lambda bits, rng: release(bits, rng) / q,
                    "the noisy count is scaled up by 1/q, and the noise with it. Return the count of the sample.",
                ),
                Mistake(
                    lambda bits, rng: release(bits, rng, noise=1 / epsilon),
                    "the noise is as large as without sampling. The step may have the larger epsilon of item 7.",
                ),
                Mistake(
                    lambda bits, rng: release(bits, rng, noise=1 / math.log1p(q * math.expm1(epsilon))),
                    "the formula is used in the wrong direction: the epsilon of the step is larger than the target.",
                ),
            ],
        )
    _require_own_coins(asks, q=q, noise=scale, name=name)
    print(success.getvalue(), end="")


def _require_own_coins(run: Callable[[Any, np.random.Generator], Any], *, q: float, noise: float, name: str) -> None:
    """The count over many ones must vary as a binomial one does, whose variance is n q (1 - q).

    A fixed sample, or one of a fixed size, has the variance of the noise alone, about a fortieth. With 2000 runs the
    limits below lie more than 12 standard deviations from what a right answer gives: false alarms are out of question.
    """
    n, rng = 400, np.random.default_rng(20_250_117)
    ones = np.ones(n, dtype=int)
    counts = np.array([float(run(ones, rng)) for _ in range(2000)])
    if counts.var() < (n * q * (1 - q) + 2 * noise**2) / 2:
        raise checks.NotYet(
            f"{name}: on {n} ones your counts hardly vary from run to run. The sample must not have a fixed size: "
            "under add/remove each record needs its own coin, drawn anew in every run."
        )
    if not abs(counts.mean() - n * q) < n * q / 10:
        raise checks.NotYet(
            f"{name}: on {n} ones at q = {q:g} your mean count is {counts.mean():.3g}. Each record must be in the "
            "sample with probability q."
        )


# ---- Checks of items of chapter 03 about the setting: what the theorem covers, and what a step may cost within it ----


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
