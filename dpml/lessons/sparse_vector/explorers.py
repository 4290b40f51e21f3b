"""Explorers of chapter 08, The sparse vector technique."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from scipy.special import ndtri

from dpml.accounting import composition
from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Axis, Frame, Line, Points, Role, Rule, Text
from dpml.mechanisms import gaussian_sigma
from dpml.numerics import crossing
from dpml.pate.sparse_vector.outcomes import outcome_log_probability
from dpml.pate.sparse_vector.privacy import Noise, enough_distance, m_svec_noise, m_svec_noise_classic
from dpml.pate.voting import argmax_log_probabilities


def breaker() -> Explorer:
    """The exact loss of AboveThreshold on its worst pair, and what happens when one part of it is taken away.

    All numbers are for a claim of epsilon = 1; the loss is in units of the claim, so that it holds for every epsilon.
    """
    lengths = [1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100]
    scales = [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0]

    @cache
    def loss(k: int, variant: str, scale: float) -> float:
        """The largest log-ratio of the probabilities of one output, over a few places of the threshold."""
        last = k // 2 if variant == "cutoff" else 1  # so many answers above, at the end
        bits = [0] * (k - last) + [1] * last
        one = np.zeros(k)
        other = np.where(np.array(bits) == 0, 1.0, -1.0)
        noise = {"threshold_scale": 0.0 if variant == "threshold" else 2.0, "query_scale": scale}

        def at(threshold: float) -> float:
            first, second = (outcome_log_probability(d, above=bits, threshold=threshold, **noise) for d in (one, other))
            return first - second

        return max(at(threshold) for threshold in ((-20.0, 0.0, 40.0) if variant == "whole" else (0.0,)))

    names = {"whole": "AboveThreshold", "threshold": "Without noise on the threshold", "cutoff": "Without an end"}

    def draw(k: int, scale: float, variant: str) -> Frame:
        def curve(shown: str, role: Role, label: Text) -> Line:
            return Line(lengths, [loss(n, shown, scale) for n in lengths], role, label)

        now = loss(k, variant, scale)
        claim = "holds" if now <= 1.0 + 1e-9 else "is false"
        return Frame(
            title=f"{names[variant]}, query noise Lap({scale:g}/ε): {k} answers cost {now:.3g} ε: the claim {claim}.",
            readout=f"{names[variant]}; threshold noise {'none' if variant == 'threshold' else 'Lap(2/ε)'}, query "
            f"noise Lap({scale:g}/ε): loss {now:.4f} ε after k = {k} answers; the bound of the theorem is "
            f"{0.5 + 2 / scale:.4g} ε for AboveThreshold",
            marks=[
                Rule("guarantee", y=1.0, label=Text("claimed: at most ε", 120.0, 0.6)),
                curve("whole", "D", Text("as it should be", 1.1, 0.115)),
                curve(variant, "source", Text("" if variant == "whole" else names[variant].lower(), 120.0, 110.0)),
                Points([k], [now], "source"),
            ],
        )

    options = {"whole": "whole", "threshold": "no threshold noise", "cutoff": "no end"}
    meaning = "“No end” answers on after the first “above”, with the same noise on the threshold."
    return Explorer(
        "svt-breaker",
        draw,
        [
            Range("k", "answers k", lengths, 20, "How many queries are answered.", "{:d}"),
            Range("scale", "query noise × ε", scales, 4.0, "The scale of the noise on each query, times ε.", "{:g}"),
            Switch("variant", "mechanism", options, "threshold", meaning),
        ],
        x=Axis("number of answers k", 1.0, 130.0, "log"),
        y=Axis("exact loss, in units of the claimed ε", 0.05, 150.0, "log"),
        asked="both",
    )


def when_it_pays() -> Explorer:
    """How clear the votes must be so that every query is answered rightly: sparse vector against plain noisy argmax.

    Two classes, delta = 1e-5, all answers right with probability 0.99. The gap is the difference of the two counts.
    """
    numbers = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000]
    cutoffs = [1, 2, 3, 5, 10, 20, 30, 50, 100, 200]
    budgets = [0.25, 0.5, 1.0, 2.0, 4.0]
    delta, beta = 1e-5, 0.01

    @cache
    def laplace_gap(m: int, epsilon: float) -> float:
        def excess(step: float) -> float:
            return composition.optimal(epsilon=1.0 / step, delta=0.0, k=m, total_delta=delta).epsilon - epsilon

        scale = 2.0 * crossing(excess, low=1.0 / 50.0, high=m / epsilon * (1 + 1e-9))

        def too_often(gap: float) -> float:
            return float(argmax_log_probabilities([math.ceil(gap), 0], scale=scale)[1]) - math.log(beta / m)

        # Half a vote is near enough for the next whole number.
        return math.ceil(crossing(too_often, low=0.0, high=60.0 * scale + 1.0, width=0.5))

    @cache
    def gaussian_gap(m: int, epsilon: float) -> float:
        """Counts with Gaussian noise: two of them move by one, m times, and the noise of a gap is sqrt(2) sigma."""
        sigma = math.sqrt(2.0 * m) * gaussian_sigma(epsilon=epsilon, delta=delta)
        return -math.sqrt(2.0) * sigma * float(ndtri(beta / m))

    @cache
    def tight_noise(epsilon: float, most: int) -> Noise:
        return m_svec_noise(epsilon=epsilon, delta=delta, cutoff=most)

    @cache
    def svec_gap(m: int, epsilon: float, cutoff: int, classic: bool) -> float:
        most = min(cutoff, m)
        if classic:
            noise = m_svec_noise_classic(epsilon=epsilon, delta=delta, cutoff=most, queries=m)
        else:
            noise = tight_noise(epsilon, most)
        distance = enough_distance(scale=noise.scale, threshold=noise.threshold, queries=m, beta=beta)
        return 2.0 * distance + 2.0

    def draw(cutoff: int, epsilon: float, noise: str) -> Frame:
        classic = noise == "classic"
        svec = [svec_gap(m, epsilon, cutoff, classic) for m in numbers]
        plain, bell = [laplace_gap(m, epsilon) for m in numbers], [gaussian_gap(m, epsilon) for m in numbers]
        failures = f"{cutoff} failure{'s' * (cutoff > 1)}"
        ahead = np.log(np.minimum(plain, bell)) - np.log(svec)
        if ahead.max() > 0:
            last = int(np.argmax(ahead > 0))  # the curves, drawn as straight lines, cross on the way to this number
            where = np.exp(np.interp(0.0, ahead[last - 1 : last + 1], np.log(numbers[last - 1 : last + 1])))
            since = f"{float(f'{where:.2g}'):,.0f}"
            title = f"With {failures} allowed, the sparse vector needs the smallest gap from about {since} queries on."
        else:
            title = f"With {failures} allowed, noisy votes need a smaller gap than M_svec up to 100,000 queries"
        return Frame(
            title=title,
            readout=f"ε = {epsilon:g}, δ = 10⁻⁵, Q = {cutoff}: for 1,000 queries M_svec ({noise} noise) needs a gap of "
            f"{svec[6]:,.0f} votes, noisy argmax {plain[6]:,.0f} (Laplace noise) or {bell[6]:,.0f} (Gaussian)",
            marks=[
                Line(numbers, plain, "muted", Text("noisy argmax, Laplace", 11.0, 1.7e4)),
                Line(numbers, bell, "D'", Text("noisy argmax, Gaussian", 1.2e5, 45.0)),
                Line(numbers, svec, "D", Text("M_svec", 11.0, 40.0)),
            ],
        )

    meaning = "Tight: by optimal composition. Classic: with the constant 32."
    return Explorer(
        "svt-pays",
        draw,
        [
            Range("cutoff", "failures Q", cutoffs, 3, "How many failed queries end the run.", "{:d}"),
            Range("epsilon", "ε", budgets, 1.0, form="{:g}"),
            Switch("noise", "noise of M_svec", {"tight": "tight", "classic": "classic"}, "tight", meaning),
        ],
        x=Axis("number of queries", 10.0, 1.3e5, "log"),
        y=Axis("gap of votes needed", 30.0, 1e6, "log"),
        asked="both",
    )
