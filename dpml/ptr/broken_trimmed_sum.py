r"""A trimmed sum that looks right and is not: one record moves it by more than R. For lessons and tests only.

The trimmed sum of vectors clipped to length R has global sensitivity R if one fixed order of all records decides which
F are left out. If something else decides among vectors that clipping has made equally long,

.. math::

    \lVert \mathrm{TSUM}_F(S) - \mathrm{TSUM}_F(S \cup \{x\}) \rVert \le R
    \quad\text{fails, by up to}\quad 2 \min(F, m - F)\, R + R .

Here it is the sorting algorithm: all their norms are exactly R. The place in a batch, which a loader shuffles, is no
better.

`dpml.ptr.trimmed_sum.clipped_trimmed_sum` is the sound one. Neighbours: one record added or removed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments

__all__ = ["by_clipped_norms"]


@np.errstate(under="ignore")
def by_clipped_norms(vectors: ArrayLike, *, trim: int, bound: float) -> NDArray[np.float64]:
    """Broken: keep the smallest of min(norm, bound) by a sort that is not stable. Returns a sum of shape [d].

    Raises:
        ValueError: if vectors is not a finite array of shape [m, d], trim not an integer >= 0, or bound not in (0,
            inf).

    Source: a reading of the PTR paper (Wang et al., NeurIPS 2022), Algorithm 2, in which clipping comes before sorting.
    """
    rows = arguments.array("vectors", vectors, ndim=2)
    trim = arguments.integer("trim", trim, 0)
    bound = arguments.real("bound", bound, 0.0, low_open=True)
    lengths = np.linalg.norm(rows, axis=1)
    order = np.argsort(np.minimum(lengths, bound), kind="quicksort")[: max(0, len(rows) - trim)]
    factors = np.minimum(1.0, bound / np.maximum(lengths, np.finfo(np.float64).tiny))
    return np.asarray((rows * factors[:, None])[order].sum(axis=0), dtype=np.float64)
