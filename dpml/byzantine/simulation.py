r"""Training by n workers, of which f may send anything, in one process: each honest one releases noisy gradients.

In a step every honest worker i draws a batch of its data and releases the noisy mean of the gradients, as a mechanism
of `dpml.training` says, and adds it to its momentum,

.. math::

    m_i \leftarrow \mu\, m_i + (1 - \nu)\, \frac{1}{B}\Bigl(\sum_{j \in S_i} w_j\, g_j + N(0, s^2 I)\Bigr),

with $m_i = 0$ before the first step. It submits $m_i$. The Byzantine workers know all honest vectors, and each submits
what the attack makes of them. The server aggregates the n vectors by a rule and hands the result to its optimizer:

.. math::

    \theta \leftarrow \text{optimizer}\bigl(\theta,\ \text{rule}(m_1, \dots, m_{n-f}, a, \dots, a)\bigr), \qquad
    a = \text{attack}(m_1, \dots, m_{n-f}).

The momentum $\mu$ is undamped at $\nu = 0$: after many steps the vectors are about $1/(1 - \mu)$ times as long as a
gradient. With $\nu = \mu$ it is damped, an average of the gradients so far. Momentum, rule and optimizer see nothing of
the data but noisy means: they are post-processing, and cost no privacy.

Privacy. Each worker alone has the guarantee of its mechanism after T steps. The server sees more. Where all honest
workers draw from the *same* data, each step is n - f releases about the same record, with independent samples and
independent noise, so that what the server sees is a composition of (n - f) T releases; where they hold disjoint parts,
a record is behind one worker's releases only, and both guarantees are the same. The run says both. Neighbours are those
of the sampler. A Byzantine worker that holds the data needs no attack to publish them: what is guaranteed is about the
honest ones.

The loop is that of `dpml.training.train`: its checks, trace, progress bar, interruption and checkpoints.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dpml import arguments
from dpml.accounting.guarantee import Guarantee
from dpml.training import loop
from dpml.training.mechanism import Mechanism
from dpml.training.sampling import FixedSize, Sampler
from dpml.training.trace import Trace
from dpml.training.worker import Source, Step, Worker, all_finite, generators

__all__ = ["Attack", "Rule", "SimulatedRun", "simulate"]

Attack = Callable[[Tensor], Tensor]
"""What a Byzantine worker submits, [d], given the vectors of all honest ones, [n - f, d]: see `attacks`."""

Rule = Callable[..., Tensor]
"""What the server makes of the vectors [n, d] and ``n_byzantine=``, [d]: see `aggregation`."""


class SimulatedRun(NamedTuple):
    """The trained model, its trace, what holds for all that the server saw, the steps, and what holds for one worker.

    The guarantees of the trace are those of the server, too: nothing that leaves it can be less private.

    Source: `dpml.training.trace.Run`, with two guarantees.
    """

    model: torch.nn.Module
    trace: Trace
    guarantee: Guarantee
    steps: int
    worker_guarantee: Guarantee


def simulate(
    model: torch.nn.Module,
    loss_fn: Callable[[Any, Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    *,
    mechanism: Mechanism,
    sampling: Sampler,
    n: int,
    n_byzantine: int,
    rule: Rule,
    attack: Attack | None,
    steps: int,
    optimizer: torch.optim.Optimizer,
    delta: float,
    generator: torch.Generator,
    momentum: float = 0.0,
    damping: float = 0.0,
    parts: Sequence[Tensor] | None = None,
    micro_batch: int | None = None,
    trace_every: int | None = None,
    test: tuple[Tensor, Tensor] | None = None,
    checkpoint: str | Path | None = None,
) -> SimulatedRun:
    """Train `model` in place with n workers and a server, and return it with its trace and its guarantees.

    Arguments that are not listed are those of `dpml.training.train`. Neighbours: add/remove for `Poisson` and
    `FullBatch`, replace-one for `FixedSize`. The trace's losses, norms and fractions are over the examples of all
    honest workers.

    Args:
        mechanism: what an honest worker releases in a step.
        sampling: how an honest worker draws its batch; its expected size is what the worker divides by.
        n: number of workers, >= 1; the last `n_byzantine` of them are Byzantine.
        n_byzantine: how many submit what the attack says, the paper's f, in [0, n/2).
        rule: what the server makes of the vectors, see `dpml.byzantine.aggregation`; tried once before the first step.
        attack: what the Byzantine workers submit, see `dpml.byzantine.attacks`; may be None without such workers.
        optimizer: the server's, of the aggregated vector.
        generator: source of all samples and noise; each worker has a seed of its own, drawn from it.
        momentum: of each worker, in [0, 1).
        damping: the part of each new gradient that is left out, in [0, 1): 0 for the undamped momentum, equal to
            `momentum` for the damped one.
        parts: for each honest worker the numbers of the examples that it holds; None if each holds all.

    Raises:
        ValueError: for bad input, before any step: as `dpml.training.train`, n_byzantine at n/2 or more, a rule that
            refuses so many workers, vectors of a wrong shape.
        Interrupted: after Ctrl+C, between two steps; its ``run`` holds what was done.
        Diverged: if an honest gradient, the aggregated vector or a parameter is not finite.

    Source: the Byzantine paper (Guerraoui, Gupta, Pinot, Rouault and Stephan, "Differential privacy and Byzantine
    resilience in SGD: do they add up?", PODC 2021), section 2, with the clipping and the noise of DP-SGD.
    """
    setting = Simulation(**locals())
    return setting.run(setting.team)


@dataclass(eq=False)
class Simulation:
    """The arguments of `simulate`, checked as far as the trainer does not check them.

    Source: `simulate`.
    """

    model: torch.nn.Module
    loss_fn: Callable[[Any, Tensor], Tensor]
    x: Tensor
    y: Tensor
    mechanism: Mechanism
    sampling: Sampler
    n: int
    n_byzantine: int
    rule: Rule
    attack: Attack | None
    steps: int
    optimizer: torch.optim.Optimizer
    delta: float
    generator: torch.Generator
    momentum: float = 0.0
    damping: float = 0.0
    parts: Sequence[Tensor] | None = None
    micro_batch: int | None = None
    trace_every: int | None = None
    test: tuple[Tensor, Tensor] | None = None
    checkpoint: str | Path | None = None

    def __post_init__(self) -> None:
        self.n = arguments.integer("n", self.n, 1)
        self.n_byzantine = arguments.integer("n_byzantine", self.n_byzantine, 0, (self.n - 1) // 2)
        self.n_honest = self.n - self.n_byzantine
        self.momentum = arguments.real("momentum", self.momentum, 0.0, 1.0, high_open=True)
        self.damping = arguments.real("damping", self.damping, 0.0, 1.0, high_open=True)
        arguments.function("rule", self.rule)
        if self.n_byzantine > 0 or self.attack is not None:
            arguments.function("attack", self.attack)
        records = len(self.x) if isinstance(self.x, Tensor) and self.x.dim() else 0
        self.least, self.releases = records, self.n_honest
        if self.parts is not None:
            self.parts = _parts(self.parts, self.n_honest, records)
            self.least, self.releases = min(map(len, self.parts)), int(torch.bincount(torch.cat(self.parts)).max())
            if isinstance(self.sampling, FixedSize) and self.sampling.m > self.least:
                raise ValueError(
                    f"sampling must draw at most the {self.least} examples of the smallest part, got {self.sampling}"
                )

    def honest(self, numbers: Sequence[int]) -> Honest:
        """Return these honest workers, each with its part of the data and its own generator."""
        own, workers = generators(self.generator, n=self.n), []
        for i in numbers:
            x, y = (self.x, self.y) if self.parts is None else (self.x[self.parts[i]], self.y[self.parts[i]])
            given = self.model, self.loss_fn, x, y, self.mechanism, self.sampling, own[i], self.micro_batch
            workers.append(Worker(*given))
        return Honest(workers, self.momentum, self.damping)

    def team(self) -> Team:
        """Return all workers and the server, in this process."""
        return Team(self.honest(range(self.n_honest)), self.n_byzantine, self.rule, self.attack)

    def guarantees(self, counts: Sequence[int]) -> list[Guarantee]:
        """Return what holds for all that the server saw, after each of these numbers of steps."""
        releases = [count * self.releases for count in counts]
        return self.mechanism.guarantees(releases, sampling=self.sampling, n=self.least, delta=self.delta)

    def run(self, source: Callable[[], Source]) -> SimulatedRun:
        """Train by the loop of the trainer with the vectors of this source."""
        run = loop.run(
            self.model,
            self.loss_fn,
            self.x,
            self.y,
            source=source,
            account=self.guarantees,
            settings={
                "n": self.n,
                "n_byzantine": self.n_byzantine,
                "rule": _name(self.rule),
                "attack": _name(self.attack),
                "momentum": self.momentum,
                "damping": self.damping,
                "parts": None if self.parts is None else str([part.tolist() for part in self.parts]),
            },
            mechanism=self.mechanism,
            sampling=self.sampling,
            steps=self.steps,
            optimizer=self.optimizer,
            delta=self.delta,
            generator=self.generator,
            micro_batch=self.micro_batch,
            trace_every=self.trace_every,
            test=self.test,
            checkpoint=self.checkpoint,
        )
        worker = self.mechanism.guarantee(sampling=self.sampling, n=self.least, steps=run.steps, delta=self.delta)
        return SimulatedRun(*run, worker_guarantee=worker)


@dataclass(eq=False)
class Honest:
    """Honest workers with their momentum: in a step each draws, releases, and adds to what it submits.

    Source: the Byzantine paper, section 2; El-Mhamdi, Guerraoui and Rouault, "Distributed momentum for
    Byzantine-resilient stochastic gradient descent", ICLR 2021, for momentum at the workers.
    """

    workers: list[Worker]
    momentum: float
    damping: float

    def __post_init__(self) -> None:
        first = self.workers[0]
        some = next(iter(first.parameters.values()))
        shape = len(self.workers), sum(p.numel() for p in first.parameters.values())
        kind = torch.promote_types(some.dtype, torch.float32)
        self.vectors = torch.zeros(shape, dtype=kind, device=some.device)

    def step(self) -> Step:
        """Return the submitted vectors, one a row, in place of a gradient, and what was seen of all batches."""
        found = [worker.step() for worker in self.workers]
        gradients = torch.stack([one.gradient for one in found])
        self.vectors = self.momentum * self.vectors + (1.0 - self.damping) * gradients
        log = {name: sum(one.log[name] for one in found) for name in found[0].log}
        means = {name: value / len(found) for name, value in log.items() if name not in ("loss", "clipped")}
        norms, good = torch.cat([one.norms for one in found]), torch.stack([one.good for one in found]).all()
        return Step(self.vectors.clone(), sum(one.examples for one in found), norms, {**log, **means}, good)

    def state(self) -> dict[str, Any]:
        """Of each worker its state, and the momenta."""
        return {"workers": [worker.state() for worker in self.workers], "vectors": self.vectors}

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to what `state` returned."""
        for worker, own in zip(self.workers, state["workers"], strict=True):
            worker.restore(own)
        self.vectors = state["vectors"].to(self.vectors.device)

    def test(self, step: int) -> None:
        """Run the self-test of the per-example gradients again, on the last batch of the first worker."""
        self.workers[0].test(step)


@dataclass(eq=False)
class Team:
    """The honest workers, the Byzantine ones, and the server that aggregates: a source of vectors for the optimizer.

    Source: the Byzantine paper, section 2.
    """

    honest: Honest
    n_byzantine: int
    rule: Rule
    attack: Attack | None

    def __post_init__(self) -> None:
        """Let the rule and the attack refuse what they do not take, on vectors that are no gradients."""
        self.aggregated(wave(self.honest.vectors))

    def step(self) -> Step:
        """One vector from each worker, aggregated."""
        found = self.honest.step()
        gradient = self.aggregated(found.gradient)
        return found._replace(gradient=gradient, good=found.good & all_finite(gradient))

    def aggregated(self, honest: Tensor) -> Tensor:
        """Return what the rule makes of the honest vectors and of what the attack makes of them.

        Raises:
            ValueError: if one of them returns something else than one vector of the right length.
        """
        lies: list[Tensor] = []
        if self.attack is not None and self.n_byzantine > 0:
            lies = [one_vector("attack", self.attack(honest.clone()), like=honest)] * self.n_byzantine
        vectors = torch.stack([*honest, *lies])
        return one_vector("rule", self.rule(vectors, n_byzantine=self.n_byzantine), like=honest)

    def state(self) -> dict[str, Any]:
        """That of the honest workers."""
        return self.honest.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to what `state` returned."""
        self.honest.restore(state)

    def test(self, step: int) -> None:
        """Run the self-test of the per-example gradients again."""
        self.honest.test(step)


def wave(like: Tensor) -> Tensor:
    """Return numbers of this shape that differ from each other, to try something out.

    Source: definition.
    """
    return torch.cos(torch.arange(like.numel(), dtype=like.dtype, device=like.device)).view_as(like)


def one_vector(name: str, value: Any, *, like: Tensor) -> Tensor:
    """Return `value` if it is a vector of the length of a row of `like`, and of its kind.

    Raises:
        ValueError: otherwise.

    Source: definition.
    """
    if not isinstance(value, Tensor) or value.shape != like.shape[1:] or value.dtype != like.dtype:
        came = f"{tuple(value.shape)} of {value.dtype}" if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(f"{name} must return a tensor of shape {tuple(like.shape[1:])} of {like.dtype}, got {came}")
    return value


def _parts(parts: Sequence[Tensor], n_honest: int, records: int) -> list[Tensor]:
    if not isinstance(parts, list | tuple) or len(parts) != n_honest:
        came = f"{len(parts)} of them" if isinstance(parts, list | tuple) else type(parts).__name__
        raise ValueError(f"parts must be a list of {n_honest} tensors, one for each honest worker, got {came}")
    for part in parts:
        good = isinstance(part, Tensor) and part.dim() == 1 and part.dtype == torch.int64 and len(part) > 0
        if not good or len(part.unique()) < len(part) or not 0 <= int(part.min()) <= int(part.max()) < records:
            came = f"{tuple(part.shape)} of {part.dtype}" if isinstance(part, Tensor) else type(part).__name__
            raise ValueError(
                f"parts must hold int64 tensors of different numbers in [0, {records}), none empty, got {came}"
            )
    return [part.cpu() for part in parts]


def _name(function: Any) -> str:
    """A name that another process gives to the same function."""
    if isinstance(function, functools.partial):
        return f"{_name(function.func)}{function.args}{sorted(function.keywords.items())}"
    return f"{getattr(function, '__module__', None)}.{getattr(function, '__qualname__', type(function).__name__)}"
