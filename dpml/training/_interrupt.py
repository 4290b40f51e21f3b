"""Let a step finish before an interruption takes effect."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Any

__all__ = ["Deferred"]


class Deferred:
    """While open, the first Ctrl+C only sets `asked`; a second one interrupts at once.

    Outside the main thread, or where the program handles or ignores the signal in its own way, nothing is changed.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: Any = None

    def __enter__(self) -> Deferred:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            try:
                self._before = signal.signal(signal.SIGINT, self._ask)
            except ValueError:  # not the main thread, which receives no signals
                self._before = None
        return self

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
