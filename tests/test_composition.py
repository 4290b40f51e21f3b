"""Basic composition and group privacy: golden numbers, and brute force over small mechanisms."""

import itertools
import json
import math
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

from dpml.accounting import Guarantee, composition
from dpml.mechanisms import gaussian_delta, randomized_response_truth_probability

GOLDEN = json.loads((Path(__file__).parent / "golden" / "lecture.json").read_text(encoding="utf-8"))


def labelled(epsilon, delta=0.0, **labels):
    return Guarantee(epsilon, **{"delta": delta, "kind": "exact", "adjacency": "replace-one", **labels})


@pytest.mark.parametrize("row", GOLDEN["composition"]["rows"])
def test_basic_golden(row):
    got = composition.basic(epsilon=row["eps"], delta=row["delta"], k=row["k"])
    assert got.epsilon == pytest.approx(row["basic_eps"], rel=1e-14)
    assert got.delta == pytest.approx(row["basic_delta"], rel=1e-14)
    assert (got.kind, got.adjacency, got.sampling, got.order) == ("upper bound", "as the mechanism's", "none", None)


def test_basic_is_attained_by_randomized_responses():
    for epsilon, k in ((0.3, 1), (0.3, 4), (1.0, 3)):
        truth = randomized_response_truth_probability(epsilon=epsilon)
        losses = []
        for answers in itertools.product((0, 1), repeat=k):  # the bit is 1 under D, 0 under D'
            p = math.prod(truth if a else 1 - truth for a in answers)
            p_neighbour = math.prod(1 - truth if a else truth for a in answers)
            losses.append(math.log(p / p_neighbour))
        assert max(losses) == pytest.approx(composition.basic(epsilon=epsilon, delta=0, k=k).epsilon, rel=1e-13)


def test_basic_delta_is_safe_for_gaussians():
    """k Gaussian releases are one with sigma / sqrt(k), whose exact delta basic composition must not undercut."""
    for sigma, epsilon, k in ((2.0, 0.3, 2), (1.0, 0.5, 5), (4.0, 0.1, 20)):
        delta = gaussian_delta(sigma=sigma, epsilon=epsilon)
        composed = composition.basic(epsilon=epsilon, delta=delta, k=k)
        assert gaussian_delta(sigma=sigma / math.sqrt(k), epsilon=composed.epsilon) <= composed.delta


def test_basic_heterogeneous():
    same = composition.basic_heterogeneous([labelled(0.1, 1e-6)] * 7)
    assert same.epsilon == pytest.approx(0.7, rel=1e-15)
    assert same.delta == pytest.approx(7e-6, rel=1e-15)
    assert (same.kind, same.adjacency, same.sampling) == ("upper bound", "replace-one", "none")
    mixed = composition.basic_heterogeneous(
        part for part in (labelled(1.0, sampling="without replacement"), labelled(2.0, 0.7), labelled(0.5, 0.8))
    )
    assert (mixed.epsilon, mixed.delta, mixed.sampling) == (pytest.approx(3.5), pytest.approx(1.0), "mixed")
    rough = composition.basic_heterogeneous([labelled(1.0), labelled(1.0, kind="approximation", sampling="none")])
    assert rough.kind == "approximation"
    assert composition.basic_heterogeneous([labelled(1.0), labelled(math.inf)]).epsilon == math.inf


@pytest.mark.parametrize("bad", [[], None, 3, "ab", [labelled(1.0), 2.0], labelled(1.0), [None], np.ones(2)])
def test_basic_heterogeneous_refuses_what_is_not_a_guarantee(bad):
    with pytest.raises(ValueError, match=r"^guarantees must be one or more Guarantee"):
        composition.basic_heterogeneous(bad)


def test_basic_heterogeneous_refuses_mixed_neighbours():
    with pytest.raises(ValueError, match=r"^guarantees must share one adjacency, got add/remove and replace-one"):
        composition.basic_heterogeneous([labelled(1.0), labelled(1.0, adjacency="add/remove")])


def group_delta_truth(epsilon, delta, size):
    with mp.workdps(60):
        e = mp.mpf(epsilon)
        series = mp.mpf(size) if epsilon == 0 else mp.expm1(size * e) / mp.expm1(e)
        return min(mp.mpf(1), mp.mpf(delta) * series)


def test_group_privacy_numbers():
    rng = np.random.default_rng(2)
    for _ in range(300):
        epsilon = float(10.0 ** rng.uniform(-12, 3)) if rng.random() < 0.9 else 0.0
        delta = float(10.0 ** rng.uniform(-300, 0))
        size = int(rng.integers(1, 30)) if rng.random() < 0.7 else int(rng.integers(1, 10**9))
        got = composition.group_privacy(epsilon=epsilon, delta=delta, size=size)
        truth = group_delta_truth(epsilon, delta, size)
        assert got.epsilon == pytest.approx(size * epsilon, rel=1e-15)
        assert abs(mp.mpf(got.delta) - truth) <= 1e-12 * truth
    one = composition.group_privacy(epsilon=0.7, delta=1e-6, size=1)
    assert (one.epsilon, one.delta) == (pytest.approx(0.7, rel=1e-15), pytest.approx(1e-6, rel=1e-15))
    assert composition.group_privacy(epsilon=500.0, delta=0.0, size=9).delta == pytest.approx(0.0, abs=0)


def test_group_privacy_holds_for_gaussians_and_is_attained():
    """At s steps the answer moves by s: noise sigma / s. And a chain of worst cases attains the series exactly."""
    for sigma, epsilon, size in ((3.0, 0.4, 3), (1.0, 1.0, 2), (6.0, 0.05, 8)):
        delta = gaussian_delta(sigma=sigma, epsilon=epsilon)
        group = composition.group_privacy(epsilon=epsilon, delta=delta, size=size)
        assert gaussian_delta(sigma=sigma / size, epsilon=group.epsilon) <= group.delta
    epsilon, delta = 0.5, 0.01
    probability = 0.0  # P_t(E) = e^epsilon P_{t-1}(E) + delta is allowed at every step, starting from 0
    for _ in range(4):
        probability = math.exp(epsilon) * probability + delta
    group = composition.group_privacy(epsilon=epsilon, delta=delta, size=4)
    assert group.delta == pytest.approx(probability, rel=1e-14)


@pytest.mark.parametrize(("function", "count"), [(composition.basic, "k"), (composition.group_privacy, "size")])
def test_counts_that_leave_the_range_of_floats(function, count):
    for number in (10**10, 10**400):
        with pytest.raises(ValueError, match=rf"^{count} must keep"):
            function(epsilon=1e300, delta=0.0, **{count: number})
    assert function(epsilon=0.0, delta=1e-5, **{count: 10**300}).delta == pytest.approx(1.0)
