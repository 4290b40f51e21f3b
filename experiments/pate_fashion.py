"""PATE on Fashion-MNIST: five ways to answer, 25 to 250 teachers, epsilon 1, 3 and 8, five seeds.

    python3 -m experiments.pate_fashion --preset subset     # 8,000 private and 2,000 public images, shipped
    python3 -m experiments.pate_fashion --preset full       # 55,000 private and 5,000 public images
    python3 -m experiments.pate_fashion --preset tiny       # some seconds; for the tests

The training images are split at random into private records and public images without labels, anew for each seed. The
test images are used once, for the accuracies of the report.

Every row spends the whole budget (epsilon, delta) that stands in it, for any votes, and the noise follows from the
number of questions; for Laplace and Gaussian votes by a tight account of the noisy counts. Neighbours: one vote moves
on each question, which is so for one replaced record.

How the numbers of questions were chosen. A rehearsal on a split of its own (seed 100) tries the numbers in `NUMBERS`
for each mechanism, number of teachers and epsilon; the one whose student was most accurate on the true labels of the
public images of that split is used for all five seeds. Test images play no part. The choice used labels, and epsilon
does not cover it. The rest (networks, learning rates, steps, the threshold of 60 % of the votes, 30 % of the budget for
its test) was fixed beforehand, by a few trials on another split.

`epsilon_data_dependent` is what these votes cost, or epsilon where that is smaller. It is computed from the private
votes, so it is private information itself; it is shown because these data are public. Rows are written one block at a
time, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from dpml import data
from dpml.accounting import composition
from dpml.command_line import any_console
from dpml.data import records
from dpml.mechanisms import gaussian_sigma
from dpml.pate import data_dependent, laplace_votes, sparse_vector, stability, student, voting
from dpml.training import ensemble
from dpml.training.models import to_labels, to_tensors
from experiments.recording import machine, plain, read, today, write

RESULTS = records.FOLDER / "pate_fashion.json"
DELTA = 1e-5
REHEARSAL = 100
THRESHOLD, TEST_SHARE, HIDDEN = 0.6, 0.3, 50
LAPLACE_ACCOUNT = "two Laplace losses for each question"  # rows of another account are not mixed with these
Votes = NDArray[np.int64]


class Preset(NamedTuple):
    """Sizes of the split, numbers of teachers, seeds, epsilons, and the least steps of a teacher and a student's."""

    private: int
    public: int
    teachers: tuple[int, ...]
    seeds: tuple[int, ...]
    epsilons: tuple[float, ...]
    teacher_steps: int
    student_steps: int


PRESETS = {
    "subset": Preset(8_000, 2_000, (25, 50, 100, 250), (0, 1, 2, 3, 4), (1.0, 3.0, 8.0), 60, 200),
    "full": Preset(55_000, 5_000, (25, 50, 100, 250), (0, 1, 2, 3, 4), (1.0, 3.0, 8.0), 60, 200),
    "tiny": Preset(300, 100, (5, 20), (0, 1), (8.0,), 10, 10),
}
NUMBERS = {
    "noisy argmax": (10, 20, 50, 100, 200, 500, 1000, 2000),
    "GNMax": (10, 20, 50, 100, 200, 500, 1000, 2000),
    "confident GNMax": (10, 20, 50, 100, 200, 500, 1000, 2000),
    "M_stab": (1, 3, 10, 30, 100),
    "M_svec": (1, 3, 10, 30, 100),
}
"""What the rehearsal tries: questions; for confident GNMax the limit on answers, and twice as many may be asked; for
M_svec the number of failures after which it ends, all public images being asked."""


class Answers(NamedTuple):
    """Labels for all public images, -1 where there is none; how many were asked; the noise; what these votes cost."""

    labels: NDArray[np.int64]
    asked: int
    noise: dict[str, float]
    data_dependent: Callable[[], float | None]


def largest(good: Callable[[float], bool], low: float, high: float) -> float:
    """The largest number, to 0.01 %, at which a property that fails from some point on still holds."""
    while high > 1.0001 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if good(middle) else (low, middle)
    return low


def per_query(epsilon: float, *, queries: int, delta: float) -> float:
    """The largest epsilon of one query such that so many (epsilon, delta)-private ones are within the budget."""

    def good(one: float) -> bool:
        total = composition.optimal(epsilon=one, delta=delta, k=queries, total_delta=DELTA)
        return total.epsilon <= epsilon

    return largest(good, epsilon / queries * 0.999, epsilon * 2)


def padded(labels: Any, votes: Votes) -> NDArray[np.int64]:
    return np.concatenate([labels, np.full(len(votes) - len(labels), voting.UNANSWERED)]).astype(np.int64)


@cache
def laplace_scale(epsilon: float, queries: int) -> float:
    """The least Laplace scale, to 0.01 %, with which so many noisy argmaxes are within the budget for any votes."""

    def good(one: float) -> bool:  # one: the epsilon of a single label
        scale = laplace_votes.laplace_vote_scale(epsilon=one)
        return student.laplace_student(queries=queries, scale=scale, delta=DELTA).epsilon <= epsilon

    return laplace_votes.laplace_vote_scale(epsilon=largest(good, epsilon / queries * 0.999, epsilon * 2))


def noisy_argmax(votes: Votes, *, number: int, epsilon: float, rng: np.random.Generator) -> Answers:
    scale = laplace_scale(epsilon, number)
    asked = votes[:number]
    labels = voting.noisy_argmax(asked, scale=scale, rng=rng)
    return Answers(
        padded(labels, votes),
        number,
        {"scale": scale},
        lambda: data_dependent.laplace_student_data_dependent(asked, scale=scale, delta=DELTA).epsilon,
    )


def gnmax(votes: Votes, *, number: int, epsilon: float, rng: np.random.Generator) -> Answers:
    sigma = math.sqrt(2 * number) * gaussian_sigma(epsilon=epsilon, delta=DELTA)
    asked = votes[:number]
    return Answers(
        padded(voting.gnmax(asked, sigma=sigma, rng=rng), votes),
        number,
        {"sigma": sigma},
        lambda: data_dependent.gnmax_student_data_dependent(asked, sigma=sigma, delta=DELTA).epsilon,
    )


def confident(votes: Votes, *, number: int, epsilon: float, rng: np.random.Generator) -> Answers:
    limit = min(2 * number, len(votes))
    budget = 1 / gaussian_sigma(epsilon=epsilon, delta=DELTA) ** 2
    noise = {
        "threshold": THRESHOLD * float(votes[0].sum()),
        "sigma_threshold": math.sqrt(limit / (TEST_SHARE * budget)),
        "sigma": math.sqrt(2 * number / ((1 - TEST_SHARE) * budget)),
    }
    answers = np.asarray(voting.confident_gnmax(votes[:limit], rng=rng, **noise))
    given = np.flatnonzero(answers != voting.UNANSWERED)
    asked = limit if len(given) < number else int(given[number - 1]) + 1  # where the aggregator stops
    return Answers(
        padded(answers[:asked], votes),
        asked,
        noise,
        lambda: data_dependent.confident_student_data_dependent(votes[:asked], delta=DELTA, **noise).epsilon,
    )


def m_stab(votes: Votes, *, number: int, epsilon: float, rng: np.random.Generator) -> Answers:
    delta = DELTA / number  # each query is (epsilon, delta/2): half of the budget's delta is for composition
    one = per_query(epsilon, queries=number, delta=delta / 2)
    labels = stability.m_stab(votes[:number], epsilon=one, delta=delta, rng=rng)
    return Answers(padded(labels, votes), number, {"epsilon": one, "delta": delta}, lambda: None)


def m_svec(votes: Votes, *, number: int, epsilon: float, rng: np.random.Generator) -> Answers:
    distances = stability.distance_to_instability(votes)
    winners = votes.argmax(axis=1)
    released = sparse_vector.m_svec(
        winners.tolist(), distances=distances, cutoff=number, epsilon=epsilon, delta=DELTA, rng=rng
    )[0]
    labels = [voting.UNANSWERED if label is None else label for label in released]
    return Answers(padded(labels, votes), len(labels), {"cutoff": number}, lambda: None)


MECHANISMS: dict[str, Callable[..., Answers]] = {
    "noisy argmax": noisy_argmax,
    "GNMax": gnmax,
    "confident GNMax": confident,
    "M_stab": m_stab,
    "M_svec": m_svec,
}


class Split(NamedTuple):
    """Private records, public images (their true labels serve rehearsal, ceiling and report), test images."""

    x: torch.Tensor
    y: torch.Tensor
    public_x: torch.Tensor
    public_y: torch.Tensor
    test_x: torch.Tensor
    test_y: torch.Tensor


def images(name: str, folder: str | None) -> tuple[torch.Tensor, ...]:
    found = data.fashion_mnist(folder=folder) if name == "full" else data.fashion_mnist_subset()
    return (
        to_tensors(found.train_images),
        to_labels(found.train_labels),
        to_tensors(found.test_images),
        to_labels(found.test_labels),
    )


def split(all_images: tuple[torch.Tensor, ...], preset: Preset, *, seed: int) -> Split:
    x, y, test_x, test_y = all_images
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1_000 + seed))
    private, public = order[: preset.private], order[preset.private : preset.private + preset.public]
    return Split(x[private], y[private], x[public], y[public], test_x, test_y)


def for_teachers(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.03, momentum=0.9)


def for_students(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, weight_decay=0.01)  # labels are wrong in part


def teach(work: Split, preset: Preset, *, teachers: int, seed: int) -> ensemble.Teachers:
    steps = max(preset.teacher_steps, 10 * preset.private // (32 * teachers))
    generator = torch.Generator().manual_seed(2_000_000 + 1_000 * teachers + seed)
    return ensemble.train_teachers(
        work.x,
        work.y,
        teachers=teachers,
        steps=steps,
        batch=32,
        optimizer=for_teachers,
        generator=generator,
        hidden=HIDDEN,
    )


def study(work: Split, preset: Preset, labels: NDArray[np.int64], x: torch.Tensor, y: torch.Tensor, seed: int) -> Any:
    """Accuracy on (x, y) of a student for each row of labels; a student without a label guesses one class: 0.1."""
    learning = (labels >= 0).any(axis=1)
    accuracy = np.full(len(labels), 0.1)
    if learning.any():
        students = ensemble.train_students(
            work.public_x,
            labels=labels[learning],
            steps=preset.student_steps,
            batch=64,
            optimizer=for_students,
            generator=torch.Generator().manual_seed(3_000_000 + seed),
            hidden=HIDDEN,
        )
        accuracy[learning] = ensemble.accuracy(students, x=x, y=y)
    return accuracy


def rehearse(work: Split, preset: Preset, *, teachers: int) -> dict[str, Any]:
    """The number of questions for each mechanism and epsilon, and what every number gave."""
    votes = ensemble.vote_counts(teach(work, preset, teachers=teachers, seed=REHEARSAL).stack, x=work.public_x)
    rng = np.random.default_rng([REHEARSAL, teachers])
    tried = [
        (name, epsilon, number)
        for name in MECHANISMS
        for epsilon in preset.epsilons
        for number in NUMBERS[name]
        if number <= preset.public
    ]
    labels = [MECHANISMS[name](votes, number=n, epsilon=epsilon, rng=rng).labels for name, epsilon, n in tried]
    accuracy = study(work, preset, np.stack(labels), work.public_x, work.public_y, REHEARSAL)
    table: dict[str, Any] = {}
    for (name, epsilon, number), value in zip(tried, accuracy.tolist(), strict=True):
        table.setdefault(name, {}).setdefault(f"{epsilon:g}", {})[str(number)] = round(value, 4)
    return table


def block(work: Split, preset: Preset, *, teachers: int, seed: int, table: dict[str, Any]) -> list[dict[str, Any]]:
    """All rows of one seed and one number of teachers."""
    started = time.process_time()
    network = teach(work, preset, teachers=teachers, seed=seed)
    votes = ensemble.vote_counts(network.stack, x=work.public_x)
    truth = work.public_y.numpy()
    common = {
        "teachers": teachers,
        "seed": seed,
        "teacher_accuracy": float(ensemble.accuracy(network.stack, x=work.test_x, y=work.test_y).mean()),
        "plurality_accuracy": float((votes.argmax(axis=1) == truth).mean()),
    }
    rows, labels = [], []
    for index, (name, mechanism) in enumerate(MECHANISMS.items()):
        rng = np.random.default_rng([seed, teachers, index])  # no mechanism's noise depends on another's settings
        for epsilon in preset.epsilons:
            scores = table[name][f"{epsilon:g}"]
            number = int(max(scores, key=scores.__getitem__))
            given = mechanism(votes, number=number, epsilon=epsilon, rng=rng)
            answered = given.labels >= 0
            rows.append(
                {
                    **common,
                    "mechanism": name,
                    "epsilon": epsilon,
                    "epsilon_data_dependent": None
                    if (these := given.data_dependent()) is None
                    else min(these, epsilon),
                    "number": number,
                    "asked": given.asked,
                    "answered": int(answered.sum()),
                    "label_accuracy": float((given.labels == truth)[answered].mean()) if answered.any() else None,
                    "noise": given.noise,
                }
            )
            labels.append(given.labels)
    rows.append({**common, "mechanism": "plurality, not private", "epsilon": None, "asked": len(truth)})
    rows[-1] |= {"answered": len(truth), "label_accuracy": common["plurality_accuracy"]}
    labels.append(votes.argmax(axis=1))
    accuracy = study(work, preset, np.stack(labels), work.test_x, work.test_y, seed)
    for row, value in zip(rows, accuracy.tolist(), strict=True):
        row["student_accuracy"] = value
    rows[-1]["cpu_seconds_of_the_block"] = round(time.process_time() - started, 1)
    return rows


def run(name: str, *, into: Path, folder: str | None = None) -> dict[str, Any]:
    """Do what is missing of this preset in the file `into`, and return its part of the content."""
    preset = PRESETS[name]
    settings = plain(
        {
            **preset._asdict(),
            "delta": DELTA,
            "threshold": THRESHOLD,
            "test_share": TEST_SHARE,
            "hidden": HIDDEN,
            "numbers": NUMBERS,
            "laplace_account": LAPLACE_ACCOUNT,
        }
    )
    content = read(into)
    part = content.get(name, {})
    if part.get("settings") != settings:
        part = {
            "command": f"python3 -m experiments.pate_fashion --preset {name}",
            "date": today(),
            "machine": machine(),
            "adjacency": "one vote moves on each question: replace-one",
            "settings": settings,
            "rehearsal": {},
            "ceiling": {},
            "rows": [],
        }
    content[name] = part
    all_images = images(name, folder)

    save = partial(write, into, content)

    done = {(row["teachers"], row["seed"]) for row in part["rows"]}
    blocks = [(teachers, seed) for teachers in preset.teachers for seed in preset.seeds]
    for seed in preset.seeds:
        if str(seed) not in part["ceiling"]:
            work = split(all_images, preset, seed=seed)
            truth = work.public_y.numpy()[None]
            accuracy = study(work, preset, truth, work.test_x, work.test_y, seed)
            part["ceiling"][str(seed)] = float(accuracy[0])
            save()
    for teachers, seed in tqdm([one for one in blocks if one not in done], unit="block", disable=None):
        if str(teachers) not in part["rehearsal"]:
            part["rehearsal"][str(teachers)] = rehearse(
                split(all_images, preset, seed=REHEARSAL), preset, teachers=teachers
            )
            save()
        work = split(all_images, preset, seed=seed)
        part["rows"] += block(work, preset, teachers=teachers, seed=seed, table=part["rehearsal"][str(teachers)])
        save()
    return part


def summary(part: dict[str, Any]) -> list[str]:
    """One line for each mechanism, number of teachers and epsilon: means over the seeds."""
    kinds: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in part["rows"]:
        kinds.setdefault((row["teachers"], row["mechanism"], row["epsilon"]), []).append(row)
    lines = []
    for (teachers, name, epsilon), rows in kinds.items():
        right = [row["label_accuracy"] for row in rows if row["label_accuracy"] is not None]
        student = [row["student_accuracy"] for row in rows]
        lines.append(
            f"{teachers:>4} teachers {name:<22} epsilon {'inf' if epsilon is None else f'{epsilon:g}':>3}: "
            f"answered {np.mean([row['answered'] for row in rows]):7.1f}, labels right "
            f"{np.mean(right) if right else math.nan:.3f}, student {np.mean(student):.3f} +- {np.std(student):.3f}"
        )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description="Train PATE ensembles and students on Fashion-MNIST, and record them.")
    parser.add_argument("--preset", choices=sorted(PRESETS), default="subset")
    parser.add_argument("--folder", help="where the full data set lies, if it is not in one of the usual places")
    parser.add_argument("--into", type=Path, help="the file for the results")
    given = parser.parse_args()
    into = given.into or (RESULTS.with_name("pate_fashion_tiny.json") if given.preset == "tiny" else RESULTS)
    part = run(given.preset, into=into, folder=given.folder)
    print("\n".join(summary(part)))
    print(f"student trained on all true public labels: {np.mean(list(part['ceiling'].values())):.3f}")
    return 0


if __name__ == "__main__":
    any_console()
    sys.exit(main())
