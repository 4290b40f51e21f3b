"""Run the answer of one question by itself: with what it needs, and with its checks.

In a notebook the names of all cells live on, also those of a cell that was changed since. Here each run has names of
its own: of the cells above a question those run that bind a name which the answer or its checks use, and no others. So
run the fields on the pages of the website (`book/ext/answers.py`).
"""

from __future__ import annotations

import ast
import contextlib
import io
import linecache
import symtable
import traceback
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from dpml.classroom.verdict import NotYet

_LONGEST = 20_000  # characters of one output that are shown


class Cell(NamedTuple):
    """A cell of a notebook, or a part of one. What has a `name` is an answer, and may not have `ran` so far."""

    source: str
    name: str = ""
    ran: bool = True


class Outcome(NamedTuple):
    """Whether the answer came to its end, whether it and all its checks passed, and the text to show."""

    ended: bool
    passed: bool
    said: str


def names(source: str) -> tuple[set[str], set[str]]:
    """The names that a cell binds, and those that it uses; none if it is not Python."""
    try:
        top = symtable.symtable(source, "cell", "exec")
    except (SyntaxError, ValueError):
        return set(), set()
    bound = {one.get_name() for one in top.get_symbols() if one.is_assigned() or one.is_imported()}
    used, tables = set[str](), [top]
    for table in tables:  # grows
        outer = (one for one in table.get_symbols() if table is top or one.is_global())
        used |= {one.get_name() for one in outer if one.is_referenced()}
        tables += table.get_children()
    return bound, used


def pieces(source: str) -> list[str]:
    """A cell's statements, each name that is imported by itself: so one can be had without the others."""
    found = []
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Import):
            found += [ast.unparse(ast.Import([alias])) for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            found += [ast.unparse(ast.ImportFrom(statement.module, [alias], 0)) for alias in statement.names]
        else:
            found.append(ast.get_source_segment(source, statement) or "")
    return found


def needed(earlier: Sequence[Cell], later: Iterable[Cell]) -> list[Cell]:
    """Of the earlier cells those that bind, directly or not, a name which the later ones use; in their order."""
    wanted = set[str]()
    for cell in reversed(list(later)):
        bound, used = names(cell.source)
        wanted = (wanted - bound) | used
    found = []
    for cell in reversed(earlier):
        bound, used = names(cell.source)
        if bound & wanted:
            found.append(cell)
            wanted = (wanted - bound) | used
    return found[::-1]


def run(earlier: Sequence[Cell], answer: Cell, checks: Sequence[Cell]) -> Outcome:
    """Run an answer and its checks, after those of the earlier cells that they need, whose output is not shown."""
    before = needed(earlier, [answer, *checks])
    if unknown := [cell.name for cell in before if not cell.ran]:
        return Outcome(False, False, f"This answer uses an earlier one: run that first ({', '.join(unknown)}).")
    space: dict[str, Any] = {"__name__": "__main__"}
    for cell in before:
        said, good = _execute(cell, space)
        if not good:
            return Outcome(False, False, said)
    said, ended = _execute(answer, space)
    found = [(said, ended), *(_execute(check, space) for check in checks if ended)]
    return Outcome(ended, all(good for _, good in found), "\n".join(said for said, _ in found if said))


def _execute(cell: Cell, space: dict[str, Any]) -> tuple[str, bool]:
    """What a cell prints, and last its error, as in a notebook; and whether there was none."""
    file, out = f"<{cell.name or 'cell'}>", io.StringIO()
    linecache.cache[file] = (len(cell.source), None, cell.source.splitlines(keepends=True), file)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            tree = ast.parse(cell.source, file)
            last = [tree.body.pop()] if tree.body and isinstance(tree.body[-1], ast.Expr) else []
            exec(compile(tree, file, "exec"), space)
            exec(compile(ast.Interactive(last), file, "single"), space)  # as a notebook, this shows its value
            error = None
        except BaseException as caught:  # also SystemExit: the reader's Python goes on
            error = caught
    if error is not None:
        print(_told(error, file), file=out)
    text = out.getvalue().rstrip("\n")
    return (text if len(text) <= _LONGEST else f"{text[:2000]}\n…\n{text[-2000:]}"), error is None


def _told(error: BaseException, file: str) -> str:
    """An error, with the lines of the cell and of what it called, but without those that ran the cell."""
    if isinstance(error, NotYet):
        return f"Not yet: {error}"
    if isinstance(error, ModuleNotFoundError):
        return f"{type(error).__name__}: No module named {error.name!r}"
    step = error.__traceback__
    while step is not None and step.tb_frame.f_code.co_filename != file:
        step = step.tb_next
    return "".join(traceback.format_exception(type(error), error, step, chain=False)).rstrip()
