"""Explorers of chapter 11, private and robust SGD."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Area, Axes, Axis, Frame, Line, Points, Role, Rule
from dpml.data import recorded
from dpml.lessons.ptr.gradient_norms import gradient_norms
from dpml.ptr import trimmed_sum
from dpml.ptr.propose_test_release import pass_probability, threshold
from dpml.training.trimming import NextTrim, next_trim, upside_down_trim

SCALE, DELTA0 = 1.0, 1e-8
BATCH = 256


def sorted_norms() -> Explorer:
    """A real batch, sorted by norm: what trimming leaves out, the margin, and the chance that the test passes.

    In one of the choices the gradients of one image in eight are ten times longer.
    """
    plain = gradient_norms().trained
    long = plain.copy()
    long[::8] *= 10.0
    cases = {"small": (np.sort(plain), 1.0), "large": (np.sort(plain), 20.0), "outliers": (np.sort(long), 20.0)}
    limit = threshold(scale=SCALE, delta0=DELTA0)

    def draw(trim: int, tau: float, case: str) -> Frame:
        norms, clip_norm = cases[case]
        level = tau * clip_norm
        above = int(np.count_nonzero(norms > level))
        margin = trimmed_sum.safety_margin(norms, trim=trim, tau=level, bound=clip_norm)
        passes = pass_probability(margin, scale=SCALE, delta0=DELTA0)
        chance = "almost never" if passes < 0.01 else "almost surely" if passes > 0.99 else f"with chance {passes:.2f}"
        ranks, kept = np.arange(1, BATCH + 1), BATCH - trim
        shown = np.maximum(norms, 0.01)
        floor = np.full(BATCH, 0.01)
        needed = above + math.ceil(limit)
        trims = np.arange(0, 257, 8)
        chances = [
            pass_probability(
                trimmed_sum.safety_margin(norms, trim=int(f), tau=level, bound=clip_norm), scale=SCALE, delta0=DELTA0
            )
            for f in trims
        ]
        return Frame(
            title=f"{above} of {BATCH} norms exceed τR = {level:.3g}: with F = {trim} the test passes {chance}.",
            readout=f"Δ = max(0, {trim} − {above}) = {margin:.0f}, needed about {limit:.1f}: F ≥ {needed}"
            + ("." if needed <= BATCH else f", more than the batch of {BATCH}."),
            marks=[
                Area(ranks[:kept], floor[:kept], shown[:kept], "D", label="kept", at=(6.0, 200.0)),
                Area(ranks[kept:], floor[kept:], shown[kept:], "D'", label="trimmed", at=(252.0, 200.0), anchor="end"),
                Line(ranks, shown, "guarantee"),
                Rule("muted", y=level, label="τR", at=(4.0, 1.25 * level)),
                Line(trims, chances, "guarantee", panel=1),
                Rule("D'", x=float(trim), label="F", at=(min(trim + 4.0, 240.0), 1.05), panel=1),
                Points([trim], [passes], "measured", panel=1),
            ],
            table=(
                ["quantity", "value"],
                [
                    ["norms above τR", str(above)],
                    ["F", str(trim)],
                    ["margin Δ", f"{margin:.0f}"],
                    ["threshold B", f"{limit:.2f}"],
                    ["pass probability", f"{passes:.3g}"],
                    ["noise if passed, σ = 1.1", f"{1.1 * level:.3g}"],
                    ["noise if failed, σ = 1.1", f"{1.1 * clip_norm:.3g}"],
                ],
            ),
        )

    return Explorer(
        "robust-sorted-norms",
        draw=draw,
        controls=[
            Range("trim", "F", [1, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 255], 80, "{:d}"),
            Range("tau", "τ", [0.1, 0.3, 0.5, 0.7, 0.9], 0.5, "{:.1f}"),
            Switch(
                "case",
                "batch",
                {"small": "R = 1", "large": "R = 20", "outliers": "R = 20, one in eight longer"},
                "large",
            ),
        ],
        axes=[
            Axes(Axis("rank in a batch of 256", 0.0, 257.0), Axis("gradient norm, unclipped", 0.01, 400.0, "log")),
            Axes(Axis("F", 0.0, 257.0), Axis("probability that the test passes", 0.0, 1.15)),
        ],
    )


class _Path(NamedTuple):
    """F before each step, and whether the test passed in it."""

    trims: NDArray[np.int64]
    passed: NDArray[np.bool_]


def _simulate(rule: NextTrim, *, start: int, above: int, steps: int) -> _Path:
    """F over the steps, moved by 5 after each, when `above` norms exceed tau R."""
    rng = np.random.default_rng(7)
    limit = threshold(scale=SCALE, delta0=DELTA0)
    noise = rng.laplace(scale=SCALE, size=steps)
    trims, passed = np.empty(steps, dtype=np.int64), np.empty(steps, dtype=bool)
    trim = start
    for step in range(steps):
        trims[step] = trim
        passed[step] = max(0, trim - above) + noise[step] > limit
        trim = int(rule(trim, passed=bool(passed[step]), change=5, most=BATCH))
    return _Path(trims, passed)


def feedback() -> Explorer:
    """F over 120 steps by the rule of Algorithm 2 and by that of the appendix: one settles, the other runs away."""
    steps = 120
    limit = threshold(scale=SCALE, delta0=DELTA0)

    def draw(start: int, above: int, rule: str) -> Frame:
        both = {
            "algorithm": _simulate(next_trim, start=start, above=above, steps=steps),
            "appendix": _simulate(upside_down_trim, start=start, above=above, steps=steps),
        }
        here = both[rule]
        at = np.arange(1, steps + 1)
        last = int(here.trims[-1])
        share = float(here.passed[-60:].mean())
        if rule == "algorithm" and share < 0.9:
            verdict = f"F hovers near {np.mean(here.trims[-60:]):.0f}, and {share:.0%} of the last tests pass"
        elif last == 0:
            verdict = "F has fallen to 0, and no test passes any more"
        elif last == BATCH:
            verdict = f"F has reached {BATCH}: everything is trimmed, and noise alone is released"
        else:
            verdict = f"F is {last}, and {share:.0%} of the last tests pass"
        rows = [
            [f"{step}", f"{both['algorithm'].trims[step - 1]}", f"{both['appendix'].trims[step - 1]}"]
            for step in (1, 20, 40, 60, 80, 100, 120)
        ]
        return Frame(
            title=f"{'Algorithm 2' if rule == 'algorithm' else 'Appendix B.1.3'}: {verdict}.",
            readout=f"{above} norms exceed τR, so that the test needs F above about {above + limit:.0f}. Start F = "
            f"{start}, change 5. Solid blue: Algorithm 2; dash-dotted orange: the appendix.",
            marks=[
                Rule(
                    "muted", y=above + limit, label="what the test needs", at=(118.0, above + limit + 14), anchor="end"
                ),
                Line(at, both["appendix"].trims, "source"),
                Line(at, both["algorithm"].trims, "D"),
                Points([float(steps)], [float(last)], "measured"),
            ],
            table=(["step", "F, Algorithm 2", "F, appendix"], rows),
        )

    return Explorer(
        "robust-feedback",
        draw=draw,
        controls=[
            Range("start", "F at first", [0, 32, 64, 96, 128, 160, 192, 224], 96, "{:d}"),
            Range("above", "norms above τR", [0, 30, 60, 90, 120, 150, 180, 210], 90, "{:d}"),
            Switch("rule", "after a failed test", {"algorithm": "F rises", "appendix": "F falls"}, "algorithm"),
        ],
        axes=[Axes(Axis("step", 0.0, 122.0), Axis("F", 0.0, 275.0))],
    )


def corrupted_accuracy() -> Explorer:
    """Recorded runs at epsilon 3: accuracy against the share of corrupted examples, for four methods."""
    names = {"labels": "random labels", "features": "noisy features", "gradients": "noisy gradients"}
    part = recorded("ptr_tables")["cpu"]
    epsilon, seeds = part["rows"][0]["epsilon"], len(part["settings"]["seeds"])
    shares = sorted({100.0 * ratio for _, ratio in part["settings"]["corruptions"]})
    labels = {
        "DP-SGD, matched": ("DP-SGD, matched noise", 82.2),
        "TSGD+PTR": ("TSGD+PTR", 78.6),
        "TSGD+Gaussian, matched": ("TSGD, matched noise", 71.5),
        "TSGD+Gaussian, paper": ("TSGD, the paper's noise", 60.3),
    }
    roles: dict[str, Role] = {
        "DP-SGD, matched": "guarantee",
        "TSGD+PTR": "D",
        "TSGD+Gaussian, matched": "D'",
        "TSGD+Gaussian, paper": "muted",
    }

    @functools.cache
    def accuracy(method: str, kind: str, share: float) -> tuple[float, float]:
        """Mean and standard deviation over the seeds, in %."""
        wanted = (method, kind if share else "none", share)
        rows = [row for row in part["rows"] if (row["method"], row["corruption"], 100.0 * row["ratio"]) == wanted]
        percent = [100.0 * row["accuracy"] for row in rows]
        return float(np.mean(percent)), float(np.std(percent, ddof=1))

    def draw(ratio: int, kind: str) -> Frame:
        lines = {name: [accuracy(name, kind, share)[0] for share in shares] for name in labels}
        now = {name: float(np.interp(ratio, shares, line)) for name, line in lines.items()}
        rows = [
            [labels[name][0], *("{:.1f} ± {:.1f} %".format(*accuracy(name, kind, share)) for share in shares)]
            for name in labels
        ]
        data = f"{ratio} % {names[kind]}" if ratio else "clean data"
        return Frame(
            title=f"With {data}: DP-SGD {now['DP-SGD, matched']:.1f} %, TSGD+PTR {now['TSGD+PTR']:.1f} %, TSGD with "
            f"matched noise {now['TSGD+Gaussian, matched']:.1f} %.",
            readout=f"ε = {epsilon:g} in every run, mean of {seeds} seeds; with the paper's noise TSGD has "
            f"{now['TSGD+Gaussian, paper']:.1f} %.",
            marks=[
                *(
                    Line(shares, lines[name], roles[name], label=labels[name][0], at=(0.3, labels[name][1]))
                    for name in labels
                ),
                Points([float(ratio)] * len(now), list(now.values()), "measured"),
            ],
            table=(["method", *(f"{share:.0f} % corrupted" for share in shares)], rows),
        )

    return Explorer(
        "robust-accuracy",
        draw=draw,
        controls=[
            Range("ratio", "corrupted, %", [0, 10, 20], 0, "{:d}"),
            Switch("kind", "corruption", names, "labels"),
        ],
        axes=[Axes(Axis("corrupted examples, %", 0.0, 20.5), Axis("accuracy, %", 58.0, 85.0))],
    )
