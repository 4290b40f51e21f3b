r"""The geometric median from distances alone: weights of the rows whose average minimises the sum of distances.

The minimum lies in the convex hull, so n rows in $\mathbb{R}^d$ may be replaced by n points in $\mathbb{R}^n$ at the
same distances. With the row of the least sum of distances as the origin, and G the products of the others,
$G_{ij} = (D_{0i} + D_{0j} - D_{ij})/2$, the points are the rows of a square root of G, taken after G has been scaled
to a unit diagonal, so that a row far away costs the others no digits.

If the minimum is one of the rows then it is the origin; this is so exactly if the unit vectors to the other rows add
up to at most the number of rows that lie there. Else the sum of distances is smooth at the minimum, and a step is
Newton's where it halves the gradient, Weiszfeld's otherwise (average the rows with weights 1/distance).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
STEPS = 10_000
SMALL = 1e-14


@np.errstate(under="ignore")
def weights(squares: Matrix) -> Matrix:
    """The weights, not negative and of sum 1; all on one row where the minimum is a row."""
    n = len(squares)
    apart = np.sqrt(squares)
    origin = int(apart.sum(axis=1).argmin())
    points = _points(squares, origin)
    there = apart[origin] == 0.0
    directions = points[~there] / apart[origin][~there, None]
    pull = directions.sum(axis=0)
    force = float(np.linalg.norm(pull))
    single = np.zeros(n)
    single[origin] = 1.0
    if force <= there.sum() + n * SMALL:
        return single
    # the first step of Vardi and Zhang, away from a row that is not the minimum
    inverse = 1.0 / apart[origin][~there]
    at = (1.0 - there.sum() / force) * pull / inverse.sum()
    for _ in range(STEPS):
        gradient, hessian, share = _slope(points, at)
        size = float(np.linalg.norm(gradient))
        if size <= n * SMALL:
            break
        newton = at - np.linalg.lstsq(hessian, gradient, rcond=1e-13)[0]
        after = _slope(points, newton)
        better = float(np.linalg.norm(after[0])) < 0.5 * size
        moved = newton if better else share @ points
        if not better and np.linalg.norm(moved - at) <= SMALL * np.linalg.norm(at):
            break
        at = moved
    return _slope(points, at)[2]


def _points(squares: Matrix, origin: int) -> Matrix:
    lengths = np.sqrt(squares[origin])
    scale = np.where(lengths > 0.0, lengths, 1.0)
    products = (squares[origin][:, None] + squares[origin] - squares) / 2.0 / scale[:, None] / scale
    values, axes = np.linalg.eigh(products)
    return np.asarray(lengths[:, None] * axes * np.sqrt(np.maximum(values, 0.0)))


def _slope(points: Matrix, at: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """Gradient and second derivative of the sum of distances, and the weights 1/distance, of sum 1."""
    away = at - points
    lengths = np.linalg.norm(away, axis=1)
    lengths = np.maximum(lengths, np.finfo(np.float64).tiny)
    units = away / lengths[:, None]
    inverse = 1.0 / lengths
    hessian = inverse.sum() * np.eye(len(at)) - (units * inverse[:, None]).T @ units
    return units.sum(axis=0), hessian, inverse / inverse.sum()
