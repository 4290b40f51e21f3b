"""What `pytest.approx` is in this suite: without the 1e-12 that it allows beside any relative tolerance."""

from typing import Any

import pytest

_approx = pytest.approx


def near(expected: Any, rel: float | None = None, abs: float | None = None, nan_ok: bool = False) -> Any:
    """As `pytest.approx`, but a delta of 1e-20 does not pass as anything below 1e-12."""
    if abs is None:
        rel, abs = 1e-6 if rel is None else rel, 0.0
    return _approx(expected, rel=rel, abs=abs, nan_ok=nan_ok)
