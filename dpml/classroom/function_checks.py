"""Checks of answers that are a function: against a slow reference, and against stated properties."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from dpml.classroom.calls import Came, answered, attempt, limited, named, spoken, watched
from dpml.classroom.comparison import difference, holds_nan, size
from dpml.classroom.verdict import Mistake, NotYet, explained, kind, passed, require_function, shown, shown_text, unfit

_SEED = 20250117  # the inputs are the same for everyone, every time


_WRONG_RESULT = (3, 4)  # ranks of failures

_Case = tuple[tuple[Any, ...], dict[str, Any]]  # the arguments by position, and by name
_Failure = tuple[int, tuple[int, int], str]  # rank, size of the input, sentence: the smallest one is told


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
    cases = [_case(one) for one in (inputs(np.random.default_rng(_SEED)) if callable(inputs) else inputs)]
    if not cases:
        raise ValueError("inputs must hold at least one case, got none")
    wanted = [attempt(reference, *case) for case in cases]
    for case, want in zip(cases, wanted, strict=True):
        if want.error is not None or holds_nan(want.value):
            raise ValueError(f"the reference must give a value for {_spoken(reference, case)}") from want.error
    runs = [answered(f, *case, name=name) for case in cases]
    seen = [(case, run, want.value) for case, run, want in zip(cases, runs, wanted, strict=True)]
    failures = [found for one in seen if (found := _failure(f, *one, name=name, rel=rel, abs=abs))]
    if not failures:
        passed(name, f"agrees with its definition on {len(cases)} input{'s' * (len(cases) > 1)}")
        return
    rank, _, text = min(failures)
    for mistake in mistakes:
        if _made(mistake.wrong, seen, rel=rel, abs=abs):
            raise NotYet(f"{text} A known mistake: {mistake.diagnosis}")
    raise NotYet(f"{text} {hint if rank in _WRONG_RESULT else ''}".rstrip())


def _case(given: Any) -> _Case:
    if isinstance(given, Mapping):
        return (), {str(key): value for key, value in given.items()}
    return (given if isinstance(given, tuple) else (given,)), {}


def _spoken(f: Callable[..., Any], case: _Case) -> str:
    found = spoken(named(f, *case), width=40)
    return shown_text(found, width=90) if found else shown(case[0], width=90)


def _failure(
    f: Callable[..., Any], case: _Case, run: Came, want: Any, *, name: str, rel: float, abs: float
) -> _Failure | None:
    """What is wrong with one run, or None."""
    problem = _problem(run, want, rel=rel, abs=abs)
    if problem is None:
        return None
    rank, text = problem
    wrong_call = unfit(f, *case) if rank == 1 and isinstance(run.error, TypeError) else ""
    if wrong_call:
        return rank, (0, 0), f"Your {name} {wrong_call}."
    given = _spoken(f, case)
    return rank, (size(case), len(given)), f"For {given}, your {name} {text}"


def _problem(run: Came, want: Any, *, rel: float, abs: float) -> tuple[int, str] | None:
    """Rank and predicate of what is wrong with one run, or None: the cause comes before its symptom."""
    if run.error is not None:
        return 1, f"raised {explained(run.error)}."
    if run.value is None and want is not None:
        return 2, "printed its result but returned None: use return." if run.printed else (
            "returned None: is a return missing?"
        )
    if holds_nan(run.value):
        return 3, f"returned {shown(run.value)}, which holds nan."
    wrong = difference(run.value, want, rel=rel, abs=abs)
    if wrong:
        return 4, f"returned {shown(run.value)}: it {wrong}."
    if run.changed:
        return 5, f"changed its argument {run.changed} in place: work on a copy."
    return None


def _made(wrong: Callable[..., Any], seen: list[tuple[_Case, Came, Any]], *, rel: float, abs: float) -> bool:
    """Whether the student's runs equal those of a wrong implementation wherever that one goes wrong."""
    telling = [
        (run, other) for case, run, want in seen if _problem(other := attempt(wrong, *case), want, rel=rel, abs=abs)
    ]
    return bool(telling) and all(
        type(run.error) is type(other.error)
        and bool(run.changed) == bool(other.changed)
        and not difference(run.value, other.value, rel=rel, abs=abs)
        for run, other in telling
    )


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
