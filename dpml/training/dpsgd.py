r"""DP-SGD: clip each example's gradient, sum, add noise to the sum, divide by the expected batch size, update.

.. math::

    \theta_{t+1} = \theta_t - \frac{\eta}{B}\Bigl(\sum_{i \in S_t} g_i \min\bigl(1, \tfrac{C}{\|g_i\|}\bigr)
    + N(0, \sigma^2 C^2 I)\Bigr), \qquad g_i = \nabla_\theta\, \text{loss}(\theta_t; x_i, y_i)

with a fresh sample $S_t$ of expected size B in every step (or any optimizer in place of $-\eta$ times the gradient).

Theorem (Abadi et al. 2016). Let each example be in $S_t$ with probability q. Then for neighbours that differ by one
record added or removed, T steps are exactly as private as T releases of a Gaussian mechanism of noise multiplier
$\sigma$ on a q-sample, composed; `dpml.accounting.pld` computes it.

Proof. Given the earlier steps, the sum without noise moves by at most C when one example is added or removed: each
clipped gradient has norm at most C and does not depend on the other examples. So the noisy sum is a Gaussian mechanism
of sensitivity C and standard deviation $\sigma C$ on the sample. Division by the constant B, the optimizer and all
later use of $\theta_{t+1}$ are post-processing; the composition is adaptive.

Three points of the proof are easy to lose: the gradient of *each example* is clipped and not that of the batch; the
noise is measured in units of C and added *to the sum*, before the learning rate; B must not depend on the sample. The
lecture's slide prints all three otherwise; `dpml.training.broken` runs them and the audits catch them.

| function | rule | guarantee |
|---|---|---|
| `dp_sgd` | $w = \min(1, C/\lVert g \rVert)$ | by the sampler |
| `dp_sgd_automatic` | $w = C/(\lVert g \rVert + \gamma)$: no threshold to tune | the same |
| `dp_gd` | the first, all examples in every step | exact |
| `sgd` | $w = 1$, no noise | none: the yardstick |

What the guarantee does not cover: the choice of the hyperparameters, if it looked at these data; losses and norms in
the trace, which have no noise; a generator whose seed is known (see `dpml.training.loop`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from dpml import arguments
from dpml.accounting.guarantee import Guarantee
from dpml.training import weights
from dpml.training._ready import LossFunction
from dpml.training.loop import Corrupt, train
from dpml.training.rules import PerExampleRule
from dpml.training.sampling import FullBatch, Sampler, sampler
from dpml.training.trace import Run

__all__ = ["dp_gd", "dp_sgd", "dp_sgd_automatic", "noise_multiplier", "sgd", "update"]

Pair = tuple[torch.Tensor, torch.Tensor]


def dp_sgd(
    model: torch.nn.Module,
    loss_fn: LossFunction,
    x: torch.Tensor,
    y: torch.Tensor,
    *,
    sampling: Sampler,
    sigma: float,
    clip_norm: float,
    steps: int,
    optimizer: torch.optim.Optimizer,
    delta: float,
    generator: torch.Generator,
    expected_batch: float | None = None,
    micro_batch: int | None = None,
    trace_every: int | None = None,
    test: Pair | None = None,
    checkpoint: str | Path | None = None,
    corrupt: Corrupt | None = None,
) -> Run:
    """Train `model` in place by DP-SGD and return it with its trace and its guarantee.

    Neighbours: add/remove for `Poisson` and `FullBatch`, replace-one for `FixedSize`. On the device of the model; x and
    y may lie there or on the CPU. With a checkpoint the run is saved at each point of its trace and on Ctrl+C, and the
    same call goes on where the file ends, to the same bits; its `steps` may be larger than before.

    Args:
        model: a module whose outputs for one example do not depend on the others (no BatchNorm).
        loss_fn: function of (outputs, y) that returns one loss per example, shape (B,).
        x: the examples, one per row.
        y: the labels, one per row.
        sampling: `Poisson`, `FixedSize` or `FullBatch`.
        sigma: noise multiplier in [0, inf): standard deviation of the noise on the sum over `clip_norm`. At 0 the run
            is not private, and its epsilon is infinite.
        clip_norm: the norm C > 0 to which each example's gradient is clipped.
        steps: number of steps in all, >= 1.
        optimizer: any torch optimizer of all trained parameters of the model.
        delta: the delta of the guarantees, in [0, 1].
        generator: source of samples and noise, on the CPU.
        expected_batch: what the noisy sum is divided by; None for the sampler's expected size (q n, m or n). Under
            add/remove n is not public in the strict sense: give a number that was fixed without looking at the data.
        micro_batch: at most so many examples at once in memory; None for all of a batch.
        trace_every: a point of the trace after every so many steps; None for 20 points.
        test: (x, y) on which the accuracy is measured at each point; treated as public.
        checkpoint: path of a file. It holds the state of the generators: as secret as the data.
        corrupt: stands for faulty workers that send other gradients, see `dpml.training.corruption`; for experiments.

    Raises:
        ValueError: for bad input, before any step: an argument out of its range, a model or a loss that cannot be
            trained per example, a DataLoader, a checkpoint of other settings or data.
        Interrupted: after Ctrl+C, between two steps; its ``run`` holds what was done.
        Diverged: if a loss, a gradient or a parameter is not finite; names the step, holds trace and what was spent.

    Source: Abadi et al., "Deep learning with differential privacy", CCS 2016, Algorithm 1; the lecture, slide "DP-SGD".
    """
    clip_norm = _clip_norm(clip_norm)
    sigma = arguments.real("sigma", sigma, 0.0)
    return train(
        model,
        loss_fn,
        x,
        y,
        rule=PerExampleRule(lambda norms: weights.clip(norms, clip_norm=clip_norm), sigma * clip_norm),
        account=_account(sampling, x, sigma, delta),
        settings={"mechanism": "dp_sgd", "sigma": sigma, "clip norm": clip_norm, "delta": delta},
        sampling=sampling,
        steps=steps,
        optimizer=optimizer,
        generator=generator,
        expected_batch=expected_batch,
        micro_batch=micro_batch,
        trace_every=trace_every,
        test=test,
        checkpoint=checkpoint,
        corrupt=corrupt,
    )


def dp_sgd_automatic(
    model: torch.nn.Module,
    loss_fn: LossFunction,
    x: torch.Tensor,
    y: torch.Tensor,
    *,
    sampling: Sampler,
    sigma: float,
    clip_norm: float = 1.0,
    stability: float = 0.01,
    steps: int,
    optimizer: torch.optim.Optimizer,
    delta: float,
    generator: torch.Generator,
    expected_batch: float | None = None,
    micro_batch: int | None = None,
    trace_every: int | None = None,
    test: Pair | None = None,
    checkpoint: str | Path | None = None,
) -> Run:
    r"""Train as `dp_sgd`, with weights $C/(\|g\| + \gamma)$: every gradient is brought to a norm just below C.

    C only scales the learning rate, so that there is no threshold to choose; `stability` is $\gamma > 0$, which lets
    small gradients stay smaller than large ones. The guarantee is that of `dp_sgd` at the same sigma: the norm of what
    is summed is below C.

    Raises:
        ValueError: as `dp_sgd`; if stability is not in (0, inf).
        Interrupted: as `dp_sgd`.
        Diverged: as `dp_sgd`.

    Source: Bu, Wang, Zha and Karypis, "Automatic clipping: differentially private deep learning made easier and
    stronger", NeurIPS 2023, their AUTO-S.
    """
    clip_norm = _clip_norm(clip_norm)
    sigma = arguments.real("sigma", sigma, 0.0)
    stability = arguments.real("stability", stability, 0.0, low_open=True)

    def weigh(norms: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = weights.automatic(norms, clip_norm=clip_norm, stability=stability)
        return found

    settings = {"sigma": sigma, "clip norm": clip_norm, "stability": stability, "delta": delta}
    return train(
        model,
        loss_fn,
        x,
        y,
        rule=PerExampleRule(weigh, sigma * clip_norm),
        account=_account(sampling, x, sigma, delta),
        settings={"mechanism": "dp_sgd_automatic", **settings},
        sampling=sampling,
        steps=steps,
        optimizer=optimizer,
        generator=generator,
        expected_batch=expected_batch,
        micro_batch=micro_batch,
        trace_every=trace_every,
        test=test,
        checkpoint=checkpoint,
    )


def dp_gd(model: torch.nn.Module, loss_fn: LossFunction, x: torch.Tensor, y: torch.Tensor, **others: Any) -> Run:
    """Train by full-batch gradient descent with noise: `dp_sgd` with ``sampling=FullBatch()``, same other arguments.

    The guarantee is exact: T steps are one Gaussian mechanism of noise multiplier sigma / sqrt(T). Add/remove
    neighbours.

    Raises:
        ValueError: as `dp_sgd`; if sampling is given.
        Interrupted: as `dp_sgd`.
        Diverged: as `dp_sgd`.

    Source: the lecture, slide "DP-GD", with the clipping of each example that bounds its sensitivity.
    """
    if "sampling" in others:
        raise ValueError(f"sampling must be left out of dp_gd, which uses all examples, got {others['sampling']!r}")
    return dp_sgd(model, loss_fn, x, y, sampling=FullBatch(), **others)


def sgd(
    model: torch.nn.Module,
    loss_fn: LossFunction,
    x: torch.Tensor,
    y: torch.Tensor,
    *,
    sampling: Sampler,
    steps: int,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator,
    expected_batch: float | None = None,
    micro_batch: int | None = None,
    trace_every: int | None = None,
    test: Pair | None = None,
    checkpoint: str | Path | None = None,
) -> Run:
    """Train without any privacy, but otherwise as `dp_sgd` does: the yardstick for what privacy costs in accuracy.

    No clipping and no noise; the sum of the gradients is divided by the expected batch size. The guarantee says that no
    epsilon holds.

    Raises:
        ValueError: as `dp_sgd`.
        Interrupted: as `dp_sgd`.
        Diverged: as `dp_sgd`.

    Source: definition; Robbins and Monro, "A stochastic approximation method", Annals of Mathematical Statistics 1951.
    """

    def account(counts: Sequence[int]) -> list[Guarantee]:
        return [Guarantee(math.inf, delta=0.0, kind="exact", adjacency="add/remove") for _ in counts]

    return train(
        model,
        loss_fn,
        x,
        y,
        rule=PerExampleRule(torch.ones_like, 0.0),
        account=account,
        settings={"mechanism": "sgd"},
        sampling=sampling,
        steps=steps,
        optimizer=optimizer,
        generator=generator,
        expected_batch=expected_batch,
        micro_batch=micro_batch,
        trace_every=trace_every,
        test=test,
        checkpoint=checkpoint,
    )


def noise_multiplier(sampling: Sampler, *, n: int, steps: int, epsilon: float, delta: float) -> float:
    """Return a sigma for which `steps` steps on n examples are (epsilon, delta)-private under this sampler.

    By the tight accountant, on the safe side: the guarantee of such a run is at most the target. Neighbours as for the
    sampler: add/remove, or replace-one for `FixedSize`.

    Raises:
        ValueError: if sampling is no sampler, or as `dpml.accounting.pld.noise_multiplier`.

    Source: `dpml.accounting.pld`.
    """
    return sampler("sampling", sampling).noise_multiplier(n=n, steps=steps, epsilon=epsilon, delta=delta)


def update(
    parameters: torch.Tensor,
    *,
    gradients: torch.Tensor,
    sigma: float,
    clip_norm: float,
    learning_rate: float,
    expected_batch: float,
    generator: torch.Generator,
) -> torch.Tensor:
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
    after: torch.Tensor = parameters - learning_rate * (total + noise) / expected_batch
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
        if not isinstance(value, torch.Tensor) or not value.is_floating_point() or not bool(value.isfinite().all()):
            raise ValueError(f"{name} must be a tensor of finite floats, got {type(value).__name__}")
    if gradients.dim() < 2 or parameters.shape != (*gradients.shape[:-2], gradients.shape[-1]):
        shapes = f"{tuple(parameters.shape)} and {tuple(gradients.shape)}"
        raise ValueError(f"parameters must have shape (..., p) for gradients of shape (..., m, p), got {shapes}")
    arguments.real("sigma", sigma, 0.0)
    _clip_norm(clip_norm)
    arguments.real("learning_rate", learning_rate, 0.0, low_open=True)
    arguments.real("expected_batch", expected_batch, 0.0, low_open=True)


def _clip_norm(clip_norm: float) -> float:
    return arguments.real("clip_norm", clip_norm, 0.0, low_open=True)


def _account(sampling: Any, x: Any, sigma: float, delta: float) -> Callable[[Sequence[int]], list[Guarantee]]:
    """The guarantees of this sampler; called after the loop has checked sampling and x."""

    def account(counts: Sequence[int]) -> list[Guarantee]:
        found: list[Guarantee] = sampling.guarantees(counts, n=len(x), sigma=sigma, delta=delta)
        return found

    return account
