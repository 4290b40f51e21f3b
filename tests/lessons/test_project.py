"""Answers to the exercises of chapter 16, right and wrong; `test_answers` tries them.

Runs and audits are made by hand: no network is trained. The sheet's own solution trains.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from book.ext import mistakes
from dpml import data
from dpml.accounting import composition, pld
from dpml.audit import one_run
from dpml.lessons.project import checks as items
from dpml.lessons.project import explorers
from dpml.training import dp_sgd, models, sgd
from dpml.training.leakage import CanaryAudit
from dpml.training.mechanism import together
from dpml.training.sampling import FixedSize, FullBatch, Poisson
from dpml.training.trace import Run, Trace
from tests.lessons.answers import Several, told

PLAN = {"q": 0.05, "expected_batch": 500, "clip_norm": 1.0, "steps": 50, "trials": 2, "trial_steps": 20}
SAMPLING = Poisson(q=0.05, expected_batch=500.0)


@functools.cache
def spent(sigma: float, *, trials: int = 2, runs: int = 1) -> float:
    """By the mechanisms of training, where the check uses the accountant's own losses."""
    parts = [(dp_sgd(sigma=3 * sigma, clip_norm=1.0), SAMPLING, 20)] * trials
    parts += [(dp_sgd(sigma=sigma, clip_norm=1.0), SAMPLING, 50)] * runs
    return together(parts, n=10_000, delta=1e-6).epsilon


SIGMA = 1.5
TOTAL, ALONE = spent(SIGMA), spent(SIGMA, trials=0)
PLAN |= {"trial_noise": 3.0, "epsilon": 1.005 * TOTAL, "delta": 1e-6}
ADDED = ALONE + 2 * pld.epsilon(q=0.05, sigma=3 * SIGMA, steps=20, delta=1e-6).epsilon
SETTINGS = {"plan": PLAN, "sigma": SIGMA}


@functools.cache
def nearest_mean(strength: float = 1.0) -> nn.Module:
    """A model that needs no training: an image belongs to the class whose mean is nearest. Below 0: the farthest."""
    images = data.fashion_mnist_subset()
    x, y = models.to_tensors(images.train_images).flatten(1), images.train_labels
    means = torch.stack([x[torch.from_numpy(y == k)].mean(0) for k in range(10)])
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    with torch.no_grad():
        model[1].weight.copy_(strength * means)
        model[1].bias.copy_(-strength * means.square().sum(1) / 2)
    return model


def run_of(
    mechanism: Any = None, *, sampling: Any = SAMPLING, delta: float = 1e-6, steps: int = 50, **other: Any
) -> Run:
    """What a run of these settings leaves behind, without the run."""
    mechanism = mechanism or dp_sgd(sigma=SIGMA, clip_norm=1.0)
    guarantee = mechanism.guarantee(sampling=sampling, n=10_000, steps=steps, delta=delta)
    one = {name: np.ones(1) for name in ("loss", "clipped", "accuracy")}
    drawn, seen = np.array([other.pop("drawn", 25_000)]), other.pop("seen", {})
    trace = Trace(np.array([steps]), drawn, norms=np.ones((1, 5)), guarantees=(guarantee,), other=seen, **one)
    return Run(other.pop("model", nearest_mean()), trace, guarantee, steps)


def audit_of(run: Run, *, canaries: int = 400, guesses: int = 100, confidence: float = 0.95, shift: float = 0.8) -> Any:
    """An audit with canaries whose scores differ by this shift."""
    rng = np.random.default_rng(1)
    coins = rng.integers(0, 2, canaries)
    scores = rng.normal(size=canaries) + shift * coins
    correct = one_run.right_guesses(scores, included=coins, guesses=guesses)
    how = {"guesses": guesses, "canaries": canaries, "delta": 1e-6, "confidence": confidence}
    found = one_run.one_run_lower_bound(correct=correct, **how)
    return CanaryAudit(run, found, torch.from_numpy(coins == 1), torch.from_numpy(scores))


RUN = run_of()
AUDIT = audit_of(RUN)
ACCURACY = models.accuracy(
    nearest_mean(),
    x=models.to_tensors(data.fashion_mnist_subset().test_images),
    y=models.to_labels(data.fashion_mnist_subset().test_labels),
)
PROVED = AUDIT.evidence.epsilon_at_least
STATEMENT = {"record": "image", "neighbours": "add/remove", "epsilon": TOTAL, "delta": 1e-6}
STATEMENT |= {"kind": "upper bound", "sampling": "Poisson", "tuning covered": True, "n public": False}
STATEMENT |= {"accuracy": round(ACCURACY, 3), "at least": PROVED, "confidence": 0.95}
STATEMENT["not promised"] = "anything to a person with several images, or that nothing about clothes is learned"


def plan(**changed: Any) -> dict[str, Any]:
    return PLAN | changed


def noise(sigma: Any) -> Several:
    return Several(sigma, {"plan": PLAN})


def given(answer: Any) -> Several:
    return Several(answer, SETTINGS)


def said(**changed: Any) -> Several:
    answer = STATEMENT | {name.replace("_", " "): value for name, value in changed.items()}
    return Several(answer, SETTINGS | {"run": RUN, "audited": AUDIT})


def without(key: str) -> Several:
    answer = {name: value for name, value in STATEMENT.items() if name != key}
    return Several(answer, SETTINGS | {"run": RUN, "audited": AUDIT})


def one_by_one(right: Any, *, epsilon: float, rng: np.random.Generator) -> list[float]:
    """Each trial with its share of epsilon."""
    share = epsilon / len(right)
    return [row.mean() + rng.laplace(0.0, 1 / (len(row) * share)) for row in right]


def by_counts(right: Any, *, epsilon: float, rng: np.random.Generator) -> Any:
    counts = np.sum(right, axis=1)
    scale = len(counts) / epsilon
    return (counts + scale * (rng.exponential(size=len(counts)) - rng.exponential(size=len(counts)))) / right.shape[1]


RIGHT = {
    items.check_largest_group: [6, float(sum(1e-5 * math.expm1(2 * k) / math.expm1(2) < 1 for k in range(1, 30)))],
    items.check_best_of_five: [
        together([(dp_sgd(sigma=4.0, clip_norm=1.0), Poisson(q=0.2), 60)] * 5, n=1000, delta=1e-5).epsilon,
        pld.epsilon_bounds(q=0.2, sigma=4.0, steps=300, delta=1e-5).lower,
    ],
    items.check_plan: [PLAN, plan(q=np.float64(0.02), expected_batch=200, steps=100, trials=5, epsilon=8)],
    items.check_sigma: [noise(SIGMA), noise(np.float64(1.004 * SIGMA))],
    items.check_total: [given(TOTAL), given(np.array([TOTAL]))],
    items.check_noisy_accuracies: [one_by_one, by_counts],
    items.check_best_of: [(0.4, 0.2, 30), [np.float64(1 / (1 + math.e)), 0.5, 100]],
    items.check_run: [given(RUN), given(run_of(drawn=25_500, model=nn.Sequential(nearest_mean(), nn.Identity())))],
    items.check_audited: [given(AUDIT), given(audit_of(RUN, canaries=1000, guesses=50, confidence=0.99))],
    items.check_statement: [said(), said(epsilon=1.01 * TOTAL, tuning_covered=np.bool_(True))],
}

WRONG = {
    items.check_plan: [
        (plan(delta=1e-4), "with probability 1/n"),
        (plan(delta=0.0), "above 0"),
        (plan(q=500), "q is at most 1"),
        (plan(steps=2.5), "whole numbers"),
        (plan(epsilon=20), "next to nothing"),
        (plan(expected_batch=0.05), "what a batch has on average"),
        (plan(steps=5000), "takes minutes"),
        (plan(trials=1), "chooses nothing"),
        (plan(trial_noise=0.5), "need only rank"),
        (plan(trial_noise="twice"), "'trial_noise' is text"),
        ({name: value for name, value in PLAN.items() if name != "delta"}, "without its δ"),
        ({"q": 0.05}, "no entry ['expected_batch']"),
        (plan(sigma=1.0), "['sigma'] is not asked for"),
        ([0.05, 500], "must be a dictionary"),
    ],
    items.check_sigma: [
        (noise(pld.noise_multiplier(q=0.05, steps=50, epsilon=PLAN["epsilon"], delta=1e-6)), "for the final run alone"),
        (noise(0.8 * SIGMA), "Raise the noise"),
        (
            noise(pld.noise_multiplier(q=1.0, steps=50, epsilon=PLAN["epsilon"], delta=1e-6)),
            "one composition of Poisson samples",
        ),
        (noise(1.05 * SIGMA), "Spend 98 %"),
        (noise(0.0), "from 0.1 to 10,000"),
        (Several(SIGMA, {"plan": plan(trials=1)}), "plan: a single trial"),
    ],
    items.check_total: [
        (given(ADDED), "adds up all ε"),
        (given(spent(SIGMA, runs=2)), "compose all of them"),
    ],
    items.check_noisy_accuracies: [
        (lambda right, *, epsilon, rng: one_by_one(right, epsilon=2 * epsilon, rng=rng), "half of what is needed"),
    ],
    items.check_best_of: [
        ((0.9, 0.1, 2), "one trial alone has"),
        ((0.0012, 0.001, 3), "none succeeded"),
        ((0.5, 1.0, 3), "probabilities between"),
        ((0.5, 0.4, 2.5), "whole number"),
        ((0.5, 0.4), "three numbers"),
    ],
    items.check_run: [
        (given(run_of(sgd())), "without noise"),
        *((given(run_of(sampling=s)), "no Poisson samples") for s in (FixedSize(m=500), FullBatch(expected_batch=5e2))),
        (given(run_of(sampling=Poisson(q=0.05))), "computed its divisor from n"),
        (given(run_of(delta=1e-5)), "another δ"),
        (given(run_of(dp_sgd(sigma=1.1 * SIGMA, clip_norm=1.0))), "Which one differs"),
        (given(run_of(steps=49)), "Which one differs"),
        (given(run_of(drawn=23_000)), "on fewer"),
        (given(run_of(drawn=27_000)), "on more"),
        (given(run_of(seen={"trim": np.ones(1)})), "another mechanism"),
        (given(run_of(model=nearest_mean(-1.0))), "less than half"),
        (given(run_of(model=nn.Linear(64, 10))), "does not take test_x"),
        (given(RUN.guarantee), "what train returns"),
    ],
    items.check_audited: [
        (given(audit_of(run_of(dp_sgd(sigma=2 * SIGMA, clip_norm=1.0)))), "Which one differs"),
        (given(audit_of(RUN, confidence=0.9)), "more than once in twenty"),
        (given(audit_of(RUN, canaries=150)), "fewer than 200"),
        (given(AUDIT._replace(scores=AUDIT.scores.flip(0))), "its own coins"),
        (given(audit_of(RUN, canaries=2000, guesses=200, shift=9.0)), "look for the bug"),
        (given(AUDIT.evidence), "what dirac_audit returns"),
    ],
    items.check_statement: [
        (said(epsilon=ALONE), "the ε of the final run"),
        (said(epsilon=PROVED), "a lower bound is quoted"),
        (said(epsilon=0.7 * TOTAL), "below what holds"),
        (said(epsilon=0.9992 * TOTAL), "below what holds"),
        (said(epsilon=1.3 * TOTAL), "larger than the one"),
        (said(delta=1e-5), "not the plan's"),
        (said(record="person"), "no more is protected"),
        (said(record="one image, anonymous"), "is one of “image”, “person”, “pixel”"),
        (said(neighbours="replace-one"), "two such steps"),
        (said(kind="exact"), "proved, for all data"),
        (said(sampling="without replacement"), "the sampling that was done"),
        (said(sampling="Poisson, shuffled"), "is one of"),
        (said(tuning_covered=False), "covers the choice"),
        (said(n_public=True), "n is protected too"),
        (said(at_least=0.0), "those of the audit"),
        (said(at_least=1.008 * PROVED), "those of the audit"),
        (said(confidence=0.99), "those of the audit"),
        (said(accuracy=100 * ACCURACY), "from 0 to 1"),
        (said(accuracy=ACCURACY + 0.0028), "from 0 to 1"),
        (said(not_promised="nothing"), "12 words"),
        (Several(STATEMENT, SETTINGS | {"run": run_of(sgd()), "audited": AUDIT}), "without noise"),
        (Several(STATEMENT, SETTINGS | {"run": RUN, "audited": audit_of(run_of(steps=49))}), "Which one differs"),
        (said(accuracy="good"), "'accuracy' is text"),
        (without("delta"), "without its δ"),
        (without("kind"), "no entry ['kind']"),
        (Several(STATEMENT, SETTINGS | {"run": None, "audited": None}), "Let their checks pass first"),
    ],
}


@pytest.mark.parametrize("check", ["plan", "sigma", "run", "audited", "statement"])
def test_every_mistake_of_a_project_is_told(check: str) -> None:
    """Those that depend on a student's own numbers, which `test_every_mistake` cannot feed back."""
    asked = {getattr(items, f"check_{name}") for name in (check, "plan", "run")}  # their readers are shared
    messages = [told(one, answer) for one in asked for answer, _ in WRONG[one]]
    known = mistakes.diagnoses("project")[f"check_{check}"]
    assert known
    missing = [text for text in known if not any(text.split("…")[-1].strip()[:60] in one for one in messages)]
    assert missing == []


def test_the_group_is_the_last_one_that_is_promised_anything() -> None:
    deltas = [composition.group_privacy(epsilon=2.0, delta=1e-5, size=size).delta for size in (6, 7)]
    assert deltas[0] < 1.0 and deltas[1] == pytest.approx(1.0)


def test_both_parts_of_a_split_together_meet_the_target() -> None:
    """The sum of the epsilons is what is split; accounted as one, the same runs have less."""
    figure = explorers.budget_split()
    for share, trials in itertools.product((0.1, 0.5, 0.9), (1, 8)):
        final, trial = (float(value) for value in figure.frame(share=share, trials=trials).marks[-1].y)
        runs = [(dp_sgd(sigma=trial, clip_norm=1.0), Poisson(q=explorers.RATE), trials * explorers.TRIAL_STEPS)]
        runs.append((dp_sgd(sigma=final, clip_norm=1.0), Poisson(q=explorers.RATE), explorers.STEPS))
        assert together(runs, n=1000, delta=explorers.DELTA).epsilon < explorers.EPSILON
        parts = [together([one], n=1000, delta=explorers.DELTA / 2).epsilon for one in runs]
        assert sum(parts) == pytest.approx(explorers.EPSILON, rel=1e-3)
