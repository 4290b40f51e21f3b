"""Explorers of chapter 10, Propose-test-release."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpml import mechanisms
from dpml.accounting import rdp
from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Area, Axes, Axis, Frame, Line, Points, Rule
from dpml.classroom.svg import power_of_ten
from dpml.lessons.ptr.gradient_norms import gradient_norms
from dpml.numerics import crossing as crossing_of
from dpml.ptr import privacy, renyi, single_release, theorems, trimmed_sum
from dpml.ptr.propose_test_release import pass_probability, threshold

# ---- The explorer of chapter 10 that sets the two cases of propose-test-release side by side ----


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
        cases = [
            single_release.delta_cases(sigma=sigma, tau=0.5, scale=1.0, delta0=1e-8, epsilon=float(e)) for e in EPSILONS
        ]
        return np.array([float(case.case_2) for case in cases])

    @cache
    def gaussian_delta(sigma: float) -> NDArray[np.float64]:
        return np.array([mechanisms.gaussian_delta(sigma=sigma, epsilon=float(e)) for e in EPSILONS])

    @cache
    def case_2_epsilon(sigma: float) -> float:
        def excess(epsilon: float) -> float:
            case = single_release.delta_cases(sigma=sigma, tau=0.5, scale=1.0, delta0=1e-8, epsilon=epsilon)
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


# ---- The explorer of chapter 10 that shows at which orders the paper's bound for sampled steps may be used ----


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
        formula = theorems.theorem_4_4_formula(values, **given)
        black_box = [theorems.black_box_upper(k, **given) for k in orders]
        return list(map(float, exact)), list(map(float, formula)), list(map(float, black_box))

    def draw(q: float, order: int, preset: str) -> Frame:
        exact, formula, black_box = curves(q, preset, ORDERS)
        [exact_now], [formula_now], [black_box_now] = curves(q, preset, (order,))
        sigma, tau = PRESETS[preset]
        last = theorems.theorem_4_4_last_order(q=q, sigma=sigma, tau=tau, scale=1.0)
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


# ---- The explorer of chapter 10 that compares the accountants of propose-test-release over many steps ----


STEPS = (1, 5, 20, 100, 300, 1000, 3500, 10_000)
STEP_PRESETS = {
    "mnist": {"q": 256 / 60_000, "sigma": 1.1, "tau": 0.5, "scale": 1.0, "delta0": 1e-8},
    "cifar": {"q": 1024 / 50_000, "sigma": 1.1, "tau": 2.2 / 3.3, "scale": 1.0, "delta0": 1e-8},
}
DELTA = 1e-5


def accountants() -> Explorer:
    """Epsilon after T steps at delta = 1e-5: the whole loss distribution, Rényi bounds, and the paper's formula."""

    @cache
    def after(steps: int, preset: str) -> dict[str, float]:
        setting = STEP_PRESETS[preset]
        case_2 = {name: value for name, value in setting.items() if name != "tau"}
        alone = {"q": setting["q"], "sigma": setting["sigma"]}
        return {
            "formula": _by_formula(setting, steps),
            "renyi": renyi.epsilon_by_rdp(steps=steps, delta=DELTA, **setting).epsilon,
            "moved": renyi.epsilon_by_rdp_branch_in_delta(steps=steps, delta=DELTA, **case_2).epsilon,
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
    divergences = steps * theorems.theorem_4_4_formula(_orders(), **setting)
    known = np.isfinite(divergences)
    return float(np.min(rdp.conversion_improved(_orders()[known], rdp=divergences[known], delta=DELTA)))


# ---- The explorer of chapter 10 that shows a trimmed sum's margin as a count ----


BOUND = 10.0
SCALE, TRIM_DELTA0 = 1.0, 1e-8


def trimming() -> Explorer:
    """Sorted gradient norms of a real batch: what is trimmed, the margin, and what passes the test."""
    limit = threshold(scale=SCALE, delta0=TRIM_DELTA0)
    norms = {name: np.sort(values) for name, values in gradient_norms()._asdict().items()}

    def draw(trim: int, tau: float, model: str) -> Frame:
        lengths = np.minimum(norms[model], BOUND)
        m = len(lengths)
        ranks = np.arange(1, m + 1)
        kept = m - trim
        margin = trimmed_sum.safety_margin(norms[model], trim=trim, tau=tau, bound=BOUND)
        passes = pass_probability(margin, scale=SCALE, delta0=TRIM_DELTA0)
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
