"""Refusing tensors of whole numbers: record numbers and labels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dpml import arguments


def record_numbers(name: str, value: Any, n: int, *, least: int = 0) -> Tensor:
    """Return `value` on the CPU if it is an int64 tensor of at least `least` different numbers in [0, n).

    Raises:
        ValueError: otherwise.
    """
    allowed = f"an int64 tensor of different numbers in [0, {n}), at least {least} of them"
    _refuse_others(name, value, n, allowed)
    if len(value) < least or len(value.unique()) < len(value):
        raise ValueError(f"{name} must be {allowed}, got {len(value)}, {len(value.unique())} of them different")
    found: Tensor = value.cpu()
    return found


def labels(name: str, value: Any, count: int | None, *, classes: int) -> None:
    """Refuse anything but `count` labels in [0, classes), int64; None for at least one.

    Raises:
        ValueError: as said.
    """
    allowed = f"an int64 tensor of {count or 'some'} labels in [0, {classes})"
    _refuse_others(name, value, classes, allowed)
    if len(value) != count if count is not None else not len(value):
        raise ValueError(f"{name} must be {allowed}, got {len(value)}")


def _refuse_others(name: str, value: Any, high: int, allowed: str) -> None:
    if not isinstance(value, Tensor) or value.dtype != torch.int64 or value.dim() != 1:
        arguments.refuse(name, allowed, value)
    if len(value) and not 0 <= int(value.min()) <= int(value.max()) < high:
        raise ValueError(f"{name} must be {allowed}, got {int(value.min())} to {int(value.max())}")
