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
    ("q", "steps", "target", "tau", "sigma"),
    [(256 / 60000, 3500, 1.931019, 0.5, 1.1), (0.2, 3, 2.0, 0.3, None), (1.0, 1, 4.8, 0.5, None)],
)
def test_the_noise_for_a_target_is_enough_and_hardly_more(q, steps, target, tau, sigma):
    """And that of the paper comes back."""
    found = privacy.noise_multiplier(q=q, tau=tau, steps=steps, epsilon=target, **REST)
    spent = privacy.epsilon(q=q, sigma=found, tau=tau, steps=steps, **REST).epsilon
    assert target - 1e-3 * min(1.0, target) <= spent <= target
    assert sigma is None or found == pytest.approx(sigma, abs=1e-3)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"scale": 50.0, "q": 0.2, "steps": 3, "epsilon": 0.005}, r"0\.012\d+, what the tests alone cost, got 0\.005"),
        ({"scale": 1e6, "q": 0.5, "steps": 1000, "epsilon": 1e-3}, r"0\.0033\d+, what is left at sigma = 10000, got"),
    ],
)
def test_no_noise_may_do(changed, message):
    """Laplace releases on samples cost what they cost, whatever the Gaussian noise."""
    with pytest.raises(ValueError, match=rf"^epsilon must be at least {message}"):
        privacy.noise_multiplier(**{**REST, "tau": 0.5, **changed})


def test_little_noise_may_do():
    assert privacy.noise_multiplier(q=0.01, tau=0.5, steps=0, epsilon=1.0, **REST) == 0.04
    assert privacy.noise_multiplier(q=0.2, tau=0.5, steps=1, epsilon=9000.0, **REST) == 0.04
    assert privacy.matching_gaussian_sigma(q=1e-6, sigma=1.0, tau=0.5, steps=5, **REST) == 0.0
