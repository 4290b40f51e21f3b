"""The exact subsampled Rényi divergence: a sum, quadrature on a plane, both directions, golden numbers, many steps."""

import math

import numpy as np
import pytest

from dpml.accounting import quadrature, rdp
from dpml.ptr import _moments, privacy, renyi, single_release
from dpml.ptr._checked import parameters
from tests.golden import golden
from tests.ptr.rows import given, panels, scattered

GOLDEN = golden("ptr")
MNIST = {"q": 256 / 60000, "sigma": 1.1, "scale": 1.0, "delta0": 1e-8}


@pytest.mark.parametrize("row", GOLDEN["subsampled_rdp"], ids=lambda r: f"{r['sigma1']}-{r['sigma2']:.2f}-{r['alpha']}")
def test_golden_cases_by_the_finite_sum_and_by_quadrature(row):
    first, second = renyi.exact_cases(row["alpha"], **given(row))
    assert [first, second] == pytest.approx([row["exact_case1"], row["exact_case2"]], rel=1e-12, abs=0.0)
    assert privacy.exact_subsampled_rdp(row["alpha"], **given(row)) == pytest.approx(row["exact"], rel=1e-12)
    setting = {k: v for k, v in given(row).items() if k != "q"}
    lam = np.array([row["alpha"] - 1.0])
    assert _moments.log_case_1(lam, row["q"], parameters(**setting)) / lam == pytest.approx([first], rel=1e-12)
    assert _moments.log_case_2(lam, row["q"], parameters(**setting)) / lam == pytest.approx([second], rel=1e-12)


def test_the_finite_sum_agrees_with_quadrature_at_random():
    rng = np.random.default_rng(1)
    for _ in range(100):
        setting = scattered(rng, sigma=(0.3, 30.0), tau=(0.05, 1.0), scale=(0.05, 50.0), delta0=(1e-12, 0.5))
        q, order = 10.0 ** rng.uniform(-6.0, -0.01), int(2.0 ** rng.uniform(1.0, 8.0))
        lam = np.array([order - 1.0])
        cases = renyi.exact_cases(order, q=q, **setting)
        found = _moments.log_case_1(lam, q, parameters(**setting)), _moments.log_case_2(lam, q, parameters(**setting))
        assert [float(f[0] / lam[0]) for f in found] == pytest.approx(list(cases), rel=2e-12, abs=0.0)


def moment_on_the_plane(power, q, sigma, scale):
    """E_Q[(1 - q + q P/Q)^power] of case 2, as an integral over the outputs of a Laplace and a Gaussian mechanism."""
    inside, weights = panels(np.linspace(0.0, 1.0, 9), 20)  # beyond 0 and 1 the Laplace loss is constant
    losses = np.concatenate([[-1.0 / scale], (2.0 * inside - 1.0) / scale, [1.0 / scale]])
    masses = np.exp(-inside / scale) / (2.0 * scale) * weights
    masses = np.concatenate([[0.5], masses, [0.5 * math.exp(-1.0 / scale)]])
    t, weights = panels(np.linspace(-12.0 * sigma, max(power, 0.0) + 12.0 * sigma, 61), 20)
    density = np.exp(-((t / sigma) ** 2) / 2.0) / (sigma * math.sqrt(2.0 * math.pi)) * weights
    ratio = np.exp(losses[:, None] + (t - 0.5) / sigma**2)
    return float(masses @ (1.0 - q + q * ratio) ** power @ density)


@pytest.mark.parametrize(
    ("order", "q", "sigma", "scale"), [(2.5, 0.1, 1.1, 1.0), (7.3, 0.01, 2.0, 0.5), (1.2, 0.6, 0.8, 3.0)]
)
def test_real_orders_of_case_2_on_the_plane_in_both_directions(order, q, sigma, scale):
    second = renyi.exact_cases(order, q=q, sigma=sigma, tau=0.5, scale=scale, delta0=1e-8).case_2
    forward = moment_on_the_plane(order, q, sigma, scale)
    assert second == pytest.approx(math.log(forward) / (order - 1.0), rel=1e-11)
    reverse = moment_on_the_plane(1.0 - order, q, sigma, scale)
    law = _moments.product_law(1.0 / scale, 1.0 / sigma, order)
    found = float(quadrature.log_moments(np.array([order - 1.0]), quadrature.negative_powers(*law, q))[0])
    assert found == pytest.approx(math.log(reverse), rel=1e-11)
    assert reverse < forward


def test_removing_is_the_worse_direction_for_every_symmetric_pair():
    """Step 3 of the proof: for losses +-l with masses as e^(l/2) and e^(-l/2), which mix to every symmetric pair."""
    rng = np.random.default_rng(5)
    loss, q = rng.exponential(2.0, 100000), rng.uniform(0.0, 1.0, 100000)
    order = 1.0 + rng.exponential(4.0, 100000)
    up, down = 1.0 - q + q * np.exp(loss), 1.0 - q + q * np.exp(-loss)
    low, high = np.exp(-loss / 2.0), np.exp(loss / 2.0)  # of Q
    forward = low * up**order + high * down**order
    reverse = low * up ** (1.0 - order) + high * down ** (1.0 - order)
    assert (forward >= reverse * (1.0 - 1e-12)).all()
    assert (forward > reverse * 1.01).sum() > 5000


@pytest.mark.parametrize("row", GOLDEN["lap_moments_R"], ids=lambda r: f"{r['q']:g}-{r['b']:g}-{r['x']:g}")
def test_golden_moments_of_subsampled_laplace_noise(row):
    """R_x = E_Q[f^x], for x above 1 and below 0: the two directions."""
    x = row["x"]
    law = _moments.laplace_law(1.0 / row["b"], abs(x) + 2.0)
    if x > 1.0:
        found = quadrature.log_moments(np.array([x - 1.0]), quadrature.positive_powers(*law, row["q"]))
    else:
        found = quadrature.log_moments(np.array([-x]), quadrature.negative_powers(*law, row["q"]))
    assert float(found[0]) == pytest.approx(row["logR"], rel=1e-10, abs=1e-15)


def test_the_ends_of_q_and_the_shape_of_order():
    setting = {"sigma": 1.1, "tau": 0.5, "scale": 1.0, "delta0": 1e-8}
    orders = np.array([[1.5, 2.0], [6.0, 300.0]])
    assert (privacy.exact_subsampled_rdp(orders, q=0.0, **setting) == np.zeros((2, 2))).all()
    full = privacy.exact_subsampled_rdp(orders, q=1.0, **setting)
    assert full == pytest.approx(privacy.theorem_4_3(orders, **setting), rel=1e-14)
    nearly = privacy.exact_subsampled_rdp(orders, q=1.0 - 1e-9, **setting)
    assert nearly == pytest.approx(full, rel=1e-6)
    assert (privacy.exact_subsampled_rdp(orders, q=0.3, **setting) < full).all()


def test_the_divergence_grows_with_the_order_across_both_routes():
    orders = np.concatenate([np.linspace(1.01, 40.0, 300), np.array([255.0, 255.5, 256.0, 256.5, 257.0])])
    values = privacy.exact_subsampled_rdp(orders, q=0.02, sigma=2.0, tau=0.5, scale=1.0, delta0=1e-8)
    assert (np.diff(values) > 0.0).all()


# ---- the accountant ----


@pytest.mark.parametrize("steps", [1000, 3500, 10000])
def test_golden_epsilon_by_rdp(steps):
    """The golden search knows integer and some half-integer orders: real orders do at least as well, and nearly so."""
    whole, moved = GOLDEN["mnist_rdp"][str(steps)]["exactRDP"], GOLDEN["mnist_rdp"][str(steps)]["exactRDP_case2_TVd0"]
    by_rdp = renyi.epsilon_by_rdp(**MNIST, tau=0.5, steps=steps, delta=1e-5)
    assert 0.97 * whole[0] < by_rdp.epsilon <= whole[0]
    branch = renyi.epsilon_by_rdp_branch_in_delta(**MNIST, steps=steps, delta=1e-5)
    assert 0.995 * moved[0] < branch.epsilon <= moved[0]
    tight = privacy.epsilon_bounds(**MNIST, tau=0.5, steps=steps, delta=1e-5)
    assert tight.upper < branch.epsilon < by_rdp.epsilon
    for found in (by_rdp, branch):
        assert (found.kind, found.adjacency, found.sampling) == ("upper bound", "add/remove", "Poisson")


def test_epsilon_by_rdp_is_what_its_order_gives():
    found = renyi.epsilon_by_rdp(**MNIST, tau=0.5, steps=500, delta=1e-6)
    curve = privacy.exact_subsampled_rdp(found.order, **MNIST, tau=0.5)
    assert found.epsilon == pytest.approx(
        float(rdp.conversion_improved(found.order, rdp=500 * curve, delta=1e-6)), rel=1e-9
    )
    orders = found.order * np.linspace(0.9, 1.1, 101)
    every = rdp.conversion_improved(
        orders, rdp=500 * privacy.exact_subsampled_rdp(orders, **MNIST, tau=0.5), delta=1e-6
    )
    assert found.epsilon <= float(every.min()) * (1.0 + 1e-4)


def test_the_branch_in_delta_by_hand():
    """T q delta0 of delta is spent, the rest goes to case 2 alone."""
    found = renyi.epsilon_by_rdp_branch_in_delta(q=0.5, sigma=2.0, scale=1.0, delta0=1e-3, steps=4, delta=0.01)
    case_2 = renyi.exact_cases(found.order, q=0.5, sigma=2.0, tau=0.5, scale=1.0, delta0=1e-3).case_2
    by_hand = rdp.conversion_improved(found.order, rdp=4 * case_2, delta=0.008)
    assert found.epsilon == pytest.approx(float(by_hand), rel=1e-9)
    with pytest.raises(ValueError, match=r"^delta must be above steps q delta0 = 0\.002, got 0\.001"):
        renyi.epsilon_by_rdp_branch_in_delta(q=0.5, sigma=2.0, scale=1.0, delta0=1e-3, steps=4, delta=0.001)


def test_the_accountant_at_its_ends():
    setting = {"sigma": 1.0, "scale": 1.0, "delta0": 1e-8}
    assert renyi.epsilon_by_rdp(**setting, tau=0.5, q=0.0, steps=9, delta=0.0).epsilon == 0.0
    assert renyi.epsilon_by_rdp(**setting, tau=0.5, q=0.1, steps=0, delta=0.0).epsilon == 0.0
    assert renyi.epsilon_by_rdp(**setting, tau=0.5, q=0.1, steps=1, delta=0.0).epsilon == math.inf
    assert renyi.epsilon_by_rdp_branch_in_delta(**setting, q=0.1, steps=0, delta=0.0).epsilon == 0.0
    single = renyi.epsilon_by_rdp(**setting, tau=0.5, q=1.0, steps=1, delta=1e-5).epsilon
    assert single_release.single_epsilon(**setting, tau=0.5, delta=1e-5).epsilon < single
