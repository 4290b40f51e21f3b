r"""Stochastic batch training on real processes: process 0 is the server, processes 1 to N/(2m) are the local trainers.

Trainer i holds two of the fixed batches of noisy examples, and nothing else of the data (Algorithm 4). In a step the
server picks some trainers at random and sends the parameters. Each of those sends back both gradients, of its first
batch and of attacks on its second; the server averages them and updates. Messages are those of
`dpml.training.messages`, as for Byzantine workers: a trainer that is gone or silent is missed by name, and the steps go
on with the others.

Every process calls `distribute` with the same arguments and a generator of the same seed: then they agree on noise and
batches, and the server ends with the parameters of `training.train` under `training.stochastic`, to the last bit on one
kind of machine. That each of them could make all batches is for the classroom and for tests. In use, the noise is drawn
where the examples are, and a trainer is given its two batches.

What is private is decided by the policy. With `dpml.certified.stobatch.local.Local` all that leaves the examples'
owners is $(\varepsilon_x + \varepsilon_2, 0)$-private, however many trainers see it in however many steps. As printed,
two trainers that compare notes, or one on its own batch, read the images off (`reconstruction`).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from dpml import arguments
from dpml.certified.stobatch import training
from dpml.certified.stobatch.local import Local
from dpml.certified.stobatch.model import Network
from dpml.certified.stobatch.noise import AsPrinted, NoNoise
from dpml.training import messages

__all__ = ["distribute"]


def distribute(
    network: Network,
    x: Tensor,
    y: Tensor,
    *,
    noise: AsPrinted | Local | NoNoise,
    settings: training.Settings,
    rng: np.random.Generator,
    trainers: int,
    place: tuple[int, messages.Server | messages.Line],
    seconds: float = 60.0,
) -> training.Trained | None:
    """Take this process's part in a training by a server and N/(2m) trainers; return the run on the server, else None.

    Neighbours: replace-one.

    Args:
        network: on every process with the same first parameters; trained in place on the server.
        x: examples, as in `training.train`.
        y: labels, as in `training.train`.
        noise: the policy, as in `training.train`.
        settings: as in `training.train`.
        rng: of the same seed on every process.
        trainers: how many the server picks in each step.
        place: what `dpml.training.messages.connect` returned.
        seconds: how long the server waits in a step, > 0; a trainer waits for the server ten times as long.

    Raises:
        ValueError: as `training.train`, and if the number of processes is not 1 + N/(2m).
        ConnectionError: on the server if no trainer is left, on a trainer if the server is gone.

    Source: StoBatch (Phan et al., ICML 2020), section 3.5 (Algorithm 4).
    """
    schedule = training.stochastic(trainers)
    seconds = arguments.real("seconds", seconds, 0.0, low_open=True)
    run = training.prepare(network, x, y, noise=noise, settings=settings, rng=rng)
    held = len(run.batches) // 2
    schedule(0, len(run.batches), copy.deepcopy(rng))  # refuses what it refuses on every process, and draws nothing
    number, connection = place
    parameters = dict(network.named_parameters())
    size = sum(p.numel() for p in parameters.values())
    question, reply = torch.zeros(size + held, dtype=torch.float64), torch.zeros(size + 1, dtype=torch.float64)

    if isinstance(connection, messages.Line):

        def respond(step: int, numbers: Tensor) -> Tensor:
            seed = int(numbers[size + number - 1])
            if seed < 0:  # not picked
                return reply
            vector_to_parameters(numbers[:size].to(network.theta1), parameters.values())
            gradients, loss = training.step_gradients(run, (2 * number - 2, 2 * number - 1), seed=seed)
            return torch.cat([*(gradients[name].reshape(-1).double() for name in parameters), loss.double()[None]])

        messages.answer(connection, respond, like=question, seconds=10.0 * seconds)
        return None

    if connection.n != held:
        raise ValueError(f"place must be among {held} trainers, N/(2m), and their server, got {connection.n} trainers")

    def asked(
        step: int, pairs: Sequence[tuple[int, int]], seeds: Sequence[int]
    ) -> list[tuple[training.Gradients, Tensor]]:
        numbers = torch.full((held,), -1.0, dtype=torch.float64)
        picked = [one // 2 for one, _ in pairs]
        for trainer, seed in zip(picked, seeds, strict=True):
            numbers[trainer] = float(seed)
        now = torch.cat([parameters_to_vector(parameters.values()).detach().double(), numbers])
        answers = connection.ask(step + 1, now, like=reply, seconds=seconds)
        if not connection.lines:
            raise ConnectionError(f"no trainer is left in step {step + 1}")
        return [_gradients(parameters, answers[i + 1]) for i in picked if i + 1 in answers]

    trained = training.descend(run, schedule=schedule, gradients=asked)
    connection.finish()
    return trained


def _gradients(parameters: dict[str, torch.nn.Parameter], numbers: Tensor) -> tuple[training.Gradients, Tensor]:
    """A trainer's answer as `training.step_gradients` returns it."""
    *pieces, loss = torch.split(numbers, [*(p.numel() for p in parameters.values()), 1])
    named = zip(parameters.items(), pieces, strict=True)
    return {name: piece.view_as(p).to(p) for (name, p), piece in named}, loss[0].float()
