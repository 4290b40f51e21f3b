"""Explorers of chapter 02, Composition."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial

import numpy as np
from scipy.special import gammaln

from dpml.accounting import Guarantee
from dpml.accounting.composition import advanced, advanced_first_k, advanced_tanh, basic, optimal
from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Area, Axis, Frame, Key, Line, Points, Rule, Text
from dpml.classroom.svg import power_of_ten
from dpml.mechanisms import gaussian_sigma, randomized_response_truth_probability
from dpml.numerics import crossing

DELTAS = {"1e-3": "δ = 10⁻³", "1e-5": "δ = 10⁻⁵", "1e-9": "δ = 10⁻⁹"}
TOTAL_DELTA = Switch("slack", "Total δ", DELTAS, "1e-5", "The probability that may lie beyond the total ε.")


def _short(value: float) -> str:
    """Three digits, and no exponent for large numbers: 0.0457, 5.85, 1,109."""
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.3g}"


def loss_walk() -> Explorer:
    """The total loss of k randomized responses, step by step: a random walk with a drift.

    Losses are shown in units of epsilon, so that each step is +1 or -1. Above: five walks, drawn with a fixed seed and
    the same luck for every epsilon. Below: the exact distribution after k steps, beside a normal one.
    """
    delta, most, lowest = 1e-5, 100, 1e-9
    time = np.arange(most + 1)
    luck = np.random.default_rng(7).random((5, most))
    sums = np.linspace(-40, most, 141)

    @cache
    def walks(epsilon: float) -> tuple[list[list[float]], list[float]]:
        """The five walks, and the guarantee at delta after each number of steps."""
        up = luck < randomized_response_truth_probability(epsilon=epsilon)
        paths = np.concatenate([np.zeros((5, 1)), np.cumsum(np.where(up, 1.0, -1.0), axis=1)], axis=1)
        promised = [
            optimal(epsilon=epsilon, delta=0.0, k=k, total_delta=delta).epsilon / epsilon for k in range(1, most + 1)
        ]
        return paths.tolist(), [0.0, *promised]

    def draw(epsilon: float, k: int) -> Frame:
        truth = randomized_response_truth_probability(epsilon=epsilon)
        paths, promised = walks(epsilon)
        mean, spread = k * (2 * truth - 1), 2 * math.sqrt(k * truth * (1 - truth))
        ups = np.arange(k + 1)
        log_chance = gammaln(k + 1) - gammaln(ups + 1) - gammaln(k - ups + 1)
        chance = np.exp(log_chance + ups * np.log(truth) + (k - ups) * np.log1p(-truth))
        # The walk has the parity of k: possible sums are 2 apart, and so a normal density has to be doubled.
        normal = 2 * np.exp(-(((sums - mean) / spread) ** 2) / 2) / (spread * math.sqrt(2 * math.pi))
        likely = chance >= lowest
        bent = normal >= lowest
        worst = truth**k
        said = f"{worst:.2g}" if worst >= 1e-3 else f"about {power_of_ten(round(math.log10(worst)))}"
        return Frame(
            title=f"{k} step{'s' * (k > 1)} of ε = {epsilon:g}: a loss of {_short(mean * epsilon)} ± "
            f"{spread * epsilon:.2g}. The worst, {_short(k * epsilon)}, has probability {said}.",
            readout=f"ε = {epsilon:g}, k = {k}: mean loss {mean * epsilon:.4g}, standard deviation "
            f"{spread * epsilon:.4g}, worst case {k * epsilon:.4g}, at δ = 10⁻⁵ the total ε is "
            f"{promised[k] * epsilon:.4g}",
            marks=[
                *(Line(time, path, "D") for path in paths),
                Line(time, time * (2 * truth - 1), "muted", Text("grey dashes: mean", 104, -32)),
                Line(time, time, "muted", Text("worst case", 54, 60, anchor="end")),
                Line(time, promised, "guarantee", Text("black: total ε at δ = 10⁻⁵", 1.5, 91)),
                Rule("muted", x=k),
                Text("blue: five walks, on D", 1.5, 75, "D"),
            ],
            beside=[
                Line(sums[bent], normal[bent], "muted", Text("dashes: normal", 104, 3.0)),
                Points(2 * ups[likely] - k, chance[likely], "D", Text("dots: exact", -39, 3.0)),
                Rule("guarantee", x=promised[k]),
            ],
        )

    epsilons = [0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0]
    return Explorer(
        "loss-walk",
        draw,
        [
            Range("epsilon", "ε of a step", epsilons, 0.1, form="{:g}", scale="log"),
            Range("k", "k", [1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100], 100),
        ],
        x=[Axis("number of steps", 0, 105), Axis("total loss / ε after k steps", -40, 105)],
        y=[Axis("total loss / ε", -40, 105), Axis("probability", 1e-9, 50.0, "log", ticks=(1e-9, 1e-6, 1e-3, 1))],
    )


def composition_curves() -> Explorer:
    """What k steps cost together, as a share of k epsilon, by each of the theorems.

    As a share, basic composition is the line 1, and the square root law is a straight line downwards.
    """
    steps = np.unique(np.rint(np.geomspace(1, 1e4, 33))).astype(int).tolist()

    def totals(epsilon: float, k: int, delta: float) -> tuple[float, float, float, float]:
        return (
            basic(epsilon=epsilon, delta=0.0, k=k).epsilon,
            advanced(epsilon=epsilon, delta=0.0, k=k, delta_prime=delta).epsilon,
            advanced_tanh(epsilon=epsilon, delta=0.0, k=k, delta_prime=delta).epsilon,
            optimal(epsilon=epsilon, delta=0.0, k=k, total_delta=delta).epsilon,
        )

    @cache
    def curves(epsilon: float, delta: float) -> list[list[float]]:
        shares = [[total / (k * epsilon) for total in totals(epsilon, k, delta)] for k in steps]
        return [list(column) for column in zip(*shares, strict=True)]

    def draw(epsilon: float, k: int, slack: str) -> Frame:
        delta = float(slack)
        _, printed, with_tanh, best = curves(epsilon, delta)
        here = totals(epsilon, k, delta)
        first = advanced_first_k(epsilon=epsilon, delta_prime=delta)
        what = f"{k:,} step{'s' * (k > 1)} of ε = {epsilon:g}"
        added, by_print, by_best = _short(here[0]), _short(here[1]), _short(here[3])
        if first is None:
            title = f"{what}: basic {added}, optimal {by_best}. Printed {by_print}: at this ε it never helps."
        elif k < first:
            title = f"{what}: basic {added}, optimal {by_best}. Printed {by_print}: no help below k = {first}."
        else:
            title = f"{what}: basic {added}, printed {by_print}, optimal {by_best}."
        over = np.maximum(printed, 1.0)
        return Frame(
            title=title,
            readout=f"ε = {epsilon:g}, k = {k}, {DELTAS[slack]}: basic {here[0]:.4g}, printed {here[1]:.4g}, with tanh "
            f"{here[2]:.4g}, optimal {here[3]:.4g}",
            # The keys stand in the corner that no curve enters.
            marks=[
                Area(steps, np.ones(len(steps)), over, "source"),
                Rule("muted", x=k),
                Rule("muted", y=1.0, label=Text("basic: add up", 9e3, 1.1)),
                Line(
                    [130, 1300], [0.07, 0.07 / math.sqrt(10)], "muted", Text("slope of 1/√k", 520, 0.0225, anchor="end")
                ),
                Line(steps, printed, "source", Key("advanced, printed", 3.8, 0.071)),
                Line(steps, with_tanh, "muted", Key("advanced, tanh", 3.8, 0.044)),
                Line(steps, best, "guarantee", Key("optimal", 3.8, 0.027)),
                Points([k], [here[3] / here[0]], "guarantee"),
                Points([k], [here[1] / here[0]], "source"),
                Text("shaded: printed bound worse than adding up", 9e3, 7.2, "source"),
            ],
        )

    epsilons = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5]
    ks = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000]
    return Explorer(
        "composition-curves",
        draw,
        [
            Range("epsilon", "ε of a step", epsilons, 0.1, form="{:g}", scale="log"),
            Range("k", "k", ks, 100, form="{:d}", scale="log"),
            TOTAL_DELTA,
        ],
        x=Axis("number of steps k", 1, 1e4, "log"),
        y=Axis("total ε / kε (share of adding up)", 0.02, 10, "log"),
        asked="both",
    )


def noise_per_answer() -> Explorer:
    """The noise that each of k counts needs under one total budget, by the theorem that is used to split it.

    Drawn as a share of the Laplace noise that basic composition asks for.
    """
    ks = [1, 2, 3, 5, 7, 10, 20, 50, 100, 200, 500, 784, 1000]

    def scale_for(total: float, rule: Callable[..., Guarantee]) -> float:
        """The smallest Laplace scale, 1 over the epsilon of a step, at which the rule keeps the total."""
        return crossing(lambda scale: rule(epsilon=1 / scale).epsilon - total, low=0.05, high=1e6)

    @cache
    def noises(total: float, delta: float) -> list[tuple[float, float, float, float]]:
        """Standard deviations for basic, printed advanced, optimal (all Laplace noise) and Gaussian noise."""
        one = gaussian_sigma(epsilon=total, delta=delta)
        rows = []
        for k in ks:
            printed = scale_for(total, partial(advanced, delta=0.0, k=k, delta_prime=delta))
            best = scale_for(total, partial(optimal, delta=0.0, k=k, total_delta=delta))
            rows.append((math.sqrt(2) * k / total, math.sqrt(2) * printed, math.sqrt(2) * best, math.sqrt(k) * one))
        return rows

    def draw(total: float, k: int, slack: str) -> Frame:
        delta = float(slack)
        rows = noises(total, delta)
        at = min(range(len(ks)), key=lambda i: abs(math.log(ks[i] / k)))
        k = ks[at]  # the live slider also stops between the positions
        here = rows[at]
        shares = [[row[i] / row[0] for row in rows] for i in range(4)]
        names = ("basic", "printed", "optimal", "Gaussian")
        least = names[int(np.argmin(np.round(here, 6)))]  # at k = 1 basic and optimal are the same number
        return Frame(
            title=f"{k} count{'s' * (k > 1)} at ε = {total:g} in all: noise ±{_short(here[0])} by adding up, "
            f"±{_short(min(here))} by the best way ({least}).",
            readout=f"ε = {total:g}, {DELTAS[slack]} in all, k = {k}; standard deviation of an answer: "
            f"basic {here[0]:.4g}, printed {here[1]:.4g}, optimal {here[2]:.4g}, Gaussian {here[3]:.4g}",
            marks=[
                Rule("muted", x=k),
                Rule("muted", y=1.0, label=Text("basic, Laplace noise", 950, 1.12)),
                Line(ks, shares[1], "source", Key("advanced (printed), Laplace", 2.6, 0.116)),
                Line(ks, shares[2], "muted", Key("optimal, Laplace", 2.6, 0.0715)),
                Line(ks, shares[3], "guarantee", Key("Gaussian", 2.6, 0.044)),
                Points([k], [here[1] / here[0]], "source"),
                Points([k], [here[3] / here[0]], "guarantee"),
            ],
        )

    return Explorer(
        "noise-per-answer",
        draw,
        [
            Range("total", "total ε", [0.25, 0.5, 1.0, 2.0, 4.0, 8.0], 1.0, "The loss of all answers.", "{:g}", "log"),
            Range("k", "k", ks, 784, "How many counts are answered.", "{:d}", "log"),
            TOTAL_DELTA,
        ],
        x=Axis("number of counts k", 1, 1000, "log"),
        y=Axis("noise / noise by adding up", 0.03, 10, "log"),
        asked="both",
    )
