r"""Checks of answers that are a mechanism: is it private, and is it still useful?

A mechanism $M$ is $(\varepsilon, \delta)$-differentially private if for every pair of neighbours $D, D'$,
in both orders, and every event $E$

$$\Pr[M(D) \in E] \le e^{\varepsilon} \Pr[M(D') \in E] + \delta .$$

`exact_mechanism` evaluates this for all events when the outcome probabilities are known. `mechanism` tests
it on samples: an event is chosen on one half of the runs, where the violation looks clearest, and tested on
the other half with Clopper-Pearson bounds. It refuses only if the lower bound on the left exceeds the right
at the upper bound of its probability. All errors are shared out over the events, orders and pairs, so that a
right answer is refused with probability below 1e-6. A pass is no proof: it says that nothing was found on
these neighbours in so many runs.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpml import arguments
from dpml.classroom import privacy_tests
from dpml.classroom.comparison import as_number, difference
from dpml.classroom.runs import Outcomes, call, draw, require_own_rng, require_same_kind
from dpml.classroom.verdict import Mistake, NotYet, kind, passed, require_function, shown

# The false alarms of the three statistical tests add up to less than 1e-6.
_ALARM_PRIVACY = 5e-7
_ALARM_USEFUL = 3e-7
_ALARM_CONSTANT = 1e-7


def mechanism(
    answer: Any,
    *,
    reference: Callable[[Any, np.random.Generator], Any],
    neighbours: Iterable[tuple[Any, Any]],
    epsilon: float,
    name: str,
    delta: float = 0.0,
    events: Iterable[tuple[str, Callable[[Any], bool]]] = (),
    trials: int = 20_000,
    slack: float = 3.0,
    rng: np.random.Generator | None = None,
    mistakes: Iterable[Mistake] = (),
) -> None:
    r"""Pass if `answer` shows no violation of (epsilon, delta)-DP on `neighbours` and is useful.

    `answer` and `reference`, a right mechanism, take (dataset, rng) and return a number, or a discrete
    outcome (text, or a tuple or array of whole numbers). Each runs `trials` times on each dataset. The
    neighbouring relation is that of the given pairs; both orders are tested. Events chosen on half of the
    runs are "above t", "at most t" and "equal to v"; `events` adds fixed ones, with a predicate of one
    outcome.

    Useful means: at least half of the outcomes lie within `slack` times the median error of the reference,
    and the median lies between its quartiles; for at most 20 different outcomes, the most likely one comes
    at least half-way as often, from guessing to the reference. `answer` must take its randomness from the
    generator that it is given.

    A right answer is refused with probability below 1e-6. With the default number of trials, a mechanism with
    half of the needed Laplace noise is found nearly always for epsilon from 0.25 to 6. A violation that shows
    in no range and in no single outcome is found only by an event that you add.

    Raises:
        NotYet: with the diagnosis.
        ValueError: if the trials are too few to find any violation at this epsilon, or a pair is missing.

    Source: definition of differential privacy; C. J. Clopper and E. S. Pearson, Biometrika 26 (1934).
    """
    f = require_function(answer, name=name)
    pairs = [(a, b) for a, b in neighbours]
    fixed = [privacy_tests.Event(text, predicate) for text, predicate in events]
    task = privacy_tests.Task(
        arguments.real("epsilon", epsilon, 0.0, 50.0),
        arguments.probability("delta", delta),
        arguments.integer("trials", trials, 1000),
        arguments.real("slack", slack, 1.0, low_open=True),
        _ALARM_PRIVACY / max(1, 2 * len(pairs) * (1 + len(fixed))),
        _ALARM_USEFUL / max(1, 6 * len(pairs)),
        _ALARM_CONSTANT / max(1, 4 * len(pairs)),
    )
    if not pairs or not privacy_tests.violates(task.trials // 2, 0, n=task.trials // 2, task=task):
        raise ValueError(
            f"trials must be large enough to find a violation at epsilon = {epsilon} on at least one pair, got {trials}"
        )
    rng = np.random.default_rng(20_250_117) if rng is None else arguments.generator("rng", rng)
    datasets = [dataset for pair in pairs for dataset in pair]

    def sample(run: Callable[[Any, np.random.Generator], Any], dataset: Any) -> Outcomes:
        return draw(run, dataset, trials=trials, rng=rng, name=name)

    require_own_rng(f, datasets, name=name)
    right = [sample(reference, dataset) for dataset in datasets]
    came = [sample(f, dataset) for dataset in datasets]
    require_same_kind(came, right, name=name)

    def fail(finding: str, built_in: str) -> None:
        wrong = ((m.diagnosis, [sample(m.wrong, dataset) for dataset in datasets]) for m in mistakes)
        raise NotYet(f"{name} {finding} {privacy_tests.nearest(came, wrong) or built_in}")

    for dataset, mine, good in zip(datasets, came, right, strict=True):
        if privacy_tests.is_constant(mine, good, task=task):
            fail(
                f"returned {shown(mine[0])} in each of {trials} runs on {shown(dataset, width=40)}.",
                "It adds no noise, or the same noise every time: draw fresh noise from the rng that it is given.",
            )
    allowed = f"ε = {epsilon:.3g} allows a factor of {math.exp(epsilon):.3g}"
    allowed += f" plus {100 * delta:.3g} %" if delta > 0 else ""
    for i in range(len(pairs)):
        for here, there in ((2 * i, 2 * i + 1), (2 * i + 1, 2 * i)):
            found = privacy_tests.violation(came[here], came[there], fixed=fixed, task=task)
            if found is not None:
                fail(
                    f"is not private enough: {found.text} came in {100 * found.here:.3g} % of the runs on "
                    f"{_called(datasets, here)}, {100 * found.there:.3g} % on {_called(datasets, there)}"
                    f"{_place(datasets, here)}; {allowed}.",
                    privacy_tests.noise_diagnosis(came[here], right[here], found=found),
                )
    for dataset, mine, good in zip(datasets, came, right, strict=True):
        finding = privacy_tests.uselessness(mine, good, task=task)
        if finding is not None:
            fail(f"is private, but not useful on {shown(dataset, width=40)}:", finding)
    passed(
        name,
        f"no violation of ε = {epsilon:g}, δ = {delta:g} on {len(pairs)} pair{'s' * (len(pairs) > 1)} of neighbours "
        f"in {trials} runs each, and as accurate as needed (a right answer is refused with probability below 1e-6)",
    )


def _called(datasets: Sequence[Any], position: int) -> str:
    """A dataset itself if both of its pair are short, else D or D′."""
    pair = [shown(dataset, width=26) for dataset in datasets[position - position % 2 :][:2]]
    short = not any(text.endswith("…") for text in pair) and len(" ".join(pair).split()) < 12
    return pair[position % 2] if short else ("D", "D′")[position % 2]


def _place(datasets: Sequence[Any], position: int) -> str:
    """Which pair it is, where that cannot be seen from the datasets themselves."""
    hidden = len(datasets) > 2 and _called(datasets, position).startswith("D")
    return f" (pair {position // 2 + 1})" if hidden else ""


class _Exact(NamedTuple):
    delta: float  # the hockey-stick divergence at epsilon
    epsilon: float  # the largest log ratio


def exact_mechanism(
    probabilities: Any,
    *,
    neighbours: Iterable[tuple[Any, Any]],
    epsilon: float,
    name: str,
    delta: float = 0.0,
    reference: Callable[[Any], Any] | None = None,
    mistakes: Iterable[Mistake] = (),
) -> None:
    r"""Pass if the outcome probabilities are (epsilon, delta)-DP on each pair of `neighbours`, in both orders.

    `probabilities(dataset)` returns the probability of each outcome: an array in a fixed order, or a
    dictionary. Tested is the hockey-stick divergence $\sum_y \max(p_y - e^\varepsilon q_y, 0) \le \delta$,
    exactly, up to rounding. `reference`, if given, is a right answer: then the likeliest outcome must also
    come at least half-way as often, from guessing uniformly to the reference. A mistake holds a wrong
    function of the same form.

    Raises:
        NotYet: with the diagnosis.
        ValueError: if there is no pair.

    Source: definition of differential privacy, in its hockey-stick form.
    """
    f = require_function(probabilities, name=name)
    epsilon = arguments.real("epsilon", epsilon, 0.0, 50.0)
    delta = arguments.probability("delta", delta)
    pairs = [(a, b) for a, b in neighbours]
    if not pairs:
        raise ValueError("neighbours must hold at least one pair of datasets, got none")
    table = [tuple(_distribution(f, dataset, name=name) for dataset in pair) for pair in pairs]
    slip = min(1e-9, delta / 10) if delta > 0 else 1e-9  # for rounding

    def fail(finding: str, built_in: str) -> None:
        for mistake in mistakes:
            same = all(
                not difference(mine, _distribution(mistake.wrong, dataset, name=name), rel=1e-6, abs=1e-9)
                for row, pair in zip(table, pairs, strict=True)
                for mine, dataset in zip(row, pair, strict=True)
            )
            if same:
                raise NotYet(f"{name} {finding} A known mistake: {mistake.diagnosis}")
        raise NotYet(f"{name} {finding} {built_in}".rstrip())

    for pair, row in zip(pairs, table, strict=True):
        for here, there in ((0, 1), (1, 0)):
            exact = _exact(row[here], row[there], epsilon=epsilon, name=name)
            if exact.delta > delta + slip:
                sure = max(row[here].values()) > 1 - 1e-12
                ratio = (
                    "some outcome is impossible there"
                    if math.isinf(exact.epsilon)
                    else (f"some outcome is {math.exp(exact.epsilon):.4g} times as likely")
                )
                fail(
                    f"is not private enough: on {_called(pair, here)}, compared with its neighbour "
                    f"{_called(pair, there)}, {ratio}; the δ that this needs at ε = {epsilon:g} is "
                    f"{exact.delta:.3g}, and {delta:g} is allowed.",
                    "One outcome is certain: the mechanism adds no noise." if sure else "",
                )
    for pair, row in zip(pairs, table, strict=True):
        for dataset, mine in zip(pair, row, strict=True):
            good = {} if reference is None else _distribution(reference, dataset, name="the reference")
            best = max(good, key=lambda outcome: good[outcome], default=None)
            if good and mine.get(best, 0.0) < (good[best] + 1 / len(good)) / 2 - slip:
                fail(
                    f"is private, but not useful on {shown(dataset, width=40)}:",
                    "the best outcome is hardly more likely than under blind guessing. It may be likelier at this ε.",
                )
    passed(
        name,
        f"(ε = {epsilon:g}, δ = {delta:g})-private for every event, computed exactly on {len(pairs)} "
        f"pair{'s' * (len(pairs) > 1)} of neighbours",
    )


def _distribution(f: Callable[[Any], Any], dataset: Any, *, name: str) -> dict[Any, float]:
    value = call(f, copy.deepcopy(dataset), name=name)
    if isinstance(value, Mapping):
        entries = dict(value)
    elif (isinstance(value, Sequence) and not isinstance(value, str)) or hasattr(value, "tolist"):
        entries = dict(enumerate(value.tolist() if hasattr(value, "tolist") else value))
    else:
        raise NotYet(f"{name} returned {kind(value)}; expected are the probabilities of all outcomes.")
    numbers = {outcome: as_number(p) for outcome, p in entries.items()}
    plain = {outcome: p for outcome, p in numbers.items() if isinstance(p, float) and 0 <= p <= 1 + 1e-9}
    where = f"on {shown(dataset, width=40)}"
    if len(plain) < len(numbers):
        bad = next(p for outcome, p in entries.items() if outcome not in plain)
        raise NotYet(f"{name} returned the entry {shown(bad)} {where}; every entry must be a probability in [0, 1].")
    total = math.fsum(plain.values())
    if not math.fabs(total - 1) <= 1e-6:
        raise NotYet(f"{name} returned probabilities {where} that add up to {total:.6g} instead of one.")
    return plain


def _exact(p: dict[Any, float], q: dict[Any, float], *, epsilon: float, name: str) -> _Exact:
    if len(p) != len(q) and all(isinstance(outcome, int) for outcome in (*p, *q)):
        raise NotYet(f"{name} returned {len(p)} and {len(q)} probabilities on two neighbours: the outcomes must match.")
    outcomes = p.keys() | q.keys()
    left: NDArray[Any] = np.array([p.get(o, 0.0) for o in outcomes])
    right: NDArray[Any] = np.array([q.get(o, 0.0) for o in outcomes])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(left > 0, np.log(left) - np.log(right), -math.inf)
    return _Exact(float(np.maximum(left - math.exp(epsilon) * right, 0).sum()), float(ratio.max()))
