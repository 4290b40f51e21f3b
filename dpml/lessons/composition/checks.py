r"""The checks of the exercises of chapter 02, Composition.

Randomized response is the worst mechanism for a given epsilon. With X of its k answers true, the total loss is
(2X - k) epsilon, and k mechanisms that are epsilon-DP are together (epsilon', delta')-DP for

.. math::

    \delta' = E\bigl[1 - e^{\varepsilon' - (2X - k)\varepsilon}\bigr]_+, \qquad
    X \sim \mathrm{Binomial}\bigl(k, e^\varepsilon/(1 + e^\varepsilon)\bigr) .

k answers with Laplace noise of scale b to one count are together k/b-DP. k answers with Gaussian noise of standard
deviation sigma to counts of sensitivity 1 are as private as one with sigma over the square root of k.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, roots_genlaguerre

from dpml import mechanisms
from dpml.accounting import composition
from dpml.classroom import checks, laws
from dpml.classroom.checks import Mistake


def check_mean_loss(answer: Any) -> None:
    """The mean of the privacy loss of randomized response, under D."""

    def truth(epsilon: float) -> float:
        return mechanisms.randomized_response_truth_probability(epsilon=epsilon)

    checks.function(
        answer,
        name="mean_loss",
        reference=lambda *, epsilon: epsilon * math.tanh(epsilon / 2),
        inputs=[{"epsilon": epsilon} for epsilon in (1.0, 0.1, 0.5, 2.0, 5.0)],
        mistakes=[
            Mistake(
                lambda *, epsilon: epsilon * math.expm1(epsilon),
                "this is the bound in the printed theorem, more than twice the mean. Here the mean itself is asked.",
            ),
            Mistake(
                lambda *, epsilon: epsilon**2 / 2,
                "this is the approximation for small epsilon; it is too large for every other one.",
            ),
            Mistake(
                lambda *, epsilon: math.tanh(epsilon / 2),
                "this is the mean of a step of +1 or -1. The losses are epsilon and -epsilon.",
            ),
            Mistake(
                lambda *, epsilon: epsilon * truth(epsilon),
                "only the true answers are counted. A lie has a loss as well: it points to the other dataset.",
            ),
            Mistake(
                lambda *, epsilon: 0.0,
                "the two losses cancel only if they are equally likely, and under D the truth is likelier.",
            ),
            Mistake(lambda *, epsilon: epsilon, "this is the largest loss, that of a true answer; asked is the mean."),
            Mistake(
                lambda *, epsilon: -epsilon * math.tanh(epsilon / 2),
                "this is the mean under D'. Under D the answer points to D more often than away from it.",
            ),
        ],
        hint="Add up loss times probability over the two answers; it is positive, and close to half the square of a "
        "small epsilon.",
    )


def _first(gain: float, delta_prime: float) -> int:
    return math.floor(-2 * math.log(delta_prime) / gain**2) + 1


def check_first_k(answer: Any) -> None:
    """The first k at which the printed advanced composition bound is below k epsilon, or None."""

    def where_it_helps(first: Callable[[float, float], int]) -> Callable[..., int | None]:
        return lambda *, epsilon, delta_prime: first(epsilon, delta_prime) if math.expm1(epsilon) < 1 else None

    checks.function(
        answer,
        name="first_k",
        reference=composition.advanced_first_k,
        inputs=checks.settings(
            "epsilon delta_prime", (0.1, 1e-5), (0.5, 1e-5), (0.7, 1e-5), (0.2, 1e-9), (0.05, 1e-3), (1.0, 1e-6)
        ),
        mistakes=[
            Mistake(
                where_it_helps(lambda e, d: _first(1.0, d)),
                "only the first term is compared with k epsilon. The second one, with e^epsilon - 1, is lost.",
            ),
            Mistake(
                lambda *, epsilon, delta_prime: _first(1.0, delta_prime),
                "only the first term is compared with k epsilon. The second one, with e^epsilon - 1, is lost.",
            ),
            Mistake(
                lambda *, epsilon, delta_prime: _first(2 - math.exp(epsilon), delta_prime),
                "squaring lost the sign: beyond ln 2 the number 2 - e^epsilon is negative, and no k will do.",
            ),
            Mistake(
                where_it_helps(lambda e, d: _first(2 - math.exp(e), d) - 1),
                "at this k the bound is still above k epsilon: it must be strictly below.",
            ),
            Mistake(
                lambda *, epsilon, delta_prime: _first(1 - math.tanh(epsilon / 2), delta_prime),
                "this is for the form with tanh(epsilon/2). Asked is the printed one.",
            ),
            Mistake(
                where_it_helps(lambda e, d: math.floor(-math.log(d) / (2 - math.exp(e)) ** 2) + 1),
                "a factor of two is lost: the square root holds 2k ln(1/delta').",
            ),
        ],
        hint="Put your k and k - 1 into both formulas. Return a whole number, or None if the bound never helps.",
    )


def check_why(answer: Any) -> None:
    """Two sentences: why the printed theorem is never better than adding up for epsilon >= ln 2."""
    checks.argument(
        answer,
        name="why",
        minimum_words=20,
        rubric=[
            "For epsilon >= ln 2, e^epsilon is at least 2, so e^epsilon - 1 is at least 1.",
            "Hence the second term, k epsilon (e^epsilon - 1), is at least k epsilon, which is basic composition.",
            "The first term is positive for every delta' below 1, so the sum is larger than k epsilon, for every k.",
        ],
        question="At ε = ln 2, k = 1 and δ' = 10⁻⁵, how large is each of the two terms, and how large is kε?",
    )


def _coins(epsilon: float, k: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The loss for each number of true answers of k coins, and its probability under D."""
    x = np.arange(k + 1, dtype=np.float64)
    t = mechanisms.randomized_response_truth_probability(epsilon=epsilon)
    log_ways = gammaln(k + 1.0) - gammaln(x + 1.0) - gammaln(k - x + 1.0)
    return (2.0 * x - k) * epsilon, np.exp(log_ways + x * math.log(t) + (k - x) * math.log1p(-t))


def check_coin_delta(answer: Any) -> None:
    """The exact delta of k randomized responses at a total epsilon."""
    triples = [(0.1, 100, 1.0), (1.0, 1, 0.5), (0.5, 3, 1.0), (0.3, 20, 0.0), (0.1, 100, 10.0), (2.0, 5, 3.0)]

    def tail(*, epsilon: float, k: int, total_epsilon: float) -> float:
        loss, chance = _coins(epsilon, k)
        return float(chance[loss > total_epsilon + 1e-9].sum())

    def under_neighbour(*, epsilon: float, k: int, total_epsilon: float) -> float:
        loss, chance = _coins(epsilon, k)
        return float((chance[::-1] * np.maximum(1 - np.exp(total_epsilon - loss), 0)).sum())

    def x_epsilon(*, epsilon: float, k: int, total_epsilon: float) -> float:
        chance = _coins(epsilon, k)[1]
        return float((chance * np.maximum(1 - np.exp(total_epsilon - np.arange(k + 1) * epsilon), 0)).sum())

    def no_factor(*, epsilon: float, k: int, total_epsilon: float) -> float:
        loss, chance = _coins(epsilon, k)
        return float(np.maximum(chance - chance[::-1], 0)[loss > total_epsilon + 1e-9].sum())

    def one_order(*, epsilon: float, k: int, total_epsilon: float) -> float:
        loss, chance = _coins(epsilon, k)
        ways = np.array([math.comb(k, x) for x in range(k + 1)], dtype=float)
        return float((chance / ways * np.maximum(1 - np.exp(total_epsilon - loss), 0)).sum())

    def not_cut(*, epsilon: float, k: int, total_epsilon: float) -> float:
        return -math.expm1(total_epsilon)

    checks.function(
        answer,
        name="coin_delta",
        reference=partial(composition.optimal_delta, delta=0.0),
        inputs=checks.settings("epsilon k total_epsilon", *triples),
        mistakes=[
            Mistake(
                tail,
                "this is the probability that the loss exceeds the total. Delta is less: it counts only the excess, "
                "P - e^total P'.",
            ),
            Mistake(under_neighbour, "the excess is averaged with the probabilities under D'. Take those under D."),
            Mistake(
                x_epsilon,
                "x true answers are given the loss x epsilon. The k - x lies count as well, with the opposite sign.",
            ),
            Mistake(no_factor, "P' must be multiplied by e^total before it is subtracted."),
            Mistake(one_order, "x true answers of k come in many orders, and only one of them is counted."),
            Mistake(not_cut, "negative terms are added up as well. Where P is below e^total P', the term is zero."),
        ],
        hint="At total_epsilon = k epsilon it is zero; at 0 it is the largest difference of the probabilities of any "
        "event.",
    )


def check_epsilon_100(answer: Any) -> None:
    """The optimal total of 100 steps of epsilon = 0.1 at delta = 1e-5."""
    epsilon, k, delta = 0.1, 100, 1e-5
    loss, chance = _coins(epsilon, k)
    beyond = np.append(np.cumsum(chance[::-1])[::-1][1:], 0.0)  # the probability of a larger loss than this one
    checks.number(
        answer,
        name="epsilon_100",
        expected=composition.optimal(epsilon=epsilon, delta=0.0, k=k, total_delta=delta).epsilon,
        rel=1e-4,
        mistakes=[
            Mistake(
                composition.advanced(epsilon=epsilon, delta=0.0, k=k, delta_prime=delta).epsilon,
                "this is the printed advanced composition theorem: true, but an upper bound. Use coin_delta.",
            ),
            Mistake(
                composition.advanced_tanh(epsilon=epsilon, delta=0.0, k=k, delta_prime=delta).epsilon,
                "this is advanced composition with the exact mean. The tail is still bounded by an inequality.",
            ),
            Mistake(
                epsilon * math.sqrt(-2 * k * math.log(delta)),
                "this is the first term of the theorem alone. The drift is missing, and it is no optimum.",
            ),
            Mistake(k * epsilon, "this is basic composition, the answer for delta = 0."),
            Mistake(
                math.sqrt(k) * epsilon,
                "this is the standard deviation of the total loss. There the delta is far above 1e-05.",
            ),
            Mistake(
                lambda value: any(abs(value - level) < 2e-3 for level in loss[(beyond <= delta) & (beyond > 1e-7)]),
                "this is a loss that is exceeded with probability at most 1e-05. Delta counts only the excess, so a "
                "smaller epsilon is enough.",
                float(loss[beyond <= delta][0]),
            ),
        ],
        hint="At your value coin_delta must return 1e-05.",
    )


def check_how_many(answer: Any) -> None:
    """How many Gaussian releases with noise multiplier sigma fit into (epsilon, delta)."""
    triples = [(50.0, 1.0, 1e-5), (10.0, 1.0, 1e-5), (3.0, 1.0, 1e-5), (100.0, 0.5, 1e-6), (40.0, 2.0, 1e-5)]

    def needed(epsilon: float, delta: float) -> float:
        return mechanisms.gaussian_sigma(epsilon=epsilon, delta=delta)

    def within(one: Callable[..., float]) -> Callable[..., int]:
        return lambda *, sigma, epsilon, delta: math.floor((sigma / one(epsilon=epsilon, delta=delta)) ** 2)

    checks.function(
        answer,
        name="how_many",
        reference=within(mechanisms.gaussian_sigma),
        inputs=checks.settings("sigma epsilon delta", *triples),
        mistakes=[
            Mistake(
                lambda *, sigma, epsilon, delta: math.floor(sigma / needed(epsilon, delta)),
                "k releases with noise sigma are one with sigma over the square root of k. Solve for k: a square is "
                "lost.",
            ),
            Mistake(
                lambda *, sigma, epsilon, delta: (sigma / needed(epsilon, delta)) ** 2,
                "the ratio is right, but a number of releases is whole. Round it so that the promise holds.",
            ),
            Mistake(
                lambda *, sigma, epsilon, delta: math.ceil((sigma / needed(epsilon, delta)) ** 2),
                "it is rounded up: the last release breaks the promise.",
            ),
            Mistake(
                lambda *, sigma, epsilon, delta: math.floor(
                    epsilon / mechanisms.gaussian_epsilon(sigma=sigma, delta=delta)
                ),
                "this adds up epsilons, and forgets that the deltas would add up too. Gaussian noise composes better.",
            ),
            Mistake(
                within(mechanisms.gaussian_sigma_classic_formula),
                "the classic formula for sigma is used. It asks for more noise than needed.",
            ),
        ],
        hint="With k releases of noise sigma the whole is one release of noise sigma over the square root of k.",
    )


def _average(center: float, scale: float, k: int) -> laws.Law:
    """The mean of k Laplace noises: Gaussian of standard deviation scale sqrt(2 g)/k, with g from Gamma(k)."""
    nodes, weights = roots_genlaguerre(40, k - 1)
    parts = [laws.normal(center, scale * math.sqrt(2 * g) / k) for g in nodes]
    mixed = laws.mixture(weights / weights.sum(), parts)
    return mixed._replace(draw=lambda rng, size: center + rng.laplace(0.0, scale, (size, k)).mean(axis=1))


def check_averaged_count(answer: Any) -> None:
    """The average of k noisy counts, epsilon-DP as a whole under add/remove; or a single one with less noise."""

    def average(scale: Callable[[int], float]) -> Callable[..., laws.Law]:
        def law(bits: Any, *, epsilon: float, k: int, noise: float = 1.0) -> laws.Law:
            return _average(float(np.sum(bits)), noise * scale(k) / epsilon, k)

        return law

    def single(
        scale: Callable[[int], float], kind: Callable[[float, float], laws.Law] = laws.laplace
    ) -> Callable[..., laws.Law]:
        def law(bits: Any, *, epsilon: float, k: int, noise: float = 1.0) -> laws.Law:
            return kind(float(np.sum(bits)), noise * scale(k) / epsilon)

        return law

    checks.law(
        answer,
        name="averaged_count",
        law=average(lambda k: k),
        also=[single(lambda k: 1)],
        settings=[
            {"bits": np.array([1, 1, 0, 1]), "epsilon": 3.5, "k": 20},
            {"bits": np.array([1, 0, 1]), "epsilon": 3.5, "k": 20},
            {"bits": np.ones(30, dtype=int), "epsilon": 0.7, "k": 4},
            {"bits": np.array([0, 1]), "epsilon": 1.0, "k": 2},
        ],
        neighbours=[(0, 1)],
        wrong=[
            Mistake(
                average(lambda k: 1),
                "this is the report's own mistake: each answer alone is epsilon-DP, and all k together are not.",
            ),
            Mistake(
                average(math.sqrt),
                "the average has the variance of one answer, but not its shape: k noises of scale b cost k/b.",
            ),
            Mistake(
                average(lambda k: 1 / k),
                "the scale is divided by k where it must be multiplied: k answers need more noise each.",
            ),
            Mistake(lambda bits, **_: laws.certain(float(np.sum(bits))), "there is no noise at all in the average."),
            Mistake(
                single(lambda k: k),
                "the noise is for k answers but is drawn once, and nothing averages out. A single one may be smaller.",
            ),
            Mistake(average(lambda k: k**2), "k is used twice: k answers of scale b cost k/b together."),
            Mistake(
                single(lambda k: math.sqrt(2), laws.normal),
                "this is Gaussian noise. At every size it needs some delta, and here delta = 0.",
            ),
        ],
    )


def check_answer_all(answer: Any) -> None:
    """Noisy answers to k counts, (epsilon, delta)-DP together, by Gaussian noise of the smallest size."""
    needed, classic = mechanisms.gaussian_sigma, mechanisms.gaussian_sigma_classic_formula

    def noisy(
        size: Callable[[int, float, float], float], kind: Callable[[float, float], laws.Law] = laws.normal
    ) -> Callable[..., list[laws.Law]]:
        def law(counts: Any, *, epsilon: float, delta: float, noise: float = 1.0) -> list[laws.Law]:
            deviation = noise * size(len(counts), epsilon, delta)
            return laws.each(counts, lambda count: kind(count, deviation))

        return law

    def right(k: int, e: float, d: float) -> float:
        return math.sqrt(k) * needed(epsilon=e, delta=d)

    checks.law(
        answer,
        name="answer_all",
        law=noisy(right),
        runs=500,
        settings=[
            {"counts": np.full(16, 3.0), "epsilon": 1.0, "delta": 1e-5},
            {"counts": np.full(16, 2.0), "epsilon": 1.0, "delta": 1e-5},
            {"counts": np.array([500.0, 0.0, 1000.0]), "epsilon": 0.5, "delta": 1e-6},
            {"counts": np.array([7.0, 3.0]), "epsilon": 8.0, "delta": 0.05},
        ],
        neighbours=[(0, 1)],
        wrong=[
            Mistake(
                noisy(lambda k, e, d: needed(epsilon=e, delta=d)),
                "that is the noise of a single release: the promise holds for each answer, not for all k.",
            ),
            Mistake(
                noisy(lambda k, e, d: k * needed(epsilon=e, delta=d)),
                "it is multiplied by k. The square root of k is enough.",
            ),
            Mistake(
                noisy(lambda k, e, d: needed(epsilon=e / k, delta=d / k)),
                "the budget is split by adding up: private, but wasteful.",
            ),
            Mistake(
                noisy(lambda k, e, d: needed(epsilon=e / k, delta=d)),
                "ε is divided by k. Gaussian noise composes better than that.",
            ),
            Mistake(
                noisy(lambda k, e, d: needed(epsilon=e / math.sqrt(k), delta=d)),
                "that is σ for ε/√k. δ does not scale with it: multiply σ itself.",
            ),
            Mistake(
                noisy(lambda k, e, d: math.sqrt(k) * classic(epsilon=e, delta=d)),
                "that is √k times the classic formula, which asks for more than needed.",
            ),
            Mistake(noisy(lambda k, e, d: right(k, e, d / k)), "δ is divided by k. No split of δ is needed."),
            Mistake(noisy(lambda k, e, d: right(k, e, d) / k), "it is divided by √k where it must be multiplied."),
            Mistake(
                noisy(lambda k, e, d: right(k, e, d) / math.sqrt(2), laws.laplace),
                "this is Laplace noise; asked is Gaussian noise, which needs less of it for many counts.",
            ),
            Mistake(lambda counts, **_: [laws.certain(count) for count in counts], "there is no noise at all."),
        ],
    )
