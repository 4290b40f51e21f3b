"""The numbers of chapter 10, on both of its pages."""

import math

import numpy as np
import pytest

from dpml.lessons.ptr import explorers
from dpml.lessons.ptr.gradient_norms import gradient_norms
from dpml.ptr import medians, privacy, single_release, theorems
from dpml.ptr.propose_test_release import pass_probability


def cell_02(says, median, worst, here):
    assert (median, here, worst) == pytest.approx((0.2666, 1.0e-4, 0.5), rel=0.01)
    says({"0.55": 1.1 * worst})
    says({"5000": worst / here}, within=500)


def cell_05(S, S_neighbour, unit):
    assert medians.median_local_sensitivity(S, **unit) < 1e-15
    assert medians.median_local_sensitivity(S_neighbour, **unit) == pytest.approx(0.5)


def cell_08(margins):
    assert list(margins.values()) == [3, 23, 51, 513]


def cell_11(says, release, median, tau, B, chances, worst):
    assert release.passed and abs(release.value - median) < 5 * 1.1 * tau
    assert pytest.approx(17.73, abs=5e-3) == B
    assert (chances[0.005], chances[0.001]) == pytest.approx((0.9974, 2e-7), rel=0.01)
    says({"50": worst / tau})


def cell_51(direct, alone):
    assert (direct.epsilon, alone) == pytest.approx((4.9215, 3.9212502529), abs=1e-4)


def cell_39(says, lengths):
    long = int((lengths > 5.0).sum())
    says({"128": long}, within=3)
    assert "128 of 256" in explorers.trimming().frame().title
    says({"249": (gradient_norms().start > 5.0).sum()})
    assert pass_probability(7, scale=1.0, delta0=1e-8) < 1.1e-5
    assert 0.003 < pass_probability(144 - long, scale=1.0, delta0=1e-8) < 0.9
    assert pass_probability(160 - long, scale=1.0, delta0=1e-8) > 0.999


def cell_42(says, wrong, right):
    assert wrong > 4.5 and right <= 1.0 + 1e-9
    little = {"sigma": 0.5, "scale": 1.0, "delta0": 1e-8}
    exact = single_release.single_epsilon(tau=0.5, **little, delta=1e-5).epsilon
    says({"5.14": theorems.theorem_4_2_printed(**little, delta=1e-5), "10.76": exact})


def cell_19(says, exact):
    figure = explorers.two_cases()
    title = figure.frame().title
    assert "close pair" in title and "ε = 4.79" in title
    says({"4.79": exact.epsilon})
    large, middle = (figure.frame(sigma=1.1, tau=tau, delta0="large").title for tau in (0.1, 0.5))
    assert "troubled pair" in large and "above 12" in large
    assert "troubled pair" in middle and "ε = 6.69" in middle


def cell_22(comparison):
    _, _, direct, by_rdp, best = np.transpose(comparison)
    assert (best <= np.minimum(direct, by_rdp)).all() and np.ptp(best) < 1e-6  # the exact curve does not move
    assert (by_rdp[1], by_rdp[0]) == pytest.approx((5.254, 34.8), rel=3e-3)
    assert (direct[4:] < by_rdp[4:]).all()
    assert (direct[5], by_rdp[5]) == pytest.approx((5.386, 5.663), abs=2e-3)


def cell_27(says, mnist, formula, true_value):
    assert formula[0] > true_value[0] and formula[1] < true_value[1]
    says({"8,000": true_value[2] / formula[2]}, within=500)
    assert (formula[1], true_value[1]) == pytest.approx((3.9012e-4, 3.7677e-2), rel=1e-4)

    def last_order(q, sigma=6.0, tau=2 / 3):
        return theorems.theorem_4_4_last_order(q=q, sigma=sigma, tau=tau, scale=1.0)

    def last_term(a):
        return a * math.log(mnist["q"]) + math.log(1e-8) + a * (a - 1) / (2 * 0.55**2)

    assert last_order(mnist["q"], sigma=1.1, tau=0.5) <= 1.0
    says({"-12.6": last_term(5), "30.5": last_term(8), "4.36": true_value[2]})
    says({"4.36": last_term(8) / 7})
    says({"13": math.floor(last_order(mnist["q"]))})
    wide = {"sigma": 6.0, "tau": 2 / 3, "scale": 1.0, "delta0": 1e-8}
    for q in (1e-4, 1e-3, mnist["q"], 0.01, 0.05):
        allowed = np.arange(2.0, min(last_order(q), 32.0))
        ratio = privacy.theorem_4_4(allowed, q=q, **wide) / privacy.exact_subsampled_rdp(allowed, q=q, **wide)
        assert (ratio >= 1.0).all() and 1.15 < ratio.max() < 1.2


def cell_32(says, bounds, by_renyi, moved, sigma_alone, baseline):
    assert bounds.lower <= 1.93105
    says({"1.93": bounds.upper, "2.14": moved, "0.85": sigma_alone, "3.398": baseline})
    says({"2.59": by_renyi}, within=0.03)
    frame = explorers.accountants().frame
    assert "the paper's formula says 3.04" in frame().title
    assert "false" in frame(steps=50).title and "safe side" in frame(steps=100).title
    assert all(word in frame(steps=1).title for word in ("false", "0.111", "0.0375"))
    for b, printed in ((1.0, ("8", "10")), (5.0, ("27", "104"))):  # the printed B_1 is that of sigma = 1

        def bound(sigma, tau, scale=b):
            return theorems.theorem_4_4_formula(4.0, q=0.01, sigma=sigma, tau=tau, scale=scale, delta0=1e-8)

        says({text: bound(1.0, 1.0) / bound(sigma, 2 / 3) for text, sigma in zip(printed, (6.0, 40.0), strict=True)})
