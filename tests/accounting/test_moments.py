"""Log-moments of the subsampled Gaussian: golden numbers, mpmath at random points, finer quadrature, inequalities."""

import itertools
import math
import random
from functools import cache

import mpmath as mp
import numpy as np
import pytest

from dpml import numerics
from dpml.accounting import moments, quadrature, rdp, subsampled_gaussian
from tests.golden import golden

GOLDEN = golden("accounting")


def at(row):
    return {"q": row["gamma"], "sigma": row["sigma"]}


# ---- golden numbers ----


@pytest.mark.parametrize("row", GOLDEN["subsampled_gaussian_moments"], ids=lambda r: f"{r['case']}-{r['lam']}")
def test_golden_moments(row):
    assert moments.log_moment_e1(row["lam"], **at(row)) == pytest.approx(row["log_E1"], rel=1e-13)
    assert moments.log_moment(row["lam"], **at(row)) == pytest.approx(row["log_E2"], rel=1e-13)
    assert moments.log_moment(row["lam"], **at(row)) == pytest.approx(row["alpha"], rel=1e-13)


@pytest.mark.parametrize("row", GOLDEN["fractional_mpmath_check"])
def test_golden_fractional_powers(row):
    if row["p"] > 0:
        value = moments.log_moment(row["p"] - 1.0, **at(row))
    else:
        value = moments.log_moment_e1(-row["p"], **at(row))
    assert value == pytest.approx(row["log_moment"], rel=1e-12)


@pytest.mark.parametrize("row", GOLDEN["moment_traps"], ids=lambda r: f"{r['trap']}-{r['order']}")
def test_where_plain_formulas_fail(row):
    """Overflow, digits lost to logsumexp, peaks outside a fixed range, diverging and alternating series."""
    assert moments.log_moment(row["order"] - 1.0, **at(row)) == pytest.approx(row["log_moment"], rel=1e-12)


# ---- mpmath ----


def exact_at_integer(order, q, sigma):
    """The binomial sum, less one, in 40 digits."""
    q, sigma = mp.mpf(q), mp.mpf(sigma)
    terms = (
        mp.binomial(order, k) * q**k * (1 - q) ** (order - k) * mp.expm1(mp.mpf(k * k - k) / (2 * sigma**2))
        for k in range(2, order + 1)
    )
    return float(mp.log1p(mp.fsum(terms)))


@cache
def legendre():
    """Twelve nodes a panel."""
    return mp.calculus.quadrature.GaussLegendre(mp.mp).calc_nodes(3, mp.mp.prec)


def exact(lam, q, sigma):
    """log E_1 and log E_2 by Gauss-Legendre panels wherever the integrands can have mass, in 40 digits."""
    q, sigma, lam = mp.mpf(q), mp.mpf(sigma), mp.mpf(lam)
    middle = sigma * mp.log(1 / q - 1) + 1 / (2 * sigma)
    centers = {0, 1 / sigma, (lam + 1) / sigma}
    for power in (lam + 1, -lam):  # peaks are at x = power * share(x) / sigma
        x = mp.mpf(0) if power < 0 else power / sigma
        for _ in range(200):
            x = (x + power / sigma / (1 + mp.exp((middle - x) / sigma))) / 2
        centers.add(x)
    ends = {int(mp.nint(c)) + k for c in centers for k in range(-12, 13)}
    if sigma < 1:  # here y bends within a fraction of a deviation
        ends |= {float(middle + k * sigma) for k in range(-40, 41, 2)}
    ends, added, removed = sorted(ends), mp.mpf(0), mp.mpf(0)
    for left, right in itertools.pairwise(ends):
        pieces = 1 if right - left < 1.01 else 12
        if right - left > 12.0:
            continue  # more than 12 deviations from every peak
        for k in range(pieces):
            half = (mp.mpf(right) - left) / pieces / 2
            for node, weight in legendre():
                x = left + half * (2 * k + 1 + node)
                u = q * mp.expm1(x / sigma - 1 / (2 * sigma**2))
                y, density = mp.log1p(u), half * weight * mp.exp(-x * x / 2)
                added += density * (mp.exp(-lam * y) - 1 + lam * u)
                removed += density * ((1 + u) * mp.exp(lam * y) - 1 - (lam + 1) * u)
    scale = mp.sqrt(2 * mp.pi)
    return float(mp.log1p(added / scale)), float(mp.log1p(removed / scale))


def random_point(seed):
    draw = random.Random(seed)
    q, sigma = 10 ** draw.uniform(-8, -0.05), 10 ** draw.uniform(-1.3, 2)
    return q, sigma, (1.0 + 10 ** draw.uniform(-8, 1.5)) - 1.0, draw.choice([2, 3, 5, 12, 33, 64, 257, 1000])


EXTREME = [(1e-8, 1.0, 2), (1e-8, 0.05, 2), (1e-8, 100.0, 3), (1.0 - 1e-6, 0.7, 40), (1e-5, 20.0, 5000)]
RANDOM = [random_point(seed) for seed in range(100, 120)]


@pytest.mark.parametrize(("q", "sigma", "order"), [*EXTREME, *((q, sigma, order) for q, sigma, _, order in RANDOM)])
def test_integer_orders(q, sigma, order):
    with mp.workdps(40):
        right = exact_at_integer(order, q, sigma)
    assert moments.log_moment(order - 1, q=q, sigma=sigma) == pytest.approx(right, rel=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_random_real_orders(seed):
    """Tiny q and orders close to 1 included: 20 points, both directions."""
    q, sigma, lam, _ = random_point(seed)
    with mp.workdps(40):
        added, removed = exact(lam, q, sigma)
    assert moments.log_moment(lam, q=q, sigma=sigma) == pytest.approx(removed, rel=1e-12)
    assert moments.log_moment_e1(lam, q=q, sigma=sigma) == pytest.approx(added, rel=1e-12)


# ---- how the error is controlled ----


def scattered(count, seed):
    draw = random.Random(seed)
    for _ in range(count):
        q = 10 ** draw.uniform(-8, -0.01) if draw.random() < 0.7 else 1.0 - 10 ** draw.uniform(-8, -0.3)
        yield q, 10 ** draw.uniform(-1.3, 2), 10 ** draw.uniform(-8, 5)


def both(q, sigma, lam):
    return np.array([moments.log_moment_e1(lam, q=q, sigma=sigma), moments.log_moment(lam, q=q, sigma=sigma)])


def test_a_finer_step_and_a_wider_range_change_nothing(monkeypatch):
    """Error bound e^-42 against e^-84, tails at 9.5 against 12 deviations. A coarse step, e^-8, is seen."""
    points = list(scattered(300, 1))
    coarse = [both(*point) for point in points]
    monkeypatch.setattr(subsampled_gaussian, "_EXPONENT", 84.0)
    monkeypatch.setattr(subsampled_gaussian, "TAIL", 12.0)
    for point, value in zip(points, coarse, strict=True):
        np.testing.assert_allclose(value, both(*point), rtol=1e-13, err_msg=str(point))
    monkeypatch.setattr(subsampled_gaussian, "_EXPONENT", 8.0)
    assert max(np.abs(both(*point) / value - 1.0).max() for point, value in zip(points, coarse, strict=True)) > 1e-9


def test_the_two_terms_agree_with_the_quadrature(monkeypatch):
    points = []
    for q, sigma, lam in scattered(4000, 2):
        lam = min(lam, 500.0)
        if (
            sigma < 3.0
            and 0.001 < q < 0.9
            and lam > 1e-4
            and subsampled_gaussian._separated(np.array([lam]), q, sigma)[0]
        ):
            points.append((q, sigma, lam))
    assert len(points) > 100
    closed = [both(*point) for point in points[:100]]
    monkeypatch.setattr(subsampled_gaussian, "_separated", lambda lam, q, sigma: np.zeros(lam.shape, dtype=np.bool_))
    monkeypatch.setattr(subsampled_gaussian, "_never_meet", lambda q, sigma: False)
    for point, value in zip(points, closed, strict=False):
        np.testing.assert_allclose(value, both(*point), rtol=2e-13, err_msg=str(point))


def test_together_as_one_by_one():
    """Orders share their nodes; the result must not depend on the company."""
    lam = np.geomspace(1e-6, 1e5, 90)
    for q, sigma in [(0.01, 4.0), (1e-6, 0.5), (0.3, 60.0), (0.9, 1.0), (1e-3, 0.04)]:
        single = [moments.log_moment(float(x), q=q, sigma=sigma) for x in lam]
        np.testing.assert_allclose(subsampled_gaussian.log_moments(lam, q, sigma), single, rtol=1e-13)


def test_positive_terms():
    with mp.workdps(400):
        for x in [*np.geomspace(1e-150, 600.0, 60), *-np.geomspace(1e-150, 1e5, 60), 1.0, -1.0, 0.0]:
            right = float(mp.expm1(mp.mpf(float(x))) - mp.mpf(float(x)))
            assert quadrature.exp_excess(np.array(x)) == pytest.approx(right, rel=1e-14, abs=1e-320)
        for u in [*np.geomspace(1e-150, 0.25, 60), *-np.geomspace(1e-150, 0.25, 60), 0.0]:
            v = mp.mpf(float(u))
            y = mp.log1p(v)
            assert quadrature._log_excess(np.array(u)) == pytest.approx(float(v - y), rel=1e-14, abs=1e-320)
            right = float((1 + v) * y - v)
            assert quadrature._entropy_excess(np.array(u)) == pytest.approx(right, rel=1e-14, abs=1e-320)


# ---- inequalities ----


def test_removing_is_the_worse_direction():
    for q in (1e-8, 1e-4, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0 - 1e-9):
        for sigma in (0.05, 0.3, 0.5, 1.0, 2.0, 8.0, 100.0):
            for lam in (1e-8, 0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 1e3, 1e5):
                added, removed = both(q, sigma, lam)
                assert 0.0 <= added <= removed * (1.0 + 1e-13)


def test_between_its_simple_bounds():
    """Minkowski's inequality from above; the last term of the binomial sum and the square from below."""
    for q, sigma, lam in scattered(500, 3):
        value = moments.log_moment(lam, q=q, sigma=sigma)
        whole = (lam + 1.0) * float(numerics.log1p_scaled_expm1(lam / (2.0 * sigma**2), q=q))
        assert value <= whole * (1.0 + 1e-12)
        assert value >= (lam + 1.0) * (math.log(q) + lam / (2.0 * sigma**2)) * (1.0 - 1e-12) - 1e-12
        if lam >= 1.0:
            square = math.log1p(q * q * math.expm1(min(500.0, 1.0 / sigma**2)))
            assert value >= lam * square * (1.0 - 1e-12)


def test_simple_cases():
    for direction in (moments.log_moment, moments.log_moment_e1):
        assert direction(3.5, q=0.0, sigma=1.0) == 0.0
        assert direction(3.5, q=1.0, sigma=2.0) == pytest.approx(3.5 * 4.5 / 8.0, rel=1e-15)
        assert isinstance(direction(3, q=0.5, sigma=2.0), float)
        assert direction(32.4, q=1e-100, sigma=1.7e308) == 0.0, "the square of sigma leaves the floats"
    near = moments.log_moment(3.5, q=1.0 - 1e-12, sigma=2.0)
    assert near == pytest.approx(3.5 * 4.5 / 8.0, rel=1e-10)
    assert moments.log_moment(1e5, q=0.01, sigma=1e-100) == pytest.approx(1e5 * (1e5 + 1) / 2 * 1e200, rel=1e-12)
    assert moments.log_moment(1e-8, q=0.5, sigma=1e9) > 0.0


# ---- the lecture's accountant ----


@pytest.mark.parametrize("row", GOLDEN["eps_after_T_steps"], ids=lambda r: f"{r['case']}-{r['T']}")
@pytest.mark.parametrize("max_lam", [32, 64, 256])
def test_golden_epsilon(row, max_lam):
    found = moments.epsilon(**at(row), steps=row["T"], delta=row["delta"], max_lam=max_lam)
    right = row[f"classic_lam_le_{max_lam}"]
    assert found.epsilon == pytest.approx(right, rel=1e-10)
    assert found.epsilon > right * (1.0 - 1e-14), "an upper bound is rounded up"
    assert found.order == row[f"classic_lam_le_{max_lam}_argmin"] + 1


def test_the_label():
    found = moments.epsilon(q=0.01, sigma=4.0, steps=10000, delta=1e-5)
    assert found.epsilon == pytest.approx(1.25857474125, rel=1e-10)
    assert (found.order, found.kind, found.delta) == (20.0, "upper bound", 1e-5)
    assert (found.adjacency, found.sampling) == ("add/remove", "Poisson")


FREE = [{"steps": 0}, {"q": 0.0}, {"sigma": 0.0, "q": 1e-6}, {"steps": 0, "delta": 0.0, "sigma": 0.0}]
NO_PRICE = [{"sigma": 0.0}, {"delta": 0.0}]


@pytest.mark.parametrize("accountant", [moments.epsilon, rdp.epsilon])
@pytest.mark.parametrize(
    ("change", "value"), [*((change, 0.0) for change in FREE), *((change, math.inf) for change in NO_PRICE)]
)
def test_no_steps_no_sample_no_noise(accountant, change, value):
    found = accountant(**{"q": 0.01, "sigma": 1.0, "steps": 10, "delta": 1e-5, **change})
    assert (found.epsilon, found.order) == (value, None)


def test_without_noise_only_the_chance_to_be_drawn_counts():
    """1 - 0.9^2 = 0.19."""
    enough = [(1e-5, 1, 1e-5), (0.1, 2, 0.1901), (1e-9, 1000, 1e-6), (1.0, 3, 1.0)]
    too_little = [(math.nextafter(1e-5, 1.0), 1, 1e-5), (0.1, 2, 0.1899), (1e-9, 1001, 1e-6), (1.0, 3, 0.999)]
    for cases, value in ((enough, 0.0), (too_little, math.inf)):
        for q, steps, delta in cases:
            assert moments.epsilon(q=q, sigma=0.0, steps=steps, delta=delta).epsilon == value
