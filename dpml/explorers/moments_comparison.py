"""The explorer of chapter 04 that redraws the lecture's comparison of accountants."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from dpml.accounting import amplification, composition, moments, pld, rdp
from dpml.accounting.guarantee import Bounds
from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Axes, Axis, Frame, Line, Points, Rule
from dpml.explorers._by_hand import DELTA, Q, delta_by_hand
from dpml.mechanisms import gaussian_sigma_classic_formula
from dpml.numerics import crossing

__all__ = ["honest_figure"]


def honest_figure() -> Explorer:
    """The lecture's comparison, computed: what each theorem gives over T at q = 0.01, sigma = 4, delta = 1e-5.

    Three sets of curves: the two that the slide compares, all bounds for one added or removed record, and what holds
    for samples of fixed size and one replaced record.
    """
    sigma = 4.0
    grid = np.array([10, 30, 100, 300, 1000, 2000, 4000, 10_000, 20_000, 40_000])
    few = [100, 1000, 10_000, 40_000]
    parts = np.linspace(0.02, 0.98, 49)

    def advanced(steps: int, amplified: Callable[[float], float]) -> float:
        """Classic Gaussian epsilon of a step, amplified, composed; the best split of delta of those in `parts`."""
        best = math.inf
        for part in parts:
            delta_step = float(part) * DELTA / (steps * Q)
            base = gaussian_sigma_classic_formula(epsilon=1.0, delta=delta_step) / sigma
            whole = composition.advanced(
                epsilon=amplified(base), delta=Q * delta_step, k=steps, delta_prime=DELTA * (1 - float(part))
            )
            best = min(best, whole.epsilon)
        return best

    def slide(base: float) -> float:
        return amplification.lecture_bound(epsilon=base, q=Q)

    def tight_sampling(base: float) -> float:
        return amplification.amplify(epsilon=base, q=Q)

    def heuristic(base: float) -> float:
        return Q * base

    @cache
    def at(steps: int) -> dict[str, float]:
        """What does not need the loss distribution, at one T."""
        return {
            "slide": advanced(steps, slide),
            "tight": advanced(steps, tight_sampling),
            "heuristic": advanced(steps, heuristic),
            "moments": moments.epsilon(q=Q, sigma=sigma, steps=steps, delta=DELTA).epsilon,
            "renyi": rdp.epsilon(q=Q, sigma=sigma, steps=steps, delta=DELTA).epsilon,
        }

    @cache
    def exact(steps: int) -> float:
        return pld.epsilon(q=Q, sigma=sigma, steps=steps, delta=DELTA).epsilon

    @cache
    def fixed(steps: int) -> Bounds:
        return pld.fixed_size_epsilon_bounds(q=Q, sigma=sigma, steps=steps, delta=DELTA)

    @cache
    def real_pair(steps: int) -> float:
        """epsilon of one pair of datasets under replace-one."""

        def excess(epsilon: float) -> float:
            return delta_by_hand(epsilon, steps=steps, direction="replace") - DELTA

        return crossing(excess, low=0.0, high=7.0)

    def curve(name: str) -> list[float]:
        return [at(int(v))[name] for v in grid]

    def draw(steps: int, shown: str) -> Frame:
        here = at(steps)
        lecture, every, replaced = shown == "lecture", shown == "all", shown == "replace-one"

        def only(when: bool, values: list[float]) -> tuple[list[float], list[float]]:
            return ([float(v) for v in grid], values) if when else ([], [])

        if lecture:
            title = (
                f"T = {steps:,}: the lecture's advanced composition gives ε = {here['slide']:.3g}, its moments "
                f"accountant {here['moments']:.3g}. The published upper curve fits ε = q ε₀ only: "
                f"{here['heuristic']:.3g}."
            )
        elif every:
            title = (
                f"T = {steps:,}: moments accountant {here['moments']:.3g}, Rényi with the new conversion "
                f"{here['renyi']:.3g}; the truth is {exact(steps):.3g}."
            )
        else:
            title = (
                f"T = {steps:,}: a replaced record has ε up to {fixed(steps).upper:.3g}, and some pair really has "
                f"{real_pair(steps):.3g}; {exact(steps):.3g} is for an added or removed one."
            )
        rows = [
            [f"{v:,}"]
            + [f"{at(v)[name]:.4g}" for name in ("slide", "tight", "heuristic", "moments", "renyi")]
            + [f"{exact(v):.4g}", f"{fixed(v).upper:.4g}"]
            for v in few
        ]
        dots = {
            "lecture": [here["slide"], here["heuristic"], here["moments"]],
            "all": [here["slide"], here["tight"], here["moments"], here["renyi"], exact(steps)],
            "replace-one": [exact(steps), real_pair(steps), fixed(steps).upper],
        }[shown]
        slow = [float(v) for v in grid], [exact(int(v)) for v in grid]
        upper = [fixed(int(v)).upper for v in grid] if replaced else []
        pair = [real_pair(int(v)) for v in grid] if replaced else []
        return Frame(
            title=title,
            readout=(
                f"q = 0.01, σ = 4, δ = 10⁻⁵, T = {steps:,}. Add/remove: slide {here['slide']:.4g}"
                f", tight amplification {here['tight']:.4g}, moments {here['moments']:.5g}, Rényi {here['renyi']:.5g}, "
                f"loss distribution {exact(steps):.5g}. Replace-one: {fixed(steps).upper:.5g}"
            ),
            marks=[
                Rule("muted", x=float(steps)),
                Line(
                    *only(lecture or every, curve("slide")),
                    "source",
                    _if(lecture or every, "advanced, slide's amplification"),
                    (11.0, 300.0),
                ),
                Line(*only(lecture, curve("heuristic")), "D'", _if(lecture, "with ε = q ε₀, no theorem"), (11.0, 0.09)),
                Line(*only(every, curve("tight")), "muted", _if(every, "advanced, tight amplification"), (11.0, 130.0)),
                Line(
                    *only(lecture or every, curve("moments")),
                    "guarantee",
                    _if(lecture or every, "moments accountant"),
                    (250.0, 0.2) if lecture else (11.0, 0.2),
                ),
                Line(*only(every, curve("renyi")), "D'", _if(every, "Rényi, new conversion"), (600.0, 0.055)),
                Line(
                    *(slow if every or replaced else ([], [])),
                    "D",
                    _if(every or replaced, "exact, add/remove"),
                    (11.0, 0.0145),
                ),
                Line(
                    *only(replaced, upper),
                    "guarantee",
                    _if(replaced, "guarantee, replace-one, fixed size"),
                    (11.0, 8.0),
                ),
                Line(*only(replaced, pair), "measured", _if(replaced, "a real pair, replace-one"), (600.0, 0.055)),
                Points([float(steps)] * len(dots), dots, "measured"),
            ],
            table=(
                ["T", "slide", "tight amplification", "ε = q ε₀", "moments", "Rényi", "exact", "replace-one"],
                rows,
            ),
        )

    return Explorer(
        "honest-figure",
        draw=draw,
        controls=[
            Range("steps", "T", grid.tolist(), 10_000, "{:,}", "log"),
            Switch(
                "shown",
                "Curves",
                {"lecture": "the lecture's two", "all": "all, add/remove", "replace-one": "replace-one"},
                "lecture",
            ),
        ],
        axes=Axes(Axis("steps T", 10.0, 4e4, "log"), Axis("ε at δ = 10⁻⁵", 0.01, 500.0, "log")),
    )


def _if(shown: bool, label: str) -> str:
    return label if shown else ""
