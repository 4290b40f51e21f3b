"""The checks of chapter 16, project: first those of its text, then the student's own project, step by step.

Nothing is compared with a number of ours: what is right follows from the plan that is handed over. One record is one of
the 10,000 training images of Fashion-MNIST; neighbours differ in one added or removed image, unless an item says
otherwise. A plan is a dictionary with the keys of `PLAN`; the trials have `trial_noise` times the noise multiplier of
the final run.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml import data
from dpml.accounting import composition, guarantee, pld
from dpml.accounting.pld import losses
from dpml.audit.one_run import one_run_lower_bound, right_guesses
from dpml.classroom import checks, laws
from dpml.classroom.checks import Mistake, NotYet
from dpml.classroom.comparison import as_finite
from dpml.classroom.laws import Law
from dpml.classroom.verdict import kind, passed, require_written, shown

RECORDS = 10_000
PLAN = ("q", "expected_batch", "clip_norm", "steps", "trials", "trial_steps", "trial_noise", "epsilon", "delta")
NUMBERS = ("epsilon", "delta", "accuracy", "at least", "confidence")
WORDS = {
    "record": ("image", "person", "pixel"),
    "neighbours": guarantee.ADJACENCIES,
    "kind": guarantee.KINDS,
    "sampling": guarantee.SAMPLINGS,
}
"""What an entry of a statement may say."""

AGREE = 1 + 1e-5  # so far two accountants agree that bound the same epsilon from above


# ---- in the text of the chapter ----


def check_largest_group(answer: Any) -> None:
    """The largest group with a delta below 1, at (2, 1e-5) for a record."""
    grown = (composition.group_privacy(epsilon=2.0, delta=1e-5, size=size) for size in range(1, 100))
    most = sum(1 for group in grown if group.delta < 1.0)
    checks.number(
        answer,
        expected=most,
        name="largest_group",
        mistakes=[
            Mistake(math.ceil(1e5) - 1, "this grows δ by the size alone: it grows with a power of e^ε as well."),
            Mistake(most + 1, "at this size δ has passed 1: count the last one before."),
            Mistake(1, "one image has the δ that is promised. Let the group grow."),
        ],
        hint="Ask group_privacy for one size after another, and stop before δ is 1.",
    )


def check_best_of_five(answer: Any) -> None:
    """Epsilon of five runs of which the best is published."""

    def of(runs: int) -> float:
        return pld.epsilon(q=0.2, sigma=4.0, steps=60 * runs, delta=1e-5).epsilon

    checks.number(
        answer,
        expected=of(5),
        name="best_of_five",
        rel=2e-3,
        mistakes=[
            Mistake(of(1), "this is one run. Which one is the best was decided by looking at all five."),
            Mistake(5 * of(1), "the ε are added, which holds at 5 times the δ. The five runs are 300 steps."),
            Mistake(math.sqrt(5) * of(1), "the root of 5 is a rule of thumb. Ask the accountant for 300 steps."),
        ],
        hint="All five runs saw the records. How many steps are that?",
    )


# ---- the sheet: reading what is handed over ----


def _first(name: str, *mistakes: Mistake) -> None:
    """Raise the diagnosis of the first mistake that was made."""
    for made, diagnosis, _ in mistakes:
        if made:
            raise NotYet(f"{name}: {diagnosis}")


def _entries(answer: Any, keys: Iterable[str], *, name: str) -> Mapping[str, Any]:
    """The answer, if it is a dictionary that has these keys and no other."""
    require_written(answer, name=name)
    if not isinstance(answer, Mapping):
        raise NotYet(f"{name} must be a dictionary, but it is {kind(answer)}.")
    missing, extra = [key for key in keys if key not in answer], [key for key in answer if key not in set(keys)]
    _first(name, Mistake(missing == ["delta"], "δ is left out. An ε without its δ says nothing."))
    if missing or extra:
        told = f"there is no entry {missing[:1]}" if missing else f"the entry {str(extra[:1])[:40]} is not asked for"
        raise NotYet(f"{name}: {told}.")
    return answer


def _numbers(answer: Mapping[str, Any], keys: Iterable[str], *, name: str) -> dict[str, float]:
    """The finite numbers at these keys."""
    found = {}
    for key in keys:
        value = as_finite(answer[key])
        if isinstance(value, str):
            raise NotYet(f"{name}: the value at {key!r} {value}.")
        found[key] = value
    return found


def _plan(answer: Any) -> dict[str, float]:
    plan = _numbers(_entries(answer, PLAN, name="plan"), PLAN, name="plan")
    whole = all(plan[key].is_integer() for key in ("steps", "trials", "trial_steps"))
    usual = RECORDS * plan["q"]  # records in a batch, on average
    _first(
        "plan",
        Mistake(min(plan.values()) <= 0 or plan["q"] > 1, "all numbers are above 0, and q is at most 1."),
        Mistake(not whole, "steps, trials and trial_steps are whole numbers."),
        Mistake(
            plan["delta"] >= 1 / RECORDS,
            "with a δ of 1/n or more a program may publish each record in full with probability 1/n. Take less.",
        ),
        Mistake(plan["epsilon"] > 10, "above ε = 10 the statement would promise next to nothing."),
        Mistake(
            not 0.8 * usual < plan["expected_batch"] < 1.25 * usual,
            "the divisor is about what a batch has on average: 10,000 images, each with probability q.",
        ),
        Mistake(
            usual * (plan["steps"] + plan["trials"] * plan["trial_steps"]) > 400_000,
            "trials and final run look at more than 400,000 images, which takes minutes. Plan less.",
        ),
        Mistake(plan["trials"] < 2, "a single trial chooses nothing. Plan two or more."),
        Mistake(
            not 1 <= plan["trial_noise"] <= 100,
            "trial_noise is from 1 to 100: a trial need only rank, so give it the noise of the final run or more.",
        ),
    )
    return plan


def _sigma(answer: Any) -> float:
    require_written(answer, name="sigma")
    sigma = as_finite(answer)
    if isinstance(sigma, str) or not 0.1 <= sigma <= 1e4:
        raise NotYet("sigma: one noise multiplier from 0.1 to 10,000 is expected, that of the final run.")
    return sigma


@functools.cache
def _epsilon(q: float, delta: float, *parts: tuple[float, int]) -> float:
    """The epsilon of runs together, each a noise multiplier and a number of steps."""
    try:
        each = [(losses.poisson(losses.gaussian(sigma=sigma), q=q), steps) for sigma, steps in parts]
        return losses.compose(each, delta=delta).upper
    except ValueError as error:
        raise NotYet(f"plan and sigma: the accountant does not take these settings: {error}") from error


def _spent(plan: Mapping[str, float], sigma: float, *, trials: float, runs: int = 1) -> float:
    """What so many trials and so many final runs cost together."""
    parts = [(plan["trial_noise"] * sigma, int(trials * plan["trial_steps"])), (sigma, runs * int(plan["steps"]))]
    return _epsilon(plan["q"], plan["delta"], *(part for part in parts if part[1]))


# ---- the sheet ----


def check_plan(answer: Any) -> None:
    """Settings that fit each other and the data."""
    plan = _plan(answer)
    passed("plan", f"its numbers fit each other, and the target is ({plan['epsilon']:g}, {plan['delta']:g})")


def check_sigma(answer: Any, plan: Any) -> None:
    """The noise of the final run: trials and run together meet the plan's own target, and use it."""
    sigma, settings = _sigma(answer), _plan(plan)
    target, alone = settings["epsilon"], _spent(settings, sigma, trials=0)
    total = _spent(settings, sigma, trials=settings["trials"])
    spends = f"ε is {total:.6g} for trials and final run together, with a target of {target:g}."
    _first(
        "sigma",
        Mistake(
            alone <= target * AGREE < total,
            f"this noise meets the target for the final run alone. The trials saw the same images: {spends}",
        ),
        Mistake(total > target * AGREE, f"{spends} Raise the noise."),
        Mistake(
            total < 0.98 * target,
            f"{spends} Spend 98 % of it or more: all runs are one composition of Poisson samples, and a sum of their "
            "ε wastes some.",
        ),
    )
    passed("sigma", f"trials and final run together have ε = {total:.4g}, of your target {target:g}")


def check_total(answer: Any, plan: Any, sigma: Any) -> None:
    """Epsilon of all that was done to the records."""
    require_written(answer, name="total")
    settings, noise = _plan(plan), _sigma(sigma)
    right, alone, winner = (_spent(settings, noise, trials=count) for count in (settings["trials"], 0, 1))
    trial = _spent(settings, noise, trials=1, runs=0)
    mistakes = [
        Mistake(alone, "this is the final run alone. The trials saw the same records, also those thrown away."),
        Mistake(alone + settings["trials"] * trial, "this adds up all ε, which holds at as many times the δ."),
        Mistake(winner, "this counts the trial that won. The others saw the records too."),
    ]
    checks.number(
        answer,
        expected=right,
        name="total",
        rel=2e-3,
        mistakes=[mistake for mistake in mistakes if abs(mistake.wrong / right - 1.0) > 0.004],
        hint="List every run that looked at the images, each with its noise and its steps, and compose all of them.",
    )


def check_noisy_accuracies(answer: Any) -> None:
    """The accuracies of several trials on the same private records, epsilon-DP together, one record replaced."""

    def spread(scale: Any) -> Any:
        def law(right: Any, *, epsilon: float, noise: float = 1.0) -> list[Law]:
            trials, records = np.shape(right)
            return laws.each(
                np.mean(right, axis=1), lambda mean: laws.laplace(mean, noise * scale(trials, records, epsilon))
            )

        return law

    def rows(*ones: int, of: int) -> NDArray[np.int64]:
        return np.array([[int(i < count) for i in range(of)] for count in ones])

    checks.law(
        answer,
        name="noisy_accuracies",
        law=spread(lambda k, n, epsilon: k / (n * epsilon)),
        settings=checks.settings(
            "right epsilon",
            (rows(5, 5, 5, of=10), 1.0),
            (rows(6, 6, 6, of=10), 1.0),
            (rows(3, 1, of=4), 2.0),
            (rows(30, 45, 12, 50, of=50), 0.5),
            (rows(9, 0, of=12), 3.0),
        ),
        neighbours=[(0, 1)],
        wrong=[
            Mistake(
                lambda right, **_: [laws.certain(float(mean)) for mean in np.mean(right, axis=1)],
                "the accuracies are released as they are. They were computed from private records.",
            ),
            Mistake(
                spread(lambda k, n, epsilon: 1 / (n * epsilon)),
                "each accuracy spends all of ε. One record counts in every one of them.",
            ),
            Mistake(
                spread(lambda k, n, epsilon: k / epsilon),
                "the noise is that of a count. A mean of n records moves by 1/n only.",
            ),
            Mistake(
                spread(lambda k, n, epsilon: math.sqrt(k) / (n * epsilon)),
                "the root of the number of trials is for Gaussian noise. Laplace noise goes by the L1 norm.",
            ),
        ],
    )


def check_best_of(answer: Any) -> None:
    """Chances (p, p_prime) of a success of one trial on D and D', and a number of trials, that refute the claim."""

    def read(value: Any) -> tuple[float, float, int]:
        if not isinstance(value, (tuple, list)) or len(value) != 3 or any(isinstance(as_finite(v), str) for v in value):
            raise ValueError("give three numbers (p, p_prime, k).")
        p, p_prime, k = (float(v) for v in value)
        if not (0 < p < 1 and 0 < p_prime < 1):
            raise ValueError("p and p_prime are probabilities between 0 and 1.")
        if not (k.is_integer() and 1 <= k <= 1e6):
            raise ValueError("k is a whole number from 1 to 1,000,000.")
        return p, p_prime, int(k)

    def loss(p: float, p_prime: float, k: int) -> float:
        """The largest privacy loss of "one of k trials succeeded" and of "none did"."""
        none, none_prime = k * math.log1p(-p), k * math.log1p(-p_prime)
        return max(abs(math.log(math.expm1(none) / math.expm1(none_prime))), abs(none - none_prime))

    def test(value: Any) -> str | None:
        p, p_prime, k = read(value)
        if loss(p, p_prime, 1) > 1 + 1e-9:
            return f"one trial alone has ε = {loss(p, p_prime, 1):.3g}, more than the 1 of which the claim speaks."
        together = loss(p, p_prime, k)
        return None if together > 1 + 1e-6 else f"the best of {k} has ε = {together:.3g}. Look at “none succeeded”."

    checks.counterexample(
        answer,
        test=test,
        name="best_of",
        mistakes=[
            Mistake(lambda v: read(v)[2] == 1, "the best of one trial is that trial.", example=(0.5, 0.3, 1)),
            Mistake(
                lambda v: read(v)[0] == read(v)[1],
                "with equal chances on D and D′ no number of trials tells them apart.",
                example=(0.3, 0.3, 5),
            ),
        ],
        shows=lambda v: f"one trial has ε = {loss(*read(v)[:2], 1):.3g}, the best of {read(v)[2]} {loss(*read(v)):.3g}",
    )


def _same(found: float, expected: float, rel: float = 1e-6) -> bool:
    return abs(found - expected) <= rel * expected


def _check_guarantee(guarantee: Any, plan: Mapping[str, float], sigma: float, *, name: str) -> None:
    """The label of a run of DP-SGD with the plan's settings."""
    expected = pld.epsilon(q=plan["q"], sigma=sigma, steps=int(plan["steps"]), delta=plan["delta"]).epsilon
    _first(
        name,
        Mistake(math.isinf(guarantee.epsilon), "the run has no ε: it was trained without noise."),
        Mistake(
            (guarantee.adjacency, guarantee.sampling) != ("add/remove", "Poisson"),
            "its batches were no Poisson samples: of a fixed size, or all images. The plan has a probability q.",
        ),
        Mistake(
            guarantee.public != "none",
            "the run computed its divisor from n, and says so. Give the sampler the plan's expected_batch.",
        ),
        Mistake(not _same(guarantee.delta, plan["delta"]), "the guarantee of the run has another δ than the plan."),
        Mistake(
            not _same(guarantee.epsilon, expected),
            "the guarantee of the run is not that of the plan's q and steps with your sigma. Which one differs?",
        ),
    )


def check_run(answer: Any, plan: Any, sigma: Any) -> None:
    """The final run: its guarantee is the plan's, it drew from all the records, and the model is of some use."""
    require_written(answer, name="run")
    settings, noise = _plan(plan), _sigma(sigma)
    from dpml.training.trace import Run

    if not isinstance(answer, Run):
        raise NotYet(f"run must be what train returns, but it is {kind(answer)}.")
    _check_guarantee(answer.guarantee, settings, noise, name="run")
    drawn, mean = float(answer.trace.examples.sum()), RECORDS * settings["q"] * settings["steps"]
    apart = 6.0 * math.sqrt(mean) + 1.0  # of a binomial number, whose variance is at most its mean
    accuracy = _accuracy(answer.model)
    _first(
        "run",
        Mistake(
            abs(drawn - mean) > apart,
            "its batches do not have the size that q gives on 10,000 records: it was on fewer, or on more.",
        ),
        Mistake(
            answer.trace.other,
            "it is of another mechanism than DP-SGD, which reports nothing of its own. Train with dp_sgd.",
        ),
        Mistake(accuracy < 0.5, "less than half of the test images are right. Change the learning rate, or the plan."),
    )
    passed("run", f"{answer.guarantee} The model is right on {accuracy:.1%} of the test images")


def _accuracy(model: Any) -> float:
    """The share of the 2,000 test images that a model gets right; they are standardised by `models.to_tensors`."""
    from dpml.training import models

    images = data.fashion_mnist_subset()
    try:
        x, y = models.to_tensors(images.test_images), models.to_labels(images.test_labels)
        return models.accuracy(model, x=x, y=y)
    except (ValueError, RuntimeError, TypeError) as error:
        raise NotYet("run: its model does not take test_x, the images as the sheet prepares them.") from error


def check_audited(answer: Any, plan: Any, sigma: Any) -> None:
    """An audit in one run of the same mechanism, with its evidence counted again."""
    require_written(answer, name="audited")
    settings, noise = _plan(plan), _sigma(sigma)
    from dpml.training.leakage import CanaryAudit

    if not isinstance(answer, CanaryAudit):
        raise NotYet(f"audited must be what dirac_audit returns, but it is {kind(answer)}.")
    _check_guarantee(answer.run.guarantee, settings, noise, name="audited")
    evidence, coins = answer.evidence, answer.included.numpy().astype(int)
    guesses, canaries = evidence.guesses, len(coins)
    correct = right_guesses(answer.scores.double().numpy(), included=coins, guesses=guesses)
    how = {"delta": settings["delta"], "confidence": evidence.confidence}
    again = one_run_lower_bound(correct=correct, guesses=guesses, canaries=canaries, **how)
    _first(
        "audited",
        Mistake(evidence.confidence < 0.95, "an audit that may be wrong more than once in twenty shows little."),
        Mistake(canaries < 200, "fewer than 200 canaries show little, whatever leaks. Give it more places."),
        Mistake(
            not _same(evidence.epsilon_at_least, again.epsilon_at_least),
            "its bound is not the one that its own coins, scores and number of guesses give.",
        ),
        Mistake(
            again.epsilon_at_least > answer.run.guarantee.epsilon,
            "the bound is above the guarantee. Bad luck of one in twenty, or a bug: look for the bug first.",
        ),
    )
    passed("audited", f"{correct} of {guesses} guesses are right, so ε is at least {again.epsilon_at_least:.3g}")


def check_statement(answer: Any, plan: Any, sigma: Any, run: Any, audited: Any) -> None:
    """The privacy statement: it says what holds of these runs, all of it, and no more."""
    said = _entries(answer, (*NUMBERS, *WORDS, "tuning covered", "n public", "not promised"), name="statement")
    settings, noise = _plan(plan), _sigma(sigma)
    number = _numbers(said, NUMBERS, name="statement")
    for key, options in WORDS.items():
        if not isinstance(said[key], str) or said[key] not in options:
            listed = ", ".join(f"“{one}”" for one in options)
            raise NotYet(f"statement: its entry {key!r} is one of {listed}, but it is {shown(said[key], width=40)}.")
    if not hasattr(run, "model") or not hasattr(audited, "evidence"):
        raise NotYet("statement: it is about the run and the audit of the items before. Let their checks pass first.")
    total, alone = (_spent(settings, noise, trials=count) for count in (settings["trials"], 0))
    least, sure = audited.evidence.epsilon_at_least, audited.evidence.confidence
    _check_guarantee(run.guarantee, settings, noise, name="run")
    _check_guarantee(audited.run.guarantee, settings, noise, name="audited")
    accuracy, below = _accuracy(run.model), number["epsilon"] < total / AGREE
    _first(
        "statement",
        Mistake(
            below and _same(number["epsilon"], least, 0.01),
            "a lower bound is quoted as a guarantee. The audit says ε at least; the promise is ε at most.",
        ),
        Mistake(
            below and _same(number["epsilon"], alone, 0.01),
            "this is the ε of the final run. The trials saw the same images, and the learning rate tells of them.",
        ),
        Mistake(below, "this ε is below what holds for all runs together. Round it up."),
        Mistake(number["epsilon"] > 1.021 * total, "this ε is larger than the one of all runs together."),
        Mistake(not _same(number["delta"], settings["delta"], 1e-3), "this δ is not the plan's."),
        Mistake(
            said["record"] != "image",
            "one image is added or removed, and no more is protected: a person may be in several.",
        ),
        Mistake(
            said["neighbours"] != "add/remove",
            "add/remove is what was accounted. To replace an image is two such steps.",
        ),
        Mistake(
            said["kind"] != "upper bound",
            "the number is an “upper bound”: proved, for all data, not measured, and perhaps not the least.",
        ),
        Mistake(
            said["sampling"] != "Poisson",
            "say the sampling that was done, which is also the one accounted.",
        ),
        Mistake(said["tuning covered"] not in [True], "the trials are in the total, so ε covers the choice."),
        Mistake(
            said["n public"] not in [False],
            "rate and divisor are numbers that were fixed without the images: n is protected too, so False.",
        ),
        Mistake(
            not math.floor(90 * least) / 100 <= number["at least"] <= least * AGREE
            or not _same(number["confidence"], sure),
            "“at least” and “confidence”, a share from 0 to 1, are those of the audit, its ε rounded down.",
        ),
        Mistake(
            min(abs(number["accuracy"] - round(accuracy, digits)) for digits in (2, 3, 4)) > 1e-4,
            "this is not the accuracy of run.model on the 2,000 test images, as a share from 0 to 1.",
        ),
        Mistake(
            len(str(said["not promised"]).split()) < 12,
            "say in 12 words or more what is not promised: whom ε does not cover, what may still be learned.",
        ),
    )
    passed("statement", f"it says what holds of your runs: (ε, δ) = ({number['epsilon']:g}, {number['delta']:g})")


def check_withdrawal(answer: Any) -> None:
    """What a second release from the same records asks of the statement."""
    checks.argument(
        answer,
        name="withdrawal",
        rubric=[
            "The first model is published and cannot be taken back: what it tells of the person stays told, within ε.",
            "The second model is a further release about everybody who is in both sets: their two ε compose.",
            "For the one who left, only the first release counts; for the new ones, only the second.",
            "The second statement names the first, and gives the total at a δ for both.",
        ],
        question="A person is in both data sets: at which δ does your total hold?",
    )
