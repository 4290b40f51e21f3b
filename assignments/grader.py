"""The examination of one submission: answers in one process, tests in another.

`examined` starts a clean process for the tests. For each item, that one has the process of the answers run the answer's
cell, asks it for the values of the names that the item asks for, and runs the item's check and hidden tests on them. An
answer that ends its process, or does not come back, costs this item alone: the next one gets a fresh process, in which
the other answers run again.
"""

from __future__ import annotations

import io
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import IO, Any, NamedTuple

from assignments import answers
from assignments.answers import LONGEST, LOOK, RUN, Border, Ended

LIMIT = 60.0  # seconds for a cell, for a call of a function, and for all runs of a mechanism at one setting
WHOLE = 900.0  # seconds for a submission
SEEN = "PATH|PYTHONPATH|PYTHON.*|SYSTEMROOT|TEMP|TMP|TMPDIR|LANG|LC_.*|.*_NUM_THREADS|OMP_.*"


class Item(NamedTuple):
    """One item of a submission."""

    name: str
    stub: str  # the cell of the answer as it was released, with the names that are asked for
    answer: str  # and as it was handed in
    visible: str
    hidden: str


class Verdict(NamedTuple):
    """What came of it."""

    name: str
    passed: bool
    text: str  # the lines of success, or why it does not pass
    printed: str  # by the cell of the answer
    trace: str  # of an error in this cell
    error: str  # its name; empty if there was none
    ended: str  # how the process of the answers came to its end in this item; empty if it did not
    reached: str  # for what it reached and did not get


def examined(
    imports: str, items: Sequence[Item], *, command: Sequence[str] = (), limit: float = LIMIT
) -> list[Verdict]:
    """The verdicts on one submission, from processes of its own.

    `command` starts a Python in a place of your choice, such as a container without a network; ``-c`` and the text that
    it runs are added. It needs NumPy and what answers may import. Without it, answers run in this Python.
    """
    job = json.dumps({"imports": imports, "items": items, "command": list(command), "limit": limit})
    root = str(Path(__file__).resolve().parents[1])
    run = f"import sys; sys.path.insert(0, {root!r}); from assignments import grader; grader.main()"
    done = subprocess.run([sys.executable, "-P", "-s", "-c", run], input=job, capture_output=True, encoding="utf-8")
    try:
        return [Verdict(*verdict) for verdict in json.loads(done.stdout)]
    except ValueError:
        raise RuntimeError(f"the examination failed: {(done.stderr.splitlines() or ['no word of why'])[-1]}") from None


def main() -> None:
    """The process of the tests: a job comes in, verdicts go out."""
    job, channel = json.loads(sys.stdin.read()), sys.stdout
    items, asked, verdicts = [Item(*item) for item in job["items"]], list[str](), list[Verdict]()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        examination = Examination(job["imports"], job["command"], job["limit"], folder)
        for item in items:
            asked += answers.names_asked(item.stub)
            verdicts.append(examination.verdict(item, asked))
        examination.end()
    json.dump(verdicts, channel)


class Examination:
    """The items of a submission one after the other, with a process of answers that is made anew when it has died."""

    def __init__(self, imports: str, command: Sequence[str], limit: float, folder: str) -> None:
        self.imports, self.command, self.limit, self.folder = imports, command, limit, folder
        self.cells: list[Item] = []  # that have run and left the process alive
        self.last = time.monotonic() + WHOLE
        self.border: Border | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self.late = False
        self.read = 0
        self.said = tempfile.TemporaryFile("a+b")  # noqa: SIM115 (open as long as this lives); by the processes of the answers, on what they were refused

    def begin(self) -> Border:
        """A fresh process, in which the imports and the cells so far have run."""
        text, pipe = Path(answers.__file__).read_text(encoding="utf-8"), subprocess.PIPE
        command = [*(self.command or [sys.executable, "-P", "-s"]), "-c", text]
        seen = {key: value for key, value in os.environ.items() if re.fullmatch(SEEN, key, re.IGNORECASE)}
        seen |= dict.fromkeys(("TEMP", "TMP", "TMPDIR"), self.folder)
        self.late = False
        pipes = {"stdin": pipe, "stdout": pipe, "stderr": self.said}
        self.process = subprocess.Popen(command, cwd=self.folder, env=seen, start_new_session=True, **pipes)
        lines: queue.Queue[bytes] = queue.Queue(1)

        def line() -> bytes:
            until = min((border.open_since or 0.0) + self.limit, self.last)
            try:
                return lines.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                self.late = True
                raise Ended from None

        threading.Thread(target=listen, args=(self.process.stdout, lines), daemon=True).start()
        self.alarm = threading.Timer(max(0.0, self.last - time.monotonic()), self.process.kill)
        self.alarm.daemon = True
        self.alarm.start()
        border = self.border = Border(line, self.process.stdin)
        try:
            came = border.call(RUN, [self.imports, "imports"], {})
        except Ended:
            came = {"error": f"the Python of the answers {self.end()}"}
        if "error" in came:  # no fault of an answer
            raise RuntimeError(f"the imports of the sheet fail: {came['error']}")
        for item in list(self.cells):
            try:
                border.call(RUN, [item.answer, item.name], {})
            except Ended:  # this time: it is left out from now on
                self.cells.remove(item)
                self.end()
                return self.begin()
        return border

    def end(self) -> str:
        """End the process of the answers, and say what it had come to."""
        if self.process is None:
            return ""
        try:
            status = self.process.wait(1 if self.border is None or self.border.open_since is not None else 0)
            came = f"ended its process (exit status {status})"
        except subprocess.TimeoutExpired:
            came = "broke off the exchange with its tests"
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # with the processes that answers have started
        except (AttributeError, OSError):  # Windows; or there is none any more
            self.process.kill()
        self.process.wait()
        self.alarm.cancel()
        self.border = self.process = None
        return "had not ended in time" if self.late else came

    def verdict(self, item: Item, asked: Sequence[str]) -> Verdict:
        came: dict[str, Any] = {}
        passed, text, ended = False, "", ""
        # Checks look for the frame of the answer above those of the package, and tests are no answer.
        space: dict[str, Any] = {"__name__": "dpml.tests"}
        needed = [name for name in dict.fromkeys(asked) if name in re.findall(r"\w+", item.visible + " " + item.hidden)]
        border = self.border or self.begin()
        self.refused()  # what was told of earlier items
        try:
            came = border.call(RUN, [item.answer, item.name], {})
            found = border.call(LOOK, [needed], {})
            with redirect_stdout(io.StringIO()) as border.verdict:
                run(self.imports, "imports", space)
                space.update({name: found.get("value", {}).get(name, ...) for name in needed})
                run(item.visible, "check", space)
                run(item.hidden, "hidden test", space)
            if border.open_since is not None:  # a check gave up on a call
                raise Ended
            self.cells.append(item)
            passed, text = True, border.verdict.getvalue()
        except Ended:
            ended = f"{item.name} {self.end()}"
            text = f"Not yet: {ended}."
        except (Exception, SystemExit) as error:
            kind = type(error).__name__
            text = f"Not yet: {error}" if kind == "NotYet" else f"Not yet: the test stopped at {kind}: {error}"
            if self.border is not None and self.border.open_since is not None:
                ended = f"{item.name} {self.end()}"
            else:
                self.cells.append(item)
        error = came.get("error")
        name = "" if error is None else type(error).__name__
        return Verdict(
            item.name, passed, text, came.get("printed", ""), came.get("trace", ""), name, ended, self.refused()
        )

    def refused(self) -> str:
        """What answers were refused since this was asked last."""
        self.said.seek(self.read)
        text = self.said.read()
        self.read += len(text)
        lines = [line for line in text.decode("utf-8", "replace").splitlines() if line.startswith(answers.REFUSED)]
        return ", ".join(list(dict.fromkeys(line.removeprefix(answers.REFUSED) for line in lines))[:5])


def listen(channel: IO[bytes], lines: queue.Queue[bytes]) -> None:
    """Hand on what comes in. A thread of its own: on Windows nothing else can wait for a pipe and a time."""
    while line := channel.readline(LONGEST):
        lines.put(line)
    lines.put(b"")


def run(text: str, name: str, space: dict[str, Any]) -> None:
    exec(compile(text, name, "exec", dont_inherit=True), space)
