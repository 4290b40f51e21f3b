"""DP-SGD on the private records of the PATE experiment: same splits, same network, same epsilons, same seeds.

    python3 -m experiments.dpsgd_or_pate --preset subset     # 8,000 private records
    python3 -m experiments.dpsgd_or_pate --preset full       # 55,000
    python3 -m experiments.dpsgd_or_pate --preset tiny       # a second; for the tests

`experiments/pate_fashion.py` holds the other side and the splits. DP-SGD makes no use of the public images, and PATE
none of their labels. All seeds of an epsilon are trained together (`dpml.training.stacked`): Poisson batches of 256
expected records, clip norm 1, momentum 0.9, noise by the tight accountant.

Neighbours: add/remove, as the accountant's theorem has it. A replaced record is one removed and one added, so the
number for PATE's replace-one is not the same; for PATE the same number holds under add/remove too, if the shard of a
record is decided by the record alone.

How steps and learning rate were chosen: a rehearsal on the split of seed 100 tries `GRID`, by the accuracy on the
public images of that split with their true labels, for each epsilon. Epsilon does not cover that choice. Test images
are used once, for the report.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from dpml.command_line import any_console
from dpml.data import records
from dpml.training import dp_sgd, ensemble, models, stacked, stacked_networks
from dpml.training.sampling import Poisson
from experiments import pate_fashion
from experiments.recording import machine, plain, read, today, write

RESULTS = records.FOLDER / "dpsgd_or_pate.json"
CLIP_NORM, BATCH = 1.0, 256


class Grid(NamedTuple):
    """What the rehearsal tries; the network's hidden units and the expected batch are those of the report."""

    steps: tuple[int, ...]
    rates: tuple[float, ...]


GRID = {
    "subset": Grid((150, 600), (0.03, 0.1, 0.3)),
    "full": Grid((300, 1200), (0.03, 0.1, 0.3)),
    "tiny": Grid((5, 10), (0.1,)),
}


def loss_fn(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(outputs, labels, reduction="none")


class Job(NamedTuple):
    """One private training run."""

    seed: int
    epsilon: float


def train(
    all_images: tuple[torch.Tensor, ...], preset: pate_fashion.Preset, jobs: list[Job], *, steps: int, rate: float
) -> tuple[stacked.StackedRun, list[float]]:
    """All jobs at once, each on the private records of its seed, and the noise multipliers."""
    x, y, *_ = all_images
    q = min(1.0, BATCH / preset.private)
    noise = {
        epsilon: Poisson(q=q).noise_multiplier(n=preset.private, steps=steps, epsilon=epsilon, delta=pate_fashion.DELTA)
        for epsilon in dict.fromkeys(job.epsilon for job in jobs)
    }
    order = [torch.randperm(len(x), generator=torch.Generator().manual_seed(1_000 + job.seed)) for job in jobs]
    seeds = [10_000 * job.seed + int(10 * job.epsilon) for job in jobs]
    first = [models.mlp(generator=torch.Generator().manual_seed(seed), hidden=pate_fashion.HIDDEN) for seed in seeds]
    run = stacked.train(
        stacked_networks.stack(first),
        loss_fn,
        x,
        y,
        mechanism=[dp_sgd(sigma=noise[job.epsilon], clip_norm=CLIP_NORM) for job in jobs],
        sampling=Poisson(q=q, expected_batch=q * preset.private),  # of data whose size is public
        steps=steps,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=rate, momentum=0.9),
        delta=pate_fashion.DELTA,
        generators=[torch.Generator().manual_seed(5_000_000 + seed) for seed in seeds],
        shards=[one[: preset.private] for one in order],
    )
    return run, [noise[job.epsilon] for job in jobs]


def rehearse(all_images: tuple[torch.Tensor, ...], preset: pate_fashion.Preset, grid: Grid) -> list[dict[str, Any]]:
    work = pate_fashion.split(all_images, preset, seed=pate_fashion.REHEARSAL)
    jobs = [Job(pate_fashion.REHEARSAL, epsilon) for epsilon in preset.epsilons]
    tried = []
    for steps in grid.steps:
        for rate in grid.rates:
            run, _ = train(all_images, preset, jobs, steps=steps, rate=rate)
            accuracy = ensemble.accuracy(run.stack, x=work.public_x, y=work.public_y)
            for job, value in zip(jobs, accuracy.tolist(), strict=True):
                tried.append({"epsilon": job.epsilon, "steps": steps, "rate": rate, "accuracy": round(value, 4)})
    return tried


def run(name: str, *, into: Path, folder: str | None = None) -> dict[str, Any]:
    """Do what is missing of this preset in the file `into`, and return its part of the content."""
    preset, grid = pate_fashion.PRESETS[name], GRID[name]
    fixed = {"batch": BATCH, "clip_norm": CLIP_NORM, "delta": pate_fashion.DELTA, "hidden": pate_fashion.HIDDEN}
    settings = plain({**grid._asdict(), **fixed})
    content = read(into)
    part = content.get(name, {})
    if part.get("settings") != settings:
        part = {
            "command": f"python3 -m experiments.dpsgd_or_pate --preset {name}",
            "date": today(),
            "machine": machine(),
            "adjacency": "add/remove",
            "settings": settings,
            "rehearsal": [],
            "rows": [],
        }
    content[name] = part
    all_images = pate_fashion.images(name, folder)

    if not part["rehearsal"]:
        part["rehearsal"] = rehearse(all_images, preset, grid)
        write(into, content)
    done = {row["epsilon"] for row in part["rows"]}
    for epsilon in (one for one in preset.epsilons if one not in done):
        best = max((row for row in part["rehearsal"] if row["epsilon"] == epsilon), key=lambda row: row["accuracy"])
        started = time.process_time()
        jobs = [Job(seed, epsilon) for seed in preset.seeds]
        result, sigmas = train(all_images, preset, jobs, steps=best["steps"], rate=best["rate"])
        accuracy = ensemble.accuracy(result.stack, x=all_images[2], y=all_images[3])
        seconds = (time.process_time() - started) / len(jobs)
        for job, sigma, guarantee, value in zip(jobs, sigmas, result.guarantees, accuracy.tolist(), strict=True):
            part["rows"].append(
                {
                    "epsilon": epsilon,
                    "epsilon_spent": guarantee.epsilon,
                    "seed": job.seed,
                    "steps": best["steps"],
                    "rate": best["rate"],
                    "sigma": sigma,
                    "accuracy": value,
                    "cpu_seconds": round(seconds, 2),
                }
            )
        write(into, content)
    return part


def main() -> int:
    parser = argparse.ArgumentParser(description="Train DP-SGD on the splits of the PATE experiment, and record it.")
    parser.add_argument("--preset", choices=sorted(GRID), default="subset")
    parser.add_argument("--folder", help="where the full data set lies, if it is not in one of the usual places")
    parser.add_argument("--into", type=Path, help="the file for the results")
    given = parser.parse_args()
    into = given.into or (RESULTS.with_name("dpsgd_or_pate_tiny.json") if given.preset == "tiny" else RESULTS)
    rows = run(given.preset, into=into, folder=given.folder)["rows"]
    for epsilon in dict.fromkeys(row["epsilon"] for row in rows):
        mine = [row for row in rows if row["epsilon"] == epsilon]
        accuracy = [row["accuracy"] for row in mine]
        print(
            f"epsilon {epsilon:g}: {mine[0]['steps']} steps, rate {mine[0]['rate']}, sigma {mine[0]['sigma']:.3f}, "
            f"accuracy {np.mean(accuracy):.3f} +- {np.std(accuracy):.3f}, {mine[0]['cpu_seconds']} s each"
        )
    assert all(row["epsilon_spent"] <= row["epsilon"] and math.isfinite(row["accuracy"]) for row in rows)
    return 0


if __name__ == "__main__":
    any_console()
    sys.exit(main())
