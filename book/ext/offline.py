"""Keep the built pages free of scripts that would ask another server for something, and of a doubled id.

Jupyter Book puts the launcher of thebe on every page (it loads its program from a content network, and its
inline script comes twice, which is an error in the console), and myst-nb embeds the state of every widget
that a notebook made. The book uses neither: its figures move by their own script. Both are taken out here.
A progress bar is such a widget: what stays of it on a page is the text that it had when it appeared, which goes too.
The theme's search page shows the search field twice with the same id, which nothing refers to.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

FROZEN_BAR = re.compile(r"\d+%\|.*\[\d\d:\d\d<")
WIDGET_STATE = "application/vnd.jupyter.widget-state+json"


def unwanted(script: Any) -> bool:
    """Return whether a script of a page belongs to thebe or is the stored state of widgets."""
    attributes = script.attributes
    text = f"{script.filename or ''} {attributes.get('body') or ''}".lower()
    return "thebe" in text or attributes.get("type") == WIDGET_STATE


def drop_scripts(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    """Take the unwanted scripts out of one page."""
    context["script_files"] = [script for script in context["script_files"] if not unwanted(script)]


def drop_search_ids(app: Sphinx, _error: Exception | None) -> None:
    """Take the id off the search fields of the search page."""
    page = Path(app.outdir, "search.html")
    if page.is_file():
        page.write_text(re.sub(r'\sid="search-input"', "", page.read_text(encoding="utf-8")), encoding="utf-8")


class DropFrozenBars(SphinxPostTransform):
    """Take progress bars out of the outputs of a page."""

    default_priority = 190  # after myst-nb has chosen what to show of an output

    def run(self, **_: Any) -> None:
        for block in list(self.document.findall(nodes.literal_block)):
            if "output" in block["classes"] and FROZEN_BAR.search(block.astext()):
                block.parent.remove(block)


def setup(app: Sphinx) -> dict[str, Any]:
    """The scripts are dropped after every extension has added its own."""
    app.connect("html-page-context", drop_scripts, priority=900)
    app.connect("build-finished", drop_search_ids)
    app.add_post_transform(DropFrozenBars)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
