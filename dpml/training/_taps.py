"""Listen to a forward pass: what went into each unit, and where the gradient of its output will arrive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.utils import _pytree as pytree

from dpml.training._plan import Unit

__all__ = ["Tap", "taps_of"]

Arguments = tuple[Any, ...]


class Tap(NamedTuple):
    """What one call of a unit left: its inputs and outputs as flat lists, and the edges where gradients arrive.

    `versions` counts how often each input had been changed in place by then; `shapes` and `edges` are None for outputs
    that are no tensors or have no gradient; `coarse` says that one of them is in lower precision than float32. `layout`
    rebuilds the arguments from `inputs`; `single` says that the output is one tensor; `device` and `precision` are
    those of autocast, None if it was off.
    """

    unit: Unit
    inputs: list[Any]
    versions: list[int]
    edges: list[GradientEdge | None]
    shapes: list[torch.Size | None]
    coarse: bool
    single: bool = True
    layout: Any = None
    device: str = "cpu"
    precision: torch.dtype | None = None


@contextmanager
def taps_of(units: Sequence[Unit]) -> Iterator[list[Tap]]:
    """Give the list that fills with a `Tap` for each call of a unit, in the order of the calls."""
    taps: list[Tap] = []
    handles: list[Any] = []
    try:
        for unit in units:
            handles += _listen_for_rule(unit, taps) if unit.rule is not None else _listen_to_all(unit, taps)
        yield taps
    finally:
        for handle in handles:
            handle.remove()


def _edge(output: Tensor | None) -> GradientEdge | None:
    # An edge keeps pointing at this place of the graph, also when the output is changed in place later. That of a view
    # does not, so that views are copied before they go on.
    return get_gradient_edge(output) if output is not None and output.requires_grad else None


def _is_coarse(output: Tensor | None) -> bool:
    return output is not None and output.dtype in (torch.float16, torch.bfloat16)


def _own(output: Any) -> Any:
    return output.clone() if isinstance(output, Tensor) and output._is_view() else output


def _listen_for_rule(unit: Unit, taps: list[Tap]) -> list[Any]:
    """Next to `forward` itself: inside of any other hook, which may change what comes in or goes out."""

    def after(layer: nn.Module, args: Arguments, kwargs: dict[str, Any], output: Tensor) -> Tensor:
        output = _own(output)
        value = (args[0] if args else kwargs["input"]).detach()
        taps.append(Tap(unit, [value], [value._version], [_edge(output)], [output.shape], _is_coarse(output)))
        return output

    return [unit.layer.register_forward_hook(after, prepend=True, with_kwargs=True)]


def _listen_to_all(unit: Unit, taps: list[Tap]) -> list[Any]:
    """Around everything that the layer does, its own hooks included, since it will be run again with them."""
    waiting: list[tuple[list[Any], list[int], Any]] = []

    def before(layer: nn.Module, args: Arguments, kwargs: dict[str, Any]) -> None:
        leaves, layout = pytree.tree_flatten((args, kwargs))
        leaves = [leaf.detach() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        waiting.append((leaves, [leaf._version if isinstance(leaf, Tensor) else 0 for leaf in leaves], layout))

    def after(layer: nn.Module, args: Arguments, kwargs: dict[str, Any], output: Any) -> Any:
        leaves, versions, layout = waiting.pop()
        single = isinstance(output, Tensor)
        output = pytree.tree_map(_own, output)
        outputs = [leaf if isinstance(leaf, Tensor) else None for leaf in pytree.tree_leaves(output)]
        coarse = any(map(_is_coarse, outputs))
        edges, shapes = [_edge(leaf) for leaf in outputs], [None if leaf is None else leaf.shape for leaf in outputs]
        device = next(layer.parameters()).device.type
        precision = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        taps.append(Tap(unit, leaves, versions, edges, shapes, coarse, single, layout, device, precision))
        return output

    return [
        unit.layer.register_forward_pre_hook(before, prepend=True, with_kwargs=True),
        unit.layer.register_forward_hook(after, with_kwargs=True),
    ]
