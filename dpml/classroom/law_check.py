r"""Checks of answers that are a mechanism: do the outputs follow the exact law of the mechanism that was asked for?

A right answer has a known distribution at each setting (data, budget, other arguments). Its outputs are counted in
cells: at each label, or between quantiles of the law. Three tests refuse an answer. Each is exact for every number of
runs, so that a right answer is refused with probability below 1e-6 in all:

- *a cell, or all cells up to one, come too often or too rarely*: a binomial tail. For coordinates with unlike laws
  taken together it holds with their mean probability (W. Hoeffding, Ann. Math. Statist. 27, 1956);
- *another law explains the counts far better*, at one setting or at all: the likelihood ratio has mean 1 under the
  right law, so it exceeds $1/\alpha$ with probability at most $\alpha$ (Markov; Ville: for all numbers of runs);
- *coordinates, or runs that follow each other, move together*: on which side of its median each lies are fair coins, so
  how many agree is binomial.

Two more look at the numbers themselves, which under a law with a density are hardly ever equal, or all short:

- *a number comes again*: an answer without noise once in a thousand runs, noise that is kept, or rounding;
- *every number has few decimals*: rounding that is too fine to see in another way.

And calls with generators in the same state must agree before all runs and after them: nothing may be remembered.

The other laws are the registered mistakes, and the right law with its noise made smaller and larger. An answer that
fails gets the diagnosis of the law that fits it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc

from dpml import arguments
from dpml.audit import samples
from dpml.classroom import laws
from dpml.classroom.calls import Setting, draw, limited, replayed, spoken, takes
from dpml.classroom.laws import Law
from dpml.classroom.verdict import Mistake, NotYet, brief, passed, shown

Laws = Callable[..., Law | Sequence[Law]]

_ALARM_CELLS, _ALARM_RATIO, _ALARM_TOGETHER = 4e-7, 4e-7, 1e-7  # together below 1e-6
_LOOKS = (8, 1)  # an eighth of the runs, then all: most wrong answers show in the first
_CELLS = 64
_JOINT = 100  # so many combinations of labels are counted as one
_FACTORS = (0.25, 0.4, 0.6, 0.75, 0.85, 1.25, 1.5, 2.0, 4.0)  # of the noise: what is tested against
_ROUGH = tuple(2.0 ** (0.75 * k) for k in range(-5, 6))  # and what is tried for a diagnosis: first these,
_FINE = tuple((1.0, s, 1 / s, math.sqrt(s), 1 / math.sqrt(s)) for s in (1.35, 1.11, 1.03, 1.01))  # then closer
_SEED = 20_250_117
_NOT_PRIVATE = "is not private enough"


class _Seen(NamedTuple):
    """The outputs at one setting, counted in the cells of the right law."""

    setting: Setting
    outputs: list[Any]
    where: list[laws.Cells]  # of each coordinate
    places: NDArray[np.int64]  # runs x coordinates: the cell of each output
    counts: NDArray[Any]  # coordinates x cells
    shares: Callable[[Laws, float], NDArray[np.float64]]  # of each cell, under a law with so much noise


@limited
def law(
    answer: Any,
    *,
    law: Laws,
    settings: Iterable[Setting],
    name: str,
    wrong: Iterable[Mistake] = (),
    also: Iterable[Laws] = (),
    neighbours: Iterable[tuple[int, int]] = (),
    runs: int = 2000,
    within: tuple[float, float] = (-math.inf, math.inf),
) -> None:
    """Pass if the outputs of `answer` follow `law` at each of `settings`.

    A setting maps the names of the arguments to their values; the answer is called with the first of them by
    position, the others and `rng` by name. `law` takes the same but `rng`, and ``noise=1.0``, a factor for the size of
    the noise (for randomized response: what epsilon is divided by). It returns a `laws.Law`, or a list of them for an
    output that is an array; numbers that are no labels come from a density. `wrong` holds mistakes with wrong laws of
    the same form, `also` other laws that are right.
    `neighbours` are pairs of positions of settings; where the outputs prove a larger epsilon than the setting names,
    the message says so. There are up to `runs` at each setting, fewer for long arrays. Numbers outside `within` count
    as equal: whoever cuts the output there loses no privacy.

    A right answer is refused with probability below 1e-6. Where the settings show the noise well, an answer with 0.6
    to 0.85 times the noise is refused and one with 1.5 to 4 times is told so; a test asks that of every exercise.

    Raises:
        NotYet: with the diagnosis of the law that fits.
        ValueError: if there is no setting.

    Source: the head of this module.
    """
    given, mistakes, runs = list(settings), tuple(wrong), arguments.integer("runs", runs, 200)
    if not given:
        raise ValueError("settings must hold at least one, got none")
    rng = np.random.default_rng(_SEED)
    f = takes(answer, name=name, called=(*given[0], "rng"))
    right = [_given(law, setting) for setting in given]
    first = [replayed(f, *pair, name=name) for pair in zip(given, right, strict=True)]
    where = [_cells(here, within=within) for here in right]
    shares = [functools.cache(functools.partial(_shares, *pair)) for pair in zip(given, where, strict=True)]
    outputs: list[list[Any]] = [[] for _ in given]
    for look in _LOOKS:
        for mine, setting, here in zip(outputs, given, right, strict=True):
            size = 1 if isinstance(here, Law) else len(here)
            enough = min(runs, max(400, 8 * runs // size)) // look
            mine += draw(f, setting, form=here, runs=enough - len(mine), rng=rng, name=name)
        seen = [_seen(*one) for one in zip(given, outputs, where, shares, strict=True)]
        if all(_refuted(seen, one, mistakes) for one in (law, *also)) and (look == 1 or _clear(seen, mistakes)):
            raise NotYet(_told(seen, law, mistakes, neighbours, name=name))
    for setting, here, before in zip(given, right, first, strict=True):
        replayed(f, setting, here, name=name, before=before)
    passed(
        name,
        f"{sum(map(len, outputs))} outputs at {len(given)} settings follow the law that was asked for "
        "(a right answer is refused with probability below 1e-6)",
    )


def _told(
    seen: list[_Seen], law: Laws, mistakes: Sequence[Mistake], neighbours: Iterable[tuple[int, int]], *, name: str
) -> str:
    """What came, and the diagnosis."""
    private = not _finding(seen, law, neighbours).startswith(_NOT_PRIVATE)
    found = _diagnosis(seen, law, mistakes, private=private)

    def message(width: int) -> str:
        odd = "" if found else _odd_numbers(seen, width)
        if odd and private:
            return f"{name} {odd}"
        return f"{name} {_finding(seen, law, neighbours, width)} {f'It {odd}' if odd else found}".rstrip()

    return brief(message)


def _given(law: Laws, setting: Setting, noise: float = 1.0) -> Law | Sequence[Law]:
    first, *rest = setting
    return law(setting[first], **{key: setting[key] for key in rest}, noise=noise)


def _parts(found: Law | Sequence[Law], *, joint: bool) -> list[Law]:
    """The laws of the coordinates, or one law of all together."""
    if isinstance(found, Law):
        return [found]
    if not joint:
        return list(found)
    rows = product(*((part.outcomes or {None: 1.0}).items() for part in found))
    return [laws.discrete({tuple(k for k, _ in row): math.prod(p for _, p in row) for row in rows})]


def _few_labels(found: Law | Sequence[Law]) -> bool:
    """Whether the coordinates have so few labels that their combinations can be counted."""
    parts = [found] if isinstance(found, Law) else found
    return math.prod(len(part.outcomes) if part.outcomes else math.inf for part in parts) <= _JOINT


def _cells(right: Law | Sequence[Law], *, within: tuple[float, float]) -> list[laws.Cells]:
    """Where the outputs of each coordinate are counted; equal laws share their cells."""
    parts = _parts(right, joint=_few_labels(right))
    different = {id(part): part for part in parts}
    known = {key: laws.cells(part, number=_CELLS, within=within) for key, part in different.items()}
    return [known[id(part)] for part in parts]


def _shares(setting: Setting, where: list[laws.Cells], law: Laws, noise: float) -> NDArray[np.float64]:
    """The probability of each cell of each coordinate under a law; 0 for a law of another form."""
    found = np.zeros((len(where), 1 + max(map(len, where))))
    parts = _parts(_given(law, setting, noise), joint=len(where) == 1)
    known: dict[tuple[int, int], NDArray[np.float64]] = {}
    if len(parts) == len(where):
        for row, part, cells in zip(found, parts, where, strict=True):
            pair = id(part), id(cells)
            if pair not in known:
                known[pair] = laws.shares(part, cells)
            row[: len(cells) + 1] = known[pair]
    return found


def _seen(setting: Setting, outputs: list[Any], where: list[laws.Cells], shares: Any) -> _Seen:
    columns = [outputs] if len(where) == 1 else list(np.array(outputs, dtype=float).T)
    places = [laws.places(column, cells) for column, cells in zip(columns, where, strict=True)]
    counts = np.array([np.bincount(place, minlength=1 + max(map(len, where))) for place in places])
    return _Seen(setting, outputs, where, np.array(places).T, counts, shares)


def _tails(count: NDArray[Any], n: Any, p: Any) -> NDArray[np.float64]:
    """The smaller of the probabilities that a binomial variable is at least, and at most, `count`."""
    p = np.clip(p, 0.0, 1.0)
    return np.asarray(np.minimum(bdtr(count, n, p), bdtrc(count - 1, n, p)))


def _likely(seen: list[_Seen], law: Laws, noise: float = 1.0) -> bool:
    """Whether no cell, and no range of cells from the first, comes too often or too rarely."""
    alarm = _ALARM_CELLS / (len(_LOOKS) * sum(8 * one.counts.size for one in seen))
    for one in seen:
        shares = one.shares(law, noise)
        # Each coordinate, and all together.
        count, share = np.vstack([one.counts, one.counts.sum(axis=0)]), np.vstack([shares, shares.mean(axis=0)])
        n = count.sum(axis=1, keepdims=True)
        if min(_tails(count, n, share).min(), _tails(count.cumsum(axis=1), n, share.cumsum(axis=1)).min()) < alarm:
            return False
    return True


def _fit(seen: list[_Seen], law: Laws, noise: float = 1.0) -> float:
    """The log-likelihood of the counts under a law."""
    return sum(float((one.counts * np.log(np.maximum(one.shares(law, noise), 1e-300))).sum()) for one in seen)


def _refuted(seen: list[_Seen], right: Laws, mistakes: Sequence[Mistake]) -> bool:
    if not _likely(seen, right) or _odd_numbers(seen) or _together(seen, right):
        return True
    others = [(mistake.wrong, 1.0) for mistake in mistakes] + [(right, factor) for factor in _FACTORS]
    fits = np.array([[_fit([one], *other) for one in seen] for other in ((right, 1.0), *others)])
    gain = fits[1:] - fits[0]  # at each setting: the noise may be wrong at one alone
    limit = math.log((gain.size + len(gain)) / _ALARM_RATIO)
    return bool(max(gain.max(), gain.sum(axis=1).max()) > limit)


def _odd_numbers(seen: list[_Seen], width: int = 90) -> str:
    """What is odd about numbers that come from a density, to follow the name of the answer; empty if nothing is."""
    equal, most = 0, (0, "")
    for one in seen:
        if isinstance(one.where[0], tuple):
            continue
        # Numbers in the outermost cells may have been cut to be equal.
        inside = (one.places > 0) & (one.places < [len(cells) for cells in one.where])
        table = np.asarray(one.outputs, dtype=float).reshape(inside.shape)
        numbers = table[inside]
        decimals = min(12, -math.ceil(math.log10(1e4 * np.spacing(np.abs(numbers).max(initial=1e-3)))))
        if len(numbers) and np.array_equal(numbers.round(decimals), numbers) and len(set(numbers)) > 1:
            few = next(k for k in range(decimals + 1) if np.array_equal(numbers.round(k), numbers))
            return f"returned numbers of at most {few} decimals: they are rounded. Do not round."
        values, counts = np.unique(numbers, return_counts=True)
        if len(values) > 0.9 * len(numbers) and np.array_equal(numbers.astype(np.float32), numbers):
            continue  # in single precision some meet by chance
        each = [len(np.unique(column[here])) for column, here in zip(table.T, inside.T, strict=True)]
        equal += int((inside.sum(axis=0) - each).max()) + sum(each) - len(values)
        if len(values):
            came = f"{values[counts.argmax()]:.6g} {counts.max()} times in {len(table)} runs at {_at(one, width)}"
            most = max(most, (int(counts.max()), came))
    if equal < 2:  # noise from 2^31 seeds may come again once
        return ""
    never = "Noise with a density gives no number twice: draw it anew, always add it, and cut nothing off."
    return f"returned {most[1]}. {never}"


def _together(seen: list[_Seen], right: Laws) -> str:
    """What moves together and should not: coordinates, or runs that follow each other."""
    rng = np.random.default_rng(_SEED)
    alarm = _ALARM_TOGETHER / (6 * len(_LOOKS) * len(seen))

    def odd(agree: NDArray[Any], n: int, expected: Any) -> bool:
        # One half under the right law. Nor may it follow from answers that are off in themselves.
        tails = np.maximum(_tails(agree, n, 0.5), _tails(agree, n, expected))
        return bool(tails.min() * tails.size < alarm)

    for one in seen:
        shares, cells = one.shares(right, 1.0), (np.arange(len(one.where)), one.places)
        start = shares.cumsum(axis=1) - shares
        up = (start[cells] + shares[cells] * rng.random(one.places.shape) > 0.5).astype(float)
        n, d = up.shape
        rate = up.mean(axis=0)
        chance = np.outer(rate, rate) + np.outer(1 - rate, 1 - rate)
        pairs = np.triu_indices(d, 1)
        alike = (up.T @ up + (1 - up).T @ (1 - up))[pairs].astype(np.int64)
        next_to = np.array((up[:, 1:] == up[:, :-1]).sum())
        if d > 1 and (odd(alike, n, chance[pairs]) or odd(next_to, n * (d - 1), np.diag(chance, 1).mean())):
            return "The numbers of one answer move together: draw one of its own for each, not one for all."
        if odd(np.array((up[1:] == up[:-1]).sum()), (n - 1) * d, np.diag(chance).mean()):
            return "One answer and the next move together: draw fresh noise from the rng every time."
    return ""


def _at(seen: _Seen, width: int) -> str:
    return spoken(seen.setting, whole=width)


def _finding(seen: list[_Seen], law: Laws, neighbours: Iterable[tuple[int, int]], width: int = 90) -> str:
    """What came: a proof that it is not private enough, or the cells that fit worst."""
    for pair in neighbours:
        one, other = (seen[i] for i in pair)
        first, epsilon = next(iter(one.setting)), float(one.setting["epsilon"])
        scores, scores_neighbour = (_scores(mine, (one.setting, other.setting), law) for mine in (one, other))
        found = samples.epsilon_lower_bound_from_scores(
            scores,
            scores_neighbour=scores_neighbour,
            delta=float(one.setting.get("delta", 0.0)),
            confidence=0.99,
            rng=np.random.default_rng(_SEED),
        ).epsilon_at_least
        if found > epsilon:
            here, there = (shown(mine.setting[first], width=min(26, width // 3)) for mine in (one, other))
            proof = f"its outputs on {here} and {there} show ε ≥ {found:.3g}"
            return f"{_NOT_PRIVATE}: {proof}, and {epsilon:g} is allowed."
    for one in (one for one in seen if _constant(one, law)):
        return f"returned {shown(one.outputs[0])} in each of {len(one.outputs)} runs at {_at(one, width)}."
    return f"does not follow the law asked for: {min(_worst(one, law, width) for one in seen)[1]}."


def _constant(seen: _Seen, law: Laws) -> bool:
    """Whether always the same came where that is not what nearly always must come."""
    share = seen.shares(law, 1.0)[np.arange(len(seen.where)), seen.places[0]].min()
    return bool(share < 0.9) and all(output == seen.outputs[0] for output in seen.outputs)


def _scores(seen: _Seen, pair: tuple[Setting, Setting], law: Laws) -> NDArray[np.float64]:
    """A number for each output that tells two settings apart: its size, or for labels the ratio of probabilities."""
    if len(seen.where) == 1 and isinstance(seen.where[0], tuple):
        here, there = (_parts(_given(law, setting), joint=True)[0].outcomes or {} for setting in pair)
        ratio = {k: math.log((here.get(k, 0.0) + 1e-9) / (there.get(k, 0.0) + 1e-9)) for k in set(seen.outputs)}
        return np.array([ratio[k] for k in seen.outputs])
    return np.array([np.sum(output) for output in seen.outputs], dtype=float)


def _worst(seen: _Seen, law: Laws, width: int) -> tuple[float, str]:
    """The most unlikely count at a setting: its probability, and a sentence."""
    count, share, n = seen.counts, seen.shares(law, 1.0), len(seen.outputs)
    if len(seen.where) == 1 and isinstance(seen.where[0], tuple) and share[0, -1] == 0 < count[0, -1]:
        odd = next(out for out in seen.outputs if out not in seen.where[0])
        return 0.0, f"at {_at(seen, width)}, the outcome {shown(odd)} came, which is impossible"
    events = [(*(f"the outcome {shown(w)}" for w in where), "what is impossible") for where in seen.where]
    if not isinstance(seen.where[0], tuple):
        count, share = (cells.cumsum(axis=1)[:, :-1] for cells in (count, share))
        events = [tuple(f"outcomes up to {edge:.4g}" for edge in where) for where in seen.where]
    tails = _tails(count, n, share)
    i, k = map(int, np.unravel_index(tails.argmin(), tails.shape))
    came = f"{events[i][k]} came in {100 * count[i, k] / n:.3g} % of {n} runs"
    way = "too often" if count[i, k] > n * share[i, k] else "too rarely"
    entry = f"entry {i}, " if len(seen.where) > 1 else ""
    return float(tails[i, k]), f"at {_at(seen, width)}, {entry}{came}, {way}"


def _explains(seen: list[_Seen], wrong: Laws, noise: float = 1.0) -> bool:
    """Whether a wrong law makes the counts likely, at the first coordinate a few of the outputs possible, and values
    come again where they do."""
    firsts = [_parts(_given(wrong, one.setting, noise), joint=len(one.where) == 1)[0] for one in seen]
    heads = [[out if len(one.where) == 1 else out[0] for out in one.outputs[:20]] for one in seen]
    possible = _likely(seen, wrong, noise) and all(map(laws.possible, firsts, heads))
    return possible and (not _odd_numbers(seen) or any(map(laws.repeats, firsts)))


def _is_multiple(seen: list[_Seen], wrong: Laws, right: Laws) -> bool:
    """Whether a wrong law is the right one with noise of another size, the same multiple at all settings."""
    expected = [one._replace(counts=one.shares(wrong, 1.0)) for one in seen]
    factor, _ = _best(expected, right, 1.0, _ROUGH, *_FINE)
    return all(np.abs((one.counts - one.shares(right, factor)).cumsum(axis=1)).max() < 0.01 for one in expected)


def _clear(seen: list[_Seen], mistakes: Sequence[Mistake]) -> bool:
    """Whether no two mistakes fit nearly as well, so that more outputs would tell which it is."""
    fits = sorted((_fit(seen, m.wrong) for m in mistakes if _explains(seen, m.wrong)), reverse=True)
    return len(fits) < 2 or fits[0] - fits[1] > 7


def _diagnosis(seen: list[_Seen], right: Laws, mistakes: Sequence[Mistake], *, private: bool) -> str:
    """The sentence of the law that fits: a registered mistake or the right law with other noise; or a general one."""
    moved = _together(seen, right)
    if moved and _likely(seen, right):
        return moved  # each number for itself is right, and a mistake may fit as well
    tried = [(m.wrong, 1.0, 0.0, f"A known mistake: {m.diagnosis}") for m in mistakes if _explains(seen, m.wrong)]
    factor, _ = _best(seen, right, 1.0, _ROUGH, *_FINE)
    if not 0.95 < factor < 1.05 and _explains(seen, right, factor):
        # More noise against a threshold that was made for less can be less private.
        enough = "that is private, but less is enough" if private else "a threshold made for less lets too much pass"
        more = enough if factor > 1 else "check the sensitivity and the scale"
        tried.append((right, factor, 3.0, f"Your noise is {_amount(factor)} what is needed: {more}."))
    if not any(noise == 1 for _, noise, _, _ in tried):
        # A mistake may come with noise of another size: the three that fit best are looked at more closely. One that
        # is itself the right law with other noise would say what the size is not.
        for m, start, _ in sorted(((m, *_best(seen, m.wrong, 1.0, _ROUGH)) for m in mistakes), key=lambda r: -r[2])[:3]:
            factor, _ = _best(seen, m.wrong, start, *_FINE)
            if _explains(seen, m.wrong, factor) and not _is_multiple(seen, m.wrong, right):
                tried.append((m.wrong, factor, 6.0, f"A known mistake: {m.diagnosis}"))
    fitting = [(_fit(seen, law, noise) - less, text) for law, noise, less, text in tried]
    if fitting:
        return max(fitting, key=lambda pair: pair[0])[1]
    if any(_constant(one, right) for one in seen):
        return "It adds no noise, or the same noise every time: draw fresh noise from the rng that it is given."
    return moved


def _best(seen: list[_Seen], law: Laws, start: float, *grids: Sequence[float]) -> tuple[float, float]:
    """The multiple of the noise that a law has which fits best, grid by grid from `start` on, and how well it fits."""
    factor, fit = start, -math.inf
    for grid in grids:
        fit, factor = max((_fit(seen, law, factor * f), factor * f) for f in grid)
    return factor, fit


def _amount(ratio: float) -> str:
    words = {2.0: "about twice", 1 / 2: "about half of", 1 / 3: "about a third of", 1 / 4: "about a quarter of"}
    near = min(words, key=lambda r: math.fabs(math.log(ratio / r)))
    return words[near] if math.fabs(math.log(ratio / near)) < 0.1 else f"about {ratio:.2g} times"
