"""The parts of the privacy-loss distributions, each against what it claims: masses, lattices, transforms, brackets."""

import itertools
import math
import pickle

import mpmath
import numpy as np
import pytest
from scipy import fft, special, stats

from dpml import mechanisms
from dpml.accounting import composition, pld
from dpml.accounting.pld import fixed_size, losses, pairs
from dpml.accounting.pld.lattice import bracket, discretise, layout, profile
from tests.golden import golden
from tests.ptr.rows import panels

GOLDEN = golden("pld")


# ---- masses of cells ----


def test_normal_masses_have_a_small_relative_error():
    worst, cells = 0.0, [(0.0, 3.0, 1e-9), (12.5, -24.0, 1e-5), (-12.5, 20.0, 0.03), (0.02, 0.0, 0.1), (1.0, -8.0, 2)]
    for mean, low, width in cells:
        points = low + width * np.arange(5)
        with mpmath.workdps(60):
            edges = [mpmath.mpf(point) - mpmath.mpf(mean) for point in points.tolist()]
            for mass, (a, b) in zip(pairs.normal_masses(points, mean), itertools.pairwise(edges), strict=True):
                a, b = (-b, -a) if a + b > 0 else (a, b)
                worst = max(worst, abs(float(mass / (mpmath.ncdf(b) - mpmath.ncdf(a)) - 1)))
    assert worst < 0.5 * pairs.RELATIVE


def test_normal_masses_tile_the_line():
    points = np.concatenate([[-np.inf], np.linspace(-9.0, 7.0, 1237), [np.inf]])
    assert pairs.normal_masses(points, 0.7).sum() == pytest.approx(1.0, abs=1e-14)


def mp_sampled_masses(edges, q, sigma):
    """Masses of both laws of a Poisson-sampled Gaussian step between losses, in 50 digits."""
    with mpmath.workdps(50):
        q, sigma = mpmath.mpf(q), mpmath.mpf(sigma)
        z = [sigma**2 * mpmath.log(1 + (mpmath.e ** mpmath.mpf(float(t)) - 1) / q) + mpmath.mpf(1) / 2 for t in edges]

        def mass(a, b, mean):
            a, b = (a - mean) / sigma, (b - mean) / sigma
            a, b = (-b, -a) if a + b > 0 else (a, b)
            return mpmath.ncdf(b) - mpmath.ncdf(a)

        lower = [mass(a, b, 0) for a, b in itertools.pairwise(z)]
        return [(1 - q) * m + q * mass(a, b, 1) for m, a, b in zip(lower, z[:-1], z[1:], strict=True)], lower


@pytest.mark.parametrize(
    ("q", "sigma", "low", "width"), [(0.01, 4.0, 0.02, 1e-5), (1e-6, 0.5, 0.1, 1e-3), (0.3, 1, -0.3, 0.1)]
)
def test_the_masses_of_a_sampled_step_and_its_exchange(q, sigma, low, width):
    """An edge may also be misplaced by RELATIVE, which in a cell of the given width changes the mass by their ratio."""
    edges = low + width * np.arange(6)
    wanted_p, wanted_q = mp_sampled_masses(edges, q, sigma)
    pair = pairs.poisson(pairs.gaussian(1 / sigma), q)
    p, q0 = pair.cells(edges)
    other_p, other_q = pairs.exchanged(pair).cells(-edges[::-1])
    for found, wanted in ((p, wanted_p), (q0, wanted_q), (other_q[::-1], wanted_p), (other_p[::-1], wanted_q)):
        error = np.abs(np.array([float(m / w - 1) for m, w in zip(found[1:-1].tolist(), wanted, strict=True)]))
        assert error.max() < 0.2 * pairs.RELATIVE * (1 + 1 / width)


PAIRS = {
    "gaussian": pairs.gaussian(0.5),
    "laplace": pairs.laplace(0.8),
    "two answers": pairs.two_answers(0.7, 1e-3),
    "removed": pairs.poisson(pairs.gaussian(1.0), 0.05),
    "added": pairs.exchanged(pairs.poisson(pairs.gaussian(1.0), 0.05)),
    "rare": pairs.poisson(pairs.gaussian(2.0), 1e-6),
    "sampled laplace": pairs.poisson(pairs.laplace(1.0), 0.2),
    "fixed size": pairs.without_replacement(pairs.gaussian(1.0), 0.1),
    "real case": pairs.replaced(0.7, 0.1),
}


@pytest.mark.parametrize("name", PAIRS)
def test_each_pair_is_a_pair_of_laws_related_by_the_loss(name):
    pair = PAIRS[name]
    edges = np.linspace(-3.0, 3.0, 1201) + 1e-4
    p, q = pair.cells(edges)
    assert p.sum() + pair.beyond == pytest.approx(1.0, abs=1e-12) and q.sum() == pytest.approx(1.0, abs=1e-12)
    inner_p, inner_q, low, high = p[1:-1], q[1:-1], np.exp(edges[:-1]), np.exp(edges[1:])
    assert (inner_p <= high * inner_q * (1 + 1e-11)).all() and (inner_p >= low * inner_q * (1 - 1e-11)).all()
    if name in {"gaussian", "laplace", "fixed size", "real case"}:  # symmetric
        other_p, _ = pair.cells(-edges[::-1])
        assert other_p[::-1][1:-1] == pytest.approx(inner_q, rel=1e-9, abs=1e-15)


def test_the_fixed_size_profile_is_q_times_the_gaussian_one():
    q, sigma = 0.1, 1.0
    pair = pairs.without_replacement(pairs.gaussian(2 / sigma), q)
    for epsilon in (0.05, 0.4, 1.5):
        at = math.log1p(q * math.expm1(epsilon))
        p, q0 = pair.cells(np.array([-1e-9, at]))
        gauss_p, gauss_q = (special.ndtr(-(epsilon * sigma / 2 + s * 1 / sigma)) for s in (-1, 1))
        assert p[-1] - math.exp(at) * q0[-1] == pytest.approx(q * (gauss_p - math.exp(epsilon) * gauss_q), rel=1e-12)


# ---- lattices: worse above, better below, for every x ----


def h_of(masses, losses, x):
    return (masses * np.maximum(0.0, 1.0 - np.multiply.outer(x, np.exp(-losses)))).sum(axis=1)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("h", [0.3, 0.05, 0.004])
def test_the_lattice_pairs_enclose_the_true_one(name, h):
    """H(x), the integral of (dP - x dQ)_+, at losses between the nodes, where chords and tangents differ most."""
    pair = PAIRS[name]
    place = discretise.offset(pair, h)
    start, stop = discretise.index_range(pair, h, place, -4.0, 4.0)
    worse = discretise.worse(pair, h, place, start, stop)
    better = discretise.better(pair, h, place, start, stop)
    assert worse.masses.min() >= 0.0 and better.masses.min() >= 0.0
    at = np.unique(np.concatenate([np.linspace(-3.5, 3.5, 400), np.arange(-30, 30) * h + place]))
    x = np.exp(at)
    p, q = pair.cells(at)
    truth = np.cumsum(p[:0:-1])[::-1] - x * np.cumsum(q[:0:-1])[::-1]
    slack = 1e-13 * (1.0 + x)  # of the differences in this test
    for lattice, sign in ((worse, 1.0), (better, -1.0)):
        found = h_of(lattice.masses, (lattice.start + np.arange(len(lattice.masses))) * h + lattice.offset, x)
        finite = lattice.beyond - pair.beyond if sign > 0 else 0.0
        assert (sign * (found + finite - truth) >= -slack).all()
    if h == 0.004:
        total = [
            (lat.masses * np.exp(2.0 * ((lat.start + np.arange(len(lat.masses))) * h + lat.offset))).sum()
            for lat in (better, worse)
        ]
        allowed = {"two answers": 0.02, "sampled laplace": 1e-3, "fixed size": 1e-3, "rare": 0.01}.get(name, 1e-4)
        assert 0.0 <= total[1] - total[0] <= allowed * total[1]


def test_a_negative_mass_gives_the_convex_hull():
    h, masses = 0.1, np.array([0.3, -0.02, 0.1, -0.05, -0.01, 0.4, 0.1])
    losses_ = np.arange(7) * h
    hull = masses.copy()
    assert discretise._make_convex(hull, h)
    assert hull.min() >= 0.0 and hull.sum() == pytest.approx(masses.sum())
    assert (hull * np.exp(-losses_)).sum() == pytest.approx((masses * np.exp(-losses_)).sum())
    x = np.exp(np.linspace(-0.5, 1.0, 300))
    assert (h_of(hull, losses_, x) <= h_of(masses, losses_, x) + 1e-15).all()
    assert not discretise._make_convex(np.array([0.3, 0.1, -0.05]), h)


# ---- the tilted transform ----


@pytest.mark.parametrize("exponent", [10, 14])
def test_the_fft_is_well_within_its_error_bound(exponent):
    """Against the same sums in 80-bit or, where that is all there is, exactly rounded arithmetic."""
    size = 2**exponent
    masses = np.random.default_rng(exponent).random(size)
    masses /= masses.sum()
    found = fft.rfft(masses)
    k = np.arange(0, size // 2 + 1, max(1, size // 64))
    turns = (np.multiply.outer(k, np.arange(size)) % size) * (2 * math.pi / size)
    exact = [complex(math.fsum(masses * np.cos(a)), -math.fsum(masses * np.sin(a))) for a in turns]
    assert np.abs(found[k] - exact).max() < 0.2 * 8.0 * 2.0**-53 * exponent


def convolved(masses, count):
    total = np.ones(1)
    for _ in range(count):
        total = np.convolve(total, masses)
    return total


@pytest.mark.parametrize("lam", [0.5, 3.0, 20.0])
@pytest.mark.parametrize("size", [32, 64, 512])
@pytest.mark.parametrize("common", [-math.inf, -0.1, 0.2])
@pytest.mark.parametrize("unit", sorted({profile.UNIT, profile.FINEST}))
def test_a_profile_encloses_the_exact_one_whatever_the_window(lam, size, common, unit):
    """Also where the window is far too small, or sums of common losses matter: then the ends are far apart."""
    rng = np.random.default_rng(size)
    h, start, count = 0.02, -12, 6
    masses = rng.random(40) ** 3
    masses /= masses.sum()
    lattice = discretise.Lattice(start, 0.003, masses, 0.0)
    total = convolved(masses, count)
    losses_ = (count * start + np.arange(len(total))) * h + count * 0.003
    mean = float((total * np.exp(lam * losses_) * losses_).sum() / (total * np.exp(lam * losses_)).sum())
    window = profile.Window(h, mean - size * h / 2, size, lam, lam - 30.0, lam + 30.0, common, 40.0, unit)
    found = profile.tilted_profile([(profile.transformed(lattice, window), count)], window)
    for epsilon in np.linspace(0.0, losses_[-1] + 0.1, 41):
        exact = float((total * np.maximum(0.0, -np.expm1(np.minimum(epsilon - losses_, 0.0)))).sum())
        assert found.lower(epsilon) <= exact * (1 + 1e-12) + 1e-300
        assert found.upper(epsilon) >= exact * (1 - 1e-12)
        if size == 512 and lam < 20.0 and epsilon > count * common + 1.0:
            assert found.upper(epsilon) <= found.lower(epsilon) + 1e-9


@pytest.mark.skipif(profile.FINEST == profile.UNIT, reason="this processor has no longer floats")
@pytest.mark.parametrize("common", [-math.inf, 0.05])
def test_longer_floats_narrow_what_rounding_leaves(common):
    """A loss of 0.25 now and then, in ten thousand steps: the exact law of the sum is binomial."""
    h, count, q, epsilon = 0.125, 10**4, 1e-5, 2.0
    lattice = discretise.Lattice(0, 0.0, np.array([1.0 - q, 0.0, q]), 0.0)  # a loss of 0.25 with chance q
    times = np.arange(60)
    chances = stats.binom(count, q).pmf(times)
    exact = math.fsum(chances * np.maximum(0.0, -np.expm1(np.minimum(0.0, epsilon - 2 * h * times))))
    widths = []
    for unit in (profile.UNIT, profile.FINEST):
        window = profile.Window(h, -1.0, 1024, 2.0, -30.0, 60.0, common, 40.0, unit)
        found = profile.tilted_profile([(profile.transformed(lattice, window), count)], window)
        assert found.lower(epsilon) <= exact * (1.0 + 1e-11) and exact * (1.0 - 1e-11) <= found.upper(epsilon)
        widths.append(found.upper(epsilon) - found.lower(epsilon))
    assert widths[1] < 1e-2 * widths[0]


@pytest.mark.parametrize("common", [-math.inf, 0.0])
def test_two_lattices_and_an_infinite_loss(common):
    first = discretise.Lattice(-2, 0.0, np.array([0.2, 0.3, 0.1, 0.3]), 0.1)
    second = discretise.Lattice(0, 0.05, np.array([0.5, 0.45]), 0.05)
    window = profile.Window(0.1, -1.0, 64, 2.0, -5.0, 40.0, common, 300.0)
    parts = [(profile.transformed(first, window), 2), (profile.transformed(second, window), 1)]
    found = profile.tilted_profile(parts, window)
    total = np.convolve(convolved(first.masses, 2), second.masses)
    losses_ = (-4 + np.arange(len(total))) * 0.1 + 0.05
    for epsilon in (0.0, 0.13, 0.3):
        exact = (
            float((total * np.maximum(0.0, -np.expm1(np.minimum(epsilon - losses_, 0.0)))).sum()) + 1 - 0.9**2 * 0.95
        )
        assert found.lower(epsilon) <= exact <= found.upper(epsilon)
        assert found.upper(epsilon) - found.lower(epsilon) < 1e-9


# ---- brackets against independent truths ----


def two_steps_delta(epsilon, q, sigma):
    """The removed direction of two steps: one integral over the output of the first, the second in closed form."""
    z = np.linspace(-14 * sigma, 14 * sigma + 1, 40_001)
    step = z[1] - z[0]
    q0 = np.exp(-((z / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))
    ratio = 1 - q + q * np.exp((z - 0.5) / sigma**2)
    rest = epsilon - np.log(ratio)  # what epsilon leaves to the second step
    with np.errstate(divide="ignore", invalid="ignore"):
        at = sigma**2 * np.log1p(np.expm1(rest) / q) + 0.5
    at = np.where(rest <= math.log1p(-q), -np.inf, at)
    upper_0, upper_1 = special.ndtr(-at / sigma), special.ndtr((1 - at) / sigma)
    return float((q0 * ratio * (q * upper_1 + (1 - q - np.exp(rest)) * upper_0)).sum() * step)


@pytest.mark.parametrize(
    ("q", "sigma", "epsilon"),
    [(0.1, 1.0, 0.8), (0.01, 0.7, 1.0), (0.5, 2.0, 1.5), (0.003, 1.2, 0.1), (1e-4, 0.5, 1.0), (1e-6, 0.5, 1.0)],
)
def test_two_steps_against_an_integral(q, sigma, epsilon):
    truth = two_steps_delta(epsilon, q, sigma)
    parts = [(pairs.poisson(pairs.gaussian(1 / sigma), q), 2)]
    low, high = bracket.delta_interval(parts, epsilon, 1e-5)
    assert low <= truth * (1 + 1e-9) and truth * (1 - 1e-9) <= high
    assert high - low <= 2e-3 * truth
    low, high = bracket.epsilon_interval(parts, truth, 1e-4)
    assert low <= epsilon + 1e-9 and epsilon - 1e-9 <= high and high - low <= 1.1e-4


@pytest.mark.parametrize("count", [10**6, 10**8])
def test_many_small_parts_are_one_gaussian(count):
    exact = mechanisms.gaussian_epsilon(sigma=1.0, delta=1e-5)
    found = losses.compose([(losses.gaussian(sigma=math.sqrt(count)), count)], delta=1e-5)
    assert found.lower <= exact <= found.upper <= found.lower + 1e-4 + 1.6e-11 * count


@pytest.mark.parametrize("seed", range(14))
def test_a_coarse_bracket_holds_a_fine_one(seed):
    rng = np.random.default_rng(1000 + seed)
    q, sigma = 10 ** rng.uniform(-4, -0.1), 10 ** rng.uniform(-0.4, 1.2)
    steps, delta = int(10 ** rng.uniform(0.4, 4.5)), 10 ** rng.uniform(-14, -2)
    removed = pairs.poisson(pairs.gaussian(1 / sigma), q)
    for pair in (removed, pairs.exchanged(removed)):
        coarse = bracket.epsilon_interval([(pair, steps)], delta, 3e-2)
        fine = bracket.epsilon_interval([(pair, steps)], delta, 1e-4)
        assert coarse[0] <= fine[1] and fine[0] <= coarse[1]
        assert fine[1] - fine[0] <= max(coarse[1] - coarse[0], 1e-4 * fine[1]) + 1e-12


@pytest.mark.parametrize(
    "row", GOLDEN["replace_one_pair_pld"], ids=lambda row: f"{row['gamma']:.4f}-{row['sigma']}-{row['T']}"
)
def test_the_real_case_of_fixed_size_sampling(row):
    part = losses.Loss((pairs.replaced(1.0 / row["sigma"], row["gamma"]),), "replace-one"), row["T"]
    found = losses.compose([part], delta=1e-5)
    slack = abs(row["diff"])
    assert found.lower <= row["eps_est"] + slack and row["eps_est"] - slack <= found.upper
    assert found.upper - found.lower < 1.1e-4
    both = fixed_size.epsilon_bounds(q=row["gamma"], sigma=row["sigma"], steps=row["T"], delta=1e-5)
    assert found.lower <= both.lower < both.upper


FIXED_SIZE = [(1, 2, 1e-9, 0.1, 1, 1e-5), (2, 600, 2e-6, 0.003, 0.6, 1e-4), (3, 60, 5e-5, 0.9, 2, 1e-7)]


@pytest.mark.parametrize(("steps", "number", "slack", "q", "sigma", "delta"), FIXED_SIZE)
@np.errstate(under="ignore")
def test_both_ends_of_fixed_size_sampling_against_integrals(steps, number, slack, q, sigma, delta):
    """The profile is q times that of sigma / 2, so that the law of a loss is: two normal laws at losses above 0, their
    mirror image, and the rest at 0. All steps but the last by quadrature, which the corner of the last profile disturbs
    by the slack. The lower end is that of a removed record at sigma / 2."""
    found, mu = fixed_size.epsilon_bounds(q=q, sigma=sigma, steps=steps, delta=delta), 2.0 / sigma
    base, width = panels(np.linspace(0.0, mu * mu / 2.0 + 12.0 * mu, number), 16)
    drawn, other = (width * stats.norm(s * mu * mu / 2.0, mu).pdf(base) for s in (1.0, -1.0))
    above, masses = np.log1p(q * np.expm1(base)), np.concatenate([(1 - q) * other + q * drawn, other])
    losses_, masses = np.concatenate([above, -above, [0.0]]), np.append(masses, 1.0 - masses.sum())
    before, weight = np.zeros(1), np.ones(1)
    for _ in range(steps - 1):
        before, weight = np.add.outer(before, losses_).ravel(), np.multiply.outer(weight, masses).ravel()
    for epsilon, side in ((found.upper, 1.0), (found.upper - 1e-4, -1.0)):
        at, more = np.abs(epsilon - before), -np.expm1(np.minimum(epsilon - before, 0.0))
        inner = np.log1p(np.expm1(at) / q)
        last = q * (special.ndtr(mu / 2 - inner / mu) - np.exp(inner) * special.ndtr(-mu / 2 - inner / mu))
        assert side * (weight @ (more + (1.0 - more) * np.maximum(last, 0.0)) / delta - 1.0) < slack
    if steps == 2:
        assert two_steps_delta(found.lower + 1e-4, q, sigma / 2) <= delta <= two_steps_delta(found.lower, q, sigma / 2)


@pytest.mark.parametrize("row", GOLDEN["one_step_delta"], ids=lambda row: f"{row['gamma']}-{row['sigma']}-{row['eps']}")
def test_golden_deltas_of_one_step(row):
    found = pld.delta_bounds(q=row["gamma"], sigma=row["sigma"], steps=1, epsilon=row["eps"])
    assert max(row["delta_remove"], row["delta_add"]) == pytest.approx(found.upper, rel=1e-8)
    removed = pairs.poisson(pairs.gaussian(1 / row["sigma"]), row["gamma"])
    for pair, delta in ((removed, row["delta_remove"]), (pairs.exchanged(removed), row["delta_add"])):
        if row["eps"] > 0.0:
            low, high = bracket.delta_interval([(pair, 1)], row["eps"], 1e-6)
            assert low <= delta * (1 + 1e-8) + 1e-300 and delta * (1 - 1e-8) <= high


@pytest.mark.parametrize("row", [row for row in GOLDEN["tight"] if "added" in row])
def test_the_direction_that_adds_a_record(row):
    q, sigma, steps, delta = row["at"].values()
    pair = pairs.exchanged(pairs.poisson(pairs.gaussian(1 / sigma), q))
    low, high = bracket.epsilon_interval([(pair, steps)], delta, 3e-4)
    digit = 10 ** -(len(str(row["added"]).split(".")[1]))
    assert low <= row["added"] + digit and row["added"] - digit <= high


def test_different_randomized_responses_by_enumeration():
    steps = [(0.3, 4), (0.7, 3), (1.1, 2)]
    values, weights = np.zeros(1), np.ones(1)
    for epsilon, count in steps:
        p = 1 / (1 + math.exp(-epsilon))
        for _ in range(count):
            values = np.concatenate([values + epsilon, values - epsilon])
            weights = np.concatenate([weights * p, weights * (1 - p)])
    found = losses.compose([(losses.randomized_response(epsilon=e), k) for e, k in steps], delta=1e-3)

    def delta(epsilon):
        return float((weights * np.maximum(0.0, -np.expm1(np.minimum(epsilon - values, 0.0)))).sum())

    assert delta(found.upper) <= 1e-3 * (1 + 1e-9)
    assert delta(found.lower) >= 1e-3 * (1 - 1e-9)
    assert found.upper - found.lower < 1e-3


def test_infinite_losses():
    part = losses.approximate(epsilon=0.1, delta=1e-4)
    assert math.isinf(losses.compose([(part, 10)], delta=9e-4).upper)
    assert losses.compose([(part, 10)], delta=1.1e-3).upper <= 1.0
    assert math.isinf(losses.compose([(part, 1)], delta=0.0).upper)
    pure = losses.compose([(losses.randomized_response(epsilon=0.3), 5), (losses.laplace(scale=2.0), 1)], delta=0.0)
    assert pure.lower == pytest.approx(2.0) and pure.upper == pytest.approx(2.0)
    sampled = losses.poisson(losses.laplace(scale=1.0), q=0.1)
    assert losses.compose([(sampled, 3)], delta=0.0).upper == pytest.approx(3 * math.log1p(0.1 * math.expm1(1.0)))
    assert math.isinf(losses.compose([(losses.gaussian(sigma=5.0), 1)], delta=0.0).upper)
    assert losses.compose([(losses.gaussian(sigma=5.0), 0)], delta=0.0).upper == 0.0


def test_refusals_name_what_is_wrong():
    plain, sampled = losses.gaussian(sigma=1.0), losses.poisson(losses.gaussian(sigma=1.0), q=0.1)
    with pytest.raises(ValueError, match=r"^loss must be a Loss without sampling.*got one with Poisson sampling"):
        losses.poisson(sampled, q=0.1)
    for bad in ([], [(plain, -1)], [(plain, 2.0)], [plain], [(1.0, 2)], None):
        with pytest.raises(ValueError, match=r"^parts must "):
            losses.compose(bad, delta=1e-5)
    with pytest.raises(ValueError, match=r"^epsilon must be smaller for sigma"):
        pld.noise_multiplier(q=0.1, steps=2, epsilon=5000.0, delta=1e-5)
    with pytest.raises(ValueError, match=r"^sigma must be larger for this delta"):
        fixed_size.epsilon_bounds(q=0.01, sigma=0.1, steps=10, delta=1e-250)


def test_a_plan_never_decides_what_is_true():
    """Tilt, window and step are only good or bad choices: with bad ones the ends still enclose the truth."""
    pair, steps, truth = pairs.poisson(pairs.gaussian(1.0), 0.01), 100, 0.718035661308094
    look = [(layout.coarse_law(pair), steps)]
    for lam, h, size in [(1.0, 0.01, 128), (30.0, 0.002, 256), (9.0, 0.02, 64), (0.2, 0.001, 1024)]:
        plan = layout.plan_layout(look, math.log(1e-5), None, 1e-3, 1e-9, 0.0, layout.rare_losses, profile.UNIT)
        plan = plan._replace(window=profile.Window(h, -0.3, size, lam, lam - 1.0, lam + 1.0))
        upper = bracket.profile_of([(pair, steps)], plan, discretise.worse).upper(truth)
        lower = bracket.profile_of([(pair, steps)], plan, discretise.better).lower(truth)
        assert lower <= 1e-5 * (1 + 1e-6) and upper >= 1e-5 * (1 - 1e-6)


def test_losses_are_values():
    """Equal, hashed and pickled by how they were made; equal parts are one part, in whatever order."""
    made = [losses.poisson(losses.gaussian(sigma=1.1), q=0.01) for _ in range(2)]
    other = losses.poisson(losses.gaussian(sigma=1.2), q=0.01)
    assert made[0] == made[1] != other and len({*made, other}) == 2
    assert pickle.loads(pickle.dumps(other)) == other
    many = [(made[0], 1), (other, 2)] * 100
    found = losses.compose(many, delta=1e-5)
    assert found == losses.compose(many[::-1], delta=1e-5) == losses.compose([(other, 200), (made[0], 100)], delta=1e-5)


def test_a_delta_just_enough_for_the_infinite_losses():
    for delta, right in ((1e-5, 0.1), (0.999e-5, math.inf)):
        found = losses.compose([(losses.approximate(epsilon=0.1, delta=1e-5), 1)], delta=delta)
        assert found.upper == pytest.approx(right, rel=1e-15) and found.lower <= found.upper
    flat = losses.compose([(losses.approximate(epsilon=0.1, delta=1e-8), 1000)], delta=1e-5)
    exact = composition.optimal(epsilon=0.1, delta=1e-8, k=1000, total_delta=1e-5)
    assert flat.upper == pytest.approx(exact.epsilon, abs=1e-4) and exact.epsilon == pytest.approx(24.74936, abs=1e-5)


def test_losses_beyond_what_is_searched_are_refused():
    parts = [(losses.laplace(scale=0.5), 10**9), (losses.gaussian(sigma=1e6), 1)]
    with pytest.raises(ValueError, match=r"^parts must lose less, or delta be larger, got delta = 0\.1: "):
        losses.compose(parts, delta=0.1)
