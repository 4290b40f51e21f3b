"""The numbers of chapter 02."""

import math

import numpy as np
import pytest

from dpml import mechanisms
from dpml.accounting import composition


def total(epsilon, k=100):
    """The optimum at delta = 1e-5."""
    return composition.optimal(epsilon=epsilon, delta=0.0, k=k, total_delta=1e-5).epsilon


def printed(epsilon, k, delta_prime=1e-5):
    return composition.advanced(epsilon=epsilon, delta=0.0, k=k, delta_prime=delta_prime).epsilon


def cell_53(says, P, Q, T1, T0, t):
    says({"73 %": t})
    for law in (T1, T0):
        assert law.sum() == pytest.approx(1) and law.min() > -1e-12
    assert t * T1 + (1 - t) * T0 == pytest.approx(P) and (1 - t) * T1 + t * T0 == pytest.approx(Q)


def cell_05(says, mean, spread, ends, truth, k, epsilon):
    says({"1,109": math.sqrt(2) * 784})
    assert mean == pytest.approx(k * epsilon * math.tanh(epsilon / 2))
    says({"0.5": mean, "1.0": spread})
    assert abs(ends.mean() - mean) < 5 * spread / math.sqrt(2_000)
    assert math.log10(truth**k) == pytest.approx(-28, abs=0.05)


def cell_06(says, tail):
    says({"2.2 %": tail})


def cell_09(says):
    says({"4.3": total(0.1), "43": total(0.1) / 0.1, "80": total(1.0), "46": 100 * math.tanh(0.5)})


def cell_13(says, rule, with_tanh):
    says({"5.85": printed(0.1, 100), "5.30": with_tanh})
    assert composition.basic(**rule).epsilon == pytest.approx(10)


def cell_15():
    first = [composition.advanced_first_k(epsilon=epsilon, delta_prime=1e-5) for epsilon in (0.1, 0.5, 0.7)]
    assert first == [29, 187, None]
    assert printed(0.1, 28) > 2.8 and printed(0.1, 29) < 2.9
    assert all(printed(math.log(2), n, 0.5) > n * math.log(2) for n in (1, 100, 10**6, 10**9))


def cell_19(says):
    says({"0.05": math.tanh(0.05), "0.105": math.expm1(0.1)})


def cell_22(says, best, pure, at_one, chance, loss):
    says({"4.31": best.epsilon, "10": pure, "0.1257": at_one, "4.8": math.sqrt(2 * math.log(1e5))})
    # The theorem from the chapter's own table: the excess of the exact distribution.
    assert (chance * np.maximum(1 - np.exp(best.epsilon - loss), 0)).sum() == pytest.approx(1e-5)


def cell_26(says, exact, generic):
    says({"1": exact, "5.24": generic})


def cell_30(says, rank):
    says({"12.9": math.sqrt(12) * mechanisms.gaussian_sigma(epsilon=1.0, delta=1e-5)})
    assert abs(rank - 0.5) < 0.01
    says({"80 %": 10 * 0.3**2 / (10 * 0.3**2 + 90 * 0.05**2)})


def cell_35(says, sizes, bright):
    by_adding, by_printed, at_best, gauss = sizes.values()
    says({"1,109": by_adding, "198": by_printed, "148": at_best, "104": gauss})
    says({"3,158": bright.mean()})
    assert by_adding > 10 * gauss


def cell_37(says, laplace_scale):
    one = mechanisms.gaussian_sigma(epsilon=1.0, delta=1e-5)
    assert min(n for n in range(1, 40) if math.sqrt(n) * one < math.sqrt(2) * n) == 7
    says({"26": min(n for n in range(1, 40) if laplace_scale(composition.advanced, n, delta_prime=1e-5) < n)})
    assert total(1 / 6, 6) == pytest.approx(1.0, abs=5e-4)


def cell_41(says, before, after, repaired, asked):
    """Each audit of a right mechanism passes with probability 0.99; the seeds are fixed."""
    assert before[0] <= 0.5 and max(after) <= 0.5 and before[-1] > 5
    says({"128": composition.basic(epsilon=0.5, delta=0.0, k=256).epsilon})
    one_answer = mechanisms.gaussian_sigma(epsilon=0.5, delta=1e-5)
    spreads = [repaired(0.0, k, np.random.default_rng(k)).std() for k in asked]
    assert spreads == pytest.approx([one_answer] * len(asked), rel=0.05)
    says({"7.0": one_answer})


def cell_45(says, ledger, total):
    assert len(ledger) == 2 and (total.epsilon, total.delta) == pytest.approx((0.8, 2e-5))
    best = composition.optimal(epsilon=0.1, delta=0.0, k=100, total_delta=1e-5)
    three = composition.group_privacy(epsilon=best.epsilon, delta=1e-5, size=3)
    group_first = composition.optimal(epsilon=0.3, delta=0.0, k=100, total_delta=1e-5)
    says({"16.1": group_first.epsilon, "12.9": three.epsilon, "0.056": three.delta})
    five = composition.optimal(epsilon=1.0, delta=0.0, k=5, total_delta=1e-5).epsilon
    assert 4.99 < five <= 5.0
    says({"0.845": 1 / math.sqrt(10 / 25 + 1), "20": 400 * 0.05})
