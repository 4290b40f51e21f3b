"""The commands of the course. The first one that runs makes the environment .venv, once.

python3 course.py site [--serve]      build the website into _build/html (and show it in a browser)
python3 course.py test [ARGUMENTS]    run every check, on all cores; with ARGUMENTS, pytest alone with these
python3 course.py lab  [ARGUMENTS]    write your copies of chapters and exercises into work/ and open JupyterLab
python3 course.py copies              only write them, for another editor
python3 course.py progress [FOLDER]   read them and show what is solved; or those of a class, a folder for each student
python3 course.py assignment ...      make graded exercises from a secret seed, collect, grade and report them
python3 course.py pdf                 print the built website into _build/dpml.pdf, with Chromium, Chrome or Edge

Any of them with --torch-index ADDRESS takes PyTorch from there, now and later: on Linux, the small build.
"""

# Standard library only, and no syntax newer than Python 3.6: an old Python must reach its one sentence.
import ast
import hashlib
import http.server
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import webbrowser
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent
PYTHON = Path(".venv", "Scripts", "python.exe") if os.name == "nt" else Path(".venv", "bin", "python")
DISK_FULL = r"No space left on device|Errno 28\b|WinError 112\b|Disk quota exceeded"
OFFLINE = r"NewConnectionError|NameResolutionError|ConnectTimeout|ReadTimeout|ProxyError|connection broken by"
BUILD_ERROR = r"(?m)^\s+(.*?(?:error(?:\[\w+\])?|\w+Error): .*)$"
# Of pip's own settings only these hold, which say how to reach an index: others install elsewhere, or nothing.
INDEX = "index-url|extra-index-url|no-index|find-links|trusted-host|proxy|cert|client-cert|keyring-provider"
INDEX += "|timeout|default-timeout|retries|cache-dir|no-cache-dir"
SMALL, NVIDIA = 2, 5.5  # GB that the environment fills; on Linux, the package index has PyTorch for NVIDIA cards only
INSTALLER = "https://pytorch.org/get-started/locally/"
TORCH_PATH = 191  # characters of PyTorch's longest path below this folder, on Windows
PROBE = "import jupyter_book, nbval, pytest, scipy, importlib.metadata as m; m.version('dpml'), m.version('torch')"
PORT = 8470
SPREAD = ["-n", "logical", "--maxprocesses", "8", "-p", "tests.chapters.outputs"]
BUILD = "from jupyter_book.cli.main import main; main()"  # the package has no __main__
NOT_FOR_STUDENTS = {"@jupyter/nbgrader": True, "@jupyterlab/apputils-extension:announcements": True}
RELEASE = """import sys; from dpml.classroom import plain, students
report = students.release_course(*sys.argv[1:3], form=plain.with_plain_text if sys.argv[3:] else dict)
print(*(f"{status} {path}" for path, status in report), sep="\\n")
if "newer" in dict(report).values():
    print("newer: the lesson has changed. Rename your copy: then the same command writes the new version beside it.")"""


def run(root, *words, python=PYTHON, show=None, pip=None):
    """Return the exit status and the output; with a pattern `show`, print only the lines that it matches."""
    foreign = "PYTHONHOME|PYTHONPATH|JUPYTER_PATH|PIP_USER" + "|PIP_.*" * (pip is not None)
    kept = {name: value for name, value in os.environ.items() if not re.fullmatch(foreign, name)}
    env = {**kept, **(pip or {}), "PYTHONUTF8": "1", "JUPYTER_PREFER_ENV_PATH": "1", "MPLBACKEND": "Agg"}
    env.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that spin make small networks crawl on a busy machine
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "encoding": "utf-8", "errors": "replace"}
    command, lines = [str(root / python), *map(str, words)], []
    with subprocess.Popen(command, cwd=str(root), env=env, **(pipe if show else {})) as job:
        for line in job.stdout or ():
            lines.append(line)
            if re.match(show, line):
                print(line, end="", flush=True)
    return job.returncode, "".join(lines)


def index_settings(root):
    """Return how pip's settings, of whatever origin, reach an index: as environment, beside which pip reads nothing."""
    given = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    given.update(PIP_USER="0", PIP_QUIET="0")  # either would hide settings
    listed, found = run(root, "-m", "pip", "config", "list", show="$^", pip=given)[1], {}
    for section in ("global", "install", ":env:"):  # the later one wins
        found.update(re.findall(f"(?m)^{section}[.]({INDEX})=(['\"].*)$", listed))
    values = {"PIP_" + key.upper().replace("-", "_"): ast.literal_eval(value) for key, value in found.items()}
    return {**values, "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def explain(output):
    """Return one sentence for what went wrong, from what venv, pip or the system printed."""
    if re.search(DISK_FULL, output):
        return "The disk is full: free some space, then run the same command again."
    if re.search(OFFLINE, output):
        return "pip cannot reach the package index: connect to the internet, then run the same command again."
    if re.search(r"WinError (?:126|1114)\b.*[.]dll", output):
        return "PyTorch needs Microsoft's Visual C++ runtime: install it, then run the same command again."
    if "ensurepip" in output:
        return "This Python cannot make environments: install its venv module (Debian, Ubuntu: python3-venv)."
    before, failed, said = output.partition("subprocess-exited-with-error")
    names = re.findall(r"(?:Collecting|Processing|Building wheel for) ([\w./\\-]+)", before)
    if failed and names:
        first = (re.findall(BUILD_ERROR, said) or ["its build says no more"])[0]
        return f"Stopped: {names[-1]} has no wheel for this Python and machine, and its build failed: {first}"
    said = (re.findall("ERROR: (.*)", output) or output.splitlines() or ["Ctrl+C"])[-1]
    return " ".join(["Stopped:", said, *re.findall("HINT: (.*)", output)[-1:]])


def long_paths():
    """Return whether this Windows opens paths of more than 259 characters."""
    import winreg

    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"SYSTEM\CurrentControlSet\Control\FileSystem") as key:
            return winreg.QueryValueEx(key, "LongPathsEnabled")[0] == 1
    except OSError:  # an older Windows, without the setting
        return False


def check_path(root):
    """Stop where Windows could not open what will be installed."""
    length, most = len(str(root)), 259 - len("\\") - TORCH_PATH
    if os.name == "nt" and length > most and not long_paths():
        said = f"The path of this folder has {length} characters, and PyTorch's files leave it {most} on this Windows"
        sys.exit(said + r": move it to a shorter one, such as C:\dpml, or turn on long paths in Windows.")


def check_disk(root, settings, torch_index):
    """Stop if what will be installed does not fit. An index of the reader's may hold any build: it asks for least."""
    own = torch_index or {"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"} & set(settings)
    nvidia = (sys.platform, platform.machine()) == ("linux", "x86_64") and not own
    free, needs = shutil.disk_usage(str(root)).free / 1e9, NVIDIA if nvidia else SMALL
    build = f", with PyTorch's build for NVIDIA cards. For the small one, {SMALL} GB in all, choose Linux, Pip and CPU "
    build += f"on {INSTALLER}, and add to the command, with the address shown there: --torch-index ADDRESS"
    if free < needs:
        sys.exit(f"The course needs {needs} GB of free disk, and there are {free:.1f} GB{build * nvidia}.")
    print(f"This takes {needs} GB{build * nvidia}.", flush=True)


def install(root, torch_index):
    """Make root/.venv; its stamp begins with the address of PyTorch's index, so that a second try takes the same."""
    check_path(root)
    status, output = run(root, "-m", "venv", "--clear", ".venv", python=sys.executable, show="$^")
    if status:
        sys.exit(explain(output))
    write_stamp(root, "unfinished", torch_index)
    settings, pip = index_settings(root), ["-m", "pip", "install"]
    check_disk(root, settings, torch_index)
    pin = re.findall("(?m)^torch==.*", (root / "requirements.txt").read_text(encoding="utf-8"))
    torch = [[*pip, "--no-deps", "--index-url", torch_index, *pin]] if torch_index else []
    own = ["--no-deps", "--no-build-isolation", "-e", "."]  # built with the pinned setuptools
    for words in (*torch, [*pip, "-r", "requirements.txt"], [*pip, *own], ["-c", "import torch"]):
        status, output = run(root, *words, show="Collecting|Installing", pip=settings)
        if status:
            sys.exit(explain(output) + (f" (PyTorch is taken from {torch_index})" if words in torch else ""))


def read_stamp(root):
    """Return what .venv was made for, and the address that PyTorch was taken from."""
    try:
        made_for, _, torch_index = (root / ".venv" / "course-stamp").read_text().partition("\n")
        return made_for, torch_index
    except OSError:
        return "", ""


def write_stamp(root, made_for, torch_index):
    (root / ".venv" / "course-stamp").write_text(f"{made_for}\n{torch_index}")


def prepare(root, torch_index=""):
    """Make root/.venv unless a sound one is there. Its stamp comes last: a half-made one is made again."""
    machine = (sys.version_info[:2], sys.platform, platform.machine(), str(root))  # .venv cannot be moved
    parts = [repr(machine).encode(), *((root / name).read_bytes() for name in ("requirements.txt", "pyproject.toml"))]
    made_for, (found, before) = hashlib.sha256(b"\0".join(parts)).hexdigest(), read_stamp(root)
    try:
        if found == made_for and torch_index in ("", before) and run(root, "-I", "-c", PROBE, show="$^")[0] == 0:
            return
    except OSError:  # no Python that runs
        pass
    if Path(sys.prefix) == root / ".venv":
        sys.exit("This Python is .venv, which must be made again: type deactivate, then run the same command.")
    print("Making the environment .venv for these packages, this Python and this folder: some minutes.", flush=True)
    install(root, torch_index or before)
    write_stamp(root, made_for, torch_index or before)


def made_with(root):
    """Return what the stored outputs depend on, now and when the site was last built: a digest and a name a line."""
    files = [path for path in (root / "dpml").rglob("[!.]*") if path.is_file() and "__pycache__" not in path.parts]
    files.append(root / "requirements.txt")
    now = {f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.relative_to(root).as_posix()}" for path in files}
    record = root / "_build" / "made-with.txt"
    return now, set(record.read_text(encoding="utf-8").splitlines()) if record.is_file() else set(), record


def drop_stale_outputs(root):
    """Drop the stored outputs when code or a recorded result has changed: Jupyter's cache compares cells only."""
    now, before, record = made_with(root)
    cache = root / "_build" / ".jupyter_cache"
    if now != before and cache.exists():
        changed = sorted({line.split(" ", 1)[1] for line in now ^ before})
        print(f"Every notebook runs again. Changed: {', '.join(changed[:5])}{' ...' if changed[5:] else ''}")
        shutil.rmtree(str(cache))
    record.parent.mkdir(exist_ok=True)  # the record comes before the build, which may be interrupted
    record.write_text("\n".join(sorted(now)), encoding="utf-8")


def site(root, *arguments):
    drop_stale_outputs(root)
    lacks = run(root, "-m", "book.runtime", show="Fetching", pip=index_settings(root))[1]
    # The build runs one notebook after the other, and tests none: before it, nbval does so, on all cores.
    words = [*SPREAD, "-q", "-rfp", "-p", "no:cacheprovider", "notebooks"]
    early = run(root, "-m", "pytest", *words, show=r"FAILED")[1]
    # --all reads every page: else the warnings of the last build, or an older side bar, stay unseen.
    build = ["-c", BUILD, "build", "--all", "--warningiserror", "--keep-going", "."]
    status, output = run(root, *build, show=r"(?!.*(ParserConfig\(|without encryption))")
    ran = re.findall(r"(?m)^PASSED (.*)::Cell 0$", early)
    ran += [os.path.relpath(name, str(root)) for name in re.findall(r"(.*): Executing notebook", output)]
    print(f"Notebooks that ran: {', '.join(ran) or 'none, the stored outputs are up to date'}")
    page = root / "_build" / "html" / "index.html"
    print(*re.findall("The pages have no fields.*", lacks), sep="\n")
    print("The build failed: the lines with WARNING or ERROR say why." if status else f"The site: {page}")
    if arguments and not status:
        os.chdir(str(page.parent))
        server = serve()
        print(f"Serving http://127.0.0.1:{server.server_port}/ until Ctrl+C", flush=True)
        webbrowser.open(f"http://127.0.0.1:{server.server_port}/")
        server.serve_forever()
    return status


def serve():
    """Return a server, at the same port if it is free: a browser keeps a reader's answers for an address."""
    handler, kind = http.server.SimpleHTTPRequestHandler, http.server.ThreadingHTTPServer
    handler.extensions_map.update({".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm"})
    kind.allow_reuse_address = os.name != "nt"  # there it would share a port with another server
    try:
        return kind(("127.0.0.1", PORT), handler)
    except OSError:
        return kind(("127.0.0.1", 0), handler)


def test(root, *arguments):
    checks = [] if arguments else ["ruff check .", "ruff format --check .", "mypy"]
    if not arguments:
        drop_stale_outputs(root)
    with ThreadPoolExecutor(1) as beside:
        jobs = {check: beside.submit(run, root, "-m", *check.split()) for check in checks}
        status = run(root, "-m", "pytest", *(arguments or SPREAD))[0]
    failed = [check for check, job in jobs.items() if job.result()[0]]
    if failed:
        print(f"Failed besides pytest: {', '.join(failed)}")
    return status or len(failed)


def copies(root, *arguments):
    if arguments:
        sys.exit("The copies are written into work/: copies takes no argument.")
    return run(root, "-c", RELEASE, ".", "work", "plain")[0]


def lab(root, *arguments):
    # In work/ and nowhere else, whatever folders the reader's own Jupyter has configured; without nbgrader's tools for
    # teachers, and without the question about news. Their own JupyterLab keeps all of that.
    settings, own = root / ".venv" / "lab", root / "work"
    (settings / "labconfig").mkdir(parents=True, exist_ok=True)
    (settings / "labconfig" / "page_config.json").write_text(json.dumps({"disabledExtensions": NOT_FOR_STUDENTS}))
    paths = [str(settings), os.environ.get("JUPYTER_CONFIG_PATH")]
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, paths))
    opened = [
        f"--{part}.root_dir={own}" for part in ("ServerApp", "AsyncLargeFileManager", "AsyncMappingKernelManager")
    ]
    opened += ["--AsyncLargeFileManager.preferred_dir=", "--LabApp.default_url=/lab"]
    return run(root, "-c", RELEASE, ".", "work")[0] or run(root, "-m", "jupyterlab", "-y", *opened, *arguments)[0]


def progress(root, *arguments):
    words = [word if word.startswith("-") else Path.cwd() / word for word in arguments]
    return run(root, "-m", "dpml.classroom.progress", *words)[0]


def assignment(root, *arguments):
    return run(root, "-m", "assignments", "--from", Path.cwd(), *arguments)[0]


COMMANDS = {"site": site, "test": test, "lab": lab, "copies": copies, "progress": progress, "assignment": assignment}
COMMANDS["pdf"] = lambda root, *arguments: run(root, "-m", "book.pdf", *arguments)[0]


def answers(*words):
    """Return what a program prints, or nothing where it is not there, fails or hangs."""
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60)
        return "" if done.returncode else done.stdout.decode("utf-8", "replace")
    except (OSError, subprocess.SubprocessError):
        return ""


def fitting_python():
    """Return how to call a Python that is installed and fits: by Windows' launcher, on the PATH, or uv's; else None."""
    # The launcher is asked for its list: a new one would install what it is asked to run.
    listed = re.findall(r"(?m)^\s*-V:3\.(1[1-4])(?!\S*-32)\b", answers("py", "--list")) if os.name == "nt" else ()
    for minor in listed:
        return f"py -3.{minor}"
    for name in ("python3.14", "python3.13", "python3.12", "python3.11"):
        if answers(shutil.which(name) or "", "-c", "print(1)"):  # pyenv has names that do not run
            return name
    found = answers("uv", "python", "list", "--only-installed")
    for path in re.findall(r"(?m)^cpython-3\.1[1-4]\.\d+-\S+\s+(\S.*?)(?: -> .*)?\s*$", found):
        return f'"{path}"' if " " in path else path
    return None


def main(words):
    if not (3, 11) <= sys.version_info[:2] <= (3, 14):
        newer = ": its numpy, scipy and contourpy have no wheel for 3.15" if sys.version_info > (3, 15) else ""
        other = fitting_python()
        cure = f"Type  {other} course.py {' '.join(words)}".rstrip() if other else "None is found here: install one."
        sys.exit(f"The course needs Python 3.11 to 3.14, not {'.'.join(map(str, sys.version_info[:3]))}{newer}. {cure}")
    torch_index = ""
    if "--torch-index" in words[:-1]:
        at = words.index("--torch-index")
        torch_index = words[at + 1]
        words = words[:at] + words[at + 2 :]
    if not words or words[0] not in COMMANDS or (words[0] == "site" and words[1:] not in ([], ["--serve"])):
        print(__doc__.strip())
        return 2 if words and words[0] not in ("-h", "--help") else 0
    sys.stdout.reconfigure(errors="replace")  # a Windows console may lack a letter
    try:
        prepare(ROOT, torch_index)
        return COMMANDS[words[0]](ROOT, *words[1:])
    except (OSError, KeyboardInterrupt) as error:
        sys.exit(explain(str(error)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
