r"""A mechanism: what one step of training releases of a batch, what it remembers, and what that costs.

.. math::

    \sum_{i \in S} w_i\, g_i + N(0, s^2 I), \qquad
    g_i = \nabla_\theta\, \text{loss}(\theta; x_i, y_i).

A mechanism chooses the weights and s, and knows its own privacy. It is a value: it can be printed, compared, asked for
its guarantee before anything is trained, and handed to `dpml.training.loop.train`, to the stacked trainer or to an
audit. `dpml.training.dpsgd` and `dpml.training.trimming` make them, with two functions of this module:

- `each_example`: a weight depends on the example's own norm, so that the gradients of one micro-batch can be summed and
  forgotten before the next;
- `whole_batch`: all norms are seen before it is decided, and there may be a state. What one backward pass left of each
  micro-batch is kept until then, so that micro-batches save no memory here.

The noise is drawn once, in one piece, on the sum of all micro-batches, also when the batch is empty; and here only.

Costs add up over time as well: `together` composes runs of different noise and rate. Neighbours are those of the
samplers (`dpml.training.sampling`). Where a sampler computes the divisor from the number n of records, which differs
between add/remove neighbours, the guarantee says "with n taken as public".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dpml import arguments
from dpml.accounting.guarantee import Guarantee
from dpml.accounting.pld import losses
from dpml.training.per_example import PerExample
from dpml.training.sampling import FixedSize, Sampler, sampler
from dpml.training.shared import ALONE, Share

__all__ = ["Accountant", "Batch", "Decision", "Each", "Mechanism", "Release", "State", "each_example", "gaussian"]
__all__ += ["together", "whole_batch"]

State = dict[str, Tensor | float]
"""What a mechanism remembers from step to step, and reports: numbers or tensors, which a checkpoint can hold."""


class Accountant(NamedTuple):
    """How a mechanism is accounted: three functions, which are given a sampler and the number n of records.

    Attributes:
        guarantees: of an increasing sequence of step counts, ``sampling=``, ``n=`` and ``delta=``: a guarantee each.
        loss: of ``sampling=`` and ``n=``: the privacy loss of one step, None where no epsilon holds.
        noise_multiplier: of ``sampling=``, ``n=``, ``steps=``, ``epsilon=`` and ``delta=``: the sigma for a target.

    Source: definition.
    """

    guarantees: Callable[..., list[Guarantee]]
    loss: Callable[..., losses.Loss | None]
    noise_multiplier: Callable[..., float]


class Each(NamedTuple):
    """Weights from each example's own norm: ``weigh(norms)``, in any shape, and the deviation of the noise on the sum.

    Source: Abadi et al., "Deep learning with differential privacy", CCS 2016, Algorithm 1, in this form.
    """

    weigh: Callable[[Tensor], Tensor]
    noise: float


class Decision(NamedTuple):
    """What is decided from all norms: weights (one for each), noise, the next state, and what to report.

    `noise` is the standard deviation on each coordinate of the sum, a number or a tensor without dimensions, so that a
    test may choose it without waiting for the device. `log` maps names to such numbers; the trace keeps their means.

    Source: definition.
    """

    weights: Tensor
    noise: Tensor | float
    state: State
    log: State


class Release(NamedTuple):
    """The noisy sum of one batch as one vector, the next state, and what to report.

    Source: definition.
    """

    vector: Tensor
    state: State
    log: State


@dataclass(frozen=True)
class Mechanism:
    """What a step releases and what it costs. Two are equal if name and settings are.

    Attributes:
        name: the function that made it.
        settings: what it was made from, in plain numbers and text; a checkpoint is continued only under equal ones.
        release: ``release(batch, state=, generator=)`` returns the `Release` of a `Batch`.
        accountant: how it is accounted.
        start: of a sampler and n the state before the first step; it refuses what cannot be trained or accounted.
        each: weights and noise where each example is weighed alone; None otherwise.

    Source: definition; Abadi et al., "Deep learning with differential privacy", CCS 2016, for what a step releases.
    """

    name: str
    settings: tuple[tuple[str, Any], ...]
    release: Callable[..., Release] = field(compare=False)
    accountant: Accountant = field(compare=False)
    start: Callable[[Sampler, int], State] = field(compare=False)
    each: Each | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in self.settings)})"

    def guarantees(self, counts: Sequence[int], *, sampling: Sampler, n: int, delta: float) -> list[Guarantee]:
        """Return what holds after each number of steps in the increasing sequence `counts`, on n records.

        "exact" is the least number that holds whatever the model, the loss and the data; for one of them less may hold.

        Raises:
            ValueError: for bad input, or a setting that the accountant does not support.

        Source: the accountant of the mechanism.
        """
        sampling = sampler("sampling", sampling)
        self.start(sampling, n)
        found = self.accountant.guarantees(counts, sampling=sampling, n=n, delta=delta)
        return [_labelled(guarantee, [sampling]) for guarantee in found]

    def guarantee(self, *, sampling: Sampler, n: int, steps: int, delta: float) -> Guarantee:
        """Return what holds after so many steps on n records: before a run, and the same as the run will say.

        Raises:
            ValueError: as `guarantees`.

        Source: the accountant of the mechanism.
        """
        return self.guarantees([arguments.integer("steps", steps, 0)], sampling=sampling, n=n, delta=delta)[0]

    def noise_multiplier(self, *, sampling: Sampler, n: int, steps: int, epsilon: float, delta: float) -> float:
        """Return the sigma with which this mechanism, otherwise as it is, meets a target on the safe side.

        Raises:
            ValueError: for bad input, a target out of reach, or a mechanism without noise.

        Source: the accountant of the mechanism.
        """
        sampling = sampler("sampling", sampling)
        self.start(sampling, n)
        return self.accountant.noise_multiplier(sampling=sampling, n=n, steps=steps, epsilon=epsilon, delta=delta)


def together(runs: Sequence[tuple[Mechanism, Sampler, int]], *, n: int, delta: float) -> Guarantee:
    """Return what holds for all `runs` on the same n records together: each a mechanism, a sampler and its steps.

    Noise, rate and mechanism may differ from run to run, and a later run may be chosen by what an earlier one gave. The
    samplers must share one neighbouring relation.

    Raises:
        ValueError: if runs is not a non-empty list of such triples, or the samplers differ in their neighbours;
            otherwise as `Mechanism.guarantees`.

    Source: `dpml.accounting.pld.losses.compose`.
    """
    if not isinstance(runs, list | tuple) or not runs or not all(_is_run(run) for run in runs):
        raise ValueError(f"runs must be a non-empty list of (mechanism, sampling, steps), got {repr(runs)[:60]}")
    parts, infinite = [], False
    samplings = [sampler("sampling", sampling) for _, sampling, _ in runs]
    for mechanism, sampling, steps in runs:
        mechanism.start(sampling, n)
        loss = mechanism.accountant.loss(sampling=sampling, n=n)
        infinite |= loss is None and steps > 0
        parts += [] if loss is None else [(loss, steps)]
    if infinite:
        return Guarantee(math.inf, delta=arguments.probability("delta", delta), kind="exact", adjacency="add/remove")
    return _labelled(losses.compose(parts, delta=delta).guarantee(), samplings)


def _labelled(guarantee: Guarantee, samplings: Sequence[Sampler]) -> Guarantee:
    """Say that n is taken as public where a divisor was computed from it and neighbours differ in it."""
    derived = any(not isinstance(sampling, FixedSize) and sampling.expected_batch is None for sampling in samplings)
    return replace(guarantee, public="n") if derived and guarantee.adjacency != "replace-one" else guarantee


def _is_run(run: Any) -> bool:
    return isinstance(run, tuple) and len(run) == 3 and isinstance(run[0], Mechanism)


def gaussian(sigma: float) -> Accountant:
    """Return the accountant of Gaussian noise of multiplier sigma on a sum that one example moves by one clip norm.

    Source: `dpml.accounting.pld`, by the sampler.
    """

    return Accountant(
        loss=lambda *, sampling, n: sampling.loss(n=n, sigma=sigma) if sigma > 0.0 else None,
        guarantees=lambda counts, *, sampling, n, delta: sampling.guarantees(counts, n=n, sigma=sigma, delta=delta),
        noise_multiplier=lambda *, sampling, **target: sampling.noise_multiplier(**target),
    )


class Batch:
    """The gradients of one logical batch, which comes in micro-batches: `norms`, `losses`, and sums as one vector.

    `ids` are the positions of the examples in the data, on the device of the norms. The vector holds all trained
    parameters after one another, in single precision at least. Without chunks (an empty batch) sums are zero. Nothing
    here waits for the device.

    Where several processes share the batch (`dpml.training.shared`), the chunks are those of this process's share; all
    else is about the whole batch.

    Source: Abadi et al., "Deep learning with differential privacy", CCS 2016, section 3.1, for lots and batches.
    """

    def __init__(
        self,
        chunks: Iterable[PerExample],
        *,
        ids: Tensor,
        parameters: Mapping[str, nn.Parameter],
        share: Share = ALONE,
    ) -> None:
        first = next(iter(parameters.values()))
        self._share = share
        self.ids, self._coming, self._kept, self._parameters = ids, iter(chunks), list[PerExample](), parameters
        self._empty = torch.empty(0, dtype=torch.promote_types(first.dtype, torch.float32), device=first.device)
        self._norms, self._losses, self._weights = [self._empty], [self._empty], [self._empty]

    @cached_property
    def norms(self) -> Tensor:
        """The norms of all gradients; from here on, what one backward pass left of each micro-batch is kept."""
        self._kept += map(self._seen, self._coming)
        return self._share.gathered(torch.cat(self._norms), len(self.ids))

    @cached_property
    def losses(self) -> Tensor:
        """The losses of all examples, once they were looked at."""
        return self._share.gathered(torch.cat(self._losses), len(self.ids))

    @property
    def clipped(self) -> Tensor:
        """How many examples got a weight below 1."""
        return self._share.total((torch.cat(self._weights) < 1.0).sum())

    def sum(self, weights: Tensor) -> Tensor:
        """Return the weighted sum, of as many `weights` as there are norms.

        Raises:
            ValueError: if there are more or fewer.

        Source: Abadi et al., "Deep learning with differential privacy", CCS 2016, Algorithm 1.
        """
        if weights.shape != self.norms.shape:
            raise ValueError(f"weights must be one for each norm, got shape {tuple(weights.shape)}")
        sizes = [len(chunk.norms) for chunk in self._kept]
        pieces = torch.split(weights[self._share.mine], sizes) if sizes else []
        return self._total(zip(self._kept, pieces, strict=True))

    def sum_each(self, weigh: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the sum with weights from each example's own norm; micro-batches are forgotten one after another.

        Source: Abadi et al., "Deep learning with differential privacy", CCS 2016, Algorithm 1.
        """
        return self._total((chunk, weigh(chunk.norms)) for chunk in map(self._seen, self._coming))

    def _seen(self, chunk: PerExample) -> PerExample:
        self._norms.append(chunk.norms)
        self._losses.append(chunk.losses)
        return chunk

    def _total(self, weighted: Iterable[tuple[PerExample, Tensor]]) -> Tensor:
        total = self._empty.new_zeros(sum(p.numel() for p in self._parameters.values()))
        for chunk, weights in weighted:
            sums = chunk.sum(weights)
            total.add_(torch.cat([sums[name].reshape(-1) for name in self._parameters]))
            self._weights.append(weights)
        return self._share.total(total)


def each_example(name: str, *, settings: Mapping[str, Any], each: Each, accountant: Accountant) -> Mechanism:
    """Return the mechanism that weighs each example alone and adds noise to the sum.

    Source: Abadi et al., "Deep learning with differential privacy", CCS 2016, Algorithm 1.
    """

    def release(batch: Batch, *, state: State, generator: torch.Generator) -> Release:
        return Release(_noisy(batch.sum_each(each.weigh), each.noise, generator), state, {})

    return Mechanism(name, tuple(settings.items()), release, accountant, lambda sampling, n: {}, each)


def whole_batch(
    name: str,
    *,
    settings: Mapping[str, Any],
    decide: Callable[..., Decision],
    accountant: Accountant,
    start: Callable[[Sampler, int], State],
) -> Mechanism:
    """Return the mechanism that sees all norms first: ``decide(norms, ids=, state=, generator=)`` returns a `Decision`.

    It is called in every step, with no norms where the batch is empty, and must not change the norms in place. The
    `generator`, on the device of the norms, is the source of its own noise.

    Source: Wang et al., "Rényi differential privacy of propose-test-release and applications to private and robust
    machine learning", NeurIPS 2022, Algorithm 2, in this form.
    """

    def release(batch: Batch, *, state: State, generator: torch.Generator) -> Release:
        chosen = decide(batch.norms, ids=batch.ids, state=state, generator=generator)
        return Release(_noisy(batch.sum(chosen.weights), chosen.noise, generator), chosen.state, chosen.log)

    return Mechanism(name, tuple(settings.items()), release, accountant, start)


def _noisy(total: Tensor, deviation: Tensor | float, generator: torch.Generator) -> Tensor:
    return torch.empty_like(total).normal_(generator=generator).mul_(deviation).add_(total)
