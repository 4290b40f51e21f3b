r"""DP-SGD: clip each example's gradient, sum, add noise to the sum, divide by the expected batch size, update.

.. math::

    \theta_{t+1} = \theta_t - \frac{\eta}{B}\Bigl(\sum_{i \in S_t} g_i \min\bigl(1, \tfrac{C}{\|g_i\|}\bigr)
    + N(0, \sigma^2 C^2 I)\Bigr), \qquad g_i = \nabla_\theta\, \text{loss}(\theta_t; x_i, y_i)

with a fresh sample $S_t$ in every step, of about B examples.

Theorem (Abadi et al. 2016). Let each example be in $S_t$ with probability q, independently of the others, and let the
noise be independent over coordinates and steps and of the samples. Let q, $\sigma$, C, B, T and the rule of the update
be fixed without the data. In place of $-\eta$ times the noisy mean there may be any optimizer that sees nothing of the
data but the noisy means. Then for neighbours that differ by one record added or removed, publishing all $\theta_t$ is
at least as private as T releases of a Gaussian mechanism of noise multiplier $\sigma$ on a q-sample, composed;
`dpml.accounting.pld` computes it. (It may be more private: a loss that is constant tells nothing.)

Proof. Given the earlier steps, the sum without noise moves by at most C when one example is added or removed: each
clipped gradient has norm at most C and does not depend on the other examples. So the noisy sum is a Gaussian mechanism
of sensitivity C and standard deviation $\sigma C$ on the sample. Division by the constant B, the optimizer and all
later use of $\theta_{t+1}$ are post-processing; the composition is adaptive.

Three points of the proof are easy to lose: the gradient of *each example* is clipped and not that of the batch; the
noise is measured in units of C and added *to the sum*, before the learning rate; B depends neither on the sample nor on
the number of records, which differs between neighbours: see `dpml.training.sampling`. The lecture's slide clips the
gradient of the batch, coordinate by coordinate, and adds the noise after the learning rate; `dpml.training.broken` runs
these, and the audits catch them.

| mechanism | weights | guarantee |
|---|---|---|
| `dp_sgd` | `clip`: $w = \min(1, C/\lVert g \rVert)$ | by the sampler |
| `dp_sgd_automatic` | `automatic`: $w = C/(\lVert g \rVert + \gamma)$, no threshold to tune | the same |
| `sgd` | $w = 1$, no noise | none: the yardstick |

`dpml.training.train` trains with them. With `FullBatch` the first is noisy gradient descent, the lecture's DP-GD: T
steps have the guarantee of one Gaussian mechanism of noise multiplier $\sigma/\sqrt T$.

What the guarantee does not cover: the choice of the hyperparameters, if it looked at these data; losses and norms in
the trace, which have no noise; a generator whose seed is known (see `dpml.training.loop`). In float32 a weighted
gradient may exceed C by rounding of the order of 1e-7 C.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dpml import arguments
from dpml.training.mechanism import Each, Mechanism, each_example, gaussian

__all__ = ["automatic", "clip", "dp_sgd", "dp_sgd_automatic", "sgd", "update"]


def in_range_of_norms(name: str, value: Any) -> float:
    """Return a number to which norms in single precision can be compared: shorter ones may be taken for 0.

    Raises:
        ValueError: if it is not in [1e-16, 1e16].
    """
    return arguments.real(name, value, 1e-16, 1e16)


def dp_sgd(*, sigma: float, clip_norm: float) -> Mechanism:
    """Return the mechanism of DP-SGD: gradients clipped to norm C, Gaussian noise of deviation sigma C on their sum.

    `sigma` is the noise multiplier; at 0 nothing is private, and epsilon is infinite. Neighbours: add/remove for
    `Poisson` and `FullBatch`, replace-one for `FixedSize`.

    Raises:
        ValueError: if sigma is not in [0, inf) or clip_norm not in [1e-16, 1e16].

    Source: Abadi et al., "Deep learning with differential privacy", CCS 2016, Algorithm 1; the lecture, slides "DP-SGD"
    and "DP-GD".
    """
    sigma = arguments.real("sigma", sigma, 0.0)
    clip_norm = in_range_of_norms("clip_norm", clip_norm)
    return each_example(
        "dp_sgd",
        settings={"sigma": sigma, "clip_norm": clip_norm},
        each=Each(lambda norms: clip(norms, clip_norm=clip_norm), sigma * clip_norm),
        accountant=gaussian(sigma),
    )


def dp_sgd_automatic(*, sigma: float, clip_norm: float = 1.0, stability: float = 0.01) -> Mechanism:
    r"""Return DP-SGD with weights $C/(\|g\| + \gamma)$: every gradient is brought to a norm just below C.

    C only scales the learning rate, so that there is no threshold to choose; `stability` is $\gamma > 0$, which lets
    small gradients stay smaller than large ones. The guarantee is that of `dp_sgd` at the same sigma: the norm of what
    is summed is below C. Neighbours: as for `dp_sgd`.

    Raises:
        ValueError: if sigma is not in [0, inf), clip_norm or stability not in [1e-16, 1e16].

    Source: Bu, Wang, Zha and Karypis, "Automatic clipping: differentially private deep learning made easier and
    stronger", NeurIPS 2023, their AUTO-S.
    """
    sigma = arguments.real("sigma", sigma, 0.0)
    clip_norm = in_range_of_norms("clip_norm", clip_norm)
    stability = in_range_of_norms("stability", stability)
    return each_example(
        "dp_sgd_automatic",
        settings={"sigma": sigma, "clip_norm": clip_norm, "stability": stability},
        each=Each(lambda norms: automatic(norms, clip_norm=clip_norm, stability=stability), sigma * clip_norm),
        accountant=gaussian(sigma),
    )


def sgd() -> Mechanism:
    """Return no privacy: no clipping, no noise, and a guarantee that says so. The yardstick of what privacy costs.

    Source: Robbins and Monro, "A stochastic approximation method", Annals of Mathematical Statistics 1951.
    """

    def noise_multiplier(**target: Any) -> float:
        raise ValueError("mechanism must have noise to meet a target, got sgd()")

    accountant = gaussian(0.0)._replace(noise_multiplier=noise_multiplier)
    return each_example("sgd", settings={}, each=Each(torch.ones_like, 0.0), accountant=accountant)


def clip(norms: Tensor, *, clip_norm: float) -> Tensor:
    """Return the weights min(1, clip_norm / norm), in the shape of norms: 1 where an example is within the clip norm.

    An infinite norm gets weight 0, NaN stays NaN: the values are not looked at, and nothing waits for the device.

    Raises:
        ValueError: if norms is not a tensor of floats, or clip_norm is not in (0, inf) or beyond the range of their
            dtype.

    Source: M. Abadi et al., "Deep learning with differential privacy", CCS 2016, Algorithm 1, "clip gradient".
    """
    bound = _in_range("clip_norm", clip_norm, norms)
    return _normal(norms.clamp(min=bound).div_(bound).reciprocal_())


def automatic(norms: Tensor, *, clip_norm: float, stability: float) -> Tensor:
    """Return the weights clip_norm / (norm + stability): every example is scaled to almost the clip norm.

    The direction of the sum does not depend on clip_norm, which leaves one parameter less to tune. Each weighted
    gradient is shorter than clip_norm.

    Raises:
        ValueError: if norms is not a tensor of floats, or clip_norm or stability is not in (0, inf) or beyond the range
            of their dtype.

    Source: Z. Bu, Y.-X. Wang, S. Zha and G. Karypis, "Automatic clipping: differentially private deep learning made
    easier and stronger", NeurIPS 2023, the variant AUTO-S, with stability 0.01.
    """
    bound = _in_range("clip_norm", clip_norm, norms)
    return _normal(bound / (norms + _in_range("stability", stability, norms)))


def _normal(weights: Tensor) -> Tensor:
    """Weights too small for full precision become 0: rounded up, they could let more than the clip norm through."""
    return torch.threshold(weights, torch.finfo(weights.dtype).tiny, 0.0)


def _in_range(name: str, value: Any, norms: Any) -> float:
    """Return a positive number that the dtype of the norms can hold; rounded to 0 or inf it would give NaN."""
    if not isinstance(norms, Tensor) or not norms.is_floating_point():
        raise ValueError(f"norms must be a tensor of floats, got {getattr(norms, 'dtype', type(norms).__name__)}")
    limits = torch.finfo(norms.dtype)
    if type(value) is float and limits.tiny <= value <= limits.max:
        return value  # in every step of a training run: the full check below costs as much as several layers' norms
    number = arguments.real(name, value, 0.0, low_open=True)
    if not limits.tiny <= number <= limits.max:
        raise ValueError(f"{name} must be in [{limits.tiny:.3g}, {limits.max:.3g}] for {norms.dtype}, got {number!r}")
    return number


def update(
    parameters: Tensor,
    *,
    gradients: Tensor,
    sigma: float,
    clip_norm: float,
    learning_rate: float,
    expected_batch: float,
    generator: torch.Generator,
) -> Tensor:
    """Return the parameters after one step of DP-SGD: the formula at the head of this page, line by line.

    `gradients` has shape (..., m, p), one gradient of p numbers for each of m examples, and parameters (..., p);
    further dimensions in front are independent runs. For reading and for audits; `dp_sgd` does the same without ever
    holding the m gradients. Neighbours: add/remove.

    Raises:
        ValueError: if the shapes do not fit, or a number is outside its range.

    Source: Abadi et al., "Deep learning with differential privacy", CCS 2016, Algorithm 1.
    """
    check_update(parameters, gradients, sigma, clip_norm, learning_rate, expected_batch)
    norms = gradients.norm(dim=-1, keepdim=True)
    clipped = gradients * (clip_norm / norms.clamp(min=clip_norm))
    total = clipped.sum(-2)
    noise = sigma * clip_norm * torch.randn(total.shape, generator=generator, dtype=total.dtype, device=total.device)
    after: Tensor = parameters - learning_rate * (total + noise) / expected_batch
    return after


def check_update(
    parameters: Any, gradients: Any, sigma: float, clip_norm: float, learning_rate: float, expected_batch: float
) -> None:
    """Refuse bad arguments of an update.

    Raises:
        ValueError: if the shapes do not fit, or a number is outside its range.

    Source: definition.
    """
    for name, value in (("parameters", parameters), ("gradients", gradients)):
        if not isinstance(value, Tensor) or not value.is_floating_point() or not bool(value.isfinite().all()):
            raise ValueError(f"{name} must be a tensor of finite floats, got {type(value).__name__}")
    if gradients.dim() < 2 or parameters.shape != (*gradients.shape[:-2], gradients.shape[-1]):
        shapes = f"{tuple(parameters.shape)} and {tuple(gradients.shape)}"
        raise ValueError(f"parameters must have shape (..., p) for gradients of shape (..., m, p), got {shapes}")
    arguments.real("sigma", sigma, 0.0)
    in_range_of_norms("clip_norm", clip_norm)
    arguments.real("learning_rate", learning_rate, 0.0, low_open=True)
    arguments.real("expected_batch", expected_batch, 0.0, low_open=True)
