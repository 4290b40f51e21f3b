"""The live face of an explorer: ipywidgets beside the same drawing, computed by the kernel at any value."""

from __future__ import annotations

import math
from typing import Any

import ipywidgets as widgets

from dpml.classroom.explorer import NEEDS_A_KERNEL, Explorer, Range, Switch


class Live:
    """An explorer with widgets. `controls` maps each control's name to its widget; `figure` holds the drawing.

    Where no kernel can answer (the website), it says so instead of showing a slider that moves nothing.
    """

    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer
        self.figure = widgets.HTML()
        self.controls: dict[str, Any] = {}
        rows: list[Any] = [self.figure]
        for control in explorer.controls:
            if isinstance(control, Range):
                slider, box = _slider(control)
                rows.append(widgets.HBox([slider, box]))
            else:
                slider = _toggle(control)
                rows.append(slider)
            slider.observe(self._redraw, names="value")
            self.controls[control.name] = slider
        self.box = widgets.VBox(rows)
        self._redraw(None)

    def values(self) -> dict[str, Any]:
        """What `draw` receives now."""
        found = {}
        for control in self.explorer.controls:
            value = self.controls[control.name].value
            if isinstance(control, Range):
                # 10 ** log10(v), which a logarithmic slider computes, can miss an end by one rounding.
                value = min(max(value, float(control.values[0])), float(control.values[-1]))
                value = round(value) if control.whole else value
            found[control.name] = value
        return found

    def _redraw(self, _change: Any) -> None:
        self.figure.value = self.explorer.live_html(self.values())

    def _repr_mimebundle_(self, **keywords: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = dict(self.box._repr_mimebundle_(**keywords))
        return {**bundle, "text/html": NEEDS_A_KERNEL, "text/plain": f"Live {self.explorer!r}"}


def _slider(control: Range) -> tuple[Any, Any]:
    low, high = float(control.values[0]), float(control.values[-1])
    style = {"description_width": "8em"}
    layout = widgets.Layout(width="28em")
    if control.whole and control.scale == "linear":
        slider = widgets.IntSlider(
            value=int(control.start),
            min=int(low),
            max=int(high),
            description=control.label,
            style=style,
            layout=layout,
        )
        box = widgets.BoundedIntText(value=slider.value, min=slider.min, max=slider.max, layout={"width": "7em"})
    elif control.scale == "log":
        slider = widgets.FloatLogSlider(
            value=float(control.start),
            min=math.log10(low),
            max=math.log10(high),
            step=(math.log10(high / low)) / 10_000,
            description=control.label,
            readout_format=".3g",
            style=style,
            layout=layout,
        )
        box = widgets.BoundedFloatText(value=slider.value, min=low, max=high, layout={"width": "7em"})
    else:
        slider = widgets.FloatSlider(
            value=float(control.start),
            min=low,
            max=high,
            step=(high - low) / 10_000,
            description=control.label,
            readout_format=".3g",
            style=style,
            layout=layout,
        )
        box = widgets.BoundedFloatText(value=slider.value, min=low, max=high, layout={"width": "7em"})
    # The slider's handle has no accessible name in ipywidgets; the number box beside it has one.
    box.description = control.label
    box.style = {"description_width": "2em"}
    box.layout.width = "10em"
    widgets.link((slider, "value"), (box, "value"))
    return slider, box


def _toggle(control: Switch) -> Any:
    return widgets.ToggleButtons(
        options=[(text, value) for value, text in control.options.items()],
        value=control.start,
        description=control.label,
        style={"description_width": "8em", "button_width": "auto"},
    )
