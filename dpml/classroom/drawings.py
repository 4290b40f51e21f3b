"""The parts of a drawing of an idea: a sheet without axes, and on it words, boxes, dots and arrows with a role."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpml.classroom.figures import look, style
from dpml.classroom.marks import INKS, Numbers, Role

__all__ = ["SIZE", "WIDTH", "arrow", "box", "dots", "rings", "sheet", "words"]

# Of the sheet in inches, and of the letters in points: on a phone, where the sheet is 320 pixels wide, they keep 9.
WIDTH, SIZE = 5.4, 12


def sheet(*, width: float, height: float) -> tuple[Any, Any]:
    """Returns a matplotlib figure and its only axes, without frame: a unit is as long across as upwards."""
    import matplotlib.pyplot as plt

    with style():
        figure = plt.figure(figsize=(WIDTH, WIDTH * height / width))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height), aspect="equal")
    axes.axis("off")
    return figure, axes


def words(axes: Any, x: float, y: float, text: str, role: Role = "muted", *, ha: str = "center") -> None:
    """Writes a text around (x, y), in the ink of its role."""
    axes.text(x, y, text, color=INKS[role], ha=ha, va="center", fontsize=SIZE)


def box(axes: Any, x: float, y: float, text: str, role: Role = "guarantee") -> None:
    """Writes a text in a frame around (x, y)."""
    frame = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": look(role)["color"], "linewidth": 1.5}
    axes.text(x, y, text, color=INKS[role], ha="center", va="center", fontsize=SIZE, bbox=frame)


def dots(axes: Any, x: Numbers, y: Numbers, role: Role, *, size: float = 7) -> None:
    """Puts dots, `size` points wide: circles, and squares for the neighbour D'."""
    _put(axes, x, y, role, size, look(role)["color"])


def rings(axes: Any, x: Numbers, y: Numbers, role: Role, *, size: float = 7) -> None:
    """Puts hollow dots: what is not there, or not drawn."""
    _put(axes, x, y, role, size, "white")


def arrow(axes: Any, start: Sequence[float], end: Sequence[float], role: Role = "guarantee") -> None:
    """Draws an arrow from `start` to `end`, both (x, y)."""
    line = {**look(role), "arrowstyle": "-|>", "linewidth": 1.8, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=end, xytext=start, arrowprops=line)


def _put(axes: Any, x: Numbers, y: Numbers, role: Role, size: float, inside: str) -> None:
    shape = {"marker": "s" if role == "D'" else "o", "markersize": size, "linestyle": "", "markerfacecolor": inside}
    axes.plot(x, y, **shape, markeredgecolor=look(role)["color"], markeredgewidth=1.2, clip_on=False)
