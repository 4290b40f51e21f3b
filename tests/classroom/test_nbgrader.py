"""A lecturer's way: the exercise sources go through nbgrader, which gives a stub no points and the solution all."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXERCISES = sorted((Path(__file__).parents[2] / "notebooks" / "exercises").glob("*.ipynb"))
CLASS = """
import json, pathlib, shutil, sys
from nbgrader.apps.api import NbGraderAPI
from traitlets.config import Config

here, source, config = pathlib.Path.cwd(), pathlib.Path(sys.argv[1]), Config()
config.CourseDirectory.course_id, config.CourseDirectory.root = "dpml", str(here)
config.ExecutePreprocessor.timeout = 600
config.ClearSolutions.code_stub = {"python": "raise NotImplementedError('write your answer here')"}

def put(origin, *folders):
    target = here.joinpath(*folders, "sheet")
    target.mkdir(parents=True)
    shutil.copy(origin, target)

put(source, "source")
api = NbGraderAPI(config=config)
done = [api.generate_assignment("sheet", force=True, create=True)]
for student, folder in (("ann", "release"), ("bob", "source")):
    put(here / folder / "sheet" / source.name, "submitted", student)
    done.append(api.autograde("sheet", student, force=True, create=True))
failed = [one["error"] for one in done if not one["success"]]
scores = {one["student"]: (one["score"], one["max_score"]) for one in api.get_submissions("sheet")}
pathlib.Path("scores.json").write_text(json.dumps([failed, scores]), encoding="utf-8")
"""


def points(path: Path) -> float:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return sum(cell["metadata"].get("nbgrader", {}).get("points", 0) for cell in cells)


def test_nbgrader_releases_and_grades_an_exercise(tmp_path: Path) -> None:
    pytest.importorskip("nbgrader")
    source = min(EXERCISES, key=lambda path: path.stat().st_size)  # one is enough: all have the same format
    # nbgrader starts alembic by its bare name, which stands beside this Python.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(EXERCISES[0].parents[2])}
    command = [sys.executable, "-W", "ignore", "-c", CLASS, str(source)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr[-3000:]
    failed, scores = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    full = points(source)
    assert failed == [] and full >= 5
    assert scores == {"ann": [0, full], "bob": [full, full]}
