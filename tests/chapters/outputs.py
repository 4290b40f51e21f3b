"""A chapter or an exercise runs once: what a run of nbval leaves in which nothing failed is what the website shows.

``pytest -p tests.chapters.outputs notebooks`` puts it where the build of the site looks, and leaves out the notebooks
of which something lies there and whose code, text and numbers are as they were then. course.py drops all of it when the
package has changed.
"""

import functools
import hashlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from nbval.plugin import IPyNbCell

HERE = Path(__file__).resolve().parent
FAILED_BEFORE = pytest.StashKey[int]()


@functools.cache
def cache(config: pytest.Config) -> Any:
    return get_cache(config.rootpath / "_build" / ".jupyter_cache")


def judged_by(path: Path) -> str:
    """A digest of all that a run of this notebook is held against."""
    numbers = [HERE / f"{path.stem.partition('_')[2]}.py", HERE / "verify.py", HERE.parent / "near.py"]
    files = [path, *numbers, path.parent / "conftest.py"]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files if file.is_file())).hexdigest()


def pytest_configure(config: pytest.Config) -> None:
    cache(config).list_cache_records()  # makes the database, before several processes would


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    records = cache(config).list_cache_records()
    done = {one.uri for one in records if one.data.get("judged by") == judged_by(Path(one.uri))}
    items[:] = [item for item in items if str(item.path) not in done]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[Any]:
    if not isinstance(item, IPyNbCell):
        return (yield)
    before = item.parent.stash.setdefault(FAILED_BEFORE, item.session.testsfailed)
    result = yield
    item.cell.outputs = item.test_outputs
    if (nextitem is None or nextitem.path != item.path) and item.session.testsfailed == before:
        for number, cell in enumerate((cell for cell in item.parent.nb.cells if cell.cell_type == "code"), 1):
            cell.execution_count = number
        item.parent.nb.metadata.language_info = {"name": "python", "pygments_lexer": "ipython3"}
        kept = CacheBundleIn(item.parent.nb, str(item.path), data={"judged by": judged_by(item.path)})
        with suppress(Exception):  # a build of the site may write there, too: then it runs this notebook once more
            cache(item.config).cache_notebook_bundle(kept, check_validity=False, overwrite=True)
    return result
