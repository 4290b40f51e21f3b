"""Byzantine workers and noise for privacy together: Figures 2 to 5 of the Byzantine paper, its rules in two versions.

    python3 -m experiments.byzantine_figures --preset cpu     # the shipped images, one seed, 60 steps; 20 minutes
    bash experiments/gpu.sh byzantine                         # full Fashion-MNIST, the paper's five seeds, on a GPU
    python3 -m experiments.byzantine_figures --preset tiny    # some seconds; for the tests

Rows: attack x number of liars x epsilon x rule x batch size x seed, with the largest and the last test accuracy. The 15
workers all hold the same data, each image and its mirror image, as in the paper; network 784-100-10, learning rate 0.5,
l2 factor 1e-4, clip norm 2, momentum 0.99 at the workers. The paper does not say whether its momentum is damped: here
it is not, which fits the speed of its curves. Nothing here was tuned on these images.

- ``epsilon`` is the paper's: for one step of one worker at delta 1e-5; null is clipping without noise. The
  noise is that of Theorem 1 as printed; the exact delta of a step, and what one worker and all that the server sees
  have spent in the end, stand beside (`spends`).
- ``krum`` and ``bulyan`` are the rules as printed; ``multi_krum`` and ``bulyan_multi_krum`` are those of the authors'
  public code.
- ``little`` sends the average of the honest vectors plus or minus their standard deviation, ``empire`` a tenth of the
  average with the opposite sign, ``none`` is training without liars.
- ``sampled`` and ``submitted`` are VN ratios (Figure 5), in some steps of runs with MDA: the first of the honest
  averages before noise and momentum, the second of what the server gets.

Figure 2: accuracy over batch size, at (f = 3, epsilon = 0.2) and (f = 6, epsilon = 0.05). Figure 3: the same without
noise. Figure 4: accuracy over epsilon at one batch size. The file is written after each row, so that an interrupted run
goes on where it stopped.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpml import data
from dpml.command_line import any_console
from dpml.data import records
from experiments import recording
from experiments.printing import Table, show
from experiments.processes import options, require

if TYPE_CHECKING:
    import torch

    from dpml.training.mechanism import Mechanism

RESULTS = records.FOLDER / "byzantine_figures.json"
DELTA, TOTAL_DELTA = 1e-5, 1.2e-4
"""The paper's delta of a step, and that of a whole run."""
CLIP_NORM, RATE, MOMENTUM, DECAY, HIDDEN = 2.0, 0.5, 0.99, 1e-4, 100
ALL_RULES = ("average", "mda", "median", "krum", "multi_krum", "bulyan", "bulyan_multi_krum")
NO_BULYAN = ALL_RULES[:5]
SOME_RULES = ("mda", "median", "multi_krum", "bulyan_multi_krum")
ATTACKS = ("little, minus", "little, plus", "empire")
MAIN_ATTACKS = ("little, minus", "empire")
CHOSEN = "settings are the paper's, the number of steps is ours; nothing was chosen on these images"


class Block(NamedTuple):
    """Runs for every combination of these."""

    attacks: tuple[str, ...]
    n_byzantine: int
    epsilons: tuple[float | None, ...]
    rules: tuple[str, ...]
    sizes: tuple[int, ...]


class Preset(NamedTuple):
    """What a preset runs: blocks of combinations, seeds, steps, workers; images at most, or None for the full set."""

    blocks: tuple[Block, ...]
    seeds: tuple[int, ...]
    steps: int
    n: int
    images: int | None


def everything(sizes: tuple[int, ...]) -> tuple[Block, ...]:
    """The whole grid of the paper, both signs of little, and both versions of its rules."""
    epsilons = (0.2, 0.1, 0.05, None)
    return (
        Block(("none",), 0, epsilons, ("average",), sizes),
        Block(ATTACKS, 3, epsilons, ALL_RULES, sizes),
        Block(ATTACKS, 6, epsilons, NO_BULYAN, sizes),
    )


PRESETS = {
    "cpu": Preset(
        (
            Block(("none",), 0, (0.2,), ("average",), (50, 300, 1000)),
            Block(ATTACKS, 3, (0.2,), ALL_RULES, (300,)),
            Block(MAIN_ATTACKS, 3, (0.2,), ALL_RULES, (50, 1000)),
            Block(MAIN_ATTACKS, 6, (0.05,), NO_BULYAN, (50, 1000)),
            Block(("none",), 0, (0.05, None), ("average",), (1000,)),
            Block(MAIN_ATTACKS, 3, (0.05,), SOME_RULES, (1000,)),
            Block(MAIN_ATTACKS, 3, (None,), SOME_RULES, (50, 1000)),
        ),
        (1,),
        60,
        15,
        10_000,
    ),
    "full": Preset(everything((25, 50, 150, 300, 500, 750, 1000, 1250, 1500)), (1, 2, 3, 4, 5), 300, 15, None),
    "tiny": Preset(
        (
            Block(("none",), 0, (0.5,), ("average",), (20,)),
            Block(("little, minus", "empire"), 1, (0.5,), ("mda", "bulyan"), (20,)),
            Block(("little, plus",), 2, (None,), ("median",), (20,)),
        ),
        (1,),
        4,
        7,
        200,
    ),
}


class Setting(NamedTuple):
    """One run: everything that decides its result."""

    attack: str
    n_byzantine: int
    epsilon: float | None
    rule: str
    m: int
    seed: int


class Work(NamedTuple):
    """The images as tensors, each training image with its mirror image."""

    x: torch.Tensor
    y: torch.Tensor
    test: tuple[torch.Tensor, torch.Tensor]


class Spend(NamedTuple):
    """What an epsilon of a step and a batch size come to: noise, the exact delta of a step, and epsilons in the end."""

    epsilon: float
    m: int
    n_honest: int
    s: float
    sigma: float
    delta: float
    one_worker: float
    server: float


def settings(preset: Preset) -> Iterator[Setting]:
    """All runs, one seed after the other."""
    for seed in preset.seeds:
        for attacks, n_byzantine, epsilons, rules, sizes in preset.blocks:
            for m in sizes:
                for epsilon in epsilons:
                    for attack in attacks:
                        for rule in rules:
                            yield Setting(attack, n_byzantine, epsilon, rule, m, seed)


def work(preset: Preset, device: str) -> Work:
    """The images of a preset on a device."""
    import torch

    from dpml.training import models

    whole = data.fashion_mnist() if preset.images is None else data.fashion_mnist_subset()
    x, y = models.to_tensors(whole.train_images[: preset.images]), models.to_labels(whole.train_labels[: preset.images])
    x, y = torch.cat([x, x.flip(-1)]).to(device), torch.cat([y, y]).to(device)
    test = models.to_tensors(whole.test_images).to(device), models.to_labels(whole.test_labels).to(device)
    return Work(x, y, test)


@functools.cache
def spend(epsilon: float, m: int, n_honest: int, number: int, steps: int) -> Spend:
    """What the paper's noise for this epsilon costs, on so many records."""
    from dpml.byzantine import theory

    given: dict[str, Any] = {"clip_norm": CLIP_NORM, "q": m / number, "m": m, "epsilon": epsilon}
    s = theory.theorem_1_noise(**given, delta=DELTA)
    sigma = s * m / CLIP_NORM
    whole: dict[str, Any] = {"sigma": sigma, "q": m / number, "steps": steps, "delta": TOTAL_DELTA}
    own, all_seen = theory.worker_guarantee(**whole), theory.server_guarantee(n_honest=n_honest, **whole)
    numbers = s, sigma, theory.one_step_delta(s=s, **given), own.epsilon, all_seen.epsilon
    return Spend(epsilon, m, n_honest, *(float(f"{number:.6g}") for number in numbers))


def without_accounting(mechanism: Mechanism) -> Mechanism:
    """The mechanism with an accountant that claims nothing: what is spent is computed once, by `spend`."""
    from dpml.training import sgd

    return replace(mechanism, accountant=sgd().accountant)


def train(setting: Setting, preset: Preset, given: Work) -> dict[str, Any]:
    """One run, and what came out."""
    import torch
    from torch.nn import functional

    from dpml.byzantine import aggregation, attacks
    from dpml.byzantine.simulation import simulate
    from dpml.byzantine.theory import theorem_1_noise, vn_ratio
    from dpml.training import dp_sgd, models
    from dpml.training.dpsgd import clip
    from dpml.training.per_example import PerExample
    from dpml.training.sampling import FixedSize

    def losses(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(outputs, labels, reduction="none")

    x, y, test = given
    chosen: dict[str, Any] = {
        "none": None,
        "little, minus": functools.partial(attacks.little, z=-1.0),
        "little, plus": attacks.little,
        "empire": attacks.empire,
    }
    n_honest, every = preset.n - setting.n_byzantine, max(1, preset.steps // 4)
    model = models.mlp(generator=torch.Generator().manual_seed(setting.seed), hidden=HIDDEN).to(x.device)
    noise: dict[str, Any] = {"clip_norm": CLIP_NORM, "q": setting.m / len(x), "m": setting.m, "delta": DELTA}
    s = 0.0 if setting.epsilon is None else theorem_1_noise(**noise, epsilon=setting.epsilon)
    mechanism = without_accounting(dp_sgd(sigma=s * setting.m / CLIP_NORM, clip_norm=CLIP_NORM))
    ratios: dict[str, list[float]] = {"sampled": [], "submitted": []}
    apart, calls, aggregate = (
        torch.Generator().manual_seed(1000 + setting.seed),
        [-1],
        getattr(aggregation, setting.rule),
    )

    def rule(vectors: torch.Tensor, *, n_byzantine: int) -> torch.Tensor:
        calls[0] += 1  # 0 in the call that tries the rule out
        if setting.rule == "mda" and calls[0] > 0 and calls[0] % every == 0:
            sampled = [gradient(apart) for _ in range(n_honest)]
            ratios["sampled"].append(round(vn_ratio(torch.stack(sampled)), 4))
            ratios["submitted"].append(round(vn_ratio(vectors[:n_honest]), 4))
        made: torch.Tensor = aggregate(vectors, n_byzantine=n_byzantine)
        return made

    def gradient(generator: torch.Generator) -> torch.Tensor:
        """The average of a fresh batch of clipped gradients at the present parameters, without noise."""
        ids = FixedSize(m=setting.m).draw(len(x), generator=generator).to(x.device)
        found = PerExample(model, losses, x[ids], y[ids])
        sums = found.sum(clip(found.norms, clip_norm=CLIP_NORM)).values()
        return torch.cat([values.flatten() for values in sums]) / setting.m

    started = time.process_time()
    run = simulate(
        model,
        losses,
        x,
        y,
        mechanism=mechanism,
        sampling=FixedSize(m=setting.m),
        n=preset.n,
        n_byzantine=setting.n_byzantine,
        rule=rule,
        attack=chosen[setting.attack],
        momentum=MOMENTUM,
        steps=preset.steps,
        optimizer=torch.optim.SGD(model.parameters(), lr=RATE, weight_decay=DECAY),
        delta=DELTA,
        generator=torch.Generator().manual_seed(setting.seed),
        trace_every=every,
        test=test,
    )
    return {
        "accuracy": round(float(np.max(run.trace.accuracy)), 5),
        "last_accuracy": round(float(run.trace.accuracy[-1]), 5),
        **(ratios if setting.rule == "mda" else {}),
        "seconds": round(time.process_time() - started, 2),
    }


command = functools.partial(recording.command, "byzantine_figures", gpu={"full": "byzantine"})


class Job(NamedTuple):
    """A run for one of the processes."""

    setting: Setting
    preset: str
    device: str


@functools.cache
def _kept_work(preset: str, device: str) -> Work:
    return work(PRESETS[preset], device)


def _do(job: Job) -> dict[str, Any]:
    """The row of a job."""
    from dpml.training.trace import Diverged

    try:
        found = train(job.setting, PRESETS[job.preset], _kept_work(job.preset, job.device))
    except Diverged as error:
        found = {"accuracy": None, "last_accuracy": None, "diverged": error.step, "seconds": 0.0}
    return {**job.setting._asdict(), **found}


def run(
    name: str, *, into: Path, device: str = "cpu", seconds: float | None = None, processes: int = 1
) -> dict[str, Any]:
    """Do what is missing in part `name` of the file `into`, and return that part.

    After so many seconds no further row is begun.
    """
    require(device)
    preset = PRESETS[name]
    fixed = {"clip_norm": CLIP_NORM, "rate": RATE, "momentum": MOMENTUM, "decay": DECAY, "hidden": HIDDEN}
    chosen = {**preset._asdict(), **fixed, "delta": DELTA, "total_delta": TOTAL_DELTA}
    number = 2 * (preset.images or 60_000)
    wanted = dict.fromkeys((one.epsilon, one.m, preset.n - one.n_byzantine) for one in settings(preset))
    spends = [spend(epsilon, *key, number, preset.steps)._asdict() for epsilon, *key in wanted if epsilon is not None]
    head = recording.head(command(name, device), device, chosen)
    head |= {"adjacency": "replace-one", "sampling": "without replacement", "chosen": CHOSEN}
    head |= {"records": number, "spends": spends}
    given: dict[str, Any] = {"settings": settings(preset), "job": lambda setting: Job(setting, name, device), "do": _do}
    return recording.go_on(into, name, head=head, **given, seconds=seconds, processes=processes)


def tables(part: dict[str, Any]) -> list[Table]:
    """Title, note, head and rows of each table of a part: what is spent, accuracies, VN ratios."""
    shown = []
    for one in part["spends"]:
        numbers = (f"{one[name]:.3g}" for name in ("epsilon", "s", "sigma", "delta", "one_worker", "server"))
        shown.append([str(one["m"]), str(one["n_honest"]), *numbers])
    steps, total = part["settings"]["steps"], part["settings"]["total_delta"]
    note = (
        f"Noise of Theorem 1 as printed for ε of a step at δ = {part['settings']['delta']:g}; the exact δ of a step; "
        f"ε after {steps} steps at δ = {total:g}, replace-one, for one worker and for all that the server sees."
    )
    head = ["Batch", "Honest workers", "ε of a step", "s", "σ", "Exact δ of a step", "ε, one worker", "ε, server"]
    found: list[Table] = [("What is spent", note, head, shown)]
    for (f, epsilon), rows in data.grouped(part["rows"], "n_byzantine", "epsilon").items():
        sizes = sorted({row["m"] for row in rows})
        lines = []
        for (attack, rule), some in data.grouped(rows, "attack", "rule").items():
            cells = [_cell([row["accuracy"] for row in some if row["m"] == m]) for m in sizes]
            lines.append([attack, rule.replace("_", "-"), *cells])
        title = f"{f} of {part['settings']['n']} workers lie, " + (
            "no noise" if epsilon is None else f"ε = {epsilon:g}"
        )
        note = f"Largest accuracy on test images in % of four points in {steps} steps."
        found.append((title, note, ["Attack", "Rule", *(f"b = {m}" for m in sizes)], lines))
    ratios = [row for row in part["rows"] if row.get("submitted")]
    lines = []
    for row in ratios:
        which = "none" if row["epsilon"] is None else f"{row['epsilon']:g}"
        medians = (f"{np.median(row[name]):.3g}" for name in ("sampled", "submitted"))
        lines.append([row["attack"], str(row["n_byzantine"]), which, str(row["m"]), str(row["seed"]), *medians])
    note = "Standard deviation over norm of the mean, of the honest workers of runs with MDA: medians over four steps."
    head = ["Attack", "Liars", "ε", "Batch", "Seed", "Sampled", "Submitted"]
    return [*found, ("VN ratios", note, head, lines)] if lines else found


def _cell(accuracies: list[float | None]) -> str:
    """Mean and spread in percent; how many of them diverged."""
    good = [100.0 * one for one in accuracies if one is not None]
    spread = f" ± {np.std(good, ddof=1):.1f}" if len(good) > 1 else ""
    lost = f" ({len(accuracies) - len(good)} diverged)" if len(good) < len(accuracies) else ""
    return (f"{np.mean(good):.1f}{spread}" if good else "") + lost


def main() -> int:
    given = options("Train with Byzantine workers and noise, and record the accuracies.", presets=PRESETS, into=RESULTS)
    show(tables(run(**given)))
    return 0


if __name__ == "__main__":
    any_console()
    sys.exit(main())
