"""The quick search for the best Rényi order: valid at its order, tight, modest in its range."""

import math

import mpmath as mp
import numpy as np
import pytest

from dpml.accounting import _quick_order, _subsampled_gaussian, orders, rdp

RNG = np.random.default_rng(20)
SETTINGS = [
    (
        float(10.0 ** RNG.uniform(-7.0, -0.03)),
        float(10.0 ** RNG.uniform(-0.6, 1.8)),
        float(int(10.0 ** RNG.uniform(0.0, 7.0))),
        float(RNG.uniform(1.0, 60.0)),
    )
    for _ in range(1000)
]


def careful(q, sigma, steps, log_inverse_delta):
    start = orders.guess(q, sigma, steps, log_inverse_delta)
    return orders.best(
        lambda lam: _subsampled_gaussian.log_moments(lam, q, sigma), steps, log_inverse_delta, guess=start
    )[0]


def at(lam, q, sigma, steps, log_inverse_delta):
    """Epsilon at one lambda, not rounded, and the size of the rounding that the bound may add."""
    alpha = float(_subsampled_gaussian.log_moments(np.array([lam]), q, sigma)[0])
    rest = (log_inverse_delta - math.log1p(lam)) / lam
    gain = math.log1p(1.0 / lam)
    return steps * alpha / lam + rest - gain, (steps * alpha / lam + abs(rest) + gain) * 2.0**-40


def test_against_the_careful_search():
    answered = []
    for setting in SETTINGS:
        found = _quick_order.best(*setting)
        if found is None:
            continue
        value, lam = found
        there, rounding = at(lam, *setting)
        assert max(0.0, there) <= value <= max(0.0, there) + 1.1 * rounding, setting
        assert (1.0 + lam) - 1.0 == lam, "the order that is reported is the one that was used"
        assert value <= careful(*setting) * (1.0 + 2e-5), setting
        answered.append(setting)
    assert len(answered) >= 300


@pytest.mark.parametrize(
    ("q", "sigma", "steps"),
    [(0.01, 4.0, 10_000), (256 / 60000, 1.1, 3515), (0.001, 0.6, 100_000), (0.5, 2.0, 1000), (1e-6, 0.5, 10**6)],
)
def test_against_mpmath(q, sigma, steps):
    """The moment by an adaptive rule at 40 digits: the bound is above it, by its rounding and no more."""
    found = _quick_order.best(q, sigma, float(steps), math.log(1e5))
    assert found is not None
    value, lam = found
    with mp.workdps(40):
        s, a, p = mp.mpf(sigma), 1 + mp.mpf(lam), mp.mpf(q)

        def term(x):
            return mp.npdf(x) * (1 - p + p * mp.exp((x - 1 / (2 * s)) / s)) ** a

        right = mp.ceil(a / s) + 15
        moment = mp.log(mp.quad(term, mp.linspace(-15, right, int(2 * (right + 15)) + 1)))
        exact = (steps * moment + mp.log(1e5) - mp.log(a)) / mp.mpf(lam) - mp.log1p(1 / mp.mpf(lam))
        assert exact < value < exact * (1 + mp.mpf(10) ** -10)


@pytest.mark.parametrize(
    ("q", "sigma", "steps", "delta"),
    [
        (1.0, 5.0, 100, 1e-5),  # no sampling: a closed form
        (0.01, 0.05, 10, 1e-5),  # powers that overflow
        (0.01, 200.0, 10, 1e-5),
        (0.01, 4.0, 10, 1e-5),  # the best lambda is beyond the nodes
        (1e-9, 1.0, 10**15, 1e-5),  # moments fainter than the noise
        (0.01, 1.0, 10, 0.5),  # epsilon 0
        (0.01, 1.0, 10, 1.0),
    ],
)
def test_where_care_is_needed(q, sigma, steps, delta):
    setting = (q, sigma, float(steps), -math.log(delta))
    assert _quick_order.best(*setting) is None
    assert rdp.epsilon(q=q, sigma=sigma, steps=steps, delta=delta).epsilon == careful(*setting)


def test_the_accountant_uses_it():
    found = rdp.epsilon(q=0.01, sigma=4.0, steps=10_000, delta=1e-5)
    assert (found.epsilon, found.order - 1.0) == _quick_order.best(0.01, 4.0, 1e4, -math.log(1e-5))


def test_few_moments(monkeypatch):
    """What makes it fast: moments with all their digits only where the search has ended."""
    asked = []

    def counting(lam, *arguments):
        asked.append(lam.size)
        return _subsampled_gaussian.log_moments(lam, *arguments)

    monkeypatch.setattr(_quick_order, "log_moments", counting)
    assert _quick_order.best(0.01, 4.0, 1e4, math.log(1e5)) is not None
    assert sum(asked) <= 2
