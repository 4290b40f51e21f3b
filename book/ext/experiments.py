"""Pages of recorded experiments, made at build time from the files.

``{dpml-experiment} name part`` shows one part of the file that ``experiments/name.py`` calls ``RESULTS``: how it was
made, and the tables that ``tables(part)`` there makes of it. Without a part, ``{dpml-experiment} name`` shows a file
that is one record. No number is written by hand.
"""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from . import docstrings

FOLDER = Path(__file__).resolve().parents[2] / "experiments"


class ExperimentTables(SphinxDirective):
    """``{dpml-experiment} name part``: a recorded part as tables."""

    required_arguments = 1
    optional_arguments = 1
    has_content = False

    def run(self) -> list[nodes.Node]:
        name, *part = self.arguments
        script = importlib.import_module(f"experiments.{name}")
        for used in (script.RESULTS, FOLDER / f"{name}.py"):
            self.env.note_dependency(str(used))
        record = json.loads(script.RESULTS.read_text(encoding="utf-8"))
        for key in part:
            record = record[key]
        made = ", ".join(f"{key} {value}" for key, value in record["machine"].items() if value is not None)
        first = f"Recorded on {record['date']} with `{record['command']}`: {made}."
        found: list[nodes.Node] = [nodes.paragraph("", "", *docstrings.inline(first))]
        for title, note, head, rows in script.tables(record):
            section = nodes.section(ids=[nodes.make_id(" ".join(["experiment", name, *part, title]))])
            section += nodes.title(text=title)
            section += nodes.paragraph(text=note)
            section += docstrings.table(head, [[[nodes.Text(unbroken(cell))] for cell in row] for row in rows])
            self.state.document.note_explicit_target(section)
            found.append(section)
        return found


def unbroken(cell: str) -> str:
    """The text of a cell, which a narrow column must not break beside ± or within 1.7e-07."""
    return re.sub(r"(?<=\d)e-(?=\d)", "e\u2011", cell.replace(" ± ", "\u00a0±\u00a0"))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("dpml-experiment", ExperimentTables)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
