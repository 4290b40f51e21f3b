r"""Neighbours of a dataset $D = (d_1, \dots, d_n)$: one record less, or another record in its place."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml import arguments


def without_one(dataset: Any, *, index: int) -> NDArray[Any]:
    r"""Return a copy of `dataset` without record `index`: an add/remove neighbour.

    Args:
        dataset: array of n >= 1 records along its first axis, shape (n, ...), of finite numbers or booleans.
            It is not changed.
        index: which record to drop, 0 to n - 1.

    Returns:
        Array of shape (n - 1, ...) and the same type.

    Raises:
        ValueError: for another `dataset`, or an `index` out of range.

    Source: Dwork and Roth, "The algorithmic foundations of differential privacy" (2014): databases at distance 1.
    """
    records = _records(dataset)
    row = arguments.integer("index", index, 0, len(records) - 1)
    return np.delete(records, row, axis=0)


def replace_one(dataset: Any, *, index: int, value: Any) -> NDArray[Any]:
    r"""Return a copy of `dataset` with `value` as record `index`: a replace-one neighbour.

    Args:
        dataset: array of n >= 1 records along its first axis, shape (n, ...), of finite numbers or booleans.
            It is not changed.
        index: which record to replace, 0 to n - 1.
        value: the new record, of the shape of the old one. In a dataset of integers it must be integers in
            the range of their type; nothing is rounded or wrapped.

    Returns:
        Array of the shape and type of `dataset`.

    Raises:
        ValueError: for another `dataset`, an `index` out of range, or a `value` that does not fit.

    Source: the lecture, subsampling theorem: two datasets of the same size that differ in one record d_i.
    """
    records = _records(dataset)
    row = arguments.integer("index", index, 0, len(records) - 1)
    new = arguments.as_array(value)
    kinds = "b" if records.dtype.kind == "b" else "iu" if records.dtype.kind in "iu" else "iuf"
    fits = new.dtype.kind in kinds and new.shape == records.shape[1:]
    if fits:
        with np.errstate(all="ignore"):  # a value too large becomes inf here, and is refused below
            cast = new.astype(records.dtype)
        fits = bool(np.isfinite(cast).all() if records.dtype.kind == "f" else (cast == new).all())
    if not fits:
        shown = new if new.dtype.kind in "biuf" else value
        arguments.refuse("value", f"a record of shape {records.shape[1:]} that {records.dtype} can hold", shown)
    neighbour = records.copy()
    neighbour[row] = cast
    return neighbour


def _records(dataset: Any) -> NDArray[Any]:
    records = arguments.as_array(dataset)
    if records.dtype.kind not in "biuf":
        arguments.refuse("dataset", "an array of numbers or booleans", dataset)
    if records.ndim < 1 or len(records) < 1:
        arguments.refuse("dataset", "an array of at least one record", dataset)
    if records.dtype.kind == "f" and not np.isfinite(records).all():
        raise ValueError("dataset must be finite, got an element that is NaN or infinite")
    return records
