r"""Checks of items 7 and 8 of chapter 02: mechanisms that answer k times.

k answers with Laplace noise of scale b to one count are together k/b-DP. k answers with Gaussian noise of standard
deviation sigma to counts of sensitivity 1 are as private as one with

.. math::

    \sigma / \sqrt k .
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpml import mechanisms
from dpml.classroom import checks, verdict
from dpml.exercises._mechanisms import both

__all__ = ["check_answer_all", "check_averaged_count"]

Mistake = checks.Mistake
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
