r"""What StoBatch is compared with: the baselines that follow from parts of this package.

| baseline | training | certificate |
|---|---|---|
| DP-SGD | `dpml.training.train` with `dp_sgd` | none |
| PixelDP | `train_on_noisy` with `sgd`: not private | `certify`: noise on the input, PixelDP's condition |
| SecureSGD-AGM | `train_on_noisy` with `dp_sgd` | `certify`, by the analytic Gaussian mechanism |

The last is PixelDP and DP-SGD together. Two more of the paper's baselines are left out:

- SecureSGD shares the noise out among the features by how vulnerable each is, by a procedure of Phan et al. (IJCAI
  2019), which is not among the sources of this course; with equal shares it is SecureSGD-AGM;
- AdLM gives each feature Laplace noise by its relevance, by a procedure of Phan et al. (ICDM 2017), which is not among
  them either; it certifies nothing.

What is certified. With noise N(0, s^2) on an input the expected scores change by at most what the Gaussian mechanism of
this deviation allows at the size of the perturbation, in $\ell_2$; `dpml.certified.pixeldp` has the theorem. An
$\ell_\infty$ perturbation of size mu has an $\ell_2$ norm of at most $\mu\sqrt d$. For the classes counted, the
largest certificate from the same noise is that of `dpml.certified.smoothing`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from dpml import arguments
from dpml.certified import pixeldp
from dpml.certified.stobatch.training import in_range
from dpml.training import train as train_model
from dpml.training.trace import Run
from dpml.training.worker import Augment

__all__ = ["Certified", "certify", "noisy", "train_on_noisy"]


class Certified(NamedTuple):
    """Labels of N inputs and the l2 size of perturbation for which each is certified, 0 for none.

    Source: `certify`.
    """

    labels: NDArray[np.intp]
    sizes: NDArray[np.float64]


def noisy(noise: float) -> Augment:
    """Return the `augment` of the trainer that adds fresh Gaussian noise of this deviation to each example.

    Raises:
        ValueError: if noise is not in [0, inf).

    Source: Lecuyer et al., "Certified robustness to adversarial examples with differential privacy", IEEE S&P 2019,
    section III-B: training with the noise layer.
    """
    noise = arguments.real("noise", noise, 0.0)
    return lambda x, y: x + noise * torch.randn_like(x)


def train_on_noisy(
    model: nn.Module, x: Tensor, y: Tensor, *, noise: float, loss_fn: Callable[[Any, Tensor], Tensor], **more: Any
) -> Run:
    """Train `model` in place on inputs with Gaussian noise, and return the run with its guarantee.

    The other arguments are those of `dpml.training.train`. With `dp_sgd` this is the training of SecureSGD-AGM, with
    `sgd` that of PixelDP, which promises nothing.

    Raises:
        ValueError: if x is not a floating tensor [N, ...] of numbers in [-1, 1], noise is not in [0, inf), or as
            `dpml.training.train`.

    Source: StoBatch (Phan et al., ICML 2020), section 4, "Baseline Approaches".
    """
    in_range(x, dimension=x[:1].numel() if isinstance(x, Tensor) else -1)
    run: Run = train_model(model, loss_fn, x, y, augment=noisy(noise), **more)
    return run


@torch.no_grad()
def certify(
    model: nn.Module, x: Tensor, *, noise: float, draws: int, eta: float, delta: float, rng: np.random.Generator
) -> Certified:
    r"""Return labels and certified $\ell_2$ sizes by PixelDP, from the mean probabilities of `draws` noisy inputs.

    `noise` is the deviation that is added, `delta` PixelDP's $\delta_r$. Limits are Hoeffding's; each certificate alone
    is wrong with probability at most eta.

    Raises:
        ValueError: if x is not a floating tensor of numbers in [-1, 1], noise not in (0, inf), draws not an integer
            >= 1 or too few for any certificate (the message says how many are needed), eta or delta not in (0, 1), or
            rng no Generator.

    Source: Lecuyer et al. (IEEE S&P 2019), section III-C, with the deviation of Balle and Wang (ICML 2018), Theorem 8.
    """
    in_range(x, dimension=x[:1].numel() if isinstance(x, Tensor) else -1)
    noise = arguments.real("noise", noise, 0.0, low_open=True)
    draws, rng = arguments.integer("draws", draws, 1), arguments.generator("rng", rng)
    delta = arguments.real("delta", delta, 0.0, 1.0, low_open=True, high_open=True)
    given = next(model.parameters())
    inputs, classes = x.to(given), int(model(x[:1].to(given)).shape[1])
    pixeldp.hoeffding_limits(np.zeros(classes), draws=draws, eta=eta)  # refuses too few before anything is drawn
    generator = torch.Generator(given.device).manual_seed(int(rng.integers(2**62)))
    total = torch.zeros(len(x), classes, dtype=torch.float64, device=given.device)
    for _ in range(draws):
        drawn = torch.empty_like(inputs).normal_(generator=generator)
        total += functional.softmax(model(inputs + noise * drawn), dim=1)
    means = (total / draws).clamp(0.0, 1.0).cpu().numpy()
    first = pixeldp.leader(pixeldp.hoeffding_limits(means, draws=draws, eta=eta))
    sizes = pixeldp.certified_size_gaussian(first.lower, upper=first.upper, sigma=noise, delta=delta)
    return Certified(means.argmax(1), sizes)
