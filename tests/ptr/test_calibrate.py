"""Noise for a target, and the plain Gaussian noise that costs the same."""

import pytest

from dpml.accounting import pld
from dpml.ptr import privacy
from tests.golden import golden

GOLDEN = golden("ptr")
REST = {"scale": 1.0, "delta0": 1e-8, "delta": 1e-5}
SETTINGS = [
    ("match_mnist", 256 / 60000, 1.1, 0.5, 3500),
    ("match_cifar", 1024 / 50000, 1.1, 2 / 3, 1500),
    ("match_resnet", 2048 / 50000, 2.2, 0.6, 500),
]


@pytest.mark.parametrize(("name", "q", "sigma", "tau", "steps"), SETTINGS)
def test_golden_epsilon_and_matching_gaussian(name, q, sigma, tau, steps):
    """Golden sigmas come from a bisection to 1e-3."""
    found = privacy.matching_gaussian_sigma(q=q, sigma=sigma, tau=tau, steps=steps, **REST)
    assert found == pytest.approx(GOLDEN["other"][name][1], abs=1.5e-3)
    assert found < sigma
    epsilon = privacy.epsilon(q=q, sigma=sigma, tau=tau, steps=steps, **REST).epsilon
    assert GOLDEN["other"][name][0] * (1 - 4e-4) <= epsilon <= GOLDEN["other"][name][0]  # the golden lattice is coarse
    assert pld.epsilon(q=q, sigma=found, steps=steps, delta=1e-5).epsilon == pytest.approx(epsilon, abs=2e-4)


@pytest.mark.parametrize(
    ("q", "steps", "target", "tau"), [(256 / 60000, 3500, 1.931, 0.5), (0.2, 3, 2.0, 0.3), (1.0, 1, 4.8, 0.5)]
)
def test_the_noise_for_a_target_is_enough_and_hardly_more(q, steps, target, tau):
    sigma = privacy.noise_multiplier(q=q, tau=tau, steps=steps, epsilon=target, **REST)
    assert target - 1e-3 * min(1.0, target) <= privacy.epsilon(q=q, sigma=sigma, tau=tau, steps=steps, **REST).epsilon
    assert privacy.epsilon(q=q, sigma=sigma, tau=tau, steps=steps, **REST).epsilon <= target


def test_the_noise_of_the_paper_comes_back():
    sigma = privacy.noise_multiplier(q=256 / 60000, tau=0.5, steps=3500, epsilon=1.931019, **REST)
    assert sigma == pytest.approx(1.1, abs=1e-3)


def test_the_test_alone_may_cost_too_much():
    """Three Laplace releases at scale 50 on samples with q = 0.2 cost more than 0.005 whatever the Gaussian noise."""
    refusal = r"^epsilon must be at least 0\.012\d+, what the tests alone cost, got 0\.005$"
    with pytest.raises(ValueError, match=refusal):
        privacy.noise_multiplier(**{**REST, "scale": 50.0}, q=0.2, tau=0.5, steps=3, epsilon=0.005)


def test_little_noise_may_do():
    assert privacy.noise_multiplier(q=0.01, tau=0.5, steps=0, epsilon=1.0, **REST) == 0.04
    assert privacy.noise_multiplier(q=0.2, tau=0.5, steps=1, epsilon=9000.0, **REST) == 0.04
    assert privacy.matching_gaussian_sigma(q=1e-6, sigma=1.0, tau=0.5, steps=5, **REST) == 0.0
