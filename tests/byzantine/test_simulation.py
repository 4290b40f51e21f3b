"""n workers in one process: what is submitted, what the server makes of it, what it costs, and how a run goes on."""

import functools
import math

import pytest
import torch

from dpml.byzantine import attacks
from dpml.byzantine.aggregation import average, krum, median
from dpml.byzantine.simulation import simulate
from dpml.training import dp_sgd, sgd, tsgd_ptr, worker
from dpml.training import train as train_alone
from dpml.training.per_example import PerExample
from dpml.training.sampling import FixedSize, Poisson
from dpml.training.trace import Diverged, Interrupted
from tests.training.helpers import (
    Recording,
    cross_entropy,
    data,
    first_output,
    flat,
    gradients,
    linear,
    network,
    refuses,
    seeded,
)

DOUBLE = {"dtype": torch.float64}


def run(model, x=None, y=None, *, loss_fn=cross_entropy, **changes):
    """A short run of 5 workers, one of them Byzantine, with good arguments; `changes` replace some."""
    given = {"mechanism": dp_sgd(sigma=1.0, clip_norm=1.0), "sampling": Poisson(q=0.5), "n": 5, "n_byzantine": 1}
    given |= {"rule": median, "attack": attacks.little, "steps": 6, "delta": 1e-5, "generator": seeded()}
    given["optimizer"] = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = data() if x is None else (x, y)
    return simulate(model, loss_fn, x, y, **{**given, **changes})


class Watched:
    """A rule that keeps all vectors that it was given in the run itself."""

    def __init__(self, rule):
        self.rule, self.seen = rule, []

    def __call__(self, vectors, *, n_byzantine):
        self.seen.append(vectors.clone())
        return self.rule(vectors, n_byzantine=n_byzantine)

    @property
    def vectors(self):
        return torch.stack(self.seen[1:])  # the first call tries the rule out


# ---- what is submitted ----


def test_a_single_worker_is_the_trainer():
    """The same parameters to the last bit as `train` with the generator of that worker."""
    x, y = data()
    model, twin = network(dropout=0.3), network(dropout=0.3)
    alone = worker.generators(seeded(), n=1)[0]
    given = {"mechanism": dp_sgd(sigma=1.0, clip_norm=1.0), "sampling": Poisson(q=0.5), "steps": 6, "delta": 1e-5}
    rate = torch.optim.SGD(twin.parameters(), lr=0.1)
    straight = train_alone(twin, cross_entropy, x, y, optimizer=rate, generator=alone, **given)
    found = run(model, x, y, n=1, n_byzantine=0, rule=average, attack=None, micro_batch=7)
    assert (flat(model) - flat(twin)).abs().max() < 1e-6
    assert found.trace.loss == pytest.approx(straight.trace.loss, rel=1e-5)
    assert found.trace.examples.tolist() == straight.trace.examples.tolist()
    assert found.guarantee == found.worker_guarantee == straight.guarantee


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_step_is_the_algorithm_of_the_page(momentum, monkeypatch):
    """Without noise, against the definition: gradients one by one, momentum, attack, rule, update."""
    draw, drawn = FixedSize.draw, []
    monkeypatch.setattr(FixedSize, "draw", lambda *given, **how: (drawn.append(draw(*given, **how)), drawn[-1])[1])
    x, y = data(**DOUBLE)
    model = network(**DOUBLE)
    by_hand = network(**DOUBLE)
    optimizer = Recording(model.parameters(), lr=0.1)
    found = run(
        model,
        x,
        y,
        mechanism=dp_sgd(sigma=0.0, clip_norm=0.7),
        sampling=FixedSize(m=10),
        momentum=momentum,
        attack=functools.partial(attacks.empire, zeta=1.5),
        rule=average,
        optimizer=optimizer,
        steps=4,
        trace_every=1,
    )
    sent = torch.zeros(4, len(flat(model)), **DOUBLE)
    for step in range(4):
        batches = drawn[-16:][4 * step : 4 * step + 4]
        seen = torch.cat(batches)
        rows = [gradients(by_hand, x[ids], y[ids]) for ids in batches]
        clipped = [(g / (g.norm(dim=1, keepdim=True) / 0.7).clamp(min=1.0)).sum(0) / 10.0 for g in rows]
        sent = momentum * sent + torch.stack(clipped)
        whole = (sent.sum(0) - 0.5 * sent.mean(0)) / 5.0
        assert (optimizer.seen[step] - whole).abs().max() < 1e-12
        loss = cross_entropy(by_hand(x[seen]), y[seen]).mean()
        assert float(found.trace.loss[step]) == pytest.approx(float(loss.detach()))
        assert found.trace.norms[step, 2] == pytest.approx(float(torch.cat(rows).norm(dim=1).median()), rel=0.2)
        with torch.no_grad():
            torch.nn.utils.vector_to_parameters(flat(by_hand) - 0.1 * whole, by_hand.parameters())
    assert found.trace.examples.tolist() == [40] * 4
    assert (flat(model) - flat(by_hand)).abs().max() < 1e-12


def test_each_worker_has_its_own_noise_and_its_own_batches():
    """Gradient 1 in the first of 2001 coordinates, 0 in the others: the first shows the batches, the rest the noise.

    Standard deviation 2 C/B = 0.5 to 5 % over 2000 coordinates, correlations below 0.12: 5 standard errors.
    """
    x = torch.zeros(8, 2001, **DOUBLE)
    x[:, 0] = 1.0
    model, rule = linear(2001), Watched(average)
    run(model, x, torch.zeros(8), loss_fn=first_output, mechanism=dp_sgd(sigma=2.0, clip_norm=1.0), rule=rule)
    honest = rule.vectors[:, :4, 1:].reshape(24, 2000)
    assert torch.allclose(honest.std(1), torch.full((24,), 0.5, **DOUBLE), rtol=0.08)
    alike = torch.corrcoef(honest) - torch.eye(24, **DOUBLE)
    assert alike.abs().max() < 0.125
    quiet = Watched(average)
    run(linear(2001), x, torch.zeros(8), loss_fn=first_output, mechanism=sgd(), rule=quiet, steps=1)
    sizes = 4.0 * quiet.vectors[0, :4, 0]
    assert (sizes - sizes.round()).abs().max() < 1e-6 and len(set(sizes.round().tolist())) > 1


def test_the_liars_know_the_honest_vectors_and_come_last():
    rule = Watched(krum)
    run(network(), n=9, n_byzantine=2, rule=rule, attack=attacks.sign_flip, momentum=0.5)
    for vectors in rule.vectors:
        assert torch.equal(vectors[7], vectors[8])
        assert torch.equal(vectors[7], attacks.sign_flip(vectors[:7]))


def test_an_attack_that_writes_into_what_it_sees_changes_nothing():
    def writing(honest):
        lie = attacks.little(honest)
        honest.zero_()
        return lie

    models = [run(network(), attack=attack, momentum=0.9).model for attack in (attacks.little, writing)]
    assert torch.equal(*map(flat, models))


def test_infinity_stops_the_average_and_not_the_median():
    def infinite(honest):
        return torch.full_like(honest[0], math.inf)

    found = run(network(), attack=infinite)
    assert found.steps == 6 and flat(found.model).isfinite().all()
    with pytest.raises(Diverged, match=r"not finite in step 1; the model is as after step 0"):
        run(network(), attack=infinite, rule=lambda vectors, *, n_byzantine: vectors.mean(0))


def test_honest_workers_that_diverge_end_the_run_whatever_the_rule():
    model = network()
    with pytest.raises(Diverged, match=r"not finite in step 2; the model is as after step 1") as caught:
        run(model, optimizer=torch.optim.SGD(model.parameters(), lr=1e30), rule=krum, n=7, steps=9)
    assert caught.value.run.steps == 1 and flat(model).isfinite().all()


# ---- what it costs ----


@pytest.mark.parametrize("sampling", [Poisson(q=0.25, expected_batch=10), FixedSize(m=10)])
def test_the_server_sees_a_release_of_each_honest_worker(sampling):
    """4 workers x 6 steps on the same data are 24 releases."""
    mechanism = dp_sgd(sigma=4.0, clip_norm=1.0)
    whole = run(network(), mechanism=mechanism, sampling=sampling, trace_every=3)
    assert whole.guarantee == mechanism.guarantee(sampling=sampling, n=40, steps=24, delta=1e-5)
    assert whole.worker_guarantee == mechanism.guarantee(sampling=sampling, n=40, steps=6, delta=1e-5)
    assert whole.trace.guarantees[0] == mechanism.guarantee(sampling=sampling, n=40, steps=12, delta=1e-5)
    assert whole.guarantee.epsilon > 1.3 * whole.worker_guarantee.epsilon


def test_a_mechanism_with_a_state_keeps_one_for_each_worker():
    mechanism = tsgd_ptr(sigma=1.1, clip_norm=0.7, tau=0.5, scale=1.0, delta0=1e-8, trim=15, change=1)
    found = run(network(), mechanism=mechanism, trace_every=1, steps=3)
    first, second, _ = found.trace.other["trim"]
    assert first == 15.0 and second in (14.0, 14.5, 15.0, 15.5, 16.0)  # the mean of four that moved by one
    assert found.guarantee == mechanism.guarantee(sampling=Poisson(q=0.5), n=40, steps=12, delta=1e-5)


# ---- a run that stops ----


def longer(model, **changes):
    rate = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=1e-3)
    given = {"steps": 12, "trace_every": 4, "momentum": 0.9, "test": data(seed=9), "optimizer": rate}
    return run(model, **{**given, **changes})


class Stopping:
    """Median, but one call raises; two of these are the same rule for a checkpoint."""

    def __init__(self, call, error):
        self.left, self.error = call, error

    def __call__(self, vectors, *, n_byzantine):
        self.left -= 1
        if self.left == 0:
            raise self.error
        return median(vectors, n_byzantine=n_byzantine)


@pytest.mark.parametrize("step", [1, 6, 12])
def test_a_stopped_run_goes_on_to_the_same_bits(step, tmp_path):
    """Ctrl+C and a failing rule in the middle of a step: momenta, states and all generators are put back."""
    whole = network(dropout=0.2)
    straight = longer(whole, rule=Stopping(-1, None))
    for error in (KeyboardInterrupt(), OSError("disk")):
        model, file = network(dropout=0.2), tmp_path / f"{type(error).__name__}.pt"
        with pytest.raises(Interrupted if isinstance(error, KeyboardInterrupt) else OSError) as caught:
            longer(model, rule=Stopping(step + 1, error), checkpoint=file)  # one call more tries the rule out
        words = [str(caught.value), *getattr(caught.value, "__notes__", [])]
        assert any(f"after step {step - 1} of 12" in text or text.startswith(f"{step - 1} private") for text in words)
        assert any("The same call goes on from there" in text for text in words)
        model = network(3, dropout=0.2)
        again = longer(model, rule=Stopping(-1, None), checkpoint=file)
        assert torch.equal(flat(model), flat(whole))
        assert again.trace.accuracy.tolist() == straight.trace.accuracy.tolist()
        assert again.guarantee == straight.guarantee


def test_a_checkpoint_of_other_workers_is_refused(tmp_path):
    file = tmp_path / "run.pt"
    run(network(), steps=2, checkpoint=file)
    changes = [{"rule": average}, {"attack": functools.partial(attacks.little, z=2.0)}, {"momentum": 0.5}]
    changes += [{"n": 6}, {"n_byzantine": 2}]
    for change in changes:
        (name,) = change
        with pytest.raises(
            ValueError, match=rf"^checkpoint must be of a run with the same settings, got one with {name} "
        ):
            run(network(), checkpoint=file, **change)
    with pytest.raises(ValueError, match=r"^sigma must be|^checkpoint must be .* sigma"):
        run(network(), checkpoint=file, mechanism=dp_sgd(sigma=2.0, clip_norm=1.0))


def test_ctrl_c_in_a_worker_releases_nothing(monkeypatch, tmp_path):
    """In the third of four workers: what the first two drew is put back."""
    whole = network()
    run(whole)
    calls = []

    def failing(*arguments):
        calls.append(0)
        if len(calls) == 4 + 3:
            raise KeyboardInterrupt
        return PerExample(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(worker, "PerExample", failing)
        with pytest.raises(Interrupted) as caught:
            run(network(), checkpoint=tmp_path / "run.pt")
    assert caught.value.run.steps == 1
    model = network(3)
    run(model, checkpoint=tmp_path / "run.pt")
    assert torch.equal(flat(model), flat(whole))


# ---- bad input ----


NO_RULES = None, lambda vectors, *, n_byzantine: vectors, lambda vectors, *, n_byzantine: 3.0
TOO_MANY = -1, {"n": 4, "n_byzantine": 2}, {"rule": krum, "n_byzantine": 2}


def test_bad_input_is_refused_before_the_first_step():
    model, (x, y) = network(), data()
    no_attacks = None, lambda honest: honest, lambda honest: honest[0].double()
    refuses(run, {"model": model, "x": x, "y": y}, n=(0,), n_byzantine=TOO_MANY, rule=NO_RULES, attack=no_attacks)
    refuses(run, {"model": model, "x": x, "y": y}, momentum=(1.0,), x=([1.0],))
    assert torch.equal(flat(model), flat(network()))


def test_an_empty_batch_is_a_step_like_any_other():
    found = run(network(), sampling=Poisson(q=1e-9), trace_every=1)
    assert found.steps == 6 and found.trace.examples.tolist() == [0] * 6
    assert (flat(found.model) - flat(network())).abs().max() > 1e3
