"""What is solved, read from saved notebooks: those that a kernel ran, and those that nobody should trust."""

import copy
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from dpml.classroom import progress
from dpml.classroom.students import make_student_version

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
SHEET = "exercises/01_promise.ipynb"


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


def states_of(sheet: dict[str, Any], known: list[progress.Lesson], folder: Path) -> dict[str, str]:
    found = progress.read(put(sheet, folder / "mine.ipynb"), known)
    assert found is not None
    return found[1]


def test_every_sheet_and_chapter_with_questions_is_known(known: list[progress.Lesson]) -> None:
    names = [lesson.name for lesson in known]
    assert {f"exercises/{path.name}" for path in (NOTEBOOKS / "exercises").glob("*.ipynb")} <= set(names)
    assert names.index("01_promise.ipynb") < names.index(SHEET) < names.index("02_composition.ipynb")
    assert all(item for lesson in known for item in lesson.items)
    ids = [name for lesson in known for name in lesson.checks]
    assert len(ids) == len(set(ids)) > 100


@pytest.mark.filterwarnings("ignore")  # of the Jupyter libraries
def test_a_sheet_that_a_kernel_ran(known: list[progress.Lesson], sheet: dict[str, Any], tmp_path: Path) -> None:
    """Item 1 answered rightly, item 2 without noise; the rest is as it was given."""
    for cell in sheet["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "mean-noise":
            cell["source"] = "mean_noise = lambda *, n, epsilon: 1 / (n * epsilon)"
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "private-mean":
            cell["source"] = "private_mean = lambda values, *, epsilon, rng: float(np.mean(values))"
    notebook, here = nbformat.reads(json.dumps(sheet), as_version=4), {"metadata": {"path": str(ROOT)}}
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", allow_errors=True, resources=here).execute()
    path = put(notebook, tmp_path / "mine.ipynb")  # a name of one's own is no hindrance
    found = progress.read(path, known)
    assert found is not None
    lesson, states = found
    assert lesson.name == SHEET
    first, second = (cell["outputs"] for cell in check_cells(json.loads(path.read_text(encoding="utf-8")))[:2])
    assert [output["text"][:12] for output in first] == ["✓ mean_noise"]
    assert [output["traceback"] for output in second] == [[f"Not yet: {second[0]['evalue']}"]], "and nothing else"
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
    assert next(iter(states_of(sheet, known, tmp_path).values())) == state


def test_an_edited_or_deleted_check_does_not_count(known: Any, sheet: Any, tmp_path: Path) -> None:
    first, second, *_ = check_cells(sheet)
    first["source"], first["outputs"] = "print('✓ mean_noise: fine')", printed("✓ mean_noise: fine\n")
    sheet["cells"].remove(second)
    assert [*states_of(sheet, known, tmp_path).values()][:2] == ["edited", "edited"]


def test_an_item_with_several_checks_needs_all(known: Any, sheet: Any, tmp_path: Path) -> None:
    lesson = next(one for one in known if one.name == SHEET)
    several = next(item for item in lesson.items if [c.item for c in lesson.checks.values()].count(item) > 1)
    cells = [cell for cell in check_cells(sheet) if lesson.checks[cell["id"]].item == several]
    for count, state in ((0, "left"), (1, "tried"), (len(cells), "passed")):
        for number, cell in enumerate(cells):
            cell["outputs"] = printed("✓ right\n") if number < count else []
        assert states_of(sheet, known, tmp_path)[several] == state


def test_a_class(sheet: Any, tmp_path: Path) -> None:
    """Three students; of one nothing is readable, one has two copies of which the better one counts."""
    for cell in check_cells(sheet):
        cell["outputs"] = printed("✓ right\n")
    put(sheet, tmp_path / "ann" / "exercises" / "01_promise.ipynb")
    half = copy.deepcopy(sheet)
    for cell in check_cells(half)[1:]:
        cell["outputs"] = refused("too small")
    put(half, tmp_path / "bob" / "01_promise.ipynb")
    edited = copy.deepcopy(half)
    for cell in check_cells(edited):
        cell["source"] = "print('✓ right')"
    put(edited, tmp_path / "bob" / "first_try.ipynb")
    put({"cells": [], "nbformat": 4}, tmp_path / "bob" / "notes.ipynb")
    put(half, tmp_path / "bob" / ".ipynb_checkpoints" / "01_promise-checkpoint.ipynb")
    if sys.platform == "linux":  # a name that is no text
        put(half, tmp_path / "dee\udcff" / "01_promise.ipynb")
    (tmp_path / "cy <i>").mkdir()
    (tmp_path / "cy <i>" / "01_promise.ipynb").write_text("{ broken", encoding="utf-8")
    (tmp_path / "cy <i>" / "deep.ipynb").write_text("[" * 200_000, encoding="utf-8")
    command = [sys.executable, "-m", "dpml.classroom.progress", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"(?m)^ann +7 of \d+$", done.stdout)
    assert re.search(r"(?m)^bob +1 of \d+$", done.stdout)
    assert "cy <i>: 01_promise.ipynb must be a notebook, and cannot be read as one" in done.stdout
    assert "cy <i>: deep.ipynb must be a notebook" in done.stdout
    page = (tmp_path / "progress.html").read_text(encoding="utf-8")
    row = re.search(r'<tr><th scope="row">Item 2: .*', page)
    assert row is not None
    assert (row[0].count("✓"), row[0].count("!")) == (1, 0)
    assert '<td class="n">1</td>' in row[0]
    assert "http" not in page


def test_what_cannot_be_done_is_said(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(ROOT)
    (tmp_path / "progress.html").mkdir()
    for words, status, said in (
        (["--help"], 2, r"python3 course.py progress \[FOLDER\]: .*"),
        (["a", "b"], 2, r"python3 course.py progress \[FOLDER\]: .*"),
        ([f"{tmp_path}/none"], 1, "There is no folder .*none."),
        ([f"{tmp_path}"], 1, r".* must hold a folder for each student.*\nThe page .*html cannot be written: .+\."),
    ):
        assert progress.main(words) == status
        assert re.fullmatch(said, capsys.readouterr().out.rstrip())


def test_ones_own_copies(sheet: Any, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    put(json.loads((NOTEBOOKS / SHEET).read_text(encoding="utf-8")), tmp_path / "notebooks" / SHEET)
    assert progress.main([]) == 1
    assert "python3 course.py copies" in capsys.readouterr().out
    for cell in check_cells(sheet)[:2]:
        cell["outputs"] = printed("✓ right\n")
    put(sheet, tmp_path / "work" / "exercises" / "01_promise.ipynb")
    assert progress.main([]) == 0
    said = capsys.readouterr().out
    assert re.search(r"01_promise.ipynb +2 of +7   next: Item 3: Randomized response", said)
    page = (tmp_path / "work" / "progress.html").read_text(encoding="utf-8")
    assert page.count("✓ passed") == 2
    assert "</meter> 2 of 7, next: Item 3: Randomized response</p>" in page
    assert "<h2>Exercises 01: What differential privacy promises</h2>" in page
    with pytest.raises(ValueError, match="must be the folder of the lessons"):
        progress.lessons(tmp_path / "work" / "none")
