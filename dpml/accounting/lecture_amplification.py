r"""Amplification by subsampling as the lecture prints it, beside the tight value of `amplify`.

.. math::

    \log\bigl(1 + q(e^\varepsilon - 1)\bigr)
    \ \le\ \log\frac{1 + q(e^\varepsilon - 1)}{1 + q(e^{-\varepsilon} - 1)}
    \ \le\ q\,(e^\varepsilon - e^{-\varepsilon})
    \ \le\ 2q\,(e^\varepsilon - e^{-\varepsilon}).

From left to right: the tight value, the last but one line of the lecture's proof, a bound that the proof could have
stated, and the lecture's theorem. For small epsilon the four are q, 2q, 2q and 4q times epsilon.

Setting of all four: q n of n records without replacement, replace-one neighbours (or Poisson sampling, add/remove).

Proof of the middle step. With $a = e^\varepsilon - 1$ and $b = 1 - e^{-\varepsilon}$ the second expression is
$f(q) = \log(1 + qa) - \log(1 - qb)$, first concave and then convex in q. It starts at 0 with slope a + b and ends at
$f(1) = 2\varepsilon \le a + b$, so it stays below the line q (a + b).

The second expression is also the exact answer to another question.

Theorem. Let M be $(\varepsilon, 0)$-differentially private under add/remove, and run it on a Poisson sample with
probability q. For replace-one neighbours the result is private with

.. math::

    \log\frac{1 + q(e^\varepsilon - 1)}{1 + q(e^{-\varepsilon} - 1)},

and no smaller epsilon holds for all such M.

Proof. Let D hold x and D' hold x' in its place. Fix an event and the sample of the common records; let B be the
probability of the event on this sample alone, A with x added, A' with x' added. Then $A \le e^\varepsilon B$ and
$A' \ge e^{-\varepsilon} B$, so $q A + (1-q) B \le (1 + q(e^\varepsilon - 1)) B$ and
$q A' + (1-q) B \ge (1 + q(e^{-\varepsilon} - 1)) B$. Average over the sample of the common records. Both worst cases
can hold at once, $A = e^{2\varepsilon} A'$, since D and D' are two steps of add/remove apart: add Laplace noise of
scale $1/\varepsilon$ to a sum of values in $[-1, 1]$, and let $x = 1$, $x' = -1$ and all other values be 0. Every
output $y \ge 1$ attains the bound.

Students import these functions from `dpml.accounting.amplification`.
"""

from __future__ import annotations

import math

from dpml import arguments, numerics
from dpml.accounting.guarantee import Guarantee

__all__ = ["lecture_bound", "lecture_log_form", "lecture_useful_q", "poisson_replace_one"]


def lecture_bound(*, epsilon: float, q: float) -> float:
    r"""Return 2 q (e^epsilon - e^-epsilon), the lecture's bound: valid where `amplify` is, never below twice it.

    Raises:
        ValueError: if epsilon is not in [0, inf), q not in [0, 1], or the value exceeds the range of floats.

    Source: the lecture, slide "Privacy amplification by sub-sampling", theorem.

    Printed: running an $\varepsilon$-private mechanism on a random $\gamma n$ of $n$ records is
    $2\gamma(e^\varepsilon - e^{-\varepsilon})$-private. At $\varepsilon = 1$ and $\gamma = 0.25$ that is 1.17520, worse
    than no sampling at all; at $\gamma = 1$ it is 4.70080 instead of 1.

    Implemented: the printed bound as it stands, for comparison; `amplify` gives the tight value, 0.357374 and 1 in
    these two cases. The bound is true but at least twice too large everywhere, about 4 times at small
    $\varepsilon$, and without limit at large $\varepsilon$. Its last step needs no factor 2:
    $\gamma(e^\varepsilon - e^{-\varepsilon})$ is already an upper bound of the lecture's own log form.
    """
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    q = arguments.probability("q", q)
    if epsilon < 700.0:
        value = 4.0 * q * math.sinh(epsilon)
    else:  # e^epsilon may overflow where q e^epsilon does not: multiply by a root of it, several times
        factors = 2 if epsilon <= 1418.0 else 4
        root = math.exp(min(epsilon, 2000.0) / factors)  # at 2000 every q > 0 overflows
        value = math.prod([root] * factors, start=2.0 * q)
    if math.isinf(value):
        raise ValueError(f"epsilon must be small enough for 2 q e^epsilon to be a float, got {epsilon!r} at q = {q!r}")
    return value


def lecture_log_form(*, epsilon: float, q: float) -> float:
    r"""Return log((1 + q (e^epsilon - 1)) / (1 + q (e^-epsilon - 1))), the last but one line of the lecture's proof.

    Valid where `amplify` is, and loose there: epsilon at q = 1/2 and 2 epsilon at q = 1. Exact for another pair of
    neighbours: Poisson sampling of a mechanism private under add/remove, judged under replace-one. That is
    `poisson_replace_one`.

    Raises:
        ValueError: if epsilon is not in [0, 8e307] or q not in [0, 1].

    Source: the lecture, slide "Privacy amplification by sub-sampling", proof sketch.

    Printed: the ratio of probabilities is at most
    $(1 + \gamma(e^\varepsilon - 1)) / (1 + \gamma(e^{-\varepsilon} - 1))$. At $\gamma = 1$, no sampling, its logarithm
    is $2\varepsilon$.

    Implemented: the printed form, for comparison. For neighbours that are one step apart, numerator and denominator
    cannot both be at their worst, so the denominator may be dropped: that is `amplify`, which gives $\varepsilon$ at
    $q = 1$. At $\varepsilon = 1$ and $q = 0.25$ the printed form is 0.529385, the tight value 0.357374.
    """
    epsilon = arguments.real("epsilon", epsilon, 0.0, 8e307)
    q = arguments.probability("q", q)
    up = float(numerics.log1p_scaled_expm1(epsilon, q=q))
    down = float(numerics.log1p_scaled_expm1(-epsilon, q=q))
    return up - down


def poisson_replace_one(*, epsilon: float, q: float) -> Guarantee:
    """Return the replace-one guarantee of a mechanism that is private under add/remove, run on a Poisson sample.

    Its epsilon is that of `lecture_log_form`, here the least one that holds for all such mechanisms. Neighbours:
    add/remove for the mechanism, which is (epsilon, 0)-differentially private on the sample; replace-one for the
    result. At q = 1 it is 2 epsilon, since a replacement is a removal and an addition. It is never above twice the
    epsilon of `poisson`, which group privacy would give.

    Raises:
        ValueError: if epsilon is not in [0, 8e307] or q not in [0, 1].

    Source: the theorem at the head of this module; the formula is on the lecture's slide "Privacy amplification by
    sub-sampling", proof sketch.
    """
    total = lecture_log_form(epsilon=epsilon, q=q)
    return Guarantee(total, delta=0.0, kind="upper bound", adjacency="replace-one", sampling="Poisson")


def lecture_useful_q(*, epsilon: float) -> float:
    """Return epsilon / (4 sinh(epsilon)), the q below which `lecture_bound` is smaller than epsilon itself.

    1/4 at epsilon = 0, and 0 once the true value is below the smallest float (epsilon above 750).

    Raises:
        ValueError: if epsilon is not in [0, inf).

    Source: the lecture, slide "Privacy amplification by sub-sampling", theorem, solved for gamma.
    """
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    if epsilon < 1e-8:
        return 0.25
    return epsilon * math.exp(-epsilon) / (-2.0 * math.expm1(-2.0 * min(epsilon, 1e300)))
