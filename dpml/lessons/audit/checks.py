"""The checks of the exercises of chapter 14, trust but audit: first those of its text, then the sheet's in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml import mechanisms
from dpml.classroom import checks, laws
from dpml.classroom.checks import Mistake
from dpml.classroom.laws import Law

Array = NDArray[np.float64]


# ---- in the text of the chapter ----


def check_sure(answer: Any) -> None:
    """What remains of 95 % when ten events are tried on the same runs."""
    checks.number(
        answer,
        expected=0.5,
        name="sure",
        mistakes=[
            Mistake(0.95, "each bound by itself holds with 95 %; the largest of ten is another thing."),
            Mistake(0.95**10, "this is for ten independent bounds. On the same runs nothing is known but the sum."),
            Mistake(0.05, "so often a single bound may fail. Ten may fail ten times as often together."),
            Mistake(0.995, "that would be 0.05 shared out to ten. Here each had 0.05 for itself."),
        ],
        hint="Add up the chances that one of them fails.",
    )


def check_refuted_epsilon(answer: Any) -> None:
    """The least epsilon that twenty right guesses of twenty leave, at delta 0."""
    p = 0.05 ** (1 / 20)
    checks.number(
        answer,
        expected=math.log(p / (1 - p)),
        name="refuted_epsilon",
        rel=1e-3,
        mistakes=[
            Mistake(p, "this is the chance of a single right guess. Solve e^ε/(1 + e^ε) = p for ε."),
            Mistake(-math.log(1 - p), "ε is the logarithm of the odds p/(1 - p)."),
            Mistake(math.log(20 / 0.05), "20 of 20 does not show that the odds are 20 to 0.05."),
            Mistake(math.log(0.95 / 0.05), "the 20th power of the chance is 0.05, and not the chance of a miss."),
            Mistake(
                math.log(0.025 ** (1 / 20) / (1 - 0.025 ** (1 / 20))),
                "there is one limit here, not one for each of two error rates: the whole 0.05 is for it.",
            ),
        ],
        hint="The chance of 20 right guesses is at most p to the 20th, with p = e^ε/(1 + e^ε).",
    )


# ---- the sheet ----


def check_runs_needed(answer: Any) -> None:
    """The fewest runs on each side with which a test without errors proves epsilon, at delta = 0."""

    def needed(odds: Callable[[float], float], split: float = 2.0, up: bool = True) -> Callable[..., float]:
        def found(epsilon: float, *, confidence: float) -> float:
            runs = math.log((1 - confidence) / split) / math.log1p(-odds(epsilon))
            return math.ceil(runs) if up else runs

        return found

    def wrong_rate(epsilon: float) -> float:
        return 1.0 / (1.0 + math.exp(epsilon))

    def inputs(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        yield {"epsilon": 8.0, "confidence": 0.95}
        yield {"epsilon": 0.5, "confidence": 0.95}
        for _ in range(8):
            yield {"epsilon": float(rng.uniform(0.5, 9.0)), "confidence": float(rng.choice([0.9, 0.95, 0.99, 0.999]))}

    checks.function(
        answer,
        reference=needed(wrong_rate),
        inputs=inputs,
        name="runs_needed",
        rel=1e-9,
        mistakes=[
            Mistake(needed(wrong_rate, split=1.0), "each of the two limits may fail with half of 1 - confidence only."),
            Mistake(needed(wrong_rate, up=False), "runs are whole: round up."),
            Mistake(
                needed(lambda epsilon: math.exp(-epsilon)),
                "the true positive rate is below 1 as well: its limit is 1 - b, and ε = log((1 - b)/b).",
            ),
            Mistake(
                lambda epsilon, *, confidence: math.ceil(1.0 / wrong_rate(epsilon)),
                "without confidence: so many runs show one error on average.",
            ),
        ],
        hint="Without any error the limit b of each rate solves (1 - b)^N = (1 - confidence)/2.",
    )


BOXES = ("A", "B", "C", "D", "E")
"""Five mechanisms, each with a claim of epsilon = 1 (D's is with delta = 0.01), for counts that differ by 1."""

_LIAR = "E"


def run_box(name: str, count: int, *, runs: int, rng: np.random.Generator) -> Array:
    """Outputs of one of the five `BOXES` for this true count."""
    if name == "A":
        return np.asarray(rng.laplace(count, 1.0, runs))
    if name == "B":
        return np.asarray(np.round(rng.laplace(count, 1.0, runs)))
    if name == "C":
        noise = np.diff(rng.geometric(1 - math.exp(-1.0), (2, runs)), axis=0)[0]
        return np.asarray(count + noise, dtype=np.float64)
    if name == "D":
        return np.asarray(rng.normal(count, mechanisms.gaussian_sigma(epsilon=1.0, delta=0.01), runs))
    if name == "E":
        noise = rng.laplace(0.0, 1.0, runs)
        return np.asarray(count + np.where(np.abs(noise) > 3.0, np.fmod(noise, 3.0), noise))
    raise ValueError(f"name must be one of {BOXES}, got {name!r}")


def check_liar(answer: Any) -> None:
    """Which of the five boxes does not keep its promise."""
    checks.choice(
        answer,
        expected=_LIAR,
        options=BOXES,
        name="liar",
        mistakes=[
            Mistake("A", "this is the Laplace mechanism at scale 1. Look at the ends of the outputs, too."),
            Mistake(
                "B", "rounding is post-processing; where events of a rounded output are chosen well, e is reached."
            ),
            Mistake("C", "integers are no harm: this noise has ratios of e exactly."),
            Mistake("D", "its outputs have ratios above e far out, and that is what its δ is for."),
        ],
    )


def check_geometric_count(answer: Any) -> None:
    """A count with two-sided geometric noise."""

    def table(count: float, ratio: float, low: int = -60) -> Law:
        ks = range(low, 61)
        weights = np.array([ratio ** abs(k) for k in ks])
        return laws.discrete({float(count + k): float(w) for k, w in zip(ks, weights / weights.sum(), strict=True)})

    def law(count: float, *, epsilon: float, noise: float = 1.0) -> Law:
        return table(count, math.exp(-epsilon / noise)) if noise > 0 else laws.certain(float(count))

    def one_sided(count: float, *, epsilon: float, noise: float = 1.0) -> Law:
        return table(count, math.exp(-epsilon / noise), low=0)

    def rounded(count: float, *, epsilon: float, noise: float = 1.0) -> Law:
        b = noise / epsilon
        inside = {float(count): 1 - math.exp(-0.5 / b)}
        for k in range(1, 61):
            p = (math.exp(-(k - 0.5) / b) - math.exp(-(k + 0.5) / b)) / 2
            inside |= {float(count + k): p, float(count - k): p}
        inside[float(count)] += 1 - sum(inside.values())
        return laws.discrete(inside)

    settings = checks.settings("count epsilon", (7, 1.0), (8, 1.0), (0, 0.4), (100, 2.0))
    probe = {**settings[0], "rng": np.random.default_rng(0)}
    f = checks.signature(answer, name="geometric_count", called=probe, returns=())
    checks.law(
        f,
        name="geometric_count",
        law=law,
        settings=settings,
        neighbours=[(0, 1)],
        wrong=[
            Mistake(one_sided, "its noise is never negative: an output below the larger count proves the smaller one."),
            Mistake(
                rounded,
                "it rounds Laplace noise. That is private, but not this law, and its uniform numbers were floats.",
            ),
            Mistake(
                lambda count, *, epsilon, noise=1.0: law(count, epsilon=epsilon / 2, noise=noise),
                "it has twice the noise that ε asks for.",
            ),
        ],
    )


def check_best_advantage(answer: Any) -> None:
    """The best TPR - FPR of a threshold on losses: a member has a small loss."""

    def best(choose: Callable[[Array, Array], Any]) -> Callable[..., float]:
        def found(members: Any, *, others: Any) -> float:
            return float(choose(np.asarray(members, dtype=float), np.asarray(others, dtype=float)))

        return found

    def rates(inside: Array, out: Array, at: Array) -> Array:
        return np.asarray([(inside <= t).mean() - (out <= t).mean() for t in at])

    def inputs(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        yield {"members": np.array([0.1, 0.2, 0.9]), "others": np.array([0.3, 0.8, 1.5, 2.0])}
        yield {"members": np.array([1.0, 2.0]), "others": np.array([0.5, 0.6, 3.0])}
        for _ in range(7):
            sizes = rng.integers(5, 40, size=2)
            yield {
                "members": rng.exponential(0.7, sizes[0]).round(1),
                "others": rng.exponential(1.0, sizes[1]).round(1),
            }

    checks.function(
        answer,
        reference=best(lambda a, b: max(0.0, rates(a, b, np.concatenate([a, b])).max())),
        inputs=inputs,
        name="best_advantage",
        mistakes=[
            Mistake(
                best(lambda a, b: max(0.0, -rates(a, b, np.concatenate([a, b])).min())),
                'it says "member" for large losses. A network has small losses on what it was trained on.',
            ),
            Mistake(
                best(lambda a, b: np.abs(rates(a, b, np.concatenate([a, b]))).max()),
                'it also takes the test the other way round. A small loss says "member".',
            ),
            Mistake(
                best(lambda a, b: rates(a, b, np.array([np.concatenate([a, b]).mean()]))[0]),
                "it tries the mean of all losses alone. Try every threshold.",
            ),
            Mistake(best(lambda a, b: b.mean() - a.mean()), "this is the difference of the mean losses."),
        ],
        hint="For each loss t: the share of members with loss at most t, minus that of the others. The largest, or 0.",
    )


def check_read_input(answer: Any) -> None:
    """The input of a linear layer from its gradients."""

    def reference(weight: Any, *, bias: Any) -> Array:
        w, b = np.asarray(weight), np.asarray(bias)
        return np.asarray(b @ w / (b @ b))

    def inputs(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        for outputs in (3, 2, 5, 4):
            g, a = rng.normal(size=outputs), rng.normal(size=6)
            g[0] = 0.0
            if outputs > 2:  # as in the last layer of a network under cross-entropy
                g[-1] -= g.sum()
            yield {"weight": np.outer(g, a), "bias": g}

    def quietly(f: Callable[[Array, Array], Any]) -> Callable[..., Any]:
        def found(weight: Any, *, bias: Any) -> Any:
            with np.errstate(all="ignore"):
                return f(np.asarray(weight), np.asarray(bias))

        return found

    checks.function(
        answer,
        reference=reference,
        inputs=inputs,
        name="read_input",
        mistakes=[
            Mistake(quietly(lambda w, b: w.sum(axis=0)), "the rows are the input times different numbers: divide."),
            Mistake(quietly(lambda w, b: w[-1]), "a row is the input times the gradient of the bias: divide by it."),
            Mistake(quietly(lambda w, b: w.mean(axis=0)), "averaging the rows keeps the factors: divide by them."),
            Mistake(quietly(lambda w, b: b @ w), "divide by the sum of the squares of the bias gradient."),
            Mistake(
                quietly(lambda w, b: w.sum(axis=0) / b.sum()),
                "the entries of the bias gradient may cancel: behind a softmax they sum to 0. Take one row.",
            ),
        ],
        hint="Row j is b[j] times the input. Where b[j] is 0 the row says nothing.",
    )


def check_most_right(answer: Any) -> None:
    """How often a guess of one fair coin can be right under (epsilon, delta)."""

    def inputs(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        yield {"epsilon": 0.0, "delta": 0.0}
        yield {"epsilon": 1.0, "delta": 0.1}
        for _ in range(6):
            yield {"epsilon": float(rng.uniform(0.1, 4.0)), "delta": float(rng.uniform(0.0, 0.3))}

    checks.function(
        answer,
        reference=lambda epsilon, *, delta: (math.exp(epsilon) + delta) / (1.0 + math.exp(epsilon)),
        inputs=inputs,
        name="most_right",
        mistakes=[
            Mistake(
                lambda epsilon, *, delta: math.exp(epsilon) / (1.0 + math.exp(epsilon)),
                "this is the case δ = 0. With δ a guess may be right somewhat more often.",
            ),
            Mistake(
                lambda epsilon, *, delta: math.exp(epsilon) / (1.0 + math.exp(epsilon)) + delta,
                "δ is not added in full: it counts only where e^ε did not say it already.",
            ),
            Mistake(
                lambda epsilon, *, delta: (math.expm1(epsilon) + 2 * delta) / (1.0 + math.exp(epsilon)),
                "this is the largest TPR − FPR. A coin without any attack is right half of the time.",
            ),
            Mistake(
                lambda epsilon, *, delta: min(1.0, (math.exp(epsilon) + delta) / 2),
                "TPR cannot be e^ε FPR + δ with FPR = 1. The false negatives are bounded as well.",
            ),
        ],
        hint="Add the two inequalities for TPR and FPR, and solve for (TPR + 1 − FPR)/2.",
    )


def check_sound(answer: Any) -> None:
    """Which steps of an audit keep its confidence."""
    checks.statements(
        answer,
        name="sound",
        expected={
            "a": (True, "the event is fixed when the other runs come; for them it is one event like any other."),
            "b": (False, "on the runs that chose it the best event looks better than it is."),
            "c": (True, "the theorem needs a limit on α and one on β; both bounds follow from these two."),
            "d": (False, "α and β have a limit each, and either may fail: together with up to twice the chance."),
            "e": (
                False,
                "the theorem is for every attack on an (ε, δ)-private mechanism: no law of scores is assumed.",
            ),
            "f": (False, "runs that stop as soon as the bound passes the claim were looked at many times."),
        },
    )
