"""Two steps of nbgrader's autograde, which `nbgrader_config.py` puts in: `Restore`, and `Examine` in place of Execute.

`Restore` takes nothing from a submission but the text of the answer cells; all else is the released notebook again,
into which nbgrader then puts its own checks and hidden tests. `Examine` has `grader` run them, writes each verdict
where nbgrader looks for it, and leaves the hidden tests out of what students get back. What the instructor should look
at stands in the notebook's metadata, for `report`.
"""

from __future__ import annotations

import ast
import itertools
import re
import textwrap
from collections import defaultdict
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_output
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import is_grade, is_solution
from traitlets import Float, List, Unicode

from assignments import grader

HIDDEN = ("### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS")
# What an honest answer has no use for: the lessons' checks, other files and processes, the state of Python itself.
UNUSUAL = (
    r"dpml\.(?:lessons|classroom)|\bassignments\b|\bnotebooks?\b|__\w+__|\binspect\b|_getframe|\bf_(?:back|globals|locals|code)\b|\bgc\b|"
    r"\bctypes\b|\bsubprocess\b|\bsocket\b|\burllib\b|\batexit\b|\bthreading\b|\bimportlib\b|"
    r"✓|get_ipython|\bsetattr\b|\bglobals\b|\bos\b|\bsys\b|\bpathlib\b|\bopen\b|\bexec\b|\beval\b|\bcompile\b"
)


def grade_id(cell: Any) -> str:
    """The name of a released cell."""
    return str(cell.metadata.get("nbgrader", {}).get("grade_id", ""))


def split(check: str) -> tuple[str, str]:
    """The part of a check that students have, and the hidden one."""
    visible, _, rest = check.partition(HIDDEN[0])
    return visible.strip(), rest.partition(HIDDEN[1])[0].strip()


def released(course: str, sheet: str) -> Any:
    return nbformat.read(Path(course, "release", sheet, f"{sheet}.ipynb"), as_version=4)


def code_of(text: str) -> str:
    """A text to compare answers by: without comments, spaces and empty lines if it is Python."""
    try:
        return ast.unparse(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError):
        return " ".join(text.split())


def by_name(given: Any, handed_in: Any) -> dict[str, list[Any]]:
    """The cells of a submission, by the names of the released ones.

    Where an editor has dropped nbgrader's metadata a cell is known by its id, which Colab keeps at another place; where
    that is gone too, a locked cell by its text, and an answer by the question above it.
    """
    names = {key: grade_id(cell) for cell in given.cells for key in (grade_id(cell), cell.id)}
    texts = {cell.source.strip(): grade_id(cell) for cell in given.cells if not is_solution(cell)}
    found: dict[str, list[Any]] = {name: [] for name in names.values()}

    def name_of(cell: Any) -> str:
        keys = (grade_id(cell), str(cell.get("id")), str(cell.metadata.get("id")))
        return next((names[key] for key in keys if key in names), texts.get(cell.source.strip(), ""))

    known = {name_of(cell) for cell in handed_in.cells}
    above = ""
    for cell in handed_in.cells:
        asked = above.removesuffix("-question")
        above = name_of(cell) or (asked if asked in names and asked not in known else "")
        found.setdefault(above, []).append(cell)
    return found


def notices(given: Any, there: dict[str, list[Any]]) -> list[str]:
    """How a submission differs from the released notebook, but for its answers; and what is unusual in these."""
    found = defaultdict(list)
    for cell in given.cells:
        name, kind = grade_id(cell), "answer" if is_solution(cell) else "locked"
        if len(there[name]) != 1:
            found[f"{kind} cells that are {'there twice' if there[name] else 'missing'}"].append(name)
        for other in there[name][-1:]:
            if kind == "locked" and other.source.strip() != cell.source.strip():
                found["locked cells that were edited"].append(name)
            words = sorted(set(re.findall(UNUSUAL, other.source))) if is_solution(cell) else []
            if words and cell.cell_type == "code":
                found[f"what an answer seldom needs ({', '.join(words)})"].append(name)
            if "nbgrader" not in other.metadata:
                found["cells without nbgrader's metadata, known by ids or places"].append(name)
                continue
            for key in ("points", "grade", "locked", "solution"):
                own, its = (one.metadata.nbgrader.get(key) for one in (cell, other))
                if own != its:
                    found[f"{key} made {its}"].append(name)
    added = [str(cell.get("id")) for cell in there.get("", []) if cell.cell_type == "code" and cell.source.strip()]
    found["cells with code that were added, and are not run"] += added
    return [f"{what}: {', '.join(names)}" for what, names in found.items() if names]


class Restore(NbGraderPreprocessor):
    course = Unicode(help="the course folder").tag(config=True)

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        given = released(self.course, resources["nbgrader"]["notebook"])
        there = by_name(given, nb)
        given.metadata["notices"] = notices(given, there)
        for cell in given.cells:
            if is_solution(cell) and there[grade_id(cell)]:
                text = there[grade_id(cell)][-1].source  # the last one counts
                # No HTML in what a person marks: a script would run in the instructor's browser.
                cell.source = text if cell.cell_type == "code" else re.sub(r"<(?=[a-zA-Z/!?])", "< ", text)
        return given, resources


class Examine(NbGraderPreprocessor):
    course = Unicode(help="the course folder").tag(config=True)
    command = List(Unicode(), help="starts the Python of the answers; empty: this one").tag(config=True)
    limit = Float(grader.LIMIT, help="seconds for a cell, a call, or all runs at one setting").tag(config=True)

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        given = {grade_id(cell): cell for cell in released(self.course, resources["nbgrader"]["notebook"]).cells}
        code = [cell for cell in nb.cells if cell.cell_type == "code"]
        imports = next(cell for cell in code if not is_grade(cell) and not is_solution(cell))
        pairs = [pair for pair in itertools.pairwise(code) if is_solution(pair[0]) and is_grade(pair[1])]
        items = [
            grader.Item(grade_id(answer), given[grade_id(answer)].source, answer.source, *split(check.source))
            for answer, check in pairs
        ]
        verdicts = grader.examined(imports.source, items, command=self.command, limit=self.limit)
        for (answer, check), verdict in zip(pairs, verdicts, strict=True):
            answer.outputs = [new_output("stream", text=verdict.printed)] if verdict.printed else []
            if verdict.trace:
                last = verdict.trace.strip().splitlines()[-1]
                error = {"ename": verdict.error, "evalue": last, "traceback": verdict.trace.splitlines()}
                answer.outputs.append(new_output("error", **error))
            lines = [part for line in verdict.text.splitlines() for part in textwrap.wrap(line, 88)]
            error = {"ename": "Not yet", "evalue": verdict.text, "traceback": lines}
            passed = new_output("stream", text="\n".join(lines))
            check.outputs = [passed if verdict.passed else new_output("error", **error)]
            check.source = split(check.source)[0]
        nb.metadata["notices"] = [*nb.metadata.get("notices", []), *(v.ended for v in verdicts if v.ended)]
        nb.metadata["notices"] += [
            f"{v.name} was refused what answers may not do: {v.reached}" for v in verdicts if v.reached
        ]
        return nb, resources
