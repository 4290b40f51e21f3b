"""Notebooks and modules as syntax trees, for the tests that look at what is written."""

import ast
import functools
import json
import re
from pathlib import Path


def code_cells(path: Path) -> dict[str, str]:
    """The code cells of a notebook: their ids and sources."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return {cell["id"]: "".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"}


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a module, or of all cells of a notebook, magics left out; parsed once, to be read only."""
    if path.suffix == ".ipynb":
        return ast.parse(re.sub(r"(?m)^\s*[%!].*$", "pass", "\n".join(code_cells(path).values())))
    return ast.parse(path.read_text(encoding="utf-8"))
