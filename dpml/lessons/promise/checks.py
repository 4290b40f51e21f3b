r"""The checks of the exercises of chapter 01, What differential privacy promises.

Neighbouring datasets differ in the value of one of n records (replace-one). A mean of values in [0, 1] moves by at most
1/n, and Laplace noise hides it at scale b. Randomized response tells the truth with probability p, and the estimate of
the share s of ones is unbiased. Noise of standard deviation sigma on an answer of sensitivity 1 is
(epsilon, delta)-DP if and only if the last line holds:

.. math::

    b = \frac{1}{n \varepsilon} , \qquad \frac{p}{1-p} = e^\varepsilon , \qquad
    \hat s = \frac{\bar a - (1 - p)}{2p - 1} , \\
    \delta \ge \Phi\bigl(\tfrac{1}{2\sigma} - \varepsilon\sigma\bigr)
        - e^\varepsilon\, \Phi\bigl(-\tfrac{1}{2\sigma} - \varepsilon\sigma\bigr) .
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from dpml import arguments, mechanisms
from dpml.audit import samples
from dpml.classroom import checks, laws, verdict
from dpml.classroom.checks import Mistake
from dpml.classroom.comparison import as_finite


def check_recover(answer: Any) -> None:
    """The value of one person from a mean with and a mean without them."""

    def inputs(rng: np.random.Generator) -> list[dict[str, Any]]:
        cases: list[dict[str, Any]] = [{"mean_all": 5.0, "mean_rest": 3.0, "n": 3}]
        for n, shape in ((2, (2,)), (5, (3, 3)), (100, (28, 28))):
            people = rng.random(size=(n, *shape))  # fractions, so that rounding shows
            cases.append({"mean_all": people.mean(axis=0), "mean_rest": people[1:].mean(axis=0), "n": n})
        return cases

    checks.function(
        answer,
        name="recover",
        reference=lambda mean_all, mean_rest, *, n: n * mean_all - (n - 1) * mean_rest,
        inputs=inputs,
        abs=1e-6,
        mistakes=[
            Mistake(
                lambda mean_all, mean_rest, *, n: mean_all - mean_rest,
                "this is the plain difference of the two means. Go back to the two sums, and subtract those.",
            ),
            Mistake(
                lambda mean_all, mean_rest, *, n: n * (mean_all - mean_rest),
                "both means are multiplied by the same count, but they are over different numbers of people.",
            ),
            Mistake(
                lambda mean_all, mean_rest, *, n: (n - 1) * mean_rest - n * mean_all,
                "the order of the subtraction is reversed: the person is in the first sum, not in the second.",
            ),
            Mistake(
                lambda mean_all, mean_rest, *, n: (n - 1) * mean_all - n * mean_rest,
                "the two counts are exchanged: `mean_all` is over n people, the other over one fewer.",
            ),
            Mistake(
                lambda mean_all, mean_rest, *, n: n * mean_all - n - 1 * mean_rest,
                "parentheses are missing: Python multiplies before it subtracts. Write `(n - 1)`.",
            ),
            Mistake(
                lambda mean_all, mean_rest, *, n: np.round(n * mean_all - (n - 1) * mean_rest),
                "the result is rounded, but values need not be whole numbers.",
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
                "this counts the replaced record twice. How far apart can the old and the new value be?",
            ),
            Mistake(
                lambda *, n: 1 / (n - 1),
                "n - 1 people stay, but under replace-one the mean is over n records before and after.",
            ),
            Mistake(lambda *, n: 0.5 / n, "this is the move from the middle to an end. Take the largest move of all."),
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
        inputs=checks.settings("n epsilon", (2, 0.5), (10, 1.0), (100, 0.1), (1000, 3.0)),
        mistakes=[
            Mistake(lambda *, n, epsilon: 1 / epsilon, "this is the noise for the sum; a mean moves less."),
            Mistake(lambda *, n, epsilon: n / epsilon, "the noise grows with n; a mean of more moves less."),
            Mistake(
                lambda *, n, epsilon: epsilon / n,
                "the noise grows with ε here, but a smaller ε is a stronger promise and needs more noise.",
            ),
            Mistake(
                lambda *, n, epsilon: 2 / (n * epsilon),
                "this is twice the scale that is needed: a replaced record moves the mean once, not out and in.",
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


def _clipped_mean(values: Any) -> float:
    return float(np.clip(values, 0.0, 1.0).mean())


def check_private_mean(answer: Any) -> None:
    """An epsilon-DP mean of values that may lie outside [0, 1]."""

    def noisy(
        center: Callable[[Any], float] = _clipped_mean,
        kind: Callable[[float, float], laws.Law] = laws.laplace,
        times: Callable[[Any, float], float] = lambda values, epsilon: 1.0,
    ) -> Callable[..., laws.Law]:
        def law(values: Any, *, epsilon: float, noise: float = 1.0) -> laws.Law:
            return kind(center(values), noise * times(values, epsilon) / (len(values) * epsilon))

        return law

    def early(sources: int) -> Callable[..., laws.Law]:
        """Noise on the values, from one source for all or from one for each, and then clipping."""

        def law(values: Any, *, epsilon: float, noise: float = 1.0) -> laws.Law:
            def draw(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
                noises = rng.laplace(0, noise / (len(values) * epsilon), size=(size, min(sources, len(values))))
                return np.asarray(np.clip(values + noises, 0.0, 1.0).mean(axis=1))

            return laws.sampled(draw)

        return law

    def for_each(values: Any, *, epsilon: float, noise: float = 1.0) -> laws.Law:
        def draw(rng: np.random.Generator, size: int) -> NDArray[np.float64]:
            noises = rng.laplace(0, noise / epsilon, size=(size, len(values)))
            return np.asarray(_clipped_mean(values) + noises.mean(axis=1))

        return laws.sampled(draw)

    late = "the noise is added before clipping, which cuts it off: clip, then average, then add noise."
    ordinary, wild = np.array([0.0, 0.3, 0.8, 0.5, 0.9]), np.array([-3.0, 0.5, 0.5])
    checks.law(
        answer,
        name="private_mean",
        law=noisy(),
        settings=[
            {"values": ordinary, "epsilon": 0.6},
            {"values": np.array([1.0, *ordinary[1:]]), "epsilon": 0.6},
            {"values": wild, "epsilon": 2.0},
            {"values": np.array([1e6, *wild[1:]]), "epsilon": 2.0},
            {"values": np.array([0.4, 0.6]), "epsilon": 5.0},  # neither end of the range is there
        ],
        neighbours=[(0, 1), (2, 3)],
        within=(0.0, 1.0),
        wrong=[
            Mistake(
                noisy(np.mean),
                "the values are not clipped. One wild record moves the mean as far as it likes; no noise hides that.",
            ),
            Mistake(
                noisy(lambda values: np.minimum(values, 1.0).mean()),
                "the values are clipped on one side only: those below 0 stay as they are.",
            ),
            Mistake(
                noisy(lambda values: np.maximum(values, 0.0).mean()),
                "the values are clipped on one side only: those above 1 stay as they are.",
            ),
            Mistake(
                noisy(lambda values: np.clip(values.mean(), 0.0, 1.0)),
                "clipping comes after averaging. One wild record drags the mean from 0 to 1: clip each value first.",
            ),
            Mistake(
                lambda values, **_: laws.certain(_clipped_mean(values)),
                "there is no noise at all. Whoever knows all records but one can solve for it, as with two means.",
            ),
            Mistake(
                noisy(times=lambda values, epsilon: epsilon**2),
                "the scale is multiplied by ε where it must be divided: a smaller ε needs more noise.",
            ),
            Mistake(noisy(times=lambda values, epsilon: epsilon), "the scale is the sensitivity; ε has no say in it."),
            Mistake(
                noisy(times=lambda values, epsilon: len(values)),
                "the noise has the size for the sum, n times too much for the mean.",
            ),
            Mistake(
                noisy(times=lambda values, epsilon: float(np.ptp(np.clip(values, 0.0, 1.0)))),
                "the size of the noise is computed from the records, and tells about them: use the range [0, 1].",
            ),
            Mistake(
                noisy(kind=lambda center, scale: laws.normal(center, math.sqrt(2) * scale)),
                "this is Gaussian noise. Its tails are too thin for a pure ε.",
            ),
            Mistake(
                noisy(kind=lambda center, scale: laws.uniform(center - 2 * scale, center + 2 * scale)),
                "this noise is bounded, as uniform noise is: some outcomes are impossible on the neighbour.",
            ),
            Mistake(
                noisy(kind=lambda center, scale: laws.sampled(lambda rng, size: center + rng.exponential(scale, size))),
                "this noise only goes up, so an outcome below the mean is impossible. Laplace noise goes both ways.",
            ),
            Mistake(
                lambda values, *, epsilon, noise=1.0: laws.laplace(
                    _clipped_mean(values) + 1 / (len(values) * epsilon), noise
                ),
                "the first argument of `rng.laplace` is the location of the noise, not its size: pass `scale=`.",
            ),
            Mistake(
                for_each, "each value gets noise of its own: private, but one noise on the mean is enough, and smaller."
            ),
            Mistake(early(1), late),
            Mistake(early(100), late),
        ],
    )


_WRONG_TRUTH: list[tuple[Callable[[float, int], float], str]] = [  # at ε, in a group of so many people
    (lambda e, people: 1 - math.exp(-e), "the truth has probability 1 - e^(-ε). Truth over lie must be e^ε."),
    (lambda e, people: 1 / (1 + 2 * math.exp(-e)), "this is e^ε/(2 + e^ε), as if there were three answers."),
    (lambda e, people: 1 - math.exp(-e / 2) / 2, "this is what rounded Laplace noise gives; it lies too often."),
    (
        lambda e, people: (1 + expit(e)) / 2,
        "when it does not answer the truth, it tosses a fair coin, which is the truth half of the time.",
    ),
    (lambda e, people: expit(-e), "it lies with the probability with which it should tell the truth."),
    (lambda e, people: expit(e / 2), "this is for ε/2, so it lies too often. One answer may use the whole ε."),
    (lambda e, people: expit(e / people), "ε is divided by the number of people; each gives only one answer."),
    (lambda e, people: e / (1 + e), "the truth has probability ε/(1 + ε): then truth over lie is ε, not e^ε."),
    (lambda e, people: 0.5, "truth and lie are equally likely: such answers tell nothing."),
    (lambda e, people: 1.0, "every answer is the truth (is p above 1?)."),
    (lambda e, people: 0.0, "every answer is a lie, and whoever knows that knows the truth."),
]


def check_randomized_response(answer: Any) -> None:
    """Randomized response: every answer epsilon-DP, each person with a coin of their own, and no lie too many."""

    def told(truth: Callable[[float, int], Any]) -> Callable[..., list[laws.Law]]:
        """The law for a probability of the truth, or for one of zeros and one of ones."""

        def law(bits: Any, *, epsilon: float, noise: float = 1.0) -> list[laws.Law]:
            p = np.broadcast_to(truth(epsilon / noise, len(bits)), 2)
            answers = [laws.discrete({bit: p[bit], 1 - bit: 1 - p[bit]}) for bit in (0, 1)]
            return [answers[bit] for bit in bits]

        return law

    checks.law(
        answer,
        name="randomized_response",
        law=told(lambda epsilon, people: expit(epsilon)),
        settings=[
            {"bits": np.array([0, 1, 0]), "epsilon": 1.2},
            {"bits": np.array([1, 1, 0]), "epsilon": 1.2},
            {"bits": np.array([0, 1]), "epsilon": 2.5},
            {"bits": np.repeat([0, 1], 100), "epsilon": 0.8},
        ],
        neighbours=[(0, 1)],
        wrong=[
            *(Mistake(told(truth), diagnosis) for truth, diagnosis in _WRONG_TRUTH),
            Mistake(told(lambda e, _: (expit(-e), expit(e))), "the answers do not depend on the bits."),
            Mistake(
                told(lambda e, _: (1.0, expit(e))),
                "only the ones ever lie. Then an answer 1 proves that the bit is 1, and no ε allows that.",
            ),
            Mistake(
                told(lambda e, _: (expit(e), 1.0)),
                "only the zeros ever lie. Then an answer 0 proves that the bit is 0, and no ε allows that.",
            ),
        ],
    )


def check_estimate_share(answer: Any) -> None:
    """The unbiased estimate of the share of ones from the answers of randomized response."""

    reference = mechanisms.randomized_response_estimate

    def inputs(rng: np.random.Generator) -> list[dict[str, Any]]:
        few: list[tuple[Any, float]] = [([0, 0, 0], 1.0), ([1, 1, 0, 1], 2.0), ([1, 1], 0.5)]
        many = [(rng.integers(0, 2, size=50), e) for e in (0.3, 1.0, 3.0)]
        return [{"answers": np.asarray(answers), "epsilon": e} for answers, e in (*few, *many)]

    checks.function(
        answer,
        name="estimate_share",
        reference=reference,
        inputs=inputs,
        mistakes=[
            Mistake(
                lambda answers, *, epsilon: np.mean(answers),
                "this is the share of ones among the answers. How many ones come if nobody holds a 1?",
            ),
            Mistake(
                lambda answers, *, epsilon: min(max(reference(answers, epsilon=epsilon), 0.0), 1.0),
                "the estimate is cut off at 0 or 1. That looks tidy but moves its expectation.",
            ),
            Mistake(
                lambda answers, *, epsilon: np.mean(answers) / math.tanh(epsilon / 2),
                "the slope is right, but the ones that come from lying zeros are not subtracted.",
            ),
            Mistake(
                lambda answers, *, epsilon: np.mean(answers) - expit(-epsilon),
                "lying zeros are subtracted, but the ones that lied are not made up for: divide, too.",
            ),
            Mistake(
                lambda answers, *, epsilon: np.mean(answers) / expit(epsilon),
                "this would be right if only the ones lied. The zeros lie too.",
            ),
            Mistake(
                lambda answers, *, epsilon: (np.mean(answers) - expit(-epsilon)) / expit(epsilon),
                "what is divided by must be the distance between the expected answer of a 1 and that of a 0.",
            ),
            Mistake(
                lambda answers, *, epsilon: (expit(epsilon) - np.mean(answers)) / math.tanh(epsilon / 2),
                "this estimates the share of zeros.",
            ),
        ],
        hint="If a share s of the bits are ones, the expected share of ones among the answers is linear in s. Solve.",
    )


def check_sigma(answer: Any) -> None:
    """The exact Gaussian standard deviation for epsilon = 1 and delta = 1e-5."""
    epsilon, delta = 1.0, 1e-5
    sigma = mechanisms.gaussian_sigma(epsilon=epsilon, delta=delta)
    plain = isinstance(answer, float | int | np.floating) and 0.01 <= answer <= 1e6
    its_delta = mechanisms.gaussian_delta(sigma=float(answer) if plain else sigma, epsilon=epsilon)
    really = f"the smallest δ at ε = 1 is {its_delta:.3g}, " if plain else "δ is "
    classic = mechanisms.gaussian_sigma_classic_formula(epsilon=epsilon, delta=delta)
    checks.number(
        answer,
        expected=sigma,
        name="sigma",
        rel=1e-4,
        mistakes=[
            Mistake(
                lambda value: abs(value - sigma) <= 1e-3 * sigma,
                "it is right to three digits only; give at least four.",
                1.0008 * sigma,
            ),
            Mistake(classic, "this is the classic formula: private, but with more noise than needed."),
            Mistake(sigma**2, "this is the variance; asked is the standard deviation."),
            Mistake(2 * sigma, "this is for sensitivity 2; here the sensitivity is 1."),
            Mistake(sigma / 2, "this is for sensitivity 1/2; here the sensitivity is 1."),
            Mistake(1 / epsilon, "this is the scale of Laplace noise for the same ε. Gaussian noise needs another."),
            Mistake(
                lambda value: 0 < value < sigma,
                f"with this noise {really}more than the 1e-05 that is allowed.",
                0.9 * sigma,
            ),
            Mistake(
                lambda value: value > sigma,
                f"with this noise {really}less than the 1e-05 that is allowed. That is private, but less is enough.",
                1.1 * sigma,
            ),
        ],
        hint="A standard deviation is positive.",
    )


def check_delta_of_classic(answer: Any) -> None:
    """The delta at epsilon = 10 of noise from the classic formula for epsilon = 10 and delta = 1e-5."""
    epsilon, delta = 10.0, 1e-5
    sigma = mechanisms.gaussian_sigma_classic_formula(epsilon=epsilon, delta=delta)

    def needed(sigma: float, at: float = epsilon) -> float:
        return mechanisms.gaussian_delta(sigma=sigma, epsilon=at)

    checks.number(
        answer,
        expected=needed(sigma),
        name="delta_of_classic",
        rel=1e-3,
        mistakes=[
            Mistake(delta, "this is the δ that the formula claims. Put its σ into the exact condition and see."),
            Mistake(sigma, "this is σ; asked is the δ that noise of this σ has at ε = 10."),
            Mistake(
                float(ndtr(1 / (2 * sigma) - epsilon * sigma)),
                "this is the first term of the exact condition; the second one, with its factor e^ε, is missing.",
            ),
            Mistake(needed(sigma**2), "the variance σ² is used where the condition has the standard deviation σ."),
            Mistake(needed(sigma, 1.0), "this is the δ of the right noise at ε = 1; asked is ε = 10."),
            Mistake(needed(10 * sigma, 1.0), "this is the same question at ε = 1, where the formula is safe."),
            Mistake(needed(sigma / 2), "this is for sensitivity 2; here the sensitivity is 1."),
        ],
        hint="Use the noise of the classic formula, and the exact condition at the same ε.",
    )


_N, _EPSILON = 10, 1.0
_SCALE = 1 / (_N * _EPSILON)


def check_counterexample(answer: Any, *, neighbour: Any, threshold: Any) -> None:
    """Two neighbours and a threshold that refute a claim about the noisy maximum, by exact probabilities."""
    parts = {"dataset": answer, "neighbour": neighbour, "threshold": threshold}
    blank = [name for name, part in parts.items() if part is Ellipsis]
    if 0 < len(blank) < 3:
        verdict.not_written(blank[0])
    checks.counterexample(
        Ellipsis if blank else tuple(parts.values()), test=_refutes, name="counterexample", shows=_compared
    )


def _records(name: str, value: Any) -> NDArray[np.float64]:
    """Ten numbers in [0, 1].

    Raises: ValueError, in words for the student.
    """
    if not isinstance(value, (list, tuple)) and not getattr(value, "shape", ()):
        raise ValueError(f"{name} must be a list of ten numbers, got {verdict.kind(value)}")
    if len(value) != _N:
        raise ValueError(f"{name} has {len(value)} value{'s' * (len(value) != 1)}, it needs ten")
    return arguments.array(name, value, shape=(_N,), low=0.0, high=1.0)


def _read(answer: tuple[Any, Any, Any]) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    dataset, neighbour = _records("dataset", answer[0]), _records("neighbour", answer[1])
    threshold = as_finite(answer[2])
    if isinstance(threshold, str):
        came = "text" if isinstance(answer[2], str) else verdict.shown(answer[2])
        raise ValueError(f"threshold must be a number, got {came}")
    return dataset, neighbour, threshold


def _log_ratio(first: float, second: float, threshold: float) -> float:
    """How far apart the logarithms of the two probabilities to exceed the threshold are."""
    if threshold >= max(first, second):  # exact, however far out the threshold lies
        return abs(first - second) / _SCALE
    return abs(_log_tail((threshold - first) / _SCALE) - _log_tail((threshold - second) / _SCALE))


def _compared(answer: tuple[Any, Any, Any]) -> str:
    """Both probabilities and their ratio, in words."""
    dataset, neighbour, threshold = _read(answer)
    first, second = float(dataset.max()), float(neighbour.max())
    one, other = (math.exp(_log_tail((threshold - top) / _SCALE)) for top in (first, second))
    return (
        f"the release exceeds {threshold:g} with probability {one:.4g} on dataset and {other:.4g} on neighbour, "
        f"a factor of {math.exp(_log_ratio(first, second, threshold)):.3g}; e^ε = {math.exp(_EPSILON):.3g} is allowed"
    )


def _refutes(answer: tuple[Any, Any, Any]) -> str | None:
    """None if the triple refutes the claim, else why it does not."""
    dataset, neighbour, threshold = _read(answer)
    changed = int(np.count_nonzero(dataset != neighbour))
    if changed != 1:
        return f"the datasets differ in {changed} records; neighbours differ in exactly one, place by place."
    first, second = float(dataset.max()), float(neighbour.max())
    gap = abs(first - second)
    if gap == 0:
        return "the maximum is the same on both, so the release is too. Change a record that moves the maximum."
    if gap <= _SCALE * (1 + 1e-9):
        return (
            f"the maxima differ by {gap:.3g}, and the noise has scale {_SCALE:g}: so small a move it does hide. "
            "How far can one record move the maximum?"
        )
    if _log_ratio(first, second, threshold) <= _EPSILON * (1 + 1e-9):
        return (
            f"{_compared(answer)}. Your datasets can do it with another threshold: raise it. Above both maxima the "
            "factor is largest."
        )
    return None


def _log_tail(z: float) -> float:
    """The logarithm of the probability that Laplace noise of scale 1 exceeds z."""
    return math.log(0.5) - z if z >= 0 else math.log1p(-0.5 * math.exp(z))


def check_post_processing(answer: Any) -> None:
    """Two sentences on why a function of the output is as private as the output."""
    checks.argument(
        answer,
        name="argument",
        rubric=[
            "h(M(D)) lies in S exactly when M(D) lies in T, the set of outputs that h sends into S.",
            "T is the same set for both neighbours, because h does not see the data.",
            "M is private for every set of outputs, so also for T; that inequality is the one to be shown for S.",
        ],
        question="Which set of outputs of M is the event that h(M(D)) lies in S, and which set is it for D'?",
    )


def _proved(delta: float = 0.0, confidence: float = 0.95) -> float:
    return samples.epsilon_lower_bound(
        true_positives=640, positives=1000, false_positives=360, negatives=1000, delta=delta, confidence=confidence
    ).epsilon_at_least


def check_proved(answer: Any) -> None:
    """The epsilon that 640 hits and 360 false alarms in 1,000 runs each prove at 95 % confidence."""
    hits = samples.clopper_pearson(640, trials=1000, confidence=0.95)
    alarms = samples.clopper_pearson(360, trials=1000, confidence=0.95)
    checks.number(
        getattr(answer, "epsilon_at_least", answer),
        expected=_proved(),
        name="proved",
        rel=2e-3,  # three digits, rounded or cut off
        mistakes=[
            Mistake(
                math.log(640 / 360),
                "this is log(TPR/FPR) of the observed rates. About half of the time such an estimate lies above what "
                "the attack truly achieves, so it proves nothing at 95 %.",
            ),
            Mistake(
                math.log(hits[1] / alarms[0]),
                "this takes the ends of the intervals that favour a large ε. A proof takes the cautious ends.",
            ),
            Mistake(0.5, "this is the vendor's claim, not what the counts prove."),
            Mistake(_proved(confidence=0.99), "this is the bound at 99 % confidence; asked is 95 %."),
            Mistake(_proved(confidence=0.90), "this is the bound at 90 % confidence; asked is 95 %."),
            Mistake(_proved(delta=1e-2), "this is the bound for δ = 0.01; the vendor claims pure ε, δ = 0."),
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
