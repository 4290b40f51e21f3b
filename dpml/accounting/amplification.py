r"""Privacy amplification by subsampling: run the mechanism on a random sample, and it reveals less.

Let M be $(\varepsilon, \delta)$-differentially private and let M' run M on a random sample in which each record is
with probability q. For the two standard pairs of sampling and neighbours M' is
$(\varepsilon', q\,\delta)$-differentially private with

.. math::

    \varepsilon' = \log\bigl(1 + q\,(e^\varepsilon - 1)\bigr).

| sampling | neighbours | q | function |
|---|---|---|---|
| Poisson: each record by its own coin | add/remove | q | `poisson` |
| m of n without replacement | replace-one | m/n | `without_replacement` |
| m of n with replacement | replace-one | each draw 1/n | `with_replacement`, another formula |
| Poisson, M private under add/remove | replace-one | q | `poisson_replace_one`, another formula |

In the first three rows M itself must be private for the same neighbours. Other pairs are refused: for Poisson sampling
with replace-one neighbours the statement is false.

Proof (delta = 0, m of n without replacement, replace-one; the sample is a set, or comes in random order). Fix an
event. Let A and A' be its probabilities under D and D' given that the changed record is sampled, B the common one given
that it is not. Swapping the changed record of the sample for a random other one shows $A \le e^\varepsilon B$, and
privacy of M gives $A \le e^\varepsilon A'$. Hence

.. math::

    \frac{q A + (1-q) B}{q A' + (1-q) B}
    \le \frac{q e^\varepsilon \min(A', B) + (1-q) B}{q A' + (1-q) B} \le 1 + q\,(e^\varepsilon - 1):

if $A' \ge B$, lower A' to B; if $A' < B$, the fraction falls as B grows, so put B = A'. Equality is attained
by `randomized_response_subsampled`. For delta > 0 see Balle, Barthe and Gaboardi (2018), Theorems 8 and 9.

The lecture's proof bounds numerator and denominator one by one; but the two worst cases cannot hold at once. Test any
amplification formula at q = 1: it must return epsilon.

The lecture prints two larger values beside the tight one, with another in between:

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
"""

from __future__ import annotations

import math

from dpml import arguments, numerics
from dpml.accounting.composition import grown
from dpml.accounting.guarantee import ADJACENCIES, Guarantee

__all__ = [
    "amplify",
    "lecture_bound",
    "lecture_log_form",
    "lecture_useful_q",
    "poisson",
    "poisson_replace_one",
    "randomized_response_subsampled",
    "with_replacement",
    "without_replacement",
]


def amplify(*, epsilon: float, q: float) -> float:
    r"""Return log(1 + q (e^epsilon - 1)): the tight epsilon of an epsilon-private mechanism on a q-sample.

    Exactly epsilon at q = 1 and 0 at q = 0, without overflow at any epsilon. It holds for Poisson sampling under
    add/remove and for sampling q n of n records without replacement under replace-one, and for no other pair
    without further thought; `poisson` and `without_replacement` return it with its label.

    Raises:
        ValueError: if epsilon is not in [0, inf) or q not in [0, 1].

    Source: the lecture, slide "Privacy amplification by sub-sampling", remark on small epsilon; the value is
    Theorems 8 and 9 of Balle, Barthe and Gaboardi, "Privacy amplification by subsampling", NeurIPS 2018.

    Printed: for small $\varepsilon$, sampling a fraction $\gamma$ amplifies privacy by a factor of $4\gamma$. At
    $\gamma = 1/2$ the factor is 2, above 1: sampling half of the data would make privacy worse.

    Implemented: $\varepsilon' = \log(1 + q(e^\varepsilon - 1))$, for small $\varepsilon$ a factor of $q$. At
    $\varepsilon = 0.1$ and $q = 0.5$ the result is $0.0512495 = 0.512\,\varepsilon$, where the printed factor gives
    0.2. For large $\varepsilon$ there is no factor at all but a difference, $\varepsilon' = \varepsilon - \log(1/q)$ or
    so: 3.42750 at $\varepsilon = 8$, $q = 0.01$.

    Counterexample: half of the data; 4 gamma times epsilon, and what is true.

    >>> from dpml.accounting import amplification
    >>> 4 * 0.5 * 0.1, round(amplification.amplify(epsilon=0.1, q=0.5), 7)
    (0.2, 0.0512495)
    """
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    q = arguments.probability("q", q)
    return float(numerics.log1p_scaled_expm1(epsilon, q=q))


def poisson(*, epsilon: float, delta: float, q: float, adjacency: str) -> Guarantee:
    """Return the guarantee on a sample that holds each record independently with probability q.

    Neighbours: add/remove, for the mechanism and for the result. Replace-one is refused, since there the result is
    false (for a mechanism private under add/remove see `poisson_replace_one`). Counterexample: the mechanism that
    publishes the size of the sample and a randomized response to "is x* in it" is epsilon-private under replace-one.
    Let D hold x* and n - 1 other records, and D' a record other than x* in its place. The event "the sample has size n
    and the answer is yes" has probability q^n e^epsilon / (1 + e^epsilon) under D and q^n / (1 + e^epsilon) under D':
    the loss is still epsilon. At n = 3, q = 1/2, epsilon = 1 the probabilities are 0.0913823 and 0.0336177, the loss is
    1 and not 0.620115.

    Raises:
        ValueError: if epsilon is not in [0, inf), delta or q not in [0, 1], or adjacency is not "add/remove".

    Source: Balle, Barthe and Gaboardi, "Privacy amplification by subsampling", NeurIPS 2018, Theorem 8.
    """
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    delta = arguments.probability("delta", delta)
    q = arguments.probability("q", q)
    _require(
        "add/remove",
        adjacency,
        "Poisson sampling does not amplify replace-one privacy, because the size of the sample is random and may be "
        "published: at n = 3, q = 1/2, epsilon = 1 a mechanism keeps its whole loss of 1, not 0.620",
    )
    return _sampled(amplify(epsilon=epsilon, q=q), q * delta, "add/remove", "Poisson")


def without_replacement(*, epsilon: float, delta: float, m: int, n: int, adjacency: str) -> Guarantee:
    """Return the guarantee on a uniformly random set of m of the n records.

    Neighbours: replace-one, for the mechanism (on m records) and for the result (on n records). Add/remove is
    refused: neighbours then have n and n + 1 records, and m/n would differ between them.

    The sample is a set. A mechanism that sees its records in an order needs a random one: in the order of the data,
    swapping one record of the sample for another also moves those in between. Randomized response of every entry,
    on 2 of the records (0, 0, 1) or (1, 0, 1) in their order, has loss 0.856161 at epsilon = 1, not 0.763383.

    Raises:
        ValueError: if epsilon is not in [0, inf), delta not in [0, 1], n not an integer in [1, 2^53], m not one in
            [1, n], or adjacency is not "replace-one".

    Source: Balle, Barthe and Gaboardi, "Privacy amplification by subsampling", NeurIPS 2018, Theorem 9.
    """
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    delta = arguments.probability("delta", delta)
    n = arguments.integer("n", n, 1, 2**53)
    m = arguments.integer("m", m, 1, n)
    _require("replace-one", adjacency, _FIXED_SIZE)
    return _sampled(amplify(epsilon=epsilon, q=m / n), m / n * delta, "replace-one", "without replacement")


def with_replacement(*, epsilon: float, delta: float, m: int, n: int, adjacency: str) -> Guarantee:
    r"""Return the guarantee on m independent draws from the n records.

    The result is $\varepsilon' = m \log(1 + (e^\varepsilon - 1)/n)$ and
    $\delta' = \delta\,(e^{\varepsilon'} - 1)/(e^\varepsilon - 1)$.

    Neighbours: replace-one, for the mechanism (one of its m entries changes) and for the result (one of the n
    records changes).

    Proof. Draw the m entries one after another. Let $H_t$ take the first t entries from D' and the others from D.
    $H_{t-1}$ and $H_t$ differ in one entry, which is a uniform draw in both; given the other entries this is
    sampling 1 of n without replacement, with $\varepsilon_1 = \log(1 + (e^\varepsilon - 1)/n)$ and
    $\delta_1 = \delta/n$. The m steps from $H_0$, which is M'(D), to $H_m$, which is M'(D'), add up as in group
    privacy.

    Tight for delta = 0: let M release a randomized response of every entry, and let D hold one 1 and D' only
    zeros; the loss of the output "all ones" is $\varepsilon'$. A record may be drawn several times, and M then
    protects it less: at n = m = 2 and epsilon = 1 the result, 1.24023, is above 1. m may exceed n.

    The formula of the other schemes with $q = 1 - (1 - 1/n)^m$, the probability that a record is drawn at all, gives
    0.827989 here and is not valid for such an M. `amplify` is right with this q if M is epsilon-private whenever all
    copies of one record in its sample change at once, to any other values, also to ones that the sample holds already:
    the proof at the head of this page then goes through. (Change the copies into fresh draws from the other records to
    get from A to B, into the new record to get from A to A'.) To drop repeated records is not enough.

    Raises:
        ValueError: if epsilon is not in [0, inf), delta not in [0, 1], m or n not an integer in [1, 2^53], adjacency is
            not "replace-one", or the result exceeds the range of floats.

    Source: the proof above. Balle, Barthe and Gaboardi, "Privacy amplification by subsampling", NeurIPS 2018,
    Theorem 10, treats the same scheme through the privacy of M for groups of copies.
    """
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    delta = arguments.probability("delta", delta)
    n, m = arguments.integer("n", n, 1, 2**53), arguments.integer("m", m, 1, 2**53)
    _require("replace-one", adjacency, _FIXED_SIZE)
    # the epsilon of one draw may be below the range of floats where that of all is not
    total = m / n * epsilon if epsilon < 1e-290 else m * amplify(epsilon=epsilon, q=1 / n)
    arguments.finite("epsilon", epsilon, total, "m * epsilon")
    return _sampled(total, grown(delta, epsilon, total, m / n), "replace-one", "with replacement")


def randomized_response_subsampled(*, epsilon: float, q: float) -> tuple[float, float]:
    """Return the probabilities of "yes" under D and D' in the case where `amplify` is attained.

    M answers "is x* in the sample?" by randomized response; D holds x*, the neighbour D' does not. The logarithm of
    the ratio of the two is exactly log(1 + q (e^epsilon - 1)).

    Raises:
        ValueError: if epsilon is not in [0, 700] (beyond, the smaller probability underflows) or q not in [0, 1].

    Source: own construction for the lecture's slide "Privacy amplification by sub-sampling"; Balle, Barthe and
    Gaboardi, "Privacy amplification by subsampling", NeurIPS 2018, show by lower bounds that it is tight in general.
    """
    epsilon = arguments.real("epsilon", epsilon, 0.0, 700.0)
    q = arguments.probability("q", q)
    lie = math.exp(-epsilon) / (1.0 + math.exp(-epsilon))
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    return q * truth + (1.0 - q) * lie, lie


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

    Counterexample: a quarter of the data, and all of it, at epsilon = 1.

    >>> from dpml.accounting import amplification
    >>> for q in (0.25, 1.0):
    ...     printed = amplification.lecture_bound(epsilon=1.0, q=q)
    ...     print(
    ...         f"{printed:.5f} {amplification.amplify(epsilon=1.0, q=q):.6f}"
    ...     )
    1.17520 0.357374
    4.70080 1.000000
    """
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    q = arguments.probability("q", q)
    if epsilon < 700.0:
        value = 4.0 * q * math.sinh(epsilon)
    else:  # e^epsilon may overflow where q e^epsilon does not: multiply by a root of it, several times
        factors = 2 if epsilon <= 1418.0 else 4
        root = math.exp(min(epsilon, 2000.0) / factors)  # at 2000 every q > 0 overflows
        value = math.prod([root] * factors, start=2.0 * q)
    return arguments.finite("epsilon", epsilon, value, "2 q e^epsilon")


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

    Counterexample: a quarter of the data, and all of it, at epsilon = 1.

    >>> from dpml.accounting import amplification
    >>> for q in (0.25, 1.0):
    ...     printed = amplification.lecture_log_form(epsilon=1.0, q=q)
    ...     print(
    ...         f"{printed:.6f} {amplification.amplify(epsilon=1.0, q=q):.6f}"
    ...     )
    0.529385 0.357374
    2.000000 1.000000
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
    root = math.exp(-epsilon / 2.0)  # its square may have lost its digits
    return epsilon * root / (-2.0 * math.expm1(-2.0 * min(epsilon, 1e300))) * root


_FIXED_SIZE = (
    "a sample of fixed size m is defined for neighbours of the same size n; under add/remove the fraction m/n would "
    "itself depend on the data"
)


def _require(needed: str, adjacency: str, reason: str) -> None:
    arguments.choice("adjacency", adjacency, ADJACENCIES)
    if adjacency != needed:
        raise ValueError(f'adjacency must be "{needed}", got {adjacency!r}: {reason}')


def _sampled(epsilon: float, delta: float, adjacency: str, sampling: str) -> Guarantee:
    return Guarantee(epsilon, delta=delta, kind="upper bound", adjacency=adjacency, sampling=sampling)
