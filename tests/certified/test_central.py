"""The central route: its gradients are those of the adversarial objective, its guarantee that of DP-SGD, its bar."""

import functools
import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from dpml import data
from dpml.accounting import pld
from dpml.certified import attacks, pixeldp, smoothing
from dpml.certified.stobatch import baselines, central
from dpml.training import dp_sgd, sgd
from dpml.training.per_example import PerExample, per_example_gradients
from dpml.training.sampling import Poisson
from tests.training.helpers import cross_entropy, refuses, seeded

DIGITS = data.digits()
IMAGES = np.concatenate([DIGITS.train_images, DIGITS.test_images]).reshape(-1, 64) / 8.0 - 1.0
LABELS = np.concatenate([DIGITS.train_labels, DIGITS.test_labels]).astype(np.int64)
ORDER = np.random.default_rng(0).permutation(len(LABELS))
X, Y = torch.from_numpy(IMAGES[ORDER]).float(), torch.from_numpy(LABELS[ORDER])


def network(seed=0):
    return central.network(dimension=64, hidden=32, classes=10, generator=seeded(seed))


def train(model, x=X[:1437], y=Y[:1437], *, seed=0, steps=400, mechanism=None, **changes):
    given = {
        "mechanism": mechanism or dp_sgd(sigma=2.0, clip_norm=1.0),
        "sampling": Poisson(q=0.1, expected_batch=144),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.5),
        "delta": 1e-5,
        "generator": seeded(seed),
        "trace_every": steps,
        **{"xi": 1.0, "noise": 0.5, "size": 0.1, **changes},
    }
    return central.train(model, x, y, steps=steps, **given)


@pytest.fixture(scope="module")
def run():
    return train(network())


def by_smoothing(model, x, *, alpha=1e-3, seed=0):
    given = {"sigma": 0.5, "draws": 1000, "alpha": alpha, "classes": 10, "rng": np.random.default_rng(seed)}
    found = smoothing.certify(central.predictor(model), x=x.numpy(), **given)
    return found.labels, found.radii


def by_pixeldp(model, x, *, alpha=1e-3, seed=0):
    given = {"noise": 0.5, "draws": 1000, "eta": alpha, "delta": 1e-5, "rng": np.random.default_rng(seed)}
    found = baselines.certify(model, x, **given)
    return found.labels, found.sizes


def test_the_bar_on_digits(run):
    """At epsilon 4.9: accuracy, and certified accuracy at l2 0.25, on images that were not trained on."""
    model, x, y = run.model, X[1437:], Y[1437:]
    assert run.guarantee == dp_sgd(sigma=2.0, clip_norm=1.0).guarantee(
        sampling=Poisson(q=0.1, expected_batch=144), n=1437, steps=400, delta=1e-5
    )
    assert run.guarantee.epsilon == pytest.approx(pld.epsilon(q=0.1, sigma=2.0, steps=400, delta=1e-5).epsilon)
    assert run.guarantee.epsilon < 5.34
    assert float((model(x).argmax(1) == y).double().mean()) >= 0.92
    labels, radii = by_smoothing(model, x)
    assert pixeldp.certified_accuracy(radii, correct=labels == y.numpy(), size=0.25) >= 0.78
    also, sizes = by_pixeldp(model, x)  # from the same noise: a bound on what smoothing gives exactly
    most = pixeldp.certified_accuracy(radii, correct=labels == y.numpy(), size=0.15)
    assert 0.0 < pixeldp.certified_accuracy(sizes, correct=also == y.numpy(), size=0.15) < most - 0.05


@pytest.mark.parametrize("certify", [by_smoothing, by_pixeldp])
def test_no_attack_within_a_certificate_changes_the_label(run, certify):
    """1,000 attacks in l2 at the whole size, against the mean over other draws of the noise; farther out most do."""
    x = X[1437:1537]
    labels, sizes = certify(run.model, x, alpha=1e-8)
    chosen = np.resize(np.flatnonzero(sizes > 0), 1000)
    assert len(set(chosen.tolist())) >= 60
    start, noise = x[chosen], 0.5 * torch.randn(8, 1, 64, generator=seeded())

    def smoothed(z):
        return run.model(z[None] + noise).softmax(2).mean(0).log()

    how = {"size": 1.0, "steps": 5, "norm": attacks.L_2, "generator": seeded(1)}
    nll = functools.partial(functional.nll_loss, reduction="none")
    step = attacks.pgd(smoothed, nll, start, torch.from_numpy(labels[chosen]), **how) - start
    step = step / step.norm(dim=1, keepdim=True)
    moved = start + step * torch.from_numpy(sizes[chosen]).float()[:, None]
    again, _ = certify(run.model, moved.clamp(-1.0, 1.0), alpha=1e-8, seed=1)
    sure = again != smoothing.ABSTAIN
    assert sure.sum() >= 500 and np.array_equal(again[sure], labels[chosen][sure])
    beyond, _ = certify(run.model, (start + 4.0 * step)[:100].clamp(-1.0, 1.0), seed=1)
    assert np.mean(beyond != labels[chosen][:100]) > 0.5


def test_the_gradient_of_an_example_is_that_of_its_two_views():
    """Norms and sums against one gradient after another, formed from the definition."""
    model = network().double()
    views = torch.rand(7, 2, 64, dtype=torch.float64, generator=seeded(1)) * 2 - 1
    losses = central.view_losses((1.0, 0.5))
    chunk = PerExample(model, losses, views, Y[:7])

    first, second = (per_example_gradients(model, cross_entropy, views[:, v], Y[:7]) for v in (0, 1))
    expected = torch.cat([((first[name] + 0.5 * second[name]) / 1.5).flatten(1) for name in first], 1)
    torch.testing.assert_close(chunk.norms, expected.norm(dim=1))
    sums = chunk.sum(torch.arange(7, dtype=torch.float64))
    total = torch.cat([sums[name].reshape(-1) for name in first])
    torch.testing.assert_close(total, torch.arange(7, dtype=torch.float64) @ expected)


def test_an_adversarial_example_depends_on_its_own_example_alone():
    model = network().double()
    augment = central.adversarial_views(model, noise=0.0, size=0.3, steps=3)
    x = X[:6].double()
    torch.manual_seed(0)
    whole = augment(x, Y[:6])
    other = x.clone()
    other[5] = -other[5]
    torch.manual_seed(0)
    changed = augment(other, (Y[:6] + 1) % 10)
    torch.testing.assert_close(whole[:5], changed[:5])
    assert torch.equal(whole[:, 0], x)
    moved = (whole[:, 1] - x).abs().amax(1)
    assert float(moved.max()) <= 0.3 and len(set(moved.tolist())) == 6, "each has its own size"


def test_attacked_views_are_harder_and_noise_is_fresh():
    model = train(network(), mechanism=sgd(), steps=100).model
    attacked = central.adversarial_views(model, noise=0.0, size=1.0, steps=2)(X[:200], Y[:200])
    own = model(X[:200]).argmax(1)
    before, after = (functional.cross_entropy(model(attacked[:, v]), own) for v in (0, 1))
    assert float(after.detach()) > float(before.detach()) + 0.1
    noisy = central.adversarial_views(model, noise=0.5, size=0.0, steps=1)(X[:500], Y[:500])
    noise = noisy - X[:500, None]
    assert float(noise.std()) == pytest.approx(0.5, rel=5 / math.sqrt(2 * noise.numel()))
    both = torch.corrcoef(noise.permute(1, 0, 2).flatten(1))[0, 1]
    assert abs(float(both)) < 5 / math.sqrt(noise[:, 0].numel())


def test_scores_without_views_have_their_own_loss():
    scores = torch.randn(4, 10, generator=seeded())
    losses = central.view_losses((1.0, 3.0))
    plain = cross_entropy(scores, Y[:4])
    torch.testing.assert_close(losses(scores, Y[:4]), plain)
    torch.testing.assert_close(losses(torch.stack([scores, scores], 1), Y[:4]), plain)


def test_what_is_refused():
    no_images = 2 * X[:1437], X[:1437].view(-1, 8, 8), None
    bad = {"xi": (-0.1,), "noise": (math.inf,), "size": (-0.1,), "steps": ({"attack_steps": 0},)}
    refuses(train, {"model": network()}, x=no_images, **bad)
    refuses(central.view_losses, {}, weights=((), (0.0, 0.0), (1.0, -1.0), 1.0))


def test_a_diverged_network_predicts_nothing():
    diverged = network()
    with torch.no_grad():
        diverged[-1].bias.fill_(math.nan)
    with pytest.raises(ValueError, match=r"^model must return finite scores"):
        central.predictor(diverged)(X[:3].numpy())
