r"""Checks of items 5 and 8 of chapter 11: equal privacy, and why F is no share of the batch.

.. math::

    \varepsilon_{\text{DP-SGD}}(\sigma_G) = \varepsilon_{\text{TSGD+PTR}}(\sigma)
"""

from __future__ import annotations

import functools
from typing import Any

from dpml.accounting import pld
from dpml.classroom import checks
from dpml.classroom.checks import Mistake
from dpml.ptr import calibrate

__all__ = ["check_matched", "check_share"]

_RUN: dict[str, Any] = {"q": 0.01, "steps": 500, "delta": 1e-5}
_TEST: dict[str, Any] = {"sigma": 2.0, "tau": 0.6, "scale": 1.0, "delta0": 1e-8}


@functools.cache
def _matched() -> float:
    return calibrate.matching_gaussian_sigma(**_TEST, **_RUN)


def check_matched(answer: Any) -> None:
    """The noise of DP-SGD with the epsilon of a run of TSGD with propose-test-release."""
    right = _matched()
    checks.number(
        answer,
        expected=right,
        name="matched",
        rel=3e-3,
        mistakes=[
            Mistake(
                2.0, "this is the noise with the test. The test itself costs privacy, which plain noise may use up."
            ),
            Mistake(1.2, "this is sigma times tau, the noise after a passed test, in units of R."),
            Mistake(
                lambda value: 0 < float(value) < right and pld.epsilon(sigma=float(value), **_RUN).epsilon > 0,
                "DP-SGD with this noise spends more than the run with the test.",
            ),
            Mistake(
                lambda value: right < float(value),
                "DP-SGD with this noise spends less than the run with the test.",
            ),
        ],
        hint="Two epsilons must agree: that of the run with the test, and that of DP-SGD with as many steps.",
    )


def check_share(answer: Any) -> None:
    """Why F must not be a share of the batch that was drawn."""
    checks.argument(
        answer,
        name="share",
        minimum_words=25,
        must_mention={
            "what one more record does to F": ["F", "trim"],
            "how far the sum moves": ["2R", "2 R", "twice", "two"],
            "what is used instead": ["expected", "fixed", "constant", "qn"],
        },
        rubric=[
            "One record changes the size of the batch, and with it F, by one.",
            "Then one gradient of length R enters or leaves because of F, and another because of the record: 2 R.",
            "The expected size q n is a constant, the same for neighbours.",
        ],
    )
