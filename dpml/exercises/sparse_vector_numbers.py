r"""Checks of items of chapter 08 that ask for a number or a formula.

.. math::

    P(f + \mathrm{Lap}(b_2) \ge T + \mathrm{Lap}(b_1)), \qquad
    \lambda = \frac{\sqrt{32\,Q\ln(2/\delta)}}{\varepsilon}
"""

from __future__ import annotations

import math
from typing import Any

from dpml.classroom import checks
from dpml.classroom.checks import Mistake
from dpml.pate import sparse_vector_privacy
from dpml.pate.sparse_vector_outcomes import outcome_log_probability

__all__ = ["check_affordable_failures", "check_lam", "check_probability_above"]


def _above(value: float, *, threshold: float, threshold_scale: float, query_scale: float) -> float:
    scales = {"threshold": threshold, "threshold_scale": threshold_scale, "query_scale": query_scale}
    return math.exp(outcome_log_probability([value], above=[1], **scales))


def check_probability_above(answer: Any) -> None:
    """The probability that one noisy query is above the noisy threshold."""

    def reference(*, value: float, threshold: float, epsilon: float) -> float:
        return _above(value, threshold=threshold, threshold_scale=2 / epsilon, query_scale=4 / epsilon)

    def with_scales(b1: float, b2: float) -> Any:
        def wrong(*, value: float, threshold: float, epsilon: float) -> float:
            return _above(value, threshold=threshold, threshold_scale=b1 / epsilon, query_scale=b2 / epsilon)

        return wrong

    def inverted(*, value: float, threshold: float, epsilon: float) -> float:
        return _above(value, threshold=threshold, threshold_scale=2 * epsilon, query_scale=4 * epsilon)

    triples = [
        (0.0, 0.0, 1.0),
        (3.0, 10.0, 0.5),
        (12.0, 10.0, 2.0),
        (73.0, 50.0, 1.0),
        (-5.0, 5.0, 1.0),
        (1.0, 0.5, 0.1),
    ]
    checks.function(
        answer,
        name="probability_above",
        reference=reference,
        inputs=[{"value": v, "threshold": t, "epsilon": e} for v, t, e in triples],
        rel=1e-5,
        abs=1e-8,
        mistakes=[
            Mistake(with_scales(0.0, 4.0), "the threshold has no noise here. It gets Lap(2/epsilon)."),
            Mistake(with_scales(2.0, 0.0), "the query has no noise here. It gets Lap(4/epsilon)."),
            Mistake(with_scales(2.0, 2.0), "the query has Lap(2/epsilon); it needs twice as much as the threshold."),
            Mistake(with_scales(4.0, 4.0), "the threshold has Lap(4/epsilon); Lap(2/epsilon) is enough."),
            Mistake(
                with_scales(4.0, 8.0), "both scales are twice as large: in the formula, b is that of the threshold."
            ),
            Mistake(with_scales(1.0, 2.0), "both scales are half as large as those of AboveThreshold."),
            Mistake(inverted, "the scales are multiplied by epsilon. A smaller epsilon needs more noise."),
            Mistake(
                lambda *, value, threshold, epsilon: 1 - reference(value=value, threshold=threshold, epsilon=epsilon),
                "this is the probability of below.",
            ),
            Mistake(
                lambda *, value, threshold, epsilon: reference(
                    value=min(value, 2 * threshold - value), threshold=threshold, epsilon=epsilon
                ),
                "a value above the threshold is treated as if it were as far below.",
            ),
        ],
        hint="At value = threshold it is one half. Far below the threshold it falls like e^(-gap epsilon/4).",
    )


def check_lam(answer: Any) -> None:
    """The scale lambda of the repaired M_svec at epsilon = 0.1, Q = 1, delta = 1e-5."""
    epsilon, cutoff, delta = 0.1, 1, 1e-5
    right = sparse_vector_privacy.m_svec_noise_classic(epsilon=epsilon, delta=delta, cutoff=cutoff, queries=1).scale

    def root(inside: float) -> float:
        return math.sqrt(32 * cutoff * inside)

    half = math.log(2 / delta)
    checks.number(
        answer,
        name="lam",
        expected=right,
        mistakes=[
            Mistake(
                root(math.log(1 / delta)) * epsilon, "this is as printed: multiplied by epsilon, and private no more."
            ),
            Mistake(root(half) * epsilon, "the part of delta is right, but epsilon multiplies where it must divide."),
            Mistake(
                root(math.log(1 / delta)) / epsilon,
                "epsilon is where it belongs. But unstable queries need some of delta; here the composition takes all.",
            ),
            Mistake(
                math.sqrt(2) * right,
                "this is for two failures: the loop must end after failure number Q, not after one more.",
            ),
            Mistake(right**2 * epsilon, "the square root is missing."),
            Mistake(right * math.sqrt(epsilon), "epsilon stands under the root. It divides the root."),
            Mistake(2 * right, "this is the noise of the queries, 2 lambda."),
            Mistake(
                sparse_vector_privacy.m_svec_noise(epsilon=epsilon, delta=delta, cutoff=cutoff).scale,
                "this is the least scale, by optimal composition. Asked is the formula with the root, repaired.",
            ),
            Mistake(root(math.log10(2 / delta)) / epsilon, "the logarithm is the natural one."),
        ],
        hint="Smaller epsilon, more noise; and half of delta is for the composition.",
    )


def check_affordable_failures(answer: Any) -> None:
    """The largest number of failures for which all queries of a given distance still pass."""

    def needed(cutoff: int, *, epsilon: float, delta: float, queries: int, beta: float, classic: bool = False) -> float:
        if classic:
            noise = sparse_vector_privacy.m_svec_noise_classic(
                epsilon=epsilon, delta=delta, cutoff=cutoff, queries=queries
            )
        else:
            noise = sparse_vector_privacy.m_svec_noise(epsilon=epsilon, delta=delta, cutoff=cutoff)
        return sparse_vector_privacy.enough_distance(
            scale=noise.scale, threshold=noise.threshold, queries=queries, beta=beta
        )

    def largest(
        distance: int, *, threshold_only: bool = False, classic: bool = False, cap: int = 0, **setting: Any
    ) -> int:
        best = 0
        for cutoff in range(1, (cap or setting["queries"]) + 1):
            noise = sparse_vector_privacy.m_svec_noise(
                epsilon=setting["epsilon"], delta=setting["delta"], cutoff=cutoff
            )
            need = noise.threshold if threshold_only else needed(cutoff, classic=classic, **setting)
            if need > distance:
                break
            best = cutoff
        return best

    def divided(distance: int, **setting: Any) -> int:
        """As with epsilon divided among the failures: the noise of one failure for that part."""
        best, queries = 0, setting["queries"]
        while best < queries and distance >= needed(1, **{**setting, "epsilon": setting["epsilon"] / (best + 1)}):
            best += 1
        return best

    def reference(distance: int, *, epsilon: float, delta: float, queries: int, beta: float) -> int:
        return largest(distance, epsilon=epsilon, delta=delta, queries=queries, beta=beta)

    def given(distance: int, epsilon: float, delta: float, queries: int) -> dict[str, Any]:
        return {"distance": distance, "epsilon": epsilon, "delta": delta, "queries": queries, "beta": 0.01}

    checks.function(
        answer,
        name="affordable_failures",
        reference=reference,
        inputs=[
            given(120, 2.0, 1e-5, 400),
            given(500, 1.0, 1e-5, 1000),
            given(2000, 1.0, 1e-6, 1000),
            given(20, 1.0, 1e-5, 100),
            given(1000, 2.0, 1e-5, 5),
            given(900, 2.0, 1e-5, 100),
            given(1500, 2.0, 1e-5, 200),
        ],
        mistakes=[
            Mistake(
                lambda distance, **s: largest(distance, classic=True, **s),
                "this takes the classic noise. With the least noise more failures are affordable.",
            ),
            Mistake(
                lambda distance, **s: largest(distance, threshold_only=True, **s),
                "it is not enough to reach the threshold: noise of queries and threshold comes on top.",
            ),
            Mistake(
                divided, "epsilon is divided among the failures. m_svec_noise composes better: give it the cutoff."
            ),
            Mistake(
                lambda distance, **s: min(largest(distance, **s) + 1, s["queries"]),
                "one failure more: for your number the distance that is needed is larger than the one that is there.",
            ),
            Mistake(lambda distance, **s: max(0, largest(distance, **s) - 1), "one more failure is affordable."),
            Mistake(
                lambda distance, **s: min(largest(distance, **s), s["queries"] - 1),
                "the cutoff may be as large as the number of queries: range ends before it.",
            ),
            Mistake(
                lambda distance, **s: max(1, largest(distance, **s)),
                "where not even one failure is affordable the answer is 0.",
            ),
            Mistake(
                lambda distance, **s: largest(distance, cap=1000, **s),
                "more failures than queries cannot happen.",
            ),
        ],
        hint="Put your number, and the next one, into m_svec_noise and enough_distance.",
    )
