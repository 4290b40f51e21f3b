"""Explorers of chapter 04, The moments accountant: all at the figure's q = 0.01 and delta = 1e-5."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dpml.accounting import composition, moments, pld, rdp
from dpml.accounting.amplification import amplify, lecture_bound
from dpml.accounting.guarantee import Bounds, Guarantee
from dpml.accounting.pld import fixed_size
from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Area, Axis, Frame, Key, Line, Points, Role, Rule, Text, shown
from dpml.classroom.svg import power_of_ten, scientific
from dpml.lessons.moments import by_hand
from dpml.lessons.moments.by_hand import DELTA, SIGMA, Q
from dpml.mechanisms import gaussian_loss, gaussian_sigma_classic_formula
from dpml.numerics import log1p_scaled_expm1


def e2_integrand() -> Explorer:
    """Where E2 lives: its integrand in log scale, with the second peak at z = lambda + 1, and a fixed window.

    The second panel has the log-moment over lambda: the true one, and what is left of it inside the window.
    """
    lams = [1, 2, 4, 8, 10, 16, 32, 37, 48, 64, 100, 130, 144, 146, 150, 160]
    widths = [3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 40.0]
    low, high, floor = -20.0, 180.0, -30.0
    curve = np.unique(np.concatenate([np.arange(1, 20, 1.5), np.arange(20, 171, 6), [9, 37, 146, 148, 150]]))

    @cache
    def truth(sigma: float) -> list[float]:
        return [moments.log_moment(float(v), q=Q, sigma=sigma) for v in curve]

    @cache
    def inside(lam: float, sigma: float, width: float) -> float:
        """The log-moment that a quadrature over |z| <= width gives: the mistake that this figure is about."""
        z = np.linspace(-width, width, 1201)
        ends = np.full(len(z), 1.0)
        ends[[0, -1]] = 0.5
        logs = _log_integrand(z, lam=lam, q=Q, sigma=sigma) + np.log(ends * (z[1] - z[0]))
        return float(logsumexp(logs))

    @cache
    def windowed(sigma: float, width: float) -> list[float]:
        return [max(inside(float(v), sigma, width), 1e-9) for v in curve]

    @cache
    def shape(lam: float, sigma: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        peaks = [np.linspace(c - 6 * sigma, c + 6 * sigma, 25) for c in (0.0, lam + 1.0)]
        z = np.unique(np.concatenate([np.linspace(low, high, 50), *peaks]))
        z = z[(z >= low) & (z <= high)]
        return z, np.maximum(_log_integrand(z, lam=lam, q=Q, sigma=sigma) / math.log(10), floor)

    def draw(lam: int, width: float, preset: str) -> Frame:
        sigma = float(preset)
        half = width * sigma
        right, wrong = moments.log_moment(float(lam), q=Q, sigma=sigma), inside(float(lam), sigma, half)
        change = 2 * sigma**2 * math.log(1 / Q)
        second = float(_log_integrand(np.array([lam + 1.0]), lam=lam, q=Q, sigma=sigma)[0]) / math.log(10)
        share = -math.expm1(min(0.0, wrong - right))
        if right - wrong > 1e-3 * right:
            told = f"α({lam}) = {_short(wrong)}" if wrong > 0 else f"α({lam}) below 0"
            where = f"misses the peak at z = {lam + 1}" if half < lam + 1 and lam > change else "cuts off too much"
            title = f"The window ±{half:.3g} {where}: it gives {told}; the truth is {_short(right)}."
        else:
            title = f"The window ±{half:.3g} is wide enough here: α({lam}) = {_short(right)}."
        window = Text(f"window ±{half:.3g}" if half >= 15 else "window", 0.0, -28.5, anchor="middle")
        return Frame(
            title=title,
            readout=f"q = 0.01, σ = {sigma:g}, λ = {lam}: α = {right:.5g}; inside ±{half:.3g}: {wrong:.5g}, "
            f"{share:.2%} of E2 is missing; second peak wins from λ = {change:.1f}",
            marks=[
                Area([-half, half], [floor, floor], [30.0, 30.0], "source", window),
                Rule("source", x=half),
                Rule("source", x=-half),
                Rule("muted", y=0.0),
                Line(*shape(float(lam), sigma), "D", Text("integrand of E2", 52.0, 25.0)),
                Text(f"at z = λ + 1 = {lam + 1}: {power_of_ten(round(second))}", 52.0, 17.0, "D"),
            ],
            beside=[
                Rule("muted", x=change, label=Text(f"λ = {change:.3g}", change + (1 if change < 80 else -5), 3e4)),
                Line(curve, truth(sigma), "guarantee", Text("α(λ), right", 178.0, 3e4)),
                Line(curve, windowed(sigma, half), "source", Text("inside the window", 178.0, 2e-5)),
                Points([lam], [right], "guarantee"),
                Points([lam], [max(wrong, 1e-9)], "source"),
            ],
        )

    heights = [(float(k), power_of_ten(k)) for k in (-30, -20, -10, 0, 10, 20, 30)]
    return Explorer(
        "e2-integrand",
        draw,
        [
            Range("lam", "λ", lams, 150),
            Range("width", "window / σ", widths, 10.0, "Half the width of the window that is integrated."),
            Switch("preset", "Noise", {"1": "σ = 1", "2": "σ = 2", "4": "σ = 4"}, "4", "The noise multiplier."),
        ],
        x=[Axis("z", low, high), Axis("λ", low, high)],
        y=[
            Axis("integrand", floor, 30.0, ticks=heights),
            Axis("log-moment α(λ)", 1e-6, 1e5, "log", ticks=(1e-6, 1e-4, 1e-2, 1, 100, 1e4)),
        ],
        asked="right",
    )


def _log_integrand(z: NDArray[np.float64], *, lam: float, q: float, sigma: float) -> NDArray[np.float64]:
    """log of mu_0(z) (mu(z) / mu_0(z))^(lam + 1), whose integral is E2."""
    loss = log1p_scaled_expm1(-gaussian_loss(z, sigma=sigma), q=q)
    log_density = -0.5 * (z / sigma) ** 2 - math.log(sigma * math.sqrt(2 * math.pi))
    return np.asarray(log_density + (lam + 1) * loss)


def _short(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def which_lambda() -> Explorer:
    """Every lambda gives a bound; the smallest one counts. Where is it, and is it inside the grid?

    The curves are eps(lambda) by the tail bound and by the improved conversion.
    """
    grid = np.geomspace(0.02, 1000.0, 90)

    @cache
    def divergences(sigma: float) -> NDArray[np.float64]:
        return np.asarray(rdp.subsampled_gaussian(grid + 1.0, q=Q, sigma=sigma))

    @cache
    def widest(steps: int, sigma: float) -> Guarantee:
        return moments.epsilon(q=Q, sigma=sigma, steps=steps, delta=DELTA, max_lam=256)

    def draw(steps: int, sigma: float, last: str) -> Frame:
        max_lam = int(last)
        total = steps * divergences(sigma)
        classic = np.asarray(rdp.conversion_classic(grid + 1.0, rdp=total, delta=DELTA))
        improved = np.asarray(rdp.conversion_improved(grid + 1.0, rdp=total, delta=DELTA))
        lecture = moments.epsilon(q=Q, sigma=sigma, steps=steps, delta=DELTA, max_lam=max_lam)
        lam = round(float(lecture.order or 2.0)) - 1
        i, j = int(np.argmin(classic)), int(np.argmin(improved))
        best, best_lam = float(classic[i]), float(grid[i])
        wide = widest(steps, sigma)
        if wide.epsilon < best and wide.order is not None:
            best, best_lam = wide.epsilon, wide.order - 1.0
        how = "" if best > 0.99 * lecture.epsilon else f"; λ = {best_lam:.3g} would give {best:.3g}"
        if lam == max_lam or (lam == 1 and how):
            title = f"T = {steps:,}: the best λ of the grid is its edge {lam}, ε = {lecture.epsilon:.3g}{how}."
        else:
            title = f"T = {steps:,}: λ = {lam} wins, inside the grid, with ε = {lecture.epsilon:.3g}."
        return Frame(
            title=title,
            readout=f"q = 0.01, δ = 10⁻⁵, σ = {sigma:g}, T = {steps:,}: tail bound, λ ≤ {max_lam}: ε = "
            f"{lecture.epsilon:.4g} at λ = {lam}; all real λ: {best:.4g}; improved conversion: "
            f"{float(improved[j]):.4g} at λ = {float(grid[j]):.3g}",
            marks=[
                Area([max_lam, 1000.0], [0.01, 0.01], [1000.0, 1000.0], "muted"),
                Area([0.02, 1.0], [0.01, 0.01], [1000.0, 1000.0], "muted"),
                Rule("muted", x=float(max_lam), label=Text(f"grid ends at λ = {max_lam}", 900.0, 600.0)),
                Line(grid, -math.log(DELTA) / grid, "muted", Text("log(1/δ)/λ", 300.0, 0.016)),
                Line(grid, classic, "source", Key("by the tail bound", 0.075, 0.14)),
                Line(grid, np.maximum(improved, 1e-3), "guarantee", Key("improved conversion", 0.075, 0.055)),
                Points([lam], [lecture.epsilon], "D", Text(f"λ = {lam}, ε = {lecture.epsilon:.3g}", 0.075, 0.022)),
            ],
        )

    counts = [1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000]
    grids = {"32": "λ ≤ 32", "64": "λ ≤ 64", "256": "λ ≤ 256"}
    return Explorer(
        "which-lambda",
        draw,
        [
            Range("steps", "T", counts, 1000, form="{:,}", scale="log"),
            Range("sigma", "σ", [0.5, 0.6, 0.7, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0], 4.0, scale="log"),
            Switch("last", "Grid", grids, "32", "The whole numbers λ that the accountant tries."),
        ],
        x=Axis("λ", 0.02, 1000.0, "log"),
        y=Axis("ε", 0.01, 1000.0, "log"),
    )


def loss_distribution() -> Explorer:
    """The privacy loss after T steps: its density, epsilon, and delta as the weighted area beyond epsilon.

    The second panel has delta as a function of epsilon: from the whole distribution, and from its moments alone.
    """
    x, axis = np.linspace(-1.5, 3.0, 91), np.linspace(0.0, 3.0, 61)
    lams = np.arange(1, 65)
    alphas = np.array([moments.log_moment(float(v), q=Q, sigma=SIGMA) for v in lams])

    @cache
    def density(steps: int, direction: str) -> NDArray[np.float64]:
        grid, mass = by_hand.lecture_law(steps, direction=direction)
        return np.asarray(np.maximum(np.interp(x, grid, mass / (grid[1] - grid[0])), 1e-9))

    @cache
    def delta_of(epsilon: float, steps: int, direction: str) -> float:
        return by_hand.delta_of(epsilon, *by_hand.lecture_law(steps, direction=direction))

    def moments_delta(epsilon: float, steps: int) -> float:
        return float(min(1.0, np.exp(np.min(steps * alphas - lams * epsilon))))

    @cache
    def profiles(steps: int, direction: str) -> tuple[list[float], list[float]]:
        tight = [delta_of(float(e), steps, direction) for e in axis]
        # What is below the axis is drawn below it: there the transform leaves only rounding errors.
        return [v if v > 1e-12 else 1e-14 for v in tight], [moments_delta(float(e), steps) for e in axis]

    def draw(steps: int, epsilon: float, direction: str) -> Frame:
        p = density(steps, direction)
        tight, loose = profiles(steps, direction)
        delta, bound = delta_of(epsilon, steps, direction), moments_delta(epsilon, steps)
        tail = epsilon + (3.0 - epsilon) * np.linspace(0.0, 1.0, 41) ** 2
        excess = np.maximum(np.interp(tail, x, p) * -np.expm1(epsilon - tail), 1e-9)
        # The name of the whole distribution stands where neither curve is, above 10⁻¹⁰: right of both, or left of both.
        last = axis[int(np.sum(np.asarray(loose) > 1e-10)) - 1]
        named = (last + 0.15 if last < 1.6 else 0.12), 1e-10
        told = f"weighs δ = {scientific(delta)}" if delta > 1e-12 else "weighs less than 10⁻¹²"
        return Frame(
            title=(
                f"After {steps:,} steps the loss above ε = {epsilon:.3g} {told}; "
                f"its moments alone prove {scientific(bound)}."
                if bound > 1e-12
                else f"After {steps:,} steps both curves are below 10⁻¹² at ε = {epsilon:.3g}."
            ),
            readout=f"q = 0.01, σ = 4, T = {steps:,}, one record {'removed' if direction == 'remove' else 'added'}: at "
            f"ε = {epsilon:.3g} the distribution has δ ≈ {scientific(max(delta, 1e-12))}, the tail bound is "
            f"{scientific(bound)}",
            marks=[
                Line(x, p, "D", Text("density of the loss", -1.4, 12.0)),
                Area(tail, np.full(len(tail), 1e-9), excess, "D"),
                Line(tail, excess, "D"),
                Rule("guarantee", x=epsilon),
                Text("shaded: × (1 − e^(ε − loss))", 2.95, 12.0, "D"),
            ],
            beside=[
                Line(axis, tight, "D", Text("δ(ε), whole distribution", *named, anchor="start")),
                Line(axis, loose, "guarantee", Text("δ(ε), from moments", 2.95, 0.05)),
                Rule("muted", y=1e-5, label=Text("10⁻⁵", 2.95, 2e-5)),
                Rule("guarantee", x=epsilon),
                Points([epsilon, epsilon], [max(delta, 1e-12), bound], "measured"),
            ],
        )

    counts = [100, 300, 1000, 2000, 5000, 10_000, 20_000, 40_000]
    epsilons = [0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 0.95, 1.1, 1.26, 1.5, 1.75, 2.0, 2.5]
    directions = {"remove": "removed", "add": "added"}
    return Explorer(
        "loss-distribution",
        draw,
        [
            Range("steps", "T", counts, 10_000, form="{:,}", scale="log"),
            Range("epsilon", "ε", epsilons, 0.95, "Where the tail of the loss begins."),
            Switch("direction", "The record is", directions, "remove", "How D′ comes from D."),
        ],
        x=[Axis("privacy loss", -1.5, 3.0), Axis("ε", 0.0, 3.0)],
        y=[
            Axis("density", 1e-8, 50.0, "log", ticks=(1e-8, 1e-6, 1e-4, 1e-2, 1)),
            Axis("δ", 1e-12, 1.0, "log", ticks=(1e-12, 1e-9, 1e-6, 1e-3, 1)),
        ],
        asked="right",
    )


def honest_figure() -> Explorer:
    """The famous comparison, computed: what each theorem gives over T at q = 0.01, sigma = 4, delta = 1e-5.

    Three sets of curves: the two that the figure compares, all bounds for one added or removed record, and what holds
    for samples of fixed size and one replaced record.
    """
    grid = [10, 30, 100, 300, 1000, 2000, 4000, 10_000, 20_000, 40_000]
    parts = np.linspace(0.02, 0.98, 49).tolist()
    amplified: dict[str, Callable[..., float]] = {
        "slide": partial(lecture_bound, q=Q),
        "tight": partial(amplify, q=Q),
        "heuristic": lambda epsilon: Q * epsilon,
    }

    def advanced(steps: int, rule: str, part: float) -> float:
        """Classic Gaussian epsilon of a step, amplified, composed; this part of delta is for the steps."""
        delta_step = part * DELTA / (steps * Q)
        base = gaussian_sigma_classic_formula(epsilon=1.0, delta=delta_step) / SIGMA
        epsilon, rest = amplified[rule](epsilon=base), DELTA * (1 - part)
        return composition.advanced(epsilon=epsilon, delta=Q * delta_step, k=steps, delta_prime=rest).epsilon

    @cache
    def at(steps: int) -> dict[str, float]:
        """What each theorem gives at one T; of advanced composition the best split of delta of those in `parts`."""
        setting: dict[str, Any] = {"q": Q, "sigma": SIGMA, "steps": steps, "delta": DELTA}
        return {
            **{rule: min(advanced(steps, rule, part) for part in parts) for rule in amplified},
            "moments": moments.epsilon(**setting).epsilon,
            "renyi": rdp.epsilon(**setting).epsilon,
            "exact": pld.epsilon(**setting).epsilon,
        }

    @cache
    def fixed(steps: int) -> Bounds:
        """What holds for every pair under replace-one, and what one pair of datasets has at least."""
        return fixed_size.epsilon_bounds(q=Q, sigma=SIGMA, steps=steps, delta=DELTA)

    def draw(steps: int, curves: str) -> Frame:
        here = at(steps)
        lecture, every, replaced = curves == "lecture", curves == "all", curves == "replace-one"

        def line(when: bool, name: str, role: Role, label: Text) -> Line:
            return shown(when, Line(grid, [at(n)[name] for n in grid], role, label))

        if lecture:
            title = (
                f"T = {steps:,}: advanced composition gives ε = {here['slide']:.3g}, the moments "
                f"accountant {here['moments']:.3g}. The published upper curve fits ε = q ε₀ only: "
                f"{here['heuristic']:.3g}."
            )
            dots = [here[name] for name in ("slide", "heuristic", "moments")]
        elif every:
            title = (
                f"T = {steps:,}: moments accountant {here['moments']:.3g}, Rényi with the improved conversion "
                f"{here['renyi']:.3g}; the truth is {here['exact']:.3g}."
            )
            dots = [here[name] for name in ("slide", "tight", "moments", "renyi", "exact")]
        else:
            title = (
                f"T = {steps:,}: a replaced record has ε up to {fixed(steps).upper:.3g}, and some pair really has "
                f"{fixed(steps).lower:.3g}; {here['exact']:.3g} is for an added or removed one."
            )
            dots = [here["exact"], fixed(steps).lower, fixed(steps).upper]
        upper, pair = [fixed(n).upper for n in grid], [fixed(n).lower for n in grid]
        return Frame(
            title=title,
            readout=f"q = 0.01, σ = 4, δ = 10⁻⁵, T = {steps:,}. Add/remove: loose amplification {here['slide']:.4g}"
            f", tight amplification {here['tight']:.4g}, moments {here['moments']:.5g}, Rényi {here['renyi']:.5g}, "
            f"loss distribution {here['exact']:.5g}. Replace-one: {fixed(steps).upper:.5g}",
            marks=[
                Rule("muted", x=float(steps)),
                line(not replaced, "slide", "source", Text("advanced, loose amplification", 11.0, 300.0)),
                line(lecture, "heuristic", "D'", Text("with ε = q ε₀, no theorem", 11.0, 0.09)),
                line(every, "tight", "muted", Text("advanced, tight amplification", 11.0, 130.0)),
                line(not replaced, "moments", "guarantee", Text("moments accountant", 250.0 if lecture else 11.0, 0.2)),
                line(every, "renyi", "D'", Text("Rényi, improved", 600.0, 0.055)),
                line(not lecture, "exact", "D", Text("exact, add/remove", 11.0, 0.0145)),
                shown(replaced, Line(grid, upper, "guarantee", Key("guarantee, replace-one, fixed size", 22.0, 40.0))),
                shown(replaced, Line(grid, pair, "measured", Key("a real pair, replace-one", 22.0, 20.0))),
                Points([float(steps)] * len(dots), dots, "measured"),
            ],
        )

    options = {"lecture": "the figure's two", "all": "all, add/remove", "replace-one": "replace-one"}
    meaning = "Which theorems are shown, and how two datasets are neighbours."
    return Explorer(
        "honest-figure",
        draw,
        [
            Range("steps", "T", grid, 10_000, form="{:,}", scale="log"),
            Switch("curves", "Curves", options, "lecture", meaning),
        ],
        x=Axis("steps T", 10.0, 4e4, "log"),
        y=Axis("ε at δ = 10⁻⁵", 0.01, 500.0, "log"),
        asked="both",
    )
