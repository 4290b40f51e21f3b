r"""Checks of items 1 and 2 of chapter 05: functions of per-example gradients.

.. math::

    g_i \min(1, C/\|g_i\|), \qquad \|\nabla_{W, b}\,\text{loss}_i\|^2 = \|g_i\|^2 (\|a_i\|^2 + 1)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml.classroom import checks
from dpml.classroom.checks import Mistake

__all__ = ["check_clip_rows", "check_gradient_norms"]

Array = NDArray[np.float64]


def _clipped(gradients: Array, *, clip_norm: float) -> Array:
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    clipped: Array = gradients * (clip_norm / np.maximum(norms, clip_norm))
    return clipped


def check_clip_rows(answer: Any) -> None:
    """Each row is shortened to the clip norm if it is longer, and kept otherwise."""

    def inputs(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        yield {"gradients": np.array([[-5.0, 0.0]]), "clip_norm": 0.1}
        yield {"gradients": np.array([[3.0, 4.0], [0.3, 0.4]]), "clip_norm": 1.0}
        for m, p, clip_norm in ((1, 3, 1.0), (4, 2, 0.5), (6, 5, 2.0)):
            yield {"gradients": rng.normal(size=(m, p)) * rng.uniform(0.1, 4.0, size=(m, 1)), "clip_norm": clip_norm}
        yield {"gradients": np.zeros((2, 3)), "clip_norm": 1.0}
        yield {"gradients": np.zeros((0, 3)), "clip_norm": 1.0}

    def norms(gradients: Array) -> Array:
        found: Array = np.maximum(np.linalg.norm(gradients, axis=1, keepdims=True), 1e-300)
        return found

    checks.function(
        answer,
        reference=_clipped,
        inputs=inputs,
        name="clip_rows",
        mistakes=[
            Mistake(
                lambda gradients, *, clip_norm: np.minimum(clip_norm, gradients / norms(gradients)),
                "this is the printed rule: the minimum acts on coordinates, and not at all on negative ones.",
            ),
            Mistake(
                lambda gradients, *, clip_norm: gradients * clip_norm / norms(gradients),
                "every gradient is brought to norm C, short ones too. Clipping only shortens.",
            ),
            Mistake(
                lambda gradients, *, clip_norm: np.clip(gradients, -clip_norm, clip_norm),
                "each coordinate is clipped. The norm may then still be up to the square root of p times C.",
            ),
            Mistake(
                lambda gradients, *, clip_norm: (
                    gradients * min(1.0, clip_norm / max(float(np.linalg.norm(gradients)), 1e-300))
                ),
                "one factor for the whole batch, from the norm of the whole array. Each row has a norm of its own.",
            ),
            Mistake(
                lambda gradients, *, clip_norm: gradients * np.minimum(1.0, norms(gradients) / clip_norm),
                "the ratio is upside down: short gradients shrink and long ones stay.",
            ),
        ],
        hint="Every row keeps its direction, has norm at most C, and stays as it is if it was within C.",
    )


def check_gradient_norms(answer: Any) -> None:
    """Norms of the per-example gradients of a linear layer with bias, without forming them."""

    def reference(inputs: Array, output_gradients: Array) -> Array:
        squares = np.sum(output_gradients**2, axis=1) * (np.sum(inputs**2, axis=1) + 1)
        found: Array = np.sqrt(squares)
        return found

    def cases(rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
        yield np.array([[3.0, 4.0]]), np.array([[1.0]])
        for m, i, o in ((1, 2, 2), (3, 4, 2), (5, 3, 6)):
            yield rng.normal(size=(m, i)), rng.normal(size=(m, o))

    def bare(a: Array) -> Array:
        found: Array = np.linalg.norm(a, axis=1)
        return found

    checks.function(
        answer,
        reference=reference,
        inputs=cases,
        name="gradient_norms",
        mistakes=[
            Mistake(
                lambda a, g: bare(a) * bare(g),
                "the bias is forgotten: its gradient is g itself.",
            ),
            Mistake(
                lambda a, g: bare(a) * bare(g) + bare(g),
                "the norms of the two parts are added. Add their squares: weight and bias together are one vector.",
            ),
            Mistake(
                lambda a, g: reference(a, g) ** 2,
                "these are the squares of the norms.",
            ),
            Mistake(
                lambda a, g: np.sqrt(np.sum(g**2, axis=1) + np.sum(a**2, axis=1) + 1),
                "the squared norms are added. An outer product multiplies them.",
            ),
            Mistake(
                lambda a, g: float(np.sqrt(np.sum((g.T @ a) ** 2) + np.sum(np.sum(g, axis=0) ** 2))),
                "this is the norm of the summed gradient, one number for the batch. Each example has its own.",
            ),
        ],
        hint="It must equal the norm of outer(g_i, a_i) and g_i taken together.",
    )
