r"""Norms and weighted sums of per-example gradients, in one backward pass and without forming the gradients.

Let $g_i$ be the gradient of the loss of example i in all trained parameters. Private training needs the norms
$\|g_i\|$, and then one weighted sum, its weights made from the norms:

.. math::

    \sum_{i=1}^{B} w_i\, g_i, \qquad w_i = \min\Bigl(1, \frac{C}{\|g_i\|}\Bigr) \text{ in DP-SGD.}

One backward pass to the outputs of the layers, not to the parameters, is enough. It gives the gradient $g^{(l)}$ of
the summed loss in the output of each layer l, whose row i is that of the loss of example i alone, provided that no
layer mixes examples. With the layer's input $a^{(l)}$ it determines the gradients of all examples; norms and
weighted sum follow from the two (for a linear layer $\|g_i\|\,\|a_i\|$ and $g^\top \operatorname{diag}(w)\, a$).

Neighbours differ by one example (add/remove): with weights that make $w_i \|g_i\| \le C$, and that depend on $g_i$
alone, adding or removing an example moves the sum by at most C, up to rounding.
"""

from __future__ import annotations

import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from dpml import arguments
from dpml.training import _checks, _engine, _self_test
from dpml.training._checks import LossFunction

__all__ = ["PerExample", "per_example_gradients", "self_test"]


def per_example_gradients(model: nn.Module, loss_fn: LossFunction, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Return the gradient of each example's loss, by parameter name, each [B, ...]: the plain reference.

    It runs the model on one example at a time as far as the model can tell, and keeps every gradient in memory: B
    times the size of the model. Arguments as in `PerExample`, but parameters may be shared, and layers called twice.
    Random layers (dropout) draw afresh for each example.

    Raises:
        ValueError: as for the arguments of `PerExample`, and if the model cannot run on one example.

    Source: M. Abadi et al., "Deep learning with differential privacy", CCS 2016, Algorithm 1, "compute gradient".
    """
    _check_arguments(model, loss_fn, x, y)
    for name, layer in model.named_modules():
        _checks.layers_that_mix(name, layer)
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if len(x) == 0:
        return {name: p.detach().new_zeros(0, *p.shape) for name, p in parameters.items()}

    def loss(p: dict[str, Tensor], xi: Tensor, yi: Tensor) -> Tensor:
        return _checks.one_loss_each(loss_fn(functional_call(model, p, (xi[None],)), yi[None]), 1)[0]

    detached = {name: p.detach() for name, p in parameters.items()}
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="There is a performance drop")
            one_by_one = vmap(grad(loss), in_dims=(None, 0, 0), randomness="different")
            gradients: dict[str, Tensor] = one_by_one(detached, x, y)
    except RuntimeError:  # a layer that vmap does not know, such as most recurrent ones: one example after another
        alone = [grad(loss)(detached, xi, yi) for xi, yi in zip(x, y, strict=True)]
        gradients = {name: torch.stack([row[name] for row in alone]) for name in detached}
    return gradients


class PerExample:
    """The per-example gradients of one batch: `losses` [B], `norms` [B], and `sum(weights)` any number of times.

    `x` and `y` hold the examples along their first dimension, `model(x)` is called once, and
    `loss_fn(outputs, y)` returns one loss per example, shape [B] (losses of PyTorch: ``reduction="none"``). Only
    parameters with ``requires_grad=True`` count. Norms are at least in float32, also for layers in lower precision.
    On an empty batch the model is not called; norms and losses are empty and sums are zero.

    The first batch of at least two examples runs `self_test` on a few of them, and again whenever the model's layers,
    their modes or the loss change. Linear, Conv1d, Conv2d, GroupNorm, LayerNorm and Embedding have closed forms;
    any other layer is run once more under vmap, and its gradients are kept.

    Raises:
        ValueError: before anything is computed, if an argument is not as described; for a layer that mixes examples,
            keeps statistics, is used twice, shares a parameter, or does not have the batch first. The message names
            the layer and the remedy.

    Source: G. Rochette, A. Manoel and E. W. Tramel, "Efficient per-example gradient computations in convolutional
    neural networks", 2019, and Z. Bu et al., "Differentially private optimization on large model at small cost",
    ICML 2023 (book-keeping): norms and weighted sum from one backward pass.
    """

    def __init__(self, model: nn.Module, loss_fn: LossFunction, x: Tensor, y: Tensor) -> None:
        plan = _checked(model, loss_fn, x, y)
        self._parameters = plan.parameters
        self._parts: _engine.Parts = []
        some = next(iter(plan.parameters.values()))
        if len(x) == 0:
            self.losses = self.norms = torch.zeros(0, dtype=_at_least_float32(some), device=some.device)
            return
        if not _is_tested(model, plan.signature, loss_fn):
            self_test(model, loss_fn, x, y)
        self.losses, norms, self._parts = _engine.differentiate(model, plan, loss_fn, x, y)
        self.norms = norms.to(_at_least_float32(some))

    def sum(self, weights: Tensor) -> dict[str, Tensor]:
        """Return the sum over the batch of weight times gradient, by parameter name, in float32 at least.

        `weights` [B] are numbers or booleans on the device of the norms. Their values are not looked at, so that
        nothing waits for the device. Add the noise before you convert the sum to a lower precision: rounding a sum
        without noise can move it by more than one example does.

        Raises:
            ValueError: if weights is not a real tensor of shape [B] on that device.

        Source: M. Abadi et al., "Deep learning with differential privacy", CCS 2016, Algorithm 1.
        """
        shape, device = self.norms.shape, self.norms.device
        good = isinstance(weights, Tensor) and weights.shape == shape and weights.device == device
        if not good or weights.is_complex():
            arguments.refuse("weights", f"a real tensor of shape {tuple(shape)} on {device}", weights)
        found = _engine.contract(self._parts, weights.detach())
        return {
            name: found[name] if name in found else torch.zeros(p.shape, dtype=_at_least_float32(p), device=device)
            for name, p in self._parameters.items()
        }


def _at_least_float32(parameter: Tensor) -> torch.dtype:
    return torch.promote_types(parameter.dtype, torch.float32)


MANY = 24
"""On so many examples at most a model is tested."""

_TESTED: weakref.WeakKeyDictionary[nn.Module, tuple[tuple[Any, ...], Callable[[], Any]]] = weakref.WeakKeyDictionary()


def self_test(model: nn.Module, loss_fn: LossFunction, x: Tensor, y: Tensor) -> None:
    """Compare the engine with ordinary differentiation on a few examples that differ; return nothing if all is well.

    What listening to the layers cannot see: a parameter that is used outside its layer as well, or a term of the loss
    that does not depend on the example (the weighted sum then differs from the gradient of the weighted loss); examples
    that act on each other (with some of them removed, the losses or gradients of the others change); and what the model
    keeps of the data, in buffers or elsewhere: it would carry statistics past the noise.

    The comparison is made in double precision, with constants for random numbers, and at parameters some way from those
    of the model; then everything is put back. `PerExample` calls it by itself, and `dpml.training.train` again now and
    then, together with a comparison of a whole batch with half of it.

    Raises:
        ValueError: if one of the comparisons fails, naming the parameter or the remedy; as in `PerExample` for bad
            arguments.

    Source: own construction; the second comparison is the neighbouring relation itself.
    """
    plan = _checked(model, loss_fn, x, y)
    if len(x) > 0:
        some = _checks.differing(x, y, count=MANY)
        _self_test.compare(model, plan, loss_fn, x[some.to(x.device)], y[some.to(y.device)], move=0.5)
    if len(x) > 1:
        _TESTED[model] = (plan.signature, _reference(loss_fn))


def begin(
    model: nn.Module,
    loss_fn: LossFunction,
    x: Tensor,
    y: Tensor,
    *,
    ids: Tensor,
    device: torch.device,
    augment: Any = None,
) -> None:
    """Try all that can be tried before a first step: on examples that differ, and on the batch of these `ids`.

    Raises:
        ValueError: saying what is wrong, with the remedy.

    Source: own construction.
    """
    some_x, some_y = _self_test.first_tried(model, loss_fn, x, y, device=device)
    self_test(model, loss_fn, _self_test.one_by_one(augment, some_x, some_y), some_y)
    x, y = x[ids.to(x.device)].to(device), y[ids.to(y.device)].to(device)
    _self_test.halves(model, loss_fn, _self_test.one_by_one(augment, x, y), y)


def _is_tested(model: nn.Module, signature: tuple[Any, ...], loss_fn: LossFunction) -> bool:
    tested, loss = _TESTED.get(model, ((), None))
    return loss is not None and loss() == loss_fn and tested == signature


def _reference(loss_fn: LossFunction) -> Callable[[], Any]:
    """A reference that does not keep the loss alive: it may hold the model, which would then never be forgotten."""
    try:
        return weakref.WeakMethod(loss_fn) if isinstance(loss_fn, types.MethodType) else weakref.ref(loss_fn)
    except TypeError:
        return lambda: loss_fn


def _checked(model: Any, loss_fn: Any, x: Any, y: Any) -> _engine.Plan:
    """The plan of the model, after all that can be checked before a forward pass."""
    _check_arguments(model, loss_fn, x, y)
    return _engine.plan_of(model)


def _check_arguments(model: Any, loss_fn: Any, x: Any, y: Any) -> None:
    _checks.module(model)
    arguments.function("loss_fn", loss_fn)
    _checks.pair(x, y)
