r"""Privacy-loss distributions: the tight epsilon, from both sides, with every numerical error counted.

The privacy loss of a composition is a sum of independent losses; its law gives epsilon at any delta. Three steps, each
with a bound on what it changes, lead from the laws to two numbers between which the truth lies:

1. Losses move to a lattice in two ways, one that can only lose privacy (connect the dots) and one that can only gain
   it (tangents of the same convex function). Both errors are of second order in the step.
2. The lattice laws are tilted by $e^{\lambda \ell}$, with $\lambda$ near the minimum of the Chernoff bound, and
   convolved by FFT. After the tilt the part that decides delta is of order one, at delta = 1e-5 and at delta = 1e-100
   alike, so the rounding of the FFT does not matter; its bound, that of the wrap-around and that of the truncated
   tails are added to the upper end and subtracted from the lower.
3. Epsilon is found by a search that returns only values at which delta was evaluated.

This is the engine `lattice`. For Poisson-sampled Gaussian steps a contour integral, the engine `contour`, is tried
first. It gives the same delta from both sides, to a relative 1e-7 and in a few milliseconds, wherever its proved bounds
are small enough; that is not the case where a record is drawn once or never, by and large, where the lattice answers:
there the law of sums with a rare loss in them is formed by itself, so that not even a delta of 1e-12 is rounded away.

What is assumed: u = 2^-53 arithmetic, and u = 2^-64 where `lattice` finds and needs it; logarithms, exponentials and
normal distribution functions of NumPy and SciPy as accurate as the tests find them (1e-12 relative for the masses,
where at most 4e-13 is measured).

The functions here are about DP-SGD. One step adds N(0, sigma^2) to a sum of sensitivity 1 over a Poisson sample. For
add/remove neighbours its worst pair is

.. math::

    P = (1 - q)\,N(0, \sigma^2) + q\,N(1, \sigma^2), \qquad Q = N(0, \sigma^2),

P against Q when the record is removed, Q against P when it is added; the steps compose as products. Epsilon is the
larger of the two directions. (Removing was worse in every case that we computed; both are computed all the same.)

Closed forms where they exist:

- q = 0 or no steps: 0. And 0 wherever delta >= 1 - (1 - q)^steps, the chance that the record is drawn at all.
- q = 1: one Gaussian mechanism with sigma / sqrt(steps).
- One step: $\delta(\varepsilon) = q\,\delta_\sigma(\varepsilon_0)$ with
  $\varepsilon_0 = \log(1 + (e^\varepsilon - 1)/q)$ and the Gaussian profile $\delta_\sigma$; removing is the worse
  direction. (Adding gives
  $(1 - (1-q) e^\varepsilon)_+\,\delta_\sigma(\varepsilon_1)$ with $e^{-\varepsilon_1} = 1 + (e^{-\varepsilon} - 1)/q$;
  the factor is at most q and $\varepsilon_1 \ge \varepsilon_0$.)

Calibration. Epsilon falls as sigma grows (more noise is a post-processing). The sigma returned was evaluated: a
rigorous upper bound on its epsilon is at most the target.

`dpml.accounting.pld.fixed_size` does the same for samples of fixed size, `dpml.accounting.pld.losses` composes any
mixture of Gaussian, Laplace and randomized-response mechanisms, sampled or not.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments, mechanisms
from dpml.accounting.guarantee import Bounds, Guarantee
from dpml.accounting.pld import calibration, pairs
from dpml.accounting.pld.contour.ends import both_directions, delta_both_directions, ends_on_lines
from dpml.accounting.pld.lattice import bracket
from dpml.accounting.pld.limits import (
    INTERVAL,
    LARGEST_SIGMA,
    ROUNDING,
    TOLERANCE,
    agree,
    checked_run,
    coarse,
    losses_of,
)
from dpml.accounting.subsampled_gaussian import after_each, chance_drawn, known_epsilon

__all__ = ["DeltaBounds", "delta_bounds", "epsilon", "epsilon_bounds", "epsilon_curve", "noise_multiplier"]

LEAST_SIGMA = 0.04
TOO_MANY = 2 * 10**6  # steps, for which the rounding of a lattice tells less than a contour


class DeltaBounds(NamedTuple):
    """A true delta known to lie in [lower, upper] at this epsilon, for add/remove neighbours. Quote `upper`.

    Source: definition; Dwork and Roth, "The algorithmic foundations of differential privacy", Definition 2.4.
    """

    lower: float
    upper: float
    epsilon: float


def epsilon_bounds(*, q: float, sigma: float, steps: int, delta: float) -> Bounds:
    """Return the tight epsilon from both sides, for add/remove neighbours and Poisson sampling.

    The upper end is the one that `epsilon` returns. The ends are at most 1e-4 max(1, epsilon / 100) apart in the
    settings of training runs, 3e-3 epsilon where epsilon is below 1/30, and 3e-6 where it is below 1e-3. Where rare
    records (q below 1e-4 or so) go through many steps they may be four times as far apart, and a hundred times beyond
    two million steps or on a processor without extended precision: q = 1e-6, sigma = 0.7, 1e7 steps, delta = 1e-12
    gives [0.0661, 0.0756]. They may be wider where delta is below 1e-50 or so. Both hold all the same. The upper end is
    infinite only where that is true: delta = 0, or sigma = 0 with delta < 1 - (1 - q)^steps.

    Raises:
        ValueError: if q is not in [0, 1], sigma not in [0, inf), steps not an integer in [0, 1e9] or delta neither 0
            nor in [1e-250, 1]; and, where no closed form holds, if q is not in [1e-12, 1) or sigma not in
            [0.04, 1e6], or so small that the tail of the loss is beyond the range of floats.

    Source: Zhu, Dong and Wang, "Optimal accounting of differential privacy via characteristic function", AISTATS
    2022, Theorems 10 and 11; Doroshenko et al., "Connect the dots", PoPETs 2022; own lower end and error bounds.
    """
    q, sigma, steps, delta = _arguments(q, sigma, steps, delta)
    exact = _closed_form(q, sigma, steps, delta)
    if exact is not None:
        lower = 0.0 if math.isinf(exact) else exact * (1.0 - 3.0 * ROUNDING)
        return Bounds(lower, upper=exact, delta=delta, adjacency="add/remove", sampling="Poisson")
    lower, upper = _ends(q, sigma, steps, delta)
    if not agree(lower, upper, INTERVAL) and (steps < TOO_MANY or lower == 0.0):
        with losses_of(sigma):
            removed = [(_removed(q, sigma), steps)]
            lower = max(lower, bracket.epsilon_interval(removed, delta, INTERVAL, known=upper)[0])
    return Bounds(min(lower, upper), upper=upper, delta=delta, adjacency="add/remove", sampling="Poisson")


def epsilon(*, q: float, sigma: float, steps: int, delta: float) -> Guarantee:
    """Return a tight upper bound on epsilon, above the truth by at most about 1e-5 max(1, epsilon / 100).

    By more where `epsilon_bounds`, whose upper end it is, says so. For add/remove neighbours and Poisson sampling. The
    kind is "exact" where a closed form holds.

    Raises:
        ValueError: as `epsilon_bounds`.

    Source: as `epsilon_bounds`.
    """
    q, sigma, steps, delta = _arguments(q, sigma, steps, delta)
    exact = _closed_form(q, sigma, steps, delta)
    kind = "upper bound" if exact is None else "exact"
    value = _ends(q, sigma, steps, delta)[1] if exact is None else exact
    return Guarantee(value, delta=delta, kind=kind, adjacency="add/remove", sampling="Poisson")


@np.errstate(under="ignore")
def delta_bounds(*, q: float, sigma: float, steps: int, epsilon: float) -> DeltaBounds:
    """Return the tight delta at epsilon from both sides, for add/remove neighbours and Poisson sampling.

    The ends are at most 1e-3 delta apart in the settings of training runs. For rare records (q below 1e-3 or so) they
    may be far apart: q = 7.1e-7, sigma = 1.8, 47,760 steps, epsilon = 0.00117 gives [7e-43, 5.5e-13]. Both hold all
    the same.

    Raises:
        ValueError: if epsilon is not in [0, 1e6]; otherwise as `epsilon_bounds`.

    Source: as `epsilon_bounds`.
    """
    q, sigma, steps, _ = _arguments(q, sigma, steps, 1.0)
    epsilon = arguments.real("epsilon", epsilon, 0.0, 1e6)
    reached, least = chance_drawn(q, steps), math.ulp(0.0)  # a true delta is above 0
    if reached == 0.0 or sigma == 0.0:
        return DeltaBounds(reached * (1.0 - ROUNDING), reached, epsilon)
    if q == 1.0 or steps == 1:
        exact = q * mechanisms.gaussian_delta(sigma=sigma / math.sqrt(steps), epsilon=pairs.base_epsilon(epsilon, q))
        spare = 1e-11 * (1.0 + epsilon * epsilon * sigma * sigma)  # rounding of epsilon in the exponent
        return DeltaBounds(exact * max(0.0, 1.0 - spare), min(exact * (1.0 + spare) + least, reached), epsilon)
    _supported(q, sigma)
    quick = delta_both_directions(q, sigma, steps, epsilon)
    ends = [quick] if quick else []
    if not ends:
        with losses_of(sigma):
            removed = _removed(q, sigma)
            both = removed, pairs.exchanged(removed)
            ends = [bracket.delta_interval([(pair, steps)], epsilon, 1e-5) for pair in both]
    upper = min(max(end[1] for end in ends), reached)
    return DeltaBounds(min(max(end[0] for end in ends), upper), upper, epsilon)


def epsilon_curve(*, q: float, sigma: float, steps: ArrayLike, delta: float) -> NDArray[np.float64]:
    """Return upper bounds on epsilon after each number of steps in the array `steps`, in its shape.

    Above the truth by at most about 1e-4 max(1, epsilon / 100), and by up to 0.01 for rare records as in
    `epsilon_bounds`. It never falls. Numbers of steps that are close share the nodes of an integral or a lattice, so
    that a thousand points take some ten milliseconds in ordinary settings, and some seconds for rare records; up to
    half a minute where q is near 1e-6 and delta near 1e-12. For add/remove neighbours and Poisson sampling.

    Raises:
        ValueError: if steps is not an array of whole numbers in [0, 1e9]; otherwise as `epsilon_bounds`.

    Source: as `epsilon_bounds`.
    """
    q, sigma, _, delta = _arguments(q, sigma, 0, delta)

    def others(counts: list[int]) -> dict[int, float]:
        _supported(q, sigma)
        found = ends_on_lines(q, sigma, counts, delta, INTERVAL)
        left = [count for count in counts if count not in found]
        with losses_of(sigma):
            return found | (bracket.ends_on_lattices(_removed(q, sigma), left, delta, INTERVAL) if left else {})

    return after_each(steps, lambda count: _closed_form(q, sigma, count, delta), others)


def noise_multiplier(*, q: float, steps: int, epsilon: float, delta: float) -> float:
    """Return a sigma for which `steps` steps with Poisson sampling are (epsilon, delta)-private, add/remove.

    Its epsilon, as `dpml.accounting.pld.epsilon` computes it, is at most the target, and within 1e-4 min(1, epsilon)
    of it (1e-7 below epsilon = 1e-3). 0.0 where no noise is needed: delta >= 1 - (1 - q)^steps.

    Raises:
        ValueError: if q is not in [0, 1], steps not an integer in [0, 1e9], epsilon not in [1e-6, 1e4] or delta not in
            [1e-250, 1]; and, where no closed form holds, if q is below 1e-12, or if so little or so much noise would do
            that sigma leaves [0.04, 1e6], or the tail of the loss the range of floats.

    Source: definition; the epsilon is that of Zhu, Dong and Wang, "Optimal accounting of differential privacy via
    characteristic function", AISTATS 2022, Theorems 10 and 11; at q = 1 the exact Gaussian of Balle and Wang,
    "Improving the Gaussian mechanism for differential privacy", ICML 2018, Theorem 8.
    """
    q, steps, epsilon, delta = calibration.checked(q, steps, epsilon, delta)
    if chance_drawn(q, steps) <= delta:
        return 0.0

    def spent(sigma: float) -> float:
        exact = _closed_form(q, sigma, steps, delta)
        return _ends(q, sigma, steps, delta)[1] if exact is None else exact

    def quick(sigma: float) -> float:
        return bracket.epsilon_upper([(_removed(q, sigma), steps)], delta, coarse(epsilon))

    if q == 1.0 or steps == 1:
        return calibration.rounded_up(calibration.exact_sigma(q, steps, epsilon, delta), spent, epsilon)
    arguments.real("q", q, 1e-12, 1.0)
    near = calibration.central_limit(q, steps, epsilon, delta)
    rare = q < 1e-4 and q * steps < -0.4 * math.log(delta)  # then a coarse lattice answers sooner than a contour
    return calibration.least_sigma(spent, quick if rare else None, epsilon, LEAST_SIGMA, near)


def _ends(q: float, sigma: float, steps: int, delta: float) -> tuple[float, float]:
    """A lower end, which may be 0, and the one upper end where no closed form holds; arguments not checked.

    A record is in all steps with probability $e^{-s}$, so that P is at least $e^{-s}$ times what it is at q = 1:
    epsilon is at most that of q = 1 at delta, and at least the one at $e^s$ delta, less s.
    """
    _supported(q, sigma)
    s = -steps * math.log(q)
    if s < 1e-6:
        deltas = min(1.0, delta * math.exp(s)), delta
        lower, upper = (calibration.exact_epsilon(1.0, sigma, steps, d) or 0.0 for d in deltas)
        return max(0.0, lower * (1.0 - 2.0 * ROUNDING) - s), upper
    lower, upper = both_directions(q, sigma, steps, delta, TOLERANCE)
    if not agree(lower, upper, INTERVAL) and (steps < TOO_MANY or math.isinf(upper)):
        with losses_of(sigma):
            upper = bracket.upper_of_both(_removed(q, sigma), steps, delta, below=upper)
    return lower, upper


def _arguments(q: float, sigma: float, steps: int, delta: float) -> tuple[float, float, int, float]:
    q, steps, delta = checked_run(q, steps, delta)
    return q, arguments.real("sigma", sigma, 0.0), steps, delta


def _supported(q: float, sigma: float) -> None:
    arguments.real("q", q, 1e-12, 1.0, high_open=True)
    arguments.real("sigma", sigma, LEAST_SIGMA, LARGEST_SIGMA)


def _removed(q: float, sigma: float) -> pairs.Pair:
    return pairs.poisson(pairs.gaussian(1.0 / sigma), q)


def _closed_form(q: float, sigma: float, steps: int, delta: float) -> float | None:
    known = known_epsilon(q, sigma, steps, delta)
    return calibration.exact_epsilon(q, sigma, steps, delta) if known is None else known
