"""The explorer of chapter 16, project: how a budget is shared by trials and the run that is published."""

from __future__ import annotations

from functools import cache

from dpml.accounting import pld
from dpml.classroom.explorer import Explorer, Range
from dpml.classroom.marks import Axis, Frame, Key, Line, Points, Rule, Text

EPSILON, DELTA = 2.0, 1e-5
RATE, STEPS, TRIAL_STEPS = 0.2, 60, 30


def budget_split() -> Explorer:
    """Noise of the final run and of each trial, by the share of epsilon that the trials get, basic composition."""
    shares = [0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]

    @cache
    def noise(share: float, steps: int, part: float) -> float:
        return pld.noise_multiplier(q=RATE, steps=steps, epsilon=share * EPSILON, delta=part * DELTA)

    def draw(share: float, trials: int) -> Frame:
        final = [noise(1.0 - one, STEPS, 0.5) for one in shares]
        each = [noise(one, trials * TRIAL_STEPS, 0.5) for one in shares]
        here, trial = noise(1.0 - share, STEPS, 0.5), noise(share, trials * TRIAL_STEPS, 0.5)
        alone = noise(1.0, STEPS, 1.0)
        count = f"{trials} trial{'s' * (trials > 1)}"
        return Frame(
            title=f"{share:.0%} of ε for {count}: the final run needs σ = {here:.2f}, {here / alone:.2f} times that "
            f"without trials, and each trial {trial:.1f}.",
            readout=f"ε = {share * EPSILON:.2f} for {count} of {TRIAL_STEPS} steps, {(1 - share) * EPSILON:.2f} for "
            f"{STEPS} steps of the final run; δ = 10⁻⁵ in all.",
            marks=[
                Rule("guarantee", y=alone, label=Text("without trials", 0.99, 0.74 * alone, anchor="end")),
                Line(shares, final, "D", Key("final run", 0.34, 130.0)),
                Line(shares, each, "D'", Key("each trial", 0.34, 90.0)),
                Points([share, share], [here, trial], "measured"),
            ],
        )

    return Explorer(
        "project-budget-split",
        draw,
        [
            Range("share", "share of the trials", shares, 0.5, "The part of ε that all trials together get.", "{:.0%}"),
            Range("trials", "trials", [1, 2, 3, 5, 8], 3, "How many trials are made before the final run."),
        ],
        x=Axis("share of ε for the trials", 0.0, 1.0),
        y=Axis("noise multiplier σ", 2.0, 200.0, "log"),
        asked="both",
    )
