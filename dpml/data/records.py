"""The recorded results of the longer experiments, which ship with the package."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from dpml import arguments

FOLDER = Path(__file__).resolve().parents[1] / "datasets" / "recorded"
"""Where the modules of ``experiments`` write what they measured."""


@cache
def recorded(name: str) -> Any:
    """Return what ``python -m experiments.NAME`` recorded: the rows, the command, the date and the machine.

    The object is shared between callers: read it, and change nothing in it.

    Raises:
        ValueError: if there is no such record; it names those that there are.

    Source: the file itself says which command made it.
    """
    known = sorted(path.stem for path in FOLDER.glob("*.json"))
    return json.loads((FOLDER / f"{arguments.choice('name', name, known)}.json").read_text(encoding="utf-8"))


def grouped(rows: Iterable[Mapping[str, Any]], *fields: str) -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
    """Return the rows of a record by their values in some fields, in the order in which these first appear.

    Raises:
        KeyError: if a row lacks one of the fields.

    Source: definition.
    """
    found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(tuple(row[field] for field in fields), []).append(row)
    return found
