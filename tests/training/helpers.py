"""Small networks, data and runs for the tests of the trainers."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from dpml.training import dp_sgd, dp_sgd_automatic, loop, tsgd, tsgd_ptr
from dpml.training.per_example import per_example_gradients
from dpml.training.sampling import Poisson

MECHANISMS = {
    "dp_sgd": dp_sgd(sigma=1.0, clip_norm=0.7),
    "dp_sgd_automatic": dp_sgd_automatic(sigma=1.0, clip_norm=0.7),
    "tsgd": tsgd(sigma=1.0, clip_norm=0.7, trim=5),
    "tsgd_ptr": tsgd_ptr(sigma=1.1, clip_norm=0.7, tau=0.5, scale=1.0, delta0=1e-8, trim=15),
}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def cross_entropy(outputs, y):
    return functional.cross_entropy(outputs, y, reduction="none")


def first_output(outputs, y):
    return outputs[:, 0]


def network(seed=0, *, inputs=6, hidden=5, dtype=torch.float32, dropout=0.0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = [nn.Linear(inputs, hidden), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
        return nn.Sequential(*layers, nn.Linear(hidden, 3)).to(dtype)


def linear(n_parameters, dtype=torch.float64):
    """With `first_output` as loss, the gradient of an example is its x, at any weights."""
    model = nn.Linear(n_parameters, 1, bias=False).to(dtype)
    with torch.no_grad():
        model.weight.zero_()
    return model


class Net(nn.Module):
    """Layers by name, and ``run(net, x)``."""

    def __init__(self, run, **layers):
        super().__init__()
        self.run = run
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, x):
        return self.run(self, x)


def centred(x):
    return x - x.mean(0)


def data(n=40, *, inputs=6, dtype=torch.float32, seed=5, scale=3.0):
    generator = seeded(seed)
    x = scale * torch.randn(n, inputs, generator=generator, dtype=dtype)
    return x, torch.randint(3, (n,), generator=generator)


def flat(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def gradients(model, x, y):
    """The gradients of all examples, formed one by one, (n, parameters)."""
    if len(x) == 0:
        return torch.zeros(0, sum(p.numel() for p in model.parameters()), dtype=x.dtype)
    return torch.cat([g.flatten(1) for g in per_example_gradients(model, cross_entropy, x, y).values()], 1)


class Recording(torch.optim.SGD):
    """Plain SGD that keeps every gradient that it was given."""

    def __init__(self, parameters, lr=1.0):
        super().__init__(parameters, lr=lr)
        self.seen = []

    def step(self, closure=None):
        parameters = [p.grad.reshape(-1) for group in self.param_groups for p in group["params"]]
        self.seen.append(torch.cat(parameters).clone())
        return super().step(closure)


def train(model, x, y, *, loss_fn=cross_entropy, sigma=1.0, clip_norm=1.0, mechanism=None, optimizer=None, **changes):
    """A short run with good arguments, DP-SGD unless `mechanism` says otherwise; `changes` replace some."""
    mechanism = mechanism or dp_sgd(sigma=sigma, clip_norm=clip_norm)
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    arguments = {"sampling": Poisson(q=0.5), "steps": 10, "delta": 1e-5, "generator": seeded(), "optimizer": optimizer}
    return loop.train(model, loss_fn, x, y, mechanism=mechanism, **{**arguments, **changes})


def settings(model):
    """A longer run with momentum and a trace of five points."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return {"optimizer": optimizer, "steps": 20, "trace_every": 4, "sigma": 1.0, "test": data(seed=9)}


def refuses(function, good, **bad):
    """Each bad value of an argument is refused by its name, where the others are `good`; a dictionary changes some."""
    for name, values in bad.items():
        for value in values:
            with pytest.raises(ValueError, match=f"^{name} must .*, got ") as caught:
                function(**good | (value if isinstance(value, dict) else {name: value}))
            assert len(str(caught.value)) < 500
