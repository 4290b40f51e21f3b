"""Checks of items of chapter 06 about one vote: who wins, what it betrays, and which noise it needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpml.classroom import checks
from dpml.classroom.checks import Mistake
from dpml.pate import privacy, voting

__all__ = ["check_loss", "check_noise_scale", "check_upset", "check_worse_votes"]


def check_upset(answer: Any) -> None:
    """The probability that the loser of two classes wins the noisy argmax."""

    def reference(*, gap: int, scale: float) -> float:
        return float(voting.argmax_probabilities([gap, 0], scale=scale)[1])

    checks.function(
        answer,
        name="upset",
        reference=reference,
        inputs=[
            {"gap": gap, "scale": scale}
            for gap, scale in ((0, 1.0), (2, 1.0), (20, 20.0), (100, 1.0), (3, 10.0), (1, 0.5))
        ],
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
        rel=1e-4,
        mistakes=[
            Mistake(1.0, "this is what the slide promises. Compute both probabilities that the first class wins."),
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
        hint="The first class wins with probability one half under D; item 1 gives the probability under D'.",
    )


def check_noise_scale(answer: Any) -> None:
    """The Laplace scale with which a noisy argmax is epsilon-DP."""
    checks.function(
        answer,
        name="noise_scale",
        reference=lambda *, epsilon: privacy.laplace_vote_scale(epsilon=epsilon),
        inputs=[{"epsilon": epsilon} for epsilon in (1.0, 0.1, 0.05, 4.0)],
        mistakes=[
            Mistake(
                lambda *, epsilon: 1 / epsilon,
                "this is the printed scale, for one count that changes. When a vote moves, two counts change: the loss "
                "of items 2 and 3 is above epsilon.",
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
        shows=lambda pair: f"the loss is {loss(pair):.4f} where 1 is promised",
        mistakes=[
            Mistake(
                both_ways,
                "adds a vote. A record that is replaced moves one: the number of teachers stays the same.",
            ),
            Mistake(two_moved, "moves more than one vote. One record is in one shard and moves one vote."),
        ],
    )
