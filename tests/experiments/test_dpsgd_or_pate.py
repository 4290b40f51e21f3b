"""The recorded DP-SGD side of chapter 09: its tiny preset runs, resumes, and keeps its budget."""

import json

import pytest
import torch

from dpml.accounting import pld
from experiments import dpsgd_or_pate, pate_fashion


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    path = tmp_path_factory.mktemp("dpsgd") / "results.json"
    return path, dpsgd_or_pate.run("tiny", into=path)


def test_every_row_is_there_and_within_its_budget(recorded):
    path, part = recorded
    preset = pate_fashion.PRESETS["tiny"]
    assert [(row["epsilon"], row["seed"]) for row in part["rows"]] == [(8.0, 0), (8.0, 1)]
    for row in part["rows"]:
        q = 256 / preset.private
        spent = pld.epsilon(q=q, sigma=row["sigma"], steps=row["steps"], delta=pate_fashion.DELTA)
        assert spent.epsilon == pytest.approx(row["epsilon_spent"], rel=1e-9)
        assert 0.99 * row["epsilon"] < row["epsilon_spent"] <= row["epsilon"]
    assert json.loads(path.read_text(encoding="utf-8"))["tiny"] == part


def test_an_interrupted_run_goes_on_and_ends_the_same(recorded, tmp_path):
    path, part = recorded
    content = json.loads(path.read_text(encoding="utf-8"))
    content["tiny"]["rows"] = []
    again = tmp_path / "again.json"
    again.write_text(json.dumps(content), encoding="utf-8")
    rows = dpsgd_or_pate.run("tiny", into=again)["rows"]
    assert [row["accuracy"] for row in rows] == [row["accuracy"] for row in part["rows"]]


def test_only_private_records_are_seen(monkeypatch):
    """The shards that training gets are the private part of the split of the PATE experiment."""
    preset = pate_fashion.PRESETS["tiny"]
    images = pate_fashion.images("tiny", None)
    seen = []
    original = dpsgd_or_pate.stacked.train
    monkeypatch.setattr(dpsgd_or_pate.stacked, "train", lambda *a, **k: seen.append(k["shards"]) or original(*a, **k))
    dpsgd_or_pate.train(images, preset, [dpsgd_or_pate.Job(1, 8.0)], steps=1, rate=0.1)
    work = pate_fashion.split(images, preset, seed=1)
    assert torch.equal(images[0][seen[0][0]], work.x)
