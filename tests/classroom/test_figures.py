"""The parts of the figures: bad input, the same output every time, escaping, and paths that keep their shape."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import pytest

from dpml.classroom import figures
from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.live import Live
from dpml.classroom.marks import COLOURS, DASHES, Area, Axes, Axis, Frame, Line, Mark, Points, Role, Rule, Text
from dpml.classroom.svg import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Panel,
    drawing_height,
    label_of,
    panels_of,
    path_of,
    ticks_of,
)

AXES = Axes(Axis("x", 0, 10), Axis("y", 0, 10))
LOG_AXES = Axes(Axis("x", 0.1, 10, "log"), Axis("y", 1e-6, 1, "log"))
ROLES: tuple[Role, ...] = ("D", "D'", "guarantee", "measured", "source", "muted")


def frame_of(*marks: Mark, title: str = "It is 1.") -> Frame:
    return Frame(title=title, marks=marks, readout="a = 1", table=(["a"], [["1"]]))


def explorer_of(draw: Callable[..., Frame], *, axes: Any = AXES, controls: Sequence[Any] | None = None) -> Explorer:
    return Explorer("test", draw=draw, controls=controls or [Range("a", "α", [1, 2, 3], 2)], axes=axes)


def points_of(path: str) -> list[tuple[int, int]]:
    """The corners of a path of one M and relative steps."""
    numbers = [int(text) for text in re.findall(r"-?\d+", path)]
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    corners = [pairs[0]]
    for dx, dy in pairs[1:]:
        corners.append((corners[-1][0] + dx, corners[-1][1] + dy))
    return corners


# --- bad input


@pytest.mark.parametrize(
    ("low", "high", "scale", "word"),
    [
        (1.0, 1.0, "linear", "low"),
        (2.0, 1.0, "linear", "low"),
        (math.nan, 1.0, "linear", "low"),
        (0.0, math.nan, "linear", "low"),
        (0.0, math.inf, "linear", "finite"),
        (-math.inf, 0.0, "linear", "finite"),
        (0.0, 1.0, "log", "logarithmic"),
        (-1.0, 1.0, "log", "logarithmic"),
    ],
)
def test_axis_refuses_a_range_that_is_none(low: float, high: float, scale: Any, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        Axis("loss", low, high, scale)


@pytest.mark.parametrize("x, y", [(None, None), (1.0, 2.0)])
def test_rule_needs_exactly_one_place(x: float | None, y: float | None) -> None:
    with pytest.raises(ValueError, match="exactly one of x and y"):
        Rule("muted", x=x, y=y)


@pytest.mark.parametrize(
    ("mark", "axes", "message"),
    [
        (Line([0, math.nan], [0, 1], "D"), AXES, "'x' must be numbers, got nan"),
        (Line([0, 1], [0, math.nan], "D"), AXES, "'y' must be numbers, got nan"),
        (Area([0, 1], [0, math.nan], [1, 1], "D"), AXES, "must be numbers, got nan"),
        (Points([1], [math.nan], "D"), AXES, "must be numbers, got nan"),
        (Rule("D", x=math.nan), AXES, "must be numbers, got nan"),
        (Text(1, math.nan, "here"), AXES, "must be numbers, got nan"),
        (Line([0.0, 1.0], [0.1, 0.1], "D"), LOG_AXES, r"logarithmic axis 'x' must be in \(0, inf\), got 0"),
        (Line([0.1, 1.0], [0.1, -0.1], "D"), LOG_AXES, r"logarithmic axis 'y' must be in \(0, inf\), got -0.1"),
        (Line([0, 1], [0, 1], "D", label="curve"), AXES, "at must be given with the label 'curve'"),
        (Line([0, 1], [0, 1], "D", panel=1), AXES, "panel"),
        (Line([0, 1], [0, 1], "blue"), AXES, "role"),  # type: ignore[arg-type]
    ],
)
def test_marks_that_cannot_be_drawn_are_refused(mark: Mark, axes: Axes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        explorer_of(lambda a: frame_of(mark), axes=axes)._repr_html_()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Line([0, 1, 2], [0, 1], "D"),
        lambda: Area([0, 1], [0, 1, 2], [1, 1], "D"),
        lambda: Area([0, 1], [0, 1], [1], "D"),
        lambda: Points([0], [0, 1], "D"),
    ],
)
def test_marks_have_as_many_x_as_y(make: Callable[[], Mark]) -> None:
    with pytest.raises(ValueError, match="as many values"):
        make()


@pytest.mark.parametrize(
    ("values", "start", "word"),
    [
        ([1], 1, "values"),
        (list(range(17)), 0, "values"),
        ([2, 1], 1, "values"),
        ([1, 1, 2], 1, "values"),
        ([1.0, math.nan], 1.0, "values"),
        ([1.0, math.inf], 1.0, "values"),
        ([1, 2], 3, "start"),
    ],
)
def test_range_refuses(values: list[float], start: float, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        Range("a", "α", values, start)


def test_range_on_a_logarithmic_slider_is_above_zero() -> None:
    with pytest.raises(ValueError, match="log"):
        Range("a", "α", [0.0, 1.0], 1.0, scale="log")


@pytest.mark.parametrize(
    ("options", "start", "word"),
    [
        ({"a": "A"}, "a", "options"),
        ({letter: letter for letter in "abcd"}, "a", "options"),
        ({"a": "A", "b": "B"}, "c", "start"),
    ],
)
def test_switch_refuses(options: dict[str, str], start: str, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        Switch("s", "Which", options, start)


def _range(name: str) -> Range:
    return Range(name, name, [1, 2], 1)


@pytest.mark.parametrize(
    ("controls", "message"),
    [
        ([_range("a"), _range("b"), _range("c")], "at most two ranges"),
        ([Switch("s", "S", {"x": "X", "y": "Y"}, "x"), Switch("t", "T", {"x": "X", "y": "Y"}, "x")], "one switch"),
        ([_range("a"), _range("a")], "different names"),
    ],
)
def test_explorer_refuses_controls(controls: Sequence[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        explorer_of(lambda **values: frame_of(), controls=controls)


@pytest.mark.parametrize("axes", [[], [AXES, AXES, AXES]])
def test_explorer_has_one_panel_or_two(axes: list[Axes]) -> None:
    with pytest.raises(ValueError, match="axes must be one panel or two"):
        explorer_of(lambda a: frame_of(), axes=axes)


def test_frame_refuses_a_value_of_no_control() -> None:
    with pytest.raises(ValueError, match=r"values must be among \['a'\], got \['b'\]"):
        explorer_of(lambda a: frame_of()).frame(b=1)


@pytest.mark.parametrize(
    "other",
    [
        [Points([1], [1], "D")],
        [Line([0, 1], [0, 1], "D'")],
        [Line([0, 1], [0, 1], "D"), Rule("muted", x=1)],
        [],
    ],
)
def test_frames_keep_their_marks(other: list[Mark]) -> None:
    def draw(a: int) -> Frame:
        return frame_of(*([Line([0, 1], [0, 1], "D")] if a < 3 else other))

    with pytest.raises(ValueError, match="kind, role and panel"):
        explorer_of(draw)._repr_html_()


@pytest.mark.parametrize("alt", ["", "A curve.", "one two three four", None])
def test_show_wants_a_sentence(alt: Any) -> None:
    figure, _ = plt.subplots()
    with pytest.raises(ValueError, match="alt must be a sentence"):
        figures.show(figure, alt=alt)
    plt.close(figure)


def test_look_refuses_an_unknown_role() -> None:
    with pytest.raises(ValueError, match="role must be one of"):
        figures.look("blue")  # type: ignore[arg-type]


# --- the same input gives the same output


def _growing(a: int) -> Frame:
    x = np.linspace(0, 10, 41)
    return frame_of(
        Area(x, np.zeros(41), x / a, "guarantee", label="below", at=(5, 1)),
        Line(x, x**2 / (10 * a), "D", label="curve", at=(5, 6)),
        Points([float(a)], [a / 2], "D'"),
        Rule("muted", x=a, label="here"),
        Text(1, 9, f"a is {a}"),
        title=f"It is {a}.",
    )


def test_static_face_is_deterministic() -> None:
    assert explorer_of(_growing)._repr_html_() == explorer_of(_growing)._repr_html_()


def test_shown_figure_is_deterministic_and_closed() -> None:
    def once() -> str:
        with figures.style():
            figure, ax = plt.subplots()
            ax.plot([0, 1, 2], [0, 1, 4], **figures.look("D'"), label="a")
            ax.fill_between([0, 1, 2], [0, 1, 4])
            ax.legend()
        shown = figures.show(figure, alt="A parabola from 0 to 4.")
        assert not plt.fignum_exists(figure.number)
        return shown._repr_html_()

    before = plt.rcParams["font.size"]
    assert once() == once()
    assert plt.rcParams["font.size"] == before, "the style leaves its context"


def test_shown_figure_carries_its_sentence() -> None:
    figure, _ = plt.subplots()
    shown = figures.show(figure, alt='Loss "at most" 1 & above <0>.')
    assert 'alt="Loss &quot;at most&quot; 1 &amp; above &lt;0&gt;."' in shown._repr_html_()
    assert 'at most" 1' in repr(shown)


def test_two_explorers_of_one_page_have_different_keys() -> None:
    def keys(explorer: Explorer) -> set[str]:
        return set(re.findall(r'<div class="dpml-explorer" data-key="([^"]+)"', explorer._repr_html_()))

    assert len(keys(explorer_of(_growing))) == 1
    assert keys(explorer_of(_growing)).isdisjoint(keys(explorer_of(lambda a: frame_of(title=f"No {a}."))))


# --- the page and its script


def _data(html: str) -> Any:
    script = html[html.index("<script>") + 8 : html.rindex("</script>")]
    return json.loads(script[script.index('",{"controls"') + 2 : script.rindex(")")])


@pytest.mark.parametrize("nasty", ["</script><b>1", "<!--<script>1", "]]>1", "a 'quote' \"1\" & \\", "1\u2028"])
def test_words_cannot_break_out_of_the_script(nasty: str) -> None:
    html = explorer_of(lambda a: frame_of(title=f"{nasty} {a}."))._repr_html_()
    script = html[html.index("<script>") + 8 :]
    assert script.count("</") == 2, "only the ends of the script and of the explorer"
    assert script.endswith("</script></div>")
    assert "<!--" not in script
    assert f"{nasty} 3." in _data(html)["pool"]
    assert nasty not in html[: html.index("<script>")] or "<" not in nasty


def test_payload_lists_every_state_in_the_order_of_the_controls() -> None:
    switch = Switch("s", "Which", {"x": "X", "y": "Y"}, "y")

    def draw(a: int, s: str) -> Frame:
        return frame_of(Line([0, a], [0, a], "D"), Line([0, 1], [1, 0], "muted"), title=f"{a}{s}")

    explorer = explorer_of(draw, controls=[Range("a", "α", [1, 2, 3], 2), switch])
    data = _data(explorer._repr_html_())
    titles = [data["pool"][frame[0]] for frame in data["frames"]]
    assert titles == ["1x", "1y", "2x", "2y", "3x", "3y"]
    assert [control["size"] for control in data["controls"]] == [3, 2]
    assert data["controls"][0]["texts"] == ["α = 1", "α = 2", "α = 3"]
    assert data["ghost"] == [1, 0], "a muted line leaves no ghost"
    assert len(data["pool"]) == len(set(data["pool"]))
    html = explorer._repr_html_()
    assert html.count('class="m"') == html.count('class="g"') == html.count('class="t"') == 2
    assert re.search(r'value="1" data-control="1" autocomplete="off" checked>Y', html)
    assert 'value="1" data-control="0" aria-label="α" aria-valuetext="α = 2"' in html


def test_start_may_be_any_position_and_frame_overrides_it() -> None:
    explorer = explorer_of(_growing)
    assert explorer.start() == {"a": 2}
    assert explorer.frame().title == "It is 2."
    assert explorer.frame(a=3).title == "It is 3."
    assert repr(explorer) == "Explorer test: It is 2. a = 1"
    assert "It is 3." in explorer.live_html({"a": 3})


# --- numbers that draw receives


@pytest.mark.parametrize("values", [[1, 2, 5], list(np.array([1, 2, 5]))])
def test_whole_positions_stay_int(values: list[Any]) -> None:
    got: list[Any] = []

    def draw(a: Any) -> Frame:
        got.append(a)
        return frame_of()

    explorer = explorer_of(draw, controls=[Range("a", "α", values, 2, form="{}")])
    assert [type(f) for f in explorer.controls[0].positions] == [int, int, int]
    explorer._repr_html_()
    live = explorer.live()
    live.controls["a"].value = 4
    assert {type(a) for a in got} == {int}
    assert got[-1] == 4
    assert explorer.controls[0].texts == ["α = 1", "α = 2", "α = 5"]


def test_positions_with_a_point_are_floats() -> None:
    control = Range("a", "α", [1.0, 2.0], 1)
    assert [type(v) for v in control.positions] == [float, float]
    assert [type(v) for v in Range("a", "α", [1, 2.5], 1).positions] == [float, float]


# --- the live face


def test_live_face_has_a_named_box_linked_to_each_slider() -> None:
    switch = Switch("s", "Which", {"x": "X", "y": "Y"}, "y")
    ranges = [Range("a", "α", [1, 2, 3], 2), Range("b", "β", [0.001, 0.1, 1.0], 0.1, scale="log")]

    def draw(a: int, b: float, s: str) -> Frame:
        return frame_of(title=f"{a} {b:.3g} {s}.")

    live = Live(explorer_of(draw, controls=[*ranges, switch]))
    assert isinstance(live.controls["a"], ipywidgets.IntSlider)
    assert isinstance(live.controls["b"], ipywidgets.FloatLogSlider)
    assert isinstance(live.controls["s"], ipywidgets.ToggleButtons)
    for row, label in ((live.box.children[1], "α"), (live.box.children[2], "β")):
        slider, box = row.children
        assert box.description == slider.description == label
        box.value = box.max
        assert slider.value == pytest.approx(box.max)
    live.controls["s"].value = "x"
    assert live.values() == {"a": 3, "b": pytest.approx(1.0), "s": "x"}
    assert "3 1 x." in live.figure.value


@pytest.mark.parametrize("low, high", [(0.005, 0.7), (0.003, 300.0), (1e-7, 0.05), (0.07, 7.7)])
def test_live_logarithmic_slider_keeps_within_its_ends(low: float, high: float) -> None:
    """10 ** log10(v) may differ from v in the last digit; draw never sees that."""
    control = Range("b", "β", [low, high], low, scale="log")
    live = Live(explorer_of(lambda b: frame_of(title=f"{b}"), controls=[control]))
    for value in (low, high):
        live.controls["b"].value = value
        assert low <= live.values()["b"] <= high
    live.controls["b"].value = 10 ** live.controls["b"].max
    assert low <= live.values()["b"] <= high


# --- the drawing


def test_panels_do_not_overlap_and_fit_the_drawing() -> None:
    for count in (1, 2):
        panels = panels_of([AXES] * count)
        assert panels[0].top == TOP
        assert panels[-1].bottom == drawing_height(count) - BOTTOM
        assert all(a.bottom < b.top for a, b in itertools.pairwise(panels))


def test_values_map_to_the_corners() -> None:
    linear, log = Panel(AXES, 0, 1), Panel(LOG_AXES, 0, 1)
    assert linear.x([0, 5, 10]).tolist() == [LEFT, (LEFT + WIDTH - RIGHT) // 2, WIDTH - RIGHT]
    assert linear.y([0, 10]).tolist() == [linear.bottom, linear.top]
    assert log.x([0.1, 1, 10]).tolist() == linear.x([0, 5, 10]).tolist()
    assert log.y([1e-6, 1]).tolist() == [log.bottom, log.top]


def test_values_far_outside_are_drawn_outside() -> None:
    panel = Panel(AXES, 0, 1)
    left, right = panel.x([-math.inf, math.inf])
    assert left < LEFT
    assert right > WIDTH - RIGHT


RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.linspace(0, 10, 81), np.linspace(0, 10, 81)),
        (np.linspace(0, 10, 81), np.abs(np.linspace(-5, 5, 81))),
        (np.linspace(0, 10, 201), 5 + 5 * np.sin(np.linspace(0, 10, 201))),
        ([0, 5, 2, 8], [0, 5, 2, 8]),  # a straight run that turns back on itself
        ([3, 3, 3], [0, 9, 4]),  # the same, upright
        ([0, 8, 1], [3, 3, 3]),  # and level
        ([0, 5, 5, 10], [0, 0, 10, 10]),  # a step
        ([0, 4, 4, 8], [1, 2, 2, 3]),  # a point twice
        ([1, 1], [2, 2]),
        (RANDOM.uniform(0, 10, 60), RANDOM.uniform(0, 10, 60)),
        (RANDOM.integers(0, 3, 200), RANDOM.integers(0, 3, 200)),
    ],
)
def test_paths_keep_ends_and_turning_points(x: Any, y: Any) -> None:
    panel = Panel(AXES, 0, 1)
    full = list(zip(panel.x(x).tolist(), panel.y(y).tolist(), strict=True))
    kept = points_of(path_of(Line(x, y, "D"), panel))
    assert kept[0] == full[0]
    assert kept[-1] == full[-1]
    assert len(kept) <= len(full)
    assert _corners(kept) == _corners(full)


def _corners(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ends and every point where the curve changes its direction."""
    moving = [p for p, _ in itertools.groupby(points)]
    corners = moving[:1]
    for before, here, after in zip(moving, moving[1:], moving[2:], strict=False):
        first = complex(here[0] - before[0], here[1] - before[1])
        second = complex(after[0] - here[0], after[1] - here[1])
        product = first.conjugate() * second  # real part: the dot product; imaginary part: the cross product
        if product.imag or product.real < 0:
            corners.append(here)
    return corners + moving[1:][-1:]


def test_straight_line_is_two_points() -> None:
    panel = Panel(AXES, 0, 1)
    x = np.linspace(0, 10, 41)
    assert len(points_of(path_of(Line(x, np.full(41, 3.0), "D"), panel))) == 2
    assert len(points_of(path_of(Line(np.full(41, 3.0), x, "D"), panel))) == 2


def test_paths_of_the_other_marks() -> None:
    panel = Panel(AXES, 0, 1)
    assert path_of(Line([], [], "D"), panel) == ""
    assert path_of(Area([], [], [], "D"), panel) == ""
    assert path_of(Points([], [], "D"), panel) == ""
    assert path_of(Text(1, 1, "word"), panel) == ""
    area = path_of(Area([0, 10], [0, 0], [10, 10], "D"), panel)
    assert area.endswith("z")
    assert set(points_of(area)) == {(px, py) for px in panel.x([0, 10]) for py in (panel.top, panel.bottom)}
    assert path_of(Rule("D", x=10), panel) == f"M{WIDTH - RIGHT} {panel.bottom}V{panel.top}"
    assert path_of(Rule("D", y=0), panel) == f"M{LEFT} {panel.bottom}H{WIDTH - RIGHT}"
    two = Points([1, 2], [1, 2], "measured")
    assert path_of(two, panel).count("a") == 4
    squares = Points([1, 2], [1, 2], "D'")
    assert "a" not in path_of(squares, panel)
    assert path_of(squares, panel).count("z") == 2


def test_labels() -> None:
    panel = Panel(AXES, 0, 1)
    assert label_of(Line([0, 1], [0, 1], "D"), panel) == ("", "", "")
    assert label_of(Line([0, 1], [0, 1], "D", label="c", at=(10, 0)), panel) == (
        str(WIDTH - RIGHT),
        str(panel.bottom),
        "c",
    )
    x, y, text = label_of(Rule("D", x=5, label="five"), panel)
    assert (int(x) > panel.x([5])[0], int(y) > panel.top, text) == (True, True, "five")
    x, y, text = label_of(Rule("D", y=5, label="five"), panel)
    assert (int(x) > LEFT, int(y) < panel.y([5])[0], text) == (True, True, "five")
    assert label_of(Text(0, 10, "corner"), panel) == (str(LEFT), str(panel.top), "corner")


@pytest.mark.parametrize(
    ("axis", "texts"),
    [
        (Axis("a", 0, 1), ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (Axis("a", -4, 5), ["−4", "−2", "0", "2", "4"]),
        (Axis("a", 0.1, 100, "log"), ["0.1", "1", "10", "100"]),
        (Axis("a", 1e-9, 1, "log"), ["10⁻⁹", "10⁻⁷", "10⁻⁵", "10⁻³", "0.1"]),
        (Axis("a", 0.2, 1, "log"), ["0.2", "0.5", "1"]),
        (Axis("a", 0, 2, ticks=[(0, "none"), (2, "all")]), ["none", "all"]),
    ],
)
def test_ticks(axis: Axis, texts: list[str]) -> None:
    ticks = ticks_of(axis)
    assert [text for _, text in ticks] == texts
    assert all(axis.low * (1 - 1e-9) <= value <= axis.high * (1 + 1e-9) for value, _ in ticks if axis.low > 0)


# --- one meaning, one look


def test_a_table_in_html_and_in_text() -> None:
    table = figures.table([("a<b", 0.126), ("c", 1000)], {"name": "", "ε": ",.2f"})
    head, *rows = re.findall(r"<tr>(.*?)</tr>", table._repr_html_())
    assert head == "<th>name</th><th>ε</th>"
    assert rows == ["<td>a&lt;b</td><td>0.13</td>", "<td>c</td><td>1,000.00</td>"]
    assert repr(table).splitlines() == ["name         ε", " a<b      0.13", "   c  1,000.00"]
    with pytest.raises(ValueError, match="rows must have 2 cells each"):
        figures.table([("a",)], {"name": "", "ε": ""})


@pytest.mark.parametrize("role", ROLES)
def test_look_agrees_with_the_explorers(role: Role) -> None:
    look = figures.look(role)
    assert look["color"] == COLOURS[role]
    assert look["linestyle"] == ((0, DASHES[role]) if DASHES[role] else "-")
    html = explorer_of(lambda a: frame_of(Line([0, a], [0, a], role)))._repr_html_()
    path = re.search(r'<path class="m"[^>]*>', html)
    assert path is not None
    assert f'stroke="{COLOURS[role]}"' in path[0]
    dashes = re.search(r'stroke-dasharray="([^"]*)"', path[0])
    width = re.search(r'stroke-width="([^"]*)"', path[0])
    assert width is not None
    drawn = [float(v) / float(width[1]) for v in dashes[1].split()] if dashes else []
    assert drawn == pytest.approx(DASHES[role], abs=0.05)


def test_roles_differ_without_colour() -> None:
    """Two roles may share colour or dash pattern, but not both, the solid guarantee and D apart by lightness."""
    looks = [(COLOURS[role], DASHES[role]) for role in ROLES]
    assert len(set(looks)) == len(looks)
    assert DASHES["D"] == ()
    assert DASHES["D'"] != ()
    same_dash = [(a, b) for a in ROLES for b in ROLES if a < b and DASHES[a] == DASHES[b]]
    assert same_dash == [("D", "guarantee")]
