"""The PATE experiment keeps the rules that its rows claim."""

import numpy as np
import pytest

from dpml.training import ensemble
from experiments import pate_fashion
from tests.experiments.claims import SPENT


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
@pytest.mark.parametrize("name", pate_fashion.MECHANISMS)
def test_the_noise_spends_the_budget_and_no_more(name, epsilon):
    """M_svec has its budget by itself, and counts failures."""
    votes = np.tile([[180, 40, 30]], (300, 1))
    given = pate_fashion.MECHANISMS[name](votes, number=10, epsilon=epsilon, rng=np.random.default_rng(0))
    if name == "M_svec":
        assert given.noise == {"cutoff": 10} and given.asked <= 300
    else:
        assert given.asked <= 20 and (given.labels >= 0).sum() <= 10
        assert 0.99 * epsilon < SPENT[name](10, **given.noise).epsilon <= epsilon * (1 + 1e-9)


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
