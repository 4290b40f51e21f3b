"""One answer by itself: which cells it needs, what it says, and that nothing of an earlier run is left."""

import pytest

from dpml.classroom.answers import Cell, names, needed, pieces, run

ANSWER = Cell("def double(x):\n    return 2 * x\n", "double")
CHECK = Cell("assert double(4) == 8\nprint('✓ double')")


@pytest.mark.parametrize(
    ("source", "bound", "used"),
    [
        ("import a.b, c.d as e\nfrom f import g", {"a", "e", "g"}, set()),
        ("def f(x, *, y=z):\n    inner = x + h(y)\n    return inner", {"f"}, {"z", "h"}),
        ("class A(B):\n    c = d\n    def e(self):\n        return A", {"A"}, {"B", "d", "A"}),
        ("for i in j:\n    k = [l for l in m if i]", {"i", "k"}, {"j", "m", "i"}),
        ("a = ...\na = a + b", {"a"}, {"a", "b"}),
        ("not Python (", set(), set()),
        ("a\0b", set(), set()),
    ],
)
def test_which_names_a_cell_binds_and_uses(source: str, bound: set[str], used: set[str]) -> None:
    assert names(source) == (bound, used)


def test_a_cell_in_pieces() -> None:
    text = "import os, sys as s\nfrom a.b import c, d as e\n\n# why\nx = {\n    1: 2,\n}\nprint(x)\n"
    assert pieces(text) == [
        "import os",
        "import sys as s",
        "from a.b import c",
        "from a.b import d as e",
        "x = {\n    1: 2,\n}",
        "print(x)",
    ]


def test_only_what_is_needed_runs_and_in_its_order() -> None:
    lines = "raise SystemExit\nimport no_such_package\na = 1\nb = a + 1\nb = b * 10\nunused = print('never')"
    above = [Cell(line) for line in lines.splitlines()]
    answer = Cell("c = b", "c")
    assert needed(above, [answer]) == above[2:5]
    outcome = run(above, answer, [Cell("assert c == 20")])
    assert outcome == (True, True, "")


def test_what_the_answer_binds_is_its_own() -> None:
    above = [Cell("double = None", "other", ran=False)]
    assert run(above, ANSWER, [CHECK]) == (True, True, "✓ double")


def test_an_answer_that_uses_one_that_has_not_run() -> None:
    outcome = run([Cell("def double(x): ...", "double", ran=False)], Cell("four = double(2)", "four"), [])
    assert not outcome.ended
    assert outcome.said == "This answer uses an earlier one: run that first (double)."


def test_nothing_of_an_earlier_run_is_left() -> None:
    assert run([], ANSWER, [CHECK]).passed
    emptied = run([], Cell("", "double"), [CHECK])
    assert emptied.ended
    assert not emptied.passed
    assert "NameError" in emptied.said


@pytest.mark.parametrize(
    ("source", "said", "not_said"),
    [
        ("def f(:\n", ["SyntaxError", "def f(:"], ["answers.py"]),
        ("def f():\n    return 1 / 0\nf()", ["line 3", "line 2", "return 1 / 0", "ZeroDivisionError"], ["answers.py"]),
        ("print('before')\nraise SystemExit(3)", ["before", "SystemExit: 3"], []),
        ("def f():\n    return f()\nf()", ["RecursionError"], []),
        ("import torch_is_not_there", ["ModuleNotFoundError: No module named 'torch_is_not_there'"], ["Traceback"]),
        ("import sys\nprint('to the error stream', file=sys.stderr)\nx = y", ["to the error stream", "NameError"], []),
    ],
)
def test_an_error_is_told_as_in_a_notebook(source: str, said: list[str], not_said: list[str]) -> None:
    outcome = run([], Cell(source, "f"), [Cell("print('the check ran')")])
    assert not outcome.ended
    assert not outcome.passed
    assert [word for word in said if word not in outcome.said] == []
    assert [word for word in [*not_said, "the check ran"] if word in outcome.said] == []


def test_a_verdict_is_one_sentence_and_every_check_speaks() -> None:
    failing = Cell("from dpml.classroom.verdict import NotYet\nraise NotYet('double is too large')")
    outcome = run([], ANSWER, [failing, CHECK])
    assert outcome == (True, False, "Not yet: double is too large\n✓ double")


def test_a_needed_cell_that_fails_speaks_for_itself() -> None:
    outcome = run([Cell("import no_such_package")], Cell("x = no_such_package.y", "x"), [CHECK])
    assert outcome == (False, False, "ModuleNotFoundError: No module named 'no_such_package'")


def test_the_value_of_the_last_line_is_shown() -> None:
    assert run([], Cell(ANSWER.source + "double(3)\n", "double"), [CHECK]).said == "6\n✓ double"
    assert run([], Cell(ANSWER.source + "None\n", "double"), [CHECK]).said == "✓ double"


def test_a_long_output_keeps_its_ends() -> None:
    said = run([], Cell("print('first')\nfor i in range(20_000): print(i)", "x"), []).said
    assert len(said) < 5000
    assert said.startswith("first\n0\n1\n")
    assert said.endswith("\n19998\n19999")
