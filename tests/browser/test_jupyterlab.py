"""An explorer inside a real JupyterLab: a keyboard moves it there too, and the live face answers from the kernel."""

import contextlib
import functools
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

import nbformat
import pytest

from .looking import HANGS, ROOT, wait_for

OWN_FOLDERS = [f"{part}.root_dir" for part in ("ServerApp", "FileContentsManager", "AsyncLargeFileManager")]
OWN_FOLDERS += ["MappingKernelManager.root_dir", "ServerApp.notebook_dir", "NotebookApp.notebook_dir"]
OWN_FOLDERS += ["ServerApp.preferred_dir"]
CELLS = [
    "from dpml.lessons.promise import explorers\nexplorers.gaussian_calibration()",
    "explorers.gaussian_calibration().live()",
    "'the last cell'",
]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


# One question, since JupyterLab may put another element in an element's place at any time.
SHOWN = "return [...document.querySelectorAll(arguments[0])].filter((e) => e.getBoundingClientRect().width)"
IN_ITS_FOLDER = "assert get_ipython().starting_dir.endswith('exercises')"
LAB = """import sys
from pathlib import Path
import course
course.run.__kwdefaults__["python"] = sys.executable
sys.exit(course.lab(Path.cwd(), *sys.argv[1:]))"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of `course.py lab` with a chapter, its exercises and some explorers, without a password.

    The reader's own Jupyter has other folders configured, and a kernel that does not start.
    """
    folder = tmp_path_factory.mktemp("lab")
    for name in ("config", "other", "data/kernels/python3", "notebooks/exercises"):
        (folder / name).mkdir(parents=True)
    for name in ("notebooks/01_promise.ipynb", "notebooks/exercises/01_promise.ipynb"):
        shutil.copy(ROOT / name, folder / name)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    nbformat.write(notebook, folder / "notebooks" / "explorer.ipynb")
    foreign = '{"argv": ["foreign"], "display_name": "Foreign"}'
    (folder / "data/kernels/python3/kernel.json").write_text(foreign, encoding="utf-8")
    own = [f"c.{name} = {str(folder / 'other')!r}\n" for name in OWN_FOLDERS]
    (folder / "config/jupyter_server_config.py").write_text("".join(own), encoding="utf-8")
    port, log = free_port(), folder / "lab.log"
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
    }
    words = [sys.executable, "-c", LAB, "--no-browser", "--allow-root", f"--ServerApp.port={port}"]
    words += ["--ServerApp.ip=127.0.0.1", "--ServerApp.port_retries=0", "--IdentityProvider.token="]

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api", timeout=HANGS):
                return True
        except OSError:
            assert server.poll() is None, log.read_text(encoding="utf-8")[-2000:]
            return False

    with log.open("w", encoding="utf-8") as out:
        server = subprocess.Popen(
            words, env=environment, cwd=folder, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            wait_for("JupyterLab to answer", answers)
            yield f"http://127.0.0.1:{port}"
        finally:
            with contextlib.suppress(ProcessLookupError):  # it ended by itself
                os.killpg(server.pid, signal.SIGTERM)  # with what it started
            server.wait(HANGS)


def run_cell(browser: Any, number: int) -> None:
    """Run a code cell, and wait for its end. On a busy machine JupyterLab may miss a key: then it is pressed again."""
    from selenium.webdriver.common.keys import Keys

    def part(selector: str) -> Any:
        return browser.find_elements("css selector", f".jp-CodeCell {selector}")[number]

    before, looks = part(".jp-InputPrompt").text, itertools.count()

    def ran() -> bool:
        now = part(".jp-InputPrompt").text
        if now == before and next(looks) % 100 == 0:  # ten seconds
            part(".cm-content").click()
            browser.switch_to.active_element.send_keys(Keys.CONTROL, Keys.ENTER)
        return now != before and bool(re.fullmatch(r"\[\d+\]:", now))

    wait_for(f"cell {number} to run", ran)


def test_an_explorer_moves_by_keyboard_in_jupyterlab_and_live(browser: Any, lab: str) -> None:
    from selenium.webdriver.common.keys import Keys

    all_of, js = functools.partial(browser.find_elements, "css selector"), browser.execute_script

    def shown(selector: str) -> list[Any]:
        """What an output shows, while no cell has written to the standard error."""
        said = [found.text for found in all_of('.jp-RenderedText[data-mime-type="application/vnd.jupyter.stderr"]')]
        assert said == []
        return js(SHOWN, selector)

    browser.get(f"{lab}/lab/tree/explorer.ipynb?reset")
    wait_for("the notebook's cells", lambda: len(all_of(".jp-CodeCell .cm-content")) >= 3)
    wait_for("the kernel", lambda: all_of('.jp-Notebook-ExecutionIndicator[data-status="idle"]'))
    for number in range(2):
        run_cell(browser, number)
    ready = ".dpml-explorer[data-ready] .dpml-controls input[type=range]"
    slider = wait_for("the explorer's controls", lambda: shown(ready))[0]
    state = "const r = document.querySelector('.dpml-explorer[data-ready]');"
    curve = state + "return Array.from(r.querySelectorAll('path.m')).map(p => p.getAttribute('d')).join()"
    cell = (
        "return Array.from(document.querySelectorAll('.jp-Cell')).findIndex(c => c.classList.contains('jp-mod-active'))"
    )

    slider.click()
    js("arguments[0].focus()", slider)
    where = js(cell)
    for key in (Keys.HOME, Keys.ARROW_RIGHT, Keys.END, Keys.ARROW_LEFT, Keys.ARROW_DOWN):
        text, drawn = slider.get_attribute("aria-valuetext"), js(curve)
        slider.send_keys(key)
        assert slider.get_attribute("aria-valuetext") != text, key
        assert js(curve) != drawn, key
        assert js(cell) == where, "the key moved to another cell"

    wait_for("the live face", lambda: shown(".jp-OutputArea .dpml-live svg"))
    live = "return document.querySelector('.dpml-live .dpml-panels').getAttribute('aria-label')"
    before = js(live)
    box = wait_for("the number box", lambda: shown(".jp-OutputArea .widget-text input[type=number]"))[-1]
    box.click()
    box.send_keys(Keys.CONTROL + "a")
    box.send_keys("7.5", Keys.ENTER)
    after = wait_for("the live figure to follow", lambda: js(live) != before and js(live))
    assert "7.5" in after
    assert shown(".dpml-live svg")


def test_a_student_answers_in_the_lab_of_the_course(browser: Any, lab: str) -> None:
    """`course.py lab`: the copies alone, no teacher's tools, no news; a check cannot be changed, and judges.

    The kernel is that of the environment, in the folder of the notebook.
    """
    from selenium.webdriver.common.keys import Keys

    all_of = functools.partial(browser.find_elements, "css selector")
    browser.get(f"{lab}/lab/tree/exercises/01_promise.ipynb?reset")
    wait_for("the notebook", lambda: all_of(".jp-CodeCell .cm-content"))
    wait_for("the kernel", lambda: all_of('.jp-Notebook-ExecutionIndicator[data-status="idle"]'))
    with urllib.request.urlopen(f"{lab}/api/contents", timeout=HANGS) as answer:
        names = {entry["name"] for entry in json.load(answer)["content"]}
    assert names == {"README.md", "01_promise.ipynb", "explorer.ipynb", "exercises"}
    assert all_of(".Toastify__toast, .jp-toast-button") == []
    assert "grader" not in " ".join(found.text for found in all_of(".lm-MenuBar-itemLabel"))
    _, answer_cell, check = all_of(".jp-CodeCell .cm-content")[:3]
    assert (check.get_attribute("aria-readonly"), answer_cell.get_attribute("aria-readonly")) == ("true", None)
    before = check.text
    check.click()
    check.send_keys("print()")
    assert check.text == before == "items.check_mean_noise(mean_noise)"
    verdicts, last = list[str](), ".jp-Cell:has(.cm-content[aria-readonly]) .jp-OutputArea-output"
    for answer_text in ("1 / epsilon", "1 / (n * epsilon)"):
        answer_cell.click()
        answer_cell.send_keys(Keys.CONTROL + "a")
        answer_cell.send_keys(f"mean_noise = lambda *, n, epsilon: {answer_text}; {IN_ITS_FOLDER}")
        for number in range(3):
            run_cell(browser, number)
        verdicts.append(wait_for("a verdict", lambda: [o.text for o in all_of(last) if o.text])[0])
    assert verdicts[0].startswith("Not yet: ") and "the noise for the sum" in verdicts[0]
    assert verdicts[1].startswith("✓ mean_noise")
