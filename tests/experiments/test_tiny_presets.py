"""Every experiment by its tiny preset, run once, stopped in the middle: the same code as the recorded run."""

import functools
import json
import logging
import math
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dpml.accounting import pld
from dpml.accounting.pld import fixed_size
from experiments import (
    byzantine_figures,
    dpsgd_fashion,
    dpsgd_gpu,
    dpsgd_or_pate,
    gpu,
    gpu_tables,
    m_samp,
    pate_fashion,
    processes,
    ptr_tables,
    recording,
    stobatch,
)
from tests.experiments.claims import m_samp_keeps_its_predictions

ROOT = Path(__file__).parents[2]
GROWING = {  # with the presets that want a GPU
    "byzantine_figures": (byzantine_figures, "full"),
    "dpsgd_gpu": (dpsgd_gpu, "full"),
    "ptr_tables": (ptr_tables, "gpu"),
    "stobatch": (stobatch, "full"),
}
RUNS = {name: functools.partial(module.run, "tiny", device="cpu") for name, (module, _) in GROWING.items()}
OTHERS = (dpsgd_fashion, dpsgd_or_pate, m_samp, pate_fashion)
RUNS |= {module.__name__.rpartition(".")[2]: functools.partial(module.run, "tiny") for module in OTHERS}
RUNS["gpu"] = functools.partial(gpu.measure, "tiny", limit=math.inf)
AT_ONCE = {"pate_fashion": 6, "dpsgd_or_pate": 2}
"""How many rows an experiment does together, where it is not one."""
TIMES = {"seconds", "cpu_seconds", "cpu_seconds_of_the_block", "milliseconds"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A function from the name of an experiment to what its tiny preset gives, and the file that holds it."""
    write = Path.write_text

    @functools.cache
    def run(name):
        into, calls = tmp_path_factory.mktemp(name) / "tiny.json", []

        def interrupting(path, text, **how):
            calls.append(write(path, text, **how))
            if len(calls) == 2:
                raise KeyboardInterrupt
            return calls[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Path, "write_text", interrupting)
            with pytest.raises(KeyboardInterrupt):
                RUNS[name](into=into)
            before = part_of(into)["rows"]
            found = RUNS[name](into=into)
        logging.disable(logging.NOTSET)
        assert found["rows"][: len(before)] == before, "what was there is not done again"
        assert part_of(into) == json.loads(json.dumps(found))
        return found, into

    return run


def part_of(into):
    content = json.loads(into.read_text(encoding="utf-8"))
    return content.get("tiny", content)


@pytest.mark.parametrize("name", RUNS)
def test_a_run_goes_on_where_it_stopped_and_ends_the_same(made, name, tmp_path):
    """The last rows are gone: they come back the same, but for times, and the others stay to the last digit."""
    found, into = made(name)
    content = json.loads(into.read_text(encoding="utf-8"))
    part = content.get("tiny", content)
    assert part["command"].endswith("--preset tiny") or name == "dpsgd_gpu"
    part["rows"] = kept = part["rows"][: -AT_ONCE.get(name, 1)]
    again = tmp_path / "again.json"
    again.write_text(json.dumps(content), encoding="utf-8")
    rows = RUNS[name](into=again)["rows"]
    logging.disable(logging.NOTSET)
    assert rows[: len(kept)] == kept
    plain, whole = (
        [{key: value for key, value in row.items() if key not in TIMES} for row in them]
        for them in (rows, found["rows"])
    )
    assert plain == whole and len(whole) == len(kept) + AT_ONCE.get(name, 1)


@pytest.mark.parametrize("name", RUNS)
def test_rows_are_accuracies_and_keep_their_budget(made, name):
    for row in made(name)[0]["rows"]:
        for key, value in row.items():
            if "accuracy" in key and value is not None:
                assert 0.0 <= value <= 1.0
        spent = row.get("spent", row.get("epsilon_spent"))
        if spent is not None and row["epsilon"] is not None and not row.get("method", "").endswith("aligned"):
            assert spent <= row["epsilon"] + 1e-5
            assert spent > 0.99 * row["epsilon"] or name == "ptr_tables"


TITLES = {
    "byzantine_figures": [
        "What is spent",
        *(f"{f} of 7 workers lie, {noise}" for f, noise in ((0, "ε = 0.5"), (1, "ε = 0.5"), (2, "no noise"))),
        "VN ratios",
    ],
    "dpsgd_fashion": ["What was run", "Accuracy", "Noise and batch size", "Clip norm"]
    + [f"Learning rates tried, {model}" for model in ("MLP", "CNN")],
    "dpsgd_gpu": ["What was run", "Accuracy", "Learning rates tried, CNN"],
    "ptr_tables": ["What each method spends", "Fashion-MNIST, shipped, ε = 10"],
    "gpu": ["Agreement with the CPU", "Clipping", "Time of a step", "A whole step in a run", "Stacked models"],
    "stobatch": ["digits: accuracy under attack", "digits: certified accuracy"],
}


@pytest.mark.parametrize("name", TITLES)
def test_the_tables_of_the_page(made, name):
    content, others = made(name)[0], {"dpsgd_fashion": dpsgd_fashion, "gpu": gpu_tables}
    module = others.get(name) or GROWING[name][0]
    tables = module.tables({**content, "rows": [row for row in content["rows"] if row.get("part") != "opacus"]})
    assert [title for title, *_ in tables] == TITLES[name]
    for _, note, head, lines in tables:
        assert note.endswith(".") and lines and all(len(line) == len(head) for line in lines)


def test_dpsgd_fashion_searches_and_then_trains(made):
    rows, preset = made("dpsgd_fashion")[0]["rows"], dpsgd_fashion.PRESETS["tiny"]
    ours = [row for row in rows if row["part"] != "opacus"]
    assert len(ours) == dpsgd_fashion.number_of_runs(preset) - 2 * len(preset.seeds)
    assert {row["part"] for row in ours} == {"search", "subset", "tested", "full", "clip", "sweep"}
    rates = dpsgd_fashion.best_rates(rows)
    assert all(row["rate"] == rates[row["model"], row["epsilon"]] for row in ours if row["part"] in ("subset", "full"))
    assert all((row["spent"] is None) == (row["noise"] is None) for row in ours)
    tried = (("search", 0.1, 0.5), ("search", 0.2, 0.7), ("search", 0.4, 0.6), ("full", 0.1, 0.9))
    made_up = [{"part": a, "rate": b, "accuracy": c, "model": "mlp", "epsilon": 1.0} for a, b, c in tried]
    assert dpsgd_fashion.best_rates(made_up) == {("mlp", 1.0): 0.2}


def test_dpsgd_gpu_chooses_after_the_whole_search_and_nothing_that_diverged(made):
    content, preset = made("dpsgd_gpu")[0], dpsgd_gpu.PRESETS["tiny"]
    rows = content["rows"]
    searched = [row for row in rows if row["part"] == "search"]
    assert len(searched) == len(dpsgd_gpu.EPSILONS) * len(preset.rates)
    assert len(rows) - len(searched) == len(dpsgd_gpu.EPSILONS) * len(preset.seeds)
    assert rows == sorted(rows, key=lambda row: dpsgd_gpu.place(row, preset))
    assert {row["n"] for row in searched} == {80}
    assert list(dpsgd_gpu.full(preset, searched[1:])) == []
    assert len(list(dpsgd_gpu.full(preset, searched))) == len(dpsgd_gpu.EPSILONS) * len(preset.seeds)
    job = dpsgd_gpu.Job(next(dpsgd_gpu.search(preset)), "tiny", "cpu")
    row = dpsgd_gpu.do(job._replace(setting=job.setting._replace(epsilon=None, rate=1e30)))
    assert row["accuracy"] == 0.0 and row["diverged"] >= 1
    assert "diverged" in dpsgd_gpu.tables({**content, "rows": [row, *rows]})[-1][3][-1]
    with pytest.raises(dpsgd_gpu.Diverged):
        dpsgd_gpu.do(job._replace(setting=job.setting._replace(part="full", epsilon=None, rate=1e30)))


def test_dpsgd_or_pate_spends_what_the_accountant_says(made):
    rows, preset = made("dpsgd_or_pate")[0]["rows"], pate_fashion.PRESETS["tiny"]
    assert [(row["epsilon"], row["seed"]) for row in rows] == [(8.0, 0), (8.0, 1)]
    for row in rows:
        spent = pld.epsilon(
            q=256 / preset.private, sigma=row["sigma"], steps=row["steps"], delta=pate_fashion.DELTA
        ).epsilon
        assert spent == pytest.approx(row["epsilon_spent"], rel=1e-9)


def test_dpsgd_or_pate_sees_only_private_records(monkeypatch):
    """The shards that training gets are the private part of the split of the PATE experiment."""
    preset, images = pate_fashion.PRESETS["tiny"], pate_fashion.images("tiny", None)
    seen, original = [], dpsgd_or_pate.stacked.train
    monkeypatch.setattr(dpsgd_or_pate.stacked, "train", lambda *a, **k: seen.append(k["shards"]) or original(*a, **k))
    dpsgd_or_pate.train(images, preset, [dpsgd_or_pate.Job(1, 8.0)], steps=1, rate=0.1)
    assert torch.equal(images[0][seen[0][0]], pate_fashion.split(images, preset, seed=1).x)


def test_pate_fashion_answers_as_often_as_it_may(made):
    part, preset = made("pate_fashion")[0], pate_fashion.PRESETS["tiny"]
    assert len(part["rows"]) == len(preset.teachers) * len(preset.seeds) * (5 * len(preset.epsilons) + 1)
    for row in part["rows"]:
        assert 0 <= row["answered"] <= row["asked"] <= preset.public
        if row.get("epsilon_data_dependent") is not None:
            assert 0 < row["epsilon_data_dependent"] <= row["epsilon"] * (1 + 1e-9)


def test_m_samp_releases_as_predicted(made):
    assert len(made("m_samp")[0]["rows"]) == 4
    m_samp_keeps_its_predictions(made("m_samp")[0])


def test_ptr_tables_runs_every_method(made):
    rows, preset = made("ptr_tables")[0]["rows"], ptr_tables.PRESETS["tiny"]
    assert len(rows) == len(preset.corruptions) * (len(preset.seeds) * len(preset.methods) + len(preset.first))
    assert all(("passed" in row) == row["method"].startswith("TSGD+PTR") for row in rows)


def test_stobatch_runs_every_method_and_says_what_holds(made):
    part = made("stobatch")[0]
    rows = part["rows"]
    wanted = list(stobatch.settings(stobatch.PRESETS["tiny"]))
    assert [recording.setting_of(stobatch.Setting, row) for row in rows] == wanted
    assert {row["method"] for row in rows} == set(stobatch.METHODS)
    for row in rows:
        assert (row["claimed"] is not None) == (row["method"] == "StoBatch, as printed")
        holds = row["method"] == "StoBatch, local" or bool(row["multiplier"])
        assert (row["spent"] is not None) == holds
        assert all(len(row["attacked"][name]) == len(stobatch.SIZES) for name in stobatch.ATTACKS)
        if row["printed"] is not None:
            assert all(a <= b for a, b in zip(row["certified"], row["printed"], strict=True))
        for key in ("certified", "printed"):
            assert row[key] is None or row[key] == sorted(row[key], reverse=True)


def test_byzantine_figures_spend_what_the_accountants_say(made):
    """Sampling without replacement of 20 of 400: what one worker and the server saw, and a step's delta."""
    part, preset = made("byzantine_figures")[0], byzantine_figures.PRESETS["tiny"]
    assert {row["rule"] for row in part["rows"]} == {"average", "mda", "bulyan", "median"}
    for one in part["spends"]:
        given = {"q": 20 / 400, "sigma": one["sigma"], "delta": byzantine_figures.TOTAL_DELTA}
        for times, found in ((1, one["one_worker"]), (one["n_honest"], one["server"])):
            bounds = fixed_size.epsilon_bounds(**given, steps=times * preset.steps)
            assert bounds.lower * (1 - 1e-4) <= found <= bounds.upper * (1 + 1e-4)
        assert 0.0 < one["delta"] < byzantine_figures.DELTA
    ratios = [row for row in part["rows"] if row["rule"] == "mda"]
    assert all(len(row["sampled"]) == len(row["submitted"]) == preset.steps for row in ratios)
    noise = preset.n - 1  # of pure noise, h honest vectors have the ratio sqrt(h)
    for row in ratios:
        assert row["submitted"] == pytest.approx([math.sqrt(noise)] * preset.steps, rel=0.05)
        assert max(row["sampled"]) < 0.6 * math.sqrt(noise)


def test_byzantine_figures_write_down_a_run_that_diverged(monkeypatch):
    monkeypatch.setattr(byzantine_figures, "RATE", 1e30)
    setting = next(byzantine_figures.settings(byzantine_figures.PRESETS["tiny"]))
    row = byzantine_figures._do(byzantine_figures.Job(setting, "tiny", "cpu"))
    assert row["accuracy"] is None and row["diverged"] >= 2
    assert byzantine_figures._cell([None, 0.5]) == "50.0 (1 diverged)"


# ---- the card ----


def test_gpu_has_a_row_for_every_job(made):
    rows = made("gpu")[0]["rows"]
    assert len(rows) == len(gpu.jobs(gpu.PRESETS["tiny"]))
    assert {row["part"] for row in rows} == {"agreement", "clipping", "step", "run", "stacked"}
    assert {row["model"] for row in rows} == {"mlp", "resnet"}
    for row in rows:
        if row["part"] == "agreement":
            assert max(row["sum"], row["worst_norm"]) <= 1e-5
        elif row["part"] == "clipping":
            assert -1.0 < row["over"] <= 1e-6
        else:
            assert row["milliseconds"] > 0.0


def test_the_tables_of_the_card_are_printed(made, capsys):
    _, into = made("gpu")
    assert gpu_tables.main([str(into)]) == 0
    assert "\nStacked models. " in capsys.readouterr().out


# ---- limits ----


@pytest.mark.parametrize("name", [*GROWING, "gpu"])
def test_after_its_time_no_row_is_begun(name, tmp_path):
    least = {"limit": -1.0} if name == "gpu" else {"seconds": -1.0}
    assert RUNS[name](into=tmp_path / "results.json", **least)["rows"] == []
    logging.disable(logging.NOTSET)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
@pytest.mark.parametrize("name", [*GROWING, "gpu"])
def test_without_a_gpu_one_sentence_says_so(name, tmp_path):
    into = tmp_path / "results.json"
    run = functools.partial(gpu.measure, "gpu", limit=1.0)
    if name in GROWING:
        module, preset = GROWING[name]
        run = functools.partial(module.run, preset, device="cuda")
    with pytest.raises(SystemExit, match="No GPU was found by PyTorch"):
        run(into=into)
    assert not into.exists()


def test_runs_in_several_processes_all_come_back():
    assert sorted(processes.results(math.factorial, [3, 4, 5], 2)) == [6, 24, 120]


@pytest.mark.skipif(shutil.which("bash") is None, reason="the script needs bash")
def test_the_script_starts_from_the_source_tree(tmp_path):
    command = ["bash", str(ROOT / "experiments" / "gpu.sh"), "--preset", "tiny", "--limit", "-1"]
    command += ["--into", str(tmp_path / "a.json")]
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": sys.executable}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "the same command goes on" in done.stdout
