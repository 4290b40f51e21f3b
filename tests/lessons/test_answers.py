"""For each check of each lesson: two right answers, each written another way, pass; three wrong ones are told why.

The answers stand in ``test_<slug>.py``, as tables RIGHT (check -> answers), WRONG (check -> answers with words that the
message must have) and ARGUMENTS (check -> texts, which no machine can judge). They are answers that no machine makes:
`test_every_mistake` feeds back what is registered, other numbers, and mechanisms with other noise.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

from tests.lessons.answers import message, tried

FOLDER = Path(__file__).parent
TABLES = [path for path in sorted(FOLDER.glob("test_*.py")) if "\nRIGHT = {\n    items." in path.read_text("utf-8")]
LESSONS = {path.stem.removeprefix("test_"): importlib.import_module(f"tests.lessons.{path.stem}") for path in TABLES}
UNREAD = [
    ("It is so.", ": your argument has 3 words"),
    (["It", "is", "so"], "write your argument between triple quotes"),
    ("*Write your answer here.*", "is not written yet"),
]


def cases(table: str) -> list[object]:
    return [
        pytest.param(check, answer, id=f"{slug}-{check.__name__}-{i}")
        for slug, lesson in LESSONS.items()
        for check, answers in getattr(lesson, table, {}).items()
        for i, answer in enumerate(answers)
    ]


@pytest.mark.parametrize("check, answer", cases("RIGHT"))
def test_right_answers_pass(check, answer, capsys):
    tried(check, answer)
    assert capsys.readouterr().out.startswith("✓ ")


@pytest.mark.parametrize("check, wrong", cases("WRONG"))
def test_wrong_answers_are_told_why(check, wrong):
    answer, words = wrong
    assert words in message(check, answer)


@pytest.mark.parametrize("check, text", cases("ARGUMENTS"))
def test_an_argument_is_read_and_not_graded(check, text, capsys):
    """No tick, whatever it says: a rubric, and a question that the right words alone cannot answer."""
    check(text)
    out = capsys.readouterr().out
    assert ": read, not graded." in out and "✓" not in out and out.endswith("?\n")
    for answer, words in UNREAD:
        assert words in message(check, answer)


@pytest.mark.parametrize("slug", LESSONS)
def test_every_check_is_tried(slug):
    """With two right answers; `test_every_mistake` counts the wrong ones."""
    lesson = importlib.import_module(f"dpml.lessons.{slug}.checks")
    made = {check for name, check in inspect.getmembers(lesson, inspect.isfunction) if name.startswith("check_")}
    right, wrong, texts = (getattr(LESSONS[slug], table, {}) for table in ("RIGHT", "WRONG", "ARGUMENTS"))
    assert made == right.keys() | texts.keys() and right.keys() >= wrong.keys()
    assert all(len(answers) >= 2 for answers in right.values())
