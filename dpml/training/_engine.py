"""The work behind `PerExample`: find the layers, listen to one forward pass, run backwards once, contract with weights.

The gradients that come this way are those of the layers. So in every step the graph of the losses is looked through for
another way to a trained parameter, and refused if a gradient comes along it.

A unit is a module that owns a trained parameter directly; what lies inside a unit belongs to it. Finding the units
costs more than the norms of a small model, so that it is done once and again only when the model's layers, their
modes, or which parameters are trained have changed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial, reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn.utils.parametrize import is_parametrized
from torch.utils import _pytree as pytree

from dpml.training import _checks
from dpml.training._layers import Part, any_layer, batch_dimensions, named, rule_of

Parts = list[tuple[str, Part]]


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


class Call(NamedTuple):
    """What one call of a unit left: its inputs and outputs as flat lists, and the edges where gradients arrive.

    `sources` are the edges by which the graph goes on behind the inputs. `versions` counts how often each input had
    been changed in place by then; `shapes` and `edges` are None for outputs that are no tensors or have no gradient.
    `layout` rebuilds the arguments from `inputs`; `single` says that the output is one tensor; `device` and `precision`
    are those of autocast, None if it was off.
    """

    unit: Unit
    inputs: list[Any]
    sources: list[GradientEdge | None]
    versions: list[int]
    edges: list[GradientEdge | None]
    shapes: list[torch.Size | None]
    single: bool = True
    layout: Any = None
    device: str = "cpu"
    precision: torch.dtype | None = None


# ---- the layers ----

_PLANS: weakref.WeakKeyDictionary[nn.Module, Plan] = weakref.WeakKeyDictionary()


def plan_of(model: nn.Module) -> Plan:
    """Return the plan of a model, the stored one if the model has not changed since.

    Raises:
        ValueError: for a model that cannot be trained per example, by the name of the layer and with the remedy.
    """
    signature = _signature(model)
    plan = _PLANS.get(model)
    if plan is None or plan.signature != signature:
        plan = Plan(tuple(_units(model)), _checks.trained_parameters(model), signature)
        if all(unit.layer is not model for unit in plan.units):  # a value that holds its key would live for ever
            _PLANS[model] = plan
    return plan


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


def _units(model: nn.Module) -> Iterator[Unit]:
    inside: set[int] = set()
    for name, layer in model.named_modules():
        _checks.layers_that_mix(name, layer)
        if id(layer) in inside:
            continue
        whole = is_parametrized(layer) or isinstance(layer, nn.MultiheadAttention)  # they use their children's weights
        if any(p.requires_grad for p in layer.parameters(recurse=whole)):
            inside |= {id(part) for part in layer.modules()}
            yield Unit(name, layer, rule_of(layer))


# ---- forwards, listening ----


def _forward(model: nn.Module, plan: Plan, loss_fn: Any, x: Tensor, y: Tensor) -> tuple[Tensor, list[Call]]:
    """Run the model once; return the losses with their graph and one call for each unit."""
    recording = nullcontext() if torch.is_grad_enabled() else torch.enable_grad()  # switching costs, so only if needed
    with recording, _heard(plan.units) as calls:
        losses = _checks.one_loss_each(loss_fn(model(x), y), x.shape[0])
    if not losses.requires_grad:
        raise ValueError("loss_fn must return losses that depend on the trained parameters, got some without gradient")
    if len(calls) != len(plan.units) or len({id(call.unit) for call in calls}) != len(calls):
        _refuse_calls(plan, [id(call.unit) for call in calls])
    if outside := _outside(losses, calls, plan.parameters):
        _refuse_outside(losses, outside)
    return losses, calls


@contextmanager
def _heard(units: Sequence[Unit]) -> Iterator[list[Call]]:
    """Give the list that fills with a `Call` for each call of a unit, in the order of the calls."""
    calls: list[Call] = []
    handles: list[Any] = []
    try:
        for unit in units:
            handles += _hooks_for_rule(unit, calls) if unit.rule is not None else _hooks_for_any(unit, calls)
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _edge(output: Tensor | None) -> GradientEdge | None:
    # An edge keeps pointing at this place of the graph, also when the output is changed in place later. That of a view
    # does not, so that views are copied before they go on.
    return get_gradient_edge(output) if output is not None and output.requires_grad else None


def _own(output: Any) -> Any:
    return output.clone() if isinstance(output, Tensor) and output._is_view() else output


def _hooks_for_rule(unit: Unit, calls: list[Call]) -> list[Any]:
    """Next to `forward` itself: inside of any other hook, which may change what comes in or goes out."""

    def after(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> Tensor:
        output = _own(output)
        given = args[0] if args else kwargs["input"]
        value = given.detach()
        calls.append(Call(unit, [value], [_edge(given)], [value._version], [_edge(output)], [output.shape]))
        return output

    return [unit.layer.register_forward_hook(after, prepend=True, with_kwargs=True)]


def _hooks_for_any(unit: Unit, calls: list[Call]) -> list[Any]:
    """Around everything that the layer does, its own hooks included, since it will be run again with them."""
    waiting: list[tuple[Any, ...]] = []

    def before(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        leaves, layout = pytree.tree_flatten((args, kwargs))
        sources = [_edge(leaf) if isinstance(leaf, Tensor) else None for leaf in leaves]
        leaves = [leaf.detach() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        versions = [leaf._version if isinstance(leaf, Tensor) else 0 for leaf in leaves]
        waiting.append((leaves, sources, versions, layout))

    def after(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        leaves, sources, versions, layout = waiting.pop()
        single = isinstance(output, Tensor)
        output = pytree.tree_map(_own, output)
        outputs = [leaf if isinstance(leaf, Tensor) else None for leaf in pytree.tree_leaves(output)]
        edges, shapes = [_edge(leaf) for leaf in outputs], [None if leaf is None else leaf.shape for leaf in outputs]
        device = next(layer.parameters()).device.type
        precision = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        calls.append(Call(unit, leaves, sources, versions, edges, shapes, single, layout, device, precision))
        return output

    return [
        unit.layer.register_forward_pre_hook(before, prepend=True, with_kwargs=True),
        unit.layer.register_forward_hook(after, with_kwargs=True),
    ]


def _refuse_calls(plan: Plan, calls: list[int]) -> None:
    for unit in plan.units:
        times = calls.count(id(unit))
        if times == 0:
            raise ValueError(
                "model must use each trained parameter in the forward pass of its own layer, got "
                f"{named(unit)}, which was not called: call it, freeze its parameters if they are not used, or, if it "
                "only holds parameters for another layer, give them to that layer as attributes"
            )
        if times > 1:
            raise ValueError(
                f"model must use each layer once, got {named(unit)}, which was called {times} times: make a layer "
                "for each call (per_example_gradients serves such a model)"
            )


def _outside(losses: Tensor, calls: list[Call], parameters: Mapping[str, Tensor]) -> list[tuple[str, Any, Any, int]]:
    """Where the graph of the losses meets a trained parameter outside its layer: name, parameter, and who asks where.

    What lies between the inputs and the outputs of a layer is not looked through: a step on a CPU takes a hundred times
    as long.
    """
    seen = {edge.node for call in calls for edge in call.edges if edge is not None}
    sources = [edge.node for call in calls for edge in call.sources if edge is not None]
    waiting: list[Any] = [(node, None, 0) for node in (get_gradient_edge(losses).node, *sources)]
    leaves = []
    while waiting:
        node, asking, place = waiting.pop()
        if node in seen:
            continue
        if behind := node.next_functions:
            seen.add(node)
            waiting += [(one, node, i) for i, (one, _) in enumerate(behind) if one is not None]
        elif isinstance(leaf := getattr(node, "variable", None), nn.Parameter):
            leaves.append((leaf, asking, place))
    names = {id(parameter): name for name, parameter in parameters.items()} if leaves else {}
    return [(names[id(leaf)], leaf, asking, place) for leaf, asking, place in leaves if id(leaf) in names]


def _refuse_outside(losses: Tensor, outside: list[tuple[str, Any, Any, int]]) -> None:
    """Refuse gradients that reach a parameter past its layer; those of a term with the factor 0 may."""
    arriving = [name for name, _, asking, _ in outside if asking is None]

    def listen(name: str, place: int, gradients: Sequence[Any], _: Any) -> None:
        arriving.extend([name] if gradients[place] is not None and gradients[place].any() else [])

    handles = [asking.register_hook(partial(listen, name, i)) for name, _, asking, i in outside if asking is not None]
    with _no_autocast(losses.device.type):
        leaves, ones = [leaf for _, leaf, _, _ in outside], torch.ones_like(losses)
        torch.autograd.grad(losses, leaves, ones, retain_graph=True, allow_unused=True)
    for handle in handles:
        handle.remove()
    if arriving:
        raise ValueError(differs(arriving[0]))


def differs(name: str) -> str:
    """What is said of a parameter whose weighted sum would not be the gradient of the weighted loss."""
    return (
        f"model must use parameters in their own layers and examples one by one, but the gradient of {name!r} "
        "differs from the ordinary one: it is used outside its layer as well, the loss has a term in it (for a "
        "penalty on weights use the optimizer's weight_decay), it has a hook, examples act on each other or on a later "
        "batch, or the batch is not the first dimension"
    )


# ---- backwards ----


def differentiate(model: nn.Module, plan: Plan, loss_fn: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Parts]:
    """Return losses [B], norms [B] in float64 and the parts by which weighted sums are made."""
    losses, calls = _forward(model, plan, loss_fn, x, y)
    return losses.detach(), *_parts_of(losses, calls)


def _parts_of(losses: Tensor, calls: list[Call]) -> tuple[Tensor, Parts]:
    """Return the norms and the parts; `calls` is emptied on the way, so that memory is free as soon as it can be."""
    edges = [edge for call in calls for edge in call.edges if edge is not None]
    if not edges:
        raise ValueError("model must be differentiable in its trained parameters, got outputs without gradient")
    ones = torch.ones_like(losses)
    with _no_autocast(losses.device.type):
        reached = torch.autograd.grad(losses, edges, ones, allow_unused=True)
    found = [None if gradient is None else gradient.detach() for gradient in reached]
    del reached
    batch = losses.shape[0]
    parts: Parts = []
    with exact_products(losses.device.type):  # no graph is recorded: inputs and gradients are detached
        while calls:
            call = calls.pop()
            gradients = [None if edge is None else found.pop() for edge in reversed(call.edges)]
            part = _part(call, gradients[::-1], batch)
            if part is not None:
                parts.append((call.unit.name, part))
        squares = [part.squares for _, part in parts] or [losses.new_zeros(batch, dtype=torch.float64)]
        return reduce(torch.add, squares).sqrt(), parts


def _part(call: Call, gradients: list[Tensor | None], batch: int) -> Part | None:
    _check_batch_first(call, batch)
    for value, version in zip(call.inputs, call.versions, strict=True):
        if isinstance(value, Tensor) and value._version != version:
            raise ValueError(
                f"model must not change the input of a layer in place, got {named(call.unit)}: change a copy of it"
            )
    if all(gradient is None for gradient in gradients):
        return None  # no loss depends on it
    if call.unit.rule is None:
        return any_layer(call, gradients, batch)
    return call.unit.rule(call.unit.layer, _wide(call.inputs[0]), _wide(gradients[0]))


def _check_batch_first(call: Call, batch: int) -> None:
    if call.unit.rule is not None and call.shapes[0] and call.inputs[0].shape[:1] == call.shapes[0][:1] == (batch,):
        return  # most layers, most of the time
    inputs = [value.shape for value in call.inputs if isinstance(value, Tensor)]
    shapes = [*zip(inputs, batch_dimensions(call.unit.layer, len(inputs)), strict=True)]
    if call.single:
        shapes += [(shape, 0) for shape in call.shapes if shape is not None]
    wrong = [tuple(shape) for shape, place in shapes if shape[place : place + 1] != (batch,)]
    if not inputs or wrong:
        came = f"a tensor of shape {wrong[0]}" if wrong else "no tensor as input"
        raise ValueError(
            f"model must keep the batch of {batch} examples as the first dimension, got {named(call.unit)} with "
            f"{came}: put the batch first (batch_first=True), do not merge it with another dimension, and give a layer "
            "that owns a parameter the batch to apply it to"
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


def _no_autocast(device: str) -> AbstractContextManager[Any]:
    """A backward pass runs in the precisions of the forward pass; whatever surrounds it must not lower them."""
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


@contextmanager
def exact_products(device: str) -> Iterator[None]:
    """Products in full precision: with TF32 or bf16 a sum could exceed what the norms promise, by 2^-11 or more."""
    products: Any = (torch.backends.cuda if device == "cuda" else torch.backends.mkldnn).matmul
    before = products.fp32_precision
    try:
        if before not in ("none", "ieee"):  # switching costs, so only if needed
            products.fp32_precision = "ieee"
        with _no_autocast(device):
            yield
    finally:
        if before not in ("none", "ieee"):
            products.fp32_precision = before
