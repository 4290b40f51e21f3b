r"""M_samp: make any function stable by asking it about many random parts of the data, then release by M_stab's test.

With a sampling probability q (the lecture's $\gamma$) and $n_T$ models:

1. Draw $n_T$ parts of the data; each record is in each part with probability q, by its own coin.
2. If some record is in more than $2 q n_T$ parts, fail (the event B).
3. Evaluate f on every part, and let $c_{(1)} \ge c_{(2)}$ be the two largest counts of equal answers. The answer is the
   most frequent one if $d + \mathrm{Lap}(1/\varepsilon) > \log(1/\delta)/\varepsilon$, with
   $d = (c_{(1)} - c_{(2)}) / (4 q n_T) - 1$; otherwise fail.

Theorem (privacy). For replace-one neighbours, $\varepsilon > 0$, $0 < \delta < 1$, any q and $n_T$ and any f with a
finite set of answers, M_samp is $(\varepsilon, \delta/2)$-differentially private.

Proof. Let D and D' differ in record i. Take the same coins for both; the coins do not depend on the data, so it is
enough to show the claim for each outcome of them. In B the output is "fail" for both: B costs nothing. Outside B
record i is in at most $2 q n_T$ parts, so at most that many votes move. (a) Each of $c_{(1)}$, $c_{(2)}$ moves by at
most $2 q n_T$, the gap by at most $4 q n_T$, and d by at most 1. (b) If the winners differ, say j on D and k on D',
the gap between j and k goes from at least $c_{(1)} - c_{(2)}$ to at most 0, so $c_{(1)} - c_{(2)} \le 4 q n_T$ and
$d \le 0$; the same for D'. Now argue as for M_stab, with $P(j) \le \delta/2$ in case (b).

Why replace-one: the number of models is a function of n, and n must be public. Under add/remove $n_T$, and with it
everything above, would differ between neighbours; so would the event B, which then depends on who is there.

Theorem (utility, repaired). Let f give f(D) on a part of D with probability at least 3/4, let
$q = \varepsilon / (32 \log(1/\delta))$, $\delta e^\varepsilon < 2$, $n_T \ge 128 \log(1/\delta)$ and $P(B) \le \delta$.
Then the answer is f(D) with probability at least $1 - 3\delta$.

Proof. By Hoeffding's inequality f(D) has at least $\frac{11}{16} n_T$ votes but for probability
$e^{-n_T/128} \le \delta$. Then the gap is at least $\frac{3}{8} n_T$ and
$d \ge \frac{3}{32 q} - 1 = 3\log(1/\delta)/\varepsilon - 1$, so the test fails with probability at most
$\delta^2 e^\varepsilon / 2 < \delta$. Add P(B).

How many models. A record is in $q\,n_T$ parts in the mean. The number of parts in which a record is, is binomial; a
union bound over the n records gives

.. math::

    P(B) \le n\, e^{-2 q^2 n_T} \quad \text{(Hoeffding)}, \qquad
    P(B) \le n\, e^{-(2 \log 2 - 1)\, q\, n_T} \quad \text{(Chernoff)}.

For small q the second is far better: it asks for some 1/q models, the first for 1/q^2. Privacy needs neither, since B
happens for neighbours alike; only utility does.

This is not PATE. There the parts are disjoint, each record moves one vote, and some hundred models do. Here a record
is in about $q n_T$ parts, and privacy must survive that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, gammaln, xlog1py, xlogy

from dpml import arguments
from dpml.pate._counts import cast_votes
from dpml.pate.m_stab import FAIL, budget, release_probability, stability_test

__all__ = [
    "SamplingPlan",
    "SubsampleVotes",
    "m_samp",
    "m_samp_release_probability",
    "overuse_probability",
    "sampling_plan",
    "sampling_plan_chernoff",
    "scaled_distance",
    "subsample_votes",
]


class SamplingPlan(NamedTuple):
    """Each record is in each of `n_models` parts with probability `q`.

    Source: the lecture, slide "Privacy via Subsample and Aggregate", step 1.
    """

    q: float
    n_models: int


def sampling_plan(*, epsilon: float, delta: float, n: int) -> SamplingPlan:
    r"""Return q and the number of models as the lecture means them: $n_T = \lceil \log(n/\delta)/q^2 \rceil$.

    `n` is the number of records and must be public. The count comes from Hoeffding's inequality, which for a small q
    is far from tight; see `sampling_plan_chernoff`. It makes P(B) at most $\delta^2/n$.

    Raises:
        ValueError: if epsilon is not in (0, 32 log(1/delta)], where q is at most 1, delta not in (0, 1), n not an
            integer in [1, 2^53], or the number of models exceeds 2^53.

    Source: the lecture, slide "Privacy via Subsample and Aggregate", step 1.

    Printed: $\gamma \leftarrow \varepsilon/(32 \log(1/\delta))$, $n_T \leftarrow \log(n/\delta)/q^2$, where q is not
    defined and $n_T$ need not be whole.

    Implemented: $q = \gamma$, as the proof needs ($2 \gamma^2 n_T = 2 \log(n/\delta)$), $n_T$ rounded up, and computed
    from a public n. At $\varepsilon = 1$, $\delta = 10^{-5}$ and $n = 10^5$ that is 3,125,267 models.

    Counterexample: the number of models at n = 100,000, and with a sharper bound.

    >>> from dpml.pate import m_samp
    >>> plans = m_samp.sampling_plan, m_samp.sampling_plan_chernoff
    >>> [plan(epsilon=1.0, delta=1e-5, n=100_000).n_models for plan in plans]
    [3125267, 21961]
    """
    return _plan(epsilon, delta, n, lambda q: q**2)


def sampling_plan_chernoff(*, epsilon: float, delta: float, n: int) -> SamplingPlan:
    r"""Return q and a number of models that is enough for P(B) at most delta, by the multiplicative Chernoff bound.

    For a binomial count X of mean $\mu$, $P(X \ge 2\mu) \le e^{-(2 \log 2 - 1)\mu}$; with $\mu = q n_T$ and a union
    over n records, $n_T = \lceil \log(n/\delta) / ((2\log 2 - 1)\,q) \rceil$: 1/q and not 1/q^2. Privacy does not
    depend on the count; for the utility theorem check that it is at least 128 log(1/delta).

    Raises:
        ValueError: as `sampling_plan`.

    Source: Mitzenmacher and Upfal, "Probability and computing", Theorem 4.4, in place of the Hoeffding inequality of
    the lecture's slide "Privacy of M_samp".
    """
    return _plan(epsilon, delta, n, lambda q: (2.0 * math.log(2.0) - 1.0) * q)


def overuse_probability(*, n: int, q: float, n_models: int) -> float:
    r"""Return a bound on P(B), the chance that one of n records is in more than 2 q n_models parts.

    The union bound over the records, with the exact binomial tail of each; at most 1.

    Raises:
        ValueError: if n is not an integer in [1, 2^53], q not in (0, 1], or n_models not one in [1/q, 2^53].

    Source: the lecture, slide "Privacy of M_samp", with the tail itself in place of Hoeffding's bound.
    """
    n = arguments.integer("n", n, 1, 2**53)
    q, n_models = _sizes(q, n_models)
    most = _limit(q, n_models)
    return 0.0 if most >= n_models else min(1.0, n * float(betainc(most + 1, n_models - most, q)))


class SubsampleVotes(NamedTuple):
    """What M_samp must keep to itself: the counts of each answer, and in how many parts the most used record is.

    `counts` has the shape [classes] or [queries, classes]. Nothing in it is private.

    Source: the lecture, slide "Privacy via Subsample and Aggregate", steps 2 to 4.
    """

    counts: NDArray[np.int64]
    most_used: int


def scaled_distance(counts: ArrayLike, *, q: float, n_models: int) -> NDArray[np.float64]:
    """Return (first - second count) / (4 q n_models) - 1, which takes the place of the distance to instability.

    `counts` has the shape [classes] or [queries, classes]. With `dpml.pate.m_stab.release_probability` it gives
    the exact probability of a release for given votes.

    Raises:
        ValueError: if counts is not an array of whole numbers >= 0 of one of these shapes, q not in (0, 1], or n_models
            not an integer in [1/q, 2^53].

    Source: the lecture, slide "Privacy via Subsample and Aggregate", step 4.
    """
    q, n_models = _sizes(q, n_models)
    top = np.partition(cast_votes(counts), -2, axis=-1)
    distance: NDArray[np.float64] = (top[..., -1] - top[..., -2]) / (4.0 * q * n_models) - 1.0
    return distance


@np.errstate(under="ignore")
def m_samp_release_probability(*, agreement: float, epsilon: float, delta: float, q: float, n_models: int) -> float:
    r"""Return the probability that M_samp releases f(D), apart from the event B, for a function with two answers.

    `agreement` is the probability that f gives f(D) on a random part; from 3/4 on the lecture calls f stable. The votes
    for f(D) are then binomial, and the sum over them is exact.
    With more than two answers it is a lower bound. Subtract `overuse_probability` for the event B.

    Raises:
        ValueError: if agreement is not in [0, 1], epsilon not in (0, inf), delta not in (0, 1), q not in (0, 1], or
            n_models not an integer in [1/q, 10^8].

    Source: the lecture, slide "Utility of M_samp", computed in place of bounded.

    Printed: with $\gamma = \varepsilon/(32\log(1/\delta))$, at least $\frac58 n_T$ votes for f(D) give
    $\frac{1}{16\gamma} > \frac{2\log(1/\delta)}{\varepsilon}$, and so a release with probability $1 - \delta$.

    Implemented: both sides are equal, and the test subtracts 1. At 5/8 of the votes it fails with probability
    $\delta e^\varepsilon / 2$: $3.69 \cdot 10^{-5}$ at $\varepsilon = 2$ and $\delta = 10^{-5}$. The claim
    $1 - 3\delta$ holds all the same, for $\delta e^\varepsilon < 2$ and $n_T \ge 128 \log(1/\delta)$, since 11/16 of
    the votes are there with probability $1 - \delta$.

    Counterexample: a failure at 5/8 of the votes, in place of probability delta = 1e-5.

    >>> import math
    >>> from dpml.pate import m_samp, m_stab
    >>> epsilon, delta = 2.0, 1e-5
    >>> parts = {"q": epsilon / (32 * math.log(1 / delta)), "n_models": 8000}
    >>> scaled = m_samp.scaled_distance([5000, 3000], **parts)
    >>> f"{m_stab.fail_probability(scaled, epsilon=epsilon, delta=delta):.3g}"
    '3.69e-05'
    """
    agreement = arguments.probability("agreement", agreement)
    epsilon, delta = budget(epsilon, delta)
    q, n_models = _sizes(q, n_models, most=10**8)
    spread = 40.0 * math.sqrt(n_models) + 1.0  # by Hoeffding the rest has probability below e^-3200
    low, high = max(0, int(agreement * n_models - spread)), min(n_models, int(agreement * n_models + spread))
    votes = np.arange(max(low, n_models // 2 + 1), high + 1)
    if votes.size == 0:
        return 0.0
    released = release_probability((2.0 * votes - n_models) / (4.0 * q * n_models) - 1.0, epsilon=epsilon, delta=delta)
    ways = gammaln(n_models + 1.0) - gammaln(votes + 1.0) - gammaln(n_models - votes + 1.0)
    chances = np.exp(ways + xlogy(votes, agreement) + xlog1py(n_models - votes, -agreement))
    return min(1.0, float(np.sum(chances * released)))


def subsample_votes(
    data: Any,
    *,
    n: int,
    classes: int,
    q: float,
    n_models: int,
    train: Callable[[Any, NDArray[np.bool_]], ArrayLike],
    rng: np.random.Generator,
    chunk: int = 512,
) -> SubsampleVotes:
    """Return the votes of models trained on random parts of the data. Nothing here is private: see `m_samp`.

    `train(data, members)` gets a boolean array [models, records] that says which record is in which part, `chunk`
    models at a time, and returns the answers as whole numbers below `classes`: an array [models], or [models, queries]
    if the models answer several questions. The answers of a model must depend on the records of its own part only.

    Raises:
        ValueError: if data does not hold n records, classes is not an integer in [2, 2^31], q not in (0, 1], n_models
            not an integer in [1/q, 2^53], chunk not one in [1, 2^31], rng not a Generator, train not a function, or its
            answers are of another shape or range.

    Source: the lecture, slide "Privacy via Subsample and Aggregate", steps 2 to 4.
    """
    n = arguments.integer("n", n, 1, 2**53)
    arguments.records("data", data, n)
    classes, chunk = arguments.integer("classes", classes, 2, 2**31), arguments.integer("chunk", chunk, 1, 2**31)
    q, n_models = _sizes(q, n_models)
    arguments.function("train", train)
    rng = arguments.generator("rng", rng)
    used, shape, total = np.zeros(n, dtype=np.int64), None, np.zeros((), dtype=np.int64)
    for start in range(0, n_models, chunk):
        members = rng.random((min(chunk, n_models - start), n)) < q
        used += members.sum(axis=0)
        answers = _answers(train(data, members), len(members), shape, classes)
        shape = answers.shape[1:]
        columns = answers.reshape(len(members), -1)
        offsets = classes * np.arange(columns.shape[1])
        total = total + np.bincount((columns + offsets).reshape(-1), minlength=classes * columns.shape[1])
    return SubsampleVotes(total.reshape(*answers.shape[1:], classes), int(used.max()))


def m_samp(
    data: Any,
    *,
    epsilon: float,
    delta: float,
    n: int,
    classes: int,
    train: Callable[[Any, NDArray[np.bool_]], ArrayLike],
    rng: np.random.Generator,
    n_models: int | None = None,
    chunk: int = 512,
) -> NDArray[np.int64]:
    """Return the answer of most models trained on random parts of the data, or `FAIL`.

    `train` is as in `subsample_votes`, which also says what it costs. `n` is the number of records: public, the same
    for neighbours. `n_models` is by default the lecture's count, `sampling_plan`; any other public one, such as that of
    `sampling_plan_chernoff`, is as private. The answer is a label, or one for each query if the models answer several.

    Neighbours: one record is replaced. Each query is (epsilon, delta/2)-differentially private, as one of M_stab
    (`dpml.pate.m_stab.m_stab_privacy`), and several compose, although they share the parts. Given the coins it is
    tight: let a record be in exactly 2 q n_models parts and decide them all. Nothing is drawn for privacy before all
    answers are there and in order.

    Raises:
        ValueError: if data does not hold n records, or for an argument that `sampling_plan` or `subsample_votes`
            refuses.

    Source: the lecture, slide "Privacy via Subsample and Aggregate".
    """
    plan = sampling_plan(epsilon=epsilon, delta=delta, n=n)
    models = plan.n_models if n_models is None else n_models
    votes = subsample_votes(data, n=n, classes=classes, q=plan.q, n_models=models, train=train, rng=rng, chunk=chunk)
    distance = scaled_distance(votes.counts, q=plan.q, n_models=models)
    passed = stability_test(distance, epsilon=epsilon, delta=delta, rng=rng)
    passed = passed & (votes.most_used <= _limit(plan.q, models))
    return np.where(passed, votes.counts.argmax(axis=-1), FAIL)[()]


def _plan(epsilon: float, delta: float, n: int, share: Callable[[float], float]) -> SamplingPlan:
    """q, and as many models as log(n/delta) over `share` of q, rounded up."""
    epsilon, delta = budget(epsilon, delta)
    most = -32.0 * math.log(delta)
    if epsilon > most:
        raise ValueError(f"epsilon must be in (0, 32 log(1/delta)] = (0, {most:.6g}], got {epsilon!r}")
    n, q = arguments.integer("n", n, 1, 2**53), epsilon / most
    needed = math.log(n) - math.log(delta)
    if not needed <= 2.0**53 * share(q):
        raise ValueError(f"epsilon must be so large that at most 2^53 models are needed, got {epsilon!r}")
    return SamplingPlan(q, math.ceil(needed / share(q)))


def _sizes(q: float, n_models: int, most: int = 2**53) -> tuple[float, int]:
    """Return both; a record must be in at least one part in the mean."""
    q = arguments.real("q", q, 0.0, 1.0, low_open=True)
    count = arguments.integer("n_models", n_models, 1, most)
    if q * count < 1.0:
        raise ValueError(f"n_models must be at least 1/q = {1 / q:.6g}, so that a part is used at all, got {count}")
    return q, count


def _limit(q: float, n_models: int) -> int:
    """The largest number of parts in which a record may be."""
    return math.floor(2.0 * q * n_models)


def _answers(raw: Any, models: int, shape: tuple[int, ...] | None, classes: int) -> NDArray[np.int64]:
    """What the callback returned, if it is as promised."""
    found = arguments.as_array(raw)
    allowed = f"[{models}] or [{models}, queries]" if shape is None else f"{[models, *shape]}, as for the models before"
    good = found.ndim in (1, 2) and found.shape[0] == models and found.size > 0
    if not good or (shape is not None and found.shape[1:] != shape):
        raise ValueError(f"train must return an array of shape {allowed}, got shape {found.shape}")
    if found.dtype.kind not in "iu" or found.min() < 0 or found.max() >= classes:
        shown = found.dtype if found.dtype.kind not in "iu" else f"{found.min()} to {found.max()}"
        raise ValueError(f"train must return whole numbers from 0 to {classes - 1} = classes - 1, got {shown}")
    return found.astype(np.int64)
