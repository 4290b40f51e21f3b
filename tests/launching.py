"""Real processes for the tests of what is spread over several."""

import multiprocessing
import os
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import torch
from tqdm import tqdm


def launch(main: Callable[[Path], None], folder: Path, *, size: int) -> tuple[list[int | None], dict]:
    """Call `main(folder)` in this many processes: their exit codes, and what they saved in the folder."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    settings = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    settings["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
    context = multiprocessing.get_context("spawn")
    if sys.platform != "win32":
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch._dynamo"])  # an optimizer imports it: some seconds for each process
    arguments = [(main, folder, settings | {"RANK": str(rank)}) for rank in range(size)]
    processes = [context.Process(target=as_one_of_them, args=given) for given in arguments]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    found = {path.stem: torch.load(path, weights_only=False) for path in folder.glob("*.pt")}
    return [process.exitcode for process in processes], found


def as_one_of_them(main: Callable[[Path], None], folder: Path, settings: dict[str, str]) -> None:
    os.environ |= settings
    tqdm.set_lock(threading.RLock())  # its own is a semaphore, which a process that is killed leaves behind
    torch.set_num_threads(1)
    main(folder)
