"""The attacks on StoBatch as printed; `test_stobatch` makes them on a training run, where fresh noise stops them."""

import numpy as np
import pytest
import torch

from dpml import data
from dpml.certified.stobatch import budget, objective, reconstruction
from tests.training.helpers import refuses

DIGITS = data.digits()
IMAGES = DIGITS.train_images[:350].reshape(350, 64) / 8.0 - 1.0
SCALE = budget.input_scale(dimension=64, beta=32, m=350, epsilon_1=0.1)


@pytest.mark.parametrize("beta", [2, 8, 32])
def test_one_gradient_tells_the_true_batch_from_a_neighbour(beta):
    """With two limits: clipped hidden units hide the covariance, and a neighbour may have the same one."""
    rng = np.random.default_rng(beta)
    theta = rng.normal(0.0, 0.3, (64, beta))
    noisy, hidden_noise = IMAGES + rng.laplace(0.0, SCALE, 64), rng.laplace(0.0, 2.0 * SCALE, beta)
    mirrored = reconstruction.same_covariance(IMAGES, index=3)
    assert np.abs(mirrored[3] - IMAGES[3]).max() > 0.5 and np.array_equal(mirrored[4:], IMAGES[4:])
    assert np.allclose(np.cov(mirrored.T), np.cov(IMAGES.T), atol=1e-13)
    other = data.replace_one(IMAGES, index=0, value=DIGITS.train_images[400].reshape(64) / 8.0 - 1.0)

    def singular(guess, bound=np.inf):
        gradient = reconstruction.encoder_gradient(noisy, theta=theta, hidden_noise=hidden_noise, bound=bound)
        return reconstruction.rank_test(gradient, theta=theta, data=guess)

    true = singular(IMAGES)
    assert true.shape == (beta,) and true[0] > 1e3 and true[1] < 1e-6 and true[1] / true[0] < 1e-10
    assert singular(mirrored)[1] < 1e-6 and singular(other)[1] > 1.0 and singular(IMAGES, bound=1.0)[1] > 1.0


@pytest.mark.parametrize("bound", [np.inf, 0.5])
def test_the_gradient_is_that_of_the_objective(bound):
    rng = np.random.default_rng(5)
    noisy, theta, offset = rng.normal(size=(6, 4)), rng.normal(size=(4, 3)), rng.normal(size=3)
    hidden = np.clip(noisy @ theta, -bound, bound) + offset
    found = reconstruction.encoder_gradient(noisy, theta=theta, hidden_noise=offset, bound=bound)
    wanted = objective.autoencoder_gradient(torch.from_numpy(noisy), h=torch.from_numpy(hidden))
    assert np.allclose(found, wanted.numpy(), atol=1e-12)


def test_too_few_steps_do_not_determine_the_labels():
    hidden = np.random.default_rng(6).uniform(-1.0, 1.0, (3, 40, 16))
    with pytest.raises(ValueError, match=r"^released must hold at least 4 steps for 40 examples, got 3$"):
        reconstruction.labels_over_steps(np.zeros((3, 16, 10)), hidden=hidden)
    same = np.repeat(hidden[:1], 4, axis=0)
    with pytest.raises(ValueError, match=r"^hidden must give 40 independent equations over the steps, got 0$"):
        reconstruction.labels_over_steps(np.zeros((4, 16, 10)), hidden=same)


def test_what_does_not_fit_is_refused():
    far, noise = [[1.7e308], [-1.7e308]], {"hidden_noise": np.zeros(2)}
    known = {"noisy": IMAGES, "known": IMAGES[0], "index": 0}
    refuses(reconstruction.from_known_image, known, noisy=({"noisy": far, "known": [0.0]},), known=(IMAGES[0, :3],))
    refuses(reconstruction.from_known_image, known, index=(350,))
    refuses(reconstruction.from_background, {}, noisy=(far,))
    layer, huge = {"noisy": IMAGES, "theta": np.ones((64, 2)), **noise}, {"noisy": [[1e300]], "theta": [[1e300]]}
    refuses(reconstruction.encoder_gradient, layer, theta=(np.ones((63, 2)),), hidden_noise=(np.zeros(3),))
    refuses(reconstruction.encoder_gradient, layer, noisy=({**huge, "hidden_noise": [0.0]},))
    refuses(reconstruction.rank_test, {"theta": np.ones((64, 2)), "data": IMAGES}, gradient=(np.ones((64, 3)),))
    refuses(reconstruction.same_covariance, {"index": 0}, data=(IMAGES[:1],))
    hidden = np.ones((3, 4, 3)), np.ones((2, 4, 2))
    refuses(reconstruction.labels_over_steps, {"released": np.ones((3, 2, 2))}, hidden=hidden)
