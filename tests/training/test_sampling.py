"""The samplers: how often an example is drawn, and what may be claimed for it."""

import itertools
import math
from functools import partial

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from dpml.accounting import pld
from dpml.accounting.pld import fixed_size
from dpml.training.sampling import FixedSize, FullBatch, Poisson, cpu_generator, sampler
from tests.training.helpers import refuses, seeded


def test_poisson_draws_each_example_by_its_own_coin():
    """400,000 coins of 0.3: each of the three statistics leaves its interval with probability below 1e-7."""
    generator, n, rounds = seeded(1), 1000, 400
    drawn = torch.zeros(rounds, n, dtype=torch.float64)
    for row in drawn:
        indices = Poisson(q=0.3).draw(n, generator=generator)
        assert indices.dtype == torch.int64
        assert (indices.diff() > 0).all()
        row[indices] = 1.0
    coins = rounds * n
    assert abs(drawn.mean() - 0.3) < 5.5 * math.sqrt(0.21 / coins)
    assert abs(drawn.sum(1).var() - 0.21 * n) < 5.5 * 0.21 * n * math.sqrt(2 / rounds)  # sizes are binomial
    centred = drawn - 0.3
    neighbours = (centred[:, :-1] * centred[:, 1:]).mean()  # no example drags its neighbour along
    rounds_apart = (centred[:-1] * centred[1:]).mean()  # and no batch the next one
    assert abs(neighbours) < 5.5 * 0.21 / math.sqrt(coins)
    assert abs(rounds_apart) < 5.5 * 0.21 / math.sqrt(coins)


def test_poisson_at_the_ends():
    assert Poisson(q=1.0).draw(50, generator=seeded()).tolist() == list(range(50))
    sizes = [len(Poisson(q=1e-9).draw(10, generator=seeded(s))) for s in range(20)]
    assert sizes == [0] * 20


def test_poisson_coins_are_finer_than_single_precision(monkeypatch):
    """With 24-bit coins a q of 2^-30 would be taken for 2^-24: 64 times too often."""
    coins = torch.tensor([0.0, 2.0**-31, 2.0**-29, 2.0**-25], dtype=torch.float64)

    def rand(n, *, dtype, generator):
        assert dtype == torch.float64
        return coins[:n]

    monkeypatch.setattr(torch, "rand", rand)
    assert Poisson(q=2.0**-30).draw(4, generator=seeded()).tolist() == [0, 1]


def test_fixed_size_draws_every_set_equally_often():
    """6 sets, 6000 draws: chi-square with 5 degrees of freedom exceeds 40 with probability 1.5e-7."""
    generator = seeded(2)
    counts = dict.fromkeys(itertools.combinations(range(4), 2), 0)
    for _ in range(6000):
        counts[tuple(FixedSize(m=2).draw(4, generator=generator).tolist())] += 1
    assert sum((count - 1000) ** 2 / 1000 for count in counts.values()) < 40
    assert FixedSize(m=7).draw(7, generator=generator).tolist() == list(range(7))


def test_full_batch():
    assert sampler("sampling", FullBatch()) == FullBatch()
    assert FullBatch().draw(5, generator=seeded()).tolist() == [0, 1, 2, 3, 4]
    assert FullBatch().expected(5) == pytest.approx(5.0)
    assert FullBatch(expected_batch=7).expected(5) == Poisson(q=0.5, expected_batch=7).expected(90) == 7.0


@pytest.mark.parametrize("sampling", [Poisson(q=0.1), FixedSize(m=10)])
def test_a_generator_repeats_and_goes_on(sampling):
    first, again = seeded(3), seeded(3)
    batches = [sampling.draw(100, generator=first).tolist() for _ in range(5)]
    assert batches == [sampling.draw(100, generator=again).tolist() for _ in range(5)]
    assert len({tuple(batch) for batch in batches}) == 5
    assert sampling.expected(100) == pytest.approx(10.0)


# ---- what may be claimed ----


def test_poisson_is_accounted_for_add_remove():
    found = Poisson(q=0.01).guarantees([1, 10, 100, 1000], n=5000, sigma=1.1, delta=1e-5)
    for steps, guarantee in zip([1, 10, 100, 1000], found, strict=True):
        bounds = pld.epsilon_bounds(q=0.01, sigma=1.1, steps=steps, delta=1e-5)
        assert bounds.lower <= guarantee.epsilon <= bounds.upper + 2e-4
        assert (guarantee.adjacency, guarantee.sampling, guarantee.delta) == ("add/remove", "Poisson", 1e-5)
    assert found[-1] == pld.epsilon(q=0.01, sigma=1.1, steps=1000, delta=1e-5)
    epsilons = [guarantee.epsilon for guarantee in found]
    assert epsilons == sorted(epsilons)


def test_fixed_size_is_another_thing():
    """Replace-one, and about twice the epsilon of Poisson sampling of the same size."""
    fixed = FixedSize(m=50).guarantees([100], n=5000, sigma=1.1, delta=1e-5)[0]
    assert (fixed.adjacency, fixed.sampling) == ("replace-one", "without replacement")
    bounds = fixed_size.epsilon_bounds(q=0.01, sigma=1.1, steps=100, delta=1e-5)
    assert fixed == bounds.guarantee()
    poisson = Poisson(q=0.01).guarantees([100], n=5000, sigma=1.1, delta=1e-5)[0]
    assert fixed.epsilon > 1.8 * poisson.epsilon


def test_full_batch_is_one_gaussian():
    found = FullBatch().guarantees([1, 100], n=5000, sigma=20.0, delta=1e-5)
    one = pld.epsilon(q=1.0, sigma=2.0, steps=1, delta=1e-5)
    assert found[1].epsilon == pytest.approx(one.epsilon, rel=1e-9)
    assert (found[1].sampling, found[1].kind, found[1].adjacency) == ("none", "exact", "add/remove")


@pytest.mark.parametrize("sampling", [Poisson(q=0.02), FixedSize(m=20), FullBatch()])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_calibrated_noise_meets_its_target(sampling, epsilon):
    sigma = sampling.noise_multiplier(n=1000, steps=200, epsilon=epsilon, delta=1e-5)
    spent = sampling.guarantees([200], n=1000, sigma=sigma, delta=1e-5)[0].epsilon
    assert epsilon * 0.99 < spent <= epsilon
    assert sampling.guarantees([200], n=1000, sigma=0.99 * sigma, delta=1e-5)[0].epsilon > epsilon


# ---- refusals ----


NO_GENERATOR = (None, 0, "cpu", torch.Generator)
NO_NUMBER = (None, "0.5", True, math.nan, math.inf, -1, 0, 1e400)
NO_COUNT = (*NO_NUMBER, 2.0)


def test_what_is_refused():
    refuses(Poisson, {}, q=(*NO_NUMBER, 1.5, torch.tensor([0.1, 0.2])))
    for sampler_of in (FullBatch, partial(Poisson, q=0.5)):
        refuses(sampler_of, {}, expected_batch=(*NO_NUMBER[1:], torch.tensor([1.0, 2.0])))
    refuses(FixedSize, {}, m=NO_COUNT)
    for sampling in (Poisson(q=0.5), FixedSize(m=1), FullBatch()):
        refuses(sampling.expected, {}, n=NO_COUNT)
        refuses(sampling.draw, {"n": 3, "generator": seeded()}, n=NO_COUNT, generator=NO_GENERATOR)
    refuses(FixedSize(m=11).draw, {"generator": seeded()}, n=(10,))
    refuses(FixedSize(m=11).guarantees, {"steps": [1], "sigma": 1.0, "delta": 1e-5}, n=(10,))
    target = {"n": 100, "steps": 10, "epsilon": 1.0, "delta": 1e-5}
    refuses(FixedSize(m=5).noise_multiplier, target, epsilon=(0.0, math.nan), delta=(0.0,), steps=(0,))
    refuses(cpu_generator, {}, generator=NO_GENERATOR)


def test_a_shuffled_loader_is_refused_with_the_reason():
    data = TensorDataset(torch.zeros(8, 2))
    for bad in (DataLoader(data, batch_size=2, shuffle=True), [torch.zeros(2)], iter([1]), data):
        with pytest.raises(ValueError, match=r"^sampling must be .*got \w+: the batches of a shuffled pass"):
            sampler("sampling", bad)
    refuses(lambda sampling: sampler("sampling", sampling), {}, sampling=(None, 0.1, Poisson))


def test_a_closed_form_reaches_further():
    """Where all examples are in every step."""
    sigma = FixedSize(m=100).noise_multiplier(n=100, steps=10**9, epsilon=1e-6, delta=1e-9)
    assert 0.99e-6 < FixedSize(m=100).guarantees([10**9], n=100, sigma=sigma, delta=1e-9)[0].epsilon <= 1e-6
