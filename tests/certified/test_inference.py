"""Verified inference: laws of what is drawn, the certified sizes, and attacks that do not break a certificate."""

import copy
import math

import numpy as np
import pytest
import torch

from dpml.certified import attacks, pixeldp
from dpml.certified.stobatch import inference, model, objective, training
from dpml.certified.stobatch.noise import NoNoise
from tests.certified.test_stobatch import TEST, TEST_Y, X, Y, network
from tests.training.helpers import refuses

SCALES = inference.Scales(input=0.2, hidden=0.4)


@pytest.fixture(scope="module")
def net():
    settings = training.Settings(m=350, steps=60, attack_steps=1, rate_2=0.01)
    return training.train(network(), X, Y, noise=NoNoise(), settings=settings, rng=np.random.default_rng(0)).network


def infer(net, x=TEST, seed=0, **changes):
    given = {"scales": SCALES, "norm": inference.l_1, "draws": 300, "eta": 1e-3, "rng": np.random.default_rng(seed)}
    return inference.infer(net, x, **{**given, **changes})


def threshold(at):
    """A network of one pixel: class 0 scores its hidden unit, which is clip(100 (x - at)); class 1 the opposite."""
    made = model.Network(
        dimension=1, beta=1, hidden=1, classes=2, generator=torch.Generator().manual_seed(0), bounding=model.linear
    )
    with torch.no_grad():
        made.theta1.fill_(1.0)
        made.middle.weight.fill_(1000.0)
        made.middle.bias.fill_(-1000.0 * at)
        made.last.weight.copy_(torch.tensor([[50.0], [-50.0]]))
    return made


def test_theorem_5_holds_for_every_function_of_two_mechanisms():
    """Two randomized responses to one bit, every 0/1 score of their answers times a factor for the second class.

    All expectations are exact. Where it certifies, the other bit has the same label; with less than half of the
    exponent that is false.
    """
    epsilons = (0.4, 0.7)
    keep = [math.exp(e) / (1 + math.exp(e)) for e in epsilons]
    law = np.outer([keep[0], 1 - keep[0]], [keep[1], 1 - keep[1]]).ravel()  # of both answers when the bit is 0
    scores = (np.arange(16)[:, None] >> np.arange(4)) & 1
    factors = np.linspace(0.05, 1.0, 20)
    here, there = (
        np.array([(first, factor * second) for first in scores @ p for second in scores @ p for factor in factors])
        for p in (law, law[::-1])
    )
    label = here.argmax(1)
    lower, upper = here.max(1), here.min(1)
    changes = there.argmax(1) != label
    certified = inference.composed(lower, upper=upper, epsilons=epsilons)
    assert certified.sum() > 100 and not changes[certified].any()
    assert changes[inference.composed(lower, upper=upper, epsilons=[0.49 * sum(epsilons)])].any()
    with pytest.raises(ValueError, match=r"^epsilons must"):
        inference.composed(0.9, upper=0.1, epsilons=[-0.1])


def test_sizes_are_those_of_the_rules(net):
    """A label that is sure, in one dimension: eps_r by hand, then kappa, phi, their sum and the harmonic rule."""
    found = infer(threshold(-0.9), torch.full((1, 1), 0.5), scales=inference.Scales(input=0.05, hidden=0.1), draws=500)
    lower = (1e-3 / 4) ** (1 / 500)
    upper = 1.0 - lower
    epsilon = 0.5 * math.log(lower / upper)
    assert found.labels[0] == 0
    assert found.kappa[0] == pytest.approx(0.05 * epsilon, rel=1e-9)
    assert found.phi[0] == pytest.approx(0.1 * epsilon, rel=1e-9)
    assert found.printed_size[0] == pytest.approx(0.15 * epsilon, rel=1e-9)
    assert found.size[0] == pytest.approx(0.1 / 3 * epsilon, rel=1e-9)


def test_the_counts_follow_the_law_of_both_noises():
    """P(class 0) = P(both draws are above the threshold's winner): each of the two scores is 0 or 1 almost surely, so
    class 0 wins if both are above, class 1 if both are below; else the products are equal and the first class counts.

    40,000 draws, within 5 standard errors.
    """
    made, draws = threshold(0.0), 40_000
    x = 0.1
    counts = inference._votes(made, torch.full((1, 1), x), SCALES, draws, torch.Generator().manual_seed(1))
    below = [0.5 * math.exp(-x / scale) for scale in (SCALES.input, SCALES.hidden)]
    expected = below[0] * below[1]
    deviation = math.sqrt(expected * (1 - expected) / draws)
    assert counts.sum() == draws and counts[0, 1] / draws == pytest.approx(expected, abs=5 * deviation + 1e-3)


def test_the_sum_of_two_radii_is_broken_where_the_harmonic_rule_holds():
    """One pixel, a threshold: the printed size reaches inputs with another label; the certified size does not."""
    made, scales = threshold(0.0), inference.Scales(input=0.1, hidden=0.1)
    x = torch.full((1, 1), 0.3)
    found = infer(made, x, scales=scales, draws=4000)
    assert found.size[0] > 0.05
    for size, holds in ((found.size[0], True), (found.printed_size[0], False)):
        moved = infer(made, (x - float(size)).clamp(-1, 1), scales=scales, draws=4000)
        assert (moved.labels[0] == found.labels[0]) == holds


def test_how_far_a_perturbation_moves_each_layer(net):
    """No perturbation of norm 1 moves a layer farther than said, and the bounds are reached where that is known."""
    theta = net.theta1.detach().double().numpy()
    rng = np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], (500, 64))
    on_input, on_hidden = inference.l_inf(theta)
    assert np.abs(signs).sum(1).max() == on_input == 64
    assert np.abs(signs @ theta).sum(1).max() <= on_hidden
    assert inference.l_inf(np.abs(theta))[1] == pytest.approx(np.abs(np.ones(64) @ np.abs(theta)).sum())
    on_input, on_hidden = inference.l_1(theta)
    assert on_input == 1.0 and on_hidden == pytest.approx(np.abs(theta).sum(1).max())


@pytest.mark.parametrize("norm", [inference.l_1, inference.l_inf])
@pytest.mark.parametrize("sharp", [False, True])
def test_no_attack_within_a_certificate_changes_the_label(net, norm, sharp):
    """1,000 attacks: 100 inputs, ten each, at the certified size; labels of the attacked input by other draws."""
    made, x, draws = (threshold(0.0), torch.linspace(-1, 1, 100)[:, None], 1000) if sharp else (net, TEST[:100], 200)
    found = infer(made, x, norm=norm, draws=draws, eta=1e-8)
    certified = np.flatnonzero(found.size > 0)
    assert len(certified) >= 50
    chosen, rng = np.repeat(certified, -(-1000 // len(certified))), np.random.default_rng(5)
    start, sizes = x[chosen], torch.from_numpy(found.size[chosen]).float()[:, None]
    if norm is inference.l_inf:
        labels = torch.from_numpy(found.labels[chosen])
        step = attacks.fgsm(made, objective.taylor_loss, start, labels, size=1.0, low=-9.0, high=9.0) - start
        step = step * torch.from_numpy(rng.choice([1.0, -1.0], (len(chosen), 1), p=[0.8, 0.2])).float()
    else:
        step = torch.zeros_like(start)
        step[np.arange(len(chosen)), rng.integers(x.shape[1], size=len(chosen))] = 1.0
        step = step * torch.from_numpy(rng.choice([1.0, -1.0], (len(chosen), 1))).float()
    again = infer(made, (start + step * sizes).clamp(-1, 1), norm=norm, draws=draws, eta=1e-8, seed=1)
    assert np.array_equal(again.labels, found.labels[chosen])


def test_labels_are_right_where_the_network_is(net):
    found = infer(net, draws=100)
    right = found.labels == TEST_Y.numpy()
    assert right.mean() > 0.55 and pixeldp.certified_accuracy(found.size, correct=right, size=0.02) > 0.2


def test_pieces_do_not_change_the_numbers_of_draws(net, monkeypatch):
    whole = infer(net, TEST[:20])
    monkeypatch.setattr(inference, "AT_ONCE", 128)
    pieces = inference._votes(net, TEST[:20], SCALES, 300, torch.Generator().manual_seed(3))
    assert (pieces.sum(1) == 300).all() and np.mean(pieces.argmax(1) == whole.labels) >= 0.9


def test_what_inference_refuses(net):
    bad = {"draws": (0, 14), "eta": (0.0,), "rng": (0,)}  # 15 draws are the fewest for any certificate
    refuses(infer, {"net": net}, x=(TEST + 0.5, TEST[:, :3]), **bad)
    refuses(infer, {"net": net}, network=({"scales": inference.Scales(input=1e39, hidden=1.0)},))


def test_scores_that_are_no_numbers_are_not_certified(net):
    """The largest of scores that are all nan is that of class 0, in every draw."""
    diverged = copy.deepcopy(net)
    with torch.no_grad():
        diverged.last.weight.fill_(math.nan)
    with pytest.raises(ValueError, match=r"^network must give finite scores"):
        infer(diverged)
