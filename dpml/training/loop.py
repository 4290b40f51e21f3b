r"""The private training loop: one step of it is one noisy sum.

.. math::

    \theta \leftarrow \text{optimizer}\Bigl(\theta,\ \frac{1}{B}\Bigl(\sum_{i \in S} w_i\, g_i
    + N(0, s^2 I)\Bigr)\Bigr).

The sampler draws S, a rule chooses the weights and s (`dpml.training.rules`), B is the *expected* batch size.
Everything after the noise is post-processing, so any optimizer may follow.

What the loop takes care of, because each slip here spends privacy in silence:

- noise is drawn once per step, in one piece, on the sum of all micro-batches, also when the batch is empty;
- the divisor is the expected batch size, never the realised one;
- an interrupted run goes on with the generators where they were: no noise is used twice, no step is forgotten;
- whatever can be refused is refused before the first step.

Nothing in a step waits for the device; numbers are moved to the CPU at the points of the trace.

The seed. Noise comes from a generator that is not cryptographic, in floating point: who knows the seed can subtract
all of it, and then nothing is private. Fixed seeds are for the classroom. For a model to be published draw one with
``torch.Generator().seed()`` on a fresh generator and keep neither it nor the checkpoint, which holds the state.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm

from dpml import arguments
from dpml.accounting.guarantee import Guarantee
from dpml.training import _checkpoint
from dpml.training._interrupt import Deferred
from dpml.training._randomness import Randomness, kept_global_state
from dpml.training._ready import Arguments, LossFunction, check, examples, trained_parameters
from dpml.training.per_example import PerExample
from dpml.training.rules import LogicalBatchRule, Rule, State, weighted_sum
from dpml.training.sampling import Sampler, micro_batches
from dpml.training.trace import Diverged, Interrupted, Recorder, Run

__all__ = ["Account", "Corrupt", "accuracy", "train"]

Account = Callable[[Sequence[int]], list[Guarantee]]
"""The guarantee after each number of steps of an increasing sequence."""

Corrupt = Callable[[PerExample, torch.Tensor], Any]
"""What faulty workers make of the gradients of a micro-batch, given the examples' numbers: see `corruption`."""

MOST_ACCOUNTED = 50
"""For so many points of a trace the guarantee is computed; other points get that of the next one."""

CUDA_CHECK = 50
"""On a GPU the loop looks every so many steps whether all numbers were finite; on a CPU in every step."""


def train(
    model: torch.nn.Module,
    loss_fn: LossFunction,
    x: torch.Tensor,
    y: torch.Tensor,
    *,
    rule: Rule,
    account: Account,
    settings: dict[str, Any],
    sampling: Sampler,
    steps: int,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator,
    expected_batch: float | None = None,
    micro_batch: int | None = None,
    trace_every: int | None = None,
    test: tuple[torch.Tensor, torch.Tensor] | None = None,
    checkpoint: str | Path | None = None,
    corrupt: Corrupt | None = None,
) -> Run:
    """Train `model` in place by `steps` private steps under `rule`; see `dpml.training.dpsgd.dp_sgd` for the arguments.

    ``account(counts)`` returns the guarantee after each number of steps in an increasing sequence. `settings` describes
    the rule and what it is accounted for, in plain numbers and text: a checkpoint is continued only under equal ones.
    ``corrupt(chunk, ids)`` stands for faulty workers: it returns the gradients that reach the rule, with the interface
    of `PerExample`; its randomness is its own, so it goes with no checkpoint.

    Raises:
        ValueError: for bad input, before any step.
        Interrupted: after Ctrl+C, between two steps.
        Diverged: if a loss, a gradient or a parameter is not finite.

    Source: Abadi et al., "Deep learning with differential privacy", CCS 2016, Algorithm 1, with the rule left open.
    """
    if corrupt is not None and (checkpoint is not None or not callable(corrupt)):
        raise ValueError(f"corrupt must be a function, and None with a checkpoint, got {type(corrupt).__name__}")
    with kept_global_state(torch.device("cpu")):
        checked = check(
            model,
            loss_fn,
            x,
            y,
            sampling=sampling,
            steps=steps,
            optimizer=optimizer,
            generator=generator,
            expected_batch=expected_batch,
            micro_batch=micro_batch,
            trace_every=trace_every,
            test=test,
            checkpoint=checkpoint,
        )
    with kept_global_state(checked.device):
        return _Training(
            model, loss_fn, x, y, rule, account, settings, optimizer, generator, test, checked, corrupt
        ).run()


class _Training:
    """The state of one run, and what happens to it in a step."""

    def __init__(
        self,
        model: torch.nn.Module,
        loss_fn: LossFunction,
        x: torch.Tensor,
        y: torch.Tensor,
        rule: Rule,
        account: Account,
        settings: dict[str, Any],
        optimizer: torch.optim.Optimizer,
        generator: torch.Generator,
        test: tuple[torch.Tensor, torch.Tensor] | None,
        checked: Arguments,
        corrupt: Corrupt | None,
    ) -> None:
        self.corrupt = corrupt
        self.model, self.loss_fn, self.x, self.y = model, loss_fn, x, y
        self.rule, self.account, self.optimizer, self.test, self.checked = rule, account, optimizer, test, checked
        self.parameters = trained_parameters(model)
        self.done = 0
        self.rule_state: State = dict(rule.state) if isinstance(rule, LogicalBatchRule) else {}
        self.recorder = Recorder()
        self.last_norms = torch.empty(0, device=checked.device)
        self.bad_step = torch.zeros((), dtype=torch.int64, device=checked.device)
        self.looks_always = checked.device.type == "cpu"
        self.updating = False
        self.guarantees: dict[int, Guarantee] = {}
        self._guarantees([*range(checked.trace_every, checked.steps, checked.trace_every), checked.steps])  # may refuse
        self.settings = self._all_settings(settings)
        loaded = _checkpoint.load(checked.checkpoint, self.settings) if checked.checkpoint else None
        if loaded and loaded["done"] > checked.steps:
            raise ValueError(f"steps must be at least the {loaded['done']} of the checkpoint, got {checked.steps}")
        self.randomness = Randomness(generator, checked.device)
        if loaded:
            self._restore(loaded)

    # ---- one step ----

    def step(self) -> None:
        """Sample, weigh, sum, add noise, divide, update."""
        before = self.randomness.state()
        try:
            ids = self.checked.sampling.draw(len(self.x), generator=self.randomness.sampling)
            found = weighted_sum(
                self._chunks(ids),
                rule=self.rule,
                parameters=self.parameters,
                ids=ids.to(self.checked.device),
                state=self.rule_state,
                generator=self.randomness.noise,
            )
            noise = torch.empty_like(found.sum).normal_(generator=self.randomness.noise)
            gradient = noise.mul_(found.noise).add_(found.sum).div_(self.checked.expected)
            good = found.finite & torch.stack(torch.aminmax(gradient)).isfinite().all()
            if self.looks_always and not bool(good):
                raise self._diverged(self.done + 1)
        except BaseException:
            self.randomness.restore(before)  # nothing was released, and the next try draws the same
            raise
        self.updating = True
        self._update(gradient)
        self.done += 1
        self.updating = False
        self.rule_state, self.last_norms = found.state, found.norms
        self.bad_step = torch.where(good | (self.bad_step > 0), self.bad_step, self.done)
        self.recorder.add(len(ids), found.log)

    def _chunks(self, ids: torch.Tensor) -> Iterator[PerExample]:
        device = self.checked.device
        for some in micro_batches(ids, size=self.checked.micro_batch):
            some_x, some_y = self.x[some.to(self.x.device)], self.y[some.to(self.y.device)]
            chunk = PerExample(self.model, self.loss_fn, some_x.to(device), some_y.to(device))
            yield chunk if self.corrupt is None else self.corrupt(chunk, some)

    def _update(self, gradient: torch.Tensor) -> None:
        pieces = torch.split(gradient, [parameter.numel() for parameter in self.parameters.values()])
        for parameter, piece in zip(self.parameters.values(), pieces, strict=True):
            parameter.grad = piece.view_as(parameter).to(parameter.dtype)
        self.optimizer.step()

    # ---- the run ----

    def run(self) -> Run:
        """All steps that are left, the points of the trace, and the checkpoints."""
        bar = tqdm(total=self.checked.steps, initial=self.done, disable=None, delay=0.5, desc="private steps")
        with bar, Deferred() as interruption:
            try:
                while True:
                    due = self.done == self.checked.steps or self.done % self.checked.trace_every == 0
                    if due and self.recorder.counts["steps"]:
                        self._look()
                        self._point()
                        bar.set_postfix_str(f"epsilon {self.guarantees[self.done].epsilon:.4g}", refresh=False)
                    if interruption.asked:
                        raise KeyboardInterrupt
                    if self.done == self.checked.steps:
                        return self._result(())
                    self.step()
                    bar.update()
                    if self.done % CUDA_CHECK == 0:
                        self._look()
            except KeyboardInterrupt as error:
                if self.updating:
                    error.add_note(f"The model is half-way through step {self.done + 1}. {self._rest()}")
                    raise
                raise self._interrupted() from error
            except Diverged:
                raise
            except Exception as error:
                error.add_note(f"{self.done} private steps were done before this. {self._rest()}")
                raise
            finally:
                for parameter in self.parameters.values():
                    parameter.grad = None

    def _look(self) -> None:
        """Stop if something was not finite since the last look."""
        if int(self.bad_step) > 0:
            raise self._diverged(int(self.bad_step))

    def _point(self) -> None:
        if self.done == self.checked.steps and not all(bool(p.isfinite().all()) for p in self.parameters.values()):
            raise self._diverged(self.done)
        self.recorder.close(self.recorder.point(self.done, self.last_norms, self._accuracy()))
        self._save()

    def _accuracy(self) -> float:
        return float("nan") if self.test is None else accuracy(self.model, self.test[0], y=self.test[1])

    def _guarantees(self, counts: Sequence[int]) -> list[Guarantee]:
        """The guarantee after each of these numbers of steps, computed once.

        Of many numbers `MOST_ACCOUNTED` are computed; the others get the guarantee of the next larger one, which holds
        for them too.
        """
        new = sorted({count for count in counts if count not in self.guarantees})
        if new:
            some = [new[-1 - (i * len(new)) // MOST_ACCOUNTED] for i in range(min(len(new), MOST_ACCOUNTED))][::-1]
            some = new if len(new) <= MOST_ACCOUNTED else some
            found = self.account(some)
            self.guarantees |= {count: found[bisect.bisect_left(some, count)] for count in new}
        return [self.guarantees[count] for count in counts]

    def _rest(self) -> str:
        """What an unexpected error must not hide. A step that may have begun is counted as done."""
        return f"Spent, with the step that failed: {self._guarantees([self.done + 1])[0]}"

    def _result(self, more: tuple[dict[str, Any], ...], spent: int | None = None) -> Run:
        """The run so far; `more` are points that a continuation would not keep."""
        points = [int(point["steps"]) for point in (*self.recorder.points, *more)]
        trace = self.recorder.trace(tuple(self._guarantees(points)), more)
        return Run(self.model, trace, self._guarantees([spent or self.done])[0], self.done)

    def _partial(self) -> tuple[dict[str, Any], ...]:
        if self.recorder.counts["steps"] == 0:
            return ()
        return (self.recorder.point(self.done, self.last_norms, self._accuracy()),)

    def _interrupted(self) -> Interrupted:
        self._save()
        run = self._result(self._partial())
        path = self.checked.checkpoint
        more = "" if path is None else f" The same call goes on from there, with {path}."
        text = f"Interrupted after step {self.done} of {self.checked.steps}. Spent: {run.guarantee}{more}"
        return Interrupted(text, run)

    def _diverged(self, step: int) -> Diverged:
        run = self._result(self._partial(), max(step, self.done))
        text = (
            f"A loss, a gradient or a parameter was not finite in step {step}; the model is as after step {self.done}. "
            f"Spent, with the step that failed: {run.guarantee} That training stopped is known too, and no epsilon "
            "covers it. A smaller learning rate may help."
        )
        return Diverged(text, run, step)

    # ---- the disk ----

    def _all_settings(self, settings: dict[str, Any]) -> dict[str, Any]:
        if self.checked.checkpoint is None:
            return {}
        shapes = {name: tuple(parameter.shape) for name, parameter in self.parameters.items()}
        return {
            **settings,
            "sampling": repr(self.checked.sampling),
            "expected batch": self.checked.expected,
            "optimizer": f"{type(self.optimizer).__name__} {self._hyperparameters()}",
            "parameters": str(shapes),
            "device": self.checked.device.type,
            "data": _checkpoint.fingerprint(self.x, self.y),
        }

    def _hyperparameters(self) -> list[dict[str, Any]]:
        groups = self.optimizer.param_groups
        return [{key: value for key, value in group.items() if key != "params"} for group in groups]

    def _save(self) -> None:
        if self.checked.checkpoint is None:
            return
        content = {
            "settings": self.settings,
            "done": self.done,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "randomness": self.randomness.state(),
            "rule": self.rule_state,
            "points": self.recorder.points,
            "sums": self.recorder.sums,
            "counts": self.recorder.counts,
            "norms": self.last_norms,
        }
        _checkpoint.save(self.checked.checkpoint, content)

    def _restore(self, content: dict[str, Any]) -> None:
        device = self.checked.device
        self.done = int(content["done"])
        self.model.load_state_dict(content["model"])
        self.optimizer.load_state_dict(content["optimizer"])
        self.randomness.restore(content["randomness"])
        self.rule_state, sums = (
            {name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in part.items()}
            for part in (content["rule"], content["sums"])
        )
        self.recorder = Recorder(content["points"], sums, content["counts"])
        self.last_norms = content["norms"].to(device)


def accuracy(model: torch.nn.Module, x: torch.Tensor, *, y: torch.Tensor, size: int = 1000) -> float:
    """Return the fraction of the rows of `x` for which the largest output of `model` is at the place `y`.

    In evaluation mode, without gradients, `size` rows at a time. The mode of every module is put back.

    Raises:
        ValueError: if x and y are not tensors of as many rows.

    Source: definition.
    """
    examples("x", x, "y", y)
    size = arguments.integer("size", size, 1)
    device = next(model.parameters()).device
    flags = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            right = torch.zeros((), dtype=torch.int64, device=device)
            for some_x, some_y in zip(torch.split(x, size), torch.split(y, size), strict=True):
                right += (model(some_x.to(device)).argmax(1) == some_y.to(device)).sum()
    finally:
        for module, flag in flags.items():
            module.training = flag
    return int(right) / len(y)
