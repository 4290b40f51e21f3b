"""Checks of the items of chapter 06 that ask for a mechanism: a private label, and one that may be withheld."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpml.classroom import checks
from dpml.classroom.checks import Mistake

__all__ = ["check_confident_label", "check_release_label"]

# Votes of two classes and of three; the pairs are neighbours: one vote has moved.
_PAIRS = [
    (np.array([1, 1]), np.array([0, 2])),
    (np.array([1, 1, 1]), np.array([0, 2, 1])),
]
_CONFIDENT_PAIRS = [
    (np.array([1, 1]), np.array([0, 2])),
    (np.array([12, 0]), np.array([11, 1])),
]


def check_release_label(answer: Any) -> None:
    """A noisy argmax that is epsilon-DP when one vote moves, with no more noise than needed."""
    epsilon = 1.0

    def release(counts: Any, rng: np.random.Generator, *, scale: float = 2.0 / epsilon) -> int:
        return int(np.argmax(counts + rng.laplace(scale=scale, size=len(counts))))

    def one_noise(counts: Any, rng: np.random.Generator) -> int:
        return int(np.argmax(counts + rng.laplace(scale=2.0 / epsilon)))

    def on_the_leader(counts: Any, rng: np.random.Generator) -> int:
        noisy = np.array(counts, dtype=float)
        noisy[np.argmax(noisy)] += rng.laplace(scale=2.0 / epsilon)
        return int(np.argmax(noisy))

    def asks(counts: Any, rng: np.random.Generator) -> Any:
        return answer(counts, epsilon=epsilon, rng=rng)

    checks.mechanism(
        asks if callable(answer) else answer,
        name="release_label",
        reference=release,
        neighbours=_PAIRS,
        epsilon=epsilon,
        trials=12_000,
        mistakes=[
            Mistake(
                lambda counts, rng: int(np.argmax(counts)),
                "the winner is released without noise. If one vote decides, it is told.",
            ),
            Mistake(
                lambda counts, rng: release(counts, rng, scale=1.0 / epsilon),
                "the noise is for one count that changes. A vote that moves changes two counts.",
            ),
            Mistake(
                lambda counts, rng: release(counts, rng, scale=0.5 * epsilon),
                "the scale is epsilon over 2, not 2 over epsilon.",
            ),
            Mistake(one_noise, "the same noise on every count leaves the winner as it was: each count needs its own."),
            Mistake(on_the_leader, "only the leading count gets noise. Who leads is what must be hidden."),
            Mistake(
                lambda counts, rng: int(rng.integers(len(counts))),
                "the label is drawn without a look at the votes.",
            ),
        ],
    )


def check_confident_label(answer: Any) -> None:
    """A label or -1: the largest count plus noise against a threshold, then a noisy argmax; epsilon-DP in all."""
    epsilon, threshold = 2.0, 2.0

    def release(
        counts: Any, rng: np.random.Generator, *, test: float = 2.0 / epsilon, vote: float = 4.0 / epsilon
    ) -> int:
        if np.max(counts) + rng.laplace(scale=test) < threshold:
            return -1
        return int(np.argmax(counts + rng.laplace(scale=vote, size=len(counts))))

    def silent_test(counts: Any, rng: np.random.Generator) -> int:
        if np.max(counts) < threshold:
            return -1
        return int(np.argmax(counts + rng.laplace(scale=4.0 / epsilon, size=len(counts))))

    def bare_winner(counts: Any, rng: np.random.Generator) -> int:
        return -1 if np.max(counts) + rng.laplace(scale=2.0 / epsilon) < threshold else int(np.argmax(counts))

    def asks(counts: Any, rng: np.random.Generator) -> Any:
        return answer(counts, threshold=threshold, epsilon=epsilon, rng=rng)

    checks.mechanism(
        asks if callable(answer) else answer,
        name="confident_label",
        reference=release,
        neighbours=_CONFIDENT_PAIRS,
        epsilon=epsilon,
        trials=12_000,
        mistakes=[
            Mistake(
                silent_test,
                "the test has no noise. Whether the question is answered then tells how many votes the leader has.",
            ),
            Mistake(
                bare_winner,
                "the winner is released without noise once the test is passed. A large count is no clear winner.",
            ),
            Mistake(
                lambda counts, rng: release(counts, rng, test=1.0 / epsilon, vote=2.0 / epsilon),
                "the test and the vote each spend all of epsilon. Together they cost the sum.",
            ),
            Mistake(
                lambda counts, rng: int(np.argmax(counts + rng.laplace(scale=4.0 / epsilon, size=len(counts)))),
                "the question is always answered: the test is missing.",
            ),
            Mistake(lambda counts, rng: -1, "no question is ever answered."),
        ],
    )
