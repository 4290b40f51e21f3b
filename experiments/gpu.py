"""The training step on a GPU: agreement with the CPU, time, memory; beside training without privacy, and opacus.

    bash experiments/gpu.sh                            # on the GPU, at most 5 minutes
    bash experiments/gpu.sh --preset tiny --into FILE  # the same code on the CPU, in seconds

Parts, each a list of rows in dpml/datasets/recorded/gpu.json:

- agreement: norms and the clipped sum of one batch on the device and on the CPU, as relative differences (to meet: 1e-5
  for the sum), with TensorFloat-32 allowed and not.
- clipping: by how much the clipped gradient of one example, as it enters the sum, is longer than the clip norm,
  relative to it; the largest over some examples, with TensorFloat-32 allowed and not.
- step: milliseconds and peak memory of one step, as benchmarks/training.py defines it, for three models and batches of
  256 to 8192. Memory is what the step needs on top of model and data. null: it did not fit.
- run: milliseconds of a whole step of `sgd`, `dp_sgd` and `tsgd_ptr` in a run: sampling, noise and update included.
- stacked: a step of several MLPs at once.

The file is written after each row, so that an interrupted run goes on where it stopped; after `--limit` seconds no
further row is begun.
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import importlib.util
import json
import logging
import platform
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
from tqdm import tqdm

from dpml.command_line import any_console
from dpml.data import records
from dpml.training import dp_sgd, dpsgd, models, sgd, train, tsgd_ptr
from dpml.training.per_example import PerExample
from dpml.training.sampling import Poisson
from dpml.training.stacked_networks import StackedPerExample, stack
from experiments.processes import require
from experiments.recording import read, today, write

ROOT = Path(__file__).resolve().parents[1]
RESULTS = records.FOLDER / "gpu.json"
PEERS = ("opacus hooks", "opacus ghost clipping")
MECHANISMS = ("sgd", "dp_sgd", "tsgd_ptr")


class Preset(NamedTuple):
    """Which device, models and batch sizes; seconds and least number of rounds for a time; sizes of stacks.

    `run_steps`: the step of a run after which the clock starts, and the one at which it stops.
    """

    device: str
    networks: tuple[str, ...]
    batches: tuple[int, ...]
    agreement_batch: int
    seconds: float
    rounds: int
    stacks: tuple[int, ...]
    run_steps: tuple[int, int]


PRESETS = {
    "gpu": Preset(
        "cuda", ("mlp", "cnn", "resnet"), (256, 512, 1024, 2048, 4096, 8192), 512, 0.4, 5, (1, 8, 32), (20, 220)
    ),
    "tiny": Preset("cpu", ("mlp", "resnet"), (2, 4), 3, 0.0, 1, (1, 2), (1, 2)),
}


def benchmark() -> ModuleType:
    """The contestants of benchmarks/training.py, which is a script and not part of a package."""
    name = "dpml_benchmarks_training"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / "training.py")
        assert spec and spec.loader
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def wait(device: torch.device) -> None:
    """Until the device has done everything."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def milliseconds(step: Callable[[], Any], device: torch.device, preset: Preset) -> float:
    """The shortest time of one step, the device waited for."""
    for _ in range(3):
        step()
    wait(device)
    best, start, rounds = float("inf"), time.perf_counter(), 0
    while rounds < preset.rounds or time.perf_counter() - start < preset.seconds:
        began = time.perf_counter()
        step()
        wait(device)
        best = min(best, time.perf_counter() - began)
        rounds += 1
    return float(f"{1e3 * best:.4g}")


def mebibytes(step: Callable[[], Any], device: torch.device) -> float | None:
    """Peak memory of one step over what is held before it; None on the CPU, where the benchmark measures it."""
    if device.type != "cuda":
        return None
    wait(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    step()
    wait(device)
    return round((torch.cuda.max_memory_allocated(device) - before) / 2**20, 2)


def allow_tf32(allowed: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed


# ---- the parts ----


def agreement(name: str, tf32: bool, preset: Preset) -> dict[str, Any]:
    """Relative differences between the device and the CPU."""
    bench, device = benchmark(), torch.device(preset.device)
    allow_tf32(tf32)
    found: dict[str, dict[str, torch.Tensor]] = {}
    clip_norm = 1.0
    for where in (torch.device("cpu"), device):
        x, y = bench.batch(preset.agreement_batch, where)
        model = bench.network(name, where)
        examples = PerExample(model, bench.losses, x, y)
        if not found:
            clip_norm = float(examples.norms.median())  # clipping acts on one half
        sums = examples.sum(dpsgd.clip(examples.norms, clip_norm=clip_norm))
        values = {
            "norms": examples.norms,
            "losses": examples.losses,
            "sum": torch.cat([sums[key].reshape(-1) for key, _ in model.named_parameters()]),
        }
        found["device" if "reference" in found else "reference"] = {key: v.cpu().double() for key, v in values.items()}
    allow_tf32(False)

    def apart(key: str) -> float:
        one, other = found["device"][key], found["reference"][key]
        return float(f"{float((one - other).norm() / other.norm()):.3g}")

    worst = (found["device"]["norms"] / found["reference"]["norms"] - 1.0).abs().max()
    return {
        "sum": apart("sum"),
        "norms": apart("norms"),
        "losses": apart("losses"),
        "worst_norm": float(f"{float(worst):.3g}"),
    }


def clipping(name: str, tf32: bool, preset: Preset) -> dict[str, Any]:
    """How far the sum of a single clipped gradient exceeds the clip norm, whatever the gradients were computed in."""
    bench, device = benchmark(), torch.device(preset.device)
    allow_tf32(tf32)
    x, y = bench.batch(preset.agreement_batch, device)
    examples = PerExample(bench.network(name, device), bench.losses, x, y)
    clip_norm = float(examples.norms.median())
    clipped = dpsgd.clip(examples.norms, clip_norm=clip_norm)
    longest = 0.0
    for i in range(min(32, len(x))):
        alone = torch.zeros_like(clipped)
        alone[i] = clipped[i]
        length = torch.cat([part.double().reshape(-1) for part in examples.sum(alone).values()]).norm()
        longest = max(longest, float(length))
    allow_tf32(False)
    return {"over": float(f"{longest / clip_norm - 1.0:.3g}")}


def step(name: str, size: int, title: str, preset: Preset) -> dict[str, Any]:
    """Time and memory of one contestant."""
    bench, device = benchmark(), torch.device(preset.device)
    allow_tf32(False)
    try:
        x, y = bench.batch(size, device)
        model = bench.network(name, device)
        if title in PEERS:
            call = bench.peer(bench.PEERS[title], model, x, y)
        else:
            call = {bench.PLAIN: bench.plain, bench.OURS: bench.ours}[title](model, x, y)
        return {"milliseconds": milliseconds(call, device, preset), "mebibytes": mebibytes(call, device)}
    except torch.OutOfMemoryError:
        return {"milliseconds": None, "mebibytes": None}
    finally:
        call = model = x = y = None
        if device.type == "cuda":
            torch.cuda.empty_cache()


def run(name: str, size: int, mechanism: str, preset: Preset) -> dict[str, Any]:
    """Milliseconds of a step in a run of a mechanism, the data on the device, after some steps to warm up."""
    bench, device = benchmark(), torch.device(preset.device)
    allow_tf32(False)
    x, y = bench.batch(10_000 if preset.device == "cuda" else 40, device)
    private: dict[str, Any] = {"sigma": 1.0, "clip_norm": 1.0}
    tested: dict[str, Any] = {"tau": 0.5, "scale": 1.0, "delta0": 1e-8, "trim": size // 4}
    mechanisms = {"sgd": sgd(), "dp_sgd": dp_sgd(**private), "tsgd_ptr": tsgd_ptr(**private, **tested)}
    model = bench.network(name, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    first, last = preset.run_steps
    count, times = 0, []

    def mark(*_: Any) -> None:
        nonlocal count
        count += 1
        if count in (first, last):
            wait(device)
            times.append(time.perf_counter())

    optimizer.register_step_post_hook(mark)
    found = train(
        model,
        bench.losses,
        x,
        y,
        mechanism=mechanisms[mechanism],
        sampling=Poisson(q=min(1.0, size / len(x))),
        steps=last,
        optimizer=optimizer,
        delta=1e-5,
        generator=torch.Generator().manual_seed(0),
        trace_every=last,
    )
    return {
        "milliseconds": float(f"{1e3 * (times[1] - times[0]) / (last - first):.4g}"),
        "loss": round(float(found.trace.loss[-1]), 4),
    }


def stacked(size: int, count: int, preset: Preset) -> dict[str, Any]:
    """Time and memory of a step of several private MLPs at once."""
    bench, device = benchmark(), torch.device(preset.device)
    allow_tf32(False)
    x, y = bench.batch(size, device)
    several = [models.mlp(generator=torch.Generator().manual_seed(seed)).to(device) for seed in range(count)]
    together, pixels = stack(several), x.flatten(1)
    total = torch.empty_like(together.parameters)

    def call() -> torch.Tensor:
        examples = StackedPerExample(together, bench.losses, pixels, y)
        return examples.sum(1.0 / examples.norms.clamp(min=1.0), out=total)

    return {"milliseconds": milliseconds(call, device, preset), "mebibytes": mebibytes(call, device)}


def jobs(preset: Preset) -> list[tuple[dict[str, Any], Callable[[], dict[str, Any]]]]:
    """All rows: what identifies one, and how it is measured."""
    bench = benchmark()
    titles = [bench.PLAIN, bench.OURS, *(PEERS if importlib.util.find_spec("opacus") else ())]
    found: list[tuple[dict[str, Any], Callable[[], dict[str, Any]]]] = []
    for name in preset.networks:
        for tf32 in (False, True):
            key = {"part": "agreement", "model": name, "batch": preset.agreement_batch, "tf32": tf32}
            found.append((key, functools.partial(agreement, name, tf32, preset)))
            key = {"part": "clipping", "model": name, "batch": preset.agreement_batch, "tf32": tf32}
            found.append((key, functools.partial(clipping, name, tf32, preset)))
    for size in preset.batches:
        for name in preset.networks:
            for title in titles:
                key = {"part": "step", "model": name, "batch": size, "who": title}
                found.append((key, functools.partial(step, name, size, title, preset)))
    for name in preset.networks:
        for size in preset.batches[:1] + preset.batches[-1:]:
            for mechanism in MECHANISMS:
                key = {"part": "run", "model": name, "batch": size, "mechanism": mechanism}
                found.append((key, functools.partial(run, name, size, mechanism, preset)))
    for count in preset.stacks:
        key = {"part": "stacked", "model": "mlp", "batch": preset.batches[0], "models": count}
        found.append((key, functools.partial(stacked, preset.batches[0], count, preset)))
    return found


def machine(preset: Preset) -> dict[str, Any]:
    """What the numbers depend on."""
    peer = {"opacus": importlib.metadata.version("opacus")} if importlib.util.find_spec("opacus") else {}
    cuda = preset.device == "cuda"
    return {
        "device": torch.cuda.get_device_name() if cuda else f"CPU, {platform.machine()}",
        "CUDA": torch.version.cuda if cuda else None,
        "Python": platform.python_version(),
        "torch": str(torch.__version__),
        **peer,
    }


def measure(name: str, *, into: Path, limit: float) -> dict[str, Any]:
    """Do what is missing in the file `into`, as far as the time allows, and return its content."""
    began, preset = time.perf_counter(), PRESETS[name]
    require(preset.device)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    head = {
        "command": f"bash experiments/gpu.sh --preset {name}",
        "date": today(),
        "machine": machine(preset),
    }
    before = read(into)
    rows: list[dict[str, Any]] = before["rows"] if before.get("machine") == head["machine"] else []
    todo = [(key, job) for key, job in jobs(preset) if not any(key.items() <= row.items() for row in rows)]
    for key, job in tqdm(todo, unit="row", disable=None):
        if time.perf_counter() - began > limit:
            print(f"Stopped after {limit:g} s; the same command goes on.")
            break
        rows.append({**key, **job()})
        write(into, {**head, "rows": rows})
    return {**head, "rows": rows}


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the private training step on a GPU.")
    parser.add_argument("--preset", choices=sorted(PRESETS), default="gpu")
    parser.add_argument("--into", type=Path, help="the file for the results (default: dpml/datasets/recorded/gpu.json)")
    parser.add_argument("--limit", type=float, default=270.0, help="begin no row after so many seconds (default 270)")
    given = parser.parse_args()
    into = given.into or (RESULTS if given.preset == "gpu" else RESULTS.with_name(f"gpu_{given.preset}.json"))
    for row in measure(given.preset, into=into, limit=given.limit)["rows"]:
        print(json.dumps(row))
    return 0


if __name__ == "__main__":
    any_console()
    sys.exit(main())
