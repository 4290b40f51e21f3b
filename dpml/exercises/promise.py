r"""Checks of the exercises of chapter 01, What differential privacy promises.

Neighbouring datasets differ in the value of one of n records (replace-one). A release M is epsilon-DP if for all
neighbours D, D' and every set S of outputs

.. math::

    \Pr[M(D) \in S] \le e^\varepsilon \Pr[M(D') \in S] .
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtr

from dpml import arguments, mechanisms
from dpml.audit import samples
from dpml.classroom import checks
from dpml.classroom.checks import Mistake
from dpml.exercises.promise_mechanisms import check_estimate_share, check_private_mean, check_randomized_response

__all__ = [
    "check_counterexample",
    "check_delta_of_classic",
    "check_estimate_share",
    "check_mean_noise",
    "check_mean_sensitivity",
    "check_post_processing",
    "check_private_mean",
    "check_proved",
    "check_randomized_response",
    "check_recover",
    "check_refuted",
    "check_sigma",
]


def check_recover(answer: Any) -> None:
    """The value of one person from a mean with and a mean without them."""

    def inputs(rng: np.random.Generator) -> list[dict[str, Any]]:
        cases: list[dict[str, Any]] = [{"mean_all": 5.0, "mean_rest": 3.0, "n": 3}]
        for n, shape in ((2, (2,)), (5, (3, 3)), (100, (28, 28))):
            people = rng.integers(0, 256, size=(n, *shape)).astype(float)
            cases.append({"mean_all": people.mean(axis=0), "mean_rest": people[1:].mean(axis=0), "n": n})
        return cases

    checks.function(
        answer,
        name="recover",
        reference=lambda mean_all, mean_rest, *, n: n * mean_all - (n - 1) * mean_rest,
        inputs=inputs,
        rel=1e-6,
        abs=1e-6,
        mistakes=[
            Mistake(
                lambda mean_all, mean_rest, *, n: mean_all - mean_rest,
                "this is the plain difference of the two means. A mean is a sum divided by a count: go back to the "
                "two sums, and subtract those.",
            ),
            Mistake(
                lambda mean_all, mean_rest, *, n: n * (mean_all - mean_rest),
                "both means are multiplied by the same count, but they are means over different numbers of people.",
            ),
            Mistake(
                lambda mean_all, mean_rest, *, n: (n - 1) * (mean_all - mean_rest),
                "both means are multiplied by the same count, but they are means over different numbers of people.",
            ),
            Mistake(
                lambda mean_all, mean_rest, *, n: (n - 1) * mean_rest - n * mean_all,
                "the order of the subtraction is reversed: the person is in the first sum and not in the second.",
            ),
            Mistake(
                lambda mean_all, mean_rest, *, n: (n - 1) * mean_all - n * mean_rest,
                "the two counts are exchanged: `mean_all` is over n people, the other mean over one fewer.",
            ),
            Mistake(
                lambda mean_all, mean_rest, *, n: (n + 1) * mean_all - n * mean_rest,
                "n counts the people of the first mean, the one who withdrew included.",
            ),
        ],
        hint="Put the returned person back among the others: the mean over all n must come out.",
    )


def check_mean_sensitivity(answer: Any) -> None:
    """How far the mean of n values in [0, 1] moves when one record is replaced."""
    checks.function(
        answer,
        name="mean_sensitivity",
        reference=lambda *, n: 1 / n,
        inputs=[{"n": n} for n in (2, 5, 10, 1000)],
        mistakes=[
            Mistake(lambda *, n: 1.0, "this is the sensitivity of the sum. By how much does the mean move?"),
            Mistake(
                lambda *, n: 2 / n,
                "this counts the replaced record twice. One value between 0 and 1 takes the place of another: how far "
                "apart can these two be?",
            ),
            Mistake(
                lambda *, n: 1 / (n - 1),
                "n - 1 would count the people who stay, but under replace-one the mean is over n records before and "
                "after.",
            ),
            Mistake(
                lambda *, n: 1 / (2 * n),
                "this is the move from the middle to an end. Sensitivity is the largest move between any two values.",
            ),
            Mistake(lambda *, n: n, "a mean over more people moves less when one of them changes, not more."),
        ],
        hint="It must be the largest move of the mean over all pairs of neighbours.",
    )


def check_mean_noise(answer: Any) -> None:
    """The Laplace scale for an epsilon-DP mean of n values in [0, 1]."""
    checks.function(
        answer,
        name="mean_noise",
        reference=lambda *, n, epsilon: mechanisms.laplace_scale(epsilon=epsilon) / n,
        inputs=[{"n": n, "epsilon": e} for n, e in ((2, 0.5), (10, 1.0), (100, 0.1), (1000, 3.0))],
        mistakes=[
            Mistake(
                lambda *, n, epsilon: 1 / epsilon,
                "this is the noise for the sum. One person moves the mean much less than the sum.",
            ),
            Mistake(
                lambda *, n, epsilon: n / epsilon,
                "the noise grows with n here, but one person moves a mean of more people less.",
            ),
            Mistake(
                lambda *, n, epsilon: epsilon / n,
                "the noise grows with ε here, but a smaller ε is a stronger promise and needs more noise.",
            ),
            Mistake(
                lambda *, n, epsilon: 2 / (n * epsilon),
                "this is twice the scale that is needed: the replaced record moves the mean once, not once out and "
                "once in.",
            ),
            Mistake(lambda *, n, epsilon: 1 / n, "this is the sensitivity alone; where does ε come in?"),
            Mistake(
                lambda *, n, epsilon: 1 / ((n - 1) * epsilon),
                "under replace-one the mean is over n records before and after; nobody leaves.",
            ),
            Mistake(
                lambda *, n, epsilon: math.sqrt(2) / (n * epsilon),
                "this is the standard deviation of the noise; asked is the scale b of the Laplace density.",
            ),
        ],
        hint="At every output, the two densities of neighbours may differ by the factor e^ε, and somewhere must.",
    )


def check_sigma(answer: Any) -> None:
    """The exact Gaussian standard deviation for epsilon = 1 and delta = 1e-5."""
    epsilon, delta = 1.0, 1e-5
    sigma = mechanisms.gaussian_sigma(epsilon=epsilon, delta=delta)
    classic = mechanisms.gaussian_sigma_classic_formula(epsilon=epsilon, delta=delta)
    plain = isinstance(answer, float | int | np.floating) and 0.01 <= answer <= 1e6
    its_delta = mechanisms.gaussian_delta(sigma=float(answer) if plain else sigma, epsilon=epsilon)
    really = f"the smallest δ at ε = 1 is {its_delta:.3g}, " if plain else "δ is "
    checks.number(
        answer,
        expected=sigma,
        name="sigma",
        rel=1e-4,
        mistakes=[
            Mistake(classic, "this is the classic formula: private, but with more noise than needed."),
            Mistake(sigma**2, "this is the variance; asked is the standard deviation."),
            Mistake(2 * sigma, "this is for sensitivity 2; here the sensitivity is 1."),
            Mistake(sigma / 2, "this is for sensitivity 1/2; here the sensitivity is 1."),
            Mistake(
                mechanisms.laplace_scale(epsilon=epsilon),
                "this is the scale of Laplace noise for the same ε, and Gaussian noise needs another size.",
            ),
            Mistake(
                lambda value: 0 < value < sigma,
                f"with this noise {really}more than the 1e-05 that is allowed.",
            ),
            Mistake(
                lambda value: value > sigma,
                f"with this noise {really}less than the 1e-05 that is allowed. That is private, but less is enough.",
            ),
        ],
        hint="A standard deviation is positive.",
    )


def check_delta_of_classic(answer: Any) -> None:
    """The delta at epsilon = 10 of noise from the classic formula for epsilon = 10 and delta = 1e-5."""
    epsilon, delta = 10.0, 1e-5
    classic = mechanisms.gaussian_sigma_classic_formula(epsilon=epsilon, delta=delta)
    checks.number(
        answer,
        expected=mechanisms.gaussian_delta(sigma=classic, epsilon=epsilon),
        name="delta_of_classic",
        rel=1e-3,
        mistakes=[
            Mistake(delta, "this is the δ that the formula claims. Put its σ into the exact condition and see."),
            Mistake(classic, "this is σ; asked is the δ that noise of this σ has at ε = 10."),
            Mistake(
                float(ndtr(1 / (2 * classic) - epsilon * classic)),
                "this is the first term of the exact condition; the second one, with its factor e^ε, is missing.",
            ),
            Mistake(
                mechanisms.gaussian_delta(sigma=classic**2, epsilon=epsilon),
                "the variance σ² is used where the condition has the standard deviation σ.",
            ),
            Mistake(
                mechanisms.gaussian_delta(sigma=classic, epsilon=1.0),
                "this is the δ of the right noise at ε = 1; asked is ε = 10.",
            ),
            Mistake(
                mechanisms.gaussian_delta(sigma=10 * classic, epsilon=1.0),
                "this is the same question at ε = 1, where the formula is on the safe side; asked is ε = 10.",
            ),
            Mistake(
                mechanisms.gaussian_delta(sigma=classic / 2, epsilon=epsilon),
                "this is for sensitivity 2; here the sensitivity is 1.",
            ),
        ],
        hint="Use the noise of the classic formula, and the exact condition at the same ε.",
    )


def check_counterexample(answer: Any, *, neighbour: Any, threshold: Any) -> None:
    """Two neighbours and a threshold that refute a claim about the noisy maximum, by exact probabilities."""
    whole = (answer, neighbour, threshold)
    checks.counterexample(
        Ellipsis if any(part is Ellipsis for part in whole) else whole, test=_refutes, name="counterexample"
    )


def _refutes(answer: tuple[Any, Any, Any]) -> str | None:
    """None if the triple refutes the claim, else why it does not."""
    n, epsilon = 10, 1.0
    scale = 1 / (n * epsilon)
    dataset = arguments.array("dataset", answer[0], shape=(n,), low=0.0, high=1.0)
    neighbour = arguments.array("neighbour", answer[1], shape=(n,), low=0.0, high=1.0)
    threshold = arguments.real("threshold", answer[2])
    changed = int(np.count_nonzero(dataset != neighbour))
    if changed != 1:
        return f"the datasets differ in {changed} records; neighbours differ in exactly one, place by place."
    first, second = float(dataset.max()), float(neighbour.max())
    gap = abs(first - second)
    if gap == 0:
        return "the maximum is the same on both, so the release is too. Change a record that moves the maximum."
    if gap <= scale * (1 + 1e-9):
        return (
            f"the maxima differ by {gap:.3g}, and the noise has scale {scale:g}: so small a move it does hide. How far "
            "can one record move the maximum?"
        )
    one, other = (_log_tail((threshold - top) / scale) for top in (first, second))
    # Above both maxima the ratio is exact, however far out the threshold lies.
    log_ratio = gap / scale if threshold >= max(first, second) else abs(one - other)
    if log_ratio <= epsilon * (1 + 1e-9):
        return (
            f"the release exceeds {threshold:g} with probability {math.exp(one):.4g} on the dataset and "
            f"{math.exp(other):.4g} on its neighbour, a factor of {math.exp(log_ratio):.3g}, and e^ε = "
            f"{math.exp(epsilon):.3g} is allowed. Your datasets can do it: move the threshold to where only one of "
            "them is likely to get."
        )
    return None


def _log_tail(z: float) -> float:
    """The logarithm of the probability that Laplace noise of scale 1 exceeds z."""
    return math.log(0.5) - z if z >= 0 else math.log1p(-0.5 * math.exp(z))


_PREIMAGE = ["preimage", "pre-image", "inverse image", "g^-1", "g^{-1}", "g⁻¹", "g(y)", "g(t)", "g(o)", "g(z)", "g(m)"]
_PREIMAGE += ["outputs y", "outputs that g", "outputs which g", "outputs of m that", "outputs of m which"]
_INEQUALITY = ["e^", "exp(", "e**", "np.exp", "epsilon times", "factor", "<=", "≤", "\\le"]


def check_post_processing(answer: Any) -> None:
    """Two sentences on why a function of the output is as private as the output; notions, not grading."""
    checks.argument(
        answer,
        name="argument",
        minimum_words=25,
        must_mention={
            "the set of outputs of M that g sends into S (its preimage)": _PREIMAGE,
            "that the promise of M holds for every set of outputs": [
                "every",
                "any",
                "all",
                "each",
                "arbitrary",
                "whatever",
            ],
            "the inequality between the two neighbours, with its factor e^epsilon": _INEQUALITY,
        },
        rubric=[
            "g(M(x)) lies in S exactly when M(x) lies in T, the set of outputs that g sends into S.",
            "T is the same set for both neighbours, because g does not see the data.",
            "M is private for every set of outputs, so also for T; that inequality is the one to be shown for S.",
        ],
    )


_COUNTS = {"true_positives": 640, "positives": 1000, "false_positives": 360, "negatives": 1000}


def _proved() -> float:
    return samples.epsilon_lower_bound(**_COUNTS, delta=0.0, confidence=0.95).epsilon_at_least


def check_proved(answer: Any) -> None:
    """The epsilon that 640 hits and 360 false alarms in 1,000 runs each prove at 95 % confidence."""
    hits = samples.clopper_pearson(640, trials=1000, confidence=0.95)
    alarms = samples.clopper_pearson(360, trials=1000, confidence=0.95)
    checks.number(
        getattr(answer, "epsilon_at_least", answer),
        expected=_proved(),
        name="proved",
        rel=1e-3,
        mistakes=[
            Mistake(
                math.log(640 / 360),
                "this is log(TPR/FPR), with the observed rates in place of the true ones. That is a guess in the "
                "middle: half of the time the true ε is smaller, so it proves nothing at 95 %.",
            ),
            Mistake(
                math.log(hits[1] / alarms[0]),
                "this takes the ends of the intervals that favour a large ε. A proof takes the cautious ends.",
            ),
            Mistake(0.5, "this is the vendor's claim, not what the counts prove."),
            Mistake(
                samples.epsilon_lower_bound(**_COUNTS, delta=0.0, confidence=0.99).epsilon_at_least,
                "this is the bound at 99 % confidence; asked is 95 %.",
            ),
            Mistake(
                samples.epsilon_lower_bound(**_COUNTS, delta=0.0, confidence=0.90).epsilon_at_least,
                "this is the bound at 90 % confidence; asked is 95 %.",
            ),
            Mistake(
                samples.epsilon_lower_bound(**_COUNTS, delta=1e-2, confidence=0.95).epsilon_at_least,
                "this is the bound for δ = 0.01; the vendor claims pure ε, δ = 0.",
            ),
            Mistake(
                0.0,
                "zero would mean that the counts prove nothing. 640 against 360 is more than chance: are the true and "
                "the false positives in the right places?",
            ),
        ],
        hint="Take the bound of samples.epsilon_lower_bound for these four counts.",
    )


def check_refuted(answer: Any) -> None:
    """Whether those counts refute the claim epsilon = 0.5."""
    checks.choice(
        answer,
        expected=_proved() > 0.5,
        options=[True, False],
        name="refuted",
        mistakes=[
            Mistake(
                True,
                "the observed rates alone suggest more than 0.5, but what is proved at 95 % confidence is less. A "
                "claim is refuted only by a proof above it; more runs may bring one.",
            ),
        ],
    )
