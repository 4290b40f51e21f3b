r"""The privacy profile of the Gaussian mechanism in floating point.

With $x = \varepsilon\sigma - 1/(2\sigma)$, $y = \varepsilon\sigma + 1/(2\sigma)$ and $h = y - x = 1/\sigma$ the
density of the normal law satisfies $e^\varepsilon \varphi(y) = \varphi(x)$, so that

.. math::

    \delta(\varepsilon) = \Phi(-x) - e^\varepsilon\,\Phi(-y)
    = e^{-x^2/2} \cdot \tfrac12 \bigl[ \operatorname{erfcx}(x/\sqrt2) - \operatorname{erfcx}(y/\sqrt2) \bigr]
    = e^{-x^2/2} \int_0^\infty e^{-xs - s^2/2} \bigl(1 - e^{-hs}\bigr) \frac{ds}{\sqrt{2\pi}} .

The middle form overflows nowhere. The last one, whose terms are all positive, takes over where the middle one would
cancel. The exponent $x^2/2$ is formed in exact rational arithmetic, since an error of one unit in its last place
would cost three digits of a delta of 1e-300.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, ndtr

_MARGIN = 1.0 - 2.0**-46  # calibration aims below delta by more than the relative error of delta(epsilon)


def excess(sigma: float, epsilon: float, delta: float) -> float:
    """log(delta(epsilon) / delta), made <= 0 only where the computed delta(epsilon) is safely below delta."""
    factor, exponent, rest = factor_and_exponent(sigma, epsilon)
    if factor == 0.0:
        return -math.inf
    ratio = math.log(factor) - exponent - rest - math.log(delta)
    if factor * math.exp(-exponent) * math.exp(-rest) <= delta * _MARGIN:
        return min(ratio, -math.ulp(0.0))
    return max(ratio, math.ulp(0.0))


def factor_and_exponent(sigma: float, epsilon: float) -> tuple[float, float, float]:
    """The three numbers f, t, r with delta = f exp(-t) exp(-r), where r is the rounding error of t."""
    (s, s_den), (e, e_den) = sigma.as_integer_ratio(), epsilon.as_integer_ratio()
    twice_e_s2, one = 2 * e * s * s, e_den * s_den * s_den
    denominator = 2 * e_den * s_den * s
    x_top = twice_e_s2 - one
    x, y = _ratio(x_top, denominator), _ratio(twice_e_s2 + one, denominator)
    if x > 1e150:
        return 0.0, 0.0, 0.0
    if x < -40.0:
        return 1.0, 0.0, 0.0
    top, bottom = x_top * x_top, 2 * denominator * denominator
    exponent = top / bottom
    t, t_den = exponent.as_integer_ratio()
    rest = _ratio(top * t_den - t * bottom, bottom * t_den) if exponent < 1000.0 else 0.0
    root2 = math.sqrt(2.0)
    if x < -0.5:  # delta is at least 0.38 here: no cancellation
        return float(ndtr(-x)) - 0.5 * math.exp(-exponent) * float(erfcx(y / root2)), 0.0, 0.0
    near, far = float(erfcx(x / root2)), float(erfcx(y / root2))
    if far < 0.5 * near:
        return 0.5 * (near - far), exponent, rest
    return _integral(x, _ratio(s_den, s)), exponent, rest


def _ratio(top: int, bottom: int) -> float:
    """top / bottom correctly rounded, infinite instead of an overflow."""
    try:
        return top / bottom
    except OverflowError:
        return math.inf if top > 0 else -math.inf


@np.errstate(under="ignore")
def _integral(x: float, h: float) -> float:
    r"""$\int_0^\infty e^{-xs-s^2/2}(1-e^{-hs})\,ds/\sqrt{2\pi}$ by the exp-sinh rule, exact to rounding."""
    nodes, weights = _nodes()
    scale = 1.0 / (1.0 + max(x, 0.0))  # the integrand decays over about this length
    s = nodes * scale
    values = np.exp(-s * (x + s / 2.0)) * -np.expm1(-h * s)
    return float(values @ weights) * scale / math.sqrt(2.0 * math.pi)


@cache
def _nodes() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    step = 1.0 / 16.0
    u = np.arange(-56, 73) * step
    nodes = np.exp(u - np.exp(-u))
    return nodes, step * nodes * (1.0 + np.exp(-u))
