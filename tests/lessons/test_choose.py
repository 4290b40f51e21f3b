"""Each check of dpml.lessons.choose: right answers pass, known mistakes get their diagnosis."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpml.lessons.choose import checks as items
from dpml.mechanisms import gaussian_epsilon, gaussian_sigma, gaussian_sigma_classic_formula

from .answers import message, unwritten

# Item 1


def by_search(*, queries, epsilon, delta):
    """The smallest noise whose epsilon is within the budget, by bisection on the exact formula."""
    low, high = 1e-3, 1e6
    for _ in range(100):
        middle = math.sqrt(low * high)
        spent = gaussian_epsilon(sigma=middle / math.sqrt(2 * queries), delta=delta)
        low, high = (middle, high) if spent > epsilon else (low, middle)
    return high


@pytest.mark.parametrize(
    "right",
    [
        lambda *, queries, epsilon, delta: np.sqrt(2) * gaussian_sigma(epsilon=epsilon, delta=delta) * queries**0.5,
        by_search,
    ],
)
def test_label_noise_accepts(right, capsys):
    items.check_label_noise(right)
    assert capsys.readouterr().out.startswith("✓ label_noise")


@pytest.mark.parametrize(
    ("factor", "diagnosis"),
    [
        (lambda queries: math.sqrt(queries), "changes two counts"),
        (lambda queries: 2 * math.sqrt(queries), "goes by the L2 norm"),
        (lambda queries: math.sqrt(2), "for a single question"),
        (lambda queries: math.sqrt(2) * queries, "are one vector"),
        (lambda queries: 1.0, "a noise multiplier"),
        (lambda queries: queries**2, "one below the other"),
    ],
)
def test_label_noise_names_the_mistake(factor, diagnosis):
    def wrong(*, queries, epsilon, delta):
        return factor(queries) * gaussian_sigma(epsilon=epsilon, delta=delta)

    assert diagnosis in message(items.check_label_noise, wrong)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (
            lambda *, queries, epsilon, delta: (
                math.sqrt(2) * gaussian_sigma(epsilon=epsilon / queries, delta=delta / queries)
            ),
            "basic composition",
        ),
        (
            lambda *, queries, epsilon, delta: (
                math.sqrt(2 * queries) * gaussian_sigma_classic_formula(epsilon=epsilon, delta=delta)
            ),
            "the classic formula",
        ),
        (unwritten, "not written yet"),
        (3.0, "must be a function"),
    ],
)
def test_label_noise_names_other_mistakes(wrong, diagnosis):
    assert diagnosis in message(items.check_label_noise, wrong)


# Item 2


def by_counting(*, sigma, lead, z):
    k = 1
    while lead * k < z * math.hypot(sigma, sigma):
        k += 1
    return k


@pytest.mark.parametrize(
    "right", [by_counting, lambda *, sigma, lead, z: int(np.ceil(z * sigma * np.sqrt(2.0) / lead))]
)
def test_teachers_needed_accepts(right, capsys):
    items.check_teachers_needed(right)
    assert capsys.readouterr().out.startswith("✓ teachers_needed")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lambda *, sigma, lead, z: math.ceil(z * sigma / lead), "the difference of two noisy counts"),
        (lambda *, sigma, lead, z: math.ceil(2 * z * sigma / lead), "the variances add"),
        (lambda *, sigma, lead, z: math.floor(z * math.sqrt(2) * sigma / lead), "rounded down"),
        (lambda *, sigma, lead, z: z * math.sqrt(2) * sigma / lead, "round up"),
        (lambda *, sigma, lead, z: math.ceil(z * math.sqrt(2) * sigma * lead), "fewer teachers, not more"),
        (lambda *, sigma, lead, z: math.ceil(z * math.sqrt(2) * sigma), "the gap in votes"),
        (lambda *, sigma, lead, z: 7, "does not depend on K"),
        (unwritten, "not written yet"),
    ],
)
def test_teachers_needed_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_teachers_needed, wrong)


# Item 3


def in_a_loop(counts, *, epsilon, rng):
    """Laplace noise as a difference of exponentials, one question after another."""
    scale = 2 * len(counts) / epsilon
    labels = []
    for row in counts:
        noisy = [c + rng.exponential(scale) - rng.exponential(scale) for c in row]
        labels.append(noisy.index(max(noisy)))
    return labels


def at_once(counts, *, epsilon, rng):
    noisy = counts + rng.laplace(scale=2 * len(counts) / epsilon, size=counts.shape)
    return tuple(noisy.argmax(axis=1).tolist())


@pytest.mark.parametrize("right", [in_a_loop, at_once])
def test_release_labels_accepts(right, capsys):
    items.check_release_labels(right)
    assert capsys.readouterr().out.startswith("✓ release_labels")


def with_scale(factor):
    def mechanism(counts, *, epsilon, rng):
        noisy = counts + rng.laplace(scale=factor / epsilon, size=counts.shape)
        return tuple(noisy.argmax(axis=1).tolist())

    return mechanism


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lambda counts, *, epsilon, rng: tuple(counts.argmax(axis=1).tolist()), "without noise"),
        (with_scale(2.0), "each question spends all of epsilon"),
        (with_scale(1.0), "in one question"),
        (with_scale(3.0), "for one count that changes in each question"),
        (with_scale(60.0), "much more noise"),
        (lambda counts, *, epsilon, rng: tuple(rng.integers(2, size=3).tolist()), "without a look at the votes"),
        (
            lambda counts, *, epsilon, rng: at_once(counts, epsilon=epsilon, rng=np.random.default_rng()),
            "uses its own randomness",
        ),
        (
            lambda counts, *, epsilon, rng: at_once(counts, epsilon=epsilon, rng=np.random.default_rng(3)),
            "adds no noise, or the same noise every time",
        ),
        (unwritten, "release_labels"),
        (3.0, "must be a function"),
    ],
)
def test_release_labels_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_release_labels, wrong)


# Item 4

TOOL = {"a": True, "b": False, "c": False, "d": True, "e": False, "f": False, "g": True}


@pytest.mark.parametrize("right", [TOOL, {key: np.bool_(TOOL[key]) for key in "gfedcba"}])
def test_tool_accepts(right, capsys):
    items.check_tool(right)
    assert capsys.readouterr().out.startswith("✓ tool")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (TOOL | {"a": False}, "disjoint already"),
        (TOOL | {"b": True}, "nothing that the teachers could be asked about"),
        (TOOL | {"c": True}, "few possible answers"),
        (TOOL | {"d": False}, "no gradient to clip"),
        (TOOL | {"e": True}, "no label survives it"),
        (TOOL | {"f": True}, "would not agree"),
        (TOOL | {"g": False}, "cheap when nearly all"),
        ("adg", 'the keys "a" to "g"'),
        (..., "not written yet"),
    ],
)
def test_tool_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_tool, wrong)


def test_case_e_counts_the_noise():
    """20 teachers, 5,000 questions, epsilon = 1: the noise is more than ten times the number of votes."""
    assert math.sqrt(2 * 5000) * gaussian_sigma(epsilon=1.0, delta=1e-5) > 10 * 20


# Item 5


@pytest.mark.parametrize(
    "right",
    [
        "The 1.2 depends on the votes that were cast, hence on private records. DP must hold for all datasets and "
        "their neighbours, and the 3 of DP-SGD does; the other number is true for one dataset only.",
        "One number is computed from the private data and may itself leak, while the other one is a worst case over "
        "every pair of neighbouring datasets. They are answers to two different questions.",
    ],
)
def test_fair_accepts_and_prints_the_rubric(right, capsys):
    items.check_fair(right)
    printed = capsys.readouterr().out
    assert printed.startswith("✓ fair") and "The data-dependent number is a function of the private votes" in printed


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        ("They are different.", "Use at least 25"),
        (
            "The first number was computed from the votes of the teachers and the second one was not, and so the two "
            "of them are not the same kind of thing at all.",
            "for which datasets",
        ),
        (
            "Privacy is about the worst pair of neighbouring inputs and one of the two numbers is not about that, so "
            "the report should not set them side by side in one table.",
            "what the smaller number was computed from",
        ),
        (2.0, "between triple quotes"),
        (..., "not written yet"),
    ],
)
def test_fair_names_what_is_missing(wrong, diagnosis):
    assert diagnosis in message(items.check_fair, wrong)
