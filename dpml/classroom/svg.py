"""Draws the panels of a frame as SVG: the part that stands still once, and for each mark the few texts that move.

A panel has a fixed coordinate system of 5600 by 3570 units, so that all coordinates are whole numbers and a path of
sixty points takes some 400 bytes. The page scales it; labels keep at least 9 pixels on a phone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml.classroom.marks import COLOURS, DASHES, INKS, Area, Axis, Key, Line, Mark, Numbers, Points, Rule, Text

WIDTH, HEIGHT = 5600, 3570
LEFT, RIGHT, TOP, BOTTOM = 620, WIDTH - 130, 300, HEIGHT - 620
FONT, LINE_WIDTH, DOT = 162, 26, 46


def _mapping(axis: Axis, start: float, end: float) -> Callable[[Numbers], NDArray[Any]]:
    """Maps values on an axis to drawing units; refuses NaN and, on a log axis, anything not above 0."""

    def units(values: Numbers) -> NDArray[Any]:
        v = np.atleast_1d(np.asarray(values, dtype=float))
        if np.isnan(v).any():
            raise ValueError(f"values on the axis {axis.title!r} must be numbers, got nan")
        if axis.scale == "log":
            if (v <= 0).any():
                raise ValueError(f"values on the logarithmic axis {axis.title!r} must be in (0, inf), got {v.min()}")
            fraction = (np.log(v) - math.log(axis.low)) / math.log(axis.high / axis.low)
        else:
            fraction = (v - axis.low) / (axis.high - axis.low)
        # A point far outside is cut by the clip path anyway; pulling it in keeps the text short.
        units: NDArray[np.float64] = start + np.clip(fraction, -1.0, 2.0) * (end - start)
        return np.rint(units).astype(int)

    return units


class Panel:
    """A horizontal and a vertical axis that hold still, and how values become drawing units."""

    def __init__(self, x: Axis, y: Axis) -> None:
        self.axes = x, y
        self.x = _mapping(x, LEFT, RIGHT)
        self.y = _mapping(y, BOTTOM, TOP)

    def place(self, x: float, y: float) -> tuple[int, int]:
        """Where the point (x, y) lies in the drawing."""
        return int(self.x([x])[0]), int(self.y([y])[0])


def ticks_of(axis: Axis) -> list[tuple[float, str]]:
    """About five ticks with short texts: steps of 1, 2 or 5 on a linear axis, powers of ten on a logarithmic one."""
    if axis.ticks is not None:
        return [tick if isinstance(tick, tuple) else (tick, _tick_text(tick)) for tick in axis.ticks]
    if axis.scale == "log":
        first, last = math.ceil(math.log10(axis.low) - 1e-9), math.floor(math.log10(axis.high) + 1e-9)
        if last - first >= 2:
            step = math.ceil((last - first) / 6)
            return [(10.0**e, power_of_ten(e)) for e in range(first, last + 1, step)]
        values = [m * 10.0**e for e in range(first - 1, last + 1) for m in (1, 2, 5)]
        return [(v, f"{v:g}") for v in values if axis.low * (1 - 1e-9) <= v <= axis.high * (1 + 1e-9)]
    raw = (axis.high - axis.low) / 5
    size = 10.0 ** math.floor(math.log10(raw))
    gap = next(m * size for m in (1, 2, 5, 10) if m * size >= raw * (1 - 1e-9))
    first, last = math.ceil(axis.low / gap - 1e-9), math.floor(axis.high / gap + 1e-9)
    return [(i * gap, f"{i * gap:g}".replace("-", "\N{MINUS SIGN}")) for i in range(first, last + 1)]


def power_of_ten(exponent: int) -> str:
    """10 to a whole power as text, such as 10⁻⁵; plain between 0.01 and 100."""
    if -2 <= exponent <= 2:
        return f"{10.0**exponent:g}"
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def scientific(value: float, digits: int = 2) -> str:
    """A number as a reader writes it: 5.2·10⁻⁶; plain from 0.01 on."""
    if value >= 0.01 or value == 0:
        return f"{value:.{digits}g}"
    exponent = math.floor(math.log10(value))
    return f"{value / 10.0**exponent:.{digits}g}·{power_of_ten(exponent)}"


def _tick_text(value: float) -> str:
    exponent = round(math.log10(value)) if value > 0 else 0
    return power_of_ten(exponent) if math.isclose(value, 10.0**exponent) else f"{value:,g}"


def _path(x: NDArray[Any], y: NDArray[Any]) -> str:
    """A path with relative steps; points on a straight run are left out."""
    if len(x) == 0:
        return ""
    points = x + 1j * y
    points = points[np.append(True, np.diff(points) != 0)]
    # Of the product of two steps the real part is their dot product, and the imaginary part their cross product.
    turn = np.conj(np.diff(points)[:-1]) * np.diff(points)[1:]
    kept = points[np.concatenate([[True], (turn.imag != 0) | (turn.real < 0), [True]])[: len(points)]]
    steps = "".join(f"{step.real:.0f} {step.imag:.0f} ".replace(" -", "-") for step in np.diff(kept))
    return f"M{x[0]} {y[0]}" + (f"l{steps.rstrip()}" if steps else "")


def _dots(x: Iterable[int], y: Iterable[int], role: str) -> str:
    across, turn = 2 * DOT, f"a{DOT} {DOT} 0 1 0"
    square = f"m{-DOT} {-DOT}h{across}v{across}h{-across}z"
    shape = square if role == "D'" else f"m{-DOT} 0{turn} {across} 0{turn} {-across} 0z"
    return "".join(f"M{a} {b}{shape}" for a, b in zip(x, y, strict=True))


def path_of(mark: Mark, panel: Panel) -> str:
    """The `d` attribute of a mark in this state."""
    if isinstance(mark, Line):
        return _path(panel.x(mark.x), panel.y(mark.y)) + _sample(mark, panel)
    if isinstance(mark, Points):
        return (_dots(panel.x(mark.x), panel.y(mark.y), mark.role) if len(mark.x) else "") + _sample(mark, panel)
    if isinstance(mark, Area):
        if len(mark.x) == 0:
            return ""
        x, low, high = panel.x(mark.x), panel.y(mark.low), panel.y(mark.high)
        return _path(np.concatenate([x, x[::-1]]), np.concatenate([high, low[::-1]])) + "z"
    if isinstance(mark, Rule):
        if mark.x is not None:
            return f"M{panel.x([mark.x])[0]} {BOTTOM}V{TOP}"
        return f"M{LEFT} {panel.y([mark.y or 0.0])[0]}H{RIGHT}"
    return ""


def _sample(mark: Line | Points, panel: Panel) -> str:
    """What stands in front of the text of a key."""
    if not isinstance(mark.label, Key):
        return ""
    x, y = panel.place(mark.label.x, mark.label.y)
    return f"M{x - 400} {y - DOT}h310" if isinstance(mark, Line) else _dots([x - 245], [y - DOT], mark.role)


def label_of(mark: Mark, panel: Panel) -> tuple[str, str, str, str]:
    """The label of a mark as (x, y, anchor, text) in drawing units; four empty texts where it has none."""
    label = mark if isinstance(mark, Text) else mark.label
    if label is None or not label.text:
        return "", "", "", ""
    x, y = panel.place(label.x, label.y)
    return str(x), str(y), label.anchor or ("start" if 2 * x < LEFT + RIGHT else "end"), label.text


def _style(mark: Mark) -> str:
    colour = COLOURS[mark.role]
    if isinstance(mark, Area):
        return f'fill="{colour}" fill-opacity="0.14" stroke="none"'
    if isinstance(mark, Points):
        return f'fill="{colour}" stroke="none"'
    width = LINE_WIDTH if not isinstance(mark, Rule) else LINE_WIDTH * 0.7
    dash = " ".join(f"{length * width:.0f}" for length in DASHES[mark.role])
    return f'fill="none" stroke="{colour}" stroke-width="{width:g}"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _axis_lines(panel: Panel) -> Iterable[str]:
    across, upright = panel.axes
    yield f'<g stroke="#666666" stroke-width="12" fill="none"><path d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}"/>'
    ticks = [(panel.x([value])[0], text) for value, text in ticks_of(across)]
    levels = [(panel.y([value])[0], text) for value, text in ticks_of(upright)]
    yield from (f'<path d="M{at} {BOTTOM}v60"/>' for at, _ in ticks)
    yield from (f'<path d="M{LEFT} {at}h-60"/>' for at, _ in levels)
    yield from (f'<path d="M{LEFT} {at}H{RIGHT}" stroke="#dddddd" stroke-width="7"/>' for at, _ in levels)
    yield '</g><g fill="#333333">'
    yield from (f'<text x="{at}" y="{BOTTOM + 235}" text-anchor="middle">{escape(text)}</text>' for at, text in ticks)
    yield from (f'<text x="{LEFT - 95}" y="{at + 55}" text-anchor="end">{escape(text)}</text>' for at, text in levels)
    yield f'<text x="{RIGHT}" y="{BOTTOM + 480}" text-anchor="end">{escape(across.title)}</text>'
    yield f'<text x="{LEFT - 480}" y="{TOP - 140}">{escape(upright.title)}</text></g>'


def drawing(panel: Panel, marks: Sequence[Mark]) -> str:
    """The whole drawing of a panel; elements with the class `m` (paths) and `t` (labels) are the ones that move."""
    width, height = RIGHT - LEFT, BOTTOM - TOP
    labels = [(mark.role, *label_of(mark, panel)) for mark in marks]
    # The inner drawing cuts off what lies outside the axes, and needs no name that could occur twice on a page.
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-size="{FONT}" '
        'font-family="system-ui, sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        *_axis_lines(panel),
        f'<svg x="{LEFT}" y="{TOP}" width="{width}" height="{height}" viewBox="{LEFT} {TOP} {width} {height}">',
        *(len(marks) * ['<path class="g" fill="none" stroke="#bbbbbb" stroke-width="20"/>']),
        *(f'<path class="m" d="{path_of(mark, panel)}" {_style(mark)}/>' for mark in marks),
        '</svg><g stroke="#ffffff" stroke-width="50" stroke-linejoin="round" paint-order="stroke">',
        *(
            f'<text class="t" x="{x or 0}" y="{y or 0}" text-anchor="{anchor or "start"}" fill="{INKS[role]}">'
            f"{escape(text)}</text>"
            for role, x, y, anchor, text in labels
        ),
        "</g></svg>",
    ]
    return "".join(parts)
