"""Answers to the exercises of chapter 05, right and wrong; `test_answers` tries them."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.stats import norm

from dpml import mechanisms
from dpml.lessons.dpsgd import checks as items


def shorten(gradients, clip_norm):
    return gradients * np.minimum(1.0, clip_norm / np.maximum(np.linalg.norm(gradients, axis=1), 1e-300))[:, None]


def one_by_one(gradients, *, clip_norm):
    rows = [row if row @ row <= clip_norm**2 else row * clip_norm / math.sqrt(row @ row) for row in gradients]
    return np.array(rows).reshape(gradients.shape)


def with_tensors(gradients, *, clip_norm):
    tensor = torch.tensor(gradients)
    return tensor * (clip_norm / tensor.norm(dim=1, keepdim=True).clamp(min=clip_norm))


def as_a_list_of_rows(gradients, *, clip_norm):
    return [row * min(1, clip_norm / max(1e-9, np.linalg.norm(row))) for row in gradients]


def by_outer_products(inputs, output_gradients):
    pairs = zip(inputs, output_gradients, strict=True)
    return np.array([np.hypot(np.linalg.norm(np.outer(g, a)), np.linalg.norm(g)) for a, g in pairs])


def with_a_one(inputs, output_gradients):
    extended = np.column_stack([inputs, np.ones(len(inputs))])
    return np.linalg.norm(extended, axis=1) * np.linalg.norm(output_gradients, axis=1)


def lonely(size):
    gradients = np.zeros((100, 2))
    gradients[0] = size
    return gradients


def mean_of(total=shorten, noise=lambda rng, scale, rows: rng.normal(scale=scale, size=rows.shape[1]), **fixed):
    """The noisy mean with another sum of rows or another noise, or with other values of its parameters."""

    def noisy_mean(gradients, *, clip_norm, sigma, expected_batch, rng):
        named = {"clip_norm": clip_norm, "sigma": sigma, "expected_batch": expected_batch} | fixed
        drawn = noise(rng, named["sigma"] * named["clip_norm"], gradients)
        return (total(gradients, named["clip_norm"]).sum(axis=0) + drawn) / named["expected_batch"]

    return noisy_mean


def term_by_term(gradients, *, clip_norm, sigma, expected_batch, rng):
    mean = np.zeros(gradients.shape[1])
    for row in gradients:
        mean += row / max(1.0, np.linalg.norm(row) / clip_norm) / expected_batch
    return (mean + rng.normal(scale=sigma * clip_norm / expected_batch, size=len(mean))).tolist()


def as_parameter(gradients, *, clip_norm, sigma, expected_batch, rng):
    total = torch.tensor(shorten(gradients, clip_norm).sum(axis=0), requires_grad=True)
    return (total + sigma * clip_norm * torch.tensor(rng.normal(size=len(total)))) / expected_batch


def clips_the_mean(gradients, *, clip_norm, sigma, expected_batch, rng):
    mean = gradients.sum(axis=0) / expected_batch
    mean = mean / max(1.0, np.linalg.norm(mean) / clip_norm)
    return mean + rng.normal(scale=sigma * clip_norm / expected_batch, size=len(mean))


def over_those_drawn(gradients, *, expected_batch, **named):
    return mean_of()(gradients, expected_batch=max(1, len(gradients)), **named)


def in_pieces(*, each=shorten, reduce=np.sum, drop=False):
    def noisy_sum(gradients, *, clip_norm, sigma, size, rng):
        total = np.zeros(gradients.shape[1])
        for start in range(0, len(gradients), size):
            piece = gradients[start : start + size]
            if not drop or len(piece) == size:
                total += reduce(each(piece, clip_norm), axis=0)
        return total + rng.normal(scale=sigma * clip_norm, size=len(total))

    return noisy_sum


def split_noise(gradients, *, clip_norm, sigma, size, rng):
    pieces = [gradients[start : start + size] for start in range(0, len(gradients), size)] or [gradients]
    scale = sigma * clip_norm / math.sqrt(len(pieces))
    return tuple(sum(shorten(p, clip_norm).sum(axis=0) + rng.normal(scale=scale, size=p.shape[1]) for p in pieces))


def with_a_covariance(gradients, *, clip_norm, sigma, size, rng):
    total = shorten(rng.permutation(gradients), clip_norm).sum(axis=0)
    return rng.multivariate_normal(total, (sigma * clip_norm) ** 2 * np.eye(len(total)))


def in_place(gradients, *, clip_norm, sigma, size, rng):
    gradients *= np.minimum(1.0, clip_norm / np.linalg.norm(gradients, axis=1, keepdims=True))
    return gradients.sum(axis=0) + rng.normal(scale=sigma * clip_norm, size=gradients.shape[1])


def keeps_the_last(gradients, *, clip_norm, size, **rest):
    start = max(0, (len(gradients) - 1) // size * size)
    return in_pieces()(gradients[start:], clip_norm=clip_norm, size=size, **rest)


def eps(sigma):
    return mechanisms.gaussian_epsilon(sigma=sigma, delta=1e-5)


def loss_by_densities(released, *, n, q, sigma, clip_norm):
    logs = [norm(scale=sigma * clip_norm / (q * count)).logpdf(released).sum() for count in (n, n - 1)]
    return logs[0] - logs[1]


def loss_by_length(released, *, n, q, sigma, clip_norm):
    ratio = q * np.linalg.norm(released) / (sigma * clip_norm)
    return -len(released) * math.log1p(-1 / n) - ratio**2 * (n - 0.5)


SOUND = {"a": True, "b": False, "c": True, "d": False, "e": False, "f": True}

GOOD = (
    "The realised size depends on who was drawn: if one example is removed, the size changes, and with it every term "
    "of the mean. The sensitivity of the mean would then not be C/B, so the noise would not cover it."
)
ADJACENT = (
    "For two adjacent datasets the divisor 250 is the same, so the numerators differ by at most C and the result by at "
    "most C/250. With 231 against 230 the divisor differs too, and the difference may exceed that."
)

RIGHT = {
    items.check_clip_rows: [lambda gradients, *, clip_norm: shorten(gradients, clip_norm), one_by_one, with_tensors],
    items.check_gradient_norms: [by_outer_products, with_a_one, lambda a, g: with_a_one(a, g).tolist()],
    items.check_update_noise: [0.4 * 1.2 * 0.5 / 250, np.float64(9.6e-4)],
    items.check_mean_moves: [
        lonely((1000.0, 0.0)),
        [[0.0, -300.0]] + [[0.1, 0.0]] * 99,
        lonely((1e200, 0.0)),
        lonely((-1e308, 1e308)),
        torch.tensor(lonely((3.0, 4.0)), requires_grad=True) * 2,
    ],
    items.check_noisy_mean: [mean_of(), term_by_term, as_parameter],
    items.check_noisy_sum: [in_pieces(), split_noise, with_a_covariance],
    items.check_printed_epsilon: [eps(0.5), float(f"{eps(0.5):.5g}")],
    items.check_sound: [SOUND, {key: np.bool_(value) for key, value in reversed(SOUND.items())}],
    items.check_noise_loss: [loss_by_densities, loss_by_length],
}
ARGUMENTS = {
    items.check_divisor: [
        GOOD,
        ADJACENT,
    ],
}

WRONG = {
    items.check_clip_rows: [
        (as_a_list_of_rows, "a list of no rows"),
        (
            lambda gradients, *, clip_norm: print(gradients),
            "For gradients = [[-5, 0]], clip_norm = 0.1, your clip_rows printed",
        ),
    ],
    items.check_mean_moves: [
        (np.zeros((10, 2)), "an array of shape (100, 2)"),
        (lonely((np.inf, 0.0)), "got an element inf"),
        (lonely((1000.0, 0.0)).astype(complex), "must be an array of numbers"),
        ([[1000.0, 0.0], [0.0]], "must be an array of numbers"),
        ({"first": (1000.0, 0.0)}, "must be an array of numbers"),
    ],
    items.check_noisy_mean: [
        (mean_of(lambda gradients, c: gradients), "nothing is clipped"),
        (mean_of(lambda gradients, c: np.clip(gradients, -c, c)), "each coordinate is clipped"),
        (mean_of(lambda gradients, c: shorten(gradients[:1], c)), "only the first example"),
        (mean_of(lambda gradients, c: shorten(gradients.sum(axis=0)[None], c)), "the sum is clipped and not each"),
        (clips_the_mean, "one example alone decides it"),
        (over_those_drawn, "the number of examples that are there"),
        (mean_of(expected_batch=1), "this is the noisy sum"),
        (mean_of(sigma=1.0), "in proportion to σ"),
        (mean_of(noise=lambda rng, scale, rows: rng.normal(scale, size=rows.shape[1])), "the second one the standard"),
        (mean_of(noise=lambda rng, scale, rows: scale * rng.normal() * np.eye(rows.shape[1])[0]), "entry 1"),
        (mean_of(noise=lambda rng, scale, rows: scale * rng.normal()), "move together"),
    ],
    items.check_noisy_sum: [
        (in_place, "changes the gradients"),
        (in_pieces(drop=True), "the last piece, which is not full, is dropped"),
        (in_pieces(reduce=np.mean), "means of the pieces are added"),
        (in_pieces(each=lambda piece, c: piece), "nothing is clipped"),
        (in_pieces(each=lambda piece, c: piece / max(1.0, np.linalg.norm(piece) / c)), "one factor for the whole"),
        (in_pieces(each=lambda piece, c: shorten(piece.sum(axis=0)[None], c)), "the sum of each piece is clipped"),
        (keeps_the_last, "add the pieces up"),
    ],
}
