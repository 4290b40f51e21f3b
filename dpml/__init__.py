"""dpml: differential privacy for machine learning, a course and the package that its chapters run on.

Each module's first sentence says what it holds; its docstring states the definition, the theorem, its assumptions and
the neighbouring relation, and each public function names its source. `CHAPTERS` says which chapter teaches it. The
site's page "The modules of dpml" is made from these: concept, module, chapter, source.

`import dpml` loads nothing else: ``dpml.mechanisms`` and the others are imported when first used.
"""

from __future__ import annotations

import importlib
from types import ModuleType

__version__ = "0.1.0"

CHAPTERS: dict[str, tuple[str, ...]] = {
    "start": ("arguments", "numerics", "classroom"),
    "promise": ("mechanisms", "accounting", "audit", "data"),
    "composition": ("accounting.composition",),
    "amplification": ("accounting.amplification",),
    "moments": (
        "accounting.moments",
        "accounting.rdp",
        "accounting.pld",
        "command_line",
    ),
    "dpsgd": ("training",),
    "pate": ("pate", "training.ensemble"),
    "stability": ("pate.stability", "pate.instability", "pate.m_stab", "pate.m_samp"),
    "sparse_vector": ("pate.sparse_vector",),
    "choose": ("training.stacked", "training.stacked_networks"),
    "ptr": ("ptr",),
    "robust": ("training.trimming", "training.corruption", "ptr.convergence"),
    "byzantine": ("byzantine", "training.messages"),
    "certified": ("certified",),
    "audit": (
        "audit.gaussian_scores",
        "audit.known_losses",
        "audit.one_run",
        "training.leakage",
        "mechanisms.discrete_noise",
        "mechanisms.floating_point",
    ),
    "scale": ("training.shared",),
    "project": (),
}
"""Chapter slug -> the modules that it teaches, in order; a package stands for all in it that no other entry names.

A chapter without modules uses those of the others. Notebooks, exercises, lessons and tests share the slugs.
"""

_LAZY = (
    "accounting",
    "arguments",
    "audit",
    "byzantine",
    "certified",
    "classroom",
    "data",
    "mechanisms",
    "numerics",
    "pate",
    "ptr",
    "training",
)


def __getattr__(name: str) -> ModuleType:
    if name in _LAZY:
        return importlib.import_module(f"dpml.{name}")
    raise AttributeError(f"module 'dpml' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
