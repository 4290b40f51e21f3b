"""Explorers of chapter 11, private and robust SGD.

The last one shows recorded runs of `experiments/ptr_tables.py`: a small network on the 10,000 shipped training images;
accuracy on the 2,000 clean test images, mean and standard deviation over the seeds. The step size was chosen on these
images, which no epsilon here covers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Area, Axis, Frame, Key, Line, Points, Role, Rule, Text
from dpml.data import recorded
from dpml.lessons.ptr.gradient_norms import gradient_norms
from dpml.ptr import trimmed_sum
from dpml.ptr.propose_test_release import pass_probability, threshold

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
    trims = np.arange(0, 257, 8)

    def draw(trim: int, tau: float, case: str) -> Frame:
        norms, clip_norm = cases[case]
        level = tau * clip_norm

        def margin_at(f: int) -> float:
            return trimmed_sum.safety_margin(norms, trim=f, tau=level, bound=clip_norm)

        def passes_at(f: int) -> float:
            return pass_probability(margin_at(f), scale=SCALE, delta0=DELTA0)

        above = int(np.count_nonzero(norms > level))
        passes = passes_at(trim)
        chance = "almost never" if passes < 0.01 else "almost surely" if passes > 0.99 else f"with chance {passes:.2f}"
        ranks, kept = np.arange(1, BATCH + 1), BATCH - trim
        shown, floor = np.maximum(norms, 0.01), np.full(BATCH, 0.01)
        needed = above + math.ceil(limit)
        quantities = {
            "norms above τR": str(above),
            "F": str(trim),
            "margin Δ": f"{margin_at(trim):.0f}",
            "threshold B": f"{limit:.2f}",
            "pass probability": f"{passes:.3g}",
            "noise if passed, σ = 1.1": f"{1.1 * level:.3g}",
            "noise if failed, σ = 1.1": f"{1.1 * clip_norm:.3g}",
        }
        return Frame(
            title=f"{above} of {BATCH} norms exceed τR = {level:.3g}: with F = {trim} the test passes {chance}.",
            readout=f"Δ = max(0, {trim} − {above}) = {margin_at(trim):.0f}, needed about {limit:.1f}: F ≥ {needed}"
            + ("." if needed <= BATCH else f", more than the batch of {BATCH}."),
            marks=[
                Area(ranks[:kept], floor[:kept], shown[:kept], "D", Text("kept", 6.0, 200.0)),
                Area(ranks[kept:], floor[kept:], shown[kept:], "D'", Text("trimmed", 252.0, 200.0)),
                Line(ranks, shown, "guarantee"),
                Rule("muted", y=level, label=Text("τR", 4.0, 1.25 * level)),
            ],
            beside=[
                Line(trims, [passes_at(int(f)) for f in trims], "guarantee"),
                Rule("muted", x=float(trim), label=Text("F", min(trim + 4.0, 240.0), 1.05, anchor="start")),
                Points([trim], [passes], "measured"),
            ],
            table=(["quantity", "value"], [[name, value] for name, value in quantities.items()]),
        )

    counts = [1, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 255]
    batches = {"small": "R = 1", "large": "R = 20", "outliers": "R = 20, one in eight longer"}
    return Explorer(
        "robust-sorted-norms",
        draw,
        [
            Range("trim", "F", counts, 80),
            Range("tau", "τ", [0.1, 0.3, 0.5, 0.7, 0.9], 0.5, form="{:.1f}"),
            Switch("case", "batch", batches, "large", "The largest length R, and whether some gradients are longer."),
        ],
        x=[Axis("rank in a batch of 256", 0.0, 257.0), Axis("F", 0.0, 257.0)],
        y=[Axis("gradient norm, unclipped", 0.01, 400.0, "log"), Axis("probability that the test passes", 0.0, 1.15)],
        asked="right",
    )


class _Path(NamedTuple):
    """F before each step, and whether the test passed in it."""

    trims: NDArray[np.int64]
    passed: NDArray[np.bool_]


def _simulate(rule: Callable[..., Any], *, start: int, above: int, steps: int) -> _Path:
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
    from dpml.training import trimming  # here, so that the other explorers do not wait for torch

    steps = 120
    limit = threshold(scale=SCALE, delta0=DELTA0)
    at = np.arange(1, steps + 1)

    def draw(start: int, above: int, rule: str) -> Frame:
        both = {
            "algorithm": _simulate(trimming.next_trim, start=start, above=above, steps=steps),
            "appendix": _simulate(trimming.upside_down_trim, start=start, above=above, steps=steps),
        }
        here = both[rule]
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
        return Frame(
            title=f"{'Algorithm 2' if rule == 'algorithm' else 'Appendix B.1.3'}: {verdict}.",
            readout=f"{above} norms exceed τR, so that the test needs F above about {above + limit:.0f}. Start F = "
            f"{start}, change 5. Solid blue: Algorithm 2; dash-dotted orange: the appendix.",
            marks=[
                Rule("muted", y=above + limit, label=Text("what the test needs", 118.0, above + limit + 14)),
                Line(at, both["appendix"].trims, "source", Key("the appendix", 70.0, 264.0)),
                Line(at, both["algorithm"].trims, "D", Key("Algorithm 2", 14.0, 264.0)),
                Points([float(steps)], [float(last)], "measured"),
            ],
        )

    meaning = "Algorithm 2 lets F rise, the appendix of the paper lets it fall."
    return Explorer(
        "robust-feedback",
        draw,
        [
            Range("start", "F at first", [0, 32, 64, 96, 128, 160, 192, 224], 96, "How many are left out in step 1."),
            Range("above", "norms above τR", [0, 30, 60, 90, 120, 150, 180, 210], 90, "How many of the batch of 256."),
            Switch(
                "rule", "after a failed test", {"algorithm": "F rises", "appendix": "F falls"}, "algorithm", meaning
            ),
        ],
        x=Axis("step", 0.0, 122.0),
        y=Axis("F", 0.0, 275.0),
    )


def corrupted_accuracy() -> Explorer:
    """Recorded runs at epsilon 3: accuracy against the share of corrupted examples, for four methods."""
    names = {"labels": "random labels", "features": "noisy features", "gradients": "noisy gradients"}
    methods: dict[str, tuple[Role, str, float]] = {
        "DP-SGD, matched": ("guarantee", "DP-SGD, matched noise", 82.2),
        "TSGD+PTR": ("D", "TSGD+PTR", 78.6),
        "TSGD+Gaussian, matched": ("D'", "TSGD, matched noise", 71.5),
        "TSGD+Gaussian, paper": ("muted", "TSGD, the paper's noise", 60.3),
    }
    ratios = [0, 10, 20]
    runs = recorded("ptr_tables")["cpu"]

    @cache
    def accuracy(method: str, kind: str, ratio: int) -> tuple[float, float]:
        """Mean and standard deviation over the seeds, in percent."""
        wanted = method, kind if ratio else "none", ratio / 100
        rows = [row for row in runs["rows"] if (row["method"], row["corruption"], row["ratio"]) == wanted]
        found = [100 * row["accuracy"] for row in rows if row["epsilon"] == 3.0]
        return float(np.mean(found)), float(np.std(found, ddof=1))

    def draw(ratio: int, kind: str) -> Frame:
        found = {method: [accuracy(method, kind, r) for r in ratios] for method in methods}
        lines = {method: [mean for mean, _ in pairs] for method, pairs in found.items()}
        now = {method: float(np.interp(ratio, ratios, line)) for method, line in lines.items()}
        rows = [
            [methods[method][1], *(f"{mean:.1f} ± {spread:.1f} %" for mean, spread in pairs)]
            for method, pairs in found.items()
        ]
        data = f"{ratio} % {names[kind]}" if ratio else "clean data"
        return Frame(
            title=f"With {data}: DP-SGD {now['DP-SGD, matched']:.1f} %, TSGD+PTR {now['TSGD+PTR']:.1f} %, TSGD with "
            f"matched noise {now['TSGD+Gaussian, matched']:.1f} %.",
            readout=f"ε = 3 in every run, mean of {len(runs['settings']['seeds'])} seeds; with the paper's noise TSGD "
            f"has {now['TSGD+Gaussian, paper']:.1f} %.",
            marks=[
                *(
                    Line(ratios, lines[method], role, Text(name, 0.3, height))
                    for method, (role, name, height) in methods.items()
                ),
                Points([float(ratio)] * len(now), list(now.values()), "measured"),
            ],
            table=(["method", *(f"{r} % corrupted" for r in ratios)], rows),
        )

    return Explorer(
        "robust-accuracy",
        draw,
        [
            Range("ratio", "corrupted, %", ratios, 0, "The share of the training examples that is corrupted."),
            Switch("kind", "corruption", names, "labels", "What is replaced in a corrupted example."),
        ],
        x=Axis("corrupted examples, %", 0.0, 20.5),
        y=Axis("accuracy, %", 58.0, 85.0),
        asked="both",
    )
