"""What training refuses because examples act on each other, or a term of the loss would be lost; what it takes."""

import functools
import random

import numpy as np
import pytest
import torch
import torch.utils.checkpoint
from torch import nn
from torch.nn import functional

from dpml.training.per_example import PerExample, self_test
from dpml.training.sampling import FullBatch, Poisson
from tests.training.helpers import Net, centred, cross_entropy, data, flat, network, seeded, train


class Does(nn.Module):
    """A layer without parameters, given by ``does(x, layer)``; it counts its calls."""

    def __init__(self, does):
        super().__init__()
        self.does, self.calls = does, 0

    def forward(self, x):
        self.calls += 1
        return self.does(x, self)


def with_layer(does):
    torch.manual_seed(0)
    return nn.Sequential(Does(does), nn.Linear(6, 3))


def penalised(term):
    """Each example's loss gets a term of the weights of the model, which does not depend on the example."""

    def make(model):
        first = model[1].weight.detach().clone()
        return lambda outputs, y: cross_entropy(outputs, y) + term(model[1].weight, first)

    return make


def plain(model):
    return cross_entropy


def by_size(model):
    return lambda outputs, y: cross_entropy(outputs, y) / len(y)


def broadcast(model):
    return lambda outputs, y: (outputs[:, :1] - y).square().mean(1)


def hardest(model):
    """Only the hardest 30 examples of a batch count."""

    def loss(outputs, y):
        losses = cross_entropy(outputs, y)
        return losses * (losses >= losses.detach().topk(min(30, len(y))).values[-1])

    return loss


def turned(does):
    """The gradient of the outputs, but not the loss, is changed on the way back."""

    class Turned(torch.autograd.Function):
        @staticmethod
        def forward(ctx, outputs):
            return outputs.clone()

        @staticmethod
        def backward(ctx, gradient):
            return does(gradient)

    return lambda model: lambda outputs, y: cross_entropy(Turned.apply(outputs), y)


def ghosts(x, layer):
    return torch.cat([centred(piece) if len(piece) == 32 else piece for piece in x.split(32)])


def averaged(x, layer):
    """A running mean, kept in no buffer."""
    before = getattr(layer, "mean", 0.0)
    layer.mean = (0.9 * before + 0.1 * x.detach().mean(0)) if layer.training else before
    return x - before


def noise(x, layer):
    return x + 1e-6 * torch.randn_like(x)


def spread(x, layer):
    return torch.normal(x, x.std(0, correction=0).expand_as(x))


def flipped(gradient):
    return gradient.flip(1) if len(gradient) > 150 else gradient


def in_some_calls(when):
    """A penalty on the weights, at some calls of the loss only."""

    def make(model):
        calls = iter(range(10**6))
        return lambda outputs, y: cross_entropy(outputs, y) + 0.1 * when(next(calls)) * model[1].weight.square().sum()

    return make


def first_mean(x, layer):
    """Initialisation from the data."""
    layer.mean = getattr(layer, "mean", x.detach().mean(0))
    return x - layer.mean


def first_labels(model):
    """Weights of the classes, counted once."""
    known = {}

    def loss(outputs, y):
        counts = known.setdefault("counts", 1.0 + torch.bincount(y, minlength=3))
        return cross_entropy(outputs, y) / counts[y]

    return loss


def generator_of_numpy():
    rng = np.random.default_rng(0)
    return lambda x, layer: x + torch.from_numpy(rng.normal(size=x.shape)).to(x)


def same(x, layer):
    return x


X, Y = data()
SORTED = Y.sort().values.float()
LAST = X[:1].repeat(40, 1)
LAST[-1] += 1.0  # 39 equal rows and another
MANY_X, MANY_Y = data(400)
TERM, BEFORE = "weight_decay", "private steps were done before this"
ROWS, BATCH = (rf"in a batch of ({size}) the \w+ of an example changes" for size in (r"2|8|24", r"[12]\d\d"))

MANY = {"x": MANY_X, "y": MANY_Y, "words": BATCH}
AT_THE_END = "Found after step 300:"


def case(does=same, loss=plain, *, x=X, y=Y, words=ROWS, note=""):
    """What the layer does, the loss, the examples, words of the refusal, and of its note if it comes during a run."""
    return does, loss, x, y, words, note


def centred_if(when):
    """A layer that subtracts the mean of a batch, where that is so."""
    return lambda x, layer: centred(x) if when(x, layer) else x


AWAY, SQUARED = (lambda w, first: (w - first).square().sum()), (lambda w, first: 1e-5 * w.square().sum())
REFUSED = {
    "a penalty at its minimum": case(loss=penalised(AWAY), words=TERM),
    "a small penalty": case(loss=penalised(SQUARED), words=TERM),
    "a penalty behind a gate": case(loss=penalised(lambda w, _: (w.norm() - 1.6).relu()), words=TERM, note=BEFORE),
    "labels that broadcast": case(loss=broadcast, y=SORTED),
    "labels that broadcast, one apart": case(loss=broadcast, y=(torch.arange(40) == 39).float()),
    "divided by the size": case(loss=by_size),
    "divided by the size, with noise": case(noise, by_size),
    "divided by the size, with dropout": case(lambda x, layer: functional.dropout(x, 0.3), by_size),
    "the size in the model, with dropout": case(lambda x, layer: functional.dropout(x / len(x), 0.3)),
    "the size in training only": case(lambda x, layer: x * len(x) if layer.training else x),
    "a mean, noise": case(lambda x, layer: noise(centred(x), layer)),
    "a mean of equal rows": case(lambda x, layer: centred(x), x=torch.ones(40, 6)),
    "a mean of zeros": case(lambda x, layer: centred(x), x=torch.zeros(40, 6)),
    "a mean of equal rows but the last": case(lambda x, layer: centred(x), x=LAST),
    "a mean of more than 24": case(centred_if(lambda x, layer: len(x) > 24), **MANY),
    "a mean over pieces of 32": case(ghosts, **MANY),
    "the hardest of a batch": case(loss=hardest, **MANY),
    "a sign of the batch, backwards": case(loss=turned(lambda g: g * (1 - 2 * (len(g) % 2)))),
    "an order of the batch, backwards": case(loss=turned(lambda g: g if len(g) > 9 else g.flip(1))),
    "an order of large batches, backwards": case(loss=turned(flipped), **MANY),
    "a spread of the batch for noise": case(spread),
    "a mean of one": case(lambda x, layer: 1.0 + centred(x), x=X[:1], y=Y[:1]),
    "a penalty on one": case(loss=penalised(AWAY), x=X[:1], y=Y[:1], words=TERM),
    "divided by the size of one": case(loss=by_size, x=X[:1], y=Y[:1]),
    "a mean of earlier batches": case(averaged, words="or on a later batch"),
    "a mean for evaluation": case(lambda x, layer: (averaged(x, layer), x)[layer.training], words="remember"),
    "a mean at the end": case(centred_if(lambda x, layer: layer.calls > 310), note=AT_THE_END),
    "a mean in float32": case(centred_if(lambda x, layer: x.dtype == X.dtype), words="this precision"),
    "a mean of many": case(centred_if(lambda x, layer: len(x) > 16)),
    "a mean, later": case(centred_if(lambda x, layer: layer.calls > 80), note=AT_THE_END),
    "mixed in random order": case(lambda x, layer: x + x[torch.randperm(len(x))]),
    "pairs": case(lambda x, layer: x + x[torch.arange(len(x)) ^ 1] if len(x) % 2 == 0 else x),
    "a penalty in some steps only": case(loss=in_some_calls(lambda calls: calls % 50 == 49), words=TERM, note=BEFORE),
    "a penalty that comes later": case(loss=in_some_calls(lambda calls: 60 < calls < 64), words=TERM, note=BEFORE),
    "a mean of a batch that is large by chance": case(centred_if(lambda x, layer: len(x) > 225), **MANY),
    "the mean of the first examples": case(first_mean, words="remember"),
    "weights from the first labels": case(loss=first_labels, words="remember"),
    "noise of another generator": case(generator_of_numpy(), words="random numbers other than PyTorch's"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_before_the_first_step_or_when_it_begins(name):
    does, loss, x, y, words, note = REFUSED[name]
    model = with_layer(does)
    before = flat(model).clone()
    with pytest.raises(ValueError, match=words) as caught:
        train(model, x, y, loss_fn=loss(model), sampling=Poisson(q=0.5), sigma=9.0, steps=300)
    notes = getattr(caught.value, "__notes__", [])
    assert note in notes[0] if note else not notes
    assert torch.equal(flat(model), before) == (note == "")


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
def test_an_error_of_torch_becomes_a_refusal():
    """It names the remedy, which works."""

    def model(reentrant):
        again = functools.partial(torch.utils.checkpoint.checkpoint, use_reentrant=reentrant)
        layers = {"first": nn.Linear(6, 6), "second": nn.Linear(6, 6), "last": nn.Linear(6, 3)}
        return Net(lambda net, x: net.last(again(net.second, net.first(x))), **layers)

    with pytest.raises(ValueError, match=r"^model must have gradients.*use_reentrant=False"):
        train(model(True), X, Y)
    assert train(model(False), X, Y, steps=2).steps == 2


def test_labels_that_broadcast_are_named():
    """Outputs (N, 1) and labels (N,): the message says so, in whatever order the rows come."""
    model = nn.Linear(6, 1)
    for y in (SORTED, SORTED.flip(0), Y.float()):
        with pytest.raises(ValueError, match=r"outputs \(24, 1\) and labels \(24,\), which broadcast to \(24, 24\)"):
            self_test(model, lambda outputs, y: (outputs - y).square().mean(1), X, y)


TAKEN = {
    "noise of its own": noise,
    "dropout that is always on": lambda x, layer: functional.dropout(x, 0.3),
    "one coin for a batch": lambda x, layer: x * (torch.rand(()) < 0.5),
    "noise by a law": lambda x, layer: x + torch.distributions.Normal(0.0, 1.0).sample((len(x), 6)),
    "random slopes": lambda x, layer: functional.rrelu(x, training=True),
    "classes by a law": lambda x, layer: x + torch.multinomial(x.softmax(1), 6, replacement=True),
    "counts by a law": lambda x, layer: x + torch.poisson(x.exp()),
    "masks": lambda x, layer: x * torch.bernoulli(torch.full_like(x, 0.9)),
    "single precision by itself": lambda x, layer: x.float() + torch.zeros(len(x), 6, dtype=torch.float32),
    "a constant of single precision": lambda x, layer: x @ torch.eye(6),
    "its examples in place": lambda x, layer: x.sub_(1.0),
    "a coin of Python's": lambda x, layer: x * (random.random() < 0.5),
    "a coin of NumPy's": lambda x, layer: x * (np.random.rand() < 0.5),  # noqa: NPY002
    "bfloat16 inside": lambda x, layer: x.bfloat16().float(),
}


@pytest.mark.parametrize("name", TAKEN)
def test_taken(name):
    model, test = with_layer(TAKEN[name]), (X.clone(), Y)
    assert train(model, X, Y, steps=3, test=test).steps == 3
    assert torch.equal(test[0], X)


def test_a_term_with_the_factor_0_is_taken():
    """Its gradient is looked at, not only whether the graph holds it."""
    model = network()
    loss = penalised(lambda weight, first: 0.0 * weight.square().sum())(nn.Sequential(nn.Identity(), model[0]))
    assert train(model, X, Y, loss_fn=loss, steps=3).steps == 3


def test_everything_is_put_back():
    model = nn.Sequential(nn.Linear(6, 6), nn.Dropout(), nn.BatchNorm1d(6).eval(), nn.Linear(6, 3))
    model[0].weight.grad = torch.ones(6, 6)
    state = {name: (value, value.clone()) for name, value in model.state_dict(keep_vars=True).items()}
    modes, numbers = [layer.training for layer in model], torch.get_rng_state()
    others = random.getstate(), repr(np.random.get_state())  # noqa: NPY002
    self_test(model, cross_entropy, X, Y)
    assert model.state_dict(keep_vars=True).keys() == state.keys()
    assert all(model.state_dict(keep_vars=True)[name] is value for name, (value, _) in state.items())
    assert all(torch.equal(value, copy) and value.dtype == copy.dtype for value, copy in state.values())
    assert bool((model[0].weight.grad == 1.0).all()) and modes == [layer.training for layer in model]
    assert torch.equal(torch.get_rng_state(), numbers)
    assert (random.getstate(), repr(np.random.get_state())) == others  # noqa: NPY002
    model[2].train()
    with pytest.raises(ValueError, match="BatchNorm1d"):
        self_test(model, cross_entropy, X, Y)
    counting = with_layer(lambda x, layer: x + layer.seen.add_(1.0))
    counting[0].register_buffer("seen", torch.zeros(6))
    with pytest.raises(ValueError, match=r"buffers.*'0\.seen' changed"):
        self_test(counting, cross_entropy, X, Y)
    assert not counting[0].seen.any()


class SinglePrecision(torch.autograd.Function):
    """A kernel that knows float32 only."""

    @staticmethod
    def forward(ctx, x):
        assert x.dtype == torch.float32
        return 2.0 * x

    @staticmethod
    def backward(ctx, gradient):
        return 2.0 * gradient


def test_what_cannot_run_in_double_is_compared_as_it_is():
    self_test(with_layer(lambda x, layer: SinglePrecision.apply(x)), cross_entropy, X, Y)
    with pytest.raises(ValueError, match=ROWS):
        self_test(with_layer(lambda x, layer: SinglePrecision.apply(centred(x))), cross_entropy, X, Y)


def test_a_penalty_by_the_optimizer_acts():
    """The remedy that the refusal names: full-batch descent without noise, which is ordinary gradient descent."""
    ends = []
    for decay in (0.0, 2.0):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=decay)
        train(model, X, Y, optimizer=optimizer, sampling=FullBatch(), sigma=0.0, clip_norm=1e6, steps=50)
        ends.append(float(flat(model).norm()))
    assert ends[1] < 0.5 * ends[0]


# ---- what is measured on the way ----

LOGIT = functional.binary_cross_entropy_with_logits


def logit(outputs, y):
    return LOGIT(outputs.flatten(), y.flatten().float(), reduction="none")


def named():
    return Net(lambda net, x: {"scores": net.inner(x)}, inner=nn.Linear(6, 3))


PIXELS, CLASSES = torch.randn(40, 1, 4, 4, generator=seeded()), torch.randint(3, (40, 4, 4), generator=seeded())
BINARY = Y.clamp(max=1)
NO_ACCURACY = {
    "one logit": (lambda: nn.Linear(6, 1), logit, X, BINARY),
    "flat logits": (lambda: nn.Sequential(nn.Linear(6, 1), nn.Flatten(0)), logit, X, BINARY),
    "segmentation": (lambda: nn.Conv2d(1, 3, 1), lambda o, y: cross_entropy(o, y).mean((1, 2)), PIXELS, CLASSES),
    "a column of labels": (lambda: nn.Linear(6, 3), lambda o, y: cross_entropy(o, y.flatten()), X, Y[:, None]),
    "one-hot labels": (lambda: nn.Linear(6, 3), cross_entropy, X, functional.one_hot(Y, 3).float()),
    "regression": (lambda: nn.Linear(6, 1), lambda o, y: (o[:, 0] - y).square(), X, X[:, 0]),
    "a dictionary": (named, lambda o, y: cross_entropy(o["scores"], y), X, Y),
    "labels beyond the classes": (lambda: nn.Linear(6, 2), lambda o, y: cross_entropy(o, y % 2), X, Y),
}


@pytest.mark.parametrize("name", NO_ACCURACY)
def test_an_accuracy_that_cannot_be_told_is_refused_before_the_first_step(name):
    build, loss, x, y = NO_ACCURACY[name]
    model = build()
    before = flat(model).clone()
    with pytest.raises(ValueError, match=r"^test must "):
        train(model, x, y, loss_fn=loss, test=(x, y), steps=2)
    assert torch.equal(flat(model), before)
    assert train(model, x, y, loss_fn=loss, steps=2).steps == 2  # without it the model is trained


@pytest.mark.parametrize(
    ("x", "y"), [(X, BINARY > 0), (X > 0, BINARY), (X > 0, BINARY > 0), (X, BINARY.to(torch.uint8))]
)
def test_features_and_labels_of_every_type_train_or_are_refused(x, y):
    model = nn.Linear(6, 1)
    if x.is_floating_point():
        assert train(model, x, y, loss_fn=logit, steps=2).steps == 2
    else:
        with pytest.raises(ValueError, match=r"^x and y must be what model and loss_fn accept"):
            train(model, x, y, loss_fn=logit, steps=2)


# ---- the range of single precision ----


@pytest.mark.parametrize("layer", [lambda: nn.LayerNorm(6), lambda: nn.Linear(6, 6), lambda: nn.PReLU()])
@pytest.mark.parametrize("size", [1e-38, 1e-25, 1e-18, 1e-12])
def test_gradients_too_short_for_single_precision_are_not_let_through(layer, size):
    """Their norms may come out as 0, and the weight as 1: they are shorter than the least clip norm all the same."""
    model = layer()
    found = PerExample(model, lambda outputs, y: size * outputs.sum(1), X, Y)
    least = 1e-16
    for i in range(3):
        weight = (least / found.norms[i].clamp(min=least)) * torch.eye(40)[i]
        total = sum(float(g.double().square().sum()) for g in found.sum(weight).values()) ** 0.5
        assert total <= least * (1 + 1e-5)
