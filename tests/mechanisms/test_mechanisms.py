"""The four mechanisms against quadrature in mpmath, the golden numbers, other routes, and simulation.

Every simulation uses a fixed seed and a Kolmogorov-Smirnov or binomial test at a false-alarm probability of 1e-7.
"""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import special, stats

from dpml import mechanisms
from tests.golden import golden

GOLDEN = golden("lecture")
GAUSSIAN = GOLDEN["analytic_gaussian"]
FALSE_ALARM = 1e-7


def gaussian_delta_truth(sigma, epsilon, digits=160):
    with mp.workdps(digits):
        s, e = mp.mpf(sigma), mp.mpf(epsilon)
        if epsilon == 0:
            return mp.erf(1 / (2 * mp.sqrt(2) * s))
        return mp.ncdf(1 / (2 * s) - e * s) - mp.e**e * mp.ncdf(-1 / (2 * s) - e * s)


def relative(value, truth):
    return float(abs(mp.mpf(value) - truth) / truth)


# ---- Gaussian ----


def test_golden_gaussian():
    for row in GAUSSIAN["delta"]:
        delta = mechanisms.gaussian_delta(sigma=row["sigma"], epsilon=row["eps"])
        assert delta == pytest.approx(row["delta"], rel=1e-14)
    for row in GAUSSIAN["eps"]:
        epsilon = mechanisms.gaussian_epsilon(sigma=row["sigma"], delta=row["delta"])
        assert epsilon == pytest.approx(row["eps"], rel=1e-12)
    for row in GAUSSIAN["sigma"]:
        target = {"epsilon": row["eps"], "delta": float(row["delta"])}
        assert mechanisms.gaussian_sigma(**target) == pytest.approx(row["sigma"], rel=1e-12)
        classic = mechanisms.gaussian_sigma_classic_formula(**target)
        assert classic == pytest.approx(row["sigma_classic"], rel=1e-14)
        true_delta = mechanisms.gaussian_delta(sigma=classic, epsilon=row["eps"])
        assert true_delta == pytest.approx(row["delta_of_sigma_classic"], rel=1e-12)
    for row in GOLDEN["numerical_traps"]:
        delta = mechanisms.gaussian_delta(sigma=row["inputs"]["sigma"], epsilon=row["inputs"]["eps"])
        assert delta == pytest.approx(row["right"], rel=1e-14)


def test_gaussian_delta_fuzz():
    rng = np.random.default_rng(7)
    worst = 0.0
    for _ in range(200):
        sigma = float(10.0 ** rng.uniform(-6, 6))
        x = rng.uniform(-9, 37)  # how far out in the tail: delta is about exp(-x^2/2)
        epsilon = (x + 1 / (2 * sigma)) / sigma if rng.random() < 0.8 else float(10.0 ** rng.uniform(-8, 3))
        if epsilon < 0:
            continue
        truth = gaussian_delta_truth(sigma, epsilon)
        got = mechanisms.gaussian_delta(sigma=sigma, epsilon=epsilon)
        if truth > 1e-300:
            worst = max(worst, relative(got, truth))
        else:
            assert 0.0 <= got < 1.01e-300
    assert worst < 3e-15


@pytest.mark.parametrize("sigma", [5e-324, 1e-6, 1e-3, 0.02, 1.0, 40.0, 1e6, 1.7e308])
@pytest.mark.parametrize("epsilon", [0.0, 5e-324, 1e-6, 1.0, 800.0, 1e15, 1.7e308])
def test_gaussian_delta_never_leaves_its_range(sigma, epsilon):
    delta = mechanisms.gaussian_delta(sigma=sigma, epsilon=epsilon)
    assert 0.0 <= delta <= 1.0
    assert delta <= mechanisms.gaussian_delta(sigma=sigma, epsilon=epsilon / 2)
    assert delta <= mechanisms.gaussian_delta(sigma=max(sigma / 2, 5e-324), epsilon=epsilon)


def test_calibration_is_on_the_safe_side_and_tight():
    rng = np.random.default_rng(11)
    for _ in range(80):
        delta = float(10.0 ** rng.uniform(-290, -0.01)) if rng.random() < 0.6 else float(rng.uniform(0.001, 0.9))
        sigma = float(10.0 ** rng.uniform(-6, 6))
        epsilon = mechanisms.gaussian_epsilon(sigma=sigma, delta=delta)
        assert mechanisms.gaussian_delta(sigma=sigma, epsilon=epsilon) <= delta
        if epsilon > 0.0:
            assert gaussian_delta_truth(sigma, epsilon) <= delta, "safe in exact arithmetic too"
            assert gaussian_delta_truth(sigma, epsilon * (1 - 1e-11)) > delta, "and no larger than needed"
        epsilon = float(10.0 ** rng.uniform(-6, 6)) if rng.random() < 0.9 else 0.0
        sigma = mechanisms.gaussian_sigma(epsilon=epsilon, delta=delta)
        assert mechanisms.gaussian_delta(sigma=sigma, epsilon=epsilon) <= delta
        assert gaussian_delta_truth(sigma, epsilon) <= delta
        assert gaussian_delta_truth(sigma * (1 - 1e-11), epsilon) > delta


def test_gaussian_epsilon_at_the_ends():
    for sigma in (1e-150, 1.0, 1e300):
        assert mechanisms.gaussian_epsilon(sigma=sigma, delta=0.0) == math.inf
        assert mechanisms.gaussian_epsilon(sigma=sigma, delta=1.0) == pytest.approx(0.0, abs=0)
    for sigma in (0.3, 1.0, 17.0, 1e6):
        total_variation = math.erf(1 / (2 * math.sqrt(2) * sigma))
        assert mechanisms.gaussian_epsilon(sigma=sigma, delta=total_variation * 1.0000001) == pytest.approx(0.0, abs=0)
        just_below = mechanisms.gaussian_epsilon(sigma=sigma, delta=total_variation * 0.9999999)
        assert 0.0 < just_below < 1e-5 / sigma


def test_gaussian_sigma_at_the_ends():
    for delta in (1e-300, 1e-12, 0.1, 0.5, 1 - 2**-53):
        sigma = mechanisms.gaussian_sigma(epsilon=0.0, delta=delta)
        if delta < 0.9:
            assert sigma == pytest.approx(1 / (2 * math.sqrt(2) * special.erfinv(delta)), rel=1e-13)
        for epsilon in (1e-300, 1e6, 1e300):
            assert mechanisms.gaussian_sigma(epsilon=epsilon, delta=delta) <= sigma * (1 + 1e-12)


def test_classic_gaussian_beyond_one():
    """The formula's noise is too little from epsilon = 8.42 on, at delta = 1e-5; the function says so from 1 on."""
    sigma = mechanisms.gaussian_sigma_classic_formula(epsilon=20.0, delta=1e-5)
    assert mechanisms.gaussian_epsilon(sigma=sigma, delta=1e-5) == pytest.approx(25.4426, abs=5e-5)
    for epsilon in (1.0, 1e-310):  # one range, both ends
        with pytest.raises(ValueError, match=r"^epsilon must be in \[1e-300, 1\), got .*use gaussian_sigma"):
            mechanisms.gaussian_sigma_classic(epsilon=epsilon, delta=1e-5)

    def true_delta(epsilon):
        noise = mechanisms.gaussian_sigma_classic_formula(epsilon=epsilon, delta=1e-5)
        return mechanisms.gaussian_delta(sigma=noise, epsilon=epsilon)

    assert true_delta(8.419) < 1e-5 < true_delta(8.421)


def test_classic_gaussian_is_enough_below_one():
    for epsilon in (1e-6, 0.01, 0.3, 0.9, 0.999999):
        for delta in (1e-200, 1e-12, 1e-5, 0.01, 0.3, 0.9, 0.999999):
            sigma = mechanisms.gaussian_sigma_classic(epsilon=epsilon, delta=delta)
            assert mechanisms.gaussian_delta(sigma=sigma, epsilon=epsilon) <= delta


def test_how_much_too_large_the_classic_noise_is():
    """The numbers of the docstring."""
    for epsilon, delta, factor in ((0.999, 1e-6, 1.25), (0.1, 1e-5, 1.58), (0.001, 1e-5, 2.81)):
        classic = mechanisms.gaussian_sigma_classic(epsilon=epsilon, delta=delta)
        ratio = classic / mechanisms.gaussian_sigma(epsilon=epsilon, delta=delta)
        assert ratio == pytest.approx(factor, abs=0.005)
        documentation = " ".join(mechanisms.gaussian_sigma_classic.__doc__.split())
        assert f"{factor} times" in documentation
    assert mechanisms.gaussian_sigma_classic(epsilon=1e-6, delta=1e-5) > 100 * mechanisms.gaussian_sigma(
        epsilon=1e-6, delta=1e-5
    ), "without limit"


# ---- Laplace ----


@pytest.mark.parametrize(("scale", "epsilon"), [(1.0, 0.0), (1.0, 0.5), (0.3, 2.0), (5.0, 0.1), (2.0, 0.5), (2.0, 3.0)])
def test_laplace_delta_is_the_hockey_stick_integral(scale, epsilon):
    """The definition of delta: the integral of max(0, p - e^epsilon p'), for outputs around 0 and 1."""

    def density(y):
        return mp.e ** (-abs(mp.mpf(y)) / scale) / (2 * mp.mpf(scale))

    cut = (1 - mp.mpf(scale) * mp.mpf(epsilon)) / 2
    with mp.workdps(30):
        grown = mp.e ** mp.mpf(epsilon)
        breaks = sorted([-100 * scale, 0, cut, 1, 1 + 100 * scale])
        truth = mp.quad(lambda y: max(mp.mpf(0), density(y) - grown * density(y - 1)), breaks)
    assert mechanisms.laplace_delta(scale=scale, epsilon=epsilon) == pytest.approx(float(truth), rel=1e-13, abs=1e-25)


def test_laplace_epsilon_and_scale():
    for scale in (1e-300, 1e-3, 0.7, 1.0, 1e5, 1e300):
        epsilon = mechanisms.laplace_epsilon(scale=scale)
        assert epsilon == pytest.approx(1 / scale, rel=1e-15)
        assert mechanisms.laplace_scale(epsilon=epsilon) == pytest.approx(scale, rel=1e-15)
        assert mechanisms.laplace_delta(scale=scale, epsilon=epsilon) <= 6e-17 * epsilon
        assert mechanisms.laplace_delta(scale=scale, epsilon=math.nextafter(epsilon, math.inf)) == pytest.approx(
            0, abs=0
        )
        assert mechanisms.laplace_delta(scale=scale, epsilon=epsilon * 0.99) > 0.0
    assert mechanisms.laplace_delta(scale=5e-324, epsilon=0.0) == pytest.approx(1.0)


def test_laplace_delta_near_its_zero():
    """Where epsilon and 1/scale are nearly equal, also to the last bit, against mpmath."""
    assert mechanisms.laplace_delta(scale=3.0, epsilon=1 / 3) == pytest.approx(9.25e-18, rel=1e-3)
    rng = np.random.default_rng(21)
    seen = 0
    for _ in range(1000):
        scale = float(10.0 ** rng.uniform(-3, 3))
        epsilon = 1 / scale
        if rng.random() < 0.7:
            epsilon = (
                math.nextafter(epsilon, 0.0) if rng.random() < 0.5 else epsilon * (1 - 10.0 ** rng.uniform(-15, -1))
            )
        with mp.workdps(60):
            gap = mp.mpf(epsilon) - 1 / mp.mpf(scale)
            truth = -mp.expm1(min(gap, mp.mpf(0)) / 2)
            got = mechanisms.laplace_delta(scale=scale, epsilon=epsilon)
            assert abs(mp.mpf(got) - truth) <= 1e-15 * truth
        seen += 0 < truth < 1e-12
    assert seen > 300


def test_noise_beyond_the_range_of_floats_is_refused():
    """Never an infinite output, and no warning: pytest turns warnings into errors here."""
    for name, sampler in (("scale", mechanisms.laplace), ("sigma", mechanisms.gaussian)):
        with np.errstate(all="raise"), pytest.raises(ValueError, match=rf"^{name} must keep value plus noise"):
            for _ in range(200):
                sampler(1.7e308, **{name: 1e308}, rng=np.random.default_rng(1))
                sampler([0.0] * 100, **{name: 1.7e308}, rng=np.random.default_rng(1))


@pytest.mark.parametrize("size", [0.3, 1.0, 6.0, 12.0])
def test_densities_and_losses(size):
    y = np.linspace(-30, 30, 401)
    for name, law in (("laplace", stats.laplace), ("gaussian", stats.norm)):
        of = {"scale": size} if name == "laplace" else {"sigma": size}
        density, loss = (getattr(mechanisms, f"{name}_{what}") for what in ("density", "loss"))
        found = density(y, center=0.0, **of)
        with np.errstate(under="ignore"):
            np.testing.assert_allclose(found, law.pdf(y, 0, size), rtol=1e-12, atol=0)
        near = np.abs(y) < 30 * size
        wanted = law.logpdf(y, 0, size) - law.logpdf(y, 1, size)
        np.testing.assert_allclose(loss(y, **of)[near], wanted[near], rtol=1e-9, atol=1e-9)
        assert density(0.0, center=0.0, **of).shape == ()
    loss = mechanisms.laplace_loss(y, scale=size)
    assert [loss.max(), -loss.min()] == pytest.approx([mechanisms.laplace_epsilon(scale=size)] * 2, rel=1e-15)
    assert float(mechanisms.laplace_loss(1e308, scale=1.0)) == pytest.approx(-1.0)


# ---- randomized response ----


def test_randomized_response_probability():
    with mp.workdps(40):
        for epsilon in (0.0, 1e-9, 0.1, math.log(3), 5.0, 30.0):
            exact = 1 / (1 + mp.exp(-mp.mpf(epsilon)))
            assert relative(mechanisms.randomized_response_truth_probability(epsilon=epsilon), exact) < 1e-15


def test_randomized_response_estimate():
    truth = mechanisms.randomized_response_truth_probability(epsilon=1.0)
    # two bits, all four pairs of answers, weighted by their probabilities: the mean is exactly that of the bits
    for bits in ((0, 0), (0, 1), (1, 1)):
        mean = 0.0
        for answers in ((0, 0), (0, 1), (1, 0), (1, 1)):
            weight = math.prod(truth if a == b else 1 - truth for a, b in zip(answers, bits, strict=True))
            mean += weight * mechanisms.randomized_response_estimate(answers, epsilon=1.0)
        assert mean == pytest.approx(sum(bits) / 2, abs=1e-14)
    assert mechanisms.randomized_response_estimate([1, 1, 1], epsilon=1.0) > 1.0, "not cut off"


def test_a_lie_has_never_less_than_its_probability():
    """By the sampler itself: the first multiple of 2^-53 at which it does not lie is the probability of a lie."""

    class Fixed(np.random.Generator):
        ticks = 0

        def random(self, size=None):
            return np.full(size, self.ticks * 2.0**-53)

    source = Fixed(np.random.PCG64(0))
    grid = [0.0, 1e-17, 1e-12, 36.0, 36.7, 37.0, 745.0, 746.0, 1e308, *np.random.default_rng(22).uniform(0, 4, 300)]
    for epsilon in map(float, grid):
        lies, honest = 0, 2**53  # halving: at `lies` ticks it lies, at `honest` ticks it does not
        while honest - lies > 1:
            source.ticks = (lies + honest) // 2
            lied = mechanisms.randomized_response(0, epsilon=epsilon, rng=source) == 1
            lies, honest = (source.ticks, honest) if lied else (lies, source.ticks)
        with mp.workdps(40):
            truth = 1 / (1 + mp.exp(mp.mpf(epsilon)))
            assert truth <= mp.mpf(honest) / 2**53 <= min(truth * (1 + 2.0**-49) + 2.0**-53, mp.mpf(1) / 2), epsilon


# ---- exponential ----


def test_the_reach_of_gumbel_noise():
    """What the docstring says of it: NumPy forms -log(-log(u)) of a multiple u of 2^-53 in (0, 1)."""
    low, high = -math.log(-math.log(2.0**-53)), -math.log(-math.log1p(-(2.0**-53)))
    assert (low, high) == (pytest.approx(-3.604, abs=5e-4), pytest.approx(36.737, abs=5e-4))
    documentation = " ".join(mechanisms.exponential.__doc__.split())
    assert "[-3.604, 36.737]" in documentation
    assert f"more than {high - low:.2f} below the best" in documentation
    noise = np.random.default_rng(0).gumbel(size=10**6)
    assert low <= noise.min() < -2.4, "a sample as large as this one reaches down to -log(log(10^6)) or so"
    assert 10 < noise.max() <= high
    assert mechanisms.exponential_probabilities([0.0, 40.34], epsilon=2.0)[0] < 1e-17


def test_exponential_probabilities():
    scores = [3.0, 1.0, 1.0, -2.0]
    got = mechanisms.exponential_probabilities(scores, epsilon=0.7)
    weights = [mp.e ** (mp.mpf("0.35") * s) for s in scores]
    np.testing.assert_allclose(got, [float(w / sum(weights)) for w in weights], rtol=1e-14)
    assert got.sum() == pytest.approx(1.0, rel=1e-15)
    np.testing.assert_allclose(mechanisms.exponential_probabilities([1e308, -1e308, 0], epsilon=0.0), 1 / 3)
    np.testing.assert_allclose(mechanisms.exponential_probabilities([1e308, -1e308], epsilon=1e308), [1, 0])


def test_exponential_is_private():
    """Every neighbour of a score vector that moves each score by -1, 0 or 1."""
    rng = np.random.default_rng(3)
    worst = 0.0
    for _ in range(300):
        scores = rng.integers(-3, 4, 4).astype(float)
        moved = scores + rng.integers(-1, 2, 4)
        p = mechanisms.exponential_probabilities(scores, epsilon=0.9)
        p_moved = mechanisms.exponential_probabilities(moved, epsilon=0.9)
        worst = max(worst, float(np.abs(np.log(p / p_moved)).max()))
    assert 0.7 < worst <= 0.9 + 1e-12


# ---- samplers ----


def ks_critical(size):
    return math.sqrt(math.log(2 / FALSE_ALARM) / (2 * size))  # Dvoretzky, Kiefer, Wolfowitz, Massart


def test_noise_has_the_right_law():
    size = 200_000
    rng = np.random.default_rng(5)
    laplace = mechanisms.laplace(np.full(size, 3.0), scale=0.7, rng=rng)
    gaussian = mechanisms.gaussian(np.full(size, -2.0), sigma=1.6, rng=rng)
    assert stats.ks_1samp(laplace, stats.laplace(3.0, 0.7).cdf).statistic < ks_critical(size)
    assert stats.ks_1samp(gaussian, stats.norm(-2.0, 1.6).cdf).statistic < ks_critical(size)
    assert stats.ks_1samp(laplace, stats.laplace(3.0, 0.75).cdf).statistic > ks_critical(size), "it has power"


def binomial_limits(size, probability):
    low, high = stats.binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], size, probability)
    return int(low), int(high)


def test_choices_have_the_right_law():
    rng = np.random.default_rng(6)
    bits = rng.integers(0, 2, 100_000)
    told = mechanisms.randomized_response(bits, epsilon=1.0, rng=rng)
    low, high = binomial_limits(bits.size, mechanisms.randomized_response_truth_probability(epsilon=1.0))
    assert low <= np.count_nonzero(told == bits) <= high
    scores = [0.0, 1.0, 3.0]
    drawn = np.bincount([mechanisms.exponential(scores, epsilon=1.2, rng=rng) for _ in range(5000)], minlength=3)
    for count, probability in zip(drawn, mechanisms.exponential_probabilities(scores, epsilon=1.2), strict=True):
        low, high = binomial_limits(5000, probability)
        assert low <= count <= high


def test_samplers_keep_shape_and_follow_their_generator():
    for sampler, kwargs in ((mechanisms.laplace, {"scale": 1.0}), (mechanisms.gaussian, {"sigma": 1.0})):
        once, again = (sampler(np.zeros((2, 3)), **kwargs, rng=np.random.default_rng(1)) for _ in range(2))
        assert once.shape == (2, 3)
        assert np.unique(once).size == 6, "the noise of the entries is independent"
        np.testing.assert_array_equal(once, again)
        assert isinstance(sampler(2.0, **kwargs, rng=np.random.default_rng(1)), float)
    told = mechanisms.randomized_response(np.zeros((4, 5), dtype=bool), epsilon=0.0, rng=np.random.default_rng(1))
    assert told.shape == (4, 5)
    assert told.dtype == np.int8
    assert mechanisms.randomized_response(True, epsilon=50.0, rng=np.random.default_rng(1)) == 1
    assert isinstance(mechanisms.exponential([1.0, 2.0], epsilon=1.0, rng=np.random.default_rng(1)), int)
