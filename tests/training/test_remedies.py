"""A refusal that names a remedy: the remedy, followed, works. A new one without a row here fails."""

import ast
import re
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


def uncalled():
    return Net(lambda net, x: net.used(x), used=nn.Linear(6, 3), unused=nn.Linear(6, 3))


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


def complete(model):
    model(X)
    return model


def frozen(model, name):
    getattr(model, name).requires_grad_(False)
    return model


def half_held(model, *, freeze):
    if freeze:
        model[0].requires_grad_(False)
    return trained(model, optimizer=torch.optim.SGD(model[2].parameters(), lr=0.1))


def optimized(kind):
    model = network()
    return trained(model, optimizer=kind(model.parameters(), lr=0.01))


def expanded(and_then):
    model = nn.Linear(6, 3)
    model.bias = nn.Parameter(and_then(torch.zeros(1).expand(3)))
    return model


def at(path, text=None):
    if text is not None:
        path.write_bytes(text)
    return trained(network(), checkpoint=path)


def moved(path):
    path.rename(path.with_suffix(".old"))
    return at(path)


def counts(adjacency, number=2):
    return [composition.basic(epsilon=0.1, delta=0.0, k=3, adjacency=adjacency)] * number


def grouped():
    return composition.group_privacy(epsilon=0.3, delta=0.0, size=2)


# Fixed words of the message -> what is refused, and what the message names instead.
REMEDIES = {
    "normalises each example by its whole batch: use nn.GroupNorm": (
        lambda path: trained(stacked(nn.BatchNorm1d(6))),
        lambda path: trained(stacked(nn.GroupNorm(2, 6))),
    ),
    "they would leave without noise; set it to False": (
        lambda path: trained(nn.Sequential(nn.Unflatten(1, (2, 3)), instance(True), nn.Flatten(), nn.Linear(6, 3))),
        lambda path: trained(nn.Sequential(nn.Unflatten(1, (2, 3)), instance(False), nn.Flatten(), nn.Linear(6, 3))),
    ),
    "pass the model from before compilation": (
        lambda path: trained(torch.compile(network(), backend="eager")),
        lambda path: trained(network()),
    ),
    'use reduction="none", and sum over what is not the batch': (
        lambda path: trained(network(), loss_fn=nn.functional.cross_entropy),
        lambda path: trained(network()),
    ),
    "use another one, such as Adam": (
        lambda path: optimized(torch.optim.SparseAdam),
        lambda path: optimized(torch.optim.Adam),
    ),
    "make it with clone(), outside that mode": (
        lambda path: trained(expanded(lambda bias: bias)),
        lambda path: trained(expanded(Tensor.clone)),
    ),
    "freeze what is not to be trained with requires_grad_(False)": (
        lambda path: half_held(network(), freeze=False),
        lambda path: half_held(network(), freeze=True),
    ),
    "give the second place a parameter of its own (per_example_gradients serves such a model)": (
        lambda path: PerExample(tied(apart=False), cross_entropy, X, Y),
        lambda path: (
            PerExample(tied(apart=True), cross_entropy, X, Y),
            per_example_gradients(tied(apart=False), cross_entropy, X, Y),
        ),
    ),
    "call the model once before": (
        lambda path: trained(nn.Sequential(nn.LazyLinear(3))),
        lambda path: trained(complete(nn.Sequential(nn.LazyLinear(3)))),
    ),
    "set max_norm=None": (
        lambda path: trained(embedded(max_norm=1.0), TOKENS),
        lambda path: trained(embedded(max_norm=None), TOKENS),
    ),
    "which divides by counts of the whole batch: set it to False": (
        lambda path: trained(embedded(scale_grad_by_freq=True), TOKENS),
        lambda path: trained(embedded(scale_grad_by_freq=False), TOKENS),
    ),
    "with sparse=True: set it to False": (
        lambda path: trained(nn.Sequential(nn.EmbeddingBag(6, 3, sparse=True)), TOKENS),
        lambda path: trained(nn.Sequential(nn.EmbeddingBag(6, 3, sparse=False)), TOKENS),
    ),
    "as in spectral normalisation, call eval() on its layer": (
        lambda path: trained(nn.Sequential(spectral_norm(nn.Linear(6, 3)))),
        lambda path: trained(nn.Sequential(spectral_norm(nn.Linear(6, 3)).eval())),
    ),
    "put the batch first (batch_first=True)": (
        lambda path: trained(turned(batch_first=False)),
        lambda path: trained(turned(batch_first=True)),
    ),
    "freeze its parameters if they are not used": (
        lambda path: trained(uncalled()),
        lambda path: trained(frozen(uncalled(), "unused")),
    ),
    "make a layer for each call (per_example_gradients serves such a model)": (
        lambda path: trained(twice(apart=False)),
        lambda path: (trained(twice(apart=True)), per_example_gradients(twice(apart=False), cross_entropy, X, Y)),
    ),
    "give another path, or move that file away to begin anew": (
        lambda path: at(path / "run.pt", b"no checkpoint"),
        lambda path: (at(path / "other.pt"), moved(path / "run.pt")),
    ),
    "pass the tensors x and y, and the batches are drawn afresh": (
        lambda path: trained(network(), sampling=DataLoader(TensorDataset(X, Y), batch_size=4, shuffle=True)),
        lambda path: trained(network(), sampling=Poisson(q=0.2)),
    ),
    'pass adjacency="add/remove"': (
        lambda path: composition.basic_heterogeneous(counts("as the mechanism's")),
        lambda path: composition.basic_heterogeneous(counts("add/remove")),
    ),
    "compose first, and call group_privacy with the sum": (
        lambda path: composition.basic_heterogeneous([grouped(), grouped()]),
        lambda path: composition.group_privacy(
            epsilon=composition.basic_heterogeneous(counts("add/remove")).epsilon, delta=0.0, size=2
        ),
    ),
    "use gaussian_sigma, which is exact for every epsilon": (
        lambda path: mechanisms.gaussian_sigma_classic(epsilon=2.0, delta=1e-5),
        lambda path: mechanisms.gaussian_sigma(epsilon=2.0, delta=1e-5),
    ),
}


def instance(track):
    return nn.Sequential(nn.InstanceNorm1d(2, track_running_stats=track, affine=True))


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
def test_the_remedy_works(words, tmp_path):
    refused, mended = REMEDIES[words]
    with pytest.raises(ValueError, match=re.escape(words)):
        refused(tmp_path)
    mended(tmp_path)


@pytest.mark.parametrize("model", [tied(apart=False), turned(batch_first=True), twice(apart=False), cell()])
def test_the_plain_version_serves_every_model(model):
    """Its sum is the ordinary gradient: also of parameters that are shared, or used at several times."""
    model, x = model.double(), X.double()
    rows = per_example_gradients(model, cross_entropy, x, Y)
    ordinary = torch.autograd.grad(cross_entropy(model(x), Y).sum(), list(model.parameters()))
    for (name, row), gradient in zip(rows.items(), ordinary, strict=True):
        assert row.shape == (24, *gradient.shape), name
        assert torch.allclose(row.sum(0), gradient, rtol=1e-10, atol=1e-10)
