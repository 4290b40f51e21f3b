"""Checks of answers that are a value: a number, a choice, a counterexample, a written argument."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dpml import arguments
from dpml.classroom.calls import attempt
from dpml.classroom.comparison import as_finite, close, difference, size_hint, unwrap
from dpml.classroom.verdict import Mistake, NotYet, explained, kind, not_written, passed, require_written, shown


def number(
    answer: Any,
    *,
    expected: float,
    name: str,
    mistakes: Iterable[Mistake] = (),
    hint: str = "",
    rel: float = 1e-6,
    abs: float = 0.0,
) -> None:
    """Pass if `answer` is one real number within abs + rel*|expected| of `expected`.

    Python and numpy scalars, fractions, and arrays or tensors of one element count as numbers; text,
    truth values, nan, infinity and longer arrays do not. `mistakes` hold wrong values, or predicates on
    the answer. The message never holds the expected value.

    Raises:
        NotYet: if the answer is not that number.
        ValueError: if the item is ill-posed: a mistake that is right, a text that gives the value away.
    """
    want = arguments.real("expected", expected)
    rel = arguments.real("rel", rel, 0.0)
    abs = arguments.real("abs", abs, 0.0)
    mistakes = tuple(mistakes)
    _refuse_ill_posed(mistakes, hint, want, rel=rel, abs=abs)
    require_written(answer, name=name)
    if problem := _no_number(answer):
        raise NotYet(f"{name}: {problem}")
    came = float(unwrap(answer))
    if close(came, want, rel=rel, abs=abs):
        passed(name, "your number agrees with the exact value")
        return
    echo = f" {shown(came)}"
    if any(form in echo for form in _forms(want)):
        echo = ""
    # A mistake is recognised a little more loosely than the right answer, for rounded numbers.
    found = _diagnosis(came, mistakes, lambda wrong: not difference(came, wrong, rel=max(rel, 1e-4), abs=abs))
    told = f"shows a known mistake: {found}" if found else f"{size_hint(came, want)}. {hint}"
    raise NotYet(f"{name}: your answer{echo} {told}".rstrip())


def _no_number(answer: Any) -> str | None:
    came = as_finite(answer)
    return f"your answer {came}. Expected is one finite real number." if isinstance(came, str) else None


def _forms(value: float) -> set[str]:
    # The sign is left out: "-0.5" also shows 0.5.
    size = math.fabs(value)
    forms = {repr(size), str(np.float32(size)), f"{100 * size:.3g}%"}
    forms |= {f"{size:.{digits}g}" for digits in range(3, 18)}
    forms |= {f"{size:.{digits}f}" for digits in range(2, 13) if size >= 0.01}
    return forms


def _refuse_ill_posed(mistakes: Sequence[Mistake], hint: str, want: float, *, rel: float, abs: float) -> None:
    telling = {form for form in _forms(want) if len(form.lstrip("0.").replace(".", "")) >= 3}
    for text in (hint, *(mistake.diagnosis for mistake in mistakes)):
        if any(form in text for form in telling):
            raise ValueError(f"a message must not give the expected value away, got {text!r}")
    for mistake in mistakes:
        if not callable(mistake.wrong) and close(float(mistake.wrong), want, rel=max(rel, 1e-4), abs=abs):
            raise ValueError(f"a mistake must differ from the expected value, got {mistake.diagnosis!r}")


def _diagnosis(answer: Any, mistakes: Iterable[Mistake], same: Callable[[Any], bool]) -> str:
    """The diagnosis of the first mistake that the answer shows: by its predicate, or as the same value; or empty."""
    made = (m for m in mistakes if (_holds(m.wrong, answer) if callable(m.wrong) else same(m.wrong)))
    return next((mistake.diagnosis for mistake in made), "")


def _holds(predicate: Callable[[Any], Any], answer: Any) -> bool:
    came = attempt(predicate, [answer], {})
    return came.error is None and bool(came.value)  # what cannot read the answer does not recognise it


def form(answer: Any, *, name: str, test: Callable[[Any], str | None] | None = None) -> None:
    """Pass if `answer` has the form that is asked for, right or wrong: the check of a graded item.

    `test(answer)` returns None, or a sentence that says what the form is; without it, the answer is one finite number.

    Raises:
        NotYet: if the answer, or a part of it that is a tuple, is not written, or has another form.
    """
    for part in answer if isinstance(answer, tuple) else (answer,):
        require_written(part, name=name)
    problem, error, *_ = attempt(test or _no_number, [answer], {})
    if error is not None:
        problem = f"this has not the form that is asked for: {explained(error)}."
    if problem is not None:
        raise NotYet(f"{name}: {problem}")
    passed(name, "this has the form that is asked for; the grading tells whether it is right")


def choice(
    answer: Any,
    *,
    expected: Any,
    options: Iterable[Any],
    name: str,
    mistakes: Iterable[Mistake] = (),
    hint: str = "",
) -> None:
    """Pass if `answer` is `expected`, one of `options` (numbers, text, truth values or None).

    Numbers are compared by value, text without regard to case and spaces; True is not 1.

    Raises:
        NotYet: if the answer is another option, or none.
        ValueError: if `expected` is not among the options, or there is only one.
    """
    allowed = list(options)
    keys = [_key(option) for option in allowed]
    if _key(expected) not in keys or len(set(keys)) < 2:
        raise ValueError(f"options must hold the expected answer and another one, got {shown(allowed)}")
    require_written(answer, name=name)
    if _key(answer) not in keys:
        raise NotYet(f"{name}: {shown(answer)} is not among the possible answers. Give {_listed(allowed)}.")
    if _key(answer) == _key(expected):
        passed(name, f"right, out of {len(allowed)} possible answers")
        return
    found = _diagnosis(answer, mistakes, lambda wrong: _key(wrong) == _key(answer))
    raise NotYet(f"{name}: {shown(answer)} is not right{f': {found}' if found else f'. {hint}'}".rstrip())


def _key(value: Any) -> tuple[str, object]:
    plain = unwrap(value)
    if isinstance(plain, str):
        return "text", " ".join(plain.casefold().split())
    if plain is None or isinstance(plain, (bool, np.bool_)):
        return type(plain).__name__.rstrip("_"), plain
    finite = as_finite(plain)
    return ("other", id(value)) if isinstance(finite, str) else ("number", finite)


def _listed(options: list[Any]) -> str:
    whole = [o for o in options if isinstance(o, int) and not isinstance(o, bool)]
    if len(whole) == len(options) and whole == list(range(whole[0], whole[0] + len(whole))):
        return f"a whole number from {whole[0]} to {whole[-1]}"
    if len(options) > 8:
        return f"one of the {len(options)} answers named in the question"
    return "one of " + ", ".join(shown(option, width=25) for option in options)


def statements(answer: Any, *, expected: Mapping[str, tuple[bool, str]], name: str) -> None:
    """Pass if `answer` says of every statement, by its letter, whether it is true.

    `expected` maps a letter to its truth and to the reason that a wrong answer needs to read.

    Raises:
        NotYet: if the answer is no dictionary from the letters to truth values, or a statement is judged wrongly.
        ValueError: if expected is empty.
    """
    if not expected:
        raise ValueError("expected must hold at least one statement, got none")
    require_written(answer, name=name)
    letters = sorted(expected)
    if not isinstance(answer, Mapping) or set(answer) != set(letters):
        keys = f'"{letters[0]}" to "{letters[-1]}"'
        raise NotYet(f"{name} must be a dictionary with the keys {keys} and the values True or False.")
    for key, (truth, reason) in expected.items():
        value = answer[key]
        if not isinstance(value, (bool, np.bool_)):
            raise NotYet(f"{name}: the value at {key!r} is {shown(value)}; give True or False.")
        if bool(value) is not truth:
            raise NotYet(f"{name}: {key!r} is not right yet: {reason}")
    passed(name, f"all {len(expected)} settings are right")


def counterexample(
    answer: Any,
    *,
    test: Callable[[Any], str | None],
    name: str,
    mistakes: Iterable[Mistake] = (),
    shows: Callable[[Any], str] | None = None,
) -> None:
    """Pass if `answer` refutes the false claim that `test` knows.

    `test(answer)` returns None if the answer refutes the claim, else a sentence that says why not; a
    ValueError or TypeError in it means that the answer is outside the domain of the claim. `shows(answer)` says
    for the line of success how the answer refutes it.

    Raises:
        NotYet: if the answer does not refute the claim.
        ValueError: if `test` returns neither None nor a sentence.
    """
    if answer is Ellipsis or answer is None:
        not_written(name)
    whole = shown(answer)
    echo = "your answer" if whole.endswith("…") else whole
    problem = f"{echo} does not refute the claim: "
    verdict, error, *_ = attempt(test, [answer], {})
    if isinstance(error, ImportError):  # the test needs what is not installed: not the answer's fault
        raise error
    if error is not None:
        # A ValueError carries a sentence of the author of `test`; other errors need their name.
        why = str(error) if type(error) is ValueError and str(error) else explained(error)
        problem, verdict = "this is not an input that the claim speaks of: ", f"{why.removesuffix('.')}."
    if verdict is not None and not isinstance(verdict, str):
        raise ValueError(f"test must return None or a sentence, got {kind(verdict)}")
    if verdict is None:
        passed(name, f"{echo} refutes the claim" + (f": {shows(answer)}" if shows else ""))
        return
    found = _diagnosis(answer, mistakes, lambda wrong: not difference(answer, wrong, rel=1e-6, abs=1e-12))
    raise NotYet(f"{name}: {f'{echo} shows a known mistake: {found}' if found else problem + verdict}")


def argument(text: Any, *, name: str, rubric: Sequence[str], question: str, minimum_words: int = 25) -> None:
    """Read `text`, which no machine can grade: print the rubric to compare with, and a question.

    There is no tick and no point for it. The question is one that an argument with the right words and the wrong
    reason cannot answer.

    Raises:
        NotYet: if the text is missing or too short.
    """
    minimum_words = arguments.integer("minimum_words", minimum_words, 1)
    if text is Ellipsis or text is None:
        not_written(name)
    if not isinstance(text, str):
        raise NotYet(f"{name}: your answer is {kind(text)}; write your argument between triple quotes.")
    words = len(re.findall(r"[^\W_]+", text))
    if words == 0 or " ".join(text.casefold().split()).strip("*. ") == "write your answer here":
        not_written(name)
    if words < minimum_words:
        size = f"{words} word{'s' * (words != 1)}"
        raise NotYet(f"{name}: your argument has {size}. Use at least {minimum_words}: say why, not only what.")
    print(f"{name}: read, not graded. Compare your argument with these points:")
    for point in rubric:
        print(f"  - {point}")
    print(f"Does it answer this? {question}")
