"""Every registered mistake of every check, fed back as an answer, gets its own diagnosis; every mechanism is tried with
more noise, less, none, and one noise for all.

The items are read from the exercise notebooks, with the model answers that their solutions define.
"""

import ast
import contextlib
import functools
import importlib
import inspect
import operator
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

from dpml.classroom import checks, function_checks
from dpml.classroom.calls import named
from dpml.classroom.checks import Mistake, NotYet
from dpml.classroom.laws import Law
from tests.lessons.answers import told
from tests.lessons.test_all_exercises import FOLDER, code_cells, read
from tests.lessons.test_answers import LESSONS

SOLUTION = "### BEGIN SOLUTION"
KINDS = ("number", "choice", "statements", "counterexample", "function", "law", "argument")


class Item(NamedTuple):
    slug: str
    check: str
    arguments: tuple[str, ...]
    mechanism: bool


def notebooks(slug: str) -> list[Path]:
    """The exercises, and then the chapters that ask some of them in their text."""
    paths = [path for folder in (FOLDER, FOLDER.parent) for path in sorted(folder.glob(f"*_{slug}.ipynb"))]
    return [path for path in paths if SOLUTION in path.read_text("utf-8")]


def items() -> list[Item]:
    found = []
    for path in notebooks("*"):
        for cell in code_cells(read(path)):
            for node in ast.walk(ast.parse("".join(cell["source"]))):
                if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("items.check_"):
                    names = tuple(ast.unparse(arg) for arg in (*node.args, *(k.value for k in node.keywords)))
                    tags = cell["metadata"].get("tags", [])
                    found.append(
                        Item(path.stem.partition("_")[2], ast.unparse(node.func)[6:], names, "mechanism" in tags)
                    )
    return found


ITEMS = items()


@functools.cache
def model_answers(slug: str) -> dict[str, Any]:
    """The names that the exercises define, and the imports and solutions of the chapter, the checks left out."""
    names: dict[str, Any] = {}
    for path in notebooks(slug):
        for cell in code_cells(read(path)):
            source = "".join(cell["source"])
            tree = ast.parse(source)
            if path.parent != FOLDER and SOLUTION not in source:
                tree.body = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
            if "items.check_" not in source:
                exec(compile(tree, f"<{path.stem}>", "exec"), names)
    return names


def lesson(slug: str) -> ModuleType:
    return importlib.import_module(f"dpml.lessons.{slug}.checks")


def checker(item: Item) -> Callable[[Any], None]:
    """The check as a function of the first of its answers; the others are right."""
    check = getattr(lesson(item.slug), item.check)
    rest = {name: model_answers(item.slug)[name] for name in item.arguments[1:]}
    return lambda answer: check(answer, **rest)


def registered(check: Callable[[Any], None], answer: Any) -> list[tuple[str, dict[str, Any]]]:
    """What a check asks of the classroom about an answer: the kind of check, and its arguments."""
    asked: list[tuple[str, dict[str, Any]]] = []
    with pytest.MonkeyPatch.context() as patch:
        for kind in KINDS:
            patch.setattr(checks, kind, lambda answer, kind=kind, **given: asked.append((kind, given)))
        patch.setattr(checks, "properties", lambda *answer, **given: None)
        with contextlib.suppress(NotYet):
            check(answer)
    return asked


def mistakes(kind: str, given: dict[str, Any]) -> list[Mistake]:
    """Those that a check has; of statements, each judged wrongly."""
    if kind == "statements":
        right = {key: truth for key, (truth, _) in given["expected"].items()}
        return [
            Mistake(right | {key: not truth}, f"{key!r} is not right yet: {reason}")
            for key, (truth, reason) in given["expected"].items()
        ]
    return list(given.get("wrong" if kind == "law" else "mistakes", ()))


def remembered(law: Callable[..., Any]) -> Callable[..., Any]:
    """The law, computed once for equal arguments."""

    @functools.cache
    def found(key: bytes) -> Any:
        data, rest = pickle.loads(key)
        return law(data, **rest)

    def again(data: Any, **rest: Any) -> Any:
        return found(pickle.dumps((data, rest)))

    return again


def drawn(law: Callable[..., Any], noise: float = 1.0) -> Callable[..., Any]:
    """A mechanism with this law."""
    found, last = remembered(law), ([], None)

    def answer(data: Any, *, rng: np.random.Generator, **rest: Any) -> Any:
        nonlocal last
        asked = [data, *rest.values()]
        if len(last[0]) != len(asked) or any(map(operator.is_not, last[0], asked)):
            last = asked, found(data, noise=noise, **rest)
        parts = last[1]
        if isinstance(parts, Law):
            return parts.draw(rng, 1)[0]
        groups: dict[int, list[int]] = {}
        for i, part in enumerate(parts):
            groups.setdefault(id(part), []).append(i)
        drawn = {i: x for at in groups.values() for i, x in zip(at, parts[at[0]].draw(rng, len(at)), strict=True)}
        return np.array([drawn[i] for i in range(len(parts))])

    return answer


def one_noise(law: Callable[..., Any]) -> Callable[..., Any]:
    """The same random numbers for every coordinate."""
    each = drawn(lambda data, i, **rest: law(data, **rest)[i])

    def answer(data: Any, *, rng: np.random.Generator, **rest: Any) -> Any:
        seed = int(rng.integers(2**60))
        size = len(law(data, **rest))
        return np.array([each(data, i=i, rng=np.random.default_rng(seed), **rest) for i in range(size)])

    return answer


def fed_back(kind: str, mistake: Mistake) -> Any:
    if kind == "law":
        return drawn(mistake.wrong)
    if callable(mistake.wrong) and kind != "function":
        assert mistake.example is not None, f"give the predicate an example: {mistake.diagnosis}"
        return mistake.example
    return mistake.wrong


@pytest.mark.parametrize("slug", LESSONS)
def test_every_check_is_asked(slug):
    made = {check for name, check in inspect.getmembers(lesson(slug), inspect.isfunction) if name.startswith("check_")}
    assert made == {getattr(lesson(slug), item.check) for item in ITEMS if item.slug == slug}
    right, wrong = LESSONS[slug].RIGHT, LESSONS[slug].WRONG
    assert made >= right.keys() >= wrong.keys() and all(len(answers) >= 2 for answers in right.values())


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: f"{item.slug}-{item.check}")
def test_every_mistake_gets_its_own_diagnosis(item, capsys):
    check = checker(item)
    right = model_answers(item.slug)[item.arguments[0]]
    assert told(check, right) == ""
    failures, known = [], registered(check, right)
    tables, made, kinds = LESSONS[item.slug], getattr(lesson(item.slug), item.check), {kind for kind, _ in known}
    assert made in tables.RIGHT or kinds in ({"statements"}, {"argument"}), "answers by hand are missing"
    if kinds == {"argument"}:  # no tick, whatever it says: a rubric, and a question that the right words do not answer
        capsys.readouterr()
        assert told(check, 30 * "noise ") == ""
        out = capsys.readouterr().out
        assert ": read, not graded." in out and "✓" not in out and out.endswith("?\n")
    elif "choice" not in kinds:
        assert sum(len(mistakes(*asked)) for asked in known) + len(tables.WRONG.get(made, ())) >= 3
    for position, (kind, given) in enumerate(known):
        for i, mistake in enumerate(mistakes(kind, given)):
            answer = fed_back(kind, mistake)
            # A diagnosis may quote the answer.
            diagnosis = mistakes(*registered(check, answer)[position])[i].diagnosis
            message = told(check, answer)
            if diagnosis not in message:
                failures.append(f"{mistake.diagnosis}\n    got: {message or 'it passes'}")
    assert not failures, "\n".join(failures)


def changed(answer: Any, change: Callable[[Any], Any]) -> Any:
    """A number, its parts, or what a function returns, with each number changed."""
    if callable(answer):
        return lambda *args, **named: changed(answer(*args, **named), change)
    if isinstance(answer, list | tuple):
        return [changed(part, change) for part in answer]
    return answer if isinstance(answer, str) or answer is None else change(answer)


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: f"{item.slug}-{item.check}")
def test_a_wrong_answer_that_no_mistake_holds_is_told_the_hint(item):
    """Another number for each that is asked, and each other option of a choice."""
    check, right = checker(item), model_answers(item.slug)[item.arguments[0]]
    for kind, given in registered(check, right):
        wrong = [option for option in given.get("options", ()) if option != given["expected"]][:20]
        if kind in ("number", "function"):
            wrong = [changed(right, lambda x: 1.37 * x), changed(right, lambda x: x + 1)]
        if kind == "number":  # the third digit counts, and of whole numbers each
            near = [right * (1 + off) for off in (-0.006, 0.006)]
            near += [right - 1, right + 1] * float(given["expected"]).is_integer()
            assert all(told(check, answer) for answer in near)
        for answer in wrong:
            message, asked = told(check, answer), [known for _, known in registered(check, answer)]
            hints = [known["hint"] for known in asked if known.get("hint")]
            diagnoses = [mistake.diagnosis for known in asked for mistake in known.get("mistakes", ())]
            assert message and any(words in message for words in (*hints, *diagnoses)), message


def inputs_of(kind: str, given: dict[str, Any], answer: Callable[..., Any]) -> list[dict[str, Any]]:
    """What a check calls an answer with, by the names of the arguments."""
    if kind == "law":
        return [dict(setting) for setting in given["settings"]]
    listed = given["inputs"]
    made = listed(np.random.default_rng(function_checks._SEED)) if callable(listed) else listed
    return [named(answer, *function_checks._case(one)) for one in made]


NO_MATTER = {("check_noisy_sum", "size"), ("check_fresh_epsilon", "d")}  # the result does not depend on them


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: f"{item.slug}-{item.check}")
def test_no_argument_may_be_ignored_and_no_table_passes(item):
    """An answer that has one number or truth value fixed is refused, and one that knows the tested inputs alone."""
    check, right = checker(item), model_answers(item.slug)[item.arguments[0]]
    asked = [(kind, given) for kind, given in registered(check, right) if kind in ("law", "function")]
    rows = [row for kind, given in asked for row in inputs_of(kind, given, right)]
    plain = {key for key in (rows[0] if rows else ()) if all(isinstance(row[key], int | float) for row in rows)}
    for key in sorted(plain):
        if (item.check, key) not in NO_MATTER:
            usual = max((row[key] for row in rows), key=[row[key] for row in rows].count)
            fixed = lambda *args, key=key, usual=usual, **rest: right(**named(right, args, rest) | {key: usual})  # noqa: E731
            assert told(check, fixed), f"{key} = {usual} in all calls passes"
    numbers = [type(value) for row in rows for value in row.values()]
    if asked and {kind for kind, _ in asked} == {"function"} and set(numbers) <= {int, float}:
        with np.errstate(under="ignore"):
            table = {repr(sorted(row.items())): right(**row) for row in rows}
        other = table[repr(sorted(rows[0].items()))]
        known = lambda *args, **rest: table.get(repr(sorted(named(right, args, rest).items())), other)  # noqa: E731
        assert told(check, known), "a table of the tested inputs passes"


LAWS = [item for item in ITEMS if item.mechanism]


@pytest.mark.parametrize("item", LAWS, ids=lambda item: f"{item.slug}-{item.check}")
def test_every_mechanism_is_compared_with_its_exact_law(item, capsys):
    check = checker(item)
    right = model_answers(item.slug)[item.arguments[0]]
    found = [given for kind, given in registered(check, right) if kind == "law"]
    assert found, "an item that asks for a mechanism uses checks.law"
    given = found[0] | {"law": remembered(found[0]["law"])}
    given["wrong"] = [m._replace(wrong=remembered(m.wrong)) for m in mistakes("law", given)]
    check, law = functools.partial(checks.law, **given), given["law"]
    assert told(check, drawn(law)) == ""
    for noise in (0.6, 0.7, 0.85):
        assert told(check, drawn(law, noise)), f"{noise} times the noise passes"
    for noise in (1.5, 2.0, 4.0):
        message = told(check, drawn(law, noise))
        assert re.search("times what is needed|twice|known mistake", message), f"{noise} times the noise: {message}"
    assert told(check, drawn(law, 1e-6)), "no noise passes"
    fixed = drawn(law)
    again = told(check, lambda data, *, rng, **rest: fixed(data, rng=np.random.default_rng(3), **rest))
    assert again, "the same noise every time passes"
    own = np.random.default_rng(3)
    assert "its own randomness" in told(check, lambda data, *, rng, **rest: fixed(data, rng=own, **rest))
    odd = told(check, lambda data, *, rng, **rest: [fixed(data, rng=rng, **rest)] * 31)
    assert re.search("; expected is |which is impossible|returned .* in each of", odd)
    kept: dict[bytes, list[Any]] = {}

    def keeps(data: Any, *, rng: np.random.Generator, **rest: Any) -> Any:
        """From the 101st call with the same arguments on, what came a hundred calls before."""
        old = kept.setdefault(pickle.dumps((data, rest)), [])
        old.append(old[-100] if len(old) > 100 else fixed(data, rng=rng, **rest))
        return old[-1]

    assert told(check, keeps), "an answer that is kept passes"
    first = _first(law, given)
    if (first if isinstance(first, Law) else first[0]).outcomes is None:
        fine = lambda data, *, rng, **rest: np.round(fixed(data, rng=rng, **rest), 8)  # noqa: E731
        assert "rounded" in told(check, fine)
        none = drawn(law, 1e-300)
        rarely = lambda data, *, rng, **rest: (none if rng.random() < 0.005 else fixed)(data, rng=rng, **rest)  # noqa: E731
        assert item.check == "check_release" or told(check, rarely), "without noise at times passes"
    if not isinstance(first, Law):
        assert told(check, one_noise(law)), "one noise for all coordinates passes"


def _first(law: Callable[..., Any], given: dict[str, Any]) -> Any:
    data, *rest = given["settings"][0].items()
    return law(data[1], **dict(rest))
