"""Make the part of Fashion-MNIST that comes with the package, or check it.

    python3 -m experiments.make_fashion_subset             # write dpml/datasets/fashion_mnist/subset.npz
    python3 -m experiments.make_fashion_subset --check     # compare that file with a new one, byte by byte

Run it from the root of the repository. The rule: the first 1,000 training images and the first 200 test
images of each class, in the order of the full set. `dpml.data.fashion_mnist` finds the full set; `--folder`
names a folder with its four files.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import sys
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpml import data
from dpml.command_line import any_console

TRAIN_PER_CLASS = 1000
TEST_PER_CLASS = 200
TARGET = Path(__file__).resolve().parent.parent / "dpml" / "datasets" / "fashion_mnist" / "subset.npz"


def first_of_each_class(labels: NDArray[np.uint8], *, per_class: int) -> NDArray[np.intp]:
    """Positions of the first `per_class` records of each label, in ascending order.

    Source: the rule of dpml/datasets/fashion_mnist/README.md.
    """
    chosen = [np.flatnonzero(labels == label)[:per_class] for label in np.unique(labels)]
    return np.sort(np.concatenate(chosen))


def packed(images: data.Images) -> bytes:
    """The bytes of an .npz file with the four arrays.

    ``numpy.savez_compressed`` would record which operating system wrote the file; here all fields of the zip
    entries are fixed, so that the same arrays give the same bytes.

    Source: the NPZ format of NumPy: a zip file of .npy files.
    """
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, array in images._asdict().items():
            npy = io.BytesIO()
            np.lib.format.write_array(npy, array, version=(1, 0), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, npy.getvalue(), compress_type=zipfile.ZIP_DEFLATED, compresslevel=6)
    return out.getvalue()


def written_or_compared(images: data.Images, *, target: Path, check: bool) -> int:
    """Write the images to `target`, or compare it with them; 0 where the file is, or was, these bytes.

    Source: the READMEs in dpml/datasets.
    """
    content = packed(images)
    checksum = hashlib.sha256(content).hexdigest()
    counts = f"{len(images.train_labels)} + {len(images.test_labels)} images"
    print(f"{counts}, {len(content)} bytes, sha256 {checksum}")
    if not check:
        target.write_bytes(content)
        print(f"wrote {target}")
        return 0
    present = target.read_bytes()
    if present == content:
        print("the same bytes")
        return 0
    with np.load(io.BytesIO(present), allow_pickle=False) as arrays:
        same = set(arrays) == set(images._fields) and all(
            np.array_equal(arrays[name], array) for name, array in images._asdict().items()
        )
    print("the same images, compressed by another zlib" if same else "other images: not made by this rule")
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(description="Make or check the Fashion-MNIST subset.")
    parser.add_argument("--folder", help="folder with the four files of Fashion-MNIST")
    parser.add_argument("--check", action="store_true", help="write nothing; compare with the present file")
    options = parser.parse_args()

    full = data.fashion_mnist(options.folder)
    train = first_of_each_class(full.train_labels, per_class=TRAIN_PER_CLASS)
    test = first_of_each_class(full.test_labels, per_class=TEST_PER_CLASS)
    subset = data.Images(
        full.train_images[train], full.train_labels[train], full.test_images[test], full.test_labels[test]
    )
    return written_or_compared(subset, target=TARGET, check=options.check)


if __name__ == "__main__":
    any_console()
    sys.exit(main())
