"""The parts of the figures: bad input, the same output every time, escaping, and paths that keep their shape."""

import dataclasses
import itertools
import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import unquote

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import pytest

from dpml.classroom import figures
from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.live import Live
from dpml.classroom.marks import COLOURS, DASHES, INKS, Area, Axis, Frame, Key, Line, Mark, Points, Role, Rule, Text
from dpml.classroom.svg import BOTTOM, DOT, LEFT, RIGHT, TOP, Panel, label_of, path_of, ticks_of
from dpml.classroom.table import table_of

AXES = Axis("x", 0, 10), Axis("y", 0, 10)
LOG_AXES = Axis("x", 0.1, 10, "log"), Axis("y", 1e-6, 1, "log")
ROLES: tuple[Role, ...] = ("D", "D'", "guarantee", "measured", "source", "muted")


def frame_of(*marks: Mark, title: str = "It is 1.") -> Frame:
    return Frame(title=title, readout="a = 1", marks=marks, table=(["a"], [["1"]]))


def explorer_of(draw: Callable[..., Frame], *, axes: Any = AXES, controls: Sequence[Any] | None = None) -> Explorer:
    return Explorer("test", draw, controls or [Range("a", "α", [1, 2, 3], 2, "What a is.")], *axes)


def drawings(html: str) -> list[str]:
    """The still pictures in the page, as SVG."""
    return [unquote(text) for text in re.findall(r'src="data:image/svg\+xml,([^"]*)"', html)]


def points_of(path: str) -> list[tuple[int, int]]:
    """The corners of a path of one M and relative steps."""
    numbers = [int(text) for text in re.findall(r"-?\d+", path)]
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    corners = [pairs[0]]
    for dx, dy in pairs[1:]:
        corners.append((corners[-1][0] + dx, corners[-1][1] + dy))
    return corners


# --- bad input


def page_of(mark: Mark, axes: Any = AXES) -> str:
    return explorer_of(lambda a: frame_of(mark), axes=axes)._repr_html_()


def changing(other: list[Mark]) -> str:
    return explorer_of(lambda a: frame_of(*([Line([0, 1], [0, 1], "D")] if a < 3 else other)))._repr_html_()


def _switch(name: str) -> Switch:
    return Switch(name, "Which", {"x": "X", "y": "Y"}, "y", "Which it is.")


def _range(name: str, values: Any = (1, 2), start: float = 1, **more: Any) -> Range:
    return Range(name, name, values, start, "What it is.", **more)


def with_controls(*controls: Any) -> Explorer:
    return explorer_of(lambda **values: frame_of(), controls=controls)


BAD = math.nan
REFUSED: list[tuple[Callable[[], Any], str]] = [
    *((lambda pair=pair: Axis("loss", *pair), "low") for pair in ((1.0, 1.0), (2.0, 1.0), (BAD, 1.0), (0.0, BAD))),
    *((lambda pair=pair: Axis("loss", *pair), "finite") for pair in ((0.0, math.inf), (-math.inf, 0.0))),
    *((lambda low=low: Axis("loss", low, 1.0, "log"), "logarithmic") for low in (0.0, -1.0)),
    (lambda: Rule("muted"), "exactly one of x and y"),
    (lambda: Rule("muted", x=1.0, y=2.0), "exactly one of x and y"),
    (lambda: page_of(Line([0, BAD], [0, 1], "D")), "'x' must be numbers, got nan"),
    (lambda: page_of(Line([0, 1], [0, BAD], "D")), "'y' must be numbers, got nan"),
    (lambda: page_of(Rule("D", x=BAD)), "must be numbers, got nan"),
    (
        lambda: page_of(Line([0.0, 1.0], [0.1, 0.1], "D"), LOG_AXES),
        r"logarithmic axis 'x' must be in \(0, inf\), got 0",
    ),
    (lambda: page_of(Line([0.1, 1.0], [0.1, -0.1], "D"), LOG_AXES), r"axis 'y' must be in \(0, inf\), got -0.1"),
    (lambda: page_of(Line([0, 1], [0, 1], "D", Text("curve", BAD, 1))), "must be numbers, got nan"),
    (lambda: page_of(Line([0, 1], [0, 1], "blue")), "role"),  # type: ignore[arg-type]
    (lambda: Line([0, 1, 2], [0, 1], "D"), "as many values"),
    (lambda: Area([0, 1], [0, 1, 2], [1, 1], "D"), "as many values"),
    (lambda: Points([0], [0, 1], "D"), "as many values"),
    *(
        (lambda values=values: _range("a", values, values[0]), "values")
        for values in ([1], list(range(17)), [2, 1], [1, 1, 2], [1.0, BAD], [1.0, math.inf])
    ),
    (lambda: _range("a", [1, 2], 3), "start"),
    (lambda: _range("a", [0.0, 1.0], 1.0, scale="log"), "log"),
    (lambda: Range("a", "α", [1, 2], 1), "help must be a sentence for 'a', as 'α' has no meaning"),
    (lambda: Switch("s", "Which", {"a": "A"}, "a", "Which it is."), "options"),
    (lambda: Switch("s", "Which", {letter: letter for letter in "abcd"}, "a", "Which it is."), "options"),
    (lambda: Switch("s", "Which", {"a": "A", "b": "B"}, "c", "Which it is."), "start"),
    (lambda: with_controls(*map(_range, "abc")), "at most two ranges"),
    (lambda: with_controls(*map(_switch, "st")), "one switch"),
    (lambda: with_controls(*map(_range, "aa")), "different names"),
    *(
        (lambda x=x: explorer_of(lambda a: frame_of(), axes=(x, AXES[1])), "must be the axes of one panel or two")
        for x in ([], 3 * [AXES[0]])
    ),
    (lambda: dataclasses.replace(explorer_of(lambda a: frame_of()), asked="top"), "asked must be one of"),
    (lambda: explorer_of(lambda a: Frame("It is 1.", "a = 1", [], [Rule("D", x=1)])).frame(), "beside must be empty"),
    (lambda: changing([Points([1], [1], "D")]), "kind and role"),
    (lambda: changing([Line([0, 1], [0, 1], "D'")]), "kind and role"),
    (lambda: changing([Line([0, 1], [0, 1], "D"), Rule("muted", x=1)]), "kind and role"),
    (lambda: changing([]), "kind and role"),
    *(
        (lambda alt=alt: figures.show(plt.figure("refused"), alt=alt), "alt must be a sentence")
        for alt in ("", "A curve.", "one two three four", None)
    ),
    (lambda: figures.look("blue"), "role must be one of"),  # type: ignore[arg-type]
    (lambda: table(Line([0, 1], [0, 1], "D", Text("two points are no curve", 1, 1))), "table must be given"),
    (lambda: figures.table([("a",)], {"name": "", "ε": ""}), "rows must have 2 cells each"),
]


@pytest.mark.parametrize(("make", "words"), REFUSED)
def test_bad_input_is_refused(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()
    plt.close("refused")


def test_two_panels_may_share_an_axis() -> None:
    levels = [Axis("y", 0, 10), Axis("log y", 1, 10, "log")]
    one, two = explorer_of(lambda a: frame_of(), axes=(AXES[0], levels)).panels
    assert (one.axes, two.axes) == ((AXES[0], levels[0]), (AXES[0], levels[1]))


# --- the same input gives the same output


def _growing(a: int) -> Frame:
    x = np.linspace(0, 10, 41)
    return frame_of(
        Area(x, np.zeros(41), x / a, "guarantee", Text("below", 5, 1)),
        Line(x, x**2 / (10 * a), "D", Text("curve", 5, 6)),
        Points([float(a)], [a / 2], "D'"),
        Rule("muted", x=a, label=Text("here", a, 9)),
        Text(f"a is {a}", 1, 9),
        title=f"It is {a}.",
    )


def test_shown_figure_is_deterministic_and_closed() -> None:
    def once() -> str:
        with figures.style():
            figure, ax = plt.subplots()
            ax.plot([0, 1, 2], [0, 1, 4], **figures.look("D'"), label="a")
            ax.fill_between([0, 1, 2], [0, 1, 4])
            ax.legend()
        shown = figures.show(figure, alt='A parabola "at most" 4 & above <0>.')
        assert not plt.fignum_exists(figure.number)
        assert repr(shown) == 'Figure: A parabola "at most" 4 & above <0>.'
        return shown._repr_html_()

    before = plt.rcParams["font.size"]
    assert once() == once()
    assert 'alt="A parabola &quot;at most&quot; 4 &amp; above &lt;0&gt;."' in once()
    assert plt.rcParams["font.size"] == before, "the style leaves its context"


def test_the_static_face_is_deterministic_and_two_of_one_page_have_different_keys() -> None:
    page, other = explorer_of(_growing)._repr_html_(), explorer_of(lambda a: frame_of(title=f"No {a}."))._repr_html_()
    assert page == explorer_of(_growing)._repr_html_()
    keys = [re.findall(r'<div class="dpml-explorer full-width" data-key="([^"]+)"', one) for one in (page, other)]
    assert [len(found) for found in keys] == [1, 1]
    assert keys[0] != keys[1]


# --- the page and its script


def _data(html: str) -> Any:
    script = html[html.index("<script>") + 8 : html.rindex("</script>")]
    return json.loads(script[script.index('",{"cover"') + 2 : script.rindex(")")])


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
    switch = _switch("s")

    def draw(a: int, s: str) -> Frame:
        return frame_of(Line([0, a], [0, a], "D"), Line([0, 1], [1, 0], "muted"), title=f"{a}{s}")

    explorer = explorer_of(draw, controls=[Range("a", "α", [1, 2, 3], 2, "What a is."), switch])
    data = _data(explorer._repr_html_())
    titles = [data["pool"][frame[0]] for frame in data["frames"]]
    assert titles == ["1x", "1y", "2x", "2y", "3x", "3y"]
    assert [len(control["texts"]) for control in data["controls"]] == [3, 2]
    assert data["controls"][0]["texts"] == ["α = 1", "α = 2", "α = 3"]
    assert data["ghost"] == [1, 0], "a muted line leaves no ghost"
    assert len(data["pool"]) == len(set(data["pool"]))
    assert [control["start"] for control in data["controls"]] == [1, 1]
    assert [control["range"] for control in data["controls"]] == [True, False]
    [drawn] = drawings(explorer._repr_html_())
    assert drawn.count('class="m"') == drawn.count('class="g"') == drawn.count('class="t"') == 2


# --- numbers that draw receives


@pytest.mark.parametrize(
    ("values", "kind"), [([1, 2, 5], int), (list(np.array([1, 2, 5])), int), ([1.0, 2.0], float), ([1, 2, 2.5], float)]
)
def test_whole_positions_stay_int(values: list[Any], kind: type) -> None:
    got: list[Any] = []

    def draw(a: Any) -> Frame:
        got.append(a)
        return frame_of()

    explorer = explorer_of(draw, controls=[_range("a", values, 2)])
    explorer._repr_html_()
    live = explorer.live()
    live.controls["a"].value = 1
    assert {type(a) for a in (*got, *explorer.controls[0].positions)} == {kind}
    assert got[-1] == 1


# --- the live face


def test_live_face_has_a_named_box_linked_to_each_slider() -> None:
    ranges = [_range("a", [1, 2, 5], 2), _range("b", [0.001, 0.1, 1.0], 0.1, scale="log")]

    live = Live(explorer_of(lambda a, b: frame_of(title=f"{a} {b:.5g}."), controls=ranges))
    assert [type(widget) for widget in live.controls.values()] == [ipywidgets.IntText, ipywidgets.FloatText]
    for row, control, typed in ((0, ranges[0], 4), (2, ranges[1], 0.23456)):
        box, slider = live.box.children[row].children
        assert box is live.controls[control.name]
        assert box.description == control.label
        assert control.help in live.box.children[row + 1].value
        assert 0 < slider.value < slider.max
        slider.value = slider.max
        assert box.value == control.values[-1]
        box.value = control.values[0]
        assert slider.value == 0
        box.value = typed
        assert (box.value, 0 < slider.value < slider.max) == (typed, True), "no position of the slider, and the value"
    assert "4 0.23456." in live.figure.value


@pytest.mark.parametrize("low, high", [(0.005, 0.7), (0.003, 300.0), (1e-7, 0.05), (0.07004, 7.706)])
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_live_slider_keeps_within_its_ends(low: float, high: float, scale: Any) -> None:
    live = Live(explorer_of(lambda b: frame_of(title=f"{b}"), controls=[_range("b", [low, high], low, scale=scale)]))
    slider = live.box.children[0].children[1]
    for position in (slider.max, 0, 1, slider.max - 1):
        slider.value = position
        assert low <= live.values()["b"] <= high
    assert live.said.value == ""


# --- the drawing


def test_values_map_to_the_corners() -> None:
    linear, log = Panel(*AXES), Panel(*LOG_AXES)
    assert linear.x([0, 5, 10]).tolist() == [LEFT, (LEFT + RIGHT) // 2, RIGHT]
    assert linear.y([0, 10]).tolist() == [BOTTOM, TOP]
    assert log.x([0.1, 1, 10]).tolist() == linear.x([0, 5, 10]).tolist()
    assert log.y([1e-6, 1]).tolist() == [BOTTOM, TOP]
    left, right = linear.x([-math.inf, math.inf])
    assert left < LEFT and right > RIGHT, "what lies far outside is drawn outside"


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
def test_paths_keep_ends_and_turning_points_alone(x: Any, y: Any) -> None:
    panel = Panel(*AXES)
    full = list(zip(panel.x(x).tolist(), panel.y(y).tolist(), strict=True))
    assert points_of(path_of(Line(x, y, "D"), panel)) == _corners(full)


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


def test_paths_of_the_other_marks() -> None:
    panel = Panel(*AXES)
    assert path_of(Line([], [], "D"), panel) == ""
    assert path_of(Area([], [], [], "D"), panel) == ""
    assert path_of(Points([], [], "D"), panel) == ""
    assert path_of(Text("word", 1, 1), panel) == ""
    area = path_of(Area([0, 10], [0, 0], [10, 10], "D"), panel)
    assert area.endswith("z")
    assert set(points_of(area)) == {(px, py) for px in panel.x([0, 10]) for py in (TOP, BOTTOM)}
    assert path_of(Rule("D", x=10), panel) == f"M{RIGHT} {BOTTOM}V{TOP}"
    assert path_of(Rule("D", y=0), panel) == f"M{LEFT} {BOTTOM}H{RIGHT}"
    two = Points([1, 2], [1, 2], "measured")
    assert path_of(two, panel).count("a") == 4
    squares = Points([1, 2], [1, 2], "D'")
    assert "a" not in path_of(squares, panel)
    assert path_of(squares, panel).count("z") == 2


def test_labels() -> None:
    panel = Panel(*AXES)
    assert label_of(Line([0, 1], [0, 1], "D"), panel) == ("", "", "", "")
    assert label_of(Line([0, 1], [0, 1], "D", Text("", 1, 1)), panel) == ("", "", "", "")
    # On the right half a word ends at its point, so that it does not leave the panel.
    assert label_of(Line([0, 1], [0, 1], "D", Text("c", 10, 0)), panel) == (str(RIGHT), str(BOTTOM), "end", "c")
    assert label_of(Rule("D", x=5, label=Text("five", 10, 0, anchor="start")), panel)[2:] == ("start", "five")
    assert label_of(Text("corner", 0, 10), panel) == (str(LEFT), str(TOP), "start", "corner")


def test_a_key_shows_a_piece_of_its_line_or_a_dot_in_front_of_the_words() -> None:
    panel = Panel(*AXES)
    x, y = panel.place(5, 5)
    assert label_of(Line([0, 1], [0, 1], "D", Key("c", 5, 5)), panel) == (str(x), str(y), "start", "c")
    assert path_of(Line([], [], "D", Key("c", 5, 5)), panel) == f"M{x - 400} {y - DOT}h310"
    dots = Points([1], [1], "measured")
    assert len(path_of(Points([1], [1], "measured", Key("c", 5, 5)), panel)) > len(path_of(dots, panel))


# --- the numbers behind the figure


def table(*marks: Mark, beside: Sequence[Mark] = (), axes: Any = AXES) -> Any:
    explorer = explorer_of(lambda a: Frame("It is 1.", "a = 1", marks, beside), axes=axes)
    return table_of(explorer.frame(), explorer.panels)


def test_table_reads_the_named_curves_at_the_ticks_of_their_axis() -> None:
    x = np.linspace(0, 10, 141)
    named, other = Line(x, x / 3, "D", Text("third", 1, 1)), Line(x, x, "muted")
    header, rows = table(named, other, Points([5], [5], "D", Text("dot", 1, 1)))
    assert header == ["x", "third"]
    assert rows == [["0", "0"], ["2", "0.6667"], ["4", "1.333"], ["6", "2"], ["8", "2.667"], ["10", "3.333"]]


def test_table_interpolates_nothing_and_hides_what_lies_beyond_the_axis() -> None:
    some = Points([1, 3, 4], [1, 2, 30], "measured", Text("seen", 1, 1))
    header, rows = table(Line(range(11), range(11), "D", Text("all", 1, 1)), some)
    assert header == ["x", "all", "seen"]
    cells = {row[0]: row[2] for row in rows}
    assert cells["4"] == "above 10"
    assert cells["0"] == cells["2"] == "–"


def test_tables_of_two_panels() -> None:
    line = Line(range(11), range(11), "D")
    levels = [Axis("y", 0, 10), Axis("z", 0, 10)]
    header, _ = table(line, beside=[line], axes=(AXES[0], levels))
    assert header == ["x", "y", "z"], "one axis: one table, and a curve alone in its panel has the name of its axis"
    named = Line(range(11), range(11), "D", Text("named", 1, 1))
    header, _ = table(named, beside=[named], axes=(AXES[0], levels))
    assert header == ["x", "y, named", "z, named"], "one name in both panels needs its axis"
    header, _ = table(line, beside=[line], axes=([AXES[0], Axis("w", 0, 10)], levels))
    assert header == ["w", "z"], "two axes: the second panel"
    header, _ = table(named, named, beside=[line], axes=([AXES[0], Axis("w", 0, 10)], levels))
    assert header[0] == "x", "two axes: the panel with more names"


@pytest.mark.parametrize(
    ("axis", "texts"),
    [
        (Axis("a", 0, 1), ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (Axis("a", -4, 5), ["−4", "−2", "0", "2", "4"]),
        (Axis("a", 0.1, 100, "log"), ["0.1", "1", "10", "100"]),
        (Axis("a", 1e-9, 1, "log"), ["10⁻⁹", "10⁻⁷", "10⁻⁵", "10⁻³", "0.1"]),
        (Axis("a", 0.2, 1, "log"), ["0.2", "0.5", "1"]),
        (Axis("a", 0, 2, ticks=[(0, "none"), (2, "all")]), ["none", "all"]),
        (Axis("a", 1e-6, 1e4, "log", ticks=(1e-6, 0.01, 0.3, 1, 1e4)), ["10⁻⁶", "0.01", "0.3", "1", "10⁴"]),
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


@pytest.mark.parametrize("role", ROLES)
def test_look_agrees_with_the_explorers(role: Role) -> None:
    look = figures.look(role)
    assert look["color"] == COLOURS[role]
    assert look["linestyle"] == ((0, DASHES[role]) if DASHES[role] else "-")
    [drawn_line] = drawings(explorer_of(lambda a: frame_of(Line([0, a], [0, a], role)))._repr_html_())
    path = re.search(r'<path class="m"[^>]*>', drawn_line)
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


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2 between two colours such as #0072B2."""

    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, bright = sorted((light(one), light(other)))
    return (bright + 0.05) / (dark + 0.05)


def test_words_in_a_colour_can_be_read_and_marks_keep_the_palette() -> None:
    """An explorer brings its own white paper; `tests/browser` looks at the texts beside it."""
    assert set(COLOURS.values()) == {"#000000", "#0072B2", "#D55E00", "#666666"}
    for role in ROLES:
        assert contrast(INKS[role], "#ffffff") >= 4.5, role
        assert contrast(COLOURS[role], "#ffffff") >= 3, f"{role}: a line needs 3 to 1"
    words = drawings(explorer_of(lambda a: frame_of(Text("here", 1, 1, "source")))._repr_html_())[0]
    assert f'fill="{INKS["source"]}">here<' in words
