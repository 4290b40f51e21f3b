"""The commands of the course: what they refuse, when they make the environment, when they drop outputs."""

import ast
import contextlib
import errno
import importlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock
from urllib.request import urlopen

import nbformat
import pytest
from jupyter_cache import get_cache

from book import runtime
from tests.golden import golden

ROOT = Path(__file__).resolve().parents[2]
SOURCE = (ROOT / "course.py").read_text(encoding="utf-8")


@pytest.fixture
def course():
    """course.py as a module, loaded anew for each test."""
    return importlib.reload(importlib.import_module("course"))


@pytest.fixture
def house(tmp_path):
    """A folder with the files that an environment and a build are made from."""
    (tmp_path / "requirements.txt").write_text("numpy==2.4.6\n", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    (tmp_path / "dpml" / "__pycache__").mkdir(parents=True)
    (tmp_path / "dpml" / "constants.py").write_text("VALUE = 0.5\n", encoding="utf-8")
    return tmp_path


def test_any_python_can_read_it_and_has_what_it_imports():
    assert len(SOURCE.splitlines()) <= 340
    tree = ast.parse(SOURCE, feature_version=(3, 7))
    imports = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    imports += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert "pathlib" in imports
    assert {name.split(".")[0] for name in imports} <= sys.stdlib_module_names


# ---- words ----


@pytest.mark.parametrize(
    ("words", "status"),
    [([], 0), (["--help"], 0), (["buidl"], 2), (["site", "--sevre"], 2), (["site", "--serve", "x"], 2)],
)
def test_usage(course, words, status):
    done = subprocess.run([sys.executable, ROOT / "course.py", *words], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (status, "")
    assert re.findall(r"^python3 course.py (\w+)", done.stdout, re.MULTILINE) == [*course.COMMANDS]


def refused(course, monkeypatch, version):
    """What is said to a Python that does not fit."""
    monkeypatch.setattr(course, "sys", SimpleNamespace(version_info=version, exit=sys.exit))
    monkeypatch.setattr(course, "prepare", lambda *_: pytest.fail("the environment was made"))
    with pytest.raises(SystemExit) as stopped:
        course.main(["site", "--serve"])
    return str(stopped.value)


@pytest.mark.parametrize("version", [(3, 8, 18), (3, 10, 0), (3, 15, 1), (4, 0, 0)])
def test_a_python_that_does_not_fit(course, monkeypatch, version):
    monkeypatch.setenv("PATH", "")
    said = "The course needs Python 3.11 to 3.14, not {}.{}.{}".format(*version)
    why = r": its [\w, ]+ have no wheel for 3\.15\." if version > (3, 15) else r"\."
    assert re.fullmatch(
        rf"{re.escape(said)}{why} None is found here: install one\.", refused(course, monkeypatch, version)
    )


UV = """cpython-3.15.0a1-linux-x86_64-gnu    /u/3.15/python3.15
cpython-3.13.7+freethreaded-linux-x86_64-gnu    /u/3.13t/python3.13t
cpython-3.12.11-linux-x86_64-gnu     /u/my pythons/python3.12 -> python
pypy-3.11.13-linux-x86_64-gnu        /u/pypy/python3.11
"""
# The launcher's list, in its older and its newer form.
PY = " -V:3.15 *        Python 3.15 (64-bit)\n -V:3.13-32       Python 3.13 (32-bit)\n -V:3.12          Python 3.12"


@pytest.mark.skipif(os.name == "nt", reason="a program here is a script of a Unix shell")
def test_a_python_that_fits_and_is_installed_is_named_with_its_call(course, monkeypatch, tmp_path):
    def program(name, text, status=0):
        (tmp_path / name).write_text(f"#!/bin/sh\nprintf '%s\\n' '{text}'\nexit {status}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path))
    program("python3.14", "pyenv: python3.14: command not found", status=127)
    program("python3.10", "1")
    for name, text, system, call in (
        ("uv", UV, "posix", '"/u/my pythons/python3.12"'),
        ("python3.11", "1", "posix", "python3.11"),
        ("python3.13", "1", "posix", "python3.13"),
        ("py", PY, "posix", "python3.13"),
        ("py", PY, "nt", "py -3.12"),
    ):
        program(name, text)
        monkeypatch.setattr(course, "os", SimpleNamespace(name=system))
        assert refused(course, monkeypatch, (3, 10, 4)).endswith(f"4. Type  {call} course.py site --serve")


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 12, 1), (3, 13, 9), (3, 14, 0)])
def test_a_python_that_fits(course, monkeypatch, version):
    monkeypatch.setattr(course, "sys", SimpleNamespace(version_info=version, exit=sys.exit, stdout=sys.stdout))
    made = []
    monkeypatch.setattr(course, "prepare", lambda *given: made.append(given))
    monkeypatch.setitem(course.COMMANDS, "lab", lambda root, *arguments: len(arguments))
    assert course.main(["lab", "--no-browser"]) == 1
    assert course.main(["lab", "--torch-index", "ADDRESS", "--no-browser"]) == 1
    assert course.main(["--torch-index", "ADDRESS", "lab"]) == 0
    assert made == [(ROOT, ""), (ROOT, "ADDRESS"), (ROOT, "ADDRESS")]


# ---- one sentence for what went wrong ----


@pytest.mark.parametrize("row", golden("pip_says"), ids=lambda row: row["sentence"])
def test_one_sentence(course, row):
    said = course.explain("\n".join(row["output"]))
    assert row["sentence"] in said
    assert "\n" not in said


def test_what_pip_prints_without_a_network(course):
    """A port of this machine that nobody listens to stands for the missing network."""
    pip = ["-m", "pip", "install", "--dry-run", "--no-cache-dir", "--retries", "1", "--isolated"]
    words = [*pip, "no-such-package-of-dpml", "--index-url", "http://127.0.0.1:9/simple"]
    status, output = course.run(ROOT, *words, python=sys.executable, show="$^")
    assert status != 0
    assert course.explain(output).startswith("pip cannot reach the package index")


HOSTILE = """[global]
user = true
target = {0}
prefix = {0}
dry-run = true
quiet = 2
require-virtualenv = true
index-url = http://127.0.0.1:9/simple
[install]
extra-index-url =
    http://127.0.0.1:8/one
    http://127.0.0.1:8/two
"""


def test_of_pips_settings_only_the_index_holds(course, house, monkeypatch):
    """A wheel goes into the environment of the folder, whatever pip is told elsewhere, and nowhere else."""
    (house / "pip.conf").write_text(HOSTILE.format(house / "elsewhere"), encoding="utf-8")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", house / ".venv"], check=True)
    monkeypatch.setitem(course.run.__kwdefaults__, "python", sys.executable)
    hostile = {"CONFIG_FILE": house / "pip.conf", "TARGET": house / "elsewhere", "USER": 1, "NO_DEPS": 0, "RETRIES": 0}
    for name, value in hostile.items():
        monkeypatch.setenv(f"PIP_{name}", str(value))
    settings = course.index_settings(house)
    assert settings.pop("PIP_CONFIG_FILE") == os.devnull
    assert settings["PIP_INDEX_URL"] == "http://127.0.0.1:9/simple" and settings["PIP_RETRIES"] == "0"
    assert settings["PIP_EXTRA_INDEX_URL"].split() == ["http://127.0.0.1:8/one", "http://127.0.0.1:8/two"]
    assert not {"PIP_TARGET", "PIP_USER", "PIP_NO_DEPS"} & set(settings)
    words = ["-m", "pip", "--python", house / course.PYTHON, "install", "--no-index", wheel(house, "tiny-1")]
    assert course.run(house, *words, pip=settings | {"PIP_CONFIG_FILE": os.devnull})[0] == 0
    assert [*house.glob(".venv/**/tiny.py")] and not (house / "elsewhere").exists()


@pytest.mark.parametrize(
    ("system", "settings", "address", "needs"),
    [
        ("linux", {"PIP_PROXY": "x"}, "", 5.5),
        ("linux", {"PIP_FIND_LINKS": "x"}, "", 2),
        ("linux", {"PIP_INDEX_URL": "x"}, "", 2),
        ("linux", {}, "x", 2),
        ("darwin", {}, "", 2),
        ("win32", {}, "", 2),
    ],
)
def test_no_more_disk_is_asked_for_than_is_filled(course, monkeypatch, capsys, system, settings, address, needs):
    """On Linux pip takes the build for NVIDIA cards, unless an index of the reader's may hold another one."""
    monkeypatch.setattr(course, "sys", SimpleNamespace(platform=system, exit=sys.exit))
    monkeypatch.setattr(course.platform, "machine", lambda: "x86_64")
    free = [needs * 1e9]
    monkeypatch.setattr(course.shutil, "disk_usage", lambda path: SimpleNamespace(free=free[0]))
    course.check_disk(ROOT, settings, address)
    said = capsys.readouterr().out
    assert said.startswith(f"This takes {needs} GB")
    free[0] -= 1e8
    with pytest.raises(SystemExit) as stopped:
        course.check_disk(ROOT, settings, address)
    for text in (said, str(stopped.value)):
        assert ("NVIDIA" in text) == ("--torch-index ADDRESS" in text) == (needs == 5.5)


@pytest.mark.parametrize(
    ("query", "most"),
    [(Mock(return_value=(0, 4)), 67), (Mock(side_effect=FileNotFoundError), 67), (Mock(return_value=(1, 4)), 999)],
    ids=["off", "unknown", "on"],
)
def test_a_path_that_windows_would_cut_is_refused(course, monkeypatch, query, most):
    """With its longest file in it, a path has at most 259 characters there, unless the registry says otherwise."""
    registry = SimpleNamespace(HKEY_LOCAL_MACHINE=0, OpenKey=lambda *_: contextlib.nullcontext(), QueryValueEx=query)
    monkeypatch.setitem(sys.modules, "winreg", registry)
    course.check_path("C:" + "x" * 998)
    monkeypatch.setattr(course, "os", SimpleNamespace(name="nt"))
    course.check_path("C:" + "x" * (most - 2))
    if most == 67:
        with pytest.raises(
            SystemExit, match=r"has 68 characters, .* leave it 67 .*: move it to .* or turn on long paths"
        ):
            course.check_path("C:" + "x" * 66)


@pytest.mark.parametrize(
    ("fault", "words"),
    [(OSError(errno.ENOSPC, "No space left on device"), "The disk is full"), (KeyboardInterrupt(), "Stopped: Ctrl+C")],
)
def test_a_full_disk_and_ctrl_c_are_sentences_too(course, monkeypatch, fault, words):
    monkeypatch.setattr(course, "prepare", Mock(side_effect=fault))
    with pytest.raises(SystemExit, match=re.escape(words)):
        course.main(["lab"])


# ---- the environment ----


VENV, PINS, OWN = {"--clear", ".venv"}, {"-r", "requirements.txt"}, {"--no-deps", "--no-build-isolation", "-e"}


@pytest.mark.parametrize(
    ("free", "failing", "said", "steps"),
    [
        (1.04e9, "", r"The course needs 2 GB of free disk, and there are 1\.0 GB\.", [VENV]),
        (9e9, "-r", "Stopped: the reason", [VENV, PINS]),
        (9e9, "", "", [VENV, PINS, OWN, {"import torch"}]),
    ],
)
def test_install_stops_at_the_first_step_that_fails(course, house, monkeypatch, free, failing, said, steps):
    """It builds without the network."""
    ran = []

    def run(root, *words, **options):
        ran.append({*words})
        (root / ".venv").mkdir(exist_ok=True)
        return int(failing in words), "ERROR: the reason"

    monkeypatch.setattr(course, "run", run)
    monkeypatch.setattr(course, "index_settings", lambda root: {"PIP_INDEX_URL": "x"})
    monkeypatch.setattr(course.shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    with pytest.raises(SystemExit, match=f"^{said}$") if said else contextlib.nullcontext():
        course.install(house, "")
    assert all(wanted <= words for wanted, words in zip(steps, ran, strict=True))


def wheel(folder, name):
    """An installable package with one empty module."""
    file = folder / f"{name}-py3-none-any.whl"
    runtime.pack(file, [(f"{name.partition('-')[0]}.py", b""), *runtime.described(file.name)])
    return file


def test_pytorch_comes_from_the_address_and_stays(course, house, monkeypatch):
    """With the real pip: the small build of one index, although the other has a later one, now and for later pins."""
    wheels = {"small": ["torch-2.13.0+cpu", "torch-2.13.1+cpu"], "other": ["torch-2.13.0+z", "numpy-2.4.6"]}
    for index, names in wheels.items():
        for name in names:
            folder = house / index / name.partition("-")[0]
            folder.mkdir(parents=True, exist_ok=True)
            wheel(folder, name)
            links = [f'<a href="{path.name.replace("+", "%2B")}">x</a>' for path in folder.glob("*.whl")]
            (folder / "index.html").write_text("".join(links), encoding="utf-8")
    small, other = ((house / index).as_uri() for index in wheels)
    settings = {"PIP_INDEX_URL": other, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1"}
    run, made = course.run, Mock(side_effect=course.install)

    def quick(root, *words, **rest):
        """An environment needs no pip of its own where this one can serve it, and the package is not built."""
        if words[1] == "venv":
            return run(root, *words, "--without-pip", **rest)
        if words[1] != "pip":
            return run(root, *words, **rest)
        pip = [*words[:2], "--python", str(root / course.PYTHON), *words[2:]]
        return (0, "") if "-e" in words else run(root, *pip, **rest, python=sys.executable)

    for name, value in (("run", quick), ("install", made), ("PROBE", "import torch")):
        monkeypatch.setattr(course, name, value)
    monkeypatch.setattr(course, "index_settings", lambda root: settings)

    def versions(pin, *address):
        (house / "requirements.txt").write_text(f"numpy==2.4.6\ntorch=={pin}\n", encoding="utf-8")
        course.prepare(house, *address)
        found = sorted(path.name for path in (house / ".venv").glob("**/site-packages/[nt]*.dist-info"))
        return [name.removesuffix(".dist-info").split("-")[1] for name in found]

    for address in ([small], [small], []):
        assert versions("2.13.0", *address) == ["2.4.6", "2.13.0+cpu"]
    assert made.call_count == 1
    assert versions("2.13.1") == ["2.4.6", "2.13.1+cpu"]
    with pytest.raises(SystemExit, match=rf"^Stopped: .*torch==2.14.0 \(PyTorch is taken from {re.escape(small)}\)$"):
        versions("2.14.0")
    assert versions("2.13.0") == ["2.4.6", "2.13.0+cpu"], "what failed is forgotten, not the address"
    assert versions("2.13.0", other) == ["2.4.6", "2.13.0+z"]


SOUND = "import sys; assert sys.prefix != sys.base_prefix"


@pytest.fixture
def made(course, monkeypatch):
    """The folders that `prepare` made an environment in, which is this Python, linked."""
    found = []

    def install(root, torch_index):
        found.append(root)
        shutil.rmtree(root / ".venv", ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", root / ".venv"], check=True)
        course.PROBE = SOUND

    monkeypatch.setattr(course, "PROBE", SOUND)
    monkeypatch.setattr(course, "install", install)
    return found


@pytest.mark.parametrize(
    "harm",
    [
        lambda course, house: (house / ".venv" / "course-stamp").unlink(),
        lambda course, house: (house / "requirements.txt").write_text("numpy==2.4.7\n", encoding="utf-8"),
        lambda course, house: (house / "pyproject.toml").write_text("[project]\nname = 'x'\n", encoding="utf-8"),
        lambda course, house: (house / ".venv" / "pyvenv.cfg").unlink(),
        lambda course, house: shutil.rmtree(house / course.PYTHON.parent),
        lambda course, house: setattr(course, "sys", SimpleNamespace(**{**vars(sys), "version_info": (3, 99, 0)})),
        lambda course, house: setattr(course, "PROBE", "import a_package_that_is_not_there"),
        lambda course, house: house.rename(house.with_name("new")),
    ],
    ids=["unfinished", "other pins", "other metadata", "damaged", "no Python", "another Python", "no package", "moved"],
)
def test_an_environment_is_made_once_and_again_when_harmed_or_moved(course, house, made, harm):
    course.prepare(house)
    course.prepare(house)
    assert made == [house]
    found = harm(course, house)
    new = found if isinstance(found, Path) else house
    course.prepare(new)
    course.prepare(new)
    assert made == [house, new]


def test_half_made(course, house, monkeypatch):
    (house / ".venv").mkdir()
    monkeypatch.setattr(course, "install", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        course.prepare(house)
    assert not (house / ".venv" / "course-stamp").exists()


def test_does_not_remove_the_python_that_runs_it(course, house, made, monkeypatch):
    monkeypatch.setattr(course.sys, "prefix", str(house / ".venv"))
    with pytest.raises(SystemExit, match="deactivate"):
        course.prepare(house)
    assert made == []


def test_the_probe_fits_the_real_environment(course):
    """It passes where the course runs, and fails in a Python that has no packages."""
    for name in ("dpml", "torch"):
        if not any(importlib.metadata.distributions(name=name)):
            pytest.skip(f"{name} is not installed here, so this is not an environment of course.py")
    assert subprocess.run([sys.executable, "-I", "-c", course.PROBE]).returncode == 0
    assert subprocess.run([sys.executable, "-I", "-S", "-c", course.PROBE], capture_output=True).returncode != 0


# ---- outputs of the last build ----


PACKAGE = ("dpml/new.py", "dpml/classroom/explorer.js", "dpml/datasets/x/x.npz", "dpml/datasets/recorded/accuracy.json")
OTHERS = ("dpml/__pycache__/constants.cpython-311.pyc", "dpml/.DS_Store", "notebooks/01.ipynb", "tests/test_x.py")


@pytest.mark.parametrize("name", [*PACKAGE, "requirements.txt", *OTHERS])
def test_which_files_matter(course, house, name):
    cache, path = house / "_build" / ".jupyter_cache", house / name

    def dropped():
        cache.mkdir(parents=True, exist_ok=True)
        course.drop_stale_outputs(house)
        return not cache.exists()

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("1", encoding="utf-8")
    assert dropped(), "a cache of unknown age"
    assert not dropped()
    for text in ("2", "1"):  # changed, and changed back
        path.write_text(text, encoding="utf-8")
        assert dropped() is (name not in OTHERS)
    (house / "dpml" / "constants.py").unlink()
    assert dropped()


def test_what_the_site_has_run_need_not_run_again(course, house, monkeypatch):
    """But where words are given, all runs that they ask for. Outputs of another package are dropped before."""
    calls = {}

    def run(root, *words, **options):
        calls[words[1]] = words, (house / "_build" / "made-with.txt").is_file()
        return "mypy" in words, ""

    monkeypatch.setattr(course, "run", run)
    assert course.test(house, "-x") == 0
    assert calls == {"pytest": (("-m", "pytest", "-x"), False)}
    assert course.test(house) == 1, "mypy fails"
    assert calls["pytest"] == (("-m", "pytest", *course.SPREAD), True)


def test_a_cell_that_complains_fails_as_in_the_site(tmp_path):
    """A cell whose magic is unknown stops there, without an exception."""
    complaints = [
        "%no_such_magic\nraise TypeError",
        "import sys; sys.stderr.write('x')",
        "import warnings; warnings.warn('y')",
    ]
    cells = [nbformat.v4.new_code_cell(source) for source in ["print('fine')", *complaints]]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "one.ipynb")
    words = ["-p", "conftest", "-p", "no:cacheprovider", "-c", ROOT / "pyproject.toml", "--rootdir", tmp_path, tmp_path]
    done = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT, capture_output=True, encoding="utf-8")
    assert "3 failed, 1 passed" in done.stdout, done.stdout
    assert done.stdout.count("the cell writes to stderr") >= 3
    assert re.findall(r"FAILED \S*one.ipynb::Cell (\d)", done.stdout) == ["1", "2", "3"]


def test_the_real_book_never_shows_an_old_number(course, house, monkeypatch, capsys):
    """A small book, built three times by the real Jupyter Book: as it is, again, and with another constant.

    Its notebook runs once, by nbval, also where the page then does not build.
    """
    monkeypatch.setitem(course.run.__kwdefaults__, "python", sys.executable)
    page = house / "notebooks" / "page.ipynb"
    page.parent.mkdir()
    shutil.copytree(ROOT / "tests" / "chapters", house / "tests" / "chapters")
    settings = "[tool.pytest.ini_options]\naddopts = '--import-mode=importlib --nbval-lax --nbval-current-env'\n"
    (house / "pyproject.toml").write_text(settings, encoding="utf-8")
    (house / "_config.yml").write_text(
        "title: small\nonly_build_toc_files: true\nexecute: {execute_notebooks: cache}\n", encoding="utf-8"
    )
    (house / "_toc.yml").write_text("format: jb-book\nroot: notebooks/page\n", encoding="utf-8")
    code = "import sys; sys.path.insert(0, '..')\nfrom dpml.constants import VALUE\nprint('value', VALUE)"
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    cells = [nbformat.v4.new_markdown_cell("# A page", id="title"), nbformat.v4.new_code_cell(code, id="value")]
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=kernel)
    nbformat.write(notebook, page)

    def build(*, sound=True):
        """What the page shows, which files have changed, and what ran."""
        assert (course.site(house) == 0) is sound
        [record] = get_cache(house / "_build" / ".jupyter_cache").list_cache_records()
        assert "judged by" in record.data, "not what nbval left"
        html = (house / "_build" / "html" / "notebooks" / "page.html").read_text(encoding="utf-8")
        said = re.findall(r"(?:runs again\. Changed|Notebooks that ran): (.*)", capsys.readouterr().out)
        return *re.findall(r"value (0\.\d+)", html), *said

    assert build() == ("0.5", "notebooks/page.ipynb")
    assert build() == ("0.5", "none, the stored outputs are up to date")
    (house / "dpml" / "constants.py").write_text("VALUE = 0.25\n", encoding="utf-8")
    # The text of the page now has a broken reference: a warning, which fails the build.
    page.write_text(json.dumps(notebook).replace("# A page", "{ref}`nowhere`"), encoding="utf-8")
    assert build(sound=False) == ("0.25", "dpml/constants.py", "notebooks/page.ipynb")


def test_the_server_answers_on_this_machine_only(course, house, monkeypatch):
    page = house / "_build" / "html" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text("<h1>a page</h1>", encoding="utf-8")
    monkeypatch.chdir(house)
    monkeypatch.setattr(course, "run", lambda *words, **options: (0, ""))
    seen, pool = [], ThreadPoolExecutor()

    def once(server):
        with server:
            server.handle_request()

    monkeypatch.setattr(course.http.server.ThreadingHTTPServer, "serve_forever", once)
    monkeypatch.setattr(course.webbrowser, "open", lambda at: seen.extend([at, pool.submit(urlopen, at)]))
    assert course.site(house, "--serve") == 0
    address, answer = seen
    with pool, answer.result() as shown:
        assert shown.read() == b"<h1>a page</h1>"
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)


def test_the_server_keeps_its_port_and_knows_what_a_browser_asks_for(course, house, monkeypatch):
    """As the registry of a Windows may not, where scripts then would not run."""
    with course.http.server.ThreadingHTTPServer(("127.0.0.1", 0), None) as other:
        monkeypatch.setattr(course, "PORT", other.server_port)
        with course.serve() as server:
            assert server.server_port != course.PORT
    with course.serve() as server:
        assert server.server_port == course.PORT
        monkeypatch.setattr(course.http.server.mimetypes, "guess_type", lambda *_: ("text/plain", None))
        handler = server.RequestHandlerClass
        kinds = [handler.guess_type(handler, f"x.{end}") for end in ("js", "mjs", "wasm")]
    assert kinds == ["text/javascript", "text/javascript", "application/wasm"]


def test_what_could_not_be_fetched_is_said_beside_the_site(course, house, monkeypatch, capsys):
    said = "The pages have no fields for answers, for a reason."
    monkeypatch.setattr(course, "run", lambda *words, **rest: (0, said if "book.runtime" in words else ""))
    assert course.site(house) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [said, f"The site: {house / '_build' / 'html' / 'index.html'}"]
