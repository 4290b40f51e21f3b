"""What the tests of the exercises share: several answers to one item, and the message that an answer gets."""

from collections.abc import Callable
from typing import Any, NamedTuple

from dpml.classroom.checks import NotYet


class Several(NamedTuple):
    """The answers to an item that asks for more than one: the first, and the others by name."""

    first: Any
    others: dict[str, Any]


def told(check: Callable[..., None], answer: Any) -> str:
    """The message of a check, empty if it passes: one paragraph of at most 60 words."""
    first, others = answer if isinstance(answer, Several) else (answer, {})
    try:
        check(first, **others)
    except NotYet as verdict:
        message = str(verdict)
        assert len(message.split()) <= 60 and "\n" not in message and "Traceback" not in message, message
        return message
    return ""
