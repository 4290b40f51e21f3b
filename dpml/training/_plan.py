"""What of a model is listened to: the layers that own trained parameters. What cannot be told apart is refused here.

A unit is a module that owns a trained parameter directly; what lies inside a unit belongs to it. Finding the units
costs more than the norms of a small model, so that it is done once and again only when the model's layers, their
modes, or which parameters are trained have changed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils.parametrize import is_parametrized

from dpml.training._layer_rules import Part, rule_of

__all__ = ["Plan", "Unit", "named", "plan_of"]


class Unit(NamedTuple):
    """A layer with its name in the model and its rule, None where the general route is taken."""

    name: str
    layer: nn.Module
    rule: Callable[[Any, Tensor, Tensor], Part] | None


class Plan(NamedTuple):
    """The units and the trained parameters by name, of a model that looked like `signature`."""

    units: tuple[Unit, ...]
    parameters: dict[str, nn.Parameter]
    signature: tuple[Any, ...]


_PLANS: weakref.WeakKeyDictionary[nn.Module, Plan] = weakref.WeakKeyDictionary()


def plan_of(model: nn.Module) -> Plan:
    """Return the plan of a model, the stored one if the model has not changed since.

    Raises:
        ValueError: if no parameter is trained, or one is shared, without a shape or complex; for a layer that mixes
            examples or keeps statistics of them, by name and with the remedy.
    """
    signature = _signature(model)
    plan = _PLANS.get(model)
    if plan is None or plan.signature != signature:
        plan = Plan(tuple(_units(model)), _trained_parameters(model), signature)
        if all(unit.layer is not model for unit in plan.units):  # a value that holds its key would live for ever
            _PLANS[model] = plan
    return plan


def named(unit: Unit) -> str:
    """Return how a message calls a unit."""
    kind = type(unit.layer).__name__
    return f"layer {unit.name!r} ({kind})" if unit.name else f"the model itself ({kind})"


def _signature(model: nn.Module) -> tuple[Any, ...]:
    found: list[Any] = []
    waiting: list[nn.Module | None] = [model]
    while waiting:
        layer = waiting.pop()
        if layer is not None:
            found += (id(layer), layer.training)
            found += [(id(p), p.requires_grad) for p in layer._parameters.values() if p is not None]
            waiting += layer._modules.values()
    return tuple(found)


def _trained_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    found: dict[str, nn.Parameter] = {}
    first_name: dict[int, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if not parameter.requires_grad:
            continue
        if id(parameter) in first_name:
            raise ValueError(
                f"model must use each parameter in one place, got {first_name[id(parameter)]!r} and {name!r} sharing "
                "one: give the second place a parameter of its own, or use per_example_gradients"
            )
        if nn.parameter.is_lazy(parameter):
            raise ValueError(f"model must be complete, got {name!r} without a shape: call the model once before")
        if not parameter.is_floating_point():
            raise ValueError(f"model must have real parameters, got {name!r} of {parameter.dtype}")
        found[name] = parameter
        first_name[id(parameter)] = name
    if not found:
        raise ValueError("model must have a parameter with requires_grad=True, got none")
    return found


def _units(model: nn.Module) -> list[Unit]:
    units: list[Unit] = []
    inside: set[int] = set()
    for name, layer in model.named_modules():
        _refuse_layers_that_mix(name, layer)
        if id(layer) in inside:
            continue
        whole = is_parametrized(layer) or isinstance(layer, nn.MultiheadAttention)  # they use their children's weights
        if any(p.requires_grad for p in layer.parameters(recurse=whole)):
            units.append(Unit(name, layer, rule_of(layer)))
            inside |= {id(part) for part in layer.modules()}
    return units


def _refuse_layers_that_mix(name: str, layer: nn.Module) -> None:
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
    if isinstance(layer, torch.jit.ScriptModule) or type(layer).__name__ == "OptimizedModule":
        raise ValueError(f"model must be an ordinary module, {place}: pass the model from before compilation")
