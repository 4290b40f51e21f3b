"""The page of a notebook offers the student's version for download, as a file.

The theme links the notebook as it is, solutions included, and a page that was opened without a server would show it as
text. Here the link holds the file itself, in plain Markdown, which every program can show.

Where _config.yml has the address of the repository, each of these notebooks installs the course, and beside them lies
what Binder needs: the folder _sources can then be published as a branch, which Colab, Binder and a JupyterHub open.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from dpml.classroom.plain import as_lines, with_plain_text
from dpml.classroom.students import make_student_version

ROOT = Path(__file__).resolve().parents[2]
TORCH = re.compile(r"^\s*(?:import|from) (?:torch|dpml\.training)\b", re.MULTILINE)

INSTALL = """# Installs the course where it is missing, as on Colab.
import importlib.util

if importlib.util.find_spec("dpml") is None:
    %pip install --quiet "{requirement}"
"""


def extras(notebook: Mapping[str, Any], root: Path = ROOT) -> list[str]:
    """The optional dependencies that a notebook needs: its own code and the parts of its lesson say whether PyTorch."""
    code = "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code")
    parts = re.findall(r"(?m)^from dpml\.lessons\.(\w+) import (\w+)", code)
    texts = [code, *((root / "dpml" / "lessons" / slug / f"{part}.py").read_text("utf-8") for slug, part in parts)]
    return ["notebooks", "torch"] if any(TORCH.search(text) for text in texts) else ["notebooks"]


def with_install(notebook: dict[str, Any], *, address: str, extras: list[str]) -> dict[str, Any]:
    """The notebook (nbformat 4, as parsed JSON) whose first code cell installs dpml with these extras, if it must.

    `address` is that of a git repository which pip can read, such as ``https://host/owner/name``.
    """
    text = INSTALL.format(requirement=f"dpml[{','.join(extras)}] @ git+{address}")
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    cells = list(notebook["cells"])
    first = next((n for n, one in enumerate(cells) if one["cell_type"] == "code"), len(cells))
    cells.insert(first, {"id": "install", **cell, "source": as_lines(text.rstrip())})
    return {**notebook, "cells": cells}


def for_students(notebook: Mapping[str, Any], *, name: str, address: str) -> str:
    """The file that a student downloads or opens elsewhere, which installs the course if the address is known."""
    student = with_plain_text(make_student_version(notebook, name=name))
    if address:
        student = with_install(student, address=address, extras=extras(student))
    return json.dumps(student, indent=1, ensure_ascii=False) + "\n"


def binder(target: Path, address: str) -> None:
    """Write what Binder needs beside the notebooks; there the package comes from its repository."""
    target.mkdir(exist_ok=True)
    for path in (ROOT / ".binder").iterdir():
        text = path.read_text(encoding="utf-8").replace("--no-deps .\n", f'--no-deps "dpml @ git+{address}"\n')
        (target / path.name).write_text(text, encoding="utf-8", newline="\n")
        (target / path.name).chmod(path.stat().st_mode)


def hand_out(app: Sphinx, error: Exception | None) -> None:
    """Put the student's version in the place of each notebook that was copied, and into the page that links it."""
    sources, address = Path(app.outdir, "_sources"), app.config.html_theme_options.get("repository_url", "")
    for path in () if error else sorted(sources.rglob("*.ipynb")):
        text = for_students(json.loads(path.read_text(encoding="utf-8")), name=path.name, address=address)
        path.write_text(text, encoding="utf-8", newline="\n")
        page = Path(app.outdir, path.relative_to(sources)).with_suffix(".html")
        link = rf'href="[./]*_sources/[^"]*{re.escape(path.name)}" target="_blank"'
        data = f"data:application/x-ipynb+json;base64,{base64.b64encode(text.encode()).decode()}"
        shown = re.sub(link, f'href="{data}" download="{path.name}"', page.read_text(encoding="utf-8"))
        page.write_text(shown, encoding="utf-8")
    if address and not error:
        binder(sources / ".binder", address)


def setup(app: Sphinx) -> dict[str, object]:
    """The sources are copied while the pages are written."""
    app.connect("build-finished", hand_out)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
