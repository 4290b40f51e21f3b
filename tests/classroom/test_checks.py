"""The checks of the exercises: right answers in every form pass, wrong ones get the sentence they need."""

from __future__ import annotations

import concurrent.futures
import math
import re
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpml.classroom import calls, checks, laws
from dpml.classroom.checks import Mistake, NotYet

ROOT = Path(__file__).resolve().parents[2]


def verdict(check: Callable[..., None], *args: Any, **kwargs: Any) -> str:
    """The message of a failing check, which must be one short plain line."""
    with pytest.raises(NotYet) as caught:
        check(*args, **kwargs)
    message = str(caught.value)
    assert "\n" not in message and "Traceback" not in message
    assert len(message.split()) <= 60, message
    assert caught.value._render_traceback_() == [f"Not yet: {message}"]
    return message


# --- number ---

VALUES = [0.375, math.log(2), 33.0, 2.0, 1e-12, -2.5, 1234.5678, 1.0]

WRONG = {
    "nan": lambda v: math.nan,
    "numpy nan": lambda v: np.array(np.nan),
    "inf": lambda v: math.inf,
    "minus inf": lambda v: -math.inf,
    "None": lambda v: None,
    "string": lambda v: str(v),
    "True": lambda v: True,
    "numpy True": lambda v: np.bool_(True),
    "negative": lambda v: -v,
    "2 % off": lambda v: v * 1.02,
    "1e-5 off": lambda v: v * (1 + 1e-5),
    "half": lambda v: v / 2,
    "a hundred times": lambda v: v * 100,
    "zero": lambda v: 0.0,
    "two": lambda v: np.array([v, v]),
    "list": lambda v: [v],
    "empty": lambda v: np.array([]),
    "complex": lambda v: complex(v, 1.0),
    "numpy complex": lambda v: np.complex128(v),
    "Ellipsis": lambda v: ...,
    "function": lambda v: lambda: v,
    "huge": lambda v: 10**400,
    "object": lambda v: object(),
}


def forms(v: float) -> set[str]:
    size = abs(v)
    texts = {repr(v), repr(size), str(np.float32(size)), f"{size:.3g}", f"{size:.4g}", f"{size:.6g}", f"{size:.10g}"}
    texts |= {f"{size:.{digits}f}" for digits in (2, 3, 4, 6) if float(f"{size:.{digits}f}")}
    return texts | ({str(int(size))} if size == int(size) else set())


@pytest.mark.parametrize("v", VALUES)
def test_number_accepts_the_right_value_in_every_form(v: float, capsys: pytest.CaptureFixture[str]) -> None:
    right = [v, np.float64(v), np.float32(v), np.array(v), np.array([v]), np.array([[v]]), Fraction(v), v * (1 + 1e-7)]
    if v == int(v):
        right += [int(v), np.int64(v)]
    for answer in right:
        checks.number(answer, expected=v, name="the scale")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(right) and all(line.startswith("✓ the scale: ") for line in lines)


@pytest.mark.parametrize("v", VALUES)
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_number_refuses_everything_else_without_telling(v: float, wrong: Callable[[float], Any]) -> None:
    message = verdict(checks.number, wrong(v), expected=v, name="the scale")
    assert message.startswith("the scale")
    assert not [form for form in forms(v) if form in message], message


def test_number_accepts_and_refuses_tensors() -> None:
    torch = pytest.importorskip("torch")
    for v in (0.375, math.log(2)):
        for answer in (torch.tensor(v), torch.tensor([v]), torch.tensor(v, requires_grad=True)):
            checks.number(answer, expected=v, name="the scale")
        for answer in (torch.tensor([v, v]), torch.tensor(math.nan), torch.tensor(True), torch.tensor(-v)):
            verdict(checks.number, answer, expected=v, name="the scale")
    assert "is an array" in verdict(checks.number, torch.tensor([1.5, 1.5]), expected=1.5, name="the scale")


def test_checks_import_neither_torch_nor_a_room_but_the_statistics_of_audits() -> None:
    code = (
        "import sys, dpml.classroom.checks, dpml.classroom.students;"
        "rooms = {'dpml.arguments', 'dpml.audit', 'dpml.audit.samples', 'dpml.classroom'};"
        "own = {m for m in sys.modules if m.startswith('dpml.')} - rooms;"
        "assert all(m.startswith('dpml.classroom.') for m in own), own; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (0.7, "more digits instead of a rounded number"),
        (0.73, "by less than a tenth"),
        (1.0, "too large, by less than a factor of two"),
        (0.2, "too small, by less than a factor of ten"),
        (50, "by a factor of ten or more"),
        (0.6931, "rounded"),
        (-0.3, "wrong sign"),
        (..., "not written yet"),
        ("0.7", "text"),
        (None, "None"),
        (math.nan, "nan"),
        (lambda: 0.7, "call it"),
        ([0.7], "list"),
        (np.ones(3), "is an array, not one number"),
        (np.ones((2, 0)), "is an array, not one number"),
        (np.array([]), "is an empty array"),
    ],
)
def test_number_says_what_is_wrong(answer: Any, hint: str) -> None:
    assert hint in verdict(checks.number, answer, expected=math.log(2), name="epsilon")


def test_number_tolerances() -> None:
    checks.number(0.0009, expected=0.0, abs=1e-3, name="delta")
    checks.number(0.0, expected=0.0, name="delta")
    verdict(checks.number, 1e-300, expected=0.0, name="delta")
    checks.number(101, expected=100.0, rel=0.01, name="count")
    verdict(checks.number, 101.5, expected=100.0, rel=0.01, name="count")
    # More digits do not help a whole number.
    assert "how you round" in verdict(checks.number, 301, expected=300, name="count")
    assert "more digits" in verdict(checks.number, 300.5, expected=300, name="count")


def test_number_names_the_mistake() -> None:
    mistakes = [
        Mistake(32, "this is lambda; the order is one more."),
        Mistake(lambda a: a > 1000, "an order that large is outside the grid."),
    ]
    ask = {"expected": 33, "name": "order", "mistakes": mistakes, "hint": "Look at the definition."}
    for answer in (32, 32.0, np.array([32]), 32.001):
        assert "this is lambda" in verdict(checks.number, answer, **ask)
    assert "outside the grid" in verdict(checks.number, 2000, **ask)
    assert "Look at the definition." in verdict(checks.number, 31, **ask)


def test_ill_posed_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="give the expected value away"):
        checks.number(1, expected=0.693147, name="epsilon", hint="it is 0.693")
    with pytest.raises(ValueError, match="must differ"):
        checks.number(1, expected=2.0, name="epsilon", mistakes=[Mistake(2.0, "that is wrong.")])
    with pytest.raises(ValueError, match="expected must be"):
        checks.number(1, expected=math.nan, name="epsilon")


# --- choice ---


def test_choice() -> None:
    ask = {"expected": "never", "options": [1, 2, 10, "never", None], "name": "k"}
    for answer in ("never", " Never ", "NEVER", np.array("never")):
        checks.choice(answer, **ask)
    mistakes = [Mistake(10, "ten is where the lecture's bound stops, not the truth."), Mistake(None, "say which.")]
    assert "lecture's bound" in verdict(checks.choice, np.int64(10), mistakes=mistakes, **ask)
    assert "say which" in verdict(checks.choice, None, mistakes=mistakes, **ask)
    assert "not right" in verdict(checks.choice, 1.0, **ask)
    for strange in (True, 3, "1", math.nan, [1], "ever"):
        assert "not among the possible answers" in verdict(checks.choice, strange, **ask)
    assert "not written yet" in verdict(checks.choice, ..., **ask)


def test_choice_keeps_truth_values_and_numbers_apart() -> None:
    checks.choice(np.bool_(False), expected=False, options=[True, False], name="claim")
    verdict(checks.choice, 0, expected=False, options=[True, False], name="claim")
    verdict(checks.choice, True, expected=1, options=[1, 2], name="claim")
    checks.choice(np.array([1]), expected=1, options=[1, 2], name="claim")
    message = verdict(checks.choice, 200, expected=7, options=range(1, 101), name="claim")
    assert "a whole number from 1 to 100" in message and "7" not in message
    with pytest.raises(ValueError, match="options must hold"):
        checks.choice(1, expected=3, options=[1, 2], name="claim")


# --- statements ---


def test_form(capsys: pytest.CaptureFixture[str]) -> None:
    def pair(answer: Any) -> str | None:
        return None if answer[0] != answer[1] else "the two must differ."

    checks.form(1e-3, name="p")
    checks.form(np.float32(2), name="p")
    checks.form((1, 2), name="pair", test=pair)
    assert capsys.readouterr().out.count("has the form that is asked for; the grading tells whether it is right") == 3
    assert "p is not written yet" in verdict(checks.form, ..., name="p")
    assert "pair is not written yet" in verdict(checks.form, (1, ...), name="pair", test=pair)
    assert "Expected is one finite real number" in verdict(checks.form, "3", name="p")
    assert "the two must differ" in verdict(checks.form, (1, 1), name="pair", test=pair)
    assert "not the form that is asked for: IndexError" in verdict(checks.form, (1,), name="pair", test=pair)


def test_statements() -> None:
    ask = {"expected": {"a": (True, "it holds."), "b": (False, "think of n = 1.")}, "name": "claims"}
    for answer in ({"a": True, "b": False}, {"b": np.bool_(False), "a": np.True_}):
        checks.statements(answer, **ask)
    assert "'b' is not right yet: think of n = 1." in verdict(checks.statements, {"a": True, "b": True}, **ask)
    assert "'a' is not right yet: it holds." in verdict(checks.statements, {"a": False, "b": False}, **ask)
    for strange in (None, True, [True, False], {"a": True}, {"a": True, "b": False, "c": True}, "ab"):
        assert 'the keys "a" to "b"' in verdict(checks.statements, strange, **ask)
    for strange in (0, "False", None, ...):
        assert "give True or False" in verdict(checks.statements, {"a": True, "b": strange}, **ask)
    assert "not written yet" in verdict(checks.statements, ..., **ask)
    with pytest.raises(ValueError, match="expected must hold"):
        checks.statements({}, expected={}, name="claims")


# --- counterexample ---


def refutes(pair: Any) -> str | None:
    """Claim: x*y >= x for all x, y > 0."""
    x, y = pair
    if not (x > 0 and y > 0):
        raise ValueError("x and y must be positive")
    return None if x * y < x else "here the product is at least x."


def test_counterexample() -> None:
    checks.counterexample((2.0, 0.5), test=refutes, name="claim")
    checks.counterexample(np.array([2.0, 0.5]), test=refutes, name="claim")
    assert "here the product is at least x" in verdict(checks.counterexample, (2, 3), test=refutes, name="claim")
    outside = verdict(checks.counterexample, (-2, 3), test=refutes, name="claim")
    assert outside == "claim: this is not an input that the claim speaks of: x and y must be positive."
    unreadable = verdict(checks.counterexample, 7, test=refutes, name="claim")
    assert unreadable.startswith("claim: this is not an input that the claim speaks of: TypeError (")
    long = verdict(checks.counterexample, ([1.0] * 40, 3), test=lambda pair: "it is long.", name="claim")
    assert long == "claim: your answer does not refute the claim: it is long."
    assert "not written yet" in verdict(checks.counterexample, ..., test=refutes, name="claim")
    equal = [Mistake(lambda pair: pair[1] == 1, "at y = 1 both sides are equal."), Mistake((1, 9), "nine is large.")]
    ask = {"test": refutes, "name": "claim", "mistakes": equal}
    assert "both sides are equal" in verdict(checks.counterexample, (3, 1), **ask)
    assert "nine is large" in verdict(checks.counterexample, (1.0, 9.0), **ask)
    assert "nine" not in verdict(checks.counterexample, 3, **ask)  # the predicate cannot read it
    with pytest.raises(ValueError, match="None or a sentence"):
        checks.counterexample(1, test=lambda answer: True, name="claim")  # type: ignore[arg-type, return-value]


def test_counterexample_says_how_it_refutes(capsys: pytest.CaptureFixture[str]) -> None:
    checks.counterexample((2.0, 0.5), test=refutes, name="claim", shows=lambda pair: f"{pair[0] * pair[1]:g} < 2")
    assert capsys.readouterr().out == "✓ claim: (2, 0.5) refutes the claim: 1 < 2\n"


# --- argument ---

ARGUMENT: dict[str, Any] = {
    "name": "why",
    "minimum_words": 8,
    "rubric": ["names both datasets", "bounds the ratio"],
    "question": "What is the ratio at y = 0?",
}


def test_argument_is_read_and_not_graded(capsys: pytest.CaptureFixture[str]) -> None:
    for text in (
        "On a NEIGHBOUR the noise only shifts, so the ratio of densities stays bounded.",
        "noise neighbour ratio bounded noise neighbour ratio bounded density",  # a salad of the right words
    ):
        checks.argument(text, **ARGUMENT)
        assert capsys.readouterr().out == (
            "why: read, not graded. Compare your argument with these points:\n  - names both datasets\n"
            "  - bounds the ratio\nDoes it answer this? What is the ratio at y = 0?\n"
        )


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "not written yet"),
        ("*Write your answer here.*", "not written yet"),
        (..., "not written yet"),
        (None, "not written yet"),
        (3.5, "between triple quotes"),
        ("the noise hides the neighbour", "5 words"),
    ],
)
def test_argument_refuses(text: Any, hint: str) -> None:
    assert hint in verdict(checks.argument, text, **ARGUMENT)


# --- function ---


def clip(v: Any, bound: float) -> Any:
    v = np.asarray(v, dtype=float)
    norm = math.sqrt(sum(float(x) ** 2 for x in v))
    return v * 1.0 if norm <= bound else v * (bound / norm)


def vectors(rng: np.random.Generator) -> Any:
    yield np.zeros(2), 1.0
    yield np.array([3.0, 4.0]), 1.0
    for _ in range(30):
        yield rng.normal(scale=3, size=rng.integers(2, 6)), float(rng.uniform(0.5, 4))


CLIP: dict[str, Any] = {
    "reference": clip,
    "inputs": vectors,
    "name": "clip",
    "hint": "The result has the direction of v and at most the norm bound.",
    "mistakes": [
        Mistake(lambda v, bound: v * bound / np.linalg.norm(v), "short vectors must stay as they are."),
        Mistake(lambda v, bound: np.clip(v, -bound, bound), "this clips each coordinate, not the norm."),
    ],
}


def in_place(v: Any, bound: float) -> Any:
    norm = np.linalg.norm(v)
    if norm > bound:
        v *= bound / norm
    return v


def printing(v: Any, bound: float) -> None:
    print(clip(v, bound))


def raising(v: Any, bound: float) -> Any:
    return v * min(1.0, bound / float(sum(v**2)) ** 0.5)


def unwritten(v: Any, bound: float) -> Any:
    raise NotImplementedError("write your answer here")


def test_function_accepts_right_answers_of_every_type(capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch")
    for right in (
        clip,
        lambda v, bound: v / max(1.0, np.linalg.norm(v) / bound),
        lambda v, bound: list(clip(v, bound)),
        lambda *args: clip(*args),
        lambda v, bound: torch.tensor(clip(v, bound), requires_grad=True) * 1,
        lambda v, bound: clip(v, bound).astype(np.float32),
    ):
        checks.function(right, **CLIP)
    assert capsys.readouterr().out == "✓ clip: agrees with its definition on 32 inputs\n" * 6


@pytest.mark.parametrize(
    ("wrong", "hints"),
    [
        (CLIP["mistakes"][0].wrong, ["short vectors must stay"]),
        (lambda v, bound: bound * v / np.sqrt(np.sum(v**2)), ["short vectors must stay"]),
        (CLIP["mistakes"][1].wrong, ["each coordinate"]),
        (lambda v, bound: v, ["v = [3, 4], bound = 1", "returned [3, 4]", "too large", "at most the norm bound"]),
        (in_place, ["changed its argument v in place"]),
        (printing, ["printed its result but returned None"]),
        (lambda v, bound: None, ["returned None: is a return missing?"]),
        (raising, ["raised ZeroDivisionError", "v = [0, 0], bound = 1"]),
        (lambda v, bound: np.linalg.norm(v), ["expected is an array of shape (2,)"]),
        (lambda v, bound: clip(v, bound)[:1], ["has shape (1,), expected is an array of shape (2,)"]),
        (lambda v, bound: "clipped", ["text"]),
        (lambda v, bound: clip(v, bound) * np.nan, ["holds nan"]),
        (lambda v, bound: (x for x in v), ["type generator"]),
        (lambda v: v, ["takes (v), but is called with 2 arguments."]),
        (unwritten, ["not written yet"]),
        (lambda v, bound: ..., ["not written yet"]),
        (..., ["not written yet"]),
        (3, ["must be a function"]),
        (None, ["must be a function, but it is None"]),
    ],
)
def test_function_diagnoses(wrong: Any, hints: list[str]) -> None:
    message = verdict(checks.function, wrong, **CLIP)
    for hint in hints:
        assert hint in message, message


@pytest.mark.parametrize("wrong", [raising, printing, in_place, lambda v, bound: None, lambda v: v])
def test_function_gives_the_hint_after_a_wrong_result_only(wrong: Any) -> None:
    assert CLIP["hint"] not in verdict(checks.function, wrong, **CLIP)
    assert CLIP["hint"] in verdict(checks.function, lambda v, bound: v + 1, **CLIP)


def test_function_asks_for_the_names_of_its_parameters() -> None:
    ask: dict[str, Any] = {"reference": lambda *, n, q: n * q, "inputs": [{"n": 1, "q": 0.5}], "name": "f"}
    message = verdict(checks.function, lambda m, q: m * q, **ask)
    assert message == "Your f takes (m, q), but is called with n, q: keep the parameter names."
    assert "ZeroDivisionError" in verdict(checks.function, lambda n, q: n / 0, **ask)


def blank_helper(x: float) -> float:
    raise NotImplementedError("write your answer here")


def rests_on_the_helper(*args: Any) -> Any:
    return [blank_helper(x) for x in args]


def unwritten_function(*args: Any) -> Any:
    raise NotImplementedError("write your answer here")


def of_a_library(*args: Any) -> Any:
    return concurrent.futures.Executor().submit(print, *args)


def test_a_stub_is_told_from_what_calls_it() -> None:
    function = {"reference": lambda x: x, "inputs": [1.0], "name": "f"}
    cases = [("grows", lambda f: f(2) > f(1))]
    for check, rest in (
        (checks.function, function),
        (checks.properties, {"cases": cases, "name": "f"}),
    ):
        assert verdict(check, unwritten_function, **rest).startswith("f is not written yet.")
        calls = verdict(check, rests_on_the_helper, **rest)
        assert calls == "f calls blank_helper, which is not written yet. Write blank_helper first and run its cell."
        assert "raised NotImplementedError" in verdict(check, of_a_library, **rest)


def test_function_shows_the_smallest_failing_input_and_is_deterministic() -> None:
    ask: dict[str, Any] = {"reference": sum, "name": "total", "inputs": [[5, 9, 9], [5, 9], [5, 1, 1], [1, 2]]}
    message = verdict(checks.function, lambda values: min(sum(values), 5), **ask)
    assert "[5, 9]" in message and "too small" in message and "14" not in message
    assert verdict(checks.function, lambda v, bound: v, **CLIP) == verdict(checks.function, lambda v, bound: v, **CLIP)


@pytest.mark.parametrize(
    ("reference", "wrong", "hint"),
    [
        (lambda x: x > 0, lambda x: x, "expected is True or False"),
        (lambda x: x > 0, lambda x: x < 0, "wrong one of True and False"),
        (lambda x: (x, x), lambda x: x, "2 values"),
        (lambda x: (x, x), lambda x: (x, x, x), "has 3 values"),
        (lambda x: (x, 2 * x), lambda x: (x, x), "wrong item [1]"),
        (lambda x: {"a": x}, lambda x: {"b": x}, "wrong keys"),
        (lambda x: {"a": x}, lambda x: {"a": 2 * x}, "wrong item ['a']"),
        (lambda x: "yes", lambda x: "no", "not the right value"),
        (lambda x: math.inf, lambda x: 3.0, "is finite"),
        (lambda x: float(x), lambda x: math.inf, "infinite"),
        (lambda x: None, lambda x: 0, "expected is None"),
    ],
)
def test_function_compares_all_kinds_of_results(reference: Any, wrong: Any, hint: str) -> None:
    ask: dict[str, Any] = {"reference": reference, "name": "f", "inputs": [1, 2]}
    checks.function(reference, **ask)
    assert hint in verdict(checks.function, wrong, **ask)


def test_a_number_where_values_are_expected_is_told() -> None:
    for number in (1.0, np.float64(1.0), np.array(1.0)):
        with pytest.raises(NotYet, match="expected are 2 values"):
            checks.function(lambda x, one=number: one, reference=lambda x: [x, x], inputs=[1.0], name="pair")


def test_function_hands_every_run_its_own_generator_and_lists() -> None:
    def inputs(rng: np.random.Generator) -> Any:
        yield {"values": [1, 2], "rng": rng}

    def draw(values: list[int], rng: np.random.Generator) -> float:
        return values[0] + rng.random()

    def pops(values: list[int], rng: np.random.Generator) -> float:
        return values.pop(0) + rng.random()

    checks.function(draw, reference=draw, inputs=inputs, name="draw")
    assert "changed its argument values" in verdict(checks.function, pops, reference=draw, inputs=inputs, name="draw")


def test_ill_posed_functions_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one case"):
        checks.function(clip, reference=clip, inputs=[], name="f")
    with pytest.raises(ValueError, match="reference must give a value"):
        checks.function(abs, reference=lambda x: math.nan, inputs=[1], name="f")


def test_properties(capsys: pytest.CaptureFixture[str]) -> None:
    cases: list[tuple[str, Callable[[Any], Any]]] = [
        ("is zero at zero", lambda f: f(0) == 0),
        ("grows", lambda f: True if f(2) > f(1) else f"it went from {f(1)} to {f(2)}"),
    ]
    checks.properties(lambda x: x**3, cases=cases, name="f")
    assert capsys.readouterr().out == "✓ f: 2 properties hold: is zero at zero; grows\n"
    assert (
        verdict(checks.properties, lambda x: 1, cases=cases, name="f")
        == "f does not have the property “is zero at zero”."
    )
    assert "it went from -1 to -2" in verdict(checks.properties, lambda x: -x, cases=cases, name="f")
    assert "ZeroDivisionError" in verdict(checks.properties, lambda x: 1 / x, cases=cases, name="f")
    assert "not written yet" in verdict(checks.properties, lambda x: unwritten(x, x), cases=cases, name="f")
    assert "not written yet" in verdict(checks.properties, ..., cases=cases, name="f")
    short = [("is short", lambda f: len(f([2, 1])) == 2)]
    assert verdict(checks.properties, lambda v: [v.pop(), 0], cases=short, name="f").startswith("f changes the v that")
    assert "is a return missing?" in verdict(checks.properties, lambda v: None, cases=short, name="f")
    with pytest.raises(ValueError, match="True, False or a sentence"):
        checks.properties(lambda x: x, cases=[("is", lambda f: None)], name="f")
    with pytest.raises(ValueError, match="at least one property"):
        checks.properties(lambda x: x, cases=[], name="f")


def endless(x: float, **rest: Any) -> float:
    while True:
        x += 1


def stopped(x: float, **rest: Any) -> float:
    raise KeyboardInterrupt


CALLING: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (checks.function, {"reference": abs, "inputs": [1.0]}),
    (checks.properties, {"cases": [("grows", lambda f: f(2) > f(1))]}),
    (checks.signature, {"called": {"x": 1.0}}),
    (checks.law, {"law": lambda x, *, noise=1.0: laws.laplace(x, noise), "settings": [{"x": 1.0}]}),
]


@pytest.mark.parametrize(("check", "rest"), CALLING, ids=lambda value: getattr(value, "__name__", ""))
def test_an_answer_that_never_ends_or_is_stopped_or_exits_gets_one_sentence(check, rest, monkeypatch) -> None:
    monkeypatch.setattr(calls, "LIMIT", 0.1)
    assert verdict(check, endless, name="f", **rest).startswith("f had not ended after 0.1 seconds.")
    monkeypatch.setattr(calls, "LIMIT", 600.0)
    assert verdict(check, stopped, name="f", **rest).startswith("f was stopped before its check had ended.")
    for status in (None, 0, "bye"):
        assert "it ends the program" in verdict(check, lambda x, status=status, **_: sys.exit(status), name="f", **rest)


# --- in a notebook ---


@pytest.mark.filterwarnings("ignore")  # of the Jupyter libraries
def test_a_failing_check_shows_only_its_message_in_a_real_kernel() -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    cells = [
        "from dpml.classroom import checks",
        "checks.number(float('nan'), expected=2.5, name='scale')",
        "checks.number(2.5, expected=2.5, name='scale')",
        "checks.properties(lambda x: 1 / 0, cases=[('is positive', lambda f: f(1) > 0)], name='f')",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = nbclient.NotebookClient(
        notebook, kernel_name="python3", allow_errors=True, timeout=600, resources={"metadata": {"path": str(ROOT)}}
    )
    client.execute()
    first, failed, passed, raised = (cell.outputs for cell in notebook.cells)
    assert first == []
    assert len(failed) == 1 and failed[0].output_type == "error" and failed[0].ename == "NotYet"
    assert failed[0].evalue.startswith("scale: your answer is nan") and "2.5" not in failed[0].evalue
    assert failed[0].traceback == [f"Not yet: {failed[0].evalue}"]
    assert passed[0].text == "✓ scale: your number agrees with the exact value\n"
    assert len(raised) == 1 and re.fullmatch(
        r"Not yet: f must have .* raised ZeroDivisionError .*", raised[0].traceback[0]
    )
