"""The validators: what passes, and how a refusal reads; what is refused is in tests/repository/test_bad_input.py."""

import math
import re
from fractions import Fraction

import numpy as np
import pytest

from dpml import arguments


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: arguments.real("q", 1.5, 0, 1), "q must be in [0, 1], got 1.5"),
        (lambda: arguments.real("sigma", math.nan, 0, low_open=True), "sigma must be in (0, inf), got nan"),
        (lambda: arguments.real("epsilon", -1, 0), "epsilon must be in [0, inf), got -1"),
        (lambda: arguments.real("delta", 1, 0, 1, high_open=True), "delta must be in [0, 1), got 1"),
        (lambda: arguments.real("x", np.array([1.0, 2.0])), "x must be in (-inf, inf), got an array of shape (2,)"),
        (
            lambda: arguments.array("x", np.array([1j]), shape=(1,)),
            "x must be an array of numbers in (-inf, inf) of shape (1,), got an array of shape (1,) of complex128",
        ),
        (lambda: arguments.real("q", "0.01"), "q must be in (-inf, inf), got '0.01', a str, not an int or float"),
        (lambda: arguments.real("x", np.float64(3), high=2), "x must be in (-inf, 2], got 3.0"),
        (lambda: arguments.integer("k", 2.5, 1), "k must be an integer >= 1, got 2.5"),
        (lambda: arguments.integer("m", 7, 1, 5), "m must be an integer in [1, 5], got 7"),
        (lambda: arguments.integer("m", 7, high=5), "m must be an integer <= 5, got 7"),
        (lambda: arguments.integer("m", "7"), "m must be an integer, got '7'"),
        (lambda: arguments.probability("delta", -0.1), "delta must be in [0, 1], got -0.1"),
        (
            lambda: arguments.generator("rng", 3),
            "rng must be a numpy.random.Generator, for example numpy.random.default_rng(0), got 3",
        ),
        (lambda: arguments.choice("kind", "x", ("a", "b")), 'kind must be one of "a", "b", got \'x\''),
        (
            lambda: arguments.array("y", [0.5, math.nan]),
            "y must be an array of numbers in (-inf, inf), got an element nan",
        ),
        (
            lambda: arguments.array("fpr", [0.5, 2], low=0.0, high=1.0),
            "fpr must be an array of numbers in [0, 1], got an element 2.0",
        ),
        (lambda: arguments.array("s", 1.0, ndim=1), "s must be an array with 1 dimension, got 1.0"),
        (lambda: arguments.array("s", [1.0], ndim=2), "s must be an array with 2 dimensions, got [1.0]"),
        (lambda: arguments.array("s", [1.0], shape=(2,)), "s must be an array of shape (2,), got [1.0]"),
        (lambda: arguments.array("s", [], min_size=1), "s must be an array of at least 1 element, got []"),
        (lambda: arguments.bits("bits", [0, 2]), "bits must be an array of zeros and ones, got [0, 2]"),
    ],
)
def test_messages(call, message):
    with pytest.raises(ValueError, match=rf"^{re.escape(message)}$"):
        call()


def test_minus_zero_becomes_zero():
    assert math.copysign(1.0, arguments.real("x", -0.0)) == pytest.approx(1.0)
    assert math.copysign(1.0, arguments.probability("x", np.float32(-0.0))) == pytest.approx(1.0)


def test_what_passes():
    for value in (2, 2.0, np.float32(2), np.int64(2), np.array(2.0), Fraction(2)):
        result = arguments.real("x", value, 0)
        assert type(result) is float
        assert result - 2 == pytest.approx(0)
    for value in (2, np.int8(2), np.uint64(2), np.array(2)):
        result = arguments.integer("k", value, 2, 2)
        assert type(result) is int
        assert result == 2
    assert arguments.integer("k", 10**400, 1) == 10**400
    rng = np.random.default_rng(0)
    assert arguments.generator("rng", rng) is rng
    assert arguments.choice("kind", "a", ("a", "b")) == "a"
    assert arguments.array("x", 3, ndim=0).shape == ()
    assert arguments.array("x", [[1, 2]], shape=(1, 2)).dtype == np.float64
    assert arguments.array("x", []).size == 0
    assert arguments.bits("x", [[True, False]]).tolist() == [[1, 0]]
    assert arguments.bits("x", [0.0, 1.0]).dtype == np.int8
    assert arguments.bits("x", True).shape == ()


def test_open_and_closed_ends():
    assert arguments.real("x", 1.0, 1.0, 2.0) == pytest.approx(1.0)
    assert arguments.real("x", 2.0, 1.0, 2.0) == pytest.approx(2.0)
    assert arguments.array("x", [1.0, 2.0], low=1.0, high=2.0).tolist() == [1.0, 2.0]
    for kwargs, value in (({"low_open": True}, 1.0), ({"high_open": True}, 2.0)):
        with pytest.raises(ValueError, match=r"^x must be"):
            arguments.real("x", value, 1.0, 2.0, **kwargs)
        with pytest.raises(ValueError, match=r"^x must be"):
            arguments.array("x", [value], low=1.0, high=2.0, **kwargs)


def test_messages_stay_short():
    for bad in (10**5000, "x" * 10_000, np.zeros((1000, 1000))):
        with pytest.raises(ValueError, match=r"^x must be") as caught:
            arguments.real("x", bad)
        assert len(str(caught.value)) < 150
