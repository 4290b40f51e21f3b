"""Weights from norms: the bound they promise, their values, and the order in which examples are trimmed."""

import itertools

import numpy as np
import pytest
import torch

from dpml.training.weights import automatic, clip, keep_smallest

NORMS = torch.tensor([0.0, 0.5, 1.0, 2.0, 1e30], dtype=torch.float64)


def test_clip_by_hand():
    assert clip(NORMS, clip_norm=1.0).tolist() == pytest.approx([1.0, 1.0, 1.0, 0.5, 1e-30], rel=1e-15)
    assert clip(NORMS, clip_norm=4.0).tolist() == pytest.approx([1.0, 1.0, 1.0, 1.0, 4e-30], rel=1e-15)


def test_automatic_by_hand():
    got = automatic(NORMS, clip_norm=2.0, stability=0.5)
    assert got.tolist() == pytest.approx([4.0, 2.0, 4 / 3, 0.8, 2e-30], rel=1e-15)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("clip_norm", [1e-30, 1e-3, 1.0, 1e30])
def test_no_weighted_norm_exceeds_the_clip_norm(dtype, clip_norm):
    generator = torch.Generator().manual_seed(1)
    exponents = torch.rand(10_000, generator=generator, dtype=torch.float64) * 74 - 37
    norms = torch.cat([(10.0**exponents).to(dtype), torch.zeros(1, dtype=dtype)])
    slack = 4 * torch.finfo(dtype).eps
    for weights in (clip(norms, clip_norm=clip_norm), automatic(norms, clip_norm=clip_norm, stability=0.01)):
        assert weights.dtype == dtype
        assert torch.isfinite(weights).all()
        assert (weights.double() * norms.double()).max() <= clip_norm * (1 + slack)
    assert (clip(norms, clip_norm=clip_norm) <= 1).all()


def test_infinite_and_undefined_norms():
    weights = clip(torch.tensor([torch.inf, torch.nan]), clip_norm=1.0)
    assert weights[0] == 0.0
    assert torch.isnan(weights[1])


def test_empty():
    empty = torch.zeros(0)
    assert clip(empty, clip_norm=1.0).shape == automatic(empty, clip_norm=1.0, stability=0.1).shape == (0,)
    assert keep_smallest(empty, trim=3, ids=torch.zeros(0, dtype=torch.int64)).shape == (0,)


def test_keep_smallest_against_sorting_pairs():
    rng = np.random.default_rng(2)
    for m in range(1, 9):
        for trim in range(m + 3):
            norms = rng.integers(0, 4, m).astype(float)  # many ties
            ids = rng.permutation(100)[:m]
            kept = sorted(range(m), key=lambda i: (norms[i], ids[i]))[: max(0, m - trim)]
            expected = [i in kept for i in range(m)]
            got = keep_smallest(torch.tensor(norms), trim=trim, ids=torch.tensor(ids))
            assert got.tolist() == expected
            on_device = keep_smallest(torch.tensor(norms), trim=torch.tensor(trim), ids=torch.tensor(ids))
            assert on_device.tolist() == expected


def test_ties_do_not_depend_on_the_order_in_the_batch():
    norms, ids = torch.tensor([1.0, 1.0, 1.0, 0.5]), torch.tensor([7, 3, 9, 8])
    for order in itertools.permutations(range(4)):
        index = torch.tensor(order)
        kept = keep_smallest(norms[index], trim=2, ids=ids[index])
        assert set(ids[index][kept].tolist()) == {8, 3}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_norms_in_lower_precision(dtype):
    norms = torch.tensor([3.0, 1.0, 2.0, 3.0]).to(dtype)
    assert keep_smallest(norms, trim=2, ids=torch.tensor([4, 3, 2, 1])).tolist() == [False, True, True, False]


def test_undefined_norms_are_dropped_first():
    norms = torch.tensor([torch.nan, 1.0, torch.inf, 2.0])
    assert keep_smallest(norms, trim=2, ids=torch.arange(4)).tolist() == [False, True, False, True]


IDS = torch.arange(5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: clip([1.0], clip_norm=1.0), "norms must be a floating tensor with one dimension"),
        (lambda: clip(torch.ones(2, 2), clip_norm=1.0), r"norms must be .* got a tensor of shape \(2, 2\)"),
        (lambda: clip(torch.ones(2, dtype=torch.int64), clip_norm=1.0), "norms must be a floating tensor"),
        (lambda: clip(NORMS, clip_norm=0.0), r"clip_norm must be in \(0, inf\), got 0.0"),
        (lambda: clip(NORMS, clip_norm=float("nan")), "clip_norm must be in"),
        (lambda: clip(NORMS, clip_norm="1"), "clip_norm must be in"),
        (lambda: clip(NORMS.float(), clip_norm=1e-45), "clip_norm must be in .* for torch.float32"),
        (lambda: clip(NORMS.float(), clip_norm=1e39), "clip_norm must be in .* for torch.float32"),
        (lambda: automatic(NORMS, clip_norm=1.0, stability=0.0), r"stability must be in \(0, inf\), got 0.0"),
        (lambda: automatic(NORMS, clip_norm=-1.0, stability=0.1), "clip_norm must be in"),
        (lambda: keep_smallest(NORMS, trim=-1, ids=IDS), "trim must be an integer >= 0, got -1"),
        (lambda: keep_smallest(NORMS, trim=1.0, ids=IDS), "trim must be an integer >= 0"),
        (lambda: keep_smallest(NORMS, trim=torch.tensor(1.0), ids=IDS), "trim must be an integer >= 0 or"),
        (lambda: keep_smallest(NORMS, trim=1, ids=IDS[:4]), r"ids must be an integer tensor of shape \(5,\)"),
        (lambda: keep_smallest(NORMS, trim=1, ids=NORMS), "ids must be an integer tensor"),
        (lambda: keep_smallest(NORMS, trim=1, ids=None), "ids must be an integer tensor"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
