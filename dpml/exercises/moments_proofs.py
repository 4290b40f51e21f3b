"""Checks of items of chapter 04 that ask for a step of a proof, or for where a theorem applies."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dpml.classroom import checks, verdict

__all__ = ["check_factor", "check_quotable", "check_why"]


def check_factor(answer: Any) -> None:
    """The smallest c with (1 - e^-t)_+ <= c e^(lambda t) for all t."""
    lams = [0.5, 1.0, 2.0, 19.0, 400.0]

    def right(lam: float) -> float:
        return math.exp(lam * math.log(lam / (lam + 1)) - math.log(lam + 1))

    def value(f: Callable[..., Any], lam: float) -> float:
        return float(verdict.given(f(lam)))

    def holds(f: Callable[..., Any]) -> bool | str:
        for lam in lams:
            c = value(f, lam)
            if not math.isfinite(c):
                return f"at lambda = {lam:g} it returned {verdict.shown(c)}."
            t = np.linspace(0.0, 20.0 / lam, 4001)[1:]
            gap = -np.expm1(-t) - c * np.exp(lam * t)
            if gap.max() > 1e-9 * right(lam):
                where = float(t[gap.argmax()])
                return f"at lambda = {lam:g}, t = {where:.3g} the left side is larger. Look for the t where it fails."
        return True

    def smallest(f: Callable[..., Any]) -> bool | str:
        for lam in lams:
            c = value(f, lam)
            if c > right(lam) * (1 + 1e-6):
                known = {
                    1.0: "that is Markov's inequality for an indicator; (1 - e^-t)_+ is smaller than an indicator.",
                    1 / (lam + 1): "a factor is missing: put the best t into both 1 - e^-t and e^(-lambda t).",
                    (lam / (lam + 1)) ** lam: "a factor is missing: put the best t also into 1 - e^-t.",
                    right(lam - 1) if lam > 1 else -1.0: "this is the value for lambda - 1: is lambda the order here?",
                }
                for wrong, text in known.items():
                    if math.isclose(c, wrong, rel_tol=1e-9):
                        return f"at lambda = {lam:g} a smaller c would do; {text}"
                return f"at lambda = {lam:g} a smaller c would do. Where is (1 - e^-t) e^(-lambda t) largest?"
        return True

    checks.properties(
        answer,
        name="factor",
        cases=[
            ("(1 - e^-t)_+ <= c e^(lambda t) for every t", holds),
            ("no smaller c does it", smallest),
        ],
    )


_QUOTABLE = {
    "a": (True, "this is what the number is for: independent coins, one record more or less, noise on the sum."),
    "b": (False, "one replaced record moves the sum by two clipping norms; a real pair of datasets needs 1.99."),
    "c": (
        False,
        "with the clipped gradient +C in D and -C in D' the loss is that of 1.99, however the batch is drawn.",
    ),
    "d": (False, "the batches of an epoch depend on each other; no amplification by Poisson sampling applies."),
    "e": (False, "the size of a Poisson batch tells something about the record, and it is not in the analysis."),
    "f": (True, "the model is computed from the noisy sums alone: post-processing."),
    "g": (True, "dividing the noisy sum by a constant is post-processing."),
    "h": (False, "the noise multiplier is the standard deviation over the clipping norm. Here it is 2, not 4."),
}


def check_quotable(answer: Any) -> None:
    """In which settings the add/remove number may be quoted: a dictionary from letter to True or False."""
    checks.statements(answer, name="quotable", expected=_QUOTABLE)


def check_why(answer: Any) -> None:
    """Two or three sentences: why log-moments add up although step t depends on the outputs before it."""
    checks.argument(
        answer,
        name="why",
        minimum_words=25,
        must_mention={
            "what is fixed when step t is looked at": ["given", "condition", "fix", "previous", "earlier", "past"],
            "that the bound holds for every past": ["every", "all", "any", "whatever", "sup", "worst", "uniform"],
            "that the losses add or the moments multiply": ["sum", "add", "product", "multipl", "factor"],
        },
        rubric=[
            "The loss of the whole sequence is the sum of the losses of the steps, each given the outputs before it; "
            "so e^(lambda L) is a product.",
            "Given the outputs before it, step t is one mechanism on both datasets. The mean of its factor is at most "
            "e^(alpha_t), because alpha_t bounds it for every such past.",
            "Take the mean over the last step first, pull out its bound, and go on to the step before it. Independence "
            "of the steps is not needed.",
        ],
    )
