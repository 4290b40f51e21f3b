r"""Checks of items of chapter 10 that ask for a number.

For Gaussian noise of multiplier sigma, the classic formula and what propose-test-release costs in T sampled steps:

.. math::

    \varepsilon_{\text{classic}} = \frac{\sqrt{2 \log(1.25/\delta)}}{\sigma}, \qquad
    \varepsilon_T = \min_a \Bigl[ T\, D_a + \frac{\log(1/\delta')}{a - 1} + \dots \Bigr],\quad
    \delta' = \delta - T q\, \delta_0 .
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from dpml import mechanisms, numerics
from dpml.accounting import pld, rdp
from dpml.classroom import checks
from dpml.classroom.checks import Mistake
from dpml.ptr import privacy

__all__ = ["check_epsilon_moved", "check_first_false_order", "check_matched_sigma", "check_unsound_below"]

DELTA = 1e-5
MNIST = {"q": 256 / 60_000, "sigma": 1.1, "tau": 0.5, "scale": 1.0, "delta0": 1e-8}


@cache
def _unsound_below(form: str) -> float:
    """Where the exact epsilon of Gaussian noise and a formula for it cross: the noise below which the formula lies."""
    width = math.sqrt(2.0 * math.log((1.0 if form == "no 1.25" else 1.25) / DELTA))

    def excess(sigma: float) -> float:
        claimed = width * sigma if form == "printed" else width / sigma
        return mechanisms.gaussian_epsilon(sigma=sigma, delta=DELTA) - claimed

    return numerics.crossing(excess, low=0.2, high=2.0)


def check_unsound_below(answer: Any) -> None:
    """The noise multiplier below which the classic Gaussian formula promises too much, at delta = 1e-5."""
    checks.number(
        answer,
        name="unsound_below",
        expected=_unsound_below("classic"),
        rel=2e-4,
        mistakes=[
            Mistake(_unsound_below("printed"), "this is the crossing of sigma sqrt(2 log(1.25/delta)), as printed."),
            Mistake(
                math.sqrt(2.0 * math.log(1.25 / DELTA)),
                "this is where the classic formula gives epsilon = 1. It is proved below that epsilon only, but it is "
                "not false at once beyond.",
            ),
            Mistake(_unsound_below("no 1.25"), "this is the crossing without 1.25 in the logarithm."),
            Mistake(
                lambda a: any(
                    math.isclose(a, epsilon, rel_tol=1e-3)
                    for epsilon in (
                        mechanisms.gaussian_epsilon(sigma=1.1, delta=DELTA),
                        math.sqrt(2.0 * math.log(1.25 / DELTA)) / 1.1,
                    )
                ),
                "this is an epsilon at sigma = 1.1. A noise multiplier is asked.",
            ),
            Mistake(
                lambda a: math.isclose(
                    a, math.sqrt(2.0 * math.log(1.25 / DELTA)) / _unsound_below("classic"), rel_tol=1e-2
                ),
                "this is the epsilon at which the two meet. The noise multiplier there is asked.",
            ),
        ],
        hint="At this noise multiplier the formula and mechanisms.gaussian_epsilon agree.",
    )


def check_first_false_order(answer: Any) -> None:
    """The first whole order at which the formula of Theorem 4.4 is below the exact divergence, MNIST setting."""
    checks.choice(
        answer,
        name="first_false_order",
        expected=next(
            a
            for a in range(2, 201)
            if privacy.theorem_4_4_formula(float(a), **MNIST) < privacy.exact_subsampled_rdp(float(a), **MNIST)
        ),
        options=list(range(2, 201)),
        mistakes=[
            Mistake(2, "at order 2 the formula is above the exact value, though its conditions fail there too."),
            Mistake(lambda a: 2 < a < 6, "the formula is still above the exact value there. Go on to larger orders."),
            Mistake(
                lambda a: 6 < a <= 200,
                "the formula is below the exact value there, but at a smaller order it already is.",
            ),
        ],
        hint="Compare privacy.theorem_4_4_formula with privacy.exact_subsampled_rdp at orders 2, 3, 4, ...",
    )


@cache
def _run(kind: str) -> float:
    run = {**MNIST, "steps": 3500, "delta": DELTA}
    case_2 = {name: value for name, value in run.items() if name != "tau"}
    if kind == "moved":
        return privacy.epsilon_by_rdp_branch_in_delta(**case_2).epsilon  # type: ignore[arg-type]
    if kind in ("classic", "undivided"):
        orders = np.arange(2.0, 41.0)
        given = {name: value for name, value in MNIST.items() if name != "q"}
        rdp_run = 3500 * np.asarray(privacy.exact_cases(orders, q=MNIST["q"], **given).case_2)
        left = DELTA - 3500 * MNIST["q"] * MNIST["delta0"]
        if kind == "undivided":
            return float(np.min(rdp.conversion_improved(orders, rdp=rdp_run * (orders - 1), delta=left)))
        return float(np.min(rdp.conversion_classic(orders, rdp=rdp_run, delta=left)))
    if kind == "gaussian":
        return rdp.epsilon(q=MNIST["q"], sigma=MNIST["sigma"], steps=3500, delta=DELTA).epsilon
    if kind == "renyi":
        return privacy.epsilon_by_rdp(**run).epsilon  # type: ignore[arg-type]
    if kind == "matched":
        return privacy.matching_gaussian_sigma(**run)  # type: ignore[arg-type]
    return privacy.epsilon(**run).epsilon  # type: ignore[arg-type]


def check_epsilon_moved(answer: Any) -> None:
    """Epsilon of 3500 steps by the Rényi curve of case 2, the rare branch paid in delta; real or whole orders."""
    checks.number(
        answer,
        name="epsilon_moved",
        expected=_run("moved"),
        rel=0.003,
        mistakes=[
            Mistake(
                lambda a: math.isclose(a, _run("classic"), rel_tol=2e-3),
                "this is what the older conversion, rdp + log(1/delta)/(order - 1), gives. Use the improved one.",
            ),
            Mistake(
                lambda a: abs(a - _run("renyi")) < 0.045,
                "this is the curve of both cases. The rare branch should be in delta, and not in the moments.",
            ),
            Mistake(
                lambda a: math.isclose(a, _run("gaussian"), rel_tol=3e-3),
                "this is the Gaussian noise alone. Case 2 is the margin's Laplace noise and the Gaussian together.",
            ),
            Mistake(
                lambda a: math.isclose(a, _run("undivided"), rel_tol=2e-3),
                "these are log-moments. Divide each by order - 1 before the conversion.",
            ),
            Mistake(
                lambda a: abs(a - _run("exact")) < 0.01,
                "this is the loss distribution's epsilon. A bound by Rényi divergences is asked here.",
            ),
        ],
        hint="Take 3500 times the divergence of case 2 on a sample, and convert at delta less 3500 q delta0.",
    )


def check_matched_sigma(answer: Any) -> None:
    """The noise multiplier of plain DP-SGD with the epsilon of 3500 steps of propose-test-release."""

    @cache
    def spent(sigma: float) -> float:
        return pld.epsilon(q=MNIST["q"], sigma=sigma, steps=3500, delta=DELTA).epsilon

    checks.number(
        answer,
        name="matched_sigma",
        expected=_run("matched"),
        rel=0.0,
        abs=0.002,
        mistakes=[
            Mistake(1.1, "this is sigma of the failed test. The test itself costs privacy, too."),
            Mistake(0.55, "this is sigma times tau. That noise is used only where the sum moves by at most tau."),
            Mistake(0.7, "this is the baseline of the paper, which is not equally private."),
            Mistake(
                lambda a: 0.915 < a < 0.935,
                "this matches one release without sampling. Match the 3500 sampled steps.",
            ),
            Mistake(
                lambda a: math.isclose(a, _run("exact"), rel_tol=2e-3),
                "this is the epsilon that both shall have. The noise multiplier is asked.",
            ),
            Mistake(
                lambda a: math.isclose(spent(a), 3.041, rel_tol=0.01),
                "this matches the epsilon that the paper's formula gives, not the true one.",
            ),
            Mistake(
                lambda a: any(math.isclose(spent(a), _run(kind), rel_tol=0.01) for kind in ("moved", "renyi")),
                "this matches a bound by Rényi divergences, as in item 8. privacy.epsilon is sharper.",
            ),
        ],
        hint="With it, pld.epsilon for q = 256/60000 and 3500 steps is privacy.epsilon of the item's setting.",
    )
