"""Explorers of chapter 15, at scale: DP-SGD on Poisson batches, add/remove neighbours, delta = 1e-5.

Noise is that on one coordinate of the mean gradient, in units of the clip norm C: sigma / B in a step, and
sigma / (B sqrt(T)) in the average of T steps.
"""

from __future__ import annotations

import math
from functools import cache

from dpml import mechanisms
from dpml.accounting import pld
from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Axis, Frame, Key, Line, Points, Rule, Text
from dpml.classroom.svg import scientific

DELTA = 1e-5


def batch_and_noise() -> Explorer:
    """The batch against the noise of one step and of the average of all, at equal (epsilon, delta).

    Three plans: as many passes over the records, as many steps, and ten times the records.
    """
    sizes = [60, 125, 300, 600, 1250, 3000, 6000, 12_500, 30_000, 60_000]
    plans = {"passes": (60_000, 20.0, 0), "steps": (60_000, 0.0, 1000), "more": (600_000, 20.0, 0)}

    def noise(batch: int, epsilon: float, plan: str) -> tuple[float, int]:
        """The noise of the mean in a step, and the number of steps."""
        n, passes, given = plans[plan]
        steps = given or round(passes * n / batch)
        return _multiplier(batch / n, steps, epsilon) / batch, steps

    def draw(batch: int, epsilon: float, plan: str) -> Frame:
        step, steps = noise(batch, epsilon, plan)
        n = plans[plan][0]
        floor = mechanisms.gaussian_sigma(epsilon=epsilon, delta=DELTA) / n
        every = [noise(size, epsilon, plan) for size in sizes]
        run = step / math.sqrt(steps)
        return Frame(
            title=f"Batches of {batch:,}, {steps:,} steps: noise of {scientific(step)} C in a step, over the run "
            f"{run / floor:.3g} times that of all records.",
            readout=f"{n:,} records, ε = {epsilon:g}: σ = {step * batch:.3g}. The average has noise of "
            f"{scientific(run)} C; all records in each step would leave {scientific(floor)} C.",
            marks=[
                Line(
                    sizes, [every[0][0] * sizes[0] / size for size in sizes], "muted", Key("σ as at B = 60", 700, 0.02)
                ),
                Line(sizes, [one for one, _ in every], "D", Key("σ for this ε", 700, 0.0115)),
                Points([batch], [step], "measured"),
            ],
            beside=[
                Rule("guarantee", y=floor, label=Text("all records", 70.0, floor * 0.55, anchor="start")),
                Line(sizes, [one / math.sqrt(many) for one, many in every], "D"),
                Points([batch], [run], "measured"),
            ],
        )

    names = {"passes": "20 passes", "steps": "1,000 steps", "more": "10 × the records"}
    return Explorer(
        "scale-batch-and-noise",
        draw,
        [
            Range("batch", "batch B", sizes, 600, "How many records a step sees on average.", "{:,}", "log"),
            Range("epsilon", "ε", [0.5, 1.0, 3.0, 8.0], 3.0),
            Switch("plan", "plan", names, "passes", "What stays the same for all batches."),
        ],
        x=Axis("batch B", 50.0, 70_000.0, "log"),
        y=[Axis("noise in a step, units of C", 1e-5, 0.04, "log"), Axis("noise of the average", 4e-7, 1e-3, "log")],
        asked="both",
    )


@cache
def _multiplier(q: float, steps: int, epsilon: float) -> float:
    """The noise multiplier for this epsilon. (Ten times the records in ten times the batch have the same q.)"""
    return pld.noise_multiplier(q=q, steps=steps, epsilon=epsilon, delta=DELTA)


def noise_shares() -> Explorer:
    """What is left of a promise if some processes do not add their share of the noise, or tell it.

    On the right, the noise of the total while all add theirs.
    """
    planned_for = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    gone = [0.05 * i for i in range(11)]
    q, steps = 500 / 60_000, 1000

    @cache
    def left(away: float, planned: float, promised: float) -> float:
        """The epsilon of the noise that is left."""
        sigma = _multiplier(q, steps, promised) * math.sqrt((1.0 - away) / (1.0 - planned))
        return pld.epsilon(q=q, sigma=sigma, steps=steps, delta=DELTA).epsilon

    def draw(away: float, planned: float, promise: str) -> Frame:
        promised = float(promise)
        now, unplanned = (left(away, part, promised) for part in (planned, 0.0))
        cost = [math.sqrt(1.0 / (1.0 - share)) for share in planned_for]
        price = math.sqrt(1.0 / (1.0 - planned))
        verdict = "holds" if away <= planned + 1e-9 else "is broken"
        return Frame(
            title=f"{away:.0%} away: ε = {unplanned:.3g} if nobody planned for it, {now:.3g} with shares for "
            f"{planned:.0%} away.",
            readout=f"The promise of ε = {promised:g} {verdict}. While all are there, the total has {price:.3f} times "
            "the noise that is needed.",
            marks=[
                Line([0.0, 0.52], [promised] * 2, "guarantee", Key("promised", 0.36, 45.0)),
                Line(gone, [left(one, 0.0, promised) for one in gone], "D'", Key("planned for nobody", 0.09, 45.0)),
                Line(gone, [left(one, planned, promised) for one in gone], "D", Key("planned as set", 0.09, 30.0)),
                Points([away], [now], "measured"),
            ],
            beside=[Line(planned_for, cost, "D"), Points([planned], [price], "measured")],
        )

    return Explorer(
        "scale-noise-shares",
        draw,
        [
            Range("away", "away", gone, 0.2, "The part of the processes that add no noise, or tell it.", "{:.0%}"),
            Range("planned", "planned for", planned_for, 0.1, "The part that the shares make up for.", "{:.0%}"),
            Switch("promise", "promised ε", {"1": "1", "3": "3", "8": "8"}, "3", "What holds if the plan is kept."),
        ],
        x=[Axis("part of the processes away", 0.0, 0.52), Axis("part planned for", 0.0, 0.52)],
        y=[Axis("ε of what is left", 0.5, 60.0, "log"), Axis("noise over what is needed", 0.9, 1.5)],
        asked="left",
    )
