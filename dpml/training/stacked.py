r"""Many training runs at once: other seeds, noise levels, clip norms, shards of the data or labels.

.. math::

    \theta_k \leftarrow \text{optimizer}\Bigl(\theta_k,\ \frac{1}{B_k}\Bigl(\sum_{i \in S_k} w_{ki}\, g_{ki}
    + N(0, \sigma_k^2 C_k^2 I)\Bigr)\Bigr), \qquad k = 1, \dots, K,

for K networks of one shape (`dpml.training.stacked_networks`). `train_private` clips, $w = \min(1, C_k/\|g\|)$; `train`
has $w = 1$ and no noise. They do what `dpml.training.dpsgd.dp_sgd` and ``sgd`` do one model at a time, with the same
draws from the same generators: run k of the stack and a single run differ by the rounding of the sums only.

| argument | one for all | one for each model |
|---|---|---|
| `x`, `y` | all records, (N, ...) and (N,) | labels (K, N); records by `shards` |
| `shards` | None: every model sees all records | K lists of record numbers |
| `sigma`, `clip_norm` | a number | K numbers |
| `sampling` | a sampler | K samplers |
| batches | drawn from the generator `common` | None: from ``generators[k]`` |

Poisson batches of K models differ in size. They are filled up to the longest with copies of one record at weight 0,
which is exactly as if these were absent.

Privacy. The guarantee of a private run is that of its model alone. Who sees several models of the same records needs
their composition. Models with a common batch share the coins of the sampling, so that K independent mechanisms are not
what is composed: all their sums together, each divided by its $C_k \sigma_k$, are one subsampled Gaussian mechanism of
noise multiplier $(\sum_k \sigma_k^{-2})^{-1/2}$. Models on disjoint shards are different: one record is in one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch.nn.utils.rnn import pad_sequence
from tqdm.auto import tqdm

from dpml import arguments
from dpml.accounting.guarantee import Guarantee
from dpml.training import _stacked_arguments as checked
from dpml.training._randomness import _new_seed as new_seed
from dpml.training.sampling import Sampler
from dpml.training.stacked_networks import Loss, Stack, StackedPerExample

__all__ = ["OptimizerOf", "StackedRun", "train", "train_private"]

OptimizerOf = Callable[[list[torch.Tensor]], torch.optim.Optimizer]
"""A function that makes the optimizer: ``lambda parameters: torch.optim.SGD(parameters, lr=0.1)``."""


class StackedRun(NamedTuple):
    """What K training runs leave behind.

    Attributes:
        stack: the trained networks.
        losses: shape (steps, K), mean loss of the batch before each update; nan where the batch was empty.
        clipped: shape (steps, K), fraction of the batch with a weight below 1; nan where it was empty.
        diverged: shape (K,), int64: the first step, counted from 1, in which a loss or a gradient of the model was not
            finite, or 0. The other models are not touched by it.
        guarantees: one for each model, for that model alone.

    Losses and fractions have no noise: they are not covered by the guarantees.

    Source: definition.
    """

    stack: Stack
    losses: torch.Tensor
    clipped: torch.Tensor
    diverged: torch.Tensor
    guarantees: tuple[Guarantee, ...]


def train(
    stacked: Stack,
    loss_fn: Loss,
    x: torch.Tensor,
    y: torch.Tensor,
    *,
    sampling: Sampler | Sequence[Sampler],
    steps: int,
    optimizer: OptimizerOf,
    generators: Sequence[torch.Generator],
    shards: Sequence[torch.Tensor] | None = None,
    common: torch.Generator | None = None,
) -> StackedRun:
    """Train K networks without privacy, each as `dpml.training.dpsgd.sgd` would; `stacked` itself is not changed.

    The sum of the gradients is divided by the expected batch size. Arguments as for `train_private`.

    Raises:
        ValueError: as `train_private`.

    Source: definition; Robbins and Monro, "A stochastic approximation method", Annals of Mathematical Statistics 1951.
    """
    runs = _Runs(stacked, loss_fn, x, y, sampling, steps, optimizer, generators, shards, common)
    none = Guarantee(math.inf, delta=0.0, kind="exact", adjacency="add/remove")
    return runs.run(None, None, (none,) * runs.models)


def train_private(
    stacked: Stack,
    loss_fn: Loss,
    x: torch.Tensor,
    y: torch.Tensor,
    *,
    sampling: Sampler | Sequence[Sampler],
    sigma: ArrayLike,
    clip_norm: ArrayLike,
    steps: int,
    optimizer: OptimizerOf,
    delta: float,
    generators: Sequence[torch.Generator],
    shards: Sequence[torch.Tensor] | None = None,
    common: torch.Generator | None = None,
) -> StackedRun:
    """Train K networks by DP-SGD, each as `dpml.training.dpsgd.dp_sgd` would; `stacked` itself is not changed.

    Neighbours: add/remove for `Poisson` and `FullBatch`, replace-one for `FixedSize`. The number of records of a shard
    is treated as public: it sets the expected batch size.

    Args:
        stacked: the networks before training.
        loss_fn: function of outputs (M, classes) and labels (M,) that returns one loss for each, (M,).
        x: the records, (N, ...), of the networks' type and on their device.
        y: the labels, (N,), or (K, N) if each model has its own.
        sampling: `Poisson`, `FixedSize` or `FullBatch`, or a list of K of them; drawn from the records of a shard.
        sigma: noise multiplier(s) in [0, inf), a number or one for each model.
        clip_norm: clipping norm(s) in (0, inf), likewise.
        steps: number of steps, >= 1.
        optimizer: a function from the list of parameters to a torch optimizer whose rule works on each number by itself
            (SGD with momentum, Adam and the like; not LAMB or others that use the norm of a whole tensor).
        delta: the delta of the guarantees, in [0, 1].
        generators: K different generators on the CPU, of batches and noise.
        shards: the record numbers of each model, K int64 tensors; None for all records.
        common: a generator on the CPU, from which one batch for all models is drawn in every step; the shards must be
            equally long then.

    Raises:
        ValueError: for bad input, before any step.

    Source: Abadi et al., "Deep learning with differential privacy", CCS 2016, Algorithm 1, for each model.
    """
    runs = _Runs(stacked, loss_fn, x, y, sampling, steps, optimizer, generators, shards, common)
    sigmas = checked.one_for_each("sigma", sigma, runs.models, low=0.0, low_open=False)
    clips = checked.one_for_each("clip_norm", clip_norm, runs.models, low=0.0, low_open=True)
    arguments.probability("delta", delta)
    settings = list(zip(runs.samplers, runs.sizes, sigmas.tolist(), strict=True))
    known = {
        (drawn, n, noise): drawn.guarantees([runs.steps], n=n, sigma=noise, delta=delta)[0]
        for drawn, n, noise in dict.fromkeys(settings)
    }
    return runs.run(sigmas, clips, tuple(known[one] for one in settings))


class _Runs:
    """The checked arguments of K runs, and their steps."""

    def __init__(
        self,
        stacked: Stack,
        loss_fn: Loss,
        x: torch.Tensor,
        y: torch.Tensor,
        sampling: Sampler | Sequence[Sampler],
        steps: int,
        optimizer: OptimizerOf,
        generators: Sequence[torch.Generator],
        shards: Sequence[torch.Tensor] | None,
        common: torch.Generator | None,
    ) -> None:
        checked.stacked(stacked, Stack)
        self.models, self.loss_fn, self.common = len(stacked.parameters), loss_fn, common
        self.x = checked.examples("x", x, stacked)
        self.y = checked.labels(y, len(x), self.models, stacked.parameters.device)
        self.samplers = checked.samplers(sampling, self.models, common)
        self.steps = arguments.integer("steps", steps, 1, 10**9)
        self.generators = checked.generators(generators, self.models, common)
        self.shards = checked.shards(shards, len(x), self.models, common)
        self.sizes = [len(x)] * self.models if self.shards is None else [len(shard) for shard in self.shards]
        self.expected = [one.expected(size) for one, size in zip(self.samplers, self.sizes, strict=True)]
        self.stack = Stack(stacked.parameters.detach().clone(), stacked.sizes)
        checked.fitting_loss(loss_fn, self.y, self.stack)
        self.optimizer = checked.optimizer(optimizer, self.stack.parameters)

    def run(
        self, sigmas: NDArray[np.float64] | None, clips: NDArray[np.float64] | None, guarantees: tuple[Guarantee, ...]
    ) -> StackedRun:
        parameters = self.stack.parameters
        noise = None if sigmas is None or clips is None else self._column(sigmas * clips)
        bound = None if clips is None else self._column(clips)
        expected = self._column(np.array(self.expected))
        own_noise = [_noise_generator(generator, parameters.device) for generator in self.generators]
        total = torch.empty_like(parameters)
        losses, clipped = parameters.new_zeros(self.steps, self.models), parameters.new_zeros(self.steps, self.models)
        diverged = torch.zeros(self.models, dtype=torch.int64, device=parameters.device)
        for step in tqdm(range(self.steps), disable=None, delay=0.5, desc=f"steps of {self.models} models"):
            batch = self._batch()
            examples = StackedPerExample(self.stack, self.loss_fn, batch.x, batch.y)
            norms = examples.norms
            weights = torch.ones_like(norms) if bound is None else bound / torch.maximum(norms, bound)
            examples.sum(weights if batch.here is None else weights * batch.here, out=total)
            if noise is not None:
                for row, deviation, generator in zip(total, noise, own_noise, strict=True):
                    row += torch.empty_like(row).normal_(generator=generator) * deviation
            parameters.grad = total.div_(expected)
            losses[step] = _mean(examples.losses, batch.here)
            clipped[step] = _mean((weights < 1.0).to(norms.dtype), batch.here)
            good = (total.isfinite().all(1)) & (losses[step].isfinite() | (batch.counts == 0))
            diverged = torch.where(good | (diverged > 0), diverged, step + 1)
            self.optimizer.step()
        parameters.grad = None
        return StackedRun(self.stack, losses, clipped, diverged, guarantees)

    def _column(self, values: NDArray[np.float64]) -> torch.Tensor:
        return torch.as_tensor(values, dtype=self.x.dtype, device=self.x.device)[:, None]

    def _batch(self) -> _Batch:
        """The batches of a step: one for all, or one for each model, filled up to the longest."""
        if self.common is not None:
            places = self.samplers[0].draw(self.sizes[0], generator=self.common)
            index = places if self.shards is None else torch.stack([shard[places] for shard in self.shards])
            counts, here = torch.full((self.models,), len(places)), None
        else:
            each = zip(self.samplers, self.sizes, self.generators, strict=True)
            drawn = [one.draw(n, generator=generator) for one, n, generator in each]
            if self.shards is not None:
                drawn = [shard[places] for shard, places in zip(self.shards, drawn, strict=True)]
            counts = torch.tensor([len(places) for places in drawn])
            index = pad_sequence(drawn, batch_first=True)
            ragged = int(counts.min()) < index.shape[1]
            here = (torch.arange(index.shape[1]) < counts[:, None]).to(self.x) if ragged else None
        index = index.to(self.x.device)
        x = self.x[index]
        y = self.y[index] if self.y.dim() == 1 else self.y.gather(1, index.expand(self.models, -1))
        return _Batch(x, y, here, counts.to(self.x.device))


class _Batch(NamedTuple):
    """x (K, B, features) or (B, features); y (K, B) or (B,); here (K, B) is 0 for filling, None if there is none."""

    x: torch.Tensor
    y: torch.Tensor
    here: torch.Tensor | None
    counts: torch.Tensor


def _mean(values: torch.Tensor, here: torch.Tensor | None) -> torch.Tensor:
    if here is None:
        return values.mean(1)
    return torch.where(here > 0, values, 0.0).sum(1) / here.sum(1)


def _noise_generator(generator: torch.Generator, device: torch.device) -> torch.Generator:
    """As in `dpml.training.loop`, so that a single run with the same generator draws the same batches and noise."""
    noise = torch.Generator(device).manual_seed(new_seed(generator))
    for _ in range(2 if device.type == "cuda" else 1):
        new_seed(generator)  # the seeds of layers such as dropout, which these networks do not have
    return noise
