"""Measure what n workers in one process cost, and what two processes gain; record two tables of the book.

    python benchmarks/workers.py            some minutes; writes benchmarks/results/workers.json

Workers. A step of the simulation with 15 workers, of which 3 lie, on the MLP: batches, clipping, noise, momentum,
attack and rule; beside it one plain gradient, without privacy, of all the examples that the 12 honest workers draw, in
one batch. All fetch fresh examples in every round. Processor time on one thread, the shortest of all rounds.

Processes. Training of one model by one process and by two that share each batch (gloo on the loopback): processor time
of a step in the busier process, the median of three runs. A machine with a free core for each takes that time on the
wall; what other work on it adds is not measured. The self-test before the first step is left out: two runs of different
length are compared. With ``--device cuda`` (``bash experiments/gpu.sh processes``) these are printed for one and two
GPUs with nccl, by the clock on the wall, and nothing is recorded.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import Goal, judge, save
from benchmarks.training import batch, losses, network
from dpml.command_line import any_console

RESULTS = Path(__file__).resolve().parent / "results" / "workers.json"
COMMAND = "python benchmarks/workers.py"
N, N_BYZANTINE = 15, 3
SIZES = (50, 300, 1000)
RULES = ("average", "multi_krum", "bulyan_multi_krum")
PLAIN = "plain gradient"
SHARED = [("mlp", 256), ("mlp", 2048), ("cnn", 256), ("cnn", 512)]
SHORT, LONG = 4, 12
"""Steps of the two runs that are compared."""
MOST = 3.0


def shortest(contestants: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """The shortest processor time of each, called in turn for so many seconds."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[PLAIN]) < 5:
        for name, call in contestants.items():
            started = time.process_time()
            call()
            times[name].append(time.process_time() - started)
    return {name: min(found[1:]) for name, found in times.items()}


def steps_of_workers(size: int, seconds: float) -> dict[str, Any]:
    """A row: the plain gradient, and a step of the simulation by each rule."""
    from dpml.byzantine import aggregation, attacks
    from dpml.byzantine.simulation import Simulation
    from dpml.training import dp_sgd
    from dpml.training.sampling import FixedSize

    torch.set_num_threads(1)
    x, y = batch(10_000, torch.device("cpu"))
    model = network("mlp", torch.device("cpu"))
    generator = torch.Generator().manual_seed(0)

    def plain() -> None:
        ids = FixedSize(m=min(len(x), (N - N_BYZANTINE) * size)).draw(len(x), generator=generator)
        ids = ids.repeat(-(-(N - N_BYZANTINE) * size // len(ids)))[: (N - N_BYZANTINE) * size]
        model.zero_grad()
        losses(model(x[ids]), y[ids]).mean().backward()

    contestants: dict[str, Callable[[], Any]] = {PLAIN: plain}
    for rule in RULES:
        setting = Simulation(
            model,
            losses,
            x,
            y,
            n=N,
            n_byzantine=N_BYZANTINE,
            rule=getattr(aggregation, rule),
            attack=attacks.little,
            momentum=0.99,
            mechanism=dp_sgd(sigma=1.0, clip_norm=2.0),
            sampling=FixedSize(m=size),
            generator=torch.Generator().manual_seed(1),
        )
        contestants[rule.replace("_", "-")] = setting.here().step
    return {"task": "workers", "case": str(size), "seconds": shortest(contestants, seconds)}


def share(name: str, size: int, device: str, rank: int, processes: int, store: str) -> float:
    """The time of a step in this process: of the processor, or on a GPU by the clock on the wall."""
    from datetime import timedelta

    from torch import distributed

    from dpml.training import dp_sgd, train
    from dpml.training.sampling import FixedSize

    torch.set_num_threads(1)
    group, place = None, torch.device("cuda", rank) if device == "cuda" else torch.device("cpu")
    if device == "cuda":
        torch.cuda.set_device(place)
    if processes > 1:
        where = {"init_method": f"file://{store}", "rank": rank, "world_size": processes}
        backend = "nccl" if device == "cuda" else "gloo"
        distributed.init_process_group(backend, timeout=timedelta(seconds=300), **where)
        group = distributed.group.WORLD
    x, y = batch(10_000, place)
    model = network(name, place)
    clock = time.perf_counter if device == "cuda" else time.process_time
    given: dict[str, Any] = {"mechanism": dp_sgd(sigma=1.0, clip_norm=1.0), "delta": 1e-5, "group": group}

    def seconds(count: int) -> float:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        generator = torch.Generator().manual_seed(0)
        started = clock()
        own: dict[str, Any] = {"steps": count, "optimizer": optimizer, "generator": generator, "trace_every": count}
        train(model, losses, x, y, sampling=FixedSize(m=size), **own, **given)  # its end waits for the device
        return clock() - started

    seconds(1)
    found = [(seconds(LONG) - seconds(SHORT)) / (LONG - SHORT) for _ in range(3)]
    if processes > 1:
        distributed.destroy_process_group()
    return statistics.median(found)


def in_processes(name: str, size: int, processes: int, device: str = "cpu") -> float:
    """The time of a step in the busier of so many processes."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            str(Path(__file__).resolve()),
            "--device",
            device,
            "--share",
            name,
            str(size),
            str(processes),
        ]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        started = [
            subprocess.Popen(
                [*command, str(rank), f"{folder}/store"], env=environment, stdout=subprocess.PIPE, text=True
            )
            for rank in range(processes)
        ]
        outputs = [process.communicate()[0] for process in started]
        if any(process.returncode for process in started):
            raise RuntimeError(f"a process failed: {outputs}")
    return max(float(output.splitlines()[-1]) for output in outputs)


def goals(rows: list[dict[str, Any]]) -> list[Goal]:
    """The number to meet."""
    row = next(row for row in rows if row["task"] == "workers" and row["case"] == "300")
    ratio = row["seconds"]["multi-krum"] / row["seconds"][PLAIN]
    text = "A step of 12 honest and 3 lying workers with multi-Krum, batches of 300, over one plain gradient of as many"
    return [Goal(text, f"at most {MOST:g}", ratio, ratio <= MOST)]


def tables(record: dict[str, Any]) -> list[tuple[str, str, list[str], list[list[str]]]]:
    """Title, note, head and rows of each table of the page."""
    lines = []
    workers = [row for row in record["rows"] if row["task"] == "workers"]
    for row in workers:
        base = row["seconds"][PLAIN]
        cells = [f"{1e3 * value:.3g} ms ({value / base:.2f}×)" for value in row["seconds"].values()]
        lines.append([row["case"], f"{1e3 * base:.3g} ms", *cells[1:]])
    who = f"{N - N_BYZANTINE} honest and {N_BYZANTINE} lying workers"
    note = f"Of the MLP, {who}, with the rule named; in brackets: times one plain gradient of as many examples."
    found = [("A step of the simulation", note, ["Batch of a worker", *workers[0]["seconds"]], lines)]
    lines = []
    for row in (row for row in record["rows"] if row["task"] == "processes"):
        one, two = row["seconds"]["1"], row["seconds"]["2"]
        lines.append([row["case"], f"{1e3 * one:.3g} ms", f"{1e3 * two:.3g} ms", f"{one / two:.2f}"])
    note = "Processor time of a step of DP-SGD in the busier process, one thread each, gloo on one machine."
    head = ["Model, batch", "One process", "Two processes", "Gain"]
    return [*found, ("Two processes that share each batch", note, head, lines)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure steps of many workers, and of two processes.")
    parser.add_argument("--seconds", type=float, default=8.0, help="for each case (default 8)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--share", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.share:
        name, size, processes, rank, store = given.share
        print(share(name, int(size), given.device, int(rank), int(processes), store))
        return
    if given.device == "cuda":
        if torch.cuda.device_count() < 2:
            raise SystemExit(f"Two GPUs are needed, PyTorch finds {torch.cuda.device_count()}.")
        for name, size in [("mlp", 8192), ("cnn", 8192), ("resnet", 4096)]:
            one, two = (in_processes(name, size, processes, "cuda") for processes in (1, 2))
            print(f"{name} {size}: {1e3 * one:.3g} ms on one GPU, {1e3 * two:.3g} ms on two, gain {one / two:.2f}")
        return
    rows = [steps_of_workers(size, given.seconds) for size in SIZES]
    for name, size in SHARED:
        times = {str(processes): in_processes(name, size, processes) for processes in (1, 2)}
        rows.append({"task": "processes", "case": f"{name} {size}", "seconds": times})
    for row in rows:
        row["seconds"] = {name: float(f"{value:.4g}") for name, value in row["seconds"].items()}
    judge(goals(rows))
    save(RESULTS, COMMAND, rows, packages=("torch", "numpy"))


if __name__ == "__main__":
    any_console()
    main()
