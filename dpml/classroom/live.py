"""The live face of an explorer: ipywidgets beside the same drawing, computed by the kernel at any value."""

from __future__ import annotations

from html import escape
from typing import Any

import ipywidgets as widgets
import numpy as np

from dpml.classroom.explorer import NEEDS_A_KERNEL, Explorer, Range, Switch

STEPS = 200  # of a slider; the box beside it takes any value


class Live:
    """An explorer with widgets. `controls` maps each control's name to the widget that holds its value: a box for a
    range, with a slider beside it, and buttons for a switch. `figure` holds the drawing, `said` a sentence where a
    value is out of range.

    Where no kernel can answer (the website), it says so instead of showing a slider that moves nothing.
    """

    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer
        self.figure, self.said = widgets.HTML(), widgets.HTML()
        self.controls: dict[str, Any] = {}
        rows: list[Any] = []
        for control in explorer.controls:
            if isinstance(control, Range):
                slider, widget = _slider(control)
                rows.append(widgets.HBox([widget, slider]))
            else:
                widget = _toggle(control)
                rows.append(widget)
            rows.append(widgets.HTML(f"<small>{escape(control.help)}</small>"))
            widget.observe(self._redraw, names="value")
            self.controls[control.name] = widget
        self.box = widgets.VBox([*rows, self.said, self.figure])
        self._redraw(None)

    def values(self) -> dict[str, Any]:
        """What the reader asks for now."""
        return {name: widget.value for name, widget in self.controls.items()}

    def _redraw(self, _change: Any) -> None:
        values = self.values()
        ranges = [control for control in self.explorer.controls if isinstance(control, Range)]
        outside = [c for c in ranges if not c.values[0] <= values[c.name] <= c.values[-1]]
        self.said.value = " ".join(
            f"<strong>{c.label} must be from {c.values[0]:g} to {c.values[-1]:g} here, got {values[c.name]:g}; "
            "the figure shows the last values within.</strong>"
            for c in outside
        )
        if not outside:
            self.figure.value = self.explorer.live_html(values)

    def _repr_mimebundle_(self, **keywords: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = dict(self.box._repr_mimebundle_(**keywords))
        return {**bundle, "text/html": NEEDS_A_KERNEL, "text/plain": f"Live {self.explorer!r}"}


def _slider(control: Range) -> tuple[Any, Any]:
    """A slider over the positions from 0 to `STEPS`, and the box that holds the value, which need not be on one."""
    low, high = float(control.values[0]), float(control.values[-1])
    exact = (np.geomspace if control.scale == "log" else np.linspace)(low, high, STEPS + 1)

    def value_at(position: int) -> float:
        value = min(max(float(f"{exact[position]:.3g}"), low), high)
        return round(value) if control.whole else value

    def position_of(value: float) -> int:
        return round(np.interp(value, exact, range(STEPS + 1)))

    kind = widgets.IntText if control.whole else widgets.FloatText
    style, layout = {"description_width": "8em"}, {"width": "16em"}
    box = kind(value=control.start, description=control.label, style=style, layout=layout)
    slider = widgets.IntSlider(max=STEPS, readout=False)
    widgets.link((box, "value"), (slider, "value"), transform=(position_of, value_at))
    return slider, box


def _toggle(control: Switch) -> Any:
    return widgets.ToggleButtons(
        options=[(text, value) for value, text in control.options.items()],
        value=control.start,
        description=control.label,
        style={"description_width": "8em", "button_width": "auto"},
    )
