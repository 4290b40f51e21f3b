r"""Checks of items 5 and 6 of chapter 05: the noisy mean gradient, and the noisy sum in micro-batches.

.. math::

    \frac{1}{B}\Bigl(\sum_i g_i \min\bigl(1, \tfrac{C}{\|g_i\|}\bigr) + N(0, \sigma^2 C^2 I)\Bigr)
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml import mechanisms
from dpml.classroom import checks, verdict
from dpml.classroom.checks import Mistake
from dpml.exercises._mechanisms import both

__all__ = ["check_noisy_mean", "check_noisy_sum"]

Array = NDArray[np.float64]
_SEED = 20_250_117


def _clipped(gradients: Array, clip_norm: float) -> Array:
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    clipped: Array = gradients * (clip_norm / np.maximum(norms, clip_norm))
    return clipped


def check_noisy_mean(answer: Any) -> None:
    """The mean gradient of a batch, with the noise of DP-SGD.

    C = 2, so that noise without it is half of what is needed; B = 256. The privacy test looks at one coordinate: at
    sigma = 1.5 and epsilon = 1 the delta that is allowed is the exact one, and half the noise needs several times it.
    """
    name, clip_norm, sigma, batch, epsilon = "noisy_mean", 2.0, 1.5, 256, 1.0
    named = {"clip_norm": clip_norm, "sigma": sigma, "expected_batch": batch}
    _require_call(answer, name=name, named={**named, "rng": None})
    _require_vector(answer, name=name, named=named, size=3)

    @functools.wraps(answer)
    def first(gradients: Any, rng: np.random.Generator) -> float:
        return float(np.asarray(answer(gradients, **named, rng=rng), dtype=float).reshape(-1)[0])

    def mean(
        gradients: Any,
        rng: np.random.Generator,
        *,
        noise: float = sigma * clip_norm,
        over: float = batch,
        clip: bool = True,
    ) -> float:
        rows = _clipped(gradients, clip_norm) if clip else gradients
        return float((rows.sum(axis=0)[0] + noise * rng.normal()) / over)

    def mean_clipped_once(gradients: Any, rng: np.random.Generator) -> float:
        total = gradients.sum(axis=0) / batch
        total = total * min(1.0, clip_norm / max(1e-300, float(np.linalg.norm(total))))
        return float(total[0] + sigma * clip_norm / batch * rng.normal())

    def realised(gradients: Any, rng: np.random.Generator) -> float:
        return mean(gradients, rng, over=max(1, len(gradients)))

    right = sigma * clip_norm
    privacy = functools.partial(
        checks.mechanism,
        first,
        name=name,
        reference=mean,
        neighbours=[
            (np.array([[0.5], [-1.0], [4000.0]]), np.array([[0.5], [-1.0]])),
            (np.array([[-7.0]]), np.zeros((0, 1))),
        ],
        epsilon=epsilon,
        delta=mechanisms.gaussian_delta(sigma=sigma, epsilon=epsilon),
        trials=4000,
        slack=1.5,
        mistakes=[
            Mistake(
                functools.partial(mean, noise=right / batch),
                "noise for the mean is added to the sum: it is 256 times too small.",
            ),
            Mistake(
                functools.partial(mean, noise=right * batch),
                "the noise is scaled to the sum, and added to the mean: it is 256 times too large. Add it before you "
                "divide.",
            ),
            Mistake(
                functools.partial(mean, noise=sigma),
                "the noise is σ and not σ times the clip norm, here half of what is needed.",
            ),
            Mistake(
                functools.partial(mean, noise=2 * right),
                "the noise is twice what is needed: removing one example moves the sum by C, not by 2 C.",
            ),
            Mistake(
                functools.partial(mean, noise=0.0),
                "there is no noise.",
            ),
            Mistake(
                functools.partial(mean, clip=False),
                "nothing is clipped, so one example moves the sum as far as it likes.",
            ),
            Mistake(
                mean_clipped_once,
                "the mean is clipped and not each example: one example alone decides it.",
            ),
            Mistake(
                realised,
                "it divides by the number of examples that are there. Divide by expected_batch: it is the same for "
                "neighbours.",
            ),
            Mistake(
                functools.partial(mean, over=1.0),
                "this is the noisy sum. Divide it by expected_batch.",
            ),
        ],
    )

    def noises(f: Any) -> bool | str:
        rng = np.random.default_rng(_SEED)
        values = np.asarray(f(np.zeros((2, 4000)), **named, rng=rng), dtype=float) * batch / right
        if float(values.std()) < 1e-9:
            return "every coordinate gets the same noise. Draw one number for each of them."
        if abs(float(values.std()) * batch - 1) < 0.1:
            return "it is divided by the batch size twice, noise and gradients alike."
        if abs(float(values.std()) - 1) > 0.1:
            return f"over 4,000 coordinates the noise has {values.std():.3g} times the standard deviation it needs."
        return True

    both(
        privacy,
        functools.partial(
            checks.properties, answer, name=name, cases=[("each coordinate gets a noise of its own, σC/B wide", noises)]
        ),
    )


def check_noisy_sum(answer: Any) -> None:
    """The sum of clipped gradients, `size` examples at a time, with the noise of one release."""
    name = "noisy_sum"
    _require_call(answer, name=name, named={"clip_norm": 1.0, "sigma": 1.0, "size": 4, "rng": None})
    rng = np.random.default_rng(_SEED)
    batch = rng.normal(size=(10, 3)) * np.linspace(0.1, 3.0, 10)[:, None]

    def exact(f: Any) -> bool | str:
        right = _clipped(batch, 1.0).sum(axis=0)
        for size in (10, 5, 4, 3, 1, 64):
            came = f(batch.copy(), clip_norm=1.0, sigma=0.0, size=size, rng=np.random.default_rng(0))
            if came is None:
                return "it returned None: is a return missing?"
            values = np.asarray(came, dtype=float)
            if values.shape != (3,):
                return f"it returned shape {values.shape} for gradients of 3 numbers."
            if not np.allclose(values, right):
                return _why(values, right, batch, size)
        empty = np.asarray(
            f(np.zeros((0, 3)), clip_norm=1.0, sigma=0.0, size=4, rng=np.random.default_rng(0)), dtype=float
        )
        return True if empty.shape == (3,) and not empty.any() else "of an empty batch it must be three zeros."

    def noise(f: Any) -> bool | str:
        gradients = np.zeros((64, 2000))
        for size in (64, 8, 1):
            came = f(gradients, clip_norm=2.0, sigma=1.5, size=size, rng=np.random.default_rng(_SEED + size))
            ratio = float(np.std(np.asarray(came, dtype=float))) / 3.0
            if abs(ratio - 1) > 0.12:  # seven standard deviations
                return (
                    f"at size {size} it has {ratio:.3g} times the standard deviation σC{_noise_why(ratio, 64 // size)}"
                )
        empty = np.asarray(
            f(np.zeros((0, 2000)), clip_norm=2.0, sigma=1.5, size=8, rng=np.random.default_rng(1)), dtype=float
        )
        if empty.shape != (2000,) or abs(float(empty.std()) / 3.0 - 1) > 0.12:
            return "an empty batch gets the same noise; else it would show that nobody was drawn."
        return True

    def own(f: Any) -> bool | str:
        came = [
            np.asarray(f(batch.copy(), clip_norm=1.0, sigma=1.0, size=4, rng=np.random.default_rng(seed)), dtype=float)
            for seed in (1, 1, 2)
        ]
        if not np.array_equal(came[0], came[1]):
            return "two calls with the same rng differ: draw from the rng that it is given."
        return True if not np.array_equal(came[0], came[2]) else "two calls with different rngs agree."

    checks.properties(
        answer,
        name=name,
        cases=[
            ("without noise it is the sum of the clipped gradients, for every size", exact),
            ("its noise has standard deviation σC, whatever the size", noise),
            ("all its randomness comes from rng", own),
        ],
    )


def _why(came: Array, right: Array, batch: Array, size: int) -> str:
    whole = batch[: len(batch) // size * size]
    pieces = [batch[s : s + size] for s in range(0, len(batch), size)]
    summed = np.array([piece.sum(axis=0) for piece in pieces])
    known = [
        (right / len(batch), "it is the mean. Return the sum."),
        (_clipped(whole, 1.0).sum(axis=0), "the last piece, which is not full, is dropped."),
        (_clipped(summed, 1.0).sum(axis=0), "the sum of each piece is clipped, and not each example."),
        (np.sum([_clipped(p, 1.0).mean(axis=0) for p in pieces], axis=0), "means of the pieces are added. Add sums."),
        (batch.sum(axis=0), "nothing is clipped."),
        (_clipped(pieces[-1], 1.0).sum(axis=0), "only the last piece is left: add the pieces up."),
    ]
    return f"at size {size} it is another vector: " + next(
        (text for wrong, text in known if wrong.shape == came.shape and np.allclose(came, wrong)),
        "compare it on paper.",
    )


def _noise_why(ratio: float, pieces: int) -> str:
    if ratio < 1e-9:
        return ": there is none."
    if pieces > 1 and math.isclose(ratio, math.sqrt(pieces), rel_tol=0.12):
        return f": each of the {pieces} pieces got noise. One release gets it once, on the whole sum."
    if math.isclose(ratio, 0.5, rel_tol=0.12):
        return ": it is not multiplied by the clip norm."
    return ", and 1 is right."


def _require_call(answer: Any, *, name: str, named: dict[str, Any]) -> None:
    verdict.require_function(answer, name=name)
    if verdict.unfit(answer, (None,), named):
        given = ", ".join(list(named)[:-1]) + f" and {list(named)[-1]}"
        raise verdict.NotYet(
            f"Your {name} is called with gradients, and with {given} by name: keep the parameter names."
        )


def _require_vector(answer: Any, *, name: str, named: dict[str, Any], size: int) -> None:
    """One call must give an array of `size` finite numbers."""
    gradients = np.array([[0.5] * size, [2.0] * size])
    try:
        came = answer(gradients.copy(), **named, rng=np.random.default_rng(_SEED))
    except Exception as error:  # whatever student code raises becomes one sentence
        verdict.refuse_unwritten(error, answer, name=name)
        raise verdict.NotYet(f"{name} raised {verdict.explained(error)} for 2 gradients.") from None
    if came is Ellipsis:
        verdict.not_written(name)
    if came is None:
        raise verdict.NotYet(f"{name} returned None: is a return missing?")
    try:
        values = np.asarray(came, dtype=float)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != (size,) or not np.isfinite(values).all():
        raise verdict.NotYet(
            f"{name} must return as many numbers as a gradient has, here {size}; it returned {verdict.shown(came)}."
        )
