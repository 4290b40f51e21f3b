"""For each check of each lesson: two right answers, each written another way, pass; three wrong ones are told why.

The answers stand in ``test_<slug>.py``, as tables RIGHT (check -> answers) and WRONG (check -> answers with words that
the message must have). They are answers that no registered mistake holds: those are fed back in `test_every_mistake`.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

from tests.lessons.answers import message

FOLDER = Path(__file__).parent
TABLES = [path for path in sorted(FOLDER.glob("test_*.py")) if "\nRIGHT = {\n    items." in path.read_text("utf-8")]
LESSONS = {path.stem.removeprefix("test_"): importlib.import_module(f"tests.lessons.{path.stem}") for path in TABLES}


def cases(table: str) -> list[object]:
    return [
        pytest.param(check, answer, id=f"{slug}-{check.__name__}-{i}")
        for slug, lesson in LESSONS.items()
        for check, answers in getattr(lesson, table).items()
        for i, answer in enumerate(answers)
    ]


@pytest.mark.parametrize("check, answer", cases("RIGHT"))
def test_right_answers_pass(check, answer, capsys):
    check(answer)
    assert capsys.readouterr().out.startswith("✓ ")


@pytest.mark.parametrize("check, wrong", cases("WRONG"))
def test_wrong_answers_are_told_why(check, wrong):
    answer, words = wrong
    text = message(check, answer)
    assert words in text
    assert len(text.split()) <= 80


@pytest.mark.parametrize("slug", LESSONS)
def test_every_check_is_tried(slug):
    lesson = importlib.import_module(f"dpml.lessons.{slug}.checks")
    made = {check for name, check in inspect.getmembers(lesson, inspect.isfunction) if name.startswith("check_")}
    right, wrong = LESSONS[slug].RIGHT, LESSONS[slug].WRONG
    assert made == set(right) == set(wrong)
    for check in made:
        assert len(right[check]) >= 2 and len(wrong[check]) >= 3, check.__name__
