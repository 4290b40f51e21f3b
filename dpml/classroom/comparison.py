"""How an answer is read and compared: numbers of every library, arrays, containers; nan never agrees."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml.classroom.verdict import kind, shown


def unwrap(value: Any) -> Any:
    """The element of a one-element array or tensor (of numpy, torch, ...); everything else as it is."""
    item = getattr(value, "item", None)
    if not callable(item):
        return value
    try:
        return item()
    except (TypeError, ValueError, RuntimeError):
        return value


def as_number(value: Any) -> float | str:
    """A float (perhaps nan or infinite), or the reason why the value is not one number."""
    plain = unwrap(value)
    if isinstance(plain, (bool, np.bool_)) or not isinstance(plain, (numbers.Real, Decimal)):
        if hasattr(plain, "shape"):
            return "is an array, not one number" if any(plain.shape) else "is an empty array"
        return f"is {kind(plain)}, not a number" + ("; call it" if callable(plain) else "")
    try:
        return float(plain)
    except (OverflowError, ValueError):
        return "is too large for a floating-point number"


def as_finite(value: Any) -> float | str:
    """Like as_number, with nan and infinity refused."""
    number = as_number(value)
    if isinstance(number, float) and math.isnan(number):
        return "is nan (not a number): look for 0/0, inf - inf or the logarithm of a negative number"
    if isinstance(number, float) and math.isinf(number):
        return "is infinite: look for a division by zero or an overflow"
    return number


def size_hint(came: float, want: float) -> str:
    """How a wrong number relates to the right one, coarse enough not to give the right one away."""
    if came == 0 or want == 0:
        return "is too large" if came > want else "is too small"
    if (came > 0) != (want > 0):
        return "has the wrong sign"
    factor = max(math.fabs(came), math.fabs(want)) / min(math.fabs(came), math.fabs(want))
    if factor < 1.01:
        if came.is_integer() and want.is_integer():
            return "is close, but not equal: see how you count, and how you round"
        return "is close, but not close enough: give the exact expression or more digits instead of a rounded number"
    direction = "is too large" if math.fabs(came) > math.fabs(want) else "is too small"
    direction += "" if want > 0 else " in absolute value"
    bounds = {1.1: "less than a tenth", 2.0: "less than a factor of two", 10.0: "less than a factor of ten"}
    size = next((words for bound, words in bounds.items() if factor < bound), "a factor of ten or more")
    return f"{direction}, by {size}"


def close(came: float, want: float, *, rel: float, abs: float) -> bool:
    """Whether two numbers agree; written so that nan never agrees with anything."""
    return came == want or math.fabs(came - want) <= abs + rel * math.fabs(want) < math.inf


def difference(came: Any, want: Any, *, rel: float, abs: float) -> str:
    """Empty if `came` agrees with `want`; else what is wrong with `came`, without telling `want`.

    Numbers agree within abs + rel*|want|, arrays entry by entry, containers item by item.
    """
    want = unwrap(want)
    if isinstance(want, (bool, np.bool_)):
        plain = unwrap(came)
        if not isinstance(plain, (bool, np.bool_)):
            return f"is {shown(plain)}, expected is True or False"
        return "" if plain == want else "is the wrong one of True and False"
    if isinstance(want, (numbers.Real, Decimal)):
        return _number_difference(came, float(want), rel=rel, abs=abs)
    if isinstance(want, Mapping):
        return _mapping_difference(came, want, rel=rel, abs=abs)
    if hasattr(want, "shape"):
        return _array_difference(came, _array(want), rel=rel, abs=abs)
    if isinstance(want, (list, tuple)):
        if not isinstance(came, (list, tuple)) and not getattr(came, "shape", ()):
            return f"is {kind(came)}, expected are {len(want)} values"
        if len(came) != len(want):
            return f"has {len(came)} values, expected are {len(want)}"
        parts = (difference(c, w, rel=rel, abs=abs) for c, w in zip(came, want, strict=True))
        return next((f"has a wrong item [{i}], which {part}" for i, part in enumerate(parts) if part), "")
    if type(came) is type(want) and came == want:
        return ""
    return "is not the right value" if type(came) is type(want) else f"is {kind(came)}, expected is {kind(want)}"


def _number_difference(came: Any, want: float, *, rel: float, abs: float) -> str:
    number = as_number(came)
    if isinstance(number, str):
        return number
    if close(number, want, rel=rel, abs=abs) or (math.isnan(want) and math.isnan(number)):
        return ""
    if math.isnan(number) or math.isinf(number):
        return str(as_finite(number))
    return "is finite, which is wrong here" if not math.isfinite(want) else size_hint(number, want)


def _mapping_difference(came: Any, want: Mapping[Any, Any], *, rel: float, abs: float) -> str:
    if not isinstance(came, Mapping):
        return f"is {kind(came)}, expected is a dictionary"
    if set(came) != set(want):
        return "has the wrong keys"
    parts = {key: difference(came[key], want[key], rel=rel, abs=abs) for key in want}
    return next((f"has a wrong item [{key!r}], which {part}" for key, part in parts.items() if part), "")


def _array(value: Any) -> NDArray[Any]:
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def _array_difference(came: Any, want: NDArray[Any], *, rel: float, abs: float) -> str:
    expected = f"expected is an array of shape {want.shape}"
    try:
        array = _array(came)
    except (TypeError, ValueError, RuntimeError):
        return f"is {kind(came)}, {expected}"
    if array.dtype.kind not in "buif":
        return f"is {kind(came)}, {expected}" if array.ndim == 0 else "does not hold real numbers"
    if array.shape != want.shape:
        return f"has shape {array.shape}, {expected}"
    a, w = array.astype(float), want.astype(float)
    wrong = ~np.isclose(a, w, rtol=rel, atol=abs, equal_nan=True)
    if not wrong.any():
        return ""
    where = tuple(int(i) for i in np.argwhere(wrong)[0])
    index = ", ".join(map(str, where))
    return f"has a wrong entry [{index}], which {_number_difference(a[where], float(w[where]), rel=rel, abs=abs)}"


def identical(before: Any, now: Any) -> bool:
    """Whether a value is still what a copy from before says. Objects of unknown type, a random generator
    among them, count as unchanged: drawing from a generator is what it is for."""
    if isinstance(before, Mapping):
        return before.keys() == now.keys() and all(identical(before[key], now[key]) for key in before)
    if isinstance(before, (list, tuple)):
        return len(before) == len(now) and all(map(identical, before, now))
    if getattr(before, "shape", ()):
        return bool(np.array_equal(before, now, equal_nan=np.asarray(before).dtype.kind == "f"))
    if isinstance(before, (numbers.Number, np.bool_, str, bytes, bytearray, set, frozenset)):
        both_nan = before != before and now != now
        return bool(both_nan or before == now)
    return (before is None) == (now is None)


def _leaves(value: Any) -> Iterator[Any]:
    """What the containers hold that are no containers; an array counts as a whole."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def size(value: Any) -> int:
    """The number of scalars in a value: the measure of "smallest"."""
    return sum(math.prod(getattr(leaf, "shape", ())) for leaf in _leaves(value))


def holds_nan(value: Any) -> bool:
    """Whether nan is anywhere in a number, an array or a container."""
    read = [_array(leaf) for leaf in _leaves(value) if isinstance(leaf, numbers.Real) or hasattr(leaf, "shape")]
    return any(array.dtype.kind == "f" and np.isnan(array).any() for array in read)
