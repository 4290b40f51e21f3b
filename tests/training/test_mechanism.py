"""Mechanisms as values: what they cost before a run, in many runs together, and what else the trainer can take."""

import functools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from dpml.accounting.guarantee import Guarantee
from dpml.accounting.pld import losses
from dpml.ptr import privacy
from dpml.training import dp_sgd, dp_sgd_automatic, sgd, tsgd, tsgd_ptr
from dpml.training.mechanism import Mechanism, together
from dpml.training.sampling import FixedSize, FullBatch, Poisson
from tests.training.helpers import Recording, data, first_output, linear, network, refuses, train

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


def test_what_cannot_be_accounted():
    one, poisson = dp_sgd(sigma=1.0, clip_norm=1.0), Poisson(q=0.1)
    target = {"sampling": poisson, "n": 40, "steps": 6, "delta": 1e-5}
    refuses(one.guarantee, target, sampling=(0.1,), n=(0,), steps=(-1,), delta=(2.0,))
    refuses(one.noise_multiplier, {**target, "epsilon": 1.0}, sampling=(0.1,), epsilon=(0.0,))
    refuses(together, {"n": 40, "delta": 1e-5}, runs=([], [(one, poisson)], [(1.0, poisson, 3)]))
    for words, runs in (
        ("sampling must be Poisson", [(one, 0.1, 3)]),
        ("parts must share", [(one, poisson, 1), (one, FixedSize(m=4), 1)]),
    ):
        with pytest.raises(ValueError, match=f"^{words}"):
            together(runs, n=40, delta=1e-5)
    with pytest.raises(ValueError, match=r"^mechanism must have noise to meet a target"):
        sgd().noise_multiplier(epsilon=1.0, **target)


# ---- what the trainer takes without knowing it ----


def test_an_accountant_of_ones_own():
    """Noise on the examples, say, in a layer: a run says what the mechanism's accountant says."""
    epsilon = Guarantee(1.0, delta=0.0, kind="exact", adjacency="replace-one")
    accountant = sgd().accountant._replace(guarantees=lambda counts, **setting: [epsilon] * len(counts))
    own = Mechanism("noisy inputs", (), sgd().release, accountant, sgd().start, sgd().each)
    assert train(network(), *data(), mechanism=own).guarantee == epsilon
