"""The book in one file: nothing of the pages is lost on the way, and a browser prints it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup

from book import pdf

CHAPTER, SHEET, NOTATION = "notebooks/01_promise.html", "notebooks/exercises/01_promise.html", "book/notation.html"


def test_the_file_holds_the_whole_book(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chapters and sheets in order, each name once, still figures, and every solution at the end alone."""
    moving, solved, read = [], {}, pdf.pages

    def noted(site: Path, **given: Any) -> Iterator[tuple[str, Any]]:
        """The pages on their way into the file, each looked at before it is taken apart."""
        for page, soup in read(site, **given):
            moving.extend(soup.select(".dpml-explorer"))
            if "/exercises/" in page:
                folds = [fold for fold in soup.select("details.above-input") if "solution" in fold.summary.get_text()]
                assert len(folds) >= 5
                solved[page] = folds[0].select_one("pre").get_text()
            yield page, soup

    monkeypatch.setattr(pdf, "pages", noted)
    bound = BeautifulSoup(pdf.bind(site), "html.parser")
    found = [part["id"] for part in bound.select("section.dpml-paper[id]")]
    for folder in ("notebooks", "notebooks/exercises"):
        places = [pdf.place(path.relative_to(site).as_posix()) for path in sorted(site.glob(f"{folder}/[0-9]*.html"))]
        assert places and [name for name in found if name in places] == places
    names = [part["id"] for part in bound.select("[id]")]
    assert len(names) == len(set(names)) > 500
    links = {link["href"][1:] for link in bound.select('article a[href^="#"]')}
    assert len(links) > 40 and links <= set(names)
    used = [part.get("src") or part.get("href") for part in bound.select("link[href], script[src], article img[src]")]
    used = [name for name in used if not name.startswith("data:")]
    assert any("mathjax" in name for name in used)
    assert [name for name in used if not (site / re.split(r"[?#]", name)[0]).is_file()] == []
    assert bound.select("article script, article input, article button") == []
    last = bound.select("section.dpml-paper")[-1]
    assert last.h1.get_text() == "Solutions"
    words = last.get_text()
    assert solved
    for page, first in solved.items():
        assert first in words, page
        assert first not in bound.select_one(f"#{pdf.place(page)}").get_text(), page
    assert len(bound.select("figure.dpml-still > img")) == len(moving) >= 40


def test_a_browser_prints_a_file(site: Path, tmp_path: Path, browser: Any) -> None:
    target = tmp_path / "book.pdf"
    pdf.write(site, target, bound={CHAPTER, SHEET, NOTATION})
    text = target.read_bytes()
    assert text.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type /Page\b", text)) > 20
    assert b"/Outlines" in text
    assert not (site / "paper.html").exists()


def test_without_a_site_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "browser", lambda: "none")
    with pytest.raises(SystemExit, match=r"python3 course\.py site"):
        pdf.write(tmp_path, tmp_path / "book.pdf")
