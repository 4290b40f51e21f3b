r"""K networks of one shape side by side: each layer is one batched product in place of K small ones.

Let a network have the layers $h_{\ell+1} = \mathrm{relu}(h_\ell W_\ell^\top + b_\ell)$. With $g_\ell$ the gradient of
one example's loss with respect to the outputs of layer $\ell$ before the relu, and $a_\ell$ the inputs of that layer,

.. math::

    g_{\ell-1} = (g_\ell W_\ell) \cdot 1[a_\ell > 0], \qquad
    \|\nabla\, \mathrm{loss}\|^2 = \sum_\ell \|g_\ell\|^2 (\|a_\ell\|^2 + 1), \qquad
    \sum_i w_i \nabla_{W_\ell}\, \mathrm{loss}_i = \sum_i w_i\, g_{\ell i}\, a_{\ell i}^\top .

The gradient of the loss with respect to $W_\ell$ is the outer product of $g_\ell$ and $a_\ell$, whose norm is the
product of theirs; the 1 is the bias. No per-example gradient is ever formed. All numbers of a network lie in one row of
`Stack.parameters`, in the order of ``model.parameters()``: the noise of a step is one flat draw for each model, and one
optimizer whose rule works on each number by itself moves all rows as K optimizers would.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from dpml import arguments
from dpml.training import _checks
from dpml.training._checks import LossFunction
from dpml.training._engine import exact_products

__all__ = ["Stack", "StackedPerExample", "flat_examples", "predict", "require_stack", "stack", "unstack"]

PREDICTED_AT_ONCE = 2**22
"""How many hidden values `predict` holds at a time: 16 MiB of float32."""


class Stack(NamedTuple):
    """K networks of one shape: `parameters` of shape (K, P), `sizes` such as (784, 100, 10).

    Row k holds the weights (out, in) and biases of model k, layer by layer, in the order of ``model.parameters()``.
    """

    parameters: torch.Tensor
    sizes: tuple[int, ...]


def _layers(flat: torch.Tensor, sizes: tuple[int, ...]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Views of the weights (K, out, in) and the biases (K, out) of each layer."""
    start = 0
    for inputs, outputs in itertools.pairwise(sizes):
        middle, end = start + outputs * inputs, start + outputs * inputs + outputs
        yield flat[:, start:middle].view(-1, outputs, inputs), flat[:, middle:end]
        start = end


def stack(models: Sequence[nn.Sequential]) -> Stack:
    """Return copies of K networks as one `Stack`.

    Each is an ``nn.Sequential`` of ``Flatten``, ``Linear`` (with bias) and ``ReLU`` between the linear layers, as
    `models.mlp` makes it, and all have the same sizes and type of numbers.

    Raises:
        ValueError: for no model, another layer, or models that differ in shape, type or device.

    Source: definition.
    """
    if not isinstance(models, list | tuple) or not models or not all(isinstance(m, nn.Sequential) for m in models):
        arguments.refuse("models", "a list of at least one torch.nn.Sequential, as models.mlp returns", models)
    first, *others = (_shape(model) for model in models)
    for other in others:
        if other != first:
            raise ValueError(f"models must be of one shape, type and device, got {first} and {other}")
    rows = [torch.cat([p.detach().reshape(-1) for p in model.parameters()]) for model in models]
    return require_stack(Stack(torch.stack(rows), first[0]))


def _shape(model: nn.Sequential) -> tuple[tuple[int, ...], torch.dtype, torch.device]:
    layers: list[nn.Module] = list(model)
    if layers and isinstance(layers[0], nn.Flatten):
        layers = layers[1:]
    linear = [layer for layer in layers[::2] if type(layer) is nn.Linear]
    good = len(layers) % 2 == 1 and len(linear) == len(layers[::2]) and all(type(m) is nn.ReLU for m in layers[1::2])
    good = good and all(a.out_features == b.in_features for a, b in itertools.pairwise(linear))
    found = [(name, id(p)) for layer in linear for name, p in layer.named_parameters() if p.requires_grad]
    good = good and [name for name, _ in found] == ["weight", "bias"] * len(linear) and len({*found}) == len(found)
    good = good and not any(layer._forward_hooks or layer._forward_pre_hooks for layer in model.modules())
    if not good:
        kinds = ", ".join(type(m).__name__ for m in model) or "no layer"
        raise ValueError(
            "models must be Flatten, Linear with bias and ReLU in turn, ending in Linear, all trained, none shared "
            f"or with hooks, got {kinds}"
        )
    weight = linear[0].weight
    return (linear[0].in_features, *(layer.out_features for layer in linear)), weight.dtype, weight.device


def require_stack(stacked: Any) -> Stack:
    """Return `stacked` if it is a `Stack` in single or double precision.

    In lower precision the rounding of a norm, or of a sum without noise, is more than one example may do.

    Raises:
        ValueError: for anything else.

    Source: definition.
    """
    if not isinstance(stacked, Stack):
        arguments.refuse("stacked", "a Stack, as stacked_networks.stack returns", stacked)
    if stacked.parameters.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"stacked must be of float32 or float64, got {stacked.parameters.dtype}")
    return stacked


def flat_examples(x: Any, stacked: Stack) -> torch.Tensor:
    """Return x as (N, features).

    Raises:
        ValueError: if it is not (N, ...) finite numbers of the networks' size and type, on their device.

    Source: definition.
    """
    features, like = stacked.sizes[0], stacked.parameters
    allowed = f"a tensor of shape (N, ...) with {features} finite numbers of type {like.dtype} on {like.device} each"
    good = isinstance(x, torch.Tensor) and x.dim() > 1 and x[:0].flatten(1).shape[1] == features
    if not good or x.dtype != like.dtype or x.device != like.device:
        arguments.refuse("x", allowed, x)
    if not bool(torch.isfinite(x).all()):
        raise ValueError(f"x must be {allowed}, got an element that is not finite")
    flat: torch.Tensor = x.detach().flatten(1)
    return flat


def unstack(stacked: Stack) -> list[nn.Sequential]:
    """Return the K networks as ordinary modules, with copies of their parameters.

    Raises:
        ValueError: if stacked is not a Stack.

    Source: definition.
    """
    return [_network(row, stacked.sizes) for row in require_stack(stacked).parameters.detach()]


def _network(numbers: torch.Tensor, sizes: tuple[int, ...]) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs, device="meta", dtype=numbers.dtype), nn.ReLU()]
    model = nn.Sequential(*layers[:-1]).to_empty(device=numbers.device)
    nn.utils.vector_to_parameters(numbers.clone(), model.parameters())
    return model


@torch.no_grad()
def predict(stacked: Stack, *, x: torch.Tensor) -> torch.Tensor:
    """Return the class that each of the K networks finds most likely for each of the N examples, int64 (K, N).

    Raises:
        ValueError: if stacked is not a Stack, or x not (N, ...) finite numbers of the network's size and type.

    Source: definition.
    """
    flat = flat_examples(x, require_stack(stacked))
    at_once = max(1, PREDICTED_AT_ONCE // (len(stacked.parameters) * max(stacked.sizes[1:])))
    parts = [_forward(stacked, part)[0].argmax(dim=2) for part in torch.split(flat, at_once)]
    return torch.cat(parts, dim=1)


def _forward(stacked: Stack, x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Outputs (K, B, classes) and the inputs of each layer; x is (K, B, features), or (B, features) for all."""
    inputs: list[torch.Tensor] = []
    for weight, bias in _layers(*stacked):  # in memory (K, outputs, B): the faster order of the product
        inputs.append(x)
        if x.dim() == 2:  # one product for all models
            side = torch.addmm(bias.reshape(-1, 1), weight.flatten(0, 1), x.T)
            x = side.view(*bias.shape, len(x)).mT
        else:
            x = torch.baddbmm(bias[..., None], weight, x.mT).mT
        if len(inputs) < len(stacked.sizes) - 1:
            x = x.relu_()
    return x, inputs


class StackedPerExample:
    """Per-example gradients of K networks at once, never formed: `losses`, `norms`, then `sum(weights)`.

    `x` has shape (K, B, features), a batch for each network, or (B, features), one batch for all; `y` has shape (K, B),
    or (B,) if all networks have the same labels. `losses` and `norms` have shape (K, B). The arguments are not looked
    through: the training functions do that once.

    Source: derived at the head of this module; Rochette, Manoel and Tramel, "Efficient per-example gradient
    computations in convolutional neural networks", 2019, and Goodfellow, arXiv:1510.01799, for the norms of a linear
    layer.
    """

    def __init__(self, stacked: Stack, loss_fn: LossFunction, x: torch.Tensor, y: torch.Tensor) -> None:
        layers = list(_layers(*stacked))
        self._sizes, self._parameters = stacked.sizes, stacked.parameters.shape[1]
        with torch.no_grad(), exact_products(x.device.type):
            outputs, self._inputs = _forward(stacked, x)
        models, examples = outputs.shape[:2]
        labels = y.expand(models, examples).reshape(-1)
        flat = outputs.flatten(0, 1).requires_grad_()
        with torch.enable_grad():
            losses = _checks.one_loss_each(loss_fn(flat, labels), models * examples)
            (gradient,) = torch.autograd.grad(losses.sum(), flat)
        self.losses = losses.detach().view(models, examples)
        self._gradients = [gradient.view(models, examples, stacked.sizes[-1])]
        for (weight, _), a in zip(layers[:0:-1], self._inputs[:0:-1], strict=True):
            with exact_products(x.device.type):
                self._gradients.insert(0, torch.bmm(weight.mT, self._gradients[0].mT).mT.mul_(a > 0))

    @property
    def norms(self) -> torch.Tensor:
        """Norm of each example's gradient over all parameters of its network, shape (K, B)."""
        parts = [_squares(g) * (_squares(a) + 1.0) for g, a in zip(self._gradients, self._inputs, strict=True)]
        return torch.stack(parts).sum(0).sqrt().to(self.losses)

    def sum(self, weights: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Return for each network the sum of weights[k, i] times the gradient of example i, shape (K, P).

        It is written into `out`, if one is given: a fresh array of this size in every step costs as much as the norms.
        """
        total = weights.new_empty(len(weights), self._parameters) if out is None else out
        views = _layers(total, self._sizes)
        with exact_products(total.device.type):
            for g, a, (weight, bias) in zip(self._gradients, self._inputs, views, strict=True):
                weighted = g * weights[..., None]
                torch.sum(weighted, dim=1, out=bias)
                if a.dim() == 2:
                    weight.copy_((weighted.mT.flatten(0, 1) @ a).view_as(weight))
                else:
                    torch.bmm(weighted.mT, a, out=weight)
        return total


def _squares(vectors: torch.Tensor) -> torch.Tensor:
    """Squared length along the last dimension; the two ways are fast for two orders in memory.

    In double precision, and not below where squares underflow: else a long input makes too much of a short gradient.
    """
    if vectors.is_contiguous():
        length: torch.Tensor = torch.linalg.vector_norm(vectors, dim=-1)
        squares = length.double().square_()
    else:
        squares = torch.sum(vectors.square(), -1).double()
    return squares.clamp_(min=1e-32 if vectors.dtype == torch.float32 else 1e-280)
