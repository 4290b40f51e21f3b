"""What the tests of the exercises share: an untouched stub, and the message that an answer gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpml.classroom.checks import NotYet


def message(check: Callable[..., None], *answer: Any, **rest: Any) -> str:
    """The message of a check that does not pass; no message is longer than a student reads, 60 words."""
    with pytest.raises(NotYet) as caught:
        check(*answer, **rest)
    text = str(caught.value)
    assert len(text.split()) <= 60, text
    return text


def unwritten(*args: Any, **kwargs: Any) -> None:
    """A function as the stub of an exercise leaves it."""
    raise NotImplementedError("write your answer here")
