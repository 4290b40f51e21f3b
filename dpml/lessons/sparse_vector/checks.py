r"""The checks of the questions and exercises of chapter 08, The sparse vector technique.

Queries have sensitivity 1 under the neighbouring relation of the data.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml.classroom import checks, laws, verdict
from dpml.classroom.checks import Mistake
from dpml.classroom.comparison import as_finite
from dpml.classroom.laws import Law
from dpml.pate.sparse_vector import privacy
from dpml.pate.sparse_vector.outcomes import outcome_log_probability


def _above(value: float, *, threshold: float, threshold_scale: float, query_scale: float) -> float:
    scales = {"threshold": threshold, "threshold_scale": threshold_scale, "query_scale": query_scale}
    return math.exp(outcome_log_probability([value], above=[1], **scales))


def check_probability_above(answer: Any) -> None:
    """The probability that one noisy query is above the noisy threshold."""

    def with_scales(b1: float, b2: float) -> Callable[..., float]:
        def wrong(*, value: float, threshold: float, epsilon: float) -> float:
            return _above(value, threshold=threshold, threshold_scale=b1 / epsilon, query_scale=b2 / epsilon)

        return wrong

    reference = with_scales(2.0, 4.0)

    def inverted(*, value: float, threshold: float, epsilon: float) -> float:
        return reference(value=value, threshold=threshold, epsilon=1 / epsilon)

    checks.function(
        answer,
        name="probability_above",
        reference=reference,
        inputs=checks.settings(
            "value threshold epsilon",
            (0.0, 0.0, 1.0),
            (3.0, 10.0, 0.5),
            (12.0, 10.0, 2.0),
            (73.0, 50.0, 1.0),
            (-5.0, 5.0, 1.0),
            (1.0, 0.5, 0.1),
        ),
        rel=1e-5,
        abs=1e-8,
        mistakes=[
            Mistake(with_scales(0.0, 4.0), "the threshold has no noise here. It gets Lap(2/epsilon)."),
            Mistake(with_scales(2.0, 0.0), "the query has no noise here. It gets Lap(4/epsilon)."),
            Mistake(with_scales(2.0, 2.0), "the query has Lap(2/epsilon); it needs twice as much as the threshold."),
            Mistake(with_scales(4.0, 4.0), "the threshold has Lap(4/epsilon); Lap(2/epsilon) is enough."),
            Mistake(
                with_scales(4.0, 8.0), "both scales are twice as large: in the formula, b is that of the threshold."
            ),
            Mistake(with_scales(1.0, 2.0), "both scales are half as large as those of AboveThreshold."),
            Mistake(inverted, "the scales are multiplied by epsilon. A smaller epsilon needs more noise."),
            Mistake(
                lambda *, value, threshold, epsilon: 1 - reference(value=value, threshold=threshold, epsilon=epsilon),
                "this is the probability of below.",
            ),
            Mistake(
                lambda *, value, threshold, epsilon: reference(
                    value=min(value, 2 * threshold - value), threshold=threshold, epsilon=epsilon
                ),
                "a value above the threshold is treated as if it were as far below.",
            ),
        ],
        hint="At value = threshold it is one half. Far below the threshold it falls like e^(-gap epsilon/4).",
    )


def check_lam(answer: Any) -> None:
    """The scale lambda of the repaired M_svec at epsilon = 0.1, Q = 1, delta = 1e-5."""
    epsilon, cutoff, delta = 0.1, 1, 1e-5
    right = privacy.m_svec_noise_classic(epsilon=epsilon, delta=delta, cutoff=cutoff, queries=1).scale

    def root(inside: float) -> float:
        return math.sqrt(32 * cutoff * inside)

    half = math.log(2 / delta)
    checks.number(
        answer,
        name="lam",
        expected=right,
        rel=2e-4,
        mistakes=[
            Mistake(
                root(math.log(1 / delta)) * epsilon, "this is as printed: multiplied by epsilon, and private no more."
            ),
            Mistake(root(half) * epsilon, "the part of delta is right, but epsilon multiplies where it must divide."),
            Mistake(
                root(math.log(1 / delta)) / epsilon,
                "epsilon is where it belongs. But unstable queries need some of delta; here the composition takes all.",
            ),
            Mistake(
                math.sqrt(2) * right,
                "this is for two failures: the loop must end after failure number Q, not after one more.",
            ),
            Mistake(right**2 * epsilon, "the square root is missing."),
            Mistake(right * math.sqrt(epsilon), "epsilon stands under the root. It divides the root."),
            Mistake(2 * right, "this is the noise of the queries, 2 lambda."),
            Mistake(
                privacy.m_svec_noise(epsilon=epsilon, delta=delta, cutoff=cutoff).scale,
                "this is the least scale, by optimal composition. Repair the formula with the root.",
            ),
            Mistake(root(math.log10(2 / delta)) / epsilon, "the logarithm is the natural one."),
        ],
        hint="Smaller epsilon, more noise; and half of delta is for the composition.",
    )


def check_affordable_failures(answer: Any) -> None:
    """The largest number of failures for which all queries of a given distance still pass."""

    def needed(cutoff: int, *, epsilon: float, delta: float, queries: int, beta: float) -> float:
        noise = privacy.m_svec_noise(epsilon=epsilon, delta=delta, cutoff=cutoff)
        return privacy.enough_distance(scale=noise.scale, threshold=noise.threshold, queries=queries, beta=beta)

    def classic(cutoff: int, *, epsilon: float, delta: float, queries: int, beta: float) -> float:
        noise = privacy.m_svec_noise_classic(epsilon=epsilon, delta=delta, cutoff=cutoff, queries=queries)
        return privacy.enough_distance(scale=noise.scale, threshold=noise.threshold, queries=queries, beta=beta)

    def threshold_only(cutoff: int, *, epsilon: float, delta: float, **_: Any) -> float:
        return privacy.m_svec_noise(epsilon=epsilon, delta=delta, cutoff=cutoff).threshold

    def divided(cutoff: int, *, epsilon: float, **setting: Any) -> float:
        """As with epsilon divided among the failures: the noise of one failure for that part."""
        return needed(1, epsilon=epsilon / cutoff, **setting)

    def largest(distance: int, *, need: Callable[..., float] = needed, cap: int = 0, **setting: Any) -> int:
        """Each failure more needs more distance."""
        cutoffs = range(1, (cap or setting["queries"]) + 1)
        return bisect.bisect_right(cutoffs, float(distance), key=lambda cutoff: need(cutoff, **setting))

    tight = 1.5, 1e-6, 300, 0.02
    least = needed(12, **checks.settings("epsilon delta queries beta", tight)[0])
    checks.function(
        answer,
        name="affordable_failures",
        reference=largest,
        inputs=checks.settings(
            "distance epsilon delta queries beta",
            *((factor * least, *tight) for factor in (1 + 1e-7, 1 - 1e-7)),
            (120, 2.0, 1e-5, 400, 0.01),
            (500, 1.0, 1e-5, 1000, 0.01),
            (2000, 1.0, 1e-6, 1000, 0.01),
            (20, 1.0, 1e-5, 100, 0.01),
            (1000, 2.0, 1e-5, 5, 0.01),
            (900, 2.0, 1e-5, 100, 0.01),
            (1500, 2.0, 1e-5, 200, 0.01),
        ),
        mistakes=[
            Mistake(
                lambda distance, **s: largest(distance, need=classic, **s),
                "this takes the classic noise. With the least noise more failures are affordable.",
            ),
            Mistake(
                lambda distance, **s: largest(distance, need=threshold_only, **s),
                "it is not enough to reach the threshold: noise of queries and threshold comes on top.",
            ),
            Mistake(
                lambda distance, **s: largest(distance, need=divided, **s),
                "epsilon is divided among the failures. m_svec_noise composes better: give it the cutoff.",
            ),
            Mistake(
                lambda distance, **s: min(largest(distance, **s) + 1, s["queries"]),
                "one failure more: for your number the distance that is needed is larger than the one that is there.",
            ),
            Mistake(lambda distance, **s: max(0, largest(distance, **s) - 1), "one more failure is affordable."),
            Mistake(
                lambda distance, **s: min(largest(distance, **s), s["queries"] - 1),
                "the cutoff may be as large as the number of queries: range ends before it.",
            ),
            Mistake(
                lambda distance, **s: max(1, largest(distance, **s)),
                "where not even one failure is affordable the answer is 0.",
            ),
            Mistake(
                lambda distance, **s: largest(distance, cap=1000, **s), "more failures than queries cannot happen."
            ),
        ],
        hint="Put your number, and the next one, into m_svec_noise and enough_distance.",
    )


def _first(stream: Any, nu: Any, t: float) -> int | None:
    """Where AboveThreshold stops, given all its noises."""
    return next((i for i, (f, v) in enumerate(zip(stream, nu, strict=True)) if f + v >= t), None)


def _cases() -> list[dict[str, Any]]:
    """Neighbouring streams with noises, and where the first one stops; both directions, and every position."""
    rng = np.random.default_rng(8)
    found: list[dict[str, Any]] = []
    while len(found) < 60:
        k = int(rng.integers(1, 6))
        stream = rng.normal(0, 2, k).round(3)
        other = stream + rng.choice([-1.0, 0.0, 1.0], k)
        t, nu = round(float(rng.normal(1, 2)), 3), rng.normal(0, 2, k).round(3)
        if _first(stream, nu, t) == k - 1:
            found.append({"stream": stream, "other": other, "t": t, "nu": nu})
    return found


def check_moved(answer: Any) -> None:
    """The moved noises of the proof: (t, nu_k) for D become (t', nu_k') for D', and the output stays."""
    cases, name = _cases(), "moved"
    if callable(answer) and verdict.unfit(answer, (0, 0, 0, 0), {}):
        raise verdict.NotYet(f"Your {name} is called with four arguments: stream, other, t and nu, in this order.")

    def moved(f: Any, case: dict[str, Any]) -> tuple[float, float]:
        t, last = _pair(f(*case.values()))
        return t, last

    def told(case: dict[str, Any]) -> str:
        return f"for the answers {verdict.shown(case['stream'])} and {verdict.shown(case['other'])}"

    def problem(case: dict[str, Any], t: float, last: float) -> str:
        nu = np.append(case["nu"][:-1], last)
        came = _first(case["other"], nu, t - 1e-9)
        if came is None:
            return f"{told(case)}, the last query of D' is below the moved threshold."
        early = came < len(nu) - 1
        return f"{told(case)}, query {came + 1} of D' is above the moved threshold already." if early else ""

    def pairs(f: Any) -> bool | str:
        for case in cases:
            came = _pair(f(*case.values()))
            if isinstance(came, str):
                return came
        return True

    def same_output(f: Any) -> bool | str:
        came = [moved(f, case) for case in cases]
        found = next((text for case, two in zip(cases, came, strict=True) if (text := problem(case, *two))), "")
        if not found:
            return True
        if not any(problem(case, *two[::-1]) for case, two in zip(cases, came, strict=True)):
            return "the two are exchanged: the threshold comes first."
        steps = [(case["t"] + t, case["nu"][-1] + last) for case, (t, last) in zip(cases, came, strict=True)]
        if not any(problem(case, *two) for case, two in zip(cases, steps, strict=True)):
            return "these are the moves. Return where threshold and noise are after them."
        return found

    def short(f: Any) -> bool | str:
        for case in cases:
            t, last = moved(f, case)
            if abs(t - case["t"]) > 1 + 1e-9:
                return f"{told(case)} the threshold moves by {abs(t - case['t']):.3g}."
            if abs(last - case["nu"][-1]) > 2 + 1e-9:
                return f"{told(case)} the last noise moves by {abs(last - case['nu'][-1]):.3g}."
        return True

    def shift(f: Any) -> bool | str:
        for case in cases:
            t, last = moved(f, case)
            for up, on in ((0.125, 0.25), (-2.0, 3.0), (2.0, -3.0)):
                nu = np.append(case["nu"][:-1], case["nu"][-1] + on)
                t_again, last_again = moved(f, {**case, "t": case["t"] + up, "nu": nu})
                if abs(t_again - t - up) > 1e-9 or abs(last_again - last - on) > 1e-9:
                    return (
                        f"{told(case)}, how far the noises move depends on the noises that are moved. Then the "
                        "densities change by other factors than the proof says."
                    )
        return True

    checks.properties(
        answer,
        name=name,
        cases=[
            ("it returns two numbers", pairs),
            ("D' with the moved noises gives the output that D gave", same_output),
            ("the threshold moves by at most 1, the last noise by at most 2", short),
            ("given the other noises, each of the two moves is a shift", shift),
        ],
    )


def _pair(came: Any) -> Any:
    """Two floats, or in words what the student's function returned instead."""
    unordered = isinstance(came, (str, bytes, Mapping, set, frozenset))
    if unordered or not isinstance(came, Iterable) or getattr(came, "shape", None) == ():
        return f"it returned {verdict.kind(came)}."
    values = list(came)
    if len(values) != 2:
        return f"it returned {len(values)} of them."
    numbers = [as_finite(value) for value in values]
    for which, number in zip(("first", "second"), numbers, strict=True):
        if isinstance(number, str):
            return f"the {which} one {number}."
    return tuple(numbers)


def _ends(
    stream: NDArray[np.float64], threshold: float, b1: float, b2: float, *, fresh: bool = False, below: bool = False
) -> dict[int | None, float]:
    """The probability of each index and of None: with one noisy threshold or fresh ones, above or below it.

    By Gauss-Legendre nodes between the kinks of the integrand, for all indices at once; `privacy` and the chapter have
    the same numbers one by one, which a test compares.
    """
    if fresh:
        each = [_ends(stream[i : i + 1], threshold, b1, b2)[0] for i in range(len(stream))]
        passed, weights = np.array(each)[:, None], np.ones(1)
    else:
        t, weights = (
            _thresholds(stream, threshold, b1, width=max(b1, b2)) if b1 else (np.array([threshold]), np.ones(1))
        )
        gap = stream[:, None] - t
        tail = np.exp(-np.abs(gap) / b2) / 2 if b2 else np.zeros_like(gap)
        passed = np.where(gap >= 0, 1 - tail, tail)
    stops = 1 - passed if below else passed
    left = np.vstack([np.ones_like(stops[:1]), np.cumprod(1 - stops, axis=0)])
    found = np.vstack([left[:-1] * stops, left[-1:]]) @ weights
    return dict(zip([*range(len(stream)), None], found.tolist(), strict=True))


_LEGENDRE = np.polynomial.legendre.leggauss(40)


def _thresholds(
    stream: NDArray[np.float64], threshold: float, b1: float, *, width: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes for the noisy threshold, and their probabilities."""
    kinks = np.unique([threshold, *stream])
    edges = np.array([*(kinks[0] - width * np.array([60, 8])), *kinks, *(kinks[-1] + width * np.array([8, 60]))])
    x, w = _LEGENDRE
    half = np.diff(edges)[:, None] / 2
    t = (edges[:-1, None] + half + half * x).ravel()
    return t, (half * w).ravel() * np.exp(-np.abs(t - threshold) / b1) / (2 * b1)


def check_first_above(answer: Any) -> None:
    """AboveThreshold: the index of the first query above, or None, with Lap(2/epsilon) and Lap(4/epsilon)."""

    def law_of(b1: float, b2: float, *, told: Any = lambda i: i, at_zero: bool = False, **other: bool) -> Any:
        """The law with scales b1/epsilon and b2/epsilon; `told` says what comes out for an index or None."""

        def law(stream: Any, *, threshold: float, epsilon: float, noise: float = 1.0) -> Law:
            level = 0.0 if at_zero else threshold
            ends = _ends(np.asarray(stream, dtype=float), level, noise * b1 / epsilon, noise * b2 / epsilon, **other)
            table: dict[Any, float] = {}
            for i, p in ends.items():
                table[told(i)] = table.get(told(i), 0.0) + p
            return laws.discrete(table)

        return law

    checks.law(
        answer,
        name="first_above",
        law=law_of(2.0, 4.0),
        settings=checks.settings(
            "stream threshold epsilon",
            (np.zeros(5), 0.0, 1.1),
            (np.array([1.0, 1.0, 1.0, 1.0, -1.0]), 0.0, 1.1),
            (np.array([3.45, 0.45, 6.45]), 5.0, 2.0),
            (np.array([-4.0, 5.0, 1.0, 12.0]), 3.0, 0.6),
            (np.array([-10.0]), 0.0, 1.1),
            (np.full(400, -0.1), 0.0, 1.0),  # hardly ever None
        ),
        neighbours=[(0, 1)],
        runs=8000,
        wrong=[
            Mistake(
                lambda stream, *, threshold, **_: laws.certain(
                    next((i for i, v in enumerate(stream) if v >= threshold), None)
                ),
                "there is no noise at all, or always the same: the exact first query above is released.",
            ),
            Mistake(law_of(0.0, 4.0), "the threshold has no noise. Then every query below costs, not only the last."),
            Mistake(
                law_of(2.0, 4.0, fresh=True),
                "the threshold gets new noise for every query. It must be drawn once, or it hides nothing together.",
            ),
            Mistake(law_of(2.0, 2.0), "the queries have Lap(2/epsilon): the query above must hide a shift of 2."),
            Mistake(law_of(4.0, 2.0), "the two scales are exchanged."),
            Mistake(law_of(4.0, 4.0), "the threshold has Lap(4/epsilon) too: private, but with more noise than asked."),
            Mistake(law_of(2.0, 4.0, at_zero=True), "the threshold is taken as 0, whatever threshold is given."),
            Mistake(
                lambda stream, *, epsilon, **rest: law_of(2.0, 4.0)(stream, epsilon=1 / epsilon, **rest),
                "the scales are multiplied by epsilon. A smaller epsilon needs more noise.",
            ),
            Mistake(
                law_of(2.0, 0.0),
                "the queries have no noise, or all the same: then outputs of D can be impossible for D'.",
            ),
            Mistake(
                law_of(2.0, 4.0, below=True), "it stops at the first query below. Which way round is the comparison?"
            ),
            Mistake(law_of(2.0, 4.0, told=lambda i: i if i is None else i + 1), "queries are counted from 0."),
            Mistake(law_of(2.0, 4.0, told=lambda i: "other" if i is None else i), "None stands for: none was above."),
            Mistake(
                law_of(2.0, 4.0, told=lambda i: i if i is None else "value"),
                "what comes out is no index. Release the index of the first query above, and nothing of its value.",
            ),
        ],
    )


_CLAIMS = {
    "a": (True, "all queries below are hidden by the one noise of the threshold: the length does not matter."),
    "b": (False, "the values depend on the data, and no noise was spent on them: only the bits are covered."),
    "c": (False, "each further answer above costs, as no single shift of the threshold serves them all."),
    "d": (True, "for a given output the next query is the same under both datasets, so the proof goes through."),
    "e": (
        False,
        "with more than one failure in a hundred, Q grows with the number of queries, and the threshold with it.",
    ),
    "f": (True, "outputs in which all different queries failed show bits alone; the others have probability Q p."),
    "g": (False, "the position is part of the output, and the theorem covers the whole output. Nothing more is spent."),
    "h": (
        False,
        "distances are answers of a query of sensitivity 1. Without noise they tell exactly how close it was.",
    ),
}


def check_claims(answer: Any) -> None:
    """Which statements on the technique are true: a dictionary from letter to True or False."""
    checks.statements(answer, name="claims", expected=_CLAIMS)


def check_giveaway(answer: Any) -> None:
    """An output of the variant without query noise that D can give and D' never can: (stream, other, bits)."""

    def test(triple: Any) -> str | None:
        if isinstance(triple, (str, Mapping)) or not isinstance(triple, Iterable) or len(list(triple)) != 3:
            raise ValueError("it needs a tuple of three lists: the answers on D, those on D', and the output")
        d, d_prime = (_numbers(values, "the answers") for values in list(triple)[:2])
        bits = _numbers(list(triple)[2], "the output")
        if not np.isin(bits, (0, 1)).all():
            raise ValueError("the output holds 1 for above and 0 for below, and nothing else")
        ups = bits.astype(int)
        if not (d.ndim == 1 and d.shape == d_prime.shape == ups.shape and len(d) > 0):
            raise ValueError("it needs two lists of answers and one of bits, all of the same length")
        if np.abs(d - d_prime).max() > 1 + 1e-12:
            raise ValueError("between neighbours every answer changes by at most 1")
        noise = {"threshold": 0.0, "threshold_scale": 2.0, "query_scale": 0.0}
        first, second = (outcome_log_probability(v, above=ups, **noise) for v in (d, d_prime))
        if first == -math.inf:
            return (
                "this output is impossible for the first dataset: one of its answers marked below is at least as large "
                "as one marked above."
            )
        if second > -math.inf:
            return f"both datasets can give it; the loss is {first - second:.3g}, and asked is an infinite one."
        return None

    checks.counterexample(answer, name="giveaway", test=test, shows=lambda _: "D can give these bits, and D' never can")


def _numbers(values: Any, what: str) -> NDArray[np.float64]:
    """A list of finite numbers as an array; truth values count as 0 and 1."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{what} must be one list of numbers") from None
    if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
        raise ValueError(f"{what} must be finite numbers")
    return array.astype(float)
