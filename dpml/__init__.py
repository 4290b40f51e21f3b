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
| votes of an ensemble, with noise | `dpml.pate.voting` | pate | the lecture; Papernot et al. 2017, 2018 |
| what labels and the student cost | `dpml.pate.privacy` | pate | Papernot et al. 2017, 2018 |
| exact answers where the data are stable | `dpml.pate.stability` | stability | the lecture; Dwork, Roth 2014 |
| many questions, few paid for | `dpml.pate.sparse_vector` | sparse_vector | the lecture; Bassily et al. 2018 |
| what that costs, exactly | `dpml.pate.sparse_vector_privacy` | sparse_vector | Dwork, Roth 2014 |
| the probabilities of its outputs | `dpml.pate.sparse_vector_outcomes` | sparse_vector | |
| how it is broken | `dpml.pate.broken_sparse_vector` | sparse_vector | Lyu et al. 2017 |
| noise for a sensitivity that was tested | `dpml.ptr.propose_test_release` | ptr | Dwork, Lei 2009; Wang et al. 2022 |
| what propose-test-release costs, by every route | `dpml.ptr.privacy` | ptr | Wang et al. 2022; Zhu et al. 2022 |
| a private median, trimmed mean, quartile range | `dpml.ptr.statistics` | ptr | Dwork, Lei 2009 |
| the trimmed sum and its safety margin | `dpml.ptr.trimmed_sum` | ptr | Wang et al. 2022 |
| trimmed sums that one record can upset | `dpml.ptr.broken_trimmed_sum` | | |
| how close trimmed SGD comes under corruption | `dpml.ptr.convergence` | robust | Wang et al. 2022, repaired |
| teachers, votes, student | `dpml.training.ensemble` | pate | the lecture; Papernot et al. 2017 |
| many training runs at once | `dpml.training.stacked` | choose | |
| K networks of one shape, side by side | `dpml.training.stacked_networks` | choose | |
| norms and sums of per-example gradients | `dpml.training.per_example` | dpsgd | Rochette et al. 2019; Bu et al. 2023 |
| weights: clipped, automatic, trimmed | `dpml.training.weights` | dpsgd | Abadi et al. 2016; Bu et al. 2023 |
| how a batch is drawn | `dpml.training.sampling` | dpsgd | Abadi et al. 2016; Balle et al. 2018 |
| DP-SGD | `dpml.training.dpsgd` | dpsgd | the lecture; Abadi et al. 2016 |
| the update as printed, for audits | `dpml.training.broken` | dpsgd | the lecture |
| the noisy sum of a batch, and what makes it private | `dpml.training.rules` | dpsgd | Abadi et al. 2016 |
| the private training loop | `dpml.training.loop` | dpsgd | Abadi et al. 2016 |
| what a run leaves behind | `dpml.training.trace` | dpsgd | |
| small models, images as tensors | `dpml.training.models` | dpsgd | Abadi et al. 2016 |
| trimmed SGD, with propose-test-release | `dpml.training.tsgd` | robust | the PTR paper |
| which gradients stay, and when | `dpml.training.trimming` | robust | the PTR paper |
| what the paper's formula claims | `dpml.ptr.claim` | robust | the PTR paper |
| corrupted data, faulty workers | `dpml.training.corruption` | robust | the PTR paper |
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
    "dpsgd": (
        "dpml.training.per_example",
        "dpml.training.weights",
        "dpml.training.sampling",
        "dpml.training.dpsgd",
        "dpml.training.broken",
        "dpml.training.rules",
        "dpml.training.loop",
        "dpml.training.trace",
        "dpml.training.models",
    ),
    "pate": ("dpml.pate.voting", "dpml.pate.privacy", "dpml.training.ensemble"),
    "ptr": ("dpml.ptr.privacy", "dpml.ptr.propose_test_release", "dpml.ptr.statistics", "dpml.ptr.trimmed_sum"),
    "stability": ("dpml.pate.stability",),
    "sparse_vector": (
        "dpml.pate.sparse_vector",
        "dpml.pate.sparse_vector_privacy",
        "dpml.pate.sparse_vector_outcomes",
        "dpml.pate.broken_sparse_vector",
    ),
    "choose": ("dpml.training.ensemble", "dpml.training.stacked"),
    "robust": (
        "dpml.training.tsgd",
        "dpml.training.trimming",
        "dpml.ptr.claim",
        "dpml.training.corruption",
        "dpml.ptr.convergence",
    ),
}
"""Chapter slug -> the modules that the chapter teaches. Notebooks, exercises and tests share the slugs."""

_LAZY = (
    "accounting",
    "arguments",
    "audit",
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
