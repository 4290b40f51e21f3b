r"""Rows that workers sent, as NumPy arrays or torch tensors: checked, mixed, sorted, and their distances.

Torch is not imported here: a tensor can only come from a program that has imported it.

Distances. With rows centred on the first one, $a_i = x_i - x_1$, in float64,
$\|x_i - x_j\|^2 = \|a_i\|^2 + \|a_j\|^2 - 2 \langle a_i, a_j \rangle$ is one product of matrices. Where the right side
is below a thousandth of $\|a_i\|^2 + \|a_j\|^2$ it loses digits, up to the sign, and the differences of the two rows
are squared and added up instead. So each distance has a relative error of at most some 1e-12, whatever part the rows
share and whatever one of them sends. Equal rows have equal distances, to the last bit. (Squares below the floats are
lost: rows that differ by less than 1e-162 count as equal, and below some 1e-146 the digits become fewer.)

Sorting. Batcher's network of compare-exchanges sorts all coordinates at once, whole rows at a time, on any device.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpml import arguments

Rows = Any
"""NDArray[np.float64] or torch.Tensor, of shape [n, d]."""

Matrix = NDArray[np.float64]

LARGEST = 1e140  # its square, times the number of coordinates, stays within the floats
CANCELLED = 1e-3


class Received(NamedTuple):
    """The finite rows, how many of them may be Byzantine, and their places among all rows that were sent."""

    rows: Rows
    n_byzantine: int
    places: NDArray[np.int64]


def torch_of(value: object) -> Any:
    """The module torch if `value` is a tensor, else None."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(value, torch.Tensor) else None


def checked(name: str, vectors: Any) -> Rows:
    """The rows in float64, or as a tensor of at least float32; they may hold NaN and infinity."""
    torch = torch_of(vectors)
    allowed = f"{name} must be an array or a tensor of floating numbers, of shape [n, d] with n, d >= 1"
    if torch is None:
        rows = arguments.as_array(vectors)
        if rows.dtype.kind not in "fiu" or rows.ndim != 2 or rows.size == 0:
            raise ValueError(f"{allowed}, got {_what(rows)}")
        with np.errstate(over="ignore"):  # a long double beyond the range becomes infinite
            return rows.astype(np.float64, copy=False)
    if not vectors.is_floating_point() or vectors.dim() != 2 or vectors.numel() == 0:
        raise ValueError(f"{allowed}, got a tensor of shape {tuple(vectors.shape)} and type {vectors.dtype}")
    return vectors.detach().to(torch.promote_types(vectors.dtype, torch.float32))


def _what(rows: NDArray[Any]) -> str:
    return f"one of shape {rows.shape}" if rows.dtype.kind in "fiu" else "something else"


def received(vectors: Any, n_byzantine: int, *, slope: int, spare: int) -> Received:
    """What reached the server, for a rule that needs n >= slope n_byzantine + spare.

    A row counts as one of the Byzantine, and is left out, if an entry is NaN, infinite, or so large that its square
    or a sum of n such leaves the floats: above 1e140, or a quarter of the largest number of its type.

    Raises:
        ValueError: if vectors has no shape [n, d], n is too small, or more than n_byzantine rows are not finite.
    """
    rows = checked("vectors", vectors)
    n = len(rows)
    if n < spare:
        raise ValueError(f"vectors must be at least {spare} for this rule, got {n}")
    f = liars(n, n_byzantine, slope=slope, spare=spare)
    good = finite(rows, vectors)
    places = np.flatnonzero(good)
    lost = n - len(places)
    if lost > f:
        raise ValueError(f"vectors must have at most n_byzantine = {f} rows that are not finite, got {lost}")
    return Received(rows if lost == 0 else rows[places.tolist()], f - lost, places)


def liars(n: int, n_byzantine: int, *, slope: int, spare: int, least: int = 0) -> int:
    """`n_byzantine`, at least `least`, where n >= slope n_byzantine + spare."""
    try:
        return arguments.integer("n_byzantine", n_byzantine, least, (n - spare) // slope)
    except ValueError as refusal:
        raise ValueError(f"{refusal}: the rule needs n >= {slope} n_byzantine + {spare}, and n is {n}") from None


def finite_rows(name: str, vectors: Any) -> Rows:
    """The rows, all of which must be finite, for what no Byzantine worker sends."""
    rows = checked(name, vectors)
    good = finite(rows, vectors)
    if not good.all():
        raise ValueError(f"{name} must be finite, got row {int(np.flatnonzero(~good)[0])} that is not")
    return rows


def finite(rows: Rows, vectors: Any) -> NDArray[np.bool_]:
    """Which rows are finite, and not beyond what squares and sums of them can hold."""
    xp = torch_of(rows) or np
    largest = min(LARGEST, float((np if xp is np else xp).finfo(rows.dtype if xp is np else vectors.dtype).max) / 4.0)
    with np.errstate(invalid="ignore"):
        good = (xp.amax(rows, 1) <= largest) & (xp.amin(rows, 1) >= -largest)  # NaN is neither
    return np.array(good.tolist())


def like(vectors: Any, result: Rows) -> Rows:
    """`result` in the type of `vectors`: float64, or that of the tensor."""
    return result if torch_of(vectors) is None else result.to(vectors.dtype)


def mixed(rows: Rows, weights: Matrix) -> Rows:
    """`weights`, of shape [n] or [k, n], times the rows."""
    torch = torch_of(rows)
    if torch is None:
        with np.errstate(under="ignore"):
            return weights @ rows
    return torch.as_tensor(weights, dtype=rows.dtype, device=rows.device) @ rows


def average_of(rows: Rows, chosen: Any) -> Rows:
    """The average of the rows with the numbers `chosen`."""
    weights = np.zeros(len(rows))
    weights[chosen] = 1.0 / len(chosen)
    return mixed(rows, weights)


def blocks(rows: Rows) -> Iterator[Rows]:
    """The rows in float64, some columns at a time."""
    width = _width(rows)
    for start in range(0, rows.shape[1], width):
        block = rows[:, start : start + width]
        if torch_of(rows) is not None:
            block = (block.cpu() if block.device.type == "mps" else block).double()  # mps has no float64
        yield block


def host(values: Any) -> Matrix:
    """A NumPy array of an array or a tensor."""
    return np.asarray(values if isinstance(values, np.ndarray) else values.cpu().numpy())


@np.errstate(under="ignore")
def products(rows: Rows, origin: int) -> Matrix:
    """The products [n, n] of the differences of finite rows to one of them."""
    gram: Any = 0.0
    for block in blocks(rows):
        moved = block - block[origin]
        gram = gram + moved @ moved.T
    return host(gram)


@np.errstate(under="ignore")
def distances(rows: Rows) -> Matrix:
    """Squared distances [n, n] of finite rows, as told at the head of this module."""
    gram = products(rows, 0)
    lengths = np.diag(gram)
    scale = lengths[:, None] + lengths
    squares = np.triu(scale - 2.0 * gram, 1)
    lost = np.triu(squares < CANCELLED * scale, 1)
    squares[lost] = 0.0
    again = [(i, np.flatnonzero(lost[i])) for i in range(len(squares)) if lost[i].any()]
    for block in blocks(rows) if again else ():
        for i, others in again:
            apart = block[others.tolist()] - block[i]
            squares[i, others] += host((apart * apart).sum(1))
    squares += squares.T
    first = (squares == 0.0).argmax(axis=0)  # the first row that equals this one
    return squares[np.ix_(first, first)]


def per_coordinate(rows: Rows, function: Callable[[list[Rows]], Rows]) -> Rows:
    """`function` of the n sorted values of each coordinate, a list of n rows, some columns at a time."""
    xp: Any = torch_of(rows) or np
    width = _width(rows)
    parts = [function(_sorted(rows[:, at : at + width], xp)) for at in range(0, rows.shape[1], width)]
    return parts[0] if len(parts) == 1 else (np.concatenate(parts) if xp is np else xp.cat(parts))


def _width(rows: Rows) -> int:
    """How many columns fit into a cache, or keep a graphics card busy."""
    return 2**13 if torch_of(rows) is None or rows.device.type == "cpu" else 2**21


def _sorted(part: Rows, xp: Any) -> list[Rows]:
    columns = list(part.copy() if xp is np else part.clone())
    spare = xp.empty_like(columns[0])
    for low, high in network(len(columns)):
        one, other = columns[low], columns[high]
        xp.minimum(one, other, out=spare)
        xp.maximum(one, other, out=other)
        columns[low], spare = spare, one
    return columns


@functools.cache
def network(n: int) -> tuple[tuple[int, int], ...]:
    """The compare-exchanges that sort n values: Batcher's merge exchange (Knuth, vol. 3, Algorithm 5.2.2M)."""
    top = 1 << max(0, (n - 1).bit_length() - 1)
    pairs, p = [], top
    while p > 0 and n > 1:
        q, r, apart = top, 0, p
        while True:
            pairs += [(i, i + apart) for i in range(n - apart) if i & p == r]
            if q == p:
                break
            apart, q, r = q - p, q // 2, p
        p //= 2
    return tuple(pairs)
