"""Find the files of a set on this machine, and download the missing ones.

pooch and its helpers are imported only when a file is missing.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from dpml.data._published import File, Source, sha256
from dpml.data.images import DataUnavailable


def find(source: Source, *, folder: str | os.PathLike[str] | None) -> list[Path]:
    """The files of `source`, each with the right checksum, in the order of `source.files`."""
    given = [] if folder is None else [_existing(folder), _existing(folder) / source.folder]
    cache = Path(os.environ.get("DPML_DATA") or "~/.cache/dpml").expanduser() / source.folder
    found: dict[str, Path] = {}
    missing: list[File] = []
    reasons: list[str] = []
    for file in source.files:
        path, damaged = _whole(file, places=given)
        if damaged:  # you pointed here: say so, rather than look elsewhere
            expected = " or ".join(dict(file.forms())[damaged[0].name])
            raise DataUnavailable(
                f"{damaged[0]} is not the {source.title} file of that name, or it is damaged: its sha256 is "
                f"{sha256(damaged[0])}, expected {expected}."
            )
        if path is None:
            path, damaged = _whole(file, places=[*source.system, cache])
        if path is None:
            missing.append(file)
            reasons += [f"{one} is damaged" for one in damaged]
        else:
            found[file.name] = path
    for done, file in enumerate(missing):
        try:
            found[file.name] = _download(source, file=file, into=cache)
        except DataUnavailable as error:
            wanted = ", ".join(f"{one.name} (sha256 {one.sha256[0]})" for one in missing[done:])
            raise DataUnavailable(
                f"{source.title} is not on this machine and was not downloaded: {'; '.join([str(error), *reasons])}. "
                f"To add it by hand, put {wanted} into {cache}, or pass the folder that holds them as folder=. "
                f"Published at {' and '.join(source.urls)}."
            ) from None  # its reasons are in the message
    return [found[file.name] for file in source.files]


def _whole(file: File, *, places: Iterable[Path]) -> tuple[Path | None, Sequence[Path]]:
    """The first whole copy of `file`; where there is none, None and the damaged copies."""
    damaged = []
    for place in places:
        for name, checksums in file.forms():
            path = place / name
            if path.is_file():
                if sha256(path) in checksums:
                    return path, ()
                damaged.append(path)
    return None, damaged


def _existing(folder: str | os.PathLike[str]) -> Path:
    try:
        path = Path(folder).expanduser()
        exists = folder != "" and path.is_dir()
    except (TypeError, ValueError, RuntimeError):  # no path at all; a null character; ~ of an unknown user
        exists = False
    if not exists:
        raise ValueError(f"folder must be the path of an existing folder, got {folder!r}")
    return path


def _download(source: Source, *, file: File, into: Path) -> Path:
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
