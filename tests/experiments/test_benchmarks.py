"""The recorded benchmarks, and the pages made from them."""

import json
import re
from pathlib import Path

import pytest
import torch

from benchmarks import accounting, accounting_grid, byzantine, training, waiting, workers
from book.ext import recorded

FOLDER = Path(__file__).parents[2] / "benchmarks"
PINS = {  # whose peers are in which file
    accounting: "requirements.txt",
    accounting_grid: None,
    byzantine: "requirements-byzantine.txt",
    training: "requirements-training.txt",
    workers: None,
}
RECORDS = {module: json.loads(module.RESULTS.read_text(encoding="utf-8")) for module in PINS}


@pytest.mark.parametrize("module", PINS, ids=lambda module: module.__name__)
def test_the_record_says_how_it_was_made(module):
    record = RECORDS[module]
    assert record["command"] == module.COMMAND and re.fullmatch(r"\d{4}-\d\d-\d\d", record["date"])
    assert re.search(r"\d+ cores", record["machine"]["processor"])
    text = (FOLDER / PINS[module]).read_text("utf-8") if PINS[module] else ""
    pins = dict(re.findall(r"^([\w-]+)==(\S+)$", text, re.MULTILINE))
    assert bool(pins) == bool(PINS[module]) and pins.items() <= record["machine"].items()


def test_the_records_hold_every_task_and_case():
    rows = RECORDS[accounting]["rows"]
    wanted = [("renyi", str(case)) for case in (*accounting.CASES, accounting.RARE)]
    wanted += [(task, str(case)) for task in ("tight", "bracket") for case in accounting.CASES]
    assert [(row["task"], row["case"]) for row in rows][:-3] == wanted
    assert [row["task"] for row in rows][-3:] == ["curve", "tight curve", "noise"]
    assert {row["task"] for row in rows} == set(accounting.TITLES) == set(accounting.NOTES)

    rows = RECORDS[byzantine]["rows"]
    wanted = [(n, f, d, rule) for n, f, d, rules in byzantine.CASES for rule in rules]
    assert [(row["n"], row["f"], row["d"], row["rule"]) for row in rows] == wanted

    rows = RECORDS[training]["rows"]
    cases = [f"{name} {size}" for name, size in training.CASES]
    for task in ("cpu", "wall"):
        found = [(row["case"], row["keeps_memory"]) for row in rows if row["task"] == task]
        assert found == [(case, keeps) for case in cases for keeps in (False, True)]
    assert [row["case"] for row in rows if row["task"] == "memory"] == cases
    names = {training.PLAIN, training.OURS, *training.PEERS}
    some = [row for row in rows if row["task"] in ("cpu", "wall", "memory")]
    assert all(set(row.get("seconds", row.get("mebibytes"))) == names for row in some)
    robust = {row["case"]: list(row["seconds"]) for row in rows if row["task"] == "robust cpu"}
    assert robust == {case: [training.DPSGD, training.TRIMMED] for case in ("mlp 256", "cnn 256")}

    rules = [rule.replace("_", "-") for rule in workers.RULES]
    wanted = [("workers", str(size), [workers.PLAIN, *rules]) for size in workers.SIZES]
    wanted += [("processes", f"{name} {size}", ["1", "2"]) for name, size in workers.SHARED]
    assert [(row["task"], row["case"], list(row["seconds"])) for row in RECORDS[workers]["rows"]] == wanted


def missed(module, rows):
    """The numbers of the goals that are not met."""
    return [i for i, goal in enumerate(module.goals(rows)) if not goal.met]


# ---- accounting ----


def test_recorded_answers_are_right():
    """Goals of speed may be missed, and the page then says so; a loose or wrong number may not."""
    rows = RECORDS[accounting]["rows"]
    texts = [goal.text for goal in accounting.goals(rows) if not goal.met]
    assert not [text for text in texts if "smaller one of the peers" in text or "of five" in text], texts
    for row in rows:
        ours = row["answers"][accounting.OURS]
        if row["task"] == "tight":
            assert row["truth"] - 5e-7 <= ours <= row["truth"] + 2e-4
        if row["task"] == "bracket":
            assert ours[0] <= row["truth"] + 5e-7 and row["truth"] - 5e-7 <= ours[1]
        if row["task"] == "renyi":
            assert ours >= row["truth"]


def numbers(ours, theirs, width=1e-4):
    """Rows in which dpml takes `ours` seconds everywhere, the others `theirs`."""
    rows = []
    peers = dict.fromkeys((accounting.OPACUS, accounting.GOOGLE), 2.0)
    for task in ("renyi", "tight", "bracket"):
        for case in accounting.CASES:
            answers = {accounting.OURS: [2.0, 2.0 + width] if task == "bracket" else 2.0, **peers}
            seconds = {accounting.OURS: ours, **dict.fromkeys(peers, theirs)}
            rows.append({"task": task, "case": str(case), "truth": 2.0, "seconds": seconds, "answers": answers})
    seconds = {accounting.OURS: ours}
    return [*rows, {"task": "curve", "case": "c", "truth": None, "seconds": seconds, "answers": {}}]


def test_goals_of_accounting_are_judged_from_the_rows():
    assert len(accounting.goals(numbers(0.01, 0.61))) == 9 and missed(accounting, numbers(0.01, 0.61)) == []
    assert len(missed(accounting, numbers(0.01, 0.59))) == 1  # 60 times is missed
    assert missed(accounting, numbers(0.06, 0.1)) == [0, 1, 3, 4, 6, 8]
    rows = numbers(0.01, 0.61)
    rows[1]["answers"][accounting.OURS] = 2.01  # a looser Rényi bound
    rows[6]["answers"][accounting.OURS] = 2.0001  # an error in the tight value
    assert len(missed(accounting, rows)) == 2
    rows[3]["seconds"][accounting.OURS] = 60.0  # no sampling: not part of the Rényi goals
    assert len(missed(accounting, rows)) == 2


def test_tables_of_accounting():
    head, rows = accounting.table({"rows": numbers(0.0125, 0.5)}, "bracket")
    assert head == ["Case", "dpml", "opacus", "dp-accounting", "True value"]
    assert rows[0][1:] == ["12.5 ms: [2, 2.0001]", "500 ms (40×): 2", "500 ms (40×): 2", "2"]
    assert [recorded.number(x) for x in (2500.4, 0.04567)] == ["2,500", "0.0457"]
    assert [accounting.time_text(s) for s in (12.345, 0.5, 0.0012, 2e-6)] == ["12.3 s", "500 ms", "1.2 ms", "2 µs"]


def test_a_quick_call_is_repeated_and_a_slow_one_is_not():
    calls = []
    seconds, answer = accounting.timed(lambda: calls.append(0) or 7.0)
    assert answer == pytest.approx(7.0) and seconds > 0.0 and len(calls) > 10


def test_the_grid_of_the_tight_accountant():
    record = RECORDS[accounting_grid]
    rows = record["rows"]
    assert [tuple(row[:4]) for row in rows] == accounting_grid.POINTS
    assert not any(map(accounting_grid.is_above, rows))
    missed = [row for row in rows if accounting_grid.is_wide(row) or accounting_grid.is_slow(row)]
    assert len(missed) <= 4 and all(row[0] <= 1e-5 and row[2] >= 10**6 for row in missed)
    wide = [*rows[0][:5], rows[0][6] - 1.0, *rows[0][6:]]
    assert len(accounting_grid.tables({**record, "rows": [wide, *rows[1:]]})[1][3]) == len(missed) + 1
    assert accounting_grid.measure(*rows[100][:4])[4:7] == pytest.approx(rows[100][4:7], rel=1e-4)


def test_the_report_on_waiting_says_what_misses_its_goal(capsys):
    rows = [waiting.Row("quick", 1.0, 2.0), waiting.Row("slow", 3.0, 2.0)]
    assert not waiting.report("Things", rows, shown=0)
    assert capsys.readouterr().out.splitlines()[1:] == ["Things: 4.0 s in all", "    3.00 s of 2  NOT MET  slow"]
    assert waiting.report("Things", rows[:1])
    goals = [goal for goal, call in waiting.numbers().values() if goal <= 1.0 and call() is not None]
    assert len(goals) == 3 and len(dict(waiting.explorers())) > 30


# ---- rules and workers ----


def test_the_goals_of_the_rules_are_met_and_equal_rules_agree():
    """Krum, median and trimmed mean in at most half of the time; where both compute the same, the results agree."""
    rows = RECORDS[byzantine]["rows"]
    assert missed(byzantine, rows) == []
    same = {"median", "trimmed mean", "minimum-diameter averaging"}
    assert max(row["apart"] for row in rows if row["rule"] in same) < 1e-6
    slow = [{**row, "seconds": {"dpml": 1.0, "byzfl": 1.9}} for row in rows]
    assert missed(byzantine, slow) == [*range(len(byzantine.MUST))]


def test_goals_of_workers_are_judged_from_the_rows():
    for ratio, met in ((2.9, True), (3.1, False)):
        row = {"task": "workers", "case": "300", "seconds": {workers.PLAIN: 1.0, "multi-krum": ratio}}
        assert [(goal.measured, goal.met) for goal in workers.goals([row])] == [(ratio, met)]


@pytest.mark.parametrize(
    ("module", "lines"),
    [
        (byzantine, [len(RECORDS[byzantine]["rows"])]),
        (workers, [len(workers.SIZES), len(workers.SHARED)]),
        (training, [None] * 6),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_the_tables_show_every_row(module, lines):
    tables = module.tables(RECORDS[module])
    assert len(tables) == len(lines)
    for (_, note, head, rows), count in zip(tables, lines, strict=True):
        assert note and count in (None, len(rows)) and all(len(row) == len(head) for row in rows)


def test_the_measurements_of_workers_run():
    """On few examples, one process: the same code as the record's."""
    row = workers.steps_of_workers(5, 0.0)
    assert set(row["seconds"]) == {workers.PLAIN, *(rule.replace("_", "-") for rule in workers.RULES)}
    assert workers.share("mlp", 20, "cpu", 0, 1, "") != 0.0


# ---- training ----


def steps(plain, ours, theirs):
    """Rows with these seconds for a step that is not private, for dpml and for its peers."""
    seconds = {training.PLAIN: plain, training.OURS: ours, **dict.fromkeys(training.PEERS, theirs)}
    rows = []
    for name, size in training.CASES:
        case, differences = f"{name} {size}", dict.fromkeys(training.PEERS, 1e-7)
        rows += [{"task": "cpu", "case": case, "seconds": seconds, "differences": differences, "keeps_memory": False}]
        rows += [{"task": "memory", "case": case, "mebibytes": seconds}]
    rows += [{"task": "stacked cpu", "case": f"mlp 256, {training.STACKED} models", "seconds": seconds}]
    times = {training.DPSGD: plain, training.TRIMMED: 1.04 * plain}
    return rows + [{"task": "robust cpu", "case": f"{name} 256", "seconds": times} for name in ("mlp", "cnn")]


def test_goals_of_training_are_judged_from_the_rows():
    """The last is about sums: goals of speed may be missed, and the page then says so; a wrong sum may not."""
    *_, goal = training.goals(RECORDS[training]["rows"])
    assert "sums of opacus" in goal.text and goal.met and goal.measured > 0.0
    rows = steps(1.0, 0.85, 1.8)
    assert len(training.goals(rows)) == 14 and missed(training, rows) == []
    assert missed(training, steps(1.0, 1.27, 2.6)) == [2, 3, 8, 9, 10]
    assert [i for i in missed(training, steps(1.0, 1.0, 1.5)) if 4 <= i < 8] == [4, 5, 7]
    rows[0]["differences"] = {"opacus hooks": 1e-3}
    rows[-1]["seconds"] = {training.DPSGD: 1.0, training.TRIMMED: 1.06}
    assert missed(training, rows) == [12, 13]


def test_the_best_of_the_peers_counts_whichever_way_memory_is_kept():
    rows = steps(1.0, 0.85, 1.8)
    quick = {**rows[0]["seconds"], "opacus ghost clipping": 0.9}
    goal = training.goals([*rows, {**rows[0], "seconds": quick, "keeps_memory": True}])[4]
    assert goal.measured == pytest.approx(0.85 / 0.9) and not goal.met


def test_tables_of_training():
    made = training.tables({"rows": steps(0.002, 0.0025, 0.005)})
    titles = [training.TITLES[task] for task in ("cpu", "stacked cpu", "robust cpu", "memory")]
    assert [title for title, *_ in made] == titles
    _, _, head, rows = made[0]
    assert head[:3] == ["Model, batch", "not private", "dpml"]
    assert rows[0][:3] == ["mlp 256", "2 ms", "2.5 ms (1.25×)"]


@pytest.mark.parametrize("name", ["mlp", "cnn", "resnet"])
def test_contestants_that_clip_nothing_agree(name, monkeypatch):
    monkeypatch.setattr(training, "CLIP_NORM", 1e9)
    steps = training.contestants(name, 4, torch.device("cpu"), [])
    assert training.difference(steps[training.OURS](), steps[training.PLAIN]()) < 1e-5
