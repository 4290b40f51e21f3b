"""Vote histograms: the one argument that all of PATE shares, checked before anything is drawn or computed."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments


def histograms(name: str, counts: ArrayLike) -> NDArray[np.float64]:
    """Return the votes as floats, [classes] or [queries, classes], each a whole number >= 0.

    The result may share memory with `counts`: never write into it.

    Raises:
        ValueError: for another shape, fewer than two classes, a negative or broken count, or anything not numeric.
    """
    votes = arguments.whole_numbers(name, counts)
    if votes.ndim not in {1, 2} or votes.shape[-1] < 2:
        allowed = "an array [classes] or [queries, classes], at least two classes"
        raise ValueError(f"{name} must be {allowed}, got an array of shape {votes.shape}")
    return votes


def cast_votes(counts: ArrayLike) -> NDArray[np.int64]:
    """Return `counts` as an integer array [classes] or [queries, classes]; without a vote there is no winner.

    Raises:
        ValueError: for anything else.
    """
    votes = histograms("counts", counts)
    if not votes.any(axis=-1).all():
        raise ValueError("counts must hold at least one vote for each query, got a row of zeros")
    return votes.astype(np.int64)


def gaps(votes: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many votes each class is behind the first: >= 0, and 0 for every class that ties with it."""
    behind: NDArray[np.float64] = votes.max(axis=-1, keepdims=True) - votes
    return behind
