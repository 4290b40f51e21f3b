"""Explorers of chapter 06, PATE."""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpml.accounting import rdp
from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Area, Axis, Frame, Line, Mark, Points, Rule, Text
from dpml.pate import laplace_votes, student, voting

DELTA = 1e-5


def noisy_votes() -> Explorer:
    """Twenty teachers vote between A and B; under D' one of the votes for A goes to B. What does the winner betray?

    The first panel has the exact probabilities of both winners under D and D', the second one the loss in units of
    epsilon over the number of votes for A, with the noise Lap(1/epsilon) or with Lap(2/epsilon).
    """
    voters = 20

    @cache
    def laws(epsilon: float, factor: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Log-probabilities of A and B for 0 to 20 votes for A, and the loss between neighbours over epsilon."""
        counts = np.stack([np.arange(voters + 1), voters - np.arange(voters + 1)], axis=1)
        logs = voting.argmax_log_probabilities(counts, scale=float(factor) / epsilon)
        return logs, np.abs(np.diff(logs, axis=0)).max(axis=1) / epsilon

    def bar(centre: float, height: float, role: Literal["D", "D'"]) -> list[Mark]:
        """A bar with its height as a number, on the side away from the neighbour's."""
        x = centre + 0.15 if role == "D" else centre - 0.15
        text = f"{height:.3f}" if height >= 5e-4 else "< 0.001"
        area = Area([centre - 0.16, centre + 0.16], [0.0, 0.0], [height, height], role)
        return [area, Text(text, x, height + 0.03, role, "end" if role == "D" else "start")]

    def draw(votes: int, epsilon: float, factor: str) -> Frame:
        logs, losses = laws(epsilon, factor)
        here, there = (list(map(float, np.exp(logs[k]))) for k in (votes, votes - 1))
        loss = float(losses[votes - 1])
        verdict = f"above ε = {epsilon:g}" if loss > 1 else f"within ε = {epsilon:g}"
        return Frame(
            title=f"Lap({factor}/ε): votes {votes} : {voters - votes} against {votes - 1} : {voters - votes + 1} "
            f"lose {loss * epsilon:.3g}, {verdict}.",
            readout=f"ε = {epsilon:g}, b = {float(factor) / epsilon:.3g} votes: P(A wins) = {here[0]:.4g} under D, "
            f"{there[0]:.4g} under D′; P(B wins) = {here[1]:.4g} and {there[1]:.4g}; largest loss "
            f"{loss * epsilon:.4g} = {loss:.3f} ε",
            marks=[
                *(mark for x, height in zip((0.82, 1.82), here, strict=True) for mark in bar(x, height, "D")),
                *(mark for x, height in zip((1.18, 2.18), there, strict=True) for mark in bar(x, height, "D'")),
                Text("D", 2.95, 0.8, "D"),
                Text("D′", 2.95, 0.68, "D'"),
            ],
            beside=[
                Rule("guarantee", y=1.0, label=Text("line at 1: ε, as promised", 20.4, 0.5)),
                Rule("muted", y=2.0, label=Text("2ε: two counts move", 20.4, 2.08)),
                Line(np.arange(1, voters + 1), losses, "source"),
                Points([votes], [loss], "D"),
            ],
        )

    counts = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 20]
    epsilons = [0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0]
    meaning = "Its scale b. One vote suggests 1/ε, but two counts move."
    return Explorer(
        "noisy-votes",
        draw,
        [
            Range("votes", "votes for A", counts, 10, "Of the 20 votes under D; under D′ one fewer."),
            Range("epsilon", "ε", epsilons, 1.0, scale="log"),
            Switch("factor", "Noise", {"1": "Lap(1/ε)", "2": "Lap(2/ε)"}, "1", meaning),
        ],
        x=[Axis("winner", 0.4, 3.0, ticks=[(1.0, "A wins"), (2.0, "B wins")]), Axis("votes for A, of 20", 0.5, 20.5)],
        y=[Axis("probability", 0.0, 1.12), Axis("loss / ε", 0.0, 2.3)],
        asked="right",
    )


def cost_of_labels() -> Explorer:
    """What k labels cost: for any votes, and for votes in which a given share of the teachers agrees.

    Laplace noise of scale b, delta = 1e-5. The votes that do not go to the leader are spread over the nine others.
    """
    labels = np.unique(np.round(np.geomspace(1, 1000, 13)).astype(int))
    hundred = int(np.flatnonzero(labels == 100)[0])
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
        a, b = worst[hundred], these[hundred]
        told = f"cost ε = {b:.3g}, not {a:.3g}" if b < 0.995 * a else f"cost ε = {a:.3g}: agreement does not help"
        return Frame(
            title=f"{teachers} teachers, {agree:.0%} agree, Lap({scale:g}): 100 labels {told}.",
            readout=f"δ = 10⁻⁵, b = {scale:g} votes, {round(agree * int(teachers))} of {teachers} votes for the "
            f"leader; 100 labels: {a:.4g} for any votes, {b:.4g} for these votes (private information); "
            f"1000 labels: {worst[-1]:.4g} and {these[-1]:.4g}",
            marks=[
                Rule("muted", x=100.0),
                Line(labels, np.maximum(worst, 1e-9), "guarantee", Text("any votes", 1.15, 230.0)),
                Line(labels, np.maximum(these, 1e-9), "D", Text("these votes", 1.15, 90.0)),
                Points([100], [min(max(a, 1e-3), 1e3)], "guarantee"),
                Points([100], [min(max(b, 1e-3), 1e3)], "D"),
            ],
        )

    shares = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0]
    scales = [2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0, 80.0]
    sizes = {"25": "25", "100": "100", "250": "250"}
    return Explorer(
        "cost-of-labels",
        draw,
        [
            Range("agree", "agreement", shares, 0.8, "The share of the teachers that vote for the leader.", "{:.0%}"),
            Range("scale", "b", scales, 20.0, form="{:g}", scale="log"),
            Switch("teachers", "Teachers", sizes, "250", "How many teachers vote."),
        ],
        x=Axis("labels released", 1.0, 1000.0, "log"),
        y=Axis("ε at δ = 10⁻⁵", 1e-3, 1e3, "log", ticks=(1e-3, 1e-2, 0.1, 1, 10, 100, 1e3)),
        asked="both",
    )
