r"""How far a dataset is from one with another answer.

Let f be a function of a dataset of n records, and let two datasets of n records be at distance k if they differ in k
of them (replace-one). The distance to instability of D is

.. math::

    d_f(D) = \max\{k \in \{0, \dots, n\} : f(D') = f(D) \text{ for all } D' \text{ at distance at most } k\}.

It is the distance to the nearest dataset with another answer, less one, and n if f is constant. Two facts make it the
right thing to measure:

1. It moves by at most 1 between neighbours. Let D' be a neighbour of D. If f(D') = f(D), a dataset with another answer
   at distance k from D is at distance at most k + 1 from D'. If not, both distances are 0, by the second fact.
2. If $f(D) \ne f(D')$ for neighbours, then $d_f(D) = d_f(D') = 0$: each is the other's counterexample at distance 1.

Theorem (the plurality vote). Let each of n voters name one of L labels, $c_k$ be the votes for k, and f be the label
with most votes, the lowest of those that tie. If j wins and $g_k = c_j - c_k$, then, for neighbours in which one voter
changes the vote,

.. math::

    d_f = \min_{k \ne j} \begin{cases} \lfloor g_k / 2 \rfloor & k > j, \\
                                       \lceil g_k / 2 \rceil - 1 & k < j. \end{cases}

Proof. To make k beat j, no change does more than to move a vote from j to k, which lowers $g_k$ by 2. A label k < j
wins ties, so it needs $g_k \le 0$, after $\lceil g_k/2 \rceil$ moves; a label k > j needs $g_k \le -1$, after
$\lfloor g_k/2 \rfloor + 1$. There are enough votes to move: $c_j \ge g_k$, and $c_j \ge 1$. As soon as some k beats j,
the answer is not j; until then it is j. The nearest other answer is the minimum over k, and the distance is one less.

In PATE one person's record is in the training set of one teacher, so one vote changes: for a record that is replaced,
and for one that is added to or removed from its teacher.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments
from dpml.pate._counts import cast_votes

__all__ = ["distance_by_brute_force", "distance_to_instability"]

_MOST_DATASETS = 2_000_000  # some seconds of Python


def distance_to_instability(counts: ArrayLike) -> NDArray[np.int64]:
    r"""Return how many votes can change, in the worst way, without changing the winner.

    `counts` holds the votes for each label, shape [classes] or [queries, classes]; the result is an integer, or one for
    each query. Ties go to the lowest label. Neighbours: one voter changes the vote (replace-one).

    Raises:
        ValueError: if counts is not an array of whole numbers >= 0 of one of these shapes, with at least two classes
            and at least one vote for each query.

    Source: the lecture, slide "Notions of Stability"; the closed form is the theorem at the head of this module.

    Printed: $\mathrm{dist}_f(D) = \arg\max\{k \in [n] : f(D) \text{ is } k\text{-perturbation stable}\}$. With
    $[n] = \{1, \dots, n\}$ the set is empty where one change alters the answer, and there the proof of privacy needs
    the value 0.

    Implemented: the maximum, over $\{0, \dots, n\}$. The votes (4, 3) have distance 0; giving them 1 multiplies the
    probability of a release by $e^\varepsilon$, and $\delta$ with it.

    Counterexample: the votes (3, 4) give the second class, (4, 3) the first, at distance 0 and as printed.

    >>> import math
    >>> from dpml.pate import m_stab, stability
    >>> int(stability.distance_to_instability([4, 3]))
    0
    >>> budget = {"epsilon": 1.0, "delta": 1e-5}
    >>> [
    ...     float(round(m_stab.release_probability(d, **budget), 10))
    ...     for d in (0, 1)
    ... ]
    [5e-06, 1.35914e-05]
    """
    votes = cast_votes(counts)
    winner = votes.argmax(axis=-1)[..., None]
    gap = np.take_along_axis(votes, winner, axis=-1) - votes
    label = np.arange(votes.shape[-1])
    distance = np.where(label == winner, np.iinfo(np.int64).max, (gap - (label < winner)) // 2)  # ceil(g/2) - 1
    nearest: NDArray[np.int64] = distance.min(axis=-1)
    return nearest


def distance_by_brute_force(
    function: Callable[[tuple[Any, ...]], Any], *, dataset: Iterable[Any], values: Iterable[Any]
) -> int:
    """Return the distance to instability of any function, by trying every dataset of the same size.

    `function` takes a tuple of records and gives something that can be compared with ``==``; `values` holds all values
    that a record can have. Neighbours: one record is replaced. The work grows as the number of values to the power
    of the number of records; at most two million datasets are tried. A constant function gives the number of records.

    Raises:
        ValueError: if function is not callable, dataset is empty, too large or has a record that is not among values,
            or values does not hold at least two different values.

    Source: the lecture, slide "Notions of Stability".
    """
    arguments.function("function", function)
    records, domain = _listed("dataset", dataset), _listed("values", values)
    if len(domain) < 2 or any(domain[i] in domain[:i] for i in range(len(domain))):
        raise ValueError(f"values must be at least two different values, got {values!r:.80}")
    if any(record not in domain for record in records):
        raise ValueError(f"dataset must hold records that are among values, got {dataset!r:.80}")
    n, others = len(records), [[value for value in domain if value != record] for record in records]
    if len(domain) ** n > _MOST_DATASETS:
        raise ValueError(f"dataset must have few records: {len(domain)}^{n} datasets are too many, got {n} records")
    answer = function(records)
    for changes in range(1, n + 1):
        for places in itertools.combinations(range(n), changes):
            for new in itertools.product(*(others[place] for place in places)):
                neighbour = list(records)
                for place, value in zip(places, new, strict=True):
                    neighbour[place] = value
                if function(tuple(neighbour)) != answer:
                    return changes - 1
    return n


def _listed(name: str, value: Any) -> tuple[Any, ...]:
    arguments.records(name, value)
    return tuple(value.tolist() if isinstance(value, np.ndarray) else value)
