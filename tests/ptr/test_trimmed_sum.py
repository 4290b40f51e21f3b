"""The trimmed sum: against its definition, by brute force, and under hostile single changes."""

import itertools
import math

import numpy as np
import pytest
import torch

from dpml.ptr import broken_trimmed_sum as broken
from dpml.ptr.trimmed_sum import (
    clipped_trimmed_sum,
    kept,
    local_sensitivity,
    places,
    safety_margin,
    safety_margin_enumerated,
    trimmed_sum,
)

UNIVERSE = (0.0, 0.2, 0.2, 0.5, 0.9, 1.0)  # lengths; the bound is 1


def slow_trimmed_sum(rows, trim, bound, ids):
    """Python lists, one record at a time."""
    lengths = [math.sqrt(math.fsum(x * x for x in row)) for row in rows]
    order = sorted(range(len(rows)), key=lambda i: (lengths[i], ids[i]))
    stay = order[: max(0, len(rows) - trim)]
    factors = [min(1.0, bound / lengths[i]) if lengths[i] > 0 else 1.0 for i in range(len(rows))]
    return [math.fsum(rows[i][k] * factors[i] for i in stay) for k in range(len(rows[0]) if rows else 0)]


@pytest.mark.parametrize("m", [1, 2, 5, 12])
@pytest.mark.parametrize("trim", [0, 1, 4, 11, 12, 13, 40])
def test_against_the_definition(m, trim):
    rng = np.random.default_rng(m * 100 + trim)
    rows = rng.normal(size=(m, 3)) * rng.choice([0.0, 0.3, 1.0, 5.0], size=(m, 1))
    rows[m // 2 :] = rows[: m - m // 2]  # ties
    ids = rng.permutation(1000)[:m]
    expected = slow_trimmed_sum(rows.tolist(), trim, 1.0, ids.tolist())
    assert clipped_trimmed_sum(rows, trim=trim, bound=1.0, ids=ids) == pytest.approx(expected, abs=1e-12)
    unclipped = slow_trimmed_sum(rows.tolist(), trim, math.inf, ids.tolist())
    assert trimmed_sum(rows, trim=trim, ids=ids) == pytest.approx(unclipped, abs=1e-12)


def test_the_edges():
    rows = np.array([[3.0, 4.0], [0.0, 1.0]])
    assert trimmed_sum(rows, trim=0) == pytest.approx([3.0, 5.0])
    assert trimmed_sum(rows, trim=1) == pytest.approx([0.0, 1.0])
    assert trimmed_sum(rows, trim=2) == pytest.approx([0.0, 0.0])
    assert trimmed_sum(np.zeros((0, 2)), trim=0) == pytest.approx([0.0, 0.0])
    assert clipped_trimmed_sum(np.zeros((0, 2)), trim=3, bound=1.0) == pytest.approx([0.0, 0.0])
    assert safety_margin([], trim=3, tau=0.5, bound=1.0) == 3
    assert safety_margin([], trim=0, tau=0.5, bound=1.0) == 0
    assert local_sensitivity([], trim=3, r=0, bound=1.0) == pytest.approx(0.0)
    assert local_sensitivity([0.2, 0.4], trim=0, r=0, bound=1.0) == pytest.approx(1.0)
    for margin in (safety_margin, safety_margin_enumerated):
        assert margin([0.2], trim=1, tau=1.0, bound=1.0) == math.inf
        assert margin([0.2], trim=1, tau=1.5, bound=1.0) == math.inf


def test_ties_go_by_id_whatever_the_order_of_the_batch():
    """In tensors as in arrays."""
    norms, ids = np.array([1.0, 2.0, 2.0, 2.0, 0.5]), np.array([7, 30, 10, 20, 9])
    for kind in (np.asarray, torch.from_numpy):
        assert places(kind(norms), ids=kind(ids)).tolist() == [1, 4, 2, 3, 0]
    assert kept(norms, trim=2, ids=ids).tolist() == [True, False, True, False, True]
    for order in itertools.permutations(range(5)):
        batch = list(order)
        assert set(ids[batch][kept(norms[batch], trim=2, ids=ids[batch])]) == {7, 10, 9}


def scalar_sum(lengths, trim):
    """The trimmed sum of non-negative numbers, by definition."""
    return sum(sorted(lengths)[: max(0, len(lengths) - trim)])


def change(lengths, trim):
    """The local sensitivity of the scalar trimmed sum over the universe of lengths, by definition."""
    near = [(*lengths, y) for y in set(UNIVERSE)] + [lengths[:i] + lengths[i + 1 :] for i in range(len(lengths))]
    return max(abs(scalar_sum(other, trim) - scalar_sum(lengths, trim)) for other in near)


def within(lengths, r):
    """All multisets at most r additions and removals away."""
    layer = {tuple(sorted(lengths))}
    for _ in range(r):
        layer |= {tuple(sorted((*c, y))) for c in layer for y in set(UNIVERSE)} | {
            c[:i] + c[i + 1 :] for c in layer for i in range(len(c))
        }
    return layer


@pytest.mark.parametrize("trim", range(4))
def test_sensitivity_and_margin_equal_brute_force(trim):
    """Every multiset of at most 4 lengths out of the universe, r = 0, 1, 2; five values of tau."""
    for m in range(5):
        for lengths in itertools.combinations_with_replacement(sorted(set(UNIVERSE)), m):
            slow = [max(change(c, trim) for c in within(lengths, r)) for r in range(3)]
            fast = [local_sensitivity(lengths, trim=trim, r=r, bound=1.0) for r in range(3)]
            assert fast == pytest.approx(slow, abs=1e-12)
            for tau in (0.1, 0.2, 0.4, 0.6, 0.95):
                expected = next((r for r in range(3) if slow[r] > tau + 1e-12), 3)
                assert min(safety_margin(lengths, trim=trim, tau=tau, bound=1.0), 3) == expected


def test_the_count_equals_the_printed_enumeration():
    rng = np.random.default_rng(3)
    for _ in range(300):
        norms = rng.choice([0.0, 0.1, 0.3, 0.3, 0.7, 1.0, 4.0], size=rng.integers(0, 30))
        setting = {"trim": int(rng.integers(0, 12)), "tau": float(rng.choice([0.1, 0.3, 0.5, 0.99, 1.0])), "bound": 1.0}
        assert safety_margin(norms, **setting) == safety_margin_enumerated(norms, **setting)
        steps = (
            r for r in range(12) if local_sensitivity(norms, trim=setting["trim"], r=r, bound=1.0) > setting["tau"]
        )
        assert safety_margin(norms, **setting) == next(steps, math.inf)
    assert safety_margin_enumerated([1.0, 2.0], trim=10**6, tau=0.5, bound=1.0) == 10**6 - 2  # at once


# ---- one record ----

D, M, TRIM = 4, 24, 8


def hostile(rng):
    """Long vectors in two opposite directions, many with one length, some with none."""
    directions = np.vstack([np.eye(D)[0], -np.eye(D)[0], rng.normal(size=(2, D))])
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    rows = directions[rng.integers(0, 4, M)] * rng.choice([0.2, 1.0, 3.0, 50.0], size=(M, 1), p=[0.05, 0.1, 0.8, 0.05])
    ids = rng.permutation(10 * M)[:M]
    return rows, ids


def largest_change(f, trials=200):
    """Largest change of f(rows, ids) over the removal of one record, the batch in a new order the second time."""
    rng, largest = np.random.default_rng(0), 0.0
    for _ in range(trials):
        rows, ids = hostile(rng)
        before = f(rows, ids)
        order = rng.permutation(M)[1:]
        largest = max(largest, float(np.linalg.norm(f(rows[order], ids[order]) - before)))
    return largest


def test_one_record_moves_the_sum_by_at_most_the_bound():
    change = largest_change(lambda rows, ids: clipped_trimmed_sum(rows, trim=TRIM, bound=1.0, ids=ids))
    assert 0.99 <= change <= 1.0 + 1e-6


def test_the_local_sensitivity_holds_for_vectors():
    """Not only for lengths: 40 hostile batches, every removal and the worst kind of addition."""
    rng = np.random.default_rng(1)
    for _ in range(40):
        rows, ids = hostile(rng)
        here = clipped_trimmed_sum(rows, trim=TRIM, bound=1.0, ids=ids)
        limit = local_sensitivity(np.linalg.norm(rows, axis=1), trim=TRIM, r=0, bound=1.0)
        for gone in range(M):
            stay = np.arange(M) != gone
            there = clipped_trimmed_sum(rows[stay], trim=TRIM, bound=1.0, ids=ids[stay])
            assert np.linalg.norm(there - here) <= limit * (1 + 1e-12)
        more = np.vstack([rows, [[100.0, 0.0, 0.0, 0.0]]])
        there = clipped_trimmed_sum(more, trim=TRIM, bound=1.0, ids=[*ids, 10**6])
        assert np.linalg.norm(there - here) == pytest.approx(limit, rel=1e-12)


def test_the_wrong_sort_breaks_the_bound():
    """It moves by more than 5 R over 200 hostile batches; the sound sum moves by R on the same ones."""
    change = largest_change(lambda rows, ids: broken.by_clipped_norms(rows, trim=TRIM, bound=1.0))
    assert 5.0 < change <= 2 * TRIM + 1


def test_the_broken_one_agrees_where_nothing_ties():
    rng = np.random.default_rng(9)
    rows = rng.normal(size=(20, 3))
    rows *= (np.linspace(0.1, 0.9, 20) / np.linalg.norm(rows, axis=1))[:, None]
    expected = clipped_trimmed_sum(rows, trim=5, bound=1.0)
    assert broken.by_clipped_norms(rows, trim=5, bound=1.0) == pytest.approx(expected, abs=1e-12)


def test_the_length_of_a_vector_does_not_depend_on_its_batch():
    """Two records whose lengths differ in the last digit are ordered alike in every batch and memory layout."""
    rng = np.random.default_rng(12)
    rows = rng.normal(size=(50, 333))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    whole = trimmed_sum(rows, trim=49)
    assert trimmed_sum(np.asfortranarray(rows), trim=49) == pytest.approx(whole, abs=0)
    smallest = int(np.argmin([np.abs(row - whole).max() for row in rows]))
    for other in range(50):
        if other != smallest:
            pair = rows[[other, smallest]]
            assert trimmed_sum(pair, trim=1, ids=[other, smallest]) == pytest.approx(whole, abs=0)


def test_long_vectors_are_clipped_without_overflow():
    rows = np.array([[1e200, 1e200], [0.0, 0.5]])
    assert clipped_trimmed_sum(rows, trim=0, bound=1.0) == pytest.approx([math.sqrt(0.5), math.sqrt(0.5) + 0.5])
    with pytest.raises(ValueError, match=r"^vectors must keep each length within"):
        trimmed_sum([[1.5e308, 1.5e308]], trim=0)
    with pytest.raises(ValueError, match=r"^vectors must keep the sum within"):
        trimmed_sum([[1e308, 0.0], [1e308, 0.0]], trim=0)


@pytest.mark.parametrize("length", [7e302, 1.3e303, 1.7e303, 1e300])
def test_a_clip_factor_below_the_range_of_normal_floats_lets_no_more_than_the_bound_through(length):
    assert clipped_trimmed_sum([[length, 0.0]], trim=0, bound=1e-20)[0] <= 1e-20 * (1.0 + 1e-15)
