"""The checks of chapter 07 whose answer is a number or a formula."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpml.classroom import checks
from dpml.classroom.checks import Mistake
from dpml.pate import stability

__all__ = [
    "check_distance",
    "check_exact_delta",
    "check_models_chernoff",
    "check_models_printed",
    "check_release_at_one",
    "check_scaled",
]

_EPSILON, _DELTA, _N = 1.0, 1e-5, 100_000


def check_distance(answer: Any) -> None:
    """How many votes can change without changing the winner; ties go to the lowest label."""

    def gaps(counts: Any) -> list[tuple[int, bool]]:
        """The lead over each other label, and whether that label wins ties."""
        votes = [int(c) for c in counts]
        winner = votes.index(max(votes))
        return [(votes[winner] - c, k < winner) for k, c in enumerate(votes) if k != winner]

    def drawn(rng: np.random.Generator) -> list[Any]:
        fixed = [(5, 2), (3, 4), (4, 3), (3, 3), (7, 0), (0, 7), (3, 5, 3), (2, 2, 5), (9, 0, 0), (4, 4, 1), (1, 8, 5)]
        return [*fixed, *(tuple(int(v) for v in rng.integers(0, 40, size=rng.integers(2, 7))) for _ in range(40))]

    checks.function(
        answer,
        name="distance",
        reference=lambda counts: int(stability.distance_to_instability(counts)),
        inputs=lambda rng: [(counts,) for counts in drawn(rng) if sum(counts) > 0],
        mistakes=[
            Mistake(
                lambda counts: min((g + 1) // 2 if low else g // 2 + 1 for g, low in gaps(counts)),
                "this is the distance to the nearest dataset with another answer. The answer is safe for one change "
                "less.",
            ),
            Mistake(
                lambda counts: min(g for g, _ in gaps(counts)), "this is the lead. One moved vote changes it by two."
            ),
            Mistake(
                lambda counts: min(g // 2 for g, _ in gaps(counts)),
                "a label below the winner wins ties, so it has to catch up only, not to get ahead.",
            ),
            Mistake(
                lambda counts: min((g + 1) // 2 - 1 for g, _ in gaps(counts)),
                "a label above the winner loses ties, so it has to get ahead, not only to catch up.",
            ),
            Mistake(
                lambda counts: max(1, int(stability.distance_to_instability(counts))),
                "where one vote changes the winner the distance is 0, not 1: the maximum is over 0, ..., n.",
            ),
            Mistake(
                lambda counts: _gap_to_the_second(counts),
                "the nearest rival need not be the one with most votes: how ties fall counts too.",
            ),
            Mistake(
                lambda counts: max((g + 1) // 2 - 1 if low else g // 2 for g, low in gaps(counts)),
                "the smallest of the distances counts: one label is enough to overtake.",
            ),
        ],
        hint="Move votes from the winner to one rival and count how many moves leave the winner where it is.",
    )


def _gap_to_the_second(counts: Any) -> int:
    """The right formula, but for the first of the labels that are second."""
    votes = [int(c) for c in counts]
    winner = votes.index(max(votes))
    second = max((k for k in range(len(votes)) if k != winner), key=lambda k: (votes[k], k))
    gap = votes[winner] - votes[second]
    return (gap + 1) // 2 - 1 if second < winner else gap // 2


def check_release_at_one(answer: Any) -> None:
    """P(release) of M_stab at distance 1, epsilon = 1, delta = 1e-5."""
    half = _DELTA / 2
    checks.number(
        answer,
        name="release_at_one",
        expected=float(stability.release_probability(1, epsilon=_EPSILON, delta=_DELTA)),
        rel=1e-3,
        mistakes=[
            Mistake(lambda a: abs(a - 1) < 1e-3, "that is what the slide says of stable datasets. Look at T."),
            Mistake(half, "this is the value at distance 0, where the noise has to bridge all of T."),
            Mistake(_DELTA, "that is the tail bound of the lecture, on both sides, and at distance 0."),
            Mistake(
                _DELTA * math.e, "a factor 2 is missing: the noise exceeds a positive number with half the probability."
            ),
            Mistake(half / math.e, "the distance helps: the noise must exceed T - 1, not T + 1."),
        ],
        hint="The noise must exceed T - 1. Half of the mass of a Laplace variable is on each side of 0.",
    )


def check_exact_delta(answer: Any) -> None:
    """The least delta of M_stab at its own epsilon, for epsilon = 1 and delta = 1e-5."""
    checks.number(
        answer,
        name="exact_delta",
        expected=stability.m_stab_privacy(epsilon=_EPSILON, delta=_DELTA).delta,
        rel=1e-3,
        mistakes=[
            Mistake(_DELTA, "that is the lecture's delta, which is enough but not needed. What is P(release) at 0?"),
            Mistake(
                _DELTA * math.e / 2,
                "that is P(release) at distance 1. If the answers of two neighbours differ, both distances are 0.",
            ),
            Mistake(lambda a: a == 0, "f(D) is possible under D and impossible under D': no epsilon pays for that."),
            Mistake(_DELTA / 4, "the probability is halved once too often."),
            Mistake(2 * _DELTA, "the two neighbours are not added up: each event is compared on its own."),
        ],
        hint="Look at two neighbours with different answers, and at the event that the answer of one of them comes.",
    )


def check_models_printed(answer: Any) -> None:
    """n_T of the lecture at epsilon = 1, delta = 1e-5, n = 1e5."""
    plan = stability.sampling_plan(epsilon=_EPSILON, delta=_DELTA, n=_N)
    log = math.log(_N / _DELTA)
    checks.number(
        answer,
        name="models_printed",
        expected=plan.n_models,
        rel=0.0,
        abs=0.25,
        mistakes=[
            Mistake(
                lambda a: 22.5 < a < 24.5, "this is for q = 1. The q of the slide is the gamma of the line before."
            ),
            Mistake(lambda a: plan.n_models - 1.5 < a < plan.n_models - 0.3, "a number of models is whole: round up."),
            Mistake(lambda a: abs(a * plan.q / log - 1) < 0.01, "q is squared in Hoeffding's exponent."),
            Mistake(
                lambda a: abs(a * plan.q**2 / math.log(1 / _DELTA) - 1) < 1e-3,
                "the union over all n records is missing: n stands in the logarithm.",
            ),
            Mistake(
                lambda a: abs(a * (32 * math.log(_N / _DELTA)) ** -2 / log - 1) < 1e-3,
                "the logarithm in gamma is that of 1/delta; n comes in with n_T only.",
            ),
        ],
        hint="First gamma = epsilon / (32 log(1/delta)), natural logarithm, then n_T.",
    )


def check_models_chernoff(answer: Any) -> None:
    """The count by the multiplicative Chernoff bound with exponent (2 log 2 - 1) q n_T."""
    plan = stability.sampling_plan_chernoff(epsilon=_EPSILON, delta=_DELTA, n=_N)
    log = math.log(_N / _DELTA)
    checks.number(
        answer,
        name="models_chernoff",
        expected=plan.n_models,
        rel=0.0,
        abs=0.25,
        mistakes=[
            Mistake(
                lambda a: abs(a * plan.q / (3 * log) - 1) < 1e-3,
                "this comes from the simpler exponent q n_T / 3, which is right but gives more models.",
            ),
            Mistake(
                lambda a: a == stability.sampling_plan(epsilon=_EPSILON, delta=_DELTA, n=_N).n_models,
                "this is the count by Hoeffding's inequality again.",
            ),
            Mistake(
                lambda a: abs(a * plan.q * (2 * math.log(2) - 1) / math.log(1 / _DELTA) - 1) < 1e-3,
                "the union over all n records is missing.",
            ),
            Mistake(lambda a: abs(a * plan.q / log - 1) < 1e-3, "the factor 2 log 2 - 1 of the exponent is missing."),
            Mistake(lambda a: plan.n_models - 1.5 < a < plan.n_models - 0.3, "a number of models is whole: round up."),
        ],
        hint="Solve n e^{-(2 log 2 - 1) q n_T} = delta for n_T.",
    )


def check_scaled(answer: Any) -> None:
    """What M_samp adds its noise to, or minus infinity where it must fail whatever the votes are."""

    def made(units: float, less: float = 1.0, guard: float | None = 2.0, reverse: bool = False) -> Any:
        def scaled(counts: Any, *, most_used: int, q: float, n_models: int) -> float:
            if guard is not None and most_used > guard * q * n_models:
                return -math.inf
            top = sorted(int(c) for c in counts)
            return (top[-1] - (top[0] if reverse else top[-2])) / (units * q * n_models) - less

        return scaled

    cases = [
        {"counts": (90, 10), "most_used": 20, "q": 0.1, "n_models": 100},
        {"counts": (90, 10), "most_used": 21, "q": 0.1, "n_models": 100},
        {"counts": (10, 90), "most_used": 8, "q": 0.1, "n_models": 100},
        {"counts": (50, 50), "most_used": 8, "q": 0.1, "n_models": 100},
        {"counts": (5, 70, 25), "most_used": 12, "q": 0.1, "n_models": 100},
        {"counts": (0, 0, 1000), "most_used": 60, "q": 0.05, "n_models": 1000},
        {"counts": (100, 650, 250), "most_used": 99, "q": 0.05, "n_models": 1000},
        {"counts": (100, 650, 250), "most_used": 101, "q": 0.05, "n_models": 1000},
    ]
    checks.function(
        answer,
        name="scaled",
        reference=made(4.0),
        inputs=cases,
        mistakes=[
            Mistake(
                made(2.0, guard=None),
                "two things are missing: a record in more than 2 q n_T parts must lead to a failure, and each moved "
                "vote changes the lead by two.",
            ),
            Mistake(
                made(2.0),
                "one record moves up to 2 q n_T votes, and each moved vote changes the lead by two.",
            ),
            Mistake(
                made(4.0, less=0.0),
                "1 must be subtracted: where the winner changes the lead may still be 4 q n_T, and there the result "
                "must not be above 0.",
            ),
            Mistake(
                made(4.0, guard=None),
                "a record in more than 2 q n_T parts moves more votes than the noise is made for: fail then.",
            ),
            Mistake(made(4.0, guard=1.0), "q n_T parts are what a record has in the mean; fail above twice that only."),
            Mistake(made(4.0, reverse=True), "the second largest count matters, not the smallest."),
        ],
        hint="Fail if most_used > 2 q n_T. Otherwise the lead of the first over the second count, in units of what one "
        "record can change, less one.",
    )
