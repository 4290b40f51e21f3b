"""Checks of items of chapter 08 that ask for a step of the proof, and for what is true."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpml.classroom import checks, verdict

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
    cases = _cases()

    def moved(f: Any, case: dict[str, Any]) -> tuple[float, float]:
        came = verdict.given(f(case["stream"].copy(), case["other"].copy(), case["t"], case["nu"].copy()))
        first, second = (float(v) for v in came)
        return first, second

    def told(case: dict[str, Any]) -> str:
        return f"for the answers {case['stream'].tolist()} and {case['other'].tolist()}"

    def same_output(f: Any) -> bool | str:
        for case in cases:
            t, last = moved(f, case)
            nu = np.append(case["nu"][:-1], last)
            k = len(nu)
            came = _first(case["other"], nu, t - 1e-9)
            if came is not None and came < k - 1:
                return f"{told(case)}, query {came + 1} of D' is above the moved threshold already."
            if came is None:
                return f"{told(case)}, the last query of D' is below the moved threshold."
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
        name="moved",
        cases=[
            ("D' with the moved noises gives the output that D gave", same_output),
            ("the threshold moves by at most 1, the last noise by at most 2", short),
            ("given the other noises, each of the two moves is a shift", shift),
        ],
    )


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
