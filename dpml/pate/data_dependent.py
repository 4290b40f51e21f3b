r"""What the student costs, given the votes that were cast: smaller, and private information itself.

The bounds of `dpml.pate.laplace_votes` and `dpml.pate.gaussian_votes` for the votes of each query add up at each order,
and the best order gives epsilon.

Theorem. Let the questions be fixed beforehand, and let the votes be those of all of them. For the dataset D behind the
votes, every neighbour D', and every event E,

.. math::

    P(M(D) \in E) \le e^\varepsilon P(M(D') \in E) + \delta .

Proof. The moments bound the loss of outputs drawn under D; composition and the tail bound of
`dpml.accounting.moments` keep to that direction.

Questions that depend on earlier labels are not covered: composition needs a bound on every path of outcomes, and the
votes of the questions that happened to be asked are those of one path. So it is with asking that stops early: count
every question up to the limit.

That is less than differential privacy, which says it for all D: here epsilon is a function of the votes, and a
neighbour has another one. To publish it may betray a record. So the results are a `DataDependent`, not a `Guarantee`.
`dpml.pate.publish_cost` publishes such a number privately.

Neighbours throughout: one replaced record, which moves one vote in every query.
"""

from __future__ import annotations

import math
import reprlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpml import arguments
from dpml.accounting import orders
from dpml.accounting.guarantee import Guarantee
from dpml.pate._counts import histograms
from dpml.pate.gaussian_votes import confident_rdp_data_dependent, gnmax_rdp_data_dependent
from dpml.pate.laplace_votes import laplace_moment_data_dependent
from dpml.pate.student import confident_student, gnmax_student, laplace_student

Array = NDArray[np.float64]

__all__ = [
    "DataDependent",
    "confident_student_data_dependent",
    "gnmax_student_data_dependent",
    "laplace_student_data_dependent",
]

_STATEMENT = (
    "It holds for outputs drawn from these votes only. The number is computed from the private votes, so it is itself "
    "private information: do not publish it, nor anything chosen by it."
)


@dataclass(frozen=True)
class DataDependent:
    """A privacy number that holds for the data it was computed from, and that is itself private.

    `guarantee` has the numbers and their labels. As text it says besides what is missing for a promise.

    Raises:
        ValueError: if guarantee is not a `Guarantee`.

    Source: Papernot et al., "Scalable private learning with PATE", ICLR 2018, section 3 and appendix B, on
    data-dependent privacy.
    """

    guarantee: Guarantee

    def __post_init__(self) -> None:
        if not isinstance(self.guarantee, Guarantee):
            raise ValueError(f"guarantee must be a Guarantee, got {reprlib.repr(self.guarantee)}")

    @property
    def epsilon(self) -> float:
        """The epsilon of these votes."""
        return self.guarantee.epsilon

    def __str__(self) -> str:
        return f"For these votes {str(self.guarantee)[:-1]}. {_STATEMENT}"


def laplace_student_data_dependent(counts: ArrayLike, *, scale: float, delta: float) -> DataDependent:
    """Return what the labels of exactly these votes cost by `noisy_argmax`; private information, see `DataDependent`.

    Never above `laplace_student`.

    Raises:
        ValueError: if counts is not an array [classes] or [queries, classes] of whole numbers >= 0 with at least two
            classes, scale not in (0, inf), delta not in [0, 1], or the result exceeds the range of floats.

    Source: Papernot et al., "Semi-supervised knowledge transfer for deep learning from private training data", ICLR
    2017, Theorem 3 and section 3.3.
    """
    votes, times, queries = _tally(counts)
    worst = laplace_student(queries=queries, scale=scale, delta=delta)

    return _best(lambda lam: times @ laplace_moment_data_dependent(votes, lam=lam, scale=scale), worst)


def gnmax_student_data_dependent(counts: ArrayLike, *, sigma: float, delta: float) -> DataDependent:
    """Return what the labels of exactly these votes cost by `gnmax`; private information, see `DataDependent`.

    Never above `gnmax_student`.

    Raises:
        ValueError: if counts is not an array [classes] or [queries, classes] of whole numbers >= 0 with at least two
            classes, sigma not in (0, inf), delta not in [0, 1], or the result exceeds the range of floats.

    Source: Papernot et al., "Scalable private learning with PATE", ICLR 2018, Theorem 6 and Proposition 10.
    """
    votes, times, queries = _tally(counts)
    worst = gnmax_student(queries=queries, sigma=sigma, delta=delta)
    return _best(lambda lam: lam * (times @ gnmax_rdp_data_dependent(votes, order=1.0 + lam, sigma=sigma)), worst)


def confident_student_data_dependent(
    counts: ArrayLike, *, threshold: float, sigma_threshold: float, sigma: float, delta: float
) -> DataDependent:
    """Return what asking exactly these votes costs by `confident_gnmax`; private information, see `DataDependent`.

    `counts` holds the votes of every question that was to be asked, up to the limit, answered or not: where the asking
    stopped is an outcome. Never above `confident_student` with all of them
    answered.

    Raises:
        ValueError: if counts is not an array [classes] or [queries, classes] of whole numbers >= 0 with at least two
            classes, threshold is not finite, sigma_threshold or sigma not in (0, inf), delta not in [0, 1], or the
            result exceeds the range of floats.

    Source: Papernot et al., "Scalable private learning with PATE", ICLR 2018, Theorem 6 and section 4.2.
    """
    votes, times, queries = _tally(counts)
    threshold = arguments.real("threshold", threshold)
    worst = confident_student(
        asked=queries, answered=queries, sigma_threshold=sigma_threshold, sigma=sigma, delta=delta
    )
    of = {"threshold": threshold, "sigma_threshold": sigma_threshold, "sigma": sigma}
    return _best(lambda lam: lam * (times @ confident_rdp_data_dependent(votes, order=1.0 + lam, **of)), worst)


def _tally(counts: ArrayLike) -> tuple[Array, Array, int]:
    """The different histograms, up to the names of the classes, how often each occurs, and their number."""
    votes = np.atleast_2d(histograms("counts", counts))
    if not len(votes):
        return votes, np.zeros(0), 0
    different, times = np.unique(np.sort(votes, axis=1), axis=0, return_counts=True)
    return different, times.astype(np.float64), len(votes)


def _best(moment: orders.Moment, worst: Guarantee) -> DataDependent:
    """The best order of the moments, unless the bound for any votes is smaller: it holds for these as well."""
    if worst.delta in {0.0, 1.0} or worst.epsilon == 0.0:
        return DataDependent(worst)
    slack = -math.log(worst.delta)
    near, far = math.sqrt(2.0 * slack), math.sqrt(2.0 * (slack + worst.epsilon))
    guess = near / min(max(far - near, 1e-12), 1e12)  # the best order of the Gaussian mechanism with this epsilon
    value, lam = orders.best(moment, 1.0, slack, guess=guess)
    if not value < worst.epsilon:
        return DataDependent(worst)
    return DataDependent(
        Guarantee(value, delta=worst.delta, kind="upper bound", adjacency=worst.adjacency, order=lam + 1.0)
    )
