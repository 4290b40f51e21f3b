r"""From a pair of laws to losses on the lattice i h: a worse pair (connect the dots) and a better one (tangents).

A pair is a convex function $H(x) = \int (dP - x\,dQ)_+$ of $x = e^\varepsilon$, and one pair is worse than another
for every composition if its H is larger everywhere. Losses on a lattice mean that H is linear between the
$x_i = e^{ih}$.

- Worse: the chords of H. Each cell's masses (p, q) move to its two ends so that both are kept: the share of the
  upper end is $(p - e^{t} q)/(1 - e^{-h})$, t the lower end.
- Better: chords of nodal values $v_i = H(x_i) - d_i$ that lie below H. Choose in each cell its centre $y_i$; the
  tangent of H there is a lower bound of H on the whole line. With $d_i$ the larger distance of $H(x_i)$ to the tangents
  of the two adjacent cells, every chord of v lies below one tangent. These distances are $p - x_i q$ over the half
  cell right of $x_i$ and $x_i q - p$ over the half cell left of it. At both ends of the lattice the tangent is taken at
  the end. Where v is not convex (that is, a mass would be negative) its convex hull is taken, which lies lower still.

Both errors are of second order: on average chords add $h^2/6$ to the variance of the loss, tangents take $h^2/12$.

The masses of half cells come as floats with the relative error `RELATIVE`. Let P^ and Q^ be the sums of these floats.
Tangents: $\sum (\hat p - x\hat q)$ over any set of cells is at most $\sum (\hat p - x\hat q)_+$ over all, which merges
half cells and hence is at most H up to factors 1 - RELATIVE of P and 1 + RELATIVE of Q. Chords: H grows with p and
falls with q. So both are bounds for the true pair after P is multiplied by 1 +- RELATIVE and every loss moved by
`SHIFT`, which the composition adds. A rounding error in the share of the upper end moves mass between the two ends with
p kept: it is the same as a relative error of q of some units in the last place, and SHIFT has room for it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dpml import numerics
from dpml.accounting.pld.pairs import RELATIVE, Array, Pair

SHIFT = 4.0 * RELATIVE
"""What rounding can do to one loss: the errors of p, of q, of the edges, and of the lattice points."""


class Lattice(NamedTuple):
    """Masses of P at the losses offset + (start + i) h; `beyond`: mass at infinite loss."""

    start: int
    offset: float
    masses: Array
    beyond: float


@np.errstate(under="ignore")
def offset(pair: Pair, h: float) -> float:
    """Where to put the lattice, modulo h: on an atom, or so that what piles up at a sharp end merges to a node.

    Beyond the last half cell's end y everything merges to one loss, log P(beyond y)/Q(beyond y). The last node should
    be there: not above it at an upper end. Any other place is valid, but costs an error of first order at that end.
    """
    if pair.atoms:  # just below the atom, so that rounding cannot put it below the node
        return math.fmod(pair.atoms[-1] - 1e-14 * max(1.0, abs(pair.atoms[-1])), h)
    if pair.sharp_low:
        end, sign = pair.low, 1.0
    elif pair.sharp_high:
        end, sign = pair.high, -1.0
    else:
        return 0.0

    def within(distance: float) -> float:  # by how much the merged loss lies inside of a node so far from the end
        p, q = (
            float(mass[0 if sign > 0.0 else -1]) for mass in pair.cells(np.array([end + sign * (distance + h / 2.0)]))
        )
        return sign * (math.log(p / q) - end) - distance if distance < h and p > 0.0 < q else -h

    return math.fmod(end + sign * numerics.crossing(within, low=0.0, high=h, width=1e-12 * h), h)


def index_range(pair: Pair, h: float, place: float, low: float, high: float) -> tuple[int, int]:
    """First and last index of a lattice that covers [low, high], with nothing to spare at a sharp end."""
    start = math.ceil((pair.low - place) / h) if pair.sharp_low else math.floor((low - place) / h) - 1
    stop = math.floor((pair.high - place) / h) if pair.sharp_high else math.ceil((high - place) / h) + 1
    return start, max(stop, start + 2)


@np.errstate(under="ignore")
def worse(pair: Pair, h: float, place: float, start: int, stop: int) -> Lattice:
    """Connect the dots. Losses below the lattice move up to its first point, those above it to infinity.

    There is one node more at either end, so that a sharp end between two nodes is inside.
    """
    start, stop = start - 1, stop + 1
    edges: Array = np.asarray(np.arange(start, stop + 1) * h + place, dtype=np.float64)
    p, q = pair.cells(edges)
    upper = _share(p[1:-1], q[1:-1], edges[:-1], h)
    masses = np.zeros(stop - start + 1)
    masses[:-1] = p[1:-1] - upper
    masses[1:] += upper
    masses[0] += p[0]
    return Lattice(start, place, masses, float(p[-1]) + pair.beyond)


@np.errstate(under="ignore")
def better(pair: Pair, h: float, place: float, start: int, stop: int) -> Lattice:
    """Tangents. Losses beyond the two ends of the lattice are dropped.

    At a sharp end, where what lies beyond is much, it is treated as one more cell, of infinite width.
    """
    edges: Array = np.asarray(np.arange(2 * start, 2 * stop + 1) * (h / 2.0) + place, dtype=np.float64)
    p, q = pair.cells(edges)
    half_p, half_q = p[1:-1].reshape(-1, 2), q[1:-1].reshape(-1, 2)  # cell by cell: left half, right half
    whole_p, whole_q = half_p.sum(axis=1), half_q.sum(axis=1)
    x = np.exp(edges[::2])
    # distances of the tangent in a cell, plus rounding, from H at the lower end of the cell and at its upper end
    from_low = np.append(half_p[:, 0] - x[:-1] * half_q[:, 0] + 2e-15 * half_p[:, 0], 0.0)
    from_high = np.append(0.0, x[1:] * half_q[:, 1] - half_p[:, 1] + 2e-15 * half_p[:, 1])
    tail_value = tail_q = first = 0.0
    if pair.sharp_low:  # one more cell
        from_high[0], first = x[0] * q[0] - p[0], p[0]
    else:  # the first cell has its tangent at its lower end
        from_low[0], from_high[1] = 0.0, x[1] * whole_q[0] - whole_p[0]
    if pair.sharp_high:
        tail_value, tail_q = p[-1] - x[-1] * q[-1], q[-1]
        from_low[-1] = tail_value
    d = np.maximum(np.maximum(from_low, from_high), 0.0)
    last = _last_by_tangents(whole_p, whole_q, x, from_high, tail_value, tail_q)
    masses = np.zeros(len(x))
    if last == len(whole_p) and pair.sharp_high:
        masses[-1] = x[-1] * tail_q
    else:
        masses[last:-1] = whole_p[last:]  # in steeper cells each mass moves down to the lower end
        masses[-1] = p[-1] if pair.sharp_high else 0.0
        d = d[: last + 1]
        d[-1] = 0.0  # and the last cell before them has its tangent at its upper end
        if last > 0:
            d[-2] = max(d[-2], whole_p[last - 1] - x[last - 1] * whole_q[last - 1])
    if last > 0:
        upper = _share(whole_p[:last], whole_q[:last], edges[: 2 * last : 2], h)
        slope = np.diff(d)
        masses[0] += first + d[0]
        masses[:last] += (whole_p[:last] - upper) - slope / math.expm1(h)
        masses[1 : last + 1] += upper + slope / -math.expm1(-h)
        if _make_convex(masses, h):
            return Lattice(start, place, masses, pair.beyond)
    # of first order, for once: every mass moves down to the lower end of its cell
    masses = np.concatenate([[p[0] if pair.sharp_low else 0.0], whole_p, [p[-1]]])
    return Lattice(start - 1, place, masses, pair.beyond)


def _last_by_tangents(p: Array, q: Array, x: Array, from_high: Array, tail_value: float, tail_q: float) -> int:
    """The number of cells for which all nodal values H - d are >= 0, with H that of these cells alone.

    H at the lower ends is a sum of positive terms: the cell's own part and, for what lies above the cell, the
    width of the cell times the mass of Q.
    """
    last = len(p)
    for _ in range(60):
        if last < 2:
            break
        above = np.cumsum(np.append(q[1:last], tail_q)[::-1])[::-1]
        gain = np.maximum(p[:last] - x[:last] * q[:last], 0.0) + np.diff(x[: last + 1]) * above
        value = np.cumsum(np.append(gain, tail_value)[::-1])[::-1]
        bad = np.flatnonzero(from_high[1 : last + 1] > value[1:])
        if len(bad) == 0 or (last < len(p) and bad[0] == last - 1):
            return last
        last = int(bad[0]) + 1 if bad[0] < last - 1 else last - 1
        tail_value = tail_q = 0.0
    return int(last == 1 and from_high[0] <= p[0] - x[0] * q[0])


def _share(p: Array, q: Array, t: Array, h: float) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.clip((p - np.exp(t) * q) / -math.expm1(-h), 0.0, p)


def _make_convex(masses: Array, h: float) -> bool:
    """Remove negative masses, in place, by dividing them between the nearest nodes that stay, both p and q kept.

    A node of negative mass lies above the chord of its neighbours, so it is no vertex of the convex hull. Below the
    first node there is only loss -infinity, which takes its share of q. Values >= 0 that end in 0 leave nothing
    negative at the top but rounding; that moves down with p kept, which raises H by |mass| times the way. False if
    this is more than rounding.
    """
    mass, below, above = masses.tolist(), list(range(-1, len(masses) - 1)), list(range(1, len(masses) + 1))
    waiting = np.flatnonzero(masses < 0.0).tolist()
    while waiting:
        at = waiting.pop()
        m, low, high = mass[at], below[at], above[at]
        if m >= 0.0:
            continue
        inner = math.expm1((low - at) * h) / math.expm1((low - high) * h) if low >= 0 else 1.0
        up = inner if high < len(mass) else 0.0
        if up == 0.0 and (low < 0 or -m * (at - low) * h > 1e-13 * (mass[low] + mass[below[low]])):
            return False
        mass[at] = 0.0
        for node, part in ((high, up * m), (low, (1.0 - up) * m)):
            if part < 0.0:
                mass[node] += part
                waiting.append(node)
        if high < len(mass):
            below[high] = low
        if low >= 0:
            above[low] = high
    masses[:] = mass
    return True
