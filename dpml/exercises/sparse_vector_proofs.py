"""Checks of items of chapter 08 that ask for a step of the proof, and for what is true."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from dpml.classroom import checks, verdict
from dpml.classroom.comparison import as_finite

__all__ = ["check_claims", "check_moved"]


def _first(stream: Any, nu: Any, t: float) -> int | None:
    """Where AboveThreshold stops, given all its noises."""
    return next((i for i, (f, v) in enumerate(zip(stream, nu, strict=True)) if f + v >= t), None)


def _cases() -> list[dict[str, Any]]:
    """Neighbouring streams with noises, and where the first one stops; both directions, and every position."""
    rng = np.random.default_rng(8)
    found: list[dict[str, Any]] = []
    while len(found) < 60:
        k = int(rng.integers(1, 6))
        stream = rng.normal(0, 2, k).round(3)
        other = stream + rng.choice([-1.0, 0.0, 1.0], k)
        t, nu = round(float(rng.normal(1, 2)), 3), rng.normal(0, 2, k).round(3)
        if _first(stream, nu, t) == k - 1:
            found.append({"stream": stream, "other": other, "t": t, "nu": nu})
    return found


def check_moved(answer: Any) -> None:
    """The moved noises of the proof: (t, nu_k) for D become (t', nu_k') for D', and the output stays."""
    cases, name = _cases(), "moved"
    if callable(answer) and verdict.unfit(answer, (0, 0, 0, 0), {}):
        raise verdict.NotYet(f"Your {name} is called with four arguments: stream, other, t and nu, in this order.")

    def moved(f: Any, case: dict[str, Any]) -> tuple[float, float]:
        t, last = _pair(f(case["stream"].copy(), case["other"].copy(), case["t"], case["nu"].copy()))
        return t, last

    def told(case: dict[str, Any]) -> str:
        return f"for the answers {verdict.shown(case['stream'])} and {verdict.shown(case['other'])}"

    def problem(case: dict[str, Any], t: float, last: float) -> str:
        nu = np.append(case["nu"][:-1], last)
        came = _first(case["other"], nu, t - 1e-9)
        if came is None:
            return f"{told(case)}, the last query of D' is below the moved threshold."
        early = came < len(nu) - 1
        return f"{told(case)}, query {came + 1} of D' is above the moved threshold already." if early else ""

    def pairs(f: Any) -> bool | str:
        for case in cases:
            came = _pair(f(case["stream"].copy(), case["other"].copy(), case["t"], case["nu"].copy()))
            if isinstance(came, str):
                return came
        return True

    def same_output(f: Any) -> bool | str:
        came = [moved(f, case) for case in cases]
        found = next((text for case, two in zip(cases, came, strict=True) if (text := problem(case, *two))), "")
        if not found:
            return True
        if not any(problem(case, *two[::-1]) for case, two in zip(cases, came, strict=True)):
            return "the two are exchanged: the threshold comes first."
        steps = [(case["t"] + t, case["nu"][-1] + last) for case, (t, last) in zip(cases, came, strict=True)]
        if not any(problem(case, *two) for case, two in zip(cases, steps, strict=True)):
            return "these are the moves. Return where threshold and noise are after them."
        return found

    def keeps(f: Any) -> bool | str:
        for case in cases:
            mine = {key: np.copy(value) for key, value in case.items()}
            f(mine["stream"], mine["other"], case["t"], mine["nu"])
            for key in ("stream", "other", "nu"):
                if not np.array_equal(mine[key], case[key]):
                    return f"it changed {key}: work on a copy."
        return True

    def short(f: Any) -> bool | str:
        for case in cases:
            t, last = moved(f, case)
            if abs(t - case["t"]) > 1 + 1e-9:
                return f"{told(case)} the threshold moves by {abs(t - case['t']):.3g}."
            if abs(last - case["nu"][-1]) > 2 + 1e-9:
                return f"{told(case)} the last noise moves by {abs(last - case['nu'][-1]):.3g}."
        return True

    def shift(f: Any) -> bool | str:
        for case in cases:
            t, last = moved(f, case)
            for up, on in ((0.125, 0.25), (-2.0, 3.0), (2.0, -3.0)):
                nu = np.append(case["nu"][:-1], case["nu"][-1] + on)
                t_again, last_again = moved(f, {**case, "t": case["t"] + up, "nu": nu})
                if abs(t_again - t - up) > 1e-9 or abs(last_again - last - on) > 1e-9:
                    return (
                        f"{told(case)}, how far the noises move depends on the noises that are moved. Then the "
                        "densities change by other factors than the proof says."
                    )
        return True

    checks.properties(
        answer,
        name=name,
        cases=[
            ("it returns two numbers", pairs),
            ("it leaves its arguments as they were", keeps),
            ("D' with the moved noises gives the output that D gave", same_output),
            ("the threshold moves by at most 1, the last noise by at most 2", short),
            ("given the other noises, each of the two moves is a shift", shift),
        ],
    )


def _pair(came: Any) -> Any:
    """Two floats, or in words what the student's function returned instead."""
    if came is Ellipsis:
        return verdict.given(came)
    if came is None:
        return "it returned None: is a return missing?"
    unordered = isinstance(came, (str, bytes, Mapping, set, frozenset))
    if unordered or not isinstance(came, Iterable) or getattr(came, "shape", None) == ():
        return f"it returned {verdict.kind(came)}."
    values = list(came)
    if len(values) != 2:
        return f"it returned {len(values)} of them."
    numbers = [as_finite(value) for value in values]
    for which, number in zip(("first", "second"), numbers, strict=True):
        if isinstance(number, str):
            return f"the {which} one {number}."
    return tuple(numbers)


_CLAIMS = {
    "a": (True, "all queries below are hidden by the one noise of the threshold: the length does not matter."),
    "b": (False, "the values depend on the data, and no noise was spent on them: only the bits are covered."),
    "c": (False, "each further answer above costs, as no single shift of the threshold serves them all."),
    "d": (True, "for a given output the next query is the same under both datasets, so the proof goes through."),
    "e": (
        False,
        "with more than one failure in a hundred, Q grows with the number of queries, and the threshold with it.",
    ),
    "f": (True, "outputs in which all different queries failed show bits alone; the others have probability Q p."),
    "g": (False, "the position is part of the output, and the theorem covers the whole output. Nothing more is spent."),
    "h": (
        False,
        "distances are answers of a query of sensitivity 1. Without noise they tell exactly how close it was.",
    ),
}


def check_claims(answer: Any) -> None:
    """Which statements on the technique are true: a dictionary from letter to True or False."""
    checks.statements(answer, name="claims", expected=_CLAIMS)
