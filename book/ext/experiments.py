"""Pages of recorded experiments, made at build time from the files.

``{dpml-experiment} name part`` shows one part of ``experiments/results/name.json``: how it was made, and the tables
that ``tables(part)`` of ``experiments/name.py`` makes of it. No number is written by hand.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from . import docstrings

FOLDER = Path(__file__).resolve().parents[2] / "experiments"


class ExperimentTables(SphinxDirective):
    """``{dpml-experiment} name part``: a recorded part as tables."""

    required_arguments = 2
    has_content = False

    def run(self) -> list[nodes.Node]:
        name, part = self.arguments
        file = FOLDER / "results" / f"{name}.json"
        for used in (file, FOLDER / f"{name}.py"):
            self.env.note_dependency(str(used))
        record = json.loads(file.read_text(encoding="utf-8"))[part]
        script = importlib.import_module(f"experiments.{name}")
        made = ", ".join(f"{key} {value}" for key, value in record["machine"].items())
        first = f"Recorded on {record['date']} with `{record['command']}`: {made}."
        found: list[nodes.Node] = [nodes.paragraph("", "", *docstrings.inline(first))]
        for title, note, head, rows in script.tables(record):
            section = nodes.section(ids=[nodes.make_id(f"experiment {name} {part} {title}")])
            section += nodes.title(text=title)
            section += nodes.paragraph(text=note)
            section += docstrings.table(head, [[[nodes.Text(cell)] for cell in row] for row in rows])
            self.state.document.note_explicit_target(section)
            found.append(section)
        return found


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("dpml-experiment", ExperimentTables)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
