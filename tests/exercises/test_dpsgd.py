"""Each check of dpml.exercises.dpsgd: right answers pass, known mistakes get their diagnosis."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpml import mechanisms
from dpml.exercises import dpsgd as items

from .answers import message, unwritten


def shorten(gradients, clip_norm):
    return gradients * np.minimum(1.0, clip_norm / np.maximum(np.linalg.norm(gradients, axis=1), 1e-300))[:, None]


# Item 1


def one_by_one(gradients, *, clip_norm):
    rows = [row if row @ row <= clip_norm**2 else row * clip_norm / math.sqrt(row @ row) for row in gradients]
    return np.array(rows).reshape(gradients.shape)


@pytest.mark.parametrize("right", [lambda gradients, *, clip_norm: shorten(gradients, clip_norm), one_by_one])
def test_clip_rows_accepts(right, capsys):
    items.check_clip_rows(right)
    assert capsys.readouterr().out.startswith("✓ clip_rows")


def norm(gradients):
    return np.maximum(np.linalg.norm(gradients, axis=1, keepdims=True), 1e-300)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lambda gradients, *, clip_norm: np.minimum(clip_norm, gradients / norm(gradients)), "the printed rule"),
        (lambda gradients, *, clip_norm: clip_norm * gradients / norm(gradients), "short ones too"),
        (lambda gradients, *, clip_norm: np.clip(gradients, -clip_norm, clip_norm), "each coordinate is clipped"),
        (
            lambda gradients, *, clip_norm: gradients / max(1.0, np.linalg.norm(gradients) / clip_norm),
            "one factor for the whole batch",
        ),
        (lambda gradients, *, clip_norm: gradients * np.minimum(1, norm(gradients) / clip_norm), "upside down"),
        (lambda gradients, *, clip_norm: gradients, "has norm at most C"),
        (lambda gradients, *, clip_norm: None, "is a return missing?"),
        (lambda gradients, clip: gradients, "is called with"),
        (unwritten, "not written yet"),
        (np.zeros((2, 2)), "must be a function"),
    ],
)
def test_clip_rows_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_clip_rows, wrong)


# Item 2


def by_outer_products(inputs, output_gradients):
    return np.array(
        [
            np.hypot(np.linalg.norm(np.outer(g, a)), np.linalg.norm(g))
            for a, g in zip(inputs, output_gradients, strict=True)
        ]
    )


def with_a_one(inputs, output_gradients):
    extended = np.column_stack([inputs, np.ones(len(inputs))])
    return np.linalg.norm(extended, axis=1) * np.linalg.norm(output_gradients, axis=1)


@pytest.mark.parametrize("right", [by_outer_products, with_a_one])
def test_gradient_norms_accepts(right, capsys):
    items.check_gradient_norms(right)
    assert capsys.readouterr().out.startswith("✓ gradient_norms")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lambda inputs, output_gradients: norm(inputs)[:, 0] * norm(output_gradients)[:, 0], "the bias is forgotten"),
        (
            lambda inputs, output_gradients: norm(output_gradients)[:, 0] * (norm(inputs)[:, 0] + 1),
            "norms of the two parts are added",
        ),
        (lambda inputs, output_gradients: with_a_one(inputs, output_gradients) ** 2, "squares of the norms"),
        (
            lambda inputs, output_gradients: np.sqrt((inputs**2).sum(1) + (output_gradients**2).sum(1) + 1),
            "the squared norms are added",
        ),
        (
            lambda inputs, output_gradients: float(
                np.hypot(np.linalg.norm(output_gradients.T @ inputs), np.linalg.norm(output_gradients.sum(0)))
            ),
            "one number for the batch",
        ),
        (lambda inputs, output_gradients: norm(output_gradients)[:, 0], "It must equal the norm of outer"),
        (lambda inputs, output_gradients: None, "is a return missing?"),
        (unwritten, "not written yet"),
    ],
)
def test_gradient_norms_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_gradient_norms, wrong)


# Item 3


@pytest.mark.parametrize("right", [0.4 * 1.2 * 0.5 / 250, np.float64(9.6e-4)])
def test_update_noise_accepts(right, capsys):
    items.check_update_noise(right)
    assert capsys.readouterr().out.startswith("✓ update_noise")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (1.2 * 0.5 / 250, "learning rate multiplies the noise"),
        (0.4 * 1.2 * 0.5, "divided by the batch size"),
        (0.4 * 1.2 / 250, "in units of the clip norm"),
        (1.2 * 0.5, "the noise on the sum"),
        (0.4 * 1.2 * 0.5 / 250**2, "twice"),
        (0.4 * 1.2 * 0.5 / math.sqrt(250), "drawn once for the batch"),
        (9.6e-4**2, "the variance"),
        (..., "not written yet"),
        ("0.00096", "number"),
    ],
)
def test_update_noise_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_update_noise, wrong)


# Item 4


def lonely(size):
    gradients = np.zeros((100, 2))
    gradients[0] = size
    return gradients


@pytest.mark.parametrize("right", [lonely((1000.0, 0.0)), [[0.0, -300.0]] + [[0.1, 0.0]] * 99])
def test_mean_moves_accepts(right, capsys):
    items.check_mean_moves(right)
    assert "refutes the claim" in capsys.readouterr().out


def last():
    gradients = np.zeros((100, 2))
    gradients[99] = (1000.0, 0.0)
    return gradients


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lonely((1.0, 0.0)), "has only short gradients"),
        (last(), "in a place that stays"),
        (np.full((100, 2), 50.0), "keeps a long mean"),
        (np.zeros((10, 2)), "an array of shape (100, 2)"),
        (lonely((np.inf, 0.0)), "must be finite"),
        (..., "not written yet"),
        ("zeros", "not an input"),
    ],
)
def test_mean_moves_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_mean_moves, wrong)


# Item 5


def mechanism(
    *, noise=lambda sigma, clip_norm, batch: sigma * clip_norm, over=lambda gradients, batch: batch, clip=shorten
):
    def noisy_mean(gradients, *, clip_norm, sigma, expected_batch, rng):
        total = clip(gradients, clip_norm).sum(axis=0)
        total = total + noise(sigma, clip_norm, expected_batch) * rng.normal(size=gradients.shape[1])
        return total / over(gradients, expected_batch)

    return noisy_mean


def term_by_term(gradients, *, clip_norm, sigma, expected_batch, rng):
    mean = np.zeros(gradients.shape[1])
    for row in gradients:
        mean += row / max(1.0, np.linalg.norm(row) / clip_norm) / expected_batch
    return (mean + rng.normal(scale=sigma * clip_norm / expected_batch, size=len(mean))).tolist()


@pytest.mark.parametrize("right", [mechanism(), term_by_term])
def test_noisy_mean_accepts(right, capsys):
    items.check_noisy_mean(right)
    assert capsys.readouterr().out.count("✓ noisy_mean") == 2


def clips_the_mean(gradients, *, clip_norm, sigma, expected_batch, rng):
    mean = gradients.sum(axis=0) / expected_batch
    mean = mean / max(1.0, np.linalg.norm(mean) / clip_norm)
    return mean + rng.normal(scale=sigma * clip_norm / expected_batch, size=len(mean))


def one_noise_for_all(gradients, *, clip_norm, sigma, expected_batch, rng):
    return (shorten(gradients, clip_norm).sum(axis=0) + sigma * clip_norm * rng.normal()) / expected_batch


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (mechanism(noise=lambda s, c, b: s * c / b), "256 times too small"),
        (mechanism(noise=lambda s, c, b: s * c * b), "256 times too large"),
        (mechanism(noise=lambda s, c, b: s), "half of what is needed"),
        (mechanism(noise=lambda s, c, b: 2 * s * c), "twice what is needed"),
        (mechanism(noise=lambda s, c, b: 0.0), "no noise"),
        (mechanism(clip=lambda gradients, c: gradients), "nothing is clipped"),
        (clips_the_mean, "one example alone decides it"),
        (mechanism(over=lambda gradients, b: max(1, len(gradients))), "the number of examples that are there"),
        (mechanism(over=lambda gradients, b: 1.0), "this is the noisy sum"),
        (mechanism(over=lambda gradients, b: b**2), "divided by the batch size twice"),
        (one_noise_for_all, "same noise"),
        (
            lambda gradients, *, clip_norm, sigma, expected_batch, rng: term_by_term(
                gradients, clip_norm=clip_norm, sigma=sigma, expected_batch=expected_batch, rng=np.random.default_rng()
            ),
            "uses its own randomness",
        ),
        (lambda gradients, *, clip_norm, sigma, expected_batch, rng: 1.0, "as many numbers as a gradient has"),
        (lambda gradients, *, clip_norm, sigma, expected_batch, rng: None, "is a return missing?"),
        (lambda gradients, *, clip_norm, sigma, expected_batch, rng: [][0], "raised"),
        (lambda gradients, rng: gradients, "keep the parameter names"),
        (unwritten, "not written yet"),
        (0.5, "must be a function"),
    ],
)
def test_noisy_mean_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_noisy_mean, wrong)


# Item 6


def pieces_of(gradients, size):
    return [gradients[start : start + size] for start in range(0, len(gradients), size)]


def in_pieces(*, each=shorten, reduce=np.sum, drop=False, noises=1, factor=lambda s, c: s * c):
    def noisy_sum(gradients, *, clip_norm, sigma, size, rng):
        total = np.zeros(gradients.shape[1])
        for piece in pieces_of(gradients, size):
            if not drop or len(piece) == size:
                total += reduce(each(piece, clip_norm), axis=0)
            if noises != 1:
                total += factor(sigma, clip_norm) * rng.normal(size=len(total))
        return total if noises != 1 else total + factor(sigma, clip_norm) * rng.normal(size=len(total))

    return noisy_sum


def all_at_once(gradients, *, clip_norm, sigma, size, rng):
    return shorten(gradients, clip_norm).sum(axis=0) + rng.normal(scale=sigma * clip_norm, size=gradients.shape[1])


@pytest.mark.parametrize("right", [in_pieces(), all_at_once])
def test_noisy_sum_accepts(right, capsys):
    items.check_noisy_sum(right)
    assert capsys.readouterr().out.startswith("✓ noisy_sum: 3 properties hold")


def clips_pieces(gradients, *, clip_norm, sigma, size, rng):
    sums = np.array([piece.sum(axis=0) for piece in pieces_of(gradients, size)]).reshape(-1, gradients.shape[1])
    return shorten(sums, clip_norm).sum(axis=0) + rng.normal(scale=sigma * clip_norm, size=gradients.shape[1])


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (in_pieces(noises="each"), "each of the 8 pieces got noise"),
        (in_pieces(drop=True), "the last piece, which is not full, is dropped"),
        (in_pieces(reduce=np.mean), "it is the mean"),
        (in_pieces(each=lambda piece, c: piece), "nothing is clipped"),
        (clips_pieces, "the sum of each piece is clipped"),
        (in_pieces(factor=lambda s, c: s), "not multiplied by the clip norm"),
        (in_pieces(factor=lambda s, c: 0.0), "there is none"),
        (
            lambda gradients, *, clip_norm, sigma, size, rng: all_at_once(
                gradients, clip_norm=clip_norm, sigma=sigma, size=size, rng=np.random.default_rng()
            ),
            "draw from the rng that it is given",
        ),
        (lambda gradients, *, clip_norm, sigma, size, rng: None, "is a return missing?"),
        (lambda gradients, *, clip_norm, sigma, rng: gradients, "keep the parameter names"),
        (unwritten, "not written yet"),
    ],
)
def test_noisy_sum_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_noisy_sum, wrong)


# Item 7


@pytest.mark.parametrize(
    "right",
    [
        mechanisms.gaussian_epsilon(sigma=0.5, delta=1e-5),
        float(f"{mechanisms.gaussian_epsilon(sigma=0.5, delta=1e-5):.5g}"),
    ],
)
def test_printed_epsilon_accepts(right, capsys):
    items.check_printed_epsilon(right)
    assert capsys.readouterr().out.startswith("✓ printed_epsilon")


def eps(sigma):
    return mechanisms.gaussian_epsilon(sigma=sigma, delta=1e-5)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (eps(4.0), "in its place"),
        (eps(32.0), "divide σ by it"),
        (eps(4.0 / 64), "used twice"),
        (8 * eps(4.0), "in proportion to the learning rate"),
        (eps(4 / math.sqrt(8)), "not of its variance"),
        (..., "not written yet"),
        (None, "not a number"),
    ],
)
def test_printed_epsilon_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_printed_epsilon, wrong)


# Item 8

SOUND = {"a": True, "b": False, "c": True, "d": False, "e": False, "f": True}


@pytest.mark.parametrize("right", [SOUND, {key: np.bool_(value) for key, value in reversed(SOUND.items())}])
def test_sound_accepts(right, capsys):
    items.check_sound(right)
    assert capsys.readouterr().out.startswith("✓ sound")


@pytest.mark.parametrize(
    ("letter", "diagnosis"),
    [
        ("a", "channels of one example"),
        ("b", "normalises each example by all others"),
        ("c", "its own mask"),
        ("d", "nothing is clipped"),
        ("e", "add up to one gradient"),
        ("f", "what is not trained"),
    ],
)
def test_sound_gives_the_reason(letter, diagnosis):
    assert diagnosis in message(items.check_sound, {**SOUND, letter: not SOUND[letter]})


@pytest.mark.parametrize("wrong", [..., None, {}, {"a": True}, [True] * 6])
def test_sound_needs_all_letters(wrong):
    assert "sound" in message(items.check_sound, wrong)


# Item 9

GOOD = (
    "The realised size depends on who was drawn: if one example is removed, the size changes, and with it every term "
    "of the mean. The sensitivity of the mean would then not be C/B, so the noise would not cover it."
)


@pytest.mark.parametrize("right", [GOOD, GOOD.replace("removed", "added").replace("sensitivity", "Sensitivity")])
def test_divisor_accepts(right, capsys):
    items.check_divisor(right)
    assert "compare with these points" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (GOOD[:40], "words"),
        (
            "Because it is usual in every library and every paper that I know of, and since it works well in practice "
            "for all learning rates and all models.",
            "does not mention",
        ),
        (GOOD.replace("sensitivity", "size").replace("depends on", "is"), "the sensitivity"),
        (..., "not written yet"),
        (3, "between triple quotes"),
    ],
)
def test_divisor_asks_for_what_is_missing(wrong, diagnosis):
    assert diagnosis in message(items.check_divisor, wrong)
