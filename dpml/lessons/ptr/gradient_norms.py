"""Real lengths of per-example gradients: softmax regression on images of the shipped Fashion-MNIST subset."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpml import data

__all__ = ["Norms", "gradient_norms"]


class Norms(NamedTuple):
    """Lengths of the gradients of one batch of 256 images, before training and after it."""

    start: NDArray[np.float64]
    trained: NDArray[np.float64]


@cache
def gradient_norms() -> Norms:
    """Return the norms for images 2000 to 2255; the model is trained on the first 2,000, in 150 steps of full batches.

    The gradient of one example is (p - onehot(y)) times (x, 1), so its length is the product of two lengths.
    """
    images = data.fashion_mnist_subset()
    x = images.train_images[:2256].reshape(2256, -1) / 255.0
    x = np.hstack([x, np.ones((2256, 1))])
    y = np.eye(10)[images.train_labels[:2256]]
    weights = np.zeros((785, 10))
    start = _norms(x[2000:], y[2000:], weights)
    for _ in range(150):
        weights -= 0.05 * x[:2000].T @ (_softmax(x[:2000] @ weights) - y[:2000]) / 2000
    return Norms(start, _norms(x[2000:], y[2000:], weights))


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _norms(x: NDArray[np.float64], y: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    errors = _softmax(x @ weights) - y
    return np.asarray(np.sqrt((errors**2).sum(axis=1) * (x**2).sum(axis=1)))
