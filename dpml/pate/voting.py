r"""The teachers vote, noise is added to the counts, and only the winner is told.

An ensemble of n teachers, trained on disjoint shards of the private records, labels one public input: $c_j$ teachers
vote for class j. Three ways to release a label:

.. math::

    \text{noisy argmax:}\quad & \arg\max_j\, (c_j + \mathrm{Lap}(b)) \\
    \text{GNMax:}\quad & \arg\max_j\, (c_j + N(0, \sigma^2)) \\
    \text{confident GNMax:}\quad & \text{GNMax if } \max_j c_j + N(0, \sigma_1^2) \ge T,
    \text{ and otherwise no answer}

Here `scale`, `sigma` and `threshold` are in votes, not over a sensitivity, and every noise that is written is drawn
afresh, independent of all others.

Neighbours. One record lies in one shard, so replacing it changes one teacher, and one vote moves from a class to
another: *two* counts change by one each. The same holds for a record added or removed, if the shard of a record is
decided by the record alone. The sensitivity of the counts is 2 in the L1 norm and $\sqrt 2$ in the L2 norm; that of the
largest count is 1.

Theorem. The noisy argmax is (2/b, 0)-differentially private, GNMax has the Rényi divergence $\alpha/\sigma^2$, and the
test of confident GNMax $\alpha/(2\sigma_1^2)$ besides.

Proof. The noisy counts are the Laplace or the Gaussian mechanism with those sensitivities. The winner is
post-processing of them, and so is the outcome of the test of the noisy largest count.

What many labels cost together is in `dpml.pate.student`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments
from dpml.pate import _argmax_law
from dpml.pate._counts import gaps, histograms

Array = NDArray[np.float64]

__all__ = [
    "UNANSWERED",
    "argmax_log_probabilities",
    "argmax_probabilities",
    "confident_gnmax",
    "gnmax",
    "noisy_argmax",
]

UNANSWERED = -1
"""What `confident_gnmax` returns in the place of a label where the test of the largest count fails."""


def noisy_argmax(counts: ArrayLike, *, scale: float, rng: np.random.Generator) -> int | NDArray[np.int64]:
    """Return the class with the largest count after Laplace noise of scale `scale`, in votes, on each count.

    `counts` is one histogram [classes], for which the result is an int, or many [queries, classes], for which it is
    an array [queries]; it is not changed. Each query is (2/scale, 0)-differentially private: one record moves one vote
    (`dpml.pate.laplace_votes.laplace_vote_epsilon` says why it is not 1/scale). Classes that tie win equally often.

    Raises:
        ValueError: if counts is not an array [classes] or [queries, classes] of whole numbers >= 0 with at least two
            classes, scale not in (0, inf), or rng not a Generator; nothing is drawn then.

    Source: the lecture, slide "PATE, per-query privacy of the teacher ensemble"; Papernot et al., "Semi-supervised
    knowledge transfer for deep learning from private training data", ICLR 2017, equation (1).
    """
    votes = histograms("counts", counts)
    scale = arguments.real("scale", scale, 0.0, low_open=True)
    return _winner(votes, scale, arguments.generator("rng", rng).laplace(size=votes.shape))


def gnmax(counts: ArrayLike, *, sigma: float, rng: np.random.Generator) -> int | NDArray[np.int64]:
    """Return the class with the largest count after Gaussian noise of standard deviation `sigma`, in votes, on each.

    Shapes as in `noisy_argmax`. Neighbours: one record moves one vote; the Rényi divergence of a query is at most
    order/sigma^2 (`dpml.pate.gaussian_votes`).

    Raises:
        ValueError: if counts is not an array [classes] or [queries, classes] of whole numbers >= 0 with at least two
            classes, sigma not in (0, inf), or rng not a Generator; nothing is drawn then.

    Source: Papernot et al., "Scalable private learning with PATE", ICLR 2018, section 4.1.
    """
    votes = histograms("counts", counts)
    sigma = arguments.real("sigma", sigma, 0.0, low_open=True)
    return _winner(votes, sigma, arguments.generator("rng", rng).normal(size=votes.shape))


def confident_gnmax(
    counts: ArrayLike, *, threshold: float, sigma_threshold: float, sigma: float, rng: np.random.Generator
) -> int | NDArray[np.int64]:
    """Return `gnmax` where the largest count plus noise reaches the threshold, and `UNANSWERED` = -1 elsewhere.

    `threshold`, and the standard deviations of the two noises, `sigma_threshold` for the test and `sigma` for the
    votes, are in votes. Shapes as in `noisy_argmax`. The test costs order/(2 sigma_threshold^2) for every query asked,
    answered or not; each answer costs order/sigma^2 more.

    Raises:
        ValueError: if counts is not an array [classes] or [queries, classes] of whole numbers >= 0 with at least two
            classes, threshold is not finite, sigma_threshold or sigma not in (0, inf), or rng not a Generator; nothing
            is drawn then.

    Source: Papernot et al., "Scalable private learning with PATE", ICLR 2018, Algorithm 1 (Confident-GNMax).
    """
    votes = histograms("counts", counts)
    threshold = arguments.real("threshold", threshold)
    sigma_threshold = arguments.real("sigma_threshold", sigma_threshold, 0.0, low_open=True)
    sigma = arguments.real("sigma", sigma, 0.0, low_open=True)
    rng = arguments.generator("rng", rng)
    noise = rng.normal(size=votes.shape[:-1])
    with np.errstate(over="ignore", under="ignore"):
        sure = (votes.max(axis=-1) - threshold) / sigma_threshold + noise >= 0.0
    winner = _winner(votes, sigma, rng.normal(size=votes.shape))
    if votes.ndim == 1:
        return int(winner) if sure else UNANSWERED
    return np.where(sure, winner, UNANSWERED)


def argmax_probabilities(counts: ArrayLike, *, scale: float) -> Array:
    r"""Return the probability that each class wins `noisy_argmax`, in the shape of `counts`.

    Exact up to rounding, about 1e-13 relative also for probabilities of 1e-300; below the range of floats they are 0.
    Nothing is simulated. `scale` is in votes.

    Raises:
        ValueError: if counts is not an array [classes] or [queries, classes] of whole numbers >= 0 with at least two
            classes, scale not in (0, inf), or counts over scale exceed the range of floats.

    Source: the lecture, slide "PATE, per-query privacy of the teacher ensemble", the law of its noisy argmax; for two
    classes Papernot et al., "Semi-supervised knowledge transfer for deep learning from private training data", ICLR
    2017, proof of Lemma 4.
    """
    with np.errstate(under="ignore"):
        return np.exp(argmax_log_probabilities(counts, scale=scale))


def argmax_log_probabilities(counts: ArrayLike, *, scale: float) -> Array:
    """Return the logarithms of `argmax_probabilities`, which do not underflow: privacy losses are their differences.

    Raises:
        ValueError: as `argmax_probabilities`.

    Source: as `argmax_probabilities`.
    """
    votes = histograms("counts", counts)
    scale = arguments.real("scale", scale, 0.0, low_open=True)
    table = np.atleast_2d(votes)
    if table.size == 0:
        return np.zeros(votes.shape)
    order = np.argsort(table, axis=1, kind="stable")
    ascending, which = np.unique(np.take_along_axis(table, order, axis=1), axis=0, return_inverse=True)
    with np.errstate(over="ignore", under="ignore"):
        units = arguments.finite("scale", scale, (ascending - ascending[:, -1:]) / scale, "counts / scale")
    sorted_result = _argmax_law.log_law(units)[which.reshape(-1)]
    result = np.empty_like(table)
    np.put_along_axis(result, order, sorted_result, axis=1)
    return result.reshape(votes.shape)


def _winner(votes: NDArray[np.float64], size: float, standard_noise: Array) -> int | NDArray[np.int64]:
    """The class with the largest c_j/size + noise. Votes are taken relative to the leader: then the leader's noise is
    not rounded away beside its count, and a tie is decided by the noise alone however small the noise is."""
    with np.errstate(over="ignore", under="ignore"):  # a class that is hopelessly far behind gets minus infinity
        place = standard_noise - gaps(votes) / size
    winner = place.argmax(axis=-1)
    return int(winner) if votes.ndim == 1 else winner.astype(np.int64)
