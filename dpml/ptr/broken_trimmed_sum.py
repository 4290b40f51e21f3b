r"""Trimmed sums that look right and are not: one record moves them by more than R. For lessons and tests only.

The trimmed sum of vectors clipped to length R has global sensitivity R if one fixed order of all records decides which
F are left out. Each function here lets something else decide:

.. math::

    \lVert \mathrm{TSUM}_F(S) - \mathrm{TSUM}_F(S \cup \{x\}) \rVert \le R
    \quad\text{fails, by up to}\quad 2 \min(F, m - F)\, R + R .

| function | what decides among clipped vectors |
|---|---|
| `by_clipped_norms` | the sorting algorithm: all their norms are exactly R |
| `by_recomputed_norms` | the rounding of their norms, which is R give or take the last digit |
| `by_position` | the place in the batch, which a loader shuffles |
| `by_share_of_batch` | nothing wrong with the order, but F follows the size of the batch |

`dpml.ptr.trimmed_sum.clipped_trimmed_sum` is the sound one. Neighbours: one record added or removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpml import arguments
from dpml.ptr.trimmed_sum import clipped_trimmed_sum

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["by_clipped_norms", "by_position", "by_recomputed_norms", "by_share_of_batch"]


def by_clipped_norms(vectors: ArrayLike, *, trim: int, bound: float) -> NDArray[np.float64]:
    """Broken: keep the smallest of min(norm, bound) by a sort that is not stable. Returns a sum of shape [d].

    Raises:
        ValueError: if vectors is not a finite array of shape [m, d], trim not an integer >= 0, or bound not in (0,
            inf).

    Source: a reading of the PTR paper (Wang et al., NeurIPS 2022), Algorithm 2, in which clipping comes before sorting.
    """
    rows, lengths, trim, bound = _checked(vectors, trim, bound)
    return _first(_clip(rows, lengths, bound), np.argsort(np.minimum(lengths, bound)), trim)


def by_recomputed_norms(vectors: ArrayLike, *, trim: int, bound: float) -> NDArray[np.float64]:
    """Broken: clip, then sort by the norms of the clipped vectors. Returns a sum of shape [d].

    Those norms differ in the last digit only, by rounding, and the order that they give has nothing to do with the
    records' lengths; where they are equal, the sorting algorithm decides.

    Raises:
        ValueError: if vectors is not a finite array of shape [m, d], trim not an integer >= 0, or bound not in (0,
            inf).

    Source: a reading of the PTR paper (Wang et al., NeurIPS 2022), Algorithm 2, in which clipping comes before sorting.
    """
    rows, lengths, trim, bound = _checked(vectors, trim, bound)
    clipped = _clip(rows, lengths, bound)
    return _first(clipped, np.argsort(np.linalg.norm(clipped, axis=1)), trim)


def by_position(vectors: ArrayLike, *, trim: int, bound: float) -> NDArray[np.float64]:
    """Broken in a shuffled batch: a stable sort of min(norm, bound), so that ties go by position. Shape [d].

    Raises:
        ValueError: if vectors is not a finite array of shape [m, d], trim not an integer >= 0, or bound not in (0,
            inf).

    Source: a reading of the PTR paper (Wang et al., NeurIPS 2022), Algorithm 2, in which clipping comes before sorting.
    """
    rows, lengths, trim, bound = _checked(vectors, trim, bound)
    return _first(_clip(rows, lengths, bound), np.argsort(np.minimum(lengths, bound), kind="stable"), trim)


def by_share_of_batch(vectors: ArrayLike, *, share: float, bound: float) -> NDArray[np.float64]:
    """Broken: trim the given share of the vectors that are there, rounded. Returns a sum of shape [d].

    One more record may raise F by one: then a record leaves the sum while another enters or leaves it.

    Raises:
        ValueError: if vectors is not a finite array of shape [m, d], share not in [0, 1], or bound not in (0, inf).

    Source: a reading of the PTR paper (Wang et al., NeurIPS 2022), appendix B, with F a share of the Poisson batch.
    """
    rows = arguments.array("vectors", vectors, ndim=2)
    share = arguments.probability("share", share)
    return clipped_trimmed_sum(rows, trim=round(share * len(rows)), bound=bound)


def _checked(
    vectors: ArrayLike, trim: int, bound: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], int, float]:
    rows = arguments.array("vectors", vectors, ndim=2)
    trim = arguments.integer("trim", trim, 0)
    bound = arguments.real("bound", bound, 0.0, low_open=True)
    return rows, np.linalg.norm(rows, axis=1), trim, bound


def _clip(rows: NDArray[np.float64], lengths: NDArray[np.float64], bound: float) -> NDArray[np.float64]:
    return rows * np.minimum(1.0, bound / np.maximum(lengths, np.finfo(np.float64).tiny))[:, None]


def _first(rows: NDArray[np.float64], order: NDArray[np.intp], trim: int) -> NDArray[np.float64]:
    return np.asarray(rows[order[: max(0, len(rows) - trim)]].sum(axis=0), dtype=np.float64)
