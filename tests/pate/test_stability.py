"""Distance to instability and M_stab: golden numbers, brute force, and the exact output laws of small instances."""

import itertools
import math

import numpy as np
import pytest

from dpml.pate import instability, m_stab, stability
from tests.golden import golden
from tests.pate.votes import histograms, hockey_stick, moved

GOLDEN = golden("stability")


def plurality(votes, classes):
    counts = [votes.count(label) for label in range(classes)]
    return counts.index(max(counts))


def walk(counts):
    """The distance to instability by breadth-first search over histograms: an independent route."""
    winner, level, seen = counts.index(max(counts)), {counts}, {counts}
    for distance in range(sum(counts) + 1):
        level = {n for c in level for n in moved(c)} - seen
        if any(n.index(max(n)) != winner for n in level):
            return distance
        seen |= level
    raise AssertionError("some other label can always win")


# ---- distance ----


@pytest.mark.parametrize("example", GOLDEN["dist_plurality"]["examples"], ids=lambda e: str(e["counts"]))
def test_golden_distances(example):
    assert stability.distance_to_instability(example["counts"]) == example["dist"]


@pytest.mark.parametrize(("voters", "classes"), [(5, 2), (4, 3)])
def test_the_closed_form_is_brute_force_over_datasets(voters, classes):
    for votes in itertools.product(range(classes), repeat=voters):
        counts = np.bincount(votes, minlength=classes)
        slow = instability.distance_by_brute_force(
            lambda d: plurality(d, classes), dataset=votes, values=tuple(range(classes))
        )
        assert stability.distance_to_instability(counts) == slow


def test_brute_force_on_other_functions():
    by_brute_force = instability.distance_by_brute_force
    bits = (0, 1)
    assert by_brute_force(lambda d: 7, dataset=(0, 1, 1, 0), values=bits) == 4  # constant: all n records may change
    assert by_brute_force(sum, dataset=(0, 1, 1, 0), values=bits) == 0
    assert by_brute_force(max, dataset=(1, 1, 1, 0), values=bits) == 2
    assert by_brute_force(lambda d: sorted(d)[2], dataset=(3, 3, 3, 3, 5), values=(3, 5)) == 1  # the median
    assert by_brute_force(lambda d: sorted(d)[2], dataset=np.array([3, 3, 3, 3, 3]), values=[5, 3]) == 2


def test_shapes():
    one = stability.distance_to_instability([5, 2])
    assert np.ndim(one) == 0
    assert one == 1
    several = stability.distance_to_instability(np.array([[5, 2], [0, 9]]))
    assert several.tolist() == [1, 4]
    assert several.dtype == np.int64
    large = stability.distance_to_instability([2**53, 1])
    assert large == (2**53 - 1) // 2


# ---- M_stab ----


@pytest.mark.parametrize("case", GOLDEN["mstab"], ids=lambda c: f"{c['eps']}-{c['delta']}")
def test_golden_release_probabilities(case):
    of = {"epsilon": case["eps"], "delta": case["delta"]}
    assert m_stab.stability_threshold(**of) == pytest.approx(case["T"], rel=1e-13)
    for row in case["p_output"]:
        assert m_stab.release_probability(row["dist"], **of) == pytest.approx(row["p"], rel=1e-12)
        assert m_stab.fail_probability(row["dist"], **of) == pytest.approx(1 - row["p"], rel=1e-9, abs=1e-15)
    distances = np.arange(300)
    log_ratio = np.abs(np.diff(np.log(m_stab.release_probability(distances, **of)))).max()
    log_ratio = max(log_ratio, np.abs(np.diff(np.log(m_stab.fail_probability(distances, **of)))).max())
    assert log_ratio == pytest.approx(case["caseI_max_logratio"], rel=1e-9)
    assert m_stab.m_stab_privacy(**of).delta == pytest.approx(case["caseII_delta"], rel=1e-14)


def test_extreme_arguments_stay_probabilities():
    for epsilon, delta, distance in itertools.product(
        (5e-324, 1e-8, 1e300), (5e-324, 0.5, 1 - 2**-53), (-1e300, 0, 1e9)
    ):
        of = {"epsilon": epsilon, "delta": delta}
        p, fail = m_stab.release_probability(distance, **of), m_stab.fail_probability(distance, **of)
        assert 0 <= p <= 1
        assert p + fail == pytest.approx(1.0, abs=1e-12)
    assert m_stab.fail_probability(800.0, epsilon=1.0, delta=1e-5) == pytest.approx(math.exp(-800) / 2e-5, rel=1e-9)


def law(counts, *, epsilon, delta):
    """Output -> probability, written anew: the distance by search, the release by the Laplace distribution function."""
    x = epsilon * (walk(counts) - math.log(1 / delta) / epsilon)
    p = 1 - 0.5 * math.exp(-x) if x > 0 else 0.5 * math.exp(x)
    return {counts.index(max(counts)): p, m_stab.FAIL: 1 - p}


def exact_delta(laws, pairs, epsilon):
    """The least delta for these pairs: the largest hockey-stick divergence, by summing over outputs."""
    return max(hockey_stick(laws[one], laws[other], epsilon) for one, other in pairs)


CASES = [(9, 2, 1.0, 0.05), (30, 2, 1.0, 1e-5), (9, 3, 0.5, 0.1), (7, 2, 0.3, 0.9)]


@pytest.mark.parametrize(("voters", "classes", "epsilon", "delta"), CASES)
def test_m_stab_is_epsilon_and_exactly_half_of_delta_private(voters, classes, epsilon, delta):
    every = list(histograms(voters, classes))
    pairs = [(one, other) for one in every for other in moved(one)]
    laws = {counts: law(counts, epsilon=epsilon, delta=delta) for counts in every}
    for counts in every:  # the package computes the law that is enumerated here
        released = m_stab.release_probability(stability.distance_to_instability(counts), epsilon=epsilon, delta=delta)
        assert laws[counts][counts.index(max(counts))] == pytest.approx(released, rel=1e-12)
    promised = m_stab.m_stab_privacy(epsilon=epsilon, delta=delta)
    assert (promised.kind, promised.adjacency) == ("upper bound", "replace-one")
    for at in (epsilon, 2 * epsilon, 50 * epsilon):  # no epsilon, however large, makes do with less
        assert exact_delta(laws, pairs, at) == pytest.approx(promised.delta, rel=1e-9)
    for g in GOLDEN["mstab_exact"]:
        if (g["n"], g["classes"], g["eps"], g["delta"]) == (voters, classes, epsilon, delta):
            assert exact_delta(laws, pairs, epsilon) == pytest.approx(g["exact_delta_at_eps"], rel=1e-9)


def test_all_golden_instances_are_enumerated():
    assert {(g["n"], g["classes"], g["eps"], g["delta"]) for g in GOLDEN["mstab_exact"]} <= set(CASES)


def test_m_stab_draws_from_the_law():
    """10,000 runs on each of four histograms; each count is within 6 standard deviations (false alarm below 1e-7)."""
    rng, runs, of = np.random.default_rng(5), 10_000, {"epsilon": 1.0, "delta": 0.05}
    for counts in ([5, 4, 0], [2, 9, 1], [0, 1, 12], [0, 0, 30]):
        answers = stability.m_stab(np.tile(counts, (runs, 1)), **of, rng=rng)
        p = float(m_stab.release_probability(stability.distance_to_instability(counts), **of))
        released = int((answers != m_stab.FAIL).sum())
        assert abs(released - runs * p) <= 6 * math.sqrt(runs * p * (1 - p)) + 3
        assert set(answers.tolist()) <= {int(np.argmax(counts)), m_stab.FAIL}


def test_m_stab_returns_a_label_or_fail():
    rng = np.random.default_rng(1)
    one = stability.m_stab([0, 400, 3], epsilon=1.0, delta=1e-5, rng=rng)
    assert np.ndim(one) == 0
    assert one == 1  # distance 198: fails with probability 1e-81
    several = stability.m_stab([[400, 0, 3], [2, 2, 2]], epsilon=1.0, delta=1e-5, rng=rng)
    assert several.tolist() == [0, m_stab.FAIL]  # distance 0: released with probability 5e-6


def test_the_test_for_any_function():
    rng = np.random.default_rng(1)
    one = m_stab.stability_test(500.0, epsilon=1.0, delta=1e-5, rng=rng)
    assert np.ndim(one) == 0
    assert one
    assert m_stab.stability_test([0.0, 99.0], epsilon=1.0, delta=1e-9, rng=rng).tolist() == [False, True]
    assert not m_stab.stability_test(0.0, epsilon=1e300, delta=1e-9, rng=rng)
    assert m_stab.stability_test(1e300, epsilon=1e300, delta=1e-9, rng=rng)


@pytest.mark.parametrize(("epsilon", "delta", "beta"), [(1.0, 1e-5, 0.01), (0.1, 1e-6, 1e-9), (3.0, 0.3, 0.5)])
def test_the_utility_claim(epsilon, delta, beta):
    of = {"epsilon": epsilon, "delta": delta}
    needed = m_stab.distance_needed(**of, beta=beta)
    assert m_stab.fail_probability(needed, **of) == pytest.approx(beta / 2, rel=1e-9)
    assert m_stab.fail_probability(math.ceil(needed), **of) <= beta / 2 * (1 + 1e-9)
    assert m_stab.fail_probability(needed - 1 / epsilon, **of) > beta / 2  # and one less is not enough
