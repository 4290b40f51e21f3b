r"""Checks of items 1 and 2 of chapter 05: functions of per-example gradients.

.. math::

    g_i \min(1, C/\|g_i\|), \qquad \|\nabla_{W, b}\,\text{loss}_i\|^2 = \|g_i\|^2 (\|a_i\|^2 + 1)
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Any

import numpy as np

from dpml.classroom import checks
from dpml.classroom.checks import Mistake
from dpml.exercises.dpsgd_clipping import WRONG, Array, clipped

__all__ = ["check_clip_rows", "check_gradient_norms"]


def check_clip_rows(answer: Any) -> None:
    """Each row is shortened to the clip norm if it is longer, and kept otherwise."""

    def rows(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        yield {"gradients": np.array([[-5.0, 0.0]]), "clip_norm": 0.1}
        yield {"gradients": np.array([[3.0, 4.0], [0.3, 0.4]]), "clip_norm": 1.0}
        for m, p, clip_norm in ((1, 3, 1.0), (4, 2, 0.5), (6, 5, 2.0)):
            yield {"gradients": rng.normal(size=(m, p)) * rng.uniform(0.1, 4.0, size=(m, 1)), "clip_norm": clip_norm}
        yield {"gradients": np.zeros((2, 3)), "clip_norm": 1.0}

    def with_none(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        yield from rows(rng)
        yield {"gradients": np.zeros((0, 3)), "clip_norm": 1.0}

    def reference(gradients: Array, *, clip_norm: float) -> Array:
        return clipped(gradients, clip_norm)

    def norms(gradients: Array) -> Array:
        found: Array = np.linalg.norm(gradients, axis=1)
        return found

    def known(wrong: Any) -> Any:
        return lambda gradients, *, clip_norm: wrong(gradients, clip_norm)

    def factors(gradients: Array, clip_norm: float) -> Array:
        found: Array = clip_norm / np.maximum(norms(gradients), clip_norm)
        return found

    # The input without rows comes last: what fails everywhere is shown on an input that has some.
    with redirect_stdout(io.StringIO()):
        checks.function(
            answer,
            reference=reference,
            inputs=rows,
            name="clip_rows",
            mistakes=[
                *(Mistake(known(wrong), text) for wrong, text in WRONG),
                Mistake(known(lambda g, c: np.minimum(norms(g), c)), "these are the norms. Return the rows."),
                Mistake(known(lambda g, c: norms(g)), "these are the norms. Return the rows."),
                Mistake(known(factors), "these are the factors. Return the rows times them."),
                Mistake(
                    known(lambda g, c: factors(g, c)[:, None]), "these are the factors. Return the rows times them."
                ),
                Mistake(known(lambda g, c: clipped(g, c).sum(axis=0)), "the rows are added up. Return all of them."),
                Mistake(known(lambda g, c: clipped(g, c).mean(axis=0)), "this is the mean. Return all rows."),
                Mistake(
                    known(lambda g, c: g * factors(g, c)),
                    "the norms, of shape (m,), meet the coordinates of a row. Give each row a factor of its own.",
                ),
                Mistake(
                    known(lambda g, c: g * c / norms(g)[:, None] * np.minimum(1.0, norms(g) / c)[:, None]),
                    "a row of zeros is divided by its norm, which is 0.",
                ),
            ],
            hint="Every row keeps its direction, has norm at most C, and stays as it is if it was within C.",
        )
    checks.function(
        answer,
        reference=reference,
        inputs=with_none,
        name="clip_rows",
        mistakes=[
            Mistake(
                lambda gradients, *, clip_norm: np.array([]) if len(gradients) == 0 else clipped(gradients, clip_norm),
                "an array without rows still has its columns, which a list of no rows forgets. Keep its shape.",
            ),
        ],
        hint="An array without rows has columns all the same, here 3.",
    )


def check_gradient_norms(answer: Any) -> None:
    """Norms of the per-example gradients of a linear layer with bias, without forming them."""

    def reference(inputs: Array, output_gradients: Array) -> Array:
        squares = np.sum(output_gradients**2, axis=1) * (np.sum(inputs**2, axis=1) + 1)
        found: Array = np.sqrt(squares)
        return found

    def cases(rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
        yield np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([[1.0], [2.0]])
        for m, i, o in ((2, 2, 2), (3, 4, 2), (5, 3, 6)):
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
                lambda a, g: (bare(a) * bare(g)) ** 2,
                "these are squares, and the bias is forgotten.",
            ),
            Mistake(
                lambda a, g: bare(g),
                "this is the gradient of the bias alone.",
            ),
            Mistake(
                lambda a, g: bare(a) * bare(g) + bare(g),
                "the norms of the two parts are added. Add their squares: weight and bias together are one vector.",
            ),
            Mistake(
                lambda a, g: bare(a) * bare(g) + 1,
                "the bias counts as 1. Its gradient is g itself, and squares are added.",
            ),
            Mistake(
                lambda a, g: np.sqrt((bare(a) * bare(g)) ** 2 + 1),
                "the bias counts as 1. Its gradient is g itself.",
            ),
            Mistake(
                lambda a, g: reference(g, a),
                "inputs and output gradients have changed places.",
            ),
            Mistake(
                lambda a, g: reference(a, g) ** 2,
                "these are the squares of the norms.",
            ),
            Mistake(
                lambda a, g: reference(a, g) * bare(g),
                "one of the two factors is still squared.",
            ),
            Mistake(
                lambda a, g: reference(a, g) * np.sqrt(bare(a) ** 2 + 1),
                "one of the two factors is still squared.",
            ),
            Mistake(
                lambda a, g: np.sqrt(np.sum(g**2, axis=1) + np.sum(a**2, axis=1) + 1),
                "the squared norms are added. An outer product multiplies them.",
            ),
            Mistake(
                lambda a, g: np.hypot(bare(g), bare(a)),
                "the squared norms are added. An outer product multiplies them.",
            ),
            Mistake(
                lambda a, g: bare(g) + bare(a),
                "the norms are added. An outer product multiplies them.",
            ),
            Mistake(
                lambda a, g: reference(a.T, g.T),
                "the sums run down the columns, over the examples. Each example has a norm of its own.",
            ),
            Mistake(
                lambda a, g: reference(a, g) / len(a),
                "it is divided by the number of examples.",
            ),
            Mistake(
                lambda a, g: float(np.linalg.norm(g) * np.sqrt(np.sum(a**2) + 1)),
                "the sums run over the whole batch. Each example has a norm of its own.",
            ),
            Mistake(
                lambda a, g: float(np.linalg.norm(reference(a, g))),
                "this is one number for the batch. Each example has its own.",
            ),
            Mistake(
                lambda a, g: float(np.sqrt(np.sum((g.T @ a) ** 2) + np.sum(np.sum(g, axis=0) ** 2))),
                "this is the norm of the summed gradient, one number for the batch. Each example has its own.",
            ),
        ],
        hint="It must equal the norm of outer(g_i, a_i) and g_i taken together.",
    )
