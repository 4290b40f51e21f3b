r"""Checks of the exercises of chapter 02, Composition; items 7 and 8 are in `composition_mechanisms`.

Randomized response is the worst mechanism for a given epsilon. With X of its k answers true, the total loss is
(2X - k) epsilon, and k mechanisms that are epsilon-DP are together (epsilon', delta')-DP for

.. math::

    \delta' = E\bigl[1 - e^{\varepsilon' - (2X - k)\varepsilon}\bigr]_+, \qquad
    X \sim \mathrm{Binomial}\bigl(k, e^\varepsilon/(1 + e^\varepsilon)\bigr) .
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr

from dpml import mechanisms
from dpml.accounting import composition
from dpml.classroom import checks, verdict
from dpml.lessons._mechanisms import both

# ---- Checks of the exercises of chapter 02, Composition; items 7 and 8 are in `composition_mechanisms` ----

# Randomized response is the worst mechanism for a given epsilon. With X of its k answers true, the total loss is
# (2X - k) epsilon, and k mechanisms that are epsilon-DP are together (epsilon', delta')-DP for
#
# .. math::
#
#     \delta' = E\bigl[1 - e^{\varepsilon' - (2X - k)\varepsilon}\bigr]_+, \qquad
#     X \sim \mathrm{Binomial}\bigl(k, e^\varepsilon/(1 + e^\varepsilon)\bigr) .

Mistake = checks.Mistake


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
    pairs = [(0.1, 1e-5), (0.5, 1e-5), (0.7, 1e-5), (0.2, 1e-9), (0.05, 1e-3), (1.0, 1e-6)]

    def reference(*, epsilon: float, delta_prime: float) -> int | None:
        return composition.advanced_first_k(epsilon=epsilon, delta_prime=delta_prime)

    def helps(epsilon: float) -> bool:
        return math.expm1(epsilon) < 1

    checks.function(
        answer,
        name="first_k",
        reference=reference,
        inputs=[{"epsilon": epsilon, "delta_prime": slack} for epsilon, slack in pairs],
        mistakes=[
            Mistake(
                lambda *, epsilon, delta_prime: _first(1.0, delta_prime) if helps(epsilon) else None,
                "only the first term of the bound is compared with k epsilon. The second one, with e^epsilon - 1, is "
                "lost.",
            ),
            Mistake(
                lambda *, epsilon, delta_prime: _first(1.0, delta_prime),
                "only the first term of the bound is compared with k epsilon. The second one, with e^epsilon - 1, is "
                "lost.",
            ),
            Mistake(
                lambda *, epsilon, delta_prime: _first(2 - math.exp(epsilon), delta_prime),
                "squaring lost the sign: beyond ln 2 the number 2 - e^epsilon is negative, and no k solves the "
                "inequality.",
            ),
            Mistake(
                lambda *, epsilon, delta_prime: (
                    _first(2 - math.exp(epsilon), delta_prime) - 1 if helps(epsilon) else None
                ),
                "at this k the bound is still above k epsilon: it must be strictly below.",
            ),
            Mistake(
                lambda *, epsilon, delta_prime: _first(1 - math.tanh(epsilon / 2), delta_prime),
                "this is for the form with tanh(epsilon/2). Asked is the printed one.",
            ),
            Mistake(
                lambda *, epsilon, delta_prime: (
                    math.floor(-math.log(delta_prime) / (2 - math.exp(epsilon)) ** 2) + 1 if helps(epsilon) else None
                ),
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
        must_mention={
            "which of the two terms decides": ["second", "drift", "k eps", "k * eps", "k·", "kε", "k ε", "last term"],
            "what becomes of e^epsilon - 1 there": ["e^", "exp", "ln 2", "ln(2)", "ln2", "log 2", "log(2)"],
            "the sign of the other term": ["first", "positive", "above 0", "above zero", "more than 0", "square root"],
        },
        rubric=[
            "For epsilon >= ln 2, e^epsilon is at least 2, so e^epsilon - 1 is at least 1.",
            "Hence the second term, k epsilon (e^epsilon - 1), is at least k epsilon, which is basic composition.",
            "The first term is positive for every delta' below 1, so the sum is larger than k epsilon, for every k.",
        ],
    )


def _coins(epsilon: float, k: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The loss for each number of true answers of k coins, and its probability under D."""
    x = np.arange(k + 1, dtype=np.float64)
    t = mechanisms.randomized_response_truth_probability(epsilon=epsilon)
    log_ways = gammaln(k + 1.0) - gammaln(x + 1.0) - gammaln(k - x + 1.0)
    chance: NDArray[np.float64] = np.exp(log_ways + x * math.log(t) + (k - x) * math.log1p(-t))
    return (2.0 * x - k) * epsilon, chance


def check_coin_delta(answer: Any) -> None:
    """The exact delta of k randomized responses at a total epsilon."""
    triples = [(0.1, 100, 1.0), (1.0, 1, 0.5), (0.5, 3, 1.0), (0.3, 20, 0.0), (0.1, 100, 10.0), (2.0, 5, 3.0)]

    def reference(*, epsilon: float, k: int, total_epsilon: float) -> float:
        return composition.optimal_delta(epsilon=epsilon, delta=0.0, k=k, total_epsilon=total_epsilon)

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

    def not_cut(*, epsilon: float, k: int, total_epsilon: float) -> float:
        return -math.expm1(total_epsilon)

    checks.function(
        answer,
        name="coin_delta",
        reference=reference,
        inputs=[{"epsilon": e, "k": k, "total_epsilon": total} for e, k, total in triples],
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
            Mistake(
                not_cut,
                "negative terms are added up as well. Where P is below e^total P', the term is zero.",
            ),
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
            ),
        ],
        hint="At your value coin_delta must return 1e-05.",
    )


def check_how_many(answer: Any) -> None:
    """How many Gaussian releases with noise multiplier sigma fit into (epsilon, delta)."""
    triples = [(50.0, 1.0, 1e-5), (10.0, 1.0, 1e-5), (3.0, 1.0, 1e-5), (100.0, 0.5, 1e-6), (40.0, 2.0, 1e-5)]

    def needed(epsilon: float, delta: float) -> float:
        return mechanisms.gaussian_sigma(epsilon=epsilon, delta=delta)

    def reference(*, sigma: float, epsilon: float, delta: float) -> int:
        return math.floor((sigma / needed(epsilon, delta)) ** 2)

    def classic(*, sigma: float, epsilon: float, delta: float) -> int:
        return math.floor((sigma / mechanisms.gaussian_sigma_classic_formula(epsilon=epsilon, delta=delta)) ** 2)

    checks.function(
        answer,
        name="how_many",
        reference=reference,
        inputs=[{"sigma": sigma, "epsilon": epsilon, "delta": delta} for sigma, epsilon, delta in triples],
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
            Mistake(classic, "the classic formula for sigma is used. It asks for more noise than needed."),
        ],
        hint="With k releases of noise sigma the whole is one release of noise sigma over the square root of k.",
    )


# ---- Checks of items 7 and 8 of chapter 02: mechanisms that answer k times ----

# k answers with Laplace noise of scale b to one count are together k/b-DP. k answers with Gaussian noise of standard
# deviation sigma to counts of sensitivity 1 are as private as one with
#
# .. math::
#
#     \sigma / \sqrt k .

_SEED = 20_250_117


def check_averaged_count(answer: Any) -> None:
    """The average of k noisy counts, epsilon-DP as a whole under add/remove.

    At epsilon = 3.5 and k = 20 the wrong scale sqrt(k)/epsilon, whose average has the right variance, is found: that
    average is nearly normal, and a normal distribution of this variance needs a delta of about 0.3 at this epsilon.
    """
    name, epsilon, k = "averaged_count", 3.5, 20
    _require_call(answer, name=name, positional="bits", named={"epsilon": epsilon, "k": k, "rng": None})

    def average(bits: Any, rng: np.random.Generator, *, scale: float, draws: int = k) -> float:
        return float(np.mean(np.sum(bits) + rng.laplace(scale=scale, size=draws)))

    checks.mechanism(
        _bound(answer, epsilon=epsilon, k=k),
        name=name,
        reference=functools.partial(average, scale=k / epsilon),
        neighbours=[(np.array([1, 1, 0, 1]), np.array([1, 0, 1]))],
        epsilon=epsilon,
        trials=20_000,
        slack=2.0,
        mistakes=[
            Mistake(
                functools.partial(average, scale=1 / epsilon),
                "this is the report's own mistake: each answer alone is epsilon-DP, and all k together are not.",
            ),
            Mistake(
                functools.partial(average, scale=math.sqrt(k) / epsilon),
                "the average has the variance of one answer, but not its shape: k noises of scale b cost k/b.",
            ),
            Mistake(
                functools.partial(average, scale=1 / (k * epsilon)),
                "the scale is divided by k where it must be multiplied: k answers need more noise each.",
            ),
            Mistake(
                lambda bits, rng: float(np.sum(bits)),
                "there is no noise at all in the average.",
            ),
            Mistake(
                functools.partial(average, scale=k / epsilon, draws=1),
                "the noise is for k answers but is drawn only once, so nothing averages out. One noise may be smaller.",
            ),
            Mistake(
                functools.partial(average, scale=k**2 / epsilon),
                "k is used twice: k answers of scale b cost k/b together.",
            ),
        ],
    )


def check_answer_all(answer: Any) -> None:
    """Noisy answers to k counts, (epsilon, delta)-DP together, by Gaussian noise of the smallest size."""
    name, epsilon, delta, k = "answer_all", 1.0, 1e-5, 16
    _require_call(answer, name=name, positional="counts", named={"epsilon": epsilon, "delta": delta, "rng": None})
    _require_answers(answer, epsilon=epsilon, delta=delta, k=k, name=name)
    sigma = mechanisms.gaussian_sigma(epsilon=epsilon, delta=delta)

    @functools.wraps(answer)
    def mean_answer(counts: Any, rng: np.random.Generator) -> float:
        # The mean of k answers is what tells most about someone who is counted in all of them.
        return float(np.mean(answer(counts, epsilon=epsilon, delta=delta, rng=rng)))

    exactness = functools.partial(
        checks.properties,
        answer,
        name=name,
        cases=[("each answer is its count plus Gaussian noise of its own, as little as suffices", _noises)],
    )
    privacy = functools.partial(
        checks.mechanism,
        mean_answer,
        name=name,
        reference=lambda counts, rng: float(np.mean(counts) + rng.normal(scale=sigma)),
        neighbours=[(np.full(k, 3.0), np.full(k, 2.0))],
        epsilon=epsilon,
        delta=delta,
        trials=4000,
    )
    both(exactness, privacy)


def _require_call(answer: Any, *, name: str, positional: str, named: dict[str, Any]) -> None:
    verdict.require_function(answer, name=name)
    if verdict.unfit(answer, (None,), named):
        given = ", ".join(list(named)[:-1]) + f" and {list(named)[-1]}"
        raise verdict.NotYet(
            f"Your {name} is called with {positional}, and with {given} by name: keep the parameter names."
        )


def _bound(answer: Any, **fixed: Any) -> Any:
    @functools.wraps(answer)
    def run(dataset: Any, rng: np.random.Generator) -> Any:
        return answer(dataset, **fixed, rng=rng)

    return run


def _require_answers(answer: Any, *, epsilon: float, delta: float, k: int, name: str) -> None:
    """One call must give k finite numbers in an array."""
    counts = np.arange(k, dtype=float)
    try:
        came = answer(counts, epsilon=epsilon, delta=delta, rng=np.random.default_rng(_SEED))
    except Exception as error:  # whatever student code raises becomes one sentence
        verdict.refuse_unwritten(error, answer, name=name)
        raise verdict.NotYet(f"{name} raised {verdict.explained(error)} for {k} counts.") from None
    if came is Ellipsis:
        verdict.not_written(name)
    if came is None:
        raise verdict.NotYet(f"{name} returned None for {k} counts: is a return missing?")
    try:
        values = np.asarray(came, dtype=float)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != (k,) or not np.isfinite(values).all():
        raise verdict.NotYet(f"{name} must return {k} numbers for {k} counts; it returned {verdict.shown(came)}.")
    if not np.array_equal(counts, np.arange(k)):
        raise verdict.NotYet(f"{name} changes the counts that it is given: work on a copy.")


def _noises(f: Any) -> bool | str:
    """Size, shape and independence of the noise for two numbers of counts.

    With 32,000 noises each, the limits lie six standard deviations or more from what a right answer gives, except for
    the shape (Kolmogorov-Smirnov), where it is refused with probability below 1e-7.
    """
    for k, epsilon, delta in ((16, 1.0, 1e-5), (64, 0.5, 1e-6)):
        runs = 32_000 // k
        rng = np.random.default_rng(_SEED)
        counts = np.linspace(0.0, 1000.0, k)
        came = np.array([np.asarray(f(counts.copy(), epsilon=epsilon, delta=delta, rng=rng)) for _ in range(runs)])
        noise = (came - counts).astype(float)
        finding = _finding(noise, epsilon=epsilon, delta=delta)
        if finding:
            return f"for {k} counts at ε = {epsilon:g}, δ = {delta:g}, {finding}"
    return True


def _finding(noise: NDArray[np.float64], *, epsilon: float, delta: float) -> str:
    k = noise.shape[1]
    one = mechanisms.gaussian_sigma(epsilon=epsilon, delta=delta)
    right = math.sqrt(k) * one
    size = math.sqrt(float(np.mean(noise**2)))
    if size < 1e-9:
        return "there is no noise at all."
    if float(noise.mean(axis=1).var()) * k / size**2 > 2:
        return "the noises of the answers move together. Draw one for each: else differences of answers are exact."
    if abs(float(noise.mean())) > 8 * size / math.sqrt(noise.size):
        return "the answers are not centred at the counts."
    if abs(size / right - 1) > 0.025:
        return f"the noise has {size / right:.2g} times the size that is needed{_why(size, k, epsilon, delta)}"
    steps = np.arange(1, noise.size + 1) / noise.size
    distance = float(np.abs(ndtr(np.sort(noise, axis=None) / right) - steps).max())
    if distance > 0.02:
        return "the noise has the right size, but it is not Gaussian."
    return ""


def _why(size: float, k: int, epsilon: float, delta: float) -> str:
    """What a wrong size of the noise comes from, to follow the finding."""
    needed = mechanisms.gaussian_sigma
    classic = mechanisms.gaussian_sigma_classic_formula(epsilon=epsilon, delta=delta)
    root, one = math.sqrt(k), needed(epsilon=epsilon, delta=delta)
    known = [
        (one, "that is the noise of a single release: the promise holds for each answer, not for all k."),
        (k * one, "it is multiplied by k. The square root of k is enough."),
        (needed(epsilon=epsilon / k, delta=delta / k), "the budget is split by adding up: private, but wasteful."),
        (needed(epsilon=epsilon / k, delta=delta), "ε is divided by k. Gaussian noise composes better than that."),
        (
            needed(epsilon=epsilon / root, delta=delta),
            "that is σ for ε/√k. δ does not scale with it: multiply σ itself.",
        ),
        (root * classic, "that is √k times the classic formula, which asks for more than needed."),
        (root * needed(epsilon=epsilon, delta=delta / k), "δ is divided by k. No split of δ is needed."),
        (one / root, "it is divided by √k where it must be multiplied."),
    ]
    near = min(known, key=lambda pair: abs(math.log(max(size, 1e-300) / pair[0])))
    return f": {near[1]}" if abs(size / near[0] - 1) < 0.025 else "."
