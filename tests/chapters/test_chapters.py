"""The numbers of the chapters: each function belongs to a cell, and what is false fails the run."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.chapters.verify import read, speaker
from tests.sources import code_cells, tree_of

HERE, ROOT = Path(__file__).parent, Path(__file__).parents[2]
CHAPTERS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("slug", sorted({path.stem.partition("_")[2] for path in CHAPTERS}))
def test_each_function_belongs_to_a_cell_of_its_chapter(slug):
    """A second page of a chapter, 10b, has its numbers in the same file."""
    text = (HERE / f"{slug}.py").read_text(encoding="utf-8")
    functions = {node.name: node for node in tree_of(HERE / f"{slug}.py").body if isinstance(node, ast.FunctionDef)}
    of_cells = {name: ast.unparse(node) for name, node in functions.items() if name.startswith("cell_")}
    assert [name for name in functions.keys() - of_cells.keys() if text.count(f"{name}(") == 1] == []
    assert [name for name, code in of_cells.items() if not re.search(r"\bassert |\bsays\(", code)] == []
    belong = [name.removeprefix("cell_") for name in of_cells]
    cells = [name[-2:] for path in CHAPTERS if path.stem.endswith(f"_{slug}") for name in code_cells(path)]
    assert belong and set(belong) <= set(cells) and len(set(cells)) == len(cells)
    assert belong == [name for name in cells if name in belong], "the order of the chapter"
    trees = [tree_of(path) for path in CHAPTERS if path.stem.endswith(f"_{slug}")]
    assert not any(isinstance(node, ast.Assert) for tree in trees for node in ast.walk(tree)), "no cell asserts"


SOURCES = {"07-try-01": "four = 2 + 2", "07-try-02": "four = 5", "07-try-03": "four = 6"}
NOTEBOOK = nbformat.v4.new_notebook(
    cells=[
        nbformat.v4.new_markdown_cell("Four is 4.0."),
        *(nbformat.v4.new_code_cell(source, id=name) for name, source in SOURCES.items()),
    ]
)
NUMBERS = """
def cell_01(four, says):
    says({"4.0": four})
    assert four == 4


def cell_02(four):
    assert four == 4, "the second"


def cell_03(four, says):
    says({"4.1": four})
"""


def test_what_fails_is_said_and_what_ran_well_need_not_run_again(tmp_path):
    """A false assertion, and a number that the text has not, fail their notebook; the outputs of the other are kept."""
    notebooks, chapters = tmp_path / "notebooks", tmp_path / "tests" / "chapters"
    shutil.copytree(ROOT / "notebooks", notebooks, ignore=shutil.ignore_patterns("*.ipynb"))
    shutil.copytree(HERE, chapters)
    shutil.copy(HERE.parent / "near.py", chapters.parent)
    text = nbformat.writes(NOTEBOOK)
    (notebooks / "07_try.ipynb").write_text(text, encoding="utf-8")
    (notebooks / "08_sound.ipynb").write_text(text.replace("2 + 2", "1 + 3"), encoding="utf-8")
    (chapters / "try.py").write_text(NUMBERS, encoding="utf-8")

    def nbval(*options):
        words = ["--nbval-lax", "--nbval-current-env", "-rA", "-p", "no:cacheprovider", "-p", "tests.chapters.outputs"]
        command = [sys.executable, "-m", "pytest", *words, "notebooks", *options]
        environment = os.environ | {"NO_COLOR": "1"}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True).stdout

    said = nbval("-n", "2", "--dist", "loadfile")
    assert "2 failed, 7 passed" in said
    assert "PASSED notebooks/07_try.ipynb::numbers of 07-try-01" in said
    assert "the second" in said and "assert 5 == 4" in said and "try.py:8" in said
    assert "4.1 is not in the text" in said

    def left():
        return {line.partition("_")[0] for line in nbval("--collect-only", "-q").splitlines() if "::" in line}

    assert left() == {"notebooks/07"}
    (chapters / "sound.py").write_text("", encoding="utf-8")
    assert left() == {"notebooks/07", "notebooks/08"}


@pytest.mark.parametrize(
    ("text", "number", "half"),
    [
        ("13.6 %", 0.136, 0.0005),
        (r"47 \%", 0.47, 0.005),
        ("10,999", 10_999, 0.5),
        ("-0.20", -0.2, 0.005),
        (r"2.7 \cdot 10^{43}", 2.7e43, 5e41),
        ("10^{-5}", 1e-5, 5e-6),
    ],
)
def test_numbers_are_read_with_their_last_digit(text, number, half):
    assert read(text) == pytest.approx((number, half))


@pytest.mark.parametrize(
    ("printed", "value", "fault"),
    [
        ("3.6", 3.6, "not in the text"),
        ("13.6", 13.7, "13.7"),
        ("999", 999, "not in the text"),
        ("many", 1, "one number"),
    ],
)
def test_says_refuses(printed, value, fault):
    says = speaker("It is 13.6 of 10,999.")
    says({"13.6": 13.64, "10,999": 10_999})
    says({"13.6": 14}, within=1)
    with pytest.raises((AssertionError, ValueError), match=fault):
        says({printed: value})
