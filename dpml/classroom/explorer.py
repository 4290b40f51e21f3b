"""Explorers: figures that move, with one specification and two faces.

The author gives `draw(**values) -> Frame` and the controls. The static face (what a notebook shows, and the website)
holds every state, computed here by Python, and a small script that looks states up: it needs no kernel and no
network. The live face (`explorer.live()`) has the same controls as ipywidgets and calls `draw` at any value.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from dpml.classroom.marks import COLOURS, Axes, Frame, Line, Mark, Scale
from dpml.classroom.svg import drawing, label_of, panels_of, path_of

__all__ = ["Explorer", "Range", "Switch"]

MAX_POSITIONS, MAX_OPTIONS = 16, 3
NEEDS_A_KERNEL = (
    "<p><em>This cell calls dpml while you drag, so it needs a running kernel: open the chapter in JupyterLab "
    "(<code>python3 course.py lab</code>) and run the cell. The figure above moves without one.</em></p>"
)


@dataclass(frozen=True)
class Range:
    """A slider. `values` are its positions (at most 16); `form` writes one, as in "{:.3g}"; `label` names it.

    All values whole numbers: `draw` always receives an int, from the live face too. `scale` is that of the live slider.
    """

    name: str
    label: str
    values: Sequence[float]
    start: float
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
    """A choice between at most three presets: `options` maps the value that `draw` receives to its text."""

    name: str
    label: str
    options: Mapping[str, str]
    start: str

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


class Explorer:
    """A figure that moves.

    `draw` receives the value of each control by name and returns the frame of that state. `axes` is one panel or
    two above each other. Every frame must have the same kinds of marks in the same order.

    Raises:
        ValueError: for more than two ranges, more than one switch, no panel or more than two, or two controls of
            one name; when shown, for a frame whose marks differ in kind, role or panel from those of the start,
            or have a role or panel that does not exist.
    """

    def __init__(
        self,
        name: str,
        *,
        draw: Callable[..., Frame],
        controls: Sequence[Control],
        axes: Axes | Sequence[Axes],
    ) -> None:
        ranges = [c for c in controls if isinstance(c, Range)]
        if len(ranges) > 2 or len(controls) - len(ranges) > 1:
            raise ValueError(f"controls must be at most two ranges and one switch for {name!r}, got {len(controls)}")
        if len({c.name for c in controls}) != len(controls):
            raise ValueError(f"controls must have different names, got {[c.name for c in controls]}")
        self.name = name
        self.draw = draw
        self.controls = list(controls)
        self.axes = [axes] if isinstance(axes, Axes) else list(axes)
        if len(self.axes) not in (1, 2):
            raise ValueError(f"axes must be one panel or two for {name!r}, got {len(self.axes)}")

    def start(self) -> dict[str, Any]:
        """The values that the figure shows before anyone touches it."""
        return {c.name: c.positions[c.positions.index(c.start)] for c in self.controls}

    def frame(self, **values: Any) -> Frame:
        """The frame at the start, with the given values in place of the start's."""
        unknown = set(values) - {c.name for c in self.controls}
        if unknown:
            raise ValueError(f"values must be among {[c.name for c in self.controls]}, got {sorted(unknown)}")
        return self._checked(self.draw(**{**self.start(), **values}))

    @cached_property
    def frames(self) -> list[Frame]:
        """One frame a state, in the order of the controls (the last one runs fastest)."""
        names = [c.name for c in self.controls]
        frames = [
            self._checked(self.draw(**dict(zip(names, values, strict=True))))
            for values in itertools.product(*(c.positions for c in self.controls))
        ]
        want = [_kind(mark) for mark in frames[0].marks]
        for frame in frames:
            if [_kind(mark) for mark in frame.marks] != want:
                raise ValueError(f"marks must keep kind, role and panel in every state of {self.name!r}: {frame.title}")
        return frames

    def _checked(self, frame: Frame) -> Frame:
        for mark in frame.marks:
            if mark.role not in COLOURS:
                raise ValueError(f"role must be one of {list(COLOURS)} in {self.name!r}, got {mark.role!r}")
            if mark.panel not in range(len(self.axes)):
                raise ValueError(f"panel must be below {len(self.axes)} in {self.name!r}, got {mark.panel}")
        return frame

    def _slots(self, frame: Frame) -> list[str]:
        """What moves, as texts: title, readout, table, then path and label of each mark."""
        panels = panels_of(self.axes)
        slots = [frame.title, frame.readout, _rows(frame)]
        for mark in frame.marks:
            panel = panels[mark.panel]
            slots += [path_of(mark, panel), "\t".join(label_of(mark, panel))]
        return slots

    def payload(self) -> dict[str, Any]:
        """All states as JSON: each text once in `pool`, each frame as positions in it."""
        pool: dict[str, int] = {}
        frames = [[pool.setdefault(slot, len(pool)) for slot in self._slots(frame)] for frame in self.frames]
        controls = [{"range": isinstance(c, Range), "size": len(c.positions), "texts": c.texts} for c in self.controls]
        ghost = [int(isinstance(mark, Line) and mark.role != "muted") for mark in self.frames[0].marks]
        return {"controls": controls, "ghost": ghost, "frames": frames, "pool": list(pool)}

    def _repr_html_(self) -> str:
        data = json.dumps(self.payload(), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
        key = f"{self.name}-{hashlib.sha1(data.encode()).hexdigest()[:8]}"
        script = Path(__file__).with_name("explorer.js").read_text(encoding="utf-8").strip()
        inner = _figure_html(self.frame(), self.axes, key=key, controls=self._controls_html(key))
        return (
            f'<div class="dpml-explorer" data-key="{key}" data-name="{escape(self.name)}">{inner}'
            f"<script>{script}({json.dumps(key)},{data})</script></div>"
        )

    def __repr__(self) -> str:
        frame = self.frame()
        return f"Explorer {self.name}: {frame.title} {frame.readout}"

    def _controls_html(self, key: str) -> str:
        parts = []
        for i, control in enumerate(self.controls):
            at = control.positions.index(control.start)
            text = escape(control.texts[at])
            if isinstance(control, Range):
                parts.append(
                    f'<label class="dpml-range"><span class="dpml-value">{text}</span><input type="range" min="0" '
                    f'max="{len(control.positions) - 1}" step="1" value="{at}" data-control="{i}" '
                    f'aria-label="{escape(control.label)}" aria-valuetext="{text}" autocomplete="off"></label>'
                )
                continue
            boxes = "".join(
                f'<label><input type="radio" name="{key}-{i}" value="{j}" data-control="{i}" autocomplete="off"'
                f"{' checked' if j == at else ''}>{escape(option)}</label>"
                for j, option in enumerate(control.texts)
            )
            parts.append(f"<fieldset><legend>{escape(control.label)}</legend>{boxes}</fieldset>")
        return f'<div class="dpml-controls" hidden>{"".join(parts)}</div>'

    def live(self) -> Any:
        """The same figure with ipywidgets: any value between the ends, computed by the kernel as you drag.

        Raises:
            ImportError: without ipywidgets.
        """
        from dpml.classroom.live import Live

        return Live(self)

    def live_html(self, values: Mapping[str, Any]) -> str:
        """The figure at any values, without controls (the live face puts its own beside it)."""
        key = f"live-{self.name}-{hashlib.sha1(repr(sorted(values.items())).encode()).hexdigest()[:8]}"
        inner = _figure_html(self.frame(**values), self.axes, key=key, controls="")
        return f'<div class="dpml-explorer dpml-live">{inner}</div>'


def _kind(mark: Mark) -> tuple[str, str, int]:
    return type(mark).__name__, mark.role, mark.panel


def _rows(frame: Frame) -> str:
    return "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in frame.table[1])


def _figure_html(frame: Frame, axes: Sequence[Axes], *, key: str, controls: str) -> str:
    style = Path(__file__).with_name("explorer.css").read_text(encoding="utf-8")
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in frame.table[0])
    svg = drawing(frame, axes, key=key, alt=f"{frame.title} {frame.readout}")
    return (
        f'<style>{style}</style><p class="dpml-title">{escape(frame.title)}</p>{svg}{controls}'
        f'<output class="dpml-readout" aria-live="polite">{escape(frame.readout)}</output>'
        f'<details><summary>The numbers behind the figure</summary><div class="dpml-scroll"><table><thead><tr>{head}'
        f"</tr></thead><tbody>{_rows(frame)}</tbody></table></div></details>"
    )
