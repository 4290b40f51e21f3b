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


# ---- the rank test ----


def gradient_of(images, beta, rng, bound=np.inf):
    theta = rng.normal(0.0, 0.3, (64, beta))
    noisy = released(rng, images)
    hidden_noise = rng.laplace(0.0, 2.0 * SCALE, beta)
    return theta, reconstruction.encoder_gradient(noisy, theta=theta, hidden_noise=hidden_noise, bound=bound)


@pytest.mark.parametrize("beta", [2, 8, 32])
def test_one_gradient_tells_the_true_batch_from_a_neighbour(beta):
    theta, gradient = gradient_of(IMAGES, beta, np.random.default_rng(beta))
    true = reconstruction.rank_test(gradient, theta=theta, data=IMAGES)
    assert true.shape == (beta,) and true[0] > 1e3 and true[1] < 1e-6 and true[1] / true[0] < 1e-10
    other = data.replace_one(IMAGES, index=0, value=DIGITS.train_images[400].reshape(64) / 8.0 - 1.0)
    assert reconstruction.rank_test(gradient, theta=theta, data=other)[1] > 1.0


@pytest.mark.parametrize("beta", [2, 8, 32])
def test_the_two_limits_of_the_rank_test(beta):
    """Clipped hidden units hide the covariance, and a neighbour may have the same one."""
    theta, gradient = gradient_of(IMAGES, beta, np.random.default_rng(beta))
    mirrored = reconstruction.same_covariance(IMAGES, index=3)
    assert np.abs(mirrored[3] - IMAGES[3]).max() > 0.5 and np.array_equal(mirrored[4:], IMAGES[4:])
    assert np.allclose(np.cov(mirrored.T), np.cov(IMAGES.T), atol=1e-13)
    assert reconstruction.rank_test(gradient, theta=theta, data=mirrored)[1] < 1e-6
    theta, gradient = gradient_of(IMAGES, beta, np.random.default_rng(beta), bound=1.0)
    assert reconstruction.rank_test(gradient, theta=theta, data=IMAGES)[1] > 1.0


def test_the_gradient_is_that_of_the_loss():
    """By central differences of sum_i [sum_j theta_j h_i / 2 - x_i theta h_i], h held fixed as the paper does."""
    rng = np.random.default_rng(5)
    noisy, theta = rng.normal(size=(6, 4)), rng.normal(size=(4, 3))
    offset = rng.normal(size=3)
    for bound in (np.inf, 0.5):
        hidden = np.clip(noisy @ theta, -bound, bound) + offset

        def loss(weights, hidden=hidden):
            return sum(0.5 * (weights @ h).sum() - x @ (weights @ h) for x, h in zip(noisy, hidden, strict=True))

        expected = np.empty_like(theta)
        for place in np.ndindex(*theta.shape):
            step = np.zeros_like(theta)
            step[place] = 0.5
            expected[place] = loss(theta + step) - loss(theta - step)  # the loss is linear in theta
        found = reconstruction.encoder_gradient(noisy, theta=theta, hidden_noise=offset, bound=bound)
        assert np.allclose(found, expected, atol=1e-12)


def test_too_few_steps_do_not_determine_the_labels():
    rng = np.random.default_rng(6)
    hidden = rng.uniform(-1.0, 1.0, (3, 40, 16))
    sums = np.zeros((3, 16, 10))
    with pytest.raises(ValueError, match=r"^released must hold at least 4 steps for 40 examples, got 3$"):
        reconstruction.labels_over_steps(sums, hidden=hidden)
    same = np.repeat(hidden[:1], 4, axis=0)
    with pytest.raises(ValueError, match=r"^hidden must give 40 independent equations over the steps, got 0$"):
        reconstruction.labels_over_steps(np.zeros((4, 16, 10)), hidden=same)


@pytest.mark.parametrize(
    ("name", "argument", "bad"),
    [
        ("from_known_image", "noisy", {"noisy": [[1.7e308], [-1.7e308]], "known": [0.0]}),
        ("from_known_image", "known", {"noisy": IMAGES, "known": IMAGES[0, :3]}),
        ("from_known_image", "index", {"noisy": IMAGES, "known": IMAGES[0], "index": 350}),
        ("from_background", "noisy", {"noisy": [[1.7e308], [-1.7e308]]}),
        ("encoder_gradient", "theta", {"noisy": IMAGES, "theta": np.ones((63, 2)), "hidden_noise": np.zeros(2)}),
        ("encoder_gradient", "hidden_noise", {"noisy": IMAGES, "theta": np.ones((64, 2)), "hidden_noise": np.zeros(3)}),
        ("encoder_gradient", "noisy", {"noisy": [[1e300]], "theta": [[1e300]], "hidden_noise": [0.0]}),
        ("rank_test", "gradient", {"gradient": np.ones((64, 3)), "theta": np.ones((64, 2)), "data": IMAGES}),
        ("same_covariance", "data", {"data": IMAGES[:1]}),
        ("labels_over_steps", "hidden", {"released": np.ones((3, 2, 2)), "hidden": np.ones((3, 4, 3))}),
        ("labels_over_steps", "hidden", {"released": np.ones((3, 2, 2)), "hidden": np.ones((2, 4, 2))}),
    ],
)
def test_what_does_not_fit_is_refused(name, argument, bad):
    with pytest.raises(ValueError, match=rf"^{argument} must "):
        getattr(reconstruction, name)(**bad)
