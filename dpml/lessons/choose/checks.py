"""The checks of the questions and exercises of chapter 09, DP-SGD or PATE?.

Votes are whole numbers. One replaced record moves one vote in every question. Noise is in votes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dpml.classroom import checks, laws
from dpml.classroom.checks import Mistake
from dpml.classroom.laws import Law
from dpml.mechanisms import gaussian_epsilon, gaussian_sigma, gaussian_sigma_classic_formula
from dpml.pate import voting


def check_affordable(answer: Any) -> None:
    """The most labels of 100 teachers with a lead of 80 votes, two deviations of the noise, at (3, 1e-5)."""
    most = (80 / (4 * gaussian_sigma(epsilon=3.0, delta=1e-5))) ** 2
    checks.number(
        answer,
        name="affordable",
        expected=math.floor(most),
        abs=0.5,
        mistakes=[
            Mistake(math.floor(4 * most), "this lead is one standard deviation of the difference. Two are asked for."),
            Mistake(math.floor(2 * most), "this takes the noise of one count. What decides is the difference of two."),
            Mistake(math.ceil(most), "with that many the lead is just below two standard deviations: round down."),
            Mistake(math.floor(math.sqrt(most)), "this is the root of the number of labels."),
        ],
        hint="Set the lead, 80 votes, equal to two standard deviations, and solve for Q.",
    )


def check_replaced(answer: Any) -> None:
    """Epsilon of one full step with noise multiplier 4, at delta 1e-5, where a record is replaced."""

    def with_noise(sigma: float) -> float:
        return gaussian_epsilon(sigma=sigma, delta=1e-5)

    checks.number(
        answer,
        name="replaced",
        expected=with_noise(2.0),
        rel=0.005,
        mistakes=[
            Mistake(with_noise(4.0), "this is for a record that is added or removed."),
            Mistake(
                2 * with_noise(4.0),
                "group privacy doubles epsilon, but its delta grows too. Here delta stays the same.",
            ),
            Mistake(with_noise(4.0 / math.sqrt(2)), "two gradients change, and they may point in opposite directions."),
            Mistake(with_noise(8.0), "a replaced record moves the sum farther, which takes more noise, not less."),
        ],
        hint="How far does the sum of clipped gradients move when one of them becomes another?",
    )


def check_label_noise(answer: Any) -> None:
    """The standard deviation, in votes, with which GNMax may answer so many questions within a budget."""

    def times(factor: Callable[[int], float], one: Callable[..., float] = gaussian_sigma) -> Callable[..., float]:
        """The noise of one count that changes by one, times a factor for so many questions."""
        return lambda *, queries, epsilon, delta: factor(queries) * one(epsilon=epsilon, delta=delta)

    checks.function(
        answer,
        name="label_noise",
        reference=times(lambda k: math.sqrt(2 * k)),
        inputs=checks.settings(
            "queries epsilon delta", (1, 1.0, 1e-5), (100, 3.0, 1e-5), (1000, 1.0, 1e-6), (7, 8.0, 1e-3)
        ),
        mistakes=[
            Mistake(
                times(math.sqrt), "this is for one count that changes by one. A vote that moves changes two counts."
            ),
            Mistake(
                times(lambda k: 2 * math.sqrt(k)),
                "two counts change by one each: that is 2 in the L1 norm, but Gaussian noise goes by the L2 norm.",
            ),
            Mistake(
                times(lambda k: math.sqrt(2)),
                "this is the noise for a single question. Every question shows the same record's vote once more.",
            ),
            Mistake(
                times(lambda k: k * math.sqrt(2)),
                "this grows like the number of questions. All counts of all questions together are one vector; how "
                "long is the difference of two such vectors?",
            ),
            Mistake(
                lambda *, queries, epsilon, delta: (
                    math.sqrt(2) * gaussian_sigma(epsilon=epsilon / queries, delta=delta / queries)
                ),
                "this is private, but wasteful: it gives each question its share of epsilon by basic composition.",
            ),
            Mistake(
                times(lambda k: math.sqrt(2 * k), gaussian_sigma_classic_formula),
                "this uses the classic formula for the Gaussian noise. It is proved for epsilon below one only, and "
                "it is not exact.",
            ),
            Mistake(
                times(lambda k: 1.0), "this is a noise multiplier, for sensitivity one. How far do the votes move?"
            ),
        ],
        hint="Write the counts of all questions one below the other, and see how far one record moves this vector.",
    )


def check_teachers_needed(answer: Any) -> None:
    """The fewest teachers whose lead is at least z standard deviations of the noise on the difference."""

    def exact(*, sigma: float, lead: float, z: float) -> float:
        return z * math.sqrt(2) * sigma / lead

    def reference(*, sigma: float, lead: float, z: float) -> int:
        return math.ceil(exact(sigma=sigma, lead=lead, z=z))

    checks.function(
        answer,
        name="teachers_needed",
        reference=reference,
        inputs=checks.settings("sigma lead z", (10.0, 0.5, 2.0), (33.0, 0.3, 2.0), (5.3, 0.8, 3.0), (118.0, 0.25, 1.5)),
        mistakes=[
            Mistake(
                lambda *, sigma, lead, z: math.ceil(z * sigma / lead),
                "this takes the noise of one count. What decides is the difference of two noisy counts.",
            ),
            Mistake(
                lambda *, sigma, lead, z: math.ceil(2 * z * sigma / lead),
                "the deviations of the two counts are added. For independent noises the variances add.",
            ),
            Mistake(
                lambda *, sigma, lead, z: math.floor(exact(sigma=sigma, lead=lead, z=z)),
                "this is rounded down: one teacher fewer than the condition asks for.",
            ),
            Mistake(
                lambda *, sigma, lead, z: exact(sigma=sigma, lead=lead, z=z),
                "a number of teachers is a whole number: round up.",
            ),
            Mistake(
                lambda *, sigma, lead, z: math.ceil(z * math.sqrt(2) * sigma * lead),
                "a larger lead should ask for fewer teachers, not more.",
            ),
            Mistake(
                lambda *, sigma, lead, z: math.ceil(z * math.sqrt(2) * sigma),
                "this is the gap in votes that is needed. The gap is the share `lead` of the teachers.",
            ),
        ],
        abs=1e-9,
        hint="With K teachers the gap is lead times K votes; the noise on it does not depend on K.",
    )


def check_release_labels(answer: Any) -> None:
    """A label for each of several questions, epsilon-DP together when one record moves a vote in each."""

    def votes(factor: Callable[[int], float]) -> Any:
        """The laws of the labels with noise of scale factor(number of questions) / epsilon."""

        def law(counts: Any, *, epsilon: float, noise: float = 1.0) -> list[Law]:
            rows = voting.argmax_probabilities(counts, scale=noise * factor(len(counts)) / epsilon)
            return [laws.labels(row) for row in rows]

        return law

    checks.law(
        answer,
        name="release_labels",
        law=votes(lambda rows: 2 * rows),
        settings=checks.settings(
            "counts epsilon",
            (np.array([[1, 1], [1, 1], [1, 1]]), 3.0),
            (np.array([[0, 2], [0, 2], [0, 2]]), 3.0),
            (np.array([[4, 1, 0]]), 0.8),
            (np.array([[9, 3], [5, 5]]), 1.7),
            (np.array([[5, 2, 0], [0, 1, 8], [3, 3, 3], [2, 9, 1]]), 4.0),
        ),
        neighbours=[(0, 1)],
        runs=6000,
        wrong=[
            Mistake(
                lambda counts, **_: [laws.certain(int(np.argmax(row))) for row in counts],
                "the winners are released without noise. If one vote decides, it is told.",
            ),
            Mistake(
                votes(lambda rows: 2),
                "each question spends all of epsilon. The same record votes in every question, so the costs add up.",
            ),
            Mistake(
                votes(lambda rows: 2 * math.sqrt(rows)),
                "the root of the number of questions is for Gaussian noise. Laplace noise goes by the L1 norm, in "
                "which the questions add up.",
            ),
            Mistake(
                votes(lambda rows: 1),
                "the noise is for one count that changes, in one question. A vote that moves changes two counts, and "
                "it moves in every question.",
            ),
            Mistake(
                votes(lambda rows: rows),
                "the noise is for one count that changes in each question. A vote that moves changes two counts.",
            ),
            Mistake(
                lambda counts, **given: votes(lambda rows: 2 * np.shape(counts)[1])(counts, **given),
                "the noise grows with the number of classes. A vote moves two counts however many there are, and it "
                "moves in every question.",
            ),
            Mistake(
                lambda counts, **_: [laws.discrete(dict.fromkeys(range(len(row)), 1 / len(row))) for row in counts],
                "the labels are drawn without a look at the votes.",
            ),
        ],
    )


_TOOL = {
    "a": (True, "teachers may be models of any kind, and these shards are disjoint already."),
    "b": (False, "without public inputs there is nothing that the teachers could be asked about."),
    "c": (False, "a vote needs few possible answers: hardly two teachers write the same sentence."),
    "d": (True, "a forest has no gradient to clip, and PATE does not ask how a teacher was trained."),
    "e": (False, "count the noise: with item 1 it is many times the number of votes, and no label survives it."),
    "f": (False, "the teachers would be asked about images that they know nothing of, and would not agree."),
    "g": (True, "the labels of a few hundred questions are cheap when nearly all of many teachers agree."),
}


def check_tool(answer: Any) -> None:
    """For which jobs PATE is the better first choice: a dictionary from letter to True or False."""
    checks.statements(answer, name="tool", expected=_TOOL)


def check_fair(answer: Any) -> None:
    """Why an epsilon computed from the votes cannot be set beside one that holds for all data."""
    checks.argument(
        answer,
        name="fair",
        rubric=[
            "The data-dependent number is a function of the private votes: a neighbouring dataset has another one.",
            "Differential privacy is a promise for all pairs of neighbouring datasets; this number holds for one.",
            "To publish it, or to choose by it, may itself betray a record.",
            "A fair table sets the number for any votes beside the number of DP-SGD, with both neighbouring relations.",
        ],
        question="A neighbouring dataset has ties where this one has clear votes: which number was promised to it?",
    )
