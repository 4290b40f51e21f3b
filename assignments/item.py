"""What a sheet of graded exercises consists of.

`items/<slug>.py` has a function ``make(rng) -> Sheet`` that draws everything from `rng`, a `numpy.random.Generator`:
the parameters, the data, which variant is asked, and the inputs of the hidden tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Graded(NamedTuple):
    """An item that the machine marks: all of its points, or none."""

    name: str  # the cell's name in nbgrader: lower case and hyphens
    question: str  # Markdown; its first line is the title
    stub: str  # the answer cell as the student gets it; it names all that is asked for
    solution: str  # an answer cell with full points
    visible: str  # the check that the student has: form, and one public example or property
    hidden: str  # the tests that only the grader has; they raise where the answer is wrong
    points: int
    wrong: Mapping[str, str]  # what is wrong -> an answer cell with this mistake, which no hidden test lets pass


class Argued(NamedTuple):
    """An item that a person marks."""

    name: str
    question: str
    rubric: str  # a Markdown list, with the points for each line; for the instructor alone
    points: int
    answer: str  # a model answer; for the instructor alone


class Sheet(NamedTuple):
    """The graded exercises of a chapter."""

    title: str
    imports: str  # the first code cell; both processes run it
    items: tuple[Graded | Argued, ...]
