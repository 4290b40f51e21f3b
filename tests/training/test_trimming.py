"""Trimmed SGD with and without propose-test-release: sums, sensitivity, the test, F, the accountant, bad input."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
import torch

from dpml.ptr import privacy, trimmed_sum
from dpml.ptr.theorems import paper_claim
from dpml.training import corruption, trimming, tsgd, tsgd_ptr
from dpml.training.mechanism import Batch
from dpml.training.per_example import PerExample
from dpml.training.sampling import FixedSize, Poisson
from dpml.training.trimming import kept, next_trim, upside_down_trim
from tests.training.helpers import cross_entropy, data, flat, gradients, network, refuses, seeded, train

PTR = {"sigma": 1.1, "clip_norm": 1.0, "tau": 0.5, "scale": 1.0, "delta0": 1e-8}
DOUBLE = {"dtype": torch.float64}


class Norms:
    """A batch of which only the norms are known; its sum is the weights themselves."""

    def __init__(self, norms, ids=None):
        self.norms, self.ids = norms, torch.arange(len(norms), device=norms.device) if ids is None else ids

    def sum(self, weights):
        self.weights = weights
        return weights


def without_noise(mechanism, batch, *, state, generator):
    """What a step releases before its noise, and the deviation of that."""
    deviations = []
    with pytest.MonkeyPatch.context() as patch:
        noisy = "dpml.training.mechanism._noisy"
        patch.setattr(noisy, lambda total, noise, generator: (deviations.append(noise), total)[1])
        return mechanism.release(batch, state=state, generator=generator), deviations[0]


def decided(mechanism, norms, *, state, ids=None, generator=None):
    """Weights, deviation of the noise, state and log of one step."""
    batch = Norms(norms, ids)
    found, deviation = without_noise(mechanism, batch, state=state, generator=generator)
    return batch.weights, deviation, found.state, found.log


def states(mechanism, most):
    """The state before the first step where the expected batch size is `most`."""
    return mechanism.start(Poisson(q=1.0), most)


def released(model, x, y, mechanism, *, ids, size=40, most=40):
    """The sum of one batch without noise and its deviation, as the trainer forms it."""
    chunks = (PerExample(model, cross_entropy, x[i], y[i]) for i in torch.split(ids, size))
    batch = Batch(chunks, ids=ids, parameters=dict(model.named_parameters()))
    return without_noise(mechanism, batch, state=states(mechanism, most), generator=seeded(1))


# ---- the sum ----


@pytest.mark.parametrize("trim", [0, 1, 7, 11, 12, 13, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_sum_is_the_trimmed_sum_of_the_gradients(trim, dtype):
    """Against `dpml.ptr.trimmed_sum` on gradients formed one by one: F from 0 to above m, ties, micro-batches."""
    x, y = data(12, dtype=dtype)
    x[3:8], y[3:8] = x[3].clone(), y[3].clone()  # five equal gradients
    model = network(dtype=dtype)
    ids = torch.tensor([30, 2, 14, 9, 77, 5, 6, 60, 1, 21, 22, 0]).argsort()  # all twelve, in another order
    mechanism = tsgd(sigma=1.0, clip_norm=0.7, trim=trim)
    naive = trimmed_sum.clipped_trimmed_sum(gradients(model, x, y)[ids].numpy(), trim=trim, bound=0.7, ids=ids.numpy())
    for size in (12, 5, 1):
        found, noise = released(model, x, y, mechanism, ids=ids, size=size)
        scale = max(1.0, float(np.linalg.norm(naive)))
        assert np.linalg.norm(found.vector.numpy() - naive) <= (1e-6 if dtype == torch.float32 else 1e-12) * scale
        assert noise == 0.7
    assert float(found.log["trimmed"]) == pytest.approx(min(trim, 12) / 12)


def test_an_empty_batch_gives_zero_and_the_same_noise():
    x, y = data(**DOUBLE)
    none = torch.zeros(0, dtype=torch.int64)
    for mechanism in (tsgd(sigma=2.0, clip_norm=0.5, trim=3), tsgd_ptr(**PTR, trim=30)):
        found, noise = released(network(**DOUBLE), x, y, mechanism, ids=none)
        assert not found.vector.any() and math.isfinite(float(found.log["trimmed"]))
    assert float(found.log["margin"]) == 30.0 and float(found.log["passed"]) == 1.0
    assert math.isclose(noise, 1.1 * 0.5, rel_tol=1e-6)


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
        mechanism = tsgd(sigma=1.0, clip_norm=1.0, trim=trim)

        def total(keep, vectors=vectors, ids=ids, mechanism=mechanism):
            weights, *_ = decided(mechanism, vectors[keep].norm(dim=1), ids=ids[keep], state={})
            return weights @ vectors[keep]

        everyone = torch.arange(m)
        for out in range(m):
            others = everyone[everyone != out]
            order = torch.tensor(rng.permutation(len(others)))
            worst = max(worst, float((total(everyone) - total(others[order])).norm()))
    assert 1.0 - 1e-6 <= worst <= 1.0 + 1e-6


# ---- who stays ----


def test_kept_against_sorting_pairs_and_against_numpy():
    rng = np.random.default_rng(2)
    for m in range(1, 9):
        for trim in range(m + 3):
            norms = rng.integers(0, 4, m).astype(float)  # many ties
            ids = rng.permutation(100)[:m]
            stay = sorted(range(m), key=lambda i: (norms[i], ids[i]))[: max(0, m - trim)]
            expected = [i in stay for i in range(m)]
            assert trimmed_sum.kept(norms, trim=trim, ids=ids).tolist() == expected
            for given in (trim, torch.tensor(trim)):
                assert kept(torch.tensor(norms), trim=given, ids=torch.tensor(ids)).tolist() == expected


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_low_precision_undefined_and_no_norms(dtype):
    norms = torch.tensor([3.0, 1.0, 2.0, 3.0]).to(dtype)
    assert kept(norms, trim=2, ids=torch.tensor([4, 3, 2, 1])).tolist() == [False, True, True, False]
    undefined = torch.tensor([torch.nan, 1.0, torch.inf, 2.0]).to(dtype)
    assert kept(undefined, trim=2, ids=torch.arange(4)).tolist() == [False, True, False, True]
    assert kept(norms[:0], trim=3, ids=torch.zeros(0, dtype=torch.int64)).shape == (0,)


# ---- the test ----


def test_the_margin_is_that_of_the_trimmed_sum():
    rng = np.random.default_rng(1)
    for _ in range(100):
        m, trim = int(rng.integers(0, 20)), int(rng.integers(0, 25))
        norms = rng.choice([0.1, 0.3, 0.35, 0.350001, 0.7, 4.0], m)
        mechanism = tsgd_ptr(**{**PTR, "clip_norm": 0.7}, trim=trim, change=1)
        *_, log = decided(mechanism, torch.tensor(norms), state=states(mechanism, 30), generator=seeded())
        expected = trimmed_sum.safety_margin_enumerated(np.minimum(norms, 0.7), trim=trim, tau=0.35, bound=0.7)
        assert float(log["margin"]) == expected


@pytest.mark.parametrize("short", [0, 2, 9])
def test_the_test_passes_as_often_as_it_should(short):
    """4,000 tests; a right one fails with probability below 1e-6 (five standard deviations)."""
    scale, delta0, runs = 2.0, 0.2, 4_000
    mechanism = tsgd_ptr(sigma=1.0, clip_norm=1.0, tau=0.5, scale=scale, delta0=delta0, trim=10, change=0)
    norms, generator, state = torch.tensor([0.9] * (10 - short) + [0.1] * 6), seeded(3), states(mechanism, 20)
    logs = (decided(mechanism, norms, state=state, generator=generator)[3] for _ in range(runs))
    passed = sum(float(log["passed"]) for log in logs)
    gap = scale * math.log(1 / (2 * delta0)) - short
    chance = 0.5 * math.exp(-gap / scale) if gap > 0 else 1 - 0.5 * math.exp(gap / scale)
    assert abs(passed / runs - chance) < 5 * math.sqrt(chance * (1 - chance) / runs)


@pytest.mark.parametrize(("trim", "passes"), [(28, True), (0, False)])
def test_what_is_released_after_each_outcome(trim, passes):
    x, y = data(30, **DOUBLE)
    model, ids = network(**DOUBLE), torch.arange(30)
    naive = gradients(model, x, y).numpy()
    mechanism = tsgd_ptr(**{**PTR, "clip_norm": 50.0}, trim=trim, change=5)
    found, noise = released(model, x, y, mechanism, ids=ids, most=30)
    assert float(found.log["passed"]) == passes
    assert math.isclose(noise, 1.1 * 50.0 * (0.5 if passes else 1.0), rel_tol=1e-6)
    expected = trimmed_sum.clipped_trimmed_sum(naive, trim=trim, bound=50.0)  # trim 0: the plain sum
    np.testing.assert_allclose(found.vector, expected, atol=1e-12)
    assert int(found.state["trim"]) == (trim - 5 if passes else trim + 5)


def test_one_rule_for_trim_settles_and_the_other_runs_away():
    """40 of 100 gradients are long. Pass rates are those of the test; the printed rule of B.1.3 ends at an edge."""
    long = torch.tensor([2.0] * 40 + [0.1] * 60)
    ends, rates = [], []
    for move, first in itertools.product((next_trim, upside_down_trim), (20, 90)):
        mechanism = tsgd_ptr(**PTR, trim=first, change=2, rule=move)
        state, generator, passed = states(mechanism, 100), seeded(4), []
        for _ in range(400):
            _, _, state, log = decided(mechanism, long, state=state, generator=generator)
            passed.append(float(log["passed"]))
        ends.append(int(state["trim"]))
        rates.append(np.mean(passed[100:]))
    assert all(50 <= end <= 66 for end in ends[:2]) and all(0.4 < rate < 0.6 for rate in rates[:2])
    assert ends[2:] == [0, 100] and rates[2:] == [0.0, 1.0]
    assert [next_trim(trim, passed=trim < 50, change=8, most=100) for trim in (3, 97)] == [0, 100]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_and_tensors_decide_alike(dtype, monkeypatch):
    """What runs on the CPU against what runs on a GPU, with the same coins: ties, NaN, empty batches, F above m."""
    rng, cases = np.random.default_rng(7), []
    for _ in range(300):
        m, trim = int(rng.integers(0, 12)), int(rng.integers(0, 15))
        norms = rng.choice([0.1, 0.3, 0.5, 0.7, 4.0, math.inf, math.nan], m, p=[0.5, *[0.1] * 3, 0.1, 0.05, 0.05])
        mechanism = tsgd_ptr(**{**PTR, "delta0": 0.1}, trim=trim, change=2)
        cases.append((mechanism, torch.tensor(norms, dtype=dtype), torch.tensor(rng.permutation(50)[:m])))

    def all_decided():
        given = [
            {"ids": ids, "state": states(one, 15), "generator": seeded(k)} for k, (one, _, ids) in enumerate(cases)
        ]
        return [decided(one, norms, **more) for (one, norms, _), more in zip(cases, given, strict=True)]

    numbers = all_decided()
    monkeypatch.setattr(trimming, "_local", lambda values: values)  # as on a GPU: nothing becomes a number of Python
    passed = 0.0
    for one, other in zip(numbers, all_decided(), strict=True):
        torch.testing.assert_close(one[0], other[0], rtol=0.0, atol=0.0, equal_nan=True)
        assert float(one[1]) == float(other[1])
        for first, second in zip(one[2:], other[2:], strict=True):
            assert first.keys() == second.keys()
            assert [*map(float, first.values())] == pytest.approx([*map(float, second.values())], rel=1e-7)
        passed += float(one[3]["passed"])
    assert 50 < passed < 250


# ---- whole runs ----


TESTED = tsgd_ptr(**PTR, trim=10)


def trained(mechanism=TESTED, *, seed=0, steps=12, corrupt=None, x=None, **changes):
    some_x, y = data(**DOUBLE)
    model = network(**DOUBLE)
    given = {"optimizer": torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), "trace_every": 4, "steps": steps}
    given |= {"generator": seeded(seed), "corrupt": corrupt, **changes}
    return train(model, some_x if x is None else x, y, mechanism=mechanism, **given)


def clipped(trim, *, passed, change, most):
    """A rule that returns numbers of NumPy: they are kept as int, which a checkpoint can hold."""
    return np.clip(trim + (-change if passed else change), 0, most)


@pytest.mark.parametrize("mechanism", [TESTED, tsgd_ptr(**PTR, trim=10, rule=partial(clipped))])
def test_a_run_continues_to_the_same_bits(tmp_path, mechanism):
    straight = trained(mechanism)
    assert list(straight.trace.steps) == [4, 8, 12]
    assert set(straight.trace.other) == {"passed", "trim", "trimmed", "margin"}
    trained(mechanism, steps=8, checkpoint=tmp_path / "run.pt")
    after = trained(mechanism, seed=99, checkpoint=tmp_path / "run.pt")
    assert torch.equal(flat(straight.model), flat(after.model)) and after.guarantee == straight.guarantee
    assert list(after.trace.other["trim"]) == list(straight.trace.other["trim"])
    with pytest.raises(ValueError, match=r"^checkpoint "):
        trained(tsgd_ptr(**PTR | {"tau": 0.6}, trim=10), checkpoint=tmp_path / "run.pt")


@pytest.mark.parametrize("mechanism", [tsgd(sigma=1.1, clip_norm=1.0, trim=5), TESTED])
def test_norms_may_carry_a_graph(mechanism):
    """Faulty workers may hand over norms that PyTorch could differentiate."""
    x, _ = data(**DOUBLE)
    corrupt = corruption.flipped_gradients(torch.arange(4), n=40)
    ends = [flat(trained(mechanism, corrupt=corrupt, x=some).model) for some in (x, x.clone().requires_grad_())]
    assert torch.equal(*ends)
    norms = torch.tensor([3.0, 0.1, 0.2], requires_grad=True)
    weights, *_ = decided(mechanism, norms, state=states(mechanism, 19), generator=seeded())
    assert not weights.requires_grad


def test_what_is_refused():
    ids = torch.arange(3)
    no_ids = (ids[:2], ids.float(), ids[:, None], ids.to("meta"), None)
    good = {"norms": torch.ones(3), "trim": 1, "ids": ids}
    refuses(kept, good, norms=([1.0] * 3, torch.ones(3, 1), ids), trim=(-1, 1.0, torch.tensor(1.0)), ids=no_ids)
    gaussian, tested = {"sigma": 1.1, "clip_norm": 1.0, "trim": 5}, {**PTR, "trim": 10}
    for make, given in ((tsgd, gaussian), (tsgd_ptr, tested)):
        refuses(make, given, sigma=(-1.0,), clip_norm=(0.0, math.inf), trim=(-1, 2.0))
        with pytest.raises(ValueError, match=r"^trim must be an integer in \[0, 20\], got 21"):
            trained(make(**given | {"trim": 21}))
    refuses(tsgd_ptr, tested, sigma=(0.0,), tau=(0.0, 1.0), delta0=(0.5, math.nan), scale=(0.0,), change=(-1,))
    refuses(tsgd_ptr, tested, rule=(1.0, "next_trim"))
    assert "0x" not in repr(tsgd_ptr(**tested, rule=partial(clipped))), "the same name in another process"
    with pytest.raises(ValueError, match=r"^sampling must be Poisson"):
        trained(sampling=FixedSize(m=5))
    with pytest.raises(ValueError, match=r"^rule must return a whole number"):
        trained(tsgd_ptr(**tested, rule=lambda trim, **_: trim + 0.5))


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
