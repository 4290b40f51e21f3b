"""Many runs at a time, each in one of several processes: for runs that do not fill the machine one by one."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

Job = TypeVar("Job")
Row = TypeVar("Row")


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
