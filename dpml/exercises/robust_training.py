r"""Checks of items 6 and 7 of chapter 11, which train a small network: the test that passes, and an attack.

.. math::

    \text{passed}: \quad \max\bigl(0,\ F - \#\{i : \|g_i\| > \tau R\}\bigr) + \text{Lap}(b) > b \log\frac{1}{2\delta_0}
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from dpml import data
from dpml.classroom import checks
from dpml.classroom.checks import Mistake
from dpml.classroom.verdict import NotYet, not_written, passed

__all__ = ["check_attack", "check_setting"]

_STEPS = 60


@functools.cache
def _images() -> Any:
    from dpml.training import models

    whole = data.fashion_mnist_subset()
    pairs = (whole.train_images, whole.train_labels), (whole.test_images, whole.test_labels)
    return [(models.to_tensors(x), models.to_labels(y)) for x, y in pairs]


def _train(labels: Any, *, clip_norm: float, trim: int | None, change: int = 0) -> tuple[float, float, float]:
    """Accuracy, pass rate and mean F of a short run; trim None: DP-SGD."""
    import torch
    from torch.nn import functional

    from dpml.training import dpsgd, models, tsgd
    from dpml.training.sampling import Poisson

    def losses(outputs: Any, y: Any) -> Any:
        return functional.cross_entropy(outputs, y, reduction="none")

    (x, _), test = _images()
    model = models.mlp(generator=torch.Generator().manual_seed(0), hidden=32)
    common: dict[str, Any] = {
        "sampling": Poisson(q=256 / len(x)),
        "clip_norm": clip_norm,
        "steps": _STEPS,
        "optimizer": torch.optim.SGD(model.parameters(), lr=2.0 / clip_norm),
        "delta": 1e-5,
        "generator": torch.Generator().manual_seed(1),
        "trace_every": _STEPS,
        "test": test,
    }
    if trim is None:
        run = dpsgd.dp_sgd(model, losses, x, labels, sigma=0.87, **common)
        return float(run.trace.accuracy[-1]), 0.0, 0.0
    ptr: dict[str, Any] = {"sigma": 1.1, "tau": 0.5, "scale": 1.0, "delta0": 1e-8}
    run = tsgd.tsgd_ptr(model, losses, x, labels, **ptr, trim=trim, change=change, **common)
    seen = run.trace.other
    return float(run.trace.accuracy[-1]), float(seen["passed"][-1]), float(seen["trim"][-1])


def check_setting(answer: Any) -> None:
    """A clip norm and an F for which most tests pass, without throwing most of the batch away."""
    if answer is ...:
        not_written("setting")
    if not isinstance(answer, dict) or set(answer) != {"clip_norm", "trim"}:
        raise NotYet('setting must be a dictionary with the keys "clip_norm" and "trim".')
    clip_norm, trim = answer["clip_norm"], answer["trim"]
    whole = isinstance(trim, int | np.integer) and not isinstance(trim, bool)
    if not whole or not 0 <= trim <= 128:
        raise NotYet("trim must be a whole number from 0 to 128: at least half of the expected batch is kept.")
    if isinstance(clip_norm, bool) or not isinstance(clip_norm, int | float | np.number):
        raise NotYet("clip_norm must be a number.")
    if not 0 < float(clip_norm) < 1e6:
        raise NotYet("clip_norm must be a number above 0 and below 1,000,000.")
    accuracy, share, _ = _train(_images()[0][1], clip_norm=float(clip_norm), trim=int(trim))
    if trim < 18:
        raise NotYet(
            f"{share:.0%} of the tests passed. With F = {trim} the margin is at most {trim}: compare with 17.7."
        )
    if share <= 0.5:
        raise NotYet(
            f"{share:.0%} of the tests passed. Too many gradients are longer than half the clip norm: raise it, or F."
        )
    if accuracy < 0.5:
        raise NotYet(
            f"{share:.0%} of the tests passed, but the model has {accuracy:.0%} accuracy: noise for so large a clip "
            "norm drowns the gradients. Lower it."
        )
    passed("setting", f"{share:.0%} of {_STEPS} tests passed, accuracy {accuracy:.0%}")


def check_attack(answer: Any) -> None:
    """Labels of which at most a fifth are changed, and that cost DP-SGD at least ten points."""

    def read(value: Any) -> Any:
        labels = np.asarray(value)
        if labels.shape != (10_000,) or not np.issubdtype(labels.dtype, np.integer):
            raise ValueError(f"give 10,000 whole numbers, not {labels.dtype} of shape {labels.shape}.")
        if labels.min() < 0 or labels.max() > 9:
            raise ValueError("labels are from 0 to 9.")
        return labels

    def changed(value: Any) -> int:
        return int((read(value) != _images()[0][1].numpy()).sum())

    @functools.cache
    def drop(key: bytes) -> float:
        import torch

        (_, y), _ = _images()
        labels = torch.from_numpy(np.frombuffer(key, dtype=np.int64).copy())
        return 100 * (_clean_accuracy() - _train(labels.to(y.dtype), clip_norm=1.0, trim=None)[0])

    def points(value: Any) -> float:
        return drop(read(value).astype(np.int64).tobytes())

    def test(value: Any) -> str | None:
        if changed(value) > 2000:
            return f"{changed(value):,} labels are changed, more than 2,000."
        lost = points(value)
        return (
            None
            if lost >= 10.0
            else (
                f"DP-SGD loses {lost:.1f} points on it, which the claim allows. Concentrate the changes on few "
                "classes, each renamed as a whole."
            )
        )

    checks.counterexample(
        answer,
        test=test,
        name="attack",
        mistakes=[
            Mistake(lambda value: changed(value) == 0, "changes no label."),
            Mistake(
                lambda value: 0 < changed(value) <= 2000 and _spread(read(value)),
                "spreads its changes over all classes: wrong votes that point everywhere cancel. Let them agree.",
            ),
        ],
        shows=lambda value: f"{changed(value):,} wrong labels cost DP-SGD {points(value):.0f} points",
    )


@functools.cache
def _clean_accuracy() -> float:
    return _train(_images()[0][1], clip_norm=1.0, trim=None)[0]


def _spread(labels: Any) -> bool:
    """Whether the changes come from most classes and lead to most classes."""
    true = _images()[0][1].numpy()
    wrong = labels != true
    return min(len(np.unique(true[wrong])), len(np.unique(labels[wrong]))) > 5
