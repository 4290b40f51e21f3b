"""From an instructor's seed to a course folder for nbgrader: sources, released notebooks, marking pages, settings."""

from __future__ import annotations

import ast
import hashlib
import importlib
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import dpml
from assignments import grader
from assignments.item import Argued, Graded, Sheet
from assignments.steps import HIDDEN

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SHEETS = [slug for slug in dpml.CHAPTERS if (HERE / "items" / f"{slug}.py").is_file()]
COPIED = ("__init__.py", "answers.py", "grader.py", "steps.py")
PREAMBLE = """# {title}

Write each answer into the cell below its question, in place of the dots or of the line
`raise NotImplementedError(...)`, and run the check below it. The check looks at the form of an answer only; whether it
is right, the grading finds out.

You hand in the answer cells alone: cells that you add are not run, so keep what an answer needs in its cell. Answers
may use those above them, NumPy and `dpml`; no plots, no files. An answer has 60 seconds."""


def outside(path: Path, *, what: str) -> Path:
    if path.resolve().is_relative_to(ROOT):
        raise SystemExit(f"{what} must lie outside the folder of the course, which others see: {path}")
    return path


def new_seed(path: Path) -> None:
    """Write 256 random bits into a file of the instructor's, which must not be there yet."""
    outside(path, what="The seed")
    text = f"dpml seed. Keep it secret, and keep it: it draws the same sheets again.\n{secrets.token_hex(32)}\n"
    try:
        path.touch(mode=0o600, exist_ok=False)
    except FileExistsError:
        raise SystemExit(f"{path} is there already, and a seed is never overwritten: choose another name.") from None
    path.write_text(text, encoding="utf-8")


def read_seed(path: Path) -> str:
    outside(path, what="The seed")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise SystemExit(f"{path} cannot be read as a seed: make one with --new-seed FILE.") from None
    [*_, last] = text.split() or [""]
    if not re.fullmatch(r"[0-9a-f]{32,}", last):
        raise SystemExit(
            f"{path} holds no seed of at least 128 bits (32 hexadecimal digits): make one with --new-seed FILE."
        )
    if len(set(last)) < 8 or len({last[i : i + 2] for i in range(0, len(last), 2)}) < 10:
        raise SystemExit(f"The seed in {path} is not random, and can be guessed: make one with --new-seed FILE.")
    return last


def drawn(slug: str, seed: str) -> Sheet:
    """The sheet of a chapter; which other chapters are asked for makes no difference to it."""
    rng = np.random.default_rng(list(hashlib.sha256(f"{seed} {slug}".encode()).digest()))
    sheet = importlib.import_module(f"assignments.items.{slug}").make(rng)
    assert isinstance(sheet, Sheet)
    return sheet


def source(slug: str, sheet: Sheet) -> Any:
    """The instructor's notebook, in nbgrader's format."""
    cells = []

    def put(make: Any, name: str, text: str, **nbgrader: Any) -> None:
        flags = {"grade": False, "locked": True, "solution": False, "task": False, "schema_version": 3} | nbgrader
        cells.append(make(text, id=f"{slug}-{name}"[:64], metadata={"nbgrader": {"grade_id": name, **flags}}))

    put(new_markdown_cell, "preamble", PREAMBLE.format(title=sheet.title))
    put(new_code_cell, "imports", sheet.imports)
    for count, item in enumerate(sheet.items, start=1):
        title, _, text = item.question.strip().partition("\n")
        points = f"{item.points} point{'s' * (item.points != 1)}"
        put(new_markdown_cell, f"{item.name}-question", f"## Item {count}: {title} ({points})\n\n{text.strip()}")
        if isinstance(item, Graded):
            solution = f"{item.stub}\n### BEGIN SOLUTION\n{item.solution}\n### END SOLUTION"
            put(new_code_cell, item.name, solution, locked=False, solution=True)
            check = f"{item.visible}\n{HIDDEN[0]}\n{item.hidden}\n{HIDDEN[1]}"
            put(new_code_cell, f"{item.name}-check", check, grade=True, points=item.points)
        else:
            text = f"### BEGIN SOLUTION\n{item.answer}\n### END SOLUTION"
            put(new_markdown_cell, item.name, text, locked=False, solution=True, grade=True, points=item.points)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.validate(notebook)
    return notebook


def marking(sheet: Sheet) -> str:
    """The marking page."""
    parts = [f"# {sheet.title}: marking\n\nFor the instructor alone."]
    for item in sheet.items:
        if isinstance(item, Argued):
            parts += [f"## {item.name} ({item.points} points)", item.question]
            parts += ["### Points", item.rubric, "### A model answer", item.answer]
    return "\n\n".join(parts) + "\n"


def expected(code: str) -> Iterator[str]:
    """The numbers of three digits and more that hidden tests give as expected, as text."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.keyword) and node.arg == "expected":
            for part in ast.walk(node.value):
                if isinstance(part, ast.Constant) and type(part.value) in (int, float):
                    text = repr(part.value)
                    yield from [text] if len(re.sub(r"\D", "", text).strip("0")) >= 3 else []


def text_of(notebook: Any) -> str:
    """All text of a notebook: sources, metadata, outputs, attachments."""
    if isinstance(notebook, dict):
        return "\n".join(f"{key}\n{text_of(value)}" for key, value in notebook.items())
    return "\n".join(map(text_of, notebook)) if isinstance(notebook, list) else str(notebook)


def leaks(notebook: Any, sheet: Sheet, seed: str = "") -> list[str]:
    """What a released notebook tells and should not."""
    text = text_of(notebook)
    lines = {line.strip() for line in text.splitlines()}
    public = {line.strip() for item in sheet.items for line in item.question.splitlines()}
    told = [seed] if seed and seed in text else []
    for item in sheet.items:
        if isinstance(item, Graded):
            public |= {line.strip() for part in (item.stub, item.visible) for line in part.splitlines()}
    for item in sheet.items:
        parts = (item.solution, item.hidden) if isinstance(item, Graded) else (item.rubric, item.answer)
        secret = {line.strip() for part in parts for line in part.splitlines()} - public
        told += [f"{item.name}: {line}" for line in secret & lines if len(line) > 5 and not line.startswith("from ")]
        if isinstance(item, Graded):
            # A number that the question gives is a parameter, though a test may expect something of it.
            told += [f"{item.name}: {n}" for n in expected(item.hidden) if n in text and n not in item.question]
    for cell in notebook["cells"]:
        kept = set(cell["metadata"]) - {"nbgrader", "editable", "deletable"}
        if cell.get("outputs") or cell.get("attachments") or kept:
            told.append(f"outputs, attachments or metadata of {cell['id']}")
    return told


def tried(slug: str, sheet: Sheet) -> None:
    """Solutions get all points and stubs none, in the processes that grade."""
    graded = [item for item in sheet.items if isinstance(item, Graded)]
    for right in (True, False):
        items = [grader.Item(i.name, i.stub, i.solution if right else i.stub, i.visible, i.hidden) for i in graded]
        for verdict in grader.examined(sheet.imports, items):
            if verdict.passed is not right:
                who = "the solution" if right else "an empty answer"
                raise SystemExit(f"Sheet {slug}, item {verdict.name}: {who} gets the wrong verdict: {verdict.text}")


def release(seed_file: Path, target: Path, chapters: Sequence[str]) -> None:
    """Make the course folder as a whole, or nothing of it."""
    from assignments import report

    seed = read_seed(seed_file)
    outside(target, what="The course folder")
    unknown = sorted(set(chapters) - set(SHEETS))
    if unknown:
        raise SystemExit(f"There is no sheet for {', '.join(unknown)}; there are {', '.join(SHEETS)}.")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise SystemExit(f"{target} is there and not empty: nothing was changed. Name a new folder.")
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(HERE / "course_folder", part)
    try:
        (part / "assignments").mkdir()
        for name in COPIED:
            shutil.copy(HERE / name, part / "assignments")
        for slug in chapters or SHEETS:
            sheet = drawn(slug, seed)
            tried(slug, sheet)
            for folder, text in (("source", nbformat.writes(source(slug, sheet))), ("marking", marking(sheet))):
                path = part / folder / (f"{slug}/{slug}.ipynb" if folder == "source" else f"{slug}.md")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8", newline="\n")
            done = report.nbgrader(part).generate_assignment(slug, force=True, create=True)
            if not done["success"]:
                raise SystemExit(f"nbgrader cannot release {slug}: {report.why(done)}")
            told = leaks(nbformat.read(part / "release" / slug / f"{slug}.ipynb", as_version=4), sheet, seed)
            if told:
                raise SystemExit(f"The released sheet {slug} tells what it must not: {told[0]}")
            points = sum(item.points for item in sheet.items)
            print(f"{slug}: {len(sheet.items)} items, {points} points", flush=True)
        if target.exists():
            target.rmdir()
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    print(f"The course folder: {target}. Its README.md says what comes next.")
