"""All randomness of a training run: samples, noise and dropout, from one generator, to be saved and restored.

Samples are drawn on the CPU from the generator that the caller gives. Noise is drawn on the model's device, by a
generator with a seed drawn from the first; so is what layers such as dropout draw from PyTorch's global generators,
whose states outside the run are put back at its end. A run is thus a function of its arguments, and its state is a few
tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["Randomness", "kept_global_state"]

State = dict[str, torch.Tensor]


def _new_seed(generator: torch.Generator) -> int:
    return int(torch.randint(2**63 - 1, (1,), generator=generator))


def _global_state(device: torch.device) -> State:
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def _set_global_state(state: State, device: torch.device) -> None:
    torch.set_rng_state(state["cpu"])
    if "cuda" in state and device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)


@contextmanager
def kept_global_state(device: torch.device) -> Iterator[None]:
    """Put PyTorch's global generators back at the end, whatever was drawn from them in between."""
    before = _global_state(device)
    try:
        yield
    finally:
        _set_global_state(before, device)


class Randomness:
    """`sampling` on the CPU, `noise` on the device, and the global generators."""

    def __init__(self, generator: torch.Generator, device: torch.device) -> None:
        self.device = device
        self.sampling = generator
        self.noise = torch.Generator(device).manual_seed(_new_seed(generator))
        layers = {"cpu": torch.Generator().manual_seed(_new_seed(generator)).get_state()}
        if device.type == "cuda":
            layers["cuda"] = torch.Generator(device).manual_seed(_new_seed(generator)).get_state()
        _set_global_state(layers, device)

    def state(self) -> State:
        """A copy of the state of every generator; some microseconds."""
        own = {"sampling": self.sampling.get_state(), "noise": self.noise.get_state()}
        return {**own, **_global_state(self.device)}

    def restore(self, state: State) -> None:
        """Go back to what `state` returned."""
        self.sampling.set_state(state["sampling"])
        self.noise.set_state(state["noise"])
        _set_global_state(state, self.device)
