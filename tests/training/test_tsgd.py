"""Trimmed SGD with and without propose-test-release: sums, sensitivity, the test, F, the accountant, bad input."""

import math
import time

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from dpml.ptr import privacy, trimmed_sum
from dpml.ptr.theorems import paper_claim
from dpml.training import _light, corruption, trimming, tsgd, weights
from dpml.training.per_example import PerExample, per_example_gradients
from dpml.training.rules import PerExampleRule, weighted_sum
from dpml.training.sampling import FixedSize, Poisson, micro_batches

PTR = {"sigma": 1.1, "clip_norm": 1.0, "tau": 0.5, "scale": 1.0, "delta0": 1e-8}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def cross_entropy(outputs, y):
    return functional.cross_entropy(outputs, y, reduction="none")


def network(seed=0, *, inputs=6, hidden=5, dtype=torch.float64):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, 3)).to(dtype)


def data(n=40, *, inputs=6, dtype=torch.float64, seed=5):
    generator = seeded(seed)
    x = 3.0 * torch.randn(n, inputs, generator=generator, dtype=dtype)
    return x, torch.randint(3, (n,), generator=generator)


def released(model, x, y, rule, *, ids, size=None, generator=None):
    """The sum of one batch without noise, as the training loop forms it."""
    chunks = (PerExample(model, cross_entropy, x[i], y[i]) for i in micro_batches(ids, size=size or max(1, len(ids))))
    parameters = dict(model.named_parameters())
    given = {"ids": ids, "state": dict(getattr(rule, "state", {})), "generator": generator or seeded(1)}
    return weighted_sum(chunks, rule=rule, parameters=parameters, **given)


def gradients(model, x, y):
    if len(x) == 0:
        return torch.zeros(0, sum(p.numel() for p in model.parameters()), dtype=x.dtype)
    return torch.cat([g.flatten(1) for g in per_example_gradients(model, cross_entropy, x, y).values()], 1)


# ---- the sum ----


@pytest.mark.parametrize("trim", [0, 1, 7, 11, 12, 13, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_sum_is_the_trimmed_sum_of_the_gradients(trim, dtype):
    """Against `dpml.ptr.trimmed_sum` on gradients formed one by one: F from 0 to above m, ties, micro-batches."""
    x, y = data(12, dtype=dtype)
    x[3:8], y[3:8] = x[3].clone(), y[3].clone()  # five equal gradients
    model = network(dtype=dtype)
    ids = torch.tensor([30, 2, 14, 9, 77, 5, 6, 60, 1, 21, 22, 0]).argsort()  # all twelve, in another order
    rule = trimming.trimming_rule(sigma=1.0, clip_norm=0.7, trim=trim)
    naive = trimmed_sum.clipped_trimmed_sum(gradients(model, x, y)[ids].numpy(), trim=trim, bound=0.7, ids=ids.numpy())
    for size in (12, 5, 1):
        found = released(model, x, y, rule, ids=ids, size=size)
        scale = max(1.0, float(np.linalg.norm(naive)))
        assert np.linalg.norm(found.sum.numpy() - naive) <= (1e-6 if dtype == torch.float32 else 1e-12) * scale
        assert found.noise == 0.7
    assert float(found.log["trimmed"]) == pytest.approx(min(trim, 12) / 12)


def test_an_empty_batch_gives_zero_and_the_same_noise():
    x, y = data()
    model = network()
    none = torch.zeros(0, dtype=torch.int64)
    for rule in (
        trimming.trimming_rule(sigma=2.0, clip_norm=0.5, trim=3),
        trimming.testing_rule(**PTR, trim=30, change=5, most=40),
    ):
        found = released(model, x, y, rule, ids=none)
        assert not found.sum.any() and math.isfinite(float(found.log["trimmed"]))
    assert float(found.log["margin"]) == 30.0 and float(found.log["passed"]) == 1.0
    assert math.isclose(float(found.noise), 1.1 * 0.5, rel_tol=1e-6)


def test_one_example_moves_the_sum_by_at_most_the_clip_norm():
    """200 hostile batches: ties, norms at the clip norm up to rounding, F near m. The worst is attained."""
    rng, worst = np.random.default_rng(0), 0.0
    for trial in range(200):
        m, d, trim = int(rng.integers(1, 14)), int(rng.integers(1, 4)), int(rng.integers(0, 12))
        g = rng.normal(size=(m, d))
        g *= rng.choice([1.0, 1.0 + 1e-7, 1.0 - 1e-7, 3.0, 0.5], m)[:, None] / np.linalg.norm(g, axis=1, keepdims=True)
        if trial % 2:
            g = np.sign(g[:, :1]) * np.eye(d)[0]  # all along one axis, of equal length
        vectors, ids = torch.tensor(g), torch.tensor(rng.permutation(50)[:m])
        rule = trimming.trimming_rule(sigma=1.0, clip_norm=1.0, trim=trim)

        def total(keep, vectors=vectors, ids=ids, rule=rule):
            norms = vectors[keep].norm(dim=1)
            decision = rule.decide(norms, ids=ids[keep], state={}, generator=seeded())
            return decision.weights @ vectors[keep]

        everyone = torch.arange(m)
        for out in range(m):
            others = everyone[everyone != out]
            order = torch.tensor(rng.permutation(len(others)))
            worst = max(worst, float((total(everyone) - total(others[order])).norm()))
    assert 1.0 - 1e-6 <= worst <= 1.0 + 1e-6


# ---- the test ----


def test_the_margin_is_that_of_the_trimmed_sum():
    rng = np.random.default_rng(1)
    for _ in range(100):
        m, trim = int(rng.integers(0, 20)), int(rng.integers(0, 25))
        norms = rng.choice([0.1, 0.3, 0.35, 0.350001, 0.7, 4.0], m)
        given = {**PTR, "clip_norm": 0.7}
        rule = trimming.testing_rule(**given, trim=trim, change=1, most=30)
        state = {"norms": torch.tensor(norms), "ids": torch.arange(m), "state": dict(rule.state)}
        decision = rule.decide(state["norms"], ids=state["ids"], state=state["state"], generator=seeded())
        expected = trimmed_sum.safety_margin_enumerated(np.minimum(norms, 0.7), trim=trim, tau=0.35, bound=0.7)
        assert float(decision.log["margin"]) == expected


@pytest.mark.parametrize(("short", "chance"), [(0, 0.2), (2, None), (9, None)])
def test_the_test_passes_as_often_as_it_should(short, chance):
    """4,000 tests; a right one fails with probability below 1e-6 (five standard deviations)."""
    scale, delta0, runs = 2.0, 0.2, 4_000
    rule = trimming.testing_rule(
        sigma=1.0, clip_norm=1.0, tau=0.5, scale=scale, delta0=delta0, trim=10, change=0, most=20
    )
    norms, generator = torch.tensor([0.9] * (10 - short) + [0.1] * 6), seeded(3)
    ids = torch.arange(len(norms))
    passed = sum(
        float(rule.decide(norms, ids=ids, state=dict(rule.state), generator=generator).log["passed"])
        for _ in range(runs)
    )
    gap = scale * math.log(1 / (2 * delta0)) - short
    chance = 0.5 * math.exp(-gap / scale) if gap > 0 else 1 - 0.5 * math.exp(gap / scale)
    assert abs(passed / runs - chance) < 5 * math.sqrt(chance * (1 - chance) / runs)


def test_what_is_released_after_each_outcome():
    x, y = data(30)
    model, ids = network(), torch.arange(30)
    naive = gradients(model, x, y).numpy()
    given = {**PTR, "clip_norm": 50.0}
    passing = trimming.testing_rule(**given, trim=28, change=5, most=30)
    found = released(model, x, y, passing, ids=ids)
    assert float(found.log["passed"]) == 1.0 and math.isclose(float(found.noise), 1.1 * 25.0, rel_tol=1e-6)
    np.testing.assert_allclose(found.sum, trimmed_sum.clipped_trimmed_sum(naive, trim=28, bound=50.0), atol=1e-12)
    assert int(found.state["trim"]) == 23
    failing = trimming.testing_rule(**given, trim=0, change=5, most=30)
    found = released(model, x, y, failing, ids=ids)
    assert float(found.log["passed"]) == 0.0 and math.isclose(float(found.noise), 1.1 * 50.0, rel_tol=1e-6)
    np.testing.assert_allclose(found.sum, naive.sum(0), atol=1e-12)
    assert int(found.state["trim"]) == 5


def test_one_rule_for_trim_settles_and_the_other_runs_away():
    """40 of 100 gradients are long. Pass rates are those of the test; the printed rule of B.1.3 ends at an edge."""
    long = torch.tensor([2.0] * 40 + [0.1] * 60)
    ends, rates = [], []
    for move in (trimming.next_trim, trimming.upside_down_trim):
        for first in (20, 90):
            rule = trimming.testing_rule(**PTR, trim=first, change=2, most=100, rule=move)
            state, generator, passed = dict(rule.state), seeded(4), []
            for _ in range(400):
                decision = rule.decide(long, ids=torch.arange(100), state=state, generator=generator)
                state = decision.state
                passed.append(float(decision.log["passed"]))
            ends.append(int(state["trim"]))
            rates.append(np.mean(passed[100:]))
    assert all(50 <= end <= 66 for end in ends[:2]) and all(0.4 < rate < 0.6 for rate in rates[:2])
    assert ends[2:] == [0, 100] and rates[2:] == [0.0, 1.0]


def tensors_stay(monkeypatch):
    """As on a GPU: nothing becomes a number of Python."""
    monkeypatch.setattr(_light, "array", lambda tensor: tensor.detach())
    monkeypatch.setattr(_light, "number", lambda tensor: tensor)


def test_on_a_device_the_rules_wait_for_nothing(monkeypatch):
    """Tensors of the device "meta" have no values: who asks for one gets an error."""
    with pytest.raises(RuntimeError, match="meta"):
        torch.rand((), device="meta").item()
    tensors_stay(monkeypatch)
    rule = trimming.testing_rule(**PTR, trim=10, change=1, most=20)
    state = rule.state
    for _ in range(2):
        norms, ids = torch.rand(30, device="meta"), torch.arange(30, device="meta")
        decision = rule.decide(norms, ids=ids, state=dict(state), generator=None)
        assert decision.weights.shape == (30,) and decision.noise.device.type == "meta"
        state = decision.state
    assert state["trim"].device.type == "meta"
    plain = trimming.trimming_rule(sigma=1.0, clip_norm=1.0, trim=3)
    assert plain.decide(norms, ids=ids, state={}, generator=None).weights.device.type == "meta"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_and_tensors_decide_alike(dtype, monkeypatch):
    """What runs on the CPU against what runs on a GPU, with the same coins: ties, NaN, empty batches, F above m."""
    rng, decisions = np.random.default_rng(7), []
    cases, given = [], {**PTR, "delta0": 0.1, "change": 2, "most": 15}
    for _ in range(300):
        m, trim = int(rng.integers(0, 12)), int(rng.integers(0, 15))
        norms = rng.choice([0.1, 0.3, 0.5, 0.7, 4.0, math.inf, math.nan], m, p=[0.5, *[0.1] * 3, 0.1, 0.05, 0.05])
        ids = torch.tensor(rng.permutation(50)[:m])
        plain = trimming.trimming_rule(sigma=1.1, clip_norm=1.0, trim=trim)
        for rule in (trimming.testing_rule(**given, trim=trim), plain):
            cases.append((rule, torch.tensor(norms, dtype=dtype), ids))
    for _ in range(2):
        made = []
        for seed, (rule, norms, ids) in enumerate(cases):
            made.append(rule.decide(norms, ids=ids, state=rule.state, generator=seeded(seed)))
        decisions.append(made)
        tensors_stay(monkeypatch)
    passed = 0.0
    for one, other in zip(*decisions, strict=True):
        torch.testing.assert_close(one.weights, other.weights, rtol=0.0, atol=0.0, equal_nan=True)
        assert float(one.noise) == float(other.noise)
        for first, second in ((one.state, other.state), (one.log, other.log)):
            assert first.keys() == second.keys()
            assert [*map(float, first.values())] == pytest.approx([*map(float, second.values())], rel=1e-7)
        passed += float(one.log.get("passed", 0.0))
    assert 50 < passed < 250


# ---- whole runs ----


def trained(steps=12, *, seed=0, dtype=torch.float64, train=tsgd.tsgd_ptr, **changes):
    x, y = data(dtype=dtype)
    model = network(dtype=dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    given = {"sampling": Poisson(q=0.5), "steps": steps, "delta": 1e-5, "generator": seeded(seed), "trace_every": 4}
    rest = {**PTR, "trim": 10} if train is tsgd.tsgd_ptr else {"sigma": 1.1, "clip_norm": 1.0, "trim": 5}
    return train(model, cross_entropy, x, y, **{**given, "optimizer": optimizer, **rest, **changes})


def vector(run):
    return torch.cat([p.detach().flatten() for p in run.model.parameters()])


def test_the_guarantee_is_that_of_the_accountant():
    run = trained()
    spends = {name: PTR[name] for name in ("sigma", "tau", "scale", "delta0")}
    exact = privacy.epsilon(q=0.5, **spends, steps=12, delta=1e-5)
    assert math.isclose(run.guarantee.epsilon, exact.epsilon, rel_tol=1e-3)
    assert run.guarantee.adjacency == "add/remove" and run.guarantee.kind == "upper bound"
    assert list(run.trace.steps) == [4, 8, 12] and (np.diff(run.trace.epsilon) > 0).all()
    assert set(run.trace.other) == {"passed", "trim", "trimmed", "margin"}
    plain = trained(train=tsgd.tsgd)
    assert plain.guarantee == Poisson(q=0.5).guarantees([12], n=40, sigma=1.1, delta=1e-5)[0]


@pytest.mark.parametrize("train", [tsgd.tsgd, tsgd.tsgd_ptr])
def test_micro_batches_do_not_change_the_run(train):
    whole, pieces = trained(train=train), trained(train=train, micro_batch=3)
    torch.testing.assert_close(vector(whole), vector(pieces), rtol=1e-12, atol=1e-12)


def test_a_run_continues_to_the_same_bits(tmp_path):
    straight = trained(steps=12)
    trained(steps=8, checkpoint=tmp_path / "run.pt")
    after = trained(steps=12, seed=99, checkpoint=tmp_path / "run.pt")
    assert torch.equal(vector(straight), vector(after)) and after.guarantee == straight.guarantee
    assert list(after.trace.other["trim"]) == list(straight.trace.other["trim"])
    with pytest.raises(ValueError, match=r"^checkpoint "):
        trained(steps=12, checkpoint=tmp_path / "run.pt", tau=0.6)


def test_a_rule_of_numpy_numbers_continues_too(tmp_path):
    """What it returns is kept as int, which a checkpoint can hold."""

    def mine(trim, *, passed, change, most):
        return np.clip(trim + (-change if passed else change), 0, most)

    straight = trained(steps=12, rule=mine)
    trained(steps=8, rule=mine, checkpoint=tmp_path / "run.pt")
    after = trained(steps=12, rule=mine, checkpoint=tmp_path / "run.pt")
    assert torch.equal(vector(straight), vector(after))
    with pytest.raises(ValueError, match=r"^rule must return a whole number"):
        trained(rule=lambda trim, **_: trim + 0.5)


@pytest.mark.parametrize("train", [tsgd.tsgd, tsgd.tsgd_ptr])
def test_norms_may_carry_a_graph(train):
    """Faulty workers may hand over norms that PyTorch could differentiate."""
    x, y = data()

    def run(some_x):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        rest = (
            {**PTR, "tau": 0.9, "trim": 18} if train is tsgd.tsgd_ptr else {"sigma": 1.1, "clip_norm": 1.0, "trim": 5}
        )
        named = {"sampling": Poisson(q=0.5), "steps": 8, "delta": 1e-5, "generator": seeded(0)}
        corrupt = corruption.flipped_gradients(model, cross_entropy, some_x, y, ids=torch.arange(4))
        return vector(train(model, cross_entropy, some_x, y, optimizer=optimizer, corrupt=corrupt, **named, **rest))

    assert torch.equal(run(x), run(x.clone().requires_grad_()))
    for rule in (
        trimming.trimming_rule(sigma=1.0, clip_norm=1.0, trim=1),
        trimming.testing_rule(**PTR, trim=9, change=1, most=9),
    ):
        norms = torch.tensor([3.0, 0.1, 0.2], requires_grad=True)
        decision = rule.decide(norms, ids=torch.arange(3), state=rule.state, generator=seeded())
        assert not decision.weights.requires_grad


@pytest.mark.parametrize("ids", [torch.arange(2), torch.arange(3.0), torch.zeros(3, 1, dtype=torch.int64), None])
def test_ids_that_do_not_fit_are_refused(ids):
    for rule in (
        trimming.trimming_rule(sigma=1.0, clip_norm=1.0, trim=1),
        trimming.testing_rule(**PTR, trim=9, change=1, most=9),
    ):
        with pytest.raises(ValueError, match=r"^ids must be an integer tensor of shape \(3,\)"):
            rule.decide(torch.ones(3), ids=ids, state=rule.state, generator=seeded())


def test_empty_batches_count_and_get_noise():
    run = trained(steps=60, sampling=Poisson(q=1e-3), sigma=2.0, trim=0, trace_every=60)
    assert run.steps == 60 and run.trace.examples[0] < 20
    start = torch.cat([p.detach().flatten() for p in network().parameters()])
    moved = (vector(run) - start).abs()
    assert (moved > 0).all()


def test_what_is_refused():
    for change, message in (
        ({"sampling": FixedSize(m=5)}, r"^sampling must be Poisson"),
        ({"tau": 1.0}, r"^tau must be in \(0, 1\), got 1.0: it is in units of the clip norm"),
        ({"tau": 0.0}, r"^tau must"),
        ({"delta0": 0.5}, r"^delta0 must be in \(0, 0.5\), got 0.5: it is the probability"),
        ({"delta0": math.nan}, r"^delta0 must"),
        ({"scale": 0.0}, r"^scale must"),
        ({"trim": 21}, r"^trim must be an integer in \[0, 20\], got 21: it must be fixed before"),
        ({"trim": -1}, r"^trim must"),
        ({"trim": 2.0}, r"^trim must"),
        ({"change": -1}, r"^change must"),
        ({"sigma": 0.0}, r"^sigma must"),
        ({"clip_norm": math.inf}, r"^clip_norm must"),
    ):
        with pytest.raises(ValueError, match=message):
            trained(**change)
    with pytest.raises(ValueError, match=r"^trim must be an integer in \[0, 20\]"):
        trained(train=tsgd.tsgd, trim=30)


def test_what_the_paper_would_claim():
    mnist = {"q": 256 / 60_000, "sigma": 1.1, "tau": 0.5, "scale": 1.0, "delta0": 1e-8, "delta": 1e-5}
    claim = paper_claim(**mnist, steps=3500)
    assert math.isclose(claim.epsilon, 3.041, abs_tol=1e-3)
    assert claim.broken.startswith("sigma must be at least 4/tau = 8")
    low = paper_claim(**mnist, steps=5)
    truth = privacy.epsilon_bounds(**mnist, steps=5)
    assert low.epsilon < truth.lower, "a claim outside the conditions is false here"
    fine = paper_claim(q=1e-3, sigma=40.0, tau=0.1, scale=1.0, delta0=1e-8, steps=1, delta=0.3)
    assert fine.broken is None or fine.order > 9


def test_a_step_costs_about_as_much_as_a_step_of_dp_sgd():
    """Processor time of sums, interleaved, the best of ten: at most 1.15 times; three tries to be undisturbed."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        x, y = torch.randn(256, 784, generator=seeded()), torch.randint(10, (256,), generator=seeded())
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = nn.Sequential(nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10))
        rules = (
            PerExampleRule(lambda norms: weights.clip(norms, clip_norm=1.0), 1.1),
            trimming.testing_rule(**PTR, trim=64, change=5, most=256),
        )
        ids, ratio = torch.arange(256), math.inf
        for _ in range(3):
            times = [[], []]
            for _ in range(10):
                for rule, taken in zip(rules, times, strict=True):
                    start = time.process_time()
                    for _ in range(5):
                        released(model, x, y, rule, ids=ids)
                    taken.append(time.process_time() - start)
            ratio = min(ratio, min(times[1]) / min(times[0]))
            if ratio <= 1.15:
                break
        assert ratio <= 1.15
    finally:
        torch.set_num_threads(before)
