"""Vote histograms: the one argument that all of PATE shares, checked before anything is drawn or computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpml import arguments

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_MOST = 2.0**53  # beyond, a float no longer tells a count from the next


def histograms(name: str, counts: ArrayLike) -> NDArray[np.float64]:
    """Return the votes as floats, [classes] or [queries, classes], each a whole number >= 0.

    The result may share memory with `counts`: never write into it.

    Raises:
        ValueError: for another shape, fewer than two classes, a negative or broken count, or anything not numeric.
    """
    votes = arguments.array(name, counts, low=0.0, high=_MOST)
    if votes.ndim not in {1, 2}:
        raise ValueError(
            f"{name} must be an array [classes] or [queries, classes], got an array of shape {votes.shape}"
        )
    if votes.shape[-1] < 2:
        raise ValueError(f"{name} must have at least two classes, got an array of shape {votes.shape}")
    if not (votes == np.floor(votes)).all():
        broken = votes[votes != np.floor(votes)].flat[0]
        raise ValueError(f"{name} must be an array of whole numbers of votes, got an element {broken.item()!r}")
    return votes


def gaps(votes: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many votes each class is behind the first: >= 0, and 0 for every class that ties with it."""
    behind: NDArray[np.float64] = votes.max(axis=-1, keepdims=True) - votes
    return behind
