"""Each check of the exercises of chapter 04: right answers in two ways, and wrong ones with their diagnosis."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammaln, logsumexp, ndtr

from dpml import mechanisms
from dpml.accounting import moments, rdp
from dpml.lessons.moments import checks as items

from .answers import message, unwritten

# Item 1


def binomial_sum(lam: int, *, q: float, sigma: float) -> float:
    order = lam + 1
    return math.log(
        math.fsum(
            math.comb(order, k) * (1 - q) ** (order - k) * q**k * math.exp((k * k - k) / (2 * sigma**2))
            for k in range(order + 1)
        )
    )


def by_quadrature(lam: float, *, q: float, sigma: float) -> float:
    """log E2 as the integral of its definition, over both peaks."""

    def integrand(z: float) -> float:
        loss = np.logaddexp(math.log1p(-q), math.log(q) + (2 * z - 1) / (2 * sigma**2))
        return math.exp((lam + 1) * loss - z * z / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))

    area, _ = quad(integrand, -12 * sigma, lam + 1 + 12 * sigma, epsabs=1e-14, epsrel=1e-13, limit=500)
    return math.log(area)


@pytest.mark.parametrize(
    "right",
    [
        binomial_sum(32, q=0.01, sigma=4.0),
        by_quadrature(32, q=0.01, sigma=4.0),
        np.float64(32 * rdp.subsampled_gaussian(33.0, q=0.01, sigma=4.0)),
    ],
)
def test_alpha_32_accepts(right, capsys):
    items.check_alpha_32(right)
    assert capsys.readouterr().out.startswith("✓ alpha_32")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (binomial_sum(31, q=0.01, sigma=4.0), "The order is lambda + 1 = 33"),
        (moments.log_moment_e1(32.0, q=0.01, sigma=4.0), "the record added"),
        (binomial_sum(32, q=0.01, sigma=4.0) / 32, "the Rényi divergence of order 33"),
        (binomial_sum(31, q=0.01, sigma=4.0) / 31, "the Rényi divergence of order 32"),
        (math.exp(binomial_sum(32, q=0.01, sigma=4.0)), "Its logarithm is asked"),
        (math.expm1(binomial_sum(32, q=0.01, sigma=4.0)), "E2 - 1"),
        (33.0, "without sampling"),
        (1e-4 * 32 * 33 / (0.99 * 16), "the bound of Abadi et al."),
        (1e-4 * 528 * math.expm1(1 / 16), "the leading term"),
        (0.1, "log E2 for q = 0.01"),
        ("0.0035", "not a number"),
        (math.nan, "nan"),
        (..., "not written yet"),
    ],
)
def test_alpha_32_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_alpha_32, wrong)


# Item 2


def in_a_loop(log_moments, *, steps, delta):
    best, where = math.inf, 0
    for lam, value in enumerate(log_moments, start=1):
        epsilon = (steps * value + math.log(1 / delta)) / lam
        if epsilon < best:
            best, where = epsilon, lam
    return best, where


def by_inversion(log_moments, *, steps, delta):
    """Solves delta = e^(steps alpha - lambda epsilon) numerically for every lambda."""
    lams = range(1, len(log_moments) + 1)
    found = [
        brentq(lambda e, a=a, lam=lam: steps * a - lam * e - math.log(delta), -1.0, 1e4, xtol=1e-13, rtol=1e-14)
        for lam, a in zip(lams, log_moments, strict=True)
    ]
    best = int(np.argmin(found))
    return [found[best], np.int64(best + 1)]


@pytest.mark.parametrize("right", [in_a_loop, by_inversion])
def test_moments_epsilon_accepts(right, capsys):
    items.check_moments_epsilon(right)
    assert capsys.readouterr().out.startswith("✓ moments_epsilon")


def variant(form, pick=min):
    def wrong(log_moments, *, steps, delta):
        return pick((form(a, lam, steps, delta), lam) for lam, a in enumerate(log_moments, start=1))

    return wrong


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (variant(lambda a, lam, steps, delta: (steps * a + math.log(1 / delta)) / (lam + 1)), "lambda + 1, the order"),
        (variant(lambda a, lam, steps, delta: (a + math.log(1 / delta)) / lam), "the steps are missing"),
        (variant(lambda a, lam, steps, delta: steps * (a + math.log(1 / delta)) / lam), "spent once, after all steps"),
        (variant(lambda a, lam, steps, delta: (steps * a + math.log(delta)) / lam), "the sign of log(delta)"),
        (variant(lambda a, lam, steps, delta: steps * a + math.log(1 / delta) / lam), "divided by lambda as well"),
        (variant(lambda a, lam, steps, delta: (steps * a - math.log10(delta)) / lam), "the natural one"),
        (variant(lambda a, lam, steps, delta: (steps**0.5 * a - math.log(delta)) / lam), "the root of T comes out"),
        (variant(lambda a, lam, steps, delta: (steps * a - math.log(delta)) / lam, pick=max), "you take the largest"),
        (
            lambda log_moments, *, steps, delta: (
                in_a_loop(log_moments, steps=steps, delta=delta)[0],
                in_a_loop(log_moments, steps=steps, delta=delta)[1] - 1,
            ),
            "counted from zero",
        ),
        (
            lambda log_moments, *, steps, delta: (
                in_a_loop(log_moments, steps=steps, delta=delta)[0],
                in_a_loop(log_moments, steps=steps, delta=delta)[1] + 1,
            ),
            "the order lambda + 1",
        ),
        (
            lambda log_moments, *, steps, delta: in_a_loop(log_moments, steps=steps, delta=delta)[0],
            "expected are 2 values",
        ),
        (lambda log_moments, *, steps, delta: (1.0, 1), "Solve delta ="),
        (lambda log_moments, *, steps, delta: None, "is a return missing?"),
        (unwritten, "not written yet"),
    ],
)
def test_moments_epsilon_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_moments_epsilon, wrong)


# Item 3


def exact_epsilon(sigma: float) -> float:
    """From the exact delta of Gaussian noise, written out and solved for epsilon."""

    def excess(e: float) -> float:
        return ndtr(0.5 / sigma - e * sigma) - math.exp(e) * ndtr(-0.5 / sigma - e * sigma) - 1e-5

    return brentq(excess, 0.0, 60.0, xtol=1e-12)


@pytest.mark.parametrize("right", [exact_epsilon(0.4), mechanisms.gaussian_epsilon(sigma=4 / 10, delta=1e-5), 13.20671])
def test_epsilon_as_printed_accepts(right, capsys):
    items.check_epsilon_as_printed(right)
    assert capsys.readouterr().out.startswith("✓ epsilon_as_printed")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (0.926341504, "takes sigma = 4 for the noise multiplier"),
        (mechanisms.gaussian_epsilon(sigma=40.0, delta=1e-5), "in the wrong direction"),
        (mechanisms.gaussian_epsilon(sigma=0.04, delta=1e-5), "divided out twice"),
        (math.sqrt(2 * math.log(1.25e5)) / 0.4, "the classic formula"),
        (moments.epsilon(q=1.0, sigma=0.4, steps=1, delta=1e-5).epsilon, "The moments give an upper bound"),
        (9.26, "the most that one record can move theta"),
        (None, "not a number"),
        (..., "not written yet"),
    ],
)
def test_epsilon_as_printed_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_epsilon_as_printed, wrong)


# Item 4


def in_closed_form(lam):
    return math.exp(lam * math.log(lam) - (lam + 1) * math.log(lam + 1))


def by_maximising(lam):
    found = minimize_scalar(
        lambda t: -math.log(-math.expm1(-t)) + lam * t, bounds=(1e-12, 50.0), method="bounded", options={"xatol": 1e-12}
    )
    return math.exp(-found.fun)


@pytest.mark.parametrize("right", [in_closed_form, by_maximising])
def test_factor_accepts(right, capsys):
    items.check_factor(right)
    assert capsys.readouterr().out.startswith("✓ factor")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lambda lam: 1.0, "Markov's inequality for an indicator"),
        (lambda lam: 1 / (lam + 1), "put the best t into both"),
        (lambda lam: (lam / (lam + 1)) ** lam, "put the best t also into 1 - e^-t"),
        (lambda lam: in_closed_form(lam - 1) if lam > 1 else 1.0, "smaller c would do"),
        (lambda lam: 2 * in_closed_form(lam), "Where is (1 - e^-t) e^(-lambda t) largest?"),
        (lambda lam: 0.99 * in_closed_form(lam), "the left side is larger"),
        (lambda lam: in_closed_form(lam + 1), "the left side is larger"),
        (lambda lam: float(lam) ** lam / (lam + 1.0) ** (lam + 1), "OverflowError"),
        (lambda lam: math.nan, "nan"),
        (unwritten, "not written yet"),
        (lambda lam: None, "not written yet"),
        (0.25, "must be a function"),
    ],
)
def test_factor_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_factor, wrong)


# Item 5


def log_terms(lam, q, sigma, first, order=None):
    n = lam + 1 if order is None else order
    k = np.arange(first, n + 1, dtype=float)
    choose = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return k, choose + (n - k) * math.log1p(-q) + k * math.log(q)


def in_logarithms(lam, *, q, sigma):
    k, log_weight = log_terms(lam, q, sigma, 2)
    exponent = (k * k - k) / (2 * sigma**2)
    return float(np.logaddexp(0.0, logsumexp(log_weight + exponent + np.log(-np.expm1(-exponent)))))


def with_exact_integers(lam, *, q, sigma):
    """In decimal arithmetic of 60 digits, where neither overflow nor cancellation is felt."""
    from decimal import Decimal, localcontext

    with localcontext() as context:
        context.prec = 60
        rate, noise, total = Decimal(q), Decimal(sigma), Decimal(0)
        for k in range(lam + 2):
            weight = math.comb(lam + 1, k) * (1 - rate) ** (lam + 1 - k) * rate**k
            total += weight * (Decimal(k * k - k) / (2 * noise * noise)).exp()
        return float(total.ln())


@pytest.mark.parametrize("right", [in_logarithms, with_exact_integers])
def test_stable_log_moment_accepts(right, capsys):
    items.check_stable_log_moment(right)
    printed = capsys.readouterr().out
    assert printed.startswith("✓ stable_log_moment") and "at tiny q" in printed


def log_sum_exp(lam, *, q, sigma):
    k, log_weight = log_terms(lam, q, sigma, 0)
    return float(logsumexp(log_weight + (k * k - k) / (2 * sigma**2)))


def one_order_less(lam, *, q, sigma):
    k, log_weight = log_terms(lam, q, sigma, 0, order=lam)
    return float(logsumexp(log_weight + (k * k - k) / (2 * sigma**2)))


def square_only(lam, *, q, sigma):
    k, log_weight = log_terms(lam, q, sigma, 0)
    return float(logsumexp(log_weight + k * k / (2 * sigma**2)))


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (binomial_sum, "add the terms relative to the largest one"),
        (log_sum_exp, "Subtract 1, the sum of the weights"),
        (one_order_less, "the order is lambda + 1"),
        (lambda lam, *, q, sigma: in_logarithms(lam, q=q, sigma=sigma) / lam, "the Rényi divergence"),
        (square_only, "a k is missing"),
        (lambda lam, *, q, sigma: moments.log_moment_e1(float(lam), q=q, sigma=sigma), "log E1, the other direction"),
        (lambda lam, *, q, sigma: 0.0, "add the terms relative"),
        (lambda lam, q: 0.0, "is called with"),
        (unwritten, "not written yet"),
    ],
)
def test_stable_log_moment_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_stable_log_moment, wrong)


# Item 6


def colleague(*, q, sigma, steps, delta, last=32):
    values = [
        (steps * moments.log_moment(float(v), q=q, sigma=sigma) - math.log(delta)) / v for v in range(1, last + 1)
    ]
    return min(values)


def validated(f):
    def accountant(*, q, sigma, steps, delta):
        if steps < 0 or not 0 < delta < 1:
            raise ValueError("bad input")
        return 0.0 if steps == 0 or q == 0 else f(q=q, sigma=sigma, steps=steps, delta=delta)

    return accountant


def wide_at_once(*, q, sigma, steps, delta):
    return moments.epsilon(q=q, sigma=sigma, steps=steps, delta=delta, max_lam=1024).epsilon


def doubling(*, q, sigma, steps, delta):
    last = 32
    while True:
        values = [
            (steps * moments.log_moment(float(v), q=q, sigma=sigma) - math.log(delta)) / v for v in range(1, last + 1)
        ]
        if int(np.argmin(values)) < last - 1:
            return np.float64(min(values))
        last *= 2


@pytest.mark.parametrize("right", [validated(wide_at_once), validated(doubling)])
def test_accountant_accepts(right, capsys):
    items.check_accountant(right)
    assert capsys.readouterr().out.startswith("✓ accountant")


def without_refusals(*, q, sigma, steps, delta):
    return 0.0 if steps == 0 or q == 0 else abs(doubling(q=q, sigma=sigma, steps=max(steps, 1), delta=min(delta, 0.5)))


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (colleague, "at steps = 0 it returned 0.3598"),
        (validated(colleague), "from the edge lambda = 32"),
        (validated(lambda **case: colleague(**case, last=64)), "a larger lambda gives less"),
        (
            lambda **case: 0.0 if case["steps"] == 0 else (colleague if case["q"] == 0 else doubling)(**case),
            "at q = 0",
        ),
        (validated(lambda **case: 0.95 * doubling(**case)), "divides by lambda + 1"),
        (validated(lambda **case: 0.5 * doubling(**case)), "less than the log-moments prove"),
        (validated(lambda **case: 2 * doubling(**case)), "some lambda does better"),
        (
            validated(lambda **case: min(doubling(**case), 0.01) if case["steps"] == 1 else doubling(**case)),
            "less than any lambda proves",
        ),
        (
            lambda **case: doubling(**case) if case["steps"] > 0 and case["q"] > 0 and case["delta"] < 1 else 0.0,
            "raise ValueError",
        ),
        (unwritten, "not written yet"),
        (lambda **case: None, "not written yet"),
        (1.26, "must be a function"),
    ],
)
def test_accountant_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_accountant, wrong)


# Item 7

RIGHT = {"a": True, "b": False, "c": False, "d": False, "e": False, "f": True, "g": True, "h": False}


@pytest.mark.parametrize("right", [RIGHT, {key: np.bool_(RIGHT[key]) for key in "hgfedcba"}])
def test_quotable_accepts(right, capsys):
    items.check_quotable(right)
    assert capsys.readouterr().out.startswith("✓ quotable")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (RIGHT | {"a": False}, "what the number is for"),
        (RIGHT | {"b": True}, "two clipping norms"),
        (RIGHT | {"c": True}, "+C in D and -C in D'"),
        (RIGHT | {"d": True}, "the batches of an epoch depend on each other"),
        (RIGHT | {"e": True}, "the size of a Poisson batch"),
        (RIGHT | {"f": False}, "the noisy sums alone"),
        (RIGHT | {"g": False}, "dividing the noisy sum by a constant"),
        (RIGHT | {"h": True}, "Here it is 2, not 4"),
        (RIGHT | {"b": 0}, "give True or False"),
        ({"a": True}, 'the keys "a" to "h"'),
        (None, 'the keys "a" to "h"'),
        (..., "not written yet"),
    ],
)
def test_quotable_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_quotable, wrong)


# Item 8


def with_numpy(gradients, *, q, clip, sigma, rng):
    kept = gradients[rng.random(len(gradients)) < q]
    return np.clip(kept, -clip, clip).sum() + rng.normal(0.0, sigma * clip)


def one_by_one(gradients, *, q, clip, sigma, rng):
    """One coin after another; each gradient is scaled down by its norm, as for vectors."""
    total = 0.0
    for g in gradients:
        if rng.random() < q:
            total += g * min(1.0, clip / abs(g)) if g else 0.0
    return total + mechanisms.gaussian(0.0, sigma=sigma, rng=rng) * clip


@pytest.mark.parametrize("right", [with_numpy, one_by_one])
def test_private_step_accepts(right, capsys):
    items.check_private_step(right)
    printed = capsys.readouterr().out
    assert printed.startswith("✓ private_step") and printed.count("✓") == 1


def clipped_sum(gradients, q, clip, rng):
    return float(np.clip(gradients[rng.random(len(gradients)) < q], -clip, clip).sum())


def own_coins(gradients, *, q, clip, sigma, rng):
    return clipped_sum(gradients, q, clip, np.random.default_rng()) + rng.normal(0.0, sigma * clip)


def laplace(gradients, *, q, clip, sigma, rng):
    return clipped_sum(gradients, q, clip, rng) + rng.laplace(0.0, sigma * clip / math.sqrt(2))


def half_of_q(gradients, *, q, clip, sigma, rng):
    return clipped_sum(gradients, q / 2, clip, rng) + rng.normal(0.0, sigma * clip)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (own_coins, "its own randomness"),
        (laplace, "does not follow the law"),
        (half_of_q, "does not follow the law"),
        (lambda gradients, *, q, clip, sigma, rng: gradients + rng.normal(), "expected is one finite number"),
    ],
)
def test_private_step_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_private_step, wrong)


# Item 9


@pytest.mark.parametrize(
    "right",
    [
        "Given the earlier outputs, step t is a fixed mechanism, and its factor has mean at most e^alpha_t whatever "
        "the past was. The total moment is a mean of a product of such factors, so the bounds multiply.",
        "Condition on the past. For every past the last factor of the product is bounded by its own log-moment, which "
        "can be pulled out; then the next to last step is treated in the same way, down to the first one.",
    ],
)
def test_why_accepts_and_prints_the_rubric(right, capsys):
    items.check_why(right)
    printed = capsys.readouterr().out
    assert printed.startswith("✓ why") and "Independence of the steps is not needed" in printed


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        ("The steps are independent.", "Use at least 25"),
        (
            "The losses of the steps can be added because the noise in the steps is fresh and has nothing to do with "
            "the noise that was drawn at other times in the run, so it is fine.",
            "what is fixed when step t is looked at",
        ),
        (
            "Given the previous outputs the steps have a certain distribution, and then the factors of a product can "
            "be handled one after the other until nothing is left over to handle.",
            "holds for every past",
        ),
        (7, "between triple quotes"),
        (..., "not written yet"),
    ],
)
def test_why_names_what_is_missing(wrong, diagnosis):
    assert diagnosis in message(items.check_why, wrong)
