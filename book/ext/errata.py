"""The errata page, made at build time from the docstrings of the package.

``{dpml-errata}`` lists every function whose docstring has the paragraphs ``Printed:`` and ``Implemented:``: where a
source, as printed, says something other than what the function computes. The docstring is the only place where
this is written down, so the page cannot drift away from the code.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from docutils import nodes
from sphinx.application import Sphinx

from . import docstrings
from .api import Linker, PackageDirective, homes, reference


class Difference(NamedTuple):
    """One place where what is printed and what is implemented differ; `path` names the function or module."""

    path: str
    source: str
    printed: str
    implemented: str


def differences() -> Iterator[Difference]:
    """All of them, module by module, in the order of the code.

    Raises:
        ValueError: for a docstring with one of the two paragraphs but not the other, or without a source.
    """
    for module in homes():
        texts = [(module, importlib.import_module(module).__doc__)]
        texts += [(entry.path, entry.value.__doc__) for entry in docstrings.public(module) if callable(entry.value)]
        for path, text in texts:
            yield from pairs(path, text or "")


def pairs(path: str, text: str) -> Iterator[Difference]:
    """The differences that one docstring states.

    Raises:
        ValueError: as in `differences`.
    """
    source, printed = "", ""
    for label, body in docstrings.labels(text):
        if label == "Source":
            source = body
        elif label == "Printed":
            if printed:
                raise ValueError(f"{path}: 'Printed:' must be followed by 'Implemented:'")
            printed = body
        elif label == "Implemented":
            if not printed or not source:
                raise ValueError(f"{path}: 'Implemented:' must follow 'Source:' and 'Printed:'")
            yield Difference(path, source, printed, body)
            printed = ""
    if printed:
        raise ValueError(f"{path}: 'Printed:' must be followed by 'Implemented:'")


class ErrataPage(PackageDirective):
    """``{dpml-errata}``: one section for each difference."""

    def run(self) -> list[nodes.Node]:
        self.watch()
        link = Linker(self.env.docname)
        return [self.section(difference, link) for difference in differences()]

    def section(self, difference: Difference, link: Linker) -> nodes.Node:
        short = difference.path.removeprefix("dpml.")
        section = nodes.section(ids=[nodes.make_id("errata " + short)], classes=["dpml-erratum"])
        name = reference(self.env.docname, difference.path, nodes.literal(text=short.rpartition(".")[2]))
        section += nodes.title("", "", name)
        listing = nodes.definition_list()
        for label, text in zip(("Source", "Printed", "Implemented"), difference[1:], strict=True):
            body = nodes.definition("", nodes.paragraph("", "", *docstrings.inline(text[:1].upper() + text[1:], link)))
            listing += nodes.definition_list_item("", nodes.term(text=label), body)
        section += listing
        self.state.document.note_explicit_target(section)
        return section


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("dpml-errata", ErrataPage)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
