"""The verdict that a student sees, and the words for what came.

A check ends in one of two ways: it prints one line that starts with a tick, or it raises NotYet, which
a notebook shows as one plain sentence. A message says what was tested, what came, and which property
was expected. It never says the right value.
"""

from __future__ import annotations

import inspect
import io
import numbers
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any, NamedTuple, NoReturn

import numpy as np

UNWRITTEN = "write your answer here"  # what a stub says, in code and in text


class NotYet(AssertionError):  # noqa: N818 (a verdict on an answer, not an error of the program)
    """The answer does not pass yet. Jupyter shows the message alone, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        # IPython asks for this method instead of walking through the frames of the checker.
        return [f"Not yet: {self}"]


class Mistake(NamedTuple):
    """A typical wrong answer, and the sentence that its author needs to read.

    `wrong` is a wrong value, a predicate that recognises wrong values, a wrong implementation (in `function`) or a
    wrong law (in `law`). A test gives each back to its check as an answer and expects the diagnosis; for a predicate
    that is `example`, a value that it recognises.
    """

    wrong: Any
    diagnosis: str
    example: Any = None


def passed(name: str, tested: str) -> None:
    """Print the line of success."""
    print(f"✓ {name}: {tested}")


def together(*parts: Callable[[], None]) -> None:
    """Run several checks of one answer; print their lines of success only if all pass.

    Raises:
        NotYet: what the first check raises that does not pass.
    """
    printed = io.StringIO()
    with redirect_stdout(printed):
        for part in parts:
            part()
    print(printed.getvalue(), end="")


def not_written(name: str) -> NoReturn:
    """Raise the message for an untouched stub, or for several, whose names have commas between them."""
    names = name.split(", ")
    be = "are" if len(names) > 1 else "is"
    raise NotYet(f"{listed(names)} {be} not written yet. Write your answer, run it, then run this check.")


def require_written(answer: object, *, name: str) -> None:
    """Raise the message for an untouched stub if the answer is one: the dots of `name = ...`."""
    if answer is Ellipsis:
        not_written(name)


def listed(words: Sequence[str]) -> str:
    """Words as a sentence lists them: a, b and c."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def unfit(f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Why the parameters of `f` do not take these arguments, to follow its name; empty if they do."""
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):  # a function written in C that does not tell its signature
        return ""
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        count = [f"{len(args)} argument{'s' * (len(args) != 1)}"] if args else []
        given = ", ".join([*count, *kwargs]) or "no arguments"
        return f"takes {signature}, but is called with {given}" + (": keep the parameter names" if kwargs else "")
    return ""


def require_function(answer: object, *, name: str) -> Callable[..., Any]:
    """The answer itself, if it can be called.

    Raises: NotYet if it is a stub or no function.
    """
    require_written(answer, name=name)
    if not callable(answer):
        raise NotYet(f"{name} must be a function, but it is {kind(answer)}.")
    return answer


def kind(value: object) -> str:
    """What sort of thing a value is, in words that a beginner knows."""
    if value is None:
        return "None"
    if isinstance(value, (bool, np.bool_)):
        return "a truth value (True or False)"
    if isinstance(value, str):
        return "text (a string)"
    if callable(value):
        return "a function"
    return f"an object of type {type(value).__name__}"


def shown(value: Any, *, width: int = 60) -> str:
    """A short text for a value; never the repr of an unknown object, which may be long or fail."""
    return shown_text(_text(value), width=width)


def _text(value: Any) -> str:
    if hasattr(value, "detach") and hasattr(value, "tolist"):
        value = value.detach().tolist()
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_text(k)}: {_text(v)}" for k, v in list(value.items())[:20]) + "}"
    if isinstance(value, (list, tuple)):
        inside = ", ".join(_text(v) for v in value[:20])
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    if value is None or isinstance(value, (str, int, complex, set, frozenset, numbers.Number)):
        return repr(value)
    return f"a {type(value).__name__}"


def brief(message: Callable[[int], str]) -> str:
    """A message, which quotes inputs and results in so many characters, with as many as leave it at most 60 words."""
    told = (message(width) for width in (90, 60, 40, 25))
    return next((text for text in told if len(text.split()) <= 60), "") or message(12)


def explained(error: Exception) -> str:
    """An exception in a few words."""
    text = " ".join(str(error).split())
    return type(error).__name__ + (f" ({shown_text(text)})" if text else "")


def shown_text(text: str, *, width: int = 70) -> str:
    """Free text cut to a width."""
    return text if len(text) <= width else text[: width - 1] + "…"
