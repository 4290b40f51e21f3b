"""The whole book as one PDF file, made of the pages of the built site: `python3 course.py pdf`.

The chapters, their exercises and the reference stand in the order in which "next" leads through the site, and links
between them stay within the file. A figure is its still picture, for paper has no controls; the solutions of the
exercises come at the end. The pages that describe the package's functions stay on the site. A browser of the Chromium
family prints the pages, without a network.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urldefrag

from bs4 import BeautifulSoup, Tag

FIRST, LEFT_OUT = "book/index.html", "book/api/"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "msedge", "microsoft-edge")
PLACES = (  # where installers put a browser that is not on the path
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    os.path.expandvars(r"%ProgramFiles%\Google\Chrome\Application\chrome.exe"),
    os.path.expandvars(r"%ProgramFiles(x86)%\Microsoft\Edge\Application\msedge.exe"),
)
STYLE = """
@page { size: A4; margin: 18mm 17mm; @bottom-center { content: counter(page); font: 9pt sans-serif } }
html { font-size: 9.5pt }
.dpml-paper { break-before: page }
.dpml-paper:first-child { break-before: auto }
.dpml-paper h1 { display: block !important; margin: 0 0 1rem }
.dpml-still { break-inside: avoid; margin: 1rem auto; text-align: center }
.dpml-still img { max-width: 100%; max-height: 9cm }
"""
REFERS = ("for", "headers", "aria-labelledby", "aria-describedby", "aria-controls")
LINKS = ("href", "src", "xlink:href")


def pages(site: Path, *, bound: set[str] | None = None) -> Iterator[tuple[str, BeautifulSoup]]:
    """Each page with its address, in the order of the site; with `bound`, these pages only.

    Of the others, most of the site, the head alone is read: it says which page is next.
    """
    page = FIRST
    while page:
        wanted = not page.startswith(LEFT_OUT) and (bound is None or page in bound)
        text = (site / page).read_text(encoding="utf-8")
        soup = BeautifulSoup(text if wanted else text.partition("</head>")[0], "html.parser")
        if wanted:
            yield page, soup
        following = soup.select_one('link[rel="next"]')
        page = following and posixpath.normpath(posixpath.join(posixpath.dirname(page), str(following["href"])))


def place(page: str, name: str = "") -> str:
    """The name, in the one page, of a place of another page, or of its beginning."""
    return "--".join(filter(None, (re.sub(r"\W", "-", page.removesuffix(".html")), name)))


def moved(link: str, page: str, bound: set[str]) -> str:
    """A link of a page as it must stand on the one page, which lies at the top of the site."""
    if re.match(r"[a-z][a-z+.-]*:|//", link):
        return link
    target, name = urldefrag(link)
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target)) if target else page
    if path in bound:
        return f"#{place(path, name)}"
    return f"{path}#{name}" if name else path


def article(soup: BeautifulSoup, page: str, bound: set[str]) -> Tag:
    """What a page shows, ready to stand beside the others."""
    found = soup.select_one("article.bd-article")
    assert found is not None, f"{page} has no article"
    for figure in found.select(".dpml-explorer"):
        picture = figure.select_one("img")
        assert picture is not None, f"{page} has a figure without a still picture"
        caption = soup.new_tag("figcaption", string=str(picture["alt"]))
        figure.clear()
        figure.extend([picture, caption])
        figure.name, figure["class"] = "figure", "dpml-still"
    for part in found.select("script, noscript, button, section.dpml-answer, .headerlink, .toctree-wrapper"):
        part.decompose()
    for part in found.find_all(True):
        for name, value in part.attrs.items():
            if name == "id":
                part[name] = place(page, value)
            elif name in REFERS:
                words = value if isinstance(value, list) else value.split()
                part[name] = " ".join(place(page, word) for word in words)
            elif name in LINKS:
                part[name] = moved(value, page, bound)
            elif isinstance(value, str):
                part[name] = re.sub(r"url\(#([^)]+)\)", lambda found: f"url(#{place(page, found[1])})", value)
    for details in found.select("details"):
        details["open"] = ""
        if "Show the code" in details.get_text():  # that of a drawing
            details.extract()
    found.name, found["id"], found["class"] = "section", place(page), "dpml-paper"
    return found


def taken_out(sheet: Tag, soup: BeautifulSoup) -> list[Tag]:
    """The solutions of a page, which leave it, below the titles of their items."""
    taken: list[Tag] = []
    last = None
    for fold in sheet.select("details.above-input"):
        if not fold.summary or "solution" not in fold.summary.get_text():
            continue
        item = fold.find_previous(["h2", "h3"])
        if item is not last:
            taken.append(soup.new_tag("h3", string=item.get_text() if item else ""))
        last, fold.name = item, "div"
        fold.summary.extract()
        taken.append(fold.extract())
    return taken


def bind(site: Path, *, bound: set[str] | None = None) -> str:
    """The text of the one page; with `bound`, of these pages only."""
    found = dict(pages(site, bound=bound))
    frame_page = next(page for page in reversed(found) if "mathjax" in str(found[page].head))
    frame = BeautifulSoup((site / frame_page).read_text(encoding="utf-8"), "html.parser")
    book = frame.select_one("article.bd-article")
    assert book is not None
    assert frame.title is not None
    frame.title.string = "Differential privacy for machine learning"
    frame.title.insert_after(frame.new_tag("style", string=STYLE))
    bars = ".bd-sidebar, .bd-sidebar-primary, .bd-sidebar-secondary"
    for part in frame.select(f"nav, header, footer, {bars}, dialog, .onlyprint"):
        part.decompose()
    for part in frame.select(",".join(f"[{name}]" for name in ("href", "src"))):
        for name in ("href", "src"):
            if name in part.attrs:
                part[name] = moved(str(part[name]), frame_page, set())
    ends = frame.new_tag("section", attrs={"class": "dpml-paper"})
    ends.append(frame.new_tag("h1", string="Solutions"))
    book.clear()
    for page, soup in found.items():
        part = article(soup, page, set(found))
        if taken := taken_out(part, frame):
            ends.append(frame.new_tag("h2", string=part.h1.get_text() if part.h1 else page))
            ends.extend(taken)
        book.append(part)
    book.append(ends)
    return str(frame)


def browser() -> str:
    """The browser that prints.

    Raises:
        SystemExit: if there is none.
    """
    found = [path for path in (*map(shutil.which, BROWSERS), *PLACES) if path and Path(path).is_file()]
    if not found:
        sys.exit("A PDF file is printed by Chromium, Chrome or Edge, and none of them is installed.")
    return found[0]


def write(site: Path, target: Path, *, bound: set[str] | None = None) -> None:
    """Print the pages of a built site into one file.

    Raises:
        SystemExit: if there is no browser or no site, or no file comes.
    """
    program = browser()
    if not (site / FIRST).is_file():
        sys.exit("The pages are not built yet: python3 course.py site")
    page = site / "paper.html"
    page.write_text(bind(site, bound=bound), encoding="utf-8")
    target.unlink(missing_ok=True)
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            flags = ["--headless", "--disable-gpu", f"--user-data-dir={profile}", "--no-pdf-header-footer"]
            flags += ["--no-sandbox"] * (hasattr(os, "geteuid") and os.geteuid() == 0)
            # Its clock stands still while it works: the budget is for waiting only.
            flags += ["--virtual-time-budget=60000", "--generate-pdf-document-outline", f"--print-to-pdf={target}"]
            done = subprocess.run([program, *flags, page.as_uri()], capture_output=True, text=True, errors="replace")
    finally:
        page.unlink()
    if not target.is_file():
        sys.exit(f"The browser printed no file: {(done.stderr.splitlines() or ['it says no more'])[-1]}")


if __name__ == "__main__":
    built = Path(__file__).resolve().parents[1] / "_build"
    write(built / "html", built / "dpml.pdf")
    print(f"The book: {built / 'dpml.pdf'}")
