r"""The moments accountant: add up log-moments of the privacy loss over the steps, convert to (epsilon, delta) once.

For a mechanism M with loss $\ell(y; M, D, D') = \log(P(M(D) = y)/P(M(D') = y))$ and $\lambda > 0$ let

.. math::

    \alpha_M(\lambda) = \sup_{D, D' \text{ neighbours}} \log \mathbb E_{y \sim M(D)}
    \bigl[e^{\lambda\, \ell(y; M, D, D')}\bigr] .

It is $\lambda$ times the Rényi divergence of order $\lambda + 1$: `order` = `lam` + 1 in `dpml.accounting.rdp`.

Theorem (composition). Steps chosen one after the other, each after seeing the outputs before it, together have
$\alpha(\lambda) \le \sum_t \alpha_t(\lambda)$, if each $\alpha_t$ holds whatever those outputs were.

Theorem (tail bound). M is $(\varepsilon, \delta)$-differentially private with
$\delta = \min_\lambda \min(1, e^{\alpha_M(\lambda) - \lambda\varepsilon})$, equivalently
$\varepsilon = \min_\lambda (\alpha_M(\lambda) + \log(1/\delta))/\lambda$.

Proof. By Markov's inequality the loss exceeds $\varepsilon$ with probability at most
$e^{\alpha(\lambda) - \lambda\varepsilon}$ under D. Split an event E by whether it does: off that bad event
$P(M(D) = y) \le e^\varepsilon P(M(D') = y)$.

Subsampled Gaussian. A step adds N(0, sigma^2), independent in each coordinate, to a sum of vectors of length at most 1
over a fresh Poisson sample, into which each record comes with probability q. Neighbours: add/remove one record. With
$\mu_0 = N(0, \sigma^2)$, $\mu_1 = N(1, \sigma^2)$ and $\mu = (1-q)\mu_0 + q\mu_1$ the worst pair is $(\mu, \mu_0)$ in
one of its two directions, and

.. math::

    \alpha(\lambda) = \log\max(E_1, E_2), \qquad
    E_1 = \mathbb E_{z \sim \mu_0}\bigl[(\mu_0/\mu)^\lambda\bigr], \quad
    E_2 = \mathbb E_{z \sim \mu}\bigl[(\mu/\mu_0)^\lambda\bigr] .

Mironov, Talwar and Zhang (2019) prove $E_2 \ge E_1$. For whole $\lambda$ the binomial theorem makes $E_2$ a sum,

.. math::

    E_2 = \sum_{k=0}^{\lambda+1} \binom{\lambda+1}{k} (1-q)^{\lambda+1-k} q^k\, e^{(k^2-k)/(2\sigma^2)} .

How the integrals are computed without cancellation, at any real lambda, and why their error is far below 1e-10 is told
in `dpml.accounting.subsampled_gaussian`.

Nothing here holds for samples of fixed size or for replaced records.
"""

from __future__ import annotations

import math

import numpy as np

from dpml import arguments
from dpml.accounting.guarantee import Guarantee
from dpml.accounting.subsampled_gaussian import log_e1, log_moments, without_accounting

__all__ = ["epsilon", "log_moment", "log_moment_e1"]


def log_moment(lam: float, *, q: float, sigma: float) -> float:
    r"""Return alpha(lam) = log max(E_1, E_2) = log E_2 of one step of the Poisson-subsampled Gaussian mechanism.

    `lam` is any real number in (0, 10^18], not only an integer; the Rényi order is lam + 1. Neighbours: add/remove one
    record. 0 at q = 0, lam (lam + 1)/(2 sigma^2) at q = 1. Relative error below 1e-12 for q >= 1e-200, also
    where the value is 1e-30.

    Raises:
        ValueError: if lam is not in (0, 10^18], sigma not in (0, inf), q not in [0, 1], or the result exceeds the
            range of floats.

    Source: the lecture, slide "Moments Accountant" with E_1 and E_2; Mironov, Talwar and Zhang, "Rényi differential
    privacy of the sampled Gaussian mechanism" (2019), Theorem 4 and section 3, where E_2 >= E_1 is shown.

    Printed: each step of DP-SGD is "a Gaussian mechanism that is amplified by sub-sampling", and E_1 and E_2 give its
    moments; the lecture's amplification theorem is about samples of fixed size m = gamma n and a replaced record.

    Implemented: E_1 and E_2 for what they are true of, Poisson sampling and one record added or removed. With fixed
    samples and a replaced record whose clipped gradient is +C in one dataset and -C, like all others, in the other, 1e4
    steps at gamma = 0.01, sigma = 4 have epsilon >= 2.1626 at delta = 1e-5, while E_1 and E_2 give 1.25857.

    Counterexample: what E_1 and E_2 give, and what a pair of neighbours shows for fixed samples.

    >>> from dpml.accounting import moments
    >>> from dpml.accounting.pld import fixed_size
    >>> run = {"q": 0.01, "sigma": 4.0, "steps": 10_000, "delta": 1e-5}
    >>> (
    ...     round(moments.epsilon(**run).epsilon, 5),
    ...     round(fixed_size.epsilon_bounds(**run).lower, 4),
    ... )
    (1.25857, 2.1627)
    """
    lam, q, sigma = _checked(lam, q, sigma, 1e18)
    return arguments.finite("sigma", sigma, float(log_moments(np.array([lam]), q, sigma)[0]))


def log_moment_e1(lam: float, *, q: float, sigma: float) -> float:
    r"""Return log E_1, the log-moment of the loss of mu_0 against mu: a record is added.

    Neighbours and accuracy as in `log_moment`; never above `log_moment`.

    Raises:
        ValueError: if lam is not in (0, 10^6], sigma not in (0, inf), q not in [0, 1], or the result exceeds the range
            of floats.

    Source: the lecture, slide "Moments Accountant", E_1.
    """
    lam, q, sigma = _checked(lam, q, sigma, 1e6)
    if q in {0.0, 1.0}:
        return log_moment(lam, q=q, sigma=sigma)  # the two directions coincide
    return arguments.finite("sigma", sigma, log_e1(lam, q, sigma))


def epsilon(*, q: float, sigma: float, steps: int, delta: float, max_lam: int = 32) -> Guarantee:
    r"""Return the lecture's guarantee: the least (steps alpha(lam) + log(1/delta))/lam over lam = 1, ..., max_lam.

    Poisson sampling, neighbours add/remove; an upper bound, rounded up. Its `order` is the best lam + 1. Where that is
    max_lam + 1, a larger max_lam may do better; where it is 2, real orders below it may:
    `dpml.accounting.rdp.epsilon` searches all real orders and uses a sharper conversion.

    epsilon is 0 if q or steps is 0. Without noise (sigma = 0) it is 0 where the record is sampled at all with
    probability 1 - (1-q)^steps <= delta, and else infinite. It is infinite at delta = 0.

    Raises:
        ValueError: if q or delta is not in [0, 1], sigma not in [0, inf), steps not an integer in [0, 2^53], max_lam
            not an integer in [1, 10^6], or the result exceeds the range of floats.

    Source: the lecture, slide "Moments Accountant" on DP-SGD; Abadi et al., "Deep learning with differential
    privacy", CCS 2016, Theorem 2 and section 3.2, with integer lam up to 32.
    """
    q = arguments.probability("q", q)
    sigma = arguments.real("sigma", sigma, 0.0)
    steps = arguments.integer("steps", steps, 0, 2**53)
    delta = arguments.probability("delta", delta)
    max_lam = arguments.integer("max_lam", max_lam, 1, 10**6)
    known = without_accounting(q, sigma, steps, delta)
    if known is not None:
        return _labelled(known, delta, None)
    lam = np.arange(1.0, max_lam + 1.0)
    with np.errstate(over="ignore"):
        values = (steps * log_moments(lam, q, sigma) - math.log(delta)) / lam
    best = int(values.argmin())
    value = arguments.finite("sigma", sigma, float(values[best]) * (1.0 + 2.0**-40))  # 2^-40: rounding, amply
    return _labelled(value, delta, float(lam[best]) + 1.0)


def _checked(lam: float, q: float, sigma: float, most: float) -> tuple[float, float, float]:
    return (
        arguments.real("lam", lam, 0.0, most, low_open=True),
        arguments.probability("q", q),
        arguments.real("sigma", sigma, 0.0, low_open=True),
    )


def _labelled(value: float, delta: float, order: float | None) -> Guarantee:
    return Guarantee(value, delta=delta, kind="upper bound", adjacency="add/remove", sampling="Poisson", order=order)
