"""How long a reader waits: for numbers, for figures, for chapters.

    python benchmarks/waiting.py                  the numbers and the figures, some minutes
    python benchmarks/waiting.py --notebooks      every chapter and exercise too

Processor time of one core; on a quiet machine that is what the reader waits. A line a thing, the slowest figures and
notebooks first, with the goal; the exit status is 1 when one is missed. Nothing is recorded, and no test depends on it.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import math
import pkgutil
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dpml.lessons
from dpml.accounting import composition
from dpml.command_line import any_console
from dpml.pate import data_dependent, student, voting
from dpml.ptr import privacy

ROOT = Path(__file__).resolve().parents[1]
MNIST = {"q": 256 / 60000, "sigma": 1.1, "tau": 0.5, "scale": 1.0, "delta0": 1e-8}
SHOWN = 10


class Row(NamedTuple):
    """What was waited for, the seconds that it took, and the seconds that it may take."""

    name: str
    seconds: float
    goal: float


def seconds(call: Callable[[], object]) -> float:
    """Processor time of one call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def numbers() -> dict[str, tuple[float, Callable[[], object]]]:
    """Name -> goal in seconds and call: large cases of the functions that answer while one reads."""
    rng = np.random.default_rng(10)
    counts = rng.multinomial(250, [0.55] + [0.05] * 9, size=10_000)
    near_one = (0.7, 0.999999, 1.0 - 1e-9, math.nextafter(1.0, 0.0))
    return {
        "optimal composition of a million steps": (
            1.0,
            lambda: composition.optimal(epsilon=1e-3, delta=0.0, k=10**6, total_delta=1e-5),
        ),
        "noisy argmax of 10,000 queries": (0.2, lambda: voting.noisy_argmax(counts, scale=20.0, rng=rng)),
        "data-dependent bound of 10,000 queries": (
            1.0,
            lambda: data_dependent.laplace_student_data_dependent(counts, scale=20.0, delta=1e-5),
        ),
        "a student's epsilon at delta near one": (
            2.0,
            lambda: [student.laplace_student(queries=2, scale=0.05, delta=delta) for delta in near_one],
        ),
        "propose-test-release, one bracket": (5.0, lambda: privacy.epsilon_bounds(**MNIST, steps=3500, delta=1e-5)),
        "propose-test-release, a curve of 200": (
            20.0,
            lambda: privacy.epsilon_curve(**MNIST, steps=np.linspace(50, 10_000, 200).astype(int), delta=1e-5),
        ),
    }


def explorers() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every explorer of every chapter."""
    for slug in sorted(found.name for found in pkgutil.iter_modules(dpml.lessons.__path__) if found.ispkg):
        module = importlib.import_module(f"dpml.lessons.{slug}.explorers")
        for name, value in vars(module).items():
            if inspect.isfunction(value) and not name.startswith("_") and value.__module__ == module.__name__:
                yield f"{slug}.{name}", value


def execute(notebook: Path) -> None:
    """Run a notebook in a kernel of its own, which ends."""
    import nbclient
    import nbformat

    content = nbformat.read(notebook, as_version=4)
    nbclient.NotebookClient(content, timeout=None, resources={"metadata": {"path": str(notebook.parent)}}).execute()


def notebooks() -> Iterator[Row]:
    """Every chapter and exercise: the processor time of its kernel, all threads together."""
    for path in sorted((ROOT / "notebooks").rglob("*.ipynb")):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        execute(path)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        yield Row(path.relative_to(ROOT).as_posix(), used, 15.0 if path.parent.name == "exercises" else 40.0)


def report(title: str, rows: list[Row], shown: int = SHOWN) -> bool:
    """Print the slowest of the rows, and every one that misses its goal; return whether none does."""
    ordered = sorted(rows, key=lambda row: row.seconds / row.goal, reverse=True)
    print(f"\n{title}: {sum(row.seconds for row in rows):.1f} s in all")
    for i, row in enumerate(ordered):
        if i < shown or row.seconds > row.goal:
            print(f"{row.seconds:8.2f} s of {row.goal:g}{'  NOT MET' if row.seconds > row.goal else ''}  {row.name}")
    return all(row.seconds <= row.goal for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure how long a reader of the course waits.")
    parser.add_argument("--notebooks", action="store_true", help="run every chapter and exercise too")
    options = parser.parse_args()
    met = [report("Numbers", [Row(name, seconds(call), goal) for name, (goal, call) in numbers().items()])]
    met.append(report("Figures", [Row(n, seconds(lambda v=v: v()._repr_html_()), 5.0) for n, v in explorers()]))
    if options.notebooks:
        met.append(report("Notebooks", list(notebooks())))
    return 0 if all(met) else 1


if __name__ == "__main__":
    any_console()
    sys.exit(main())
