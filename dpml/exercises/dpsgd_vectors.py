"""What the checks of the mechanisms of chapter 05 share: how they are called, what they return, their noise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.special import ndtr

from dpml.classroom import verdict
from dpml.exercises.dpsgd_clipping import Array

__all__ = [
    "SEED",
    "STILL_NOISY",
    "TINY",
    "look_up",
    "noise",
    "not_gaussian",
    "require_call",
    "same_everywhere",
    "vector",
]

SEED = 20_250_117
TINY = 1e-9  # a noise multiplier with hardly any noise
STILL_NOISY = (
    f"at a tiny σ, {TINY:g}, it still has noise, which must be in proportion to σ. (The first argument of rng.normal "
    "is the mean, the second one the standard deviation.)"
)
_WIDTH = 50  # many short calls, not one long one: a covariance matrix of a right answer stays small


def require_call(answer: Any, *, name: str, named: dict[str, Any]) -> None:
    """Raise NotYet if the answer is no function of gradients and these names."""
    verdict.require_function(answer, name=name)
    if verdict.unfit(answer, (None,), named):
        given = ", ".join(list(named)[:-1]) + f" and {list(named)[-1]}"
        raise verdict.NotYet(
            f"Your {name} is called with gradients, and with {given} by name: keep the parameter names."
        )


def vector(came: Any, *, size: int) -> Array | str:
    """What came, as `size` finite numbers, or a sentence that says what it is instead."""
    if came is None or came is Ellipsis:
        return f"it returned {'None' if came is None else '...'}: is a return missing?"
    try:
        found = np.asarray(came.detach() if hasattr(came, "detach") else came)
        values: Array = found.astype(float) if found.dtype.kind in "buifO" else np.empty(0)
    except (TypeError, ValueError, RuntimeError):
        found, values = np.empty(0, dtype=object), np.empty(0)
    if found.dtype.kind not in "buif" and values.shape != (size,):
        return f"it must return {size} real numbers; it returned {verdict.shown(came)}."
    if values.shape != (size,):
        return f"it returned shape {values.shape} for gradients of {size} numbers."
    return values if np.isfinite(values).all() else "it returned nan or infinity."


def noise(f: Any, *, examples: int, numbers: int, **named: Any) -> Array | str:
    """What `f` returns for gradients of zeros, one call a row, or a sentence that says what is wrong with it."""
    rng, rows = np.random.default_rng(SEED), []
    for _ in range(numbers // _WIDTH):
        values = vector(f(np.zeros((examples, _WIDTH)), **named, rng=rng), size=_WIDTH)
        if isinstance(values, str):
            return values
        rows.append(values)
    return np.array(rows)


def same_everywhere(rows: Array) -> bool:
    """Whether each call added one number to all coordinates."""
    return float(rows.std(axis=1).max()) < 1e-9 < float(np.abs(rows).max())


def look_up(came: Array, known: Iterable[tuple[Any, str]]) -> str:
    """The text of the wrong vector that came, if it is known."""
    for wrong, text in known:
        if np.shape(wrong) == came.shape and np.allclose(came, wrong, rtol=1e-4, atol=1e-6):
            return text
    return "compare it on paper."


def not_gaussian(standardised: Array) -> bool:
    """Whether standard normal numbers would look like this with probability below 1e-9."""
    ordered = ndtr(np.sort(standardised, axis=None))
    steps = np.arange(len(ordered) + 1) / len(ordered)
    distance = float(max((steps[1:] - ordered).max(), (ordered - steps[:-1]).max()))
    # Two-sided Kolmogorov-Smirnov, by the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart.
    return bool(2 * np.exp(-2 * len(ordered) * distance**2) < 1e-9)
