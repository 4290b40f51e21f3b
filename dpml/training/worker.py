r"""One worker: it draws a batch of its data, releases the noisy mean of the gradients, and remembers where it was.

.. math::

    \frac{1}{B}\Bigl(\sum_{i \in S} w_i\, g_i + N(0, s^2 I)\Bigr).

A step of training needs nothing else of the data. The trainer (`dpml.training.loop`) has one worker and hands this mean
to the optimizer; where there are several, each with randomness of its own, something decides in between what to make of
their means (`dpml.byzantine.simulation`). What the loop asks of a source of gradients is written down in `Source`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from dpml.training import _checks, _run_state, _self_test
from dpml.training._checks import LossFunction
from dpml.training.mechanism import Batch, Mechanism, State
from dpml.training.per_example import PerExample
from dpml.training.sampling import Sampler
from dpml.training.shared import ALONE, Share

__all__ = ["Augment", "Corrupt", "Source", "Step", "Worker"]

Augment = Callable[[Tensor, Tensor], Tensor]
"""What becomes of the examples x [B, ...] with labels y [B] before their gradients are taken, [B, ...] again."""

Corrupt = Callable[[PerExample, Tensor], Any]
"""What faulty workers make of the gradients of a micro-batch, given the examples' numbers: see `corruption`."""


class Step(NamedTuple):
    """What a step gives: the vector for the optimizer, and what is seen of the batch.

    Attributes:
        gradient: one number for each trained parameter.
        examples: how many were drawn.
        norms: the norms of their gradients, before weighting.
        log: sums over the examples ("loss", "clipped") and what the mechanism reports.
        good: whether gradient, losses and norms are all finite; a tensor without dimensions.

    Source: definition.
    """

    gradient: Tensor
    examples: int
    norms: Tensor
    log: State
    good: Tensor


class Source(Protocol):
    """Where the vectors for the optimizer come from.

    A source can go back to where it was: `restore` takes what `state` returned, also from a file. After a step that
    failed nothing was released, and the next try draws the same.

    Source: definition.
    """

    def step(self) -> Step:
        """Draw, weigh, sum, add noise, divide."""

    def state(self) -> dict[str, Any]:
        """All that the next step depends on but the model: tensors and numbers, in dictionaries and lists."""

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to what `state` returned."""

    def test(self, step: int) -> None:
        """Run the self-test of the per-example gradients again, on the examples of the last step."""


@dataclass(eq=False)
class Worker:
    """One holder of data: checked arguments as those of `dpml.training.train`, and the state of its mechanism.

    Source: Abadi et al., "Deep learning with differential privacy", CCS 2016, Algorithm 1, with the mechanism left
    open.
    """

    model: torch.nn.Module
    loss_fn: LossFunction
    x: Tensor
    y: Tensor
    mechanism: Mechanism
    sampling: Sampler
    generator: torch.Generator
    micro_batch: int | None = None
    corrupt: Corrupt | None = None
    augment: Augment | None = None
    share: Share = ALONE
    memory: State = field(init=False)

    def __post_init__(self) -> None:
        self.parameters = _checks.trained_parameters(self.model)
        self.device = next(iter(self.parameters.values())).device
        self.memory = self.mechanism.start(self.sampling, len(self.x))
        self.randomness = _run_state.Randomness(self.generator, self.device)
        self.last_ids = torch.empty(0, dtype=torch.int64)

    def step(self) -> Step:
        """Sample; weigh, sum and add noise, as the mechanism says; divide."""
        with self.randomness.for_layers():
            ids = self.sampling.draw(len(self.x), generator=self.randomness.sampling)
            chunks, here = self._chunks(ids[self.share.mine]), ids.to(self.device)
            batch = Batch(chunks, ids=here, parameters=self.parameters, share=self.share)
            released = self.mechanism.release(batch, state=self.memory, generator=self.randomness.noise)
            gradient = released.vector.div_(self.sampling.expected(len(self.x)))
        self.memory, self.last_ids = released.state, ids
        log = {**released.log, "loss": batch.losses.sum(), "clipped": batch.clipped}
        return Step(gradient, len(ids), batch.norms, log, all_finite(gradient, batch.losses, batch.norms))

    def _chunks(self, ids: Tensor) -> Iterator[PerExample]:
        """The batch in pieces that fit the memory, which has no privacy meaning; none of an empty one."""
        for some in torch.split(ids, self.micro_batch or len(ids)) if len(ids) else ():
            some_x, some_y = self._examples(some)
            if self.augment is not None:
                some_x = self.augment(some_x, some_y)
            chunk = PerExample(self.model, self.loss_fn, some_x, some_y)
            yield chunk if self.corrupt is None else self.corrupt(chunk, some)

    def _examples(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        return self.x[ids.to(self.x.device)].to(self.device), self.y[ids.to(self.y.device)].to(self.device)

    def state(self) -> dict[str, Any]:
        """Its randomness, what its mechanism remembers, and its last batch."""
        return {"randomness": self.randomness.state(), "memory": self.memory, "last_ids": self.last_ids}

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to what `state` returned."""
        self.randomness.restore(state["randomness"])
        self.memory, self.last_ids = on(self.device, state["memory"]), state["last_ids"]

    def test(self, step: int) -> None:
        """Run the self-test of the per-example gradients again, on the examples of the last step if it had any."""
        ids = self.last_ids if len(self.last_ids) else torch.arange(min(8, len(self.x)))
        some = self._examples(ids[: self.micro_batch])
        _self_test.again(self.model, self.loss_fn, *some, augment=self.augment, step=step)


def all_finite(gradient: Tensor, *others: Tensor) -> Tensor:
    """Return whether all numbers are finite, in a tensor without dimensions; nothing waits for the device."""
    ends = torch.stack(torch.aminmax(gradient))
    return torch.stack([values.isfinite().all() for values in (ends, *others)]).all()


def on(device: torch.device, values: State) -> State:
    """Return numbers and tensors with the tensors on that device."""
    return {name: value.to(device) if isinstance(value, Tensor) else value for name, value in values.items()}


def generators(generator: torch.Generator, *, n: int) -> list[torch.Generator]:
    """Return n generators on the CPU, one for each of n workers, with seeds that are drawn from this one.

    Source: definition.
    """
    return [torch.Generator().manual_seed(_run_state.new_seed(generator)) for _ in range(n)]
