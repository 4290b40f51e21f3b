"""Noise on whole numbers has the stated law, and ordinary noise in floating point has not."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from dpml import mechanisms
from dpml.mechanisms import discrete_noise, floating_point

ALARM = 1e-7


def fits(noise, probability):
    """Chi-squared of counts against a law on the whole numbers; rare values at both ends together."""
    n = noise.size
    kept = [k for k in range(-60, 61) if n * probability(k) >= 10]
    expected = [n * probability(k) for k in kept]
    seen = [np.count_nonzero(noise == k) for k in kept]
    wanted, observed = np.array([*expected, n - sum(expected)]), np.array([*seen, n - sum(seen)])
    return stats.chi2.sf(((observed - wanted) ** 2 / wanted).sum(), len(kept)) > ALARM


@pytest.mark.parametrize("scale", [0.6, 2.7])
def test_discrete_laplace_has_its_law(scale):
    noise = discrete_noise.discrete_laplace(np.full(4000, 5), scale=scale, rng=np.random.default_rng(1)) - 5
    top = math.tanh(0.5 / scale)
    assert noise.dtype == np.int64
    assert fits(noise, lambda k: top * math.exp(-abs(k) / scale))


@pytest.mark.parametrize("sigma", [0.5, 3.2])
def test_discrete_gaussian_has_its_law(sigma):
    noise = discrete_noise.discrete_gaussian(np.full((40, 100), -7), sigma=sigma, rng=np.random.default_rng(2)) + 7
    weights = np.exp(np.maximum(-700.0, -((np.arange(-60, 61) / sigma) ** 2) / 2))
    assert noise.shape == (40, 100)
    assert fits(noise.ravel(), lambda k: float(weights[k + 60] / weights.sum()))


def test_large_integers_and_single_answers():
    rng = np.random.default_rng(0)
    found = discrete_noise.discrete_gaussian(2**52, sigma=1e5, rng=rng)
    assert isinstance(found, np.int64) and abs(int(found) - 2**52) < 10**6
    drawn = [discrete_noise._below(3 * 2**70, rng) for _ in range(4000)]
    assert max(drawn) < 3 * 2**70
    assert stats.binomtest(sum(x < 2**70 for x in drawn), 4000, 1 / 3).pvalue > ALARM


@pytest.mark.parametrize("sigma", [0.02, 0.3, 1.0, 3.7, 20.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 3.0])
def test_gaussian_delta_against_the_definition(sigma, epsilon):
    """Half the sum of absolute values, and then the positive part, over the integers, in 60 digits."""
    with mp.workdps(60):
        s, k = mp.mpf(sigma), range(-int(60 * sigma) - 5, int(60 * sigma) + 6)
        p = {j: mp.exp(-(mp.mpf(j) ** 2) / (2 * s * s)) for j in k}
        exact = mp.fsum(max(0, p[j] - mp.exp(epsilon) * p.get(j - 1, 0)) for j in k) / mp.fsum(p.values())
    found = discrete_noise.discrete_gaussian_delta(sigma=sigma, epsilon=epsilon)
    assert found == pytest.approx(float(exact), rel=1e-11, abs=1e-300)


@pytest.mark.parametrize("scale", [0.01, 0.5, 1.0, 40.0])
def test_laplace_delta_against_the_definition(scale):
    with mp.workdps(30):
        r = mp.exp(-1 / mp.mpf(scale))
        for epsilon in (0.0, 0.3 / scale, 0.999 / scale, 1.0 / scale, 2.0 / scale, 1e308):
            # the outputs y <= 0 have loss 1/b, all others -1/b
            exact = max(mp.mpf(0), (1 - mp.exp(epsilon) * r) / (1 + r))
            found = discrete_noise.discrete_laplace_delta(scale=scale, epsilon=epsilon)
            assert found == pytest.approx(float(exact), rel=1e-9, abs=1e-16)


# ---- floating point ----


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.0])
def test_every_output_can_be_returned_for_its_own_answer(scale):
    rng = np.random.default_rng(0)
    for center in (0.0, 1.0, -12.5):
        y = mechanisms.laplace(np.full(500, center), scale=scale, rng=rng)
        assert floating_point.laplace_can_return(y, center=center, scale=scale).all()


def test_most_outputs_tell_two_answers_apart_for_certain():
    """Four of five outputs of D cannot come from D': delta is above 0.7, where the theorem for real numbers says 0."""
    y = mechanisms.laplace(np.zeros(2000), scale=1.0, rng=np.random.default_rng(1))
    proofs = int((~floating_point.laplace_can_return(y, center=1.0, scale=1.0)).sum())
    assert stats.binom.cdf(proofs, 2000, 0.7) > 1 - ALARM
    on_a_grid = np.round(y, 2)  # 10^13 times coarser than the gaps: too many numbers lead to each output
    assert abs(on_a_grid).max() < 30
