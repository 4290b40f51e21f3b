"""Download one published file. pooch and its helpers are imported only here, when a file is missing."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from dpml.data._published import File, Source, sha256
from dpml.data.images import DataUnavailable


def download(source: Source, *, file: File, into: Path) -> Path:
    """The path of `file` in the folder `into`, from the first server that has it; DataUnavailable says why none had."""
    mirror = os.environ.get("DPML_DATA_URL")
    if mirror and not mirror.startswith(("http://", "https://")):
        raise ValueError(f"DPML_DATA_URL must start with http:// or https://, got {mirror!r}")
    reasons = []
    for server in (f"{mirror.rstrip('/')}/{source.folder}/",) if mirror else source.urls:
        try:
            return _from_server(server, file=file, into=into)
        except DataUnavailable as error:
            reasons.append(str(error))
    raise DataUnavailable("; ".join(dict.fromkeys(reasons)))  # a reason that is not the server's comes once


def _from_server(server: str, *, file: File, into: Path) -> Path:
    try:
        import pooch
        import requests  # pooch needs it, so it is there when pooch is
        import tqdm
    except ImportError as error:
        raise DataUnavailable(f"the Python package {error.name} is not installed") from error
    target = into / file.name
    try:
        into.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=into) as temporary:  # removed whatever happens, Ctrl-C included
            part = Path(temporary, "part")
            # pooch sets the total; it asks for the truth of the bar before, which tqdm refuses without one
            with tqdm.tqdm(desc=file.name, total=1, unit="B", unit_scale=True) as bar:
                fetch = pooch.HTTPDownloader(progressbar=bar, chunk_size=2**16, timeout=30)
                fetch(server + file.name, part, None)
            whole = sha256(part) in file.sha256
            if whole:
                part.replace(target)
    except requests.HTTPError as error:
        raise DataUnavailable(f"{server} answered {getattr(error.response, 'status_code', 'with an error')}") from error
    except requests.RequestException as error:
        raise DataUnavailable(f"no connection to {server}, or it broke off ({type(error).__name__})") from error
    except OSError as error:
        raise DataUnavailable(f"{into} cannot be written ({error.strerror or error})") from error
    if not whole:
        raise DataUnavailable(f"what {server} sent has not the right checksum")
    return target
