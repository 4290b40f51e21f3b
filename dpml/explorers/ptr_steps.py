"""The explorer of chapter 10 that compares the accountants of propose-test-release over many steps."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml.accounting import rdp
from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Axes, Axis, Frame, Line, Points, Rule
from dpml.classroom.svg import power_of_ten
from dpml.ptr import privacy

__all__ = ["accountants"]

STEPS = (1, 5, 20, 100, 300, 1000, 3500, 10_000)
PRESETS = {
    "mnist": {"q": 256 / 60_000, "sigma": 1.1, "tau": 0.5, "scale": 1.0, "delta0": 1e-8},
    "cifar": {"q": 1024 / 50_000, "sigma": 1.1, "tau": 2.2 / 3.3, "scale": 1.0, "delta0": 1e-8},
}
DELTA = 1e-5


def accountants() -> Explorer:
    """Epsilon after T steps at delta = 1e-5: the whole loss distribution, Rényi bounds, and the paper's formula."""

    @cache
    def after(steps: int, preset: str) -> dict[str, float]:
        setting = PRESETS[preset]
        case_2 = {name: value for name, value in setting.items() if name != "tau"}
        alone = {"q": setting["q"], "sigma": setting["sigma"]}
        return {
            "formula": _by_formula(setting, steps),
            "renyi": privacy.epsilon_by_rdp(steps=steps, delta=DELTA, **setting).epsilon,
            "moved": privacy.epsilon_by_rdp_branch_in_delta(steps=steps, delta=DELTA, **case_2).epsilon,
            "exact": float(privacy.epsilon_curve(steps=[steps], delta=DELTA, **setting)[0]),
            "gaussian": rdp.epsilon(steps=steps, delta=DELTA, **alone).epsilon,
        }

    def draw(steps: int, preset: str) -> Frame:
        points = [after(n, preset) for n in STEPS]
        lines = {name: [point[name] for point in points] for name in points[0]}
        now = after(steps, preset)
        exact, formula = now["exact"], now["formula"]
        claim = "a false claim" if formula < exact else "too much, by accident on the safe side"
        return Frame(
            title=f"After {steps:,} step{'s' if steps > 1 else ''} ε is {exact:.3g}; the paper's formula says "
            f"{formula:.3g}: {claim}.",
            readout=f"T = {steps:,}, δ = 10⁻⁵: loss distribution {exact:.4g}, Rényi {now['renyi']:.4g}, Rényi "
            f"with δ₀ moved {now['moved']:.4g}, formula of Theorem 4.4 {formula:.4g}, Gaussian noise alone, by "
            f"Rényi, {now['gaussian']:.4g}",
            marks=[
                Line(STEPS, lines["formula"], "source", label="formula, Thm 4.4", at=(1.15, 0.024)),
                Line(STEPS, lines["renyi"], "D", label="exact Rényi curve", at=(1.15, 3.2)),
                Line(STEPS, lines["moved"], "D'", label="δ₀ moved to δ", at=(1.15, 1.05)),
                Line(STEPS, lines["exact"], "guarantee", label="loss distribution", at=(60.0, 0.17)),
                Line(STEPS, lines["gaussian"], "muted", label="Gaussian alone", at=(9000.0, 0.06), anchor="end"),
                Rule("muted", x=float(steps)),
                Points([steps, steps], [exact, formula], "measured"),
            ],
            table=(
                ["T", "loss distribution", "Rényi", "δ₀ moved", "formula"],
                [
                    [f"{n:,}", *(f"{lines[key][i]:.3g}" for key in ("exact", "renyi", "moved", "formula"))]
                    for i, n in enumerate(STEPS)
                ],
            ),
        )

    return Explorer(
        "ptr-accountants",
        draw=draw,
        controls=[
            Range("steps", "T", list(STEPS), 3500, "{:,}", "log"),
            Switch(
                "preset",
                "setting",
                {"mnist": "MNIST: q = 0.0043, σ = 1.1", "cifar": "CIFAR: q = 0.02, σ = 1.1"},
                "mnist",
            ),
        ],
        axes=[
            Axes(
                Axis("steps T", 1.0, 10_000.0, "log", ticks=[(10.0**k, power_of_ten(k)) for k in range(5)]),
                Axis(
                    "ε at δ = 10⁻⁵", 0.02, 40.0, "log", ticks=[(v, f"{v:g}") for v in (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)]
                ),
            )
        ],
    )


@cache
def _orders() -> NDArray[np.float64]:
    return np.arange(2.0, 201.0)


def _by_formula(setting: dict[str, Any], steps: int) -> float:
    """The formula of Theorem 4.4 at whole orders up to 200, composed and converted as for a true divergence."""
    divergences = steps * privacy.theorem_4_4_formula(_orders(), **setting)
    known = np.isfinite(divergences)
    return float(np.min(rdp.conversion_improved(_orders()[known], rdp=divergences[known], delta=DELTA)))
