"""Constants, conditions and bounds of the Byzantine paper; where it is wrong as printed, its counterexamples run."""

import itertools
import math

import mpmath
import numpy as np
import pytest

from dpml.byzantine import theory
from tests.golden import golden

GOLDEN = golden("byzantine")
KAPPAS = {
    "krum": theory.kappa_krum,
    "mda": theory.kappa_mda,
    "median": theory.kappa_median,
    "bulyan": theory.kappa_bulyan,
}


def setting(row):
    return {
        "clip_norm": row["C"],
        "q": row["b"] / row["m"],
        "m": row["b"],
        "epsilon": row["eps"],
        "delta": row["delta"],
    }


def exact_delta(s, clip_norm, q, m, epsilon):
    """By integrating the definition: all gradients are -C, or the replaced one is +C, in one dimension."""
    with mpmath.workdps(30):
        s, step, q = mpmath.mpf(s), 2 * mpmath.mpf(clip_norm) / m, mpmath.mpf(q)

        def density(y, mean):
            return mpmath.npdf(y, mean, s)

        def above(y):  # averages less -C
            return max(0, (1 - q) * density(y, 0) + q * density(y, step) - mpmath.exp(epsilon) * density(y, 0))

        start = step / 2 + s**2 / step * mpmath.log1p(mpmath.expm1(epsilon) / q)  # here the two densities cross
        return float(mpmath.quad(above, [start, start + s, start + 4 * s, start + 12 * s, start + 40 * s]))


def test_theorem_1_fails_at_the_settings_of_the_paper():
    """C = 2, b = 25 of 120000, epsilon = 0.2, delta = 1e-5."""
    given = {"clip_norm": 2.0, "q": 25 / 120000, "m": 25, "epsilon": 0.2}
    s = theory.theorem_1_noise(**given, delta=1e-5)
    true = exact_delta(s, **given)
    assert true == pytest.approx(1.455e-5, rel=1e-3)
    assert theory.one_step_delta(s=s, **given) == pytest.approx(true, rel=1e-10)
    assert exact_delta(theory.worker_noise(**given, delta=1e-5), **given) == pytest.approx(1e-5, rel=1e-10)


def test_proposition_2_asks_for_what_no_gradient_reaches():
    """With gradients below C, eta = C meets the condition, whatever the rule: nothing above C^2 can be necessary."""
    row = next(row for row in GOLDEN["theorem1"] if (row["b"], row["m"], row["eps"]) == (1000, 60000, 0.2))
    bounds = theory.proposition_2_bounds(kappa=math.sqrt(8.0) * 6 / 9, dimension=79510, **setting(row))
    assert bounds.sharp == pytest.approx(9.777, rel=1e-3)
    assert bounds.necessary == pytest.approx(2.602, rel=1e-3)
    assert bounds.trivial == 4.0 < bounds.sharp
    assert bounds.sound == 4.0
    half = theory.proposition_2_bounds(
        kappa=math.sqrt(8.0) * 6 / 9, dimension=79510, largest_gradient=0.5, **setting(row)
    )
    assert half.sound == 0.25 < half.necessary  # eta = 0.5 is above every gradient, and below what is printed


def test_the_variance_of_a_batch_falls_with_its_size():
    """Lemma 3 bounds it by v^2; against all batches of a small set of records."""
    values = np.array([[0.0, 1.0], [2.0, -1.0], [5.0, 0.5], [-3.0, 2.0], [1.0, 1.0], [0.5, 4.0]])
    v = math.sqrt(((values - values.mean(0)) ** 2).sum(1).mean())
    found = []
    for m in range(1, 7):
        means = np.array([values[list(batch)].mean(0) for batch in itertools.combinations(range(6), m)])
        found.append(float(((means - values.mean(0)) ** 2).sum(1).mean()))
        assert theory.batch_variance(v=v, q=m / 6, m=m) == pytest.approx(found[-1], rel=1e-12, abs=1e-15)
    assert found[0] == pytest.approx(v**2)
    assert found == sorted(found, reverse=True)
    assert theory.batch_variance(v=1.0, q=25 / 60000, m=25) == pytest.approx(0.03998, rel=1e-3)
    assert theory.batch_variance(v=1.0, q=1000 / 60000, m=1000) == pytest.approx(0.00098335, rel=1e-4)


def test_theorem_2_fails_for_the_minimum_of_expectations():
    """Huber's loss, gradient clipped to [-1, 1], one honest gradient as the rule; below eta it throws theta out to 2.

    Squared gradients are in [0, 1]: by Hoeffding, one of 5000 means over 4000 paths is off by 0.08 with probability
    below 5000 exp(-2 * 4000 * 0.08^2) < 1e-18. The condition holds: kappa^2 s^2 < eta^2 for kappa = 0.3.
    """
    steps, eta, s, paths = 5000, 0.2, 0.5, 4000
    rng = np.random.default_rng(0)
    theta, least, expected = np.full(paths, 3.0), np.full(paths, np.inf), []
    for step in range(1, steps + 1):
        gradient = np.clip(theta, -1.0, 1.0)
        expected.append((gradient**2).mean())
        least = np.minimum(least, gradient**2)
        honest = gradient + s * rng.standard_normal(paths)
        theta = np.where(np.abs(gradient) <= eta, 2.0, theta - honest / math.sqrt(step))
    bound = theory.theorem_2_bound(
        eta=eta, gap=2.5, alpha=0.0, mu=1.0, smoothness=1.0, v=0.0, dimension=1, s=s, clip_norm=1.001, steps=steps
    )
    print(min(expected), bound, least.mean())
    assert min(expected) - 0.08 > bound.printed
    assert least.mean() + 0.08 < bound.sound
