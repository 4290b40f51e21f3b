r"""Corrupted data and faulty workers, for experiments on robustness: only the chosen fraction, from a seed.

| corruption | what happens to the chosen examples |
|---|---|
| `flipped_labels` | the label becomes another one, uniformly |
| `targeted_labels` | the label k becomes classes - 1 - k |
| `noisy_features` | N(0, v) is added to each pixel, v = 100 |
| `noisy_gradients` | a worker adds N(0, v) to each coordinate of the gradient, anew in each step, v = 100 |
| `flipped_gradients` | a worker sends the gradient with the opposite sign |

The first three change the data once. The last two change what reaches the aggregation, through the argument `corrupt`
of the training functions: a gradient that is too long is then clipped like any other, so that the guarantee of the
training stands for the data that the workers hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from dpml import arguments
from dpml.training._ready import LossFunction
from dpml.training.per_example import PerExample, per_example_gradients

__all__ = [
    "Corrupted",
    "FaultyGradients",
    "chosen",
    "flipped_gradients",
    "flipped_labels",
    "noisy_features",
    "noisy_gradients",
    "targeted_labels",
]


class Corrupted(NamedTuple):
    """Data after corruption, and the numbers of the examples that were changed, increasing.

    Source: definition.
    """

    data: torch.Tensor
    ids: torch.Tensor


def chosen(n: int, *, fraction: float, generator: torch.Generator) -> torch.Tensor:
    """Return the numbers of ``round(fraction n)`` of n examples, a uniformly random set, increasing, int64.

    Raises:
        ValueError: if n is not an integer >= 1, fraction is not in [0, 1], or generator is no torch.Generator on the
            CPU.

    Source: the PTR paper (Wang et al., NeurIPS 2022), appendix B.1.1, "corruption ratio".
    """
    n, fraction = arguments.integer("n", n, 1), arguments.probability("fraction", fraction)
    if not isinstance(generator, torch.Generator) or generator.device.type != "cpu":
        raise ValueError(f"generator must be a torch.Generator on the CPU, got {type(generator).__name__}")
    order = torch.randperm(n, generator=generator)
    return order[: round(fraction * n)].sort().values


def flipped_labels(y: torch.Tensor, *, fraction: float, classes: int, generator: torch.Generator) -> Corrupted:
    """Return labels of which the chosen fraction is another one of the `classes`, uniformly; y is not changed.

    Raises:
        ValueError: if y is not an integer tensor [n] of labels in [0, classes), classes is not an integer >= 2, or as
            `chosen`.

    Source: the PTR paper (Wang et al., NeurIPS 2022), appendix B.1.1, "label corruption".
    """
    classes = _labels(y, classes)
    ids = chosen(len(y), fraction=fraction, generator=generator).to(y.device)
    shift = torch.randint(1, classes, (len(ids),), generator=generator).to(y.device)
    after = y.clone()
    after[ids] = ((y[ids] + shift) % classes).to(y.dtype)
    return Corrupted(after, ids)


def targeted_labels(y: torch.Tensor, *, fraction: float, classes: int, generator: torch.Generator) -> Corrupted:
    """Return labels of which the chosen fraction k is replaced by classes - 1 - k; y is not changed.

    Raises:
        ValueError: as `flipped_labels`.

    Source: the PTR paper (Wang et al., NeurIPS 2022), appendix B.3, "targeted label flipping".
    """
    classes = _labels(y, classes)
    ids = chosen(len(y), fraction=fraction, generator=generator).to(y.device)
    after = y.clone()
    after[ids] = classes - 1 - y[ids]
    return Corrupted(after, ids)


def noisy_features(
    x: torch.Tensor, *, fraction: float, generator: torch.Generator, variance: float = 100.0
) -> Corrupted:
    """Return examples of which the chosen fraction has N(0, variance) added to each entry; x is not changed.

    Raises:
        ValueError: if x is not a floating tensor of at least one example, variance is not in (0, inf), or as `chosen`.

    Source: the PTR paper (Wang et al., NeurIPS 2022), appendix B.1.1, "feature corruption".
    """
    if not isinstance(x, torch.Tensor) or not x.is_floating_point() or x.dim() < 1 or len(x) == 0:
        raise ValueError(f"x must be a floating tensor with one example per row, got {type(x).__name__}")
    deviation = arguments.real("variance", variance, 0.0, low_open=True) ** 0.5
    ids = chosen(len(x), fraction=fraction, generator=generator).to(x.device)
    noise = torch.randn((len(ids), *x.shape[1:]), generator=generator, dtype=x.dtype).to(x.device)
    after = x.clone()
    after[ids] += deviation * noise
    return Corrupted(after, ids)


class FaultyGradients:
    """The gradients of a micro-batch after faulty workers, with the interface of `PerExample`: norms, losses, sum.

    The gradients of the faulty examples (`rows` of the batch) are held one by one, in `faulty`; all others come from
    the honest `chunk`.

    Source: the PTR paper (Wang et al., NeurIPS 2022), appendices B.1.1 and B.3.
    """

    def __init__(self, chunk: PerExample, rows: torch.Tensor, faulty: dict[str, torch.Tensor]) -> None:
        self.chunk, self.rows, self.faulty = chunk, rows, faulty
        self.losses = chunk.losses
        self.norms = chunk.norms
        if len(rows):
            squares = sum(g.flatten(1).to(chunk.norms.dtype).square().sum(1) for g in faulty.values())
            self.norms = chunk.norms.clone()
            self.norms[rows] = torch.as_tensor(squares).sqrt()

    def sum(self, weights: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the weighted sum of all gradients, by parameter name, as `PerExample.sum` does.

        Source: definition.
        """
        if not len(self.rows):
            return self.chunk.sum(weights)
        honest = weights.clone()
        honest[self.rows] = 0.0
        some = weights[self.rows]
        return {
            name: total + torch.tensordot(some, self.faulty[name].to(total.dtype), 1)
            for name, total in self.chunk.sum(honest).items()
        }


def noisy_gradients(
    model: torch.nn.Module,
    loss_fn: LossFunction,
    x: torch.Tensor,
    y: torch.Tensor,
    *,
    ids: torch.Tensor,
    generator: torch.Generator,
    variance: float = 100.0,
) -> Callable[[PerExample, torch.Tensor], FaultyGradients]:
    """Return the `corrupt` of training functions under which the examples `ids` send gradients plus N(0, variance).

    Noise is fresh in each step. `generator` lies on the device of the model. The gradients of the faulty examples of a
    batch are formed one by one, which costs memory.

    Raises:
        ValueError: if ids is not an integer tensor of numbers of examples, or variance is not in (0, inf).

    Source: the PTR paper (Wang et al., NeurIPS 2022), appendix B.1.1, "gradient corruption".
    """
    deviation = arguments.real("variance", variance, 0.0, low_open=True) ** 0.5

    def change(gradient: torch.Tensor) -> torch.Tensor:
        noise = torch.empty_like(gradient).normal_(generator=generator)
        return gradient.add(noise, alpha=deviation)

    return _faulty(model, loss_fn, x, y, ids, change)


def flipped_gradients(
    model: torch.nn.Module, loss_fn: LossFunction, x: torch.Tensor, y: torch.Tensor, *, ids: torch.Tensor
) -> Callable[[PerExample, torch.Tensor], FaultyGradients]:
    """Return the `corrupt` of training functions under which the examples `ids` send the negative gradient.

    Raises:
        ValueError: if ids is not an integer tensor of numbers of examples.

    Source: the PTR paper (Wang et al., NeurIPS 2022), appendix B.3, "gradient bit-flipping".
    """
    return _faulty(model, loss_fn, x, y, ids, torch.neg)


def _faulty(
    model: torch.nn.Module,
    loss_fn: LossFunction,
    x: torch.Tensor,
    y: torch.Tensor,
    ids: torch.Tensor,
    change: Callable[[torch.Tensor], torch.Tensor],
) -> Callable[[PerExample, torch.Tensor], FaultyGradients]:
    if not isinstance(ids, torch.Tensor) or ids.dim() != 1 or ids.dtype != torch.int64:
        raise ValueError(f"ids must be an int64 tensor [number of faulty examples], got {type(ids).__name__}")
    if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < len(x):
        raise ValueError(f"ids must be numbers of the {len(x)} examples, got {int(ids.min())} to {int(ids.max())}")
    device = next(model.parameters()).device
    bad = torch.zeros(len(x), dtype=torch.bool)
    bad[ids.cpu()] = True

    def corrupt(chunk: PerExample, some: torch.Tensor) -> FaultyGradients:
        rows = bad[some].nonzero().squeeze(1)
        if not len(rows):
            return FaultyGradients(chunk, rows, {})
        which = some[rows]
        some_x, some_y = x[which.to(x.device)].to(device), y[which.to(y.device)].to(device)
        faulty = {name: change(g) for name, g in per_example_gradients(model, loss_fn, some_x, some_y).items()}
        return FaultyGradients(chunk, rows.to(device), faulty)

    return corrupt


def _labels(y: torch.Tensor, classes: int) -> int:
    classes = arguments.integer("classes", classes, 2)
    good = isinstance(y, torch.Tensor) and y.dim() == 1 and len(y) > 0 and not y.is_floating_point()
    if not good or y.dtype == torch.bool or not 0 <= int(y.min()) <= int(y.max()) < classes:
        raise ValueError(f"y must be an integer tensor [n] of labels in [0, {classes}), got {type(y).__name__}")
    return classes
