"""Boxes as plain Markdown, and the cell that installs the course."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from nbconvert.filters import markdown2html

from book.ext import students
from dpml.classroom.plain import plain_text, with_plain_text
from tests.sources import code_cells

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").rglob("*.ipynb"))
ADDRESS = "https://github.com/owner/name"

BOXES = {
    "title": (":::{prf:theorem} Sum $a_1$\nA line\nand one.\n:::", "> **Theorem (Sum $a_1$).** A line\n> and one."),
    "no title": (":::{prf:proof}\nClear.\n\nVery.\n:::", "> **Proof.** Clear.\n>\n> Very."),
    "options": (":::{admonition} Predict\n:class: tip\n:name: x\nWhich?\n:::", "> **Predict.** Which?"),
    "list": (":::{prf:lemma}\n- a\n- b\n\n:::", "> **Lemma.**\n>\n> - a\n> - b"),
    "two": (":::{prf:lemma}\na\n:::\n\ntext\n\n:::{prf:proof}\nb\n:::\n", "> **Lemma.** a\n\ntext\n\n> **Proof.** b\n"),
    "formula": (
        ":::{prf:lemma}\nIt is\n\n$$a\n\\le b$$\n\nfor $c\nd$.\n:::",
        "> **Lemma.** It is\n>\n> $$a \\le b$$\n>\n> for $c d$.",
    ),
    "no formula": (":::{prf:lemma}\n\\$5\n\nor \\$6\n:::", "> **Lemma.** \\$5\n>\n> or \\$6"),
    "no box": ("a ::: b\n$x\ny$", "a ::: b\n$x\ny$"),
}


@pytest.mark.parametrize(("text", "plain"), BOXES.values(), ids=BOXES)
def test_a_box_becomes_a_quotation(text, plain):
    assert plain_text(text) == plain


def words(text):
    return re.findall(r"\w+", re.sub(r":class: tip|\{\S+\}|prf:\w+", "", text))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_notebook_is_plain_markdown_with_all_its_words(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    before = json.dumps(notebook)
    plain = with_plain_text(notebook)
    assert json.dumps(notebook) == before
    for cell, given in zip(plain["cells"], notebook["cells"], strict=True):
        if cell["cell_type"] != "markdown":
            assert cell == given
            continue
        text, source = "".join(cell["source"]), "".join(given["source"])
        assert not re.search(r"^(>\s*)?(:::|\(.*\)=|```\{)|\{[a-z:]+\}`", text, re.MULTILINE), text
        kinds = re.findall(r"(?m)^:::\{prf:(\w+)\}", source)
        assert re.findall(r"(?m)^> \*\*(Theorem|Lemma|Proposition|Definition|Proof)\b", text) == [
            kind.capitalize() for kind in kinds
        ]
        left = words(text)
        for word in words(source):
            left.remove(word)
        assert sorted(word.lower() for word in left) == sorted(kinds)
        # As a program reads it, a quotation ends where its box ended.
        quotations = re.findall("<blockquote>", markdown2html(text))
        assert len(quotations) == len(re.findall(r"(?m)^:::\{", source))


def test_the_first_code_cell_installs_the_course_only_where_it_is_missing(tmp_path):
    text = {"cell_type": "markdown", "metadata": {}, "source": ["# A"]}
    code = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": ["1"]}
    made = students.with_install(
        {"cells": [text, code, code], "nbformat": 4}, address=ADDRESS, extras=["notebooks", "torch"]
    )
    assert [made["cells"][k] for k in (0, 2, 3)] == [text, code, code]
    source = "".join(made["cells"][1]["source"])
    assert source.endswith(f'%pip install --quiet "dpml[notebooks,torch] @ git+{ADDRESS}"')
    script = re.sub(r"%pip (.*)", r"print(r'''\1''')", source)
    for options, installs in (([], False), (["-S"], True)):
        ran = subprocess.run(
            [sys.executable, "-I", *options, "-c", script], capture_output=True, text=True, cwd=tmp_path
        )
        assert ran.returncode == 0, ran.stderr
        assert (ADDRESS in ran.stdout) is installs


def test_no_cell_installs_where_no_address_is_known():
    notebook = json.loads(NOTEBOOKS[0].read_text(encoding="utf-8"))
    without, given = (json.loads(students.for_students(notebook, name="x", address=one)) for one in ("", ADDRESS))
    assert "pip install" not in json.dumps(without)
    [cell] = [cell for cell in given["cells"] if cell not in without["cells"]]
    assert ADDRESS in "".join(cell["source"])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_extras_are_there_and_name_torch_where_it_is_imported(path):
    """Torch is named for each notebook whose cells import it, whatever its lesson needs."""
    extras = students.extras(json.loads(path.read_text(encoding="utf-8")))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(extras) <= set(project["optional-dependencies"])
    code = "\n".join(code_cells(path).values())
    assert "torch" in extras or not re.search(r"(?m)^\s*(import|from) torch\b", code)
