r"""Fixed-size samples without replacement, replace-one neighbours: the lecture's own setting, for Gaussian noise.

A step adds N(0, sigma^2), independent in each coordinate, to a sum of m of n vectors of norm at most 1, q = m/n.
Replacing a record changes a sum that holds it by up to 2, so the mechanism on the sample has profile
$\delta_{\sigma/2}$, and on the whole dataset

.. math::

    \delta'\bigl(\log(1 + q\,(e^{\varepsilon} - 1))\bigr) = q\,\delta_{\sigma/2}(\varepsilon), \quad \varepsilon \ge 0 .

Every profile belongs to a pair of laws, and pairs compose: so the composed profile is an **upper** bound for every such
mechanism. It need not be attained. The **lower** bound is the larger one of two real cases, of a record whose vector e
becomes -e. If all others are -e, the laws along e are, up to a shift, $(1 - q) N(0, \sigma^2) + q N(2, \sigma^2)$ and
$N(0, \sigma^2)$: those of a removed record in Poisson samples at $\sigma/2$. They attain the profile above in one step.
If all others are 0, the laws are $(1 - q) N(0, \sigma^2) + q N(\pm 1, \sigma^2)$.

With much noise the number is about twice the add/remove number of Poisson sampling at the same q and sigma, with little
noise far more. Neither may be quoted for the other setting.
"""

from __future__ import annotations

from dpml import arguments
from dpml.accounting.guarantee import Bounds
from dpml.accounting.pld import calibration, limits, pairs
from dpml.accounting.pld.lattice import bracket
from dpml.accounting.pld.limits import INTERVAL, LARGEST_SIGMA, ROUNDING, TOLERANCE, agree, coarse, losses_of
from dpml.accounting.subsampled_gaussian import chance_drawn, known_epsilon

__all__ = ["epsilon_bounds", "noise_multiplier"]

LEAST_SIGMA = 0.1
"""The least noise multiplier that is supported with sampling."""


def epsilon_bounds(*, q: float, sigma: float, steps: int, delta: float) -> Bounds:
    """Return epsilon from both sides for samples of fixed size without replacement, replace-one neighbours.

    `q` is the fraction m/n that is drawn and `sigma` the standard deviation over the clipping norm (not over twice
    that norm). The gap between the ends is one of theory, not of arithmetic: each end is computed to 1e-4, or to about
    a hundredth of epsilon where rounding is felt (q below 1e-5 or so and delta below 1e-9 or so, in 100,000 steps or
    more). At q = 1, all records in every step, both ends are exact.

    Raises:
        ValueError: if q is not in [0, 1], sigma not in [0, inf), steps not an integer in [0, 1e9] or delta neither 0
            nor in [1e-250, 1]; and, where no closed form holds, if q is not in [1e-9, 1), sigma not in [0.1, 1e6], or
            so small that the tail of the loss is beyond the range of floats.

    Source: Balle, Barthe and Gaboardi, "Privacy amplification by subsampling", NeurIPS 2018, Theorem 9; Zhu, Dong and
    Wang, "Optimal accounting of differential privacy via characteristic function", AISTATS 2022, Theorem 10; the
    lecture, slide "Privacy amplification by sub-sampling", for the setting.
    """
    q, steps, delta = limits.checked_run(q, steps, delta)
    sigma = arguments.real("sigma", sigma, 0.0)
    known = known_epsilon(q, sigma, steps, delta)
    upper = _upper_end(q, sigma, steps, delta) if known is None else known
    lower = 0.0
    if known is None and q == 1.0:
        lower = upper * (1.0 - 2.0 * ROUNDING)
    elif known is None:
        with losses_of(sigma):
            for pair in (pairs.poisson(pairs.gaussian(2.0 / sigma), q), pairs.replaced(1.0 / sigma, q)):
                if not agree(lower, upper, INTERVAL):
                    lower = max(lower, bracket.epsilon_interval([(pair, steps)], delta, INTERVAL)[0])
    return Bounds(min(lower, upper), upper=upper, delta=delta, adjacency="replace-one", sampling="without replacement")


def noise_multiplier(*, q: float, steps: int, epsilon: float, delta: float) -> float:
    """Return a sigma for which `steps` steps with samples of fixed size are (epsilon, delta)-private, replace-one.

    `q` is the fraction m/n that is drawn and sigma the standard deviation over the clipping norm. The upper end of
    `epsilon_bounds` is at most the target, and within 2e-4 min(1, epsilon) of it. 0.0
    where no noise is needed: delta >= 1 - (1 - q)^steps.

    Raises:
        ValueError: if q is not in [0, 1], steps not an integer in [0, 1e9], epsilon not in [1e-6, 1e4] or delta not in
            [1e-250, 1]; and, at q below 1, if q is below 1e-9, or so little or so much noise would do that sigma
            leaves [0.1, 1e6], or the tail of the loss the range of floats.

    Source: definition; the epsilon is that of `epsilon_bounds`.
    """
    q, steps, epsilon, delta = calibration.checked(q, steps, epsilon, delta)
    if chance_drawn(q, steps) <= delta:
        return 0.0

    def spent(sigma: float) -> float:
        return _upper_end(q, sigma, steps, delta)

    def quick(sigma: float) -> float:
        return bracket.epsilon_upper(_worst(q, sigma, steps), delta, coarse(epsilon))

    if q == 1.0 or steps == 1:
        sigma = 2.0 * calibration.exact_sigma(q, steps, epsilon, delta)
        if q < 1.0 and not LEAST_SIGMA <= sigma <= LARGEST_SIGMA:
            raise calibration.out_of_reach(sigma, epsilon, LEAST_SIGMA)
        return calibration.rounded_up(sigma, spent, epsilon)
    arguments.real("q", q, 1e-9, 1.0)
    near = 2.0 * calibration.central_limit(q, steps, epsilon, delta)
    few = near < 4.0  # draws decide, or it would be near
    return calibration.least_sigma(spent, quick if few else None, epsilon, LEAST_SIGMA, near)


def _upper_end(q: float, sigma: float, steps: int, delta: float) -> float:
    """The upper end where there is noise and delta is below the chance of being drawn; arguments not checked."""
    if q < 1.0:
        arguments.real("q", q, 1e-9, 1.0)
        arguments.real("sigma", sigma, LEAST_SIGMA, LARGEST_SIGMA)
    exact = calibration.exact_epsilon(q, sigma / 2.0, steps, delta)
    if exact is not None:
        return exact
    with losses_of(sigma):
        return bracket.epsilon_upper(_worst(q, sigma, steps), delta, TOLERANCE)


def _worst(q: float, sigma: float, steps: int) -> bracket.Parts:
    return [(pairs.without_replacement(pairs.gaussian(2.0 / sigma), q), steps)]
