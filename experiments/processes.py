"""Many runs at a time, each in one of several processes: for runs that do not fill the machine one by one."""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, TypeVar

Job = TypeVar("Job")
Row = TypeVar("Row")


def options(
    description: str, *, presets: Iterable[str], into: Path, preset: str = "cpu", device: str = "cpu"
) -> dict[str, Any]:
    """What a run is told on the command line, as arguments of its function ``run``."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--preset", choices=list(presets), default=preset, dest="name")
    parser.add_argument("--into", type=Path, default=into, help="the file for the results")
    parser.add_argument("--device", choices=("cpu", "cuda"), default=device)
    parser.add_argument("--seconds", type=float, default=None, help="begin no row after so many seconds")
    parser.add_argument("--processes", type=int, default=1, help="as many runs at a time")
    return vars(parser.parse_args())


def require(device: str) -> None:
    """Leave with one sentence where the device is a GPU that PyTorch does not find."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("No GPU was found by PyTorch. On the CPU: --preset tiny --into FILE")


def results(do: Callable[[Job], Row], jobs: Sequence[Job], processes: int) -> Iterator[Row]:
    """``do(job)`` for every job, as they come; in this process, one after the other, where `processes` is 1.

    `do` is a function of a module, and jobs and results can be pickled: a process starts anew and knows nothing.
    """
    if processes == 1:
        yield from map(do, jobs)
        return
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        for future in as_completed([pool.submit(do, job) for job in jobs]):
            yield future.result()
