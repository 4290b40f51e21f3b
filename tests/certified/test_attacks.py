"""The attacks climb the loss, stay in the ball and in the range, and leave the model alone."""

import functools
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from dpml.certified import attacks
from tests.training.helpers import refuses, seeded

LOSS = functools.partial(functional.cross_entropy, reduction="none")
NORMS = [attacks.L_INF, attacks.L_2]


def run(name, *args, steps=5, **more):
    extra = {"fgsm": {}, "pgd": {"steps": steps, "generator": seeded()}}.get(name, {"steps": steps})
    return getattr(attacks, name)(*args, **extra, **more)


ALL = ["fgsm", "ifgsm", "mim", "pgd"]


def network(seed=0, inputs=12, classes=4):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 16), nn.Tanh(), nn.Linear(16, classes))


def batch(seed=0, n=30, shape=(3, 4), classes=4, dtype=torch.float32):
    x = torch.rand((n, *shape), generator=seeded(seed), dtype=dtype) * 2.0 - 1.0
    return x, torch.randint(0, classes, (n,), generator=seeded(seed + 1))


class Linear(nn.Module):
    """Two classes and one row of weights: the loss of class 0 grows along the weights, for ever."""

    def __init__(self, weights):
        super().__init__()
        self.weights = nn.Parameter(weights)

    def forward(self, x):
        return torch.stack([torch.zeros(len(x), dtype=x.dtype), x.flatten(1) @ self.weights], dim=1)


@pytest.mark.parametrize("name", ["fgsm", "ifgsm", "mim"])
def test_on_a_linear_model_the_best_perturbation_is_known(name):
    weights = torch.tensor([3.0, -4.0, 0.0, 12.0], dtype=torch.float64)
    x, y = torch.zeros((5, 4), dtype=torch.float64), torch.zeros(5, dtype=torch.int64)
    for norm, best in ((attacks.L_INF, weights.sign()), (attacks.L_2, weights / 13.0)):
        found = run(name, Linear(weights), LOSS, x, y, norm=norm, size=0.3)
        assert torch.allclose(found, 0.3 * best.expand(5, 4), atol=1e-14)
    bounded = run(name, Linear(weights), LOSS, x, y, norm=attacks.L_INF, size=0.3, low=-0.1, high=0.2)
    assert torch.allclose(bounded, torch.tensor([0.2, -0.1, 0.0, 0.2], dtype=torch.float64).expand(5, 4), atol=1e-14)


def test_pgd_reaches_the_corner_of_a_linear_model_from_anywhere():
    weights = torch.tensor([3.0, -4.0, 1e-3, 12.0], dtype=torch.float64)
    x, y = torch.zeros((200, 4), dtype=torch.float64), torch.zeros(200, dtype=torch.int64)
    found = run("pgd", Linear(weights), LOSS, x, y, norm=attacks.L_INF, size=0.3, steps=10)
    assert torch.allclose(found, 0.3 * weights.sign().expand(200, 4), atol=1e-14)
    found = run("pgd", Linear(weights), LOSS, x, y, norm=attacks.L_2, size=0.3, steps=60)
    along = found @ (weights / 13.0)
    assert along.min() > 0.0 and along.mean() > 0.97 * 0.3


@pytest.mark.parametrize("norm", NORMS, ids=lambda norm: norm.name)
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_within_the_ball_and_the_range_and_the_loss_grows(name, norm, dtype):
    model, (x, y) = network().to(dtype), batch(dtype=dtype)
    before = LOSS(model(x), y).mean()
    for size in (0.0, 1e-3, 0.2, 5.0):
        found = run(name, model, LOSS, x, y, norm=norm, size=size)
        assert found.shape == x.shape and found.dtype == dtype and not found.requires_grad
        assert found.min() >= -1.0 and found.max() <= 1.0
        lengths = norm.lengths((found - x).flatten(1))
        assert lengths.max() <= size * (1.0 + 1e-5) + 1e-6
        if size > 0.0:
            assert LOSS(model(found), y).mean() > before
        else:
            assert torch.allclose(found, x, atol=1e-6)


@pytest.mark.parametrize("name", ALL)
def test_nothing_but_the_generator_is_moved(name):
    model, (x, y) = network(), batch()
    kept, global_state = x.clone(), torch.random.get_rng_state()
    model[2].eval()
    modes = [layer.training for layer in model.modules()]
    with torch.no_grad():
        first = run(name, model, LOSS, x, y, norm=attacks.L_INF, size=0.1)
    assert torch.equal(first, run(name, model, LOSS, x, y, norm=attacks.L_INF, size=0.1))
    assert torch.equal(x, kept) and all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(torch.random.get_rng_state(), global_state)
    assert [layer.training for layer in model.modules()] == modes


def test_pgd_depends_on_its_generator_alone():
    model, (x, y) = network(), batch()
    found = [attacks.pgd(model, LOSS, x, y, size=0.1, steps=1, generator=seeded(seed)) for seed in (1, 1, 2)]
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])


@pytest.mark.parametrize("norm", NORMS, ids=lambda norm: norm.name)
@pytest.mark.parametrize("name", ["fgsm", "ifgsm", "mim"])
def test_each_image_is_attacked_on_its_own(monkeypatch, name, norm):
    model, (x, y) = network().double(), batch(dtype=torch.float64)
    whole = run(name, model, LOSS, x, y, norm=norm, size=0.2)
    alone = [run(name, model, LOSS, x[i : i + 1], y[i : i + 1], norm=norm, size=0.2) for i in range(len(x))]
    assert torch.allclose(torch.cat(alone), whole, atol=1e-12)
    monkeypatch.setattr(attacks, "_AT_ONCE", 7)
    assert torch.allclose(run(name, model, LOSS, x, y, norm=norm, size=0.2), whole, atol=1e-12)


def test_momentum_is_the_sum_of_past_gradients():
    """Against Algorithm 1 of Dong et al., written out for one image; by length, so that the weights of the sum show."""
    model, (x, y) = network().double(), batch(n=1, dtype=torch.float64)
    x = 0.5 * x
    now, memory = x.clone(), torch.zeros_like(x)
    for _ in range(7):
        image = now.clone().requires_grad_(True)
        LOSS(model(image), y).sum().backward()
        memory = memory + image.grad / image.grad.abs().sum()
        now = torch.clamp(now + 2.0 / 7 * memory / memory.norm(), -1.0, 1.0)
        model.zero_grad(set_to_none=True)
    found = attacks.mim(model, LOSS, x, y, size=2.0, steps=7, norm=attacks.L_2)
    assert torch.allclose(found, now, atol=1e-12)


def test_tiny_gradients_still_point_somewhere():
    """Gradients of 1e-30, whose squares are 0 in single precision; and where there is none, nothing moves."""
    weights = torch.tensor([3e-30, -4e-30])
    x, y = torch.zeros((2, 2)), torch.zeros(2, dtype=torch.int64)
    found = attacks.fgsm(Linear(weights), LOSS, x, y, size=1.0, norm=attacks.L_2)
    assert torch.allclose(found, torch.tensor([0.6, -0.8]).expand(2, 2), atol=1e-5)
    for norm in NORMS:
        assert torch.equal(attacks.fgsm(Linear(0.0 * weights), LOSS, x, y, size=1.0, norm=norm), x)


@pytest.mark.parametrize("dimension", [1, 2, 64])
def test_random_starts_fill_the_ball(dimension):
    """The share within radius r is r^d in the ball, and (r/1)^d in the cube; 4 * 10^4 draws, alarm below 1e-8."""
    like = torch.zeros((40_000, dimension), dtype=torch.float64)
    for norm in NORMS:
        lengths = norm.lengths(norm.drawn(like, 0.5, seeded()))
        assert lengths.max() <= 0.5 * (1.0 + 1e-12)
        expected = 0.3
        radius = 0.5 * expected ** (1.0 / dimension)
        share = float((lengths <= radius).double().mean())
        assert abs(share - expected) < 6.0 * math.sqrt(expected * (1.0 - expected) / 40_000)


X, Y = batch()
with torch.inference_mode():
    INFERENCE = X + 0.0
NO_IMAGES = X * 1.5, X.long(), X * math.nan, INFERENCE, {"x": X[:0], "y": Y[:0]}
NO_MODELS = "a", lambda x: x.detach().flatten(1), lambda x: x.flatten(1) * math.inf


def test_what_is_refused():
    good = {"model": network(), "loss_fn": LOSS, "x": X, "y": Y, "size": 0.1, "steps": 2, "generator": seeded()}
    no_losses = functional.cross_entropy, lambda outputs, y: 3.0
    refuses(attacks.pgd, good, model=NO_MODELS, loss_fn=no_losses, x=NO_IMAGES, y=(Y[:-1], 3), size=(-0.1,))
    refuses(attacks.pgd, good, steps=(0,), high=({"low": 1.0},), norm=("l_inf",), generator=(3,))


def test_an_image_of_one_number_per_row():
    x, y = torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.int64)
    found = attacks.fgsm(lambda x: torch.stack([0.0 * x, x], dim=1), LOSS, x, y, size=0.5)
    assert np.allclose(found.numpy(), 0.5)
