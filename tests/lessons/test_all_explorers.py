"""Every explorer of every chapter, found by introspection: both faces, at the start and at each end of each control."""

import functools
import gzip
import importlib
import inspect
import itertools
import pkgutil
import re
from collections.abc import Callable
from html import escape

import pytest

import dpml.lessons
from dpml.classroom.explorer import Explorer, Range
from dpml.classroom.live import Live
from dpml.classroom.marks import Key, Line, Text
from dpml.classroom.svg import BOTTOM, FONT, LEFT, TOP, WIDTH, label_of
from dpml.classroom.table import table_of

MOST_FRAMES, GZIPPED_BYTES = 500, 60_000
# The letters of a label are about half as wide as high on average; 0.45 errs on the lenient side.
LETTER_WIDTH = 0.45 * FONT


def _makers() -> dict[str, Callable[[], Explorer]]:
    found = {}
    for module in sorted(found.name for found in pkgutil.iter_modules(dpml.lessons.__path__) if found.ispkg):
        here = importlib.import_module(f"dpml.lessons.{module}.explorers")
        for name, value in inspect.getmembers(here, inspect.isfunction):
            if not name.startswith("_") and value.__module__ == here.__name__:
                found[f"{module}.{name}"] = value
    return found


MAKERS = _makers()
each_explorer = pytest.mark.parametrize("name", MAKERS)


@functools.cache
def _built(name: str) -> tuple[Explorer, str]:
    """The explorer and its static face."""
    explorer = MAKERS[name]()
    return explorer, explorer._repr_html_()


def test_the_course_has_explorers() -> None:
    assert len(MAKERS) >= 5
    assert len({_built(name)[0].name for name in MAKERS}) == len(MAKERS), "two explorers share a name"


@each_explorer
def test_untouched_figure_states_its_finding_and_names_its_curves(name: str) -> None:
    """It is small, too: the frames decide how long it takes to build, which `benchmarks/waiting.py` measures."""
    explorer, html = _built(name)
    assert not inspect.signature(MAKERS[name]).parameters
    assert (MAKERS[name].__doc__ or "").strip()
    assert len(explorer.frames) <= MOST_FRAMES
    assert len(gzip.compress(html.encode(), mtime=0)) <= GZIPPED_BYTES
    frame = explorer.frame()
    assert re.search(r"\d", frame.title), frame.title
    assert frame.title.rstrip()[-1] in ".?!", frame.title
    assert f'<p class="dpml-title">{escape(frame.title)}</p>' in html
    assert f'aria-label="{escape(frame.title)} {escape(frame.readout)}"' in html
    assert escape(frame.readout) + "</output>" in html
    marks = [mark for _, mark in explorer.placed(frame)]
    assert any(isinstance(mark, Line) and len(mark.x) > 1 for mark in marks)
    assert any(isinstance(mark, Text) or getattr(mark, "label", None) for mark in marks), "there is no legend"
    for control in explorer.controls:
        assert re.fullmatch(r"(?![a-z])(\S+ ){2,19}\S+\.", control.help), control.help
        assert control.help in html
    assert len({control.help for control in explorer.controls}) == len(explorer.controls)


@each_explorer
def test_every_position_gives_a_complete_frame_with_its_labels_inside(name: str) -> None:
    explorer, _ = _built(name)
    states = list(itertools.product(*(control.positions for control in explorer.controls)))
    for frame, state in zip(explorer.frames, states, strict=True):
        assert len(frame.title.split()) >= 3, state
        assert re.search(r"\d", frame.readout), state
        header, rows = table_of(frame, explorer.panels)
        assert rows, state
        for row in rows:
            assert len(row) == len(header), state
            assert all(isinstance(cell, str) and cell.strip() for cell in (*header, *row)), (state, row)
        said = " ".join([frame.title, frame.readout, *itertools.chain.from_iterable(rows)])
        assert not re.search(r"(?<![\w-])(nan|None|-?inf)(?!\w)", said), (state, said)
        for panel, mark in explorer.placed(frame):
            x, y, anchor, text = label_of(mark, panel)
            if text:
                width = len(text) * LETTER_WIDTH
                left = int(x) - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
                key = isinstance(getattr(mark, "label", None), Key)  # with a sample before it, inside the axes
                least = LEFT + 390 if key else 0
                assert least <= left <= WIDTH - width, f"{text!r} leaves the drawing sideways: {frame.title}"
                assert TOP - FONT <= int(y) <= BOTTOM + FONT, f"{text!r} leaves its panel: {frame.title}"


@each_explorer
def test_every_control_moves_a_mark_and_changes_the_figure_at_its_ends(name: str) -> None:
    """The drawing itself answers to a control, not only the words around it."""
    explorer, _ = _built(name)
    for control in explorer.controls:
        seen = {value: explorer.slots(explorer.frame(**{control.name: value})) for value in control.positions}
        first, last = control.positions[0], control.positions[-1]
        assert all(seen[end] != seen[control.start] for end in (first, last) if end != control.start), control.name
        # Title, readout and table come first.
        assert any(slots[3:] != seen[first][3:] for slots in seen.values()), control.name


@each_explorer
def test_live_face_redraws_at_each_end_and_between_and_refuses_what_is_beyond(name: str) -> None:
    explorer, _ = _built(name)
    live = explorer.live()
    assert isinstance(live, Live)
    assert live.values() == explorer.start()
    html = live.figure.value
    assert escape(explorer.frame().title) in html
    for control in explorer.controls:
        widget, low, high = live.controls[control.name], control.positions[0], control.positions[-1]
        values = [low, high]
        if isinstance(control, Range):  # also a value that is no position of the static face
            between = low + 0.37 * (high - low)
            values.append(int(between) if control.whole else between)
        for value in values:
            widget.value = value
            now = live.values()
            assert now == explorer.start() | {control.name: value}
            assert type(now[control.name]) is type(low)
            assert escape(explorer.frame(**now).title) in live.figure.value
            assert (live.figure.value != html) == (now != explorer.start()), (control.name, value)
        for beyond in (low - 1, high * 10 + 1) if isinstance(control, Range) else ():
            before, widget.value = live.figure.value, beyond
            assert f"{control.label} must be from" in live.said.value, (control.name, beyond)
            assert live.figure.value == before, "the figure keeps the last values within"
        widget.value = control.start
        assert (live.figure.value, live.said.value) == (html, "")
    bundle = live._repr_mimebundle_()
    assert "model_id" in bundle["application/vnd.jupyter.widget-view+json"]
    assert "needs a running kernel" in bundle["text/html"]
    assert bundle["text/plain"].startswith("Live Explorer")
