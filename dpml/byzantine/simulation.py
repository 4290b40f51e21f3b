r"""Training by n workers, of which f may send anything, in one process: each honest one releases noisy gradients.

In a step every honest worker i draws a batch of its data and releases the noisy mean of the gradients, as a mechanism
of `dpml.training` says, and adds it to its momentum,

.. math::

    m_i \leftarrow \mu\, m_i + \frac{1}{B}\Bigl(\sum_{j \in S_i} w_j\, g_j + N(0, s^2 I)\Bigr),

with $m_i = 0$ before the first step. It submits $m_i$. The Byzantine workers know all honest vectors, and each submits
what the attack makes of them. The server aggregates the n vectors by a rule and hands the result to its optimizer:

.. math::

    \theta \leftarrow \text{optimizer}\bigl(\theta,\ \text{rule}(m_1, \dots, m_{n-f}, a, \dots, a)\bigr), \qquad
    a = \text{attack}(m_1, \dots, m_{n-f}).

The momentum is undamped: after many steps the vectors are about $1/(1 - \mu)$ times as long as a gradient. Momentum,
rule and optimizer see nothing of the data but noisy means: they are post-processing, and cost no privacy.

Privacy. Each worker alone has the guarantee of its mechanism after T steps. The server sees more. All honest workers
draw from the *same* data, so that each step is n - f releases about the same record, with independent samples and
independent noise, and what the server sees is a composition of (n - f) T releases. The run says both. Neighbours are
those of the sampler. A Byzantine worker that holds the data needs no attack to publish them: what is guaranteed is
about the honest ones.

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
from dpml.training._run_state import name_of
from dpml.training.mechanism import Mechanism
from dpml.training.sampling import Sampler
from dpml.training.trace import Trace
from dpml.training.worker import Source, Step, Worker, all_finite, generators

__all__ = ["Attack", "Rule", "SimulatedRun", "simulate"]

Attack = Callable[[Tensor], Tensor]
"""What a Byzantine worker submits, [d], given the vectors of all honest ones, [n - f, d]: see `attacks`."""

Rule = Callable[..., Tensor]
"""What the server makes of the vectors [n, d] and ``n_byzantine=``, [d]: see `aggregation`."""


class SimulatedRun(NamedTuple):
    """The trained model, its trace, what holds for all that the server saw, the steps, and what holds for one worker.

    The guarantees of the trace are those of the server, too: nothing that leaves it can be less private. Of workers in
    processes of their own the losses and norms are nan, as they stay with them, and `absent` says who was missed in
    which step, and why: (step, process, reason).

    Source: `dpml.training.trace.Run`, with two guarantees.
    """

    model: torch.nn.Module
    trace: Trace
    guarantee: Guarantee
    steps: int
    worker_guarantee: Guarantee
    absent: Sequence[tuple[int, int, str]] = ()


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

    Raises:
        ValueError: for bad input, before any step: as `dpml.training.train`, n_byzantine at n/2 or more, a rule that
            refuses so many workers, vectors of a wrong shape.
        Interrupted: after Ctrl+C, between two steps; its ``run`` holds what was done.
        Diverged: if an honest gradient, the aggregated vector or a parameter is not finite.

    Source: the Byzantine paper (Guerraoui et al.), Algorithm 1; momentum at the workers as in its section 4.1.
    """
    setting = Simulation(**locals())
    return setting.run(setting.here)


class Simulation:
    """The arguments of `simulate`, checked as far as the trainer does not check them.

    Source: `simulate`.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss_fn: Callable[[Any, Tensor], Tensor],
        x: Tensor,
        y: Tensor,
        *,
        n: int,
        n_byzantine: int,
        rule: Rule,
        attack: Attack | None,
        momentum: float = 0.0,
        **common: Any,
    ) -> None:
        self.model, self.data, self.rule, self.attack = model, (loss_fn, x, y), rule, attack
        self.common: dict[str, Any] = dict.fromkeys(("micro_batch", "trace_every", "test", "checkpoint")) | common
        self.n = arguments.integer("n", n, 1)
        self.n_byzantine = arguments.integer("n_byzantine", n_byzantine, 0, (self.n - 1) // 2)
        self.n_honest = self.n - self.n_byzantine
        self.momentum = arguments.real("momentum", momentum, 0.0, 1.0, high_open=True)
        arguments.function("rule", rule)
        if self.n_byzantine > 0:
            arguments.function("attack", attack)

    def workers(self, numbers: Sequence[int], then: Callable[[Tensor], Tensor]) -> Workers:
        """Return these honest workers, each with its own generator, and what comes after."""
        mechanism, sampling, source, at_once = (
            self.common[name] for name in ("mechanism", "sampling", "generator", "micro_batch")
        )
        own = generators(source, n=self.n)
        found = [Worker(self.model, *self.data, mechanism, sampling, own[i], at_once) for i in numbers]
        return Workers(found, self.momentum, then)

    def here(self) -> Workers:
        """Return all honest workers, with the Byzantine ones and the server after them, in this process."""
        everyone = self.workers(range(self.n_honest), self.aggregated)
        try:
            self.aggregated(wave(everyone.vectors))
        except (ArithmeticError, LookupError, RuntimeError, TypeError) as error:
            raise ValueError(f"rule and attack must take any vectors, got {type(error).__name__}: {error}") from error
        return everyone

    def aggregated(self, honest: Tensor) -> Tensor:
        """Return what the rule makes of the honest vectors and of what the attack makes of them.

        Raises:
            ValueError: if one of them returns something else than one vector of the right length.
        """
        lies: list[Tensor] = []
        if self.attack is not None and self.n_byzantine > 0:
            lies = [one_vector("attack", self.attack(honest.clone()), like=honest)] * self.n_byzantine
        return self.ruled(torch.stack([*honest, *lies]))

    def ruled(self, vectors: Tensor) -> Tensor:
        """Return what the rule makes of the vectors that came.

        Raises:
            ValueError: if that is not one vector of their length.
        """
        return one_vector("rule", self.rule(vectors, n_byzantine=self.n_byzantine), like=vectors)

    def guarantees(self, counts: Sequence[int], *, releases: int) -> list[Guarantee]:
        """Return what holds after each of these numbers of steps, where a record is behind so many releases in each."""
        given = {name: self.common[name] for name in ("sampling", "delta")} | {"n": len(self.data[1])}
        found: list[Guarantee] = self.common["mechanism"].guarantees([count * releases for count in counts], **given)
        return found

    def run(self, source: Callable[[], Source]) -> SimulatedRun:
        """Train by the loop of the trainer with the vectors of this source."""
        account = functools.partial(self.guarantees, releases=self.n_honest)
        settings: dict[str, Any] = {"n": self.n, "n_byzantine": self.n_byzantine, "momentum": self.momentum}
        settings |= {"rule": name_of(self.rule), "attack": name_of(self.attack)}
        own: dict[str, Any] = {"make": source, "account": account, "settings": settings}
        loss_fn, x, y = self.data
        run = loop.Training(self.model, loss_fn, x, y, **own, **self.common).run()
        return SimulatedRun(*run, worker_guarantee=self.guarantees([run.steps], releases=1)[0])


@dataclass(eq=False)
class Workers:
    """Honest workers with their momentum, and what is made of their vectors: a source for the optimizer.

    Source: the Byzantine paper (Guerraoui et al.), Algorithm 1; El-Mhamdi, Guerraoui and Rouault, "Distributed
    momentum for Byzantine-resilient stochastic gradient descent", ICLR 2021, for momentum at the workers.
    """

    workers: list[Worker]
    momentum: float
    then: Callable[[Tensor], Tensor]

    def __post_init__(self) -> None:
        parameters = self.workers[0].parameters.values()
        some = next(iter(parameters))
        shape = len(self.workers), sum(p.numel() for p in parameters)
        kind = torch.promote_types(some.dtype, torch.float32)
        self.vectors = torch.zeros(shape, dtype=kind, device=some.device)

    def step(self) -> Step:
        """Every worker draws, releases and submits; return what is made of it, and what was seen of all batches."""
        found = [worker.step() for worker in self.workers]
        gradients = torch.stack([one.gradient for one in found])
        vectors = gradients.add_(self.vectors, alpha=self.momentum)
        good = torch.stack([one.good for one in found]).all()
        whole = self.then(vectors) if bool(good) else torch.full_like(vectors[0], torch.nan)
        self.vectors = vectors
        log = {name: sum(one.log[name] for one in found) for name in found[0].log}
        means = {name: value / len(found) for name, value in log.items() if name not in ("loss", "clipped")}
        examples, norms = sum(one.examples for one in found), torch.cat([one.norms for one in found])
        return Step(whole, examples, norms, {**log, **means}, all_finite(whole))

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
