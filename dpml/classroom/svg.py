"""Draws a frame as SVG: the part that stands still once, and for each mark the few texts that move.

The drawing has a fixed coordinate system of 5600 units a panel's width, so that all coordinates are whole numbers
and a path of sixty points takes some 400 bytes. The page scales it; labels keep at least 9 pixels on a phone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml.classroom.marks import COLOURS, DASHES, Area, Axes, Axis, Frame, Line, Mark, Numbers, Points, Rule, Text

WIDTH, LEFT, RIGHT, TOP, BOTTOM, GAP = 5600, 620, 130, 300, 620, 900
PANEL_HEIGHT = {1: 2650, 2: 1750}
FONT, LINE_WIDTH = 162, 26
LABEL_SHIFT = 60


def drawing_height(panels: int) -> int:
    """Height of the drawing in its own units."""
    return TOP + panels * PANEL_HEIGHT[panels] + (panels - 1) * GAP + BOTTOM


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
    """Where one pair of axes lies in the drawing, and how values become drawing units."""

    def __init__(self, axes: Axes, index: int, panels: int) -> None:
        height = PANEL_HEIGHT[panels]
        self.axes = axes
        self.top = TOP + index * (height + GAP)
        self.bottom = self.top + height
        self.x = _mapping(axes.x, LEFT, WIDTH - RIGHT)
        self.y = _mapping(axes.y, self.bottom, self.top)


def panels_of(axes: Sequence[Axes]) -> list[Panel]:
    """The panels of a drawing, from top to bottom."""
    return [Panel(one, i, len(axes)) for i, one in enumerate(axes)]


def ticks_of(axis: Axis) -> list[tuple[float, str]]:
    """About five ticks with short texts: steps of 1, 2 or 5 on a linear axis, powers of ten on a logarithmic one."""
    if axis.ticks is not None:
        return list(axis.ticks)
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


def _path(x: NDArray[Any], y: NDArray[Any]) -> str:
    """A path with relative steps; points on a straight run are left out."""
    if len(x) == 0:
        return ""
    keep = [0]
    for i in range(1, len(x) - 1):
        before = x[i] - x[keep[-1]], y[i] - y[keep[-1]]
        after = x[i + 1] - x[i], y[i + 1] - y[i]
        bends = before[0] * after[1] != before[1] * after[0]
        turns_back = before[0] * after[0] + before[1] * after[1] < 0
        if bends or turns_back:
            keep.append(i)
    if len(x) > 1:
        keep.append(len(x) - 1)
    xs, ys = x[keep], y[keep]
    steps = "".join(f"{dx} {dy} ".replace(" -", "-") for dx, dy in zip(np.diff(xs), np.diff(ys), strict=True))
    return f"M{xs[0]} {ys[0]}" + (f"l{steps.rstrip()}" if steps else "")


def _dots(x: NDArray[Any], y: NDArray[Any], role: str) -> str:
    r = 46
    if role == "D'":
        return "".join(f"M{a - r} {b - r}h{2 * r}v{2 * r}h{-2 * r}z" for a, b in zip(x, y, strict=True))
    return "".join(f"M{a - r} {b}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0z" for a, b in zip(x, y, strict=True))


def path_of(mark: Mark, panel: Panel) -> str:
    """The `d` attribute of a mark in this state."""
    if isinstance(mark, Line):
        return _path(panel.x(mark.x), panel.y(mark.y))
    if isinstance(mark, Area):
        if len(mark.x) == 0:
            return ""
        x, low, high = panel.x(mark.x), panel.y(mark.low), panel.y(mark.high)
        return _path(np.concatenate([x, x[::-1]]), np.concatenate([high, low[::-1]])) + "z"
    if isinstance(mark, Points):
        return _dots(panel.x(mark.x), panel.y(mark.y), mark.role) if len(mark.x) else ""
    if isinstance(mark, Rule):
        if mark.x is not None:
            return f"M{panel.x([mark.x])[0]} {panel.bottom}V{panel.top}"
        return f"M{LEFT} {panel.y([mark.y or 0.0])[0]}H{WIDTH - RIGHT}"
    return ""


def label_of(mark: Mark, panel: Panel) -> tuple[str, str, str]:
    """The label of a mark as (x, y, text) in drawing units; three empty texts where it has none."""
    if isinstance(mark, Text):
        return str(panel.x([mark.x])[0]), str(panel.y([mark.y])[0]), mark.text
    if mark.label is None:
        return "", "", ""
    if mark.at is not None:
        x, y = panel.x([mark.at[0]])[0], panel.y([mark.at[1]])[0]
    elif isinstance(mark, Rule):
        x = panel.x([mark.x])[0] + LABEL_SHIFT if mark.x is not None else LEFT + LABEL_SHIFT
        y = panel.top + FONT if mark.y is None else panel.y([mark.y])[0] - LABEL_SHIFT
    else:
        raise ValueError(f"at must be given with the label {mark.label!r}: the point where the label stands, got None")
    return str(x), str(y), mark.label


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
    axes = panel.axes
    base = f"M{LEFT} {panel.top}V{panel.bottom}H{WIDTH - RIGHT}"
    yield f'<path d="{base}" fill="none" stroke="#666666" stroke-width="12"/>'
    for value, text in ticks_of(axes.x):
        at = panel.x([value])[0]
        yield f'<path d="M{at} {panel.bottom}v60" stroke="#666666" stroke-width="12"/>'
        yield f'<text x="{at}" y="{panel.bottom + 235}" text-anchor="middle">{escape(text)}</text>'
    for value, text in ticks_of(axes.y):
        at = panel.y([value])[0]
        yield f'<path d="M{LEFT} {at}h-60" stroke="#666666" stroke-width="12"/>'
        yield f'<path d="M{LEFT} {at}H{WIDTH - RIGHT}" stroke="#dddddd" stroke-width="7"/>'
        yield f'<text x="{LEFT - 95}" y="{at + 55}" text-anchor="end">{escape(text)}</text>'
    yield f'<text x="{WIDTH - RIGHT}" y="{panel.bottom + 480}" text-anchor="end">{escape(axes.x.title)}</text>'
    yield f'<text x="{LEFT - 480}" y="{panel.top - 140}">{escape(axes.y.title)}</text>'


def drawing(frame: Frame, axes: Sequence[Axes], *, key: str, alt: str) -> str:
    """The whole drawing of a frame; elements with the class `m` (paths) and `t` (labels) are the ones that move."""
    panels = panels_of(axes)
    height = drawing_height(len(panels))
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(alt)}" font-size="{FONT}">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/><defs>',
    ]
    for i, panel in enumerate(panels):
        box = f'x="{LEFT}" y="{panel.top}" width="{WIDTH - LEFT - RIGHT}" height="{panel.bottom - panel.top}"'
        parts.append(f'<clipPath id="{key}-c{i}"><rect {box}/></clipPath>')
    parts.append("</defs>")
    for panel in panels:
        parts.extend(_axis_lines(panel))
    for mark in frame.marks:
        clip = f'clip-path="url(#{key}-c{mark.panel})"'
        parts.append(f'<path class="g" {clip} d="" fill="none" stroke="#bbbbbb" stroke-width="20"/>')
    for mark in frame.marks:
        d = path_of(mark, panels[mark.panel])
        parts.append(f'<path class="m" clip-path="url(#{key}-c{mark.panel})" d="{d}" {_style(mark)}/>')
    for mark in frame.marks:
        x, y, text = label_of(mark, panels[mark.panel])
        halo = 'stroke="#ffffff" stroke-width="50" stroke-linejoin="round" paint-order="stroke"'
        style = f'text-anchor="{mark.anchor}" fill="{COLOURS[mark.role]}" {halo}'
        parts.append(f'<text class="t" x="{x or 0}" y="{y or 0}" {style}>{escape(text)}</text>')
    return "".join(parts) + "</svg>"
