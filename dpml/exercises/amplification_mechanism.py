"""The check of the item of chapter 03 that asks for a mechanism: a noisy count on a Poisson sample."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

import numpy as np

from dpml.classroom import checks
from dpml.classroom.checks import Mistake

__all__ = ["check_subsample_and_release"]


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
