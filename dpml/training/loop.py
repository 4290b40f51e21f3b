r"""The one trainer: a step of it is one noisy sum.

.. math::

    \theta \leftarrow \text{optimizer}\Bigl(\theta,\ \frac{1}{B}\Bigl(\sum_{i \in S} w_i\, g_i
    + N(0, s^2 I)\Bigr)\Bigr).

The sampler draws S (`dpml.training.sampling`), the mechanism chooses the weights and s (`dpml.training.dpsgd`,
`dpml.training.trimming`), B is the sampler's *expected* batch size, a number fixed without the data (if it is not, the
guarantee says "with n taken as public"). Everything after the noise is post-processing: any optimizer may follow that
sees nothing of the data but these noisy means.

What the loop takes care of, because each slip here spends privacy in silence:

- a batch is drawn afresh in each step, and an empty one is a step like any other;
- the divisor is the expected batch size, never the realised one, nor one from the data (the label tells);
- an interrupted run goes on with the generators where they were: no noise is used twice, no step is forgotten;
- whatever can be refused is refused before the first step.

Nothing in a step waits for the device; numbers are moved to the CPU at the points of the trace.

The seed. Noise comes from a generator that is not cryptographic, in floating point: who knows the seed can subtract
all of it, and then nothing is private. Fixed seeds are for the classroom. For a model to be published draw one with
``torch.Generator().seed()`` on a fresh generator and keep neither it nor the checkpoint, which holds the state.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed
from tqdm.auto import tqdm

from dpml import arguments
from dpml.accounting.guarantee import Guarantee
from dpml.training import _checks, _run_state
from dpml.training._checks import LossFunction
from dpml.training.mechanism import Mechanism
from dpml.training.models import accuracy
from dpml.training.per_example import begin
from dpml.training.sampling import FixedSize, Sampler, cpu_generator, large_batch, sampler
from dpml.training.shared import ALONE, Share, share_of
from dpml.training.trace import Diverged, Interrupted, Recorder, Run
from dpml.training.worker import Augment, Corrupt, Source, Worker, on

__all__ = ["train"]

MOST_ACCOUNTED = 50
"""For so many points of a trace the guarantee is computed; other points get that of the next one."""

CUDA_CHECK = 50
"""On a GPU the loop looks every so many steps whether all numbers were finite; on a CPU in every step."""

RETESTS = tuple(512 * 4**k for k in range(11))
"""After so many steps, and after the last, the self-test runs again: about 1 % of a run."""


def train(
    model: torch.nn.Module,
    loss_fn: LossFunction,
    x: Tensor,
    y: Tensor,
    *,
    mechanism: Mechanism,
    sampling: Sampler,
    steps: int,
    optimizer: torch.optim.Optimizer,
    delta: float,
    generator: torch.Generator,
    micro_batch: int | None = None,
    trace_every: int | None = None,
    test: tuple[Tensor, Tensor] | None = None,
    checkpoint: str | Path | None = None,
    corrupt: Corrupt | None = None,
    augment: Augment | None = None,
    group: distributed.ProcessGroup | None = None,
) -> Run:
    """Train `model` in place and return it with its trace and its guarantee.

    Neighbours: add/remove for `Poisson` and `FullBatch`, replace-one for `FixedSize`. On the device of the model; x and
    y may lie there or on the CPU. With a checkpoint the run is saved at each point of its trace, on Ctrl+C and after an
    error outside an update, and the same call goes on where the file ends, to the same bits; its `steps` may be larger.

    Args:
        model: a module whose outputs for one example do not depend on the others (no BatchNorm).
        loss_fn: function of (outputs, y) that returns one loss per example, shape (B,).
        x: the examples, one per row.
        y: the labels, one per row.
        mechanism: what a step releases: `dp_sgd`, `dp_sgd_automatic`, `tsgd`, `tsgd_ptr` or `sgd`, with its settings.
        sampling: `Poisson`, `FixedSize` or `FullBatch`; its expected size is what the noisy sum is divided by.
        steps: number of steps in all, >= 1.
        optimizer: any torch optimizer of all trained parameters of the model.
        delta: the delta of the guarantees, in [0, 1].
        generator: source of samples and noise, on the CPU.
        micro_batch: at most so many examples at once in memory; None for all of a batch.
        trace_every: a point of the trace after every so many steps; None for 20 points.
        test: (x, y) on which the accuracy is measured at each point; treated as public.
        checkpoint: path of a file. It holds the state of the generators: as secret as the data.
        corrupt: stands for faulty workers that send other gradients, see `dpml.training.corruption`; for experiments.
            Its randomness is its own, so it goes with no checkpoint.
        augment: in each step, what the examples of a batch become before their gradients are taken: noisy, shifted,
            adversarial. Each row must follow from its own example, the present parameters and chance; then a clipped
            gradient still depends on one example, and the guarantee stands. It draws, if at all, from PyTorch's global
            generators, which the run seeds from `generator` and puts back. The model takes x as it is, too.
        group: processes of torch.distributed that all make this call and share each batch, see
            `dpml.training.shared`; None for this process alone. Layers that draw (dropout) draw alike in all of them.

    Raises:
        ValueError: for bad input, before any step: an argument out of its range, a model or a loss that cannot be
            trained per example, a DataLoader, a checkpoint of other settings or data.
        Interrupted: after Ctrl+C, between two steps; its ``run`` holds what was done.
        Diverged: if a loss, a gradient or a parameter is not finite; names the step, holds trace and what was spent.
        ConnectionError: if a process of the group was lost; the note of the error says what was spent.

    Source: Abadi et al., "Deep learning with differential privacy", CCS 2016, Algorithm 1, with the mechanism left
    open; the lecture, slide "DP-SGD".
    """
    given = dict(locals())
    if corrupt is not None and (checkpoint is not None or not callable(corrupt)):
        raise ValueError(f"corrupt must be a function, and None with a checkpoint, got {type(corrupt).__name__}")
    share = share_of(group)
    del given["corrupt"], given["group"]
    return Training(
        make=lambda: Worker(model, loss_fn, x, y, mechanism, sampling, generator, micro_batch, corrupt, augment, share),
        account=lambda counts: mechanism.guarantees(counts, sampling=sampling, n=len(x), delta=delta),
        share=share,
        **given,
    ).run()


@dataclass(eq=False)
class Training:
    """One run: its arguments, which it checks, its state, and what happens to it in a step.

    `make` gives the source of the vectors, after everything else was checked; `account` the guarantee after each number
    of steps in an increasing sequence; `settings` are what a checkpoint must have in common beside those of `train`.

    Raises:
        ValueError: as `train`.

    Source: `train`.
    """

    model: torch.nn.Module
    loss_fn: LossFunction
    x: Tensor
    y: Tensor
    _: KW_ONLY
    make: Callable[[], Source]
    account: Callable[[Sequence[int]], list[Guarantee]]
    mechanism: Mechanism
    sampling: Sampler
    steps: int
    optimizer: torch.optim.Optimizer
    delta: float
    generator: torch.Generator
    micro_batch: int | None
    trace_every: int | None
    test: tuple[Tensor, Tensor] | None
    checkpoint: str | Path | None
    augment: Augment | None = None
    share: Share = ALONE
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, Mechanism):
            arguments.refuse("mechanism", "one, such as dp_sgd(sigma=1.0, clip_norm=1.0)", self.mechanism)
        sampler("sampling", self.sampling)
        self.parameters = _checks.trained_parameters(self.model)
        self.device = _checks.one_device(self.parameters)
        arguments.function("loss_fn", self.loss_fn)
        _checks.examples(self.x, self.y)
        if isinstance(self.sampling, FixedSize) and self.sampling.m > len(self.x):
            raise ValueError(
                f"sampling must draw at most the {len(self.x)} examples that there are, got {self.sampling}"
            )
        arguments.real("expected_batch", self.sampling.expected(len(self.x)), 1e-16, 1e16)
        self.steps = arguments.integer("steps", self.steps, 1, 10**9)
        cpu_generator(self.generator)
        _checks.optimizer(self.optimizer, self.parameters)
        if self.micro_batch is not None:
            self.micro_batch = arguments.integer("micro_batch", self.micro_batch, 1)
        every = -(-self.steps // 20) if self.trace_every is None else self.trace_every
        self.every = arguments.integer("trace_every", every, 1)
        if self.test is not None:
            if not isinstance(self.test, tuple | list) or len(self.test) != 2:
                arguments.refuse("test", "None or a pair of tensors (x, y)", self.test)
            _checks.examples(*self.test, names=("test", "test"))
        self.path = _run_state.checkpoint_path(self.checkpoint)
        if self.augment is not None:
            arguments.function("augment", self.augment)
        self.done, self.updating = 0, False
        self.recorder = Recorder()
        self.last_norms = torch.empty(0, device=self.device)
        self.bad_step = torch.zeros((), dtype=torch.int64, device=self.device)
        self.looks_always = self.device.type == "cpu"
        self.guarantees: dict[int, Guarantee] = {}

    def run(self) -> Run:
        """All steps that are left, after what a few examples and the first batch show, and with the checkpoints."""
        with _run_state.kept_global_state(self.device):
            self._try()
            self._guarantees([*range(self.every, self.steps, self.every), self.steps])  # may refuse
            self._begin()
            return self._go_on()

    def _try(self) -> None:
        """Run the model on some of the examples: what it cannot take, or would mix, is refused."""
        ids, given = large_batch(self.sampling, len(self.x))[: self.micro_batch], (self.model, self.loss_fn)
        begin(*given, self.x, self.y, ids=ids, device=self.device, augment=self.augment)
        if self.test is not None:
            some_test = _checks.examples_tried(*given, *self.test, device=self.device, names="test")
            with _checks.evaluated(self.model), torch.no_grad():
                _checks.classified(self.model(some_test[0]), some_test[1], name="test")

    def _begin(self) -> None:
        """Make the source, or go on where the checkpoint ends; see that all processes are about to do the same."""
        alone = self.path is None and self.share.group is None
        self.common = {} if alone else self._in_common()
        loaded = None if self.path is None else _run_state.load(self.path, self.common)
        if loaded and loaded["done"] > self.steps:
            raise ValueError(f"steps must be at least the {loaded['done']} of the checkpoint, got {self.steps}")
        self.source = self.make()
        if loaded:
            try:
                self._restore(loaded)
            except Exception as error:
                raise ValueError(f"checkpoint must hold this model and optimizer, got {self.path}: {error}") from error
        if self.share.group is not None:
            self._agree()

    def _in_common(self) -> dict[str, Any]:
        """What a run that continues this one, or shares it, must have in common with it."""
        rates = [
            {key: value for key, value in group.items() if key != "params"} for group in self.optimizer.param_groups
        ]
        return {
            "mechanism": self.mechanism.name,
            **dict(self.mechanism.settings),
            "delta": self.delta,
            "sampling": repr(self.sampling),
            "optimizer": f"{type(self.optimizer).__name__} {rates}",
            "parameters": str({name: tuple(parameter.shape) for name, parameter in self.parameters.items()}),
            "device": self.device.type,
            "data": _run_state.fingerprint(self.x, self.y),
            **self.settings,
        }

    # ---- the steps ----

    def step(self) -> None:
        """Take a vector from the source, and update."""
        before = self.source.state()
        try:
            found = self.source.step()
            if self.looks_always and not bool(found.good):
                raise self._diverged(self.done + 1)
        except BaseException:
            self.source.restore(before)  # nothing was released, and the next try draws the same
            raise
        self.updating = True
        pieces = torch.split(found.gradient, [parameter.numel() for parameter in self.parameters.values()])
        for parameter, piece in zip(self.parameters.values(), pieces, strict=True):
            parameter.grad = piece.view_as(parameter).to(parameter.dtype)
        self.optimizer.step()
        self.done += 1
        self.updating = False
        self.last_norms = found.norms
        self.bad_step = torch.where(found.good | (self.bad_step > 0), self.bad_step, self.done)
        self.recorder.add(found.examples, found.log)

    def _go_on(self) -> Run:
        """The steps that are left, and the points of the trace."""
        quiet = self.share.rank > 0 or None
        bar = tqdm(total=self.steps, initial=self.done, disable=quiet, delay=0.5, desc="private steps")
        with bar, _run_state.deferred() as asked:
            try:
                while True:
                    due = self.done == self.steps or self.done % self.every == 0
                    if due and self.recorder.sums:
                        self._look()
                        self._point()
                        bar.set_postfix_str(f"epsilon {self.guarantees[self.done].epsilon:.4g}", refresh=False)
                    if self._stops(bool(asked), due):
                        raise KeyboardInterrupt
                    if self.done == self.steps:
                        return self._result(self.done)
                    self.step()
                    bar.update()
                    if self.done % CUDA_CHECK == 0:
                        self._look()
                    if self.done in (self.steps, *RETESTS):
                        self.source.test(self.done)
            except KeyboardInterrupt as error:
                if self.updating:
                    error.add_note(f"The model is half-way through step {self.done + 1}. {self._rest()}")
                    raise
                raise self._interrupted() from error
            except Diverged:
                raise
            except Exception as error:
                error.add_note(f"{self.done} private steps were done before this. {self._rest()}{self._kept()}")
                raise
            finally:
                for parameter in self.parameters.values():
                    parameter.grad = None

    def _stops(self, asked: bool, due: bool) -> bool:
        """Whether Ctrl+C was pressed; where processes share a run, in any of them: all stop after the same step."""
        if self.share.group is None:
            return asked
        together = self.looks_always or due or self.done % CUDA_CHECK == 0
        return together and self.share.any(asked, self.device)

    def _agree(self) -> None:
        """See that all processes are about to do the same."""
        state = self.source.state()["randomness"]
        facts = {"checkpoint": self.done, **self.common, "steps": self.steps, "trace_every": self.every}
        facts["model"] = _run_state.fingerprint(*self.parameters.values())
        facts["generator"] = _run_state.fingerprint(*(state[name] for name in sorted(state)))
        self.share.agree(facts)

    def _look(self) -> None:
        """Stop if something was not finite since the last look."""
        if int(self.bad_step) > 0:
            raise self._diverged(int(self.bad_step))

    def _point(self) -> None:
        if self.done == self.steps and not all(bool(p.isfinite().all()) for p in self.parameters.values()):
            raise self._diverged(self.done)
        self.recorder.close(self._so_far())
        self._save()

    def _so_far(self) -> dict[str, Any]:
        right = float("nan") if self.test is None else accuracy(self.model, self.test[0], y=self.test[1])
        return self.recorder.point(self.done, self.last_norms, right)

    def _guarantees(self, counts: Sequence[int]) -> list[Guarantee]:
        """The guarantee after each of these numbers of steps, computed once.

        Of many numbers `MOST_ACCOUNTED` are computed; the others get the guarantee of the next larger one, which holds
        for them too.
        """
        new = sorted({count for count in counts if count not in self.guarantees})
        if new:
            some = sorted({new[-1 - (i * len(new)) // MOST_ACCOUNTED] for i in range(MOST_ACCOUNTED)})
            found = self.account(some)
            self.guarantees |= {count: found[bisect.bisect_left(some, count)] for count in new}
        return [self.guarantees[count] for count in counts]

    def _rest(self) -> str:
        """What an unexpected error must not hide. A step that may have begun is counted as done."""
        return f"Spent, with the step that failed: {self._guarantees([self.done + 1])[0]}"

    def _kept(self) -> str:
        """What else is to be said: where the run can go on, unless the error cut an update in two, or a checkpoint."""
        if self.path is None or self.updating:
            return ""
        try:
            self._save()
        except Exception as error:
            return f" The checkpoint could not be written: {error}"
        return f" The same call goes on from there, with {self.path}."

    def _result(self, spent: int) -> Run:
        """The run so far, with a last point that a continuation would not keep; so many steps count as spent."""
        more = (self._so_far(),) if self.recorder.sums else ()
        points = [int(point["steps"]) for point in (*self.recorder.points, *more)]
        trace = self.recorder.trace(tuple(self._guarantees(points)), more)
        return Run(self.model, trace, self._guarantees([spent])[0], self.done)

    def _interrupted(self) -> Interrupted:
        run, more = self._result(self.done), self._kept()
        return Interrupted(f"Interrupted after step {self.done} of {self.steps}. Spent: {run.guarantee}{more}", run)

    def _diverged(self, step: int) -> Diverged:
        run = self._result(max(step, self.done))
        text = (
            f"A loss, a gradient or a parameter was not finite in step {step}; the model is as after step {self.done}. "
            f"Spent, with the step that failed: {run.guarantee} That training stopped is known too, and no epsilon "
            f"covers it. {'A smaller learning rate may help, or' if step > 1 else 'No update was made yet:'} look for "
            "examples whose loss or gradient is beyond the range of the floats."
        )
        return Diverged(text, run, step)

    # ---- the disk ----

    def _content(self) -> dict[str, Any]:
        return {
            "settings": self.common,
            "done": self.done,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "source": self.source.state(),
            "points": self.recorder.points,
            "sums": self.recorder.sums,
            "norms": self.last_norms,
        }

    def _save(self) -> None:
        if self.path is not None:
            _run_state.save(self.path, self._content())

    def _restore(self, content: dict[str, Any]) -> None:
        form = self._content() | {"points": [self.recorder.point(0, self.last_norms, 0.0)]}
        for name in form.keys() - {"settings", "model", "optimizer"}:
            if name not in content or not _run_state.fits(content[name], form[name]):
                raise ValueError(f"{name!r} in it is of another form than a run writes")
        self.model.load_state_dict(content["model"])
        _checks.one_device(self.parameters)
        self.optimizer.load_state_dict(content["optimizer"])
        _checks.optimizer(self.optimizer, self.parameters)
        self.source.restore(content["source"])
        self.done = content["done"]
        self.recorder = Recorder(content["points"], on(self.device, content["sums"]))
        self.last_norms = content["norms"].to(self.device)
