"""Explorers of chapter 05, DP-SGD.

Two of them show recorded runs of `experiments/dpsgd_fashion.py`: an MLP on the 10,000 shipped training images, Poisson
batches, momentum 0.9; accuracy on the 2,000 test images, mean and standard deviation over the seeds. The learning rate
was chosen on the private images, which no epsilon here covers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml.accounting import pld
from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Axis, Frame, Line, Mark, Points, Role, Text
from dpml.data import recorded

# First and second coordinates of ten gradients in the plane: much alike; one far larger than the others; a small group
# against a large one.
_CLOUDS = {
    "alike": [[1.6, 2.1, 1.2, 2.6, 0.9, 1.9, 2.4, 1.4, 0.7, 3.0], [0.9, 0.3, 1.4, 1.0, 0.5, 1.7, 0.1, 0.2, 1.1, 1.3]],
    "outlier": [
        [0.6, 0.5, 0.8, 0.4, 0.7, 0.3, 0.9, 0.5, 0.6, -3.6],
        [0.3, -0.2, 0.1, 0.5, -0.4, 0.2, 0.4, 0.6, -0.1, 2.2],
    ],
    "groups": [
        [0.8, 0.6, 0.9, 0.7, 0.5, 0.8, 0.6, -2.6, -3.0, -2.8],
        [0.5, 0.3, 0.2, 0.6, 0.4, 0.1, 0.7, 1.9, 1.2, 2.4],
    ],
}


def clipping() -> Explorer:
    """Ten gradients in the plane, clipped to a circle: how far one example reaches, and what happens to the mean.

    Each gradient outside the circle of radius C is pulled back to it along its own direction.
    """
    turn = np.linspace(0.0, 2 * np.pi, 73)
    clip_norms = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 4.5]

    def draw(clip_norm: float, cloud: str) -> Frame:
        gradients = np.array(_CLOUDS[cloud]).T
        norms = np.linalg.norm(gradients, axis=1)
        weights = _clip_weights(norms, clip_norm)
        clipped = weights[:, None] * gradients
        true, mean = gradients.mean(axis=0), clipped.mean(axis=0)
        shortened = int(np.sum(weights < 1))
        turned = _degrees(true, mean)
        direction = "keeps the direction of the mean" if turned < 0.5 else f"turns the mean by {turned:.0f}°"
        rays: list[Mark] = [
            Line([before[0], after[0]], [before[1], after[1]], "muted")
            for before, after in zip(gradients, clipped, strict=True)
        ]
        rows = [
            [f"{i + 1}", f"({g[0]:.1f}, {g[1]:.1f})", f"{norm:.3f}", f"{w:.3f}"]
            for i, (g, norm, w) in enumerate(zip(gradients, norms, weights, strict=True))
        ]
        many = f"{shortened} of 10 gradients {'is' if shortened == 1 else 'are'}" if shortened else "no gradient is"
        return Frame(
            title=f"At C = {clip_norm:.3g}, {many} shortened; clipping {direction}.",
            readout=f"Removing one example moves the sum by at most C = {clip_norm:.3g} (before clipping: "
            f"{norms.max():.2f}). The mean has length {np.hypot(*mean):.3f}, the true one {np.hypot(*true):.3f}.",
            marks=[
                Line(clip_norm * np.cos(turn), clip_norm * np.sin(turn), "guarantee"),
                *rays,
                Points(gradients[:, 0], gradients[:, 1], "muted"),
                Points(clipped[:, 0], clipped[:, 1], "D"),
                Line([0.0, true[0]], [0.0, true[1]], "source", Text("true mean, dash-dotted", -5.3, -2.3)),
                Line([0.0, mean[0]], [0.0, mean[1]], "D", Text("mean of the clipped, solid", -5.3, -2.8)),
            ],
            table=(["example", "gradient", "norm", "weight"], rows),
        )

    clouds = {"alike": "much alike", "outlier": "one outlier", "groups": "two groups"}
    return Explorer(
        "clipping-in-the-plane",
        draw,
        [
            Range("clip_norm", "C", clip_norms, 1.0),
            Switch("cloud", "Gradients", clouds, "groups", "How the ten gradients lie to each other."),
        ],
        x=Axis("first coordinate", -5.5, 5.5),
        y=Axis("second coordinate", -3.0, 3.0),
    )


def _clip_weights(norms: NDArray[np.float64], clip_norm: float) -> NDArray[np.float64]:
    import torch  # here, so that the other explorers do not wait for it

    from dpml.training import dpsgd

    return np.asarray(dpsgd.clip(torch.from_numpy(norms), clip_norm=clip_norm))


def _degrees(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    cosine = float(one @ other) / (math.hypot(*one) * math.hypot(*other))
    return math.degrees(math.acos(max(-1.0, min(1.0, cosine))))


def _rows(**wanted: Any) -> list[Any]:
    """The recorded runs with these fields."""
    rows = recorded("dpsgd_fashion")["rows"]
    return [row for row in rows if all(row[field] == value for field, value in wanted.items())]


@functools.cache
def _accuracy(**wanted: Any) -> tuple[float, float]:
    """Mean and standard deviation over the seeds, in percent."""
    found = [100 * row["accuracy"] for row in _rows(**wanted)]
    return float(np.mean(found)), float(np.std(found, ddof=1))


def noise_and_batch() -> Explorer:
    """Noise multiplier and batch size: what 200 steps of DP-SGD cost, and the accuracy that recorded runs reached.

    The accuracy lies on the straight line between the recorded noise multipliers.
    """
    sigmas, batches = (sorted({row[field] for row in _rows(part="sweep")}) for field in ("sigma", "batch"))
    runs = _rows(part="sweep", sigma=1.0, batch=250)
    n, steps = runs[0]["n"], runs[0]["steps"]
    grid = np.union1d(np.geomspace(0.5, 5.0, 25), sigmas)
    over = {50: 0.095, 250: 0.55, 1000: 2.5}  # heights of the labels at the right end, clear of every line
    beside = {50: 51.0, 250: 68.0, 1000: 81.5}

    @functools.cache
    def epsilon_of(sigma: float, batch: int) -> float:
        return pld.epsilon(q=batch / n, sigma=sigma, steps=steps, delta=1e-5).epsilon

    def measured(batch: int) -> list[tuple[float, float]]:
        return [_accuracy(part="sweep", sigma=sigma, batch=batch) for sigma in sigmas]

    def cost(batch: int, role: Role) -> Line:
        costs = [epsilon_of(float(sigma), batch) for sigma in grid]
        return Line(grid, costs, role, Text(f"B = {batch:,}", 4.9, over[batch]))

    def accuracy(batch: int, role: Role) -> Line:
        means = [mean for mean, _ in measured(batch)]
        return Line(sigmas, means, role, Text(f"B = {batch:,}", 4.9, beside[batch]))

    def draw(sigma: float, size: str) -> Frame:
        batch = int(size)
        epsilon = epsilon_of(sigma, batch)
        percent, spread = (_between(sigma, sigmas, column) for column in zip(*measured(batch), strict=True))
        others = [b for b in batches if b != batch]
        return Frame(
            title=f"σ = {sigma:.3g}, batches of B = {batch:,}: ε = {epsilon:.3g} after {steps} steps, "
            f"{percent:.1f} % accurate.",
            readout=f"q = {batch / n:g}, δ = 1e-5: ε at most {epsilon:.4g}. Accuracy {percent:.1f} ± "
            f"{spread:.1f} % over {len(runs)} seeds. Noise on the mean gradient: {sigma / batch:.3g} times C.",
            marks=[*(cost(b, "muted") for b in others), cost(batch, "guarantee"), Points([sigma], [epsilon], "D")],
            beside=[
                *(accuracy(b, "muted") for b in others),
                accuracy(batch, "measured"),
                Points([sigma], [percent], "D"),
            ],
        )

    return Explorer(
        "noise-and-batch",
        draw,
        [
            Range("sigma", "σ", sigmas, 1.0, scale="log"),
            Switch("size", "Batch", {str(b): str(b) for b in batches}, "250", "The expected size B of a batch."),
        ],
        x=Axis("noise multiplier σ", 0.5, 5.0, "log"),
        y=[Axis("ε at most", 0.03, 100.0, "log"), Axis("accuracy in %", 30.0, 85.0)],
        asked="both",
    )


def clipped_fraction() -> Explorer:
    """The clip norm against the share of gradients that are clipped during training, and the accuracy at the end.

    Recorded runs at epsilon 3 with learning rate times clip norm held constant.
    """
    clip_norms = [0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0]
    runs = _rows(part="clip", clip_norm=1.0)
    steps, rate = runs[0]["at_steps"], runs[0]["rate"]
    shares = [100 * np.mean([row["clipped"] for row in _rows(part="clip", clip_norm=c)], axis=0) for c in clip_norms]
    means, spreads = zip(*(_accuracy(part="clip", clip_norm=c) for c in clip_norms), strict=True)
    ends = {0.03: Text("C = 0.03", 175.0, 74.0), 30.0: Text("C = 30", 800.0, 15.0)}

    def draw(clip_norm: float) -> Frame:
        clipped = [_between(clip_norm, clip_norms, column) for column in zip(*shares, strict=True)]
        percent, spread = (_between(clip_norm, clip_norms, values) for values in (means, spreads))
        rows = [
            [f"{c:g}", f"{row[0]:.0f} %", f"{row[-1]:.0f} %", f"{mean:.1f} ± {sd:.1f} %"]
            for c, row, mean, sd in zip(clip_norms, shares, means, spreads, strict=True)
        ]
        return Frame(
            title=f"C = {clip_norm:.3g} clips {clipped[0]:.0f} % of the gradients at first, {clipped[-1]:.0f} % at the "
            f"end; {percent:.1f} % accurate.",
            readout=f"ε = 3 in every run. Learning rate {rate / clip_norm:.3g}: times C it is always "
            f"{rate:g}. Accuracy {percent:.1f} ± {spread:.1f} % over {len(runs)} seeds.",
            marks=[
                *(Line(steps, row, "muted", ends.get(c)) for c, row in zip(clip_norms, shares, strict=True)),
                Line(steps, clipped, "D", Text(f"C = {clip_norm:.3g}", 620.0, 90.0, anchor="start")),
            ],
            beside=[Line(clip_norms, means, "measured"), Points([clip_norm], [percent], "D")],
            table=(["C", "clipped at first", "clipped at the end", "accuracy"], rows),
        )

    return Explorer(
        "clipped-fraction",
        draw,
        [Range("clip_norm", "C", clip_norms, 1.0, scale="log")],
        x=[Axis("step", 0.0, 850.0), Axis("clip norm C", 0.03, 30.0, "log")],
        y=[Axis("clipped, % of gradients", 0.0, 105.0), Axis("accuracy in %", 75.0, 90.0)],
        asked="right",
    )


def _between(x: float, places: Sequence[float], values: Sequence[float] | NDArray[np.float64]) -> float:
    """The value at x on the straight line between recorded ones, over the logarithm of x."""
    return float(np.interp(math.log(x), np.log(places), values))
