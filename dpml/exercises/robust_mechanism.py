r"""The check of item 3 of chapter 11: the noisy trimmed sum.

.. math::

    \text{TSUM}_F + N(0, \sigma^2 R^2 I)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpml.classroom import checks, verdict
from dpml.ptr import trimmed_sum

__all__ = ["check_noisy_total"]

_M, _TRIM = 24, 8


def check_noisy_total(answer: Any) -> None:
    """A trimmed sum that one record moves by at most the bound, with noise for that, in each coordinate anew."""

    def released(f: Any, rows: Any, ids: Any, *, trim: int, bound: float, sigma: float, seed: int = 0) -> Any:
        rng = np.random.default_rng(seed)
        came = verdict.given(f(rows.copy(), ids=ids.copy(), trim=trim, bound=bound, sigma=sigma, rng=rng))
        return np.asarray(came, dtype=float)

    def sums(f: Any) -> bool | str:
        rng = np.random.default_rng(1)
        for m, trim in ((6, 2), (5, 0), (3, 3), (4, 5), (9, 4)):
            rows = rng.normal(size=(m, 3)) * rng.uniform(0.2, 6.0, size=(m, 1))
            ids = rng.permutation(100)[:m]
            came = released(f, rows, ids, trim=trim, bound=2.0, sigma=0.0)
            right = trimmed_sum.clipped_trimmed_sum(rows, ids=ids, trim=trim, bound=2.0)
            if came.shape != right.shape:
                return f"for {m} vectors of 3 numbers it returned an array of shape {came.shape}"
            if not np.allclose(came, right, rtol=0.0, atol=1e-9):
                if np.allclose(came, trimmed_sum.trimmed_sum(rows, ids=ids, trim=trim)):
                    return "the vectors are not clipped to the bound"
                if np.allclose(came, trimmed_sum.clipped_trimmed_sum(rows, ids=ids, trim=0, bound=2.0)):
                    return "nothing is trimmed"
                if np.allclose(came * m, right):
                    return "it is divided by the number of vectors: return the sum"
                if m <= trim:
                    return f"with {m} vectors and trim = {trim} nothing is left, and the sum is zero"
                return (
                    f"for {m} vectors of different lengths and trim = {trim} it is another sum. "
                    "Leave out those that are longest before clipping"
                )
        return True

    def moves(f: Any) -> bool | str:
        rng = np.random.default_rng(2)
        worst = 0.0
        for _ in range(100):
            rows = rng.choice([-3.0, 3.0, 0.5], size=(_M, 1), p=[0.45, 0.45, 0.1]) * np.array([[0.6, 0.8]])
            ids, order = rng.permutation(1000)[:_M], rng.permutation(_M)[1:]
            here = released(f, rows, ids, trim=_TRIM, bound=1.0, sigma=0.0)
            there = released(f, rows[order], ids[order], trim=_TRIM, bound=1.0, sigma=0.0)
            worst = max(worst, float(np.linalg.norm(here - there)))
        if worst > 1.0 + 1e-6:
            return (
                f"in a batch that comes in another order, one record moved the sum by {worst:.1f} times the bound, so "
                "that no noise for the bound protects it. Let the id decide between equal lengths"
            )
        return True

    def noise(f: Any) -> bool | str:
        rows, ids = np.zeros((3, 4000)), np.arange(3)
        one = released(f, rows, ids, trim=1, bound=2.0, sigma=1.5, seed=5)
        deviation = float(one.std()) / 3.0
        if not np.any(one):
            return "there is no noise"
        if float(one.std()) < 1e-9:
            return "every coordinate gets the same noise. Draw one number for each of them"
        if np.array_equal(one, released(f, rows, ids, trim=1, bound=2.0, sigma=1.5, seed=6)):
            return "the noise is the same every time: draw it from the rng that it is given"
        if not np.array_equal(one, released(f, rows, ids, trim=1, bound=2.0, sigma=1.5, seed=5)):
            return "its randomness is its own: draw it from the rng that it is given"
        if abs(deviation - 1.0) > 0.1:
            return f"its standard deviation is {deviation:.3g} times what sigma and the bound ask for"
        empty = released(f, np.zeros((0, 50)), np.arange(0), trim=1, bound=2.0, sigma=1.5)
        if empty.shape != (50,) or not np.any(empty):
            return "an empty batch must get its noise as well: an answer without noise says that nobody was drawn"
        return True

    checks.properties(
        answer,
        name="noisy_total",
        cases=[
            ("without noise it is the sum of the clipped vectors, less the longest ones", sums),
            ("one record moves the sum by at most the bound", moves),
            ("each coordinate gets fresh noise of deviation sigma times bound, in an empty batch too", noise),
        ],
    )
