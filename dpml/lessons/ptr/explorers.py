"""Explorers of chapter 10, Propose-test-release: the noisy test has Laplace noise of scale 1."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dpml import mechanisms
from dpml.accounting import rdp
from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Area, Axis, Frame, Key, Line, Points, Role, Rule, Text
from dpml.classroom.svg import power_of_ten
from dpml.lessons.ptr.gradient_norms import gradient_norms
from dpml.numerics import crossing
from dpml.ptr import privacy, renyi, single_release, theorems, trimmed_sum
from dpml.ptr.propose_test_release import pass_probability, threshold

DELTA, DELTA0 = 1e-5, 1e-8


def two_cases() -> Explorer:
    """The privacy loss of one release in each of the two cases, and the delta that each needs at every epsilon.

    In trouble (`case_1`): both local sensitivities exceed tau. Close (`case_2`): one of them does not.
    """
    grid, most = np.linspace(0.0, 12.0, 25), 12.0
    losses = np.linspace(-6.0, 14.0, 61)
    rares = {"tiny": DELTA0, "small": 1e-5, "large": 1e-2}

    def gaussian_loss(loss: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
        """Density of the loss of Gaussian noise: itself normal, mean 1/(2 sigma^2), standard deviation 1/sigma."""
        return mechanisms.gaussian_density(loss, center=0.5 / sigma**2, sigma=1.0 / sigma)

    @cache
    def density_2(sigma: float) -> list[float]:
        s = np.linspace(-0.5, 1.5, 401)  # outside [0, 1] the Laplace part of the loss is constant
        weights = np.exp(-np.abs(s - 1.0)) / 2.0
        weights[(s < 0.0) | (s > 1.0)] = 0.0
        mass = weights / weights.sum() * (1.0 - math.exp(-1.0)) / 2.0
        density = sum(m * gaussian_loss(losses - v, sigma) for m, v in zip(mass, 2.0 * s - 1.0, strict=True) if m > 0)
        density = density + 0.5 * gaussian_loss(losses - 1.0, sigma)
        return _seen(density + 0.5 * math.exp(-1.0) * gaussian_loss(losses + 1.0, sigma))

    @cache
    def delta_2(sigma: float, epsilon: float) -> float:
        case = single_release.delta_cases(sigma=sigma, tau=0.5, scale=1.0, delta0=DELTA0, epsilon=epsilon)
        return float(case.case_2)

    @cache
    def delta_1(sigma: float, tau: float, rare: float, epsilon: float) -> float:
        often, seldom = (mechanisms.gaussian_delta(sigma=s, epsilon=epsilon) for s in (sigma, sigma * tau))
        return (1.0 - rare) * often + rare * seldom

    @cache
    def epsilon_2(sigma: float) -> float:
        return crossing(lambda epsilon: delta_2(sigma, epsilon) - DELTA, low=0.0, high=40.0)

    def epsilon_1(sigma: float, tau: float, rare: float) -> float:
        def excess(epsilon: float) -> float:
            return delta_1(sigma, tau, rare, epsilon) - DELTA

        return crossing(excess, low=0.0, high=most) if excess(most) < 0.0 else most

    def draw(sigma: float, tau: float, delta0: str) -> Frame:
        rare = rares[delta0]
        one = np.array([delta_1(sigma, tau, rare, float(e)) for e in grid])
        two = np.array([delta_2(sigma, float(e)) for e in grid])
        density = (1.0 - rare) * gaussian_loss(losses, sigma) + rare * gaussian_loss(losses, sigma * tau)
        ends = epsilon_1(sigma, tau, rare), epsilon_2(sigma)
        worse = "the close pair" if ends[1] >= ends[0] else "the troubled pair, which passes by accident,"
        meeting = _meeting(grid, one, two)
        crosses = (
            f"from ε ≈ {meeting:.2g} on trouble is worse" if meeting < most else f"trouble is not worse up to {most:g}"
        )
        epsilon = max(ends)
        decides = f"{worse} decides: ε = {epsilon:.2f}" if epsilon < most else f"{worse} decides: ε is above 12"
        told = [f"about {end:.2f}" if end < most else "above 12" for end in ends]
        return Frame(
            title=f"At δ = 10⁻⁵ {decides}; {crosses}.",
            readout=f"σ = {sigma:g}, τ = {tau:g}, b = 1, δ₀ = {power_of_ten(round(math.log10(rare)))}: ε(10⁻⁵) is "
            f"{told[0]} in trouble and {told[1]} if close",
            marks=[
                Line(losses, _seen(density), "D", Text("trouble", 13.8, 0.1)),
                Line(losses, density_2(sigma), "D'", Text("close", 13.8, 2e-3)),
            ],
            beside=[
                Line(grid, _seen(one), "D", Text("trouble", 11.9, 0.1)),
                Line(grid, _seen(two), "D'", Text("close", 11.9, 2e-3)),
                Rule("muted", y=DELTA, label=Text("δ = 10⁻⁵", 11.9, 3e-5)),
                Points([min(epsilon, most)], [DELTA], "measured"),
            ],
        )

    powers = (1e-12, 1e-9, 1e-6, 1e-3, 1)
    options = {"tiny": "10⁻⁸", "small": "10⁻⁵", "large": "10⁻²"}
    return Explorer(
        "ptr-two-cases",
        draw,
        [
            Range("sigma", "σ", [0.7, 0.9, 1.1, 1.5, 2.2, 3.0, 4.0], 1.1),
            Range("tau", "τ", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75, 0.9], 0.5),
            Switch("delta0", "δ₀", options, "tiny", "How often the test passes though it should fail."),
        ],
        x=[Axis("privacy loss", -6.0, 14.0), Axis("ε", 0.0, most)],
        y=[Axis("density", 1e-12, 1.0, "log", ticks=powers), Axis("δ", 1e-12, 1.0, "log", ticks=powers)],
        asked="both",
    )


def _seen(values: NDArray[np.float64]) -> list[float]:
    """What lies below the axis is drawn just below it."""
    return [max(float(v), 3e-13) for v in values]


def _meeting(grid: NDArray[np.float64], one: NDArray[np.float64], two: NDArray[np.float64]) -> float:
    """The first epsilon at which trouble is the worse, between grid points in logarithms; the last if there is none."""
    gap = np.log(np.maximum(two, 1e-300)) - np.log(np.maximum(one, 1e-300))
    after = np.flatnonzero((gap < 0.0) & (one > 1e-30))
    i = int(after[0]) if after.size else len(grid) - 1
    return float(np.interp(0.0, [gap[i], gap[i - 1]], grid[[i, i - 1]]) if after.size and i else grid[i])


def trimming() -> Explorer:
    """Sorted gradient norms of a real batch: what is trimmed, the margin, and what passes the test."""
    bound = 10.0
    limit = threshold(scale=1.0, delta0=DELTA0)
    norms = {name: np.sort(values) for name, values in gradient_norms()._asdict().items()}
    r = np.arange(0, 257, 4)

    def draw(trim: int, tau: float, model: str) -> Frame:
        lengths = np.minimum(norms[model], bound)
        m = len(lengths)
        ranks, kept = np.arange(1, m + 1), m - trim
        margin = trimmed_sum.safety_margin(norms[model], trim=trim, tau=tau, bound=bound)
        passes = pass_probability(margin, scale=1.0, delta0=DELTA0)
        above = int(np.count_nonzero(norms[model] > tau))
        stairs = [trimmed_sum.local_sensitivity(norms[model], trim=trim, r=int(k), bound=bound) for k in r]
        chance = f"{passes:.2g}" if passes < 0.995 else "above 0.99"
        return Frame(
            title=f"{above} of {m} norms exceed τ = {tau:g} and F = {trim}: the margin is {margin:.0f}, the test "
            f"passes with probability {chance}.",
            readout=f"F = {trim}, τ = {tau:g}, R = {bound:g}: {kept} norms kept, margin max(0, {trim} − {above}) = "
            f"{margin:.0f}, threshold B = {limit:.1f}, local sensitivity now {stairs[0]:.2f}",
            marks=[
                Area(ranks[:kept], np.zeros(kept), lengths[:kept], "D", Text("kept", 6.0, 9.2)),
                Area(ranks[kept:], np.zeros(trim), lengths[kept:], "D'", Text("trimmed", 252.0, 10.4)),
                Line(ranks, lengths, "guarantee"),
                Rule("muted", y=tau, label=Text("τ", 2.0, tau + 0.25)),
            ],
            beside=[
                Line(r, stairs, "guarantee", Text("LS within r changes", 252.0, 10.5)),
                Rule("muted", y=tau, label=Text("τ", 252.0, tau + 0.25)),
                Rule("guarantee", x=limit, label=Text("B", limit + 2.0, 0.4)),
                Points([margin], [tau], "measured"),
            ],
        )

    counts = [1, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224]
    taus = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 9.9]
    models = {"start": "before training", "trained": "after training"}
    return Explorer(
        "ptr-trimming",
        draw,
        [
            Range("trim", "F", counts, 144),
            Range("tau", "τ", taus, 5.0, "The proposed bound on the local sensitivity; the largest possible is 10."),
            Switch("model", "gradients", models, "trained", "Of which model the 256 gradients are."),
        ],
        x=[Axis("rank of the image in a batch of 256", 0.0, 257.0), Axis("records changed, r", 0.0, 257.0)],
        y=[Axis("clipped gradient norm", 0.0, 11.5), Axis("local sensitivity", 0.0, 11.5)],
        asked="right",
    )


def orders() -> Explorer:
    """The Rényi divergence of one sampled step at each order: exact, the black-box bound, and Theorem 4.4.

    The shaded orders satisfy the conditions of the theorem; outside them its formula may fall below the truth.
    """
    places = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 24, 28, 32)
    presets = {"mnist": (1.1, 0.5), "wide": (6.0, 2.0 / 3.0), "narrow": (40.0, 0.1)}

    @cache
    def at(q: float, preset: str, order: int) -> tuple[float, float, float]:
        """Exact, by the formula, and by the black box."""
        sigma, tau = presets[preset]
        given = {"q": q, "sigma": sigma, "tau": tau, "scale": 1.0, "delta0": DELTA0}
        exact = privacy.exact_subsampled_rdp(float(order), **given)
        formula = theorems.theorem_4_4_formula(float(order), **given)
        return float(exact), float(formula), float(theorems.black_box_upper(order, **given))

    def draw(q: float, order: int, preset: str) -> Frame:
        exact, formula, black_box = zip(*(at(q, preset, k) for k in places), strict=True)
        exact_now, formula_now, black_box_now = at(q, preset, order)
        sigma, tau = presets[preset]
        last = theorems.theorem_4_4_last_order(q=q, sigma=sigma, tau=tau, scale=1.0)
        ratio = formula_now / exact_now
        times = f"{ratio:.3g} times" if ratio >= 0.01 else f"1/{1 / ratio:,.0f} of"
        if order <= last:
            verdict = "a bound, inside its conditions"
        else:
            verdict = "outside its conditions" + (", and false" if ratio < 1.0 else "")
        wrong = [(k, f) for k, e, f in zip(places, exact, formula, strict=True) if f < e]
        return Frame(
            title=f"At order {order} the formula of Theorem 4.4 is {times} the exact divergence: {verdict}.",
            readout=f"q = {q:.3g}, σ = {sigma:g}, τ = {tau:.3g}, b = 1, δ₀ = 10⁻⁸; conditions hold "
            f"{f'up to order {last:.1f}' if last > 1.0 else 'at no order'}; exact {exact_now:.3g}, formula "
            f"{formula_now:.3g}, black box {black_box_now:.3g}",
            marks=[
                Area([2.0, max(2.0, min(last, 32.0))], [1e-8, 1e-8], [1e3, 1e3], "muted"),
                Line(places, _held(black_box), "muted", Key("black box", 24.0, 0.6)),
                Line(places, _held(exact), "guarantee", Key("exact", 24.0, 0.1)),
                Line(places, _held(formula), "source", Text("Theorem 4.4, formula", 31.5, 3e-8)),
                Points([k for k, _ in wrong], _held([f for _, f in wrong]), "D'"),
                Rule("muted", x=float(order)),
                Points([order], _held([exact_now]), "measured"),
            ],
        )

    qs = [1e-4, 3e-4, 1e-3, 2e-3, 256 / 60_000, 0.01, 0.02, 0.05]
    options = {"mnist": "σ = 1.1, τ = 1/2", "wide": "σ = 6, τ = 2/3", "narrow": "σ = 40, τ = 1/10"}
    meaning = "Noise and proposed bound. Black box: amplification that knows only the divergence of a step on all data."
    return Explorer(
        "ptr-orders",
        draw,
        [
            Range("order", "order", places, 8, "The Rényi order at which the curves are compared.", "{:d}"),
            Range("q", "q", qs, 256 / 60_000, scale="log"),
            Switch("preset", "noise", options, "mnist", meaning),
        ],
        x=Axis("Rényi order", 2.0, 32.0),
        y=Axis("Rényi divergence", 1e-8, 1e3, "log", ticks=(1e-8, 1e-6, 1e-4, 1e-2, 1, 100)),
    )


def _held(values: Iterable[float]) -> list[float]:
    """What lies above the axis is drawn above it, at one height."""
    return [min(max(v, 1e-8), 5e3) if math.isfinite(v) else 5e3 for v in values]


def accountants() -> Explorer:
    """Epsilon after T steps at delta = 1e-5: the whole loss distribution, Rényi bounds, and the paper's formula."""
    counts = (1, 10, 100, 1000, 3500, 10_000)
    noise = {"sigma": 1.1, "scale": 1.0, "delta0": DELTA0}
    presets = {
        "mnist": {"q": 256 / 60_000, "tau": 0.5, **noise},
        "cifar": {"q": 1024 / 50_000, "tau": 2.2 / 3.3, **noise},
    }
    whole = np.arange(2.0, 201.0)

    def by_formula(setting: dict[str, float], steps: int) -> float:
        """The formula of Theorem 4.4 at whole orders up to 200, composed and converted as for a true divergence."""
        divergences = steps * theorems.theorem_4_4_formula(whole, **setting)
        known = np.isfinite(divergences)
        return float(np.min(rdp.conversion_improved(whole[known], rdp=divergences[known], delta=DELTA)))

    @cache
    def exact_curve(preset: str) -> dict[int, float]:
        """One loss distribution for all positions."""
        found = privacy.epsilon_curve(steps=counts, delta=DELTA, **presets[preset])
        return dict(zip(counts, found.tolist(), strict=True))

    @cache
    def after(steps: int, preset: str) -> dict[str, float]:
        setting = presets[preset]
        case_2 = {name: value for name, value in setting.items() if name != "tau"}
        alone = {"q": setting["q"], "sigma": setting["sigma"]}
        return {
            "formula": by_formula(setting, steps),
            "renyi": renyi.epsilon_by_rdp(steps=steps, delta=DELTA, **setting).epsilon,
            "moved": renyi.epsilon_by_rdp_branch_in_delta(steps=steps, delta=DELTA, **case_2).epsilon,
            "exact": exact_curve(preset).get(steps)
            or float(privacy.epsilon_curve(steps=[steps], delta=DELTA, **setting)[0]),
            "gaussian": rdp.epsilon(steps=steps, delta=DELTA, **alone).epsilon,
        }

    def draw(steps: int, preset: str) -> Frame:
        def curve(name: str, role: Role, label: Key) -> Line:
            return Line(counts, [after(n, preset)[name] for n in counts], role, label)

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
                curve("formula", "source", Key("formula, Thm 4.4", 110.0, 0.03)),
                curve("renyi", "D", Key("exact Rényi curve", 110.0, 0.22)),
                curve("moved", "D'", Key("δ₀ moved to δ", 110.0, 0.134)),
                curve("exact", "guarantee", Key("loss distribution", 110.0, 0.05)),
                curve("gaussian", "muted", Key("Gaussian alone", 110.0, 0.082)),
                Rule("muted", x=float(steps)),
                Points([steps, steps], [exact, formula], "measured"),
            ],
        )

    options = {"mnist": "MNIST: q = 0.0043, σ = 1.1", "cifar": "CIFAR: q = 0.02, σ = 1.1"}
    return Explorer(
        "ptr-accountants",
        draw,
        [
            Range("steps", "T", counts, 3500, form="{:,}", scale="log"),
            Switch("preset", "setting", options, "mnist", "Sampling probability and noise of the paper's experiments."),
        ],
        x=Axis("steps T", 1.0, 10_000.0, "log", ticks=(1, 10, 100, 1e3, 1e4)),
        y=Axis("ε at δ = 10⁻⁵", 0.02, 40.0, "log", ticks=(0.03, 0.1, 0.3, 1, 3, 10)),
        asked="both",
    )
