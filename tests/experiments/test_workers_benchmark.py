"""The recorded benchmark of many workers and of two processes, and the tables made from it."""

import json

import pytest

from benchmarks import workers

RECORD = json.loads(workers.RESULTS.read_text(encoding="utf-8"))


def test_the_record_holds_every_case_and_says_how_it_was_made():
    assert RECORD["command"] == workers.COMMAND and {"processor", "torch"} <= set(RECORD["machine"])
    cases = [("workers", str(size)) for size in workers.SIZES]
    cases += [("processes", f"{name} {size}") for name, size in workers.SHARED]
    assert [(row["task"], row["case"]) for row in RECORD["rows"]] == cases
    for row in RECORD["rows"]:
        rules = [rule.replace("_", "-") for rule in workers.RULES]
        assert list(row["seconds"]) == ([workers.PLAIN, *rules] if row["task"] == "workers" else ["1", "2"])


def test_goals_are_judged_from_the_rows():
    for ratio, met in ((2.9, True), (3.1, False)):
        row = {"task": "workers", "case": "300", "seconds": {workers.PLAIN: 1.0, "multi-krum": ratio}}
        assert [(goal.measured, goal.met) for goal in workers.goals([row])] == [(ratio, met)]


def test_the_tables_of_the_page():
    (_, _, head, first), (_, _, other, second) = workers.tables(RECORD)
    assert [len(line) for line in first] == [len(head)] * len(workers.SIZES)
    assert [len(line) for line in second] == [len(other)] * len(workers.SHARED)
    seconds = next(row["seconds"] for row in RECORD["rows"] if row["task"] == "processes")
    assert float(second[0][3]) == pytest.approx(seconds["1"] / seconds["2"], abs=0.006)


def test_the_measurements_run():
    """On few examples, one process: the same code as the record's."""
    row = workers.steps_of_workers(5, 0.0)
    assert set(row["seconds"]) == {workers.PLAIN, *(rule.replace("_", "-") for rule in workers.RULES)}
    assert workers.share("mlp", 20, "cpu", 0, 1, "") != 0.0
