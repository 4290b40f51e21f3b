"""The style of the matplotlib figures, how one is shown, with a sentence for a screen reader, and tables."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from dpml.classroom.marks import COLOURS, DASHES, Role

__all__ = ["Shown", "Table", "look", "show", "style", "table"]


def style() -> AbstractContextManager[None]:
    """A context within which matplotlib draws in the style of the course, which figures.mplstyle holds."""
    import matplotlib.pyplot as plt

    return plt.style.context(Path(__file__).with_suffix(".mplstyle"))


def look(role: Role) -> dict[str, Any]:
    """Colour and dash pattern of a role, as keywords for `Axes.plot`; the same as in the explorers.

    Raises:
        ValueError: for an unknown role.
    """
    if role not in COLOURS:
        raise ValueError(f"role must be one of {list(COLOURS)}, got {role!r}")
    dash = DASHES[role]
    return {"color": COLOURS[role], "linestyle": (0, dash) if dash else "-"}


class Shown(NamedTuple):
    """A finished figure: `alt` is the sentence that says what it shows, with its numbers."""

    svg: str
    alt: str

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.svg.encode()).decode()
        return f'<img class="dpml-figure" alt="{escape(self.alt)}" src="data:image/svg+xml;base64,{data}">'

    def __repr__(self) -> str:
        return f"Figure: {self.alt}"


def show(figure: Any, *, alt: str) -> Shown:
    """Closes a matplotlib figure and returns it as an image whose alternative text is `alt`.

    Raises:
        ValueError: when `alt` is not a sentence of at least five words.
    """
    import matplotlib.pyplot as plt

    if not isinstance(alt, str) or len(alt.split()) < 5:
        raise ValueError(f"alt must be a sentence of at least five words that says what the figure shows, got {alt!r}")
    buffer = io.StringIO()
    with style():
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    text = buffer.getvalue()
    return Shown(text[text.index("<svg") :], alt)


class Table(NamedTuple):
    """Rows of text under a head."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def _repr_html_(self) -> str:
        lines = [("th", self.head), *(("td", row) for row in self.rows)]
        cells = ("".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in line) for tag, line in lines)
        return f'<table class="dataframe"><tr>{"</tr><tr>".join(cells)}</tr></table>'

    def __repr__(self) -> str:
        lines = [self.head, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in lines)


def table(rows: Iterable[Sequence[object]], head: Mapping[str, str]) -> Table:
    """Returns a table: `head` holds the title of each column and the format of its numbers, as ``{"ε": ".2f"}``.

    Text stays as it is.

    Raises:
        ValueError: when a row has another number of cells than the head.
    """
    lines = []
    for row in rows:
        if len(row) != len(head):
            raise ValueError(f"rows must have {len(head)} cells each, got {row!r}")
        lines.append(
            [cell if isinstance(cell, str) else format(cell, how) for cell, how in zip(row, head.values(), strict=True)]
        )
    return Table(list(head), lines)
