r"""Checks of items 7 and 8 of chapter 01: a claim to refute by a counterexample, and a rule to argue for.

A release M is epsilon-DP if for all neighbours D, D' and every set S of outputs

.. math::

    \Pr[M(D) \in S] \le e^\varepsilon \Pr[M(D') \in S] .
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpml import arguments
from dpml.classroom import checks, verdict
from dpml.classroom.comparison import as_finite

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["check_counterexample", "check_post_processing"]


_N, _EPSILON = 10, 1.0
_SCALE = 1 / (_N * _EPSILON)


def check_counterexample(answer: Any, *, neighbour: Any, threshold: Any) -> None:
    """Two neighbours and a threshold that refute a claim about the noisy maximum, by exact probabilities."""
    parts = {"dataset": answer, "neighbour": neighbour, "threshold": threshold}
    blank = [name for name, part in parts.items() if part is Ellipsis]
    if 0 < len(blank) < 3:
        verdict.not_written(blank[0])
    checks.counterexample(
        Ellipsis if blank else tuple(parts.values()), test=_refutes, name="counterexample", shows=_compared
    )


def _records(name: str, value: Any) -> NDArray[np.float64]:
    """Ten numbers in [0, 1].

    Raises: ValueError, in words for the student.
    """
    if not isinstance(value, (list, tuple)) and not getattr(value, "shape", ()):
        raise ValueError(f"{name} must be a list of ten numbers, got {verdict.kind(value)}")
    if len(value) != _N:
        raise ValueError(f"{name} has {len(value)} value{'s' * (len(value) != 1)}, it needs ten")
    return arguments.array(name, value, shape=(_N,), low=0.0, high=1.0)


def _read(answer: tuple[Any, Any, Any]) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    dataset, neighbour = _records("dataset", answer[0]), _records("neighbour", answer[1])
    threshold = as_finite(answer[2])
    if isinstance(threshold, str):
        came = "text" if isinstance(answer[2], str) else verdict.shown(answer[2])
        raise ValueError(f"threshold must be a number, got {came}")
    return dataset, neighbour, threshold


def _log_ratio(first: float, second: float, threshold: float) -> float:
    """How far apart the logarithms of the two probabilities to exceed the threshold are."""
    if threshold >= max(first, second):  # exact, however far out the threshold lies
        return abs(first - second) / _SCALE
    return abs(_log_tail((threshold - first) / _SCALE) - _log_tail((threshold - second) / _SCALE))


def _compared(answer: tuple[Any, Any, Any]) -> str:
    """Both probabilities and their ratio, in words."""
    dataset, neighbour, threshold = _read(answer)
    first, second = float(dataset.max()), float(neighbour.max())
    one, other = (math.exp(_log_tail((threshold - top) / _SCALE)) for top in (first, second))
    return (
        f"the release exceeds {threshold:g} with probability {one:.4g} on dataset and {other:.4g} on neighbour, "
        f"a factor of {math.exp(_log_ratio(first, second, threshold)):.3g}; e^ε = {math.exp(_EPSILON):.3g} is allowed"
    )


def _refutes(answer: tuple[Any, Any, Any]) -> str | None:
    """None if the triple refutes the claim, else why it does not."""
    dataset, neighbour, threshold = _read(answer)
    changed = int(np.count_nonzero(dataset != neighbour))
    if changed != 1:
        return f"the datasets differ in {changed} records; neighbours differ in exactly one, place by place."
    first, second = float(dataset.max()), float(neighbour.max())
    gap = abs(first - second)
    if gap == 0:
        return "the maximum is the same on both, so the release is too. Change a record that moves the maximum."
    if gap <= _SCALE * (1 + 1e-9):
        return (
            f"the maxima differ by {gap:.3g}, and the noise has scale {_SCALE:g}: so small a move it does hide. "
            "How far can one record move the maximum?"
        )
    if _log_ratio(first, second, threshold) <= _EPSILON * (1 + 1e-9):
        return (
            f"{_compared(answer)}. Your datasets can do it with another threshold: raise it. Above both maxima the "
            "factor is largest."
        )
    return None


def _log_tail(z: float) -> float:
    """The logarithm of the probability that Laplace noise of scale 1 exceeds z."""
    return math.log(0.5) - z if z >= 0 else math.log1p(-0.5 * math.exp(z))


# The letter is h in the chapter; any letter that stands for the function will do.
_PREIMAGE = ["preimage", "pre-image", "inverse image", "inverse of", "mapped into", "mapped to", "sent into", "sent to"]
_PREIMAGE += [f"{h}{power}" for h in "fgh" for power in ("^-1", "^{-1}", "^(-1)", "⁻¹", "**-1")]
_PREIMAGE += [f"{h}({y})" for h in "fgh" for y in "ymoztu"] + ["h sends", "h maps", "h takes", "h carries"]
_PREIMAGE += [f"{what} {which}" for what in ("outputs", "values") for which in ("y", "that h", "which h", "for which")]
_PREIMAGE += [f"outputs of m {which}" for which in ("y", "that", "which", "for which")]
_INEQUALITY = ["e^", "exp(", "e**", "np.exp", "e to the", "epsilon times", "factor", "ratio", "times as", "inequality"]
_INEQUALITY += ["<=", "≤", "\\le"]


def check_post_processing(answer: Any) -> None:
    """Two sentences on why a function of the output is as private as the output; notions, not grading."""
    checks.argument(
        answer,
        name="argument",
        minimum_words=25,
        must_mention={
            "the set of outputs of M that h sends into S (its preimage)": _PREIMAGE,
            "the inequality between the two neighbours, with its factor e^epsilon": _INEQUALITY,
        },
        rubric=[
            "h(M(D)) lies in S exactly when M(D) lies in T, the set of outputs that h sends into S.",
            "T is the same set for both neighbours, because h does not see the data.",
            "M is private for every set of outputs, so also for T; that inequality is the one to be shown for S.",
        ],
    )
