"""Answers to the self-check of chapter 00, right and wrong; `test_answers` tries them."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from dpml.lessons.start import checks as items

from .answers import message

RIGHT = {
    items.check_ratio: [math.exp(2), stats.laplace(0, 0.5).pdf(-0.5) / stats.laplace(1, 0.5).pdf(-0.5)],
    items.check_tail: [math.exp(-1.5) / 2, np.float64(stats.laplace(0, 2).sf(3))],
    items.check_width: [math.log(200), stats.laplace(0, 1).isf(0.05 / 10 / 2)],
    items.check_jensen_gap: [
        lambda values, probabilities: probabilities @ np.exp(values) - np.exp(probabilities @ values),
        lambda values, p: (np.average(np.exp(values), weights=p) - np.exp(np.average(values, weights=p))).item(),
    ],
    items.check_gradient: [
        -2 / (1 + math.e),
        (math.log1p(math.exp(-1.0002)) - math.log1p(math.exp(-0.9998))) / 0.0002,
    ],
    items.check_normalise: [
        lambda rows: rows / np.linalg.norm(rows, axis=1, keepdims=True),
        lambda rows: rows / np.sqrt((rows**2).sum(axis=1))[:, None],
    ],
    items.check_draws: ["a and c", " A and C "],
    items.check_influence: [0.5, 50 * (1 / 100)],
    items.check_meaning: ["it is between 0.8 and 2", "It is between 0.8 and 2"],
}
WRONG = {
    items.check_ratio: [
        (math.exp(2) + 0.1, "cancel"),
        (math.exp(4), "too large"),
        (7.39, "more digits"),
        ("e^2", "not a number"),
    ],
    items.check_tail: [
        (math.exp(-3) / 2, "from 3 to infinity"),
        (0.1116, "more digits"),
        (0.5, "too large"),
    ],
    items.check_width: [
        (5.3, "more digits"),
        (4.0, "ten times the probability of one noise"),
        (math.log(10), "too small"),
    ],
    items.check_jensen_gap: [
        (lambda values, probabilities: 0.0, "exp(E[X])"),
        (lambda v, p: np.exp(p * v).sum() - np.exp(p @ v), "the sum of p * g(x)"),
        (0.3, "must be a function"),
    ],
    items.check_gradient: [
        (-0.5, "from outside in"),
        (-0.54, "more digits"),
        (-2 * math.exp(-1), "too large in absolute value"),
    ],
    items.check_normalise: [
        (lambda rows: rows / rows.max(), "Every row of the result must have length one."),
        (lambda rows: rows / np.sqrt((rows**2).sum(axis=1)), "keepdims"),
        (lambda rows: rows / rows.sum(axis=1), "could not be broadcast"),
    ],
    items.check_draws: [
        (" A and B", "does not start again"),
        ("B and C", "second draw"),
        ("all three", "not among the possible answers"),
    ],
    items.check_influence: [
        (1.0, "the mean of the gradients"),
        (5000, "too large"),
        ("a half", "not a number"),
    ],
    items.check_meaning: [
        ("It is 2", "upper bound"),
        ("IT IS 0.8", "one attack"),
        ("between", "not among the possible answers"),
    ],
}


def test_keepdims_is_the_cure_for_lengths_that_do_not_broadcast_and_for_nothing_else():
    for answer, words in WRONG[items.check_normalise]:
        assert ("keepdims" in message(items.check_normalise, answer)) == (words == "keepdims")
