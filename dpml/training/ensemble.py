r"""PATE: teachers on disjoint shards of the private records, their votes, and a student that learns from the answers.

.. math::

    D = D_1 \,\dot\cup\, \dots \,\dot\cup\, D_K, \qquad f_k = \mathrm{train}(D_k), \qquad
    c_j(x) = \#\{k : f_k(x) = j\}.

The teachers see private records and are never published, nor are their votes. A mechanism of `dpml.pate` turns the
votes on public images into labels; a student that learns from these images and labels is private by post-processing,
however long it trains and however often it is asked.

Why disjoint. A record lies in one shard, so it can change one teacher, and with it one vote on each image: two counts
by one each. Training needs no noise for that, and any kind of model will do. The shards are cut by place, from a
generator that does not look at the records: neighbours differ in one replaced record (replace-one).

Teachers are trained together, and so are students: `dpml.training.stacked`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from dpml import arguments
from dpml.training import _checks, models, stacked, stacked_networks
from dpml.training._numbers import labels
from dpml.training.dpsgd import sgd
from dpml.training.sampling import FixedSize, Poisson, cpu_generator
from dpml.training.stacked import OptimizerOf
from dpml.training.stacked_networks import Stack
from dpml.training.worker import generators

__all__ = ["Teachers", "accuracy", "disjoint_shards", "train_students", "train_teachers", "vote_counts"]


class Teachers(NamedTuple):
    """The trained networks, and the record numbers of each one's shard. Private: publish neither these nor their votes.

    Source: definition.
    """

    stack: Stack
    shards: list[torch.Tensor]


def disjoint_shards(n: int, *, teachers: int, generator: torch.Generator) -> list[torch.Tensor]:
    """Return the numbers 0 to n - 1, shuffled and cut into disjoint shards whose sizes differ by at most one.

    Raises:
        ValueError: if n is not an integer >= 1, teachers not one in [1, n], or generator not a ``torch.Generator`` on
            the CPU.

    Source: Papernot et al., "Semi-supervised knowledge transfer for deep learning from private training data", ICLR
    2017, section 2.1.
    """
    n = arguments.integer("n", n, 1)
    teachers = arguments.integer("teachers", teachers, 1, n)
    order = torch.randperm(n, generator=cpu_generator(generator))
    return list(torch.tensor_split(order, teachers))


def train_teachers(
    x: torch.Tensor,
    y: torch.Tensor,
    *,
    teachers: int,
    steps: int,
    batch: int,
    optimizer: OptimizerOf,
    generator: torch.Generator,
    hidden: int = 100,
    classes: int = 10,
) -> Teachers:
    """Return networks with one hidden layer, each trained on its own shard of the private records (x, y), all at once.

    In each step every teacher learns from `batch` random examples of its shard, or from all of them if it has fewer.
    One record changes one teacher and leaves all others as they are, to the last bit.

    Raises:
        ValueError: if x is not float32 (N, ...), y not N integers in [0, classes), teachers not an integer in [1, N],
            another size not an integer >= 1, or optimizer or generator not as in `stacked.train`.

    Source: Papernot et al., "Semi-supervised knowledge transfer for deep learning from private training data", ICLR
    2017, section 2.1; the lecture, slide "PATE".
    """
    features = _features(x)
    labels("y", y, len(x), classes=arguments.integer("classes", classes, 2))
    shards = disjoint_shards(len(x), teachers=teachers, generator=generator)
    batch = arguments.integer("batch", batch, 1)
    samplers = [FixedSize(m=min(batch, len(shard))) for shard in shards]
    sizes = {"features": features, "hidden": hidden, "classes": classes}
    stack = _trained(x, y, shards, samplers, sizes, generator, steps=steps, optimizer=optimizer)
    return Teachers(stack, shards)


def vote_counts(teachers: Stack, *, x: torch.Tensor) -> NDArray[np.int64]:
    """Return how many networks vote for each class on each image of x, shape (N, classes); each row adds up to K.

    If each network has a shard of its own, one replaced record moves at most one vote in each row.

    Raises:
        ValueError: if teachers is not a `Stack`, or x not images of the type and size that it was trained on.

    Source: Papernot et al., "Semi-supervised knowledge transfer for deep learning from private training data", ICLR
    2017, section 2.1; the lecture, slide "PATE".
    """
    votes = stacked_networks.predict(teachers, x=x)
    counts = torch.zeros(votes.shape[1], teachers.sizes[-1], dtype=torch.int64, device=votes.device)
    counts.scatter_add_(1, votes.T, torch.ones_like(votes.T))
    return counts.cpu().numpy()


def train_students(
    x: torch.Tensor,
    *,
    labels: ArrayLike,
    steps: int,
    batch: int,
    optimizer: OptimizerOf,
    generator: torch.Generator,
    hidden: int = 100,
    classes: int = 10,
) -> Stack:
    """Return networks with one hidden layer, each trained on the public images x with labels of its own, all at once.

    `labels` is an array (K, N) of released labels for K students, or (N,) for one; -1 where no label was released.
    A student learns from its labelled images only. In each step it draws each of them by its own coin, `batch` of them
    on average, or takes all of them if there are fewer.

    A student is as private as its labels are, together. Students with labels from the same teachers add up.

    Raises:
        ValueError: if x is not float32 (N, ...), labels not integers in [-1, classes) with one >= 0 for each student,
            steps, batch or a size not an integer >= 1, or optimizer or generator not as in `stacked.train`.

    Source: Papernot et al., "Semi-supervised knowledge transfer for deep learning from private training data", ICLR
    2017, section 2.2, without the unsupervised part; the lecture, slide "PATE".
    """
    features = _features(x)
    released = _released(labels, len(x), classes).to(x.device)
    batch = arguments.integer("batch", batch, 1)
    shards = [row.nonzero().squeeze(1) for row in released >= 0]
    samplers = [Poisson(q=min(1.0, batch / len(shard))) for shard in shards]
    sizes = {"features": features, "hidden": hidden, "classes": classes}
    return _trained(x, released.clamp(min=0), shards, samplers, sizes, generator, steps=steps, optimizer=optimizer)


def accuracy(networks: Stack, *, x: torch.Tensor, y: torch.Tensor) -> NDArray[np.float64]:
    """Return for each of the K networks the fraction of the examples x whose most likely class is y, shape (K,).

    Raises:
        ValueError: if networks is not a `Stack`, x not images of its type and size, or y not one integer for each.

    Source: definition.
    """
    predicted = stacked_networks.predict(networks, x=x)
    labels("y", y, len(x), classes=networks.sizes[-1])
    return (predicted == y).double().mean(1).cpu().numpy()


def _cross_entropy(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(outputs, labels, reduction="none")


def _trained(
    x: torch.Tensor,
    y: torch.Tensor,
    shards: list[torch.Tensor],
    samplers: list[Any],
    sizes: dict[str, int],
    generator: torch.Generator,
    **how: Any,
) -> Stack:
    """A network on each shard. Each has seeds of its own, for its start and its batches: no two share a stream."""
    first, own = (generators(cpu_generator(generator), n=len(shards)) for _ in range(2))
    start = stacked_networks.stack([models.mlp(generator=one, **sizes) for one in first])
    return stacked.train(
        Stack(start.parameters.to(x.device), start.sizes),
        _cross_entropy,
        x,
        y,
        mechanism=sgd(),
        sampling=samplers,
        delta=0.0,
        generators=own,
        shards=shards,
        **how,
    ).stack


def _features(x: Any) -> int:
    if not isinstance(x, torch.Tensor) or x.dtype != torch.float32 or x.dim() < 2 or x.numel() == 0:
        arguments.refuse("x", "a float32 tensor of images (N, ...), as models.to_tensors returns", x)
    _checks.examples(x, x, names=("x", "x"))
    return x[0].numel()


def _released(labels: Any, count: int, classes: Any) -> torch.Tensor:
    highest = arguments.integer("classes", classes, 2) - 1
    values = arguments.whole_numbers("labels", labels, min_size=1, low=-1.0, high=highest)
    if values.ndim not in (1, 2) or values.shape[-1] != count or not (np.atleast_2d(values) >= 0).any(axis=1).all():
        allowed = f"integers of shape ({count},) or (students, {count}), one of them >= 0 for each student"
        arguments.refuse("labels", allowed, labels)
    return torch.from_numpy(np.atleast_2d(values).astype(np.int64))
