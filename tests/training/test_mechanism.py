"""Mechanisms as values: what they cost before a run, in many runs together, and what else the trainer can take."""

import functools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from dpml.accounting.guarantee import Guarantee
from dpml.accounting.pld import losses
from dpml.ptr import privacy
from dpml.training import dp_sgd, dp_sgd_automatic, sgd, tsgd, tsgd_ptr
from dpml.training.mechanism import Mechanism, Release, together
from dpml.training.sampling import FixedSize, FullBatch, Poisson
from tests.training.helpers import Recording, data, first_output, flat, linear, network, train

TEST = {"tau": 0.5, "scale": 1.0, "delta0": 1e-8}
GAUSSIAN = [
    functools.partial(dp_sgd, clip_norm=1.0),
    functools.partial(dp_sgd_automatic, clip_norm=2.0),
    functools.partial(tsgd, clip_norm=1.0, trim=3),
]
SAMPLERS = [Poisson(q=0.1, expected_batch=4), FixedSize(m=4), FullBatch(expected_batch=40)]


# ---- a value ----


def test_a_mechanism_is_a_value():
    one = dp_sgd(sigma=1.0, clip_norm=2.0)
    assert repr(one) == "dp_sgd(sigma=1.0, clip_norm=2.0)"
    assert one == dp_sgd(clip_norm=2, sigma=1) and hash(one) == hash(dp_sgd(clip_norm=2, sigma=1))
    others = [dp_sgd(sigma=1.0, clip_norm=1.0), sgd(), tsgd(sigma=1.0, clip_norm=2.0, trim=0)]
    assert len({one, *others}) == 4
    tested = tsgd_ptr(sigma=1.1, clip_norm=1.0, **TEST, trim=10)
    assert dict(tested.settings) | {"trim": 9} == dict(tsgd_ptr(sigma=1.1, clip_norm=1.0, **TEST, trim=9).settings)


# ---- what it costs ----


@pytest.mark.parametrize("sampling", SAMPLERS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("make", GAUSSIAN, ids=lambda make: make.func.__name__)
def test_gaussian_mechanisms_cost_what_the_sampler_says(make, sampling):
    """Before a run and after it, and at the noise for a target."""
    target = {"sampling": sampling, "n": 40, "steps": 6, "delta": 1e-5}
    sigma = make(sigma=1.0).noise_multiplier(epsilon=2.0, **target)
    mechanism = make(sigma=sigma)
    before = mechanism.guarantee(**target)
    assert 1.98 < before.epsilon <= 2.0
    assert before == sampling.guarantees([6], n=40, sigma=sigma, delta=1e-5)[0]
    run = train(network(), *data(), mechanism=mechanism, sampling=sampling, steps=6, trace_every=2)
    assert run.guarantee == before
    each = mechanism.guarantees([2, 4, 6], sampling=sampling, n=40, delta=1e-5)
    assert list(run.trace.guarantees) == each and run.trace.epsilon.tolist() == sorted(run.trace.epsilon)
    label = {"Poisson": ("add/remove", "Poisson"), "FixedSize": ("replace-one", "without replacement")}
    expected = label.get(type(sampling).__name__, ("add/remove", "none"))
    assert {(g.adjacency, g.sampling) for g in each} == {expected}


def test_the_test_is_accounted_by_its_own_distribution():
    mechanism = tsgd_ptr(sigma=1.1, clip_norm=1.0, **TEST, trim=10)
    setting = {"sampling": Poisson(q=0.5), "n": 40, "steps": 12, "delta": 1e-5}
    exact = privacy.epsilon(q=0.5, sigma=1.1, **TEST, steps=12, delta=1e-5)
    found = mechanism.guarantee(**setting)
    assert math.isclose(found.epsilon, exact.epsilon, rel_tol=1e-3)
    assert (found.kind, found.adjacency, found.sampling) == ("upper bound", "add/remove", "Poisson")
    run = train(network(), *data(), mechanism=mechanism, steps=12, trace_every=4)
    assert run.guarantee.epsilon == pytest.approx(found.epsilon, rel=1e-3) and (np.diff(run.trace.epsilon) > 0).all()
    target = {"epsilon": 6.0, "delta": 1e-5, "steps": 12}
    sigma = mechanism.noise_multiplier(sampling=Poisson(q=0.1), n=400, **target)
    assert sigma == privacy.noise_multiplier(q=0.1, **TEST, **target)


DERIVED = [Poisson(q=0.25), Poisson(q=1.0), FullBatch()]
FIXED = [Poisson(q=0.25, expected_batch=250), FullBatch(expected_batch=1), FixedSize(m=9)]


@pytest.mark.parametrize("sampling", [*DERIVED, *FIXED], ids=repr)
def test_a_divisor_from_the_data_is_told(sampling):
    """A mean of 200 zero gradients and one of 199, noise of one seed: the same, or the label takes n as public."""
    runs, seen = [], []
    for n in (200, 199):
        model = linear(3)
        optimizer = Recording(model.parameters())
        x, y = torch.zeros(n, 3, dtype=torch.float64), torch.zeros(n)
        given = {"sampling": sampling, "steps": 1, "sigma": 20.0, "loss_fn": first_output}
        runs.append(train(model, x, y, optimizer=optimizer, **given).guarantee)
        seen.append(optimizer.seen[0])
    assert {guarantee.public for guarantee in runs} == {"n" if sampling in DERIVED else "none"}
    assert all(("n taken as public" in str(guarantee)) == (sampling in DERIVED) for guarantee in runs)
    torch.testing.assert_close(seen[1] / seen[0], torch.full_like(seen[0], 200 / 199 if sampling in DERIVED else 1.0))


@pytest.mark.parametrize(("expected", "limits", "public"), [(18.0, [18, 18], "none"), (None, [99, 100], "n")])
def test_the_limit_of_a_moving_trim_is_fixed_without_the_data(expected, limits, public):
    sampling, mechanism = Poisson(q=0.1, expected_batch=expected), tsgd_ptr(sigma=1.0, clip_norm=1.0, **TEST, trim=3)
    assert [mechanism.start(sampling, n)["most"] for n in (999, 1000)] == limits
    assert mechanism.guarantee(sampling=sampling, n=999, steps=3, delta=1e-5).public == public


def test_no_privacy_says_so():
    target = {"sampling": Poisson(q=0.1), "n": 40, "steps": 6, "delta": 1e-5}
    assert math.isinf(sgd().guarantee(**target).epsilon)
    assert math.isinf(dp_sgd(sigma=0.0, clip_norm=1.0).guarantee(**target).epsilon)
    with pytest.raises(ValueError, match=r"^mechanism must have noise to meet a target"):
        sgd().noise_multiplier(epsilon=1.0, **target)


@pytest.mark.parametrize("sampling", [Poisson(q=0.01), FixedSize(m=10), FullBatch(), Poisson(q=1.0), FixedSize(m=1000)])
def test_two_parts_of_a_run_cost_what_the_run_costs(sampling):
    mechanism = dp_sgd(sigma=4.0, clip_norm=1.0)
    whole = mechanism.guarantee(sampling=sampling, n=1000, steps=50, delta=1e-5)
    parts = together([(mechanism, sampling, 20), (mechanism, sampling, 30)], n=1000, delta=1e-5)
    assert parts.epsilon == pytest.approx(whole.epsilon, abs=2e-4 * max(1.0, whole.epsilon))
    assert (parts.adjacency, parts.kind) == (whole.adjacency, "upper bound")


def test_runs_of_different_noise_rate_and_mechanism_together():
    """Against the composition of their losses, and between the dearest alone and the sum of all."""
    tested = tsgd_ptr(sigma=2.0, clip_norm=1.0, **TEST, trim=5)
    runs = [
        (dp_sgd(sigma=2.0, clip_norm=1.0), Poisson(q=0.02, expected_batch=20), 100),
        (dp_sgd_automatic(sigma=1.0), Poisson(q=0.01, expected_batch=10), 200),
        (tested, Poisson(q=0.01, expected_batch=10), 50),
    ]
    found = together(runs, n=1000, delta=1e-5)
    alone = [m.guarantee(sampling=s, n=1000, steps=k, delta=1e-5).epsilon for m, s, k in runs]
    parts = [
        (losses.poisson(losses.gaussian(sigma=2.0), q=0.02), 100),
        (losses.poisson(losses.gaussian(sigma=1.0), q=0.01), 200),
        (losses.poisson(privacy.privacy_loss(sigma=2.0, **TEST), q=0.01), 50),
    ]
    assert found == losses.compose(parts, delta=1e-5).guarantee()
    assert max(alone) < found.epsilon < sum(alone)
    assert math.isinf(together([*runs, (sgd(), Poisson(q=0.02), 1)], n=1000, delta=1e-5).epsilon)
    assert together([*runs, (sgd(), runs[0][1], 0)], n=1000, delta=1e-5) == found
    assert together([*runs, (sgd(), Poisson(q=0.02), 0)], n=1000, delta=1e-5) == replace(found, public="n")


POISSON = Poisson(q=0.1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.guarantee(sampling=0.1, n=40, steps=6, delta=1e-5), "sampling must be Poisson"),
        (lambda m: m.guarantee(sampling=POISSON, n=0, steps=6, delta=1e-5), "n must be"),
        (lambda m: m.guarantee(sampling=POISSON, n=40, steps=-1, delta=1e-5), "steps must be"),
        (lambda m: m.guarantee(sampling=POISSON, n=40, steps=6, delta=2.0), "delta must be"),
        (
            lambda m: m.noise_multiplier(sampling=0.1, n=40, steps=6, epsilon=1.0, delta=1e-5),
            "sampling must be Poisson",
        ),
        (lambda m: m.noise_multiplier(sampling=POISSON, n=40, steps=6, epsilon=0.0, delta=1e-5), "epsilon must be"),
        (lambda m: together([], n=40, delta=1e-5), "runs must be"),
        (lambda m: together([(m, POISSON)], n=40, delta=1e-5), "runs must be"),
        (lambda m: together([(1.0, POISSON, 3)], n=40, delta=1e-5), "runs must be"),
        (lambda m: together([(m, 0.1, 3)], n=40, delta=1e-5), "sampling must be Poisson"),
        (lambda m: together([(m, POISSON, 1), (m, FixedSize(m=4), 1)], n=40, delta=1e-5), "parts must share"),
    ],
)
def test_what_cannot_be_accounted(call, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        call(dp_sgd(sigma=1.0, clip_norm=1.0))


# ---- what the trainer takes without knowing it: three mechanisms that are not in the package ----


def workers(one, *, n, lie, aggregate):
    """n workers, each with its part of the records, send what `one` releases; some lie; a rule makes one vector."""

    def release(batch, *, state, generator):
        norms, owner = batch.norms, batch.ids % n
        messages = []
        for k in range(n):
            weights = one.each.weigh(norms) * (owner == k)
            noise = torch.empty_like(batch.sum(weights)).normal_(generator=generator) * one.each.noise
            messages.append(batch.sum(weights) + noise)
        return Release(aggregate(lie(torch.stack(messages))), state, {})

    return Mechanism("workers", (("n", n), *one.settings), release, one.accountant, one.start)


def test_workers_that_lie_need_no_other_trainer():
    """Two of five send a huge vector: their mean is useless, their median still finds the way."""

    def lie(messages):
        return torch.cat([torch.full_like(messages[:2], 1e3), messages[2:]])

    x, target = torch.ones(500, 3, dtype=torch.float64), torch.zeros(500)
    one, ends = dp_sgd(sigma=0.5, clip_norm=2.0), {}
    rules = {"mean": lambda m: m.mean(0), "median": lambda m: m.median(0).values}
    for name, lies in (("mean", lie), ("median", lie), ("honest", lambda messages: messages)):
        mechanism = workers(one, n=5, lie=lies, aggregate=rules.get(name, rules["mean"]))
        model = linear(3)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        given = {"loss_fn": first_output, "optimizer": optimizer, "micro_batch": 20}
        sampling = Poisson(q=0.5, expected_batch=50.0)
        run = train(model, x, target, mechanism=mechanism, steps=20, sampling=sampling, **given)
        ends[name] = float(flat(model).sum())
        assert run.guarantee == one.guarantee(sampling=sampling, n=500, steps=20, delta=1e-5)
    assert ends["honest"] == pytest.approx(-20 * 3 * 1.0, rel=0.1) and ends["median"] == pytest.approx(-60, rel=0.15)
    assert ends["mean"] < -400


def test_noise_on_the_first_layer_is_a_layer_and_an_accountant():
    """It draws from PyTorch's own generator, which a run seeds: the same run twice is the same to the last bit."""

    class NoisyFirst(nn.Module):
        def forward(self, x):
            return x + torch.randn_like(x)

    ends = []
    for _ in range(2):
        model = nn.Sequential(NoisyFirst(), *network())
        ends.append((train(model, *data(), mechanism=sgd()), flat(model)))
    assert torch.equal(ends[0][1], ends[1][1])
    plain = network()
    train(plain, *data(), mechanism=sgd())
    assert not torch.equal(flat(plain), ends[0][1])
    epsilon = Guarantee(1.0, delta=0.0, kind="exact", adjacency="replace-one")
    accountant = sgd().accountant._replace(guarantees=lambda counts, **setting: [epsilon] * len(counts))
    own = Mechanism("noisy inputs", (), sgd().release, accountant, sgd().start, sgd().each)
    assert train(network(), *data(), mechanism=own).guarantee == epsilon


def test_a_canary_is_a_row_and_what_was_released_is_seen_by_the_optimizer():
    """The record with a gradient of its own direction: in the mean of 200 releases it is there, or it is not."""
    seen = {}
    for canary in (True, False):
        x = torch.zeros(20 + canary, 4, dtype=torch.float64)
        if canary:
            x[20, 3] = 100.0
        model = linear(4)
        optimizer = Recording(model.parameters(), lr=1e-6)
        given = {"loss_fn": first_output, "optimizer": optimizer, "steps": 200}
        train(model, x, torch.zeros(len(x)), sampling=FullBatch(expected_batch=1.0), **given)
        seen[canary] = torch.stack(optimizer.seen).mean(0)
    assert seen[True][3] == pytest.approx(1.0, abs=0.4) and seen[False].abs().max() < 0.4  # 5.6 standard errors
