"""The API reference, made from the package at build time.

Two directives::

    {dpml-module} dpml.mechanisms      a page's whole content: the module's docstring, then every public name
    {dpml-modules}                     the table of all pages, with one line on each

The build warns, and so fails, when a module with public names has no page.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.domains.python import PyClasslike, PyFunction, PyMethod, PyVariable
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.inspect import stringify_signature
from sphinx.util.typing import stringify_annotation

from . import docstrings
from .docstrings import Public

LOG = logging.getLogger(__name__)

# Here a module without a page is no mistake: chapters document their own explorers and checks, and most modules
# of the classroom are the inner parts of a few.
PAGE_OPTIONAL = ("dpml.lessons", "dpml.classroom")
PAGES = Path(__file__).resolve().parents[1] / "api"


def page_of(module: str) -> str:
    """The document of a module: a.b.c has the page a_b_c, without the first 'dpml'."""
    return "book/api/" + module.removeprefix("dpml.").replace(".", "_")


def homes() -> list[str]:
    """The modules that have a page."""
    return [m for m in docstrings.modules() if (PAGES.parents[1] / f"{page_of(m)}.md").is_file()]


def missing() -> list[str]:
    """The modules that should have a page and do not: those that offer a name which no page describes."""
    described = {id(entry.value) for module in homes() for entry in docstrings.public(module)}
    return [
        module
        for module in docstrings.modules()
        if module != "dpml" and not module.startswith(PAGE_OPTIONAL)
        if any(id(entry.value) not in described for entry in docstrings.public(module))
    ]


def names() -> dict[str, list[Public]]:
    """Every documented name -> what it may mean."""
    found: dict[str, list[Public]] = {}
    for module in homes():
        for entry in docstrings.public(module):
            found.setdefault(entry.name, []).append(entry)
    return found


class Linker:
    """Turns a name in backticks into a link where it names one thing that is documented."""

    def __init__(self, docname: str, module: str = "") -> None:
        self.docname, self.module, self.names, self.homes = docname, module, names(), homes()

    def path(self, name: str) -> str | None:
        bare = name.removesuffix("()").removeprefix("dpml.")
        prefix, _, last = bare.rpartition(".")
        options = [p for p in self.names.get(last, []) if not prefix or p.module.endswith("." + prefix)]
        here = [p for p in options if p.module == self.module]
        if here or len(options) == 1:
            return (here or options)[0].path
        return "dpml." + bare if "dpml." + bare in self.homes else None

    def __call__(self, name: str) -> nodes.Node | None:
        path = self.path(name)
        if path is None:
            return None
        return reference(self.docname, path, nodes.literal(text=name))


def reference(docname: str, path: str, content: nodes.Node) -> addnodes.pending_xref:
    """A link to a documented module or name."""
    options = {"refdomain": "py", "reftype": "obj", "reftarget": path, "refdoc": docname, "refexplicit": True}
    return addnodes.pending_xref("", content, **options, refwarn=False)


class PackageDirective(SphinxDirective):
    """A directive whose page depends on every file of the package."""

    has_content = False

    def watch(self) -> None:
        """Have the page built again when a file of the package changes."""
        folder = Path(importlib.import_module("dpml").__file__ or "").parent
        for file in sorted(folder.rglob("*.py")):
            self.env.note_dependency(str(file))


class ModulePage(PackageDirective):
    """``{dpml-module} name``: the reference of one module."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        self.watch()
        module = self.arguments[0]
        self.link = Linker(self.env.docname, module)
        result = docstrings.render(importlib.import_module(module).__doc__ or "", self.link)
        taught = chapters(self.env, module)
        if taught:
            result.append(nodes.paragraph("", "Taught in: ", *separated(taught)))
        domain = self.env.get_domain("py")
        target = nodes.target("", "", ids=[f"module-{module}"], ismod=True)
        domain.note_module(module, target["ids"][0], "", "", False)
        domain.note_object(module, "module", target["ids"][0], location=target)
        self.state.document.note_explicit_target(target)
        self.env.ref_context["py:module"] = module
        result.insert(0, target)
        for entry in docstrings.public(module):
            result += self.describe(entry)
        self.env.ref_context.pop("py:module", None)
        return result

    def describe(self, entry: Public) -> list[nodes.Node]:
        """Signature and docstring of one public name."""
        if inspect.isclass(entry.value):
            found = self.signature(PyClasslike, "py:class", entry.name + parameters(entry.value))
            content = found[-1][-1]
            content += docstrings.render(own_doc(entry.value), self.link)
            content += self.fields(entry.value)
            for member in members(entry.value):
                content += self.member(entry.name, member, inspect.getattr_static(entry.value, member))
            return found
        if inspect.isroutine(entry.value):
            found = self.signature(PyFunction, "py:function", entry.name + parameters(entry.value))
            found[-1][-1] += docstrings.render(entry.value.__doc__ or "", self.link)
            return found
        found = self.signature(PyVariable, "py:data", entry.name)
        found[-1][-1] += docstrings.render(docstrings.comment_of(entry.module, entry.name), self.link)
        return found

    def member(self, owner: str, name: str, value: Any) -> list[nodes.Node]:
        is_property = isinstance(value, property)
        function = value.fget if is_property else getattr(value, "__func__", getattr(value, "func", value))
        text = "" if is_property or not inspect.isfunction(value) else parameters(value, skip_first=True)
        found = self.signature(PyMethod, "py:method", f"{owner}.{name}{text}")
        if is_property:
            for parentheses in list(found[-1][0].findall(addnodes.desc_parameterlist)):
                parentheses.parent.remove(parentheses)
        found[-1][-1] += docstrings.render(function.__doc__ or "", self.link)
        return found

    def signature(self, kind: Any, name: str, text: str) -> list[nodes.Node]:
        """The heading of a name, with its anchor and its entry in the index."""
        directive = kind(
            name, [text], {}, StringList(), self.lineno, self.content_offset, "", self.state, self.state_machine
        )
        return list(directive.run())

    def fields(self, value: type) -> list[nodes.Node]:
        """The fields of a NamedTuple or a dataclass with their types."""
        if not (dataclasses.is_dataclass(value) or hasattr(value, "_fields")):
            return []
        listing = nodes.field_list()
        for name, kind in inspect.get_annotations(value).items():
            if not name.startswith("_"):
                body = nodes.paragraph("", "", nodes.literal(text=stringify_annotation(kind)))
                listing += nodes.field("", nodes.field_name(text=name), nodes.field_body("", body))
        return [listing] if len(listing) else []


class ModuleTable(PackageDirective):
    """``{dpml-modules}``: every module that has a page, with the first sentence of its docstring."""

    def run(self) -> list[nodes.Node]:
        self.watch()
        link = Linker(self.env.docname)
        for module in missing():
            LOG.warning("%s has public names but no page: write %s.md and name it in _toc.yml", module, page_of(module))
        rows = []
        for module in homes():
            text = docstrings.first_sentence(importlib.import_module(module).__doc__ or "")
            name = reference(self.env.docname, module, nodes.literal(text=module.removeprefix("dpml.")))
            rows.append([[name], docstrings.inline(text, link), separated(chapters(self.env, module))])
        return [docstrings.table(["Module", "What it holds", "Chapter"], rows)]


def chapters(env: BuildEnvironment, module: str) -> list[nodes.Node]:
    """Links to the chapters that teach a module, from the map in ``dpml.CHAPTERS``."""
    found: list[nodes.Node] = []
    for slug, taught in importlib.import_module("dpml").CHAPTERS.items():
        if module in taught or module.startswith(tuple(f"{name}." for name in taught)):
            for page in sorted(env.found_docs):
                if re.fullmatch(rf"notebooks/\d\d_{slug}", page):
                    options = {"refdomain": "std", "reftype": "doc", "refexplicit": False, "refdoc": env.docname}
                    text = nodes.inline(text=slug)
                    found.append(addnodes.pending_xref("", text, reftarget=f"/{page}", refwarn=True, **options))
    return found


def separated(items: list[nodes.Node]) -> list[nodes.Node]:
    """The items with commas between them."""
    return [node for item in items for node in (nodes.Text(", "), item)][1:]


def parameters(value: Any, *, skip_first: bool = False) -> str:
    """The signature of a function or class as the source writes it, without quotes around the types."""
    try:
        signature = inspect.signature(value)
    except ValueError:  # an exception: its class is built in and has no signature
        return ""
    kept = list(signature.parameters.values())[1 if skip_first else 0 :]
    if inspect.isclass(value):
        signature = signature.replace(return_annotation=inspect.Signature.empty)
    return stringify_signature(signature.replace(parameters=kept), unqualified_typehints=True)


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


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the two directives."""
    app.add_directive("dpml-module", ModulePage)
    app.add_directive("dpml-modules", ModuleTable)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
