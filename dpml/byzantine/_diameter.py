r"""The subset of least diameter: exact, and fast enough for some fifty workers.

n rows, of which n - f are to be kept so that their largest distance is least. For a diameter t let two rows be in
conflict if their distance is above t. Some n - f rows have no conflict exactly if f rows, or fewer, can be left out
such that no conflict remains: a vertex cover of size f. Its size is bounded, so that branching finds it: of a row with
c conflicts either that row leaves, or all c others do. The least t, one of the distances, is found by halving. Sets of
rows are the bits of an integer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def least_diameter(squares: NDArray[np.float64], n_byzantine: int) -> list[int]:
    """The numbers of the n - n_byzantine rows of least diameter; of several such sets the lexicographically first."""
    n = len(squares)
    levels = np.unique(squares)
    low, high = -1, len(levels) - 1  # at the largest distance nothing is in conflict
    while high - low > 1:
        middle = (low + high) // 2
        if _coverable(_conflicts(squares, levels[middle]), (1 << n) - 1, n_byzantine):
            high = middle
        else:
            low = middle
    conflicts = _conflicts(squares, levels[high])
    kept: list[int] = []
    left, missing = (1 << n) - 1, n - n_byzantine
    for row in range(n):
        if missing > 0 and left >> row & 1:
            left ^= 1 << row
            with_row = left & ~conflicts[row]
            if with_row.bit_count() >= missing - 1 and _coverable(
                conflicts, with_row, with_row.bit_count() - missing + 1
            ):
                kept, left, missing = [*kept, row], with_row, missing - 1
    return kept


def _conflicts(squares: NDArray[np.float64], level: float) -> list[int]:
    packed = np.packbits(squares > level, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]


def _coverable(conflicts: list[int], rows: int, budget: int) -> bool:
    """Whether at most `budget` of the rows can leave such that no conflict remains among the others."""
    while True:
        most, most_at, edges, leaf = 0, 0, 0, 0
        rest = rows
        while rest:
            bit = rest & -rest
            rest ^= bit
            others = conflicts[bit.bit_length() - 1] & rows
            degree = others.bit_count()
            edges += degree
            if degree > most:
                most, most_at = degree, bit
            if degree == 1:
                leaf = others
        if edges == 0:
            return True
        if edges > 2 * budget * most:
            return False
        if leaf:  # the other one of its only conflict may as well leave
            rows, budget = rows ^ leaf, budget - 1
        elif most > budget:  # else all its others would have to leave
            rows, budget = rows ^ most_at, budget - 1
        else:
            others = conflicts[most_at.bit_length() - 1] & rows
            if _coverable(conflicts, rows ^ most_at, budget - 1):
                return True
            rows, budget = rows & ~(others | most_at), budget - most
