"""The numbers of chapter 06: those of trained networks depend a little on the version of torch."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from dpml.pate import laplace_votes, voting
from dpml.pate import student as accounts


def student(k, b, delta=1e-5):
    return accounts.laplace_student(queries=k, scale=b, delta=delta).epsilon


def cell_45(counts, noisy, label, truth, data):
    assert counts[0].sum() == 250 and noisy.argmax() == counts[0].argmax()
    assert label == data.FASHION_CLASSES[truth[0]]


def cell_06(counts, few_counts, single, few_single, together, few_together, gap, right, share):
    for votes, teachers in ((counts, 250), (few_counts, 25)):
        assert votes.shape == (2000, 10) and (votes.sum(axis=1) == teachers).all()
    assert 0.45 < single < 0.65 < few_single < 0.8
    assert 0.68 < together < 0.82 and 0.7 < few_together < 0.85
    assert share > 0.85 and np.mean(gap[~right] < 50) > 0.5


def cell_42(counts, noisy_argmax, winners):
    """The chapter's two lines and the function of the package draw the same."""
    assert (winners == voting.noisy_argmax(counts, scale=20.0, rng=np.random.default_rng(0))).all()
    assert laplace_votes.laplace_vote_epsilon(scale=20.0) == pytest.approx(0.1)


def cell_09(says, law, loss):
    assert (law[0, 0], law[1, 0], loss) == pytest.approx((1 / 2, math.exp(-2), 2 - math.log(2)))
    says({"1.307": loss})


def cell_11(says):
    logs = voting.argmax_log_probabilities([[1, 19], [0, 20]], scale=1.0)
    says({"1.90": np.abs(logs[0] - logs[1]).max()})
    for e in (0.01, 0.5, 3.0):
        wrong, proper = (voting.argmax_log_probabilities([[1, 1], [0, 2]], scale=b / e)[:, 0] for b in (1, 2))
        assert wrong[0] - wrong[1] == pytest.approx(2 * e - math.log1p(e)) and wrong[0] - wrong[1] > e
        assert proper[0] - proper[1] <= e


def cell_16(accuracies, together):
    _, few, many = accuracies[20.0]
    assert few < 0.4 < 0.6 < many and many > together - 0.1


def cell_20(says, rows):
    assert [by_count for *_, by_count in rows] == pytest.approx([0.769, 2.893, 5.474, 11.348], abs=6e-4)
    for _, _, by_label, by_count in rows[1:]:
        assert 0.63 < by_count / by_label < 0.68  # two thirds
    lam = np.geomspace(1, 100, 2000)
    says({"5.30": np.min((100 * laplace_votes.laplace_moment(lam, scale=20.0) - math.log(1e-5)) / lam)})
    # Without a delta k labels cost k times one; on (1, 1) against (0, 2) about half of it, on clear votes all.
    assert student(100, 20.0, delta=0.0) == pytest.approx(10.0)
    for votes, low, high in (([[1, 1], [0, 2]], 0.4, 0.6), ([[1, 999], [0, 1000]], 0.95, 1.0)):
        a, b = voting.argmax_log_probabilities(votes, scale=20.0)[:, 0]
        assert low < (a - b) / 0.1 < high
    # 100 labels on (1, 1) against (0, 2): the number of wins is all that they tell.
    here, there = voting.argmax_log_probabilities([[1, 1], [0, 2]], scale=20.0)
    wins = np.arange(101)
    lost = wins * (here[0] - there[0]) + (100 - wins) * (here[1] - there[1])
    law = binom.pmf(wins, 100, np.exp(here[0]))
    delta = [law @ np.maximum(0, -np.expm1(epsilon - lost)) for epsilon in (1.968, 1.978)]
    assert delta[1] <= 1e-5 < delta[0]
    says({"1.97": (1.968 + 1.978) / 2, "2.89": student(100, 20.0)})


def cell_22(same_variance):
    for b, laplace, sigma, gauss in same_variance:
        assert 2 * b * b == pytest.approx(sigma * sigma, rel=0.01)
        assert gauss / laplace == pytest.approx(2 / 3, abs=0.02)


def cell_28(says, these_votes, setting, here, there):
    assert there.epsilon > here.epsilon * 1.01
    any_votes = student(100, 20.0)
    clear = these_votes([[200, 6, 6, 6, 6, 6, 5, 5, 5, 5]] * 100, **setting).epsilon
    unclear = these_votes([[75, 20, 20, 20, 20, 19, 19, 19, 19, 19]] * 100, **setting).epsilon
    says({"2.89": any_votes, "0.35": clear})
    assert round(any_votes / clear) == 8 and unclear == pytest.approx(any_votes)


def cell_35(says, rows, costs):
    count, right, score = ({row[0]: row[i] for row in rows} for i in (1, 2, 3))
    assert count["confident GNMax"] <= 200 and count["GNMax"] == 300
    assert 0.55 < right["noisy argmax"] < 0.7 and right["confident GNMax"] > 0.8
    assert right["noisy argmax"] < right["GNMax"] < right["confident GNMax"]
    assert score["true labels"] > 0.72 and min(score.values()) > 0.55
    assert max(score[name] for name in costs) < score["true labels"] - 0.03
    assert abs(score["confident GNMax"] - score["GNMax"]) < 0.06
    says({"2.5": costs["GNMax"].epsilon, "57": 40 * math.sqrt(2), "3.21": costs["confident GNMax"].epsilon})
    assert costs["noisy argmax"].epsilon == pytest.approx(2.5, abs=0.02)
