r"""M_stab: release the exact answer where the data are far from instability, and fail elsewhere.

With d = $d_f(D)$, the distance to instability, and $T = \log(1/\delta)/\varepsilon$, the mechanism releases f(D) if

.. math::

    d + \mathrm{Lap}(1/\varepsilon) > T

and otherwise says "fail". No noise touches the answer; it is only in the test. Hence

.. math::

    P(\text{release}) = \begin{cases} \tfrac{\delta}{2}\, e^{\varepsilon d} & d \le T, \\
                                      1 - \tfrac{1}{2\delta}\, e^{-\varepsilon d} & d \ge T. \end{cases}

Theorem. For $\varepsilon > 0$ and $0 < \delta < 1$, and the neighbours for which d is defined, M_stab is
$(\varepsilon, \delta/2)$-differentially private. If f changes between some neighbours, no smaller delta holds, at any
epsilon.

Proof. Let D and D' be neighbours. If f(D) = f(D'), both outputs depend on the data only through d, which moves by at
most 1, plus noise of scale $1/\varepsilon$: the Laplace mechanism and post-processing give
$(\varepsilon, 0)$. If $f(D) \ne f(D')$, both distances are 0, and f(D) comes with probability $\delta/2$ under D and 0
under D', f(D') the other way round, and "fail" with probability $1 - \delta/2$ under both. For every event E this
gives $P(M(D) \in E) \le P(M(D') \in E) + \delta/2$, and for E = {f(D)} equality with $P(M(D') \in E) = 0$.

Epsilon is not the least, but nearly: it may fall by about delta. In the first case the Laplace mechanism may spend
$\delta/2$ too, and by its profile $1 - e^{(\varepsilon' - \varepsilon)/2}$ it is then
$(\varepsilon', \delta/2)$-private at

.. math::

    \varepsilon' = \max\Bigl(0,\ \varepsilon + 2 \log\bigl(1 - \tfrac{\delta}{2}\bigr)\Bigr) ,

and so is M_stab. At $\varepsilon = 1$, $\delta = 10^{-5}$ that is 0.99999; at $\varepsilon = 0.1$, $\delta = 0.05$ it
is 0.0494, where the least is 0.0489.

The last case is why delta cannot be 0: an output that is possible under D only has an infinite loss. The lecture's
sentence "$\varepsilon$-private with probability $1 - \delta$" is this case; what holds there is $(0, \delta/2)$.

Theorem (utility). If $d \ge (\log(1/\delta) + \log(1/\beta))/\varepsilon$, the answer is f(D) with probability at
least $1 - \beta/2$. Proof: then $\frac{1}{2\delta} e^{-\varepsilon d} \le \beta/2$.

The Laplace noise of NumPy ends at about 36 times its scale: a delta below about 1e-16 cannot be had from it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments
from dpml.accounting.guarantee import Guarantee
from dpml.pate._counts import cast_votes
from dpml.pate.instability import distance_to_instability

__all__ = [
    "FAIL",
    "distance_needed",
    "fail_probability",
    "m_stab",
    "m_stab_privacy",
    "release_probability",
    "stability_test",
    "stability_threshold",
]

FAIL = -1
"""What takes the place of a label where a mechanism fails."""


def stability_threshold(*, epsilon: float, delta: float) -> float:
    """Return T = log(1/delta) / epsilon, which the noisy distance must exceed.

    T = log(1/(2 delta)) / epsilon would do for (epsilon, delta), if delta < 1/2.

    Raises:
        ValueError: if epsilon is not in (0, inf) or delta not in (0, 1), or T exceeds the range of floats.

    Source: the lecture, slide "Privacy via Stability", step 1.
    """
    epsilon, delta = budget(epsilon, delta)
    return arguments.finite("epsilon", epsilon, -math.log(delta) / epsilon, "log(1/delta) / epsilon")


def release_probability(distance: ArrayLike, *, epsilon: float, delta: float) -> NDArray[np.float64]:
    r"""Return the exact probability that M_stab releases the answer, for each distance to instability.

    Any real distance is allowed, since M_samp has one that is not whole and may be negative. For the complement
    see `fail_probability`, which keeps its digits where this one rounds to 1.

    Raises:
        ValueError: if distance is not finite, epsilon not in (0, inf) or delta not in (0, 1).

    Source: the formula at the head of this module; the lecture, slide "Privacy via Stability", second page.

    Printed: M_stab returns the exact output on stable datasets, where stable means at least 1-perturbation stable.

    Implemented: $\frac{\delta}{2} e^{\varepsilon d}$ up to $d = \log(1/\delta)/\varepsilon$, then
    $1 - \frac{1}{2\delta} e^{-\varepsilon d}$. At $\varepsilon = 1$ and $\delta = 10^{-5}$ a dataset at distance 1,
    which is stable, gets its answer with probability $1.36 \cdot 10^{-5}$; distance 12 gives 0.693, 20 gives 0.9999.

    Counterexample: the probability of an answer at distances 1, 12 and 20.

    >>> from dpml.pate import m_stab
    >>> [
    ...     f"{m_stab.release_probability(d, epsilon=1.0, delta=1e-5):.3g}"
    ...     for d in (1, 12)
    ... ]
    ['1.36e-05', '0.693']
    >>> round(float(m_stab.release_probability(20, epsilon=1.0, delta=1e-5)), 4)
    0.9999
    """
    return _tail(distance, epsilon=epsilon, delta=delta, sign=1.0)


def fail_probability(distance: ArrayLike, *, epsilon: float, delta: float) -> NDArray[np.float64]:
    """Return the exact probability that M_stab fails: 1 less `release_probability`, without cancellation.

    Raises:
        ValueError: as `release_probability`.

    Source: the formula at the head of this module.
    """
    return _tail(distance, epsilon=epsilon, delta=delta, sign=-1.0)


def stability_test(distance: ArrayLike, *, epsilon: float, delta: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return whether the noisy distance exceeds the threshold: M_stab for any function.

    Release f(D) itself where the result is true, and only "fail" where it is not. `distance` must be
    the distance to instability of f, or anything else that moves by at most 1 between neighbours and is at most 0
    on both of two neighbours with different answers. Several distances get independent noise, and each of them costs
    (epsilon, delta/2).

    Raises:
        ValueError: as `release_probability`, or if rng is not a Generator.

    Source: the lecture, slide "Privacy via Stability", steps 2 and 3.
    """
    epsilon, delta = budget(epsilon, delta)
    distance = arguments.array("distance", distance)
    rng = arguments.generator("rng", rng)
    noise = rng.laplace(0.0, 1.0, distance.shape)
    with np.errstate(over="ignore", under="ignore"):  # in units of the noise
        released: NDArray[np.bool_] = epsilon * distance + noise > -math.log(delta)
    return released[()]


def m_stab(counts: ArrayLike, *, epsilon: float, delta: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the winner of the vote, exactly, or `FAIL` where the vote is too close for that.

    `counts` holds the votes for each label, shape [classes] or [queries, classes]; the result is a label, or one
    for each query. Ties go to the lowest label. For other functions than the vote see `stability_test`.

    Neighbours: one voter changes the vote. Each query is (epsilon, delta/2)-differentially private (`m_stab_privacy`),
    and q queries compose like any q mechanisms, failed ones included: "fail" is an output too.

    Raises:
        ValueError: if counts is not as in `distance_to_instability`, epsilon not in (0, inf), delta not in (0, 1), or
            rng not a Generator.

    Source: the lecture, slide "Privacy via Stability".
    """
    votes = cast_votes(counts)
    passed = stability_test(distance_to_instability(votes), epsilon=epsilon, delta=delta, rng=rng)
    return np.where(passed, votes.argmax(axis=-1), FAIL)[()]


def m_stab_privacy(*, epsilon: float, delta: float) -> Guarantee:
    """Return the guarantee of one run of M_stab: (epsilon, delta/2), with the least delta; an upper bound in epsilon.

    Neighbours: those for which the distance to instability was computed; replace-one in this package. For the votes of
    PATE teachers the same number holds when a record is added or removed, since that too changes one vote.

    Raises:
        ValueError: if epsilon is not in (0, inf) or delta not in (0, 1).

    Source: the theorem at the head of this module. The lecture, slide "Privacy of M_stab", proves (epsilon, delta).
    """
    epsilon, delta = budget(epsilon, delta)
    return Guarantee(epsilon, delta=delta / 2, kind="upper bound", adjacency="replace-one")


def distance_needed(*, epsilon: float, delta: float, beta: float) -> float:
    """Return the distance from which M_stab fails with probability at most beta/2.

    Raises:
        ValueError: if epsilon is not in (0, inf), or delta or beta not in (0, 1), or the result exceeds the range of
            floats.

    Source: the lecture, slide "Utility of M_stab", which states beta in place of beta/2.
    """
    epsilon, delta = budget(epsilon, delta)
    beta = arguments.real("beta", beta, 0.0, 1.0, low_open=True, high_open=True)
    needed = -(math.log(delta) + math.log(beta)) / epsilon
    return arguments.finite("epsilon", epsilon, needed, "log(1/delta) / epsilon")


@np.errstate(over="ignore", under="ignore")
def _tail(distance: ArrayLike, *, epsilon: float, delta: float, sign: float) -> NDArray[np.float64]:
    """P(Lap(1) > t) or P(Lap(1) <= t), by the sign, at t = log(1/delta) - epsilon * distance."""
    epsilon, delta = budget(epsilon, delta)
    d = arguments.array("distance", distance)
    t = sign * (-math.log(delta) - epsilon * d)
    small = 0.5 * np.exp(-np.abs(t))
    return np.where(t >= 0.0, small, 1.0 - small)[()]


def budget(epsilon: float, delta: float) -> tuple[float, float]:
    """Return both as floats: what M_stab and M_samp accept.

    Raises:
        ValueError: if epsilon is not in (0, inf) or delta not in (0, 1).

    Source: definition.
    """
    epsilon = arguments.real("epsilon", epsilon, 0.0, low_open=True)
    return epsilon, arguments.real("delta", delta, 0.0, 1.0, low_open=True, high_open=True)
