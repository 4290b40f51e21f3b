"""Answers to the exercises of chapter 12, right and wrong; `test_answers` tries them."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpml import mechanisms
from dpml.byzantine import aggregation, theory
from dpml.lessons.byzantine import checks as items
from dpml.lessons.byzantine import explorers


def in_a_loop(vectors, *, n_byzantine):
    mixed = []
    for row in vectors:
        order = sorted(range(len(vectors)), key=lambda j: (float(np.sum((vectors[j] - row) ** 2)), j))
        mixed.append(sum(vectors[j] for j in order[: len(vectors) - n_byzantine]) / (len(vectors) - n_byzantine))
    return mixed


def by_partition(vectors, *, n_byzantine):
    """Without the farthest f."""
    squares = ((vectors[:, None] - vectors) ** 2).sum(axis=2)
    return np.array([vectors[np.sort(np.argsort(row)[: len(row) - n_byzantine])].mean(axis=0) for row in squares])


def in_the_plane(values, *, n_byzantine):
    """By the rule for vectors."""
    return float(aggregation.mda(np.asarray(values)[:, None], n_byzantine=n_byzantine)[0])


def from_each_start(values, *, n_byzantine):
    best, least = None, math.inf
    line = sorted(float(value) for value in values)
    for start in range(n_byzantine + 1):
        run = line[start : start + len(line) - n_byzantine]
        if run[-1] - run[0] < least:
            best, least = sum(run) / len(run), run[-1] - run[0]
    return best


def vector_of(middle=np.mean, numbers=3):
    """The worker's vector with another middle of the clipped gradients, or with so many random numbers."""

    def worker_vector(gradients, *, clip_norm, sigma, rng):
        factors = np.minimum(1.0, clip_norm / np.linalg.norm(gradients, axis=1))
        return middle(gradients * factors[:, None], axis=0) + rng.normal(0.0, sigma * clip_norm / len(factors), numbers)

    return worker_vector


def clipped_first(gradients, *, clip_norm, sigma, rng):
    rows = [g if np.linalg.norm(g) <= clip_norm else clip_norm * g / np.linalg.norm(g) for g in gradients]
    return (sum(rows) + sigma * clip_norm * rng.standard_normal(3)) / len(rows)


def solved(clip_norm, *, m, records, epsilon, delta):
    """By bisection of the exact δ."""
    q, low, high = m / records, 0.0, 100.0 * clip_norm
    for _ in range(200):
        s = (low + high) / 2
        found = theory.one_step_delta(s=s, clip_norm=clip_norm, q=q, m=m, epsilon=epsilon)
        low, high = (s, high) if found > delta else (low, s)
    return high


def calibrated(clip_norm, *, m, records, epsilon, delta):
    base = math.log(1 + (math.exp(epsilon) - 1) * records / m)
    return 2 * clip_norm * mechanisms.gaussian_sigma(epsilon=base, delta=delta * records / m) / m


def by_trying(gradients, *, m, s):
    means = [np.mean(batch, axis=0) for batch in itertools.combinations(gradients, m)]
    apart = [np.sum((one - other) ** 2) for one in means for other in means]
    return np.mean(apart) + 2 * gradients.shape[1] * s * s


def by_formula(gradients, *, m, s):
    sampled = gradients.var(axis=0, ddof=1) / m * (1 - m / len(gradients))
    return float((2 * (sampled + s**2)).sum())


def by_hand(n, *, n_byzantine, neighbours):
    return math.sqrt((neighbours + n_byzantine - 1) / (neighbours - n_byzantine + 1) + 1 / (n - n_byzantine))


def by_search(n, *, n_byzantine, neighbours):
    """With the scores of all workers, in the limit of many dimensions, by bisection in z."""
    h = n - n_byzantine
    low, high = 0.0, 100.0
    for _ in range(100):
        z = (low + high) / 2
        squares = np.full((n, n), 1 - 1 / h + z * z)
        squares[:h, :h], squares[h:, h:] = 2.0, 0.0
        np.fill_diagonal(squares, 0.0)
        scores = np.sort(squares, axis=1)[:, 1 : neighbours + 1].sum(axis=1)
        low, high = (z, high) if scores[-1] < scores[0] else (low, z)
    return low


RIGHT = {
    items.check_lie: [-29, Fraction(-29)],
    items.check_least_n: [110, 110.0],
    items.check_mix: [in_a_loop, by_partition],
    items.check_mda_line: [in_the_plane, from_each_start],
    items.check_worker_vector: [vector_of(), clipped_first],
    items.check_least_noise: [solved, calibrated],
    items.check_refuted: [{"m": 5, "epsilon": 0.9, "delta": 1e-5}, {"m": np.int64(1), "epsilon": 0.2, "delta": 1e-6}],
    items.check_pair_distance: [by_trying, by_formula],
    items.check_liar_limit: [by_hand, by_search],
    items.check_beyond: [
        {"honest": [0.0, 1.0], "lies": [1.9]},
        {"honest": np.array([[0, 0], [3, 0], [3, 0.1]]), "lies": [[5.0, 0.0]]},
    ],
}

WRONG = {
    items.check_worker_vector: [
        (vector_of(numbers=1), "move together"),
        (vector_of(np.median), "does not follow the law"),
    ],
    items.check_refuted: [
        ({"m": 25, "epsilon": 0.2, "delta": 1e-5}, "Make ε′ larger"),
        ({"m": 5, "epsilon": 0.9, "delta": 0.1}, "no noise is needed"),
        ({"m": 2.5, "epsilon": 0.9, "delta": 1e-5}, "whole number"),
        ({"m": 5, "epsilon": math.nan, "delta": 1e-5}, "above 0"),
    ],
    items.check_beyond: [
        ({"honest": [0.0, 1.0], "lies": [0.8]}, "A lie must be kept"),
        ({"honest": [0.0], "lies": [1.0]}, "more workers must be honest"),
        ({"honest": [[0.0, 1.0]], "lies": [1.0]}, "of one length"),
        ([0.0, 1.0, 1.9], "with the keys"),
    ],
}


# ---- the explorers say what is true ----


def test_the_answer_of_a_rule_in_the_plane_is_computed_from_the_points_that_are_shown():
    figure = explorers.rules_in_the_plane()
    for rule, function in (("krum", aggregation.krum), ("mda", aggregation.mda), ("median", aggregation.median)):
        frame = figure.frame(rule=rule, distance=2.0, liars=2)
        honest, lies, middle, answer = frame.marks
        rows = np.array([[*honest.x, *lies.x, *lies.x], [*honest.y, *lies.y, *lies.y]]).T
        assert len(rows) == 15
        right = function(rows, n_byzantine=2)
        assert (answer.x[0], answer.y[0]) == pytest.approx(tuple(right))
        off = math.dist(right, (middle.x[0], middle.y[0]))
        assert f" {off:.2f}." in frame.title and frame.beside[-1].y[0] == pytest.approx(off)


@pytest.mark.parametrize("liars", [3, 6])
def test_who_is_picked_in_high_dimension_changes_at_the_thresholds(liars):
    """Both are limits; at d = 30,000 they are right to a few hundredths of z."""
    figure = explorers.distances_under_noise()
    krum, mda = (f(n=15, n_byzantine=liars) for f in (theory.krum_threshold, theory.mda_threshold))
    for z in figure.controls[1].values:
        title = figure.frame(d=30_000, z=z, liars=str(liars)).title
        if abs(z - krum) > 0.02:
            assert ("picks a liar" in title) == (z < krum), title
        if abs(z - mda) > 0.02:
            assert f"keeps {liars if z < mda else 0} of the {liars}" in title, title


def test_the_least_batch_of_the_map_is_where_the_bound_passes_the_square_of_the_clip_norm():
    for liars, epsilon, m in ((3, 0.2, 422), (6, 0.2, 2277)):
        assert f"from m = {m:,} on" in explorers.eta_map().frame(liars=liars, epsilon=epsilon).title
        kappa = math.sqrt(8) * liars / (15 - liars)
        step = {"clip_norm": 2.0, "epsilon": epsilon, "delta": 1e-5}
        at, before = (theory.theorem_1_noise(q=size / 60_000, m=size, **step) for size in (m, m - 1))
        assert kappa**2 * 79_510 * at**2 < 4 <= kappa**2 * 79_510 * before**2


def test_the_delta_of_one_step_is_that_of_the_theory():
    step = {"clip_norm": 2.0, "q": 25 / 120_000, "m": 25, "epsilon": 0.2}
    frame = explorers.one_step().frame(m=25, epsilon=0.2, records="120000")
    exact = theory.one_step_delta(s=theory.theorem_1_noise(**step, delta=1e-5), **step)
    assert frame.marks[-1].y[0] == pytest.approx(exact, rel=1e-6)
    assert "δ = 1.46e-05, more than" in frame.title


# ---- what the chapter proves ----


def test_mda_keeps_the_promise_of_the_chapter():
    """For liars of many kinds; with one liar of three it comes as near to its bound as one likes."""
    rng = np.random.default_rng(0)
    tightest = 0.0
    for _ in range(300):
        n = int(rng.integers(3, 12))
        f = int(rng.integers(1, (n - 1) // 2 + 1))
        honest = rng.normal(size=(n - f, 2))
        lies = honest.mean(axis=0) + rng.normal(size=2) * rng.uniform(0.0, 4.0) + 0.1 * rng.normal(size=(f, 2))
        off = np.linalg.norm(aggregation.mda(np.vstack([honest, lies]), n_byzantine=f) - honest.mean(axis=0))
        bound = 2 * f / (n - f) * math.sqrt(aggregation.squared_distances(honest).max())
        assert off <= bound * (1 + 1e-12)
        tightest = max(tightest, off / bound)
    assert tightest > 0.4, "the liars tried are too weak to tell"
    close = aggregation.mda(np.array([[0.0], [1.0], [1.999]]), n_byzantine=1)[0] - 0.5
    assert close == pytest.approx(1.0, abs=1e-3)


def test_noise_has_the_distances_that_the_proof_takes():
    rng = np.random.default_rng(0)
    honest, z = rng.normal(size=(12, 100_000)), 0.7
    squares = aggregation.squared_distances(np.vstack([honest, honest.mean(axis=0) + z * honest.std(axis=0, ddof=1)]))
    squares /= 100_000
    # The mean of 100,000 squares of variance at most 8: six deviations are 0.054.
    assert squares[:12, :12][np.triu_indices(12, 1)] == pytest.approx(np.full(66, 2.0), abs=0.06)
    assert squares[12, :12] == pytest.approx(np.full(12, 1 - 1 / 12 + z**2), abs=0.06)
    assert theory.vn_ratio(honest) == pytest.approx(math.sqrt(12), rel=0.02)
