"""The rows of experiments/gpu.json as the tables of a page: agreement, times and memory on a GPU.

    python3 -m experiments.gpu_tables              # print the tables of the recorded file
    python3 -m experiments.gpu_tables FILE         # of another one

Two kinds of gaps stay apart: "does not fit" is a step that asked for more memory than there is, an empty cell one that
was not measured, because the time was over, or on the CPU, whose memory is not taken here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpml.command_line import any_console
from experiments.gpu import MECHANISMS, PEERS, RESULTS, benchmark
from experiments.printing import Table, show

Row = dict[str, Any]
NAMES = {"mlp": "MLP", "cnn": "CNN", "resnet": "ResNet"}
NO_FIT = "does not fit"


def of(content: dict[str, Any], part: str) -> list[Row]:
    """The rows of a part."""
    return [row for row in content["rows"] if row["part"] == part]


def shown(value: float | None, unit: str = "") -> str:
    """A number in three digits, or nothing."""
    return "" if value is None else f"{value:,.0f}{unit}" if abs(value) >= 1000 else f"{value:.3g}{unit}"


def ratio(value: float | None, base: float | None) -> str:
    """How many times the base; nothing where one of them is missing."""
    return "" if value is None or not base else f"{value / base:.3g}×"


def agreement_table(content: dict[str, Any]) -> Table:
    """Relative differences between device and CPU."""
    keys = ("sum", "norms", "worst_norm", "losses")
    rows = of(content, "agreement")
    lines = [
        [NAMES[row["model"]], str(row["batch"]), "allowed" if row["tf32"] else "not allowed"]
        + [f"{row[key]:.1e}" for key in keys]
        for row in rows
    ]
    worst = [
        f"{max(max(row['sum'], row['worst_norm']) for row in some):.1e} with TensorFloat-32 {word}"
        for allowed, word in ((False, "not allowed"), (True, "allowed"))
        if (some := [row for row in rows if row["tf32"] == allowed])
    ]
    exact = [row["sum"] for row in rows if not row["tf32"]]
    met = (
        f" At most 1e-5 was asked for the sum without it: {'met' if max(exact) <= 1e-5 else 'missed'}." if exact else ""
    )
    note = (
        "One batch on the device and on the CPU, as relative differences of the clipped sum, of the norms as one "
        "vector, of the worst single norm, and of the losses. The largest one of a clipped sum or a single norm: "
        f"{'; '.join(worst)}.{met}"
    )
    head = ["Model", "Batch", "TensorFloat-32", "Clipped sum", "Norms", "Worst norm", "Losses"]
    return "Agreement with the CPU", note, head, lines


def clipping_table(content: dict[str, Any]) -> Table:
    """By how much one clipped gradient exceeds the clip norm."""
    lines = [
        [NAMES[row["model"]], str(row["batch"]), "allowed" if row["tf32"] else "not allowed", f"{row['over']:.1e}"]
        for row in of(content, "clipping")
    ]
    note = (
        "The longest clipped gradient of one example among 32, as it enters the sum, over the clip norm, less 1: what "
        "matters for privacy. Norms and sums are products in full precision, whatever the layers are allowed."
    )
    return "Clipping", note, ["Model", "Batch", "TensorFloat-32", "Over the clip norm"], lines


def value(who: dict[str, Row], title: str, key: str) -> float | None:
    """What was measured of a contestant, if anything was."""
    return who[title][key] if title in who else None


def cell(who: dict[str, Row], title: str, key: str) -> str:
    """The same as text."""
    lacking = title in who and who[title]["milliseconds"] is None
    return NO_FIT if lacking else shown(value(who, title, key))


def steps(content: dict[str, Any], key: str) -> tuple[list[str], list[list[str]]]:
    """Head and rows for the time or the memory of a step: every contestant, and dpml over two of them."""
    plain, ours = benchmark().PLAIN, benchmark().OURS
    found: dict[tuple[str, int], dict[str, Row]] = {}
    for row in of(content, "step"):
        found.setdefault((row["model"], row["batch"]), {})[row["who"]] = row
    peers = [title for title in PEERS if any(title in who for who in found.values())]
    lines = []
    for model, size in sorted(found, key=lambda one: (list(NAMES).index(one[0]), one[1])):
        who = found[model, size]
        mine = value(who, ours, key)
        line = [NAMES[model], str(size), cell(who, plain, key), cell(who, ours, key)]
        line.append(ratio(mine, value(who, plain, key)))
        if peers:
            best = min((one for title in peers if (one := value(who, title, key)) is not None), default=None)
            line += [*(cell(who, title, key) for title in peers), ratio(mine, best)]
        lines.append(line)
    head = ["Model", "Batch", plain, ours, f"{ours} over {plain}"]
    return head + [*peers, f"{ours} over best of opacus"] * bool(peers), lines


def time_table(content: dict[str, Any]) -> Table:
    """Milliseconds of a step."""
    head, lines = steps(content, "milliseconds")
    note = (
        "Milliseconds, the shortest of several rounds, TensorFloat-32 not allowed. A step is forward, norms, weights "
        "and weighted sum; without privacy, forward and backward. Noise and update, the same for everyone, are left "
        "out. The best of opacus is the better one of the modes shown."
    )
    return "Time of a step", note, head, lines


def memory_table(content: dict[str, Any]) -> Table:
    """Mebibytes of a step."""
    head, lines = steps(content, "mebibytes")
    note = "MiB at the peak of a step, on top of model and data, gradients included."
    return "Peak memory of a step", note, head, lines


def run_table(content: dict[str, Any]) -> Table:
    """The whole step in a run of each mechanism, beside the bare private step."""
    ours = benchmark().OURS
    bare = {(row["model"], row["batch"]): row["milliseconds"] for row in of(content, "step") if row["who"] == ours}
    runs: dict[tuple[str, int], dict[str, float]] = {}
    for row in of(content, "run"):
        runs.setdefault((row["model"], row["batch"]), {})[row["mechanism"]] = row["milliseconds"]
    lines = []
    for (model, size), found in runs.items():
        plain, private, tested = map(found.get, MECHANISMS)
        line = [NAMES[model], str(size), shown(plain), shown(private), ratio(private, plain)]
        lines.append([*line, shown(tested), ratio(tested, private), shown(bare.get((model, size)))])
    note = (
        "Milliseconds of a step in a run, sampling, noise and update included, after some steps to warm up; the data "
        "are on the device. sgd is training without privacy in the same loop. Batches are Poisson samples of "
        "this expected size, the same ones for the three. sgd was measured first and alone met batch sizes that the "
        "libraries had not seen, which may be why it looks slow. Last, the bare private step of the table above."
    )
    base, usual, last = MECHANISMS
    head = ["Model", "Batch", base, usual, f"{usual} over {base}", last, f"{last} over {usual}", "Bare step"]
    return "A whole step in a run", note, head, lines


def stacked_table(content: dict[str, Any]) -> Table:
    """Several models at once, and what one of them costs then."""
    rows = of(content, "stacked")
    single = {row["batch"]: row["milliseconds"] for row in rows if row["models"] == 1}
    lines = []
    for row in rows:
        each = None if row["milliseconds"] is None else row["milliseconds"] / row["models"]
        alone = single.get(row["batch"])
        gain = "" if each is None or alone is None else f"{alone / each:.3g}×"
        whole = NO_FIT if each is None else shown(row["milliseconds"])
        lines.append([str(row["models"]), str(row["batch"]), whole, shown(each), gain, shown(row["mebibytes"])])
    note = (
        "A step of several private MLPs in one stack: milliseconds for all, and divided by their number; how many "
        "times faster that is than a stack of one; MiB at the peak."
    )
    return "Stacked models", note, ["Models", "Batch", "All", "Per model", "Gain", "Peak memory"], lines


def tables(content: dict[str, Any]) -> list[Table]:
    """Title, note, head and rows of each table of the page, of the parts that are there."""
    parts = {row["part"] for row in content["rows"]}
    made = [agreement_table(content)] if "agreement" in parts else []
    made += [clipping_table(content)] if "clipping" in parts else []
    if "step" in parts:
        made.append(time_table(content))
        if any(row["mebibytes"] is not None for row in of(content, "step")):
            made.append(memory_table(content))
    for part, make in (("run", run_table), ("stacked", stacked_table)):
        made += [make(content)] if part in parts else []
    return made


def main(words: Sequence[str]) -> int:
    content = json.loads(Path(words[0] if words else RESULTS).read_text(encoding="utf-8"))
    show(tables(content))
    return 0


if __name__ == "__main__":
    any_console()
    sys.exit(main(sys.argv[1:]))
