"""The border between answers and tests: what comes over it, what does not, and what no answer does to a verdict."""

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assignments import answers, grader
from assignments.answers import Border, Ended

IMPORTS = "import numpy as np\n\nfrom dpml.classroom import checks"


def verdicts(*items: tuple[str, str, str], **settings: Any) -> list[grader.Verdict]:
    """Of items given as stub, answer and test."""
    listed = [
        grader.Item(f"item-{k}", stub, answer, "pass", test)
        for k, (stub, answer, test) in enumerate(items)
    ]  # fmt: skip
    return grader.examined(IMPORTS, listed, **settings)


def sent(value: Any) -> Any:
    """A value on the other side."""
    here, there = (Border(io.BytesIO().readline, io.BytesIO()) for _ in range(2))
    return there.decode(here.encode(value))


ARRAYS = [np.arange(6.0).reshape(2, 3).T, np.array([[True], [False]]), np.zeros((0, 4), dtype=np.int32), np.array(3.5)]
ARRAYS += [np.array(["a", "bcd"]), np.float32(0.1), np.uint8(200), np.array([1 + 2j, np.nan])]


@pytest.mark.parametrize("value", ARRAYS, ids=repr)
def test_arrays_come_over_to_the_bit(value: Any) -> None:
    came = sent(value)
    assert type(came) is type(value) and came.dtype == value.dtype and came.shape == value.shape
    assert came.tobytes() == value.tobytes()


def test_plain_values_come_over() -> None:
    value = [None, True, 1, -(2**80), 0.1, float("inf"), "ε\n", (1, [2]), {"a": (), 3: {4.5, "b"}}, ..., 2j]
    came = sent(value)
    assert came == value
    assert [type(item) for item in came] == [type(item) for item in value]
    assert np.isnan(sent(float("nan")))


@pytest.mark.parametrize("kind", sorted(answers.BIT_GENERATORS))
def test_a_generator_comes_over_with_its_state(kind: str) -> None:
    rng = np.random.Generator(getattr(np.random, kind)(7))
    rng.random(3)
    rng.integers(5, dtype=np.uint32)  # half of a number is left over
    came = sent(rng)
    assert came.random(4).tolist() == rng.random(4).tolist()
    assert came.integers(9, size=5, dtype=np.uint32).tolist() == rng.integers(9, size=5, dtype=np.uint32).tolist()
    one, other = (sent(rng).spawn(1)[0].random() for _ in range(2) if rng.random())
    assert one != other


class Always:
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None

    def __float__(self) -> float:
        return 1.0


class Text(str):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


@pytest.mark.parametrize(
    "value",
    [Always(), np.array([Always()]), Always, open, np.array([None])],
    ids=["instance", "array of one", "class", "built-in", "array of None"],
)
def test_no_object_comes_over(value: Any) -> None:
    came = sent([value])[0]
    assert type(came).__module__ in ("builtins", "assignments.answers")
    assert came != 1.0 and not isinstance(came, (Always, np.ndarray))


def test_a_number_of_a_kind_of_its_own_is_a_plain_one() -> None:
    assert sent(Text("no")) != "yes"
    assert type(sent(Text("no"))) is not Text


HOSTILE = [
    b'{"serial": 1, "value": {"array": ["|O", [1], "AAAAAAAAAAA="]}}\n',
    b'{"serial": 1, "value": {"array": ["<f8", [100000000], "AAAA"]}}\n',
    b'{"serial": 1, "value": {"array": ["<f8", [-1], ""]}}\n',
    b'{"serial": 1, "value": {"generator": ["default_rng", 1]}}\n',
    b'{"serial": 1, "value": {"pickle": "gASVAAAA"}}\n',
    b'{"serial": 1, "value": {"yours": 5}}\n',
    b'{"serial": 1, "value": {"set": [[1]]}}\n',
    b'{"serial": 1, "value": {"a": 1, "b": 2}}\n',
    b'{"serial": 1, "error": ["eval", "x"]}\n',
    b'{"serial": 1, "neither": 1}\n',
    b'{"serial": 2, "value": 1}\n',
    b'{"value": 1}\n',
    b"[1]\n",
    b"not JSON\n",
    b'{"serial": 1, "value": 1',
    b"[" * 100_000 + b"\n",
    b"",
]


@pytest.mark.parametrize("line", HOSTILE, ids=lambda line: repr(line[:40]))
def test_what_cannot_be_read_ends_the_exchange(line: bytes) -> None:
    with pytest.raises(Ended):
        Border(io.BytesIO(line).readline, io.BytesIO()).call(5, [], {})


@pytest.mark.parametrize(
    "base", ["eval", "KeyboardInterrupt", "object", "StopIteration", "GeneratorExit", "__import__"]
)
def test_an_error_of_the_other_side_is_an_ordinary_one(base: str) -> None:
    error = answers.raised(base, "NotYet", "text")
    assert isinstance(error, RuntimeError) and "text" in str(error)
    assert isinstance(answers.raised("ValueError", "LinAlgError", "singular"), ValueError)


def test_functions_work_across_the_border() -> None:
    answer = """
def f(values, *, scale=2.0, rng):
    print("working")
    values[0] = -1.0
    return scale * values.sum() + rng.normal(), [rng.random(2)]
def g(measure, data):
    return lambda factor: factor * measure(data)
def h(n):
    if n > 2:
        raise ValueError(f"n = {n} is too much")
    return g
"""
    test = """
import inspect
assert str(inspect.signature(f)).startswith("(values, *, scale=") and f.__name__ == "f"
rng, same, values = np.random.default_rng(1), np.random.default_rng(1), np.array([1.0, 2.0])
value, [two] = f(values, rng=rng)
assert value == 2.0 * 1.0 + same.normal() and two.tolist() == same.random(2).tolist()
assert rng.bit_generator.state == same.bit_generator.state and values.tolist() == [-1.0, 2.0]
seen = []
assert g(lambda data: seen.append(data) or len(data), [1, 2, 3])(10) == 30 and seen == [[1, 2, 3]]
try:
    h(3)
except ValueError as error:
    assert str(error) == "n = 3 is too much"
else:
    raise AssertionError
assert h(1)(len, [0])(2) == 2
assert g(lambda data: h(1)(len, data)(3), [0])(2) == 6
same = np.random.default_rng(1)
rng, values = np.random.default_rng(1), np.array([1.0, 2.0])
together, alone = f.repeated(3, values, scale=1.0, rng=rng), [f(values, scale=1.0, rng=same) for _ in range(3)]
assert [value for value, _ in together] == [value for value, _ in alone]
assert rng.bit_generator.state == same.bit_generator.state
print("fine")
"""
    [came] = verdicts(("def f(): ...\ndef g(): ...\ndef h(): ...", answer, test))
    assert came.text == "fine\n" and came.passed


def test_a_stub_and_what_it_calls_are_told() -> None:
    stub = 'def f(x):\n    raise NotImplementedError("write your answer here")'
    test = 'checks.function(f, name="f", reference=lambda x: x, inputs=[1.0, 2.0])'
    calls = "def f(x):\n    return g(x)\ndef g(x):\n    raise NotImplementedError"
    unwritten, calling, undefined, missing, broken = verdicts(
        (stub, stub, test),
        (stub, calls, test),
        ("x = ...", "y = 1", 'checks.form(x, name="x")'),
        ("z = ...", "z = ...", 'checks.form(z, name="z")'),
        ("u = ...", "u = 1 / 0", 'checks.form(u, name="u")'),
    )
    assert "f is not written yet" in unwritten.text and unwritten.error == ""
    assert "g, which it calls, is not written yet" in calling.text
    assert "x is not written yet" in undefined.text and "z is not written yet" in missing.text
    assert broken.error == "ZeroDivisionError" and "u = 1 / 0" in broken.trace and "u is not written yet" in broken.text


def test_a_print_is_no_verdict() -> None:
    test = 'checks.function(f, name="f", reference=lambda: 1, inputs=[()])\nassert f() == 1'
    right, wrong = "def f():\n    print('✓ forged')\n    return 1", "def f():\n    print('✓ forged')"
    passed, failed = verdicts(("def f(): ...", right, test), ("def f(): ...", wrong, test))
    assert passed.passed and "forged" not in passed.text
    assert not failed.passed and "printed its result but returned None" in failed.text


GOOD = ("a = ...", "a = 1", "assert a == 1")
NEVER = "def b():\n    while True:\n        pass"
SHOUTS = """
import os
for channel in range(20):
    try:
        os.write(channel, {text!r}.encode())
    except OSError:
        pass
{rest}
"""
ENDS = {
    "in the cell": ("import os; os._exit(3)\nb = 1", "assert b == 1"),
    "in a call": ("def b():\n    import os; os._exit(0)", "try:\n    b()\nexcept Exception:\n    pass"),
    "by a signal": ("import os, signal; os.kill(os.getpid(), getattr(signal, 'SIGKILL', 9))", "pass"),
    "by what it sends": (SHOUTS.format(text="nonsense\n", rest=""), "pass"),
}


@pytest.mark.parametrize("how", ENDS)
def test_an_answer_that_ends_its_process_costs_its_own_item(how: str) -> None:
    answer, test = ENDS[how]
    later = ("c = ...", "c = a + 1", "assert (a, c) == (1, 2)")
    first, ended, last = verdicts(GOOD, ("def b(): ...\nb = ...", answer, test), later)
    assert first.passed and last.passed and last.ended == ""
    assert not ended.passed and ended.ended.startswith("item-1 ")


@pytest.mark.parametrize("answer", ["while True:\n    pass", NEVER])
def test_an_answer_that_never_ends_is_ended(answer: str) -> None:
    # Three seconds would be short for work, which the other items do not do.
    first, late, last = verdicts(GOOD, ("def b(): ...", answer, "b()"), GOOD, limit=3.0)
    assert first.passed and last.passed
    assert not late.passed and late.ended == "item-1 had not ended in time"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system does not hold to the limit")
def test_an_answer_that_asks_for_all_memory_or_disk_gets_an_error() -> None:
    memory = ("x = ...", "x = np.ones(2**31)", "assert x is not ...")
    disk = ("y = ...", "with open('file', 'wb') as file:\n    file.truncate(2**40)\ny = 1", "assert y == 1")
    one, other, last = verdicts(memory, disk, GOOD)
    assert (one.error, other.error) == ("MemoryError", "OSError") and last.passed


NAN = "checks.function(f, name='f', reference=lambda x: x, inputs=[1.0, 2.0])"
EQUALS = """
class A(float):
    __eq__ = __lt__ = __gt__ = __le__ = __ge__ = lambda self, other: True
    __hash__ = None
f = A(0)
"""
FAKES = """
import sys, types
import dpml.classroom
fake = types.ModuleType("checks")
fake.number = print
sys.modules["dpml.classroom.checks"] = dpml.classroom.checks = fake
f = 0.0
"""
FRAMES = """
import sys
def f():
    frame, found = sys._getframe(), 0
    while frame:
        found = frame.f_locals.get("expected", frame.f_globals.get("expected", found))
        frame = frame.f_back
    return found
"""
FEWER = """
import sys
def f(value, *, rng):
    frame = sys._getframe()
    while frame := frame.f_back:
        if "border" in frame.f_locals:
            frame.f_locals["border"].given[2] = lambda *args: []
    return rng.normal(value)
"""
LAW = """
from dpml.classroom import laws
normal = lambda value, *, noise: laws.normal(value, 2 * noise)
checks.law(f, law=normal, settings=[{"value": 1.0}], name="f")
"""
VERDICT = '[["item-0", true, "", "", "", "", "", ""]]'
CHEATS = {
    "a number that equals everything": (EQUALS, "assert f == 7.25"),
    "a function that returns one": (f"{EQUALS}\ng, f = f, lambda x: g", "assert f(2.0) == 7.25"),
    "an end of the loop": ("def f(x):\n    raise StopIteration", "assert all(map(f, [1, 2]))"),
    "not a number": ("def f(x):\n    return float('nan')", NAN),
    "a module of the same name": (
        FAKES,
        "from dpml.classroom import checks\nchecks.number(f, name='f', expected=7.25)",
    ),
    "builtins": (
        "import builtins\nbuiltins.AssertionError = KeyError\nbuiltins.abs = lambda x: 0.0\nf = 1.0",
        "assert abs(f - 7.25) < 1e-9",
    ),
    "an answer to the next question": (SHOUTS.format(text='{"value": null}\n' * 5, rest="f = 1.0"), "assert f == 7.25"),
    "what a verdict looks like": (SHOUTS.format(text=VERDICT, rest="f = 1.0"), "assert f == 7.25"),
    "at exit": ("import atexit, os\natexit.register(lambda: os._exit(0))\nraise SystemExit(0)", "assert f == 7.25"),
    "no runs in place of many": (FEWER, LAW),
    "the frames": (FRAMES, "expected = 7.25\nassert f() == expected"),
}


@pytest.mark.parametrize("how", CHEATS)
def test_no_cheat_reaches_the_verdict(how: str) -> None:
    answer, test = CHEATS[how]
    cheat, honest = verdicts(("f = ...", answer, test), GOOD)
    assert not cheat.passed
    assert honest.passed


def test_answers_see_neither_where_the_tests_lie_nor_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "1234")
    answer = (
        "import os, sys\nf = [os.getcwd(), sys.argv, sorted(os.environ), vars(sys.modules['__main__']).get('__file__')]"
    )
    [came] = verdicts(("f = ...", answer, "print(f)"))
    assert came.passed
    assert "SECRET_TOKEN" not in came.text and "grader" not in came.text and str(Path.cwd()) not in came.text.split("'")


OTHERS = {
    "reads a file": "open({path!r}).read()",
    "reads by a detour": "open(sys.prefix + '/../' * 30 + {path!r}).read()",
    "reads with NumPy": "np.fromfile({path!r}, dtype=np.uint8)",
    "reads as bytes": "os.read(os.open(os.fsencode({path!r}), os.O_RDONLY), 9)",
    "writes": "open({path!r}, 'w').write('mine')",
    "changes a package": "open(np.__file__, 'a')",
    "removes": "os.remove({path!r})",
    "renames": "os.rename({path!r}, 'mine')",
    "links": "os.symlink({path!r}, 'mine')",
    "lists": "os.listdir(os.path.dirname({path!r}))",
    "goes there": "os.chdir(os.path.dirname({path!r}))",
    "starts a program": "subprocess.run([sys.executable, '-c', 'pass'])",
    "ends the grading": "os.kill(os.getppid(), 9)",
    "uses the network": "socket.create_connection(('127.0.0.1', 9))",
    "searches the memory": "gc.get_objects()",
    "looks into its parent": "open(f'/proc/{{os.getppid()}}/cmdline').read()",
    "calls the system": "ctypes.CDLL(None).system",
}
TRIES = """
import builtins, ctypes, gc, os, re, socket, subprocess, sys
f, before = None, dict(vars(builtins))
def attempt():
    global f
    try:
        f = {deed}
    except BaseException as error:
        return error
step = attempt().__traceback__
while step.tb_next:
    step = step.tb_next
for value in step.tb_frame.f_locals.values():
    if hasattr(value, "clear"):
        value.clear()
attempt()
builtins.any = builtins.all = lambda *_: True
builtins.PermissionError = builtins.str = builtins.type = builtins.int = print
attempt()
vars(builtins).update(before)
"""


def test_answers_leave_what_is_of_others_alone_and_it_is_told(tmp_path: Path) -> None:
    """Also when what an error shows of its cause is changed, and the names of Python."""
    file = tmp_path / "seed"
    file.write_text("secret", encoding="utf-8")
    answers = [TRIES.format(deed=deed.format(path=str(file))) for deed in OTHERS.values()]
    *came, honest = verdicts(*(("f = ...", answer, "assert f is None") for answer in answers), GOOD)
    for how, verdict in zip(OTHERS, came, strict=True):
        assert verdict.passed and not verdict.error and verdict.reached, (how, verdict)
    assert honest.passed and honest.reached == ""
    assert [path.name for path in tmp_path.iterdir()] == ["seed"] and file.read_text(encoding="utf-8") == "secret"


def test_answers_may_use_packages_their_data_and_a_folder_of_their_own() -> None:
    answer = """
import tempfile, pathlib, scipy.stats, scipy.optimize, scipy.integrate
from dpml import data
f = len(data.fashion_mnist_subset().test_images) > 0
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "note")
    path.write_text("mine")
    f = f and [one.read_text() for one in path.parent.iterdir()] == ["mine"]
pathlib.Path("here").write_text("mine")
"""
    [came] = verdicts(("f = ...", answer, "assert f is True"))
    assert came.passed and came.reached == "", (came.text, came.trace, came.reached)


def test_another_python_runs_the_answers() -> None:
    [came] = verdicts(
        ("f = ...", "import sys\nf = sys.flags.optimize", "assert f == 2"), command=[sys.executable, "-OO"]
    )
    assert came.passed
    with pytest.raises(RuntimeError, match=r"the examination failed.*imports of the sheet fail"):
        verdicts(GOOD, command=[sys.executable, "-c", "raise SystemExit(3)"])
