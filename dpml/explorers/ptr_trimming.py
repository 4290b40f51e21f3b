"""The explorer of chapter 10 that shows a trimmed sum's margin as a count."""

from __future__ import annotations

import numpy as np

from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Area, Axes, Axis, Frame, Line, Points, Rule
from dpml.explorers._gradient_norms import gradient_norms
from dpml.ptr import trimmed_sum
from dpml.ptr.propose_test_release import pass_probability, threshold

__all__ = ["trimming"]

BOUND = 10.0
SCALE, DELTA0 = 1.0, 1e-8


def trimming() -> Explorer:
    """Sorted gradient norms of a real batch: what is trimmed, the margin, and what passes the test."""
    limit = threshold(scale=SCALE, delta0=DELTA0)
    norms = {name: np.sort(values) for name, values in gradient_norms()._asdict().items()}

    def draw(trim: int, tau: float, model: str) -> Frame:
        lengths = np.minimum(norms[model], BOUND)
        m = len(lengths)
        ranks = np.arange(1, m + 1)
        kept = m - trim
        margin = trimmed_sum.safety_margin(norms[model], trim=trim, tau=tau, bound=BOUND)
        passes = pass_probability(margin, scale=SCALE, delta0=DELTA0)
        above = int(np.count_nonzero(norms[model] > tau))
        r = np.arange(0, 257, 4)
        stairs = [trimmed_sum.local_sensitivity(norms[model], trim=trim, r=int(k), bound=BOUND) for k in r]
        chance = f"{passes:.2g}" if passes < 0.995 else "above 0.99"
        return Frame(
            title=f"{above} of {m} norms exceed τ = {tau:g} and F = {trim}: the margin is {margin:.0f}, the test "
            f"passes with probability {chance}.",
            readout=f"F = {trim}, τ = {tau:g}, R = {BOUND:g}: {kept} norms kept, margin max(0, {trim} − {above}) = "
            f"{margin:.0f}, threshold B = {limit:.1f}, local sensitivity now {stairs[0]:.2f}",
            marks=[
                Area(ranks[:kept], np.zeros(kept), lengths[:kept], "D", label="kept", at=(6.0, 9.2)),
                Area(
                    ranks[kept:], np.zeros(trim), lengths[kept:], "D'", label="trimmed", at=(252.0, 10.4), anchor="end"
                ),
                Line(ranks, lengths, "guarantee"),
                Rule("muted", y=tau, label="τ", at=(2.0, tau + 0.25)),
                Line(r, stairs, "guarantee", label="LS within r changes", at=(252.0, 10.5), anchor="end", panel=1),
                Rule("muted", y=tau, label="τ", at=(252.0, tau + 0.25), anchor="end", panel=1),
                Rule("D'", x=limit, label="B", at=(limit + 2.0, 0.4), panel=1),
                Points([margin], [tau], "measured", panel=1),
            ],
            table=(
                ["quantity", "value"],
                [
                    ["norms above τ", str(above)],
                    ["margin", f"{margin:.0f}"],
                    ["threshold B", f"{limit:.2f}"],
                    ["pass probability", f"{passes:.3g}"],
                    ["local sensitivity", f"{stairs[0]:.3g}"],
                ],
            ),
        )

    return Explorer(
        "ptr-trimming",
        draw=draw,
        controls=[
            Range("trim", "F", [1, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224], 144, "{:d}"),
            Range("tau", "τ", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 9.9], 5.0, "{:.3g}"),
            Switch("model", "gradients", {"start": "before training", "trained": "after training"}, "trained"),
        ],
        axes=[
            Axes(Axis("rank of the image in a batch of 256", 0.0, 257.0), Axis("clipped gradient norm", 0.0, 11.5)),
            Axes(Axis("records changed, r", 0.0, 257.0), Axis("local sensitivity", 0.0, 11.5)),
        ],
    )
