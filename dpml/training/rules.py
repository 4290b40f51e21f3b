r"""The noisy sum of one logical batch, and the rules that make it private.

.. math::

    \sum_{i \in S} w_i\, g_i + N(0, s^2 I), \qquad
    g_i = \nabla_\theta\, \text{loss}(\theta; x_i, y_i).

A *rule* chooses the weights and s. With $w_i = \min(1, C/\|g_i\|)$, adding or removing one example moves the sum by at
most C, so $s = \sigma C$ is noise of multiplier $\sigma$. Two forms:

- `PerExampleRule`: each weight depends on the example's own norm, so that the gradients of one micro-batch can be
  summed and forgotten before the next;
- `LogicalBatchRule`: sees all norms of the batch before it decides, and may keep a state (trimmed sums,
  propose-test-release). What one backward pass left of each micro-batch is kept until then, so micro-batches save no
  memory here.

Either way the sum does not depend on the size of the micro-batches, except for rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from dpml.training.per_example import PerExample

__all__ = ["Decision", "LogicalBatchRule", "PerExampleRule", "Rule", "State", "WeightedSum", "weighted_sum"]

State = dict[str, torch.Tensor | float]
"""What a rule remembers from step to step, and what it reports: numbers or tensors, which a checkpoint can hold."""


@dataclass(frozen=True)
class PerExampleRule:
    """Each weight depends on the example's own norm: ``weigh(norms)`` returns the weights, in the same shape.

    `noise` is the standard deviation of the noise on each coordinate of the sum.

    Source: Abadi et al., "Deep learning with differential privacy", CCS 2016, Algorithm 1, in this form.
    """

    weigh: Callable[[torch.Tensor], torch.Tensor]
    noise: float


class Decision(NamedTuple):
    """What a `LogicalBatchRule` decides: weights (one for each norm), noise, its next state, and what to report.

    `noise` is a number or a tensor without dimensions, so that a test may choose it without waiting for the device.
    `log` maps names to such numbers; the trace keeps their means over the steps.

    Source: definition.
    """

    weights: torch.Tensor
    noise: torch.Tensor | float
    state: State
    log: State


@dataclass(frozen=True)
class LogicalBatchRule:
    """The weights depend on all norms of the logical batch: ``decide(norms, ids=, state=, generator=)``.

    `ids` are the positions of the examples in the data (int64), `state` is what the rule returned one step before (at
    first the `state` given here), `generator` the source of its own noise, on the device of the norms. It is called in
    every step, with no norms where the batch is empty, must not change the norms in place, and returns a `Decision`.

    Source: Wang et al., "Rényi differential privacy of propose-test-release and applications to private and robust
    machine learning", NeurIPS 2022, Algorithm 2, in this form.
    """

    decide: Callable[..., Decision]
    state: State = field(default_factory=dict)


Rule = PerExampleRule | LogicalBatchRule


class WeightedSum(NamedTuple):
    """The sum of one logical batch as one vector, the noise that it must get, and what was seen.

    Attributes:
        sum: all trained parameters after one another; of single precision at least.
        noise: standard deviation of the noise on each of its coordinates.
        state: next state of the rule.
        norms: norms before weighting, in the order of the batch; losses likewise.
        log: sums over the batch, and what the rule reports.
        finite: whether all losses and norms are finite.

    Source: definition.
    """

    sum: torch.Tensor
    noise: torch.Tensor | float
    state: State
    norms: torch.Tensor
    log: State
    finite: torch.Tensor


def weighted_sum(
    chunks: Iterable[PerExample],
    *,
    rule: Rule,
    parameters: dict[str, torch.nn.Parameter],
    ids: torch.Tensor,
    state: State,
    generator: torch.Generator,
) -> WeightedSum:
    """Return the sum over a logical batch that comes in `chunks`; `ids` are the positions of all its examples.

    `parameters` are the trained ones, by name, and fix the order of the vector. Without chunks (an empty batch) the sum
    is zero, and the noise that it gets is the same. Nothing here waits for the device.

    Raises:
        ValueError: if a LogicalBatchRule does not return one weight for each norm.

    Source: Abadi et al., "Deep learning with differential privacy", CCS 2016, Algorithm 1, without the noise.
    """
    first = next(iter(parameters.values()))
    dtype = torch.promote_types(first.dtype, torch.float32)
    total = torch.zeros(sum(p.numel() for p in parameters.values()), dtype=dtype, device=first.device)
    norms = [torch.empty(0, dtype=dtype, device=first.device)]
    losses, weights = norms.copy(), norms.copy()
    log: State = {}
    noise: torch.Tensor | float

    def add(chunk: PerExample, some: torch.Tensor) -> None:
        sums = chunk.sum(some)
        total.add_(torch.cat([sums[name].reshape(-1) for name in parameters]))
        weights.append(some)

    def look(chunk: PerExample) -> PerExample:
        norms.append(chunk.norms)
        losses.append(chunk.losses)
        return chunk

    if isinstance(rule, PerExampleRule):
        noise = rule.noise
        for chunk in chunks:
            add(look(chunk), rule.weigh(chunk.norms))
    else:
        kept = [look(chunk) for chunk in chunks]
        decision = rule.decide(_joined(norms), ids=ids, state=state, generator=generator)
        if decision.weights.shape != ids.shape:
            raise ValueError(f"rule must return one weight per norm, got shape {tuple(decision.weights.shape)}")
        noise, state, log = decision.noise, decision.state, dict(decision.log)
        whole = decision.weights
        pieces = [whole] if len(kept) == 1 else torch.split(whole, [len(chunk.norms) for chunk in kept])
        for chunk, some in zip(kept, pieces, strict=True):
            add(chunk, some)
    all_norms, all_losses = _joined(norms), _joined(losses)
    log |= {"loss": all_losses.sum(), "clipped": (_joined(weights) < 1.0).sum()}
    return WeightedSum(total, noise, state, all_norms, log, all_losses.isfinite().all() & all_norms.isfinite().all())


def _joined(pieces: list[torch.Tensor]) -> torch.Tensor:
    """One tensor of all pieces, the first of which is empty; a copy less if there is nothing to join."""
    return pieces[1] if len(pieces) == 2 and pieces[1].dtype == pieces[0].dtype else torch.cat(pieces)
