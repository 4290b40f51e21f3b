"""The border between answers and their tests: two processes, and lines of JSON with plain values between them.

This file alone runs in the process of the answers, as `python -c` with its text, so that it says nothing of where the
tests lie. What comes back over the border is a number, text, truth value, None, list, tuple, dictionary, set or array,
or a function that is called on the side where it was written. No object of one process gets into the other, so nothing
that answers do to Python, to a package or to the checks can reach a verdict.

Arrays, lists and dictionaries that a function changes in place are changed on the caller's side too, and a random
generator comes back advanced.
"""

from __future__ import annotations

import ast
import base64
import builtins
import contextlib
import hashlib
import importlib.util
import inspect
import io
import json
import linecache
import numbers
import os
import re
import sys
import time
import traceback
import types
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import numpy as np

RUN, LOOK, REPEAT = 0, 1, 2  # the functions that the process of the answers offers from the start
LONGEST = 2**26  # bytes of a message
MEMORY = 2**33  # bytes of addresses for the process of the answers
PRINTED = 10_000  # characters that a call may print
REFUSED = "refused: "  # begins a line on what answers have reached for
BIT_GENERATORS = {"PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"}


class Ended(BaseException):
    """The other process is gone, or does not keep to the protocol."""


class Border:
    """One side of the border: calls go out, and are answered while a call of one's own is open."""

    def __init__(self, line: Callable[[], bytes], writer: IO[bytes], given: Sequence[Callable[..., Any]] = ()) -> None:
        self.line, self.writer = line, writer  # where the next line comes from, and where to write
        self.given = dict(enumerate(given))  # what the other side may call
        self.numbers = {id(function): number for number, function in self.given.items()}
        self.calls = 0
        self.open_since: float | None = None  # when the call began that is not answered yet
        self.verdict: Any = None  # where the verdict is written: what answers print may not get into it

    def call(self, number: int, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        """What a function of the other side did: "value" or "error", and what it "printed"."""
        outer, self.open_since = self.open_since, time.monotonic()
        self.calls += 1
        serial = self.calls
        self.send({"call": number, "serial": serial, "with": self.encode([list(args), kwargs])})
        while "call" in (reply := self.receive()):
            self.answer(reply)
        if reply.get("serial") != serial:
            raise Ended("it answered what was not asked")
        try:
            if "after" in reply:
                renewed([list(args), kwargs], self.decode(reply["after"]))
            result = {"error": raised(*reply["error"])} if "error" in reply else {"value": self.decode(reply["value"])}
        except Exception as error:
            raise Ended(f"it sent what cannot be read ({type(error).__name__})") from None
        self.open_since = outer
        return {**result, "printed": str(reply.get("printed", "")), "trace": str(reply.get("trace", ""))}

    def answer(self, message: dict[str, Any]) -> None:
        """Do what the other side asks for."""
        reply: dict[str, Any] = {"serial": message.get("serial")}
        with redirect_stdout(io.StringIO()) as printed:
            try:
                args, kwargs = self.decode(message["with"])
                function = self.given[message["call"]]
                try:
                    reply["value"] = self.encode(function(*args, **kwargs))
                finally:
                    after = self.encode([args, kwargs])
                    if after != message["with"]:
                        reply["after"] = after
            except Ended:
                raise
            except BaseException as error:  # whatever answers raise, also SystemExit
                reply["error"], reply["trace"] = told(error, message["call"], self.given), trace(error)
        reply["printed"] = printed.getvalue()[:PRINTED]
        try:
            self.send(reply)
        except (ValueError, TypeError, RecursionError):
            too_large = ["ValueError", "ValueError", "the value is too large to hand over"]
            self.send({"serial": reply["serial"], "error": too_large})

    def send(self, message: dict[str, Any]) -> None:
        text = json.dumps(message).encode()
        if len(text) >= LONGEST:
            raise ValueError("the message is too long")
        try:
            self.writer.write(text + b"\n")
            self.writer.flush()
        except OSError:
            raise Ended("it has ended") from None

    def receive(self) -> dict[str, Any]:
        line = self.line()
        try:
            message = json.loads(line) if line.endswith(b"\n") else None
        except (ValueError, RecursionError):
            message = {}
        if not isinstance(message, dict) or not message.keys() & {"call", "value", "error"}:
            raise Ended("it has ended" if message is None else "it sent what cannot be read")
        return message

    def encode(self, value: Any) -> Any:
        kind = type(value)
        if kind is int and value.bit_length() > 10_000:
            return {"object": "int"}
        if value is None or kind in (bool, int, float, str):
            return value
        if kind is list:
            return [self.encode(item) for item in value]
        if value is Ellipsis:
            return {"dots": None}
        if isinstance(value, (tuple, set, frozenset)):
            return {"tuple" if isinstance(value, tuple) else "set": [self.encode(item) for item in value]}
        if isinstance(value, dict):
            return {"dict": [[self.encode(key), self.encode(item)] for key, item in value.items()]}
        if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biufcU":
            data = base64.b64encode(value.tobytes()).decode()
            return {"array" if isinstance(value, np.ndarray) else "scalar": [value.dtype.str, list(value.shape), data]}
        if isinstance(value, np.random.Generator) and type(value.bit_generator).__name__ in BIT_GENERATORS:
            return {"generator": [type(value.bit_generator).__name__, self.encode(value.bit_generator.state)]}
        if kind is complex:
            return {"complex": [value.real, value.imag]}
        if isinstance(value, (numbers.Real, Decimal)):
            return float(value)
        if hasattr(value, "theirs"):
            return {"yours": value.theirs}
        if callable(value) and not isinstance(value, type):
            number = self.numbers.setdefault(id(value), len(self.given))
            self.given[number] = value
            return {"function": [number, getattr(value, "__name__", "function"), parameters(value)]}
        return {"object": kind.__name__}

    def decode(self, data: Any) -> Any:
        if isinstance(data, list):
            return [self.decode(item) for item in data]
        if not isinstance(data, dict):
            return data
        [(tag, content)] = data.items()
        match tag:
            case "dots":
                return ...
            case "tuple":
                return tuple(self.decode(content))
            case "set":
                return set(self.decode(content))
            case "dict":
                return {self.decode(key): self.decode(item) for key, item in content}
            case "array" | "scalar":
                kind, shape, text = content
                if (dtype := np.dtype(kind)).kind not in "biufcU" or min(shape, default=0) < 0:
                    raise ValueError("no such array")
                array = np.ndarray(shape, dtype, base64.b64decode(text)).copy()
                return array if tag == "array" else array[()]
            case "generator":
                name, state = content[0], self.decode(content[1])
                if name not in BIT_GENERATORS:
                    raise ValueError("no such generator")
                # Seeded by its state, so that what is spawned from it differs from call to call, too.
                bits = getattr(np.random, name)(list(hashlib.sha256(repr(content[1]).encode()).digest()))
                bits.state = state
                return np.random.Generator(bits)
            case "complex":
                return complex(*content)
            case "yours":
                return self.given[content]
            case "function":
                return self.stand_in(*content)
            case "object":
                return type(name_of(content), (), {})()
        raise ValueError("no such value")

    def stand_in(self, number: int, name: str, signature: list[Any] | None) -> Callable[..., Any]:
        """A function that calls the one of this number on the other side."""

        def function(*args: Any, **kwargs: Any) -> Any:
            came = self.call(number, args, kwargs)
            if sys.stdout is not self.verdict:
                print(came["printed"], end="")
            if "error" in came:
                raise came["error"]  # here, so that a check sees whose error it is
            return came["value"]

        function.__name__ = function.__qualname__ = name_of(name)
        function.theirs = number

        def repeated(runs: int, *args: Any, **kwargs: Any) -> list[Any]:
            """So many calls with the same arguments, by one message to the process of the answers."""
            came = self.stand_in(REPEAT, name, None)(function, runs, args, kwargs)
            if type(came) is not list or len(came) != runs:
                raise Ended("it answered what was not asked")
            return came

        function.repeated = repeated
        if signature is not None:
            function.__signature__ = inspect.Signature(
                [
                    inspect.Parameter(
                        name_of(name), inspect._ParameterKind(kind), default=inspect.Parameter.empty if empty else ...
                    )
                    for name, kind, empty in signature
                ]
            )
        return function


def name_of(text: Any) -> str:
    return text if isinstance(text, str) and text.isidentifier() and len(text) < 100 else "unnamed"


def parameters(function: Callable[..., Any]) -> list[Any] | None:
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return [[p.name, int(p.kind), p.default is p.empty] for p in found]


def renewed(old: Any, new: Any) -> Any:
    """`old` with the content of `new`: changed in place where it can be."""
    if type(old) is not type(new):
        return new
    if isinstance(old, np.random.Generator):
        old.bit_generator.state = new.bit_generator.state
    elif isinstance(old, np.ndarray) and old.shape == new.shape and old.dtype == new.dtype:
        if old.flags.writeable:
            old[...] = new
    elif isinstance(old, list):
        old[:] = [renewed(*pair) for pair in zip(old, new, strict=False)] + new[len(old) :]
    elif isinstance(old, tuple):
        return tuple(renewed(*pair) for pair in zip(old, new, strict=False))
    elif isinstance(old, dict):
        merged = {key: renewed(old[key], item) if key in old else item for key, item in new.items()}
        old.clear()
        old.update(merged)
    else:
        return new
    return old


def told(error: BaseException, number: int, given: dict[int, Callable[..., Any]]) -> list[str]:
    """An error in three words: the built-in kind, its own name, its text."""
    base = next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins").__name__
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    inner, code = frames[-1], getattr(given.get(number), "__code__", None)
    if base == "NotImplementedError" and inner.f_code is not code and inner.f_globals.get("__name__") == "__main__":
        return ["RuntimeError", "RuntimeError", f"{inner.f_code.co_name}, which it calls, is not written yet"]
    return [base, type(error).__name__, str(error)[:2000]]


def trace(error: BaseException) -> str:
    """Where in an answer an error came from."""
    lines = traceback.format_exception(error)
    own = next((i for i, line in enumerate(lines) if '"answer ' in line), len(lines) - 1)
    return "".join(lines[own:])[-4000:]


def raised(base: Any, name: Any, text: Any) -> BaseException:
    """An error of the other side, as one of this side: a built-in kind, or a kind of this name below it."""
    kind: Any = getattr(builtins, base, None)
    if not (isinstance(kind, type) and issubclass(kind, (Exception, SystemExit))):
        kind = RuntimeError
    if issubclass(kind, (StopIteration, StopAsyncIteration)):  # a loop of the tests would end at it
        kind = RuntimeError
    own = kind if name == base else type(name_of(name), (kind,), {})
    try:
        return own(str(text))
    except TypeError:  # a kind that needs more than a text
        return RuntimeError(f"{name_of(name)}: {text}")


def names_asked(stub: str) -> list[str]:
    """The names that the cell of an answer gives a value to."""
    names = []
    for node in ast.parse(stub).body:
        names += [node.name] if isinstance(node, ast.FunctionDef) else []
        targets = node.targets if isinstance(node, ast.Assign) else []
        names += [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
    return names


class Shell:
    """IPython's shell, as far as answers have a use for it: whatever they ask of it, it does nothing."""

    def __getattr__(self, name: str) -> Shell:
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Shell:
        return self


def confined(channel: int) -> None:
    """Refuse answers, from now on, the files of others, other processes and the network; tell `channel` of it.

    Python tells a hook of such a step before it is taken. A hook stays, and nothing leads to this one: it has no name,
    and uses none that answers could give another value. Code in other languages it does not see.
    """
    with contextlib.suppress(ImportError):
        import ctypes  # noqa: F401 (it has symbols of its own to look up)
    dpml = getattr(importlib.util.find_spec("dpml"), "submodule_search_locations", None) or ()
    folders = [sys.prefix, sys.base_prefix, *(path for path in sys.path if path), *dpml]
    slash = "\\" if os.name == "nt" else "/"

    def below(*paths: str) -> tuple[str, ...]:
        found = {form(path) for path in paths for form in (os.path.abspath, os.path.realpath)}
        return tuple(f"{path.rstrip(slash).replace(slash, '/')}/" for path in found)

    own = below(str(Path.cwd()), os.devnull)
    readable = (*below(*folders, "/dev/urandom"), *own)
    words = ("mkdir", "rmdir", "remove", "rename", "chmod", "chown", "truncate", "utime")
    changes = frozenset(f"os.{name}" for name in words)
    never = ("subprocess.", "socket.", "sqlite3.", "gc.", "pty.", "winreg.", "_winapi.", "os.fork", "os.exec")
    never += ("os.posix_spawn", "os.spawn", "os.system", "os.startfile", "os.kill", "os.chdir", "os.link", "os.symlink")
    writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    # Of what is used below: every name is local, so that answers cannot give one another value.
    own_values = (
        channel,
        os.write,
        os.getpid(),
        PermissionError,
        os.name == "nt",
        changes,
        never,
        writes,
        readable,
        own,
    )
    kinds = (str, bytes, int, type)

    def hook(event: Any, args: Any, own_values: Any = own_values, kinds: Any = kinds) -> None:
        to, write, pid, error, windows, changes, never, writes, readable, own = own_values
        str, bytes, int, type = kinds
        paths, places = (), readable
        if event == "open":
            paths, places = args[:1], own if args[2] & writes else readable
        elif event == "os.listdir" or event == "os.scandir":
            paths = args[:1]
        elif event in changes:
            paths, places = args, own
        elif event == "ctypes.dlsym":
            if type(args[1]) is str and args[1].startswith("Py"):
                return
            paths = ("..",)
        elif not event.startswith(never) or (event == "os.kill" and args[0] == pid):
            return
        text, good = "", paths != ()
        for path in paths:
            if path is None or type(path) is int:  # a channel that is open, a mode, a time
                continue
            name = path.decode("utf-8", "replace") if type(path) is bytes else path if type(path) is str else ".."
            text = name
            name = name.replace("\\", "/") if windows else name
            parts = name.split("/")
            absolute = name.startswith("/") or name[1:2] == ":"
            good = good and ".." not in parts and (not absolute or f"{name}/".startswith(places))
        if not good:
            said = f"{event} {text}".strip()[:200].replace("\n", " ")
            try:
                write(to, f"refused: {said}\n".encode("utf-8", "replace"))
            finally:
                raise error(f"an answer may not do this: {said}")

    sys.addaudithook(hook)


def serve() -> None:
    """The process of the answers: run cells and call functions until the other side closes the border."""
    reader, writer = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    errors = os.dup(2)
    # What answers write to the system's own channels goes nowhere.
    with Path(os.devnull).open("rb") as nothing, Path(os.devnull).open("wb") as nowhere:
        for channel, end in ((0, nothing), (1, nowhere), (2, nowhere)):
            os.dup2(end.fileno(), channel)
    confined(errors)
    with contextlib.suppress(ImportError, ValueError, OSError):  # not on Windows; a stricter limit may hold already
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (LONGEST, LONGEST))
    sys.argv = [""]
    # A module of its own, which no name of this file gets into; and what a notebook offers besides Python.
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    module.__dict__.update(get_ipython=Shell(), display=print)
    warnings.simplefilter("ignore")

    def run(text: str, name: str) -> None:
        file = f"answer {name}"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        try:
            code = compile(text, file, "exec", dont_inherit=True)
        except SyntaxError:  # perhaps lines for the notebook alone, such as %matplotlib inline
            code = compile(re.sub(r"(?m)^[ \t]*[%!].*", "", text), file, "exec", dont_inherit=True)
        exec(code, module.__dict__)

    def look(names: list[str]) -> dict[str, Any]:
        return {name: module.__dict__[name] for name in names if name in module.__dict__}

    def repeat(function: Callable[..., Any], runs: int, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        return [function(*args, **kwargs) for _ in range(runs)]

    border = Border(lambda: reader.readline(LONGEST), writer, (run, look, repeat))
    while True:
        border.answer(border.receive())


if __name__ == "__main__":
    try:
        serve()
    except Ended:
        os._exit(0)  # whatever threads answers have left
