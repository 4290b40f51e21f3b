r"""Three small models for images, images as tensors, and the accuracy of a model.

.. math::

    x = \frac{\text{pixel}/255 - 0.3}{0.35}, \qquad
    W_{ij},\, b_i \sim U\Bigl(-\tfrac{1}{\sqrt{d}},\ \tfrac{1}{\sqrt{d}}\Bigr),

where d is the number of inputs of one unit. The two constants are round numbers fixed in advance for every data set:
they cost no privacy. A mean and a deviation computed from the private images would be answers about those images.

Each model takes a ``torch.Generator`` for its first weights and leaves the global generator of PyTorch alone: the same
seed gives the same weights, whatever ran before. The model lives on the generator's device. None of the layers mixes
examples (GroupNorm in place of BatchNorm), so that the gradient of one example depends on this example only.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn

from dpml import arguments
from dpml.training import _checks

__all__ = ["MEAN", "STANDARD_DEVIATION", "accuracy", "mlp", "small_resnet", "to_labels", "to_tensors", "tutorial_cnn"]

MEAN = 0.3
"""What `to_tensors` subtracts from a pixel in [0, 1]."""

STANDARD_DEVIATION = 0.35
"""By what `to_tensors` divides the difference."""


def to_tensors(images: ArrayLike) -> torch.Tensor:
    """Return images as a float32 tensor of shape (N, channels, height, width), standardised by fixed constants.

    `images` is an array of type uint8, of shape (N, height, width) or (N, height, width, channels), as in
    `dpml.data.Images`; its values run from 0 to 255, those of the result from -0.857 to 2.

    Raises:
        ValueError: for another type or shape, among them values that someone already divided by 255.

    Source: definition; the constants are this package's.
    """
    pixels = np.asarray(images) if isinstance(images, np.ndarray | list) else None
    if pixels is None or pixels.dtype != np.uint8 or pixels.ndim not in (3, 4) or hasattr(images, "mask"):
        allowed = "an array of type uint8 and of shape (N, height, width) or (N, height, width, channels), for example "
        arguments.refuse("images", f"{allowed}fashion_mnist_subset().train_images", images)
    channels_first = pixels[:, None] if pixels.ndim == 3 else pixels.transpose(0, 3, 1, 2)
    x = torch.from_numpy(np.ascontiguousarray(channels_first)).to(torch.float32)
    return x.div_(255.0).sub_(MEAN).div_(STANDARD_DEVIATION)


def to_labels(labels: ArrayLike) -> torch.Tensor:
    """Return class numbers as an int64 tensor of shape (N,), the type that PyTorch's losses want.

    Raises:
        ValueError: unless labels is a one-dimensional array of integers >= 0.

    Source: definition.
    """
    values = np.asarray(labels) if isinstance(labels, np.ndarray | list | tuple) else None
    if values is None or values.ndim != 1 or values.dtype.kind not in "iu" or hasattr(labels, "mask"):
        arguments.refuse("labels", "a one-dimensional array of integers >= 0", labels)
    if values.size and int(values.min()) < 0:
        raise ValueError(f"labels must be a one-dimensional array of integers >= 0, got an element {values.min()}")
    return torch.from_numpy(values.astype(np.int64))


def mlp(*, generator: torch.Generator, features: int = 784, hidden: int = 100, classes: int = 10) -> nn.Sequential:
    """Return a network with one hidden layer of ReLU units, for images or vectors of `features` numbers.

    With the defaults 79,510 parameters. Input (N, ...) with `features` numbers for each example, output (N, classes).

    Raises:
        ValueError: if a size is not an integer >= 1 (classes >= 2), or generator not a torch.Generator.

    Source: Abadi et al., "Deep learning with differential privacy", CCS 2016, section 5.2, without their PCA layer.
    """
    features = arguments.integer("features", features, 1)
    hidden = arguments.integer("hidden", hidden, 1)
    classes = arguments.integer("classes", classes, 2)
    with torch.device("meta"):
        model = nn.Sequential(nn.Flatten(), nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, classes))
    return _with_first_weights(model, generator)


def tutorial_cnn(*, generator: torch.Generator, classes: int = 10) -> nn.Sequential:
    """Return the small convolutional network of the usual DP-SGD tutorials, for images of 28 x 28 grey pixels.

    Two convolutions (16 channels of 8 x 8, 32 of 4 x 4, stride 2) with pooling, then 32 hidden units: 26,010
    parameters for 10 classes. Input (N, 1, 28, 28), output (N, classes).

    Raises:
        ValueError: if classes is not an integer >= 2, or generator not a torch.Generator.

    Source: the architecture of the MNIST tutorials of TensorFlow Privacy and of Opacus.
    """
    classes = arguments.integer("classes", classes, 2)
    with torch.device("meta"):
        model = nn.Sequential(
            nn.Conv2d(1, 16, kernel_size=8, stride=2, padding=3),
            nn.ReLU(),
            nn.MaxPool2d(kernel_size=2, stride=1),
            nn.Conv2d(16, 32, kernel_size=4, stride=2),
            nn.ReLU(),
            nn.MaxPool2d(kernel_size=2, stride=1),
            nn.Flatten(),
            nn.Linear(32 * 4 * 4, 32),
            nn.ReLU(),
            nn.Linear(32, classes),
        )
    return _with_first_weights(model, generator)


class _Block(nn.Module):
    """x + two convolutions with GroupNorm; the skip path is a 1 x 1 convolution where the shape changes."""

    def __init__(self, channels_in: int, channels: int, stride: int, groups: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False),
            nn.GroupNorm(groups, channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, 1, 1, bias=False),
            nn.GroupNorm(groups, channels),
        )
        same = channels_in == channels and stride == 1
        self.skip = nn.Identity() if same else nn.Conv2d(channels_in, channels, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.path(x) + self.skip(x))


def small_resnet(*, generator: torch.Generator, channels: int = 1, classes: int = 10) -> nn.Sequential:
    """Return a residual network of three blocks (16, 32, 64 channels) with GroupNorm, 4 channels a group.

    For images of any size with `channels` colours: input (N, channels, height, width), output (N, classes). With the
    defaults 77,562 parameters. BatchNorm, usual in such networks, is left out: it mixes the examples of a batch.

    Raises:
        ValueError: if channels is not an integer >= 1, classes not >= 2, or generator not a torch.Generator.

    Source: He, Zhang, Ren and Sun, "Deep residual learning for image recognition", CVPR 2016, section 4.2, made
    smaller; Wu and He, "Group normalization", ECCV 2018.
    """
    channels = arguments.integer("channels", channels, 1)
    classes = arguments.integer("classes", classes, 2)
    with torch.device("meta"):
        model = nn.Sequential(
            nn.Conv2d(channels, 16, 3, 1, 1, bias=False),
            nn.GroupNorm(4, 16),
            nn.ReLU(),
            _Block(16, 16, 1, 4),
            _Block(16, 32, 2, 8),
            _Block(32, 64, 2, 16),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, classes),
        )
    return _with_first_weights(model, generator)


def accuracy(model: nn.Module, x: torch.Tensor, *, y: torch.Tensor, size: int = 1000) -> float:
    """Return the fraction of the rows of `x` for which the largest output of `model` is at the place `y`.

    In evaluation mode, without gradients, `size` rows at a time. The mode of every module is put back.

    Raises:
        ValueError: if x and y are not tensors of as many rows, size is not an integer >= 1, or outputs and labels are
            not those of a classifier: outputs (N, classes) of two classes or more, labels (N,) in [0, classes).

    Source: definition.
    """
    _checks.examples(x, y)
    size = arguments.integer("size", size, 1)
    device = next(model.parameters()).device
    with _checks.evaluated(model), torch.no_grad():
        right = torch.zeros((), dtype=torch.int64, device=device)
        for some_x, some_y in zip(torch.split(x, size), torch.split(y, size), strict=True):
            outputs, labels = model(some_x.to(device, copy=True)), some_y.to(device)
            _checks.classified(outputs, labels, name="y")
            right += (outputs.argmax(1) == labels).sum()
    return int(right) / len(y)


def _with_first_weights(model: nn.Sequential, generator: Any) -> nn.Sequential:
    """The model, built on the meta device so that nothing was drawn yet, with weights drawn from `generator`."""
    if not isinstance(generator, torch.Generator):
        arguments.refuse("generator", "a torch.Generator, for example torch.Generator().manual_seed(0)", generator)
    model.to_empty(device=generator.device)
    with torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, nn.Linear | nn.Conv2d):
                bound = 1.0 / math.sqrt(layer.weight[0].numel())
                for parameter in layer.parameters(recurse=False):
                    parameter.uniform_(-bound, bound, generator=generator)
            elif isinstance(layer, nn.GroupNorm):
                layer.weight.fill_(1.0)
                layer.bias.fill_(0.0)
    return model
