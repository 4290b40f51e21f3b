"""Answers to the exercises of chapter 01, right and wrong; `test_answers` tries them."""

import fractions
import math
import re

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from dpml import mechanisms
from dpml.audit import samples
from dpml.lessons.promise import checks as items

from .answers import Several, told


def recover_in_a_loop(mean_all, mean_rest, *, n):
    total = np.zeros_like(np.asarray(mean_all, dtype=float))
    for _ in range(n):
        total = total + mean_all
    for _ in range(n - 1):
        total = total - mean_rest
    return total


def clipped_mean(values):
    return float(np.clip(values, 0, 1).mean())


def mean_by_two_exponentials(values, *, epsilon, rng):
    """The difference of two exponentials is Laplace; the release is cut to [0, 1] afterwards, which costs nothing."""
    noisy = clipped_mean(values) + (rng.exponential() - rng.exponential()) / (len(values) * epsilon)
    return min(max(noisy, 0.0), 1.0)


def mean_by_the_package(values, *, epsilon, rng):
    inside = np.where(values > 1, 1.0, np.where(values < 0, 0.0, values))
    return np.array([mechanisms.laplace(inside.sum(), scale=1 / epsilon, rng=rng) / len(values)])


def rounded(values, *, epsilon, rng):
    return round(mean_by_two_exponentials(values, epsilon=epsilon, rng=rng), 2)


def noise_on_the_values(values, *, epsilon, rng):
    return clipped_mean(values + rng.laplace(scale=2 / epsilon, size=len(values)))


def truth_of(epsilon):
    return 1 / (1 + math.exp(-epsilon))


def lies_by_exclusive_or(bits, *, epsilon, rng):
    return np.asarray(bits) ^ (rng.random(np.shape(bits)) > truth_of(epsilon))


def one_person_after_the_other(bits, *, epsilon, rng):
    keep, lie = math.exp(epsilon / 2), math.exp(-epsilon / 2)
    return [int(bit) if rng.uniform(0, keep + lie) < keep else 1 - int(bit) for bit in bits]


def told_with(truth):
    return lambda bits, *, epsilon, rng: np.where(rng.random(np.shape(bits)) < truth(epsilon), bits, 1 - bits)


def share_by_counts(answers, *, epsilon):
    ones, zeros = int(np.sum(answers)), int(np.size(answers) - np.sum(answers))
    keep, lie = math.exp(epsilon), 1.0
    return (keep * ones - lie * zeros) / ((keep - lie) * (ones + zeros))


def exact_delta(sigma, epsilon):
    return norm.cdf(0.5 / sigma - epsilon * sigma) - math.exp(epsilon) * norm.cdf(-0.5 / sigma - epsilon * sigma)


SIGMA = brentq(lambda s: exact_delta(s, 1.0) - 1e-5, 1.0, 10.0, xtol=1e-12)
CLASSIC = math.sqrt(2 * math.log(1.25 / 1e-5))
DELTA = exact_delta(CLASSIC / 10, 10.0)
COUNTS = {"true_positives": 640, "positives": 1000, "false_positives": 360, "negatives": 1000}
EVIDENCE = samples.epsilon_lower_bound(**COUNTS, delta=0.0, confidence=0.95)
PROVED = EVIDENCE.epsilon_at_least

ZEROS = [0.0] * 10
ONE = [*ZEROS[1:], 1.0]
LINE = np.linspace(0, 1, 10)


def pair(dataset, neighbour, threshold):
    return Several(dataset, {"neighbour": neighbour, "threshold": threshold})


RIGHT = {
    items.check_recover: [lambda mean_all, mean_rest, *, n: mean_rest + n * (mean_all - mean_rest), recover_in_a_loop],
    items.check_mean_sensitivity: [lambda *, n: n**-1, lambda *, n: fractions.Fraction(1, n)],
    items.check_mean_noise: [
        lambda *, n, epsilon: 1 / n / epsilon,
        lambda n, epsilon: np.float64(1.0) / (epsilon * n),
    ],
    items.check_private_mean: [mean_by_two_exponentials, mean_by_the_package],
    items.check_randomized_response: [lies_by_exclusive_or, one_person_after_the_other],
    items.check_estimate_share: [
        share_by_counts,
        lambda answers, *, epsilon: 0.5 + (np.mean(answers) - 0.5) / math.tanh(epsilon / 2),
    ],
    items.check_sigma: [SIGMA, round(SIGMA, 3)],
    items.check_delta_of_classic: [DELTA, round(DELTA, 8)],
    items.check_counterexample: [
        pair([0.5] * 10, [0.5] * 9 + [0.8], 0.75),
        pair(ZEROS, ONE, 1e300),
    ],
    items.check_proved: [EVIDENCE, math.floor(1000 * PROVED) / 1000],
    items.check_refuted: [False, np.False_],
}
WRONG = {
    items.check_private_mean: [
        (rounded, "of at most 2 decimals: they are rounded. Do not round."),
        (noise_on_the_values, "the noise is added before clipping"),
    ],
    items.check_randomized_response: [
        (lambda bits, *, epsilon, rng: bits + rng.laplace(size=bits.shape), "impossible")
    ],
    items.check_counterexample: [
        (pair(ZEROS, ZEROS, 0.5), "differ in 0 records"),
        (pair(ZEROS, ZEROS[1:], 0.5), "neighbour has 9 values, it needs ten."),
        (pair(ZEROS, [*ZEROS[1:], 2.0], 0.5), "in [0, 1]"),
        (pair([1.0] * 10, [1.0] * 9 + [0.0], 0.5), "the maximum is the same on both"),
        (pair(ZEROS, [*ZEROS[1:], 0.1], 0.05), "so small a move it does hide"),
        (pair(LINE, [*LINE[:9], 0.87], 0.9), "raise it. Above both maxima the factor is largest."),
        (pair(ZEROS, ONE, "0.5"), "threshold must be a number, got text."),
        (pair(ZEROS, 0.5, 0.5), "neighbour must be a list of ten numbers"),
        (pair(ZEROS, ..., 0.5), "neighbour is not written yet"),
    ],
}


@pytest.mark.parametrize("off", [-0.05, -0.02, 0.02, 0.03])
def test_randomized_response_names_no_mistake_that_was_not_made(off):
    text = told(items.check_randomized_response, told_with(lambda e: min(1.0, truth_of(e) + off)))
    assert text and "known mistake" not in text


@pytest.mark.parametrize("factor", [0.5001, 0.9, 0.9989, 1.0011, 1.1])
def test_the_delta_in_a_message_about_sigma_is_true(factor):
    text = told(items.check_sigma, factor * SIGMA)
    (said,) = re.findall(r"at ε = 1 is ([\d.e-]+), (?:more|less) than the 1e-05", text)
    assert float(said) == pytest.approx(exact_delta(factor * SIGMA, 1.0), rel=6e-3)
    assert (float(said) > 1e-5) == (factor < 1) and float(said) != 1e-5


SECRETS = [(items.check_sigma, SIGMA), (items.check_delta_of_classic, DELTA), (items.check_proved, PROVED)]


@pytest.mark.parametrize(("check", "secret"), SECRETS, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize("factor", [0.3, 0.97, 0.99, 1.01, 1.04, 2.0, 30.0, 1e6, -1.0])
def test_no_message_tells_the_value(check, secret, factor):
    text = told(check, secret * factor)
    numbers = map(float, re.findall(r"\d+\.?\d*(?:e-?\d+)?", text))
    assert text and all(abs(number - secret) > 5e-3 * secret for number in numbers)


def test_counterexample_shows_the_factor(capsys):
    items.check_counterexample(ZEROS, neighbour=ONE, threshold=0.5)
    low, high = math.exp(-5) / 2, 1 - math.exp(-5) / 2
    out = capsys.readouterr().out
    assert out.startswith("✓ counterexample: your answer refutes the claim: the release exceeds 0.5 with probability ")
    assert f"{low:.4g} on dataset and {high:.4g} on neighbour, a factor of {high / low:.3g}; e^ε = 2.72" in out
