"""The installed package is enough: chapters, exercises, explorers and checks run from its wheel, in an empty folder."""

import ast
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.sources import code_cells, tree_of

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").rglob("*.ipynb"))
WHOLE = ["09_choose.ipynb", "exercises/01_promise.ipynb"]  # a chapter of recorded results, and an exercise


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder with the package, as its wheel installs it; built without a network from a copy of the sources."""
    base = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (base / "source").mkdir(exist_ok=True)
        shutil.copy(ROOT / name, base / "source")
    shutil.copytree(ROOT / "dpml", base / "source" / "dpml", ignore=shutil.ignore_patterns("__pycache__", ".*"))
    words = ["wheel", "--no-deps", "--no-index", "--no-build-isolation", "-q", "-w", base, base / "source"]
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [wheel] = base.glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        content.extractall(base / "installed")
    return base / "installed"


SCRIPT = """
import importlib, inspect, json, pkgutil, sys, warnings
from pathlib import Path

root, here = map(Path, sys.argv[1:3])
found = []

def watch(event, arguments):
    if event == "open" and isinstance(arguments[0], str):
        path = Path(arguments[0]).absolute()
        if path.is_relative_to(root) and not path.is_relative_to(sys.prefix):
            found.append(str(path))

warnings.simplefilter("ignore")
sys.addaudithook(watch)
import dpml
assert Path(dpml.__file__).is_relative_to(here), dpml.__file__
from dpml import data
from dpml.data import records

for record in records.FOLDER.glob("*.json"):
    assert data.recorded(record.stem)
assert len(data.fashion_mnist_subset().train_labels) == 10_000
assert len(data.digits().train_labels) == 1_437
for module in pkgutil.walk_packages(dpml.__path__, "dpml."):
    if not module.name.endswith("__main__"):
        value = importlib.import_module(module.name)
        if module.name.endswith(".explorers"):
            for name, make in list(vars(value).items()):
                if inspect.isfunction(make) and not name.startswith("_") and make.__module__ == module.name:
                    assert make().frame().title
for name, cells in json.load(sys.stdin).items():
    names = {"__name__": "__main__"}
    for cell in cells:
        exec(compile(cell, name, "exec"), names)
print("opened outside:", found)
"""


def test_everything_runs_from_the_wheel_in_an_empty_folder(installed, tmp_path):
    """Every module, record and explorer, the first cell of every notebook, and two notebooks from end to end.

    It holds every file of the package.
    """
    ours = [p for p in (ROOT / "dpml").rglob("[!.]*") if p.is_file() and "__pycache__" not in p.parts]
    assert [path for path in ours if not (installed / path.relative_to(ROOT)).is_file()] == []
    cells = {}
    for path in NOTEBOOKS:
        name = path.relative_to(ROOT / "notebooks").as_posix()
        code = list(code_cells(path).values())
        cells[name] = code if name in WHOLE else code[:1]
    assert set(WHOLE) < set(cells)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(ROOT), str(installed)],
        input=json.dumps(cells),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed), "MPLBACKEND": "Agg", "PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "opened outside: []"
    assert list(tmp_path.iterdir()) == []


READERS = {"open", "Path", "pathlib", "__file__", "read_text", "read_bytes", "loadtxt", "genfromtxt", "glob"}


@pytest.mark.parametrize(
    "path",
    [*NOTEBOOKS, *sorted((ROOT / "dpml" / "lessons").rglob("*.py"))],
    ids=lambda p: p.relative_to(ROOT).as_posix(),
)
def test_no_cell_and_no_lesson_opens_a_file(path):
    names = {getattr(node, "id", getattr(node, "attr", None)) for node in ast.walk(tree_of(path))}
    assert not names & READERS
