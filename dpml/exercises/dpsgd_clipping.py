"""Clipping, and what is taken for it: shared by items 1, 5 and 6 of chapter 05."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["WRONG", "Array", "clipped"]

Array = NDArray[np.float64]


def clipped(gradients: Array, clip_norm: float) -> Array:
    """Each row shortened to the clip norm, if it is longer."""
    rows: Array = gradients * (clip_norm / np.maximum(_norms(gradients), clip_norm))
    return rows


def _norms(gradients: Array, *, order: float = 2, axis: int = 1) -> Array:
    powers = np.abs(gradients)
    norms = powers.max(axis=axis, keepdims=True, initial=0.0)
    if np.isfinite(order):
        norms = np.sum(powers**order, axis=axis, keepdims=True) ** (1 / order)
    found: Array = np.maximum(norms, 1e-300)
    return found


def _shrunk(gradients: Array, clip_norm: float, norms: Any) -> Array:
    rows: Array = gradients * np.minimum(1.0, clip_norm / norms)
    return rows


def _whole(gradients: Array) -> float:
    return max(float(np.linalg.norm(gradients)), 1e-300)


# Wrong functions of gradients and clip norm. Each text must fit a function of rows and a sum of them.
WRONG: list[tuple[Callable[[Array, float], Array], str]] = [
    (
        lambda g, c: np.minimum(c, g / _norms(g)),
        "this is the printed rule: the minimum acts on coordinates, and not at all on negative ones.",
    ),
    (
        lambda g, c: g * c / _norms(g),
        "every gradient is brought to norm C, short ones too. Clipping only shortens.",
    ),
    (
        lambda g, c: np.clip(g, -c, c),
        "each coordinate is clipped. The norm may then still be up to the square root of p times C.",
    ),
    (
        lambda g, c: _shrunk(g, c, _whole(g)),
        "one factor for the whole batch, from the norm of the whole array. Each row has a norm of its own.",
    ),
    (
        lambda g, c: g * np.minimum(1.0, _norms(g) / c),
        "the ratio is upside down: short gradients shrink and long ones stay.",
    ),
    (
        lambda g, c: g * np.maximum(1.0, c / _norms(g)),
        "the factor is never below 1: short gradients are stretched and long ones stay.",
    ),
    (
        lambda g, c: g,
        "nothing is clipped. Clipped, each row has norm at most C.",
    ),
    (
        lambda g, c: _shrunk(g, c, _norms(g) ** 2),
        "the clip norm is compared with the square of the norm: a root is missing.",
    ),
    (
        lambda g, c: _shrunk(g, c, _norms(g, axis=0)),
        "the norms run down the columns, over the examples. Each row has a norm of its own.",
    ),
    (
        lambda g, c: _shrunk(g, c, _norms(g, order=1)),
        "the norm adds up absolute values. Take the Euclidean norm, which the noise is made for.",
    ),
    (
        lambda g, c: _shrunk(g, c, _norms(g, order=np.inf)),
        "the norm is the largest coordinate. Take the Euclidean norm, which the noise is made for.",
    ),
    (
        lambda g, c: _shrunk(g, c, _norms(g).max(initial=1e-300)),
        "one factor for the whole batch, from its longest row. Each row has a norm of its own.",
    ),
    (
        lambda g, c: g * np.where(_norms(g) > c, 1.0 / _norms(g), 1.0),
        "long gradients get length 1, whatever the clip norm is.",
    ),
    (
        lambda g, c: g / np.maximum(_norms(g), c),
        "a factor is missing: long gradients get length 1, and short ones change as well.",
    ),
    (
        lambda g, c: g / np.maximum(_norms(g), 1.0),
        "the clip norm is 1 in it, whatever clip_norm is.",
    ),
    (
        lambda g, c: g * (_norms(g) <= c),
        "long gradients are dropped. Clipping shortens them.",
    ),
    (
        lambda g, c: _shrunk(g, c, _norms(g) / np.sqrt(max(1, g.shape[1]))),
        "the norm is the root of a mean of squares. The Euclidean norm adds them up.",
    ),
    (
        lambda g, c: np.minimum(g, c),
        "the minimum acts on coordinates, and not at all on negative ones.",
    ),
    (
        lambda g, c: g * np.minimum(_norms(g), c),
        "each gradient is multiplied by its clipped norm. Its length must become that norm.",
    ),
]
