"""A refusal that names a remedy: the remedy, followed, works. A new one without a row here fails."""

import ast
import re
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm
from torch.utils.data import DataLoader, TensorDataset

import dpml
from dpml import mechanisms
from dpml.accounting import composition
from dpml.training.per_example import PerExample, per_example_gradients
from dpml.training.sampling import Poisson
from tests.training.helpers import Net, cross_entropy, data, network, train

X, Y = data(24)
TOKENS = torch.arange(24)[:, None] % 6
ROOMS = [path for path in Path(dpml.__file__).parent.rglob("*.py") if not {"lessons", "classroom"} & {*path.parts}]
WORDS = "use|pass|give|call|set|freeze|make|put|take|build|train|divide|say|ask|write|install|choose|lower|raise|add"
REMEDY = re.compile(rf"[:;,] (?:or |and )?(?:{WORDS}|keep|turn|round|move) ")


def trained(model, x=X, y=Y, **given):
    return train(model, x, y, **({"steps": 2, "loss_fn": cross_entropy} | given))


def stacked(*layers):
    return nn.Sequential(*layers, nn.Linear(6, 3))


def twice(*, apart):
    """The same layer two times, or one for each time."""
    layers = {name: nn.Linear(6, 6) for name in ("first", *["second"] * apart)}
    again = "second" if apart else "first"
    return Net(lambda net, x: net.last(getattr(net, again)(net.first(x).tanh())), **layers, last=nn.Linear(6, 3))


def unused(*, trains):
    """A layer that no example goes through."""
    model = Net(lambda net, x: net.used(x), used=nn.Linear(6, 3), unused=nn.Linear(6, 3))
    model.unused.requires_grad_(trains)
    return model


def turned(*, batch_first):
    """A recurrent layer that gets time or the batch first."""

    def run(net, x):
        x = x.unflatten(1, (3, 2))
        out = net.recurrent(x if batch_first else x.transpose(0, 1))[0]
        return net.last(out[:, -1] if batch_first else out[-1])

    return Net(run, recurrent=nn.GRU(2, 4, batch_first=batch_first), last=nn.Linear(4, 3))


def cell():
    """One layer, called at each time."""

    def run(net, x):
        state = x.new_zeros(len(x), 4)
        for now in x.unflatten(1, (3, 2)).unbind(1):
            state = net.cell(now, state)
        return net.last(state)

    return Net(run, cell=nn.GRUCell(2, 4), last=nn.Linear(4, 3))


def embedded(**options):
    return nn.Sequential(nn.Embedding(6, 6, **options), nn.Flatten(), nn.Linear(6, 3))


def tied(*, apart):
    model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
    if not apart:
        model[2].weight = model[0].weight
    return model


def called(model):
    model(X)
    return model


def instance(track):
    norm = nn.InstanceNorm1d(2, track_running_stats=track, affine=True)
    return nn.Sequential(nn.Unflatten(1, (2, 3)), norm, nn.Flatten(), nn.Linear(6, 3))


def half_held(freeze):
    model = network()
    model[0].requires_grad_(not freeze)
    return trained(model, optimizer=torch.optim.SGD(model[2].parameters(), lr=0.1))


def optimized(kind):
    model = network()
    return trained(model, optimizer=kind(model.parameters(), lr=0.01))


def expanded(and_then):
    model = nn.Linear(6, 3)
    model.bias = nn.Parameter(and_then(torch.zeros(1).expand(3)))
    return trained(model)


def beside(file):
    """A run that goes to this file, where there is one that no run has written."""
    path = Path("run.pt")
    path.write_bytes(b"no checkpoint")
    if file is None:
        path.rename("moved away")
    return trained(network(), checkpoint=file or path)


def summed(adjacency):
    return composition.basic_heterogeneous([composition.basic(epsilon=0.1, delta=0.0, k=3, adjacency=adjacency)] * 2)


def grouped(first):
    """Of two mechanisms, each for a group, or the group of both together."""
    if first:
        return composition.basic_heterogeneous([composition.group_privacy(epsilon=0.3, delta=0.0, size=2)] * 2)
    return composition.group_privacy(epsilon=summed("add/remove").epsilon, delta=0.0, size=2)


def either(call, refused, named):
    """A call with what it refuses, and with what its message names instead."""
    return partial(call, refused), partial(call, named)


# Fixed words of a message -> what is refused, and what the message names instead.
REMEDIES = {
    "whole batch: use nn.GroupNorm": either(lambda norm: trained(stacked(norm)), nn.BatchNorm1d(6), nn.GroupNorm(2, 6)),
    "would leave without noise; set it to False": either(lambda track: trained(instance(track)), True, False),
    "pass the model from before compilation": either(
        lambda made: trained(made(network())), partial(torch.compile, backend="eager"), nn.Identity()
    ),
    'use reduction="none", and sum over what is not the batch': either(
        lambda loss: trained(network(), loss_fn=loss), nn.functional.cross_entropy, cross_entropy
    ),
    "use another one, such as Adam": either(optimized, torch.optim.SparseAdam, torch.optim.Adam),
    "make it with clone(), outside that mode": either(expanded, Tensor.detach, Tensor.clone),
    "freeze what is not to be trained with requires_grad_(False)": either(half_held, False, True),
    "give the second place a parameter of its own (per_example_gradients serves such a model)": either(
        lambda apart: PerExample(tied(apart=apart), cross_entropy, X, Y), False, True
    ),
    "call the model once before": either(
        lambda then: trained(then(nn.Sequential(nn.LazyLinear(3)))), nn.Identity(), called
    ),
    "set max_norm=None": either(lambda norm: trained(embedded(max_norm=norm), TOKENS), 1.0, None),
    "counts of the whole batch: set it to False": either(
        lambda by: trained(embedded(scale_grad_by_freq=by), TOKENS), True, False
    ),
    "with sparse=True: set it to False": either(
        lambda sparse: trained(nn.Sequential(nn.EmbeddingBag(6, 3, sparse=sparse)), TOKENS), True, False
    ),
    "as in spectral normalisation, call eval() on its layer": either(
        lambda mode: trained(nn.Sequential(mode(spectral_norm(nn.Linear(6, 3))))), nn.Module.train, nn.Module.eval
    ),
    "put the batch first (batch_first=True)": either(lambda first: trained(turned(batch_first=first)), False, True),
    "freeze its parameters if they are not used": either(lambda trains: trained(unused(trains=trains)), True, False),
    "make a layer for each call (per_example_gradients serves such a model)": either(
        lambda apart: trained(twice(apart=apart)), False, True
    ),
    "give another path, or": either(beside, Path("run.pt"), Path("other.pt")),
    "move that file away to begin anew": either(beside, Path("run.pt"), None),
    "pass the tensors x and y, and the batches are drawn afresh": either(
        lambda sampling: trained(network(), sampling=sampling), DataLoader(TensorDataset(X, Y)), Poisson(q=0.2)
    ),
    'pass adjacency="add/remove"': either(summed, "as the mechanism's", "add/remove"),
    "compose first, and call group_privacy with the sum": either(grouped, True, False),
    "use gaussian_sigma, which is exact for every epsilon": either(
        lambda rule: rule(epsilon=2.0, delta=1e-5), mechanisms.gaussian_sigma_classic, mechanisms.gaussian_sigma
    ),
}


def fixed_text(node):
    parts = [part for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    parts.sort(key=lambda part: (part.lineno, part.col_offset))
    return re.sub(r"\s+", " ", " ".join(part.value for part in parts))


def refusals():
    for path in ROOMS:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and node.exc is not None and REMEDY.search(fixed_text(node.exc)):
                yield fixed_text(node.exc)


def test_every_remedy_of_a_message_has_a_row():
    said = list(refusals())
    elsewhere = "To add it by hand, put"  # tests/data follows it
    assert [text for text in said if elsewhere not in text and not any(row in text for row in REMEDIES)] == []
    assert [row for row in REMEDIES if not any(row in text for text in said)] == []


@pytest.mark.parametrize("words", REMEDIES)
def test_the_remedy_works(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused, mended = REMEDIES[words]
    with pytest.raises(ValueError, match=re.escape(words)):
        refused()
    mended()


@pytest.mark.parametrize("model", [tied(apart=False), turned(batch_first=True), twice(apart=False), cell()])
def test_the_plain_version_serves_every_model(model):
    """Its sum is the ordinary gradient: also of parameters that are shared, or used at several times."""
    model, x = model.double(), X.double()
    rows = per_example_gradients(model, cross_entropy, x, Y)
    ordinary = torch.autograd.grad(cross_entropy(model(x), Y).sum(), list(model.parameters()))
    for (name, row), gradient in zip(rows.items(), ordinary, strict=True):
        assert row.shape == (24, *gradient.shape), name
        assert torch.allclose(row.sum(0), gradient, rtol=1e-10, atol=1e-10)
