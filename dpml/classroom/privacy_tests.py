"""The statistics behind `checks.mechanism`: choosing and testing events, and naming what is wrong with the noise."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from dpml.classroom.runs import Outcomes, numeric
from dpml.classroom.verdict import shown

_FEW = 20  # up to so many different outcomes of the reference, usefulness is about the likeliest one
_SINGLE = "the outcome"


class Task(NamedTuple):
    """What is tested, and how much false alarm each single test may use."""

    epsilon: float
    delta: float
    trials: int  # runs on each dataset
    slack: float
    alarm_privacy: float
    alarm_useful: float
    alarm_constant: float


class Event(NamedTuple):
    """A set of outcomes, in words and as a predicate."""

    text: str
    holds: Callable[[Any], Any]


class Violation(NamedTuple):
    """An event that is too likely here, compared with there."""

    text: str
    here: float
    there: float
    never: bool  # it hardly ever came there
    single: bool  # it is one outcome, not a range


def lower(successes: Any, *, n: int, alarm: float) -> Any:
    """Clopper-Pearson: the probability lies below this with probability at most `alarm`."""
    k = np.asarray(successes, dtype=float)
    return np.where(k > 0, betaincinv(np.maximum(k, 1), n - np.maximum(k, 1) + 1, alarm), 0.0)


def upper(successes: Any, *, n: int, alarm: float) -> Any:
    """Clopper-Pearson: the probability lies above this with probability at most `alarm`."""
    return 1.0 - lower(n - np.asarray(successes), n=n, alarm=alarm)


def excess(here: Any, there: Any, *, n: int, task: Task) -> Any:
    """Lower bound here, less what the upper bound there allows; above 0 is a violation."""
    bound = math.exp(task.epsilon) * upper(there, n=n, alarm=task.alarm_privacy / 2) + task.delta
    return lower(here, n=n, alarm=task.alarm_privacy / 2) - bound


def violates(here: int, there: int, *, n: int, task: Task) -> bool:
    """Whether counts of an event in n runs each show a violation."""
    return bool(excess(here, there, n=n, task=task) > 0)


def is_constant(came: Outcomes, right: Outcomes, *, task: Task) -> bool:
    """Whether all runs agree, where a right mechanism would have to vary."""
    if any(outcome != came[0] for outcome in came):
        return False
    n = len(right)
    rest = n - Counter(right).most_common(1)[0][1]
    stays = 1.0 - float(lower(rest, n=n, alarm=task.alarm_constant))
    return stays**n < task.alarm_constant


def _coded(first: Outcomes, second: Outcomes) -> tuple[NDArray[Any], NDArray[Any], list[Any]]:
    """Numbers stay; other outcomes become positions in a list of labels."""
    if numeric(first) and numeric(second):
        return np.array(first), np.array(second), []
    labels = sorted({*first, *second}, key=repr)
    code = {label: i for i, label in enumerate(labels)}
    return np.array([code[o] for o in first], float), np.array([code[o] for o in second], float), labels


def violation(here: Outcomes, there: Outcomes, *, fixed: Sequence[Event], task: Task) -> Violation | None:
    """The first event whose frequencies in the second half of the runs contradict (epsilon, delta)-DP."""
    half = task.trials // 2
    p, q, labels = _coded(here, there)
    chosen = _clearest(p[:half], q[:half], labels=labels, task=task)
    n = task.trials - half
    counted = [(chosen.text, int(chosen.holds(p[half:]).sum()), int(chosen.holds(q[half:]).sum()))]
    for event in fixed:
        mine, other = (sum(map(bool, map(event.holds, outcomes[half:]))) for outcomes in (here, there))
        counted.append((event.text, mine, other))
    for text, mine, other in counted:
        if violates(mine, other, n=n, task=task):
            return Violation(text, mine / n, other / n, other <= n // 2000, text.startswith(_SINGLE))
    return None


def _clearest(p: NDArray[Any], q: NDArray[Any], *, labels: list[Any], task: Task) -> Event:
    n = len(p)
    pooled = np.concatenate([p, q])
    values, counts = np.unique(pooled, return_counts=True)
    atoms = values[np.argsort(-counts, kind="stable")[:50]]
    cuts = np.unique(np.quantile(pooled, np.linspace(0, 1, 201), method="inverted_cdf"))
    p, q = np.sort(p), np.sort(q)

    def at_most(y: NDArray[Any], t: NDArray[Any]) -> NDArray[Any]:
        return np.searchsorted(y, t, side="right")

    def equal(y: NDArray[Any], t: NDArray[Any]) -> NDArray[Any]:
        return at_most(y, t) - np.searchsorted(y, t, side="left")

    tried = [
        excess(equal(p, atoms), equal(q, atoms), n=n, task=task),
        excess(at_most(p, cuts), at_most(q, cuts), n=n, task=task),
        excess(n - at_most(p, cuts), n - at_most(q, cuts), n=n, task=task),
    ]
    if labels:  # the order of labels means nothing
        tried = tried[:1]
    which = max(range(len(tried)), key=lambda i: float(tried[i].max()))
    t = float((atoms if which == 0 else cuts)[int(tried[which].argmax())])
    if which == 0:
        return Event(f"{_SINGLE} {shown(labels[int(t)] if labels else t)}", lambda y: y == t)
    if which == 1:
        return Event(f"outcomes of at most {t:.4g}", lambda y: y <= t)
    return Event(f"outcomes above {t:.4g}", lambda y: y > t)


def nearest(came: Sequence[Outcomes], wrong: Iterable[tuple[str, Sequence[Outcomes]]]) -> str:
    """The diagnosis of the wrong mechanism whose outcomes look most like these, if any looks alike."""
    # Two samples of size n from one distribution differ by more than d with probability at most 2 exp(-n d^2).
    allowed = math.sqrt(math.log(2000) / len(came[0]))
    best, text = allowed, ""
    for diagnosis, outcomes in wrong:
        distance = max(_distance(a, b) for a, b in zip(came, outcomes, strict=True))
        if distance < best:
            best, text = distance, f"A known mistake: {diagnosis}"
    return text


def _distance(first: Outcomes, second: Outcomes) -> float:
    """The largest difference of the two empirical distribution functions (Kolmogorov-Smirnov)."""
    a, b, _ = _coded(first, second)
    grid = np.concatenate([a, b])
    steps = (np.searchsorted(np.sort(y), grid, side="right") / len(y) for y in (a, b))
    return float(np.abs(next(steps) - next(steps)).max())


def _spread(y: NDArray[Any]) -> float:
    return float(np.median(np.abs(y - np.median(y))))


def noise_diagnosis(came: Outcomes, right: Outcomes, *, found: Violation) -> str:
    """What is wrong with noise that is not private, from its size and shape next to those of right noise."""
    if not (numeric(came) and numeric(right)) or len(set(right)) <= _FEW:
        return "It is impossible there." if found.never else "The outcome depends too strongly on one record."
    y, spread, needed = np.array(came), _spread(np.array(came)), _spread(np.array(right))
    reach = min(np.median(y) - y.min(), y.max() - np.median(y))
    if found.never and found.single:
        return "Some runs give an outcome that is impossible there: is it left without noise?"
    if found.never and 0 < reach < 3 * spread:
        # In this many runs Gaussian noise reaches over five times its median size, Laplace noise further.
        return "Your noise is bounded, as uniform noise is: some outcomes are impossible there."
    if spread < 0.9 * needed:
        return f"Your noise is {_amount(spread / needed)} what is needed: check the sensitivity and the scale."
    if found.never:
        return "Some outcomes are impossible there: is something cut off?"
    return "Your noise has the size that is needed, but the wrong distribution, or it depends on the data."


def _amount(ratio: float) -> str:
    words = {2.0: "about twice", 1 / 2: "about half of", 1 / 3: "about a third of", 1 / 4: "about a quarter of"}
    near = min(words, key=lambda r: math.fabs(math.log(max(ratio, 1e-300) / r)))
    return words[near] if math.fabs(math.log(max(ratio, 1e-300) / near)) < 0.1 else f"about {ratio:.2g} times"


def uselessness(came: Outcomes, right: Outcomes, *, task: Task) -> str | None:
    """Why these outcomes are of no use next to the right ones, or None."""
    n, alarm = len(came), task.alarm_useful
    if len(set(right)) <= _FEW or not numeric(right):
        # The likeliest outcome and its frequency come from different halves, so that the latter is unbiased.
        half = len(right) // 2
        best = Counter(right[:half]).most_common(1)[0][0]
        rate = float(lower(right[half:].count(best), n=len(right) - half, alarm=alarm))
        floor = (rate + 1 / len(set(right))) / 2
        if float(upper(came.count(best), n=n, alarm=alarm)) < floor:
            return "its likeliest outcome comes too rarely, close to blind guessing. It may tell more at this ε."
        return None
    # For right noise each event below has probability near 1/4 or less. The estimates from the reference would
    # have to be off by another 1/4, which has probability below exp(-trials/8) and is left out of the account.
    y, good = np.array(came), np.array(right)
    center, spread = float(np.median(good)), _spread(good)

    def mostly(event: NDArray[np.bool_]) -> bool:
        return float(lower(np.count_nonzero(event), n=n, alarm=alarm)) > 0.5

    quartiles = np.quantile(good, [0.25, 0.75])
    for off, word in ((mostly(y > quartiles[1]), "large"), (mostly(y < quartiles[0]), "small")):
        if off:
            return f"its outcomes are centred on {np.median(y):.4g}, which is too {word}. Is the query right?"
    if mostly(np.abs(y - center) > task.slack * spread):
        return f"your noise is {_amount(_spread(y) / spread)} what is needed. Check the sensitivity and the scale."
    return None
