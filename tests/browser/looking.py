"""How the browser tests build pages, open them, and ask what they show."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from book.ext import api

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"
SOURCES = [ROOT / name for name in ("_config.yml", "_toc.yml", "book", "dpml", "experiments", "notebooks")]
PHONE, DESKTOP = (390, 844), (1280, 900)
HANGS = 600  # seconds after which a page is taken to hang, also on a slow machine
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--force-color-profile=srgb",
    "--disable-features=BackForwardCache",  # which starts a process for each page, twice the work; no test goes back
)


def pages() -> list[str]:
    """The pages of the book as paths below the site, with those made from the package."""
    folders = ("book/*.md", "notebooks/[0-9]*.ipynb", "notebooks/exercises/[0-9]*.ipynb")
    written = [path for folder in folders for path in sorted(ROOT.glob(folder))]
    names = [path.relative_to(ROOT).with_suffix("").as_posix() for path in written]
    return [f"{page}.html" for page in (*names, "book/api/index", *map(api.page_of, api.homes()))]


def newest(*paths: Path) -> float:
    """When the last change was made below the paths; caches and hidden files do not count."""
    files = [file for path in paths for file in (path, *path.rglob("*")) if file.is_file()]
    own = [file for file in files if not any(part[0] in "._" for part in file.relative_to(ROOT).parts[1:-1])]
    return max((file.stat().st_mtime for file in own if file.name[0] != "."), default=0.0)


def wait_for(what: str, condition: Callable[[], Any]) -> Any:
    """What the condition returns that is true, asked again and again: one question of the driver must be short."""
    deadline, pause = time.monotonic() + HANGS, 0.01
    while time.monotonic() < deadline:
        if found := condition():
            return found
        pause = min(1.2 * pause, 0.1)  # what comes at once is not waited for, and what takes long is seldom asked for
        time.sleep(pause)
    raise AssertionError(f"waited {HANGS} s for {what}")


def build(book: Path, *options: str) -> str:
    """Build the site of a book; returns what is said if that fails, else nothing."""
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build", *options, str(book)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "JUPYTER_PREFER_ENV_PATH": "1"}
    done = subprocess.run(command, cwd=book, env=environment, capture_output=True, text=True, encoding="utf-8")
    return done.stdout + done.stderr if done.returncode else ""


def settings_of_the_book(folder: Path, *, page: str) -> None:
    """Make a folder the book of one page, with the settings of the course; no notebook of it runs."""
    for name in ("ext", "static"):
        shutil.copytree(ROOT / "book" / name, folder / "book" / name)
    shutil.copy(ROOT / "book" / "references.bib", folder / "book")
    config = (ROOT / "_config.yml").read_text(encoding="utf-8")
    config = config.replace("execute_notebooks: cache", "execute_notebooks: off")
    (folder / "_config.yml").write_text(config, encoding="utf-8")
    (folder / "_toc.yml").write_text(f"format: jb-book\nroot: {page}\n", encoding="utf-8")


def resize(driver: Any, size: tuple[int, int]) -> None:
    """Lay the page out for a window of this size."""
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def prefer(driver: Any, scheme: str) -> None:
    """Tell pages that the reader's system prefers the colour scheme "light" or "dark"."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


NAMED_ROLES = {
    *("button", "checkbox", "combobox", "figure", "image", "img", "link", "radio", "searchbox", "slider"),
    *("spinbutton", "switch", "textbox"),
}


@contextlib.contextmanager
def without_formulas(driver: Any) -> Iterator[None]:
    """While formulas, thousands of nodes without a control among them, are not shown."""
    hide = "document.head.append(Object.assign(document.createElement('style'), {id: 'no-formulas', textContent: "
    driver.execute_script(hide + "'mjx-container { display: none !important; }'}))")
    yield
    driver.execute_script("document.getElementById('no-formulas').remove()")


@contextlib.contextmanager
def without_mathjax(driver: Any) -> Iterator[None]:
    """While pages come without what sets their formulas, which takes longer than all else on them."""
    driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/tex-chtml.js*"]})
    yield
    driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})


def nameless(driver: Any) -> list[str]:
    """The controls, links and pictures that a screen reader would announce without a name."""
    tree = driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    found = []
    for node in tree:
        role = node.get("role", {}).get("value", "")
        if not node.get("ignored") and role in NAMED_ROLES and not node.get("name", {}).get("value", "").strip():
            found.append(f"{role} {node.get('description', {}).get('value', '')} #{node.get('backendDOMNodeId')}")
    return found


def requests_of(driver: Any) -> list[tuple[str, int]]:
    """Every request since the last call, with its status (0: it failed or was never answered)."""
    asked: dict[str, list[Any]] = {}
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        parameters = message["params"]
        if message["method"] == "Network.requestWillBeSent":
            asked[parameters["requestId"]] = [parameters["request"]["url"], 0]
        elif message["method"] == "Network.responseReceived" and parameters["requestId"] in asked:
            asked[parameters["requestId"]][1] = parameters["response"]["status"]
        elif message["method"] == "Network.requestServedFromCache" and parameters["requestId"] in asked:
            asked[parameters["requestId"]][1] = 200
    return [(url, status) for url, status in asked.values()]


QUESTIONS = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")


def ask(driver: Any, function: str) -> Any:
    """What a function of looking.js says of the page."""
    return driver.execute_script(f"{QUESTIONS}\nreturn {function}();")


def ask_and_wait(driver: Any, function: str, *arguments: str) -> Any:
    """What a function of looking.js says of the page when it is done."""
    return driver.execute_async_script(f"{QUESTIONS}\n{function}(...arguments);", *arguments)


def open_page(driver: Any, url: str) -> None:
    """Open a page and wait until its formulas are set."""
    driver.get(url)
    assert ask_and_wait(driver, "settled"), f"MathJax did not finish on {url}"
