"""Explorers of chapter 01, What differential privacy promises."""

from __future__ import annotations

import functools

import numpy as np

from dpml.accounting.tradeoff import fnr_lower_bound, gaussian_fnr, laplace_fnr
from dpml.audit.samples import epsilon_lower_bound
from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Area, Axis, Frame, Line, Points, Rule, Text
from dpml.classroom.svg import power_of_ten
from dpml.mechanisms import (
    gaussian_delta,
    gaussian_density,
    gaussian_loss,
    gaussian_sigma,
    gaussian_sigma_classic_formula,
    laplace_delta,
    laplace_density,
    laplace_loss,
    randomized_response_truth_probability,
)
from dpml.numerics import crossing

LAWS = {"laplace": "Laplace", "gaussian": "Gaussian"}


def loss_densities() -> Explorer:
    """Two densities and their privacy loss: what an output tells about which of two datasets was used.

    The shaded area is delta: how far the density under D rises above e^epsilon times the density under D'.
    """
    # The peaks of the Laplace densities, at 0 and 1, are points of the grid.
    y = np.linspace(-4.0, 5.0, 64)
    noises = [0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0]

    def draw(noise: float, epsilon: float, mechanism: str) -> Frame:
        if mechanism == "laplace":
            blue, red = (laplace_density(y, center=at, scale=noise) for at in (0.0, 1.0))
            loss = laplace_loss(y, scale=noise)
            delta = laplace_delta(scale=noise, epsilon=epsilon)
            name = f"Laplace noise of scale {noise:.3g}"
        else:
            blue, red = (gaussian_density(y, center=at, sigma=noise) for at in (0.0, 1.0))
            loss = gaussian_loss(y, sigma=noise)
            delta = gaussian_delta(sigma=noise, epsilon=epsilon)
            name = f"Gaussian noise of σ = {noise:.3g}"
        allowed = np.exp(epsilon) * red
        if delta == 0:
            title = f"{name} keeps every loss within ±{epsilon:.3g}: it is ε-DP with ε = {epsilon:.3g}."
        else:
            title = f"{name} breaks ε = {epsilon:.3g} on some outputs: the shaded excess is δ = {delta:.3g}."
        return Frame(
            title=title,
            readout=f"noise {noise:.3g}, ε = {epsilon:.3g}: δ = {delta:.4g}",
            marks=[
                Area(y, np.minimum(blue, allowed), blue, "D"),
                Line(y, blue, "D", Text("D, true answer 0", -3.9, 1.18)),
                Line(y, allowed, "muted", Text("e^ε times D'", 4.9, 1.02)),
                Line(y, red, "D'", Text("D', true answer 1", 4.9, 1.18)),
            ],
            beside=[
                Rule("guarantee", y=epsilon, label=Text("+ε", 4.9, epsilon + 0.2)),
                Rule("guarantee", y=-epsilon, label=Text("−ε", -3.9, 0.2 - epsilon)),
                Line(y, loss, "D", Text("log p(y | D) / p(y | D')", -3.9, -3.7)),
            ],
        )

    return Explorer(
        "loss-densities",
        draw,
        [
            Range("noise", "noise", noises, 1.0, "The scale b of Laplace noise, or the σ of Gaussian noise."),
            Range("epsilon", "ε", [0.1, 0.25, 0.4, 0.5, 0.67, 0.8, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0], 0.5),
            Switch("mechanism", "Mechanism", LAWS, "laplace", "Which noise is added to the answer."),
        ],
        x=Axis("output y", -4, 5),
        y=[Axis("density", 0, 1.3), Axis("privacy loss", -4, 4)],
    )


def gaussian_calibration() -> Explorer:
    """How much Gaussian noise (epsilon, delta) needs: the classic formula against the exact value."""
    grid = np.geomspace(0.1, 30.0, 49)
    epsilons = [0.1, 0.2, 0.5, 0.9, 1.5, 2.0, 3.0, 5.0, 8.0, 10.0, 15.0, 20.0, 30.0]

    # One curve serves all positions of the other slider.
    @functools.cache
    def curves(delta: float) -> tuple[list[float], list[float], float]:
        exact = [gaussian_sigma(epsilon=float(e), delta=delta) for e in grid]
        classic = [gaussian_sigma_classic_formula(epsilon=float(e), delta=delta) for e in grid]

        def excess(epsilon: float) -> float:
            formula = gaussian_sigma_classic_formula(epsilon=epsilon, delta=delta)
            return formula - gaussian_sigma(epsilon=epsilon, delta=delta)

        return exact, classic, crossing(excess, low=1.0, high=60.0)

    def draw(log_delta: int, epsilon: float) -> Frame:
        delta = 10.0**log_delta
        exact, classic, false_from = curves(delta)
        needed = gaussian_sigma(epsilon=epsilon, delta=delta)
        printed = gaussian_sigma_classic_formula(epsilon=epsilon, delta=delta)
        true_delta = gaussian_delta(sigma=printed, epsilon=epsilon)
        region = [false_from, *grid[grid >= false_from]] if false_from < 30 else []
        kept = f"has {true_delta / delta:.3g} times" if true_delta > delta else "keeps"
        return Frame(
            title=f"At ε = {epsilon:.3g} the classic formula {kept} the promised δ = {power_of_ten(log_delta)}; "
            f"it falls short for ε above {false_from:.3g}.",
            readout=f"At ε = {epsilon:.3g}: exact σ = {needed:.4g}; the classic σ = {printed:.3g} really has "
            f"δ = {true_delta:.2g}",
            marks=[
                Area(region, np.full(len(region), 0.1), np.full(len(region), 100.0), "source"),
                Rule("muted", x=1.0, label=Text("proved only for ε < 1", 1.06, 0.125, anchor="start")),
                Line(grid, exact, "guarantee", Text("exact", 0.2, exact[0] * 0.17)),
                Line(grid, classic, "source", Text("classic formula", 0.16, classic[0] * 1.15)),
                Points([epsilon], [needed], "measured"),
                Points([epsilon], [printed], "source"),
            ],
        )

    return Explorer(
        "gaussian-calibration",
        draw,
        [
            Range("log_delta", "log₁₀ δ", [-12, -10, -9, -8, -7, -6, -5, -4, -3, -2], -5, "δ as a power of ten.", "{}"),
            Range("epsilon", "ε", epsilons, 0.5, scale="log"),
        ],
        x=Axis("ε", 0.1, 30, "log"),
        y=Axis("σ (noise over sensitivity)", 0.1, 100, "log"),
        asked="both",
    )


def error_region() -> Explorer:
    """The errors (FPR, FNR) that an attacker can reach against an (epsilon, delta)-DP mechanism."""
    fpr = np.union1d(np.geomspace(1e-4, 1.0, 60), [0.0, 0.05, 0.2, 0.4, 0.6, 0.8])
    attacked = {"none": "any mechanism", "laplace": "Laplace", "gaussian": "Gaussian"}

    def percent(share: float) -> str:
        return f"{100 * share:.3g} %" if share < 0.99 else f"{100 * share:.2f} %"  # 99.97 is not 100

    def draw(epsilon: float, delta: float, mechanism: str) -> Frame:
        x = np.union1d(fpr, (1 - delta) / (1 + np.exp(epsilon)))  # with the corner
        bound = fnr_lower_bound(x, epsilon=epsilon, delta=delta)
        found, told = 1 - float(fnr_lower_bound(0.05, epsilon=epsilon, delta=delta)), ""
        curve, name = np.array([]), ""
        if mechanism == "laplace":
            curve, name = laplace_fnr(fpr, scale=1 / epsilon), "Laplace, scale 1/ε"
        elif mechanism == "gaussian" and delta > 0:
            sigma = gaussian_sigma(epsilon=epsilon, delta=delta)
            curve, name = gaussian_fnr(fpr, sigma=sigma), f"Gaussian, σ = {sigma:.3g}"
        if name:
            told = f"; the best on {attacked[mechanism]} noise finds {percent(1 - curve[fpr == 0.05].item())}"
        note = "" if name or mechanism == "none" else "; no Gaussian noise reaches δ = 0"
        return Frame(
            title=f"At a false positive rate of 5 %, an attacker finds at most {percent(found)} of the members{told}.",
            readout=f"ε = {epsilon:.3g}, δ = {delta:g}: at FPR 0.05, FNR is at least {1 - found:.3g}{note}",
            marks=[
                Area(x, np.zeros(len(x)), bound, "guarantee", Text("no attacker gets here", 0.03, 0.05)),
                Line([0, 1], [1, 0], "muted", Text("guessing", 0.72, 0.33, anchor="start")),
                Line(x, bound, "guarantee"),
                Line(fpr if name else [], curve, "D", Text(name, 0.98, 0.93)),
                Points([0.05], [1 - found], "measured"),
            ],
        )

    return Explorer(
        "error-region",
        draw,
        [
            Range("epsilon", "ε", [0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0], 1.0),
            Range("delta", "δ", [0.0, 0.001, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5], 0.0, form="{:g}"),
            Switch("mechanism", "Attack on", attacked, "none", "The best attack on this noise, calibrated to (ε, δ)."),
        ],
        x=Axis("false positive rate (outsiders accused)", 0, 1),
        y=Axis("false negative rate (members missed)", 0, 1),
        asked="both",
    )


def audit_evidence() -> Explorer:
    """How much epsilon an audit can prove from a number of runs, for randomized response of a known epsilon."""
    runs = [int(n) for n in np.unique(np.rint(np.geomspace(10, 1e6, 41)))]

    def proved(n: int, truth: float) -> float:
        # The typical audit: counts at their expectation. The counts of a real audit scatter around it.
        right, wrong = round(n * truth), round(n * (1 - truth))
        return epsilon_lower_bound(
            true_positives=right, positives=n, false_positives=wrong, negatives=n, delta=0.0, confidence=0.95
        ).epsilon_at_least

    ceiling = [proved(n, 1.0) for n in runs]

    def draw(epsilon: float, log_runs: float) -> Frame:
        truth = randomized_response_truth_probability(epsilon=epsilon)
        curve = [proved(n, truth) for n in runs]
        n = round(10**log_runs)
        here, best = proved(n, truth), proved(n, 1.0)
        return Frame(
            title=f"{n:,} runs on each dataset prove ε ≥ {here:.3g}; the mechanism has ε = {epsilon:.3g}.",
            readout=f"ε at least {here:.4g} (95 % confidence); {n:,} + {n:,} runs can prove {best:.3g} at most",
            marks=[
                Rule("guarantee", y=epsilon, label=Text("ε guaranteed", 9e5, epsilon + 0.25)),
                Line(runs, ceiling, "muted", Text("most that these runs can prove", 12, 11.1)),
                Line(runs, curve, "measured", Text("ε proved", 9e5, max(curve[-1] - 0.75, 0.15))),
                Points([n], [here], "measured"),
            ],
        )

    powers = np.arange(1, 6.01, 0.5).tolist()
    return Explorer(
        "audit-evidence",
        draw,
        [
            Range("epsilon", "ε", [0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0], 2.0),
            Range("log_runs", "log₁₀ runs", powers, 3.0, "On each dataset, as a power of ten."),
        ],
        x=Axis("runs on each dataset", 10, 1e6, "log"),
        y=Axis("ε", 0, 12),
        asked="both",
    )
