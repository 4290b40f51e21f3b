"""Answers to the exercises of chapter 03, right and wrong; `test_answers` tries them."""

import math

import numpy as np
from scipy.optimize import brentq

from dpml import mechanisms
from dpml.accounting import amplification
from dpml.lessons.amplification import checks as items

USEFUL = brentq(lambda q: amplification.lecture_bound(epsilon=1.0, q=q) - 1.0, 0.01, 0.9)


def truth(epsilon: float) -> float:
    return math.exp(epsilon) / (1 + math.exp(epsilon))


def by_enumeration(*, n, q, epsilon):
    """All samples, one by one; record 0 is x* under D."""
    p = p_prime = 0.0
    for code in range(2**n):
        members = [i for i in range(n) if code >> i & 1]
        chance = q ** len(members) * (1 - q) ** (n - len(members))
        if len(members) == n:
            p += chance * (truth(epsilon) if 0 in members else 1 - truth(epsilon))
            p_prime += chance * (1 - truth(epsilon))
    return [p, p_prime]


def in_closed_form(*, n, q, epsilon):
    return np.array([np.exp(epsilon), 1.0]) * q**n / (1 + np.exp(epsilon))


def small_by_enumeration(**case):
    return (by_enumeration if case["n"] < 10 else in_closed_form)(**case)


def by_root_finding(*, target, q):
    if target == 0:
        return 0.0
    return brentq(lambda e: amplification.amplify(epsilon=e, q=q) - target, 0.0, 50.0, xtol=1e-13)


def scale(epsilon: float, q: float) -> float:
    return 1 / math.log1p(math.expm1(epsilon) / q)


def with_numpy(bits, *, epsilon, q, rng):
    kept = rng.binomial(1, q, size=len(bits))
    return float(kept @ bits) + mechanisms.laplace(0.0, scale=scale(epsilon, q), rng=rng)


def one_by_one(bits, *, epsilon, q, rng):
    """Laplace noise as the difference of two exponential variables, a count by one coin after another."""
    total = sum(int(bit) for bit in bits if rng.random() < q)
    return total + rng.exponential(scale(epsilon, q)) - rng.exponential(scale(epsilon, q))


def sampled(coins):
    def answer(bits, *, epsilon, q, rng):
        return np.asarray(bits)[coins(len(bits), q, rng)].sum() + rng.laplace(scale=scale(epsilon, q))

    return answer


RIGHT = {
    items.check_amplified: [
        lambda *, epsilon, q: np.log(1 - q + q * np.exp(epsilon)),
        lambda *, epsilon, q: math.log1p(q * math.expm1(epsilon)),
    ],
    items.check_useful_q: [1 / (4 * np.sinh(1.0)), round(USEFUL, 4)],
    items.check_worst_case: [
        lambda *, epsilon, q: (1.0, math.exp(-epsilon), math.exp(-epsilon)),
        lambda *, epsilon, q: np.array([np.exp(epsilon), 1.0, 1.0]) * 0.01,
    ],
    items.check_all_sampled: [lambda **case: tuple(in_closed_form(**case)), small_by_enumeration],
    items.check_step_epsilon: [lambda *, target, q: np.log((np.exp(target) - 1 + q) / q), by_root_finding],
    items.check_subsample_and_release: [with_numpy, one_by_one],
}
WRONG = {
    items.check_worst_case: [
        (lambda *, epsilon, q: (1.0, math.exp(-2 * epsilon), math.exp(-epsilon)), "the corner of the quick proof"),
        (lambda *, epsilon, q: (math.exp(epsilon), 1.0, 1.0), "divide all three by one number"),
        (lambda *, epsilon, q: (1.0, 1.0, math.exp(-epsilon)), "until a ratio is e^epsilon"),
        (lambda *, epsilon, q: (0.5, 0.9, 0.7), "each two of A, A', B"),
        (lambda *, epsilon, q: (math.exp(-epsilon / 2), 1.0, 1.0), "A must be the larger one"),
        (lambda *, epsilon, q: (1.0, 0.5), "three probabilities"),
    ],
    items.check_subsample_and_release: [
        (sampled(lambda n, q, rng: np.random.default_rng(2).random(n) < q), "does not follow the law"),
        (sampled(lambda n, q, rng: rng.random(n) < q / 2), "does not follow the law"),
    ],
}
