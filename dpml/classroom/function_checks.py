"""Checks of answers that are a function: against a slow reference, and against stated properties."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dpml.classroom.calls import Came, attempt, limited, named, watched
from dpml.classroom.comparison import difference, holds_nan
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


_WRONG_RESULT = (3, 4)  # ranks of failures


class _Failure(NamedTuple):
    rank: int  # an exception before a wrong shape before a wrong value: the cause before its symptom
    size: tuple[int, int]
    text: str


@limited
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
    problems = [_problem(f, run, want.value, rel=rel, abs=abs) for run, want in zip(runs, wanted, strict=True)]
    found = [(case, run, problem) for case, run, problem in zip(cases, runs, problems, strict=True) if problem]
    failures = [_described(f, *each, name=name) for each in found]
    if not failures:
        passed(name, f"agrees with its definition on {len(cases)} input{'s' * (len(cases) > 1)}")
        return
    worst = min(failures)
    if worst.rank == 0:
        refuse_unwritten(next((run.error for run in runs if unwritten(run.error, f) is not None), None), f, name=name)
        not_written(name)
    for mistake in mistakes:
        if _made(mistake.wrong, cases, runs, wanted, rel=rel, abs=abs):
            raise NotYet(f"{worst.text} A known mistake: {mistake.diagnosis}")
    raise NotYet(f"{worst.text} {hint if worst.rank in _WRONG_RESULT else ''}".rstrip())


def _arguments(case: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(case, Mapping):
        return (), {str(key): value for key, value in case.items()}
    return (case if isinstance(case, tuple) else (case,)), {}


def _run(f: Callable[..., Any], case: Any) -> Came:
    came = attempt(f, *_arguments(case))
    return came._replace(value=_kept(came.value))


def _kept(value: Any) -> Any:
    # The result may be one of the arguments, or be written to by a later call: keep it as it was returned.
    try:
        return copy.deepcopy(value)
    except Exception:  # an iterator, a tensor inside a graph: compared as it is
        return value


def _spoken(f: Callable[..., Any], case: Any) -> str:
    args, kwargs = _arguments(case)
    found = named(f, args, kwargs)
    if found:
        return shown_text(", ".join(f"{key} = {shown(value, width=40)}" for key, value in found.items()), width=90)
    return shown(args, width=90)


def _problem(f: Callable[..., Any], run: Came, want: Any, *, rel: float, abs: float) -> tuple[int, str] | None:
    """Rank and predicate of what is wrong with one run, or None."""
    if run.value is Ellipsis or unwritten(run.error, f) is not None:
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


def _described(f: Callable[..., Any], case: Any, run: Came, problem: tuple[int, str], *, name: str) -> _Failure:
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
    wrong: Callable[..., Any], cases: list[Any], runs: list[Came], wanted: list[Came], *, rel: float, abs: float
) -> bool:
    """Whether the student's runs equal those of a wrong implementation wherever that one goes wrong."""
    telling = 0
    for case, run, want in zip(cases, runs, wanted, strict=True):
        other = _run(wrong, case)
        if _problem(wrong, other, want.value, rel=rel, abs=abs) is None:
            continue
        telling += 1
        alike = type(run.error) is type(other.error) and bool(run.changed) == bool(other.changed)
        if not alike or difference(run.value, other.value, rel=rel, abs=abs):
            return False
    return telling > 0


@limited
def properties(f: Any, *, cases: Iterable[tuple[str, Callable[[Any], Any]]], name: str) -> None:
    """Pass if every property holds of `f`.

    A case is a description ("is zero at epsilon = 0") and a predicate of `f`, which returns True if the
    property holds, and False, or a sentence that says what came, if not. The first that fails is shown. `f` may
    neither change its arguments nor return nothing.

    Raises:
        NotYet: if a property fails, or `f` raises or is not written.
        ValueError: if there are no cases, or a predicate returns something else.
    """
    f = require_function(f, name=name)
    tested = list(cases)
    if not tested:
        raise ValueError("cases must hold at least one property, got none")
    for description, predicate in tested:
        verdict, problem, *_ = attempt(predicate, [watched(f, name=name)], {})
        if isinstance(problem, NotYet):
            raise problem
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
