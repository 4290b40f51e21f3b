r"""Checks of items of chapter 10 on the trimmed sum.

.. math::

    \Delta = \max\bigl(0,\ F - \#\{i : \lVert x_i \rVert > \tau\}\bigr), \qquad
    \lVert \mathrm{TSUM}(S) - \mathrm{TSUM}(S') \rVert \le R .
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpml.classroom import checks, verdict
from dpml.classroom.checks import Mistake
from dpml.ptr import trimmed_sum

__all__ = ["check_margin", "check_total"]


def check_margin(answer: Any) -> None:
    """The safety margin of the trimmed sum: against the printed enumeration."""

    def right(norms: Any, *, trim: int, tau: float) -> float:
        return trimmed_sum.safety_margin_enumerated(norms, trim=trim, tau=tau, bound=1.0)

    def cases(rng: np.random.Generator) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = [
            {"norms": np.array([]), "trim": 3, "tau": 0.5},
            {"norms": np.array([0.2, 0.9]), "trim": 0, "tau": 0.5},
            {"norms": np.array([0.9]), "trim": 4, "tau": 0.5},
        ]
        for _ in range(40):
            norms = rng.choice([0.0, 0.1, 0.3, 0.5, 0.5, 0.8, 1.0], size=int(rng.integers(0, 15)))
            found.append({"norms": norms, "trim": int(rng.integers(0, 10)), "tau": float(rng.choice([0.2, 0.5, 0.9]))})
        return found

    def above(norms: Any, tau: float) -> int:
        return int(np.sum(np.asarray(norms) > tau))

    checks.function(
        answer,
        name="margin",
        reference=right,
        inputs=cases,
        mistakes=[
            Mistake(
                lambda norms, *, trim, tau: trim - above(norms, tau),
                "it is negative where more norms than trim exceed tau. A distance is at least 0.",
            ),
            Mistake(
                lambda norms, *, trim, tau: max(0, trim - int(np.sum(np.asarray(norms) >= tau))),
                "a norm equal to tau does not exceed it.",
            ),
            Mistake(
                lambda norms, *, trim, tau: max(0, min(trim, len(norms)) - above(norms, tau)),
                "with fewer vectors than trim the count still starts from trim: vectors can be added.",
            ),
            Mistake(
                lambda norms, *, trim, tau: max(0, trim - above(norms, tau) - 1),
                "it is one too small. At r = margin the local sensitivity exceeds tau for the first time.",
            ),
            Mistake(
                lambda norms, *, trim, tau: above(norms, tau),
                "this is how many norms exceed tau. The margin is what trim has left after them.",
            ),
        ],
        hint="It is the first r at which the norm of rank m - trim + 1 + r exceeds tau, or trim if none does.",
    )


M, TRIM = 24, 8


def check_total(answer: Any) -> None:
    """A trimmed sum that one record moves by at most the bound, in whatever order the batch comes."""

    def sums(f: Any) -> bool | str:
        rng = np.random.default_rng(1)
        for m, trim in ((6, 2), (5, 0), (3, 3), (4, 5), (9, 4)):
            rows = rng.normal(size=(m, 3)) * rng.uniform(0.2, 3.0, size=(m, 1))
            ids = rng.permutation(100)[:m]
            came = np.asarray(verdict.given(f(rows.copy(), ids=ids.copy(), trim=trim, bound=1.0)), dtype=float)
            right = trimmed_sum.clipped_trimmed_sum(rows, ids=ids, trim=trim, bound=1.0)
            if came.shape != right.shape:
                return f"for {m} vectors of 3 entries it returned an array of shape {came.shape}"
            if not np.allclose(came, right, rtol=0.0, atol=1e-9):
                unclipped = trimmed_sum.trimmed_sum(rows, ids=ids, trim=trim)
                if np.allclose(came, unclipped):
                    return "the vectors are not clipped to the bound"
                if m <= trim:
                    return f"with {m} vectors and trim = {trim} nothing is left, and the sum is zero"
                return f"for {m} vectors of different lengths and trim = {trim} it is another sum"
        return True

    def moves(f: Any) -> bool | str:
        rng = np.random.default_rng(2)
        worst = 0.0
        for _ in range(100):
            rows = rng.choice([-3.0, 3.0, 0.5], size=(M, 1), p=[0.45, 0.45, 0.1]) * np.array([[0.6, 0.8]])
            ids = rng.permutation(1000)[:M]
            order = rng.permutation(M)[1:]
            here = np.asarray(f(rows.copy(), ids=ids.copy(), trim=TRIM, bound=1.0), dtype=float)
            there = np.asarray(f(rows[order], ids=ids[order], trim=TRIM, bound=1.0), dtype=float)
            worst = max(worst, float(np.linalg.norm(here - there)))
        if worst > 1.0 + 1e-6:
            return (
                f"in a batch that comes in another order, one record moved the sum by {worst:.1f} times the bound. "
                "Sort by the length before clipping, and let the id decide between equal lengths"
            )
        return True

    def keeps(f: Any) -> bool | str:
        rows, ids = np.array([[3.0], [1.0], [2.0]]), np.array([5, 2, 9])
        f(rows, ids=ids, trim=1, bound=1.0)
        return True if (rows[:, 0] == [3.0, 1.0, 2.0]).all() and (ids == [5, 2, 9]).all() else "an argument was changed"

    checks.properties(
        answer,
        name="total",
        cases=[
            ("it is the sum of the clipped vectors without the longest ones", sums),
            ("one record moves it by at most the bound", moves),
            ("it leaves its arguments as they were", keeps),
        ],
    )
