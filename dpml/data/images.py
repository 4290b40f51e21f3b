"""What a loader returns, and what it raises."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class DataUnavailable(OSError):  # noqa: N818
    """A data file is neither on this machine nor to be had, or what lies in its place is another file."""


class Images(NamedTuple):
    """Labelled images. All arrays are fresh copies of type uint8; pixels run from 0 (black) to 255, in `digits` to 16.

    Attributes:
        train_images: shape (N, 28, 28) or (N, 8, 8), or (N, 32, 32, 3) with the colours red, green, blue last.
        train_labels: shape (N,), class numbers from 0.
        test_images: the same with M images.
        test_labels: shape (M,), class numbers from 0.
    """

    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.uint8]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.uint8]
