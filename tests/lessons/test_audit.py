"""Answers to the exercises of chapter 14, right and wrong; `test_answers` tries them."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpml import mechanisms
from dpml.audit import one_run, samples
from dpml.lessons.audit import checks as items
from dpml.lessons.audit import explorers


def by_counting_up(epsilon, *, confidence):
    """With the limits of the package, N by bisection."""
    low, high = 0, 10**6
    while high - low > 1:
        runs = (low + high) // 2
        sides = {"true_positives": runs, "positives": runs, "false_positives": 0, "negatives": runs}
        found = samples.epsilon_lower_bound(**sides, delta=0.0, confidence=confidence).epsilon_at_least
        low, high = (low, runs) if found >= epsilon else (runs, high)
    return high


def by_logarithms(epsilon, *, confidence):
    q = 1 / (1 + math.exp(-epsilon))
    return math.ceil(math.log((1 - confidence) / 2) / math.log(q))


def inverted(count, *, epsilon, rng):
    """Each side by inverting the distribution function of a geometric number, from 0 on."""
    one, other = np.floor(-np.log(1.0 - rng.random(2)) / epsilon)
    return count + one - other


def with_a_sign(count, *, epsilon, rng):
    """A size and a sign; a negative 0 is drawn again."""
    while True:
        size, sign = rng.geometric(1 - math.exp(-epsilon)) - 1, rng.integers(2)
        if size or sign:
            return int(count + (size if sign else -size))


def by_sorting(members, *, others):
    best = 0.0
    for t in sorted(set(np.concatenate([members, others]).tolist())):
        best = max(best, np.mean(np.asarray(members) <= t) - np.mean(np.asarray(others) <= t))
    return best


def by_kolmogorov(members, *, others):
    return float(stats.ks_2samp(members, others, alternative="greater").statistic)


def by_least_squares(weight, *, bias):
    return np.linalg.lstsq(bias[:, None], weight, rcond=None)[0][0]


def by_hand(weight, *, bias):
    return [float(np.dot(bias, column) / np.dot(bias, bias)) for column in weight.T]


def from_the_corner(epsilon, *, delta):
    """The corner of the region: FPR = FNR = (1 - δ)/(1 + e^ε)."""
    return 1 - (1 - delta) / (1 + math.exp(epsilon))


def by_grid(epsilon, *, delta):
    """Over all false positive rates that matter: the maximum is at a kink, which is added to them."""
    fpr = np.append(np.linspace(0, 1, 101), (1 - delta) / (1 + math.exp(epsilon)))
    tpr = np.minimum(math.exp(epsilon) * fpr + delta, 1 - math.exp(-epsilon) * (1 - delta - fpr))
    return float(((np.minimum(tpr, 1) + 1 - fpr) / 2).max())


RIGHT = {
    items.check_sure: [0.5, Fraction(1, 2)],
    items.check_refuted_epsilon: [-math.log(0.05 ** (-1 / 20) - 1), 1.8225],
    items.check_runs_needed: [by_counting_up, by_logarithms],
    items.check_liar: ["E", " e "],
    items.check_geometric_count: [inverted, with_a_sign],
    items.check_best_advantage: [by_sorting, by_kolmogorov],
    items.check_read_input: [by_least_squares, by_hand],
    items.check_most_right: [from_the_corner, by_grid],
}

WRONG = {
    items.check_geometric_count: [
        (lambda count, *, epsilon, rng: count + rng.laplace(0, 1 / epsilon), "does not follow the law"),
        (lambda count, *, epsilon, rng: inverted(0, epsilon=epsilon, rng=rng), "does not follow the law"),
    ],
}


# ---- the five boxes ----


def cells(name, count, ends):
    """The exact probabilities of a box between the ends, from its distribution function."""
    laplace = stats.laplace(count, 1.0)
    if name == "A":
        return np.diff(laplace.cdf(ends))
    if name == "D":
        return np.diff(stats.norm(count, mechanisms.gaussian_sigma(epsilon=1.0, delta=0.01)).cdf(ends))
    if name == "E":  # |noise| modulo 3, with its sign
        folded = sum(laplace.cdf(np.clip(ends, count, count + 3) + 3 * k) for k in range(30))
        folded += sum(laplace.cdf(np.clip(ends, count - 3, count) - 3 * k) for k in range(30))
        return np.diff(folded)
    p = math.exp(-1.0)
    ks = np.arange(-40, 41)
    weights = np.array([stats.dlaplace(1.0).pmf(k) for k in ks])
    if name == "B":
        weights = np.where(ks == 0, 1 - p**0.5, np.exp(-abs(ks)) * (math.exp(0.5) - math.exp(-0.5)) / 2)
    return np.array(
        [weights[(ks + count > low) & (ks + count <= high)].sum() for low, high in itertools.pairwise(ends)]
    )


@pytest.mark.parametrize("name", items.BOXES)
def test_the_boxes_have_their_laws_and_only_one_breaks_its_promise(name):
    ends = np.arange(-12.5, 13.6, 1.0) if name in "BC" else np.linspace(-12.5, 13.5, 105)
    rng = np.random.default_rng(0)
    exact = [cells(name, count, ends) for count in (0, 1)]
    for count in (0, 1):
        drawn = np.histogram(items.run_box(name, count, runs=20_000, rng=rng), ends)[0]
        expected = 20_000 * exact[count]
        many = expected > 20
        chi = ((drawn - expected)[many] ** 2 / expected[many]).sum()
        assert stats.chi2(many.sum()).sf(chi) > 1e-6
        assert drawn[exact[count] <= 1e-15].sum() == 0
    delta = max(np.maximum(a - math.e * b, 0.0).sum() for a, b in (exact, exact[::-1]))
    allowed = 0.01 if name == "D" else 0.0
    assert (delta > allowed + 1e-4) == (name == "E"), delta


# ---- the explorers say what is true ----


def test_the_typical_audit_is_what_audits_find():
    """The bound by the form, from real runs at the best threshold for them, near the curve of the explorer."""
    figure = explorers.evidence_and_runs()
    frame = figure.frame(runs=100_000, sigma=1.0, confidence="0.95")
    event, form = frame.marks[-1].y
    rng = np.random.default_rng(0)
    on_d, other = rng.normal(1.0, 1.0, 100_000), rng.normal(0.0, 1.0, 100_000)
    best = max(
        samples.epsilon_lower_bound(
            true_positives=int((on_d > t).sum()),
            positives=100_000,
            false_positives=int((other > t).sum()),
            negatives=100_000,
            delta=1e-5,
            confidence=0.95,
        ).epsilon_at_least
        for t in np.linspace(-4, 4, 81)
    )
    exact = mechanisms.gaussian_epsilon(sigma=1.0, delta=1e-5)
    assert best == pytest.approx(event, abs=0.35)  # the count of rare events has a relative deviation of a tenth
    assert event < form < exact and f"{exact:.2f}" in frame.title


@pytest.mark.parametrize(
    ("sigma", "delta", "holds"), [(1.0, "0.1", False), (1.2, "0.1", True), (4.0, "0.00001", False)]
)
def test_the_attack_leaves_the_region_where_the_claim_is_false(sigma, delta, holds):
    frame = explorers.attack_and_region().frame(epsilon=1.0 if sigma < 4 else 0.75, sigma=sigma, delta=delta)
    limit, curve, _ = frame.marks
    assert ("the claim holds" in frame.title) == holds
    if sigma < 4:  # else the curves differ by less than the grid shows
        most = np.minimum(math.e * curve.x + float(delta), 1 - (1 - float(delta) - curve.x) / math.e)
        assert np.interp(curve.x, limit.x, limit.y) == pytest.approx(np.minimum(most, 1.0))
        assert (np.asarray(curve.y) <= most + 1e-12).all() == holds


def test_the_score_explorer_counts_its_canaries():
    frame = explorers.canary_scores().frame(share=0.1, epsilon=4.0, canaries="1000")
    correct = int(frame.title.split()[0])
    found = one_run.one_run_lower_bound(correct=correct, guesses=100, canaries=1000, delta=1e-5, confidence=0.95)
    assert f"ε at least {found.epsilon_at_least:.2f}" in frame.title
    assert frame.beside[-1].y[0] == pytest.approx(found.epsilon_at_least)
