r"""The trimmed sum: leave out the F longest vectors, and what one record can then still do.

Let S hold m vectors, ordered by length, $\lVert x_{(1)} \rVert \le \dots \le \lVert x_{(m)} \rVert$, all of length at
most R (`bound`), with $\lVert x_{(k)} \rVert = 0$ for k < 1. The F-trimmed sum, its local sensitivity within r
changes, and its safety margin for a proposed tau < R are

.. math::

    \mathrm{TSUM}_F(S) = \sum_{k=1}^{m-F} x_{(k)}, \qquad
    \mathrm{LS}^{(r)}(S) = \begin{cases} \lVert x_{(m-F+1+r)} \rVert & r \le F - 1 \\ R & r \ge F, \end{cases} \qquad
    \Delta(S) = \max\bigl(0,\ F - \#\{i : \lVert x_i \rVert > \tau\}\bigr) .

Proof of the second. A new record of length R takes a place among the F longest and pushes $x_{(m-F+1)}$ into the sum;
no record moves it by more than that. Adding r of length R first moves the rank up by r; once F have been added the next
one may enter the sum itself. Proof of the third. $\lVert x_{(k)} \rVert > \tau$ exactly for the last
$c = \#\{i : \lVert x_i \rVert > \tau\}$ ranks, so the first r with LS above tau is F - c, or 0 if c >= F.

The global sensitivity is R only if one fixed order of all records decides what is left out, ties included. Clipped
vectors have equal lengths up to rounding, so their order is an accident that one record can upset:
`clipped_trimmed_sum` sorts by the length before clipping and breaks ties by the record's id, and
`dpml.ptr.broken_trimmed_sum` shows what goes wrong otherwise. F must be fixed without looking at the vectors, nor at
how many there are. Neighbours: one record added or removed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments

__all__ = [
    "clipped_trimmed_sum",
    "kept",
    "local_sensitivity",
    "safety_margin",
    "safety_margin_enumerated",
    "trimmed_sum",
]


def kept(norms: ArrayLike, *, trim: int, ids: ArrayLike | None = None) -> NDArray[np.bool_]:
    """Return which records stay, as booleans: all but the `trim` longest; of equally long ones the larger id leaves.

    `norms` are the lengths before any clipping. `ids` are the records' own numbers, distinct and the same in every
    batch; without them a record's position stands for it: right only if the batch keeps the order of the
    dataset.

    Raises:
        ValueError: if norms is not a list of finite numbers >= 0, trim not an integer >= 0, or ids are not distinct
            whole numbers, one for each norm.

    Source: the PTR paper (Wang et al., NeurIPS 2022), section 5, definition of the trimmed sum; the order of ties is
    ours.
    """
    lengths = arguments.array("norms", norms, ndim=1, low=0.0)
    trim = arguments.integer("trim", trim, 0)
    numbers = np.arange(lengths.size) if ids is None else arguments.whole_numbers("ids", ids, ndim=1, low=-(2.0**53))
    if numbers.size != lengths.size or np.unique(numbers).size != numbers.size:
        raise ValueError(f"ids must be {lengths.size} distinct whole numbers, got an array of shape {numbers.shape}")
    stays: NDArray[np.bool_] = places(lengths, ids=numbers) < lengths.size - trim
    return stays


def places(norms: Any, *, ids: Any) -> Any:
    """Return each record's place in the order of the trimmed sum: the shortest first, of equally long the smaller id.

    `norms` and `ids` are two arrays [m], or two tensors, which the caller has checked; so is the result. The records
    that stay are those at the places below m - trim.

    Raises:
        ValueError: never itself.

    Source: as `kept`.
    """
    order = ids.argsort(stable=True)
    return order[norms[order].argsort(stable=True)].argsort()


def trimmed_sum(vectors: ArrayLike, *, trim: int, ids: ArrayLike | None = None) -> NDArray[np.float64]:
    """Return the sum, shape [d], of the vectors, shape [m, d], without the `trim` longest; zero if m <= trim.

    The vectors count as they are. If they have been clipped, use `clipped_trimmed_sum`. Global sensitivity: the largest
    length that a vector may have. Add/remove neighbours. Ties and `ids` are as in `kept`.

    Raises:
        ValueError: if vectors is not a finite array of shape [m, d], trim not an integer >= 0, or ids are not distinct
            whole numbers, one for each vector; if a length or the sum exceeds the range of floats.

    Source: the PTR paper (Wang et al., NeurIPS 2022), section 5, definition of the trimmed sum.
    """
    rows = arguments.array("vectors", vectors, ndim=2)
    return _total(rows, kept(_lengths(rows), trim=trim, ids=ids))


def clipped_trimmed_sum(
    vectors: ArrayLike, *, trim: int, bound: float, ids: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Return the sum, shape [d], of the vectors clipped to length `bound`, without the `trim` longest before clipping.

    Adding or removing one vector moves it by at most `bound`, and by at most the local sensitivity. Add/remove
    neighbours. Ties and `ids` are as in `kept`.

    Raises:
        ValueError: if vectors is not a finite array of shape [m, d], trim not an integer >= 0, bound not in (0, inf),
            or ids are not distinct whole numbers, one for each vector; if a length or the sum exceeds the range of
            floats.

    Source: the PTR paper (Wang et al., NeurIPS 2022), Algorithms 2 and 3.
    """
    rows = arguments.array("vectors", vectors, ndim=2)
    bound = arguments.real("bound", bound, 0.0, low_open=True)
    lengths = _lengths(rows)
    stays = kept(lengths, trim=trim, ids=ids)
    with np.errstate(under="ignore"):
        factors = np.divide(bound, lengths, out=np.ones_like(lengths), where=lengths > bound)
    factors[factors < np.finfo(np.float64).tiny] = 0.0  # rounded up, it could let more than the bound through
    return _total(rows * factors[:, None], stays)


def local_sensitivity(norms: ArrayLike, *, trim: int, r: int, bound: float) -> float:
    """Return the largest local sensitivity of the trimmed sum within r added or removed records.

    `norms` are lengths before clipping: each counts as min(norm, bound). Add/remove neighbours.

    Raises:
        ValueError: if norms is not a list of finite numbers >= 0, trim or r not an integer >= 0, or bound not in (0,
            inf).

    Source: the PTR paper (Wang et al., NeurIPS 2022), Theorem 5.1.
    """
    lengths = arguments.array("norms", norms, ndim=1, low=0.0)
    trim = arguments.integer("trim", trim, 0)
    r = arguments.integer("r", r, 0)
    bound = arguments.real("bound", bound, 0.0, low_open=True)
    rank = lengths.size - trim + 1 + r
    if r > trim - 1:
        return bound
    return min(float(np.partition(lengths, rank - 1)[rank - 1]), bound) if rank >= 1 else 0.0


def safety_margin(norms: ArrayLike, *, trim: int, tau: float, bound: float) -> float:
    """Return how many records must be added or removed until the local sensitivity exceeds tau: a whole number or inf.

    It is one count: max(0, trim less the number of norms above tau). Infinite for tau >= bound, which no local
    sensitivity exceeds. `norms` are lengths before clipping. Adding or removing a record moves it by at most 1.

    Raises:
        ValueError: if norms is not a list of finite numbers >= 0, trim not an integer >= 0, or tau or bound not in
            (0, inf).

    Source: the PTR paper (Wang et al., NeurIPS 2022), section 5, safety margin of the trimmed sum; the closed form is
    proved at the head of this module.
    """
    lengths = arguments.array("norms", norms, ndim=1, low=0.0)
    trim = arguments.integer("trim", trim, 0)
    tau = arguments.real("tau", tau, 0.0, low_open=True)
    bound = arguments.real("bound", bound, 0.0, low_open=True)
    if tau >= bound:
        return math.inf
    return max(0, trim - int(np.count_nonzero(lengths > tau)))


def safety_margin_enumerated(norms: ArrayLike, *, trim: int, tau: float, bound: float) -> float:
    """Return what `safety_margin` returns, by the search that the paper prints: r = 0, 1, ... until LS^(r) exceeds tau.

    Raises:
        ValueError: if norms is not a list of finite numbers >= 0, trim not an integer in [0, 1e6], or tau or bound
            not in (0, inf).

    Source: the PTR paper (Wang et al., NeurIPS 2022), section 5, text before Theorem 5.1, and Algorithm 3.
    """
    lengths = arguments.array("norms", norms, ndim=1, low=0.0)
    trim = arguments.integer("trim", trim, 0, 10**6)
    tau = arguments.real("tau", tau, 0.0, low_open=True)
    bound = arguments.real("bound", bound, 0.0, low_open=True)
    ranked = np.concatenate([np.zeros(trim), np.sort(lengths)])[lengths.size :]  # x_(m-F+1), ..., x_(m)
    sensitivities = np.minimum(np.append(ranked, bound), bound)  # LS^(0), ..., LS^(F)
    above = np.flatnonzero(sensitivities > tau)
    return int(above[0]) if above.size else math.inf


def _lengths(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Euclidean lengths, each computed from its own row alone, so that no other record changes the last bit of one."""
    largest = np.max(np.abs(rows), axis=1, initial=0.0)
    with np.errstate(over="ignore"):
        scaled = np.ascontiguousarray(rows) / np.where(largest > 0.0, largest, 1.0)[:, None]
        lengths: NDArray[np.float64] = largest * np.sqrt((scaled * scaled).sum(axis=1))
    return arguments.finite("vectors", rows, lengths, "each length")


def _total(rows: NDArray[np.float64], stays: NDArray[np.bool_]) -> NDArray[np.float64]:
    with np.errstate(over="ignore", invalid="ignore"):
        total: NDArray[np.float64] = rows[stays].sum(axis=0)
    return arguments.finite("vectors", rows, total, "the sum")
