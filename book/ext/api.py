"""The pages that are made from the package: one for each module, the map, the errata, the table of the chapters.

They are written as Markdown into ``book/api`` before each build, and the modules enter the contents of the site, room
by room, in the order of ``dpml.CHAPTERS``. Nothing there is kept by hand: a module's first sentence says what it
holds, its functions say where they come from, a lesson's first sentence says what the reader leaves with.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.inspect import stringify_signature
from sphinx.util.typing import stringify_annotation
from sphinx_external_toc.api import Document, FileItem, TocTree

import dpml

from . import chapters, docstrings, mistakes
from .docstrings import Public, chapter_of, first_sentence, table

ROOT = Path(__file__).resolve().parents[2]
INDEX = "book/api/index"
NOT_SHOWN = ("dpml.lessons", "dpml.datasets", "dpml.__main__")  # chapters show their own explorers and checks
NOT_SHOWN += (
    "dpml.accounting.orders",
    "dpml.accounting.quadrature",
    "dpml.accounting.subsampled_gaussian",
)  # and parts of the accountants that no reader calls
NOT_SHOWN += tuple(f"dpml.accounting.pld.{part}" for part in ("lattice", "contour", "pairs", "limits"))
NOT_SHOWN += ("dpml.accounting.pld.calibration",)


def page_of(module: str) -> str:
    """The document of a module: a.b.c has the page a_b_c, without the first 'dpml'."""
    return "book/api/" + module.removeprefix("dpml.").replace(".", "_")


def place(module: str) -> tuple[int, int, str]:
    """Where a module stands in the order of the chapters."""
    slug = chapter_of(module)
    if not slug:
        return len(dpml.CHAPTERS), 0, module
    named = [f"dpml.{name}" for name in dpml.CHAPTERS[slug]]
    first = next(i for i, name in enumerate(named) if f"{module}.".startswith(f"{name}."))
    return list(dpml.CHAPTERS).index(slug), first, module


@functools.cache
def homes() -> dict[str, list[Public]]:
    """Module -> the names that its page describes, in the order of the chapters.

    A name that another module offers too stands where it is offered, if all names of its file are.
    """
    shown = [m for m in docstrings.modules() if m != "dpml" and not m.startswith(NOT_SHOWN)]
    offers = {module: docstrings.public(module) for module in shown}
    owner = {}
    for module, entries in offers.items():
        own = {id(entry.value) for entry in entries if entry.written_in == module}
        if any(entry.written_in == module and docstrings.is_code(entry.value) for entry in entries):
            gathers = (m for m in shown if m != module and own <= {id(entry.value) for entry in offers[m]})
            owner[module] = next(gathers, module)
    kept = {m: by_file([e for e in entries if owner.get(e.written_in, m) == m]) for m, entries in offers.items()}
    return {m: kept[m] for m in sorted(shown, key=place) if owner.get(m, m) == m and (kept[m] or m.count(".") == 1)}


def by_file(entries: list[Public]) -> list[Public]:
    files = [entry.written_in for entry in entries]
    return sorted(entries, key=lambda entry: files.index(entry.written_in))


def link(name: str, *, module: str = "") -> str:
    """A name in backticks as a link, where it names one thing that has a place on these pages."""
    bare = name.removesuffix("()").removeprefix("dpml.")
    prefix, _, last = bare.rpartition(".")
    options = [p for p in names().get(last, []) if not prefix or f".{p.module}".endswith(f".{prefix}")]
    here = [p for p in options if p.module == module]
    if not here and f"dpml.{bare}" in homes():  # the whole name of a module is not the end of another name
        return f"{{py:mod}}`{name} <dpml.{bare}>`"
    return f"{{py:obj}}`{name} <{(here or options)[0].path}>`" if here or len(options) == 1 else f"`{name}`"


@functools.cache
def names() -> dict[str, list[Public]]:
    """Every documented name -> what it may mean."""
    found: dict[str, list[Public]] = {}
    for entries in homes().values():
        for entry in entries:
            found.setdefault(entry.name, []).append(entry)
    return found


# ---- the page of a module ----


def module_page(module: str) -> str:
    """The reference of one module: its docstring, then its names, file by file where it gathers several files."""
    here = functools.partial(link, module=module)
    parts = [f"# `{module.removeprefix('dpml.')}`", f"```{{py:module}} {module}\n```"]
    parts.append(docstrings.markdown(importlib.import_module(module).__doc__ or "", here))
    if taught := chapter(module):
        parts.append(f"Taught in {taught}.")
    below = [name for name in homes() if name.startswith(f"{module}.")]
    if below:
        parts.append(table(["Module", "What it holds"], [[here(name), concept(name)] for name in below]))
    file = module
    for entry in homes()[module]:
        if entry.written_in not in (file, module) and "._" not in entry.written_in:
            parts.append(f"## `{entry.written_in.rpartition('.')[2]}`")
            parts.append(docstrings.markdown(importlib.import_module(entry.written_in).__doc__ or "", here))
        file = entry.written_in
        parts.append(described(entry, here))
    return "\n\n".join(parts) + "\n"


def described(entry: Public, here: docstrings.Link) -> str:
    """Signature and docstring of one public name."""
    if inspect.isclass(entry.value):
        inner = [docstrings.markdown(own_doc(entry.value), here), *fields(entry.value)]
        inner += [member(entry.value, name, here) for name in members(entry.value)]
        return block("class", entry.name + parameters(entry.value), "\n\n".join(inner), fence=":" * 6)
    if inspect.isroutine(entry.value):
        return block(
            "function", entry.name + parameters(entry.value), docstrings.markdown(entry.value.__doc__ or "", here)
        )
    return block("data", entry.name, docstrings.markdown(docstrings.comment_of(entry.module, entry.name), here))


def member(owner: type, name: str, here: docstrings.Link) -> str:
    value = inspect.getattr_static(owner, name)
    is_property = isinstance(value, property)
    function = value.fget if is_property else getattr(value, "__func__", getattr(value, "func", value))
    signature = "" if is_property or not inspect.isfunction(value) else parameters(value, skip_first=True)
    text = docstrings.markdown(function.__doc__ or "", here)
    return block("property" if is_property else "method", f"{name}{signature}", text)


def block(kind: str, signature: str, text: str, *, fence: str = ":" * 4) -> str:
    """The directive that gives a name its anchor and its entry in the index."""
    return f"{fence}{{py:{kind}}} {signature}\n\n{text}\n{fence}"


def fields(value: type) -> Iterator[str]:
    """The fields of a NamedTuple or a dataclass with their types."""
    if dataclasses.is_dataclass(value) or hasattr(value, "_fields"):
        for name, kind in inspect.get_annotations(value).items():
            if not name.startswith("_"):
                yield f"`{name}`\n: `{stringify_annotation(kind)}`"


def parameters(value: Any, *, skip_first: bool = False) -> str:
    """The signature of a function or class as the source writes it, without quotes around the types."""
    try:
        signature = inspect.signature(value)
    except ValueError:  # an exception: its class is built in and has no signature
        return ""
    kept = [with_named_default(p, value.__module__) for p in signature.parameters.values()][1 if skip_first else 0 :]
    if inspect.isclass(value):
        signature = signature.replace(return_annotation=inspect.Signature.empty)
    text = stringify_signature(signature.replace(parameters=kept), unqualified_typehints=True)
    return re.sub(r"(?<![\w.~])(?<!= )[A-Z]\w+", lambda name: full_type(name[0], value.__module__), text)


class Name(str):
    """A default as its module calls it, shown without quotes."""

    __repr__ = str.__str__


def with_named_default(parameter: inspect.Parameter, module: str) -> inspect.Parameter:
    """A default that is a function, or holds one, has no text of its own: it is shown by its name in the module."""
    if parameter.default is parameter.empty or "<" not in repr(parameter.default):
        return parameter
    known = vars(importlib.import_module(module)).items()
    return parameter.replace(default=Name(next((n for n, value in known if value is parameter.default), "...")))


def full_type(name: str, module: str) -> str:
    """The address of a class that a signature in this module names, since two rooms may have one of the same name."""
    meant = getattr(importlib.import_module(module), name, None)
    return next((f"~{entry.path}" for entry in names().get(name, []) if entry.value is meant), name)


def own_doc(value: type) -> str:
    """The docstring of a class, but not the one that NamedTuple or dataclass makes up."""
    text = value.__doc__ or ""
    return "" if text.startswith(f"{value.__name__}(") else text


def members(value: type) -> Iterator[str]:
    """The documented public methods and properties that a class defines itself."""
    for name, member in vars(value).items():
        function = getattr(member, "fget", None) or getattr(member, "__func__", getattr(member, "func", member))
        written_here = getattr(function, "__module__", "") == value.__module__
        if not name.startswith("_") and written_here and inspect.isfunction(function) and function.__doc__:
            yield name


# ---- the map, the chapters, the errata ----


def concept(module: str) -> str:
    """What a module holds: the first sentence of its docstring."""
    return docstrings.inline(first_sentence(importlib.import_module(module).__doc__ or ""), link)


def chapter(module: str) -> str:
    """A link to the chapter that teaches a module, or ''."""
    slug = chapter_of(module)
    return f"{{doc}}`/{chapters.of_slug(slug).page}`" if slug else ""


def works(module: str) -> list[str]:
    """The works that a module's names cite, as "the lecture" or "Abadi et al. 2016", each once."""
    texts = [getattr(entry.value, "__doc__", None) or "" for entry in homes()[module]]
    sources = [body for text in texts for label, body in docstrings.labels(text) if label == "Source"]
    return list(dict.fromkeys(work for source in sources for part in source.split("; ") for work in cited(part)))


def cited(source: str) -> Iterator[str]:
    """The work that a part of a source line names, if it names one."""
    if known := re.match("the (lecture|PTR paper)", source):
        yield known[0]
    elif found := re.search(r'([^"]*?),? "[^"]+".*?\b((?:19|20)\d\d)\b(?!\.\d)', source):
        names = re.sub(r"\b[A-Z]\.[- ]?", "", re.split(r"(?<=[a-z])[.:] ", found[1])[-1])
        authors = re.split(", | and ", names)
        yield f"{authors[0]} et al. {found[2]}" if len(authors) > 2 else f"{names} {found[2]}"


def map_of_modules() -> str:
    """Concept -> module -> source, chapter by chapter."""
    parts = []
    for slug in filter(dpml.CHAPTERS.get, dpml.CHAPTERS):  # those that teach modules of their own
        taught = [module for module, entries in homes().items() if entries and chapter_of(module) == slug]
        rows = [[concept(m), link(m.removeprefix("dpml.")), "; ".join(works(m))] for m in taught]
        page = chapters.of_slug(slug)  # a heading cannot look up the title
        parts += [f"## {{doc}}`{page.title} </{page.page}>`", table(["What it holds", "Module", "Source"], rows)]
    return "\n\n".join(parts)


def table_of_chapters() -> str:
    """Each chapter with what the reader leaves with."""
    rows = []
    for slug in dpml.CHAPTERS:
        leaves_with = first_sentence(importlib.import_module(f"dpml.lessons.{slug}").__doc__ or "").rstrip(".")
        rows.append([f"{{doc}}`/{chapters.of_slug(slug).page}`", docstrings.inline(leaves_with)])
    return table(["chapter", "you leave with"], rows)


class Difference(NamedTuple):
    """One place where a source and the code differ; `path` names the function or module."""

    path: str
    source: str
    printed: str
    implemented: str
    counterexample: str


def differences() -> Iterator[Difference]:
    """All of them, module by module, in the order of the chapters.

    Raises:
        ValueError: for a docstring without all four paragraphs, in this order.
    """
    for module, entries in homes().items():
        texts = {module: importlib.import_module(module).__doc__}
        texts |= {entry.path: entry.value.__doc__ for entry in entries if callable(entry.value)}
        for path, text in texts.items():
            yield from differences_of(path, text or "")


def differences_of(path: str, text: str) -> Iterator[Difference]:
    """The differences that one docstring states.

    Raises:
        ValueError: as in `differences`.
    """
    wanted = [name.capitalize() for name in Difference._fields[1:]]
    found = [(label, body) for label, body in docstrings.labels(text) if label in wanted]
    while any(label != "Source" for label, _ in found):
        labels, bodies = zip(*found[:4], strict=True)
        if list(labels) != wanted or "\n\n>>> " not in bodies[3]:
            raise ValueError(f"{path}: wanted {', '.join(wanted)} with an example, got {', '.join(labels)}")
        yield Difference(path, *bodies)
        found = found[4:]


def errata() -> str:
    """One section for each difference, with the chapter that it concerns and a counterexample to run."""
    parts = []
    for path, *texts in differences():
        short = path.rpartition(".")[2]
        parts.append(f"(errata-{path.removeprefix('dpml.').replace('_', '-').replace('.', '-')})=\n## {link(short)}")
        for label, text in zip(Difference._fields[1:], texts, strict=True):
            prose, _, examples = text.partition("\n\n")
            parts.append(f"{label.capitalize()}\n: {docstrings.inline(prose[:1].upper() + prose[1:], link)}")
        parts.append(f"```pycon\n{examples}\n```")
        parts.append(f"Taught in {chapter(path)}.")
    return "\n\n".join(parts)


# ---- where they go ----


def write(app: Sphinx, config: Config) -> None:
    """Write all of it, drop what is stale, and enter the modules into the contents of the site."""
    contents = config.external_site_map
    if INDEX not in contents:  # another book with these settings
        return
    texts = {f"{page_of(module)}.md": module_page(module) for module in homes()}
    texts |= {"map.txt": map_of_modules(), "chapters.txt": table_of_chapters(), "errata.txt": errata()}
    texts |= {"minutes.txt": chapters.table_of_minutes(), "drawing.txt": chapters.drawing()}
    texts |= {"mistakes.txt": mistakes.page()}
    texts = {f"book/api/{Path(name).name}": text for name, text in texts.items()}
    for old in Path(app.srcdir, "book/api").iterdir():
        if old.relative_to(app.srcdir).as_posix() not in (*texts, f"{INDEX}.md"):
            old.unlink()
    for name, text in texts.items():
        file = Path(app.srcdir, name)
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
    rooms = [module for module in homes() if module.count(".") == 1]
    contents[INDEX] = Document(INDEX, [TocTree([FileItem(page_of(room)) for room in rooms])])
    for room in rooms:
        below = [module for module in homes() if module.startswith(f"{room}.")]
        trees = [TocTree([FileItem(page_of(module)) for module in below])] if below else []
        contents[page_of(room)] = Document(page_of(room), trees)
        for module in below:
            contents[page_of(module)] = Document(page_of(module), title=module.removeprefix(f"{room}."))
    config.exclude_patterns = [name for name in config.exclude_patterns if not name.startswith("book/api/")]


def setup(app: Sphinx) -> dict[str, Any]:
    """The contents are read at priority 900."""
    app.connect("config-inited", write, priority=950)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
