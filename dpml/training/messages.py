r"""One server and its workers, each a process: the server sends numbers to all, and takes what comes back in time.

``torchrun`` starts the processes and says to each who it is (`RANK`, `WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT`); the
store of torch.distributed is where they learn of each other. The messages themselves go over a connection for each
worker, not through collective operations: these take for granted that every rank is there and honest. (A time limit
that passes closes all connections of a gloo group; a message that is longer than announced ends the process that
receives it; a rank that is gone ends an nccl group.) Here a worker can do no more to the server than answer nothing:

| what a worker does | what the server does |
|---|---|
| ends, or is killed | notices at once, says so, and goes on without it |
| is silent, or slow, for longer than the time limit | closes the connection, says so, and goes on without it |
| sends too few or too many numbers | reads them away, says so, and asks again in the next step |
| sends wrong numbers | cannot know: that is for the rule |

A message is a step, a length, and numbers in the type of those that were asked with; nothing of it is run or unpacked.
Who connects shows a word from the store. Numbers travel over the network as they are: private ones need a tunnel.

``torchrun`` itself ends all processes that it started when one of them fails. Where workers shall be lost, start each
by a ``torchrun`` of its own, or without it, with the four variables set.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import struct
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from dpml import arguments

__all__ = ["Line", "Server", "answer", "connect"]

HEAD = struct.Struct("<qq")
"""Before the numbers: the step, and how many bytes follow."""

LAST = -1
"""In place of a step: there is nothing more to do."""


class WrongLengthError(ValueError):
    """A message of another length than it should have; it was read away."""


@dataclass(eq=False)
class Line:
    """A connection to one other process, on which no message takes longer than it may.

    Source: definition.
    """

    socket: socket.socket

    def send(self, step: int, numbers: Tensor, *, seconds: float) -> None:
        """Send the numbers of a step.

        Raises:
            OSError: if the other side is gone (ConnectionError) or does not read in time (TimeoutError).

        Source: definition.
        """
        content = numbers.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes() if numbers.numel() else b""
        self._deadline(time.monotonic() + seconds)
        self.socket.sendall(HEAD.pack(step, len(content)) + content)

    def receive(self, *, like: Tensor, seconds: float) -> tuple[int, Tensor]:
        """Return the step of a message and its numbers, as many and of the type as `like`, on the CPU.

        Raises:
            WrongLengthError: if there are more or fewer; they are read away.
            OSError: if the other side is gone (ConnectionError) or the whole has not come in time (TimeoutError).

        Source: definition.
        """
        deadline = time.monotonic() + seconds
        step, length = HEAD.unpack(self._read(HEAD.size, deadline))
        wanted = like.numel() * like.element_size()
        if length == wanted or (step == LAST and length == 0):
            content = self._read(length, deadline)
            return step, torch.frombuffer(content, dtype=like.dtype) if content else torch.empty(0, dtype=like.dtype)
        left = length
        while left > 0:
            left -= len(self._read(min(left, 2**20), deadline))
        raise WrongLengthError(f"sent {length} bytes in place of {wanted}")

    def close(self) -> None:
        """End the connection.

        Source: definition.
        """
        self.socket.close()

    def _read(self, count: int, deadline: float) -> bytearray:
        content = bytearray(count)
        view = memoryview(content)
        while len(view):
            self._deadline(deadline)
            got = self.socket.recv_into(view)
            if got == 0:
                raise ConnectionError("closed the connection")
            view = view[got:]
        return content

    def _deadline(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0.0:
            raise TimeoutError
        self.socket.settimeout(left)


@dataclass(eq=False)
class Server:
    """The connections to all workers 1 to n that are still there, and who was missed when.

    `absent` lists (step, worker, reason). Each is said by a warning, too.

    Source: definition.
    """

    lines: dict[int, Line]
    n: int
    absent: list[tuple[int, int, str]] = field(default_factory=list)
    store: Any = None

    def ask(self, step: int, numbers: Tensor, *, like: Tensor, seconds: float) -> dict[int, Tensor]:
        """Send `numbers` to all workers and return what each answered in time, by its number, in increasing order.

        An answer has as many numbers as `like`, of its type and on its device. After a wrong length a worker is asked
        again in the next step; after silence it is not.

        Source: definition.
        """

        def exchange(line: Line) -> Tensor | OSError | ValueError:
            try:
                end = time.monotonic() + seconds
                line.send(step, numbers, seconds=seconds)
                came, answered = line.receive(like=like, seconds=end - time.monotonic())
                return answered if came == step else ValueError(f"answered step {came}")
            except (OSError, WrongLengthError) as error:
                return error

        if not self.lines:
            return {}
        with ThreadPoolExecutor(len(self.lines)) as pool:
            found = dict(zip(self.lines, pool.map(exchange, self.lines.values()), strict=True))
        for number, answered in found.items():
            if isinstance(answered, OSError):
                self.lines.pop(number).close()
                timed_out = isinstance(answered, TimeoutError)
                self.missed(step, number, f"did not answer within {seconds:g} s" if timed_out else "is gone")
            elif isinstance(answered, ValueError):
                self.missed(step, number, str(answered))
        return {number: one.to(like.device) for number, one in sorted(found.items()) if isinstance(one, Tensor)}

    def missed(self, step: int, number: int, reason: str) -> None:
        """Say and write down who was missed.

        Source: definition.
        """
        self.absent.append((step, number, reason))
        left = f"{len(self.lines)} of {self.n} workers are connected"
        warnings.warn(f"worker {number} {reason}, in step {step}: the server goes on; {left}", stacklevel=2)

    def finish(self) -> None:
        """Tell all workers that there is nothing more to do; they stay connected.

        Source: definition.
        """
        for number, line in list(self.lines.items()):
            try:
                line.send(LAST, torch.empty(0), seconds=5.0)
            except OSError:
                self.lines.pop(number).close()


def connect(*, seconds: float) -> tuple[int, Server | Line]:
    """Return this process's number, and what connects it: on 0 the server, on 1 to n the line to it. Once a launch.

    The server waits so many seconds for its workers, and goes on without those that did not come.

    Raises:
        ValueError: if seconds is not in (0, inf), or this is not one of at least two processes that were started
            together.
        ConnectionError: if no worker came, or the server did not.

    Source: the documentation of torch.distributed, "Initialization", for the four variables.
    """
    seconds = arguments.real("seconds", seconds, 0.0, low_open=True)
    if int(os.environ.get("WORLD_SIZE", "0")) < 2:
        raise ValueError(
            "connect must run in one of at least two processes that were started together, got no WORLD_SIZE of 2 or "
            "more: torchrun --nproc-per-node 5 ..."
        )
    store, rank, size = next(rendezvous("env://", timeout=timedelta(seconds=seconds)))
    key = f"dpml.training.messages/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    address = os.environ["MASTER_ADDR"]
    if rank > 0:
        port, word = json.loads(store.get(key))
        try:
            line = Line(socket.create_connection((address, port), timeout=seconds))
            line.socket.sendall(bytes.fromhex(word) + rank.to_bytes(8, "little"))
        except OSError as error:
            raise ConnectionError(f"process {rank} found no server at {address}:{port}") from error
        return rank, line
    server, word = Server({}, size - 1, store=store), secrets.token_bytes(16)
    deadline = time.monotonic() + seconds
    with socket.create_server((address, 0), backlog=size) as door:
        store.set(key, json.dumps([door.getsockname()[1], word.hex()]))
        while len(server.lines) < server.n and (left := deadline - time.monotonic()) > 0.0:
            door.settimeout(left)
            try:
                line = Line(door.accept()[0])
                shown = bytes(line._read(24, min(deadline, time.monotonic() + 5.0)))
            except OSError:
                continue
            number = int.from_bytes(shown[16:], "little")
            if secrets.compare_digest(shown[:16], word) and 1 <= number <= server.n and number not in server.lines:
                line.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                server.lines[number] = line
            else:
                line.close()
    if not server.lines:
        raise ConnectionError(f"none of {server.n} workers came within {seconds:g} s")
    for number in sorted(set(range(1, server.n + 1)) - set(server.lines)):
        server.missed(0, number, f"did not come within {seconds:g} s")
    return 0, server


def answer(line: Line, respond: Callable[[int, Tensor], Tensor], *, like: Tensor, seconds: float) -> int:
    """Answer the server until there is nothing more to do, with ``respond(step, numbers)``; return how often it asked.

    `like` has as many numbers as the server sends, of their type. `seconds` is how long the server may be silent.

    Raises:
        ConnectionError: if the server is gone.
        TimeoutError: if it is silent for longer.

    Source: definition.
    """
    times = 0
    while True:
        step, numbers = line.receive(like=like, seconds=seconds)
        if step == LAST:
            return times
        line.send(step, respond(step, numbers), seconds=seconds)
        times += 1
