"""Lower bounds for a known form of the mechanism, for known losses, and from one run, against exact laws."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dpml import mechanisms
from dpml.audit import gaussian_scores, known_losses, one_run, samples

SURE = 1 - 1e-7


@pytest.mark.parametrize(("mu", "share"), [(1.0, 0.55), (2.0, 0.5)])
def test_a_gaussian_of_unknown_noise_is_found_within_15_percent(mu, share):
    rng = np.random.default_rng(3)
    on_d, on_neighbour = rng.normal(mu, 1.0, 10**6), rng.normal(0.0, 1.0, 10**6)
    common = {"scores_neighbour": on_neighbour, "delta": 1e-5, "confidence": SURE, "rng": rng}
    found = gaussian_scores.gaussian_lower_bound_from_scores(on_d, **common)
    exact = mechanisms.gaussian_epsilon(sigma=1 / mu, delta=1e-5)
    assert 0.85 * exact < found.epsilon_at_least <= exact and found.mu_at_least <= mu
    by_events = samples.epsilon_lower_bound_from_scores(on_d, **common).epsilon_at_least
    assert share * exact < by_events < found.epsilon_at_least
    of_losses = known_losses.epsilon_lower_bound_from_losses(
        mu * on_d - mu**2 / 2, delta=1e-5, confidence=SURE, rng=rng
    )
    assert 0.75 * exact < of_losses.epsilon_at_least <= exact
    assert of_losses.runs == 750_000 and of_losses.threshold > of_losses.epsilon_at_least


def test_the_bound_on_mu_solves_its_equation():
    found = gaussian_scores.gaussian_lower_bound_from_scores(
        [3.0] * 80, scores_neighbour=[0.0] * 80, delta=1e-5, confidence=0.9, rng=np.random.default_rng(0)
    )
    limit = 1 - 0.05 ** (1 / 60)  # of Clopper and Pearson for no error in 60
    assert (found.true_positives, found.positives, found.false_positives, found.negatives) == (60, 60, 0, 60)
    assert found.mu_at_least == pytest.approx(-2 * stats.norm.ppf(limit), rel=1e-9)
    assert mechanisms.gaussian_delta(sigma=1 / found.mu_at_least, epsilon=found.epsilon_at_least) == pytest.approx(1e-5)


def test_a_test_that_is_no_better_than_a_coin_shows_nothing():
    common = {"delta": 1e-5, "confidence": 0.9, "rng": np.random.default_rng(0)}
    same = np.zeros(40)
    found = gaussian_scores.gaussian_lower_bound_from_scores(same, scores_neighbour=same, **common)
    assert (found.mu_at_least, found.epsilon_at_least) == pytest.approx((0.0, 0.0), abs=0)
    assert known_losses.epsilon_lower_bound_from_losses(-np.ones(40), **common).epsilon_at_least == pytest.approx(0.0)
    anything = {**common, "confidence": 1e-300}  # 1 - confidence is 1
    assert known_losses.epsilon_lower_bound_from_losses(np.ones(40), **anything).epsilon_at_least <= 1.0


def test_laplace_losses_prove_all_of_epsilon():
    rng = np.random.default_rng(1)
    losses = mechanisms.laplace_loss(rng.laplace(0.0, 0.5, 1000), scale=0.5)
    pure = known_losses.epsilon_lower_bound_from_losses(losses, delta=0.0, confidence=SURE, rng=rng)
    assert pure.epsilon_at_least == pytest.approx(2.0) and pure.threshold == pytest.approx(2.0)
    some = known_losses.epsilon_lower_bound_from_losses(losses, delta=0.05, confidence=SURE, rng=rng)
    p = float(samples.lower_limit(some.exceeding, trials=some.runs, alarm=1 - SURE))
    assert some.epsilon_at_least == pytest.approx(some.threshold + math.log(1 - 0.05 / p), rel=1e-6)
    assert some.epsilon_at_least < 2.0 + 2 * math.log(0.95)  # where the exact delta is 0.05


# ---- one run ----


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("guesses", [0, 1, 7, 40])
def test_without_delta_it_is_the_tail_of_a_binomial_law(epsilon, guesses):
    law = stats.binom(guesses, 1 / (1 + math.exp(-epsilon)))
    for correct in range(guesses + 1):
        found = one_run.one_run_probability(correct=correct, guesses=guesses, canaries=50, epsilon=epsilon, delta=0.0)
        assert found == pytest.approx(law.sf(correct - 1), rel=1e-10)


@pytest.mark.parametrize("alarm", [1e-6, 2.0**-40, 2.0**-52])
def test_small_alarms_are_kept_to_the_digit(alarm):
    """All of 100 guesses right refute what has p^100 below the alarm; 1 - (1 - p^100) would lose its digits there."""
    found = one_run.one_run_lower_bound(correct=100, guesses=100, canaries=100, delta=0.0, confidence=1 - alarm)
    p = alarm ** (1 / 100)
    assert found.epsilon_at_least == pytest.approx(math.log(p / (1 - p)), rel=1e-7)


@pytest.mark.parametrize(
    ("m", "r", "epsilon", "delta", "counts"),
    [(30, 20, 0.7, 1e-3, range(1, 21)), (5000, 4000, 0.5, 1e-6, (1, 1900, 2450, 2600, 3000))],
)
def test_delta_is_paid_as_the_theorem_says(m, r, epsilon, delta, counts):
    """Against the maximum over all i, where most of them need not be looked at."""
    law = stats.binom(r, 1 / (1 + math.exp(-epsilon)))
    for v in counts:
        reached = law.sf(np.arange(v, v - m - 1, -1) - 1)
        expected = reached[0] + 2 * m * delta * ((reached[1:] - reached[0]) / np.arange(1, m + 1)).max()
        found = one_run.one_run_probability(correct=v, guesses=r, canaries=m, epsilon=epsilon, delta=delta)
        assert found == pytest.approx(min(1.0, expected), rel=1e-9)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_one_run_covers_by_enumeration(delta):
    """For randomized response the chance that the bound exceeds epsilon, summed over all outcomes."""
    for r, epsilon, confidence in itertools.product((5, 60), (0.2, 3.0), (0.5, 0.95)):
        p = 1 / (1 + math.exp(-epsilon))
        law = stats.binom(r, p)
        too_high = 0.0
        for v in range(r + 1):
            found = one_run.one_run_lower_bound(
                correct=v, guesses=r, canaries=r, delta=delta, confidence=confidence
            ).epsilon_at_least
            too_high += law.pmf(v) * (found > epsilon)
            if found > 0.0:
                at = one_run.one_run_probability(correct=v, guesses=r, canaries=r, epsilon=found, delta=delta)
                assert at <= (1 - confidence) * (1 + 1e-9)
        assert too_high <= 1 - confidence


def test_the_surest_guesses_are_counted():
    scores, coins = [0.1, 5.0, -3.0, 0.2, 4.0, -2.0], [1, 1, 0, 0, 0, 0]
    count = [one_run.right_guesses(scores, included=coins, guesses=r) for r in range(7)]
    # in turn: 5.0 in; -3.0 out; 4.0 in, wrong; -2.0 out; 0.2 in, wrong; 0.1 out, wrong
    assert count == [0, 1, 2, 2, 3, 3, 3]
