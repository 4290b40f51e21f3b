"""Checks of items of chapter 04 that ask for a program: a log-moment that does not overflow, and an accountant."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from typing import Any

import numpy as np

from dpml.accounting import moments
from dpml.classroom import checks, verdict
from dpml.classroom.checks import Mistake
from dpml.exercises.moments_numbers import DELTA, SIGMA, Q

__all__ = ["check_accountant", "check_stable_log_moment"]


def check_stable_log_moment(answer: Any) -> None:
    """A log-moment for whole lambda that neither overflows nor cancels."""
    name = "stable_log_moment"

    def reference(lam: int, *, q: float, sigma: float) -> float:
        return moments.log_moment(float(lam), q=q, sigma=sigma)

    def terms(lam: int, *, q: float, sigma: float, shift: int = 1, power: int = 1) -> float:
        k = np.arange(0, lam + shift + 1, dtype=float)
        order = lam + shift
        logs = [
            math.lgamma(order + 1)
            - math.lgamma(i + 1)
            - math.lgamma(order - i + 1)
            + (order - i) * math.log1p(-q)
            + i * math.log(q)
            + (i * i - power * i) / (2 * sigma**2)
            for i in k
        ]
        top = max(logs)
        return top + math.log(math.fsum(math.exp(v - top) for v in logs))

    def cases(triples: Sequence[tuple[int, float, float]]) -> list[Any]:
        return [{"lam": lam, "q": q, "sigma": sigma} for lam, q, sigma in triples]

    def on_paper(lam: int, *, q: float, sigma: float) -> float:
        order = lam + 1
        weights = [math.comb(order, k) * (1 - q) ** (order - k) * q**k for k in range(order + 1)]
        return math.log(sum(w * math.exp((k * k - k) / (2 * sigma**2)) for k, w in enumerate(weights)))

    beyond = (
        "the largest terms are beyond the range of floats, but their logarithms are ordinary numbers: add the terms "
        "relative to the largest one."
    )
    wide = [
        Mistake(on_paper, beyond),
        Mistake(
            lambda lam, *, q, sigma: terms(lam, q=q, sigma=sigma, shift=0),
            "the sum runs to lambda. This is the value for lambda - 1: the order is lambda + 1.",
        ),
        Mistake(
            lambda lam, *, q, sigma: terms(lam, q=q, sigma=sigma) / lam,
            "this is the Rényi divergence, the log-moment divided by lambda.",
        ),
        Mistake(
            lambda lam, *, q, sigma: terms(lam, q=q, sigma=sigma, power=0),
            "the exponent is (k^2 - k) / (2 sigma^2): a k is missing.",
        ),
        Mistake(
            lambda lam, *, q, sigma: moments.log_moment_e1(float(lam), q=q, sigma=sigma),
            "this is log E1, the other direction.",
        ),
    ]
    with redirect_stdout(io.StringIO()):
        checks.function(
            answer,
            name=name,
            reference=reference,
            inputs=cases([(1, 0.01, 4.0), (5, 0.1, 2.0), (32, 0.01, 4.0), (31, 0.01, 0.3), (256, 0.01, 4.0)]),
            mistakes=wide,
            hint=f"If the result is infinite: {beyond}",
        )
    checks.function(
        answer,
        name=name,
        reference=reference,
        inputs=cases([(1, 1e-6, 4.0), (2, 1e-6, 1.0), (1, 1e-8, 1.0), (8, 1e-7, 2.0), (256, 0.01, 4.0)]),
        hint="For tiny q, E2 is 1 plus less than its rounding error. The weights are binomial probabilities: "
        "subtract 1 = their sum term by term, before you add.",
        rel=1e-7,
        abs=0.0,
    )


def check_accountant(answer: Any) -> None:
    """The lecture's accountant, repaired: nothing released costs nothing, and the grid extends itself."""
    usual: dict[str, Any] = {"q": Q, "sigma": SIGMA, "steps": 10_000, "delta": DELTA}
    never_below = 1 - 1e-9

    def run(f: Callable[..., Any], **changed: Any) -> float:
        came = verdict.given(f(**{**usual, **changed}))
        return float(came)

    def inside(f: Callable[..., Any]) -> bool | str:
        for steps in (10_000, 40_000):
            came, want = run(f, steps=steps), moments.epsilon(**{**usual, "steps": steps}).epsilon
            if math.isclose(came, want * 19 / 20, rel_tol=1e-6):
                return f"at {steps} steps it divides by lambda + 1, the order, and not by lambda."
            if came < want * 0.999:
                return f"at {steps} steps it returned {came:.6g}, less than the log-moments prove."
            if came > want * (1 + 1e-6):
                return f"at {steps} steps it returned {came:.6g}; some lambda does better."
        return True

    def nothing(f: Callable[..., Any]) -> bool | str:
        for what, changed in (("steps = 0", {"steps": 0}), ("q = 0", {"q": 0.0})):
            came = run(f, **changed)
            if came != 0:
                return f"at {what} it returned {came:.4g}. What does the output depend on then?"
        return True

    def extends(f: Callable[..., Any]) -> bool | str:
        for steps in (1, 100):
            came = run(f, steps=steps)
            wide = moments.epsilon(q=Q, sigma=SIGMA, steps=steps, delta=DELTA, max_lam=256)
            edge = moments.epsilon(q=Q, sigma=SIGMA, steps=steps, delta=DELTA)
            if came < wide.epsilon * 0.999 * never_below:
                return f"at {steps} steps it returned {came:.6g}, less than any lambda proves."
            if math.isclose(came, edge.epsilon, rel_tol=1e-6):
                return f"at {steps} steps it returned {came:.4g}, from the edge lambda = 32 of the grid."
            if came > wide.epsilon * 1.001:
                return f"at {steps} steps it returned {came:.4g}; a larger lambda gives less."
        return True

    def refuses(f: Callable[..., Any]) -> bool | str:
        for argument, value in (("delta", 1.5), ("delta", -0.1), ("steps", -1)):
            try:
                came = run(f, **{argument: value})
            except ValueError:
                continue
            return f"for {argument} = {value} it returned {came:.4g}. That is no epsilon: raise ValueError."
        return True

    checks.properties(
        answer,
        name="accountant",
        cases=[
            ("for many steps it is the lecture's number", inside),
            ("it is 0 if the output does not depend on the data", nothing),
            ("where the best lambda is the last of the grid, it tries larger ones", extends),
            ("it refuses a delta outside (0, 1) and a negative number of steps with ValueError", refuses),
        ],
    )
