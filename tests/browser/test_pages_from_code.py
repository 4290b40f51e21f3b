"""The extensions of the book: docstrings become pages, and formulas survive every place where Markdown may put them."""

from __future__ import annotations

import html
import inspect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .looking import DESKTOP, FACTS, ROOT, open_page, resize

PROBE = r"""# Probe

- An item with a numbered formula:

  $$ a + b = c $$ (eq-in-list)

  and its number {eq}`eq-in-list`.

:::{prf:theorem} In a box
Inside $x$ and

$$ \frac{\Pr[M(D) \in E]}{\Pr[M(D') \in E]} \le e^{\varepsilon} $$ (eq-in-box)
:::

```{math}
:label: eq-aligned
\begin{aligned}
a &= b + c \\
d &= e
\end{aligned}
```

See {eq}`eq-in-box` and {eq}`eq-aligned`. A ticket costs \$5, two cost \$10.

\begin{align}
x &= y \\
z &= 1
\end{align}

Within a line $$ s^2 $$ too.
"""


@pytest.fixture(scope="module")
def docstrings() -> Iterator[Any]:
    """The reader of docstrings, imported as the book imports it."""
    sys.path.insert(0, str(ROOT))
    try:
        from book.ext import docstrings as module

        yield module
    finally:
        sys.path.remove(str(ROOT))


def rendered(docstrings: Any, text: str) -> str:
    return "".join(str(node) for node in docstrings.render(text))


def test_the_forms_of_a_docstring_are_read(docstrings: Any) -> None:
    text = r"""Return a bound.

    The number is $\log(1 + q)$, see `amplify` and ``q=0.5``; **not** a guess. A price of \$5 stays.

    $$
    a \le b
    $$

    .. math::

        x &= y \\
        z &= 1

    Then an item:

    - one, which
      goes on
    - two

        kept   as
        it is

    | name | value |
    |---|---|
    | `q` | 1 |

    Raises:
        ValueError: if `q` is negative
            or above 1.

    Source: the lecture, slide 7,
        second part.
    Printed: $2q$
    Implemented: $q$
    """
    page = rendered(docstrings, text)
    for part in (
        r"<math>\log(1 + q)</math>",
        "<literal>amplify</literal>",
        "<literal>q=0.5</literal>",
        "<strong>not</strong>",
        "A price of $5 stays.",
        r'xml:space="preserve">a \le b</math_block>',
        'xml:space="preserve">x &= y \\\\\nz &= 1</math_block>',
        "<paragraph>Then an item:</paragraph>",
        "<paragraph>one, which goes on</paragraph>",
        "kept   as\nit is",
        "<entry><paragraph><literal>q</literal></paragraph></entry>",
        "<term><literal>ValueError</literal></term>",
        "is negative or above 1.",
        "<strong>Source:</strong> the lecture, slide 7, second part.",
        "<strong>Printed:</strong> <math>2q</math>",
    ):
        assert part in page, f"{part!r} is not in\n{page}"
    assert list(docstrings.labels(text)) == [
        ("Source", "the lecture, slide 7,\nsecond part."),
        ("Printed", "$2q$"),
        ("Implemented", "$q$"),
    ]


@pytest.mark.parametrize("text", ["", "a * b ** c | d | $", "`open", "Raises:", "- ", "$$", "x::", ">>> 1\n1", "|a|b|"])
def test_no_docstring_breaks_the_page(docstrings: Any, text: str) -> None:
    words = re.findall(r"\w+", text)
    page = rendered(docstrings, text)
    assert all(word in page for word in words)


@pytest.mark.parametrize(
    "text", ["Printed: x", "Source: s\n\nPrinted: x\n\nPrinted: y", "Printed: x\n\nImplemented: y"]
)
def test_a_difference_needs_its_three_paragraphs(docstrings: Any, text: str) -> None:
    from book.ext import errata

    with pytest.raises(ValueError, match=r"m: '(Printed|Implemented):' must"):
        list(errata.pairs("m", text))


def test_the_reference_shows_every_public_name_with_its_source(docstrings: Any, site: Path) -> None:
    """On the built pages: each function and class has an anchor, its parameters and what its docstring says."""
    from book.ext import api

    count = 0
    for module in api.homes():
        page = html.unescape((site / f"{api.page_of(module)}.html").read_text(encoding="utf-8"))
        for entry in docstrings.public(module):
            count += 1
            assert f'id="{entry.path}"' in page, f"{entry.path} is not on its page"
            if inspect.isfunction(entry.value):
                block = page[page.index(f'id="{entry.path}"') :].split('<dl class="py', 1)[0]
                assert all(name in block for name in inspect.signature(entry.value).parameters), entry.path
                assert ("<strong>Source:</strong>" in block) == ("Source:" in (entry.value.__doc__ or "")), entry.path
        blocks = re.findall(r"<pre>(.*?)</pre>", page, re.DOTALL)
        assert [block for block in blocks if re.search(r"\\[a-z]+\b", block)] == [], "LaTeX is shown as written"
    assert count > 40
    assert api.missing() == []


@pytest.mark.usefixtures("site")
def test_formulas_are_set_wherever_they_stand(browser: Any, tmp_path: Path) -> None:
    """A page of its own, built with the book's settings, and built again after a change, without cleaning."""
    for name in ("ext", "static", "references.bib"):
        source, target = ROOT / "book" / name, tmp_path / "book" / name
        target.parent.mkdir(exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    shutil.copy(ROOT / "_config.yml", tmp_path)
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: probe\n", encoding="utf-8")
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build", "-W", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}
    for ending in ("", "\nOne line more.\n"):
        (tmp_path / "probe.md").write_text(PROBE + ending, encoding="utf-8")
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, encoding="utf-8")
        assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    resize(browser, DESKTOP)
    open_page(browser, (tmp_path / "_build" / "html" / "probe.html").as_uri())
    seen = browser.execute_script(FACTS)
    assert re.findall(r"\$\$|\\\(|\\\[|\\begin|\\label|\?\?", seen["text"]) == []
    assert seen["wrong"] == 0
    assert seen["typeset"] == seen["formulas"] == 6
    assert "A ticket costs $5, two cost $10." in seen["text"]
    assert "One line more." in seen["text"]
    numbers = [number for number, target in seen["references"] if target.startswith("#equation-")]
    assert numbers == ["(1)", "(2)", "(3)"]
    for _, target in seen["references"]:
        assert browser.execute_script("return document.getElementById(arguments[0]) !== null", target.lstrip("#"))


@pytest.mark.usefixtures("site")
def test_the_map_links_every_module_of_a_chapter(site: Path, docstrings: Any) -> None:
    chapters: dict[str, tuple[str, ...]] = __import__("dpml").CHAPTERS
    page = (site / "book" / "api" / "index.html").read_text(encoding="utf-8")
    names: Callable[[str], bool] = set(docstrings.modules()).__contains__
    for modules in chapters.values():
        for module in filter(names, modules):
            assert re.search(rf'href="[^"]*#module-{re.escape(module)}[."]', page), module
