"""What the benchmarks write down besides their rows, and the numbers to meet."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Goal(NamedTuple):
    """A number to meet: for a time it is the smallest ratio over the cases, otherwise the largest value."""

    text: str
    needed: str
    measured: float
    met: bool


def machine(*packages: str) -> dict[str, str]:
    """What the numbers depend on."""
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.is_file():
        lines = information.read_text(encoding="utf-8").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    return {
        "processor": f"{model}, {os.cpu_count()} cores",
        "system": f"{platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
        **{package: importlib.metadata.version(package) for package in packages},
    }


def save(into: Path, command: str, rows: Sequence[Any], *, packages: Sequence[str], **settings: Any) -> None:
    """Write the record, one row a line."""
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    head = {"command": command, "date": date, **settings, "machine": machine(*packages)}
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    text = json.dumps({**head, "rows": []}, ensure_ascii=False).removesuffix("]}") + f"\n{lines}\n]}}\n"
    into.parent.mkdir(exist_ok=True)
    into.write_text(text, encoding="utf-8", newline="\n")


def judge(goals: Sequence[Goal]) -> None:
    """Print each goal with what was measured."""
    for goal in goals:
        print(f"{'met' if goal.met else 'NOT MET'}: {goal.text}: {goal.measured:.4g} ({goal.needed})")
