r"""Adversarial examples: FGSM, I-FGSM, MIM and PGD, which climb the loss within a ball around each image.

For an image x with label y, a loss L, a norm and a size $\mu$, each looks for

.. math::

    x' = \arg\max L(f(x'), y) \quad\text{with}\quad \lVert x' - x\rVert \le \mu,
    \quad x' \in [\mathrm{low}, \mathrm{high}]^d ,

by steps along the direction in which the loss grows fastest for a step of that norm: the sign of the gradient for
$\ell_\infty$, the gradient over its length for $\ell_2$.

| attack | steps | start | remembers |
|---|---|---|---|
| `fgsm` | one of size mu | x | |
| `ifgsm` | mu / steps each | x | |
| `mim` | mu / steps each | x | a sum of earlier gradients |
| `pgd` (Madry) | 2.5 mu / steps each | a random point of the ball | |

All take `norm`, `low` and `high` as `fgsm` does. What they find is a lower bound on what an attacker can do. Labels
that an attack is given must not be secret ones: StoBatch passes the model's own predictions, `model(x).argmax(1)`.

Images are treated one by one: `model` must not mix them. Its parameters, their gradients and its mode are left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dpml import arguments

__all__ = ["L_2", "L_INF", "Norm", "fgsm", "ifgsm", "mim", "pgd"]

_AT_ONCE = 2000  # images in memory at once

Model = Callable[[Tensor], Any]
LossFunction = Callable[[Any, Tensor], Tensor]


class Norm(NamedTuple):
    """A norm of perturbations, by what an attack needs; all take perturbations or gradients as rows, shape (n, d).

    `lengths` gives the norm of each row, `steepest` the step of norm 1 (or 0) with the largest product with each row,
    `shortened` the nearest rows of norm at most a size, `drawn` random points of the ball of that size.

    Source: definition.
    """

    name: str
    lengths: Callable[[Tensor], Tensor]
    steepest: Callable[[Tensor], Tensor]
    shortened: Callable[[Tensor, float], Tensor]
    drawn: Callable[[Tensor, float, torch.Generator], Tensor]


def _unit(rows: Tensor) -> Tensor:
    """Each row over its length; rows of zeros stay so. Scaled first, so that no square underflows."""
    scaled = rows / rows.abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(rows.dtype).tiny)
    lengths = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
    unit: Tensor = scaled / lengths.clamp_min(torch.finfo(rows.dtype).tiny)
    return unit


def _within(rows: Tensor, size: float) -> Tensor:
    lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return torch.where(lengths > size, _unit(rows) * size, rows)


def _in_ball(like: Tensor, size: float, generator: torch.Generator) -> Tensor:
    """Uniform in the ball: a random direction, and a radius whose d-th power is uniform."""
    options: dict[str, Any] = {"generator": generator, "device": generator.device, "dtype": like.dtype}
    direction = _unit(torch.randn(like.shape, **options))
    radius = torch.rand((len(like), 1), **options) ** (1.0 / like.shape[1])
    return (direction * radius * size).to(like.device)


def _in_cube(like: Tensor, size: float, generator: torch.Generator) -> Tensor:
    options: dict[str, Any] = {"generator": generator, "device": generator.device, "dtype": like.dtype}
    return ((torch.rand(like.shape, **options) * 2.0 - 1.0) * size).to(like.device)


L_INF = Norm("l_inf", lambda rows: rows.abs().amax(dim=1), torch.sign, lambda r, size: r.clamp(-size, size), _in_cube)
"""The largest absolute entry."""

L_2 = Norm("l_2", lambda rows: torch.linalg.vector_norm(rows, dim=1), _unit, _within, _in_ball)
"""The Euclidean length."""


def fgsm(
    model: Model,
    loss_fn: LossFunction,
    x: Tensor,
    y: Tensor,
    *,
    size: float,
    norm: Norm = L_INF,
    low: float = -1.0,
    high: float = 1.0,
) -> Tensor:
    """Return x after one step of norm `size` up the loss, within [low, high].

    `loss_fn` maps outputs and `y` to one loss for each image, as in `dpml.training`. `size` is in the unit of the data.

    Raises:
        ValueError: if x and y are not tensors of as many rows, at least one, x floating-point numbers in [low, high],
            size not in [0, inf), low and high not finite with low < high, norm no `Norm`, loss_fn does not return one
            loss for each image, or a gradient is not finite.

    Source: I. Goodfellow, J. Shlens and C. Szegedy, "Explaining and harnessing adversarial examples", ICLR 2015;
    StoBatch (Phan et al., ICML 2020), equation (7).
    """
    return _climb(model, loss_fn, x, y, size=size, step=1.0, steps=1, norm=norm, low=low, high=high)


def ifgsm(model: Model, loss_fn: LossFunction, x: Tensor, y: Tensor, *, size: float, steps: int, **more: Any) -> Tensor:
    """Return x after `steps` steps of norm size / steps up the loss, each within [low, high]. As `fgsm` otherwise.

    Raises:
        ValueError: as `fgsm`, or if steps is not an integer >= 1.

    Source: A. Kurakin, I. Goodfellow and S. Bengio, "Adversarial examples in the physical world", 2016; StoBatch (Phan
    et al., ICML 2020), equation (8).
    """
    steps = arguments.integer("steps", steps, 1)
    return _climb(model, loss_fn, x, y, size=size, step=1.0 / steps, steps=steps, **more)


def mim(
    model: Model,
    loss_fn: LossFunction,
    x: Tensor,
    y: Tensor,
    *,
    size: float,
    steps: int,
    **more: Any,
) -> Tensor:
    """Return x after `steps` steps of norm size / steps along the sum of all gradients so far.

    Each gradient enters with l1 norm 1. As `fgsm` otherwise.

    Raises:
        ValueError: as `fgsm`, or if steps is not an integer >= 1.

    Source: Y. Dong et al., "Boosting adversarial attacks with momentum", CVPR 2018, Algorithm 1 with decay factor 1.
    """
    steps = arguments.integer("steps", steps, 1)
    return _climb(model, loss_fn, x, y, size=size, step=1.0 / steps, steps=steps, decay=1.0, **more)


def pgd(
    model: Model,
    loss_fn: LossFunction,
    x: Tensor,
    y: Tensor,
    *,
    size: float,
    steps: int,
    generator: torch.Generator,
    **more: Any,
) -> Tensor:
    """Return what `steps` steps of norm 2.5 size / steps find from a random point of the ball. As `fgsm` otherwise.

    Raises:
        ValueError: as `fgsm`, or if steps is not an integer >= 1, or generator no torch.Generator.

    Source: A. Madry et al., "Towards deep learning models resistant to adversarial attacks", ICLR 2018, section 2.1;
    the step is that of their code.
    """
    steps = arguments.integer("steps", steps, 1)
    if not isinstance(generator, torch.Generator):
        raise ValueError(
            "generator must be a torch.Generator, for example torch.Generator().manual_seed(0), "
            f"got {type(generator).__name__}"
        )
    return _climb(model, loss_fn, x, y, size=size, step=2.5 / steps, steps=steps, generator=generator, **more)


def _climb(
    model: Model,
    loss_fn: LossFunction,
    x: Tensor,
    y: Tensor,
    *,
    size: float,
    step: float,
    steps: int,
    norm: Norm = L_INF,
    low: float = -1.0,
    high: float = 1.0,
    decay: float = 0.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Steps of norm `step` times `size`, each brought back into the ball and then into the range.

    The range is a box that holds x: to go back into it moves no number away from that of x, so it keeps to the ball.
    """
    arguments.function("model", model)
    arguments.function("loss_fn", loss_fn)
    size = arguments.real("size", size, 0.0)
    low = arguments.real("low", low)
    high = arguments.real("high", high, low, low_open=True)
    if not isinstance(norm, Norm):
        raise ValueError(f"norm must be L_INF, L_2 or another Norm, got {type(norm).__name__}")
    _images(x, y, low, high)
    found = []
    for images, labels in zip(torch.split(x.detach(), _AT_ONCE), torch.split(y, _AT_ONCE), strict=True):
        rows = images.flatten(1) if images.dim() > 1 else images[:, None]
        now, memory = rows, torch.zeros_like(rows)
        if generator is not None:
            now = (rows + norm.drawn(rows, size, generator)).clamp(low, high)
        for _ in range(steps):
            gradient = _gradient(model, loss_fn, now.reshape(images.shape), labels).reshape(rows.shape)
            total = gradient.abs().sum(dim=1, keepdim=True)
            memory = decay * memory + gradient / total.clamp_min(torch.finfo(total.dtype).tiny)
            moved = now + step * size * norm.steepest(memory)
            now = (rows + norm.shortened(moved - rows, size)).clamp(low, high)
        found.append(now.reshape(images.shape))
    return torch.cat(found)


def _gradient(model: Model, loss_fn: LossFunction, x: Tensor, y: Tensor) -> Tensor:
    """The gradient of each image's loss with respect to the image."""
    with torch.enable_grad():
        images = x.detach().requires_grad_(True)
        losses = loss_fn(model(images), y)
        if not isinstance(losses, Tensor) or losses.shape != (len(x),):
            came = f"shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else type(losses).__name__
            raise ValueError(f"loss_fn must return one loss for each of the {len(x)} images, got {came}")
        if not losses.requires_grad:
            raise ValueError("model must be differentiable with respect to the images, got outputs that are not")
        (gradient,) = torch.autograd.grad(losses.sum(), images)
    if not bool(gradient.isfinite().all()):
        raise ValueError("model must have finite gradients at the images, got one that is not")
    return gradient


def _images(x: Any, y: Any, low: float, high: float) -> None:
    for name, value in (("x", x), ("y", y)):
        if not isinstance(value, Tensor) or value.dim() == 0 or len(value) == 0 or value.is_inference():
            came = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(f"{name} must be a tensor of at least one row, made outside inference mode, got {came}")
    if len(x) != len(y):
        raise ValueError(f"y must have as many rows as x, {len(x)}, got {len(y)}")
    if not x.is_floating_point() or not bool(((x >= low) & (x <= high)).all()):
        came = str(x.dtype) if not x.is_floating_point() else "a number outside, or NaN"
        raise ValueError(f"x must hold floating-point numbers in [{low:g}, {high:g}], got {came}")
