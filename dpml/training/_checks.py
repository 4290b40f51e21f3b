"""What training refuses: models, losses, data and optimizers that would not train, or not privately. Checked only here.

Everything that can be refused is refused before the first step: afterwards privacy has been spent.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from dpml.training import _run_state

LossFunction = Callable[[Any, Tensor], Tensor]
"""A function of outputs and labels that returns one loss for each example."""

MOST = 1e16
"""The largest example and parameter: norms of gradients are squared, and single precision ends at 3e38."""


# ---- data ----


def pair(x: Any, y: Any, *, names: tuple[str, str] = ("x", "y")) -> None:
    """Refuse what is not a pair of tensors with one example per row; an empty batch is one. No value is looked at.

    Raises:
        ValueError: as said.
    """
    for name, value in zip(names, (x, y), strict=True):
        came = type(value).__name__
        if isinstance(value, Tensor):
            kind = f"{value.dtype}, {value.layout}, on {value.device}" if value.dim() else "without dimensions"
            came = "" if _plain(value) and value.dim() else f"a tensor {kind}"
        if came:
            raise ValueError(
                f"{name} must be a tensor with one example per row (see dpml.training.models.to_tensors), dense and in "
                f"memory, got {came}"
            )
    if len(x) != len(y):
        raise ValueError(f"{names[1]} must have as many rows as {names[0]}, got {len(y)} and {len(x)}")
    if torch.is_inference_mode_enabled() or x.is_inference() or y.is_inference():
        raise ValueError(
            f"{' and '.join(dict.fromkeys(names))} must be used outside torch.inference_mode(), which forgets how to "
            "differentiate"
        )


def _plain(value: Tensor) -> bool:
    """Whether it is what layers, losses and optimizers take: neither sparse, nested, quantized nor without numbers."""
    odd = value.is_nested or value.is_quantized or value.is_meta or value.layout is not torch.strided
    return not odd and not (value.itemsize == 1 and value.is_floating_point())


def examples(x: Any, y: Any, *, names: tuple[str, str] = ("x", "y")) -> None:
    """Refuse what is not a pair of tensors with at least one example and finite numbers.

    Raises:
        ValueError: as said.
    """
    pair(x, y, names=names)
    for name, value in zip(names, (x, y), strict=True):
        if len(value) == 0:
            raise ValueError(f"{name} must hold at least one example, got shape {tuple(value.shape)}")
        if (value.is_floating_point() or value.is_complex()) and not bool((value.abs() <= MOST).all()):
            raise ValueError(f"{name} must hold finite numbers of size at most {MOST:g}, got another one")


def differing(x: Tensor, y: Tensor, *, count: int) -> Tensor:
    """The numbers of at most `count` examples, in order: where there are such, of different labels and contents."""
    if len(x) <= count:
        return torch.arange(len(x))
    chosen: dict[int, None] = {}
    for values in (y, x):
        rows = values.detach().reshape(len(values), -1).float()
        keys = rows @ torch.cos(torch.arange(rows.shape[1], device=rows.device, dtype=rows.dtype))
        ordered, places = keys.sort(stable=True)
        new = torch.ones_like(ordered, dtype=torch.bool)
        new[1:] = ordered[1:] != ordered[:-1]
        first = places[new].cpu()
        some = torch.linspace(0, len(first) - 1, min(count // 2, len(first))).round().long()
        chosen |= dict.fromkeys(first[some].tolist())
    numbers = [*chosen, *(i for i in range(len(x)) if i not in chosen)][:count]
    return torch.tensor(sorted(numbers))


# ---- models ----


def module(model: Any) -> None:
    """Refuse what is no module.

    Raises:
        ValueError: as said.
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"model must be a torch.nn.Module, got {type(model).__name__}")


def trained_parameters(model: Any) -> dict[str, nn.Parameter]:
    """The parameters that are trained, by name. No value is looked at.

    Raises:
        ValueError: if there are none, or one is shared, without a shape or no ordinary real tensor.
    """
    module(model)
    found: dict[str, nn.Parameter] = {}
    first_name: dict[int, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if not parameter.requires_grad:
            continue
        if id(parameter) in first_name:
            raise ValueError(
                f"model must use each parameter in one place, got {first_name[id(parameter)]!r} and {name!r} sharing "
                "one: give the second place a parameter of its own (per_example_gradients serves such a model)"
            )
        if nn.parameter.is_lazy(parameter):
            raise ValueError(f"model must be complete, got {name!r} without a shape: call the model once before")
        if not parameter.is_floating_point() or not (_plain(parameter) or parameter.is_meta):
            raise ValueError(f"model must have dense real parameters, got {name!r} of {parameter.dtype}")
        places = zip(parameter.shape, parameter.stride(), strict=True)
        if parameter.is_inference() or any(size > 1 and stride == 0 for size, stride in places):
            raise ValueError(
                f"model must have parameters that can be changed, got {name!r}, which was expanded or made in "
                "inference mode: make it with clone(), outside that mode"
            )
        found[name] = parameter
        first_name[id(parameter)] = name
    if not any(parameter.numel() for parameter in found.values()):
        raise ValueError("model must have a parameter with requires_grad=True, got none")
    return found


def one_device(parameters: dict[str, nn.Parameter]) -> torch.device:
    """The device of the parameters.

    Raises:
        ValueError: if they lie on several devices, or one is not finite.
    """
    devices = sorted({str(parameter.device) for parameter in parameters.values()})
    if len(devices) > 1 or devices == ["meta"]:
        raise ValueError(f"model must have its parameters on one device, got {', '.join(devices)}")
    for name, parameter in parameters.items():
        if not bool((parameter.abs() <= MOST).all()):
            raise ValueError(f"model must have finite parameters of size at most {MOST:g}, got another one: {name}")
    return torch.device(devices[0])


def layers_that_mix(name: str, layer: nn.Module) -> None:
    """Refuse a layer that mixes examples or keeps statistics of them, by name and with the remedy.

    Raises:
        ValueError: as said.
    """
    place = f"got layer {name!r} ({type(layer).__name__})"
    if isinstance(layer, _BatchNorm) and (layer.training or layer.running_mean is None):
        raise ValueError(
            f"model must treat examples one by one, {place}, which normalises each example by its whole batch: use "
            "nn.GroupNorm instead"
        )
    if getattr(layer, "track_running_stats", False) and layer.training:
        raise ValueError(
            f"model must not keep statistics of the data, {place} with track_running_stats=True: they would leave "
            "without noise; set it to False, or use nn.GroupNorm"
        )
    if isinstance(layer, nn.Embedding | nn.EmbeddingBag):
        if layer.max_norm is not None:
            raise ValueError(
                f"model must change its weights by the private update only, {place} with max_norm, which rescales "
                "the rows that a batch looks up: set max_norm=None"
            )
        if layer.scale_grad_by_freq:
            raise ValueError(
                f"model must treat examples one by one, {place} with scale_grad_by_freq=True, which divides by counts "
                "of the whole batch: set it to False"
            )
        if isinstance(layer, nn.EmbeddingBag) and layer.sparse:
            raise ValueError(f"model must have dense gradients, {place} with sparse=True: set it to False")
    if isinstance(layer, torch.jit.ScriptModule) or type(layer).__name__ == "OptimizedModule":
        raise ValueError(f"model must be an ordinary module, {place}: pass the model from before compilation")


@contextmanager
def evaluated(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode; the mode of every module is put back."""
    modes = [(layer, layer.training) for layer in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for layer, mode in modes:
            layer.training = mode


# ---- losses ----


def one_loss_each(losses: Any, count: int) -> Tensor:
    """Return `losses` if it is a floating tensor [count].

    Raises:
        ValueError: otherwise, with the remedy.
    """
    if not isinstance(losses, Tensor) or losses.shape != (count,) or not losses.is_floating_point():
        came = f"a tensor of shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else type(losses).__name__
        raise ValueError(
            f"loss_fn must return one loss per example, a tensor of shape ({count},), got {came}: use "
            'reduction="none", and sum over what is not the batch'
        )
    return losses


def classified(outputs: Any, labels: Tensor, *, name: str) -> None:
    """Refuse outputs and labels of which no accuracy can be told.

    Raises:
        ValueError: unless they are scores (N, classes) of at least two classes and numbers (N,) of classes.
    """
    shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
    scores = isinstance(outputs, Tensor) and outputs.dim() == 2 and outputs.shape[1] > 1
    if not scores or labels.shape != outputs.shape[:1] or labels.is_floating_point() or labels.is_complex():
        raise ValueError(
            f"{name} must be labels (N,), integers, of a classifier with outputs (N, classes) of two classes or more, "
            f"got outputs {shape} and labels {tuple(labels.shape)} of {labels.dtype}: measure others after the run"
        )
    if not bool(((labels >= 0) & (labels < outputs.shape[1])).all()):
        raise ValueError(f"{name} must hold labels in [0, {outputs.shape[1]}), got another one")


def examples_tried(
    model: nn.Module, loss_fn: LossFunction, x: Tensor, y: Tensor, *, device: torch.device, names: str
) -> tuple[Tensor, Tensor]:
    """Run some examples through the model and return them, among them the smallest and the largest label and token.

    Raises:
        ValueError: if the model or the loss fails on them, or there is not one loss for each.
    """
    chosen = set(differing(x, y, count=24).tolist())
    for values in (x, y):
        if not values.is_floating_point() and not values.is_complex():
            rows = values.reshape(len(values), -1).to(torch.promote_types(values.dtype, torch.uint8))
            if rows.shape[1]:
                chosen |= {int(rows.amin(1).argmin()), int(rows.amax(1).argmax())}
    index = torch.tensor(sorted(chosen))
    some_x, some_y = x[index.to(x.device)].to(device), y[index.to(y.device)].to(device)
    with evaluated(model):
        try:
            if device.type != "cpu":
                out_of_range(model, loss_fn, some_x, some_y)
            with torch.no_grad():
                losses = loss_fn(model(some_x), some_y)
        except Exception as error:
            raise ValueError(
                f"{names} must be what model and loss_fn accept, got {type(error).__name__}: {error}"
            ) from error
    one_loss_each(losses, len(index))
    return some_x, some_y


@torch.no_grad()
def out_of_range(model: nn.Module, loss_fn: LossFunction, x: Tensor, y: Tensor) -> None:
    """Look on the CPU for labels or tokens out of range: on a GPU they would end the whole process, later.

    Raises:
        IndexError: if there is one.
    """
    try:
        loss_fn(copy.deepcopy(model).cpu()(x.cpu()), y.cpu())
    except IndexError:
        raise
    except Exception:  # a model that works on its own device only
        return


# ---- optimizers ----


def after_a_step(given: torch.optim.Optimizer, gradient: Tensor | None = None) -> list[Tensor]:
    """The parameters of a copy of an optimizer after a step, by ones or this gradient; none if it has no copy."""
    try:
        copied = copy.deepcopy({name: value for name, value in vars(given).items() if name != "step"})
    except Exception:
        return []
    trial = object.__new__(type(given))
    vars(trial).update(copied, _optimizer_step_pre_hooks={}, _optimizer_step_post_hooks={})
    some: list[Tensor] = [p for group in trial.param_groups for p in group["params"]]
    with _run_state.same_draws(some[0].device) as rewind:
        rewind()
        for parameter in some:
            parameter.grad = torch.ones_like(parameter) if gradient is None else gradient.clone()
        type(given).step(trial)
    return some


def optimizer(given: Any, parameters: Mapping[str, Tensor]) -> None:
    """Refuse an optimizer that does not hold exactly the trained parameters, or cannot take a step: a copy of it tries.

    Raises:
        ValueError: as said.
    """
    if not isinstance(given, torch.optim.Optimizer):
        raise ValueError(
            "optimizer must be a torch optimizer, for example torch.optim.SGD(model.parameters(), lr=0.1), "
            f"got {type(given).__name__}"
        )
    wanted = {id(p): name for name, p in parameters.items()}
    held = {id(p) for group in given.param_groups for p in group["params"] if p.requires_grad or id(p) in wanted}
    if held - set(wanted):
        raise ValueError("optimizer must hold parameters of this model only, got others")
    left = [wanted[one] for one in wanted if one not in held]
    if left:
        raise ValueError(
            f"optimizer must hold every trained parameter of the model, got all but {', '.join(left[:3])}: freeze "
            "what is not to be trained with requires_grad_(False), or it takes its share of every clipped gradient"
        )
    before = [p for group in given.param_groups for p in group["params"]]
    try:
        after = after_a_step(given) or before
        if not all(bool((p.isfinite() | ~q.isfinite()).all()) for p, q in zip(after, before, strict=True)):
            raise ArithmeticError("after a gradient of ones a parameter is not finite")
    except Exception as error:
        raise ValueError(
            f"optimizer must take a step from one dense gradient of each parameter, got {type(given).__name__}, of "
            f"which a copy failed ({type(error).__name__}: {str(error)[:160]}): use another one, such as Adam"
        ) from error
