"""What a student, or a class, has solved: read from saved notebooks, of which nothing is run.

`python3 course.py progress` reads the copies in ``work/`` and writes ``work/progress.html``; with a FOLDER that holds a
folder for each student, it writes ``FOLDER/progress.html``, students beside items. A check counts as passed if
its cell is that of the lesson and its saved output has the tick. That is no grade: an output can be typed.
"""

from __future__ import annotations

import html
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Check", "Lesson", "lessons", "read", "state"]

STATES = {  # sign and words; the better of two copies counts: the later one in this list
    "edited": ("!", "the check was edited"),
    "left": ("·", "not tried yet"),
    "tried": ("…", "tried"),
    "read": ("✎", "argued: compare it with its points"),
    "passed": ("✓", "passed"),
}
SOLVED = ("passed", "read")


class Check(NamedTuple):
    """A locked cell of a lesson that checks an item."""

    item: str  # the title of the item
    source: str


class Lesson(NamedTuple):
    """A notebook of the course with checks: the id of each check cell, and what stands there."""

    name: str
    title: str
    checks: dict[str, Check]

    @property
    def items(self) -> list[str]:
        return list(dict.fromkeys(check.item for check in self.checks.values()))


def _text(part: Mapping[str, Any], key: str) -> str:
    """What a notebook holds as one text or as its lines."""
    return "".join(map(str, part.get(key, "")))


def lessons(notebooks: Path) -> list[Lesson]:
    """The notebooks of the course that have checks, each chapter before its exercises.

    Raises:
        ValueError: if there is none in the folder.
    """
    found = []
    for path in sorted(notebooks.rglob("[0-9][0-9]*.ipynb"), key=lambda path: (path.name, len(path.parts))):
        title, item, checks = "", "", dict[str, Check]()
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            text = _text(cell, "source")
            if cell["cell_type"] == "markdown":
                heading = re.search(r"(?m)^#{1,2} (.*)$", text)
                item = heading[1] if heading else item
                title = title or item
            elif text.startswith("items.check_"):
                checks[cell["id"]] = Check(item, text)
        if checks:
            found.append(Lesson(path.relative_to(notebooks).as_posix(), title, checks))
    if not found:
        raise ValueError(f"notebooks must be the folder of the lessons, got {notebooks}")
    return found


def state(cell: Mapping[str, Any], check: Check) -> str:
    """One of "passed", "read", "tried", "left" and "edited", from the saved output of a check's cell."""
    if _text(cell, "source").strip() != check.source.strip():
        return "edited"
    outputs = cell.get("outputs", [])
    failed = any(output.get("output_type") == "error" for output in outputs)
    said = "".join(_text(output, "text") + _text(output, "traceback") for output in outputs)
    if not said or "not written yet" in said:
        return "left"
    if failed:
        return "tried"
    return "passed" if said.startswith("✓") else "read" if "read, not graded" in said else "tried"


def read(path: Path, known: Sequence[Lesson]) -> tuple[Lesson, dict[str, str]] | None:
    """The lesson that a saved notebook is a copy of, and the state of each of its items; None for another notebook.

    Raises:
        ValueError: naming the file, if it is no notebook.
    """
    try:
        cells = json.loads(path.read_text(encoding="utf-8-sig"))["cells"]
        mine = {cell["id"]: cell for cell in cells if "id" in cell}
    except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
        raise ValueError(
            f"{path.name} must be a notebook, and cannot be read as one ({type(error).__name__})"
        ) from error
    lesson = max(known, key=lambda one: len(one.checks.keys() & mine.keys()))
    if not lesson.checks.keys() & mine.keys():
        return None
    found: dict[str, set[str]] = {}
    for name, check in lesson.checks.items():
        try:
            now = state(mine[name], check)
        except (KeyError, AttributeError, TypeError):  # no such cell, or outputs that no Jupyter has written
            now = "edited"
        found.setdefault(check.item, set()).add(now)
    return lesson, {item: together(states) for item, states in found.items()}


def together(states: set[str]) -> str:
    """The state of an item with several checks."""
    if "edited" in states:
        return "edited"
    if states == {"passed", "read"}:
        return "passed"
    return "tried" if len(states) > 1 else next(iter(states))


def gathered(folder: Path, known: Sequence[Lesson]) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Name of a lesson -> state of its items, of all notebooks below a folder; and a sentence for each that is none."""
    best: dict[str, dict[str, str]] = {}
    faults, order = [], list(STATES)
    for path in sorted(folder.rglob("*.ipynb")):
        if ".ipynb_checkpoints" in path.parts:
            continue
        try:
            came = read(path, known)
        except ValueError as error:
            faults.append(str(error))
            continue
        if came:
            lesson, items = came
            before = best.setdefault(lesson.name, items)
            best[lesson.name] = {item: max(before[item], now, key=order.index) for item, now in items.items()}
    return best, faults


# ---- the page ----


def done(states: Iterable[str]) -> int:
    return sum(now in SOLVED for now in states)


def then(states: Mapping[str, str]) -> str:
    following = next((item for item, now in states.items() if now not in SOLVED), None)
    return f"next: {following}" if following else "done"


def own_page(mine: Sequence[tuple[Lesson, Mapping[str, str]]]) -> str:
    parts = []
    for lesson, states in mine:
        solved, of, title = done(states.values()), len(states), html.escape(lesson.title)
        meter = f'<meter min="0" max="{of}" value="{solved}" aria-label="{title}"></meter>'
        above = f"<p>{meter} {solved} of {of}, {html.escape(then(states))}</p>"
        rows = {item: f"<td>{' '.join(STATES[now])}</td>" for item, now in states.items()}
        parts.append(_section(lesson, above, "", rows))
    return _page(parts)


def class_page(students: Mapping[str, Mapping[str, Mapping[str, str]]], known: Sequence[Lesson]) -> str:
    parts = ["<p>" + ", ".join(map(" ".join, reversed(STATES.values()))) + "</p>"]
    titles = ("item", "solved", *sorted(students))
    head = "<tr>" + "".join(f'<th scope="col">{html.escape(title)}</th>' for title in titles) + "</tr>"
    for lesson in known:
        if any(lesson.name in best for best in students.values()):
            rows = {}
            for item in lesson.items:
                states = [students[name].get(lesson.name, {}).get(item, "left") for name in sorted(students)]
                cells = ('<td aria-label="{1}">{0}</td>'.format(*STATES[now]) for now in states)
                rows[item] = f'<td class="n">{done(states)}</td>{"".join(cells)}'
            parts.append(_section(lesson, "", head, rows))
    return _page(parts)


def _section(lesson: Lesson, above: str, head: str, rows: Mapping[str, str]) -> str:
    """A lesson with its table: the head, and under it for each item its cells."""
    lines = [f"<h2>{html.escape(lesson.title)}</h2>", above, f'<div class="wide" tabindex="0"><table>{head}']
    lines += [f'<tr><th scope="row">{html.escape(item)}</th>{cells}</tr>' for item, cells in rows.items()]
    return "\n".join([*lines, "</table></div>"])


def _page(parts: Iterable[str]) -> str:
    page = Path(__file__).with_suffix(".html").read_text(encoding="utf-8")
    return page.replace("BODY", "\n".join(parts))


# ---- the command ----


def main(arguments: Sequence[str]) -> int:
    """Read the copies in ``work/``, or those of a class in the folder that is named."""
    if len(arguments) > 1 or any(word.startswith("-") for word in arguments):
        print("python3 course.py progress [FOLDER]: FOLDER holds a folder with notebooks for each student")
        return 2
    known, folder = lessons(Path("notebooks")), Path(*arguments) if arguments else Path("work")
    if not folder.is_dir():
        print(f"There is no folder {folder}." + ("" if arguments else " First: python3 course.py copies"))
        return 1
    if arguments:
        came = {one.name: gathered(one, known) for one in sorted(folder.iterdir()) if one.is_dir()}
        students = {name: best for name, (best, _) in came.items() if best}
        faults = [f"{name}: {fault}" for name, (_, found) in came.items() for fault in found]
        total = sum(len(lesson.items) for lesson in known)
        for name, best in students.items():
            print(f"{name:<32} {sum(done(states.values()) for states in best.values())} of {total}")
        text = class_page(students, known)
        if not students:
            faults.append(f"{folder} must hold a folder for each student, with notebooks of the course: none is there")
    else:
        best, faults = gathered(folder, known)
        mine = [(lesson, best.get(lesson.name, dict.fromkeys(lesson.items, "left"))) for lesson in known]
        for lesson, states in mine:
            print(f"{lesson.name:<32} {done(states.values())} of {len(states):>2}   {then(states)}")
        text = own_page(mine)
    print(*faults, sep="\n", end="\n" * bool(faults))
    page = folder / "progress.html"
    try:
        page.write_text(text, encoding="utf-8", errors="replace", newline="\n")
    except OSError as error:
        print(f"The page {page.resolve()} cannot be written: {error.strerror}.")
        return 1
    print(f"The page: {page.resolve()}")
    return 0


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    sys.exit(main(sys.argv[1:]))
