"""The page of a notebook offers the student's version for download, as a file.

The theme links the notebook as it is, solutions included, and a page that was opened without a server would show it as
text. Here the link holds the file itself.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

from sphinx.application import Sphinx

from dpml.classroom.students import make_student_version


def hand_out(app: Sphinx, error: Exception | None) -> None:
    """Put the student's version in the place of each notebook that was copied, and into the page that links it."""
    sources = Path(app.outdir, "_sources")
    for path in () if error else sorted(sources.rglob("*.ipynb")):
        student = make_student_version(json.loads(path.read_text(encoding="utf-8")), name=path.name)
        text = json.dumps(student, indent=1, ensure_ascii=False) + "\n"
        path.write_text(text, encoding="utf-8", newline="\n")
        page = Path(app.outdir, path.relative_to(sources)).with_suffix(".html")
        link = rf'href="[./]*_sources/[^"]*{re.escape(path.name)}" target="_blank"'
        data = f"data:application/x-ipynb+json;base64,{base64.b64encode(text.encode()).decode()}"
        shown = re.sub(link, f'href="{data}" download="{path.name}"', page.read_text(encoding="utf-8"))
        page.write_text(shown, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, object]:
    """The sources are copied while the pages are written."""
    app.connect("build-finished", hand_out)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
