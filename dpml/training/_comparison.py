"""The engine against ordinary differentiation, on a few examples: it finds what listening to the layers cannot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from dpml.training._engine import contract, differentiate, forward, parts_of
from dpml.training._plan import Plan, plan_of

__all__ = ["compare"]


def compare(model: nn.Module, plan: Plan, loss_fn: Any, x: Tensor, y: Tensor) -> None:
    """Raise unless the engine agrees with ordinary gradients and no example acts on another.

    Raises:
        ValueError: naming the parameter or the buffer where they part, with the remedy.
    """
    with _left_as_it_was(model, x):
        tolerance = _compare_sums(model, plan, loss_fn, x, y)
        if len(x) > 1:
            _compare_with_one_replaced(model, plan, loss_fn, x, y, tolerance)
            _compare_with_some_removed(model, loss_fn, x, y, tolerance)


@contextmanager
def _left_as_it_was(model: nn.Module, x: Tensor) -> Iterator[None]:
    """Put back modes, buffers and random generators; refuse buffers that a forward pass changes."""
    modes = [(layer, layer.training) for layer in model.modules()]
    buffers = dict(model.named_buffers())
    before = {name: (buffer.clone(), buffer._version) for name, buffer in buffers.items()}
    with torch.random.fork_rng(devices=[x.device] if x.device.type == "cuda" else []):
        try:
            yield
            for name, buffer in model.named_buffers():
                if buffer is not buffers.get(name) or buffer._version != before[name][1]:
                    raise ValueError(
                        f"model must not change its buffers in the forward pass, got {name!r} changed: what it keeps "
                        "of the data would leave without noise"
                    )
        finally:
            for layer, mode in modes:
                layer.training = mode
            with torch.no_grad():
                for name, buffer in buffers.items():
                    if buffer._version != before[name][1]:
                        buffer.copy_(before[name][0])


def _compare_sums(model: nn.Module, plan: Plan, loss_fn: Any, x: Tensor, y: Tensor) -> float:
    """The weighted sum must be the gradient of the weighted loss, with weights that differ between the examples."""
    losses, taps = forward(model, plan, loss_fn, x, y)
    tolerance = 5e-2 if any(tap.coarse for tap in taps) else max(map(_tolerance, plan.parameters.values()))
    norms, parts = parts_of(losses, taps, keep_graph=True)
    weights = 0.5 + (torch.arange(len(x), device=losses.device, dtype=torch.float64) * 0.6180339887) % 1.0
    sums = contract(parts, weights)
    parameters = plan.parameters
    with torch.autocast(losses.device.type, enabled=False):
        ordinary = torch.autograd.grad(losses, list(parameters.values()), weights.to(losses.dtype), allow_unused=True)
    size = float(weights @ norms)
    rounding = 4.0 * len(x) * torch.finfo(losses.dtype).eps  # where the gradient itself is zero but for rounding
    for (name, parameter), gradient in zip(parameters.items(), ordinary, strict=True):
        expected = torch.zeros_like(parameter) if gradient is None else gradient.to_dense()
        difference = float((sums[name] - expected if name in sums else expected).detach().double().norm())
        if difference > tolerance * size + rounding:
            raise ValueError(
                f"model must use parameters in their own layers and examples one by one, but the gradient of {name!r} "
                "differs from the ordinary one: it is used outside its layer as well, examples act on each other, or "
                "the batch is not the first dimension"
            )
    return tolerance


def _compare_with_one_replaced(
    model: nn.Module, plan: Plan, loss_fn: Any, x: Tensor, y: Tensor, tolerance: float
) -> None:
    """Replace each example by its successor: losses and norms of the others must stay, with the same random numbers."""
    state = _random_state(x)

    def run(some_x: Tensor, some_y: Tensor) -> tuple[Tensor, Tensor]:
        _set_random_state(x, state)
        return differentiate(model, plan, loss_fn, some_x, some_y)[:2]

    before = run(x, y)
    for i in range(len(x)):
        other_x, other_y = x.clone(), y.clone()
        other_x[i], other_y[i] = x[i - 1], y[i - 1]
        others = torch.arange(len(x), device=before[0].device) != i
        after = run(other_x, other_y)
        _require_same([t[others] for t in before], [t[others] for t in after], tolerance, "replaced")


def _compare_with_some_removed(model: nn.Module, loss_fn: Any, x: Tensor, y: Tensor, tolerance: float) -> None:
    """All but the first, and each alone: losses and norms must be those in the batch.

    Masks depend on the size of a batch, so that a model with dropout is compared in evaluation mode. One that draws
    random numbers even there is not compared.
    """
    before = differentiate(model, plan_of(model), loss_fn, x, y)
    if not _close(before[0], differentiate(model, plan_of(model), loss_fn, x, y)[0], tolerance):
        model.eval()
        before = differentiate(model, plan_of(model), loss_fn, x, y)
        if not _close(before[0], differentiate(model, plan_of(model), loss_fn, x, y)[0], tolerance):
            return
    for rest in (slice(1, None), *(slice(i, i + 1) for i in range(len(x)))):
        try:
            after = differentiate(model, plan_of(model), loss_fn, x[rest], y[rest])
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
            size = len(x[rest])
            raise ValueError(f"model must accept a batch of any size, but fails on {size}: {reason}") from error
        _require_same([t[rest] for t in before[:2]], list(after[:2]), tolerance, "removed")


def _require_same(before: list[Tensor], after: list[Tensor], tolerance: float, change: str) -> None:
    for what, one, other in zip(("loss", "gradient"), before, after, strict=True):
        if not _close(one, other, tolerance):
            raise ValueError(
                f"model must treat examples one by one, but the {what} of an example changes when another is {change}: "
                "look for statistics over the batch, in the model and in loss_fn"
            )


def _random_state(x: Tensor) -> tuple[Tensor, Tensor | None]:
    return torch.get_rng_state(), torch.cuda.get_rng_state(x.device) if x.device.type == "cuda" else None


def _set_random_state(x: Tensor, state: tuple[Tensor, Tensor | None]) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1], x.device)


def _close(one: Tensor, other: Tensor, tolerance: float) -> bool:
    one, other = one.double(), other.double()
    near = (one - other).abs() <= tolerance * (one.abs() + one.abs().mean())
    return bool((near | (one == other) | (one.isnan() & other.isnan())).all())  # what overflows, overflows alone


def _tolerance(parameter: Tensor) -> float:
    """What rounding may do, far below what a fault does."""
    if parameter.dtype == torch.float64:
        return 1e-9
    if parameter.dtype == torch.float32:
        return 3e-4 if parameter.device.type == "cpu" else 3e-3  # the ordinary gradient may use TF32 on a GPU
    return 5e-2
