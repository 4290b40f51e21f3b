"""The built site, a server for it, and one browser for the whole session."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

import course
from tests.serving import served

from .looking import DESKTOP, FLAGS, HANGS, ROOT, SITE, SOURCES, build, newest, prefer, resize


def missing(what: str) -> NoReturn:
    """Fail where a browser is required (continuous integration), else skip and say why."""
    reason = f"{what} is not on this machine, so the pages are not tested in a browser"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the built site, built again if a source is newer."""
    if not (SITE / "objects.inv").is_file() or newest(*SOURCES) > newest(SITE / "objects.inv"):
        course.drop_stale_outputs(ROOT)  # as `python3 course.py site` does before it builds
        if failed := build(ROOT, "--all", "-W", "--keep-going"):
            (SITE / "objects.inv").unlink(missing_ok=True)  # so that the next session builds again
            output = failed.splitlines()
            said = [line for line in output if re.search(r"WARNING:|ERROR:|Error:", line)]
            pytest.fail("the site does not build:\n" + "\n".join(said[:20] or output[-20:]), pytrace=False)
    return SITE


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """Where the site is served."""
    with served(site) as where:
        yield where


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A Chromium without a window, with a fresh profile, that writes down every request and message."""
    from selenium import webdriver

    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
    driver_program = shutil.which("chromedriver")
    if program is None:
        missing("Chromium")
    if driver_program is None:
        missing("chromedriver")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = program
        for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={DESKTOP[0]},{DESKTOP[1]}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver_program))
        driver.set_page_load_timeout(HANGS)
        driver.set_script_timeout(HANGS)
        # Without this the window counts as one in the background, where nothing has the focus.
        driver.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
        try:
            yield driver
        finally:
            driver.quit()


@pytest.fixture
def browser(chromium: Any) -> Any:
    """It, with nothing left of another test: an empty page of a desk's size, in the light, and an empty log."""
    chromium.get("about:blank")
    resize(chromium, DESKTOP)
    prefer(chromium, "light")
    for log in ("performance", "browser"):
        chromium.get_log(log)
    return chromium
