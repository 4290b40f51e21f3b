"""The tables of the GPU experiment from made-up rows."""

from experiments import gpu, gpu_tables


def step(model, batch, who, milliseconds, mebibytes):
    key = {"part": "step", "model": model, "batch": batch, "who": who}
    return {**key, "milliseconds": milliseconds, "mebibytes": mebibytes}


def whole_step(model, batch, mechanism, milliseconds):
    key = {"part": "run", "model": model, "batch": batch, "mechanism": mechanism}
    return {**key, "milliseconds": milliseconds, "loss": 1.25}


HOOKS, GHOST = gpu.PEERS
MADE_UP = {
    "command": "bash experiments/gpu.sh --preset gpu",
    "date": "2026-11-28",
    "machine": {"device": "some GPU", "CUDA": "12.8", "torch": "2.13.0"},
    "rows": [
        {"part": "agreement", "model": "mlp", "batch": 512, "tf32": False}
        | {"sum": 3e-7, "norms": 2e-7, "losses": 1e-7, "worst_norm": 6e-7},
        {"part": "agreement", "model": "mlp", "batch": 512, "tf32": True}
        | {"sum": 4e-4, "norms": 2e-4, "losses": 1e-4, "worst_norm": 2e-3},
        {"part": "clipping", "model": "mlp", "batch": 512, "tf32": True, "over": 1.25e-7},
        step("cnn", 512, "not private", 2.0, 10.0),
        step("cnn", 512, "dpml", 3.0, 12.0),
        step("cnn", 512, HOOKS, 9.0, 300.0),
        step("cnn", 512, GHOST, 6.0, 24.0),
        step("cnn", 256, "not private", 1.0, 5.0),
        step("cnn", 256, "dpml", 1.5, 5.0),
        step("mlp", 8192, "not private", 4.0, 100.0),
        step("mlp", 8192, "dpml", 5.0, 125.0),
        step("mlp", 8192, HOOKS, None, None),
        step("mlp", 8192, GHOST, 10.0, 1250.0),
        whole_step("mlp", 8192, "sgd", 4.0),
        whole_step("mlp", 8192, "dp_sgd", 6.0),
        whole_step("mlp", 8192, "tsgd_ptr", 6.6),
        whole_step("resnet", 256, "dp_sgd", 12.5),
        {"part": "stacked", "model": "mlp", "batch": 256, "models": 1, "milliseconds": 0.5, "mebibytes": 2.0},
        {"part": "stacked", "model": "mlp", "batch": 256, "models": 8, "milliseconds": 1.0, "mebibytes": 16.0},
    ],
}


def by_title(content):
    found = {title: (note, head, lines) for title, note, head, lines in gpu_tables.tables(content)}
    for note, head, lines in found.values():
        assert note.endswith(".")
        assert lines
        assert all(len(line) == len(head) for line in lines)
    return found


def test_times_and_memory_with_gaps():
    """The best of opacus is the best that fits; a step that does not fit is not one that was not measured."""
    _, head, lines = by_title(MADE_UP)["Time of a step"]
    assert head[2:] == ["not private", "dpml", "dpml over not private", HOOKS, GHOST, "dpml over best of opacus"]
    assert lines == [
        ["MLP", "8192", "4", "5", "1.25×", "does not fit", "10", "0.5×"],
        ["CNN", "256", "1", "1.5", "1.5×", "", "", ""],
        ["CNN", "512", "2", "3", "1.5×", "9", "6", "0.5×"],
    ]
    assert by_title(MADE_UP)["Peak memory of a step"][2] == [
        ["MLP", "8192", "100", "125", "1.25×", "does not fit", "1,250", "0.1×"],
        ["CNN", "256", "5", "5", "1×", "", "", ""],
        ["CNN", "512", "10", "12", "1.2×", "300", "24", "0.5×"],
    ]


def test_clipping():
    assert by_title(MADE_UP)["Clipping"][2] == [["MLP", "512", "allowed", "1.2e-07"]]


def test_agreement_names_the_worst():
    note, _, lines = by_title(MADE_UP)["Agreement with the CPU"]
    assert lines[0] == ["MLP", "512", "not allowed", "3.0e-07", "2.0e-07", "6.0e-07", "1.0e-07"]
    assert "6.0e-07 with TensorFloat-32 not allowed; 2.0e-03 with TensorFloat-32 allowed" in note
    assert note.endswith("met.")
    worse = [{**row, "sum": 2e-5} if row["part"] == "agreement" else row for row in MADE_UP["rows"]]
    assert by_title({**MADE_UP, "rows": worse})["Agreement with the CPU"][0].endswith("missed.")


def test_runs_and_stacks():
    assert by_title(MADE_UP)["A whole step in a run"][2] == [
        ["MLP", "8192", "4", "6", "1.5×", "6.6", "1.1×", "5"],
        ["ResNet", "256", "", "12.5", "", "", "", ""],
    ]
    assert by_title(MADE_UP)["Stacked models"][2] == [
        ["1", "256", "0.5", "0.5", "1×", "2"],
        ["8", "256", "1", "0.125", "4×", "16"],
    ]


def test_a_missing_part_has_no_table():
    assert gpu_tables.tables({**MADE_UP, "rows": []}) == []
    alone = [row for row in MADE_UP["rows"] if row.get("who") in ("not private", "dpml")]
    found = by_title({**MADE_UP, "rows": [{**row, "mebibytes": None} for row in alone]})
    assert {title: head for title, (_, head, _) in found.items()} == {
        "Time of a step": ["Model", "Batch", "not private", "dpml", "dpml over not private"]
    }
