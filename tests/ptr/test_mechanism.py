"""Propose-test-release itself: threshold, test, branches, noise."""

import math

import numpy as np
import pytest
from scipy import stats

from dpml.ptr.propose_test_release import pass_probability, propose_test_release, threshold

SETTING = {"tau": 0.25, "sigma": 1.1, "scale": 1.0, "delta0": 1e-3}


def test_the_threshold_of_the_paper():
    assert threshold(scale=1.0, delta0=1e-8) == pytest.approx(17.7275, abs=5e-5)
    assert math.copysign(1.0, threshold(scale=1.0, delta0=0.5)) == 1.0


@pytest.mark.parametrize("margin", [0, 1, 6, 17, 18, 40, 400, math.inf])
@pytest.mark.parametrize(("scale", "delta0"), [(1.0, 1e-8), (3.0, 0.01), (0.5, 0.5), (7.0, 1e-300)])
def test_pass_probability_is_a_laplace_tail(margin, scale, delta0):
    limit = threshold(scale=scale, delta0=delta0)
    with np.errstate(under="ignore"):
        expected = 1.0 if margin == math.inf else float(stats.laplace(loc=margin, scale=scale).sf(limit))
    assert pass_probability(margin, scale=scale, delta0=delta0) == pytest.approx(expected, rel=1e-12, abs=0.0)
    assert pass_probability(0, scale=5e-324, delta0=delta0) == pytest.approx(delta0, rel=1e-12, abs=0.0)


@pytest.mark.parametrize(
    ("margin", "centre", "deviation"), [(40, 20.0, 1.1 * 0.25 * 3.0), (0, 10.0, 1.1 * 3.0)], ids=["passes", "fails"]
)
def test_each_branch_releases_its_function_with_its_noise(margin, centre, deviation):
    """A vector of 20,000 equal entries: mean and spread within six standard errors, normal by Kolmogorov-Smirnov."""
    f1, f2 = np.full(20_000, 10.0), np.full(20_000, 20.0)
    setting = {**SETTING, "tau": 0.75, "margin": margin, "bound": 3.0}
    run = propose_test_release(f1, f2=f2, **setting, rng=np.random.default_rng(8))
    assert run.passed == (margin == 40)
    assert run.value.shape == f1.shape
    assert abs(run.value.mean() - centre) < 6 * deviation / math.sqrt(20_000)
    assert run.value.std() == pytest.approx(deviation, rel=6 / math.sqrt(40_000))
    with np.errstate(under="ignore"):
        assert stats.kstest((run.value - centre) / deviation, "norm").pvalue > 1e-8


def test_the_noisy_margin_is_laplace_and_decides():
    rng = np.random.default_rng(2)
    setting = {**SETTING, "scale": 2.0, "margin": 5, "bound": 1.0, "rng": rng}
    limit = threshold(scale=2.0, delta0=SETTING["delta0"])
    runs = [propose_test_release(0.0, f2=0.0, **setting) for _ in range(2000)]
    assert stats.kstest([run.noisy_margin for run in runs], stats.laplace(5.0, scale=2.0).cdf).pvalue > 1e-8
    assert [run.passed for run in runs] == [run.noisy_margin > limit for run in runs]


def test_both_draws_are_made_in_either_branch():
    """The generator is left in the same state, whether the test passed or not."""
    states = []
    for margin in (0, 60):
        rng = np.random.default_rng(6)
        propose_test_release(np.zeros(3), f2=np.zeros(3), margin=margin, bound=1.0, **SETTING, rng=rng)
        states.append(rng.random())
    assert states[0] == pytest.approx(states[1], rel=0, abs=0)


def test_noise_that_floats_cannot_hold_is_refused():
    rng = np.random.default_rng(0)
    setting = {"margin": math.inf, "sigma": 1e-100, "tau": 1e-300, "scale": 1.0, "delta0": 0.1, "rng": rng}
    with pytest.raises(ValueError, match=r"^sigma must keep sigma \* tau"):
        propose_test_release(1.5, f2=1.25, bound=1.0, **setting)
    assert rng.random() == np.random.default_rng(0).random()
    with pytest.raises(ValueError, match=r"^sigma must keep value plus noise"):
        propose_test_release(0.0, f2=0.0, **{**setting, "bound": 1e308, "tau": 1.0, "sigma": 1e10, "margin": 0})
