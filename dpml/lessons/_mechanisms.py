"""What the items that ask for a mechanism share: how it is called, and two checks in one."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

from dpml.classroom.verdict import NotYet, unfit


def asked(answer: Any, *, name: str, data: str, epsilon: float) -> Any:
    """The answer as a function of a dataset and rng; what is no function stays as it is, for the check to refuse.

    Raises: NotYet if it does not take the dataset, here called `data`, and epsilon and rng by name.
    """
    if not callable(answer):
        return answer
    if unfit(answer, (None,), {"epsilon": epsilon, "rng": None}):
        raise NotYet(f"Your {name} is called with {data}, and with epsilon and rng by name: keep the parameter names.")

    @functools.wraps(answer)
    def at_epsilon(dataset: Any, rng: Any) -> Any:
        return answer(dataset, epsilon=epsilon, rng=rng)

    return at_epsilon


def both(first: Callable[[], None], second: Callable[[], None]) -> None:
    """Run two checks; print their lines of success only if both pass."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        first()
        second()
    print(printed.getvalue(), end="")
