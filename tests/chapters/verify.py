"""Run in the kernel of a chapter, right after a cell: what a function of tests/chapters says about its names.

A function ``cell_08(accused, says)`` in ``tests/chapters/promise.py`` belongs to the cell with the id 01-promise-08.
Its arguments are the chapter's names, as they are when that cell has run, and `says`, which compares numbers
with the chapter's text. A failing ``assert`` shows its values, as in any test.
"""

import ast
import importlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion.rewrite import rewrite_asserts

NUMBER = re.compile(r"([-−]?)(?:([\d,]*\.?\d+)(?: \\cdot )?)?(?:10\^\{?(-?\d+)\}?)?(?: ?\\?(%))?")


def read(text: str) -> tuple[float, float]:
    r"""Return the number that a text prints, and half a unit of its last digit.

    >>> read("13.6 %"), read("10,999"), read(r"2.7 \cdot 10^{43}")
    ((0.136, 0.0005), (10999.0, 0.5), (2.7e+43, 5e+41))
    """
    match = NUMBER.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        raise ValueError(f"text must be one number, like '13.6 %' or '10,999', got {text!r}")
    digits = (match[2] or "1").replace(",", "")
    exponent = int(match[3] or 0) - (2 if match[4] else 0)
    places = len(digits.partition(".")[2])
    value = float(f"{digits}e{exponent}") * (-1 if match[1] else 1)
    return value, 0.5 * float(f"1e{exponent - places}")


def prose(notebook: str | Path) -> str:
    """Return the text of a chapter, its white space made single."""
    cells = json.loads(Path(notebook).read_text(encoding="utf-8"))["cells"]
    text = " ".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return re.sub(r"\s+", " ", text.replace("{,}", ",")).replace("**", "")


def speaker(text: str) -> Callable[..., None]:
    """Return the function `says` of a chapter with this text."""

    def says(claims: Mapping[str, float], *, within: float | None = None) -> None:
        """Each key is a number as the text prints it; its value must round to it, or lie `within` of it."""
        for printed, value in claims.items():
            goal, half = read(printed)
            assert re.search(rf"(?<![\d.,]){re.escape(printed)}(?![\d]|[.,]\d)", text), f"{printed} is not in the text"
            assert abs(value - goal) <= (half * (1 + 1e-9) if within is None else within), f"{printed}: {value!r}"

    return says


def verify(numbers: str, notebook: str, function: str, names: Mapping[str, Any]) -> None:
    """Call the function of the file `numbers` with the names of a chapter."""
    root = str(Path(__file__).resolve().parents[2])
    if root not in sys.path:
        sys.path.append(root)
    pytest.approx = importlib.import_module("tests.near").near
    source = Path(numbers).read_bytes()
    tree = ast.parse(source, numbers)
    rewrite_asserts(tree, source)
    defined: dict[str, Any] = {"__file__": numbers, "__name__": f"numbers_{Path(numbers).stem}"}
    exec(compile(tree, numbers, "exec"), defined)
    given = {"says": speaker(prose(notebook)), **names}
    defined[function](**{name: given[name] for name in inspect.signature(defined[function]).parameters})
