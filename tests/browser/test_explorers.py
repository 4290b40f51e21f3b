"""Every explorer of the built site, driven as a reader drives it: by keyboard, by mouse, and from a file."""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dpml.classroom.explorer import COVER, Explorer, Range, Switch
from dpml.classroom.marks import Axis, Frame, Line, Text

from .looking import PHONE, open_page, pages, resize, wait_for, without_formulas

PROJECTOR, HIGHEST = (1280, 720), 620  # pixels

# The drawing itself: the paths that move, without the ghosts of the previous state.
SHAPES = "return Array.from(arguments[0].querySelectorAll('svg path.m'), (p) => p.getAttribute('d')).join('|')"
STATE = """
const [explorer, slider] = arguments;
const shapes = Array.from(explorer.querySelectorAll('svg path.m'), (p) => p.getAttribute('d')).join('|');
const readout = explorer.querySelector('.dpml-readout').textContent;
return [slider.getAttribute('aria-valuetext'), shapes, readout, document.activeElement === slider];
"""
SHOW = "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'});"
BEGIN = """
const [explorer, slider] = arguments;
for (const cover of explorer.querySelectorAll('.dpml-cover')) cover.click();
slider.scrollIntoView({block: 'center', behavior: 'instant'});
slider.focus();
const {outlineStyle, outlineWidth} = getComputedStyle(slider);
const outlined = outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2;
return [explorer.dataset.name, slider.value, slider.getAttribute('aria-valuetext'), window.scrollY, outlined];
"""


def explorers(browser: Any) -> list[Any]:
    return list(browser.find_elements("css selector", ".dpml-explorer:not(.dpml-live)"))


def sliders(explorer: Any) -> list[Any]:
    return list(explorer.find_elements("css selector", "input[type=range]"))


def press(browser: Any, key: str) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    ActionChains(browser).send_keys(getattr(Keys, key)).perform()


def pages_with_explorers(site: Path) -> Iterator[str]:
    for page in pages():
        if 'class="dpml-explorer' in (site / page).read_text(encoding="utf-8"):
            yield page


def drive(browser: Any, explorer: Any, slider: Any) -> None:
    """Home, End, one left, one right: the arrows change the spoken value; the ends are spoken and drawn differently."""
    name, value, now, place, outlined = browser.execute_script(BEGIN, explorer, slider)
    assert outlined, f"{name}: the focus of a slider is not visible"
    assert now != value, "the index, not a value"
    spoken, shapes = {}, {}
    for key in ("HOME", "END", "ARROW_LEFT", "ARROW_RIGHT"):
        before = now
        press(browser, key)
        spoken[key], shapes[key], readout, focused = browser.execute_script(STATE, explorer, slider)
        assert focused, f"{key} moved the focus away"
        assert readout.strip()
        now = spoken[key]
        if key.startswith("ARROW"):
            assert spoken[key] != before, f"{key} did not change {before!r}"
    assert spoken["HOME"] != spoken["END"]
    assert shapes["HOME"] != shapes["END"], f"{name} stands still while {spoken['HOME']} -> {spoken['END']}"
    # A title of one more line moves the page by that line; Home or End taken by the page would move it by screens.
    assert abs(browser.execute_script("return window.scrollY") - place) < 60, "a key scrolled the page"


def switches_redraw(browser: Any, explorer: Any) -> None:
    """Each preset is drawn or described in its own way, and the arrow key moves between them."""
    seen = set()
    boxes = explorer.find_elements("css selector", "fieldset input[type=radio]")
    for box in boxes:
        browser.execute_script(SHOW, box)
        box.click()
        assert box.is_selected()
        label = explorer.find_element("css selector", ".dpml-panels").get_attribute("aria-label")
        seen.add((browser.execute_script(SHAPES, explorer), label))
    assert len(seen) == len(boxes), "two presets show the same"
    if boxes:
        browser.execute_script("arguments[0].focus()", boxes[-1])
        press(browser, "ARROW_LEFT")
        assert not boxes[-1].is_selected(), "the arrow key does not move the switch"


def test_every_explorer_is_driven(browser: Any, site: Path, address: str) -> None:
    """By keyboard, slider by slider and switch by switch; then it fits a projector, and a phone.

    Figure, title and controls together are at most so high, with the finding uncovered and the table closed.
    """
    heights = {}
    for page in pages_with_explorers(site):
        browser.get("about:blank")  # where another size lays nothing out
        resize(browser, PROJECTOR)
        open_page(browser, f"{address}/{page}")
        with without_formulas(browser):  # no part of a figure, and most of what a change of the page lays out again
            for explorer in explorers(browser):  # before any mouse: what focus shows depends on what was used last
                assert sliders(explorer), f"{page}: an explorer without a slider"
                for slider in sliders(explorer):
                    drive(browser, explorer, slider)
            for explorer in explorers(browser):
                assert not explorer.find_elements("css selector", "mjx-container")
                switches_redraw(browser, explorer)
                assert explorer.size["width"] <= PROJECTOR[0]
                heights[f"{page}, {explorer.get_attribute('data-name')}"] = explorer.size["height"]
            resize(browser, PHONE)
            for explorer in explorers(browser):
                assert explorer.size["width"] <= PHONE[0]
    assert heights, "the site shows no explorer"
    assert not {name: height for name, height in heights.items() if height > HIGHEST}


def test_explorers_and_formulas_work_from_a_file(browser: Any, site: Path) -> None:
    """Double-clicked, without any server."""
    page = next(pages_with_explorers(site))
    open_page(browser, (site / page).as_uri())
    explorer = explorers(browser)[0]
    drive(browser, explorer, sliders(explorer)[0])
    formulas = browser.execute_script("return document.querySelectorAll('.math').length")
    assert browser.execute_script("return document.querySelectorAll('mjx-container').length") >= formulas


# --- on a page of their own, without the site


def small(two: bool = False) -> Explorer:
    def draw(a: int, s: str) -> Frame:
        marks = [Line([0, a, 9], [0, a, a], "D", Text("line", 1, 9))]
        return Frame(f"It is {a}{s}.", f"a = {a}", marks, beside=marks * two)

    controls = [
        Range("a", "alpha", [1, 2, 3, 4], 2, "What a is."),
        Switch("s", "Which", {"x": "X", "y": "Y"}, "x", "Which of the two it is."),
    ]
    return Explorer("small", draw, controls, [Axis("x", 0, 10)] * (1 + two), Axis("y", 0, 10))


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Callable[[str], list[Any]]:
    """Opens a page with this body and returns its explorers."""

    def show(body: str) -> list[Any]:
        path = tmp_path / "page.html"
        path.write_text(f"<!doctype html><meta charset=utf-8><title>x</title><body>{body}", encoding="utf-8")
        browser.get(path.as_uri())
        return explorers(browser)

    return show


def said(explorer: Any) -> list[str]:
    parts = (explorer.find_element("css selector", part) for part in (".dpml-title", ".dpml-readout"))
    return [part.text for part in parts]


def test_a_reader_finds_everything_by_name_key_and_mouse(browser: Any, page: Callable[[str], list[Any]]) -> None:
    """The finding is covered until the first move; each control is named and explained; the table opens."""
    from selenium.webdriver import ActionChains

    [explorer] = page(small()._repr_html_())
    assert said(explorer) == [COVER, ""]
    assert explorer.find_element("css selector", ".dpml-panels").get_attribute("aria-label") == COVER
    [slider], boxes = sliders(explorer), explorer.find_elements("css selector", "input[type=radio]")
    assert [part.accessible_name for part in (slider, *boxes)] == ["alpha", "X", "Y"]
    explained = "return document.getElementById(arguments[0].getAttribute('aria-describedby')).textContent"
    found = [browser.execute_script(explained, part) for part in (slider, *boxes)]
    assert found == ["What a is.", *["Which of the two it is."] * 2]
    browser.execute_script("arguments[0].focus()", slider)
    press(browser, "ARROW_RIGHT")
    assert said(explorer) == ["It is 3x.", "a = 3"]

    [explorer] = page(small()._repr_html_())
    browser.execute_script("arguments[0].focus()", explorer.find_element("css selector", ".dpml-cover"))
    press(browser, "ENTER")
    assert said(explorer) == ["It is 2x.", "a = 2"], "the button answers to the keyboard, and nothing has moved"
    [slider] = sliders(explorer)
    before, width = browser.execute_script(SHAPES, explorer), slider.size["width"]
    mouse = ActionChains(browser).move_to_element_with_offset(slider, 0, 0).click_and_hold()
    mouse.move_by_offset(width // 2 - 4, 0).release().perform()
    assert slider.get_attribute("aria-valuetext") == "alpha = 4"
    assert browser.execute_script(SHAPES, explorer) != before
    explorer.find_element("css selector", "details summary").click()
    row = explorer.find_element("css selector", "details tbody tr")
    assert row.is_displayed() and row.text.split() == ["0", "0"]


def test_what_the_chapter_asks_is_not_drawn_until_the_first_move(
    browser: Any, page: Callable[[str], list[Any]]
) -> None:
    """Of the panels that would answer only the axes are there; on paper, where nothing can be pressed, all is."""

    def seen(explorer: Any) -> list[set[str]]:
        marks = (
            "return Array.from(arguments[0].querySelectorAll('.m, .t'), (mark) => getComputedStyle(mark).visibility)"
        )
        panels = explorer.find_elements("css selector", ".dpml-panels > svg")
        return [set(browser.execute_script(marks, panel)) for panel in panels]

    for asked in ("right", "both", "none"):
        [explorer] = page(dataclasses.replace(small(two=True), asked=asked)._repr_html_())
        hidden = [{"hidden"} if asked in words else {"visible"} for words in (("left", "both"), ("right", "both"))]
        assert seen(explorer) == hidden
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        assert seen(explorer) == [{"visible"}] * 2
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        explorer.find_element("css selector", ".dpml-cover").click()
        assert seen(explorer) == [{"visible"}] * 2


def test_two_copies_on_a_page_are_independent(browser: Any, page: Callable[[str], list[Any]]) -> None:
    """Each moves alone, and F shows one of them on the whole screen."""
    one, two = page(2 * small()._repr_html_())
    browser.execute_script("arguments[0].focus()", sliders(one)[0])
    press(browser, "END")
    for box in two.find_elements("css selector", "input[type=radio]"):
        box.click()
    assert said(one) == ["It is 4x.", "a = 4"]
    assert said(two) == ["It is 2y.", "a = 2"]
    assert len(one.find_elements("css selector", "input:checked")) == 1, "the copies share no group of buttons"
    assert one.find_element("css selector", ".dpml-full").text == "Full screen: F"
    whole, filling = "return document.fullscreenElement !== null", "return document.fullscreenElement === arguments[0]"
    browser.execute_script("arguments[0].focus()", sliders(two)[0])
    for expected in (True, False):
        browser.switch_to.active_element.send_keys("f")
        wait_for("the screen", lambda expected=expected: browser.execute_script(whole) is expected)
        assert browser.execute_script(filling, two) is expected


def test_without_scripts_a_still_picture_and_one_sentence(browser: Any, page: Callable[[str], list[Any]]) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        [explorer] = page(small()._repr_html_())
        [picture] = explorer.find_elements("css selector", "img")
        assert picture.size["width"] > 300
        assert picture.size["height"] > 150
        assert said(explorer) == ["It is 2x.", "a = 2"]
        assert "still picture" in explorer.find_element("css selector", ".dpml-still").text
        assert not explorer.find_elements("css selector", "input, button, fieldset")
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    [explorer] = page(small()._repr_html_())
    assert not explorer.find_elements("css selector", "img, .dpml-still")
    assert explorer.find_elements("css selector", "svg path.m")
