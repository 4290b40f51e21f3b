"""Small computations where they cost least: on the CPU in NumPy and Python, where a call is a tenth of PyTorch's.

Code for both is written once, with the operators that they have in common and the functions here. On another device the
numbers stay there, and nothing waits for them.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["array", "clip", "count", "double", "drop_largest", "log1p", "number", "whole"]


def array(tensor: Tensor) -> Any:
    """A tensor on the CPU as a NumPy array in the same memory; any other as it is."""
    tensor = tensor.detach()
    if tensor.device.type != "cpu":
        return tensor
    tensor = tensor.resolve_neg()
    return tensor.float().numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()  # bfloat16: unknown to NumPy


def number(tensor: Tensor) -> Any:
    """A number in a tensor on the CPU as a Python number; in any other tensor as it is."""
    return tensor.item() if tensor.device.type == "cpu" else tensor


def whole(value: Any) -> Any:
    """A whole number as int, which every checkpoint can hold; in a tensor as it is.

    Raises:
        ValueError: if it is neither.
    """
    if isinstance(value, Tensor):
        return value
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError(f"rule must return a whole number or a tensor of one, got {value!r}") from None


def clip(value: Any, low: int, high: int) -> Any:
    """Limit a number to [low, high]."""
    return value.clip(low, high) if isinstance(value, Tensor) else min(max(value, low), high)


def count(mask: Any) -> Any:
    """How many are true."""
    return mask.sum() if isinstance(mask, Tensor) else int(np.count_nonzero(mask))


def double(value: Any) -> Any:
    """A number as float, or in a tensor of float64."""
    return value.to(torch.float64) if isinstance(value, Tensor) else float(value)


def log1p(value: Any) -> Any:
    """log(1 + value) of a number, -inf at -1."""
    if isinstance(value, Tensor):
        return value.log1p()
    return math.log1p(value) if value > -1.0 else -math.inf


def drop_largest(weights: Tensor, sizes: Any, *, ids: Any, trim: Any) -> Tensor:
    """Return `weights` with 0 for the `trim` largest of `sizes`; on the CPU they are changed in place.

    Equal sizes are ordered by `ids`; NaN is the largest. No graph may have recorded `weights`.
    """
    if isinstance(sizes, Tensor):
        order = ids.argsort(stable=True)
        order = order[sizes[order].argsort(stable=True)]
        rank = torch.empty_like(order)
        rank[order] = torch.arange(len(order), device=order.device)
        return weights.masked_fill(rank >= len(order) - trim, 0)
    if trim > 0:
        order = ids.argsort(stable=True)
        order = order[sizes[order].argsort(stable=True)]
        weights.numpy()[order[max(0, len(order) - trim) :]] = 0
    return weights
