r"""Checks of answers that are a mechanism: is it private, and is it still useful?

A mechanism $M$ is $(\varepsilon, \delta)$-differentially private if for every pair of neighbours $D, D'$,
in both orders, and every event $E$

$$\Pr[M(D) \in E] \le e^{\varepsilon} \Pr[M(D') \in E] + \delta .$$

An event is chosen on one half of the runs, where the violation looks clearest, and tested on the other half with
Clopper-Pearson bounds. It refuses only if the lower bound on the left exceeds the right at the upper bound of its
probability. All errors are shared out over the events, orders and pairs, so that a right answer is refused with
probability below 1e-6. A pass is no proof: it says that nothing was found on these neighbours in so many runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from dpml import arguments
from dpml.classroom import privacy_tests
from dpml.classroom.runs import Outcomes, draw, require_own_rng, require_same_kind
from dpml.classroom.verdict import Mistake, NotYet, passed, require_function, shown

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
