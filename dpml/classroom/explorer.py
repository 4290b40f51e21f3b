"""Explorers: figures that move, with one specification and two faces.

The author gives `draw(**values) -> Frame` and the controls. The static face (what a notebook shows, and the website)
holds every state, computed here by Python, and a small script that looks states up: it needs no kernel and no
network. Where scripts do not run it is a still picture with its title and its numbers. The live face
(`explorer.live()`) has the same controls as ipywidgets and calls `draw` at any value.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from dpml.classroom.marks import COLOURS, Axis, Frame, Line, Mark, Scale
from dpml.classroom.svg import Panel, drawing, label_of, path_of
from dpml.classroom.table import table_of

__all__ = ["Explorer", "Range", "Switch"]

MAX_POSITIONS, MAX_OPTIONS = 16, 3
ASKED: dict[str, list[int]] = {"none": [], "left": [0], "right": [1], "both": [0, 1]}
COVER = "Guess first. Move a control, or press here, and the finding appears."
STILL = "A still picture: this figure moves where scripts run, on the pages of the course and in a trusted notebook."
NEEDS_A_KERNEL = (
    "<p><em>This cell calls dpml while you drag, so it needs a running kernel: open the chapter in JupyterLab "
    "(<code>python3 course.py lab</code>) and run the cell. The figure above moves without one.</em></p>"
)
# What a letter means is the same in every chapter; a control with another label brings its own sentence.
MEANINGS = {
    "ε": "The privacy loss that is allowed: smaller is stricter.",
    "ε of a step": "The privacy loss that each step may have.",
    "δ": "The probability that may lie beyond ε.",
    "Total δ": "The probability that may lie beyond the total ε.",
    "q": "The probability that a record is in the sample.",
    "σ": "The noise multiplier: standard deviation over sensitivity.",
    "b": "The scale of the Laplace noise on each count.",
    "k": "How many steps are taken on the same data.",
    "T": "How many steps are taken on the same data.",
    "λ": "The order of the moment, 1 less than the Rényi order.",
    "C": "The norm that no clipped gradient exceeds.",
    "F": "How many of the longest gradients are left out.",
    "τ": "The proposed bound on the sensitivity, in units of its largest possible value.",
}


@dataclass(frozen=True)
class Range:
    """A slider. `values` are its positions (at most 16); `form` writes one, as in "{:.3g}"; `label` names it.

    `help` is the sentence that explains it, by default the one that `MEANINGS` has for the label. All values whole
    numbers: `draw` always receives an int, from the live face too. `scale` is that of the live slider.
    """

    name: str
    label: str
    values: Sequence[float]
    start: float
    help: str = ""
    form: str = "{:.3g}"
    scale: Scale = "linear"

    def __post_init__(self) -> None:
        values = list(self.values)
        finite = all(math.isfinite(v) for v in values)
        if not 2 <= len(values) <= MAX_POSITIONS or not finite or values != sorted(set(values)):
            raise ValueError(f"values must be 2 to {MAX_POSITIONS} rising numbers for {self.name!r}, got {values}")
        if self.scale == "log" and not values[0] > 0:
            raise ValueError(f"values must be in (0, inf) for the log scale of {self.name!r}, got {values[0]}")
        if self.start not in values:
            raise ValueError(f"start must be one of the values {values} of {self.name!r}, got {self.start}")
        object.__setattr__(self, "help", self.help or MEANINGS.get(self.label, ""))
        if not self.help:
            raise ValueError(f"help must be a sentence for {self.name!r}, as {self.label!r} has no meaning, got ''")

    @property
    def positions(self) -> list[Any]:
        return [int(v) if self.whole else float(v) for v in self.values]

    @property
    def whole(self) -> bool:
        return all(float(v).is_integer() and not isinstance(v, float) for v in self.values)

    @property
    def texts(self) -> list[str]:
        return [f"{self.label} = {self.form.format(v)}" for v in self.positions]


@dataclass(frozen=True)
class Switch:
    """A choice between at most three presets: `options` maps the value that `draw` receives to its text.

    `help` is the sentence that explains the presets.
    """

    name: str
    label: str
    options: Mapping[str, str]
    start: str
    help: str

    def __post_init__(self) -> None:
        if not 2 <= len(self.options) <= MAX_OPTIONS:
            raise ValueError(f"options must be 2 to {MAX_OPTIONS} presets for {self.name!r}, got {len(self.options)}")
        if self.start not in self.options:
            raise ValueError(f"start must be one of {list(self.options)} for {self.name!r}, got {self.start!r}")

    @property
    def positions(self) -> list[Any]:
        return list(self.options)

    @property
    def texts(self) -> list[str]:
        return list(self.options.values())


Control = Range | Switch


@dataclass(frozen=True)
class Explorer:
    """A figure that moves.

    `draw` receives the value of each control by name and returns the frame of that state; it runs under NumPy's own
    settings of floats. `x` and `y` are the axes:
    one of each for one panel; two in either for two panels, which share the other if it is one. Every frame must have
    the same kinds of marks in the same order. `asked` are the panels that would answer what the chapter asks its reader
    to guess: they have axes and nothing else until the first move.

    Raises:
        ValueError: for more than two ranges, more than one switch, more than two panels, two controls of one name, or
            another word for `asked`; when shown, for a frame whose marks differ in kind or role from those of the
            start, have a role that does not exist, or stand beside the only panel.
    """

    name: str
    draw: Callable[..., Frame]
    controls: Sequence[Control]
    x: Axis | Sequence[Axis]
    y: Axis | Sequence[Axis]
    asked: str = "none"  # or "left", "right", "both"

    def __post_init__(self) -> None:
        ranges = [c for c in self.controls if isinstance(c, Range)]
        if len(ranges) > 2 or len(self.controls) - len(ranges) > 1:
            raise ValueError(
                f"controls must be at most two ranges and one switch for {self.name!r}, got {len(self.controls)}"
            )
        if len({c.name for c in self.controls}) != len(self.controls):
            raise ValueError(f"controls must have different names, got {[c.name for c in self.controls]}")
        counts = [1 if isinstance(axes, Axis) else len(axes) for axes in (self.x, self.y)]
        if not set(counts) <= {1, 2}:
            raise ValueError(f"x and y must be the axes of one panel or two for {self.name!r}, got {counts}")
        if self.asked not in ASKED:
            raise ValueError(f"asked must be one of {list(ASKED)} for {self.name!r}, got {self.asked!r}")
        object.__setattr__(self, "draw", np.errstate(all="warn", under="ignore")(self.draw))

    @cached_property
    def panels(self) -> list[Panel]:
        """The panels, from left to right."""
        xs, ys = ([axes] if isinstance(axes, Axis) else list(axes) for axes in (self.x, self.y))
        return [Panel(xs[i % len(xs)], ys[i % len(ys)]) for i in range(max(len(xs), len(ys)))]

    def placed(self, frame: Frame) -> list[tuple[Panel, Mark]]:
        """Each mark of the frame with its panel."""
        return [
            (panel, mark)
            for panel, marks in zip(self.panels, (frame.marks, frame.beside), strict=False)
            for mark in marks
        ]

    def start(self) -> dict[str, Any]:
        """The values that the figure shows before anyone touches it."""
        return {c.name: c.positions[c.positions.index(c.start)] for c in self.controls}

    def frame(self, **values: Any) -> Frame:
        """The frame at the start, with the given values in place of the start's."""
        frame = self.draw(**{**self.start(), **values})
        for mark in (*frame.marks, *frame.beside):
            if mark.role not in COLOURS:
                raise ValueError(f"role must be one of {list(COLOURS)} in {self.name!r}, got {mark.role!r}")
        if frame.beside and len(self.panels) == 1:
            raise ValueError(f"beside must be empty for the one panel of {self.name!r}, got {len(frame.beside)} marks")
        return frame

    @cached_property
    def frames(self) -> list[Frame]:
        """One frame a state, in the order of the controls (the last one runs fastest)."""
        names = [c.name for c in self.controls]
        states = itertools.product(*(c.positions for c in self.controls))
        frames = [self.frame(**dict(zip(names, state, strict=True))) for state in states]
        kinds = [[(panel, type(mark), mark.role) for panel, mark in self.placed(frame)] for frame in frames]
        for frame, found in zip(frames, kinds, strict=True):
            if found != kinds[0]:
                raise ValueError(f"marks must keep kind and role in every state of {self.name!r}: {frame.title}")
        return frames

    def slots(self, frame: Frame) -> list[str]:
        """What moves, as texts: title, readout, table, then path and label of each mark."""
        moving = [(path_of(mark, panel), "\t".join(label_of(mark, panel))) for panel, mark in self.placed(frame)]
        header, rows = table_of(frame, self.panels)
        table = "\n".join("\t".join(row) for row in (header, *rows))
        return [frame.title, frame.readout, table, *itertools.chain.from_iterable(moving)]

    def payload(self) -> dict[str, Any]:
        """All states as JSON: each text once in `pool`, each frame as positions in it."""
        pool: dict[str, int] = {}
        frames = [[pool.setdefault(slot, len(pool)) for slot in self.slots(frame)] for frame in self.frames]
        ghost = [int(isinstance(mark, Line) and mark.role != "muted") for _, mark in self.placed(self.frames[0])]
        controls = [
            {
                "label": control.label,
                "help": control.help,
                "texts": control.texts,
                "start": control.positions.index(control.start),
                "range": isinstance(control, Range),
            }
            for control in self.controls
        ]
        asked = ASKED[self.asked]
        return {"cover": COVER, "asked": asked, "controls": controls, "ghost": ghost, "frames": frames, "pool": [*pool]}

    def _repr_html_(self) -> str:
        data = json.dumps(self.payload(), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
        key = f"{self.name}-{hashlib.sha1(data.encode()).hexdigest()[:8]}"
        frame = self.frame()
        # As images the drawings pass where a page drops scripts and drawings from what it does not trust.
        pictures = [
            f'<img width="640" alt="{alt}" src="data:image/svg+xml,{quote(picture)}">'
            for alt, picture in zip((escape(f"{frame.title} {frame.readout}"), ""), self._drawings(frame), strict=False)
        ]
        return (
            f'<div class="dpml-explorer full-width" data-key="{key}" data-name="{escape(self.name)}">'
            + self._body(frame, pictures, f'<p class="dpml-still">{STILL}</p>')
            + f"<script>{_file('explorer.js')}({json.dumps(key)},{data})</script></div>"
        )

    def __repr__(self) -> str:
        frame = self.frame()
        return f"Explorer {self.name}: {frame.title} {frame.readout}"

    def _drawings(self, frame: Frame) -> list[str]:
        marks = frame.marks, frame.beside
        return [drawing(panel, some) for panel, some in zip(self.panels, marks, strict=False)]

    def live(self) -> Any:
        """The same figure with ipywidgets: any value between the ends, computed by the kernel as you drag.

        Raises:
            ImportError: without ipywidgets.
        """
        from dpml.classroom.live import Live

        return Live(self)

    def live_html(self, values: Mapping[str, Any]) -> str:
        """The figure at any values, without controls (the live face puts its own beside it)."""
        frame = self.frame(**values)
        return f'<div class="dpml-explorer dpml-live">{self._body(frame, self._drawings(frame), "")}</div>'

    def _body(self, frame: Frame, pictures: Sequence[str], still: str) -> str:
        header, rows = table_of(frame, self.panels)
        cells = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
        return _file("explorer.html").format(
            style=_file("explorer.css"),
            panels=len(self.panels),
            title=escape(frame.title),
            readout=escape(frame.readout),
            pictures="".join(pictures),
            still=still,
            head="".join(f'<th scope="col">{escape(cell)}</th>' for cell in header),
            rows="".join(f"<tr>{row}</tr>" for row in cells),
        )


@cache
def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8").strip()
