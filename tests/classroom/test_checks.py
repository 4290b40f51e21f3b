"""The checks of the exercises: right answers in every form pass, wrong ones get the sentence they need."""

import concurrent.futures
import math
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from dpml.classroom import calls, checks, laws
from dpml.classroom.checks import Mistake, NotYet


def verdict(check: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """The message of a failing check, which must be one short plain line."""
    with pytest.raises(NotYet) as caught:
        check(*args, **kwargs)
    message = str(caught.value)
    assert "\n" not in message and "Traceback" not in message
    assert len(message.split()) <= 60, message
    assert caught.value._render_traceback_() == [f"Not yet: {message}"]
    return message


# --- one number, in all its forms ---

VALUES = [0.375, math.log(2), 33.0, 2.0, 1e-12, -2.5, 1234.5678, 1.0]
WRONG: list[Callable[[float], Any]] = [
    *(lambda v, other=other: other for other in (math.nan, np.array(np.nan), math.inf, -math.inf, None, True)),
    *(lambda v, other=other: other for other in (np.bool_(True), np.array([]), ..., 10**400, object(), 0.0)),
    *(lambda v, factor=factor: v * factor for factor in (-1, 1.02, 1 + 1e-5, 1 / 2, 100)),
    *(str, lambda v: np.array([v, v]), lambda v: [v], lambda v: complex(v, 1.0), np.complex128, lambda v: lambda: v),
    *(lambda v: torch.tensor([v, v]), lambda v: torch.tensor(math.nan), lambda v: torch.tensor(True)),
]


def forms(v: float) -> set[str]:
    size = abs(v)
    texts = {repr(v), repr(size), str(np.float32(size)), f"{size:.3g}", f"{size:.4g}", f"{size:.6g}", f"{size:.10g}"}
    texts |= {f"{size:.{digits}f}" for digits in (2, 3, 4, 6) if float(f"{size:.{digits}f}")}
    return texts | ({str(int(size))} if size == int(size) else set())


@pytest.mark.parametrize("v", VALUES)
def test_number_accepts_every_form_and_refuses_everything_else_without_telling(v: float, capsys: Any) -> None:
    right = [v, np.float64(v), np.float32(v), np.array(v), np.array([v]), np.array([[v]]), Fraction(v), Decimal(v)]
    right += [v * (1 + 1e-7), torch.tensor(v), torch.tensor([v]), torch.tensor(v, requires_grad=True)]
    if v == int(v):
        right += [int(v), np.int64(v)]
    for answer in right:
        checks.number(answer, expected=v, name="the scale")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(right) and all(line.startswith("✓ the scale: ") for line in lines)
    for wrong in WRONG:
        message = verdict(checks.number, wrong(v), expected=v, name="the scale")
        assert message.startswith("the scale")
        assert not [form for form in forms(v) if form in message], message


# --- what each kind of check says ---


def pair(answer: Any) -> str | None:
    return None if answer[0] != answer[1] else "the two must differ."


def refutes(pair: Any) -> str | None:
    """Claim: x*y >= x for all x, y > 0."""
    x, y = pair
    if not (x > 0 and y > 0):
        raise ValueError("x and y must be positive")
    return None if x * y < x else "here the product is at least x."


def clip(v: Any, bound: float) -> Any:
    v = np.asarray(v, dtype=float)
    norm = math.sqrt(sum(float(x) ** 2 for x in v))
    return v * 1.0 if norm <= bound else v * (bound / norm)


def vectors(rng: np.random.Generator) -> Any:
    yield np.zeros(2), 1.0
    yield np.array([3.0, 4.0]), 1.0
    for _ in range(30):
        yield rng.normal(scale=3, size=rng.integers(2, 6)), float(rng.uniform(0.5, 4))


def in_place(v: Any, bound: float) -> Any:
    norm = np.linalg.norm(v)
    if norm > bound:
        v *= bound / norm
    return v


def printing(v: Any, bound: float) -> None:
    print(clip(v, bound))


def raising(v: Any, bound: float) -> Any:
    return v * min(1.0, bound / float(sum(v**2)) ** 0.5)


def unwritten(*args: Any) -> Any:
    raise NotImplementedError("write your answer here")


def blank_helper(x: float) -> float:
    raise NotImplementedError("write your answer here")


def rests_on_the_helper(*args: Any) -> Any:
    return [blank_helper(x) for x in args]


def of_a_library(*args: Any) -> Any:
    return concurrent.futures.Executor().submit(print, *args)


STUBS = {
    "f is not written yet. Write your answer, run it, then run this check.": [..., unwritten],
    "f calls blank_helper, which is not written yet. Write blank_helper first and run its cell.": [rests_on_the_helper],
    "raised NotImplementedError": [of_a_library],
}
RESULT = "returned (?!None)(?!.*known mistake)"
CLIP_HINT = "The result has the direction of v and at most the norm bound."
MISTAKES = [
    Mistake(clip, "what is never wrong explains nothing."),
    Mistake(lambda v, bound: v * bound / np.linalg.norm(v), "short vectors must stay as they are."),
    Mistake(lambda v, bound: np.clip(v, -bound, bound), "this clips each coordinate, not the norm."),
]
CLIP: dict[str, Any] = {"reference": clip, "inputs": vectors, "hint": CLIP_HINT, "mistakes": MISTAKES}
CASES: list[tuple[str, Callable[[Any], Any]]] = [
    ("is zero at zero", lambda f: f(0) == 0),
    ("grows", lambda f: True if f(2) > f(1) else f"it went from {f(1)} to {f(2)}"),
]
LAMBDA = [Mistake(32, "this is lambda."), Mistake(lambda a: a > 1e3, "off the grid."), Mistake(lambda a: a[0], "no.")]
CHOICE = [
    Mistake(10, "a bound stops there."),
    Mistake(None, "say which."),
    Mistake(lambda k: k < 2, "too small."),
]
EQUAL = [Mistake(lambda pair: pair[1] == 1, "at y = 1 both sides are equal."), Mistake((1, 9), "nine is large.")]
# Of each check what it asks, answers that pass, and parts of what is said to others.
TOLD: list[tuple[Callable[..., Any], dict[str, Any], list[Any], dict[str, list[Any]]]] = [
    (
        checks.number,
        {"expected": math.log(2)},
        [math.log(2)],
        {
            "more digits instead of a rounded number": [0.7, 0.6931],
            "is too large, by less than a tenth": [0.73],
            "is too large, by less than a factor of two": [1.0],
            "is too small, by less than a factor of ten": [0.2],
            "by a factor of ten or more": [10],
            "has the wrong sign": [-0.3],
            "is nan": [math.nan],
            "is text": ["0.7"],
            "is None": [None],
            "call it": [lambda: 0.7],
            "list": [[0.7]],
            "is an array, not one number": [np.ones(3), np.ones((2, 0)), torch.ones(2)],
            "is an empty array": [np.array([])],
        },
    ),
    (
        checks.number,
        {"expected": 33, "mistakes": LAMBDA, "hint": "Look at the definition."},
        [33],
        {"this is lambda": [32, np.array([32]), 32.001], "off the grid": [2000], "Look at the definition.": [31]},
    ),
    (checks.number, {"expected": 0, "abs": 1e-3}, [0.0009, 0.0, -0.001], {"is too large": [0.0011]}),
    (checks.number, {"expected": 100, "rel": 0.01}, [101, 99], {"less than a tenth": [98.9, 101.5]}),
    (
        checks.number,
        {"expected": -300},
        [-300],
        {"and how you round": [-301], "more digits": [-300.5], "too large in absolute value, by less": [-400]},
    ),
    (
        checks.choice,
        {"expected": "never", "options": [1, 2, 10, "never", None], "mistakes": CHOICE, "hint": "Look at the limit."},
        ["never", " Never ", "NEVER", np.array("never")],
        {
            "10 is not right: a bound stops there.": [np.int64(10)],
            "None is not right: say which.": [None],
            "1 is not right: too small.": [1.0],
            "2 is not right. Look at the limit.": [2],
            "not among the possible answers": [True, 3, "1", math.nan, [1], "ever"],
        },
    ),
    (checks.choice, {"expected": 1, "options": [1, 2]}, [1, np.array([1])], {"a whole number from 1 to 2": [True]}),
    (
        checks.choice,
        {"expected": False, "options": [True, False]},
        [False, np.bool_(False)],
        {"Give one of True, False.": [0], "True is not right": [True]},
    ),
    (checks.choice, {"expected": "a", "options": "abcdefghi"}, ["a"], {"one of the 9 answers named": ["x"]}),
    (checks.form, {}, [1e-3, np.float32(2)], {"f is not written yet": [...], "one finite real number": ["3"]}),
    (
        checks.form,
        {"name": "p, q, r", "test": pair},
        [(1, 2)],
        {
            "p, q and r are not written yet. Write your answer, run it, then run this check.": [(1, ...)],
            "the two must differ": [(1, 1)],
            "not the form that is asked for: IndexError": [(1,)],
        },
    ),
    (
        checks.statements,
        {"expected": {"a": (True, "it holds."), "b": (False, "think of n = 1.")}},
        [{"a": True, "b": False}, {"b": np.bool_(False), "a": np.True_}],
        {
            "'a' is not right yet: it holds.": [{"a": False, "b": False}],
            "'b' is not right yet: think of n = 1.": [{"a": True, "b": True}],
            'the keys "a" to "b"': [None, True, [True, False], "ab", {"a": True}, dict.fromkeys("abc", True)],
            "give True or False": [{"a": True, "b": strange} for strange in (0, "False", None, ...)],
        },
    ),
    (
        checks.counterexample,
        {"test": refutes, "mistakes": EQUAL},
        [(2.0, 0.5), np.array([2.0, 0.5])],
        {
            "f: (2, 3) does not refute the claim: here the product is at least x.": [(2, 3)],
            "f: this is not an input that the claim speaks of: x and y must be positive.": [(-2, 3)],
            "f: this is not an input that the claim speaks of: TypeError (": [7],
            "f: your answer does not refute the claim: here the product": [(np.array(2.0), 3 + 10**80)],
            "f: (3, 1) shows a known mistake: at y = 1 both sides are equal.": [(3, 1)],
            "nine is large": [(1.0, 9.0)],
        },
    ),
    (
        checks.argument,
        {"minimum_words": 8, "rubric": [], "question": ""},
        [],
        {
            "not written yet": ["", "*Write your answer here.*", ..., None],
            "between triple quotes": [3.5],
            "5 words. Use at least 8": ["the noise hides the neighbour"],
        },
    ),
    (
        checks.function,
        CLIP,
        [
            clip,
            lambda v, bound: v / max(1.0, np.linalg.norm(v) / bound),
            lambda v, bound: list(clip(v, bound)),
            lambda *args: clip(*args),
            lambda v, bound: torch.tensor(clip(v, bound), requires_grad=True) * 1,
            lambda v, bound: clip(v, bound).astype(np.float32),
        ],
        {
            "short vectors must stay": [MISTAKES[1].wrong, lambda v, bound: bound * v / np.sqrt(np.sum(v**2))],
            "A known mistake: this clips each coordinate": [MISTAKES[2].wrong],
            "For v = [3, 4], bound = 1, your f returned [3, 4]: it has a wrong entry [0], which is too large, by less "
            f"than a factor of ten. {CLIP_HINT}": [lambda v, bound: v],
            CLIP_HINT: [lambda v, bound: clip(v, bound) + 1],
            "your f changed its argument v in place: work on a copy.": [in_place],
            "your f printed its result but returned None: use return.": [printing],
            "For v = [0, 0], bound = 1, your f returned None: is a return missing?": [lambda v, bound: None],
            "For v = [0, 0], bound = 1, your f raised ZeroDivisionError": [raising],
            "expected is an array of shape (2,)": [lambda v, bound: np.linalg.norm(v)],
            "has shape (1,), expected is an array of shape (2,)": [lambda v, bound: clip(v, bound)[:1]],
            "is text": [lambda v, bound: "clipped"],
            "which holds nan": [lambda v, bound: clip(v, bound) * np.nan],
            "type generator": [lambda v, bound: (x for x in v)],
            "Your f takes (v), but is called with 2 arguments.": [lambda v: v],
            "not written yet": [lambda v, bound: ...],
            "f must be a function, but it is None": [None],
            **STUBS,
        },
    ),
    (
        checks.function,
        {"reference": lambda *, n, q: n * q, "inputs": [{"n": 1, "q": 0.5}]},
        [lambda *, q, n: n * q],
        {
            "Your f takes (m, q), but is called with n, q: keep the parameter names.": [lambda m, q: m * q],
            "For n = 1, q = 0.5, your f raised ZeroDivisionError": [lambda n, q: n / 0],
        },
    ),
    (
        checks.function,
        {"reference": sum, "inputs": [[5, 9, 9], [5, 9], [5, 1, 1], [1, 2]]},
        [sum],
        {"For values = [5, 9], your f returned 5: it is too small": [lambda values: min(sum(values), 5)]},
    ),
    (
        checks.properties,
        {"cases": CASES},
        [lambda x: x**3],
        {
            "f does not have the property “is zero at zero”.": [lambda x: 1],
            "f does not have the property “grows”: it went from -1 to -2": [lambda x: -x],
            "f must have this property: is zero at zero. Testing it raised ZeroDivisionError": [lambda x: 1 / x],
            "f returned None for x = 0: is a return missing?": [lambda x: None],
            **STUBS,
        },
    ),
    (
        checks.properties,
        {"cases": [("is short", lambda f: len(f([2, 1])) == 2)]},
        [sorted],
        {"f changes the v that it is given: work on a copy.": [lambda v: [v.pop(), 0]]},
    ),
    (
        checks.signature,
        {"called": {"vector": np.ones(3), "bound": 2.0}, "returns": (3,)},
        [lambda vector, *, bound: list(vector)],
        {
            "Your f is called with vector, and with bound by name: keep the parameter names.": [lambda vector: vector],
            "f must return 3 numbers for vector = [1, 1, 1], bound = 2; it": [lambda vector, bound: vector[:2]],
            "must return 3 numbers": [lambda vector, bound: vector * math.nan, lambda vector, bound: "text"],
            "is a return missing?": [lambda vector, bound: print(vector)],
            "not written yet": [lambda vector, bound: ...],
            "f raised": [lambda vector, bound: vector / 0 // "a"],
            "f changes the vector that it is given": [lambda vector, bound: vector.fill(0.0) or vector],
            "must be a function": [3],
        },
    ),
]


@pytest.mark.parametrize(("check", "ask", "right", "wrong"), TOLD)
def test_right_answers_pass_and_others_are_told_why(check: Any, ask: Any, right: Any, wrong: Any, capsys: Any) -> None:
    ask = {"name": "f"} | ask
    for answer in right:
        came = check(answer, **ask)
        assert capsys.readouterr().out.startswith(f"✓ {ask['name']}: ") or came is answer
    for words, answers in wrong.items():
        for answer in answers:
            message = verdict(check, answer, **ask)
            assert words in message
            assert verdict(check, answer, **ask) == message, "the same every time"
            # The hint follows a wrong result, and nothing else.
            assert (CLIP_HINT in message) == bool(ask.get("hint") == CLIP_HINT and re.search(RESULT, message))


def test_what_is_said_to_right_answers(capsys: pytest.CaptureFixture[str]) -> None:
    checks.function(clip, name="f", **CLIP)
    checks.properties(lambda x: x**3, cases=CASES, name="f")
    checks.counterexample((2.0, 0.5), test=refutes, name="claim", shows=lambda pair: f"{pair[0] * pair[1]:g} < 2")
    checks.form((1, 2), name="pair", test=pair)
    rubric = ["names both datasets", "bounds the ratio"]
    words = "noise neighbour ratio bounded noise neighbour ratio bounded density"  # a salad of the right words
    checks.argument(words, name="why", minimum_words=8, rubric=rubric, question="What is the ratio at y = 0?")
    assert capsys.readouterr().out == (
        "✓ f: agrees with its definition on 32 inputs\n"
        "✓ f: 2 properties hold: is zero at zero; grows\n"
        "✓ claim: (2, 0.5) refutes the claim: 1 < 2\n"
        "✓ pair: this has the form that is asked for; the grading tells whether it is right\n"
        "why: read, not graded. Compare your argument with these points:\n  - names both datasets\n"
        "  - bounds the ratio\nDoes it answer this? What is the ratio at y = 0?\n"
    )


def test_together_prints_only_if_all_pass(capsys: pytest.CaptureFixture[str]) -> None:
    def one(answer: int) -> Any:
        return lambda: checks.number(answer, expected=1, name="one")

    checks.together(one(1), one(1))
    assert capsys.readouterr().out.count("✓ one") == 2
    with pytest.raises(NotYet, match="one: your answer 2"):
        checks.together(one(1), one(2))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("check", "answer", "ask", "words"),
    [
        (checks.number, 1, {"expected": 0.693147, "hint": "it is 0.693"}, "give the expected value away"),
        (checks.number, 1, {"expected": 2.0, "mistakes": [Mistake(2.0, "that is wrong.")]}, "must differ"),
        (checks.number, 1, {"expected": math.nan}, "expected must be"),
        (checks.choice, 1, {"expected": 3, "options": [1, 2]}, "options must hold"),
        (checks.choice, 1, {"expected": 1, "options": [1, 1.0]}, "options must hold"),
        (checks.statements, {}, {"expected": {}}, "expected must hold"),
        (checks.counterexample, 1, {"test": lambda answer: True}, "None or a sentence"),
        (checks.argument, "a", {"minimum_words": 0, "rubric": [], "question": ""}, "minimum_words"),
        (checks.function, clip, {"reference": clip, "inputs": []}, "at least one case"),
        (checks.function, abs, {"reference": lambda x: math.nan, "inputs": [1]}, "reference must give a value"),
        (checks.function, abs, {"reference": lambda x: {"a": [x, np.nan]}, "inputs": [1]}, "reference must give a val"),
        (checks.properties, abs, {"cases": [("is", lambda f: None)]}, "True, False or a sentence"),
        (checks.properties, abs, {"cases": []}, "at least one property"),
        (checks.law, abs, {"law": laws.certain, "settings": []}, "settings must hold at least one"),
        (checks.law, abs, {"law": laws.certain, "settings": [{"x": 1}], "runs": 10}, "runs must be"),
    ],
)
def test_ill_posed_checks_are_refused(check: Any, answer: Any, ask: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check(answer, name="f", **ask)


# --- how results are compared ---


@pytest.mark.parametrize(
    ("reference", "wrong", "hint"),
    [
        (lambda x: x > 0, lambda x: x, "expected is True or False"),
        (lambda x: x > 0, lambda x: x < 0, "wrong one of True and False"),
        (lambda x: (x, x), lambda x: x, "expected are 2 values"),
        (lambda x: [x, x], lambda x: np.array(x), "expected are 2 values"),
        (lambda x: (x, x), lambda x: (x, x, x), "has 3 values"),
        (lambda x: (x, 2 * x), lambda x: (x, x), "wrong item [1]"),
        (lambda x: {"a": x}, lambda x: {"b": x}, "wrong keys"),
        (lambda x: {"a": x}, lambda x: x, "expected is a dictionary"),
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


def test_function_hands_every_run_its_own_generator_and_lists() -> None:
    def inputs(rng: np.random.Generator) -> Any:
        yield {"values": [1, 2], "more": {"a": (1, "b", None)}, "rng": rng}

    def draw(values: list[int], more: Any, rng: np.random.Generator) -> float:
        return values[0] + rng.random()

    ask: dict[str, Any] = {"reference": draw, "inputs": inputs, "name": "draw"}
    checks.function(draw, **ask)
    for change, name in ((lambda values, more: values.pop(), "values"), (lambda values, more: more.clear(), "more")):
        wrong = lambda values, more, rng, change=change: (draw(values, more, rng), change(values, more))[0]  # noqa: E731
        assert f"changed its argument {name}" in verdict(checks.function, wrong, **ask)


# --- answers that do not come back ---


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


def test_a_table_of_the_tested_values_is_no_function_and_nothing_is_remembered():
    ask = {"name": "half", "reference": lambda *, n, x: x / n, "inputs": [{"n": 2, "x": 1.0}, {"n": 5, "x": 0.5}]}
    checks.function(lambda *, n, x: x * n**-1, **ask)
    assert "For n = 3, x = 1, your half" in verdict(checks.function, lambda *, n, x: 0.5 if n < 5 else x / n, **ask)
    calls = []

    def counts(*, n, x):
        calls.append(n)
        return x / n if len(calls) < 6 else 0.0

    assert "gives another result when it is called again" in verdict(checks.function, counts, **ask)


def test_a_long_message_quotes_less():
    rows = [([[1, 0], *[[i] for i in range(30)]],)]
    message = verdict(
        checks.function,
        lambda rows: [*range(29), 3],
        name="f",
        reference=lambda rows: list(range(30)),
        inputs=rows,
        hint=20 * "so ",
    )
    assert "…" in message and len(message.split()) <= 60
