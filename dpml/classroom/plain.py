"""Notebooks that read well everywhere.

The website and JupyterLab, with jupyterlab-myst, draw a box around a theorem. Colab, VS Code and a plain Jupyter show
the fence as it is written, ``:::{prf:theorem} The Laplace mechanism``. Here a box becomes a quotation with a bold
title, which every program can show.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["plain_text", "with_plain_text"]

_BOX = re.compile(r"^:::\{(?:prf:)?(\w+)\} *([^\n]*)\n(?::\w+:[^\n]*\n)*(.*?)\n*^::: *$", re.MULTILINE | re.DOTALL)
_FORMULA = re.compile(r"\$\$.+?\$\$|\$(?:(?!\n\n)[^$])+\$", re.DOTALL)
_BLOCK = re.compile(r"[-*+|>`<]|\d+\.|\$\$")


def plain_text(text: str) -> str:
    """MyST Markdown with each box (a directive between fences of colons) as a quotation with a bold title.

    A formula in a box goes on one line: where the program takes formulas out before it reads the quotation, the mark of
    its second line would become part of the formula.
    """
    return _BOX.sub(_quotation, text)


def _quotation(box: re.Match[str]) -> str:
    kind, title, body = box.groups()
    head = title if kind == "admonition" else f"{kind.capitalize()} ({title})" if title else kind.capitalize()
    body = _FORMULA.sub(lambda formula: " ".join(formula[0].split("\n")), body)
    quoted = f"**{head}.**" + ("\n\n" if _BLOCK.match(body) else " ") + body
    return "\n".join(f"> {line}".rstrip() for line in quoted.split("\n"))


def with_plain_text(notebook: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the notebook (nbformat 4, as parsed JSON) whose text cells are plain Markdown."""
    copied = copy.deepcopy(dict(notebook))
    for cell in copied["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = as_lines(plain_text("".join(cell["source"])))
    return copied


def as_lines(text: str) -> list[str]:
    """Lines with their ends, the form of Jupyter; not splitlines, which also splits at rarer characters."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
