"""The explorer of chapter 10 that shows at which orders the paper's bound for sampled steps may be used."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Area, Axes, Axis, Frame, Line, Points, Rule
from dpml.classroom.svg import power_of_ten
from dpml.ptr import privacy

__all__ = ["orders"]

ORDERS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 24, 28, 32)
PRESETS = {"mnist": (1.1, 0.5), "wide": (6.0, 2.0 / 3.0), "narrow": (40.0, 0.1)}


class _Setting(NamedTuple):
    sigma: float
    tau: float
    scale: float = 1.0
    delta0: float = 1e-8


def orders() -> Explorer:
    """The Rényi divergence of one sampled step at each order: exact, the black-box bound, and Theorem 4.4.

    The shaded orders satisfy the conditions of the theorem; outside them its formula may fall below the truth.
    """

    @cache
    def curves(q: float, preset: str, orders: tuple[int, ...]) -> tuple[list[float], list[float], list[float]]:
        given = {"q": q, **_Setting(*PRESETS[preset])._asdict()}
        values = np.array(orders, dtype=float)
        exact = privacy.exact_subsampled_rdp(values, **given)
        formula = privacy.theorem_4_4_formula(values, **given)
        black_box = [privacy.black_box_upper(k, **given) for k in orders]
        return list(map(float, exact)), list(map(float, formula)), list(map(float, black_box))

    def draw(q: float, order: int, preset: str) -> Frame:
        exact, formula, black_box = curves(q, preset, ORDERS)
        [exact_now], [formula_now], [black_box_now] = curves(q, preset, (order,))
        sigma, tau = PRESETS[preset]
        last = privacy.theorem_4_4_last_order(q=q, sigma=sigma, tau=tau, scale=1.0)
        ratio = formula_now / exact_now
        times = f"{ratio:.3g} times" if ratio >= 0.01 else f"1/{1 / ratio:,.0f} of"
        valid = order <= last
        verdict = (
            "a bound, inside its conditions"
            if valid
            else ("outside its conditions, and false" if ratio < 1.0 else "outside its conditions")
        )
        allowed = [2.0, max(2.0, min(last, 32.0))] if last >= 2.0 else [2.0, 2.0]
        wrong = [(k, f) for k, e, f in zip(ORDERS, exact, formula, strict=True) if f < e]
        return Frame(
            title=f"At order {order} the formula of Theorem 4.4 is {times} the exact divergence: {verdict}.",
            readout=f"q = {q:.3g}, σ = {sigma:g}, τ = {tau:.3g}, b = 1, δ₀ = 10⁻⁸; conditions hold "
            f"{f'up to order {last:.1f}' if last > 1.0 else 'at no order'}; exact {exact_now:.3g}, formula "
            f"{formula_now:.3g}, black box {black_box_now:.3g}",
            marks=[
                Area(allowed, [1e-8, 1e-8], [1e3, 1e3], "muted"),
                Line(ORDERS, _held(black_box), "muted", label="black box", at=(31.5, 8.0), anchor="end"),
                Line(ORDERS, _held(exact), "guarantee", label="exact", at=(31.5, 1.2e-1), anchor="end"),
                Line(ORDERS, _held(formula), "source", label="Theorem 4.4, formula", at=(31.5, 3e-8), anchor="end"),
                Points([k for k, _ in wrong], _held([f for _, f in wrong]), "D'"),
                Rule("muted", x=float(order)),
                Points([order], _held([exact_now]), "measured"),
            ],
            table=(
                ["order", "exact", "formula", "black box"],
                [
                    [str(k), f"{a:.3g}", f"{b:.3g}", f"{c:.3g}"]
                    for k, a, b, c in zip(ORDERS, exact, formula, black_box, strict=True)
                ],
            ),
        )

    return Explorer(
        "ptr-orders",
        draw=draw,
        controls=[
            Range("order", "order", list(ORDERS), 8, "{:d}"),
            Range("q", "q", [1e-4, 3e-4, 1e-3, 2e-3, 256 / 60_000, 0.01, 0.02, 0.05], 256 / 60_000, "{:.3g}", "log"),
            Switch(
                "preset",
                "noise",
                {"mnist": "σ = 1.1, τ = 1/2", "wide": "σ = 6, τ = 2/3", "narrow": "σ = 40, τ = 1/10"},
                "mnist",
            ),
        ],
        axes=[
            Axes(
                Axis("Rényi order", 2.0, 32.0),
                Axis(
                    "Rényi divergence",
                    1e-8,
                    1e3,
                    "log",
                    ticks=[(10.0**k, power_of_ten(k)) for k in (-8, -6, -4, -2, 0, 2)],
                ),
            )
        ],
    )


def _held(values: list[float]) -> list[float]:
    """What lies above the axis is drawn above it, at one height."""
    return [min(max(v, 1e-8), 5e3) if math.isfinite(v) else 5e3 for v in values]
