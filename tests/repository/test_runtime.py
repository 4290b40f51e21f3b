"""What the answers on the pages run on: fetched once, nothing but what Pyodide published, the same bytes each time."""

import hashlib
import io
import json
import re
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from book import runtime
from tests.serving import served


def wheel(*members: str) -> bytes:
    out = io.BytesIO()
    runtime.pack(out, ((name, f"text of {name}".encode()) for name in members))
    return out.getvalue()


SCIPY = ("scipy/__init__.py", "scipy/special/x.so", "scipy.libs/y.so", "scipy/stats/__init__.py")
SCIPY += ("scipy/special/tests/test_x.py", "scipy/fft/LICENSE.md", "scipy-1.dist-info/LICENSE.txt")


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Small files in the place of the real ones, with hashes of their own."""
    files = {name: f"text of {name}".encode() for name in runtime.FILES}
    files |= {runtime.NUMPY: wheel("numpy/__init__.py", "numpy-2.dist-info/licenses/LICENSE.txt")}
    files |= {runtime.SCIPY: wheel(*SCIPY)}
    monkeypatch.setattr(runtime, "FILES", {name: hashlib.sha256(data).hexdigest() for name, data in files.items()})
    return files


@pytest.fixture
def distribution(tmp_path: Path, given: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that a server of this machine gives in the place of Pyodide's distribution."""
    folder = tmp_path / "distribution"
    folder.mkdir()
    for name, data in given.items():
        (folder / name).write_bytes(data)
    with served(folder) as address:
        monkeypatch.setattr(runtime, "DISTRIBUTION", f"{address}/")
        yield folder


@pytest.fixture
def index(given: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Mock:
    """In the place of pip: it lays a carrier with its `files` into the folder that it is given."""

    def download(words: list[str], **_options: object) -> subprocess.CompletedProcess[str]:
        assert {"pip", "download", "--no-deps", runtime.CARRIER} <= set(words)
        assert re.fullmatch(r"[a-z-]+==\d+\.\d+\.\d+", runtime.CARRIER)
        members = ((runtime.INSIDE + name, data) for name, data in pip.files.items())
        runtime.pack(Path(words[words.index("-d") + 1]) / "carrier-1-py3-none-any.whl", members)
        return subprocess.CompletedProcess(words, bool(pip.error), "", pip.error)

    pip = Mock(side_effect=download, files=dict(given), error="")
    monkeypatch.setattr(runtime.subprocess, "run", pip)
    return pip


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_from_the_distribution_once(distribution: Path, index: Mock, tmp_path: Path) -> None:
    folder = tmp_path / "pyodide"
    runtime.fetch(folder)
    assert runtime.is_there(folder)
    for file in distribution.iterdir():
        file.unlink()
    runtime.fetch(folder)  # nothing is asked any more
    assert index.call_count == 0
    (folder / "stamp").write_text("of other files", encoding="utf-8")
    assert not runtime.is_there(folder)
    runtime.fetch(folder)
    assert index.call_count == 1
    assert runtime.is_there(folder)


@pytest.mark.parametrize("fault", ["absent", "other bytes"])
def test_else_from_the_index_with_the_same_bytes(distribution: Path, index: Mock, tmp_path: Path, fault: str) -> None:
    runtime.fetch(tmp_path / "one")
    last = distribution / runtime.SCIPY
    if fault == "absent":
        last.unlink()
    else:
        last.write_bytes(b"something else")
    runtime.fetch(tmp_path / "two")
    assert index.call_count == 1
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_what_nobody_gives_is_one_sentence(distribution, index, tmp_path, monkeypatch, capsys):
    (distribution / "pyodide.mjs").unlink()
    index.error = "ERROR: first\nERROR: No matching distribution found"
    monkeypatch.setattr(runtime, "ROOT", tmp_path)
    assert runtime.main() == 1
    [_, said] = capsys.readouterr().out.splitlines()
    assert said.startswith("The pages have no fields for answers")
    assert "404" in said and "(No matching distribution found)" in said and "run the same command again" in said
    assert not runtime.folder_of(tmp_path).exists()
    index.error = ""
    index.files[runtime.NUMPY] = b"not as published"
    assert runtime.main() == 1
    assert f"{runtime.NUMPY} from {runtime.CARRIER} is not as Pyodide published it" in capsys.readouterr().out
    assert not runtime.folder_of(tmp_path).exists()


def test_scipy_is_cut_and_its_licences_stand_beside_it(distribution: Path, tmp_path: Path) -> None:
    runtime.fetch(tmp_path)
    early, rest = (set(zipfile.ZipFile(tmp_path / name).namelist()) for name in (runtime.SCIPY, runtime.REST))
    assert early == {name for name in SCIPY if "stats" not in name and "tests" not in name}
    assert {name for name in rest if "dist-info" not in name} == {"scipy/stats/__init__.py"}
    for package, inside in (
        ("numpy", ["licenses/LICENSE.txt"]),
        ("scipy", ["fft/LICENSE.md", "dist-info/LICENSE.txt"]),
    ):
        text = (tmp_path / f"LICENSE-{package}.txt").read_text(encoding="utf-8")
        assert [name for name in inside if f"{name}\n\ntext of " not in text] == []
    said = (tmp_path / "LICENSES.txt").read_text(encoding="utf-8")
    versions = re.findall(r"\w+-(\d+\.\d+\.\d+)-cp314", " ".join(runtime.FILES))
    assert len(versions) == 2
    for word in (*versions, runtime.VERSION, "Mozilla Public License 2.0", "OpenBLAS", "LICENSE-numpy.txt", "source: "):
        assert word in said


@pytest.fixture
def house(tmp_path: Path, given: dict[str, bytes], distribution: Path) -> Path:
    """A course with a package of two files, for which everything has been fetched."""
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2"\n', encoding="utf-8")
    (tmp_path / "LICENSE").write_text("BSD", encoding="utf-8")
    for name in ("a.py", "datasets/images.npz", "datasets/recorded/run.json", "__pycache__/a.pyc"):
        path = tmp_path / "dpml" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1", encoding="utf-8")
    runtime.fetch(runtime.folder_of(tmp_path))
    return tmp_path


def test_the_course_is_packed_anew_when_it_changes(house: Path) -> None:
    target = house / "site"
    digest = runtime.lay_out(house, target)
    before = contents(target)
    assert runtime.lay_out(house, target) == digest
    assert contents(target) == before
    (house / "dpml" / "a.py").write_text("2", encoding="utf-8")
    assert runtime.lay_out(house, target) != digest
    [old], [new] = ([name for name in files if name.startswith("dpml-1.2-")] for files in (before, contents(target)))
    assert old != new


def test_the_lock_names_every_wheel_by_its_hash(house: Path) -> None:
    target = house / "site"
    runtime.lay_out(house, target)
    packages = json.loads((target / "pyodide-lock.json").read_text(encoding="utf-8"))["packages"]
    assert {one["file_name"] for one in packages.values()} == {path.name for path in target.glob("*.whl")}
    for name, one in packages.items():
        assert one["sha256"] == hashlib.sha256((target / one["file_name"]).read_bytes()).hexdigest()
        assert set(one["depends"]) <= set(packages) - {name}
    inside = zipfile.ZipFile(target / packages["dpml"]["file_name"]).namelist()
    assert inside == [
        "dpml/a.py",
        *(f"dpml-1.2.dist-info/{name}" for name in ("LICENSE", "METADATA", "WHEEL", "RECORD")),
    ]
