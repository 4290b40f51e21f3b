"""Teachers, votes and students: who sees what, and what one record can change."""

import numpy as np
import pytest
import torch

from dpml.training import ensemble, stacked_networks
from tests.training.helpers import refuses, seeded


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.2, momentum=0.9)


def records(count, seed=0):
    """Three classes: the brightest of three groups of pixels."""
    x = torch.randn(count, 1, 2, 3, generator=seeded(seed))
    return x, x.sum((1, 2)).argmax(1)


TRAINING = {"steps": 30, "batch": 8, "optimizer": sgd, "hidden": 6, "classes": 3}


@pytest.mark.parametrize(("n", "count"), [(10, 3), (12, 4), (5, 5), (7, 1)])
def test_shards_are_disjoint_and_cover_everything(n, count):
    shards = ensemble.disjoint_shards(n, teachers=count, generator=seeded(0))
    assert sorted(torch.cat(shards).tolist()) == list(range(n))
    sizes = [len(shard) for shard in shards]
    assert len(sizes) == count
    assert max(sizes) - min(sizes) <= 1


def test_one_record_changes_one_teacher_and_moves_at_most_one_vote():
    x, y = records(60)
    public, _ = records(200, seed=1)
    teachers = ensemble.train_teachers(x, y, teachers=6, generator=seeded(3), **TRAINING)
    votes = ensemble.vote_counts(teachers.stack, x=public)
    moved = 0
    for record in (0, 17, 59):
        other_x, other_y = x.clone(), y.clone()
        other_x[record], other_y[record] = 50.0 * torch.tensor([-1.0, 1.0, 0.0]), 2
        other = ensemble.train_teachers(other_x, other_y, teachers=6, generator=seeded(3), **TRAINING)
        changed = (other.stack.parameters != teachers.stack.parameters).any(1).nonzero().flatten().tolist()
        assert changed == [k for k, shard in enumerate(teachers.shards) if record in shard]
        difference = ensemble.vote_counts(other.stack, x=public) - votes
        assert np.abs(difference).sum(axis=1).max() <= 2
        assert (difference.sum(axis=1) == 0).all()
        moved += int(np.abs(difference).sum())
    assert moved > 0, "the records should matter"


def test_votes_are_those_of_the_networks_one_by_one():
    x, y = records(40)
    teachers = ensemble.train_teachers(x, y, teachers=4, generator=seeded(0), **TRAINING)
    votes = ensemble.vote_counts(teachers.stack, x=x)
    expected = np.zeros((40, 3), dtype=np.int64)
    for model in stacked_networks.unstack(teachers.stack):
        expected[np.arange(40), model(x).argmax(1).numpy()] += 1
    np.testing.assert_array_equal(votes, expected)
    assert votes.dtype == np.int64


def test_a_student_sees_its_labelled_images_only():
    x, y = records(50)
    labels = np.where(np.arange(50) % 2 == 0, y.numpy(), -1)
    student = ensemble.train_students(x, labels=labels, generator=seeded(0), **TRAINING)
    changed = x.clone()
    changed[1::2] = 1000.0
    again = ensemble.train_students(changed, labels=labels, generator=seeded(0), **TRAINING)
    assert torch.equal(student.parameters, again.parameters)
    changed[0] = 0.0
    again = ensemble.train_students(changed, labels=labels, generator=seeded(0), **TRAINING)
    assert not torch.equal(student.parameters, again.parameters)


def test_students_do_not_depend_on_their_companions():
    x, y = records(50)
    first, second = y.numpy(), np.where(np.arange(50) < 20, 2 - y.numpy(), -1)
    both = ensemble.train_students(x, labels=np.stack([first, second]), generator=seeded(0), **TRAINING)
    other = ensemble.train_students(x, labels=np.stack([first, first]), generator=seeded(0), **TRAINING)
    torch.testing.assert_close(both.parameters[0], other.parameters[0], rtol=1e-5, atol=1e-6)
    assert not torch.allclose(both.parameters[1], other.parameters[1])
    accuracies = ensemble.accuracy(both, x=x, y=y)
    predicted = torch.stack([model(x).argmax(1) for model in stacked_networks.unstack(both)])
    np.testing.assert_allclose(accuracies, (predicted == y).float().mean(1).numpy(), rtol=1e-7)
    assert accuracies[0] > 0.9


X, Y = records(12)
LABELS = Y.numpy()
NO_LABELS = (None, "a", 1, LABELS[:5], LABELS + 1, LABELS - 2, LABELS / 2, np.full(12, -1), [], [True] * 12)
NO_LABELS += (np.stack([LABELS, np.full(12, -1)]), np.zeros((1, 1, 12), int), np.zeros((0, 12), int))


def test_what_is_refused():
    teachers = {"x": X, "y": Y, "teachers": 2, "generator": seeded(0), **TRAINING}
    no_images = (X.double(), X.numpy(), X[:0], X[:, 0, 0, 0], torch.full_like(X, torch.nan))
    no_counts = {"teachers": (13, 0, 2.0, None), "steps": (0,), "batch": (0, None), "hidden": (0,), "classes": (1,)}
    refuses(ensemble.train_teachers, teachers, x=no_images, y=(Y[:5], Y.float(), Y + 1, Y - 1, Y.tolist()), **no_counts)
    refuses(ensemble.train_teachers, teachers, optimizer=(0.1,), generator=(0,))
    refuses(ensemble.train_students, {"x": X, "generator": seeded(0), **TRAINING}, labels=NO_LABELS)
    refuses(ensemble.disjoint_shards, {"teachers": 1, "generator": seeded(0)}, n=(0, 2.0))
    with pytest.raises(ValueError, match=r"^stacked must be a Stack, .* got Linear"):
        ensemble.vote_counts(torch.nn.Linear(2, 2), x=X)
    student = ensemble.train_students(X, labels=LABELS, generator=seeded(0), **{**TRAINING, "steps": 1})
    refuses(ensemble.accuracy, {"networks": student, "x": X, "y": Y}, x=(X[:, :, :1],), y=(Y[:3],))
