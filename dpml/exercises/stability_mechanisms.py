"""The checks of chapter 07 on mechanisms: a test without noise refuted, and M_stab for votes."""

from __future__ import annotations

import io
import math
from contextlib import redirect_stdout
from typing import Any

import numpy as np

from dpml.classroom import checks
from dpml.classroom.checks import Mistake
from dpml.pate import stability

__all__ = ["check_sharp_test", "check_stable_release"]

_FAIL = stability.FAIL


def check_sharp_test(answer: Any) -> None:
    """Two neighbouring votes of 100 that "release if 90 agree" tells apart although the winner is the same."""

    def test(pair: Any) -> str | None:
        try:
            one, other = pair
        except (TypeError, ValueError):
            raise ValueError("give two lists of votes, (counts, counts_prime).") from None
        rows = [list(one), list(other)]
        if any(len(row) != len(rows[0]) or len(row) < 2 for row in rows):
            raise ValueError("both lists need as many labels, at least two.")
        if any(int(c) != c or c < 0 for row in rows for c in row):
            raise ValueError("votes are whole numbers, none below 0.")
        if any(sum(row) != 100 for row in rows):
            raise ValueError(f"each list must have 100 votes, and these have {sum(rows[0])} and {sum(rows[1])}.")
        moved = sum(abs(a - b) for a, b in zip(*rows, strict=True))
        if moved == 0:
            return "the two are the same dataset."
        if moved > 2:
            return f"they are no neighbours: {moved // 2} votes differ, and one may."
        answered = [max(row) >= 90 for row in rows]
        if answered[0] == answered[1]:
            return f"the rule {'answers' if answered[0] else 'is silent'} on both. Where does its decision change?"
        return None

    checks.counterexample(
        answer,
        name="sharp_test",
        test=test,
        shows=lambda pair: "the rule answers on one of them and is silent on the other, and the winner is the same",
    )


def check_stable_release(answer: Any) -> None:
    """M_stab for votes: private with (epsilon, delta/2), and released as often as the formula says."""
    name, epsilon, delta = "stable_release", 1.4, 0.05
    threshold = stability.stability_threshold(epsilon=epsilon, delta=delta)
    votes: list[tuple[int, ...]] = [(4, 5, 0), (5, 4, 0), (6, 3, 0), (7, 2, 0), (8, 1, 0), (9, 0, 0)]
    known = {v: (int(stability.distance_to_instability(v)), int(np.argmax(v))) for v in votes}

    def distance(counts: Any) -> int:
        return known[tuple(counts.tolist())][0]

    def decide(counts: Any, released: bool) -> int:
        return known[tuple(counts.tolist())][1] if released else _FAIL

    def noisy(
        counts: Any, rng: np.random.Generator, *, b: float = 1 / epsilon, t: float = threshold, more: int = 0
    ) -> int:
        return decide(counts, distance(counts) + more + rng.laplace(0.0, b) > t)

    def asks(counts: Any, rng: np.random.Generator) -> Any:
        return answer(counts, epsilon=epsilon, delta=delta, rng=rng)

    pairs = [(np.array(votes[i + 1]), np.array(votes[i])) for i in (0, 2, 3)]
    with redirect_stdout(io.StringIO()) as success:
        checks.mechanism(
            asks if callable(answer) else answer,
            name=name,
            reference=noisy,
            neighbours=pairs,
            epsilon=epsilon,
            delta=delta / 2,
            trials=5000,
            mistakes=[
                Mistake(
                    lambda counts, rng: decide(counts, distance(counts) > threshold),
                    "the distance meets the threshold without noise: whether it answers tells two neighbours apart.",
                ),
                Mistake(
                    lambda counts, rng: decide(counts, distance(counts) >= 1),
                    "it answers wherever one vote cannot change the answer. Whether it answers is an output too.",
                ),
                Mistake(
                    lambda counts, rng: int(np.argmax(counts)),
                    "the winner is always released. At the border one vote changes it.",
                ),
                Mistake(
                    lambda counts, rng: decide(
                        counts, distance(counts) + 1 + rng.laplace(scale=1 / epsilon) > threshold
                    ),
                    "the distance is one too large: at the border it must be 0.",
                ),
                Mistake(
                    lambda counts, rng: decide(
                        counts, np.ptp(np.sort(counts)[-2:]) + rng.laplace(scale=1 / epsilon) > threshold
                    ),
                    "the lead takes the place of the distance. One moved vote changes the lead by two.",
                ),
                Mistake(
                    lambda counts, rng: noisy(counts, rng, b=epsilon),
                    "the scale of the noise is epsilon and should be its inverse.",
                ),
                Mistake(
                    lambda counts, rng: noisy(counts, rng, b=1 / (2 * epsilon)),
                    "the noise is for twice the epsilon.",
                ),
                Mistake(
                    lambda counts, rng: int(np.argmax(counts + rng.laplace(scale=1 / epsilon, size=len(counts)))),
                    "this is a noisy vote: noise on the counts. Here the noise belongs into the test.",
                ),
                Mistake(
                    lambda counts, rng: noisy(counts, rng, t=math.log(1 / delta) * epsilon),
                    "the threshold is multiplied by epsilon; it must be divided.",
                ),
                Mistake(
                    lambda counts, rng: noisy(counts, rng, t=math.log(1 / delta)),
                    "the threshold is not divided by epsilon.",
                ),
                Mistake(
                    lambda counts, rng: noisy(counts, rng, t=math.log(1 / (2 * delta)) / epsilon),
                    "the threshold log(1/(2 delta))/epsilon gives (epsilon, delta); asked for is half of that delta.",
                ),
            ],
        )
    _require_the_release_rates(asks, known, epsilon=epsilon, delta=delta, name=name)
    print(success.getvalue(), end="")


def _require_the_release_rates(
    run: Any, known: dict[tuple[int, ...], tuple[int, int]], *, epsilon: float, delta: float, name: str
) -> None:
    """The rate at each distance is that of the formula, within 6.5 standard deviations and 4 runs of 3000."""
    runs, rng = 3000, np.random.default_rng(20_250_307)
    for counts, (distance, winner) in known.items():
        came = [int(run(np.array(counts), rng)) for _ in range(runs)]
        strange = sorted(set(came) - {winner, _FAIL})
        if strange:
            raise checks.NotYet(
                f"{name}: on the votes {list(counts)} it returned {strange[0]}. It may return the exact winner, or "
                f"{_FAIL} for a failure, and nothing else."
            )
        p = float(stability.release_probability(distance, epsilon=epsilon, delta=delta))
        rate = came.count(winner) / runs
        if abs(rate - p) > 6.5 * math.sqrt(p * (1 - p) / runs) + 4 / runs:
            way = "more often" if rate > p else "less often"
            raise checks.NotYet(
                f"{name}: on the votes {list(counts)} the answer came in {100 * rate:.3g} % of {runs} runs, {way} than "
                "M_stab with the threshold log(1/delta)/epsilon and noise of scale 1/epsilon gives it. "
                + (
                    "A lower threshold than that spends a larger delta."
                    if rate > p
                    else "It is private, but too cautious: look at the threshold, the noise and the distance."
                )
            )
