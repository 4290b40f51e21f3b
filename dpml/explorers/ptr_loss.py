"""The explorer of chapter 10 that sets the two cases of propose-test-release side by side."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dpml import mechanisms
from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Axes, Axis, Frame, Line, Points, Rule
from dpml.classroom.svg import power_of_ten
from dpml.numerics import crossing as crossing_of
from dpml.ptr import privacy

__all__ = ["two_cases"]

EPSILONS = np.linspace(0.0, 12.0, 25)
LOSSES = np.linspace(-6.0, 14.0, 61)
DELTA0 = {"tiny": 1e-8, "small": 1e-5, "large": 1e-2}


def two_cases() -> Explorer:
    """The privacy loss of one release in each of the two cases, and the delta that each needs at every epsilon.

    The Laplace scale of the test is 1. Case 1: both local sensitivities exceed tau. Case 2: one of them does not.
    """

    @cache
    def case_2_density(sigma: float) -> list[float]:
        s = np.linspace(-0.5, 1.5, 401)  # outside [0, 1] the Laplace part of the loss is constant
        weights = np.exp(-np.abs(s - 1.0)) / 2.0
        weights[(s < 0.0) | (s > 1.0)] = 0.0
        mass = weights / weights.sum() * (1.0 - math.exp(-1.0)) / 2.0
        density = sum(m * _gaussian_loss(LOSSES - v, sigma) for m, v in zip(mass, 2.0 * s - 1.0, strict=True) if m > 0)
        density = density + 0.5 * _gaussian_loss(LOSSES - 1.0, sigma)
        return _seen(density + 0.5 * math.exp(-1.0) * _gaussian_loss(LOSSES + 1.0, sigma))

    @cache
    def case_2_delta(sigma: float) -> NDArray[np.float64]:
        cases = [privacy.delta_cases(sigma=sigma, tau=0.5, scale=1.0, delta0=1e-8, epsilon=float(e)) for e in EPSILONS]
        return np.array([float(case.case_2) for case in cases])

    @cache
    def gaussian_delta(sigma: float) -> NDArray[np.float64]:
        return np.array([mechanisms.gaussian_delta(sigma=sigma, epsilon=float(e)) for e in EPSILONS])

    @cache
    def case_2_epsilon(sigma: float) -> float:
        def excess(epsilon: float) -> float:
            case = privacy.delta_cases(sigma=sigma, tau=0.5, scale=1.0, delta0=1e-8, epsilon=epsilon)
            return float(case.case_2) - 1e-5

        return crossing_of(excess, low=0.0, high=40.0)

    def case_1_epsilon(sigma: float, tau: float, rare: float) -> float:
        def excess(epsilon: float) -> float:
            often = mechanisms.gaussian_delta(sigma=sigma, epsilon=epsilon)
            seldom = mechanisms.gaussian_delta(sigma=sigma * tau, epsilon=epsilon)
            return (1.0 - rare) * often + rare * seldom - 1e-5

        return crossing_of(excess, low=0.0, high=12.0) if excess(12.0) < 0.0 else 12.0

    def draw(sigma: float, tau: float, delta0: str) -> Frame:
        rare = DELTA0[delta0]
        one = (1.0 - rare) * gaussian_delta(sigma) + rare * gaussian_delta(sigma * tau)
        two = case_2_delta(sigma)
        density = (1.0 - rare) * _gaussian_loss(LOSSES, sigma) + rare * _gaussian_loss(LOSSES, sigma * tau)
        total = 1e-5
        epsilon_1, epsilon_2 = case_1_epsilon(sigma, tau, rare), case_2_epsilon(sigma)
        worse = "case 2, the noisy margin," if epsilon_2 >= epsilon_1 else "case 1, the test that passes by accident,"
        meeting = _meeting(one, two)
        crossing = f"from ε ≈ {meeting:.2g} on case 1 is the worse" if meeting < 12.0 else "case 1 is never the worse"
        epsilon = max(epsilon_1, epsilon_2)
        decides = f"{worse} decides: ε = {epsilon:.2f}" if epsilon < 12.0 else f"{worse} decides: ε is above 12"
        return Frame(
            title=f"At δ = 10⁻⁵ {decides}; {crossing}.",
            readout=f"σ = {sigma:g}, τ = {tau:g}, b = 1, δ₀ = {_power(rare)}: ε(10⁻⁵) is {_at(epsilon_1)} in case 1 "
            f"and {_at(epsilon_2)} in case 2",
            marks=[
                Line(LOSSES, _seen(density), "D", label="case 1", at=(13.8, 0.1), anchor="end"),
                Line(LOSSES, case_2_density(sigma), "D'", label="case 2", at=(13.8, 2e-3), anchor="end"),
                Line(EPSILONS, _seen(one), "D", label="case 1", at=(11.9, 0.1), anchor="end", panel=1),
                Line(EPSILONS, _seen(two), "D'", label="case 2", at=(11.9, 2e-3), anchor="end", panel=1),
                Rule("muted", y=total, label="δ = 10⁻⁵", at=(11.9, 3e-5), anchor="end", panel=1),
                Points([min(epsilon, 12.0)], [total], "measured", panel=1),
            ],
            table=(
                ["ε", "δ, case 1", "δ, case 2"],
                [[f"{e:g}", f"{a:.2g}", f"{b:.2g}"] for e, a, b in list(zip(EPSILONS, one, two, strict=True))[::3]],
            ),
        )

    powers = [(10.0**k, power_of_ten(k)) for k in (-12, -9, -6, -3, 0)]
    return Explorer(
        "ptr-two-cases",
        draw=draw,
        controls=[
            Range("sigma", "σ", [0.7, 0.9, 1.1, 1.5, 2.2, 3.0, 4.0], 1.1, "{:.3g}"),
            Range("tau", "τ", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75, 0.9], 0.5, "{:.3g}"),
            Switch("delta0", "δ₀", {"tiny": "10⁻⁸", "small": "10⁻⁵", "large": "10⁻²"}, "tiny"),
        ],
        axes=[
            Axes(Axis("privacy loss", -6.0, 14.0), Axis("density", 1e-12, 1.0, "log", ticks=powers)),
            Axes(Axis("ε", 0.0, 12.0), Axis("δ", 1e-12, 1.0, "log", ticks=powers)),
        ],
    )


def _gaussian_loss(loss: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
    """Density of the loss of Gaussian noise: itself normal, mean 1/(2 sigma^2), standard deviation 1/sigma."""
    return mechanisms.gaussian_density(loss, center=0.5 / sigma**2, sigma=1.0 / sigma)


def _seen(values: NDArray[np.float64]) -> list[float]:
    """What lies below the axis is drawn just below it."""
    return [max(float(v), 3e-13) for v in values]


def _meeting(one: NDArray[np.float64], two: NDArray[np.float64]) -> float:
    """The first epsilon at which case 1 is the worse, between grid points in logarithms; 12 if there is none."""
    gap = np.log(np.maximum(two, 1e-300)) - np.log(np.maximum(one, 1e-300))
    after = np.flatnonzero((gap < 0.0) & (one > 1e-30))
    if after.size == 0:
        return 12.0
    i = int(after[0])
    return float(EPSILONS[i] if i == 0 else np.interp(0.0, [gap[i], gap[i - 1]], [EPSILONS[i], EPSILONS[i - 1]]))


def _at(epsilon: float) -> str:
    return f"about {epsilon:.2f}" if epsilon < 12.0 else "above 12"


def _power(value: float) -> str:
    return power_of_ten(round(math.log10(value)))
