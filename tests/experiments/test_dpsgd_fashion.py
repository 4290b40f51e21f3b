"""The experiment on Fashion-MNIST: its tiny preset, and what its recorded results claim."""

import json
import math
import statistics
from pathlib import Path

import numpy as np
import pytest

from dpml.accounting import pld
from dpml.data import recorded
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
    titles = [title for title, *_ in experiment.tables({**tiny, "rows": rows})]
    assert titles == ["What was run", "Accuracy", "Noise and batch size", "Clip norm", *titles[-2:]]


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

RECORD = recorded("dpsgd_fashion")
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


def test_recorded_runs_again():
    """Processors round differently, and a run is long: a point covers that, and no other setting would do."""
    rows = [row for row in RECORD["rows"] if (row["part"], row["sigma"], row["batch"]) == ("sweep", 5.0, 50)]
    work = experiment.task("sweep", experiment.PRESETS["full"])
    again = [experiment.ours(experiment.Setting(*(row[key] for key in (*KEY, "seed"))), work) for row in rows]
    for summary in (statistics.mean, statistics.stdev):
        ours, recorded_then = (summary([row["accuracy"] for row in them]) for them in (again, rows))
        assert ours == pytest.approx(recorded_then, abs=0.01)


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


# ---- the tables of the page ----

TABLES = {title: (note, head, lines) for title, note, head, lines in experiment.tables(RECORD)}
SETS = {"shipped": "subset", "whole": "full"}
TASKS = {("subset", "mlp"): 800, ("full", "mlp"): 1000, ("subset", "cnn"): 250, ("full", "cnn"): 250}


def text(accuracies):
    """Mean and standard deviation in percent, by the statistics module of Python."""
    return f"{100 * statistics.mean(accuracies):.2f} ± {100 * statistics.stdev(accuracies):.2f}"


def recorded(part, **fields):
    """The rows of a part with these values."""
    found = [row for row in RECORD["rows"] if row["part"] == part]
    return [row for row in found if all(row[name] == value for name, value in fields.items())]


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
    assert seen == len(recorded("subset")) + len(recorded("full"))
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
