r"""Check of item 6 of chapter 05: the noisy sum in micro-batches.

.. math::

    \sum_i g_i \min\bigl(1, \tfrac{C}{\|g_i\|}\bigr) + N(0, \sigma^2 C^2 I)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpml.classroom import checks
from dpml.exercises.dpsgd_clipping import WRONG, Array, clipped
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

__all__ = ["check_noisy_sum"]

_CLIP_NORM = 0.8
_SETTINGS = ((96, 8, 3.0, 1.5), (96, 96, 3.0, 1.5), (96, 1, 0.5, 4.0), (0, 8, 3.0, 1.5))  # examples, size, C, σ


def check_noisy_sum(answer: Any) -> None:
    """The sum of clipped gradients, `size` examples at a time, with the noise of one release."""
    name = "noisy_sum"
    require_call(answer, name=name, named={"clip_norm": 1.0, "sigma": 1.0, "size": 4, "rng": None})
    checks.properties(
        answer,
        name=name,
        cases=[
            ("without noise it is the sum of the clipped gradients, for every size", _exact),
            ("of an empty batch it is a vector, too", _empty),
            ("all its randomness comes from rng", _own),
            ("its noise has standard deviation σC, whatever the size", _noise),
            ("its noise is Gaussian", _gaussian),
        ],
    )


def _batch() -> Array:
    rows: Array = np.random.default_rng(SEED).normal(size=(10, 3)) * np.linspace(0.1, 3.0, 10)[:, None]
    return rows


def _exact(f: Any) -> bool | str:
    batch = _batch()
    right = clipped(batch, _CLIP_NORM).sum(axis=0)
    for size in (4, 10, 5, 3, 1, 64):
        given, came = batch.copy(), []
        for seed in (0, 1):
            value = f(given, clip_norm=_CLIP_NORM, sigma=TINY, size=size, rng=np.random.default_rng(seed))
            if value is Ellipsis:
                raise NotImplementedError
            values = vector(value, size=3)
            if isinstance(values, str):
                return values
            if not np.array_equal(given, batch):
                return "it changes the gradients that it is given: work on a copy."
            came.append(values)
        if float(np.abs(came[0] - came[1]).max()) > 1e-3:
            return STILL_NOISY
        if not np.allclose(came[0], right, rtol=1e-4, atol=1e-4):
            return f"at size {size} it is another vector: " + _why(came[0], right, batch, size)
    return True


def _why(came: Array, right: Array, batch: Array, size: int) -> str:
    pieces = [batch[s : s + size] for s in range(0, len(batch), size)]

    def total(rows: Any) -> Any:
        return clipped(np.array(rows), _CLIP_NORM).sum(axis=0)

    return look_up(
        came,
        [
            (right / len(batch), "it is the mean. Return the sum."),
            (np.sum([total(p) / len(p) for p in pieces], axis=0), "means of the pieces are added. Add sums."),
            (np.mean([total(p) / len(p) for p in pieces], axis=0), "it is a mean of means. Return the sum."),
            (right / size, "it is divided by size. Return the sum."),
            (right / len(pieces), "it is divided by the number of pieces. Return the sum."),
            (total(batch[: len(batch) // size * size]), "the last piece, which is not full, is dropped."),
            (total(pieces[0]), "only the first piece is in it: is the return inside the loop?"),
            (total(pieces[-1]), "only the last piece is left: add the pieces up."),
            (total([p.sum(axis=0) for p in pieces]), "the sum of each piece is clipped, and not each example."),
            (total([p.mean(axis=0) for p in pieces]), "the mean of each piece is clipped, and not each example."),
            (total([batch.sum(axis=0)]), "the sum of all is clipped, and not each example."),
            (total([right]), "the sum is clipped once more. Only each example is clipped."),
            (-right, "its sign is turned."),
            *((wrong(batch, _CLIP_NORM).sum(axis=0), text) for wrong, text in WRONG),
            *((np.sum([wrong(p, _CLIP_NORM).sum(axis=0) for p in pieces], axis=0), text) for wrong, text in WRONG),
        ],
    )


def _empty(f: Any) -> bool | str:
    came = f(np.zeros((0, 3)), clip_norm=_CLIP_NORM, sigma=TINY, size=8, rng=np.random.default_rng(1))
    values = vector(came, size=3)
    if isinstance(values, str):
        return values
    return True if np.allclose(values, 0.0, atol=1e-4) else "without noise it must be zeros."


def _noise(f: Any) -> bool | str:
    for examples, size, clip_norm, sigma in _SETTINGS:
        rows = noise(f, examples=examples, numbers=8000, clip_norm=clip_norm, sigma=sigma, size=size)
        if isinstance(rows, str):
            return rows
        if same_everywhere(rows):
            return "it is the same number at each coordinate. Draw one for each."
        ratio = float(rows.std()) / (sigma * clip_norm)
        if ratio < 1e-9:
            none = f"at size {size} there is none."
            return none if examples else "an empty batch gets none, which shows that nobody was drawn."
        if abs(ratio - 1) > 0.1:  # twelve standard deviations
            batch = "of an empty batch" if examples == 0 else f"at size {size}"
            return f"{batch} it has {ratio:.3g} times the standard deviation σC" + _noise_why(
                ratio, examples=examples, size=size, clip_norm=clip_norm, sigma=sigma
            )
    return True


def _noise_why(ratio: float, *, examples: int, size: int, clip_norm: float, sigma: float) -> str:
    """What makes noise that many times too wide: the explanation that comes closest, within 7 %."""
    pieces = max(1, -(-examples // size))
    drawn = max(1, examples)
    once = "One release gets noise once, on the whole sum."
    known = [
        (math.sqrt(pieces), f"each of the {pieces} pieces got noise. {once}"),
        (math.sqrt(drawn), f"each of the {drawn} examples got noise. {once}"),
        (float(pieces), f"it is multiplied by the number of pieces. {once}"),
        (float(size), f"it is multiplied by size. {once}"),
        (math.sqrt(size), f"it is multiplied by the root of size. {once}"),
        (1 / pieces, f"it is divided by the number of pieces. {once}"),
        (1 / math.sqrt(pieces), f"it is divided by the root of the number of pieces. {once}"),
        (1 / size, f"it is divided by size. {once}"),
        (1 / math.sqrt(size), f"it is divided by the root of size. {once}"),
        (1 / drawn, f"it is divided by the number of examples. {once}"),
        (2.0, "removing one example moves the sum by C, not by 2 C."),
        (1 / clip_norm, "it is not multiplied by the clip norm."),
        (1 / clip_norm**2, "it is divided by the clip norm."),
        (clip_norm, "it is multiplied by the clip norm twice."),
        (sigma * clip_norm, "σC is a standard deviation: it need not be squared."),
        (1 / math.sqrt(sigma * clip_norm), "σC is not its variance."),
    ]
    fitting = [(abs(math.log(ratio / r)), text) for r, text in known if abs(r - 1) > 0.1]
    distance, text = min(fitting)
    return f": {text}" if distance < 0.07 else ", and 1 is right."


def _gaussian(f: Any) -> bool | str:
    rows = noise(f, examples=2, numbers=20_000, clip_norm=0.5, sigma=4.0, size=1)
    if isinstance(rows, str):
        return rows
    return "its size is right, but its distribution is not." if not_gaussian(rows / 2.0) else True


def _own(f: Any) -> bool | str:
    came = [
        vector(f(_batch(), clip_norm=1.0, sigma=1.0, size=4, rng=np.random.default_rng(seed)), size=3)
        for seed in (1, 1, 2)
    ]
    if not np.array_equal(came[0], came[1]):
        return "two calls with the same rng differ: draw from the rng that it is given."
    return (
        True
        if not np.array_equal(came[0], came[2])
        else "two calls with different rngs agree: there is none, or always the same."
    )
