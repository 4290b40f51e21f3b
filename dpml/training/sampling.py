r"""How a batch is drawn, and what the accountant may say about it.

| sampler | batch | expected size | neighbours of its guarantee |
|---|---|---|---|
| `Poisson` | each of the n examples by its own coin of probability q | q n | add/remove |
| `FixedSize` | m of the n examples, without replacement | m | replace-one |
| `FullBatch` | all n examples | n | add/remove |

Each step draws afresh, from a generator that nobody else may know: amplification by subsampling rests on the secrecy of
the sample. The three differ in what may be claimed. Neither of the first two numbers may be quoted for the other
setting, and the usual third way, a shuffled pass over the data in disjoint batches, has none of them: its batches are
not independent, and the sum over a shuffled batch is *not* as private as the sum over a Poisson sample of the same
size. A ``DataLoader`` is therefore refused.

What is public. The size of a Poisson sample is secret: as a divisor it would change the sensitivity. Nor is n public
under add/remove. The noise has deviation s / B after the division by B, in each of p coordinates; with B = q n of the
data's own n the noise itself tells n from n - 1, from about p > n^2 on in a single step, whatever sigma is. So q and B
are numbers that are fixed without the data: give B as `expected_batch`, here, where every mechanism finds it (trimming
limits F by it). Without it B is computed from the records that come, and a guarantee of training says "with n taken as
public". Under replace-one n is public by definition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, get_args

import torch

from dpml import arguments
from dpml.accounting import pld
from dpml.accounting.guarantee import Guarantee
from dpml.accounting.pld import fixed_size, losses

__all__ = ["FixedSize", "FullBatch", "Poisson", "Sampler", "cpu_generator", "sampler"]


@dataclass(frozen=True)
class Poisson:
    """Each example is in the batch with probability `q`, independently of all others; the batch may be empty.

    `expected_batch` is the number that noisy sums are divided by, fixed without the data; None for q n, with n taken as
    public. A q that is computed from the number of records, as 256/n, takes n as public as well.

    Raises:
        ValueError: if q is not in (0, 1] or expected_batch not in (0, inf).

    Source: Abadi et al., "Deep learning with differential privacy", CCS 2016, section 3.1 (their lots); Mironov,
    Talwar and Zhang, "Rényi differential privacy of the sampled Gaussian mechanism", arXiv:1908.10530 (2019).
    """

    _: KW_ONLY
    q: float
    expected_batch: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "q", arguments.real("q", self.q, 0.0, 1.0, low_open=True))
        _keep_expected(self)

    def expected(self, n: int) -> float:
        """Return `expected_batch`, or q n.

        Raises:
            ValueError: if n is not an integer >= 1.

        Source: the mean of the binomial distribution.
        """
        n = arguments.integer("n", n, 1)
        return self.q * n if self.expected_batch is None else self.expected_batch

    def draw(self, n: int, *, generator: torch.Generator) -> torch.Tensor:
        """Return the indices of a fresh batch, increasing, as an int64 tensor on the CPU; possibly empty.

        The coins are double precision: single precision would move q by up to 6e-8, 1e-5 of a typical q.

        Raises:
            ValueError: if n is not an integer >= 1 or generator not a ``torch.Generator`` on the CPU.

        Source: definition.
        """
        n, generator = arguments.integer("n", n, 1), cpu_generator(generator)
        return (torch.rand(n, dtype=torch.float64, generator=generator) < self.q).nonzero().squeeze(1)

    def guarantees(self, steps: Sequence[int], *, n: int, sigma: float, delta: float) -> list[Guarantee]:
        """Return the guarantee after each number of steps in the increasing sequence `steps`; add/remove neighbours.

        Raises:
            ValueError: as `dpml.accounting.pld.epsilon`.

        Source: `dpml.accounting.pld`.
        """
        arguments.integer("n", n, 1)
        return [pld.epsilon(q=self.q, sigma=sigma, steps=count, delta=delta) for count in steps]

    def loss(self, *, n: int, sigma: float) -> losses.Loss:
        """Return the privacy loss of one step, to be composed with others; add/remove neighbours.

        Raises:
            ValueError: if n is not an integer >= 1, or as `dpml.accounting.pld.losses.gaussian`.

        Source: `dpml.accounting.pld.losses`.
        """
        arguments.integer("n", n, 1)
        return self.of(losses.gaussian(sigma=sigma))

    def of(self, loss: losses.Loss) -> losses.Loss:
        """Return the loss of a mechanism with this loss when it runs on a sample.

        Raises:
            ValueError: as `dpml.accounting.pld.losses.poisson`.

        Source: `dpml.accounting.pld.losses`.
        """
        return losses.poisson(loss, q=self.q) if self.q < 1.0 else replace(loss, adjacency="add/remove")

    def noise_multiplier(self, *, n: int, steps: int, epsilon: float, delta: float) -> float:
        """Return a sigma for which `steps` steps are (epsilon, delta)-private; add/remove neighbours.

        Raises:
            ValueError: as `dpml.accounting.pld.noise_multiplier`.

        Source: `dpml.accounting.pld`.
        """
        arguments.integer("n", n, 1)
        return pld.noise_multiplier(q=self.q, steps=steps, epsilon=epsilon, delta=delta)


@dataclass(frozen=True)
class FixedSize:
    """A batch is a uniformly random set of `m` examples.

    Raises:
        ValueError: if m is not an integer >= 1.

    Source: the lecture, slide "SGD vs GD".
    """

    _: KW_ONLY
    m: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "m", arguments.integer("m", self.m, 1))

    def expected(self, n: int) -> float:
        """Return m, which must not exceed n.

        Raises:
            ValueError: if n is not an integer >= m.

        Source: definition.
        """
        arguments.integer("n", n, self.m)
        return float(self.m)

    def draw(self, n: int, *, generator: torch.Generator) -> torch.Tensor:
        """Return the indices of a fresh batch of m examples, increasing, as an int64 tensor on the CPU.

        Raises:
            ValueError: if n is not an integer >= m or generator not a ``torch.Generator`` on the CPU.

        Source: definition: the places of the m largest of n independent uniform numbers.
        """
        n, generator = arguments.integer("n", n, self.m), cpu_generator(generator)
        lots = torch.rand(n, dtype=torch.float64, generator=generator)
        return lots.topk(self.m, sorted=False).indices.sort().values

    def guarantees(self, steps: Sequence[int], *, n: int, sigma: float, delta: float) -> list[Guarantee]:
        """Return the guarantee after each number of steps in the increasing sequence `steps`; replace-one neighbours.

        `sigma` is over the clipping norm; that a replaced record moves the sum by twice that norm is counted.

        Raises:
            ValueError: as `dpml.accounting.pld.fixed_size.epsilon_bounds`.

        Source: `dpml.accounting.pld`.
        """
        q = self.expected(n) / n
        return [fixed_size.epsilon_bounds(q=q, sigma=sigma, steps=count, delta=delta).guarantee() for count in steps]

    def loss(self, *, n: int, sigma: float) -> losses.Loss:
        """Return the privacy loss of one step, to be composed with others; replace-one neighbours.

        Raises:
            ValueError: if n is not an integer >= m, or as `dpml.accounting.pld.losses.without_replacement`.

        Source: `dpml.accounting.pld.losses`; a replaced record moves the sum by twice the clipping norm.
        """
        base, q = losses.gaussian(sigma=sigma / 2.0), self.expected(n) / n
        return losses.without_replacement(base, q=q) if q < 1.0 else replace(base, adjacency="replace-one")

    def noise_multiplier(self, *, n: int, steps: int, epsilon: float, delta: float) -> float:
        """Return a sigma for which `steps` steps are (epsilon, delta)-private; replace-one neighbours.

        Raises:
            ValueError: if n is not an integer >= m, steps not one >= 1, delta not in (0, 1); otherwise as
                `dpml.accounting.pld.fixed_size.noise_multiplier`.

        Source: `dpml.accounting.pld.fixed_size.noise_multiplier`.
        """
        q = self.expected(n) / n
        steps = arguments.integer("steps", steps, 1)
        arguments.real("delta", delta, 0.0, 1.0, low_open=True, high_open=True)
        return fixed_size.noise_multiplier(q=q, steps=steps, epsilon=epsilon, delta=delta)


@dataclass(frozen=True)
class FullBatch:
    """Every step uses all examples: gradient descent, without sampling and without its amplification.

    `expected_batch` is the number that noisy sums are divided by, fixed without the data; None for n, which is then
    taken as public.

    Raises:
        ValueError: if expected_batch is not in (0, inf).

    Source: the lecture, slide "DP-GD".
    """

    _: KW_ONLY
    expected_batch: float | None = None

    def __post_init__(self) -> None:
        _keep_expected(self)

    def expected(self, n: int) -> float:
        """Return `expected_batch`, or n.

        Raises:
            ValueError: if n is not an integer >= 1.

        Source: definition.
        """
        n = arguments.integer("n", n, 1)
        return float(n) if self.expected_batch is None else self.expected_batch

    def draw(self, n: int, *, generator: torch.Generator) -> torch.Tensor:
        """Return all indices. The generator is not used.

        Raises:
            ValueError: if n is not an integer >= 1 or generator not a ``torch.Generator`` on the CPU.

        Source: definition.
        """
        cpu_generator(generator)
        return torch.arange(arguments.integer("n", n, 1))

    def guarantees(self, steps: Sequence[int], *, n: int, sigma: float, delta: float) -> list[Guarantee]:
        """Return the exact guarantee after each number of steps in the sequence `steps`; add/remove neighbours.

        Raises:
            ValueError: as `dpml.accounting.pld.epsilon`.

        Source: `dpml.accounting.pld.epsilon` at q = 1: one Gaussian mechanism with sigma / sqrt(steps).
        """
        every = Poisson(q=1.0).guarantees(steps, n=n, sigma=sigma, delta=delta)
        return [replace(guarantee, sampling="none") for guarantee in every]

    def loss(self, *, n: int, sigma: float) -> losses.Loss:
        """Return the privacy loss of one step, to be composed with others; add/remove neighbours.

        Raises:
            ValueError: if n is not an integer >= 1, or as `dpml.accounting.pld.losses.gaussian`.

        Source: `dpml.accounting.pld.losses`.
        """
        return Poisson(q=1.0).loss(n=n, sigma=sigma)

    def noise_multiplier(self, *, n: int, steps: int, epsilon: float, delta: float) -> float:
        """Return a sigma for which `steps` steps are (epsilon, delta)-private; add/remove neighbours.

        Raises:
            ValueError: as `dpml.accounting.pld.noise_multiplier`.

        Source: `dpml.accounting.pld.noise_multiplier` at q = 1.
        """
        return Poisson(q=1.0).noise_multiplier(n=n, steps=steps, epsilon=epsilon, delta=delta)


Sampler = Poisson | FixedSize | FullBatch
"""What the training functions accept as `sampling`."""


def large_batch(sampling: Sampler, n: int) -> torch.Tensor:
    """Return the indices of a batch that is as large as any to come, of a Poisson sample up to 1 in 10^8, for a test.

    Raises:
        ValueError: as `draw` of the sampler.

    Source: Bernstein's inequality.
    """
    if not isinstance(sampling, Poisson):
        return sampling.draw(n, generator=torch.Generator())
    mean = sampling.q * n
    return torch.randperm(n, generator=torch.Generator())[: int(mean + 6.0 * mean**0.5 + 13.0)]


def _keep_expected(sampling: Poisson | FullBatch) -> None:
    if sampling.expected_batch is not None:
        number = arguments.real("expected_batch", sampling.expected_batch, 0.0, low_open=True)
        object.__setattr__(sampling, "expected_batch", number)


def sampler(name: str, value: Any) -> Sampler:
    """Return `value` if it is one of the samplers of this module.

    Raises:
        ValueError: for anything else; for a DataLoader, with the reason.

    Source: Balle, Barthe and Gaboardi, "Privacy amplification by subsampling", NeurIPS 2018, for what is amplified;
    Chua et al., "How private are DP-SGD implementations?", ICML 2024, for shuffled batches.
    """
    if isinstance(value, Sampler) and type(value) in get_args(Sampler):  # a derived class may draw in another way
        return value
    allowed = f"{name} must be Poisson(q=...), FixedSize(m=...) or FullBatch()"
    if hasattr(value, "batch_sampler") or hasattr(value, "__iter__") or hasattr(value, "__getitem__"):
        raise ValueError(
            f"{allowed}, got {type(value).__name__}: the batches of a shuffled pass over the data are disjoint and not "
            "independent, so amplification by subsampling does not hold for them; pass the tensors x and y, and the "
            "batches are drawn afresh in every step"
        )
    raise ValueError(f"{allowed}, got {type(value).__name__}")


def cpu_generator(generator: Any) -> torch.Generator:
    """Return `generator` if it is a ``torch.Generator`` on the CPU.

    The sample is drawn on the CPU for every device, so that its size is known without waiting for the device.

    Raises:
        ValueError: for anything else, a seed included: hidden randomness is not repeatable. PyTorch's global generator
            too: a run puts its state back at the end, so that the next one would draw the same noise.

    Source: definition.
    """
    everyones = generator is torch.default_generator
    if everyones or not isinstance(generator, torch.Generator) or generator.device.type != "cpu":
        allowed = "a torch.Generator on the CPU of one's own, for example torch.Generator().manual_seed(0)"
        arguments.refuse("generator", allowed, generator)
    return generator
