"""Answers to the exercises of chapter 04, right and wrong; `test_answers` tries them."""

import functools
import math
from decimal import Decimal, localcontext

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammaln, logsumexp, ndtr

from dpml import mechanisms
from dpml.accounting import moments
from dpml.lessons.moments import checks as items


def by_quadrature(lam: float, *, q: float, sigma: float) -> float:
    """log E2 as the integral of its definition, over both peaks."""

    def integrand(z: float) -> float:
        loss = np.logaddexp(math.log1p(-q), math.log(q) + (2 * z - 1) / (2 * sigma**2))
        return math.exp((lam + 1) * loss - z * z / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))

    area, _ = quad(integrand, -12 * sigma, lam + 1 + 12 * sigma, epsabs=1e-14, epsrel=1e-13, limit=500)
    return math.log(area)


def with_exact_integers(lam, *, q, sigma):
    """In decimal arithmetic of 60 digits, where neither overflow nor cancellation is felt."""
    with localcontext() as context:
        context.prec = 60
        rate, noise, total = Decimal(q), Decimal(sigma), Decimal(0)
        for k in range(lam + 2):
            weight = math.comb(lam + 1, k) * (1 - rate) ** (lam + 1 - k) * rate**k
            total += weight * (Decimal(k * k - k) / (2 * noise * noise)).exp()
        return float(total.ln())


def log_terms(lam, q, sigma, first):
    k = np.arange(first, lam + 2, dtype=float)
    choose = gammaln(lam + 2) - gammaln(k + 1) - gammaln(lam + 2 - k)
    return (k * k - k) / (2 * sigma**2), choose + (lam + 1 - k) * math.log1p(-q) + k * math.log(q)


def in_logarithms(lam, *, q, sigma):
    exponent, log_weight = log_terms(lam, q, sigma, 2)
    return float(np.logaddexp(0.0, logsumexp(log_weight + exponent + np.log(-np.expm1(-exponent)))))


def log_sum_exp(lam, *, q, sigma):
    return float(logsumexp(sum(log_terms(lam, q, sigma, 0))))


ALPHA = with_exact_integers(32, q=0.01, sigma=4.0)


def in_a_loop(log_moments, *, steps, delta):
    best, where = math.inf, 0
    for lam, value in enumerate(log_moments, start=1):
        epsilon = (steps * value + math.log(1 / delta)) / lam
        if epsilon < best:
            best, where = epsilon, lam
    return best, where


def by_inversion(log_moments, *, steps, delta):
    """Solves delta = e^(steps alpha - lambda epsilon) numerically for every lambda."""
    found = [
        brentq(lambda e, a=a, lam=lam: steps * a - lam * e - math.log(delta), -1.0, 1e4, xtol=1e-13, rtol=1e-14)
        for lam, a in enumerate(log_moments, start=1)
    ]
    best = int(np.argmin(found))
    return [found[best], np.int64(best + 1)]


def exact_epsilon(sigma: float) -> float:
    """From the exact delta of Gaussian noise, written out and solved for epsilon."""
    return brentq(
        lambda e: ndtr(0.5 / sigma - e * sigma) - math.exp(e) * ndtr(-0.5 / sigma - e * sigma) - 1e-5, 0.0, 60.0
    )


def in_closed_form(lam):
    return math.exp(lam * math.log(lam) - (lam + 1) * math.log(lam + 1))


def by_maximising(lam):
    found = minimize_scalar(
        lambda t: -math.log(-math.expm1(-t)) + lam * t, bounds=(1e-12, 50.0), method="bounded", options={"xatol": 1e-12}
    )
    return math.exp(-found.fun)


@functools.cache
def colleague(*, q, sigma, steps, delta, last=32):
    values = [steps * moments.log_moment(float(v), q=q, sigma=sigma) - math.log(delta) for v in range(1, last + 1)]
    return min(value / v for v, value in enumerate(values, start=1))


def validated(f):
    def accountant(*, q, sigma, steps, delta):
        if steps < 0 or not 0 < delta < 1:
            raise ValueError("bad input")
        return 0.0 if steps == 0 or q == 0 else f(q=q, sigma=sigma, steps=steps, delta=delta)

    return accountant


def wide_at_once(**case):
    return moments.epsilon(**case, max_lam=1024).epsilon


def doubling(**case):
    last = 32
    while colleague(**case, last=2 * last) < colleague(**case, last=last):
        last *= 2
    return np.float64(colleague(**case, last=last))


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


RIGHT = {
    items.check_alpha_32: [ALPHA, by_quadrature(32, q=0.01, sigma=4.0)],
    items.check_moments_epsilon: [in_a_loop, by_inversion],
    items.check_epsilon_as_printed: [exact_epsilon(0.4), 13.20671],
    items.check_factor: [in_closed_form, by_maximising],
    items.check_stable_log_moment: [in_logarithms, with_exact_integers],
    items.check_accountant: [validated(wide_at_once), validated(doubling)],
    items.check_private_step: [with_numpy, one_by_one],
}
WRONG = {
    items.check_factor: [
        (lambda lam: 1.0, "Markov's inequality for an indicator"),
        (lambda lam: (lam / (lam + 1)) ** lam, "put the best t also into 1 - e^-t"),
        (lambda lam: 2 * in_closed_form(lam), "Where is (1 - e^-t) e^(-lambda t) largest?"),
        (lambda lam: 0.99 * in_closed_form(lam), "the left side is larger"),
        (lambda lam: float(lam) ** lam / (lam + 1.0) ** (lam + 1), "divide first"),
    ],
    items.check_stable_log_moment: [(log_sum_exp, "Subtract 1, the sum of the weights")],
    items.check_accountant: [
        (colleague, "at steps = 0 it returned 0.3598"),
        (validated(colleague), "from the edge lambda = 32"),
        (validated(lambda **case: 0.95 * doubling(**case)), "divides by lambda + 1"),
        (validated(lambda **case: 0.5 * doubling(**case)), "less than the log-moments prove"),
        (
            lambda **case: doubling(**case) if case["steps"] > 0 and case["q"] > 0 and case["delta"] < 1 else 0.0,
            "raise ValueError",
        ),
    ],
    items.check_private_step: [
        (lambda gradients, **case: with_numpy(gradients, **case | {"q": case["q"] / 2}), "does not follow the law"),
    ],
}
