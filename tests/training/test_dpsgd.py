"""DP-SGD and its relatives: the right sum, the right guarantee, and an audit of the running code."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from dpml.accounting import pld
from dpml.audit import samples
from dpml.training.dpsgd import dp_gd, dp_sgd, dp_sgd_automatic, noise_multiplier, sgd, update
from dpml.training.per_example import per_example_gradients
from dpml.training.sampling import FixedSize, FullBatch, Poisson


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def cross_entropy(outputs, y):
    return functional.cross_entropy(outputs, y, reduction="none")


def network(seed=0, dtype=torch.float64):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).to(dtype)


def data(n=40, seed=5, scale=3.0):
    generator = seeded(seed)
    x = scale * torch.randn(n, 6, generator=generator, dtype=torch.float64)
    return x, torch.randint(3, (n,), generator=generator)


def flat(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def gradients(model, x, y):
    every = per_example_gradients(model, cross_entropy, x, y)
    return torch.cat([every[name].reshape(len(x), -1) for name, _ in model.named_parameters()], 1)


def options(model, **changes):
    optimizer = torch.optim.SGD(model.parameters(), lr=changes.pop("lr", 0.5))
    return {"optimizer": optimizer, "generator": seeded(), "steps": 4, **changes}


class Recording(torch.optim.SGD):
    """Plain SGD that keeps every gradient that it was given."""

    def __init__(self, parameters, lr=1.0):
        super().__init__(parameters, lr=lr)
        self.seen = []

    def step(self, closure=None):
        self.seen.append(torch.cat([p.grad.reshape(-1) for p in self.param_groups[0]["params"]]))
        return super().step(closure)


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


@pytest.mark.parametrize("clip_norm", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("sampling", [FullBatch(), FixedSize(m=40), Poisson(q=1.0)])
def test_dp_sgd_takes_the_steps_of_the_formula(clip_norm, sampling):
    x, y = data()
    model, twin = network(), network()
    dp_sgd(model, cross_entropy, x, y, sampling=sampling, sigma=0.0, clip_norm=clip_norm, delta=1e-5, **options(model))
    for _ in range(4):
        after = update(
            flat(twin),
            gradients=gradients(twin, x, y),
            sigma=0.0,
            clip_norm=clip_norm,
            learning_rate=0.5,
            expected_batch=40.0,
            generator=seeded(),
        )
        torch.nn.utils.vector_to_parameters(after, twin.parameters())
    assert (flat(model) - flat(twin)).abs().max() <= 1e-12
    assert (flat(model) - flat(network())).norm() > 1e-4


def test_automatic_clipping():
    x, y = data()
    model, twin = network(), network()
    run = dp_sgd_automatic(
        model,
        cross_entropy,
        x,
        y,
        sampling=FullBatch(),
        sigma=0.0,
        clip_norm=2.0,
        stability=0.5,
        delta=1e-5,
        **options(model, steps=1),
    )
    rows = gradients(twin, x, y)
    total = (rows * (2.0 / (rows.norm(dim=1, keepdim=True) + 0.5))).sum(0)
    assert (flat(model) - (flat(twin) - 0.5 * total / 40)).abs().max() <= 1e-12
    assert math.isinf(run.guarantee.epsilon)


def test_one_example_moves_the_sum_by_at_most_the_clip_norm():
    """It tries hard: huge and tiny inputs, wrong labels, clip norms over six decades, each example of each batch."""
    worst = 0.0
    for seed, (scale, clip_norm) in enumerate([(1e-3, 1e-3), (1.0, 1.0), (1e3, 1.0), (1e4, 1e-3), (30.0, 1e3)]):
        x, y = data(12, seed=seed, scale=scale)
        sums = {}
        for left in (None, *range(12)):
            keep = [i for i in range(12) if i != left]
            for kind in (dp_sgd, dp_sgd_automatic):
                model = network(seed)
                optimizer = Recording(model.parameters())
                kind(
                    model,
                    cross_entropy,
                    x[keep],
                    y[keep],
                    sampling=FullBatch(),
                    sigma=0.0,
                    clip_norm=clip_norm,
                    steps=1,
                    optimizer=optimizer,
                    delta=1e-5,
                    generator=seeded(),
                    expected_batch=1.0,
                    micro_batch=5,
                )
                sums[left, kind] = optimizer.seen[0]
        for (left, kind), total in sums.items():
            if left is not None:
                worst = max(worst, float((total - sums[None, kind]).norm()) / clip_norm)
    assert 0.99 < worst <= 1.0 + 1e-9


# ---- relatives ----


def test_dp_gd_is_dp_sgd_on_everything():
    x, y = data()
    ends = []
    for train in (dp_gd, lambda *a, **k: dp_sgd(*a, sampling=FullBatch(), **k)):
        model = network()
        run = train(model, cross_entropy, x, y, sigma=3.0, clip_norm=1.0, delta=1e-5, **options(model))
        ends.append(flat(model))
    assert torch.equal(*ends)
    exact = pld.epsilon(q=1.0, sigma=3.0, steps=4, delta=1e-5)
    assert (run.guarantee.epsilon, run.guarantee.kind) == (pytest.approx(exact.epsilon), "exact")
    with pytest.raises(ValueError, match=r"^sampling must be left out of dp_gd"):
        dp_gd(model, cross_entropy, x, y, sampling=FullBatch(), sigma=3.0, clip_norm=1.0, delta=1e-5, **options(model))


def test_sgd_is_the_ordinary_one():
    x, y = data()
    model, twin = network(), network()
    run = sgd(model, cross_entropy, x, y, sampling=FullBatch(), **options(model, steps=5))
    ordinary = torch.optim.SGD(twin.parameters(), lr=0.5)
    for _ in range(5):
        ordinary.zero_grad()
        functional.cross_entropy(twin(x), y).backward()
        ordinary.step()
    assert (flat(model) - flat(twin)).abs().max() <= 1e-12
    assert math.isinf(run.guarantee.epsilon)
    assert str(run.guarantee).startswith("No epsilon is known to hold")
    assert (run.trace.clipped == 0.0).all()


@pytest.mark.parametrize(
    ("sampling", "adjacency", "label"),
    [
        (Poisson(q=0.1), "add/remove", "Poisson"),
        (FixedSize(m=4), "replace-one", "without replacement"),
        (FullBatch(), "add/remove", "none"),
    ],
)
def test_the_guarantee_is_that_of_the_sampler(sampling, adjacency, label):
    """And noise calibrated to a target meets it."""
    x, y = data()
    sigma = noise_multiplier(sampling, n=40, steps=6, epsilon=2.0, delta=1e-5)
    model = network()
    run = dp_sgd(
        model,
        cross_entropy,
        x,
        y,
        sampling=sampling,
        sigma=sigma,
        clip_norm=1.0,
        delta=1e-5,
        **options(model, steps=6, trace_every=2),
    )
    assert 1.98 < run.guarantee.epsilon <= 2.0
    assert {(g.adjacency, g.sampling, g.delta) for g in run.trace.guarantees} == {(adjacency, label, 1e-5)}
    assert run.trace.epsilon.tolist() == sorted(run.trace.epsilon)
    for steps, epsilon in zip(run.trace.steps, run.trace.epsilon, strict=True):
        assert epsilon == sampling.guarantees([int(steps)], n=40, sigma=sigma, delta=1e-5)[0].epsilon


def test_it_learns():
    generator = seeded(1)
    x = torch.randn(600, 6, generator=generator, dtype=torch.float64)
    y = x[:, :3].argmax(1)
    model = network()
    sigma = noise_multiplier(Poisson(q=0.2), n=600, steps=60, epsilon=8.0, delta=1e-4)
    run = dp_sgd(
        model,
        cross_entropy,
        x,
        y,
        sampling=Poisson(q=0.2),
        sigma=sigma,
        clip_norm=1.0,
        delta=1e-4,
        test=(x, y),
        **options(model, steps=60, lr=2.0),
    )
    assert run.trace.accuracy[-1] > 0.8
    assert run.trace.accuracy[-1] > run.trace.accuracy[0]
    assert run.trace.loss[-1] < run.trace.loss[0]


def test_noise_multiplier_refuses_what_is_no_sampler():
    with pytest.raises(ValueError, match=r"^sampling must be Poisson"):
        noise_multiplier(0.1, n=40, steps=6, epsilon=2.0, delta=1e-5)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, None, "1", True])
def test_bad_stability(bad):
    model = network()
    with pytest.raises(ValueError, match=r"^stability must be in \(0, inf\), got "):
        dp_sgd_automatic(
            model,
            cross_entropy,
            *data(),
            sampling=FullBatch(),
            sigma=1.0,
            stability=bad,
            delta=1e-5,
            **options(model),
        )


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("parameters", [0.0]),
        ("parameters", torch.zeros(3)),
        ("parameters", torch.full((2,), math.nan)),
        ("gradients", None),
        ("gradients", torch.zeros(3, 2, dtype=torch.int64)),
        ("sigma", -1.0),
        ("clip_norm", 0.0),
        ("learning_rate", 0.0),
        ("expected_batch", math.inf),
    ],
)
def test_bad_arguments_of_the_update(name, bad):
    good = {"parameters": torch.zeros(2), "gradients": torch.zeros(3, 2), "sigma": 1.0, "clip_norm": 1.0}
    good |= {"learning_rate": 1.0, "expected_batch": 1.0, "generator": seeded()}
    with pytest.raises(ValueError, match=f"^{name} must"):
        update(**{**good, name: bad})


# ---- audit of the running code ----

CONFIDENCE = 1.0 - 1e-6


def released(record, *, sampling, seed, steps, micro_batch=None):
    """What the steps of one run release when nothing but one record matters: loss_i = w x_i, so its gradient is x_i.

    The gradient does not depend on w, so the steps are independent runs of the one-step mechanism.
    """
    x = torch.zeros(20 if record is None else 21, 1, dtype=torch.float64)
    if record is not None:
        x[20] = record
    model = nn.Linear(1, 1, bias=False).to(torch.float64)
    optimizer = Recording(model.parameters(), lr=1e-3)
    dp_sgd(
        model,
        lambda outputs, y: outputs[:, 0],
        x,
        torch.zeros(len(x)),
        sampling=sampling,
        sigma=1.0,
        clip_norm=0.5,
        steps=steps,
        optimizer=optimizer,
        delta=1e-5,
        generator=seeded(seed),
        expected_batch=20.0,
        micro_batch=micro_batch,
        trace_every=steps,
    )
    return torch.cat(optimizer.seen).numpy()


@pytest.mark.parametrize("sampling", [FullBatch(), Poisson(q=0.5)])
def test_an_audit_does_not_refute_dp_sgd(sampling):
    """The record has a gradient of 1000, 2000 times the clip norm. False alarm: 1e-6, by the audit's theorem.

    The audit is not blind: it finds that epsilon is at least 0.2.
    """
    steps, delta = 1500, 1e-5
    found = samples.epsilon_lower_bound_from_scores(
        released(1000.0, sampling=sampling, seed=1, steps=steps),
        scores_neighbour=released(None, sampling=sampling, seed=2, steps=steps),
        delta=delta,
        confidence=CONFIDENCE,
        rng=np.random.default_rng(0),
    )
    claimed = sampling.guarantees([1], n=20, sigma=1.0, delta=delta)[0].epsilon
    assert 0.2 < found.epsilon_at_least <= claimed
