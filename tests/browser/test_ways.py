"""How the built pages hang together: numbers that start in each chapter, links to chapters, folded solutions."""

import itertools
import re
from pathlib import Path

import pytest

from book.ext import chapters

NOTEBOOKS = [(number, found) for folder in chapters.FOLDERS for number, found in chapters.notebooks(folder).items()]


@pytest.mark.parametrize("number, notebook", NOTEBOOKS, ids=[found.page for _, found in NOTEBOOKS])
def test_a_page_of_the_course(site: Path, number: str, notebook: chapters.Notebook) -> None:
    """Statements count from 1 in each chapter, "chapter 05" is a link, and no check answers outside a fold."""
    page = (site / f"{notebook.page}.html").read_text(encoding="utf-8")
    said = re.findall(r'caption-number">\w+ (\w+\.\d+) ', page)
    assert said == [f"{number.lstrip('0') or 0}.{i + 1}" for i in range(len(said))]
    assert notebook.title.startswith((f"{number} · ", f"Exercises {number}: "))
    others = set(chapters.notebooks("notebooks")) - {number}
    prose = re.sub(r"<(a|pre|code|title|h\d|script|nav|svg)\b.*?</\1>", "", page, flags=re.DOTALL)
    assert [
        found for found in re.findall(r"[Cc]hapter (\d\d[a-z]?)\b", re.sub("<[^>]*>", " ", prose)) if found in others
    ] == []
    unfolded = re.sub(r'<details class="admonition hide.*?</details>', "", page, flags=re.DOTALL)
    assert "BEGIN SOLUTION" not in page
    if "exercises" in notebook.page:
        assert 0 < page.count("Show the solution") <= unfolded.lower().count("write your answer here")
    assert "✓" not in unfolded
    assert not re.search(r"\d(it/s|s/it)\b", unfolded), "a progress bar that stands still"


def test_the_way_through_the_course(site: Path) -> None:
    """Next leads from a chapter to its exercises and from them to the next chapter; all stand on the page of ways."""
    at = sorted(NOTEBOOKS, key=lambda pair: (pair[0][:2], "exercises" in pair[1].page, pair[0]))
    for (_, here), (_, there) in itertools.pairwise(at):
        page = (site / f"{here.page}.html").read_text(encoding="utf-8")
        following = re.search(r'rel="next" title="[^"]*" href="([^"]*)"', page)
        assert following
        assert (site / f"{here.page}.html").parent.joinpath(following[1]).resolve() == site / f"{there.page}.html"
    ways = (site / "book/ways.html").read_text(encoding="utf-8")
    titles = [chapter.title for chapter in chapters.notebooks("notebooks").values()]
    assert [title for title in titles if title not in ways] == []


def test_a_chapter_needs_only_what_comes_before_it() -> None:
    found = chapters.notebooks("notebooks")
    assert [number for number, chapter in found.items() if any(needed >= number for needed in chapter.needs)] == []
    assert chapters.drawing().count("A") - chapters.drawing().count("aria") >= len(found) - 1
