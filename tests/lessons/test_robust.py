"""Answers to the exercises of chapter 11, right and wrong; `test_answers` tries them."""

import math

import numpy as np

from dpml import data
from dpml.lessons.robust import checks as items
from dpml.ptr import broken_trimmed_sum, privacy, trimmed_sum


def by_formula(norms, *, tau, bound, scale, delta0):
    return int(np.sum(norms > tau * bound)) + math.ceil(scale * math.log(1 / (2 * delta0)))


def by_search(norms, *, tau, bound, scale, delta0):
    trim = 0
    while max(0, trim - sum(norm > tau * bound for norm in norms)) < -scale * math.log(2 * delta0):
        trim += 1
    return trim


def clip(norms, bound):
    return bound / np.maximum(norms, bound)


def sorting(norms, *, ids, trim, bound, passed):
    weights = clip(norms, bound)
    if passed:
        weights[np.lexsort((ids, norms))[max(0, len(norms) - trim) :]] = 0.0
    return weights


def counting(norms, *, ids, trim, bound, passed):
    places = [sum((norms[j], ids[j]) > (norms[i], ids[i]) for j in range(len(norms))) for i in range(len(norms))]
    kept = np.array([not passed or place >= trim for place in places], dtype=float)
    return np.minimum(1.0, bound / norms) * kept


def weighted(vectors, *, ids, trim, bound, sigma, rng):
    norms = np.linalg.norm(vectors, axis=1)
    total = sorting(norms, ids=ids, trim=trim, bound=bound, passed=True) @ vectors
    return total + rng.normal(scale=sigma * bound, size=len(total))


def total_of(total):
    def noisy_total(vectors, *, ids, trim, bound, sigma, rng):
        return total(vectors, ids=ids, trim=trim, bound=bound) + sigma * bound * rng.standard_normal(vectors.shape[1])

    return noisy_total


def settles(trim, *, passed, change, most):
    return max(0, min(most, trim - change if passed else trim + change))


MATCHED = privacy.matching_gaussian_sigma(sigma=2.0, tau=0.6, scale=1.0, delta0=1e-8, q=0.01, steps=500, delta=1e-5)

TRUE = data.fashion_mnist_subset().train_labels


def relabelled(*pairs):
    labels = TRUE.copy()
    for before, after in pairs:
        labels[before == TRUE] = after
    return labels


RIGHT = {
    items.check_least_trim: [by_formula, by_search],
    items.check_step_weights: [sorting, counting],
    items.check_noisy_total: [weighted, total_of(trimmed_sum.clipped_trimmed_sum)],
    items.check_next_trim: [
        settles,
        lambda trim, *, passed, change, most: int(np.clip(trim + (1 - 2 * passed) * change, 0, most)),
    ],
    items.check_matched: [MATCHED, np.float64(1.001 * MATCHED)],
    items.check_setting: [{"clip_norm": 30.0, "trim": 100}, {"clip_norm": 25, "trim": np.int64(128)}],
    items.check_attack: [relabelled((0, 6), (1, 3)), relabelled((0, 2), (7, 9)).astype(np.int64)],
}

WRONG = {
    items.check_noisy_total: [
        (total_of(lambda v, *, ids, **k: broken_trimmed_sum.by_clipped_norms(v, **k)), "before clipping"),
        (total_of(lambda v, *, ids, **k: trimmed_sum.clipped_trimmed_sum(v, **k)), "one record moved the sum by"),
    ],
    items.check_setting: [
        ({"clip_norm": 1.0, "trim": 64}, "raise it, or F to 128"),
        ({"clip_norm": 30.0, "trim": 10}, "compare with 17.7"),
        ({"clip_norm": 500.0, "trim": 64}, "drowns the gradients"),
        ({"clip_norm": 30.0, "trim": 256}, "at least half of the expected batch"),
        ({"clip_norm": float("nan"), "trim": 64}, "above 0"),
        ({"clip_norm": "30", "trim": 64}, "must be a number"),
        ({"R": 30.0, "F": 64}, "with the keys"),
    ],
    items.check_attack: [
        (np.where(np.arange(10_000) % 5 == 0, 0, TRUE), "Concentrate the changes"),
        (relabelled((0, 6), (1, 3), (7, 9)), "more than 2,000"),
        (TRUE[:100], "give 10,000 whole numbers"),
        (np.full(10_000, 12), "from 0 to 9"),
    ],
}
