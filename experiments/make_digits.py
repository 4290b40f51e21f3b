"""Make the set of small digits that comes with the package, or check it.

    python3 -m experiments.make_digits             # write dpml/datasets/digits/digits.npz
    python3 -m experiments.make_digits --check     # compare that file with a new one, byte by byte

Run it from the root of the repository. The 1,797 images lie in the wheel of scikit-learn, as a table of numbers; the
script has pip download that wheel into a temporary folder, or reads the one that `--wheel` names. Nothing of it is
installed. The rule: all images in the order of that table, the first 1,437 for training and the last 360 for testing.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from dpml import data
from dpml.command_line import any_console
from experiments.make_fashion_subset import written_or_compared

TABLE = "sklearn/datasets/data/digits.csv.gz"
SHA256 = "09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22"
TRAIN = 1437
TARGET = Path(__file__).resolve().parent.parent / "dpml" / "datasets" / "digits" / "digits.npz"


def images_of(wheel: Path) -> data.Images:
    """The images in a wheel of scikit-learn: 64 pixels and the label in each row of a table.

    Source: the rule of dpml/datasets/digits/README.md.
    """
    with zipfile.ZipFile(wheel) as archive:
        packed = archive.read(TABLE)
    if hashlib.sha256(packed).hexdigest() != SHA256:
        raise SystemExit(f"{TABLE} in {wheel} is not the table that this set was made from (sha256 {SHA256})")
    rows = np.array([line.split(",") for line in gzip.decompress(packed).decode().split()], np.uint8)
    pixels, labels = rows[:, :64].reshape(-1, 8, 8), rows[:, 64]
    return data.Images(pixels[:TRAIN], labels[:TRAIN], pixels[TRAIN:], labels[TRAIN:])


def main() -> int:
    parser = argparse.ArgumentParser(description="Make or check the set of small digits.")
    parser.add_argument("--wheel", type=Path, help="a wheel of scikit-learn; else pip downloads one")
    parser.add_argument("--check", action="store_true", help="write nothing; compare with the present file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wheel = options.wheel
        if wheel is None:
            words = ["download", "--no-deps", "--only-binary", ":all:", "-q", "-d", folder, "scikit-learn"]
            subprocess.run([sys.executable, "-m", "pip", *words], check=True)
            [wheel] = Path(folder).glob("*.whl")
        return written_or_compared(images_of(wheel), target=TARGET, check=options.check)


if __name__ == "__main__":
    any_console()
    sys.exit(main())
