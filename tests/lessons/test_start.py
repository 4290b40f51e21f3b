"""The self-check of chapter 00: for each check the right answer in two ways, and wrong ones with their diagnosis."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpml.classroom.checks import NotYet
from dpml.lessons.start import checks as items

RIGHT: list[tuple[Callable[[Any], None], Any]] = [
    (items.check_ratio, math.exp(2)),
    (items.check_ratio, stats.laplace(0, 0.5).pdf(-0.5) / stats.laplace(1, 0.5).pdf(-0.5)),
    (items.check_tail, math.exp(-1.5) / 2),
    (items.check_tail, np.float64(stats.laplace(0, 2).sf(3))),
    (items.check_width, math.log(200)),
    (items.check_width, stats.laplace(0, 1).isf(0.05 / 10 / 2)),
    (items.check_jensen_gap, lambda values, p: p @ np.exp(values) - np.exp(p @ values)),
    (
        items.check_jensen_gap,
        lambda values, p: (np.average(np.exp(values), weights=p) - np.exp(np.average(values, weights=p))).item(),
    ),
    (items.check_gradient, -2 / (1 + math.e)),
    (items.check_gradient, (math.log1p(math.exp(-1.0002)) - math.log1p(math.exp(-0.9998))) / 0.0002),
    (items.check_normalise, lambda rows: rows / np.linalg.norm(rows, axis=1, keepdims=True)),
    (items.check_normalise, lambda rows: rows / np.sqrt((rows**2).sum(axis=1))[:, None]),
    (items.check_draws, "a and c"),
    (items.check_draws, " A and C "),
    (items.check_influence, 0.5),
    (items.check_influence, 50 * (1 / 100)),
    (items.check_meaning, "it is between 0.8 and 2"),
    (items.check_meaning, "It is between 0.8 and 2"),
]

WRONG: list[tuple[Callable[[Any], None], Any, str]] = [
    (items.check_ratio, math.exp(-2), "reverse"),
    (items.check_ratio, 2.0, "it is the logarithm of the ratio."),
    (items.check_ratio, stats.laplace(0, 0.5).pdf(-0.5) - stats.laplace(1, 0.5).pdf(-0.5), "difference"),
    (items.check_ratio, math.exp(0.5), "divided by the scale"),
    (items.check_ratio, math.exp(2) + 0.1, "cancel"),
    (items.check_tail, math.exp(-1.5), "both sides"),
    (items.check_tail, 1 - math.exp(-1.5) / 2, "staying below"),
    (items.check_tail, stats.laplace(0, 2).pdf(3), "density at 3"),
    (items.check_tail, math.exp(-6) / 2, "divided by the scale"),
    (items.check_width, math.log(20), "there are ten"),
    (items.check_width, math.log(100), "both sides"),
    (items.check_width, math.log(400), "e^{-t} already counts both sides"),
    (items.check_width, stats.expon.isf(1 - 0.95**0.1), "the union bound does not use independence"),
    (items.check_width, 10 * math.log(20), "multiplies the probability"),
    (items.check_width, math.log(10 / 0.95), "0.05 is allowed"),
    (items.check_jensen_gap, lambda v, p: np.exp(p @ v) - p @ np.exp(v), "exchanged"),
    (items.check_jensen_gap, lambda v, p: np.exp(v).mean() - np.exp(v.mean()), "weighs each value"),
    (items.check_jensen_gap, lambda v, p: p @ np.exp(v), "first term"),
    (items.check_jensen_gap, lambda v, p: 0.0, "exp(E[X])"),
    (items.check_jensen_gap, 0.3, "must be a function"),
    (items.check_gradient, 2 / (1 + math.e), "sign"),
    (items.check_gradient, -1 / (1 + math.e), "chain rule"),
    (items.check_gradient, -2 / (1 + math.exp(-1)), "slope at -w"),
    (items.check_gradient, math.log(1 + math.exp(-1)), "loss itself"),
    (items.check_normalise, lambda rows: rows / np.linalg.norm(rows, axis=0, keepdims=True), "axis 1"),
    (items.check_normalise, lambda rows: rows / np.linalg.norm(rows), "every row has its own"),
    (items.check_normalise, lambda rows: rows / np.abs(rows).sum(axis=1, keepdims=True), "absolute values"),
    (items.check_normalise, lambda rows: rows / np.linalg.norm(rows, axis=1), "keepdims"),
    (items.check_normalise, lambda rows: rows / np.sqrt((rows**2).sum(axis=1)), "keepdims"),
    (items.check_normalise, lambda rows: rows / rows.sum(axis=1, keepdims=True), "the sum of the entries"),
    (items.check_normalise, lambda rows: rows / (rows**2).sum(axis=1)[:, None], "the root is missing"),
    (items.check_normalise, lambda rows: rows / rows.max(), "Every row of the result must have length one."),
    (items.check_normalise, lambda rows: rows / rows.sum(axis=1), "could not be broadcast"),
    (items.check_draws, "a and b", "does not start again"),
    (items.check_draws, "b and c", "second draw"),
    (items.check_draws, "all three", "not among the possible answers"),
    (items.check_influence, 50, "change of the sum"),
    (items.check_influence, 5, "square root"),
    (items.check_influence, 50 / 99, "all 100"),
    (items.check_influence, "a half", "not a number"),
    (items.check_meaning, "it is 2", "upper bound"),
    (items.check_meaning, "it is 0.8", "one attack"),
    (items.check_meaning, "it is about 1.4", "two bounds"),
]

CHECKS = [check for name, check in vars(items).items() if name.startswith("check_")]


@pytest.mark.parametrize("check, answer", RIGHT)
def test_right_answers_pass(check: Callable[[Any], None], answer: Any, capsys: pytest.CaptureFixture[str]) -> None:
    check(answer)
    assert capsys.readouterr().out.startswith("✓ ")


@pytest.mark.parametrize("check, answer, diagnosis", WRONG)
def test_wrong_answers_get_their_diagnosis(check: Callable[[Any], None], answer: Any, diagnosis: str) -> None:
    with pytest.raises(NotYet) as verdict:
        check(answer)
    text = str(verdict.value)
    assert diagnosis in text and len(text.split()) <= 60
    # Keepdims is the cure for rows that do not broadcast, and for nothing else.
    assert ("keepdims" in text) == (diagnosis == "keepdims")


@pytest.mark.parametrize("check", CHECKS)
def test_a_blank_is_an_invitation(check: Callable[[Any], None], capsys: pytest.CaptureFixture[str]) -> None:
    check(...)
    assert capsys.readouterr().out.startswith("Your turn: ")


@pytest.mark.parametrize(
    "check, blank",
    [(items.check_jensen_gap, lambda values, probabilities: ...), (items.check_normalise, lambda rows: ...)],
)
def test_a_blank_function_is_an_invitation(
    check: Callable[[Any], None], blank: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    check(blank)
    assert capsys.readouterr().out.startswith("Your turn: ")


def test_every_check_is_tested() -> None:
    made = {value for name, value in vars(items).items() if name.startswith("check_") and inspect.isfunction(value)}
    assert set(CHECKS) == made
    for check in made:
        assert sum(1 for tested, _ in RIGHT if tested is check) >= 2
        assert sum(1 for tested, _, _ in WRONG if tested is check) >= 3
