"""Each check of dpml.lessons.promise: right answers written two ways pass, known mistakes get their diagnosis."""

from __future__ import annotations

import fractions
import math
import re
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from dpml import mechanisms
from dpml.audit import samples
from dpml.lessons.promise import checks as items

from .answers import message


def untouched(*args, **kwargs):
    raise NotImplementedError("write your answer here")


# Item 1


def recover_in_a_loop(mean_all, mean_rest, *, n):
    total = np.zeros_like(np.asarray(mean_all, dtype=float))
    for _ in range(n):
        total = total + mean_all
    for _ in range(n - 1):
        total = total - mean_rest
    return total


@pytest.mark.parametrize(
    "right", [lambda mean_all, mean_rest, *, n: mean_rest + n * (mean_all - mean_rest), recover_in_a_loop]
)
def test_recover_accepts(right, capsys):
    items.check_recover(right)
    assert capsys.readouterr().out.startswith("✓ recover")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lambda mean_all, mean_rest, *, n: mean_all - mean_rest, "plain difference"),
        (lambda mean_all, mean_rest, *, n: n * mean_all - n * mean_rest, "different numbers of people"),
        (lambda mean_all, mean_rest, *, n: (n - 1) * mean_all - (n - 1) * mean_rest, "different numbers of people"),
        (lambda mean_all, mean_rest, *, n: (n - 1) * mean_rest - n * mean_all, "order of the subtraction is reversed"),
        (lambda mean_all, mean_rest, *, n: (n - 1) * mean_all - n * mean_rest, "counts are exchanged"),
        (lambda mean_all, mean_rest, *, n: (n + 1) * mean_all - n * mean_rest, "the one who withdrew included"),
        (lambda mean_all, mean_rest, *, n: n * mean_all - n - 1 * mean_rest, "parentheses are missing"),
        (lambda mean_all, mean_rest, *, n: np.round(n * mean_all - (n - 1) * mean_rest), "the result is rounded"),
        (lambda mean_all, mean_rest, *, n: np.rint(n * mean_all - (n - 1) * mean_rest, dtype=float), "is rounded"),
        (lambda mean_all, mean_rest, *, n: 3 * mean_all - 2 * mean_rest, "Put the returned person back"),
        (lambda mean_all, mean_rest, *, n: np.sum(n * mean_all - (n - 1) * mean_rest), "expected is an array of shape"),
        (lambda mean_all, mean_rest, *, n: None, "is a return missing?"),
        (lambda mean_all, mean_rest: mean_all, "called with mean_all, mean_rest, n: keep the parameter names"),
        (lambda a, b, *, n: n * a - (n - 1) * b, "called with mean_all, mean_rest, n: keep the parameter names"),
        (untouched, "recover is not written yet. Write your answer in the cell of the question"),
    ],
)
def test_recover_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_recover, wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda mean_all, mean_rest, *, n: None,
        lambda a, b, *, n: n * a - (n - 1) * b,
        lambda mean_all, mean_rest, *, n: mean_all / 0,
    ],
)
def test_recover_gives_no_hint_where_it_explains_nothing(wrong):
    assert "Put the returned person back" not in message(items.check_recover, wrong)


# Item 2


@pytest.mark.parametrize("right", [lambda *, n: 1 / n, lambda *, n: fractions.Fraction(1, n)])
def test_mean_sensitivity_accepts(right):
    items.check_mean_sensitivity(right)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lambda *, n: 1, "sensitivity of the sum"),
        (lambda *, n: 2 / n, "counts the replaced record twice"),
        (lambda *, n: 1 / (n - 1), "the mean is over n records before and after"),
        (lambda *, n: 0.5 / n, "largest move between any two values"),
        (lambda *, n: n, "moves less when one of them changes"),
        (lambda *, n: 1 / n**2, "largest move of the mean over all pairs of neighbours"),
    ],
)
def test_mean_sensitivity_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_mean_sensitivity, wrong)


@pytest.mark.parametrize(
    "right", [lambda *, n, epsilon: 1 / n / epsilon, lambda n, epsilon: np.float64(1.0) / (epsilon * n)]
)
def test_mean_noise_accepts(right):
    items.check_mean_noise(right)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lambda *, n, epsilon: 1 / epsilon, "noise for the sum"),
        (lambda *, n, epsilon: n / epsilon, "one person moves a mean of more people less"),
        (lambda *, n, epsilon: epsilon / n, "a smaller ε is a stronger promise"),
        (lambda *, n, epsilon: 2 / (n * epsilon), "twice the scale that is needed"),
        (lambda *, n, epsilon: 1 / n, "where does ε come in?"),
        (lambda *, n, epsilon: 1 / ((n - 1) * epsilon), "nobody leaves"),
        (lambda *, n, epsilon: 2**0.5 / n / epsilon, "standard deviation of the noise"),
        (lambda *, n, epsilon: 1 / (n * epsilon) ** 2, "the factor e^ε, and somewhere must"),
    ],
)
def test_mean_noise_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_mean_noise, wrong)


def test_mean_noise_on_top_of_an_unwritten_sensitivity():
    mean_sensitivity = untouched
    text = message(items.check_mean_noise, lambda *, n, epsilon: mean_sensitivity(n=n) / epsilon)
    assert text == ("mean_noise calls untouched, which is not written yet. Write untouched first and run its cell.")
    assert message(items.check_mean_noise, untouched).startswith("mean_noise is not written yet")


# Item 3


def mean_by_two_exponentials(values, *, epsilon, rng):
    """The difference of two exponentials is Laplace; the release is cut to [0, 1] afterwards, which costs nothing."""
    n = len(values)
    mean = sum(min(max(float(v), 0.0), 1.0) for v in values) / n
    noisy = mean + (rng.exponential() - rng.exponential()) / (n * epsilon)
    return min(max(noisy, 0.0), 1.0)


def mean_by_the_package(values, *, epsilon, rng):
    inside = np.where(values > 1, 1.0, np.where(values < 0, 0.0, values))
    return mechanisms.laplace(inside.sum(), scale=1 / epsilon, rng=rng) / len(values)


def mean_as_an_array(values, *, epsilon, rng):
    return np.clip(values, 0, 1).mean() + rng.laplace(scale=1 / (len(values) * epsilon), size=1)


@pytest.mark.parametrize("right", [mean_by_two_exponentials, mean_by_the_package, mean_as_an_array])
def test_private_mean_accepts(right):
    items.check_private_mean(right)


def clipped_mean(values):
    return float(np.clip(values, 0, 1).mean())


def with_scale(scale):
    return lambda values, *, epsilon, rng: clipped_mean(values) + rng.laplace(scale=scale(len(values), epsilon))


def own_randomness(values, *, epsilon, rng):
    return clipped_mean(values) + np.random.default_rng().laplace(scale=1 / (len(values) * epsilon))


def own_seed(values, *, epsilon, rng):
    return clipped_mean(values) + np.random.default_rng(0).laplace(scale=1 / (len(values) * epsilon))


def clips_in_place(values, *, epsilon, rng):
    values[values > 1] = 1.0
    values[values < 0] = 0.0
    return values.mean() + rng.laplace(scale=1 / (len(values) * epsilon))


def no_clipping(values, *, epsilon, rng):
    return values.mean() + rng.laplace(scale=1 / (len(values) * epsilon))


def clips_the_mean(values, *, epsilon, rng):
    return np.clip(values.mean(), 0, 1) + rng.laplace(scale=1 / (len(values) * epsilon))


def clips_the_release(values, *, epsilon, rng):
    return np.clip(no_clipping(values, epsilon=epsilon, rng=rng), 0, 1)


def noise_from_the_range(values, *, epsilon, rng):
    inside = np.clip(values, 0, 1)
    return inside.mean() + rng.laplace(scale=(inside.max() - inside.min()) / (len(values) * epsilon))


def gaussian_noise(values, *, epsilon, rng):
    return clipped_mean(values) + rng.normal(scale=1 / (len(values) * epsilon))


def uniform_noise(values, *, epsilon, rng):
    width = 1 / (len(values) * epsilon)
    return clipped_mean(values) + rng.uniform(-2 * width, 2 * width)


def release_of(mean):
    return lambda values, *, epsilon, rng: mean(values) + rng.laplace(scale=1 / (len(values) * epsilon))


def rounded(digits):
    right = release_of(clipped_mean)
    return lambda values, *, epsilon, rng: round(right(values, epsilon=epsilon, rng=rng), digits)


PRIVATE_MEAN_MISTAKES = [
    (lambda values, *, epsilon, rng: clipped_mean(values), "no noise"),
    (lambda values, *, epsilon, rng: 0.5, "adds no noise"),
    (own_seed, "the same noise every time"),
    (own_randomness, "uses its own randomness"),
    (clips_in_place, "changes the dataset"),
    (no_clipping, "the values are not clipped"),
    (release_of(lambda values: np.minimum(values, 1).mean()), "on one side only: those below 0 stay"),
    (release_of(lambda values: values.clip(min=0).mean()), "on one side only: those above 1 stay"),
    (clips_the_mean, "clipping comes after averaging"),
    (clips_the_release, "only the release is clipped"),
    (with_scale(lambda n, epsilon: 0.5 / (n * epsilon)), "half of what is needed"),
    (with_scale(lambda n, epsilon: epsilon / n), "a smaller ε needs more noise"),
    (with_scale(lambda n, epsilon: 1 / n), "ε has no say"),
    (with_scale(lambda n, epsilon: 1 / epsilon), "n times too much for the mean"),
    (with_scale(lambda n, epsilon: 2 / (n * epsilon)), "twice what is needed"),
    (noise_from_the_range, "computed from the records"),
    (gaussian_noise, "this is Gaussian noise"),
    (with_scale(lambda n, epsilon: 0.85 / (n * epsilon)), "times the noise that is needed"),
    (with_scale(lambda n, epsilon: 1 / (n * 0.6)), "times the noise that is needed"),
    (uniform_noise, "bounded, as uniform noise is"),
    (
        lambda values, *, epsilon, rng: clipped_mean(values) + rng.laplace(1 / (len(values) * epsilon)),
        "the location of the noise, not its size: pass `scale=`",
    ),
    (
        lambda values, *, epsilon, rng: clipped_mean(values) + rng.exponential(1 / (len(values) * epsilon)),
        "this noise only goes up",
    ),
    (rounded(0), "loses the answer: do not round"),
    (rounded(1), "so they are rounded. Do not round"),
    (rounded(2), "so they are rounded. Do not round"),
    (lambda values, *, epsilon, rng: clipped_mean(values) * len(values) + rng.laplace(), "is not private enough"),
    (lambda values, *, epsilon, rng: 0.5 + rng.laplace(scale=1 / (len(values) * epsilon)), "their middle at 0.5"),
    (lambda values, *, epsilon, rng: print(clipped_mean(values)), "is a return missing?"),
    (lambda values, *, epsilon, rng: np.nan, "nan"),
    (lambda values, epsilon: 0.5, "called with values, and with epsilon and rng by name: keep the parameter names"),
    (lambda values, *, eps, rng: 0.5, "keep the parameter names"),
    (lambda values, *, epsilon, rng: values.meen(), "raised AttributeError"),
    (lambda values, *, epsilon, rng: untouched(values), "private_mean calls untouched, which is not written yet"),
    (untouched, "private_mean is not written yet"),
]


@pytest.mark.parametrize(("wrong", "diagnosis"), PRIVATE_MEAN_MISTAKES)
def test_private_mean_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_private_mean, wrong)


# Item 4


def truth_of(epsilon):
    return 1 / (1 + math.exp(-epsilon))


def lies_by_exclusive_or(bits, *, epsilon, rng):
    return np.asarray(bits) ^ (rng.random(np.shape(bits)) > truth_of(epsilon))


def one_person_after_the_other(bits, *, epsilon, rng):
    keep, lie = math.exp(epsilon / 2), math.exp(-epsilon / 2)
    return [int(bit) if rng.uniform(0, keep + lie) < keep else 1 - int(bit) for bit in bits]


@pytest.mark.parametrize("right", [lies_by_exclusive_or, one_person_after_the_other])
def test_randomized_response_accepts(right):
    items.check_randomized_response(right)


def told_with(truth):
    return lambda bits, *, epsilon, rng: np.where(rng.random(np.shape(bits)) < truth(epsilon), bits, 1 - bits)


def one_coin(bits, *, epsilon, rng):
    return bits if rng.random() < truth_of(epsilon) else 1 - bits


def response_with_own_randomness(bits, *, epsilon, rng):
    return np.where(np.random.default_rng().random(bits.shape) < truth_of(epsilon), bits, 1 - bits)


def rounds_laplace_noise(bits, *, epsilon, rng):
    return (bits + rng.laplace(scale=1 / epsilon, size=bits.shape) > 0.5).astype(int)


RESPONSE_MISTAKES = [
    (lambda bits, *, epsilon, rng: bits, "every answer is the truth"),
    (told_with(math.exp), "is p above 1?"),
    (lambda bits, *, epsilon, rng: 1 - bits, "every answer is a lie"),
    (one_coin, "one coin decides for all"),
    (rounds_laplace_noise, "this is what rounded Laplace noise gives: private, but it lies more than it has to."),
    (told_with(lambda e: 1 - math.exp(-e / 2) / 2), "this is what rounded Laplace noise gives"),
    (
        lambda bits, *, epsilon, rng: np.where(rng.random(bits.shape) < truth_of(epsilon / bits.size), bits, 1 - bits),
        "ε is divided by the number of people",
    ),
    (lambda bits, *, epsilon, rng: rng.random(bits.shape) < truth_of(epsilon), "do not depend on the bits"),
    (lambda bits, *, epsilon, rng: rng.random(bits.shape) < 0.9, "do not depend on the bits"),
    (lambda bits, *, epsilon, rng: np.ones_like(bits), "do not depend on the bits"),
    (lambda bits, *, epsilon, rng: bits * (rng.random(bits.shape) < truth_of(epsilon)), "only the ones ever lie"),
    (lambda bits, *, epsilon, rng: bits | (rng.random(bits.shape) > truth_of(epsilon)), "only the zeros ever lie"),
    (told_with(lambda e: 1 - math.exp(-e)), "the truth has probability 1 - e^(-ε)"),
    (told_with(lambda e: math.exp(e) / (2 + math.exp(e))), "as if there were three answers"),
    (told_with(lambda e: (1 + truth_of(e)) / 2), "tosses a fair coin"),
    (told_with(lambda e: 1 - truth_of(e)), "lies with the probability"),
    (told_with(lambda e: truth_of(e / 2)), "right probability for ε/2"),
    (told_with(lambda e: truth_of(2 * e)), "right probability for 2ε"),
    (told_with(lambda e: 0.5), "equally likely"),
    (told_with(lambda e: min(1.0, truth_of(e) + 0.01)), "too often"),
    (told_with(lambda e: truth_of(e) - 0.02), "A larger probability is allowed"),
    (response_with_own_randomness, "uses its own randomness"),
    (lambda bits, *, epsilon, rng: (rng.random(3) < 0.5).astype(int), "is private, but not useful"),
    (lambda bits, *, epsilon, rng: bits + rng.laplace(scale=1 / epsilon, size=bits.shape), "not one of the possible"),
    (lambda bits, *, epsilon, rng: None, "is a return missing?"),
    (lambda bits, *, eps, rng: bits, "called with bits, and with epsilon and rng by name: keep the parameter names"),
    (untouched, "randomized_response is not written yet"),
    (0.7, "must be a function"),
]


@pytest.mark.parametrize(("wrong", "diagnosis"), RESPONSE_MISTAKES)
def test_randomized_response_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_randomized_response, wrong)


@pytest.mark.parametrize("off", [-0.05, -0.02, 0.01, 0.03])
def test_randomized_response_names_no_mistake_that_was_not_made(off):
    text = message(items.check_randomized_response, told_with(lambda e: min(1.0, truth_of(e) + off)))
    assert "known mistake" not in text


# Item 5


def share_by_counts(answers, *, epsilon):
    ones, zeros = int(np.sum(answers)), int(np.size(answers) - np.sum(answers))
    keep, lie = math.exp(epsilon), 1.0
    return (keep * ones - lie * zeros) / ((keep - lie) * (ones + zeros))


@pytest.mark.parametrize(
    "right",
    [share_by_counts, lambda answers, *, epsilon: 0.5 + (np.mean(answers) - 0.5) / math.tanh(epsilon / 2)],
)
def test_estimate_share_accepts(right):
    items.check_estimate_share(right)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lambda answers, *, epsilon: np.mean(answers), "share of ones among the answers"),
        (lambda answers, *, epsilon: np.clip(share_by_counts(answers, epsilon=epsilon), 0, 1), "cut off at 0 or 1"),
        (lambda answers, *, epsilon: np.mean(answers) / (2 * truth_of(epsilon) - 1), "are not subtracted"),
        (lambda answers, *, epsilon: np.mean(answers) - 1 + truth_of(epsilon), "are not made up for"),
        (lambda answers, *, epsilon: np.mean(answers) / truth_of(epsilon), "if only the ones lied"),
        (
            lambda answers, *, epsilon: (np.mean(answers) - 1 + truth_of(epsilon)) / truth_of(epsilon),
            "distance between the expected answer of a 1 and that of a 0",
        ),
        (lambda answers, *, epsilon: 1 - share_by_counts(answers, epsilon=epsilon), "share of zeros"),
        (lambda answers, *, epsilon: 0.5, "linear in s"),
    ],
)
def test_estimate_share_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_estimate_share, wrong)


# Item 6


def exact_delta(sigma, epsilon):
    return norm.cdf(0.5 / sigma - epsilon * sigma) - math.exp(epsilon) * norm.cdf(-0.5 / sigma - epsilon * sigma)


SIGMA = brentq(lambda s: exact_delta(s, 1.0) - 1e-5, 1.0, 10.0, xtol=1e-12)
CLASSIC = math.sqrt(2 * math.log(1.25 / 1e-5))


@pytest.mark.parametrize(
    "right", [SIGMA, np.float64(mechanisms.gaussian_sigma(epsilon=1, delta=1e-5)), round(SIGMA, 3)]
)
def test_sigma_accepts(right):
    items.check_sigma(right)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (CLASSIC, "this is the classic formula"),
        (SIGMA**2, "this is the variance"),
        (2 * SIGMA, "this is for sensitivity 2"),
        (SIGMA / 2, "this is for sensitivity 1/2"),
        (1.0, "scale of Laplace noise"),
        (3.73, "right to three digits only; give at least four"),
        (0.9991 * SIGMA, "right to three digits only"),
        (1.0009 * SIGMA, "right to three digits only"),
        (0.99 * SIGMA, "more than the 1e-05 that is allowed"),
        (math.sqrt(2 * math.log(1 / 1e-5)), "less is enough"),
        (np.array(3.0), "more than the 1e-05 that is allowed"),
        (-SIGMA, "A standard deviation is positive"),
        ("large", "not a number"),
        (math.nan, "nan"),
    ],
)
def test_sigma_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_sigma, wrong)


@pytest.mark.parametrize("factor", [0.5001, 0.9, 0.9989, 1.0011, 1.1])
def test_the_delta_in_a_message_about_sigma_is_true(factor):
    text = message(items.check_sigma, factor * SIGMA)
    (said,) = re.findall(r"at ε = 1 is ([\d.e-]+), (?:more|less) than the 1e-05", text)
    assert float(said) == pytest.approx(exact_delta(factor * SIGMA, 1.0), rel=6e-3)
    assert (float(said) > 1e-5) == (factor < 1) and float(said) != 1e-5


DELTA = exact_delta(CLASSIC / 10, 10.0)


@pytest.mark.parametrize("right", [DELTA, mechanisms.gaussian_delta(sigma=CLASSIC / 10, epsilon=10), round(DELTA, 8)])
def test_delta_of_classic_accepts(right):
    items.check_delta_of_classic(right)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (1e-5, "the formula claims"),
        (CLASSIC / 10, "this is σ"),
        (norm.cdf(5 / CLASSIC - CLASSIC), "first term"),
        (exact_delta((CLASSIC / 10) ** 2, 10.0), "variance"),
        (exact_delta(CLASSIC / 10, 1.0), "right noise at ε = 1"),
        (exact_delta(CLASSIC, 1.0), "same question at ε = 1"),
        (exact_delta(CLASSIC / 20, 10.0), "sensitivity 2"),
        (0.0, "exact condition at the same ε"),
    ],
)
def test_delta_of_classic_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_delta_of_classic, wrong)


# Item 7

ZEROS = [0.0] * 10
LINE = np.linspace(0, 1, 10)


@pytest.mark.parametrize(
    ("dataset", "neighbour", "threshold"),
    [(ZEROS, [*ZEROS[1:], 1.0], 0.5), ((1, *ZEROS[1:]), np.zeros(10), 1.0), ([0.5] * 10, [0.5] * 9 + [0.8], 0.75)],
)
def test_counterexample_accepts(dataset, neighbour, threshold):
    items.check_counterexample(dataset, neighbour=neighbour, threshold=threshold)


def test_counterexample_shows_the_factor(capsys):
    items.check_counterexample(ZEROS, neighbour=[*ZEROS[1:], 1.0], threshold=0.5)
    low, high = math.exp(-5) / 2, 1 - math.exp(-5) / 2
    out = capsys.readouterr().out
    assert out.startswith("✓ counterexample: your answer refutes the claim: the release exceeds 0.5 with probability ")
    assert f"{low:.4g} on dataset and {high:.4g} on neighbour, a factor of {high / low:.3g}; e^ε = 2.72" in out


@pytest.mark.parametrize(
    ("dataset", "neighbour", "threshold", "diagnosis"),
    [
        (ZEROS, ZEROS, 0.5, "differ in 0 records"),
        (ZEROS, [*ZEROS[2:], 1.0, 1.0], 0.5, "differ in 2 records"),
        (ZEROS, ZEROS[1:], 0.5, "neighbour has 9 values, it needs ten."),
        ([], ZEROS, 0.5, "dataset has 0 values, it needs ten."),
        ([0.5], ZEROS, 0.5, "dataset has 1 value, it needs ten."),
        (np.zeros((2, 5)), ZEROS, 0.5, "dataset has 2 values, it needs ten."),
        (ZEROS, [[x] for x in ZEROS], 0.5, "shape (10,)"),
        (ZEROS, [*ZEROS[1:], 2.0], 0.5, "in [0, 1]"),
        ([1.0] * 10, [1.0] * 9 + [0.0], 0.5, "the maximum is the same on both"),
        (ZEROS, [*ZEROS[1:], 0.1], 0.05, "so small a move it does hide"),
        (ZEROS, [*ZEROS[1:], 1.0], -1.0, "raise it. Above both maxima the factor is largest."),
        (LINE, [*LINE[:9], 0.87], 0.9, "raise it. Above both maxima the factor is largest."),
        (ZEROS, [*ZEROS[1:], 1.0], "0.5", "threshold must be a number, got text."),
        (ZEROS, [*ZEROS[1:], 1.0], math.nan, "threshold must be a number, got nan."),
        (ZEROS, [*ZEROS[1:], 1.0], None, "threshold must be a number, got None."),
        (lambda: 1, None, None, "dataset must be a list of ten numbers, got a function."),
        ("0" * 10, ZEROS, 0.5, "dataset must be a list of ten numbers, got text"),
        (ZEROS, 0.5, 0.5, "neighbour must be a list of ten numbers"),
        (ZEROS, ["a"] * 10, 0.5, "neighbour must be an array of numbers"),
        (..., ..., ..., "counterexample is not written yet"),
        (ZEROS, ..., 0.5, "neighbour is not written yet"),
        (ZEROS, [*ZEROS[1:], 1.0], ..., "threshold is not written yet"),
        (..., ..., 0.5, "dataset is not written yet"),
    ],
)
def test_counterexample_names_the_mistake(dataset, neighbour, threshold, diagnosis):
    text = message(items.check_counterexample, dataset, neighbour=neighbour, threshold=threshold)
    assert diagnosis in text and "…" not in text and "ValueError" not in text


@pytest.mark.parametrize("threshold", [-80.0, -1e300, 80.0, 1e300])
def test_counterexample_survives_thresholds_far_out(threshold):
    neighbour = [*ZEROS[1:], 1.0]
    if threshold > 0:  # far above both maxima the ratio is e^10, its largest value
        items.check_counterexample(ZEROS, neighbour=neighbour, threshold=threshold)
    else:
        assert "does not refute" in message(items.check_counterexample, ZEROS, neighbour=neighbour, threshold=threshold)


# Item 8


@pytest.mark.parametrize(
    "right",
    [
        "g(M(x)) is in S iff M(x) is in the preimage of S under g, a fixed set that is the same for both neighbours. "
        "M is private for any set, so P(M(x) in it) <= e^eps P(M(x') in it), which is the claim.",
        "Let T be the outputs y with g(y) in S; T does not depend on the data. By definition the bound with factor "
        "exp(epsilon) holds for all sets of outputs, hence for T, and the event that M lands in T is the event that g "
        "lands in S.",
        "h(M(D)) is in S exactly when M(D) is in h^{-1}(S). Apply the definition of differential privacy to M and "
        "h^{-1}(S): P(M(D) in h^{-1}(S)) \\le e^\\epsilon P(M(D') in h^{-1}(S)), and this is the claim.",
        "Let T be the set of outputs which h sends into S, the same set for D and D'. The definition for T says that "
        "P(M(D) in T) is at most e^epsilon times P(M(D') in T), and P(h(M(D)) in S) is P(M(D) in T).",
        "Put T = {y: h(y) in S}; this set does not depend on the data. The chance that M lands in T changes by a "
        "factor of at most exp(epsilon) between D and D', and h lands in S just when M lands in T.",
        "The event that h(M(D)) lies in S is the event that M(D) lies in h^-1(S), because h is a function. M is "
        "private, so Pr[M(D) in h^-1(S)] ≤ e^ε Pr[M(D') in h^-1(S)], as was to be shown.",
        "The outputs for which h lands in S form a set T that is fixed before the data come. By privacy of M, T is at "
        "most e to the epsilon times as probable under D as under its neighbour, and so is S for h of M.",
        "The preimage of S under g is a set T. Since the ratio of the probabilities of the outputs of M under "
        "the two neighbours is bounded by the factor e^epsilon, the same is true for g of M.",
    ],
)
def test_post_processing_accepts(right, capsys):
    items.check_post_processing(right)
    assert "yours to compare" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        ("Because g does not see the data.", "words"),
        (
            "Post-processing can never hurt, since any function that is applied later only loses information, and so "
            "the factor e^epsilon stays the bound on what can be learned about each of the two neighbours.",
            "the set of outputs of M that h sends into S",
        ),
        (
            "The preimage of S under g is a set T of outputs, and g lands in S exactly when M lands in T, which "
            "has to do with M alone since g sees nothing of the data; M is private, therefore g of M is private too.",
            "the inequality between the two neighbours",
        ),
        (
            "The function h(M(D)) cannot know more than M(D), since it never looks at the data. So h(M(D)) is private "
            "with the same epsilon, and whoever sees it learns less than from M(D) itself.",
            "the set of outputs of M that h sends into S (its preimage) or the inequality",
        ),
        (None, "not written yet"),
        (3, "between triple quotes"),
    ],
)
def test_post_processing_names_what_is_missing(wrong, diagnosis):
    assert diagnosis in message(items.check_post_processing, wrong)


# Item 9

COUNTS = {"true_positives": 640, "positives": 1000, "false_positives": 360, "negatives": 1000}


def evidence(*, delta: float = 0.0, confidence: float = 0.95) -> Any:
    return samples.epsilon_lower_bound(**COUNTS, delta=delta, confidence=confidence)


@pytest.mark.parametrize("right", [evidence().epsilon_at_least, np.float32(evidence().epsilon_at_least), evidence()])
def test_proved_accepts(right):
    items.check_proved(right)


def test_proved_accepts_three_digits_rounded_or_cut_off():
    proved = evidence().epsilon_at_least
    for digits in (round(proved, 3), math.floor(1000 * proved) / 1000, round(proved, 4)):
        items.check_proved(digits)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (
            math.log(640 / 360),
            "half of the time such an estimate lies above what the attack truly achieves, so it proves nothing at 95 %",
        ),
        (round(evidence().epsilon_at_least, 2), "right to two digits only; give three"),
        (0.7 * evidence().epsilon_at_least, "is too small"),
        (
            math.log(
                samples.clopper_pearson(640, trials=1000, confidence=0.95)[1]
                / samples.clopper_pearson(360, trials=1000, confidence=0.95)[0]
            ),
            "A proof takes the cautious ends",
        ),
        (0.5, "the vendor's claim"),
        (evidence(confidence=0.99), "at 99 % confidence"),
        (evidence(confidence=0.9).epsilon_at_least, "at 90 % confidence"),
        (evidence(delta=0.01), "for δ = 0.01"),
        (0.0, "the counts prove nothing"),
        (0.2, "for these four counts"),
        (True, "truth value"),
    ],
)
def test_proved_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_proved, wrong)


@pytest.mark.parametrize("right", [False, np.False_])
def test_refuted_accepts(right):
    assert evidence().epsilon_at_least < 0.5 < math.log(640 / 360)  # the item turns on this
    items.check_refuted(right)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (True, "refuted only by a proof above it"),
        (np.True_, "refuted only by a proof above it"),
        ("no", "not among the possible answers"),
        (0, "not among the possible answers"),
        (None, "not among the possible answers"),
    ],
)
def test_refuted_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_refuted, wrong)


# All items

PROVED = evidence().epsilon_at_least
SECRETS = [(items.check_sigma, SIGMA), (items.check_delta_of_classic, DELTA), (items.check_proved, PROVED)]


@pytest.mark.parametrize(("check", "secret"), SECRETS, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize("factor", [0.3, 0.97, 0.99, 1.01, 1.04, 2.0, 30.0, 1e6, -1.0])
def test_no_message_tells_the_value(check, secret, factor):
    numbers = [float(text) for text in re.findall(r"\d+\.?\d*(?:e-?\d+)?", message(check, secret * factor))]
    assert all(abs(number - secret) > 5e-3 * secret for number in numbers)
