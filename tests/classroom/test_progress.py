"""What is solved, read from saved notebooks: those that a kernel ran, and those that nobody should trust."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dpml.classroom import progress
from dpml.classroom.students import make_student_version

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
SHEET = "exercises/01_promise.ipynb"
RUN = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=600, kernel_name="python3", allow_errors=True).execute()
nbformat.write(notebook, sys.argv[1])
"""


@pytest.fixture(scope="module")
def known() -> list[progress.Lesson]:
    return progress.lessons(NOTEBOOKS)


@pytest.fixture
def sheet() -> dict[str, Any]:
    text = (NOTEBOOKS / SHEET).read_text(encoding="utf-8")
    return make_student_version(json.loads(text), name=SHEET)


def check_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if "".join(cell["source"]).startswith("items.check_")]


def printed(text: str) -> list[dict[str, Any]]:
    return [{"output_type": "stream", "name": "stdout", "text": [text]}]


def refused(text: str) -> list[dict[str, Any]]:
    return [{"output_type": "error", "ename": "NotYet", "evalue": text, "traceback": [f"Not yet: {text}"]}]


def put(notebook: dict[str, Any], path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook), encoding="utf-8")
    return path


def test_every_sheet_and_chapter_with_questions_is_known(known: list[progress.Lesson]) -> None:
    names = [lesson.name for lesson in known]
    assert {f"exercises/{path.name}" for path in (NOTEBOOKS / "exercises").glob("*.ipynb")} <= set(names)
    assert names.index("01_promise.ipynb") < names.index(SHEET) < names.index("02_composition.ipynb")
    assert all(item for lesson in known for item in lesson.items)
    ids = [name for lesson in known for name in lesson.checks]
    assert len(ids) == len(set(ids)) > 100


def test_a_sheet_that_a_kernel_ran(known: list[progress.Lesson], sheet: dict[str, Any], tmp_path: Path) -> None:
    """Item 1 answered rightly, item 2 without noise; the rest is as it was given."""
    for cell in sheet["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "mean-noise":
            cell["source"] = "mean_noise = lambda *, n, epsilon: 1 / (n * epsilon)"
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "private-mean":
            cell["source"] = "private_mean = lambda values, *, epsilon, rng: float(np.mean(values))"
    path = put(sheet, tmp_path / "mine.ipynb")  # a name of one's own is no hindrance
    command = [sys.executable, "-W", "ignore", "-c", RUN, str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr[-2000:]
    found = progress.read(path, known)
    assert found is not None
    lesson, states = found
    assert lesson.name == SHEET
    assert [*states.values()] == ["passed", "tried", *["left"] * (len(lesson.items) - 2)]


@pytest.mark.parametrize(
    ("outputs", "state"),
    [
        ([], "left"),
        (printed("✓ mean_noise: agrees with its definition on 4 inputs\n"), "passed"),
        (printed("why: read, not graded. Compare your argument with these points:\n"), "read"),
        (printed("something else\n"), "tried"),
        (printed("something else\n✓ mean_noise: agrees\n"), "tried"),
        (refused("mean_noise is not written yet. Write your answer."), "left"),
        (refused("For n = 2, your mean_noise returned 3."), "tried"),
        (printed("✓ mean_noise: agrees\n") + refused("For n = 2, your mean_noise returned 3."), "tried"),
        ([{"output_type": "stream", "name": "stdout", "text": "✓ as one text"}], "passed"),
        ("no list", "edited"),
    ],
)
def test_the_state_of_a_check(known: Any, sheet: Any, tmp_path: Path, outputs: Any, state: str) -> None:
    check_cells(sheet)[0]["outputs"] = outputs
    found = progress.read(put(sheet, tmp_path / "01_promise.ipynb"), known)
    assert found is not None
    assert next(iter(found[1].values())) == state


def test_an_edited_or_deleted_check_does_not_count(known: Any, sheet: Any, tmp_path: Path) -> None:
    first, second, *_ = check_cells(sheet)
    first["source"], first["outputs"] = "print('✓ mean_noise: fine')", printed("✓ mean_noise: fine\n")
    sheet["cells"].remove(second)
    found = progress.read(put(sheet, tmp_path / "01_promise.ipynb"), known)
    assert found is not None
    assert [*found[1].values()][:2] == ["edited", "edited"]


def test_an_item_with_several_checks_needs_all(known: Any, sheet: Any, tmp_path: Path) -> None:
    lesson = next(one for one in known if one.name == SHEET)
    several = next(item for item in lesson.items if [c.item for c in lesson.checks.values()].count(item) > 1)
    cells = [cell for cell in check_cells(sheet) if lesson.checks[cell["id"]].item == several]
    for count, state in ((0, "left"), (1, "tried"), (len(cells), "passed")):
        for number, cell in enumerate(cells):
            cell["outputs"] = printed("✓ right\n") if number < count else []
        found = progress.read(put(sheet, tmp_path / "01_promise.ipynb"), known)
        assert found is not None
        assert found[1][several] == state


def command(*words: object, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-m", "dpml.classroom.progress", *map(str, words)]
    return subprocess.run(run, cwd=cwd, capture_output=True, text=True, encoding="utf-8")


def test_a_class(sheet: Any, tmp_path: Path) -> None:
    """Three students; of one nothing is readable, one has two copies of which the better one counts."""
    for cell in check_cells(sheet):
        cell["outputs"] = printed("✓ right\n")
    put(sheet, tmp_path / "ann" / "exercises" / "01_promise.ipynb")
    half = copy.deepcopy(sheet)
    for cell in check_cells(half)[1:]:
        cell["outputs"] = refused("too small")
    put(half, tmp_path / "bob" / "01_promise.ipynb")
    put({"cells": [], "nbformat": 4}, tmp_path / "bob" / "notes.ipynb")
    put(half, tmp_path / "bob" / ".ipynb_checkpoints" / "01_promise-checkpoint.ipynb")
    if sys.platform == "linux":  # a name that is no text
        put(half, tmp_path / "dee\udcff" / "01_promise.ipynb")
    (tmp_path / "cy <i>").mkdir()
    (tmp_path / "cy <i>" / "01_promise.ipynb").write_text("{ broken", encoding="utf-8")
    (tmp_path / "cy <i>" / "deep.ipynb").write_text("[" * 200_000, encoding="utf-8")
    done = command(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"(?m)^ann +7 of \d+$", done.stdout)
    assert re.search(r"(?m)^bob +1 of \d+$", done.stdout)
    assert "cy <i>: 01_promise.ipynb must be a notebook, and cannot be read as one" in done.stdout
    assert "cy <i>: deep.ipynb must be a notebook" in done.stdout
    page = (tmp_path / "progress.html").read_text(encoding="utf-8")
    row = re.search(r'<tr><th scope="row">Item 2: .*', page)
    assert row is not None
    assert row[0].count("✓") == 1
    assert '<td class="n">1</td>' in row[0]
    assert "http" not in page


@pytest.mark.parametrize("words", [("--help",), ("a", "b")])
def test_usage(words: tuple[str, ...]) -> None:
    done = command(*words)
    assert (done.returncode, done.stdout.count("course.py progress")) == (2, 1)


def test_a_folder_that_is_not_there_or_is_none_of_a_class(tmp_path: Path) -> None:
    assert command(tmp_path / "none").stdout == f"There is no folder {tmp_path / 'none'}.\n"
    assert "must hold a folder for each student" in command(tmp_path).stdout


def test_a_page_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "progress.html").mkdir()
    done = command(tmp_path)
    assert done.returncode == 1
    assert re.search(r"The page .*progress.html cannot be written: .+\.$", done.stdout.rstrip())


def test_ones_own_copies(sheet: Any, tmp_path: Path) -> None:
    (tmp_path / "notebooks" / "exercises").mkdir(parents=True)
    (tmp_path / "notebooks" / SHEET).write_bytes((NOTEBOOKS / SHEET).read_bytes())
    assert "python3 course.py copies" in command(cwd=tmp_path).stdout
    for cell in check_cells(sheet)[:2]:
        cell["outputs"] = printed("✓ right\n")
    put(sheet, tmp_path / "work" / "exercises" / "01_promise.ipynb")
    done = command(cwd=tmp_path)
    assert re.search(r"01_promise.ipynb +2 of +7   next: Item 3: Randomized response", done.stdout)
    page = (tmp_path / "work" / "progress.html").read_text(encoding="utf-8")
    assert page.count("✓ passed") == 2
    assert "</meter> 2 of 7, next: Item 3: Randomized response</p>" in page
    assert "<h2>Exercises 01: What differential privacy promises</h2>" in page
