"""Each check of dpml.lessons.pate: right answers pass, known mistakes get their diagnosis."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from dpml import mechanisms
from dpml.lessons.pate import checks as items
from dpml.pate import student, voting

from .answers import message, unwritten

# Item 1


@pytest.mark.parametrize(
    "right",
    [
        lambda *, gap, scale: math.exp(-gap / scale) * (0.5 + gap / (4 * scale)),
        lambda *, gap, scale: voting.argmax_probabilities([0, gap], scale=scale)[0],
    ],
)
def test_upset_accepts(right, capsys):
    items.check_upset(right)
    assert capsys.readouterr().out.startswith("✓ upset")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lambda *, gap, scale: 0.5 * math.exp(-gap / scale), "only one of the two counts has noise"),
        (
            lambda *, gap, scale: 1 - math.exp(-gap / scale) * (0.5 + gap / (4 * scale)),
            "the probability that the leader wins",
        ),
        (
            lambda *, gap, scale: math.exp(-gap * scale) * (0.5 + gap * scale / 4),
            "the scale is inverted",
        ),
        (lambda *, gap, scale: (2 + gap / scale) / math.exp(gap / scale), "a factor of 4 is missing"),
        (lambda *, gap, scale: (1 + gap / scale / 2) / math.exp(gap / scale), "both tails"),
        (
            lambda *, gap, scale: 1 - (1 - math.exp(-gap / scale) * (0.5 + gap / (4 * scale))),
            "the digits are lost",
        ),
        (lambda *, gap, scale: 0.5, "falls with the gap"),
        (lambda *, gap, scale: None, "is a return missing?"),
        (unwritten, "not written yet"),
        (0.25, "must be a function"),
    ],
)
def test_upset_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_upset, wrong)


# Item 2


@pytest.mark.parametrize("right", [2 - math.log(2), np.log(0.5 / np.exp(-2)), 1.30685])
def test_loss_accepts(right):
    items.check_loss(right)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (1, "what the slide promises"),
        (2.0, "the bound of the theorem"),
        (math.log((1 - math.exp(-2)) / 0.5), "the loss of the other winner"),
        (math.log(0.5 / (math.exp(-1) * 0.75)), "a gap of one vote"),
        (0.5 / math.exp(-2), "The loss is its logarithm"),
        (math.log(2) - 2, "Divide the larger probability"),
        (0.9, "item 1 gives"),
        (..., "not written yet"),
        ("2 - ln 2", "not a number"),
    ],
)
def test_loss_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_loss, wrong)


# Item 3


@pytest.mark.parametrize("right", [lambda *, epsilon: 2 / epsilon, lambda epsilon: 2 * epsilon**-1])
def test_noise_scale_accepts(right):
    items.check_noise_scale(right)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lambda *, epsilon: 1 / epsilon, "the printed scale"),
        (lambda *, epsilon: epsilon / 2, "needs more noise, not less"),
        (lambda *, epsilon: epsilon, "needs more noise, not less"),
        (lambda *, epsilon: 2**0.5 / epsilon, "belongs to the L2 norm"),
        (lambda *, epsilon: 4 / epsilon, "twice the noise that is needed"),
        (lambda *, epsilon: 3 / epsilon, "in the L1 norm when one vote moves?"),
        (unwritten, "not written yet"),
    ],
)
def test_noise_scale_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_noise_scale, wrong)


# Item 4


@pytest.mark.parametrize(
    "right",
    [
        ([1, 19], [0, 20]),
        (np.array([100, 0, 0]), np.array([99, 1, 0])),
        [[3, 60], [4, 59]],
    ],
)
def test_worse_votes_accepts(right, capsys):
    items.check_worse_votes(right)
    assert "where 1 is promised" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (([1, 1], [0, 2]), "these votes lose 1.307"),
        (([10, 10], [9, 11]), "Is the vote close or clear?"),
        (([0, 20], [1, 20]), "adds a vote"),
        (([20, 0], [20, 1]), "adds a vote"),
        (([5, 15], [0, 20]), "moves more than one vote"),
        (([5, 15], [5, 15]), "exactly one vote must move"),
        (([1, 19], [0, 19, 1]), "not an input that the claim speaks of"),
        (([1.5, 19], [0.5, 20]), "whole numbers of votes"),
        (([2, -1], [1, 0]), "not an input that the claim speaks of"),
        (3, "not an input that the claim speaks of"),
        (..., "not written yet"),
    ],
)
def test_worse_votes_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_worse_votes, wrong)


# Item 5


def by_exponential_variables(counts, *, epsilon, rng):
    noise = rng.exponential(2 / epsilon, len(counts)) - rng.exponential(2 / epsilon, len(counts))
    return (np.asarray(counts) + noise).argmax()


@pytest.mark.parametrize(
    "right",
    [
        lambda counts, *, epsilon, rng: voting.noisy_argmax(counts, scale=2 / epsilon, rng=rng),
        by_exponential_variables,
        lambda counts, *, epsilon, rng: mechanisms.exponential(counts, epsilon=epsilon, rng=rng),
    ],
)
def test_release_label_accepts(right, capsys):
    """Two ways to draw the Laplace noise, and another mechanism that is as private and as useful."""
    items.check_release_label(right)
    assert capsys.readouterr().out.startswith("✓ release_label")


OWN = np.random.default_rng(1)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lambda counts, *, epsilon, rng: int(np.argmax(counts)), "released without noise"),
        (
            lambda counts, *, epsilon, rng: voting.noisy_argmax(counts, scale=1 / epsilon, rng=rng),
            "A vote that moves changes two counts",
        ),
        (
            lambda counts, *, epsilon, rng: voting.noisy_argmax(counts, scale=epsilon / 2, rng=rng),
            "the scale is epsilon over 2",
        ),
        (lambda counts, *, epsilon, rng: int(rng.integers(len(counts))), "not useful"),
        (
            lambda counts, *, epsilon, rng: voting.noisy_argmax(counts, scale=20 / epsilon, rng=rng),
            "not useful",
        ),
        (lambda counts, *, epsilon, rng: voting.noisy_argmax(counts, scale=2.0, rng=OWN), "rng"),
        (unwritten, "not written yet"),
        (2.0, "must be a function"),
    ],
)
def test_release_label_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_release_label, wrong)


def test_release_label_needs_fresh_noise_on_each_count():
    def one_noise(counts, *, epsilon, rng):
        return int(np.argmax(np.asarray(counts) + rng.laplace(scale=2 / epsilon)))

    def leader_only(counts, *, epsilon, rng):
        noisy = np.asarray(counts, dtype=float)
        noisy[noisy.argmax()] += rng.laplace(scale=2 / epsilon)
        return int(noisy.argmax())

    text = message(items.check_release_label, one_noise)
    assert "released without noise" in text or "each count needs its own" in text
    assert "only the leading count gets noise" in message(items.check_release_label, leader_only)


# Item 6


def halves(counts, *, threshold, epsilon, rng):
    if max(counts) + rng.laplace(scale=2 / epsilon) < threshold:
        return -1
    return voting.noisy_argmax(counts, scale=4 / epsilon, rng=rng)


def other_halves(counts, *, threshold, epsilon, rng):
    winner = int(np.argmax(np.asarray(counts) + mechanisms.laplace(np.zeros(len(counts)), scale=4 / epsilon, rng=rng)))
    sure = np.max(counts) + mechanisms.laplace(0.0, scale=2 / epsilon, rng=rng) >= threshold
    return winner if sure else -1


@pytest.mark.parametrize("right", [halves, other_halves])
def test_confident_label_accepts(right, capsys):
    items.check_confident_label(right)
    assert capsys.readouterr().out.startswith("✓ confident_label")


def no_test_noise(counts, *, threshold, epsilon, rng):
    return -1 if max(counts) < threshold else voting.noisy_argmax(counts, scale=4 / epsilon, rng=rng)


def bare_winner(counts, *, threshold, epsilon, rng):
    return -1 if max(counts) + rng.laplace(scale=2 / epsilon) < threshold else int(np.argmax(counts))


def all_twice(counts, *, threshold, epsilon, rng):
    return halves(counts, threshold=threshold, epsilon=2 * epsilon, rng=rng)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (no_test_noise, "the test has no noise"),
        (bare_winner, "released without noise once the test is passed"),
        (all_twice, "each spend all of epsilon"),
        (lambda counts, *, threshold, epsilon, rng: -1, "no question is ever answered"),
        (
            lambda counts, *, threshold, epsilon, rng: voting.noisy_argmax(counts, scale=4 / epsilon, rng=rng),
            "not useful",
        ),
        (unwritten, "not written yet"),
    ],
)
def test_confident_label_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_confident_label, wrong)


# Item 7


def most(growth):
    """By solving for a real number of labels, another route than counting up."""

    def excess(k):
        return mechanisms.gaussian_epsilon(sigma=40.0 / growth(k), delta=1e-5) - 2.0

    return math.floor(brentq(excess, 0.01, 5000.0))


HOW_MANY = most(lambda k: math.sqrt(2 * k))


@pytest.mark.parametrize("right", [HOW_MANY, np.int64(HOW_MANY), float(HOW_MANY)])
def test_how_many_accepts(right):
    items.check_how_many(right)
    assert student.gnmax_student(queries=HOW_MANY, sigma=40.0, delta=1e-5).epsilon <= 2.0


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (most(lambda k: math.sqrt(k)), "a sensitivity of one for each label"),
        (most(lambda k: 2 * math.sqrt(k)), "Gaussian noise needs the L2 norm"),
        (most(lambda k: math.sqrt(2) * k), "like the root of k"),
        (HOW_MANY + 1, "just above the budget"),
        (HOW_MANY - 1, "one more label"),
        (5, "student.gnmax_student"),
        (
            math.floor(2.0 / student.gnmax_student(queries=1, sigma=40.0, delta=1e-5).epsilon),
            "adds up the epsilons",
        ),
        (..., "not written yet"),
    ],
)
def test_how_many_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_how_many, wrong)


# Item 8


def these(q, lam, scale):
    return math.log((1 - q) * ((1 - q) / (1 - math.exp(2 / scale) * q)) ** lam + q * math.exp(2 * lam / scale))


def any_votes(lam, scale):
    return 2 * lam * (lam + 1) / scale**2


def moment_by_branches(*, q, lam, scale):
    if q * (1 + math.exp(2 / scale)) >= 1:
        return any_votes(lam, scale)
    return min(these(q, lam, scale), any_votes(lam, scale))


def moment_in_logs(*, q, lam, scale):
    worst = 2 * lam * (lam + 1) / scale**2
    if q >= 1 / (1 + np.exp(2 / scale)):
        return worst
    stay = (lam + 1) * np.log1p(-q) - lam * np.log1p(-np.exp(2 / scale) * q)
    return min(worst, np.logaddexp(stay, np.log(q) + 2 * lam / scale))


@pytest.mark.parametrize("right", [moment_by_branches, moment_in_logs])
def test_moment_accepts(right, capsys):
    items.check_moment(right)
    assert capsys.readouterr().out.startswith("✓ moment")


def where_it_can_be_computed(*, q, lam, scale):
    return these(q, lam, scale) if math.exp(2 / scale) * q < 1 else any_votes(lam, scale)


def smaller_where_it_can_be_computed(*, q, lam, scale):
    return min(where_it_can_be_computed(q=q, lam=lam, scale=scale), any_votes(lam, scale))


def not_the_smaller(*, q, lam, scale):
    return these(q, lam, scale) if q < 1 / (1 + math.exp(2 / scale)) else any_votes(lam, scale)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (where_it_can_be_computed, "wherever it can be computed"),
        (smaller_where_it_can_be_computed, "That number is no bound"),
        (not_the_smaller, "the smaller of the two bounds is wanted"),
        (lambda *, q, lam, scale: any_votes(lam, scale), "the bound for any votes"),
        (lambda *, q, lam, scale: lam * (lam + 1) / (2 * scale**2), "(1/b)-DP"),
        (lambda *, q, lam, scale: these(q, lam, scale), "wherever it can be computed"),
        (unwritten, "not written yet"),
    ],
)
def test_moment_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_moment, wrong)


# Item 9

TOLD = {"a": True, "b": False, "c": False, "d": True, "e": False, "f": False, "g": True}


def test_told_accepts():
    items.check_told(dict(TOLD))
    items.check_told({key: np.bool_(value) for key, value in TOLD.items()})


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (TOLD | {"a": False}, "post-processing"),
        (TOLD | {"b": True}, "the exact counts"),
        (TOLD | {"c": True}, "a function of the private votes"),
        (TOLD | {"d": False}, "for any votes"),
        (TOLD | {"e": True}, "trained without noise"),
        (TOLD | {"f": True}, "unless the test is noisy"),
        (TOLD | {"g": False}, "what the account pays for"),
        ({"a": True}, "must be a dictionary"),
        (TOLD | {"a": 1}, "give True or False"),
        (..., "not written yet"),
    ],
)
def test_told_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_told, wrong)


# Item 10


@pytest.mark.parametrize(
    "right",
    [
        "The number is computed from the private votes without noise. On a neighbouring dataset a vote has moved, so "
        "the number is a different one, and whoever sees it can tell the two datasets apart.",
        "It depends on the gaps between the counts. Replace one record, and a gap and therefore the published value "
        "changes for certain: no epsilon covers an output that distinguishes two neighbours with certainty.",
    ],
)
def test_why_private_accepts_and_prints_the_rubric(right, capsys):
    items.check_why_private(right)
    printed = capsys.readouterr().out
    assert printed.startswith("✓ why_private") and "it has no noise" in printed


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        ("It is private.", "Use at least 25"),
        (
            "The number must not be published because publishing things is a risk in general and one should always be "
            "careful with every single result of an analysis that one has made.",
            "what the number is computed from",
        ),
        (
            "The number is computed from the votes of the teachers, which are secret, and it is therefore a secret "
            "itself, as everything is that comes from something that is secret.",
            "what a neighbouring dataset would show",
        ),
        (7, "between triple quotes"),
        (..., "not written yet"),
    ],
)
def test_why_private_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_why_private, wrong)
