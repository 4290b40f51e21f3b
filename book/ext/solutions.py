"""On a page of exercises the reader sees what a student gets; the solution and all that it answers lie in one fold.

The notebooks hold the solutions. Here each solution cell shows its stub, the check below it its call, and a fold below
both "Show the solution": the code, what it prints, and what the checks say of it.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

from dpml.classroom.students import make_student_version

MARKER = re.compile(r"^ *### (BEGIN|END) SOLUTION\n?", re.MULTILINE)


@functools.cache
def stubs(path: Path) -> dict[str, str]:
    """What stands in each solution cell of a notebook -> what stands there in a student's copy."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    pairs = zip(notebook["cells"], make_student_version(notebook, name=path.name)["cells"], strict=True)
    texts = [["".join(cell["source"]).rstrip("\n") for cell in pair] for pair in pairs]
    return {full: stub for full, stub in texts if MARKER.search(full)}


def is_cell(node: Any) -> bool:
    return isinstance(node, nodes.container) and node.get("nb_element") == "cell_code"


def part(cell: Any, kind: str) -> list[Any]:
    """The source or the output of a cell, or nothing."""
    return [child for child in cell.children if child.get("nb_element") == f"cell_code_{kind}"]


def is_check(node: Any) -> bool:
    """Whether a cell calls the check of an item, which answers the solution above it."""
    return is_cell(node) and any(source.astext().startswith("items.check_") for source in part(node, "source"))


class Solutions(SphinxPostTransform):
    """Fold each solution below the check that follows it."""

    default_priority = 198  # before cells with the tag hide-input get a fold of their own
    formats = ("html",)

    def run(self, **_: Any) -> None:
        path = Path(self.env.doc2path(self.env.docname))
        if path.suffix != ".ipynb":
            return
        for cell in list(self.document.findall(is_cell)):
            for source in part(cell, "source"):
                if stub := stubs(path).get(source.astext().rstrip("\n")):
                    self.fold(cell, source, stub)

    def fold(self, cell: Any, source: Any, stub: str) -> None:
        siblings = cell.parent.children
        after = siblings[siblings.index(cell) + 1 :]
        checks = list(itertools.takewhile(is_check, after))
        shown = source.deepcopy()
        for block, text in ((source.children[0], MARKER.sub("", source.astext())), (shown.children[0], stub)):
            block.rawsource, block.children = text, [nodes.Text(text)]
        fold = HideCodeCellNode(
            prompt_show="Show the solution", prompt_hide="Hide the solution", classes=["above-input"]
        )
        fold += [source, *part(cell, "output"), *(output for check in checks for output in part(check, "output"))]
        solution = nodes.container(nb_element="solution", classes=["cell", "tag_hide-input"])
        solution += fold
        for check in checks:
            check.children = part(check, "source")
        cell.children = [shown]
        cell.attributes.pop("hide_mode", None)
        siblings.insert(siblings.index(cell) + 1 + len(checks), solution)
        solution.parent = cell.parent


def setup(app: Sphinx) -> dict[str, Any]:
    """The notebooks are parsed by myst-nb."""
    app.setup_extension("myst_nb")
    app.add_post_transform(Solutions)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
