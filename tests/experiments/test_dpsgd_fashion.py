"""What the recorded results on Fashion-MNIST claim, and the tables of their page, each cell from the rows anew."""

import math
import statistics
from pathlib import Path

import numpy as np
import pytest

from dpml import data
from experiments import dpsgd_fashion as experiment
from experiments.recording import setting_of

ROOT = Path(__file__).parents[2]
RECORD = data.recorded("dpsgd_fashion")


def recorded(part, **fields):
    """The rows of a part with these values."""
    found = [row for row in RECORD["rows"] if row["part"] == part]
    return [row for row in found if all(row[name] == value for name, value in fields.items())]


def accuracies(part, model, epsilon):
    found = [row["accuracy"] for row in recorded(part, model=model, epsilon=epsilon)]
    assert len(found) == 5
    return found


def test_recorded_runs_again():
    """Processors round differently, and a run is long: a point covers that, and no other setting would do."""
    rows = recorded("sweep", sigma=5.0, batch=50)[:3]
    work = experiment.task("sweep", experiment.PRESETS["full"])
    again = [experiment.ours(setting_of(experiment.Setting, row), work) for row in rows]
    for summary in (statistics.mean, statistics.stdev):
        ours, then = (summary([row["accuracy"] for row in them]) for them in (again, rows))
        assert ours == pytest.approx(then, abs=0.01)


@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_opacus_is_within_a_point(model):
    """Means of five seeds each, the same settings."""
    difference = np.mean(accuracies("opacus", model, 3.0)) - np.mean(accuracies("subset", model, 3.0))
    assert abs(difference) <= 0.01


@pytest.mark.parametrize("model", ["mlp", "cnn"])
@pytest.mark.parametrize("part", ["subset", "full"])
def test_privacy_costs_accuracy_and_data_buy_it_back(part, model):
    runs = [accuracies(part, model, epsilon) for epsilon in (1.0, 3.0, 8.0, None)]
    means = [np.mean(run) for run in runs]
    noise = [np.std(run, ddof=1) / np.sqrt(len(run)) for run in runs]  # the short runs of the CNN differ by little
    for i in range(3):
        assert means[i] <= means[i + 1] + 2 * np.hypot(noise[i], noise[i + 1])
    assert means[0] < means[3]
    if part == "full":
        fewer = "tested" if model == "mlp" else "subset"  # the MLP on the same test images
        assert means[0] > np.mean(accuracies(fewer, model, 1.0))


# ---- the tables of the page ----


def test_the_tables_are_those_of_the_page():
    made = experiment.tables(RECORD)
    titles = ["What was run", "Accuracy", "Opacus at the same settings", "Noise and batch size", "Clip norm"]
    assert [title for title, *_ in made] == [*titles, "Learning rates tried, MLP", "Learning rates tried, CNN"]
    assert all(note.endswith(".") and {len(line) for line in lines} == {len(head)} for _, note, head, lines in made)
    notes = {title: note for title, note, *_ in made}
    assert "No ε covers that choice" in notes["What was run"]
    assert "Fewest steps, 250: CNN on the shipped set, CNN on the whole set." in notes["Accuracy"]
    assert "2,000 training images held out" in notes["Learning rates tried, CNN"]


def runs(part, *accuracies, **fields):
    """Rows that differ in the seed alone."""
    row = {"part": part, "model": "mlp", "epsilon": 3.0, "noise": 1.25, "sigma": None, "batch": 250, "n": 10_000}
    row |= {"steps": 800, "clip_norm": 1.0, "rate": 0.2, "spent": 2.999, "clipped": [0.9, 0.5]}
    return [row | fields | {"seed": seed, "accuracy": accuracy} for seed, accuracy in enumerate(accuracies)]


PLAIN = {"epsilon": None, "noise": None, "clip_norm": None, "spent": None}
MADE_UP = [
    *(runs("search", accuracy, rate=rate)[0] for rate, accuracy in ((0.1, 0.5), (0.2, 0.7), (0.4, 0.6))),
    *(runs("search", accuracy, rate=rate, **PLAIN)[0] for rate, accuracy in ((0.1, 0.9), (0.2, 0.8), (0.4, 0.25))),
    *runs("subset", 0.80, 0.82),
    *runs("subset", 0.9, 0.9, rate=0.1, **PLAIN),
    *runs("tested", 0.7, 0.75),
    *runs("full", 0.85, 0.86, steps=1000, n=60_000, batch=500),
    *runs("opacus", 0.81, 0.85),
    *runs("sweep", 0.5, 0.6, sigma=2.0, spent=0.5678),
    *runs("sweep", 0.6, 0.6, sigma=2.0, batch=50, spent=0.25),
    *runs("clip", 0.4, 0.5, clip_norm=0.1, rate=0.23456),
]
LINES = {
    "What was run": [
        ["shipped", "10,000", "MLP", "3", "1.2500", "0.025", "800", "1", "0.2", "0–1"],
        ["shipped", "10,000", "MLP", "not private", "none", "0.025", "800", "none", "0.1", "0–1"],
        ["whole", "60,000", "MLP", "3", "1.2500", "0.008333", "1000", "1", "0.2", "0–1"],
    ],
    "Accuracy": [
        ["shipped", "MLP", "800", "81.00 ± 1.41", "90.00 ± 0.00"],
        ["shipped, tested as the whole", "MLP", "800", "72.50 ± 3.54", ""],
        ["whole", "MLP", "1000", "85.50 ± 0.71", ""],
    ],
    "Opacus at the same settings": [
        *(["ε", "3"], ["σ", "1.2500"], ["q", "0.025"], ["Steps", "800"], ["Clip norm", "1"], ["Learning rate", "0.2"]),
        *(["Seeds", "0–1"], ["dpml, %", "81.00 ± 1.41"], ["Opacus, %", "83.00 ± 2.83"], ["Difference", "+2.00 ± 2.24"]),
    ],
    "Noise and batch size": [["2", "60.00 ± 0.00 (ε 0.25)", "55.00 ± 7.07 (ε 0.568)"]],
    "Clip norm": [["0.1", "0.2346", "50.0", "45.00 ± 7.07"]],
    "Learning rates tried, MLP": [
        ["3", "50.00", "70.00 (taken)", "60.00"],
        ["not private", "90.00 (taken)", "80.00", "25.00"],
    ],
}


def test_the_cells_of_the_tables():
    made = experiment.tables({**RECORD, "rows": MADE_UP})
    assert {title: lines for title, _, _, lines in made} == LINES
    heads, notes = ({one[0]: one[at] for one in made} for at in (2, 1))
    assert heads["Accuracy"][3:] == ["ε = 3", "not private"]
    assert heads["Noise and batch size"] == ["σ", "Batches of 50", "Batches of 250"]
    assert heads["Learning rates tried, MLP"] == ["ε", "0.1", "0.2", "0.4"]
    assert notes["Learning rates tried, MLP"].endswith("may lie outside: not private.")


def test_what_the_page_says():
    page = " ".join((ROOT / "book" / "dpsgd_results.md").read_text(encoding="utf-8").split())
    steps = {("subset", "mlp"): 800, ("full", "mlp"): 1000, ("subset", "cnn"): 250, ("full", "cnn"): 250}
    for (part, model), count in steps.items():
        assert {row["steps"] for row in recorded(part, model=model)} == {count}
    assert "The CNN has 250 steps* up to the last section" in page
    assert "The MLP has 800 steps on the shipped set and 1,000 on the whole one" in page
    assert {row["batch"] for row in recorded("subset")} == {250}
    assert {row["batch"] for row in recorded("full")} == {500}
    assert len(experiment.task("subset", experiment.PRESETS["full"]).test[0]) == 2000
    assert sum(row["seconds"] for row in RECORD["rows"]) < 3600
    for model, count in {"mlp": 800, "cnn": 250}.items():
        assert {row["steps"] for row in recorded("search", model=model)} == {count}
    for row in recorded("subset", model="cnn") + recorded("subset", model="mlp"):
        error = 100 * math.sqrt(row["accuracy"] * (1 - row["accuracy"]) / 2000)
        assert 0.7 < error < 1.05
    for part in ("subset", "full"):  # below the MLP at every epsilon and without privacy
        for epsilon in (1.0, 3.0, 8.0, None):
            assert np.mean(accuracies(part, "cnn", epsilon)) < np.mean(accuracies(part, "mlp", epsilon))


def test_seeds_in_short():
    assert [experiment.span(seeds) for seeds in ([0, 1, 2], [3], [0, 2], [1, 0])] == ["0–2", "3", "0, 2", "1, 0"]


def test_one_seed_has_no_spread_and_a_missing_part_no_table():
    found = {title: lines for title, _, _, lines in experiment.tables({**RECORD, "rows": runs("subset", 0.8)})}
    assert list(found) == ["What was run", "Accuracy"]
    assert found["Accuracy"] == [["shipped", "MLP", "800", "80.00"]]
    assert experiment.tables({**RECORD, "rows": []}) == []
