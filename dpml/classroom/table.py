"""The numbers behind a figure: its table, read off the named lines where the author gives none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from dpml.classroom.marks import Axis, Frame, Line, Mark, Points, Table
from dpml.classroom.svg import Panel, ticks_of


def table_of(frame: Frame, panels: Sequence[Panel]) -> Table:
    """Header and rows: the named curves at the ticks of their axis, or else at every few of the points they share.

    No value is interpolated: where a curve has no point the cell is a dash. Two panels with one horizontal axis share a
    table; of two others the one with more named curves has it, or else the second.

    Raises:
        ValueError: if there is no table and no named curve.
    """
    if frame.table is not None:
        return frame.table
    named = [_named(panel, marks) for panel, marks in zip(panels, (frame.marks, frame.beside), strict=False)]
    across = panels[0].axes[0]
    if len(named) == 2 and across == panels[1].axes[0]:
        columns = list(chain.from_iterable(named))
    else:
        columns = max(reversed(named), key=len)
        across = panels[named.index(columns)].axes[0]
    if not columns:
        raise ValueError(f"table must be given where no curve of three points has a name, got None: {frame.title}")
    names = [name for name, _, _ in columns]
    header = [name if names.count(name) == 1 else f"{axis.title}, {name}" for name, axis, _ in columns]
    at = _places(across, [np.asarray(curve.x, dtype=float) for _, _, curve in columns])
    return [across.title, *header], [[_number(x), *(_cell(curve, axis, x) for _, axis, curve in columns)] for x in at]


def _places(across: Axis, points: list[NDArray[np.float64]]) -> list[float]:
    shared = reduce(np.intersect1d, points)
    shared = shared if len(shared) >= 4 else points[0]
    ticks = [tick for tick, _ in ticks_of(across) if _where(shared, tick).size]
    last = len(shared) - 1
    even = (step for step in range(1, last + 1) if last % step == 0 and 4 <= last / step <= 9)
    return ticks if len(ticks) >= 5 else shared[:: next(even, math.ceil(last / 8))].tolist()


def _where(points: NDArray[np.float64], x: float) -> NDArray[np.intp]:
    return np.flatnonzero(np.abs(points - x) <= 1e-12 + 1e-9 * abs(x))


def _named(panel: Panel, marks: Sequence[Mark]) -> list[tuple[str, Axis, Line | Points]]:
    """The curves of a panel with their names; a curve that is alone in its panel has the name of the axis."""
    upright = panel.axes[1]
    curves = [mark for mark in marks if isinstance(mark, Line | Points) and len(mark.x) > 2]
    if len(curves) == 1 and curves[0].label is None:
        return [(upright.title, upright, curves[0])]
    return [(mark.label.text, upright, mark) for mark in curves if mark.label is not None and mark.label.text]


def _cell(line: Line | Points, axis: Axis, x: float) -> str:
    found = _where(np.asarray(line.x, dtype=float), x)
    if found.size == 0:
        return "–"
    y = float(line.y[int(found[0])])
    # Beyond the axis a figure may draw a value just outside, whatever it is.
    if y < axis.low or y > axis.high:
        return f"below {_number(axis.low)}" if y < axis.low else f"above {_number(axis.high)}"
    return _number(y)


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() or 1e3 <= abs(value) < 1e15 else f"{value:.4g}"
