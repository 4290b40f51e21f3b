"""From submissions to grades: collect them, have nbgrader grade them, write tables, notices and feedback pages."""

from __future__ import annotations

import codecs
import csv
import logging
import os
import re
import sys
import unicodedata
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat

MOODLE = re.compile(r"(.+_\d+)_assignsubmission_(?:file|onlinetext)_?(.*)", re.DOTALL)
CANVAS = re.compile(r"([^_]+)(?:_LATE)?_(\d+)_\d+_.+")
LARGEST = 2**25  # bytes of a notebook
ALIKE = 100  # characters from which on two answers of the same text are told


def nbgrader(course: Path) -> Any:
    """nbgrader, with the settings of a course folder."""
    from nbgrader.apps.api import NbGraderAPI
    from traitlets.config import PyFileConfigLoader

    # nbgrader starts alembic by its bare name, which stands beside this Python.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    logging.getLogger("traitlets").setLevel(logging.ERROR)
    try:
        config = PyFileConfigLoader("nbgrader_config.py", path=str(course)).load_config()
    except Exception as error:  # the file is Python, and the instructor's to change
        raise SystemExit(f"The settings in {course / 'nbgrader_config.py'} fail: {error}.") from None
    return NbGraderAPI(config=config)


def why(done: dict[str, Any]) -> str:
    """The last error that nbgrader tells of, but for its own that follows."""
    text = f"{done.get('error')}\n{done.get('log')}"
    found = [line for line in re.findall(r"(?m)^\s*([\w.]*(?:Error|Exception): .+)", text) if "NbGrader" not in line]
    return found[-1] if found else "nbgrader does not say why"


def sheets(course: Path) -> list[str]:
    if not (course / "nbgrader_config.py").is_file() or not (course / "release").is_dir():
        raise SystemExit(f"{course} is no course folder: make one with --seed FILE {course}.")
    return sorted(path.name for path in (course / "release").iterdir() if path.is_dir())


def student_of(path: str) -> str:
    """Who handed in a file, by the name that a learning platform gave it."""
    *folders, name = path.split("/")
    stem = name.removesuffix(".ipynb")
    for part in (*folders, stem):
        if found := MOODLE.fullmatch(part):
            return safe(found[1])
    if not folders and (found := CANVAS.fullmatch(stem)):
        return safe(f"{found[1]}-{found[2]}")
    # Not the form of Moodle's participants.
    return re.sub(r"_(?=\d+$)", "-", safe(folders[0] if folders else stem))


def safe(name: str) -> str:
    """A name for a folder: short enough for every disk, and with the number at its end."""
    return re.sub(r"[^\w.@-]+", "-", unicodedata.normalize("NFC", name))[-60:].strip("-.@+=") or "nameless"


def files(download: Path) -> Iterator[tuple[str, bytes | str]]:
    """The files of a folder or zip, and of zips in a folder, by their path inside it; or why one cannot be had."""
    if download.is_file():
        try:
            with zipfile.ZipFile(download) as archive:
                for info in archive.infolist():
                    if not info.is_dir():
                        yield info.filename.replace("\\", "/"), had(info.file_size, archive.read, info)
        except (zipfile.BadZipFile, OSError):
            yield download.name, "this zip cannot be read"
        return
    for path in sorted(path for path in download.rglob("*") if path.is_file()):
        inside = path.relative_to(download)
        if path.suffix == ".zip":
            yield from (((inside.parent / inside.stem).as_posix() + "/" + name, data) for name, data in files(path))
        else:
            yield inside.as_posix(), had(path.stat().st_size, Path.read_bytes, path)


def had(size: int, read: Callable[[Any], bytes], what: Any) -> bytes | str:
    if size >= LARGEST:
        return f"it has more than {LARGEST >> 20} MB; without the outputs, which are not used, it is small"
    try:
        return read(what) or "the file is empty"
    except Exception as error:  # of the disk; a part of a zip that is damaged, encrypted, packed in another way
        return f"it cannot be read ({error})"


def collect(course: Path, download: Path) -> None:
    """Put what was handed in where nbgrader looks for it; what cannot be taken is told, and left where it is."""
    from nbgrader.utils import is_solution

    from assignments.steps import by_name, grade_id, released

    if not download.exists() or (download.is_file() and not zipfile.is_zipfile(download)):
        raise SystemExit(f"{download} is neither a folder nor a zip of submissions.")
    given = {sheet: released(str(course), sheet) for sheet in sheets(course)}
    refused, taken = [], 0
    for path, data in files(download):
        if "__MACOSX" in path or ".ipynb_checkpoints" in path or path.rsplit("/", 1)[-1].startswith("."):
            continue
        if isinstance(data, str):
            refused.append(f"{path}: {data}.")
            continue
        try:
            data = data.removeprefix(codecs.BOM_UTF8)  # nbgrader does not read it
            notebook = nbformat.reads(data.decode(), as_version=4)
            there = {sheet: by_name(own, notebook) for sheet, own in given.items()}
            nbformat.writes(notebook).encode()
        except Exception:  # whatever a file that is no notebook makes the reader raise
            refused.append(f"{path}: this is no notebook.")
            continue
        answers = {sheet: [grade_id(cell) for cell in filter(is_solution, own.cells)] for sheet, own in given.items()}
        share = {one: sum(bool(there[one][name]) for name in names) / len(names) for one, names in answers.items()}
        sheet = max(share, key=lambda one: share[one])
        if share[sheet] < 1 / 3:
            refused.append(f"{path}: this notebook is none of the sheets {', '.join(given)}.")
            continue
        place = course / "submitted" / student_of(path) / sheet / f"{sheet}.ipynb"
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
            taken += 1
        elif place.read_bytes() != data:
            there = place.parent.relative_to(course).as_posix()
            refused.append(f"{path}: {there} holds another submission already; remove that to take this one.")
    (course / "reports").mkdir(exist_ok=True)
    text = "".join(f"{line}\n" for line in refused)
    (course / "reports" / "not-collected.txt").write_text(text, encoding="utf-8", errors="replace")
    print(f"{taken} new submissions in {course / 'submitted'}", *refused, sep="\n")


def grade(course: Path) -> None:
    """Grade each submission that is newer than its grades."""
    names, api = sheets(course), nbgrader(course)
    for sheet in names:
        for path in sorted(course.glob(f"submitted/*/{sheet}/{sheet}.ipynb")):
            student = path.parts[-3]
            done = course / "autograded" / student / sheet / f"{sheet}.ipynb"
            if done.is_file() and done.stat().st_mtime >= path.stat().st_mtime:
                continue
            result = api.autograde(sheet, student, force=True, create=True)
            print(f"{sheet}, {student}: {'graded' if result['success'] else why(result)}", flush=True)


def grades(course: Path, api: Any, sheet: str) -> list[dict[str, Any]]:
    """A row for each submission: who, what each item got, what is not marked yet, and what the checks said."""
    from nbgrader.api import Gradebook

    rows = []
    with Gradebook(api.coursedir.db_url, api.coursedir.course_id) as book:
        for submission in book.find_assignment(sheet).submissions:
            path = course / "autograded" / submission.student.id / sheet / f"{sheet}.ipynb"
            if not path.is_file():
                continue
            notebook = nbformat.read(path, as_version=4)
            order = {cell.metadata.nbgrader.grade_id: k for k, cell in enumerate(notebook.cells)}
            marks = sorted((mark for one in submission.notebooks for mark in one.grades), key=lambda m: order[m.name])
            names = [mark.name.removesuffix("-check") for mark in marks]
            row = {"student": submission.student.id, "grade": submission.score, "notebook": notebook}
            row["points"] = {n: None if m.needs_manual_grade else m.score for n, m in zip(names, marks, strict=True)}
            row["maximum"] = {n: m.max_score for n, m in zip(names, marks, strict=True)}
            rows.append(row)
    return sorted(rows, key=lambda row: str(row["student"]))


def said(row: dict[str, Any]) -> str:
    """The verdicts on the items that do not have all points, in one line."""
    from nbgrader.utils import is_grade

    texts = []
    for cell in filter(is_grade, row["notebook"].cells):
        name = cell.metadata.nbgrader.grade_id.removesuffix("-check")
        if name in row["points"] and row["points"][name] != row["maximum"][name]:
            why = "; ".join(o.evalue for o in cell.get("outputs", ()) if o.output_type == "error")
            got = "not marked yet" if row["points"][name] is None else f"{row['points'][name]:g}"
            texts.append(f"{name} {got}/{row['maximum'][name]:g}{f': {why}' if why else ''}")
    return " | ".join(texts)[:4000]


def alike(course: Path, sheet: str, rows: list[dict[str, Any]]) -> list[str]:
    """Which students handed in the same text, of answers that are long enough to be one's own."""
    from assignments.steps import code_of, grade_id, released

    empty = {code_of(cell.source) for cell in released(str(course), sheet).cells}
    who = defaultdict(list)
    for row in rows:
        for cell in row["notebook"].cells:
            text = code_of(cell.source)
            if cell.metadata.get("nbgrader", {}).get("solution") and len(text) >= ALIKE and text not in empty:
                who[grade_id(cell), text].append(row["student"])
    pairs = defaultdict(list)
    for (name, _), students in who.items():
        if len(students) > 1:
            pairs[", ".join(students)].append(name)
    return [f"{students}: the same text in {', '.join(names)}" for students, names in sorted(pairs.items())]


def report(course: Path) -> None:
    """Write the tables of grades, the notices, and a feedback page for each submission."""
    names, api = sheets(course), nbgrader(course)
    folder = course / "reports"
    folder.mkdir(exist_ok=True)
    notices = ["# Notices\n\nA reason to look, not a verdict.\n"]
    left = folder / "not-collected.txt"
    if left.is_file() and (text := left.read_text(encoding="utf-8")):
        notices += ["## Not collected\n", *(f"- {line}" for line in text.splitlines()), ""]
    for sheet in names:
        rows = grades(course, api, sheet)
        handed = {path.parts[-3] for path in course.glob(f"submitted/*/{sheet}/*.ipynb")}
        lines = [f"- {name}: handed in, but not graded" for name in sorted(handed - {row["student"] for row in rows})]
        for row in rows:
            lines += [f"- {row['student']}: {text}" for text in row["notebook"].metadata.get("notices", [])]
        lines += [f"- {text}" for text in alike(course, sheet, rows)]
        for name in dict.fromkeys(name for row in rows for name in row["points"]):
            open_for = [str(row["student"]) for row in rows if row["points"].get(name, 0) is None]
            lines += [f"- {name} is to be marked by hand for {', '.join(open_for)}"] if open_for else []
        notices += [f"## {sheet}\n", *(lines or ["- nothing"]), ""]
        write_table(folder / f"{sheet}.csv", sheet, rows)
        pages = {row["student"]: api.generate_feedback(sheet, row["student"], force=True) for row in rows}
        failed = [student for student, done in pages.items() if not done["success"]]
        print(f"{sheet}: {len(rows)} submissions, {len(lines)} notices" + f"; no page for {failed}" * bool(failed))
    (folder / "notices.md").write_text("\n".join(notices), encoding="utf-8")
    print(f"The tables and notices: {folder}. The pages for students: {course / 'feedback'}")


def write_table(path: Path, sheet: str, rows: list[dict[str, Any]]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row["points"]))
    head = ["Identifier", "Student", "Sheet", *names, "Grade", "Maximum grade", "Feedback comments"]
    with path.open("w", encoding="utf-8-sig", newline="") as file:  # with a mark by which Excel knows the encoding
        table = csv.writer(file)
        table.writerow(head)
        for row in rows:
            found = re.fullmatch(r".+_(\d+)", str(row["student"]))
            who = f"Participant {found[1]}" if found else row["student"]
            points = ["" if row["points"].get(name) is None else f"{row['points'][name]:g}" for name in names]
            total = f"{sum(row['maximum'].values()):g}"
            table.writerow([who, row["student"], sheet, *points, f"{row['grade']:g}", total, said(row)])
