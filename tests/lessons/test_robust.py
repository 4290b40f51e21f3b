"""Each check of dpml.lessons.robust: right answers pass, known mistakes get their diagnosis."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpml import data
from dpml.lessons.robust import checks as items
from dpml.ptr import broken_trimmed_sum, privacy, trimmed_sum

from .answers import message, unwritten

# Item 1


def by_formula(norms, *, tau, bound, scale, delta0):
    return int(np.sum(norms > tau * bound)) + math.ceil(scale * math.log(1 / (2 * delta0)))


def by_search(norms, *, tau, bound, scale, delta0):
    trim = 0
    while max(0, trim - sum(norm > tau * bound for norm in norms)) < -scale * math.log(2 * delta0):
        trim += 1
    return trim


@pytest.mark.parametrize("right", [by_formula, by_search])
def test_least_trim_accepts(right, capsys):
    items.check_least_trim(right)
    assert capsys.readouterr().out.startswith("✓ least_trim")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lambda norms, *, bound, **k: by_formula(norms, bound=1.0, **k), "in units of the bound"),
        (lambda norms, *, tau, **k: by_formula(norms, tau=1.0, **k), "counts the norms that are clipped"),
        (lambda norms, *, tau, bound, **k: int(np.sum(norms > tau * bound)), "the margin is 0"),
        (lambda norms, **k: by_formula(np.array([]), **k), "forgets the long gradients"),
        (lambda norms, *, delta0, **k: by_formula(norms, delta0=delta0 / 2, **k), "with the 2"),
        (lambda norms, **k: by_formula(norms, **k) - 1, "one too small"),
        (lambda norms, **k: by_formula(norms, **k) + 1, "one too large"),
        (lambda norms, *, scale, **k: by_formula(norms, scale=1.0, **k), "the factor b"),
        (
            lambda norms, **k: len(norms) - by_formula(norms, **k) + 2 * by_formula(norms[:0], **k),
            "the short gradients",
        ),
        (
            lambda norms, *, tau, bound, scale, delta0: np.sum(norms > tau * bound) - scale * math.log(2 * delta0),
            "a whole number",
        ),
        (lambda norms, **k: 2 * by_formula(norms, **k), "the margin itself must reach"),
        (unwritten, "not written yet"),
    ],
)
def test_least_trim_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_least_trim, wrong)


# Item 2


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


@pytest.mark.parametrize("right", [sorting, counting])
def test_step_weights_accepts(right, capsys):
    items.check_step_weights(right)
    assert capsys.readouterr().out.startswith("✓ step_weights")


def after_clipping(norms, *, bound, **k):
    return sorting(np.minimum(norms, bound), bound=bound, **k) * clip(norms, bound)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (after_clipping, "orders by the norms after clipping"),
        (lambda norms, *, ids, **k: sorting(norms, ids=np.arange(len(norms)), **k), "place in the batch"),
        (lambda norms, *, ids, **k: sorting(norms, ids=-ids, **k), "leaves out the smaller id"),
        (lambda norms, *, ids, bound, **k: sorting(ids, ids=norms, bound=1e9, **k) * clip(norms, bound), "by the ids"),
        (lambda norms, **k: norms * sorting(norms, **k), "the lengths after clipping"),
        (lambda norms, *, passed, **k: sorting(norms, passed=True, **k), "trims after a failed test as well"),
        (lambda norms, *, passed, **k: sorting(norms, passed=not passed, **k), "the other way round"),
        (lambda norms, *, bound, **k: (sorting(norms, bound=1e9, **k) > 0) * 1.0, "nothing is clipped"),
        (lambda norms, *, bound, **k: sorting(-norms, bound=bound, **k) * clip(norms, bound), "shortest gradients"),
        (lambda norms, **k: np.ones(len(norms)), "ties by id"),
        (lambda norms, **k: None, "is a return missing?"),
        (unwritten, "not written yet"),
    ],
)
def test_step_weights_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_step_weights, wrong)


# Item 3


def weighted(vectors, *, ids, trim, bound, sigma, rng):
    norms = np.linalg.norm(vectors, axis=1)
    total = sorting(norms, ids=ids, trim=trim, bound=bound, passed=True) @ vectors
    return total + rng.normal(scale=sigma * bound, size=len(total))


def through_the_package(vectors, *, ids, trim, bound, sigma, rng):
    total = trimmed_sum.clipped_trimmed_sum(vectors, ids=ids, trim=trim, bound=bound)
    return total + sigma * bound * rng.standard_normal(total.shape)


@pytest.mark.parametrize("right", [weighted, through_the_package])
def test_noisy_total_accepts(right, capsys):
    items.check_noisy_total(right)
    assert capsys.readouterr().out.startswith("✓ noisy_total")


def noisy(total):
    """A wrong sum with the right noise."""

    def f(vectors, *, ids, trim, bound, sigma, rng):
        value = total(vectors, ids=ids, trim=trim, bound=bound)
        return value + sigma * bound * rng.normal(size=len(value))

    return f


def with_noise(make):
    """The right sum with a wrong noise."""

    def f(vectors, *, ids, trim, bound, sigma, rng):
        value = trimmed_sum.clipped_trimmed_sum(vectors, ids=ids, trim=trim, bound=bound)
        return value + make(value, bound, sigma, rng)

    return f


def own_randomness(value, bound, sigma, rng):
    return sigma * bound * np.random.default_rng().normal(size=len(value))


def fixed_seed(value, bound, sigma, rng):
    return sigma * bound * np.random.default_rng(0).normal(size=len(value))


def nothing_for_nobody(vectors, *, rng, **k):
    return weighted(vectors, rng=rng, **k) if len(vectors) else np.zeros(vectors.shape[1])


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (noisy(lambda v, *, ids, **k: broken_trimmed_sum.by_clipped_norms(v, **k)), "is another sum"),
        (noisy(lambda v, *, ids, **k: broken_trimmed_sum.by_position(v, **k)), "is another sum"),
        (noisy(lambda v, *, ids, **k: trimmed_sum.clipped_trimmed_sum(v, **k)), "one record moved the sum by"),
        (noisy(lambda v, *, bound, **k: trimmed_sum.trimmed_sum(v, **k)), "not clipped to the bound"),
        (noisy(lambda v, *, trim, **k: trimmed_sum.clipped_trimmed_sum(v, trim=0, **k)), "nothing is trimmed"),
        (noisy(lambda v, **k: trimmed_sum.clipped_trimmed_sum(v, **k) / max(1, len(v))), "return the sum"),
        (with_noise(lambda value, bound, sigma, rng: 0.0), "there is no noise"),
        (with_noise(lambda value, bound, sigma, rng: sigma * rng.normal(size=len(value))), "0.5"),
        (with_noise(lambda value, bound, sigma, rng: sigma * bound * rng.normal()), "the same noise"),
        (with_noise(own_randomness), "randomness is its own|the rng that it is given"),
        (with_noise(fixed_seed), "the same every time"),
        (nothing_for_nobody, "an empty batch must get its noise"),
        (lambda vectors, **k: None, "not written yet"),
        (unwritten, "not written yet"),
    ],
)
def test_noisy_total_names_the_mistake(wrong, diagnosis):
    text = message(items.check_noisy_total, wrong)
    assert any(part in text for part in diagnosis.split("|")), text


# Item 4


def settles(trim, *, passed, change, most):
    return max(0, min(most, trim - change if passed else trim + change))


def settles_with_numpy(trim, *, passed, change, most):
    return int(np.clip(trim + (1 - 2 * passed) * change, 0, most))


@pytest.mark.parametrize("right", [settles, settles_with_numpy])
def test_next_trim_accepts(right, capsys):
    items.check_next_trim(right)
    assert capsys.readouterr().out.startswith("✓ next_trim")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lambda trim, *, passed, **k: settles(trim, passed=not passed, **k), "It runs away"),
        (lambda trim, *, passed, change, most: trim - change if passed else trim + change, "leaves the range"),
        (lambda trim, *, passed, change, most: min(most, trim + (1 - 2 * passed) * change), "becomes negative"),
        (lambda trim, *, passed, change, most: max(0, trim + (1 - 2 * passed) * change), "exceeds most"),
        (lambda trim, **k: trim, "both ends are clipped"),
        (unwritten, "not written yet"),
    ],
)
def test_next_trim_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_next_trim, wrong)


# Item 5

RIGHT = privacy.matching_gaussian_sigma(sigma=2.0, tau=0.6, scale=1.0, delta0=1e-8, q=0.01, steps=500, delta=1e-5)


@pytest.mark.parametrize("right", [RIGHT, np.float64(1.001 * RIGHT)])
def test_matched_accepts(right, capsys):
    items.check_matched(right)
    assert capsys.readouterr().out.startswith("✓ matched")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (2.0, "The test itself costs privacy"),
        (1.2, "the noise after a passed test"),
        (0.9 * RIGHT, "spends more"),
        (1.1 * RIGHT, "spends less"),
        (-1.0, "Two epsilons must agree"),
        (..., "not written yet"),
        ("1", "number"),
    ],
)
def test_matched_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_matched, wrong)


# Item 6


@pytest.mark.parametrize("right", [{"clip_norm": 30.0, "trim": 100}, {"clip_norm": 25, "trim": np.int64(128)}])
def test_setting_accepts(right, capsys):
    items.check_setting(right)
    assert capsys.readouterr().out.startswith("✓ setting")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        ({"clip_norm": 1.0, "trim": 128}, "raise it, or F"),
        ({"clip_norm": 30.0, "trim": 10}, "compare with 17.7"),
        ({"clip_norm": 500.0, "trim": 64}, "drowns the gradients"),
        ({"clip_norm": 30.0, "trim": 256}, "at least half of the expected batch"),
        ({"clip_norm": 30.0, "trim": True}, "whole number"),
        ({"clip_norm": float("nan"), "trim": 64}, "above 0"),
        ({"clip_norm": "30", "trim": 64}, "must be a number"),
        ({"R": 30.0, "F": 64}, "with the keys"),
        (..., "not written yet"),
    ],
)
def test_setting_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_setting, wrong)


# Item 7

TRUE = data.fashion_mnist_subset().train_labels


def relabelled(*pairs):
    labels = TRUE.copy()
    for before, after in pairs:
        labels[before == TRUE] = after
    return labels


@pytest.mark.parametrize("right", [relabelled((0, 6), (1, 3)), relabelled((0, 2), (7, 9)).astype(np.int64)])
def test_attack_accepts(right, capsys):
    items.check_attack(right)
    assert capsys.readouterr().out.startswith("✓ attack")


def random_flips():
    labels = TRUE.copy()
    labels[::5] = (labels[::5] + 1 + np.arange(2000) % 9) % 10
    return labels


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (TRUE, "changes no label"),
        (random_flips(), "cancel"),
        (np.where(np.arange(10_000) % 5 == 0, 0, TRUE), "Concentrate the changes"),
        (relabelled((0, 6), (1, 3), (7, 9)), "more than 2,000"),
        (TRUE[:100], "give 10,000 whole numbers"),
        (TRUE.astype(float), "give 10,000 whole numbers"),
        (np.full(10_000, 12), "from 0 to 9"),
        (..., "not written yet"),
    ],
)
def test_attack_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_attack, wrong)


# Item 8

GOOD = """One more record may raise F by one, because F follows the size of the batch. Then one gradient leaves the sum
on account of the larger F while another enters, so that the sum moves by 2R. The expected size is the same for
neighbours."""
OTHER = """If trim is a share of the realised batch, a record that joins changes how many are trimmed. Two gradients of
length R are exchanged, and the sum moves by twice the bound. It must be a constant, a share of qn."""


@pytest.mark.parametrize("right", [GOOD, OTHER])
def test_share_accepts(right, capsys):
    items.check_share(right)
    assert capsys.readouterr().out.startswith("✓ share")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        ("It is not private.", "words"),
        (GOOD.replace("2R", "much"), "how far the sum moves"),
        (GOOD.replace("expected", "usual"), "what is used instead"),
        (..., "not written yet"),
    ],
)
def test_share_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_share, wrong)
