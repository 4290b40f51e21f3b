r"""Lower bounds on epsilon from samples.

Run a mechanism many times on D and many times on a neighbour D', and let a fixed test guess each time which it was.
Let alpha be its false positive rate (it says D, but the data were D') and beta its false negative rate.
$(\varepsilon, \delta)$-privacy limits both, by its definition for the event "the test says D" and, with D and D'
exchanged, for the complement:

.. math::

    1 - \beta \le e^\varepsilon \alpha + \delta, \qquad 1 - \alpha \le e^\varepsilon \beta + \delta .

Theorem. Let $\bar\alpha$ and $\bar\beta$ be upper confidence limits, each wrong with probability at most $\eta/2$. Then
with probability at least $1 - \eta$ the mechanism's true epsilon (at this delta, for this pair) is at least

.. math::

    \max\Bigl(0,\ \log\frac{1 - \bar\beta - \delta}{\bar\alpha},\ \log\frac{1 - \bar\alpha - \delta}{\bar\beta}\Bigr).

Proof. With probability at least $1 - \eta$ both limits hold (union bound). Then
$1 - \bar\beta \le 1 - \beta \le e^\varepsilon\alpha + \delta \le e^\varepsilon\bar\alpha + \delta$, which is the first
bound, and the second is the mirror image. No further share of $\eta$ is spent on taking the larger one, since both
follow from the same two limits.

The limits are those of Clopper and Pearson: exact for every number of samples. They are above 0 for a finite number of
samples, so the bound is always finite: with N runs on each side nothing above about log(N / log(2/eta)) can be shown,
however bad the mechanism is.

What it needs: independent runs, and a test that was fixed before these runs were seen. A bound above a claimed epsilon
refutes the claim; a bound below it proves nothing. The neighbouring relation is whatever D and D' are.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainccinv, betaincinv, betaln

from dpml import arguments

__all__ = [
    "Evidence",
    "clopper_pearson",
    "epsilon_lower_bound",
    "epsilon_lower_bound_from_scores",
    "lower_limit",
    "upper_limit",
]

Bound = Callable[[Any, Any], Any]
"""From upper limits of the error rates, beta (misses) and alpha (false alarms), or arrays, to what they prove."""

_LEAST_ALARM = 1e-250  # so that no limit leaves the range of floats
_MOST_THRESHOLDS = 1000  # candidates tried on the quarter; more would only slow the search down


class Evidence(NamedTuple):
    """With probability `confidence` over the runs, the true epsilon at `delta` is at least `epsilon_at_least`.

    The four counts are the evidence itself: of `positives` runs on D the test called `true_positives` "D", and of
    `negatives` runs on D' it called `false_positives` "D".

    Source: the theorem at the head of this module.
    """

    epsilon_at_least: float
    delta: float
    confidence: float
    true_positives: int
    positives: int
    false_positives: int
    negatives: int


def lower_limit(successes: ArrayLike, *, trials: int, alarm: float) -> NDArray[np.float64]:
    """Return an exact limit that the success probability lies below with probability at most `alarm`.

    One-sided, for each of the counts `successes`, in their shape; 0 where nothing succeeded. Exact for every number of
    trials and every true probability.

    Raises:
        ValueError: if trials is not an integer in [1, 2^53], successes not whole numbers in [0, trials], or alarm not
            in [1e-250, 1).

    Source: C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits", Biometrika 26 (1934).
    """
    k, trials, alarm = _counted(successes, trials, alarm)
    at = np.maximum(k, 1.0)
    return np.where(k > 0.0, np.fmax(betaincinv(at, trials - at + 1.0, alarm), _by_union(at, trials, alarm)), 0.0)[()]


def upper_limit(successes: ArrayLike, *, trials: int, alarm: float) -> NDArray[np.float64]:
    """Return an exact limit that the success probability lies above with probability at most `alarm`: above 0.

    As `lower_limit`; 1 where every trial succeeded.

    Raises:
        ValueError: as `lower_limit`.

    Source: as `lower_limit`.
    """
    k, trials, alarm = _counted(successes, trials, alarm)
    some_failed = np.minimum(k, trials - 1.0)
    found = betainccinv(some_failed + 1.0, trials - some_failed, alarm)
    return np.where(k < trials, np.fmin(found, 1.0 - _by_union(trials - some_failed, trials, alarm)), 1.0)[()]


def clopper_pearson(successes: ArrayLike, *, trials: int, confidence: float) -> tuple[Any, Any]:
    """Return the exact two-sided confidence interval (low, high) of a success probability, for each of the counts.

    Each side is wrong with probability at most (1 - confidence)/2, so the interval with at most 1 - confidence,
    for every number of trials and every true probability.

    Raises:
        ValueError: if trials is not an integer in [1, 2^53], successes not whole numbers in [0, trials], or confidence
            not in (0, 1).

    Source: as `lower_limit`.
    """
    confidence = arguments.real("confidence", confidence, 0.0, 1.0, low_open=True, high_open=True)
    alarm = (1.0 - confidence) / 2.0
    return lower_limit(successes, trials=trials, alarm=alarm), upper_limit(successes, trials=trials, alarm=alarm)


def epsilon_lower_bound(
    *,
    true_positives: int,
    positives: int,
    false_positives: int,
    negatives: int,
    delta: float,
    confidence: float,
) -> Evidence:
    """Return how large epsilon must be at least, with probability `confidence` over the runs.

    Each of the two error rates gets an exact one-sided upper limit that is wrong with probability at most
    (1 - confidence)/2; both directions of the definition of privacy are then used. Never negative and never infinite
    (see the head of this module). A test that guesses worse than a coin gives 0: exchange its answers, before looking
    at the counts. The neighbouring relation is that of the two datasets.

    Raises:
        ValueError: if positives or negatives is not an integer in [1, 2^53], true_positives not one in [0, positives],
            false_positives not one in [0, negatives], delta not in [0, 1] or confidence not in (0, 1).

    Source: M. Jagielski, J. Ullman and A. Oprea, "Auditing differentially private machine learning", NeurIPS 2020,
    here with delta and in both directions; the proof is at the head of this module.
    """
    positives = arguments.integer("positives", positives, 1, 2**53)
    negatives = arguments.integer("negatives", negatives, 1, 2**53)
    true_positives = arguments.integer("true_positives", true_positives, 0, positives)
    false_positives = arguments.integer("false_positives", false_positives, 0, negatives)
    delta = arguments.probability("delta", delta)
    confidence = arguments.real("confidence", confidence, 0.0, 1.0, low_open=True, high_open=True)
    limits = _limits(positives - true_positives, positives, false_positives, negatives, confidence)
    bound = float(_bound(*limits, delta=delta))
    return Evidence(bound, delta, confidence, true_positives, positives, false_positives, negatives)


def epsilon_lower_bound_from_scores(
    scores: ArrayLike,
    *,
    scores_neighbour: ArrayLike,
    delta: float,
    confidence: float,
    rng: np.random.Generator,
) -> Evidence:
    """Return how large epsilon must be at least, from one score per run: `scores` on D, `scores_neighbour` on D'.

    The test is "score >= threshold" or "score < threshold". Threshold and direction are chosen on a random quarter of
    the runs, where they give the largest bound; the result is computed on the other runs alone, for which the test is
    fixed. So the confidence is honest, which it would not be on the same runs. `rng` splits the runs.

    Raises:
        ValueError: if scores or scores_neighbour is not a one-dimensional array of at least two finite numbers,
            delta is not in [0, 1], confidence not in (0, 1) or rng not a Generator.

    Source: as `epsilon_lower_bound`; sample splitting.
    """
    delta = arguments.probability("delta", delta)
    bound = functools.partial(_bound, delta=delta)
    at_least, counts = best_test(scores, scores_neighbour=scores_neighbour, bound=bound, confidence=confidence, rng=rng)
    return Evidence(at_least, delta, float(confidence), *counts)


def best_test(
    scores: ArrayLike,
    *,
    scores_neighbour: ArrayLike,
    bound: Bound,
    confidence: float,
    rng: np.random.Generator,
) -> tuple[float, tuple[int, int, int, int]]:
    """Choose a threshold and a direction on a random quarter of the runs; return what is proved by the others.

    The choice makes `bound` as large as it can. Returned are the bound and the four counts of `Evidence`, of runs that
    had no part in the choice.

    Raises:
        ValueError: if scores or scores_neighbour is not a one-dimensional array of at least two finite numbers,
            confidence not in (0, 1) or rng not a Generator.

    Source: sample splitting.
    """
    on_d = arguments.array("scores", scores, ndim=1, min_size=2)
    on_neighbour = arguments.array("scores_neighbour", scores_neighbour, ndim=1, min_size=2)
    confidence = arguments.real("confidence", confidence, 0.0, 1.0, low_open=True, high_open=True)
    rng = arguments.generator("rng", rng)
    on_d, on_neighbour = rng.permutation(on_d), rng.permutation(on_neighbour)
    some_d, some_neighbour = max(1, on_d.size // 4), max(1, on_neighbour.size // 4)
    threshold, above = _best_test(on_d[:some_d], on_neighbour[:some_neighbour], bound, confidence)
    on_d, on_neighbour = on_d[some_d:], on_neighbour[some_neighbour:]
    misses = int(np.count_nonzero((on_d >= threshold) != above))
    false_alarms = int(np.count_nonzero((on_neighbour >= threshold) == above))
    limits = _limits(misses, on_d.size, false_alarms, on_neighbour.size, confidence)
    return float(bound(*limits)), (on_d.size - misses, on_d.size, false_alarms, on_neighbour.size)


def _best_test(
    on_d: NDArray[np.float64], on_neighbour: NDArray[np.float64], bound: Bound, confidence: float
) -> tuple[float, bool]:
    """The threshold, and whether "D" is said at or above it, with the largest bound on these runs."""
    thresholds = np.unique(np.concatenate([on_d, on_neighbour]))
    if thresholds.size > _MOST_THRESHOLDS:
        thresholds = thresholds[np.linspace(0, thresholds.size - 1, _MOST_THRESHOLDS).astype(np.intp)]
    below_d = np.searchsorted(np.sort(on_d), thresholds)  # how many scores are < threshold
    below_neighbour = np.searchsorted(np.sort(on_neighbour), thresholds)
    n_d, n_neighbour = on_d.size, on_neighbour.size
    said_above = bound(*_limits(below_d, n_d, n_neighbour - below_neighbour, n_neighbour, confidence))
    said_below = bound(*_limits(n_d - below_d, n_d, below_neighbour, n_neighbour, confidence))
    above = bool(said_above.max() >= said_below.max())
    return float(thresholds[int(np.argmax(said_above if above else said_below))]), above


def _limits(misses: Any, positives: int, false_alarms: Any, negatives: int, confidence: float) -> tuple[Any, Any]:
    """Upper limits of both error rates, beta and alpha, that hold at once."""
    alarm = (1.0 - confidence) / 2.0
    return upper_limit(misses, trials=positives, alarm=alarm), upper_limit(false_alarms, trials=negatives, alarm=alarm)


def _bound(beta: Any, alpha: Any, *, delta: float) -> NDArray[np.float64]:
    """The bound of the theorem."""
    first = np.log(np.maximum(1.0 - beta - delta, math.ulp(0.0))) - np.log(alpha)
    second = np.log(np.maximum(1.0 - alpha - delta, math.ulp(0.0))) - np.log(beta)
    bound: NDArray[np.float64] = np.maximum(0.0, np.maximum(first, second))
    return bound


def _by_union(k: NDArray[np.float64], n: int, alarm: float) -> NDArray[np.float64]:
    """A lower limit at k > 0 successes, as C(n, k) p^k bounds their chance: good where SciPy has NaN or far too little.

    These are alarms below 1e-100 or so, at a p that is nothing beside 1/n.
    """
    return np.asarray(np.exp((math.log(alarm) + np.log(k) + betaln(k, n - k + 1.0)) / k) * (1.0 - 1e-12), np.float64)


def _counted(successes: ArrayLike, trials: int, alarm: float) -> tuple[NDArray[np.float64], int, float]:
    trials = arguments.integer("trials", trials, 1, 2**53)
    k = arguments.whole_numbers("successes", successes, high=trials)
    return k, trials, arguments.real("alarm", alarm, _LEAST_ALARM, 1.0, high_open=True)
