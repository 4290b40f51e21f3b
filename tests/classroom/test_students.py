"""The students' copies: nothing of a solution survives, everything else does, and no student's file is touched."""

from __future__ import annotations

import base64
import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from dpml.classroom.plain import with_plain_text
from dpml.classroom.students import (
    CODE_STUB,
    TEXT_STUB,
    VALUE_STUB,
    make_student_version,
    release,
    release_course,
    solution_lines,
)

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
    assert solution_lines(source) == SECRETS[:3]


def test_the_student_version_is_a_valid_notebook_and_its_own_student_version() -> None:
    nbformat = pytest.importorskip("nbformat")
    source = notebook(text("<!-- BEGIN SOLUTION -->\nbecause\n<!-- END SOLUTION -->"), code(FUNCTION), code("", id="b"))
    student = make_student_version(source, name="n.ipynb")
    nbformat.validate(student)
    again = make_student_version(notebook(*student["cells"][:1]), name="n.ipynb")
    assert again["cells"] == student["cells"][:1]


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


def test_indentation_and_several_regions() -> None:
    source = """class Outer:
    def one(self):
        def inner(x):
            # keep this comment
            ### BEGIN SOLUTION
            # a comment of the solution
            if x:
                return 1
            return 2
            ### END SOLUTION
        return inner
    def two(self):
### BEGIN SOLUTION
        return 3
### END SOLUTION
epsilon = ...
### BEGIN SOLUTION
epsilon = 0.5
### END SOLUTION
def three():
\tx = 1
\t### BEGIN SOLUTION
\treturn x
\t### END SOLUTION"""
    assert (
        student_source(code(source))
        == f"""class Outer:
    def one(self):
        def inner(x):
            # keep this comment
            {CODE_STUB}
        return inner
    def two(self):
        {CODE_STUB}
epsilon = ...
{VALUE_STUB}
def three():
\tx = 1
\t{CODE_STUB}"""
    )


def test_an_empty_region_and_a_solution_cell_without_markers() -> None:
    empty = "def f():\n    ### BEGIN SOLUTION\n    ### END SOLUTION"
    assert student_source(code(empty)) == f"def f():\n    {CODE_STUB}"
    whole = code(SECRETS[0])
    assert student_source(whole) == CODE_STUB and solution_lines(notebook(whole)) == SECRETS[:1]
    assert student_source(code("print(1)", solution=False)) == "print(1)"
    assert student_source(code("", solution=False)) == ""


@pytest.mark.parametrize("marker", ["<!-- {} -->", "<!--{}-->", "### {}", "  <!-- {} --> "])
def test_written_solutions(marker: str) -> None:
    lines = ["**Argue** in two sentences.", marker.format("BEGIN SOLUTION"), SECRETS[3], marker.format("END SOLUTION")]
    cell = text("\n".join([*lines, "", "Then go on."]))
    assert student_source(cell) == f"**Argue** in two sentences.\n{TEXT_STUB}\n\nThen go on."


def test_the_stub_fails_kindly() -> None:
    names: dict[str, Any] = {}
    exec(student_source(code(FUNCTION)), names)
    with pytest.raises(NotImplementedError, match=r"^write your answer here$"):
        names["scale"](1.0)


BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
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
def test_bad_markers_are_refused_and_nothing_is_written(source: str, tmp_path: Path) -> None:
    folder, target = tmp_path / "source", tmp_path / "target"
    folder.mkdir()
    good = notebook(code(FUNCTION))
    (folder / "01_good.ipynb").write_text(json.dumps(good), encoding="utf-8")
    bad = notebook(text("fine"), code(source, id="culprit"))
    (folder / "02_bad.ipynb").write_text(json.dumps(bad), encoding="utf-8")
    with pytest.raises(ValueError, match=r"02_bad\.ipynb, cell 2 \(id culprit\): "):
        release(folder, target)
    assert not target.exists()
    if source not in (BAD["breaks the code"],):
        with pytest.raises(ValueError, match="cell 2"):
            solution_lines(bad)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"nbformat": 3, "worksheets": []}', "not json"])
def test_files_that_are_no_notebooks_are_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "bad.ipynb").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r"bad\.ipynb must be a notebook"):
        release(tmp_path, tmp_path / "target")


def test_metadata_and_attachments_hold_no_solution() -> None:
    def packed(content: str) -> str:
        return base64.b64encode(content.encode()).decode()

    attachments = {
        "figure.png": {"image/png": packed("harmless")},
        "answer.png": {"image/png": packed("a picture of the answer")},
        "unused.png": {"image/png": packed("unused")},
        "plain.txt": {"text/plain": ["x\n", f"  {SECRETS[3]}\n"]},
        "coded.svg": {"image/svg+xml": packed(f"<svg>\n{SECRETS[3]}\n</svg>")},
        "kept.txt": {"text/plain": "fine"},
    }
    shown = "![](attachment:figure.png) ![](attachment:plain.txt) ![](attachment:coded.svg) ![](attachment:kept.txt)"
    region = f"<!-- BEGIN SOLUTION -->\n{SECRETS[3]}\n![](attachment:answer.png)\n<!-- END SOLUTION -->"
    cell = text(f"{shown}\n{region}", attachments=attachments)
    cell["metadata"] = {"solution_backup": SECRETS, "jupyter": {"source_hidden": True}, "editable": False}
    student = make_student_version(notebook(cell), name="n.ipynb")["cells"][0]
    assert set(student["attachments"]) == {"figure.png", "kept.txt"}
    assert student["metadata"] == {"editable": False}


def test_release_writes_once_and_keeps_what_is_there(tmp_path: Path) -> None:
    folder, target = tmp_path / "source", tmp_path / "work"
    folder.mkdir()
    for name in ("02_b.ipynb", "01_a.ipynb"):
        # With the byte order mark and the line ends of an editor on Windows.
        content = json.dumps(notebook(text("ε"), code(FUNCTION)), indent=1, ensure_ascii=False)
        (folder / name).write_bytes(b"\xef\xbb\xbf" + content.replace("\n", "\r\n").encode())
    paths = [target / "01_a.ipynb", target / "02_b.ipynb"]
    assert release(folder, target) == [(path, "written") for path in paths]
    first = paths[0].read_bytes()
    assert b"\r" not in first and "ε".encode() in first and first.endswith(b"}\n")
    assert source_of(json.loads(first)["cells"][1]) == STUB
    paths[0].write_text("my own work", encoding="utf-8")
    paths[1].unlink()
    assert release(folder, target) == [(paths[0], "kept"), (paths[1], "written")]
    assert paths[0].read_text(encoding="utf-8") == "my own work"
    assert {path.name for path in target.iterdir()} == {".given.json", "01_a.ipynb", "02_b.ipynb"}  # no partial files
    with pytest.raises(ValueError, match="target_folder must differ"):
        release(folder, folder / ".")
    with pytest.raises(ValueError, match="must hold notebooks"):
        release(tmp_path / "missing", target)


def test_a_failed_write_leaves_no_part_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, target = tmp_path / "source", tmp_path / "work"
    folder.mkdir()
    (folder / "01_a.ipynb").write_text(json.dumps(notebook(code(FUNCTION))), encoding="utf-8")

    def full(self: Path, other: Path) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space left"):
        release(folder, target)
    assert list(target.iterdir()) == []


def test_release_course(tmp_path: Path) -> None:
    root, work = tmp_path / "root", tmp_path / "root" / "work"
    (root / "notebooks" / "exercises").mkdir(parents=True)
    hidden = {"jupyter": {"source_hidden": True}}
    cells = ("x = 1", hidden), (FUNCTION, {"tags": ["hide-input"]}), ("items.check_scale(scale)", {})
    chapter = json.dumps(notebook(*({**code(source), "metadata": metadata} for source, metadata in cells)))
    exercise = notebook(text("exercise"), code(FUNCTION))
    (root / "notebooks" / "01_promise.ipynb").write_text(chapter, encoding="utf-8")
    (root / "notebooks" / "exercises" / "01_promise.ipynb").write_text(json.dumps(exercise), encoding="utf-8")
    report = release_course(root, work)
    names = ["README.md", "01_promise.ipynb", "exercises/01_promise.ipynb"]
    assert report == [(work / name, "written") for name in names]
    copied = json.loads((work / "01_promise.ipynb").read_text(encoding="utf-8"))["cells"]
    assert [cell["metadata"] for cell in copied] == [
        hidden,
        {"tags": []},
        {"editable": False, "deletable": False, "tags": ["raises-exception"]},
    ]
    for name in names[1:]:
        assert "secret" not in (work / name).read_text(encoding="utf-8")
    assert "course.py lab" in (work / "README.md").read_text(encoding="utf-8")
    assert release_course(str(root), str(work)) == [(work / name, "kept") for name in names]
    other = release_course(root, tmp_path / "other", form=lambda given: {**with_plain_text(given), "metadata": {}})
    assert [told for _, told in other] == ["written"] * 3
    assert json.loads((tmp_path / "other" / names[1]).read_text(encoding="utf-8"))["metadata"] == {}
    assert [told for _, told in release_course(root, tmp_path / "other")] == ["kept"] * 3, "of whatever form"
    with pytest.raises(ValueError, match="target must differ"):
        release_course(root, root / "notebooks")

    # A corrected lesson is named until its copy has another name; then the new one comes beside it.
    exercise["cells"].append(text("corrected"))
    (root / "notebooks" / "exercises" / "01_promise.ipynb").write_text(json.dumps(exercise), encoding="utf-8")
    for status in ("newer", "newer", "written", "kept"):
        if status == "written":
            mine = (work / names[2]).replace(work / "mine.ipynb")
        assert [told for _, told in release_course(root, work)] == ["kept", "kept", status]
        assert ("corrected" in (work / names[2]).read_text(encoding="utf-8")) is (status != "newer")
    assert "corrected" not in mine.read_text(encoding="utf-8")

    exercise["cells"].append(code(BAD["nested"], id="culprit"))
    (root / "notebooks" / "exercises" / "01_promise.ipynb").write_text(json.dumps(exercise), encoding="utf-8")
    with pytest.raises(ValueError, match="cell 4"):
        release_course(root, tmp_path / "fresh")
    assert not (tmp_path / "fresh").exists()


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
    # The one difference: at module level ours is a comment, so that "Run all" goes on.
    assert [source_of(cell).replace(VALUE_STUB, CODE_STUB) for cell in ours["cells"]] == [
        cell["source"] for cell in theirs["cells"]
    ]
    assert not [cell for cell in theirs["cells"] if "secret" in cell["source"]]
