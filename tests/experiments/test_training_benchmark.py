"""The recorded benchmark of the training step, and the tables made from it."""

import json
import re
from pathlib import Path

import pytest
import torch

from benchmarks import training

ROOT = Path(__file__).parents[2]
RECORD = json.loads((ROOT / "benchmarks" / "results" / "training.json").read_text(encoding="utf-8"))
ROWS = RECORD["rows"]


def test_the_record_says_how_it_was_made():
    assert RECORD["command"] == training.COMMAND
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", RECORD["date"])
    pins = re.findall(
        r"^(\w+)==(\S+)$", (ROOT / "benchmarks" / "requirements-training.txt").read_text("utf-8"), re.MULTILINE
    )
    assert dict(pins) == {"opacus": RECORD["machine"]["opacus"]}


def test_the_record_holds_every_task_and_case():
    cases = [f"{name} {size}" for name, size in training.CASES]
    for task in ("cpu", "wall"):
        wanted = [(case, keeps) for case in cases for keeps in (False, True)]
        assert [(row["case"], row["keeps_memory"]) for row in ROWS if row["task"] == task] == wanted
    assert [row["case"] for row in ROWS if row["task"] == "memory"] == cases
    assert len([row for row in ROWS if row["task"].startswith("stacked")]) == 2
    names = {training.PLAIN, training.OURS, *training.PEERS}
    assert all(
        set(row.get("seconds", row.get("mebibytes"))) == names
        for row in ROWS
        if row["task"] in ("cpu", "wall", "memory")
    )
    robust = [row for row in ROWS if row["task"] == "robust cpu"]
    assert [row["case"] for row in robust] == ["mlp 256", "cnn 256"]
    assert all(list(row["seconds"]) == [training.DPSGD, training.TRIMMED] for row in robust)


def test_the_sums_agree():
    """Goals of speed may be missed, and the page then says so; a wrong sum may not."""
    goal = training.goals(ROWS)[-1]
    assert "sums of opacus" in goal.text
    assert goal.met
    assert goal.measured > 0.0


def made_up(plain, ours, theirs):
    names = dict.fromkeys(training.PEERS, theirs)
    seconds = {training.PLAIN: plain, training.OURS: ours, **names}
    rows = []
    for name, size in training.CASES:
        case = f"{name} {size}"
        differences = dict.fromkeys(training.PEERS, 1e-7)
        rows += [{"task": "cpu", "case": case, "seconds": seconds, "differences": differences, "keeps_memory": False}]
        rows += [{"task": "memory", "case": case, "mebibytes": seconds}]
    rows += [{"task": "stacked cpu", "case": f"mlp 256, {training.STACKED} models", "seconds": seconds}]
    times = {training.DPSGD: plain, training.TRIMMED: 1.04 * plain}
    rows += [{"task": "robust cpu", "case": f"{name} 256", "seconds": times} for name in ("mlp", "cnn")]
    return rows


def test_goals_are_judged_from_the_rows():
    assert [goal.met for goal in training.goals(made_up(1.0, 0.85, 1.8))] == [True] * 14
    judged = training.goals(made_up(1.0, 1.27, 2.6))
    assert [goal.met for goal in judged] == [
        True,
        True,
        False,
        False,
        *[True] * 4,
        False,
        False,
        False,
        True,
        True,
        True,
    ]
    judged = training.goals(made_up(1.0, 1.0, 1.5))
    assert [goal.met for goal in judged[4:8]] == [False, False, True, False]
    rows = made_up(1.0, 0.85, 1.8)
    rows[0]["differences"] = {"opacus hooks": 1e-3}
    assert not training.goals(rows)[-1].met
    rows[-1]["seconds"] = {training.DPSGD: 1.0, training.TRIMMED: 1.06}
    assert [goal.met for goal in training.goals(rows)[-3:]] == [True, False, False]


def test_the_best_of_the_peers_counts_whichever_way_memory_is_kept():
    rows = made_up(1.0, 0.85, 1.8)
    quick = {**rows[0]["seconds"], "opacus ghost clipping": 0.9}
    rows.append({**rows[0], "seconds": quick, "keeps_memory": True})
    goal = training.goals(rows)[4]
    assert goal.measured == pytest.approx(0.85 / 0.9)
    assert not goal.met


def test_tables():
    made = training.tables({"rows": made_up(0.002, 0.0025, 0.005)})
    assert [title for title, *_ in made] == [
        training.TITLES[task] for task in ("cpu", "stacked cpu", "robust cpu", "memory")
    ]
    _, _, head, rows = made[0]
    assert head[:3] == ["Model, batch", "not private", "dpml"]
    assert rows[0][:3] == ["mlp 256", "2 ms", "2.5 ms (1.25×)"]
    assert len(training.tables(RECORD)) == 6


@pytest.mark.parametrize("name", ["mlp", "cnn", "resnet"])
def test_contestants_that_clip_nothing_agree(name, monkeypatch):
    monkeypatch.setattr(training, "CLIP_NORM", 1e9)
    steps = training.contestants(name, 4, torch.device("cpu"), [])
    assert training.difference(steps[training.OURS](), steps[training.PLAIN]()) < 1e-5
