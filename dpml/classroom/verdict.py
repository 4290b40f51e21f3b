"""The verdict that a student sees, and the words for what came.

A check ends in one of two ways: it prints one line that starts with a tick, or it raises NotYet, which
a notebook shows as one plain sentence. A message says what was tested, what came, and which property
was expected. It never says the right value.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np


class NotYet(AssertionError):  # noqa: N818 (a verdict on an answer, not an error of the program)
    """The answer does not pass yet. Jupyter shows the message alone, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        # IPython asks for this method instead of walking through the frames of the checker.
        return [f"Not yet: {self}"]


class Mistake(NamedTuple):
    """A typical wrong answer, and the sentence that its author needs to read.

    `wrong` is a wrong value, a predicate that recognises wrong values, or (in checks of functions
    and mechanisms) a wrong implementation.
    """

    wrong: Any
    diagnosis: str


def passed(name: str, tested: str) -> None:
    """Print the line of success."""
    print(f"✓ {name}: {tested}")


def not_written(name: str) -> NoReturn:
    """Raise the message for an untouched stub."""
    raise NotYet(f"{name} is not written yet. Write your answer in the cell above, run it, then run this check.")


def require_function(answer: object, *, name: str) -> Callable[..., Any]:
    """The answer itself, if it can be called.

    Raises: NotYet if it is a stub or no function.
    """
    if answer is Ellipsis:
        not_written(name)
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
    text = _text(value)
    return text if len(text) <= width else text[: width - 1] + "…"


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


def explained(error: Exception) -> str:
    """An exception in a few words."""
    text = " ".join(str(error).split())
    return type(error).__name__ + (f" ({shown_text(text)})" if text else "")


def shown_text(text: str, *, width: int = 70) -> str:
    """Free text cut to a width."""
    return text if len(text) <= width else text[: width - 1] + "…"
