"""Whether the website's build has run every exercise, as it is, without an error: then the tests need not run it again.

`python -m tests.repository.ran_by_site` says so, with exit status 0; it relies on course.py to compare the package.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
from jupyter_cache import get_cache

ROOT = Path(__file__).resolve().parents[2]


def faults(notebooks: list[Path], cache: Path) -> Iterator[str]:
    """Why the outputs in the cache do not stand for a run of these notebooks."""
    if not cache.is_dir():
        yield "no website has been built"
        return
    stored = get_cache(cache)
    for path in notebooks:
        try:
            found = stored.get_cache_bundle(stored.match_cache_notebook(nbformat.read(path, as_version=4)).pk)
        except KeyError:
            yield f"{path.name} is not among the notebooks that have run"
            continue
        cells = [cell for cell in found.nb.cells if cell.cell_type == "code"]
        if any(out.output_type == "error" or out.get("name") == "stderr" for cell in cells for out in cell.outputs):
            yield f"{path.name} ran with an error or a warning"


if __name__ == "__main__":
    exercises = sorted((ROOT / "notebooks" / "exercises").glob("*.ipynb"))
    found = list(faults(exercises, ROOT / "_build" / ".jupyter_cache"))
    print(found[0] if found else f"The website has just run the {len(exercises)} exercises: they need not run again.")
    sys.exit(1 if found else 0)
