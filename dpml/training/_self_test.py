"""What listening to the layers cannot see is found by comparison: `first_tried`, `compare`, `halves`.

The weighted sum must be the gradient of the weighted loss: otherwise a parameter is used outside its layer, or a term
of the loss reaches the parameters past the layers. With some examples removed, losses, norms and weighted sums of the
others must stay: that is the neighbouring relation itself. And what the model says in evaluation must be what it said
before all this: otherwise it remembers what it saw. What it keeps of the first examples alone shows in a copy that saw
zeros first.

A few examples do not show what happens in a large batch only, so that a whole batch is compared with half of it in the
same way (`halves`): that costs a step and a half.

Whatever may make a difference without a fault is held still. Rounding: everything is computed in double precision, also
what a model makes in lower precision. Random numbers: they are constants. Special points: at zero, or at the minimum of
a penalty, a gradient may vanish by accident, so that each parameter is moved; and rows that are alike would hide what
they do to each other, so that the rows are chosen to differ.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from dpml.training import _checks, _engine, _run_state

_LOWER = (torch.float16, torch.bfloat16, torch.float32)
_EVERYWHERE = (
    "statistics over the batch or its size, and for random numbers other than PyTorch's, in the model and in loss_fn"
)
_REMEMBERS = (
    "model must not remember examples, got one whose outputs in evaluation mode differ after it has seen some: what it "
    "keeps of the data would leave without noise; nor may it draw random numbers other than PyTorch's"
)
_RESTS = slice(1, None), slice(0, 1), slice(0, None, 4)
"""Who is left when examples are removed: all but one, one alone, some."""


def compare(model: nn.Module, plan: _engine.Plan, loss_fn: Any, x: Tensor, y: Tensor, *, move: float) -> None:
    """Raise unless the engine agrees with ordinary gradients and no example acts on another.

    At parameters moved by up to the fraction `move` of themselves, in double precision; in their own where something in
    the model knows no other.

    Raises:
        ValueError: saying what differs, with the remedy.
    """
    try:
        wide = _double(x), _double(y)
        with _held(model, x, move=move, double=True) as rewind:
            found = _finding(_Runs(model, loss_fn, rewind, plan), *wide, 1e-8)
    except Exception:  # a kernel that knows single precision only, or a refusal that comes again
        lower = any(p.dtype in _LOWER[:2] for p in plan.parameters.values()) or torch.is_autocast_enabled(x.device.type)
        try:
            with _held(model, x, move=move, double=False) as rewind:
                found = _finding(_Runs(model, loss_fn, rewind, plan), x, y, 5e-2 if lower else 3e-3)
        except (RuntimeError, TypeError, LookupError) as error:
            raise ValueError(f"model must have gradients, got {type(error).__name__}: {error}") from error
    if found:
        raise ValueError(found)


def first_tried(model: nn.Module, loss_fn: Any, x: Tensor, y: Tensor, *, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return some examples (`_checks.examples_tried`) that model and loss took and kept nothing of.

    Raises:
        ValueError: as said.
    """
    zeros = [torch.zeros_like(values[:24], device=device) for values in (x, y)]
    with _run_state.same_draws(device) as rewind:
        fresh = _after_zeros((model, loss_fn), lambda m, loss: _Runs(m, loss, rewind).evaluated(*zeros))
        some = _checks.examples_tried(model, loss_fn, x, y, device=device, names="x and y")
        with _Still(double=False):
            ends = [
                _Runs(m, loss, rewind).evaluated(*some) for m, loss in ((model, loss_fn), fresh or (model, loss_fn))
            ]
    if not _close(ends[0], ends[-1], 3e-3):
        raise ValueError(_REMEMBERS)
    return some


def halves(model: nn.Module, loss_fn: Any, x: Tensor, y: Tensor) -> None:
    """Raise if a whole batch changes when half of it is removed in this precision, and if that is no rounding.

    It is none if the same happens in double precision, or with the other half replaced, which leaves all shapes and so
    the rounding of what stays.

    Raises:
        ValueError: as said.
    """
    if len(x) < 2:
        return
    plan, half = _engine.plan_of(model), [slice(0, None, 2)]
    try:
        with _held(model, x, move=0.0, double=False) as rewind:
            found = _change(_Runs(model, loss_fn, rewind, plan), x, y, half, 3e-3)
    except Exception as error:
        came = f"{type(error).__name__}: {error}"
        raise ValueError(f"x and y must be what model and loss_fn accept, got {came}") from error
    if found:
        wide = _double(x), _double(y)
        with suppress(Exception), _held(model, x, move=0.0, double=True) as rewind:  # a kernel may know no double
            found = _change(_Runs(model, loss_fn, rewind, plan), *wide, half, 1e-8)
        if not found:
            with _held(model, x, move=0.0, double=False) as rewind:
                found = _replaced(_Runs(model, loss_fn, rewind, plan), x, y, 3e-3)
    if found:
        raise ValueError(found)


def again(model: nn.Module, loss_fn: Any, x: Tensor, y: Tensor, *, augment: Any, step: int) -> None:
    """Compare on a batch, and on a few examples of it that differ: a gate in the model may have opened meanwhile.

    Raises:
        ValueError: as `compare`, with a note on what was said before.
    """
    few = _checks.differing(x, y, count=8)
    try:
        x = one_by_one(augment, x, y)
        compare(model, _engine.plan_of(model), loss_fn, x[few.to(x.device)], y[few.to(y.device)], move=0.01)
        halves(model, loss_fn, x, y)
    except ValueError as error:
        error.add_note(f"Found after step {step}: what an epsilon says of the steps before may be false.")
        raise


def one_by_one(augment: Any, x: Tensor, y: Tensor) -> Tensor:
    """Return the augmented examples, or raise unless there is a row for each, the same whatever others are there.

    With constants for random numbers. A sign of a gradient near zero may turn by rounding: a few entries may differ.

    Raises:
        ValueError: saying what differs.
    """
    if augment is None:
        return x
    with _run_state.same_draws(x.device) as rewind, _Still(double=False):

        def one(x: Tensor, y: Tensor, augment: Any = augment) -> Any:
            rewind()
            try:
                return augment(x.clone(), y)
            except Exception as error:
                raise ValueError(f"augment must take any examples, got {type(error).__name__}: {error}") from error

        fresh = _after_zeros((augment,), partial(one, torch.zeros_like(x), torch.zeros_like(y)))
        whole = one(x, y)
        if not isinstance(whole, Tensor) or len(whole) != len(x):
            came = f"shape {tuple(whole.shape)}" if isinstance(whole, Tensor) else type(whole).__name__
            raise ValueError(f"augment must return a tensor with a row for each of {len(x)} examples, got {came}")
        others = [*((rest, one(x[rest], y[rest])) for rest in _RESTS), *((slice(None), one(x, y, a)) for a in fresh)]
    for rest, after in others:
        same = torch.isclose(whole[rest], after, rtol=1e-3, atol=1e-5)
        if len(x) > 1 and bool((same.flatten(1).double().mean(1) < 0.9).any()):
            raise ValueError(
                "augment must make each row from its own example, got one that changes by others before or beside it, "
                "or draws random numbers other than PyTorch's"
            )
    return whole


def _after_zeros(given: tuple[Any, ...], run: Callable[..., Any]) -> tuple[Any, ...]:
    """Copies that share nothing with what is given, after a run on zeros; empty where they cannot be copied.

    What is kept of the first examples shows nowhere later. So the first that a copy sees are zeros, and then it must
    say the same. Where a copy shares its memory all the same, the zeros are what is kept.
    """
    memo: dict[int, Any] = {}
    try:
        copies = tuple(_copied(one, memo) for one in given)
    except Exception:  # a tensor with a graph, a lock, a file
        return ()
    with suppress(Exception):  # what does not take zeros
        run(*copies)
    return copies


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    """A deep copy; of a function too, with what it closes over."""
    if not isinstance(value, types.FunctionType) or not value.__closure__:
        return deepcopy(value, memo)
    cells = tuple(types.CellType(_copied(cell.cell_contents, memo)) for cell in value.__closure__)
    function = types.FunctionType(value.__code__, value.__globals__, value.__name__, value.__defaults__, cells)
    function.__kwdefaults__ = value.__kwdefaults__
    return function


class _Runs(NamedTuple):
    """What is tested, and how each run of it goes back to the same random numbers."""

    model: nn.Module
    loss_fn: Any
    rewind: Callable[[], None]
    plan: Any = None

    def losses(self, x: Tensor, y: Tensor) -> Tensor:
        self.rewind()
        return _checks.one_loss_each(self.loss_fn(self.model(x.clone()), y), len(x))

    def evaluated(self, x: Tensor, y: Tensor) -> Tensor:
        with torch.no_grad(), _checks.evaluated(self.model):
            return self.losses(x, y)

    def engine(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, _engine.Parts]:
        self.rewind()
        return _engine.differentiate(self.model, self.plan, self.loss_fn, x.clone(), y)


def _finding(runs: _Runs, x: Tensor, y: Tensor, tolerance: float) -> str | None:
    """What differs, or None."""
    if len(x) == 1:  # beside one example stands another like it
        x, y = torch.cat([x, x]), torch.cat([y, y])
    x, y = _apart(x), _apart(y)
    before = runs.evaluated(x, y)
    name = _differing_sum(runs, x, y, tolerance)
    if name is not None:
        return _engine.differs(name)
    change = _change(runs, x, y, _RESTS, tolerance)
    if change is not None:
        return change
    if not _close(before, runs.evaluated(x, y), tolerance):
        return _REMEMBERS
    return None


def _differing_sum(runs: _Runs, x: Tensor, y: Tensor, tolerance: float) -> str | None:
    """The parameter in which the weighted sum is not the gradient of the weighted loss, the weights all different."""
    weights, parameters = _weights(x), runs.plan.parameters
    _, norms, parts = runs.engine(x, y)
    with torch.enable_grad():
        losses = runs.losses(x, y)
    with torch.autocast(losses.device.type, enabled=False):
        ordinary = torch.autograd.grad(losses, list(parameters.values()), weights.to(losses.dtype), allow_unused=True)
    sums, size = _engine.contract(parts, weights), float(weights @ norms)
    rounding = 4.0 * len(losses) * torch.finfo(losses.dtype).eps  # where the gradient itself is zero but for rounding
    for (name, parameter), gradient in zip(parameters.items(), ordinary, strict=True):
        expected = torch.zeros_like(parameter) if gradient is None else gradient.to_dense()
        difference = float((sums[name] - expected if name in sums else expected).detach().double().norm())
        if difference > tolerance * size + rounding:
            return str(name)
    return None


def _change(runs: _Runs, x: Tensor, y: Tensor, rests: Sequence[slice], tolerance: float) -> str | None:
    """What changes in an example when only one of these parts of its batch is left, or None."""
    losses, norms, parts = runs.engine(x, y)
    for rest in rests:
        try:
            losses_after, norms_after, parts_after = runs.engine(x[rest], y[rest])
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
            raise ValueError(f"model must accept a batch of any size, but fails on {len(x[rest])}: {reason}") from error
        here, zero = torch.zeros_like(norms), torch.zeros((), device=x.device)
        here[rest] = _weights(x)[rest]
        size, sums, less = (
            (here @ norms)[None],
            _engine.contract(parts, here),
            _engine.contract(parts_after, here[rest]),
        )
        names = sums.keys() | less.keys()
        off = torch.stack([(sums.get(n, zero) - less.get(n, zero)).double().norm() for n in names]).norm()
        off = torch.where(norms.isfinite().all(), off, 0.0)
        same_losses = _close(losses[rest], losses_after, tolerance)
        if not (same_losses and _close(norms[rest], norms_after, tolerance) and _close(size, size + off, tolerance)):
            return (
                f"model must treat examples one by one, but in a batch of {len(x)} the "
                f"{'gradient' if same_losses else 'loss'} of an example changes when another is removed: look for "
                f"{_suspect(runs.model(x), y)}"
            )
    return None


def _replaced(runs: _Runs, x: Tensor, y: Tensor, tolerance: float) -> str | None:
    """What changes in every second example when those between are replaced by copies of them, or None."""
    places = torch.arange(len(x), device=x.device)
    kept, copies = places % 2 == 0, places - places % 2
    both = zip(runs.engine(x, y)[:2], runs.engine(x[copies], y[copies])[:2], strict=True)
    if all(_close(one[kept], other[kept], tolerance) for one, other in both):
        return None
    return (
        f"model must treat examples one by one, but in this precision an example in a batch of {len(x)} changes when "
        f"others are replaced: look for {_EVERYWHERE}"
    )


def _weights(x: Tensor) -> Tensor:
    """A weight for each example, all different."""
    return 0.5 + (torch.arange(len(x), device=x.device, dtype=torch.float64) * 0.6180339887) % 1.0


def _suspect(outputs: Any, y: Tensor) -> str:
    """What to look for where examples act on each other."""
    if isinstance(outputs, Tensor) and {outputs.shape, y.shape} == {(len(y), 1), (len(y),)}:
        shapes = f"outputs {tuple(outputs.shape)} and labels {tuple(y.shape)}"
        return f"{shapes}, which broadcast to {(len(y), len(y))} and must have one shape; and for {_EVERYWHERE}"
    return _EVERYWHERE


def _close(one: Tensor, other: Tensor, tolerance: float) -> bool:
    one, other = one.double(), other.double()
    near = (one - other).abs() <= tolerance * (one.abs() + one.abs().mean())
    return bool((near | (one == other) | (one.isnan() & other.isnan())).all())  # what overflows, overflows alone


# ---- what is held still ----


class _Still(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Random numbers are constants; if `double`, what a model makes in lower precision is made in double."""

    def __init__(self, *, double: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._double = double

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [*args, *kwargs.values()]
        tensors = [v for a in given for v in (a if isinstance(a, list | tuple) else (a,)) if isinstance(v, Tensor)]
        if self._double:
            kinds = {t.dtype for t in tensors}
            mixed = torch.float64 in kinds and not kinds.isdisjoint(_LOWER) and not func._schema.is_mutable
            if mixed or any(isinstance(a, torch.dtype) for a in given):
                args, kwargs = pytree.tree_map(_double if mixed else _double_type, (args, kwargs))
        out = func(*args, **kwargs)
        if torch.Tag.nondeterministic_seeded in func.tags:
            out = _constant(func._schema.name.removeprefix("aten::"), tensors, out)
        return _double(out) if self._double and not tensors else out


_LAWS = {"bernoulli", "binomial", "normal", "poisson", "_sample_dirichlet", "_standard_gamma"}


def _constant(name: str, given: list[Tensor], out: Any) -> Any:
    """In place of random numbers: the same whatever the shape, or the sum of the numbers that their law depends on."""
    if name == "native_dropout":
        return given[0].clone(), torch.ones_like(out[1])
    if name == "rrelu_with_noise":  # the second is for the way back
        return given[0] * given[1].copy_(torch.where(given[0] > 0.0, 1.0, 0.2))
    if name == "multinomial":
        return given[0].argmax(-1, keepdim=True).expand_as(out).clone()
    shape_only = name.endswith(("_", "_like"))  # what the first tensor lends
    if given and not shape_only and name not in _LAWS:  # attention and the like, with dropout of their own
        return out
    law = given[shape_only:]
    out.fill_(0.5 if out.is_floating_point() and not law else 0)
    for numbers in law:
        out.add_(numbers.to(out.dtype))
    return out


@contextmanager
def _held(model: nn.Module, x: Tensor, *, move: float, double: bool) -> Iterator[Callable[[], None]]:
    """Everything that may make a difference without a fault is held still, and put back at the end."""
    moved = _moved(model, move=move, double=double)
    with _run_state.same_draws(x.device) as rewind, moved, _Still(double=double):
        yield rewind


@contextmanager
def _moved(model: nn.Module, *, move: float, double: bool) -> Iterator[None]:
    """Another point for the parameters and copies of the buffers, in double if asked for; everything is put back.

    Raises:
        ValueError: if a buffer is changed meanwhile.
    """
    wide = _double if double else Tensor.clone
    parameters = [(p, p.data, p.grad) for p in model.parameters()]
    buffers = [(layer, name, b) for layer in model.modules() for name, b in layer._buffers.items() if b is not None]
    try:
        for number, (parameter, values, _) in enumerate(parameters):
            parameter.grad = None
            parameter.data = _shrunk(wide(values), move, number) if parameter.requires_grad else wide(values)
        copies: list[Tensor] = [wide(b.clone()) for _, _, b in buffers]
        for (layer, name, _), copy in zip(buffers, copies, strict=True):
            layer._buffers[name] = copy
        versions = [copy._version for copy in copies]
        yield
        for (layer, name, _), copy, version in zip(buffers, copies, versions, strict=True):
            if layer._buffers.get(name) is not copy or copy._version != version:
                where = next(path for path, found in model.named_modules() if found is layer)
                raise ValueError(
                    f"model must not change its buffers in the forward pass, got {f'{where}.{name}'.lstrip('.')!r} "
                    "changed: what it keeps of the data would leave without noise. If it keeps nothing of them, as in "
                    "spectral normalisation, call eval() on its layer"
                )
    finally:
        for parameter, values, gradient in parameters:
            parameter.data = values
            parameter.grad = gradient
        for layer, name, buffer in buffers:
            layer._buffers[name] = buffer


def _shrunk(values: Tensor, by: float, phase: int = 0) -> Tensor:
    """Each number times another factor in [1 - by, 1], and each 0 moved into [0, by]: no sign changes."""
    if not values.is_floating_point():
        return values
    wave = torch.cos(1.7 * torch.arange(values.numel(), device=values.device) + phase).view_as(values)
    part = (by * (1.0 + wave) / 2.0).to(values.dtype)
    return torch.where(values == 0.0, part, values * (1.0 - part))


def _apart(values: Tensor) -> Tensor:
    """Rows that are all alike are made to differ a little, where they are real numbers."""
    alike = len(values) > 1 and bool((values == values[:1]).all())
    return _shrunk(values, 0.1) if alike else values


def _double(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) and value.dtype in _LOWER else _double_type(value)


def _double_type(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in _LOWER else value
