"""Students' copies of the exercise notebooks: everything but the solutions.

An exercise notebook holds its solutions between markers, each alone on its line:

    ### BEGIN SOLUTION              ### BEGIN HIDDEN TESTS
    ### END SOLUTION                ### END HIDDEN TESTS

In a text cell they may also be comments, ``<!-- BEGIN SOLUTION -->``. A region inside a function becomes one
line that raises NotImplementedError; a region at module level, below a line such as ``epsilon = ...``, becomes a
comment; a region of a text cell becomes one line that invites an answer; hidden tests go. A solution cell of
nbgrader without markers is a solution as a whole, as it is for nbgrader.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from dpml.classroom.plain import as_lines
from dpml.classroom.verdict import UNWRITTEN

__all__ = ["make_student_version", "release_course"]

CODE_STUB = f'raise NotImplementedError("{UNWRITTEN}")'
VALUE_STUB = "# Write your answer here, in place of the dots."
TEXT_STUB = f"*{UNWRITTEN.capitalize()}.*"

Status = Literal["written", "kept", "newer"]
"""Of a copy: "newer" is kept too, but its source has changed since it was written."""

Form = Callable[[Mapping[str, Any]], dict[str, Any]]


def _region(opens: str, closes: str) -> re.Pattern[str]:
    """The lines from a BEGIN in such a comment to the first END of the same words."""
    gap, what = r"[^\S\n]", r"(?P<what>SOLUTION|HIDDEN[^\S\n]+TESTS)"
    begin, end = (
        rf"{opens}{gap}*{edge}{gap}*{closes}{gap}*\n" for edge in (rf"BEGIN{gap}+{what}", rf"END{gap}+(?P=what)")
    )
    return re.compile(rf"(?im)^(?P<indent>{gap}*){begin}(?P<inside>(?:.*\n)*?){gap}*{end}")


_CODE_REGION, _TEXT_REGION = _region("#+", ""), _region("(?:#+|<!--+)", "(?:--+>)?")
# Whatever looks like a marker and is none: guessing here would leak a solution.
_SUSPECT = re.compile(
    r"\b(?:BEGIN|END)[\W_]*(?:SOLUTION|HIDDEN[\W_]*TEST)|(?i:(?:#|<!--)\W*(?:begin|end)\W+(?:solution|hidden))"
)

_KEPT_NOTEBOOK_METADATA = ("kernelspec", "language_info")
_KEPT_CELL_METADATA = ("nbgrader", "tags", "editable", "deletable")
_KEPT_NBGRADER = ("grade", "grade_id", "locked", "points", "schema_version", "solution", "task", "cell_type")
_LOCKED = {"editable": False, "deletable": False}  # JupyterLab and nbgrader know these
_PICTURES = ("image/png", "image/jpeg", "image/gif")  # of attachments: a text could hold a solution
_BOOK_TAGS = ("hide-input", "hide-cell", "hide-output", "remove-input", "remove-cell", "remove-output")

_BOOK_LINK = re.compile(r"\[([^\]]+)\]\(\.\./book/[^)]+\)")

_RECORD = ".given.json"  # in the students' folder: of each file's name, the digest of the text that was written


def make_student_version(notebook: Mapping[str, Any], *, name: str) -> dict[str, Any]:
    """A copy of the notebook (nbformat 4, as parsed JSON) without solutions, hidden tests and outputs.

    Ids, nbgrader's metadata and tags stay, except for the tags that fold a solution away in the book. Other
    metadata goes, and so does an attachment that is no picture, or that only a solution used. `name` is used in
    messages.

    Raises:
        ValueError: naming notebook and cell, if markers are unbalanced, nested or not alone on their line, or
            if the student's cell would not be valid Python where the source is.
    """
    found = notebook.get("nbformat") if isinstance(notebook, Mapping) else type(notebook).__name__
    if found != 4 or not isinstance(notebook.get("cells"), list):
        raise ValueError(f"{name} must be a notebook of format 4, got format {found!r}")
    student = {key: notebook[key] for key in ("nbformat", "nbformat_minor") if key in notebook}
    metadata = notebook.get("metadata", {})
    student["metadata"] = {k: copy.deepcopy(metadata[k]) for k in _KEPT_NOTEBOOK_METADATA if k in metadata}
    cells = enumerate(notebook["cells"], start=1)
    student["cells"] = [_student_cell(cell, where=f"{name}, cell {number}") for number, cell in cells]
    return student


def _source(cell: Mapping[str, Any]) -> str:
    return "".join(cell.get("source", "")).replace("\r\n", "\n").replace("\r", "\n")


def _without_solution(cell: Mapping[str, Any], *, where: str) -> tuple[str, bool]:
    """The text of the student's cell, and whether there was a solution."""
    code, solved = cell.get("cell_type") == "code", False

    def stub(region: re.Match[str]) -> str:
        nonlocal solved
        _refuse_markers(region["inside"], where=where)
        if region["what"].upper() != "SOLUTION":
            return ""
        solved = True
        return (_stub(region) if code else TEXT_STUB) + "\n"

    kept = (_CODE_REGION if code else _TEXT_REGION).sub(stub, _source(cell) + "\n").removesuffix("\n")
    _refuse_markers(kept, where=where)
    if not solved and cell.get("metadata", {}).get("nbgrader", {}).get("solution") is True:
        return CODE_STUB if code else TEXT_STUB, True
    return kept, solved


def _refuse_markers(text: str, *, where: str) -> None:
    for line in text.split("\n"):
        if _SUSPECT.search(line):
            problem = "a marker must be alone on its line, and after each BEGIN its END must come"
            raise ValueError(f"{where}: {problem}, got {line.strip()!r}")


def _stub(region: re.Match[str]) -> str:
    """What stands for a solution in code."""
    # The indentation is that of the solution: a comment, as its marker, may stand anywhere, a statement may not.
    statement = re.search(r"(?m)^([^\S\n]*)[^\s#]", region["inside"])
    indent = statement[1] if statement else region["indent"]
    # A raising line at module level would stop "Run all"; there `x = ...` stands above and the check tells.
    return indent + CODE_STUB if indent else VALUE_STUB


def _student_cell(cell: Mapping[str, Any], *, where: str) -> dict[str, Any]:
    where += f" (id {cell['id']})" if "id" in cell else ""
    text, solved = _without_solution(cell, where=where)
    if cell["cell_type"] == "code" and _parses(_source(cell)) and not _parses(text):
        raise ValueError(f"{where}: without its solution the cell is not valid Python; move the markers")
    metadata = {k: copy.deepcopy(v) for k, v in cell.get("metadata", {}).items() if k in _KEPT_CELL_METADATA}
    if "nbgrader" in metadata:
        metadata["nbgrader"] = {k: v for k, v in metadata["nbgrader"].items() if k in _KEPT_NBGRADER}
    if solved and "tags" in metadata:
        metadata["tags"] = [tag for tag in metadata["tags"] if tag not in _BOOK_TAGS]
    if text.startswith("items.check_"):
        metadata |= _LOCKED
    student = {key: copy.deepcopy(cell[key]) for key in ("id", "cell_type") if key in cell}
    student["metadata"] = metadata
    student["source"] = as_lines(text)
    if cell["cell_type"] == "code":
        student |= {"execution_count": None, "outputs": []}
    attachments = {
        file: {kind: data for kind, data in bundle.items() if kind in _PICTURES}
        for file, bundle in cell.get("attachments", {}).items()
        if f"attachment:{file}" in text
    }
    shown = {file: bundle for file, bundle in attachments.items() if bundle}
    return student | ({"attachments": shown} if shown else {})


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def _read(path: Path) -> dict[str, Any]:
    try:
        notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise ValueError(f"{path.name} must be a notebook in JSON, got: {error}") from error
    return notebook


def _put(files: Mapping[Path, str], folder: Path, form: Form = dict) -> list[tuple[Path, Status]]:
    """Write each file at once or not at all, and none that is there already. Which form it had does not count."""
    record, report = folder / _RECORD, list[tuple[Path, Status]]()
    given = _read(record) if record.is_file() else {}
    for path, text in files.items():
        name, digest = path.relative_to(folder).as_posix(), hashlib.sha256(text.encode()).hexdigest()
        if os.path.lexists(path):
            report.append((path, "kept" if given.get(name, digest) == digest else "newer"))
        else:
            _write(path, _json(form(json.loads(text))) if path.suffix == ".ipynb" else text)
            given[name] = digest
            report.append((path, "written"))
    if "written" in dict(report).values():
        _write(record, json.dumps(given, indent=1))
    return report


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8", newline="\n")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _versions(source: Path, target: Path, version: Callable[..., dict[str, Any]]) -> dict[Path, str]:
    paths = sorted(path for path in source.glob("*.ipynb") if path.is_file())
    if not paths:
        raise ValueError(f"the source folder must hold notebooks, got none in {source}")
    return {target / path.name: _json(version(_read(path), name=path.name)) for path in paths}


def _chapter(notebook: Mapping[str, Any], *, name: str) -> dict[str, Any]:
    student = make_student_version(notebook, name=name)
    for cell, given in zip(student["cells"], notebook["cells"], strict=True):
        if _source(cell).startswith("items.check_"):
            cell["metadata"].setdefault("tags", []).append("raises-exception")
        elif _source(cell) == _source(given):
            cell["metadata"] = copy.deepcopy(given.get("metadata", {}))
        if cell["cell_type"] == "markdown":  # the book's own pages are on the website alone
            cell["source"] = [_BOOK_LINK.sub(r"\1 (on the course's website)", line) for line in cell["source"]]
    return student


def _json(notebook: Mapping[str, Any]) -> str:
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def release_course(root: str | Path, target: str | Path, *, form: Form = dict) -> list[tuple[Path, Status]]:
    """Write a student's folder: the student versions of the chapters and of their exercises, and a README.md.

    `root` is the folder that holds ``notebooks/``; `form` makes of each notebook what is written, such as
    `dpml.classroom.plain.with_plain_text`. A chapter keeps all but the solutions of its questions, and a
    question without an answer does not stop "Run all". Returns the path of each file with "written", "kept", or
    "newer" where it is kept although its source has changed since it was written. Nothing that is there already is
    overwritten, and nothing is written unless every notebook passes.

    Raises:
        ValueError: as make_student_version does, if there is no notebook, or if both folders are the same.
    """
    notebooks, folder = Path(root) / "notebooks", Path(target)
    if notebooks.resolve() == folder.resolve():
        raise ValueError(f"target must differ from the folder of the sources, got {target}")
    files = _versions(notebooks, folder, _chapter)
    files |= _versions(notebooks / "exercises", folder / "exercises", make_student_version)
    readme = Path(__file__).with_name("copies.md").read_text(encoding="utf-8")
    return _put({folder / "README.md": readme, **files}, folder, form)
