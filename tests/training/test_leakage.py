"""Canaries, membership and gradient leakage: against closed forms, autograd and the laws that the scores must have."""

import copy
import dataclasses
import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn import functional

from dpml import mechanisms
from dpml.audit import samples
from dpml.training import dp_sgd, leakage, mechanism, models, sgd
from dpml.training.per_example import PerExample
from dpml.training.sampling import FixedSize, FullBatch, Poisson
from dpml.training.stacked_networks import stack, unstack
from tests.training import helpers
from tests.training.helpers import cross_entropy, flat, network, refuses, seeded


def switched_off(units=2, **sizes):
    """A network whose first hidden units never fire, and the places of their weights: no example moves them."""
    model = models.mlp(generator=seeded(), **sizes)
    with torch.no_grad():
        model[1].bias[:units] = -1000.0
    return model, torch.arange(units * model[1].in_features)


# ---- canaries ----


def test_a_canary_moves_its_place_by_the_clip_norm_and_nothing_else():
    model, places = switched_off(features=6, hidden=4, classes=3)
    x, y = helpers.data(20)
    common = {"sampling": FullBatch(expected_batch=20.0), "steps": 1, "sigma": 0.0, "clip_norm": 0.5}
    alone = copy.deepcopy(model)
    helpers.train(alone, x, y, **common)
    for length in (0.25, 0.5, 3.0):  # the last is clipped like any other gradient
        here = copy.deepcopy(model)
        both = torch.cat([x, x[:2]]), torch.cat([y, y[:2]])
        corrupt = leakage.dirac_canaries(torch.tensor([20, 21]), n=22, places=places[[3, 7]], clip_norm=length)
        helpers.train(here, *both, corrupt=corrupt, **common)
        expected = torch.zeros_like(flat(model))
        expected[[3, 7]] = 0.1 * min(length, 0.5) / 20.0
        assert torch.allclose(flat(alone) - flat(here), expected, atol=1e-8)
        assert float(expected.max()) > 1e-3


def audit(sigma, *, units=2, canaries=60, **changes):
    model, places = switched_off(units, features=40, hidden=units + 4, classes=3)
    x, y = helpers.data(30, inputs=40)
    how = {"mechanism": dp_sgd(sigma=sigma, clip_norm=0.7), "sampling": Poisson(q=0.5, expected_batch=15.0)}
    how |= {"steps": 40, "learning_rate": 0.3, "delta": 1e-5, "places": places[:canaries], "clip_norm": 0.7}
    how |= {"guesses": 20, "confidence": 0.95, "generator": seeded()}
    return leakage.dirac_audit(model, cross_entropy, x, y, **{**how, **changes})


def test_the_scores_have_the_law_of_the_subsampled_sum():
    """Out: Gaussian of deviation lr C sigma sqrt(T)/B. In: T q steps more on average, with a binomial variance."""
    sigma, steps, unit = 2.0, 40, 0.3 * 0.7 / 15.0
    found = audit(sigma, steps=steps, units=20, canaries=800)
    included, scores = found.included.numpy(), found.scores.numpy()
    out, inside = scores[~included] / unit, scores[included] / unit
    assert stats.kstest(out, stats.norm(0.0, sigma * math.sqrt(steps)).cdf).pvalue > 1e-6
    deviation = math.sqrt(steps * (sigma**2 + 0.25))
    assert abs(inside.mean() - 0.5 * steps) < 5.0 * deviation / math.sqrt(len(inside))  # false alarm 6e-7
    assert stats.binomtest(int(included.sum()), len(included)).pvalue > 1e-6


def test_the_model_is_not_changed_and_the_run_is_accounted():
    model, places = switched_off(features=6, hidden=4, classes=3)
    before = flat(model)
    x, y = helpers.data(20)
    how = {"mechanism": dp_sgd(sigma=1.0, clip_norm=1.0), "sampling": Poisson(q=0.5, expected_batch=10.0), "steps": 3}
    more = {"learning_rate": 0.1, "delta": 1e-5, "clip_norm": 1.0, "guesses": 4, "confidence": 0.9}
    found = leakage.dirac_audit(model, cross_entropy, x, y, places=places, generator=seeded(), **how, **more)
    assert torch.equal(flat(model), before) and not torch.equal(flat(found.run.model), before)
    assert found.run.guarantee == how["mechanism"].guarantee(sampling=how["sampling"], n=20, steps=3, delta=1e-5)
    assert found.evidence.canaries == len(places) == 12 and found.evidence.guesses == 4


def test_forgotten_noise_is_caught_and_the_right_noise_is_not():
    """A mechanism that adds a fortieth of the noise that it is accounted for; false alarm 1e-7.

    Delta must be small: the theorem adds up to 2 m delta to the chance of a false alarm.
    """
    how = {"sampling": FullBatch(expected_batch=30.0), "steps": 1, "confidence": 1 - 1e-7, "canaries": 80}
    exact = mechanisms.gaussian_epsilon(sigma=8.0, delta=1e-12)
    claimed = dp_sgd(sigma=8.0, clip_norm=0.7)
    lying = dataclasses.replace(dp_sgd(sigma=0.2, clip_norm=0.7), accountant=mechanism.gaussian(8.0))
    for name, tested in (("right", claimed), ("wrong", lying)):
        found = audit(0.0, mechanism=tested, guesses=60, delta=1e-12, **how)
        assert found.run.guarantee.epsilon == pytest.approx(exact, rel=1e-5)
        assert (found.evidence.epsilon_at_least > found.run.guarantee.epsilon) == (name == "wrong")


# ---- the same canary in many runs ----


def many(tested, *, runs=400, confidence=1 - 1e-6, canary=30.0, **changes):
    """Zeros and a canary, one full batch: along the canary's gradient each run is one Gaussian number."""
    x = torch.zeros(12, 6)
    x[-1, 0] = canary
    how = {"sampling": FullBatch(expected_batch=10.0), "steps": 1, "delta": 1e-5, "rng": np.random.default_rng(0)}
    how |= {"optimizer": lambda parameters: torch.optim.SGD(parameters, lr=0.01)}
    how |= {"generators": [seeded(k) for k in range(2 * runs)], "mechanism": tested, "confidence": confidence}
    return leakage.many_runs_audit(network(), cross_entropy, x, torch.arange(12) % 3, **{**how, **changes})


def test_many_runs_score_the_canary_by_the_law_of_its_step():
    """Other records add a constant, the canary C, and noise of C sigma: in units of lr/B, two Gaussian laws."""
    found = many(dp_sgd(sigma=2.0, clip_norm=0.5), runs=1000, confidence=0.99)
    with_it, without = (scores[0].numpy() / (0.01 * 0.5 / 10.0) for scores in (found.scores, found.scores_without))
    assert found.guarantee.epsilon == pytest.approx(mechanisms.gaussian_epsilon(sigma=2.0, delta=1e-5), rel=1e-5)
    for scores, shift in ((without, 0.0), (with_it, 1.0)):
        assert stats.kstest(scores - without.mean() - shift, stats.norm(0.0, 2.0).cdf).pvalue > 1e-6
    assert 0.0 < found.evidence.epsilon_at_least < found.guarantee.epsilon
    both = [
        samples.epsilon_lower_bound_from_scores(
            one.numpy(), scores_neighbour=other.numpy(), delta=1e-5, confidence=0.995, rng=rng
        ).epsilon_at_least
        for rng in [np.random.default_rng(0)]
        for one, other in zip(found.scores, found.scores_without, strict=True)
    ]
    assert found.evidence.epsilon_at_least == pytest.approx(max(both)), "each of the two looks has half of the alarm"
    assert found.evidence.confidence == pytest.approx(0.99)


def test_many_runs_catch_forgotten_noise_and_only_that():
    """False alarm 1e-6; the lying mechanism adds a tenth of the noise that it is accounted for."""
    claimed = dp_sgd(sigma=2.0, clip_norm=0.5)
    lying = dataclasses.replace(dp_sgd(sigma=0.2, clip_norm=0.5), accountant=mechanism.gaussian(2.0))
    sampled = {"sampling": Poisson(q=0.9, expected_batch=10.0), "steps": 2}
    for how in ({}, sampled):
        found = many(claimed, **how)
        assert found.evidence.epsilon_at_least <= found.guarantee.epsilon
    found = many(lying)
    assert found.evidence.epsilon_at_least > found.guarantee.epsilon


# ---- membership ----


def test_the_margin_is_the_log_odds_of_the_true_class():
    outputs = 3.0 * torch.randn(4, 20, 5, generator=seeded(), dtype=torch.float64)
    y = torch.randint(5, (20,), generator=seeded(1))
    found = leakage.true_class_margins(outputs, y)
    for model, margins in zip(outputs, found, strict=True):
        p = torch.softmax(model, 1)[torch.arange(20), y]
        assert torch.allclose(margins, torch.log(p / (1 - p)), atol=1e-10)
        loss = functional.cross_entropy(model, y, reduction="none")
        assert torch.allclose(functional.softplus(-margins), loss)
    sure = leakage.true_class_margins(torch.tensor([[500.0, 0.0], [0.0, 500.0]]), torch.tensor([0, 0]))
    assert sure.tolist() == pytest.approx([500.0, -500.0])


def test_the_score_is_the_ratio_of_two_normal_densities():
    rng = np.random.default_rng(0)
    margins, included = rng.normal(size=(9, 6)), rng.random((9, 6)) < 0.5
    included[1:, 4], included[1:, 5] = True, False
    margins += included
    found = leakage.likelihood_ratios(torch.tensor(margins), included=torch.tensor(included), target=0)
    seen, here = margins[1:], included[1:]
    rest, freedom, means = 0.0, 0, []
    for i in range(6):
        groups = [seen[here[:, i], i], seen[~here[:, i], i]]
        rest += sum(((group - group.mean()) ** 2).sum() for group in groups if len(group))
        freedom += sum(len(group) - 1 for group in groups if len(group))
        means.append([group.mean() if len(group) else math.nan for group in groups])
    for i in range(4):
        with_it, without = (stats.norm.logpdf(margins[0, i], mean, math.sqrt(rest / freedom)) for mean in means[i])
        assert float(found[i]) == pytest.approx(with_it - without, rel=1e-9)
    assert found[4:].tolist() == pytest.approx([0.0, 0.0], abs=0)


def shadows(x, y, *, count=6, **changes):
    networks, generators = stack([network(seed) for seed in range(count)]), [seeded(seed) for seed in range(count)]
    how = {"mechanism": sgd(), "sampling": FullBatch(), "steps": 15, "delta": 1e-5, "generators": generators}
    how |= {"optimizer": lambda parameters: torch.optim.SGD(parameters, lr=0.5), **changes}
    return leakage.shadow_runs(networks, cross_entropy, x, y, **how)


def test_a_shadow_network_depends_on_its_own_records_alone():
    x, y = helpers.data(12)
    before, changed = shadows(x, y), x.clone()
    changed[5] += 1.0
    after = shadows(changed, y)
    assert torch.equal(before.included, after.included) and 0 < int(before.included[:, 5].sum()) < 6
    moved = (before.stack.parameters != after.stack.parameters).any(1)
    assert torch.equal(moved, before.included[:, 5])


def test_membership_shows_in_an_overfitted_network_and_not_without_training():
    """Labels are coins, so that only memory can tell. 40 networks of 100 records: 2,000 members, 2,000 others."""
    x = torch.randn(100, 6, generator=seeded(2))
    y = torch.randint(3, (100,), generator=seeded(3))

    def advantage(**how):
        runs = shadows(x, y, count=40, **how)
        margins = leakage.true_class_margins(torch.stack([model(x) for model in unstack(runs.stack)]), y)
        scores = torch.stack([leakage.likelihood_ratios(margins, included=runs.included, target=k) for k in range(40)])
        inside, out = (scores[rows].flatten() for rows in (runs.included, ~runs.included))
        return float(((inside > 0).double().mean()) - (out > 0).double().mean())

    assert advantage(steps=200) > 0.2
    # 6 deviations of the difference of two rates of 2,000: 0.095
    assert abs(advantage(steps=5, mechanism=dp_sgd(sigma=400.0, clip_norm=1.0))) < 0.1


# ---- gradients ----


def update(x, y, *, clip_norm=math.inf):
    """The gradient of the first layer for a batch, each example's clipped."""
    found = PerExample(network(inputs=x.shape[1], dtype=torch.float64), cross_entropy, x, y)
    sums = found.sum((clip_norm / found.norms).clamp(max=1.0))
    return sums["0.weight"], sums["0.bias"]


def test_an_input_is_read_off_the_gradient_clipped_or_not():
    x, y = helpers.data(1, dtype=torch.float64)
    for clip_norm in (math.inf, 1e-3):
        weight, bias = update(x, y, clip_norm=clip_norm)
        assert torch.allclose(leakage.input_from_gradient(weight, bias=bias), x[0], rtol=1e-9)


@pytest.mark.parametrize("size", [1e-40, 1e-30, 1.0, 1e37])
def test_an_input_is_read_off_a_gradient_of_any_size(size):
    """Of a network that is sure of its example the gradients are too small for their squares."""
    b, a = torch.tensor([-1.0, 0.0, 0.5]) * size, torch.tensor([2.0, -4.0])
    assert torch.allclose(leakage.input_from_gradient(torch.outer(b, a), bias=b), a, rtol=1e-4)


def test_noise_hides_the_input_as_much_as_it_should():
    """With noise on the weights alone the error of each pixel is normal of deviation s/|bias|."""
    x, y = helpers.data(1, inputs=2000, dtype=torch.float64)
    weight, bias = update(x, y)
    s = 0.3
    noisy = weight + s * torch.randn(weight.shape, generator=seeded(4), dtype=torch.float64)
    errors = (leakage.input_from_gradient(noisy, bias=bias) - x[0]) * float(bias.norm()) / s
    assert stats.kstest(errors.numpy(), stats.norm.cdf).pvalue > 1e-6


# ---- what is refused ----


def test_bad_input_is_refused_by_name():
    two, some = torch.tensor([0, 1]), torch.rand(4, 3, generator=seeded(9))
    coins = torch.tensor([[True, False, True]] * 2 + [[False, True, False]] * 2)
    good = {"ids": two, "n": 5, "places": two, "clip_norm": 1.0}
    refuses(leakage.dirac_canaries, good, ids=([0, 1], two + 4, two // 2), places=(two[:1], -two))
    refuses(leakage.dirac_canaries, good, clip_norm=(0.0,), n=(0,))
    samplers = Poisson(q=0.5), FixedSize(m=4)
    refuses(audit, {"sigma": 1.0}, sampling=samplers, guesses=(61,), confidence=(1.0,), learning_rate=(1e300,))
    generators = [seeded(k) for k in range(5)], seeded()
    refuses(many, {"tested": sgd()}, sampling=(FullBatch(), samplers[1]), generators=generators, rng=(0,))
    refuses(many, {"tested": sgd()}, confidence=(1.0,), x=({"canary": math.inf},))
    one = {"x": some[:1].repeat(1, 2), "y": two[:1]}
    refuses(shadows, {"x": some, "y": two.repeat(2)}, generators=([],), x=(one,))
    outputs = [1.0], torch.ones(2, 1), torch.full((2, 3), math.nan), torch.tensor([[3e38, -3e38]] * 2)
    refuses(
        leakage.true_class_margins, {"outputs": torch.ones(2, 3), "y": two}, outputs=outputs, y=(two.double(), two + 2)
    )
    margins = some[:3], some / 0.0, torch.ones(4, 3), some.double() * 1e300
    good = {"margins": some, "included": coins, "target": 0}
    refuses(leakage.likelihood_ratios, good, margins=margins, included=(coins.long(),), target=(4,))
    huge, bias = {"weight": some * 1e30, "bias": torch.full((4,), 1e-30)}, torch.ones(4)
    good = {"weight": some, "bias": bias}
    refuses(leakage.input_from_gradient, good, weight=(some[0], huge), bias=(some[0], 0 * bias, bias.double()))
