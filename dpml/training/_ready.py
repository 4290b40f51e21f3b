"""Everything that can be refused is refused here, before the first step: afterwards privacy has been spent."""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from dpml import arguments
from dpml.training.per_example import self_test
from dpml.training.sampling import FixedSize, Sampler, cpu_generator, sampler

__all__ = ["Arguments", "check", "trained_parameters"]

LossFunction = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Arguments(NamedTuple):
    """The checked arguments that may come in several forms."""

    sampling: Sampler
    steps: int
    expected: float
    device: torch.device
    micro_batch: int | None
    trace_every: int
    checkpoint: Path | None


def check(
    model: Any,
    loss_fn: Any,
    x: Any,
    y: Any,
    *,
    sampling: Any,
    steps: Any,
    optimizer: Any,
    generator: Any,
    expected_batch: Any,
    micro_batch: Any,
    trace_every: Any,
    test: Any,
    checkpoint: Any,
) -> Arguments:
    """Return the arguments in one form each.

    Raises:
        ValueError: for whatever cannot be trained, or not privately, with the remedy.
    """
    sampling = sampler("sampling", sampling)
    parameters = trained_parameters(model)
    if not callable(loss_fn):
        raise ValueError(f"loss_fn must be a function of outputs and y with one loss per example, got {loss_fn!r}")
    examples("x", x, "y", y)
    if isinstance(sampling, FixedSize) and sampling.m > len(x):
        raise ValueError(f"sampling must draw at most the {len(x)} examples that there are, got {sampling}")
    expected = sampling.expected(len(x))
    if expected_batch is not None:
        expected = arguments.real("expected_batch", expected_batch, 0.0, low_open=True)
    steps = arguments.integer("steps", steps, 1, 10**9)
    cpu_generator(generator)
    _optimizer(optimizer, parameters)
    if micro_batch is not None:
        micro_batch = arguments.integer("micro_batch", micro_batch, 1)
    if trace_every is not None:
        trace_every = arguments.integer("trace_every", trace_every, 1)
    if test is not None:
        if not isinstance(test, tuple | list) or len(test) != 2:
            raise ValueError(f"test must be None or a pair of tensors (x, y), got {type(test).__name__}")
        examples("test", test[0], "test", test[1])
    device = next(iter(parameters.values())).device
    _try(model, loss_fn, x, y, device, "x and y")
    if test is not None:
        _try(model, loss_fn, test[0], test[1], device, "test")
    return Arguments(
        sampling=sampling,
        steps=steps,
        expected=expected,
        device=device,
        micro_batch=micro_batch,
        trace_every=trace_every or -(-steps // 20),
        checkpoint=_path(checkpoint),
    )


def trained_parameters(model: Any) -> dict[str, torch.nn.Parameter]:
    """The parameters that are trained, by name.

    Raises:
        ValueError: if there are none, one is not finite, or they lie on several devices.
    """
    if not isinstance(model, torch.nn.Module):
        raise ValueError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not trained:
        raise ValueError("model must have a parameter with requires_grad, got none")
    devices = sorted({str(parameter.device) for parameter in trained.values()})
    if len(devices) > 1 or devices == ["meta"]:
        raise ValueError(f"model must have its parameters on one device, got {', '.join(devices)}")
    for name, parameter in trained.items():
        if not parameter.is_floating_point() or not bool(parameter.isfinite().all()):
            raise ValueError(f"model must have real, finite parameters, got another one: {name}")
    return trained


def examples(name_x: str, x: Any, name_y: str, y: Any) -> None:
    """Refuse what is not a pair of tensors with one example per row.

    Raises:
        ValueError: as said.
    """
    for name, value in ((name_x, x), (name_y, y)):
        if not isinstance(value, torch.Tensor):
            raise ValueError(
                f"{name} must be a tensor with one example per row (see dpml.training.models.to_tensors), "
                f"got {type(value).__name__}"
            )
        if value.dim() == 0 or len(value) == 0:
            raise ValueError(f"{name} must be a tensor with one example per row, got shape {tuple(value.shape)}")
        if value.is_floating_point() and not bool(value.isfinite().all()):
            raise ValueError(f"{name} must hold finite numbers, got an element that is not")
    if len(x) != len(y):
        raise ValueError(f"{name_y} must have as many rows as {name_x}, got {len(y)} and {len(x)}")


def _optimizer(optimizer: Any, parameters: dict[str, torch.nn.Parameter]) -> None:
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ValueError(
            "optimizer must be a torch optimizer, for example torch.optim.SGD(model.parameters(), lr=0.1), "
            f"got {type(optimizer).__name__}"
        )
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise ValueError(
            f"optimizer must take one gradient a step, got {type(optimizer).__name__}, which asks for several: each "
            "would have to be paid for"
        )
    held = {id(p) for group in optimizer.param_groups for p in group["params"] if p.requires_grad}
    wanted = {id(p): name for name, p in parameters.items()}
    if held - set(wanted):
        raise ValueError("optimizer must hold parameters of this model only, got others")
    left = [wanted[one] for one in wanted if one not in held]
    if left:
        raise ValueError(
            f"optimizer must hold every trained parameter of the model, got all but {', '.join(left[:3])}: freeze "
            "what is not to be trained with requires_grad_(False), or it takes its share of every clipped gradient"
        )


def _try(model: torch.nn.Module, loss_fn: LossFunction, x: Any, y: Any, device: torch.device, name: str) -> None:
    """Run some examples through the model, among them those with the smallest and the largest label or token."""
    chosen = set(range(min(8, len(x))))
    for values in (x, y):
        if not values.is_floating_point() and not values.is_complex():
            rows = values.reshape(len(values), -1)
            if rows.shape[1]:
                chosen |= {int(rows.amin(1).argmin()), int(rows.amax(1).argmax())}
    index = torch.tensor(sorted(chosen))
    some_x, some_y = x[index.to(x.device)].to(device), y[index.to(y.device)].to(device)
    flags = {module: module.training for module in model.modules()}
    model.eval()
    try:
        if device.type != "cpu":
            out_of_range(model, loss_fn, some_x, some_y)
        with torch.no_grad():
            losses = loss_fn(model(some_x), some_y)
    except Exception as error:
        raise ValueError(
            f"{name} must be what model and loss_fn accept, got {type(error).__name__}: {error}"
        ) from error
    finally:
        for module, flag in flags.items():
            module.training = flag
    if not isinstance(losses, torch.Tensor) or losses.shape != (len(index),):
        came = tuple(losses.shape) if isinstance(losses, torch.Tensor) else type(losses).__name__
        raise ValueError(
            f"loss_fn must return one loss per example, shape ({len(index)},) for {len(index)} examples, got {came}: "
            'for PyTorch\'s own losses pass reduction="none"'
        )
    if name != "test":
        self_test(model, loss_fn, some_x, some_y)


@torch.no_grad()
def out_of_range(model: torch.nn.Module, loss_fn: LossFunction, x: torch.Tensor, y: torch.Tensor) -> None:
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


def _path(checkpoint: Any) -> Path | None:
    if checkpoint is None:
        return None
    if not isinstance(checkpoint, str | os.PathLike):
        raise ValueError(f"checkpoint must be None or the path of a file, got {type(checkpoint).__name__}")
    path = Path(checkpoint)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ValueError(f"checkpoint must be the path of a file in an existing folder, got {str(path)!r}")
    return path
