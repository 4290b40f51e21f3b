r"""The checks of the questions and exercises of chapter 10, Propose-test-release.

Neighbours: add/remove.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml.accounting import pld, rdp
from dpml.classroom import checks, laws, verdict
from dpml.classroom.calls import takes
from dpml.classroom.checks import Mistake
from dpml.classroom.laws import Law
from dpml.ptr import privacy, renyi, theorems, trimmed_sum
from dpml.ptr.propose_test_release import threshold


def check_barrier(answer: Any) -> None:
    """The threshold that Laplace noise of scale 1 exceeds with probability 1e-8."""
    checks.number(
        answer,
        name="barrier",
        expected=threshold(scale=1.0, delta0=1e-8),
        rel=2e-4,
        mistakes=[
            Mistake(math.log(1e8), "this counts both sides: the noise passes above only, half of the time."),
            Mistake(math.log(2e8), "half of the noise is below 0. That makes it rarer above, so B is smaller."),
            Mistake(math.log10(0.5e8), "the logarithm is the natural one."),
        ],
        hint="For x above 0 the noise exceeds x with probability e^(-x) / 2.",
    )


def check_laplace_rdp(answer: Any) -> None:
    """The Rényi divergence of Laplace noise."""

    def moment(order: float, scale: float) -> float:
        first = order / (2 * order - 1) * math.exp((order - 1) / scale)
        return first + (order - 1) / (2 * order - 1) * math.exp(-order / scale)

    def of(form: Callable[[float, float, float], float]) -> Callable[..., float]:
        """From order a, scale b and moment m."""
        return lambda order, *, scale: form(order, scale, moment(order, scale))

    checks.function(
        answer,
        name="laplace_rdp",
        reference=lambda order, *, scale: float(rdp.laplace(order, scale=scale)),
        inputs=[{"order": a, "scale": b} for a in (1.5, 2.0, 5.0, 20.0) for b in (0.5, 1.0, 5.0)],
        mistakes=[
            Mistake(of(lambda a, b, m: math.log(m)), "this is the log-moment. Divide by order - 1."),
            Mistake(of(lambda a, b, m: math.log(m) / a), "this divides by the order. The factor is order - 1."),
            Mistake(of(lambda a, b, m: 1 / b), "this is the epsilon of delta = 0, the limit of large orders."),
            Mistake(of(lambda a, b, m: m), "this is the moment. Take its logarithm and divide by order - 1."),
            Mistake(of(lambda a, b, m: math.log(m) * (a - 1)), "the logarithm is multiplied by order - 1. Divide."),
            Mistake(
                of(lambda a, b, m: math.log(moment(a, 1 / b)) / (a - 1)),
                "the exponents are multiplied by the scale. A larger scale hides more.",
            ),
            Mistake(
                of(lambda a, b, m: math.log(a / (2 * a - 1)) / (a - 1) + 1 / b),
                "the second of the two terms of the moment is missing.",
            ),
        ],
        hint="It must rise with the order, from the mean loss towards 1/scale.",
    )


def check_ptr_rdp(answer: Any) -> None:
    """Theorem 4.3: the larger of the two cases."""

    def right(order: float, *, sigma: float, tau: float, scale: float, delta0: float) -> float:
        return float(privacy.theorem_4_3(order, sigma=sigma, tau=tau, scale=scale, delta0=delta0))

    def case_1(order: float, *, sigma: float, tau: float, delta0: float, **_: float) -> float:
        return float(theorems.rdp_case_1(order, sigma=sigma, tau=tau, delta0=delta0))

    def case_2(order: float, *, sigma: float, scale: float, **_: float) -> float:
        return float(theorems.rdp_case_2(order, sigma=sigma, scale=scale))

    def mixed(often: Callable[..., float], rarely: Callable[..., float]) -> Callable[..., float]:
        """The larger case, where case 1 mixes noises of these variances."""

        def wrong(order: float, *, delta0: float, **given: float) -> float:
            parts = [order * (order - 1) / (2 * variance(**given)) for variance in (often, rarely)]
            moment = np.logaddexp(math.log1p(-delta0) + parts[0], math.log(delta0) + parts[1])
            return max(float(moment) / (order - 1), case_2(order, **given))

        return wrong

    def averaged(order: float, *, sigma: float, tau: float, delta0: float, **given: float) -> float:
        mean = (1 - delta0) * order / (2 * sigma**2) + delta0 * order / (2 * (sigma * tau) ** 2)
        return max(mean, case_2(order, sigma=sigma, **given))

    def larger(first: Callable[..., float], second: Callable[..., float]) -> Callable[..., float]:
        return lambda order, **given: max(first(order, **given), second(order, **given))

    base = {"sigma": 1.1, "tau": 0.5, "scale": 1.0, "delta0": 1e-8}
    others = [
        {**base, "tau": 0.2},
        {**base, "delta0": 0.1},
        {"sigma": 3.0, "tau": 0.3, "scale": 20.0, "delta0": 0.2},
        {"sigma": 5.0, "tau": 0.9, "scale": 0.5, "delta0": 0.001},  # Laplace noise alone exceeds case 1
    ]
    checks.function(
        answer,
        name="ptr_rdp",
        reference=right,
        inputs=[{"order": a, **given} for given in (base, *others) for a in (1.5, 2.0, 4.0, 7.0)],
        mistakes=[
            Mistake(
                lambda order, **given: min(case_1(order, **given), case_2(order, **given)),
                "this is the smaller of the two cases. Either may happen: take the larger.",
            ),
            Mistake(
                larger(case_1, lambda order, *, scale, **_: float(rdp.laplace(order, scale=scale))),
                "the close pair has no Gaussian part. Margin and answer are both released.",
            ),
            Mistake(case_1, "this is the troubled pair alone: the close one, or its Laplace part, is missing."),
            Mistake(
                lambda order, **given: case_1(order, **given) + case_2(order, **given),
                "the two cases are added. A pair of neighbours is in one of them: take the larger.",
            ),
            Mistake(averaged, "this averages divergences over the public coin. What is averaged is the moment."),
            Mistake(
                mixed(lambda *, sigma, **_: sigma**2, lambda *, sigma, tau, **_: sigma**2 * tau),
                "sigma tau is the noise of the passed test, so its square is sigma^2 tau^2.",
            ),
            Mistake(
                mixed(lambda *, sigma, tau, **_: (sigma * tau) ** 2, lambda *, sigma, **_: sigma**2),
                "delta0 is the probability of the smaller noise, sigma tau. The two are exchanged.",
            ),
            Mistake(
                larger(case_1, lambda order, *, sigma, tau, scale, **_: case_2(order, sigma=sigma * tau, scale=scale)),
                "a close pair has the noise sigma, in units of its move. That of sigma tau is for trouble.",
            ),
            Mistake(
                lambda order, **given: (order - 1) * right(order, **given), "this is a log-moment. Divide by order - 1."
            ),
            Mistake(
                larger(lambda order, **given: (order - 1) * case_1(order, **given), case_2),
                "the troubled pair has its log-moment here. Divide it by order - 1.",
            ),
            Mistake(case_2, "this is the close pair alone: the troubled one, or its rare branch, is missing."),
        ],
        hint="It is the larger of a mixture of two moments, in trouble, and a sum of two divergences, close.",
    )


def check_sampled_log_moment(answer: Any) -> None:
    """The exact log-moment of case 2 on a Poisson sample: a finite sum."""

    def summed(order: int, *, q: float, sigma: float, scale: float, choose: bool = True, less: int = 0) -> float:
        terms = [
            (math.log(math.comb(order, k)) if choose else 0.0)
            + (order - k) * math.log1p(-q)
            + k * math.log(q)
            + _moment(k, sigma=sigma, scale=scale)
            for k in range(order + 1 - less)
        ]
        return float(np.logaddexp.reduce(terms))

    def right(order: int, *, q: float, sigma: float, scale: float) -> float:
        given = {"q": q, "sigma": sigma, "tau": 0.5, "scale": scale, "delta0": 1e-12}
        return (order - 1) * float(renyi.exact_cases(float(order), **given).case_2)

    def gaussian_only(order: int, *, q: float, sigma: float, scale: float) -> float:
        return (order - 1) * float(rdp.subsampled_gaussian(float(order), q=q, sigma=sigma))

    def laplace_only(order: int, *, q: float, sigma: float, scale: float) -> float:
        return summed(order, q=q, sigma=1e9, scale=scale)

    checks.function(
        answer,
        name="sampled_log_moment",
        reference=right,
        inputs=[
            {"order": a, "q": q, "sigma": sigma, "scale": b}
            for a in (2, 3, 8, 20)
            for q, sigma, b in ((0.01, 1.1, 1.0), (0.2, 2.0, 5.0), (0.001, 4.0, 0.5))
        ],
        mistakes=[
            Mistake(
                lambda order, **given: right(order, **given) / (order - 1),
                "this is the divergence. The log-moment is order - 1 times that.",
            ),
            Mistake(gaussian_only, "the Laplace part is missing: this is the Gaussian answer alone."),
            Mistake(
                lambda order, **given: summed(order, **given, choose=False), "the binomial coefficients are missing."
            ),
            Mistake(
                lambda order, *, q, sigma, scale: _moment(order, sigma=sigma, scale=scale),
                "this is the log-moment without sampling: q makes no difference. Each term has the moment of its k.",
            ),
            Mistake(laplace_only, "the Gaussian part is missing: this is the Laplace answer alone."),
            Mistake(
                lambda order, *, q, **given: summed(order, q=1 - q, **given),
                "q and 1 - q are exchanged: the record is in k of the order draws.",
            ),
            Mistake(
                lambda order, **given: summed(order, **given, less=1),
                "the term k = order is missing: range(order) ends before it.",
            ),
            Mistake(
                lambda order, **given: math.exp(right(order, **given)), "this is the moment. Its logarithm is asked."
            ),
            Mistake(
                lambda order, **given: laplace_only(order, **given) + gaussian_only(order, **given),
                "this adds two mechanisms on samples of their own. Margin and answer share one sample.",
            ),
        ],
        rel=1e-6,
        abs=1e-11,
        hint="It is log of a sum of order + 1 terms, each a binomial probability times a moment of the product.",
    )


def _moment(k: int, *, sigma: float, scale: float) -> float:
    """The log-moment log E_Q (P/Q)^k of Laplace and Gaussian noise together."""
    laplace = np.logaddexp(
        math.log(k / (2 * k - 1)) + (k - 1) / scale if k > 0 else -math.inf,
        math.log((k - 1) / (2 * k - 1)) - k / scale if k != 1 else -math.inf,
    )
    return float(laplace) + k * (k - 1) / (2 * sigma**2)


DELTA = 1e-5
MNIST = {"q": 256 / 60_000, "sigma": 1.1, "tau": 0.5, "scale": 1.0, "delta0": 1e-8}


def check_first_false_order(answer: Any) -> None:
    """The first whole order at which the formula of Theorem 4.4 is below the exact divergence, MNIST setting."""
    checks.choice(
        answer,
        name="first_false_order",
        expected=next(
            a
            for a in range(2, 201)
            if theorems.theorem_4_4_formula(float(a), **MNIST) < privacy.exact_subsampled_rdp(float(a), **MNIST)
        ),
        options=list(range(2, 201)),
        mistakes=[
            Mistake(2, "at order 2 the formula is above the exact value, though its conditions fail there too."),
            Mistake(
                lambda a: 2 < a < 6,
                "the formula is still above the exact value there. Go on to larger orders.",
                example=4,
            ),
            Mistake(
                lambda a: 6 < a <= 200,
                "the formula is below the exact value there, but at a smaller order it already is.",
                example=8,
            ),
        ],
        hint="Compare theorems.theorem_4_4_formula with privacy.exact_subsampled_rdp at orders 2, 3, 4, ...",
    )


@cache
def _spent(steps: int, by: Callable[..., Any]) -> float:
    """Epsilon of so many steps of the MNIST setting, by a function that takes some of its parameters."""
    run = {**MNIST, "steps": steps, "delta": DELTA}
    return float(by(**{name: run[name] for name in inspect.signature(by).parameters if name in run}).epsilon)


@cache
def _matched() -> float:
    return privacy.matching_gaussian_sigma(**MNIST, steps=3500, delta=DELTA)


@cache
def _close_pair() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Orders, and the divergences of the close pair after 3000 steps."""
    orders = np.arange(2.0, 41.0)
    return orders, 3000 * np.asarray(renyi.exact_cases(orders, **MNIST).case_2)


def check_epsilon_moved(answer: Any) -> None:
    """Epsilon of 3000 steps by the Rényi curve of the close pair, the rare branch paid in delta; any orders."""
    orders, curve = _close_pair()
    left = DELTA - 3000 * MNIST["q"] * MNIST["delta0"]
    improved = rdp.conversion_improved
    checks.number(
        answer,
        name="epsilon_moved",
        expected=_spent(3000, renyi.epsilon_by_rdp_branch_in_delta),
        rel=3e-4,  # all of delta, with nothing moved, gives 0.08 % less
        mistakes=[
            Mistake(
                np.min(improved(orders, rdp=curve, delta=DELTA)),
                "this converts at all of delta. The rare branch has a part of it.",
            ),
            Mistake(
                np.min(rdp.conversion_classic(orders, rdp=curve, delta=left)),
                "this is what the older conversion, rdp + log(1/delta)/(order - 1), gives. Use the improved one.",
            ),
            Mistake(
                lambda a: abs(a - _spent(3000, renyi.epsilon_by_rdp)) < 0.045,
                "this is the curve of both pairs. The rare branch should be in delta, and not in the moments.",
                example=_spent(3000, renyi.epsilon_by_rdp),
            ),
            Mistake(
                _spent(3000, rdp.epsilon),
                "this is the Gaussian noise alone. A close pair has the Laplace noise of the margin, too.",
            ),
            Mistake(
                np.min(improved(orders, rdp=curve * (orders - 1), delta=left)),
                "these are log-moments. Divide each by order - 1 before the conversion.",
            ),
            Mistake(
                _spent(3000, privacy.epsilon),
                "this is the loss distribution's epsilon. A bound by Rényi divergences is asked here.",
            ),
        ],
        hint="Take 3000 times the divergence of a close pair on a sample, and convert at delta less 3000 q delta0.",
    )


def check_matched_sigma(answer: Any) -> None:
    """The noise multiplier of plain DP-SGD with the epsilon of 3500 steps of propose-test-release."""

    @cache
    def spent(sigma: float) -> float:
        return pld.epsilon(q=MNIST["q"], sigma=sigma, steps=3500, delta=DELTA).epsilon

    bounds = renyi.epsilon_by_rdp_branch_in_delta, renyi.epsilon_by_rdp
    checks.number(
        answer,
        name="matched_sigma",
        expected=_matched(),
        rel=0.0,
        abs=0.002,
        mistakes=[
            Mistake(1.1, "this is sigma of the failed test. The test itself costs privacy, too."),
            Mistake(0.55, "this is sigma times tau. That noise is used only where the sum moves by at most tau."),
            Mistake(0.7, "this is the baseline of the paper, which is not equally private."),
            Mistake(
                lambda a: 0.915 < a < 0.935,
                "this matches one release without sampling. Match the 3500 sampled steps.",
                example=0.925,
            ),
            Mistake(
                _spent(3500, privacy.epsilon),
                "this is the epsilon that both shall have. The noise multiplier is asked.",
            ),
            Mistake(
                lambda a: math.isclose(spent(a), 3.041, rel_tol=0.01),
                "this matches the epsilon that the paper's formula gives, not the true one.",
                example=0.7246,
            ),
            Mistake(
                lambda a: any(math.isclose(spent(a), _spent(3500, bound), rel_tol=0.01) for bound in bounds),
                "this matches a bound by Rényi divergences. privacy.epsilon is sharper.",
                example=0.7634,
            ),
        ],
        hint="With it, pld.epsilon for q = 256/60000 and 3500 steps is privacy.epsilon of the setting.",
    )


def check_why_one(answer: Any) -> None:
    """Two or three sentences: why the safety margin of any function moves by at most 1."""
    checks.argument(
        answer,
        name="why_one",
        rubric=[
            "Take the sensitive dataset nearest to S': it is as many changes away as the margin of S' says.",
            "From S one change leads to S', and then those changes lead on to it: the margin of S is at most that of "
            "S' plus 1.",
            "Exchange S and S'. Nothing about the function was used: not its values, and not its global sensitivity.",
        ],
        question="S has margin 0 and its neighbour S' has margin 3: which step of your argument rules that out?",
    )


def check_release(answer: Any) -> None:
    """A private median of numbers in [0, 1]: noise for tau if the noisy margin passes, noise for 1/2 if not."""

    def released(**wrong: Any) -> Any:
        """The law of the noisy median; `wrong` maps what differs to a function of the given parameters."""

        def law(median: float, *, noise: float = 1.0, **given: float) -> Law:
            sigma, tau, scale, delta0 = (given[key] for key in ("sigma", "tau", "scale", "delta0"))
            found = {
                "at": median,
                "scale": scale,
                "limit": threshold(scale=scale, delta0=delta0),
                "small": sigma * tau,
                "large": sigma / 2,
            } | {key: change(sigma, tau, scale, delta0) for key, change in wrong.items() if key not in kinds}
            test, kind = wrong.get("test", laws.laplace), wrong.get("kind", laws.normal)
            b = max(noise * found["scale"], 1e-9)
            passes = float(1 - test(given["margin"], b).cdf(np.array([found["limit"]]))[0])
            parts = [kind(found["at"], max(noise * found[key], 1e-9)) for key in ("small", "large")]
            return laws.mixture([passes, 1 - passes], parts)

        return law

    kinds = ("test", "kind")

    def exact_margin(median: float, *, margin: float, sigma: float, tau: float, noise: float = 1.0, **_: float) -> Law:
        return laws.normal(median, noise * sigma * (0.5 if margin == 0 else tau))

    def log(delta0: float) -> float:
        return math.log(1 / (2 * delta0))

    told = (
        (
            {"scale": lambda s, t, b, d: 0.0},
            "the margin is compared with the threshold without noise, so the branch tells what the margin is.",
        ),
        (
            {"small": lambda s, t, b, d: t},
            "the noise of the passed test has standard deviation tau. It must be sigma times tau.",
        ),
        (
            {"large": lambda s, t, b, d: s * t},
            "the noise is sigma times tau even if the test fails. Then the median may move by 1/2.",
        ),
        (
            {"small": lambda s, t, b, d: s / 2},
            "the noise is for the global sensitivity even if the test passes. The test then buys nothing.",
        ),
        (
            {"limit": lambda s, t, b, d: 0.0},
            "the noisy margin is compared with 0. A margin of 0 must pass with probability delta0 only.",
        ),
        ({"scale": lambda s, t, b, d: 1 / b}, "the noise of the margin has scale 1/scale. It is Lap(scale)."),
        ({"scale": lambda s, t, b, d: 1.0}, "the noise of the margin is Lap(1), not Lap(scale)."),
        ({"scale": lambda s, t, b, d: b / 2}, "the noise of the margin is half as large as asked."),
        ({"scale": lambda s, t, b, d: 2 * b}, "the noise of the margin is twice as large as asked."),
        ({"test": laws.normal}, "the noise of the margin is Gaussian, and its tails do not fit the threshold."),
        ({"large": lambda s, t, b, d: 0.5}, "the noise of the failed test is 1/2. It must be sigma times that."),
        ({"large": lambda s, t, b, d: s}, "the noise of the failed test is sigma. The global sensitivity is 1/2."),
        ({"large": lambda s, t, b, d: s / 4}, "the noise of the failed test is half as large as asked."),
        ({"small": lambda s, t, b, d: s * t / 2}, "the noise of the passed test is half as large as asked."),
        ({"small": lambda s, t, b, d: s}, "the noise of the passed test is sigma, without tau."),
        (
            {"small": lambda s, t, b, d: (s * t) ** 2, "large": lambda s, t, b, d: (s / 2) ** 2},
            "the noise has the variance for its standard deviation: rng.normal takes the latter.",
        ),
        (
            {"small": lambda s, t, b, d: math.sqrt(s * t), "large": lambda s, t, b, d: math.sqrt(s / 2)},
            "the root of the standard deviation is taken.",
        ),
        ({"limit": lambda s, t, b, d: log(d)}, "the threshold lacks the factor scale."),
        ({"limit": lambda s, t, b, d: log(d) / b}, "the threshold is divided by scale, not multiplied."),
        ({"limit": lambda s, t, b, d: b * math.log(1 / d)}, "the threshold has log(1/delta0), without the 2."),
        (
            {"limit": lambda s, t, b, d: b * math.log(2 / d)},
            "the threshold has log(2/delta0) in the place of log(1/(2 delta0)).",
        ),
        (
            {"limit": lambda s, t, b, d: b * log(d) / math.log(10)},
            "the logarithm of the threshold is not the natural one.",
        ),
        ({"small": lambda s, t, b, d: 0.0}, "the median is released without noise if the test passes."),
        (
            {"small": lambda s, t, b, d: s / 2, "large": lambda s, t, b, d: s * t},
            "the branches are exchanged: a large margin allows the small noise.",
        ),
        ({"kind": laws.laplace}, "the noise of the released median is Laplace, and sigma is for Gaussian noise."),
        ({"at": lambda s, t, b, d: 0.0}, "the median itself is missing: the answers are centred at 0."),
    )
    checks.law(
        answer,
        name="release",
        law=released(),
        settings=[  # the test fails, passes, fails mostly (where the tail of its noise shows), and does both
            {"median": 0.3, "margin": 0.0, "tau": 0.02, "sigma": 3.0, "scale": 3.0, "delta0": 1e-4},
            {"median": 0.7, "margin": 90.0, "tau": 0.03, "sigma": 2.0, "scale": 3.0, "delta0": 0.01},
            {"median": 0.4, "margin": 13.0, "tau": 0.002, "sigma": 3.0, "scale": 4.0, "delta0": 0.002},
            {"median": 0.6, "margin": 4.0, "tau": 0.02, "sigma": 2.0, "scale": 1.5, "delta0": 0.03},
        ],
        runs=6000,
        wrong=[
            *(Mistake(released(**wrong), diagnosis) for wrong, diagnosis in told),
            Mistake(exact_margin, "the exact margin chooses the noise, and is not protected by any of its own."),
        ],
    )


def check_margin(answer: Any) -> None:
    """The safety margin of the trimmed sum: against the printed enumeration."""

    def cases(rng: np.random.Generator) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = [
            {"norms": np.array([]), "trim": 3, "tau": 0.5},
            {"norms": np.array([0.2, 0.9]), "trim": 0, "tau": 0.5},
            {"norms": np.array([0.9]), "trim": 4, "tau": 0.5},
        ]
        for _ in range(40):
            norms = rng.choice([0.0, 0.1, 0.3, 0.5, 0.5, 0.8, 1.0], size=int(rng.integers(0, 15)))
            found.append({"norms": norms, "trim": int(rng.integers(0, 10)), "tau": float(rng.choice([0.2, 0.5, 0.9]))})
        return found

    def above(norms: Any, tau: float) -> int:
        return int(np.sum(np.asarray(norms) > tau))

    checks.function(
        answer,
        name="margin",
        reference=partial(trimmed_sum.safety_margin_enumerated, bound=1.0),
        inputs=cases,
        mistakes=[
            Mistake(
                lambda norms, *, trim, tau: len(norms) - above(norms, tau),
                "this is how many norms do not exceed tau. The margin starts from trim.",
            ),
            Mistake(
                lambda norms, *, trim, tau: min(0, trim - above(norms, tau)),
                "min and max are exchanged: 0 is the least value, and not the largest.",
            ),
            Mistake(
                lambda norms, *, trim, tau: trim - above(norms, tau),
                "it is negative where more norms than trim exceed tau. A distance is at least 0.",
            ),
            Mistake(
                lambda norms, *, trim, tau: max(0, trim - int(np.sum(np.asarray(norms) >= tau))),
                "a norm equal to tau does not exceed it.",
            ),
            Mistake(
                lambda norms, *, trim, tau: max(0, min(trim, len(norms)) - above(norms, tau)),
                "with fewer vectors than trim the count still starts from trim: vectors can be added.",
            ),
            Mistake(
                lambda norms, *, trim, tau: max(0, trim - above(norms, tau) - 1),
                "it is one too small. At r = margin the local sensitivity exceeds tau for the first time.",
            ),
            Mistake(
                lambda norms, *, trim, tau: max(0, trim - above(norms, tau) + 1),
                "it is one too large. At r = margin the local sensitivity exceeds tau for the first time.",
            ),
            Mistake(
                lambda norms, *, trim, tau: above(norms, tau),
                "this is how many norms exceed tau. The margin is what trim has left after them.",
            ),
        ],
        hint="It is the first r at which the norm of rank m - trim + 1 + r exceeds tau, or trim if none does.",
    )


def check_total(answer: Any) -> None:
    """A trimmed sum that one record moves by at most the bound, in whatever order the batch comes."""
    name = "total"

    def of(f: Any) -> Sum:
        return lambda rows, ids, trim, bound: _vector(f(rows, ids=ids, trim=trim, bound=bound))

    def leaves_out(f: Any) -> bool | str:
        rows, ids = np.array([[0.5, 0.0], *[[0.0, 3.0]] * 5]), np.array([4, 9, 2, 6, 1, 7])
        came = _vector(f(rows, ids=ids, trim=2, bound=1.0))
        if isinstance(came, str):
            return came
        if came.shape != (2,):
            return f"for 6 vectors of 2 entries it returned an array of shape {came.shape}, not (2,)"
        if not _same(came, np.array([0.5, 3.0])):
            return (
                f"of 6 vectors, 5 of them equal, trim = 2 leaves 4 in the sum, and it is {verdict.shown(came)}. Leave "
                "out so many vectors, not all above a length"
            )
        return True

    checks.properties(
        takes(answer, name=name, called=("vectors", "ids", "trim", "bound")),
        name=name,
        cases=[
            ("it is the sum of the clipped vectors without the longest ones", lambda f: is_trimmed_sum(of(f))),
            ("it leaves out as many vectors as trim says", leaves_out),
            ("one record moves it by at most the bound", lambda f: one_record_moves_little(of(f))),
        ],
    )


Sum = Callable[[NDArray[np.float64], NDArray[Any], int, float], NDArray[np.float64] | str]


def _vector(came: Any) -> NDArray[np.float64] | str:
    """What the student's function returned as an array of floats, or what it is instead."""
    try:
        array = np.asarray(came)
    except ValueError:
        return f"it returned {verdict.kind(came)} whose rows have different lengths"
    if array.dtype.kind not in "iuf":
        return f"it returned {verdict.kind(came)}, not an array of real numbers"
    return array.astype(float)


def _same(came: NDArray[np.float64], right: NDArray[np.float64]) -> bool:
    """Equal up to rounding, in single precision as well."""
    return bool(np.allclose(came, right, rtol=0.0, atol=1e-5))


def is_trimmed_sum(total: Sum) -> bool | str:
    """Whether a sum of vectors is the clipped and trimmed one, here also in words what else it is."""
    rng, bound = np.random.default_rng(1), 2.0
    for m, trim in ((6, 2), (5, 0), (3, 3), (4, 5), (9, 4)):
        rows = rng.normal(size=(m, 3)) * rng.uniform(0.4, 6.0, size=(m, 1))
        ids = rng.permutation(100)[:m]
        came = total(rows, ids, trim, bound)
        if isinstance(came, str):
            return came
        right = trimmed_sum.clipped_trimmed_sum(rows, ids=ids, trim=trim, bound=bound)
        if came.shape != right.shape:
            return f"for {m} vectors of 3 entries it returned an array of shape {came.shape}, not {right.shape}"
        if not _same(came, right):
            if m <= trim:
                return f"with {m} vectors and trim = {trim} nothing is left, and the sum is zero"
            return _wrong_sum(came, rows, ids=ids, trim=trim, bound=bound)
    return True


def one_record_moves_little(total: Sum) -> bool | str:
    """Whether one record moves a sum of vectors by at most the bound, in whatever order the batch comes."""
    rng, worst, m, trim = np.random.default_rng(2), 0.0, 24, 8
    for _ in range(100):
        rows = rng.choice([-3.0, 3.0, 0.5], size=(m, 1), p=[0.45, 0.45, 0.1]) * np.array([[0.6, 0.8]])
        ids, order = rng.permutation(1000)[:m], rng.permutation(m)[1:]
        pair = total(rows, ids, trim, 1.0), total(rows[order], ids[order], trim, 1.0)
        for came in pair:
            if isinstance(came, str):
                return came
        worst = max(worst, float(np.linalg.norm(np.subtract(*pair))))
    if not worst <= 1.0 + 1e-4:
        return (
            f"in a batch that comes in another order, one record moved the sum by {worst:.1f} times the bound. "
            "Sort by the length before clipping, and let the id decide between equal lengths"
        )
    return True


def _wrong_sum(came: NDArray[np.float64], rows: NDArray[np.float64], *, ids: Any, trim: int, bound: float) -> str:
    """Which other sum this is; the vectors have different lengths, and some are left."""
    m, lengths = len(rows), np.linalg.norm(rows, axis=1)
    clipped = rows * np.minimum(1.0, bound / lengths)[:, None]
    stays = trimmed_sum.kept(lengths, trim=trim, ids=ids)
    unclipped = rows[stays].sum(axis=0)
    if _same(came, unclipped):
        return "the vectors are not clipped to the bound"
    if _same(came, unclipped / max(1.0, float(np.linalg.norm(unclipped)) / bound)):
        return "the sum is clipped, and not each vector"
    if _same(came, bound * (rows[stays] / lengths[stays][:, None]).sum(axis=0)):
        return "short vectors are made longer. Clipping only shortens"
    if _same(came, np.clip(rows[stays], -bound, bound).sum(axis=0)):
        return "each entry is clipped. It is the length of a vector that must be at most the bound"
    if any(_same(came * n, clipped[stays].sum(axis=0)) for n in (m, stays.sum())):
        return "this is the mean: return the sum"
    for bits in itertools.product((False, True), repeat=m):
        chosen = np.array(bits)
        if not _same(came, clipped[chosen].sum(axis=0)):
            continue
        if chosen.sum() != stays.sum():
            return f"for {m} vectors and trim = {trim} it adds up {chosen.sum()} of them"
        if (lengths[~chosen] > bound).all():
            return (
                f"for {m} vectors and trim = {trim} it leaves out some that are clipped, but not the longest. Sort by "
                "the length before clipping"
            )
        return f"for {m} vectors and trim = {trim} it leaves out others than the longest"
    return f"for {m} vectors of different lengths and trim = {trim} it is another sum"
