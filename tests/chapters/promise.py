"""The numbers of chapter 01."""

import numpy as np
import pytest

from dpml import mechanisms
from dpml.accounting import tradeoff
from dpml.audit import samples


def cell_04(worst):
    assert worst < 1e-12


def cell_08(says, accused, members, accuracy, false_positive_rate):
    assert accused[members].all()
    assert 0.68 < accuracy < 0.8
    says({"17 %": false_positive_rate}, within=0.02)
    says({"10.5 %": accused[members].sum() / accused.sum()}, within=0.015)
    says({"11 %": np.exp(0.1) - 1, "2.72": np.e, "2,981": np.exp(8)})


def cell_45(says, chance, has_bag):
    assert has_bag.sum() == 5
    says({"30.3 %": chance["D"], "18.5 %": chance["D'"], "1.6": chance["D"] / chance["D'"]})
    for count, found in ((5, chance["D"]), (4, chance["D'"])):
        assert found == pytest.approx(np.exp((count - 6) / 2) / 2, abs=5 * np.sqrt(0.25 / 20_000))


def cell_13(count, scale, released):
    assert count == 1_000 and scale == pytest.approx(2)
    assert scale / count == pytest.approx(0.2 / 100)  # a fifth of a per cent
    assert abs(released - count) < 20


def cell_21(says, true_delta, true_epsilon, needed):
    says({"0.00153": true_delta, "153": true_delta / 1e-5})
    assert (true_epsilon, needed) == pytest.approx((25.4426, 0.290041), rel=4e-5)
    for tried, holds in ((8.41, True), (8.43, False)):
        sigma = mechanisms.gaussian_sigma_classic_formula(epsilon=tried, delta=1e-5)
        assert (mechanisms.gaussian_delta(sigma=sigma, epsilon=tried) <= 1e-5) is holds
    says({"9.69": mechanisms.gaussian_sigma_classic(epsilon=0.5, delta=1e-5)})
    says({"7.04": mechanisms.gaussian_sigma(epsilon=0.5, delta=1e-5)}, within=0.01)
    assert mechanisms.gaussian_delta(sigma=7.04, epsilon=0.5) < 1e-5
    with pytest.raises(ValueError, match=r"(?s)^(?=.*gaussian_sigma)(?=.*20)"):
        mechanisms.gaussian_sigma_classic(epsilon=20, delta=1e-5)


def cell_47(says, truth):
    says({"0.73": truth, "0.27": 1 - truth})


def cell_24(says, p, local, central, local_error, central_error):
    assert (p, local_error, central_error) == pytest.approx((0.731, 0.0096, 0.00014), rel=0.02)
    says({"68": local_error / central_error})
    assert abs(local - 0.1) < 5 * local_error and abs(central - 0.1) < 20 * central_error


def cell_27(ten_releases, family):
    assert (ten_releases.epsilon, ten_releases.delta) == pytest.approx((1.0, 1e-5))
    assert (family.epsilon, family.delta) == pytest.approx((2.0, 9.849e-6), rel=1e-3)


def cell_30(says):
    reach = {eps: 1 - tradeoff.fnr_lower_bound(0.05, epsilon=eps, delta=0.0) for eps in (1.0, 8.0)}
    says({"13.6 %": reach[1.0], "99.97 %": reach[8.0]})
    says({"47 %": 1 - tradeoff.fnr_lower_bound(0.174, epsilon=1.0, delta=0.0)})


def cell_34(says, n, target, images, attempt, per_person, small_noise, large_noise):
    says({"0.52": small_noise, "0.0104": large_noise, "148": np.sqrt(2) * per_person})
    assert small_noise / large_noise == pytest.approx(50)
    assert abs(np.std(attempt - images[target]) - 148) < 12
    assert abs(np.corrcoef(attempt, images[target])[0, 1]) < 0.15
    says({"0.6": 60_000 * 1e-5, "0.1": 10_000 * 1e-5, r"2.7 \cdot 10^{43}": np.exp(100)})


def cell_38(honest, broken):
    assert 0.9 < honest.epsilon_at_least <= 1.0
    assert 1.9 < broken.epsilon_at_least <= 2.0


def cell_41(says):
    def at_least(runs, wrong=0):
        counts = {"true_positives": runs - wrong, "positives": runs, "false_positives": wrong, "negatives": runs}
        return samples.epsilon_lower_bound(**counts, delta=0.0, confidence=0.95).epsilon_at_least

    assert 3.2 < at_least(100) < 3.3
    assert at_least(10_998) < 8 <= at_least(10_999)
    lies = 1 - mechanisms.randomized_response_truth_probability(epsilon=8)
    says({"7.9": at_least(10**6, wrong=round(1e6 * lies))})
