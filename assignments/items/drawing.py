"""What the sheets share: items of the usual kinds, from their question, the right answer and the typical mistakes.

An answer is Python text: an expression, or the lines of a function's body with their `return`. What mistakes change in
it has a name: `parts` says what stands at `{name}` in the right answer. Each mistake is the sentence that its author needs
to read, with other parts, or with an answer of its own; it becomes a diagnosis of the hidden tests and a wrong answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import dedent, indent
from typing import Any

import numpy as np

from assignments.item import Graded
from dpml.classroom.students import CODE_STUB


def imports(*ours: str) -> str:
    """The first cell of a sheet, with these lines beside the usual ones."""
    return "\n".join(
        ["import math", "", "import numpy as np", "", *sorted([*ours, "from dpml.classroom import checks"])]
    )


def code(text: str) -> str:
    """Text without the indentation of the lines around it."""
    return dedent(text).strip()


def literal(value: Any) -> str:
    """Python text for a value; arrays become `np.array([...])`, NumPy's numbers plain ones."""
    if isinstance(value, np.ndarray):
        return f"np.array({value.tolist()!r})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    return repr(value.item() if isinstance(value, np.generic) else value)


def tex(value: float) -> str:
    """A number as it stands in a formula: small powers of ten as powers."""
    mantissa, exponent = f"{value:.0e}".split("e")
    small = mantissa == "1" and int(exponent) <= -3 and abs(value * 10.0 ** -int(exponent) - 1) < 1e-9
    return f"10^{{{int(exponent)}}}" if small else f"{value:g}"


def body(answer: str) -> str:
    """The indented lines of a function that gives this answer."""
    text = code(answer)
    return indent(text if "return " in text or "raise " in text else f"return {text}", "    ")


Wrong = str | Mapping[str, object]  # a wrong answer, or the parts of the right one that differ in it


def filled(text: str, parts: Mapping[str, object], wrong: Wrong = "") -> str:
    """Text with its parts in their places, those of `wrong` before those of `parts`; a part may have parts.

    Raises:
        ValueError: for a part that the answer does not have.
    """
    if isinstance(wrong, str):
        text = wrong or text
    elif not wrong.keys() <= parts.keys():
        raise ValueError(f"wrong must have parts of {list(parts)}, got {list(wrong)}")
    else:
        parts = {**parts, **wrong}
    for name, part in parts.items():
        text = text.replace(f"{{{name}}}", str(part))
    return text


def number(
    name: str,
    *,
    title: str,
    asked: str,
    right: str,
    mistakes: Mapping[str, Wrong],
    parts: Mapping[str, object] | None = None,
    setup: str = "",
    rel: float = 2e-4,
    points: int = 2,
) -> Graded:
    """A number, by default to at least four digits; `setup` are lines that right and wrong answers begin with."""
    before = f"{code(setup)}\n" if setup else ""
    wrongs = {text: filled(right, parts or {}, wrong) for text, wrong in mistakes.items()}
    right = filled(right, parts or {})
    listed = "".join(f"\n        checks.Mistake({wrong}, {text!r})," for text, wrong in wrongs.items())
    return Graded(
        name=name.replace("_", "-"),
        question=f"{title}\n\n{code(asked)}",
        stub=f"{name} = ...",
        solution=f"{before}{name} = {right}",
        visible=f'checks.form({name}, name="{name}")',
        hidden=f'{before}checks.number(\n    {name},\n    name="{name}",\n    expected={right},\n    rel={rel!r},\n'
        f"    mistakes=[{listed}\n    ],\n)",
        points=points,
        wrong={text: f"{before}{name} = {wrong}" for text, wrong in wrongs.items()},
    )


def function(
    name: str,
    *,
    title: str,
    asked: str,
    takes: str,
    right: str,
    inputs: Sequence[Mapping[str, Any]],
    cases: Mapping[str, str],
    mistakes: Mapping[str, Wrong],
    parts: Mapping[str, object] | None = None,
    hint: str = "",
    rel: float = 1e-6,
    points: int = 2,
) -> Graded:
    """A function; `takes` are its parameters, `cases` the visible properties: what holds -> an expression of `f`."""
    head = f"def {name}({takes}):"
    answers = {text: filled(right, parts or {}, wrong) for text, wrong in mistakes.items()}
    right = filled(right, parts or {})
    wrongs = "".join(f"\ndef mistake_{i}({takes}):\n{body(wrong)}\n\n" for i, wrong in enumerate(answers.values()))
    listed = "".join(f"\n        checks.Mistake(mistake_{i}, {text!r})," for i, text in enumerate(mistakes))
    shown = "".join(f"\n        ({text!r}, lambda f: {holds})," for text, holds in cases.items())
    return Graded(
        name=name.replace("_", "-"),
        question=f"{title}\n\n{code(asked)}",
        stub=f"{head}\n    {CODE_STUB}",
        solution=f"{head}\n{body(right)}",
        visible=f'checks.properties(\n    {name},\n    name="{name}",\n    cases=[{shown}\n    ],\n)',
        hidden=f"def reference({takes}):\n{body(right)}\n\n{wrongs}\nchecks.function(\n    {name},\n"
        f'    name="{name}",\n    reference=reference,\n    inputs={literal(list(inputs))},\n'
        f"    mistakes=[{listed}\n    ],\n    hint={hint!r},\n    rel={rel!r},\n)",
        points=points,
        wrong={text: f"{head}\n{body(wrong)}" for text, wrong in answers.items()},
    )


def mechanism(
    name: str,
    *,
    title: str,
    asked: str,
    takes: str,
    right: str,
    law: str,
    called: Mapping[str, Any],
    settings: Sequence[Mapping[str, Any]],
    neighbours: Sequence[tuple[int, int]],
    parts: Mapping[str, object],
    mistakes: Mapping[str, Mapping[str, object]],
    returns: tuple[int, ...] | None = (),
    unexplained: Mapping[str, Wrong] | None = None,
    points: int = 3,
) -> Graded:
    """A mechanism with the parameters `takes` and `rng`, and its law, which takes `noise` instead.

    A mistake has other parts of both; `unexplained` are wrong answers without a law.
    """
    head = f"def {name}({takes}, rng):"
    wrongs = (filled(law, parts, wrong) for wrong in mistakes.values())
    laws = "".join(f"def mistake_{i}({takes}, noise=1.0):\n{body(wrong)}\n\n" for i, wrong in enumerate(wrongs))
    listed = "".join(f"\n        checks.Mistake(mistake_{i}, {text!r})," for i, text in enumerate(mistakes))
    answers = {text: filled(right, parts, wrong) for text, wrong in ({**mistakes, **(unexplained or {})}).items()}
    right, law = filled(right, parts), filled(law, parts)
    probed = literal(dict(called)).removesuffix("}") + ', "rng": np.random.default_rng(1)}'
    return Graded(
        name=name.replace("_", "-"),
        question=f"{title}\n\n{code(asked)}",
        stub=f"{head}\n    {CODE_STUB}",
        solution=f"{head}\n{body(right)}",
        visible=f'checks.signature(\n    {name},\n    name="{name}",\n    called={probed},\n    returns={returns!r},\n)\n'
        f'print("✓ {name} can be called, and returns something; the grading tells whether it is right")',
        hidden=f"from dpml.classroom import laws\n\ndef law({takes}, noise=1.0):\n{body(law)}\n\n{laws}"
        f'checks.law(\n    {name},\n    name="{name}",\n    law=law,\n    settings={literal(list(settings))},\n'
        f"    neighbours={list(neighbours)!r},\n    wrong=[{listed}\n    ],\n)",
        points=points,
        wrong={text: f"{head}\n{body(answer)}" for text, answer in answers.items()},
    )


def counterexample(
    *names: str,
    title: str,
    asked: str,
    right: Sequence[str],
    formed: str,
    refutes: str,
    wrong: Mapping[str, Sequence[str]],
    points: int = 2,
) -> Graded:
    """One or more values that refute a claim: `right` and each of `wrong` hold an expression for each of `names`.

    `formed` is the body of a function of the answer (the value, or the tuple of them) that returns what is wrong with
    its form, or None; `refutes` that of one that says why the answer does not refute the claim, or returns None.
    """

    def given(values: Sequence[str]) -> str:
        return "\n".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))

    answer = names[0] if len(names) == 1 else f"({', '.join(names)})"
    shape = f"def formed(answer):\n{body(formed)}\n\n\n"
    shape += f'checks.form({answer}, name="{", ".join(names)}", test=formed)'
    return Graded(
        name=f"refute-{names[0]}".lower().replace("_", "-"),
        question=f"{title}\n\n{code(asked)}",
        stub=given(["..."] * len(names)),
        solution=given(right),
        visible=shape,
        hidden=f"{shape}\n\n\ndef refutes(answer):\n{body(refutes)}\n\n\n"
        f'checks.counterexample({answer}, name="{", ".join(names)}", test=refutes)',
        points=points,
        wrong={text: given(values) for text, values in wrong.items()},
    )


Statement = tuple[str, bool, str]  # a statement, whether it is true, and the reason that a wrong answer needs to read


def statements(rng: np.random.Generator, bank: Sequence[Statement], *, lead: str = "", points: int = 2) -> Graded:
    """Five statements of a bank, two or three of them true."""
    true, false = ([entry for entry in bank if entry[1] is truth] for truth in (True, False))
    count = int(rng.integers(2, 4))
    chosen = [true[i] for i in rng.permutation(len(true))[:count]]
    chosen += [false[i] for i in rng.permutation(len(false))[: 5 - count]]
    chosen = [chosen[i] for i in rng.permutation(5)]
    expected = {letter: (truth, reason) for letter, (_, truth, reason) in zip("abcde", chosen, strict=True)}
    right = {letter: truth for letter, (truth, _) in expected.items()}
    listed = "\n".join(f"- ({letter}) {text}" for letter, (text, _, _) in zip("abcde", chosen, strict=True))
    return Graded(
        name="statements",
        question=f"True or false?\n\n{f'{code(lead)} ' if lead else ''}Set `true` to a dictionary that says of each "
        f'statement, by its letter, whether it is true: `{{"a": True, "b": ...}}`. All must be right.\n\n{listed}',
        stub="true = ...",
        solution=f"true = {right!r}",
        visible=code("""
            def formed(answer):
                letters = isinstance(answer, dict) and sorted(answer) == list("abcde")
                return None if letters and all(v in (True, False) for v in answer.values()) else (
                    'it must be a dictionary with the keys "a" to "e" and the values True or False.'
                )

            checks.form(true, name="true", test=formed)
        """),
        hidden=f'checks.statements(true, name="true", expected={expected!r})',
        points=points,
        wrong={
            "all true": f"true = {dict.fromkeys('abcde', True)!r}",
            "all false": f"true = {dict.fromkeys('abcde', False)!r}",
            "one of them wrong": f"true = {right | {'c': not right['c']}!r}",
        },
    )
