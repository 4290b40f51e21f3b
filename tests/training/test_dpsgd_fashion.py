"""The experiment on Fashion-MNIST: its tiny preset, and what its recorded results claim."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from dpml.accounting import pld
from experiments import dpsgd_fashion as experiment

ROOT = Path(__file__).parents[2]
KEY = ("part", "model", "epsilon", "sigma", "batch", "steps", "rate", "clip_norm")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The tiny preset, interrupted after its tenth row and continued; what was there is not done again."""
    into = tmp_path_factory.mktemp("results") / "tiny.json"
    write, count = experiment.write, 0

    def interrupting(path, content):
        nonlocal count
        write(path, content)
        count += 1
        if count == 10:
            raise KeyboardInterrupt

    patch = pytest.MonkeyPatch()
    patch.setattr(experiment, "write", interrupting)
    patch.setattr(experiment.logging, "disable", lambda level: None)
    with pytest.raises(KeyboardInterrupt):
        experiment.run("tiny", into=into)
    first = json.loads(into.read_text(encoding="utf-8"))["rows"]
    found = experiment.run("tiny", into=into)
    patch.undo()
    assert len(first) == 10
    assert found["rows"][:10] == first
    return found


def test_the_tiny_preset(tiny):
    rows = [row for row in tiny["rows"] if row["part"] != "opacus"]
    preset = experiment.PRESETS["tiny"]
    assert len(rows) == experiment.number_of_runs(preset) - 2 * len(preset.seeds)
    assert {row["part"] for row in rows} == {"search", "subset", "full", "clip", "sweep"}
    for row in rows:
        assert 0.0 <= row["accuracy"] <= 1.0
        assert all(map(math.isfinite, row["accuracies"]))
        if row["epsilon"] is not None:
            assert 0.99 * row["epsilon"] < row["spent"] <= row["epsilon"] + 1e-5
        elif row["sigma"] is None:
            assert row["spent"] is None
    assert len(experiment.table(rows)) == 16


def test_the_search_decides_the_rates(tiny):
    rates = experiment.best_rates(tiny["rows"])
    for row in tiny["rows"]:
        if row["part"] in ("subset", "full"):
            assert row["rate"] == rates[row["model"], row["epsilon"]]
    made_up = [
        {"part": "search", "model": "mlp", "epsilon": 1.0, "rate": rate, "accuracy": accuracy}
        for rate, accuracy in ((0.1, 0.5), (0.2, 0.7), (0.4, 0.6))
    ]
    assert experiment.best_rates([*made_up, {**made_up[0], "part": "subset", "accuracy": 0.9}]) == {("mlp", 1.0): 0.2}


# ---- the recorded results ----

RECORD = json.loads((ROOT / "experiments" / "results" / "dpsgd_fashion.json").read_text(encoding="utf-8"))
COMPLETE = len(RECORD["rows"]) == experiment.number_of_runs(experiment.PRESETS["full"])
MODELS = ["mlp", pytest.param("cnn", marks=pytest.mark.skipif(not COMPLETE, reason="the record is not complete yet"))]
GROUPS: dict = {}
for one in RECORD["rows"]:
    GROUPS.setdefault(tuple(one[field] for field in KEY), []).append(one)


def accuracies(part, model, epsilon):
    found = [rows for key, rows in GROUPS.items() if key[:3] == (part, model, epsilon)]
    assert len(found) == 1
    return [row["accuracy"] for row in found[0]]


def test_the_record_says_how_it_was_made():
    assert RECORD["command"] == "python3 -m experiments.dpsgd_fashion --preset full"
    assert {"processor", "Python", "torch", "opacus"} <= set(RECORD["machine"])
    assert "does not cover" in RECORD["chosen"]


def test_every_row_of_the_page_has_five_seeds():
    for key, rows in GROUPS.items():
        if key[1] == "cnn" and not COMPLETE:
            continue
        assert [row["seed"] for row in rows] == ([0] if key[0] == "search" else [0, 1, 2, 3, 4]), key


def test_the_recorded_epsilons_are_right():
    checked = set()
    for key, (row, *_) in GROUPS.items():
        setting = (row["n"], row["batch"], row["steps"], row["noise"])
        if row.get("spent") and setting not in checked:
            checked.add(setting)
            bounds = pld.epsilon_bounds(
                q=row["batch"] / row["n"], sigma=row["noise"], steps=row["steps"], delta=RECORD["delta"]
            )
            assert bounds.lower - 1e-4 <= row["spent"] <= bounds.upper + 1e-3, key
            assert row["epsilon"] is None or row["spent"] <= row["epsilon"] + 1e-5


@pytest.mark.parametrize("model", MODELS)
def test_opacus_is_within_a_point(model):
    """Means of five seeds each, the same settings."""
    difference = np.mean(accuracies("opacus", model, 3.0)) - np.mean(accuracies("subset", model, 3.0))
    assert abs(difference) <= 0.01


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("part", ["subset", "full"])
def test_privacy_costs_accuracy_and_data_buy_it_back(part, model):
    runs = [accuracies(part, model, epsilon) for epsilon in (1.0, 3.0, 8.0, None)]
    means = [np.mean(run) for run in runs]
    noise = [np.std(run, ddof=1) / np.sqrt(len(run)) for run in runs]  # the short runs of the CNN differ by little
    for i in range(3):
        assert means[i] <= means[i + 1] + 2 * np.hypot(noise[i], noise[i + 1])
    assert means[0] < means[3]
    if part == "full":
        assert means[0] > np.mean(accuracies("subset", model, 1.0))
