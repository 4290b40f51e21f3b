"""The command line: numbers, labels, warnings, and one sentence for every mistake."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

import dpml
from dpml import command_line

ROOT = Path(dpml.__file__).parents[1]
RUN = ["--sampling-rate", "0.01", "--noise-multiplier", "4", "--steps", "10000", "--delta", "1e-5"]
MNIST = ["--batch-size", "256", "--dataset-size", "60000", "--steps", "3515", "--delta", "1e-5"]


def python(*words, **variables):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", **variables}
    return subprocess.run([sys.executable, *words], capture_output=True, encoding="utf-8", env=environment)


def ask(capsys, *words):
    """The parsed JSON answer; NaN and Infinity, which are not JSON, are refused."""
    assert command_line.main([*words, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def say(capsys, *words):
    assert command_line.main(list(words)) == 0
    return capsys.readouterr()


def test_the_number_as_a_program_of_its_own():
    done = python("-m", "dpml", "epsilon", *RUN, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    lower, upper = answer["epsilon"]["lower"], answer["epsilon"]["upper"]
    assert lower <= 0.9468668 <= upper <= 0.9469668  # the true value, to seven digits
    assert answer["epsilon"]["quote"] == "upper"
    assert (answer["kind"], answer["adjacency"], answer["sampling"]) == ("upper bound", "add/remove", "Poisson")
    assert answer["renyi"]["epsilon"] == pytest.approx(1.0354, abs=2e-3)
    assert answer["renyi"]["order"] > 1
    assert (answer["warnings"], answer["remarks"], answer["dpml"]) == ([], [], dpml.__version__)


@pytest.mark.parametrize("encoding", ["cp932", "ascii", "utf-8"])
def test_a_console_of_any_encoding(encoding):
    """Letters that it lacks are replaced; the utf-8 of the test's reader stands for the one that lacks none."""
    done = python("-m", "dpml", "epsilon", *RUN[:-4], "--steps", "9", "--delta", "1e-5", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("R\u00e9nyi" if encoding == "utf-8" else "R?nyi") in done.stdout


def test_plain_words(capsys):
    answer = ask(capsys, "epsilon", *RUN)
    out, err = say(capsys, "epsilon", *RUN)
    assert err == ""
    first = re.match(r"epsilon is at most (\S+) at delta = 1e-05\n", out)
    low, high = re.search(r"upper bound; the true epsilon lies in \[(\S+), (\S+)\], quote the upper end", out).groups()
    assert first[1] == high
    upper, lower = answer["epsilon"]["upper"], answer["epsilon"]["lower"]
    assert upper <= float(high) <= upper * (1 + 1e-5)  # rounded, but never to the unsafe side
    assert lower * (1 - 1e-5) <= float(low) <= lower
    for words in ("one record added or removed", "Poisson: each record joins each batch independently", "0.01"):
        assert words in out
    assert "shuffles" in out
    assert re.search(r"Rényi accountant: 1\.03\d+ \(upper bound, at order \d", out)


def test_fixed_size_is_another_number_for_other_neighbours(capsys):
    answer = ask(capsys, "epsilon", *RUN, "--sampling", "fixed-size")
    lower, upper = answer["epsilon"]["lower"], answer["epsilon"]["upper"]
    assert 2.16 < lower <= upper
    assert upper == pytest.approx(2.5616, abs=2e-3)
    assert (answer["adjacency"], answer["sampling"]) == ("replace-one", "without replacement")
    assert answer["renyi"] is None
    out, _ = say(capsys, "epsilon", *RUN, "--sampling", "fixed-size")
    assert "replace-one" in out and "without replacement" in out
    assert "Poisson" not in out and "added" not in out


def test_batch_over_dataset(capsys):
    by_sizes = ask(capsys, "epsilon", *MNIST, "--noise-multiplier", "1.1")
    steps = ["--steps", "3.515e3", "--delta", "1e-5", "--noise-multiplier", "1.1"]
    by_rate = ask(capsys, "epsilon", "--sampling-rate", str(256 / 60000), *steps)
    assert by_sizes["epsilon"] == by_rate["epsilon"]
    assert by_sizes["sampling_rate"] == pytest.approx(256 / 60000, rel=1e-15)
    assert by_sizes["epsilon"]["lower"] <= 1.1337062 <= by_sizes["epsilon"]["upper"] <= 1.1347
    assert (by_sizes["dataset_size"], by_rate["dataset_size"]) == (60000, None)


FIXED = ["--sampling-rate", "0.05", "--steps", "40", "--delta", "1e-5", "--sampling", "fixed-size"]


@pytest.mark.parametrize(
    ("run", "target", "low", "high", "neighbours"),
    [(MNIST, 1.0, 1.1849, 1.1862, "add/remove"), (FIXED, 1.5, 2.6, 2.63, "replace-one")],  # 1.18497 is the least
)
def test_noise(capsys, run, target, low, high, neighbours):
    answer = ask(capsys, "noise", *run, "--epsilon", str(target))
    sigma = answer["noise_multiplier"]
    assert low <= sigma <= high
    assert 0.999 * target <= answer["epsilon"]["upper"] <= target == answer["target_epsilon"]
    out, _ = say(capsys, "noise", *run, "--epsilon", str(target))
    shown = re.match(r"noise multiplier (\S+); with it epsilon is at most (\S+) at delta", out)
    assert float(shown[1]) == pytest.approx(sigma, rel=1e-15)  # what a reader copies is what was computed with
    assert float(shown[2]) <= target
    assert answer["adjacency"] == neighbours and f"neighbours: {neighbours}" in out
    again = ask(capsys, "epsilon", *run, "--noise-multiplier", shown[1])
    assert again["epsilon"] == answer["epsilon"]


def test_what_costs_nothing_and_what_has_no_price(capsys):
    for change in (["--steps", "0"], ["--sampling-rate", "0"]):
        words = ["epsilon", *RUN, *change]
        answer = ask(capsys, *words)
        assert (answer["epsilon"]["lower"], answer["epsilon"]["upper"]) == pytest.approx((0.0, 0.0), abs=0)
        assert say(capsys, *words).out.startswith("epsilon is at most 0 at delta = 1e-05\n")
    silent = ask(capsys, "epsilon", *RUN, "--noise-multiplier", "0")
    assert silent["epsilon"]["upper"] == "infinity"
    assert say(capsys, "epsilon", *RUN, "--noise-multiplier", "0").out.startswith(
        "No epsilon is known to hold at delta = 1e-05\n"
    )


@pytest.mark.parametrize(
    ("n", "warned", "remarked"),
    [("9000", False, False), ("60000", False, True), ("100000", True, False), ("1e7", True, False)],
)
def test_delta_against_the_number_of_records(capsys, n, warned, remarked):
    quick = ["epsilon", "--sampling-rate", "1", "--noise-multiplier", "5", "--steps", "1", "--delta", "1e-5"]
    answer = ask(capsys, *quick, "--dataset-size", n)
    assert (len(answer["warnings"]), len(answer["remarks"])) == (int(warned), int(remarked))
    out, err = say(capsys, *quick, "--dataset-size", n)
    assert err.startswith("Warning: delta = 1e-05 is not below 1/n") if warned else err == ""
    assert ("\nremark:     delta = 1e-05 is close to 1/n" in out) == remarked
    if remarked:
        assert "probability n delta = 0.6" in out


def replaced(words, option, value):
    at = words.index(option)
    return [*words[: at + 1], value, *words[at + 2 :]]


MISTAKES = [
    ([], r"the following arguments are required: epsilon\|noise"),
    (["delta"], r"invalid choice: 'delta'"),
    (["epsilon"], r"arguments are required: --noise-multiplier, --steps, --delta"),
    (["epsilon", *RUN, "--sigma", "3"], r"unrecognized arguments: --sigma 3"),
    (["epsilon", *RUN[:-4], "--delta", "1e-5", "--epochs", "60"], r"unrecognized arguments: --epochs 60"),
    (["epsilon", *replaced(RUN, "--delta", "-1e-5")], r"--delta must be in \[0, 1\], got -1e-05"),
    (["epsilon", *RUN, "-3"], r"unrecognized arguments: -3"),
    (["epsilon", *replaced(RUN, "--steps", "-1e3")], r"--steps must be an integer >= 0, got -1000"),
    (["epsilon", *replaced(RUN, "--noise-multiplier", "-inf")], r"--noise-multiplier must be in \[0, inf\), got -inf"),
    (["epsilon", *RUN, "--sampling", "shuffled"], r"--sampling invalid choice: 'shuffled'"),
    (["epsilon", *RUN, "--batch-size", "5"], r"give --sampling-rate or --batch-size, not both"),
    (["epsilon", *RUN[2:]], r"--sampling-rate is missing \(or --batch-size with --dataset-size\)"),
    (["epsilon", *RUN[2:], "--batch-size", "5"], r"--batch-size needs --dataset-size"),
    (
        ["epsilon", *RUN[2:], "--batch-size", "150", "--dataset-size", "100"],
        r"--batch-size must be at most --dataset-size, got 150 and 100: the sampling rate .* cannot exceed 1",
    ),
    (["epsilon", *RUN[2:], "--batch-size=-5", "--dataset-size", "9"], r"--batch-size must be an integer >= 0, got -5"),
    (["epsilon", *RUN, "--dataset-size", "0"], r"--dataset-size must be an integer >= 1, got 0"),
    (["noise", *MNIST, "--epsilon", "0"], r"--epsilon must be in \(0, inf\), got 0\.0"),
    (["noise", *MNIST, "--epsilon", "nan"], r"--epsilon must be in \(0, inf\), got nan"),
    (["noise", *MNIST, "--epsilon", "1e-7", "--sampling", "fixed-size"], r"--epsilon must be in \[1e-06, 10000\]"),
    *((["epsilon", *replaced(RUN, "--sampling-rate", bad)], rf"--sampling-rate must be in \[0, 1\], got {shown}")
      for bad, shown in (("1.5", r"1\.5"), ("nan", "nan"), ("-0.5", r"-0\.5"))),
    *((["epsilon", *replaced(RUN, "--noise-multiplier", bad)], rf"--noise-multiplier must be in \[0, inf\), got {bad}")
      for bad in ("nan", "inf")),
    *((["epsilon", *replaced(RUN, "--delta", bad)], rf"--delta must be in \[0, 1\], got {bad}")
      for bad in ("1.5", "nan", "inf")),
    (["epsilon", *replaced(RUN, "--steps", "1.5")], r"--steps must be a whole number, got '1\.5'"),
    (["epsilon", *replaced(RUN, "--steps", "nan")], r"--steps must be a whole number, got 'nan'"),
    (["epsilon", *replaced(RUN, "--steps", "many")], r"--steps must be a number, got 'many'"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "message"), MISTAKES)
def test_a_mistake_gets_one_sentence(capsys, words, message):
    assert command_line.main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(rf"dpml: .*{message}.*\n", err)


def test_a_mistake_as_a_program_of_its_own():
    done = python("-m", "dpml", "epsilon", *RUN, "--delta", "2")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "dpml: --delta must be in [0, 1], got 2.0\n")


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (ValueError("sigma must be in [0, 7], got 8.0"), 2, "--noise-multiplier must be in [0, 7], got 8.0"),
        (KeyboardInterrupt(), 130, "interrupted before there was a result"),
    ],
)
def test_what_an_accountant_raises_is_one_sentence_about_the_options(capsys, monkeypatch, error, status, words):
    monkeypatch.setattr("dpml.accounting.pld.epsilon_bounds", mock.Mock(side_effect=error))
    assert command_line.main(["epsilon", *RUN]) == status
    assert capsys.readouterr().err == f"dpml: {words}\n"


def test_help_lists_every_option(capsys):
    for command, own in (("epsilon", "--noise-multiplier"), ("noise", "--epsilon")):
        with pytest.raises(SystemExit) as left:
            command_line.main([command, "--help"])
        assert left.value.code == 0
        out = capsys.readouterr().out
        shared = ["--steps", "--delta", "--sampling-rate", "--batch-size", "--dataset-size", "--sampling", "--json"]
        assert all(f"{option} " in out or f"{option}]" in out for option in [own, *shared])


def test_the_module_loads_nothing_before_it_is_asked():
    code = "import dpml.__main__, dpml.command_line, sys; print([m for m in ('numpy', 'scipy') if m in sys.modules])"
    done = python("-c", code)
    assert (done.returncode, done.stdout.strip()) == (0, "[]")
