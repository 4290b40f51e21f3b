"""The checks of the questions and exercises of chapter 06, PATE.

Neighbours differ in one replaced record, which moves one vote of each question. Noise is in votes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpml import mechanisms
from dpml.classroom import checks, laws
from dpml.classroom.checks import Mistake
from dpml.classroom.laws import Law
from dpml.mechanisms import gaussian_sigma
from dpml.pate import laplace_votes, student, voting


def check_upset(answer: Any) -> None:
    """The probability that the loser of two classes wins the noisy argmax."""

    def reference(*, gap: int, scale: float) -> float:
        return float(voting.argmax_probabilities([gap, 0], scale=scale)[1])

    checks.function(
        answer,
        name="upset",
        reference=reference,
        inputs=checks.settings("gap scale", (0, 1.0), (2, 1.0), (20, 20.0), (100, 1.0), (3, 10.0), (1, 0.5)),
        abs=0.0,
        mistakes=[
            Mistake(
                lambda *, gap, scale: math.exp(-gap / scale) / 2,
                "only one of the two counts has noise here. The difference of two Laplace variables has another law.",
            ),
            Mistake(
                lambda *, gap, scale: 1.0 - reference(gap=gap, scale=scale),
                "this is the probability that the leader wins. For a tie both are the same; check a large gap.",
            ),
            Mistake(
                lambda *, gap, scale: math.exp(-gap * scale) * (0.5 + gap * scale / 4),
                "the scale is inverted. More noise must bring the result nearer to one half.",
            ),
            Mistake(
                lambda *, gap, scale: math.exp(-gap / scale) * (2 + gap / scale),
                "a factor of 4 is missing: for a tie the result must be one half.",
            ),
            Mistake(
                lambda *, gap, scale: math.exp(-gap / scale) * (1 + gap / scale / 2),
                "this counts both tails of the difference of the noises. Only one of them lets the loser win.",
            ),
            Mistake(
                lambda *, gap, scale: 1.0 - (1.0 - reference(gap=gap, scale=scale)),
                "for a large gap the digits are lost in 1 - (1 - p). Write the small number as it is.",
            ),
        ],
        hint="It is one half for a tie, and falls with the gap.",
    )


def check_loss(answer: Any) -> None:
    """The largest loss of votes (1, 1) against (0, 2) with Lap(1)."""
    checks.number(
        answer,
        name="loss",
        expected=2.0 - math.log(2.0),
        rel=2e-4,
        mistakes=[
            Mistake(1.0, "this is what is promised. Compute both probabilities that the first class wins."),
            Mistake(2.0, "this is the bound of the theorem. These votes stay below it."),
            Mistake(
                math.log(2.0 * (1.0 - math.exp(-2.0))),
                "this is the loss of the other winner. The larger of the two losses counts.",
            ),
            Mistake(
                math.log(0.5 / (0.75 * math.exp(-1.0))),
                "this has a gap of one vote under D'. One vote moves, and the gap changes by two.",
            ),
            Mistake(math.exp(2.0) / 2.0, "this is the ratio of the probabilities. The loss is its logarithm."),
            Mistake(math.log(2.0) - 2.0, "its size is right. Divide the larger probability by the smaller one."),
        ],
        hint="The first class wins with probability one half under D; the formula gives the probability under D'.",
    )


def check_noise_scale(answer: Any) -> None:
    """The Laplace scale with which a noisy argmax is epsilon-DP."""
    checks.function(
        answer,
        name="noise_scale",
        reference=lambda *, epsilon: laplace_votes.laplace_vote_scale(epsilon=epsilon),
        inputs=[{"epsilon": epsilon} for epsilon in (1.0, 0.1, 0.05, 4.0)],
        mistakes=[
            Mistake(
                lambda *, epsilon: 1 / epsilon,
                "this is the scale for one count that changes. When a vote moves, two counts change.",
            ),
            Mistake(lambda *, epsilon: epsilon / 2, "a smaller epsilon needs more noise, not less."),
            Mistake(lambda *, epsilon: epsilon, "a smaller epsilon needs more noise, not less."),
            Mistake(
                lambda *, epsilon: math.sqrt(2) / epsilon,
                "the square root belongs to the L2 norm and Gaussian noise. Laplace noise needs the L1 norm.",
            ),
            Mistake(
                lambda *, epsilon: 4 / epsilon,
                "this is private, with twice the noise that is needed: one vote moves, not two.",
            ),
        ],
        hint="How far does the vector of counts move in the L1 norm when one vote moves?",
    )


def check_worse_votes(answer: Any) -> None:
    """Neighbouring votes with which the printed noise at epsilon = 1 loses at least 1.9."""
    wanted = 1.9

    def parsed(pair: Any) -> tuple[list[float], list[float]]:
        here, there = (np.asarray(votes).tolist() for votes in pair)
        return here, there

    def loss(pair: Any) -> float:
        logs = voting.argmax_log_probabilities(list(parsed(pair)), scale=1.0)
        return float(np.abs(logs[0] - logs[1]).max())

    def moved(here: Sequence[float], there: Sequence[float]) -> list[float]:
        return sorted(b - a for a, b in zip(here, there, strict=True) if a != b)

    def test(pair: Any) -> str | None:
        here, there = parsed(pair)
        if len(here) != len(there) or moved(here, there) != [-1, 1]:
            raise ValueError("from one to the other exactly one vote must move from a class to another class")
        came = loss(pair)
        if came < wanted:
            return f"these votes lose {came:.3f}, and at least {wanted} is asked for. Is the vote close or clear?"
        return None

    def both_ways(pair: Any) -> bool:
        here, there = parsed(pair)
        return len(here) == len(there) and moved(here, there) == [1]

    def two_moved(pair: Any) -> bool:
        here, there = parsed(pair)
        return sum(here) == sum(there) and sum(abs(a - b) for a, b in zip(here, there, strict=True)) > 2

    checks.counterexample(
        answer,
        name="worse_votes",
        test=test,
        shows=lambda pair: f"the loss is {loss(pair):.4f}, at least {wanted}",
        mistakes=[
            Mistake(
                both_ways,
                "adds a vote. A record that is replaced moves one: the number of teachers stays the same.",
                example=([0, 20], [1, 20]),
            ),
            Mistake(
                two_moved,
                "moves more than one vote. One record is in one shard and moves one vote.",
                example=([5, 15], [0, 20]),
            ),
        ],
    )


def check_release_label(answer: Any) -> None:
    """A noisy argmax that is epsilon-DP when one vote moves, with no more noise than needed."""

    def vote(counts: Any, *, epsilon: float, noise: float = 1.0) -> Law:
        return laws.labels(voting.argmax_probabilities(counts, scale=2 * noise / epsilon))

    def exponential(counts: Any, *, epsilon: float, noise: float = 1.0) -> Law:
        return laws.labels(mechanisms.exponential_probabilities(counts, epsilon=epsilon / noise))

    def on_the_leader(counts: Any, *, epsilon: float, noise: float = 1.0) -> Law:
        second, leader = np.argsort(counts, kind="stable")[-2:]
        stays = 1 - math.exp(-(counts[leader] - counts[second]) * epsilon / (2 * noise)) / 2
        return laws.discrete({int(leader): stays, int(second): 1 - stays})

    checks.law(
        answer,
        name="release_label",
        law=vote,
        also=[exponential],
        settings=[
            {"counts": np.array([1, 1]), "epsilon": 0.8},
            {"counts": np.array([0, 2]), "epsilon": 0.8},
            {"counts": np.array([4, 0]), "epsilon": 0.8},
            {"counts": np.array([3, 8, 3, 5]), "epsilon": 0.5},
            {"counts": np.array([20, 21, 19]), "epsilon": 3.0},
        ],
        neighbours=[(0, 1)],
        runs=6000,
        wrong=[
            Mistake(
                lambda counts, **_: laws.certain(int(np.argmax(counts))),
                "the winner is released without noise, or with the same noise on every count. If one vote decides, it "
                "is told.",
            ),
            Mistake(
                lambda counts, *, epsilon, noise=1.0: vote(counts, epsilon=2 * epsilon, noise=noise),
                "the noise is for one count that changes. A vote that moves changes two counts.",
            ),
            Mistake(
                lambda counts, *, epsilon, noise=1.0: vote(counts, epsilon=4 / epsilon, noise=noise),
                "the scale is epsilon over 2, not 2 over epsilon.",
            ),
            Mistake(on_the_leader, "only the leading count gets noise. Who leads is what must be hidden."),
            Mistake(
                lambda counts, **_: laws.labels(np.full(len(counts), 1 / len(counts))),
                "the label is drawn without a look at the votes.",
            ),
        ],
    )


def check_confident_label(answer: Any) -> None:
    """A label or -1: the largest count plus noise against a threshold, then a noisy argmax; epsilon-DP in all."""

    def release(counts: Any, *, threshold: float, test: float, vote: float) -> Law:
        """A test and a vote with Laplace noise of these scales; 0 is no noise."""
        above = float(np.max(counts)) - threshold
        passes = 1 - math.exp(-abs(above) / test) / 2 if test else 1.0
        asked = passes if above >= 0 else 1 - passes
        labels = voting.argmax_probabilities(counts, scale=vote) if vote else np.eye(len(counts))[np.argmax(counts)]
        return laws.discrete({-1: 1 - asked} | {k: asked * p for k, p in enumerate(labels.tolist())})

    def with_scales(test: float, vote: float) -> Any:
        def law(counts: Any, *, threshold: float, epsilon: float, noise: float = 1.0) -> Law:
            return release(counts, threshold=threshold, test=test * noise / epsilon, vote=vote * noise / epsilon)

        return law

    def noisy_maximum(counts: Any, *, threshold: float, epsilon: float, noise: float = 1.0) -> Law:
        """The noisy counts of the vote also take the test: an integral over the largest of them."""
        b = 4 * noise / epsilon
        x = np.linspace(threshold, max(threshold, np.max(counts)) + 30 * b, 20_001)[:, None] - counts
        tail, edge = np.exp(-np.abs(x) / b) / 2, x > 0
        below = np.where(edge, 1 - tail, tail)
        wins = [np.trapezoid(tail[:, k] / b * np.delete(below, k, 1).prod(axis=1), x[:, k]) for k in range(len(counts))]
        return laws.discrete({-1: 1 - sum(wins)} | dict(enumerate(map(float, wins))))

    checks.law(
        answer,
        name="confident_label",
        law=with_scales(2.0, 4.0),
        settings=[
            {"counts": np.array([1, 1]), "threshold": 2.0, "epsilon": 2.0},
            {"counts": np.array([0, 2]), "threshold": 2.0, "epsilon": 2.0},
            {"counts": np.array([12, 0]), "threshold": 11.0, "epsilon": 1.0},
            {"counts": np.array([3, 3, 6, 0]), "threshold": 8.0, "epsilon": 1.0},
            {"counts": np.array([40, 38, 39]), "threshold": 39.0, "epsilon": 5.0},
            {"counts": np.array([9, 2, 0]), "threshold": 80.0, "epsilon": 2.0},  # hardly ever a label
        ],
        neighbours=[(0, 1)],
        runs=6000,
        wrong=[
            Mistake(
                with_scales(0.0, 4.0),
                "the test has no noise. Whether the question is answered then tells how many votes the leader has.",
            ),
            Mistake(
                with_scales(2.0, 0.0),
                "the winner is released without noise once the test is passed. A large count is no clear winner.",
            ),
            Mistake(
                with_scales(1.0, 2.0), "the test and the vote each spend all of epsilon. Together they cost the sum."
            ),
            Mistake(with_scales(1.0, 4.0), "the test spends all of epsilon, and the vote half of it on top."),
            Mistake(with_scales(2.0, 2.0), "the vote spends all of epsilon, and the test half of it on top."),
            Mistake(
                with_scales(4.0, 4.0), "the test has the noise of two counts that change. It looks at the largest only."
            ),
            Mistake(
                noisy_maximum,
                "the test looks at the noisy counts, not at the largest true count with noise of its own.",
            ),
            Mistake(
                lambda counts, *, threshold, epsilon, noise=1.0: release(
                    counts, threshold=-math.inf, test=0.0, vote=4 * noise / epsilon
                ),
                "the question is always answered: the test is missing.",
            ),
        ],
    )


_SIGMA, _BUDGET, _DELTA = 40.0, 2.0, 1e-5


def _most(sensitivity_of: Any) -> int:
    """The largest number of labels within the budget, for a rule that says how the sensitivity grows."""
    found, least = 0, gaussian_sigma(epsilon=_BUDGET, delta=_DELTA)
    while _SIGMA / sensitivity_of(found + 1) >= least:
        found += 1
    return found


def check_how_many(answer: Any) -> None:
    """The largest number of GNMax labels with sigma = 40 within epsilon = 2 at delta = 1e-5."""
    right = _most(lambda k: math.sqrt(2 * k))
    one = student.gnmax_student(queries=1, sigma=_SIGMA, delta=_DELTA).epsilon
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
        hint="Put your number, and the next one, into student.gnmax_student.",
    )


def check_moment(answer: Any) -> None:
    """The smaller of the two bounds on the log-moment, given q; the second alone beyond the limit of the first."""

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

    checks.function(
        answer,
        name="moment",
        reference=reference,
        inputs=checks.settings(
            "q lam scale",
            (1e-4, 8, 20.0),
            (0.01, 2, 20.0),
            (0.2, 8, 1.0),
            (0.4, 4, 10.0),
            (0.46, 8, 20.0),
            (0.1, 100, 5.0),
            (0.48, 1, 20.0),
            (0.3, 0.1, 2.0),
            (0.26, 50, 2.0),
            (0.11, 30, 1.0),
        ),
        rel=1e-7,
        mistakes=[
            Mistake(
                lambda *, q, lam, scale: (
                    these_votes(q, lam, scale) if math.exp(2 / scale) * q < 1 else any_votes(lam, scale)
                ),
                "the bound for these votes is used wherever it can be computed, also where the other bound is the "
                "smaller one.",
            ),
            Mistake(
                lambda *, q, lam, scale: (
                    max(any_votes(lam, scale), these_votes(q, lam, scale)) if holds(q, scale) else any_votes(lam, scale)
                ),
                "this is the larger of the two bounds. Both hold, so the smaller one may be used.",
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
        ],
        hint="From q = 1/(1 + e^(2/b)) on the first bound is of no use: take the bound for any votes.",
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
        rubric=[
            "It is a function of the gaps between the counts, that is, of the private votes, and it has no noise.",
            "On a neighbouring dataset a vote has moved, the gaps are others, and so is the number.",
            "So an output that differs for certain between neighbours would be published: no epsilon covers it.",
            "The number for any votes is the same for both. A noisy version of the other one has a cost of its own.",
        ],
        question="Neighbours give 1.10 and 1.25, without noise: what does a reader of 1.10 know for certain?",
    )
