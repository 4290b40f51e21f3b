"""Answers to the exercises of chapter 15, right and wrong; `test_answers` tries them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

from dpml import mechanisms
from dpml.accounting import pld
from dpml.lessons.scale import checks as items
from dpml.lessons.scale import explorers


def by_doubling(noise, *, q, steps, epsilon, delta):
    """The noise of a trial number of records, in proportion."""
    sigma = pld.noise_multiplier(q=q, steps=steps, epsilon=epsilon, delta=delta)
    return 1000 * (sigma / (q * 1000)) / noise


def by_search(noise, *, q, steps, epsilon, delta):
    """The multiplier that makes epsilon at most the target, by bisection."""
    low, high = 0.1, 1000.0
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        fits = pld.epsilon(q=q, sigma=middle, steps=steps, delta=delta).epsilon <= epsilon
        low, high = (low, middle) if fits else (middle, high)
    return high / noise / q


def by_variance(batch, *, n, passes, epsilon, delta):
    steps = -(-passes * n // batch)
    sigma = pld.noise_multiplier(q=batch / n, steps=int(steps), epsilon=epsilon, delta=delta)
    return math.sqrt(sum((sigma / batch) ** 2 for _ in range(int(steps)))) / steps


def over_a_pass(batch, *, n, passes, epsilon, delta):
    steps = math.ceil(n / batch * passes)
    return pld.noise_multiplier(q=batch / n, steps=steps, epsilon=epsilon, delta=delta) / batch * steps**-0.5


def share_by_share(counts, *, lost, at_most, epsilon, rng):
    total, shape = 0.0, 1.0 / (len(counts) - at_most)
    for r, count in enumerate(counts):
        if r not in lost:
            total += float(count) + (rng.standard_gamma(shape) - rng.standard_gamma(shape)) / epsilon
    return total


def masked(counts, *, lost, at_most, epsilon, rng):
    """A gamma variable from a chi-square one."""
    here = np.array([r not in lost for r in range(len(counts))])
    degrees = 2.0 / (len(counts) - at_most)
    shares = (rng.chisquare(degrees, len(counts)) - rng.chisquare(degrees, len(counts))) / 2 / epsilon
    return np.float64((np.asarray(counts) + shares)[here].sum())


def gaussian_shares(counts, *, lost, at_most, epsilon, rng):
    here = [r for r in range(len(counts)) if r not in lost]
    return sum(counts[r] + rng.normal(0, math.sqrt(2 / (len(counts) - at_most)) / epsilon) for r in here)


def together(trials, *, q, steps, epsilon, delta):
    return pld.noise_multiplier(q=q, steps=steps + trials * steps, epsilon=epsilon, delta=delta)


def by_bisection(trials, *, q, steps, epsilon, delta):
    return by_search(1.0, q=q, steps=(1 + trials) * steps, epsilon=epsilon, delta=delta) * q


def with_an_if(delta, *, t, a):
    return a * delta if t >= 1 else a * delta + (1 - a) * (1 - t)


def moved(delta, *, t, a):
    own = np.maximum(1 - t, 0)
    return own + a * (delta - own)


RIGHT = {
    items.check_noise_240: [0.0005, Fraction(1, 2000)],
    items.check_formed_mib: [1242.34375, 4096 * 79510 / 262144],
    items.check_left_sigma: [1.6733, math.sqrt(2.8)],
    items.check_records_needed: [by_doubling, by_search],
    items.check_run_noise: [by_variance, over_a_pass],
    items.check_shared_count: [share_by_share, masked],
    items.check_searched_sigma: [together, by_bisection],
    items.check_mixed_delta: [with_an_if, moved],
    items.check_smaller_wins: [
        {"epsilon": 0.01, "delta": 0.25, "small": 0.3, "large": 0.9},
        {"epsilon": 1e-3, "delta": 0.1, "small": Fraction(3, 20) + 0.0, "large": 1},
        {"epsilon": 1e-3, "delta": 9e-4, "small": 1e-3, "large": np.float64(1.0)},
    ],
}

WRONG = {
    items.check_shared_count: [(gaussian_shares, "does not follow the law")],
    items.check_smaller_wins: [
        ({"epsilon": 0.1, "delta": 0.05, "small": 0.3, "large": 0.8}, "A smaller ε helps the small batch"),
        ({"epsilon": 0.1, "delta": 0.05, "small": 0.8, "large": 0.3}, "the small one below the large one"),
    ],
}


# ---- what the chapter proves ----


@pytest.mark.parametrize("t", [0.3, 1.0, 1.7, 5.0])
@pytest.mark.parametrize("a", [0.2, 0.7])
def test_fewer_chances_have_a_smaller_delta_in_both_directions(t, a):
    """By integrals of the densities, and no more than the step of the proof says."""
    none, one = stats.norm(0, 0.8).pdf, stats.norm(1, 0.8).pdf

    def drawn(q):
        return lambda y: (1 - q) * none(y) + q * one(y)

    def above(p, other):
        return integrate.quad(lambda y: max(0.0, p(y) - t * other(y)), -9, 10, limit=400, epsabs=1e-10)[0]

    q = 0.4
    for often, seldom in (
        (above(drawn(q), none), above(drawn(a * q), none)),
        (above(none, drawn(q)), above(none, drawn(a * q))),
    ):
        assert seldom <= (1 - a) * max(0.0, 1 - t) + a * often + 1e-8 <= often + 2e-8


def test_the_least_noise_of_a_run_is_that_of_one_gaussian_mechanism():
    for steps in (1, 7, 400):
        sigma = pld.noise_multiplier(q=1.0, steps=steps, epsilon=2.0, delta=1e-6)
        assert sigma / math.sqrt(steps) == pytest.approx(mechanisms.gaussian_sigma(epsilon=2.0, delta=1e-6), rel=1e-6)


def test_what_d_does_to_a_step():
    """On quadratics of equal trace and other dimensions, by simulation: six deviations of its error."""
    rng = np.random.default_rng(0)
    for d in (2, 50):
        curvatures, u, s, eta = np.linspace(1, 3, d) * 4 / np.linspace(1, 3, d).sum(), np.ones(d) / d, 0.7, 0.5
        start = np.full(d, 0.3)
        z = rng.normal(0, s, (200_000, d))
        values = ((start - eta * (u + z)) ** 2 @ curvatures) / 2
        expected = ((start - eta * u) ** 2 @ curvatures) / 2 + eta**2 * s**2 * 4 / 2
        assert abs(values.mean() - expected) < 6 * values.std() / math.sqrt(len(values))


@pytest.mark.parametrize("y", [-6.0, 0.5, 3.0, 4.0, 11.0])
def test_two_of_the_gamma_shares_are_two_laplace_variables(y):
    """The distribution function of the check, beside an integral over the first of the two."""

    def below(w):
        rest = (y - 3.0 - w) / 1.5
        return math.exp(-abs(w) / 1.5) / 3 * (1 - math.exp(-rest) / 2 if rest > 0 else math.exp(rest) / 2)

    found = integrate.quad(below, -60, 60, points=sorted((0.0, y - 3.0)), limit=200)[0]
    assert items._split(3.0, 2.0, 1.5).cdf(np.array([y]))[0] == pytest.approx(found, rel=1e-6)


# ---- the explorers say what is true ----


@pytest.mark.parametrize(("plan", "n"), [("passes", 60_000), ("more", 600_000)])
def test_the_noise_of_the_figure_keeps_its_promise(plan, n):
    frame = explorers.batch_and_noise().frame(batch=600, epsilon=3.0, plan=plan)
    steps = round(20 * n / 600)
    found = pld.epsilon(q=600 / n, sigma=frame.marks[-1].y[0] * 600, steps=steps, delta=1e-5).epsilon
    assert found == pytest.approx(3.0, rel=1e-3) and f"{steps:,} steps" in frame.title
    assert frame.beside[-1].y[0] == pytest.approx(frame.marks[-1].y[0] / math.sqrt(steps))


@pytest.mark.parametrize("plan", ["passes", "steps", "more"])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0, 8.0])
def test_no_run_of_the_figure_has_less_than_the_least(plan, epsilon):
    """Which the chapter says of every state: it is no theorem, as the next test shows."""
    frame = explorers.batch_and_noise().frame(batch=600, epsilon=epsilon, plan=plan)
    assert min(frame.beside[1].y) >= frame.beside[0].y * (1 - 1e-6)


def test_the_least_noise_is_not_the_least_at_every_delta():
    """And the sentence of the check is true: a smaller epsilon and a larger delta help the small batch."""

    def ratio(epsilon, delta):
        small, large = (pld.noise_multiplier(q=q, steps=1, epsilon=epsilon, delta=delta) / q for q in (0.3, 1.0))
        return small / large

    assert ratio(0.01, 0.2) < 0.95 < ratio(0.3, 0.2) < ratio(1.0, 0.2)
    assert ratio(1.0, 0.29) < ratio(1.0, 0.2) < ratio(1.0, 0.05)


def test_whoever_knows_the_coins_sees_no_amplification():
    """With them the output is a batch, the same for D and D', and then one Gaussian mechanism with probability q."""
    known = mechanisms.gaussian_epsilon(sigma=2.0, delta=1e-6 / 0.3)
    assert pld.epsilon(q=0.3, sigma=2.0, steps=1, delta=1e-6).epsilon < 0.8 * known


def test_what_is_left_of_a_promise_depends_on_who_is_there():
    figure = explorers.noise_shares()
    kept = figure.frame(away=0.2, planned=0.2, promise="3").marks[-1].y[0]
    broken = figure.frame(away=0.2, planned=0.0, promise="3").marks[-1].y[0]
    sigma = pld.noise_multiplier(q=500 / 60_000, steps=1000, epsilon=3.0, delta=1e-5)
    less = pld.epsilon(q=500 / 60_000, sigma=sigma * math.sqrt(0.8), steps=1000, delta=1e-5).epsilon
    assert kept == pytest.approx(3.0, rel=1e-3) and broken == pytest.approx(less)
