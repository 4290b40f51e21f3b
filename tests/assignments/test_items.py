"""Each sheet, drawn from several seeds: solutions pass, stubs and mistakes do not, and nothing is told beforehand."""

import contextlib
import functools
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assignments import grader, release
from assignments.answers import names_asked
from assignments.item import Argued, Graded, Sheet
from assignments.steps import split
from dpml.classroom.checks import NotYet
from dpml.pate.sparse_vector import outcomes

pytest.importorskip("nbgrader")
SEEDS = ["spring", "autumn", "winter"]
SHEETS = [(slug, seed) for slug in release.SHEETS for seed in SEEDS]
WORDS = {"def", "return", "import", "if", "for", "np", "lambda"}
each_sheet = pytest.mark.parametrize(("slug", "seed"), SHEETS, ids=lambda word: str(word))


def graded(sheet: Sheet) -> Iterator[Graded]:
    return (item for item in sheet.items if isinstance(item, Graded))


@functools.cache
def drawn(slug: str, seed: str) -> Sheet:
    """A sheet, drawn once for all tests here; that another process draws the same is a test of its own."""
    return release.drawn(slug, seed)


def outcome(sheet: Sheet, *texts: str) -> str:
    """Empty if all the texts run, else the error, whose kind the message begins with."""
    return outcome_of(sheet.imports, *texts)


@functools.cache
def outcome_of(imports: str, *texts: str) -> str:
    """The same for cells alone, of which equal ones run once: they share nothing with others."""
    space: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for text in (imports, *texts):
            try:
                exec(compile(text, "cell", "exec", dont_inherit=True), space)
            except Exception as error:
                if text is texts[0]:
                    raise
                return f"{type(error).__name__}: {error}"
    assert printed.getvalue().count("✓") >= len(texts) - 1, "a check that passes says so"
    return ""


@pytest.mark.parametrize(("slug", "seed"), [pair for pair in SHEETS if pair[1] != SEEDS[-1]])
def test_solutions_pass_and_others_do_not(slug: str, seed: str) -> None:
    sheet = drawn(slug, seed)
    for item in graded(sheet):
        assert outcome(sheet, item.solution, item.visible, item.hidden) == "", item.name
        kind = outcome(sheet, item.stub, item.visible)
        assert kind.startswith("NotYet: ") and "not written yet" in kind, item.name
        # The tests of the grading, which come one after the other.
        tests = f"{item.visible}\n{item.hidden}"
        assert outcome(sheet, item.stub, tests) != ""
        assert len(item.wrong) >= 2
        for mistake, answer in item.wrong.items():
            assert outcome(sheet, answer, tests).startswith("NotYet: "), f"{item.name}, {mistake}"


@pytest.fixture(autouse=True, scope="module")
def one_law_for_all_wrong_answers() -> Iterator[None]:
    """The probabilities of a stream's outcomes, which each wrong answer is compared with, are computed once."""
    original = outcomes.outcome_log_probability
    once = functools.cache(lambda queries, above, rest: original(queries, above=above, **dict(rest)))
    with pytest.MonkeyPatch.context() as patch:
        remembered = lambda queries, *, above, **rest: once(tuple(queries), tuple(above), tuple(rest.items()))  # noqa: E731
        patch.setattr(outcomes, "outcome_log_probability", remembered)
        yield


@pytest.mark.parametrize("slug", release.SHEETS)
def test_the_border_between_the_processes_changes_no_verdict(slug: str) -> None:
    """Of solutions, and of a wrong answer to each item, in one submission."""
    sheet = drawn(slug, SEEDS[0])
    items = list(graded(sheet))
    wrong = [next(iter(item.wrong.values())) for item in items]
    pairs = [*((item, item.solution) for item in items), *zip(items, wrong, strict=True)]
    given = [grader.Item(item.name, item.stub, answer, item.visible, item.hidden) for item, answer in pairs]
    came = grader.examined(sheet.imports, given)
    assert [verdict.name for verdict in came if verdict.passed] == [item.name for item in items]
    for verdict, item, answer in zip(came[len(items) :], items, wrong, strict=True):
        here = outcome(sheet, answer, f"{item.visible}\n{item.hidden}").removeprefix("NotYet")
        assert verdict.text == f"Not yet{here}", item.name


NONSENSE = ["float('nan')", "float('inf')", "None", "'text'", "[]", "{}", "np.zeros(3)", "print"]


@pytest.mark.parametrize("slug", release.SHEETS)
def test_nonsense_gets_no_points(slug: str) -> None:
    sheet = drawn(slug, SEEDS[-1])
    for item in graded(sheet):
        for value in NONSENSE:
            made = ["import numpy as np"]
            for name in names_asked(item.stub):
                function = f"def {name}(*args, **kwargs):\n    return {value}"
                made.append(function if f"def {name}(" in item.stub else f"{name} = {value}")
            answer = "\n".join(made)
            assert outcome(sheet, answer, f"{item.visible}\n{item.hidden}") != "", f"{item.name}: {value}"


@each_sheet
def test_a_sheet_is_complete(slug: str, seed: str) -> None:
    sheet = drawn(slug, seed)
    names = [item.name for item in sheet.items]
    assert len(set(names)) == len(names) and all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)
    assert len(list(graded(sheet))) >= 5 and len(names) > len(list(graded(sheet)))
    number = list(release.dpml.CHAPTERS).index(slug)
    assert re.match(r"Graded exercises \d\d: \S", sheet.title)
    assert sheet.title.startswith(f"Graded exercises {number:02d}: ")
    for item in sheet.items:
        title, _, text = item.question.partition("\n")
        assert title and not title.startswith("#") and len(text.split()) >= 10
        assert "torch" not in item.question
        if isinstance(item, Argued):
            given = [int(n) for n in re.findall(r"\((\d+) points?\)", item.rubric)]
            assert sum(given) == item.points and len(item.answer.split()) >= 20
            assert all(line.startswith(("- ", "  ")) for line in item.rubric.splitlines())
        else:
            assert 1 <= item.points <= 4
            assert names_asked(item.stub) and "import torch" not in item.solution
            assert "assignments" not in item.visible + item.hidden
            assert all(len(line) <= 100 for line in item.stub.splitlines())
            assert not {line.strip() for line in item.solution.splitlines()} & {
                line.strip() for line in item.visible.splitlines() if WORDS & set(re.findall(r"\w+", line))
            }


@each_sheet
def test_the_notebooks_tell_nothing_beforehand(slug: str, seed: str) -> None:
    """The source in nbgrader's form; what nbgrader makes of it is looked at by the release itself."""
    sheet = drawn(slug, seed)
    notebook = json.loads(json.dumps(release.source(slug, sheet)))
    for cell in notebook["cells"]:
        before, marked, _ = cell["source"].partition("### BEGIN SOLUTION")
        cell["source"] = before if marked else split(cell["source"])[0]
    assert release.leaks(notebook, sheet, seed) == []
    assert all(item.hidden.strip() and "HIDDEN TESTS" not in item.hidden for item in graded(sheet))


@pytest.fixture(scope="module")
def elsewhere() -> dict[str, str]:
    """The sheets of a seed, as another process draws them."""
    code = "import json; from assignments import release as r; "
    code += f"print(json.dumps({{slug: repr(r.drawn(slug, {SEEDS[0]!r})) for slug in r.SHEETS}}))"
    return json.loads(
        subprocess.run([sys.executable, "-c", code], cwd=release.ROOT, capture_output=True, check=True).stdout
    )


@pytest.mark.parametrize("slug", release.SHEETS)
def test_a_seed_draws_its_own_sheet(slug: str, elsewhere: dict[str, str]) -> None:
    """Each item differs between some of the seeds; the same seed repeats, in another process too."""
    sheets = {seed: drawn(slug, seed) for seed in [*SEEDS, *map(str, range(9))]}
    assert len({repr(sheet) for sheet in sheets.values()}) == len(sheets)
    names: Mapping[str, set[str]] = {item.name: set() for sheet in sheets.values() for item in graded(sheet)}
    for sheet in sheets.values():
        assert len({item.name for item in sheet.items}) == len(sheet.items), "nbgrader refuses a name that comes twice"
        for item in graded(sheet):
            names[item.name].add(item.question + item.hidden)
    assert [name for name, texts in names.items() if len(texts) == 1 and len(sheets) > 3] == []
    assert elsewhere[slug] == repr(sheets[SEEDS[0]])


@pytest.mark.parametrize("slug", release.SHEETS)
def test_the_practice_solutions_are_no_answers(slug: str) -> None:
    """Whoever pastes all solutions of the practice gets at most a third of the items."""
    [path] = (Path(release.ROOT) / "notebooks" / "exercises").glob(f"[0-9][0-9]_{slug}.ipynb")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    solutions = [text for text in code if not text.startswith("items.check_")]
    if "torch" in "".join(solutions):
        pytest.skip("the practice needs PyTorch, and a graded answer may not use it")
    for seed in SEEDS:
        sheet = drawn(slug, seed)
        space: dict[str, Any] = {"np": np}
        with contextlib.redirect_stdout(io.StringIO()):
            for text in solutions:
                exec(compile(text, "cell", "exec", dont_inherit=True), space)
        passed = 0
        for item in graded(sheet):
            mine = dict(space)
            with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(NotYet, NameError):
                for text in (sheet.imports, item.visible, item.hidden):
                    exec(compile(text, "cell", "exec", dont_inherit=True), mine)
                passed += 1
        assert 3 * passed <= len(list(graded(sheet)))
