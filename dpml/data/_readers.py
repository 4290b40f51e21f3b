"""Read what is in the files: IDX, the zip archive of EMNIST, the pickles of CIFAR-10.

Only a file whose checksum is right comes here. It is the published one, so nothing in it is checked again.
"""

from __future__ import annotations

import gzip
import pickle
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpml.data.images import Images


def idx_files(paths: Sequence[Path]) -> Images:
    """Images from four IDX files, gzipped or not, in the order of the fields of Images."""
    return Images(*(_idx(path.read_bytes()) for path in paths))


def emnist_letters(path: Path) -> Images:
    """The letters from the archive of EMNIST, turned upright, with labels from 0."""
    arrays = []
    with zipfile.ZipFile(path) as archive:
        for part in ("train", "test"):
            images, labels = (
                _idx(archive.read(f"gzip/emnist-letters-{part}-{kind}-ubyte.gz"))
                for kind in ("images-idx3", "labels-idx1")
            )
            arrays += [np.ascontiguousarray(images.transpose(0, 2, 1)), labels - np.uint8(1)]
    return Images(*arrays)


def cifar10(path: Path) -> Images:
    """The five training batches and the test batch from the archive of CIFAR-10: dicts with bytes as keys."""
    batches = {}
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:  # one pass: going back in a gzip stream means to start again
            if "_batch" in member.name and (stream := archive.extractfile(member)):
                batches[Path(member.name).name] = pickle.load(stream, encoding="bytes")
    arrays = []
    for names in ([f"data_batch_{i}" for i in range(1, 6)], ["test_batch"]):
        planes = np.concatenate([batches[name][b"data"] for name in names]).reshape(-1, 3, 32, 32)  # a plane a colour
        labels = np.concatenate([batches[name][b"labels"] for name in names]).astype(np.uint8)
        arrays += [np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels]
    return Images(*arrays)


def _idx(raw: bytes) -> NDArray[np.uint8]:
    """The array of an IDX file of bytes, gzipped or not.

    IDX: two zero bytes, the type (8: uint8), the number of axes, the length of each axis as a big-endian
    32-bit integer, then the elements.
    """
    raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    lengths = np.frombuffer(raw, ">u4", count=raw[3], offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(lengths).copy()
