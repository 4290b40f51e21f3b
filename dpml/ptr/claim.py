r"""What the PTR paper's own formula claims for a whole training, with the condition that it breaks.

$\varepsilon = \min_a \bigl(T\,\varepsilon_{4.4}(a) + \dots\bigr)$ over the orders a = 2, ..., 200, where
$\varepsilon_{4.4}$ is the formula of Theorem 4.4 whether or not its conditions hold. In every experiment of the paper
they fail; the numbers are kept to stand beside those of `dpml.ptr.distribution`, which need no conditions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpml import arguments
from dpml.accounting.rdp import conversion_improved
from dpml.ptr.theorem_4_4 import theorem_4_4, theorem_4_4_formula

__all__ = ["Claim", "paper_claim"]


class Claim(NamedTuple):
    """What the paper's formula gives for a run: a number, the order that gave it, and the condition that it breaks.

    `broken` is None where Theorem 4.4 may be used at this order; otherwise epsilon is no guarantee.

    Source: the PTR paper (Wang et al., NeurIPS 2022), Theorem 4.4.
    """

    epsilon: float
    order: float
    broken: str | None


def paper_claim(*, q: float, sigma: float, tau: float, scale: float, delta0: float, steps: int, delta: float) -> Claim:
    """Return what Theorem 4.4's formula would claim for `steps` steps, whether or not its conditions hold.

    Integer orders 2 to 200 as in the paper, with the improved conversion. For the trace of an experiment, beside the
    guarantee; never to be quoted where `broken` says something.

    Raises:
        ValueError: if q is not in (0, 1), sigma not in (0, inf), tau not in (0, 1], scale not in [0.01, 1e6], delta0
            not in (0, 1/2], steps not an integer >= 1 or delta not in (0, 1).

    Source: the PTR paper (Wang et al., NeurIPS 2022), Theorem 4.4; Canonne, Kamath and Steinke 2020.
    """
    steps = arguments.integer("steps", steps, 1)
    delta = arguments.real("delta", delta, 0.0, 1.0, low_open=True, high_open=True)
    given = {"q": arguments.real("q", q, 0.0, 1.0, low_open=True, high_open=True), "sigma": sigma, "tau": tau}
    orders = np.arange(2.0, min(200.0, 1e6 * scale) + 1.0)
    curve = theorem_4_4_formula(orders, **given, scale=scale, delta0=delta0)
    epsilons = np.atleast_1d(conversion_improved(orders, rdp=steps * curve, delta=delta))
    best = int(np.argmin(epsilons))
    try:
        theorem_4_4(float(orders[best]), **given, scale=scale, delta0=delta0)
        broken = None
    except ValueError as error:
        broken = str(error)
    return Claim(float(epsilons[best]), float(orders[best]), broken)
