"""The check of mechanisms: right ones pass in every form, wrong ones get the diagnosis of the law that they follow."""

import math
import re
import sys
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpml.classroom import checks, law_check, laws
from dpml.classroom.checks import Mistake

from .test_checks import verdict

D = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 1.0])
TOGETHER = laws.mixture([0.3, 0.7], [laws.normal(0.0, 1.0), laws.laplace(2.0, 0.5)])


# --- laws ---


@pytest.mark.parametrize(
    ("law", "cdf"),
    [
        (laws.laplace(1.0, 2.0), stats.laplace(1.0, 2.0).cdf),
        (laws.normal(-1.0, 0.5), stats.norm(-1.0, 0.5).cdf),
        (laws.uniform(2.0, 5.0), stats.uniform(2.0, 3.0).cdf),
        (TOGETHER, lambda y: 0.3 * stats.norm.cdf(y) + 0.7 * stats.laplace(2.0, 0.5).cdf(y)),
        (laws.discrete({0: 0.25, 3: 0.75}), lambda y: 0.25 * (y >= 0) + 0.75 * (y >= 3)),
    ],
    ids=["laplace", "normal", "uniform", "mixture", "discrete"],
)
def test_draws_and_probabilities_of_a_law_agree(law, cdf):
    y = np.linspace(-6.0, 8.0, 57)
    assert law.cdf(y) == pytest.approx(cdf(y), abs=1e-12)
    drawn = np.asarray(law.draw(np.random.default_rng(5), 20_000), dtype=float)
    assert np.abs((drawn <= y[:, None]).mean(axis=1) - cdf(y)).max() < 0.02  # false alarm below 1e-6 (DKW)
    where = laws.cells(law, number=16, within=(-math.inf, math.inf))
    shares = laws.shares(law, where)
    assert shares.sum() == pytest.approx(1.0, abs=1e-12) and len(shares) == len(where) + 1
    assert np.bincount(laws.places(drawn.tolist(), where), minlength=len(shares)) / 20_000 == pytest.approx(
        shares, abs=0.03
    )


def test_labels_mix_and_unknown_ones_are_elsewhere():
    law = laws.mixture([0.5, 0.5], [laws.certain("yes"), laws.discrete({"yes": 0.5, None: 0.5})])
    assert law.outcomes == {"yes": 0.75, None: 0.25}
    assert laws.places(["yes", "what", None], tuple(law.outcomes)).tolist() == [0, 2, 1]
    with pytest.raises(ValueError, match="add up to one"):
        laws.discrete({0: 0.5, 1: 0.4})


@pytest.mark.parametrize(("count", "n", "p"), [(0, 10, 0.3), (3, 10, 0.3), (10, 10, 0.3), (260, 500, 0.5), (1, 5, 0.0)])
def test_binomial_tails(count, n, p):
    wanted = min(stats.binom.cdf(count, n, p), stats.binom.sf(count - 1, n, p))
    assert float(law_check._tails(np.array(count), n, p)) == pytest.approx(wanted, rel=1e-9)
    assert law_check._ALARM_CELLS + law_check._ALARM_RATIO + law_check._ALARM_TOGETHER < 1e-6


# --- the check: one number ---


def law(data: Any, *, epsilon: float, noise: float = 1.0) -> laws.Law:
    return laws.laplace(float(data.sum()), noise / epsilon)


MISTAKES = [
    Mistake(lambda data, **_: laws.certain(float(data.sum())), "the exact count is published."),
    Mistake(
        lambda data, *, epsilon, noise=1.0: laws.laplace(float(data.sum()), noise * epsilon),
        "epsilon multiplies where it must divide.",
    ),
    Mistake(
        lambda data, *, epsilon, noise=1.0: laws.normal(float(data.sum()), noise / epsilon),
        "Gaussian noise needs a delta.",
    ),
]
COUNT: dict[str, Any] = {
    "name": "count",
    "law": law,
    "settings": [{"data": D, "epsilon": 0.7}, {"data": D[:-1], "epsilon": 0.7}, {"data": D[:2], "epsilon": 2.0}],
    "neighbours": [(0, 1)],
}


def count(data: Any, *, epsilon: float, rng: np.random.Generator) -> float:
    return data.sum() + rng.laplace(scale=1 / epsilon)


def by_inversion(data: Any, *, epsilon: float, rng: np.random.Generator) -> Any:
    u = rng.uniform(-0.5, 0.5)
    return np.array([data.sum() - np.sign(u) * np.log1p(-2 * abs(u)) / epsilon])


def test_law_accepts_right_answers(capsys):
    for right in (count, by_inversion, lambda d, epsilon, rng: np.float64(count(d, epsilon=epsilon, rng=rng))):
        checks.law(right, wrong=MISTAKES, **COUNT)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and all(
        "follow the law that was asked for" in line and "below 1e-6" in line for line in lines
    )


def noisy(noise: Any) -> Any:
    return lambda data, *, epsilon, rng: data.sum() + noise(rng) / epsilon


WRONG: dict[str, tuple[Any, str]] = {
    "no noise": (lambda data, *, epsilon, rng: data.sum(), "the exact count is published"),
    "constant": (lambda data, *, epsilon, rng: 3.0, "It adds no noise, or the same noise every time"),
    "same noise": (noisy(lambda rng: np.random.default_rng(1).laplace()), "the same noise every time"),
    "half": (noisy(lambda rng: rng.laplace(scale=0.5)), "about half of what is needed: check the sensitivity"),
    "twice": (noisy(lambda rng: rng.laplace(scale=2.0)), "about twice what is needed: that is private, but less"),
    "Gaussian": (noisy(lambda rng: rng.normal(scale=1.0)), "Gaussian noise needs a delta"),
    "more Gaussian": (noisy(lambda rng: rng.normal(scale=2.1)), "Gaussian noise needs a delta"),
    "uniform": (noisy(lambda rng: rng.uniform(-2, 2)), "outcomes up to"),
    "rounded": (
        lambda data, *, epsilon, rng: round(count(data, epsilon=epsilon, rng=rng), 1),
        "of at most 1 decimals: they are rounded. Do not round",
    ),
    "at times without": (noisy(lambda rng: rng.laplace() * (rng.random() < 0.8)), "a density gives no number twice"),
    "rarely without": (noisy(lambda rng: rng.laplace() * (rng.random() < 0.999)), "twice: draw it anew, always add it"),
    "rounded finely": (lambda data, *, epsilon, rng: round(count(data, epsilon=epsilon, rng=rng), 9), "9 decimals"),
    "few seeds": (noisy(lambda rng: np.random.default_rng(rng.integers(9999)).laplace()), "no number twice"),
    "rng ignored": (noisy(lambda rng: np.random.laplace()), "uses its own randomness"),  # noqa: NPY002
    "ends the program": (lambda data, *, epsilon, rng: sys.exit(0), "it ends the program; return a value instead"),
    "in place": (lambda data, *, epsilon, rng: (data.sort(), 1.0)[1], "changes the data that it is given"),
    "None": (lambda data, *, epsilon, rng: None, "returned None for data = [1, 0, 1, 1, 0, 1], epsilon = 0.7: is a"),
    "nan": (lambda data, *, epsilon, rng: math.nan, "returned nan for"),
    "at times nan": (lambda data, *, epsilon, rng: math.nan if rng.random() < 0.01 else 1.0, "expected is one finite"),
    "raises": (lambda data, *, epsilon, rng: data.som(), "raised AttributeError"),
    "raises at times": (lambda data, *, epsilon, rng: 1.0 / (rng.random() > 0.01), "raised ZeroDivisionError"),
    "other names": (lambda data, *, eps, rng: 1.0, "is called with data, and with epsilon and rng by name: keep the"),
}


@pytest.mark.parametrize(("wrong", "diagnosis"), WRONG.values(), ids=WRONG.keys())
def test_law_diagnoses(wrong, diagnosis):
    message = verdict(checks.law, wrong, wrong=MISTAKES, **COUNT)
    assert diagnosis in message, message


def test_values_that_come_again_are_explained_only_by_a_law_that_repeats():
    coins = lambda data, rng: float(data[rng.random(len(data)) < 0.5].sum())  # noqa: E731
    sampled = lambda data, kind: laws.mixture(  # noqa: E731
        stats.binom.pmf(range(5), 4, 0.5), [kind(float(k)) for k in range(5)]
    )
    ask: dict[str, Any] = {
        "name": "sampled_count",
        "law": lambda data, *, noise=1.0: sampled(data, lambda k: laws.laplace(k, noise)),
        "settings": [{"data": np.ones(4)}, {"data": np.array([1.0, 1.0, 0.0, 1.0, 1.0])}],
        "wrong": [
            Mistake(lambda data, **_: sampled(data, laws.certain), "the sum has no noise."),
            Mistake(lambda data, *, noise=1.0: sampled(data, lambda k: laws.laplace(k, 2 * noise)), "it is doubled."),
        ],
    }
    checks.law(lambda data, *, rng: coins(data, rng) + rng.laplace(), **ask)
    assert "A known mistake: the sum has no noise" in verdict(checks.law, lambda data, *, rng: coins(data, rng), **ask)
    for size in (1.0, 2.0):
        rounded = lambda data, *, rng, size=size: round(coins(data, rng) + rng.laplace(scale=size), 1)  # noqa: E731
        assert "they are rounded. Do not round" in verdict(checks.law, rounded, **ask)


def test_a_mistake_that_is_a_multiple_of_the_right_law_explains_its_own_size_only():
    double = Mistake(lambda data, *, epsilon, noise=1.0: law(data, epsilon=epsilon, noise=2 * noise), "it is doubled.")
    ask = {**COUNT, "wrong": [double]}
    assert "it is doubled" in verdict(checks.law, noisy(lambda rng: rng.laplace(scale=2.0)), **ask)
    assert "about 3.9 times what" in verdict(checks.law, noisy(lambda rng: rng.laplace(scale=4.0)), **ask)
    assert "doubled" not in verdict(checks.law, noisy(lambda rng: rng.laplace(scale=40.0)), **ask)


def test_a_lack_of_privacy_is_proved_where_it_shows():
    message = verdict(checks.law, noisy(lambda rng: rng.laplace(scale=0.2)), **COUNT)
    proved = re.search(r"on \[1, 0, 1, 1, 0, 1\] and \[1, 0, 1, 1, 0\] show ε ≥ ([\d.]+), and 0.7 is allowed", message)
    assert proved and 0.7 < float(proved[1]) <= 3.5  # the truth
    assert "not private" not in verdict(checks.law, noisy(lambda rng: rng.laplace(scale=3.0)), **COUNT)


def test_noise_that_is_wrong_at_one_setting_alone_is_refused():
    few = lambda data, *, epsilon, rng: data.sum() + rng.laplace(scale=(0.8 if len(data) < 3 else 1.0) / epsilon)  # noqa: E731
    assert "at data = [1, 0], epsilon = 2" in verdict(checks.law, few, wrong=MISTAKES, **COUNT)


def test_what_nearly_always_comes_is_not_taken_for_missing_noise():
    rare = lambda n, *, noise=1.0: laws.discrete({0: 1 - 1e-9, 1: 1e-9} if n else {0: 0.5, 1: 0.5})  # noqa: E731
    ask: dict[str, Any] = {"name": "bit", "law": rare, "settings": [{"n": 1}, {"n": 0}]}
    checks.law(lambda n, *, rng: int(n == 0 and rng.random() < 0.5), **ask)
    assert "at n = 0, the outcome" in verdict(checks.law, lambda n, *, rng: int(n == 0 and rng.random() < 0.7), **ask)


def test_nothing_is_remembered_from_call_to_call():
    heard = []

    def later(data, *, epsilon, rng):
        heard.append(0)
        return data.sum() + rng.laplace(scale=1 / epsilon) * (1 if len(heard) < 6_121 else -1)

    assert "remembers earlier calls: with rng in the same state" in verdict(checks.law, later, **COUNT)


# --- labels and arrays ---


def coin(epsilon: float, bit: Any) -> laws.Law:
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    return laws.discrete({"no": p, None: 1 - p} if bit == 0 else {None: p, "no": 1 - p})


def test_law_of_labels():
    ask: dict[str, Any] = {
        "name": "respond",
        "law": lambda bit, *, epsilon, noise=1.0: coin(epsilon / noise, bit),
        "settings": [{"bit": 0, "epsilon": 1.0}, {"bit": 1, "epsilon": 1.0}],
        "neighbours": [(0, 1)],
    }

    def respond(bit, *, epsilon, rng, times=1.0):
        return "no" if (rng.random() < 1 / (1 + math.exp(-epsilon * times))) == (bit == 0) else None

    checks.law(respond, **ask)
    message = verdict(checks.law, lambda bit, *, epsilon, rng: respond(bit, epsilon=epsilon, rng=rng, times=2.5), **ask)
    assert "not private enough: its outputs on 0 and 1 show ε ≥" in message and "0.4 times" in message
    strange = verdict(checks.law, lambda bit, *, epsilon, rng: "yes", **ask)
    assert "returned 'yes' in each" in strange
    other = verdict(checks.law, lambda bit, *, epsilon, rng: str(rng.random() < 0.5), **ask)
    assert re.search("the outcome '(True|False)' came, which is impossible", other)
    assert "expected is one of the possible" in verdict(checks.law, lambda bit, *, epsilon, rng: object(), **ask)


def test_law_of_arrays():
    ask: dict[str, Any] = {
        "name": "all_of_them",
        "law": lambda values, *, noise=1.0: [laws.laplace(value, noise) for value in values],
        "settings": [{"values": np.array([0, 1, 0])}, {"values": np.repeat([0, 1], 20)}],
        "runs": 1000,
    }
    checks.law(lambda values, *, rng: values + rng.laplace(size=len(values)), **ask)
    one_for_all = verdict(checks.law, lambda values, *, rng: values + rng.laplace(), **ask)
    assert "draw one of its own for each, not one for all" in one_for_all

    def in_pairs(values, *, rng):
        noise = rng.laplace(size=len(values))
        noise[1::2] = -noise[: len(noise) // 2 * 2 : 2]
        return values + noise

    assert "of its own for each" in verdict(checks.law, in_pairs, **ask)
    wrong_size = verdict(checks.law, lambda values, *, rng: values[:2] + rng.laplace(size=2), **ask)
    assert "expected is 3 finite numbers" in wrong_size
