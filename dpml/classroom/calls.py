"""Calling a student's function: with the names that it must have, quietly, and reading what it returns."""

from __future__ import annotations

import copy
import ctypes
import functools
import inspect
import io
import math
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from dpml.classroom import verdict
from dpml.classroom.comparison import identical, unwrap
from dpml.classroom.laws import Law
from dpml.classroom.verdict import NotYet, explained, kind, not_written, require_function, require_written, shown

Setting = Mapping[str, Any]
P = ParamSpec("P")
T = TypeVar("T")

LIMIT = 60.0  # seconds for a check, which takes about one


def limited(check: Callable[P, T]) -> Callable[P, T]:
    """The check under NumPy's own settings; with one sentence where the student or the limit of time stops it."""

    @functools.wraps(check)
    @np.errstate(all="warn", under="ignore")
    def run(*args: P.args, **given: P.kwargs) -> T:
        if sys.platform == "emscripten":  # a browser has no threads; its page has a button that stops
            return check(*args, **given)
        ended, late, here = threading.Event(), threading.Event(), ctypes.c_ulong(threading.get_ident())

        def watch() -> None:
            limit = LIMIT
            while not ended.wait(limit):  # again for a loop that catches whatever it is told
                late.set()
                ctypes.pythonapi.PyThreadState_SetAsyncExc(here, ctypes.py_object(KeyboardInterrupt))
                limit = 1.0

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            return check(*args, **given)
        except KeyboardInterrupt:
            came = (
                f"had not ended after {LIMIT:g} seconds" if late.is_set() else "was stopped before its check had ended"
            )
            raise NotYet(f"{given['name']} {came}. If it never ends, look at where its loops stop.") from None
        finally:
            ended.set()
            watcher.join()

    return run


def settings(names: str, *rows: Sequence[Any]) -> list[dict[str, Any]]:
    """What an answer is called with: each row of values under the names of the parameters.

    >>> settings("n epsilon", (2, 0.5), (10, 1.0))
    [{'n': 2, 'epsilon': 0.5}, {'n': 10, 'epsilon': 1.0}]
    """
    return [dict(zip(names.split(), row, strict=True)) for row in rows]


def spoken(setting: Setting, *, width: int = 20, whole: int = 1000) -> str:
    """The arguments of a call in so many characters each and in all; not the random generator, always there."""
    told = (f"{key} = {shown(value, width=width)}" for key, value in setting.items() if key != "rng")
    return verdict.shown_text(", ".join(told), width=whole)


@contextmanager
def quiet() -> Iterator[io.StringIO]:
    """Runs student code without its prints and warnings, under NumPy's own settings; yields what it prints."""
    printed = io.StringIO()
    with warnings.catch_warnings(), redirect_stdout(printed), np.errstate(all="warn", under="ignore"):
        warnings.simplefilter("ignore")
        yield printed


@limited
def signature(answer: Any, *, name: str, called: Setting, returns: tuple[int, ...] | None = None) -> Callable[..., Any]:
    """The answer, if it is a function that can be called as it will be, and returns something.

    `called` maps the names of the arguments to values for one probing call: the first is passed by position, the
    others by name. The result must be an array of finite numbers of the shape `returns`, if that is given.

    Raises:
        NotYet: if the answer is not written, takes other arguments, raises, returns nothing or another shape.
    """
    f = takes(answer, name=name, called=called)
    value = returned(called_once(f, called, name=name), called, name=name)
    if returns is not None and numbers(value, returns) is None:
        raise NotYet(f"{name} must return {_sized(returns)} for {spoken(called)}; it returned {shown(value)}.")
    return f


def takes(answer: Any, *, name: str, called: Iterable[str]) -> Callable[..., Any]:
    """The answer, if it is a function that takes the first of these arguments by position and the others by name.

    Raises:
        NotYet: if it is none.
    """
    f = require_function(answer, name=name)
    first, *rest = called
    if verdict.unfit(f, (None,), dict.fromkeys(rest)):
        by_name = f", and with {verdict.listed(rest)} by name" if rest else ""
        raise NotYet(f"Your {name} is called with {first}{by_name}: keep the parameter names.")
    return f


def _sized(shape: tuple[int, ...]) -> str:
    return "one number" if not shape else f"{shape[0]} numbers" if len(shape) == 1 else f"an array of shape {shape}"


class Came(NamedTuple):
    """What one call did."""

    value: Any
    error: Exception | None
    printed: bool
    changed: str  # the argument that it changed in place, or empty


def attempt(f: Callable[..., Any], args: Sequence[Any], kwargs: Setting) -> Came:
    """Call student code quietly, with copies of the arguments; whatever it raises but a verdict is in the result."""
    names = [
        *(key for key in named(f, args, kwargs) if key not in kwargs),
        *(f"number {i + 1}" for i in range(len(args))),
    ]
    before = dict(zip(names, args, strict=False)) | dict(kwargs)
    mine = _copied(before)
    value, error = None, None
    with quiet() as printed:
        try:
            value = f(*list(mine.values())[: len(args)], **{key: mine[key] for key in kwargs})
        except NotYet:
            raise
        except Exception as problem:  # whatever student code raises becomes one sentence
            error = problem
        except SystemExit:
            error = RuntimeError("it ends the program; return a value instead")
    changed = next((key for key in before if not identical(before[key], mine[key])), "")
    # The result may be one of the arguments, or be written to by a later call: keep it as it was returned.
    return Came(_copied(value), error, bool(printed.getvalue().strip()), changed)


def answered(f: Callable[..., Any], args: Sequence[Any], kwargs: Setting, *, name: str) -> Came:
    """As `attempt`, of an answer.

    Raises:
        NotYet: if the answer, or what it calls, is not written.
    """
    came = attempt(f, args, kwargs)
    _refuse_unwritten(came.error, name=name)
    require_written(came.value, name=name)
    return came


def _refuse_unwritten(error: Exception | None, *, name: str) -> None:
    """Raise the message for an untouched stub, or for one that the answer calls; return if the error is another one."""
    if not isinstance(error, NotImplementedError) or str(error) != verdict.UNWRITTEN:
        return
    # A check may wrap the answer in a function of its own.
    steps = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    theirs = [frame.f_code for frame in steps if not str(frame.f_globals.get("__name__")).startswith("dpml.")]
    if theirs[-1] is theirs[0]:
        not_written(name)
    missing = theirs[-1].co_name.strip("<>")
    raise NotYet(f"{name} calls {missing}, which is not written yet. Write {missing} first and run its cell.")


def _copied(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:  # an iterator, a tensor inside a graph: as it is
        return value


def named(f: Callable[..., Any], args: Sequence[Any], kwargs: Setting) -> dict[str, Any]:
    """The arguments by name, in order; those given by name if the function does not tell the others."""
    try:
        bound = inspect.signature(f).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return dict(kwargs)
    return dict(kwargs) if any(key in ("args", "kwargs") for key in bound) else dict(bound)


def watched(f: Callable[..., Any], *, name: str) -> Callable[..., Any]:
    """The function with a verdict where a call changes its arguments or returns nothing; its errors stay errors."""

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        came = answered(f, args, kwargs, name=name)
        if came.error is not None:
            raise came.error
        return returned(_unchanged(came, name=name), named(f, args, kwargs), name=name)

    return call


def called_once(f: Callable[..., Any], setting: Setting, *, name: str) -> Any:
    """The result of one call with a copy of the arguments; an error in it becomes the verdict."""
    first, *rest = setting
    came = answered(f, [setting[first]], {key: setting[key] for key in rest}, name=name)
    if came.error is not None:
        raise _raised(came.error, setting, name=name)
    return _unchanged(came, name=name)


def _unchanged(came: Came, *, name: str) -> Any:
    if came.changed:
        raise NotYet(f"{name} changes the {came.changed} that it is given: work on a copy.")
    return came.value


def _raised(error: Exception, setting: Setting, *, name: str) -> NotYet:
    return NotYet(f"{name} raised {explained(error)} for {spoken(setting)}.")


def returned(value: Any, setting: Setting, *, name: str) -> Any:
    """The result of a call, if it is one.

    Raises:
        NotYet: if it is none.
    """
    require_written(value, name=name)
    if value is None:
        raise NotYet(f"{name} returned None for {spoken(setting)}: is a return missing?")
    return value


def numbers(value: Any, shape: tuple[int, ...]) -> Any:
    """The value as finite numbers of this shape, or None."""
    try:
        array = np.asarray(value.detach() if hasattr(value, "detach") else value)
        array = array.astype(float) if array.dtype.kind in "biuf" else np.array(math.nan)
    except (TypeError, ValueError, RuntimeError):
        return None
    if shape == () and array.size == 1:
        array = array.reshape(())
    return array.tolist() if array.shape == shape and np.isfinite(array).all() else None


def _label(value: Any) -> Any:
    """A hashable outcome; Ellipsis for what is none."""
    # Nearly all are plain, and a check reads some ten thousand.
    plain = value if type(value) in (int, bool, str, type(None)) else unwrap(value)
    if plain is None or isinstance(plain, (str, bool, int, float, np.number, np.bool_)):
        return plain if plain == plain else Ellipsis
    if isinstance(plain, (list, tuple)) or hasattr(plain, "tolist"):
        inside = tuple(map(_label, plain.tolist() if hasattr(plain, "tolist") else plain))
        return Ellipsis if any(item is Ellipsis for item in inside) else inside
    return Ellipsis


def outcome(value: Any, form: Law | Sequence[Law], setting: Setting, *, name: str) -> Any:
    """What came, in the form of its law: a number, a label, or a tuple of as many numbers as there are laws.

    Raises:
        NotYet: if it has another form.
    """
    if not isinstance(form, Law) or None not in (form.outcomes or {}):
        returned(value, setting, name=name)
    found: Any
    if not isinstance(form, Law):
        found, expected = numbers(value, (len(form),)), f"{len(form)} finite numbers"
        found = Ellipsis if found is None else tuple(found)
    elif form.outcomes is not None:
        found, expected = _label(value), "one of the possible outcomes"
    elif type(value) is float and math.isfinite(value):
        return value
    else:
        found, expected = numbers(value, ()), "one finite number"
        found = Ellipsis if found is None else found
    if found is Ellipsis:
        came = shown(value) if isinstance(value, (int, float, list, tuple, np.generic, np.ndarray)) else kind(value)
        raise NotYet(f"{name} returned {came} for {spoken(setting)}; expected is {expected}.")
    return found


def draw(
    f: Callable[..., Any],
    setting: Setting,
    *,
    form: Law | Sequence[Law],
    runs: int,
    rng: np.random.Generator,
    name: str,
) -> list[Any]:
    """The outcomes of many runs at one setting, with one generator running through all of them.

    An answer that runs in another process may have an attribute `repeated`, by which it is called many times at once.
    """
    data, *rest = copy.deepcopy(dict(setting)).values()
    named = dict(zip(list(setting)[1:], rest, strict=True))
    repeated = getattr(f, "repeated", lambda runs, *args, **named: [f(*args, **named) for _ in range(runs)])
    came = list[Any]()
    error = attempt(lambda: came.extend(repeated(runs, data, **named, rng=rng)), [], {}).error
    if error is not None:
        raise _raised(error, setting, name=name)
    return [outcome(value, form, setting, name=name) for value in came]


def replayed(
    f: Callable[..., Any], setting: Setting, form: Law | Sequence[Law], *, name: str, before: Sequence[Any] = ()
) -> list[Any]:
    """The outcomes of calls with generators in known states, which must agree, also with those from `before`.

    Raises:
        NotYet: if they do not, or if a call changes its arguments.
    """
    outcomes = []
    for seed in range(20):
        fresh = ({**setting, "rng": np.random.default_rng(seed)} for _ in range(2))
        came = [called_once(f, called, name=name) for called in fresh]
        found = [outcome(value, form, setting, name=name) for value in came]
        outcomes.append(found[0])
        if before and found[0] != before[seed]:
            raise NotYet(
                f"{name} remembers earlier calls: with rng in the same state it gave {shown(before[seed])} at first "
                f"and {shown(came[0])} later, for {spoken(setting)}. Compute all from the arguments of the call."
            )
        if found[0] != found[1]:
            raise NotYet(
                f"{name} uses its own randomness: two calls with rng in the same state gave {shown(came[0])} and "
                f"{shown(came[1])}. Draw all noise from the rng that it is given."
            )
    return outcomes
