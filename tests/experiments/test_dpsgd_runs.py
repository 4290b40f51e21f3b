"""The recorded numbers that the explorers of chapter 05 show: trained again, and compared with the recorded file."""

import json

import numpy as np
import pytest
import torch
from torch.nn import functional

from dpml import data
from dpml.data import records
from dpml.lessons.dpsgd import runs
from dpml.training import dpsgd, models
from dpml.training.sampling import Poisson


def test_one_setting_trained_again_gives_the_accuracy_shown():
    images = data.fashion_mnist_subset()
    x, y = models.to_tensors(images.train_images), models.to_labels(images.train_labels)
    assert len(x) == runs.EXAMPLES
    found = []
    for seed in range(runs.SEEDS):
        model = models.mlp(generator=torch.Generator().manual_seed(seed))
        run = dpsgd.dp_sgd(
            model,
            lambda outputs, labels: functional.cross_entropy(outputs, labels, reduction="none"),
            x,
            y,
            sampling=Poisson(q=50 / len(x)),
            sigma=5.0,
            clip_norm=1.0,
            steps=runs.SWEEP_STEPS,
            optimizer=torch.optim.SGD(model.parameters(), lr=runs.CLIP_RATE, momentum=0.9),
            delta=1e-5,
            generator=torch.Generator().manual_seed(1000 + seed),
            test=(models.to_tensors(images.test_images), models.to_labels(images.test_labels)),
        )
        found.append(float(run.trace.accuracy[-1]))
    mean, spread = runs.SWEEP[5.0, 50]
    assert np.mean(found) == pytest.approx(mean, abs=0.01)
    assert np.std(found, ddof=1) == pytest.approx(spread, abs=0.01)


def test_the_tables_are_complete():
    assert set(runs.SWEEP) == {(sigma, batch) for sigma in runs.SIGMAS for batch in runs.BATCHES}
    assert set(runs.CLIP) == set(runs.CLIP_NORMS)
    assert all(len(row.clipped) == len(runs.CLIP_AT_STEPS) for row in runs.CLIP.values())
    assert all(0.3 < mean < 0.9 and 0 < spread < 0.1 for mean, spread in runs.SWEEP.values())


def test_they_agree_with_the_recorded_file():
    path = records.FOLDER / "dpsgd_fashion.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    rates = {
        row["rate"]: row["accuracy"]
        for row in rows
        if row["part"] == "search" and row["model"] == "mlp" and row["epsilon"] == 3.0
    }
    assert max(rates, key=lambda rate: (rates[rate], rate)) == pytest.approx(runs.CLIP_RATE)
    groups = {}
    for row in rows:
        if row["part"] in ("sweep", "clip"):
            key = (row["sigma"], row["batch"]) if row["part"] == "sweep" else row["clip_norm"]
            groups.setdefault(key, []).append(row)
    for key in (*runs.SWEEP, *runs.CLIP):
        group = groups[key]
        assert len(group) == runs.SEEDS
        accuracies = [row["accuracy"] for row in group]
        mean, spread = runs.SWEEP[key] if key in runs.SWEEP else runs.CLIP[key][1:]
        assert np.mean(accuracies) == pytest.approx(mean, abs=5.1e-6), key
        assert np.std(accuracies, ddof=1) == pytest.approx(spread, abs=5.1e-6), key
        if key in runs.CLIP:
            clipped = np.mean([row["clipped"] for row in group], axis=0)
            assert clipped == pytest.approx(runs.CLIP[key].clipped, abs=1e-4)
            assert group[0]["at_steps"] == [*runs.CLIP_AT_STEPS]
