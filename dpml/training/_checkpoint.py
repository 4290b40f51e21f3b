"""A training run on disk: written whole or not at all, and continued only under the same settings and data.

The file holds the states of the generators. Whoever has it can subtract the noise: keep it as secret as the data.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
from pathlib import Path
from typing import Any

import torch

__all__ = ["fingerprint", "load", "save"]

VERSION = 1


def fingerprint(*tensors: torch.Tensor) -> str:
    """A digest of the values, shapes and types of the data of a run."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        whole = tensor.detach().cpu().contiguous()
        digest.update(whole.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def save(path: Path, content: dict[str, Any]) -> None:
    """Write `content` to `path`: under a temporary name, on the disk, then renamed."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
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
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError) as error:
        raise ValueError(f"checkpoint must be a file that a run wrote, got {path}: {type(error).__name__}") from None
    if not isinstance(content, dict) or content.get("dpml") != VERSION:
        raise ValueError(f"checkpoint must be a file that a run of this version wrote, got {path}")
    before: dict[str, Any] = content["settings"]
    for name in {**before, **settings}:
        if before.get(name) != settings.get(name):
            raise ValueError(
                f"checkpoint must be of a run with the same settings, got one with {name} = {before.get(name)!r} in "
                f"place of {settings.get(name)!r}: continuing it would use its noise for another mechanism"
            )
    return content
