"""Each check of dpml.lessons.composition: right answers pass, known mistakes get their diagnosis."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from dpml import mechanisms
from dpml.accounting import composition
from dpml.lessons.composition import checks as items

from .answers import message, unwritten


def truth(epsilon: float) -> float:
    return math.exp(epsilon) / (1 + math.exp(epsilon))


# Item 1


@pytest.mark.parametrize(
    "right",
    [
        lambda *, epsilon: epsilon * (2 * truth(epsilon) - 1),
        lambda *, epsilon: epsilon * np.expm1(epsilon) / (np.exp(epsilon) + 1),
    ],
)
def test_mean_loss_accepts(right, capsys):
    items.check_mean_loss(right)
    assert capsys.readouterr().out.startswith("✓ mean_loss")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lambda *, epsilon: epsilon * (math.exp(epsilon) - 1), "the bound in the printed theorem"),
        (lambda *, epsilon: epsilon * epsilon / 2, "the approximation for small epsilon"),
        (lambda *, epsilon: 2 * truth(epsilon) - 1, "a step of +1 or -1"),
        (lambda *, epsilon: truth(epsilon) * epsilon, "A lie has a loss as well"),
        (lambda *, epsilon: 0.0, "under D the truth is likelier"),
        (lambda *, epsilon: epsilon, "the largest loss"),
        (lambda *, epsilon: epsilon * (1 - 2 * truth(epsilon)), "the mean under D'"),
        (lambda *, epsilon: 2 * epsilon, "Add up loss times probability"),
        (lambda *, epsilon: None, "is a return missing?"),
        (lambda e: e, "is called with"),
        (unwritten, "not written yet"),
        (0.005, "must be a function"),
    ],
)
def test_mean_loss_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_mean_loss, wrong)


# Item 2


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


@pytest.mark.parametrize("right", [by_search, by_formula])
def test_first_k_accepts(right, capsys):
    items.check_first_k(right)
    assert capsys.readouterr().out.startswith("✓ first_k")


def test_first_k_of_the_lecture():
    assert by_search(epsilon=0.1, delta_prime=1e-5) == 29
    assert by_search(epsilon=0.5, delta_prime=1e-5) == 187
    assert by_search(epsilon=0.7, delta_prime=1e-5) is None


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lambda *, epsilon, delta_prime: math.floor(2 * math.log(1 / delta_prime)) + 1, "The second one"),
        (
            lambda *, epsilon, delta_prime: (
                math.floor(2 * math.log(1 / delta_prime)) + 1 if epsilon < math.log(2) else None
            ),
            "The second one",
        ),
        (
            lambda *, epsilon, delta_prime: (
                math.floor(2 * math.log(1 / delta_prime) / (2 - math.exp(epsilon)) ** 2) + 1
            ),
            "squaring lost the sign",
        ),
        (
            lambda *, epsilon, delta_prime: (
                math.floor(2 * math.log(1 / delta_prime) / (2 - math.exp(epsilon)) ** 2)
                if epsilon < math.log(2)
                else None
            ),
            "strictly below",
        ),
        (
            lambda *, epsilon, delta_prime: math.ceil(
                2 * math.log(1 / delta_prime) / (1 - math.tanh(epsilon / 2)) ** 2
            ),
            "the form with tanh",
        ),
        (
            lambda *, epsilon, delta_prime: (
                math.ceil(math.log(1 / delta_prime) / (2 - math.exp(epsilon)) ** 2) if epsilon < 0.69 else None
            ),
            "a factor of two is lost",
        ),
        (
            lambda *, epsilon, delta_prime: by_formula(epsilon=epsilon, delta_prime=delta_prime) or math.inf,
            "None if the bound never helps",
        ),
        (
            lambda *, epsilon, delta_prime: 2 * math.log(1 / delta_prime) / (2 - math.exp(epsilon)) ** 2,
            "Return a whole number",
        ),
        (unwritten, "not written yet"),
        (29, "must be a function"),
    ],
)
def test_first_k_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_first_k, wrong)


# Item 3


@pytest.mark.parametrize(
    "right",
    [
        "If epsilon is at least ln 2, then exp(epsilon) - 1 is at least one, and the drift alone is k eps or more. The "
        "square root before it adds something positive, so the printed bound is larger.",
        "For such epsilon the second term k*eps*(e^eps - 1) is already as large as k*eps, since e^eps >= 2. The first "
        "term is above zero for any delta' < 1. Hence the sum exceeds basic composition.",
    ],
)
def test_why_accepts_and_prints_the_rubric(right, capsys):
    items.check_why(right)
    printed = capsys.readouterr().out
    assert printed.startswith("✓ why") and "which is basic composition" in printed


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        ("The bound is larger than k epsilon.", "Use at least 20"),
        (
            "The bound is a sum of two parts, and together these two are always larger than what basic composition "
            "gives for any number of releases, as one sees from the figure.",
            "which of the two terms decides",
        ),
        (
            "The second of its terms is too large there, larger than what adding up gives, and the other one can only "
            "make it worse, since it is never negative for any delta.",
            "what becomes of e^epsilon - 1",
        ),
        (
            "For epsilon at least ln 2 the drift is at least k epsilon, and that is what adding up gives, so there is "
            "nothing left to be gained at all.",
            "the sign of the other term",
        ),
        (True, "between triple quotes"),
        (..., "not written yet"),
    ],
)
def test_why_names_what_is_missing(wrong, diagnosis):
    assert diagnosis in message(items.check_why, wrong)


# Item 4


def in_a_loop(*, epsilon, k, total_epsilon):
    t, total = truth(epsilon), 0.0
    for x in range(k + 1):
        p = math.comb(k, x) * t**x * (1 - t) ** (k - x)
        p_prime = math.comb(k, x) * (1 - t) ** x * t ** (k - x)
        total += max(0.0, p - math.exp(total_epsilon) * p_prime)
    return total


def with_scipy(*, epsilon, k, total_epsilon):
    x = np.arange(k + 1)
    excess = -np.expm1(np.minimum(total_epsilon - (2 * x - k) * epsilon, 0))
    return float(binom.pmf(x, k, truth(epsilon)) @ excess)


def two_sums(*, epsilon, k, total_epsilon):
    """P(L > total) under D minus e^total times the same under D'."""
    x = np.arange(k + 1)
    above = (2 * x - k) * epsilon > total_epsilon + 1e-12
    p, p_prime = binom.pmf(x, k, truth(epsilon)), binom.pmf(x, k, 1 - truth(epsilon))
    return p[above].sum() - math.exp(total_epsilon) * p_prime[above].sum()


@pytest.mark.parametrize("right", [in_a_loop, with_scipy, two_sums])
def test_coin_delta_accepts(right, capsys):
    items.check_coin_delta(right)
    assert capsys.readouterr().out.startswith("✓ coin_delta")


def test_the_number_of_the_lecture():
    assert in_a_loop(epsilon=0.1, k=100, total_epsilon=1.0) == pytest.approx(0.125688, abs=1e-6)


def tail(*, epsilon, k, total_epsilon):
    return float(sum(binom.pmf(x, k, truth(epsilon)) for x in range(k + 1) if (2 * x - k) * epsilon > total_epsilon))


def averaged_under_neighbour(*, epsilon, k, total_epsilon):
    x = np.arange(k + 1)
    return binom.pmf(x, k, 1 - truth(epsilon)) @ np.maximum(1 - np.exp(total_epsilon - (2 * x - k) * epsilon), 0)


def lies_forgotten(*, epsilon, k, total_epsilon):
    x = np.arange(k + 1)
    return binom.pmf(x, k, truth(epsilon)) @ np.maximum(1 - np.exp(total_epsilon - x * epsilon), 0)


def factor_forgotten(*, epsilon, k, total_epsilon):
    x = np.arange(k + 1)
    above = (2 * x - k) * epsilon > total_epsilon
    return (binom.pmf(x, k, truth(epsilon)) - binom.pmf(x, k, 1 - truth(epsilon)))[above].sum()


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (tail, "it counts only the excess"),
        (averaged_under_neighbour, "Take those under D"),
        (lies_forgotten, "The k - x lies count as well"),
        (factor_forgotten, "must be multiplied by e^total"),
        (lambda *, epsilon, k, total_epsilon: 1 - math.exp(total_epsilon), "the term is zero"),
        (lambda *, epsilon, k, total_epsilon: truth(epsilon) ** k, "it is zero; at 0 it is the largest difference"),
        (lambda *, epsilon, k, total_epsilon: None, "is a return missing?"),
        (lambda epsilon, k: 0.1, "is called with"),
        (unwritten, "not written yet"),
        (0.125688, "must be a function"),
    ],
)
def test_coin_delta_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_coin_delta, wrong)


# Item 5

BEST = brentq(lambda e: in_a_loop(epsilon=0.1, k=100, total_epsilon=e) - 1e-5, 1.0, 9.0, xtol=1e-12)


@pytest.mark.parametrize(
    "right", [BEST, round(BEST, 4), composition.optimal(epsilon=0.1, delta=0.0, k=100, total_delta=1e-5).epsilon]
)
def test_epsilon_100_accepts(right):
    items.check_epsilon_100(right)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (5.85023509294, "the printed advanced composition theorem"),
        (5.29810966177, "with the exact mean"),
        (4.7985, "The drift is missing"),
        (10.0, "the answer for delta = 0"),
        (1.0, "the standard deviation of the total loss"),
        (4.8, "counts only the excess"),
        (3.7, "must return 1e-05"),
        (math.inf, "infinite"),
        ("4.3", "not a number"),
        (..., "not written yet"),
    ],
)
def test_epsilon_100_names_the_mistake(wrong, diagnosis):
    text = message(items.check_epsilon_100, wrong)
    assert diagnosis in text
    assert "4.30" not in text


# Item 6


def one_by_one(*, sigma, epsilon, delta):
    k = 0
    while mechanisms.gaussian_delta(sigma=sigma / math.sqrt(k + 1), epsilon=epsilon) <= delta:
        k += 1
    return k


def squared(*, sigma, epsilon, delta):
    return int(sigma**2 / mechanisms.gaussian_sigma(epsilon=epsilon, delta=delta) ** 2)


@pytest.mark.parametrize("right", [one_by_one, squared])
def test_how_many_accepts(right, capsys):
    items.check_how_many(right)
    assert capsys.readouterr().out.startswith("✓ how_many")


def needed(epsilon: float, delta: float) -> float:
    return mechanisms.gaussian_sigma(epsilon=epsilon, delta=delta)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lambda *, sigma, epsilon, delta: sigma // needed(epsilon, delta), "a square is lost"),
        (lambda *, sigma, epsilon, delta: (sigma / needed(epsilon, delta)) ** 2, "a number of releases is whole"),
        (lambda *, sigma, epsilon, delta: math.ceil((sigma / needed(epsilon, delta)) ** 2), "it is rounded up"),
        (
            lambda *, sigma, epsilon, delta: int(epsilon / mechanisms.gaussian_epsilon(sigma=sigma, delta=delta)),
            "the deltas would add up too",
        ),
        (
            lambda *, sigma, epsilon, delta: int((sigma * epsilon) ** 2 / (2 * math.log(1.25 / delta))),
            "It asks for more noise than needed",
        ),
        (lambda *, sigma, epsilon, delta: 7, "over the square root of k"),
        (unwritten, "not written yet"),
        (179, "must be a function"),
    ],
)
def test_how_many_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_how_many, wrong)


# Item 7


def repaired(bits, *, epsilon, k, rng):
    return np.mean([np.sum(bits) + rng.laplace(scale=k / epsilon) for _ in range(k)])


def one_noise(bits, *, epsilon, k, rng):
    return float(mechanisms.laplace(float(sum(bits)), scale=1 / epsilon, rng=rng))


@pytest.mark.parametrize("right", [repaired, one_noise])
def test_averaged_count_accepts(right, capsys):
    items.check_averaged_count(right)
    assert capsys.readouterr().out.startswith("✓ averaged_count")


def report(bits, *, epsilon, k, rng):
    return np.mean(np.sum(bits) + rng.laplace(scale=1 / epsilon, size=k))


def root_k(bits, *, epsilon, k, rng):
    return np.mean(np.sum(bits) + rng.laplace(scale=math.sqrt(k) / epsilon, size=k))


def divided(bits, *, epsilon, k, rng):
    return np.mean(np.sum(bits) + rng.laplace(scale=1 / (k * epsilon), size=k))


def no_noise(bits, *, epsilon, k, rng):
    return np.sum(bits)


def large_noise_once(bits, *, epsilon, k, rng):
    return np.sum(bits) + rng.laplace(scale=k / epsilon)


def squared_k(bits, *, epsilon, k, rng):
    return np.mean(np.sum(bits) + rng.laplace(scale=k * k / epsilon, size=k))


def own_noise(bits, *, epsilon, k, rng):
    return repaired(bits, epsilon=epsilon, k=k, rng=np.random.default_rng())


def all_answers(bits, *, epsilon, k, rng):
    return np.sum(bits) + rng.laplace(scale=k / epsilon, size=k)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (report, "the report's own mistake"),
        (root_k, "but not its shape"),
        (divided, "divided by k where it must be multiplied"),
        (no_noise, "no noise at all"),
        (large_noise_once, "drawn only once"),
        (squared_k, "k is used twice"),
        (own_noise, "uses its own randomness"),
        (all_answers, "averaged_count"),
        (lambda bits, *, epsilon, k, rng: None, "is a return missing?"),
        (lambda bits, rng: 1.0, "keep the parameter names"),
        (unwritten, "not written yet"),
        (1.0, "must be a function"),
    ],
)
def test_averaged_count_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_averaged_count, wrong)


# Item 8


def vectorised(counts, *, epsilon, delta, rng):
    return counts + rng.normal(0.0, math.sqrt(len(counts)) * needed(epsilon, delta), size=len(counts))


@functools.cache
def by_root_finding(epsilon: float, delta: float) -> float:
    return brentq(lambda s: mechanisms.gaussian_delta(sigma=s, epsilon=epsilon) / delta - 1, 0.1, 1e3)


def as_a_list(counts, *, epsilon, delta, rng):
    """Each count as one of k releases, with a sigma found from the exact delta of the whole."""
    sigma = by_root_finding(epsilon, delta) * len(counts) ** 0.5
    return [float(count) + sigma * rng.standard_normal() for count in counts]


@pytest.mark.parametrize("right", [vectorised, as_a_list])
def test_answer_all_accepts(right, capsys):
    items.check_answer_all(right)
    printed = capsys.readouterr().out
    assert printed.count("✓ answer_all") == 2


def noisy(size: Callable[[int, float, float], float]) -> Callable[..., Any]:
    """A mechanism with Gaussian noise of the size that is given by k, epsilon and delta."""

    def answer(counts, *, epsilon, delta, rng):
        k = len(counts)
        return counts + size(k, epsilon, delta) * rng.normal(size=k)

    return answer


def common_noise(counts, *, epsilon, delta, rng):
    return counts + rng.normal(scale=math.sqrt(len(counts)) * needed(epsilon, delta))


def small_common_noise(counts, *, epsilon, delta, rng):
    """Enough for the mean of the answers, nothing for their differences."""
    return counts + rng.normal(scale=needed(epsilon, delta))


def laplace_noise(counts, *, epsilon, delta, rng):
    scale = math.sqrt(len(counts) / 2) * needed(epsilon, delta)
    return counts + rng.laplace(scale=scale, size=len(counts))


def shifted(counts, *, epsilon, delta, rng):
    return np.abs(vectorised(counts, epsilon=epsilon, delta=delta, rng=rng))


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (noisy(lambda k, e, d: 0.0), "no noise at all"),
        (noisy(lambda k, e, d: needed(e)), "answer_all raised"),
        (noisy(lambda k, e, d: needed(e, d)), "not for all k"),
        (noisy(lambda k, e, d: needed(e / k, d / k)), "split by adding up"),
        (noisy(lambda k, e, d: needed(e / k, d)), "ε is divided by k"),
        (noisy(lambda k, e, d: k * needed(e, d)), "multiplied by k"),
        (noisy(lambda k, e, d: needed(e / math.sqrt(k), d)), "multiply σ itself"),
        (
            noisy(lambda k, e, d: math.sqrt(k) * mechanisms.gaussian_sigma_classic_formula(epsilon=e, delta=d)),
            "classic formula",
        ),
        (noisy(lambda k, e, d: math.sqrt(k) * needed(e, d / k)), "No split of δ is needed"),
        (noisy(lambda k, e, d: 0.9 * math.sqrt(k) * needed(e, d)), "0.9 times the size"),
        (noisy(lambda k, e, d: needed(e, d) / math.sqrt(k)), "where it must be multiplied"),
        (common_noise, "move together"),
        (small_common_noise, "move together"),
        (laplace_noise, "not Gaussian"),
        (shifted, "not centred"),
        (lambda counts, *, epsilon, delta, rng: float(np.sum(counts)), "must return 16 numbers"),
        (lambda counts, *, epsilon, delta, rng: None, "is a return missing?"),
        (
            lambda counts, *, epsilon, delta, rng: vectorised(
                counts, epsilon=epsilon, delta=delta, rng=np.random.default_rng()
            ),
            "uses its own randomness",
        ),
        (lambda counts, *, epsilon, rng: counts, "keep the parameter names"),
        (unwritten, "not written yet"),
        (np.zeros(16), "must be a function"),
    ],
)
def test_answer_all_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_answer_all, wrong)
