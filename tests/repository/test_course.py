"""The commands of the course: what they refuse, when they make the environment, when they drop outputs."""

from __future__ import annotations

import ast
import errno
import importlib.metadata
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = (ROOT / "course.py").read_text(encoding="utf-8")


@pytest.fixture
def course() -> ModuleType:
    """course.py as a module, loaded anew for each test."""
    spec = importlib.util.spec_from_file_location("course", ROOT / "course.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A folder with the files that an environment and a build are made from."""
    (tmp_path / "requirements.txt").write_text("numpy==2.4.6\n", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    (tmp_path / "dpml" / "__pycache__").mkdir(parents=True)
    (tmp_path / "dpml" / "constants.py").write_text("VALUE = 0.5\n", encoding="utf-8")
    return tmp_path


class TestFile:
    def test_is_short(self) -> None:
        assert len(SOURCE.splitlines()) < 150

    def test_needs_the_standard_library_only(self) -> None:
        names = set()
        for node in ast.walk(ast.parse(SOURCE)):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add((node.module or "").split(".")[0])
        assert "pathlib" in names
        assert names <= sys.stdlib_module_names

    def test_an_old_python_can_read_it(self) -> None:
        ast.parse(SOURCE, feature_version=(3, 7))

    def test_gets_no_shell_and_joins_no_path_by_hand(self) -> None:
        for call in (node for node in ast.walk(ast.parse(SOURCE)) if isinstance(node, ast.Call)):
            assert "shell" not in {keyword.arg for keyword in call.keywords}
        assert "/python" not in SOURCE


class TestWords:
    @pytest.mark.parametrize(
        ("words", "status"),
        [((), 0), (("--help",), 0), (("buidl",), 2), (("site", "--sevre"), 2), (("site", "--serve", "x"), 2)],
    )
    def test_usage(self, words: tuple[str, ...], status: int) -> None:
        done = subprocess.run([sys.executable, ROOT / "course.py", *words], capture_output=True, text=True)
        assert done.returncode == status
        assert done.stdout.count("python3 course.py") == 3
        assert done.stderr == ""

    @pytest.mark.parametrize("version", [(3, 8, 18), (3, 10, 0), (3, 15, 1), (4, 0, 0)])
    def test_a_python_that_does_not_fit(
        self, course: ModuleType, monkeypatch: pytest.MonkeyPatch, version: tuple[int, int, int]
    ) -> None:
        fake = SimpleNamespace(version_info=version, exit=sys.exit)
        monkeypatch.setattr(course, "sys", fake)
        monkeypatch.setattr(course, "prepare", lambda root: pytest.fail("the environment was made"))
        with pytest.raises(SystemExit) as stopped:
            course.main(["site"])
        said = f"The course needs Python 3.11 to 3.14, not {version[0]}.{version[1]}.{version[2]}"
        assert re.fullmatch(
            re.escape(said) + (r": its [\w, ]+ for 3\.15\." if version > (3, 15) else r"\."), stopped.value.code
        )

    @pytest.mark.parametrize("version", [(3, 11, 0), (3, 12, 1), (3, 13, 9), (3, 14, 0)])
    def test_a_python_that_fits(
        self, course: ModuleType, monkeypatch: pytest.MonkeyPatch, version: tuple[int, int, int]
    ) -> None:
        monkeypatch.setattr(course, "sys", SimpleNamespace(version_info=version, exit=sys.exit, stdout=sys.stdout))
        made: list[Path] = []
        monkeypatch.setattr(course, "prepare", made.append)
        monkeypatch.setattr(course, "lab", lambda root, *arguments: len(arguments))
        assert course.main(["lab", "--no-browser"]) == 1
        assert made == [ROOT]

    def test_a_sentence_gives_status_1(self, house: Path) -> None:
        shutil.copy(ROOT / "course.py", house)
        code = (
            "import course, pathlib, shutil, sys, types\n"
            "course.shutil.disk_usage = lambda path: types.SimpleNamespace(free=2.04e9)\n"
            "sys.exit(course.main(['test']))"
        )
        done = subprocess.run([sys.executable, "-c", code], cwd=house, capture_output=True, text=True)
        assert done.returncode == 1
        assert done.stderr == "The course needs 3 GB of free disk, and there are 2.0 GB.\n"
        assert not (house / ".venv").exists()

    def test_a_full_disk_and_ctrl_c_are_sentences_too(
        self, course: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(root: Path) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        def stopped_by_the_reader(root: Path) -> None:
            raise KeyboardInterrupt

        for fault, words in ((full, "The disk is full"), (stopped_by_the_reader, "Stopped: Ctrl+C")):
            monkeypatch.setattr(course, "prepare", fault)
            with pytest.raises(SystemExit, match=re.escape(words)):
                course.main(["lab"])


class TestExplain:
    """What pip and venv print, shortened, and the sentence for it."""

    @pytest.mark.parametrize(
        ("output", "sentence"),
        [
            (
                "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError("
                "'<HTTPSConnection>: Failed to establish a new connection: [Errno -3] Temporary failure in name "
                "resolution')': /simple/numpy/\nERROR: No matching distribution found for numpy==2.4.6\n",
                "pip cannot reach the package index",
            ),
            (
                "WARNING: Retrying (Retry(total=4)) after connection broken by 'ReadTimeoutError()'\n"
                "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n",
                "The disk is full",
            ),
            ("OSError: [WinError 112] There is not enough space on the disk\n", "The disk is full"),
            (
                "The virtual environment was not created successfully because ensurepip is not\navailable.\n",
                "install its venv module",
            ),
            (
                "ERROR: Could not find a version that satisfies the requirement torch==2.13.0\n"
                "ERROR: No matching distribution found for torch==2.13.0\n\n[notice] a new release\n",
                "Stopped: No matching distribution found for torch==2.13.0",
            ),
            ("Error: [Errno 13] Permission denied: '.venv'\n", "Permission denied"),
            ("", "Stopped: Ctrl+C"),
        ],
    )
    def test_one_sentence(self, course: ModuleType, output: str, sentence: str) -> None:
        said = course.explain(output)
        assert sentence in said
        assert "\n" not in said

    def test_what_pip_prints_without_a_network(self, course: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        # A port of this machine that nobody listens to stands for the missing network.
        words = ["install", "--dry-run", "--no-cache-dir", "--retries", "1", "--isolated", "no-such-package-of-dpml"]
        index = ["--index-url", "http://127.0.0.1:9/simple"]
        done = subprocess.run(
            [sys.executable, "-m", "pip", *words, *index], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert done.returncode != 0
        assert course.explain(done.stdout).startswith("pip cannot reach the package index")


class TestInstall:
    def test_stops_at_the_first_step_that_fails(
        self, course: ModuleType, house: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        steps: list[str] = []

        def run(root: Path, *words: str, **options: object) -> tuple[int, str]:
            steps.append(" ".join(words))
            return len(steps) - 1, "ERROR: the reason"

        monkeypatch.setattr(course, "run", run)
        monkeypatch.setattr(course.shutil, "disk_usage", lambda path: SimpleNamespace(free=9e9))
        with pytest.raises(SystemExit, match=r"^Stopped: the reason$"):
            course.install(house)
        assert len(steps) == 2
        assert "--clear .venv" in steps[0]
        assert "-r requirements.txt" in steps[1]

    def test_the_package_is_built_without_the_network(
        self, course: ModuleType, house: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        steps: list[tuple[object, ...]] = []

        def run(root: Path, *words: object, **options: object) -> tuple[int, str]:
            steps.append(words)
            return 0, ""

        monkeypatch.setattr(course, "run", run)
        monkeypatch.setattr(course.shutil, "disk_usage", lambda path: SimpleNamespace(free=9e9))
        course.install(house)
        assert {"--no-deps", "--no-build-isolation", "-e"} <= set(steps[-1])


class TestEnvironment:
    @pytest.fixture
    def made(self, course: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
        """The folders that the installer was called for; the environment is this Python, linked."""
        monkeypatch.setattr(course, "PROBE", "import json")
        return []

    @pytest.fixture
    def installer(self, course: ModuleType, made: list[Path]) -> Callable[[Path], None]:
        def install(root: Path) -> None:
            made.append(root)
            shutil.rmtree(root / ".venv", ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", root / ".venv"], check=True)

        return install

    def test_is_made_once(
        self, course: ModuleType, house: Path, installer: Callable[[Path], None], made: list[Path]
    ) -> None:
        course.prepare(house, installer)
        course.prepare(house, installer)
        assert made == [house]

    @pytest.mark.parametrize(
        "harm",
        [
            lambda house: (house / ".venv" / "course-stamp").unlink(),
            lambda house: (house / "requirements.txt").write_text("numpy==2.4.7\n", encoding="utf-8"),
            lambda house: (house / "pyproject.toml").write_text("[project]\nname = 'x'\n", encoding="utf-8"),
            lambda house: (house / ".venv" / "pyvenv.cfg").unlink(),
            lambda house: shutil.rmtree(house / ".venv" / ("Scripts" if sys.platform == "win32" else "bin")),
        ],
        ids=["unfinished", "other pins", "other metadata", "damaged", "no Python"],
    )
    def test_is_made_again(
        self,
        course: ModuleType,
        house: Path,
        installer: Callable[[Path], None],
        made: list[Path],
        harm: Callable[[Path], object],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(course, "PROBE", "import sys; assert sys.prefix != sys.base_prefix")
        course.prepare(house, installer)
        harm(house)
        course.prepare(house, installer)
        course.prepare(house, installer)
        assert made == [house, house]

    def test_packages_that_do_not_import(
        self,
        course: ModuleType,
        house: Path,
        installer: Callable[[Path], None],
        made: list[Path],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        course.prepare(house, installer)
        monkeypatch.setattr(course, "PROBE", "import a_package_that_is_not_there")
        course.prepare(house, installer)
        assert len(made) == 2

    def test_a_folder_that_moved(
        self, course: ModuleType, house: Path, installer: Callable[[Path], None], made: list[Path]
    ) -> None:
        old = house / "old"
        old.mkdir()
        for name in ("requirements.txt", "pyproject.toml"):
            shutil.copy(house / name, old)
        course.prepare(old, installer)
        new = old.rename(house / "new")
        course.prepare(new, installer)
        assert made == [old, new]

    def test_another_python(
        self,
        course: ModuleType,
        house: Path,
        installer: Callable[[Path], None],
        made: list[Path],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        course.prepare(house, installer)
        other = SimpleNamespace(version_info=(3, 99, 0), platform=sys.platform, prefix=sys.prefix)
        monkeypatch.setattr(course, "sys", other)
        course.prepare(house, installer)
        assert len(made) == 2

    def test_half_made(self, course: ModuleType, house: Path, installer: Callable[[Path], None]) -> None:
        def interrupted(root: Path) -> None:
            installer(root)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            course.prepare(house, interrupted)
        assert (house / ".venv").is_dir()
        assert not (house / ".venv" / "course-stamp").exists()

    def test_does_not_remove_the_python_that_runs_it(
        self, course: ModuleType, house: Path, made: list[Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(course.sys, "prefix", str(house / ".venv"))
        with pytest.raises(SystemExit, match="deactivate"):
            course.prepare(house, made.append)
        assert made == []

    def test_the_probe_fits_the_real_environment(self, course: ModuleType) -> None:
        """It passes where the course runs, and fails in a Python that has no packages."""
        for name in ("dpml", "torch"):
            if not any(importlib.metadata.distributions(name=name)):
                pytest.skip(f"{name} is not installed here, so this is not an environment of course.py")
        assert subprocess.run([sys.executable, "-I", "-c", course.PROBE]).returncode == 0
        bare = subprocess.run([sys.executable, "-I", "-S", "-c", course.PROBE], capture_output=True)
        assert bare.returncode != 0


class TestStaleOutputs:
    @pytest.fixture
    def cache(self, house: Path) -> Path:
        folder = house / "_build" / ".jupyter_cache"
        folder.mkdir(parents=True)
        return folder

    def forget(self, course: ModuleType, house: Path, cache: Path) -> bool:
        """Run the check, say whether it dropped the cache, and lay a new one."""
        course.drop_stale_outputs(house)
        dropped = not cache.exists()
        cache.mkdir(exist_ok=True)
        return dropped

    def test_a_cache_of_unknown_age(self, course: ModuleType, house: Path, cache: Path) -> None:
        assert self.forget(course, house, cache)
        assert not self.forget(course, house, cache)

    def test_changed_and_changed_back(
        self, course: ModuleType, house: Path, cache: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        constants = house / "dpml" / "constants.py"
        course.drop_stale_outputs(house)
        capsys.readouterr()
        cache.mkdir(exist_ok=True)
        constants.write_text("VALUE = 0.25\n", encoding="utf-8")
        assert self.forget(course, house, cache)
        assert capsys.readouterr().out == "Every notebook runs again. Changed: dpml/constants.py\n"
        assert not self.forget(course, house, cache)
        assert capsys.readouterr().out == ""
        constants.write_text("VALUE = 0.5\n", encoding="utf-8")
        assert self.forget(course, house, cache)

    @pytest.mark.parametrize(
        ("name", "matters"),
        [
            ("dpml/new.py", True),
            ("dpml/classroom/explorer.js", True),
            ("dpml/datasets/x/x.npz", True),
            ("dpml/datasets/recorded/accuracy.json", True),
            ("dpml/__pycache__/constants.cpython-311.pyc", False),
            ("dpml/.DS_Store", False),
            ("notebooks/01.ipynb", False),
            ("tests/test_x.py", False),
        ],
    )
    def test_which_files_matter(self, course: ModuleType, house: Path, cache: Path, name: str, matters: bool) -> None:
        self.forget(course, house, cache)
        path = house / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1", encoding="utf-8")
        assert self.forget(course, house, cache) is matters
        path.unlink()
        assert self.forget(course, house, cache) is matters

    def test_other_pins(self, course: ModuleType, house: Path, cache: Path) -> None:
        self.forget(course, house, cache)
        (house / "requirements.txt").write_text("numpy==2.4.7\n", encoding="utf-8")
        assert self.forget(course, house, cache)

    def test_without_any_build(self, course: ModuleType, house: Path) -> None:
        course.drop_stale_outputs(house)
        assert (house / "_build" / "made-with.txt").is_file()


def test_the_real_book_never_shows_an_old_number(
    course: ModuleType, house: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A small book, built four times by the real Jupyter Book: as it is, again, with another constant, and back."""
    monkeypatch.setitem(course.run.__kwdefaults__, "python", sys.executable)
    (house / "_config.yml").write_text(
        "title: small\nonly_build_toc_files: true\nexecute: {execute_notebooks: cache}\n", encoding="utf-8"
    )
    (house / "_toc.yml").write_text("format: jb-book\nroot: page\n", encoding="utf-8")
    code = "import sys; sys.path.insert(0, '.')\nfrom dpml.constants import VALUE\nprint('value', VALUE)"
    cells = [
        {"cell_type": "markdown", "id": "title", "metadata": {}, "source": "# A page"},
        {"cell_type": "code", "id": "value", "metadata": {}, "source": code, "outputs": [], "execution_count": None},
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (house / "page.ipynb").write_text(json.dumps(notebook), encoding="utf-8")

    def build(*, sound: bool = True) -> tuple[str, str]:
        assert (course.site(house) == 0) is sound
        page = (house / "_build" / "html" / "page.html").read_text(encoding="utf-8")
        shown = re.findall(r"value (0\.\d+)", page)
        ran = re.search(r"Notebooks that ran: (.*)", capsys.readouterr().out)
        assert len(shown) == 1 and ran is not None
        return shown[0], ran.group(1)

    assert build() == ("0.5", "page.ipynb")
    assert build() == ("0.5", "none, the stored outputs are up to date")
    (house / "dpml" / "constants.py").write_text("VALUE = 0.25\n", encoding="utf-8")
    assert build() == ("0.25", "page.ipynb")
    (house / "dpml" / "constants.py").write_text("VALUE = 0.5\n", encoding="utf-8")
    # The text of the page now has a broken reference: a warning, which fails the build.
    (house / "page.ipynb").write_text(json.dumps(notebook).replace("# A page", "{ref}`nowhere`"), encoding="utf-8")
    assert build(sound=False) == ("0.5", "page.ipynb")


def test_the_server_answers_on_this_machine_only(
    course: ModuleType, house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = house / "_build" / "html" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text("<h1>a page</h1>", encoding="utf-8")
    monkeypatch.chdir(house)
    monkeypatch.setattr(course, "run", lambda *words, **options: (0, ""))
    seen: list[str] = []

    class OneRequest(course.http.server.ThreadingHTTPServer):  # type: ignore[misc, name-defined]
        def serve_forever(self, poll_interval: float = 0.5) -> None:
            with self:
                self.handle_request()

    def ask(address: str) -> None:
        with urllib.request.urlopen(address, timeout=10) as answer:
            seen.extend([address, answer.read().decode()])

    readers: list[threading.Thread] = []

    def browser(address: str) -> None:
        readers.append(threading.Thread(target=ask, args=[address]))
        readers[0].start()

    monkeypatch.setattr(course.http.server, "ThreadingHTTPServer", OneRequest)
    monkeypatch.setattr(course.webbrowser, "open", browser)
    assert course.site(house, "--serve") == 0
    readers[0].join(timeout=10)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", seen[0])
    assert seen[1] == "<h1>a page</h1>"
