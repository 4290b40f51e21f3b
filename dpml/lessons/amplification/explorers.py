"""Explorers of chapter 03, Amplification by subsampling."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import comb

from dpml.accounting.amplification import (
    amplify,
    lecture_bound,
    lecture_log_form,
    lecture_useful_q,
    randomized_response_subsampled,
)
from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Area, Axis, Frame, Key, Line, Points, Rule, Text, shown
from dpml.mechanisms import randomized_response_truth_probability


def amplification_ladder() -> Explorer:
    """What is left of epsilon after sampling: the loose bound, the log form, the tight value, and an exact loss.

    Drawn as a fraction of epsilon, so that for small epsilon the three formulas are the parallel lines 4q, 2q, q.
    """
    grid = np.geomspace(1e-3, 1.0, 46)
    dots = np.array([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0])

    def exact(*, epsilon: float, q: float) -> float:
        with_record, without = randomized_response_subsampled(epsilon=epsilon, q=q)
        return float(np.log(with_record / without))

    @cache
    def curves(epsilon: float) -> list[list[float]]:
        """All that does not depend on the marked q: the three formulas over the grid, the exact loss at the dots."""
        formulas = (lecture_bound, lecture_log_form, amplify)
        over = [[formula(epsilon=epsilon, q=float(v)) / epsilon for v in grid] for formula in formulas]
        return [*over, [exact(epsilon=epsilon, q=float(v)) / epsilon for v in dots]]

    def draw(epsilon: float, q: float) -> Frame:
        loose, log_form, tight, attained = curves(epsilon)
        useful = lecture_useful_q(epsilon=epsilon)
        here = amplify(epsilon=epsilon, q=q)
        printed = lecture_bound(epsilon=epsilon, q=q)
        prints = f"The loose bound says {printed:.3g}" if printed < 100 else f"The loose bound says {printed:.0f}"
        if printed < epsilon:
            verdict = f"{printed / here:.1f} times as much"
        else:
            verdict = "worse than no sampling" if printed > 1.01 * epsilon else "as much as without sampling"
        if q == 1:
            title = f"q = 1 leaves nobody out: ε stays {here:.3g}. {prints}."
        else:
            title = f"At q = {q:g}, ε = {epsilon:g} becomes {here:.3g}. {prints}: {verdict}."
        useless = np.concatenate([[useful], grid[grid > useful]])
        return Frame(
            title=title,
            readout=f"ε = {epsilon:g}, q = {q:g}: loose bound {printed:.4g}, log form "
            f"{lecture_log_form(epsilon=epsilon, q=q):.4g}, tight {here:.4g}, "
            f"randomized response (exact) {exact(epsilon=epsilon, q=q):.4g}",
            # The keys stand in the corner that no curve enters.
            marks=[
                Area(useless, np.ones(len(useless)), np.full(len(useless), 10.0), "source"),
                Rule("muted", y=1.0, label=Text("ε′ = ε: nothing gained", 0.0011, 1.15)),
                Rule("muted", x=q),
                Line(grid, loose, "source", Key("loose bound", 0.072, 0.0104)),
                Line(grid, log_form, "muted", Key("log form", 0.072, 0.0054)),
                Line(grid, tight, "guarantee", Key("tight bound", 0.072, 0.00284)),
                Points(dots, attained, "measured", Key("randomized response", 0.072, 0.00148)),
                Points([q], [here / epsilon], "D"),
                Text(f"loose: useless above q = {useful:.3g}", 0.95, 6.6, "source"),
            ],
        )

    epsilons = [0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]
    qs = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.3, 0.5, 0.75, 1.0]
    return Explorer(
        "amplification-ladder",
        draw,
        [Range("epsilon", "ε", epsilons, 1.0, scale="log"), Range("q", "q", qs, 0.25, scale="log")],
        x=Axis("sampling probability q", 1e-3, 1.0, "log"),
        y=Axis("ε′ / ε (what is left)", 1e-3, 10.0, "log"),
        asked="both",
    )


def two_worst_cases() -> Explorer:
    """Where the quick proof loses: A = e^epsilon B and A' = e^-epsilon B cannot both hold.

    A, A', B are the probabilities of an event when record i is sampled under D, sampled under D', and not sampled.
    Only their ratios matter: B = 1. The upper panel shows the pairs (A', A) that epsilon-DP allows, the lower one
    the log-ratio of the two mixtures p = qA + (1 - q)B and p' = qA' + (1 - q)B.
    """
    epsilon = 1.0
    axis = np.linspace(-epsilon, epsilon, 41)
    ticks = [(-1.0, "e⁻¹"), (-0.5, "e⁻⁰·⁵"), (0.0, "1"), (0.5, "e⁰·⁵"), (1.0, "e")]
    # Two constraints on A from above, A <= e^epsilon B and A <= e^epsilon A', and two from below.
    highest = np.minimum(epsilon, axis + epsilon)
    lowest = np.maximum(-epsilon, axis - epsilon)

    def loss(log_a: float, log_a_prime: float, q: float) -> float:
        return float(np.log1p(q * np.expm1(log_a)) - np.log1p(q * np.expm1(log_a_prime)))

    def power(exponent: float) -> str:
        return f"e^{exponent:.3g}".replace("-", "−")

    def draw(log_a: float, log_a_prime: float, sampling: str) -> Frame:
        q = float(sampling)
        tight = amplify(epsilon=epsilon, q=q)
        corner = lecture_log_form(epsilon=epsilon, q=q)
        here = loss(log_a, log_a_prime, q)
        gap = log_a - log_a_prime
        if gap > 2 * epsilon - 1e-9:
            title = "The quick proof's corner needs A = e^2·A′. An ε-DP mechanism with ε = 1 has at most A = e·A′."
        elif abs(gap) > epsilon + 1e-9:
            ratio = f"A/A′ = {power(gap)}" if gap > 0 else f"A′/A = {power(-gap)}"
            title = f"Forbidden: {ratio}. An ε-DP mechanism with ε = 1 has at most e."
        elif here > tight - 1e-9:
            title = f"The worst that ε-DP allows: A = e·B and A′ = B. The log-ratio is {here:.3g}, the tight bound."
        elif log_a_prime > 1e-9:
            title = f"Case A′ > B: here A ≤ e·B is the limit. Log-ratio {here:.3g}, tight bound {tight:.3g}."
        else:
            title = f"Case A′ ≤ B: here A ≤ e·A′ is the limit. Log-ratio {here:.3g}, tight bound {tight:.3g}."
        best = [loss(float(a), float(v), q) for a, v in zip(highest, axis, strict=True)]
        beyond = axis[axis <= 0]
        # Beside the point, on the side where the panel has room.
        beside = log_a_prime + (0.05 if log_a_prime < 0.9 else -0.2)
        under = here - 0.17 if here > 0.2 else here + 0.22
        stays = -0.93, corner + 0.07
        rows = [
            [power(v), power(a), f"{loss(a, v, q):.4f}", f"{loss(epsilon, v, q):.4f}"]
            for v in (-1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0)
            for a in [min(epsilon, v + epsilon)]
        ]
        return Frame(
            title=title,
            readout=f"q = {q:g}, B = 1, A = {power(log_a)}, A′ = {power(log_a_prime)}: log p/p′ = {here:.4f}; tight "
            f"bound {tight:.4f}, that of the quick proof {corner:.4f}",
            marks=[
                Area(axis, highest, np.full(len(axis), 1.7), "source", Text("forbidden by ε-DP", 1.08, 1.4)),
                Area(axis, np.full(len(axis), -1.4), lowest, "source"),
                Line(axis, highest, "guarantee", Text("highest A allowed", 1.08, 1.08)),
                Line(axis, lowest, "muted", Text("lowest A allowed", -1.05, -0.9)),
                Points([0.0], [epsilon], "D", Text("true worst case", 0.0, 1.4, anchor="middle")),
                Points([-epsilon], [epsilon], "source", Text("quick proof", -0.95, 1.07)),
                Points([log_a_prime], [log_a], "measured", Text("here", beside, log_a - 0.32, anchor="start")),
            ],
            beside=[
                Rule("guarantee", y=tight, label=Text(f"tight {tight:.3g}", 1.08, tight + 0.05)),
                Line(
                    beyond, [loss(epsilon, float(v), q) for v in beyond], "source", Text("if A stayed at e·B", *stays)
                ),
                Line(axis, best, "D", Text("at the highest A allowed", -1.05, 0.06)),
                Points([0.0], [tight], "D"),
                Points([-epsilon], [corner], "source"),
                # A negative log-ratio lies below this panel, and so would its label.
                Points(
                    [log_a_prime], [here], "measured", Text("here" if here >= 0 else "", beside, under, anchor="start")
                ),
            ],
            table=(["A′ / B", "highest A / B allowed", "log p/p′ there", "log p/p′ at A = e·B"], rows),
        )

    positions = [-1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0]
    options = {"0.25": "q = 0.25", "0.5": "q = 0.5", "0.75": "q = 0.75"}
    return Explorer(
        "two-worst-cases",
        draw,
        [
            Range("log_a", "log A/B", positions, 1.0, "How the event under D compares with B, without record i."),
            Range("log_a_prime", "log A′/B", positions, -1.0, "The same for D′, where record i is another."),
            Switch("sampling", "Sampling", options, "0.5", "The probability that record i is sampled."),
        ],
        x=Axis("A′ / B", -1.1, 1.1, ticks=ticks),
        y=[Axis("A / B", -1.4, 1.7, ticks=ticks), Axis("log p / p′", 0.0, 1.6)],
        asked="both",
    )


def sampling_and_adjacency() -> Explorer:
    """Which sampling scheme amplifies under which neighbouring relation, for a dataset of n = 20 records.

    The mechanism answers "is x* in the sample?" by randomized response. Where its guarantee allows it (replace-one)
    it also tells the size of the sample. Shown is the loss of the answer yes, as a fraction of epsilon.
    """
    n = 20
    sizes = np.arange(n + 1)
    settings = {
        "replace-one": "Poisson, replace-one",
        "fixed": "fixed size, replace-one",
        "add/remove": "Poisson, add/remove",
    }

    def draw(epsilon: float, q: float, scheme: str) -> Frame:
        formula = amplify(epsilon=epsilon, q=q)
        truth = randomized_response_truth_probability(epsilon=epsilon)
        if scheme == "fixed":
            m = round(q * n)
            at, chance = np.array([m]), np.array([1.0])
        else:
            at = sizes if q < 1 else sizes[-1:]  # at q = 1 the other sizes have probability 0
            chance = comb(n, at) * q**at * (1 - q) ** (n - at)
        if scheme == "add/remove":
            # The size would tell n, which no guarantee under add/remove allows: only the answer is released.
            with_record, without = randomized_response_subsampled(epsilon=epsilon, q=q)
            loss = np.full(len(at), np.log(with_record / without))
        else:
            # Among samples of s records, a share s/n contains x*.
            pairs = [randomized_response_subsampled(epsilon=epsilon, q=float(s / n)) for s in at]
            loss = np.array([np.log(with_record / without) for with_record, without in pairs])
        worst = float(loss.max())
        trap = scheme == "replace-one" and q < 1
        if q == 1:
            title = f"q = 1: every sample holds every record, and the exact ε is the base ε = {epsilon:.3g}."
        elif trap:
            title = f"Not amplified: the output ({n}, yes) has loss {worst:.3g}; the formula says {formula:.3g}."
        elif scheme == "fixed":
            title = f"Amplified: the size is always {m}, and the exact ε is {worst:.3g}, as the formula says."
        else:
            title = f"Amplified: only the answer is released, and its exact ε is {worst:.3g}, as the formula says."
        share = formula / epsilon
        ends = [-0.5, n + 0.5]
        level = [share, share]
        label_at = (n + 0.3, share - 0.12 if share > 0.3 else share + 0.03)
        seen = loss / epsilon
        hidden = scheme == "add/remove"
        above = share + 0.03 if share < 0.85 else share - 0.12
        missing = ""
        if trap:
            # delta at the formula's epsilon: the probability under D above e^epsilon' times that under D'.
            excess = chance * (1 - truth) * np.clip(np.exp(loss) - np.exp(formula), 0.0, None)
            missing = f"; at the formula's value the exact δ is {excess.sum():.3g}, not 0"
        rows = [[f"{s}", f"{c:.3g}", f"{v:.4f}"] for s, c, v in zip(at, chance, loss, strict=True)]
        return Frame(
            title=title,
            readout=f"{settings[scheme]}, n = {n}, ε = {epsilon:.3g}, q = {q:.3g}: exact ε {worst:.4g}, "
            f"formula {formula:.4g}{missing}",
            marks=[
                Rule("muted", y=1.0, label=Text("base ε", -0.3, 1.04)),
                shown(not trap, Line(ends, level, "guarantee", Text("ε′ guaranteed", *label_at))),
                shown(trap, Line(ends, level, "source", Text("formula: no guarantee here", *label_at))),
                Points([] if hidden else at, [] if hidden else seen, "measured"),
                shown(
                    hidden,
                    Line(ends, [seen[0]] * 2, "measured", Text("exact loss; the size stays hidden", -0.3, above)),
                ),
                Text(f"({n}, yes)" if trap else "", n + 0.3, 1.04, "measured"),
            ],
            beside=[Points(at, chance, "D")],
            table=(["sample size", "probability", "loss of the answer yes"], rows[:: 2 if len(rows) > 1 else 1]),
        )

    meaning = "How a sample is drawn, and how two datasets are neighbours."
    qs = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    return Explorer(
        "sampling-and-adjacency",
        draw,
        [
            Range("epsilon", "ε", [0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], 1.0),
            Range("q", "q", qs, 0.25),
            Switch("scheme", "Setting", settings, "replace-one", meaning),
        ],
        x=Axis("size of the sample", -0.5, n + 0.5, ticks=(0, 5, 10, 15, 20)),
        y=[
            Axis("loss of the answer yes, divided by ε", 0, 1.2),
            Axis("probability of this size", 1e-13, 10.0, "log", ticks=(1, 1e-3, 1e-6, 1e-9, 1e-12)),
        ],
        asked="both",
    )
