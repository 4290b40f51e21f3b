"""Corruption: only the chosen examples, from a seed, and faulty gradients as if formed one by one."""

import math

import pytest
import torch
from torch import nn

from dpml.training import corruption, dp_sgd, tsgd
from dpml.training.per_example import PerExample, per_example_gradients
from tests.training.helpers import cross_entropy, flat, refuses, seeded, train


def setting(n=20):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 5)).double()
    x = torch.randn(n, 4, generator=seeded(1), dtype=torch.float64)
    return model, x, torch.randint(5, (n,), generator=seeded(2))


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.25, 1.0])
def test_only_the_chosen_fraction_changes(fraction):
    y = torch.randint(26, (1000,), generator=seeded())
    x = torch.randn(1000, 7, generator=seeded())
    kept = y.clone(), x.clone()
    for changed, before in (
        (corruption.flipped_labels(y, fraction=fraction, classes=26, generator=seeded(5)), y),
        (corruption.targeted_labels(y, fraction=fraction, classes=26, generator=seeded(5)), y),
        (corruption.noisy_features(x, fraction=fraction, generator=seeded(5)), x),
    ):
        assert len(changed.ids) == round(1000 * fraction) and torch.equal(changed.ids, changed.ids.unique())
        differs = (changed.data != before).reshape(1000, -1).any(1).nonzero().squeeze(1)
        assert torch.equal(differs, changed.ids)
        assert changed.data.dtype == before.dtype
    assert torch.equal(y, kept[0]) and torch.equal(x, kept[1]), "the arguments are not changed"


def test_labels_and_features_follow_their_laws():
    y = torch.full((20_000,), 3)
    flipped = corruption.flipped_labels(y, fraction=1.0, classes=5, generator=seeded(1)).data
    counts = torch.bincount(flipped, minlength=5)
    assert counts[3] == 0 and (counts[[0, 1, 2, 4]] - 5000).abs().max() < 5 * math.sqrt(20_000 * 0.25 * 0.75)
    targeted = corruption.targeted_labels(torch.arange(26), fraction=1.0, classes=26, generator=seeded()).data
    assert torch.equal(targeted, 25 - torch.arange(26))
    noise = corruption.noisy_features(torch.zeros(2000, 10), fraction=1.0, generator=seeded(2)).data
    assert abs(float(noise.std()) - 10.0) < 0.3 and abs(float(noise.mean())) < 0.4


def test_the_same_seed_chooses_the_same_examples():
    first, second, other = (corruption.chosen(500, fraction=0.2, generator=seeded(s)) for s in (3, 3, 4))
    assert torch.equal(first, second) and not torch.equal(first, other)


@pytest.mark.parametrize("kind", ["noisy", "flipped"])
def test_faulty_gradients_are_those_of_gradients_formed_one_by_one(kind):
    model, x, y = setting()
    bad = torch.tensor([1, 4, 5, 17])
    if kind == "noisy":
        corrupt = corruption.noisy_gradients(bad, n=20, generator=seeded(9), variance=4.0)
    else:
        corrupt = corruption.flipped_gradients(bad, n=20)
    some = torch.tensor([0, 1, 2, 5, 9, 17, 19])
    chunk = PerExample(model, cross_entropy, x[some], y[some])
    found = corrupt(chunk, some)
    naive = {name: g.clone() for name, g in per_example_gradients(model, cross_entropy, x[some], y[some]).items()}
    rows, generator = torch.tensor([1, 3, 5]), seeded(9)
    for g in naive.values():
        if kind == "noisy":
            g[rows] += 2.0 * torch.empty_like(g[rows]).normal_(generator=generator)
        else:
            g[rows] *= -1.0
    norms = sum(g.flatten(1).square().sum(1) for g in naive.values()).sqrt()
    torch.testing.assert_close(found.norms, norms, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found.losses, chunk.losses)
    weights = torch.rand(7, generator=seeded(3), dtype=torch.float64)
    for name, total in found.sum(weights).items():
        torch.testing.assert_close(total, torch.tensordot(weights, naive[name], 1), rtol=1e-12, atol=1e-12)
    honest = torch.tensor([0, 2, 3])
    untouched = corrupt(PerExample(model, cross_entropy, x[honest], y[honest]), honest)
    torch.testing.assert_close(untouched.norms, PerExample(model, cross_entropy, x[honest], y[honest]).norms)


def run(mechanism, ids, **changes):
    model, x, y = setting()
    faulty = corruption.flipped_gradients(torch.tensor(ids, dtype=torch.int64), n=20)
    train(model, x, y, mechanism=mechanism, corrupt=faulty, steps=6, **changes)
    return flat(model)


@pytest.mark.parametrize("mechanism", [dp_sgd(sigma=0.0, clip_norm=10.0), tsgd(sigma=0.0, clip_norm=10.0, trim=2)])
def test_training_sees_the_faulty_gradients(mechanism):
    """All signs flipped is gradient ascent; none flipped is the ordinary run; both by the same samples."""
    start = flat(setting()[0])
    model, x, y = setting()
    train(model, x, y, mechanism=mechanism, steps=6)
    plain = flat(model)
    torch.testing.assert_close(run(mechanism, []), plain)
    pieces, whole = run(mechanism, range(20), micro_batch=4), run(mechanism, range(20))
    torch.testing.assert_close(pieces, whole, rtol=1e-9, atol=1e-9)
    assert float((plain - start) @ (whole - start)) < 0


def test_what_is_refused(tmp_path):
    y, x, some = torch.arange(5), torch.zeros(5, 2), {"fraction": 0.1, "generator": seeded()}
    refuses(corruption.chosen, {"n": 5, **some}, n=(0,), fraction=(1.1,), generator=(None,))
    refuses(corruption.flipped_labels, {"y": y, "classes": 4, **some}, y=(y, x, [1]), classes=(1,))
    refuses(corruption.targeted_labels, {"y": y, "classes": 5, **some}, y=(x,), classes=(1,))
    refuses(corruption.noisy_features, {"x": x, **some}, x=(y,), variance=(0.0,))
    refuses(
        corruption.flipped_gradients, {"n": 20}, ids=(torch.tensor([20]), torch.tensor([-1]), torch.tensor([0.5]), [1])
    )
    for bad in ({"corrupt": lambda chunk, ids: chunk, "checkpoint": tmp_path / "a.pt"}, {"corrupt": 1.0}):
        with pytest.raises(ValueError, match=r"^corrupt must"):
            train(*setting(), **bad)
