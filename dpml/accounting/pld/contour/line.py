r"""The profile of many Poisson-sampled Gaussian steps by a contour integral, with every error counted.

For S the sum of T losses, $\delta(x) = E[(1 - e^{x - S})_+]$ for every real x, and any $\lambda > 0$, the function
$f(x) = e^{\lambda x}\,\delta(x)$ has the Fourier transform $E\,e^{sS}/(s(s+1))$ with $s = \lambda + it$. By Poisson's
summation formula, for any length $\Lambda$ and $t_k = 2\pi k/\Lambda$, $s_k = \lambda + i t_k$,

.. math::

    e^{-\lambda\varepsilon} \sum_{j} f(\varepsilon + j \Lambda)
    = \frac{e^{-\lambda\varepsilon}}{\Lambda} \sum_{k} \frac{E\,e^{s_k S}}{s_k (s_k+1)}\, e^{-i t_k \varepsilon}
    = \frac{e^{K - \lambda\varepsilon}}{\Lambda} \sum_k \frac{\varphi(t_k)^T}{s_k (s_k + 1)}\,
      e^{i t_k (T m - \varepsilon)},

$K = \log E\,e^{\lambda S}$; $\varphi$ is the characteristic function of one tilted loss less m (`transform`).
The term j = 0 on the left is delta. The errors, which are added to the upper end and subtracted from the lower:

- Aliases, j != 0. They are >= 0, so the upper end needs no bound of them. For the lower end, Chernoff's bound
  $\delta(x) \le c(\mu) e^{K(\mu) - \mu x}$ with $c(\mu) = \mu^\mu (1+\mu)^{-1-\mu}$ holds for all real x; with a
  $\mu < \lambda$ for j < 0 and a $\mu > \lambda$ for j > 0 the sums are geometric:
  $c(\mu) e^{K(\mu) - \mu\varepsilon}/(e^{|\mu - \lambda| \Lambda} - 1)$.
- Truncation after k = n. For $t \ge t_{n+1}$, $|\varphi(t)| \le 1 - D$ with the D of `transform.deficit`, and
  $\sum_{k > n} 1/|s_k (s_k+1)| \le \Lambda \min(1/t_n, \pi/(2\lambda))/(2\pi)$.
- Quadrature, nodes left out and rounding in $\varphi$, at most e: by the mean value theorem $\varphi^T$ is wrong by at
  most $T e (|\hat\varphi| + e)^{T-1}$; and K by T e.
- Rounding of logarithms, powers, angles and sums: units of u = 2^-53 times the sizes of what is rounded.

How large these are decides whether the two ends are close, never whether they hold. They are not close where the sum
of the losses has jumps that no step smooths: few steps, or rarely drawn records with little noise. There, or where the
work would exceed `MOST_WORK`, there is no answer (None), and the lattice of `dpml.accounting.pld.lattice` takes over.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpml.accounting.pld.contour import placement, transform
from dpml.accounting.pld.contour.placement import Placement, Step
from dpml.accounting.pld.contour.transform import UNIT, Tilted
from dpml.accounting.pld.pairs import Array

MOST_WORK = 8_000_000
"""Nodes of the line times nodes of the quadrature; more would take longer than the lattice."""

_COUNTS = np.unique(np.ceil(np.geomspace(2.0, 20_000.0, 56)))


class Line(NamedTuple):
    """The sum over the nodes of one line, as a function of epsilon, in units of e^{K - lam epsilon}.

    Every array has a row, or an entry, for each number of steps.
    """

    lam: float
    log_total: Array  # K
    slack: Array  # error of K and of the exponent at epsilon = 0
    frequencies: Array
    coefficients: NDArray[np.complex128]
    centre: Array  # T m
    error: Array
    angle_error: Array  # more of it, per unit of |centre| + epsilon
    aliases: tuple[tuple[Array, float], ...]  # bounds e^{a + b epsilon}

    def log_upper(self, epsilon: Array) -> tuple[Array, Array]:
        """log of an upper bound of delta at epsilon, and its slope (the latter without guarantee)."""
        turned = self._turned(epsilon)
        value = turned.real.sum(axis=1)
        slope = (turned.imag @ self.frequencies) / np.maximum(value, 1e-300) - self.lam
        value += self.error + self.angle_error * (np.abs(self.centre) + epsilon)
        return self._log(value, epsilon, 1.0), slope

    def log_lower(self, epsilon: Array) -> Array:
        """log of a lower bound of delta at epsilon."""
        value = self._turned(epsilon).real.sum(axis=1)
        value -= self.error + self.angle_error * (np.abs(self.centre) + epsilon)
        value -= sum(np.exp(np.minimum(a + b * epsilon, 700.0)) for a, b in self.aliases)
        return self._log(value, epsilon, -1.0)

    def _turned(self, epsilon: Array) -> NDArray[np.complex128]:
        turned: NDArray[np.complex128] = np.exp(1j * np.multiply.outer(self.centre - epsilon, self.frequencies))
        turned *= self.coefficients
        return turned

    def _log(self, value: Array, epsilon: Array, sign: float) -> Array:
        """log of what is given in units of e^{K - lam epsilon}, on the safe side where it is not above 0."""
        slack = self.slack + 8.0 * UNIT * self.lam * epsilon
        found: Array = np.log(np.maximum(value, 1e-300)) + (self.log_total - self.lam * epsilon + sign * slack)
        return np.where(value > 1e-300, found, sign * math.inf)


def line(step: Step, steps: Array, plan: Placement, accuracy: float) -> Line | None:
    """The line of a plan for increasing numbers of steps, cut off at about `accuracy` of delta.

    None where that would take too long.
    """
    lam, length = plan.lam, plan.length
    power, eta = step.power(lam), 2.0 * math.pi / length
    under = transform.layers(step.tilted(power, 0.0), step.q, step.sigma, power)
    wanted = plan.log_value + math.log(0.3 * accuracy)
    for counts in np.split(_COUNTS, [16, 32]):
        log_decay = np.log1p(-transform.deficit(under, (counts + 1.0) * eta))
        log_rest = np.log(np.minimum(1.0 / (counts * eta), math.pi / (2.0 * lam)) / math.pi)
        fine = steps[0] * log_decay + log_rest <= wanted
        if fine[-1]:
            break
    else:
        return None
    at = int(np.argmax(fine))
    count, tails = int(counts[at]), np.exp(steps * log_decay[at] + log_rest[at])
    top = count * eta
    if (count + 1) * (step.node_count(power, top) + len(steps)) > MOST_WORK:
        return None
    law = step.tilted(power, top)
    k: Array = np.arange(count + 1, dtype=np.float64)
    z, frequencies = transform.characteristic(law, eta, count), eta * k
    if step.sign < 0.0:
        z = z.conj()
    each = law.error + 8.0 * UNIT * k
    z[z == 0.0] = 1e-300  # so that it has a logarithm
    logs, log_size = np.log(z), np.log(np.abs(z) + each)
    s = lam + 1j * frequencies
    weight = (2.0 / length) / (s * (s + 1.0))
    weight[0] *= 0.5
    coefficients = np.exp(np.multiply.outer(steps, logs))
    coefficients *= weight
    power_error = np.exp(np.multiply.outer(steps, log_size))
    wrong = steps * (power_error @ (np.abs(weight) * (each / np.exp(log_size) + 8.0 * UNIT * np.abs(logs))))
    wrong += 32.0 * UNIT * (power_error @ np.abs(weight))
    total = np.abs(coefficients).sum(axis=1)
    centre, log_total = steps * (law.mean * step.sign), steps * law.log_moment
    error: Array = (tails + wrong) * (1.0 + 1e-9) + UNIT * (16.0 + 2.0 * count) * total
    slack = steps * law.error + 16.0 * UNIT * (1.0 + np.abs(log_total))
    sides = tuple(_alias(step, steps, law, lam, float(plan.lams[i]), length) for i in plan.sides)
    return Line(lam, log_total, slack, frequencies, coefficients, centre, error, 4.0 * UNIT * top * total, sides)


def _alias(step: Step, steps: Array, law: Tilted, lam: float, mu: float, length: float) -> tuple[Array, float]:
    """The aliases on the side of mu, in units of e^{K - lam epsilon}, are below e^{a + b epsilon}: a and b."""
    log_moment, error = 0.0, 0.0
    if mu > 0.0:
        other = step.tilted(step.power(mu), 0.0)
        log_moment, error = other.log_moment, other.error
    spare = 1e-6 + steps * (error + law.error + 8.0 * UNIT * (abs(log_moment) + abs(law.log_moment)))
    gap = abs(mu - lam) * length
    log_sum = -gap - math.log(-math.expm1(-gap))
    constant = float(placement.best_constant(np.array(mu)))
    return steps * (log_moment - law.log_moment) + constant + log_sum + spare, lam - mu
