"""Explorers of chapter 14, trust but audit: Gaussian noise of multiplier sigma, sensitivity 1, delta = 1e-5."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dpml import mechanisms
from dpml.audit.one_run import one_run_lower_bound, right_guesses
from dpml.audit.samples import upper_limit
from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Axis, Frame, Key, Line, Points, Rule, Text

Array = NDArray[np.float64]
DELTA = 1e-5
SIGMAS = [0.5, 0.6, 0.7, 0.8, 1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0]


def evidence_and_runs() -> Explorer:
    """What an audit of Gaussian noise typically proves from so many runs, by the best event and by the known form."""
    counts = [100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000]
    thresholds = np.linspace(-8.0, 8.0, 401)

    @cache
    def proved(runs: int, sigma: float, alarm: float) -> tuple[float, float]:
        """Counts at their expectation, for the best threshold: epsilon by the event, and by the form."""
        misses, false_alarms = (np.round(runs * ndtr(z)) for z in (thresholds - 1.0 / sigma, -thresholds))
        beta, alpha = (upper_limit(k, trials=runs, alarm=alarm / 2.0) for k in (misses, false_alarms))
        ratios = [np.log(np.maximum(1.0 - a - DELTA, 1e-300) / b) for a, b in ((beta, alpha), (alpha, beta))]
        mu = float(np.max(-ndtri(alpha) - ndtri(beta)))
        form = mechanisms.gaussian_epsilon(sigma=1.0 / mu, delta=DELTA) if mu > 1e-3 else 0.0
        return max(0.0, float(np.max(ratios))), form

    def draw(runs: int, sigma: float, confidence: str) -> Frame:
        alarm = 1.0 - float(confidence)
        exact = mechanisms.gaussian_epsilon(sigma=sigma, delta=DELTA)
        event, form = proved(runs, sigma, alarm)
        both = np.array([proved(count, sigma, alarm) for count in counts])
        return Frame(
            title=f"σ = {sigma:g}, {runs:,} runs on each dataset: an event proves {event:.2f}, the known form "
            f"{form:.2f}, of the true {exact:.2f}.",
            readout=f"An event reaches {event / exact:.0%}, the form {form / exact:.0%}. If no guess were wrong, so "
            f"many runs would prove {_most(runs, alarm):.2f}.",
            marks=[
                Rule("guarantee", y=exact, label=Text("true ε", 120.0, exact + 0.2, anchor="start")),
                Line(counts, both[:, 1], "D", Key("known form", 200.0, 12.0)),
                Line(counts, both[:, 0], "D'", Key("best event", 200.0, 11.2)),
                Points([runs, runs], [event, form], "measured"),
            ],
        )

    levels = {"0.95": "95 %", "0.99": "99 %", "0.999999": "1 − 10⁻⁶"}
    return Explorer(
        "audit-evidence-and-runs",
        draw,
        [
            Range("runs", "runs", counts, 10_000, "How often the mechanism runs on each dataset.", "{:,}", "log"),
            Range("sigma", "σ", SIGMAS, 1.0),
            Switch("confidence", "confidence", levels, "0.95", "How sure the bound is to hold."),
        ],
        x=Axis("runs on each dataset", 90.0, 1.2e6, "log"),
        y=Axis("ε at least", 0.0, 12.6),
        asked="both",
    )


def _most(runs: int, alarm: float) -> float:
    """What a test without any error proves."""
    limit = float(upper_limit(0, trials=runs, alarm=alarm / 2.0))
    return max(0.0, math.log(max(1.0 - limit - DELTA, 1e-300) / limit))


def attack_and_region() -> Explorer:
    """The best attack on Gaussian noise, and the region that (epsilon, delta) leaves to attacks."""
    rates = np.concatenate([np.linspace(0.0, 0.02, 30), np.linspace(0.025, 1.0, 70)])
    epsilons = [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0]

    def draw(epsilon: float, sigma: float, delta: str) -> Frame:
        slack = float(delta)
        corner = (1.0 - slack) / (1.0 + math.exp(epsilon))
        limit = [0.0, corner, 1.0 - slack, 1.0], [slack, 1.0 - corner, 1.0, 1.0]
        curve = ndtr(1.0 / sigma + ndtri(rates))
        least = mechanisms.gaussian_delta(sigma=sigma, epsilon=epsilon)
        advantage = float(2.0 * ndtr(0.5 / sigma) - 1.0)
        allowed = (math.expm1(epsilon) + 2.0 * slack) / (math.exp(epsilon) + 1.0)
        verdict = "stays inside, so the claim holds" if least <= slack else "leaves the region, so the claim is false"
        return Frame(
            title=f"Noise of σ = {sigma:g} against ε = {epsilon:g}, δ = {delta}: the best attack {verdict}.",
            readout=f"Its least δ at this ε is {least:.3g}. Its largest advantage TPR − FPR is {advantage:.3f}; the "
            f"claim allows {min(1.0, allowed):.3f}.",
            marks=[
                Line(*limit, "guarantee", Key("most that the claim allows", 0.4, 0.28)),
                Line(rates, curve, "D", Key("best attack on the noise", 0.4, 0.2)),
                Line([0.0, 1.0], [0.0, 1.0], "muted", Key("a coin", 0.4, 0.12)),
            ],
        )

    return Explorer(
        "audit-attack-and-region",
        draw,
        [
            Range("epsilon", "ε", epsilons, 1.0),
            Range("sigma", "σ", SIGMAS, 1.0),
            Switch("delta", "δ", {"0.00001": "10⁻⁵", "0.01": "0.01", "0.1": "0.1"}, "0.1", "The claim's δ."),
        ],
        x=Axis("false positive rate", 0.0, 1.0),
        y=Axis("true positive rate", 0.0, 1.0),
        asked="both",
    )


def canary_scores() -> Explorer:
    """The scores of canaries in one run of Gaussian noise, and what the surest guesses prove.

    On the right the bound for every number of guesses.
    """
    shares = [0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0]
    epsilons = [0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0]
    edges = np.linspace(-5.0, 7.0, 49)

    @cache
    def run(epsilon: float, canaries: int) -> tuple[Array, NDArray[np.int64]]:
        rng = np.random.default_rng(3)
        coins = rng.integers(0, 2, canaries)
        return coins / _sigma(epsilon) + rng.normal(size=canaries), coins

    @cache
    def proved(epsilon: float, canaries: int, share: float) -> tuple[int, int, float]:
        scores, coins = run(epsilon, canaries)
        guesses = round(share * canaries)
        correct = right_guesses(scores, included=coins, guesses=guesses)
        found = one_run_lower_bound(correct=correct, guesses=guesses, canaries=canaries, delta=DELTA, confidence=0.95)
        return correct, guesses, found.epsilon_at_least

    def draw(share: float, epsilon: float, canaries: str) -> Frame:
        m = int(canaries)
        scores, coins = run(epsilon, m)
        correct, guesses, least = proved(epsilon, m, share)
        heights = [np.histogram(scores[coins == side], edges)[0] / (m / 2) for side in (0, 1)]
        ends = np.sort(scores)[[max(0, guesses // 2 - 1), m - max(1, guesses - guesses // 2)]]
        middles = (edges[1:] + edges[:-1]) / 2
        return Frame(
            title=f"{correct} of the {guesses} surest guesses are right: ε at least {least:.2f}, of the true "
            f"{epsilon:g}.",
            readout=f"One run, {m:,} canaries, noise of σ = {_sigma(epsilon):.3f}; 95 % confidence. Right: "
            f"{correct / guesses:.0%}.",
            marks=[
                Line(middles, heights[0], "D'", Key("canary is out", 4.0, 0.15)),
                Line(middles, heights[1], "D", Key("canary is in", 4.0, 0.138)),
                Line([ends[0]] * 2, [0.0, 0.16], "muted", Text('"out"', float(ends[0]) - 0.2, 0.163, anchor="end")),
                Line([ends[1]] * 2, [0.0, 0.16], "muted", Text('"in"', float(ends[1]) + 0.2, 0.163, anchor="start")),
            ],
            beside=[
                Rule("guarantee", y=epsilon, label=Text("true ε", 0.98, epsilon + 0.15, anchor="end")),
                Line(shares, [proved(epsilon, m, one)[2] for one in shares], "D"),
                Points([share], [least], "measured"),
            ],
        )

    sizes = {"100": "100", "1000": "1,000", "10000": "10,000"}
    return Explorer(
        "audit-canary-scores",
        draw,
        [
            Range("share", "share guessed", shares, 0.1, "For which part of the canaries a guess is made.", "{:.0%}"),
            Range("epsilon", "ε", epsilons, 4.0),
            Switch("canaries", "canaries", sizes, "1000", "How many coins one run hides."),
        ],
        x=[Axis("score", -5.0, 7.0), Axis("share guessed", 0.0, 1.02)],
        y=[Axis("share of the canaries", 0.0, 0.175), Axis("ε at least", 0.0, 8.6)],
        asked="right",
    )


@cache
def _sigma(epsilon: float) -> float:
    return mechanisms.gaussian_sigma(epsilon=epsilon, delta=DELTA)
