"""Measure the accountants of dpml against opacus and dp-accounting, and record the table that the book shows.

    pip install -e . -r benchmarks/requirements.txt      in an environment of its own
    python benchmarks/accounting.py                      some minutes; writes benchmarks/results/accounting.json

All run in one process, interleaved: a round calls each contestant once, so that other load on the machine slows all
alike; quick tasks get more rounds. A time is the shortest of all rounds. Read times as ratios. With every time the
answer is kept, since a quick wrong number is worth nothing.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import Goal, judge, save

RESULTS = Path(__file__).resolve().parent / "results" / "accounting.json"
COMMAND = "python benchmarks/accounting.py"
OURS, OPACUS, GOOGLE = "dpml", "opacus", "dp-accounting"


class Case(NamedTuple):
    """A DP-SGD run, and its epsilon at this delta, known to seven digits from several independent methods."""

    q: float
    sigma: float
    steps: int
    delta: float
    epsilon: float

    def __str__(self) -> str:
        return f"q = {self.q:.4g}, σ = {self.sigma:g}, T = {self.steps}"


MNIST = Case(256 / 60000, 1.1, 3515, 1e-5, 1.1337062)
CASES = [
    Case(0.01, 4.0, 10_000, 1e-5, 0.9468668),
    MNIST,
    Case(0.001, 0.6, 100_000, 1e-5, 6.1128252),
    Case(1.0, 5.0, 100, 1e-5, 9.9972561),
    Case(0.5, 2.0, 1000, 1e-5, 67.168374),
]
FULL = CASES[3]  # no sampling: a closed form everywhere, and no work for anyone
RARE = Case(1e-6, 0.5, 1_000_000, 1e-5, 0.0266180)
CURVE = np.arange(1, 1001) * 14
Answer = float | tuple[float, float]


class Contest(NamedTuple):
    """One task on one case: what it asks, and a call for each contestant."""

    task: str
    case: str
    truth: float | None
    calls: dict[str, Callable[[], Answer]]


# ---- the contestants ----


def google(accountant: Callable[[], Any], case: Case) -> float:
    import dp_accounting

    event = dp_accounting.PoissonSampledDpEvent(case.q, dp_accounting.GaussianDpEvent(case.sigma))
    return float(accountant().compose(event, case.steps).get_epsilon(case.delta))


def google_renyi(case: Case) -> float:
    from dp_accounting.rdp import RdpAccountant

    return google(RdpAccountant, case)


def google_loss(case: Case) -> float:
    """With the grid of 1e-4 that the library takes by default."""
    from dp_accounting.pld import PLDAccountant

    return google(PLDAccountant, case)


def opacus_accountant(name: str, case: Case) -> float:
    from opacus.accountants import create_accountant

    accountant = create_accountant(name)
    accountant.history = [(case.sigma, case.q, case.steps)]
    return float(accountant.get_epsilon(case.delta))


def opacus_curve(name: str, every: int) -> float:
    """The last of each so many points; `SCALED` multiplies the time."""
    return [opacus_accountant(name, MNIST._replace(steps=int(steps))) for steps in CURVE[every - 1 :: every]][-1]


def google_noise(case: Case) -> float:
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent, calibrate_dp_mechanism
    from dp_accounting.pld import PLDAccountant

    def event(sigma: float) -> Any:
        return SelfComposedDpEvent(PoissonSampledDpEvent(case.q, GaussianDpEvent(sigma)), case.steps)

    return float(calibrate_dp_mechanism(PLDAccountant, event, case.epsilon, case.delta, tol=1e-3))


def opacus_noise(case: Case) -> float:
    from opacus.accountants.utils import get_noise_multiplier

    return float(
        get_noise_multiplier(
            target_epsilon=case.epsilon,
            target_delta=case.delta,
            sample_rate=case.q,
            steps=case.steps,
            accountant="prv",
        )
    )


def bracket(case: Case) -> Answer:
    from dpml.accounting import pld

    bounds = pld.epsilon_bounds(q=case.q, sigma=case.sigma, steps=case.steps, delta=case.delta)
    return bounds.lower, bounds.upper


def contests() -> list[Contest]:
    """All of them, in the order of the page."""
    from dpml.accounting import pld, rdp

    def ours(function: Callable[..., Any], case: Case) -> Callable[[], Answer]:
        return lambda: float(function(q=case.q, sigma=case.sigma, steps=case.steps, delta=case.delta).epsilon)

    found = []
    for case in (*CASES, RARE):
        calls = {
            OURS: ours(rdp.epsilon, case),
            OPACUS: lambda case=case: opacus_accountant("rdp", case),
            GOOGLE: lambda case=case: google_renyi(case),
        }
        found.append(Contest("renyi", str(case), case.epsilon, calls))
    for case in CASES:
        calls = {
            OURS: ours(pld.epsilon, case),
            OPACUS: lambda case=case: opacus_accountant("prv", case),
            GOOGLE: lambda case=case: google_loss(case),
        }
        found.append(Contest("tight", str(case), case.epsilon, calls))
    for case in CASES:
        calls = {OURS: lambda case=case: bracket(case), GOOGLE: lambda case=case: google_loss(case)}
        found.append(Contest("bracket", str(case), case.epsilon, calls))

    def curve(function: Callable[..., Any]) -> Callable[[], Answer]:
        return lambda: float(function(q=MNIST.q, sigma=MNIST.sigma, steps=CURVE, delta=MNIST.delta)[-1])

    points = f"q = {MNIST.q:.4g}, σ = {MNIST.sigma:g}, T = {CURVE[0]}, {CURVE[1]}, ..., {CURVE[-1]}"
    calls = {OURS: curve(rdp.epsilon_curve), OPACUS: lambda: opacus_curve("rdp", 20)}
    found.append(Contest("curve", points, None, calls))
    calls = {OURS: curve(pld.epsilon_curve), OPACUS: lambda: opacus_curve("prv", 200)}
    found.append(Contest("tight curve", points, None, calls))
    target = MNIST._replace(epsilon=1.0)
    calls = {
        OURS: lambda: pld.noise_multiplier(q=target.q, steps=target.steps, epsilon=1.0, delta=target.delta),
        OPACUS: lambda: opacus_noise(target),
        GOOGLE: lambda: google_noise(target),
    }
    found.append(Contest("noise", f"q = {target.q:.4g}, T = {target.steps}, ε = 1", 1.18500, calls))
    return found


SCALED = {("curve", OPACUS): 20, ("tight curve", OPACUS): 200}
"""Contestants that do only a part of a task, and by how much their time is multiplied."""


# ---- measuring ----


def timed(call: Callable[[], Answer]) -> tuple[float, Answer]:
    """Seconds for one call; those of a few milliseconds are repeated for 50."""
    start = time.perf_counter()
    answer = call()
    seconds = time.perf_counter() - start
    count = math.ceil(0.05 / seconds) if seconds < 0.025 else 0
    if count:
        start = time.perf_counter()
        for _ in range(count):
            call()
        seconds = (time.perf_counter() - start) / count
    return seconds, answer


def measure(contest: Contest, rounds: int) -> dict[str, Any]:
    times: dict[str, list[float]] = {name: [] for name in contest.calls}
    answers: dict[str, Answer] = {}
    start, done = time.perf_counter(), 0
    while done < rounds or (done < 5 * rounds and time.perf_counter() - start < 5.0):
        for name, call in contest.calls.items():
            seconds, answers[name] = timed(call)
            times[name].append(seconds * SCALED.get((contest.task, name), 1))
        done += 1
    return {
        "task": contest.task,
        "case": contest.case,
        "truth": contest.truth,
        "seconds": {name: float(f"{min(several):.4g}") for name, several in times.items()},
        "answers": answers,
    }


def ratios(rows: Sequence[dict[str, Any]], task: str, other: str) -> list[float]:
    """How many times longer `other` takes than dpml, for each case of a task."""
    chosen = [row["seconds"] for row in rows if row["task"] == task]
    return [seconds[other] / seconds[OURS] for seconds in chosen if other in seconds]


def goals(rows: Sequence[dict[str, Any]]) -> list[Goal]:
    """The numbers to meet, judged from measured rows."""

    def at_least(text: str, chosen: Sequence[dict[str, Any]], task: str, other: str, needed: float) -> Goal:
        smallest = min(ratios(chosen, task, other))
        return Goal(text, f"at least {needed:g} times", smallest, smallest >= needed)

    sampled = [row for row in rows if row["case"] != str(FULL)]
    error = max(abs(row["answers"][OURS] - row["truth"]) for row in rows if row["task"] == "tight")
    loose = max(
        row["answers"][OURS] / min(row["answers"][OPACUS], row["answers"][GOOGLE])
        for row in rows
        if row["task"] == "renyi"
    )
    brackets = [row for row in rows if row["task"] == "bracket"]
    narrow = [row for row in brackets if row["answers"][OURS][1] - row["answers"][OURS][0] <= 1e-3]
    curve = max(row["seconds"][OURS] for row in rows if row["task"] == "curve")
    return [
        at_least("Rényi epsilon, time against opacus (cases with sampling)", sampled, "renyi", OPACUS, 20),
        at_least("Rényi epsilon, time against dp-accounting (cases with sampling)", sampled, "renyi", GOOGLE, 60),
        Goal("Rényi epsilon over the smaller one of the peers", "at most 1.001", loose, loose <= 1.001),
        at_least("Tight epsilon, time against opacus' PRV accountant", rows, "tight", OPACUS, 8),
        at_least("Tight epsilon, time against dp-accounting's PLD accountant", rows, "tight", GOOGLE, 15),
        Goal("Tight epsilon, largest error", "at most 1e-5", error, error <= 1e-5),
        at_least("Bracket no wider than 1e-3, time against dp-accounting's upper bound", narrow, "bracket", GOOGLE, 3),
        Goal("Brackets no wider than 1e-3, of five", "at least 4", len(narrow), len(narrow) >= 4),
        Goal("Rényi epsilon for 1000 numbers of steps, seconds", "below 0.05", curve, curve < 0.05),
    ]


# ---- the page ----

TITLES = {
    "renyi": "Rényi accountant: epsilon at the best order",
    "tight": "Tight epsilon",
    "bracket": "Bracket: epsilon from both sides",
    "curve": "Rényi accountant: epsilon for 1000 numbers of steps",
    "tight curve": "Tight epsilon for 1000 numbers of steps",
    "noise": "Noise multiplier for a target",
}
NOTES = {
    "renyi": "All three are upper bounds of the same kind; the true epsilon is in the last column.",
    "tight": "opacus by its PRV accountant, dp-accounting by privacy-loss distributions with its usual grid of 1e-4.",
    "bracket": "dp-accounting gives the upper side alone, with its usual grid of 1e-4.",
    "curve": "The answer is the last point. opacus computed 50 of the points; its time is given for 20 times as many.",
    "tight curve": "The answer is the last point. opacus, by its PRV accountant, computed 5 of the points; its time is "
    "given for 200 times as many.",
    "noise": "opacus by its PRV accountant, dp-accounting by privacy-loss distributions, both searching to their usual "
    "or a finer tolerance. The answer is the noise multiplier; a smaller one is a better one.",
}


def time_text(seconds: float) -> str:
    """Seconds in the unit that reads best."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1.0:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def number(value: float) -> str:
    """Three digits, without a power of ten for the large ones."""
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"


def answer_text(answer: Any) -> str:
    """A number, or the two ends of a bracket."""
    if isinstance(answer, list):
        return f"[{answer[0]:.7g}, {answer[1]:.7g}]"
    return f"{answer:.7g}"


def tables(record: dict[str, Any]) -> list[tuple[str, str, list[str], list[list[str]]]]:
    """Title, note, head and rows of each table of the page."""
    return [(title, NOTES[task], *table(record, task)) for task, title in TITLES.items()]


def table(record: dict[str, Any], task: str) -> tuple[list[str], list[list[str]]]:
    """Head and rows of one task: each contestant's time, how often dpml's time fits into it, and its answer."""
    chosen = [row for row in record["rows"] if row["task"] == task]
    names = list(chosen[0]["seconds"])
    known = any(row["truth"] is not None for row in chosen)
    rows = []
    for row in chosen:
        cells = [row["case"]]
        for name in names:
            seconds = row["seconds"][name]
            factor = "" if name == names[0] else f" ({number(seconds / row['seconds'][names[0]])}×)"
            cells.append(f"{time_text(seconds)}{factor}: {answer_text(row['answers'][name])}")
        rows.append([*cells, *([f"{row['truth']:.7g}"] if known else [])])
    return ["Case", *names, *(["True value"] if known else [])], rows


# ---- the whole ----


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure dpml's accountants against opacus and dp-accounting.")
    parser.add_argument("--rounds", type=int, default=3, help="least number of calls of each contestant (default 3)")
    parser.add_argument("--task", help="only this task, printed and not recorded")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    rows = []
    for contest in contests():
        if contest.case == str(FULL):  # once each without the clock: imports, and what a first call sets up
            for call in contest.calls.values():
                call()
    for contest in contests():
        if options.task in (None, contest.task):
            rows.append(measure(contest, options.rounds))
            print(json.dumps(rows[-1], ensure_ascii=False), flush=True)
    if options.task:
        return
    judge(goals(rows))
    save(RESULTS, COMMAND, rows, packages=(OURS, "numpy", "scipy", OPACUS, "torch", GOOGLE), rounds=options.rounds)


if __name__ == "__main__":
    from dpml.command_line import any_console

    any_console()
    main()
