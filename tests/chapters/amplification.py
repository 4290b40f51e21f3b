"""The numbers of chapter 03."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from dpml.accounting import amplification as amp
from dpml.accounting.amplification import amplify


def cell_04(says, p, p_prime):
    says({"0.357": math.log(p / p_prime)})
    assert p / p_prime == pytest.approx(1 + 0.25 * (math.e - 1), rel=1e-12)


def cell_50(coins, with_you):
    assert coins.shape == (8, 16) and list(with_you) == [4, 6]


def cell_09(says, rows):
    assert [row[1] for row in rows] == pytest.approx([0.001051157, math.log1p(0.01 * (math.e - 1)), 3.42750], rel=1e-6)
    says({"4.6": math.log(100)}, within=0.01)
    # The identity of the proof, on random A, A', B.
    rng = np.random.default_rng(0)
    a, a_prime, b, q = rng.random((4, 1000))
    eps = rng.uniform(0, 5, 1000)
    after = np.array([amplify(epsilon=e, q=v) for e, v in zip(eps, q, strict=True)])
    beta = np.exp(after - eps)
    left = q * a + (1 - q) * b - np.exp(after) * (q * a_prime + (1 - q) * b)
    assert left == pytest.approx(
        q * (beta * (a - np.exp(eps) * a_prime) + (1 - beta) * (a - np.exp(eps) * b)), abs=1e-9
    )


def cell_17(says):
    assert amp.lecture_log_form(epsilon=3.0, q=0.5) == pytest.approx(3.0)
    says({"2": amp.lecture_log_form(epsilon=1.0, q=1.0), "4.7008": amp.lecture_bound(epsilon=1.0, q=1.0)})
    assert amplify(epsilon=1.0, q=0.5) < amp.lecture_log_form(epsilon=1.0, q=0.5) == pytest.approx(1.0)
    at = {"epsilon": 1.0, "q": 0.25}
    says({"1.1752": amp.lecture_bound(**at), "0.5294": amp.lecture_log_form(**at), "0.3574": amplify(**at)})
    useful = [amp.lecture_useful_q(epsilon=epsilon) for epsilon in (1.0, 4.0)]
    says({"0.213": useful[0], "0.2127": useful[0], "0.037": useful[1]})


def cell_24(says, p_all, p_prime_all, ratio, log_form):
    assert math.log(p_all / p_prime_all) == pytest.approx(1.0) and math.log(ratio) == pytest.approx(log_form)
    assert log_form / amplify(epsilon=1.0, q=0.25) == pytest.approx(1.48, abs=0.005)  # half as much again
    says({"0.529": log_form})
    q, s = 256 / 60_000, np.arange(60_001)
    lie = 1 / (1 + math.e)
    yes = lie * (1 + s / 60_000 * (math.e - 1))

    def delta(after):
        """Of (|S|, randomized response) under replace-one, summed over all sizes."""
        return np.sum(binom.pmf(s, 60_000, q) * np.maximum(yes - math.exp(after) * lie, 0))

    assert delta(0.00778) < 1e-5 < delta(0.00776)
    formula = amplify(epsilon=1.0, q=q)
    says({"0.00777": 0.00777, "0.00730": formula, "6 %": 0.00777 / formula - 1})


def cell_29(says, second_step, formula):
    says({"0.814": second_step, "0.620": formula})
    grid = itertools.product(np.geomspace(0.01, 20, 40), np.geomspace(1e-4, 1, 40))
    assert all(amplify(epsilon=epsilon, q=q) >= q * epsilon for epsilon, q in grid)


def cell_35(says, rows, guarantee, epoch):
    (full, subset), (full_8, subset_8) = ([rows[i][1], rows[i][2]] for i in (1, 4))
    says({"0.0073": full, "0.0430": subset, "2.6": full_8, "4.3": subset_8, "1.8": math.log(6), "0.043": subset})
    slides = [form(epsilon=1.0, q=0.0256) for form in (amp.lecture_log_form, amp.lecture_bound)]
    says({"0.059": slides[0], "0.120": slides[1]})
    assert math.log1p(math.expm1(subset) / 0.0256) == pytest.approx(1.0)
    says({r"2.56 \cdot 10^{-7}": guarantee.delta, "1.68": epoch.epsilon, "1.72": math.e - 1})


def cell_40(says, counts, loss, bound, usual, x):
    assert counts == [1000, 999] and (np.abs(loss) < bound).all()
    says({"13": usual / 3, "0.331": loss.max()})
    assert loss.min() == pytest.approx(-0.183, abs=5e-4) and np.abs(loss[np.abs(x) < usual]).max() < 0.06


def cell_44(says, evidence):
    """A right mechanism passes with probability 0.99; the seed is fixed."""
    assert all(at_least <= at_most for at_least, at_most in evidence.values())
    says({"1.18": amp.lecture_bound(epsilon=1.0, q=0.25)})
