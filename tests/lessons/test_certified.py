"""Answers to the checks of chapter 13, right and wrong; `test_answers` tries them."""

import math
from statistics import NormalDist

import numpy as np
from scipy.special import betaincinv, ndtri

from dpml.audit import samples
from dpml.certified.stobatch import budget
from dpml.lessons.certified import checks as items


def by_limit(count, draws, *, alpha, sigma):
    least = float(samples.lower_limit(count, trials=draws, alarm=alpha))
    return sigma * float(ndtri(least)) if least > 0.5 else 0.0


def by_beta(count, draws, *, alpha, sigma):
    """The quantile of a beta law, and Python's own normal law."""
    least = float(betaincinv(count, draws - count + 1, alpha))
    return max(0.0, NormalDist(0.0, sigma).inv_cdf(least))


def subtracting(noisy, *, known, index):
    return noisy - (noisy[index] - known)


def by_differences(noisy, *, known, index):
    return np.array([[known[j] + row[j] - noisy[index][j] for j in range(len(known))] for row in noisy])


def by_minimum(noisy, *, low):
    return noisy - noisy.min(axis=0) + low


def by_columns(noisy, *, low):
    return np.stack([column - min(column) + low for column in noisy.T], axis=1)


def scatter(images):
    centred = images - images.mean(axis=0)
    return centred.T @ centred


def by_svd(gradient, *, images, theta):
    return np.linalg.svd(gradient + scatter(images) @ theta)[1][1]


def by_eigenvalues(gradient, *, images, theta):
    left = gradient + len(images) * np.cov(images.T, bias=True).reshape(len(theta), -1) @ theta
    u, s, v = np.linalg.svd(left)
    rest = left - s[0] * np.outer(u[:, 0], v[0])
    return np.linalg.norm(rest, 2)


def by_formula(*, d, beta, m, epsilon_1):
    return 2 * m * epsilon_1 / (beta + 2)


def by_corners(*, d, beta, m, epsilon_1):
    """The loss of Laplace noise between two opposite corners."""
    scale = budget.input_scale(dimension=d, beta=beta, m=m, epsilon_1=epsilon_1)
    return float(np.abs(np.ones(d) - -np.ones(d)).sum() / scale)


def shares(epsilon, classes, label):
    weights = np.ones(classes)
    weights[label] = math.exp(epsilon)
    return weights / weights.sum()


def by_weights(labels, *, epsilon, classes, rng):
    return np.array([rng.choice(classes, p=shares(epsilon, classes, label)) for label in labels])


def by_package(labels, *, epsilon, classes, rng):
    return budget.randomized_labels(labels, epsilon=epsilon, classes=classes, rng=rng)


def one_lie(labels, *, epsilon, classes, rng):
    """One coin for all labels."""
    told = by_package(labels, epsilon=0.0, classes=classes, rng=rng)
    return np.array(labels) if rng.random() < 0.5 else told


def same_step(labels, *, epsilon, classes, rng):
    """Each label is right by itself, but all are changed together, by the same step."""
    step = 0 if rng.random() < budget.rr_keep(epsilon=epsilon, classes=classes) else rng.integers(1, classes)
    return (np.asarray(labels) + step) % classes


BACKGROUND, UNITS = -np.ones(3), np.ones(2)

RIGHT = {
    items.check_enough: [10, np.int64(10)],
    items.check_two: [1.0, 3 * 1.5 / 4.5],
    items.check_radius: [by_limit, by_beta],
    items.check_recover: [subtracting, by_differences],
    items.check_recover_all: [by_minimum, by_columns],
    items.check_second: [by_svd, by_eigenvalues],
    items.check_replaced: [
        (BACKGROUND, UNITS, BACKGROUND, -UNITS),
        ([-1, -1, -0.9], [-1, -1], [-1, -1, -1], [1, 0.9]),
    ],
    items.check_fresh_epsilon: [by_formula, by_corners],
    items.check_private_labels: [by_weights, by_package],
}

WRONG = {
    items.check_replaced: [
        ((BACKGROUND, UNITS, np.zeros(3), np.zeros(2)), "12 is allowed"),
        ((BACKGROUND, UNITS), "a tuple of four"),
        ((2 * BACKGROUND, UNITS, BACKGROUND, -UNITS), "in [-1, 1]"),
    ],
    items.check_private_labels: [(one_lie, "does not follow the law"), (same_step, "move together")],
}
