"""How the suite is spread over the cores of the machine, and what fails a notebook besides an exception."""

import os
from collections.abc import Iterator

import numpy as np
import pytest

from tests import near

ROOMS = (
    "accounting",
    "audit",
    "byzantine/test_aggregation",
    "byzantine/test_attacks",
    "byzantine/test_theory",
    "certified",
    "mechanisms",
    "pate",
    "ptr",
    "lessons/test_all_explorers",
    "lessons/test_every_mistake",
)
pytest.approx = near.near  # for the whole suite
NUMERIC = tuple(f"tests/{room}" for room in ROOMS)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """With ``-n``, a file stays in one process, as a notebook must, and files start in the order found.

    Each process works with one thread: more of them than cores cost a tenth to a fifth of the time of a network.
    """
    if getattr(config.option, "numprocesses", None) and config.option.dist == "no":
        config.option.dist = "loadfile"
        config.option.loadscopereorder = False
        os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A cell that writes to stderr fails here, as in the build of the site: a warning, or an unknown magic."""
    yield
    said = "".join(
        output.text for output in getattr(item, "test_outputs", None) or () if output.get("name") == "stderr"
    )
    if said:
        pytest.fail(f"the cell writes to stderr: {said}", pytrace=False)


@pytest.fixture(autouse=True)
def every_float_error_raises(request: pytest.FixtureRequest) -> Iterator[None]:
    """In the numeric rooms a number must not depend on what a user told NumPy to do about overflow and underflow."""
    numeric = request.node.nodeid.startswith(NUMERIC)
    with np.errstate(all="raise" if numeric else None):
        yield
