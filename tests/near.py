"""What `pytest.approx` is in this suite: without the 1e-12 that it allows beside any relative tolerance."""

from typing import Any

from pytest import approx


def near(expected: Any, rel: float | None = None, abs: float | None = None) -> Any:
    """As `pytest.approx`, but a delta of 1e-20 does not pass as anything below 1e-12."""
    relative = 1e-6 if rel is None and abs is None else rel
    return approx(expected, rel=relative, abs=0.0 if abs is None else abs)
