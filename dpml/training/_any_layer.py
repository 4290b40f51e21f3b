"""Per-example gradients of any layer: vmap a vector-Jacobian product over the examples.

The layer runs once more, on one example as far as it can tell, on all of them in fact. The gradients [B, ...] stay
in memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree

from dpml.training._layer_rules import Part, held
from dpml.training._plan import named
from dpml.training._taps import Tap

__all__ = ["any_layer"]

_FAILURES = (RuntimeError, TypeError, ValueError, IndexError, AssertionError, NotImplementedError, AttributeError)


def any_layer(tap: Tap, gradients: list[Tensor | None], batch: int) -> Part:
    """Return the part of a layer without a rule of its own; `gradients` are those of its outputs, None for none.

    Raises:
        ValueError: if the layer cannot be run on single examples; the message names it and says what to do.
    """
    layer = tap.unit.layer
    trained = {name: p.detach() for name, p in layer.named_parameters() if p.requires_grad}
    reached = [i for i, gradient in enumerate(gradients) if gradient is not None]
    given = [gradient for gradient in gradients if gradient is not None]
    inputs = [value for value in tap.inputs if isinstance(value, Tensor)]
    state = _zero_state(tap, batch)

    def one(examples: list[Tensor], first_state: list[Tensor], cotangents: list[Tensor]) -> dict[str, Tensor]:
        def outputs(parameters: dict[str, Tensor]) -> list[Tensor]:
            found = _run(tap, parameters, examples, first_state)
            return [found[i] for i in reached]

        pull = vjp(outputs, trained)[1]
        found: dict[str, Tensor] = pull([c.unsqueeze(d) for c, d in zip(cotangents, where, strict=True)])[0]
        return found

    try:
        with _as_in_the_forward_pass(tap):
            where = [0]
            if not tap.single:
                alone = _run(tap, trained, [value[0] for value in inputs], [value[0] for value in state])
                where = _batch_dimensions(tap, reached, alone, batch)
            found = vmap(one, in_dims=(0, 0, where), randomness="error")(inputs, state, given)
    except _FAILURES as error:
        raise ValueError(_why(tap, error)) from error
    return held({name: value if value.dtype == torch.float64 else value.float() for name, value in found.items()})


def _run(tap: Tap, parameters: dict[str, Tensor], examples: list[Tensor], state: list[Tensor]) -> list[Any]:
    """The layer's outputs, as a flat list, for one example."""
    waiting = iter(examples)
    leaves = [next(waiting)[None] if isinstance(value, Tensor) else value for value in tap.inputs]
    args, kwargs = pytree.tree_unflatten(leaves, tap.layout)
    if state:
        args = (*args, tuple(state) if len(state) > 1 else state[0])
    return pytree.tree_leaves(functional_call(tap.unit.layer, parameters, args, kwargs))


def _zero_state(tap: Tap, batch: int) -> list[Tensor]:
    """The first state of a recurrent layer that was given none: by itself it would be the same for all under vmap."""
    layer, value = tap.unit.layer, tap.inputs[0]
    if not isinstance(layer, nn.RNNBase) or len(tap.inputs) != 1 or not isinstance(value, Tensor):
        return []
    layers = layer.num_layers * (2 if layer.bidirectional else 1)
    sizes = [layer.proj_size or layer.hidden_size, layer.hidden_size][: 2 if layer.mode == "LSTM" else 1]
    return [torch.zeros(batch, layers, 1, size, dtype=value.dtype, device=value.device) for size in sizes]


@contextmanager
def _as_in_the_forward_pass(tap: Tap) -> Iterator[None]:
    """The same precision, and only kernels that vmap knows."""
    with ExitStack() as stack:
        stack.enter_context(torch.enable_grad())
        stack.enter_context(torch.autocast(tap.device, dtype=tap.precision, enabled=tap.precision is not None))
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message="There is a performance drop")
        if isinstance(tap.unit.layer, nn.RNNBase):
            stack.enter_context(torch.backends.cudnn.flags(enabled=False))
            onednn: Any = torch.backends.mkldnn
            stack.callback(setattr, onednn, "enabled", onednn.enabled)
            onednn.enabled = False
        yield


def _batch_dimensions(tap: Tap, reached: list[int], alone: list[Any], batch: int) -> list[int]:
    """Return where the batch stands in each output: the dimension that shrinks to 1 for one example."""
    dimensions = []
    for i in reached:
        together, one = tuple(tap.shapes[i] or ()), tuple(alone[i].shape)
        fitting = [d for d in range(len(one)) if one[d] == 1 and together == (*one[:d], batch, *one[d + 1 :])]
        if not fitting:
            raise ValueError(f"output {i} has shape {one} for one example and {together} for {batch}")
        dimensions.append(fitting[0])
    return dimensions


def _why(tap: Tap, error: Exception) -> str:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
    remedy = "build it from layers that take the batch first, or freeze it"
    if "random" in reason:
        remedy = "it draws random numbers, which a second run cannot repeat; take its dropout out, or freeze it"
    return (
        f"model must treat examples one by one, got {named(tap.unit)}, which cannot run on one example: {remedy} "
        f"({reason})"
    )
