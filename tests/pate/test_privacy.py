"""The cost of votes: golden numbers, mpmath, and the exact divergence of small ensembles over all their neighbours."""

import itertools
import math
from functools import partial

import mpmath as mp
import numpy as np
import pytest
from scipy.special import log_ndtr, logsumexp

from dpml.accounting import rdp
from dpml.accounting.composition import optimal
from dpml.accounting.guarantee import Guarantee
from dpml.pate import data_dependent, gaussian_votes, laplace_votes, publish_cost, student, voting
from dpml.pate.gaussian_votes import _behind, _log_upset
from dpml.pate.publish_cost import _cost_and_smooth_bound
from tests.golden import golden
from tests.pate.votes import gnmax_log_law, histograms, moved

GOLDEN = golden("pate")
MANY = np.random.default_rng(0).multinomial(250, [0.91] + [0.01] * 9, size=500)
ORDERS = np.array([1.1, 1.5, 2.0, 3.0, 5.0, 9.0, 20.0, 70.0])


@np.errstate(under="ignore")
def divergence(order, log_p, log_p_neighbour):
    """The Rényi divergence of two laws given by their logarithms."""
    terms = order[:, None] * log_p - (order[:, None] - 1.0) * log_p_neighbour
    return logsumexp(terms, axis=1) / (order - 1.0)


def confident_log_law(counts, *, threshold, sigma_threshold, sigma):
    """log P of each class, then of no answer."""
    margin = (max(counts) - threshold) / sigma_threshold
    return np.append(log_ndtr(margin) + gnmax_log_law(counts, sigma), log_ndtr(-margin))


def small_ensembles():
    return [c for voters, classes in ((1, 2), (6, 2), (15, 2), (5, 3), (4, 4)) for c in histograms(voters, classes)]


def worst_exact(log_law, counts):
    """For outputs drawn under these votes: the largest divergence over all neighbours, at each order."""
    here = log_law(counts)
    return np.max([divergence(ORDERS, here, log_law(other)) for other in moved(counts)], axis=0)


def laplace_upset_bound(counts, scale):
    """The q of the Lemma for Laplace noise, by hand."""
    behind = np.sort(max(counts) - np.array(counts))[1:] / scale
    return min(((2.0 + behind) / (4.0 * np.exp(behind))).sum(), 1.0 - 1.0 / len(counts))


def gnmax_upset_bound(counts, sigma):
    return np.exp(_log_upset(_behind(np.asarray(counts, dtype=float)), sigma))


# ---- Laplace votes ----


@pytest.mark.parametrize("row", GOLDEN["pate2017"]["rows"], ids=lambda r: f"{r['counts'][:3]}-{r['gamma']}")
def test_golden_laplace_moments(row):
    """The recorded numbers were formed without care for cancellation: about 1e-15 absolute."""
    scale = 1.0 / row["gamma"]
    bound = laplace_upset_bound(row["counts"], scale)
    assert bound == pytest.approx(row["q_lemma4"], rel=1e-13)
    exact = voting.argmax_probabilities(row["counts"], scale=scale)[1:].sum()
    assert exact == pytest.approx(row["q_exact"], rel=1e-10, abs=1e-15)  # mpmath agrees with the package
    assert exact <= bound
    for moment in row["moments"]:
        lam = moment["l"]
        assert laplace_votes.laplace_moment(lam, scale=scale) == pytest.approx(moment["alpha_data_indep"], rel=1e-13)
        used = laplace_votes.laplace_moment_data_dependent(row["counts"], lam=lam, scale=scale)
        assert used == pytest.approx(moment["alpha_used"], rel=1e-13, abs=1e-14)
        beyond = moment["alpha_data_dep"] is None
        assert beyond == (bound >= 1.0 / (1.0 + math.exp(2.0 / scale)))
        if beyond:
            assert used == laplace_votes.laplace_moment(lam, scale=scale)


CLEAR = [((230, 10, 10), 10.0, 1), ((230, 10, 10), 10.0, 0.01), ((240, 1, 1), 10.0, 32), ((250, 0), 0.5, 300)]


@pytest.mark.parametrize(("counts", "scale", "lam"), [*CLEAR, ((9, 2), 1, 7)])
def test_laplace_theorem_2_by_mpmath(counts, scale, lam):
    with mp.workdps(400):
        gamma, first = 1 / mp.mpf(scale), max(counts)
        q = mp.fsum((2 + gamma * (first - c)) / (4 * mp.exp(gamma * (first - c))) for c in counts if c != first)
        ratio = (1 - q) / (1 - mp.exp(2 * gamma) * q)
        expected = float(mp.log((1 - q) * ratio ** mp.mpf(lam) + q * mp.exp(2 * gamma * lam)))
    assert expected < laplace_votes.laplace_moment(lam, scale=scale)
    result = laplace_votes.laplace_moment_data_dependent(counts, lam=lam, scale=scale)
    assert result == pytest.approx(expected, rel=1e-12)


def laplace_case(scale):
    return (
        partial(voting.argmax_log_probabilities, scale=scale),
        lambda counts: (
            laplace_votes.laplace_moment_data_dependent(counts, lam=ORDERS - 1.0, scale=scale) / (ORDERS - 1.0)
        ),
        laplace_votes.laplace_moment(ORDERS - 1.0, scale=scale) / (ORDERS - 1.0),
        partial(laplace_upset_bound, scale=scale),
    )


def gnmax_case(sigma):
    return (
        partial(gnmax_log_law, sigma=sigma),
        partial(gaussian_votes.gnmax_rdp_data_dependent, order=ORDERS, sigma=sigma),
        ORDERS / sigma / sigma,
        partial(gnmax_upset_bound, sigma=sigma),
    )


def confident_case(threshold, test, sigma):
    settings = {"threshold": threshold, "sigma_threshold": test, "sigma": sigma}
    return (
        partial(confident_log_law, **settings),
        partial(gaussian_votes.confident_rdp_data_dependent, order=ORDERS, **settings),
        ORDERS * (0.5 / test**2 + 1.0 / sigma**2),
        lambda counts: 1.0,
    )


CASES = {f"Laplace {scale}": laplace_case(scale) for scale in (0.5, 1.0, 3.0, 12.0)}
CASES |= {f"GNMax {sigma}": gnmax_case(sigma) for sigma in (0.6, 1.0, 3.0, 12.0)}
CASES |= {f"confident {c}": confident_case(*c) for c in ((4.0, 1.0, 1.0), (12.0, 2.0, 1.0), (1.0, 0.5, 3.0))}


@pytest.mark.parametrize("name", CASES)
def test_the_bounds_hold_for_every_small_ensemble(name):
    """exact <= for these votes <= for any votes, at every order, over every neighbour; and not absurdly loose."""
    log_law, rdp_of, any_votes, upset = CASES[name]
    tight, helped = 0.0, 0
    for counts in small_ensembles():
        exact, these = worst_exact(log_law, counts), rdp_of(counts)
        assert (exact <= these * (1.0 + 1e-9) + 1e-12).all(), counts
        assert (these <= any_votes * (1.0 + 1e-14)).all()
        assert -math.expm1(float(log_law(counts).max())) <= upset(counts) + 1e-12
        tight, helped = max(tight, float((exact / these).max())), helped + int((these < 0.9 * any_votes).sum())
    assert tight > 0.3
    assert helped > 10 or name == "GNMax 12.0"


def test_laplace_theorem_2_grows_with_q():
    """What the paper claims and the docstring cites: so that a bound on the probability may stand for it."""
    for scale, lam in itertools.product([0.3, 1.0, 4.0, 20.0], [0.1, 1.0, 8.0, 64.0]):
        gaps = np.arange(4000, 0, -1) * scale / 100.0 + 2.0
        counts = np.stack([np.floor(gaps * 50.0), np.zeros(gaps.size)], axis=1)
        values = laplace_votes.laplace_moment_data_dependent(counts, lam=lam, scale=50.0 * scale)
        assert (np.diff(values) >= -1e-13 * values[1:]).all()


# ---- Gaussian votes ----


@pytest.mark.parametrize("row", GOLDEN["gnmax"]["rows"], ids=lambda r: str(r["counts"]))
def test_golden_gnmax(row):
    assert gnmax_upset_bound(row["counts"], row["sigma"]) == pytest.approx(row["q_bound"], rel=1e-12)
    tie = gaussian_votes.gnmax_rdp_data_dependent([5, 5], order=2.0, sigma=row["sigma"])  # Theorem 1 alone
    assert tie == pytest.approx(row["rdp_alpha2"], rel=1e-14)


def test_gnmax_theorem_2_by_mpmath():
    counts, sigma = (230, 10, 10), mp.mpf(40)
    with mp.workdps(40):
        q = mp.fsum(mp.erfc((230 - c) / (2 * sigma)) / 2 for c in counts[1:])
        mu2 = sigma * mp.sqrt(mp.log(1 / q))
        mu1 = mu2 + 1
        e1, e2 = mu1 / sigma**2, mu2 / sigma**2
        for order in (2, 5, 20, 50):
            a = (1 - q) / (1 - (q * mp.exp(e2)) ** ((mu2 - 1) / mu2))
            b = mp.exp(e1) / q ** (1 / (mu1 - 1))
            expected = mp.log((1 - q) * a ** (order - 1) + q * b ** (order - 1)) / (order - 1)
            result = gaussian_votes.gnmax_rdp_data_dependent(counts, order=order, sigma=40.0)
            assert result == pytest.approx(float(expected), rel=1e-12)


def test_unanimous_and_hopeless_questions_cost_almost_nothing():
    settings = {"order": 8.0, "threshold": 150.0, "sigma_threshold": 20.0, "sigma": 10.0}
    any_votes = 8.0 * (0.5 / 20.0**2 + 1.0 / 10.0**2)
    assert gaussian_votes.confident_rdp_data_dependent([250, 0], **settings) < 1e-4 * any_votes
    assert gaussian_votes.confident_rdp_data_dependent([26, 25], **settings) < 1e-4 * any_votes
    assert gaussian_votes.confident_rdp_data_dependent([151, 99], **settings) > 0.1 * any_votes


# ---- never NaN ----


def test_never_nan_never_negative_never_above_the_bound_for_any_votes():
    rng = np.random.default_rng(1)
    shapes = [rng.integers(0, 300, size=(40, classes)) for classes in (2, 3, 10)]
    shapes += [np.array([[0, 0], [1, 0], [2**53, 0], [2**53, 2**53]])]
    lam = np.geomspace(1e-9, 1e12, 22)
    for counts, size in itertools.product(shapes, [1e-100, 1e-3, 0.1, 1.0, 17.0, 1e3, 1e9, 1e100]):
        laplace = laplace_votes.laplace_moment(lam, scale=size)
        gaussian, noise = (1.0 + lam) / size / size, {"order": 1.0 + lam, "sigma": size}
        test = {"threshold": 100.0, "sigma_threshold": size}
        for any_votes, these in (
            (laplace, laplace_votes.laplace_moment_data_dependent(counts, lam=lam, scale=size)),
            (gaussian, gaussian_votes.gnmax_rdp_data_dependent(counts, **noise)),
            (1.5 * gaussian, gaussian_votes.confident_rdp_data_dependent(counts, **noise, **test)),
        ):
            assert these.shape == (len(counts), lam.size)
            assert (these >= 0.0).all()
            assert (these <= any_votes * (1.0 + 1e-14)).all()


def test_shapes_follow_queries_then_orders():
    one, many = [3, 1], [[3, 1], [0, 9], [2, 2]]
    for counts, lam in itertools.product([one, many], [2.0, [2.0, 3.0], [[2.0], [3.0]]]):
        expected = np.shape(counts)[:-1] + np.shape(lam)
        assert np.shape(laplace_votes.laplace_moment_data_dependent(counts, lam=lam, scale=1.0)) == expected
        assert np.shape(gaussian_votes.gnmax_rdp_data_dependent(counts, order=lam, sigma=1.0)) == expected


# ---- the student ----


def by_label(queries, scale, delta):
    """The account that knows of each label only that it is 2/scale-private."""
    return optimal(epsilon=2.0 / scale, delta=0.0, k=queries, total_delta=delta, adjacency="replace-one").epsilon


def test_laplace_student_for_any_votes():
    cost = student.laplace_student(queries=100, scale=20.0, delta=1e-5)
    assert cost == Guarantee(cost.epsilon, delta=1e-5, kind="upper bound", adjacency="replace-one")
    assert student.laplace_student(queries=100, scale=20.0, delta=0.0).epsilon == pytest.approx(10.0)
    assert student.laplace_student(queries=0, scale=20.0, delta=1e-5).epsilon == 0.0
    assert student.laplace_student(queries=7, scale=20, delta=1.0).epsilon == 0.0
    lam = np.arange(1.0, 200.0)
    moments = (100 * laplace_votes.laplace_moment(lam, scale=20.0) + math.log(1e5)) / lam
    assert cost.epsilon < by_label(100, 20.0, 1e-5) < moments.min()


AT_20 = [(1, 0.09996), (10, 0.768898), (100, 2.893364), (300, 5.474010), (1000, 11.347754)]


@pytest.mark.parametrize(("queries", "low"), AT_20)
def test_golden_laplace_students(queries, low):
    """At b = 20, delta = 1e-5. Recorded are lower ends of epsilon, by a contour integral of the moments of the sum."""
    assert low < student.laplace_student(queries=queries, scale=20.0, delta=1e-5).epsilon < low + 1.2e-5


def one_query_delta(scale, epsilon):
    """Exact, in output space: an integral over one noisy count; the other enters by its profile in closed form."""
    a = 1 / mp.mpf(scale)

    def profile(e):  # of one Laplace count, also for e < 0
        return 1 - mp.exp(e) if e <= -a else 1 - mp.exp((e - a) / 2) if e < a else mp.mpf(0)

    def inside(y):  # the first count is 0 under D and 1 under D'
        return a / 2 * mp.exp(-y * a) * profile(epsilon - (1 - 2 * y) * a)

    corner = 1 - epsilon / (2 * a)  # where what is left for the second count is its largest loss
    ends = sorted({mp.mpf(0), mp.mpf(1), *([corner] if 0 < corner < 1 else [])})
    return mp.quad(inside, ends) + profile(epsilon - a) / 2 + mp.exp(-a) / 2 * profile(epsilon + a)


ONE_LABEL = [(0.4, 0.3), (1.0, 0.3), (1.0, 1e-3), (2.5, 0.05), (8.0, 0.02), (8.0, 1e-9)]


@pytest.mark.parametrize(("scale", "delta"), ONE_LABEL)
def test_one_laplace_label_by_integration(scale, delta):
    with mp.workdps(30):
        top = 2 / mp.mpf(scale)
        assert float(one_query_delta(scale, top)) == pytest.approx(0.0, abs=1e-25)
        both = -mp.expm1(mp.mpf("-0.001")) / 4  # both counts have their largest loss with probability 1/4
        assert float(both) <= float(one_query_delta(scale, top - mp.mpf("0.001"))) <= 1.1 * float(both)
        found = student.laplace_student(queries=1, scale=scale, delta=delta).epsilon
        assert float(one_query_delta(scale, mp.mpf(found))) <= delta * (1 + 1e-12)
        assert float(one_query_delta(scale, mp.mpf(found) - mp.mpf("1e-4"))) > delta


def test_laplace_students_are_monotone_and_never_above_cruder_accounts():
    at = {"queries": 50, "scale": 10.0, "delta": 1e-5}
    for name, values in {
        "queries": [1, 2, 5, 20, 100, 1000, 10**4],
        "scale": [1e7, 1e5, 300.0, 20.0, 3.0, 0.2, 0.009],
        "delta": [0.9, 0.1, 1e-3, 1e-9, 1e-90, 1e-300],
    }.items():
        found = [student.laplace_student(**(at | {name: value})).epsilon for value in values]
        assert (np.diff(found) >= 0.0).all()
        assert found[-1] > found[0] or name == "queries"
        for value, epsilon in zip(values, found, strict=True):
            s = at | {name: value}
            k, b, delta = s["queries"], s["scale"], s["delta"]
            by_count = optimal(epsilon=1.0 / b, delta=0.0, k=2 * k, total_delta=delta).epsilon
            assert epsilon <= by_count <= by_label(k, b, delta) * (1 + 1e-12)


def test_gaussian_students_for_any_votes():
    """Never above the best Rényi order, and equal to one Gaussian mechanism."""
    order = np.geomspace(1.01, 500.0, 400)
    by_rdp = rdp.conversion_improved(order, rdp=200 * order / 40.0**2, delta=1e-6).min()
    gnmax = student.gnmax_student(queries=200, sigma=40.0, delta=1e-6)
    assert 0.8 * by_rdp < gnmax.epsilon < by_rdp
    settings = {"sigma_threshold": 150.0, "sigma": 40.0, "delta": 1e-6}
    none = student.confident_student(asked=0, answered=0, **settings)
    asked = student.confident_student(asked=200, answered=0, **settings)
    both = student.confident_student(asked=200, answered=200, **settings)
    assert none.epsilon == 0.0 < asked.epsilon < gnmax.epsilon < both.epsilon
    total = 200 * order * (0.5 / 150.0**2 + 1.0 / 40.0**2)
    assert 0.8 < both.epsilon / rdp.conversion_improved(order, rdp=total, delta=1e-6).min() < 1.0
    assert math.isinf(student.gnmax_student(queries=1, sigma=1.0, delta=0.0).epsilon)
    assert student.gnmax_student(queries=0, sigma=1.0, delta=0.0).epsilon == 0.0


def students(counts, delta):
    settings = {"threshold": 150.0, "sigma_threshold": 60.0, "sigma": 40.0, "delta": delta}
    asked = len(counts)
    yield (
        student.laplace_student(queries=asked, scale=20.0, delta=delta),
        data_dependent.laplace_student_data_dependent(counts, scale=20.0, delta=delta),
    )
    yield (
        student.gnmax_student(queries=asked, sigma=40.0, delta=delta),
        data_dependent.gnmax_student_data_dependent(counts, sigma=40.0, delta=delta),
    )
    yield (
        student.confident_student(asked=asked, answered=asked, sigma_threshold=60.0, sigma=40.0, delta=delta),
        data_dependent.confident_student_data_dependent(counts, **settings),
    )


def test_clear_votes_cost_less_and_unclear_ones_never_more():
    rng = np.random.default_rng(2)
    for clear, counts in ((True, MANY), (False, rng.multinomial(250, [0.1] * 10, size=500))):
        for worst, these in students(counts, 1e-5):
            assert these.epsilon <= worst.epsilon
            assert these.guarantee.delta == worst.delta
            if clear:
                assert these.epsilon < 0.5 * worst.epsilon
                assert these.guarantee.order > 1.0
    for worst, these in students(np.zeros((0, 10), dtype=int), 1e-5):
        assert worst.epsilon == these.epsilon == 0.0
    for worst, these in students(MANY[:5], 0.0):
        assert these.guarantee == worst


def test_the_data_dependent_student_by_another_route():
    """A fine grid of orders over the summed moments gives the same number, and the search never goes below it."""
    lam, counts = np.geomspace(0.5, 500.0, 4000), MANY[:300]
    laplace = data_dependent.laplace_student_data_dependent(counts, scale=20.0, delta=1e-5)
    gnmax = data_dependent.gnmax_student_data_dependent(counts, sigma=40.0, delta=1e-5)
    for found, divergences in (
        (laplace, laplace_votes.laplace_moment_data_dependent(counts, lam=lam, scale=20.0) / lam),
        (gnmax, gaussian_votes.gnmax_rdp_data_dependent(counts, order=1.0 + lam, sigma=40.0)),
    ):
        grid = rdp.conversion_improved(1.0 + lam, rdp=divergences.sum(axis=0), delta=1e-5).min()
        assert found.epsilon == pytest.approx(grid, rel=1e-5)


@pytest.mark.parametrize("delta", [1e-2, 1e-4, 1e-8])
def test_data_dependent_students_keep_their_promise_exactly(delta):
    """Three questions to 12 voters; a neighbour may move one vote in each. All outputs and neighbours enumerated."""
    votes = [(11, 1), (9, 3), (12, 0)]

    def worst_delta(log_law, epsilon):
        here = [log_law(c) for c in votes]
        there = [[log_law(other) for other in [c, *moved(c)]] for c in votes]
        worst = 0.0
        for choice in itertools.product(*there):
            joint = [np.add.outer(np.add.outer(a, b), c).ravel() for a, b, c in (here, choice)]
            worst = max(worst, float(np.maximum(0.0, np.exp(joint[0]) - np.exp(epsilon + joint[1])).sum()))
        return worst

    found = data_dependent.laplace_student_data_dependent(votes, scale=2.0, delta=delta)
    laplace = partial(voting.argmax_log_probabilities, scale=2.0)
    assert worst_delta(laplace, found.epsilon) <= delta
    assert worst_delta(laplace, 0.1 * found.epsilon) > delta
    found = data_dependent.gnmax_student_data_dependent(votes, sigma=3.0, delta=delta)
    assert worst_delta(CASES["GNMax 3.0"][0], found.epsilon) <= delta
    settings = {"threshold": 10.0, "sigma_threshold": 2.0, "sigma": 3.0}
    found = data_dependent.confident_student_data_dependent(votes, **settings, delta=delta)
    assert worst_delta(partial(confident_log_law, **settings), found.epsilon) <= delta


def test_a_data_dependent_number_says_that_it_is_private():
    these = data_dependent.laplace_student_data_dependent([[9, 1], [5, 5]], scale=2.0, delta=1e-5)
    assert not isinstance(these, Guarantee)
    assert str(these).startswith("For these votes epsilon is at most ")
    assert "itself private information: do not publish it" in str(these)
    with pytest.raises(ValueError, match=r"^guarantee must be a Guarantee, got 1\.0$"):
        data_dependent.DataDependent(1.0)


# ---- publishing the number ----


def neighbours_in_every_query(votes):
    """One record moves one vote in each query, or none."""
    for choice in itertools.product(*([tuple(c), *moved(c)] for c in votes)):
        yield np.array(choice)


SMALL_RUNS = [((6, 0), (4, 2)), ((5, 1), (3, 3)), ((4, 1, 0), (2, 2, 1)), ((0, 7), (7, 0)), ((3, 1, 1), (5, 0, 0))]


@pytest.mark.parametrize("sigma", [0.7, 1.0, 2.0])
@pytest.mark.parametrize("beta", [0.02, 0.3])
def test_the_smooth_bound_is_smooth_and_bounds_the_sensitivity(sigma, beta):
    """Over all neighbours of small runs, as the Lemma says."""
    positive = 0
    for votes in SMALL_RUNS:
        value, bound = _cost_and_smooth_bound(np.array(votes, dtype=float), 4.0, sigma, beta)
        exact = gaussian_votes.gnmax_rdp_data_dependent(votes, order=4.0, sigma=sigma).sum()
        assert exact <= value * (1 + 1e-12) <= len(votes) * 4.0 / sigma**2 * (1 + 1e-12)
        for other in neighbours_in_every_query(votes):
            there, bound_there = _cost_and_smooth_bound(other.astype(float), 4.0, sigma, beta)
            assert abs(value - there) <= min(bound, bound_there) * (1 + 1e-12)
            assert bound <= math.exp(beta) * bound_there * (1 + 1e-12)
            positive += value != pytest.approx(there)
    assert positive > 5 or sigma == 2.0


def test_the_published_number_has_the_noise_of_the_theorem():
    """Read off releases whose noise is known; it is a bound as often as it says, and private by the theorem."""
    votes = np.tile([240, 6, 4], (200, 1))
    settings = {"order": 12.0, "sigma": 20.0, "epsilon": 2.0, "delta": 1e-6, "confidence": 0.9}
    growth = 2.0 / (2.0 * math.log(1e6))  # e^beta - 1
    value, bound = _cost_and_smooth_bound(votes.astype(float), 12.0, 20.0, math.log1p(growth))
    exact = gaussian_votes.gnmax_rdp_data_dependent(votes, order=12.0, sigma=20.0).sum()
    assert exact <= value < 1.2 * exact  # read off a table, upwards
    drawn, published = [], []
    for seed in range(8):
        drawn.append(np.random.default_rng(seed).laplace())
        found = publish_cost.publish_gnmax_cost(votes, rng=np.random.default_rng(seed), **settings)
        published.append(found.rdp)
        assert found.release == Guarantee(2.0, delta=1e-6, kind="upper bound", adjacency="replace-one")
        assert (found.order, found.confidence) == (12.0, 0.9)
    inside = [i for i, rdp_ in enumerate(published) if 0.0 < rdp_ < 200 * 12.0 / 400.0]
    scale, centre = np.polyfit(np.array(drawn)[inside], np.array(published)[inside], 1)
    assert len(inside) > 2
    assert 0.5 * math.exp(-(centre - value) / scale) == pytest.approx(0.1, rel=1e-6)
    tau = (centre - value) / bound
    assert scale == pytest.approx(2.0 * (1.0 + tau * growth) / 2.0 * bound, rel=1e-6)


def test_thousands_of_teachers_make_publishing_worth_its_price():
    """Clear votes of 5,000 teachers: the published number beats the one for any votes; with 50 teachers it does not."""
    settings = {"order": 30.0, "sigma": 100.0, "epsilon": 0.5, "delta": 1e-6, "confidence": 0.99}
    many = publish_cost.publish_gnmax_cost([[4900, 100]] * 1000, rng=np.random.default_rng(4), **settings)
    assert many.rdp < 0.1 * 1000 * 30.0 / 100.0**2
    few = publish_cost.publish_gnmax_cost([[49, 1]] * 1000, rng=np.random.default_rng(4), **settings)
    assert few.rdp > 0.9 * 1000 * 30.0 / 100.0**2


def test_a_delta_near_one_is_answered():
    """There delta hardly moves with epsilon, and a search for the last digit of epsilon has nothing to hold on to."""
    values = []
    for delta in (0.3, 0.5, 0.7, 0.999999, 1.0 - 1e-9, math.nextafter(1.0, 0.0), 1.0):
        for queries, scale in ((1, 0.0100001), (2, 0.05), (10**4, 20.0)):
            values.append(student.laplace_student(queries=queries, scale=scale, delta=delta).epsilon)
    for i in range(3):
        assert values[i::3] == sorted(values[i::3], reverse=True)
    assert values[-3:] == [0.0, 0.0, 0.0]
