r"""The least noise for a target (epsilon, delta): always on the safe side, and close to the least possible.

.. math::

    \sigma^* = \inf\{\sigma : \varepsilon(q, \sigma, \text{steps}, \delta) \le \varepsilon_{\text{target}}\}

Epsilon falls as sigma grows (more noise is a post-processing). The sigma returned was evaluated: a rigorous upper
bound on its epsilon is at most the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpml import arguments, mechanisms
from dpml.accounting.pld.compose import smallest_delta
from dpml.accounting.pld.fixed_size import LEAST_SIGMA, _fixed_size_upper_end, fixed_size_epsilon_bounds
from dpml.accounting.pld.sampled_gaussian import TOLERANCE, _upper_end
from dpml.accounting.pld.sampled_gaussian import epsilon as tight_epsilon

LARGEST_SIGMA = 1e6

__all__ = ["fixed_size_noise_multiplier", "noise_multiplier"]


def noise_multiplier(*, q: float, steps: int, epsilon: float, delta: float) -> float:
    """Return a sigma for which `steps` steps with Poisson sampling are (epsilon, delta)-private, add/remove.

    Its epsilon, as `dpml.accounting.pld.epsilon` computes it, is at most the target, and within 1e-4 min(1, epsilon)
    of it (1e-7 below epsilon = 1e-3). 0.0 where no noise is needed: delta >= 1 - (1 - q)^steps.

    Raises:
        ValueError: if q is not in [0, 1], steps not an integer in [0, 1e9], epsilon not in [1e-6, 1e4] or delta not in
            [1e-250, 1]; or if so little or so much noise would do that sigma leaves [0.04, 1e6], or the tail of the
            loss the range of floats.

    Source: definition; the epsilon is that of Zhu, Dong and Wang, "Optimal accounting of differential privacy via
    characteristic function", AISTATS 2022, Theorems 10 and 11; at q = 1 the exact Gaussian of Balle and Wang,
    "Improving the Gaussian mechanism for differential privacy", ICML 2018, Theorem 8.
    """
    q, steps, epsilon, delta = _arguments(q, steps, epsilon, delta)
    if tight_epsilon(q=q, sigma=0.0, steps=steps, delta=delta).epsilon == 0.0:
        return 0.0
    if q == 1.0 or steps == 1:
        sigma = _closed_form(q, steps, epsilon, delta)
        while tight_epsilon(q=q, sigma=sigma, steps=steps, delta=delta).epsilon > epsilon:
            sigma *= 1.0 + 1e-12
        return sigma
    arguments.real("q", q, 1e-12)
    near = _central_limit(q, steps, epsilon, delta)
    return _least(lambda sigma: _upper_end(q, sigma, steps, delta, TOLERANCE), epsilon, 0.04, near)


def fixed_size_noise_multiplier(*, q: float, steps: int, epsilon: float, delta: float) -> float:
    """Return a sigma for which `steps` steps with samples of fixed size are (epsilon, delta)-private, replace-one.

    `q` is the fraction m/n that is drawn and sigma the standard deviation over the clipping norm. The upper end of
    `dpml.accounting.pld.fixed_size_epsilon_bounds` is at most the target, and within 2e-4 min(1, epsilon) of it. 0.0
    where no noise is needed: delta >= 1 - (1 - q)^steps.

    Raises:
        ValueError: if q is not in [0, 1], steps not an integer in [0, 1e9], epsilon not in [1e-6, 1e4] or delta not in
            [1e-250, 1]; or if so little or so much noise would do that sigma leaves [0.1, 1e6], or the tail of the
            loss the range of floats.

    Source: definition; the epsilon is that of `dpml.accounting.pld.fixed_size_epsilon_bounds`.
    """
    q, steps, epsilon, delta = _arguments(q, steps, epsilon, delta)
    if fixed_size_epsilon_bounds(q=q, sigma=0.0, steps=steps, delta=delta).upper == 0.0:
        return 0.0
    if q == 1.0 or steps == 1:
        sigma = 2.0 * _closed_form(q, steps, epsilon, delta)
        if q < 1.0 and not LEAST_SIGMA <= sigma <= LARGEST_SIGMA:
            raise _out_of_reach(sigma, epsilon, LEAST_SIGMA)
        while _fixed_size_upper_end(q, sigma, steps, delta) > epsilon:
            sigma *= 1.0 + 1e-12
        return sigma
    arguments.real("q", q, 1e-9)
    near = 2.0 * _central_limit(q, steps, epsilon, delta)
    return _least(lambda sigma: _fixed_size_upper_end(q, sigma, steps, delta), epsilon, LEAST_SIGMA, near)


def _arguments(q: float, steps: int, epsilon: float, delta: float) -> tuple[float, int, float, float]:
    q = arguments.probability("q", q)
    steps = arguments.integer("steps", steps, 0, 10**9)
    epsilon = arguments.real("epsilon", epsilon, 1e-6, 1e4)
    arguments.real("delta", delta, 0.0, 1.0, low_open=True)
    return q, steps, epsilon, smallest_delta(delta)


def _central_limit(q: float, steps: int, epsilon: float, delta: float) -> float:
    """The sigma at which many steps, were they one Gaussian mechanism, would meet the target: where to look first.

    Source: Bu, Dong, Long and Su, "Deep learning with Gaussian differential privacy", Harvard Data Science Review 2020:
    the limit has the parameter mu = q sqrt(steps (exp(1/sigma^2) - 1)).
    """
    mu = 1.0 / mechanisms.gaussian_sigma(epsilon=epsilon, delta=delta)
    return 1.0 / math.sqrt(math.log1p((mu / q) ** 2 / steps))


def _least(evaluate: Callable[[float], float], epsilon: float, smallest: float, near: float) -> float:
    """A sigma >= `smallest` whose epsilon, evaluated, is at most the target and close to it."""

    def at(sigma: float) -> tuple[float, float]:
        try:
            return sigma, evaluate(sigma)
        except ValueError as error:  # so little noise that the accountant cannot tell what it gives
            raise ValueError(f"epsilon must be smaller, got {epsilon!r}: on the way to it {error}") from error

    close = 1e-4 * min(1.0, max(epsilon, 1e-3))
    low, high = _around(at, epsilon, smallest, near)
    count = 0
    while epsilon - high[1] > close and high[0] > low[0] * (1.0 + 1e-7):
        count += 1
        # epsilon is nearly a power of sigma here; aim at the middle of the interval that is close enough
        a, b = math.log(low[1] / epsilon), math.log(max(high[1], 1e-3 * epsilon) / (epsilon - 0.5 * close))
        share = min(max(a / (a - b), 0.02), 0.98) if count % 4 else 0.5
        sigma = low[0] * (high[0] / low[0]) ** share
        found = at(sigma)
        low, high = (low, found) if found[1] <= epsilon else (found, high)
    return high[0]


def _around(
    at: Callable[[float], tuple[float, float]], epsilon: float, smallest: float, near: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Two (sigma, epsilon), too little noise and enough, found in growing steps from `near`."""
    sigma, factor = min(max(near, smallest), LARGEST_SIGMA), 1.01
    low: tuple[float, float] | None = None
    high: tuple[float, float] | None = None
    while low is None or high is None:
        found = at(sigma)
        if found[1] <= epsilon:
            high, end, following = found, smallest, max(sigma / factor, smallest)
        else:
            low, end, following = found, LARGEST_SIGMA, min(sigma * factor, LARGEST_SIGMA)
        if (low is None or high is None) and sigma == end:
            raise _out_of_reach(sigma, epsilon, smallest)
        sigma, factor = following, min(factor**3, 4.0)
    return low, high


def _out_of_reach(sigma: float, epsilon: float, smallest: float) -> ValueError:
    """The refusal of a target that too little or too much noise would meet.

    Raises:
        ValueError: never itself; it makes one.

    Source: the range of sigma that the accountants support.
    """
    side = "smaller" if sigma <= smallest else "larger"
    return ValueError(f"epsilon must be {side} for sigma to lie in [{smallest:g}, 1e6], got {epsilon!r}")


def _closed_form(q: float, steps: int, epsilon: float, delta: float) -> float:
    """One step, or steps without sampling: the profile is q times a Gaussian one at a larger epsilon."""
    base = epsilon if q == 1.0 else math.log1p(math.expm1(min(epsilon, 700.0)) / q)
    return mechanisms.gaussian_sigma(epsilon=base, delta=min(delta / q, 1.0 - 1e-16)) * math.sqrt(steps)
