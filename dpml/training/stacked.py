r"""Many training runs at once: other seeds, mechanisms, noise levels, clip norms, shards of the data or labels.

.. math::

    \theta_k \leftarrow \text{optimizer}\Bigl(\theta_k,\ \frac{1}{B_k}\Bigl(\sum_{i \in S_k} w_{ki}\, g_{ki}
    + N(0, s_k^2 I)\Bigr)\Bigr), \qquad k = 1, \dots, K,

for K networks of one shape (`dpml.training.stacked_networks`). `train` does what `dpml.training.loop.train` does one
model at a time, with the same draws from the same generators: run k of the stack and a single run differ by the
rounding of the sums only. Mechanisms are those that weigh each example alone: `dp_sgd`, `dp_sgd_automatic`, `sgd`.

| argument | one for all | one for each model |
|---|---|---|
| `x`, `y` | all records, (N, ...) and (N,) | labels (K, N); records by `shards` |
| `shards` | None: every model sees all records | K lists of record numbers |
| `mechanism` | a mechanism | K mechanisms |
| `sampling` | a sampler | K samplers |

Poisson batches of K models differ in size. They are filled up to the longest with copies of one record at weight 0,
which is exactly as if these were absent.

Privacy. The guarantee of a run is that of its model alone. Who sees several models of the same records needs their
composition. Models on disjoint shards are different: one record is in one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.utils.rnn import pad_sequence
from tqdm.auto import tqdm

from dpml import arguments
from dpml.accounting.guarantee import Guarantee
from dpml.training import _checks
from dpml.training._checks import LossFunction
from dpml.training._numbers import record_numbers
from dpml.training._run_state import Randomness
from dpml.training.mechanism import Mechanism
from dpml.training.per_example import begin
from dpml.training.sampling import Sampler, cpu_generator, large_batch, sampler
from dpml.training.stacked_networks import Stack, StackedPerExample, flat_examples, require_stack, unstack

__all__ = ["OptimizerOf", "StackedRun", "train"]

OptimizerOf = Callable[[list[torch.Tensor]], torch.optim.Optimizer]
"""A function that makes the optimizer: ``lambda parameters: torch.optim.SGD(parameters, lr=0.1)``."""


class StackedRun(NamedTuple):
    """What K training runs leave behind.

    Attributes:
        stack: the trained networks.
        diverged: shape (K,), int64: the first step, counted from 1, in which a loss or a gradient of the model was not
            finite, or 0. The other models are not touched by it.
        guarantees: one for each model, for that model alone.

    Source: definition.
    """

    stack: Stack
    diverged: torch.Tensor
    guarantees: tuple[Guarantee, ...]


def train(
    stacked: Stack,
    loss_fn: LossFunction,
    x: torch.Tensor,
    y: torch.Tensor,
    *,
    mechanism: Mechanism | Sequence[Mechanism],
    sampling: Sampler | Sequence[Sampler],
    steps: int,
    optimizer: OptimizerOf,
    delta: float,
    generators: Sequence[torch.Generator],
    shards: Sequence[torch.Tensor] | None = None,
) -> StackedRun:
    """Train K networks, each as `dpml.training.loop.train` would; `stacked` itself is not changed.

    Neighbours: add/remove for `Poisson` and `FullBatch`, replace-one for `FixedSize`. Where a sampler has no
    `expected_batch`, the number of records of a shard sets it, and the guarantee says "with n taken as public".

    Args:
        stacked: the networks before training.
        loss_fn: function of outputs (M, classes) and labels (M,) that returns one loss for each, (M,).
        x: the records, (N, ...), of the networks' type and on their device.
        y: the labels, (N,), or (K, N) if each model has its own.
        mechanism: `dp_sgd`, `dp_sgd_automatic` or `sgd` with its settings, or a list of K of them.
        sampling: `Poisson`, `FixedSize` or `FullBatch`, or a list of K of them; drawn from the records of a shard.
        steps: number of steps, >= 1.
        optimizer: a function from the list of parameters to a torch optimizer whose rule works on each number by itself
            (SGD with momentum, Adam and the like; not LAMB or others that use the norm of a whole tensor).
        delta: the delta of the guarantees, in [0, 1].
        generators: K different generators on the CPU, of batches and noise.
        shards: the record numbers of each model, K int64 tensors; None for all records.

    Raises:
        ValueError: for bad input, before any step.

    Source: Abadi et al., "Deep learning with differential privacy", CCS 2016, Algorithm 1, for each model.
    """
    models = len(require_stack(stacked).parameters)
    flat = flat_examples(x, stacked)
    y = _labels(y, len(flat), models, stacked.parameters.device)
    mechanisms = _one_or_list("mechanism", mechanism, models, _mechanism)
    samplers = _one_or_list("sampling", sampling, models, sampler)
    steps = arguments.integer("steps", steps, 1, 10**9)
    generators = _generators(generators, models)
    parts = _shards(shards, len(flat), models)
    _fitting_loss(loss_fn, flat, y, stacked, samplers[0])
    settings = list(zip(mechanisms, samplers, map(len, parts), strict=True))
    known = {
        one: one[0].guarantee(sampling=one[1], n=one[2], steps=steps, delta=delta) for one in dict.fromkeys(settings)
    }
    stack = Stack(stacked.parameters.detach().clone(), stacked.sizes)
    updates = _optimizer(optimizer, stack.parameters)
    parameters = stack.parameters
    deviation, expected = (
        torch.tensor(values, dtype=flat.dtype, device=flat.device)[:, None]
        for values in ([one.each.noise for one in mechanisms if one.each], [s.expected(n) for _, s, n in settings])
    )
    places: dict[Mechanism, list[int]] = {}
    for k, one in enumerate(mechanisms):
        places.setdefault(one, []).append(k)
    weighed = [(one.each, torch.tensor(rows, device=flat.device)) for one, rows in places.items() if one.each]
    noise = [Randomness(generator, flat.device).noise for generator in generators]  # also where none is added
    noisy = bool(deviation.any())
    total = torch.empty_like(parameters)
    diverged = torch.zeros(models, dtype=torch.int64, device=parameters.device)
    for step in tqdm(range(steps), disable=None, delay=0.5, desc=f"steps of {models} models"):
        index, here = _drawn(samplers, parts, generators, parameters)
        examples = StackedPerExample(stack, loss_fn, flat[index], y.gather(1, index))
        norms = examples.norms
        weights = torch.empty_like(norms)
        for each, rows in weighed:  # one call for all models of a mechanism
            weights[rows] = each.weigh(norms[rows])
        examples.sum(weights.mul_(here), out=total)
        for row, size, generator in zip(total, deviation, noise, strict=True) if noisy else ():
            row += torch.empty_like(row).normal_(generator=generator) * size
        parameters.grad = total.div_(expected)
        good = total.isfinite().all(1) & (examples.losses.isfinite() | (here == 0)).all(1)
        diverged = torch.where(good | (diverged > 0), diverged, step + 1)
        updates.step()
    parameters.grad = None
    return StackedRun(stack, diverged, tuple(known[one] for one in settings))


def _drawn(
    samplers: list[Sampler], shards: list[torch.Tensor], generators: list[torch.Generator], like: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The record numbers of a batch for each model, (K, B), filled up to the longest, and 0 where they are filling."""
    each = zip(samplers, shards, generators, strict=True)
    numbers = [shard[sampling.draw(len(shard), generator=generator)] for sampling, shard, generator in each]
    index = pad_sequence(numbers, batch_first=True)
    here = torch.arange(index.shape[1]) < torch.tensor([len(own) for own in numbers])[:, None]
    return index.to(like.device), here.to(like)


# ---- what is refused ----


def _list(name: str, value: Any, count: int, allowed: str) -> list[Any]:
    if not isinstance(value, list | tuple) or len(value) != count:
        arguments.refuse(name, allowed, value)
    return list(value)


def _one_or_list(name: str, value: Any, count: int, one: Callable[[str, Any], Any]) -> list[Any]:
    """What `one` makes of each of `count` values, or of one for all."""
    several = value if isinstance(value, list | tuple) else [value] * count
    return [one(name, own) for own in _list(name, several, count, f"one for all, or a list of {count}")]


def _mechanism(name: str, value: Any) -> Mechanism:
    if not isinstance(value, Mechanism) or value.each is None:
        arguments.refuse(name, "dp_sgd, dp_sgd_automatic or sgd with its settings", value)
    return value


def _labels(y: Any, count: int, models: int, device: torch.device) -> torch.Tensor:
    allowed = f"a tensor of shape ({count},) or ({models}, {count}) on {device}"
    if not isinstance(y, torch.Tensor) or y.shape not in ((count,), (models, count)) or y.device != device:
        arguments.refuse("y", allowed, y)
    if y.is_floating_point() and not bool(torch.isfinite(y).all()):
        raise ValueError(f"y must be {allowed} with finite numbers, got an element that is not finite")
    return y.expand(models, count)


def _fitting_loss(loss_fn: Any, flat: torch.Tensor, y: torch.Tensor, stacked: Stack, sampling: Sampler) -> None:
    """Try the first network as the trainer of one model does, with labels that hold the smallest and the largest."""
    network = unstack(Stack(stacked.parameters[:1], stacked.sizes))[0]
    ids = large_batch(sampling, len(flat)).repeat(len(stacked.parameters))
    for k in {int(y.amin(1).argmin()), int(y.amax(1).argmax())}:
        begin(network, loss_fn, flat, y[k], ids=ids, device=flat.device)


def _generators(value: Any, models: int) -> list[torch.Generator]:
    allowed = f"a list of {models} torch.Generator, one for each model"
    found = [cpu_generator(generator) for generator in _list("generators", value, models, allowed)]
    if len({one.get_state().numpy().tobytes() for one in found}) < models:
        raise ValueError("generators must differ in their states, or two models have the same noise, got one twice")
    return found


def _shards(value: Any, count: int, models: int) -> list[torch.Tensor]:
    if value is None:
        return [torch.arange(count)] * models
    allowed = f"a list of {models} int64 tensors of record numbers"
    return [record_numbers("shards", shard, count, least=1) for shard in _list("shards", value, models, allowed)]


def _optimizer(make: Any, parameters: torch.Tensor) -> torch.optim.Optimizer:
    if not callable(make):
        arguments.refuse("optimizer", "a function: lambda parameters: torch.optim.SGD(parameters, lr=0.1)", make)
    made: torch.optim.Optimizer = make([parameters])
    _checks.optimizer(made, {"parameters": parameters})
    ones = torch.ones_like(parameters)
    ends = [_checks.after_a_step(made, rows) for rows in (ones, ones - 4.0 * ones.cumsum(0).eq(1.0))]
    if all(ends) and not torch.equal(*(after[0][1:].nan_to_num() for after in ends)):
        raise ValueError(
            f"optimizer must move each model by its own gradient, got {type(made).__name__}, which mixes those of all: "
            "use another one, such as Adam"
        )
    return made
