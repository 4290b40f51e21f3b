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


SUBSET_FOLDER = resources.files("dpml") / "datasets" / "fashion_mnist"
SUBSET = File("subset.npz", ("aa3aa1d4cbd96ab3d52486eecb3d904e62209f065604efaaef57ad2a9c3cd16b",))

# Debian leaves name and time out of the gzip header, hence a second checksum. With the two put back its files
# are the publisher's byte for byte (tests/test_data.py does this).
FASHION_MNIST = Source(
    title="Fashion-MNIST",
    folder="fashion-mnist",
    urls=(
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    ),
    files=(
        File(
            "train-images-idx3-ubyte.gz",
            (
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                "b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7",
            ),
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        ),
        File(
            "train-labels-idx1-ubyte.gz",
            (
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                "0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056",
            ),
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        ),
        File(
            "t10k-images-idx3-ubyte.gz",
            (
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                "cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa",
            ),
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        ),
        File(
            "t10k-labels-idx1-ubyte.gz",
            (
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                "8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05",
            ),
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
    ),
    system=(Path("/usr/share/datasets/fashion-mnist"),),
)

MNIST = Source(
    title="MNIST",
    folder="mnist",
    urls=(
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
    ),
    files=(
        File(
            "train-images-idx3-ubyte.gz",
            ("440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",),
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        ),
        File(
            "train-labels-idx1-ubyte.gz",
            ("3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",),
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        ),
        File(
            "t10k-images-idx3-ubyte.gz",
            ("8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",),
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        ),
        File(
            "t10k-labels-idx1-ubyte.gz",
            ("f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",),
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
    ),
)

EMNIST = Source(
    title="EMNIST",
    folder="emnist",
    urls=("https://biometrics.nist.gov/cs_links/EMNIST/",),
    files=(File("gzip.zip", ("fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e",)),),
)

CIFAR10 = Source(
    title="CIFAR-10",
    folder="cifar-10",
    urls=("https://www.cs.toronto.edu/~kriz/",),
    files=(File("cifar-10-python.tar.gz", ("6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",)),),
)
