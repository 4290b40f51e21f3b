"""The median: against every multiset of six values, and as a private mechanism with its exact divergence."""

import functools
import itertools
import math

import numpy as np
import pytest

from dpml.ptr import medians
from dpml.ptr.propose_test_release import propose_test_release

LOW, HIGH = -1.0, 3.0
UNIVERSE = (LOW, -0.7, 0.1, 0.15, 1.6, HIGH)  # the ends belong to it: the worst record is an end or a copy
RANGE = {"low": LOW, "high": HIGH}
SENSITIVITY = (HIGH - LOW) / 2


@functools.cache
def multisets(largest):
    """Every multiset of at most `largest` of the six values, as sorted tuples of positions."""
    return [c for size in range(largest + 1) for c in itertools.combinations_with_replacement(range(6), size)]


@functools.cache
def neighbours(largest):
    """For each multiset its neighbours of at most that size, as positions in the list of multisets."""
    place = {c: i for i, c in enumerate(multisets(largest))}
    found = [[] for _ in place]
    for c, i in place.items():
        if len(c) < largest:
            for value in range(6):
                j = place[tuple(sorted((*c, value)))]
                found[i].append(j)
                found[j].append(i)
    return found


def numbers(c):
    return [UNIVERSE[i] for i in c]


@functools.cache
def brute_force():
    """Values and local sensitivities by definition, over all multisets up to size 10 (sensitivities: up to 9)."""
    values = np.array([np.median(numbers(c)) if c else (LOW + HIGH) / 2 for c in multisets(10)])
    near = neighbours(10)
    inner = len(multisets(9))
    return values, np.array([max(abs(values[j] - values[i]) for j in near[i]) for i in range(inner)])


def brute_force_margins(tau):
    """The distance to the nearest multiset whose local sensitivity exceeds tau, up to 3; 4 means farther."""
    bad = brute_force()[1] > tau
    distance = np.where(bad, 0, 4)
    for step in (1, 2, 3):
        reached = [i for i in range(len(bad)) if distance[i] == step - 1]
        for i in reached:
            for j in neighbours(10)[i]:
                if j < len(bad):
                    distance[j] = min(distance[j], step)
    return distance


def test_value_and_local_sensitivity_equal_brute_force():
    values, sensitivities = brute_force()
    for i, c in enumerate(multisets(6)):
        assert medians.median(numbers(c), **RANGE) == pytest.approx(values[i], abs=1e-12)
        assert medians.median_local_sensitivity(numbers(c), **RANGE) == pytest.approx(sensitivities[i], abs=1e-12)


def test_margin_equals_brute_force():
    seen = set()
    for share in (0.0137, 0.0813, 0.2117, 0.4823, 0.9741):
        tau = share * SENSITIVITY
        expected = brute_force_margins(tau)
        for i, c in enumerate(multisets(6)):
            assert min(medians.median_safety_margin(numbers(c), tau=tau, **RANGE), 4) == expected[i], (c, tau)
            seen.add(int(expected[i]))
    assert seen == {0, 1, 2, 3, 4}


def test_global_sensitivity_is_the_largest_local_one():
    sensitivity = medians.median_sensitivity(**RANGE)
    assert sensitivity == pytest.approx(SENSITIVITY)
    assert brute_force()[1].max() == pytest.approx(sensitivity)
    assert medians.median_safety_margin([0.1] * 5, tau=sensitivity, **RANGE) == math.inf
    assert medians.median_safety_margin([0.1] * 5, tau=0.999 * sensitivity, **RANGE) < math.inf


def test_on_larger_data_the_margin_counts_changes():
    """One record moves it by at most 1; where it is above 0 some record lowers it; at 0 the data are sensitive."""
    rng, seen = np.random.default_rng(11), set()
    for size in rng.integers(6, 25, 10):
        data = [*rng.normal(1.0, 0.4, size), *rng.uniform(-2.0, 4.0, size // 4)]
        tau = float(rng.uniform(0.1, 0.4)) * SENSITIVITY
        here = medians.median_safety_margin(data, tau=tau, **RANGE)
        while here > 0:
            near = [[*data, y] for y in (*data, LOW, HIGH)] + [data[:i] + data[i + 1 :] for i in range(len(data))]
            margins = [medians.median_safety_margin(other, tau=tau, **RANGE) for other in near]
            assert min(margins) == here - 1
            assert max(margins) <= here + 1
            assert medians.median_local_sensitivity(data, **RANGE) <= tau
            seen.add(here)
            here, data = min(zip(margins, near, strict=True))
        assert medians.median_local_sensitivity(data, **RANGE) > tau
    assert len(seen) > 3


def test_a_hundred_thousand_records_with_ties():
    """One scan over the sorted values, where a search over pairs would take hours: the nearest gap is to be centred."""
    data = np.sort(np.random.default_rng(3).integers(0, 1000, 100_000))
    last = np.flatnonzero(np.diff(data))  # the last record of each value: beside it is a gap of 1, above 2 tau
    expected = max(0, min(abs(2 * i + 2 - data.size) - 1 for i in last))
    assert medians.median_safety_margin(data, tau=0.4, low=0.0, high=1000.0) == expected


def test_values_outside_the_range_count_as_its_ends():
    data = [-50.0, 0.1, 0.15, 80.0, 2.0]
    inside = np.clip(data, LOW, HIGH)
    for of, setting in (
        (medians.median, {}),
        (medians.median_local_sensitivity, {}),
        (medians.median_safety_margin, {"tau": 0.3}),
    ):
        assert of(data, **setting, **RANGE) == pytest.approx(of(inside, **setting, **RANGE))


# ---- the private statistics ----

PTR = {"sigma": 1.1, "scale": 1.0, "delta0": 1e-3}


def test_the_private_statistic_is_the_mechanism_at_its_value_and_margin():
    tau = 0.25 * SENSITIVITY
    concentrated = [1.0 + 0.001 * i for i in range(40)]
    apart = [LOW, HIGH] * 4
    passes = set()
    for data in (concentrated, apart):
        f = medians.median(data, **RANGE)
        state = {"margin": medians.median_safety_margin(data, tau=tau, **RANGE), "bound": SENSITIVITY, "tau": tau}
        for seed in range(3):
            got = medians.private_median(data, **RANGE, tau=tau, **PTR, rng=np.random.default_rng(seed))
            expected = propose_test_release(f, f2=f, **state, **PTR, rng=np.random.default_rng(seed))
            assert got.value == pytest.approx(expected.value, rel=1e-15)
            assert got.noisy_margin == pytest.approx(expected.noisy_margin, rel=1e-15)
            passes.add(got.passed)
    assert passes == {True, False}


def test_a_range_that_begins_at_the_least_float():
    assert medians.median_local_sensitivity([709.0], low=5e-324, high=0.06) == pytest.approx(0.03)
    assert medians.median_safety_margin([709.0], tau=0.1, low=5e-324, high=0.06) == math.inf
