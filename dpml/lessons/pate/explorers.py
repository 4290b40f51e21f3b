"""Explorers of chapter 06, PATE."""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpml.accounting import rdp
from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Area, Axes, Axis, Frame, Line, Points, Rule, Text
from dpml.classroom.svg import power_of_ten
from dpml.pate import laplace_votes, student, voting

DELTA = 1e-5


def noisy_votes() -> Explorer:
    """Twenty teachers vote between A and B; under D' one of the votes for A goes to B. What does the winner betray?

    The upper panel has the exact probabilities of both winners under D and D', the lower one the loss in units of
    epsilon over the number of votes for A, with the printed noise Lap(1/epsilon) or with Lap(2/epsilon).
    """
    voters = 20
    splits = np.arange(1, voters + 1)

    @cache
    def laws(epsilon: float, factor: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Log-probabilities of A and B for 0 to 20 votes for A, and the loss between neighbours over epsilon."""
        counts = np.stack([np.arange(voters + 1), voters - np.arange(voters + 1)], axis=1)
        logs = voting.argmax_log_probabilities(counts, scale=float(factor) / epsilon)
        return logs, np.abs(np.diff(logs, axis=0)).max(axis=1) / epsilon

    def bar(centre: float, height: float, role: Literal["D", "D'"]) -> Area:
        return Area([centre - 0.16, centre + 0.16], [0.0, 0.0], [height, height], role)

    def label(x: float, p: float, role: Literal["D", "D'"]) -> Text:
        text = f"{p:.3f}" if p >= 5e-4 else "< 0.001"
        return Text(x, p + 0.03, text, role, anchor="end" if role == "D" else "start")

    def draw(votes: int, epsilon: float, factor: str) -> Frame:
        logs, losses = laws(epsilon, factor)
        here, there = np.exp(logs[votes]), np.exp(logs[votes - 1])
        loss = float(losses[votes - 1])
        noise = f"Lap({factor}/ε)"
        verdict = f"above ε = {epsilon:g}" if loss > 1 else f"within ε = {epsilon:g}"
        rows = [
            [f"{k} : {voters - k}", f"{k - 1} : {voters - k + 1}", *(f"{v:.4g}" for v in row)]
            for k in (1, 2, 5, 10, 15, 20)
            for row in [(np.exp(logs[k][0]), np.exp(logs[k - 1][0]), losses[k - 1] * epsilon)]
        ]
        return Frame(
            title=(
                f"{noise}: votes {votes} : {voters - votes} against {votes - 1} : {voters - votes + 1} "
                f"lose {loss * epsilon:.3g}, {verdict}."
            ),
            readout=(
                f"ε = {epsilon:g}, b = {float(factor) / epsilon:.3g} votes: P(A wins) = {here[0]:.4g} under D, "
                f"{there[0]:.4g} under D′; P(B wins) = {here[1]:.4g} and {there[1]:.4g}; largest loss "
                f"{loss * epsilon:.4g} = {loss:.3f} ε"
            ),
            marks=[
                bar(0.82, float(here[0]), "D"),
                bar(1.18, float(there[0]), "D'"),
                bar(1.82, float(here[1]), "D"),
                bar(2.18, float(there[1]), "D'"),
                label(0.97, float(here[0]), "D"),
                label(1.03, float(there[0]), "D'"),
                label(1.97, float(here[1]), "D"),
                label(2.03, float(there[1]), "D'"),
                Text(2.95, 0.8, "D", "D", anchor="end"),
                Text(2.95, 0.68, "D′", "D'", anchor="end"),
                Rule("guarantee", y=1.0, label="line at 1: ε, as promised", at=(20.4, 0.5), anchor="end", panel=1),
                Rule("muted", y=2.0, label="2ε: two counts move", at=(20.4, 2.08), anchor="end", panel=1),
                Line(splits, losses, "source", panel=1),
                Points([votes], [loss], "D", panel=1),
            ],
            table=(["D", "D′", "P(A wins), D", "P(A wins), D′", "loss"], rows),
        )

    names = [(1.0, "A wins"), (2.0, "B wins")]
    votes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 20]
    return Explorer(
        "noisy-votes",
        draw=draw,
        controls=[
            Range("votes", "votes for A", votes, 10),
            Range("epsilon", "ε", [0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0], 1.0, "{:.3g}", "log"),
            Switch("factor", "Noise", {"1": "Lap(1/ε), printed", "2": "Lap(2/ε)"}, "1"),
        ],
        axes=[
            Axes(Axis("winner", 0.4, 3.0, ticks=names), Axis("probability", 0.0, 1.12)),
            Axes(Axis("votes for A, of 20", 0.5, 20.5), Axis("loss / ε", 0.0, 2.3)),
        ],
    )


def cost_of_labels() -> Explorer:
    """What k labels cost: for any votes, and for votes in which a given share of the teachers agrees.

    Laplace noise of scale b, delta = 1e-5. The votes that do not go to the leader are spread over the nine others.
    """
    labels = np.unique(np.round(np.geomspace(1, 1000, 13)).astype(int))
    lam = np.geomspace(0.3, 3000.0, 90)

    @cache
    def any_votes(scale: float) -> list[float]:
        return [student.laplace_student(queries=int(k), scale=scale, delta=DELTA).epsilon for k in labels]

    @cache
    def these_votes(scale: float, agree: float, teachers: int) -> list[float]:
        leader = round(agree * teachers)
        rest = np.full(9, (teachers - leader) // 9)
        rest[: (teachers - leader) % 9] += 1
        moment = laplace_votes.laplace_moment_data_dependent([leader, *rest], lam=lam, scale=scale)
        total = labels[:, None] * (moment / lam)
        best = np.asarray(rdp.conversion_improved(1.0 + lam, rdp=total, delta=DELTA)).min(axis=1)
        return [float(v) for v in np.minimum(best, any_votes(scale))]

    def draw(agree: float, scale: float, teachers: str) -> Frame:
        worst, these = any_votes(scale), these_votes(scale, agree, int(teachers))
        hundred = int(np.flatnonzero(labels == 100)[0])
        a, b = worst[hundred], these[hundred]
        told = f"cost ε = {b:.3g}, not {a:.3g}" if b < 0.995 * a else f"cost ε = {a:.3g}: agreement does not help"
        rows = [[f"{k}", f"{w:.4g}", f"{t:.4g}"] for k, w, t in zip(labels, worst, these, strict=True)]
        return Frame(
            title=f"{teachers} teachers, {agree:.0%} agree, Lap({scale:g}): 100 labels {told}.",
            readout=(
                f"δ = 10⁻⁵, b = {scale:g} votes, {round(agree * int(teachers))} of {teachers} votes for the leader; "
                f"100 labels: {a:.4g} for any votes, {b:.4g} for these votes (private information); "
                f"1000 labels: {worst[-1]:.4g} and {these[-1]:.4g}"
            ),
            marks=[
                Rule("muted", x=100.0),
                Line(labels, np.clip(worst, 1e-3, 1e3), "guarantee", label="any votes", at=(1.15, 230.0)),
                Line(labels, np.clip(these, 1e-3, 1e3), "D", label="these votes", at=(1.15, 90.0)),
                Points([100], [min(max(a, 1e-3), 1e3)], "guarantee"),
                Points([100], [min(max(b, 1e-3), 1e3)], "D"),
            ],
            table=(["labels", "ε, any votes", "ε, these votes"], rows),
        )

    powers = [(10.0**k, power_of_ten(k)) for k in (-3, -2, -1, 0, 1, 2, 3)]
    return Explorer(
        "cost-of-labels",
        draw=draw,
        controls=[
            Range("agree", "agreement", [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0], 0.8, "{:.0%}"),
            Range("scale", "b", [2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0, 80.0], 20.0, "{:g}", "log"),
            Switch("teachers", "Teachers", {"25": "25", "100": "100", "250": "250"}, "250"),
        ],
        axes=Axes(Axis("labels released", 1.0, 1000.0, "log"), Axis("ε at δ = 10⁻⁵", 1e-3, 1e3, "log", ticks=powers)),
    )
