"""Smoothing: the radius against high precision and exact coverage; `test_central` attacks a network's certificates."""

import functools

import mpmath
import numpy as np
import pytest
from scipy.special import bdtrc, ndtr

from dpml.certified import smoothing
from tests.golden import golden
from tests.training.helpers import refuses

COHEN = golden("stobatch")["cohen"]


def quantile(p):
    """The quantile function of the normal law, from its inverse in mpmath."""
    return mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(p) - 1)


def test_the_golden_radius():
    found = smoothing.radius(COHEN["count"], draws=COHEN["n"], alpha=COHEN["alpha"], sigma=COHEN["sigma"])
    assert found == pytest.approx(COHEN["radius"], rel=1e-12) and found <= COHEN["radius"]


def test_radii_of_limits_in_high_precision():
    pairs = [(0.6, 0.4), (0.5 + 1e-12, 0.5 - 1e-12), (1.0 - 1e-15, 1e-300), (0.9, 0.05), (1e-10, 1e-11), (0.3, 0.2999)]
    with mpmath.workdps(330):  # 1 - 1e-300 has that many digits
        for p, u in pairs:
            true = float((quantile(p) - quantile(u)) / 2)
            found = smoothing.gaussian_radius(p, upper=u, sigma=1.0)
            assert found <= true and found == pytest.approx(true, rel=1e-10, abs=1e-13)
        for u in np.random.default_rng(0).uniform(0.0, 1.0, 50):  # neighbouring floats, whose difference is rounding
            p = float(u * (1.0 + 2.0**-51))
            true = float((quantile(p) - quantile(u)) / 2)
            assert smoothing.gaussian_radius(p, upper=u, sigma=1.0) <= true
    for p, u in [(0.3, 0.3), (0.1, 0.7), (0.0, 0.5)]:
        assert smoothing.gaussian_radius(p, upper=u, sigma=1.0) == 0.0
        assert smoothing.laplace_radius(p, upper=u, scale=1.0) == 0.0


def test_no_laplace_radius_is_too_large():
    rng = np.random.default_rng(0)
    near, any_size = 1.0 - 2.0 ** -rng.uniform(0.1, 53.0, 1000), 2.0 ** -rng.uniform(0.01, 300.0, 500)
    p = np.concatenate([near, any_size, [1.0 - 2.0**-53, 1.0 - 2.0**-53]])
    u = np.concatenate(
        [2.0 ** -rng.uniform(0.1, 60.0, 1300), 2.0 ** -rng.uniform(60.0, 1000.0, 200), [2.0**-54, 2e-17]]
    )
    found = smoothing.laplace_radius(p, upper=u, scale=1.0)
    with mpmath.workdps(330):
        for one, other, radius in zip(p, u, found, strict=True):
            high, low = mpmath.mpf(float(one)), mpmath.mpf(float(other))
            true = max(mpmath.log(high / low) / 2, -mpmath.log(1 - high + low), mpmath.mpf(0))
            assert radius <= true and radius == pytest.approx(float(true), rel=1e-12)


def test_counts_from_none_to_all():
    draws, alpha = 500, 1e-3
    radii = smoothing.radius(np.arange(draws + 1), draws=draws, alpha=alpha, sigma=0.25)
    assert (np.diff(radii) >= 0.0).all() and radii[0] == 0.0
    some = np.flatnonzero(radii)
    assert (np.diff(radii[some[0] :]) > 0.0).all() and some[0] > draws / 2
    with mpmath.workdps(50):
        best = quantile(mpmath.mpf(alpha) ** (mpmath.mpf(1) / draws)) / 4
    assert radii[-1] == pytest.approx(float(best), rel=1e-12) and radii[-1] <= best


@pytest.mark.parametrize("alpha", [0.5, 0.125, 1e-3, 1e-9, 1e-250])
def test_the_draws_needed_are_the_fewest(alpha):
    least = smoothing.draws_needed(alpha=alpha)
    assert 2.0**-least < alpha <= 2.0 ** (1 - least)
    assert smoothing.radius(least, draws=least, alpha=alpha, sigma=1.0) > 0.0
    if least > 1:
        message = rf"^draws must be at least {least} for any certificate at alpha = {alpha}, got {least - 1}$"
        with pytest.raises(ValueError, match=message):
            smoothing.radius(1, draws=least - 1, alpha=alpha, sigma=1.0)


def test_many_draws_keep_their_digits():
    """With 2^40 draws that all agree, 1 - p is 6e-12; its digits decide the radius."""
    draws = 2**40
    with mpmath.workdps(60):
        best = -quantile(-mpmath.expm1(mpmath.log(mpmath.mpf(1e-3)) / draws))
    found = smoothing.radius(draws, draws=draws, alpha=1e-3, sigma=1.0)
    assert found == pytest.approx(float(best), rel=1e-11) and found <= best


@pytest.mark.parametrize("truth", [0.501, 0.6, 0.9, 0.99])
@pytest.mark.parametrize("alpha", [0.2, 0.01])
def test_a_radius_is_too_large_with_probability_at_most_alpha(truth, alpha):
    """Exactly, over all counts."""
    draws = 60
    with mpmath.workdps(30):
        true = float(quantile(truth))
    too_large = np.flatnonzero(smoothing.radius(np.arange(draws + 1), draws=draws, alpha=alpha, sigma=1.0) > true)
    wrong = bdtrc(too_large[0] - 1, draws, truth) if too_large.size else 0.0
    assert wrong <= alpha * (1.0 + 1e-9)
    assert not too_large.size or wrong > alpha / 50.0, "and the limit is not idle"


def half_space(x):
    return (np.asarray(x).reshape(len(x), -1) @ np.array([0.6, 0.8]) > 0.0).astype(np.int64)


def test_certificates_of_a_half_space():
    """The distance to the plane is the true radius: none is exceeded, and few draws would be enough for most of it."""
    distances = np.array([-2.0, -0.3, -0.01, 0.0, 0.02, 0.5, 1.3])
    x = distances[:, None] * np.array([0.6, 0.8]) + 3.0 * np.array([-0.8, 0.6])
    found = smoothing.certify(
        half_space, x=x, sigma=0.5, draws=100_000, alpha=1e-7, classes=2, rng=np.random.default_rng(0)
    )
    assert (found.radii <= np.abs(distances)).all(), "false alarm below 7e-7"
    clear, shares = [0, 1, 5, 6], ndtr(np.abs(distances) / 0.5)
    assert (found.radii > 0.5 * np.minimum(np.abs(distances), 1.2))[clear].all()
    assert found.labels[clear].tolist() == [0, 0, 1, 1]
    assert found.labels[3] == smoothing.ABSTAIN and found.radii[3] == 0.0
    spread = np.sqrt(100_000 * shares * (1.0 - shares))
    assert (np.abs(found.counts - 100_000 * shares) < 6.0 * spread + 1.0)[clear].all()
    assert found.draws == 100_000 and found.alpha == 1e-7 and found.sigma == 0.5


def test_the_same_draws_in_parts_and_in_single_precision(monkeypatch):
    x = np.random.default_rng(1).normal(size=(3, 2, 1)).astype(np.float32)
    more = {"sigma": 0.5, "draws": 1000, "alpha": 1e-3, "classes": 2}
    seen = []

    def predict(noisy):
        seen.append((noisy.dtype, noisy.shape))
        return half_space(noisy)

    whole = smoothing.certify(predict, x=x, rng=np.random.default_rng(2), **more)
    assert {dtype for dtype, _ in seen} == {np.dtype(np.float32)} and seen[1][1] == (1000, 2, 1)
    monkeypatch.setattr(smoothing, "_AT_ONCE", 2 * 300)
    parts = smoothing.certify(half_space, x=x, rng=np.random.default_rng(2), **more)
    assert parts.counts.tolist() == whole.counts.tolist()
    double = smoothing.certify(predict, x=x.astype(float), rng=np.random.default_rng(2), **more)
    assert seen[-1][0] == np.float64 and np.abs(double.counts - whole.counts).max() < 100


# ---- refusals ----


def test_what_certify_refuses():
    """Numbers out of their ranges are in `test_bad_input`."""
    good = {"predict": half_space, "x": np.zeros((2, 2)), "sigma": 0.5, "draws": 100, "alpha": 0.01, "classes": 2}
    no_labels = [lambda x, labels=labels: labels(len(x)) for labels in (np.zeros, lambda n: np.zeros(n - 1, int))]
    no_labels += [lambda x, label=label: np.full(len(x), label) for label in (2, -1)]
    too_fine = {"sigma": 1e-40, "x": np.zeros((2, 2), np.float32)}
    certify = functools.partial(smoothing.certify, rng=np.random.default_rng(0))
    refuses(certify, good, predict=no_labels, x=(1.0, np.zeros((0, 2))), sigma=(1e308, too_fine), draws=(6,))
