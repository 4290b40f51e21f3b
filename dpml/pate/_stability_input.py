"""What the functions on stability accept."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpml import arguments
from dpml.pate import _counts

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def vote_counts(counts: ArrayLike) -> NDArray[np.int64]:
    """Return `counts` as an integer array [classes] or [queries, classes]; without a vote there is no winner.

    Raises:
        ValueError: for anything else.
    """
    votes = _counts.histograms("counts", counts)
    if not votes.any(axis=-1).all():
        raise ValueError("counts must hold at least one vote for each query, got a row of zeros")
    return votes.astype(np.int64)


def function(name: str, value: Any) -> None:
    """Refuse what cannot be called.

    Raises:
        ValueError: if value is not callable.
    """
    if not callable(value):
        raise ValueError(f"{name} must be a function, got {value!r:.80}")


def budget(epsilon: float, delta: float) -> tuple[float, float]:
    """Return both as floats.

    Raises:
        ValueError: if epsilon is not in (0, inf) or delta not in (0, 1).
    """
    epsilon = arguments.real("epsilon", epsilon, 0.0, low_open=True)
    return epsilon, arguments.real("delta", delta, 0.0, 1.0, low_open=True, high_open=True)


def sizes(q: float, n_models: int, most: int = 2**53) -> tuple[float, int]:
    """Return both; a record must be in at least one part in the mean.

    Raises:
        ValueError: if q is not in (0, 1], or n_models not an integer in [1/q, most].
    """
    q = arguments.real("q", q, 0.0, 1.0, low_open=True)
    count = arguments.integer("n_models", n_models, 1, most)
    if q * count < 1.0:
        raise ValueError(f"n_models must be at least 1/q = {1 / q:.6g}, so that a part is used at all, got {count}")
    return q, count


def limit(q: float, n_models: int) -> int:
    """The largest number of parts in which a record may be: 2 q n_models, rounded down."""
    return math.floor(2.0 * q * n_models)
