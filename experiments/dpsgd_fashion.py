"""DP-SGD on Fashion-MNIST: what privacy costs in accuracy, and that another library gets the same.

    python3 -m experiments.dpsgd_fashion                 # the recorded run, some 40 minutes on one core
    python3 -m experiments.dpsgd_fashion --preset tiny   # the same on 200 images, in seconds

Parts, each a list of rows in dpml/datasets/recorded/dpsgd_fashion.json:

- search: the learning rate of each model at each epsilon, by the accuracy on 2,000 images held out from the 10,000
  shipped training images. One seed. These runs looked at the private images, and *no epsilon below covers that choice*.
- subset, full: the shipped 10,000 images and all 60,000, with the learning rates found (those of the subset serve the
  full set as well), epsilon 1, 3 and 8 at delta = 1e-5 and without privacy, five seeds, accuracy on the test images.
- tested: the MLPs of the subset once more, with the accuracy on the test images of the full set. The 2,000 shipped ones
  are easier, so only these rows may be compared with those of the full set.
- opacus: the subset at epsilon 3 trained by Opacus with the same model, first weights, sampling, noise, clipping,
  optimizer and steps; only where it is installed (benchmarks/requirements-training.txt).
- sweep: noise multiplier and batch size against epsilon and accuracy, MLP on the subset.
- clip: the clip norm against the fraction clipped and the accuracy at epsilon 3, with learning rate times clip norm
  held constant, MLP on the subset.

Whatever else was chosen, was chosen once, by hand: batches of 250 (500 on the full set) so that q is a simple fraction,
momentum 0.9, clip norm 1, and numbers of steps for which the whole run fits into its time. The file is written after
each row, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import importlib.util
import json
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional
from tqdm import tqdm

from dpml import data
from dpml.command_line import any_console
from dpml.data import records
from dpml.training import dp_sgd, models, sgd, train
from dpml.training.models import accuracy
from dpml.training.sampling import Poisson
from dpml.training.trace import QUANTILES
from experiments.printing import Table, show
from experiments.recording import machine, read, setting_of, today, write

RESULTS = records.FOLDER / "dpsgd_fashion.json"
DELTA, MOMENTUM, CLIP_NORM = 1e-5, 0.9, 1.0
NETWORKS: dict[str, Callable[..., torch.nn.Sequential]] = {"mlp": models.mlp, "cnn": models.tutorial_cnn}
EPSILONS = (1.0, 3.0, 8.0, None)


class Preset(NamedTuple):
    """How much of the data, how many steps of each model on each set, which seeds, what is tried and swept."""

    images: int | None
    steps: dict[tuple[str, str], int]
    batches: dict[str, int]
    seeds: tuple[int, ...]
    rates: dict[str, tuple[float, ...]]
    sigmas: tuple[float, ...]
    sweep_batches: tuple[int, ...]
    clip_norms: tuple[float, ...]


PRESETS = {
    "full": Preset(
        images=None,
        steps={("subset", "mlp"): 800, ("full", "mlp"): 1000, ("subset", "cnn"): 250, ("full", "cnn"): 250},
        batches={"subset": 250, "full": 500},
        seeds=(0, 1, 2, 3, 4),
        rates={"mlp": (0.0125, 0.025, 0.05, 0.1), "cnn": (0.05, 0.1, 0.2)},
        sigmas=(0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0),
        sweep_batches=(50, 250, 1000),
        clip_norms=(0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0),
    ),
    "tiny": Preset(
        images=200,
        steps={("subset", "mlp"): 4, ("full", "mlp"): 2, ("subset", "cnn"): 2, ("full", "cnn"): 1},
        batches={"subset": 20, "full": 20},
        seeds=(0,),
        rates={"mlp": (0.05, 0.1), "cnn": (0.1,)},
        sigmas=(1.0, 3.0),
        sweep_batches=(10, 20),
        clip_norms=(0.3, 1.0),
    ),
}


class Task(NamedTuple):
    """One set of images as tensors."""

    x: torch.Tensor
    y: torch.Tensor
    test: tuple[torch.Tensor, torch.Tensor]


def task(part: str, preset: Preset) -> Task:
    """The images of a part; those of the search are the shipped training images, every fifth of them held out."""
    shipped = data.fashion_mnist_subset()
    whole = data.fashion_mnist() if part in ("full", "tested") and preset.images is None else shipped
    learnt = whole if part == "full" else shipped
    some = slice(preset.images)
    x, y = models.to_tensors(learnt.train_images[some]), models.to_labels(learnt.train_labels[some])
    if part == "search":
        held_out = torch.arange(len(x)) % 5 == 4
        return Task(x[~held_out], y[~held_out], (x[held_out], y[held_out]))
    return Task(x, y, (models.to_tensors(whole.test_images[some]), models.to_labels(whole.test_labels[some])))


def losses(outputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Cross-entropy, one for each example."""
    return functional.cross_entropy(outputs, y, reduction="none")


class Setting(NamedTuple):
    """One run: everything that decides its result. Epsilon None: without privacy; sigma is calibrated where None."""

    part: str
    model: str
    epsilon: float | None
    sigma: float | None
    batch: int
    steps: int
    rate: float
    clip_norm: float
    seed: int

    def key(self) -> str:
        return json.dumps(self)


@functools.cache
def calibrated(batch: int, n: int, steps: int, epsilon: float) -> float:
    """The noise multiplier for a target, by the tight accountant."""
    return Poisson(q=batch / n).noise_multiplier(n=n, steps=steps, epsilon=epsilon, delta=DELTA)


def noise(setting: Setting, n: int) -> float:
    """The noise multiplier of a private run."""
    if setting.sigma is not None:
        return setting.sigma
    assert setting.epsilon is not None
    return calibrated(setting.batch, n, setting.steps, setting.epsilon)


def first_model(setting: Setting, device: torch.device) -> tuple[torch.nn.Sequential, torch.optim.SGD]:
    """The model with the first weights of this seed, and its optimizer."""
    model = NETWORKS[setting.model](generator=torch.Generator().manual_seed(setting.seed)).to(device)
    return model, torch.optim.SGD(model.parameters(), lr=setting.rate, momentum=MOMENTUM)


def ours(setting: Setting, work: Task) -> dict[str, Any]:
    """One run of dpml."""
    model, optimizer = first_model(setting, work.x.device)
    n = len(work.x)
    common: dict[str, Any] = {
        "sampling": Poisson(q=setting.batch / n, expected_batch=setting.batch),  # of data whose size is public
        "steps": setting.steps,
        "optimizer": optimizer,
        "delta": DELTA,
        "generator": torch.Generator().manual_seed(1000 + setting.seed),
        "trace_every": -(-setting.steps // 10),
        "test": work.test,
    }
    started = time.process_time()
    if setting.epsilon is None and setting.sigma is None:
        mechanism, sigma = sgd(), None
    else:
        sigma = noise(setting, n)
        mechanism = dp_sgd(sigma=sigma, clip_norm=setting.clip_norm)
    run = train(model, losses, work.x, work.y, mechanism=mechanism, **common)
    trace = run.trace
    return {
        "accuracy": round(float(trace.accuracy[-1]), 5),
        "spent": None if sigma is None else round(run.guarantee.epsilon, 5),
        "noise": sigma if sigma is None else round(sigma, 6),
        "loss": [round(one, 4) for one in trace.loss.tolist()],
        "accuracies": [round(one, 5) for one in trace.accuracy.tolist()],
        "at_steps": trace.steps.tolist(),
        "clipped": [round(one, 4) for one in trace.clipped.tolist()],
        "last_norms": [round(one, 4) for one in trace.norms[-1].tolist()],
        "seconds": round(time.process_time() - started, 2),
    }


def opacus(setting: Setting, work: Task) -> dict[str, Any]:
    """The same run by Opacus: its sampler, its ghost clipping, its optimizer around the same SGD."""
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    model, optimizer = first_model(setting, work.x.device)
    torch.manual_seed(2000 + setting.seed)
    sigma = noise(setting, len(work.x))
    started = time.process_time()
    loader = DataLoader(TensorDataset(work.x, work.y), batch_size=setting.batch)
    private, optimizer, criterion, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=optimizer,
        criterion=torch.nn.CrossEntropyLoss(),
        data_loader=loader,
        grad_sample_mode="ghost",
        noise_multiplier=sigma,
        max_grad_norm=setting.clip_norm,
        poisson_sampling=True,
    )
    assert optimizer.expected_batch_size == setting.batch
    done = 0
    while done < setting.steps:
        for some_x, some_y in loader:
            optimizer.zero_grad()
            criterion(private(some_x), some_y).backward()
            optimizer.step()
            done += 1
            if done == setting.steps:
                break
    return {
        "accuracy": round(accuracy(model, work.test[0], y=work.test[1]), 5),
        "noise": round(sigma, 6),
        "seconds": round(time.process_time() - started, 2),
    }


def search(preset: Preset, model: str) -> Iterator[Setting]:
    """Learning rates, one seed, on the images that are left."""
    for epsilon in EPSILONS:
        for rate in preset.rates[model]:
            steps, batch = preset.steps["subset", model], preset.batches["subset"]
            yield Setting("search", model, epsilon, None, batch, steps, rate, CLIP_NORM, 0)


def best_rates(rows: list[dict[str, Any]]) -> dict[tuple[str, float | None], float]:
    """The learning rate with the best accuracy on the held-out images, for each model and epsilon."""
    best: dict[tuple[str, float | None], tuple[float, float]] = {}
    for row in rows:
        if row["part"] == "search":
            key = (row["model"], row["epsilon"])
            best[key] = max(best.get(key, (-1.0, 0.0)), (row["accuracy"], row["rate"]))
    return {key: rate for key, (_, rate) in best.items()}


def grid(preset: Preset, rates: dict[tuple[str, float | None], float], part: str, model: str) -> Iterator[Setting]:
    """All epsilons and seeds of one model on one set, and Opacus beside the subset."""
    size = "full" if part == "full" else "subset"
    steps, batch = preset.steps[size, model], preset.batches[size]
    for seed in preset.seeds:
        for epsilon in EPSILONS:
            yield Setting(part, model, epsilon, None, batch, steps, rates[model, epsilon], CLIP_NORM, seed)
        if part == "subset":
            yield Setting("opacus", model, 3.0, None, batch, steps, rates[model, 3.0], CLIP_NORM, seed)


def settings(preset: Preset, rows: list[dict[str, Any]]) -> Iterator[Setting]:
    """All runs, the longest last. `rows` grows while they are done: each model's search decides its learning rates."""
    yield from search(preset, "mlp")
    rates = best_rates(rows)
    yield from grid(preset, rates, "subset", "mlp")
    yield from grid(preset, rates, "tested", "mlp")
    yield from grid(preset, rates, "full", "mlp")
    steps, batch, rate = preset.steps["subset", "mlp"], preset.batches["subset"], rates["mlp", 3.0]
    for seed in preset.seeds:
        for clip_norm in preset.clip_norms:
            yield Setting("clip", "mlp", 3.0, None, batch, steps, rate * CLIP_NORM / clip_norm, clip_norm, seed)
    for seed in preset.seeds:
        for sigma in preset.sigmas:
            for size in preset.sweep_batches:
                yield Setting("sweep", "mlp", None, sigma, size, steps // 4, rate, CLIP_NORM, seed)
    yield from search(preset, "cnn")
    rates = best_rates(rows)
    yield from grid(preset, rates, "subset", "cnn")
    yield from grid(preset, rates, "full", "cnn")


def number_of_runs(preset: Preset) -> int:
    """How many `settings` yields."""
    searched = len(EPSILONS) * sum(len(rates) for rates in preset.rates.values())
    seeds, levels = len(preset.seeds), len(EPSILONS)
    return searched + seeds * (5 * levels + 2 + len(preset.clip_norms) + len(preset.sigmas) * len(preset.sweep_batches))


def where(device: str = "cpu") -> dict[str, Any]:
    """What the numbers depend on."""
    peer = {"opacus": importlib.metadata.version("opacus")} if importlib.util.find_spec("opacus") else {}
    return machine(device) | peer


def run(name: str, *, into: Path) -> dict[str, Any]:
    """Do what is missing in the file `into` and return its content."""
    preset = PRESETS[name]
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    head = {
        "command": f"python3 -m experiments.dpsgd_fashion --preset {name}",
        "date": today(),
        "machine": where(),
        "delta": DELTA,
        "momentum": MOMENTUM,
        "quantiles": QUANTILES,
        "adjacency": "add/remove",
        "sampling": "Poisson",
        "chosen": "learning rates by part 'search', on the private images; epsilon does not cover that choice",
    }
    before = read(into)
    rows: list[dict[str, Any]] = before["rows"] if before.get("command") == head["command"] else []
    done = {setting_of(Setting, row).key() for row in rows}
    works: dict[str, Task] = {}

    def do(setting: Setting, bar: Any) -> None:
        if setting.key() not in done and (setting.part != "opacus" or importlib.util.find_spec("opacus")):
            part = setting.part if setting.part in ("search", "full", "tested") else "subset"
            if part not in works:
                works[part] = task(part, preset)
            found = (opacus if setting.part == "opacus" else ours)(setting, works[part])
            rows.append({**setting._asdict(), "n": len(works[part].x), **found})
            write(into, {**head, "rows": rows})
        bar.set_postfix_str(f"{setting.part} {setting.model}", refresh=False)
        bar.update()

    with tqdm(total=number_of_runs(preset), unit="run", disable=None) as bar:
        for setting in settings(preset, rows):
            do(setting, bar)
    return {**head, "rows": rows}


# ---- the tables ----

CHOICE = [name for name in Setting._fields if name not in ("part", "seed")]


def groups(rows: list[dict[str, Any]], part: str) -> list[list[dict[str, Any]]]:
    """The rows of a part, those that differ in the seed alone together, in the order of the file."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if row["part"] == part:
            found.setdefault(tuple(row[name] for name in CHOICE), []).append(row)
    return list(found.values())


def percent(rows: list[dict[str, Any]]) -> str:
    """Mean and standard deviation of the accuracies, in percent."""
    found = [100.0 * row["accuracy"] for row in rows]
    return f"{np.mean(found):.2f}" + (f" ± {np.std(found, ddof=1):.2f}" if len(found) > 1 else "")


def level(epsilon: float | None) -> str:
    return "not private" if epsilon is None else f"{epsilon:g}"


def column(epsilon: float | None) -> str:
    return level(epsilon) if epsilon is None else f"ε = {level(epsilon)}"


def levels(rows: list[dict[str, Any]]) -> list[float | None]:
    """The epsilons of these rows, the smallest first, training without privacy last."""
    return sorted({row["epsilon"] for row in rows}, key=lambda one: float("inf") if one is None else one)


def span(seeds: list[int]) -> str:
    """Seeds in short: 0–4 where none between is missing."""
    whole = len(seeds) > 1 and seeds == list(range(seeds[0], seeds[-1] + 1))
    return f"{seeds[0]}–{seeds[-1]}" if whole else ", ".join(map(str, seeds))


def chosen_cells(rows: list[dict[str, Any]]) -> list[str]:
    """Epsilon, noise and all that was set by hand or by the search, of rows that differ in the seed."""
    one = rows[0]
    private = one["noise"] is not None
    return [
        level(one["epsilon"]),
        f"{one['noise']:.4f}" if private else "none",
        f"{one['batch'] / one['n']:.4g}",
        str(one["steps"]),
        f"{one['clip_norm']:g}" if private else "none",
        f"{one['rate']:g}",
        span([row["seed"] for row in rows]),
    ]


CHOSEN_HEAD = ["ε", "σ", "q", "Steps", "Clip norm", "Learning rate", "Seeds"]
SET_NAMES = {"subset": "shipped", "full": "whole"}
TESTED = {"subset": "shipped", "tested": "shipped, tested as the whole", "full": "whole"}


def settings_table(content: dict[str, Any]) -> Table:
    """What was run: everything that decides the accuracies of the second table."""
    lines = [
        [title, f"{rows[0]['n']:,}", rows[0]["model"].upper(), *chosen_cells(rows)]
        for part, title in SET_NAMES.items()
        for rows in groups(content["rows"], part)
    ]
    note = (
        f"Neighbours: {content['adjacency']}; {content['sampling']} batches, each example with probability q; "
        f"δ = {content['delta']:g}; momentum {content['momentum']:g}. σ is calibrated so that ε after all steps, by "
        "the tight accountant, is at most that of the row. Each ε is that of one run: whoever publishes several models "
        "pays for each. Clip norm, batches and steps were set by hand; the learning rates are those of the last "
        "tables, found by trials on the private images. No ε covers that choice."
    )
    return "What was run", note, ["Set", "Images", "Network", *CHOSEN_HEAD], lines


def accuracy_table(content: dict[str, Any]) -> Table:
    """The accuracies by epsilon, beside training without privacy."""
    shown = [row for row in content["rows"] if row["part"] in TESTED]
    columns = levels(shown)
    lines: dict[tuple[str, str, int], dict[float | None, str]] = {}
    for part in TESTED:
        for rows in groups(shown, part):
            one = rows[0]
            lines.setdefault((part, one["model"], one["steps"]), {})[one["epsilon"]] = percent(rows)
    few = min(steps for _, _, steps in lines)
    shortest = [(part, model) for part, model, steps in lines if steps == few and part in SET_NAMES]
    short = sorted(f"{model.upper()} on the {SET_NAMES[part]} set" for part, model in shortest)
    note = (
        "Accuracy on the test images after the last step, in %: mean ± standard deviation over the seeds, which draw "
        f"first weights, batches and noise. Fewest steps, {few}: {', '.join(short)}. Compare along a row: "
        "rows differ in steps and learning rates. And compare the whole set with the shipped one where it is tested as "
        "the whole, on all 10,000 test images: the 2,000 shipped ones are easier."
    )
    head = ["Set", "Network", "Steps", *map(column, columns)]
    cells = [
        [TESTED[part], model.upper(), str(steps), *(found.get(one, "") for one in columns)]
        for (part, model, steps), found in lines.items()
    ]
    return "Accuracy", note, head, cells


def opacus_table(content: dict[str, Any]) -> Table:
    """Opacus and dpml at identical settings."""
    own = {tuple(rows[0][name] for name in CHOICE): rows for rows in groups(content["rows"], "subset")}
    columns = [["Setting", *CHOSEN_HEAD, "dpml, %", "Opacus, %", "Difference"]]
    for theirs in groups(content["rows"], "opacus"):
        mine = own[tuple(theirs[0][name] for name in CHOICE)]
        pair = [np.array([100.0 * row["accuracy"] for row in rows]) for rows in (mine, theirs)]
        apart = f"{pair[1].mean() - pair[0].mean():+.2f}"
        if min(map(len, pair)) > 1:
            apart += f" ± {np.sqrt(sum(one.var(ddof=1) / len(one) for one in pair)):.2f}"
        columns.append([theirs[0]["model"].upper(), *chosen_cells(theirs), percent(mine), percent(theirs), apart])
    note = (
        "The shipped set. Model, first weights of each seed, Poisson sampling, σ, clip norm, optimizer and steps are "
        "the same; batches and noise are drawn anew. The difference is Opacus less dpml, in points, ± its standard "
        "error."
    )
    head, *lines = map(list, zip(*columns, strict=True))
    return "Opacus at the same settings", note, head, lines


def noise_table(content: dict[str, Any]) -> Table:
    """Noise multiplier and batch size against epsilon and accuracy."""
    cells: dict[float, dict[int, str]] = {}
    found = groups(content["rows"], "sweep")
    for rows in found:
        cells.setdefault(rows[0]["sigma"], {})[rows[0]["batch"]] = f"{percent(rows)} (ε {rows[0]['spent']:.3g})"
    sizes = sorted({size for row in cells.values() for size in row})
    one = found[0][0]
    note = (
        f"{one['model'].upper()} on the shipped set, {one['steps']} steps, clip norm {one['clip_norm']:g}, "
        f"learning rate {one['rate']:g}, {max(map(len, found))} seeds: accuracy in %, and ε in brackets. Here σ is "
        "given, and ε is what it costs."
    )
    head = ["σ", *(f"Batches of {size}" for size in sizes)]
    return (
        "Noise and batch size",
        note,
        head,
        [[f"{s:g}", *(row.get(b, "") for b in sizes)] for s, row in cells.items()],
    )


def clip_table(content: dict[str, Any]) -> Table:
    """The clip norm, at a constant product with the learning rate."""
    found = groups(content["rows"], "clip")
    lines = []
    for rows in found:
        clipped = 100.0 * np.mean([row["clipped"][-1] for row in rows])
        lines.append([f"{rows[0]['clip_norm']:g}", f"{rows[0]['rate']:.4g}", f"{clipped:.1f}", percent(rows)])
    one = found[0][0]
    note = (
        f"{one['model'].upper()} on the shipped set, ε = {level(one['epsilon'])}, {one['steps']} steps, "
        f"{max(map(len, found))} seeds; learning rate times clip norm is the same in all rows. The share clipped, over "
        "the last tenth of the steps, is computed from the private images without noise: no ε covers it."
    )
    return "Clip norm", note, ["Clip norm", "Learning rate", "Clipped, %", "Accuracy, %"], lines


def search_table(content: dict[str, Any], model: str) -> Table:
    """The learning rates that were tried, and which one was taken."""
    rows = [row for row in content["rows"] if row["part"] == "search" and row["model"] == model]
    best, tried = best_rates(rows), sorted({row["rate"] for row in rows})
    accuracies = {
        (row["epsilon"], row["rate"]): "diverged" if "diverged" in row else f"{100.0 * row['accuracy']:.2f}"
        for row in rows
    }
    lines = [
        [level(one), *(accuracies.get((one, rate), "") + " (taken)" * (best[model, one] == rate) for rate in tried)]
        for one in levels(rows)
    ]
    ends = [column(one) for one in levels(rows) if best[model, one] in (tried[0], tried[-1])]
    note = (
        f"Accuracy in % on {rows[0]['n'] // 4:,} training images held out, after {rows[0]['steps']} steps on the other "
        f"{rows[0]['n']:,} with σ for these; seed {rows[0]['seed']} alone. The rates taken serve the whole set as well."
    )
    if ends:
        note += f" Taken from an end of the grid, so that a better one may lie outside: {', '.join(ends)}."
    return f"Learning rates tried, {model.upper()}", note, ["ε", *(f"{rate:g}" for rate in tried)], lines


def tables(content: dict[str, Any]) -> list[Table]:
    """Title, note, head and rows of each table of the page, of the parts that are there."""
    parts = {row["part"] for row in content["rows"]}
    made = [settings_table(content), accuracy_table(content)] if parts & set(SET_NAMES) else []
    for part, make in (("opacus", opacus_table), ("sweep", noise_table), ("clip", clip_table)):
        made += [make(content)] if part in parts else []
    searched = dict.fromkeys(row["model"] for row in content["rows"] if row["part"] == "search")
    return [*made, *(search_table(content, model) for model in searched)]


def main() -> int:
    parser = argparse.ArgumentParser(description="Train privately on Fashion-MNIST and record the accuracies.")
    parser.add_argument("--preset", choices=sorted(PRESETS), default="full")
    parser.add_argument("--into", type=Path, help="the file for the results (default: dpml/datasets/recorded/...)")
    given = parser.parse_args()
    into = given.into or (
        RESULTS if given.preset == "full" else RESULTS.with_name(f"dpsgd_fashion_{given.preset}.json")
    )
    show(tables(run(given.preset, into=into)))
    return 0


if __name__ == "__main__":
    any_console()
    sys.exit(main())
