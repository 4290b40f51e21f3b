"""Rules against golden cases, slow definitions, first-order conditions and bad rows; in NumPy and in torch alike."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from dpml.byzantine import _diameter, _rows, aggregation
from tests.golden import golden

CASES = golden("byzantine")["gar_cases"]
TABLE = {  # the name in the golden cases, and what the rule needs: n >= slope f + spare
    aggregation.average: ("average", 1, 1),
    aggregation.krum: ("krum", 2, 3),
    aggregation.multi_krum: ("multikrum", 2, 3),
    aggregation.mda: ("mda", 2, 1),
    aggregation.median: ("median", 2, 1),
    aggregation.trimmed_mean: ("trmean", 2, 1),
    aggregation.geometric_median: ("geometric_median", 2, 1),
    aggregation.bulyan: ("bulyan", 4, 3),
    aggregation.bulyan_multi_krum: ("", 4, 3),
}
every_rule = pytest.mark.parametrize("rule", TABLE, ids=lambda rule: rule.__name__)


def some_rows(n=11, d=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


# ---- golden cases ----


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_golden_cases(case):
    rows, f = np.array([*case["honest"], *[case["byzantine"]] * case["f"]]), case["f"]
    for rule, (name, *_) in TABLE.items():
        for sent in (rows, torch.tensor(rows)) if name in case else ():
            assert np.asarray(rule(sent, n_byzantine=f)) == pytest.approx(np.array(case[name]), rel=1e-9, abs=1e-12)
    assert aggregation.krum_scores(rows, n_byzantine=f) == pytest.approx(np.array(case["krum_scores"]), rel=1e-9)
    assert list(aggregation.mda_subset(rows, n_byzantine=f)) == case["mda_subset"]
    diameter = aggregation.squared_distances(rows[case["mda_subset"]]).max() ** 0.5
    assert diameter == pytest.approx(case["mda_diameter"], rel=1e-12)
    mixed = aggregation.nearest_neighbour_mixing(rows, n_byzantine=f)
    assert mixed.mean(0) == pytest.approx(np.array(case["nnm_average"]), rel=1e-9)


# ---- against slow definitions ----


def distances(rows):
    return ((rows[:, None] - rows) ** 2).sum(2)


def by_score(rows, f):
    """The numbers of the rows by increasing score of Krum."""
    return np.argsort([sum(sorted(row)[1 : len(rows) - f - 1]) for row in distances(rows)], kind="stable")


def least_diameter(squares, f):
    sets = itertools.combinations(range(len(squares)), len(squares) - f)
    return list(min(sets, key=lambda kept: squares[np.ix_(kept, kept)].max()))  # the first of equal ones


def slow_bulyan(rows, f, multi):
    left, moved = rows, []
    while len(moved) < len(rows) - 2 * f - 2:
        order = by_score(left, f)
        moved.append(left[order[: len(left) - f - 2 if multi else 1]].mean(0))
        left = np.delete(left, order[0], axis=0)
    near = [sorted(values, key=lambda x: abs(x - np.median(values))) for values in np.array(moved).T]
    return np.array(near)[:, : len(rows) - 4 * f - 2].mean(1)


SLOW = {
    aggregation.average: lambda rows, f: rows.mean(0),
    aggregation.krum: lambda rows, f: rows[by_score(rows, f)[0]],
    aggregation.multi_krum: lambda rows, f: rows[by_score(rows, f)[: len(rows) - f - 2]].mean(0),
    aggregation.mda: lambda rows, f: rows[least_diameter(distances(rows), f)].mean(0),
    aggregation.median: lambda rows, f: np.median(rows, axis=0),
    aggregation.trimmed_mean: lambda rows, f: np.sort(rows, axis=0)[f : len(rows) - f].mean(0),
    aggregation.bulyan: lambda rows, f: slow_bulyan(rows, f, multi=False),
    aggregation.bulyan_multi_krum: lambda rows, f: slow_bulyan(rows, f, multi=True),
    aggregation.nearest_neighbour_mixing: lambda rows, f: np.array(
        [rows[near[: len(rows) - f]].mean(0) for near in distances(rows).argsort(axis=1)]
    ),
}


@pytest.mark.parametrize("rule", SLOW, ids=lambda rule: rule.__name__)
def test_rules_equal_their_definitions(rule):
    _, slope, spare = TABLE.get(rule, ("", 2, 1))
    for seed in range(20):
        f = seed % 4
        rows = some_rows(n=slope * f + spare + seed % 5, d=7, seed=seed)
        assert rule(rows, n_byzantine=f) == pytest.approx(SLOW[rule](rows, f), rel=1e-11)


@pytest.mark.parametrize("rule", [aggregation.median, aggregation.trimmed_mean])
def test_more_columns_than_one_piece_has(rule):
    for n, d in ((13, 1), (16, 20_000), (50, 20_000)):
        rows = some_rows(n=n, d=d, seed=n)
        np.testing.assert_allclose(rule(rows, n_byzantine=n // 3), SLOW[rule](rows, n // 3), rtol=1e-12, atol=1e-15)


def test_the_least_diameter_equals_brute_force():
    """Of rows with many ties, and of distances that no points have."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 11))
        squares = distances(rng.integers(0, 3, size=(n, 2)).astype(float))
        if seed % 2:
            squares = np.triu(rng.integers(1, 2 + seed % 7, size=(n, n)).astype(float), 1)
            squares = squares + squares.T
        for f in range((n + 1) // 2):
            assert _diameter.least_diameter(squares, f) == least_diameter(squares, f)


def test_mda_on_a_large_set_is_no_worse_than_any_planted_one():
    """30 rows of which 16 lie close: brute force would look at 145 million sets."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(30, 6))
    close = np.sort(rng.permutation(30)[:16])
    rows[close] = 0.1 * rows[close]
    assert list(aggregation.mda_subset(rows, n_byzantine=14)) == list(close)


@pytest.mark.parametrize("n", range(1, 13))
def test_the_network_sorts(n):
    """By the zero-one principle it sorts everything, as it sorts all zeros and ones."""
    rows = [np.array(row) for row in zip(*itertools.product([0.0, 1.0], repeat=n), strict=True)]
    for low, high in _rows.network(n):
        rows[low], rows[high] = np.minimum(rows[low], rows[high]), np.maximum(rows[low], rows[high])
    assert (np.diff(np.array(rows), axis=0) >= 0.0).all()


# ---- the geometric median ----


@pytest.mark.parametrize("seed", range(40))
def test_the_geometric_median_is_where_the_unit_vectors_cancel(seed):
    """The first-order condition of a convex function; with a row far away, equal rows, and rows on a plane."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(int(rng.integers(3, 16)), int(rng.integers(1, 9))))
    if seed % 4 == 1:
        rows[-1] *= 1e60 if seed % 8 == 1 else 1e9
    if seed % 4 == 2:
        rows = np.vstack([rows, rows[:1], rows[:1]])
    away = aggregation.geometric_median(rows, n_byzantine=(len(rows) - 1) // 2) - rows
    lengths = np.linalg.norm(away, axis=1)
    there = lengths < 1e-12
    assert np.linalg.norm((away[~there] / lengths[~there, None]).sum(0)) <= there.sum() + 1e-10


def test_a_geometric_median_that_is_a_row_is_that_row():
    """On a line all between two rows are minima: the first of these."""
    line = np.array([[5.0], [1.0], [3.0], [2.0]])
    assert list(aggregation.geometric_median(line, n_byzantine=1)) == [3.0]
    assert list(aggregation.geometric_median(np.ones((4, 2)), n_byzantine=1)) == [1.0, 1.0]


# ---- distances ----


@pytest.mark.parametrize("place", [0, 5, 11])
@pytest.mark.parametrize("kind", ["numpy", "float32", "float64"])
def test_distances_survive_a_large_common_part_and_a_huge_row(kind, place):
    """The usual formula |x|^2 + |y|^2 - 2 <x, y> in float32 gives negative squares here, and another pick."""
    rows = (1000.0 + 0.01 * np.random.default_rng(1).normal(size=(12, 60))).astype(np.float32)
    rows[place] = 1e12
    rows[(place + 1) % 12] = rows[(place + 2) % 12]
    exact = [[Fraction(float(x)) for x in row] for row in rows]
    exact = [[float(sum((a - b) ** 2 for a, b in zip(x, y, strict=True))) for y in exact] for x in exact]
    given = rows.astype(np.float64) if kind == "numpy" else torch.tensor(rows, dtype=getattr(torch, kind))
    assert aggregation.squared_distances(given) == pytest.approx(np.array(exact), rel=1e-11)


@pytest.mark.parametrize("d", [3, 20_000])
def test_equal_rows_have_equal_distances(d):
    """To the last bit, so that of equal scores the lowest number wins, wherever the copies stand."""
    rows = np.random.default_rng(2).normal(size=(13, d))
    rows[[3, 8, 12]] = rows[3] = 0.9 * rows.mean(0)
    squares = aggregation.squared_distances(rows)
    assert (squares[:, 3] == squares[:, 8]).all() and (squares[3] == squares[12]).all() and squares[3, 12] == 0.0
    scores = aggregation.krum_scores(rows, n_byzantine=3)
    assert scores[3] == scores[8] == scores[12] == scores.min() and int(scores.argmin()) == 3


# ---- rows that are not finite, or huge ----


@every_rule
@pytest.mark.parametrize("bad", [[math.nan], [math.inf], [-math.inf], [math.nan, math.inf]])
def test_a_row_that_is_not_finite_counts_as_one_of_the_byzantine(rule, bad):
    rows, f = some_rows(n=11), len(bad)
    sent = np.insert(rows, 4, np.ones((f, 5)), axis=0)
    sent[4 : 4 + f, 2] = bad
    for left in (0, 1) if f == 1 else (0,):
        expected = rule(rows, n_byzantine=left)
        assert rule(sent, n_byzantine=f + left) == pytest.approx(expected, rel=1e-13)
        assert rule(torch.tensor(sent), n_byzantine=f + left).numpy() == pytest.approx(expected, rel=1e-12)
    with pytest.raises(ValueError, match=rf"^vectors must have at most n_byzantine = 0 rows .* not finite, got {f}"):
        rule(sent, n_byzantine=0)


@every_rule
@pytest.mark.parametrize(
    ("huge", "dtype"), [(1.7e308, None), (3.4e38, torch.float32), (6e4, torch.float16), (3e38, torch.bfloat16)]
)
def test_a_row_at_the_end_of_the_floats_does_not_reach_the_output(rule, huge, dtype):
    sent = np.vstack([some_rows(n=11), [[huge, -huge, huge, 0.0, huge]]])
    out = rule(sent, n_byzantine=1) if dtype is None else rule(torch.tensor(sent).to(dtype), n_byzantine=1).double()
    assert np.abs(np.asarray(out)).max() < 4.0


@every_rule
@pytest.mark.parametrize("n_byzantine", [0, 1])
def test_rows_whose_sum_leaves_the_floats_have_a_finite_answer(rule, n_byzantine):
    """15 rows in float32, at nearly a quarter of the largest number: as in float64."""
    rows = torch.full((15, 3), 8e37) * torch.linspace(1.0, 1.01, 15)[:, None] * torch.tensor([1.0, -1.0, 0.5])
    found, expected = rule(rows, n_byzantine=n_byzantine), rule(rows.double(), n_byzantine=n_byzantine)
    assert found.numpy() == pytest.approx(expected.numpy(), rel=1e-6)


def test_bad_rows_in_scores_subsets_and_mixing():
    rows = some_rows(n=11)
    sent = np.insert(rows, 4, math.nan, axis=0)
    scores = aggregation.krum_scores(sent, n_byzantine=2)
    expected = np.insert(aggregation.krum_scores(rows, n_byzantine=1), 4, math.inf)
    assert scores == pytest.approx(expected)
    kept = aggregation.mda_subset(sent, n_byzantine=2)
    assert len(kept) == 10 and sent[kept].mean(0) == pytest.approx(aggregation.mda(rows, n_byzantine=1))
    mixed = aggregation.nearest_neighbour_mixing(sent, n_byzantine=2)
    expected = np.insert(aggregation.nearest_neighbour_mixing(rows, n_byzantine=1), 4, rows[:10].mean(0), axis=0)
    assert mixed == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"^vectors must have at most n_byzantine = 0 rows that are not finite"):
        aggregation.squared_distances(sent)


# ---- types, refusals ----


@every_rule
@pytest.mark.parametrize(
    ("dtype", "digits"),
    [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.float16, 2e-3), (torch.bfloat16, 2e-2)],
)
def test_types_and_what_is_left_alone(rule, dtype, digits):
    rows = torch.tensor(some_rows(n=11, d=6)).to(dtype).requires_grad_()
    before = rows.detach().clone()
    out = rule(rows, n_byzantine=2)
    assert (out.dtype, out.shape, out.requires_grad) == (dtype, (6,), False)
    expected = rule(before.double().tolist(), n_byzantine=2)
    assert expected.dtype == np.float64
    assert out.double().numpy() == pytest.approx(expected, rel=digits, abs=digits)
    assert rule(before.t().contiguous().t(), n_byzantine=2).double().numpy() == pytest.approx(expected, abs=digits)
    out.add_(100.0)
    assert torch.equal(rows.detach(), before)
    rows = before.double().numpy()
    out = rule(rows, n_byzantine=2)
    out += 100.0
    assert out.dtype == np.float64 and (rows == before.double().numpy()).all()


@every_rule
def test_the_condition_of_each_rule(rule):
    _, slope, spare = TABLE[rule]
    for f in range(4):
        n = slope * f + spare
        assert np.isfinite(rule(some_rows(n=n), n_byzantine=f)).all()
        with pytest.raises(ValueError, match=rf"^n_byzantine must .*n >= {slope} n_byzantine \+ {spare}, and n is {n}"):
            rule(some_rows(n=n), n_byzantine=f + 1)
    if spare > 1:
        with pytest.raises(ValueError, match=r"^vectors must be at least 3 for this rule, got 2"):
            rule(some_rows(n=2), n_byzantine=0)


def test_what_is_no_matrix_of_numbers_is_refused():
    """By all rules alike; arrays are in `test_bad_input`."""
    for bad in (np.zeros((0, 3)), torch.zeros(5, 2, dtype=torch.int64), torch.zeros(0, 3), torch.zeros(3)):
        with pytest.raises(
            ValueError, match=r"^vectors must be an array or a tensor of floating numbers, of shape \[n"
        ):
            aggregation.median(bad, n_byzantine=0)
