"""The three printed mistakes: each claims the epsilon of the right update, and an audit refutes it."""

import inspect

import numpy as np
import pytest
import torch

from dpml.accounting import pld
from dpml.audit import samples
from dpml.training import broken
from dpml.training.dpsgd import update
from tests.training.helpers import seeded

DELTA, SIGMA, RUNS, CONFIDENCE = 1e-5, 4.0, 20_000, 1.0 - 1e-6
CLAIMED = pld.epsilon(q=1.0, sigma=SIGMA, steps=1, delta=DELTA).epsilon

CASES = {
    # name: (broken update, clip norm, learning rate, gradients of the others, gradient of the one record)
    "coordinates": (broken.update_clipping_each_coordinate, 0.1, 1.0, [[0.0, 0.0]] * 9, [-5.0, 0.0]),
    "mean": (broken.update_clipping_the_mean, 1.0, 1.0, [[0.0, 0.0]] * 99, [1000.0, 0.0]),
    "noise": (broken.update_noise_outside_learning_rate, 1.0, 10.0, [[0.0, 0.0]] * 9, [3.0, 0.0]),
}


def audit(step, clip_norm, learning_rate, others, record):
    """epsilon at least, from 20,000 runs with and 20,000 without the record; wrong with probability at most 1e-6."""
    scores = []
    for seed, rows in ((1, [*others, record]), (2, others)):
        gradients = torch.tensor(rows, dtype=torch.float64).expand(RUNS, -1, -1)
        after = step(
            torch.zeros(RUNS, 2, dtype=torch.float64),
            gradients=gradients,
            sigma=SIGMA,
            clip_norm=clip_norm,
            learning_rate=learning_rate,
            expected_batch=float(len(others) + 1),
            generator=seeded(seed),
        )
        scores.append(after[:, 0].numpy())
    return samples.epsilon_lower_bound_from_scores(
        scores[0], scores_neighbour=scores[1], delta=DELTA, confidence=CONFIDENCE, rng=np.random.default_rng(0)
    ).epsilon_at_least


@pytest.mark.parametrize("name", CASES)
def test_the_audit_refutes_the_broken_update_and_not_the_right_one(name):
    step, *case = CASES[name]
    assert pytest.approx(0.926342, abs=1e-6) == CLAIMED
    assert audit(step, *case) > 2.0 * CLAIMED
    assert audit(update, *case) <= CLAIMED


def run(step, gradients, **changes):
    gradients = torch.tensor(gradients, dtype=torch.float64)
    arguments = {"sigma": 0.0, "clip_norm": 1.0, "learning_rate": 1.0, "expected_batch": 1.0, **changes}
    start = torch.zeros(gradients.shape[-1], dtype=torch.float64)
    return (-step(start, gradients=gradients, generator=seeded(), **arguments)).tolist()


@pytest.mark.parametrize(
    ("gradient", "clip_norm", "printed", "right"),
    [
        ([-5.0, 0.0], 0.1, [-1.0, 0.0], [-0.1, 0.0]),
        ([3.0, 4.0], 0.5, [0.5, 0.5], [0.3, 0.4]),
        ([0.003, 0.004], 1.0, [0.6, 0.8], [0.003, 0.004]),
        ([0.0, 0.0], 1.0, [0.0, 0.0], [0.0, 0.0]),
    ],
)
def test_the_printed_minimum(gradient, clip_norm, printed, right):
    found = run(broken.update_clipping_each_coordinate, [gradient], clip_norm=clip_norm)
    assert found == pytest.approx(printed, abs=1e-12)
    assert run(update, [gradient], clip_norm=clip_norm) == pytest.approx(right, abs=1e-12)


@pytest.mark.parametrize(("learning_rate", "epsilon"), [(0.1, 0.0749417), (1.0, 0.926342), (10.0, 13.2067)])
def test_the_printed_place_of_the_noise(learning_rate, epsilon):
    """The noise multiplier is sigma / eta, measured on 200,000 values (4 standard errors are 0.6 %)."""
    arguments = {"sigma": SIGMA, "clip_norm": 1.0, "learning_rate": learning_rate, "expected_batch": 1.0}
    start = torch.zeros(200_000, dtype=torch.float64)
    zeros = torch.zeros(1, 200_000, dtype=torch.float64)
    moved = broken.update_noise_outside_learning_rate(start, gradients=zeros, generator=seeded(), **arguments)
    assert float(moved.std()) / learning_rate == pytest.approx(SIGMA / learning_rate, rel=0.006)
    found = pld.epsilon(q=1.0, sigma=SIGMA / learning_rate, steps=1, delta=DELTA).epsilon
    assert found == pytest.approx(epsilon, rel=1e-5)


@pytest.mark.parametrize("name", broken.__all__)
def test_each_says_what_is_printed_and_what_is_implemented(name):
    step = getattr(broken, name)
    text = inspect.getdoc(step)
    assert text.count("\nPrinted: ") == text.count("\nImplemented: ") == text.count("\nSource: ") == 1
    assert "rivate" in text.splitlines()[0]
    assert list(inspect.signature(step).parameters) == list(inspect.signature(update).parameters)
    with pytest.raises(ValueError, match=r"^clip_norm must"):
        run(step, [[1.0]], clip_norm=0.0)
