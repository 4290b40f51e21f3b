r"""Squared norms and weighted sums of one layer's per-example gradients, from its inputs a and output gradients g.

A linear layer shows the idea. With one input row per example the gradient of example i is the outer product
$g_i a_i^\top$, so

.. math::

    \|g_i a_i^\top\|^2 = \|g_i\|^2\,\|a_i\|^2, \qquad \sum_i w_i\, g_i a_i^\top = (\operatorname{diag}(w)\, g)^\top a :

neither needs the B gradients themselves. With T rows per example the norm is either that of the gradient itself, kept
in memory where it is smaller than the rows it comes from, or
$\sum_{s,t} (a_s \cdot a_t)(g_s \cdot g_t)$. A convolution is a linear layer on its patches.

Every rule takes the layer, a and g, both with the batch in front and in float32 at least, and returns a `Part`. A layer
without a rule is run once more, under vmap, on one example as far as it can tell and on all of them in fact; its
gradients [B, ...] stay in memory (`any_layer`).

Squares are summed in float64: a product of two norms must not underflow, and in the double sum large terms may
cancel; a norm that comes out too small would let an example through unclipped.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from dpml.training._engine import Call, Unit


class Part(NamedTuple):
    """One layer's share: `squares` [B], and `contract`, from weights [B] in `dtype` to sums by local parameter name."""

    squares: Tensor
    contract: Callable[[Tensor], dict[str, Tensor]]
    dtype: torch.dtype


def held(gradients: dict[str, Tensor]) -> Part:
    """Return the part of per-example gradients [B, ...] that are kept in memory."""
    flat = {name: gradient.reshape(len(gradient), -1) for name, gradient in gradients.items()}
    shapes = {name: gradient.shape[1:] for name, gradient in gradients.items()}
    squares = torch.stack([_squares(gradient) for gradient in flat.values()]).sum(0)

    def contract(w: Tensor) -> dict[str, Tensor]:
        return {name: (w @ gradient).view(shapes[name]) for name, gradient in flat.items()}

    return Part(squares, contract, next(iter(flat.values())).dtype)


def _beside(kept: dict[str, Tensor], part: Part) -> Part:
    """A part together with gradients of the same layer that are kept in memory, if there are such."""
    if not kept:
        return part
    small = held(kept)
    return Part(part.squares + small.squares, lambda w: {**part.contract(w), **small.contract(w)}, part.dtype)


def _squares(rows: Tensor) -> Tensor:
    """Return the squared norm of each row, in float64; long rows in pieces, since one float32 sum would lose digits."""
    width = rows.shape[1]
    if width <= 4096:
        norms: Tensor = torch.linalg.vector_norm(rows, dim=1)
        return norms.double().square_()
    whole = width // 1024 * 1024
    pieces: Tensor = torch.linalg.vector_norm(rows[:, :whole].reshape(len(rows), -1, 1024), dim=2)
    squares = pieces.double().square().sum(1)
    return squares if whole == width else squares + _squares(rows[:, whole:])


def _factor(rows: Tensor) -> Tensor:
    """Squared norms that will be multiplied: not below where squares underflow, so that no product is too small."""
    least = 1e-16 if rows.dtype == torch.float32 else 1e-140
    return _squares(rows).clamp_(min=least**2)


def _is_trained(parameter: Tensor | None) -> bool:
    return parameter is not None and parameter.requires_grad


def linear(layer: nn.Linear, a: Tensor, g: Tensor) -> Part:
    """Linear layers, with any number of dimensions between the batch and the features."""
    weight, bias = _is_trained(layer.weight), _is_trained(layer.bias)
    if a.dim() > 2:
        return _linear_rows(a.flatten(1, -2), g.flatten(1, -2), weight, bias)
    squares = _factor(g)
    if weight:  # with the bias |g|^2 (1 + |a|^2), where an |a|^2 that underflows is of no account
        squares = torch.addcmul(squares, squares, _squares(a)) if bias else squares * _factor(a)

    def contract(w: Tensor) -> dict[str, Tensor]:
        sums, columns = {}, g.T
        if weight:
            sums["weight"] = torch.mm(columns * w, a)
        if bias:
            sums["bias"] = torch.mv(columns, w)
        return sums

    return Part(squares, contract, g.dtype)


def _linear_rows(a: Tensor, g: Tensor, weight: bool, bias: bool) -> Part:
    """Linear layers with T rows per example: a [B, T, I], g [B, T, O]."""
    rows, inputs, outputs = a.shape[1], a.shape[2], g.shape[2]
    kept = {"bias": g.sum(1)} if bias else {}
    if not weight:
        return held(kept)
    if 2 * rows * rows > inputs * outputs:  # then the gradients take less memory than a and g do
        return held({"weight": torch.bmm(g.mT, a), **kept})

    def contract(w: Tensor) -> dict[str, Tensor]:
        return {"weight": (w[:, None, None] * g).flatten(0, 1).T @ a.flatten(0, 1)}

    return _beside(kept, Part(_gram(a, g, len(a)), contract, g.dtype))


def convolution(layer: nn.Conv1d | nn.Conv2d, a: Tensor, g: Tensor) -> Part:
    """Conv1d and Conv2d, every padding, stride, dilation and number of groups: a linear layer on patches."""
    weight, bias = _is_trained(layer.weight), _is_trained(layer.bias)
    kept = {"bias": g.flatten(2).sum(2)} if bias else {}
    if not weight:
        return held(kept)
    unfold, columns = _patches_of(layer, a, tuple(g.shape[2:]))
    batch, groups, positions, outputs = len(g), layer.groups, g[0, 0].numel(), g.shape[1] // layer.groups
    flat = g.reshape(batch * groups, outputs, positions)
    step = _examples_at_a_time(a.device.type, columns * groups * positions)
    pieces = [(s, min(s + step, batch)) for s in range(0, batch, step)]

    if outputs * groups * columns <= 4 * (a[0].numel() + g[0].numel()):
        gradients = g.new_empty(batch * groups, outputs, columns)
        for s, e in pieces:
            torch.bmm(flat[s * groups : e * groups], unfold(s, e), out=gradients[s * groups : e * groups])
        gradients = gradients.view(batch, -1)
        squares = _squares(gradients)

        def summed(w: Tensor) -> Tensor:
            return w @ gradients

    else:
        squares = torch.cat([_gram(unfold(s, e), flat[s * groups : e * groups].mT, e - s) for s, e in pieces])

        def summed(w: Tensor) -> Tensor:
            total = g.new_zeros(groups, outputs, columns)
            for s, e in pieces:
                left = (w[s:e, None, None] * g[s:e].flatten(2)).view(e - s, groups, outputs, positions)
                right = unfold(s, e).view(e - s, groups, positions, columns)
                total += left.permute(1, 2, 0, 3).flatten(2) @ right.transpose(0, 1).flatten(1, 2)
            return total

    def contract(w: Tensor) -> dict[str, Tensor]:
        last_to_first = summed(w).view(groups * outputs, *layer.kernel_size[::-1], -1)
        total = last_to_first.permute(0, *range(g.dim() - 1, 0, -1)).contiguous()
        return {"weight": total}

    return _beside(kept, Part(squares, contract, g.dtype))


def _examples_at_a_time(device: str, numbers: int) -> int:
    """On a CPU few, so that their patches stay in its cache; on a GPU many, so that the work fills it."""
    return min(64, max(4, 400_000 // max(1, numbers))) if device == "cpu" else max(1, 2**26 // max(1, numbers))


def _gram(a: Tensor, g: Tensor, batch: int) -> Tensor:
    """Return sum_{s,t} (a_s . a_t)(g_s . g_t) for each example, from rows a [N, T, I] and g [N, T, O], N a multiple.

    In float64, since large terms may cancel.
    """
    a, g = a.double(), g.double()
    return ((a @ a.mT) * (g @ g.mT)).view(batch, -1).sum(1).clamp(min=0.0)


def _patches_of(
    layer: nn.Conv1d | nn.Conv2d, a: Tensor, out: tuple[int, ...]
) -> tuple[Callable[[int, int], Tensor], int]:
    """Return the function from a range of examples to their patches [examples * groups, positions, columns].

    Two copies: first the windows along the height, with the width in front of them; in these each whole patch is one
    run of memory. On a CPU a copy costs as many runs as it is made of; this way is up to twice as fast as copying
    patches from the image. The columns come out ordered by width, height and channel.
    """
    flat = a.dim() == 3  # one dimension: images of height 1
    one: tuple[int, ...] = (1,) if flat else ()
    (high, wide), (down, right), (down_in, right_in) = (
        (*one, *numbers) for numbers in (layer.kernel_size, layer.stride, layer.dilation)
    )
    rows, across = (*one, *out)
    groups, channels = layer.groups, layer.in_channels // layer.groups
    padding: list[int] = []  # from the last dimension to the first
    for i in reversed(range(len(layer.kernel_size))):
        total = layer.dilation[i] * (layer.kernel_size[i] - 1) if layer.padding == "same" else 0
        either = (total // 2, total - total // 2) if isinstance(layer.padding, str) else (layer.padding[i],) * 2
        padding += either
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode

    def unfold(start: int, stop: int) -> Tensor:
        x = functional.pad(a[start:stop], padding, mode=mode) if any(padding) else a[start:stop]
        x = (x[:, :, None] if flat else x).permute(0, 3, 2, 1).contiguous()
        n, width, height, _ = x.shape
        of_place = groups * channels
        strips = x.as_strided(
            (n, groups, rows, width, high, channels),
            (width * height * of_place, channels, down * of_place, height * of_place, down_in * of_place, 1),
        ).contiguous()
        of_column, of_row = high * channels, width * high * channels
        patches = strips.as_strided(
            (n * groups, rows, across, wide, of_column),
            (rows * of_row, of_row, right * of_column, right_in * of_column, 1),
        )
        return patches.reshape(n * groups, rows * across, -1)

    return unfold, high * wide * channels


def group_norm(layer: nn.GroupNorm, a: Tensor, g: Tensor) -> Part:
    """GroupNorm, with or without dimensions behind the channels."""
    places = tuple(range(2, g.dim()))
    return _scale_and_shift(layer, functional.group_norm(a, layer.num_groups, eps=layer.eps), g, places)


def layer_norm(layer: nn.LayerNorm, a: Tensor, g: Tensor) -> Part:
    """LayerNorm over any number of last dimensions."""
    places = tuple(range(1, g.dim() - len(layer.normalized_shape)))
    return _scale_and_shift(layer, functional.layer_norm(a, layer.normalized_shape, eps=layer.eps), g, places)


def _scale_and_shift(layer: nn.Module, normal: Tensor, g: Tensor, places: tuple[int, ...]) -> Part:
    """The part of out = weight * normal + bias, where the same weight serves all `places`."""
    terms = {name: g * normal if name == "weight" else g for name, p in layer.named_parameters() if p.requires_grad}
    return held({name: term.sum(places) if places else term for name, term in terms.items()})


def embedding(layer: nn.Embedding, ids: Tensor, g: Tensor) -> Part:
    """Embedding. Rows of the same token add up before they are squared; the padding row has no gradient."""
    batch, width = len(ids), g.shape[-1]
    ids, g = ids.reshape(batch, -1), g.reshape(batch, -1, width)
    if layer.padding_idx is not None:
        g = g * (ids != layer.padding_idx % layer.num_embeddings)[..., None]
    tokens, order = ids.sort(1)
    rank = functional.pad((tokens[:, 1:] != tokens[:, :-1]).long(), (1, 0)).cumsum(1)  # of a token in its example
    place = rank + torch.arange(batch, device=ids.device)[:, None] * ids.shape[1]
    rows = g.gather(1, order[..., None].expand_as(g))
    by_token = g.new_zeros(place.numel(), width).index_add_(0, place.reshape(-1), rows.reshape(-1, width))

    def contract(w: Tensor) -> dict[str, Tensor]:
        total = g.new_zeros(layer.weight.shape)
        return {"weight": total.index_add_(0, ids.reshape(-1), (w[:, None, None] * g).reshape(-1, width))}

    return Part(_squares(by_token.view(batch, -1)), contract, g.dtype)


_RULES: dict[type[nn.Module], Callable[[Any, Tensor, Tensor], Part]] = {
    nn.Linear: linear,
    nn.Conv1d: convolution,
    nn.Conv2d: convolution,
    nn.GroupNorm: group_norm,
    nn.LayerNorm: layer_norm,
    nn.Embedding: embedding,
}


def rule_of(layer: nn.Module) -> Callable[[Any, Tensor, Tensor], Part] | None:
    """Return the rule of a layer, or None where the general route must do: its forward pass may be another."""
    for kind, rule in _RULES.items():
        if isinstance(layer, kind):
            own = "forward" in vars(layer) or type(layer).forward is not kind.forward
            plain = not list(layer.children()) and {"weight"} <= set(layer._parameters) <= {"weight", "bias"}
            return None if own or not plain else rule
    return None


# ---- layers without a rule ----

_FAILURES = (RuntimeError, TypeError, ValueError, IndexError, AssertionError, NotImplementedError, AttributeError)


def any_layer(call: Call, gradients: list[Tensor | None], batch: int) -> Part:
    """Return the part of a layer without a rule of its own; `gradients` are those of its outputs, None for none.

    Raises:
        ValueError: if the layer cannot be run on single examples; the message names it and says what to do.
    """
    layer = call.unit.layer
    trained = {name: p.detach() for name, p in layer.named_parameters() if p.requires_grad}
    reached = [i for i, gradient in enumerate(gradients) if gradient is not None]
    given = [gradient for gradient in gradients if gradient is not None]
    inputs = [value for value in call.inputs if isinstance(value, Tensor)]
    state, places = _zero_state(call, batch), batch_dimensions(layer, len(inputs))

    def one(examples: list[Tensor], first_state: list[Tensor], cotangents: list[Tensor]) -> dict[str, Tensor]:
        def outputs(parameters: dict[str, Tensor]) -> list[Tensor]:
            found = _run(call, parameters, examples, first_state)
            return [found[i] for i in reached]

        pull = vjp(outputs, trained)[1]
        found: dict[str, Tensor] = pull([c.unsqueeze(d) for c, d in zip(cotangents, where, strict=True)])[0]
        return found

    try:
        with _as_in_the_forward_pass(call):
            where = [0]
            if not call.single:
                first = [value.select(place, 0) for value, place in zip(inputs, places, strict=True)]
                alone = _run(call, trained, first, [value[0] for value in state])
                where = _batch_dimensions(call, reached, alone, batch)
            found = vmap(one, in_dims=(places, 0, where), randomness="error")(inputs, state, given)
    except _FAILURES as error:
        raise ValueError(_why(call, error)) from error
    return held({name: value if value.dtype == torch.float64 else value.float() for name, value in found.items()})


def _run(call: Call, parameters: dict[str, Tensor], examples: list[Tensor], state: list[Tensor]) -> list[Any]:
    """The layer's outputs, as a flat list, for one example."""
    waiting = map(Tensor.unsqueeze, examples, batch_dimensions(call.unit.layer, len(examples)))
    leaves = [next(waiting) if isinstance(value, Tensor) else value for value in call.inputs]
    args, kwargs = pytree.tree_unflatten(leaves, call.layout)
    if state:
        args = (*args, tuple(state) if len(state) > 1 else state[0])
    return pytree.tree_leaves(functional_call(call.unit.layer, parameters, args, kwargs))


def batch_dimensions(layer: nn.Module, inputs: int) -> list[int]:
    """Where the batch stands in each of so many inputs: in front, but not in the first state of a recurrent layer."""
    return [int(i > 0 and isinstance(layer, nn.RNNBase)) for i in range(inputs)]


def _zero_state(call: Call, batch: int) -> list[Tensor]:
    """The first state of a recurrent layer that was given none: by itself it would be the same for all under vmap."""
    layer, value = call.unit.layer, call.inputs[0]
    if not isinstance(layer, nn.RNNBase) or len(call.inputs) != 1 or not isinstance(value, Tensor):
        return []
    layers = layer.num_layers * (2 if layer.bidirectional else 1)
    sizes = [layer.proj_size or layer.hidden_size, layer.hidden_size][: 2 if layer.mode == "LSTM" else 1]
    return [torch.zeros(batch, layers, 1, size, dtype=value.dtype, device=value.device) for size in sizes]


@contextmanager
def _as_in_the_forward_pass(call: Call) -> Iterator[None]:
    """The same precision, and only kernels that vmap knows."""
    with ExitStack() as stack:
        stack.enter_context(torch.enable_grad())
        stack.enter_context(torch.autocast(call.device, dtype=call.precision, enabled=call.precision is not None))
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message="There is a performance drop")
        if isinstance(call.unit.layer, nn.RNNBase):
            stack.enter_context(torch.backends.cudnn.flags(enabled=False))
            onednn: Any = torch.backends.mkldnn
            stack.callback(setattr, onednn, "enabled", onednn.enabled)
            onednn.enabled = False
        yield


def _batch_dimensions(call: Call, reached: list[int], alone: list[Any], batch: int) -> list[int]:
    """Return where the batch stands in each output: the dimension that shrinks to 1 for one example."""
    dimensions = []
    for i in reached:
        together, one = tuple(call.shapes[i] or ()), tuple(alone[i].shape)
        fitting = [d for d in range(len(one)) if one[d] == 1 and together == (*one[:d], batch, *one[d + 1 :])]
        if not fitting:
            raise ValueError(f"output {i} has shape {one} for one example and {together} for {batch}")
        dimensions.append(fitting[0])
    return dimensions


def _why(call: Call, error: Exception) -> str:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
    remedy = "build it from layers that take the batch first, or freeze it"
    if "random" in reason:
        remedy = "it draws random numbers, which a second run cannot repeat; take its dropout out, or freeze it"
    return (
        f"model must treat examples one by one, got {named(call.unit)}, which cannot run on one example: {remedy} "
        f"({reason})"
    )


def named(unit: Unit) -> str:
    """How a message calls a layer."""
    kind = type(unit.layer).__name__
    return f"layer {unit.name!r} ({kind})" if unit.name else f"the model itself ({kind})"
