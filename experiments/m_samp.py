"""M_samp for real: some ten thousand models, each trained on a random part of 10,000 images.

    python3 -m experiments.m_samp                    # the recorded run, 2 counts of models x 5 seeds
    python3 -m experiments.m_samp --preset tiny      # the same on 400 small images, in a second

The records are the 10,000 shipped training images of Fashion-MNIST, with two labels: a top (T-shirt, pullover, coat,
shirt) or something else. A model is a nearest-centroid classifier, in closed form; the queries are the 2,000 test
images. Each model answers all queries, so the votes show what M_samp would do with each of them. One answer costs
(epsilon, delta/2) = (8, 0.0005): the release rates are measurements on known images, not a release of 2,000 answers.

The measured release rate is that of one run, and of 2,000 draws of noise for the same votes. Two predictions stand
beside it. The first, for each seed, is the exact probability given the votes. The second uses the votes of the seed
before only: from the agreement of its models on a query it computes the probability over parts and noise.

Results go to dpml/datasets/recorded/m_samp.json, row by row, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray
from tqdm import tqdm

from dpml import data
from dpml.command_line import any_console
from dpml.data import records
from dpml.pate import m_samp, m_stab
from experiments.recording import read, today, write

RESULTS = records.FOLDER / "m_samp.json"
TOPS = (0, 2, 4, 6)
EPSILON, DELTA = 8.0, 1e-3
NOISE_DRAWS = 2000


class Preset(NamedTuple):
    """How many records and queries of each class, how many pixels on a side, which seeds."""

    records: int
    queries: int
    side: int
    seeds: tuple[int, ...]


PRESETS = {"full": Preset(1000, 200, 28, (0, 1, 2, 3, 4)), "tiny": Preset(40, 5, 7, (0, 1))}


class Task(NamedTuple):
    """Pixels in [0, 1], one row for each image, and whether the image shows a top."""

    pixels: NDArray[np.float32]
    labels: NDArray[np.float32]
    queries: NDArray[np.float32]
    truth: NDArray[np.int64]


def task(preset: Preset) -> Task:
    """The records and queries: the first images of each class of the shipped subset."""
    subset = data.fashion_mnist_subset()
    block = 28 // preset.side

    def part(images: NDArray[np.uint8], labels: NDArray[np.uint8], each: int) -> tuple[Any, Any]:
        chosen = np.sort(np.concatenate([np.flatnonzero(labels == label)[:each] for label in range(10)]))
        blocks = images[chosen].reshape(-1, preset.side, block, preset.side, block)
        pixels = (blocks.mean(axis=(2, 4)) / 255).reshape(len(chosen), -1).astype(np.float32)
        return pixels, np.isin(labels[chosen], TOPS)

    pixels, labels = part(subset.train_images, subset.train_labels, preset.records)
    queries, truth = part(subset.test_images, subset.test_labels, preset.queries)
    return Task(pixels, labels.astype(np.float32), queries, truth.astype(np.int64))


def nearest_centroid(
    task: Task, progress: Callable[[int], object] = lambda models: None
) -> Callable[[Any, NDArray[np.bool_]], NDArray[np.int64]]:
    """M_samp's callback: a model for each part, and its answers to all queries.

    A model is the mean image of each label in its part; a query is a top if that mean is the nearer one. A label that
    is missing in a part has the black image as its mean.
    """

    def train(records: NDArray[np.float32], members: NDArray[np.bool_]) -> NDArray[np.int64]:
        rows = members.astype(np.float32)
        tops = rows * task.labels
        others = rows - tops
        means = [(part @ records) / np.maximum(part.sum(axis=1, keepdims=True), 1) for part in (others, tops)]
        sizes = [(mean**2).sum(axis=1, keepdims=True) for mean in means]
        difference = sizes[1] - sizes[0] - 2 * (means[1] - means[0]) @ task.queries.T
        progress(len(members))
        answers: NDArray[np.int64] = (difference < 0).astype(np.int64)
        return answers

    return train


def one_run(task: Task, *, n_models: int, q: float, seed: int, progress: Callable[[int], object]) -> dict[str, Any]:
    """Votes and noise of one seed; the agreement of the models is kept for the prediction of the next seed."""
    n, rng = len(task.pixels), np.random.default_rng([20_241, seed, n_models])
    started = time.perf_counter()
    votes = m_samp.subsample_votes(
        task.pixels, n=n, classes=2, q=q, n_models=n_models, train=nearest_centroid(task, progress), rng=rng
    )
    seconds = time.perf_counter() - started
    distance = m_samp.scaled_distance(votes.counts, q=q, n_models=n_models)
    predicted = m_stab.release_probability(distance, epsilon=EPSILON, delta=DELTA)
    within = votes.most_used <= 2 * q * n_models
    noisy = m_stab.stability_test(np.tile(distance, (NOISE_DRAWS, 1)), epsilon=EPSILON, delta=DELTA, rng=rng) & within
    released = noisy[0]
    winner = votes.counts.argmax(axis=1)
    every = nearest_centroid(task)(task.pixels, np.ones((1, n), dtype=bool))[0]
    return {
        "n_models": n_models,
        "seed": seed,
        "seconds": round(seconds, 2),
        "most_used": votes.most_used,
        "most_allowed": int(2 * q * n_models),
        "failed_for_overuse": not within,
        "predicted_release_rate": float(predicted.mean()),
        "measured_release_rate": float(released.mean()),
        "standard_deviation": float(np.sqrt((predicted * (1 - predicted)).sum()) / len(predicted)),
        "measured_over_all_noise_draws": float(noisy.mean()),
        "accuracy_of_one_model_on_all_records": float((every == task.truth).mean()),
        "accuracy_of_the_vote": float((winner == task.truth).mean()),
        "accuracy_where_released": float((winner == task.truth)[released].mean()),
        "released_as_on_all_records": float((winner == every)[released].mean()),
        "votes_for_a_top": votes.counts[:, 1].tolist(),
        "released": "".join("1" if one else "0" for one in released),
    }


def expected_from(row: dict[str, Any], *, q: float) -> float:
    """The release rate of a new run, from the agreement of the models in another one."""
    models = row["n_models"]
    agreement = np.array(row["votes_for_a_top"]) / models
    agreement = np.maximum(agreement, 1 - agreement)
    chances = {
        a: m_samp.m_samp_release_probability(agreement=a, epsilon=EPSILON, delta=DELTA, q=q, n_models=models)
        for a in set(agreement.tolist())
    }
    return float(np.mean([chances[a] for a in agreement.tolist()]))


def machine() -> dict[str, Any]:
    """What the timings depend on."""
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "cores": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS", "not set"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }


def run(preset: str, *, into: Path) -> dict[str, Any]:
    """Do what is missing in the file `into` and return its content."""
    settings = PRESETS[preset]
    work = task(settings)
    n = len(work.pixels)
    plans = {
        "printed": m_samp.sampling_plan(epsilon=EPSILON, delta=DELTA, n=n),
        "Chernoff": m_samp.sampling_plan_chernoff(epsilon=EPSILON, delta=DELTA, n=n),
    }
    q = plans["printed"].q
    head = {
        "command": f"python3 -m experiments.m_samp --preset {preset}",
        "date": today(),
        **machine(),
        "noise_draws": NOISE_DRAWS,
        "epsilon": EPSILON,
        "delta": DELTA,
        "adjacency": "replace-one",
        "cost_of_one_answer": [EPSILON, DELTA / 2],
        "n": n,
        "queries": len(work.queries),
        "q": q,
        "models": {name: plan.n_models for name, plan in plans.items()},
        "models_at_epsilon_1_delta_1e-5_n_1e5": m_samp.sampling_plan(epsilon=1.0, delta=1e-5, n=10**5).n_models,
    }
    before = read(into)
    same = all(
        before.get(key) == head[key]
        for key in ("command", "noise_draws", "epsilon", "delta", "n", "queries", "q", "models")
    )
    rows: list[dict[str, Any]] = before["rows"] if same else []
    done = {(row["n_models"], row["seed"]) for row in rows}
    wanted = [(plan.n_models, seed) for plan in plans.values() for seed in settings.seeds]
    missing = [pair for pair in wanted if pair not in done]
    with tqdm(total=sum(models for models, _ in missing), unit="model", disable=None) as bar:
        for models, seed in missing:
            rows.append(one_run(work, n_models=models, q=q, seed=seed, progress=bar.update))
            last = [row for row in rows if row["n_models"] == models and row["seed"] < seed]
            rows[-1]["release_rate_expected_from_the_seed_before"] = expected_from(last[-1], q=q) if last else None
            write(into, {**head, "rows": rows})
    return {**head, "rows": rows}


def main() -> int:
    parser = argparse.ArgumentParser(description="Run M_samp on the shipped images and record the release rates.")
    parser.add_argument("--preset", choices=sorted(PRESETS), default="full")
    parser.add_argument("--into", type=Path, help="the file for the results")
    given = parser.parse_args()
    into = given.into or (RESULTS if given.preset == "full" else RESULTS.with_name(f"m_samp_{given.preset}.json"))
    for row in run(given.preset, into=into)["rows"]:
        print(
            f"{row['n_models']:>6} models, seed {row['seed']}: {row['seconds']:6.1f} s, released "
            f"{row['measured_release_rate']:.4f}, in many draws {row['measured_over_all_noise_draws']:.5f}, "
            f"predicted {row['predicted_release_rate']:.5f} (standard deviation {row['standard_deviation']:.4f})"
        )
    return 0


if __name__ == "__main__":
    any_console()
    sys.exit(main())
