"""Answers to the exercises of chapter 06, right and wrong; `test_answers` tries them."""

import math

import numpy as np
from scipy.optimize import brentq

from dpml import mechanisms
from dpml.lessons.pate import checks as items
from dpml.pate import voting


def by_exponential_variables(counts, *, epsilon, rng):
    noise = rng.exponential(2 / epsilon, len(counts)) - rng.exponential(2 / epsilon, len(counts))
    return (np.asarray(counts) + noise).argmax()


def label(test, vote):
    """A label or -1 with Laplace noise of these multiples of 1/epsilon; the vote is drawn first."""

    def answer(counts, *, threshold, epsilon, rng):
        winner = int(np.argmax(mechanisms.laplace(counts, scale=vote / epsilon, rng=rng)))
        return winner if np.max(counts) + rng.laplace(scale=test / epsilon) >= threshold else -1

    return answer


def most(growth):
    """By solving for a real number of labels, another route than counting up."""
    return math.floor(brentq(lambda k: mechanisms.gaussian_epsilon(sigma=40.0 / growth(k), delta=1e-5) - 2, 0.01, 5000))


HOW_MANY = most(lambda k: math.sqrt(2 * k))


def these(q, lam, scale):
    return math.log((1 - q) * ((1 - q) / (1 - math.exp(2 / scale) * q)) ** lam + q * math.exp(2 * lam / scale))


def moment_by_branches(*, q, lam, scale):
    any_votes = 2 * lam * (lam + 1) / scale**2
    return any_votes if q * (1 + math.exp(2 / scale)) >= 1 else min(these(q, lam, scale), any_votes)


def moment_in_logs(*, q, lam, scale):
    """Also beyond the condition of the theorem, where the formula still bounds the moment and is seldom smaller."""
    worst = 2 * lam * (lam + 1) / scale**2
    if q >= np.exp(-2 / scale):
        return worst
    stay = (lam + 1) * np.log1p(-q) - lam * np.log1p(-np.exp(2 / scale) * q)
    return min(worst, np.logaddexp(stay, np.log(q) + 2 * lam / scale))


RIGHT = {
    items.check_upset: [
        lambda *, gap, scale: (1 + gap / (2 * scale)) / (2 * math.exp(gap / scale)),
        lambda *, gap, scale: voting.argmax_probabilities([0, gap], scale=scale)[0],
    ],
    items.check_loss: [np.log(0.5 / np.exp(-2)), 1.307],
    items.check_noise_scale: [lambda *, epsilon: 2 / epsilon, lambda epsilon: 2 * epsilon**-1],
    items.check_worse_votes: [np.array([[100, 0, 0], [99, 1, 0]]), [[3, 60], [4, 59]]],
    items.check_release_label: [
        by_exponential_variables,
        lambda counts, *, epsilon, rng: mechanisms.exponential(counts, epsilon=epsilon, rng=rng),
    ],
    items.check_confident_label: [
        label(2, 4),
        lambda counts, *, threshold, epsilon, rng: (
            -1
            if mechanisms.laplace(float(max(counts)), scale=2 / epsilon, rng=rng) < threshold
            else voting.noisy_argmax(counts, scale=4 / epsilon, rng=rng)
        ),
    ],
    items.check_how_many: [np.int64(HOW_MANY), float(HOW_MANY)],
    items.check_moment: [moment_by_branches, moment_in_logs],
}

WRONG = {
    items.check_worse_votes: [
        (([1, 1], [0, 2]), "these votes lose 1.307"),
        (([5, 15], [5, 15]), "exactly one vote must move"),
        (([1.5, 19], [0.5, 20]), "whole numbers"),
    ],
    items.check_confident_label: [
        (label(1, 4), "the test spends all of epsilon"),
        (label(4, 4), "two counts that change"),
    ],
    items.check_moment: [(lambda *, q, lam, scale: these(q, lam, scale), "wherever it can be computed")],
}
