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
from collections import defaultdict
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_output
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import is_grade, is_solution
from traitlets import Float, List, Unicode

from assignments import answers, grader

HIDDEN = ("### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS")
# What an honest answer has no use for: the lessons' checks, other files and processes, the state of Python itself.
UNUSUAL = (
    r"dpml\.(?:lessons|classroom)|\bassignments\b|\bnotebooks?\b|__\w+__|\binspect\b|_getframe|\bf_(?:back|globals|locals|code)\b|\bgc\b|"
    r"\bctypes\b|\bsubprocess\b|\bsocket\b|\burllib\b|\batexit\b|\bthreading\b|\bimportlib\b|"
    r"get_ipython|\bsetattr\b|\bglobals\b|\bos\b|\bsys\b|\bpathlib\b|\bopen\b|\bexec\b|\beval\b|\bcompile\b"
)


def grade_id(cell: Any) -> str:
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


def notices(given: Any, handed_in: Any) -> list[str]:
    """How a submission differs from the released notebook, but for its answers; and what is unusual in these."""
    found, known = defaultdict(list), {grade_id(cell): cell for cell in given.cells}
    for name, cell in known.items():
        there = [other for other in handed_in.cells if grade_id(other) == name]
        kind = "answer" if is_solution(cell) else "locked"
        if len(there) != 1:
            found[f"{kind} cells that are {'there twice' if there else 'missing'}"].append(name)
        if not there:
            continue
        if kind == "locked" and there[-1].source.strip() != cell.source.strip():
            found["locked cells that were edited"].append(name)
        for key in ("points", "grade", "locked", "solution"):
            own, its = cell.metadata.nbgrader.get(key), there[-1].metadata.nbgrader.get(key)
            if own != its:
                found[f"{key} made {its}"].append(name)
        if kind == "answer" and cell.cell_type == "code":
            words = sorted(set(re.findall(UNUSUAL, there[-1].source)))
            found[f"what an answer seldom needs ({', '.join(words)})"] += [name] if words else []
    added = [cell for cell in handed_in.cells if grade_id(cell) not in known and cell.source.strip()]
    found["cells with code that were added, and are not run"] += [
        str(c.get("id")) for c in added if c.cell_type == "code"
    ]
    return [f"{what}: {', '.join(names)}" for what, names in found.items() if names]


class Restore(NbGraderPreprocessor):
    course = Unicode(help="the course folder").tag(config=True)

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        given = released(self.course, resources["nbgrader"]["notebook"])
        told = notices(given, nb)
        named = {grade_id(cell): cell.source for cell in nb.cells if grade_id(cell)}
        # Some editors drop nbgrader's metadata, and keep the id of the cell.
        plain = {cell.get("id"): cell.source for cell in nb.cells if not grade_id(cell)}
        for cell in given.cells:
            if is_solution(cell):
                cell.source = named.get(grade_id(cell), plain.get(cell.get("id"), cell.source))
        given.metadata["notices"] = told
        return given, resources


class Examine(NbGraderPreprocessor):
    course = Unicode(help="the course folder").tag(config=True)
    command = List(Unicode(), help="starts the Python of the answers; empty: this one").tag(config=True)
    limit = Float(grader.LIMIT, help="seconds for a cell, and for each call of a function").tag(config=True)

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        given = {grade_id(cell): cell for cell in released(self.course, resources["nbgrader"]["notebook"]).cells}
        code = [cell for cell in nb.cells if cell.cell_type == "code"]
        imports = next(cell for cell in code if not is_grade(cell) and not is_solution(cell))
        pairs = [pair for pair in itertools.pairwise(code) if is_solution(pair[0]) and is_grade(pair[1])]
        items = []
        for answer, check in pairs:
            asked = answers.names_asked(given[grade_id(answer)].source)
            items.append(grader.Item(grade_id(answer), answer.source, asked, *split(check.source)))
        verdicts = grader.examined(imports.source, items, command=self.command, limit=self.limit)
        for (answer, check), verdict in zip(pairs, verdicts, strict=True):
            answer.outputs = [new_output("stream", text=verdict.printed)] if verdict.printed else []
            if verdict.trace:
                last = verdict.trace.strip().splitlines()[-1]
                error = {"ename": verdict.error, "evalue": last, "traceback": verdict.trace.splitlines()}
                answer.outputs.append(new_output("error", **error))
            if verdict.passed:
                check.outputs = [new_output("stream", text=verdict.text)]
            else:
                error = {"ename": "Not yet", "evalue": verdict.text, "traceback": [verdict.text]}
                check.outputs = [new_output("error", **error)]
            check.source = split(check.source)[0]
        nb.metadata["notices"] = [*nb.metadata.get("notices", []), *(v.ended for v in verdicts if v.ended)]
        return nb, resources
