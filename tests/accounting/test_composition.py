"""Composition and group privacy: golden numbers, brute force over small mechanisms, exact sums in mpmath."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

from dpml.accounting import Guarantee, composition
from tests.golden import golden

GOLDEN = golden("lecture")
CURVES = golden("composition")


def labelled(epsilon, delta=0.0, **labels):
    return Guarantee(epsilon, **{"delta": delta, "kind": "exact", "adjacency": "replace-one", **labels})


HUGE = [labelled(1e308)] * 3
KNOWN = composition.basic(epsilon=0.1, delta=1e-6, k=10, adjacency="add/remove")
UNKNOWN = composition.basic(epsilon=0.1, delta=0.0, k=10)  # add/remove here and replace-one there do not add up
GROUP = composition.group_privacy(epsilon=0.5, delta=1e-6, size=4)


@pytest.mark.parametrize("row", GOLDEN["composition"]["rows"])
def test_basic_golden(row):
    got = composition.basic(epsilon=row["eps"], delta=row["delta"], k=row["k"])
    assert got.epsilon == pytest.approx(row["basic_eps"], rel=1e-14)
    assert got.delta == pytest.approx(row["basic_delta"], rel=1e-14)
    assert (got.kind, got.adjacency, got.sampling, got.order) == ("upper bound", "as the mechanism's", "none", None)


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
    assert composition.basic_heterogeneous([*HUGE, labelled(math.inf)]).epsilon == math.inf


def test_the_neighbours_are_passed_on():
    both = composition.basic_heterogeneous([KNOWN, labelled(1.0, adjacency="add/remove")])
    assert (both.epsilon, both.adjacency) == (pytest.approx(2.0), "add/remove")
    assert composition.basic_heterogeneous([UNKNOWN]).adjacency == "as the mechanism's"
    case = {"epsilon": 0.5, "delta": 0.0, "k": 10, "adjacency": "replace-one"}
    parts = [composition.basic(**case), composition.optimal(**case, total_delta=1e-5)]
    parts += [f(**case, delta_prime=1e-5) for f in (composition.advanced, composition.advanced_tanh)]
    whole = composition.basic_heterogeneous(parts)
    assert whole.adjacency == "replace-one"
    assert whole.epsilon == pytest.approx(math.fsum(part.epsilon for part in parts), rel=1e-15)
    for number, delta in itertools.product((0.0, 1e-320, 0.5, 300.0), (0.0, 1e-6)):
        assert composition.group_privacy(epsilon=number, delta=delta, size=4).adjacency == "group"


@pytest.mark.parametrize(
    ("parts", "message"),
    [(bad, "be one or more Guarantee") for bad in ([], None, 3, "ab", [labelled(1.0), 2.0], KNOWN, [None], np.ones(2))]
    + [(parts, "be those of single steps, got .*group_privacy") for parts in ([GROUP], [GROUP, GROUP])]
    + [
        ([KNOWN, labelled(1.0)], "share one adjacency, got add/remove and replace-one"),
        ([GROUP, labelled(1.0)], "share one adjacency"),
        ([UNKNOWN, UNKNOWN], "name their neighbours, got .*: pass adjacency="),
        (HUGE, r"have epsilons that add up to a float, got 3, up to 1e\+308"),
    ],
)
def test_what_does_not_add_up_is_refused(parts, message):
    with pytest.raises(ValueError, match=rf"^guarantees must {message}"):
        composition.basic_heterogeneous(parts)


def test_group_privacy_numbers():
    rng = np.random.default_rng(2)
    for _ in range(150):
        epsilon = float(10.0 ** rng.uniform(-12, 3)) if rng.random() < 0.9 else 0.0
        delta = float(10.0 ** rng.uniform(-300, 0))
        size = int(rng.integers(1, 30)) if rng.random() < 0.7 else int(rng.integers(1, 10**9))
        got = composition.group_privacy(epsilon=epsilon, delta=delta, size=size)
        assert got.epsilon == pytest.approx(size * epsilon, rel=1e-15)
        with mp.workdps(60):
            e = mp.mpf(epsilon)
            series = mp.expm1(size * e) / mp.expm1(e) if epsilon else mp.mpf(size)
            truth = min(mp.mpf(1), delta * series)
            assert abs(got.delta - truth) <= 1e-12 * truth
    assert composition.group_privacy(epsilon=500.0, delta=0.0, size=9).delta == pytest.approx(0.0, abs=0)


@pytest.mark.parametrize(("function", "count"), [(composition.basic, "k"), (composition.group_privacy, "size")])
def test_counts_that_leave_the_range_of_floats(function, count):
    with pytest.raises(ValueError, match=rf"^{count} must keep"):
        function(epsilon=1e300, delta=0.0, **{count: 10**10})
    with pytest.raises(ValueError, match=rf"^{count} must be an integer in"):
        function(epsilon=0.0, delta=0.0, **{count: 10**400})
    nothing = function(epsilon=0.0, delta=1e-5, **{count: 2**53})
    assert (nothing.epsilon, nothing.delta) == (pytest.approx(0.0, abs=0), pytest.approx(1.0))
    tiny = function(epsilon=5e-324, delta=0.0, **{count: 2**53})
    assert tiny.epsilon == pytest.approx(float(mp.mpf(5e-324) * 2**53), rel=1e-15)


# ---- advanced composition ----


@pytest.mark.parametrize("row", CURVES["rows"])
def test_advanced_golden(row):
    arguments = {"epsilon": row["eps"], "delta": row["delta"], "k": row["k"], "delta_prime": row["delta_prime"]}
    printed, sharper = composition.advanced(**arguments), composition.advanced_tanh(**arguments)
    assert printed.epsilon == pytest.approx(row["advanced_eps"], rel=1e-13)
    assert sharper.epsilon == pytest.approx(row["advanced_tanh_eps"], rel=1e-13)
    for got in (printed, sharper):
        assert got.delta == pytest.approx(row["advanced_delta"], rel=1e-14)
        assert (got.kind, got.adjacency, got.sampling) == ("upper bound", "as the mechanism's", "none")


@pytest.mark.parametrize("row", CURVES["advanced_beats_basic_first_k"])
def test_first_k_golden(row):
    assert composition.advanced_first_k(epsilon=row["eps"], delta_prime=row["delta_prime"]) == row["first_k"]


def test_first_k_is_where_the_two_cross():
    """By the two functions themselves, just before and at it; beyond ln 2 at no k at all."""
    slack = {"delta": 0.0, "delta_prime": 1e-6}
    for epsilon in (1e-9, 0.01, 0.2, 0.5, 0.65, 0.69):
        first = composition.advanced_first_k(epsilon=epsilon, delta_prime=1e-6)
        assert composition.advanced(epsilon=epsilon, k=first, **slack).epsilon < first * epsilon
        if first > 1:
            assert composition.advanced(epsilon=epsilon, k=first - 1, **slack).epsilon >= (first - 1) * epsilon
    for epsilon in (math.log(2.0) + 1e-15, 0.7, 1.0, 30.0, 1e300):
        assert composition.advanced_first_k(epsilon=epsilon, delta_prime=0.5) is None
    for k in (1, 1000, 10**6, 10**15):
        assert composition.advanced(epsilon=math.log(2.0), k=k, **slack).epsilon >= k * math.log(2.0)
    assert composition.advanced_first_k(epsilon=0.0, delta_prime=0.5) is None
    assert composition.advanced(epsilon=0.0, k=7, **slack).epsilon == pytest.approx(0.0, abs=0)


def test_ten_of_a_half():
    """The case that looks like a gain and is a loss: 10 mechanisms of epsilon 0.5."""
    case = {"epsilon": 0.5, "delta": 0.0, "k": 10}
    assert composition.advanced(**case, delta_prime=1e-5).epsilon == pytest.approx(10.83, abs=5e-3)
    assert composition.optimal(**case, total_delta=1e-5).epsilon == pytest.approx(4.998854, abs=5e-7)


# ---- optimal composition ----


def responses(epsilon, k, total_epsilon):
    """Exact: the delta of k randomized responses, from all their numbers of true answers."""
    with mp.workdps(60):
        e = mp.mpf(epsilon)
        p = 1 / (1 + mp.exp(-e))
        total = mp.mpf(0)
        for x in range(k + 1):
            loss = (2 * x - k) * e
            if loss > total_epsilon:
                weight = mp.binomial(k, x) * p**x * (1 - p) ** (k - x)
                total += weight * -mp.expm1(total_epsilon - loss)
        return total


def whole(epsilon, delta, k, total_epsilon):
    with mp.workdps(400):
        return 1 - (1 - mp.mpf(delta)) ** k * (1 - responses(epsilon, k, total_epsilon))


@pytest.mark.parametrize("row", CURVES["kov_curve"])
def test_optimal_delta_golden(row):
    arguments = {"epsilon": row["eps"], "delta": row["delta"], "k": row["k"]}
    got = composition.optimal_delta(**arguments, total_epsilon=row["eps_g"])
    # At a total epsilon of 10 the golden number is the rounding of 0.1: 100 times that double is not 10.
    assert got == pytest.approx(row["delta_g"], rel=1e-12, abs=1e-40)


@pytest.mark.parametrize("row", CURVES["rows"])
def test_optimal_golden(row):
    arguments = {"epsilon": row["eps"], "delta": row["delta"], "k": row["k"]}
    got = composition.optimal(**arguments, total_delta=row["total_delta_for_kov"])
    assert got.epsilon == pytest.approx(row["kov_optimal_eps_at_total_delta"], rel=1e-11)
    assert got.delta == pytest.approx(row["total_delta_for_kov"], rel=1e-15)
    assert (got.kind, got.adjacency, got.sampling) == ("upper bound", "as the mechanism's", "none")


def test_a_square_root_alone_is_no_pure_privacy():
    row = CURVES["pure_composition_rr"]
    case = {"epsilon": row["eps"], "delta": 0.0, "k": row["k"]}
    assert composition.optimal(**case, total_delta=0.0).epsilon == pytest.approx(row["exact_pure_eps"], rel=1e-15)
    at_root = composition.optimal_delta(**case, total_epsilon=row["sqrt_k_eps"])
    assert at_root == pytest.approx(row["delta_at_eps_1"], rel=1e-12)
    assert composition.optimal_delta(**case, total_epsilon=4.0) == pytest.approx(row["delta_at_eps_4"], rel=1e-12)


def random_cases(seed, count, largest):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        epsilon, k = float(10.0 ** rng.uniform(-6, 1.5)), int(largest ** rng.random())
        delta = 0.0 if rng.random() < 0.4 else float(10.0 ** rng.uniform(-14, -2))
        yield epsilon, delta, k, rng


def test_optimal_is_safe_and_tight():
    """In mpmath: the delta at the epsilon returned is at most the one asked for; a little less epsilon needs more.

    And the delta at any epsilon is that of the exact sum.
    """
    compared = 0
    for epsilon, delta, k, rng in random_cases(11, 60, 300):
        total_epsilon = float(rng.random() * k * epsilon)
        truth = whole(epsilon, delta, k, total_epsilon)
        got = composition.optimal_delta(epsilon=epsilon, delta=delta, k=k, total_epsilon=total_epsilon)
        assert abs(mp.mpf(got) - truth) <= 1e-11 * truth + mp.mpf(10) ** -300
        failures = -math.expm1(k * math.log1p(-delta))
        total_delta = failures + float(10.0 ** rng.uniform(-20 if delta == 0.0 else math.log10(failures) - 6, -0.3))
        if total_delta >= 1.0:
            continue
        got = composition.optimal(epsilon=epsilon, delta=delta, k=k, total_delta=total_delta).epsilon
        assert 0.0 <= got <= k * epsilon
        if got < k * epsilon * (1 - 1e-14):  # k epsilon itself, as a float, may lie below the product
            assert whole(epsilon, delta, k, got) <= total_delta
        if got > 0.0:
            compared += 1
            less = got * (1 - 1e-8) if k * epsilon < 20 else got - 1e-6
            assert whole(epsilon, delta, k, less) > total_delta * (1 - 1e-13)
    assert compared > 30


def test_optimal_is_never_above_the_others():
    for epsilon, delta, k, rng in random_cases(13, 150, 10**6):
        slack = float(10.0 ** rng.uniform(-15, -0.5))
        case = {"epsilon": epsilon, "delta": delta, "k": k}
        others = [composition.basic(**case)]
        others += [f(**case, delta_prime=slack) for f in (composition.advanced, composition.advanced_tanh)]
        for other in others:
            assert composition.optimal(**case, total_delta=other.delta).epsilon <= other.epsilon
        assert others[2].epsilon <= others[1].epsilon


def test_a_million_steps_are_finite():
    """The central limit is near: k losses of mean epsilon tanh(epsilon/2), deviation epsilon / cosh(epsilon/2)."""
    for epsilon in (1e-6, 1e-3, 0.1, 1.0, 50.0):
        got = composition.optimal(epsilon=epsilon, delta=0.0, k=10**6, total_delta=1e-5).epsilon
        back = composition.optimal_delta(epsilon=epsilon, delta=0.0, k=10**6, total_epsilon=got)
        assert back == pytest.approx(1e-5, rel=1e-8) or got == pytest.approx(1e6 * epsilon, rel=1e-12)
        middle, spread = 1e6 * epsilon * math.tanh(epsilon / 2), 1e3 * epsilon / math.cosh(epsilon / 2)
        assert (1 - 1e-6) * middle <= got <= (1 + 1e-6) * middle + 6 * spread


def test_optimal_at_the_ends():
    case = {"epsilon": 0.3, "k": 7}
    assert composition.optimal(**case, delta=0.0, total_delta=0.0).epsilon == pytest.approx(2.1, rel=1e-15)
    assert composition.optimal(**case, delta=0.1, total_delta=0.5).epsilon == math.inf
    assert composition.optimal(**case, delta=0.1, total_delta=1.0).epsilon == pytest.approx(0.0, abs=0)
    assert composition.optimal(**case, delta=1.0, total_delta=0.999).epsilon == math.inf
    assert composition.optimal_delta(**case, delta=1.0, total_epsilon=3.0) == pytest.approx(1.0, rel=1e-15)
    for delta in (1e-300, 1e-5, 0.3):  # one mechanism, at its own delta
        one = composition.optimal(epsilon=0.3, delta=delta, k=1, total_delta=delta)
        assert one.epsilon == pytest.approx(0.3, rel=1e-15)
    assert composition.optimal(epsilon=0.0, delta=0.0, k=5, total_delta=0.0).epsilon == pytest.approx(0.0, abs=0)
    assert composition.optimal(epsilon=0.0, delta=0.1, k=5, total_delta=0.1).epsilon == math.inf
    for epsilon in (1e-300, 700.0, 1e300):
        got = composition.optimal(epsilon=epsilon, delta=0.0, k=40, total_delta=1e-9).epsilon
        assert 0.0 <= got <= 40 * epsilon
    tiny = composition.optimal(epsilon=0.125, delta=0.0, k=4000, total_delta=1e-300).epsilon
    assert responses(0.125, 4000, tiny) <= mp.mpf(1e-300) < responses(0.125, 4000, tiny * (1 - 1e-8))


def test_mechanisms_that_fail_as_good_as_surely_have_no_epsilon():
    assert composition.optimal(epsilon=1.0, delta=0.5, k=10**6, total_delta=1e-50).epsilon == math.inf
