r"""The geometric median from products alone: weights of the rows whose average minimises the sum of distances.

The minimum lies in the convex hull, so n rows in $\mathbb{R}^d$ may be replaced by n points in $\mathbb{R}^n$ at the
same distances. With the row of the least median distance as the origin, and G the products of the others, the points
are the rows of a square root of G, taken after G has been scaled to a unit diagonal, so that a row far away costs the
others no digits.

A row is the minimum exactly if the unit vectors from it to the other rows add up to at most the number of rows that lie
there. If none is, then the sum of distances is smooth at the minimum. A step is Newton's where it halves the gradient;
otherwise the best of shorter ones, of some against the gradient, and of Weiszfeld's (average the rows with weights
1/distance). What a step gains is added up from what it gains at each row, as a row far away would hide it in the sum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
STEPS = 1000  # some 30 at most were ever needed
LENGTHS = (1.0, 0.3, 0.1, 0.01, 1e-4, 1e-6)
SMALL = 1e-14


@np.errstate(under="ignore")
def weights(squares: Matrix, products: Matrix) -> Matrix:
    """The weights, not negative and of sum 1, all on one row where the minimum is a row.

    From the squared distances, and the products of the rows as seen from the row `origin(squares)`.
    """
    n, apart, points = len(squares), np.sqrt(squares), _points(products)
    spread = float(np.median(apart, axis=1).min())
    inverse = np.divide(1.0, apart, out=np.zeros_like(apart), where=apart > 0.0)
    lengths, total = np.linalg.norm(points, axis=1), inverse.sum(axis=1)
    pulls = inverse @ points - total[:, None] * points  # sums of unit vectors, from each row
    excess = np.linalg.norm(pulls, axis=1) - (n - (apart > 0.0).sum(axis=1))
    start = int((excess - SMALL * (n + inverse @ lengths + total * lengths)).argmin())
    if excess[start] <= SMALL * (n + inverse[start] @ lengths + total[start] * lengths[start]):
        return np.asarray(np.eye(n)[start])
    # the first step of Vardi and Zhang, away from a row that is not the minimum
    at = points[start] + excess[start] / float(np.linalg.norm(pulls[start])) * pulls[start] / total[start]
    for _ in range(STEPS):
        gradient, hessian, share = _slope(points, at)
        size = float(np.linalg.norm(gradient))
        if size <= n * SMALL:
            break
        newton = np.linalg.lstsq(hessian, gradient, rcond=1e-13)[0]
        if float(np.linalg.norm(_slope(points, at - newton)[0])) < 0.5 * size:
            at = at - newton
            continue
        tries = [share @ points, *(at - length * newton for length in LENGTHS)]
        tries += [at - spread * length / size * gradient for length in LENGTHS]
        gains = [_gain(points, at, to) for to in tries]
        if max(gains) <= 0.0:  # as good as rounding allows
            break
        at = tries[int(np.argmax(gains))]
    return _slope(points, at)[2]


def origin(squares: Matrix) -> int:
    """The row of the least median distance: under half of the rows cannot make it a far one."""
    return int(np.median(squares, axis=1).argmin())


def _points(products: Matrix) -> Matrix:
    lengths = np.sqrt(np.diag(products))
    scale = np.where(lengths > 0.0, lengths, 1.0)
    values, axes = np.linalg.eigh(products / scale[:, None] / scale)
    return np.asarray(lengths[:, None] * axes * np.sqrt(np.maximum(values, 0.0)))


def _slope(points: Matrix, at: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """Gradient and second derivative of the sum of distances, and the weights 1/distance, of sum 1."""
    away = at - points
    lengths = np.maximum(np.linalg.norm(away, axis=1), np.finfo(np.float64).tiny)
    units, inverse = away / lengths[:, None], 1.0 / lengths
    hessian = inverse.sum() * np.eye(len(at)) - (units * inverse[:, None]).T @ units
    return units.sum(axis=0), hessian, inverse / inverse.sum()


def _gain(points: Matrix, at: Matrix, to: Matrix) -> float:
    """By how much the sum of distances falls: for each row (|a|^2 - |b|^2) / (|a| + |b|)."""
    lengths = np.linalg.norm(points - at, axis=1) + np.linalg.norm(points - to, axis=1)
    return float((((2.0 * points - at - to) @ (to - at)) / np.maximum(lengths, np.finfo(np.float64).tiny)).sum())
