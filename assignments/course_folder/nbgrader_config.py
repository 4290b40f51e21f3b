"""nbgrader's settings for this course folder: answers run in a process of their own."""

import sys
from pathlib import Path

from nbgrader import preprocessors as steps

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from assignments.steps import Examine, Restore  # noqa: E402

c = get_config()  # noqa: F821 (nbgrader's)
c.CourseDirectory.root = str(HERE)
c.CourseDirectory.course_id = "dpml"
c.Restore.course = c.Examine.course = str(HERE)
c.Autograde.sanitize_preprocessors = [
    Restore,
    steps.OverwriteKernelspec,
    steps.OverwriteCells,
    steps.CheckCellMetadata,
]
c.Autograde.autograde_preprocessors = [
    Examine,
    steps.LimitOutput,
    steps.SaveAutoGrades,
    steps.AssignLatePenalties,
    steps.CheckCellMetadata,
]
# The stub of an answer stands above its solution in the source; nothing has to take the solution's place.
c.ClearSolutions.code_stub = {"python": ""}
c.ClearSolutions.text_stub = "*Write your answer here.*"

# Seconds for a cell of an answer, and for each call of a function in it.
# c.Examine.limit = 60.0

# Answers in a container, as README.md says:
# c.Examine.command = [
#     *"docker run --rm -i --network none --read-only --tmpfs /tmp --workdir /tmp --user 65534:65534".split(),
#     *"--memory 2g --pids-limit 64 --ulimit cpu=900 dpml-answers python -P -s".split(),
# ]

# On Linux without docker: no network, but your files.
# c.Examine.command = ["unshare", "--user", "--map-root-user", "--net", sys.executable, "-P", "-s"]
