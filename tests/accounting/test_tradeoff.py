"""False positive and false negative rates: against quadrature, the thresholds themselves, and each other."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from dpml.accounting import tradeoff
from dpml.mechanisms import gaussian_delta, laplace_delta

GRID = np.concatenate([[0.0], 10.0 ** np.linspace(-300, -2, 40), np.linspace(0.01, 0.99, 99), [1 - 1e-12, 1.0]])


CURVES = [
    (stats.norm, lambda fpr, noise: tradeoff.gaussian_fnr(fpr, sigma=noise)),
    (stats.laplace, lambda fpr, noise: tradeoff.laplace_fnr(fpr, scale=noise)),
]


@pytest.mark.parametrize(("law", "curve"), CURVES, ids=["Gauss", "Laplace"])
@pytest.mark.parametrize("noise", [0.1, 0.2, 1.0, 5.0])
def test_a_curve_is_that_of_the_threshold_tests(law, curve, noise):
    """Guess D, around 0, where the output is below the threshold, and D', around 1, above."""
    thresholds = np.linspace(-5 * noise, 1 + 5 * noise, 41)
    fpr, fnr = law.cdf(thresholds, 1, noise), law.sf(thresholds, 0, noise)
    np.testing.assert_allclose(curve(fpr, noise), fnr, rtol=1e-9, atol=1e-13)


def test_far_tails_against_mpmath():
    with mp.workdps(400):
        for sigma in (0.5, 3.0):
            for threshold in (-30.0, -12.0, 0.3):
                fpr = mp.ncdf((mp.mpf(threshold) * sigma - 1) / sigma)
                fnr = mp.ncdf(-mp.mpf(threshold))
                got = float(tradeoff.gaussian_fnr(float(fpr), sigma=sigma))
                assert got == pytest.approx(float(fnr), rel=1e-12)


@pytest.mark.parametrize(
    ("which", "noise", "delta"),
    [
        (0, 0.7, lambda e: gaussian_delta(sigma=0.7, epsilon=e)),
        (0, 4.0, lambda e: gaussian_delta(sigma=4.0, epsilon=e)),
        (1, 0.5, lambda e: laplace_delta(scale=0.5, epsilon=e)),
        (1, 3.0, lambda e: laplace_delta(scale=3.0, epsilon=e)),
    ],
)
def test_every_guarantee_is_below_the_curve_and_touches_it(which, noise, delta):
    """The curve is the upper envelope of the bounds of all its (epsilon, delta) pairs (convex duality)."""
    grid = np.linspace(0.0, 1.0, 4001)
    for epsilon in (0.0, 0.1, 0.3, 1.0, 2.0):
        bound = tradeoff.fnr_lower_bound(grid, epsilon=epsilon, delta=delta(epsilon))
        gap = CURVES[which][1](grid, noise) - bound
        assert gap.min() >= -1e-12
        if delta(epsilon) > 1e-3:
            assert gap.min() < 1e-4, "the delta is the least possible, so the two touch"


def test_lower_bound_is_the_definition():
    """The definition for the event and for its complement, solved for the false negative rate."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        epsilon, delta, fpr = rng.uniform(0, 4), rng.uniform(0, 1), rng.uniform(0, 1)
        fnr = float(tradeoff.fnr_lower_bound(fpr, epsilon=epsilon, delta=delta))
        holds = (
            1 - fnr <= math.exp(epsilon) * fpr + delta + 1e-12 and 1 - fpr <= math.exp(epsilon) * fnr + delta + 1e-12
        )
        assert holds
        lower = fnr - 1e-9
        still = 1 - lower <= math.exp(epsilon) * fpr + delta and 1 - fpr <= math.exp(epsilon) * lower + delta
        assert fnr == pytest.approx(0.0, abs=0) or not still


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 690.0, 710.0, 1e300])
@pytest.mark.parametrize("delta", [0.0, 1e-300, 0.3, 1.0])
def test_lower_bound_range(epsilon, delta):
    bound = tradeoff.fnr_lower_bound(GRID, epsilon=epsilon, delta=delta)
    assert np.all((bound >= 0.0) & (bound <= 1.0 - delta))
    assert np.all(np.diff(bound) <= 1e-15)
    assert bound[0] == pytest.approx(1.0 - delta)
    assert bound[-1] == pytest.approx(0.0, abs=0)
    tiny = tradeoff.fnr_lower_bound(1e-305, epsilon=701.0, delta=0.0)
    assert float(tiny) == pytest.approx(1 - float(mp.mpf("1e-305") * mp.e**701), rel=1e-12)


@pytest.mark.parametrize("noise", [5e-324, 1e-9, 0.003, 0.5, 1.0, 1e9, 1.7e308])
def test_curves_at_their_ends(noise):
    for curve in (curve(GRID, noise) for _, curve in CURVES):
        assert np.all((curve >= 0.0) & (curve <= 1.0))
        assert np.all(np.diff(curve) <= 1e-15)
        assert curve[0] == pytest.approx(1.0)
        assert curve[-1] == pytest.approx(0.0, abs=0)
        assert np.all(curve <= 1.0 - GRID + 1e-15), "no test is worse than guessing"
        if noise >= 1e9:
            np.testing.assert_allclose(curve, 1.0 - GRID, atol=1e-8)


def test_the_ends_of_the_range_of_floats():
    """Where e^(-1/scale) is subnormal and has no digits left, the ratio to an fpr of that size still does."""
    with mp.workdps(40):
        for scale in (1 / 744.44, 1 / 741.0, 1 / 735.5, 1 / 700.0):
            for fpr in (5e-324, 1e-323, 1e-321, 1e-300, 0.3):
                decay, alpha = mp.exp(-1 / mp.mpf(scale)), mp.mpf(fpr)
                truth = 1 - alpha / decay if alpha <= decay / 2 else decay / (4 * alpha)
                got = float(tradeoff.laplace_fnr(fpr, scale=scale))
                assert got == pytest.approx(float(truth), rel=1e-11, abs=1e-320)
    assert float(tradeoff.laplace_fnr(5e-324, scale=1 / 744.44)) == pytest.approx(0.25, abs=1e-3)
    for epsilon, delta in ((0.0, 0.5), (1.0, 1.0), (800.0, 0.3)):
        assert not np.signbit(tradeoff.fnr_lower_bound([0.0, 0.5, 1.0], epsilon=epsilon, delta=delta)).any()
