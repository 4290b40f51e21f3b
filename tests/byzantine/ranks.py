"""What each of five processes does for `test_distributed.py`: one launch for everything that needs processes."""

import os
import signal
import warnings
from datetime import timedelta

import torch
from torch import distributed

from dpml.byzantine import attacks
from dpml.byzantine.aggregation import median
from dpml.byzantine.distributed import distribute
from dpml.training import dp_sgd, messages
from dpml.training.sampling import Poisson
from tests.training import helpers

SETTING = {"n": 4, "n_byzantine": 1, "rule": median, "momentum": 0.9, "delta": 1e-5, "attack": attacks.little}
SETTING |= {"mechanism": dp_sgd(sigma=1.0, clip_norm=1.0), "trace_every": 2}
WRONG, KILLED, LEFT = 2, 4, 6
"""In these steps the liar sends a wrong shape, the liar is killed, and an honest process ends."""
STEPS, LOST = 12, 7
"""Steps of a shared run, and the one in which a process is lost."""


def arguments(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return {**SETTING, "sampling": Poisson(q=0.5), "generator": helpers.seeded(), "optimizer": optimizer}


def leave_in_draw(number):
    """From here on this process draws so often less one, and ends."""
    draw, left = Poisson.draw, iter(range(number - 1))

    def leaving(self, n, *, generator):
        if next(left, None) is None:
            os._exit(0)
        return draw(self, n, generator=generator)

    Poisson.draw = leaving


class Misbehaving:
    """Lies, but for the steps in which it does worse."""

    def __init__(self):
        self.step = 0

    def __call__(self, honest):
        self.step += 1
        if self.step == KILLED:
            os.kill(os.getpid(), signal.SIGKILL)
        return honest[0, :7] if self.step == WRONG else attacks.little(honest)


def as_server_and_workers(place, folder):
    """The simulation's run; then one in which workers are lost until the rule refuses."""
    model = helpers.network(dropout=0.2)
    run = distribute(model, helpers.cross_entropy, *helpers.data(), place=place, steps=5, **arguments(model))
    if run is not None:
        content = {"end": helpers.flat(model), "epsilon": run.guarantee.epsilon, "absent": run.absent}
        torch.save({**content, "own": run.worker_guarantee.epsilon}, folder / "whole.pt")
    model = helpers.network()
    given = arguments(model) | {"attack": Misbehaving()}
    if place[0] == 2:
        leave_in_draw(LEFT)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            distribute(model, helpers.cross_entropy, *helpers.data(), place=place, steps=9, **given)
        except ValueError as error:
            content = {"end": helpers.flat(model), "error": str(error), "notes": error.__notes__}
            content |= {"absent": place[1].absent, "said": [str(one.message) for one in said]}
            torch.save(content, folder / "lossy.pt")


def as_two(rank, folder):
    """Training that two processes share, by every mechanism; then one that loses a process."""
    where = f"file://{folder}/two"
    distributed.init_process_group("gloo", init_method=where, rank=rank, world_size=2, timeout=timedelta(seconds=60))
    given = {"group": distributed.group.WORLD, "steps": STEPS, "micro_batch": 7, "trace_every": 4}
    ends = {}
    for name, mechanism in helpers.MECHANISMS.items():
        model = helpers.network()
        run = helpers.train(model, *helpers.data(), mechanism=mechanism, test=helpers.data(seed=9), **given)
        ends[name] = {"end": helpers.flat(model), "losses": list(run.trace.loss), "clipped": list(run.trace.clipped)}
        ends[name] |= {"norms": run.trace.norms.tolist(), "epsilon": run.guarantee.epsilon}
    refused = {}
    for name, change in {"generator": {"generator": helpers.seeded(rank)}, "steps": {"steps": 5 + rank}}.items():
        try:
            helpers.train(helpers.network(), *helpers.data(), **{**given, **change})
        except ValueError as error:
            refused[name] = str(error)
    torch.save({"ends": ends, "refused": refused}, folder / f"two{rank}.pt")
    model = helpers.network()
    if rank == 1:
        leave_in_draw(LOST)
    lost = {**given, "checkpoint": folder / "lost.ckpt"}
    try:
        helpers.train(model, *helpers.data(), **lost)
    except ConnectionError as error:
        torch.save({"error": str(error), "notes": error.__notes__, "end": helpers.flat(model)}, folder / "lost.pt")


def main(folder):
    place = messages.connect(seconds=120.0)
    as_server_and_workers(place, folder)
    if place[0] in (0, 3):
        as_two(min(place[0], 1), folder)
