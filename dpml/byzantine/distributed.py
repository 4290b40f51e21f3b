r"""The same training by real processes: process 0 is the server, processes 1 to n are the workers.

Every process calls `distribute` with the same arguments, those of `dpml.byzantine.simulation.simulate`; the worker i of
the simulation is process i + 1, and the last f processes lie. In a step the server sends the parameters to all workers,
each sends its vector back, and the server aggregates what came within the time limit (`dpml.training.messages`). A
worker that ended, is silent or sends a vector of another length counts as one that sent nothing: the server says so,
and gives the rule the vectors that came, of which still f may lie, until there are fewer than the rule takes.

From generators of the same seed come the parameters of the simulation, to the last bit on one kind of machine. That
needs every worker's seed to be known to all, which is for tests and for the classroom only: whoever knows a worker's
seed can subtract its noise. Where workers do not trust each other each has a generator of its own seed, which it shows
to nobody, and the data are its own part.

A lying process has to know what the honest ones send. Here it holds the data and all seeds, and computes their vectors
itself: the omniscient attacker of the theory, at n - f times the work of a worker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from dpml import arguments
from dpml.byzantine.simulation import SimulatedRun, Simulation, wave
from dpml.training import messages
from dpml.training.worker import Step, all_finite

__all__ = ["distribute"]


def distribute(
    model: torch.nn.Module,
    loss_fn: Callable[[Any, Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    *,
    place: tuple[int, messages.Server | messages.Line],
    seconds: float = 60.0,
    **given: Any,
) -> SimulatedRun | None:
    """Take this process's part in a training by a server and n workers; return the run on the server, None on others.

    Args:
        model: on every process with the same first parameters; trained in place on the server.
        loss_fn: as in `simulate`.
        x: as in `simulate`; the server uses their number only, and a few for the checks before the first step.
        y: as in `simulate`.
        place: what `dpml.training.messages.connect` returned.
        seconds: how long the server waits in a step, > 0; a worker waits for the server ten times as long.
        given: the other arguments of `simulate`, without a checkpoint: the workers' states are in their processes.

    Raises:
        ValueError: for bad input, as `simulate`; a number of workers that is not that of the processes.
        ConnectionError: on the server if no worker is left, on a worker if the server is gone.
        ArithmeticError: on a worker whose gradients are not finite: it sends nothing, and is gone.

    Source: the Byzantine paper (Guerraoui et al.), Algorithm 1.
    """
    number, link = place
    seconds = arguments.real("seconds", seconds, 0.0, low_open=True)
    if isinstance(link, messages.Line):
        work(Simulation(model, loss_fn, x, y, **given), number - 1, link, seconds=10.0 * seconds)
        return None
    before = len(link.absent)
    try:
        if given.get("checkpoint") is not None:
            raise ValueError(f"checkpoint must be None in processes, got {given['checkpoint']!r}")
        setting = Simulation(model, loss_fn, x, y, **given)
        if link.n != setting.n:
            raise ValueError(f"n must be the {link.n} processes beside the server, got {setting.n}")
        return setting.run(lambda: Remote(setting, link, seconds))._replace(absent=link.absent[before:])
    finally:
        link.finish()


@dataclass(eq=False)
class Remote:
    """The workers in their processes, and the server's rule: a source of vectors for the optimizer.

    Source: the Byzantine paper (Guerraoui et al.), Algorithm 1.
    """

    setting: Simulation
    server: messages.Server
    seconds: float

    def __post_init__(self) -> None:
        """Let the rule refuse what it does not take."""
        self.asked = 0
        self.parameters = [p for p in self.setting.model.parameters() if p.requires_grad]
        numbers = parameters_to_vector(self.parameters).detach()
        self.like = numbers.to(torch.promote_types(self.parameters[0].dtype, torch.float32))
        self.setting.ruled(wave(self.like.expand(self.setting.n, -1)))  # may refuse

    def step(self) -> Step:
        """Send the parameters, wait for the vectors, aggregate those that came.

        Raises:
            ConnectionError: if none came.
            RuntimeError: if Ctrl+C is pressed meanwhile: what the workers released counts as seen.
        """
        try:
            self.asked += 1
            numbers = parameters_to_vector(self.parameters).detach()
            found = self.server.ask(self.asked, numbers, like=self.like, seconds=self.seconds)
            if not found:
                raise ConnectionError(f"no worker answered in step {self.asked}")
            gradient = self.setting.ruled(torch.stack([*found.values()]))
        except KeyboardInterrupt as error:
            raise RuntimeError("interrupted in the middle of a step, whose releases count as seen") from error
        return Step(gradient, 0, gradient.new_empty(0), {"vectors": float(len(found))}, all_finite(gradient))

    def state(self) -> dict[str, Any]:
        """Nothing: the states are with the workers."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Nothing."""

    def test(self, step: int) -> None:
        """Nothing: the workers hold the examples."""


def work(setting: Simulation, index: int, line: messages.Line, *, seconds: float) -> int:
    """Answer the server as the worker of this index until it is done; return how many vectors were sent.

    Raises:
        ArithmeticError: if a gradient is not finite.

    Source: the Byzantine paper (Guerraoui et al.), Algorithm 1.
    """
    attack = None if index < setting.n_honest else setting.attack
    honest = setting.workers([index] if attack is None else range(setting.n_honest), lambda vectors: vectors)
    parameters = [p for p in setting.model.parameters() if p.requires_grad]

    def respond(step: int, numbers: Tensor) -> Tensor:
        vector_to_parameters(numbers.to(parameters[0]), parameters)
        found = honest.step()
        if not bool(found.good):
            raise ArithmeticError(f"a loss or a gradient was not finite in step {step}")
        return found.gradient[0] if attack is None else attack(found.gradient.clone())

    return messages.answer(line, respond, like=parameters_to_vector(parameters).detach(), seconds=seconds)
