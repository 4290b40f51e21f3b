"""DP-SGD and its relatives: the right sum, the right guarantee, and an audit of the running code."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from dpml.accounting import pld
from dpml.audit import samples
from dpml.training import dp_sgd, dp_sgd_automatic, sgd
from dpml.training.dpsgd import automatic, clip, update
from dpml.training.sampling import FixedSize, FullBatch, Poisson
from dpml.training.worker import Worker
from tests.training.helpers import (
    Recording,
    cross_entropy,
    data,
    first_output,
    flat,
    gradients,
    linear,
    network,
    refuses,
    seeded,
    train,
)

DOUBLE = {"dtype": torch.float64}


def double_network(seed=0):
    return network(seed, hidden=8, dtype=torch.float64)


# ---- the update ----


def test_the_update_is_the_formula():
    """Against plain numbers: gradients (3, 4), (0.3, 0.4), (0, 0), clipped to norm 1, without noise."""
    rows = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]], dtype=torch.float64)
    after = update(
        torch.zeros(2, dtype=torch.float64),
        gradients=rows,
        sigma=0.0,
        clip_norm=1.0,
        learning_rate=0.5,
        expected_batch=4.0,
        generator=seeded(),
    )
    assert after.tolist() == pytest.approx([-0.5 * 0.9 / 4, -0.5 * 1.2 / 4])


def test_the_noise_of_the_update():
    """500,000 values of standard deviation eta sigma C / B = 0.3, within 5.5 standard errors."""
    after = update(
        torch.zeros(500_000, 1, dtype=torch.float64),
        gradients=torch.zeros(500_000, 2, 1, dtype=torch.float64),
        sigma=2.0,
        clip_norm=3.0,
        learning_rate=0.1,
        expected_batch=2.0,
        generator=seeded(),
    )
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


def test_one_example_moves_the_sum_by_at_most_the_clip_norm():
    """It tries hard: huge and tiny inputs, wrong labels, clip norms over six decades, each example of each batch."""
    worst = 0.0
    for seed, (scale, clip_norm) in enumerate([(1e-3, 1e-3), (1.0, 1.0), (1e3, 1.0), (1e4, 1e-3), (30.0, 1e3)]):
        (x, y), model = data(12, seed=seed, scale=scale, **DOUBLE), double_network(seed)
        for kind in (dp_sgd, dp_sgd_automatic):
            sums = []
            for keep in ([*range(12)], *([i for i in range(12) if i != left] for left in range(12))):
                setting = kind(sigma=0.0, clip_norm=clip_norm), FullBatch(expected_batch=1.0), seeded(), 5
                sums.append(Worker(model, cross_entropy, x[keep], y[keep], *setting).step().gradient)
            worst = max(worst, *(float((total - sums[0]).norm()) / clip_norm for total in sums))
    assert 0.99 < worst <= 1.0 + 1e-9


# ---- relatives ----


def test_full_batches_are_noisy_gradient_descent():
    """The lecture's DP-GD: all examples in every step, and one Gaussian mechanism of sigma / sqrt(T) in all."""
    model = double_network()
    run = train(model, *data(**DOUBLE), sampling=FullBatch(), sigma=3.0, steps=4, trace_every=1)
    exact = pld.epsilon(q=1.0, sigma=1.5, steps=1, delta=1e-5)
    assert (run.guarantee.epsilon, run.guarantee.kind) == (pytest.approx(exact.epsilon, rel=1e-12), "exact")
    assert run.trace.examples.tolist() == [40] * 4


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


def test_it_learns():
    x = torch.randn(600, 6, generator=seeded(1), dtype=torch.float64)
    y = x[:, :3].argmax(1)
    model, sampling = double_network(), Poisson(q=0.2)
    sigma = sampling.noise_multiplier(n=600, steps=60, epsilon=8.0, delta=1e-4)
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    run = train(model, x, y, sigma=sigma, sampling=sampling, delta=1e-4, test=(x, y), optimizer=optimizer, steps=60)
    assert run.trace.accuracy[-1] > 0.8
    assert run.trace.accuracy[-1] > run.trace.accuracy[0]
    assert run.trace.loss[-1] < run.trace.loss[0]


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


# ---- audit of the running code ----


def released(record, *, sampling, seed, steps):
    """What the steps of one run release when nothing but one record matters: loss_i = w x_i, so its gradient is x_i.

    The gradient does not depend on w, so the steps are independent runs of the one-step mechanism.
    """
    x = torch.zeros(20 if record is None else 21, 1, dtype=torch.float64)
    if record is not None:
        x[20] = record
    model = linear(1)
    optimizer = Recording(model.parameters(), lr=1e-3)
    given = {"sampling": sampling, "steps": steps, "trace_every": steps}
    given |= {"clip_norm": 0.5, "generator": seeded(seed)}
    train(model, x, torch.zeros(len(x)), loss_fn=first_output, optimizer=optimizer, **given)
    return torch.cat(optimizer.seen).numpy()


def test_an_audit_does_not_refute_dp_sgd():
    """The record has a gradient of 1000, 2000 times the clip norm. False alarm: 1e-6, by the audit's theorem.

    The audit is not blind: it finds that epsilon is at least 0.2.
    """
    steps, delta, sampling = 1500, 1e-5, Poisson(q=0.5, expected_batch=20.0)
    found = samples.epsilon_lower_bound_from_scores(
        released(1000.0, sampling=sampling, seed=1, steps=steps),
        scores_neighbour=released(None, sampling=sampling, seed=2, steps=steps),
        delta=delta,
        confidence=1.0 - 1e-6,
        rng=np.random.default_rng(0),
    )
    claimed = sampling.guarantees([1], n=20, sigma=1.0, delta=delta)[0].epsilon
    assert 0.2 < found.epsilon_at_least <= claimed
