"""Checks of answers that are a function: against a slow reference, and against stated properties."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from dpml.classroom.calls import Came, answered, attempt, limited, named, spoken, watched
from dpml.classroom.comparison import difference, holds_nan, size
from dpml.classroom.verdict import Mistake, NotYet, brief, explained, kind, passed, require_function, shown, unfit

_SEED = 20250117  # the inputs are the same for everyone, every time


_WRONG_RESULT = (3, 4)  # ranks of failures

_Case = tuple[tuple[Any, ...], dict[str, Any]]  # the arguments by position, and by name
# Rank, size of the input, the sentence, and the sentence in a width: the smallest one is told.
_Failure = tuple[int, tuple[int, int], str, Callable[[int], str]]


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
    or made by a function of a generator with a fixed seed. One of numbers alone is tried again with other numbers
    near by, where the reference takes them: a table of values is no answer. Then all are tried once more: nothing
    may be remembered. Numbers agree within abs + rel*|right|, entry by entry. A mistake holds a wrong
    implementation; it is named when `f` does the same as it on every input where it goes wrong. Otherwise the
    smallest failing input is shown. `hint` states the property that the result must have; it follows a wrong
    result only, since it explains no error and no missing return.

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
    for case in [near for case in cases if (near := _near(case))]:
        other = attempt(reference, *case)
        if other.error is None and not holds_nan(other.value):
            cases.append(case)
            wanted.append(other)
    runs = [answered(f, *case, name=name) for case in cases]
    seen = [(case, run, want.value) for case, run, want in zip(cases, runs, wanted, strict=True)]
    failures = [found for one in seen if (found := _failure(f, *one, name=name, rel=rel, abs=abs))]
    if not failures:
        for case, run in zip(cases, runs, strict=True):
            if difference(answered(f, *case, name=name).value, run.value, rel=rel, abs=abs):
                raise NotYet(f"For {_spoken(f, case)}, your {name} gives another result when it is called again.")
        passed(name, f"agrees with its definition on {len(cases)} input{'s' * (len(cases) > 1)}")
        return
    rank, _, _, told = min(failures, key=lambda failure: failure[:3])
    known = next((m.diagnosis for m in mistakes if _made(m.wrong, seen, rel=rel, abs=abs)), "")
    more = f"A known mistake: {known}" if known else hint if rank in _WRONG_RESULT else ""
    raise NotYet(brief(lambda width: f"{told(width)} {more}".rstrip()))


def _case(given: Any) -> _Case:
    if isinstance(given, Mapping):
        return (), {str(key): value for key, value in given.items()}
    return (given if isinstance(given, tuple) else (given,)), {}


def _near(case: _Case) -> _Case | None:
    """Other numbers near those of an input: fractions smaller by a little, the largest whole one by one more."""
    values = [*case[0], *case[1].values()]
    if any(not isinstance(value, (int, float)) or isinstance(value, bool) for value in values):
        return None
    largest = max((value for value in values if isinstance(value, int)), default=None)

    def moved(value: Any) -> Any:
        if isinstance(value, int):
            return value + (value == largest)
        return value if value.is_integer() else 0.9931 * value

    return tuple(map(moved, case[0])), {key: moved(value) for key, value in case[1].items()}


def _spoken(f: Callable[..., Any], case: _Case, width: int = 90) -> str:
    return spoken(named(f, *case), width=40, whole=width) or shown(case[0], width=width)


def _failure(
    f: Callable[..., Any], case: _Case, run: Came, want: Any, *, name: str, rel: float, abs: float
) -> _Failure | None:
    """What is wrong with one run, or None."""
    problem = _problem(run, want, rel=rel, abs=abs)
    if problem is None:
        return None
    rank, text = problem
    if rank == 1 and isinstance(run.error, TypeError) and (wrong_call := unfit(f, *case)):
        return rank, (0, 0), "", lambda width: f"Your {name} {wrong_call}."

    def told(width: int) -> str:
        return (
            f"For {_spoken(f, case, width)}, your {name} {text.replace('CAME', shown(run.value, width=min(60, width)))}"
        )

    return rank, (size(case), len(_spoken(f, case))), told(90), told


def _problem(run: Came, want: Any, *, rel: float, abs: float) -> tuple[int, str] | None:
    """Rank and predicate of what is wrong with one run, or None: the cause comes before its symptom. For what came
    stands CAME."""
    if run.error is not None:
        return 1, f"raised {explained(run.error)}."
    if run.value is None and want is not None:
        return 2, "printed its result but returned None: use return." if run.printed else (
            "returned None: is a return missing?"
        )
    if holds_nan(run.value):
        return 3, "returned CAME, which holds nan."
    wrong = difference(run.value, want, rel=rel, abs=abs)
    if wrong:
        return 4, f"returned CAME: it {wrong}."
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
