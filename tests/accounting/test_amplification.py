"""Amplification by subsampling: golden numbers, mpmath, and enumeration of every sample of small data sets."""

import itertools
import math
import sys

import mpmath as mp
import numpy as np
import pytest
from scipy import optimize

from dpml.accounting import amplification as amp
from tests.golden import golden
from tests.pate.votes import hockey_stick

GOLDEN = golden("lecture")


# ---- the exact output law of a mechanism on a random sample, by enumeration ----


def poisson_samples(data, q):
    for chosen in itertools.product((0, 1), repeat=len(data)):
        weight = math.prod(q if c else 1 - q for c in chosen)
        yield weight, tuple(x for x, c in zip(data, chosen, strict=True) if c)


def fixed_samples(data, m):
    for chosen in itertools.combinations(data, m):
        yield 1 / math.comb(len(data), m), chosen


def shuffled_samples(data, m):
    for chosen in itertools.permutations(data, m):
        yield 1 / math.perm(len(data), m), chosen


def repeated_samples(data, m):
    for chosen in itertools.product(data, repeat=m):
        yield len(data) ** -m, chosen


def law(samples, mechanism):
    """Output -> probability."""
    total = {}
    for weight, sample in samples:
        for output, probability in mechanism(sample).items():
            total[output] = total.get(output, 0.0) + weight * probability
    return total


def exact_epsilon(p, p_neighbour):
    return max(abs(math.log(p[output] / p_neighbour[output])) for output in p)


def exact_delta(p, p_neighbour, epsilon):
    return max(hockey_stick(p, p_neighbour, epsilon), hockey_stick(p_neighbour, p, epsilon))


def response(bit, epsilon):
    truth = 1 / (1 + math.exp(-epsilon))
    return {bit: truth, 1 - bit: 1 - truth}


def is_in(epsilon):
    """Randomized response to "does the sample hold a 1?": epsilon-private for all the neighbours of this file."""
    return lambda sample: response(int(1 in sample), epsilon)


def every_entry(epsilon):
    """A randomized response of every entry of the sample: epsilon-private when one entry changes."""

    def mechanism(sample):
        laws = [response(bit, epsilon) for bit in sample]
        return {
            outputs: math.prod(one[o] for one, o in zip(laws, outputs, strict=True))
            for outputs in itertools.product((0, 1), repeat=len(sample))
        }

    return mechanism


def leaky(epsilon, delta):
    """(epsilon, delta)-private when one entry changes: a randomized response as above, now and then the truth."""

    def mechanism(sample):
        bit = int(1 in sample)
        outputs = {o: (1 - delta) * p for o, p in response(bit, epsilon).items()}
        outputs["it is", bit] = delta
        return outputs

    return mechanism


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_tight_for_poisson_and_add_remove(epsilon, n):
    zeros = (0,) * (n - 1)
    for q in (0.01, 0.25, 0.5, 0.9, 1.0):
        p = law(poisson_samples((1, *zeros), q), is_in(epsilon))
        p_neighbour = law(poisson_samples(zeros, q), is_in(epsilon))
        promised = amp.poisson(epsilon=epsilon, delta=0.0, q=q, adjacency="add/remove").epsilon
        assert exact_epsilon(p, p_neighbour) == pytest.approx(promised, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 1), (4, 2), (5, 4), (6, 3), (4, 4)])
def test_tight_without_replacement_and_replace_one(epsilon, n, m):
    zeros = (0,) * n
    p = law(fixed_samples((1, *zeros[1:]), m), is_in(epsilon))
    p_neighbour = law(fixed_samples(zeros, m), is_in(epsilon))
    promised = amp.without_replacement(epsilon=epsilon, delta=0.0, m=m, n=n, adjacency="replace-one").epsilon
    assert exact_epsilon(p, p_neighbour) == pytest.approx(promised, rel=1e-12)
    # and another mechanism does not exceed it on any pair of 0/1 data sets, if the sample comes in random order
    mechanism = every_entry(epsilon)
    for data in itertools.product((0, 1), repeat=n):
        other = (1 - data[0], *data[1:])
        spread = exact_epsilon(law(shuffled_samples(data, m), mechanism), law(shuffled_samples(other, m), mechanism))
        assert spread <= promised + 1e-12


def test_the_order_of_the_sample_must_not_tell():
    """In the order of the data, a swap of two records in the sample moves the others too: the result is false."""
    mechanism = every_entry(1.0)
    promised = amp.without_replacement(epsilon=1.0, delta=0.0, m=2, n=3, adjacency="replace-one").epsilon
    assert promised == pytest.approx(0.763383, abs=5e-7)
    pair = ((0, 0, 1), (1, 0, 1))
    assert exact_epsilon(*(law(fixed_samples(d, 2), mechanism) for d in pair)) == pytest.approx(0.856161, abs=5e-7)
    assert exact_epsilon(*(law(shuffled_samples(d, 2), mechanism) for d in pair)) < promised


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 1), (2, 2), (3, 2), (4, 3), (3, 3), (1, 3), (2, 5), (3, 4)])
def test_tight_with_replacement(epsilon, n, m):
    zeros = (0,) * n
    data = (1, *zeros[1:])
    promised = amp.with_replacement(epsilon=epsilon, delta=0.0, m=m, n=n, adjacency="replace-one").epsilon
    p, p_neighbour = (law(repeated_samples(d, m), every_entry(epsilon)) for d in (data, zeros))
    assert exact_epsilon(p, p_neighbour) == pytest.approx(promised, rel=1e-12)
    drawn = sum(1 in places for places in itertools.product(range(1, n + 1), repeat=m)) / n**m
    by_count = amp.amplify(epsilon=epsilon, q=drawn)
    if m > 1:
        assert by_count < promised - 1e-6, "one record drawn twice is protected less than once"
    # ... unless the mechanism stays epsilon-private when all copies of a record change at once
    p, p_neighbour = (law(repeated_samples(d, m), is_in(epsilon)) for d in (data, zeros))
    assert exact_epsilon(p, p_neighbour) == pytest.approx(by_count, rel=1e-12)


def likeliest_event(first, second, factor, epsilon, q, n):
    """The largest q P_x + (1 - q) P - factor (q P_x' + (1 - q) P) of an event, over all output laws on n outcomes with
    P_x and P, and P_x' and P, at most epsilon apart: a linear programme. Outcome 0 is the event."""
    rows, grown = [], math.exp(epsilon)
    for one, other in ((first, 0), (0, first), (second, 0), (0, second)):
        for outcome in range(n):
            row = np.zeros((3, n))
            row[one, outcome] += 1.0
            row[other, outcome] -= grown
            rows.append(row.ravel())
    whole = np.kron(np.eye(3), np.ones(n))
    gain = np.zeros((3, n))
    gain[first, 0] += q
    gain[second, 0] -= factor * q
    gain[0, 0] += (1 - q) * (1 - factor)
    best = optimize.linprog(-gain.ravel(), A_ub=np.array(rows), b_ub=np.zeros(len(rows)), A_eq=whole, b_eq=np.ones(3))
    assert best.status == 0
    return -best.fun


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("q", [0.05, 0.5, 0.9, 1.0])
def test_poisson_replace_one_is_the_worst_case(epsilon, q):
    """Over all mechanisms that are private under add/remove: nothing exceeds it, and less does not hold."""
    promised = amp.poisson_replace_one(epsilon=epsilon, q=q)
    labels = (promised.delta, promised.kind, promised.adjacency, promised.sampling)
    assert labels == (0.0, "upper bound", "replace-one", "Poisson")
    assert likeliest_event(1, 2, math.exp(promised.epsilon * (1 + 1e-6)), epsilon, q, 3) < 1e-9
    assert likeliest_event(1, 2, math.exp(promised.epsilon * 0.99), epsilon, q, 3) > 1e-5
    assert promised.epsilon <= 2 * amp.amplify(epsilon=epsilon, q=q) * (1 + 1e-14), "group privacy gives no less"


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.1), (1.0, 0.01), (0.0, 0.2)])
def test_deltas_hold(epsilon, delta):
    mechanism = leaky(epsilon, delta)
    n = 4
    zeros = (0,) * n
    data = (1, *zeros[1:])
    for m in (1, 2, 4):
        promised = amp.without_replacement(epsilon=epsilon, delta=delta, m=m, n=n, adjacency="replace-one")
        p, p_neighbour = law(fixed_samples(data, m), mechanism), law(fixed_samples(zeros, m), mechanism)
        assert exact_delta(p, p_neighbour, promised.epsilon) <= promised.delta + 1e-15
        assert promised.delta == pytest.approx(m / n * delta)
        promised = amp.with_replacement(epsilon=epsilon, delta=delta, m=m, n=n, adjacency="replace-one")
        p, p_neighbour = law(repeated_samples(data, m), mechanism), law(repeated_samples(zeros, m), mechanism)
        assert exact_delta(p, p_neighbour, promised.epsilon) <= promised.delta + 1e-15
    for q in (0.1, 0.5, 1.0):
        promised = amp.poisson(epsilon=epsilon, delta=delta, q=q, adjacency="add/remove")
        p, p_neighbour = law(poisson_samples(data, q), mechanism), law(poisson_samples(zeros[1:], q), mechanism)
        assert exact_delta(p, p_neighbour, promised.epsilon) <= promised.delta + 1e-15
        assert promised.delta == pytest.approx(q * delta)


# ---- the counterexample ----


def test_poisson_does_not_amplify_replace_one():
    row = GOLDEN["poisson_replace_failure"]
    n, q, epsilon = row["n"], row["gamma"], row["eps"]

    def mechanism(sample):
        return {(len(sample), o): p for o, p in response(int(1 in sample), epsilon).items()}

    for base in ((1, 0, 0), (0, 0, 0), (1, 0), (0, 0)):  # it is epsilon-private under replace-one
        for other in ((1, *base[1:]), (0, *base[1:])):
            assert exact_epsilon(mechanism(base), mechanism(other)) <= epsilon + 1e-12
    p = law(poisson_samples((1, 0, 0), q), mechanism)
    p_neighbour = law(poisson_samples((0, 0, 0), q), mechanism)
    assert p[n, 1] == pytest.approx(row["pD"], rel=1e-13)
    assert p_neighbour[n, 1] == pytest.approx(row["pDprime"], rel=1e-13)
    assert exact_epsilon(p, p_neighbour) == pytest.approx(row["log_ratio"], rel=1e-13)
    assert amp.amplify(epsilon=epsilon, q=q) == pytest.approx(row["claimed"], rel=1e-13)
    with pytest.raises(ValueError, match=r'^adjacency must be "add/remove", got \'replace-one\': Poisson .* 0.620'):
        amp.poisson(epsilon=epsilon, delta=0.0, q=q, adjacency="replace-one")


# ---- golden numbers and formulas ----


@pytest.mark.parametrize("row", GOLDEN["subsampling_pure"]["rows"])
def test_golden_pure(row):
    at = {"epsilon": row["eps"], "q": row["gamma"]}
    assert amp.amplify(**at) == pytest.approx(row["optimal_log1p"], rel=1e-14)
    assert amp.lecture_log_form(**at) == pytest.approx(row["lecture_log_form"], rel=2e-13)
    assert amp.lecture_bound(**at) == pytest.approx(row["lecture_bound"], rel=1e-14)


@pytest.mark.parametrize("row", GOLDEN["subsampling_approx"])
def test_golden_approximate(row):
    got = amp.poisson(epsilon=row["eps"], delta=row["delta"], q=row["gamma"], adjacency="add/remove")
    assert [got.epsilon, got.delta] == pytest.approx([row["eps_prime"], row["delta_prime"]], rel=1e-14)
    assert (got.kind, got.adjacency, got.sampling) == ("upper bound", "add/remove", "Poisson")


@pytest.mark.parametrize("row", GOLDEN["subsampling_with_replacement"])
def test_golden_chance_to_be_drawn(row):
    # The golden epsilon holds only together with the delta' of Balle et al., Theorem 10: the mean, over the number of
    # copies drawn, of the mechanism's delta at this epsilon for groups of that size. It is above 0 for a mechanism of
    # which nothing but pure privacy for one entry is known; at delta = 0 the number to quote is by_entry below.
    assert amp.amplify(epsilon=row["eps"], q=row["gamma_eff"]) == pytest.approx(row["eps_prime"], rel=1e-13)
    by_entry = amp.with_replacement(epsilon=row["eps"], delta=0.0, m=row["m"], n=row["n"], adjacency="replace-one")
    assert row["eps_prime"] < by_entry.epsilon < row["m"] * amp.amplify(epsilon=row["eps"], q=1 / row["n"]) * 1.0001


def test_golden_tight_case():
    row = GOLDEN["amplification_tight"]
    p, p_neighbour = amp.randomized_response_subsampled(epsilon=row["eps"], q=row["gamma"])
    assert (p, p_neighbour) == (pytest.approx(row["pD"], rel=1e-14), pytest.approx(row["pDprime"], rel=1e-14))
    for epsilon in (0.0, 1e-6, 1.0, 30.0, 700.0):
        for q in (0.0, 1e-9, 0.3, 1.0):
            p, p_neighbour = amp.randomized_response_subsampled(epsilon=epsilon, q=q)
            assert math.log(p / p_neighbour) == pytest.approx(amp.amplify(epsilon=epsilon, q=q), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("row", GOLDEN["lecture_bound_useful_gamma_max"])
def test_golden_useful_q(row):
    epsilon, q = row["eps"], amp.lecture_useful_q(epsilon=row["eps"])
    assert q == pytest.approx(row["gamma_max"], rel=1e-14)
    assert amp.lecture_bound(epsilon=epsilon, q=q * 0.999) < epsilon < amp.lecture_bound(epsilon=epsilon, q=q * 1.001)


def test_useful_q_everywhere():
    with mp.workdps(40):
        for epsilon in (1e-300, 1e-9, 1e-5, 0.3, 20.0, 500.0, 700.0, 738.0):
            truth = mp.mpf(epsilon) / (4 * mp.sinh(epsilon))
            assert abs(amp.lecture_useful_q(epsilon=epsilon) - truth) <= 1e-14 * truth + mp.mpf(5e-324)
    assert amp.lecture_useful_q(epsilon=0.0) == pytest.approx(0.25)
    assert amp.lecture_useful_q(epsilon=1.7e308) == pytest.approx(0.0, abs=0)


def tight(epsilon, q):
    return mp.log1p(q * mp.expm1(epsilon))


@pytest.mark.parametrize(
    ("function", "formula"),
    [
        (amp.amplify, tight),
        (amp.lecture_log_form, lambda epsilon, q: tight(epsilon, q) - tight(-epsilon, q)),
        (amp.lecture_bound, lambda epsilon, q: 2 * q * (mp.exp(epsilon) - mp.exp(-epsilon))),
    ],
)
def test_the_formulas_by_mpmath_as_far_as_floats_reach(function, formula):
    rng = np.random.default_rng(9)
    pairs = [(float(10.0 ** rng.uniform(-12, 3.1)), float(10.0 ** rng.uniform(-290, 0))) for _ in range(60)]
    pairs += [(float(10.0 ** rng.uniform(-12, 3.1)), float(rng.random())) for _ in range(60)]
    edges = (0.0, 1e-300, 700.0, 1418.0, 1418.5, 1450.0, 2100.0)
    pairs += itertools.product(edges, (0.0, 5e-324, 1e-320, 1e-310, 0.5, 1.0))
    with mp.workdps(1000):
        for epsilon, q in pairs:
            truth = formula(mp.mpf(epsilon), mp.mpf(q))
            if truth > sys.float_info.max:
                with pytest.raises(ValueError, match=r"^epsilon must keep 2 q e"):
                    function(epsilon=epsilon, q=q)
            else:
                assert abs(function(epsilon=epsilon, q=q) - truth) <= 1e-15 * truth + mp.mpf(5e-324)


def test_the_ladder_of_the_docstrings():
    """tight <= log form <= q (e^eps - e^-eps) <= the theorem, and the theorem is at least twice the tight value."""
    for epsilon in (1e-4, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0):
        for q in (1e-6, 0.01, 0.2, 0.5, 0.8, 0.99, 1.0):
            tight = amp.amplify(epsilon=epsilon, q=q)
            log_form = amp.lecture_log_form(epsilon=epsilon, q=q)
            printed = amp.lecture_bound(epsilon=epsilon, q=q)
            assert tight <= log_form * (1 + 1e-15) <= printed / 2 * (1 + 1e-12)
            assert printed >= 2 * tight * (1 - 1e-12)
            assert tight <= epsilon
    assert amp.amplify(epsilon=8.0, q=0.01) == pytest.approx(3.42750, abs=5e-6)


def test_with_replacement_numbers():
    """The closed form against its own chain of m hops, and against mpmath over the whole range."""
    rng = np.random.default_rng(4)
    for _ in range(100):
        epsilon = float(10.0 ** rng.uniform(-9, 3))
        delta = float(10.0 ** rng.uniform(-200, 0))
        n = int(rng.integers(1, 10**6))
        m = int(rng.integers(1, n + 1))
        got = amp.with_replacement(epsilon=epsilon, delta=delta, m=m, n=n, adjacency="replace-one")
        with mp.workdps(60):
            one = mp.log1p(mp.expm1(mp.mpf(epsilon)) / n)
            delta_truth = min(mp.mpf(1), mp.mpf(delta) * mp.expm1(m * one) / mp.expm1(mp.mpf(epsilon)))
            assert abs(got.epsilon - m * one) <= 1e-14 * m * one
            tolerance = 1e-12 + 1e-15 * float(m * one)
            assert abs(got.delta - delta_truth) <= tolerance * delta_truth
    epsilon, delta, n, m = 0.8, 0.01, 7, 5
    hop, total = math.log1p(math.expm1(epsilon) / n), 0.0
    for _ in range(m):
        total = math.exp(hop) * total + delta / n
    got = amp.with_replacement(epsilon=epsilon, delta=delta, m=m, n=n, adjacency="replace-one")
    assert got.delta == pytest.approx(total, rel=1e-13)
    tiny = amp.with_replacement(epsilon=5e-324, delta=0.0, m=10**6, n=1000, adjacency="replace-one")
    # the epsilon of one draw is below the range of floats, that of all is not
    assert tiny.epsilon == pytest.approx(1000 * 5e-324, rel=1e-3, abs=0.0)
    with pytest.raises(ValueError, match=r"^epsilon must keep m"):
        amp.with_replacement(epsilon=1e308, delta=0.0, m=9, n=10, adjacency="replace-one")
