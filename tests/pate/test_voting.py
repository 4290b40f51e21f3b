"""Votes and noise: golden numbers, mpmath, enumeration of small ensembles, and simulation with a false-alarm rate."""

import itertools
from functools import partial

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from dpml.pate import voting
from dpml.pate.laplace_votes import laplace_vote_epsilon, laplace_vote_scale
from tests.golden import golden
from tests.pate.votes import gnmax_log_law, histograms, moved

GOLDEN = golden("pate")


def worst_loss(voters, classes, scale):
    every = list(histograms(voters, classes))
    law = dict(zip(every, voting.argmax_log_probabilities(every, scale=scale), strict=True))
    return max(float(np.abs(law[c] - law[d]).max()) for c in every for d in moved(c))


# ---- the exact law ----


@pytest.mark.parametrize("row", GOLDEN["lap_argmax"]["rows"], ids=lambda r: f"{r['counts']} scale {r['b']}")
def test_golden_probabilities(row):
    result = voting.argmax_probabilities(row["counts"], scale=row["b"])
    assert result == pytest.approx(row["probs"], rel=1e-12)
    assert result.sum() == pytest.approx(1.0, abs=2e-15)


@pytest.mark.parametrize("gap", [0, 1, 7, 40, 79, 80, 81, 123, 700, 30000])
@pytest.mark.parametrize("scale", [1.0, 0.37, 20.0])
def test_two_classes_closed_form(gap, scale):
    """The loser wins with probability e^-t (1/2 + t/4), also when it is 1e-300; its logarithm never underflows."""
    t = mp.mpf(gap) / mp.mpf(scale)
    loser = mp.log(mp.exp(-t) * (mp.mpf(1) / 2 + t / 4))
    result = voting.argmax_log_probabilities([gap, 0], scale=scale)
    assert result[1] == pytest.approx(float(loser), rel=1e-14, abs=1e-15)
    assert result[0] == pytest.approx(float(mp.log1p(-mp.exp(loser))), rel=1e-13, abs=2e-15)
    probability = voting.argmax_probabilities([gap, 0], scale=scale)
    if t < 700:
        assert probability[1] == pytest.approx(float(mp.exp(loser)), rel=1e-12)


def by_mpmath(counts, scale, j):
    """The logarithm of the integral as it stands, cut at the counts; made large, since mpmath's error is absolute."""
    centers = [mp.mpf(c) / mp.mpf(scale) for c in counts]

    def below(u):
        return mp.exp(u) / 2 if u < 0 else 1 - mp.exp(-u) / 2

    large = max(centers) - centers[j]

    def integrand(x):
        return mp.exp(large - abs(x - centers[j])) / 2 * mp.fprod(below(x - c) for i, c in enumerate(centers) if i != j)

    ends = sorted(set(centers))
    cuts = [ends[0] - 60, ends[0] - 20]
    for a, b in itertools.pairwise(ends):
        cuts += list(mp.linspace(a, b, 2 + int((b - a) / 2)))[:-1]
    cuts += [ends[-1], ends[-1] + 8, ends[-1] + 30, ends[-1] + 90]
    return mp.log(mp.quad(integrand, cuts)) - large


TINY = [((12, 3, 0, 0, 5), 1.0, 2), ((12, 3, 0, 0, 5), 1.0, 1), ((40, 40, 1), 0.3, 2), ((100, 1, 0), 1.0, 1)]
TINY += [((3, 2, 2, 1, 1, 1, 0), 4.0, 6), ((100, 90, 1), 1.0, 2)]  # the last has an interval longer than 80


@pytest.mark.parametrize(("counts", "scale", "j"), TINY)
def test_tiny_probabilities_by_mpmath(counts, scale, j):
    with mp.workdps(30):
        expected = by_mpmath(counts, scale, j)
    assert voting.argmax_log_probabilities(counts, scale=scale)[j] == pytest.approx(float(expected), rel=1e-14)


def test_many_classes_and_extreme_scales():
    rng = np.random.default_rng(1)
    many = voting.argmax_probabilities(rng.multinomial(1000, np.full(300, 1 / 300)), scale=10.0)
    assert many.sum() == pytest.approx(1.0, abs=1e-13)
    assert voting.argmax_probabilities([3, 5, 9], scale=1e300) == pytest.approx(np.full(3, 1 / 3), rel=1e-12)
    assert voting.argmax_probabilities([0, 9, 9], scale=1e-300) == pytest.approx([0.0, 0.5, 0.5], rel=1e-12)
    assert voting.argmax_log_probabilities([0, 10**9], scale=1e-3)[0] == pytest.approx(-1e12, rel=1e-9)


def test_rows_columns_and_order_do_not_matter():
    rng = np.random.default_rng(2)
    counts = rng.multinomial(50, [0.5, 0.3, 0.1, 0.1], size=300)
    together = voting.argmax_probabilities(counts, scale=3.0)
    assert together.shape == counts.shape
    for row, result in zip(counts[:20], together, strict=False):
        assert voting.argmax_probabilities(row, scale=3.0) == pytest.approx(result, rel=1e-13)
        assert voting.argmax_probabilities(row[::-1], scale=3.0)[::-1] == pytest.approx(result, rel=1e-13)
    assert voting.argmax_probabilities(np.zeros((0, 3), dtype=int), scale=1.0).shape == (0, 3)


# ---- one record moves one vote: 2/scale, and no less ----


@pytest.mark.parametrize(
    "row", GOLDEN["lap_argmax_exact_eps_replace_one"], ids=lambda r: f"{r['n_teachers']}-{r['classes']}-{r['b']:g}"
)
def test_exact_privacy_by_enumeration(row):
    """Over all pairs of neighbours: the scale 2/epsilon keeps epsilon, the printed 1/epsilon does not."""
    exact = worst_loss(row["n_teachers"], row["classes"], row["b"])
    assert exact == pytest.approx(row["exact_eps"], rel=1e-11)
    assert exact <= laplace_vote_epsilon(scale=row["b"])
    right = row["b"] == pytest.approx(laplace_vote_scale(epsilon=row["claimed_eps"]))
    assert right or row["b"] == pytest.approx(1.0 / row["claimed_eps"])
    assert (exact <= row["claimed_eps"]) == right


@pytest.mark.parametrize("row", GOLDEN["lap_argmax_2class_closed_form"], ids=lambda r: str(r["gap"]))
def test_the_loss_tends_to_two_epsilon(row):
    counts = [[0, row["gap"]], [0, row["gap_prime"]]]
    d, d_prime = voting.argmax_log_probabilities(counts, scale=1.0 / row["eps"])[:, 0]
    assert d - d_prime == pytest.approx(row["log_ratio"], rel=1e-10)
    assert row["eps"] < d - d_prime < 2.0 * row["eps"]


@pytest.mark.parametrize("row", GOLDEN["lap_argmax_vote_add_remove"], ids=lambda r: str(r["D"]))
def test_a_vote_added_or_removed_costs_half(row):
    loss = np.abs(np.subtract(*voting.argmax_log_probabilities([row["D"], row["Dprime"]], scale=row["b"]))).max()
    assert loss == pytest.approx(row["max_abs_log_ratio"], rel=1e-11)
    assert loss <= 1.0 / row["b"]


# ---- the mechanisms draw from these laws ----


def accepts(drawn, probabilities):
    """Each frequency within the interval that fails with probability 1e-9 under the law."""
    trials = len(drawn)
    for j, p in enumerate(probabilities):
        low, high = stats.binom.ppf([5e-10, 1 - 5e-10], trials, p)
        if not low <= np.sum(np.asarray(drawn) == j) <= high:
            return False
    return True


@pytest.mark.parametrize(("counts", "scale"), [((60, 40), 20.0), ((5, 3, 2), 2.0), ((50, 50, 0), 1.0), ((0, 0), 9.0)])
def test_noisy_argmax_follows_the_law(counts, scale):
    """False alarm below 3e-9 for each case. The inverse scale, a known slip, is caught."""
    rng = np.random.default_rng(3)
    drawn = voting.noisy_argmax(np.tile(counts, (100_000, 1)), scale=scale, rng=rng)
    law = voting.argmax_probabilities(counts, scale=scale)
    assert accepts(drawn, law)
    if counts == (60, 40):
        assert law[1] == pytest.approx(0.275909581, abs=1e-9)
        inverted = voting.noisy_argmax(np.tile(counts, (100_000, 1)), scale=1.0 / scale, rng=rng)
        assert not accepts(inverted, law)
        assert np.sum(inverted) == 0


@pytest.mark.parametrize(("counts", "sigma"), [((60, 40), 20.0), ((5, 3, 2), 2.0), ((7, 7, 0), 1.0)])
def test_gnmax_follows_its_law(counts, sigma):
    rng = np.random.default_rng(4)
    assert accepts(
        voting.gnmax(np.tile(counts, (100_000, 1)), sigma=sigma, rng=rng), np.exp(gnmax_log_law(counts, sigma))
    )


def test_confident_gnmax_follows_its_law():
    counts, threshold, sigma_threshold, sigma = (9, 4, 1), 10.0, 3.0, 2.0
    rng = np.random.default_rng(5)
    settings = {"threshold": threshold, "sigma_threshold": sigma_threshold, "sigma": sigma, "rng": rng}
    drawn = voting.confident_gnmax(np.tile(counts, (100_000, 1)), **settings)
    answer = stats.norm.sf((threshold - 9) / sigma_threshold)
    law = [*(answer * np.exp(gnmax_log_law(counts, sigma))), 1.0 - answer]
    assert accepts(np.where(drawn == voting.UNANSWERED, 3, drawn), law)
    settings |= {"threshold": 1e308}
    assert voting.confident_gnmax(counts, **settings) == voting.UNANSWERED


@pytest.mark.parametrize("draw", [voting.noisy_argmax, voting.gnmax])
def test_a_tie_is_broken_by_the_noise_even_where_it_is_tiny(draw):
    """Beside a count of 50 noise of 1e-20 would be rounded away, and the first class would always win."""
    size = {"scale": 1e-20} if draw is voting.noisy_argmax else {"sigma": 1e-20}
    drawn = draw(np.tile([50, 50, 0], (20_000, 1)), **size, rng=np.random.default_rng(6))
    assert accepts(drawn, [0.5, 0.5, 0.0])


@pytest.mark.parametrize(
    "mechanism",
    [
        partial(voting.noisy_argmax, scale=2.0),
        partial(voting.gnmax, sigma=2.0),
        partial(voting.confident_gnmax, threshold=3.0, sigma_threshold=2.0, sigma=1.0),
    ],
)
def test_one_histogram_gives_an_int_and_many_an_array(mechanism):
    """And the counts stay as they were."""
    assert type(mechanism([4, 1, 0], rng=np.random.default_rng(7))) is int
    for dtype, rows in itertools.product((np.int64, np.uint8, np.float64), (0, 2)):
        counts = np.array([[60, 40, 0], [1, 2, 3]], dtype=dtype)[:rows]
        counts.flags.writeable = False
        many = mechanism(counts, rng=np.random.default_rng(7))
        assert (many.shape, many.dtype) == ((rows,), np.int64)
