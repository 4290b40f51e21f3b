"""Read the docstrings of dpml and turn them into nodes of a page.

The package writes plain docstrings: paragraphs, code in single or double backticks, formulas between dollar signs
or in ``:math:``, indented lines for what must keep its shape, bullets, sections such as ``Raises:`` with indented
entries, and labelled paragraphs such as ``Source: lecture, slide 12``. This module knows these forms and nothing
else; what it does not know it shows as written, so no docstring can break the build.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import pkgutil
import re
from collections.abc import Callable, Iterator
from textwrap import dedent
from typing import Any, NamedTuple

from docutils import nodes

Link = Callable[[str], nodes.Node | None]

LABEL = re.compile(r"^(Source|Printed|Implemented|Neighbours|Neighbouring relation|Domain|Reference|Note): +(?=\S)")
SECTION = re.compile(r"^(Args|Arguments|Attributes|Parameters|Returns|Raises|Yields|Notes|Examples?|Fields):$")
BULLET = re.compile(r"^(?:[-*]|\d+\.) +")
ENTRY = re.compile(r"^([`\w][\w`., *]*?): +(?=\S)")
TABLE = re.compile(r"^\|.*\|$")
INLINE = re.compile(
    r":(?P<role>[a-z:]+):`(?P<target>[^`]+)`"
    r"|``(?P<code>.+?)``"
    r"|`(?P<name>[^`\n]+)`"
    r"|(?<![\\$\w])\$(?P<math>[^$\s](?:[^$]*?[^$\s\\])?)\$(?![\w$])"
    r"|\*\*(?P<bold>[^*\n]+)\*\*"
    r"|(?<![\w*])\*(?P<slanted>[^*\s](?:[^*\n]*[^*\s])?)\*(?![\w*])",
    re.DOTALL,
)


class Public(NamedTuple):
    """A documented name: where it is imported from, and the object."""

    module: str
    name: str
    value: Any

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}"


def modules(package: str = "dpml") -> list[str]:
    """The names of the package and all modules below it, in alphabetical order; private ones are left out."""
    root = importlib.import_module(package)
    found = [package]
    for info in pkgutil.walk_packages(root.__path__, package + "."):
        if not any(part.startswith("_") for part in info.name.split(".")):
            found.append(info.name)
    return sorted(found)


def public(module: str) -> list[Public]:
    """What `module` offers: the names in its ``__all__``, else what it defines without a leading underscore."""
    loaded = importlib.import_module(module)
    names = getattr(loaded, "__all__", None)
    if names is None:
        names = [n for n, v in vars(loaded).items() if not n.startswith("_") and _defined_in(v, module)]
    return [Public(module, name, getattr(loaded, name)) for name in names]


def _defined_in(value: Any, module: str) -> bool:
    return (inspect.isfunction(value) or inspect.isclass(value)) and value.__module__ == module


def comment_of(module: str, name: str) -> str:
    """The docstring below a module's constant (a string on its own after the assignment), or ''."""
    source = inspect.getsource(importlib.import_module(module))
    body = ast.parse(source).body
    for before, after in itertools.pairwise(body):
        targets = before.targets if isinstance(before, ast.Assign) else [getattr(before, "target", None)]
        named = any(isinstance(target, ast.Name) and target.id == name for target in targets)
        if named and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            return inspect.cleandoc(str(after.value.value))
    return ""


def labels(text: str) -> Iterator[tuple[str, str]]:
    """The labelled paragraphs of a docstring as (label, text), in order: ``("Source", "lecture, slide 12")``."""
    for block in _blocks(text):
        for label, body in _labelled(block):
            if label:
                yield label, body


def first_sentence(text: str) -> str:
    """The first paragraph of a docstring on one line."""
    return " ".join(inspect.cleandoc(text).split("\n\n")[0].split())


def render(text: str, link: Link = lambda name: None) -> list[nodes.Node]:
    """The nodes of a docstring; `link` may give a node in place of a name in backticks."""
    result: list[nodes.Node] = []
    blocks = _blocks(text)
    i = 0
    while i < len(blocks):
        block = blocks[i]
        i += 1
        head, _, rest = block.partition("\n")
        if SECTION.match(head):
            result += _section(head.rstrip(":"), rest, link)
        elif head.startswith(".. math::"):
            result.append(_display((head.removeprefix(".. math::") + "\n" + dedent(rest)).strip()))
        elif block.startswith("$$") and block.endswith("$$") and len(block) > 4:
            result.append(_display(block[2:-2].strip()))
        elif block.startswith((" ", ">>>")):
            result.append(_literal(block))
        elif all(TABLE.match(line) for line in block.split("\n")):
            result.append(_table(block, link))
        elif BULLET.match(block):
            result += _bullets(block, link)
        else:
            for label, body in _labelled(block):
                result += _paragraph(label, body, link)
    return result


def _blocks(text: str) -> list[str]:
    """Paragraphs; lines that are indented, or follow a section's head, stay together across blank lines."""
    blocks: list[str] = []
    for part in re.split(r"\n[ \t]*\n", inspect.cleandoc(text)):
        part = part.strip("\n").rstrip()
        if not part.strip():
            continue
        indented = part.startswith(" ")
        head = blocks[-1].split("\n")[0] if blocks else ""
        if indented and (head.startswith((" ", ".. math::")) or SECTION.match(head)):
            blocks[-1] += "\n\n" + part
        else:
            blocks.append(part)
    return blocks


def _labelled(block: str) -> Iterator[tuple[str, str]]:
    """Split a paragraph at the lines that begin with a label."""
    if block.startswith(" "):
        return
    label, lines = "", []
    for line in block.split("\n"):
        match = LABEL.match(line)
        if match:
            if lines:
                yield label, "\n".join(lines)
            label, lines = match[1], [line[match.end() :]]
        else:
            lines.append(line.strip() if label else line)
    if lines:
        yield label, "\n".join(lines)


def _paragraph(label: str, body: str, link: Link) -> list[nodes.Node]:
    before, shown, after = body.partition("::\n    ")
    if shown:  # a line that ends in "::" with the indented lines right below it
        return [*_paragraph(label, before + ":", link), _literal("    " + after)]
    paragraph = nodes.paragraph()
    if label:
        paragraph["classes"].append("dpml-" + label.split()[0].lower())
        paragraph += [nodes.strong(text=label + ":"), nodes.Text(" ")]
    paragraph += inline(body.removesuffix(":") if body.endswith("::") else body, link)
    return [paragraph]


def _section(title: str, body: str, link: Link) -> list[nodes.Node]:
    """A head with indented entries ``name: text``, or with indented paragraphs."""
    body = dedent(body)
    entries: list[tuple[str, list[str]]] = []
    for line in body.split("\n"):
        match = ENTRY.match(line)
        if match:
            entries.append((match[1], [line[match.end() :]]))
        elif entries:
            entries[-1][1].append(line)
        elif line.strip():
            return [nodes.rubric(text=title), *render(body, link)]
    listing = nodes.definition_list()
    for name, lines in entries:
        term = nodes.term("", "", nodes.literal(text=name.strip("`")))
        listing += nodes.definition_list_item("", term, nodes.definition("", *render("\n".join(lines), link)))
    return [nodes.rubric(text=title), *([listing] if entries else [])]


def _bullets(block: str, link: Link) -> list[nodes.Node]:
    items: list[list[str]] = []
    for line in block.split("\n"):
        match = BULLET.match(line)
        if match:
            items.append([line[match.end() :]])
        else:
            items[-1].append(line)
    numbered = block[0].isdigit()
    listing = nodes.enumerated_list(enumtype="arabic") if numbered else nodes.bullet_list()
    for lines in items:
        listing += nodes.list_item("", *render(lines[0] + "\n" + dedent("\n".join(lines[1:])), link))
    return [listing]


def _table(block: str, link: Link) -> nodes.Node:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.split("\n")]
    rows = [row for row in rows if not all(re.fullmatch(r":?-+:?", cell) for cell in row)]
    return table(rows[0], [[inline(cell, link) for cell in row] for row in rows[1:]])


def table(head: list[str], rows: list[list[list[nodes.Node]]]) -> nodes.Node:
    """A table from the texts of its head and the nodes of its cells."""
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=1) for _ in head]
    cells = [[[nodes.Text(text)] for text in head], *rows]
    lines = [nodes.row("", *(nodes.entry("", nodes.paragraph("", "", *cell)) for cell in row)) for row in cells]
    group += nodes.thead("", lines[0])
    group += nodes.tbody("", *lines[1:])
    return nodes.table("", group)


def _literal(text: str) -> nodes.Node:
    text = dedent(text)
    return nodes.literal_block(text, text, language="pycon" if text.startswith(">>>") else "none")


def _display(latex: str) -> nodes.Node:
    return nodes.math_block(latex, latex, nowrap=False, number=None, label=None)


def inline(text: str, link: Link = lambda name: None) -> list[nodes.Node]:
    """The nodes of running text: code, links, formulas, bold and slanted words."""
    text = " ".join(text.split())
    result: list[nodes.Node] = []
    at = 0
    for match in INLINE.finditer(text):
        if match.start() > at:
            result.append(nodes.Text(text[at : match.start()].replace(r"\$", "$")))
        at = match.end()
        if match["math"] or match["role"] == "math":
            result.append(nodes.math(text=match["math"] or match["target"]))
        elif match["bold"]:
            result.append(nodes.strong(text=match["bold"]))
        elif match["slanted"]:
            result.append(nodes.emphasis(text=match["slanted"]))
        else:
            name = match["target"] or match["code"] or match["name"]
            result.append(link(name.strip("~")) or nodes.literal(text=name))
    if at < len(text):
        result.append(nodes.Text(text[at:].replace(r"\$", "$")))
    return result
