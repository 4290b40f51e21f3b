"""What a training run leaves behind: the model, what was seen on the way, and what it cost.

The trace is for the person who trains. Losses, norms and the fraction clipped are computed from the private data
without noise, so they are not covered by the epsilon beside them: publish the model, keep the trace. The accuracy is as
private as the model, if the test data are public.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from dpml.accounting.guarantee import Guarantee

__all__ = ["QUANTILES", "Diverged", "Interrupted", "Run", "Trace"]

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
"""Which quantiles of the norms a trace holds."""


@dataclass(frozen=True, repr=False)
class Trace:
    """A training run at its points, an array with one entry for each of them.

    Attributes:
        steps: number of steps done, increasing.
        examples: examples drawn since the point before.
        loss: mean loss of those examples, before each update; nan where none was drawn.
        clipped: fraction of those examples that got a weight below 1; nan where none was drawn.
        norms: shape (points, 5), the quantiles `QUANTILES` of the gradient norms of the last batch, before clipping;
            nan where that batch was empty.
        accuracy: fraction of the test examples that the model gets right; nan where no test data were given.
        guarantees: what holds for the model after these steps (in a trace of very many points: that of a later one).
        other: what the mechanism reports, by name: means over the steps since the point before.

    Source: definition.
    """

    steps: NDArray[np.int64]
    examples: NDArray[np.int64]
    loss: NDArray[np.float64]
    clipped: NDArray[np.float64]
    norms: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    guarantees: tuple[Guarantee, ...]
    other: dict[str, NDArray[np.float64]]

    def __repr__(self) -> str:
        if len(self.steps) == 0:
            return "Trace without a point"
        last = f"loss {self.loss[-1]:.4g}, accuracy {self.accuracy[-1]:.4g}, epsilon {self.epsilon[-1]:.4g}"
        return f"Trace of {len(self.steps)} points to step {self.steps[-1]}: {last}"

    @property
    def epsilon(self) -> NDArray[np.float64]:
        """The epsilon of each of the guarantees, which say at which delta and for which neighbours.

        Source: definition.
        """
        return np.array([guarantee.epsilon for guarantee in self.guarantees], dtype=np.float64)


class Run(NamedTuple):
    """The trained model (the same object that was handed in), its trace, the guarantee, and the steps it covers.

    Source: definition.
    """

    model: torch.nn.Module
    trace: Trace
    guarantee: Guarantee
    steps: int


class Interrupted(KeyboardInterrupt):
    """Training was interrupted between two steps. `run` holds all that was done; with a checkpoint it can go on.

    Source: definition.
    """

    def __init__(self, message: str, run: Run) -> None:
        super().__init__(message)
        self.run = run


class Diverged(ArithmeticError):  # noqa: N818
    """A loss, a gradient or a parameter was not finite in step `step`. `run` holds the trace and what was spent.

    Source: definition.
    """

    def __init__(self, message: str, run: Run, step: int) -> None:
        super().__init__(message)
        self.run = run
        self.step = step


@dataclass
class Recorder:
    """Sums since the last point, kept on the device, and the points so far, kept on the CPU."""

    points: list[dict[str, Any]] = field(default_factory=list)
    sums: dict[str, torch.Tensor | float] = field(default_factory=dict)

    def add(self, size: int, sums: dict[str, torch.Tensor | float]) -> None:
        """Count one step with a batch of `size`; nothing here waits for the device."""
        for name, value in {"examples": size, "steps": 1, **sums}.items():
            self.sums[name] = self.sums.get(name, 0) + value

    def point(self, step: int, norms: torch.Tensor, accuracy: float) -> dict[str, Any]:
        """The point after `step` steps: the sums as means, moved to the CPU. Does not reset them."""
        examples, steps = (int(self.sums.get(name, 0)) for name in ("examples", "steps"))
        norms = norms if len(norms) else norms.new_full((1,), float("nan"))
        quantiles = torch.quantile(norms, torch.tensor(QUANTILES).to(norms)).tolist()
        means = {}
        for name, value in self.sums.items():
            of = examples if name in ("loss", "clipped") else steps
            means[name] = float(value) / of if of else float("nan")
        return {**means, "steps": step, "examples": examples, "norms": quantiles, "accuracy": accuracy}

    def close(self, point: dict[str, Any]) -> None:
        """Keep `point` and begin again with empty sums."""
        self.points.append(point)
        self.sums = {}

    def trace(self, guarantees: tuple[Guarantee, ...], more: tuple[dict[str, Any], ...] = ()) -> Trace:
        """The points, and `more` at the end, as arrays."""
        points = [*self.points, *more]
        own = ("steps", "examples", "norms", "accuracy", "loss", "clipped")
        names = {name: None for point in points for name in point if name not in own}

        def column(name: str) -> NDArray[np.float64]:
            return np.array([point.get(name, float("nan")) for point in points], dtype=np.float64)

        return Trace(
            steps=column("steps").astype(np.int64),
            examples=column("examples").astype(np.int64),
            loss=column("loss"),
            clipped=column("clipped"),
            norms=np.array([point["norms"] for point in points], dtype=np.float64).reshape(-1, len(QUANTILES)),
            accuracy=column("accuracy"),
            guarantees=guarantees,
            other={name: column(name) for name in names},
        )
