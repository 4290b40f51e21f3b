"""The check of the item of chapter 04 that asks for a mechanism: one step of DP-SGD on gradients of dimension one."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from typing import Any

import numpy as np

from dpml.accounting import pld
from dpml.classroom import checks
from dpml.classroom.checks import Mistake

__all__ = ["check_private_step"]


@cache
def _step_epsilon(q: float, sigma: float, delta: float) -> float:
    return pld.epsilon(q=q, sigma=sigma, steps=1, delta=delta).epsilon


def check_private_step(answer: Any) -> None:
    """One step of DP-SGD on gradients of dimension one: Poisson sample, clip each, add up, add noise."""
    name, q, clip, sigma, delta = "private_step", 0.1, 20.0, 0.7, 1e-2
    scale = sigma * clip

    def sample(gradients: Any, rng: np.random.Generator) -> Any:
        values = np.asarray(gradients, dtype=float)
        return values[rng.random(len(values)) < q]

    def step(gradients: Any, rng: np.random.Generator, *, noise: float = scale) -> float:
        return float(np.clip(sample(gradients, rng), -clip, clip).sum() + rng.normal(0.0, noise))

    def asks(gradients: Any, rng: np.random.Generator) -> Any:
        return answer(gradients, q=q, clip=clip, sigma=sigma, rng=rng)

    pairs = [
        (np.array([90.0] + [0.0] * 4), np.zeros(4)),
        (np.array([0.0] * 4 + [-90.0]), np.zeros(4)),
    ]
    with redirect_stdout(io.StringIO()) as success:
        checks.mechanism(
            asks if callable(answer) else answer,
            name=name,
            reference=step,
            neighbours=pairs,
            epsilon=_step_epsilon(q, sigma, delta),
            delta=delta,
            trials=6000,
            slack=1.6,
            mistakes=[
                Mistake(
                    lambda gradients, rng: float(np.clip(sample(gradients, rng), -clip, clip).sum()),
                    "the sum is released without noise. Sampling alone hides no one.",
                ),
                Mistake(
                    lambda gradients, rng: float(sample(gradients, rng).sum() + rng.normal(0.0, scale)),
                    "the gradients are not clipped: one record may move the sum by any amount.",
                ),
                Mistake(
                    lambda gradients, rng: step(gradients, rng, noise=sigma),
                    "the noise has standard deviation sigma. The multiplier is relative to the clipping norm.",
                ),
                Mistake(
                    lambda gradients, rng: step(gradients, rng, noise=sigma * clip * q),
                    "the noise is multiplied by q. The gain by sampling is in the accounting, not in the noise.",
                ),
                Mistake(
                    lambda gradients, rng: step(gradients, rng, noise=math.sqrt(sigma * clip)),
                    "sigma times the clipping norm is the standard deviation, not the variance.",
                ),
                Mistake(
                    lambda gradients, rng: float(np.clip(gradients, -clip, clip).sum() + rng.normal(0.0, scale)),
                    "all records are used, with noise that is enough for a random sample only.",
                ),
                Mistake(
                    lambda gradients, rng: step(gradients, rng, noise=2 * scale),
                    "the noise is for a replaced record, which moves the sum by 2 clip. Under add/remove it is clip.",
                ),
                Mistake(
                    lambda gradients, rng: step(gradients, rng, noise=sigma * clip * math.sqrt(max(len(gradients), 1))),
                    "noise is added to every record. Add it once, to the sum.",
                ),
            ],
        )
    _require_clipping_and_coins(asks, q=q, clip=clip, noise=scale, name=name)
    print(success.getvalue(), end="")


def _require_clipping_and_coins(
    run: Callable[[Any, np.random.Generator], Any], *, q: float, clip: float, noise: float, name: str
) -> None:
    """Mean and variance of the output on n gradients show which of them are clipped, and how they are drawn.

    A right answer on n gradients of size at least clip has mean q n clip and variance n q (1 - q) clip^2 + noise^2.
    With 2000 runs each limit below is more than 10 standard deviations of its estimate away.
    """
    n, runs, rng = 400, 2000, np.random.default_rng(20_250_204)
    large = np.array([float(run(np.full(n, 3 * clip), rng)) for _ in range(runs)])
    if large.mean() < 0.1 * n * q * clip:
        raise checks.NotYet(
            f"{name}: on {n} gradients of {3 * clip:g} your mean output is {large.mean():.3g}. Clip each gradient by "
            "itself, then add up; do not clip the sum, and do not divide it."
        )
    small = np.array([float(run(np.full(n, clip / 4), rng)) for _ in range(runs)])
    if small.mean() > 2 * n * q * clip / 4:
        raise checks.NotYet(
            f"{name}: on {n} gradients of {clip / 4:g} your mean output is {small.mean():.3g}. A gradient below the "
            "clipping norm stays as it is: it must not be scaled up to the norm."
        )
    if not abs(large.mean() - n * q * clip) < 0.1 * n * q * clip:
        raise checks.NotYet(
            f"{name}: on {n} gradients of {3 * clip:g} your mean output is {large.mean():.3g}. Each record must be in "
            "the sample with probability q, and count with its clipped value."
        )
    if large.var() < 0.5 * n * q * (1 - q) * clip**2 + noise**2 / 2:
        raise checks.NotYet(
            f"{name}: on {n} equal gradients your outputs hardly vary beyond the noise. Each record needs its own "
            "coin, drawn anew in every run: the size of a Poisson sample is random."
        )
