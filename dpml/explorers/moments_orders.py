"""Explorers of chapter 04 about the order: where a moment lives, and which one gives epsilon."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dpml.accounting import moments, rdp
from dpml.accounting.guarantee import Guarantee
from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Area, Axes, Axis, Frame, Line, Points, Rule, Text
from dpml.classroom.svg import power_of_ten
from dpml.explorers._by_hand import DELTA, Q
from dpml.mechanisms import gaussian_loss
from dpml.numerics import log1p_scaled_expm1

__all__ = ["e2_integrand", "which_lambda"]


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
