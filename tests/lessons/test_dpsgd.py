"""Each check of dpml.lessons.dpsgd: right answers pass, known mistakes get their diagnosis."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dpml import mechanisms
from dpml.lessons.dpsgd import checks as items

from .answers import message, unwritten


def shorten(gradients, clip_norm):
    return gradients * np.minimum(1.0, clip_norm / np.maximum(np.linalg.norm(gradients, axis=1), 1e-300))[:, None]


# Item 1


def one_by_one(gradients, *, clip_norm):
    rows = [row if row @ row <= clip_norm**2 else row * clip_norm / math.sqrt(row @ row) for row in gradients]
    return np.array(rows).reshape(gradients.shape)


def with_tensors(gradients, *, clip_norm):
    tensor = torch.tensor(gradients)
    return tensor * (clip_norm / tensor.norm(dim=1, keepdim=True).clamp(min=clip_norm))


@pytest.mark.parametrize(
    "right", [lambda gradients, *, clip_norm: shorten(gradients, clip_norm), one_by_one, with_tensors]
)
def test_clip_rows_accepts(right, capsys):
    items.check_clip_rows(right)
    assert capsys.readouterr().out.startswith("✓ clip_rows")


def norm(gradients):
    return np.maximum(np.linalg.norm(gradients, axis=1, keepdims=True), 1e-300)


def by_norms(**which):
    def clip_rows(gradients, *, clip_norm):
        return gradients * (clip_norm / np.maximum(np.linalg.norm(gradients, keepdims=True, **which), clip_norm))

    return clip_rows


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
        (lambda gradients, *, clip_norm: gradients, "nothing is clipped"),
        (lambda gradients, *, clip_norm: gradients * np.maximum(1, clip_norm / norm(gradients)), "never below 1"),
        (
            lambda gradients, *, clip_norm: gradients * np.minimum(1, clip_norm / norm(gradients) ** 2),
            "a root is missing",
        ),
        (by_norms(axis=0), "run down the columns"),
        (by_norms(ord=1, axis=1), "adds up absolute values"),
        (by_norms(ord=np.inf, axis=1), "the largest coordinate"),
        (
            lambda gradients, *, clip_norm: gradients * min(1, clip_norm / norm(gradients).max(initial=1e-9)),
            "from its longest row",
        ),
        (lambda gradients, *, clip_norm: gradients / np.maximum(norm(gradients), clip_norm), "a factor is missing"),
        (lambda gradients, *, clip_norm: shorten(gradients, 1.0), "the clip norm is 1 in it"),
        (
            lambda gradients, *, clip_norm: np.where(
                norm(gradients) > clip_norm, gradients / norm(gradients), gradients
            ),
            "get length 1, whatever",
        ),
        (lambda gradients, *, clip_norm: gradients * (norm(gradients) <= clip_norm), "long gradients are dropped"),
        (
            lambda gradients, *, clip_norm: shorten(gradients, clip_norm / math.sqrt(gradients.shape[1])),
            "stays as it is",
        ),
        (
            lambda gradients, *, clip_norm: shorten(gradients, clip_norm * math.sqrt(gradients.shape[1])),
            "a mean of squares",
        ),
        (lambda gradients, *, clip_norm: np.minimum(gradients, clip_norm), "not at all on negative ones"),
        (lambda gradients, *, clip_norm: gradients * np.minimum(norm(gradients), clip_norm), "by its clipped norm"),
        (lambda gradients, *, clip_norm: np.minimum(norm(gradients)[:, 0], clip_norm), "these are the norms"),
        (lambda gradients, *, clip_norm: clip_norm / np.maximum(norm(gradients), clip_norm), "these are the factors"),
        (lambda gradients, *, clip_norm: shorten(gradients, clip_norm).sum(axis=0), "the rows are added up"),
        (
            lambda gradients, *, clip_norm: gradients * (clip_norm / np.maximum(norm(gradients)[:, 0], clip_norm)),
            "Give each row a factor of its own",
        ),
        (
            lambda gradients, *, clip_norm: (
                gradients / np.linalg.norm(gradients, axis=1, keepdims=True) * np.minimum(clip_norm, norm(gradients))
            ),
            "a row of zeros is divided",
        ),
        (
            lambda gradients, *, clip_norm: [
                row * min(1, clip_norm / max(1e-9, np.linalg.norm(row))) for row in gradients
            ],
            "a list of no rows",
        ),
        (
            lambda gradients, *, clip_norm: print(gradients),
            "For gradients = [[-5, 0]], clip_norm = 0.1, your clip_rows printed",
        ),
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


def as_a_list(inputs, output_gradients):
    return [
        math.sqrt(sum(v * v for v in g) * (sum(v * v for v in a) + 1))
        for a, g in zip(inputs, output_gradients, strict=True)
    ]


@pytest.mark.parametrize("right", [by_outer_products, with_a_one, as_a_list, lambda a, g: tuple(as_a_list(a, g))])
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
        (lambda a, g: norm(g)[:, 0], "gradient of the bias alone"),
        (lambda a, g: (norm(a) * norm(g))[:, 0] ** 2, "squares, and the bias is forgotten"),
        (lambda a, g: (norm(a) * norm(g))[:, 0] + 1, "the bias counts as 1"),
        (lambda a, g: np.hypot((norm(a) * norm(g))[:, 0], 1), "the bias counts as 1"),
        (lambda a, g: with_a_one(g, a), "have changed places"),
        (lambda a, g: (g**2).sum(1) * np.sqrt((a**2).sum(1) + 1), "still squared"),
        (lambda a, g: np.sqrt((g**2).sum(1)) * ((a**2).sum(1) + 1), "still squared"),
        (lambda a, g: np.hypot(norm(a), norm(g))[:, 0], "the squared norms are added"),
        (lambda a, g: (norm(a) + norm(g))[:, 0], "the norms are added"),
        (lambda a, g: np.sqrt((g**2).sum(0) * ((a**2).sum(0) + 1)), "run down the columns"),
        (lambda a, g: with_a_one(a, g) / len(a), "divided by the number of examples"),
        (lambda a, g: np.sqrt((g**2).sum() * ((a**2).sum() + 1)), "run over the whole batch"),
        (lambda a, g: np.linalg.norm(with_a_one(a, g)), "one number for the batch"),
        (lambda a, g: with_a_one(a, g)[:, None], "has shape (2, 1)"),
        (lambda a, g: 2 * with_a_one(a, g), "It must equal the norm of outer"),
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
        (0.4 * 1.2 / 250, "multiply by the clip norm, once"),
        (0.4 * 1.2, "without the clip norm"),
        (1.2 / 250, "learning rate and clip norm are factors"),
        (0.4 * 0.5 / 250, "σ is a factor"),
        (1.2 * 0.5 / 250 / 0.4, "a larger learning rate gives more noise"),
        (0.4 * 1.2 / 0.5 / 250, "a larger clip norm needs more noise"),
        (0.4 * 1.2 * 0.5**2 / 250, "is the clip norm used twice?"),
        (0.4**2 * 1.2 * 0.5 / 250, "the learning rate is used twice"),
        (0.4 * (1.2 * 0.5) ** 2 / 250, "need not be squared"),
        (0.4 * 1.2 * 0.5 * 250, "not multiplied"),
        (math.sqrt(9.6e-4), "the root of a standard deviation"),
        ((1.2 * 0.5 / 250) ** 2, "without the learning rate"),
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


@pytest.mark.parametrize(
    "right",
    [
        lonely((1000.0, 0.0)),
        [[0.0, -300.0]] + [[0.1, 0.0]] * 99,
        lonely((1e200, 0.0)),
        lonely((-1e308, 1e308)),
        torch.tensor(lonely((3.0, 4.0)), requires_grad=True),
        torch.tensor(lonely((3.0, 4.0)), requires_grad=True) * 2,
        [(1000, 0)] + [(0, 0)] * 99,
    ],
    ids=["array", "list", "huge", "hugest", "parameter", "graph", "integers"],
)
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
        (np.full((100, 2), 1e308), "keeps a long mean"),
        (lonely((1000.0, 0.0)).astype(complex), "100 gradients of 2 real numbers each"),
        (lonely((1000.0, 0.0)).astype(str), "100 gradients of 2 real numbers each"),
        ([[1000.0, 0.0], [0.0]], "100 gradients of 2 real numbers each"),
        (lonely, "100 gradients of 2 real numbers each"),
        ({"first": (1000.0, 0.0)}, "100 gradients of 2 real numbers each"),
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


def as_parameter(gradients, *, clip_norm, sigma, expected_batch, rng):
    total = torch.tensor(shorten(gradients, clip_norm).sum(axis=0), requires_grad=True)
    return (total + sigma * clip_norm * torch.tensor(rng.normal(size=len(total)))) / expected_batch


@pytest.mark.parametrize("right", [mechanism(), term_by_term, as_parameter])
def test_noisy_mean_accepts(right, capsys):
    items.check_noisy_mean(right)
    assert capsys.readouterr().out.count("✓ noisy_mean") == 2


def clips_the_mean(gradients, *, clip_norm, sigma, expected_batch, rng):
    mean = gradients.sum(axis=0) / expected_batch
    mean = mean / max(1.0, np.linalg.norm(mean) / clip_norm)
    return mean + rng.normal(scale=sigma * clip_norm / expected_batch, size=len(mean))


def one_noise_for_all(gradients, *, clip_norm, sigma, expected_batch, rng):
    return (shorten(gradients, clip_norm).sum(axis=0) + sigma * clip_norm * rng.normal()) / expected_batch


def clips(rule):
    return mechanism(clip=lambda gradients, c: rule(gradients, clip_norm=c))


def changed(**how):
    """The right mechanism at other values of its parameters."""

    def noisy_mean(gradients, **named):
        return mechanism()(gradients, **{**named, **how})

    return noisy_mean


def with_noise(draw):
    def noisy_mean(gradients, *, clip_norm, sigma, expected_batch, rng):
        rows = shorten(gradients, clip_norm)
        return (rows.sum(axis=0) + draw(rng, sigma * clip_norm, rows)) / expected_batch

    return noisy_mean


def clips_again(gradients, *, clip_norm, sigma, expected_batch, rng):
    total = shorten(gradients, clip_norm).sum(axis=0) + sigma * clip_norm * rng.normal(size=gradients.shape[1])
    return shorten(total[None], clip_norm)[0] / expected_batch


def forgets_the_columns(gradients, *, clip_norm, sigma, expected_batch, rng):
    rows = np.array([row * min(1.0, clip_norm / max(1e-9, np.linalg.norm(row))) for row in gradients])
    total = rows.sum(axis=0)
    return (total + rng.normal(scale=sigma * clip_norm, size=total.shape)) / expected_batch


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (clips(lambda gradients, clip_norm: np.clip(gradients, -clip_norm, clip_norm)), "each coordinate is clipped"),
        (clips(lambda gradients, clip_norm: clip_norm * gradients / norm(gradients)), "short ones too"),
        (clips(lambda gradients, clip_norm: np.minimum(clip_norm, gradients / norm(gradients))), "the printed rule"),
        (
            clips(lambda gradients, clip_norm: gradients / max(1.0, np.linalg.norm(gradients) / clip_norm)),
            "one factor for the whole batch",
        ),
        (clips(by_norms(axis=0)), "run down the columns"),
        (clips(by_norms(ord=1, axis=1)), "adds up absolute values"),
        (clips(by_norms(ord=np.inf, axis=1)), "the largest coordinate"),
        (clips(lambda gradients, clip_norm: shorten(gradients, 1.0)), "the clip norm is 1 in it"),
        (clips(lambda gradients, clip_norm: shorten(gradients, 2.0)), "the clip norm is 2 in it"),
        (clips(lambda gradients, clip_norm: shorten(gradients[:1], clip_norm)), "only the first example"),
        (clips(lambda gradients, clip_norm: shorten(gradients[-1:], clip_norm)), "only the last example"),
        (clips(lambda gradients, clip_norm: -shorten(gradients, clip_norm)), "its sign is turned"),
        (
            clips(lambda gradients, clip_norm: shorten(gradients.sum(axis=0)[None], clip_norm)),
            "the sum is clipped and not each example",
        ),
        (clips_again, "the sum is clipped once more"),
        (changed(expected_batch=256), "divided by 256, whatever"),
        (mechanism(over=lambda gradients, b: len(gradients)), "the number of examples that are there"),
        (mechanism(noise=lambda s, c, b: c), "in proportion to σ"),
        (mechanism(noise=lambda s, c, b: 3.0), "in proportion to σ"),
        (with_noise(lambda rng, scale, rows: rng.normal(scale, size=rows.shape[1])), "the second one the standard"),
        (mechanism(noise=lambda s, c, b: (s * c) ** 2), "it need not be squared"),
        (mechanism(noise=lambda s, c, b: math.sqrt(s * c)), "σC is not its variance"),
        (mechanism(noise=lambda s, c, b: s * c * math.sqrt(b)), "root of the batch size"),
        (mechanism(noise=lambda s, c, b: math.sqrt(2) * s * c), "times the standard deviation it needs"),
        (
            with_noise(lambda rng, scale, rows: rng.laplace(scale=scale / math.sqrt(2), size=rows.shape[1])),
            "it must be Gaussian",
        ),
        (
            with_noise(lambda rng, scale, rows: scale * rng.normal() * np.eye(rows.shape[1])[0]),
            "most coordinates get none",
        ),
        (
            with_noise(lambda rng, scale, rows: rng.normal(scale=scale, size=rows.shape).sum(axis=0)),
            "each of 64 examples",
        ),
        (
            with_noise(lambda rng, scale, rows: rng.normal(scale=scale, size=rows.shape[1]) * (len(rows) > 0)),
            "shows that nobody was drawn",
        ),
        (
            with_noise(lambda rng, scale, rows: rng.normal(scale=scale, size=rows.shape[1]) / max(1, len(rows))),
            "64 times the noise of a batch of 64",
        ),
        (forgets_the_columns, "for an empty batch, it returned shape ()"),
        (lambda gradients, *, clip_norm, sigma, expected_batch, rng: print(gradients), "printed its result"),
        (lambda gradients, *, clip_norm, sigma, expected_batch, rng: "x", "as many numbers as a gradient has"),
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


def split_noise(gradients, *, clip_norm, sigma, size, rng):
    pieces = pieces_of(gradients, size) or [gradients]
    scale = sigma * clip_norm / math.sqrt(len(pieces))
    return tuple(sum(shorten(p, clip_norm).sum(axis=0) + rng.normal(scale=scale, size=p.shape[1]) for p in pieces))


def shuffled(gradients, *, clip_norm, sigma, size, rng):
    mixed = torch.tensor(rng.permutation(gradients), requires_grad=True)
    return in_pieces(each=by_tensors)(mixed, clip_norm=clip_norm, sigma=sigma, size=size, rng=rng)


def by_tensors(piece, clip_norm):
    return with_tensors(piece.detach().numpy(), clip_norm=clip_norm).numpy()


def with_a_covariance(gradients, *, clip_norm, sigma, size, rng):
    total = shorten(gradients, clip_norm).sum(axis=0)
    return rng.multivariate_normal(total, (sigma * clip_norm) ** 2 * np.eye(len(total)))


@pytest.mark.parametrize("right", [in_pieces(), all_at_once, split_noise, shuffled, with_a_covariance])
def test_noisy_sum_accepts(right, capsys):
    items.check_noisy_sum(right)
    assert capsys.readouterr().out.startswith("✓ noisy_sum: 5 properties hold")


def clips_pieces(gradients, *, clip_norm, sigma, size, rng):
    sums = np.array([piece.sum(axis=0) for piece in pieces_of(gradients, size)]).reshape(-1, gradients.shape[1])
    return shorten(sums, clip_norm).sum(axis=0) + rng.normal(scale=sigma * clip_norm, size=gradients.shape[1])


def totals(total, noise=lambda rng, scale, gradients, size: rng.normal(scale=scale, size=gradients.shape[1])):
    def noisy_sum(gradients, *, clip_norm, sigma, size, rng):
        drawn = noise(rng, sigma * clip_norm, gradients, size)
        return total(gradients, clip_norm, size) + drawn

    return noisy_sum


def noises(noise):
    return totals(lambda gradients, c, size: shorten(gradients, c).sum(axis=0), noise)


def wider(factor):
    return noises(lambda rng, scale, g, size: factor(len(g), size) * scale * rng.normal(size=g.shape[1]))


def in_place(gradients, *, clip_norm, sigma, size, rng):
    gradients *= np.minimum(1.0, clip_norm / norm(gradients))
    return gradients.sum(axis=0) + rng.normal(scale=sigma * clip_norm, size=gradients.shape[1])


def takes_the_first(gradients, *, clip_norm, sigma, size, rng):
    return shorten(gradients[:size], clip_norm).sum(axis=0) + rng.normal(
        scale=sigma * clip_norm, size=gradients.shape[1]
    )


def keeps_the_last(gradients, *, clip_norm, sigma, size, rng):
    for piece in pieces_of(gradients, size):
        total = shorten(piece, clip_norm).sum(axis=0)
    return total + rng.normal(scale=sigma * clip_norm, size=gradients.shape[1])


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (in_place, "changes the gradients"),
        (takes_the_first, "is the return inside the loop?"),
        (keeps_the_last, "add the pieces up"),
        (totals(lambda g, c, size: shorten(g, 1.0).sum(axis=0)), "the clip norm is 1 in it"),
        (totals(lambda g, c, size: shorten(g, c).sum(axis=0) / max(1, len(g))), "it is the mean"),
        (totals(lambda g, c, size: shorten(g, c).sum(axis=0) / size), "divided by size"),
        (
            totals(lambda g, c, size: shorten(g, c).sum(axis=0) / max(1, len(pieces_of(g, size)))),
            "divided by the number of pieces",
        ),
        (totals(lambda g, c, size: shorten(g.sum(axis=0)[None], c)[0]), "the sum of all is clipped"),
        (totals(lambda g, c, size: shorten(shorten(g, c).sum(axis=0)[None], c)[0]), "the sum is clipped once more"),
        (totals(lambda g, c, size: -shorten(g, c).sum(axis=0)), "its sign is turned"),
        (in_pieces(each=lambda piece, c: np.clip(piece, -c, c)), "each coordinate is clipped"),
        (in_pieces(each=lambda piece, c: c * piece / norm(piece)), "short ones too"),
        (
            in_pieces(each=lambda piece, c: piece / max(1.0, np.linalg.norm(piece) / c)),
            "one factor for the whole batch",
        ),
        (in_pieces(each=lambda piece, c: by_norms(ord=1, axis=1)(piece, clip_norm=c)), "adds up absolute values"),
        (in_pieces(factor=lambda s, c: c), "in proportion to σ"),
        (in_pieces(factor=lambda s, c: s * c**2), "by the clip norm twice"),
        (in_pieces(factor=lambda s, c: s / c), "divided by the clip norm"),
        (in_pieces(factor=lambda s, c: (s * c) ** 2), "need not be squared"),
        (in_pieces(factor=lambda s, c: math.sqrt(s * c)), "σC is not its variance"),
        (in_pieces(factor=lambda s, c: 2 * s * c), "by C, not by 2 C"),
        (in_pieces(factor=lambda s, c: 1.2 * s * c), "and 1 is right"),
        (wider(lambda m, size: math.sqrt(m)), "each of the 96 examples got noise"),
        (wider(lambda m, size: size), "multiplied by size"),
        (wider(lambda m, size: math.sqrt(size)), "by the root of size"),
        (wider(lambda m, size: 1 / size), "divided by size"),
        (wider(lambda m, size: 1 / max(1, m)), "divided by the number of examples"),
        (wider(lambda m, size: max(1, m // size)), "by the number of pieces"),
        (wider(lambda m, size: 0.0 if m == 0 else 1.0), "shows that nobody was drawn"),
        (noises(lambda rng, scale, g, size: rng.normal(scale=scale)), "same number at each coordinate"),
        (
            noises(lambda rng, scale, g, size: rng.laplace(scale=scale / math.sqrt(2), size=g.shape[1])),
            "its distribution is not",
        ),
        (
            noises(lambda rng, scale, g, size: scale * math.sqrt(3) * rng.uniform(-1, 1, size=g.shape[1])),
            "its distribution is not",
        ),
        (
            noises(lambda rng, scale, g, size: np.random.default_rng(0).normal(scale=scale, size=g.shape[1])),
            "always the same",
        ),
        (lambda gradients, *, clip_norm, sigma, size, rng: "sum", "it must return 3 real numbers"),
        (lambda gradients, *, clip_norm, sigma, size, rng: np.zeros(3, dtype=complex), "it must return 3 real numbers"),
        (lambda gradients, *, clip_norm, sigma, size, rng: np.full(3, np.nan), "nan or infinity"),
        (lambda gradients, *, clip_norm, sigma, size, rng: [np.zeros(3)], "returned shape (1, 3)"),
        (lambda gradients, *, clip_norm, sigma, size, rng: ..., "not written yet"),
        (
            lambda gradients, *, clip_norm, sigma, size, rng: (
                np.zeros((0, 3))
                if len(gradients) == 0
                else all_at_once(gradients, clip_norm=clip_norm, sigma=sigma, size=size, rng=rng)
            ),
            "of an empty batch it is a vector, too",
        ),
        (in_pieces(noises="each"), "each of the 12 pieces got noise"),
        (in_pieces(drop=True), "the last piece, which is not full, is dropped"),
        (in_pieces(reduce=np.mean), "means of the pieces are added"),
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
        (64 * eps(4.0), "a power of the learning rate"),
        (eps(4.0) / 8, "a power of the learning rate"),
        (eps(4.0 / 16), "the sensitivity is doubled"),
        (eps(16.0), "the learning rate is missing"),
        (eps(16.0 / 8), "need not be squared"),
        (math.sqrt(2 * math.log(1.25e5)) / 0.5, "the classical formula"),
        (math.sqrt(2 * math.log(1.25e5)) / 4, "the classical formula"),
        (0.5, "the noise multiplier"),
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


OTHER_WORDS = [
    "231 is private information: it changes when somebody is added or removed. Then the sum is divided by another "
    "value, and the sensitivity is no longer C/B but larger. 250 is a constant, so that dividing by it is harmless.",
    "Dividing by 250, a public constant, is post-processing of the Gaussian mechanism and costs nothing. Dividing by "
    "231 would use a number that changes if one person joins or leaves, so the division itself leaks information.",
    "For two adjacent datasets the divisor 250 is the same, so the numerators differ by at most C and the result by at "
    "most C/250. With 231 against 230 the divisor differs too, and the difference may exceed that.",
    "The batch holds 231 examples only because of who happened to be drawn. If an individual leaves, the divisor "
    "becomes 230 and the whole average shifts; this influence is not bounded, so our noise is too small.",
]


@pytest.mark.parametrize(
    "right", [GOOD, GOOD.replace("removed", "added").replace("sensitivity", "Sensitivity"), *OTHER_WORDS]
)
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
        (
            GOOD[: GOOD.index(", and with it")] + " while the expected size is the same for both of them.",
            "the sensitivity",
        ),
        (
            "The expected size is used since the actual size depends on chance, and the estimate is then unbiased. "
            "A smaller batch would get larger steps, which adds variance to the training.",
            "the sensitivity",
        ),
        (OTHER_WORDS[2].replace("adjacent", "such"), "neighbouring datasets"),
        (..., "not written yet"),
        (3, "between triple quotes"),
    ],
)
def test_divisor_asks_for_what_is_missing(wrong, diagnosis):
    assert diagnosis in message(items.check_divisor, wrong)
