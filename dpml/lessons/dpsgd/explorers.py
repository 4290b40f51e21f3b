"""Explorers of chapter 05, DP-SGD."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml.accounting import pld
from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Axes, Axis, Frame, Line, Mark, Points, Role
from dpml.data import recorded

_CLOUDS: dict[str, NDArray[np.float64]] = {
    # Ten gradients in the plane: much alike; one far larger than the others; a small group against a large one.
    "alike": np.array(
        [
            (1.6, 0.9),
            (2.1, 0.3),
            (1.2, 1.4),
            (2.6, 1.0),
            (0.9, 0.5),
            (1.9, 1.7),
            (2.4, 0.1),
            (1.4, 0.2),
            (0.7, 1.1),
            (3.0, 1.3),
        ]
    ),
    "outlier": np.array(
        [
            (0.6, 0.3),
            (0.5, -0.2),
            (0.8, 0.1),
            (0.4, 0.5),
            (0.7, -0.4),
            (0.3, 0.2),
            (0.9, 0.4),
            (0.5, 0.6),
            (0.6, -0.1),
            (-3.6, 2.2),
        ]
    ),
    "groups": np.array(
        [
            (0.8, 0.5),
            (0.6, 0.3),
            (0.9, 0.2),
            (0.7, 0.6),
            (0.5, 0.4),
            (0.8, 0.1),
            (0.6, 0.7),
            (-2.6, 1.9),
            (-3.0, 1.2),
            (-2.8, 2.4),
        ]
    ),
}


def clipping() -> Explorer:
    """Ten gradients in the plane, clipped to a circle: how far one example reaches, and what happens to the mean.

    Each gradient outside the circle of radius C is pulled back to it along its own direction.
    """
    turn = np.linspace(0.0, 2 * np.pi, 73)

    def draw(clip_norm: float, cloud: str) -> Frame:
        gradients = _CLOUDS[cloud]
        weights = _clip_weights(np.linalg.norm(gradients, axis=1), clip_norm)
        clipped = weights[:, None] * gradients
        true, mean = gradients.mean(axis=0), clipped.mean(axis=0)
        shortened = int(np.sum(weights < 1))
        turned = _degrees(true, mean)
        direction = "keeps the direction of the mean" if turned < 0.5 else f"turns the mean by {turned:.0f}°"
        rays: list[Mark] = [
            Line([before[0], after[0]], [before[1], after[1]], "muted")
            for before, after in zip(gradients, clipped, strict=True)
        ]
        marks: list[Mark] = [
            Line(clip_norm * np.cos(turn), clip_norm * np.sin(turn), "guarantee"),
            *rays,
            Points(gradients[:, 0], gradients[:, 1], "muted"),
            Points(clipped[:, 0], clipped[:, 1], "D"),
            Line([0.0, true[0]], [0.0, true[1]], "source", label="true mean, dash-dotted", at=(-5.3, -2.3)),
            Line([0.0, mean[0]], [0.0, mean[1]], "D", label="mean of the clipped, solid", at=(-5.3, -2.8)),
        ]
        rows = [
            [f"{i + 1}", f"({g[0]:.1f}, {g[1]:.1f})", f"{np.hypot(*g):.3f}", f"{w:.3f}"]
            for i, (g, w) in enumerate(zip(gradients, weights, strict=True))
        ]
        many = (
            "no gradient is" if shortened == 0 else f"{shortened} of 10 gradients {'is' if shortened == 1 else 'are'}"
        )
        return Frame(
            title=f"At C = {clip_norm:.3g}, {many} shortened; clipping {direction}.",
            marks=marks,
            readout=(
                f"Removing one example moves the sum by at most C = {clip_norm:.3g} (before clipping: "
                f"{np.linalg.norm(gradients, axis=1).max():.2f}). The mean has length {np.hypot(*mean):.3f}, the "
                f"true one {np.hypot(*true):.3f}."
            ),
            table=(["example", "gradient", "norm", "weight"], rows),
        )

    return Explorer(
        "clipping-in-the-plane",
        draw=draw,
        controls=[
            Range("clip_norm", "C", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 4.5], 1.0),
            Switch(
                "cloud",
                "Gradients",
                {"alike": "much alike", "outlier": "one outlier", "groups": "two groups"},
                "groups",
            ),
        ],
        axes=[Axes(Axis("first coordinate", -5.5, 5.5), Axis("second coordinate", -3.0, 3.0))],
    )


def noise_and_batch() -> Explorer:
    """Noise multiplier and batch size: what 200 steps of DP-SGD cost, and the accuracy that recorded runs reached.

    The batches are Poisson samples of the 10,000 images that come with the course; the accuracy lies on the straight
    line between the recorded noise multipliers.
    """
    runs = _runs("sweep", "sigma", "batch")
    sigmas, batches = (sorted(set(places)) for places in zip(*runs, strict=True))
    some = runs[sigmas[0], batches[0]]
    n, steps = some[0]["n"], some[0]["steps"]
    grid = np.geomspace(0.5, 5.0, 25)

    over = {50: 0.095, 250: 0.55, 1000: 2.5}  # heights of the labels at the right end, clear of every line
    beside = {50: 51.0, 250: 68.0, 1000: 81.5}

    @functools.cache
    def spent(sigma: float, batch: int) -> float:
        return pld.epsilon(q=batch / n, sigma=sigma, steps=steps, delta=1e-5).epsilon

    @functools.cache
    def curve(batch: int) -> tuple[float, ...]:
        return tuple(spent(float(sigma), batch) for sigma in grid)

    @functools.cache
    def accuracy(sigma: float, batch: int) -> tuple[float, float]:
        means, spreads = zip(*(_accuracy(runs[s, batch]) for s in sigmas), strict=True)
        return _between(sigma, sigmas, means), _between(sigma, sigmas, spreads)

    def draw(sigma: float, size: str) -> Frame:
        batch = int(size)
        epsilon, (percent, spread) = spent(sigma, batch), accuracy(sigma, batch)
        others = [b for b in batches if b != batch]
        lines = {b: [accuracy(s, b)[0] for s in sigmas] for b in batches}
        rows = [[f"{s:g}", *(f"{spent(s, b):.3g} / {accuracy(s, b)[0]:.1f} %" for b in batches)] for s in sigmas]
        return Frame(
            title=(
                f"σ = {sigma:.3g}, batches of B = {batch:,}: ε = {epsilon:.3g} after {steps} steps, "
                f"{percent:.1f} % accurate."
            ),
            marks=[
                *(_labelled(grid, curve(b), "muted", b, over[b]) for b in others),
                _labelled(grid, curve(batch), "guarantee", batch, over[batch]),
                Points([sigma], [epsilon], "D"),
                *(_labelled(sigmas, lines[b], "muted", b, beside[b], panel=1) for b in others),
                _labelled(sigmas, lines[batch], "measured", batch, beside[batch], panel=1),
                Points([sigma], [percent], "D", panel=1),
            ],
            readout=(
                f"q = {batch / n:g}, δ = 1e-5: ε at most {epsilon:.4g}. Accuracy {percent:.1f} ± "
                f"{spread:.1f} % over {len(some)} seeds. Noise on the mean gradient: {sigma / batch:.3g} times C."
            ),
            table=(["σ", *(f"batches of {b}: ε / accuracy" for b in batches)], rows),
        )

    return Explorer(
        "noise-and-batch",
        draw=draw,
        controls=[
            Range("sigma", "σ", sigmas, 1.0, scale="log"),
            Switch("size", "Batch", {str(b): str(b) for b in batches}, "250"),
        ],
        axes=[
            Axes(Axis("noise multiplier σ", 0.5, 5.0, "log"), Axis("ε at most", 0.03, 100.0, "log")),
            Axes(Axis("noise multiplier σ", 0.5, 5.0, "log"), Axis("accuracy in %", 30.0, 85.0)),
        ],
    )


def clipped_fraction() -> Explorer:
    """The clip norm against the share of gradients that are clipped during training, and the accuracy at the end.

    Recorded runs at epsilon 3 with learning rate times clip norm held constant.
    """
    runs = dict(sorted((clip_norm, rows) for (clip_norm,), rows in _runs("clip", "clip_norm").items()))
    some = next(iter(runs.values()))
    steps, scaled_rate = some[0]["at_steps"], some[0]["rate"] * some[0]["clip_norm"]
    clip_norms, means, spreads = [*runs], *zip(*map(_accuracy, runs.values()), strict=True)
    shares = 100 * np.array([np.mean([row["clipped"] for row in rows], axis=0) for rows in runs.values()])

    def draw(clip_norm: float) -> Frame:
        clipped = [_between(clip_norm, clip_norms, column) for column in shares.T]
        percent, spread = (_between(clip_norm, clip_norms, values) for values in (means, spreads))
        rows = [
            [f"{c:g}", f"{row[0]:.0f} %", f"{row[-1]:.0f} %", f"{mean:.1f} ± {sd:.1f} %"]
            for c, row, mean, sd in zip(clip_norms, shares, means, spreads, strict=True)
        ]
        return Frame(
            title=(
                f"C = {clip_norm:.3g} clips {clipped[0]:.0f} % of the gradients at first, {clipped[-1]:.0f} % at the "
                f"end; {percent:.1f} % accurate."
            ),
            marks=[
                *(Line(steps, row, "muted") for row in shares),
                Line(steps, clipped, "D", label=f"C = {clip_norm:.3g}", at=(620.0, 90.0)),
                Line(clip_norms, means, "measured", panel=1),
                Points([clip_norm], [percent], "D", panel=1),
            ],
            readout=(
                f"ε = 3 in every run. Learning rate {scaled_rate / clip_norm:.3g}: times C it is always "
                f"{scaled_rate:g}. Accuracy {percent:.1f} ± {spread:.1f} % over {len(some)} seeds."
            ),
            table=(["C", "clipped at first", "clipped at the end", "accuracy"], rows),
        )

    return Explorer(
        "clipped-fraction",
        draw=draw,
        controls=[Range("clip_norm", "C", clip_norms, 1.0, scale="log")],
        axes=[
            Axes(Axis("step", 0.0, 850.0), Axis("clipped, % of gradients", 0.0, 105.0)),
            Axes(Axis("clip norm C", 0.03, 30.0, "log"), Axis("accuracy in %", 75.0, 90.0)),
        ],
    )


def _clip_weights(norms: NDArray[np.float64], clip_norm: float) -> NDArray[np.float64]:
    import torch  # here, so that the other explorers do not wait for it

    from dpml.training import dpsgd

    found: Any = dpsgd.clip(torch.from_numpy(norms), clip_norm=clip_norm)
    values: NDArray[np.float64] = found.numpy()
    return values


def _degrees(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    cosine = float(one @ other) / (math.hypot(*one) * math.hypot(*other))
    return math.degrees(math.acos(max(-1.0, min(1.0, cosine))))


def _runs(part: str, *fields: str) -> dict[tuple[float, ...], list[dict[str, Any]]]:
    """The recorded runs of a part by their values of some fields; under each, one run a seed."""
    found: dict[tuple[float, ...], list[dict[str, Any]]] = {}
    for row in recorded("dpsgd_fashion")["rows"]:
        if row["part"] == part:
            found.setdefault(tuple(row[field] for field in fields), []).append(row)
    return found


def _accuracy(rows: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """Mean and standard deviation of the accuracies at the end, in %."""
    percent = [100 * row["accuracy"] for row in rows]
    return float(np.mean(percent)), float(np.std(percent, ddof=1))


def _labelled(
    x: Sequence[float] | NDArray[np.float64], y: Sequence[float], role: Role, batch: int, height: float, panel: int = 0
) -> Line:
    return Line(x, y, role, label=f"B = {batch:,}", at=(4.9, height), anchor="end", panel=panel)


def _between(x: float, places: Sequence[float], values: Sequence[float] | NDArray[np.float64]) -> float:
    """The value at x on the straight line between recorded ones, over the logarithm of x."""
    return float(np.interp(math.log(x), np.log(places), values))
