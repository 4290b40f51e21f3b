"""Answers on the pages: every field of the built site, driven with the solution; what goes wrong; keys, memory, phones.

Python has 32 bits in a browser: that the checks pass there is tested here alone.
"""

import gzip
import http.server
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest

from book import runtime
from book.ext import answers
from dpml.classroom.answers import Cell, names, run
from tests.serving import served

from .conftest import missing
from .looking import (
    PHONE,
    ROOT,
    ask,
    ask_and_wait,
    build,
    prefer,
    resize,
    settings_of_the_book,
    wait_for,
    without_mathjax,
)

NOTEBOOKS = [*sorted(ROOT.glob("notebooks/[0-9]*.ipynb")), *sorted(ROOT.glob("notebooks/exercises/*.ipynb"))]
WITH_FIELDS = [path for path in NOTEBOOKS if any(question.runs for question in answers.questions(path))]
SHEET, FIRST, SECOND, LAST = "notebooks/exercises/01_promise", "01-promise-06", "01-promise-10", "01-promise-29"
RIGHT = "def mean_noise(*, n, epsilon):\n    return 1 / (n * epsilon)\n"

FIELD = """
const [id, text] = arguments;
const box = document.querySelector(`section.dpml-answer[data-id="${id}"]`);
const [area, said] = ['textarea', 'pre'].map((name) => box.querySelector(name));
const [run, stop, afresh] = box.querySelectorAll('button');
"""
WRITE = "area.value = text; area.dispatchEvent(new Event('input'));"
PRESS = "run.click();"
# The button can be pressed again when there is a verdict.
VERDICT = "return run.disabled ? null : [said.dataset.verdict, said.textContent]"
AFRESH = "afresh.click(); return [afresh.textContent, area.value]"
KEYS = "return Object.keys(localStorage).filter((key) => key.startsWith('dpml-answers'))"


def page_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").as_posix()


@pytest.fixture(scope="session", autouse=True)
def fields(site: Path) -> None:
    """There are none where what runs them could not be fetched: no test asks the network."""
    if not (site / answers.TARGET / "pyodide-lock.json").is_file():
        missing("what runs the answers on the pages (`python3 course.py site` fetches it)")


@pytest.fixture
def open_sheet(browser: Any, address: str) -> Iterator[Callable[..., None]]:
    """Opens a page; what readers wrote is forgotten afterwards."""
    yield lambda page=SHEET: browser.get(f"{address}/{page}.html")
    browser.execute_script("localStorage.clear()")


def check(browser: Any, question: str, text: str) -> tuple[str, str]:
    """The verdict on an answer, and what is said."""
    browser.execute_script(FIELD + WRITE + PRESS, question, text)
    return verdict_of(browser, question)


def verdict_of(browser: Any, question: str) -> tuple[str, str]:
    verdict, said = until(browser, FIELD + VERDICT, question)
    return verdict, said


def until(browser: Any, script: str, *arguments: Any) -> Any:
    """What a script returns that is not null."""
    return wait_for("an answer", lambda: browser.execute_script(script, *arguments))


def written(browser: Any, question: str) -> tuple[str, str]:
    """What stands in a field, and what is said below it."""
    text, said = browser.execute_script(FIELD + "return [area.value, said.textContent]", question)
    return text, said


# In a frame, a page's Worker is the one of the document around it: it starts with the first page and goes on, until a
# page ends it.
ONE_PYTHON = """
if (parent !== window) window.Worker = function (...given) {
  const worker = parent.python ??= new parent.Worker(...given);
  worker.terminate = () => { parent.python = undefined; parent.Worker.prototype.terminate.call(worker); };
  return worker;
};
"""
SHOW = """
const [page, done] = arguments;
const frame = document.querySelector('iframe') ?? document.body.appendChild(document.createElement('iframe'));
frame.onload = () => done();
frame.src = page;
"""


@pytest.fixture
def open_in_frame(chromium: Any, address: str) -> Iterator[Callable[[str], None]]:
    """Opens a page in a frame: Python, which takes longer to start than to judge all answers of a page, starts once."""
    around = f"{address}/{answers.TARGET}/LICENSES.txt"
    if chromium.current_url != around:
        chromium.get(around)
    added = chromium.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": ONE_PYTHON})

    def show(page: str) -> None:
        chromium.execute_async_script(SHOW, f"/{page}.html")
        chromium.switch_to.frame(0)

    with without_mathjax(chromium):
        yield show
    chromium.execute_script("localStorage.clear()")
    chromium.switch_to.default_content()
    chromium.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


@pytest.mark.parametrize("path", WITH_FIELDS, ids=page_of)
def test_every_solution_passes(chromium: Any, open_in_frame: Callable[[str], None], path: Path) -> None:
    open_in_frame(page_of(path))
    found = {}
    for question in answers.questions(path):
        if question.runs:
            assert written(chromium, question.id) == (question.stub, "")
            found[question.id] = check(chromium, question.id, question.full)
    assert {name: said for name, (verdict, said) in found.items() if verdict != "passed" or not said} == {}
    assert chromium.execute_script("return document.querySelectorAll('section.dpml-answer').length") == len(found)


NEED_TORCH = [(path, question) for path in NOTEBOOKS for question in answers.questions(path) if not question.runs]


@pytest.mark.parametrize("path, question", NEED_TORCH, ids=[question.id for _, question in NEED_TORCH])
def test_a_question_without_a_field_needs_torch(site: Path, path: Path, question: answers.Question) -> None:
    """It does: without PyTorch the solution does not pass. The page says so, once for each such question."""
    earlier = [Cell(one.full if isinstance(one, answers.Question) else one) for one in answers.cells_of(path)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "torch", None)
        outcome = run(earlier, Cell(question.full), [Cell(one) for one in question.checks])
    assert outcome.said == "ModuleNotFoundError: No module named 'torch'"
    page = (site / f"{page_of(path)}.html").read_text(encoding="utf-8")
    assert page.count(answers.NEEDS_TORCH) == sum(where == path for where, _ in NEED_TORCH)
    assert f'data-id="{question.id}"' not in page


def test_a_page_holds_no_solution_and_loads_nothing_it_does_not_need(site: Path) -> None:
    """The data of a page are its stubs; a page without a field has no script for any."""
    for path in site.rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        source = ROOT / path.relative_to(site).with_suffix(".ipynb")
        assert ("answers.js" in page) == ("<section" in page and 'class="dpml-answer" data-id' in page), path
        assert ("answers.js" in page) == (source in WITH_FIELDS), path
        if source in WITH_FIELDS:
            [data] = re.findall(r'<script type="application/json" id="dpml-answers">(.*?)</script>', page)
            given = "\n".join(cell["source"] for cell in json.loads(data)["cells"])
            for question in answers.questions(source):
                secret = set(question.full.splitlines()) - set(question.stub.splitlines())
                assert [line for line in secret if len(line.strip()) > 3 and line in given.splitlines()] == []


def test_names_on_a_page_are_different() -> None:
    """They say which field is meant; what two would bind could be taken for the other's."""
    for path in WITH_FIELDS:
        bound = [name for question in answers.questions(path) for name in names(question.stub)[0]]
        assert len(bound) == len(set(bound)) >= 1, path


class _Strict(http.server.SimpleHTTPRequestHandler):
    """A server that tells the browser to ask no other one, and notes what it is asked."""

    asked: ClassVar[list[tuple[str, int]]] = []

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:")
        super().end_headers()

    def log_request(self, code: Any = 0, size: Any = 0) -> None:
        self.asked.append((urlsplit(self.path).path.rpartition("/")[2], int(code)))


@pytest.fixture
def strict(site: Path) -> Iterator[str]:
    with served(site, _Strict) as address:
        yield address


def test_what_is_loaded_and_when(browser: Any, strict: str, site: Path) -> None:
    """Nothing before a field has the focus; then 15 MB as a host sends them; more of SciPy only for who asks for it."""

    def asked() -> dict[str, int]:
        files = {path.name for path in (site / answers.TARGET).iterdir()}
        found = {name: code for name, code in _Strict.asked if name in files}
        _Strict.asked.clear()
        return found

    _Strict.asked.clear()
    browser.get(f"{strict}/{SHEET}.html")
    ask_and_wait(browser, "settled")
    assert "answers.js" in [name for name, _ in _Strict.asked]
    assert asked() == {}
    browser.execute_script(FIELD + "area.focus()", FIRST)
    assert check(browser, FIRST, RIGHT) == ("passed", "✓ mean_noise: agrees with its definition on 8 inputs")
    first = asked()
    assert set(first.values()) == {200}
    assert {"pyodide.asm.wasm", "pyodide-lock.json", runtime.NUMPY, runtime.SCIPY} < set(first)
    assert runtime.REST not in first
    assert sum(len(gzip.compress((site / answers.TARGET / name).read_bytes(), 6)) for name in first) < 15e6
    browser.refresh()
    lazy = "def mean_noise(*, n, epsilon):\n    from scipy import optimize\n"
    lazy += "    return optimize.brentq(lambda b: 1 / n / b - epsilon, 1e-9, 1e9, xtol=1e-15)\n"
    verdict, said = check(browser, FIRST, lazy)
    assert verdict == "passed", said
    again = asked()
    assert again.pop(runtime.REST) == 200
    assert set(again.values()) <= {304}, "the browser has these files"
    browser.execute_script("localStorage.clear()")


WRONG = {
    "a known mistake": (RIGHT.replace("1 /", "2 /"), "A known mistake: this is twice the scale that is needed"),
    "a syntax error": ("def mean_noise(*, n, epsilon)\n    return 1", "SyntaxError: expected ':'"),
    "nothing": ("", "NameError: name 'mean_noise' is not defined"),
    "an endless recursion": (
        "def mean_noise(*, n, epsilon):\n    return mean_noise(n=n, epsilon=epsilon)",
        "Recursion",
    ),
    "the end of the program": ("raise SystemExit", "SystemExit"),
    "an absent package": ("import torch\n" + RIGHT, "ModuleNotFoundError: No module named 'torch'"),
    "a question to the reader": ("n = input()\n" + RIGHT, "OSError"),
}


def test_what_is_wrong_is_said_and_the_next_run_is_not_harmed(browser: Any, open_sheet: Callable[..., None]) -> None:
    """Each after a right answer, of which nothing is left. What else can be wrong is in `tests/classroom`."""
    open_sheet()
    found = {}
    for name, (text, said) in WRONG.items():
        assert check(browser, FIRST, RIGHT)[0] == "passed", name
        found[name] = check(browser, FIRST, text)
        assert found[name][0] == "not-yet" and said in found[name][1], (name, found[name])
    traced = found["a syntax error"][1]
    assert 'File "<mean_noise>", line 1' in traced
    assert "answers.py" not in traced


def test_an_endless_answer_is_stopped_and_the_page_lives_on(browser: Any, open_sheet: Callable[..., None]) -> None:
    open_sheet()
    browser.execute_script(FIELD + WRITE + PRESS, FIRST, "while True:\n    pass\n")
    until(browser, FIELD + "return said.textContent.startsWith('Running') || null", FIRST)
    browser.execute_script(FIELD + WRITE, SECOND, "the page lives on")
    assert written(browser, SECOND)[0] == "the page lives on"
    browser.execute_script(FIELD + "stop.click()", FIRST)
    assert verdict_of(browser, FIRST) == ("failed", "Stopped.")
    assert check(browser, FIRST, RIGHT)[0] == "passed"


def test_an_answer_that_uses_an_earlier_one(browser: Any, open_sheet: Callable[..., None]) -> None:
    """It gets what the earlier one was when it last came to its end, if that still stands in its field."""
    open_sheet("notebooks/exercises/02_composition")
    known = {one.name: one for one in answers.questions(ROOT / "notebooks/exercises/02_composition.ipynb")}
    first, second = known["coin_delta"], known["epsilon_100"]
    verdict, said = check(browser, second.id, second.full)
    assert (verdict, said) == ("not-yet", "This answer uses an earlier one: run that first (coin_delta).")
    assert check(browser, first.id, first.full)[0] == "passed"
    assert check(browser, second.id, second.full)[0] == "passed"
    browser.refresh()
    assert check(browser, second.id, second.full)[0] == "passed"
    browser.execute_script(FIELD + WRITE, first.id, first.full + "\nchanged = 1")
    assert check(browser, second.id, second.full)[1] == said


def test_the_text_survives_until_it_is_started_afresh(browser: Any, open_sheet: Callable[..., None]) -> None:
    """A question that has changed is noticed; another site of the same host, or another page, has other answers."""
    open_sheet()
    stub, _ = written(browser, FIRST)
    browser.execute_script(FIELD + WRITE, FIRST, RIGHT)
    browser.refresh()
    assert written(browser, FIRST) == (RIGHT, "")
    assert browser.execute_script(FIELD + AFRESH, FIRST) == ["Undo: my answer", stub]
    assert browser.execute_script(FIELD + AFRESH, FIRST) == ["Start afresh", RIGHT]
    assert browser.execute_script(FIELD + AFRESH, FIRST) == ["Undo: my answer", stub]
    browser.refresh()
    assert written(browser, FIRST) == (stub, "")
    assert browser.execute_script(KEYS) == []
    browser.execute_script(FIELD + WRITE, FIRST, RIGHT)
    [key] = browser.execute_script(KEYS)
    assert key == f"dpml-answers /{answers.TARGET}/ {SHEET} {FIRST}"
    older = "const saved = JSON.parse(localStorage[arguments[0]]); saved.stub = 'older'; "
    browser.execute_script(older + "localStorage[arguments[0]] = JSON.stringify(saved)", key)
    browser.refresh()
    text, said = written(browser, FIRST)
    assert text == RIGHT
    assert said.startswith("This question has changed since you wrote your answer, which is kept.")
    browser.execute_script("localStorage[arguments[0]] = 'not JSON'", key)
    browser.refresh()
    assert written(browser, FIRST)[1] == ""


def test_the_keyboard_alone(browser: Any, open_sheet: Callable[..., None]) -> None:
    """Tab indents; Escape and Tab, or Shift and Tab, leave; Enter with Ctrl or Shift runs. The page says so.

    Who only passes by is not held: until something is pressed in a field, Tab leaves it.
    """
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    def press(*keys: str) -> None:
        ActionChains(browser).send_keys(*keys).perform()

    def back() -> None:
        ActionChains(browser).key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()

    def place() -> str:
        return str(browser.execute_script("return document.activeElement.id || document.activeElement.textContent"))

    open_sheet()
    area = browser.find_element("id", f"answer-{FIRST}")
    browser.execute_script("arguments[0].focus(); arguments[0].select()", area)
    press("def mean_noise(*, n, epsilon):", Keys.ENTER, Keys.TAB, "return 1 / n / epsilon")
    assert area.get_property("value") == "def mean_noise(*, n, epsilon):\n    return 1 / n / epsilon"
    for modifier in (Keys.CONTROL, Keys.SHIFT):
        ActionChains(browser).key_down(modifier).send_keys(Keys.ENTER).key_up(modifier).perform()
        assert verdict_of(browser, FIRST)[0] == "passed"
        browser.execute_script(FIELD + "said.textContent = said.dataset.verdict = ''", FIRST)
    assert place() == f"answer-{FIRST}"
    press(Keys.ESCAPE, Keys.TAB)
    assert place() == "Run and check"
    back()
    assert place() == f"answer-{FIRST}"
    press(Keys.TAB)
    assert place() == "Run and check"
    back()
    back()
    assert place() not in ("Run and check", f"answer-{FIRST}")
    described = browser.find_element("id", area.get_attribute("aria-describedby")).text
    said = ("Ctrl+Enter", "Shift+Enter", "Tab indents", "Escape, then Tab")
    assert [words for words in said if words not in described] == []


def test_a_verdict_fits_a_phone_and_is_readable_in_the_dark(browser: Any, open_sheet: Callable[..., None]) -> None:
    """With lines that are too wide for it; the words of a screen reader are those of the page."""
    open_sheet()
    wide = f"print({'x' * 300!r})\nmean_noise = 0\n# {'y' * 300}\n"
    for scheme in ("light", "dark"):
        prefer(browser, scheme)
        ask_and_wait(browser, "repainted", scheme)
        assert check(browser, FIRST, wide)[0] == "not-yet"
        seen = ask(browser, "contrast")
        assert seen["worst"][0][0] >= 4.5, seen["worst"]
    resize(browser, PHONE)
    phone = ask(browser, "widths")
    assert (phone["scroll"], phone["out"]) == (PHONE[0], [])
    nodes = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    spoken = {(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"]}
    assert {("textbox", "Your answer: mean_noise"), ("group", "Your answer: mean_noise")} <= spoken
    assert "status" in {role for role, _ in spoken}


def test_without_what_runs_them_there_is_no_field(tmp_path: Path) -> None:
    """A small book with these settings, of one page of exercises, for which nothing has been fetched."""
    settings_of_the_book(tmp_path, page="page")
    shutil.copy(ROOT / f"{SHEET}.ipynb", tmp_path / "page.ipynb")
    assert build(tmp_path) == ""
    page = (tmp_path / "_build" / "html" / "page.html").read_text(encoding="utf-8")
    assert "Write your answer here" in page or "write your answer here" in page
    assert "dpml-answer" not in page
    assert not (tmp_path / "_build" / "html" / answers.TARGET).exists()
