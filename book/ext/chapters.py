"""How the chapters hang together: second pages and exercises below them, numbers as links, and what needs what.

Minutes and needs are read from the first cell of each notebook, where the reader reads them too.
"""

from __future__ import annotations

import functools
import html
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx_external_toc.api import Document, FileItem, TocTree

from .docstrings import table

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("notebooks", "notebooks/exercises")
SPOKEN = re.compile(r"\b[Cc]hapter (\d\d[a-z]?)\b")
LEFT_ALONE = (nodes.reference, pending_xref, nodes.title, nodes.literal_block, nodes.literal, nodes.math, nodes.raw)
ROW, LEFT, RIGHT = 27, 90, 480  # of the drawing, in its own units


class Notebook(NamedTuple):
    """A chapter or a sheet of exercises: its document, title, minutes, and the numbers of the chapters it needs."""

    page: str
    title: str
    minutes: int
    needs: tuple[str, ...]


@functools.cache
def notebooks(folder: str) -> dict[str, Notebook]:
    """Number ("05", "10b" for a second page) -> notebook, for all in a folder that have one.

    Raises:
        ValueError: for a notebook whose first cell does not say how many minutes it takes and what it needs.
    """
    found = {}
    for path in sorted(ROOT.glob(f"{folder}/[0-9][0-9]*_*.ipynb")):
        text = "".join(json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"])
        said = re.search(r"^\*(\d+) minutes[.:][^*]*?You need: ([^*]*)\*", text, re.MULTILINE)
        if not said:
            raise ValueError(f"{path.name} must say '*90 minutes. You need: ...*' in its first cell")
        needed = re.split(r"\.\s", said[2])[0]  # what only helps stands in the next sentence
        needs = tuple(re.findall(r"\]\((?:\.\./)?(\d\d[a-z]?)_", needed))
        page = path.relative_to(ROOT).with_suffix("").as_posix()
        found[path.name.partition("_")[0]] = Notebook(page, text.splitlines()[0].strip("# "), int(said[1]), needs)
    return found


def of_slug(slug: str) -> Notebook:
    """The chapter of a slug."""
    return next(chapter for chapter in notebooks("notebooks").values() if chapter.page.partition("_")[2] == slug)


def drawing() -> str:
    """The chapters in a column, and an arc from each to those that need it directly."""
    chapters, exercises = map(notebooks, FOLDERS)
    rows = {number: ROW * (i + 0.6) for i, number in enumerate(chapters)}
    arcs, texts = "", ""
    highest = ROW * len(chapters) / 2
    for number, chapter in chapters.items():
        y = rows[number]
        for needed in sorted(set(chapter.needs).difference(*map(all_needs, chapter.needs))):
            radius = (y - rows[needed]) / 2
            width = (LEFT - 4) * (radius / highest) ** 0.7  # the longest arc fits, and short ones stay apart
            arcs += f"M{LEFT},{rows[needed]:g}A{width:.4g},{radius:g} 0 0 0 {LEFT},{y:g}"
        minutes = " + ".join(str(notebook.minutes) for notebook in (chapter, exercises.get(number)) if notebook)
        texts += f'<circle cx="{LEFT}" cy="{y:g}" r="4"/><a href="../{chapter.page}.html">'
        texts += f'<text x="{LEFT + 14}" y="{y + 4.5:g}">{html.escape(chapter.title)}</text></a>'
        texts += f'<text x="{RIGHT}" y="{y + 4.5:g}" text-anchor="end">{minutes} min</text>'
    label = (
        "Which chapter needs which, with minutes for reading and for the exercises: the table below says it in words."
    )
    size = f"0 0 {RIGHT} {ROW * len(chapters) + 6}"
    return (
        f'<svg class="dpml-chapters" viewBox="{size}" role="img" font-size="14" aria-label="{label}">'
        f'<path d="{arcs}" fill="none" stroke="currentColor" stroke-width="1.4"/>{texts}</svg>'
    )


def all_needs(number: str) -> set[str]:
    """The numbers of all chapters that this one needs, directly or not."""
    return {far for near in notebooks("notebooks")[number].needs for far in (near, *all_needs(near))}


def table_of_minutes() -> str:
    """Each chapter with its minutes, those of its exercises, and the chapters that it needs."""
    chapters, exercises = map(notebooks, FOLDERS)
    rows = []
    for number, chapter in chapters.items():
        sheet = exercises.get(number)
        needs = ", ".join(f"{{doc}}`{needed} </{chapters[needed].page}>`" for needed in chapter.needs)
        rows.append([f"{{doc}}`/{chapter.page}`", str(chapter.minutes), str(sheet.minutes) if sheet else "", needs])
    sums = [sum(notebook.minutes for notebook in found.values()) for found in (chapters, exercises)]
    rows.append(["together", *(f"{minutes / 60:.1f} hours" for minutes in sums), ""])
    return table(["chapter", "minutes", "exercises", "needs"], rows)


def enter_exercises(app: Sphinx, config: Config) -> None:
    """Second pages and exercises of a chapter stand under it in the contents: "next" leads from one to the other."""
    contents = config.external_site_map
    chapters, exercises = map(notebooks, FOLDERS)
    if Path(app.srcdir) != ROOT:  # another book with these settings
        return
    contents.root.subtrees = [tree for tree in contents.root.subtrees if tree.caption != "Exercises"]
    for number, chapter in chapters.items():
        below = {page.page: None for other, page in chapters.items() if number == other[:2] != other}
        if number in exercises:
            below[exercises[number].page] = "Exercises"
        if below:
            contents[chapter.page] = Document(chapter.page, [TocTree([FileItem(page) for page in below])])
        for page, title in below.items():
            contents[page] = Document(page, title=title)


class ChapterLinks(SphinxPostTransform):
    """The words "chapter 05" lead there."""

    default_priority = 1  # before references are resolved

    def run(self, **_: Any) -> None:
        here = self.env.docname
        for text in list(self.document.findall(nodes.Text)):
            within = text.parent
            while within is not None and not isinstance(within, LEFT_ALONE):
                within = within.parent
            if within is None and SPOKEN.search(text):
                text.parent.replace(text, self.linked(str(text), here))

    def linked(self, text: str, here: str) -> list[nodes.Node]:
        parts: list[nodes.Node] = []
        end = 0
        for found in SPOKEN.finditer(text):
            chapter = notebooks("notebooks").get(found[1])
            if chapter and chapter.page != here:
                target = self.app.builder.get_relative_uri(here, chapter.page)
                link = nodes.reference("", found[0], internal=True, refuri=target, reftitle=chapter.title)
                parts += [nodes.Text(text[end : found.start()]), link]
                end = found.end()
        return [*parts, nodes.Text(text[end:])]


def number_by_chapter(_app: Sphinx, env: Any) -> list[str]:
    """Statements count from 1 in each chapter, all kinds of them together: Definition 5.1, Theorem 5.2."""
    for page, kinds in env.toc_fignumbers.items():
        if chapter := re.match(r"notebooks/0?(\d+[a-z]?)_", page):
            for numbers in kinds.values():
                before = min(number[-1] for number in numbers.values()) - 1
                numbers.update({name: (chapter[1], number[-1] - before) for name, number in numbers.items()})
    return []


def setup(app: Sphinx) -> dict[str, Any]:
    """The contents are read at priority 900."""
    app.connect("config-inited", enter_exercises, priority=940)
    app.connect("env-get-updated", number_by_chapter, priority=900)  # after Sphinx has counted
    app.add_post_transform(ChapterLinks)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
