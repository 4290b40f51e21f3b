"""Every explorer of every chapter, found by introspection: both faces, at the start and at each end of each control."""

from __future__ import annotations

import functools
import gzip
import importlib
import inspect
import itertools
import pkgutil
import string
from collections.abc import Iterator
from html import escape
from typing import Any

import pytest

import dpml.lessons
from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.live import Live
from dpml.classroom.marks import Line, Text
from dpml.classroom.svg import BOTTOM, FONT, TOP, WIDTH, label_of, path_of
from dpml.classroom.table import table_of

MOST_FRAMES, GZIPPED_BYTES = 500, 60_000
# The letters of a label are about half as wide as high on average; 0.45 errs on the lenient side.
LETTER_WIDTH = 0.45 * FONT


def _names() -> Iterator[str]:
    for module in sorted(found.name for found in pkgutil.iter_modules(dpml.lessons.__path__) if found.ispkg):
        here = importlib.import_module(f"dpml.lessons.{module}.explorers")
        for name, value in sorted(vars(here).items()):
            if inspect.isfunction(value) and not name.startswith("_") and value.__module__ == here.__name__:
                yield f"{module}.{name}"


NAMES = list(_names())
each_explorer = pytest.mark.parametrize("name", NAMES)


def _make(name: str) -> Any:
    module, function = name.split(".")
    return getattr(importlib.import_module(f"dpml.lessons.{module}.explorers"), function)()


@functools.cache
def _built(name: str) -> tuple[Explorer, str]:
    """The explorer and its static face."""
    explorer = _make(name)
    return explorer, explorer._repr_html_()


def _ends(explorer: Explorer) -> Iterator[tuple[str, Any]]:
    """Each end of each control that is not its start."""
    for control in explorer.controls:
        for value in {0: control.positions[0], -1: control.positions[-1]}.values():
            if value != control.start:
                yield control.name, value


def test_the_course_has_explorers() -> None:
    assert len(NAMES) >= 5
    assert len({_built(name)[0].name for name in NAMES}) == len(NAMES), "two explorers share a name"


@each_explorer
def test_is_an_explorer_with_a_docstring(name: str) -> None:
    module, function = name.split(".")
    made = getattr(importlib.import_module(f"dpml.lessons.{module}.explorers"), function)
    assert isinstance(made(), Explorer)
    assert not inspect.signature(made).parameters
    assert (made.__doc__ or "").strip()


@each_explorer
def test_static_face_is_small(name: str) -> None:
    """Frames decide how long it takes to build; `benchmarks/waiting.py` measures that."""
    explorer, html = _built(name)
    size = len(gzip.compress(html.encode(), mtime=0))
    assert len(explorer.frames) <= MOST_FRAMES
    assert size <= GZIPPED_BYTES, f"{size} bytes gzipped"


@each_explorer
def test_untouched_figure_states_its_finding(name: str) -> None:
    explorer, html = _built(name)
    frame = explorer.frame()
    assert any(letter.isdigit() for letter in frame.title), frame.title
    assert frame.title.rstrip()[-1] in ".?!", frame.title
    assert f'<p class="dpml-title">{escape(frame.title)}</p>' in html
    assert f'aria-label="{escape(frame.title)} {escape(frame.readout)}"' in html
    assert escape(frame.readout) + "</output>" in html


@each_explorer
def test_every_position_gives_a_complete_frame(name: str) -> None:
    explorer = _built(name)[0]
    positions = [c.positions for c in explorer.controls]
    states = list(itertools.product(*positions))
    assert len(explorer.frames) == len(states)
    for frame, state in zip(explorer.frames, states, strict=True):
        assert len(frame.title.split()) >= 3, state
        assert any(letter.isdigit() for letter in frame.readout), state
        header, rows = table_of(frame, explorer.panels)
        assert rows, state
        for row in rows:
            assert len(row) == len(header), state
            assert all(isinstance(cell, str) and cell.strip() for cell in (*header, *row)), (state, row)
        said = " ".join([frame.title, frame.readout, *itertools.chain.from_iterable(rows)])
        words = said.replace("(", " ").replace(")", " ").replace(",", " ").split()
        assert not {"nan", "None", "-inf", "inf"} & {word.strip(".;:") for word in words}, (state, said)


@each_explorer
def test_both_ends_of_every_control_change_the_figure(name: str) -> None:
    explorer = _built(name)[0]
    start = explorer.slots(explorer.frame())
    ends = list(_ends(explorer))
    assert ends
    for control, value in ends:
        assert explorer.slots(explorer.frame(**{control: value})) != start, (control, value)


@each_explorer
def test_some_mark_moves_for_every_control(name: str) -> None:
    """The drawing itself answers to a control, not only the words around it."""
    explorer = _built(name)[0]

    def drawn(**values: Any) -> list[Any]:
        placed = explorer.placed(explorer.frame(**values))
        return [(path_of(mark, panel), label_of(mark, panel)) for panel, mark in placed]

    for control in explorer.controls:
        seen = [drawn(**{control.name: value}) for value in control.positions]
        assert any(one != seen[0] for one in seen), control.name


@each_explorer
def test_labels_lie_inside_the_drawing(name: str) -> None:
    explorer = _built(name)[0]
    for frame in explorer.frames:
        for panel, mark in explorer.placed(frame):
            x, y, anchor, text = label_of(mark, panel)
            if not text:
                continue
            width = len(text) * LETTER_WIDTH
            left = int(x) - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
            assert left >= 0 and left + width <= WIDTH, f"{text!r} leaves the drawing sideways: {frame.title}"
            assert TOP - FONT <= int(y) <= BOTTOM + FONT, f"{text!r} leaves its panel: {frame.title}"


@each_explorer
def test_start_shows_a_curve_and_names_it(name: str) -> None:
    """No legend: what is drawn is named in the drawing."""
    explorer = _built(name)[0]
    marks = [mark for _, mark in explorer.placed(explorer.frame())]
    assert any(isinstance(mark, Line) and len(mark.x) > 1 for mark in marks)
    assert any(isinstance(mark, Text) or getattr(mark, "label", None) for mark in marks)


@each_explorer
def test_live_face_redraws_at_each_end_and_between(name: str) -> None:
    explorer = _built(name)[0]
    live = explorer.live()
    assert isinstance(live, Live)
    assert live.values() == explorer.start()
    html = live.figure.value
    assert escape(explorer.frame().title) in html
    for control in explorer.controls:
        widget = live.controls[control.name]
        start = widget.value
        for value in _live_values(control, widget):
            widget.value = value
            now = live.values()
            assert escape(explorer.frame(**now).title) in live.figure.value
            if now != explorer.start():
                assert live.figure.value != html, (control.name, value)
            if isinstance(control, Range):
                inside = control.values[0] <= now[control.name] <= control.values[-1]
                assert inside, f"{control.name} = {now[control.name]!r} is outside {control.values}"
                assert isinstance(now[control.name], int if control.whole else float)
            widget.value = start
        assert live.values() == explorer.start()
        assert live.figure.value == html


def _live_values(control: Range | Switch, widget: Any) -> list[Any]:
    """Both ends, and for a range one value that is no position of the static face."""
    if isinstance(control, Switch):
        return [control.positions[0], control.positions[-1]]
    low, high = control.values[0], control.values[-1]
    between = low + 0.37 * (high - low)
    return [low, high, int(between) if control.whole else between]


@each_explorer
def test_live_face_refuses_a_value_out_of_range_in_a_sentence(name: str) -> None:
    explorer = _built(name)[0]
    live = explorer.live()
    html = live.figure.value
    for control in explorer.controls:
        if not isinstance(control, Range):
            continue
        box = live.controls[control.name]
        for beyond in (control.values[0] - 1, control.values[-1] * 10 + 1):
            box.value = beyond
            assert f"{control.label} must be from" in live.said.value, (control.name, beyond)
            assert live.figure.value == html, "the figure keeps the last values within"
        box.value = control.start
        assert live.said.value == ""


@each_explorer
def test_every_control_is_explained_where_it_is(name: str) -> None:
    explorer, html = _built(name)
    for control in explorer.controls:
        sentence = control.help
        assert 3 <= len(sentence.split()) <= 20, (control.name, sentence)
        assert sentence[0] not in string.ascii_lowercase and sentence[-1] == ".", (control.name, sentence)
        assert sentence in html
    assert len({control.help for control in explorer.controls}) == len(explorer.controls)


@each_explorer
def test_live_face_offers_a_widget_and_says_what_it_needs(name: str) -> None:
    bundle = _built(name)[0].live()._repr_mimebundle_()
    assert "model_id" in bundle["application/vnd.jupyter.widget-view+json"]
    assert "needs a running kernel" in bundle["text/html"]
    assert bundle["text/plain"].startswith("Live Explorer")
