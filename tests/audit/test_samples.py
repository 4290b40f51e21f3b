"""Lower bounds on epsilon: their coverage is computed exactly, by enumeration of all counts, never simulated."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dpml import mechanisms
from dpml.audit import samples


def bound(hits, positives, alarms, negatives, delta=0.0, confidence=0.9):
    counts = {"true_positives": hits, "positives": positives, "false_positives": alarms, "negatives": negatives}
    return samples.epsilon_lower_bound(**counts, delta=delta, confidence=confidence).epsilon_at_least


def true_epsilon(tpr, fpr, delta):
    """The least epsilon that allows these two rates: all four inequalities of the definition."""
    pairs = [(tpr, fpr), (fpr, tpr), (1 - tpr, 1 - fpr), (1 - fpr, 1 - tpr)]
    return max([0.0] + [math.inf if b == 0 else math.log((a - delta) / b) for a, b in pairs if a > delta])


# ---- Clopper and Pearson ----


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99, 1 - 1e-7])
@pytest.mark.parametrize("trials", [1, 2, 7, 30])
def test_clopper_pearson_coverage_by_enumeration(trials, confidence):
    limits = [samples.clopper_pearson(k, trials=trials, confidence=confidence) for k in range(trials + 1)]
    assert limits[0][0] == pytest.approx(0.0, abs=0)
    assert limits[-1][1] == pytest.approx(1.0)
    tail = (1 - confidence) / 2 * (1 + 1e-9)
    # the worst probabilities are just beside the limits themselves
    for p in {min(max(v * s, 0.0), 1.0) for pair in limits for v in pair for s in (1 - 1e-9, 1.0, 1 + 1e-9)}:
        law = stats.binom.pmf(range(trials + 1), trials, p)
        assert sum(w for w, (low, _) in zip(law, limits, strict=True) if low > p) <= tail
        assert sum(w for w, (_, high) in zip(law, limits, strict=True) if high < p) <= tail


def test_clopper_pearson_solves_its_equations():
    for successes, trials, confidence in ((3, 10, 0.95), (0, 50, 0.99), (999, 1000, 0.9), (40, 1000, 1 - 1e-6)):
        low, high = samples.clopper_pearson(successes, trials=trials, confidence=confidence)
        tail = (1 - confidence) / 2
        assert stats.binom.pmf(range(successes + 1), trials, high).sum() == pytest.approx(tail, rel=1e-8)
        if successes:
            assert stats.binom.pmf(range(successes, trials + 1), trials, low).sum() == pytest.approx(tail, rel=1e-8)


@pytest.mark.parametrize(("k", "n", "alarm"), [(3, 5, 1e-226), (3, 10**12, 1e-160), (2, 89, 1e-206), (9, 19, 5.9e-145)])
def test_limits_at_alarms_where_scipys_inverse_says_little(k, n, alarm):
    """There C(n, k) p^k is the chance of k successes or more, to all digits that floats have."""
    log_limit = (math.log(alarm) - math.log(math.comb(n, k))) / k
    assert math.log(samples.lower_limit(k, trials=n, alarm=alarm)) == pytest.approx(log_limit, rel=1e-13)
    assert samples.upper_limit(n - k, trials=n, alarm=alarm) == pytest.approx(-math.expm1(log_limit), rel=1e-15)


def test_limits_of_many_counts_at_once():
    """Each side is one of the interval's; a limit is as precise at an alarm that 1 - alarm would round away."""
    counts = np.array([[0, 1, 5], [9, 10, 3]])
    low, high = samples.clopper_pearson(counts, trials=10, confidence=0.9)
    one_by_one = [samples.clopper_pearson(int(k), trials=10, confidence=0.9) for k in counts.flat]
    assert low.ravel().tolist() == [pair[0] for pair in one_by_one]
    assert high.ravel().tolist() == [pair[1] for pair in one_by_one]
    assert low == pytest.approx(1 - samples.upper_limit(10 - counts, trials=10, alarm=0.05))
    assert samples.upper_limit(0, trials=7, alarm=1e-30) == pytest.approx(-math.expm1(math.log(1e-30) / 7), rel=1e-13)
    assert samples.lower_limit(7, trials=7, alarm=1e-30) == pytest.approx(1e-30 ** (1 / 7), rel=1e-13)


# ---- the lower bound ----


@pytest.mark.parametrize("delta", [0.0, 0.01, 0.2])
@pytest.mark.parametrize(("positives", "negatives", "confidence"), [(8, 8, 0.9), (20, 5, 0.8), (3, 30, 0.95)])
def test_coverage_by_enumeration(positives, negatives, confidence, delta):
    """For every pair of true rates, the bound exceeds the true epsilon with probability at most 1 - confidence."""
    counts = list(itertools.product(range(positives + 1), range(negatives + 1)))
    bounds = [bound(t, positives, f, negatives, delta, confidence) for t, f in counts]
    worst = 0.0
    rates = [0.0, 0.003, 0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98, 0.997, 1.0]
    edges = {1 - samples.clopper_pearson(k, trials=positives, confidence=confidence)[0] for k in range(positives)}
    for tpr, fpr in itertools.product(sorted({*rates, *(e * (1 - 1e-9) for e in edges)}), rates):
        law_d = stats.binom.pmf(range(positives + 1), positives, tpr)
        law_n = stats.binom.pmf(range(negatives + 1), negatives, fpr)
        limit = true_epsilon(tpr, fpr, delta)
        wrong = sum(law_d[t] * law_n[f] for (t, f), b in zip(counts, bounds, strict=True) if b > limit + 1e-12)
        worst = max(worst, wrong)
    assert worst <= 1 - confidence
    if delta == 0.0:
        assert worst > (1 - confidence) / 200, "a bound that is never wrong would be a useless one"


def test_two_claims_spend_the_confidence_once():
    """The formula of the docstring, from one-sided limits at (1 - confidence) / 2 each."""
    confidence, delta = 0.95, 1e-3
    fpr = stats.beta.ppf(1 - 0.025, 31, 970)
    fnr = stats.beta.ppf(1 - 0.025, 101, 900)
    expected = max(math.log((1 - fnr - delta) / fpr), math.log((1 - fpr - delta) / fnr))
    assert bound(900, 1000, 30, 1000, delta, confidence) == pytest.approx(expected, rel=1e-10)
    mirrored = bound(1000 - 30, 1000, 1000 - 900, 1000, delta, confidence)
    assert mirrored == pytest.approx(expected, rel=1e-12), "the two directions are treated alike"


def test_never_negative_never_infinite():
    for size in (1, 10, 10**6, 2**53):
        for t, f in itertools.product((0, size), repeat=2):
            for delta in (0.0, 0.5, 1.0):
                for confidence in (1e-12, 0.5, 1 - 1e-12):
                    value = bound(t, size, f, size, delta, confidence)
                    assert 0.0 <= value < math.inf
                    if t <= f or delta == 1.0:
                        assert value == pytest.approx(0.0, abs=1e-9) or confidence < 0.5
    perfect = bound(10**6, 10**6, 0, 10**6, 0.0, 0.95)
    assert perfect == pytest.approx(math.log(10**6 / math.log(2 / 0.05)), abs=1e-4)


def test_evidence_keeps_what_it_rests_on():
    evidence = samples.epsilon_lower_bound(
        true_positives=90, positives=100, false_positives=20, negatives=200, delta=1e-5, confidence=0.95
    )
    assert evidence._fields[:3] == ("epsilon_at_least", "delta", "confidence")
    assert evidence[1:] == (1e-5, 0.95, 90, 100, 20, 200)


# ---- from scores ----


def test_scores_recover_the_epsilon_of_randomized_response():
    """Deterministic after the seed; the value proved must lie below the true 2 and not far below."""
    rng = np.random.default_rng(8)
    on_d = mechanisms.randomized_response(np.ones(100_000), epsilon=2.0, rng=rng)
    on_neighbour = mechanisms.randomized_response(np.zeros(100_000), epsilon=2.0, rng=rng)
    kwargs = {"delta": 0.0, "confidence": 1 - 1e-7, "rng": rng}
    for sign in (1, -1):
        found = samples.epsilon_lower_bound_from_scores(sign * on_d, scores_neighbour=sign * on_neighbour, **kwargs)
        assert 1.85 < found.epsilon_at_least < 2.0  # false alarm 1e-7
        assert (found.positives, found.negatives) == (75_000, 75_000)


def test_the_test_is_chosen_on_a_quarter_and_counted_on_the_rest():
    """Against all thresholds and both directions, on runs in the order in which the generator puts them."""
    on_d, on_neighbour = np.random.default_rng(3).normal([[0.8], [0.0]], 1.0, size=(2, 40))
    given = {"scores_neighbour": on_neighbour, "delta": 0.0, "confidence": 0.5}
    found = samples.epsilon_lower_bound_from_scores(on_d, **given, rng=np.random.default_rng(0))
    again = np.random.default_rng(0)
    runs = again.permutation(on_d), again.permutation(on_neighbour)

    def said(threshold, above, part):
        return [int(((scores[part] >= threshold) == above).sum()) for scores in runs]

    def proved(true_positives, false_positives):
        return bound(true_positives, 10, false_positives, 10, confidence=0.5)

    some = slice(0, 10)
    tests = itertools.product((True, False), sorted({*runs[0][some], *runs[1][some]}))
    above, threshold = max(tests, key=lambda one: proved(*said(one[1], one[0], some)))
    assert [found.true_positives, found.false_positives] == said(threshold, above, slice(10, 40))


def test_small_and_unequal_sets_of_scores():
    found = samples.epsilon_lower_bound_from_scores(
        [0.0, 1.0], scores_neighbour=[0.5, 0.5, 0.5], delta=0.0, confidence=0.9, rng=np.random.default_rng(0)
    )
    assert found.epsilon_at_least == pytest.approx(0.0, abs=0)
    assert (found.positives, found.negatives) == (1, 2)
