"""Byzantine workers as real processes: a server and its workers under torchrun, on the images of the course.

    torchrun --standalone --nproc-per-node 16 -m experiments.byzantine_processes              # 1 + 15; some minutes
    torchrun --standalone --nproc-per-node 5 -m experiments.byzantine_processes --liars 1 --rule median
    torchrun --standalone --nproc-per-node 5 -m experiments.byzantine_processes --liars 1 --rule median --leaves 2

Process 0 is the server; the last ``--liars`` processes lie. With ``--leaves 2`` process 2 ends after a few steps: the
server says so and goes on without it. ``--compare`` trains once more in the server's process, by the simulation, and
says how far apart the parameters are: where nobody left, not at all.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import torch
from torch.nn import functional

from dpml import data
from dpml.byzantine import aggregation, attacks
from dpml.byzantine.distributed import distribute
from dpml.byzantine.simulation import simulate
from dpml.command_line import any_console
from dpml.training import dp_sgd, messages, models
from dpml.training.sampling import FixedSize

ATTACKS = {"little": attacks.little, "empire": attacks.empire, "sign_flip": attacks.sign_flip}
RULES = ("krum", "multi_krum", "mda", "median", "bulyan_multi_krum", "average")


def leave() -> None:
    """Let this process end in its fourth batch, without an error: on an error torchrun would end everyone."""
    draw, left = FixedSize.draw, iter(range(3))

    def leaving(self: FixedSize, n: int, *, generator: torch.Generator) -> torch.Tensor:
        if next(left, None) is None:
            os._exit(0)
        return draw(self, n, generator=generator)

    FixedSize.draw = leaving  # type: ignore[method-assign]


def losses(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """One loss for each example."""
    return functional.cross_entropy(outputs, labels, reduction="none")


def main() -> int:
    parser = argparse.ArgumentParser(description="Train by a server and its workers, each a process.")
    parser.add_argument("--liars", type=int, default=3, help="how many of the workers lie")
    parser.add_argument("--attack", choices=ATTACKS, default="little")
    parser.add_argument("--rule", choices=RULES, default="multi_krum")
    parser.add_argument("--size", type=int, default=50, help="examples in a batch of a worker")
    parser.add_argument("--sigma", type=float, default=1.5, help="noise multiplier of each worker")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the server waits in a step")
    parser.add_argument("--leaves", type=int, default=0, help="this process ends in its fourth step")
    parser.add_argument("--compare", action="store_true", help="train once more by the simulation")
    given = parser.parse_args()
    torch.set_num_threads(1)
    images = data.fashion_mnist_subset()
    x, y = models.to_tensors(images.train_images), models.to_labels(images.train_labels)
    number, link = messages.connect(seconds=300.0)
    n = int(os.environ["WORLD_SIZE"]) - 1
    if number and number == given.leaves:
        leave()

    def arguments(model: torch.nn.Module) -> dict[str, Any]:
        return {
            "mechanism": dp_sgd(sigma=given.sigma, clip_norm=2.0),
            "sampling": FixedSize(m=given.size),
            "n": n,
            "n_byzantine": given.liars,
            "rule": getattr(aggregation, given.rule),
            "attack": ATTACKS[given.attack],
            "steps": given.steps,
            "optimizer": torch.optim.SGD(model.parameters(), lr=0.5, weight_decay=1e-4),
            "delta": 1e-5,
            "generator": torch.Generator().manual_seed(0),
            "momentum": 0.99,
            "trace_every": given.steps,
            "test": (models.to_tensors(images.test_images), models.to_labels(images.test_labels)),
        }

    model, twin = (models.mlp(generator=torch.Generator().manual_seed(1)) for _ in range(2))
    started = time.perf_counter()
    run = distribute(model, losses, x, y, place=(number, link), seconds=given.seconds, **arguments(model))
    if run is None:
        return 0
    took = time.perf_counter() - started
    print(f"{run.steps} steps by 1 + {n} processes in {took:.1f} s; accuracy {run.trace.accuracy[-1]:.3f}")
    print(f"One worker has spent: {run.worker_guarantee}\nAll that the server saw: {run.guarantee}")
    for step, worker, reason in run.absent:
        print(f"Missed in step {step}: worker {worker}, which {reason}")
    if given.compare:
        simulate(twin, losses, x, y, **arguments(twin))
        ends = [torch.nn.utils.parameters_to_vector(one.parameters()).detach() for one in (model, twin)]
        print(f"Farthest from the simulation: {float((ends[0] - ends[1]).abs().max()):.3g}")
    return 0


if __name__ == "__main__":
    any_console()
    raise SystemExit(main())
