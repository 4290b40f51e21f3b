"""Stacked training against one model at a time: the same draws, the same numbers."""

import math
from contextlib import nullcontext
from functools import partial

import pytest
import torch
from torch.nn import functional as F  # noqa: N812
from torch.nn.utils import prune

from dpml.training import dp_sgd, dp_sgd_automatic, loop, models, sgd, stacked, stacked_networks, tsgd
from dpml.training.dpsgd import clip
from dpml.training.per_example import PerExample
from dpml.training.sampling import FixedSize, FullBatch, Poisson
from tests.training.helpers import cross_entropy as loss_fn
from tests.training.helpers import flat, refuses, seeded

SIZES = {"features": 7, "hidden": 5, "classes": 3}


def networks(count, dtype=torch.float64, **sizes):
    return [models.mlp(generator=seeded(50 + k), **{**SIZES, **sizes}).to(dtype) for k in range(count)]


def records(count, dtype=torch.float64, features=7, classes=3):
    x = 2 * torch.randn(count, features, generator=seeded(1), dtype=dtype)
    return x, torch.randint(classes, (count,), generator=seeded(2))


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=0.3, momentum=0.9)


def plain(rate):
    return lambda parameters: torch.optim.SGD(parameters, lr=rate)


RUN = {"mechanism": dp_sgd(sigma=1.0, clip_norm=1.0), "steps": 8, "optimizer": momentum, "delta": 1e-3}


def trained(several, x, y, **changes):
    """A stacked run with good arguments; `changes` replace some."""
    start = several if isinstance(several, stacked_networks.Stack) else stacked_networks.stack(several)
    generators = [seeded(k) for k in range(len(start.parameters))]
    return stacked.train(start, loss_fn, x, y, **{**RUN, "generators": generators, **changes})


def alone(k, model, x, y, **changes):
    """The same run of model k by itself."""
    given = {**RUN, "generator": seeded(k), "trace_every": 1, **changes}
    return loop.train(model, loss_fn, x, y, **{**given, "optimizer": given["optimizer"](list(model.parameters()))})


def check_each(run, several, tolerance=1e-12):
    """The stacked networks are these, which were trained one by one."""
    for row, model in zip(run.stack.parameters, several, strict=True):
        torch.testing.assert_close(row, flat(model), rtol=tolerance, atol=10 * tolerance)


# ---- norms and sums ----


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
@pytest.mark.parametrize("common", [False, True])
@pytest.mark.parametrize("deep", [False, True])
def test_norms_losses_and_sums_are_those_of_each_model(dtype, tolerance, common, deep):
    several = networks(4, dtype)
    if deep:
        more = torch.nn.Linear(5, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3)
        several = [torch.nn.Sequential(*model[:3], *more).to(dtype) for model in several]
    x = torch.randn(4, 9, 7, generator=seeded(3), dtype=dtype)
    y = torch.randint(3, (4, 9), generator=seeded(4))
    weights = torch.rand(4, 9, generator=seeded(5), dtype=dtype)
    stack = stacked_networks.stack(several)
    both = stacked_networks.StackedPerExample(stack, loss_fn, *((x[0], y[0]) if common else (x, y)))
    sums = both.sum(weights)
    for k, model in enumerate(several):
        batch = (x[0], y[0]) if common else (x[k], y[k])
        single = PerExample(model, loss_fn, *batch)
        torch.testing.assert_close(both.losses[k], single.losses, rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(both.norms[k], single.norms, rtol=tolerance, atol=tolerance)
        expected = torch.cat([part.reshape(-1) for part in single.sum(weights[k]).values()])
        torch.testing.assert_close(sums[k], expected, rtol=tolerance, atol=tolerance * float(expected.norm()))


@pytest.mark.parametrize("shape", [(2, 0, 7), (0, 7)])
def test_an_empty_batch_has_sum_zero(shape):
    x, y = torch.zeros(shape, dtype=torch.float64), torch.zeros(shape[:-1], dtype=torch.int64)
    both = stacked_networks.StackedPerExample(stacked_networks.stack(networks(2)), loss_fn, x, y)
    assert both.norms.shape == (2, 0)
    assert torch.equal(both.sum(both.norms), torch.zeros(2, 7 * 5 + 5 + 15 + 3).double())


# ---- whole runs ----


SETTINGS = {
    "sgd": [sgd()] * 3,
    "dp_sgd": [dp_sgd(sigma=sigma, clip_norm=clip) for sigma, clip in ((0.8, 0.5), (1.7, 1.0), (1.7, 2.0))],
    "mixed": [sgd(), dp_sgd_automatic(sigma=0.9), dp_sgd(sigma=1.7, clip_norm=1.0)],
}


SAMPLERS = (Poisson(q=0.2), Poisson(q=0.02), FixedSize(m=6), FullBatch())
RUNS = [(kind, sampling, torch.float64, 1e-12) for kind in SETTINGS for sampling in SAMPLERS]


@pytest.mark.parametrize(
    ("kind", "sampling", "dtype", "tolerance"), [*RUNS, ("mixed", SAMPLERS[0], torch.float32, 1e-6)]
)
def test_runs_are_those_one_by_one(kind, sampling, dtype, tolerance):
    x, y = records(40, dtype)
    several = networks(3, dtype)
    run = trained(several, x, y, mechanism=SETTINGS[kind], sampling=sampling)
    for k, model in enumerate(several):
        single = alone(k, model, x, y, mechanism=SETTINGS[kind][k], sampling=sampling)
        assert run.guarantees[k] == single.guarantee
    check_each(run, several, tolerance)


def test_shards_own_labels_own_samplers_and_another_optimizer():
    x, y = records(30)
    adam = lambda parameters: torch.optim.Adam(parameters, lr=0.05)  # noqa: E731
    shards = [torch.arange(0, 10), torch.tensor([29, 4, 17, 11, 8]), torch.arange(10, 30)]
    own = torch.stack([y, (y + 1) % 3, (y + 2) % 3])
    several, samplers = networks(3), [Poisson(q=0.4), FixedSize(m=2), Poisson(q=0.1)]
    run = trained(several, x, own, sampling=samplers, shards=shards, optimizer=adam)
    for k, (model, shard) in enumerate(zip(several, shards, strict=True)):
        alone(k, model, x[shard], own[k, shard], sampling=samplers[k], optimizer=adam)
    check_each(run, several)


def test_noise_is_on_the_sum_and_divided_by_the_expected_size_also_when_nobody_is_drawn():
    """q n = 0.1 with 2 records: nearly every batch is empty, and each step still moves by noise sigma C / (q n)."""
    start = stacked_networks.stack(networks(2, features=400)[:1] * 2)
    x, y = torch.zeros(2, 400, dtype=torch.float64), records(2)[1]
    mechanisms = [dp_sgd(sigma=1.0, clip_norm=0.5), dp_sgd(sigma=3.0, clip_norm=0.25)]
    given = {"sampling": Poisson(q=0.05), "optimizer": plain(1.0), "steps": 1, "generators": [seeded(3), seeded(4)]}
    run = trained(start, x, y, mechanism=mechanisms, **given)
    moved = (run.stack.parameters - start.parameters)[:, :2000]  # the first weights, whose gradient is 0 for x = 0
    for k, expected in enumerate([0.5 / 0.1, 0.75 / 0.1]):
        # 2,000 normal draws: the deviation lies within 10 % but for probability 2 P(N > 6.3) < 1e-9
        assert float(moved[k].std()) == pytest.approx(expected, rel=0.1)
    assert run.diverged.tolist() == [0, 0]


def test_one_model_may_diverge_and_the_others_go_on():
    x, y = records(20)
    full = {"mechanism": dp_sgd(sigma=0.0, clip_norm=1.0), "sampling": FullBatch(), "delta": 0.1}
    wild = trained(networks(2), x, y, optimizer=plain(1e200), steps=4, **full)
    assert wild.diverged.tolist() == [2, 2], "the first of three such steps"
    one = {"steps": 1, "optimizer": plain(0.1), **full}
    single = networks(2)[1]
    rows = torch.stack([torch.full_like(flat(single), math.inf), flat(single)])
    calm = trained(stacked_networks.Stack(rows, (7, 5, 3)), x, y, **one)
    alone(1, single, x, y, **one)
    assert calm.diverged.tolist() == [1, 0]
    torch.testing.assert_close(calm.stack.parameters[1], flat(single), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [1e-23, 1e-12, 1.0, 1e12])
def test_no_record_of_any_size_moves_a_sum_by_more_than_the_clip_norm(size):
    """A short gradient of the outputs times a long input: the square of the one underflows, the product is long."""
    layers = stacked_networks.stack([torch.nn.Sequential(torch.nn.Linear(3, 2))])
    x = torch.tensor([[3e18, 0.0, 0.0], [1.0, 2.0, 3.0], [0.0, 0.0, 0.0]])
    found = stacked_networks.StackedPerExample(layers, lambda outputs, y: size * outputs.sum(1), x, torch.zeros(3))
    weights = clip(found.norms, clip_norm=1e-5)
    for i in range(3):
        assert float(found.sum(weights * torch.eye(3)[i]).double().norm()) <= 1e-5 * (1 + 1e-5)


def test_a_context_around_the_run_changes_nothing():
    x, y = records(30, torch.float32)
    given = {"mechanism": dp_sgd(sigma=1.0, clip_norm=1.0), "sampling": Poisson(q=0.5), "steps": 3}
    ends = []
    for around in (nullcontext(), torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16)):
        with around:
            ends.append(trained(networks(3, torch.float32), x.clone().requires_grad_(), y, **given).stack.parameters)
    assert torch.equal(ends[0], ends[1]) and torch.equal(ends[0], ends[2])


def test_stack_unstack_predict():
    several = networks(3)
    x, _ = records(11)
    both = stacked_networks.stack(several)
    for model, copy in zip(several, stacked_networks.unstack(both), strict=True):
        torch.testing.assert_close(copy(x), model(x), rtol=0, atol=0)
    expected = torch.stack([model(x).argmax(1) for model in several])
    assert torch.equal(stacked_networks.predict(both, x=x), expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpml.training.stacked_networks.PREDICTED_AT_ONCE", 40)
        assert torch.equal(stacked_networks.predict(both, x=x), expected), "in pieces of a few examples"
    before = flat(several[0])
    trained(both, *records(11), sampling=FullBatch(), steps=1)
    torch.testing.assert_close(both.parameters[0], before, rtol=0, atol=0)


# ---- refusals ----

X, Y = records(10)
GOOD = {"stacked": stacked_networks.stack(networks(2)), "loss_fn": loss_fn, "x": X, "y": Y, **RUN}
GOOD |= {"sampling": Poisson(q=0.5), "generators": [seeded(0), seeded(1)]}
SAME, THREE = seeded(0), torch.arange(3)
NO_SHARDS = [1, 2], THREE[:0], THREE + 8, torch.tensor([-1]), THREE // 2
FITS = [{"loss_fn": None}, {"loss_fn": lambda outputs: outputs}, {"y": Y + 3}, {"y": torch.stack([Y, Y - 3])}]
BAD = {
    "stacked": [networks(1)[0], stacked_networks.Stack(GOOD["stacked"].parameters.bfloat16(), (7, 5, 3))],
    "loss_fn": [F.cross_entropy],
    "x": [X.float(), X[:, :5], X.numpy(), torch.full_like(X, math.nan)],
    "y": [Y[:9], Y.tolist(), Y.expand(3, 10)],
    "x and y": FITS,
    "sampling": [torch.utils.data.DataLoader(range(10), shuffle=True), 0.5, [Poisson(q=0.5)], [Poisson(q=0.5), 0]],
    "n": [{"sampling": FixedSize(m=11)}],
    "mechanism": [dp_sgd, tsgd(sigma=1.0, clip_norm=1.0, trim=1), [sgd()], [sgd(), "sgd"]],
    "steps": [0, 2.0],
    "optimizer": [
        *(partial(kind, lr=0.1) for kind in (torch.optim.Adafactor, torch.optim.Muon)),
        momentum([X.clone().requires_grad_()]),
        torch.optim.LBFGS,
        lambda p: p,
        lambda p: plain(0.1)([X]),
    ],
    "delta": [1.1, None],
    "generator": [{"generators": [0, 1]}],
    "generators": [[seeded(0)], [SAME, SAME], SAME, [seeded(2), seeded(2)]],
    "shards": [[THREE], *([THREE, bad] for bad in NO_SHARDS)],
}


def test_bad_input_is_refused_before_anything_is_drawn():
    refuses(stacked.train, GOOD, **BAD)
    for generator, seed in zip(GOOD["generators"], (0, 1), strict=True):
        assert torch.equal(generator.get_state(), seeded(seed).get_state())


@pytest.mark.parametrize(
    "weigh",
    [
        lambda losses, y: losses / max(1, len(y) // 4),
        lambda losses, y: losses / torch.bincount(y)[y],
        lambda losses, y: losses * (losses >= losses.detach().median()),
        lambda losses, y: losses / max(1, len(y) // 40),
    ],
)
def test_a_loss_that_looks_at_the_other_examples_is_refused(weigh):
    x, y = records(100)
    loss = lambda outputs, labels: weigh(loss_fn(outputs, labels), labels)  # noqa: E731
    with pytest.raises(ValueError, match=r"^model must treat examples one by one"):
        stacked.train(**GOOD | {"x": x, "y": torch.stack([y, y.flip(0)]), "loss_fn": loss})


def test_what_cannot_be_stacked():
    line, relu = torch.nn.Linear(7, 5), torch.nn.ReLU()
    layers = [torch.nn.Linear(7, 3, bias=False)], [line, torch.nn.Tanh(), torch.nn.Linear(5, 3)], [line, relu], []
    square, frozen, hooked = torch.nn.Linear(7, 7), torch.nn.Linear(7, 3), torch.nn.Linear(7, 3)
    frozen.weight.requires_grad_(False)
    hooked.register_forward_hook(lambda layer, given, outputs: 2.0 * outputs)
    layers += [square, relu, square], [frozen], [hooked], [prune.identity(torch.nn.Linear(7, 3), "weight")]
    unlike = [*networks(1), *networks(1, hidden=6)], [*networks(1), *networks(1, torch.float32)]
    others = [], networks(1)[0], [line], [models.tutorial_cnn(generator=seeded(0))]
    refuses(stacked_networks.stack, {}, models=(*([torch.nn.Sequential(*some)] for some in layers), *unlike, *others))
