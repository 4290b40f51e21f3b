"""Answers to the exercises of chapter 07, right and wrong; `test_answers` tries them."""

import math

import numpy as np

from dpml.lessons.stability import checks as items
from dpml.pate import m_samp


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


def lead(counts):
    first, second = sorted(counts)[-1:-3:-1]
    return first - second


def decide(counts, released):
    return int(np.argmax(counts)) if released else -1


def by_inverting_the_law(counts, *, epsilon, delta, rng):
    """A coin with the exact probability of a release."""
    d, t = by_formula(counts), math.log(1 / delta) / epsilon
    p = delta / 2 * math.exp(epsilon * d) if d <= t else 1 - math.exp(-epsilon * d) / (2 * delta)
    return decide(counts, rng.random() < p)


def by_the_test(counts, *, epsilon, delta, rng):
    return decide(counts, by_formula(counts) + rng.laplace(0, 1 / epsilon) > -math.log(delta) / epsilon)


def generous_at_the_border(counts, *, epsilon, delta, rng):
    if by_formula(counts) > 1:
        return by_the_test(counts, epsilon=epsilon, delta=delta, rng=rng)
    return decide(counts, rng.random() < 1.5 * delta / 2 * math.exp(epsilon * by_formula(counts)))


def second_best(counts, *, epsilon, delta, rng):
    released = by_the_test(counts, epsilon=epsilon, delta=delta, rng=rng) >= 0
    return int(np.argmax(counts)) if released else int(np.argsort(counts)[-2])


PLAN = m_samp.sampling_plan(epsilon=1.0, delta=1e-5, n=50_000)


def scaled(counts, *, most_used, q, n_models):
    return -math.inf if most_used > 2 * q * n_models else lead(list(counts)) / (4.0 * q * n_models) - 1


def with_the_package(counts, *, most_used, q, n_models):
    distance = float(m_samp.scaled_distance(counts, q=q, n_models=n_models))
    return distance if most_used <= 2 * q * n_models else -np.inf


RIGHT = {
    items.check_distance: [by_formula, by_moving_votes],
    items.check_release_at_one: [math.e * 5e-6, 1.359e-5],
    items.check_least_delta: [5e-6, 1e-5 / 2],
    items.check_sharp_test: [([90, 10], [89, 11]), (np.array([3, 7, 90]), [4, 7, 89])],
    items.check_stable_release: [by_the_test, by_inverting_the_law],
    items.check_models_printed: [3_031_187.0, np.int64(PLAN.n_models)],
    items.check_models_chernoff: [21_299, math.ceil(math.log(5e9) / ((math.log(4) - 1) * PLAN.q))],
    items.check_scaled: [scaled, with_the_package],
}

WRONG = {
    items.check_sharp_test: [
        (([91, 9], [90, 10]), "the rule answers on both"),
        (([50, 50], [49, 51]), "the rule is silent on both"),
        (([90, 10], [90, 10]), "the same dataset"),
        (([95, 5], [85, 15]), "10 votes differ"),
        (([90, 9], [89, 10]), "must have 100 votes"),
        (([90, 10], [89, 10, 1]), "as many labels"),
        ([90, 89, 1], "give two lists"),
    ],
    items.check_stable_release: [
        (generous_at_the_border, "does not follow the law"),
        (second_best, "is not private enough"),
    ],
}
