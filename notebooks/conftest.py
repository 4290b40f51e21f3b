"""After a cell of a chapter, the numbers that tests/chapters/<slug>.py has for it, in the same kernel."""

from collections import defaultdict
from pathlib import Path

from nbformat.v4 import new_code_cell
from nbval.plugin import IPyNbCell

NUMBERS = Path(__file__).resolve().parents[1] / "tests" / "chapters"


def pytest_collection_modifyitems(items):
    items[:] = [one for item in items for one in (item, *numbers_after(item))]


def numbers_after(item):
    """Yield one more cell for nbval when the file of the chapter has a function for this one."""
    if (
        not isinstance(item, IPyNbCell)
        or item.path.parent != Path(__file__).parent
    ):
        return
    number, slug = item.path.stem.split("_", 1)
    function = item.cell["id"].replace(
        f"{number}-{slug.replace('_', '-')}-", "cell_"
    )
    file = NUMBERS / f"{slug}.py"
    if file.is_file() and f"def {function}(" in file.read_text(
        encoding="utf-8"
    ):
        paths = [str(path) for path in (NUMBERS / "verify.py", file, item.path)]
        call = f"__import__('runpy').run_path({paths[0]!r})['verify']({paths[1]!r}, {paths[2]!r}, {function!r}, globals())"
        yield IPyNbCell.from_parent(
            item.parent,
            name=f"numbers of {item.cell['id']}",
            cell_num=item.cell_num,
            cell=new_code_cell(call),
            options=defaultdict(bool),
        )
