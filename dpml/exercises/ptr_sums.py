r"""Checks of items of chapter 10 on the trimmed sum.

.. math::

    \Delta = \max\bigl(0,\ F - \#\{i : \lVert x_i \rVert > \tau\}\bigr), \qquad
    \lVert \mathrm{TSUM}(S) - \mathrm{TSUM}(S') \rVert \le R .
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
                lambda norms, *, trim, tau: len(norms) - above(norms, tau),
                "this is how many norms do not exceed tau. The margin starts from trim.",
            ),
            Mistake(
                lambda norms, *, trim, tau: min(0, trim - above(norms, tau)),
                "min and max are exchanged: 0 is the least value, and not the largest.",
            ),
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
                lambda norms, *, trim, tau: max(0, trim - above(norms, tau) + 1),
                "it is one too large. At r = margin the local sensitivity exceeds tau for the first time.",
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
    name = "total"
    called = {"ids": np.arange(2), "trim": 1, "bound": 1.0}
    if callable(answer) and verdict.unfit(answer, (np.ones((2, 1)),), called):
        raise verdict.NotYet(
            f"Your {name} is called with vectors, and with ids, trim and bound by name: keep the parameter names."
        )

    def sums(f: Any) -> bool | str:
        rng = np.random.default_rng(1)
        for m, trim in ((6, 2), (5, 0), (3, 3), (4, 5), (9, 4)):
            rows = rng.normal(size=(m, 3)) * rng.uniform(0.2, 3.0, size=(m, 1))
            ids = rng.permutation(100)[:m]
            came = _vector(f(rows.copy(), ids=ids.copy(), trim=trim, bound=1.0))
            if isinstance(came, str):
                return came
            right = trimmed_sum.clipped_trimmed_sum(rows, ids=ids, trim=trim, bound=1.0)
            if came.shape != right.shape:
                return f"for {m} vectors of 3 entries it returned an array of shape {came.shape}, not {right.shape}"
            if not _same(came, right):
                if m <= trim:
                    return f"with {m} vectors and trim = {trim} nothing is left, and the sum is zero"
                return _wrong_sum(came, rows, ids=ids, trim=trim)
        return True

    def leaves_out(f: Any) -> bool | str:
        rows, ids = np.array([[0.5, 0.0], *[[0.0, 3.0]] * 5]), np.array([4, 9, 2, 6, 1, 7])
        came = _vector(f(rows.copy(), ids=ids.copy(), trim=2, bound=1.0))
        if isinstance(came, str):
            return came
        if came.shape != (2,):
            return f"for 6 vectors of 2 entries it returned an array of shape {came.shape}, not (2,)"
        if not _same(came, np.array([0.5, 3.0])):
            return (
                f"of 6 vectors, 5 of them equal, trim = 2 leaves 4 in the sum, and it is {verdict.shown(came)}. Leave "
                "out so many vectors, not all above a length"
            )
        return True

    def moves(f: Any) -> bool | str:
        rng = np.random.default_rng(2)
        worst = 0.0
        for _ in range(100):
            rows = rng.choice([-3.0, 3.0, 0.5], size=(M, 1), p=[0.45, 0.45, 0.1]) * np.array([[0.6, 0.8]])
            ids = rng.permutation(1000)[:M]
            order = rng.permutation(M)[1:]
            here = _vector(f(rows.copy(), ids=ids.copy(), trim=TRIM, bound=1.0))
            there = _vector(f(rows[order], ids=ids[order], trim=TRIM, bound=1.0))
            if isinstance(here, str) or isinstance(there, str):
                return str(here if isinstance(here, str) else there)
            worst = max(worst, float(np.linalg.norm(here - there)))
        if not worst <= 1.0 + 1e-4:
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
        name=name,
        cases=[
            ("it is the sum of the clipped vectors without the longest ones", sums),
            ("it leaves out as many vectors as trim says", leaves_out),
            ("one record moves it by at most the bound", moves),
            ("it leaves its arguments as they were", keeps),
        ],
    )


def _vector(came: Any) -> NDArray[np.float64] | str:
    """What the student's function returned as an array of floats, or what it is instead."""
    if came is Ellipsis:
        return np.asarray(verdict.given(came), dtype=float)
    if came is None:
        return "it returned None: is a return missing?"
    try:
        array = np.asarray(came)
    except ValueError:
        return f"it returned {verdict.kind(came)} whose rows have different lengths"
    if array.dtype.kind not in "iuf":
        return f"it returned {verdict.kind(came)}, not an array of real numbers"
    return array.astype(float)


def _same(came: NDArray[np.float64], right: NDArray[np.float64]) -> bool:
    """Equal up to rounding, in single precision as well."""
    return bool(np.allclose(came, right, rtol=0.0, atol=1e-5))


def _wrong_sum(came: NDArray[np.float64], rows: NDArray[np.float64], *, ids: Any, trim: int) -> str:
    """Which other sum this is; the vectors have different lengths, and some are left."""
    m, lengths = len(rows), np.linalg.norm(rows, axis=1)
    clipped = rows * np.minimum(1.0, 1.0 / lengths)[:, None]
    stays = trimmed_sum.kept(lengths, trim=trim, ids=ids)
    unclipped = rows[stays].sum(axis=0)
    if _same(came, unclipped):
        return "the vectors are not clipped to the bound"
    if _same(came, unclipped / max(1.0, float(np.linalg.norm(unclipped)))):
        return "the sum is clipped, and not each vector"
    if _same(came, (rows[stays] / lengths[stays][:, None]).sum(axis=0)):
        return "short vectors are made longer. Clipping only shortens"
    if _same(came, np.clip(rows[stays], -1.0, 1.0).sum(axis=0)):
        return "each entry is clipped. It is the length of a vector that must be at most the bound"
    if _same(came * stays.sum(), clipped[stays].sum(axis=0)):
        return "this is the mean of the vectors that stay"
    for bits in itertools.product((False, True), repeat=m):
        chosen = np.array(bits)
        if not _same(came, clipped[chosen].sum(axis=0)):
            continue
        if chosen.sum() != stays.sum():
            return f"for {m} vectors and trim = {trim} it adds up {chosen.sum()} of them"
        if (lengths[~chosen] > 1.0).all():
            return (
                f"for {m} vectors and trim = {trim} it leaves out some that are clipped, but not the longest. Sort by "
                "the length before clipping"
            )
        return f"for {m} vectors and trim = {trim} it leaves out others than the longest"
    return f"for {m} vectors of different lengths and trim = {trim} it is another sum"
