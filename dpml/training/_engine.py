"""The work behind `PerExample`: check the arguments, run forwards and backwards once, contract with weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from dpml.training._any_layer import any_layer
from dpml.training._layer_rules import Part
from dpml.training._plan import Plan, named, plan_of
from dpml.training._taps import Tap, taps_of

__all__ = ["Parts", "checked_plan", "contract", "differentiate", "forward", "one_loss_each", "parts_of"]

Parts = list[tuple[str, Part]]


def checked_plan(model: nn.Module, loss_fn: Any, x: Tensor, y: Tensor) -> Plan:
    """Return the plan of the model, after checking everything that can be checked before a forward pass.

    Raises:
        ValueError: naming the argument.
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if not callable(loss_fn):
        raise ValueError(f"loss_fn must be a function of (outputs, y), got {type(loss_fn).__name__}")
    for name, value in (("x", x), ("y", y)):
        if not isinstance(value, Tensor) or value.dim() == 0:
            came = "a tensor without dimensions" if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(f"{name} must be a tensor with the examples along its first dimension, got {came}")
    if len(x) != len(y):
        raise ValueError(f"y must hold as many examples as x, {len(x)}, got {len(y)}")
    if torch.is_inference_mode_enabled() or x.is_inference() or y.is_inference():
        raise ValueError("x and y must be used outside torch.inference_mode(), which forgets how to differentiate")
    return plan_of(model)


def one_loss_each(losses: Any, batch: int) -> Tensor:
    """Return `losses` if it is a floating tensor [B].

    Raises:
        ValueError: otherwise, with the remedy.
    """
    if not isinstance(losses, Tensor) or losses.shape != (batch,) or not losses.is_floating_point():
        came = f"a tensor of shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else type(losses).__name__
        raise ValueError(
            f"loss_fn must return one loss per example, a tensor of shape ({batch},), got {came}: use "
            'reduction="none", and sum over what is not the batch'
        )
    return losses


def differentiate(model: nn.Module, plan: Plan, loss_fn: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Parts]:
    """Return losses [B], norms [B] in float64 and the parts by which weighted sums are made."""
    losses, taps = forward(model, plan, loss_fn, x, y)
    return losses.detach(), *parts_of(losses, taps, keep_graph=False)


def forward(model: nn.Module, plan: Plan, loss_fn: Any, x: Tensor, y: Tensor) -> tuple[Tensor, list[Tap]]:
    """Run the model once; return the losses with their graph and one tap for each unit."""
    with _recording(), taps_of(plan.units) as taps:
        losses = one_loss_each(loss_fn(model(x), y), x.shape[0])
    if not losses.requires_grad:
        raise ValueError("loss_fn must return losses that depend on the trained parameters, got some without gradient")
    if len(taps) != len(plan.units) or len({id(tap.unit) for tap in taps}) != len(taps):
        _refuse_calls(plan, [id(tap.unit) for tap in taps])
    return losses, taps


def _recording() -> AbstractContextManager[Any]:
    """Record a graph, as by default; switching costs as much as the norms of a small layer."""
    return nullcontext() if torch.is_grad_enabled() else torch.enable_grad()


def _refuse_calls(plan: Plan, calls: list[int]) -> None:
    for unit in plan.units:
        times = calls.count(id(unit))
        if times == 0:
            raise ValueError(
                "model must use each trained parameter in the forward pass of its own layer, got "
                f"{named(unit)}, which was not called: call it, or freeze its parameters if they are not used"
            )
        if times > 1:
            raise ValueError(
                f"model must use each layer once, got {named(unit)}, which was called {times} times: make a layer "
                "for each call, or use per_example_gradients"
            )


def parts_of(losses: Tensor, taps: list[Tap], *, keep_graph: bool) -> tuple[Tensor, Parts]:
    """Return the norms and the parts; `taps` is emptied on the way, so that memory is free as soon as it can be."""
    edges = [edge for tap in taps for edge in tap.edges if edge is not None]
    if not edges:
        raise ValueError("model must be differentiable in its trained parameters, got outputs without gradient")
    ones = torch.ones_like(losses)
    with no_autocast(losses.device.type):
        reached = torch.autograd.grad(losses, edges, ones, allow_unused=True, retain_graph=keep_graph)
    found = [None if gradient is None else gradient.detach() for gradient in reached]
    del reached
    batch = losses.shape[0]
    parts: Parts = []
    with exact_products(losses.device.type):  # no graph is recorded: inputs and gradients are detached
        while taps:
            tap = taps.pop()
            gradients = [None if edge is None else found.pop() for edge in reversed(tap.edges)]
            part = _part(tap, gradients[::-1], batch)
            if part is not None:
                parts.append((tap.unit.name, part))
        squares = [part.squares for _, part in parts] or [losses.new_zeros(batch, dtype=torch.float64)]
        return reduce(torch.add, squares).sqrt(), parts


def _part(tap: Tap, gradients: list[Tensor | None], batch: int) -> Part | None:
    _check_batch_first(tap, batch)
    for value, version in zip(tap.inputs, tap.versions, strict=True):
        if isinstance(value, Tensor) and value._version != version:
            raise ValueError(
                f"model must not change the input of a layer in place, got {named(tap.unit)}: change a copy of it"
            )
    if all(gradient is None for gradient in gradients):
        return None  # no loss depends on it
    if tap.unit.rule is None:
        return any_layer(tap, gradients, batch)
    return tap.unit.rule(tap.unit.layer, _wide(tap.inputs[0]), _wide(gradients[0]))


def _check_batch_first(tap: Tap, batch: int) -> None:
    if tap.unit.rule is not None and tap.shapes[0] and tap.inputs[0].shape[:1] == tap.shapes[0][:1] == (batch,):
        return  # most layers, most of the time
    shapes = [value.shape for value in tap.inputs if isinstance(value, Tensor)]
    given = len(shapes)
    if tap.single:
        shapes += [shape for shape in tap.shapes if shape is not None]
    if not given or any(not shape or shape[0] != batch for shape in shapes):
        wrong = [tuple(shape) for shape in shapes if not shape or shape[0] != batch]
        came = f"a tensor of shape {wrong[0]}" if wrong else "no tensor as input"
        raise ValueError(
            f"model must keep the batch of {batch} examples as the first dimension, got {named(tap.unit)} with {came}: "
            "put the batch first (batch_first=True), do not merge it with another dimension, and give a layer that "
            "owns a parameter the batch to apply it to"
        )


def _wide(value: Any) -> Any:
    return value.float() if value.dtype in (torch.float16, torch.bfloat16) else value


def contract(parts: Parts, weights: Tensor) -> dict[str, Tensor]:
    """Return the weighted sums by full parameter name, of the parameters that a gradient reaches."""
    sums: dict[str, Tensor] = {}
    with exact_products(weights.device.type):
        for name, part in parts:
            local = part.contract(weights.to(part.dtype))
            sums.update({f"{name}.{key}" if name else key: value for key, value in local.items()})
    return sums


def no_autocast(device: str) -> AbstractContextManager[Any]:
    """A backward pass runs in the precisions of the forward pass; whatever surrounds it must not lower them."""
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


def exact_products(device: str) -> AbstractContextManager[Any]:
    """Products in full precision: with TF32 or bf16 a sum could exceed what the norms promise, by 2^-11 or more."""
    backend: Any = torch.backends.cuda if device == "cuda" else torch.backends.mkldnn
    if backend.matmul.fp32_precision in ("none", "ieee"):
        return no_autocast(device)
    return _raised_precision(backend.matmul, device)


@contextmanager
def _raised_precision(products: Any, device: str) -> Iterator[None]:
    before = products.fp32_precision
    try:
        products.fp32_precision = "ieee"
        with no_autocast(device):
            yield
    finally:
        products.fp32_precision = before
