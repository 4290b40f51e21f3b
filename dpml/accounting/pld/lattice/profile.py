r"""The profile of a composition from lattice losses: exponential tilt, FFT, and every error counted.

For losses L_1, ..., L_m with masses a on one lattice and counts T_1, ..., T_m, S their sum and any $\lambda > 0$,

.. math::

    \delta(\varepsilon) = E\bigl[(1 - e^{\varepsilon - S})_+\bigr]
    = M e^{-\lambda\varepsilon}\, E_\lambda\bigl[g(S - \varepsilon)\bigr], \qquad
    g(x) = e^{-\lambda x} (1 - e^{-x})_+ \le 1, \qquad M = \prod_i Z_i^{T_i}, \; Z_i = \sum_t a_i(t)\,e^{\lambda t},

where $E_\lambda$ is the law with the tilted masses $a_i(t) e^{\lambda t}/Z_i$. With lambda near the minimum of the
Chernoff bound the tilted law is centred near epsilon, so the expectation is of order one also where delta is 1e-100:
rounding errors of the FFT, which are relative to the *tilted* total mass 1, do not matter.

Errors, all added to the upper and subtracted from the lower end:

- Wrap-around. The circular law on the window [A, B) is the true one plus what lies outside, folded in. Hence it is
  too large inside by at most P_lambda(S < A) + P_lambda(S >= B), and what lies above B is missing there (and what lies
  below A, where epsilon is below A itself). Both are below their Chernoff bounds $e^{\log(M_s/M) - (s - \lambda) B}$
  (s > lambda), and likewise for A (s < lambda), taken from the same masses; or 0 where no sum lies there.
- FFT. Each output of a transform of length N = 2^n is reached from each input through n butterflies, with a relative
  error of at most 8u each (one complex product with a rounded twiddle factor, one sum; u = `Window.unit`). So it is
  wrong by at most e = 8 n u times the sum of the absolute inputs (Higham, "Accuracy and stability of numerical
  algorithms", chapter 24), here 1. By the mean value theorem a product of powers then is wrong by at most
  $d_k = \prod (|z_i| + e)^{T_i} \sum_i T_i e / (|z_i| + e)$ at frequency k; e includes the rounding of the masses and
  of the powers. By Parseval the law is wrong by $(\sum_k d_k^2 / N)^{1/2}$ in the Euclidean norm, and a sum of g over
  it by this times the norm of g (Cauchy and Schwarz).
- Common losses. A record that is rarely drawn loses next to nothing in nearly every step; delta may then be far below
  the rounding of sums in which nothing else happens. So the masses are split, $a = c + r$, at a loss `common`, and
  formed is only the law of the sums with a rare loss among them,
  $\prod (\hat c + \hat r)^T - \prod \hat c^T = \prod \hat c^T\,\bigl(e^{\sum T \log(1 + \hat r/\hat c)} - 1\bigr)$.
  What the others add to delta is between 0 and Chernoff's bound $e^{K_c(\mu) - \mu\varepsilon}$, $\mu$ steep. The
  transform of r is wrong by e times its total R, that of c likewise, its largest mass apart, which is put at index 0
  and needs no transform. As a polynomial in both, the difference has coefficients >= 0: with A and B the two products
  of moduli, enlarged by the errors, it is wrong by at most
  $(A - B) \sum_i T_i e_{c,i}/|\hat c_i| + A \sum_i T_i e_{r,i}/(|\hat c_i| + |\hat r_i|)$.
- Truncation: with mass b_i at infinite loss (`Lattice.beyond`), delta is $1 - \prod (1 - b_i)^{T_i}$ larger.
- Rounding of masses and losses, `discretise`: P times 1 +- `RELATIVE`, losses moved by `SHIFT`, in each step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dpml.accounting.pld.lattice.discretise import SHIFT, Lattice
from dpml.accounting.pld.pairs import RELATIVE, Array

UNIT = 2.0**-53
FINEST = 2.0**-64 if np.finfo(np.longdouble).nmant == 63 else UNIT
"""Unit of rounding of the longer floats that some processors have: some four times as slow, 2000 times as fine."""


class Window(NamedTuple):
    """Lattice h; the window begins at about `low` and has `size` (a power of two) points; tilt `lam`.

    `below` < lam < `above` are tilts that give good Chernoff bounds of the two tails, and `steep` one for sums of
    losses up to `common` alone. `unit`, of rounding, is `UNIT` or `FINEST`.
    """

    h: float
    low: float
    size: int
    lam: float
    below: float
    above: float
    common: float = -math.inf
    steep: float = 0.0
    unit: float = UNIT


class Profile(NamedTuple):
    """The tilted law of the sum on a window, and what bounds its errors."""

    window: Window
    law: Array
    start: int
    offset: float  # its losses are offset + (start + i) h
    error: float  # of the masses, in the Euclidean norm
    low: float  # tilted mass below the window, at most
    high: float  # tilted mass above it, at most
    log_total: float  # log M
    log_common: float  # log of what common losses alone may add to delta, at epsilon = 0
    steps: float
    beyond: float  # probability of an infinite sum

    def upper(self, epsilon: float) -> float:
        """An upper bound on delta at epsilon."""
        at, log_factor = self._moved(epsilon, 1.0)
        top = (self.start + self.window.size) * self.window.h + self.offset - at
        outside = self.high * math.exp(-self.window.lam * max(top, 0.0))
        if at < self.start * self.window.h + self.offset:  # then sums below the window may exceed epsilon
            outside += self.low
        alone = math.exp(min(0.0, self.log_common - self.window.steep * at))
        return _scaled(self._sum(at, 1.0) + outside, log_factor) + alone + self.beyond * (1.0 + 1e-12)

    def lower(self, epsilon: float) -> float:
        """A lower bound on delta at epsilon."""
        at, log_factor = self._moved(epsilon, -1.0)
        inside = max(0.0, self._sum(at, -1.0) - self.low - self.high)
        return _scaled(inside, log_factor) + self.beyond * (1.0 - 1e-12)

    def _moved(self, epsilon: float, side: float) -> tuple[float, float]:
        """Epsilon and the logarithm of the unit there, after the rounding of masses and losses in every step."""
        at = epsilon - side * self.steps * SHIFT
        return at, self.log_total - self.window.lam * at + side * (self.steps * (2.0 * RELATIVE) + 1e-12)

    def noise(self, epsilon: float, delta: float) -> float:
        """The share of delta, at epsilon, that the bounds on wrap-around and rounding amount to."""
        window = self.window
        log_value = math.log(max(delta - self.beyond, 1e-300)) - self.log_total + window.lam * epsilon
        bounds = self.low + self.high + self.error / math.sqrt(min(1.0, window.lam * window.h)) + 1e-300
        return math.exp(min(math.log(bounds) - log_value, 700.0))

    def slope(self, epsilon: float) -> float:
        """That of -log delta at epsilon, about: what an error in epsilon means for delta."""
        reach = 0.01 / self.window.lam
        values = self.upper(epsilon), self.upper(epsilon + reach)
        return math.log(values[0] / values[1]) / reach if min(values) > 0.0 else 0.0

    @np.errstate(under="ignore")
    def _sum(self, at: float, side: float) -> float:
        window = self.window
        at -= self.offset
        first = max(0, math.floor(at / window.h) + 1 - self.start)
        reach = math.ceil(50.0 / (window.lam * window.h)) + 1 if window.lam * window.h > 1e-9 else window.size
        law = self.law[first : first + reach]
        x = (self.start + first) * window.h - at + np.arange(len(law)) * window.h
        weights = np.exp(-window.lam * x) * -np.expm1(-x)
        rounding = self.error * math.sqrt(float((weights * weights).sum())) * 1.001
        left_out = math.exp(-50.0) * 2.0 if first + reach < window.size else 0.0
        return float((law * weights).sum()) + side * (rounding + left_out)


def _scaled(value: float, log_factor: float) -> float:
    return math.exp(min(700.0, math.log(value) + log_factor)) if value > 0.0 else 0.0


class Transform(NamedTuple):
    """The tilted masses of one lattice after the FFT, as logarithms: a step counts by a factor."""

    lattice: Lattice
    totals: dict[float, float]  # tilt -> log of the total mass under it
    main: int  # the index of the largest mass, from which indices are counted
    logs: Any
    sizes: Array  # logs of moduli, enlarged by what rounding may add
    rate: Array  # of the error to that modulus
    common: Any  # logs of the common losses' transforms
    gain: Any  # what the rare losses add to these
    share: Array  # the same of the enlarged moduli
    rate_common: Array
    alone: float  # log of the common mass under the steep tilt


@np.errstate(under="ignore", over="ignore")  # an infinite error says nothing, as it should
def transformed(lattice: Lattice, window: Window) -> Transform:
    """The transform of the masses, tilted and, where the window says so, split."""
    from scipy import fft  # the import costs as much as twenty modules of dpml

    size, lam, split = window.size, window.lam, window.common > -math.inf
    real: Any = np.float64 if window.unit == UNIT else np.longdouble
    unit = 8.0 * window.unit * math.log2(size)
    tilts = (lam, window.below, window.above, lam + (window.above - lam) / 8.0, lam + (window.below - lam) / 8.0)
    losses = (lattice.start + np.arange(len(lattice.masses))).astype(real) * window.h + lattice.offset
    totals = {s: _log_total(lattice.masses, losses, s) for s in tilts}
    tilted = _tilt(lattice.masses, lam * losses - totals[lam])
    first = int(np.searchsorted(losses, window.common, side="right"))
    main = int(tilted[:first].argmax()) if first else 0
    folded, rows = _folded(tilted[first:], first - main, size)
    # rounding of a tilted mass: of the exponent, and a few operations
    fixed = (8.0 + rows + abs(totals[lam])) * window.unit
    z, total = fft.rfft(folded), float(folded.sum())
    wrong = total * (unit + fixed + 2.0 * abs(lam) * max(abs(losses[0]), abs(losses[-1])) * window.unit)
    size_z = np.abs(z) + wrong
    none, alone = np.zeros(1), -math.inf
    logs_c = gain = share = rate_common = none
    if split:
        folded, rows = _folded(tilted[:first], -main, size)
        most, folded[0] = folded[0], 0.0  # whose transform is a constant
        fixed += (24.0 + rows + 2.0 * abs(lam) * max(abs(losses[0]), abs(window.common))) * window.unit
        total = float(folded.sum())
        c, wrong_c = most + fft.rfft(folded), total * unit + (total + most) * fixed
        c[c == 0.0] = 1e-30  # so that it has a logarithm
        size_c = np.abs(c) + wrong_c
        logs_c, gain = np.log(c), _log1p(z / c)
        share, rate_common = np.log1p(size_z / size_c), wrong_c / size_c
        if most > 0.0:
            alone = _log_total(lattice.masses[:first], losses[:first], window.steep)
        z, size_z = z + c, size_z + size_c
    z[z == 0.0] = 1e-300
    return Transform(
        lattice, totals, main, np.log(z), np.log(size_z), wrong / size_z, logs_c, gain, share, rate_common, alone
    )


@np.errstate(under="ignore", over="ignore")
def tilted_profile(parts: list[tuple[Transform, int]], window: Window) -> Profile:
    """The profile of the sum."""
    from scipy import fft

    size, h, lam, split = window.size, window.h, window.lam, window.common > -math.inf

    def added(terms: Callable[[Transform], Any]) -> Any:
        return sum(count * terms(seen) for seen, count in parts)

    steps = float(sum(count for _, count in parts))
    totals = {s: added(lambda seen: seen.totals[s]) for s in parts[0][0].totals}  # noqa: B023
    shift, moved = added(lambda seen: seen.lattice.offset), added(lambda seen: seen.lattice.start + seen.main)
    log_common = added(lambda seen: seen.alone) if split else -math.inf
    modulus = added(lambda seen: seen.sizes)
    matter = modulus > -60.0
    values = np.zeros_like(parts[0][0].logs)
    values[matter] = np.exp(added(lambda seen: seen.logs[matter]))
    weights = np.exp(modulus[matter])
    error_of = weights * added(lambda seen: seen.rate[matter])
    if split:
        of_common, gain = added(lambda seen: seen.common), added(lambda seen: seen.gain)
        close = matter & (added(lambda seen: np.abs(seen.gain)) < 1.0)
        values[matter] -= np.exp(of_common[matter])
        values[close] = np.exp(of_common[close]) * _expm1(gain[close])
        weights *= -np.expm1(-added(lambda seen: seen.share[matter]))
        error_of += weights * added(lambda seen: seen.rate_common[matter])
    error_of += weights * (8.0 * window.unit * math.log2(size) + 8.0 * window.unit)
    # sums of products, not @: threads of BLAS cost more than they give here
    error = math.sqrt(2.0 / size * float((error_of * error_of).sum())) * 1.001 + math.exp(-60.0)
    spare = 1e-6 + 1e-11 * steps  # rounding of the logarithms
    start = math.floor((window.low - shift) / h)
    law = np.roll(fft.irfft(values, size), -((start - moved) % size)).astype(np.float64)
    edge_low, edge_high = start * h + shift, (start + size) * h + shift
    low = high = 1.0
    for s, log_total in totals.items():
        if s < lam:
            low = min(low, math.exp(min(0.0, log_total - totals[lam] + (lam - s) * edge_low + spare)))
        elif s > lam:
            high = min(high, math.exp(min(0.0, log_total - totals[lam] - (s - lam) * edge_high + spare)))
    if added(lambda seen: seen.lattice.start) >= start:
        low = 0.0  # no sum lies below
    if added(lambda seen: seen.lattice.start + len(seen.lattice.masses) - 1) < start + size:
        high = 0.0
    beyond = -math.expm1(added(lambda seen: math.log1p(-seen.lattice.beyond)))
    return Profile(window, law, start, shift, error, low, high, totals[lam], log_common + spare, steps, beyond)


def _tilt(masses: Array, exponents: Array) -> Array:
    if max(exponents[0], exponents[-1]) < 600.0:
        return masses * np.exp(exponents)
    with np.errstate(divide="ignore"):
        return np.exp(exponents + np.log(masses.astype(exponents.dtype)))


def _log_total(masses: Array, losses: Array, s: float) -> float:
    """log of the sum of masses e^{s loss}, added up in pairs so that its rounding stays at some units."""
    if -600.0 < max(s * losses[0], s * losses[-1]) < 600.0:
        return math.log(float((masses * np.exp(s * losses)).sum()))
    held = masses > 0.0
    exponents = s * losses[held] + np.log(masses[held])
    peak = float(exponents.max())
    return peak + math.log(float(np.exp(exponents - peak).sum()))


def _folded(masses: Array, start: int, size: int) -> tuple[Array, int]:
    """Masses at start, start + 1, ... added up modulo the size, and how many fell on one place at most."""
    offset = start % size
    rows = -(-(offset + len(masses)) // size)
    padded = np.zeros(rows * size, dtype=masses.dtype)
    padded[offset : offset + len(masses)] = masses
    return padded.reshape(rows, size).sum(axis=0), rows


def _log1p(z: Any) -> Any:
    """That of SciPy, which knows no complex numbers of more than 64 bits a part."""
    x, y = z.real, z.imag
    square = np.maximum(2.0 * x + (x * x + y * y), -1.0 + 1e-15)  # so that 0 has a logarithm
    return 0.5 * np.log1p(square) + 1j * np.arctan2(y, 1.0 + x)


def _expm1(z: Any) -> Any:
    x, y = z.real, z.imag
    return np.expm1(x) * np.cos(y) - 2.0 * np.sin(y / 2.0) ** 2 + 1j * (np.exp(x) * np.sin(y))
