"""Refuse bad input with one plain sentence.

Every public function of the package passes its arguments through these validators. A refusal is always a
``ValueError``, also for a wrong type, and its message names the argument, the allowed range and what came::

    q must be in [0, 1], got 1.5
    sigma must be in (0, inf), got nan
    k must be an integer >= 1, got 2.5

NaN and infinities never pass. Booleans are not numbers here: ``epsilon=True`` is a slip, not epsilon = 1. Nor are
durations (``numpy.timedelta64``), and an array with a mask is refused whole: what stands behind the mask is no data.
This is the bottom layer: it needs the standard library and NumPy only.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

Numbers = TypeVar("Numbers", "float", "NDArray[np.float64]")

__all__ = [
    "array",
    "as_array",
    "bits",
    "choice",
    "finite",
    "function",
    "generator",
    "integer",
    "probability",
    "real",
    "records",
    "refuse",
    "whole_numbers",
]


def _show(value: Any) -> str:
    """A short form of a rejected value in one line, so that a message never prints a whole data set."""
    if isinstance(value, np.ndarray) and value.ndim > 0:
        return f"an array of shape {value.shape}" + ("" if value.dtype.kind in "fiu" else f" of {value.dtype}")
    if isinstance(value, np.generic | np.ndarray):
        value = value.item()
    if hasattr(value, "dtype") and hasattr(value, "device"):
        shape = "" if getattr(value, "is_nested", False) else f" of shape {tuple(value.shape)}"  # which may have none
        return f"a tensor{shape} of {value.dtype} on {value.device}"
    try:
        text = " ".join(repr(value).split("\n"))
    except ValueError:  # an int of more digits than Python prints
        return "an integer too long to print"
    if len(text) <= 80:
        return text
    return f"{len(value)} items" if isinstance(value, list | tuple) else text[:77] + "..."


def _interval(low: float, high: float, low_open: bool, high_open: bool) -> str:
    left = "(" if low_open or low == -math.inf else "["
    right = ")" if high_open or high == math.inf else "]"
    return f"{left}{low:.12g}, {high:.12g}{right}"


def _scalar(value: Any) -> Any:
    """The Python number in a NumPy scalar or zero-dimensional array; anything else as it is."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return value.item() if as_array(value).dtype.kind in "biuf" else None
    return value


def _holds(value: Any, hidden: Callable[[Any], bool]) -> bool:
    """Whether NumPy would hide what `value` is, or a part of it where it is a list or a tuple."""
    return any(_holds(item, hidden) for item in value) if isinstance(value, list | tuple) else hidden(value)


def _is_masked(value: Any) -> bool:
    return isinstance(value, np.ndarray) and hasattr(value, "mask")


def as_array(value: Any) -> NDArray[Any]:
    """Return `value` as an array of whatever type; where NumPy refuses, of type object, which nothing else here takes.

    So it is for ragged lists, for objects that do not convert, and for masks, which NumPy would drop in silence.
    """
    try:
        return np.asarray(None if _holds(value, _is_masked) else value)
    except (ValueError, TypeError, RuntimeError):
        return np.asarray(None)


def refuse(name: str, allowed: str, value: object, remark: str = "") -> NoReturn:
    """Say that the argument `name` must be `allowed`, and what came: for a range that no validator here knows.

    Raises:
        ValueError: always.
    """
    raise ValueError(f"{name} must be {allowed}, got {_show(value)}{remark}")


def real(
    name: str,
    value: Any,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    low_open: bool = False,
    high_open: bool = False,
) -> float:
    """Return `value` as a finite float between `low` and `high`.

    Accepts Python and NumPy real scalars and zero-dimensional arrays. The ends belong to the range unless
    `low_open` or `high_open` says otherwise; an infinite end never does. Minus zero comes back as zero.

    Raises:
        ValueError: for anything else: bool, str, None, complex, NaN, inf, an array with a shape.
    """
    scalar, number = _scalar(value), math.nan
    is_number = isinstance(scalar, numbers.Real) and not isinstance(scalar, bool)
    if is_number:
        try:
            number = float(scalar) + 0.0  # -0.0 + 0.0 is 0.0
        except OverflowError:  # an int beyond the range of floats
            number = math.inf
    above = low < number if low_open else low <= number
    below = number < high if high_open else number <= high
    if not (math.isfinite(number) and above and below):
        shaped = getattr(value, "ndim", 0) > 0
        remark = "" if is_number or shaped else f", a {type(value).__name__}, not an int or float"
        refuse(name, f"in {_interval(low, high, low_open, high_open)}", value, remark)
    return number


def integer(name: str, value: Any, low: int | None = None, high: int | None = None) -> int:
    """Return `value` as an int between `low` and `high`, both included (None: no limit on that side).

    Raises:
        ValueError: for anything but a Python or NumPy integer: a float is refused even when it is whole.
    """
    if low is not None and high is not None:
        allowed = f"an integer in [{low}, {high}]"
    else:
        allowed = "an integer" + (f" >= {low}" if low is not None else f" <= {high}" if high is not None else "")
    scalar = _scalar(value)
    if isinstance(scalar, bool) or not isinstance(scalar, numbers.Integral):
        refuse(name, allowed, value)
    number = int(scalar)
    if (low is not None and number < low) or (high is not None and number > high):
        refuse(name, allowed, value)
    return number


def probability(name: str, value: Any) -> float:
    """Return `value` as a float in [0, 1].

    Raises:
        ValueError: for anything else.
    """
    return real(name, value, 0.0, 1.0)


def generator(name: str, rng: Any) -> np.random.Generator:
    """Return `rng` if it is a ``numpy.random.Generator``.

    Raises:
        ValueError: for anything else, a seed included: hidden randomness is not repeatable.
    """
    if not isinstance(rng, np.random.Generator):
        refuse(name, "a numpy.random.Generator, for example numpy.random.default_rng(0)", rng)
    return rng


def finite(name: str, value: Any, result: Numbers, what: str = "the result") -> Numbers:
    """Return `result`, number or array, if it is finite: the argument `name` must keep `what` within the floats.

    Raises:
        ValueError: if it is not.
    """
    if not np.isfinite(result).all():
        raise ValueError(f"{name} must keep {what} within the range of floats, got {_show(value)}")
    return result


def function(name: str, value: Any) -> None:
    """Refuse what cannot be called.

    Raises:
        ValueError: if value is not callable.
    """
    if not callable(value):
        refuse(name, "a function", value)


def records(name: str, value: Any, n: int | None = None) -> None:
    """Refuse anything but a list, tuple or array of records: `n` of them, or at least one.

    Raises:
        ValueError: for text, a set, a mapping, an iterator, an array without a shape or with a mask, or another number.
    """
    listed = isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim > 0)
    if not listed or _is_masked(value):
        refuse(name, "a list, tuple or array of records", value)
    if len(value) != n if n is not None else len(value) == 0:
        raise ValueError(f"{name} must hold {'at least 1 record' if n is None else f'{n} records'}, got {len(value)}")


def choice(name: str, value: Any, options: Sequence[str]) -> str:
    """Return `value` if it is one of the strings in `options`.

    Raises:
        ValueError: for anything else.
    """
    if not isinstance(value, str) or value not in options:
        refuse(name, "one of " + ", ".join(f'"{option}"' for option in options), value)
    return str(value)


def array(
    name: str,
    value: Any,
    *,
    ndim: int | None = None,
    shape: tuple[int, ...] | None = None,
    min_size: int = 0,
    low: float = -math.inf,
    high: float = math.inf,
    low_open: bool = False,
    high_open: bool = False,
) -> NDArray[np.float64]:
    """Return `value` as a float64 array of finite numbers.

    `ndim` or `shape` fixes the dimensions, `min_size` the least number of elements, and `low`, `high`,
    `low_open`, `high_open` the range of every element, as in `real`. A scalar becomes a zero-dimensional
    array. The result may share memory with `value`.

    Raises:
        ValueError: for text, None, booleans, complex numbers, ragged lists, masked arrays, NaN, inf, or a wrong shape.
    """

    def allowed() -> str:
        where = "" if shape is None else f" of shape {shape}"
        return f"an array of numbers in {_interval(low, high, low_open, high_open)}{where}"

    raw = as_array(value)
    hidden = isinstance(value, list | tuple) and _holds(value, lambda item: isinstance(item, bool | np.bool_))
    if (raw.dtype.kind not in "fiu" and raw.size > 0) or hidden:  # as in [0.5, True]
        refuse(name, allowed(), value)
    if ndim is not None and raw.ndim != ndim:
        refuse(name, f"an array with {ndim} dimension{'' if ndim == 1 else 's'}", value)
    if shape is not None and raw.shape != shape:
        refuse(name, f"an array of shape {shape}", value)
    if raw.size < min_size:
        refuse(name, f"an array of at least {min_size} element{'' if min_size == 1 else 's'}", value)
    numbers_ = raw
    if raw.dtype != np.float64:
        with np.errstate(over="ignore"):  # a long double beyond the range becomes inf, which is refused
            numbers_ = raw.astype(np.float64)
    good = np.isfinite(numbers_)
    if low > -math.inf:
        good &= numbers_ > low if low_open else numbers_ >= low
    if high < math.inf:
        good &= numbers_ < high if high_open else numbers_ <= high
    if not good.all():
        raise ValueError(f"{name} must be {allowed()}, got an element {numbers_[~good][0].item()!r}")
    return numbers_


def whole_numbers(
    name: str, value: Any, *, ndim: int | None = None, min_size: int = 0, low: float = 0.0, high: float = 2.0**53
) -> NDArray[np.float64]:
    """Return `value` as a float64 array of whole numbers between `low` and `high`; floats are good if they are whole.

    Up to 2^53, where a float still tells a count from the next. Shapes as in `array`.

    Raises:
        ValueError: for anything that `array` refuses, or a number that is not whole.
    """
    numbers_ = array(name, value, ndim=ndim, min_size=min_size, low=low, high=high)
    broken = numbers_ != np.floor(numbers_)
    if broken.any():
        raise ValueError(f"{name} must be an array of whole numbers, got an element {numbers_[broken][0].item()!r}")
    return numbers_


def bits(name: str, value: Any) -> NDArray[np.int8]:
    """Return `value`, a bool or an array of 0/1 (integers, floats or booleans), as int8 of the same shape.

    Raises:
        ValueError: for anything but zeros and ones.
    """
    raw = as_array(value)
    if raw.size > 0 and (raw.dtype.kind not in "biuf" or not ((raw == 0) | (raw == 1)).all()):
        refuse(name, "an array of zeros and ones", value)
    return raw.astype(np.int8)
