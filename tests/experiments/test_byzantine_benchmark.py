"""The recorded benchmark of the aggregation rules, and the table made from it."""

import json
import re
from pathlib import Path

from benchmarks import byzantine

ROOT = Path(__file__).parents[2]
RECORD = json.loads(byzantine.RESULTS.read_text(encoding="utf-8"))


def test_the_record_says_how_it_was_made():
    assert RECORD["command"] == byzantine.COMMAND
    pins = re.findall(
        r"^(\w+)==(\S+)$", (ROOT / "benchmarks" / "requirements-byzantine.txt").read_text("utf-8"), re.MULTILINE
    )
    assert dict(pins) == {"byzfl": RECORD["machine"]["byzfl"]}


def test_the_record_holds_every_case():
    cases = [(n, f, d, rule) for n, f, d, rules in byzantine.CASES for rule in rules]
    assert [(row["n"], row["f"], row["d"], row["rule"]) for row in RECORD["rows"]] == cases


def test_the_goals_are_met_and_equal_rules_agree():
    """Krum, median and trimmed mean in at most half of the time; where both compute the same, the results agree."""
    goals = byzantine.goals(RECORD["rows"])
    assert len(goals) == len(byzantine.MUST)
    assert all(goal.met for goal in goals)
    same = {"median", "trimmed mean", "minimum-diameter averaging"}
    assert max(row["apart"] for row in RECORD["rows"] if row["rule"] in same) < 1e-6
    slow = [{**row, "seconds": {"dpml": 1.0, "byzfl": 1.9}} for row in RECORD["rows"]]
    assert not any(goal.met for goal in byzantine.goals(slow))


def test_the_table_shows_every_row():
    ((_, note, head, rows),) = byzantine.tables(RECORD)
    assert "One thread" in note
    assert len(head) == 4
    assert [row[0].partition(",")[0] for row in rows] == [row["rule"] for row in RECORD["rows"]]
    assert all(len(row) == len(head) for row in rows)
