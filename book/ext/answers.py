"""A field below each question, whose answer is run and checked in the reader's browser, by files of this site alone.

Python for the browser lies in a folder that `book/runtime.py` fills; without it the pages are as they were. A field
holds what a student's copy holds, so no solution is in it. A page with fields gets their script and, as data, the cells
that its questions can need. A check with the tag `torch` needs PyTorch, which no browser has: its question says so in
place of a field.
"""

from __future__ import annotations

import functools
import html
import json
from pathlib import Path
from typing import Any, NamedTuple

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

from book import runtime
from dpml.classroom.answers import Cell, names, needed, pieces
from dpml.classroom.students import make_student_version

from .solutions import MARKER, is_cell, part

TARGET = "_pyodide"  # of the runtime, in the site
WORKER = Path(runtime.ROOT, "book", "static", "answers.worker.js")
NEEDS_TORCH = (
    '<p class="dpml-answer">This question needs PyTorch, which does not run in a browser: answer it in the notebook on '
    "your own machine.</p>"
)
HELP = (
    '<p id="answer-help">Ctrl+Enter or Shift+Enter runs it too. Tab indents; Escape, then Tab leaves the field. What '
    'you write is kept in this browser, and sent nowhere. <a href="{python}LICENSES.txt">What runs here</a></p>'
)
FIELD = """<section class="dpml-answer" data-id="{id}" role="group" aria-labelledby="label-{id}" hidden>
<label id="label-{id}" for="answer-{id}">Your answer: <code>{name}</code></label>
<textarea id="answer-{id}" aria-describedby="answer-help" rows="{rows}" wrap="off" spellcheck="false" autocomplete="off"
autocorrect="off" autocapitalize="off">
{stub}</textarea>
<p><button type="button">Run and check</button> <button type="button" disabled>Stop</button>
<button type="button">Start afresh</button></p>
<pre role="status"></pre>{help}
</section>"""


class Question(NamedTuple):
    """An answer of a page: the id of its cell, the names that it binds, its text in the source and in a student's copy,
    its checks, and their tags.
    """

    id: str
    name: str
    full: str
    stub: str
    checks: tuple[str, ...] = ()
    tags: frozenset[str] = frozenset()

    @property
    def runs(self) -> bool:
        return "torch" not in self.tags


@functools.cache
def cells_of(path: Path) -> tuple[str | Question, ...]:
    """The code of a notebook in its order: statements, and questions."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    student = make_student_version(notebook, name=path.name)
    found: list[str | Question] = []
    for cell, copy in zip(notebook["cells"], student["cells"], strict=True):
        full, stub = ("".join(one["source"]) for one in (cell, copy))
        if cell["cell_type"] != "code":
            continue
        if MARKER.search(full):
            found.append(Question(cell["id"], ", ".join(sorted(names(stub)[0])), full, stub))
        elif full.startswith("items.check_"):
            question = found.pop()
            tags = question.tags | set(cell["metadata"].get("tags", ()))
            found.append(question._replace(checks=(*question.checks, full), tags=tags))
        else:
            found += pieces(full)
    return tuple(found)


def questions(path: Path) -> list[Question]:
    return [cell for cell in cells_of(path) if isinstance(cell, Question)]


def for_script(path: Path) -> list[dict[str, Any]]:
    """What the script knows of a page: questions without their solutions, and the statements that they can need.

    Of a chapter these are what a solution needs, and the imports, for an answer may go another way.
    """
    earlier: list[Cell] = []
    taken: set[str] = set()
    for cell in cells_of(path):
        earlier.append(Cell(cell.full, cell.name) if isinstance(cell, Question) else Cell(cell))
        if isinstance(cell, Question):
            taken |= {one.source for one in needed(earlier[:-1], [earlier[-1], *map(Cell, cell.checks)])}
    found: list[dict[str, Any]] = []
    for cell in cells_of(path):
        if isinstance(cell, Question):
            if cell.runs:
                found.append({"id": cell.id, "name": cell.name, "source": cell.stub, "checks": cell.checks})
        elif path.parent.name == "exercises" or cell in taken or cell.startswith(("import ", "from ")):
            found.append({"source": cell})
    return found


class Fields(SphinxPostTransform):
    """Put a field above each cell that holds a solution: the style hides the cell while the field is shown."""

    default_priority = 197  # before the solutions are folded
    formats = ("html",)

    def run(self, **_: Any) -> None:
        path = Path(self.env.doc2path(self.env.docname))
        if not has_fields(self.app, self.env.docname):
            return
        python = "../" * self.env.docname.count("/") + f"{TARGET}/"
        known = {question.full.rstrip("\n"): question for question in questions(path)}
        text = HELP.format(python=python)
        for cell in list(self.document.findall(is_cell)):
            for source in part(cell, "source"):
                if question := known.get(source.astext().rstrip("\n")):
                    shown = {name: html.escape(getattr(question, name)) for name in ("id", "name", "stub")}
                    rows = question.stub.count("\n") + 2
                    field = FIELD.format(**shown, rows=rows, help=text) if question.runs else NEEDS_TORCH
                    cell.parent.insert(cell.parent.index(cell), nodes.raw("", field, format="html"))
                    text = "" if question.runs else text
        worker = f"../_static/{WORKER.name}?v={runtime.sha256(WORKER.read_bytes())[:12]}"
        page = {
            "page": self.env.docname,
            "python": python,
            "worker": python + worker,
            "digest": self.config.answers_digest,
        }
        data = json.dumps(page | {"cells": for_script(path)}, ensure_ascii=False).replace("<", "\\u003c")
        script = f'<script type="application/json" id="dpml-answers">{data}</script>'
        self.document.append(nodes.raw("", script, format="html"))


def has_fields(app: Sphinx, page: str) -> bool:
    """Whether a page has questions, and there is what runs them."""
    path = Path(app.env.doc2path(page))
    return bool(app.config.answers_digest) and path.suffix == ".ipynb" and any(one.runs for one in questions(path))


def add_script(app: Sphinx, page: str, _template: str, _context: dict[str, Any], doctree: Any) -> None:
    """Other pages load nothing."""
    if doctree is not None and has_fields(app, page):
        app.add_js_file("answers.js", loading_method="", type="module")


def lay_out(app: Sphinx) -> None:
    """Put the runtime beside the pages."""
    root = Path(app.srcdir)
    if app.builder.format == "html" and runtime.is_there(runtime.folder_of(root)):
        app.config.answers_digest = runtime.lay_out(root, Path(app.outdir, TARGET))


def setup(app: Sphinx) -> dict[str, Any]:
    """The solutions are folded by `book/ext/solutions.py`."""
    app.setup_extension("book.ext.solutions")
    app.add_config_value("answers_digest", "", "", str)
    app.connect("builder-inited", lay_out)
    app.connect("html-page-context", add_script)
    app.add_post_transform(Fields)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
