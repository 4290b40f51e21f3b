"""Propose-test-release by privacy-loss distributions: masses, the larger profile, golden numbers, both ends, speed."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

from dpml import mechanisms
from dpml.accounting.pld import losses, pairs
from dpml.ptr import _worst_pairs, privacy, single_release
from dpml.ptr._checked import parameters
from tests.golden import golden
from tests.ptr.rows import scattered

GOLDEN = golden("ptr")
ONE = {"sigma": 1.1, "tau": 0.5, "scale": 1.0, "delta0": 1e-8}
MNIST = {**ONE, "q": 256 / 60000, "delta": 1e-5}


@np.errstate(under="ignore")
def profiles(pair, grid):
    """H at e^epsilon for each epsilon of an increasing grid, and the mass of P above it."""
    above = [np.cumsum(side[:0:-1])[::-1] for side in pair.cells(grid)]
    return above[0] - np.exp(grid) * above[1] + pair.beyond, above[0]


# ---- masses of the product ----


def product_masses(low, high, a, mu):
    """Masses of P and Q of the product of Laplace and normal laws between two losses, in 22 digits."""
    with mp.workdps(22):
        a, mu, low, high = (mp.mpf(float(x)) for x in (a, mu, low, high))

        def density(x):
            left, right = (x - a) / mu, (x + a) / mu
            bracket = mp.ncdf(-left) - mp.ncdf(-right) if left > 0 else mp.ncdf(right) - mp.ncdf(left)
            between = mp.exp(x / 2 - a / 2 - mu**2 / 8) * bracket / 4
            ends = mp.npdf(x, a + mu**2 / 2, mu) + mp.exp(-a) * mp.npdf(x, mu**2 / 2 - a, mu)
            return between + ends / 2

        def mass(k):  # of P, then of Q, made near 1
            size = density((low + high) / 2) * mp.exp(-k * (low + high) / 2)
            integrand = [lambda x: density(x) * mp.exp(-k * x) / size, mp.linspace(low, high, 3)]
            return size * mp.quad(*integrand, method="gauss-legendre", maxdegree=4)

        return [mass(0), mass(1)]


@pytest.mark.parametrize(("a", "mu"), [(1.0, 1 / 1.1), (0.001, 1.0), (20.0, 5.0), (2.0, 0.01)])
def test_masses_of_laplace_and_gaussian_noise(a, mu):
    pair = _worst_pairs.laplace_gaussian(a, mu)
    where = ((-a, 0.1 * mu), (0.0, 1e-5 * mu), (0.7 * a, mu), (a + 6.0 * mu, 0.01 * mu), (a + 18.0 * mu, 0.5 * mu))
    for low, width in where:
        p, q = pair.cells(np.array([low, low + width]))
        for found, wanted in zip((p[1], q[1]), product_masses(low, low + width, a, mu), strict=True):
            # an edge may be misplaced by RELATIVE, in units of the loss
            assert float(found / wanted - 1) == pytest.approx(0.0, abs=0.5 * pairs.RELATIVE * (1.0 + 1.0 / width))


@pytest.mark.parametrize(
    "given", [(1.1, 0.5, 1.0, 1e-8), (2.0, 0.5, 100.0, 0.5), (0.5, 0.05, 0.3, 1e-3), (3.0, 1.0, 2.0, 0.1)]
)
def test_the_pairs_are_laws_and_symmetric(given):
    for pair in _worst_pairs.worst_pairs(parameters(*given)):
        edges = np.sort(np.concatenate([np.linspace(-9.0, 9.0, 301), [-1e-3, 1e-3]]))
        p, q = pair.cells(edges)
        assert [p.sum() + pair.beyond, q.sum()] == pytest.approx([1.0, 1.0], abs=1e-13)
        other_q, other_p = (side[::-1] for side in pair.cells(-edges[::-1]))
        inner = slice(1, -1)  # mass beyond is at infinity: no cell has it in P, the first one has it in Q
        assert p[inner] == pytest.approx(other_p[inner], rel=1e-11, abs=1e-300)
        assert q[inner] == pytest.approx(other_q[inner], rel=1e-11, abs=1e-300)


def test_cells_may_be_merged():
    """What an edge cuts in two adds up again, also at the two masses of the larger profile, in any order of edges."""
    pair = _worst_pairs.worst_pairs(parameters(**ONE))[2]
    c = _worst_pairs.meeting_point(*_worst_pairs.worst_pairs(parameters(**ONE))[1::-1])
    fine = np.array([-8.0, -c, -3.0, 0.0, 0.0 + 1e-9, 2.0, c - 1e-9, c, c + 1e-9, 9.0])
    p, q = pair.cells(fine)
    for kept in ([0, 9], [1, 7], [0, 2, 3, 6, 8], [7], [4]):
        p1, q1 = pair.cells(fine[kept])
        groups = np.concatenate([[0], np.array(kept) + 1])
        assert p1 == pytest.approx(np.add.reduceat(p, groups), rel=1e-13)
        assert q1 == pytest.approx(np.add.reduceat(q, groups), rel=1e-13)


@pytest.mark.parametrize("given", [ONE, {**ONE, "tau": 0.3, "delta0": 1e-3}, {**ONE, "scale": 0.05}])
def test_a_cell_between_equal_edges_is_empty(given):
    """Poisson sampling maps every loss below its least one to -inf: there edges coincide."""
    edges = np.linspace(-6.0, 6.0, 25)
    often = np.sort(np.concatenate([edges, edges[[0, 7, 24]], 2 * [-np.inf], 2 * [np.inf]]))
    empty = np.concatenate([[False], often[1:] == often[:-1], [False]])
    three = _worst_pairs.worst_pairs(parameters(**given))
    others = [pairs.gaussian(0.9), pairs.laplace(2.0), pairs.two_answers(1.0, 0.1), pairs.replaced(0.9, 0.2)]
    for pair in (*three, *others, *map(pairs.exchanged, three), *(pairs.poisson(pair, 0.5) for pair in three)):
        once = pair.cells(np.unique(often))
        for mass, wanted in zip(pair.cells(often), once, strict=True):
            assert not mass[empty].any()
            assert mass[~empty] == pytest.approx(wanted, rel=1e-11, abs=1e-300)


# ---- one release ----


def test_golden_single_epsilon():
    for name, wanted in GOLDEN["other"]["single_shot_eps_q1"].items():
        sigma, scale = (float(part) for part in name.strip("()").split(","))
        found = single_release.single_epsilon(sigma=sigma, tau=0.5, scale=scale, delta0=1e-8, delta=1e-5)
        assert found.epsilon == pytest.approx(wanted, rel=1e-12)
        assert found.kind == "exact"
    assert single_release.single_epsilon(**ONE, delta=1e-5).epsilon == pytest.approx(4.790995051, abs=5e-10)


@pytest.mark.parametrize("row", GOLDEN["profile_single"], ids=lambda r: str(r["eps"]))
def test_golden_profiles(row):
    cases = single_release.delta_cases(**ONE, epsilon=row["eps"])
    assert list(cases) == pytest.approx([row["case1"], row["case2"]], rel=1e-11, abs=0.0)
    assert single_release.single_delta(**ONE, epsilon=row["eps"]) == max(cases)


CASE_2 = [
    (1.1, 1.0, 3.0),
    (2.0, 0.5, 0.3),
    (0.7, 4.0, 9.0),
    (0.04, 1.0, 699.0),
    (745.0, 0.01, 100.0444),
    (1e4, 1e6, 0.0),
]


@pytest.mark.parametrize(("sigma", "scale", "epsilon"), CASE_2)
def test_the_profile_of_case_2_is_an_average_of_gaussian_profiles(sigma, scale, epsilon):
    """Given the Laplace loss l, what is left is a Gaussian profile at epsilon - l; in mpmath, down to 1e-244."""
    with mp.workdps(30):
        s, a, e = mp.mpf(sigma), 1 / mp.mpf(scale), mp.mpf(epsilon)

        def gaussian(x):
            return mp.ncdf(1 / (2 * s) - x * s) - mp.exp(x) * mp.ncdf(-1 / (2 * s) - x * s)

        ends = gaussian(e - a) / 2 + mp.exp(-a) * gaussian(e + a) / 2
        cuts = sorted({-a, mp.mpf(0), a, *(x for x in (a - k / s for k in (0.03, 0.3, 3, 12)) if x > -a)})
        wanted = ends * (1 + mp.quad(lambda x: gaussian(e - x) * mp.exp((x - a) / 2) / ends / 4, cuts))
    setting = {"sigma": sigma, "tau": 0.5, "scale": scale, "delta0": 1e-8}
    found = float(single_release.delta_cases(**setting, epsilon=epsilon).case_2)
    assert found == pytest.approx(float(wanted), rel=1e-10, abs=0.0)


def test_epsilon_and_delta_of_one_release_are_inverse():
    rng = np.random.default_rng(8)
    for _ in range(12):
        setting = scattered(rng, sigma=(0.5, 7.4), tau=(0.05, 1.0), scale=(0.4, 7.4), delta0=(1e-9, 0.5))
        delta = 10.0 ** rng.uniform(-8.0, -1.0)
        epsilon = single_release.single_epsilon(**setting, delta=delta).epsilon
        if epsilon > 0.0:
            assert single_release.single_delta(**setting, epsilon=epsilon) == pytest.approx(delta, rel=1e-9, abs=0.0)
    assert single_release.single_epsilon(**ONE, delta=0.0).epsilon == math.inf
    assert single_release.single_epsilon(**ONE, delta=0.6).epsilon == 0.0


# ---- the larger profile ----


def test_golden_crossing():
    first, second, _ = _worst_pairs.worst_pairs(parameters(**ONE))
    assert _worst_pairs.meeting_point(second, first) == pytest.approx(GOLDEN["profile_crossing_eps"], abs=1e-9)


MEETING = [(1.1, 0.5, 1.0, 1e-8), (4.0, 0.2, 0.5, 0.1), (1.1, 0.3, 1.0, 1e-3), (2.0, 0.5, 100.0, 0.5)]


@pytest.mark.parametrize("given", [*MEETING, (30.0, 0.2, 0.02, 1e-12)])
def test_the_larger_profile_is_the_larger_one(given):
    """At both signs of epsilon; below 0 the profile is 1 - e^epsilon + ..., up to which nothing matters."""
    first, second, both = _worst_pairs.worst_pairs(parameters(*given))
    grid = np.sort(np.append(np.linspace(-12.0, 20.0, 400), min(_worst_pairs.meeting_point(second, first), 25.0)))
    wanted = np.maximum(profiles(first, grid)[0], profiles(second, grid)[0])
    found, tail = profiles(both, grid)
    assert (np.abs(found - wanted) <= 1e-13 * (np.abs(wanted) + tail)).all()


def test_the_profiles_cross_at_most_once_for_positive_epsilon():
    """The theorem in `single_release`: case 2 first, then case 1, on random settings and a fine grid."""
    rng = np.random.default_rng(10)
    patterns = set()
    for _ in range(40):
        sigma, tau = math.exp(rng.uniform(-0.5, 2.0)), rng.uniform(0.1, 0.95)
        second = _worst_pairs.laplace_gaussian(math.exp(rng.uniform(-4.0, 1.0)), 1.0 / sigma)
        branches = pairs.gaussian(1.0 / sigma), pairs.gaussian(1.0 / (sigma * tau))
        first = _worst_pairs.public_choice(10.0 ** rng.uniform(-6.0, -0.31), *branches)
        one, two = (profiles(pair, np.linspace(0.0, 12.0, 150))[0] for pair in (first, second))
        with np.errstate(under="ignore"):
            clear = (np.abs(one - two) > 1e-9 * np.maximum(one, two)) & (np.maximum(one, two) > 1e-250)
        signs = [bool(sign) for sign, _ in itertools.groupby((one > two)[clear])]
        assert signs in ([False], [True], [False, True])
        patterns.add(tuple(signs))
    assert len(patterns) == 3  # all that may be seen was seen


# ---- many steps ----


@pytest.mark.parametrize("steps", [1000, 3500, 10000])
def test_golden_mnist(steps):
    """The golden upper bounds have steps of 1e-4 and 2e-4; the truth is a third of their difference lower."""
    removed, added = GOLDEN["mnist_pld"]["h=1e-4"][str(steps)]
    coarse = GOLDEN["mnist_pld"]["h=2e-4"][str(steps)]
    truth = removed - (coarse - removed) / 3.0
    found = privacy.epsilon_bounds(**MNIST, steps=steps)
    assert found.upper == pytest.approx(truth, abs=2e-5)
    assert found.upper >= truth - 3e-6
    assert found.upper - 1.2e-4 < found.lower <= found.upper
    assert (found.adjacency, found.sampling) == ("add/remove", "Poisson")
    sampled = losses.poisson(privacy.privacy_loss(**ONE), q=MNIST["q"])
    other = losses.Loss(sampled.pairs[1:], "add/remove", "Poisson")
    assert losses.compose([(other, steps)], delta=1e-5).upper == pytest.approx(added, abs=1.2e-4)


@pytest.mark.parametrize("row", GOLDEN["fig3_fig5"], ids=lambda r: f"{r['tau']:.2f}-{r['T']}")
def test_golden_figure_3(row):
    setting = {"q": row["q"], "sigma": row["sigma1"], "tau": row["tau"], "scale": row["b"], "delta0": row["delta0"]}
    found = privacy.epsilon(**setting, steps=row["T"], delta=1e-5)
    assert found.epsilon == pytest.approx(max(row["pld_rem"], row["pld_add"]), rel=2e-4, abs=1e-4)
    assert found.epsilon < row["exact_rdp"]


def test_one_step_against_the_exact_profile():
    """A sampled step has q times the profile at log(1 + (e^epsilon - 1)/q)."""
    for q in (1.0, 0.3, 0.01):
        found = privacy.epsilon_bounds(**ONE, q=q, steps=1, delta=1e-5)
        base = single_release.single_epsilon(**ONE, delta=1e-5 / q).epsilon
        wanted = math.log1p(q * math.expm1(base))
        assert found.lower <= wanted * (1.0 + 1e-12)
        assert wanted <= found.upper * (1.0 + 1e-12)
        assert found.upper - found.lower < 1.2e-4


@pytest.mark.parametrize(
    ("given", "q", "steps"),
    [
        ((1.1, 0.3, 1.0, 1e-3), 0.01, 100),  # the branch with little noise is met often
        ((1.1, 1.0, 1.0, 1e-8), 0.01, 4),  # case 2 alone
        ((1.0, 0.1, 1.0, 0.5), 0.1, 4),
        ((0.6, 0.9, 3.0, 0.4), 1e-6, 4),
        ((30.0, 0.2, 0.1, 1e-12), 1.0, 4),
        ((0.3, 0.2, 0.1, 1e-6), 0.1, 4),
    ],
)
def test_the_upper_end_covers_every_mixture_of_the_cases(given, q, steps):
    """Steps in case 1 and steps in case 2, in any proportion, lose less than the larger profile at each step."""
    found = privacy.epsilon_bounds(**parameters(*given)._asdict(), q=q, steps=steps, delta=1e-6)
    assert 0.0 < found.upper < math.inf
    laws = [losses.Loss((pair,)) for pair in _worst_pairs.worst_pairs(parameters(*given))]
    first, second, larger = [losses.poisson(law, q=q) for law in laws] if q < 1.0 else laws
    ends = [
        losses.compose([(first, count), (second, steps - count)], delta=1e-6)
        for count in (0, math.ceil(0.3 * steps), steps)
    ]
    assert max(end.lower for end in ends) <= found.upper
    assert found.lower <= max(ends[0].upper, ends[-1].upper)
    assert found.lower >= max(ends[0].lower, ends[-1].lower) - 2e-4
    tight = losses.compose([(larger, steps)], delta=1e-6).upper
    assert found.upper == pytest.approx(tight, rel=1e-3 if steps == 4 else 0.03, abs=3e-4)


def test_a_branch_without_noise_goes_to_delta():
    """sigma tau below 0.04: infinite as soon as T q delta0 exceeds delta, and close to the limit of small tau."""
    setting = {**MNIST, "delta0": 1e-9, "steps": 1000}
    open_branch = privacy.epsilon_bounds(**{**setting, "tau": 0.03})
    least_noise = privacy.epsilon_bounds(**{**setting, "tau": 0.04})
    assert open_branch.upper == pytest.approx(least_noise.upper, abs=2e-4)
    assert open_branch.upper >= least_noise.lower
    assert privacy.epsilon_bounds(**{**setting, "tau": 0.03, "delta0": 1e-3}).upper == math.inf
    assert privacy.epsilon_bounds(**{**setting, "tau": 0.03, "delta0": 1e-3}).lower < math.inf


def test_the_ends_that_need_no_distribution():
    for changed in ({"q": 0.0}, {"steps": 0}, {"delta": 1.0}, {"steps": 2, "delta": 0.009}):
        assert privacy.epsilon_bounds(**{**MNIST, "steps": 5, **changed}).upper == 0.0
    bounds = privacy.epsilon_bounds(**{**MNIST, "delta": 0.0}, steps=5)
    assert (bounds.lower, bounds.upper) == (0.0, math.inf)


# ---- composition with others ----


def test_steps_compose_with_other_mechanisms():
    """With nothing else as before; with a Gaussian release of its own, between the larger part and their sum."""
    step = losses.poisson(privacy.privacy_loss(**ONE), q=MNIST["q"])
    alone = losses.compose([(step, 1000)], delta=1e-5)
    assert alone.upper == pytest.approx(privacy.epsilon(**MNIST, steps=1000).epsilon, abs=1.2e-4)
    release = (losses.gaussian(sigma=6.0), 1)
    both = losses.compose([(step, 1000), release], delta=1e-5)
    extra = mechanisms.gaussian_epsilon(sigma=6.0, delta=5e-6)
    assert alone.upper + 0.05 < both.upper < privacy.epsilon(**{**MNIST, "delta": 5e-6}, steps=1000).epsilon + extra
    assert both.adjacency == "add/remove"


# ---- curves and time ----


def test_the_curve_is_what_single_calls_say():
    counts = np.array([[0, 1, 7], [500, 501, 2000]])
    curve = privacy.epsilon_curve(**MNIST, steps=counts)
    assert curve.shape == counts.shape
    assert (np.diff(curve.ravel()) > 0.0).all()
    for count, value in zip(counts.ravel(), curve.ravel(), strict=True):
        found = privacy.epsilon_bounds(**MNIST, steps=int(count))
        assert found.lower <= value <= found.upper + 2e-4
    full = privacy.epsilon_curve(**{**ONE, "q": 1.0, "delta": 1e-5}, steps=[1, 3])
    assert full == pytest.approx([privacy.epsilon(**ONE, q=1.0, delta=1e-5, steps=t).epsilon for t in (1, 3)], abs=3e-4)
