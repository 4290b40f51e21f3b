"""Running a student's function or mechanism, and reading its outcomes."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from dpml.classroom.calls import quiet
from dpml.classroom.comparison import identical, unwrap
from dpml.classroom.verdict import NotYet, explained, kind, not_written, refuse_unwritten, shown

Outcomes = list[Any]  # floats, or hashable discrete outcomes


def call(f: Callable[..., Any], *args: Any, name: str) -> Any:
    """The result of student code; an exception in it becomes the verdict. The first argument is the dataset."""
    value: Any = None
    problem: Exception | None = None
    with quiet():
        try:
            value = f(*args)
        except Exception as error:  # whatever student code raises becomes one sentence
            problem = error
    if problem is not None:
        _refuse(problem, f, args[0], name=name)
    _require_value(value, args[0], name=name)
    return value


def _refuse(problem: Exception, f: Callable[..., Any], dataset: Any, *, name: str) -> NoReturn:
    refuse_unwritten(problem, f, name=name)
    raise NotYet(f"{name} raised {explained(problem)} for the dataset {shown(dataset)}.")


def _require_value(value: Any, dataset: Any, *, name: str) -> None:
    if value is Ellipsis:
        not_written(name)
    if value is None:
        raise NotYet(f"{name} returned None for the dataset {shown(dataset)}: is a return missing?")


def _plain(value: Any) -> Any:
    """A float or a hashable discrete outcome; nan, None and whatever is neither come back as Ellipsis."""
    value = unwrap(value)
    if isinstance(value, (bool, int, float, np.number, np.bool_)):
        number = float(value) if np.isreal(value) else math.nan
        return number if math.isfinite(number) else Ellipsis
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)) or hasattr(value, "tolist"):
        inside = value.tolist() if hasattr(value, "tolist") else value
        plain = tuple(_plain(item) for item in inside)
        return Ellipsis if any(item is Ellipsis for item in plain) else plain
    return Ellipsis


def draw(f: Callable[..., Any], dataset: Any, *, trials: int, rng: np.random.Generator, name: str) -> Outcomes:
    """The outcomes of many runs on one dataset, with one generator running through all of them."""
    dataset = copy.deepcopy(dataset)
    raw: list[Any] = []
    problem: Exception | None = None
    with quiet():
        try:
            for _ in range(trials):
                raw.append(f(dataset, rng))
        except Exception as error:  # whatever student code raises becomes one sentence
            problem = error
    if problem is not None:
        _refuse(problem, f, dataset, name=name)
    outcomes = [value if type(value) is float and math.isfinite(value) else _plain(value) for value in raw]
    for value, outcome in zip(raw, outcomes, strict=True):
        if outcome is Ellipsis:
            _require_value(value, dataset, name=name)
            came = shown(value) if isinstance(value, (int, float, np.generic)) else kind(value)
            raise NotYet(
                f"{name} returned {came} for the dataset {shown(dataset)}; expected is a finite number or one of "
                "the possible outcomes."
            )
    return outcomes


def require_own_rng(f: Callable[..., Any], datasets: Sequence[Any], *, name: str) -> None:
    """Two calls with generators in the same state must agree, and must leave the dataset as it is."""
    for dataset in datasets:
        for seed in range(20):
            mine = copy.deepcopy(dataset)
            first = call(f, mine, np.random.default_rng(seed), name=name)
            if not identical(dataset, mine):
                raise NotYet(f"{name} changes the dataset that it is given: work on a copy.")
            second = call(f, copy.deepcopy(dataset), np.random.default_rng(seed), name=name)
            one, two = _plain(first), _plain(second)
            if one is not Ellipsis and one != two:
                raise NotYet(
                    f"{name} uses its own randomness: two calls with rng in the same state gave {shown(first)} "
                    f"and {shown(second)}. Draw all noise from the rng that it is given."
                )


def numeric(outcomes: Outcomes) -> bool:
    return all(isinstance(outcome, float) for outcome in outcomes)


def require_same_kind(came: Sequence[Outcomes], right: Sequence[Outcomes], *, name: str) -> None:
    """Numbers where the reference gives numbers, and mostly its outcomes where those are discrete."""
    if all(map(numeric, right)):
        for outcomes in came:
            odd = next((outcome for outcome in outcomes if not isinstance(outcome, float)), None)
            if odd is not None:
                raise NotYet(f"{name} returned {shown(odd, width=30)}; expected is one number.")
        return
    known = {outcome for outcomes in right for outcome in outcomes}
    for outcomes in came:
        strange = [outcome for outcome in outcomes if outcome not in known]
        if 2 * len(strange) > len(outcomes):
            raise NotYet(f"{name} returned {shown(strange[0])}, which is not one of the possible outcomes.")
