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

TABLES = {title: (note, head, lines) for title, note, head, lines in experiment.tables(RECORD)}
SETS = {"shipped": "subset", "shipped, tested as the whole": "tested", "whole": "full"}
TASKS = {("subset", "mlp"): 800, ("full", "mlp"): 1000, ("subset", "cnn"): 250, ("full", "cnn"): 250}


def text(accuracies):
    """Mean and standard deviation in percent, by the statistics module of Python."""
    return f"{100 * statistics.mean(accuracies):.2f} ± {100 * statistics.stdev(accuracies):.2f}"


def epsilon_of(cell):
    return None if cell == "not private" else float(cell)


def agrees(cells, rows):
    """Whether the columns from epsilon to the seeds are those of these rows, one for each seed."""
    epsilon, sigma, q, steps, clip_norm, rate, seeds = cells
    assert ([row["seed"] for row in rows], seeds) == ([0, 1, 2, 3, 4], "0–4")
    for row in rows:
        assert row["epsilon"] == epsilon_of(epsilon)
        assert row["batch"] / row["n"] == pytest.approx(float(q), rel=1e-3)
        assert (row["steps"], row["rate"]) == (int(steps), float(rate))
        if row["epsilon"] is None:
            assert (sigma, clip_norm) == ("none", "none")
        else:
            assert row["noise"] == pytest.approx(float(sigma), abs=5e-5)
            assert row["clip_norm"] == float(clip_norm)
            assert row["part"] == "opacus" or row["spent"] <= row["epsilon"]


def test_the_tables_are_those_of_the_page():
    titles = ["What was run", "Accuracy", "Opacus at the same settings", "Noise and batch size", "Clip norm"]
    assert list(TABLES) == [*titles, "Learning rates tried, MLP", "Learning rates tried, CNN"]
    for note, head, lines in TABLES.values():
        assert note.endswith(".")
        assert all(len(line) == len(head) for line in lines)
    assert "No ε covers that choice" in TABLES["What was run"][0]


def test_the_settings_are_those_of_the_rows():
    seen = 0
    for name, n, model, *cells in TABLES["What was run"][2]:
        rows = recorded(SETS[name], model=model.lower(), epsilon=epsilon_of(cells[0]))
        assert {f"{row['n']:,}" for row in rows} == {n}
        agrees(cells, rows)
        seen += len(rows)
    assert seen == len(recorded("subset")) + len(recorded("full"))


def test_the_accuracies_are_those_of_the_rows():
    note, head, lines = TABLES["Accuracy"]
    assert head[3:] == ["ε = 1", "ε = 3", "ε = 8", "not private"]
    seen = 0
    for name, model, steps, *cells in lines:
        for column, cell in zip(head[3:], cells, strict=True):
            epsilon = epsilon_of(column.removeprefix("ε = "))
            rows = recorded(SETS[name], model=model.lower(), steps=int(steps), epsilon=epsilon)
            assert cell == text([row["accuracy"] for row in rows])
            seen += len(rows)
    assert seen == sum(len(recorded(part)) for part in SETS.values())
    assert "Fewest steps, 250: CNN on the shipped set, CNN on the whole set." in note


def test_opacus_stands_beside_the_same_settings():
    seen = 0
    _, head, lines = TABLES["Opacus at the same settings"]
    names, *columns = zip(head, *lines, strict=True)
    assert names == ("Setting", *experiment.CHOSEN_HEAD, "dpml, %", "Opacus, %", "Difference")
    for model, *cells, mine, theirs, difference in columns:
        rows = recorded("opacus", model=model.lower())
        twins = recorded("subset", model=model.lower(), epsilon=3.0)
        agrees(cells, rows)
        agrees(cells, twins)
        both = [[100 * row["accuracy"] for row in some] for some in (twins, rows)]
        assert (mine, theirs) == (text([x / 100 for x in both[0]]), text([x / 100 for x in both[1]]))
        mean, error = map(float, difference.split(" ± "))
        assert mean == pytest.approx(statistics.mean(both[1]) - statistics.mean(both[0]), abs=0.006)
        assert error == pytest.approx(math.sqrt(sum(statistics.variance(x) / 5 for x in both)), abs=0.006)
        seen += len(rows)
    assert seen == len(recorded("opacus"))


def test_noise_and_clip_norm_are_those_of_the_rows():
    _, head, lines = TABLES["Noise and batch size"]
    seen = 0
    for sigma, *cells in lines:
        for column, cell in zip(head[1:], cells, strict=True):
            rows = recorded("sweep", sigma=float(sigma), batch=int(column.removeprefix("Batches of ")))
            assert cell == f"{text([row['accuracy'] for row in rows])} (ε {rows[0]['spent']:.3g})"
            seen += len(rows)
    assert seen == len(recorded("sweep"))
    seen = 0
    for clip_norm, rate, clipped, accuracy in TABLES["Clip norm"][2]:
        rows = recorded("clip", clip_norm=float(clip_norm))
        assert float(rate) == pytest.approx(rows[0]["rate"], rel=1e-3)
        assert float(clipped) == pytest.approx(100 * statistics.mean(row["clipped"][-1] for row in rows), abs=0.051)
        assert accuracy == text([row["accuracy"] for row in rows])
        seen += len(rows)
    assert seen == len(recorded("clip"))


def test_the_trials_are_shown_with_the_one_taken():
    seen = 0
    for model in ("mlp", "cnn"):
        note, head, lines = TABLES[f"Learning rates tried, {model.upper()}"]
        ends = []
        for level, *cells in lines:
            rows = [recorded("search", model=model, epsilon=epsilon_of(level), rate=float(rate)) for rate in head[1:]]
            accuracies = [row["accuracy"] for (row,) in rows]
            taken = {row["rate"] for row in recorded("subset", model=model, epsilon=epsilon_of(level))}
            for rate, accuracy, cell in zip(head[1:], accuracies, cells, strict=True):
                assert cell == f"{100 * accuracy:.2f}" + (" (taken)" if {float(rate)} == taken else "")
                assert ("taken" in cell) == (accuracy == max(accuracies))
            name = level if level == "not private" else f"ε = {level}"
            ends += [name] if "taken" in cells[0] + cells[-1] else []
            seen += len(rows)
        assert note.endswith(f"may lie outside: {', '.join(ends)}.")
        assert "2,000 training images held out" in note
    assert seen == len(recorded("search"))


def test_what_the_page_says():
    page = " ".join((ROOT / "book" / "dpsgd_results.md").read_text(encoding="utf-8").split())
    steps = {(part, model): {row["steps"] for row in recorded(part, model=model)} for part, model in TASKS}
    assert steps == {(part, model): {count} for (part, model), count in TASKS.items()}
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
    rows = [{**row, "epsilon": 3.0} for row in recorded("subset", model="mlp", epsilon=3.0)[:1]]
    found = {title: lines for title, _, _, lines in experiment.tables({**RECORD, "rows": rows})}
    assert list(found) == ["What was run", "Accuracy"]
    assert found["Accuracy"] == [["shipped", "MLP", "800", f"{100 * rows[0]['accuracy']:.2f}"]]
    assert experiment.tables({**RECORD, "rows": []}) == []
