"""Answers to the self-check of chapter 00, right and wrong; `test_answers` tries them."""

import math

import numpy as np
from scipy import stats

from dpml.lessons.start import checks as items

from .answers import told

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
    items.check_normalise: [
        (lambda rows: rows / rows.max(), "Every row of the result must have length one."),
        (lambda rows: rows / np.sqrt((rows**2).sum(axis=1)), "keepdims"),
        (lambda rows: rows / rows.sum(axis=1), "could not be broadcast"),
    ],
}


def test_keepdims_is_the_cure_for_lengths_that_do_not_broadcast_and_for_nothing_else():
    for answer, words in WRONG[items.check_normalise]:
        assert ("keepdims" in told(items.check_normalise, answer)) == (words == "keepdims")
