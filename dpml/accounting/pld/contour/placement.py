r"""Where to put the line of `line`: tilt and length, from a coarse look at the moments. Nothing here is a bound.

With $K(\mu)$ on a grid of tilts, the aliases of a line at $\lambda$ of length $\Lambda$ are, in units of
$e^{K(\lambda) - \lambda\varepsilon}$, about

.. math::

    c(\mu)\, e^{K(\mu) - K(\lambda) + (\lambda - \mu)\varepsilon - |\lambda - \mu| \Lambda}

for the best $\mu$ on either side. The length makes them a small part of delta, which is
$\delta e^{\lambda\varepsilon - K(\lambda)}$ in the same units; of several tilts the one with the shortest line is
taken. That is often less than the tilt of the best Chernoff bound, where the law is about to fall into its far tail.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dpml.accounting.pld.contour import transform
from dpml.accounting.pld.contour.transform import Step
from dpml.accounting.pld.pairs import Array

_SHARES = np.concatenate([[0.0, 0.02, 0.05, 0.1, 0.16], np.linspace(0.22, 1.0, 14), np.geomspace(1.0, 3.0, 9)[1:]])
_CHOICES = slice(7, 22)  # of the shares: tilts that may be chosen
_WORK = 1_000_000  # numbers in the table of the look
_FAINT = -17.0  # log of a value of delta in its units: below, errors have to be small, and the largest is taken


class Placement(NamedTuple):
    """The chosen tilt and length of a line for one epsilon."""

    lams: Array
    lam: float
    length: float
    log_value: float  # log of delta in units of e^{K - lam epsilon}, about
    sides: tuple[int, ...]  # of `lams`: the mu for the aliases below and above, which the lower end needs


class Moments(NamedTuple):
    """Moments of one step on a grid of tilts."""

    lams: Array
    moments: Array
    log_best: Array


def moments_near(step: Step, lam: float) -> Moments | None:
    """Moments at tilts from 0 to three times lam; None where that would take too long or leave the range of floats."""
    lams = lam * _SHARES
    powers = 1.0 + lams if step.sign > 0.0 else -lams
    least, largest = float(powers.min()), float(powers.max())
    width = transform.step_for(step, largest if step.cut < math.inf else least, 0.0)
    low, high = step.range(least, largest)
    if (high - low) / width * len(lams) > _WORK:
        return None
    at = transform.grid(step, least, largest, width)
    moments = transform.grid_moments(at, powers)
    moments[0] = 0.0
    return Moments(lams, moments, best_constant(lams))


def chernoff(seen: Moments, steps: float, epsilon: float) -> tuple[float, float]:
    """The tilt of the least Chernoff bound on delta at epsilon, or one for a delta near 1, and the log of the bound."""
    bounds = steps * seen.moments - seen.lams * epsilon + seen.log_best
    best = 1 + int(np.argmin(bounds[1:]))
    if bounds[best] > -1.0:  # delta is near 1, for which no tilt is small enough: the largest that does little harm
        best = max(best, int(np.flatnonzero(bounds <= 2.0)[-1]))
    return float(seen.lams[best]), float(bounds[best])


def enough(seen: Moments, steps: float, log_delta: float) -> tuple[float, float]:
    """The tilt of the least Chernoff bound on epsilon at delta, and that bound."""
    bounds = (steps * seen.moments[1:] + seen.log_best[1:] - log_delta) / seen.lams[1:]
    best = int(np.argmin(bounds))
    return float(seen.lams[best + 1]), max(0.0, float(bounds[best]))


def centred(
    step: Step, steps: float, lam: float, *, epsilon: float | None = None, log_delta: float = -math.inf
) -> tuple[Moments, float, float] | None:
    """A look, begun at lam, whose grid has the best tilt inside; that tilt and what `chernoff` or `enough` says.

    `enough` is asked where no epsilon is given, for delta. With both, any tilt will do that shows delta at epsilon.
    None where a look is out of reach.
    """
    for _ in range(30):
        seen = moments_near(step, lam)
        if seen is None:
            break
        lam, bound = enough(seen, steps, log_delta) if epsilon is None else chernoff(seen, steps, epsilon)
        if seen.lams[1] < lam < seen.lams[-1] or (epsilon is not None and bound <= log_delta):
            return seen, lam, bound
    return None


@np.errstate(under="ignore")
def placement_for(
    seen: Moments, aims: list[tuple[float, float]], log_delta: float, accuracy: float
) -> Placement | None:
    """The shortest line on which the aliases are `accuracy` of delta at each aim: a number of steps and an epsilon.

    None where no tilt will do.
    """
    lams = seen.lams
    gaps = np.abs(np.subtract.outer(lams[_CHOICES], lams))
    best: Placement | None = None
    steps, epsilons = np.array(aims, dtype=np.float64).T
    exponents = np.multiply.outer(steps, seen.moments) - np.multiply.outer(epsilons, lams)
    values = np.minimum(log_delta - exponents[:, _CHOICES], 0.0)
    wanted = exponents[:, _CHOICES] + values + math.log(accuracy)
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = (((exponents + seen.log_best)[:, None] - wanted[:, :, None]) / gaps).max(axis=0)
    log_values = values.min(axis=0)
    faint = min(_FAINT, float(log_values.max()) - 1.0)
    for row, chosen in enumerate(range(_CHOICES.start, _CHOICES.stop)):
        if log_values[row] < faint:
            continue
        low, high = int(np.argmin(reach[row, :chosen])), chosen + 1 + int(np.argmin(reach[row, chosen + 1 :]))
        length = 1.02 * max(float(reach[row, low]), float(reach[row, high]))
        if length > 0.0 and (best is None or length < best.length):
            best = Placement(lams, float(lams[chosen]), length, float(log_values[row]), (low, high))
    return best


def best_constant(lam: Array) -> Array:
    r"""log c(lam), $c(\lambda) = \lambda^\lambda (1 + \lambda)^{-1-\lambda}$."""
    found: Array = np.where(lam > 0.0, lam * np.log(np.maximum(lam, 1e-300)), 0.0) - (1.0 + lam) * np.log1p(lam)
    return found
