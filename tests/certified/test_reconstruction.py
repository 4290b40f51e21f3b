"""The attacks on StoBatch as printed succeed; with fresh noise for each example they fail."""

import numpy as np
import pytest

from dpml import data
from dpml.certified.stobatch import budget, reconstruction

DIGITS = data.digits()
IMAGES = DIGITS.train_images[:350].reshape(350, 64) / 8.0 - 1.0
SCALE = budget.input_scale(dimension=64, beta=32, m=350, epsilon_1=0.1)


def released(rng, images=IMAGES, scale=SCALE):
    """As Algorithm 1 prints it: one noise vector for all."""
    return images + rng.laplace(0.0, scale, images.shape[1])


def fresh(rng, images=IMAGES, scale=SCALE):
    return images + rng.laplace(0.0, scale, images.shape)


@pytest.mark.parametrize("epsilon_1", [1e-6, 0.1, 10.0])
def test_one_known_image_opens_every_batch(epsilon_1):
    """Four batches, one image of the third known; the error grows with the noise only as rounding does."""
    scale = budget.input_scale(dimension=64, beta=32, m=350, epsilon_1=epsilon_1)
    images = DIGITS.train_images[:1400].reshape(1400, 64) / 8.0 - 1.0
    noisy = released(np.random.default_rng(1), images, scale)
    found = reconstruction.from_known_image(noisy, known=images[800], index=800)
    assert np.abs(found - images).max() < max(1e-12, 1e-14 * scale)
    assert np.array_equal(np.rint((found + 1.0) * 8.0), DIGITS.train_images[:1400].reshape(1400, 64))
    failed = reconstruction.from_known_image(fresh(np.random.default_rng(1), images), known=images[0])
    assert np.median(np.abs(failed[1:] - images[1:])) > 10.0


def test_the_whole_batch_comes_back_from_nothing():
    noisy = released(np.random.default_rng(2))
    assert np.median(np.abs(noisy - IMAGES)) > 10.0, "the noise is as large as said"
    found = reconstruction.from_background(noisy)
    assert np.abs(found - IMAGES).max() < 1e-12
    failed = reconstruction.from_background(fresh(np.random.default_rng(2)))
    assert np.median(np.abs(failed - IMAGES)) > 10.0


def test_the_values_released_for_neighbours_are_disjoint():
    """The difference of two rows is the same for every noise, and differs between neighbours: delta = 1."""
    other = data.replace_one(IMAGES, index=0, value=IMAGES[0] * 0.5)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        for images in (IMAGES, other):
            noisy = released(rng, images)
            assert np.allclose(noisy[0] - noisy[1], images[0] - images[1], atol=1e-11)
    assert np.abs((IMAGES[0] - IMAGES[1]) - (other[0] - other[1])).max() > 0.1


def test_labels_follow_from_the_steps():
    rng = np.random.default_rng(3)
    labels = np.eye(10)[DIGITS.train_labels[:100]]
    hidden = rng.uniform(-1.0, 1.0, (9, 100, 16))
    noise = rng.laplace(0.0, budget.label_scale(hidden=16, m=100, epsilon_2=0.001), (16, 10))
    clean = np.einsum("tmh,mk->thk", hidden, labels)
    found = reconstruction.labels_over_steps(clean + noise, hidden=hidden)
    assert np.abs(found - labels).max() < 1e-6
    each_step = rng.laplace(0.0, budget.label_scale(hidden=16, m=100, epsilon_2=0.001), (9, 16, 10))
    failed = reconstruction.labels_over_steps(clean + each_step, hidden=hidden)
    assert np.mean(failed.argmax(axis=1) == DIGITS.train_labels[:100]) < 0.5
