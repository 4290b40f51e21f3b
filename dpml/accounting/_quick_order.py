r"""The best Rényi order of the Poisson-subsampled Gaussian in the ordinary range, by cheap moments.

`dpml.accounting.orders` asks for some sixty moments that keep all their digits at any q, sigma and order; most
of its time goes into that care. Which order is best can be told from moments with an error of some 1e-14. With the
notation of `dpml.accounting._subsampled_gaussian` and $E\,(1+u) = 1$ they are

.. math::

    E_2 - 1 = \mathbb E[(1+u)\,e^{\lambda y}] - \mathbb E[1+u] - \lambda\,\mathbb E[(1+u)\,y]
    + \lambda\,\mathbb E[(1+u)\,y - u] ,

on one set of nodes for all orders. What is returned never comes from them: at the one or two lambda where the search
ends, epsilon is computed from `log_moments`, on the same nodes, and rounded up by `orders.line`. So it is the
upper bound that the careful search would give at this order, by the same error control; the cheap moments decide only
how tight it is. Where the error of a cheap moment, times T, is not far below epsilon, or the best lambda is out of
reach, the answer is None.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpml.accounting._peaks import TAIL
from dpml.accounting._subsampled_gaussian import log_moments, nodes_e2
from dpml.accounting.orders import line, rounded, vertex

if TYPE_CHECKING:
    from numpy.typing import NDArray

_START = np.exp2(np.arange(-4.0, 4.5, 0.8))  # the first lambdas, over sigma
_INSIDE = np.linspace(0.0, 1.0, 10)
_CLOSE = 2e-3  # where the search stops: the vertex of its last values is much closer to the minimum
_NOISE = 2e-14  # of a cheap moment
_FAINT = 1e-5  # how much of epsilon the noise may be


def best(q: float, sigma: float, steps: float, log_inverse_delta: float) -> tuple[float, float] | None:
    """An upper bound of epsilon and its lambda, or None where care is needed; 0 < q <= 1, sigma > 0, steps >= 1."""
    if not (0.25 <= sigma <= 64.0 and q <= 0.95):  # so that no power overflows
        return None
    lam = sigma * _START
    end = (float(lam[-1]) + 1.0) / sigma + TAIL
    nodes = nodes_e2(end, q, sigma)
    mass, slope = float(nodes.base.sum()), float(nodes.base @ nodes.loss) - nodes.line

    def evaluate(lam: NDArray[np.float64]) -> NDArray[np.float64]:
        power = np.multiply.outer(lam, nodes.loss)
        power += nodes.log_base
        excess = nodes.weight * (np.exp(power, out=power).sum(axis=1) - (mass + lam * slope))
        alpha = np.log1p(np.maximum(excess, 0.0))
        found: NDArray[np.float64] = (steps * alpha + log_inverse_delta - np.log1p(lam)) / lam - np.log1p(1.0 / lam)
        return found

    values = evaluate(lam)
    i = int(values.argmin())
    if not (0 < i < lam.size - 1 and steps * _NOISE * (1.0 + float(lam[i])) < _FAINT * float(lam[i] * values[i])):
        return None
    for _ in range(8):
        low, high = max(i - 1, 0), min(i + 1, lam.size - 1)
        if max(values[low], values[high]) <= values[i] * (1.0 + _CLOSE):
            break
        lam = lam[low] * (lam[high] / lam[low]) ** _INSIDE
        values = evaluate(lam)
        i = int(values.argmin())
    ends = [float(lam[i])]
    if 0 < i < lam.size - 1:
        logs, three = np.log(lam[i - 1 : i + 2]).tolist(), values[i - 1 : i + 2].tolist()
        ends.append(math.exp(vertex(*logs, *three)))
    lam = rounded(np.array(ends))
    a, b = line(lam, log_moments(lam, q, sigma, {end: nodes}), log_inverse_delta)
    bounds = np.maximum(0.0, steps * a + b)
    i = int(bounds.argmin())
    return float(bounds[i]), float(lam[i])
