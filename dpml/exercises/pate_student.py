"""Checks of items of chapter 06 about the student: how many labels, these votes, what may be told, and why."""

from __future__ import annotations

import math
from typing import Any

from dpml.classroom import checks
from dpml.classroom.checks import Mistake
from dpml.mechanisms import gaussian_epsilon
from dpml.pate import privacy

__all__ = ["check_how_many", "check_moment", "check_told", "check_why_private"]

_SIGMA, _BUDGET, _DELTA = 40.0, 2.0, 1e-5


def _most(sensitivity_of: Any) -> int:
    """The largest number of labels within the budget, for a rule that says how the sensitivity grows."""
    found = 0
    while gaussian_epsilon(sigma=_SIGMA / sensitivity_of(found + 1), delta=_DELTA) <= _BUDGET:
        found += 1
    return found


def check_how_many(answer: Any) -> None:
    """The largest number of GNMax labels with sigma = 40 within epsilon = 2 at delta = 1e-5."""
    right = _most(lambda k: math.sqrt(2 * k))
    one = privacy.gnmax_student(queries=1, sigma=_SIGMA, delta=_DELTA).epsilon
    checks.number(
        answer,
        name="how_many",
        expected=right,
        rel=1e-9,
        mistakes=[
            Mistake(
                _most(lambda k: math.sqrt(k)),
                "this takes a sensitivity of one for each label. A vote that moves changes two counts.",
            ),
            Mistake(
                math.floor(_BUDGET / one),
                "this adds up the epsilons of single labels. Gaussian noise composes better than that.",
            ),
            Mistake(
                _most(lambda k: 2 * math.sqrt(k)),
                "this takes the L1 norm, in which the counts move by two. Gaussian noise needs the L2 norm.",
            ),
            Mistake(_most(lambda k: math.sqrt(2) * k), "the sensitivity of k labels grows like the root of k."),
            Mistake(right + 1, "with that many labels epsilon is just above the budget. Which number is within it?"),
            Mistake(right - 1, "one more label is still within the budget."),
        ],
        hint="Put your number, and the next one, into privacy.gnmax_student.",
    )


def check_moment(answer: Any) -> None:
    """The smaller of the two bounds on the log-moment, given q; the second alone where the first is undefined."""

    def any_votes(lam: float, scale: float) -> float:
        return 2 * lam * (lam + 1) / scale**2

    def these_votes(q: float, lam: float, scale: float) -> float:
        grown = math.exp(2 / scale) * q
        return math.log((1 - q) * ((1 - q) / (1 - grown)) ** lam + q * math.exp(2 * lam / scale))

    def holds(q: float, scale: float) -> bool:
        return q < 1 / (1 + math.exp(2 / scale))

    def reference(*, q: float, lam: float, scale: float) -> float:
        worst = any_votes(lam, scale)
        return min(worst, these_votes(q, lam, scale)) if holds(q, scale) else worst

    def unconditional(*, q: float, lam: float, scale: float) -> float:
        inside = 1 - math.exp(2 / scale) * q
        return min(any_votes(lam, scale), these_votes(q, lam, scale)) if inside > 0 else any_votes(lam, scale)

    checks.function(
        answer,
        name="moment",
        reference=reference,
        inputs=[
            {"q": q, "lam": lam, "scale": scale}
            for q, lam, scale in (
                (1e-4, 8, 20.0),
                (0.01, 2, 20.0),
                (0.2, 8, 1.0),
                (0.13, 0.5, 1.0),
                (0.13, 20, 1.0),
                (0.4, 4, 10.0),
                (0.46, 8, 20.0),
                (0.1, 100, 5.0),
                (0.48, 1, 20.0),
                (0.3, 0.1, 2.0),
            )
        ],
        rel=1e-7,
        mistakes=[
            Mistake(
                lambda *, q, lam, scale: (
                    these_votes(q, lam, scale) if math.exp(2 / scale) * q < 1 else any_votes(lam, scale)
                ),
                "the bound for these votes is used wherever it can be computed. It holds under the condition on q "
                "only, and the other bound may be smaller.",
            ),
            Mistake(
                unconditional,
                "beyond the condition on q the first formula still gives a number as long as 1 - e^(2/b) q is above "
                "zero. That number is no bound.",
            ),
            Mistake(
                lambda *, q, lam, scale: these_votes(q, lam, scale) if holds(q, scale) else any_votes(lam, scale),
                "the condition is right, but the smaller of the two bounds is wanted.",
            ),
            Mistake(
                lambda *, q, lam, scale: any_votes(lam, scale),
                "this is the bound for any votes. Where q is small the other one is far smaller.",
            ),
            Mistake(
                lambda *, q, lam, scale: lam * (lam + 1) / (2 * scale**2),
                "this is the bound for a mechanism that is (1/b)-DP. One vote moves two counts.",
            ),
            Mistake(
                lambda *, q, lam, scale: (
                    max(any_votes(lam, scale), these_votes(q, lam, scale)) if holds(q, scale) else any_votes(lam, scale)
                ),
                "this is the larger of the two bounds. Both hold, so the smaller one may be used.",
            ),
        ],
        hint="Where q reaches 1/(1 + e^(2/b)) only the bound for any votes is left.",
    )


_TOLD = {
    "a": (True, "the student is post-processing of the released labels: it costs nothing more, however it is used."),
    "b": (False, "the exact counts tell every vote, and with it what the changed record did."),
    "c": (False, "the data-dependent epsilon is a function of the private votes."),
    "d": (True, "the epsilon for any votes depends on the numbers of labels and noise only, which are public."),
    "e": (False, "the teachers were trained without noise: each one may have memorised records of its shard."),
    "f": (False, "which questions have a clear majority is information about the votes, unless the test is noisy."),
    "g": (True, "the labels of confident GNMax and its silences are what the account pays for."),
}


def check_told(answer: Any) -> None:
    """What may be published once the labels are paid for: a dictionary from letter to True or False."""
    checks.statements(answer, name="told", expected=_TOLD)


def check_why_private(answer: Any) -> None:
    """Two sentences: why the data-dependent epsilon must not be published."""
    checks.argument(
        answer,
        name="why_private",
        minimum_words=25,
        must_mention={
            "what the number is computed from": ["vote", "count", "private data", "teacher"],
            "what a neighbouring dataset would show": [
                "neighbo",
                "adjacen",
                "replac",
                "another record",
                "other record",
            ],
            "that the number would differ": ["differ", "another", "chang", "other", "distinguish", "tell"],
        },
        rubric=[
            "It is a function of the gaps between the counts, that is, of the private votes, and it has no noise.",
            "On a neighbouring dataset a vote has moved, the gaps are others, and so is the number.",
            "So an output that differs for certain between neighbours would be published: no epsilon covers it.",
            "The number for any votes is the same for both. A noisy version of the other one has a cost of its own.",
        ],
    )
