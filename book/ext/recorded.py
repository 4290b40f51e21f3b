"""Pages of recorded experiments and benchmarks, made at build time from the files.

``{dpml-record} experiments.name part`` shows one part of the file that ``experiments/name.py`` calls ``RESULTS``: how
it was made, the numbers to meet where the script has ``goals``, and the tables that its ``tables(record)`` makes.
Without a part it shows a file that is one record. No number is written by hand.
"""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from .docstrings import table


class RecordTables(SphinxDirective):
    """``{dpml-record} module part``: a recorded part as tables."""

    required_arguments = 1
    optional_arguments = 1
    has_content = False

    def run(self) -> list[nodes.Node]:
        name, *part = self.arguments
        script = importlib.import_module(name)
        for used in (script.RESULTS, Path(script.__file__ or "")):
            self.env.note_dependency(str(used))
        record = json.loads(script.RESULTS.read_text(encoding="utf-8"))
        for key in part:
            record = record[key]
        how = record["machine"] | {key: record[key] for key in ("rounds", "seconds_for_a_case") if key in record}
        made = ", ".join(f"{key.replace(chr(95), chr(32))} {value}" for key, value in how.items() if value is not None)
        page = nodes.Element()
        self.add(page, f"Recorded on {record['date']} with `{record['command']}`: {made}.")
        if hasattr(script, "goals"):
            goals = [
                [g.text, g.needed, number(g.measured), "yes" if g.met else "no"] for g in script.goals(record["rows"])
            ]
            self.add(page, table(["Goal", "Needed", "Measured", "Met"], goals))
        for title, note, head, rows in script.tables(record):
            section = nodes.section(ids=[nodes.make_id(" ".join([*name.split("."), *part, title]))])
            section += nodes.title(text=title)
            self.add(section, note)
            self.add(section, table(head, [[unbroken(cell) for cell in row] for row in rows]))
            self.state.document.note_explicit_target(section)
            page += section
        return page.children

    def add(self, parent: nodes.Element, markdown: str) -> None:
        self.state.nested_parse(StringList(markdown.splitlines()), self.content_offset, parent)


def number(value: float) -> str:
    """Three digits, without a power of ten for the large ones."""
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"


def unbroken(cell: str) -> str:
    """The text of a cell, which a narrow column must not break beside ± or within 1.7e-07."""
    return re.sub(r"(?<=\d)e-(?=\d)", "e\u2011", cell.replace(" ± ", "\u00a0±\u00a0"))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("dpml-record", RecordTables)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
