"""Measure the aggregation rules of dpml against those of ByzFL, and record the table that the book shows.

    pip install -e .[torch]                                            in an environment of its own
    pip install --no-deps -r benchmarks/requirements-byzantine.txt
    python benchmarks/byzantine.py                                     minutes; writes benchmarks/results/byzantine.json

Rows are torch tensors in float32, n workers of d parameters. Contestants take turns in one process, on one thread, and
processor time is counted, so that other load on the machine matters little. A time is the shortest of all rounds.
Beside each time stands how far the two results are apart, over the length of ours. (Krum: ByzFL takes n - f - 1
neighbours, the paper and dpml n - f - 2, so that they may pick different rows. Its geometric median makes 3 steps of an
approximation, ours converges.)
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import Goal, judge, save
from dpml.byzantine import aggregation

RESULTS = Path(__file__).resolve().parent / "results" / "byzantine.json"
COMMAND = "python benchmarks/byzantine.py"
RULES = {
    "Krum": (aggregation.krum, "Krum"),
    "Multi-Krum": (aggregation.multi_krum, "MultiKrum"),
    "median": (aggregation.median, "Median"),
    "trimmed mean": (aggregation.trimmed_mean, "TrMean"),
    "geometric median": (aggregation.geometric_median, "GeometricMedian"),
}
EXACT = {"minimum-diameter averaging": (aggregation.mda, "MDA")}
CASES = [(15, 3, 79_510, RULES | EXACT), (15, 6, 79_510, RULES | EXACT), (50, 10, 1_000_000, RULES)]
WITHOUT_F = ("Median", "GeometricMedian")
NEEDED = 0.5
MUST = ("Krum", "median", "trimmed mean")  # at n = 50, d = 1e6


def peers() -> Any:
    """The module of ByzFL's rules, without the rest of that package."""
    spec = importlib.util.find_spec("byzfl")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("install byzfl first: pip install --no-deps -r benchmarks/requirements-byzantine.txt")
    parent = types.ModuleType("byzfl")
    parent.__path__ = list(spec.submodule_search_locations)
    sys.modules["byzfl"] = parent
    return importlib.import_module("byzfl.aggregators.aggregators")


def shortest(calls: dict[str, Callable[[], torch.Tensor]], rounds: int) -> dict[str, float]:
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            began = time.process_time()
            call()
            best[name] = min(best[name], time.process_time() - began)
    return {name: float(f"{seconds:.4g}") for name, seconds in best.items()}


def measure(rounds: int) -> list[dict[str, Any]]:
    torch.set_num_threads(1)
    theirs, rows = peers(), []
    for n, f, d, rules in CASES:
        vectors = torch.randn(n, d, generator=torch.Generator().manual_seed(n))
        for name, (ours, peer) in rules.items():
            other = getattr(theirs, peer)(**({} if peer in WITHOUT_F else {"f": f}))
            calls = {
                "dpml": lambda ours=ours, v=vectors, f=f: ours(v, n_byzantine=f),
                "byzfl": lambda other=other, v=vectors: other(v),
            }
            results = {title: call() for title, call in calls.items()}  # also the first, slower call of each
            apart = float((results["dpml"] - results["byzfl"]).norm() / results["dpml"].norm())
            rows.append(
                {
                    "n": n,
                    "f": f,
                    "d": d,
                    "rule": name,
                    "seconds": shortest(calls, rounds),
                    "apart": float(f"{apart:.2g}"),
                }
            )
            print(rows[-1], flush=True)
    return rows


def goals(rows: list[dict[str, Any]]) -> list[Goal]:
    """Each rule that must take at most half of ByzFL's time at n = 50, d = 1e6."""
    found = []
    for row in rows:
        if row["n"] == 50 and row["rule"] in MUST:
            ratio = row["seconds"]["dpml"] / row["seconds"]["byzfl"]
            text = f"{row['rule']}, n = 50, d = 1e6: time over ByzFL's"
            found.append(Goal(text, f"at most {NEEDED}", ratio, ratio <= NEEDED))
    return found


def tables(record: dict[str, Any]) -> list[tuple[str, str, list[str], list[list[str]]]]:
    """Title, note, head and rows of the tables of the page."""
    body = []
    for row in record["rows"]:
        ours, theirs = row["seconds"]["dpml"], row["seconds"]["byzfl"]
        case = f"{row['rule']}, n = {row['n']}, f = {row['f']}, d = {row['d']:,}"
        body.append([case, f"{ours:.3g} s", f"{theirs:.3g} s ({theirs / ours:.1f})", f"{row['apart']:.1g}"])
    note = (
        "One thread, float32. Krum may pick another row, as ByzFL counts one neighbour more, and its Multi-Krum "
        "averages two rows more. Its geometric median makes three steps from 0, ours converges."
    )
    return [("Aggregation rules", note, ["Case", "dpml", "ByzFL (times ours)", "Results apart"], body)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the aggregation rules and record the result.")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each case")
    options = parser.parse_args()
    rows = measure(options.rounds)
    judge(goals(rows))
    save(RESULTS, COMMAND, rows, packages=("torch", "numpy", "byzfl"), rounds=options.rounds)


if __name__ == "__main__":
    from dpml.command_line import any_console

    any_console()
    main()
