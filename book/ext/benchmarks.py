"""The benchmark page, made at build time from the recorded results.

``{dpml-benchmarks} accounting`` shows ``benchmarks/results/accounting.json``: how it was made, the numbers to meet, and
every time with the answer that it gave. No number is written by hand; the goals are judged again from the rows by
``benchmarks/accounting.py`` itself. ``{dpml-benchmarks} training`` does the same with the tables that
``benchmarks/training.py`` makes.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from . import docstrings

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
TASKS = {
    "renyi": "Rényi accountant: epsilon at the best order",
    "tight": "Tight epsilon",
    "bracket": "Bracket: epsilon from both sides",
    "curve": "Rényi accountant: epsilon for 1000 numbers of steps",
    "tight curve": "Tight epsilon for 1000 numbers of steps",
    "noise": "Noise multiplier for a target",
}
NOTES = {
    "renyi": "All three are upper bounds of the same kind; the true epsilon is in the last column.",
    "tight": "opacus by its PRV accountant, dp-accounting by privacy-loss distributions with its usual grid of 1e-4.",
    "bracket": "dp-accounting gives the upper side alone, with its usual grid of 1e-4.",
    "curve": "The answer is the last point. opacus computed 50 of the points; its time is given for 20 times as many.",
    "tight curve": "The answer is the last point. opacus, by its PRV accountant, computed 5 of the points; its time is "
    "given for 200 times as many.",
    "noise": "opacus by its PRV accountant, dp-accounting by privacy-loss distributions, both searching to their usual "
    "or a finer tolerance. The answer is the noise multiplier; a smaller one is a better one.",
}


def load(name: str) -> ModuleType:
    """The module that made a record; it is a script and not part of a package."""
    spec = importlib.util.spec_from_file_location(f"dpml_benchmarks_{name}", FOLDER / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its NamedTuples look their module up
    spec.loader.exec_module(module)
    return module


def time_text(seconds: float) -> str:
    """Seconds in the unit that reads best."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1.0:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def number(value: float) -> str:
    """Three digits, without a power of ten for the large ones."""
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"


def answer_text(answer: Any) -> str:
    """A number, or the two ends of a bracket."""
    if isinstance(answer, list):
        return f"[{answer[0]:.7g}, {answer[1]:.7g}]"
    return f"{answer:.7g}"


def table(record: dict[str, Any], task: str) -> tuple[list[str], list[list[str]]]:
    """Head and rows of one task: each contestant's time, how often dpml's time fits into it, and its answer."""
    chosen = [row for row in record["rows"] if row["task"] == task]
    names = list(chosen[0]["seconds"])
    known = any(row["truth"] is not None for row in chosen)
    rows = []
    for row in chosen:
        cells = [row["case"]]
        for name in names:
            seconds = row["seconds"][name]
            factor = "" if name == names[0] else f" ({number(seconds / row['seconds'][names[0]])}×)"
            cells.append(f"{time_text(seconds)}{factor}: {answer_text(row['answers'][name])}")
        rows.append([*cells, *([f"{row['truth']:.7g}"] if known else [])])
    return ["Case", *names, *(["True value"] if known else [])], rows


class BenchmarkTables(SphinxDirective):
    """``{dpml-benchmarks} name``: the record ``benchmarks/results/name.json`` as tables."""

    required_arguments = 1
    has_content = False

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        file = FOLDER / "results" / f"{name}.json"
        for used in (file, FOLDER / f"{name}.py"):
            self.env.note_dependency(str(used))
        record = json.loads(file.read_text(encoding="utf-8"))
        script = load(name)
        made = ", ".join(f"{key} {value}" for key, value in record["machine"].items())
        effort = (
            f"at least {record['rounds']} rounds" if "rounds" in record else f"{record['seconds_for_a_case']:g} s each"
        )
        first = f"Recorded on {record['date']} with `{record['command']}`, {effort}: {made}."
        judged = [
            [goal.text, goal.needed, number(goal.measured), "yes" if goal.met else "no"]
            for goal in script.goals(record["rows"])
        ]
        found: list[nodes.Node] = [nodes.paragraph("", "", *docstrings.inline(first))]
        found.append(self.table(["Goal", "Needed", "Measured", "Met"], judged))
        own = (
            [(title, NOTES[task], *table(record, task)) for task, title in TASKS.items()]
            if name == "accounting"
            else []
        )
        for title, note, head, rows in own or script.tables(record):
            section = nodes.section(ids=[nodes.make_id(f"benchmark {name} {title}")])
            section += nodes.title(text=title)
            section += nodes.paragraph(text=note)
            section += self.table(head, rows)
            self.state.document.note_explicit_target(section)
            found.append(section)
        return found

    def table(self, head: list[str], rows: list[list[str]]) -> nodes.Node:
        return docstrings.table(head, [[[nodes.Text(cell)] for cell in row] for row in rows])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("dpml-benchmarks", BenchmarkTables)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
