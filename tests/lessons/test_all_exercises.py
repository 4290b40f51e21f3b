"""Every exercise notebook: its stubs are kind, hide the solutions, and its checks survive any answer."""

import ast
import contextlib
import itertools
import json
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpml.classroom.checks import NotYet
from dpml.classroom.students import make_student_version

FOLDER = Path(__file__).parents[2] / "notebooks" / "exercises"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

pytestmark = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def is_check(cell: dict[str, Any]) -> bool:
    return cell["metadata"].get("nbgrader", {}).get("grade") is True


def is_solution(cell: dict[str, Any]) -> bool:
    return cell["metadata"].get("nbgrader", {}).get("solution") is True


def run(cell: dict[str, Any], names: dict[str, Any]) -> None:
    exec(compile(source(cell), f"<{cell['id']}>", "exec"), names)


def names_after(cells: Iterable[dict[str, Any]]) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for cell in cells:
        run(cell, names)
    return names


def answers(check: dict[str, Any]) -> list[str]:
    """The names that a check is called with."""
    [call] = [node for node in ast.walk(ast.parse(source(check))) if isinstance(node, ast.Call)]
    return [node.id for node in (*call.args, *(k.value for k in call.keywords)) if isinstance(node, ast.Name)]


def test_has_items_of_every_kind(path):
    checks = [cell for cell in code_cells(read(path)) if is_check(cell)]
    tags = [tag for cell in checks for tag in cell["metadata"].get("tags", [])]
    items = [c for c in read(path)["cells"] if c["cell_type"] == "markdown" and source(c).startswith("## Item ")]
    assert len(items) >= 5
    assert "mechanism" in tags, "no check is tagged as one of a mechanism"
    assert "proof" in tags, "no check is tagged as one of a step of a proof"


@pytest.mark.filterwarnings("ignore")  # of nbgrader's libraries
def test_cells_are_ready_for_grading(path):
    """nbgrader reads each sheet, and each stub, and finds its marks in order: no name comes twice."""
    preprocessors, forms = (pytest.importorskip(f"nbgrader.{part}") for part in ("preprocessors", "nbgraderformat"))
    for sheet in (read(path), make_student_version(read(path), name=path.name)):
        preprocessors.CheckCellMetadata().preprocess(forms.reads(json.dumps(sheet), as_version=4), {})
    for cell in code_cells(read(path)):
        if "nbgrader" in cell["metadata"]:
            metadata = cell["metadata"]["nbgrader"]
            assert metadata["schema_version"] == 3 and metadata["task"] is False
            assert is_check(cell) != is_solution(cell)
            assert metadata["locked"] is is_check(cell)
            if is_check(cell):
                assert len(ast.parse(source(cell)).body) == 1, "one check a cell: the first failure hides the second"
            else:
                assert "hide-input" in cell["metadata"].get("tags", [])
        is_call = "items.check_" in source(cell)
        assert is_call == is_check(cell), f"cell {cell['id']}: checks stand in check cells, and only there"


def test_stub_fails_every_check_kindly(path, capsys):
    names: dict[str, Any] = {}
    checked = 0
    for cell in code_cells(make_student_version(read(path), name=path.name)):
        if is_check(cell):
            checked += 1
            with pytest.raises(NotYet, match="not written yet"):
                run(cell, names)
        elif is_solution(cell):
            try:
                run(cell, names)
            except NotImplementedError as error:
                assert "write your answer here" in str(error)
        else:
            run(cell, names)
    assert checked >= 5
    assert "✓" not in capsys.readouterr().out


def test_stub_holds_no_line_of_a_solution(path):
    notebook = read(path)
    text = "\n".join(map(source, notebook["cells"]))
    regions = re.findall(r"BEGIN (?:SOLUTION|HIDDEN TESTS)[^\n]*\n(.*?)\n[^\n]*\bEND ", text, re.DOTALL)
    secret = {line.strip() for region in regions for line in region.splitlines() if re.search(r"\w", line)}
    assert secret
    stub = make_student_version(notebook, name=path.name)
    lines = {line.strip() for line in json.dumps(stub, indent=0, ensure_ascii=False).splitlines()}
    lines |= {line.strip() for cell in stub["cells"] for line in source(cell).splitlines()}
    assert not secret & lines


JUNK = [
    *(None, math.nan, 3.5, "text", [], np.zeros((2, 2)), dict),
    lambda *args, **kwargs: 1 / 0,
    lambda *args, **kwargs: None,
    lambda: 0.5,
]


def test_check_given_junk(path, capsys):
    """Each is refused; a text that no check can grade is read, and has no points."""
    cells = code_cells(read(path))
    names = names_after(cell for cell in cells if not is_check(cell) and not is_solution(cell))
    for check in filter(is_check, cells):
        for junk in JUNK:
            with pytest.raises(NotYet) as caught:
                run(check, names | dict.fromkeys(answers(check), junk))
            assert len(str(caught.value)) > 20
        essay = names | dict.fromkeys(answers(check), 40 * "word ")
        with contextlib.nullcontext() if check["metadata"]["nbgrader"]["points"] == 0 else pytest.raises(NotYet):
            run(check, essay)


def test_check_given_the_answer_of_another_item(path, capsys):
    cells = code_cells(read(path))
    names = names_after(cell for cell in cells if not is_check(cell))
    checks = [cell for cell in cells if is_check(cell)]
    for check, *others in zip(checks, checks[1:] + checks[:1], checks[2:] + checks[:2], strict=True):
        assert {*answers(check)} <= names.keys()
        other = next(one for one in others if {*answers(one)} != {*answers(check)})
        swapped = dict(zip(answers(check), itertools.cycle(map(names.__getitem__, answers(other))), strict=False))
        with pytest.raises(NotYet) as caught:
            run(check, names | swapped)
        assert str(caught.value).strip()
