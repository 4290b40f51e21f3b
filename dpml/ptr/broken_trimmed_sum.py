r"""Trimmed sums that look right and are not: one record moves them by more than R. For lessons and tests only.

The trimmed sum of vectors clipped to length R has global sensitivity R if one fixed order of all records decides which
F are left out. Each function here lets something else decide:

.. math::

    \lVert \mathrm{TSUM}_F(S) - \mathrm{TSUM}_F(S \cup \{x\}) \rVert \le R
    \quad\text{fails, by up to}\quad 2 \min(F, m - F)\, R + R .

| function | what decides among clipped vectors |
|---|---|
| `by_clipped_norms` | the sorting algorithm: all their norms are exactly R |
| `by_position` | the place in the batch, which a loader shuffles |

`dpml.ptr.trimmed_sum.clipped_trimmed_sum` is the sound one. Neighbours: one record added or removed.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments

__all__ = ["by_clipped_norms", "by_position"]


def by_clipped_norms(vectors: ArrayLike, *, trim: int, bound: float) -> NDArray[np.float64]:
    """Broken: keep the smallest of min(norm, bound) by a sort that is not stable. Returns a sum of shape [d].

    Raises:
        ValueError: if vectors is not a finite array of shape [m, d], trim not an integer >= 0, or bound not in (0,
            inf).

    Source: a reading of the PTR paper (Wang et al., NeurIPS 2022), Algorithm 2, in which clipping comes before sorting.
    """
    return _first(vectors, trim, bound, "quicksort")


def by_position(vectors: ArrayLike, *, trim: int, bound: float) -> NDArray[np.float64]:
    """Broken in a shuffled batch: a stable sort of min(norm, bound), so that ties go by position. Shape [d].

    Raises:
        ValueError: if vectors is not a finite array of shape [m, d], trim not an integer >= 0, or bound not in (0,
            inf).

    Source: a reading of the PTR paper (Wang et al., NeurIPS 2022), Algorithm 2, in which clipping comes before sorting.
    """
    return _first(vectors, trim, bound, "stable")


@np.errstate(under="ignore")
def _first(vectors: ArrayLike, trim: int, bound: float, kind: Literal["quicksort", "stable"]) -> NDArray[np.float64]:
    """The sum of the first m - trim of the clipped vectors, after such a sort of min(norm, bound)."""
    rows = arguments.array("vectors", vectors, ndim=2)
    trim = arguments.integer("trim", trim, 0)
    bound = arguments.real("bound", bound, 0.0, low_open=True)
    lengths = np.linalg.norm(rows, axis=1)
    order = np.argsort(np.minimum(lengths, bound), kind=kind)[: max(0, len(rows) - trim)]
    factors = np.minimum(1.0, bound / np.maximum(lengths, np.finfo(np.float64).tiny))
    return np.asarray((rows * factors[:, None])[order].sum(axis=0), dtype=np.float64)
