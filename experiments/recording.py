"""A file of results that grows row by row, goes on where it stopped, and says what its numbers depend on."""

from __future__ import annotations

import datetime
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tqdm.auto import tqdm

from experiments.processes import results

Job = TypeVar("Job")


def machine(device: str = "cpu") -> dict[str, Any]:
    """What the numbers depend on."""
    import numpy
    import scipy
    import torch

    processor = f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} thread used"
    return {
        "processor": torch.cuda.get_device_name() if device == "cuda" else processor,
        "system": platform.system(),
        "Python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
    }


def today() -> str:
    """The date in UTC, as the files have it."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def command(script: str, name: str, device: str, gpu: Mapping[str, str]) -> str:
    """What makes the part `name`; `gpu` holds the words of ``gpu.sh`` for the parts that a GPU makes."""
    if device == "cuda" and name in gpu:
        return f"bash experiments/gpu.sh {gpu[name]}"
    return f"python3 -m experiments.{script} --preset {name} --device {device}".removesuffix(" --device cpu")


def read(into: Path) -> dict[str, Any]:
    """The content of a file of results, empty where there is none."""
    return json.loads(into.read_text(encoding="utf-8")) if into.is_file() else {}


def plain(value: Any) -> Any:
    """As it will be read from the file: tuples are lists there."""
    return json.loads(json.dumps(value))


def write(into: Path, content: dict[str, Any]) -> None:
    """The whole file, one row a line, under a temporary name first."""
    into.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, ensure_ascii=False).replace('[{"', '[\n{"').replace('}, {"', '},\n{"')
    temporary = into.with_name(into.name + ".tmp")
    temporary.write_text(text + "\n", encoding="utf-8", newline="\n")
    temporary.replace(into)


def setting_of(kind: Any, row: Mapping[str, Any]) -> Any:
    """The setting of a row, a named tuple of this kind."""
    return kind(*(row[field] for field in kind._fields))


def head(command: str, device: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What a part says before its rows."""
    return {"command": command, "date": today(), "machine": machine(device), "settings": plain(settings)}


def begun(into: Path, name: str, settings: Any) -> dict[str, Any]:
    """What an earlier run with the same settings left of a part of the file; empty where there was none."""
    part = read(into).get(name, {})
    return part if part.get("settings") == settings else {}


def go_on(
    into: Path,
    name: str,
    *,
    head: dict[str, Any],
    settings: Iterable[Any],
    job: Callable[[Any], Job | None],
    do: Callable[[Job], dict[str, Any]],
    seconds: float | None,
    processes: int,
) -> dict[str, Any]:
    """Do what is missing in part `name` of the file, in the order of the settings, and return that part.

    ``job(setting)`` is what `do` is given, or None where it cannot be done here.
    """
    rows: list[dict[str, Any]] = begun(into, name, head["settings"]).get("rows", [])
    place = {setting: i for i, setting in enumerate(settings)}
    kind = type(next(iter(place)))

    def order(row: dict[str, Any]) -> int:
        return place[setting_of(kind, row)]

    done = set(map(order, rows))
    jobs = [one for one in (job(setting) for setting in place if place[setting] not in done) if one is not None]
    content = {**read(into), name: {**head, "rows": rows}}
    fill(rows, do, jobs, order=order, save=partial(write, into, content), seconds=seconds, processes=processes)
    return dict(content[name])


def _begun(do: Callable[[Job], Any], end: float, job: Job) -> Any:
    """``do(job)`` on one thread; None where there is no time left for it."""
    import torch

    if time.time() > end:
        return None
    torch.set_num_threads(1)
    return do(job)


def fill(
    rows: list[dict[str, Any]],
    do: Callable[[Job], dict[str, Any]],
    jobs: Sequence[Job],
    *,
    order: Callable[[dict[str, Any]], Any],
    save: Callable[[], None],
    seconds: float | None,
    processes: int,
) -> None:
    """Add the row of every job, in any order, sort the rows and save them after each.

    After so many seconds no further row is begun. `do` is a function of a module, and jobs can be pickled.
    """
    end = float("inf") if seconds is None else time.time() + seconds
    for row in tqdm(results(partial(_begun, do, end), jobs, processes), total=len(jobs), unit="run", disable=None):
        if row is not None:
            rows.append(row)
            rows.sort(key=order)
            save()
