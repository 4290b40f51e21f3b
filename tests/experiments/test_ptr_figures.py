"""The figures of the propose-test-release paper: the tiny preset runs, and the recorded rows are what it computes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dpml import data
from tests.golden import golden

ROOT = Path(__file__).parents[2]


def test_the_tiny_preset_agrees_with_the_record_and_with_the_golden_table(tmp_path):
    output = tmp_path / "out.json"
    command = [
        sys.executable,
        str(ROOT / "experiments" / "ptr_figures.py"),
        "--preset",
        "tiny",
        "--output",
        str(output),
    ]
    subprocess.run(command, check=True, cwd=ROOT)
    tiny = json.loads(output.read_text(encoding="utf-8"))
    full = data.recorded("ptr_figures")
    compared = 0
    for table, keys in (("figure_2", ("scale", "tau", "order")), ("figures_3_and_5", ("tau", "steps"))):
        recorded = {tuple(row[key] for key in keys): row for row in full[table]}
        for row in tiny[table]:
            assert row == pytest.approx(recorded[tuple(row[key] for key in keys)], rel=1e-3)
            compared += 1
    assert compared >= 10
    published = golden("ptr")["fig3_fig5"]
    for wanted in (row for row in published if row["T"] in (10, 10000)):
        row = next(
            r for r in full["figures_3_and_5"] if r["steps"] == wanted["T"] and abs(r["tau"] - wanted["tau"]) < 1e-9
        )
        assert row["black_box"] == pytest.approx(wanted["blackbox"], rel=1e-3)
        assert row["theorem_4_4_allowed_orders"] == pytest.approx(wanted["whitebox_valid_orders"], rel=1e-3)
        assert row["pld"] == pytest.approx(max(wanted["pld_rem"], wanted["pld_add"]), rel=3e-4, abs=1e-4)
    assert full["verdicts"]["ours: the distributions are the smallest of all"]
