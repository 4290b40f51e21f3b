"""Answers to the exercises of chapter 08, right and wrong; `test_answers` tries them."""

import math

import numpy as np
import pytest

from dpml.lessons.sparse_vector import checks as items
from dpml.pate import sparse_vector
from dpml.pate.sparse_vector import privacy
from dpml.pate.sparse_vector.outcomes import above_threshold_probabilities


def tail(x, b):
    return 2 / 3 * math.exp(-x / (2 * b)) - math.exp(-x / b) / 6


def above(value, threshold, b1, b2):
    """P(value + Lap(b2) >= threshold + Lap(b1)) by a sum over a fine grid."""
    t = np.linspace(threshold - 60 * b1, threshold + 60 * b1, 400_001)
    density = np.exp(-np.abs(t - threshold) / b1) / (2 * b1)
    x = (t - value) / b2
    passes = np.where(x > 0, 0.5 * np.exp(-np.maximum(x, 0)), 1 - 0.5 * np.exp(np.minimum(x, 0)))
    return float(np.trapezoid(density * passes, t))


def needed(cutoff, *, epsilon, delta, queries, beta):
    noise = privacy.m_svec_noise(epsilon=epsilon, delta=delta, cutoff=cutoff)
    return privacy.enough_distance(**noise._asdict(), queries=queries, beta=beta)


def by_search(distance, **setting):
    return next(
        (q - 1 for q in range(1, setting["queries"] + 1) if needed(q, **setting) > distance), setting["queries"]
    )


def by_halving(distance, **setting):
    low, high = 0, setting["queries"]
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if needed(middle, **setting) <= distance else (low, middle - 1)
    return low


def right_moves(stream, other, t, nu):
    before = max((f + v for f, v in zip(stream[:-1], nu[:-1], strict=True)), default=0.0)
    after = max((f + v for f, v in zip(other[:-1], nu[:-1], strict=True)), default=0.0)
    return t + after - before, nu[-1] + after - before + stream[-1] - other[-1]


def careful_moves(stream, other, t, nu):
    """Only as far up as needed for any output: the threshold by +1 whenever another query exists."""
    up = float(len(stream) > 1)
    return [np.array([t + up]), nu[-1] + up + stream[-1] - other[-1]]


def follows_its_own_noise(stream, other, t, nu):
    k = len(stream)
    if k > 1 and max(other[:-1] + nu[:-1]) < t <= other[-1] + nu[-1]:
        return t, nu[-1]  # nothing needs to move here
    return right_moves(stream, other, t, nu)


def vectorised(stream, *, threshold, epsilon, rng):
    noisy = np.asarray(stream) + rng.laplace(scale=4 / epsilon, size=len(stream))
    found = np.flatnonzero(noisy >= threshold + rng.laplace(scale=2 / epsilon))
    return int(found[0]) if len(found) else None


def gaussian(stream, *, threshold, epsilon, rng):
    noisy = threshold + rng.normal(scale=2 / epsilon)
    return next((i for i, v in enumerate(stream) if v + rng.normal(scale=4 / epsilon) >= noisy), None)


RIGHT = {
    items.check_probability_above: [
        lambda *, value, threshold, epsilon: above(value, threshold, 2 / epsilon, 4 / epsilon),
        lambda *, value, threshold, epsilon: (
            tail(threshold - value, 2 / epsilon) if value < threshold else 1 - tail(value - threshold, 2 / epsilon)
        ),
    ],
    items.check_lam: [math.sqrt(32 * math.log(2e5)) / 0.1, np.float64(197.6)],
    items.check_affordable_failures: [by_search, by_halving],
    items.check_moved: [right_moves, careful_moves],
    items.check_first_above: [vectorised, lambda stream, **given: sparse_vector.above_threshold(stream, **given)],
    items.check_giveaway: [
        ([0.0, 1.0], [1.0, 0.0], [0, 1]),
        (np.array([5.0, 5.4, 5.4]), np.array([5.4, 5.4, 5.4]), [False, True, True]),
    ],
}

WRONG = {
    items.check_moved: [
        (lambda stream, other, t, nu: (t, nu[-1]), "of D' is"),
        (lambda stream, other, t, nu: (t, nu[-1] + stream[-1] - other[-1]), "above the moved threshold already"),
        (
            lambda stream, other, t, nu: (right_moves(stream, other, t, nu)[0], nu[-1] + stream[-1] - other[-1]),
            "below the moved threshold",
        ),
        (lambda stream, other, t, nu: (t + 5.0, nu[-1] + 9.0), "moves by 5"),
        (lambda stream, other, t, nu: (t + 1.0, nu[-1] + 3.0), "the last noise moves by 3"),
        (follows_its_own_noise, "depends on the noises that are moved"),
        (lambda stream, other, t, nu: right_moves(stream, other, t, nu)[::-1], "threshold comes first"),
        (lambda stream, other, t, nu: np.subtract(right_moves(stream, other, t, nu), (t, nu[-1])), "are the moves"),
        (lambda stream, other, t, nu: (t, nu), "the second one is an array"),
        (lambda stream, other, t, nu: dict.fromkeys(right_moves(stream, other, t, nu)), "type dict"),
        (lambda stream, other, t, nu: (t, math.nan), "the second one is nan"),
        (lambda stream, other, t, nu: (t, 0.0, 0.0), "returned 3 of them"),
        (lambda stream, other, t: (t, 0.0), "four arguments"),
    ],
    items.check_first_above: [
        (lambda stream, **given: vectorised(np.round(stream), **given), "does not follow the law"),
        (gaussian, "does not follow the law"),
    ],
    items.check_giveaway: [
        (([0.0, 2.0], [2.0, 0.0], [0, 1]), "changes by at most 1"),
        (([1.0, 0.0], [0.0, 1.0], [0, 1]), "impossible for the first dataset"),
        (([0.0, 1.0], [0.5, 0.8], [0, 1]), "both datasets can give it"),
        (([0.0], [1.0, 0.0], [0, 1]), "of the same length"),
        (([0.0, 1.0], [1.0, 0.0], [0.5, 1.5]), "1 for above and 0 for below"),
        (([0.0, None], [1.0, 0.0], [0, 1]), "the answers must be finite numbers"),
        (([0.0, 1.0], [1.0, 0.0]), "a tuple of three lists"),
    ],
}


def test_the_law_of_the_check_is_that_of_the_package():
    stream = np.array([-4.0, 5.0, 1.0, 12.0])
    mine = items._ends(stream, 3.0, 2 / 0.6, 4 / 0.6)
    theirs = above_threshold_probabilities(stream, threshold=3.0, epsilon=0.6)
    assert list(mine.values()) == pytest.approx(theirs.tolist(), rel=1e-9)
