"""The numbers of chapter 07."""

import math

import numpy as np
import pytest

from dpml.pate import m_samp, m_stab, stability


def cell_46(safe):
    counts = [(a, b, 9 - a - b) for a in range(10) for b in range(10 - a)]
    assert safe == sum(stability.distance_to_instability(split) >= 1 for split in counts)
    assert {stability.distance_to_instability(9 * corner) for corner in np.eye(3, dtype=int)} == {4}


def cell_06(says, agreed, distance, winner, truth):
    assert all(agreed) and len(agreed) == 3**5
    says({"98.5 %": np.mean(distance >= 1)}, within=0.005)
    assert abs(np.median(distance) - 37) <= 2
    assert np.mean(winner == truth) == pytest.approx(0.6705, abs=0.005)
    says({"47": stability.distance_to_instability([97, 3]), "46": stability.distance_to_instability([3, 97])})


def cell_13(says):
    at = [float(p) for p in m_stab.release_probability(np.arange(21), epsilon=1.0, delta=1e-5)]
    says({"74,000": 1 / at[1]}, within=500)
    says({r"1.36 \cdot 10^{-5}": at[1], "0.69": at[12], "0.9999": at[20]})
    assert at[11] < 0.5 < at[12] and at[8] < 0.02 and at[16] > 0.98 and at[0] == pytest.approx(5e-6)
    assert m_stab.stability_threshold(epsilon=1.0, delta=1e-5) == pytest.approx(11.5, abs=0.02)


def cell_16(says, exact_delta):
    at_one, at_ten, below = (exact_delta(30, at=at, epsilon=1.0, delta=1e-5) for at in (1.0, 10.0, 0.9))
    says({r"5 \cdot 10^{-6}": at_one})
    assert (at_one, at_ten) == pytest.approx((5e-6, 5e-6), rel=1e-9) and below > 100 * 5e-6
    needed = exact_delta(9, at=1.0, epsilon=1.0, delta=0.05)
    off_by_one = float(m_stab.release_probability(1, epsilon=1.0, delta=0.05))
    says({"0.025": needed, "0.068": off_by_one})
    assert off_by_one == pytest.approx(needed * math.e)
    promise = m_stab.m_stab_privacy(epsilon=1.0, delta=1e-5)
    assert (promise.kind, promise.adjacency) == ("upper bound", "replace-one") and promise.delta == pytest.approx(5e-6)
    says({"0.99999": 1.0 + 2.0 * math.log1p(-5e-6)}, within=2e-5)
    says({"15.4": m_stab.distance_needed(epsilon=1.0, delta=1e-5, beta=0.02)})


def cell_23(says, p, released, answers, winner, truth):
    says({"83 %": p.mean(), "73 %": (p * (winner == truth)).sum() / p.sum()}, within=0.006)
    says({"67 %": np.mean(winner == truth)}, within=0.006)
    assert abs(released.mean() - p.mean()) < 0.03 and (answers[released] == winner[released]).all()


def cell_48(in_part, you):
    random, disjoint = in_part.values()
    assert random[:, you].sum() == 3 and (disjoint.sum(axis=0) == 1).all()


def cell_28(says):
    plan = m_samp.sampling_plan(epsilon=1.0, delta=1e-5, n=100_000)
    cheap = m_samp.sampling_plan_chernoff(epsilon=1.0, delta=1e-5, n=100_000)
    says({"3,125,267": plan.n_models, "21,961": cheap.n_models, "271": plan.q * 100_000})
    gamma = m_samp.sampling_plan(epsilon=2.0, delta=1e-5, n=100_000).q
    assert 1 / (16 * gamma) == pytest.approx(2 * math.log(1e5) / 2)  # both sides are equal
    fails = float(m_stab.fail_probability(1 / (16 * gamma) - 1, epsilon=2.0, delta=1e-5))
    says({r"3.69 \cdot 10^{-5}": fails})
    assert fails == pytest.approx(1e-5 * math.exp(2) / 2)


def cell_36(says, plan, votes, p, draws, line, predicted):
    says({"1,153": plan.n_models, "12,306": m_samp.sampling_plan(epsilon=8.0, delta=1e-3, n=10_000).n_models})
    says({"0.036": plan.q, "362": plan.q * 10_000, "2.98": 1e-3 * math.exp(8)})
    assert votes.most_used <= 2 * plan.q * plan.n_models
    says({"0.979": p.mean()}, within=0.003)
    assert abs(draws.sum() - 400 * p.sum()) <= 6 * math.sqrt(float((p * (1 - p)).sum()) * 400)
    assert line[np.argmin(np.abs(predicted - 0.5))] == pytest.approx(0.635, abs=0.005)


def cell_39(says, recorded, two, rate, nearest_centroid, pixels, truth):
    for row in recorded["rows"]:  # that they keep their predictions is in tests/experiments
        says({"0.979": row["measured_release_rate"]}, within=0.003)
        says({"81 %": row["accuracy_of_the_vote"]})
        assert row["released_as_on_all_records"] == pytest.approx(1.0)
    every = nearest_centroid(pixels, np.ones((1, 10_000), dtype=bool))[0]
    says({"81 %": np.mean(every == np.isin(truth, (0, 2, 4, 6)))})
    assert two.sum() == 200_000 and rate == pytest.approx(0.966, abs=0.005)
