"""The students' copies: nothing of a solution survives, everything else does, and no student's file is touched."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from dpml.classroom.plain import with_plain_text
from dpml.classroom.students import CODE_STUB, TEXT_STUB, VALUE_STUB, make_student_version, release_course

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
SECRETS = ["secret_scale = 2 * bound", "return secret_scale / epsilon", "hidden_assert(scale(3))", "because secretly"]


def code(source: str | list[str], *, id: str = "a", solution: bool = True, **metadata: Any) -> dict[str, Any]:
    marks = {"grade": False, "grade_id": id, "locked": not solution, "schema_version": 3, "solution": solution}
    return {
        "cell_type": "code",
        "id": id,
        "metadata": {"nbgrader": marks | {"task": False}, "tags": ["hide-input", "item"], **metadata},
        "execution_count": 7,
        "outputs": [{"output_type": "stream", "name": "stdout", "text": SECRETS}],
        "source": source,
    }


def text(source: str, **more: Any) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": "t", "metadata": {}, "source": source, **more}


def notebook(*cells: dict[str, Any]) -> dict[str, Any]:
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}, "draft": SECRETS},
        "cells": list(cells),
        "backup": SECRETS,
    }


FUNCTION = f'''def scale(epsilon, bound=1):
    """The scale of the noise."""
    ### BEGIN SOLUTION
    {SECRETS[0]}

    {SECRETS[1]}
    ### END SOLUTION
'''
STUB = f'''def scale(epsilon, bound=1):
    """The scale of the noise."""
    {CODE_STUB}
'''
TESTS = f"""items.check_scale(scale)
### BEGIN HIDDEN TESTS
{SECRETS[2]}
### END HIDDEN TESTS
print("done")"""


def source_of(cell: dict[str, Any]) -> str:
    assert isinstance(cell["source"], list)
    return "".join(cell["source"])


def student_source(cell: dict[str, Any]) -> str:
    return source_of(make_student_version(notebook(cell), name="n.ipynb")["cells"][0])


def test_solutions_and_hidden_tests_go_and_the_rest_stays() -> None:
    source = notebook(text("# Noise"), code(FUNCTION), code(TESTS, id="b", solution=False))
    before = copy.deepcopy(source)
    student = make_student_version(source, name="n.ipynb")
    assert source == before
    assert source_of(student["cells"][1]) == STUB
    assert source_of(student["cells"][2]) == 'items.check_scale(scale)\nprint("done")'
    assert not [secret for secret in SECRETS if secret in json.dumps(student)]
    assert [cell["id"] for cell in student["cells"]] == ["t", "a", "b"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in student["cells"][1:])
    assert student["cells"][1]["metadata"]["nbgrader"] == source["cells"][1]["metadata"]["nbgrader"]
    # Only the solution was folded away for the book: the student must see the cell to write in it.
    assert student["cells"][1]["metadata"]["tags"] == ["item"]
    assert student["cells"][2]["metadata"]["tags"] == ["hide-input", "item"]
    assert student["metadata"] == {key: source["metadata"][key] for key in ("kernelspec", "language_info")}
    assert set(student) == {"nbformat", "nbformat_minor", "metadata", "cells"}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("trailing", ["", "   ", "\t", "\u00a0"])
@pytest.mark.parametrize("marker", ["### {}", "# {}", "###{}", "#### {}", "        ### {}"])
@pytest.mark.parametrize("as_lines", [True, False])
def test_variants_of_the_markers(end: str, trailing: str, marker: str, as_lines: bool) -> None:
    lines = FUNCTION.split("\n")
    for i, line in enumerate(lines):
        if line.strip().startswith("###"):
            lines[i] = marker.format(line.strip(" #")) + trailing
    joined = end.join(lines)
    source = [line + end for line in lines[:-1]] if as_lines else joined
    assert student_source(code(source)) == STUB
    assert student_source(code(joined.replace("BEGIN SOLUTION", "begin  solution"))) == STUB


SEVERAL = """class Outer:
    def one(self):
        def inner(x):
            # keep this comment
{}
        return inner
    def two(self):
{}
epsilon = ...
{}
def three():
\tx = 1
{}"""
# What is between the markers, their indentation, and what the student has there.
REGIONS = [
    (["# a comment", "if x:", "    return 1", "return 2"], 12 * " ", f"            {CODE_STUB}"),
    (["        return 3"], "", f"        {CODE_STUB}"),
    (["epsilon = 0.5"], "", VALUE_STUB),
    (["return x"], "\t", f"\t{CODE_STUB}"),
]


def test_indentation_and_several_regions() -> None:
    full = ["\n".join(indent + line for line in [BEGIN, *lines, END]) for lines, indent, _ in REGIONS]
    assert student_source(code(SEVERAL.format(*full))) == SEVERAL.format(*(stub for _, _, stub in REGIONS))


def test_an_empty_region_and_a_solution_cell_without_markers() -> None:
    empty = "def f():\n    ### BEGIN SOLUTION\n    ### END SOLUTION"
    assert student_source(code(empty)) == f"def f():\n    {CODE_STUB}"
    whole = code(SECRETS[0])
    assert student_source(whole) == CODE_STUB
    assert student_source(code("print(1)", solution=False)) == "print(1)"
    assert student_source(code("", solution=False)) == ""


@pytest.mark.parametrize("marker", ["<!-- {} -->", "<!--{}-->", "### {}", "  <!-- {} --> "])
def test_written_solutions(marker: str) -> None:
    lines = ["**Argue** in two sentences.", marker.format("BEGIN SOLUTION"), SECRETS[3], marker.format("END SOLUTION")]
    cell = text("\n".join([*lines, "", "Then go on."]))
    assert student_source(cell) == f"**Argue** in two sentences.\n{TEXT_STUB}\n\nThen go on."


BAD = {
    "end alone": f"x = 1\n{END}",
    "begin alone": f"{BEGIN}\nx = 1",
    "two ends": f"{BEGIN}\nx = 1\n{END}\n{END}",
    "nested": f"{BEGIN}\n{BEGIN}\nx = 1\n{END}\n{END}",
    "begun twice": f"{BEGIN}\nx = 1\n{BEGIN}\nx = 2\n{END}",
    "crossed": f"{BEGIN}\n### BEGIN HIDDEN TESTS\n{END}\n### END HIDDEN TESTS",
    "wrong end": f"{BEGIN}\nx = 1\n### END HIDDEN TESTS",
    "behind code": f"x = 1  {BEGIN}\ny = 2\n{END}",
    "before text": f"{BEGIN} of part one\ny = 2\n{END}",
    "underscore": "# BEGIN_SOLUTION\ny = 2\n# END_SOLUTION",
    "typo in the end": f"{BEGIN}\ny = 2\n### END SOLUTIONS",
    "HTML comment in code": "<!-- BEGIN SOLUTION -->\ny = 2\n<!-- END SOLUTION -->",
    "one line": "<!-- BEGIN SOLUTION --> y = 2 <!-- END SOLUTION -->",
    "breaks the code": f"try:\n    x = 1\n{BEGIN}\nexcept ValueError:\n    x = 2\n{END}",
}


@pytest.mark.parametrize("source", BAD.values(), ids=BAD.keys())
def test_bad_markers_are_refused(source: str) -> None:
    bad = notebook(text("fine"), code(source, id="culprit"))
    with pytest.raises(ValueError, match=r"02_bad\.ipynb, cell 2 \(id culprit\): "):
        make_student_version(bad, name="02_bad.ipynb")


def test_metadata_and_attachments_hold_no_solution() -> None:
    attachments = {
        "figure.png": {"image/png": "harmless", "text/plain": SECRETS},
        "answer.png": {"image/png": "a picture of the answer"},
        "unused.png": {"image/png": "unused"},
        "plain.txt": {"text/plain": SECRETS},
        "coded.svg": {"image/svg+xml": SECRETS},
    }
    shown = " ".join(f"![](attachment:{name})" for name in ("figure.png", "plain.txt", "coded.svg"))
    region = f"<!-- BEGIN SOLUTION -->\n{SECRETS[3]}\n![](attachment:answer.png)\n<!-- END SOLUTION -->"
    cell = text(f"{shown}\n{region}", attachments=attachments)
    cell["metadata"] = {"solution_backup": SECRETS, "jupyter": {"source_hidden": True}, "editable": False}
    student = make_student_version(notebook(cell), name="n.ipynb")["cells"][0]
    assert student["attachments"] == {"figure.png": {"image/png": "harmless"}}
    assert student["metadata"] == {"editable": False}


# --- a student's folder ---

NAMES = ["README.md", "01_promise.ipynb", "exercises/01_promise.ipynb"]
HIDDEN = {"jupyter": {"source_hidden": True}}
CHAPTER = [("x = ε", HIDDEN), (FUNCTION, {"tags": ["hide-input"]}), ("items.check_scale(scale)", {})]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A course of one chapter, as an editor on Windows writes it, with one sheet of exercises."""
    chapter = notebook(*({**code(source), "metadata": metadata} for source, metadata in CHAPTER))
    (tmp_path / "notebooks" / "exercises").mkdir(parents=True)
    encoded = json.dumps(chapter, indent=1, ensure_ascii=False).replace("\n", "\r\n").encode("utf-8-sig")
    (tmp_path / "notebooks" / NAMES[1]).write_bytes(encoded)
    put_sheet(tmp_path, notebook(text("exercise"), code(FUNCTION)))
    return tmp_path


def put_sheet(root: Path, sheet: dict[str, Any]) -> None:
    (root / "notebooks" / NAMES[2]).write_text(json.dumps(sheet), encoding="utf-8")


def told(root: Path, target: Path, **more: Any) -> list[str]:
    """The status of each of the files."""
    report = release_course(root, target, **more)
    assert [path for path, _ in report] == [target / name for name in NAMES]
    return [status for _, status in report]


def test_the_course_is_written_once_and_what_is_there_is_kept(root: Path, tmp_path: Path) -> None:
    work = root / "work"
    assert told(root, work) == ["written"] * 3
    written = (work / NAMES[1]).read_bytes()
    assert b"\r" not in written and "ε".encode() in written and written.endswith(b"}\n")
    assert [cell["metadata"] for cell in json.loads(written)["cells"]] == [
        HIDDEN,
        {"tags": []},
        {"editable": False, "deletable": False, "tags": ["raises-exception"]},
    ]
    assert not [name for name in NAMES if "secret" in (work / name).read_text(encoding="utf-8")]
    assert "course.py lab" in (work / "README.md").read_text(encoding="utf-8")
    (work / NAMES[1]).write_text("my own work", encoding="utf-8")
    (work / NAMES[2]).unlink()
    assert told(str(root), work) == ["kept", "kept", "written"]
    assert (work / NAMES[1]).read_text(encoding="utf-8") == "my own work"
    there = {path.relative_to(work).as_posix() for path in work.rglob("*")}
    assert there == {".given.json", "exercises", *NAMES}, "no partial files"
    other = tmp_path / "other"
    assert told(root, other, form=lambda given: {**with_plain_text(given), "metadata": {}}) == ["written"] * 3
    assert json.loads((other / NAMES[1]).read_text(encoding="utf-8"))["metadata"] == {}
    assert told(root, other) == ["kept"] * 3, "of whatever form"


def test_a_corrected_lesson_is_named_until_its_copy_has_another_name(root: Path) -> None:
    """Then the new one comes beside it."""
    work = root / "work"
    told(root, work)
    put_sheet(root, notebook(text("corrected")))
    for status in ("newer", "newer", "written", "kept"):
        if status == "written":
            mine = (work / NAMES[2]).replace(work / "mine.ipynb")
        assert told(root, work) == ["kept", "kept", status]
        assert ("corrected" in (work / NAMES[2]).read_text(encoding="utf-8")) is (status != "newer")
    assert "corrected" not in mine.read_text(encoding="utf-8")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"nbformat": 3, "worksheets": []}', "not json", "nested", None])
def test_nothing_is_written_unless_every_notebook_passes(root: Path, content: str | None) -> None:
    sheet = root / "notebooks" / NAMES[2]
    if content == "nested":
        put_sheet(root, notebook(code(BAD["nested"])))
    elif content is None:
        sheet.unlink()
    else:
        sheet.write_text(content, encoding="utf-8")
    words = {"nested": r"01_promise\.ipynb, cell 1", None: "must hold notebooks, got none"}
    with pytest.raises(ValueError, match=words.get(content, r"01_promise\.ipynb must be a notebook")):
        release_course(root, root / "work")
    assert not (root / "work").exists()
    with pytest.raises(ValueError, match="target must differ"):
        release_course(root, root / "notebooks")


def test_a_failed_write_leaves_no_part_behind(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, other: Path) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space left"):
        release_course(root, root / "work")
    assert list((root / "work").iterdir()) == []


def test_every_link_in_the_copies_leads_to_one_of_them(tmp_path: Path) -> None:
    """And no role of the book is left, which only the website resolves."""
    release_course(Path(__file__).parents[2], tmp_path)
    links = []
    for path in tmp_path.rglob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        assert re.findall(r"\{(?:ref|doc|cite:\w+|prf:ref)\}`[^`]*`", text) == []
        links += [path.parent / link for link in re.findall(r"\]\((?!https?:|#|attachment:)([^)#\s]+)", text)]
    assert len(links) > 50
    assert [link for link in links if not link.exists()] == []


@pytest.mark.filterwarnings("ignore")  # of nbgrader's libraries
def test_nbgrader_removes_the_same_regions() -> None:
    preprocessors = pytest.importorskip("nbgrader.preprocessors")
    nbformat = pytest.importorskip("nbformat")
    written = text("Why?\n### BEGIN SOLUTION\nbecause secretly\n### END SOLUTION")
    written["metadata"] = {"nbgrader": code("", id="w")["metadata"]["nbgrader"] | {"grade": True, "points": 1}}
    tests = code(TESTS, id="b", solution=False)
    tests["metadata"]["nbgrader"] |= {"grade": True, "points": 1}
    commented = text("<!-- BEGIN SOLUTION -->\nbecause\n<!-- END SOLUTION -->\nmore", id="u")
    commented["metadata"] = copy.deepcopy(written["metadata"])
    several = f"x = 1\n{BEGIN}\nx = 2\n{END}\nif x:\n    {BEGIN}\n    x = 3\n    {END}"
    source = notebook(text("# Title", id="h"), code(FUNCTION), tests, written, commented, code(several, id="c"))
    source["cells"].append(code("whole = 1", id="d"))
    del source["backup"]

    theirs = nbformat.from_dict(source)
    clear = preprocessors.ClearSolutions(code_stub={"python": CODE_STUB}, text_stub=TEXT_STUB)
    theirs, _ = clear.preprocess(theirs, {})
    theirs, _ = preprocessors.ClearHiddenTests().preprocess(theirs, {})
    ours = make_student_version(source, name="n.ipynb")
    nbformat.validate(ours)
    # The one difference: at module level ours is a comment, so that "Run all" goes on.
    assert [source_of(cell).replace(VALUE_STUB, CODE_STUB) for cell in ours["cells"]] == [
        cell["source"] for cell in theirs["cells"]
    ]
    assert not [cell for cell in theirs["cells"] if "secret" in cell["source"]]
