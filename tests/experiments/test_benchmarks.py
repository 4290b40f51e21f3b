"""The recorded benchmark and the page made from it."""

import json
import re
from pathlib import Path

import pytest

from benchmarks import accounting, accounting_grid, waiting
from book.ext import recorded

ROOT = Path(__file__).parents[2]
RECORD = json.loads((ROOT / "benchmarks" / "results" / "accounting.json").read_text(encoding="utf-8"))
ROWS = RECORD["rows"]


def test_the_record_says_how_it_was_made():
    assert RECORD["command"] == accounting.COMMAND
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", RECORD["date"])
    assert RECORD["rounds"] >= 3
    assert re.search(r"\d+ cores$", RECORD["machine"]["processor"])
    pins = re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "benchmarks" / "requirements.txt").read_text("utf-8"), re.MULTILINE)
    assert {name for name, _ in pins} == {accounting.OPACUS, accounting.GOOGLE}
    assert {name: RECORD["machine"][name] for name, _ in pins} == dict(pins)


def test_the_record_holds_every_task_and_case():
    wanted = [("renyi", str(case)) for case in (*accounting.CASES, accounting.RARE)]
    wanted += [(task, str(case)) for task in ("tight", "bracket") for case in accounting.CASES]
    assert [(row["task"], row["case"]) for row in ROWS][:-3] == wanted
    assert [row["task"] for row in ROWS][-3:] == ["curve", "tight curve", "noise"]
    assert {row["task"] for row in ROWS} == set(accounting.TITLES) == set(accounting.NOTES)


def test_goals_of_correctness_are_met():
    """Goals of speed may be missed, and the page then says so; a loose or wrong number may not."""
    missed = [goal.text for goal in accounting.goals(ROWS) if not goal.met]
    assert not [text for text in missed if "smaller one of the peers" in text or "of five" in text], missed


def test_recorded_answers_are_right():
    for row in ROWS:
        ours = row["answers"][accounting.OURS]
        if row["task"] == "tight":
            assert row["truth"] - 5e-7 <= ours <= row["truth"] + 2e-4
        if row["task"] == "bracket":
            assert ours[0] <= row["truth"] + 5e-7 and row["truth"] - 5e-7 <= ours[1]
        if row["task"] == "renyi":
            assert ours >= row["truth"]


def made_up(ours, theirs, width=1e-4):
    """Rows in which dpml takes `ours` seconds everywhere, the others `theirs`."""
    rows = []
    for task in ("renyi", "tight", "bracket"):
        for case in accounting.CASES:
            answer = [2.0, 2.0 + width] if task == "bracket" else 2.0
            names = (accounting.OPACUS, accounting.GOOGLE)
            seconds = {accounting.OURS: ours, **dict.fromkeys(names, theirs)}
            answers = {accounting.OURS: answer, **dict.fromkeys(names, 2.0)}
            rows.append({"task": task, "case": str(case), "truth": 2.0, "seconds": seconds, "answers": answers})
    seconds = {accounting.OURS: ours}
    return [*rows, {"task": "curve", "case": "c", "truth": None, "seconds": seconds, "answers": {}}]


def test_goals_are_judged_from_the_rows():
    met = [goal.met for goal in accounting.goals(made_up(0.01, 0.61))]
    assert met == [True] * 9
    assert [goal.met for goal in accounting.goals(made_up(0.01, 0.59))].count(False) == 1  # 60 times is missed
    slow = accounting.goals(made_up(0.06, 0.1))
    assert [goal.met for goal in slow] == [False, False, True, False, False, True, False, True, False]
    rows = made_up(0.01, 0.61)
    rows[1]["answers"][accounting.OURS] = 2.01  # a looser Rényi bound
    rows[6]["answers"][accounting.OURS] = 2.0001  # an error in the tight value
    assert [goal.met for goal in accounting.goals(rows)].count(False) == 2
    rows[3]["seconds"][accounting.OURS] = 60.0  # no sampling: not part of the Rényi goals
    assert [goal.met for goal in accounting.goals(rows)].count(False) == 2


def test_tables():
    head, rows = accounting.table({"rows": made_up(0.0125, 0.5)}, "bracket")
    assert head == ["Case", "dpml", "opacus", "dp-accounting", "True value"]
    assert rows[0][1:] == ["12.5 ms: [2, 2.0001]", "500 ms (40×): 2", "500 ms (40×): 2", "2"]
    assert [recorded.number(x) for x in (2500.4, 0.04567)] == ["2,500", "0.0457"]
    assert [accounting.time_text(s) for s in (12.345, 0.5, 0.0012, 2e-6)] == ["12.3 s", "500 ms", "1.2 ms", "2 µs"]


def test_a_quick_call_is_repeated_and_a_slow_one_is_not():
    calls = []
    seconds, answer = accounting.timed(lambda: calls.append(0) or 7.0)
    assert answer == pytest.approx(7.0) and seconds > 0.0
    assert len(calls) > 10


def test_the_report_on_waiting_says_what_misses_its_goal(capsys):
    rows = [waiting.Row("quick", 1.0, 2.0), waiting.Row("slow", 3.0, 2.0)]
    assert not waiting.report("Things", rows, shown=0)
    assert capsys.readouterr().out.splitlines()[1:] == ["Things: 4.0 s in all", "    3.00 s of 2  NOT MET  slow"]
    assert waiting.report("Things", rows[:1])
    goals = [goal for goal, call in waiting.numbers().values() if goal <= 1.0 and call() is not None]
    assert len(goals) == 3
    assert len(dict(waiting.explorers())) > 30


def test_the_grid_of_the_tight_accountant():
    record = json.loads(accounting_grid.RESULTS.read_text(encoding="utf-8"))
    rows = record["rows"]
    assert record["command"] == accounting_grid.COMMAND
    assert [tuple(row[:4]) for row in rows] == accounting_grid.POINTS
    assert not any(accounting_grid.is_above(row) for row in rows)
    missed = [row for row in rows if accounting_grid.is_slow(row) or accounting_grid.is_wide(row)]
    assert len(missed) <= 0.1 * len(rows)
    counted, listed = (table[3] for table in accounting_grid.tables(record))
    assert [len(counted), len(listed)] == [3, len(missed)]
    point = rows[100][:4]
    assert accounting_grid.measure(*point)[4:7] == pytest.approx(rows[100][4:7], rel=1e-4)
