"""Each check of dpml.lessons.stability: right answers pass, known mistakes get their diagnosis."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpml.lessons.stability import checks as items
from dpml.pate import m_samp

from .answers import message, unwritten

# Item 1


def by_formula(counts):
    counts = np.asarray(counts)
    j = counts.argmax()
    gaps = counts[j] - counts
    return min(g // 2 if k > j else -(-g // 2) - 1 for k, g in enumerate(gaps) if k != j)


def by_moving_votes(counts):
    """Move votes to one rival at a time until it wins."""
    winner = int(np.argmax(counts))
    needed = []
    for rival in range(len(counts)):
        if rival == winner:
            continue
        votes, moves = list(counts), 0
        while int(np.argmax(votes)) == winner:
            votes[winner] -= 1
            votes[rival] += 1
            moves += 1
        needed.append(moves)
    return min(needed) - 1


@pytest.mark.parametrize("right", [by_formula, by_moving_votes])
def test_distance_accepts(right, capsys):
    items.check_distance(right)
    assert capsys.readouterr().out.startswith("✓ distance")


def lead(counts):
    first, second = sorted(counts)[-1:-3:-1]
    return first - second


def last_of_the_second(counts):
    """Looks at one rival only: the last of those with most votes."""
    winner = int(np.argmax(counts))
    rival = max((k for k in range(len(counts)) if k != winner), key=lambda k: (counts[k], k))
    gap = counts[winner] - counts[rival]
    return (gap + 1) // 2 - 1 if rival < winner else gap // 2


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lead, "this is the lead"),
        (lambda counts: lead(counts) // 2, "a label below the winner wins ties"),
        (lambda counts: (lead(counts) + 1) // 2 - 1, "a label above the winner loses ties"),
        (lambda counts: by_formula(counts) + 1, "nearest dataset with another answer"),
        (last_of_the_second, "how ties fall counts too"),
        (lambda counts: max(1, by_formula(counts)), "the maximum is over 0, ..., n"),
        (lambda counts: 3 * len(counts), "Move votes from the winner"),
        (lambda counts: None, "is a return missing?"),
        (unwritten, "not written yet"),
        (1, "must be a function"),
    ],
)
def test_distance_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_distance, wrong)


# Items 2 and 3


@pytest.mark.parametrize("right", [math.e * 5e-6, 0.5 * math.exp(-(math.log(1e5) - 1)), 1.359e-5])
def test_release_at_one_accepts(right):
    items.check_release_at_one(right)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (1, "what the slide says"),
        (5e-6, "the value at distance 0"),
        (1e-5, "on both sides"),
        (math.e * 1e-5, "a factor 2 is missing"),
        (5e-6 / math.e, "not T + 1"),
        (0.3, "The noise must exceed"),
        (..., "not written yet"),
        ("small", "not a number"),
    ],
)
def test_release_at_one_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_release_at_one, wrong)


@pytest.mark.parametrize("right", [5e-6, 1e-5 / 2])
def test_exact_delta_accepts(right):
    items.check_exact_delta(right)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (1e-5, "enough but not needed"),
        (math.e * 5e-6, "both distances are 0"),
        (0.0, "no epsilon pays for that"),
        (2.5e-6, "halved once too often"),
        (2e-5, "not added up"),
        (0.1, "two neighbours with different answers"),
        (..., "not written yet"),
    ],
)
def test_exact_delta_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_exact_delta, wrong)


# Item 4


@pytest.mark.parametrize("right", [([90, 10], [89, 11]), (np.array([3, 6, 91]) - [0, 0, 1] + [0, 1, 0], [4, 7, 89])])
def test_sharp_test_accepts(right, capsys):
    items.check_sharp_test(right)
    assert capsys.readouterr().out.startswith("✓ sharp_test")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (([91, 9], [90, 10]), "the rule answers on both"),
        (([50, 50], [49, 51]), "the rule is silent on both"),
        (([90, 10], [90, 10]), "the same dataset"),
        (([95, 5], [85, 15]), "10 votes differ"),
        (([90, 9], [89, 10]), "must have 100 votes"),
        (([90, 10], [89, 10, 1]), "as many labels"),
        (([90.5, 9.5], [89, 11]), "whole numbers"),
        ([90, 89, 1], "give two lists"),
        (90, "give two lists"),
        (..., "not written yet"),
    ],
)
def test_sharp_test_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_sharp_test, wrong)


# Item 5


def decide(counts, released):
    return int(np.argmax(counts)) if released else -1


def with_numpy(counts, *, epsilon, delta, rng):
    return decide(counts, by_formula(counts) + rng.laplace(0, 1 / epsilon) > -math.log(delta) / epsilon)


def by_inverting_the_law(counts, *, epsilon, delta, rng):
    """A coin with the exact probability of a release."""
    d, t = by_formula(counts), math.log(1 / delta) / epsilon
    p = delta / 2 * math.exp(epsilon * d) if d <= t else 1 - math.exp(-epsilon * d) / (2 * delta)
    return decide(counts, rng.random() < p)


@pytest.mark.parametrize("right", [with_numpy, by_inverting_the_law])
def test_stable_release_accepts(right, capsys):
    items.check_stable_release(right)
    assert capsys.readouterr().out.startswith("✓ stable_release")


def variant(*, noise=lambda epsilon: 1 / epsilon, bar=lambda epsilon, delta: -math.log(delta) / epsilon, of=by_formula):
    def release(counts, *, epsilon, delta, rng):
        return decide(counts, of(counts) + rng.laplace(0, noise(epsilon)) > bar(epsilon, delta))

    return release


def half_as_often_again(counts, *, epsilon, delta, rng):
    """Right far from the border, and too generous near it."""
    p = 1.5 * delta / 2 * math.exp(epsilon * by_formula(counts))
    if by_formula(counts) > 1:
        return with_numpy(counts, epsilon=epsilon, delta=delta, rng=rng)
    return decide(counts, rng.random() < p)


def no_noise(counts, *, epsilon, delta, rng):
    return decide(counts, by_formula(counts) > -math.log(delta) / epsilon)


def sharp(counts, *, epsilon, delta, rng):
    return decide(counts, by_formula(counts) >= 1)


def noisy_vote(counts, *, epsilon, delta, rng):
    return int(np.argmax(counts + rng.laplace(scale=1 / epsilon, size=len(counts))))


def own_noise(counts, *, epsilon, delta, rng):
    return with_numpy(counts, epsilon=epsilon, delta=delta, rng=np.random.default_rng())


def name_instead(counts, *, epsilon, delta, rng):
    return "fail" if with_numpy(counts, epsilon=epsilon, delta=delta, rng=rng) < 0 else "released"


def never(counts, *, epsilon, delta, rng):
    return -1


def second_best(counts, *, epsilon, delta, rng):
    released = with_numpy(counts, epsilon=epsilon, delta=delta, rng=rng) >= 0
    return int(np.argmax(counts)) if released else int(np.argsort(counts)[-2])


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (no_noise, "whether it answers tells two neighbours apart"),
        (sharp, "Whether it answers is an output too"),
        (lambda counts, *, epsilon, delta, rng: int(np.argmax(counts)), "the winner is always released"),
        (variant(of=lambda counts: by_formula(counts) + 1), "at the border it must be 0"),
        (variant(of=lambda counts: lead(list(counts))), "One moved vote changes the lead by two"),
        (variant(noise=lambda epsilon: epsilon), "should be its inverse"),
        (variant(noise=lambda epsilon: 1 / (2 * epsilon)), "for twice the epsilon"),
        (variant(bar=lambda epsilon, delta: -math.log(2 * delta) / epsilon), "asked for is half of that delta"),
        (variant(bar=lambda epsilon, delta: -math.log(delta)), "not divided by epsilon"),
        (variant(bar=lambda epsilon, delta: -math.log(delta) / epsilon + 0.2), "too cautious"),
        (half_as_often_again, "more often"),
        (variant(noise=lambda epsilon: 0.7 / epsilon, bar=lambda epsilon, delta: 3 / epsilon), "stable_release"),
        (noisy_vote, "noise on the counts"),
        (own_noise, "uses its own randomness"),
        (never, "in each of"),
        (second_best, "stable_release is not private enough"),
        (name_instead, "stable_release"),
        (lambda counts, *, epsilon, delta, rng: None, "is a return missing?"),
        (unwritten, "not written yet"),
        (-1, "must be a function"),
    ],
)
def test_stable_release_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_stable_release, wrong)


# Item 6


PLAN = m_samp.sampling_plan(epsilon=1.0, delta=1e-5, n=100_000)


@pytest.mark.parametrize("right", [3_125_267, 3_125_267.0, np.int64(PLAN.n_models)])
def test_models_printed_accepts(right):
    items.check_models_printed(right)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (24, "the gamma of the line before"),
        (math.log(1e10), "the gamma of the line before"),
        (3_125_266, "round up"),
        (3_125_266.318, "round up"),
        (math.ceil(math.log(1e10) / PLAN.q), "q is squared"),
        (math.ceil(math.log(1e5) / PLAN.q**2), "n stands in the logarithm"),
        (math.ceil(math.log(1e10) * (32 * math.log(1e10)) ** 2), "n comes in with n_T only"),
        (1000, "natural logarithm"),
        (..., "not written yet"),
    ],
)
def test_models_printed_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_models_printed, wrong)


@pytest.mark.parametrize("right", [21_961, math.ceil(math.log(1e10) / ((math.log(4) - 1) * PLAN.q))])
def test_models_chernoff_accepts(right):
    items.check_models_chernoff(right)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (math.ceil(3 * math.log(1e10) / PLAN.q), "the simpler exponent"),
        (PLAN.n_models, "Hoeffding's inequality again"),
        (math.log(1e5) / ((math.log(4) - 1) * PLAN.q), "union over all n records"),
        (math.log(1e10) / PLAN.q, "2 log 2 - 1"),
        (21_960, "round up"),
        (7, "Solve n e^"),
        (..., "not written yet"),
    ],
)
def test_models_chernoff_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_models_chernoff, wrong)


# Item 7


def scaled(counts, *, most_used, q, n_models, units=4.0, less=1.0, guard=2.0):
    if most_used > guard * q * n_models:
        return -math.inf
    return lead(list(counts)) / (units * q * n_models) - less


def with_the_package(counts, *, most_used, q, n_models):
    distance = float(m_samp.scaled_distance(counts, q=q, n_models=n_models))
    return distance if most_used <= 2 * q * n_models else -np.inf


@pytest.mark.parametrize("right", [scaled, with_the_package])
def test_scaled_accepts(right, capsys):
    items.check_scaled(right)
    assert capsys.readouterr().out.startswith("✓ scaled")


def partly(**settings):
    return lambda counts, *, most_used, q, n_models: scaled(
        counts, most_used=most_used, q=q, n_models=n_models, **settings
    )


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (partly(units=2.0), "each moved vote changes the lead by two"),
        (partly(less=0.0), "1 must be subtracted"),
        (partly(guard=math.inf), "moves more votes than the noise is made for"),
        (partly(guard=1.0), "above twice that only"),
        (partly(units=2.0, guard=math.inf), "must lead to a failure"),
        (
            lambda counts, *, most_used, q, n_models: (
                (max(counts) - min(counts)) / (4 * q * n_models) - 1 if most_used <= 2 * q * n_models else -math.inf
            ),
            "not the smallest",
        ),
        (lambda counts, *, most_used, q, n_models: None, "is a return missing?"),
        (unwritten, "not written yet"),
    ],
)
def test_scaled_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_scaled, wrong)


# Item 8

RIGHT = {"a": True, "b": False, "c": False, "d": True, "e": False, "f": True, "g": False, "h": False}


@pytest.mark.parametrize("right", [RIGHT, {key: np.bool_(RIGHT[key]) for key in "hgfedcba"}])
def test_claims_accepts(right, capsys):
    items.check_samp_claims(right)
    assert capsys.readouterr().out.startswith("✓ claims")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (RIGHT | {"a": False}, "post-processing"),
        (RIGHT | {"b": True}, "the threshold is far away"),
        (RIGHT | {"c": True}, "failing is an output"),
        (RIGHT | {"d": False}, "do not look at the data"),
        (RIGHT | {"e": True}, "n differs between neighbours"),
        (RIGHT | {"f": False}, "the count serves utility"),
        (RIGHT | {"g": True}, "without any noise"),
        (RIGHT | {"h": True}, "moves one vote"),
        (RIGHT | {"a": 1}, "give True or False"),
        ("adf", 'the keys "a" to "h"'),
        (..., "not written yet"),
    ],
)
def test_claims_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_samp_claims, wrong)


# Item 9


@pytest.mark.parametrize(
    "right",
    [
        "The parts are drawn by coins that do not depend on the data. For both neighbours the same coins lead to the "
        "bad event, and then the output is fail on both, so no one can tell them apart.",
        "Which records are sampled is random but independent of their values, so D and D' have the bad event in "
        "common. There both fail, and the loss is zero; averaging over the draws changes nothing in the bound.",
    ],
)
def test_coins_accepts_and_prints_the_rubric(right, capsys):
    items.check_coins(right)
    printed = capsys.readouterr().out
    assert printed.startswith("✓ coins")
    assert "the same coins for D and D'" in printed


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        ("It is rare.", "Use at least 25"),
        (
            "The bad event is very rare, because Hoeffding's inequality bounds its probability for every single "
            "record, and a union bound over all records finishes the argument, so that it may be left out.",
            "coin",
        ),
        (
            "The coins that choose the parts are independent of the data, and so the bad event happens for both "
            "neighbours at once, and then there is no difference between the two that anyone could see.",
            "what comes out then",
        ),
        (3, "between triple quotes"),
        (..., "not written yet"),
    ],
)
def test_coins_names_what_is_missing(wrong, diagnosis):
    assert diagnosis in message(items.check_coins, wrong)
