"""DP-SGD and its relatives: the right sum, the right guarantee, and an audit of the running code."""

import math

import pytest
import torch
from torch.nn import functional

from dpml.training import dp_sgd, dp_sgd_automatic, sgd
from dpml.training.dpsgd import automatic, clip, update
from dpml.training.sampling import FixedSize, FullBatch, Poisson
from tests.training.helpers import data, flat, gradients, network, refuses, seeded, train

DOUBLE = {"dtype": torch.float64}


def double_network(seed=0):
    return network(seed, hidden=8, dtype=torch.float64)


# ---- the update ----


def test_the_update_is_the_formula():
    """Against plain numbers: gradients (3, 4), (0.3, 0.4), (0, 0), clipped to norm 1, without noise."""
    rows = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]], dtype=torch.float64)
    given = {"sigma": 0.0, "clip_norm": 1.0, "learning_rate": 0.5, "expected_batch": 4.0}
    after = update(torch.zeros(2, dtype=torch.float64), gradients=rows, **given, generator=seeded())
    assert after.tolist() == pytest.approx([-0.5 * 0.9 / 4, -0.5 * 1.2 / 4])


def test_the_noise_of_the_update():
    """500,000 values of standard deviation eta sigma C / B = 0.3, within 5.5 standard errors."""
    start, none = torch.zeros(500_000, 1, dtype=torch.float64), torch.zeros(500_000, 2, 1, dtype=torch.float64)
    given = {"sigma": 2.0, "clip_norm": 3.0, "learning_rate": 0.1, "expected_batch": 2.0}
    after = update(start, gradients=none, **given, generator=seeded())
    assert float(after.std()) == pytest.approx(0.3, rel=5.5 / math.sqrt(2 * 500_000))
    assert abs(float(after.mean())) < 5.5 * 0.3 / math.sqrt(500_000)


@pytest.mark.parametrize(
    ("clip_norm", "sampling"),
    [(1e-3, FullBatch()), (1.0, FixedSize(m=40)), (1.0, Poisson(q=1.0)), (1e3, Poisson(q=1.0))],
)
def test_dp_sgd_takes_the_steps_of_the_formula(clip_norm, sampling):
    x, y = data(**DOUBLE)
    model, twin = double_network(), double_network()
    train(model, x, y, sampling=sampling, sigma=0.0, clip_norm=clip_norm, steps=4)
    given = {"sigma": 0.0, "clip_norm": clip_norm, "learning_rate": 0.1, "expected_batch": 40.0}
    for _ in range(4):
        after = update(flat(twin), gradients=gradients(twin, x, y), **given, generator=seeded())
        torch.nn.utils.vector_to_parameters(after, twin.parameters())
    assert (flat(model) - flat(twin)).abs().max() <= 1e-12
    assert (flat(model) - flat(double_network())).norm() > 1e-5


def test_automatic_clipping():
    x, y = data(**DOUBLE)
    model, twin = double_network(), double_network()
    mechanism = dp_sgd_automatic(sigma=0.0, clip_norm=2.0, stability=0.5)
    run = train(model, x, y, mechanism=mechanism, sampling=FullBatch(), steps=1)
    rows = gradients(twin, x, y)
    total = (rows * (2.0 / (rows.norm(dim=1, keepdim=True) + 0.5))).sum(0)
    assert (flat(model) - (flat(twin) - 0.1 * total / 40)).abs().max() <= 1e-12
    assert math.isinf(run.guarantee.epsilon)


# ---- relatives ----


def test_sgd_is_the_ordinary_one():
    x, y = data(**DOUBLE)
    model, twin = double_network(), double_network()
    run = train(model, x, y, mechanism=sgd(), sampling=FullBatch(), steps=5)
    ordinary = torch.optim.SGD(twin.parameters(), lr=0.1)
    for _ in range(5):
        ordinary.zero_grad()
        functional.cross_entropy(twin(x), y).backward()
        ordinary.step()
    assert (flat(model) - flat(twin)).abs().max() <= 1e-12
    assert math.isinf(run.guarantee.epsilon)
    assert str(run.guarantee).startswith("No epsilon is known to hold")
    assert (run.trace.clipped == 0.0).all()


# ---- weights ----

NORMS = torch.tensor([0.0, 0.5, 1.0, 2.0, 1e30], dtype=torch.float64)


def test_weights_by_hand():
    assert clip(NORMS, clip_norm=1.0).tolist() == pytest.approx([1.0, 1.0, 1.0, 0.5, 1e-30], rel=1e-15)
    assert clip(NORMS, clip_norm=4.0).tolist() == pytest.approx([1.0, 1.0, 1.0, 1.0, 4e-30], rel=1e-15)
    got = automatic(NORMS, clip_norm=2.0, stability=0.5)
    assert got.tolist() == pytest.approx([4.0, 2.0, 4 / 3, 0.8, 2e-30], rel=1e-15)
    edges = clip(torch.tensor([torch.inf, torch.nan]), clip_norm=1.0)
    assert edges[0] == 0.0 and torch.isnan(edges[1])
    empty = torch.zeros(0)
    assert clip(empty, clip_norm=1.0).shape == automatic(empty, clip_norm=1.0, stability=0.1).shape == (0,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("clip_norm", [1e-30, 1e-3, 1.0, 1e30])
def test_no_weighted_norm_exceeds_the_clip_norm(dtype, clip_norm):
    exponents = torch.rand(10_000, generator=seeded(1), dtype=torch.float64) * 74 - 37
    norms = torch.cat([(10.0**exponents).to(dtype), torch.zeros(1, dtype=dtype)])
    slack = 4 * torch.finfo(dtype).eps
    for weights in (clip(norms, clip_norm=clip_norm), automatic(norms, clip_norm=clip_norm, stability=0.01)):
        assert weights.dtype == dtype
        assert torch.isfinite(weights).all()
        assert (weights.double() * norms.double()).max() <= clip_norm * (1 + slack)
    assert (clip(norms, clip_norm=clip_norm) <= 1).all()


# ---- refusals ----


NO_NUMBER = (-1.0, math.nan, math.inf, None, "1", True, torch.ones(2))
NO_NORM = (*NO_NUMBER, 0.0, 1e-46, 1e-33, 1e17, 1e39)
NO_SINGLE = (0.0, math.nan, "1", 1e-45, 1e39)


def test_what_is_refused():
    setting, weights = {"sigma": 1.0, "clip_norm": 1.0}, {"norms": NORMS.float(), "clip_norm": 1.0}
    refuses(dp_sgd, setting, sigma=NO_NUMBER, clip_norm=NO_NORM)
    refuses(dp_sgd_automatic, setting, sigma=NO_NUMBER, clip_norm=NO_NORM, stability=NO_NORM)
    refuses(clip, weights, norms=([1.0], torch.ones(2, dtype=torch.int64)), clip_norm=NO_SINGLE)
    refuses(automatic, {**weights, "stability": 0.1}, clip_norm=NO_SINGLE, stability=NO_SINGLE)
    rows = {"parameters": torch.zeros(2), "gradients": torch.zeros(3, 2), "generator": seeded()}
    step = {**rows, **setting, "learning_rate": 1.0, "expected_batch": 1.0}
    refuses(update, step, parameters=([0.0], torch.zeros(3), torch.full((2,), math.nan)), sigma=(-1.0,))
    refuses(update, step, gradients=(None, torch.zeros(3, 2, dtype=torch.int64)), clip_norm=(0.0,))
    refuses(update, step, learning_rate=(0.0,), expected_batch=(math.inf,))
