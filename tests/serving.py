"""A folder, served on this machine while a test reads it."""

import contextlib
import functools
import http.server
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


class Quiet(http.server.SimpleHTTPRequestHandler):
    """It prints nothing."""

    def log_message(self, *_args: Any) -> None:
        pass


@contextlib.contextmanager
def served(folder: Path, handler: Callable[..., Any] = Quiet) -> Iterator[str]:
    """The address without the last slash."""
    make = functools.partial(handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), make) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
