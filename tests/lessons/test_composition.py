"""Answers to the exercises of chapter 02, right and wrong; `test_answers` tries them."""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from dpml import mechanisms
from dpml.accounting import composition
from dpml.lessons.composition import checks as items

from .answers import told


def truth(epsilon: float) -> float:
    return math.exp(epsilon) / (1 + math.exp(epsilon))


def by_search(*, epsilon, delta_prime):
    if math.exp(epsilon) >= 2:
        return None
    for k in itertools.count(1):
        spread = epsilon * math.sqrt(2 * k * math.log(1 / delta_prime))
        if spread + k * epsilon * (math.exp(epsilon) - 1) < k * epsilon:
            return k
    raise AssertionError("the search has no end")


def by_formula(*, epsilon, delta_prime):
    gain = 2 - np.exp(epsilon)
    return int(np.floor(2 * np.log(1 / delta_prime) / gain**2)) + 1 if gain > 0 else None


def in_a_loop(*, epsilon, k, total_epsilon):
    t, total = truth(epsilon), 0.0
    for x in range(k + 1):
        p = math.comb(k, x) * t**x * (1 - t) ** (k - x)
        p_prime = math.comb(k, x) * (1 - t) ** x * t ** (k - x)
        total += max(0.0, p - math.exp(total_epsilon) * p_prime)
    return total


def two_sums(*, epsilon, k, total_epsilon):
    """P(L > total) under D minus e^total times the same under D'."""
    x = np.arange(k + 1)
    above = (2 * x - k) * epsilon > total_epsilon + 1e-12
    p, p_prime = binom.pmf(x, k, truth(epsilon)), binom.pmf(x, k, 1 - truth(epsilon))
    return p[above].sum() - math.exp(total_epsilon) * p_prime[above].sum()


BEST = brentq(lambda e: in_a_loop(epsilon=0.1, k=100, total_epsilon=e) - 1e-5, 1.0, 9.0, xtol=1e-12)


def one_by_one(*, sigma, epsilon, delta):
    k = 0
    while mechanisms.gaussian_delta(sigma=sigma / math.sqrt(k + 1), epsilon=epsilon) <= delta:
        k += 1
    return k


def squared(*, sigma, epsilon, delta):
    return int(sigma**2 / mechanisms.gaussian_sigma(epsilon=epsilon, delta=delta) ** 2)


def repaired(bits, *, epsilon, k, rng):
    return np.mean([np.sum(bits) + rng.laplace(scale=k / epsilon) for _ in range(k)])


def one_noise(bits, *, epsilon, k, rng):
    return float(mechanisms.laplace(float(sum(bits)), scale=1 / epsilon, rng=rng))


def gaussian(factor):
    return lambda bits, *, epsilon, k, rng: np.sum(bits) + rng.normal(scale=factor / epsilon)


needed = functools.cache(lambda epsilon, delta: mechanisms.gaussian_sigma(epsilon=epsilon, delta=delta))


@functools.cache
def by_root_finding(epsilon: float, delta: float) -> float:
    return brentq(lambda s: mechanisms.gaussian_delta(sigma=s, epsilon=epsilon) / delta - 1, 0.1, 1e3)


def as_a_list(counts, *, epsilon, delta, rng):
    """Each count as one of k releases, with a sigma found from the exact delta of the whole."""
    sigma = by_root_finding(epsilon, delta) * len(counts) ** 0.5
    return [float(count) + sigma * rng.standard_normal() for count in counts]


def vectorised(counts, *, epsilon, delta, rng):
    return counts + rng.normal(0.0, math.sqrt(len(counts)) * needed(epsilon, delta), size=len(counts))


def common_noise(counts, *, epsilon, delta, rng):
    return counts + rng.normal(scale=math.sqrt(len(counts)) * needed(epsilon, delta))


def folded(counts, *, epsilon, delta, rng):
    return np.abs(vectorised(counts, epsilon=epsilon, delta=delta, rng=rng))


RIGHT = {
    items.check_mean_loss: [
        lambda *, epsilon: epsilon * (2 * truth(epsilon) - 1),
        lambda *, epsilon: epsilon * np.expm1(epsilon) / (np.exp(epsilon) + 1),
    ],
    items.check_first_k: [by_search, by_formula],
    items.check_coin_delta: [in_a_loop, two_sums],
    items.check_epsilon_100: [
        round(BEST, 4),
        composition.optimal(epsilon=0.1, delta=0.0, k=100, total_delta=1e-5).epsilon,
    ],
    items.check_how_many: [one_by_one, squared],
    items.check_averaged_count: [repaired, one_noise],
    items.check_answer_all: [vectorised, as_a_list],
}
WRONG = {
    items.check_first_k: [(lambda **case: by_formula(**case) or math.inf, "None if the bound never helps")],
    items.check_averaged_count: [(gaussian(1.5 * math.sqrt(2)), "this is Gaussian noise")],
    items.check_answer_all: [
        (common_noise, "of its own for each, not one for all"),
        (folded, "does not follow the law asked for"),
    ],
}


@pytest.mark.parametrize("wrong", [3.7, 4.3, 4.8, 5.85023509294])
def test_no_message_tells_the_best_total(wrong):
    text = told(items.check_epsilon_100, wrong)
    assert text and "4.30" not in text
