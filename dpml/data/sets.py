"""The sets of images, one function each."""

from __future__ import annotations

import hashlib
import io
import os

import numpy as np

from dpml.data import _places, _published, _readers
from dpml.data.images import DataUnavailable, Images


def fashion_mnist_subset() -> Images:
    """Return 10,000 training and 2,000 test images of Fashion-MNIST, 1,000 and 200 of each class.

    They come with the package: no network, about 0.05 s. They are the first 1,000 (200) of each class in the
    full training (test) set, in the order of that set. Labels are named by `FASHION_CLASSES`.

    Returns:
        Images with train_images (10000, 28, 28) and test_images (2000, 28, 28).

    Raises:
        DataUnavailable: when the shipped file is missing or altered.

    Source: Xiao, Rasul and Vollgraf, Fashion-MNIST, arXiv:1708.07747 (2017).
    """
    return _shipped(_published.SUBSET)


def digits() -> Images:
    """Return 1,437 training and 360 test images of handwritten digits, 8 x 8 pixels from 0 to 16; the label is the
    digit.

    They come with the package: no network, a millisecond. They are all images of the set, in its order.

    Returns:
        Images with train_images (1437, 8, 8) and test_images (360, 8, 8).

    Raises:
        DataUnavailable: when the shipped file is missing or altered.

    Source: Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository (1998).
    """
    return _shipped(_published.DIGITS)


def fashion_mnist(folder: str | os.PathLike[str] | None = None) -> Images:
    """Return the 60,000 training and 10,000 test images of Fashion-MNIST; labels as in `FASHION_CLASSES`.

    Args:
        folder: an existing folder to look in first. The docstring of `dpml.data` lists the other places.

    Returns:
        Images with train_images (60000, 28, 28) and test_images (10000, 28, 28).

    Raises:
        ValueError: when `folder` is not an existing folder.
        DataUnavailable: when a file is not to be had, or is not the published one.

    Source: Xiao, Rasul and Vollgraf, Fashion-MNIST, arXiv:1708.07747 (2017).
    """
    return _readers.idx_files(_places.find(_published.FASHION_MNIST, folder=folder))


def mnist(folder: str | os.PathLike[str] | None = None) -> Images:
    """Return the 60,000 training and 10,000 test images of handwritten digits; the label is the digit.

    Args:
        folder: an existing folder to look in first. The docstring of `dpml.data` lists the other places.

    Returns:
        Images with train_images (60000, 28, 28) and test_images (10000, 28, 28).

    Raises:
        ValueError: when `folder` is not an existing folder.
        DataUnavailable: when a file is not to be had, or is not the published one.

    Source: LeCun, Bottou, Bengio and Haffner, Gradient-based learning applied to document recognition (1998).
    """
    return _readers.idx_files(_places.find(_published.MNIST, folder=folder))


def emnist_letters(folder: str | os.PathLike[str] | None = None) -> Images:
    """Return the handwritten letters of EMNIST, upright, labels 0 to 25 for a to z.

    The published files hold each image transposed and the labels 1 to 26; both are put right here. The
    archive is large (about 560 MB) and holds the other parts of EMNIST too.

    Args:
        folder: an existing folder to look in first. The docstring of `dpml.data` lists the other places.

    Returns:
        Images with train_images (N, 28, 28) and test_images (M, 28, 28).

    Raises:
        ValueError: when `folder` is not an existing folder.
        DataUnavailable: when the archive is not to be had, or is not the published one.

    Source: Cohen, Afshar, Tapson and van Schaik, EMNIST, arXiv:1702.05373 (2017).
    """
    return _readers.emnist_letters(*_places.find(_published.EMNIST, folder=folder))


def cifar10(folder: str | os.PathLike[str] | None = None) -> Images:
    """Return the 50,000 training and 10,000 test colour images of CIFAR-10, labels 0 to 9.

    The published archive holds pickles. They are opened after its checksum is verified.

    Args:
        folder: an existing folder to look in first. The docstring of `dpml.data` lists the other places.

    Returns:
        Images with train_images (50000, 32, 32, 3) and test_images (10000, 32, 32, 3).

    Raises:
        ValueError: when `folder` is not an existing folder.
        DataUnavailable: when the archive is not to be had, or is not the published one.

    Source: Krizhevsky, Learning multiple layers of features from tiny images (2009).
    """
    return _readers.cifar10(*_places.find(_published.CIFAR10, folder=folder))


def _shipped(file: _published.File) -> Images:
    """The images in a file that comes with the package."""
    path = _published.DATASETS / file.name
    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() not in file.sha256:
        raise DataUnavailable(
            f"{path} is missing or altered (expected sha256 {file.sha256[0]}). "
            "Install the package again, or restore this file from the repository."
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return Images(*(arrays[name] for name in Images._fields))
