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

Students import these functions from `dpml.accounting.amplification`.
"""

from __future__ import annotations

import math

from dpml import arguments, numerics

__all__ = ["lecture_bound", "lecture_log_form", "lecture_useful_q"]


def lecture_bound(*, epsilon: float, q: float) -> float:
    """Return 2 q (e^epsilon - e^-epsilon), the lecture's bound: valid where `amplify` is, never below twice it.

    Raises:
        ValueError: if epsilon is not in [0, inf), q not in [0, 1], or the value exceeds the range of floats.

    Source: the lecture, slide "Privacy amplification by sub-sampling", theorem.

    Printed: running an epsilon-private mechanism on a random gamma n of n records is
    2 gamma (e^epsilon - e^-epsilon)-private. At epsilon = 1 and gamma = 0.25 that is 1.17520, worse than no
    sampling at all; at gamma = 1 it is 4.70080 instead of 1.

    Implemented: the printed bound as it stands, for comparison; `amplify` gives the tight value, 0.357374 and 1 in
    these two cases. The bound is true but at least twice too large everywhere, about 4 times at small epsilon,
    and without limit at large epsilon. Its last step needs no factor 2: gamma (e^epsilon - e^-epsilon) is already
    an upper bound of the lecture's own log form.
    """
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    q = arguments.probability("q", q)
    root = math.exp(min(epsilon, 1418.0) / 2.0)  # twice, since e^epsilon may overflow where q e^epsilon does not
    value = 4.0 * q * math.sinh(epsilon) if epsilon < 700.0 else 2.0 * q * root * root
    if q > 0.0 and (epsilon > 1418.0 or math.isinf(value)):
        raise ValueError(f"epsilon must be small enough for 2 q e^epsilon to be a float, got {epsilon!r} at q = {q!r}")
    return value


def lecture_log_form(*, epsilon: float, q: float) -> float:
    """Return log((1 + q (e^epsilon - 1)) / (1 + q (e^-epsilon - 1))), the last but one line of the lecture's proof.

    Valid where `amplify` is, and loose: epsilon at q = 1/2 and 2 epsilon at q = 1.

    Raises:
        ValueError: if epsilon is not in [0, 8e307] or q not in [0, 1].

    Source: the lecture, slide "Privacy amplification by sub-sampling", proof sketch.

    Printed: the ratio of probabilities is at most (1 + gamma (e^epsilon - 1)) / (1 + gamma (e^-epsilon - 1)). At
    gamma = 1, no sampling, its logarithm is 2 epsilon.

    Implemented: the printed form, for comparison. Numerator and denominator cannot both be at their worst, so the
    denominator may be dropped: that is `amplify`, which gives epsilon at q = 1. At epsilon = 1 and q = 0.25 the
    printed form is 0.529385, the tight value 0.357374.
    """
    epsilon = arguments.real("epsilon", epsilon, 0.0, 8e307)
    q = arguments.probability("q", q)
    up = float(numerics.log1p_scaled_expm1(epsilon, q=q))
    down = float(numerics.log1p_scaled_expm1(-epsilon, q=q))
    return up - down


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
