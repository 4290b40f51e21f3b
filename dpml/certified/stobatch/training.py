r"""StoBatch's training: fixed disjoint batches, ensemble adversarial examples, two objectives, Adam.

A step (Algorithm 1, lines 5 to 12) takes two batches of what the noise policy released:

1. draw the size $\mu_t$ of the attacks uniformly from (0, 1];
2. cut the second batch in three, and attack each part with one of I-FGSM, MIM and Madry's method, in $\ell_\infty$; the
   label attacked is the network's own;
3. take the gradient of the auto-encoder's objective in $\theta_1$, and of the adversarial objective in $\theta_2$, on
   the first batch and the attacked second one;
4. update both by Adam, and keep $\theta_1$ in its ball.

Which batches a step takes is its schedule. `in_turn` is Algorithm 1: batch t and the next one. `stochastic` is the
stochastic batch training of Algorithm 4: each trainer holds two batches, some trainers are picked at random in each
step, their gradients are averaged. `dpml.certified.stobatch.distributed` runs the second on processes, to the same
numbers: a gradient depends on the network, two batches and a seed that comes with the step.

What is private is decided before the first step, by the policy (`dpml.certified.stobatch.noise`). Fixed and disjoint
batches add nothing to it: with shared noise the batches are not independent, and with noise of their own the examples
may be shuffled at will.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from dpml import arguments
from dpml.accounting.guarantee import Guarantee
from dpml.certified import attacks
from dpml.certified.stobatch import model as networks
from dpml.certified.stobatch import objective
from dpml.certified.stobatch.local import Local
from dpml.certified.stobatch.noise import AsPrinted, NoNoise, Released, Sizes

__all__ = [
    "Batch",
    "Prepared",
    "Schedule",
    "Settings",
    "Trained",
    "apply",
    "averaged",
    "descend",
    "ensemble",
    "in_turn",
]
__all__ += ["prepare", "step_gradients", "stochastic", "train"]

FAR = 1e9
"""A range that noisy examples do not leave."""

Gradients = dict[str, Tensor]
Schedule = Callable[[int, int, np.random.Generator], list[tuple[int, int]]]
"""From the step, the number of batches and a source of randomness to pairs of batches: a benign and an attacked one."""


class Batch(NamedTuple):
    """Noisy examples [m, d] and their labels [m].

    Source: StoBatch (Phan et al., ICML 2020), Algorithm 1, line 2.
    """

    x: Tensor
    y: Tensor


class Settings(NamedTuple):
    r"""What a run is made of besides data, noise and schedule; the defaults are for the digits.

    Attributes:
        m: examples in a batch.
        steps: T.
        xi: the weight of adversarial examples.
        rate_1, rate_2: Adam's learning rates of $\theta_1$ and $\theta_2$.
        radius: of the ball of each column of $\theta_1$, in $\ell_1$.
        attack_steps: steps of each iterative attack.

    Source: StoBatch (Phan et al., ICML 2020), Algorithm 1, input; the numbers are this package's.
    """

    m: int
    steps: int
    xi: float = 1.0
    rate_1: float = 1e-4
    rate_2: float = 3e-3
    radius: float = 8.0
    attack_steps: int = 5


class Prepared(NamedTuple):
    r"""A run before its first step.

    Attributes:
        network: which has got the noise that all examples share.
        noise, settings, rng: as in `train`.
        released: all that training sees of the data.
        batches: fixed and disjoint, of what was released, in random order.
        coefficients: the noise on the label coefficients, $\chi_3/m$, on the device of the network.
        optimizer: Adam.

    Source: StoBatch (Phan et al., ICML 2020), Algorithm 1, lines 1 to 3.
    """

    network: networks.Network
    noise: AsPrinted | Local | NoNoise
    settings: Settings
    rng: np.random.Generator
    released: Released
    batches: list[Batch]
    coefficients: Tensor
    optimizer: torch.optim.Optimizer


class Trained(NamedTuple):
    """What a run leaves.

    Attributes:
        network: as deployed.
        released: all that training saw of the data.
        claimed: the epsilon of the paper's Theorem 4, None where the policy is not the paper's.
        guarantee: what holds, None where nothing does.
        says: the same in a sentence.
        losses: the adversarial objective at each step, [steps].

    Source: definition.
    """

    network: networks.Network
    released: Released
    claimed: float | None
    guarantee: Guarantee | None
    says: str
    losses: Tensor


def in_turn(step: int, batches: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Return the batch of this step and the one after it, round and round: Algorithm 1.

    Source: StoBatch (Phan et al., ICML 2020), Algorithm 1, lines 5 and 8.
    """
    return [(step % batches, (step + 1) % batches)]


def stochastic(trainers: int) -> Schedule:
    """Return the schedule that picks so many local trainers at random in each step; trainer i has batches 2i, 2i + 1.

    Raises:
        ValueError: if trainers is not an integer >= 1; when used, if there are fewer, or an odd number of batches.

    Source: StoBatch (Phan et al., ICML 2020), section 3.5 (Algorithm 4).
    """
    trainers = arguments.integer("trainers", trainers, 1)

    def schedule(step: int, batches: int, rng: np.random.Generator) -> list[tuple[int, int]]:
        if batches % 2 or batches < 2 * trainers:
            raise ValueError(
                f"trainers must be at most half of an even number of batches, got {trainers} of {batches} batches"
            )
        picked = rng.choice(batches // 2, trainers, replace=False)
        return [(2 * int(i), 2 * int(i) + 1) for i in picked]

    return schedule


def ensemble(network: networks.Network, batch: Batch, *, size: float, steps: int, generator: torch.Generator) -> Tensor:
    r"""Return the examples of a batch attacked in $\ell_\infty$: a third each by I-FGSM, MIM and Madry's method.

    Sizes of the thirds differ by at most one. The label attacked is the network's own for the noisy example, so that no
    true label is used. There is no range to stay in: noisy examples have left that of the data.

    Source: StoBatch (Phan et al., ICML 2020), Algorithm 1, lines 6 to 11, and equations (7) and (8).
    """

    def scores(x: Tensor) -> Tensor:
        return network.scores(x, noise=network.latent)

    with torch.no_grad():
        own = scores(batch.x).argmax(1)
    how: dict[str, Any] = {"size": size, "steps": steps, "low": -FAR, "high": FAR}
    (x1, x2, x3), (y1, y2, y3) = torch.tensor_split(batch.x, 3), torch.tensor_split(own, 3)
    parts = [
        attacks.ifgsm(scores, objective.taylor_loss, x1, y1, **how),
        attacks.mim(scores, objective.taylor_loss, x2, y2, **how),
        attacks.pgd(scores, objective.taylor_loss, x3, y3, generator=generator, **how),
    ]
    return torch.cat(parts).detach()


def step_gradients(run: Prepared, pair: tuple[int, int], *, seed: int) -> tuple[Gradients, Tensor]:
    """Return the gradients of both objectives by parameter name, and the adversarial objective.

    `pair` holds the numbers of the benign batch and of the attacked one. `seed` decides the size of the attacks and the
    random start of Madry's.

    Source: StoBatch (Phan et al., ICML 2020), Algorithm 1, lines 5 to 12.
    """
    network = run.network
    benign, attacked = (run.batches[i] for i in pair)
    generator = torch.Generator().manual_seed(seed)
    network.observe(benign.x, noise=network.latent)
    size = 1.0 - float(torch.rand((), generator=generator, dtype=torch.float64))
    adversarial = ensemble(network, attacked, size=size, steps=run.settings.attack_steps, generator=generator)
    x = torch.cat([benign.x, adversarial])
    with torch.no_grad():
        h = network.encode(x, noise=network.latent)
    losses = objective.taylor_loss(network.last(network.top(h)), torch.cat([benign.y, attacked.y]))
    first, second = losses[: len(benign.x)], losses[len(benign.x) :]
    noise: dict[str, Any] = {"coefficients": run.coefficients, "weights": network.last.weight.T}
    total = objective.adversarial_objective(first, adversarial=second, xi=run.settings.xi, **noise)
    names = [name for name, _ in network.named_parameters() if name != "theta1"]
    found = dict(zip(names, torch.autograd.grad(total, network.theta2), strict=True))
    return {"theta1": objective.autoencoder_gradient(x, h=h), **found}, total.detach()


def apply(run: Prepared, gradients: Mapping[str, Tensor]) -> None:
    """Update the network by these gradients, and keep its encoder in its ball.

    Source: StoBatch (Phan et al., ICML 2020), Algorithm 1, line 12.
    """
    for name, parameter in run.network.named_parameters():
        parameter.grad = gradients[name]
    run.optimizer.step()
    run.optimizer.zero_grad()
    networks.keep_in_ball(run.network.theta1, radius=run.settings.radius)


def prepare(
    network: networks.Network,
    x: Tensor,
    y: Tensor,
    *,
    noise: AsPrinted | Local | NoNoise,
    settings: Settings,
    rng: np.random.Generator,
) -> Prepared:
    """Return the run with what the policy releases; the network gets the noise that all examples share.

    Raises:
        ValueError: as `train`.

    Source: StoBatch (Phan et al., ICML 2020), Algorithm 1, lines 1 to 3.
    """
    sizes = _checked(network, x, y, settings)
    if not isinstance(noise, AsPrinted | Local | NoNoise):
        raise ValueError(f"noise must be AsPrinted, Local or NoNoise, got {type(noise).__name__}")
    rng = arguments.generator("rng", rng)
    order = rng.permutation(len(x))  # decided without looking at the examples
    values = x.detach().double().flatten(1).cpu().numpy()[order]
    released = noise.release(values, y.cpu().numpy()[order], sizes=sizes, rng=rng)
    largest = float(np.abs(released.x).max())
    if not largest <= FAR:
        raise ValueError(f"noise must keep the noisy examples within {FAR:g}, got {noise!r}, which made {largest:.3g}")
    with torch.no_grad():
        network.shift.copy_(torch.from_numpy(released.shift))
        network.latent.copy_(torch.from_numpy(released.latent))
        networks.keep_in_ball(network.theta1, radius=settings.radius)
    noisy, labels = torch.from_numpy(released.x).to(network.theta1), torch.from_numpy(released.y)
    pieces = zip(*(torch.split(one.to(noisy.device), settings.m) for one in (noisy, labels)), strict=True)
    rates = [
        {"params": [network.theta1], "lr": settings.rate_1},
        {"params": network.theta2, "lr": settings.rate_2},
    ]
    batches, coefficients = [Batch(*piece) for piece in pieces], torch.from_numpy(released.coefficients).to(noisy)
    return Prepared(network, noise, settings, rng, released, batches, coefficients, torch.optim.Adam(rates))


def train(
    network: networks.Network,
    x: Tensor,
    y: Tensor,
    *,
    noise: AsPrinted | Local | NoNoise,
    settings: Settings,
    rng: np.random.Generator,
    schedule: Schedule = in_turn,
) -> Trained:
    """Train `network` in place and return it with what holds for it.

    Neighbours: replace-one. On the device of the network.

    Args:
        network: a new `dpml.certified.stobatch.model.Network`.
        x: examples [N, ...], numbers in [-1, 1].
        y: labels [N], int64, in [0, classes).
        noise: the policy: `AsPrinted`, `Local` or `NoNoise`.
        settings: batch size, steps and rates.
        rng: source of the order, the noise and the attacks.
        schedule: `in_turn`, or `stochastic` of a number of trainers.

    Raises:
        ValueError: if x is not a floating tensor with numbers in [-1, 1], y does not fit, m does not divide N into two
            batches or more, a setting is outside its range, or noisy examples leave [-1e9, 1e9].

    Source: StoBatch (Phan et al., ICML 2020), Algorithm 1; with `stochastic`, section 3.5 (Algorithm 4).
    """
    run = prepare(network, x, y, noise=noise, settings=settings, rng=rng)

    def found(step: int, pairs: Sequence[tuple[int, int]], seeds: Sequence[int]) -> list[tuple[Gradients, Tensor]]:
        return [step_gradients(run, pair, seed=seed) for pair, seed in zip(pairs, seeds, strict=True)]

    return descend(run, schedule=schedule, gradients=found)


def descend(
    run: Prepared,
    *,
    schedule: Schedule,
    gradients: Callable[[int, Sequence[tuple[int, int]], Sequence[int]], list[tuple[Gradients, Tensor]]],
) -> Trained:
    """Do all steps, and return the trained network with what holds for it; a loss is nan where no gradient came.

    ``gradients(step, pairs, seeds)`` returns what `step_gradients` does, for all these pairs of batches or for some.
    The network's `statistics` come from all noisy examples in the end.

    Source: StoBatch (Phan et al., ICML 2020), Algorithm 1, lines 4 to 12; section 3.5 (Algorithm 4).
    """
    network, settings = run.network, run.settings
    losses = torch.full((settings.steps,), torch.nan, device=network.theta1.device)
    for step in tqdm(range(settings.steps), disable=None, delay=0.5, desc="steps"):
        pairs = schedule(step, len(run.batches), run.rng)
        seeds = [int(seed) for seed in run.rng.integers(2**53, size=len(pairs))]
        found = gradients(step, pairs, seeds)
        if found:
            losses[step] = torch.stack([loss for _, loss in found]).mean()
            apply(run, averaged([some for some, _ in found]))
    network.observe(torch.from_numpy(run.released.x).to(network.theta1), noise=network.latent)
    claim = (
        run.noise.claimed(_sizes(network, settings), norm=settings.radius) if isinstance(run.noise, AsPrinted) else None
    )
    return Trained(network, run.released, claim, run.noise.guarantee(), run.noise.says, losses)


def averaged(found: list[Gradients]) -> Gradients:
    """Return the mean of the trainers' gradients.

    Source: StoBatch (Phan et al., ICML 2020), section 3.5, the update of the server.
    """
    return {name: torch.stack([gradients[name] for gradients in found]).mean(0) for name in found[0]}


def _sizes(network: networks.Network, settings: Settings) -> Sizes:
    dimension, beta = network.theta1.shape
    return Sizes(dimension, beta, network.last.in_features, network.last.out_features, settings.m)


def _checked(network: networks.Network, x: Tensor, y: Tensor, settings: Settings) -> Sizes:
    if not isinstance(network, networks.Network):
        raise ValueError(f"network must be a stobatch.model.Network, got {type(network).__name__}")
    if not isinstance(settings, Settings):
        raise ValueError(f"settings must be a Settings, such as Settings(m=350, steps=300), got {settings!r:.40}")
    sizes = _sizes(network, settings)
    in_range(x, dimension=sizes.dimension)
    classes = sizes.classes
    if not isinstance(y, Tensor) or y.dtype != torch.int64 or y.shape != x.shape[:1]:
        given = f"{tuple(y.shape)} of {y.dtype}" if isinstance(y, Tensor) else type(y).__name__
        raise ValueError(f"y must be an int64 tensor with a label for each of {len(x)} examples, got {given}")
    if not 0 <= int(y.min()) <= int(y.max()) < classes:
        raise ValueError(f"y must hold labels in [0, {classes}), got {int(y.min())} to {int(y.max())}")
    m = arguments.integer("m", settings.m, 3, len(x) // 2)
    if len(x) % m:
        good = [k for k in range(3, len(x) // 2 + 1) if len(x) % k == 0]
        near = min(good, key=lambda k: abs(k - m)) if good else None
        raise ValueError(f"m must divide the {len(x)} examples, as {near} does, got {m}")
    for name in ("steps", "attack_steps"):
        arguments.integer(name, getattr(settings, name), 1)
    for name in ("rate_1", "rate_2", "xi"):
        arguments.real(name, getattr(settings, name), 0.0)
    arguments.real("radius", settings.radius, 0.0, low_open=True)
    return sizes


def in_range(x: Tensor, *, dimension: int) -> None:
    """Refuse what is not a tensor of examples of so many numbers in [-1, 1].

    Raises:
        ValueError: as said.

    Source: StoBatch (Phan et al., ICML 2020), section 2, "x in [-1, 1]^d".
    """
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.dim() < 2 or x[:1].numel() != dimension:
        shape = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise ValueError(f"x must be a floating tensor of examples with {dimension} numbers each, got {shape}")
    if not bool(((x >= -1.0) & (x <= 1.0)).all()):
        raise ValueError(f"x must hold numbers in [-1, 1], got {float(x.min()):g} to {float(x.max()):g}")
