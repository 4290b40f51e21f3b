"""The explorer of chapter 04 that shows the law of the privacy loss after T steps."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dpml.accounting import moments
from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Area, Axes, Axis, Frame, Line, Points, Rule, Text
from dpml.classroom.svg import power_of_ten
from dpml.explorers._by_hand import Q, composed_by_hand, delta_by_hand

__all__ = ["loss_distribution"]


def loss_distribution() -> Explorer:
    """The privacy loss after T steps: its density, epsilon, and delta as the weighted area beyond epsilon.

    The lower panel has delta as a function of epsilon: from the whole distribution, and from its moments alone.
    """
    axis = np.linspace(0.0, 3.0, 61)
    lams = np.arange(1, 65)
    alphas = np.array([moments.log_moment(float(v), q=Q, sigma=4.0) for v in lams])

    @cache
    def density(steps: int, direction: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        grid, mass = composed_by_hand(steps, direction=direction)
        x = np.linspace(-1.5, 3.0, 91)
        return x, np.maximum(np.interp(x, grid, mass / (grid[1] - grid[0])), 1e-9)

    @cache
    def delta_of(epsilon: float, steps: int, direction: str) -> float:
        return delta_by_hand(epsilon, steps=steps, direction=direction)

    @cache
    def profiles(steps: int, direction: str) -> tuple[list[float], list[float]]:
        tight = [delta_of(float(e), steps, direction) for e in axis]
        # What is below the axis is drawn below it: there the transform leaves only rounding errors.
        return [v if v > 1e-12 else 1e-14 for v in tight], [moments_delta(float(e), steps) for e in axis]

    def moments_delta(epsilon: float, steps: int) -> float:
        return float(min(1.0, np.exp(np.min(steps * alphas - lams * epsilon))))

    def draw(steps: int, epsilon: float, direction: str) -> Frame:
        x, p = density(steps, direction)
        tight, loose = profiles(steps, direction)
        delta = delta_of(epsilon, steps, direction)
        bound = moments_delta(epsilon, steps)
        tail = epsilon + (3.0 - epsilon) * np.linspace(0.0, 1.0, 41) ** 2
        height = np.interp(tail, x, p)
        excess = np.maximum(height * -np.expm1(epsilon - tail), 1e-9)
        told = f"weighs δ = {_scientific(delta)}" if delta > 1e-12 else "weighs less than 10⁻¹²"
        rows = [
            [f"{e:g}", _scientific(max(delta_of(e, steps, direction), 1e-12)), _scientific(moments_delta(e, steps))]
            for e in (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
        ]
        return Frame(
            title=(
                f"After {steps:,} steps the loss above ε = {epsilon:.3g} {told}; "
                f"its moments alone prove {_scientific(bound)}."
                if bound > 1e-12
                else f"After {steps:,} steps both curves are below 10⁻¹² at ε = {epsilon:.3g}."
            ),
            readout=(
                f"q = 0.01, σ = 4, T = {steps:,}, one record {'removed' if direction == 'remove' else 'added'}: at "
                f"ε = {epsilon:.3g} the distribution has δ ≈ {_scientific(max(delta, 1e-12))}, the tail bound is "
                f"{_scientific(bound)}"
            ),
            marks=[
                Line(x, p, "D", label="density of the loss", at=(-1.4, 12.0)),
                Area(tail, np.full(len(tail), 1e-9), excess, "D"),
                Line(tail, excess, "D"),
                Rule("guarantee", x=epsilon),
                Text(2.95, 12.0, "shaded: density × (1 − e^(ε − loss))", "D", anchor="end"),
                Line(axis, tight, "D", label="δ(ε), whole distribution", at=(0.06, 1e-10), panel=1),
                Line(axis, loose, "guarantee", label="δ(ε), from moments", at=(2.95, 0.05), anchor="end", panel=1),
                Rule("muted", y=1e-5, label="10⁻⁵", at=(2.95, 2e-5), anchor="end", panel=1),
                Rule("guarantee", x=epsilon, panel=1),
                Points([epsilon, epsilon], [max(delta, 1e-12), bound], "measured", panel=1),
            ],
            table=(["ε", "δ, whole distribution", "δ, moments"], rows),
        )

    powers = [(10.0**k, power_of_ten(k)) for k in (-8, -6, -4, -2, 0)]
    lower = [(10.0**k, power_of_ten(k)) for k in (-12, -9, -6, -3, 0)]
    return Explorer(
        "loss-distribution",
        draw=draw,
        controls=[
            Range("steps", "T", [100, 300, 1000, 2000, 5000, 10_000, 20_000, 40_000], 10_000, "{:,}", "log"),
            Range(
                "epsilon", "ε", [0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 0.95, 1.1, 1.26, 1.5, 1.75, 2.0, 2.5], 0.95, "{:.3g}"
            ),
            Switch("direction", "The record is", {"remove": "removed", "add": "added"}, "remove"),
        ],
        axes=[
            Axes(Axis("privacy loss", -1.5, 3.0), Axis("density", 1e-8, 50.0, "log", ticks=powers)),
            Axes(Axis("ε", 0.0, 3.0), Axis("δ", 1e-12, 1.0, "log", ticks=lower)),
        ],
    )


def _scientific(value: float) -> str:
    """Two digits, as a reader writes them: 5.2 · 10⁻⁶."""
    if value >= 0.01:
        return f"{value:.2g}"
    exponent = math.floor(math.log10(value)) if value > 0 else 0
    return f"{value / 10.0**exponent:.2g}·{power_of_ten(exponent)}" if value > 0 else "0"
