"""Checks of answers that are a function: against a slow reference, and against stated properties."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dpml.classroom.comparison import difference, holds_nan, identical
from dpml.classroom.runs import quiet
from dpml.classroom.verdict import (
    Mistake,
    NotYet,
    explained,
    kind,
    not_written,
    passed,
    refuse_unwritten,
    require_function,
    shown,
    shown_text,
    unfit,
    unwritten,
)

_SEED = 20250117  # the inputs are the same for everyone, every time


class _Run(NamedTuple):
    value: Any
    error: Exception | None
    printed: bool
    changed: str  # the argument that the call modified, or empty
    blank: bool  # it is not written, or calls what is not


_WRONG_RESULT = (3, 4)  # ranks of failures


class _Failure(NamedTuple):
    rank: int  # an exception before a wrong shape before a wrong value: the cause before its symptom
    size: tuple[int, int]
    text: str


def function(
    f: Any,
    *,
    reference: Callable[..., Any],
    inputs: Iterable[Any] | Callable[[np.random.Generator], Iterable[Any]],
    name: str,
    mistakes: Iterable[Mistake] = (),
    hint: str = "",
    rel: float = 1e-6,
    abs: float = 1e-12,
) -> None:
    """Pass if `f` agrees with `reference` on all `inputs`, and leaves its arguments as they were.

    An input is a tuple of arguments, a mapping of keyword arguments, or one argument; `inputs` are given,
    or made by a function of a generator with a fixed seed. Numbers agree within abs + rel*|right|, entry by
    entry. A mistake holds a wrong implementation; it is named when `f` does the same as it on every input
    where it goes wrong. Otherwise the smallest failing input is shown. `hint` states the property that the
    result must have; it follows a wrong result only, since it explains no error and no missing return.

    Raises:
        NotYet: if `f` is not written or fails on some input.
        ValueError: if there are no inputs, or the reference gives nan.
    """
    f = require_function(f, name=name)
    cases = list(inputs(np.random.default_rng(_SEED)) if callable(inputs) else inputs)
    if not cases:
        raise ValueError("inputs must hold at least one case, got none")
    wanted = [_run(reference, case) for case in cases]
    for case, want in zip(cases, wanted, strict=True):
        if want.error is not None or holds_nan(want.value):
            raise ValueError(f"the reference must give a value for {_spoken(reference, case)}") from want.error
    runs = [_run(f, case) for case in cases]
    failures = []
    for case, run, want in zip(cases, runs, wanted, strict=True):
        problem = _problem(run, want.value, rel=rel, abs=abs)
        if problem is not None:
            failures.append(_described(f, case, run, problem, name=name))
    if not failures:
        passed(name, f"agrees with its definition on {len(cases)} inputs")
        return
    worst = min(failures)
    if worst.rank == 0:
        refuse_unwritten(next(run.error for run in runs if run.blank), f, name=name)
        not_written(name)
    for mistake in mistakes:
        if _made(mistake.wrong, cases, runs, wanted, rel=rel, abs=abs):
            raise NotYet(f"{worst.text} A known mistake: {mistake.diagnosis}")
    raise NotYet(f"{worst.text} {hint if worst.rank in _WRONG_RESULT else ''}".rstrip())


def _arguments(case: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(case, Mapping):
        return (), {str(key): value for key, value in case.items()}
    return (case if isinstance(case, tuple) else (case,)), {}


def _run(f: Callable[..., Any], case: Any) -> _Run:
    args, kwargs = _arguments(copy.deepcopy(case))
    with quiet() as printed:
        try:
            value, error = f(*args, **kwargs), None
        except Exception as problem:  # whatever student code raises becomes one sentence
            value, error = None, problem
    before_args, before_kwargs = _arguments(case)
    pairs = [(_label(f, case, i), before, now) for i, (before, now) in enumerate(zip(before_args, args, strict=True))]
    pairs += [(key, before, kwargs[key]) for key, before in before_kwargs.items()]
    changed = next((label for label, before, now in pairs if not identical(before, now)), "")
    blank = value is Ellipsis or unwritten(error, f) is not None
    return _Run(_kept(value), error, bool(printed.getvalue().strip()), changed, blank)


def _kept(value: Any) -> Any:
    # The result may be one of the arguments, or be written to by a later call: keep it as it was returned.
    try:
        return copy.deepcopy(value)
    except Exception:  # an iterator, a tensor inside a graph: compared as it is
        return value


def _label(f: Callable[..., Any], case: Any, position: int) -> str:
    names = list(_named(f, case))
    return names[position] if position < len(names) else f"number {position + 1}"


def _named(f: Callable[..., Any], case: Any) -> dict[str, Any]:
    """The arguments by name, in order; empty if the function does not tell."""
    args, kwargs = _arguments(case)
    try:
        bound = inspect.signature(f).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return kwargs
    return {} if any(key in ("args", "kwargs") for key in bound) else dict(bound)


def _spoken(f: Callable[..., Any], case: Any) -> str:
    named = _named(f, case)
    if named:
        return shown_text(", ".join(f"{key} = {shown(value, width=40)}" for key, value in named.items()), width=90)
    return shown(_arguments(case)[0], width=90)


def _problem(run: _Run, want: Any, *, rel: float, abs: float) -> tuple[int, str] | None:
    """Rank and predicate of what is wrong with one run, or None."""
    if run.blank:
        return 0, "is not written yet"
    if run.error is not None:
        return 1, f"raised {explained(run.error)}"
    if run.value is None and want is not None:
        return 2, "printed its result but returned None: use return" if run.printed else (
            "returned None: is a return missing?"
        )
    if holds_nan(run.value):
        return 3, f"returned {shown(run.value)}, which holds nan"
    wrong = difference(run.value, want, rel=rel, abs=abs)
    if wrong:
        return 4, f"returned {shown(run.value)}: it {wrong}"
    if run.changed:
        return 5, f"changed its argument {run.changed} in place: work on a copy"
    return None


def _described(f: Callable[..., Any], case: Any, run: _Run, problem: tuple[int, str], *, name: str) -> _Failure:
    rank, text = problem
    args, kwargs = _arguments(case)
    wrong_call = unfit(f, args, kwargs) if rank == 1 and isinstance(run.error, TypeError) else ""
    if wrong_call:
        return _Failure(rank, (0, 0), f"Your {name} {wrong_call}.")
    text = text if text.endswith("?") else text + "."
    spoken = _spoken(f, case)
    return _Failure(rank, (_count(case), len(spoken)), f"For {spoken}, your {name} {text}")


def _count(value: Any) -> int:
    """The number of scalars in a value: the measure of "smallest"."""
    if isinstance(value, Mapping):
        return sum(_count(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return sum(_count(item) for item in value)
    return int(math.prod(value.shape)) if hasattr(value, "shape") else 1


def _made(
    wrong: Callable[..., Any], cases: list[Any], runs: list[_Run], wanted: list[_Run], *, rel: float, abs: float
) -> bool:
    """Whether the student's runs equal those of a wrong implementation wherever that one goes wrong."""
    telling = 0
    for case, run, want in zip(cases, runs, wanted, strict=True):
        other = _run(wrong, case)
        if _problem(other, want.value, rel=rel, abs=abs) is None:
            continue
        telling += 1
        alike = type(run.error) is type(other.error) and bool(run.changed) == bool(other.changed)
        if not alike or difference(run.value, other.value, rel=rel, abs=abs):
            return False
    return telling > 0


def properties(f: Any, *, cases: Iterable[tuple[str, Callable[[Any], Any]]], name: str) -> None:
    """Pass if every property holds of `f`.

    A case is a description ("is zero at epsilon = 0") and a predicate of `f`, which returns True if the
    property holds, and False, or a sentence that says what came, if not. The first that fails is shown.

    Raises:
        NotYet: if a property fails, or `f` raises or is not written.
        ValueError: if there are no cases, or a predicate returns something else.
    """
    f = require_function(f, name=name)
    tested = list(cases)
    if not tested:
        raise ValueError("cases must hold at least one property, got none")
    for description, predicate in tested:
        problem: Exception | None = None
        with quiet():
            try:
                verdict = predicate(f)
            except Exception as error:  # whatever student code raises becomes one sentence
                verdict, problem = False, error
        refuse_unwritten(problem, f, name=name)
        if problem is not None:
            raise NotYet(f"{name} must have this property: {description}. Testing it raised {explained(problem)}.")
        if not isinstance(verdict, (bool, np.bool_, str)):
            raise ValueError(f"a predicate must return True, False or a sentence, got {kind(verdict)}")
        if isinstance(verdict, str) or not verdict:
            came = f": {verdict}" if isinstance(verdict, str) else "."
            raise NotYet(f"{name} does not have the property “{description}”{came}")
    passed(
        name,
        f"{len(tested)} propert{'ies hold' if len(tested) > 1 else 'y holds'}: "
        + "; ".join(description for description, _ in tested),
    )
