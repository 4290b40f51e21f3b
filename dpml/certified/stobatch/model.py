r"""The network of StoBatch: one linear layer $\theta_1$ trained as an auto-encoder, and a classifier g on top of it.

.. math::

    h = \theta_1^T x, \qquad \bar h = c\bigl(h + \tfrac{2}{m}\chi_2\bigr), \qquad
    h_\pi = \mathrm{clip}(A \bar h + a), \qquad z = W_\pi^T h_\pi .

$\theta_1$ has shape $[d, \beta]$; $h_\pi$ lies in $[-1, 1]^{|h_\pi|}$; z are the scores of the K classes; clip cuts off
at -1 and 1. How the hidden layer is bounded (c above) is a function, and there are three:

- `standardised`: over the examples of a batch, then clipped. So do the authors in their program; it removes whatever is
  the same for all examples, noise included, which is why their accuracies do not suffer from the noise;
- `clipped`: h is clipped to $[-1, 1]$ before the noise is added, as section 3.1 of the paper says;
- `linear`: not at all. The attack on a gradient (`reconstruction.rank_test`) is exact for it.

The columns of $\theta_1$ are kept in an $\ell_1$ ball, since the auto-encoder's objective has no minimiser
(`dpml.certified.stobatch.objective`). So the paper's $\lVert\theta_1\rVert_{1,1}$ is at most a number fixed in advance.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from dpml import arguments
from dpml.training.sampling import cpu_generator

__all__ = ["Bounding", "Network", "clipped", "keep_in_ball", "linear", "standardised"]

Bounding = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From h [B, beta], the noise on it and the network's `statistics` [2, beta] to the noisy hidden layer [B, beta]."""


def clipped(h: Tensor, noise: Tensor, statistics: Tensor) -> Tensor:
    """Return h clipped to [-1, 1], plus the noise.

    Source: StoBatch (Phan et al., ICML 2020), section 3.1, "h_i is bounded in [-1, 1]", and equation (6).
    """
    return h.clamp(-1.0, 1.0) + noise


def linear(h: Tensor, noise: Tensor, statistics: Tensor) -> Tensor:
    """Return h plus the noise, without a bound.

    Source: StoBatch (Phan et al., ICML 2020), equation (6).
    """
    return h + noise


def standardised(h: Tensor, noise: Tensor, statistics: Tensor) -> Tensor:
    """Return h plus the noise, standardised by the mean and the deviation of a batch, clipped to [-1, 1].

    Source: the program of Phan et al. (2020), in which batch normalisation follows the noise.
    """
    return ((h + noise - statistics[0]) / statistics[1]).clamp(-1.0, 1.0)


class Network(nn.Module):
    """The network; called with inputs [B, ...] it returns scores [B, classes], as deployed.

    Deployed: the input gets `shift` and the hidden layer `latent`, what all training examples had in common; both are 0
    where there was no such noise. So who has the network of the printed version has its noise. In training, `scores` is
    called with noisy examples.

    Attributes:
        theta1: the encoder, [d, beta]; `theta2` are the parameters of all other layers.
        statistics: mean and deviation of the noisy hidden layer, [2, beta], as `observe` saw them last.

    Raises:
        ValueError: if a size is not an integer >= 1 (classes >= 2), bounding is no function or generator no
            torch.Generator on the CPU.

    Source: StoBatch (Phan et al., ICML 2020), section 3 and figure 1(a).
    """

    theta1: nn.Parameter
    shift: Tensor
    latent: Tensor
    statistics: Tensor

    def __init__(
        self,
        *,
        dimension: int,
        beta: int,
        hidden: int,
        classes: int,
        generator: torch.Generator,
        bounding: Bounding = standardised,
    ) -> None:
        super().__init__()
        dimension, beta = arguments.integer("dimension", dimension, 1), arguments.integer("beta", beta, 1)
        hidden, classes = arguments.integer("hidden", hidden, 1), arguments.integer("classes", classes, 2)
        arguments.function("bounding", bounding)
        cpu_generator(generator)
        self.bounding = bounding
        self.theta1 = nn.Parameter(torch.empty(dimension, beta))
        self.middle, self.last = nn.Linear(beta, hidden), nn.Linear(hidden, classes, bias=False)
        with torch.no_grad():
            for values, inputs in ((self.theta1, dimension), (self.middle.weight, beta), (self.last.weight, hidden)):
                values.uniform_(-(inputs**-0.5), inputs**-0.5, generator=generator)
            self.middle.bias.zero_()
        self.register_buffer("shift", torch.zeros(dimension))
        self.register_buffer("latent", torch.zeros(beta))
        self.register_buffer("statistics", torch.stack([torch.zeros(beta), torch.ones(beta)]))

    @property
    def theta2(self) -> list[nn.Parameter]:
        """The parameters of the classifier on top of the encoder."""
        return [*self.middle.parameters(), *self.last.parameters()]

    def encode(self, x: Tensor, *, noise: Tensor) -> Tensor:
        """Return the noisy hidden layer of inputs [B, ...].

        Source: StoBatch (Phan et al., ICML 2020), equation (6).
        """
        return self.bounding(x.flatten(1) @ self.theta1, noise, self.statistics)

    def top(self, h: Tensor) -> Tensor:
        """Return the last hidden layer, in [-1, 1], of noisy hidden layers [B, beta].

        Source: StoBatch (Phan et al., ICML 2020), section 3.2.
        """
        found: Tensor = self.middle(h).clamp(-1.0, 1.0)
        return found

    def scores(self, x: Tensor, *, noise: Tensor) -> Tensor:
        """Return the scores [B, classes] of noisy inputs, with this noise on the hidden layer.

        Source: StoBatch (Phan et al., ICML 2020), section 3.
        """
        found: Tensor = self.last(self.top(self.encode(x, noise=noise)))
        return found

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores [B, classes] of inputs as they come."""
        return self.scores(x.flatten(1) + self.shift, noise=self.latent)

    @torch.no_grad()
    def observe(self, x: Tensor, *, noise: Tensor) -> None:
        """Take mean and deviation of the noisy hidden layer from these noisy examples.

        Source: the program of Phan et al. (2020), batch normalisation.
        """
        h = x.flatten(1) @ self.theta1 + noise
        self.statistics.copy_(torch.stack([h.mean(0), h.std(0, correction=0).clamp(min=1e-6)]))


@torch.no_grad()
def keep_in_ball(theta: Tensor, *, radius: float) -> None:
    r"""Divide each column of `theta` by what its $\ell_1$ norm exceeds `radius` by, in place.

    Raises:
        ValueError: if radius is not in (0, inf).

    Source: own construction; StoBatch (Phan et al., ICML 2020), section 3.1, for the norm.
    """
    radius = arguments.real("radius", radius, 0.0, low_open=True)
    theta.div_((theta.abs().sum(0, keepdim=True) / radius).clamp(min=1.0))
