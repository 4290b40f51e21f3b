"""What the tests of the exercises share: an untouched stub, and the message that an answer gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from dpml.classroom.checks import NotYet


def unwritten(*args: Any, **kwargs: Any) -> None:
    """A function as the stub of an exercise leaves it."""
    raise NotImplementedError("write your answer here")


class Several(NamedTuple):
    """The answers to an item that asks for more than one: the first, and the others by name."""

    first: Any
    others: dict[str, Any]


def tried(check: Callable[..., None], answer: Any) -> None:
    """The check of an answer, or of several."""
    if isinstance(answer, Several):
        check(answer.first, **answer.others)
    else:
        check(answer)


def message(check: Callable[..., None], answer: Any) -> str:
    """The message of a check that does not pass; no message is longer than a student reads, 60 words."""
    with pytest.raises(NotYet) as caught:
        tried(check, answer)
    text = str(caught.value)
    assert len(text.split()) <= 60, text
    return text
