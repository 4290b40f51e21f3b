"""The two ends of M_samp's callback: the records that it gets, and the answers that it gives."""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def records(data: Any, n: int) -> None:
    """Refuse anything but a sequence of n records.

    Raises:
        ValueError: if data is something else.
    """
    single = isinstance(data, np.ndarray) and data.ndim == 0
    if not isinstance(data, Sized) or isinstance(data, str | bytes | set | dict) or hasattr(data, "mask") or single:
        raise ValueError(f"data must be a list, tuple or array of records, got {data!r:.80}")
    if len(data) != n:
        raise ValueError(f"data must hold n = {n} records, got {len(data)}")


def answers(raw: Any, models: int, shape: tuple[int, ...] | None, classes: int) -> NDArray[np.int64]:
    """What the callback returned, if it is as promised.

    Raises:
        ValueError: for another shape, or anything but whole numbers from 0 to classes - 1.
    """
    try:
        found = np.asarray(raw)
    except (ValueError, TypeError):
        found = np.asarray(None)
    allowed = f"[{models}] or [{models}, queries]" if shape is None else f"{[models, *shape]}, as for the models before"
    good = found.ndim in (1, 2) and found.shape[0] == models and found.size > 0
    if not good or (shape is not None and found.shape[1:] != shape):
        raise ValueError(f"train must return an array of shape {allowed}, got shape {found.shape}")
    if found.dtype.kind not in "iu" or found.min() < 0 or found.max() >= classes:
        shown = found.dtype if found.dtype.kind not in "iu" else f"{found.min()} to {found.max()}"
        raise ValueError(f"train must return whole numbers from 0 to {classes - 1} = classes - 1, got {shown}")
    return found.astype(np.int64)
