"""Explorers of chapter 04, The moments accountant."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dpml.accounting import amplification, composition, moments, pld, rdp
from dpml.accounting.guarantee import Bounds, Guarantee
from dpml.accounting.pld import fixed_size
from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Area, Axes, Axis, Frame, Line, Points, Rule, Text
from dpml.classroom.svg import power_of_ten
from dpml.lessons.moments import by_hand
from dpml.lessons.moments.by_hand import DELTA, Q
from dpml.mechanisms import gaussian_loss, gaussian_sigma_classic_formula
from dpml.numerics import crossing, log1p_scaled_expm1

# ---- The explorer of chapter 04 that shows the law of the privacy loss after T steps ----


def loss_distribution() -> Explorer:
    """The privacy loss after T steps: its density, epsilon, and delta as the weighted area beyond epsilon.

    The lower panel has delta as a function of epsilon: from the whole distribution, and from its moments alone.
    """
    axis = np.linspace(0.0, 3.0, 61)
    lams = np.arange(1, 65)
    alphas = np.array([moments.log_moment(float(v), q=Q, sigma=4.0) for v in lams])

    @cache
    def density(steps: int, direction: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        grid, mass = by_hand.lecture_law(steps, direction=direction)
        x = np.linspace(-1.5, 3.0, 91)
        return x, np.maximum(np.interp(x, grid, mass / (grid[1] - grid[0])), 1e-9)

    @cache
    def delta_of(epsilon: float, steps: int, direction: str) -> float:
        return by_hand.delta_of(epsilon, *by_hand.lecture_law(steps, direction=direction))

    @cache
    def profiles(steps: int, direction: str) -> tuple[list[float], list[float]]:
        tight = [delta_of(float(e), steps, direction) for e in axis]
        # What is below the axis is drawn below it: there the transform leaves only rounding errors.
        return [v if v > 1e-12 else 1e-14 for v in tight], [moments_delta(float(e), steps) for e in axis]

    def moments_delta(epsilon: float, steps: int) -> float:
        return float(min(1.0, np.exp(np.min(steps * alphas - lams * epsilon))))

    def draw(steps: int, epsilon: float, direction: str) -> Frame:
        x, p = density(steps, direction)
        tight, loose = profiles(steps, direction)
        delta = delta_of(epsilon, steps, direction)
        bound = moments_delta(epsilon, steps)
        tail = epsilon + (3.0 - epsilon) * np.linspace(0.0, 1.0, 41) ** 2
        height = np.interp(tail, x, p)
        excess = np.maximum(height * -np.expm1(epsilon - tail), 1e-9)
        told = f"weighs δ = {_scientific(delta)}" if delta > 1e-12 else "weighs less than 10⁻¹²"
        rows = [
            [f"{e:g}", _scientific(max(delta_of(e, steps, direction), 1e-12)), _scientific(moments_delta(e, steps))]
            for e in (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
        ]
        return Frame(
            title=(
                f"After {steps:,} steps the loss above ε = {epsilon:.3g} {told}; "
                f"its moments alone prove {_scientific(bound)}."
                if bound > 1e-12
                else f"After {steps:,} steps both curves are below 10⁻¹² at ε = {epsilon:.3g}."
            ),
            readout=(
                f"q = 0.01, σ = 4, T = {steps:,}, one record {'removed' if direction == 'remove' else 'added'}: at "
                f"ε = {epsilon:.3g} the distribution has δ ≈ {_scientific(max(delta, 1e-12))}, the tail bound is "
                f"{_scientific(bound)}"
            ),
            marks=[
                Line(x, p, "D", label="density of the loss", at=(-1.4, 12.0)),
                Area(tail, np.full(len(tail), 1e-9), excess, "D"),
                Line(tail, excess, "D"),
                Rule("guarantee", x=epsilon),
                Text(2.95, 12.0, "shaded: density × (1 − e^(ε − loss))", "D", anchor="end"),
                Line(axis, tight, "D", label="δ(ε), whole distribution", at=(0.06, 1e-10), panel=1),
                Line(axis, loose, "guarantee", label="δ(ε), from moments", at=(2.95, 0.05), anchor="end", panel=1),
                Rule("muted", y=1e-5, label="10⁻⁵", at=(2.95, 2e-5), anchor="end", panel=1),
                Rule("guarantee", x=epsilon, panel=1),
                Points([epsilon, epsilon], [max(delta, 1e-12), bound], "measured", panel=1),
            ],
            table=(["ε", "δ, whole distribution", "δ, moments"], rows),
        )

    powers = [(10.0**k, power_of_ten(k)) for k in (-8, -6, -4, -2, 0)]
    lower = [(10.0**k, power_of_ten(k)) for k in (-12, -9, -6, -3, 0)]
    return Explorer(
        "loss-distribution",
        draw=draw,
        controls=[
            Range("steps", "T", [100, 300, 1000, 2000, 5000, 10_000, 20_000, 40_000], 10_000, "{:,}", "log"),
            Range(
                "epsilon", "ε", [0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 0.95, 1.1, 1.26, 1.5, 1.75, 2.0, 2.5], 0.95, "{:.3g}"
            ),
            Switch("direction", "The record is", {"remove": "removed", "add": "added"}, "remove"),
        ],
        axes=[
            Axes(Axis("privacy loss", -1.5, 3.0), Axis("density", 1e-8, 50.0, "log", ticks=powers)),
            Axes(Axis("ε", 0.0, 3.0), Axis("δ", 1e-12, 1.0, "log", ticks=lower)),
        ],
    )


def _scientific(value: float) -> str:
    """Two digits, as a reader writes them: 5.2 · 10⁻⁶."""
    if value >= 0.01:
        return f"{value:.2g}"
    exponent = math.floor(math.log10(value)) if value > 0 else 0
    return f"{value / 10.0**exponent:.2g}·{power_of_ten(exponent)}" if value > 0 else "0"


# ---- The explorer of chapter 04 that redraws the lecture's comparison of accountants ----


def honest_figure() -> Explorer:
    """The lecture's comparison, computed: what each theorem gives over T at q = 0.01, sigma = 4, delta = 1e-5.

    Three sets of curves: the two that the slide compares, all bounds for one added or removed record, and what holds
    for samples of fixed size and one replaced record.
    """
    sigma = 4.0
    grid = np.array([10, 30, 100, 300, 1000, 2000, 4000, 10_000, 20_000, 40_000])
    few = [100, 1000, 10_000, 40_000]
    parts = np.linspace(0.02, 0.98, 49)

    def advanced(steps: int, amplified: Callable[[float], float]) -> float:
        """Classic Gaussian epsilon of a step, amplified, composed; the best split of delta of those in `parts`."""
        best = math.inf
        for part in parts:
            delta_step = float(part) * DELTA / (steps * Q)
            base = gaussian_sigma_classic_formula(epsilon=1.0, delta=delta_step) / sigma
            whole = composition.advanced(
                epsilon=amplified(base), delta=Q * delta_step, k=steps, delta_prime=DELTA * (1 - float(part))
            )
            best = min(best, whole.epsilon)
        return best

    def slide(base: float) -> float:
        return amplification.lecture_bound(epsilon=base, q=Q)

    def tight_sampling(base: float) -> float:
        return amplification.amplify(epsilon=base, q=Q)

    def heuristic(base: float) -> float:
        return Q * base

    @cache
    def at(steps: int) -> dict[str, float]:
        """What does not need the loss distribution, at one T."""
        return {
            "slide": advanced(steps, slide),
            "tight": advanced(steps, tight_sampling),
            "heuristic": advanced(steps, heuristic),
            "moments": moments.epsilon(q=Q, sigma=sigma, steps=steps, delta=DELTA).epsilon,
            "renyi": rdp.epsilon(q=Q, sigma=sigma, steps=steps, delta=DELTA).epsilon,
        }

    @cache
    def exact(steps: int) -> float:
        return pld.epsilon(q=Q, sigma=sigma, steps=steps, delta=DELTA).epsilon

    @cache
    def fixed(steps: int) -> Bounds:
        return fixed_size.epsilon_bounds(q=Q, sigma=sigma, steps=steps, delta=DELTA)

    @cache
    def real_pair(steps: int) -> float:
        """epsilon of one pair of datasets under replace-one."""

        def excess(epsilon: float) -> float:
            return by_hand.delta_of(epsilon, *by_hand.lecture_law(steps, direction="replace")) - DELTA

        return crossing(excess, low=0.0, high=7.0)

    def curve(name: str) -> list[float]:
        return [at(int(v))[name] for v in grid]

    def draw(steps: int, shown: str) -> Frame:
        here = at(steps)
        lecture, every, replaced = shown == "lecture", shown == "all", shown == "replace-one"

        def only(when: bool, values: list[float]) -> tuple[list[float], list[float]]:
            return ([float(v) for v in grid], values) if when else ([], [])

        if lecture:
            title = (
                f"T = {steps:,}: the lecture's advanced composition gives ε = {here['slide']:.3g}, its moments "
                f"accountant {here['moments']:.3g}. The published upper curve fits ε = q ε₀ only: "
                f"{here['heuristic']:.3g}."
            )
        elif every:
            title = (
                f"T = {steps:,}: moments accountant {here['moments']:.3g}, Rényi with the new conversion "
                f"{here['renyi']:.3g}; the truth is {exact(steps):.3g}."
            )
        else:
            title = (
                f"T = {steps:,}: a replaced record has ε up to {fixed(steps).upper:.3g}, and some pair really has "
                f"{real_pair(steps):.3g}; {exact(steps):.3g} is for an added or removed one."
            )
        rows = [
            [f"{v:,}"]
            + [f"{at(v)[name]:.4g}" for name in ("slide", "tight", "heuristic", "moments", "renyi")]
            + [f"{exact(v):.4g}", f"{fixed(v).upper:.4g}"]
            for v in few
        ]
        dots = {
            "lecture": [here["slide"], here["heuristic"], here["moments"]],
            "all": [here["slide"], here["tight"], here["moments"], here["renyi"], exact(steps)],
            "replace-one": [exact(steps), real_pair(steps), fixed(steps).upper],
        }[shown]
        slow = [float(v) for v in grid], [exact(int(v)) for v in grid]
        upper = [fixed(int(v)).upper for v in grid] if replaced else []
        pair = [real_pair(int(v)) for v in grid] if replaced else []
        return Frame(
            title=title,
            readout=(
                f"q = 0.01, σ = 4, δ = 10⁻⁵, T = {steps:,}. Add/remove: slide {here['slide']:.4g}"
                f", tight amplification {here['tight']:.4g}, moments {here['moments']:.5g}, Rényi {here['renyi']:.5g}, "
                f"loss distribution {exact(steps):.5g}. Replace-one: {fixed(steps).upper:.5g}"
            ),
            marks=[
                Rule("muted", x=float(steps)),
                Line(
                    *only(lecture or every, curve("slide")),
                    "source",
                    _if(lecture or every, "advanced, slide's amplification"),
                    (11.0, 300.0),
                ),
                Line(*only(lecture, curve("heuristic")), "D'", _if(lecture, "with ε = q ε₀, no theorem"), (11.0, 0.09)),
                Line(*only(every, curve("tight")), "muted", _if(every, "advanced, tight amplification"), (11.0, 130.0)),
                Line(
                    *only(lecture or every, curve("moments")),
                    "guarantee",
                    _if(lecture or every, "moments accountant"),
                    (250.0, 0.2) if lecture else (11.0, 0.2),
                ),
                Line(*only(every, curve("renyi")), "D'", _if(every, "Rényi, new conversion"), (600.0, 0.055)),
                Line(
                    *(slow if every or replaced else ([], [])),
                    "D",
                    _if(every or replaced, "exact, add/remove"),
                    (11.0, 0.0145),
                ),
                Line(
                    *only(replaced, upper),
                    "guarantee",
                    _if(replaced, "guarantee, replace-one, fixed size"),
                    (11.0, 8.0),
                ),
                Line(*only(replaced, pair), "measured", _if(replaced, "a real pair, replace-one"), (600.0, 0.055)),
                Points([float(steps)] * len(dots), dots, "measured"),
            ],
            table=(
                ["T", "slide", "tight amplification", "ε = q ε₀", "moments", "Rényi", "exact", "replace-one"],
                rows,
            ),
        )

    return Explorer(
        "honest-figure",
        draw=draw,
        controls=[
            Range("steps", "T", grid.tolist(), 10_000, "{:,}", "log"),
            Switch(
                "shown",
                "Curves",
                {"lecture": "the lecture's two", "all": "all, add/remove", "replace-one": "replace-one"},
                "lecture",
            ),
        ],
        axes=Axes(Axis("steps T", 10.0, 4e4, "log"), Axis("ε at δ = 10⁻⁵", 0.01, 500.0, "log")),
    )


def _if(shown: bool, label: str) -> str:
    return label if shown else ""


# ---- Explorers of chapter 04 about the order: where a moment lives, and which one gives epsilon ----


def _log_integrand(z: NDArray[np.float64], *, lam: float, q: float, sigma: float) -> NDArray[np.float64]:
    """log of mu_0(z) (mu(z) / mu_0(z))^(lam + 1), whose integral is E2."""
    loss = log1p_scaled_expm1(-gaussian_loss(z, sigma=sigma), q=q)
    log_density = -0.5 * (z / sigma) ** 2 - math.log(sigma * math.sqrt(2 * math.pi))
    return np.asarray(log_density + (lam + 1) * loss)


def e2_integrand() -> Explorer:
    """Where E2 lives: its integrand in log scale, with the second peak at z = lambda + 1, and a fixed window.

    The lower panel has the log-moment over lambda: the true one, and what is left of it inside the window.
    """
    lams = [1, 2, 4, 8, 10, 16, 32, 37, 48, 64, 100, 130, 144, 146, 150, 160]
    low, high = -20.0, 180.0
    curve = np.unique(np.concatenate([np.arange(1, 20, 1.5), np.arange(20, 171, 6), [9, 37, 146, 148, 150]]))
    floor = -30.0

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
        y = _log_integrand(z, lam=lam, q=Q, sigma=sigma) / math.log(10)
        return z, np.maximum(y, floor)

    def draw(lam: int, width: float, preset: str) -> Frame:
        sigma = float(preset)
        half = width * sigma
        right = moments.log_moment(float(lam), q=Q, sigma=sigma)
        wrong = inside(float(lam), sigma, half)
        change = 2 * sigma**2 * math.log(1 / Q)
        z, y = shape(float(lam), sigma)
        second = float(_log_integrand(np.array([lam + 1.0]), lam=lam, q=Q, sigma=sigma)[0]) / math.log(10)
        share = -math.expm1(min(0.0, wrong - right))
        if right - wrong > 1e-3 * right:
            told = f"α({lam}) = {_short(wrong)}" if wrong > 0 else f"α({lam}) below 0"
            where = f"misses the peak at z = {lam + 1}" if half < lam + 1 and lam > change else "cuts off too much"
            title = f"The window ±{half:.3g} {where}: it gives {told}; the truth is {_short(right)}."
        else:
            title = f"The window ±{half:.3g} is wide enough here: α({lam}) = {_short(right)}."
        rows = [
            [f"{v:g}", _short(moments.log_moment(float(v), q=Q, sigma=sigma)), _short(inside(float(v), sigma, half))]
            for v in (1, 8, 32, 64, 146, 150, 160)
        ]
        return Frame(
            title=title,
            readout=(
                f"q = 0.01, σ = {sigma:g}, λ = {lam}: α = {right:.5g}; inside ±{half:.3g}: {wrong:.5g}, "
                f"{share:.2%} of E2 is missing; second peak wins from λ = {change:.1f}"
            ),
            marks=[
                Area([-half, half], [floor, floor], [30.0, 30.0], "source"),
                Rule("source", x=half),
                Rule("source", x=-half),
                Rule("muted", y=0.0),
                Line(z, y, "D", label="integrand of E2", at=(52.0, 25.0)),
                Text(52.0, 17.0, f"at z = λ + 1 = {lam + 1}: {power_of_ten(round(second))}", "D"),
                Text(0.0, -28.5, f"window ±{half:.3g}" if half >= 15 else "window", "source", anchor="middle"),
                Rule("muted", x=change, label=f"λ = {change:.3g}", at=(change + 1.0, 3e4), panel=1),
                Line(curve, truth(sigma), "guarantee", label="α(λ), right", at=(178.0, 3e4), anchor="end", panel=1),
                Line(
                    curve,
                    windowed(sigma, half),
                    "source",
                    label="inside the window",
                    at=(178.0, 2e-5),
                    anchor="end",
                    panel=1,
                ),
                Points([lam], [right], "guarantee", panel=1),
                Points([lam], [max(wrong, 1e-9)], "source", panel=1),
            ],
            table=(["λ", "α(λ)", "inside the window"], rows),
        )

    heights = [(float(k), power_of_ten(k)) for k in (-30, -20, -10, 0, 10, 20, 30)]
    powers = [(10.0**k, power_of_ten(k)) for k in (-6, -4, -2, 0, 2, 4)]
    return Explorer(
        "e2-integrand",
        draw=draw,
        controls=[
            Range("lam", "λ", lams, 150),
            Range("width", "window / σ", [3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 40.0], 10.0),
            Switch("preset", "Noise", {"1": "σ = 1", "2": "σ = 2", "4": "σ = 4"}, "4"),
        ],
        axes=[
            Axes(Axis("z", low, high), Axis("integrand", floor, 30.0, ticks=heights)),
            Axes(Axis("λ", low, high), Axis("log-moment α(λ)", 1e-6, 1e5, "log", ticks=powers)),
        ],
    )


def _short(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def which_lambda() -> Explorer:
    """Every lambda gives a bound; the smallest one counts. Where is it, and is it inside the grid?

    q = 0.01, delta = 1e-5. The curves are eps(lambda) by the lecture's conversion and by the improved one.
    """
    grid = np.geomspace(0.02, 1000.0, 90)

    @cache
    def divergences(sigma: float) -> NDArray[np.float64]:
        return np.asarray(rdp.subsampled_gaussian(grid + 1.0, q=Q, sigma=sigma))

    @cache
    def at_integers(sigma: float, last: int) -> NDArray[np.float64]:
        return np.array([moments.log_moment(float(v), q=Q, sigma=sigma) for v in range(1, last + 1)])

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
        if lam == max_lam:
            title = f"T = {steps:,}: the best λ of the grid is its edge {lam}, ε = {lecture.epsilon:.3g}{how}."
        elif lam == 1 and how:
            title = f"T = {steps:,}: the best λ of the grid is its edge 1, ε = {lecture.epsilon:.3g}{how}."
        else:
            title = f"T = {steps:,}: λ = {lam} wins, inside the grid, with ε = {lecture.epsilon:.3g}."
        rows = [
            [f"{v}", f"{(steps * a - math.log(DELTA)) / v:.4g}", f"{-math.log(DELTA) / v:.4g}"]
            for v in (1, 2, 4, 8, 16, 32)
            for a in [float(at_integers(sigma, 32)[v - 1])]
        ]
        shown = max(0.0105, min(900.0, lecture.epsilon))
        return Frame(
            title=title,
            readout=(
                f"q = 0.01, δ = 10⁻⁵, σ = {sigma:g}, T = {steps:,}: lecture, λ ≤ {max_lam}: ε = {lecture.epsilon:.4g} "
                f"at λ = {lam}; all real λ: {best:.4g}; improved conversion: {float(improved[j]):.4g} at λ = "
                f"{float(grid[j]):.3g}"
            ),
            marks=[
                Area([max_lam, 1000.0], [0.01, 0.01], [1000.0, 1000.0], "muted"),
                Area([0.02, 1.0], [0.01, 0.01], [1000.0, 1000.0], "muted"),
                Rule("muted", x=float(max_lam), label=f"grid ends at λ = {max_lam}", at=(900.0, 600.0), anchor="end"),
                Line(grid, -math.log(DELTA) / grid, "muted", label="log(1/δ)/λ", at=(300.0, 0.016), anchor="end"),
                Line(grid, np.minimum(classic, 1e4), "source", label="lecture's conversion", at=(0.03, 600.0)),
                Line(grid, np.clip(improved, 1e-3, 1e4), "guarantee", label="improved conversion", at=(0.03, 0.055)),
                Points([lam], [shown], "D", label=f"λ = {lam}, ε = {lecture.epsilon:.3g}", at=(0.03, 0.022)),
            ],
            table=(["λ", "ε from this λ", "of it log(1/δ)/λ"], rows),
        )

    return Explorer(
        "which-lambda",
        draw=draw,
        controls=[
            Range("steps", "T", [1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000], 1000, "{:,}", "log"),
            Range("sigma", "σ", [0.5, 0.6, 0.7, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0], 4.0, "{:.3g}", "log"),
            Switch("last", "Grid", {"32": "λ ≤ 32", "64": "λ ≤ 64", "256": "λ ≤ 256"}, "32"),
        ],
        axes=Axes(Axis("λ", 0.02, 1000.0, "log"), Axis("ε", 0.01, 1000.0, "log")),
    )
