r"""The moment transform of one Poisson-sampled Gaussian step on a vertical line, every error bounded.

With y standard normal and the likelihood ratio $r(y) = 1 - q + q\,e^{y/\sigma - 1/(2\sigma^2)}$, all that is needed is

.. math::

    F(w) = \mathbb E\,[r(y)^w], \qquad E\,e^{sL} = F(1+s) \text{ (record removed)}, \quad
    E\,e^{sL} = F(-s) \text{ (added)},

at $w = c + it$, as $\varphi(t) = F(c+it)/F(c)$: the characteristic function of $\ell = \log r$ under the law with
density $f(y)\,r^c/F(c)$, f the normal density.

Quadrature. The trapezoid rule of step h. The integrand is analytic for $|\mathrm{Im}\,y| < \pi\sigma$, where r is never
a negative number. On Im y = a > 0 the normal density grows by $e^{a^2/2}$; $0 \le \arg r \le a/\sigma$, so that
$|r^{it}| \le e^{|t|a/\sigma}$; and $\cos(a/2\sigma)\,r(\mathrm{Re}\,y) \le |r(y)| \le r(\mathrm{Re}\,y)$. So the
modulus has an integral of at most $N F(c)$,

.. math::

    N = e^{a^2/2 + |t| a/\sigma} \cos(a/2\sigma)^{\min(c, 0)},

and the error is at most $2N/(e^{2\pi a/h} - 1)\,F(c)$ for every such a; the least over some a is taken. For c < 0 and
$a \le \pi\sigma/2$ the power of the cosine may be $(1-q)^c$ instead: there $|r| \ge 1 - q$, and $F(c) \ge 1$ by
Jensen's inequality.

Cut. A rare record with little noise has losses so large and so unlikely that they decide F(c) and say nothing of
delta: then no tilt is good for the others. Of the pair where a record is removed only what has y < Y may be kept. As
$\delta = \int (dP - e^\varepsilon dQ)_+$, of T steps, becomes smaller by what lies elsewhere, and that has a P-mass of
at most T times $\ell = (1-q)\,\Phi(-Y) + q\,\Phi(1/\sigma - Y)$, the lower end holds and the upper one does with
$T\ell$ added. The integrals up to Y are taken at $y = Y - \kappa \log(1 + e^{(Y-x)/\kappa})$, the nodes x
equidistant. At x + ia, $0 < a < \pi\kappa$, with $s = -\kappa \log\cos(a/2\kappa)$, Re y is above the y of x by at
most s, Im y is in [0, a], and |dy/dx| is at most $e^{s/\kappa}$ times its value at x, all by the inequality for |r|
above, and $r^c$ grows by at most $e^{s c \rho/\sigma}$, $\rho = q e^{\cdot}/r$ at Y + s. Where y < 0 < 4 <= Y,
$y^2/2$ falls by less than 0.01. So N becomes
$e^{0.01} \cos(a/2\kappa)^{-1 - \kappa c \rho/\sigma}$ times as large, for c > 0.

Grid left out. Beyond the last node the logarithm of the integrand has a slope of at most $-y + \max(c,0)/\sigma$
(mirrored at the other end: $-y + \rho \min(c,0)/\sigma$ with its $\rho$, which increases with y), so the terms beyond
are below a geometric series; nodes of tiny mass inside the range are left out too, and their mass is counted. With a
cut and z = dy/dx, which falls, the slope in x is at most $z(-y + c/\sigma) - (1 - z)/\kappa$, so that it is the larger
of this at the last node and $-1/\kappa$.

Rounding. u = 2^-53; functions of NumPy are taken to be within 2u; a sum in which no term goes through more than m
additions is within m u of the sum of moduli. m is n, or about $2\sqrt n$ where n is large: then some $\sqrt n$ terms
are added up at once. Of $e^{it\ell} - 1$ as a sum $d_a d_b + d_a + d_b$ (`characteristic`) the moduli add up to at
most $2\,t|\ell|$ and to 8; with $\sqrt 2$ for real and imaginary parts, factors of 3 and 8 are taken below. Rare
records in many steps need $T \log \varphi$ and $T \log F(c)$ with small *absolute* errors, where
$\varphi$ and F(c) hardly differ from 1. So only the differences are summed. With b = 1 (record removed) or 0 (added),
p = c - b and masses $m_j$ prop. to $r^c$, from $\mathbb E\,r^b = 1$,

.. math::

    F(c) - 1 = \sum_j m'_j\,(e^{p \ell_j} - 1), \qquad
    \varphi(t) - 1 = \sum_j m_j\,(e^{it\ell_j} - 1), \qquad m'_j \propto r^b,

in which every term, with its error, is as small as the part of the law that the term stands for.

Decay. For all $|t| \ge \tau$ at once: let two step functions, side by side (with little noise the law has a bump of
records that were drawn), lie under the density of l. A step function with one peak is
a mixture of uniform laws on its level sets, and that on an interval of width w contributes $|\mathrm{sinc}(tw/2)|$.
With $\bar s(x) = \sup_{z \ge x} |\mathrm{sinc}\,z|$,

.. math::

    |\varphi(t)| \le 1 - \sum_k m_k \bigl(1 - \bar s(\tau w_k/2)\bigr), \qquad
    1 - \bar s(x) \ge \begin{cases} x^2/6 - x^4/120 & x \le 2.56, \\
    1 - \min(0.21724, 1/x) & x > 2.56 . \end{cases}

(sinc x <= 1 - x^2/6 + x^4/120, which is 0.2656 at 2.56, decreases up to there and is above every later |sinc|.) The
density of l in a cell is bounded below through its logarithm, whose slope in y is
$-y + ((c+1)\rho - 1)/\sigma$ with $\rho = q e^{\cdot}/r$ increasing: so the slope lies between two numbers at the
cell's ends, and where both have one sign the least value is at an end.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpml.accounting.pld.pairs import Array, sampled_loss

UNIT = 2.0**-53
TAIL = 9.5
"""Standard deviations beyond the outermost peak of the integrand."""

_EXPONENT = 46.0  # quadrature errors are about e^-46
_DROPPED = -54.0  # log of a mass, relative to the largest, that is left out
_NONE = np.zeros(1)
_EARLIER = np.array([1.0, 0.1, 0.01, 0.0])  # frequencies, over the largest, for which errors are bounded
_MANY, _FEW = 1024, 128  # of more terms than that so many are added up at once
_BEND = 0.25  # over which a cut bends the nodes
_HEIGHTS = np.geomspace(0.004, 0.999, 64)  # of the shifted line, over pi sigma
_CELLS = 256
_FLAT, _LOBE = 2.56, 0.21724
_SLACK = 1e-9  # far above the rounding of the layers


class Step(NamedTuple):
    """One Poisson-sampled Gaussian step; sign 1.0: the record is removed, -1.0: it is added.

    Only y < `cut` counts, which is finite only where a record is removed, and then at least 4.
    """

    q: float
    sigma: float
    sign: float
    cut: float = math.inf

    def power(self, lam: float) -> float:
        """The c at which E e^{lam L} = F(c)."""
        return 1.0 + lam if self.sign > 0.0 else -lam

    def lost(self) -> float:
        """The mass of P beyond the cut."""
        without, drawn = math.erfc(self.cut * math.sqrt(0.5)), math.erfc((self.cut - 1.0 / self.sigma) * math.sqrt(0.5))
        return (1.0 - self.q) * without / 2.0 + self.q * drawn / 2.0

    def share(self, y: Array) -> Array:
        """The slope of log r in w, q e^w / r, or more where it is near 1."""
        odds: Array = self.q / (1.0 - self.q) * np.exp(np.minimum((y - 0.5 / self.sigma) / self.sigma, 600.0))
        return np.minimum(1.0, odds)

    def range(self, least: float, largest: float) -> tuple[float, float]:
        """Where the nodes for the powers in between lie."""
        high = max(largest, 0.0) / self.sigma + TAIL
        odds = self.q / (1.0 - self.q) * math.exp(-0.5 / self.sigma**2)
        return min(least, 0.0) / self.sigma * min(1.0, odds) - TAIL, min(high, self.cut - _DROPPED * _BEND)

    def tilted(self, power: float, t: float) -> Tilted:
        """The tilted law on nodes of its own, for frequencies up to t."""
        return tilted(grid(self, power, power, step_for(self, power, t)), power, t)


class Grid(NamedTuple):
    """Points y at equal distances, or of which these are the images, log r there, and the logarithms of the weights."""

    y: Array
    loss: Array
    log_weight: Array
    width: float
    step: Step


class Tilted(NamedTuple):
    """The law of log r - mean under masses prop. to r^c.

    `log_moment` is log F(c), `moment_error` bounds the relative error of F(c).
    """

    log_moment: float
    moment_error: float
    mean: float
    masses: Array
    losses: Array
    errors: tuple[Array, Array]
    turns: tuple[Array, Array]
    low: float  # y of the first and the last mass
    high: float

    def error(self, t: float | Array, turns: float | Array) -> Array:
        r"""Bound of the error of phi at frequencies up to the one asked for, each a product of at most so many turns.

        From $|e^{it\ell} - 1| \le \min(t |\ell|, 2)$: t |l| up to some |l|, and 2 beyond it. The least of some bounds.
        """
        fixed, moving, fixed_turns, moving_turns = (
            bound.reshape(-1, *(1,) * np.ndim(t)) for bound in (*self.errors, *self.turns)
        )
        least: Array = (fixed + fixed_turns * turns + (moving + moving_turns * turns) * t).min(axis=0)
        return least


class Layers(NamedTuple):
    """Uniform laws, their widths in l and their masses, that lie under the density of l."""

    widths: Array
    masses: Array


def _heights(step: Step, power: float) -> tuple[Array, Array]:
    """Heights a of the shifted line and the logarithms of N at t = 0."""
    a = math.pi * min(step.sigma, _BEND) * _HEIGHTS if step.cut < math.inf else math.pi * step.sigma * _HEIGHTS
    growth = a * a / 2.0
    if power < 0.0:
        least = np.where(a < 1.57 * step.sigma, math.log1p(-step.q), -math.inf)
        growth = growth + power * np.maximum(np.log(np.cos(a / (2.0 * step.sigma))), least)
    if step.cut < math.inf:
        bend = -np.log(np.cos(a / (2.0 * _BEND)))
        growth += 0.01 + (1.0 + _BEND * power / step.sigma * step.share(step.cut + _BEND * bend)) * bend
    return a, growth


def step_for(step: Step, power: float, t: float) -> float:
    """A distance of nodes at which the quadrature error is negligible up to the frequency t."""
    a, growth = _heights(step, power)
    return 2.0 * math.pi / (float(((growth + _EXPONENT) / a).min()) + t / step.sigma)


@np.errstate(under="ignore")
def quadrature_error(step: Step, power: float, t: float, width: float) -> float:
    """Bound of the error of F(c + it), relative to F(c), c = power."""
    a, growth = _heights(step, power)
    turns = 2.0 * math.pi / width
    exponents = np.minimum(growth - (turns - t / step.sigma) * a, 700.0)
    return float((2.0 * np.exp(exponents) / -np.expm1(-turns * a)).min())


@np.errstate(under="ignore")
def grid(step: Step, least: float, largest: float, width: float) -> Grid:
    """Grid for all powers c from `least` to `largest`."""
    low, high = step.range(least, largest)
    y: Array = np.asarray(np.arange(math.floor(low / width), math.ceil(high / width) + 1) * width, dtype=np.float64)
    log_slope: Array | float = 0.0
    if step.cut < math.inf:
        beyond = (y - step.cut) / _BEND
        near = np.log1p(np.exp(-np.abs(beyond)))
        y, log_slope = np.minimum(y, step.cut) - _BEND * near, -np.maximum(beyond, 0.0) - near
    loss = sampled_loss((y - 0.5 / step.sigma) / step.sigma, step.q)
    return Grid(y, loss, math.log(width / math.sqrt(2.0 * math.pi)) - 0.5 * y * y + log_slope, width, step)


@np.errstate(under="ignore")
def grid_moments(at: Grid, powers: Array) -> Array:
    """log F(c) at each c, without a bound of the error."""
    exponents = np.multiply.outer(powers, at.loss)
    exponents += at.log_weight
    peak = exponents.max(axis=1)
    exponents -= peak[:, None]
    found: Array = peak + np.log(np.exp(exponents, out=exponents).sum(axis=1))
    return found


def total(terms: Array) -> Array:
    """The sums of the rows, of many terms in blocks, so that none goes through more than `additions`."""
    size = terms.shape[-1]
    parts = np.add.reduceat(terms, np.arange(0, size, 1 + math.isqrt(size)), axis=-1) if size > _MANY else terms
    found: Array = parts.sum(axis=-1)
    return found


def additions(size: int) -> float:
    """How many additions a term goes through at most, in whatever order NumPy adds."""
    return 2.0 * math.sqrt(size) + 2.0 if size > _MANY else float(size)


@np.errstate(under="ignore")
def tilted(at: Grid, power: float, t: float) -> Tilted:
    """The tilted law, for frequencies up to t."""
    exponents = power * at.loss + at.log_weight
    peak = float(exponents.max())
    exponents -= peak
    kept = np.flatnonzero(exponents > _DROPPED)
    keep = slice(int(kept[0]), int(kept[-1]) + 1)
    masses = np.exp(exponents)
    whole, count = float(total(masses)), 128.0 + additions(len(at.y))
    (q, sigma, _, cut), base = at.step, math.log(at.width / math.sqrt(2.0 * math.pi))
    share = at.step.share(at.y)
    ends = np.array([at.y[-1] - max(power, 0.0) / sigma, min(power, 0.0) / sigma * share[0] - at.y[0]])
    if cut < math.inf:
        slope = math.exp(at.log_weight[-1] - base + 0.5 * at.y[-1] ** 2)
        ends[0] = min(1.0, 1.0 - slope + slope * _BEND * ends[0]) / _BEND
    beyond = float((masses[[-1, 0]] / np.expm1(at.width * ends)).sum())
    omitted = (float(masses[: keep.start].sum() + masses[keep.stop :].sum()) + beyond) / whole
    missed = quadrature_error(at.step, power, t, at.width) + omitted
    masses /= whole
    # an error of a node, of its quotient by sigma, and of q expm1(.), as an error of the loss; then that of a mass
    size = np.abs(at.loss)
    loss_error = 6.0 / (1.0 - q) * size + 4.0 * share * (np.abs(at.y) + 0.5 / sigma) / sigma
    each = abs(power) * (loss_error + 4.0 * size) + 8.0 * (base - at.log_weight)
    log_moment, moment_error = peak + math.log(whole), count + float((masses * each).sum())
    plain = 1.0 if power > 0.0 else 0.0
    gain = (power - plain) * at.loss
    if np.abs(gain[[0, -1]]).max() < 600.0:
        gains = np.exp(plain * at.loss + at.log_weight) * np.expm1(gain)
        lost = at.step.lost()
        log_moment = math.log1p(float(total(gains)) - lost)
        sizes = np.abs(gains) * math.exp(-log_moment)
        moment_error = float((sizes * (count + each)).sum() + abs(power) * (masses * loss_error).sum()) + 1e4 * lost
    moment_error, place = 2.0 * UNIT * moment_error + 2.1 * missed, at.y[[keep.start, keep.stop - 1]].tolist()
    masses, loss_error, each = masses[keep], loss_error[keep], each[keep]
    mean = float(total(masses * at.loss[keep]))
    losses = at.loss[keep] - mean
    if t == 0.0:
        return Tilted(log_moment, moment_error, mean, masses, losses, (_NONE, _NONE), (_NONE, _NONE), *place)
    size, each = np.abs(losses), each + (count + float((masses * each).sum()))
    turning = np.multiply.outer(t * _EARLIER, size) > 2.0
    often, seldom = np.where(turning, 0.0, masses * size), np.where(turning, 2.0 * masses, 0.0)
    adding = 2.0 + (_FEW + len(masses) / _FEW if len(masses) > _MANY else len(masses))
    moving = (often * (each + 3.0 * adding)).sum(axis=1) + float((masses * (loss_error + 3.0 * size)).sum())
    errors = UNIT * (seldom * (each + 8.0 * adding)).sum(axis=1) + 4.2 * missed, UNIT * moving
    turns = 24.0 * UNIT * seldom.sum(axis=1), 24.0 * UNIT * often.sum(axis=1)
    return Tilted(log_moment, moment_error, mean, masses, losses, errors, turns, *place)


@np.errstate(under="ignore")
def characteristic(law: Tilted, eta: float, count: int) -> NDArray[np.complex128]:
    """E e^{i k eta (l - mean)} - 1 for k = 0, ..., count: k = rows * i + j, as products of two matrices.

    With turns less one, d, since $e^{a+b} - 1 = d_a d_b + d_a + d_b$. As real products, some nodes at a time: so little
    that BLAS starts no threads, which cost more than they give here.
    """
    rows = max(1, math.isqrt(count + 1))
    far_rows = -(-(count + 1) // rows)
    few = max(8, 90_000 // (rows * far_rows)) if len(law.masses) <= _MANY else _FEW
    total, beside = np.zeros((2 * far_rows, 2 * rows)), np.zeros((far_rows, rows), dtype=complex)
    for first in range(0, len(law.masses), few):
        masses = law.masses[first : first + few]
        one = np.expm1(1j * eta * law.losses[first : first + few])
        near = _turns(one, rows)
        far = _turns(np.expm1(1j * (eta * rows) * law.losses[first : first + few]), far_rows)
        near *= masses
        beside += np.add.outer(far @ masses, near.sum(axis=1))
        total += np.concatenate([far.real, far.imag]) @ np.concatenate([near.real, near.imag]).T
    beside += total[:far_rows, :rows] - total[far_rows:, rows:]
    beside += 1j * (total[:far_rows, rows:] + total[far_rows:, :rows])
    return beside.reshape(-1)[: count + 1]


def _turns(one: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    """(1 + one)^k - 1 in row k."""
    found = np.zeros((count, len(one)), dtype=complex)
    turn = 1.0 + one
    for k in range(1, count):
        np.multiply(found[k - 1], turn, out=found[k])
        found[k] += one
    return found


@np.errstate(under="ignore")
def layers(law: Tilted, step: Step, power: float) -> Layers:
    """Uniform laws under the density of l: the level sets of two step functions with one peak each."""
    q, sigma = step.q, step.sigma
    y = np.linspace(law.low, law.high, _CELLS + 1)
    w = (y - 0.5 / sigma) / sigma
    loss = sampled_loss(w, q)
    log_share = math.log(q) + w - loss
    share = np.exp(np.minimum(log_share, 0.0))
    constant = math.log(sigma / math.sqrt(2.0 * math.pi)) - law.log_moment
    log_density = power * loss - 0.5 * y * y - log_share + constant
    first, second = (share[:-1], share[1:]) if power >= -1.0 else (share[1:], share[:-1])
    least = -y[1:] + ((power + 1.0) * first - 1.0) / sigma
    most = -y[:-1] + ((power + 1.0) * second - 1.0) / sigma
    left, right, width = log_density[:-1], log_density[1:], float(y[1] - y[0])
    valley = np.where((least < 0.0) & (most > 0.0), width * np.minimum(-least, most), 0.0)
    height = np.exp(np.minimum(left, right) - valley) * (1.0 - _SLACK)
    # at the lowest place between the highest peaks of the two halves, so that a bump of either half counts
    middle = len(height) // 2
    lower, upper = int(height[:middle].argmax()), middle + int(height[middle:].argmax())
    cut = max(1, lower + int(height[lower : upper + 1].argmin()))
    parts = [_level_sets(height[a:b], loss[a : b + 1]) for a, b in ((0, cut), (cut, _CELLS))]
    return Layers(*(np.concatenate(both) for both in zip(*parts, strict=True)))


def _level_sets(height: Array, loss: Array) -> tuple[Array, Array]:
    """Widths and masses of the level sets of the largest step function with one peak under the heights."""
    peak = int(height.argmax())
    up = np.minimum.accumulate(height[peak::-1])[::-1]
    down = np.minimum.accumulate(height[peak:])
    levels = np.sort(np.concatenate([up, down[1:]]))
    start = loss[np.searchsorted(up, levels)]
    stop = loss[len(height) - np.searchsorted(down[::-1], levels)]
    return stop - start, np.diff(levels, prepend=0.0) * (stop - start)


def deficit(under: Layers, t: Array) -> Array:
    """A lower bound of 1 - |phi(u)| for all u >= t, for each t."""
    x = np.multiply.outer(t / 2.0, under.widths)
    square = x * x
    near = square * (1.0 / 6.0 - square * (1.0 / 120.0))
    far = 1.0 - np.minimum(_LOBE, 1.0 / np.maximum(x, 1.0))
    found: Array = (np.where(x < _FLAT, near, far) * under.masses).sum(axis=1)
    return found
