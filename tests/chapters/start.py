"""The numbers of chapter 00."""

import numpy as np
import pytest
from scipy import stats


def cell_03(says):
    """By another route: the tails of scipy, and the best of many lambdas."""
    t, lam = 5.0, np.linspace(0.01, 8, 100_000)
    laplace = 2 * stats.laplace(scale=1 / np.sqrt(2)).sf(t)
    gaussian = 2 * stats.norm.sf(t)
    inside = lam[lam < np.sqrt(2)]  # E exp(lambda Z) is finite only there
    says({"0.00085": laplace, "47": 1 / t**2 / laplace})
    says({"20": (2 * np.exp(-inside * t) / (1 - inside**2 / 2)).min() / laplace}, within=1)
    says({"13": (2 * np.exp(-lam * t + lam**2 / 2)).min() / gaussian})
    says({"70,000": 1 / t**2 / gaussian}, within=500)
    assert 9.9 < (1 - (1 - laplace) ** 10) / laplace < 10  # tenfold, almost


def cell_28(by_small_step, by_torch, gradient):
    assert by_small_step == pytest.approx(gradient, abs=1e-9) and by_torch == pytest.approx(gradient, abs=1e-12)


def cell_31(moved, people, mean_without_first):
    assert moved == pytest.approx(np.linalg.norm(people[0] - mean_without_first) / 200)


def cell_37(a, b, c):
    assert np.allclose(a, c) and not np.allclose(a, b)


def cell_40(per_example, difference):
    assert per_example.shape == (100, 5)
    assert difference < 1e-6  # up to the rounding of 32-bit numbers
