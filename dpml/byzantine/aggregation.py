r"""Rules that make one vector of n, of which at most f are arbitrary: what a server does with the gradients it is sent.

Rows $g_1, \dots, g_n \in \mathbb{R}^d$, f = `n_byzantine`. With $D_{ij} = \|g_i - g_j\|^2$ and $i \to j$ if $g_j$ is
among the n - f - 2 rows nearest to $g_i$:

| rule | needs | output |
|---|---|---|
| `average` | | $\frac1n \sum_i g_i$: one Byzantine row moves it anywhere |
| `krum` | n >= 2f + 3 | the row of least score $s_i = \sum_{j : i \to j} D_{ij}$ |
| `multi_krum` | n >= 2f + 3 | the average of the n - f - 2 rows of least score |
| `mda` | n >= 2f + 1 | the average of the n - f rows of least diameter $\max D_{ij}$ |
| `median` | n >= 2f + 1 | in each coordinate the median |
| `trimmed_mean` | n >= 2f + 1 | in each coordinate the average without the f least and the f largest values |
| `geometric_median` | n >= 2f + 1 | the point of least $\sum_i \lVert g_i - y \rVert$ |
| `bulyan` | n >= 4f + 3 | n - 2f - 2 times a row of least score is moved to P; the average near the median of P |
| `bulyan_multi_krum` | n >= 4f + 3 | the same, but each time what Multi-Krum makes of the rows goes to P |

`nearest_neighbour_mixing` is no rule: it replaces each row by the average of the n - f nearest, for a rule to follow.

Rows that are not finite. A row with NaN or infinity (or so large that squares leave the floats: beyond 1e140, or a
quarter of the largest number of a tensor's type) was sent by no honest worker. It counts as one of the f Byzantine: it
is left out, and the rule runs with n - 1 rows and f - 1. All conditions above stay true. More such rows than f are
refused. So the output is finite, always.

Ties. Of equal scores the lowest number wins; of sets of equal diameter the lexicographically first; of values equally
far from a median the lower ones; of points of equal sum of distances a row, the first.

Rows are NumPy arrays (what comes back is float64), or torch tensors on any device, which stay where they are; what
comes back has their type. Distances are right also where rows share a large part (see `dpml.byzantine._rows`). For a
server that learns from private gradients a rule is a post-processing: it costs no privacy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml.byzantine import _geometric
from dpml.byzantine._diameter import least_diameter
from dpml.byzantine._rows import Rows, average_of, distances, like, mixed, per_coordinate, products, received, torch_of

__all__ = [
    "average",
    "bulyan",
    "bulyan_multi_krum",
    "geometric_median",
    "krum",
    "krum_scores",
    "mda",
    "mda_subset",
    "median",
    "multi_krum",
    "nearest_neighbour_mixing",
    "squared_distances",
    "trimmed_mean",
]

Matrix = NDArray[np.float64]


def squared_distances(vectors: Any) -> Matrix:
    """Return the squared distances [n, n] between the rows of `vectors` [n, d], as a NumPy array in float64.

    Raises:
        ValueError: if vectors is no array or tensor of finite floating numbers with the shape [n, d].

    Source: definition.
    """
    return distances(received(vectors, 0, slope=1, spare=1).rows)


def average(vectors: Any, *, n_byzantine: int) -> Any:
    """Return the average [d] of the rows [n, d]: what distributed SGD does where nobody lies.

    No protection: a single row moves it anywhere. `n_byzantine` only says how many rows may be not finite.

    Raises:
        ValueError: if vectors is no array or tensor of shape [n, d], n_byzantine not an integer in [0, n - 1], or more
            rows than that are not finite.

    Source: the Byzantine paper (Guerraoui et al.), section 2; definition.
    """
    rows = received(vectors, n_byzantine, slope=1, spare=1).rows
    return like(vectors, average_of(rows, range(len(rows))))


def krum_scores(vectors: Any, *, n_byzantine: int) -> Matrix:
    """Return Krum's scores [n]: the sum of the squared distances to the n - f - 2 nearest other rows, in float64.

    Infinite for a row that is not finite.

    Raises:
        ValueError: as `krum`.

    Source: the Byzantine paper (Guerraoui et al.), appendix B.1, equation (6); Blanchard et al., "Machine learning
    with adversaries", NeurIPS 2017, section 4.
    """
    sent = received(vectors, n_byzantine, slope=2, spare=3)
    scores = np.full(len(vectors), np.inf)
    scores[sent.places] = _scores(distances(sent.rows), sent.n_byzantine)
    return scores


def krum(vectors: Any, *, n_byzantine: int) -> Any:
    """Return the row [d] of least score, as the paper prints Krum.

    In noise as large as differential privacy asks for, that row is Byzantine: see
    `dpml.byzantine.theory.krum_threshold`. The published code of the paper's authors averages instead: `multi_krum`.

    Raises:
        ValueError: if vectors is no array or tensor of shape [n, d], n < 3, n_byzantine not an integer in
            [0, (n - 3) / 2], or more rows than n_byzantine are not finite.

    Source: the Byzantine paper (Guerraoui et al.), appendix B.1; Blanchard et al., "Machine learning with
    adversaries", NeurIPS 2017, section 4.
    """
    sent = received(vectors, n_byzantine, slope=2, spare=3)
    best = _by_score(distances(sent.rows), sent.n_byzantine)[:1]
    return like(vectors, sent.rows[best.tolist()][0])


def multi_krum(vectors: Any, *, n_byzantine: int) -> Any:
    """Return the average [d] of the n - f - 2 rows of least score.

    Raises:
        ValueError: as `krum`.

    Source: Blanchard et al., "Machine learning with adversaries", NeurIPS 2017, section 6 ("Multi-Krum"), with the
    number of rows that the public code of the Byzantine paper's authors takes. (That code adds up distances, not their
    squares, to the n - f - 1 nearest.)
    """
    sent = received(vectors, n_byzantine, slope=2, spare=3)
    best = _by_score(distances(sent.rows), sent.n_byzantine)[: len(sent.rows) - sent.n_byzantine - 2]
    return like(vectors, average_of(sent.rows, best))


def mda_subset(vectors: Any, *, n_byzantine: int) -> NDArray[np.int64]:
    """Return the numbers of the n - f rows of least diameter, increasing.

    Exact. Milliseconds for n = 50; the time grows exponentially with f in the worst case.

    Raises:
        ValueError: as `mda`.

    Source: the Byzantine paper (Guerraoui et al.), appendix B.2, equation (9).
    """
    sent = received(vectors, n_byzantine, slope=2, spare=1)
    return sent.places[least_diameter(distances(sent.rows), sent.n_byzantine)]


def mda(vectors: Any, *, n_byzantine: int) -> Any:
    """Return the average [d] of the n - f rows of least diameter: minimum-diameter averaging.

    The diameter is the distance of one pair, so that several sets often share the least one: of 15 standard normal rows
    with f = 3 in every other draw. Then the definition leaves open which, and here the order of the rows decides.

    Raises:
        ValueError: if vectors is no array or tensor of shape [n, d], n_byzantine not an integer in [0, (n - 1) / 2],
            or more rows than n_byzantine are not finite.

    Source: the Byzantine paper (Guerraoui et al.), appendix B.2; El Mhamdi et al., "The hidden vulnerability of
    distributed learning in Byzantium", ICML 2018.
    """
    sent = received(vectors, n_byzantine, slope=2, spare=1)
    return like(vectors, average_of(sent.rows, least_diameter(distances(sent.rows), sent.n_byzantine)))


def median(vectors: Any, *, n_byzantine: int) -> Any:
    """Return the median [d] of each coordinate; for even n the middle between the two middle values.

    (The definition that the paper prints, a minimiser of sum |x_i - x|, is met by all points between the two.)

    Raises:
        ValueError: as `mda`.

    Source: the Byzantine paper (Guerraoui et al.), appendix B.3; Yin et al., "Byzantine-robust distributed learning",
    ICML 2018, Definition 1.
    """
    sent = received(vectors, n_byzantine, slope=2, spare=1)
    return like(vectors, per_coordinate(sent.rows, _middle))


def trimmed_mean(vectors: Any, *, n_byzantine: int) -> Any:
    """Return in each coordinate [d] the average without the f least and the f largest values.

    Raises:
        ValueError: as `mda`.

    Source: Yin et al., "Byzantine-robust distributed learning", ICML 2018, Definition 2, with f values cut off at
    either end.
    """
    sent = received(vectors, n_byzantine, slope=2, spare=1)
    f = sent.n_byzantine
    return like(vectors, per_coordinate(sent.rows, lambda values: _mean(values[f : len(values) - f])))


def geometric_median(vectors: Any, *, n_byzantine: int) -> Any:
    """Return the point [d] of least sum of distances to the rows, to about 1e-12 of the spread of most of them.

    Unique unless all rows lie on a line and n is even: then it is a row.

    Raises:
        ValueError: as `mda`.

    Source: Chen, Su and Xu, "Distributed statistical machine learning in adversarial settings", POMACS 2017; Vardi
    and Zhang, "The multivariate L1-median and associated data depth", PNAS 2000, for the minimum at a row.
    """
    rows = received(vectors, n_byzantine, slope=2, spare=1).rows
    squares = distances(rows)
    return like(vectors, mixed(rows, _geometric.weights(squares, products(rows, _geometric.origin(squares)))))


def bulyan(vectors: Any, *, n_byzantine: int) -> Any:
    """Return Bulyan [d] on Krum, as printed.

    n - 2f - 2 times Krum picks one of the rows that are left, and it is moved to the set P. Then in each coordinate the
    n - 4f - 2 values of P that are nearest to their median are averaged.

    Raises:
        ValueError: if vectors is no array or tensor of shape [n, d], n < 3, n_byzantine not an integer in
            [0, (n - 3) / 4], or more rows than n_byzantine are not finite. At n = 15 at most 3 Byzantine workers are
            allowed: with 6, as in one of the paper's experiments, Bulyan is not defined.

    Source: the Byzantine paper (Guerraoui et al.), appendix B.4; El Mhamdi et al., "The hidden vulnerability of
    distributed learning in Byzantium", ICML 2018, who pick n - 2f rows and average n - 4f.

    Printed: Krum is used n - 2f - 2 times, "each time discarding the highest-scoring gradient", which leaves the
    n - 2f - 2 lowest-scoring ones. But as many discards leave n - (n - 2f - 2) = 2f + 2 rows: 8 of 15 at f = 3, not 7.

    Implemented: each time the lowest-scoring row moves to P, so that P holds n - 2f - 2 rows in the end. The last of
    these calls of Krum has 2f + 3 rows, the fewest that it is defined for.

    Counterexample: how many of 15 rows are left after n - 2f - 2 discards, and how many are wanted.

    >>> import numpy as np
    >>> from dpml.byzantine import aggregation
    >>> left, wanted = (
    ...     np.random.default_rng(0).normal(size=(15, 4)),
    ...     15 - 2 * 3 - 2,
    ... )
    >>> for _ in range(wanted):
    ...     scores = aggregation.krum_scores(
    ...         left, n_byzantine=min(3, (len(left) - 3) // 2)
    ...     )
    ...     left = np.delete(left, scores.argmax(), axis=0)
    >>> len(left), wanted
    (8, 7)
    """
    sent = received(vectors, n_byzantine, slope=4, spare=3)
    chosen = [round_[0] for round_ in _rounds(distances(sent.rows), sent.n_byzantine)]
    return like(vectors, _near_the_median(sent.rows[chosen], sent.n_byzantine))


def bulyan_multi_krum(vectors: Any, *, n_byzantine: int) -> Any:
    """Return Bulyan [d] on Multi-Krum.

    As `bulyan`, but what a round with n' rows adds to P is the average of its n' - f - 2 rows of least score; the
    lowest-scoring row then leaves. Scores are computed anew among the rows that are left.

    Raises:
        ValueError: as `bulyan`.

    Source: El Mhamdi et al., "The hidden vulnerability of distributed learning in Byzantium", ICML 2018, for Bulyan on
    any rule; the public code of the Byzantine paper's authors, for Multi-Krum under it. (That code never refreshes the
    scores.)
    """
    sent = received(vectors, n_byzantine, slope=4, spare=3)
    f, n = sent.n_byzantine, len(sent.rows)
    weights = np.zeros((n - 2 * f - 2, n))
    for row, order in zip(weights, _rounds(distances(sent.rows), f), strict=True):
        best = order[: len(order) - f - 2]
        row[best] = 1.0 / len(best)
    return like(vectors, _near_the_median(mixed(sent.rows, weights), f))


def nearest_neighbour_mixing(vectors: Any, *, n_byzantine: int) -> Any:
    """Return rows [n, d] in which each is replaced by the average of the n - f nearest, itself included.

    Done before a rule it brings the honest rows closer together. In the place of a row that is not finite stands the
    average of the first n - f finite ones.

    Raises:
        ValueError: as `mda`.

    Source: Allouah et al., "Fixing by mixing: a recipe for optimal Byzantine ML under heterogeneity", AISTATS 2023.
    """
    sent = received(vectors, n_byzantine, slope=2, spare=1)
    kept = len(sent.rows) - sent.n_byzantine
    weights = np.zeros((len(vectors), len(sent.rows)))
    weights[:, :kept] = 1.0 / kept
    nearest = distances(sent.rows).argsort(axis=1, kind="stable")[:, :kept]
    for place, others in zip(sent.places, nearest, strict=True):
        weights[place] = 0.0
        weights[place, others] = 1.0 / kept
    return like(vectors, mixed(sent.rows, weights))


def _scores(squares: Matrix, f: int) -> Matrix:
    """The least distance of each row is that to itself, 0."""
    return np.asarray(np.sort(squares, axis=1)[:, 1 : len(squares) - f - 1].sum(axis=1))


def _by_score(squares: Matrix, f: int) -> NDArray[np.int64]:
    """The numbers of the rows; of equal scores the lowest first."""
    return _scores(squares, f).argsort(kind="stable")


def _rounds(squares: Matrix, f: int) -> list[list[int]]:
    """The rows that are left in each round of Bulyan, by increasing score; the first of them leaves."""
    left, rounds = list(range(len(squares))), []
    for _ in range(len(squares) - 2 * f - 2):
        rounds.append([left[at] for at in _by_score(squares[np.ix_(left, left)], f)])
        left.remove(rounds[-1][0])
    return rounds


def _mean(values: list[Rows]) -> Rows:
    part = 0.5 ** len(values).bit_length()  # exact; the sum itself may leave the floats
    total = values[0] * part
    for value in values[1:]:
        total += value * part
    total /= len(values) * part
    return total


def _middle(values: list[Rows]) -> Rows:
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2.0


def _near_the_median(rows: Rows, f: int) -> Rows:
    """The average of the values nearest to their median, all but 2 f: a run of the sorted values, the tightest."""
    xp: Any = torch_of(rows) or np

    def nearest(values: list[Rows]) -> Rows:
        middle, size = _middle(values), len(values) - 2 * f
        reach = [xp.maximum(middle - values[at], values[at + size - 1] - middle) for at in range(2 * f + 1)]
        tightest, start = reach[0], xp.zeros_like(reach[0])
        for at, far in enumerate(reach):
            start = xp.where(far < tightest, float(at), start)
            tightest = xp.minimum(tightest, far)
        inside = [xp.where((start <= at) & (at < start + size), value, 0.0) for at, value in enumerate(values)]
        return _mean(inside) * (len(values) / size)

    return per_coordinate(rows, nearest)
