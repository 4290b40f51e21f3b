"""Rules for all files of the repository: names, line ends, sizes, pins, notebooks."""

import ast
import doctest
import fnmatch
import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources import tree_of

ROOT = Path(__file__).resolve().parents[2]
TEXT = {".cff", ".css", ".html", ".ipynb", ".js", ".json", ".md", ".py", ".svg", ".toml", ".txt", ".yaml", ".yml"}
BUILT = ("_build/html", "_build/jupyter_execute")


def listed() -> list[str]:
    """The files that git tracks or would track; in a folder without git, all that .gitignore does not name."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names: list[str] = []
    if (ROOT / ".git").exists() and shutil.which("git"):
        names = subprocess.run(words, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    if not names:
        ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").split()]
        for path in (path.relative_to(ROOT) for path in ROOT.rglob("*")):
            if not any(fnmatch.fnmatch(part, pattern) for part in path.parts for pattern in ignored):
                names.append(path.as_posix())
    return sorted(name for name in names if (ROOT / name).is_file())


FILES = listed()
PYTHON = [name for name in FILES if name.endswith(".py")]
NOTEBOOKS = [name for name in FILES if name.endswith(".ipynb")]


def own_text() -> Iterator[tuple[str, str]]:
    """Name and text of each text file of ours; what others wrote lies in book/static/mathjax."""
    for name in FILES:
        path = ROOT / name
        if (path.suffix in TEXT or path.suffix == "") and not name.startswith("book/static/mathjax/"):
            yield name, path.read_text(encoding="utf-8")


def test_the_list_is_there_and_no_file_is_large() -> None:
    assert {"course.py", "pyproject.toml", "requirements.txt", "dpml/arguments.py"} <= set(FILES)
    assert NOTEBOOKS
    assert [name for name in FILES if (ROOT / name).stat().st_size > 8_000_000] == []


def faults_of_name(name: str) -> list[str]:
    """Why a path, with forward slashes, would not do on one of the systems."""
    faults = [f"the character {letter!r}" for letter in sorted(set(re.findall(r'[:?*<>|"\\\x00-\x1f\x7f]', name)))]
    if len(name) > 180:
        faults.append("longer than 180 characters")
    for part in name.split("/"):
        if part != part.strip(" ") or part.endswith("."):
            faults.append(f"a dot or blank at the end, or a blank in front: {part!r}")
        if re.fullmatch(r"(?i:con|prn|aux|nul|com\d|lpt\d)(\..*)?", part):
            faults.append(f"a name that Windows keeps for a device: {part}")
    return faults


@pytest.mark.parametrize(
    "name", ["a:b", "a?", "a/con.txt", "NUL", "aux/x", "a./b", "a /b", "a\\b", "x" * 181, "a\nb", "com1.py", "a/ b"]
)
def test_names_that_do_not_do(name: str) -> None:
    assert faults_of_name(name)


def test_names_do_on_every_system() -> None:
    built = [path for top in BUILT for path in (ROOT / top).rglob("*") if path.is_file()]
    names = FILES + [path.relative_to(ROOT).as_posix() for path in built]
    assert {name: faults_of_name(name) for name in names if faults_of_name(name)} == {}
    lowered: dict[str, str] = {}
    for name in names:
        assert lowered.setdefault(name.lower(), name) == name, f"{name} differs from another in case only"


# Put together from pieces, so that this file does not hold what it looks for.
MACHINE = [
    *(
        "/" + folder + "/"
        for folder in ("work", "root", "farm", "opt/pypi", "opt/wheels", "home/[a-z]+", "Users/[a-z]+")
    ),
    "/" + "tmp" + r"/\w",
    r"\.\./" + "shared",
    *("pypi" + r"\." + "org", "python" + "hosted", "npm" + r"js\.org", "debian" + r"\.org", r"download\." + "pytorch"),
]


def test_text_has_lf_one_at_its_end_no_place_of_one_machine_and_no_package_host() -> None:
    pattern = re.compile(r"(?<![\w.~*-])" + r"(?:" + "|".join(MACHINE) + ")")
    assert pattern.search("in " + "/" + "root" + "/x") and pattern.search("https://" + "pypi" + ".org")
    for name, text in own_text():
        assert b"\r" not in (ROOT / name).read_bytes(), name
        assert not text or (text.endswith("\n") and not text.endswith("\n\n") and text != "\n"), name
        assert (found := pattern.search(text)) is None, f"{name}: {found}"
    assert "* text=auto eol=lf" in (ROOT / ".gitattributes").read_text(encoding="utf-8")


def test_no_python_by_path_and_no_path_split_at_a_slash() -> None:
    """Both differ between systems."""
    pattern = re.compile("bin" + r"/python\b|str\((?:path|file|folder|ROOT)\w*\)" + r"""\.r?split\(["']/""")
    assert [name for name in PYTHON if pattern.search((ROOT / name).read_text(encoding="utf-8"))] == []


def test_text_files_are_opened_with_their_encoding() -> None:
    """Otherwise a notebook is read with the code page of the Windows user."""
    faults = []
    for name in PYTHON:
        for node in ast.walk(tree_of(ROOT / name)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
                continue
            called = getattr(node.func, "attr", getattr(node.func, "id", None))
            before = {"read_text": 0, "write_text": 1, "open": 9}.get(called)  # arguments before the encoding
            given = {keyword.arg for keyword in node.keywords}
            binary = called == "open" and re.search(r"\(.*'[rwax]b|^(tarfile|webbrowser)\.", ast.unparse(node))
            if before is not None and "encoding" not in given and len(node.args) <= before and not binary:
                faults.append(f"{name}, line {node.lineno}")
    # The stamp of course.py is a digest, plain ASCII.
    assert [fault for fault in faults if not fault.startswith("course.py")] == []


def test_every_script_prints_on_a_console_of_any_encoding() -> None:
    """By the first call of what it does as a program; course.py does the same without the package."""
    scripts = [name for name in PYTHON if name.startswith(("experiments/", "benchmarks/"))]
    ends = {
        name: (ROOT / name).read_text(encoding="utf-8").partition('if __name__ == "__main__":\n')[2] for name in scripts
    }
    programs = {name: re.findall(r"(?m)^    (\w+)\(", end)[:1] for name, end in ends.items() if end}
    assert len(programs) > 10
    assert {name for name, first in programs.items() if first != ["any_console"]} == set()


def requirements() -> tuple[dict[str, str], dict[str, str]]:
    """The direct and the transitive pins: name -> rest of the line."""
    sections: list[dict[str, str]] = []
    for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("# ---"):
            sections.append({})
        elif line and not line.startswith("#"):
            match = re.fullmatch(r"([A-Za-z0-9._-]+)(==[0-9][\w.]*(?: ; [\w.' =!<]+)?)", line)
            assert match, f"requirements.txt: not one exact version: {line}"
            sections[-1][re.sub(r"[-_.]+", "-", match[1]).lower()] = match[2]
    direct, transitive = sections
    return direct, transitive


def test_every_place_names_the_same_pythons() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = [line.split()[-1] for line in project["classifiers"] if "Python :: 3." in line]
    for name in ("README.md", "book/index.md", "course.py", "requirements.txt", ".ci/run"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert re.findall(r"Python (3\.\d+) to (3\.\d+)", text) == [(versions[0], versions[-1])], name
    matrix = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    assert f"python: {json.dumps(versions)}" in matrix
    assert project["requires-python"] == f">={versions[0]}"


def test_every_package_is_pinned_once_and_the_metadata_asks_for_no_other() -> None:
    direct, transitive = requirements()
    assert not set(direct) & set(transitive)
    assert {"jupyter-book", "sphinx", "nbval", "numpy", "pytest", "scipy", "setuptools", "torch"} <= set(direct)
    assert not [name for name in direct if " ; " in direct[name]], "a direct one is needed on every system"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = project["dependencies"] + [line for extra in project["optional-dependencies"].values() for line in extra]
    for line in wanted:
        if extra := re.fullmatch(r"dpml\[(\w+)\]", line):
            assert extra[1] in project["optional-dependencies"]
            continue
        name, minimum = line.split(">=")
        pinned = direct[name].removeprefix("==").split(".post")[0]
        assert [int(n) for n in pinned.split(".")] >= [int(n) for n in minimum.split(".")], f"{line}, pinned {pinned}"


def test_imports_are_pinned() -> None:
    """Each package that our code imports is a direct one, not one that happens to come along."""
    course, _ = requirements()
    lists = sorted((ROOT / "benchmarks").glob("requirements*.txt"))
    listed = "".join(path.read_text(encoding="utf-8") for path in lists)
    peers = re.findall(r"(?m)^([\w-]+)==", listed)
    ours = {"dpml", "tests", "course", "book", "experiments", "assignments", "benchmarks", "conftest"}
    ours |= {Path(name).stem for name in PYTHON}
    provided, missing = importlib.metadata.packages_distributions(), set()
    for name in PYTHON:
        direct = {*course, *peers} if name.startswith(("benchmarks/", "experiments/")) else {*course}
        for node in ast.walk(tree_of(ROOT / name)):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                modules = [node.module or ""]
            for module in (full.split(".")[0] for full in modules):
                packages = {re.sub(r"[-_.]+", "-", package).lower() for package in provided.get(module, [module])}
                if module not in sys.stdlib_module_names | ours and not packages & direct:
                    missing.add(f"{name}: {module}")
    assert missing == set()


def test_installed_packages_agree_with_each_other() -> None:
    done = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readme_names_what_is_there_and_its_examples_run() -> None:
    outcome = doctest.testfile(str(ROOT / "README.md"), module_relative=False, encoding="utf-8")
    assert outcome.failed == 0 and outcome.attempted >= 7
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w./]+(?:/|\.\w+))`", text)
    assert len(named) > 10
    made = {".venv", "work/"}  # by course.py
    assert [name for name in named if name not in made and not (ROOT / name).exists()] == []
    for word in re.findall(r"course\.py (\w+)", text):
        assert f"\npython3 course.py {word} " in (ROOT / "course.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_has_ids_its_kernel_and_no_outputs(name: str) -> None:
    content = json.loads((ROOT / name).read_text(encoding="utf-8"))
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    assert content["metadata"]["kernelspec"]["name"] == "python3"
    # What else an editor stores would change with every save.
    assert set(content["metadata"]) <= {"kernelspec", "language_info", "mystnb"}
    ids = [cell.get("id") for cell in content["cells"]]
    assert all(ids) and len(set(ids)) == len(ids)
    code = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
