"""What a figure of the course is made of: axes that hold still, a frame for each state, and a few marks.

A mark has a role, not a colour. The role says what the mark means, and the same meaning looks the same in every
chapter: dataset D is blue and solid, its neighbour D' is vermillion and dashed, a guarantee is a black line, a
measurement is black dots. Nothing is told by colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from numpy.typing import NDArray

__all__ = ["Area", "Axis", "Frame", "Key", "Line", "Points", "Rule", "Text", "shown"]

Role = Literal["D", "D'", "guarantee", "measured", "source", "muted"]
Scale = Literal["linear", "log"]
Anchor = Literal["start", "middle", "end"]
Numbers = Sequence[float] | NDArray[Any]

BLACK, BLUE, VERMILLION, GREY = "#000000", "#0072B2", "#D55E00", "#666666"

# The colour of lines, dots and areas, and the dash lengths in widths of the line: SVG and matplotlib figures agree.
_LOOKS: dict[Role, tuple[str, tuple[float, ...]]] = {
    "D": (BLUE, ()),
    "D'": (VERMILLION, (4.0, 2.0)),
    "guarantee": (BLACK, ()),
    "measured": (BLACK, (1.0, 1.6)),
    "source": (VERMILLION, (7.0, 2.0, 1.5, 2.0)),
    "muted": (GREY, (2.0, 1.5)),
}
COLOURS = {role: colour for role, (colour, _) in _LOOKS.items()}
DASHES = {role: dashes for role, (_, dashes) in _LOOKS.items()}

# Of words: vermillion letters on white would have a contrast of 3.9 to 1, and need 4.5.
INKS: dict[Role, str] = {role: "#B34700" if colour == VERMILLION else colour for role, colour in COLOURS.items()}


@dataclass(frozen=True)
class Axis:
    """One axis: its title with the unit, its fixed range, its scale, and (optional) its ticks with or without texts.

    Raises:
        ValueError: for an empty, reversed or infinite range, or a logarithmic range that reaches 0.
    """

    title: str
    low: float
    high: float
    scale: Scale = "linear"
    ticks: Sequence[float | tuple[float, str]] | None = None

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"low must be below high on the axis {self.title!r}, got {self.low} and {self.high}")
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            raise ValueError(f"low and high must be finite on the axis {self.title!r}, got {self.low} and {self.high}")
        if self.scale == "log" and not self.low > 0:
            raise ValueError(f"low must be in (0, inf) on the logarithmic axis {self.title!r}, got {self.low}")


class Text(NamedTuple):
    """A word at the point (x, y): a mark by itself, or the label of another mark, whose role it then has.

    Without an `anchor` it begins there on the left half of the panel, and ends there on the right half.
    """

    text: str
    x: float
    y: float
    role: Role = "muted"
    anchor: Anchor | None = None


class Key(NamedTuple):
    """A label that shows a piece of its line, or one of its dots, in front: for curves too close to be named beside."""

    text: str
    x: float
    y: float
    anchor: Anchor = "start"


Label = Text | Key


@dataclass(frozen=True)
class Line:
    """A curve through the points (x, y)."""

    x: Numbers
    y: Numbers
    role: Role
    label: Label | None = None

    def __post_init__(self) -> None:
        _as_many(x=self.x, y=self.y)


@dataclass(frozen=True)
class Points:
    """Dots at the points (x, y): circles, and squares for the neighbour D'."""

    x: Numbers
    y: Numbers
    role: Role
    label: Label | None = None

    def __post_init__(self) -> None:
        _as_many(x=self.x, y=self.y)


@dataclass(frozen=True)
class Area:
    """The region between two curves over the same x, filled lightly in the colour of its role."""

    x: Numbers
    low: Numbers
    high: Numbers
    role: Role
    label: Text | None = None

    def __post_init__(self) -> None:
        _as_many(x=self.x, low=self.low, high=self.high)


@dataclass(frozen=True)
class Rule:
    """A straight line across the whole panel at one x or at one y (exactly one of the two)."""

    role: Role
    x: float | None = None
    y: float | None = None
    label: Text | None = None

    def __post_init__(self) -> None:
        if (self.x is None) == (self.y is None):
            raise ValueError(f"exactly one of x and y must be given to Rule, got x={self.x} and y={self.y}")


def shown(when: bool, mark: Line) -> Line:
    """The line, or the same line without points and label in a state that does not show it."""
    return mark if when else Line([], [], mark.role)


def _as_many(**values: Numbers) -> None:
    if len({len(v) for v in values.values()}) != 1:
        got = ", ".join(f"{name}: {len(v)}" for name, v in values.items())
        raise ValueError(f"{' and '.join(values)} must have as many values as each other, got {got}")


Mark = Line | Area | Points | Rule | Text
Table = tuple[Sequence[str], Sequence[Sequence[str]]]


@dataclass(frozen=True)
class Frame:
    """One state of a figure.

    `title` is the finding in this state, with its numbers; `readout` is one line with the current values. `marks` are
    those of the first panel, `beside` those of the second. The marks of all states of an explorer have the same kinds
    and roles in the same order; a mark that a state does not need has no points. `table` holds the numbers behind the
    figure as (header, rows) of text; without one they are read off the named lines.
    """

    title: str
    readout: str
    marks: Sequence[Mark]
    beside: Sequence[Mark] = ()
    table: Table | None = None
