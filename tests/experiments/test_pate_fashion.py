"""The recorded PATE experiment: its tiny preset runs, resumes, and keeps the rules that its rows claim."""

import json

import numpy as np
import pytest

from dpml.pate import student
from dpml.training import ensemble
from experiments import pate_fashion


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    path = tmp_path_factory.mktemp("pate") / "results.json"
    return path, pate_fashion.run("tiny", into=path, quiet=True)


def test_every_row_is_there(recorded):
    path, part = recorded
    preset = pate_fashion.PRESETS["tiny"]
    assert len(part["rows"]) == len(preset.teachers) * len(preset.seeds) * (5 * len(preset.epsilons) + 1)
    assert part["command"].endswith("--preset tiny")
    for row in part["rows"]:
        assert 0 <= row["student_accuracy"] <= 1
        assert 0 <= row["answered"] <= row["asked"] <= preset.public
        if row.get("epsilon_data_dependent") is not None:
            assert 0 < row["epsilon_data_dependent"] <= row["epsilon"] * (1 + 1e-9)
    assert json.loads(path.read_text(encoding="utf-8"))["tiny"] == part


def test_an_interrupted_run_goes_on_and_ends_the_same(recorded, tmp_path):
    path, part = recorded
    content = json.loads(path.read_text(encoding="utf-8"))
    content["tiny"]["rows"] = [row for row in part["rows"] if (row["teachers"], row["seed"]) != (20, 1)]
    del content["tiny"]["ceiling"]["1"]
    again = tmp_path / "again.json"
    again.write_text(json.dumps(content), encoding="utf-8")
    resumed = pate_fashion.run("tiny", into=again, quiet=True)

    def numbers(rows):
        return [{k: v for k, v in row.items() if not k.startswith("cpu_seconds")} for row in rows]

    assert numbers(resumed["rows"]) == numbers(part["rows"])
    assert resumed["ceiling"] == part["ceiling"]


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
@pytest.mark.parametrize("name", pate_fashion.MECHANISMS)
def test_the_noise_spends_the_budget_and_no_more(name, epsilon):
    """By the functions that state guarantees, from the noise that the row records."""
    votes = np.tile([[180, 40, 30]], (300, 1))
    number = 10
    given = pate_fashion.MECHANISMS[name](votes, number=number, epsilon=epsilon, rng=np.random.default_rng(0))
    delta = pate_fashion.DELTA
    if name == "noisy argmax":
        spent = student.laplace_student(queries=number, scale=given.noise["scale"], delta=delta).epsilon
    elif name == "GNMax":
        spent = student.gnmax_student(queries=number, sigma=given.noise["sigma"], delta=delta).epsilon
    elif name == "confident GNMax":
        noise = {key: given.noise[key] for key in ("sigma", "sigma_threshold")}
        spent = student.confident_student(asked=20, answered=number, delta=delta, **noise).epsilon
        assert given.asked <= 20
        assert (given.labels >= 0).sum() <= number
    elif name == "M_stab":
        one = given.noise
        spent = pate_fashion.composition.optimal(
            epsilon=one["epsilon"], delta=one["delta"] / 2, k=number, total_delta=delta
        ).epsilon
    else:
        assert given.noise == {"cutoff": number}
        assert given.asked <= 300
        return
    assert 0.99 * epsilon < spent <= epsilon * (1 + 1e-9)


def test_an_aggregator_stops_at_its_limit_of_answers():
    sure, torn = [250, 0, 0], [84, 83, 83]
    votes = np.array([sure, torn] * 100)
    given = pate_fashion.confident(votes, number=50, epsilon=100.0, rng=np.random.default_rng(0))
    assert (given.labels[:100:2] == 0).all()
    assert (given.labels[1::2] == -1).all()
    assert given.asked == 99, "the fiftieth answer is the last"
    assert (given.labels[given.asked :] == -1).all()


def test_the_student_never_sees_true_labels(monkeypatch):
    """All that training a student gets are public images and released labels."""
    seen = []
    train = ensemble.train_students

    def spy(x, *, labels, **others):
        seen.append((x, labels))
        return train(x, labels=labels, **others)

    monkeypatch.setattr(ensemble, "train_students", spy)
    preset = pate_fashion.PRESETS["tiny"]
    work = pate_fashion.split(pate_fashion.images("tiny", None), preset, seed=0)
    table = {name: {"8": {"10": 1.0}} for name in pate_fashion.MECHANISMS}
    pate_fashion.block(work, preset, teachers=20, seed=0, table=table)
    other = work._replace(public_y=(work.public_y + 1) % 10)
    pate_fashion.block(other, preset, teachers=20, seed=0, table=table)
    (x, labels), (other_x, other_labels) = seen
    assert x is work.public_x
    assert other_x is work.public_x
    np.testing.assert_array_equal(labels, other_labels)


def test_private_public_and_test_images_are_disjoint():
    preset = pate_fashion.PRESETS["subset"]
    work = pate_fashion.split(pate_fashion.images("subset", None), preset, seed=3)
    assert (len(work.x), len(work.public_x), len(work.test_x)) == (8000, 2000, 2000)
    whole = np.concatenate([work.x.numpy(), work.public_x.numpy()]).reshape(10_000, -1)
    expected = pate_fashion.images("subset", None)[0].numpy().reshape(10_000, -1)
    np.testing.assert_allclose(np.sort(whole.sum(1)), np.sort(expected.sum(1)), rtol=0, atol=0)


@pytest.mark.parametrize("name", ["subset", "full"])
def test_the_recorded_rows_are_those_of_the_settings_in_the_code(name):
    part = json.loads(pate_fashion.RESULTS.read_text(encoding="utf-8"))[name]
    preset = pate_fashion.PRESETS[name]
    assert part["settings"]["numbers"] == {key: list(value) for key, value in pate_fashion.NUMBERS.items()}
    assert {key: part["settings"][key] for key in preset._fields} == json.loads(json.dumps(preset._asdict()))
    found = [(row["teachers"], row["seed"], row["mechanism"], row["epsilon"]) for row in part["rows"]]
    cells = [(name, epsilon) for name in pate_fashion.MECHANISMS for epsilon in preset.epsilons]
    cells.append(("plurality, not private", None))
    assert found == [(k, seed, *cell) for k in preset.teachers for seed in preset.seeds for cell in cells]
    assert len(part["ceiling"]) == len(preset.seeds)


@pytest.mark.parametrize("name", ["subset", "full"])
def test_the_recorded_noise_is_that_of_the_account_in_the_code(name):
    """Each noisy row spends its epsilon for any votes: with a tenth of a per cent less noise it would spend more."""
    part = json.loads(pate_fashion.RESULTS.read_text(encoding="utf-8"))[name]
    assert part["settings"]["laplace_account"] == pate_fashion.LAPLACE_ACCOUNT
    delta = pate_fashion.DELTA
    seen = set()
    for row in part["rows"]:
        if row["mechanism"] in {"noisy argmax", "GNMax"}:
            seen.add((row["mechanism"], row["epsilon"], row["number"], *row["noise"].values()))
    assert {one[:2] for one in seen} == {(m, e) for m in ("noisy argmax", "GNMax") for e in (1.0, 3.0, 8.0)}
    for mechanism, epsilon, number, noise in seen:

        def spent(noise, mechanism=mechanism, number=number):
            if mechanism == "GNMax":
                return student.gnmax_student(queries=number, sigma=noise, delta=delta).epsilon
            return student.laplace_student(queries=number, scale=noise, delta=delta).epsilon

        assert spent(noise) <= epsilon * (1 + 1e-9)
        assert spent(0.999 * noise) > epsilon
