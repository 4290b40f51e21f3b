"""DP-SGD with as many steps as it needs: the tutorial CNN on all 60,000 images of Fashion-MNIST, on a GPU.

    bash experiments/gpu.sh dpsgd                                      # minutes on a GPU
    python3 -m experiments.dpsgd_gpu --preset tiny --device cpu --into FILE   # the same on a few images

experiments/dpsgd_fashion.py trains this network for 250 steps, which is what a small computer can do. Here it gets
2,000, and twice the batch. Parts, each a list of rows in dpml/datasets/recorded/dpsgd_gpu.json:

- search: the learning rate at each epsilon, by the accuracy on 12,000 images held out from the training images, one
  seed. These runs looked at the private images, and *no epsilon below covers that choice*.
- full: epsilon 1, 3 and 8 at delta = 1e-5, and without privacy; five seeds; accuracy on the test images.

The file is written after each row, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import functools
import logging
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from dpml import data
from dpml.command_line import any_console
from dpml.data import records
from dpml.training import models
from dpml.training.trace import Diverged
from experiments import dpsgd_fashion as fashion
from experiments.printing import Table, show
from experiments.processes import options, require
from experiments.recording import fill, plain, read, setting_of, today, write

RESULTS = records.FOLDER / "dpsgd_gpu.json"
EPSILONS = (1.0, 3.0, 8.0, None)


class Preset(NamedTuple):
    """Images at most (None: all); expected batch, steps, learning rates tried, seeds."""

    images: int | None
    batch: int
    steps: int
    rates: tuple[float, ...]
    seeds: tuple[int, ...]


PRESETS = {
    "full": Preset(None, 1024, 2000, (0.05, 0.1, 0.2, 0.4), (0, 1, 2, 3, 4)),
    "tiny": Preset(100, 20, 2, (0.1, 0.2), (0,)),
}


class Job(NamedTuple):
    """A run for one of the processes."""

    setting: fashion.Setting
    preset: str
    device: str


@functools.lru_cache(maxsize=2)
def task(part: str, preset: str, device: str) -> fashion.Task:
    """The images of a part on the device; the search has every fifth training image held out."""
    limit = PRESETS[preset].images
    whole = data.fashion_mnist() if limit is None else data.fashion_mnist_subset()
    some = slice(limit)
    x, y = models.to_tensors(whole.train_images[some]), models.to_labels(whole.train_labels[some])
    test = models.to_tensors(whole.test_images[some]), models.to_labels(whole.test_labels[some])
    if part == "search":
        held_out = torch.arange(len(x)) % 5 == 4
        test = x[held_out], y[held_out]
        x, y = x[~held_out], y[~held_out]
    return fashion.Task(x.to(device), y.to(device), (test[0].to(device), test[1].to(device)))


def do(job: Job) -> dict[str, Any]:
    """The row of a job. A learning rate that diverges gets accuracy 0."""
    work = task(job.setting.part, job.preset, job.device)
    try:
        found = fashion.ours(job.setting, work)
    except Diverged as error:
        if job.setting.part != "search":
            raise
        found = {"accuracy": 0.0, "diverged": error.step}
    return {**job.setting._asdict(), "n": len(work.x), **found}


def search(preset: Preset) -> Iterator[fashion.Setting]:
    """The learning rates, one seed."""
    for epsilon in EPSILONS:
        for rate in preset.rates:
            yield fashion.Setting(
                "search", "cnn", epsilon, None, preset.batch, preset.steps, rate, fashion.CLIP_NORM, 0
            )


def full(preset: Preset, rows: list[dict[str, Any]]) -> Iterator[fashion.Setting]:
    """All epsilons and seeds with the learning rates found; none before the search is done."""
    if len([row for row in rows if row["part"] == "search"]) < len(EPSILONS) * len(preset.rates):
        return
    rates = fashion.best_rates(rows)
    for seed in preset.seeds:
        for epsilon in EPSILONS:
            rate = rates["cnn", epsilon]
            yield fashion.Setting(
                "full", "cnn", epsilon, None, preset.batch, preset.steps, rate, fashion.CLIP_NORM, seed
            )


def place(row: dict[str, Any], preset: Preset) -> tuple[bool, int, int, int]:
    """Where a row stands in the file."""
    return row["part"] == "full", row["seed"], EPSILONS.index(row["epsilon"]), preset.rates.index(row["rate"])


def run(
    name: str, *, into: Path, device: str = "cuda", seconds: float | None = None, processes: int = 1
) -> dict[str, Any]:
    """Do what is missing in the file `into`, and return its content. After so many seconds no further row is begun."""
    require(device)
    preset, begun = PRESETS[name], time.time()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    head = {
        "command": "bash experiments/gpu.sh dpsgd",
        "date": today(),
        "machine": fashion.where(device),
        "settings": plain(preset._asdict()),
        "delta": fashion.DELTA,
        "momentum": fashion.MOMENTUM,
        "quantiles": fashion.QUANTILES,
        "adjacency": "add/remove",
        "sampling": "Poisson",
        "chosen": "learning rates by part 'search', on the private images; epsilon does not cover that choice",
    }
    before = read(into)
    rows: list[dict[str, Any]] = before["rows"] if before.get("settings") == head["settings"] else []
    content = {**head, "rows": rows}
    save = functools.partial(write, into, content)
    for settings in (search(preset), full(preset, rows)):  # the second is empty until the first is done
        wanted = list(settings)
        done = {setting_of(fashion.Setting, row) for row in rows}
        jobs = [Job(setting, name, device) for setting in wanted if setting not in done]
        left = None if seconds is None else seconds - (time.time() - begun)
        fill(rows, do, jobs, order=lambda row: place(row, preset), save=save, seconds=left, processes=processes)
    return content


def tables(content: dict[str, Any]) -> list[Table]:
    """Title, note, head and rows of each table: what was run, the accuracies, the learning rates tried."""
    return fashion.tables(content)


def main() -> int:
    given = options(
        "Train the CNN privately on all of Fashion-MNIST on a GPU.",
        presets=sorted(PRESETS),
        into=RESULTS,
        preset="full",
        device="cuda",
    )
    show(tables(run(**given)))
    return 0


if __name__ == "__main__":
    any_console()
    sys.exit(main())
