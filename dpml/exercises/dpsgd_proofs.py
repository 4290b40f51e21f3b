"""Checks of items 4, 8 and 9 of chapter 05: why each example is clipped, what breaks it, and why B is fixed."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpml.classroom import checks
from dpml.classroom.checks import Mistake

__all__ = ["check_divisor", "check_mean_moves", "check_sound"]

_BATCH = 100


def _clipped_mean(gradients: Any) -> Any:
    """The mean over the expected batch of 100, clipped to norm 1."""
    mean = np.sum(gradients / _BATCH, axis=0)
    largest = max(1.0, float(np.abs(mean).max()))  # squares of 1e200 would overflow
    return mean / largest / max(1.0 / largest, float(np.linalg.norm(mean / largest)))


def _norm(gradients: Any) -> Any:
    with np.errstate(over="ignore"):  # infinite is long
        return np.linalg.norm(gradients, axis=-1)


def check_mean_moves(answer: Any) -> None:
    """100 gradients whose clipped mean moves by more than 2C/100 when the first of them is removed."""

    def read(value: Any) -> Any:
        try:
            raw = np.asarray(value)
            gradients = raw.astype(float) if raw.dtype.kind in "buifO" else None
        except (TypeError, ValueError):
            gradients = None
        if gradients is None:
            raise ValueError("give 100 gradients of 2 real numbers each, an array of shape (100, 2).")
        if gradients.shape != (_BATCH, 2):
            raise ValueError(
                f"give 100 gradients of 2 numbers each, an array of shape (100, 2), not {gradients.shape}."
            )
        if not np.isfinite(gradients).all():
            raise ValueError("every number must be finite.")
        return gradients

    def moved(value: Any) -> float:
        gradients = read(value)
        return float(np.linalg.norm(_clipped_mean(gradients) - _clipped_mean(gradients[1:])))

    def test(value: Any) -> str | None:
        distance = moved(value)
        if distance > 2 / _BATCH + 1e-9:
            return None
        return f"removing the first gradient moves the clipped mean by {distance:.3g}, which the claim allows."

    checks.counterexample(
        answer.detach() if hasattr(answer, "detach") else answer,
        test=test,
        name="mean_moves",
        mistakes=[
            Mistake(
                lambda value: float(_norm(read(value)).max()) <= 2 and moved(value) <= 2 / _BATCH + 1e-9,
                "has only short gradients: then no single one matters. Nothing in the claim keeps them short.",
            ),
            Mistake(
                lambda value: float(_norm(read(value)[0])) <= 2 < float(_norm(read(value)).max()),
                "has its long gradient in a place that stays. The first one is removed.",
            ),
            Mistake(
                lambda value: float(_norm(np.sum(read(value)[1:] / _BATCH, axis=0))) >= 1,
                "keeps a long mean after the removal: before and after, it is clipped to about the same vector.",
            ),
        ],
        shows=lambda value: (
            f"removing one of 100 moves the clipped mean by {moved(value):.3g}, and not by at most 0.02"
        ),
    )


def check_sound(answer: Any) -> None:
    """Which models can be trained by clipping each example, as they are."""
    checks.statements(
        answer,
        name="sound",
        expected={
            "a": (True, "GroupNorm uses the channels of one example only."),
            "b": (False, "in training, BatchNorm normalises each example by all others: there is no gradient of one."),
            "c": (True, "every example has its own mask, so that its loss depends on itself and on chance only."),
            "d": (False, "the mean has gradients 1/B as long: nothing is clipped, and the noise is set for C."),
            "e": (False, "a rule for each layer misses that both uses add up to one gradient, whose norm counts."),
            "f": (True, "what is not trained has no gradient, and does not count in the norm either."),
        },
    )


def check_divisor(text: Any) -> None:
    """Why the noisy sum is divided by the expected batch size, in two sentences."""
    checks.argument(
        text,
        name="divisor",
        minimum_words=25,
        must_mention={
            "the size of the batch": [
                *("size", "number", "count", "how many", "realised", "realized", "actual"),
                *("231", "230", "232", "divisor", "denominator"),
            ],
            "neighbouring datasets": [
                *(
                    "neighbour",
                    "neighbor",
                    "adjacent",
                    "add",
                    "remov",
                    "delet",
                    "join",
                    "leave",
                    "take part",
                    "takes part",
                ),
                *(
                    "one example",
                    "one record",
                    "one person",
                    "single",
                    "individual",
                    "participa",
                    "somebody",
                    "someone",
                ),
            ],
            "the sensitivity": [
                *("sensitiv", "moves", "move by", "changes by", "change by", "influence", "bounded", "leak", "reveal"),
                *("C/", "C /", "C divided", "rescale", "every other", "all other", "everybody else", "everyone else"),
                *("hides", "does not cover", "not cover", "post-processing", "postprocessing"),
            ],
        },
        rubric=[
            "The realised size depends on who is in the batch: adding or removing one example changes it, so dividing "
            "by it changes every other term of the mean too.",
            "The sensitivity of the quotient is then not C/B, and for a small batch much larger; the noise, set for C "
            "on the sum, no longer covers it.",
            "The expected size q n is a constant: dividing by it after the noise is post-processing.",
        ],
    )
