"""The tables of an experiment on the terminal; the pages of the site are made from the same tables."""

from __future__ import annotations

from collections.abc import Iterable

Table = tuple[str, str, list[str], list[list[str]]]
"""Title, note, head and rows."""


def show(tables: Iterable[Table]) -> None:
    """Print them, one after the other."""
    for title, note, head, lines in tables:
        print(f"\n{title}. {note}\n" + "\n".join(" | ".join(cells) for cells in [head, *lines]))
