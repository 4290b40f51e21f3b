r"""Verified inference: a label and the size of perturbation that cannot change it, from n noisy predictions.

Two mechanisms look at an input x. $f^x$ predicts with fresh Laplace noise of scale $b_x$ on the input, the noise of the
hidden layer fixed; $f^h$ with fresh noise of scale $b_h$ on the hidden layer, that of the input fixed. A draw of both
gives scores in [0, 1], and is a vote for the class of the largest product $f^x_k f^h_k$: $f_k$ is 1 for this class and
0 for the others. Votes of n draws have exact limits. So do the authors in their program; the paper describes means of
the products, whose limits (Hoeffding's) are as wide for small means as for others.

Theorem (composition of robustness: the paper's Theorem 5). Let mechanisms $M_1, \dots, M_S$ be independent, and let one
unit of perturbation of x make $M_s$ lose at most $\varepsilon_s$. Let $p \le E f_k$ for one class k and
$u \ge E f_i$ for all others, where f is any function of the outputs of all mechanisms with values in $[0, 1]$. If
$p > e^{2 \sum_s \varepsilon_s} u$, no perturbation of one unit changes the class of largest expected score.

Proof. All outputs together are a mechanism that loses at most $\sum_s \varepsilon_s$ (composition), so that
$E f_k(x) \le e^{\sum \varepsilon_s} E f_k(x')$ and $E f_i(x') \le e^{\sum \varepsilon_s} E f_i(x)$: the expectation of
a function in [0, 1] is an average of probabilities. Then
$E f_k(x') \ge e^{-\sum \varepsilon_s} p > e^{\sum \varepsilon_s} u \ge E f_i(x')$.

Here a perturbation of size r moves the input by $r\,\Delta_x$ in $\ell_1$ and the hidden layer by at most
$r\,\Delta_h$, so that $\sum_s \varepsilon_s = r\,(\Delta_x/b_x + \Delta_h/b_h)$. With
$\varepsilon_r = \tfrac12 \log(p/u)$ the certified size is

.. math::

    r = \frac{\varepsilon_r}{\Delta_x/b_x + \Delta_h/b_h} = \frac{\kappa\varphi}{\kappa + \varphi}, \qquad
    \kappa = \frac{b_x \varepsilon_r}{\Delta_x}, \quad \varphi = \frac{b_h \varepsilon_r}{\Delta_h} .

The paper's Corollary 1 has $\kappa + \varphi$ (`budget.sound_size` has the counterexample); both are returned.

| attack | $\Delta_x$ | $\Delta_h$ |
|---|---|---|
| $\ell_\infty$ | d | $\sum_{jl} \lvert\theta_{jl}\rvert$ |
| $\ell_1$ | 1 | $\max_j \sum_l \lvert\theta_{jl}\rvert$ |

Bounding the hidden layer moves no two values apart, and comes before the noise or after it; so $\Delta_h$ needs
$\theta_1$ alone. What is certified is the noisy prediction that is made here, with the noise that is drawn here, for
perturbations of the x that is given here. A certificate is wrong with probability at most eta, for each input alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from dpml import arguments
from dpml.certified import pixeldp
from dpml.certified.smoothing import draws_needed
from dpml.certified.stobatch import budget
from dpml.certified.stobatch.model import Network
from dpml.certified.stobatch.training import in_range

__all__ = ["Inferred", "Norm", "Scales", "composed", "infer", "l_1", "l_inf"]

AT_ONCE = 2**15
"""Noisy inputs in memory at once."""

Norm = Callable[[NDArray[np.float64]], tuple[float, float]]
"""From theta_1 to how far a perturbation of norm 1 moves the input and the hidden layer, each in l1."""


def composed(lower: ArrayLike, *, upper: ArrayLike, epsilons: ArrayLike) -> NDArray[np.bool_]:
    r"""Return whether $p > e^{2 \sum_s \varepsilon_s} u$ for p = `lower`, u = `upper`.

    Then the label is certified for one unit of perturbation. `epsilons` holds what such a unit costs each of S
    independent mechanisms; `lower` bounds the expected score of a class from below, `upper` those of all others from
    above.

    Raises:
        ValueError: if lower or upper is not in [0, 1], or epsilons not a one-dimensional array of at least one number
            in [0, inf).

    Source: StoBatch (Phan et al., ICML 2020), Theorem 5, proved at the head of this module.
    """
    parts = arguments.array("epsilons", epsilons, ndim=1, min_size=1, low=0.0)
    return pixeldp.condition(lower, upper=upper, epsilon=float(parts.sum()), delta=0.0)


def l_inf(theta: NDArray[np.float64]) -> tuple[float, float]:
    """Return how far a perturbation of l_inf norm 1 can move the input and the hidden layer, each in l1.

    Raises:
        ValueError: if theta is not a finite array [d, beta].

    Source: `budget.sound_hidden_sensitivity`.
    """
    return float(len(theta)), budget.sound_hidden_sensitivity(theta, mu=1.0)


def l_1(theta: NDArray[np.float64]) -> tuple[float, float]:
    """Return how far a perturbation of l1 norm 1 can move the input and the hidden layer, each in l1.

    Raises:
        ValueError: if theta is not a finite array [d, beta].

    Source: the operator norm of the transpose of theta in l1 is its largest row.
    """
    return 1.0, float(np.abs(arguments.array("theta", theta, ndim=2, min_size=1)).sum(1).max())


@dataclass(frozen=True)
class Scales:
    """Laplace scales of the noise that inference draws: on each number of the input, and on each hidden unit.

    Raises:
        ValueError: if input or hidden is not in (0, inf).

    Source: StoBatch (Phan et al., ICML 2020), section 3.3.
    """

    _: KW_ONLY
    input: float
    hidden: float

    def __post_init__(self) -> None:
        budget.all_positive(self)


class Inferred(NamedTuple):
    """What verified inference says of N inputs: arrays of length N.

    Attributes:
        labels: the class of the largest estimate, which is the one of the certificate where there is one.
        kappa, phi: sizes that each of the two noises would certify alone.
        size: what is certified, by the harmonic rule; 0 where nothing is.
        printed_size: kappa + phi, which the paper's Corollary 1 certifies. It can be broken.

    Source: StoBatch (Phan et al., ICML 2020), section 3.4 (Algorithm 3).
    """

    labels: NDArray[np.intp]
    kappa: NDArray[np.float64]
    phi: NDArray[np.float64]
    size: NDArray[np.float64]
    printed_size: NDArray[np.float64]


def infer(
    network: Network,
    x: Tensor,
    *,
    scales: Scales,
    norm: Norm,
    draws: int,
    eta: float,
    rng: np.random.Generator,
) -> Inferred:
    """Return labels and certified sizes of inputs [N, ...] from `draws` noisy predictions of each.

    `norm` is `l_inf` or `l_1`, the unit of the sizes.

    Raises:
        ValueError: if x is not a floating tensor of inputs in [-1, 1], draws not an integer >= 1 or too few for any
            certificate (the message says how many are needed), eta not in (0, 1), rng no Generator, or a score is not
            finite: the network has diverged, or a scale is beyond single precision.

    Source: StoBatch (Phan et al., ICML 2020), section 3.4 (Algorithm 3); Theorem 5, proved at the head of this module;
    the authors' program for the votes, whose limits are those of `pixeldp.clopper_pearson_limits`.
    """
    in_range(x, dimension=len(network.theta1))
    rng = arguments.generator("rng", rng)
    draws = arguments.integer("draws", draws, 1)
    eta = arguments.real("eta", eta, 0.0, 1.0, low_open=True, high_open=True)
    alarm = eta / 2.0 / network.last.out_features
    least = draws_needed(alpha=alarm)  # all draws for one class: alarm^(1/n) above 1 - alarm^(1/n)
    if draws < least:
        raise ValueError(f"draws must be at least {least} for any certificate at eta = {eta!r}, got {draws}")
    generator = torch.Generator(network.theta1.device).manual_seed(int(rng.integers(2**62)))
    counts = _votes(network, x, scales, draws, generator)
    first = pixeldp.leader(pixeldp.clopper_pearson_limits(counts, eta=eta))
    epsilon = pixeldp.largest_epsilon(first.lower, upper=first.upper, delta=0.0)
    on_input, on_hidden = norm(network.theta1.detach().double().cpu().numpy())
    kappa, phi = scales.input * epsilon / on_input, scales.hidden * epsilon / on_hidden
    sizes = budget.sound_size(kappa=kappa, phi=phi), budget.printed_size(kappa=kappa, phi=phi)
    return Inferred(counts.argmax(1), kappa, phi, *sizes)


@torch.no_grad()
def _votes(network: Network, x: Tensor, scales: Scales, draws: int, generator: torch.Generator) -> NDArray[np.int64]:
    """How often each class had the largest product, [N, K]."""
    flat = x.flatten(1).to(network.theta1) + network.shift
    plain = flat @ network.theta1
    classes = network.last.out_features
    counts = torch.zeros(len(x), classes, dtype=torch.int64, device=flat.device)
    for rows in torch.split(torch.arange(len(x), device=flat.device), max(1, AT_ONCE // draws)):
        for start in range(0, draws, AT_ONCE):
            now = min(AT_ONCE, draws - start)
            noisy = _laplace((len(rows), now, flat.shape[1]), scales.input, generator) + flat[rows, None]
            first = _probabilities(network, noisy.flatten(0, 1) @ network.theta1, network.latent)
            noise = _laplace((len(rows) * now, plain.shape[1]), scales.hidden, generator)
            second = _probabilities(network, plain[rows].repeat_interleave(now, 0), network.latent + noise)
            products = (first * second).view(len(rows), now, classes)
            if not bool(products.isfinite().all()):  # of scores that are no numbers argmax would make a sure label
                raise ValueError("network must give finite scores at x with noise of these scales, got nan or inf")
            counts[rows] += torch.nn.functional.one_hot(products.argmax(2), classes).sum(1)
    found: NDArray[np.int64] = counts.cpu().numpy()
    return found


def _probabilities(network: Network, h: Tensor, noise: Tensor) -> Tensor:
    bounded = network.bounding(h, noise, network.statistics)
    found: Tensor = network.last(network.top(bounded)).softmax(1)
    return found


def _laplace(shape: tuple[int, ...], scale: float, generator: torch.Generator) -> Tensor:
    """Independent Laplace noise: a difference of two exponentials. Single precision: this noise hides no one's data."""
    first, second = (torch.empty(shape, device=generator.device).exponential_(generator=generator) for _ in range(2))
    return first.sub_(second).mul_(scale)
