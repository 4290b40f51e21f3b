"""The mistakes that the checks of the exercises know, by chapter and item, for a page that a lecturer reads.

They are read off the code: the sentences of every ``Mistake`` in the function that an item's check cell calls.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from . import chapters

MARKED = re.compile(r"([\\*_<$|\[\]])")


def sentence(node: ast.expr, constants: dict[str, str]) -> str:
    """The text of a diagnosis; of one that is put together when the check runs, the fixed parts."""
    if isinstance(node, ast.Name):
        return constants.get(node.id, "")
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return " ".join(str(part.value).strip() if isinstance(part, ast.Constant) else "…" for part in parts)


@cache
def diagnoses(slug: str) -> dict[str, list[str]]:
    """Name of a check -> its diagnoses, those of the functions of its file that it calls among them."""
    tree = ast.parse((chapters.ROOT / "dpml" / "lessons" / slug / "checks.py").read_text(encoding="utf-8"))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}

    def own(name: str, seen: frozenset[str]) -> Iterator[str]:
        nodes = list(ast.walk(functions[name]))
        constants = {
            target.id: node.value.value
            for node in (*tree.body, *nodes)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name) and isinstance(node.value.value, str)
        }
        for node in nodes:
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Mistake"):
                given = [*node.args[1:2], *(word.value for word in node.keywords if word.arg == "diagnosis")]
                yield from filter(None, (sentence(one, constants) for one in given))
            elif isinstance(node, ast.Name) and node.id in functions and node.id not in seen:
                yield from own(node.id, seen | {node.id})

    return {name: list(dict.fromkeys(own(name, frozenset({name})))) for name in functions}


def items(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Each item of a sheet with the names of its checks."""
    title, names = "", list[str]()
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        heading = re.search(r"(?m)^## (Item .*)$", text) if cell["cell_type"] == "markdown" else None
        if heading:
            if names:
                yield title, names
            title, names = heading[1], []
        elif cell["cell_type"] == "code":
            names += re.findall(r"\bitems\.(check_\w+)\(", text)
    if names:
        yield title, names


def page() -> str:
    """One section for each sheet, one fold for each item; a mistake stands at the first item that knows it."""
    parts = []
    for number, sheet in chapters.notebooks("notebooks/exercises").items():
        known = diagnoses(sheet.page.partition("_")[2])
        parts.append(f"## {{doc}}`{number} </{sheet.page}>` {sheet.title.partition(': ')[2]}")
        before = set[str]()
        for title, names in items(chapters.ROOT / f"{sheet.page}.ipynb"):
            said = [one for one in dict.fromkeys(one for name in names for one in known[name]) if one not in before]
            before.update(said)
            if said:
                lines = ["- " + MARKED.sub(r"\\\1", one[:1].upper() + one[1:]) for one in said]
                parts.append("\n".join([f":::{{dropdown}} {title} ({len(said)})", *lines, ":::"]))
    return "\n\n".join(parts)
