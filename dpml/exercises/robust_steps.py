r"""Checks of items 1, 2 and 4 of chapter 11: functions of the norms of a batch.

.. math::

    \Delta = \max\bigl(0,\ F - \#\{i : \|g_i\| > \tau R\}\bigr), \qquad w_i = \min(1, R/\|g_i\|)\, [i \text{ kept}]
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml.classroom import checks
from dpml.classroom.checks import Mistake
from dpml.ptr import trimmed_sum
from dpml.ptr.propose_test_release import pass_probability, threshold

__all__ = ["check_least_trim", "check_next_trim", "check_step_weights"]

Array = NDArray[np.float64]


def check_least_trim(answer: Any) -> None:
    """The least F whose test passes with probability at least 1/2: found by trying all of them."""

    def reference(norms: Array, *, tau: float, bound: float, scale: float, delta0: float) -> int:
        for trim in range(len(norms) + 10_000):
            margin = trimmed_sum.safety_margin(norms, trim=trim, tau=tau * bound, bound=bound)
            if pass_probability(margin, scale=scale, delta0=delta0) >= 0.5:
                return trim
        raise AssertionError("the threshold is far below 10,000")

    def inputs(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        yield {"norms": np.array([0.2, 0.9, 3.0]), "tau": 0.5, "bound": 1.0, "scale": 1.0, "delta0": 1e-8}
        yield {"norms": np.array([]), "tau": 0.5, "bound": 2.0, "scale": 0.5, "delta0": 1e-4}
        for _ in range(10):
            norms = rng.exponential(2.0, size=int(rng.integers(1, 60)))
            tau, bound, scale = (float(rng.choice(values)) for values in ([0.3, 0.8], [0.5, 4.0], [0.5, 1.0, 2.0]))
            yield {"norms": norms, "tau": tau, "bound": bound, "scale": scale, "delta0": 1e-6}

    def above(norms: Any, level: float) -> int:
        return int(np.sum(np.asarray(norms) > level))

    def needed(scale: float, delta0: float) -> float:
        return threshold(scale=scale, delta0=delta0)

    checks.function(
        answer,
        reference=reference,
        inputs=inputs,
        name="least_trim",
        mistakes=[
            Mistake(
                lambda norms, *, tau, bound, scale, delta0: above(norms, tau * bound) + needed(scale, delta0),
                "F is a whole number: round up.",
            ),
            Mistake(
                lambda norms, *, tau, bound, scale, delta0: (
                    above(norms, tau * bound) + math.ceil(needed(scale, delta0)) + 1
                ),
                "it is one too large: at F one smaller the margin reaches the threshold already.",
            ),
            Mistake(
                lambda norms, *, tau, bound, scale, delta0: above(norms, tau * bound) + math.ceil(needed(1.0, delta0)),
                "the threshold is b log(1/(2 delta0)), and the factor b (`scale`) is missing.",
            ),
            Mistake(
                lambda norms, *, tau, bound, scale, delta0: (
                    len(norms) - above(norms, tau * bound) + math.ceil(needed(scale, delta0))
                ),
                "it counts the short gradients. Those longer than tau times bound use up the places.",
            ),
            Mistake(
                lambda norms, *, tau, bound, scale, delta0: above(norms, tau) + math.ceil(needed(scale, delta0)),
                "tau is in units of the bound: the norms are compared with tau times bound.",
            ),
            Mistake(
                lambda norms, *, tau, bound, scale, delta0: above(norms, bound) + math.ceil(needed(scale, delta0)),
                "it counts the norms that are clipped. Those longer than tau times bound count.",
            ),
            Mistake(
                lambda norms, *, tau, bound, scale, delta0: above(norms, tau * bound),
                "at this F the margin is 0, and the test passes with probability delta0 only.",
            ),
            Mistake(
                lambda norms, *, tau, bound, scale, delta0: math.ceil(needed(scale, delta0)),
                "it forgets the long gradients: each of them uses up one of the F places.",
            ),
            Mistake(
                lambda norms, *, tau, bound, scale, delta0: (
                    above(norms, tau * bound) + math.ceil(scale * math.log(1 / delta0))
                ),
                "the threshold is b log(1/(2 delta0)), with the 2.",
            ),
            Mistake(
                lambda norms, *, tau, bound, scale, delta0: above(norms, tau * bound) + int(needed(scale, delta0)),
                "it is one too small: the margin must reach the threshold, so round up.",
            ),
        ],
        hint="The median of the Laplace noise is 0, so the margin itself must reach b log(1/(2 delta0)).",
    )


def check_step_weights(answer: Any) -> None:
    """The weight of each gradient in one step of TSGD with propose-test-release."""

    def clip(norms: Array, bound: float) -> Array:
        weights: Array = bound / np.maximum(norms, bound)
        return weights

    def reference(norms: Array, *, ids: Any, trim: int, bound: float, passed: bool) -> Array:
        stays = trimmed_sum.kept(norms, trim=trim, ids=ids) if passed else np.ones(len(norms), dtype=bool)
        return clip(norms, bound) * stays

    def inputs(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        small = {"norms": np.array([4.0, 0.5, 2.0]), "ids": np.array([7, 3, 9]), "bound": 1.0}
        yield {**small, "trim": 1, "passed": True}
        yield {**small, "trim": 1, "passed": False}
        yield {**small, "trim": 5, "passed": True}
        yield {**small, "trim": 0, "passed": True}
        yield {"norms": np.array([2.0, 2.0]), "ids": np.array([8, 5]), "trim": 1, "bound": 1.0, "passed": True}
        for _ in range(8):
            m = int(rng.integers(1, 12))
            norms = rng.choice([0.3, 1.5, 1.5, 2.5, 6.0], size=m)
            ids = rng.permutation(50)[:m]
            yield {"norms": norms, "ids": ids, "trim": int(rng.integers(0, m + 1)), "bound": 1.0, "passed": True}

    def by_order(norms: Array, ids: Any, trim: int, bound: float, key: Array, tie: Any) -> Array:
        order = np.lexsort((tie, key))
        stays = np.zeros(len(norms))
        stays[order[: max(0, len(norms) - trim)]] = 1.0
        return clip(norms, bound) * stays

    checks.function(
        answer,
        reference=reference,
        inputs=inputs,
        name="step_weights",
        mistakes=[
            Mistake(
                lambda norms, *, ids, trim, bound, passed: (
                    by_order(norms, ids, trim, bound, np.asarray(ids), norms) if passed else clip(norms, bound)
                ),
                "it orders by the ids. The norms come first; the ids decide between equal norms only.",
            ),
            Mistake(
                lambda norms, *, ids, trim, bound, passed: (
                    by_order(norms, ids, trim, bound, norms, -np.asarray(ids)) if passed else clip(norms, bound)
                ),
                "of equal norms it leaves out the smaller id: the larger leaves first.",
            ),
            Mistake(
                lambda norms, *, ids, trim, bound, passed: (
                    norms * (by_order(norms, ids, trim, bound, norms, ids) if passed else clip(norms, bound))
                ),
                "these are the lengths after clipping. A weight is what a gradient is multiplied by: at most 1.",
            ),
            Mistake(
                lambda norms, *, ids, trim, bound, passed: (
                    by_order(norms, ids, trim, bound, np.minimum(norms, bound), ids) if passed else clip(norms, bound)
                ),
                "it orders by the norms after clipping: all long gradients tie, and a short outlier is as good as any.",
            ),
            Mistake(
                lambda norms, *, ids, trim, bound, passed: (
                    by_order(norms, ids, trim, bound, norms, np.arange(len(norms))) if passed else clip(norms, bound)
                ),
                "equal norms are ordered by their place in the batch. The id must decide: of equals the larger leaves.",
            ),
            Mistake(
                lambda norms, *, ids, trim, bound, passed: (
                    by_order(norms, ids, trim, bound, norms, ids) if not passed else clip(norms, bound)
                ),
                "it trims when the test fails: it is the other way round.",
            ),
            Mistake(
                lambda norms, *, ids, trim, bound, passed: by_order(norms, ids, trim, bound, norms, ids),
                "it trims after a failed test as well. Then the plain clipped sum is released.",
            ),
            Mistake(
                lambda norms, *, ids, trim, bound, passed: (
                    (by_order(norms, ids, trim, bound, norms, ids) > 0) * 1.0 if passed else np.ones(len(norms))
                ),
                "nothing is clipped: a weight is at most bound over norm.",
            ),
            Mistake(
                lambda norms, *, ids, trim, bound, passed: (
                    by_order(norms, ids, trim, bound, -norms, ids) if passed else clip(norms, bound)
                ),
                "it leaves out the shortest gradients.",
            ),
        ],
        hint="Passed: weight 0 for the F longest, ties by id, min(1, R/norm) for the others. Failed: min(1, R/norm).",
    )


def check_next_trim(answer: Any) -> None:
    """The next F by the rule that settles."""

    def reference(trim: int, *, passed: bool, change: int, most: int) -> int:
        return min(most, max(0, trim - change if passed else trim + change))

    def inputs(rng: np.random.Generator) -> Iterator[tuple[tuple[int], dict[str, Any]] | dict[str, Any]]:
        for trim, passed in ((64, True), (64, False), (3, True), (254, False), (0, True), (256, False)):
            yield {"trim": trim, "passed": passed, "change": 5, "most": 256}
        for _ in range(8):
            yield {"trim": int(rng.integers(0, 101)), "passed": bool(rng.integers(2)), "change": 7, "most": 100}

    checks.function(
        answer,
        reference=reference,
        inputs=inputs,
        name="next_trim",
        mistakes=[
            Mistake(
                lambda trim, *, passed, change, most: min(most, max(0, trim + change if passed else trim - change)),
                "this is the rule of the appendix: a failed test lowers F, and the next one fails too. It runs away.",
            ),
            Mistake(
                lambda trim, *, passed, change, most: trim - change if passed else trim + change,
                "F leaves the range from 0 to most.",
            ),
            Mistake(
                lambda trim, *, passed, change, most: min(most, trim - change if passed else trim + change),
                "F becomes negative after many passed tests.",
            ),
            Mistake(
                lambda trim, *, passed, change, most: max(0, trim - change if passed else trim + change),
                "F exceeds most after many failed tests.",
            ),
        ],
        hint="A failed test asks for more margin, so for a larger F; both ends are clipped.",
    )
