"""M_samp: counts of models, the gap test, and exact privacy of small instances by enumerating every coin."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, laplace

from dpml.pate import m_samp, m_stab, stability
from tests.golden import golden
from tests.pate.votes import hockey_stick

GOLDEN = golden("stability")
EPSILON, DELTA, N = 8.0, 1e-3, 10_000


# ---- how many models ----


@pytest.mark.parametrize("case", GOLDEN["msamp"], ids=lambda c: f"{c['eps']}-{c['delta']}")
def test_golden_counts(case):
    of = {"epsilon": case["eps"], "delta": case["delta"], "n": int(case["n"])}
    plan = m_samp.sampling_plan(**of)
    assert plan.q == pytest.approx(case["gamma"], rel=1e-14)
    assert plan.n_models == math.ceil(case["n_T"])
    cheap = m_samp.sampling_plan_chernoff(**of)
    assert cheap == (plan.q, case["n_T_chernoff"])
    n_t, q = case["n_T"], plan.q
    assert math.exp(-2 * q**2 * n_t) == pytest.approx(case["hoeffding_per_record"], rel=1e-9)
    assert 1 / (16 * q) == pytest.approx(case["lhs_1_over_16gamma"], rel=1e-13)
    # the printed inequality is an equality, and the test subtracts 1
    assert case["lhs_1_over_16gamma"] == pytest.approx(case["rhs_2log_over_eps"], rel=1e-13)
    fails = m_stab.fail_probability(1 / (16 * q) - 1, epsilon=case["eps"], delta=case["delta"])
    assert fails == pytest.approx(case["utility_fail_lap_at_5_8"], rel=1e-11)
    assert fails == pytest.approx(case["delta"] * math.exp(case["eps"]) / 2, rel=1e-9)  # and not delta


def test_overuse_is_the_binomial_tail():
    for n, q, models in [(1, 0.2, 30), (50, 0.03, 400), (7, 0.5, 3), (10_000, 0.036, 1160)]:
        with np.errstate(under="ignore"):
            tail = binom.pmf(range(math.floor(2 * q * models) + 1, models + 1), models, q).sum()
        got = m_samp.overuse_probability(n=n, q=q, n_models=models)
        assert got == pytest.approx(min(1.0, n * tail), rel=1e-9)
    assert m_samp.overuse_probability(n=5, q=0.75, n_models=9) == pytest.approx(0.0)  # 2 q > 1: never


@pytest.mark.parametrize("case", GOLDEN["msamp"], ids=lambda c: f"{c['eps']}-{c['delta']}")
def test_both_counts_keep_the_bad_event_within_delta(case):
    of = {"epsilon": case["eps"], "delta": case["delta"], "n": int(case["n"])}
    for plan in (m_samp.sampling_plan(**of), m_samp.sampling_plan_chernoff(**of)):
        assert m_samp.overuse_probability(n=of["n"], q=plan.q, n_models=plan.n_models) <= case["delta"]
    half = m_samp.sampling_plan_chernoff(**of)
    assert m_samp.overuse_probability(n=of["n"], q=half.q, n_models=half.n_models // 2) > case["delta"]


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.5, 1e-3), (2.0, 1e-3), (7.5, 1e-3), (0.5, 1e-5), (1.0, 1e-5), (8.0, 1e-5), (12.0, 1e-5)]
)
def test_the_repaired_utility_theorem(epsilon, delta):
    assert delta * math.exp(epsilon) < 2
    of = {"epsilon": epsilon, "delta": delta}
    for make in (m_samp.sampling_plan, m_samp.sampling_plan_chernoff):
        q, models = make(**of, n=N)
        assert models >= 128 * math.log(1 / delta)
        released = m_samp.m_samp_release_probability(agreement=0.75, **of, q=q, n_models=models)
        bad = m_samp.overuse_probability(n=N, q=q, n_models=models)
        assert 1 - released + bad <= 3 * delta
        assert m_stab.fail_probability(3 / (32 * q) - 1, **of) <= delta**2 * math.exp(epsilon) / 2 * (1 + 1e-9)


def test_release_probability_is_a_sum_over_the_binomial_votes():
    of = {"epsilon": 2.0, "delta": 0.01}
    for agreement, q, models in [(0.9, 0.1, 25), (0.5, 0.2, 40), (0.2, 0.2, 11), (1.0, 0.1, 25), (0.0, 0.1, 25)]:
        votes = np.arange(models // 2 + 1, models + 1)
        x = 2 * ((2 * votes - models) / (4 * q * models) - 1) - math.log(100)
        total = binom.pmf(votes, models, agreement) @ laplace.cdf(x)
        got = m_samp.m_samp_release_probability(agreement=agreement, **of, q=q, n_models=models)
        assert got == pytest.approx(float(total), rel=1e-10)


# ---- the gap test ----


def test_the_gap_moves_by_at_most_twice_the_moved_votes():
    golden = GOLDEN["msamp_gap_bruteforce"]
    models, moved, largest, changes = 12, 2, 0, 0
    q = moved / (2 * models)  # so that 2 q n_T is the number of votes that may move
    hists = [h for h in itertools.product(range(models + 1), repeat=3) if sum(h) == models]
    for one, other in itertools.permutations(hists, 2):
        if sum(abs(a - b) for a, b in zip(one, other, strict=True)) > 2 * moved:
            continue
        gaps = [sorted(h)[-1] - sorted(h)[-2] for h in (one, other)]
        largest = max(largest, abs(gaps[0] - gaps[1]))
        here, there = m_samp.scaled_distance([one, other], q=q, n_models=models)
        assert abs(here - there) <= 1 + 1e-12
        if one.index(max(one)) != other.index(max(other)):
            assert max(here, there) <= 1e-12
            changes += 1
    assert (models, moved, largest) == (golden["nT"], golden["votes_moved"], golden["max_gap_change"])
    assert changes > 50


# ---- exact privacy by enumeration ----


def majority(part):
    return int(2 * sum(part) > len(part))


def output_law(dataset, *, q, models, epsilon, delta):
    """The exact law of M_samp's output: all (2^models)^n outcomes of the coins, release by its formula."""
    gaps = m_samp.scaled_distance([(models - yes, yes) for yes in range(models + 1)], q=q, n_models=models)
    passes = m_stab.release_probability(gaps, epsilon=epsilon, delta=delta)
    total = dict.fromkeys((0, 1, m_stab.FAIL), 0.0)
    for coins in itertools.product(itertools.product((0, 1), repeat=len(dataset)), repeat=models):
        used = [sum(column) for column in zip(*coins, strict=True)]
        weight = q ** sum(used) * (1 - q) ** (models * len(dataset) - sum(used))
        yes = sum(majority(tuple(itertools.compress(dataset, part))) for part in coins)
        p = passes[yes] if max(used) <= 2 * q * models else 0.0
        total[int(yes > models - yes)] += weight * p
        total[m_stab.FAIL] += weight * (1 - p)
    return total


@pytest.mark.parametrize(
    ("q", "models", "epsilon", "delta"), [(0.4, 4, 1.0, 0.1), (0.25, 4, 2.0, 0.05), (0.25, 4, 0.5, 0.5)]
)
def test_exact_privacy_on_every_pair_of_small_datasets(q, models, epsilon, delta):
    datasets = list(itertools.product((0, 1), repeat=3))
    laws = {d: output_law(d, q=q, models=models, epsilon=epsilon, delta=delta) for d in datasets}
    worst = 0.0
    for one, other in itertools.permutations(datasets, 2):
        if sum(a != b for a, b in zip(one, other, strict=True)) == 1:
            worst = max(worst, hockey_stick(laws[one], laws[other], epsilon))
    assert 1e-3 * delta < worst <= delta / 2


def test_given_the_coins_it_is_tight():
    """Record 1 alone decides half of four models, q = 1/4: the largest number of parts that it may be in."""
    q, models, epsilon, delta = 0.25, 4, 1.0, 0.1
    unanimous, tie = np.array([0, 4]), np.array([2, 2])
    distances = m_samp.scaled_distance([unanimous, tie], q=q, n_models=models)
    assert distances.tolist() == pytest.approx([0.0, -1.0], abs=1e-15)
    p = m_stab.release_probability(distances, epsilon=epsilon, delta=delta)
    law = {1: p[0], 0: 0.0, m_stab.FAIL: 1 - p[0]}
    other = {1: 0.0, 0: p[1], m_stab.FAIL: 1 - p[1]}  # the tie goes to the lower label
    for at in (epsilon, 100.0):
        assert hockey_stick(law, other, at) == pytest.approx(delta / 2, rel=1e-12)


# ---- the callback ----


def ask(records, *, train, n_models=None, rng=None, **changed):
    """M_samp at the budget of this file."""
    usual = {"epsilon": EPSILON, "delta": DELTA, "n": len(np.atleast_1d(records)), "classes": 2}
    rng = np.random.default_rng(0) if rng is None else rng
    return stability.m_samp(records, **{**usual, **changed}, train=train, rng=rng, n_models=n_models)


def majority_of_parts(records, members):
    """One answer a model: is the mean of its part above one half?"""
    return (2 * (members @ records) > members.sum(axis=1)).astype(int)


def votes(train, *, records=(0, 1, 1, 1), classes=2, q=0.5, n_models=100, chunk=32):
    sizes = {"n": len(records), "classes": classes, "q": q, "n_models": n_models, "chunk": chunk}
    return m_samp.subsample_votes(np.array(records), train=train, rng=np.random.default_rng(0), **sizes)


def test_every_record_is_in_each_part_with_probability_q():
    """Each count is within 6 standard deviations of n_T q, and the agreement within 6 of the exact one."""
    seen = []

    def train(records, members):
        seen.append(members)
        return majority_of_parts(records, members)

    found = votes(train, n_models=20_000, q=0.3)
    used = np.concatenate(seen).sum(axis=0)
    assert found.counts.sum() == 20_000
    assert found.most_used == used.max()
    assert (np.abs(used - 6000) <= 6 * math.sqrt(20_000 * 0.3 * 0.7)).all()
    parts = np.array(list(itertools.product((0, 1), repeat=4)))
    chances = (0.3**parts * 0.7 ** (1 - parts)).prod(axis=1)
    agreement = chances[majority_of_parts(np.array([0, 1, 1, 1]), parts) == 1].sum()
    assert abs(found.counts[1] - 20_000 * agreement) <= 6 * math.sqrt(20_000 * agreement * (1 - agreement))


def test_chunks_change_nothing():
    one, other = votes(majority_of_parts, chunk=7), votes(majority_of_parts, chunk=1000)
    assert one.counts.tolist() == other.counts.tolist()
    assert one.most_used == other.most_used


def test_several_queries_share_the_parts():
    def train(records, members):
        first = majority_of_parts(records, members)
        return np.stack([first, 1 - first, np.full(len(members), 2)], axis=1)

    found = votes(train, classes=3)
    assert found.counts.shape == (3, 3)
    single = votes(majority_of_parts).counts
    assert found.counts.tolist() == [[*single, 0], [*single[::-1], 0], [0, 0, 100]]


ONE, TWO = np.zeros(64, dtype=int), np.zeros((64, 2), dtype=int)
EVERY = r"^train must return an array of shape"
WHOLE = r"^train must return whole numbers"
MISBEHAVING = [
    ([0], rf"{EVERY} \[64\] or \[64, queries\], got shape \(\)"),
    ([ONE[:3]], rf"{EVERY} .*, got shape \(3,\)"),
    ([TWO[:, :0]], r"got shape \(64, 0\)"),
    ([np.zeros((64, 2, 2), dtype=int)], r"got shape \(64, 2, 2\)"),
    ([[[0], [0, 1]] * 32], rf"{EVERY} .*, got shape \(\)"),
    ([np.zeros(64)], rf"{WHOLE} from 0 to 1 .*, got float64"),
    ([ONE > 0], rf"{WHOLE} .*, got bool"),
    ([ONE + 2], rf"{WHOLE} from 0 to 1 .*, got 2 to 2"),
    ([ONE - 1], rf"{WHOLE} .*, got -1 to -1"),
    ([ONE, TWO], r"shape \[64\], as for the models before, got"),
    ([ONE, ONE[:-1]], r"shape \[64\], as for the models before, got"),
    ([ONE, ONE + 5], rf"{WHOLE} from 0 to 1 .*, got 5 to 5"),
]


@pytest.mark.parametrize(("returned", "message"), MISBEHAVING)
def test_a_callback_that_misbehaves_is_refused_before_any_noise_is_drawn(returned, message):
    """In the first chunk, or only in the second."""

    class Watched(np.random.Generator):
        noise = 0

        def laplace(self, *args, **kwargs):
            Watched.noise += 1
            return super().laplace(*args, **kwargs)

    rng, answers = Watched(np.random.PCG64(0)), iter(returned)
    with pytest.raises(ValueError, match=message):
        ask(np.zeros(8), train=lambda records, members: next(answers), rng=rng, n_models=128, chunk=64)
    assert Watched.noise == 0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"epsilon": 300.0}, r"^epsilon must be in \(0, 32 log\(1/delta\)\] = \(0, 221.048\], got 300.0"),
        ({"epsilon": 1e-9}, r"^epsilon must be so large that at most 2\^53 models are needed, got 1e-09"),
        ({"n": 9}, "^data must hold 9 records, got 8"),
        ({"n_models": 27}, r"^n_models must be at least 1/q = 27.631, .*, got 27"),
        ({"data": "abcdefgh"}, "^data must be a list, tuple or array of records, got 'abcdefgh'"),
        ({"data": np.array(8)}, "^data must be a list, tuple or array of records"),
    ],
)
def test_bad_input_is_refused_before_training(changed, message):
    def train(records, members):
        raise AssertionError("no model should be trained")

    settings = {"data": np.zeros(8), "n": 8, "n_models": 128, **changed}
    with pytest.raises(ValueError, match=message):
        ask(settings.pop("data"), train=train, **settings)


def test_a_record_in_too_many_parts_is_a_failure():
    """q n_T = 1 and 5000 records: some record is in three parts or more, but for probability e^-390."""
    q, models = m_samp.sampling_plan(epsilon=EPSILON, delta=DELTA, n=5000).q, 28
    assert m_samp.overuse_probability(n=5000, q=q, n_models=models) == pytest.approx(1.0)
    assert ask(np.ones(5000), train=majority_of_parts, n_models=models) == m_stab.FAIL


def test_unanimous_models_are_released():
    answer = ask(np.ones(200), train=majority_of_parts)
    assert np.ndim(answer) == 0
    assert answer == 1  # all votes equal: the scaled distance is 5.9, a failure has probability 1e-18
