"""What is published: the files of each set, their addresses and their SHA-256."""

from __future__ import annotations

import hashlib
from importlib import resources
from pathlib import Path
from typing import NamedTuple


class File(NamedTuple):
    """A published file; `sha256` has the publisher's checksum, then those of repackaged forms of the same content.

    `unpacked` is the checksum of what is in a .gz file. Where it is given, the file may also lie there unpacked, under
    its name without .gz, as many programs leave it.
    """

    name: str
    sha256: tuple[str, ...]
    unpacked: str | None = None

    def forms(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Names, each with the checksums that count for it."""
        packed = (self.name, self.sha256)
        return (packed,) if self.unpacked is None else (packed, (self.name.removesuffix(".gz"), (self.unpacked,)))


class Source(NamedTuple):
    """A set: the subfolder of its files, the addresses that publish them, and where a system package puts them."""

    title: str
    folder: str
    urls: tuple[str, ...]
    files: tuple[File, ...]
    system: tuple[Path, ...] = ()


def sha256(path: Path) -> str:
    """Return the checksum of the file at `path`, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


DATASETS = resources.files("dpml") / "datasets"
SUBSET = File("fashion_mnist/subset.npz", ("aa3aa1d4cbd96ab3d52486eecb3d904e62209f065604efaaef57ad2a9c3cd16b",))
DIGITS = File("digits/digits.npz", ("0fd4eeab1ffa217031daf51bb60987877588f6e5c64a510ae6f50bc6897f248d",))


def _files(folder: str) -> tuple[File, ...]:
    """The files of this subfolder with their checksums, from the list that comes with the package."""
    lines = (DATASETS / "published" / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    checksums: dict[str, tuple[str, ...]] = {}
    for checksum, path in (line.split() for line in lines if not line.startswith("#")):
        place, name = path.split("/")
        if place == folder:
            checksums[name] = (*checksums.get(name, ()), checksum)
    unpacked = {f"{name}.gz": known[0] for name, known in checksums.items() if f"{name}.gz" in checksums}
    offered = [name for name in checksums if f"{name}.gz" not in unpacked]
    return tuple(File(name, checksums[name], unpacked.get(name)) for name in offered)


FASHION_MNIST = Source(
    title="Fashion-MNIST",
    folder="fashion-mnist",
    urls=(
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    ),
    files=_files("fashion-mnist"),
    system=(Path("/usr/share/datasets/fashion-mnist"),),
)
MNIST = Source(
    title="MNIST",
    folder="mnist",
    urls=(
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
    ),
    files=_files("mnist"),
)
EMNIST = Source("EMNIST", "emnist", ("https://biometrics.nist.gov/cs_links/EMNIST/",), _files("emnist"))
CIFAR10 = Source("CIFAR-10", "cifar-10", ("https://www.cs.toronto.edu/~kriz/",), _files("cifar-10"))
