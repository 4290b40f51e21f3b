r"""What noise for privacy does to Byzantine resilience: constants, conditions, bounds, and the privacy that it gives.

Setting. n workers hold the *same* records, $b/q$ of them, f = `n_byzantine` of the workers are Byzantine. In each step
an honest worker draws b = `m` records without replacement, and sends

.. math::

    G = \frac1b \sum_{x \in B} \nabla q(\theta, x) + N(0, s^2 I_d), \qquad \|\nabla q\| \le C .

Neighbours: one record replaced, so that the average moves by at most 2C/b. (Poisson samples, for add/remove neighbours,
have functions of their own.) $\nabla Q = \mathbb{E}\,G$ is the gradient over all records.

**Privacy of a step.** With $\varepsilon' = \log(1 + (e^\varepsilon - 1)/q)$ a step is $(\varepsilon,
q\,\delta_\sigma(\varepsilon'))$-private, where $\sigma = sb/(2C)$ and $\delta_\sigma$ is the exact Gaussian profile;
and no less: in the worst pair all other records have gradient -Cv, the replaced one +Cv (`one_step_delta`).

**The variance-to-norm condition** of a rule with constant $\kappa$ is $\kappa^2\, \mathbb{E}\|G - \nabla Q\|^2 <
\|\nabla Q\|^2$ wherever $\nabla Q \ne 0$; its approximate form asks for it only where $\|\nabla Q\| > \eta$. Since
$\mathbb{E}\|G - \nabla Q\|^2 \ge d s^2$ the first cannot hold with noise near a critical point (Proposition 1), and the
second only if

.. math::

    \eta^2 \ge \min\bigl(\kappa^2 d s^2,\ \sup \|\nabla Q\|^2\bigr);

if the gradient takes a length between $\eta$ and the root of the right side, which by continuity it does as soon as
$\eta$ is below both, then the condition fails there. It holds if $\eta^2 \ge \kappa^2 (d s^2 + v^2 (M - b)/(b (M -
1)))$, M = b/q, where $v^2$ bounds the variance of one record's gradient.

**Convergence.** Let $\langle \nabla Q, \mathbb{E} R \rangle \ge (1 - \sin\alpha) \|\nabla Q\|^2$ and $\mathbb{E}\|R\|^2
\le \mu\,\mathbb{E}\|G\|^2$ where $\|\nabla Q\| > \eta$, Q of smoothness L, $\gamma_t = 1/\sqrt t$. Then

.. math::

    \mathbb{E} \min_{t \le T} \|\nabla Q(\theta_t)\|^2 \le \eta^2 + \frac{Q(\theta_1) - Q^*}{(1 - \sin\alpha)\sqrt T} +
    \frac{\mu \sigma^2 L\,(1 + \log T)}{2 (1 - \sin\alpha) \sqrt T}, \qquad \sigma^2 = v^2 + d s^2 + C^2 .

Proof. Let $\tau$ be the first t with $\|\nabla Q(\theta_t)\| \le \eta$. Before it, $\mathbb{E}_t Q(\theta_{t+1}) \le
Q(\theta_t) - \gamma_t (1 - \sin\alpha) \|\nabla Q(\theta_t)\|^2 + \gamma_t^2 \mu\sigma^2 L/2$; whether t < tau is known
before step t, so the inequality may be multiplied by its indicator and summed: $(1 - \sin\alpha)\,\mathbb{E} \sum_{t <
\tau, t \le T} \gamma_t \|\nabla Q(\theta_t)\|^2 \le Q(\theta_1) - Q^* + \mu\sigma^2 L (1 + \log T)/2$. Where $\tau > T$
the sum is at least $\sqrt T$ times the minimum, as $\sum_{t \le T} \gamma_t \ge \sqrt T$; where $\tau \le T$ the
minimum is at most $\eta^2$. Add the two. QED

**Noise and a small lie.** Let the honest vectors be nothing but noise, h = n - f of them, d large, and let f copies of
average + z deviations be sent. Then squared distances are $2 d s^2$ between honest ones, $d s^2 (1 - 1/h + z^2)$ to a
Byzantine one, and 0 between these. Krum's score of a copy is then the least if
$(n - 2f - 1)(1 - 1/h + z^2) < 2 (n - f - 2)$ (`krum_threshold`), and a set with all copies has the least diameter if
$1 - 1/h + z^2 < 2$ (`mda_threshold`).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dpml import arguments, mechanisms
from dpml.accounting.guarantee import Guarantee
from dpml.accounting.pld import fixed_size, pairs
from dpml.byzantine._rows import blocks, finite_rows, host, liars, received

__all__ = [
    "ConvergenceBound",
    "EtaBounds",
    "Resilience",
    "batch_variance",
    "corollary_1",
    "kappa_bulyan",
    "kappa_krum",
    "kappa_mda",
    "kappa_mda_sound",
    "kappa_median",
    "krum_threshold",
    "mda_threshold",
    "measured_resilience",
    "noisy_vn_ratio",
    "one_step_delta",
    "proposition_2_bounds",
    "server_guarantee",
    "theorem_1_noise",
    "theorem_2_bound",
    "vn_ratio",
    "worker_guarantee",
    "worker_noise",
]


def kappa_krum(*, n: int, n_byzantine: int) -> float:
    """Return Krum's constant in the variance-to-norm condition.

    Raises:
        ValueError: if n is not an integer in [3, 1e9] or n_byzantine not one in [0, (n - 3) / 2].

    Source: the Byzantine paper (Guerraoui et al.), equation (8); Blanchard et al., "Machine learning with
    adversaries", NeurIPS 2017, Proposition 4.2.
    """
    n, f = _workers(n, n_byzantine, 2, 3)
    return math.sqrt(2.0 * (n - f + (f * (n - f - 2) + f * f * (n - f - 1)) / (n - 2 * f - 2)))


def kappa_bulyan(*, n: int, n_byzantine: int) -> float:
    """Return Bulyan's constant: that of Krum, on which it is built, where n >= 4f + 3.

    Raises:
        ValueError: if n is not an integer in [3, 1e9] or n_byzantine not one in [0, (n - 3) / 4].

    Source: the Byzantine paper (Guerraoui et al.), equation (13).
    """
    n, f = _workers(n, n_byzantine, 4, 3)
    return kappa_krum(n=n, n_byzantine=f)


def kappa_mda(*, n: int, n_byzantine: int) -> float:
    r"""Return the printed constant of minimum-diameter averaging, sqrt(8) f / (n - f).

    0 at f = 0, where the rule is the average. (The condition as defined wants it positive.)

    Raises:
        ValueError: if n is not an integer in [1, 1e9] or n_byzantine not one in [0, (n - 1) / 2].

    Source: the Byzantine paper (Guerraoui et al.), equation (10); El Mhamdi et al., ICML 2018.

    Printed: with this constant the variance-to-norm condition makes the rule Byzantine resilient. That takes the
    diameter of the honest vectors for $\sqrt2$ deviations. So far apart are two of them, in the mean square; the
    farthest two of many are farther, unless, as with noise in many coordinates, all distances are nearly equal. Let 12
    honest numbers be uniform on an interval of length 1, with mean 0.21: $\kappa^2/12 = 0.0417$ is below
    $0.21^2 = 0.0441$. Three liars on the other side of 0, at the place where they are just kept, move the expected
    answer to $0.21 - 1/4 = -0.04$.

    Implemented: the printed number, for comparison. `kappa_mda_sound` is enough for all laws.

    Counterexample: the condition, and the average answer over 500 draws.

    >>> import numpy as np
    >>> from dpml.byzantine import aggregation, theory
    >>> theory.kappa_mda(n=15, n_byzantine=3) ** 2 / 12 < 0.21**2
    True
    >>> rng, answers = np.random.default_rng(0), []
    >>> for _ in range(500):
    ...     honest = np.sort(rng.uniform(-0.29, 0.71, size=12))
    ...     lie = honest[8] - 0.999999 * (honest[11] - honest[0])
    ...     sent = np.append(honest, [lie] * 3)[:, None]
    ...     answers.append(float(aggregation.mda(sent, n_byzantine=3)[0]))
    >>> bool(np.mean(answers) < 0)
    True
    """
    n, f = _workers(n, n_byzantine, 2, 1)
    return math.sqrt(8.0) * f / (n - f)


def kappa_mda_sound(*, n: int, n_byzantine: int) -> float:
    r"""Return a constant of minimum-diameter averaging that is proved for every law: sqrt(8 (n - f - 1)) f / (n - f).

    Whatever is sent, the answer is within $2f/(n - f)$ diameters of the average of the h = n - f honest vectors. Of
    their diameter, $\|g_i - g_j\|^2 \le 2 \sum_k \|g_k - \bar g\|^2$, whose mean is 2 (h - 1) variances; so that
    $\|\mathbb{E} R - \mathbb{E} G\|$ is at most this constant times the deviation. The same as `kappa_mda` where h = 2.

    Raises:
        ValueError: as `kappa_mda`.

    Source: ours, with the argument of El Mhamdi et al., "The hidden vulnerability of distributed learning in
    Byzantium", ICML 2018.
    """
    n, f = _workers(n, n_byzantine, 2, 1)
    return kappa_mda(n=n, n_byzantine=f) * math.sqrt(n - f - 1)


def kappa_median(*, n: int, n_byzantine: int) -> float:
    """Return the constant of the coordinate-wise median, sqrt(n - f).

    Raises:
        ValueError: as `kappa_mda`.

    Source: the Byzantine paper (Guerraoui et al.), equation (12).
    """
    n, f = _workers(n, n_byzantine, 2, 1)
    return math.sqrt(n - f)


def theorem_1_noise(*, clip_norm: float, q: float, m: int, epsilon: float, delta: float) -> float:
    r"""Return the standard deviation s of the noise on each coordinate as the paper's Theorem 1 sets it.

    A formula, not a guarantee: calibrate with `worker_noise`. `clip_norm` bounds a record's gradient, `m` records are
    averaged, a fraction `q` of all.

    Raises:
        ValueError: if clip_norm is not in [1e-100, 1e100], q not in (0, m/(m + 1)] and not 1, m not an integer in
            [1, 1e12], epsilon not in (0, 1) or delta not in [1e-299, q); or if the result exceeds the range of floats.

    Source: the Byzantine paper (Guerraoui et al.), Theorem 1.

    Printed: $s = \frac{2C}{b\,\varepsilon'} \sqrt{2 \log(1.25\,b/(m\delta))}$ with $\varepsilon' = \log(1 +
    (e^\varepsilon - 1)\,m/b)$ gives $(\varepsilon, \delta)$ in every step, for all $(\varepsilon, \delta) \in (0,
    1)^2$. (There m is the number of records, b that of a batch.) The proof uses a lemma that needs $\varepsilon' < 1$;
    in the paper's experiments $\varepsilon'$ is 1.1 to 7. At C = 2, b = 25, m = 120000 (their images with the flipped
    ones), $\varepsilon = 0.2$ and $\delta = 10^{-5}$ the true $\delta$ is $1.455 \cdot 10^{-5}$.

    Implemented: the printed number, for comparison. `worker_noise` returns the least s for which the statement is true;
    in most settings it is smaller than the printed one.

    Counterexample: the true delta of the printed noise.

    >>> from dpml.byzantine import theory
    >>> given = {"clip_norm": 2.0, "q": 25 / 120_000, "m": 25, "epsilon": 0.2}
    >>> s = theory.theorem_1_noise(**given, delta=1e-5)
    >>> f"{theory.one_step_delta(s=s, **given):.4g}"
    '1.455e-05'
    """
    clip_norm, q, m, epsilon, delta = _step(clip_norm, q, m, epsilon, delta, 1.0)
    s = 2.0 * clip_norm / m / pairs.base_epsilon(epsilon, q) * math.sqrt(2.0 * math.log(1.25 / (delta / q)))
    return arguments.finite("epsilon", epsilon, s)


def worker_noise(*, clip_norm: float, q: float, m: int, epsilon: float, delta: float) -> float:
    """Return the least standard deviation s for which one step of one worker is (epsilon, delta)-private.

    For replace-one neighbours and samples without replacement; exact, since the worst pair is known, and rounded to the
    safe side. `clip_norm`, `q` and `m` as in `theorem_1_noise`; any epsilon > 0.

    Raises:
        ValueError: if clip_norm is not in [1e-100, 1e100], q not in (0, m/(m + 1)] and not 1, m not an integer in
            [1, 1e12], epsilon not in (0, 700) or delta not in [1e-299, q): from q on no noise is needed.

    Source: Balle and Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018, section 3; Balle,
    Barthe and Gaboardi, "Privacy amplification by subsampling", NeurIPS 2018, Theorem 9; in place of the Byzantine
    paper (Guerraoui et al.), Theorem 1.
    """
    clip_norm, q, m, epsilon, delta = _step(clip_norm, q, m, epsilon, delta, 700.0)
    sigma = mechanisms.gaussian_sigma(epsilon=pairs.base_epsilon(epsilon, q), delta=delta / q * (1.0 - 1e-12))
    return 2.0 * clip_norm / m * sigma * (1.0 + 1e-13)


def one_step_delta(*, s: float, clip_norm: float, q: float, m: int, epsilon: float) -> float:
    """Return the exact delta at epsilon of one step of one worker with noise s on each coordinate of the average.

    For replace-one neighbours and samples of m records, a fraction q, without replacement. Attained by the worst pair
    at the head of this module.

    Raises:
        ValueError: if s or clip_norm is not in [1e-100, 1e100], q not in (0, m/(m + 1)] and not 1, m not an integer in
            [1, 1e12], or epsilon not in [0, 700).

    Source: Balle, Barthe and Gaboardi, "Privacy amplification by subsampling", NeurIPS 2018, Theorem 9; Balle and
    Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018, Theorem 8.
    """
    s = arguments.real("s", s, 1e-100, 1e100)
    epsilon = arguments.real("epsilon", epsilon, 0.0, 700.0, high_open=True)
    clip_norm, q, m = _sampled(clip_norm, q, m)
    return q * mechanisms.gaussian_delta(sigma=s / (2.0 * clip_norm / m), epsilon=pairs.base_epsilon(epsilon, q))


def worker_guarantee(*, sigma: float, q: float, steps: int, delta: float) -> Guarantee:
    """Return what `steps` steps of one worker cost a record: replace-one neighbours, samples without replacement.

    `sigma` is the noise multiplier: the deviation of the noise on the *sum* of m clipped gradients over the clipping
    norm, s m / C. An upper bound; the server's view costs more, `server_guarantee`.

    Raises:
        ValueError: as `dpml.accounting.pld.fixed_size.epsilon_bounds`.

    Source: `dpml.accounting.pld.fixed_size`, in place of the Byzantine paper (Guerraoui et al.), section 2.1 and
    appendix D.2, which account for Poisson samples.
    """
    return fixed_size.epsilon_bounds(q=q, sigma=sigma, steps=steps, delta=delta).guarantee()


def server_guarantee(*, n_honest: int, sigma: float, q: float, steps: int, delta: float) -> Guarantee:
    """Return what all that the server sees costs a record: `n_honest` vectors a step, each from the same records.

    Each is a sample of its own with noise of its own, so that it is as many releases: n_honest times `steps`. Byzantine
    workers hold the records too, and may send them in the clear; nothing here protects from that. Otherwise as
    `worker_guarantee`.

    Raises:
        ValueError: if n_honest is not an integer in [1, 1e6], or n_honest * steps is above 1e9; otherwise as
            `worker_guarantee`.

    Source: `dpml.accounting.pld.fixed_size`; the server is the adversary of the Byzantine paper (Guerraoui et al.),
    section 2 ("threat model"), whose guarantee is for one worker alone.
    """
    return worker_guarantee(sigma=sigma, q=q, steps=_releases(n_honest, steps), delta=delta)


def vn_ratio(vectors: Any) -> float:
    """Return the measured variance-to-norm ratio of the rows [n, d]: their deviation over the length of their average.

    The deviation is the root of sum |g_i - average|^2 / (n - 1). Infinite where the average is 0. Given the gradients
    as sampled or as submitted (with noise), it is the paper's "sample" or "submit".

    Raises:
        ValueError: if vectors is no array or tensor of finite floating numbers of shape [n, d] with n >= 2, or all of
            them are 0.

    Source: the Byzantine paper (Guerraoui et al.), appendix E.2, equation (37).
    """
    rows = received(vectors, 0, slope=1, spare=2).rows
    spread, length, largest = 0.0, 0.0, max(float(rows.max()), -float(rows.min()))
    with np.errstate(under="ignore"):
        for part in blocks(rows) if largest > 0.0 else ():
            block = part / largest  # squares of tiny numbers would be 0
            middle = block.mean(0)
            spread += float(((block - middle) ** 2).sum())
            length += float((middle**2).sum())
    if length == 0.0 and spread == 0.0:
        raise ValueError("vectors must not all be 0, got nothing else")
    return math.inf if length == 0.0 else math.sqrt(spread / (len(rows) - 1) / length)


def noisy_vn_ratio(*, gradient_norm: float, dimension: int, s: float, variance: float = 0.0) -> float:
    """Return the variance-to-norm ratio of gradients with noise s: sqrt(variance + dimension s^2) / gradient_norm.

    `variance` is that of the gradient before the noise, E|g - grad Q|^2, for example `batch_variance`.

    Raises:
        ValueError: if gradient_norm is not in (0, 1e100], dimension not an integer in [1, 1e15], or s or variance not
            in [0, 1e100].

    Source: the Byzantine paper (Guerraoui et al.), equations (16) and (37).
    """
    norm = arguments.real("gradient_norm", gradient_norm, 0.0, 1e100, low_open=True)
    d = arguments.integer("dimension", dimension, 1, 10**15)
    s = arguments.real("s", s, 0.0, 1e100)
    variance = arguments.real("variance", variance, 0.0, 1e100)
    return arguments.finite("gradient_norm", norm, math.hypot(math.sqrt(variance), math.sqrt(d) * s) / norm)


def batch_variance(*, v: float, q: float, m: int) -> float:
    r"""Return $v^2 (M - m)/(m (M - 1))$, the variance of the average of m of M = m/q records without replacement.

    $v^2$ is the variance of one record's gradient, the average of $\|\nabla q - \nabla Q\|^2$ over all records. 0 for
    all records at once.

    Raises:
        ValueError: if v is not in [0, 1e100], q not in (0, m/(m + 1)] and not 1, or m not an integer in [1, 1e12].

    Source: the variance of a mean of a sample without replacement, Cochran, "Sampling techniques", Theorem 2.2; in
    place of the Byzantine paper (Guerraoui et al.), Lemma 3.

    Printed: the variance is at most $v^2$, whatever the batch size. So Corollary 1 leaves an error of
    $\kappa^2 v^2$ without noise, and the paper concludes that the batch size matters only where privacy and resilience
    come together.

    Implemented: the variance, which falls as 1/b. With it the error that is left without noise falls as 1/b too: at 25
    of 60000 records it is 0.03998 of what is printed, at 1000 of 60000 it is 0.00098335.

    Counterexample: the variance over what is printed, for batches of 25 and of 1000.

    >>> from dpml.byzantine import theory
    >>> [
    ...     round(theory.batch_variance(v=1.0, q=m / 60_000, m=m), 8)
    ...     for m in (25, 1000)
    ... ]
    [0.039984, 0.00098335]
    """
    v = arguments.real("v", v, 0.0, 1e100)
    _, q, m = _sampled(1.0, q, m)
    return v * v * (1.0 - q) / (m * (1.0 - q / m)) if q < 1.0 else 0.0


class EtaBounds(NamedTuple):
    r"""Bounds on $\eta^2$ of Proposition 2: what must hold for the condition, and what is enough.

    `necessary` and `sufficient` are those of Proposition 2 as printed; `sharp` is $\kappa^2 d s^2$, of which the
    printed necessary bound is a weakening; `sound` is min(sharp, sup |grad Q|^2), which is what must hold; `enough` is
    the sharp sufficient bound, with the variance of a batch; from `trivial` = C^2 on nothing is asked of the rule.

    Source: the Byzantine paper (Guerraoui et al.), Proposition 2; proved at the head of `dpml.byzantine.theory`.
    """

    necessary: float
    sharp: float
    sound: float
    sufficient: float
    enough: float
    trivial: float


def proposition_2_bounds(
    *,
    kappa: float,
    clip_norm: float,
    dimension: int,
    q: float,
    m: int,
    epsilon: float,
    delta: float,
    v: float = 0.0,
    largest_gradient: float | None = None,
) -> EtaBounds:
    r"""Return the bounds on the squared error eta^2 that a rule with constant kappa must, or may, leave.

    The noise is Theorem 1's. `v` bounds the deviation of one record's gradient; `largest_gradient` is the supremum of
    |grad Q|, at most clip_norm, which is taken if None.

    Raises:
        ValueError: if kappa is not in (0, 1e6], dimension not an integer in [1, 1e15], v not in [0, 1e6],
            largest_gradient not in (0, clip_norm]; otherwise as `theorem_1_noise`.

    Source: the Byzantine paper (Guerraoui et al.), Proposition 2 and its proof, equations (31) and (35).

    Printed: the condition holds only if $\eta^2 \ge 4\kappa^2 C^2 d \log(1.25\,b/(m\delta)) / (b m (e^\varepsilon -
    1))$. The proof takes a point where $\|\nabla Q\|^2 = \kappa^2 d s^2$. There is none if that is more than $C^2$,
    which Assumption 1 makes the limit; and then $\eta = C$ always meets the condition. Minimum-diameter averaging with
    6 of 15 Byzantine workers, d = 79510, C = 2, b = 1000, m = 60000, $\varepsilon = 0.2$, $\delta = 10^{-5}$: $\kappa^2
    d s^2 = 9.777$, but $C^2 = 4$.

    Implemented: also $\eta^2 \ge \min(\kappa^2 d s^2, \sup\|\nabla Q\|^2)$, here 4, in the field `sound`.

    Counterexample: what the proof asks for, and the largest squared gradient.

    >>> import math
    >>> from dpml.byzantine import theory
    >>> found = theory.proposition_2_bounds(
    ...     kappa=theory.kappa_mda(n=15, n_byzantine=6),
    ...     dimension=79510,
    ...     clip_norm=2.0,
    ...     q=1000 / 60_000,
    ...     m=1000,
    ...     epsilon=0.2,
    ...     delta=1e-5,
    ... )
    >>> round(found.sharp, 3), found.sound
    (9.777, 4.0)
    """
    kappa = arguments.real("kappa", kappa, 0.0, 1e6, low_open=True)
    d = arguments.integer("dimension", dimension, 1, 10**15)
    v = arguments.real("v", v, 0.0, 1e6)
    s = theorem_1_noise(clip_norm=clip_norm, q=q, m=m, epsilon=epsilon, delta=delta)
    clip_norm, q, m, epsilon, delta = _step(clip_norm, q, m, epsilon, delta, 1.0)
    largest = clip_norm
    if largest_gradient is not None:
        largest = arguments.real("largest_gradient", largest_gradient, 0.0, clip_norm, low_open=True)
    scale = kappa**2 * clip_norm**2 * d * math.log(1.25 * q / delta)
    growth = math.expm1(epsilon) / q  # (e^epsilon - 1) m/b in the paper's letters
    sharp, larger = kappa**2 * d * s * s, (1.0 / growth + 1.0) / m
    found = EtaBounds(
        necessary=4.0 * scale / (m * m * growth),
        sharp=sharp,
        sound=min(sharp, largest**2),
        sufficient=8.0 * scale * larger * larger + kappa**2 * v**2,
        enough=sharp + kappa**2 * batch_variance(v=v, q=q, m=m),
        trivial=clip_norm**2,
    )
    arguments.finite("epsilon", epsilon, max(found))
    return found


class ConvergenceBound(NamedTuple):
    """What is proved: E min |grad Q|^2 <= `sound`; and what is `printed`, for comparison, of min E |grad Q|^2.

    Source: the Byzantine paper (Guerraoui et al.), Theorem 2; proved at the head of `dpml.byzantine.theory`.
    """

    sound: float
    printed: float


def theorem_2_bound(
    *,
    eta: float,
    gap: float,
    alpha: float,
    mu: float,
    smoothness: float,
    v: float,
    dimension: int,
    s: float,
    clip_norm: float,
    steps: int,
) -> ConvergenceBound:
    r"""Return the bound on the least squared gradient of `steps` steps with learning rates 1/sqrt(t), in two forms.

    `gap` is $Q(\theta_1) - Q^*$, `alpha` and `mu` the constants of the rule's resilience, `smoothness` is L.

    Raises:
        ValueError: if alpha is not in [0, pi/2), eta, gap, mu, smoothness, v, s or clip_norm not in [0, 1e50],
            dimension not an integer in [1, 1e15], or steps not one in [1, 1e15].

    Source: the Byzantine paper (Guerraoui et al.), Theorem 2; proved at the head of this module.

    Printed: $\min_t \mathbb{E} \|\nabla Q(\theta_t)\|^2 \le \max\{\eta^2, B\}$. The proof shows for each path that some
    t has $\|\nabla Q\| \le \eta$, or else that B holds; but which t it is depends on the path, and between such times
    nothing binds the rule. Take Huber's loss in one dimension, $\eta = 0.2$, gradients with noise of deviation 0.5, and
    a rule that hands on one honest gradient above $\eta$ and throws the parameter out to 2 below it: over 5000 steps
    the least $\mathbb{E} \|\nabla Q\|^2$ is 0.467, the printed bound 0.120.

    Implemented: $\mathbb{E} \min_t \|\nabla Q(\theta_t)\|^2 \le \eta^2 + B$ in the field `sound`: the expected minimum,
    and a sum.

    Counterexample: 1,000 paths of 2,000 steps: the least mean square, and the printed bound.

    >>> import numpy as np
    >>> from dpml.byzantine import theory
    >>> rng, theta, least = np.random.default_rng(0), np.full(1000, 3.0), 1.0
    >>> for step in range(1, 2001):
    ...     gradient = np.clip(theta, -1, 1)
    ...     least = min(least, np.mean(gradient**2))
    ...     honest = gradient + 0.5 * rng.standard_normal(1000)
    ...     theta = np.where(
    ...         abs(gradient) <= 0.2, 2.0, theta - honest / np.sqrt(step)
    ...     )
    >>> setting = {
    ...     "eta": 0.2,
    ...     "gap": 2.5,
    ...     "alpha": 0.0,
    ...     "mu": 1.0,
    ...     "smoothness": 1.0,
    ...     "v": 0.0,
    ... }
    >>> bound = theory.theorem_2_bound(
    ...     **setting, dimension=1, s=0.5, clip_norm=1.001, steps=2000
    ... )
    >>> bool(least > bound.printed)
    True
    """
    alpha = arguments.real("alpha", alpha, 0.0, math.pi / 2.0, high_open=True)
    steps = arguments.integer("steps", steps, 1, 10**15)
    d = arguments.integer("dimension", dimension, 1, 10**15)
    numbers = {"eta": eta, "gap": gap, "mu": mu, "smoothness": smoothness, "v": v, "s": s, "clip_norm": clip_norm}
    eta, gap, mu, smoothness, v, s, clip_norm = (arguments.real(name, x, 0.0, 1e50) for name, x in numbers.items())
    second = mu * (v**2 + d * s**2 + clip_norm**2) * smoothness / 2.0 * (1.0 + math.log(steps))
    # 1 - sin(alpha) would round to 0 near pi/2
    rate = (gap + second) * (1.0 + math.sin(alpha)) / math.cos(alpha) ** 2 / math.sqrt(steps)
    return ConvergenceBound(eta**2 + rate, max(eta**2, rate))


def corollary_1(
    *,
    kappa: float,
    q: float,
    m: int,
    epsilon: float,
    delta: float,
    gap: float,
    alpha: float,
    mu: float,
    smoothness: float,
    v: float,
    dimension: int,
    clip_norm: float,
    steps: int,
) -> ConvergenceBound:
    """Return `theorem_2_bound` with the noise of Theorem 1 and the printed sufficient eta^2 of Proposition 2.

    Its limit for many steps is that eta^2.

    Raises:
        ValueError: as `proposition_2_bounds` and `theorem_2_bound`.

    Source: the Byzantine paper (Guerraoui et al.), Corollary 1. (Its proof prints eta where eta^2 is meant.)
    """
    step: dict[str, Any] = {"clip_norm": clip_norm, "q": q, "m": m, "epsilon": epsilon, "delta": delta}
    size: dict[str, Any] = {"dimension": dimension, "v": v}
    path: dict[str, Any] = {"gap": gap, "alpha": alpha, "mu": mu, "smoothness": smoothness, "steps": steps}
    eta, s = math.sqrt(proposition_2_bounds(kappa=kappa, **size, **step).sufficient), theorem_1_noise(**step)
    return theorem_2_bound(eta=eta, s=s, clip_norm=clip_norm, **size, **path)


class Resilience(NamedTuple):
    """How a rule answered: `sine` = sin alpha of the first condition, `moments` the ratios of the second at 2, 3 and 4.

    Resilient are rules with `sine` below 1. Estimates, not bounds: an attack that was not tried may do worse.

    Source: the Byzantine paper (Guerraoui et al.), Definition 2.
    """

    sine: float
    moments: tuple[float, float, float]


def measured_resilience(outputs: Any, *, gradients: Any) -> Resilience:
    r"""Return both conditions of resilience, measured on outputs [k, d] of a rule and honest gradients [l, d].

    `sine` is $1 - \langle \bar R, \bar G \rangle / \|\bar G\|^2$, not below 0; `moments` are the averages of $\|R\|^r$
    over those of $\|G\|^r$. The first of them is mu of `theorem_2_bound`.

    Raises:
        ValueError: if outputs or gradients is no array or tensor of finite floating numbers of shape [n, d], their d
            differ, the average gradient is 0, or outputs is so much longer that a ratio leaves the floats.

    Source: the Byzantine paper (Guerraoui et al.), Definition 2.

    Printed: (ii) $\mathbb{E}\|R\|^r$ is at most a linear combination of $\mathbb{E}\|G\|^{r_1}, \dots,
    \mathbb{E}\|G\|^{r_k}$ with $r_1 + \dots + r_k = r$. Such sums have another unit than the left side:
    $\mathbb{E}\|G\|^2 \le 2\,\mathbb{E}\|G\|$ holds or fails with the unit of the gradient, for one and the same rule.

    Implemented: a combination of *products* $\mathbb{E}\|G\|^{r_1} \cdots \mathbb{E}\|G\|^{r_k}$, as in Blanchard et
    al., NeurIPS 2017. None of these is above $\mathbb{E}\|G\|^r$ (Lyapunov), which is one of them; so the condition is
    $\mathbb{E}\|R\|^r \le c\,\mathbb{E}\|G\|^r$, and the ratio is the least c.

    Counterexample: gradients in two units: whether the printed inequality holds for the first of them as the rule, and
        the ratio that is returned.

    >>> import numpy as np
    >>> from dpml.byzantine import theory
    >>> gradients = np.random.default_rng(0).normal(1.0, 1.0, size=(5000, 3))
    >>> for unit in (0.1, 100.0):
    ...     lengths = np.linalg.norm(unit * gradients, axis=1)
    ...     found = theory.measured_resilience(
    ...         unit * gradients, gradients=unit * gradients
    ...     )
    ...     print(
    ...         np.mean(lengths**2) <= 2 * np.mean(lengths),
    ...         round(float(found.moments[0]), 6),
    ...     )
    True 1.0
    False 1.0
    """
    given = {"outputs": outputs, "gradients": gradients}
    answers, honest = (host(finite_rows(name, rows)).astype(np.float64) for name, rows in given.items())
    if answers.shape[1] != honest.shape[1]:
        raise ValueError(f"outputs must have {honest.shape[1]} columns, as gradients, got {answers.shape[1]}")
    largest = float(abs(honest).max())
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if largest > 0.0:  # powers of huge and of tiny lengths leave the floats
            answers, honest = answers / largest, honest / largest
        mean, sizes = honest.mean(0), [np.linalg.norm(rows, axis=1) for rows in (answers, honest)]
        square = float(mean @ mean)
        if square == 0.0:
            raise ValueError("gradients must have an average other than 0, got 0")
        sine = 1.0 - float(answers.mean(0) @ mean) / square
        two, three, four = (float((sizes[0] ** r).mean() / (sizes[1] ** r).mean()) for r in (2, 3, 4))
    if not all(map(math.isfinite, (sine, four))):
        raise ValueError(f"outputs must keep the ratios within the floats, got rows {sizes[0].max():.3g} times as long")
    return Resilience(max(0.0, sine), (two, three, four))


def krum_threshold(*, n: int, n_byzantine: int) -> float:
    """Return the z below which Krum as printed picks the liars' vector, average + z deviations, from vectors of noise.

    For f >= 1 equal copies, in the limit of many dimensions. Infinite at n = 2f + 1, were Krum defined there.

    Raises:
        ValueError: if n is not an integer in [5, 1e9] or n_byzantine not one in [1, (n - 3) / 2].

    Source: ours, proved at the head of this module; for the attack Baruch, Baruch and Goldberg, "A little is enough",
    NeurIPS 2019.
    """
    n, f = _workers(n, n_byzantine, 2, 3, least=1)
    return math.sqrt(2.0 * (n - f - 2) / (n - 2 * f - 1) - 1.0 + 1.0 / (n - f))


def mda_threshold(*, n: int, n_byzantine: int) -> float:
    """Return the z below which minimum-diameter averaging keeps all f liars' vectors, average + z deviations.

    Raises:
        ValueError: if n is not an integer in [3, 1e9] or n_byzantine not one in [1, (n - 1) / 2].

    Source: ours, proved at the head of this module.
    """
    n, f = _workers(n, n_byzantine, 2, 1, least=1)
    return math.sqrt(1.0 + 1.0 / (n - f))


def _workers(n: int, n_byzantine: int, slope: int, spare: int, *, least: int = 0) -> tuple[int, int]:
    n = arguments.integer("n", n, spare + slope * least, 10**9)
    return n, liars(n, n_byzantine, slope=slope, spare=spare, least=least)


def _sampled(clip_norm: float, q: float, m: int) -> tuple[float, float, int]:
    """The three, in their ranges: m is a fraction q of all records. A replaced one moves the average by 2C/m."""
    clip_norm = arguments.real("clip_norm", clip_norm, 1e-100, 1e100)
    q = arguments.real("q", q, 0.0, 1.0, low_open=True)
    m = arguments.integer("m", m, 1, 10**12)
    if q < 1.0 and m / q < m + 0.5:
        raise ValueError(f"q must be m over a number of records, 1 or at most {m / (m + 1)!r} at m = {m}, got {q!r}")
    return clip_norm, q, m


def _step(clip_norm: float, q: float, m: int, epsilon: float, delta: float, most: float) -> tuple[Any, ...]:
    """The five, in their ranges."""
    clip_norm, q, m = _sampled(clip_norm, q, m)
    epsilon = arguments.real("epsilon", epsilon, 0.0, most, low_open=True, high_open=True)
    return clip_norm, q, m, epsilon, arguments.real("delta", delta, 1e-299, q, high_open=True)


def _releases(n_honest: int, steps: int) -> int:
    n_honest = arguments.integer("n_honest", n_honest, 1, 10**6)
    return n_honest * arguments.integer("steps", steps, 0, 10**9 // n_honest)
