"""StoBatch's system: network, objectives, training; what its noise policies promise, and what attacks make of it.

Each attack of `reconstruction` is made on a real training run: it succeeds on the version as printed, and fails on the
sound one.
"""

import functools
import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from dpml import data
from dpml.certified.stobatch import budget, inference, model, objective, reconstruction, training
from dpml.certified.stobatch.local import Local
from dpml.certified.stobatch.noise import AsPrinted, NoNoise, Sizes
from tests.training.helpers import flat, refuses

DIGITS = data.digits()
X = torch.from_numpy(DIGITS.train_images[:700].reshape(700, 64) / 8.0 - 1.0).float()
Y = torch.from_numpy(DIGITS.train_labels[:700].astype(np.int64))
TEST = torch.from_numpy(DIGITS.test_images.reshape(-1, 64) / 8.0 - 1.0).float()
TEST_Y = torch.from_numpy(DIGITS.test_labels.astype(np.int64))
PRINTED = AsPrinted(epsilon_1=0.1, epsilon_2=0.1)
FRESH = Local(epsilon_x=budget.sound_epsilon(m=350, epsilon_1=0.1, beta=32), epsilon_2=0.1)


def network(seed=0, *, bounding=model.standardised, beta=32, hidden=32):
    first = torch.Generator().manual_seed(seed)
    sizes = {"dimension": 64, "beta": beta, "hidden": hidden, "classes": 10}
    return model.Network(**sizes, generator=first, bounding=bounding)


def trained(noise, *, seed=0, schedule=training.in_turn, bounding=model.standardised, x=X, y=Y, **settings):
    given = training.Settings(**{"m": 350, "steps": 3, "attack_steps": 2, **settings})
    rng = np.random.default_rng(seed)
    net = network(seed, bounding=bounding)
    return training.train(net, x, y, noise=noise, settings=given, rng=rng, schedule=schedule)


def accuracy(net, x=TEST, y=TEST_Y):
    return float((net(x).argmax(1) == y).double().mean())


def in_order(found, seed=0):
    """The examples in the order in which a run with this seed puts them, which depends on their number only."""
    order = np.random.default_rng(seed).permutation(len(X))
    return X.double().numpy()[order], Y.numpy()[order]


# ---- the attacks, on a training run ----


def test_as_printed_every_image_comes_back():
    """From what training saw, with no other knowledge, in noise of scale 62; and from one known image."""
    released = trained(PRINTED).released
    true, labels = in_order(released)
    assert PRINTED.scale(Sizes(64, 32, 32, 10, 350)) == pytest.approx(62.17142857142857, rel=1e-12)
    assert np.abs(released.x - true).mean() > 20.0
    assert np.abs(reconstruction.from_background(released.x) - true).max() < 1e-9
    assert np.abs(reconstruction.from_known_image(released.x, known=true[3], index=3) - true).max() < 1e-9
    assert np.array_equal(released.y, labels)


def test_fresh_noise_gives_nothing_back():
    """Of the same scale: the error of the attacks is that of the noise."""
    released = trained(FRESH).released
    true, labels = in_order(released)
    for found in (
        reconstruction.from_background(released.x),
        reconstruction.from_known_image(released.x, known=true[3], index=3),
    ):
        assert np.median(np.abs(found - true)[4:]) > 20.0
    assert np.mean(released.y == labels) < 0.25


def step_of(noise, bounding):
    """The first gradient of a run, its encoder before the step, and the examples that made it, benign and attacked."""
    net = network(bounding=bounding).double()
    settings = training.Settings(m=350, steps=1, attack_steps=2)
    run = training.prepare(net, X, Y, noise=noise, settings=settings, rng=np.random.default_rng(0))
    gradients, _ = training.step_gradients(run, (0, 1), seed=5)
    again = torch.Generator().manual_seed(5)
    size = 1.0 - float(torch.rand((), generator=again, dtype=torch.float64))
    adversarial = training.ensemble(net, run.batches[1], size=size, steps=2, generator=again)
    noisy = torch.cat([run.batches[0].x, adversarial])
    return gradients["theta1"].numpy(), net.theta1.detach().numpy(), noisy.numpy(), run.released


def test_one_gradient_tells_true_data_from_a_neighbour():
    """With shared noise and no bound on h the rank test is exact; with fresh noise or a bound it is not."""
    gradient, theta, noisy, released = step_of(PRINTED, model.linear)
    data_of = noisy - released.shift  # benign and adversarial examples, whose noise is that of their images
    other = data_of.copy()
    other[0] = data_of[1]
    true, wrong = (reconstruction.rank_test(gradient, theta=theta, data=d)[1] for d in (data_of, other))
    assert true < 1e-6 < 1.0 < wrong
    gradient, theta, _, _ = step_of(FRESH, model.linear)
    images = in_order(None)[0]
    assert reconstruction.rank_test(gradient, theta=theta, data=images)[1] > 1e3
    gradient, theta, noisy, released = step_of(PRINTED, model.clipped)
    assert reconstruction.rank_test(gradient, theta=theta, data=noisy - released.shift)[1] > 1.0


def label_sums(noise, steps=14):
    """What steps release of the labels of the first batch, the last hidden layers, and the labels."""
    net = network(hidden=32).double()
    settings = training.Settings(m=350, steps=steps, attack_steps=1, rate_2=0.02, xi=0.0)
    run = training.prepare(net, X, Y, noise=noise, settings=settings, rng=np.random.default_rng(0))
    sums, hidden = [], []
    for step in range(steps):
        gradients, _ = training.step_gradients(run, (0, 1), seed=step)
        with torch.no_grad():
            top = net.top(net.encode(run.batches[0].x, noise=net.latent))
            scores = net.last(top)
        known = top.T @ (0.5 + scores / 4.0) / 350  # the part of the gradient without labels
        sums.append((known - gradients["last.weight"].T).numpy())
        hidden.append(top.numpy() / 350)
        training.apply(run, gradients)
    return np.array(sums), np.array(hidden), run.released


def test_labels_follow_from_the_gradients_of_some_steps():
    """The noise on labels is the same in all steps: 14 steps of 32 units give the 350 labels of a batch, all right."""
    sums, hidden, released = label_sums(PRINTED)
    assert np.abs(released.coefficients).mean() > 1.0
    found = reconstruction.labels_over_steps(sums, hidden=hidden)
    true = in_order(released)[1][:350]
    assert np.array_equal(found.argmax(1), true)
    sums, hidden, released = label_sums(FRESH)
    found = reconstruction.labels_over_steps(sums, hidden=hidden)
    assert np.mean(found.argmax(1) == true) < 0.25, "the labels that come back are the randomized ones"
    assert np.array_equal(found.argmax(1), released.y[:350])


# ---- what is promised ----


def test_as_printed_promises_nothing_whatever_it_claims():
    run = trained(PRINTED)
    assert run.guarantee is None
    assert run.says.startswith("Not private") and "no epsilon" in run.says
    norms = {"dimension": 64, "beta": 32, "m": 350, "epsilon_1": 0.1, "epsilon_2": 0.1, "norm": 8.0}
    assert run.claimed == pytest.approx(budget.claimed_epsilon(**norms))
    assert float(run.network.theta1.detach().abs().sum(0).max()) <= 8.0 * (1 + 1e-6), "the norm of the claim"


@pytest.mark.parametrize("steps", [1, 5])
def test_the_local_guarantee_does_not_depend_on_the_steps(steps):
    """At the printed scale it is 2 m eps1 / (beta + 2), and eps2 for the labels."""
    run = trained(FRESH, steps=steps)
    assert run.claimed is None
    assert run.guarantee.epsilon == pytest.approx(2 * 350 * 0.1 / 34 + 0.1, rel=1e-12)
    assert (run.guarantee.delta, run.guarantee.adjacency) == (0.0, "replace-one")
    assert "2.15883" in run.says


def test_the_printed_noise_has_its_scales():
    """20,000 Laplace numbers of each: mean absolute values within 5 standard errors (false alarm below 2e-6)."""
    sizes = Sizes(dimension=20_000, beta=20_000, hidden=200, classes=100, m=5)
    found = PRINTED.release(np.zeros((2, 20_000)), np.zeros(2, int), sizes=sizes, rng=np.random.default_rng(0))
    b, on_labels = PRINTED.scale(sizes), budget.label_scale(hidden=200, m=5, epsilon_2=0.1)
    for noise, scale in ((found.shift, b), (found.latent, 2 * b), (found.coefficients, on_labels)):
        assert np.abs(noise).mean() == pytest.approx(scale, rel=5 / math.sqrt(20_000))
    assert np.array_equal(found.x, [found.shift] * 2)


def test_fresh_noise_has_the_scale_of_its_epsilon():
    """44,800 Laplace numbers: mean absolute value within 5 standard errors (false alarm below 6e-7)."""
    local = Local(epsilon_x=20.0, epsilon_2=1.0)
    sizes = Sizes(64, 32, 32, 10, 350)
    released = local.release(X.double().numpy(), Y.numpy(), sizes=sizes, rng=np.random.default_rng(3))
    noise = np.abs(released.x - X.double().numpy()).ravel()
    assert noise.mean() == pytest.approx(2 * 64 / 20.0, abs=5 * (2 * 64 / 20.0) / math.sqrt(noise.size))
    kept = np.mean(released.y == Y.numpy())
    keep = budget.rr_keep(epsilon=1.0, classes=10)
    assert kept == pytest.approx(keep, abs=5 * math.sqrt(keep * (1 - keep) / 700))


# ---- objectives ----


def test_the_gradient_of_the_autoencoder_is_that_of_its_objective():
    theta = torch.randn(6, 3, dtype=torch.float64, requires_grad=True, generator=torch.Generator().manual_seed(0))
    x, h = (torch.randn(5, d, dtype=torch.float64, generator=torch.Generator().manual_seed(d)) for d in (6, 3))
    value = objective.autoencoder_objective(theta, x=x, h=h)
    by_hand = sum(0.5 * (theta @ h[i]).sum() - x[i] @ (theta @ h[i]) for i in range(5))
    torch.testing.assert_close(value, by_hand)
    (gradient,) = torch.autograd.grad(value, theta)
    torch.testing.assert_close(objective.autoencoder_gradient(x, h=h), gradient)


def test_the_autoencoder_has_no_minimum():
    """Along its gradient it falls without bound: hence the ball."""
    x, h = torch.rand(5, 6, dtype=torch.float64), torch.rand(5, 3, dtype=torch.float64)
    direction = -objective.autoencoder_gradient(x, h=h)
    values = [float(objective.autoencoder_objective(t * direction, x=x, h=h)) for t in (1.0, 10.0, 100.0)]
    assert values[2] == pytest.approx(100.0 * values[0]) and values[2] < values[1] < values[0] < 0.0


def test_the_taylor_loss_is_close_to_the_logistic_loss():
    z = torch.linspace(-1.5, 1.5, 31, dtype=torch.float64)
    scores = torch.stack([z, z.flip(0)], 1)
    for label in (0, 1):
        y = torch.full((31,), label)
        exact = functional.binary_cross_entropy_with_logits(
            scores, functional.one_hot(y, 2).double(), reduction="none"
        ).sum(1)
        error = (objective.taylor_loss(scores, y) - exact).abs()
        assert float((error - scores.pow(4).sum(1) / 192.0).max()) <= 1e-12 < float(error.max())


def test_the_adversarial_objective_is_equation_9():
    benign, adversarial = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])
    noise, weights = torch.tensor([[0.5, -1.0]]), torch.tensor([[2.0, 4.0]])
    found = objective.adversarial_objective(
        benign, adversarial=adversarial, xi=0.5, coefficients=noise, weights=weights
    )
    assert float(found) == pytest.approx((3.0 + 0.5 * 8.0) / (2 * 1.5) - (0.5 * 2.0 - 4.0))


# ---- the network and its training ----


def test_the_network_is_its_formula():
    net = network(bounding=model.clipped).double()
    net.shift += 0.25
    net.latent -= 0.5
    x = X[:9].double()
    h = ((x + 0.25) @ net.theta1).clamp(-1, 1) - 0.5
    top = (h @ net.middle.weight.T + net.middle.bias).clamp(-1, 1)
    torch.testing.assert_close(net(x), top @ net.last.weight.T)
    torch.testing.assert_close(net(x.view(9, 8, 8)), net(x))


def test_standardising_removes_what_all_examples_share():
    """The same training, but for rounding, whatever the noise on examples and hidden layer is: why accuracy is kept."""
    ends = []
    for shift in (0.0, 1000.0):
        net = network().double()
        net.observe(X.double() + shift, noise=torch.full((32,), 3.0 * shift, dtype=torch.float64))
        ends.append(net.encode(X.double() + shift, noise=torch.full((32,), 3.0 * shift, dtype=torch.float64)))
    torch.testing.assert_close(*ends, rtol=1e-7, atol=1e-7)
    assert float(ends[0].detach().abs().max()) == 1.0


def test_training_learns_and_noise_shared_by_all_hardly_matters():
    """Noise of scale 62 on pixels in [-1, 1]: as printed it is no obstacle, fresh for each example it leaves chance."""
    ends = {
        name: accuracy(trained(noise, steps=60).network) for name, noise in (("none", NoNoise()), ("printed", PRINTED))
    }
    fresh = accuracy(trained(Local(epsilon_x=FRESH.epsilon_x, epsilon_2=50.0), steps=60).network)
    assert ends["none"] > 0.6 and ends["printed"] > 0.5 and fresh < 0.3


def test_the_order_of_algorithm_1():
    rng = np.random.default_rng(0)
    assert [training.in_turn(t, 3, rng) for t in range(4)] == [[(0, 1)], [(1, 2)], [(2, 0)], [(0, 1)]]
    picked = [training.stochastic(2)(t, 8, rng) for t in range(50)]
    assert all(len({i for pair in pairs for i in pair}) == 4 and all(b == a + 1 for a, b in pairs) for pairs in picked)
    assert {a for pairs in picked for a, _ in pairs} == {0, 2, 4, 6}


def test_gradients_of_trainers_are_averaged():
    first, other = ({"a": torch.full((2, 3), x), "b": torch.full((1,), 3 * x)} for x in (1.0, 5.0))
    mean = training.averaged([first, other])
    assert mean["a"].tolist() == [[3.0] * 3] * 2 and mean["b"].tolist() == [9.0]


def test_a_run_is_a_function_of_its_arguments():
    first, again, other = (flat(trained(PRINTED, seed=s).network) for s in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_adversarial_examples_stay_within_their_size_and_raise_the_loss():
    net = trained(NoNoise(), steps=40).network
    batch = training.Batch(X[:60], Y[:60])
    attacked, other = (
        training.ensemble(net, one, size=0.2, steps=5, generator=torch.Generator().manual_seed(0))
        for one in (batch, batch._replace(y=(batch.y + 1) % 10))
    )
    assert torch.equal(attacked, other), "no true label is used"
    assert float((attacked - X[:60]).abs().max()) <= 0.2 * (1 + 1e-6)
    own = net(X[:60]).argmax(1)
    with torch.no_grad():
        before, after = (functional.cross_entropy(net(x), own, reduction="none") for x in (X[:60], attacked))
    for part in (slice(0, 20), slice(20, 40), slice(40, 60)):
        assert float(after[part].mean()) > float(before[part].mean()) + 0.1


# ---- refusals ----


NO_EXAMPLES = X * 1.01, X[:, :60], (X * 8).long(), X * math.nan
TOO_NOISY = AsPrinted(epsilon_1=1e-40, epsilon_2=1.0), Local(epsilon_x=1e-9, epsilon_2=1.0)


def test_training_refuses_by_name():
    """Three examples at least in a batch, and for two trainers four batches."""
    counts = {
        "m": (300, 351, 2),
        "steps": (0,),
        "attack_steps": (0,),
        "trainers": ({"schedule": training.stochastic(2)},),
    }
    refuses(trained, {"noise": NoNoise()}, x=NO_EXAMPLES, y=(Y[:-1], Y + 1), noise=(1.0, *TOO_NOISY), **counts)
    refuses(trained, {"noise": NoNoise()}, xi=(-1.0,), radius=(0.0,), rate_1=(-1.0,), rate_2=(math.inf,))


def test_each_argument_is_refused_by_name():
    sizes = dict.fromkeys(("dimension", "beta", "hidden", "classes"), 3)
    run = {"network": network(), "noise": NoNoise(), "settings": training.Settings(350, 1)}
    for make, good in (
        (AsPrinted, {"epsilon_1": 1.0, "epsilon_2": 1.0}),
        (Local, {"epsilon_x": 1.0, "epsilon_2": 1.0}),
        (inference.Scales, {"input": 1.0, "hidden": 1.0}),
        (model.Network, {**sizes, "generator": torch.Generator(), "bounding": model.linear}),
        (functools.partial(training.train, x=X, y=Y), {**run, "rng": np.random.default_rng(0)}),
    ):
        refuses(make, good, **dict.fromkeys(good, (0.0, -1.0, math.inf, math.nan, True, "1")))
