"""The extensions of the book: docstrings become pages, and formulas survive every place where Markdown may put them."""

import html
import importlib
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

from book.ext import api, docstrings, recorded

from .looking import ROOT, ask, build, open_page, settings_of_the_book

PROBE = Path(__file__).with_name("probe.md").read_text(encoding="utf-8")


def test_the_forms_of_a_docstring_are_read() -> None:
    text = Path(__file__).with_name("docstring.md").read_text(encoding="utf-8")
    page = docstrings.markdown(text, "<{}>".format)
    for part in (
        "see <amplify> and ``q=0.5``; **not** a guess. A price of \\$5 stays.",
        "$$\na \\le b\n$$",
        "```{math}\nx &= y \\\\\nz &= 1\n```",
        "- one, which\n  goes on\n- two",
        "```none\nkept   as\nit is\n```",
        "|---|---|\n| <q> | 1 |",
        "**Raises**\n\n`ValueError`\n: if <q> is negative or above 1.",
        "\n\n**Source:** the lecture, slide 7,\n    second part.\n\n\n**Printed:** $2q$",
        "a \\< b",
    ):
        assert part in page, f"{part!r} is not in\n{page}"
    assert list(docstrings.labels(text)) == [
        ("Source", "the lecture, slide 7, second part."),
        ("Printed", "$2q$"),
        ("Implemented", "$q$"),
    ]


FOUR = "Source: s\n\nPrinted: x\nImplemented: y\n\nCounterexample: at 1."
EXAMPLE = ">>> 1 + 1\n2"


@pytest.mark.parametrize(
    "text", ["Printed: x", "Source: s\n\nPrinted: x\n\nPrinted: y", "Printed: x\n\nImplemented: y", FOUR]
)
def test_a_difference_needs_its_four_paragraphs_and_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"^m: wanted Source, .*, Counterexample with an example, got"):
        list(api.differences_of("m", text))
    found = list(api.differences_of("m", f"{FOUR}\n\n{EXAMPLE}\n\nSource: of another"))
    assert found == [("m", "s", "x", "y", f"at 1.\n\n{EXAMPLE}")]


@pytest.mark.parametrize(
    ("source", "works"),
    [
        (
            'J. Dong, A. Roth and W. J. Su, "Gaussian differential privacy", JRSS B 84 (2022), Definition 2.1',
            "Dong et al. 2022",
        ),
        (
            'definition. Balle and Wang, "Improving the Gaussian mechanism", arXiv:1805.06530 (2018)',
            "Balle and Wang 2018",
        ),
        ('Abadi et al., "Deep learning with differential privacy", CCS 2016', "Abadi et al. 2016"),
        ('the lecture, slide "DP-GD"', "the lecture"),
        ("as `epsilon_bounds`.", ""),
    ],
)
def test_works_cited(source: str, works: str) -> None:
    assert "".join(api.cited(source)) == works


def test_every_name_of_the_package_stands_on_one_page() -> None:
    """Each function and class of a public module, found in the sources; what a module gathers stands there alone."""
    shown = [entry.value for entries in api.homes().values() for entry in entries]
    code = [id(value) for value in shown if callable(value)]
    assert len(code) == len(set(code))
    written = [m for m in docstrings.modules() if m != "dpml" and not m.startswith(api.NOT_SHOWN)]
    names = [entry for module in written for entry in docstrings.public(module)]
    assert [entry.path for entry in names if all(entry.value is not value for value in shown)] == []
    assert [api.place(module) for module in api.homes()] == sorted(map(api.place, api.homes()))


def test_the_reference_shows_every_public_name_with_its_source(site: Path) -> None:
    """On the built pages: each function and class has an anchor, its parameters and what its docstring says.

    The map links each module.
    """
    count, links = 0, (site / "book" / "api" / "index.html").read_text(encoding="utf-8")
    for module, entries in api.homes().items():
        assert not entries or f'href="{Path(api.page_of(module)).name}.html#module-{module}"' in links, module
        page = html.unescape((site / f"{api.page_of(module)}.html").read_text(encoding="utf-8"))
        for entry in entries:
            count += 1
            assert f'id="{entry.path}"' in page, f"{entry.path} is not on its page"
            if inspect.isfunction(entry.value):
                block = page[page.index(f'id="{entry.path}"') :].split('<dl class="py', 1)[0]
                assert all(name in block for name in inspect.signature(entry.value).parameters), entry.path
                assert ("<strong>Source:</strong>" in block) == ("Source:" in (entry.value.__doc__ or "")), entry.path
        blocks = re.findall(r"<pre>(.*?)</pre>", page, re.DOTALL)
        assert [block for block in blocks if re.search(r"\\[a-z]+\b", block)] == [], "LaTeX is shown as written"
    assert count > 40


def test_formulas_are_set_wherever_they_stand(browser: Any, tmp_path: Path) -> None:
    """A page of its own, built with the book's settings, and built again after a change, without cleaning."""
    settings_of_the_book(tmp_path, page="probe")
    for ending in ("", "\nOne line more.\n"):
        (tmp_path / "probe.md").write_text(PROBE + ending, encoding="utf-8")
        assert build(tmp_path, "-W") == ""
    open_page(browser, (tmp_path / "_build" / "html" / "probe.html").as_uri())
    seen = ask(browser, "facts")
    assert re.findall(r"\$\$|\\\(|\\\[|\\begin|\\label|\?\?", seen["text"]) == []
    assert (seen["wrong"], seen["typeset"], seen["formulas"]) == (0, 6, 6)
    assert "A ticket costs $5, two cost $10." in seen["text"] and "One line more." in seen["text"]
    numbers = [number for number, target in seen["references"] if target.startswith("#equation-")]
    assert numbers == ["(1)", "(2)", "(3)"]
    for _, target in seen["references"]:
        assert browser.execute_script("return document.getElementById(arguments[0]) !== null", target.lstrip("#"))


def shown_by(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", page))


def words(cell: str) -> list[str]:
    """A cell without its punctuation, which the page sets in its own way."""
    return re.findall(r"-?\w[\w.,]*", cell)


def test_records_stand_whole_on_their_pages(site: Path) -> None:
    """How each was made, and every table that its script makes of it, cell by cell."""
    count = 0
    for source in sorted((ROOT / "book").glob("*.md")):
        named = re.findall(r"^```\{dpml-record\} (\S+) ?(\S*)", source.read_text(encoding="utf-8"), re.MULTILINE)
        page = (site / "book" / f"{source.stem}.html").read_text(encoding="utf-8")
        bodies = re.findall(r"<tbody>.*?</tbody>", page, re.DOTALL)
        shown = [[words(shown_by(cell)) for cell in re.findall(r"<td.*?</td>", body, re.DOTALL)] for body in bodies]
        for name, part in named:
            script = importlib.import_module(name)
            record = json.loads(script.RESULTS.read_text(encoding="utf-8"))
            record = record[part] if part else record
            assert f"Recorded on {record['date']} with {record['command']}: " in shown_by(page)
            for title, *_, lines in script.tables(record):
                assert [words(recorded.unbroken(cell)) for line in lines for cell in line] in shown, title
                count += 1
    assert count > 40
