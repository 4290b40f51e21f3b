"""Real processes for the tests of what is spread over several."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]


def launch(script: Path, folder: Path, *, size: int) -> tuple[list[int], list[str], dict]:
    """Run a script as this many processes: their return codes and errors, and what they saved in the folder."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    environment = {**os.environ, "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    environment["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
    environment |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    processes = [
        subprocess.Popen(
            [sys.executable, str(script), str(folder)],
            env={**environment, "RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    errors = [process.communicate()[1] for process in processes]
    found = {path.stem: torch.load(path, weights_only=False) for path in folder.glob("*.pt")}
    return [process.returncode for process in processes], errors, found
