"""The numbers of chapter 04."""

import math

import numpy as np
import pytest

from dpml import mechanisms
from dpml.accounting import amplification, composition, moments, pld, rdp
from dpml.lessons.moments import explorers

q, sigma, steps, delta = 0.01, 4.0, 10_000, 1e-5


def alpha(lam):
    return moments.log_moment(float(lam), q=q, sigma=sigma)


def classic_epsilon(step_delta):
    return mechanisms.gaussian_sigma_classic_formula(epsilon=1.0, delta=step_delta) / sigma


def cell_03(says, by_slide, by_amplify, by_moments, exact):
    says({"106.6": by_slide, "26.4": by_amplify, "1.2586": by_moments.epsilon, "0.947": exact.upper})
    for share in (0.85, 0.75):
        step_delta = share * delta / (steps * q)
        says({"1.44": classic_epsilon(step_delta)})
        assert mechanisms.gaussian_epsilon(sigma=sigma, delta=step_delta) < 1.2
    assert 0.9468 < exact.lower <= 0.9468668 <= exact.upper < 0.9469


def cell_06(says, loss):
    mean = q**2 * math.expm1(1 / sigma**2) / 2
    assert (loss(-1e3), loss(20.0)) == pytest.approx((math.log(1 - q), 0.0236), abs=1e-4) and abs(loss(0.0)) < 1e-3
    says({"0.0000032": mean, "0.0025": math.sqrt(2 * mean), "0.03": steps * mean, "0.25": 100 * math.sqrt(2 * mean)})


def cell_60(coins, you, total, proved, best, lams, delta):
    assert coins[1, you] and not coins[[0, 2, 4]].any()
    assert (total + math.log(1 / delta)) / lams[best] == pytest.approx(proved[best])


def cell_11(says, lams, best, proved, by_moments, order_33):
    assert lams[best] == 19 and proved[best] == pytest.approx(by_moments.epsilon, rel=1e-10)
    says({"0.00326": alpha(31), "0.00348": alpha(32)})
    assert 32 * order_33 == pytest.approx(alpha(32), rel=1e-10)


def cell_55(log_moment_by_sum):
    for lam in (1, 6, 32, 100, 150):
        assert log_moment_by_sum(lam) == pytest.approx(alpha(lam), rel=1e-7)
    assert alpha(6) == pytest.approx(6 * 7 / 2 * q**2 * math.expm1(1 / sigma**2), rel=0.03)


def cell_14(says, loss):
    says({"0.086": alpha(146), "13.7": alpha(150), "147.4": 2 * sigma**2 * math.log(1 / q)})

    def in_window(lam):
        z, dz = np.linspace(-40.0, 40.0, 4001, retstep=True)
        density = mechanisms.gaussian_density(z, center=0.0, sigma=sigma)
        return math.log(np.sum(density * np.exp((lam + 1) * loss(z))) * dz)

    says({"170": alpha(150) / in_window(150)}, within=2)
    says({"11 %": 1 - in_window(146) / alpha(146)})
    assert in_window(144) == pytest.approx(alpha(144), rel=1e-3)
    assert "0.0812" in explorers.e2_integrand().frame().title


def cell_18(says, narrow, wider, right, truth):
    says({"6.93": narrow.min()})
    assert 7.4336 < truth.lower < truth.upper < 7.4337
    assert narrow.min() < truth.lower < truth.upper < right.min() == pytest.approx(10.0574, abs=1e-3)
    assert narrow.min() < wider.min() < right.min()
    says({"99.99 %": math.erf(4 / math.sqrt(2))})


def cell_24(says, found, one, run):
    orders = [bound.order for bound in found.values()]
    says({"0.360": found["λ ≤ 32"].epsilon, "11.5": math.log(1 / delta)})
    assert orders[:2] == [33, 147] and found["λ ≤ 256"].epsilon < 0.08
    assert found["improved conversion"].epsilon == pytest.approx(0.0384369961, rel=1e-4)
    single = pld.epsilon_bounds(**one)
    assert 0.0080 < single.lower < single.upper < 0.0081
    assert rdp.epsilon(q=q, sigma=0.5, steps=100_000, delta=delta).order < 1.5
    says({"1.0354": rdp.epsilon(**run).epsilon})


def cell_58(says, low, high, exact, epsilon_by_hand, loss):
    assert low < exact.lower < exact.upper < high
    assert high - low == pytest.approx(steps * 2e-6, rel=0.2)
    says({"1.45": epsilon_by_hand(loss, np.ceil, width=1e-4, n=2**17)})


def cell_82(exactly, by_tail):
    assert exactly.upper < exactly.lower * (1 + 1e-6)
    shown = explorers.loss_distribution().frame(epsilon=0.95, steps=10_000, direction="remove").title
    found = exactly.upper, by_tail
    assert "9.5·10⁻⁶" in shown and "1.5·10⁻³" in shown and found == pytest.approx((9.5e-6, 1.5e-3), rel=0.04)


def cell_33(says, rows, by_moments, exact, by_tail, exactly):
    renyi, _, upper = np.transpose(rows)[3:]
    assert renyi == pytest.approx([1.03538, 1.2811, 10.7253, 1.538], rel=2e-3)
    lost = renyi / upper - 1
    assert min(lost[:3]) > 0.07 and max(lost[:3]) < 0.135 and lost[3] > 49
    bell = 1 / math.sqrt(steps * q**2 * math.expm1(1 / sigma**2))
    says({"0.942": mechanisms.gaussian_epsilon(sigma=bell, delta=delta), "0.31": by_moments.epsilon - exact.upper})
    says({"160": by_tail / exactly.upper}, within=3)


def cell_37(says, by_moments):
    def best(number, amplify, form=composition.advanced, base=classic_epsilon):
        values = []
        for share in np.linspace(0.02, 0.98, 97):
            step_delta = share * delta / (number * q)
            step = {"epsilon": amplify(epsilon=base(step_delta), q=q), "delta": q * step_delta}
            values.append(form(**step, k=number, delta_prime=(1 - share) * delta).epsilon)
        return min(values)

    def exact_gaussian(step_delta):
        return mechanisms.gaussian_epsilon(sigma=sigma, delta=step_delta)

    says({"106.6": best(10_000, amplification.lecture_bound), "387.0": best(40_000, amplification.lecture_bound)})
    says({"35.9": best(10_000, amplification.lecture_log_form), "114.7": best(40_000, amplification.lecture_log_form)})
    says({"26.4": best(10_000, amplification.amplify), "82.3": best(40_000, amplification.amplify)}, within=0.06)
    shortcut = [best(number, lambda *, epsilon, q: q * epsilon) for number in (10_000, 40_000)]
    says({"9.35": shortcut[0], "24.2": shortcut[1]})
    tanh = best(10_000, amplification.amplify, composition.advanced_tanh, exact_gaussian)
    longer = moments.epsilon(q=q, sigma=sigma, steps=40_000, delta=delta).epsilon
    says({"14.2": tanh, "2.5759": longer})
    says({"11": tanh / by_moments.epsilon, "85": 106.6 / by_moments.epsilon})


def cell_41(says, epsilon_by_hand, loss_replaced, at_least, at_most, by_moments):
    assert 1.98 < at_least < epsilon_by_hand(loss_replaced, np.ceil) < 2.01 < at_most.lower
    says({"2.1627": at_most.lower, "2.5616": at_most.upper})
    assert by_moments.epsilon < at_least


def cell_47(says, run, n, noise, fixed):
    assert run["steps"] == 782 and n == 10_000
    for target, (by_renyi, by_distribution) in noise.items():
        assert pld.epsilon(sigma=by_distribution, **run).epsilon <= target
        assert 0.02 < 1 - by_distribution / by_renyi < 0.12 and fixed[target].upper > 1.5 * target
    says({"2.39": fixed[1.0].lower, "12.8": fixed[3.0].lower, "55.0": fixed[8.0].lower, "61.5": fixed[8.0].upper})


def cell_50(status):
    assert status == 0
