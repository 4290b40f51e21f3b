"""Give every theorem, definition and lemma an anchor of its own.

sphinx-proof counts the statements without a label page by page, so that the first definitions of two pages get one
anchor, and all bodies of statements and all proofs of a page share one id. Here a statement without a label is named
after its page and its title (or its number on the page), and no id comes twice.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx_proof.directive import ElementDirective, ProofDirective
from sphinx_proof.domain import ProofDomain


class Statement(ElementDirective):
    """A statement whose label, if it has none, is made from page and title; its body is named after the label."""

    def run(self) -> list[nodes.Node]:
        if not self.options.get("label"):
            kind = self.name.split(":")[1]
            title = self.arguments[0] if self.arguments else str(self.env.new_serialno(kind))
            self.options["label"] = nodes.make_id(f"{kind} {self.env.docname} {title}")
        found = super().run()
        for statement in found:
            for body in statement.findall(nodes.section):
                if body["ids"] == ["proof-content"]:
                    body["ids"] = [f"{self.options['label']}-body"]
        return list(found)


class Proof(ProofDirective):
    """A proof, without the id that every proof has."""

    def run(self) -> list[nodes.Node]:
        found = super().run()
        for proof in found:
            for box in proof.findall(nodes.admonition):
                if box["ids"] == ["proof"]:
                    box["ids"] = []
        return list(found)


def setup(app: Sphinx) -> dict[str, Any]:
    """Put these directives in the place of those of sphinx-proof."""
    app.setup_extension("sphinx_proof")
    for kind in ProofDomain.directives:
        app.add_directive_to_domain("prf", kind, Proof if kind == "proof" else Statement, override=True)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
