r"""Check of item 5 of chapter 05: the noisy mean gradient.

.. math::

    \frac{1}{B}\Bigl(\sum_i g_i \min\bigl(1, \tfrac{C}{\|g_i\|}\bigr) + N(0, \sigma^2 C^2 I)\Bigr)
"""

from __future__ import annotations

import functools
import io
import math
from contextlib import redirect_stdout
from typing import Any

import numpy as np

from dpml import mechanisms
from dpml.classroom import checks, verdict
from dpml.classroom.checks import Mistake
from dpml.classroom.runs import quiet
from dpml.exercises._mechanisms import both
from dpml.exercises.dpsgd_clipping import WRONG, clipped
from dpml.exercises.dpsgd_vectors import (
    SEED,
    STILL_NOISY,
    TINY,
    look_up,
    noise,
    not_gaussian,
    require_call,
    same_everywhere,
    vector,
)

__all__ = ["check_noisy_mean"]


def check_noisy_mean(answer: Any) -> None:
    """The mean gradient of a batch, with the noise of DP-SGD.

    Clipping, sum and division are checked with hardly any noise, in several dimensions; then the noise. In the privacy
    test C = 2, so that noise without it is half of what is needed, and B = 256. It looks at one coordinate: at
    sigma = 1.5 and epsilon = 1 the delta that is allowed is the exact one, and half the noise needs several times it.
    """
    name, clip_norm, sigma, batch, epsilon = "noisy_mean", 2.0, 1.5, 256, 1.0
    named = {"clip_norm": clip_norm, "sigma": sigma, "expected_batch": batch}
    require_call(answer, name=name, named={**named, "rng": None})
    _require_vector(answer, name=name, named=named, size=3)
    with redirect_stdout(io.StringIO()):
        checks.properties(
            answer,
            name=name,
            cases=[
                ("with hardly any noise it is the sum of the clipped gradients over expected_batch", _exact),
                ("an empty batch gets the same noise as any other", _once),
            ],
        )

    @functools.wraps(answer)
    def first(gradients: Any, rng: np.random.Generator) -> Any:
        came = answer(gradients, **named, rng=rng)
        values = vector(came, size=np.shape(gradients)[1])
        return came if isinstance(values, str) else float(values[0])

    def mean(gradients: Any, rng: np.random.Generator, *, noise: float = sigma * clip_norm) -> float:
        return float((clipped(gradients, clip_norm).sum(axis=0)[0] + noise * rng.normal()) / batch)

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
                functools.partial(mean, noise=right**2),
                "σC is a standard deviation: it need not be squared.",
            ),
            Mistake(
                functools.partial(mean, noise=right * math.sqrt(batch)),
                "the noise is divided by the root of the batch size: it is 16 times too large.",
            ),
            Mistake(
                functools.partial(mean, noise=2 * right),
                "the noise is twice what is needed: removing one example moves the sum by C, not by 2 C.",
            ),
            Mistake(
                functools.partial(mean, noise=0.0),
                "there is no noise.",
            ),
        ],
    )

    both(
        privacy,
        functools.partial(
            checks.properties,
            answer,
            name=name,
            cases=[("each coordinate gets a noise of its own, σC/B wide", _noises)],
        ),
    )


def _exact(f: Any) -> bool | str:
    """In several dimensions, at a clip norm and a batch size of its own."""
    clip_norm, expected = 0.5, 40
    batch = np.random.default_rng(SEED).normal(size=(30, 3)) * np.geomspace(0.1, 30.0, 30)[:, None]
    came = []
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        value = vector(f(batch.copy(), clip_norm=clip_norm, sigma=TINY, expected_batch=expected, rng=rng), size=3)
        if isinstance(value, str):
            return value
        came.append(value)
    if float(np.abs(came[0] - came[1]).max()) > 1e-5:
        return STILL_NOISY
    total = clipped(batch, clip_norm).sum(axis=0)
    if np.allclose(came[0], total / expected, rtol=1e-4, atol=5e-6):
        return True
    text = look_up(
        came[0],
        [
            (
                total / len(batch),
                "it divides by the number of examples that are there. Divide by expected_batch: it is the same for "
                "neighbours.",
            ),
            (total, "this is the noisy sum. Divide it by expected_batch."),
            (total / expected**2, "it is divided by the batch size twice."),
            (total / 256, "it is divided by 256, whatever expected_batch is."),
            (clipped(total[None], clip_norm)[0] / expected, "the sum is clipped once more. Clip each example only."),
            (0 * total, "every number is 0."),
            (-total / expected, "its sign is turned. The optimizer subtracts it."),
            (clipped(batch[:1], clip_norm)[0] / expected, "only the first example is in it."),
            (clipped(batch[-1:], clip_norm)[0] / expected, "only the last example is in it."),
            *(
                (
                    clipped(mean[None], clip_norm)[0],
                    "the mean is clipped and not each example: one example alone decides it.",
                )
                for mean in (batch.sum(axis=0) / expected, batch.mean(axis=0))
            ),
            (clipped(batch.sum(axis=0)[None], clip_norm)[0] / expected, "the sum is clipped and not each example."),
            *((wrong(batch, clip_norm).sum(axis=0) / expected, text) for wrong, text in WRONG),
            (clipped(batch, 2.0).sum(axis=0) / expected, "the clip norm is 2 in it, whatever clip_norm is."),
        ],
    )
    return f"for {len(batch)} gradients and an expected batch of {expected} it is another vector: {text}"


def _once(f: Any) -> bool | str:
    """Noise comes once, on the sum, however many examples were drawn."""

    def spread(examples: int) -> float | str:
        rows = noise(f, examples=examples, numbers=8000, clip_norm=2.0, sigma=1.5, expected_batch=256)
        return rows if isinstance(rows, str) else float(rows.std()) * 256 / 3.0

    some = spread(64)
    if isinstance(some, str):
        return some
    if math.isclose(some, 8.0, rel_tol=0.1):
        return "each of 64 examples got noise. It is added once, to the sum."
    few = vector(
        f(np.zeros((0, 3)), clip_norm=2.0, sigma=1.5, expected_batch=256, rng=np.random.default_rng(SEED)), size=3
    )
    none = few if isinstance(few, str) else spread(0)
    if isinstance(none, str):
        return f"for an empty batch, {none}"
    if none < 1e-9 < some:
        return (
            "it gets none, which shows that nobody was drawn. Add noise once, to the sum of what is clipped, even if "
            "nothing is in it."
        )
    if some > 1e-9 and not math.isclose(none, some, rel_tol=0.2):
        return f"it gets {none / some:.3g} times the noise of a batch of 64."
    return True


def _noises(f: Any) -> bool | str:
    for clip_norm, sigma, expected in ((2.0, 1.5, 256), (0.5, 3.0, 40)):
        rows = noise(f, examples=2, numbers=20_000, clip_norm=clip_norm, sigma=sigma, expected_batch=expected)
        if isinstance(rows, str):
            return rows
        if same_everywhere(rows):
            return "every coordinate gets the same noise. Draw one number for each of them."
        if np.count_nonzero(rows) < rows.size / 2:
            return "most coordinates get none."
        ratios = rows * expected / (sigma * clip_norm)
        spread = float(ratios.std())
        if not math.isclose(spread, 1.0, rel_tol=0.05):
            return f"over 20,000 numbers the noise has {spread:.3g} times the standard deviation it needs" + (
                ": σC is not its variance."
                if math.isclose(spread * math.sqrt(sigma * clip_norm), 1.0, rel_tol=0.03)
                else "."
            )
        if not_gaussian(ratios):
            return "its size is right, but its distribution is not: it must be Gaussian."
    return True


def _require_vector(answer: Any, *, name: str, named: dict[str, Any], size: int) -> None:
    """One call must give an array of `size` finite numbers."""
    gradients = np.array([[0.5] * size, [2.0] * size])
    with quiet() as printed:
        try:
            came = answer(gradients.copy(), **named, rng=np.random.default_rng(SEED))
        except Exception as error:  # whatever student code raises becomes one sentence
            verdict.refuse_unwritten(error, answer, name=name)
            raise verdict.NotYet(f"{name} raised {verdict.explained(error)} for 2 gradients.") from None
    if came is Ellipsis:
        verdict.not_written(name)
    if came is None and printed.getvalue().strip():
        raise verdict.NotYet(f"{name} printed its result but returned None: use return.")
    if came is None:
        raise verdict.NotYet(f"{name} returned None: is a return missing?")
    if isinstance(vector(came, size=size), str):
        raise verdict.NotYet(
            f"{name} must return as many numbers as a gradient has, here {size}; it returned {verdict.shown(came)}."
        )
