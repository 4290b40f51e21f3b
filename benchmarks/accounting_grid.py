"""Try the tight accountant over a grid of settings, also absurd ones, and record where it is slow or its bracket wide.

    python benchmarks/accounting_grid.py      about a minute; writes benchmarks/results/accounting_grid.json

Each point asks for `pld.epsilon` and `pld.epsilon_bounds`. Three things are promised: no call takes more than a second
of processor time, `epsilon` is not above the upper end, and the ends are at most 1e-4 max(1, epsilon / 100) apart, or
3e-3 epsilon below 1/30 and 3e-6 below 1e-3. What is not met is recorded beside what is.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import save

RESULTS = Path(__file__).resolve().parent / "results" / "accounting_grid.json"
COMMAND = "python benchmarks/accounting_grid.py"
QS, SIGMAS, STEPS, DELTAS = (
    (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 0.5),
    (0.05, 0.3, 0.7, 1.0, 5.0, 1000.0),
    (1, 100, 10**4, 10**6, 10**7, 10**9),
    (1e-12, 1e-9, 1e-6, 1e-3),
)
POINTS = list(itertools.product(QS, SIGMAS, STEPS, DELTAS))
SLOW = 1.0


def measure(q: float, sigma: float, steps: int, delta: float) -> list[float]:
    """The point, epsilon, the two ends, and the seconds of the two calls."""
    from dpml.accounting import pld

    start = time.process_time()
    epsilon = pld.epsilon(q=q, sigma=sigma, steps=steps, delta=delta).epsilon
    middle = time.process_time()
    bounds = pld.epsilon_bounds(q=q, sigma=sigma, steps=steps, delta=delta)
    seconds = [float(f"{value:.3g}") for value in (middle - start, time.process_time() - middle)]
    return [q, sigma, steps, delta, epsilon, bounds.lower, bounds.upper, *seconds]


def allowed(epsilon: float) -> float:
    """The documented width of a bracket in ordinary settings."""
    return 1e-4 * max(min(1.0, 30.0 * epsilon), 0.03, epsilon / 100.0)


def is_slow(row: Sequence[float]) -> bool:
    return max(row[7:]) > SLOW


def is_wide(row: Sequence[float]) -> bool:
    return row[6] - row[5] > allowed(row[6])


def is_above(row: Sequence[float]) -> bool:
    return row[4] > row[6]


def tables(record: dict[str, Any]) -> list[tuple[str, str, list[str], list[list[str]]]]:
    """Title, note, head and rows of the tables of the page."""
    rows = record["rows"]
    counted = []
    for name, judge in (
        (f"a call above {SLOW:g} s", is_slow),
        ("`pld.epsilon` above the upper end", is_above),
        ("a bracket wider than in ordinary settings", is_wide),
    ):
        counted.append([name, f"{sum(map(judge, rows))} of {len(rows)}"])
    missed = [
        [
            f"q = {row[0]:g}, σ = {row[1]:g}, T = {row[2]:g}, δ = {row[3]:g}",
            f"[{row[5]:.7g}, {row[6]:.7g}]" + ", wide" * is_wide(row),
            f"{row[7]:.2g} s, {row[8]:.2g} s" + ", slow" * is_slow(row),
        ]
        for row in rows
        if is_slow(row) or is_wide(row) or is_above(row)
    ]
    head, times = ["Case", "Bracket", "Time"], "Times: `epsilon`, `epsilon_bounds`."
    all_points = (
        "Tight epsilon over a grid of settings",
        "Absurd ones too: up to a billion steps.",
        ["Points with", "Number"],
    )
    return [(*all_points, counted), *([("What is not met", times, head, missed)] if missed else [])]


def main() -> None:
    rows = []
    for point in POINTS:
        rows.append(measure(*point))
        print(rows[-1], flush=True)
    save(RESULTS, COMMAND, rows, packages=("numpy", "scipy"))


if __name__ == "__main__":
    from dpml.command_line import any_console

    any_console()
    main()
