r"""Read the docstrings of dpml, and write them as Markdown.

The package writes plain docstrings: paragraphs, code in single or double backticks, formulas between dollar signs,
indented lines for what must keep its shape, bullets and tables, all of which Markdown has too. What it has not is
translated here: ``.. math::``, sections such as ``Raises:`` with indented entries, and labelled paragraphs such as
``Source: lecture, slide 12``.
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

import dpml

Link = Callable[[str], str]
"""From a name in backticks to the Markdown that stands in its place."""

LABEL = re.compile(
    r"^(Source|Printed|Implemented|Counterexample|Neighbours|Neighbouring relation|Domain|Reference|Note): +(?=\S)",
    re.MULTILINE,
)
SECTION = re.compile(r"^(Args|Arguments|Attributes|Parameters|Returns|Raises|Yields|Notes|Examples?|Fields):$")
ENTRY = re.compile(r"^`?([\w][\w., *]*?)`?: +(?=\S)", re.MULTILINE)
CODE = re.compile(
    r"(?P<kept>``.+?``|\$\$.+?\$\$|(?<![\\$\w])\$[^$\s](?:[^$]*?[^$\s\\])?\$(?![\w$]))"
    r"|:math:`(?P<formula>[^`]+)`|(?::[a-z:]+:)?`~?(?P<name>[^`\n]+)`|(?P<less><)",
    re.DOTALL,
)


def chapter_of(module: str) -> str:
    """The slug of the chapter that teaches a module: the longest entry of ``dpml.CHAPTERS`` that covers it, or ''."""
    covers = {name: slug for slug, names in dpml.CHAPTERS.items() for name in names}
    parts = module.split(".")[1:]
    entries = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((covers[entry] for entry in entries if entry in covers), "")


class Public(NamedTuple):
    """A documented name: where it is imported from, and the object."""

    module: str
    name: str
    value: Any

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def written_in(self) -> str:
        """The module whose source holds it; for a constant that cannot be known."""
        return str(self.value.__module__) if is_code(self.value) else self.module


def modules(package: str = "dpml") -> list[str]:
    """The names of the package and all modules below it, in alphabetical order; private ones are left out."""
    root = importlib.import_module(package)
    found = [package]
    for info in pkgutil.walk_packages(root.__path__, package + "."):
        if not any(part.startswith("_") for part in info.name.split(".")):
            found.append(info.name)
    return sorted(found)


def public(module: str) -> list[Public]:
    """What `module` offers to readers: the names in its ``__all__``. A module without one is a part for its room."""
    loaded = importlib.import_module(module)
    return [Public(module, name, getattr(loaded, name)) for name in getattr(loaded, "__all__", ())]


def is_code(value: Any) -> bool:
    """A function or a class, which knows where it was written; a constant does not."""
    return inspect.isroutine(value) or inspect.isclass(value)


def comment_of(module: str, name: str) -> str:
    """The docstring below a module's constant (a string on its own after the assignment), or ''."""
    source = inspect.getsource(importlib.import_module(module))
    for before, after in itertools.pairwise(ast.parse(source).body):
        targets = before.targets if isinstance(before, ast.Assign) else [getattr(before, "target", None)]
        named = any(isinstance(target, ast.Name) and target.id == name for target in targets)
        if named and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            return inspect.cleandoc(str(after.value.value))
    return ""


def first_sentence(text: str) -> str:
    """The first paragraph of a docstring on one line."""
    return " ".join(inspect.cleandoc(text).split("\n\n")[0].split())


def labels(text: str) -> Iterator[tuple[str, str]]:
    """The labelled paragraphs of a docstring as (label, text), in order: ``("Source", "lecture, slide 12")``.

    Examples that follow a paragraph belong to it, after an empty line.
    """
    for block in re.split(r"\n\n(?!>>>)", "\n\n".join(_blocks(text))):
        words = [] if block.startswith(" ") else LABEL.split(block)[1:]
        for label, body in zip(words[::2], words[1::2], strict=True):
            prose, empty, examples = body.partition("\n\n")
            yield label, " ".join(prose.split()) + empty + examples


def markdown(text: str, link: Link = "`{}`".format) -> str:
    """A docstring as Markdown; `link` says what stands in place of a name in backticks."""
    result = []
    for block in _blocks(text):
        head, _, rest = block.partition("\n")
        if SECTION.match(head):
            result.append(f"**{head.rstrip(':')}**\n\n{_entries(dedent(rest), link)}")
        elif head.startswith(".. math::"):
            formula = head.removeprefix(".. math::") + "\n" + dedent(rest)
            result.append(f"```{{math}}\n{formula.strip()}\n```")
        elif block.startswith(">>>"):
            result.append(f"```pycon\n{block}\n```")
        elif block.startswith("    "):
            result.append(f"```none\n{dedent(block)}\n```")
        else:
            block = re.sub(r"::(\n {4})", r":\n\n\1", block) if "::\n    " in block else re.sub(r"::$", ":", block)
            result.append(LABEL.sub(r"\n\n**\1:** ", inline(block, link)).strip("\n"))
    return "\n\n".join(result)


def inline(text: str, link: Link = "`{}`".format) -> str:
    """Running text as Markdown: names become links, formulas and code stay, and no ``<`` begins a tag."""

    def one(match: re.Match[str]) -> str:
        if match["formula"]:
            return f"${match['formula']}$"
        return match["kept"] or (r"\<" if match["less"] else link(match["name"]))

    return CODE.sub(one, text)


def _blocks(text: str) -> list[str]:
    """Paragraphs; lines that are indented, or follow a section's head, stay together across blank lines."""
    blocks: list[str] = []
    for part in re.split(r"\n[ \t]*\n", inspect.cleandoc(text)):
        part = part.strip("\n").rstrip()
        if not part.strip():
            continue
        head = blocks[-1].split("\n")[0] if blocks else ""
        if part.startswith(" ") and (head.startswith((" ", ".. math::")) or SECTION.match(head)):
            blocks[-1] += "\n\n" + part
        else:
            blocks.append(part)
    return blocks


def _entries(body: str, link: Link) -> str:
    """Indented entries ``name: text`` as a list of definitions; other text as it is."""
    if not ENTRY.match(body):
        return markdown(body, link)
    words = ENTRY.split(body)[1:]
    items = zip(words[::2], words[1::2], strict=True)
    return "\n\n".join(f"`{name}`\n: {inline(' '.join(text.split()), link)}" for name, text in items)


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)
