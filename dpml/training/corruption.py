r"""Corrupted data and faulty workers, for experiments on robustness: only the chosen fraction, from a seed.

| corruption | what happens to the chosen examples |
|---|---|
| `flipped_labels` | the label becomes another one, uniformly |
| `targeted_labels` | the label k becomes classes - 1 - k |
| `noisy_features` | N(0, v) is added to each pixel, v = 100 |
| `noisy_gradients` | a worker adds N(0, v) to each coordinate of the gradient, anew in each step, v = 100 |
| `flipped_gradients` | a worker sends the gradient with the opposite sign |

The first three change the data once. The last two change what reaches the aggregation, through the argument `corrupt`
of `dpml.training.train`: a gradient that is too long is then clipped like any other, so that the guarantee of the
training stands for the data that the workers hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.nn import functional

from dpml import arguments
from dpml.training._numbers import labels, record_numbers
from dpml.training.per_example import PerExample
from dpml.training.sampling import cpu_generator

__all__ = ["Corrupted", "SentGradients", "chosen", "flipped_gradients"]
__all__ += ["flipped_labels", "noisy_features", "noisy_gradients", "targeted_labels"]


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
    order = torch.randperm(n, generator=cpu_generator(generator))
    return order[: round(fraction * n)].sort().values


def flipped_labels(y: torch.Tensor, *, fraction: float, classes: int, generator: torch.Generator) -> Corrupted:
    """Return labels of which the chosen fraction is another one of the `classes`, uniformly; y is not changed.

    Raises:
        ValueError: if y is not an int64 tensor [n] of labels in [0, classes), classes is not an integer >= 2, or as
            `chosen`.

    Source: the PTR paper (Wang et al., NeurIPS 2022), appendix B.1.1, "label corruption".
    """
    labels("y", y, None, classes=arguments.integer("classes", classes, 2))

    def shift(like: torch.Tensor) -> torch.Tensor:
        return torch.randint(1, classes, like.shape, generator=generator).to(like)

    return _changed(y, fraction, generator, lambda some: (some + shift(some)) % classes)


def targeted_labels(y: torch.Tensor, *, fraction: float, classes: int, generator: torch.Generator) -> Corrupted:
    """Return labels of which the chosen fraction k is replaced by classes - 1 - k; y is not changed.

    Raises:
        ValueError: as `flipped_labels`.

    Source: the PTR paper (Wang et al., NeurIPS 2022), appendix B.3, "targeted label flipping".
    """
    labels("y", y, None, classes=arguments.integer("classes", classes, 2))
    return _changed(y, fraction, generator, lambda some: classes - 1 - some)


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

    def noise(like: torch.Tensor) -> torch.Tensor:
        return torch.randn(like.shape, generator=generator, dtype=like.dtype).to(like)

    return _changed(x, fraction, generator, lambda some: some + deviation * noise(some))


class SentGradients(NamedTuple):
    """The gradients of a micro-batch as faulty workers send them, with the interface of `PerExample`.

    Source: the PTR paper (Wang et al., NeurIPS 2022), appendices B.1.1 and B.3.
    """

    losses: torch.Tensor
    norms: torch.Tensor
    sum: Callable[[torch.Tensor], dict[str, torch.Tensor]]


def noisy_gradients(
    ids: torch.Tensor, *, n: int, generator: torch.Generator, variance: float = 100.0
) -> Callable[[PerExample, torch.Tensor], SentGradients]:
    """Return the `corrupt` of the trainer under which the examples `ids` of n send gradients plus N(0, variance).

    Noise is fresh in each step. `generator` lies on the device of the model. The gradients of the faulty examples of a
    batch are formed one by one, which costs memory.

    Raises:
        ValueError: if ids is not an int64 tensor of different numbers in [0, n), or variance is not in (0, inf).

    Source: the PTR paper (Wang et al., NeurIPS 2022), appendix B.1.1, "gradient corruption".
    """
    bad = _faulty(ids, n)
    deviation = arguments.real("variance", variance, 0.0, low_open=True) ** 0.5

    def corrupt(chunk: PerExample, some: torch.Tensor) -> SentGradients:
        rows = bad[some].nonzero().squeeze(1).to(chunk.norms.device)
        if not len(rows):
            return SentGradients(chunk.losses, chunk.norms, chunk.sum)
        alone = [chunk.sum(one) for one in functional.one_hot(rows, len(chunk.norms)).to(chunk.norms)]
        sent = {name: torch.stack([gradients[name] for gradients in alone]) for name in alone[0]}
        for gradients in sent.values():
            gradients.add_(torch.empty_like(gradients).normal_(generator=generator), alpha=deviation)
        squares = [gradients.flatten(1).to(chunk.norms).square().sum(1) for gradients in sent.values()]
        norms = chunk.norms.index_copy(0, rows, torch.stack(squares).sum(0).sqrt())

        def total(weights: torch.Tensor) -> dict[str, torch.Tensor]:
            honest = chunk.sum(weights.index_fill(0, rows, 0.0))
            faulty = {name: torch.tensordot(weights[rows].to(g), g, 1) for name, g in sent.items()}
            return {name: sums + faulty[name] for name, sums in honest.items()}

        return SentGradients(chunk.losses, norms, total)

    return corrupt


def flipped_gradients(ids: torch.Tensor, *, n: int) -> Callable[[PerExample, torch.Tensor], SentGradients]:
    """Return the `corrupt` of the trainer under which the examples `ids` of n send the negative gradient.

    Raises:
        ValueError: if ids is not an int64 tensor of different numbers in [0, n).

    Source: the PTR paper (Wang et al., NeurIPS 2022), appendix B.3, "gradient bit-flipping".
    """
    bad = _faulty(ids, n)

    def corrupt(chunk: PerExample, some: torch.Tensor) -> SentGradients:
        sign = (1.0 - 2.0 * bad[some].double()).to(chunk.norms)
        return SentGradients(chunk.losses, chunk.norms, lambda weights: chunk.sum(weights * sign))

    return corrupt


def _faulty(ids: torch.Tensor, n: int) -> torch.Tensor:
    """Which of n examples are faulty, as booleans on the CPU."""
    n = arguments.integer("n", n, 1)
    bad = torch.zeros(n, dtype=torch.bool)
    bad[record_numbers("ids", ids, n)] = True
    return bad


def _changed(
    values: torch.Tensor, fraction: float, generator: torch.Generator, change: Callable[[torch.Tensor], torch.Tensor]
) -> Corrupted:
    """A copy in which the chosen fraction is what `change` makes of it."""
    ids = chosen(len(values), fraction=fraction, generator=generator).to(values.device)
    after = values.clone()
    after[ids] = change(values[ids]).to(values)
    return Corrupted(after, ids)
