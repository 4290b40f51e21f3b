"""Norms and weighted sums against a loop over the examples, for every kind of layer; and what is refused, by name."""

import copy
import gc
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional

from dpml.training import _engine, _self_test
from dpml.training.dpsgd import automatic, clip
from dpml.training.per_example import PerExample, per_example_gradients, self_test
from tests.training.helpers import Net, centred, cross_entropy, refuses

DTYPES = [torch.float32, torch.float64]
GATE = {torch.float32: 1e-6, torch.float64: 1e-12}


def loop(model, loss_fn, x, y):
    """The slow specification: one backward pass for each example."""
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    rows = []
    for i in range(len(x)):
        loss = loss_fn(model(x[i : i + 1]), y[i : i + 1]).sum()
        gradients = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
        rows.append([torch.zeros_like(p) if g is None else g for p, g in zip(trained.values(), gradients, strict=True)])
    return {name: torch.stack([row[k] for row in rows]) for k, name in enumerate(trained)}


def norms_of(gradients):
    return torch.stack([g.double().reshape(len(g), -1).square().sum(1) for g in gradients.values()]).sum(0).sqrt()


def agree(model, loss_fn, x, y):
    """Norms and two weighted sums equal those of the loop, to 1e-6 in float32 and 1e-12 in float64."""
    gradients = loop(model, loss_fn, x, y)
    found = PerExample(model, loss_fn, x, y)
    gate = GATE[found.norms.dtype]
    expected = norms_of(gradients)
    assert ((found.norms - expected).abs() <= gate * expected).all()
    assert torch.allclose(found.losses, loss_fn(model(x), y))
    generator = torch.Generator().manual_seed(0)
    random = torch.rand(len(x), generator=generator, dtype=found.norms.dtype)
    for weights in (random, clip(found.norms, clip_norm=float(expected.median()))):
        sums = found.sum(weights)
        assert list(sums) == list(gradients)
        off, size = 0.0, 0.0
        for name, gradient in gradients.items():
            wanted = torch.tensordot(weights.double(), gradient.double(), 1)
            assert sums[name].shape == gradient.shape[1:]
            assert sums[name].dtype == found.norms.dtype
            off += float((sums[name].double() - wanted).square().sum())
            size += float(wanted.square().sum())
        assert off**0.5 <= gate * size**0.5
    return found


class Chain(nn.Module):
    """Layers one after another; of a tuple only the first output goes on. A last matrix mixes everything."""

    def __init__(self, *layers, example):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        width = self.body(example).flatten(1).shape[1]
        self.last = nn.Linear(width, 3)

    def body(self, x):
        for layer in self.layers:
            x = layer(x)
            x = x[0] if isinstance(x, tuple) else x
        return x

    def forward(self, x):
        return self.last(torch.tanh(self.body(x)).flatten(1))


def pick(generator, low, high):
    return int(torch.randint(low, high + 1, (), generator=generator))


# ---- every layer and model against the loop ----

torch.manual_seed(0)  # of the weights and examples in the tables below


def random_linear(seed):
    generator = torch.Generator().manual_seed(seed)
    middle = [pick(generator, 1, 5) for _ in range(seed % 4)]
    inputs, outputs = pick(generator, 1, 40), pick(generator, 1, 40)
    return nn.Linear(inputs, outputs, bias=seed % 3 > 0), torch.randn(pick(generator, 2, 9), *middle, inputs)


def random_convolution(seed):
    generator = torch.Generator().manual_seed(seed)
    dimensions = 1 + seed % 2
    groups = [1, 1, 2, 3][seed % 4]
    channels = groups * pick(generator, 1, 4)
    outputs = groups * pick(generator, 1, 12)
    kernel, dilation, stride, padding = (
        tuple(pick(generator, low, high) for _ in range(dimensions)) for low, high in ((1, 4), (1, 2), (1, 3), (0, 2))
    )
    mode = ["zeros", "reflect", "replicate", "circular"][(seed // 2) % 4]
    if seed % 5 == 4:
        padding, stride, kernel = "same", 1, tuple(size | 1 for size in kernel)  # even ones make torch warn
    kind = nn.Conv1d if dimensions == 1 else nn.Conv2d
    layer = kind(channels, outputs, kernel, stride, padding, dilation, groups, bias=seed % 3 > 0, padding_mode=mode)
    size = [pick(generator, 8, 12) for _ in range(dimensions)]
    return layer, torch.randn(pick(generator, 2, 40), channels, *size)


def uneven(layer):
    nn.init.normal_(layer.weight)
    return layer


ENCODER = {"d_model": 6, "nhead": 2, "dim_feedforward": 8, "batch_first": True}
weight_norm = nn.utils.parametrizations.weight_norm
LAST = {"memory_format": torch.channels_last}
LAYERS = {f"Linear {seed}": random_linear(seed) for seed in range(12)}
LAYERS |= {f"convolution {seed}": random_convolution(seed) for seed in range(24)}
LAYERS |= {
    f"Embedding {padding} {shape}": (nn.Embedding(9, 5, padding_idx=padding), torch.randint(0, 9, shape))
    for padding in (None, 2, -1, -9)
    for shape in ((7,), (7, 6), (7, 3, 4))
}
for size in ((), (5,), (4, 3)):
    LAYERS[f"GroupNorm {size}"] = uneven(nn.GroupNorm(3, 6)), torch.randn(8, 6, *size)
for shape, n in (((7,), 7), ((5, 7), 7), ((2, 5, 7), 7), ((5, 7), (5, 7)), ((3, 5, 7), (5, 7))):
    LAYERS[f"LayerNorm {shape} {n}"] = nn.LayerNorm(n, bias=shape != (7,)), torch.randn(6, *shape)
# gradients larger than their images are not kept: norms from inner products, sums from a second pass
for groups in (1, 2):
    LAYERS[f"wide 2 {groups}"] = nn.Conv2d(32, 64, 3, padding=1, groups=groups), torch.randn(21, 32, 4, 4)
    LAYERS[f"wide 1 {groups}"] = nn.Conv1d(32, 64, 3, padding="valid", groups=groups), torch.randn(5, 32, 6)
LAYERS |= {
    "channels last": (nn.Conv2d(3, 8, 3, padding=1).to(**LAST), torch.randn(6, 3, 9, 9).to(**LAST)),
    "PReLU": (nn.PReLU(4), torch.randn(7, 4, 5)),
    "RMSNorm": (nn.RMSNorm(5), torch.randn(7, 4, 5)),
    "InstanceNorm": (nn.InstanceNorm1d(4, affine=True), torch.randn(7, 4, 5)),
    "ConvTranspose": (nn.ConvTranspose2d(4, 3, 3, stride=2), torch.randn(7, 4, 5, 5)),
    "Conv3d": (nn.Conv3d(2, 3, 2), torch.randn(7, 2, 3, 4, 4)),
    "weight norm": (weight_norm(nn.Linear(5, 6)), torch.randn(7, 5)),
    "weight norm without bias": (weight_norm(nn.Linear(5, 6, bias=False)), torch.randn(7, 5)),
    "Transformer": (nn.TransformerEncoderLayer(**ENCODER, dropout=0.0), torch.randn(7, 5, 6)),
    "LSTM": (nn.LSTM(5, 4, batch_first=True), torch.randn(7, 6, 5)),
    "GRU": (nn.GRU(5, 4, num_layers=2, bidirectional=True, batch_first=True), torch.randn(7, 6, 5)),
    "RNN": (nn.RNN(5, 4, batch_first=True), torch.randn(7, 6, 5)),
}


class Own(nn.Module):
    """A module with a bare parameter, applied to the batch."""

    def __init__(self, *shape):
        super().__init__()
        self.shift = nn.Parameter(torch.randn(shape))

    def forward(self, x):
        return x * torch.sigmoid(x) + self.shift


def residual(net, x):
    out = net.second(functional.relu_(net.norm(net.first(x))))
    out += x
    return functional.relu(out, inplace=True)


def mixed():
    first, second = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1, bias=False)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2),
        nn.ReLU(inplace=True),
        Net(residual, first=first, norm=nn.GroupNorm(2, 4), second=second),
        Own(1, 6, 6),
        nn.Flatten(2),
        nn.LayerNorm(36),
        nn.Linear(36, 5),
        nn.Hardtanh(inplace=True),
        nn.Flatten(),
        nn.PReLU(),
        nn.Linear(20, 3),
    )


def last_states(kind):
    """Their batch stands second; as many layers as examples must not confuse the two."""

    def run(net, x):
        state = net.recurrent(x)[1]
        state = state[1] if isinstance(state, tuple) else state
        return net.last(state.transpose(0, 1).flatten(1))

    return Net(run, recurrent=kind(4, 3, num_layers=2, batch_first=True), last=nn.Linear(6, 3))


def given_states(kind):
    """The first state depends on the example, and its batch stands second."""

    def run(net, x):
        state = net.first(x[:, 0]).tanh().unflatten(1, (2, 3)).transpose(0, 1).contiguous()
        return net.last(net.recurrent(x, (state, 2.0 * state) if kind is nn.LSTM else state)[0][:, -1])

    layers = {
        "first": nn.Linear(4, 6),
        "recurrent": kind(4, 3, num_layers=2, batch_first=True),
        "last": nn.Linear(3, 3),
    }
    return Net(run, **layers)


def attention():
    layer = nn.MultiheadAttention(6, 2, batch_first=True)
    run = lambda net, x: net.last(net.inner(query=x, key=x, value=x, need_weights=False)[0].mean(1))  # noqa: E731
    return Net(run, inner=layer, last=nn.Linear(6, 3))


def hooked():
    model = nn.Sequential(nn.Linear(4, 6), nn.PReLU(), nn.Linear(6, 3))
    model[0].register_forward_pre_hook(lambda layer, args: (args[0] * 2.0,))
    model[0].register_forward_hook(lambda layer, args, out: out**2)
    model[1].register_forward_pre_hook(lambda layer, args: (args[0] - 1.0,))
    model[1].register_forward_hook(lambda layer, args, out: torch.sin(out))
    return model


class Rescaled(nn.Linear):
    """Another forward pass than its parent's."""

    def forward(self, x):
        return functional.linear(x, 2.0 * self.weight.tanh(), self.bias)


class Renamed(nn.Linear):
    """The forward pass of its parent."""


def whole():
    """It owns a parameter itself, and so is run as a whole under vmap."""
    body, scale = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)), nn.Parameter(torch.tensor(1.5))
    return Net(lambda net, x: net.scale * net.body(x), scale=scale, body=body)


def spread():
    """The mean over tokens sends back one gradient for all of them, in memory only once."""
    layers = {"embedding": nn.Embedding(9, 4), "inner": nn.Linear(4, 4), "last": nn.Linear(4, 3)}
    return Net(lambda net, ids: net.last(net.inner(net.embedding(ids)).mean(1)), **layers)


def idle():
    return Net(lambda net, x: (net.idle(x), net.used(x))[1], used=nn.Linear(4, 3), idle=nn.Linear(4, 3))


MODELS = {name: (Chain(layer, example=x), x) for name, (layer, x) in LAYERS.items()} | {
    "activations in place": (mixed(), torch.randn(9, 1, 14, 14)),
    **{f"whole {batch}": (whole(), torch.randn(batch, 4)) for batch in (1, 2, 5)},
    **{f"LSTM states {batch}": (last_states(nn.LSTM), torch.randn(batch, 5, 4)) for batch in (1, 2, 3, 6)},
    **{f"GRU states {batch}": (last_states(nn.GRU), torch.randn(batch, 5, 4)) for batch in (1, 2, 3, 6)},
    "attention": (attention(), torch.randn(5, 4, 6)),
    "hooks": (hooked(), torch.randn(5, 4)),
    "subclasses": (nn.Sequential(Rescaled(4, 6), nn.Tanh(), Renamed(6, 3)), torch.randn(5, 4)),
    "tokens": (spread(), torch.randint(0, 9, (8, 5))),
    "a layer that no loss depends on": (idle(), torch.randn(5, 4)),
    "BatchNorm, evaluated": (nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3)).eval(), torch.randn(6, 4)),
    **{f"LSTM from states {batch}": (given_states(nn.LSTM), torch.randn(batch, 5, 4)) for batch in (2, 6)},
    "GRU from states": (given_states(nn.GRU), torch.randn(3, 5, 4)),
}


def built(name, dtype):
    """A fresh copy of a model, examples and labels."""
    model, x = copy.deepcopy(MODELS[name])
    return model.to(dtype), x.to(dtype) if x.is_floating_point() else x, torch.arange(len(x)) % 3


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MODELS)
def test_every_model_against_the_loop(name, dtype):
    model, x, y = built(name, dtype)
    before = [len(layer._forward_hooks) for layer in model.modules()]
    found = agree(model, cross_entropy, x, y)
    assert before == [len(layer._forward_hooks) for layer in model.modules()]
    if name == "attention":
        model.inner.in_proj_weight.requires_grad_(False)
        agree(model, cross_entropy, x, y)
    if name == "tokens":
        model.embedding.sparse = True
        assert torch.equal(found.norms, PerExample(model, cross_entropy, x, y).norms)


@pytest.mark.parametrize("name", ["activations in place", "hooks", "tokens", "LSTM"])
def test_the_plain_version_agrees(name):
    model, x, y = built(name, torch.float64)
    found = per_example_gradients(model, cross_entropy, x, y)
    torch.testing.assert_close(found, loop(model, cross_entropy, x, y), rtol=1e-12, atol=1e-13)


# ---- which parameters count ----


@pytest.mark.parametrize("dtype", DTYPES)
def test_frozen_parameters_do_not_count_and_every_change_of_the_model_is_noticed(dtype):
    model, x, y = built("activations in place", dtype)
    names = [name for name, _ in model.named_parameters()]
    for kept in ("weight", "bias", "shift", "first", "10"):
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(kept in name)
        found = agree(model, cross_entropy, x, y)
        assert list(found.sum(found.norms)) == [name for name in names if kept in name]
    model[10] = nn.Linear(20, 3).to(dtype)
    agree(model, cross_entropy, x, y)


# ---- empty batches ----


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bfloat16])
@pytest.mark.parametrize("name", ["activations in place", "attention", "LSTM states 3", "tokens"])
def test_an_empty_batch_gives_zeros(name, dtype):
    model, x, y = built(name, dtype)
    next(model.parameters()).requires_grad_(False)
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    found = PerExample(model, cross_entropy, x[:0], y[:0])
    assert found.norms.shape == found.losses.shape == (0,)
    wide = torch.float32 if dtype == torch.bfloat16 else dtype
    zeros = {name: torch.zeros(p.shape, dtype=wide) for name, p in trained.items()}
    torch.testing.assert_close(found.sum(torch.zeros(0)), zeros, rtol=0, atol=0)
    rows = per_example_gradients(model, cross_entropy, x[:0], y[:0])
    assert {name: row.shape for name, row in rows.items()} == {name: (0, *p.shape) for name, p in trained.items()}


# ---- the recorded cases ----


@pytest.mark.parametrize(
    ("padding_idx", "embedding", "norms"),
    [
        (0, [45, 0, 30, 80], [7.285602240, 0.4, 6.764613810, 10.740577266]),
        (-1, [50, 80, 10, 0], [7.621023553, 8.953211714, 5.075431016, 5.946427499]),
    ],
)
def test_repeated_tokens_and_padding(padding_idx, embedding, norms):
    layer, last = nn.Embedding(6, 2, padding_idx=padding_idx), nn.Linear(2, 1, bias=False)
    model = nn.Sequential(layer, last).double()
    with torch.no_grad():
        layer.weight.copy_(torch.arange(12, dtype=torch.float64).view(6, 2) / 10)
        last.weight.copy_(torch.tensor([[1.0, 2.0]]))
    tokens = torch.tensor([[3, 3, 3, 0], [0, 0, 0, 0], [5, 1, 5, 2], [5, 5, 5, 5]])

    def loss(outputs, y):
        return outputs.sum((1, 2))

    found = PerExample(model, loss, tokens, tokens)
    assert found.norms.tolist() == pytest.approx(norms, abs=1e-9)
    assert not found.sum(torch.rand(4))["0.weight"][padding_idx].any()
    last.weight.requires_grad_(False)
    part = PerExample(model, loss, tokens, tokens).norms
    assert part.square().tolist() == pytest.approx(embedding, abs=1e-9)


def test_dropout_draws_one_mask_for_each_example():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(16, 3))
    x, y = torch.ones(64, 16), torch.zeros(64)

    def loss(outputs, y):
        return outputs.sum(1)

    PerExample(model, loss, x, y)  # the comparison is done
    torch.manual_seed(1)
    found = PerExample(model, loss, x, y)
    kept = (found.norms.square() / 3 - 1) / 4
    assert torch.allclose(kept, kept.round(), atol=1e-4)
    assert kept.min() >= 0 and kept.max() <= 16
    assert len(set(kept.round().tolist())) >= 4  # fewer has probability below 1e-9
    torch.manual_seed(1)
    ordinary = torch.autograd.grad(loss(model(x), y).sum(), list(model.parameters()))
    for total, gradient in zip(found.sum(torch.ones(64)).values(), ordinary, strict=True):
        assert torch.allclose(total, gradient, rtol=1e-6)
    model.eval()
    assert PerExample(model, loss, x, y).norms.square().tolist() == pytest.approx([51.0] * 64, rel=1e-6)


def test_norms_of_the_recorded_loss_by_example():
    model = nn.Linear(3, 2).double()
    with torch.no_grad():
        numbers = torch.sin(torch.arange(1.0, 9.0, dtype=torch.float64)) / 3
        model.weight.copy_(numbers[:6].view(2, 3))
        model.bias.copy_(numbers[6:])
    x = torch.cos(0.1 * torch.arange(9, dtype=torch.float64) ** 2).view(3, 3)
    norms = PerExample(model, cross_entropy, x, torch.tensor([0, 1, 1])).norms
    assert norms.tolist() == pytest.approx([0.655898526149, 1.052484659941, 0.992378140188], abs=1e-11)


# ---- no example moves the sum by more than the clip norm ----


def moved(model, loss_fn, x, y, weigh):
    everything = PerExample(model, loss_fn, x, y)
    total = everything.sum(weigh(everything.norms))
    distances = []
    for i in range(len(x)):
        rest = [j for j in range(len(x)) if j != i]
        some = PerExample(model, loss_fn, x[rest], y[rest])
        without = some.sum(weigh(some.norms))
        distances.append(sum(float((total[n].double() - without[n].double()).square().sum()) for n in total) ** 0.5)
    return max(distances)


@pytest.mark.parametrize("size", [1e-30, 1e-12, 1e-3, 1.0, 1e3, 1e10])
@pytest.mark.parametrize("weigh", [clip, lambda n, clip_norm: automatic(n, clip_norm=clip_norm, stability=0.01)])
def test_removing_an_example_moves_the_sum_by_at_most_the_clip_norm(weigh, size):
    torch.manual_seed(0)
    x, y = size * torch.randn(7, 1, 14, 14), torch.arange(7) % 3
    distance = moved(mixed(), cross_entropy, x, y, lambda norms: weigh(norms, clip_norm=0.1))
    assert distance <= 0.1 * (1 + 1e-5)
    assert distance >= 0.1 * (1 - 1e-3) or weigh is not clip or size < 1.0  # tight as well: the bound is reached


def linear_loss(outputs, y):
    return (outputs.flatten(1) * y.flatten(1)).sum(1)


CANCELLING = torch.tensor([1.0, 1.0 - 1e-3]).expand(3, 40, 2), 1e3 * torch.tensor([1.0, -1.0]).expand(3, 40, 2)
ATTACKS = {
    # the gradient is y x^T: squares of its factors leave the range of float32, the product does not
    "tiny times huge": (nn.Linear(3, 2, bias=False), 1e-25 * torch.ones(4, 3), 1e27 * torch.ones(4, 2)),
    "huge times tiny": (nn.Linear(3, 2, bias=False), 1e30 * torch.ones(4, 3), 1e-23 * torch.ones(4, 2)),
    # rows that cancel: the inner products are large, the gradient is what is left
    "cancelling rows": (nn.Linear(40, 40), *(value.mT.contiguous() for value in CANCELLING)),
    "cancelling positions": (nn.Conv1d(40, 40, 1), *(value.contiguous() for value in CANCELLING)),
    "one token again and again": (nn.Embedding(5, 2), torch.ones(3, 50, dtype=torch.long), torch.ones(3, 50, 2)),
    "long rows": (nn.Linear(100_000, 1), torch.rand(3, 100_000) + 1.0, torch.ones(3, 1)),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_example_made_to_slip_through_does_not(name):
    layer, x, y = ATTACKS[name]
    rounding = 1e-3 if "cancelling" in name else 1e-5  # of terms 1000 times as large as their sum
    assert moved(layer, linear_loss, x, y, lambda norms: clip(norms, clip_norm=1.0)) <= 1 + rounding


class Rounding(nn.Module):
    """What another library does: the last bits depend on the size of the batch, here by some more than usual."""

    def forward(self, x):
        ulps = 64.0 * torch.cos(len(x) * torch.arange(x[0].numel(), dtype=x.dtype)).view_as(x[0])
        return x * (1.0 + torch.finfo(x.dtype).eps * ulps)


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("lower", [False, True])
def test_rounding_alone_never_refuses(name, lower):
    """Also where terms cancel, and where the model goes back to single precision by itself."""
    layer, x, y = ATTACKS[name]
    rounded = Rounding()

    def loss(outputs, y):
        return linear_loss(rounded(outputs.float() if lower else outputs), y)

    self_test(layer, loss, x, y)
    with pytest.raises(ValueError, match="another is removed"):
        self_test(layer, lambda outputs, y: loss(outputs, y) * (1.0 + 1e-6 * len(y)), x, y)


# ---- precision ----


def the_norm_is_that_of_what_enters_the_sum(found):
    """To float32, not to the lower precision of a layer."""
    for norm, alone in zip(found.norms, torch.eye(len(found.norms)), strict=True):
        entered = sum(float(total.double().square().sum()) for total in found.sum(alone).values()) ** 0.5
        assert float(norm) == pytest.approx(entered, rel=1e-6)


def test_layers_in_bfloat16_have_norms_and_sums_in_float32():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.PReLU(), nn.Flatten(), nn.Linear(16, 3))
    x = torch.randn(9, 1, 4, 4, dtype=torch.bfloat16)
    found = PerExample(model.to(torch.bfloat16), cross_entropy, x, torch.arange(9) % 3)
    assert {value.dtype for value in (found.norms, *found.sum(torch.ones(9)).values())} == {torch.float32}
    the_norm_is_that_of_what_enters_the_sum(found)


@pytest.mark.parametrize("inside", [False, True])
def test_under_autocast_the_norm_is_that_of_what_enters_the_sum(inside):
    def run(net, x):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=inside):
            return net.body(x).float()

    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(6, 20), nn.PReLU(), nn.Linear(20, 3))
    x, y = torch.randn(10, 6), torch.arange(10) % 3
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not inside):
        the_norm_is_that_of_what_enters_the_sum(PerExample(Net(run, body=body), cross_entropy, x, y))


def test_products_are_exact_whatever_the_setting_and_the_setting_comes_back():
    backend = torch.backends.mkldnn.matmul
    before = backend.fp32_precision
    backend.fp32_precision = "bf16"
    try:
        with _engine.exact_products("cpu"):
            assert backend.fp32_precision == "ieee"
        assert backend.fp32_precision == "bf16"
    finally:
        backend.fp32_precision = before


class _ReturnsAParameter(torch.autograd.Function):
    """A backward pass that hands on a trained parameter itself, which would start a graph wherever it is used."""

    @staticmethod
    def forward(ctx, x, direction):
        ctx.direction = direction
        return x @ direction[0]

    @staticmethod
    def backward(ctx, gradient):
        return ctx.direction, None


@pytest.mark.parametrize("recording", [True, False])
def test_nothing_found_has_a_graph(recording):
    direction = nn.Parameter(torch.randn(4, 3))
    model = nn.Linear(5, 3)
    x, y = torch.randn(4, 5), torch.zeros(4)
    plan = _engine.plan_of(model)
    with torch.set_grad_enabled(recording):
        losses, norms, parts = _engine.differentiate(
            model, plan, lambda outputs, y: _ReturnsAParameter.apply(outputs, direction), x, y
        )
        sums = _engine.contract(parts, torch.ones(4))
        assert torch.is_grad_enabled() == recording
    assert not any(found.requires_grad for found in (losses, norms, *sums.values()))
    assert torch.allclose(sums["weight"], direction.detach().T @ x, atol=1e-6)


# ---- refusals ----


class Given(nn.Module):
    """A parameter that no batch goes into."""

    def __init__(self, rows):
        super().__init__()
        self.rows = nn.Parameter(torch.randn(rows, 4))

    def forward(self):
        return self.rows


def before(*layers):
    """Layers with a linear one behind."""
    return nn.Sequential(*layers, nn.LazyLinear(3))


def between(does):
    return before(nn.Linear(4, 4), Net(does))


def two(run, first=None):
    return Net(run, first=first or nn.Linear(4, 4), last=nn.Linear(4, 3))


def reshaped(there, layer, back):
    """A layer between two changes of shape."""

    def run(net, x):
        x = net.layer(there(x))
        return net.last(back(x[0] if isinstance(x, tuple) else x).flatten(1))

    return Net(run, layer=layer, last=nn.LazyLinear(3))


def positions(rows):
    return Net(lambda net, x: net.last((x + net.table()).mean(1)), table=Given(rows), last=nn.Linear(4, 3))


def overwritten(net, x):
    """PyTorch refuses by itself where its own backward pass needs the input."""
    x = x.clone()
    out = net.first(x)
    with torch.no_grad():
        x.zero_()
    return net.last(out)


def time_first(layer):
    """A layer that gets time first."""
    return reshaped(lambda x: x.transpose(0, 1), layer, lambda x: x.transpose(0, 1))


BATCH = 6
ROWS, T5, TB = torch.randn(BATCH, 4), torch.randn(BATCH, 5, 4), torch.randn(BATCH, 6, 4)
BY_BATCH, REMOVED = "'0' .BatchNorm1d.*GroupNorm", "when another is removed"
NO_STATISTICS = nn.BatchNorm1d(4, track_running_stats=False)
NO_DROPOUT = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0)
DROPOUT = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.5, batch_first=True)
SHARED = two(lambda net, x: net.last(functional.linear(torch.tanh(net.first(x)), net.first.weight)))
MERGED = reshaped(lambda x: x.flatten(0, 1), nn.Linear(4, 5), lambda x: x.unflatten(0, (-1, 5)))
DROPPING = reshaped(nn.Identity(), nn.LSTM(4, 5, 2, dropout=0.5, batch_first=True), nn.Identity())
REFUSED = {
    "BatchNorm, no parameters": (before(nn.BatchNorm1d(4, affine=False)), ROWS, BY_BATCH),
    "BatchNorm without statistics, evaluated": (nn.Sequential(NO_STATISTICS, nn.Linear(4, 3)).eval(), ROWS, BY_BATCH),
    "a mean over the batch": (between(lambda net, x: centred(x)), ROWS, "one by one"),
    "a constant mean over the batch": (before(Net(lambda net, x: x - x.mean(0).detach())), ROWS, REMOVED),
    "divided by the largest": (between(lambda net, x: x / x.detach().abs().max()), ROWS, REMOVED),
    "for two or more": (nn.Sequential(nn.Linear(4, 3), Net(lambda net, x: x.squeeze()[:, :3])), ROWS, "fails on 1"),
    "used in its layer and elsewhere": (SHARED, ROWS, "'first.weight' differs from the ordinary one"),
    "time first, other length": (time_first(nn.Linear(4, 5)), T5, r"'layer' .Linear. .* of shape \(5, 6, 4\)"),
    "time first, same length": (time_first(nn.Linear(4, 5)), TB, "batch is not the first dimension"),
    "recurrent, time first": (time_first(nn.LSTM(4, 5)), T5, "'layer' .LSTM. with a tensor of shape"),
    "recurrent, same length": (time_first(nn.GRU(4, 5)), TB, "'layer' .GRU.|first dimension"),
    "attention, time first": (before(NO_DROPOUT, nn.Flatten()), TB, "one by one"),
    "batch merged with time": (MERGED, T5, r"'layer' .Linear. with a tensor of shape \(30, 4\)"),
    "a table without input": (positions(5), T5, r"'table' .Given. with a tensor of shape \(5, 4\)"),
    "a table as long as the batch": (positions(BATCH), TB, "'table' .Given. with no tensor as input"),
    "a row for each place in the batch": (before(Own(BATCH, 4)), ROWS, "'0' .Own.|one by one"),
    "dropout in a layer": (before(DROPOUT, nn.Flatten()), T5, "'0.self_attn' .MultiheadAttention.*dropout"),
    "dropout between recurrent layers": (DROPPING, T5, "'layer' .LSTM.*dropout"),
    "an input changed in place": (two(overwritten, first=Own(4)), ROWS, "in place, got layer 'first'"),
    "nothing trained": (nn.Linear(4, 3).requires_grad_(False), ROWS, "requires_grad=True, got none"),
    "complex": (nn.Sequential(nn.Linear(4, 3, dtype=torch.complex64)), ROWS, "real parameters, got '0.weight'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name):
    model, x, message = REFUSED[name]
    if any(isinstance(layer, nn.LazyLinear) for layer in model.children()):
        model(x)  # the last layer gets its shape
    hooks = [(len(layer._forward_hooks), len(layer._forward_pre_hooks)) for layer in model.modules()]
    for _ in range(2):  # a refused model is refused again
        with pytest.raises(ValueError, match=message):
            PerExample(model, cross_entropy, x, torch.arange(BATCH) % 3)
    assert hooks == [(len(layer._forward_hooks), len(layer._forward_pre_hooks)) for layer in model.modules()]


X, Y = torch.randn(4, 3), torch.tensor([0, 1, 1, 0])


LINEAR = nn.Linear(3, 2)


def summed(outputs, y):
    return functional.cross_entropy(outputs, y, reduction="sum")


@pytest.mark.parametrize("function", [PerExample, per_example_gradients, self_test])
def test_bad_arguments(function):
    good, alone = {"model": LINEAR, "loss_fn": cross_entropy, "x": X, "y": Y}, {"x": X[:1], "y": Y[:1]}
    no_losses = None, lambda outputs, y: None, lambda outputs, y: outputs, functional.cross_entropy, summed
    one = {**alone, "loss_fn": functional.cross_entropy}
    refuses(function, good, model=(lambda x: x,), loss_fn=(*no_losses, one))
    refuses(function, good, x=(X.numpy(), torch.tensor(1.0)), y=([0, 1, 1, 0], Y[:3]))


def test_losses_without_gradient_or_of_the_batch_and_inference_mode():
    with pytest.raises(ValueError, match="losses that depend on the trained parameters"):
        PerExample(LINEAR, lambda out, y: out.detach().sum(1), X, Y)
    with pytest.raises(ValueError, match=r"changes when another is|examples act on each other"):
        PerExample(LINEAR, lambda out, y: functional.cross_entropy(out, y).expand(len(y)), X, Y)
    with torch.inference_mode(), pytest.raises(ValueError, match="inference_mode"):
        PerExample(LINEAR, cross_entropy, X, Y)
    with torch.no_grad():  # gradients are asked for by the call itself
        assert (PerExample(LINEAR, cross_entropy, X, Y).norms > 0).all()


def test_bad_weights():
    weights = None, [1.0] * 4, torch.ones(3), torch.ones(4, 1), torch.ones(4, dtype=torch.complex64)
    refuses(PerExample(LINEAR, cross_entropy, X, Y).sum, {}, weights=weights)


def test_weights_may_be_booleans_or_integers():
    found = PerExample(LINEAR, cross_entropy, X, Y)
    mask = torch.tensor([True, False, True, False])
    for weights in (mask, mask.long(), mask.double()):
        assert torch.allclose(found.sum(weights)["weight"], found.sum(mask.float())["weight"])


# ---- cost ----


def test_the_comparison_runs_once_and_again_when_something_changes(monkeypatch):
    runs = []
    compare = _self_test.compare
    monkeypatch.setattr(_self_test, "compare", lambda *args, **how: (runs.append(1), compare(*args, **how)))
    model, x, y = nn.Sequential(nn.Linear(3, 4), nn.Dropout(), nn.Linear(4, 2)), torch.randn(9, 3), torch.arange(9) % 2
    PerExample(model, cross_entropy, x[:1], y[:1])  # one example cannot settle it
    PerExample(model, cross_entropy, x[:1], y[:1])
    assert len(runs) == 2
    for _ in range(3):
        PerExample(model, cross_entropy, x, y)
        PerExample(model, cross_entropy, x[:1], y[:1])
    assert len(runs) == 3
    model.eval()
    PerExample(model, cross_entropy, x, y)
    assert len(runs) == 4
    PerExample(model, lambda out, y: out.square().sum(1), x, y)
    assert len(runs) == 5


def test_models_are_not_kept_alive():
    def references():
        model = nn.Sequential(nn.Linear(3, 2))
        PerExample(model, lambda outputs, y: model and cross_entropy(outputs, y), X, Y)  # the loss holds it
        whole = Own(3)
        PerExample(whole, cross_entropy, X, Y)
        return weakref.ref(model), weakref.ref(whole)

    found = references()
    gc.collect()
    assert [reference() for reference in found] == [None, None]
