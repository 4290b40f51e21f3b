"""A class, from the seed to the pages: right, half right, wrong and dishonest students, and files that are none."""

import csv
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from assignments import release, report
from assignments.__main__ import main
from assignments.answers import names_asked
from assignments.item import Argued, Graded

Gradebook = pytest.importorskip("nbgrader.api").Gradebook
ROOT = Path(__file__).resolve().parents[2]
SEED = "5d1c9a7e3b60f8421c0de97f3a2b4e68"
SHEET = release.drawn("promise", SEED)
GRADED = [item for item in SHEET.items if isinstance(item, Graded)]
WRITTEN = next(item for item in SHEET.items if isinstance(item, Argued))
FULL = sum(item.points for item in GRADED)
HONEST = sum(item.points for item in GRADED[:2])  # what the dishonest have solved


def course(*words: object, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "assignments", *map(str, words)]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, encoding="utf-8")


def solutions() -> dict[str, str]:
    return {item.name: item.solution for item in GRADED}


MINE = """
%matplotlib inline
print('hello')
import functools
def mine(value):
    if callable(value):
        return functools.wraps(value)(lambda *args, **kwargs: value(*args, **kwargs))
    return np.float64(value) if type(value) is float else value
"""


def otherwise() -> dict[str, str]:
    """Equivalent code for a notebook: functions wrapped in others, numbers as NumPy's."""
    texts = {}
    for item in GRADED:
        wrapped = [f"{name} = mine({name})" for name in names_asked(item.stub)]
        texts[item.name] = "\n".join([item.solution, MINE, *wrapped])
    return texts


def half() -> dict[str, str]:
    wrong = [list(item.wrong.values())[-1] for item in GRADED]
    return {item.name: item.solution if k % 2 else wrong[k] for k, item in enumerate(GRADED)}


def dishonest(*attacks: str) -> dict[str, str]:
    """Two answers solved, and an attack in the cell of each other one, with a name for each thing that is asked."""
    texts = solutions()
    for item, attack in zip(GRADED[2:], attacks, strict=True):
        asked = [
            f"def {name}(*args, **kwargs):\n    return helper()" if "def " in item.stub else f"{name} = helper()"
            for name in names_asked(item.stub)
        ]
        texts[item.name] = "\n".join(["def helper():\n    return 1.0", attack, *asked])
    return texts


# What the notices name, and a cell that has it. What such a cell could do to a verdict, `test_grader` tries.
ATTACKS = {
    "setattr": "number = function = law = form = print\nfor name in checks.__all__:\n    setattr(checks, name, print)",
    "notebooks": "import pathlib\nfound = [*pathlib.Path('..').rglob('notebooks/exercises/*.ipynb')]",
    "_getframe": "import sys\ndef helper():\n    return sys._getframe(1).f_locals.get('expected', 1.0)",
    "get_ipython": "get_ipython().input_transformers_post.append(lambda lines: [])",
    "dpml.classroom": "import sys\nsys.modules['dpml.classroom.checks'] = None",
}
CHECKS = [f"{item.name}-check" for item in GRADED]
EDITED = ("seldom needs (✓)", f"locked cells that are missing: {CHECKS[0]}\n", f"points made 100: {CHECKS[1]}, ")
UNMARKED = "cells without nbgrader's metadata"
# Who: the answers, what is done to the cells, the points, words of the notices.
CLASS: dict[str, tuple[dict[str, str], str, float, tuple[str, ...]]] = {
    "ann": (solutions(), "", FULL, ()),
    "bob": (otherwise(), "", FULL, ()),
    "half": (half(), "", sum(item.points for item in GRADED[1::2]), ()),
    "empty": ({}, "", 0, ()),
    "bare": (solutions(), "strips", FULL, (f"{UNMARKED}, known by ids or places: preamble, ",)),
    "colab": (solutions(), "moves the ids", FULL, (UNMARKED,)),
    "nameless": (solutions(), "drops the ids", FULL, (UNMARKED,)),
    "mallory": (dishonest(*ATTACKS.values()), "", HONEST, tuple(ATTACKS)),
    "edits": (dishonest(*["print('✓ right')"] * 5), "edits", HONEST, EDITED),
    "exits": (
        solutions() | {GRADED[2].name: "import os\nos._exit(0)"},
        "",
        FULL - GRADED[2].points,
        ("ended its process",),
    ),
}


def handed_in(notebook: dict[str, Any], answers: dict[str, str], deed: str) -> dict[str, Any]:
    notebook = json.loads(json.dumps(notebook))
    for cell in notebook["cells"]:
        nbgrader = cell["metadata"]["nbgrader"]
        cell["source"] = answers.get(nbgrader["grade_id"], cell["source"])
        if deed == "edits" and nbgrader["grade_id"] in CHECKS:
            cell["source"] = "print('✓')"
            nbgrader["points"] = 100
    if deed == "edits":
        notebook["cells"] = [c for c in notebook["cells"] if c["metadata"]["nbgrader"]["grade_id"] != CHECKS[0]]
    if deed == "strips":  # as some editors do
        for cell in notebook["cells"]:
            cell["metadata"] = {}
        notebook["cells"].append({"cell_type": "markdown", "id": "note", "metadata": {}, "source": "my notes"})
    if deed.endswith("the ids"):
        notebook["nbformat_minor"] = 0
        for cell in notebook["cells"]:
            name = cell.pop("id")
            cell["metadata"] = {"id": name} if deed == "moves the ids" else {}
    if not deed and answers:
        argument = next(c for c in notebook["cells"] if c["metadata"]["nbgrader"]["grade_id"] == WRITTEN.name)
        argument["source"] = "It is not private, since the scale tells: $a<b$. <script>alert(1)</script>"
    return notebook


def whole_round(place: Path) -> Path:
    """The course folder after it."""
    (place / "seed").write_text(f"dpml seed\n{SEED}\n", encoding="utf-8")
    made = course("--seed", "seed", "--chapters", "promise", "course", "--from", place)
    assert made.returncode == 0, made.stdout + made.stderr
    given = json.loads((place / "course" / "release" / "promise" / "promise.ipynb").read_text(encoding="utf-8"))
    with zipfile.ZipFile(place / "download.zip", "w") as archive:
        for number, (who, (answers, deed, _, _)) in enumerate(CLASS.items()):
            text = json.dumps(handed_in(given, answers, deed)).encode("utf-8-sig" if who == "bob" else "utf-8")
            archive.writestr(f"{who}_{100 + number}_assignsubmission_file/promise.ipynb", text)
        archive.writestr("nothing_200_assignsubmission_file/promise.ipynb", "")
        archive.writestr("essay_201_assignsubmission_file/essay.ipynb", "I could not open the file.")
        archive.writestr(
            "other_202_assignsubmission_file/promise.ipynb", (ROOT / "notebooks/01_promise.ipynb").read_bytes()
        )
        archive.writestr("../../outside.ipynb", json.dumps(given))
    for words in (("--collect", "download.zip"), ("--grade",), ("--report",)):
        if words == ("--report",):  # before it, a person marks in the Formgrader
            with Gradebook(f"sqlite:///{place}/course/gradebook.db") as book:
                grade = book.find_grade(WRITTEN.name, "promise", "promise", "ann_100")
                grade.manual_score, grade.needs_manual_grade = 3, False
                book.db.commit()
        ran = course("--from", place, *words, "course")
        assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout + ran.stderr
    return place / "course"


def table(course: Path) -> dict[str, dict[str, str]]:
    with (course / "reports" / "promise.csv").open(encoding="utf-8-sig", newline="") as file:
        return {row["Student"].rpartition("_")[0]: row for row in csv.DictReader(file)}


def own(text: str, who: str) -> str:
    return "\n".join(line for line in text.splitlines() if re.match(rf"- {who}_\d+:", line))


@pytest.mark.filterwarnings("ignore")  # of nbgrader's libraries
def test_a_class_from_the_seed_to_the_pages(tmp_path: Path) -> None:
    """One test, since the round is long: whoever runs tests in parallel would run it in each process."""
    done = whole_round(tmp_path)
    for who in CLASS:
        each_gets_the_points_of_honest_work_and_is_noticed(done, who)
    the_table_suits_a_learning_platform(done)
    the_notices_name_files_and_students(done)
    the_pages_show_verdicts_and_no_hidden_test(done)
    what_is_released_tells_nothing(done)
    grading_again_takes_only_what_is_new(done)
    a_setting_that_does_not_work_is_told(done)


def each_gets_the_points_of_honest_work_and_is_noticed(done: Path, who: str) -> None:
    _, _, points, notices = CLASS[who]
    row = table(done)[who]
    got = {item.name: float(row[item.name]) for item in GRADED}
    assert sum(got.values()) == points, (who, got)
    assert set(got.values()) <= {0.0, *(float(item.points) for item in GRADED)}
    told = own((done / "reports" / "notices.md").read_text(encoding="utf-8"), who)
    assert all(words in f"{told}\n" for words in notices) and bool(told) == bool(notices), (who, told)


def the_table_suits_a_learning_platform(done: Path) -> None:
    row = table(done)["half"]
    assert row["Identifier"] == "Participant 102" and row["Sheet"] == "promise"
    assert float(row["Maximum grade"]) == FULL + WRITTEN.points
    assert row[WRITTEN.name] == "" and f"{WRITTEN.name} not marked yet/{WRITTEN.points}" in row["Feedback comments"]
    assert row["Feedback comments"].startswith(f"{GRADED[0].name} 0/{GRADED[0].points}: Not yet: ")
    assert table(done)["empty"][WRITTEN.name] == "0"
    ann = table(done)["ann"]
    assert ann[WRITTEN.name] == "3" and float(ann["Grade"]) == FULL + 3
    assert ann["Feedback comments"] == f"{WRITTEN.name} 3/{WRITTEN.points}"


def the_notices_name_files_and_students(done: Path) -> None:
    text = (done / "reports" / "notices.md").read_text(encoding="utf-8")
    assert "nothing_200_assignsubmission_file/promise.ipynb: the file is empty." in text
    assert "essay_201_assignsubmission_file/essay.ipynb: this is no notebook." in text
    assert "other_202_assignsubmission_file/promise.ipynb: this notebook is none of the sheets promise." in text
    assert f"{WRITTEN.name} is to be marked by hand for bob_101" in text
    assert re.search(r"- ann_100, .*exits_\d+, .*: the same text in private-sum\n", text)
    assert not list(done.parent.rglob("outside.ipynb"))


def the_pages_show_verdicts_and_no_hidden_test(done: Path) -> None:
    hidden = {line.strip() for item in GRADED for line in item.hidden.splitlines() if len(line.strip()) > 30}
    hidden -= {line.strip() for item in GRADED for line in (item.visible + item.question).splitlines()}
    for who in ("ann", "half", "exits", "edits"):
        [page] = done.glob(f"feedback/{who}_*/promise/promise.html")
        text = page.read_text(encoding="utf-8")
        plain = re.sub(r"<[^>]+>", "", text).replace("&#39;", "'").replace("&quot;", '"').replace("&gt;", ">")
        assert "HIDDEN TESTS" not in plain
        assert "<script>alert" not in text
        own = {line.strip() for answer in CLASS[who][0].values() for line in answer.splitlines()}
        assert [line for line in hidden - own if line in plain] == []
        assert all(len(line) <= 120 for line in re.findall("Not yet: .*|✓ .*", plain))
        assert ("Not yet: " in plain) is (who != "ann")
    assert "known mistake" in next(done.glob("feedback/half_*/promise/promise.html")).read_text(encoding="utf-8")


def what_is_released_tells_nothing(done: Path) -> None:
    files = sorted(path.relative_to(done).as_posix() for path in (done / "release").rglob("*") if path.is_file())
    assert files == ["release/promise/promise.ipynb"]
    notebook = json.loads((done / files[0]).read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
    assert release.leaks(notebook, SHEET, SEED) == []
    # The scan finds each kind of secret.
    for secret in (SEED, GRADED[0].solution, GRADED[0].hidden, WRITTEN.rubric, WRITTEN.answer):
        notebook["cells"][0]["metadata"]["nbgrader"]["note"] = secret
        assert release.leaks(notebook, SHEET, SEED) != []
    del notebook["cells"][0]["metadata"]["nbgrader"]["note"]
    code = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    code["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "1"}]
    assert release.leaks(notebook, SHEET) != []
    locked = [cell for cell in notebook["cells"] if cell["metadata"]["nbgrader"]["locked"]]
    assert {cell["metadata"]["editable"] for cell in locked} == {False}


def grading_again_takes_only_what_is_new(done: Path) -> None:
    assert course("--grade", done).stdout == ""
    again = course("--collect", done.parent / "download.zip", done)
    assert again.stdout.startswith("0 new submissions")


def a_setting_that_does_not_work_is_told(done: Path) -> None:
    with (done / "nbgrader_config.py").open("a", encoding="utf-8") as settings:
        settings.write("c.Examine.command = [sys.executable, '-c', 'raise SystemExit(7)']\n")
    [page] = done.glob("autograded/ann_*/promise/promise.ipynb")
    page.unlink()
    ran = course("--grade", done)
    assert "ann_100: RuntimeError: the examination failed" in ran.stdout and "(exit status 7)" in ran.stdout
    assert ran.stdout.count("\n") == 1


SHORT, ORDERED = ("", "1234", "zz" * 20), ("0" * 64, "0123456789abcdef" * 2)
BROKEN = [(seed, "holds no seed of at least 128 bits") for seed in SHORT]
BROKEN += [*((seed, "is not random") for seed in ORDERED), (None, "cannot be read as a seed")]


@pytest.mark.parametrize(("seed", "why"), BROKEN)
def test_a_broken_seed_is_refused(tmp_path: Path, seed: str | None, why: str) -> None:
    file = tmp_path / "seed"
    if seed is not None:
        file.write_text(seed, encoding="utf-8")
    with pytest.raises(SystemExit, match=why):
        release.release(file, tmp_path / "course", ["promise"])
    assert not (tmp_path / "course").exists()


def test_what_is_there_stays(tmp_path: Path) -> None:
    file = tmp_path / "seed"
    release.new_seed(file)
    text = file.read_text(encoding="utf-8")
    assert len(release.read_seed(file)) == 64
    with pytest.raises(SystemExit, match="never overwritten"):
        release.new_seed(file)
    assert file.read_text(encoding="utf-8") == text
    (tmp_path / "course").mkdir()
    (tmp_path / "course" / "thesis.txt").write_text("ten years", encoding="utf-8")
    with pytest.raises(SystemExit, match="is there and not empty: nothing was changed"):
        release.release(file, tmp_path / "course", ["promise"])
    assert [path.name for path in (tmp_path / "course").iterdir()] == ["thesis.txt"]
    for inside in (lambda: release.new_seed(ROOT / "seed"), lambda: release.release(file, ROOT / "graded", [])):
        with pytest.raises(SystemExit, match="must lie outside the folder of the course"):
            inside()
    with pytest.raises(SystemExit, match="There is no sheet for alchemy"):
        release.release(file, tmp_path / "new", ["alchemy"])
    for command in (report.grade, report.report, lambda folder: report.collect(folder, folder)):
        with pytest.raises(SystemExit, match="is no course folder"):
            command(tmp_path)


@pytest.mark.parametrize(
    "command", [("--new-seed", "x/seed"), ("--seed", "seed", "x/course"), ("--seed", "seed", "n" * 250)]
)
def test_a_place_that_cannot_be_written_is_told_in_one_sentence(tmp_path, monkeypatch, command) -> None:
    (tmp_path / "x").write_text("a file", encoding="utf-8")
    release.new_seed(tmp_path / "seed")
    monkeypatch.setattr(sys, "argv", ["assignments", "--from", str(tmp_path), *command])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"^Nothing was done, or not all of it: .*\.$"):
        main()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seed", "x"]


def test_settings_that_are_broken_are_told(tmp_path: Path) -> None:
    (tmp_path / "release").mkdir()
    (tmp_path / "nbgrader_config.py").write_text("c.Examine.limit = sixty", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"The settings in .*nbgrader_config.py fail: name '\w+' is not defined\."):
        report.grade(tmp_path)


@pytest.mark.parametrize(
    ("path", "student"),
    [
        ("Ann Lee_1234_assignsubmission_file_/promise.ipynb", "Ann-Lee_1234"),
        ("Ann Lee_1234_assignsubmission_file_promise.ipynb", "Ann-Lee_1234"),
        ("download/Ann Lee_1234_assignsubmission_file/sheet/promise.ipynb", "Ann-Lee_1234"),
        ("leeann_LATE_1234_98765_promise-1.ipynb", "leeann-1234"),
        ("leeann_1234_98765_promise.ipynb", "leeann-1234"),
        ("ann.ipynb", "ann"),
        ("ann/promise.ipynb", "ann"),
        ("group_12.ipynb", "group-12"),
        ("=cmd|'calc'!A0.ipynb", "cmd-calc-A0"),
        ("Ann,\n=1+1_12_assignsubmission_file/promise.ipynb", "Ann-1-1_12"),
        ("Zoe\u0308_12_assignsubmission_file/promise.ipynb", "Zo\u00eb_12"),
        ("語" * 200 + "_12_assignsubmission_file/promise.ipynb", "語" * 57 + "_12"),
        ("../../etc/promise.ipynb", "nameless"),
    ],
)
def test_who_handed_in_is_read_from_the_name(path: str, student: str) -> None:
    assert report.student_of(path) == student


def test_a_folder_may_hold_zips(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "ann.zip", "w") as archive:
        archive.writestr("promise.ipynb", "one")
        archive.writestr("big.ipynb", b" " * report.LARGEST)
        archive.writestr("damaged.ipynb", b"0123456789")
    whole = (tmp_path / "ann.zip").read_bytes()
    (tmp_path / "ann.zip").write_bytes(whole.replace(b"0123456789", b"9876543210"))
    (tmp_path / "bob").mkdir()
    (tmp_path / "bob" / "promise.ipynb").write_bytes(b"two")
    (tmp_path / "bob" / "big.ipynb").write_bytes(b" " * report.LARGEST)
    (tmp_path / "bob" / "gone.ipynb").symlink_to("nowhere")
    (tmp_path / "broken.zip").write_bytes(b"three")
    large = "it has more than 32 MB; without the outputs, which are not used, it is small"
    assert list(report.files(tmp_path)) == [
        ("ann/promise.ipynb", b"one"),
        ("ann/big.ipynb", large),
        ("ann/damaged.ipynb", "it cannot be read (Bad CRC-32 for file 'damaged.ipynb')"),
        ("bob/big.ipynb", large),
        ("bob/promise.ipynb", b"two"),
        ("broken/broken.zip", "this zip cannot be read"),
    ]
