"""For each check of each lesson: two right answers, each written another way, pass; three wrong ones are told why.

The answers stand in ``test_<slug>.py``, as tables RIGHT (check -> answers) and WRONG (check -> answers with words that
the message must have). They are answers that no machine makes: `test_every_mistake` feeds back what is registered, each
statement judged wrongly, other numbers, and mechanisms with other noise; and it reads arguments, which none can judge.
"""

import importlib
from pathlib import Path

import pytest

from tests.lessons.answers import told

FOLDER = Path(__file__).parent
TABLES = [path for path in sorted(FOLDER.glob("test_*.py")) if "\nRIGHT = {\n    items." in path.read_text("utf-8")]
LESSONS = {path.stem.removeprefix("test_"): importlib.import_module(f"tests.lessons.{path.stem}") for path in TABLES}


def cases(table: str) -> list[object]:
    return [
        pytest.param(check, answer, id=f"{slug}-{check.__name__}-{i}")
        for slug, lesson in LESSONS.items()
        for check, answers in getattr(lesson, table, {}).items()
        for i, answer in enumerate(answers)
    ]


@pytest.mark.parametrize("check, answer", cases("RIGHT"))
def test_right_answers_pass(check, answer, capsys):
    assert told(check, answer) == ""
    assert capsys.readouterr().out.startswith("✓ ")


@pytest.mark.parametrize("check, wrong", cases("WRONG"))
def test_wrong_answers_are_told_why(check, wrong):
    answer, words = wrong
    text = told(check, answer)
    assert words in text and len(text.split()) <= 60, text
