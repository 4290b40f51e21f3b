"""Convergence of trimmed SGD under corruption: a simulation inside the bound, limits, and the paper's condition."""

import math

import numpy as np
import pytest

from dpml.ptr import convergence, trimmed_sum

SETTING = {"convexity": 1.0, "bound": 2.0, "batch": 40, "trim": 6, "dimension": 5, "sigma": 1.1, "learning_rate": 0.05}


def squared_distances(attack, *, runs, steps, corrupted=6):
    """Mean squared distances of projected SGD on losses |theta - z|^2 / 2 over the unit ball, honest z in it.

    `attack` returns the corrupted gradients, from where the model and the optimum are.
    """
    n, trim, radius = SETTING["batch"], SETTING["trim"], SETTING["bound"]
    rate, sigma, p = SETTING["learning_rate"], SETTING["sigma"], SETTING["dimension"]
    rng = np.random.default_rng(0)
    optimum = np.zeros(p)
    found = np.zeros(steps + 1)
    for _ in range(runs):
        theta = np.full(p, 1.0) / math.sqrt(p)
        found[0] += theta @ theta / runs
        for step in range(steps):
            z = rng.normal(size=(n - corrupted, p))
            z *= 0.9 / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 0.9)
            gradients = np.vstack([theta - z, np.tile(attack(theta - optimum), (corrupted, 1))])
            passed = rng.random() < 0.5
            total = trimmed_sum.clipped_trimmed_sum(gradients, trim=trim if passed else 0, bound=radius)
            noise = sigma * radius * (0.5 if passed else 1.0) * rng.normal(size=p)
            theta = theta - rate * (total + noise) / n
            theta = theta / max(1.0, float(np.linalg.norm(theta)))
            found[step + 1] += theta @ theta / runs
    return found


@pytest.mark.parametrize(
    "attack",
    [
        lambda away: -2.0 * away / max(1e-12, float(np.linalg.norm(away))),
        lambda away: np.array([-1.0, 0.0, 0.0, 0.0, 0.0]),
        lambda away: -0.6 * away / max(1e-12, float(np.linalg.norm(away))),
    ],
    ids=["away from the optimum", "one direction", "too short to be trimmed"],
)
def test_a_strongly_convex_simulation_stays_inside_the_bound(attack):
    """Means of 25 runs, where the test passes in every second step."""
    bound = convergence.distance_bound(1.0, **SETTING, steps=100)
    found = squared_distances(attack, runs=25, steps=100)
    assert (found <= bound**2 + 1e-9).all()
    assert bound[-1] < bound[0]
    assert found[-1] < 0.5 * found[0]


def test_the_recursion_by_hand():
    found = convergence.distance_bound(3.0, **SETTING, steps=2)
    one = 9 * (1 - 2 * 0.05 * 34 / 40) + 4 * 0.05 * 6 * 2 / 40 * 3 + (0.05 * 2) ** 2 * (1 + 5 * 1.21 / 1600)
    two = one * (1 - 2 * 0.05 * 34 / 40) + 4 * 0.05 * 6 * 2 / 40 * math.sqrt(one) + 0.01 * (1 + 5 * 1.21 / 1600)
    assert found == pytest.approx([3.0, math.sqrt(one), math.sqrt(two)], rel=1e-12)


def test_small_steps_rest_where_the_corruption_holds_them():
    rest = convergence.resting_distance(convexity=1.0, bound=2.0, batch=40, trim=6)
    assert rest == pytest.approx(24 / 34)
    for start in (0.0, 5.0):
        slow = convergence.distance_bound(start, **{**SETTING, "learning_rate": 1e-3}, steps=20_000)
        assert slow[-1] == pytest.approx(rest, rel=0.01)
    assert convergence.resting_distance(convexity=1.0, bound=2.0, batch=40, trim=0) == 0.0


def test_the_papers_condition_excludes_its_own_settings():
    at_a_quarter = convergence.least_tau(batch=256, trim=64)
    assert at_a_quarter == pytest.approx(math.sqrt(0.75 * 257 / 256), rel=1e-12)
    for tau in (0.5, 2 / 3, 0.6):
        assert tau < at_a_quarter
    assert convergence.least_tau(batch=256, trim=0) == 1.0
    assert convergence.least_tau(batch=2_000_000, trim=500_000) == pytest.approx(0.8660, abs=1e-4)


def test_a_learning_rate_beyond_the_proof_is_refused():
    edge = 40 / (2 * 34)
    assert np.isfinite(convergence.distance_bound(1.0, **{**SETTING, "learning_rate": edge * 0.999}, steps=5)).all()
    with pytest.raises(ValueError, match=r"learning_rate must be in \(0, "):
        convergence.distance_bound(1.0, **{**SETTING, "learning_rate": edge * 1.01}, steps=5)
