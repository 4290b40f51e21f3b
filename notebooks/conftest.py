"""After a cell of a chapter come its numbers, from tests/chapters/<slug>.py."""

from collections import defaultdict
from pathlib import Path

from nbformat.v4 import new_code_cell
from nbval.plugin import IPyNbCell

HERE = Path(__file__).resolve().parent
NUMBERS = HERE.parent / "tests" / "chapters"


def pytest_collection_modifyitems(items):
    items[:] = [one for item in items for one in (item, *numbers_after(item))]


def numbers_after(item):
    """Yield one more cell, for the same kernel, if there is a function for it.

    01-promise-08 is followed by the function cell_08 of promise.py.
    """
    if not isinstance(item, IPyNbCell) or item.path.resolve().parent != HERE:
        return
    file = NUMBERS / f"{item.path.stem.split('_', 1)[1]}.py"
    prefix = item.path.stem.replace("_", "-") + "-"
    function = item.cell["id"].replace(prefix, "cell_")
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    if f"def {function}(" in text:
        verify = f"__import__('runpy').run_path({str(NUMBERS / 'verify.py')!r})"
        about = f"{str(file)!r}, {str(item.path)!r}, {function!r}, globals()"
        yield IPyNbCell.from_parent(
            item.parent,
            name=f"numbers of {item.cell['id']}",
            cell_num=item.cell_num,
            cell=new_code_cell(f"{verify}['verify']({about})"),
            options=defaultdict(bool),
        )
