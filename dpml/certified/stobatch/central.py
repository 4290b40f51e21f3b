r"""StoBatch made sound, the central way: DP-SGD on the adversarial objective, certified by randomized smoothing.

.. math::

    g_i = \nabla_\theta\, \frac{L(\theta; x_i + z_i, y_i) + \xi\, L(\theta; x_i^{adv} + z_i', y_i)}{1 + \xi}, \qquad
    z_i, z_i' \sim N(0, s^2 I),

clipped, summed and made noisy by the one trainer (`dpml.training.train`).

Why the guarantee is that of DP-SGD. The adversarial example $x_i^{adv}$ is made in the step, from $x_i$, the present
parameters and fresh random numbers; its label is the network's own. The parameters are the output of the steps before,
so they are public. So $g_i$ depends on example i alone, clipping bounds what it adds, and the theorem of
`dpml.training.dpsgd` applies, word for word: epsilon by the tight accountant, for neighbours that differ by one example
added or removed. Nothing is paid for adversarial examples.

What the trainer had to learn for it: an argument `augment`, which turns the examples of a batch into others before
their gradients are taken. Here it makes two views of each, [B, 2, d]; layers act on the last dimension, so that one
backward pass gives the gradient of the sum of both.

The certificate comes from `dpml.certified.smoothing`: the network is trained on inputs with Gaussian noise of the
deviation s that smoothing will add. It is post-processing of the parameters and costs no privacy; the private examples
are not looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from dpml import arguments
from dpml.certified import attacks
from dpml.certified.stobatch.training import FAR, in_range
from dpml.training import models
from dpml.training import train as train_model
from dpml.training.trace import Run
from dpml.training.worker import Augment

__all__ = ["adversarial_views", "network", "predictor", "train", "view_losses"]


def _cross_entropy(scores: Tensor, y: Tensor) -> Tensor:
    return functional.cross_entropy(scores, y, reduction="none")


def network(*, dimension: int, hidden: int, classes: int, generator: torch.Generator) -> nn.Sequential:
    """Return a network with one hidden layer whose layers act on the last dimension: vectors, or views of them.

    Raises:
        ValueError: as `dpml.training.models.mlp`.

    Source: definition.
    """
    whole = models.mlp(generator=generator, features=dimension, hidden=hidden, classes=classes)
    return nn.Sequential(*list(whole)[1:])  # without flattening


def view_losses(weights: Sequence[float]) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the loss of the trainer: of scores [B, V, K] the mean cross-entropy over the V views, by these weights.

    Scores [B, K], of examples as they come, get their own cross-entropy.

    Raises:
        ValueError: if weights is not a non-empty list of numbers >= 0 with a positive sum.

    Source: StoBatch (Phan et al., ICML 2020), equation (9), for two views.
    """
    shares = arguments.array("weights", weights, ndim=1, min_size=1, low=0.0)
    if not shares.sum() > 0.0:
        raise ValueError("weights must have a positive sum, got 0")
    fixed = (shares / shares.sum()).tolist()

    def losses(scores: Tensor, y: Tensor) -> Tensor:
        if scores.dim() == 2:
            return _cross_entropy(scores, y)
        views = [_cross_entropy(view, y) for view in scores.unbind(1)]
        total: Tensor = torch.stack([share * view for share, view in zip(fixed, views, strict=True)]).sum(0)
        return total

    return losses


def adversarial_views(model: nn.Module, *, noise: float, size: float, steps: int) -> Augment:
    r"""Return the `augment` of the trainer that makes a noisy and an attacked view of each example, [B, 2, d].

    The first is $x + z$, the second $x^{adv} + z'$, with z and z' normal of deviation `noise`. The attack is I-FGSM in
    $\ell_\infty$, of a size drawn for each example from (0, size] and the network's own label.

    Raises:
        ValueError: if noise or size is not in [0, inf), or steps is not an integer >= 1.

    Source: StoBatch (Phan et al., ICML 2020), equations (7) and (8), for each example on its own.
    """
    noise, size = arguments.real("noise", noise, 0.0), arguments.real("size", size, 0.0)
    steps = arguments.integer("steps", steps, 1)

    def augment(x: Tensor, y: Tensor) -> Tensor:
        benign = x + noise * torch.randn_like(x)
        with torch.no_grad():
            own = model(benign).argmax(1)
        if size > 0.0:
            # an attack of size 1 scaled for each example: x_adv = x + u (attacked - x)
            share = 1.0 - torch.rand(len(x), 1, dtype=x.dtype, device=x.device)
            moved = attacks.ifgsm(model, _cross_entropy, benign, own, size=size, steps=steps, low=-FAR, high=FAR)
            moved = x + share * (moved - benign)
        else:
            moved = x
        return torch.stack([benign, moved + noise * torch.randn_like(x)], 1).detach()

    return augment


def train(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    xi: float,
    noise: float,
    size: float,
    attack_steps: int = 1,
    **given: Any,
) -> Run:
    r"""Train `model` in place on the adversarial objective and return the run with its guarantee.

    `noise` is the deviation of the Gaussian noise on the inputs, `size` the largest attack, `xi` the weight of attacked
    examples; all other arguments are those of `dpml.training.train`. Neighbours: those of the sampler.

    Raises:
        ValueError: if x is not a floating tensor [N, d] of numbers in [-1, 1], xi is not in [0, inf), or as
            `adversarial_views` and `dpml.training.train`.

    Source: the head of this module; Abadi et al., "Deep learning with differential privacy", CCS 2016, Algorithm 1.
    """
    xi = arguments.real("xi", xi, 0.0)
    in_range(x, dimension=x[:1].numel() if isinstance(x, Tensor) and x.dim() == 2 else -1)
    views = adversarial_views(model, noise=noise, size=size, steps=attack_steps)
    run: Run = train_model(model, view_losses((1.0, xi)), x, y, augment=views, **given)
    return run


def predictor(model: nn.Module) -> Callable[[NDArray[Any]], NDArray[np.intp]]:
    """Return the function from inputs [n, ...] to labels [n] that `dpml.certified.smoothing.certify` asks for.

    Raises:
        ValueError: when called, if a score is not finite.

    Source: definition.
    """
    given = next(model.parameters())

    @torch.no_grad()
    def predict(x: NDArray[Any]) -> NDArray[np.intp]:
        scores = model(torch.from_numpy(x).to(given))
        if not bool(scores.isfinite().all()):  # argmax would make a sure label of them
            raise ValueError("model must return finite scores, got nan or inf")
        labels: NDArray[np.intp] = scores.argmax(1).cpu().numpy()
        return labels

    return predict
