"""Explorers of chapter 07, Privacy by stability."""

from __future__ import annotations

import math

import numpy as np

from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Area, Axis, Frame, Line, Points, Rule, Text
from dpml.classroom.svg import power_of_ten, scientific
from dpml.pate.m_samp import overuse_probability, sampling_plan, sampling_plan_chernoff
from dpml.pate.m_stab import fail_probability, release_probability, stability_threshold


def release_curve() -> Explorer:
    """How likely M_stab releases the answer A, over all datasets in a row, and what two neighbours differ in.

    The datasets are those of a vote between A and B. At x >= 0 the answer is A and x votes may change without changing
    it; at x < 0 it is B, with -x - 1 votes to spare. D stands at x, its neighbour D' at x - 1.
    """
    low, floor = -5, 1e-14
    places = np.arange(low, 31)
    slacks = {"0.01": "δ = 0.01", "1e-5": "δ = 10⁻⁵", "1e-8": "δ = 10⁻⁸"}

    def chance(x: int, *, epsilon: float, delta: float) -> float:
        """Of the output A at place x; beyond the border A is impossible."""
        return float(release_probability(x, epsilon=epsilon, delta=delta)) if x >= 0 else 0.0

    def failure(x: int, *, epsilon: float, delta: float) -> float:
        return float(fail_probability(x if x >= 0 else -x - 1, epsilon=epsilon, delta=delta))

    def draw(epsilon: float, x: int, slack: str) -> Frame:
        delta = float(slack)
        of = {"epsilon": epsilon, "delta": delta}
        inside = places[places >= 0]
        released = np.array([chance(int(v), **of) for v in inside])
        loss = np.array([math.log(chance(int(v), **of) / chance(int(v) - 1, **of)) for v in inside[1:]])
        failing = np.array([abs(math.log(failure(int(v), **of) / failure(int(v) - 1, **of))) for v in inside])
        threshold = stability_threshold(**of)
        place = min(threshold, 30.9)
        placed = "T" if threshold < 30.9 else f"T = {threshold:.3g}, to the right"
        here, there = chance(x, **of), chance(x - 1, **of)
        exact = f"the exact answer comes with probability {scientific(here, 3)}"
        title = f"Distance {x}: {exact}; the neighbour's with {scientific(there, 3)}."
        if x == 0:
            title = f"At the border D gives A with probability δ/2 = {scientific(here)}, D′ never: the price beyond ε."
        ratio = "no bound: A is impossible under D′" if x == 0 else f"log-ratio {scientific(math.log(here / there), 4)}"
        return Frame(
            title=title,
            readout=f"ε = {epsilon:g}, {slacks[slack]}, T = {threshold:.4g}: D at distance {x} releases A with "
            f"probability {scientific(here, 4)}, D′ with {scientific(there, 4)} ({ratio}), D fails with probability "
            f"{scientific(failure(x, **of), 4)}",
            marks=[
                Area([-1.0, 0.0], [floor, floor], [delta / 2, delta / 2], "D"),
                Rule("guarantee", y=delta / 2, label=Text("δ/2", -4.8, delta / 2 * 2.2)),
                Rule("muted", x=place, label=Text(placed, place - 0.4, 2.4, anchor="end")),
                Text("f = B", -1.3, 3e-13, anchor="end"),
                Text("f = A", 0.6, 3e-13),
                Line(inside, released, "D"),
                Points([x], [here], "D", Text("D", x - 0.5, min(here * 4, 3.0), anchor="end")),
                Points([x - 1], [max(there, 2 * floor)], "D'"),
                Line([x - 1, x - 1], [floor, max(there, 2 * floor)], "D'"),
                Text("D′" if there > 0 else "D′: 0", x - 0.6, 1.2e-11 if x > 1 else 2.5e-10, "D'", anchor="start"),
            ],
            beside=[
                Rule("guarantee", y=epsilon, label=Text("ε", -4.8, epsilon + 0.08)),
                Line(inside[1:], loss, "D", Text("loss of A", 1.5, epsilon + 0.08)),
                Line(inside, failing, "muted", Text("loss of “fail”", 30.5, epsilon + 0.08)),
                Points([0.0], [4.25], "D", Text("at the border: no bound", 0.8, 4.15)),
                Points([x], [loss[x - 1] if x else 4.25], "measured"),
            ],
        )

    distances = [0, 1, 2, 3, 4, 5, 7, 9, 11, 12, 15, 18, 20, 25, 30]
    return Explorer(
        "release-curve",
        draw,
        [
            Range("epsilon", "ε", [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0], 1.0, scale="log"),
            Range("x", "distance of D", distances, 1, "How many votes may change while the answer stays.", "{:d}"),
            Switch("slack", "δ", slacks, "1e-5", "The probability that may lie beyond ε."),
        ],
        x=Axis("datasets in a row: steps from the border", low, 31, ticks=(0, 5, 10, 15, 20, 25, 30)),
        y=[
            Axis("P(release the answer A)", floor, 10.0, "log", ticks=(1, 1e-3, 1e-6, 1e-9, 1e-12)),
            Axis("privacy loss between D and D′", 0.0, 4.6),
        ],
    )


def models_needed() -> Explorer:
    """How many models M_samp trains, and on how many records each, by Hoeffding's bound and by Chernoff's."""
    grid = np.geomspace(0.1, 10.0, 31)

    def draw(epsilon: float, delta: float, records: str) -> Frame:
        n = int(records)
        plan = sampling_plan(epsilon=epsilon, delta=delta, n=n)
        cheap = sampling_plan_chernoff(epsilon=epsilon, delta=delta, n=n)
        plans = [sampling_plan(epsilon=float(e), delta=delta, n=n) for e in grid]
        cheaper = [sampling_plan_chernoff(epsilon=float(e), delta=delta, n=n) for e in grid]
        size = plan.q * n
        small = power_of_ten(round(math.log10(delta)))
        wasted = overuse_probability(n=n, q=cheap.q, n_models=cheap.n_models)
        return Frame(
            title=f"ε = {epsilon:.3g}, δ = {small}: {plan.n_models:,} models, each on some {size:,.0f} records.",
            readout=f"q = {plan.q:.4g}; models by Hoeffding {plan.n_models:,}, by Chernoff {cheap.n_models:,} "
            f"(some record is then in too many parts with probability at most {scientific(wasted)})",
            marks=[
                Line(grid, [p.n_models for p in plans], "source", Text("Hoeffding", 0.115, 1.5e9)),
                Line(grid, [p.n_models for p in cheaper], "guarantee", Text("Chernoff", 0.115, 6e3)),
                Rule("muted", y=250.0, label=Text("250 teachers, as in PATE", 0.115, 45.0)),
                Rule("muted", x=epsilon),
                Points([epsilon], [plan.n_models], "source"),
                Points([epsilon], [cheap.n_models], "measured"),
            ],
            beside=[
                Line(grid, [p.q * n for p in plans], "D"),
                Rule("muted", y=float(n), label=Text("all records", 0.115, n * 1.5)),
                Rule("muted", x=epsilon),
                Points([epsilon], [size], "D"),
            ],
        )

    epsilons = [0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0]
    deltas = [1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3]
    sizes = {"10000": "n = 10,000", "100000": "n = 100,000", "1000000": "n = 10⁶"}
    return Explorer(
        "models-needed",
        draw,
        [
            Range("epsilon", "ε", epsilons, 1.0, scale="log"),
            Range("delta", "δ", deltas, 1e-5, form="{:.0e}", scale="log"),
            Switch("records", "n", sizes, "100000", "How many records the dataset has."),
        ],
        x=Axis("ε", 0.1, 10.0, "log", ticks=(0.1, 0.3, 1, 3, 10)),
        y=[
            Axis("number of models", 10.0, 1e11, "log", ticks=(10, 1e3, 1e5, 1e7, 1e9)),
            Axis("records for each model", 1.0, 1e7, "log", ticks=(1, 100, 1e4, 1e6)),
        ],
        asked="both",
    )
