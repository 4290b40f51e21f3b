"""The sparse vector technique: exact probabilities against golden numbers, exact privacy by enumeration, sampling."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2

from dpml.accounting import composition
from dpml.pate import sparse_vector
from dpml.pate.sparse_vector import broken, outcomes, privacy
from dpml.pate.sparse_vector.outcomes import outcome_log_probability
from tests.golden import golden
from tests.pate.votes import hockey_stick

GOLDEN = golden("sparse_vector")
NO_NOISE = 1e-6
SCALES = {"threshold": 0.0, "threshold_scale": 2.0, "query_scale": 4.0}


def first_above(queries, **scales):
    return outcome_log_probability(queries, above=np.arange(len(queries)) == len(queries) - 1, **scales)


def loss(one, other, *, above=None, **scales):
    """Of these bits, by default "first above at the last", where the answers are those of one dataset."""
    bits = np.arange(len(one)) == len(one) - 1 if above is None else above
    return outcome_log_probability(one, above=bits, **scales) - outcome_log_probability(other, above=bits, **scales)


def worst_loss(k, **scales):
    """Answers 0 on D; on D' 1 before the k-th, which is -1."""
    return loss(np.zeros(k), np.array([1.0] * (k - 1) + [-1.0]), **scales)


def proved(scale, cutoff, delta):
    """What so many runs with this threshold scale cost by optimal composition."""
    return composition.optimal(epsilon=2.0 / scale, delta=0.0, k=cutoff, total_delta=delta).epsilon


# ---- exact probabilities ----


@pytest.mark.parametrize("row", GOLDEN["above_threshold_probs"], ids=lambda row: str(row["f"]))
def test_probabilities_of_above_threshold(row):
    got = outcomes.above_threshold_probabilities(row["f"], threshold=row["T"], epsilon=row["eps"])
    np.testing.assert_allclose(got[:-1], row["probs"], rtol=1e-12)
    assert math.isclose(got.sum(), 1.0, rel_tol=1e-12)


def test_three_equal_answers_at_the_threshold():
    got = outcomes.above_threshold_probabilities([0.0] * 3, threshold=0.0, epsilon=0.3)
    np.testing.assert_allclose(got[:3], [1 / 2, 5 / 24, 5 / 48], rtol=1e-12)


@pytest.mark.parametrize("row", GOLDEN["above_threshold_loss"]["rows"], ids=lambda row: f"{row['eps']}-{row['k']}")
def test_loss_of_above_threshold(row):
    scales = {"threshold": row["T"], "threshold_scale": 2 / row["eps"], "query_scale": 4 / row["eps"]}
    log_p = first_above(np.zeros(row["k"]), **scales)
    assert math.isclose(math.exp(log_p), row["p"], rel_tol=1e-11)
    found = worst_loss(row["k"], **scales)
    assert math.isclose(math.exp(log_p - found), row["pprime"], rel_tol=1e-11)
    assert math.isclose(found, row["exact_loss_of_event_kth_first_above"], abs_tol=1e-10)


def test_many_answers_beside_a_precise_threshold():
    """The peak lies 10,000 scales of the threshold's noise from the only kink: a smooth integral."""
    scales = {"threshold": 0.0, "threshold_scale": 1e-3, "query_scale": 4.0}
    got = outcome_log_probability(np.zeros(100_000), above=np.zeros(100_000), **scales)
    t = np.linspace(0.0, 100.0, 1_000_001)
    with np.errstate(under="ignore"):
        logs = 100_000 * np.log1p(-0.5 * np.exp(-t / 4)) - t / 1e-3 - math.log(2e-3)
        by_hand = logs.max() + math.log(np.trapezoid(np.exp(logs - logs.max()), t))
    assert math.isclose(got, by_hand, rel_tol=1e-13)


def test_log_probability_far_below_the_smallest_float():
    """All of 10,000 answers 50 above the threshold come out below: closed form by hand where one term rules."""
    got = outcome_log_probability(np.full(10_000, 50.0), above=np.zeros(10_000), **SCALES)
    t = np.linspace(0.0, 600.0, 600_001)
    with np.errstate(under="ignore"):
        log_f = np.where(t < 50, (t - 50) / 4 - math.log(2), np.log1p(-0.5 * np.exp(-np.maximum(t - 50, 0) / 4)))
        logs = 10_000 * log_f - t / 2 - math.log(4)
        by_hand = logs.max() + math.log(np.trapezoid(np.exp(logs - logs.max()), t))
    assert math.isclose(got, by_hand, rel_tol=1e-7)


def test_without_one_noise_or_the_other():
    rng = np.random.default_rng(0)
    for _ in range(30):
        queries, bits = rng.integers(-3, 4, 4).astype(float), rng.integers(0, 2, 4)
        for none, other in (("threshold_scale", "query_scale"), ("query_scale", "threshold_scale")):
            exact = outcome_log_probability(queries, above=bits, threshold=0.1, **{none: 0.0, other: 1.5})
            nearly = outcome_log_probability(queries, above=bits, threshold=0.1, **{none: NO_NOISE, other: 1.5})
            assert math.isclose(math.exp(exact), math.exp(nearly), abs_tol=3e-6)
    assert outcome_log_probability([0.0, 1.0], above=[1, 0], **{**SCALES, "query_scale": 0.0}) == -math.inf
    none = {"threshold": 0.5, "threshold_scale": 0.0, "query_scale": 0.0}
    assert outcome_log_probability([0.0, 1.0], above=[0, 1], **none) == 0.0
    assert outcome_log_probability([0.0, 1.0], above=[1, 1], **none) == -math.inf


# ---- how tight the theorem is, and what each change breaks ----


@pytest.mark.parametrize("row", GOLDEN["at_noise_variants"][:4], ids=lambda row: row["label"])
def test_the_bound_of_above_threshold_is_attained(row):
    scales = {"threshold_scale": row["b1"], "query_scale": row["b2"]}
    bound = 1.0 / row["b1"] + 2.0 / row["b2"]
    assert math.isclose(bound, row["bound_1_over_b1_plus_2_over_b2"], rel_tol=1e-12)
    losses = [worst_loss(k, threshold=t, **scales) for k in (1, 3, 100, 1000) for t in (-20.0, 0.0, 20.0)]
    assert max(losses) <= bound * (1 + 1e-9)
    assert math.isclose(max(losses), row["exact_loss_found"], rel_tol=1e-6)


def test_monotone_queries_cost_less():
    row = GOLDEN["at_noise_variants"][4]
    found = loss(np.zeros(200), np.array([1.0] * 199 + [0.0]), **{**SCALES, "threshold": -20.0})
    assert math.isclose(found, row["exact_loss_found"], rel_tol=1e-6)


@pytest.mark.parametrize("row", GOLDEN["no_threshold_noise"], ids=lambda row: str(row["m"]))
def test_without_threshold_noise_every_query_costs(row):
    m = row["m"]
    found = loss(np.zeros(m), np.ones(m), above=[0] * m, **{**SCALES, "threshold_scale": 0.0})
    assert math.isclose(found, row["log_ratio"], rel_tol=1e-9)


@pytest.mark.parametrize("row", GOLDEN["no_cutoff"], ids=lambda row: str(row["m"]))
def test_without_a_cutoff_every_answer_above_costs(row):
    one = np.array([0.0] * row["m"] + [1.0] * row["m"])
    found = loss(one, one[::-1], above=one, **{**SCALES, "threshold": 0.5})
    assert math.isclose(found, row["log_ratio"], rel_tol=1e-9)


@pytest.mark.parametrize("row", GOLDEN["svt_printed_scale"], ids=lambda row: row["label"])
def test_the_printed_scale_of_sparse_is_not_private(row):
    wrong = math.sqrt(32 * math.log(1e5)) * 0.1
    assert math.isclose(row["b"], wrong, rel_tol=1e-12)
    size = 0.5 if row["label"].startswith("query Lap(b), threshold Lap(b/2)") else 1.0
    scales, k = {"threshold_scale": size * wrong, "query_scale": 2 * size * wrong}, row["k"]
    moved = np.array([row["Dprime_first"]] * (k - 1) + [row["Dprime_kth"]])
    p, p_prime = (math.exp(first_above(q, threshold=row["T"], **scales)) for q in (np.zeros(k), moved))
    assert math.isclose(p - math.exp(0.1) * p_prime, row["hockeystick"], rel_tol=1e-6)
    assert row["hockeystick"] > 1e3 * row["delta"]
    classic = privacy.sparse_scale_classic(epsilon=0.1, delta=1e-5, cutoff=1)
    assert math.isclose(classic, wrong * 100, rel_tol=1e-9)


# ---- exact privacy of whole mechanisms, by enumeration ----


def sparse_outcomes(queries, *, threshold, cutoff, scale):
    """Every possible output of `sparse` with its probability: a product over runs."""
    found = {}
    scales = {"threshold": threshold, "threshold_scale": scale, "query_scale": 2 * scale}

    def extend(start, bits, log_p, left):
        if start == len(queries) or left == 0:
            found[bits] = found.get(bits, 0.0) + math.exp(log_p)
            return
        rest = queries[start:]
        for k in range(1, len(rest) + 1):
            p = first_above(rest[:k], **scales)
            extend(start + k, bits + (False,) * (k - 1) + (True,), log_p + p, left - 1)
        none = outcome_log_probability(rest, above=[0] * len(rest), **scales)
        extend(len(queries), bits + (False,) * len(rest), log_p + none, left)

    extend(0, (), 0.0, cutoff)
    return found


@pytest.mark.parametrize("delta", [0.0, 0.02])
def test_sparse_is_as_private_as_claimed(delta):
    rng = np.random.default_rng(2)
    epsilon, cutoff, worst = 0.8, 2, 0.0
    scale = privacy.sparse_scale(epsilon=epsilon, delta=delta, cutoff=cutoff)
    for trial in range(12):
        queries = np.zeros(5) if trial == 0 else rng.integers(-4, 5, 5).astype(float)
        moved = queries + (np.array([1, -1, 1, -1, 1]) if trial == 0 else rng.integers(-1, 2, 5))
        one, other = (sparse_outcomes(q, threshold=0.0, cutoff=cutoff, scale=scale) for q in (queries, moved))
        assert math.isclose(sum(one.values()), 1.0, rel_tol=1e-9)
        for a, b in ((one, other), (other, one)):
            assert hockey_stick(a, b, epsilon) <= delta + 1e-12
            worst = max(worst, max(math.log(p / b[key]) for key, p in a.items()))
    assert worst > 0.4 * epsilon, "the search must come near, or it tests nothing"


def m_svec_outcomes(labels, distances, *, cutoff, scale, threshold):
    found = {}
    bits = sparse_outcomes(-np.asarray(distances, dtype=float), threshold=-threshold, cutoff=cutoff, scale=scale)
    for failed, p in bits.items():  # passing is "not above": -d + Lap < -T + Lap
        key = tuple(None if f else label for f, label in zip(failed, labels, strict=False))
        found[key] = found.get(key, 0.0) + p
    return found


def test_m_svec_is_as_private_as_claimed():
    """Neighbours whose second label differs: both distances are 0 there, all others move by one."""
    epsilon, delta = 1.0, 0.05
    for cutoff in (1, 2):
        noise = privacy.m_svec_noise(epsilon=epsilon, delta=delta, cutoff=cutoff)
        around = int(noise.threshold)
        worst = 0.0
        for one, other in (
            ([around, 0, around + 1], [around - 1, 0, around]),
            ([0, 0, 3], [0, 0, 4]),
            ([1, 0, 1], [0, 0, 2]),
            ([around + 9, 0, around - 9], [around + 8, 0, around - 8]),
        ):
            sizes = {"cutoff": cutoff, "scale": noise.scale, "threshold": noise.threshold}
            first = m_svec_outcomes(["a", "b", "c"], one, **sizes)
            second = m_svec_outcomes(["a", "x", "c"], other, **sizes)
            assert math.isclose(sum(first.values()), 1.0, rel_tol=1e-9)
            for a, b in ((first, second), (second, first)):
                worst = max(worst, hockey_stick(a, b, epsilon))
        assert worst <= delta
        assert worst >= 0.9 * privacy.unstable_pass_probability(scale=noise.scale, threshold=noise.threshold)


@pytest.mark.parametrize("row", [r for r in GOLDEN["msvec"] if r["eps"] == 0.1], ids=lambda row: row["formula"][:7])
def test_m_svec_with_the_printed_scale(row):
    scales = {"threshold": row["T"], "threshold_scale": row["lam"], "query_scale": 2 * row["lam"]}
    distances = [row["at_dist"]] if row["at_dist"] else range(3800, 5800, 40)
    worst = 0.0
    for d in distances:
        p, p_prime = (math.exp(first_above([x], **scales)) for x in (float(d), d + 1.0))
        for a, b in ((p, p_prime), (p_prime, p), (1 - p, 1 - p_prime), (1 - p_prime, 1 - p)):
            worst = max(worst, a - math.exp(0.1) * b)
    assert math.isclose(worst, row["max_hockeystick_at_eps_one_query"], rel_tol=1e-6, abs_tol=1e-12)
    if row["formula"].startswith("correct"):
        noise = privacy.m_svec_noise_classic(epsilon=0.1, delta=1e-5, cutoff=1, queries=1)
        assert noise == pytest.approx((row["lam"], row["T"]), rel=1e-12)


@pytest.mark.parametrize("row", GOLDEN["msvec_unstable_pass"], ids=lambda row: str(row["m"]))
def test_unstable_queries_pass_rarely(row):
    got = privacy.unstable_pass_probability(scale=row["lam"], threshold=row["T"])
    assert math.isclose(got, row["p_pass_at_dist0"], rel_tol=1e-12) and got < row["closed_form"]
    at_zero = {"threshold": row["T"], "threshold_scale": row["lam"], "query_scale": 2 * row["lam"]}
    assert math.isclose(got, math.exp(first_above([0.0], **at_zero)), rel_tol=1e-11)


@pytest.mark.parametrize("row", GOLDEN["off_by_one"], ids=lambda row: str(row["Q"]))
def test_one_failure_too_many(row):
    scale, rule = 2 / row["eps0"], {"epsilon": row["eps0"], "delta": 0.0, "delta_prime": 5e-6}
    for extra, key in ((0, "Q"), (1, "Qplus1")):
        runs = row["Q"] + extra
        assert math.isclose(proved(scale, runs, 5e-6), row[f"kov_{key}"], rel_tol=1e-9)
        assert math.isclose(composition.advanced(k=runs, **rule).epsilon, row[f"adv_{key}"], rel_tol=1e-9)


@pytest.mark.parametrize("row", GOLDEN["svt_vs_simple"], ids=lambda row: f"{row['m']}-{row['Q']}")
def test_against_simple_composition(row):
    noise = privacy.m_svec_noise_classic(epsilon=1.0, delta=1e-5, cutoff=row["Q"], queries=row["m"])
    assert noise == pytest.approx((row["lam"], row["T"]), rel=1e-12)
    each = {"epsilon": row["eps0"], "delta": 0.0, "k": row["m"], "delta_prime": 1e-5}
    assert math.isclose(composition.advanced(**each).epsilon, 1.0, rel_tol=1e-9)
    enough = privacy.enough_distance(**noise._asdict(), queries=row["m"], beta=0.01)
    assert 2 * enough < row["gap_needed_svt"], "the union of exact tails needs less than the crude count"
    exact = {"threshold": noise.threshold, "threshold_scale": noise.scale, "query_scale": 2 * noise.scale}
    fails = -math.expm1(first_above([enough], **exact))
    assert 0.5 * 0.01 < row["m"] * fails <= 0.01


# ---- calibration ----


@pytest.mark.parametrize("cutoff", [1, 2, 10, 1000])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0, 500.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_scales_meet_their_target_and_no_smaller_one_does(cutoff, epsilon, delta):
    scale = privacy.sparse_scale(epsilon=epsilon, delta=delta, cutoff=cutoff)
    assert epsilon * (1 - 1e-9) <= proved(scale, cutoff, delta) <= epsilon < proved(scale * (1 - 1e-6), cutoff, delta)
    if delta and epsilon <= 1:
        classic = privacy.sparse_scale_classic(epsilon=epsilon, delta=delta, cutoff=cutoff)
        assert 2 < classic / scale < 12
    if delta:
        noise = privacy.m_svec_noise(epsilon=epsilon, delta=delta, cutoff=cutoff)
        left = delta - cutoff * privacy.unstable_pass_probability(**noise._asdict())
        assert epsilon * 0.99 <= proved(noise.scale, cutoff, left) <= epsilon * (1 + 1e-12)


def test_the_classic_scale_is_refused_where_it_is_not_proved():
    with pytest.raises(ValueError, match=r"^epsilon must be so small that its noise is proved to suffice"):
        privacy.sparse_scale_classic(epsilon=60.0, delta=0.5, cutoff=1000)
    with pytest.raises(ValueError, match=r"^epsilon must be so small that its noise is proved to suffice"):
        privacy.m_svec_noise_classic(epsilon=60.0, delta=0.5, cutoff=1000, queries=1000)


# ---- the mechanisms themselves ----


def test_bits_follow_their_law():
    """6,000 runs against the exact law; a right mechanism fails with probability 1e-6."""
    queries, runs, rng = [0.0, 2.0, -1.0], 6_000, np.random.default_rng(3)
    exact = outcomes.above_threshold_probabilities(queries, threshold=1.0, epsilon=1.5)
    came = Counter(sparse_vector.above_threshold(queries, threshold=1.0, epsilon=1.5, rng=rng) for _ in range(runs))
    counts = np.array([came[0], came[1], came[2], came[None]])
    assert ((counts - runs * exact) ** 2 / (runs * exact)).sum() < chi2.isf(1e-6, 3)

    scale = privacy.sparse_scale(epsilon=2.0, delta=1e-3, cutoff=2)
    law = sparse_outcomes(np.array(queries), threshold=1.0, cutoff=2, scale=scale)
    ask = {"threshold": 1.0, "cutoff": 2, "epsilon": 2.0, "delta": 1e-3, "rng": rng}
    bits = Counter(tuple(sparse_vector.sparse(queries, **ask)) for _ in range(runs))
    assert set(bits) <= set(law)
    total = sum((bits[key] - runs * p) ** 2 / (runs * p) for key, p in law.items())
    assert total < chi2.isf(1e-6, len(law) - 1)


def test_m_svec_follows_its_law():
    """Two failures among queries near the threshold, whose noise is one until the first and another after it."""
    noise = privacy.m_svec_noise(epsilon=3.0, delta=1e-2, cutoff=2)
    runs, rng, labels = 4_000, np.random.default_rng(4), list("abcd")
    distances = [int(noise.threshold) + more for more in (0, 1, 0, 1)]
    law = m_svec_outcomes(labels, distances, cutoff=2, scale=noise.scale, threshold=noise.threshold)
    ask = {"distances": distances, "cutoff": 2, "epsilon": 3.0, "delta": 1e-2, "rng": rng}
    came = Counter(tuple(sparse_vector.m_svec(labels, **ask).labels) for _ in range(runs))
    assert set(came) <= set(law)
    assert sum((came[key] - runs * p) ** 2 / (runs * p) for key, p in law.items()) < chi2.isf(1e-6, len(law) - 1)


@pytest.mark.parametrize("far", [1e6, 1e12])
def test_exactly_the_cutoff_and_no_more(far):
    """Public code has given one answer too many, or the raw values of queries."""
    ask = {"threshold": 0.0, "cutoff": 3, "epsilon": 1.0, "delta": 1e-5}
    rng = np.random.default_rng(5)
    assert list(sparse_vector.sparse([far] * 10, **ask, rng=rng)) == [True] * 3
    still_usable = sparse_vector.sparse(iter([-far] * 10 + [far]), **ask, rng=rng)
    assert [next(still_usable) for _ in range(10)] == [False] * 10 and next(still_usable) is True
    mixed = list(sparse_vector.sparse([far, -far] * 5, **ask, rng=rng))
    assert mixed == [True, False, True, False, True]
    assert all(isinstance(bit, bool) for bit in mixed)
    values = list(sparse_vector.numeric_sparse([far, -far] * 5, **ask, rng=rng))
    assert [v is None for v in values] == [False, True, False, True, False]
    assert all(v != far and abs(v - far) < 1e4 for v in values if v is not None)


def test_the_released_value_has_its_own_noise():
    """Independent of the noise that decided: its mean is the true answer, although the compared one is biased up."""
    rng, runs = np.random.default_rng(6), 8_000
    ask = {"threshold": 3.0, "cutoff": 1, "epsilon": 2.0, "delta": 0.0, "rng": rng}
    values = [v for _ in range(runs) for v in sparse_vector.numeric_sparse([0.0], **ask) if v is not None]
    scale = 2.0 * privacy.sparse_scale(epsilon=2.0, delta=0.0, cutoff=1) / 2.0
    spread = math.sqrt(2) * scale
    assert len(values) > 1000 and abs(np.mean(values)) < 5 * spread / math.sqrt(len(values))
    assert math.isclose(np.std(values), spread, rel_tol=0.1)


def test_a_stream_is_read_no_further_than_needed():
    read = []

    def adaptive():
        for i in itertools.count():
            read.append(i)
            yield 1e9 if i == 4 else -1e9

    rng = np.random.default_rng(7)
    assert sparse_vector.above_threshold(adaptive(), threshold=0.0, epsilon=1.0, rng=rng) == 4
    assert read == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match=r"^stream must be"):
        list(sparse_vector.sparse(iter([0.0, math.nan]), threshold=9.0, cutoff=2, epsilon=1.0, delta=0.0, rng=rng))


def test_m_svec_ends_at_the_last_failure():
    rng = np.random.default_rng(10)
    ask = {"cutoff": 2, "epsilon": 1.0, "delta": 1e-5, "rng": rng}
    got = sparse_vector.m_svec(list("abcdef"), distances=[10**6, 0, 10**6, 0, 10**6, 0], **ask)
    assert got.labels == ["a", None, "c", None] and got.exhausted
    kept = sparse_vector.m_svec(np.arange(4), distances=[10**6] * 4, **ask)
    assert kept.labels == [0, 1, 2, 3] and not kept.exhausted


# ---- broken variants do what their names say ----


def test_broken_variants_run():
    rng = np.random.default_rng(11)
    ask = {"threshold": 0.0, "epsilon": 1.0, "rng": rng}
    far = [-1e6, -1e6, 1e6, 1e6]
    assert broken.no_threshold_noise(far, **ask) == [False, False, True]
    assert broken.no_query_noise(far, **ask) == [False, False, True, True]
    assert broken.printed_sparse(far, cutoff=1, delta=1e-5, **ask) == [False, False, True]


def test_a_broken_variant_is_caught_by_its_outputs():
    """No query noise: an output that is impossible on D' shows up on D, at once."""
    rng = np.random.default_rng(12)
    ask = {"threshold": 0.5, "epsilon": 0.1, "rng": rng}
    seen = Counter(tuple(broken.no_query_noise([0.0, 1.0], **ask)) for _ in range(500))
    never = Counter(tuple(broken.no_query_noise([1.0, 0.0], **ask)) for _ in range(500))
    assert seen[(False, True)] > 0 and never[(False, True)] == 0


def test_the_threshold_of_m_svec_is_finite_at_the_least_delta():
    noise = privacy.m_svec_noise(epsilon=1.0, delta=1e-320, cutoff=10)
    expected = 2.0 * noise.scale * (math.log(40.0 / 3.0) + 320.0 * math.log(10.0))
    assert noise.threshold == pytest.approx(expected, rel=1e-3)
