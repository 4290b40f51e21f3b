r"""The checks of the exercises of chapter 01, What differential privacy promises: one name for each question.

items 1 to 3   promise_means      what a mean gives away, and how much noise hides it
items 4 and 5  promise_response   randomized response
items 6 and 9  promise_numbers    the exact Gaussian mechanism, and an audit
items 7 and 8  promise_proofs     a counterexample, and an argument

Neighbouring datasets differ in the value of one of n records (replace-one).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from dpml import arguments, mechanisms
from dpml.audit import samples
from dpml.classroom import checks, verdict
from dpml.classroom.checks import Mistake, NotYet
from dpml.classroom.comparison import as_finite
from dpml.classroom.runs import quiet
from dpml.lessons._mechanisms import asked, both

# ---- Checks of items 1 to 3 of chapter 01: a mean of n values in [0, 1], its sensitivity, and its private release ----

# .. math::
#
#     \max_{D \sim D'} |\bar x - \bar x'| = \frac 1 n , \qquad b = \frac{1}{n \varepsilon} .
#
# Neighbours differ in the value of one of n records (replace-one); b is the scale of Laplace noise.

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SEED = 20_250_117


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
                lambda mean_all, mean_rest, *, n: n * mean_all - n - 1 * mean_rest,
                "parentheses are missing: Python multiplies before it subtracts, so `n - 1` must be in parentheses.",
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


def check_private_mean(answer: Any) -> None:
    """An epsilon-DP mean of values that may lie outside [0, 1]."""
    epsilon = 0.6
    # The clipped mean of each of the few datasets is computed once: the wrong mechanisms run 200,000 times.
    clipped = functools.cache(lambda data: float(np.clip(np.frombuffer(data), 0.0, 1.0).mean()))
    plain = functools.cache(lambda data: float(np.frombuffer(data).mean()))
    spread = functools.cache(lambda data: float(np.ptp(np.clip(np.frombuffer(data), 0.0, 1.0))))

    def noisy(mean: float, values: Any, rng: np.random.Generator, factor: float = 1.0) -> float:
        return mean + rng.laplace(0.0, factor / (len(values) * epsilon))

    def one_side(cut: Any, values: Any, rng: np.random.Generator) -> float:
        return noisy(float(cut(values).mean()), values, rng)

    def release(values: Any, rng: np.random.Generator, factor: float = 1.0) -> float:
        return noisy(clipped(values.tobytes()), values, rng, factor)

    def inside(x: float) -> float:
        return min(max(x, 0.0), 1.0)

    # Few records, so that a message can show them all; the noise has the size that they need.
    ordinary = np.array([0.0, 0.3, 0.8, 0.5, 0.9])
    wild = np.array([-3.0, 0.5, 0.5])
    privacy = functools.partial(
        checks.mechanism,
        asked(answer, name="private_mean", data="values", epsilon=epsilon),
        name="private_mean",
        reference=release,
        neighbours=[(ordinary, np.array([1.0, *ordinary[1:]])), (wild, np.array([1e6, *wild[1:]]))],
        epsilon=epsilon,
        trials=6000,
        slack=1.5,
        mistakes=[
            Mistake(
                lambda values, rng: noisy(plain(values.tobytes()), values, rng),
                "the values are not clipped. One wild record moves the mean as far as it likes, and no fixed noise "
                "hides that.",
            ),
            Mistake(
                functools.partial(one_side, lambda values: np.minimum(values, 1.0)),
                "the values are clipped on one side only: those below 0 stay as they are. Clip both sides.",
            ),
            Mistake(
                functools.partial(one_side, lambda values: np.maximum(values, 0.0)),
                "the values are clipped on one side only: those above 1 stay as they are. Clip both sides.",
            ),
            Mistake(
                lambda values, rng: noisy(inside(plain(values.tobytes())), values, rng),
                "clipping comes after averaging. One wild record then drags the mean from 0 to 1: clip each value "
                "first.",
            ),
            Mistake(
                lambda values, rng: inside(noisy(plain(values.tobytes()), values, rng)),
                "only the release is clipped. By then a wild record has moved the mean: clip each value first.",
            ),
            Mistake(
                lambda values, rng: clipped(values.tobytes()),
                "there is no noise at all. Whoever knows all records but one can solve for it, as in item 1.",
            ),
            Mistake(
                lambda values, rng: release(values, rng, 0.5),
                "the noise is half of what is needed: a replaced record can move from 0 to 1.",
            ),
            Mistake(
                lambda values, rng: release(values, rng, epsilon**2),
                "the scale is multiplied by ε where it must be divided: a smaller ε needs more noise.",
            ),
            Mistake(
                lambda values, rng: release(values, rng, epsilon),
                "the scale is the sensitivity alone; ε has no say in it.",
            ),
            Mistake(
                lambda values, rng: release(values, rng, float(len(values))),
                "the noise has the size for the sum, n times too much for the mean.",
            ),
            Mistake(
                lambda values, rng: release(values, rng, 2.0),
                "the noise is twice what is needed: the sensitivity counts the replaced record once.",
            ),
            Mistake(
                lambda values, rng: release(values, rng, spread(values.tobytes())),
                "the size of the noise is computed from the records, and tells about them: use the range [0, 1].",
            ),
            Mistake(
                lambda values, rng: release(values, rng, 0.0) + rng.laplace(1 / (len(values) * epsilon)),
                "the first argument of `rng.laplace` is the location of the noise, not its size: pass `scale=`.",
            ),
            Mistake(
                lambda values, rng: release(values, rng, 0.0) + rng.exponential(1 / (len(values) * epsilon)),
                "this noise only goes up, so an outcome below the mean is impossible. Laplace noise goes both ways.",
            ),
            Mistake(
                lambda values, rng: round(release(values, rng)),
                "the release is rounded. That costs no privacy, but loses the answer: do not round.",
            ),
        ],
    )
    exactness = functools.partial(
        checks.properties,
        answer,
        name="private_mean",
        cases=[("Laplace noise of the scale of item 2 on the mean of the clipped values", _is_laplace)],
    )
    both(privacy, exactness)


def _is_laplace(f: Any) -> bool | str:
    """Compare 30,000 releases with the exact distribution (Kolmogorov-Smirnov).

    By the inequality of Dvoretzky, Kiefer and Wolfowitz a right answer is refused with probability below 1e-7.
    Only outcomes inside (0, 1) are compared: whoever cuts the release to [0, 1] afterwards loses no privacy.
    """
    values, epsilon, runs = np.array([-5.0, 0.2, 0.9, 7.0]), 2.0, 30_000
    mean, scale = float(np.clip(values, 0, 1).mean()), 1 / (values.size * epsilon)
    rng = np.random.default_rng(_SEED)
    y = np.sort([float(np.asarray(f(values.copy(), epsilon=epsilon, rng=rng)).item()) for _ in range(runs)])
    middle, allowed = float(np.median(y)), math.sqrt(math.log(2 / 1e-7) / (2 * runs))

    def fits(cdf: Callable[[NDArray[Any]], NDArray[Any]]) -> bool:
        steps = np.arange(1, runs + 1) / runs
        return bool((np.abs(cdf((y - mean) / scale) - steps)[(y > 0) & (y < 1)] <= allowed).all())

    if fits(_laplace_cdf):
        return True
    came = f"{runs} releases for {values.tolist()} at ε = {epsilon:g}"
    different = np.unique(y).size
    if different < runs / 2:
        return f"{came} have only {different} different values, so they are rounded. Do not round."
    if abs(middle - mean) > 0.1 * scale:
        return f"{came} have their middle at {middle:.3g}. Clip each value to [0, 1], then average."
    if fits(ndtr) or fits(lambda z: ndtr(z / math.sqrt(2))):
        return (
            f"{came} follow a normal distribution: this is Gaussian noise. Its tails are too thin for a pure ε; far "
            "out, the ratio of the densities passes every bound."
        )
    factor = float(np.median(np.abs(y - middle))) / (scale * math.log(2))
    if not 0.95 < factor < 1.05:
        return f"{came} have about {factor:.2g} times the noise that is needed. How does the scale depend on n and ε?"
    return f"{came} have noise of the right size, but of another shape."


def _laplace_cdf(z: NDArray[Any]) -> NDArray[Any]:
    tail = np.exp(-np.abs(z)) / 2
    return np.asarray(np.where(z > 0, 1 - tail, tail))


# ---- Checks of items 4 and 5 of chapter 01: randomized response, and the estimate that undoes it on average ----

# Randomized response tells the truth with probability p, and the estimate of the share s of ones is unbiased, where
#
# .. math::
#
#     \frac{p}{1-p} = e^\varepsilon , \qquad \hat s = \frac{\bar a - (1 - p)}{2p - 1} .
#
# Neighbours differ in the bit of one person (replace-one).


class _Rates(NamedTuple):
    """How often the answers tell the truth."""

    epsilon: float
    people: int  # in one call
    samples: int  # people with each bit, in all calls together
    zeros: float  # the share of truth among those with bit 0
    ones: float

    def agree(self, *, zeros: float, ones: float) -> bool:
        """Six standard deviations: a right answer is refused with probability below 1e-7, all tests together."""
        n, pairs = self.samples, ((self.zeros, zeros), (self.ones, ones))
        return all(abs(rate - p) <= 6 * math.sqrt(max(p * (1 - p), 1 / n) / n) for rate, p in pairs)

    def gap(self, p: float) -> float:
        return abs(self.zeros - p) + abs(self.ones - p)

    def blind(self) -> bool:
        """Whether a 1 is answered as often under both bits."""
        answered_one = (1 - self.zeros + self.ones) / 2
        return self.agree(zeros=1 - answered_one, ones=answered_one)


_MANY = 100_000  # people with each bit

# The probability of the truth at ε in a group of so many people.
_WRONG_TRUTH: list[tuple[Callable[[float, int], float], str]] = [
    (
        lambda e, people: 1 - math.exp(-e),
        "the truth has probability 1 - e^(-ε) here. Write down truth over lie: it must be e^ε.",
    ),
    (
        lambda e, people: math.exp(e) / (2 + math.exp(e)),
        "the truth has probability e^ε/(2 + e^ε) here, as if there were three answers; there are two.",
    ),
    (
        lambda e, people: 1 - math.exp(-e / 2) / 2,
        "this is what rounded Laplace noise gives: private, but it lies more than it has to.",
    ),
    (
        lambda e, people: (1 + 1 / (1 + math.exp(-e))) / 2,
        "when it does not answer the truth, your function tosses a fair coin, which is the truth half of the time. In "
        "that case the opposite must come.",
    ),
    (lambda e, people: 1 / (1 + math.exp(e)), "it lies with the probability with which it should tell the truth."),
    (
        lambda e, people: 1 / (1 + math.exp(-e / 2)),
        "this is the right probability for ε/2, so it lies more than it has to. One answer may use the whole ε.",
    ),
    (
        lambda e, people: 1 / (1 + math.exp(-2 * e)),
        "this is the right probability for 2ε: the promise is weaker than the one asked for.",
    ),
    (
        lambda e, people: 1 / (1 + math.exp(-e / people)),
        "ε is divided by the number of people. Each gives one answer about one bit, which may use the whole ε.",
    ),
    (lambda e, people: e / (1 + e), "the truth has probability ε/(1 + ε) here: then truth over lie is ε, not e^ε."),
    (lambda e, people: 0.5, "truth and lie are equally likely: such answers tell nothing."),
    (lambda e, people: 1.0, "every answer is the truth (is p above 1?)."),
    (lambda e, people: 0.0, "every answer is a lie, and whoever knows that knows the truth."),
]


def check_randomized_response(answer: Any) -> None:
    """Randomized response: every answer epsilon-DP, each person with a coin of their own, and no lie too many."""
    epsilon = 1.2
    truth = mechanisms.randomized_response_truth_probability(epsilon=epsilon)

    def told(bits: Any, rng: np.random.Generator) -> Any:
        return np.where(rng.random(bits.shape) < truth, bits, 1 - bits)

    mechanism = asked(answer, name="randomized_response", data="bits", epsilon=epsilon)
    if callable(answer):
        _name_known_mistake(answer)
    privacy = functools.partial(
        checks.mechanism,
        mechanism,
        name="randomized_response",
        reference=told,
        neighbours=[(np.array([0, 1, 0]), np.array([1, 1, 0]))],
        epsilon=epsilon,
        trials=3000,
        mistakes=[
            Mistake(
                lambda bits, rng: bits if rng.random() < truth else 1 - bits,
                "one coin decides for all. Two people with equal bits then always answer alike: draw one random number "
                "for each person.",
            ),
        ],
    )
    exactness = functools.partial(
        checks.properties,
        answer,
        name="randomized_response",
        cases=[(f"the truth is as likely as ε = {e:g} allows, and no likelier", _truth_rate(e)) for e in (0.8, 2.5)],
    )
    both(privacy, exactness)


def _measured(f: Any, *, epsilon: float, people: int, calls: int = 1) -> _Rates:
    """Run on groups with as many zeros as ones.

    Raises: ValueError, in words for the student, for answers that are not zeros and ones.
    """
    bits, rng = np.repeat([0, 1], people // 2), np.random.default_rng(_SEED)
    told = np.zeros(bits.shape)
    for _ in range(calls):
        answers = np.asarray(f(bits.copy(), epsilon=epsilon, rng=rng))
        if answers.shape != bits.shape or not np.isin(answers, (0, 1)).all():
            raise ValueError(f"the answers to {people} bits must be zeros and ones of the same shape")
        told += answers == bits
    zeros, ones = (float(told[bits == bit].mean()) / calls for bit in (0, 1))
    return _Rates(epsilon, people, calls * (people // 2), zeros, ones)


def _name_known_mistake(f: Any) -> None:
    """Raise NotYet if the rates of truth are those of one typical mistake, at two ε and in groups of two sizes.

    Close mistakes differ by little at one ε, so all rates must fit, and the nearest mistake is named. Any trouble
    is left for the checks that follow, which report it.
    """
    try:
        with quiet():
            measured = [_measured(f, epsilon=e, people=2 * _MANY) for e in (0.8, 2.5)]
            measured.append(_measured(f, epsilon=2.5, people=2, calls=3000))
    except Exception:  # whatever student code raises
        return
    diagnosis = _known_mistake(measured)
    if diagnosis:
        came = measured[0]
        raise NotYet(
            f"randomized_response tells the truth in {100 * came.zeros:.3g} % of {_MANY:,} zeros and "
            f"{100 * came.ones:.3g} % of {_MANY:,} ones at ε = {came.epsilon:g}. A known mistake: {diagnosis}"
        )


def _known_mistake(measured: list[_Rates]) -> str:
    fits: list[tuple[float, str]] = []
    for truth, diagnosis in _WRONG_TRUTH:
        pairs = [(rates, truth(rates.epsilon, rates.people)) for rates in measured]
        if all(rates.agree(zeros=p, ones=p) for rates, p in pairs):
            fits.append((sum(rates.gap(p) for rates, p in pairs), diagnosis))
    if fits:
        return min(fits)[1]
    if all(rates.blind() for rates in measured):
        return "the answers do not depend on the bits, so they tell nothing about them."
    if all(rates.agree(zeros=1.0, ones=rates.ones) for rates in measured):
        return "only the ones ever lie. Then an answer 1 proves that the bit is 1, and no ε allows that."
    if all(rates.agree(zeros=rates.zeros, ones=1.0) for rates in measured):
        return "only the zeros ever lie. Then an answer 0 proves that the bit is 0, and no ε allows that."
    return ""


def _truth_rate(epsilon: float) -> Callable[[Any], Any]:
    """A test of the probability of the truth, from 100,000 people with each bit."""
    right = mechanisms.randomized_response_truth_probability(epsilon=epsilon)

    def test(f: Any) -> bool | str:
        try:
            rates = _measured(f, epsilon=epsilon, people=2 * _MANY)
        except ValueError as error:
            return f"{error}."
        if rates.agree(zeros=right, ones=right):
            return True
        came = f"the truth came in {100 * rates.zeros:.3g} % of the zeros and {100 * rates.ones:.3g} % of the ones"
        if max(rates.zeros, rates.ones) > right:
            return f"{came}. That is too often: the ratio of truth to lie must be at most e^ε."
        return f"{came}. A larger probability is allowed: the ratio of truth to lie may be e^ε."

    return test


def check_estimate_share(answer: Any) -> None:
    """The unbiased estimate of the share of ones from the answers of randomized response."""

    def truth(epsilon: float) -> float:
        return mechanisms.randomized_response_truth_probability(epsilon=epsilon)

    def reference(answers: Any, *, epsilon: float) -> float:
        return mechanisms.randomized_response_estimate(answers, epsilon=epsilon)

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
                "this is the share of ones among the answers. If nobody holds a 1, how many ones do you expect all the "
                "same?",
            ),
            Mistake(
                lambda answers, *, epsilon: min(max(reference(answers, epsilon=epsilon), 0.0), 1.0),
                "the estimate is cut off at 0 or 1. That looks tidy but moves its expectation; leave it as it comes.",
            ),
            Mistake(
                lambda answers, *, epsilon: np.mean(answers) / (2 * truth(epsilon) - 1),
                "the slope is right, but the ones that come from lying zeros are not subtracted.",
            ),
            Mistake(
                lambda answers, *, epsilon: np.mean(answers) - (1 - truth(epsilon)),
                "the ones that come from lying zeros are subtracted, but the true ones that lied are not made up for: "
                "the answers move less than the bits do.",
            ),
            Mistake(
                lambda answers, *, epsilon: np.mean(answers) / truth(epsilon),
                "this would be right if only the ones lied. The zeros lie too.",
            ),
            Mistake(
                lambda answers, *, epsilon: (np.mean(answers) - (1 - truth(epsilon))) / truth(epsilon),
                "what is divided by must be the distance between the expected answer of a 1 and that of a 0.",
            ),
            Mistake(
                lambda answers, *, epsilon: (np.mean(answers) - truth(epsilon)) / (1 - 2 * truth(epsilon)),
                "this estimates the share of zeros.",
            ),
        ],
        hint="If a share s of the bits are ones, the expected share of ones among the answers is linear in s. Solve.",
    )


# ---- Checks of items 6 and 9 of chapter 01: the exact Gaussian mechanism, and what counts of an attack prove ----

# Noise of standard deviation sigma on an answer of sensitivity 1 is (epsilon, delta)-DP if and only if
#
# .. math::
#
#     \delta \ge \Phi\bigl(\tfrac{1}{2\sigma} - \varepsilon\sigma\bigr)
#         - e^\varepsilon\, \Phi\bigl(-\tfrac{1}{2\sigma} - \varepsilon\sigma\bigr) .


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
            Mistake(
                lambda value: abs(value - sigma) <= 1e-3 * sigma,
                "it is right to three digits only; give at least four.",
            ),
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
            Mistake(lambda value: abs(value - _proved()) <= 5e-3, "it is right to two digits only; give three."),
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


# ---- Checks of items 7 and 8 of chapter 01: a claim to refute by a counterexample, and a rule to argue for ----

# A release M is epsilon-DP if for all neighbours D, D' and every set S of outputs
#
# .. math::
#
#     \Pr[M(D) \in S] \le e^\varepsilon \Pr[M(D') \in S] .

if TYPE_CHECKING:
    from numpy.typing import NDArray


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


# The letter is h in the chapter; any letter that stands for the function will do.
_PREIMAGE = ["preimage", "pre-image", "inverse image", "inverse of", "mapped into", "mapped to", "sent into", "sent to"]
_PREIMAGE += [f"{h}{power}" for h in "fgh" for power in ("^-1", "^{-1}", "^(-1)", "⁻¹", "**-1")]
_PREIMAGE += [f"{h}({y})" for h in "fgh" for y in "ymoztu"] + ["h sends", "h maps", "h takes", "h carries"]
_PREIMAGE += [f"{what} {which}" for what in ("outputs", "values") for which in ("y", "that h", "which h", "for which")]
_PREIMAGE += [f"outputs of m {which}" for which in ("y", "that", "which", "for which")]
_INEQUALITY = ["e^", "exp(", "e**", "np.exp", "e to the", "epsilon times", "factor", "ratio", "times as", "inequality"]
_INEQUALITY += ["<=", "≤", "\\le"]


def check_post_processing(answer: Any) -> None:
    """Two sentences on why a function of the output is as private as the output; notions, not grading."""
    checks.argument(
        answer,
        name="argument",
        minimum_words=25,
        must_mention={
            "the set of outputs of M that h sends into S (its preimage)": _PREIMAGE,
            "the inequality between the two neighbours, with its factor e^epsilon": _INEQUALITY,
        },
        rubric=[
            "h(M(D)) lies in S exactly when M(D) lies in T, the set of outputs that h sends into S.",
            "T is the same set for both neighbours, because h does not see the data.",
            "M is private for every set of outputs, so also for T; that inequality is the one to be shown for S.",
        ],
    )
