r"""What the last bits of a noisy number betray: which outputs the Laplace mechanism can give at all, on a computer.

Laplace noise is made from a uniform number u, one of the $2^{53}$ multiples of $2^{-53}$ in [0, 1): it is $b \log 2u$
below 1/2, and $-b \log(2 - 2u)$ above. So it takes fewer than $2^{53}$ values, with gaps between them, and the
mechanism returns one of these plus the true answer, rounded. Another true answer reaches *other* floats: most outputs
of one dataset cannot come from its neighbour.

Proposition. Let S be the outputs that D can give and D' cannot. The event S has probability 0 under D', so whatever
epsilon is, the program is $(\varepsilon, \delta)$-private only for $\delta \ge P(S \mid D)$. The theorem on Laplace
noise is not at fault: it speaks of real numbers. Rounding the output to a fixed grid that is much coarser than the gaps
hides the bits; `dpml.mechanisms.discrete_noise` needs no such care.

Source: I. Mironov, "On significance of the least significant bits for differential privacy", CCS 2012.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments

__all__ = ["laplace_can_return"]

_STEPS = 2**53  # uniform numbers in [0, 1) that noise is made from


def laplace_can_return(y: ArrayLike, *, center: float, scale: float) -> NDArray[np.bool_]:
    """Return, for each float y, whether `dpml.mechanisms.laplace` can give exactly it for the true answer `center`.

    In the shape of y. All uniform numbers that could lead there are tried, with the arithmetic of the mechanism; about
    5 microseconds an entry.

    Raises:
        ValueError: if y is not finite, scale not in [1e-3, 1e3], center not within 100 scales of 0, or an entry not
            within 30 scales of the center: beyond, a float is reached from too many uniform numbers, or from none.

    Source: I. Mironov, "On significance of the least significant bits for differential privacy", CCS 2012, section 4;
    the way from uniform number to noise is that of NumPy's ``Generator.laplace``.
    """
    points = arguments.array("y", y)
    scale = arguments.real("scale", scale, 1e-3, 1e3)
    center = arguments.real("center", center, -100.0 * scale, 100.0 * scale)
    if points.size and float(np.abs(points - center).max()) > 30.0 * scale:
        raise ValueError(
            f"y must be within 30 scales of center = {center:g}, got {np.array2string(points, threshold=5)}"
        )
    found = [_reached(float(value), center, scale) for value in points.ravel()]
    return np.array(found, dtype=bool).reshape(points.shape)[()]


def _reached(y: float, center: float, scale: float) -> bool:
    noise = y - center
    # Half of exp(-|noise|/scale) is the uniform number, or 1 less it. All noise that rounds to y lies within a unit in
    # the last place of y, and the exponential is a little uncertain as well.
    tail = 0.5 * math.exp(-abs(noise) / scale) * _STEPS
    spread = math.ceil(tail * math.ulp(max(abs(y), abs(center))) / scale + 4.0)
    middle = round(tail) if noise < 0.0 else _STEPS - round(tail)
    steps = range(max(1, middle - spread), min(_STEPS - 1, middle + spread) + 1)
    return any(center + _noise(step / _STEPS, scale) == y for step in steps)


def _noise(uniform: float, scale: float) -> float:
    """What NumPy makes of a uniform number, in its order of operations: 2 - u is rounded before u leaves again."""
    if uniform >= 0.5:
        return 0.0 - scale * math.log(2.0 - uniform - uniform)
    return 0.0 + scale * math.log(uniform + uniform)
