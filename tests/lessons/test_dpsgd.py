"""Answers to the exercises of chapter 05, right and wrong; `test_answers` tries them."""

import math

import numpy as np
import torch
from scipy.stats import norm

from dpml import mechanisms
from dpml.lessons.dpsgd import checks as items


def shorten(gradients, clip_norm):
    return gradients * np.minimum(1.0, clip_norm / np.maximum(np.linalg.norm(gradients, axis=1), 1e-300))[:, None]


def with_tensors(gradients, *, clip_norm):
    tensor = torch.tensor(gradients)
    return tensor * (clip_norm / tensor.norm(dim=1, keepdim=True).clamp(min=clip_norm))


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


def mean_of(total=shorten, sigmas=lambda sigma: sigma, numbers=3):
    """The noisy mean with another sum of rows, other noise, or so many random numbers."""

    def noisy_mean(gradients, *, clip_norm, sigma, expected_batch, rng):
        drawn = rng.normal(scale=sigmas(sigma) * clip_norm, size=numbers)
        return (total(gradients, clip_norm).sum(axis=0) + drawn) / expected_batch

    return noisy_mean


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


def with_a_covariance(gradients, *, clip_norm, sigma, size, rng):
    total = shorten(rng.permutation(gradients), clip_norm).sum(axis=0)
    return rng.multivariate_normal(total, (sigma * clip_norm) ** 2 * np.eye(len(total)))


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


RIGHT = {
    items.check_clip_rows: [lambda gradients, *, clip_norm: shorten(gradients, clip_norm), with_tensors],
    items.check_gradient_norms: [by_outer_products, lambda a, g: with_a_one(a, g).tolist()],
    items.check_update_noise: [0.4 * 1.2 * 0.5 / 250, np.float64(9.6e-4)],
    items.check_mean_moves: [
        lonely((-1e308, 1e308)),
        torch.tensor(lonely((3.0, 4.0)), requires_grad=True) * 2,
    ],
    items.check_noisy_mean: [mean_of(), as_parameter],
    items.check_noisy_sum: [in_pieces(), with_a_covariance],
    items.check_printed_epsilon: [eps(0.5), float(f"{eps(0.5):.5g}")],
    items.check_noise_loss: [loss_by_densities, loss_by_length],
}

WRONG = {
    items.check_clip_rows: [
        (
            lambda gradients, *, clip_norm: print(gradients),
            "For gradients = [[-5, 0]], clip_norm = 0.1, your clip_rows printed",
        ),
    ],
    items.check_mean_moves: [
        (np.zeros((10, 2)), "an array of shape (100, 2)"),
        (lonely((np.inf, 0.0)), "got an element inf"),
        ({"first": (1000.0, 0.0)}, "must be an array of numbers"),
    ],
    items.check_noisy_mean: [
        (mean_of(lambda gradients, c: gradients), "nothing is clipped"),
        (clips_the_mean, "one example alone decides it"),
        (over_those_drawn, "the number of examples that are there"),
        (mean_of(sigmas=lambda sigma: 1.0), "in proportion to σ"),
        (mean_of(numbers=1), "move together"),
    ],
    items.check_noisy_sum: [
        (in_pieces(drop=True), "the last piece, which is not full, is dropped"),
        (in_pieces(reduce=np.mean), "means of the pieces are added"),
        (in_pieces(each=lambda piece, c: piece / max(1.0, np.linalg.norm(piece) / c)), "one factor for the whole"),
        (keeps_the_last, "add the pieces up"),
    ],
}
