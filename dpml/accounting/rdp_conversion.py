r"""From Rényi to (epsilon, delta)-differential privacy, the old way and the new.

If $D_a(M(D) \,\|\, M(D')) \le R$ for all neighbours, then M is $(\varepsilon, \delta)$-private with the classic

.. math::

    \varepsilon = R + \frac{\log(1/\delta)}{a - 1}

and with the smaller

.. math::

    \varepsilon = R + \log\Bigl(1 - \frac1a\Bigr) + \frac{\log(1/\delta) - \log a}{a - 1} .

Proof. Let L be the loss of an output under D. The best event gives
$\delta(\varepsilon) \le \mathbb E[\max(0, 1 - e^{\varepsilon - L})]$. For every real t,
$\max(0, 1 - e^{-t}) \le c\, e^{(a-1)t}$ with $c = (a-1)^{a-1}/a^a$, the maximum of $(1 - e^{-t})\, e^{-(a-1)t}$, which
lies at $e^{-t} = (a-1)/a$. Put t = L - epsilon and use $\mathbb E[e^{(a-1)L}] = e^{(a-1)D_a}$: then
$\delta \le c\, e^{(a-1)(R - \varepsilon)}$. The classic one has 1 in the place of c.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpml import arguments

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["conversion_classic", "conversion_improved"]


def conversion_classic(order: ArrayLike, *, rdp: ArrayLike, delta: float) -> NDArray[np.float64]:
    """Return epsilon = rdp + log(1/delta)/(order - 1); `order` and `rdp` broadcast. Infinite at delta = 0.

    Raises:
        ValueError: if an order is not in (1, inf), an rdp not in [0, inf), or delta not in [0, 1].

    Source: Mironov, "Rényi differential privacy", CSF 2017, Proposition 3; it is the lecture's tail bound.
    """
    a, r, slack = _conversion(order, rdp, delta)
    return (r + slack / (a - 1.0))[()]


def conversion_improved(order: ArrayLike, *, rdp: ArrayLike, delta: float) -> NDArray[np.float64]:
    """Return max(0, rdp + log(1 - 1/order) + (log(1/delta) - log(order))/(order - 1)), as proved above.

    `order` and `rdp` broadcast. The formula may be negative for large orders; (0, delta)-privacy then holds. Never
    above `conversion_classic`. Infinite at delta = 0.

    Raises:
        ValueError: if an order is not in (1, inf), an rdp not in [0, inf), or delta not in [0, 1].

    Source: Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, Proposition
    12 of arXiv:2004.00010v4.
    """
    a, r, slack = _conversion(order, rdp, delta)
    return np.maximum(0.0, r + np.log1p(-1.0 / a) + (slack - np.log(a)) / (a - 1.0))[()]


def _conversion(
    order: ArrayLike, rdp: ArrayLike, delta: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    a = arguments.array("order", order, low=1.0, low_open=True)
    r = arguments.array("rdp", rdp, low=0.0)
    try:
        a, r = np.broadcast_arrays(a, r)
    except ValueError:
        raise ValueError(f"rdp must broadcast with order of shape {a.shape}, got an array of shape {r.shape}") from None
    delta = arguments.probability("delta", delta)
    return a, r, -math.log(delta) if delta > 0.0 else math.inf
