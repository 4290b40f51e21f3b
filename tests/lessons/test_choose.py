"""Answers to the exercises of chapter 09, right and wrong; `test_answers` tries them."""

import math

import numpy as np

from dpml.lessons.choose import checks as items
from dpml.mechanisms import gaussian_epsilon, gaussian_sigma


def by_search(*, queries, epsilon, delta):
    """The smallest noise whose epsilon is within the budget, by bisection on the exact formula."""
    low, high = 1e-3, 1e6
    for _ in range(100):
        middle = math.sqrt(low * high)
        spent = gaussian_epsilon(sigma=middle / math.sqrt(2 * queries), delta=delta)
        low, high = (middle, high) if spent > epsilon else (low, middle)
    return high


def by_counting(*, sigma, lead, z):
    k = 1
    while lead * k < z * math.hypot(sigma, sigma):
        k += 1
    return k


def in_a_loop(counts, *, epsilon, rng):
    """Laplace noise as a difference of exponentials, one question after another."""
    scale = 2 * len(counts) / epsilon
    labels = []
    for row in counts:
        noisy = [c + rng.exponential(scale) - rng.exponential(scale) for c in row]
        labels.append(noisy.index(max(noisy)))
    return labels


def of_scale(factor, axis=1):
    def answer(counts, *, epsilon, rng):
        noisy = counts + rng.laplace(scale=factor(len(counts)) / epsilon, size=counts.shape)
        return tuple(noisy.argmax(axis=axis).tolist())

    return answer


right = of_scale(lambda rows: 2 * rows)

RIGHT = {
    items.check_affordable: [206, (20 / gaussian_sigma(epsilon=3.0, delta=1e-5)) ** 2 // 1],
    items.check_replaced: [1.993, gaussian_epsilon(sigma=2.0, delta=1e-5)],
    items.check_label_noise: [
        lambda *, queries, epsilon, delta: np.sqrt(2) * gaussian_sigma(epsilon=epsilon, delta=delta) * queries**0.5,
        by_search,
    ],
    items.check_teachers_needed: [
        by_counting,
        lambda *, sigma, lead, z: int(np.ceil(z * sigma * np.sqrt(2.0) / lead)),
    ],
    items.check_release_labels: [in_a_loop, right],
}

WRONG = {
    items.check_release_labels: [(of_scale(lambda rows: 60 * rows), "does not follow the law")],
}


def test_case_e_counts_the_noise():
    """20 teachers, 5,000 questions, epsilon = 1: the noise is more than ten times the number of votes."""
    assert math.sqrt(2 * 5000) * gaussian_sigma(epsilon=1.0, delta=1e-5) > 10 * 20
