"""What lets a training run stop and go on to the same bits: its randomness, Ctrl+C between two steps, and the disk."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import random
import signal
import uuid
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch

from dpml import arguments

State = dict[str, torch.Tensor]


# ---- randomness ----


class Randomness:
    """All randomness of a worker, from one generator: samples, noise, and what layers such as dropout draw.

    Samples are drawn on the CPU from the generator that the caller gives (`sampling`). Noise is drawn on the model's
    device, by a generator with a seed drawn from the first (`noise`); so is what layers draw from PyTorch's global
    generators within `for_layers`. A run is thus a function of its arguments, and its state is a few tensors.
    """

    def __init__(self, generator: torch.Generator, device: torch.device) -> None:
        self.device = device
        self.sampling = generator
        self.noise = torch.Generator(device).manual_seed(new_seed(generator))
        kinds = dict.fromkeys(("cpu", device.type))
        self._layers = {kind: torch.Generator(kind).manual_seed(new_seed(generator)).get_state() for kind in kinds}

    @contextlib.contextmanager
    def for_layers(self) -> Iterator[None]:
        """Let PyTorch's global generators be those of this worker, and put them back at the end."""
        with kept_global_state(self.device):
            set_global_state(self._layers, self.device)
            yield
            self._layers = global_state(self.device)

    def state(self) -> State:
        """A copy of the state of every generator; some microseconds."""
        return {"sampling": self.sampling.get_state(), "noise": self.noise.get_state(), **self._layers}

    def restore(self, state: State) -> None:
        """Go back to what `state` returned."""
        self.sampling.set_state(state["sampling"])
        self.noise.set_state(state["noise"])
        self._layers = {kind: torch.Generator(kind).set_state(state[kind]).get_state() for kind in self._layers}


def new_seed(generator: torch.Generator) -> int:
    """A seed for another generator, drawn from this one."""
    return int(torch.randint(2**63 - 1, (1,), generator=generator))


def global_state(device: torch.device) -> State:
    """The states of PyTorch's global generators."""
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_global_state(state: State, device: torch.device) -> None:
    """Go back to what `global_state` returned."""
    torch.set_rng_state(state["cpu"])
    if "cuda" in state and device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)


def kept_global_state(device: torch.device) -> contextlib.AbstractContextManager[None]:
    """Put PyTorch's global generators back at the end, whatever was drawn from them in between."""
    return torch.random.fork_rng([device] if device.type == "cuda" else [])


@contextlib.contextmanager
def same_draws(device: torch.device) -> Iterator[Callable[[], None]]:
    """Give a function that goes back to the same draws from all global generators, PyTorch's, Python's and NumPy's.

    All are put back at the end.
    """
    state, python, numbers = global_state(device), random.getstate(), np.random.get_state()  # noqa: NPY002

    def rewind() -> None:
        set_global_state(state, device)
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002

    try:
        with kept_global_state(device):
            yield rewind
    finally:
        random.setstate(python)
        np.random.set_state(numbers)  # noqa: NPY002


# ---- Ctrl+C ----


@contextlib.contextmanager
def deferred() -> Iterator[list[int]]:
    """While open, the first Ctrl+C only fills the list, so that a step can finish; a second one interrupts at once.

    Outside the main thread, or where the program handles or ignores the signal in its own way, nothing is changed.
    """
    asked: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    before: Any = None
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        with contextlib.suppress(ValueError):  # not the main thread, which receives no signals
            before = signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


# ---- the disk: written whole or not at all, and continued only under the same settings and data ----

VERSION = 4


def checkpoint_path(checkpoint: Any) -> Path | None:
    """The path of a file that a run may write, or None.

    Raises:
        ValueError: if it is none, or its folder does not exist.
    """
    if checkpoint is None:
        return None
    path = Path(checkpoint) if isinstance(checkpoint, str | os.PathLike) else None
    if path is None or (path.exists() and not path.is_file()) or not path.absolute().parent.is_dir():
        arguments.refuse("checkpoint", "None or the path of a file in an existing folder", checkpoint)
    return path


def name_of(function: Any) -> str:
    """A name that another process gives to the same function."""
    if isinstance(function, functools.partial):
        return f"{name_of(function.func)}{function.args}{sorted(function.keywords.items())}"
    return f"{getattr(function, '__module__', None)}.{getattr(function, '__qualname__', type(function).__name__)}"


def fingerprint(*tensors: torch.Tensor) -> str:
    """A digest of the values, shapes and types of the data of a run."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        whole = tensor.detach().cpu().contiguous()
        digest.update(whole.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def save(path: Path, content: dict[str, Any]) -> None:
    """Write `content` to `path`: under a temporary name, on the disk, then renamed.

    It holds the states of the generators. Whoever has it can subtract the noise: keep it as secret as the data.
    """
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("wb") as file:
            torch.save({"dpml": VERSION, **content}, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def load(path: Path, settings: dict[str, Any]) -> dict[str, Any] | None:
    """The content of `path`, or None where there is no such file.

    Raises:
        ValueError: if the file is no checkpoint of a run with these settings.
    """
    if not path.is_file():
        return None
    try:
        with zipfile.ZipFile(path) as parts:
            whole = parts.testzip() is None
        content: Any = torch.load(path, map_location="cpu", weights_only=True) if whole else None
    except Exception:  # whatever a file that was cut short, or is another's, may lead to
        content = None
    kinds = {"dpml": int, "done": int, "settings": dict}
    known = isinstance(content, dict) and all(type(content.get(name)) is kind for name, kind in kinds.items())
    if not known or content["dpml"] != VERSION or content["done"] < 0:
        raise ValueError(
            f"checkpoint must be a whole file that a run of this version wrote, got {path}: give another path, or "
            "move that file away to begin anew"
        )
    before: dict[str, Any] = content["settings"]
    for name in {**before, **settings}:
        if repr(before.get(name)) != repr(settings.get(name)):
            raise ValueError(
                f"checkpoint must be of a run with the same settings, got one with {name} = {before.get(name)!r} in "
                f"place of {settings.get(name)!r}: continuing it would use its noise for another mechanism"
            )
    return dict(content)


def fits(value: Any, like: Any) -> bool:
    """Whether a part of a checkpoint has the form of `like`, the state of a run that did nothing yet.

    Dictionaries have its keys, lists are of parts like its first, tensors agree in all but the first dimension, and
    what it says nothing of is a number or a tensor.
    """
    if isinstance(like, dict):
        known = isinstance(value, dict) and like.keys() <= value.keys()
        return known and all(fits(part, like.get(name, 0.0)) for name, part in value.items())
    if isinstance(like, list):
        return isinstance(value, list) and all(fits(part, like[0]) for part in value)
    if isinstance(like, torch.Tensor):
        return isinstance(value, torch.Tensor) and value.shape[1:] == like.shape[1:]
    return isinstance(value, torch.Tensor) or type(value) in (int, float)
