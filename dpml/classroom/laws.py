r"""The distribution of what a mechanism returns: as probabilities, to compare answers with, and to draw from.

An output that is one number or one label has a `Law`. An output that is an array has a list of them, one for each
coordinate, and the coordinates are independent. `checks.law` compares an answer with such laws::

    def law(values, *, epsilon, noise=1.0):
        return laws.laplace(
            np.mean(values), noise / (len(values) * epsilon)
        )
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

__all__ = ["Law", "certain", "discrete", "each", "labels", "laplace", "mixture", "normal", "sampled", "uniform"]

Cells = NDArray[np.float64] | tuple[Any, ...]  # the edges of intervals, or labels; one more cell holds all the rest

_DRAWS = 20_000  # of a law that is known by its draws alone


class Law(NamedTuple):
    """The distribution of one output: `cdf` for numbers, `outcomes` for labels, both for numbers that are labels."""

    draw: Callable[[np.random.Generator, int], Sequence[Any] | NDArray[Any]]  # so many independent outputs
    cdf: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None
    outcomes: Mapping[Any, float] | None = None


def laplace(center: float, scale: float) -> Law:
    """Laplace noise of a scale above 0 around `center`."""

    def cdf(y: NDArray[np.float64]) -> NDArray[np.float64]:
        z = (y - center) / scale
        tail = np.exp(-np.abs(z)) / 2
        return np.where(z > 0, 1 - tail, tail)

    return Law(lambda rng, size: rng.laplace(center, scale, size), cdf)


def normal(center: float, deviation: float) -> Law:
    """Gaussian noise of a standard deviation above 0 around `center`."""
    return Law(
        lambda rng, size: rng.normal(center, deviation, size), lambda y: np.asarray(ndtr((y - center) / deviation))
    )


def uniform(low: float, high: float) -> Law:
    """Any number from low to high, all equally likely."""
    return Law(lambda rng, size: rng.uniform(low, high, size), lambda y: np.clip((y - low) / (high - low), 0, 1))


def discrete(outcomes: Mapping[Any, float]) -> Law:
    """Labels (numbers, text, None, tuples) with their probabilities.

    Raises:
        ValueError: if the probabilities are not at least 0 and of sum one.
    """
    labels, chances = list(outcomes), np.array(list(outcomes.values()), dtype=float)
    if not ((chances >= 0).all() and math.isclose(chances.sum(), 1, abs_tol=1e-9)):
        raise ValueError(f"outcomes must have probabilities that add up to one, got {dict(outcomes)}")
    steps = np.cumsum(chances)[:-1]

    def draw(rng: np.random.Generator, size: int) -> list[Any]:
        return [labels[i] for i in np.searchsorted(steps, rng.random(size), side="right")]

    def cdf(y: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((np.array(labels, dtype=float) <= y[:, None]) @ chances)

    numeric = all(isinstance(label, (int, float, np.number)) for label in labels)
    return Law(draw, cdf if numeric else None, dict(zip(labels, chances.tolist(), strict=True)))


def labels(chances: ArrayLike) -> Law:
    """The labels 0, 1, ... with these probabilities."""
    return discrete(dict(enumerate(np.asarray(chances, dtype=float).tolist())))


def each(values: Sequence[Any] | NDArray[Any], law: Callable[[Any], Law]) -> list[Law]:
    """The laws of independent coordinates, from the value of each; equal values share theirs, computed once."""
    known = {value: law(value) for value in set(np.asarray(values).tolist())}
    return [known[value] for value in np.asarray(values).tolist()]


def certain(outcome: Any) -> Law:
    """Always the same outcome: no noise."""
    return discrete({outcome: 1.0})


def mixture(weights: ArrayLike, parts: Sequence[Law]) -> Law:
    """Each part with the probability of its weight; the parts are all numbers, or all labels."""
    chances = np.asarray(weights, dtype=float)
    tables = [part.outcomes for part in parts if part.outcomes is not None]
    if len(tables) == len(parts):
        labels = dict.fromkeys(label for table in tables for label in table)
        return discrete({k: sum(p * t.get(k, 0.0) for p, t in zip(chances, tables, strict=True)) for k in labels})
    steps, cdfs = np.cumsum(chances)[:-1], [part.cdf for part in parts if part.cdf is not None]

    def draw(rng: np.random.Generator, size: int) -> list[Any]:
        return [parts[i].draw(rng, 1)[0] for i in np.searchsorted(steps, rng.random(size), side="right")]

    return Law(draw, lambda y: np.asarray(sum(p * cdf(y) for p, cdf in zip(chances, cdfs, strict=True))))


def sampled(draw: Callable[[np.random.Generator, int], Sequence[Any] | NDArray[Any]]) -> Law:
    """A law that is known by how it is drawn: for a wrong one without a closed form."""
    drawn = draw(np.random.default_rng(1), _DRAWS)
    values = np.sort(np.asarray(drawn, dtype=float))
    return Law(draw, lambda y: np.searchsorted(values, y, side="right") / len(values))


def cells(law: Law, *, number: int, within: tuple[float, float]) -> Cells:
    """Where the outputs are counted: at each label, or between about `number` quantiles inside `within`."""
    if law.outcomes is not None:
        return tuple(law.outcomes)
    drawn = np.asarray(law.draw(np.random.default_rng(2), 64 * number), dtype=float)
    tails = np.array([1 / (8 * number), 1 / (3 * number)])  # far out they tell one kind of noise from another
    edges = np.unique(np.quantile(drawn, np.concatenate([np.arange(1, number) / number, tails, 1 - tails])))
    return edges[(edges > within[0]) & (edges < within[1])]


def shares(law: Law, where: Cells) -> NDArray[np.float64]:
    """The probability of each cell; the last one is that of whatever is beyond the labels or the largest edge."""
    if isinstance(where, tuple):
        inside = np.array([(law.outcomes or {}).get(label, 0.0) for label in where])
        return np.append(inside, max(0.0, 1 - inside.sum()) if abs(1 - inside.sum()) > 1e-9 else 0.0)
    if law.cdf is None:
        return np.append(np.zeros(len(where)), 1.0)
    return np.maximum(np.diff(law.cdf(where), prepend=0.0, append=1.0), 0.0)


def possible(law: Law, values: Sequence[Any]) -> bool:
    """Whether a law of labels that are numbers has all these values among them; every other law may."""
    if law.outcomes is None or law.cdf is None:
        return True
    labels = np.array(list(law.outcomes), dtype=float)
    return bool(np.isclose(np.asarray(values, dtype=float)[:, None], labels).any(axis=1).all())


def repeats(law: Law) -> bool:
    """Whether values of a law come again."""
    drawn = list(law.draw(np.random.default_rng(2), 1000))
    return len(set(drawn)) < len(drawn)


def places(values: Sequence[Any] | NDArray[Any], where: Cells) -> NDArray[np.int64]:
    """The cell of each value."""
    if isinstance(where, tuple):
        place = {label: i for i, label in enumerate(where)}
        return np.array([place.get(value, len(where)) for value in values], dtype=np.int64)
    return np.searchsorted(where, np.asarray(values, dtype=float))
