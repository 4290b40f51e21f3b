"""PixelDP: the condition against its definition in high precision, exact coverage of the limits, worst cases."""

import functools

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.special import bdtr, bdtrc

from dpml import mechanisms
from dpml.certified import pixeldp, smoothing
from tests.golden import golden

GOLDEN = golden("stobatch")
RNG = np.random.default_rng(0)
SCORES = [(0.95, 0.05), (0.6, 0.4), (0.5, 0.5 - 1e-9), (0.3, 0.3), (0.2, 0.7), (0.0, 0.1)]
SCORES += [(1.0, 5e-324), (1e-300, 1e-310)]
SCORES += [(float(p), float(u)) for p, u in RNG.uniform(0.0, 1.0, (30, 2)) ** 3]
DELTAS = [0.0, 1e-300, 1e-12, 1e-5, 0.01, 0.3, 1.0]
EPSILONS = [0.0, 1e-300, 1e-9, 0.1, 1.0, 30.0, 800.0, 1e6]


def excess(p, u, epsilon, delta):
    """By how much the least possible score of the label exceeds the greatest of another one, times e^epsilon."""
    p, u, epsilon, delta = map(mpmath.mpf, (p, u, epsilon, delta))
    return p - delta - mpmath.exp(epsilon) * (mpmath.exp(epsilon) * u + delta)


def test_the_condition_is_that_of_the_theorem():
    with mpmath.workdps(60):
        for p, u in [*SCORES, (0.4, 0.0), (0.0, 0.0), (1.0, 1.0)]:
            for delta in DELTAS:
                for epsilon in EPSILONS:
                    found = pixeldp.condition(p, upper=u, epsilon=epsilon, delta=delta)
                    margin = excess(p, u, epsilon, delta)
                    if abs(margin) > 1e-12 * p:
                        assert found == (margin > 0), (p, u, epsilon, delta)


@pytest.mark.parametrize("delta", DELTAS)
def test_the_largest_epsilon_is_sound_and_largest(delta):
    with mpmath.workdps(60):
        for p, u in SCORES:
            found = float(pixeldp.largest_epsilon(p, upper=u, delta=delta))
            beyond = found * (1.0 + 1e-13) + 1e-14 * (delta > 0.0)
            if found > 0.0:
                assert excess(p, u, found, delta) > 0, (p, u)
                assert excess(p, u, beyond, delta) < 0, (p, u)
            else:
                assert excess(p, u, 1e-14, delta) <= 0, (p, u)


def test_arrays_are_numbers_one_by_one():
    p, u = np.array([[0.9], [0.6]]), np.array([0.05, 0.2, 0.7])
    for function, more in (
        (pixeldp.largest_epsilon, {"delta": 1e-3}),
        (pixeldp.certified_size, {"scale": 2.0}),
        (pixeldp.certified_size_gaussian, {"sigma": 2.0, "delta": 1e-3}),
        (pixeldp.condition, {"epsilon": 0.3, "delta": 1e-3}),
        (smoothing.gaussian_radius, {"sigma": 2.0}),
        (smoothing.laplace_radius, {"scale": 2.0}),
    ):
        whole = function(p, upper=u, **more)
        assert whole.shape == (2, 3)
        assert whole.tolist() == [[function(float(a), upper=float(b), **more) for b in u] for a in p[:, 0]]


def cells_of(noise, shift, *, far, count):
    """The probabilities of cells of the line under noise around 0 and around `shift`, scale 1: a coarser mechanism."""
    edges = np.concatenate([[-np.inf], np.linspace(-far, far + shift, count), [np.inf]])
    return np.diff(noise.cdf(edges)), np.diff(noise.cdf(edges - shift))


laplace_cells = functools.partial(cells_of, stats.laplace, far=12.0, count=300)
gaussian_cells = functools.partial(cells_of, stats.norm, far=9.0, count=2000)


def worst(law, law_moved, share):
    """The least probability, under the moved law, of a (randomized) event of probability `share`: Neyman-Pearson."""
    with np.errstate(divide="ignore"):
        order = np.argsort(law_moved / np.maximum(law, 1e-300))
    taken = np.clip(share - np.concatenate([[0.0], np.cumsum(law[order])[:-1]]), 0.0, law[order])
    return float((law_moved[order] * taken / np.maximum(law[order], 1e-300)).sum())


def survives(law, law_moved, p, u, tolerance=1e-9):
    """Whether no two events of these probabilities change places: label p least favoured, other label u most."""
    return worst(law, law_moved, p) >= 1.0 - worst(law, law_moved, 1.0 - u) - tolerance


CASES = [(p, u) for p in (0.51, 0.6, 0.9, 0.99, 0.9999) for u in (0.3, 0.1, 0.01, 1e-4) if u < p and p + u <= 1.0]
CASES += [(p, 1.0 - p) for p in (0.55, 0.7, 0.95, 0.999)] + [(0.4, 0.2), (0.2, 0.1), (0.05, 1e-3)]


@pytest.mark.parametrize(("p", "u"), CASES)
def test_no_laplace_certificate_beyond_the_worst_classifier(p, u):
    """In one dimension, and in two with the perturbation on both axes: over all classifiers of a fine grid."""
    sizes = [pixeldp.certified_size(p, upper=u, scale=1.0), smoothing.laplace_radius(p, upper=u, scale=1.0)]
    assert sizes[0] <= sizes[1] * (1.0 + 1e-12)
    assert survives(*laplace_cells(sizes[1]), p, u)
    for share in (0.5, 0.2):
        parts = [laplace_cells(sizes[1] * part, count=120) for part in (share, 1.0 - share)]
        assert survives(*(np.outer(parts[0][i], parts[1][i]).ravel() for i in (0, 1)), p, u)
    if p + u == 1.0:
        assert not survives(*laplace_cells(sizes[1] * 1.05, count=20_000), p, u), "it is reached in one dimension"


@pytest.mark.parametrize(("p", "u"), CASES)
@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_no_gaussian_certificate_beyond_the_worst_classifier(p, u, delta):
    size = pixeldp.certified_size_gaussian(p, upper=u, sigma=1.0, delta=delta)
    best = smoothing.gaussian_radius(p, upper=u, sigma=1.0)
    assert size <= best
    assert survives(*gaussian_cells(float(best)), p, u)
    assert not survives(*gaussian_cells(float(best) * 1.03), p, u), "a half-space reaches it"
    if size > 0.0:
        epsilon = mechanisms.gaussian_epsilon(sigma=1.0 / float(size), delta=delta)
        assert pixeldp.condition(p, upper=u, epsilon=epsilon, delta=delta)
        assert mechanisms.gaussian_delta(sigma=1.0 / float(size), epsilon=epsilon) <= delta
        beyond = mechanisms.gaussian_epsilon(sigma=1.0 / float(size) / (1.0 + 1e-9), delta=delta)
        assert not pixeldp.condition(p, upper=u, epsilon=beyond * (1.0 + 1e-12), delta=delta)
    else:
        assert not pixeldp.condition(p, upper=u, epsilon=1e-12, delta=delta)


def test_sizes_grow_with_the_noise_alone():
    for power in (-300, -20, 0, 20, 300):
        noise = 10.0**power
        unit = pixeldp.certified_size(0.9, upper=0.05, scale=1.0)
        assert pixeldp.certified_size(0.9, upper=0.05, scale=noise) == pytest.approx(noise * unit, rel=1e-14)
        unit = pixeldp.certified_size_gaussian(0.9, upper=0.05, sigma=1.0, delta=1e-5)
        found = pixeldp.certified_size_gaussian(0.9, upper=0.05, sigma=noise, delta=1e-5)
        assert found == pytest.approx(noise * unit, rel=1e-14)


# ---- limits ----


def test_hoeffding():
    row = GOLDEN["hoeffding"]
    half = pixeldp.hoeffding_half_width(draws=row["n"], classes=row["K"], eta=row["eta"])
    assert half == pytest.approx(row["half_width"], rel=1e-14)
    assert pixeldp.hoeffding_half_width(draws=10, classes=2**53, eta=1e-300) == pytest.approx(
        float(mpmath.sqrt((mpmath.log(2**54) + 300 * mpmath.log(10)) / 20)), rel=1e-14
    )


@pytest.mark.parametrize("truth", [0.01, 0.2, 0.5, 0.97])
def test_each_side_of_the_limits_fails_as_rarely_as_said(truth):
    """Exactly, over all counts of 80 draws: each of the 2K limits may fail with probability eta / (2K)."""
    draws, classes, eta = 80, 4, 0.1
    counts = np.arange(draws + 1)
    rows = np.stack([counts, draws - counts, 0 * counts, 0 * counts], axis=1)
    for limits in (
        pixeldp.clopper_pearson_limits(rows, eta=eta),
        pixeldp.hoeffding_limits(rows / draws, draws=draws, eta=eta),
    ):
        too_high = np.flatnonzero(limits.lower[:, 0] > truth)
        too_low = np.flatnonzero(limits.upper[:, 0] < truth)
        missed = [bdtrc(too_high[0] - 1, draws, truth) if too_high.size else 0.0]
        missed += [bdtr(too_low[-1], draws, truth) if too_low.size else 0.0]
        assert max(missed) <= eta / (2 * classes) * (1.0 + 1e-9)
        assert ((limits.lower <= rows / draws) & (rows / draws <= limits.upper)).all()


def test_exact_limits_certify_more_than_hoeffding_where_the_label_is_clear():
    counts = np.array([[990, 10, 0], [500, 300, 200], [334, 333, 333], [1000, 0, 0], [0, 1000, 0]])
    sizes = []
    for limits in (
        pixeldp.clopper_pearson_limits(counts, eta=0.01),
        pixeldp.hoeffding_limits(counts / 1000, draws=1000, eta=0.01),
    ):
        first = pixeldp.leader(limits)
        assert first.label.tolist() == [0, 0, 0, 0, 1]
        sizes.append(pixeldp.certified_size(first.lower, upper=first.upper, scale=1.0))
    assert (sizes[0] >= sizes[1])[[0, 1, 3, 4]].all() and sizes[0][2] == sizes[1][2] == 0.0
    assert sizes[0][3] == sizes[0][4] > sizes[0][0] > sizes[0][1] > 0.0


def test_a_tie_certifies_nothing():
    first = pixeldp.leader(pixeldp.Limits(np.array([0.3, 0.3]), np.array([0.4, 0.4])))
    assert first.label == 0 and first.lower == 0.3 and first.upper == 0.4
    assert pixeldp.certified_size(first.lower, upper=first.upper, scale=1.0) == 0.0


def test_accuracies():
    correct, sizes = [1, 1, 0, 1], [0.5, 0.1, 0.9, 0.0]
    assert pixeldp.conventional_accuracy(correct) == 0.75
    found = [pixeldp.certified_accuracy(sizes, correct=correct, size=size) for size in (0.0, 0.1, 0.11, 0.5, 0.51)]
    assert found == [0.5, 0.5, 0.25, 0.25, 0.0]


def test_too_few_draws_for_any_certificate_say_how_many_are_needed():
    for classes in (2, 10):
        means = np.eye(classes)[0]
        with pytest.raises(
            ValueError, match=r"^draws must be at least \d+ for any certificate at eta = 0.01, got 5"
        ) as no:
            pixeldp.hoeffding_limits(means, draws=5, eta=0.01)
        least = int(str(no.value).split()[5])
        with pytest.raises(ValueError, match=r"^draws must be"):
            pixeldp.hoeffding_limits(means, draws=least - 1, eta=0.01)
        first = pixeldp.leader(pixeldp.hoeffding_limits(means, draws=least, eta=0.01))
        assert pixeldp.certified_size(first.lower, upper=first.upper, scale=1.0) > 0.0
