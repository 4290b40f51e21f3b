"""The models: sizes, first weights, no mixing of examples, and images as tensors."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from dpml.data import fashion_mnist_subset
from dpml.training import models
from tests.training.helpers import refuses, seeded

MODELS = {"mlp": models.mlp, "tutorial_cnn": models.tutorial_cnn, "small_resnet": models.small_resnet}


def block(inputs, outputs):
    """Two convolutions of 3 by 3 without biases and their norms, and one of 1 by 1 where the channels change."""
    return 9 * inputs * outputs + 9 * outputs**2 + (inputs != outputs) * inputs * outputs + 4 * outputs


PARAMETERS = {
    "mlp": 784 * 100 + 100 + 100 * 10 + 10,
    "tutorial_cnn": 16 * 64 + 16 + 32 * 16 * 16 + 32 + 512 * 32 + 32 + 32 * 10 + 10,
    "small_resnet": 9 * 16 + 32 + block(16, 16) + block(16, 32) + block(32, 64) + 64 * 10 + 10,
}


@pytest.mark.parametrize(("name", "parameters"), PARAMETERS.items())
def test_sizes(name, parameters):
    model = MODELS[name](generator=seeded(0))
    assert sum(p.numel() for p in model.parameters()) == parameters
    assert f"{parameters:,}" in MODELS[name].__doc__
    assert model(torch.zeros(3, 1, 28, 28)).shape == (3, 10)
    assert not any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in model.modules())


@pytest.mark.parametrize("name", MODELS)
def test_the_generator_alone_decides_the_first_weights(name):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = MODELS[name](generator=seeded(7)).state_dict()
    assert torch.equal(torch.get_rng_state(), before), "the global generator was used"
    torch.manual_seed(2)
    again = MODELS[name](generator=seeded(7)).state_dict()
    other = MODELS[name](generator=seeded(8)).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


def test_first_weights_are_uniform_within_the_bound():
    weight = models.mlp(generator=seeded(0))[1].weight.detach()
    bound = 1 / math.sqrt(784)
    assert weight.abs().max() <= bound
    # 78,400 draws: mean within 6 standard errors, second moment within 6 of its own
    assert abs(weight.mean()) < 6 * bound / math.sqrt(3 * 78400)
    assert weight.square().mean() == pytest.approx(bound**2 / 3, rel=6 * math.sqrt(4 / 5 / 78400))


@pytest.mark.parametrize("name", MODELS)
def test_an_example_does_not_see_its_batch(name):
    model = MODELS[name](generator=seeded(0)).double()
    x = torch.randn(6, 1, 28, 28, generator=seeded(1), dtype=torch.float64)
    together = model(x)
    torch.testing.assert_close(together[2:3], model(x[2:3]), rtol=1e-12, atol=1e-12)
    (gradient,) = torch.autograd.grad(model(x.requires_grad_())[2].sum(), x)
    assert gradient[2].abs().max() > 0
    assert gradient[[0, 1, 3, 4, 5]].abs().max() == 0


def test_other_sizes():
    assert models.mlp(generator=seeded(0), features=5, hidden=3, classes=2)(torch.zeros(4, 5)).shape == (4, 2)
    assert models.tutorial_cnn(generator=seeded(0), classes=3)(torch.zeros(1, 1, 28, 28)).shape == (1, 3)
    assert models.small_resnet(generator=seeded(0), channels=3)(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_to_tensors():
    pixels = np.array([0, 51, 255], dtype=np.uint8).repeat(4).reshape(3, 2, 2)
    x = models.to_tensors(pixels)
    assert (x.dtype, tuple(x.shape)) == (torch.float32, (3, 1, 2, 2))
    expected = (np.array([0.0, 0.2, 1.0]) - 0.3) / 0.35
    np.testing.assert_allclose(x[:, 0, 0, 0].numpy(), expected, rtol=1e-6)
    colours = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    y = models.to_tensors(colours)
    assert tuple(y.shape) == (2, 3, 4, 5)
    np.testing.assert_allclose(y[1, 2, 3, 4].item(), (colours[1, 3, 4, 2] / 255 - 0.3) / 0.35, rtol=1e-6)
    assert colours[0, 0, 0, 1] == 1, "the pixels are unchanged"


def test_to_labels():
    y = models.to_labels(np.array([3, 0, 9], dtype=np.uint8))
    assert y.dtype == torch.int64
    assert y.tolist() == [3, 0, 9]


def test_what_is_refused():
    arrays = np.zeros((2, 3)), np.zeros((2, 28, 28)), np.zeros((2, 784), np.uint8)
    refuses(models.to_tensors, {}, images=(None, "a", 1, *arrays, fashion_mnist_subset()))
    arrays = np.array([0.0, 1.0]), np.array([[1]]), np.array([1, -1])
    refuses(models.to_labels, {}, labels=(None, "a", 3, *arrays, [True, False]))
    for make in MODELS.values():
        refuses(make, {}, generator=(None, 0, np.random.default_rng(0)))
    good, no_count = {"generator": seeded(0)}, (0, 2.5, True, "10")
    refuses(models.mlp, good, features=no_count, hidden=no_count, classes=(1, *no_count))
    refuses(models.tutorial_cnn, good, classes=(1, *no_count))
    refuses(models.small_resnet, good, channels=no_count, classes=(1, *no_count))
