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
The term j = 0 on the left is delta, or delta of what a cut keeps; all that follows holds for laws of less mass than 1.
The errors, which are added to the upper end and subtracted from the lower:

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
of the losses has jumps that no step smooths: few steps, or rarely drawn records with little noise. There the line is
blurred. Add to S an independent normal G of mean $w^2/2$ and variance $w^2$, the loss of one more Gaussian mechanism:
that can only raise the profile, and makes the terms fall as $e^{-w^2 t^2/2}$,

.. math::

    E\,e^{sG} = e^{w^2 (s^2 + s)/2}, \qquad
    0 \le E\bigl[(1 - e^{-v - G})_+\bigr] - (1 - e^{-v})_+ \le B(v) = \frac{w}{\sqrt{2\pi}} e^{-v^2/(2w^2) - v/2} .

(With $x = e^{-v}$ the difference is the price of an option out of the money; over $\sqrt x$ it has the derivative
$e^{-v^2/(2w^2) - w^2/8}/\sqrt{2\pi}$ in w, and the exponential grows with w.) The first inequality makes the blurred
sum an upper end. The second makes it a lower end once $E\,B(S - \varepsilon)$ is subtracted, whose transform is
$w^2 e^{w^2/8}$ times that of G: $1/(s(s+1))$ becomes $1/(s(s+1)) - w^2 e^{w^2/8}$. The aliases of B are >= 0 and may
only help the lower end. The two ends are $w^2 (\lambda + 1)$ apart or so, however many steps there are. Where the work
would exceed `MOST_WORK` there is no answer (None), and the lattice of `dpml.accounting.pld.lattice` takes over.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpml.accounting.pld.contour import placement, transform
from dpml.accounting.pld.contour.placement import Placement
from dpml.accounting.pld.contour.transform import UNIT, Step, Tilted
from dpml.accounting.pld.pairs import Array

MOST_WORK = 8_000_000, 100_000_000
"""Nodes of the line times nodes of the quadrature, without a blur and with one: about a hundredth of a second, and
a tenth."""

_COUNTS = np.unique(np.ceil(np.geomspace(2.0, 20_000.0, 56)))
_MORE = np.append(_COUNTS, np.geomspace(26_000.0, 200_000.0, 12))  # too many for many numbers of steps


class Line(NamedTuple):
    """The sum over the nodes of one line, as a function of epsilon, in units of e^{K - lam epsilon}.

    Every array has a row, or an entry, for each number of steps.
    """

    lam: float
    log_total: Array  # K
    slack: Array  # error of K and of the exponent at epsilon = 0
    frequencies: Array
    coefficients: NDArray[np.complex128]
    below: NDArray[np.complex128] | float  # what turns them into those of the lower end
    centre: Array  # T m
    error: Array
    angle_error: Array  # more of it, per unit of |centre| + epsilon
    aliases: tuple[tuple[Array, float], ...]  # bounds e^{a + b epsilon}
    log_lost: Array  # what a cut may add to delta

    @np.errstate(under="ignore")
    def log_upper(self, epsilon: Array) -> tuple[Array, Array]:
        """log of an upper bound of delta at epsilon, and its slope (the latter without guarantee)."""
        turned = self._turned(epsilon)
        value = transform.total(turned.real)
        slope = (turned.imag @ self.frequencies) / np.maximum(value, 1e-300) - self.lam
        value += self.error + self.angle_error * (np.abs(self.centre) + epsilon)
        return np.logaddexp(self._log(value, epsilon, 1.0), self.log_lost), slope

    @np.errstate(under="ignore")
    def log_lower(self, epsilon: Array) -> Array:
        """log of a lower bound of delta at epsilon."""
        value = transform.total((self._turned(epsilon) * self.below).real)
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


@np.errstate(under="ignore", over="ignore", invalid="ignore")  # an infinite error says nothing, as it should
def line(step: Step, steps: Array, plan: Placement, accuracy: float, blur: float = 0.0) -> Line | None:
    """The line of a plan for increasing numbers of steps, cut off at about `accuracy` of delta, with blur w.

    None where that would take too long.
    """
    lam, length = plan.lam, plan.length
    power, eta = step.power(lam), 2.0 * math.pi / length
    under = transform.layers(step.tilted(power, 0.0), step, power)
    wanted = plan.log_value + math.log(0.3 * accuracy)
    for counts in np.split(_COUNTS if len(steps) > 1 else _MORE, [16, 32]):
        t = counts * eta
        log_decay = np.log1p(-transform.deficit(under, t + eta))
        rest = np.minimum(1.0 / t, math.pi / (2.0 * lam)) + (1.01 / t if blur else 0.0)
        log_rest = np.log(rest / math.pi) - 0.5 * (blur * t) ** 2
        fine = steps[0] * log_decay + log_rest <= wanted
        if fine[-1]:
            break
    else:
        return None
    at = int(np.argmax(fine))
    count, tails = int(counts[at]), np.exp(steps * log_decay[at] + log_rest[at])
    top = count * eta
    low, high = step.range(power, power)
    nodes = (high - low) / transform.step_for(step, power, top) + len(steps)
    if (count + 1 + 300 * (blur > 0.0)) * nodes > MOST_WORK[blur > 0.0]:
        return None
    law = step.tilted(power, top)
    k: Array = np.arange(count + 1, dtype=np.float64)
    moved, frequencies = transform.characteristic(law, eta, count), eta * k
    if step.sign < 0.0:
        moved = moved.conj()
    logs, each = special.log1p(moved), law.error(frequencies, np.minimum(k, 2.0 * math.sqrt(count + 1.0) + 3.0))
    np.maximum(logs.real, -690.0, out=logs.real)  # a finite number where the transform is 0
    log_size = logs.real + np.log1p(each * np.exp(-logs.real))
    s = lam + 1j * frequencies
    whole: NDArray[np.complex128] = s * (s + 1.0)
    bump = blur * blur * math.exp(blur * blur / 8.0)
    weight = (2.0 / length) * np.exp(-0.5 * (blur * frequencies) ** 2) / whole
    weight[0] *= 0.5
    coefficients = np.exp(np.multiply.outer(steps, logs))
    coefficients *= weight
    sizes = np.abs(weight) * (1.0 + bump * np.abs(whole))
    power_error = np.exp(np.multiply.outer(steps, log_size))
    total = power_error @ sizes
    wrong = steps * (power_error @ (sizes * (each / np.exp(log_size) + 16.0 * UNIT * np.abs(logs))))
    centre = steps * (law.mean * step.sign) + blur * blur * (lam + 0.5)
    log_total = steps * law.log_moment + 0.5 * blur * blur * lam * (lam + 1.0)
    error: Array = (tails + wrong) * (1.0 + 1e-9) + UNIT * (52.0 + 2.0 * transform.additions(count + 1)) * total
    slack = steps * law.moment_error + 16.0 * UNIT * (1.0 + np.abs(log_total))
    sides = tuple(_alias(step, steps, law, lam, float(plan.lams[i]), length, blur) for i in plan.sides)
    below: NDArray[np.complex128] | float = 1.0 - bump * whole if blur else 1.0
    of_angle = 4.0 * UNIT * top * total
    log_lost = np.log(np.maximum(steps * step.lost() * (1.0 + 1e-9), 1e-300))
    return Line(lam, log_total, slack, frequencies, coefficients, below, centre, error, of_angle, sides, log_lost)


def _alias(
    step: Step, steps: Array, law: Tilted, lam: float, mu: float, length: float, blur: float
) -> tuple[Array, float]:
    """The aliases on the side of mu, in units of e^{K - lam epsilon}, are below e^{a + b epsilon}: a and b."""
    log_moment, error = 0.0, 0.0
    if mu > 0.0:
        other = step.tilted(step.power(mu), 0.0)
        log_moment, error = other.log_moment, other.moment_error
    spare = 1e-6 + steps * (error + law.moment_error + 8.0 * UNIT * (abs(log_moment) + abs(law.log_moment)))
    gap = abs(mu - lam) * length
    log_sum = -gap - math.log(-math.expm1(-gap))
    constant = float(placement.best_constant(np.array(mu)))
    constant += 0.5 * blur * blur * (mu * (mu + 1.0) - lam * (lam + 1.0))
    return steps * (log_moment - law.log_moment) + constant + log_sum + spare, lam - mu
