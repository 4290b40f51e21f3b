"""The page of an exercise shows the solutions, folded; the notebook that it offers for download is the student's."""

from __future__ import annotations

import json
from pathlib import Path

from sphinx.application import Sphinx

from dpml.classroom.students import make_student_version


def hand_out(app: Sphinx, _error: Exception | None) -> None:
    """Put the student's version in the place of each source that an exercise page links to."""
    for path in Path(app.outdir, "_sources", "notebooks", "exercises").glob("*.ipynb"):
        student = make_student_version(json.loads(path.read_text(encoding="utf-8")), name=path.name)
        path.write_text(json.dumps(student, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def setup(app: Sphinx) -> dict[str, object]:
    """The sources are copied while the pages are written."""
    app.connect("build-finished", hand_out)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
