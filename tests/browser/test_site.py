"""Every page of the built site: self-contained, without errors, reachable, readable on a phone and in the dark."""

import base64
import html
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from book.ext import api
from dpml.classroom.plain import with_plain_text
from dpml.classroom.students import make_student_version

from .looking import (
    PHONE,
    ROOT,
    ask,
    ask_and_wait,
    nameless,
    open_page,
    pages,
    prefer,
    requests_of,
    resize,
    wait_for,
    without_formulas,
)

OF_BOOK = pages()
PAGES = [*OF_BOOK, "genindex.html", "search.html"]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_keeps_what_every_page_promises(browser: Any, page: str, address: str) -> None:
    """In the dark that the system prefers, in the light, on a phone; alone, and without an error.

    Each change of scheme or width lays the whole page out again: it begins in the dark, and formulas stay hidden from
    the first question that leaves them out until the phone.
    """
    prefer(browser, "dark")
    open_page(browser, f"{address}/{page}")
    ask_and_wait(browser, "repainted", "dark")
    seen = ask(browser, "facts")
    assert (seen["twice"], seen["errors"]) == ([], []), "an id that stands twice"
    assert [source for source, alt in seen["alts"] if not (alt or "").strip()] == []
    if page in OF_BOOK:
        headings_are_in_order(seen)
        formulas_are_set(seen)
    with without_formulas(browser):
        dark = ask(browser, "contrast")
        prefer(browser, "light")
        ask_and_wait(browser, "repainted", "light")
        light = ask(browser, "contrast")
        assert nameless(browser) == []
        resize(browser, PHONE)
    assert page not in OF_BOOK or (max(dark["body"][:3]) < 60 and min(light["body"][:3]) > 240), "the background"
    for side in (dark, light):
        assert page not in OF_BOOK or (side["counted"] > 20 and side["worst"][0][0] >= 4.5), side["worst"]
    fits_a_phone(ask(browser, "widths"))
    requests, own = requests_of(browser), (address, "data:", "file:", "blob:", "about:")
    assert any(url.startswith(address) for url, _ in requests), "the log is empty, so it proves nothing"
    assert [url for url, _ in requests if not url.startswith(own)] == []
    assert [one for one in requests if one[0].startswith(address) and one[1] not in (200, 304)] == []
    assert [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def headings_are_in_order(seen: dict[str, Any]) -> None:
    levels = [level for level, _ in seen["headings"]]
    assert (seen["tops"], levels[0], seen["language"]) == (1, 1, "en")
    assert seen["title"].strip() and all(text for _, text in seen["headings"])
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), seen["headings"]


def formulas_are_set(seen: dict[str, Any]) -> None:
    assert re.findall(r"\$\$|\\\(|\\\[|\\begin|\\label|\\eqref|\?\?", seen["text"]) == []
    assert (seen["wrong"], seen["raw"]) == (0, []), "a command of LaTeX is shown as written"
    assert seen["typeset"] >= seen["formulas"]
    assert seen["readable"] == seen["typeset"], "a screen reader finds no MathML for some formula"
    assert [number for number in seen["numbers"] if not re.fullmatch(r"\(\d[\d.]*\)", number)] == []
    for text, target in seen["references"]:
        assert text, f"an internal link to {target} has no text"
        assert "#equation-" not in target or re.fullmatch(r"\(?\d[\d.]*\)?", text), f"{target} shows {text!r}"


def fits_a_phone(phone: dict[str, Any]) -> None:
    assert phone["client"] == 390
    assert phone["scroll"] <= phone["client"], f"these stick out: {phone['out']}"
    assert phone["out"] == []
    assert phone["cut"] == [], "a formula wider than its box must start at the left"
    assert phone["small"] == [], "labels of a figure must have at least 9 pixels"


LINK = re.compile(r'<(?:a|img|link|script)\b[^>]*?\s(?:href|src)="([^"]*)"')
PLACE = re.compile(r'<[^>]*?\sid="([^"]+)"')


def targets(page: Path) -> Iterator[tuple[Path, str]]:
    """Where the links of a page lead inside the site, as file and fragment."""
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        parts = urlsplit(html.unescape(link))
        if not parts.scheme and not parts.netloc:
            yield (page.parent / unquote(parts.path)).resolve() if parts.path else page, unquote(parts.fragment)


def test_internal_links_and_fragments_lead_somewhere(site: Path) -> None:
    """On the files: from the pages of the book, every link to another file of the site, and to a place inside it."""
    read: dict[Path, list[tuple[Path, str]]] = {}
    waiting = [site / page for page in PAGES]
    while waiting:
        page = waiting.pop()
        if page not in read and page.is_file():
            read[page] = list(targets(page))
            waiting += [place for place, _ in read[page] if place.suffix == ".html"]
    assert len(read) >= len(PAGES)
    places = {page: set(PLACE.findall(page.read_text(encoding="utf-8"))) for page in read}
    broken = [
        f"{page.relative_to(site)}: {place.relative_to(site)}#{fragment}"
        for page, links in read.items()
        for place, fragment in links
        if not place.is_file() or (fragment and place in places and fragment not in places[place])
    ]
    assert broken == []


def test_nothing_of_the_site_points_to_a_content_network(site: Path) -> None:
    """Also where no test clicks: no page has a script, style or picture from elsewhere."""
    outside = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*(?:src|href)\s*=\s*["']?(?:https?:)?//""", re.IGNORECASE)
    assert [
        str(file.relative_to(site)) for file in site.rglob("*.html") if outside.search(file.read_text(encoding="utf-8"))
    ] == []


SOUGHT = {
    "laplace": "notebooks/01_promise.html",
    **dict.fromkeys(["Renyi", "R\u00e9nyi", "RDP"], "book/api/accounting_rdp.html"),
    **dict.fromkeys(["Machler", "M\u00e4chler"], "book/api/numerics.html"),
    "SVT": "notebooks/08_sparse_vector.html",
    "PLD": "book/api/accounting_pld.html",
    "DP-SGD": "notebooks/05_dpsgd.html",
    "gaussian_sigma": "book/api/mechanisms.html",
}


def test_the_search_finds_what_is_sought(browser: Any, address: str, site: Path) -> None:
    """The words are looked up in the browser, in a file of the site that knows each function's page."""
    found = "return Array.from(document.querySelectorAll('#search-results li a'), (a) => a.getAttribute('href'))"
    for words, page in SOUGHT.items():
        browser.get(f"{address}/search.html?q={words}")
        # The results arrive one after another.
        wait_for(words, lambda page=page: any(link.startswith(page) for link in browser.execute_script(found)))
    index = json.loads((site / "searchindex.js").read_text(encoding="utf-8")[len("Search.setIndex(") : -1])
    there = {
        f"{prefix}.{entry[4]}": index["docnames"][entry[0]]
        for prefix, entries in index["objects"].items()
        for entry in entries
    }
    shown = {entry.path: api.page_of(module) for module, entries in api.homes().items() for entry in entries}
    assert {path for path, page in shown.items() if there.get(path) != page} == set()


@pytest.mark.parametrize("page", [page for page in OF_BOOK if page.startswith("notebooks/")])
def test_a_notebook_is_offered_as_a_file_without_its_solutions(site: Path, page: str) -> None:
    shown = (site / page).read_text(encoding="utf-8")
    [(data, name)] = re.findall(r'href="data:application/x-ipynb\+json;base64,([^"]+)" download="([^"]+)"', shown)
    source = ROOT / Path(page).with_suffix(".ipynb")
    student = make_student_version(json.loads(source.read_text(encoding="utf-8")), name=name)
    assert (json.loads(base64.b64decode(data)), name) == (with_plain_text(student), source.name)
    assert "_sources/notebooks" not in shown


def test_the_errata_page_has_every_difference_and_no_other(site: Path) -> None:
    """Counted in the sources of the package, not by the code that makes the page."""
    text = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "dpml").rglob("*.py"))
    printed = re.findall(r"^\s*Printed: ", text, re.MULTILINE)
    page = (site / "book" / "errata.html").read_text(encoding="utf-8")
    assert len(printed) == len(re.findall(r"<dt[^>]*>Printed", page)) > 0


def test_the_front_page_names_every_chapter_and_both_commands(site: Path) -> None:
    assert "book/index.html" in (site / "index.html").read_text(encoding="utf-8"), "the first page leads nowhere"
    page = (site / "book" / "index.html").read_text(encoding="utf-8")
    article = page[page.index("<article") : page.index("</article")]
    for path in pages():
        if re.match(r"notebooks/\d\d_", path):
            assert f'href="../{path}"' in article, path
    assert "python3 course.py site" in article
    assert "python3 course.py test" in article
    assert "dpml-explorer" in article
