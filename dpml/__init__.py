"""dpml: differential privacy for machine learning, a course and the package that its chapters run on.

What is where. Each module's docstring states the definition, the theorem, its assumptions and the neighbouring
relation; each public function names its source.

| concept | module | chapter | source |
|---|---|---|---|
| four mechanisms and their exact privacy | `dpml.mechanisms` | promise | Dwork, Roth 2014; Balle, Wang 2018 |
| what an attacker can still tell | `dpml.accounting.tradeoff` | promise | Kairouz et al. 2015; Dong et al. 2022 |
| a privacy number with its label | `dpml.accounting.guarantee` | promise | Dwork, Roth 2014 |
| basic composition, group privacy | `dpml.accounting.composition` | promise | Dwork, Roth 2014 |
| a first audit: epsilon at least | `dpml.audit.samples` | promise | Jagielski et al. 2020 |
| real data, neighbouring datasets | `dpml.data` | promise | Xiao et al. 2017 |
| advanced and optimal composition | `dpml.accounting.composition` | composition | the lecture; Kairouz et al. 2015 |
| amplification by subsampling | `dpml.accounting.amplification` | amplification | the lecture; Balle et al. 2018 |
| the moments accountant | `dpml.accounting.moments` | moments | the lecture; Abadi et al. 2016 |
| Rényi divergences and their conversion | `dpml.accounting.rdp` | moments | Mironov 2017; Canonne et al. 2020 |
| privacy-loss distributions, from both sides | `dpml.accounting.pld` | moments | Zhu et al. 2022 |
| explorers, checks, figures | `dpml.classroom` | start | |
| the numbers without a line of Python | `dpml.command_line` | | |
| logarithms, safe search | `dpml.numerics` | | Mächler 2012 |
| refusing bad input | `dpml.arguments` | | |

`import dpml` loads nothing else: ``dpml.mechanisms`` and the others are imported when first used.
"""

from __future__ import annotations

import importlib
from types import ModuleType

__version__ = "0.1.0"

CHAPTERS: dict[str, tuple[str, ...]] = {
    "start": ("dpml.classroom",),
    "promise": (
        "dpml.mechanisms",
        "dpml.accounting.guarantee",
        "dpml.accounting.composition",
        "dpml.accounting.tradeoff",
        "dpml.audit.samples",
        "dpml.data",
    ),
    "composition": ("dpml.accounting.composition",),
    "amplification": ("dpml.accounting.amplification",),
    "moments": (
        "dpml.accounting.moments",
        "dpml.accounting.rdp",
        "dpml.accounting.pld",
    ),
}
"""Chapter slug -> the modules that the chapter teaches. Notebooks, exercises and tests share the slugs."""

_LAZY = ("accounting", "arguments", "audit", "classroom", "data", "mechanisms", "numerics")


def __getattr__(name: str) -> ModuleType:
    if name in _LAZY:
        return importlib.import_module(f"dpml.{name}")
    raise AttributeError(f"module 'dpml' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
