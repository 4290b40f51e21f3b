"""The private loop: division, noise, micro-batches, interruption, divergence, and what it refuses."""

import math
import os
import signal
import threading
from dataclasses import replace
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, TensorDataset

from dpml.accounting import pld
from dpml.training import _checks, dp_sgd, loop, models, sgd, trimming, worker
from dpml.training.mechanism import Decision, gaussian, whole_batch
from dpml.training.per_example import PerExample, per_example_gradients
from dpml.training.sampling import FixedSize, FullBatch, Poisson
from dpml.training.trace import QUANTILES, Diverged, Interrupted
from tests.training.helpers import (
    MECHANISMS,
    Recording,
    cross_entropy,
    data,
    first_output,
    flat,
    linear,
    network,
    refuses,
    seeded,
    settings,
    train,
)


def moves_of(x, **changes):
    """What each step of a run moves a model by, [steps, parameters], at learning rate 1: the gradient of row x is x."""
    model = linear(x.shape[1])
    optimizer = Recording(model.parameters())
    run = train(model, x, torch.zeros(len(x)), loss_fn=first_output, optimizer=optimizer, **changes)
    return torch.stack(optimizer.seen), run


def rows(kind, *shape):
    return kind(shape, dtype=torch.float64)


# ---- division by the expected size ----


def test_the_divisor_is_the_expected_size():
    """N = 8, q = 0.5, gradient 1: a step moves w by -k/4 with the realised size k; by -1 if divided by k."""
    moves, run = moves_of(rows(torch.ones, 8, 1), sigma=0.0, steps=50, trace_every=1)
    assert torch.equal(4 * moves[:, 0], torch.from_numpy(run.trace.examples).to(torch.float64))
    assert len(set(moves[:, 0].tolist())) > 3
    assert float(run.model.weight.detach()) == pytest.approx(-float(moves.sum()), abs=1e-12)


# ---- noise once per step, micro-batches ----


@pytest.mark.parametrize("size", [64, 1])
def test_noise_is_drawn_once_per_step(size):
    """10,000 parameters: std 1/32 to 3 % (4.2 standard errors of one step, 19 of 20) for every chunk size."""
    public = Poisson(q=0.5, expected_batch=32)
    moves, run = moves_of(rows(torch.zeros, 64, 10_000), steps=20, micro_batch=size, sampling=public)
    assert moves.std() == pytest.approx(1 / 32, rel=0.01)
    for move in moves:  # whatever the size of its batch
        assert move.std() == pytest.approx(1 / 32, rel=0.03)
    alike = np.corrcoef(moves) - np.eye(20)
    assert np.abs(alike).max() < 5.5 / math.sqrt(10_000), "the noise is fresh in every step"
    assert len(moves) == run.steps == 20
    assert run.guarantee == pld.epsilon(q=0.5, sigma=1.0, steps=20, delta=1e-5)


@pytest.mark.parametrize("name", ["dp_sgd", "tsgd"])
def test_chunk_sizes_agree(name):
    x, y = data(64, dtype=torch.float64)
    ends = []
    for size in (None, 64, 7, 1):
        model = network(dtype=torch.float64)
        train(model, x, y, mechanism=MECHANISMS[name], micro_batch=size)
        ends.append(flat(model))
    for end in ends[1:]:
        assert (end - ends[0]).abs().max() <= 1e-12
    assert (ends[0] - flat(network(dtype=torch.float64))).abs().max() > 0.01


def own(decide, state):
    """A mechanism of one's own, accounted as if it had noise."""
    return whole_batch("own", settings={}, decide=decide, accountant=gaussian(1.0), start=lambda sampling, n: state)


def test_a_mechanism_keeps_its_state_and_may_choose_the_noise_by_a_tensor():
    """In every second step it asks for noise of standard deviation 3, otherwise for none; chosen on the device."""

    def decide(norms, *, ids, state, generator):
        assert ids.shape == norms.shape
        odd = state["step"] % 2
        draw = torch.rand((), generator=generator, device=norms.device)
        noise = torch.where(odd == 1, 3.0, 0.0)
        return Decision(torch.zeros_like(norms), noise, {"step": state["step"] + 1}, {"odd": odd, "draw": draw})

    model = linear(4000)
    optimizer = Recording(model.parameters())
    mechanism = own(decide, {"step": torch.zeros((), dtype=torch.int64)})
    zeros, given = torch.zeros(4, 4000, dtype=torch.float64), {"loss_fn": first_output, "optimizer": optimizer}
    run = train(model, zeros, torch.zeros(4), mechanism=mechanism, steps=6, trace_every=1, **given)
    spreads = [float(move.std()) * 2.0 for move in optimizer.seen]
    assert spreads == pytest.approx([0.0, 3.0, 0.0, 3.0, 0.0, 3.0], rel=0.07)
    assert run.trace.other["odd"].tolist() == [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]
    assert len(set(run.trace.other["draw"].tolist())) == 6
    assert (run.trace.clipped[run.trace.examples > 0] == 1.0).all()  # all weights were 0


def test_a_mechanism_with_too_few_weights_is_refused():
    mechanism = own(lambda norms, *, ids, state, generator: Decision(norms[:1], 0.0, {}, {}), {})
    with pytest.raises(ValueError, match=r"^weights must be one for each norm, got shape \(1,\)") as caught:
        train(network(), *data(), mechanism=mechanism)
    assert caught.value.__notes__[0].startswith("0 private steps were done before this. Spent, with the step that")


# ---- empty batches ----


def test_an_empty_batch_adds_noise_and_counts():
    """N = 10, q = 0.05: most batches are empty: no call of the model, and noise of std sigma R / (q N) = 2."""
    model = network(dtype=torch.float64)
    model.register_forward_pre_hook(lambda layer, given: None if len(given[0]) else pytest.fail("called"))
    optimizer = Recording(model.parameters())
    given = {"optimizer": optimizer, "sampling": Poisson(q=0.05), "steps": 200, "trace_every": 1}
    run = train(model, *data(10, dtype=torch.float64), **given)
    empty = torch.from_numpy(run.trace.examples == 0)
    assert 95 <= int(empty.sum()) <= 145  # binomial, mean 119.7, deviation 6.9: false alarm 5e-4
    on_empty = torch.stack(optimizer.seen)[empty]
    assert on_empty.dtype == torch.float64
    assert on_empty.std() == pytest.approx(2.0, rel=0.05)
    assert (on_empty.std(1) > 1.0).all()
    assert on_empty.mean().abs() < 5.5 * 2.0 / math.sqrt(on_empty.numel())
    assert run.guarantee == replace(pld.epsilon(q=0.05, sigma=1.0, steps=200, delta=1e-5), public="n")
    assert np.isnan(run.trace.loss[empty.numpy()]).all() and np.isfinite(run.trace.loss[~empty.numpy()]).all()
    assert np.isnan(run.trace.norms[empty.numpy()]).all()


# ---- the trace ----


def test_the_trace():
    x, y = data(60)
    model = network()
    optimizer = Recording(model.parameters(), lr=0.0)  # the model stands still, so everything can be computed again
    run = train(model, x, y, optimizer=optimizer, sampling=FullBatch(), steps=7, trace_every=3, test=(x, y), sigma=5.0)
    trace = run.trace
    every = per_example_gradients(model, cross_entropy, x, y)
    norms = torch.cat([g.reshape(60, -1) for g in every.values()], 1).norm(dim=1)
    assert trace.steps.tolist() == [3, 6, 7]
    assert trace.examples.tolist() == [180, 180, 60]
    assert trace.loss == pytest.approx([float(cross_entropy(model(x), y).mean().detach())] * 3, rel=1e-5)
    assert trace.clipped == pytest.approx([float((norms > 1.0).float().mean())] * 3, abs=1e-6)
    levels = torch.quantile(norms, torch.tensor(QUANTILES)).tolist()
    assert trace.norms == pytest.approx(np.array([levels] * 3), rel=1e-4)
    assert trace.accuracy == pytest.approx([float((model(x).argmax(1) == y).float().mean())] * 3)
    assert trace.epsilon == pytest.approx(
        [pld.epsilon(q=1.0, sigma=5.0, steps=s, delta=1e-5).epsilon for s in (3, 6, 7)]
    )
    assert {guarantee.sampling for guarantee in trace.guarantees} == {"none"}
    assert (run.model, run.steps, run.guarantee) == (model, 7, trace.guarantees[-1])
    assert "3 points to step 7" in repr(trace)


def test_with_very_many_points_no_epsilon_is_below_the_truth():
    """Of 120 points 50 are computed, and the others get the epsilon of a later one."""
    trace = train(network(), *data(), sampling=FullBatch(), steps=120, trace_every=1, sigma=9.0).trace
    exact = [pld.epsilon(q=1.0, sigma=9.0, steps=steps, delta=1e-5).epsilon for steps in range(1, 121)]
    assert (trace.epsilon >= np.array(exact) - 1e-12).all()
    assert (trace.epsilon[:-3] <= np.array(exact)[3:]).all()
    assert trace.epsilon[-1] == pytest.approx(exact[-1])
    assert len(set(trace.epsilon.tolist())) == loop.MOST_ACCOUNTED
    assert np.isnan(trace.accuracy).all()  # without test data


def test_accuracy_leaves_the_modes_alone():
    model = network(dropout=0.5)
    model[1].eval()
    x, y = data()
    first = models.accuracy(model, x, y=y, size=7)
    assert first == pytest.approx(models.accuracy(model, x, y=y))  # no dropout
    assert [module.training for module in model] == [True, False, True, True]
    with pytest.raises(ValueError, match=r"^y must have as many rows as x"):
        models.accuracy(model, x, y=y[:-1])


class Waits(TorchDispatchMode):
    """Counts what moves a number from the device to Python."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += "_local_scalar_dense" in str(func)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("mechanism", [*MECHANISMS.values(), sgd()], ids=[*MECHANISMS, "sgd"])
def test_no_step_waits_for_the_device(mechanism, monkeypatch):
    counts = []
    step = loop.Training.step

    def counting(self):
        self.looks_always = False  # as on a GPU
        with Waits() as waits:
            step(self)
        counts.append(waits.count)

    monkeypatch.setattr(loop.Training, "step", counting)
    monkeypatch.setattr(trimming, "_local", lambda values: values)
    train(network(), *data(), mechanism=mechanism, micro_batch=8, steps=5)
    assert counts == [0] * 5


def test_the_run_follows_from_its_generator_alone():
    """With dropout, whatever the global generator is, which is left alone; the same generator goes on."""
    generator, ends = seeded(4), []
    for number, source in enumerate((generator, generator, seeded(4))):
        torch.manual_seed(number)
        before = torch.get_rng_state()
        model = network(dropout=0.5)
        train(model, *data(), generator=source)
        assert torch.equal(torch.get_rng_state(), before)
        ends.append(flat(model))
    assert torch.equal(ends[0], ends[2]) and not torch.equal(ends[0], ends[1])


# ---- interrupted and continued ----


def raise_in_step(monkeypatch, number, error):
    """In step `number`, after the sample was drawn and the gradients were computed, raise `error`."""
    calls = []

    def failing(*arguments):
        calls.append(0)
        found = PerExample(*arguments)
        if len(calls) == number:
            raise error
        return found

    monkeypatch.setattr(worker, "PerExample", failing)


@pytest.mark.parametrize("step", [1, 2, 7, 20])
def test_interrupted_anywhere_and_continued(step, tmp_path, monkeypatch):
    """In the middle of a step, whose randomness is put back: sampler, noise, momentum and dropout, to the last bit."""
    whole = network(dropout=0.2)
    straight = train(whole, *data(), **settings(whole))
    model, file = network(dropout=0.2), tmp_path / "run.pt"
    raise_in_step(monkeypatch, step, KeyboardInterrupt)
    with pytest.raises(Interrupted, match=rf"^Interrupted after step {step - 1} of 20\. Spent: ") as caught:
        train(model, *data(), checkpoint=file, **settings(model))
    run = caught.value.run
    assert run.steps == step - 1
    assert "The same call goes on" in str(caught.value)
    expected = 0.0 if step == 1 else pld.epsilon(q=0.5, sigma=1.0, steps=step - 1, delta=1e-5).epsilon
    assert run.guarantee.epsilon == pytest.approx(expected, abs=2e-3)
    assert run.guarantee.epsilon >= expected
    assert list(run.trace.steps[-1:]) == ([step - 1] if step > 1 else [])
    assert all(p.grad is None for p in model.parameters())
    torch.manual_seed(step)  # whatever happens outside
    model = network(3, dropout=0.2)  # what the model holds is read from the file
    again = train(model, *data(), checkpoint=file, **settings(model))
    assert torch.equal(flat(model), flat(whole))
    assert again.trace.loss == pytest.approx(straight.trace.loss, rel=1e-6)
    assert again.trace.examples.tolist() == straight.trace.examples.tolist()
    assert again.trace.epsilon.tolist() == straight.trace.epsilon.tolist()


@pytest.mark.skipif(os.name == "nt", reason="Windows delivers no signal to a running program this way")
def test_ctrl_c_lets_the_step_finish(tmp_path, monkeypatch):
    calls = []

    def interrupting(*arguments):
        calls.append(0)
        if len(calls) == 5:
            signal.raise_signal(signal.SIGINT)
        return PerExample(*arguments)

    monkeypatch.setattr(worker, "PerExample", interrupting)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted, match=r"^Interrupted after step 5 of 1000\.") as caught:
        train(network(), *data(), sampling=FullBatch(), steps=1000, trace_every=1000, checkpoint=tmp_path / "a.pt")
    assert caught.value.run.steps == len(calls) == 5
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.skipif(os.name == "nt", reason="Windows delivers no signal to a running program this way")
def test_a_second_ctrl_c_does_not_wait():
    def loss_fn(outputs, labels):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        return cross_entropy(outputs, labels)

    with pytest.raises(KeyboardInterrupt):
        train(network(), *data(), loss_fn=loss_fn)


def test_it_runs_in_a_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(train(network(), *data()).steps))
    thread.start()
    thread.join()
    assert found == [10]


class HalfWay(torch.optim.SGD):
    done = 0

    def step(self, closure=None):
        super().step(closure)
        self.done += 1
        if self.done == 2:
            raise KeyboardInterrupt


def test_an_update_cut_in_two_is_not_saved(tmp_path):
    model = network()
    optimizer = HalfWay(model.parameters(), lr=0.1)
    with pytest.raises(KeyboardInterrupt) as caught:
        train(model, *data(), optimizer=optimizer, checkpoint=tmp_path / "a.pt", trace_every=10)
    assert not isinstance(caught.value, Interrupted)
    assert caught.value.__notes__[0].startswith(
        "The model is half-way through step 2. Spent, with the step that failed"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_finished_run_is_read_from_its_file(tmp_path):
    x, y = data()
    model, file = network(), tmp_path / "run.pt"
    first = train(model, x, y, checkpoint=file)
    copy = network(3)
    again = train(copy, x, y, checkpoint=file)
    assert torch.equal(flat(copy), flat(model))
    assert again.trace.loss.tolist() == first.trace.loss.tolist()
    assert again.guarantee == first.guarantee
    with pytest.raises(ValueError, match=r"^steps must be at least the 10 of the checkpoint, got 9"):
        train(network(), x, y, checkpoint=file, steps=9)
    assert [path.name for path in tmp_path.iterdir()] == ["run.pt"]


def other_rate(model):
    return {"optimizer": torch.optim.SGD(model.parameters(), lr=0.2)}


OTHER_RUNS = [
    ("sigma", network, {"sigma": 2.0}),
    ("clip_norm", network, {"clip_norm": 0.5}),
    ("delta", network, {"delta": 1e-6}),
    ("sampling", network, {"sampling": Poisson(q=0.25)}),
    ("sampling =", network, {"sampling": Poisson(q=0.5, expected_batch=3.0)}),
    ("optimizer", network, other_rate),
    ("parameters", lambda: network(hidden=4), {}),
    ("data", network, {"x": data()[0] + 1e-3 * torch.eye(40, 6)}),
]


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    x, y = data()
    file = tmp_path / "run.pt"
    train(network(), x, y, checkpoint=file, steps=5)
    for name, build, change in OTHER_RUNS:
        model = build()
        change = change(model) if callable(change) else change
        words = rf"^checkpoint must be of a run with the same settings, got one with {name}"
        with pytest.raises(ValueError, match=words):
            train(model, **{"x": x, "y": y, "checkpoint": file, **change})


def test_a_file_that_is_no_checkpoint_is_refused_and_stays(tmp_path):
    """Nothing, text, another's dictionary, one cut short, one with a byte turned round, and one where any part
    is missing or of another kind."""
    file = tmp_path / "run.pt"
    nothing = own(lambda norms, **given: Decision(norms, 0.0, {"seen": len(norms)}, {}), {"seen": 0})
    given = {"checkpoint": file, "mechanism": nothing, "sampling": FullBatch()}

    def go_on(**more):
        model = network()
        train(model, *data(), optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), **given, **more)

    go_on(steps=2)
    whole, kept = file.read_bytes(), torch.load(file, weights_only=True)
    contents = [b"", b"not a checkpoint", *(whole[: len(whole) * k // 10] for k in (1, 4, 7)), whole[:-9]]
    contents.append(whole[: len(whole) // 2] + bytes([255 - whole[len(whole) // 2]]) + whole[len(whole) // 2 + 1 :])
    contents += [{"weights": torch.zeros(2)}, {**kept, "dpml": 2}, {**kept, "done": -1}, {**kept, "done": 1.5}]
    contents += [{**kept, "sums": {"loss": "1"}}, {**kept, "points": [{}]}, {**kept, "norms": torch.zeros(2, 2)}]
    contents += [{**kept, name: bad} for name in kept for bad in ("2", [1], {"a": "b"})]
    source, states = kept["source"], kept["source"]["randomness"]
    momentum = {"state": {0: {"momentum_buffer": torch.zeros(1)}}}
    contents += [{**kept, "source": {}}, {**kept, "optimizer": kept["optimizer"] | momentum}]
    contents += [{**kept, "source": {**source, part: bad}} for part in source for bad in ({}, 1.0, {"seen": "1"})]
    contents += [{**kept, "model": {name: value / 0.0 for name, value in kept["model"].items()}}]
    contents += [
        {**kept, "source": {**source, "randomness": {name: torch.zeros_like(state) for name, state in states.items()}}}
    ]
    contents += [{name: value for name, value in kept.items() if name != left} for left in kept]
    for content in contents:
        if isinstance(content, bytes):
            file.write_bytes(content)
        else:
            torch.save(content, file)
        before = file.read_bytes()
        with pytest.raises(ValueError, match=r"^checkpoint must ") as caught:
            go_on()
        assert "run.pt" in str(caught.value) or "settings" in str(caught.value)
        assert file.read_bytes() == before


def test_a_half_written_file_is_never_left(tmp_path, monkeypatch):
    x, y = data()
    file = tmp_path / "run.pt"
    train(network(), x, y, checkpoint=file, steps=5)
    before = file.read_bytes()

    def full(*arguments):
        raise OSError("No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="No space"):
        train(network(), x, y, checkpoint=file)
    assert [path.name for path in tmp_path.iterdir()] == ["run.pt"]
    assert file.read_bytes() == before


# ---- divergence ----


class Bomb(torch.optim.SGD):
    """Puts `value` into the parameters after so many steps."""

    def __init__(self, parameters, after, value):
        super().__init__(parameters, lr=0.1)
        self.left, self.value = after, value

    def step(self, closure=None):
        super().step(closure)
        self.left -= 1
        if self.left == 0:
            self.param_groups[0]["params"][0].data.fill_(self.value)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_not_finite_stops_with_the_step_and_what_was_spent(value):
    model = network()
    with pytest.raises(Diverged) as caught:
        train(
            model, *data(), optimizer=Bomb(model.parameters(), 7, value), sampling=FullBatch(), steps=20, trace_every=5
        )
    error = caught.value
    assert error.step == 8
    assert error.run.steps == 7
    assert "A smaller learning rate may help" in str(error)
    assert "not finite in step 8; the model is as after step 7. Spent, with the step that failed: epsilon" in str(error)
    assert error.run.guarantee.epsilon == pytest.approx(pld.epsilon(q=1.0, sigma=1.0, steps=8, delta=1e-5).epsilon)
    assert error.run.trace.steps.tolist() == [5, 7]
    assert np.isfinite(error.run.trace.loss).all()
    assert all(p.grad is None for p in model.parameters())


def test_in_the_first_step_the_learning_rate_is_not_accused():
    with pytest.raises(Diverged, match=r"in step 1; .* No update was made yet: look for examples whose loss"):
        train(network(), *data(), loss_fn=lambda outputs, y: 1e30 * cross_entropy(outputs, y))


def test_not_finite_after_the_last_step():
    model = network()
    with pytest.raises(Diverged, match=r"not finite in step 10;"):
        train(model, *data(), optimizer=Bomb(model.parameters(), 10, math.nan))


def test_on_a_gpu_the_step_is_found_later(monkeypatch):
    """There the loop looks every 50 steps only; the step is named all the same, and all steps done are counted."""
    initial = loop.Training.__post_init__

    def as_on_a_gpu(self):
        initial(self)
        self.looks_always = False

    monkeypatch.setattr(loop.Training, "__post_init__", as_on_a_gpu)
    model = network()
    with pytest.raises(Diverged, match=r"not finite in step 8; the model is as after step 50") as caught:
        train(model, *data(), optimizer=Bomb(model.parameters(), 7, math.nan), steps=100, trace_every=100, sigma=9.0)
    assert caught.value.step == 8
    assert caught.value.run.guarantee.epsilon >= pld.epsilon(q=0.5, sigma=9.0, steps=50, delta=1e-5).epsilon


# ---- bad input, before any step ----


class Asks(torch.optim.SGD):
    """Calls the closure that nobody gives."""

    def step(self, closure=None):
        return closure()


def changed(values, place, value):
    values = values.clone()
    values[place] = value
    return values


def with_own_optimizer(model):
    """The change to another model."""
    return {"model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1)}


def weighing(value):
    """The change to a model with one weight of this size."""
    model = network()
    model[0].weight.data[0] = value
    return with_own_optimizer(model)


X, Y = data()
MODEL = network()
TOKENS = torch.randint(6, (40, 5), generator=seeded())
WORDS = nn.Sequential(nn.Embedding(6, 4), nn.Flatten(), nn.Linear(20, 3))
COUNTS = (0, -1, 1.5, "1", True, math.nan)


class Everyone(Poisson):
    """Another way of drawing under the same name."""

    def draw(self, n, *, generator):
        return torch.arange(n)


DRAWN = DataLoader(TensorDataset(X, Y), shuffle=True), 0.5, FixedSize(m=41), Everyone(q=0.01)
NO_TENSORS = X.numpy(), X.to_sparse(), X.to("meta"), torch.complex(X, X / 0.0), X.to(torch.float8_e4m3fn)
NESTED = torch.nested.nested_tensor(list(X), layout=torch.jagged)
NO_TEST = X, (X,), (X, Y[:-1]), (X, None), (X[:, :2], Y), (X[:0], Y[:0])
KINDS = [(torch.optim.SGD, {"differentiable": True}), (torch.optim.Adam, {"differentiable": True})]
KINDS += [(torch.optim.Adam, {"capturable": True}), (torch.optim.SGD, {"lr": math.nan})]
KINDS += [(torch.optim.SGD, {"lr": math.inf}), (Asks, {}), (torch.optim.LBFGS, {})]
SOME, MORE = MODEL[2].parameters(), [*MODEL.parameters(), nn.Parameter(torch.zeros(2))]
NO_OPTIMIZERS = [torch.optim.SGD(parameters, lr=0.1) for parameters in (network().parameters(), SOME, MORE)]
NO_OPTIMIZERS += [kind(MODEL.parameters(), **{"lr": 0.1, **options}) for kind, options in KINDS]
with torch.inference_mode():
    FORGETFUL = network()
BAD = {
    "sampling": DRAWN,
    "delta": ("1", True, math.nan, math.inf, -1.0, torch.ones(2), None, 1.5),
    "mechanism": (None, dp_sgd, "dp_sgd", 1.0),
    "sigma": ({"mechanism": dp_sgd(sigma=1e-9, clip_norm=1.0)},),
    "expected_batch": ({"sampling": Poisson(q=0.5, expected_batch=1e-45)},),
    "steps": (*COUNTS, None),
    "micro_batch": COUNTS,
    "trace_every": COUNTS,
    "generator": (None, 0, "0", np.random.default_rng(0), torch.Generator, torch.default_generator),
    "optimizer": (None, 0.1, torch.optim.SGD, *NO_OPTIMIZERS),
    "test": NO_TEST,
    "checkpoint": (3, "", "no/such/folder/file.pt", b"a", os.devnull),
    "loss_fn": (None, functional.cross_entropy, lambda outputs, labels: 1.0),
    "x": (*NO_TENSORS, NESTED, {"x": X[:0], "y": Y[:0]}, changed(X, (31, 2), math.nan), changed(X, (31, 2), -1e25)),
    "y": (Y.tolist(), Y.to_sparse(), Y[:-1]),
    "x and y": (
        {"y": changed(Y, 33, 3)},  # a label that the model does not have
        {**with_own_optimizer(WORDS), "x": changed(TOKENS, (22, 1), 6)},
        {"x": X[:, :4]},
        {"x": X.double()},
        {"augment": lambda x, y: x.double()},
    ),
    "model": (
        *(None, network().to(torch.float8_e4m3fn), FORGETFUL, network().requires_grad_(False), nn.Identity()),
        *(weighing(math.inf), weighing(1e20), with_own_optimizer(nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 3)))),
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused_before_any_step(name):
    before, generator = flat(MODEL).clone(), seeded()
    good = {"model": MODEL, "loss_fn": cross_entropy, "x": X, "y": Y, "mechanism": dp_sgd(sigma=1.0, clip_norm=1.0)}
    good |= {"sampling": Poisson(q=0.5), "steps": 10, "delta": 1e-5, "generator": generator}
    good |= {"optimizer": torch.optim.SGD(MODEL.parameters(), lr=0.1)}
    refuses(loop.train, good, **{name: BAD[name]})
    assert torch.equal(flat(MODEL), before)
    assert torch.equal(generator.get_state(), seeded().get_state())


def test_what_would_stop_a_gpu_is_looked_for_on_the_cpu():
    """The same function serves both; a model that cannot move is left to its own device."""
    x, y = data()
    with pytest.raises(IndexError):
        _checks.out_of_range(network(), cross_entropy, x, torch.full((40,), 3))
    _checks.out_of_range(network(), cross_entropy, x, y)
    _checks.out_of_range(network(), cross_entropy, x[:, :2], y)


def test_a_progress_bar_counts_the_steps_and_names_epsilon(monkeypatch, tmp_path):
    made = MagicMock()
    monkeypatch.setattr(loop, "tqdm", made)
    for steps in (6, 10):
        run = train(network(), *data(), checkpoint=tmp_path / "run.pt", steps=steps)
    assert [(call.kwargs["total"], call.kwargs["initial"]) for call in made.call_args_list] == [(6, 0), (10, 6)]
    bar = made.return_value
    assert bar.update.call_count == 6 + 4 and bar.__exit__.call_count == 2
    assert bar.set_postfix_str.call_args.args == (f"epsilon {run.guarantee.epsilon:.4g}",)


# ---- augmentation ----


def noisy(x, y):
    return x + torch.randn_like(x)


def test_augmented_examples_are_those_that_are_trained_on():
    x, y = data()
    ends = []
    for some, augment in ((x, lambda x, y: 2.0 * x + y[:, None]), (2.0 * x + y[:, None], None)):
        model = network()
        train(model, some, y, augment=augment, micro_batch=7)
        ends.append(flat(model))
    assert torch.equal(*ends)


def test_an_augmented_run_goes_on_to_the_same_bits(tmp_path):
    """Fresh numbers in each step, from the run's own seed."""
    x, y = data()
    ends = []
    for counts in ((6,), (6,), (2, 4, 6)):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        more = {"augment": noisy, "optimizer": optimizer, "trace_every": 2}
        for steps in counts:
            more["checkpoint"] = tmp_path / f"{len(ends)}.pt"
            train(model, x, y, steps=steps, generator=seeded(), **more)
            torch.rand(3)  # whatever happens outside
        ends.append(flat(model))
    plain = network()
    train(plain, x, y, steps=6)
    assert torch.equal(ends[0], ends[1]) and torch.equal(ends[0], ends[2]) and not torch.equal(ends[0], flat(plain))


class Later:
    """Mixes examples after some calls."""

    calls = 0

    def __call__(self, x, y):
        self.calls += 1
        return x - x.mean(0) if self.calls > 20 else x


def from_the_first():
    """It subtracts the mean of the first examples from all."""
    known = {}
    return lambda x, y: x - known.setdefault("mean", x.mean(0))


MIXING = [1.0, from_the_first(), lambda x, y: x / None, lambda x, y: x[1:], lambda x, y: None, Later()]
MIXING += [lambda x, y: x - x.mean(0), lambda x, y: x + y.sum(), lambda x, y: x - x.mean(0) if len(x) > 24 else x]


@pytest.mark.parametrize("augment", MIXING)
def test_an_augmentation_that_mixes_examples_is_refused(augment):
    with pytest.raises(ValueError, match=r"^augment must"):
        train(network(), *data(100), augment=augment, steps=40)
