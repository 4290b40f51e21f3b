"""Refusals of the stacked trainers: each names the argument, what is allowed and what came."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from dpml import arguments
from dpml.training.sampling import Sampler, cpu_generator, sampler


def networks(models: Any) -> tuple[list[nn.Sequential], tuple[int, ...]]:
    """The models as a list, and their common sizes."""
    if not isinstance(models, list | tuple) or not models or not all(isinstance(m, nn.Sequential) for m in models):
        came = f"{len(models)} items" if isinstance(models, list | tuple) else type(models).__name__
        raise ValueError(
            f"models must be a list of at least one torch.nn.Sequential, as models.mlp returns, got {came}"
        )
    first = _shape(models[0])
    for model in models[1:]:
        if _shape(model) != first:
            raise ValueError(f"models must be of one shape, type and device, got {first} and {_shape(model)}")
    return list(models), first[0]


def _shape(model: nn.Sequential) -> tuple[tuple[int, ...], torch.dtype, torch.device]:
    layers: list[nn.Module] = list(model)
    if layers and isinstance(layers[0], nn.Flatten):
        layers = layers[1:]
    linear = [layer for layer in layers[::2] if type(layer) is nn.Linear]
    good = len(layers) % 2 == 1 and len(linear) == len(layers[::2]) and all(type(m) is nn.ReLU for m in layers[1::2])
    good = good and all(a.out_features == b.in_features for a, b in itertools.pairwise(linear))
    good = good and all(layer.bias is not None for layer in linear)
    if not good:
        kinds = ", ".join(type(m).__name__ for m in model) or "no layer"
        raise ValueError(
            f"models must be Flatten, then Linear with bias and ReLU in turn, ending in Linear, got {kinds}"
        )
    weight = linear[0].weight
    return (linear[0].in_features, *(layer.out_features for layer in linear)), weight.dtype, weight.device


def stacked(value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        raise ValueError(f"stacked must be a Stack, as stacked.stack returns, got {type(value).__name__}")


def examples(name: str, x: Any, stacked: Any) -> torch.Tensor:
    """x as (N, features), finite, of the stack's type and device."""
    features, like = stacked.sizes[0], stacked.parameters
    allowed = f"a tensor of shape (N, ...) with {features} finite numbers of type {like.dtype} on {like.device} each"
    if not isinstance(x, torch.Tensor):
        raise ValueError(f"{name} must be {allowed}, got {type(x).__name__}")
    if x.dim() < 2 or x[:0].flatten(1).shape[1] != features or x.dtype != like.dtype or x.device != like.device:
        raise ValueError(f"{name} must be {allowed}, got shape {tuple(x.shape)}, {x.dtype} on {x.device}")
    if not bool(torch.isfinite(x).all()):
        raise ValueError(f"{name} must be {allowed}, got an element that is not finite")
    return x.flatten(1)


def one_loss_each(losses: Any, count: int) -> torch.Tensor:
    if not isinstance(losses, torch.Tensor) or losses.shape != (count,):
        came = f"shape {tuple(losses.shape)}" if isinstance(losses, torch.Tensor) else type(losses).__name__
        raise ValueError(f"loss_fn must return one loss for each example, without a mean or a sum, got {came}")
    return losses


def fitting_loss(loss_fn: Any, y: torch.Tensor, stacked: Any) -> None:
    """Try the loss on the smallest and the largest label."""
    if not callable(loss_fn):
        raise ValueError(f"loss_fn must be a function of outputs and labels, got {type(loss_fn).__name__}")
    outputs = stacked.parameters.new_zeros(2, stacked.sizes[-1])
    try:
        losses = loss_fn(outputs, torch.stack([y.min(), y.max()]))
    except (IndexError, RuntimeError, TypeError) as error:
        raise ValueError(
            f"loss_fn must accept the networks' outputs and y, got {type(error).__name__}: {error}"
        ) from error
    one_loss_each(losses, 2)


def labels(y: Any, count: int, models: int, device: torch.device) -> torch.Tensor:
    allowed = f"a tensor of shape ({count},) or ({models}, {count}) on {device}"
    if not isinstance(y, torch.Tensor):
        raise ValueError(f"y must be {allowed}, got {type(y).__name__}")
    if y.shape not in ((count,), (models, count)) or y.device != device:
        raise ValueError(f"y must be {allowed}, got shape {tuple(y.shape)} on {y.device}")
    if y.is_floating_point() and not bool(torch.isfinite(y).all()):
        raise ValueError(f"y must be {allowed} with finite numbers, got an element that is not finite")
    return y


def generators(value: Any, models: int, common: Any) -> list[torch.Generator]:
    if not isinstance(value, list | tuple) or len(value) != models:
        came = f"{len(value)} items" if isinstance(value, list | tuple) else type(value).__name__
        raise ValueError(f"generators must be a list of {models} torch.Generator, one for each model, got {came}")
    all_of_them = [cpu_generator(generator) for generator in value]
    if common is not None:
        all_of_them.append(cpu_generator(common))
    if len({id(generator) for generator in all_of_them}) < len(all_of_them):
        raise ValueError(
            "generators must be different objects: one that stands twice would be drawn from in turn, got one twice"
        )
    return list(value)


def samplers(value: Any, models: int, common: Any) -> list[Sampler]:
    if not isinstance(value, list | tuple):
        return [sampler("sampling", value)] * models
    if len(value) != models or common is not None:
        which = "one sampler for common batches" if common is not None else f"a sampler or {models} of them"
        raise ValueError(f"sampling must be {which}, got a list of {len(value)}")
    return [sampler("sampling", one) for one in value]


def shards(value: Any, count: int, models: int, common: Any) -> list[torch.Tensor] | None:
    if value is None:
        return None
    allowed = f"a list of {models} int64 tensors of record numbers in [0, {count - 1}], none of them empty"
    if not isinstance(value, list | tuple) or len(value) != models:
        came = f"{len(value)} items" if isinstance(value, list | tuple) else type(value).__name__
        raise ValueError(f"shards must be {allowed}, got {came}")
    for shard in value:
        if not isinstance(shard, torch.Tensor) or shard.dtype != torch.int64 or shard.dim() != 1 or not len(shard):
            came = (
                f"{shard.dtype} of shape {tuple(shard.shape)}" if isinstance(shard, torch.Tensor) else repr(shard)[:60]
            )
            raise ValueError(f"shards must be {allowed}, got {came}")
        if int(shard.min()) < 0 or int(shard.max()) >= count:
            raise ValueError(f"shards must be {allowed}, got numbers from {int(shard.min())} to {int(shard.max())}")
        if len(torch.unique(shard)) < len(shard):
            raise ValueError(f"shards must be {allowed}, each record once in a shard, got a repeated one")
    if common is not None and len({len(shard) for shard in value}) > 1:
        sizes = [len(shard) for shard in value]
        raise ValueError(f"shards must be equally long for common batches, got {min(sizes)} to {max(sizes)} records")
    return [shard.cpu() for shard in value]


def one_for_each(name: str, value: Any, models: int, *, low: float, low_open: bool) -> NDArray[np.float64]:
    numbers = arguments.array(name, value, low=low, low_open=low_open)
    if numbers.shape not in ((), (models,)):
        raise ValueError(f"{name} must be a number or {models} numbers, one for each model, got shape {numbers.shape}")
    return np.broadcast_to(numbers, (models,)).copy()


def optimizer(make: Any, parameters: torch.Tensor) -> torch.optim.Optimizer:
    allowed = "a function from a list of parameters to a torch optimizer, such as lambda p: torch.optim.SGD(p, lr=0.1)"
    if not callable(make):
        raise ValueError(f"optimizer must be {allowed}, got {type(make).__name__}")
    made = make([parameters])
    if not isinstance(made, torch.optim.Optimizer) or isinstance(made, torch.optim.LBFGS):
        raise ValueError(f"optimizer must be {allowed} that takes one gradient a step, got {type(made).__name__}")
    if [id(p) for group in made.param_groups for p in group["params"]] != [id(parameters)]:
        raise ValueError(f"optimizer must be {allowed}, and hold exactly the parameters it is given, got others")
    return made
