"""Every explorer of the built site, driven as a reader drives it: by keyboard, by mouse, and from a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .looking import DESKTOP, Visit, open_page, pages, resize

Look = Callable[[str], Visit]

# The drawing itself: the paths that move, without the ghosts of the previous state.
SHAPES = "return Array.from(arguments[0].querySelectorAll('svg path.m'), (p) => p.getAttribute('d')).join('|')"
STATE = """
const [explorer, slider] = arguments;
const shapes = Array.from(explorer.querySelectorAll('svg path.m'), (p) => p.getAttribute('d')).join('|');
const readout = explorer.querySelector('.dpml-readout').textContent;
return [slider.getAttribute('aria-valuetext'), shapes, readout, document.activeElement === slider];
"""
SHOW = "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'});"
OUTLINE = """
const style = getComputedStyle(arguments[0]);
return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
"""


def explorers(browser: Any) -> list[Any]:
    return list(browser.find_elements("css selector", ".dpml-explorer:not(.dpml-live)"))


def sliders(explorer: Any) -> list[Any]:
    return list(explorer.find_elements("css selector", "input[type=range]"))


def press(browser: Any, key: str) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    ActionChains(browser).send_keys(getattr(Keys, key)).perform()


def pages_with_explorers(visit: Look) -> Iterator[str]:
    for page in pages():
        if visit(page).facts["explorers"]:
            yield page


@pytest.fixture(autouse=True)
def desktop(browser: Any) -> None:
    resize(browser, DESKTOP)


def drive(browser: Any, explorer: Any, slider: Any) -> None:
    """Home, End, one left, one right: the arrows change the spoken value; the ends are spoken and drawn differently."""
    browser.execute_script(SHOW + "arguments[0].focus()", slider)
    place = browser.execute_script("return window.scrollY")
    assert browser.execute_script(OUTLINE, slider), "the focus of a slider is not visible"
    spoken, shapes = {}, {}
    for key in ("HOME", "END", "ARROW_LEFT", "ARROW_RIGHT"):
        before = slider.get_attribute("aria-valuetext")
        press(browser, key)
        spoken[key], shapes[key], readout, focused = browser.execute_script(STATE, explorer, slider)
        assert focused, f"{key} moved the focus away"
        assert readout.strip()
        if key.startswith("ARROW"):
            assert spoken[key] != before, f"{key} did not change {before!r}"
    assert spoken["HOME"] != spoken["END"]
    assert shapes["HOME"] != shapes["END"], f"the figure stands still while {spoken['HOME']} -> {spoken['END']}"
    # A title of one more line moves the page by that line; Home or End taken by the page would move it by screens.
    assert abs(browser.execute_script("return window.scrollY") - place) < 60, "a key scrolled the page"


def test_every_explorer_moves_by_keyboard(browser: Any, visit: Look, address: str) -> None:
    count = 0
    for page in pages_with_explorers(visit):
        open_page(browser, f"{address}/{page}")
        for explorer in explorers(browser):
            assert sliders(explorer), f"{page}: an explorer without a slider"
            for slider in sliders(explorer):
                assert slider.get_attribute("aria-valuetext") != slider.get_attribute("value"), "the index, not a value"
                drive(browser, explorer, slider)
                count += 1
    assert count > 0, "the site shows no explorer"


def test_every_switch_redraws(browser: Any, visit: Look, address: str) -> None:
    for page in pages_with_explorers(visit):
        open_page(browser, f"{address}/{page}")
        for explorer in explorers(browser):
            seen = set()
            boxes = explorer.find_elements("css selector", "fieldset input[type=radio]")
            for box in boxes:
                browser.execute_script(SHOW, box)
                box.click()
                assert box.is_selected()
                label = explorer.find_element("css selector", "svg").get_attribute("aria-label")
                seen.add((browser.execute_script(SHAPES, explorer), label))
            assert len(seen) == len(boxes), f"{page}: two presets show the same"
            if boxes:
                browser.execute_script("arguments[0].focus()", boxes[-1])
                press(browser, "ARROW_LEFT")
                assert not boxes[-1].is_selected(), f"{page}: the arrow key does not move the switch"


def test_a_slider_follows_the_mouse(browser: Any, visit: Look, address: str) -> None:
    from selenium.webdriver import ActionChains

    open_page(browser, f"{address}/{next(pages_with_explorers(visit))}")
    explorer = explorers(browser)[0]
    slider = sliders(explorer)[0]
    browser.execute_script(SHOW, slider)
    press_home = "arguments[0].value = 0; arguments[0].dispatchEvent(new Event('input', {bubbles: true}))"
    browser.execute_script(press_home, slider)
    before = slider.get_attribute("aria-valuetext"), browser.execute_script(SHAPES, explorer)
    width = slider.size["width"]
    mouse = ActionChains(browser).move_to_element_with_offset(slider, -width // 2 + 8, 0).click_and_hold()
    mouse.move_by_offset(width // 2, 0).release().perform()
    after = slider.get_attribute("aria-valuetext"), browser.execute_script(SHAPES, explorer)
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_the_table_behind_a_figure_opens(browser: Any, visit: Look, address: str) -> None:
    open_page(browser, f"{address}/{next(pages_with_explorers(visit))}")
    details = explorers(browser)[0].find_element("css selector", "details")
    browser.execute_script(SHOW, details)
    details.find_element("css selector", "summary").click()
    rows = details.find_elements("css selector", "tbody tr")
    assert rows
    assert rows[0].is_displayed()
    assert rows[0].text.strip()


def test_explorers_and_formulas_work_from_a_file(browser: Any, visit: Look, site: Path) -> None:
    """Double-clicked, without any server."""
    page = next(pages_with_explorers(visit))
    open_page(browser, (site / page).as_uri())
    explorer = explorers(browser)[0]
    drive(browser, explorer, sliders(explorer)[0])
    formulas = browser.execute_script("return document.querySelectorAll('.math').length")
    assert browser.execute_script("return document.querySelectorAll('mjx-container').length") >= formulas
