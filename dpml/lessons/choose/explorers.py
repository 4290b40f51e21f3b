"""Explorers of chapter 09, DP-SGD or PATE?

They show recorded runs of `experiments/pate_fashion.py` and `experiments/dpsgd_or_pate.py`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Area, Axis, Frame, Line, Points, Rule, Text
from dpml.data import grouped, recorded
from dpml.mechanisms import gaussian_sigma

_EPSILONS, _TEACHERS = (1, 3, 8), (25, 50, 100, 250)
_MECHANISMS = ("noisy argmax", "GNMax", "confident GNMax")


def _mean(rows: Sequence[Any], field: str) -> float:
    return float(np.mean([row[field] for row in rows]))


def teachers_tradeoff() -> Explorer:
    """What the number of teachers does: each teacher gets worse, and the votes stand out of the noise."""

    pate = grouped(recorded("pate_fashion")["subset"]["rows"], "teachers", "mechanism", "epsilon")

    @functools.cache
    def students(mechanism: str, epsilon: int) -> list[float]:
        return [_mean(pate[k, mechanism, epsilon], "student_accuracy") for k in _TEACHERS]

    @functools.cache
    def without_noise(field: str) -> list[float]:
        return [_mean(pate[k, "plurality, not private", None], field) for k in _TEACHERS]

    @functools.cache
    def noisy_gradients(epsilon: int) -> float:
        return _mean(grouped(recorded("dpsgd_or_pate")["subset"]["rows"], "epsilon")[epsilon,], "accuracy")

    def nearest(value: float, known: Sequence[int]) -> int:
        return min(known, key=lambda one: abs(math.log(one / value)))

    def draw(epsilon: int, teachers: int, mechanism: str) -> Frame:
        eps, k = nearest(epsilon, _EPSILONS), nearest(teachers, _TEACHERS)
        at = _TEACHERS.index(k)
        here, gradients = students(mechanism, eps), noisy_gradients(eps)
        alone, votes = without_noise("teacher_accuracy"), without_noise("student_accuracy")
        snapped = "" if (eps, k) == (epsilon, teachers) else f" (recorded nearest to {teachers} and ε = {epsilon})"
        return Frame(
            title=f"{k} teachers, ε = {eps}: one alone {alone[at]:.2f}, the student {here[at]:.2f}, "
            f"DP-SGD {gradients:.2f}.",
            readout=f"{k} teachers, ε = {eps}{snapped}, {mechanism}: one teacher {alone[at]:.3f}, student "
            f"{here[at]:.3f}, of votes without noise {votes[at]:.3f}; DP-SGD {gradients:.3f}",
            marks=[
                Rule("muted", x=float(teachers)),
                Line([20.0, 900.0], [gradients, gradients], "D", Text("DP-SGD", 21.0, gradients + 0.025)),
                Line(_TEACHERS, votes, "muted", Text("without noise", 265.0, votes[-1] - 0.015, anchor="start")),
                Line(_TEACHERS, alone, "source", Text("one teacher", 265.0, alone[-1] - 0.03, anchor="start")),
                Line(_TEACHERS, here, "guarantee", Text("student", 21.0, max(here[0] - 0.075, 0.03))),
                Points(_TEACHERS, here, "measured"),
                Points([k], [here[at]], "D"),
            ],
        )

    mechanisms = {m: m for m in _MECHANISMS}
    meaning = "How the votes get their noise: Laplace, Gaussian, or Gaussian on clear votes only."
    return Explorer(
        "teachers-tradeoff",
        draw,
        [
            Range("epsilon", "ε", _EPSILONS, 3, form="{:g}", scale="log"),
            Range("teachers", "teachers", _TEACHERS, 100, "How many teachers share the data.", "{:g}", "log"),
            Switch("mechanism", "votes by", mechanisms, "GNMax", meaning),
        ],
        x=Axis("number of teachers", 20.0, 900.0, "log", ticks=_TEACHERS),
        y=Axis("accuracy on test images", 0.0, 1.0),
        asked="both",
    )


def label_budget() -> Explorer:
    """How the noise of a vote grows with the number of labels, and with what lead a label survives it."""
    questions = [10, 20, 50, 100, 200, 300, 500, 1000, 2000, 5000]
    grid = np.geomspace(10, 5000, 41)
    delta = 1e-5

    @functools.cache
    def for_one(epsilon: float) -> float:
        return gaussian_sigma(epsilon=epsilon, delta=delta)

    def lead_needed(queries: float, epsilon: float, teachers: float) -> float:
        """The share of the votes by which the winner must lead for two standard deviations of the noisy difference."""
        sigma = math.sqrt(2 * queries) * for_one(epsilon)
        return 2 * math.sqrt(2) * sigma / teachers

    def draw(queries: int, epsilon: float, teachers: str) -> Frame:
        number = int(teachers)
        curve = [lead_needed(float(n), epsilon, number) for n in grid]
        here = lead_needed(queries, epsilon, number)
        sigma = here * number / (2 * math.sqrt(2))
        most = int(((number / (2 * math.sqrt(2) * for_one(epsilon))) ** 2) / 2)

        told = f"{number} teachers need a lead of {100 * here:.0f} % of votes"
        if here > 1:
            told = f"even {number} equal votes of {number} drown in the noise"
        return Frame(
            title=f"{queries} labels at ε = {epsilon:g}: {told}.",
            readout=f"noise on each count: {sigma:.1f} votes of {number}; lead needed {100 * here:.1f} %; "
            f"with a lead of 100 % at most {most} labels",
            marks=[
                Area([10.0, 5000.0], [1.0, 1.0], [100.0, 100.0], "source", Text("no lead is enough", 4600.0, 45.0)),
                Rule("muted", y=1.0, label=Text("all teachers agree", 11.0, 1.25)),
                Line(grid, curve, "guarantee", Text("lead needed", 14.0, max(0.012, curve[3] * 0.45))),
                Rule("muted", x=float(queries)),
                Points([queries], [here], "D"),
            ],
        )

    epsilons = [0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0]
    sizes = {"25": "25", "100": "100", "250": "250"}
    return Explorer(
        "label-budget",
        draw,
        [
            Range("queries", "labels", questions, 200, "How many questions are answered with noise.", "{:g}", "log"),
            Range("epsilon", "ε", epsilons, 3.0, form="{:g}", scale="log"),
            Switch("teachers", "teachers", sizes, "100", "How many teachers vote."),
        ],
        x=Axis("number of labels", 10.0, 5000.0, "log"),
        y=Axis("lead needed, as a share of the votes", 0.01, 100.0, "log"),
    )
