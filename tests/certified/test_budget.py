"""StoBatch's numbers: as the paper computes them, and as they hold."""

import math

import mpmath
import numpy as np
import pytest

from dpml import mechanisms
from dpml.certified import pixeldp, smoothing
from dpml.certified.stobatch import budget
from tests.golden import golden
from tests.training.helpers import refuses

GOLDEN = golden("stobatch")
DIGITS = {"dimension": 64, "beta": 32, "m": 350}


def test_the_printed_numbers():
    for row in GOLDEN["Delta_R"]:
        assert budget.printed_sensitivity(dimension=row["d"], beta=row["beta"]) == row["value"]
    assert budget.gamma_x(**DIGITS) == pytest.approx(GOLDEN["gamma_x"], rel=1e-14)
    assert budget.input_scale(**DIGITS, epsilon_1=0.1) == pytest.approx(GOLDEN["laplace_scale"], rel=1e-14)
    assert budget.hidden_scale(**DIGITS, epsilon_1=0.1) == pytest.approx(2.0 * GOLDEN["laplace_scale"], rel=1e-14)
    assert budget.label_scale(hidden=256, m=2499, epsilon_2=0.05) == pytest.approx(512.0 / 2499 / 0.05, rel=1e-14)
    assert budget.gamma(**DIGITS, norm=4.0) == pytest.approx(2.0 * GOLDEN["gamma_x"] / 4.0, rel=1e-14)
    claim = budget.claimed_epsilon(**DIGITS, epsilon_1=0.1, epsilon_2=0.3, norm=4.0)
    assert claim == pytest.approx(0.1 + 0.1 / GOLDEN["gamma_x"] + 0.1 * 2.0 / GOLDEN["gamma_x"] + 0.3, rel=1e-14)


def test_the_sound_numbers():
    """The examples of the docstrings show that the first two are reached."""
    size = {"dimension": 64, "beta": 32}
    assert budget.sound_sensitivity(**size) == GOLDEN["lemma2_true_sup"] > 2.8 * budget.printed_sensitivity(**size)
    assert budget.sound_sensitivity(**size, low=0.0) == 64 * 32
    sound, scale = budget.sound_epsilon(m=350, epsilon_1=0.1, beta=32), budget.input_scale(**DIGITS, epsilon_1=0.1)
    assert sound == pytest.approx(GOLDEN["sound_eps_x"], rel=1e-14)
    assert sound == pytest.approx(64 * mechanisms.laplace_epsilon(scale=scale / 2.0), rel=1e-14)
    assert budget.fresh_scale(epsilon=sound, dimension=64) == pytest.approx(scale, rel=1e-14)


@pytest.mark.parametrize("scale", [1.0, 1e-6, 37.0])
def test_the_printed_size_is_broken_and_the_harmonic_one_holds(scale):
    """One input pixel and a threshold, with two noises: the label changes at `true_flip`, in units of the scale."""
    row = GOLDEN["robust_counterexample"]
    kappa = scale * pixeldp.largest_epsilon((1.0 - row["p2"]) ** 2, upper=row["p2"] ** 2, delta=0.0)
    printed, sound = budget.printed_size(kappa=kappa, phi=kappa), budget.sound_size(kappa=kappa, phi=kappa)
    true = smoothing.laplace_radius(1.0 - row["p2"], upper=row["p2"], scale=scale)
    assert true == pytest.approx(row["true_flip"] * scale, rel=1e-12)
    assert printed == pytest.approx(row["kappa_plus_phi"] * scale, rel=1e-12)
    assert sound == pytest.approx(row["harmonic"] * scale, rel=1e-12)
    assert sound <= true < printed


def test_no_product_of_two_noisy_scores_changes_within_the_harmonic_size():
    """Random classifiers of one number, each class a union of intervals, whose worst shift is found by trying all."""
    rng = np.random.default_rng(0)
    shifts = np.linspace(-8.0, 8.0, 4001)
    broken, closest = 0, math.inf
    for _ in range(400):
        scales, chances = rng.uniform(0.3, 2.0, 2), []
        for scale in scales:
            ends = np.sort(rng.normal(0.0, 3.0, 2 * rng.integers(1, 4)))[:, None] - shifts  # class 1 between them
            below = np.where(ends < 0.0, 0.5 * np.exp(-np.abs(ends) / scale), 1.0 - 0.5 * np.exp(-np.abs(ends) / scale))
            chances.append((below[1::2] - below[::2]).sum(axis=0))
        first, second = chances[0] * chances[1], (1.0 - chances[0]) * (1.0 - chances[1])
        leads = first - second if first[2000] > second[2000] else second - first
        kappa, phi = scales * pixeldp.largest_epsilon(
            max(first[2000], second[2000]), upper=min(first[2000], second[2000]), delta=0.0
        )
        flip = np.abs(shifts[leads < 0.0]).min(initial=math.inf)
        sound = budget.sound_size(kappa=kappa, phi=phi)
        assert sound < flip
        broken += budget.printed_size(kappa=kappa, phi=phi) > flip
        closest = min(closest, flip / sound)
    assert broken > 100, "the printed size is exceeded by many of them"
    assert closest < 1.5, "and some come near the harmonic one"


def test_no_perturbation_moves_the_hidden_units_farther_than_said():
    """A convex function is largest at a corner."""
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * 6)).reshape(6, -1)
    for theta in np.random.default_rng(0).normal(size=(20, 6, 3)):
        worst = np.abs(theta.T @ signs).sum(axis=0).max()
        assert 0.3 * worst <= budget.sound_hidden_sensitivity(theta, mu=0.3) * (1.0 + 1e-12)
    assert budget.sound_hidden_sensitivity(np.ones((4, 1)), mu=1.0) == 4.0


# ---- randomized labels, the local route ----


def test_the_probability_to_keep_a_label():
    row = GOLDEN["rr_keep"]
    assert budget.rr_keep(epsilon=row["eps2"], classes=row["K"]) == pytest.approx(row["p"], rel=1e-14)
    for classes in (2, 10, 2**40):
        assert budget.rr_keep(epsilon=0.0, classes=classes) == pytest.approx(1.0 / classes, rel=1e-12)
        for epsilon in (1e-9, 0.3, 5.0, 30.0):
            keep = budget.rr_keep(epsilon=epsilon, classes=classes)
            other = mpmath.mpf(1) / (mpmath.exp(epsilon) + classes - 1)
            assert keep == pytest.approx(float(mpmath.exp(epsilon) * other), rel=1e-13)
    truth = mechanisms.randomized_response_truth_probability(epsilon=0.7)
    assert budget.rr_keep(epsilon=0.7, classes=2) == pytest.approx(truth, rel=1e-14)


@pytest.mark.parametrize(("epsilon", "classes"), [(0.0, 3), (1.0, 10), (3.0, 2)])
def test_labels_are_randomized_with_that_law(epsilon, classes):
    """Each of K counts within 6 deviations; false alarm below 3e-8."""
    draws = 100_000
    told = budget.randomized_labels(
        np.full((2, draws // 2), 1), epsilon=epsilon, classes=classes, rng=np.random.default_rng(0)
    )
    assert told.shape == (2, draws // 2) and told.dtype == np.int64
    keep = budget.rr_keep(epsilon=epsilon, classes=classes)
    for label, count in enumerate(np.bincount(told.ravel(), minlength=classes)):
        p = keep if label == 1 else (1.0 - keep) / (classes - 1)
        assert abs(count - draws * p) < 6.0 * math.sqrt(draws * p * (1.0 - p))


class Low(np.random.Generator):
    """A generator whose uniform numbers are all 0, the least that can be drawn: each label is then changed."""

    def random(self, shape):
        return np.zeros(shape)


def test_a_label_can_change_at_every_epsilon():
    rng = Low(np.random.PCG64(0))
    told = budget.randomized_labels([3, 3, 3], epsilon=1e6, classes=10, rng=rng)
    assert (told != 3).all()
    assert budget.randomized_labels([3], epsilon=1e6, classes=10, rng=np.random.default_rng(0)).tolist() == [3]


def test_the_local_route_costs_the_sum_for_every_number_of_steps():
    found = budget.local_guarantee(epsilon_x=2.0588, epsilon_2=1.0)
    assert (found.epsilon, found.delta, found.kind, found.adjacency) == (3.0588, 0.0, "upper bound", "replace-one")


# ---- sizes at the ends of the floats ----


def test_sizes_at_the_ends():
    for kappa in (0.0, 1e-300, 1.0, 1e300):
        for phi in (0.0, 1e-300, 1.0, 1e300):
            exact = mpmath.mpf(kappa) * phi / (mpmath.mpf(kappa) + phi) if kappa + phi else mpmath.mpf(0)
            assert budget.sound_size(kappa=kappa, phi=phi) == pytest.approx(float(exact), rel=1e-15, abs=0.0)
    kappa = np.array([[1.0], [2.0]])
    assert budget.sound_size(kappa=kappa, phi=[1.0, 2.0, 0.0]).tolist() == [[0.5, 2 / 3, 0.0], [2 / 3, 1.0, 0.0]]
    assert budget.printed_size(kappa=kappa, phi=[1.0, 2.0, 0.0]).tolist() == [[2.0, 3.0, 1.0], [3.0, 4.0, 2.0]]


def test_what_leaves_the_floats_is_refused():
    refuses(budget.gamma, DIGITS, norm=(5e-324,))
    refuses(budget.input_scale, DIGITS, epsilon_1=(5e-324,))
    refuses(budget.hidden_scale, DIGITS, epsilon_1=(3e-308,))
    refuses(budget.label_scale, {"hidden": 16, "m": 1}, epsilon_2=(1e-310,))
    refuses(budget.fresh_scale, {"dimension": 64}, epsilon=(5e-324,))
    refuses(budget.local_guarantee, {"epsilon_x": 1.7e308}, epsilon_2=(1.7e308,))
    refuses(budget.printed_size, {"kappa": 1.7e308}, phi=(1.7e308,))
    refuses(budget.absolute_size, {"units": 1e300}, mu=(1e300,))
    refuses(budget.printed_hidden_sensitivity, {}, theta=(np.full((3, 2), 1.7e308),))
    refuses(budget.sound_hidden_sensitivity, {"mu": 1.0}, theta=(np.full((3, 2), 1.7e308),))
    refuses(budget.sound_sensitivity, {"dimension": 64, "beta": 32}, low=(-1.7e308,))
