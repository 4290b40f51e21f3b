r"""The checks of the exercises of chapter 03, Amplification by subsampling, in the order of its items.

A mechanism M that is epsilon-DP runs on a secret random sample that holds each record with probability q: Poisson
sampling under add/remove, or m of n records without replacement (q = m/n) under replace-one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpml import mechanisms
from dpml.accounting import amplification
from dpml.classroom import checks, laws, verdict
from dpml.classroom.checks import Mistake
from dpml.classroom.laws import Law


def check_amplified(answer: Any) -> None:
    """The amplified epsilon."""
    checks.function(
        answer,
        name="amplified",
        reference=amplification.amplify,
        inputs=checks.settings("epsilon q", (1.0, 0.25), (1.0, 1.0), (0.1, 0.01), (2.0, 0.5), (8.0, 0.01), (3.0, 0.0)),
        mistakes=[
            Mistake(
                amplification.lecture_bound,
                "this is the loose bound. It is true, but test it at q = 1, where nothing is left out.",
            ),
            Mistake(
                amplification.lecture_log_form,
                "this is the log form of the quick proof. It bounds numerator and denominator one by one; at q = 1 "
                "it gives twice the base epsilon.",
            ),
            Mistake(
                lambda *, epsilon, q: q * epsilon,
                "this is the approximation for small epsilon. It lies below the truth, so it promises too much.",
            ),
            Mistake(
                lambda *, epsilon, q: 4 * q * epsilon,
                "this is the loose bound for small epsilon. At q = 1 it gives four times the base epsilon.",
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
    """The q above which the loose bound is worse than no sampling, at epsilon = 1."""
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
            Mistake(0.5, "at this q the log form equals epsilon. Asked is the loose bound."),
            Mistake(
                1 / (2 * math.sinh(1.0)),
                "a factor of 2 is lost: e^epsilon - e^-epsilon is twice the hyperbolic sine, and 2q stands before it.",
            ),
            Mistake(1 / (2 * (math.e - 1)), "the term e^-epsilon is missing, or one stands in its place."),
            Mistake(
                4 * math.sinh(1.0),
                "this is the loose bound at q = 1. Which q makes the bound as small as epsilon itself?",
            ),
        ],
        hint="At your q the loose bound must equal epsilon = 1: put it in.",
    )


def check_worst_case(answer: Any) -> None:
    """Three probabilities that an epsilon-DP mechanism may have, and that attain the tight bound."""
    cases = [(1.0, 0.25), (0.2, 0.5), (2.0, 0.01), (3.0, 0.9)]

    def values(f: Any, epsilon: float, q: float) -> tuple[float, float, float]:
        a, a_prime, b = (float(value) for value in f(epsilon=epsilon, q=q))
        return a, a_prime, b

    def probabilities(f: Any) -> bool | str:
        for epsilon, q in cases:
            came = f(epsilon=epsilon, q=q)
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
        rubric=[
            "A = e^epsilon B and A' = e^-epsilon B together mean A = e^(2 epsilon) A'.",
            "A and A' are probabilities of the same event on samples that differ in one replaced record.",
            "M is epsilon-DP for such samples, so A is at most e^epsilon A'. For epsilon > 0 at most one of the two "
            "bounds is attained.",
        ],
        question="At ε = 1, how large would A/A' be with both equalities, and how large may it be?",
    )


def check_subsample_and_release(answer: Any) -> None:
    """A noisy count on a Poisson sample that is epsilon-DP under add/remove, with no more noise than needed."""

    def binomial(n: int, p: float) -> list[float]:
        return [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]

    def coins(bits: Any, q: float) -> Any:
        """The probabilities of a count of 0, 1, ... if each record has a coin of its own."""
        return binomial(int(np.sum(bits)), q)

    def one_coin(bits: Any, q: float) -> Any:
        return [1 - q, *[0.0] * (int(np.sum(bits)) - 1), q] if np.any(bits) else [1.0]

    def exact_size(bits: Any, q: float) -> Any:
        n, ones, size = len(bits), int(np.sum(bits)), max(1, round(q * len(bits)))
        ways = [math.comb(ones, k) * math.comb(n - ones, size - k) if k <= size else 0 for k in range(ones + 1)]
        return [way / math.comb(n, size) for way in ways]

    def with_replacement(bits: Any, q: float) -> Any:
        return binomial(max(1, round(q * len(bits))), float(np.mean(bits)))

    def everyone(bits: Any, q: float) -> Any:
        return [*[0.0] * int(np.sum(bits)), 1.0]

    def first_records(bits: Any, q: float) -> Any:
        return everyone(bits[: max(1, round(q * len(bits)))], q)

    def step(epsilon: float, q: float) -> float:
        return 1 / math.log1p(math.expm1(epsilon) / q)

    def law_of(counts: Any = coins, scale: Any = step, *, kind: Any = laws.laplace, up: Any = None) -> Any:
        """The law of count + noise; `up` maps q to factors for the count and for the noise."""

        def law(bits: Any, *, epsilon: float, q: float, noise: float = 1.0) -> Law:
            shares = np.asarray(counts(bits, q))
            often, wide = up(q) if up else (1.0, 1.0)
            b = noise * wide * scale(epsilon, q)
            possible = np.flatnonzero(shares)
            return laws.mixture(shares[possible], [kind(often * float(k), b) for k in possible])

        return law

    def bare(bits: Any, *, epsilon: float, q: float, noise: float = 1.0) -> Law:
        return laws.discrete({float(k): float(p) for k, p in enumerate(coins(bits, q))})

    checks.law(
        answer,
        name="subsample_and_release",
        law=law_of(),
        settings=checks.settings(
            "bits epsilon q",
            (np.array([1] + [0] * 7), 0.6, 0.25),
            (np.zeros(7, dtype=int), 0.6, 0.25),
            (np.ones(20, dtype=int), 0.6, 0.25),
            (np.array([0] * 12 + [1] * 4), 2.0, 0.5),
            (np.ones(60, dtype=int), 1.0, 0.1),
        ),
        neighbours=[(0, 1)],
        runs=4000,
        wrong=[
            Mistake(bare, "the count of the sample is released without noise. Sampling alone hides no one."),
            Mistake(law_of(everyone), "all records are counted, with noise that is enough for a random sample only."),
            Mistake(
                law_of(first_records),
                "the first records are always taken. For those people q is one, and nothing is amplified.",
            ),
            Mistake(
                law_of(one_coin),
                "one coin decides for all records together. Each needs its own, or the count of "
                "twenty ones tells the coin.",
            ),
            Mistake(
                law_of(exact_size),
                "the sample has a fixed size. Under add/remove each record needs its own coin, drawn anew in every "
                "run.",
            ),
            Mistake(
                law_of(with_replacement),
                "records are drawn with replacement, so one can be counted twice: one record then moves the count by "
                "more than 1.",
            ),
            Mistake(
                law_of(scale=lambda epsilon, q: q / epsilon),
                "the noise is for a step with epsilon/q. That rule is for small epsilon only and allows too much.",
            ),
            Mistake(
                law_of(scale=lambda epsilon, q: step(epsilon, q**2)),
                "q is used twice: the epsilon of the step is amplified once, not two times.",
            ),
            Mistake(
                law_of(scale=lambda epsilon, q: q * step(epsilon, q)),
                "the noise is multiplied by q on top of the larger epsilon of the step: q is used twice.",
            ),
            Mistake(
                law_of(up=lambda q: (1 / q, 1.0)),
                "the count is scaled up before the noise is added. One record then moves it by 1/q, but the noise "
                "is for a move of 1.",
            ),
            Mistake(
                law_of(up=lambda q: (1 / q, 1 / q)),
                "the noisy count is scaled up by 1/q, and the noise with it. Return the count of the sample.",
            ),
            Mistake(
                law_of(scale=lambda epsilon, q: 1 / epsilon),
                "the noise is as large as without sampling. The step may have a larger epsilon.",
            ),
            Mistake(
                law_of(scale=lambda epsilon, q: 1 / math.log1p(q * math.expm1(epsilon))),
                "the formula is used in the wrong direction: the epsilon of the step is larger than the target.",
            ),
            Mistake(
                law_of(kind=laws.normal), "the noise is Gaussian. No Gaussian noise has delta = 0: take Laplace noise."
            ),
        ],
    )


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
        inputs=checks.settings(
            "n q epsilon", (1, 0.5, 1.0), (3, 0.5, 1.0), (2, 0.25, 0.1), (20, 0.25, 2.0), (5, 1.0, 0.5)
        ),
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
        inputs=checks.settings(
            "target q", (0.1, 0.01), (1.0, 1.0), (0.5, 0.25), (0.0, 0.1), (0.01, 256 / 60_000), (2.0, 0.001)
        ),
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
                lambda *, target, q: math.expm1(target) / q, "this is e^epsilon - 1 of the step. Solve for epsilon."
            ),
            Mistake(lambda *, target, q: math.log1p(target / q), "the target stands in the formula as e^target - 1."),
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
        hint="Put your result into the theorem's formula: the target must come out, and at q = 1 they are equal.",
    )
