"""DP-SGD on a GPU: its tiny preset on the CPU, and what its recorded results claim."""

import json
import statistics

import pytest

from dpml.accounting import pld
from experiments import dpsgd_fashion as fashion
from experiments import dpsgd_gpu as experiment


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The tiny preset, in two processes, after a start for which there was no time; and its file."""
    into = tmp_path_factory.mktemp("results") / "tiny.json"
    patch = pytest.MonkeyPatch()
    patch.setattr(experiment.logging, "disable", lambda level: None)
    assert experiment.run("tiny", into=into, device="cpu", seconds=-1.0)["rows"] == []
    found = experiment.run("tiny", into=into, device="cpu", processes=2)
    patch.undo()
    return found, into


def test_the_tiny_preset(tiny):
    rows, preset = tiny[0]["rows"], experiment.PRESETS["tiny"]
    searched = [row for row in rows if row["part"] == "search"]
    assert len(searched) == len(experiment.EPSILONS) * len(preset.rates)
    assert len(rows) - len(searched) == len(experiment.EPSILONS) * len(preset.seeds)
    assert rows == sorted(rows, key=lambda row: experiment.place(row, preset))
    assert {row["n"] for row in searched} == {480}
    for row in rows:
        assert row["epsilon"] is None or row["spent"] <= row["epsilon"] + 1e-5
    assert json.loads(tiny[1].read_text(encoding="utf-8"))["rows"] == rows
    assert [title for title, *_ in experiment.tables(tiny[0])] == [
        "What was run",
        "Accuracy",
        "Learning rates tried, CNN",
    ]


def test_a_rate_that_diverges_is_not_chosen(tiny):
    job = experiment.Job(next(experiment.search(experiment.PRESETS["tiny"])), "tiny", "cpu", None)
    row = experiment.do(job._replace(setting=job.setting._replace(epsilon=None, rate=1e30)))
    assert row["accuracy"] == 0.0 and row["diverged"] >= 1
    content = {**tiny[0], "rows": [row, *tiny[0]["rows"]]}
    assert "diverged" in experiment.tables(content)[-1][3][-1]
    with pytest.raises(experiment.Diverged):
        experiment.do(job._replace(setting=job.setting._replace(part="full", epsilon=None, rate=1e30)))


def test_nothing_is_done_twice(tiny, monkeypatch):
    monkeypatch.setattr(experiment, "do", lambda job: pytest.fail(f"{job} was there"))
    monkeypatch.setattr(experiment.logging, "disable", lambda level: None)
    assert experiment.run("tiny", into=tiny[1], device="cpu")["rows"] == tiny[0]["rows"]


def test_without_the_whole_search_nothing_is_chosen(tiny):
    preset = experiment.PRESETS["tiny"]
    searched = [row for row in tiny[0]["rows"] if row["part"] == "search"]
    assert list(experiment.full(preset, searched[1:])) == []
    assert len(list(experiment.full(preset, searched))) == len(experiment.EPSILONS) * len(preset.seeds)


# ---- the recorded rows ----

RECORD = json.loads(experiment.RESULTS.read_text(encoding="utf-8"))


def mean(rows, model, epsilon):
    found = [row["accuracy"] for row in rows if (row["part"], row["model"], row["epsilon"]) == ("full", model, epsilon)]
    assert len(found) == 5
    return 100 * statistics.mean(found)


def test_the_record_is_whole():
    preset = experiment.PRESETS["full"]
    assert RECORD["settings"] == json.loads(json.dumps(preset._asdict()))
    keys = [fashion.Setting(*(row[field] for field in fashion.Setting._fields)) for row in RECORD["rows"]]
    searched = list(experiment.search(preset))
    assert keys[: len(searched)] == searched
    assert keys[len(searched) :] == list(experiment.full(preset, RECORD["rows"]))


def test_the_recorded_epsilons_are_right():
    for row in RECORD["rows"]:
        if row["epsilon"] is not None:
            given = {
                "q": row["batch"] / row["n"],
                "sigma": row["noise"],
                "steps": row["steps"],
                "delta": RECORD["delta"],
            }
            bounds = pld.epsilon_bounds(**given)
            assert bounds.lower - 1e-4 <= row["spent"] <= bounds.upper + 1e-4
            assert row["spent"] <= row["epsilon"] + 1e-5


def test_what_the_page_and_the_chapter_say():
    short = json.loads(fashion.RESULTS.read_text(encoding="utf-8"))["rows"]
    gains = [mean(RECORD["rows"], "cnn", one) - mean(short, "cnn", one) for one in experiment.EPSILONS]
    assert all(7.0 < gain < 9.5 for gain in gains[:3])
    assert 3.5 < gains[3] < 4.5
    for epsilon in (3.0, 8.0):
        assert mean(RECORD["rows"], "cnn", epsilon) > mean(short, "mlp", epsilon) + 1.0
