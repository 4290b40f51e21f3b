"""What each of three processes does for `test_distributed_stobatch.py`: a server and two trainers, twice."""

import warnings

import numpy as np
import torch

from dpml.certified.stobatch import distributed, model, training
from dpml.certified.stobatch.noise import AsPrinted
from dpml.training import messages

LOST = 3
"""In this step of the second run the second trainer is lost."""


def arguments(steps=5):
    """Eighty random examples in four batches, for two trainers."""
    generator = torch.Generator().manual_seed(0)
    network = model.Network(dimension=6, beta=4, hidden=5, classes=3, generator=generator)
    x = torch.rand(80, 6, generator=generator) * 2 - 1
    y = torch.randint(3, (80,), generator=generator)
    settings = training.Settings(m=20, steps=steps, attack_steps=2, rate_2=0.01)
    given = {"noise": AsPrinted(epsilon_1=1.0, epsilon_2=1.0), "settings": settings}
    return (network, x, y), {**given, "rng": np.random.default_rng(4)}


def flat(network):
    return torch.cat([value.detach().reshape(-1) for value in network.state_dict().values()])


def main(folder):
    place = messages.connect(seconds=120.0)
    first, given = arguments()
    run = distributed.distribute(*first, **given, trainers=2, place=place)
    if run is not None:
        torch.save({"end": flat(run.network), "losses": run.losses, "says": run.says}, folder / "whole.pt")
    if place[0] == 2:
        original, calls = training.step_gradients, []

        def leaving(*args, **more):
            calls.append(1)
            if len(calls) == LOST:
                raise SystemExit(0)
            return original(*args, **more)

        training.step_gradients = leaving
    first, given = arguments()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        run = distributed.distribute(*first, **given, trainers=2, place=place)
    if run is not None:
        found = {"end": flat(run.network), "absent": place[1].absent, "said": [str(w.message) for w in said]}
        torch.save(found, folder / "lossy.pt")
