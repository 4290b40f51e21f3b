"""Read what is in the files: IDX, the zip archive of EMNIST, the pickles of CIFAR-10.

The checksums are verified before; still each reader checks what it reads, and names the file that is not as expected.
"""

from __future__ import annotations

import gzip
import io
import math
import pickle
import tarfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml.data.images import DataUnavailable, Images


def idx_files(paths: Sequence[Path]) -> Images:
    """Images of 10 classes from four IDX files, gzipped or not, in the order of the fields of Images."""
    shapes = ((28, 28), (), (28, 28), ())
    arrays = []
    for path, shape in zip(paths, shapes, strict=True):
        content = path.read_bytes()
        raw = _unpacked(content, name=str(path)) if path.suffix == ".gz" else content
        arrays.append(_idx(raw, name=str(path), shape=shape))
    return _matched(Images(*arrays), n_classes=10, name=str(paths[0].parent))


def emnist_letters(path: Path) -> Images:
    """The letters from the archive of EMNIST, turned upright, with labels from 0."""
    arrays = []
    try:
        with zipfile.ZipFile(path) as archive:
            for part in ("train", "test"):
                for kind, shape in (("images-idx3", (28, 28)), ("labels-idx1", ())):
                    name = f"gzip/emnist-letters-{part}-{kind}-ubyte.gz"
                    where = f"{name} in {path}"
                    arrays.append(_idx(_unpacked(archive.read(name), name=where), name=where, shape=shape))
                if not np.all((arrays[-1] >= 1) & (arrays[-1] <= 26)):
                    raise DataUnavailable(f"{name} in {path} holds a label outside 1 to 26")
                arrays[-2:] = [np.ascontiguousarray(arrays[-2].transpose(0, 2, 1)), arrays[-1] - np.uint8(1)]
    except (KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise DataUnavailable(f"{path} is not the EMNIST archive: {error}") from error
    return _matched(Images(*arrays), n_classes=26, name=str(path))


def cifar10(path: Path) -> Images:
    """The five training batches and the test batch from the archive of CIFAR-10."""
    names = [*(f"cifar-10-batches-py/data_batch_{i}" for i in range(1, 6)), "cifar-10-batches-py/test_batch"]
    content: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:  # one pass: going back in a gzip stream means to start again
                stream = archive.extractfile(member) if member.name in names else None
                if stream is not None:
                    content[member.name] = stream.read()
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataUnavailable(f"{path} is not the CIFAR-10 archive: {error}") from error
    absent = [name for name in names if name not in content]
    if absent:
        raise DataUnavailable(f"{path} is not the CIFAR-10 archive: {', '.join(absent)} is not in it")
    *train, test = (_cifar_batch(content[name], name=f"{name} in {path}") for name in names)
    images, labels = zip(*train, strict=True)
    return _matched(Images(np.concatenate(images), np.concatenate(labels), *test), n_classes=10, name=str(path))


def _unpacked(packed: bytes, *, name: str) -> bytes:
    """What is in a gzip file."""
    try:
        return gzip.decompress(packed)
    except (OSError, EOFError, zlib.error) as error:
        raise DataUnavailable(f"{name} is not a whole gzip file: {error}") from error


def _idx(raw: bytes, *, name: str, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """The array of an IDX file of bytes whose records have this shape.

    IDX: two zero bytes, the type (8: uint8), the number of axes, the length of each axis as a big-endian
    32-bit integer, then the elements.
    """
    axes = 1 + len(shape)
    start = 4 + 4 * axes
    if raw[:4] != bytes((0, 0, 8, axes)) or len(raw) < start:
        raise DataUnavailable(
            f"{name} does not begin with the IDX header of a uint8 array with {axes} axes: {raw[:4].hex(' ')}"
        )
    lengths = tuple(np.frombuffer(raw, ">u4", count=axes, offset=4).tolist())
    if lengths[1:] != shape or lengths[0] < 1:
        raise DataUnavailable(f"{name} must hold records of shape {shape}, its header says {lengths}")
    if len(raw) - start != math.prod(lengths):
        raise DataUnavailable(f"{name} must hold {math.prod(lengths)} elements, it holds {len(raw) - start}")
    return np.frombuffer(raw, np.uint8, offset=start).reshape(lengths).copy()


class _ArraysOnly(pickle.Unpickler):
    """Opens a pickle of NumPy arrays and plain values. Any other global in it is refused, never called."""

    _reconstruct = np.empty(0).__reduce__()[0]
    _known = {  # noqa: RUF012
        ("numpy.core.multiarray", "_reconstruct"): _reconstruct,  # the name before NumPy 2
        ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._known:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return self._known[module, name]


def _cifar_batch(pickled: bytes, *, name: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images (n, 32, 32, 3) and labels (n,) of one batch, a dict with bytes as keys (from Python 2)."""
    try:
        batch = _ArraysOnly(io.BytesIO(pickled), encoding="bytes").load()
        data, labels = batch[b"data"], np.asarray(batch[b"labels"])
        whole = data.dtype == np.uint8 and data.shape == (len(labels), 3072) and labels.dtype.kind == "i"
    except Exception as error:  # a pickle can fail in any way
        raise DataUnavailable(f"{name} is not a batch of CIFAR-10: {error}") from error
    if not (whole and labels.ndim == 1 and np.all((labels >= 0) & (labels < 10))):
        raise DataUnavailable(f"{name} is not a batch of CIFAR-10: wrong shapes, types or labels")
    planes = data.reshape(-1, 3, 32, 32)  # three colour planes for each image
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels.astype(np.uint8)


def _matched(images: Images, *, n_classes: int, name: str) -> Images:
    """`images`, when each image has one label below `n_classes`."""
    for part, labels in (images[:2], images[2:]):
        if len(part) != len(labels) or labels.max() >= n_classes:
            raise DataUnavailable(
                f"{name} must hold one label from 0 to {n_classes - 1} for each image: {len(part)} images, "
                f"{len(labels)} labels, the largest {labels.max()}"
            )
    return images
