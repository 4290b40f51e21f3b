"""Where a calibration looks first, and how it searches: on the safe side, close to the least noise possible."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from dpml import arguments, mechanisms, numerics
from dpml.accounting.pld import pairs
from dpml.accounting.pld.limits import LARGEST_SIGMA, ROUNDING, SMALLEST_DELTA, checked_run


def checked(q: float, steps: int, epsilon: float, delta: float) -> tuple[float, int, float, float]:
    """The arguments of a calibration, in their ranges."""
    epsilon = arguments.real("epsilon", epsilon, 1e-6, 1e4)
    arguments.real("delta", delta, SMALLEST_DELTA, 1.0)
    q, steps, delta = checked_run(q, steps, delta)
    return q, steps, epsilon, delta


def central_limit(q: float, steps: int, epsilon: float, delta: float) -> float:
    """The sigma at which many steps, were they one Gaussian mechanism, would meet the target: where to look first.

    Source: Bu, Dong, Long and Su, "Deep learning with Gaussian differential privacy", Harvard Data Science Review 2020:
    the limit has the parameter mu = q sqrt(steps (exp(1/sigma^2) - 1)).
    """
    mu = 1.0 / mechanisms.gaussian_sigma(epsilon=epsilon, delta=delta)
    return 1.0 / math.sqrt(math.log1p((mu / q) ** 2 / steps))


def exact_epsilon(q: float, sigma: float, steps: int, delta: float) -> float | None:
    """What one step, or steps without sampling, spend, rounded up; None for others."""
    if q < 1.0 and steps > 1:
        return None
    base = mechanisms.gaussian_epsilon(sigma=sigma / math.sqrt(steps), delta=delta / q)
    return float(numerics.log1p_scaled_expm1(base, q=q)) * (1.0 + ROUNDING)


def exact_sigma(q: float, steps: int, epsilon: float, delta: float) -> float:
    """One step, or steps without sampling: the profile is q times a Gaussian one at a larger epsilon."""
    base = epsilon if q == 1.0 else pairs.base_epsilon(epsilon, q)
    return mechanisms.gaussian_sigma(epsilon=base, delta=min(delta / q, 1.0 - 1e-16)) * math.sqrt(steps)


def rounded_up(sigma: float, spent: Callable[[float], float], epsilon: float) -> float:
    """`sigma`, made larger by its rounding until epsilon is met."""
    while spent(sigma) > epsilon:
        sigma *= 1.0 + 1e-12
    return sigma


def least_sigma(
    spent: Callable[[float], float],
    quick: Callable[[float], float] | None,
    epsilon: float,
    smallest: float,
    near: float,
) -> float:
    """A sigma in (smallest, 1e6] whose epsilon, `spent`, is at most the target and within 1e-4 min(1, epsilon) of it.

    Where `spent` is dear, `quick` is about the same: it finds a first sigma and, corrected by what is spent there, the
    next. Then secants; and if they do not reach the target, the search that always does.

    Raises:
        ValueError: by the name of epsilon, if there is none.
    """
    close = -math.log1p(-1e-4 * min(1.0, max(epsilon, 1e-3)) / epsilon)
    near = min(max(near, smallest), LARGEST_SIGMA)

    @functools.cache
    def excess(sigma: float) -> float:
        try:
            value = spent(sigma)
        except ValueError as error:  # so little noise that the accountant cannot tell what it gives
            raise ValueError(f"epsilon must be smaller, got {epsilon!r}: on the way to it {error}") from error
        if sigma == (smallest if value <= epsilon else LARGEST_SIGMA):
            raise out_of_reach(sigma, epsilon, smallest)
        return _log_ratio(value, epsilon)

    def search(cost: Callable[[float], float], close: float, width: float) -> float:
        return numerics.crossing(cost, low=smallest, high=LARGEST_SIGMA, guess=near, close=close, width=width * near)

    if quick is not None:
        rough = functools.cache(lambda sigma: _rough(quick, sigma, epsilon))
        near = search(rough, 1e-2, 1e-3)
        left = excess(near)
        shift = left - rough(near)
        then = search(lambda sigma: rough(sigma) + shift, close, 1e-5)
        for _ in range(4):
            if -close <= left <= 0.0:
                return near
            last, before = near, left
            near, left = then, excess(then)
            slope = (left - before) / (near - last) if near != last else 0.0
            if slope >= 0.0:
                break
            then = near - (left + 0.5 * close) / slope
            then = min(max(then, 0.95 * near, smallest), 1.05 * near, LARGEST_SIGMA)
    return search(excess, close, 1e-7)


def _rough(quick: Callable[[float], float], sigma: float, epsilon: float) -> float:
    """What is left by a quick look; who is out of reach is not for it to say."""
    if sigma == LARGEST_SIGMA:
        return -20.0
    try:
        return _log_ratio(quick(sigma), epsilon)
    except OverflowError:
        return math.inf


def _log_ratio(value: float, epsilon: float) -> float:
    """The logarithm is closer to a line than epsilon is; that of 0 is cut off."""
    return math.log(max(value / epsilon, 1e-9))


def out_of_reach(sigma: float, epsilon: float, smallest: float) -> ValueError:
    """The refusal of a target that too little or too much noise would meet."""
    side = "smaller" if sigma <= smallest else "larger"
    return ValueError(f"epsilon must be {side} for sigma to lie in [{smallest:g}, 1e6], got {epsilon!r}")
