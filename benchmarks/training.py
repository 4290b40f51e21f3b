"""Measure the training step of dpml against opacus and against training without privacy; record the book's table.

    pip install -e .[torch] -r benchmarks/requirements-training.txt      in an environment of its own
    python benchmarks/training.py            some ten minutes; writes benchmarks/results/training.json

A step is: forward, norms of the per-example gradients, weights, weighted sum; noise and update, the same for everyone,
are left out. Without privacy it is: forward, backward. The sums of all contestants are compared with dpml's.

All contestants of a case run in one process, interleaved: a round calls each once. `cpu` is processor time on one
thread, `wall` time on two; each is the shortest of all rounds. Methods that keep every per-example gradient spend most
of their time, for wide layers, in the kernel, which hands out and takes back the same memory in every step. Telling
glibc to keep the memory makes them several times faster; so every case is measured both ways, and the goals are judged
with the peers at their best. Peak memory is measured in a process for each contestant, over model and data, gradients
included (Linux only).
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import json
import logging
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import Goal, judge, save

RESULTS = Path(__file__).resolve().parent / "results" / "training.json"
COMMAND = "python benchmarks/training.py"
OURS, PLAIN = "dpml", "not private"
PEERS = {
    "opacus hooks": "hooks",
    "opacus functorch": "functorch",
    "opacus ExpandedWeights": "ew",
    "opacus ghost clipping": "ghost",
}
DPSGD, TRIMMED = "DP-SGD", "TSGD+PTR"
CASES = [("mlp", 256), ("mlp", 1024), ("cnn", 256), ("cnn", 1024)]
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**31), "MALLOC_TRIM_THRESHOLD_": str(2**33), "MALLOC_TOP_PAD_": "0"}
CLIP_NORM = 1.0
STACKED = 8

Step = Callable[[], torch.Tensor]


# ---- the contestants ----


def network(name: str, device: torch.device) -> nn.Module:
    """A fresh model with the same first weights every time."""
    from dpml.training import models

    make = {"mlp": models.mlp, "cnn": models.tutorial_cnn, "resnet": models.small_resnet}[name]
    return make(generator=torch.Generator().manual_seed(0)).to(device)


def batch(size: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Real images: the first ones of the shipped set, repeated where it is too small."""
    from dpml.data import fashion_mnist_subset
    from dpml.training import models

    images = fashion_mnist_subset()
    index = torch.arange(size) % len(images.train_images)
    x, y = models.to_tensors(images.train_images), models.to_labels(images.train_labels)
    return x[index].to(device), y[index].to(device)


def losses(outputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(outputs, y, reduction="none")


def flat(gradients: Any) -> torch.Tensor:
    return torch.cat([gradient.reshape(-1) for gradient in gradients])


def plain(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Step:
    """Training without privacy: the sum of the gradients."""
    parameters = list(model.parameters())

    def step() -> torch.Tensor:
        for parameter in parameters:
            parameter.grad = None
        losses(model(x), y).sum().backward()
        return flat(parameter.grad for parameter in parameters)

    return step


def ours(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Step:
    """dpml: norms, weights, weighted sum."""
    from dpml.training import dpsgd
    from dpml.training.per_example import PerExample

    names = [name for name, _ in model.named_parameters()]

    def step() -> torch.Tensor:
        examples = PerExample(model, losses, x, y)
        sums = examples.sum(dpsgd.clip(examples.norms, clip_norm=CLIP_NORM))
        return flat(sums[name] for name in names)

    return step


def peer(mode: str, model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Step:
    """opacus in one of its modes, without noise and update."""
    from opacus import grad_sample, optimizers
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    options = {"noise_multiplier": 0.0, "max_grad_norm": CLIP_NORM, "expected_batch_size": len(x)}
    base = torch.optim.SGD(model.parameters(), lr=0.1)
    if mode == "ghost":
        module = grad_sample.GradSampleModuleFastGradientClipping(
            model, max_grad_norm=CLIP_NORM, use_ghost_clipping=True, loss_reduction="sum"
        )
        optimizer = optimizers.DPOptimizerFastGradientClipping(base, loss_reduction="sum", **options)
        criterion = DPLossFastGradientClipping(
            module, optimizer, nn.CrossEntropyLoss(reduction="sum"), loss_reduction="sum"
        )

        def step() -> torch.Tensor:
            optimizer.zero_grad(set_to_none=True)
            criterion(module(x), y).backward()
            return flat(parameter.grad for parameter in model.parameters())

        return step
    if mode == "ew":
        module = grad_sample.GradSampleModuleExpandedWeights(model, loss_reduction="sum")
    else:
        module = grad_sample.GradSampleModule(model, loss_reduction="sum", force_functorch=mode == "functorch")
    optimizer = optimizers.DPOptimizer(base, loss_reduction="sum", **options)

    def materialised() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        functional.cross_entropy(module(x), y, reduction="sum").backward()
        optimizer.clip_and_accumulate()
        return flat(parameter.summed_grad for parameter in optimizer.params)

    return materialised


def stacked(x: torch.Tensor, y: torch.Tensor) -> Step:
    """Eight MLPs of dpml at once, each private."""
    from dpml.training import models
    from dpml.training.stacked_networks import StackedPerExample, stack

    several = stack([models.mlp(generator=torch.Generator().manual_seed(seed)) for seed in range(STACKED)])
    total = torch.empty_like(several.parameters)
    pixels = x.flatten(1)

    def step() -> torch.Tensor:
        examples = StackedPerExample(several, losses, pixels, y)
        return examples.sum(CLIP_NORM / examples.norms.clamp(min=CLIP_NORM), out=total)

    return step


def released(model: nn.Module, x: torch.Tensor, y: torch.Tensor, mechanism: Any) -> Step:
    """The noisy sum of a step by a mechanism of dpml."""
    from dpml.training.mechanism import Batch
    from dpml.training.per_example import PerExample
    from dpml.training.sampling import Poisson

    parameters, ids = dict(model.named_parameters()), torch.arange(len(x))
    generator = torch.Generator().manual_seed(0)
    state = mechanism.start(Poisson(q=1.0), len(x))

    def step() -> torch.Tensor:
        gradients = Batch([PerExample(model, losses, x, y)], ids=ids, parameters=parameters)
        found: torch.Tensor = mechanism.release(gradients, state=state, generator=generator).vector
        return found

    return step


def contestants(name: str, size: int, device: torch.device, peers: Sequence[str]) -> dict[str, Step]:
    """Every contestant of a case, each with a model of its own."""
    x, y = batch(size, device)
    found = {PLAIN: plain(network(name, device), x, y), OURS: ours(network(name, device), x, y)}
    for title in peers:
        found[title] = peer(PEERS[title], network(name, device), x, y)
    return found


# ---- measuring, in processes of their own ----


def difference(value: torch.Tensor, reference: torch.Tensor) -> float:
    """Relative distance of two sums."""
    return float((value - reference).norm() / reference.norm())


def interleaved(steps: dict[str, Step], seconds: float, clock: Callable[[], float]) -> dict[str, float]:
    """The shortest time of each step, in rounds until `seconds` are over; at least three rounds."""
    for step in steps.values():
        step()
        step()
    best = dict.fromkeys(steps, float("inf"))
    start, rounds = time.perf_counter(), 0
    while rounds < 3 or time.perf_counter() - start < seconds:
        for name, step in steps.items():
            began = clock()
            step()
            best[name] = min(best[name], clock() - began)
        rounds += 1
    return {name: float(f"{value:.4g}") for name, value in best.items()}


def peers_here() -> list[str]:
    """The peers that can be measured."""
    try:
        importlib.metadata.version("opacus")
    except importlib.metadata.PackageNotFoundError:
        return []
    return list(PEERS)


def time_case(name: str, size: int, threads: int, seconds: float) -> dict[str, Any]:
    """All contestants of one case: processor time on one thread, wall time on several."""
    torch.set_num_threads(threads)
    steps = contestants(name, size, torch.device("cpu"), peers_here())
    reference = steps[OURS]()
    differences = {title: difference(step(), reference) for title, step in steps.items() if title in PEERS}
    clock = time.process_time if threads == 1 else time.perf_counter
    return {"seconds": interleaved(steps, seconds, clock), "differences": differences}


def time_stacked(size: int, threads: int, seconds: float) -> dict[str, Any]:
    """Eight stacked private MLPs against eight MLPs without privacy, one after another."""
    torch.set_num_threads(threads)
    device = torch.device("cpu")
    x, y = batch(size, device)
    singles = [plain(network("mlp", device), x, y) for _ in range(STACKED)]

    def one_by_one() -> torch.Tensor:
        return torch.stack([single() for single in singles])

    clock = time.process_time if threads == 1 else time.perf_counter
    return {"seconds": interleaved({PLAIN: one_by_one, OURS: stacked(x, y)}, seconds, clock), "differences": {}}


def time_robust(name: str, size: int, threads: int, seconds: float) -> dict[str, Any]:
    """A step of trimmed SGD with propose-test-release against one of DP-SGD, noise included."""
    from dpml.training import dp_sgd, tsgd_ptr

    torch.set_num_threads(threads)
    x, y = batch(size, torch.device("cpu"))
    private = {"sigma": 1.1, "clip_norm": CLIP_NORM}
    mechanisms = {
        DPSGD: dp_sgd(**private),
        TRIMMED: tsgd_ptr(**private, tau=0.5, scale=1.0, delta0=1e-8, trim=size // 4),
    }
    steps = {title: released(network(name, torch.device("cpu")), x, y, one) for title, one in mechanisms.items()}
    clock = time.process_time if threads == 1 else time.perf_counter
    return {"seconds": interleaved(steps, seconds, clock), "differences": {}}


def peak_memory(name: str, size: int, title: str) -> float:
    """MiB that a step of one contestant needs on top of model and data, its gradients included."""
    torch.set_num_threads(1)
    device = torch.device("cpu")
    step = contestants(name, size, device, [title] if title in PEERS else [])[title]
    for _ in range(3):
        step()
    peaks = []
    for _ in range(3):
        release()
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the high-water mark starts anew
        rest = status("VmRSS")
        step()
        peaks.append(status("VmHWM") - rest)
    return round(max(peaks) / 1024, 2)


def release() -> None:
    """Let go of all gradients of the step before, which count as part of the next step for everyone."""
    for thing in gc.get_objects():
        if isinstance(thing, nn.Parameter):
            for name in ("grad", "grad_sample", "summed_grad"):
                if getattr(thing, name, None) is not None:
                    setattr(thing, name, None)
    gc.collect()


def status(field: str) -> int:
    """A field of this process's status, in KiB."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(field + ":")))


def in_a_process(arguments: Sequence[str], environment: dict[str, str]) -> Any:
    """The answer of this script, run with other arguments and another environment."""
    command = [sys.executable, str(Path(__file__).resolve()), *arguments]
    quiet = {"OMP_WAIT_POLICY": "passive", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, env={**os.environ, **quiet, **environment}, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


# ---- the goals ----


def row_of(rows: Sequence[dict[str, Any]], task: str, case: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["task"] == task and row["case"] == case]


def shortest(rows: Sequence[dict[str, Any]], task: str, case: str, names: Sequence[str]) -> float:
    """The shortest time of any of these contestants, whichever way memory is handed out."""
    return min(row["seconds"][name] for row in row_of(rows, task, case) for name in names if name in row["seconds"])


def ratio_to_plain(rows: Sequence[dict[str, Any]], task: str, case: str) -> float:
    """dpml over training without privacy, within the same process."""
    return min(row["seconds"][OURS] / row["seconds"][PLAIN] for row in row_of(rows, task, case))


def goals(rows: Sequence[dict[str, Any]]) -> list[Goal]:
    """The numbers to meet, judged from measured rows, by processor time on one thread."""

    def at_most(text: str, measured: float, needed: float) -> Goal:
        return Goal(text, f"at most {needed:g}", measured, measured <= needed)

    found = []
    for model, needed in (("mlp", 1.3), ("cnn", 1.25)):
        for size in (256, 1024):
            measured = ratio_to_plain(rows, "cpu", f"{model} {size}")
            found.append(at_most(f"Step over the step without privacy, {model}, batch {size}", measured, needed))
    for case, needed in (("mlp 256", 0.5), ("mlp 1024", 0.5), ("cnn 256", 0.8), ("cnn 1024", 0.6)):
        best = shortest(rows, "cpu", case, list(PEERS))
        measured = shortest(rows, "cpu", case, [OURS]) / best
        found.append(at_most(f"Step over opacus' best mode, {case.replace(' ', ', batch ')}", measured, needed))
    for case in ("cnn 256", "cnn 1024"):
        memory = row_of(rows, "memory", case)[0]["mebibytes"]
        text = f"Peak memory over that without privacy, {case.replace(' ', ', batch ')}"
        found.append(at_most(text, memory[OURS] / memory[PLAIN], 1.1))
    measured = ratio_to_plain(rows, "stacked cpu", f"mlp 256, {STACKED} models")
    found.append(at_most("Eight stacked private MLPs over eight without privacy, one by one", measured, 0.9))
    for case in ("mlp 256", "cnn 256"):
        seconds = row_of(rows, "robust cpu", case)[0]["seconds"]
        text = f"Step of TSGD+PTR over that of DP-SGD, {case.replace(' ', ', batch ')}"
        found.append(at_most(text, seconds[TRIMMED] / seconds[DPSGD], 1.05))
    worst = max(value for row in rows for value in row.get("differences", {}).values())
    found.append(at_most("Relative difference between the sums of opacus and dpml", worst, 1e-5))
    return found


TITLES = {
    "cpu": "Processor time of a step, one thread",
    "wall": "Time of a step, two threads",
    "stacked cpu": "Eight MLPs at once, processor time, one thread",
    "stacked wall": "Eight MLPs at once, time, two threads",
    "robust cpu": "Trimmed SGD with propose-test-release, processor time, one thread",
    "memory": "Peak memory of a step, over model and data",
}
NOTES = {
    "cpu": "In brackets: times the step without privacy. Each case twice: as the system hands out memory, and with the "
    "memory kept between steps (glibc told so by environment variables), which helps whoever keeps every gradient.",
    "wall": "The same on two threads, by the clock on the wall; other work on the machine disturbs it more.",
    "stacked cpu": "Eight private networks in one stack against eight networks without privacy, one after another.",
    "stacked wall": "The same on two threads, by the clock on the wall.",
    "robust cpu": "Norms, test, weights, sum and noise; in brackets: times the step of DP-SGD, its noise included.",
    "memory": "Each contestant in a process of its own, one thread.",
}


def tables(record: dict[str, Any]) -> list[tuple[str, str, list[str], list[list[str]]]]:
    """Title, note, head and rows of each table of the page."""
    found = []
    for task, title in TITLES.items():
        chosen = [row for row in record["rows"] if row["task"] == task]
        if not chosen:
            continue
        key = "mebibytes" if task == "memory" else "seconds"
        names = list(chosen[0][key])
        lines = []
        for row in chosen:
            cells = [row["case"] + (", memory kept" if row.get("keeps_memory") else "")]
            for name in names:
                value, base = row[key][name], row[key][names[0]]
                shown = f"{value:.3g} MiB" if task == "memory" else f"{1e3 * value:.3g} ms"
                cells.append(shown if name == names[0] else f"{shown} ({value / base:.3g}×)")
            lines.append(cells)
        found.append((title, NOTES[task], ["Model, batch", *names], lines))
    return found


# ---- the whole ----


def measure(seconds: float) -> list[dict[str, Any]]:
    """All rows, each printed as soon as it is there."""
    rows: list[dict[str, Any]] = []

    def add(row: dict[str, Any]) -> None:
        rows.append(row)
        print(json.dumps(row, ensure_ascii=False), flush=True)

    for task, threads in (("cpu", 1), ("wall", 2)):
        for name, size in CASES:
            for keeps in (False, True):
                answer = in_a_process(
                    ["--time", name, str(size), str(threads), str(seconds)], KEEP_MEMORY if keeps else {}
                )
                add({"task": task, "case": f"{name} {size}", "keeps_memory": keeps, **answer})
    for task, threads in (("stacked cpu", 1), ("stacked wall", 2)):
        answer = in_a_process(["--time", "stacked", "256", str(threads), str(seconds)], {})
        add({"task": task, "case": f"mlp 256, {STACKED} models", **answer})
    for name in ("mlp", "cnn"):
        answer = in_a_process(["--time", f"robust {name}", "256", "1", str(seconds)], {})
        add({"task": "robust cpu", "case": f"{name} 256", **answer})
    for name, size in CASES:
        used = {
            title: in_a_process(["--memory", name, str(size), title], {"MALLOC_MMAP_THRESHOLD_": "65536"})
            for title in (PLAIN, OURS, *PEERS)
        }
        add({"task": "memory", "case": f"{name} {size}", "mebibytes": used})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure dpml's training step against opacus.")
    parser.add_argument("--seconds", type=float, default=12.0, help="for each case (default 12)")
    parser.add_argument("--time", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--memory", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    if options.time:
        name, size, threads, seconds = options.time
        if name == "stacked":
            answer: Any = time_stacked(int(size), int(threads), float(seconds))
        elif name.startswith("robust "):
            answer = time_robust(name.removeprefix("robust "), int(size), int(threads), float(seconds))
        else:
            answer = time_case(name, int(size), int(threads), float(seconds))
        print(json.dumps(answer))
        return
    if options.memory:
        name, size, title = options.memory
        print(json.dumps(peak_memory(name, int(size), title)))
        return
    rows = measure(options.seconds)
    judge(goals(rows))
    save(RESULTS, COMMAND, rows, packages=("torch", "numpy", "opacus"), seconds_for_a_case=options.seconds)


if __name__ == "__main__":
    from dpml.command_line import any_console

    any_console()
    main()
