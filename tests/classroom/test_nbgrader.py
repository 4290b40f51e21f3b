"""A lecturer's way: the exercise sources go through nbgrader, which gives a stub no points and the solution all."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXERCISES = sorted((Path(__file__).parents[2] / "notebooks" / "exercises").glob("*.ipynb"))
CONFIG = """c = get_config()
c.CourseDirectory.course_id = "dpml"
c.ExecutePreprocessor.timeout = 600
c.ClearSolutions.code_stub = {"python": "raise NotImplementedError('write your answer here')"}
"""


def nbgrader(folder: Path, *words: str) -> None:
    # nbgrader starts alembic by its bare name, which stands beside this Python.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(EXERCISES[0].parents[2])}
    command = [sys.executable, "-m", "nbgrader", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr[-3000:]


def points(path: Path) -> float:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return sum(cell["metadata"].get("nbgrader", {}).get("points", 0) for cell in cells)


def test_nbgrader_releases_and_grades_an_exercise(tmp_path: Path) -> None:
    pytest.importorskip("nbgrader")
    from nbgrader.api import Gradebook

    source = min(EXERCISES, key=lambda path: path.stat().st_size)  # one is enough: all have the same format
    (tmp_path / "nbgrader_config.py").write_text(CONFIG, encoding="utf-8")
    (tmp_path / "source" / "sheet").mkdir(parents=True)
    shutil.copy(source, tmp_path / "source" / "sheet")
    nbgrader(tmp_path, "generate_assignment", "sheet", "--create")
    for student, folder in (("ann", "release"), ("bob", "source")):
        (tmp_path / "submitted" / student / "sheet").mkdir(parents=True)
        shutil.copy(tmp_path / folder / "sheet" / source.name, tmp_path / "submitted" / student / "sheet")
    nbgrader(tmp_path, "autograde", "sheet", "--create")
    with Gradebook(f"sqlite:///{(tmp_path / 'gradebook.db').as_posix()}") as gradebook:
        scores = {one.student.id: (one.score, one.max_score) for one in gradebook.assignment_submissions("sheet")}
    full = points(source)
    assert full >= 5
    assert scores == {"ann": (0, full), "bob": (full, full)}
