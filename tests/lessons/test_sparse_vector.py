"""Each check of dpml.lessons.sparse_vector: right answers pass, known mistakes get their diagnosis."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpml.lessons.sparse_vector import checks as items
from dpml.pate import sparse_vector
from dpml.pate.sparse_vector import privacy

from .answers import message, unwritten

# Item 1


def tail(x, b):
    return 2 / 3 * math.exp(-x / (2 * b)) - math.exp(-x / b) / 6


def above(value, threshold, b1, b2):
    """P(value + Lap(b2) >= threshold + Lap(b1)) by a sum over a fine grid."""
    t = np.linspace(threshold - 60 * b1, threshold + 60 * b1, 400_001)
    density = np.exp(-np.abs(t - threshold) / b1) / (2 * b1)
    x = (t - value) / b2
    passes = np.where(x > 0, 0.5 * np.exp(-np.maximum(x, 0)), 1 - 0.5 * np.exp(np.minimum(x, 0)))
    return float(np.trapezoid(density * passes, t))


@pytest.mark.parametrize(
    "right",
    [
        lambda *, value, threshold, epsilon: above(value, threshold, 2 / epsilon, 4 / epsilon),
        lambda *, value, threshold, epsilon: (
            tail(threshold - value, 2 / epsilon) if value < threshold else 1 - tail(value - threshold, 2 / epsilon)
        ),
    ],
)
def test_probability_above_accepts(right, capsys):
    items.check_probability_above(right)
    assert capsys.readouterr().out.startswith("✓ probability_above")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (
            lambda *, value, threshold, epsilon: (
                0.5 * math.exp(-(threshold - value) * epsilon / 4)
                if value < threshold
                else 1 - 0.5 * math.exp(-(value - threshold) * epsilon / 4)
            ),
            "the threshold has no noise here",
        ),
        (lambda *, value, threshold, epsilon: above(value, threshold, 2 / epsilon, 2 / epsilon), "twice as much"),
        (lambda *, value, threshold, epsilon: above(value, threshold, 4 / epsilon, 4 / epsilon), "is enough"),
        (lambda *, value, threshold, epsilon: above(value, threshold, 2 * epsilon, 4 * epsilon), "needs more noise"),
        (lambda *, value, threshold, epsilon: 1 - above(value, threshold, 2 / epsilon, 4 / epsilon), "of below"),
        (lambda *, value, threshold, epsilon: above(value, threshold, 4 / epsilon, 8 / epsilon), "twice as large"),
        (lambda *, value, threshold, epsilon: above(value, threshold, 1 / epsilon, 2 / epsilon), "half as large"),
        (lambda *, value, threshold, epsilon: tail(abs(threshold - value), 2 / epsilon), "as if it were as far below"),
        (lambda *, value, threshold, epsilon: 0.5, "one half"),
        (unwritten, "not written yet"),
    ],
)
def test_probability_above_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_probability_above, wrong)


# Item 2


@pytest.mark.parametrize("right", [math.sqrt(32 * math.log(2e5)) / 0.1, np.float64(197.634593292)])
def test_lam_accepts(right, capsys):
    items.check_lam(right)
    assert capsys.readouterr().out.startswith("✓ lam")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (1.9194103648752325, "as printed"),
        (191.94103648752325, "unstable queries need some"),
        (math.sqrt(32 * math.log(2e5)) * 0.1, "epsilon multiplies where it must divide"),
        (math.sqrt(2) * 197.634593292, "two failures"),
        (2 * 197.634593292, "the noise of the queries"),
        (32 * math.log(2e5) / 0.1, "square root is missing"),
        (math.sqrt(32 * math.log(2e5) / 0.1), "under the root"),
        (19.9961910489, "the least scale"),
        (..., "not written yet"),
    ],
)
def test_lam_names_the_mistake(wrong, diagnosis):
    if diagnosis == "the least scale":
        wrong = privacy.m_svec_noise(epsilon=0.1, delta=1e-5, cutoff=1).scale
    assert diagnosis in message(items.check_lam, wrong)


# Item 3


def needed(cutoff, *, epsilon, delta, queries, beta):
    noise = privacy.m_svec_noise(epsilon=epsilon, delta=delta, cutoff=cutoff)
    return privacy.enough_distance(**noise._asdict(), queries=queries, beta=beta)


def by_search(distance, **setting):
    return next(
        (q - 1 for q in range(1, setting["queries"] + 1) if needed(q, **setting) > distance), setting["queries"]
    )


def by_halving(distance, **setting):
    low, high = 0, setting["queries"]
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if needed(middle, **setting) <= distance else (low, middle - 1)
    return low


def by_classic(distance, **setting):
    def need(q):
        budget = {k: setting[k] for k in ("epsilon", "delta", "queries")}
        noise = privacy.m_svec_noise_classic(cutoff=q, **budget)
        return privacy.enough_distance(**noise._asdict(), queries=setting["queries"], beta=setting["beta"])

    return next((q - 1 for q in range(1, setting["queries"] + 1) if need(q) > distance), setting["queries"])


def by_threshold(distance, **setting):
    def need(q):
        return privacy.m_svec_noise(epsilon=setting["epsilon"], delta=setting["delta"], cutoff=q).threshold

    return next((q - 1 for q in range(1, setting["queries"] + 1) if need(q) > distance), setting["queries"])


def by_division(distance, **setting):
    def need(q):
        return needed(1, **{**setting, "epsilon": setting["epsilon"] / q})

    return next((q - 1 for q in range(1, setting["queries"] + 1) if need(q) > distance), setting["queries"])


def without_end(distance, **setting):
    q = 0
    while needed(q + 1, **setting) <= distance:
        q += 1
    return q


@pytest.mark.parametrize("right", [by_search, by_halving])
def test_affordable_failures_accepts(right, capsys):
    items.check_affordable_failures(right)
    assert capsys.readouterr().out.startswith("✓ affordable_failures")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (by_classic, "the classic noise"),
        (by_threshold, "noise of queries and threshold comes on top"),
        (lambda distance, **s: by_search(distance, **s) + 1, "one failure more"),
        (lambda distance, **s: max(1, by_search(distance, **s)), "the answer is 0"),
        (without_end, "more failures than queries"),
        (by_division, "divided among the failures"),
        (lambda distance, **s: min(by_search(distance, **s) + 1, s["queries"]), "one failure more"),
        (lambda distance, **s: max(0, by_search(distance, **s) - 1), "one more failure is affordable"),
        (lambda distance, **s: min(by_search(distance, **s), s["queries"] - 1), "range ends before it"),
        (lambda distance, **s: by_search(distance, **{**s, "beta": s["delta"]}), "Put your number"),
        (unwritten, "not written yet"),
    ],
)
def test_affordable_failures_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_affordable_failures, wrong)


# Item 4


def right_moves(stream, other, t, nu):
    before = max((f + v for f, v in zip(stream[:-1], nu[:-1], strict=True)), default=0.0)
    after = max((f + v for f, v in zip(other[:-1], nu[:-1], strict=True)), default=0.0)
    return t + after - before, nu[-1] + after - before + stream[-1] - other[-1]


def careful_moves(stream, other, t, nu):
    """Only as far up as needed for any output: the threshold by +1 whenever another query exists."""
    if len(stream) == 1:
        return t, nu[0] + stream[0] - other[0]
    return t + 1.0, nu[-1] + 1.0 + stream[-1] - other[-1]


def arrays_of_one(stream, other, t, nu):
    return [np.array([value]) for value in right_moves(stream, other, t, nu)]


def the_most(stream, other, t, nu):
    return np.array([t + 1.0, nu[-1] + 2.0])


@pytest.mark.parametrize("right", [right_moves, careful_moves, arrays_of_one, the_most])
def test_moved_accepts(right, capsys):
    items.check_moved(right)
    assert capsys.readouterr().out.startswith("✓ moved")


def in_place(stream, other, t, nu):
    nu[-1] += 2.0
    return t + 1.0, nu[-1]


def follows_its_own_noise(stream, other, t, nu):
    k = len(stream)
    if k > 1 and max(other[:-1] + nu[:-1]) < t <= other[-1] + nu[-1]:
        return t, nu[-1]  # nothing needs to move here
    return right_moves(stream, other, t, nu)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lambda stream, other, t, nu: (t, nu[-1]), "of D' is"),
        (lambda stream, other, t, nu: (t, nu[-1] + stream[-1] - other[-1]), "above the moved threshold already"),
        (
            lambda stream, other, t, nu: (right_moves(stream, other, t, nu)[0], nu[-1] + stream[-1] - other[-1]),
            "below the moved threshold",
        ),
        (lambda stream, other, t, nu: (t + 5.0, nu[-1] + 9.0), "moves by 5"),
        (lambda stream, other, t, nu: (t + 1.0, nu[-1] + 3.0), "the last noise moves by 3"),
        (follows_its_own_noise, "depends on the noises that are moved"),
        (unwritten, "not written yet"),
        (lambda stream, other, t, nu: ..., "not written yet"),
        (lambda stream, other, t, nu: None, "is a return missing?"),
        (lambda stream, other, t, nu: print(right_moves(stream, other, t, nu)), "is a return missing?"),
        (lambda stream, other, t, nu: right_moves(stream, other, t, nu)[::-1], "threshold comes first"),
        (lambda stream, other, t, nu: np.subtract(right_moves(stream, other, t, nu), (t, nu[-1])), "are the moves"),
        (lambda stream, other, t, nu: right_moves(stream, other, t, nu)[0], "returned an object of type float"),
        (lambda stream, other, t, nu: (t, nu), "the second one is an array"),
        (lambda stream, other, t, nu: [str(v) for v in right_moves(stream, other, t, nu)], "the first one is text"),
        (lambda stream, other, t, nu: dict.fromkeys(right_moves(stream, other, t, nu)), "type dict"),
        (lambda stream, other, t, nu: (t, math.nan), "the second one is nan"),
        (lambda stream, other, t, nu: (t, 0.0, 0.0), "returned 3 of them"),
        (lambda stream, other, t: (t, 0.0), "four arguments"),
        (in_place, "changed nu"),
    ],
)
def test_moved_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_moved, wrong)


# Item 5


def vectorised(stream, *, threshold, epsilon, rng):
    noisy = np.asarray(stream) + rng.laplace(scale=4 / epsilon, size=len(stream))
    found = np.flatnonzero(noisy >= threshold + rng.laplace(scale=2 / epsilon))
    return int(found[0]) if len(found) else None


def made(b1, b2, *, fresh=False, out=lambda i, v: i, end=None):
    def wrong(stream, *, threshold, epsilon, rng):
        def noise(b):
            return rng.laplace(scale=b / epsilon) if b else 0.0

        t = threshold + noise(b1)
        for i, value in enumerate(stream):
            if fresh:
                t = threshold + noise(b1)
            noisy = value + noise(b2)
            if noisy >= t:
                return out(i, noisy)
        return end

    return wrong


@pytest.mark.parametrize(
    "right",
    [
        vectorised,
        lambda stream, *, threshold, epsilon, rng: sparse_vector.above_threshold(
            stream, threshold=threshold, epsilon=epsilon, rng=rng
        ),
        made(2, 4, out=lambda i, v: np.array(i)),
        made(2, 4, out=lambda i, v: np.int64(i)),
    ],
)
def test_first_above_accepts(right, capsys):
    items.check_first_above(right)
    assert capsys.readouterr().out.startswith("✓ first_above")


def multiplied(stream, *, threshold, epsilon, rng):
    return made(2 * epsilon**2, 4 * epsilon**2)(stream, threshold=threshold, epsilon=epsilon, rng=rng)


def the_other_way_round(stream, **given):
    return vectorised(-np.asarray(stream), **given)


def gaussian(stream, *, threshold, epsilon, rng):
    noisy = threshold + rng.normal(scale=2 / epsilon)
    return next((i for i, v in enumerate(stream) if v + rng.normal(scale=4 / epsilon) >= noisy), None)


def fails_elsewhere(stream, *, threshold, epsilon, rng):
    return vectorised(stream, threshold=threshold, epsilon=epsilon, rng=rng) if threshold == 0 else 1 / 0


def leaves_the_range(stream, *, threshold, epsilon, rng):
    return vectorised(stream, threshold=threshold, epsilon=epsilon, rng=rng) if threshold == 0 else 99


def last_one(stream, *, threshold, epsilon, rng):
    found = [i for i, v in enumerate(stream) if v + rng.laplace(scale=4 / epsilon) >= threshold]
    return found[-1] if found else None


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (made(0, 0), "no noise at all"),
        (made(0, 4), "without noise on the threshold"),
        (made(2, 4, fresh=True), "new noise on the threshold for every query"),
        (made(2, 2), "must hide a shift of 2"),
        (made(1, 2), "costs twice epsilon"),
        (made(4, 2), "scales exchanged"),
        (made(4, 4), "more noise than asked"),
        (made(2, 0), "no noise on the queries"),
        (multiplied, "multiplied by epsilon"),
        (made(2, 4, out=lambda i, v: v), "nothing of its value"),
        (made(2, 4, out=lambda i, v: (i, v)), "Return one index"),
        (made(2, 4, end=-1), "None stands for"),
        (made(2, 4, end=math.nan), "None stands for"),
        (made(2, 4, end=False), "None stands for"),
        (made(2, 4, out=lambda i, v: i + 1), "counted from 0"),
        (made(2, 4, out=lambda i, v: i - 9), "counted from 0"),
        (made(2, 4, out=lambda i, v: True), "Return one index"),
        (made(2, 4, out=lambda i, v: str(i)), "Return one index"),
        (made(2, 4, out=lambda i, v: print(i)), "Is a return missing"),
        (made(4, 8), "both scales twice as large"),
        (the_other_way_round, "Which way round"),
        (lambda stream, **given: vectorised(stream, **{**given, "threshold": 0.0}), "whatever threshold is given"),
        (lambda stream, **given: vectorised(np.round(stream), **given), "do not follow the law"),
        (gaussian, "the kind of noise"),
        (fails_elsewhere, "stops with ZeroDivisionError"),
        (leaves_the_range, "Return one index"),
        (lambda stream, threshold, rng: 0, "keep the parameter names"),
        (last_one, "Stop at the first one above"),
        (lambda stream, *, threshold, epsilon, rng: 1 / 0, "stops with ZeroDivisionError"),
        (unwritten, "not written yet"),
        (lambda stream, *, threshold, epsilon, rng: ..., "not written yet"),
        (3, "must be a function"),
    ],
)
def test_first_above_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_first_above, wrong)


def test_first_above_keeps_the_prints_of_the_answer_to_itself(capsys):
    def talks(stream, **given):
        print("looking at", stream)
        return vectorised(stream, **given)

    items.check_first_above(talks)
    assert "looking" not in capsys.readouterr().out


def test_own_randomness_is_found():
    rng_of_mine = np.random.default_rng(1)

    def mine(stream, *, threshold, epsilon, rng):
        return vectorised(stream, threshold=threshold, epsilon=epsilon, rng=rng_of_mine)

    message(items.check_first_above, mine)


# Item 6

TRUE = dict.fromkeys("abcdefgh", False) | dict.fromkeys("adf", True)


@pytest.mark.parametrize("right", [TRUE, {k: np.bool_(v) for k, v in TRUE.items()}])
def test_claims_accepts(right, capsys):
    items.check_claims(right)
    assert capsys.readouterr().out.startswith("✓ claims")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        ({**TRUE, "a": False}, "the one noise of the threshold"),
        ({**TRUE, "b": True}, "only the bits are covered"),
        ({**TRUE, "c": True}, "no single shift"),
        ({**TRUE, "d": False}, "the same under both datasets"),
        ({**TRUE, "e": True}, "Q grows"),
        ({**TRUE, "f": False}, "probability Q p"),
        ({**TRUE, "g": True}, "part of the output"),
        ({**TRUE, "h": True}, "how close it was"),
        ({**TRUE, "h": "no"}, "give True or False"),
        ({"a": True}, '"a" to "h"'),
        (..., "not written yet"),
    ],
)
def test_claims_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_claims, wrong)


# Item 7


@pytest.mark.parametrize(
    "right",
    [
        ([0.0, 1.0], [1.0, 0.0], [0, 1]),
        (np.array([5.0, 5.4, 5.4]), np.array([5.4, 5.4, 5.4]), [False, True, True]),
    ],
)
def test_giveaway_accepts(right, capsys):
    items.check_giveaway(right)
    assert capsys.readouterr().out.startswith("✓ giveaway")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (([0.0, 2.0], [2.0, 0.0], [0, 1]), "changes by at most 1"),
        (([1.0, 0.0], [0.0, 1.0], [0, 1]), "impossible for the first dataset"),
        (([0.0, 1.0], [0.5, 0.8], [0, 1]), "both datasets can give it"),
        (([0.0], [1.0, 0.0], [0, 1]), "of the same length"),
        (([0.0, 1.0], [1.0, 0.0], ["0", "1"]), "the output must be finite numbers"),
        (([0.0, 1.0], [1.0, 0.0], [0.5, 1.5]), "1 for above and 0 for below"),
        (([0.0, math.nan], [1.0, 0.0], [0, 1]), "the answers must be finite numbers"),
        (([0.0, None], [1.0, 0.0], [0, 1]), "the answers must be finite numbers"),
        (([0.0, [1.0]], [1.0, 0.0], [0, 1]), "one list of numbers"),
        (([0.0, 1.0], [1.0, 0.0]), "a tuple of three lists"),
        (3, "a tuple of three lists"),
        ("0, 1", "not an input"),
        (..., "not written yet"),
    ],
)
def test_giveaway_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_giveaway, wrong)
