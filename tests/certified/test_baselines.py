"""PixelDP and SecureSGD-AGM: noise on inputs, the certificate by the analytic Gaussian mechanism."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from dpml.certified import pixeldp
from dpml.certified.stobatch import baselines
from dpml.mechanisms import gaussian_epsilon
from dpml.training import dp_sgd, sgd
from dpml.training.sampling import Poisson
from tests.certified.test_central import X, Y, network
from tests.training.helpers import cross_entropy, refuses


def train(model, x=X[:1437], mechanism=None, **changes):
    given = {"mechanism": mechanism or sgd(), "sampling": Poisson(q=0.1, expected_batch=144), "steps": 150}
    given |= {"optimizer": torch.optim.SGD(model.parameters(), lr=0.5), "delta": 1e-5, "noise": 0.5}
    given |= {"generator": torch.Generator().manual_seed(0), "loss_fn": cross_entropy, "trace_every": 150, **changes}
    return baselines.train_on_noisy(model, x, Y[: len(x)], **given)


@pytest.fixture(scope="module")
def model():
    return train(network()).model


def certify(model, x, **changes):
    given = {"noise": 0.5, "draws": 1000, "eta": 1e-3, "delta": 1e-5, "rng": np.random.default_rng(0), **changes}
    return baselines.certify(model, x, **given)


def test_the_certificate_is_the_condition_at_its_size(model):
    """At 0.999 of the size the condition of PixelDP holds with the exact epsilon of the noise; at 1.001 it does not."""
    found = certify(model, X[1437:1537])
    drawn = torch.Generator().manual_seed(int(np.random.default_rng(0).integers(2**62)))
    with torch.no_grad():
        total = sum(
            functional.softmax(model(X[1437:1537] + 0.5 * torch.empty(100, 64).normal_(generator=drawn)), 1).double()
            for _ in range(1000)
        )
    means = (total / 1000).numpy()
    first = pixeldp.leader(pixeldp.hoeffding_limits(means, draws=1000, eta=1e-3))
    assert np.array_equal(found.labels, means.argmax(1))
    some = np.flatnonzero(found.sizes > 0)[:10]
    assert len(some) == 10
    for i in some:
        for factor, holds in ((0.999, True), (1.001, False)):
            epsilon = gaussian_epsilon(sigma=0.5 / (factor * found.sizes[i]), delta=1e-5)
            assert pixeldp.condition(first.lower[i], upper=first.upper[i], epsilon=epsilon, delta=1e-5) == holds


def test_secure_sgd_agm_has_the_guarantee_of_dp_sgd_and_pixeldp_none():
    private = train(network(), mechanism=dp_sgd(sigma=2.0, clip_norm=1.0), steps=20)
    wanted = {"sampling": Poisson(q=0.1, expected_batch=144), "n": 1437, "steps": 20, "delta": 1e-5}
    assert private.guarantee == dp_sgd(sigma=2.0, clip_norm=1.0).guarantee(**wanted)
    assert math.isinf(train(network(), steps=2).guarantee.epsilon)


def test_what_is_refused(model):
    good = {"model": model, "x": X[:3]}
    refuses(certify, good, x=(2 * X[:3],), noise=(0.0,), draws=(10,), eta=(1.0,), delta=(0.0,), rng=(0,))
    refuses(train, {"model": nn.Linear(64, 10), "x": X[:30]}, x=(2 * X[:30],), noise=(-1.0,))
